"""Many routes that repeat a few patterns, in arrays: how a host holds a full table."""

from __future__ import annotations

import dataclasses
import functools
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np

from ippath.model import Route

_LOW = (1 << 64) - 1


@dataclass(eq=False)
class RouteBlock:
    """Routes of one family that differ from one of `patterns` in their prefixes alone.

    No two of them, and no other route of the host, have equal table, prefix, TOS and metric.
    """

    family: int
    prefix: np.ndarray  # uint64[n, 2]: high and low half
    plen: np.ndarray  # uint8[n]
    pattern: np.ndarray  # int32[n]: which of the patterns
    patterns: list[Route]
    made: dict[int, Route] = field(default_factory=dict)  # those that somebody asked for
    gone: set[int] = field(default_factory=set)  # those that were taken out

    def __len__(self) -> int:
        return len(self.plen) - len(self.gone)

    def rest(self) -> RouteBlock:
        """The block without the routes that were taken out."""
        if not self.gone:
            return self
        kept = np.ones(len(self.plen), bool)
        kept[list(self.gone)] = False
        number = np.cumsum(kept) - 1
        made = {int(number[k]): route for k, route in self.made.items() if kept[k]}
        return RouteBlock(
            self.family, self.prefix[kept], self.plen[kept], self.pattern[kept], self.patterns, made
        )

    def route(self, k: int) -> Route:
        """The k-th as an object, always the same one; its next hops are those of the pattern."""
        found = self.made.get(k)
        if found is None:
            pattern = self.patterns[self.pattern[k]]
            prefix = int(self.prefix[k, 0]) << 64 | int(self.prefix[k, 1])
            found = dataclasses.replace(pattern, prefix=prefix, plen=int(self.plen[k]), line="")
            self.made[k] = found
        return found

    @functools.cached_property
    def _sorted(self) -> tuple[np.ndarray, memoryview, memoryview, dict[int, tuple[int, int]]]:
        """Rows by length and prefix, their halves, and where each length is."""
        high, low = self.prefix[:, 0], self.prefix[:, 1]
        rows = np.lexsort((low, high, self.plen))
        plens, first = np.unique(self.plen[rows], return_index=True)
        ends = np.append(first[1:], len(rows))
        spans = {int(n): (int(f), int(e)) for n, f, e in zip(plens, first, ends)}
        return rows, high[rows].data, low[rows].data, spans

    def rows_of(self, prefix: int, plen: int) -> list[int]:
        """Numbers of the routes to exactly this prefix."""
        rows, high, low, spans = self._sorted
        begin, end = spans.get(plen, (0, 0))
        for keys, key in ((high, prefix >> 64), (low, prefix & _LOW)):
            if begin < end and not keys[begin] == keys[end - 1] == key:
                begin = bisect_left(keys, key, begin, end)
                end = bisect_right(keys, key, begin, end)
        return [row for row in rows[begin:end].tolist() if row not in self.gone]

    def at(self, table: int, prefix: int, plen: int) -> list[Route]:
        """Routes of a table to exactly this prefix."""
        found = (self.route(k) for k in self.rows_of(prefix, plen))
        return [route for route in found if route.table == table]

    def take_out(self, table: int, prefix: int, plen: int) -> list[Route]:
        """The same, as objects with next hops of their own, which are in the block no longer."""
        taken = []
        for k in self.rows_of(prefix, plen):
            route = self.route(k)
            if route.table == table:
                self.gone.add(k)
                route.nexthops = [dataclasses.replace(hop) for hop in route.nexthops]
                taken.append(route)
        return taken

    def lengths(self) -> list[int]:
        """The prefix lengths that occur."""
        return list(self._sorted[3])
