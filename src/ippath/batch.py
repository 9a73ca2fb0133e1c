"""PacketBatch: one byte arena and columns, the form in which packets travel through ippath.

Nothing here copies packet bytes: the arena of a memory-mapped capture is the file itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

# link types: the numbers of LINKTYPE_ (tcpdump.org/linktypes.html)
LINK_NULL = 0
LINK_ETHERNET = 1
LINK_PPP = 9
LINK_PPP_HDLC = 50
LINK_PPP_ETHER = 51
LINK_RAW = 101
LINK_LOOP = 108
LINK_LINUX_SLL = 113
LINK_IEEE802154 = 195  # with a frame check sequence
LINK_IPV4 = 228
LINK_IPV6 = 229
LINK_IEEE802154_NOFCS = 230
LINK_LINUX_SLL2 = 276
LINK_IEEE802154_TAP = 283
LINKS_IEEE802154 = (LINK_IEEE802154, LINK_IEEE802154_NOFCS, LINK_IEEE802154_TAP)

# direction, where the capture knows it
DIRECTION_UNKNOWN = 0
DIRECTION_IN = 1
DIRECTION_OUT = 2
DIRECTION_LOOPED = 16  # the host sent it to itself; the type of its route is added


@dataclass
class PacketBatch:
    """`n` packets in one arena.

    | column        | dtype        | meaning                                                     |
    |---------------|--------------|-------------------------------------------------------------|
    | `data`        | uint8[bytes] | the arena, C-contiguous, writable dtype (the path never writes) |
    | `offset`      | int64[n]     | first byte of the packet's link-level header in `data`      |
    | `length`      | int32[n]     | captured bytes                                              |
    | `wire_length` | int32[n]     | bytes on the wire, >= length when the capture was snapped   |
    | `time_ns`     | int64[n]     | nanoseconds since 1970-01-01 UTC                            |
    | `link_type`   | int32[n]     | LINKTYPE_ number                                            |
    | `device`      | int32[n]     | capture interface number; after `Netns` mapped it, the host's device row |
    | `direction`   | int32[n]     | DIRECTION_*                                                 |
    | `mark`        | int64[n]     | packet mark (fwmark)                                        |
    """

    data: np.ndarray
    offset: np.ndarray
    length: np.ndarray
    wire_length: np.ndarray
    time_ns: np.ndarray
    link_type: np.ndarray
    device: np.ndarray
    direction: np.ndarray
    mark: np.ndarray
    first_frame: int = 1  # frame number of packet 0, counted from 1 as Wireshark does
    interfaces: list[str] = field(default_factory=list)  # names behind `device` before mapping
    comments: dict[int, str] = field(default_factory=dict)  # frame number -> packet comment
    frames: np.ndarray | None = None  # int64[n] frame numbers, where they do not follow first_frame

    def __len__(self) -> int:
        return int(self.offset.shape[0])

    def __post_init__(self) -> None:
        for name, dtype in _COLUMNS.items():
            column: np.ndarray = np.ascontiguousarray(getattr(self, name), dtype=dtype)
            setattr(self, name, column)
            if name != "data" and column.shape != self.offset.shape:
                raise ValueError(f"column {name} has shape {column.shape}, not {self.offset.shape}")
        if self.frames is not None:
            self.frames = np.ascontiguousarray(self.frames, np.int64)
            if self.frames.shape != self.offset.shape:
                raise ValueError(f"frames has shape {self.frames.shape}, not {self.offset.shape}")

    def gather(self, rows: np.ndarray, at: np.ndarray, count: int) -> np.ndarray:
        """Bytes [at, at + count) of some packets, which hold them: uint8[len(rows), count]."""
        starts = self.offset[rows] + at
        return self.data[starts[:, None] + np.arange(count)]

    @property
    def frame_numbers(self) -> np.ndarray:
        """The frame number of each packet, int64[n]."""
        if self.frames is not None:
            return self.frames
        return self.first_frame + np.arange(len(self), dtype=np.int64)

    @classmethod
    def from_packets(
        cls,
        packets: Sequence[bytes],
        *,
        link_type: int = LINK_RAW,
        device: int | Sequence[int] = 0,
        time_ns: int | Sequence[int] = 0,
        interval_ns: int = 0,
        wire_length: Sequence[int] | None = None,
        mark: int = 0,
    ) -> PacketBatch:
        """A batch from bytes objects; packet k has time `time_ns + k * interval_ns`."""
        n = len(packets)
        length = np.fromiter((len(p) for p in packets), np.int32, n)
        offset = np.zeros(n, np.int64)
        np.cumsum(length[:-1], out=offset[1:])
        data = np.frombuffer(bytearray(b"".join(packets)), np.uint8)
        times = np.full(n, time_ns, np.int64) if np.isscalar(time_ns) else np.array(time_ns)
        return cls(
            data=data,
            offset=offset,
            length=length,
            wire_length=length.copy() if wire_length is None else np.array(wire_length),
            time_ns=times + interval_ns * np.arange(n, dtype=np.int64),
            link_type=np.full(n, link_type),
            device=np.full(n, device) if np.isscalar(device) else np.array(device),
            direction=np.zeros(n),
            mark=np.full(n, mark),
        )

    @classmethod
    def read(cls, path: str | Path, limit: int | None = None) -> PacketBatch:
        """All packets (or the first `limit`) of one capture file as a single batch.

        Raises `ippath.capture.CaptureError` if nothing could be read; a file that ends early
        yields what was readable (see `ippath.capture.open_captures` for where and why it ended).
        """
        from ippath.capture import read_batch

        return read_batch(path, limit)

    def packet(self, index: int) -> bytes:
        """The captured bytes of packet `index`, link-level header included."""
        start = int(self.offset[index])
        return self.data[start : start + int(self.length[index])].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return (self.packet(k) for k in range(len(self)))

    def select(self, rows: slice | np.ndarray) -> PacketBatch:
        """The chosen packets over the same arena, under their old frame numbers."""
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS if name != "data"}
        first, frames = self.first_frame, None
        if self.frames is None and isinstance(rows, slice) and rows.step in (None, 1):
            first += rows.indices(len(self))[0]
        else:
            frames = self.frame_numbers[rows]
            first = int(frames[0]) if len(frames) else first
        return PacketBatch(
            data=self.data,
            **columns,
            first_frame=first,
            interfaces=self.interfaces,
            comments=self.comments,
            frames=frames,
        )


def concatenate(batches: Iterable[PacketBatch]) -> PacketBatch:
    """One batch with all packets, in the order given.

    Frame numbers are kept where they increase, else counted anew from the first part's.  Bytes are copied into a new arena, unless all batches share one already.
    """
    parts = list(batches)
    arenas = {id(p.data): p.data for p in parts}
    sizes = [arena.shape[0] for arena in arenas.values()]
    shift = dict(zip(arenas, np.cumsum([0] + sizes)))
    columns = {
        name: np.concatenate([getattr(p, name) for p in parts])
        for name in _COLUMNS
        if name not in ("data", "offset")
    }
    numbers = np.concatenate([p.frame_numbers for p in parts])
    first = parts[0].first_frame
    steps = np.diff(numbers)
    kept = bool((steps > 0).all()) and bool((steps != 1).any())
    comments: dict[int, str] = {}
    for part in parts:
        comments.update(part.comments)
    return PacketBatch(
        data=parts[0].data if len(arenas) == 1 else np.concatenate(list(arenas.values())),
        offset=np.concatenate([p.offset + shift[id(p.data)] for p in parts]),
        **columns,
        first_frame=first,
        interfaces=max((p.interfaces for p in parts), key=len),
        comments=comments,
        frames=numbers if kept else None,
    )


_COLUMNS: dict[str, type] = {
    "data": np.uint8,
    "offset": np.int64,
    "length": np.int32,
    "wire_length": np.int32,
    "time_ns": np.int64,
    "link_type": np.int32,
    "device": np.int32,
    "direction": np.int32,
    "mark": np.int64,
}
