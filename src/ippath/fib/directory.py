"""Directories in front of a table's intervals, so that a search starts where it nearly ends.

The first level has an entry for each beginning of 16 bits: the page of the intervals there, which
begins with the one that holds the slot's first address.  Where more than DENSE intervals start within one
slot, the entry is the negated place of a directory for just those: equal steps of 2**shift addresses
from the first start to the last, at least two for each start.  Its own slots may be dense in turn.
`ippath.fib.search` reads them; `ippath.fib.changes` gives a slot another page.

Large tables of IPv4 have chunks instead: two words for each beginning of 18 bits, of which bit k of the
first says that an interval starts with the k-th beginning of 24 bits within, and the second is the
interval that holds its first address.  A chunk with a start in between is crowded: bit 0 is set, and the
second word is a page or the negated place of a directory.  So most addresses need no search, but two
loads that can be asked for in time (`ippath.rx.burst`).

A directory of IPv6 steps through one half of the address: the high one, or the low one where all
starts have the same high half.
"""

from __future__ import annotations

import numpy as np

from ippath import tables as T

DENSE = 8  # starts that a search may be left with (and those of half a cache line cost nothing)
MANY = 32  # the same in chunks, whose directories would cost more memory than they save time
LARGE = 1 << 17  # intervals
LARGE6 = 1 << 14  # of IPv6, whose searches read more of them
WORDS_OF_A_LINE = 8  # of the cache; directories begin with one
FIRST_BITS = 16  # bits of an address that the first level looks at
_SIGN = 1 << 63


def directory(high: np.ndarray, low: np.ndarray, bits: int, first: int, place: int) -> np.ndarray:
    """All levels for a table: int64[], to stand at `place` of `Fib.top`.

    `high` and `low` are the halves (uint64) of the table's interval starts, ascending from 0, of which
    `first` is the number of the first one; `bits` is 32 or 128.
    """
    return _Directory(high, low, bits, first, place).build()


def has_chunks(bits: int, count: int) -> bool:
    """Is a table of so many intervals worth chunks?"""
    return bits == 32 and count >= LARGE


def is_large(bits: int, count: int) -> bool:
    """Is a table of so many intervals too large for caches?"""
    return count >= (LARGE if bits == 32 else LARGE6)


def chunks(low: np.ndarray, first: int, place: int) -> np.ndarray:
    """The chunks of an IPv4 table and their directories; arguments as for `directory`: int64[]."""
    return _Directory(low, low, 32, first, place).build_chunks()


class _Directory:
    def __init__(self, high: np.ndarray, low: np.ndarray, bits: int, first: int, place: int):
        self.first, self.place, self.six = first, place, bits == 128
        self.high, self.low = high, low
        self.dense = DENSE
        self.parts: list[np.ndarray] = []
        self.size = 0

    def build(self) -> np.ndarray:
        """The first level, then those below it."""
        held, begin, end = self._slots(FIRST_BITS)
        self._take(self._pages(held, end))
        self._refine(0, 1, held, begin, end)
        return np.concatenate(self.parts)

    def build_chunks(self) -> np.ndarray:
        """The chunks, then the directories of those in which many intervals start."""
        self.dense = MANY
        held, begin, end = self._slots(32 - T.CHUNK_BITS)
        starts = self.low.astype(np.int64)
        number, slot = starts >> T.CHUNK_BITS, (starts >> T.SLOT_BITS) & 63
        bits = np.zeros(len(held), np.uint64)
        np.bitwise_or.at(bits, number[slot > 0], np.uint64(1) << slot[slot > 0].astype(np.uint64))
        between = starts & ((1 << T.SLOT_BITS) - 1) != 0
        bits[number[between]] = T.CHUNK_CROWDED
        crowded = bits == T.CHUNK_CROWDED
        words = np.where(crowded, self._pages(held, end), self.first + held)
        self._take(np.stack([bits.view(np.int64), words], axis=1).reshape(-1))
        self._refine(1, 2, held, begin, np.where(crowded, end, begin))
        return np.concatenate(self.parts)

    def _slots(self, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each beginning of so many bits: what holds its first address, first start, first beyond."""
        keys, below = (self.high, 64 - bits) if self.six else (self.low, 32 - bits)
        beginnings = (keys >> np.uint64(below)).astype(np.int64)
        members = np.searchsorted(beginnings, np.arange((1 << bits) + 1), side="left")
        begin, end = members[:-1], members[1:]
        exact = keys & np.uint64((1 << below) - 1) == 0
        if self.six:
            exact &= self.low == 0
        at = np.minimum(begin, len(keys) - 1)
        return np.where((begin < end) & exact[at], begin, begin - 1), begin, end

    def _pages(self, held: np.ndarray, end: np.ndarray) -> np.ndarray:
        """The pages of intervals [held, end)."""
        return self.first + held << T.PAGE_BITS | end - held

    def _take(self, part: np.ndarray) -> int:
        """Add an array; returns its place within this directory."""
        at = self.size
        self.parts.append(part.astype(np.int64))
        self.size += len(part)
        return at

    def _refine(
        self, entries: int, step: int, held: np.ndarray, begin: np.ndarray, end: np.ndarray
    ) -> None:
        """Replace entries of slots in which too many starts [begin, end) lie by directories."""
        part = self.parts[-1]
        where = entries - (self.size - len(part))
        for slot in np.flatnonzero(end - begin > self.dense):
            below = self._dense(int(held[slot]), int(begin[slot]), int(end[slot]))
            if below:
                part[where + step * slot] = -(self.place + below)

    def _dense(self, held: int, begin: int, end: int) -> int:
        """The directory of the starts [begin, end); `held` holds the first address of the slot."""
        by_high = self.six and self.high[begin] != self.high[end - 1]
        keys = (self.high if by_high else self.low)[begin:end]
        base, last = int(keys[0]), int(keys[-1])
        if last - base >= 1 << 62:  # steps are counted in signed numbers
            return 0
        shift = 0
        while (last - base) >> shift >= 4 * (end - begin):
            shift += 1
        steps = ((last - base) >> shift) + 1
        beginnings = np.uint64(base) + (np.arange(steps, dtype=np.uint64) << np.uint64(shift))
        before = np.searchsorted(keys, beginnings, side="left")
        exact = keys[before] == beginnings  # never beyond the last start
        if by_high:
            exact &= self.low[begin + before] == 0
        inner, ends = begin + before - ~exact, begin + np.append(before[1:], end - begin)
        header = np.zeros(T.SUB_FIRST, np.int64)
        header[T.SUB_HELD] = self.first + held << T.PAGE_BITS | 1
        header[T.SUB_BASE], header[T.SUB_LAST] = (self._stored(v) for v in (base, last))
        header[T.SUB_SHIFT] = shift
        header[T.SUB_BY_HIGH] = by_high
        header[T.SUB_HIGH] = self._stored(int(self.high[begin]))
        self._take(np.zeros(-(self.place + self.size) % WORDS_OF_A_LINE, np.int64))
        at = self._take(np.concatenate([header, self._pages(inner, ends)]))
        self._refine(at + T.SUB_FIRST, 1, inner, begin + before, ends)
        return at

    def _stored(self, key: int) -> int:
        """As the search compares it: halves of IPv6 addresses with the sign bit flipped."""
        return key - _SIGN if self.six else key
