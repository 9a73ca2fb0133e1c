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
)  # fmt: skip
from ippath.fib.live import LiveFib
from ippath.fib.routes import routes_of
from ippath.fib.search import leaf_node, search4, search6
from ippath.jit import COMPILED
from ippath.model import Host, Nexthop, Route, Rule
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


@pytest.mark.skipif(COMPILED, reason="calls the search by itself, which runs uncompiled")
@pytest.mark.parametrize("small", [False, True])
def test_any_order_of_changes(small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if small:  # the directories of large tables, in small ones; memory that is short all the time
        monkeypatch.setattr(directory, "LARGE", 12)
        monkeypatch.setattr(directory, "DENSE", 2)
        monkeypatch.setattr(directory, "MANY", 2)
        monkeypatch.setattr(build, "DIRECTORY_LEAST", 3)
        monkeypatch.setattr(live, "LEAST_ROOM", 1)
    case = Updates.TestCase
    case.settings = settings(
        max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
    )
    case().runTest()
