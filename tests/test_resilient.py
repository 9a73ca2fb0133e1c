"""Resilient groups: a bucket in use stays with its member, however packets and changes come.

What the kernel does is in the scenarios of `nexthop` (tests/kernel); here is what it can't be asked.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ippath import Netns, PacketBatch
from ippath.config import parse_host
from ippath.fib.nexthops import del_nexthop
from ippath.fib.resilient import NEVER, SECOND, ResilientTable, wanted
from ippath.verify.packets import ip4, udp

HOST = """
link add r0 type tun
link set r0 up
addr add 10.0.0.1/24 dev r0
link add r1 type tun
link set r1 up
addr add 10.1.0.1/24 dev r1
net.ipv4.ip_forward = 1
nexthop add id 1 via 10.0.0.9 dev r0
nexthop add id 2 via 10.1.0.9 dev r1
nexthop add id 3 via 10.1.0.77 dev r1
nexthop add id 20 group 1 type resilient buckets 8 idle_timer 2
route add 77.0.0.0/8 nhid 20
"""
BOTH = HOST.replace("group 1 type", "group 2/3 type")


def devices(netns: Netns, times: list[float], ends: list[int]) -> list[str]:
    """By which device packets of flows 0, 1, 2, … leave at these times, in batches that end there."""
    flows = [ip4("10.1.0.5", f"77.0.0.{k}", udp(1000 + k, 2000)) for k in range(len(times))]
    for begin, end in zip([0, *ends], [*ends, len(times)]):
        batch = PacketBatch.from_packets(flows[begin:end], device=1)
        batch.time_ns = np.array([int(t * SECOND) for t in times[begin:end]], np.int64)
        netns.receive(batch, collect_output=True)
    return [sent.device for sent in netns.take_output()]


def out_of_balance() -> Netns:
    """Of a group of one device, whose buckets packets used at 1 s, three should go to another."""
    one = HOST.replace("group 1 type", "group 1/4 type").replace(
        "nexthop add id 20", "nexthop add id 4 via 10.0.0.77 dev r0\nnexthop add id 20"
    )
    netns = Netns(parse_host(one), seed=1)
    assert set(devices(netns, [1.0] * 60, [])) == {"r0"}
    netns.advance(1_500_000_000)
    netns.change(parse_host(one + "nexthop replace id 20 group 1/4/2 type resilient\n"))
    return netns


@settings(max_examples=20)
@given(st.sets(st.integers(1, 59), max_size=6))
def test_buckets_go_when_their_time_comes_within_a_batch_or_between(ends: set[int]) -> None:
    times = [2.0] + [2.5 + k / 40 for k in range(59)]
    assert devices(out_of_balance(), times, sorted(ends)) == devices(out_of_balance(), times, [])


def test_nothing_moves_before_and_all_has_after() -> None:
    netns = out_of_balance()
    netns.advance(3_000_000_000 - 1)
    assert sorted(netns.host.nexthops[20].buckets) == [1] * 4 + [4] * 4
    netns.advance(3_000_000_000)
    assert sorted(netns.host.nexthops[20].buckets) == [1] * 3 + [2] * 3 + [4] * 2


def test_a_member_that_is_deleted_is_followed() -> None:
    """Also if only next hops changed, and no route came or went."""
    netns = Netns(parse_host(BOTH), seed=1)
    del_nexthop(netns.host, 3)
    netns.routes_changed()
    assert netns.host.nexthops[20].buckets == [2] * 8
    assert devices(netns, [1.0] * 20, []) == ["r1"] * 20


def test_what_is_due_before_a_change_is_followed_happens_as_before_it() -> None:
    """Upkeep goes on with the groups that packets go through, whatever the host says by now."""
    for change in (lambda host: del_nexthop(host, 1), lambda host: del_nexthop(host, 20)):
        netns = out_of_balance()
        change(netns.host)
        netns.advance(3_600_000_000)
        assert devices(netns, [3.7] * 60, []) == devices(out_of_balance(), [3.7] * 60, [])
        netns.routes_changed()
    assert "r0" not in devices(netns, [5.0] * 10, []), "only errors, back to the sender"


WEIGHTS = st.dictionaries(st.integers(1, 6), st.integers(1, 9), min_size=1)
CHANGES = st.lists(
    st.tuples(WEIGHTS, st.sets(st.integers(0, 39)), st.integers(0, 9)), max_size=6
)  # fmt: skip


@given(st.integers(1, 40), CHANGES, st.integers(0, 3))
def test_every_bucket_has_a_member_and_in_the_end_each_has_its_share(
    size: int, changes: list[tuple[dict[int, int], set[int], int]], unbalanced: int
) -> None:
    table, now = ResilientTable([(1, 1)], [1] * size), SECOND
    table.idle_ns, table.unbalanced_ns = 2 * SECOND, unbalanced * SECOND
    for weights, used, later in changes:
        in_use = [k for k in used if k < size]
        table.used_ns = [now if k in in_use else ns for k, ns in enumerate(table.used_ns)]
        before, table.members = list(table.buckets), list(weights.items())
        table.upkeep(now)
        assert set(table.buckets) <= weights.keys()
        for k in in_use:
            if before[k] in weights and not unbalanced:
                assert table.buckets[k] == before[k], "in use, and its member is still there"
        now += later * SECOND
        while table.due_ns <= now:
            table.upkeep(table.due_ns)
    while table.due_ns < NEVER:
        table.upkeep(table.due_ns)
    shares = wanted(table.members, size)
    assert {number: table.buckets.count(number) for number in shares} == shares


def test_objects_after_a_route_are_none_of_its_next_hops() -> None:
    host = parse_host(HOST + "nexthop add id 30 group 1\nnexthop del id 3\n")
    assert sorted(host.nexthops) == [1, 2, 20, 30]
    more = parse_host(
        HOST + "route add 79.0.0.0/8\n    nexthop via 10.0.0.9 nexthop via 10.1.0.9\n"
    )
    assert [len(route.nexthops) for route in more.routes if route.prefix >> 24 == 79] == [2]
