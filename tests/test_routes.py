"""The list of routes that can be asked: always the same answer as going through it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ippath.fib.routes import RouteList, place_of, routes_of
from ippath.model import Host, Route

PREFIXES = [(0, 0), (0x0A000000, 8), (0x0A000000, 16), (0x0A010000, 16), (0x0A010200, 24)]


@st.composite
def routes(draw) -> Route:
    prefix, plen = draw(st.sampled_from(PREFIXES))
    return Route(4, prefix, plen, draw(st.sampled_from([254, 100])), metric=draw(st.integers(0, 3)))


def whole(change: str, routes: RouteList, route: Route, at: int) -> None:
    """One change of the list, by its name."""
    if change == "append":
        routes.append(route)
    elif change == "insert":
        routes.insert(at, route)
    elif routes and change == "replace":
        routes[at % len(routes)] = route
    elif routes and change == "delete":
        del routes[at % len(routes)]
    elif routes and change == "discard":
        routes.discard(list(routes.singles())[at % len(routes)])
    elif change == "arrange":  # two routes at one place, the new one last or first
        there = routes.own(place_of(route))
        there.insert(len(there) if at % 2 else 0, route)
        routes.arrange(place_of(route), there)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["append", "append", "insert", "replace", "delete", "discard", "arrange", "arrange"]
            ),
            routes(),
            st.integers(0, 9),
        ),
        max_size=20,
    )
)
def test_the_index_follows_every_change(changes) -> None:
    asked = RouteList()
    for change, route, at in changes:
        before = {place: list(asked.at(*place)) for place in map(place_of, asked.singles())}
        asked.take_changes()
        whole(change, asked, route, at)
        noted = asked.take_changes()
        assert len(asked) == len(list(asked.singles()))
        if change in ("append", "discard", "arrange"):
            assert noted is not None
            for place in {*before, place_of(route)} - noted:
                assert asked.at(*place) == before.get(place, [])
        elif change == "insert":
            assert noted is None, "anything may have changed"
        for prefix, plen in PREFIXES:
            found = asked.at(4, 254, prefix, plen)
            there = [r for r in asked if (r.table, r.prefix, r.plen) == (254, prefix, plen)]
            assert [id(r) for r in found] == [id(r) for r in there]
        for address in (0x0A010203, 0x0AFF0000, 0x0B000000):
            held = {id(r) for r in asked.covering(4, 100, address)}
            assert held == {
                id(r)
                for r in asked
                if r.table == 100 and (r.plen == 0 or (r.prefix ^ address) >> (32 - r.plen) == 0)
            }


def test_a_host_keeps_the_list_it_was_given_as_one_that_can_be_asked() -> None:
    host = Host(routes=[Route(4, 0x0A000000, 8, 254)])
    assert routes_of(host) is routes_of(host) is host.routes
    host.routes = [r for r in host.routes if r.plen == 16]
    assert routes_of(host).at(4, 254, 0x0A000000, 8) == []
