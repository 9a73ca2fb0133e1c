"""The routes of a host in their order, found by table and prefix; millions of plain ones in blocks.

`Host.routes` is any list; `routes_of` makes it one that can be asked.  Appending and `arrange` keep the
index and note what they change (`take_changes`), at a cost that does not depend on how many routes there
are; any other change of the list drops the index until the next question.

A block holds routes that repeat a few patterns and differ in their prefixes alone, as a full table
does, in arrays.  They are in the list like all others, and become objects when somebody goes through
it or changes it; what handles full tables asks for `singles` and `blocks` instead.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

from ippath.model import Host, Route

if TYPE_CHECKING:
    from ippath.fib.blocks import RouteBlock

_BITS = {4: 32, 6: 128}


class Place(NamedTuple):
    """Where routes to one prefix are."""

    family: int
    table: int
    prefix: int
    plen: int


def place_of(route: Route) -> Place:
    """The place of a route."""
    return Place(route.family, route.table, route.prefix, route.plen)


class RouteList(list[Route]):
    """A list of routes with an index by (family, table), prefix length and prefix."""

    def __init__(self, routes: Iterable[Route] = ()):
        super().__init__(routes)
        self.blocks: list[RouteBlock] = []
        self._index: dict[tuple[int, int], dict[int, dict[int, list[Route]]]] | None = None
        self._positions: dict[int, int] | None = None  # by the identity of a route
        self._holes = 0  # None where a route has gone
        self._changes: set[Place] | None = None  # None: anything

    # --- blocks -------------------------------------------------------------------------------------

    def singles(self) -> Iterator[Route]:
        """The routes that are in no block, in order."""
        routes = super().__iter__()
        return (r for r in routes if r is not None) if self._holes else routes

    def kinds(self) -> Iterator[Route]:
        """Every route that is in no block, and the patterns of blocks."""
        yield from self.singles()
        for block in self.blocks:
            yield from block.patterns

    def newest(self) -> Route | None:
        """The last route that is in no block."""
        newest: Route | None = super().__getitem__(-1) if super().__len__() else None
        return newest

    def add_block(self, block: RouteBlock) -> None:
        """Add many routes at once; their uniqueness is the caller's to see to."""
        self._changes = None
        if len(block):
            self.blocks.append(block)

    def unfold(self) -> None:
        """Make objects of all routes in blocks, and an ordinary list of all of them."""
        if self._holes:
            super().__init__(list(self.singles()))
            self._holes, self._positions = 0, None
        blocks, self.blocks = self.blocks, []
        for block in blocks:
            rest = block.rest()
            super().extend(rest.route(k) for k in range(len(rest)))
            self._index = self._positions = None

    def __len__(self) -> int:
        return super().__len__() - self._holes + sum(map(len, self.blocks))

    def __deepcopy__(self, memo: dict[int, Any]) -> RouteList:
        made = RouteList(copy.deepcopy(list(self.singles()), memo))
        for block in self.blocks:
            patterns = copy.deepcopy(block.patterns, memo)
            made.add_block(dataclasses.replace(block.rest(), patterns=patterns, made={}))
        return made

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return RouteList, (list(self),)

    # --- asking -------------------------------------------------------------------------------------

    def _enter(self, route: Route) -> None:
        assert self._index is not None
        lengths = self._index.setdefault((route.family, route.table), {})
        prefixes = lengths.setdefault(route.plen, {})
        prefixes.setdefault(_key(route.family, route.prefix, route.plen), []).append(route)

    def _indexed(self) -> dict[tuple[int, int], dict[int, dict[int, list[Route]]]]:
        if self._index is None:
            self._index = {}
            for route in self.singles():
                self._enter(route)
        return self._index

    def at(self, family: int, table: int, prefix: int, plen: int) -> list[Route]:
        """Routes to exactly this prefix, whatever their source, in order."""
        prefixes = self._indexed().get((family, table), {}).get(plen, {})
        found = prefixes.get(_key(family, prefix, plen), [])
        for block in self.blocks:
            if block.family == family:
                found = found + block.at(table, prefix, plen)
        return found

    def covering(self, family: int, table: int, address: int) -> Iterator[Route]:
        """Routes whose prefix holds the address, in no order of lengths."""
        for plen, prefixes in self._indexed().get((family, table), {}).items():
            yield from prefixes.get(_key(family, address, plen), ())
        for block in self.blocks:
            if block.family == family:
                for plen in block.lengths():
                    free = _BITS[family] - plen
                    yield from block.at(table, address >> free << free, plen)

    # --- changing -----------------------------------------------------------------------------------

    def append(self, route: Route) -> None:
        """Add a route at the end (before those in blocks, which have no equals)."""
        if self._positions is not None:
            self._positions[id(route)] = super().__len__()
        super().append(route)
        self.note(route)
        if self._index is not None:
            self._enter(route)

    def own(self, place: Place) -> list[Route]:
        """The routes at a place, whatever their source, in order; taken out of their blocks."""
        for block in self.blocks:
            if block.family == place.family:
                for route in block.take_out(*place[1:]):
                    self.append(route)
        return list(self.at(*place))

    def arrange(self, place: Place, routes: list[Route]) -> None:
        """Let these be the routes at a place, in this order."""
        before = self.own(place)
        if self._positions is None:
            self._positions = {id(route): k for k, route in enumerate(super().__iter__())}
        at = sorted(self._positions.pop(id(route)) for route in before)
        while len(at) < len(routes):
            at.append(super().__len__())
            super().append(routes[-1])
        for k, route in zip(at, routes):
            super().__setitem__(k, route)
            self._positions[id(route)] = k
        for k in at[len(routes) :]:
            self._leave(k)
        prefixes = self._indexed().setdefault(place[:2], {}).setdefault(place.plen, {})
        key = _key(place.family, place.prefix, place.plen)
        if routes:
            prefixes[key] = list(routes)
        else:
            prefixes.pop(key, None)
        if self._changes is not None:
            self._changes.add(place)

    def _leave(self, at: int) -> None:
        """Leave a hole; at the end of the list it closes."""
        super().__setitem__(at, None)  # type: ignore[call-overload]
        self._holes += 1
        while super().__len__() and super().__getitem__(-1) is None:
            super().pop()
            self._holes -= 1

    def discard(self, route: Route) -> None:
        """Remove this very route."""
        place = place_of(route)
        self.arrange(place, [other for other in self.own(place) if other is not route])

    def note(self, route: Route) -> None:
        """Note that a route has changed."""
        if self._changes is not None:
            self._changes.add(place_of(route))

    def anything_may_have_changed(self) -> None:
        """Note that what several routes share has changed."""
        self._changes = None

    def take_changes(self) -> set[Place] | None:
        """The places that have changed since the last call, or None: anything may have changed."""
        changes, self._changes = self._changes, set()
        return changes


def _whole(name: str, changes: bool) -> Any:
    """The list's own method, with all routes as objects; one that changes it forgets the index."""
    plain = getattr(list, name)

    def method(self: RouteList, *args: Any, **named: Any) -> Any:
        self.unfold()
        if changes:
            self._index = self._positions = self._changes = None
        return plain(self, *args, **named)

    method.__name__, method.__doc__ = name, plain.__doc__
    return method


for _name in ("__setitem__", "__delitem__", "__iadd__", "__imul__", "insert", "extend", "pop",
              "remove", "clear", "sort", "reverse"):  # fmt: skip
    setattr(RouteList, _name, _whole(_name, True))
for _name in ("__iter__", "__getitem__", "__contains__", "__reversed__", "__eq__", "__add__", "__mul__",
              "__rmul__", "index", "count", "copy"):  # fmt: skip
    setattr(RouteList, _name, _whole(_name, False))


def _key(family: int, prefix: int, plen: int) -> int:
    return prefix >> (_BITS[family] - plen)


def routes_of(host: Host) -> RouteList:
    """The host's routes as a list that can be asked; the host keeps it."""
    if not isinstance(host.routes, RouteList):
        host.routes = RouteList(host.routes)
    return host.routes
