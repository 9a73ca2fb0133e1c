"""Tables that follow changes of single routes say what tables say that are built anew."""

from __future__ import annotations

import ipaddress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ippath import tables as T
from ippath.fib import build, directory, live
from ippath.fib.build import FibBuilder, RouteRows, halves
from ippath.fib.control import (
    ControlError, Unwanted, add_route, add_rule, change_device, del_route,
    reference_lookup,
)  # fmt: skip
from ippath.fib.live import LiveFib
from ippath.fib.routes import routes_of
from ippath.fib.search import leaf_node, search4, search6
from ippath.jit import COMPILED
from ippath.model import Host, Nexthop, Route, Rule
from ippath.netns import Netns
from ippath.route_get import Question, answer_rows
from tests.hosts import DEVICES, number, router

BITS = {4: 32, 6: 128}
# bunches of prefixes within each other, at the edges of slots, chunks and halves
BASES = {
    4: [number(a) for a in ("0.0.0.0", "10.0.0.0", "77.1.64.0", "77.1.64.255", "255.255.255.255")],
    6: [number(a) for a in ("::", "2001:db8:77::", "2001:db8:77:0:8000::", "3000::ff", "ffff::")],
}
LENGTHS = {
    4: [0, 1, 8, 14, 15, 16, 18, 19, 23, 24, 25, 31, 32],
    6: [0, 1, 16, 17, 48, 63, 64, 65, 127, 128],
}
SOURCES = [(0, 0), (number("2001:db8:1::"), 48), (number("2001:db8:1::"), 64), (0x2 << 124, 4)]

prefixes = st.sampled_from([4, 6]).flatmap(
    lambda family: st.builds(
        lambda base, more, plen: (
            family, ((base + more) % (1 << BITS[family])) >> BITS[family] - plen << BITS[family] - plen, plen,
        ),
        st.sampled_from(BASES[family]),
        st.integers(0, 600) | st.sampled_from([k << 14 for k in range(5)]),
        st.sampled_from(LENGTHS[family]),
    )
)  # fmt: skip
hops = st.lists(st.sampled_from(DEVICES), min_size=1, max_size=3)


def chain(fib: T.Fib, rows: RouteRows, row: int | None, six: bool, address: int) -> list[Any]:
    """All routes that an address may take in a table, in the order of trying; longest prefix first."""
    if row is None:
        return []
    leaf = search6(fib, row, *halves(address)) if six else search4(fib, row, address)
    node, found = leaf_node(fib, leaf), []
    while node != T.NONE:
        first = fib.node[node, T.NODE_SUB_FIRST]
        for at in (node, *range(first, first + fib.node[node, T.NODE_SUB_COUNT])):
            begin, count = fib.node[at, T.NODE_FIRST], fib.node[at, T.NODE_COUNT]
            for route in range(begin, begin + count):
                assert fib.route[route, T.ROUTE_NODE] == at
                info = fib.info[fib.route[route, T.ROUTE_INFO]]
                found.append((id(rows[route]), info[T.INFO_METRIC], info[T.INFO_NH_COUNT]))
        node = fib.node[node, T.NODE_PARENT]
    return found


class Updates(RuleBasedStateMachine):
    """A router whose routes change, followed by a LiveFib of each family."""

    @initialize()
    def start(self) -> None:
        self.host: Host = router()
        self.rows = {d.name: k for k, d in enumerate(self.host.devices)}
        self.touched: set[tuple[int, int]] = {(4, 0), (6, 0)}
        self.anew()

    def anew(self) -> None:
        self.live = {family: LiveFib(self.host, family, self.rows) for family in (4, 6)}
        routes_of(self.host).take_changes()

    def follow(self) -> None:
        places = routes_of(self.host).take_changes()
        if places is None or not all(
            fib.change(p for p in places if p.family == family) for family, fib in self.live.items()
        ):
            self.anew()

    def touch(self, family: int, prefix: int, plen: int) -> None:
        end = prefix + (1 << BITS[family] - plen)
        self.touched |= {
            (family, a % (1 << BITS[family])) for a in (prefix - 1, prefix, end - 1, end)
        }

    @rule(
        prefix=prefixes, devices=hops, mode=st.sampled_from(
            ["add", "add", "append", "prepend", "replace", "change"]
        ), table=st.sampled_from([254, 254, 254, 255, 253, 100]), metric=st.integers(0, 2),
        tos=st.sampled_from([0, 0, 0x10]), source=st.sampled_from(SOURCES),
        kind=st.sampled_from(["unicast"] * 5 + ["throw", "blackhole"]),
    )  # fmt: skip
    def change(
        self, prefix: tuple[int, int, int], devices: list[str], mode: str, table: int, metric: int,
        tos: int, source: tuple[int, int], kind: str,
    ) -> None:  # fmt: skip
        family, address, plen = prefix
        route = Route(
            family, address, plen, table, kind, metric=metric,
            tos=tos if family == 4 else 0, nexthops=[Nexthop(d) for d in devices],
            **({} if family == 4 else {"src": source[0], "src_plen": source[1]}),
        )  # fmt: skip
        try:
            add_route(self.host, route, mode)
        except ControlError:
            pass
        self.touch(*prefix)
        self.follow()

    @rule(prefix=prefixes, table=st.sampled_from([254, 255, 253, 100]))
    def delete(self, prefix: tuple[int, int, int], table: int) -> None:
        family, address, plen = prefix
        try:
            del_route(self.host, Unwanted(family, address, plen, table))
        except ControlError:
            pass
        self.touch(*prefix)
        self.follow()

    @rule(which=st.integers(0, 10**6))
    def delete_what_is_there(self, which: int) -> None:
        there = [r for r in routes_of(self.host).singles() if r.protocol != "kernel"]
        if there:
            routes_of(self.host).discard(there[which % len(there)])
            self.follow()

    @rule(family=st.sampled_from([4, 6]), table=st.sampled_from([254, 100]))
    def flush(self, family: int, table: int) -> None:
        """Route by route, as a program does."""
        for route in list(routes_of(self.host).singles()):
            if (route.family, route.table) == (family, table) and route.protocol != "kernel":
                routes_of(self.host).discard(route)
        self.follow()

    @rule(device=st.sampled_from(DEVICES))
    def link_goes_down_and_up(self, device: str) -> None:
        change_device(self.host, device, up=False)
        self.follow()
        change_device(self.host, device, up=True)
        self.follow()

    @rule(family=st.sampled_from([4, 6]))
    def all_tables_are_looked_up(self, family: int) -> None:
        try:
            add_rule(self.host, Rule(family, 100, table=100))
        except ControlError:
            return
        self.anew()

    @invariant()
    def says_what_new_tables_say(self) -> None:
        for family, followed in self.live.items():
            builder = FibBuilder(self.host, family, self.rows)
            fib, rows = builder.build(), builder.rows()
            six = family == 6
            for table in (255, 254, 253, 100):
                places = (followed._builder.row_of.get(table), builder.row_of.get(table))
                for _, address in (t for t in self.touched if t[0] == family):
                    ours = chain(followed.fib, followed.rows, places[0], six, address)
                    theirs = chain(fib, rows, places[1], six, address)
                    text = ipaddress.ip_address(address) if six else ipaddress.IPv4Address(address)
                    assert ours == theirs, (table, str(text))
            counted = [r for r in routes_of(self.host).singles() if r.family == family]
            assert followed.sourced == sum(1 for r in counted if r.src_plen)
            assert followed.has_several == any(len(r.nexthops) > 1 for r in counted)


@pytest.fixture
def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The directories of large tables, in small ones; memory that is short all the time."""
    monkeypatch.setattr(directory, "LARGE", 12)
    monkeypatch.setattr(directory, "DENSE", 2)
    monkeypatch.setattr(directory, "MANY", 2)
    monkeypatch.setattr(build, "DIRECTORY_LEAST", 3)
    monkeypatch.setattr(live, "LEAST_ROOM", 1)


@pytest.mark.skipif(COMPILED, reason="calls the search by itself, which runs uncompiled")
@pytest.mark.parametrize("size", ["as they are", "as if large"])
def test_any_order_of_changes(size: str, request: pytest.FixtureRequest) -> None:
    if size == "as if large":
        request.getfixturevalue("as_if_large")
    case = Updates.TestCase
    case.settings = settings(
        max_examples=10,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    case().runTest()


def random_place(rng: np.random.Generator, family: int) -> tuple[int, int]:
    """One of some thousand prefixes that lie in bunches."""
    bits = BITS[family]
    base = BASES[family][rng.integers(len(BASES[family]))]
    plen = int(rng.choice([bits, bits - 1, bits - 2, bits - 4, bits - 8, bits // 2, 8]))
    address = (
        base
        + int(rng.integers(3 if rng.random() < 0.4 else 300)) * int(rng.choice([1, 1, 64, 1 << 14]))
    ) % (1 << bits)
    return address >> bits - plen << bits - plen, plen


def change_at_random(rng: np.random.Generator, netns: Netns, family: int) -> tuple[int, int]:
    prefix, plen = random_place(rng, family)
    try:
        if rng.random() < 0.4:
            netns.del_route(Unwanted(family, prefix, plen, 254))
        else:
            route = Route(family, prefix, plen, metric=int(rng.integers(3)))
            route.nexthops = [Nexthop(str(rng.choice(DEVICES)))]
            if family == 6 and rng.random() < 0.4:
                route.src, route.src_plen = int(rng.integers(12)) << 116, 12
            netns.add_route(route, str(rng.choice(["add", "append", "replace"])))
    except ControlError:
        pass
    return prefix, plen


def answers(netns: Netns, family: int, addresses: list[int]) -> list[Any]:
    asked = np.array([halves(a) for a in addresses], np.int64)
    got = answer_rows(
        netns, Question(family=family, source=5 << 116 if family == 6 else None), asked
    )
    rows = netns.routes(family)
    return [
        (int(g[T.GOT_ERROR]), id(rows[g[T.GOT_ROUTE]]) if g[T.GOT_ROUTE] >= 0 else None, int(g[T.GOT_DEVICE]))
        for g in got
    ]  # fmt: skip


@pytest.mark.parametrize("family", [4, 6])
def test_a_thousand_changes_of_a_living_host(family: int, as_if_large: None) -> None:
    """Asked as packets ask; against tables built anew, and the reference."""
    rng = np.random.default_rng(family)
    netns = Netns(router())
    touched: set[int] = set()
    for _ in range(5):
        for _ in range(250):
            prefix, plen = change_at_random(rng, netns, family)
            end = prefix + (1 << BITS[family] - plen)
            touched |= {prefix, end - 1, end % (1 << BITS[family])}
        asked = sorted(touched)
        ours = answers(netns, family, asked)
        assert ours == answers(Netns(netns.host), family, asked)
        assert sum(not error for error, _, _ in ours) > 100
        netns.change(netns.host)  # changes begin with tables that were built
        if family == 4:  # addresses that no look-up turns into others
            for address in [a for a in asked if 1 << 24 <= a < 127 << 24][::30]:
                assert_as_the_reference(netns, address)


def assert_as_the_reference(netns: Netns, address: int) -> None:
    found = reference_lookup(netns.host, 4, address)
    answer = netns.route_get(str(ipaddress.IPv4Address(address)))
    assert (answer.error, id(answer.route)) == (found.error, id(found.route)), address


def test_a_batch_under_way_sees_one_version() -> None:
    netns = Netns(router())
    netns.add_route(Route(4, number("77.0.0.0"), 8, nexthops=[Nexthop("r0")]))
    wanted = [number("77.1.2.3")]
    with netns._one_version():
        under_way = netns._version
        held = netns.tables.fib4
        copies = [array.copy() for array in held]
        netns.add_route(Route(4, number("77.1.0.0"), 16, nexthops=[Nexthop("r1")]))
        netns.add_route(Route(4, number("77.1.2.0"), 24, nexthops=[Nexthop("r2")]))
        assert netns._version is under_way
        assert all(np.array_equal(a, b) for a, b in zip(held, copies))
        assert [netns.host.devices[d].name for _, _, d in answers(netns, 4, wanted)] == ["r2"]
    assert netns._version is not under_way
    inner = netns.tables.fib4
    netns.del_route(Unwanted(4, number("77.1.2.0"), 24, 254))
    assert netns.tables.fib4 is inner, "nobody looked: changed in place"
    assert [netns.host.devices[d].name for _, _, d in answers(netns, 4, wanted)] == ["r1"]


def test_what_a_change_costs_does_not_depend_on_the_table() -> None:
    """A route in one of many slots: pages elsewhere stay where they are."""
    netns = Netns(router())
    for k in range(300):
        netns.add_route(Route(4, number("77.0.0.0") + (k << 16), 16, nexthops=[Nexthop("r0")]))
    netns.change(netns.host)
    netns.add_route(Route(4, number("77.9.0.0"), 24, nexthops=[Nexthop("r1")]))
    before = netns.tables.fib4.top.copy()
    work = netns._fibs[4]._pool[T.POOL_WORK]
    netns.add_route(Route(4, number("77.9.7.0"), 24, nexthops=[Nexthop("r1")]))
    assert np.count_nonzero(netns.tables.fib4.top != before) <= 1
    assert netns._fibs[4]._pool[T.POOL_WORK] - work < 8


def test_a_route_that_is_refused_changes_nothing() -> None:
    netns = Netns(router())
    known = [r for r in netns.host.routes]
    refused = [
        Route(4, 0, 0, nexthops=[Nexthop(gateway=number("99.0.0.1"))]),
        Route(6, 0, 0, nexthops=[  # half of it is fine
            Nexthop(gateway=number("2001:db8:1::2")), Nexthop(gateway=number("4000::1")),
        ]),
    ]  # fmt: skip
    for route in refused:
        before = answers(netns, route.family, [number("9.9.9.9" if route.family == 4 else "9::9")])
        with pytest.raises(ControlError):
            netns.add_route(route)
        assert list(map(id, netns.host.routes)) == list(map(id, known))
        assert (
            answers(netns, route.family, [number("9.9.9.9" if route.family == 4 else "9::9")])
            == before
        )
