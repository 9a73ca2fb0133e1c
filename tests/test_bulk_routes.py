"""Many routes at once: read, kept and looked up as if they had come one by one."""

from __future__ import annotations

import copy
import ipaddress
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ippath.config import bulk_routes
from ippath.config.host_file import parse, parse_host
from ippath.config.printed_routes import route_line
from ippath.config.words import HostErrors
from ippath.fib.blocks import RouteBlock
from ippath.fib.live import LiveFib
from ippath.fib.control import add_route, change_device, reference_lookup
from ippath.fib.routes import RouteList, routes_of
from ippath.model import Host, Nexthop, Route
from ippath.netns import Netns
from ippath.route_get import Question, ask

BASE = """\
ip link add r0 up type tun
ip link add r1 up type tun
ip addr add 10.0.0.1/24 dev r0
ip addr add 10.1.0.1/16 dev r1
ip -6 addr add 2001:db8::1/64 dev r0
net.ipv4.ip_forward = 1
net.ipv6.conf.all.forwarding = 1
"""
_RESTS4 = ["via 10.0.0.2", "via 10.1.0.9 proto bgp", "dev r1 metric 5", "via 10.0.0.3 table 100"]
_RESTS6 = ["via 2001:db8::9", "via 2001:db8::7 metric 9", "dev r1"]


def prefixes4() -> st.SearchStrategy[str]:
    return st.builds(
        lambda value, plen: str(ipaddress.IPv4Network((value, plen), strict=False)),
        st.integers(11 << 24, 13 << 24), st.integers(6, 32),
    )  # fmt: skip


def prefixes6() -> st.SearchStrategy[str]:
    return st.builds(
        lambda value, plen: str(ipaddress.IPv6Network((value << 70, plen), strict=False)),
        st.integers(0x80000000000000, 0x80000000000400), st.integers(20, 70),
    )  # fmt: skip


LINES4 = st.builds(
    lambda p, rest: f"ip route add {p} {rest}", prefixes4(), st.sampled_from(_RESTS4)
)
LINES6 = st.builds(
    lambda p, rest: f"ip -6 route append {p} {rest}", prefixes6(), st.sampled_from(_RESTS6)
)
ODD = st.sampled_from([
    "ip route add 11.0.0.1/24 via 10.0.0.2",  # bits behind the length
    "ip route add 11.0.0.0/40 via 10.0.0.2",
    "ip route add 11.0.0 via 10.0.0.2",
    "ip route add 11.0.0.0/8 via 99.9.9.9",  # a gateway out of reach
    "ip route add 10.1.0.8/30 dev r0",  # holds a gateway: later ones go another way
    "ip route replace 11.0.0.0/8 via 10.0.0.2", "ip route add prohibit 12.0.0.0/9",
    "ip route add prohibit 12.4.0.0/16", "ip -6 route add blackhole 2001:db8:9::/48", "ip route add unreachable 12.0.0.0/8",
    "ip -6 route append 2001:db8:5::/48 via 2001:db8::9 # twice makes one of two next hops",
    "12.1.0.0/16 via 10.0.0.2 dev r0 proto static", "net.ipv4.conf.r0.rp_filter = 2", "",
])  # fmt: skip


def outcome(text: str, least: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """The routes, or what is wrong, with runs of `least` lines read at once."""
    with monkeypatch.context() as patch:
        patch.setattr(bulk_routes, "LEAST_RUN", least)
        patch.setattr("ippath.config.host_file.LEAST_RUN", least)
        try:
            return sorted(map(route_line, parse_host(text).routes)), []
        except HostErrors as errors:
            return [], [str(problem) for problem in errors.problems]


@settings(max_examples=150)
@given(lines=st.lists(LINES4 | LINES6 | ODD, max_size=40), twice=st.booleans())
def test_runs_give_what_single_lines_give(lines: list[str], twice: bool) -> None:
    text = BASE + "\n".join(lines + (lines[:1] if twice else [])) + "\n"
    with pytest.MonkeyPatch.context() as patch:
        assert outcome(text, 3, patch) == outcome(text, 10**9, patch)


def full_text(count: int) -> str:
    lines = [
        f"ip route add 11.{k >> 8}.{k & 255}.0/24 via 10.0.0.{2 + k % 3}" for k in range(count)
    ]
    lines += [
        f"ip -6 route add 2001:db8:{k + 1:x}::/48 via 2001:db8::{2 + k % 3}" for k in range(count)
    ]
    return BASE + "\n".join(lines) + "\n"


def test_a_long_run_becomes_a_block_for_each_family() -> None:
    routes = routes_of(parse_host(full_text(2000)))
    assert [(block.family, len(block)) for block in routes.blocks] == [(4, 1997), (6, 1996)]
    assert len(routes) == len(list(routes.singles())) + 3993
    assert [r.prefix for r in routes.at(4, 254, 0x0B010200, 24)] == [0x0B010200]
    held = {r.plen for r in routes.covering(6, 254, int(ipaddress.ip_address("2001:db8:77::1")))}
    assert held == {48}


def test_wrong_lines_within_a_run_are_named_where_they_stand() -> None:
    lines = full_text(1500).splitlines()
    lines[700] = "ip route add 11.200.0.1/24 via 10.0.0.2"
    lines[900] = "ip route add 11.0.0.0/33 via 10.0.0.2"
    with pytest.raises(HostErrors) as caught:
        parse("\n".join(lines), "x")
    assert [p.line for p in caught.value.problems] == [701, 901]
    assert "Invalid prefix" in caught.value.problems[0].expected


# --- looking up -----------------------------------------------------------------------------------------


def in_block(routes: list[Route], hosts_own: Host) -> Host:
    """The host with these routes in a block."""
    host = copy.deepcopy(hosts_own)
    patterns = [Route(4, 0, 0, -1, scope=-1, nexthops=[Nexthop("r0")]),
                Route(4, 0, 0, -1, scope=-1, nexthops=[Nexthop("r1", gateway=0x0A010009)])]  # fmt: skip
    for pattern in patterns:
        add_route(copy.deepcopy(host), pattern, "replace")
    prefix = np.array([[0, r.prefix] for r in routes], np.uint64).reshape(-1, 2)
    block = RouteBlock(
        4, prefix, np.array([r.plen for r in routes], np.uint8),
        np.array([r.nexthops[0].gateway is not None for r in routes], np.int32), patterns,
    )  # fmt: skip
    routes_of(host).add_block(block)
    return host


@given(st.sets(prefixes4(), min_size=1, max_size=60), st.data())
def test_a_block_is_built_like_single_routes(texts: set[str], data: st.DataObject) -> None:
    own = parse_host(BASE)
    single = copy.deepcopy(own)
    routes = []
    for text in sorted(texts):
        network = ipaddress.IPv4Network(text)
        hop = data.draw(st.sampled_from([Nexthop("r0"), Nexthop("r1", gateway=0x0A010009)]))
        route = Route(
            4, int(network[0]), network.prefixlen, -1, scope=-1, nexthops=[copy.copy(hop)]
        )
        add_route(single, route)
        routes.append(route)
    rows = {d.name: k for k, d in enumerate(own.devices)}
    one, many = LiveFib(single, 4, rows), LiveFib(in_block(routes, own), 4, rows)
    assert [route_line(r) for r in one.rows] == [route_line(r) for r in many.rows]
    for name in ("table", "start_lo", "top", "node"):
        assert np.array_equal(getattr(one.fib, name), getattr(many.fib, name)), name


def test_a_full_table_is_looked_up_like_the_reference() -> None:
    rng = np.random.default_rng(5)
    lines = set()
    while len(lines) < 3000:
        plen = int(rng.integers(8, 33))
        value = int(rng.integers(11 << 24, 14 << 24)) >> (32 - plen) << (32 - plen)
        lines.add(f"{ipaddress.IPv4Address(value)}/{plen}")
    text = BASE + "".join(
        f"ip route add {p} via 10.0.0.{2 + k % 9}\n" for k, p in enumerate(sorted(lines))
    )
    host = parse_host(text)
    assert len(routes_of(host).blocks) == 1
    netns = Netns(host)
    for destination in map(int, rng.integers(11 << 24, 14 << 24, 300)):
        found = ask(netns, Question(4), destination)
        expected = reference_lookup(host, 4, destination)
        assert found.route is expected.route
    assert routes_of(host).blocks, "asking made objects of all routes"


# --- the list keeps its promises ------------------------------------------------------------------------


def test_going_through_the_list_shows_every_route_once() -> None:
    routes = routes_of(parse_host(full_text(600)))
    count = len(routes)
    first = routes.at(4, 254, 0x0B010200, 24)[0]
    assert len(list(routes)) == count == len(routes)
    assert routes.at(4, 254, 0x0B010200, 24) == [first] and any(r is first for r in routes)


@pytest.mark.parametrize("change", ["append", "insert", "remove", "sort", "extend"])
def test_changes_of_a_list_with_blocks(change: str) -> None:
    routes = routes_of(parse_host(full_text(600)))
    count = len(routes)
    new = Route(4, 0x0C000000, 8)
    if change == "append":
        routes.append(new)
    elif change == "insert":
        routes.insert(0, new)
    elif change == "extend":
        routes.extend([new])
    elif change == "remove":
        routes.remove(routes.at(4, 254, 0x0B010200, 24)[0])
        assert routes.at(4, 254, 0x0B010200, 24) == []
    else:
        routes.sort(key=lambda r: r.plen)
    assert len(routes) == count + {"remove": -1, "sort": 0}.get(change, 1)


def test_copies_are_independent() -> None:
    host = parse_host(full_text(600))
    other = copy.deepcopy(host)
    change_device(other, "r0", carrier=False)
    assert any(hop.linkdown for route in other.routes for hop in route.nexthops)
    assert not any(hop.linkdown for route in host.routes for hop in route.nexthops)
    again = pickle.loads(pickle.dumps(RouteList(host.routes)))
    assert list(map(route_line, again)) == list(map(route_line, host.routes))


@pytest.mark.parametrize("event", ["down", "carrier"])
def test_a_device_that_goes_takes_its_routes_along(event: str) -> None:
    host = parse_host(full_text(600) + "ip route add default dev r1\n")
    change_device(host, "r0", **({"up": False} if event == "down" else {"carrier": False}))
    netns = Netns(host)
    route = netns.route_get("11.1.2.3").route
    assert route is not None
    if event == "down":
        assert route.plen == 0
    else:
        assert route.plen == 24 and route.nexthops[0].linkdown
