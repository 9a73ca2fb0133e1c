"""What can only be seen while the packets pass: where drops were bound for, and times.

Everything here is bounded, whatever the capture: a flood of random destinations takes no more
memory than its most frequent ones.
"""

from __future__ import annotations

import ipaddress

import numpy as np

from ippath.batch import PacketBatch
from ippath.reasons import DROPPED, REASON_NAMES, VERDICTS
from ippath.verdicts import Verdicts

MERGE_AT = 1 << 19  # rows (32 bytes each) that wait before equal ones are merged
KEPT = 1 << 15  # rows that survive when there are more after merging
# (family, bytes of a header that hold the destination)
_PLACES = ((4, 16, 4), (6, 24, 16))
_ROW = np.dtype(
    [
        ("key", np.uint64),
        ("count", np.int64),
        ("reason", np.int16),
        ("family", np.int16),
        ("address", "V16"),
    ]
)


class Watch:
    """Fed every batch with its verdicts.

    | attribute       | meaning                                                            |
    |-----------------|--------------------------------------------------------------------|
    | `by_reason`     | int64[verdicts, reasons]: packets                                  |
    | `unchecked`     | packets whose checksum the capture was too short to verify         |
    | `first_time_ns`, `last_time_ns` | smallest and largest time stamp, None without packets |
    """

    def __init__(self) -> None:
        self.by_reason = np.zeros((len(VERDICTS), len(REASON_NAMES)), np.int64)
        self.unchecked = 0
        self.first_time_ns: int | None = None
        self.last_time_ns: int | None = None
        self.destinations = DropDestinations()

    def add(self, batch: PacketBatch, verdicts: Verdicts) -> None:
        """Take notice of a batch and what became of it."""
        if not len(batch):
            return
        reasons = len(REASON_NAMES)
        both = verdicts.verdict.astype(np.int64) * reasons + verdicts.reason
        self.by_reason += np.bincount(both, minlength=self.by_reason.size).reshape(-1, reasons)
        self.unchecked += int(np.count_nonzero(verdicts.unchecked))
        first, last = int(batch.time_ns.min()), int(batch.time_ns.max())
        self.first_time_ns = first if self.first_time_ns is None else min(self.first_time_ns, first)
        self.last_time_ns = last if self.last_time_ns is None else max(self.last_time_ns, last)
        self.destinations.add(batch, verdicts)

    @property
    def span_seconds(self) -> float:
        """Seconds between the first and the last packet."""
        if self.first_time_ns is None or self.last_time_ns is None:
            return 0.0
        return (self.last_time_ns - self.first_time_ns) / 1e9


class DropDestinations:
    """How often each destination was dropped, by reason; exact until `approximate` is set."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self._waiting = 0
        self.approximate = False

    def add(self, batch: PacketBatch, verdicts: Verdicts) -> None:
        """Count the dropped packets of a batch."""
        dropped = np.flatnonzero(verdicts.verdict == DROPPED)
        if not len(dropped):
            return
        network = verdicts.network[dropped].astype(np.int64)
        families, reasons = verdicts.family[dropped], verdicts.reason[dropped]
        length = batch.length[dropped]
        for family, at, width in _PLACES:
            whole = (network >= 0) & (network + at + width <= length)
            chosen = np.flatnonzero((families == family) & whole)
            if len(chosen):
                found = batch.gather(dropped[chosen], network[chosen] + at, width)
                self._count(found, reasons[chosen], family)
        if self._waiting > MERGE_AT:
            self._merge()

    def _count(self, addresses: np.ndarray, reasons: np.ndarray, family: int) -> None:
        padded = np.zeros((len(addresses), 16), np.uint8)
        padded[:, : addresses.shape[1]] = addresses
        words = padded.view(np.uint64)
        key = _mix(_mix(words[:, 0] + np.uint64(family)) + words[:, 1])
        key = _mix(key + reasons.astype(np.uint64))
        unique, index, counts = np.unique(key, return_index=True, return_counts=True)
        rows = np.zeros(len(unique), _ROW)
        rows["key"], rows["count"] = unique, counts
        rows["reason"], rows["family"] = reasons[index], family
        rows["address"] = padded[index].view("V16").ravel()
        self._parts.append(rows)
        self._waiting += len(rows)

    def _merge(self) -> np.ndarray:
        if not self._parts:
            return np.zeros(0, _ROW)
        rows = np.concatenate(self._parts)
        unique, index, inverse = np.unique(rows["key"], return_index=True, return_inverse=True)
        merged = rows[index]
        merged["count"] = np.bincount(inverse, rows["count"], len(unique)).astype(np.int64)
        if len(merged) > KEPT:
            merged = merged[np.argpartition(merged["count"], -KEPT)[-KEPT:]]
            self.approximate = True
        self._parts, self._waiting = [merged], 0
        return merged

    def top(self, reason: int, most: int = 5) -> list[tuple[str, int]]:
        """The destinations dropped most for that reason code: (address, packets), most first."""
        rows = self._merge()
        rows = rows[rows["reason"] == reason]
        named = [(_text(row), int(row["count"])) for row in rows[_largest(rows["count"], most)]]
        return sorted(named, key=lambda pair: (-pair[1], pair[0]))


def _largest(counts: np.ndarray, most: int) -> np.ndarray:
    return np.argsort(-counts, kind="stable")[:most]


def _mix(words: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit words that spreads them (the finaliser of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _text(row: np.ndarray) -> str:
    raw = bytes(row["address"])
    return str(ipaddress.ip_address(raw[:4] if row["family"] == 4 else raw))
