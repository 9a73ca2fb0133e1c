"""Several captures as one stream in the order of time.

Each file keeps its own order: a packet with an earlier time than the one before it in the same file
comes right behind that one.  At equal times the file named first goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ippath.batch import PacketBatch
from ippath.capture.source import Source
from ippath.jit import entry
from ippath.wire.memory import copy

_GATHER_BYTES = 16 << 20  # packets of several files are copied into arenas of about this size
_LEAST_ROWS = 256
ALWAYS = -(1 << 63)  # first time of a file that must be opened at once


_COPIED = ("length", "wire_length", "time_ns", "link_type", "device", "direction", "mark")


@entry
def gather(source, offset, length, target, position, rows):
    """Copies the packets of `rows`: `length` bytes at `offset` of the source to `position`."""
    for k in range(rows.shape[0]):
        row = rows[k]
        copy(target, position[row], source, offset[row], length[row])


@dataclass
class Waiting:
    """A file that takes part from its first packet's time on."""

    order: int
    first_time: int
    open: Callable[[], Source]


@dataclass
class _Running:
    order: int
    source: Source
    batch: PacketBatch
    key: np.ndarray  # greatest time so far: the place in the merged stream
    at: int = 0


def _load(running: _Running, limit: int) -> bool:
    """The next packets of a file; False at its end."""
    before = int(running.key[-1]) if len(running.key) else ALWAYS
    batch = running.source.read(limit)
    if batch is None:
        return False
    running.batch, running.at = batch, 0
    running.key = np.maximum.accumulate(np.maximum(batch.time_ns, before))
    return True


def merged(
    files: list[Waiting], chunk: int, finished: Callable[[Source], None]
) -> Iterator[PacketBatch]:
    """Batches of up to `chunk` packets, frames counted over the whole stream.

    Files are opened when their time comes, and given to `finished` at their end.
    """
    waiting = sorted(files, key=lambda w: (w.first_time, w.order), reverse=True)
    active: list[_Running] = []
    frame = 1
    while waiting or active:
        limit = max(min(_LEAST_ROWS, chunk), chunk // max(1, len(active)))
        for running in list(active):
            if running.at == len(running.key) and not _load(running, limit):
                active.remove(running)
                finished(running.source)
        while waiting and (
            not active or (waiting[-1].first_time, waiting[-1].order) <= _bound(active)
        ):
            start = waiting.pop()
            running = _Running(
                start.order, start.open(), PacketBatch.from_packets([]), np.empty(0, np.int64)
            )
            if _load(running, limit):
                active.append(running)
            else:
                finished(running.source)
        if active:
            for batch in _emit(active, chunk):
                batch.first_frame, shift = frame, frame - batch.first_frame
                if shift and batch.comments:
                    batch.comments = {k + shift: text for k, text in batch.comments.items()}
                frame += len(batch)
                yield batch


def _bound(active: list[_Running]) -> tuple[int, int]:
    """Up to this (time, order) all packets are at hand."""
    return min((int(r.key[-1]), r.order) for r in active)


def _emit(active: list[_Running], chunk: int) -> Iterator[PacketBatch]:
    """All packets up to the bound, in order; frames count from 1."""
    active.sort(key=lambda r: r.order)
    time, order = _bound(active)
    ends = [
        int(np.searchsorted(r.key, time, side="right" if r.order <= order else "left"))
        for r in active
    ]
    ends = [max(e, r.at) for e, r in zip(ends, active)]
    counts = [e - r.at for e, r in zip(ends, active)]
    if sum(map(bool, counts)) == 1:
        k = next(k for k, n in enumerate(counts) if n)
        running, end = active[k], ends[k]
        start, running.at = running.at, end
        for at in range(start, end, chunk):
            yield _part(running.batch, at, min(end, at + chunk))
        return
    parts = [r.batch.select(slice(r.at, e)) for r, e in zip(active, ends)]
    key = np.concatenate([r.key[r.at : e] for r, e in zip(active, ends)])
    for running, end in zip(active, ends):
        running.at = end
    yield from _interleaved(parts, np.argsort(key, kind="stable"), chunk)


def _interleaved(parts: list[PacketBatch], place: np.ndarray, chunk: int) -> Iterator[PacketBatch]:
    """The packets of all parts, `place[k]` the k-th of them; frames count from 1."""
    file = np.repeat(np.arange(len(parts)), [len(p) for p in parts])[place]
    columns: dict[str, Any] = {}
    for name in ("offset", *_COPIED, "frames"):
        wanted = "frame_numbers" if name == "frames" else name
        columns[name] = np.concatenate([getattr(p, wanted) for p in parts])[place]
    total = np.cumsum(columns["length"], dtype=np.int64)
    at, n = 0, len(place)
    while at < n:
        before = int(total[at - 1]) if at else 0
        room = int(np.searchsorted(total, before + _GATHER_BYTES, side="right"))
        end = min(n, at + chunk, max(at + 1, room))
        rows = slice(at, end)
        some = {name: column[rows] for name, column in columns.items()}
        frames, mine = some.pop("frames"), file[rows]
        # rows of one file are together in `order`, and still in the order of the file
        order = np.argsort(mine, kind="stable")
        borders = np.searchsorted(mine[order], np.arange(len(parts) + 1))
        present = [k for k in range(len(parts)) if borders[k] < borders[k + 1]]
        comments: dict[int, str] = {}
        for k in present:
            if parts[k].comments:
                places = order[borders[k] : borders[k + 1]]
                _place_comments(parts[k].comments, frames[places], places, comments)
        if len(present) == 1:
            data = parts[present[0]].data
        else:
            offset = np.zeros(end - at, np.int64)
            np.cumsum(some["length"][:-1], out=offset[1:], dtype=np.int64)
            data = np.empty(int(total[end - 1]) - before, np.uint8)
            for k in present:
                places = order[borders[k] : borders[k + 1]]
                gather(parts[k].data, some["offset"], some["length"], data, offset, places)
            some["offset"] = offset
        yield PacketBatch(data=data, first_frame=1, comments=comments, **some)
        at = end


def _place_comments(
    texts: dict[int, str], frames: np.ndarray, places: np.ndarray, found: dict[int, str]
) -> None:
    """Notes in `found` the comments of these frames by their place in the batch, from 1."""
    for frame, text in texts.items():
        row = int(np.searchsorted(frames, frame))
        if row < len(frames) and frames[row] == frame:
            found[int(places[row]) + 1] = text


def _part(batch: PacketBatch, start: int, end: int) -> PacketBatch:
    """Rows of one file, without copying their bytes."""
    part = batch.select(slice(start, end))
    low, high = part.first_frame, part.first_frame + len(part)
    part.comments = {k: text for k, text in batch.comments.items() if low <= k < high}
    return part
