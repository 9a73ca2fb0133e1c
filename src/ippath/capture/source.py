"""One capture file: an arena (the mapped file, or blocks of a stream) and the index over it."""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from ippath.batch import PacketBatch
from ippath.capture.columns import INDEX_BAD, INDEX_MORE, MAX_INTERFACES, Indexed
from ippath.capture.errors import CaptureError, Ending
from ippath.capture.pcap import PcapFormat, is_pcap
from ippath.capture.pcapng import PcapNgFormat, is_pcapng
from ippath.capture.streams import ArrowStream, MemberStream, RawStream, compression, unpacked

STDIN = "-"
STREAM_BLOCK = 4 << 20  # bytes of an arena of a stream; more if a packet needs it
_LEAST_BLOCK = 1 << 16
# A batch spans no more of a mapped file than this: what it touches is resident until the next one.
_MAPPED_SPAN = 64 << 20
_MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Linux; named since Python 3.13
_HEAD = 24  # bytes that tell the format
_EXPECTED = "expected pcap or pcapng, plain or compressed by gzip, xz, bzip2, zstd or lz4"


@dataclass
class Interfaces:
    """The capture interfaces of all files: the same name is the same interface."""

    names: list[str] = field(default_factory=list)
    _numbers: dict[tuple[str, int], int] = field(default_factory=dict)

    def number(self, local: int, name: str) -> int:
        """The number of an interface; those without a name are told apart by their place."""
        key = (name, 0 if name else local)
        if key not in self._numbers:
            if len(self.names) == MAX_INTERFACES:
                return -1
            self._numbers[key] = len(self.names)
            self.names.append(name)
        return self._numbers[key]


class Arena(Protocol):
    """Bytes of a file: `data[at:end]` is what is at hand, `base` the file offset of `data[0]`."""

    data: np.ndarray
    end: int
    base: int

    @property
    def damage(self) -> str:
        """Why the bytes ended, if they ended early."""

    def more(self, at: int, needed: int) -> int:
        """Brings up `needed` bytes from `at` if there are as many; returns the new `at`."""

    def passed(self, at: int) -> None:
        """Nobody is expected to look at bytes before `at` again."""

    def consumed(self, at: int) -> int:
        """Bytes of the file that were used when the index is at `at`."""

    def close(self) -> None:
        """Gives up the file; arrays over it stay valid."""


class MappedArena:
    """A whole file, mapped."""

    def __init__(self, fd: int, size: int, *, keep: bool):
        # Private and writable, so that the array has the one type that the path is compiled for;
        # nothing writes, so no page is ever copied.
        self._map = mmap.mmap(
            fd, size, flags=mmap.MAP_PRIVATE | _MAP_NORESERVE,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )  # fmt: skip
        self._map.madvise(mmap.MADV_SEQUENTIAL)
        self.data = np.frombuffer(self._map, np.uint8)
        self._size, self._keep, self._dropped = size, keep, 0
        self.end, self.base = min(size, _MAPPED_SPAN), 0

    @property
    def damage(self) -> str:
        return ""

    def more(self, at: int, needed: int) -> int:
        self.end = min(self._size, at + max(needed, _MAPPED_SPAN))
        return at

    def passed(self, at: int) -> None:
        if self._keep:
            return
        page = at // mmap.PAGESIZE * mmap.PAGESIZE
        if page - self._dropped >= 1 << 20:
            # pages come back from the file if someone does look
            self._map.madvise(mmap.MADV_DONTNEED, self._dropped, page - self._dropped)
            self._dropped = page

    def consumed(self, at: int) -> int:
        return at

    def close(self) -> None:
        pass  # the mapping lives as long as an array refers to it


class StreamArena:
    """Blocks of a stream; each is a new array, since batches keep theirs."""

    def __init__(
        self, stream: RawStream | MemberStream | ArrowStream, block: int, packed: str = ""
    ):
        self.packed = packed  # the compression
        self._stream, self._block, self._ended = stream, max(block, _LEAST_BLOCK), False
        self.data = np.empty(0, np.uint8)
        self.end, self.base = 0, 0

    @property
    def damage(self) -> str:
        return self._stream.damage

    def more(self, at: int, needed: int) -> int:
        left = self.end - at
        if self._ended or left >= needed:
            return at
        # grow by what has really come: a length field alone must not make us allocate
        size = max(self._block, min(needed, 2 * left + self._block))
        data = np.empty(size, np.uint8)
        data[:left] = self.data[at : self.end]
        self.base += at
        self.data, self.end = data, left
        view = memoryview(data)  # type: ignore[arg-type]
        while self.end < size:
            if self.end >= min(needed, size) and self._stream.quiet():
                break
            n = self._stream.readinto(view[self.end :])
            if not n:
                self._ended = True
                break
            self.end += n
        return 0 if self._ended or self.end >= needed else self.more(0, needed)

    def passed(self, at: int) -> None:
        pass

    def consumed(self, at: int) -> int:
        return self._stream.consumed

    def close(self) -> None:
        self._stream.close()


class Source:
    """One capture file, read in order.

    Opening reads the file header and raises CaptureError if there is nothing that can be read.
    Damage further on ends the packets and sets `ending`.
    """

    def __init__(
        self,
        path: str,
        interfaces: Interfaces,
        *,
        block: int = STREAM_BLOCK,
        keep: bool = False,
    ):
        self.path = "standard input" if path == STDIN else path
        self.ending: Ending | None = None
        self.size = 0  # bytes on disk; 0 if not known
        self.packets = 0
        self._closed = False
        self._arena = self._open(path, block, keep)
        try:
            self._at = self._arena.more(0, _HEAD)
            head = self._arena.data[self._at : self._at + min(_HEAD, self._arena.end)].tobytes()
            self.format = self._recognise(head, interfaces)
        except CaptureError:
            self._arena.close()
            raise
        self._at += self.format.start

    # --- opening ----------------------------------------------------------------------------------

    def _open(self, path: str, block: int, keep: bool) -> Arena:
        if path == STDIN:
            return self._open_stream(RawStream(0, close=False), block)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, ValueError) as problem:
            raise CaptureError(self.path, 0, _reason(problem)) from None
        info = os.fstat(fd)
        if stat.S_ISDIR(info.st_mode):
            os.close(fd)
            raise CaptureError(self.path, 0, "is a folder")
        if not stat.S_ISREG(info.st_mode):
            return self._open_stream(RawStream(fd), block)
        self.size = info.st_size
        try:
            head = os.pread(fd, _HEAD, 0)
        except OSError as problem:
            os.close(fd)
            raise CaptureError(self.path, 0, _reason(problem)) from None
        if not compression(head) and self.size:
            try:
                return MappedArena(fd, self.size, keep=keep)
            except (OSError, ValueError):
                return StreamArena(RawStream(os.dup(fd)), block)  # no mapping on this file system
            finally:
                os.close(fd)
        return self._open_stream(RawStream(fd), block)

    def _open_stream(self, raw: RawStream, block: int) -> StreamArena:
        head = bytearray(_HEAD)
        filled = 0
        while filled < _HEAD:
            n = raw.readinto(memoryview(head)[filled:])
            if not n:
                break
            filled += n
        head = head[:filled]
        raw.unread(bytes(head))
        name = compression(bytes(head))
        if not name:
            return StreamArena(raw, block)
        try:
            return StreamArena(unpacked(raw, name), block, name)
        except ImportError:
            raw.close()
            why = f"is compressed by {name}, which needs the Python package pyarrow"
            raise CaptureError(self.path, 0, why) from None

    def _recognise(self, head: bytes, interfaces: Interfaces) -> PcapFormat | PcapNgFormat:
        damage = self._arena.damage
        try:
            if is_pcap(head):
                return PcapFormat(head, interfaces.number(0, ""))
            if is_pcapng(head):
                return PcapNgFormat(head, interfaces.number)
        except ValueError as problem:
            offset, why = problem.args
            raise CaptureError(
                self.path, offset, f"{why}{f' ({damage})' if damage else ''}"
            ) from None
        if damage:
            raise CaptureError(self.path, 0, damage)
        if not head:
            raise CaptureError(self.path, 0, "is empty; " + _EXPECTED)
        packed = getattr(self._arena, "packed", "")
        what = f"its {packed} data starts" if packed else "starts"
        raise CaptureError(self.path, 0, f"not a capture: {what} with {_shown(head)}; {_EXPECTED}")

    # --- packets ----------------------------------------------------------------------------------

    @property
    def bytes_read(self) -> int:
        """Bytes of the file that were used so far."""
        return self._arena.consumed(self._at)

    def read(self, limit: int) -> PacketBatch | None:
        """The next packets, 1 to `limit` of them, over one arena; None at the end.

        Frame numbers count the packets of this file.  Comments are keyed by them.
        """
        arena = self._arena
        while not self._closed:
            arena.passed(self._at)
            found = self.format.index(arena.data, self._at, arena.end, limit)
            self._at = found.next
            if found.code == INDEX_BAD:
                self._finish(found.why)
            elif found.code == INDEX_MORE and not len(found.offset):
                before = arena.base + arena.end
                self._at = arena.more(self._at, found.needed)
                if arena.base + arena.end == before:
                    cut = found.why if arena.end > self._at else ""
                    self._finish("; ".join(w for w in (arena.damage, cut) if w))
            if len(found.offset):
                return self._batch(found, arena.data)
        return None

    def _batch(self, found: Indexed, data: np.ndarray) -> PacketBatch:
        n = len(found.offset)
        first, self.packets = self.packets + 1, self.packets + n
        comments: dict[int, str] = {}
        for row, text in found.comments:
            frame = first + row
            comments[frame] = f"{comments[frame]}\n{text}" if frame in comments else text
        return PacketBatch(
            data=data, offset=found.offset, length=found.length, wire_length=found.wire_length,
            time_ns=found.time_ns, link_type=found.link_type, device=found.device,
            direction=found.direction, mark=np.zeros(n, np.int64), first_frame=first,
            comments=comments,
        )  # fmt: skip

    def _finish(self, why: str) -> None:
        if why:
            self.ending = Ending(self.path, self._arena.base + self._at, why)
        self._closed = True
        self._arena.passed(self._at)
        self._arena.close()

    def close(self) -> None:
        """Gives up the file; batches stay valid."""
        if not self._closed:
            self._closed = True
            self._arena.close()


def looks_like_capture(path: Path) -> bool:
    """Whether a file of a folder is a capture by its first bytes, compressed or not."""
    try:
        Source(str(path), Interfaces(), block=_LEAST_BLOCK).close()
    except CaptureError as problem:
        return not problem.why.startswith(("not a capture", "is empty", "is a folder"))
    return True


def _reason(problem: Exception) -> str:
    if isinstance(problem, FileNotFoundError):
        return "no such file"
    if isinstance(problem, PermissionError):
        return "may not be read (permission denied)"
    return f"cannot be opened: {getattr(problem, 'strerror', None) or problem}"


def _shown(head: bytes) -> str:
    text = head[:8]
    if all(32 <= b < 127 for b in text):
        return f"{text.decode()!r}"
    return text.hex(" ")
