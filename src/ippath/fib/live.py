"""The tables of one family as they follow the routes of a host.

Changes of routes are applied in place, prefix by prefix (`ippath.fib.changes`), at a cost that goes with
what they change.  While somebody looks something up (`hold`), they are applied to a copy, so that a batch
sees one version from beginning to end.  Anything else that changes – devices, rules, next hop objects –
builds the tables anew, and so does a table that has outgrown its directory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ippath import tables as T
from ippath.fib.build import FibBuilder, RouteRows, halves
from ippath.fib.changes import SPOT_WORDS, change_fib
from ippath.fib.routes import Place, place_of, routes_of
from ippath.handles import Handle, fib_handle
from ippath.model import TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, Host, Nexthop, Route, Rule
from ippath.prefix.pages import zeros

_GROWING = ("start_hi", "start_lo", "leaf", "node", "route")
LEAST_ROOM = 256  # rows that a table gets beyond those in use
MOST_WORK = 200  # intervals that may be written again for each one there is before it is built anew
MOST_INFOS = 4096  # the same of infos, which are never given back


class LiveFib:
    """The Fib of one family, the routes and rules behind its rows; `change` keeps them up to date."""

    def __init__(self, host: Host, family: int, device_rows: dict[str, int]):
        self.host, self.family = host, family
        self._builder = FibBuilder(host, family, device_rows)
        self.fib: T.Fib = self._builder.build()
        self.rows: RouteRows = self._builder.rows()
        self.rules: list[Rule] = self._builder.rules
        self._infos = self._built_infos = len(self._builder.info_rows)
        self._nexthops = len(self._builder.nexthop_rows)
        self._pool: np.ndarray | None = None  # None: the arrays have no room yet
        self._handle: Handle | None = None
        self._readers = 0
        self._is_read = False  # somebody reads these very arrays
        self._scratch = np.zeros(SPOT_WORDS, np.int64)
        self._sourced: dict[Place, int] = {}
        self._several: set[Place] = set()
        self._block_of_several = False
        self._count_routes()

    def hold(self, more: int) -> None:
        """One reader more or less, who goes on with the Fib as it is now."""
        self._readers += more
        self._is_read = self._readers > 0 and (self._is_read or more > 0)

    def row_of(self, table: int) -> int:
        """The row of a table in `Fib.table`, or NONE."""
        return self._builder.row_of.get(table, T.NONE)

    @property
    def nexthops(self) -> list[Nexthop]:
        """The next hops behind the rows of `Fib.nexthop`."""
        return self._builder.nexthops

    @property
    def nbytes(self) -> int:
        """Memory of all arrays."""
        return sum(array.nbytes for array in self.fib)

    # --- what guards ask ----------------------------------------------------------------------------------

    @property
    def sourced(self) -> int:
        """How many routes have a source prefix (kernel: fib6_routes_require_src)."""
        return sum(self._sourced.values())

    @property
    def has_several(self) -> bool:
        """Whether a route has several next hops."""
        return bool(self._several) or self._block_of_several

    def _count_routes(self) -> None:
        routes = routes_of(self.host)
        for route in routes.singles():
            if route.family == self.family:
                place = place_of(route)
                if route.src_plen:
                    self._sourced[place] = self._sourced.get(place, 0) + 1
                if len(route.nexthops) > 1:
                    self._several.add(place)
        self._block_of_several = any(
            block.family == self.family and any(len(p.nexthops) > 1 for p in block.patterns)
            for block in routes.blocks
        )

    def _count_at(self, place: Place, routes: list[Route]) -> None:
        sourced = sum(1 for route in routes if route.src_plen)
        if sourced:
            self._sourced[place] = sourced
        else:
            self._sourced.pop(place, None)
        if any(len(route.nexthops) > 1 for route in routes):
            self._several.add(place)
        else:
            self._several.discard(place)

    # --- changes ------------------------------------------------------------------------------------------

    def change(self, places: Iterable[Place]) -> bool:
        """Follow the host's routes at these places.  False: the tables have to be built anew."""
        builder, asked = self._builder, routes_of(self.host)
        changes: list[tuple[int, ...]] = []
        entries: list[tuple[int, ...]] = []
        routes: list[Route] = []
        for place in places:
            at = asked.at(*place)
            self._count_at(place, at)
            row = builder.row_of.get(place.table)
            if row is None:
                if self._is_looked_up(place.table):
                    return False
                continue
            at = self._in_order(place, at)
            hi, lo = halves(place.prefix)
            changes.append((row, hi, lo, place.plen, len(entries), len(at)))
            for route in at:
                entries.append(
                    (*halves(route.src), route.src_plen, builder.info(route), route.table)
                )
            routes += at
        if len(builder.info_rows) > 2 * self._built_infos + MOST_INFOS:
            return False
        if changes:
            self._apply(
                np.array(changes, np.int64),
                np.array(entries, np.int64).reshape(-1, T.ENTRY_COLUMNS),
                routes,
            )
        return self._is_in_shape()

    def _is_looked_up(self, table: int) -> bool:
        """Whether a table that has no row yet would have one if it had routes."""
        return self._builder.has_rules or (self.family == 4 and table == TABLE_DEFAULT)

    def _in_order(self, place: Place, at: list[Route]) -> list[Route]:
        """The routes of a prefix in the order of the look-up, also those of a table that is merged."""
        if self.family == 6:
            return sorted(at, key=_order6) if len(at) > 1 else at
        if not self._builder.has_rules and place.table in (TABLE_LOCAL, TABLE_MAIN):
            other = TABLE_LOCAL + TABLE_MAIN - place.table
            at = at + routes_of(self.host).at(4, other, place.prefix, place.plen)
        return sorted(at, key=_order4) if len(at) > 1 else at

    def _apply(self, changes: np.ndarray, entries: np.ndarray, routes: list[Route]) -> None:
        if self._pool is None:
            self._open()
        elif self._is_read:
            self._replace(**{name: array.copy() for name, array in self.fib._asdict().items()})
        self._is_read = False
        self._take_infos()
        rows = np.zeros(len(entries), np.int64)
        done, slack = 0, LEAST_ROOM
        while True:
            done = change_fib(
                self._opened(), self.family == 6, changes, done, len(changes), entries, rows,
                self._scratch,
            )  # fmt: skip
            if done == len(changes):
                break
            slack *= 2
            self._grow(slack)
        for row, route in zip(rows.tolist(), routes):
            self.rows.put(row, route)

    def _replace(self, **arrays: np.ndarray) -> None:
        self.fib, self._handle = self.fib._replace(**arrays), None

    def _opened(self) -> Any:
        """What compiled code takes."""
        if self._handle is None:
            assert self._pool is not None
            named = self.fib._asdict() | {"pool": self._pool}
            self._handle = fib_handle(
                T.OpenFib(**{name: named[name] for name in T.OpenFib._fields})
            )
        return self._handle.value

    def _open(self) -> None:
        """Give the arrays room for changes."""
        fib, pool = self.fib, np.zeros(T.POOL_WORDS, np.int64)
        pool[T.POOL_BUILT] = pool[T.POOL_RUNS] = len(fib.leaf)
        pool[T.POOL_BUILT_NODES] = pool[T.POOL_NODES] = len(fib.node)
        pool[T.POOL_BUILT_ROUTES] = pool[T.POOL_ROUTES] = len(fib.route)
        self._pool = pool
        self._replace(table=fib.table.copy(), top=fib.top.copy())
        self._grow(LEAST_ROOM)

    def _grow(self, slack: int) -> None:
        """Move the arrays to where they have room for `slack` more rows, or a quarter more."""
        assert self._pool is not None
        larger = {}
        for name in _GROWING:
            array = getattr(self.fib, name)
            if name == "start_hi" and self.family == 4:
                continue
            of = {"node": T.POOL_NODES, "route": T.POOL_ROUTES}.get(name, T.POOL_RUNS)
            used = int(self._pool[of])
            size = used + max(slack, used // 4)
            width = int(np.prod(array.shape[1:]))
            larger[name] = zeros(size * width, np.int64).reshape(size, *array.shape[1:])
            larger[name][:used] = array[:used]
            if name == "route":
                larger[name][used:, T.ROUTE_TABLE] = T.NONE
        self._replace(**larger)

    def _take_infos(self) -> None:
        """Bring infos and next hops that are new into the arrays."""
        builder, fib = self._builder, self.fib
        if len(builder.info_rows) > self._infos:
            self._replace(
                info=_with_more(fib.info, self._infos, builder.info_rows),
                nexthop=_with_more(fib.nexthop, self._nexthops, builder.nexthop_rows),
            )
            self._infos, self._nexthops = len(builder.info_rows), len(builder.nexthop_rows)

    def _is_in_shape(self) -> bool:
        """Whether pages are still as short as directories can make them."""
        if self._pool is None:
            return True
        most = MOST_WORK * (int(self._pool[T.POOL_BUILT]) + LEAST_ROOM)
        return int(self._pool[T.POOL_WORK]) < most


def _with_more(array: np.ndarray, known: int, listed: list[list[int]]) -> np.ndarray:
    """The array with the rows of a list that it does not have yet; twice as large if it is full."""
    if len(listed) > len(array):
        array = np.concatenate([array[:known], np.zeros((len(listed), array.shape[1]), np.int64)])
    if len(listed) > known:
        array[known : len(listed)] = listed[known:]
    return array


def _order4(route: Route) -> tuple[int, int, int]:
    return -route.table, -route.tos, route.metric


def _order6(route: Route) -> tuple[bool, int, int, int]:
    return route.src_plen > 0, -route.src_plen, route.src, route.metric
