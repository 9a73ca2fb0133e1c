"""The routes of a host in their order, found by table and prefix.

`Host.routes` is any list; `routes_of` makes it one that can be asked.  Appending keeps the index,
any other change of the list drops it until the next question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ippath.model import Host, Route

_BITS = {4: 32, 6: 128}


class RouteList(list[Route]):
    """A list of routes with an index by (family, table), prefix length and prefix."""

    def __init__(self, routes: Iterable[Route] = ()):
        super().__init__(routes)
        self._index: dict[tuple[int, int], dict[int, dict[int, list[Route]]]] | None = None

    def _enter(self, route: Route) -> None:
        assert self._index is not None
        lengths = self._index.setdefault((route.family, route.table), {})
        prefixes = lengths.setdefault(route.plen, {})
        prefixes.setdefault(_key(route.family, route.prefix, route.plen), []).append(route)

    def _indexed(self) -> dict[tuple[int, int], dict[int, dict[int, list[Route]]]]:
        if self._index is None:
            self._index = {}
            for route in self:
                self._enter(route)
        return self._index

    def at(self, family: int, table: int, prefix: int, plen: int) -> list[Route]:
        """Routes to exactly this prefix, whatever their source, in order."""
        prefixes = self._indexed().get((family, table), {}).get(plen, {})
        return prefixes.get(_key(family, prefix, plen), [])

    def covering(self, family: int, table: int, address: int) -> Iterator[Route]:
        """Routes whose prefix holds the address, in no order of lengths."""
        for plen, prefixes in self._indexed().get((family, table), {}).items():
            yield from prefixes.get(_key(family, address, plen), ())

    def place_of(self, route: Route) -> int:
        """Position of this very route; ValueError if it is not in the list."""
        for k, other in enumerate(self):
            if other is route:
                return k
        raise ValueError("the route is not in the list")

    def append(self, route: Route) -> None:
        """Add a route at the end."""
        super().append(route)
        if self._index is not None:
            self._enter(route)


def _forgetting(name: str) -> Any:
    change = getattr(list, name)

    def method(self: RouteList, *args: Any, **named: Any) -> Any:
        self._index = None
        return change(self, *args, **named)

    method.__name__, method.__doc__ = name, change.__doc__
    return method


for _name in ("__setitem__", "__delitem__", "__iadd__", "__imul__", "insert", "extend", "pop",
              "remove", "clear", "sort", "reverse"):  # fmt: skip
    setattr(RouteList, _name, _forgetting(_name))


def _key(family: int, prefix: int, plen: int) -> int:
    return prefix >> (_BITS[family] - plen)


def routes_of(host: Host) -> RouteList:
    """The host's routes as a list that can be asked; the host keeps it."""
    if not isinstance(host.routes, RouteList):
        host.routes = RouteList(host.routes)
    return host.routes
