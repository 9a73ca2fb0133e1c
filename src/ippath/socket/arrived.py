"""One datagram or error as the packet path kept it for a socket."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ippath import tables as T
from ippath.socket.addresses import Name

_MASK = (1 << 64) - 1


class Arrived(NamedTuple):
    """A row of TAKEN_* columns and its payload; `segment` is the size of the parts it was put together from."""

    row: list[int]
    payload: bytes
    segment: int = 0

    @property
    def family(self) -> int:
        """4 or 6."""
        return self.row[T.TAKEN_FAMILY]

    @property
    def source(self) -> Name:
        """Who sent it; the scope is that of link-local addresses."""
        return Name(self._whole(T.TAKEN_SRC_HI), self.row[T.TAKEN_SPORT])

    @property
    def destination(self) -> Name:
        """Where it went to."""
        return Name(self._whole(T.TAKEN_DST_HI), self.row[T.TAKEN_DPORT])

    def _whole(self, high: int) -> int:
        if self.family == 4:
            return self.row[high + 1]
        return (self.row[high] & _MASK) << 64 | self.row[high + 1] & _MASK


def each_arrived(rows: np.ndarray, data: np.ndarray) -> list[Arrived]:
    """The rows one by one."""
    raw = data.tobytes()
    return [
        Arrived(row, raw[row[T.TAKEN_OFFSET] : row[T.TAKEN_OFFSET] + row[T.TAKEN_LENGTH]])
        for row in rows.tolist()
    ]


# what datagrams must have in common to be joined
_FLOW = (
    T.TAKEN_KIND, T.TAKEN_DEVICE, T.TAKEN_FAMILY, T.TAKEN_SRC_HI, T.TAKEN_SRC_LO, T.TAKEN_SPORT,
    T.TAKEN_DST_HI, T.TAKEN_DST_LO, T.TAKEN_DPORT, T.TAKEN_TTL, T.TAKEN_TOS, T.TAKEN_VALID,
)  # fmt: skip
MOST_JOINED, MOST_BYTES = 64, 65000  # UDP_GRO_CNT_MAX, what fits an IP packet
OVERHEAD = 832  # of a packet whose bytes lie in pages


def coalesce(arrived: list[Arrived]) -> list[Arrived]:
    """Neighbours of one flow as one: all as long as the first, the last may be shorter.

    What this host sent itself belongs together only if it was one message (its cause is negative
    then).  Kernel: udp_gro_receive_segment.
    """
    groups: list[list[Arrived]] = []
    flow: list[int] = []
    for one in arrived:
        mine = [one.row[column] for column in _FLOW]
        group = groups[-1] if groups else []
        if group and mine == flow and _fits(group, one):
            group.append(one)
        else:
            groups.append([one])
            flow = mine
    return [_join(group) if len(group) > 1 else group[0] for group in groups]


def _fits(group: list[Arrived], one: Arrived) -> bool:
    first, last = group[0], group[-1]
    cause, other = one.row[T.TAKEN_CAUSE], first.row[T.TAKEN_CAUSE]
    if one.row[T.TAKEN_KIND] == T.TAKEN_ERROR or not one.payload:
        return False
    if cause <= 0 or other <= 0:
        if cause != other or cause == 0:
            return False
    elif len(group) == MOST_JOINED:
        return False
    size = len(first.payload)
    total = sum(len(o.payload) for o in group) + len(one.payload)
    return len(last.payload) == size >= len(one.payload) and total <= MOST_BYTES + size


def _join(group: list[Arrived]) -> Arrived:
    payload = b"".join(one.payload for one in group)
    row = list(group[0].row)
    row[T.TAKEN_LENGTH], row[T.TAKEN_CHARGE] = len(payload), OVERHEAD + len(payload)
    return Arrived(row, payload, len(group[0].payload))
