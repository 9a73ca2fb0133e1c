"""The routes of a host in their order, found by table and prefix; millions of plain ones in blocks.

`Host.routes` is any list; `routes_of` makes it one that can be asked.  Appending keeps the index,
any other change of the list drops it until the next question.

A block holds routes that repeat a few patterns and differ in their prefixes alone, as a full table
does, in arrays.  They are in the list like all others, and become objects when somebody goes through
it or changes it; what handles full tables asks for `singles` and `blocks` instead.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

from ippath.model import Host, Route

if TYPE_CHECKING:
    from ippath.fib.blocks import RouteBlock

_BITS = {4: 32, 6: 128}


class RouteList(list[Route]):
    """A list of routes with an index by (family, table), prefix length and prefix."""

    def __init__(self, routes: Iterable[Route] = ()):
        super().__init__(routes)
        self.blocks: list[RouteBlock] = []
        self._index: dict[tuple[int, int], dict[int, dict[int, list[Route]]]] | None = None

    # --- blocks -------------------------------------------------------------------------------------

    def singles(self) -> Iterator[Route]:
        """The routes that are in no block, in order."""
        return super().__iter__()

    def kinds(self) -> Iterator[Route]:
        """Every route that is in no block, and the patterns of blocks."""
        yield from self.singles()
        for block in self.blocks:
            yield from block.patterns

    def newest(self) -> Route | None:
        """The last route that is in no block."""
        return super().__getitem__(-1) if super().__len__() else None

    def add_block(self, block: RouteBlock) -> None:
        """Add many routes at once; their uniqueness is the caller's to see to."""
        if len(block):
            self.blocks.append(block)

    def unfold(self) -> None:
        """Make objects of all routes in blocks."""
        blocks, self.blocks = self.blocks, []
        for block in blocks:
            super().extend(block.route(k) for k in range(len(block)))
            self._index = None

    def __len__(self) -> int:
        return super().__len__() + sum(map(len, self.blocks))

    def __deepcopy__(self, memo: dict[int, Any]) -> RouteList:
        made = RouteList(copy.deepcopy(list(self.singles()), memo))
        for block in self.blocks:
            patterns = copy.deepcopy(block.patterns, memo)
            made.add_block(dataclasses.replace(block, patterns=patterns, made={}))
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

    def place_of(self, route: Route) -> int:
        """Position of this very route; ValueError if it is not in the list."""
        for k, other in enumerate(self):
            if other is route:
                return k
        raise ValueError("the route is not in the list")

    def append(self, route: Route) -> None:
        """Add a route at the end (before those in blocks, which have no equals)."""
        super().append(route)
        if self._index is not None:
            self._enter(route)


def _whole(name: str, changes: bool) -> Any:
    """The list's own method, with all routes as objects; one that changes it forgets the index."""
    plain = getattr(list, name)

    def method(self: RouteList, *args: Any, **named: Any) -> Any:
        self.unfold()
        if changes:
            self._index = None
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
