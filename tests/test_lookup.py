"""The fast route look-up finds what the plain one finds, over random tables and rules."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ippath import tables as T
from ippath.batch import PacketBatch
from ippath.fib.control import add_route, reference_lookup, set_sysctl
from ippath.model import Nexthop, Route
from ippath.netns import Netns, route_text
from tests.hosts import DEVICES, ROUTED4, ROUTED6, hosts, number, router
from tests.packets import ip


@pytest.mark.parametrize("family", [4, 6])
@settings(max_examples=60)
@given(data=st.data())
def test_fast_lookup_equals_the_reference(family: int, data: st.DataObject) -> None:
    host = data.draw(hosts(family))
    # source-specific routes are pinned by recorded kernel answers: their backtracking is peculiar
    host.routes = [r for r in host.routes if not r.src_plen]
    for name in DEVICES:  # the destination alone shall decide
        for key, value in (
            ("rp_filter", 0), ("accept_local", 1), ("forwarding", 1), ("send_redirects", 0),
        ):  # fmt: skip
            set_sysctl(host, f"net.ipv4.conf.{name}.{key}", value)
    set_sysctl(host, "net.ipv4.conf.all.send_redirects", 0)
    addresses = ROUTED4 if family == 4 else ROUTED6
    netns = Netns(host, switches={"route_hint": "off"})
    known = netns.routes(family)
    for _ in range(6):
        source, target = data.draw(addresses), data.draw(addresses)
        tos, dport = data.draw(st.sampled_from([0, 16])), data.draw(st.sampled_from([9, 2000]))
        device = data.draw(st.integers(1, 3))
        packet = ip(source, target, tos=tos, dport=dport)
        verdicts = netns.receive(PacketBatch.from_packets([packet], device=device))
        expected = reference_lookup(
            host, family, int(ipaddress.ip_address(target)), int(ipaddress.ip_address(source)),
            iif=DEVICES[device - 1], tos=tos, protocol=17, sport=1000, dport=dport,
        )  # fmt: skip
        found = int(verdicts.route[0])
        if expected.error == 0:
            assert expected.route is not None
            if (
                family == 6
                and expected.route.type == "unicast"
                and len(expected.route.nexthops) > 1
            ):
                continue  # the hash chooses among equal routes
            assert found >= 0, f"{source} to {target}: nothing found, expected {expected.route}"
            assert known[found] is expected.route, (
                f"{source} to {target} tos {tos}: {route_text(known[found])}, "
                f"not {route_text(expected.route)}"
            )
        else:
            assert verdicts.verdict_names == ["dropped"], (
                f"{source} to {target} by {DEVICES[device - 1]}: {verdicts.reason_names}, error {expected.error}"
            )
            if found >= 0:
                assert known[found] is expected.route or known[found].type == "unreachable"


@pytest.mark.parametrize(("came_by", "leaves_by"), [("r0", "r0"), ("r1", "r1"), ("r2", "r1")])
def test_of_equal_ipv6_routes_that_by_which_a_packet_came(came_by: str, leaves_by: str) -> None:
    host = router()
    for name in ("r1", "r0"):
        add_route(host, Route(6, 0, 0, -1, scope=-1, nexthops=[Nexthop(name)]), "append")
    packet = ip("2001:db8::2", "3000::1")
    netns = Netns(host)
    device = DEVICES.index(came_by) + 1
    netns.receive(PacketBatch.from_packets([packet], device=device), collect_output=True)
    assert [name for name, *_ in netns.take_output()] == [leaves_by]
    found = reference_lookup(host, 6, number("3000::1"), number("2001:db8::2"), iif=came_by)
    assert found.nexthop is not None and found.nexthop.device == leaves_by


def test_rows_stand_for_the_routes_they_were_made_of() -> None:
    netns = Netns(router())
    for family, fib in ((4, netns.tables.fib4), (6, netns.tables.fib6)):
        for row, route in enumerate(netns.routes(family)):
            assert fib.route[row, T.ROUTE_PLEN] == route.plen
            assert fib.route[row, T.ROUTE_TABLE] == route.table
