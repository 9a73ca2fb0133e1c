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


@entry
def gather(source, offset, length, target, position):
    """Copies packets: `length` bytes at `offset` of the source to `position` of the target."""
    for row in range(offset.shape[0]):
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
    key = np.concatenate([r.key[r.at : e] for r, e in zip(active, ends)])
    file = np.repeat(np.arange(len(active)), counts)
    row = np.concatenate([np.arange(r.at, e) for r, e in zip(active, ends)])
    place = np.argsort(key, kind="stable")
    file, row = file[place], row[place]
    batches = [r.batch for r in active]
    for running, end in zip(active, ends):
        running.at = end
    size = np.empty(len(row), np.int64)
    for k, batch in enumerate(batches):
        mine = file == k
        size[mine] = batch.length[row[mine]]
    total = np.cumsum(size)
    at = 0
    while at < len(row):
        room = int(np.searchsorted(total, total[at] - size[at] + _GATHER_BYTES, side="right"))
        end = min(len(row), at + chunk, max(at + 1, room))
        first = int(file[at])
        if (file[at:end] == first).all():
            yield _part(batches[first], int(row[at]), int(row[end - 1]) + 1)
        else:
            yield _gathered(batches, file[at:end], row[at:end])
        at = end


def _part(batch: PacketBatch, start: int, end: int) -> PacketBatch:
    """Rows of one file, without copying their bytes."""
    part = batch.select(slice(start, end))
    low, high = part.first_frame, part.first_frame + len(part)
    part.comments = {k: text for k, text in batch.comments.items() if low <= k < high}
    return part


def _gathered(batches: list[PacketBatch], file: np.ndarray, row: np.ndarray) -> PacketBatch:
    """Rows of several files in a new arena; frames count from 1."""
    columns: dict[str, Any] = {}
    for name in ("length", "wire_length", "time_ns", "link_type", "device", "direction", "mark"):
        columns[name] = np.empty(len(row), getattr(batches[0], name).dtype)
    for k, batch in enumerate(batches):
        mine = file == k
        for name, column in columns.items():
            column[mine] = getattr(batch, name)[row[mine]]
    offset = np.zeros(len(row), np.int64)
    np.cumsum(columns["length"][:-1], out=offset[1:], dtype=np.int64)
    data = np.empty(int(offset[-1]) + int(columns["length"][-1]), np.uint8)
    comments: dict[int, str] = {}
    for k, batch in enumerate(batches):
        mine = np.flatnonzero(file == k)
        if not len(mine):
            continue
        rows = row[mine]
        gather(batch.data, batch.offset[rows], batch.length[rows], data, offset[mine])
        for frame, text in batch.comments.items():
            wanted = frame - batch.first_frame
            found = int(np.searchsorted(rows, wanted))  # rows of one file stay in order
            if found < len(rows) and rows[found] == wanted:
                comments[int(mine[found]) + 1] = text
    return PacketBatch(data=data, offset=offset, first_frame=1, comments=comments, **columns)
