"""Open captures: files, folders, standard input, as one stream of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from ippath.batch import PacketBatch, concatenate
from ippath.capture.errors import CaptureError, Ending
from ippath.capture.filter import PacketFilter
from ippath.capture.merge import ALWAYS, Waiting, merged
from ippath.capture.source import (
    STDIN, STREAM_BLOCK, Interfaces, Source, looks_like_capture,
)  # fmt: skip

CHUNK = 65536  # packets: fewer cost more calls, more leave the processor's caches
_STREAM_TOTAL = 64 << 20  # arenas of all files of a merge together
_MOST_COMMENTS = 100_000  # kept for the whole run; batches carry all of theirs


class Captures:
    """Captures that are being read: iterate once for batches, then look at `endings`.

    A context manager; see `open_captures`.
    """

    interfaces: list[str]
    """Names behind `batch.device`, "" where the file has none; grows while reading."""
    endings: list[Ending]
    """The files that ended early, where and why."""
    comments: dict[int, str]
    """Frame number -> packet comment, of what was read so far (at most 100,000)."""
    notes: list[str]
    """Comments on files, sections and interfaces."""
    skipped: list[str]
    """Files of named folders that are no captures."""

    def __init__(
        self,
        paths: Sequence[str],
        packet_filter: PacketFilter | None,
        chunk: int,
        merge: bool,
        keep: bool,
        skipped: list[str],
    ):
        self.packet_filter, self._chunk, self._merge, self._keep = packet_filter, chunk, merge, keep
        self._names = Interfaces()
        self.interfaces = self._names.names
        self.endings, self.comments, self.notes = [], {}, []
        self.skipped = skipped
        self.paths = list(paths)
        self.packets_read = 0
        self._open: list[Source] = []
        self._finished_bytes = 0
        self.bytes_total: int | None = 0
        block = max(1 << 18, min(STREAM_BLOCK, _STREAM_TOTAL // max(1, len(self.paths))))
        self._files: list[Waiting] = []
        self._links: set[int] = set()
        try:
            for order, path in enumerate(self.paths):
                self._files.append(self._look_at(order, path, block))
            if packet_filter is not None:
                packet_filter.check(self._links)
        except BaseException:
            self.close()
            raise

    def _look_at(self, order: int, path: str, block: int) -> Waiting:
        """Opens a file to see whether it is a capture, and when it begins."""

        def start() -> Source:
            source = Source(path, self._names, block=block, keep=self._keep)
            self._open.append(source)
            return source

        source = start()
        if source.size and self.bytes_total is not None:
            self.bytes_total += source.size
        else:
            self.bytes_total = None
        if len(self.paths) == 1 or not source.size:
            self._links |= set(source.format.link_types)
            return Waiting(order, ALWAYS, lambda: source)  # a pipe cannot be opened again
        first = source.read(1)
        self._links |= set(source.format.link_types)
        source.close()
        self._open.remove(source)
        return Waiting(order, ALWAYS if first is None else int(first.time_ns[0]), start)

    @property
    def bytes_read(self) -> int:
        """Bytes of the files (as stored) that were used so far."""
        return self._finished_bytes + sum(s.bytes_read for s in self._open)

    def _finished(self, source: Source) -> None:
        self._open.remove(source)
        self._finished_bytes += source.size or source.bytes_read
        if source.ending is not None:
            self.endings.append(source.ending)
        self.notes += getattr(source.format, "notes", [])
        source.close()

    def _one_by_one(self, files: list[Waiting]) -> Iterator[PacketBatch]:
        frame = 1
        for file in files:
            for batch in merged([file], self._chunk, self._finished):
                batch.first_frame, shift = frame, frame - batch.first_frame
                batch.comments = {k + shift: text for k, text in batch.comments.items()}
                frame += len(batch)
                yield batch

    def __iter__(self) -> Iterator[PacketBatch]:
        files, self._files = self._files, []
        if self._merge:
            batches = merged(files, self._chunk, self._finished)
        else:
            batches = self._one_by_one(files)
        for batch in batches:
            batch.interfaces = self.interfaces
            self.packets_read += len(batch)
            if batch.comments and len(self.comments) < _MOST_COMMENTS:
                self.comments.update(batch.comments)
            if self.packet_filter is not None:
                keep = self.packet_filter.matches(batch)
                if not keep.all():
                    if not keep.any():
                        continue
                    batch = batch.select(np.flatnonzero(keep))
            yield batch

    def close(self) -> None:
        """Closes the files; batches stay valid."""
        for source in self._open:
            source.close()
        self._open = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _expand(paths: Iterable[str | Path]) -> tuple[list[str], list[str]]:
    """(capture files, other files of folders): folders give their captures in order of name."""
    files: list[str] = []
    skipped: list[str] = []
    for path in paths:
        if str(path) == STDIN or not Path(path).is_dir():
            files.append(str(path))
            continue
        try:
            inside = sorted(p for p in Path(path).iterdir() if p.name[0] != "." and p.is_file())
        except OSError as problem:
            raise CaptureError(str(path), 0, f"cannot be listed: {problem.strerror}") from None
        found = [str(p) for p in inside if looks_like_capture(p)]
        if not found:
            why = f"no captures among the {len(inside)} files of this folder"
            raise CaptureError(str(path), 0, why if inside else "this folder has no files")
        files += found
        skipped += sorted({str(p) for p in inside} - set(found))
    return files, skipped


def open_captures(
    paths: str | Path | Iterable[str | Path],
    *,
    filter: str | None = None,
    chunk: int = CHUNK,
    merge: bool = True,
    keep: bool = False,
) -> Captures:
    """Captures as a stream of `PacketBatch`, each of 1 to `chunk` packets over one arena.

    `paths` are files, folders (their captures, not those of folders inside), or `-` for standard
    input.  With `merge` several files become one stream in the order of time, otherwise they
    follow each other as named.  Frames are numbered over the whole stream.  `filter` is a tcpdump
    expression; where it removes packets, `batch.frames` has the numbers of those that are left.
    `keep` leaves the pages of mapped files resident behind the reader.

    Raises CaptureError for a file from which nothing can be read, FilterError for a filter that
    cannot be used.  Files that end early give what is readable, and an entry of `endings`.
    """
    if isinstance(paths, (str, Path)):
        paths = [paths]
    if chunk < 1:
        raise ValueError(f"chunk is {chunk}, expected at least 1")
    packet_filter = PacketFilter(filter) if filter and filter.strip() else None
    files, skipped = _expand(paths)
    if files.count(STDIN) > 1:
        raise CaptureError("standard input", 0, "is named more than once")
    return Captures(files, packet_filter, chunk, merge, keep, skipped)


def read_batch(path: str | Path, limit: int | None = None) -> PacketBatch:
    """All packets (or the first `limit`) of a capture or a folder of captures as one batch.

    Raises CaptureError if nothing can be read.  A mapped file is the arena itself.
    """
    parts: list[PacketBatch] = []
    left = limit if limit is not None else 1 << 62
    chunk = max(1, min(left, CHUNK))
    with open_captures(path, chunk=chunk, keep=True) as captures:
        for batch in captures if left > 0 else ():
            parts.append(batch.select(slice(0, left)) if len(batch) > left else batch)
            left -= len(parts[-1])
            if left <= 0:
                break
    if not parts:
        batch = PacketBatch.from_packets([])
    else:
        batch = parts[0] if len(parts) == 1 else concatenate(parts)
    batch.interfaces = list(captures.interfaces)
    return batch
