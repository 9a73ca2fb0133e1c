"""Route hints: what `on` changes, and that `strict` changes nothing (routing semantics 1.5)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ippath.batch import PacketBatch
from ippath.fib.control import add_route, add_rule, set_sysctl
from ippath.model import Nexthop, Route, Rule
from ippath.netns import Netns
from ippath.verdicts import Verdicts
from tests.hosts import hosts, number, packets, router
from tests.packets import ip
from tests.shared import captures_with_hosts, needs_captures

# reasons of the source validation that a hint of a forwarded packet leaves out
SOURCE_CHECK = {"IP_RPFILTER", "IP_LOCAL_SOURCE", "IP_INVALID_SOURCE"}
COLUMNS = ("verdict", "reason", "route", "rule", "next_hop", "out_device", "socket", "protocol")


def run(host, batch: PacketBatch, hint: str) -> tuple[Netns, Verdicts, list]:
    netns = Netns(host, switches={"route_hint": hint})
    verdicts = netns.receive(batch, collect_output=True)
    netns.close_accounts()
    return netns, verdicts, netns.take_output()


def stream(*sent: bytes, device: int = 1, gap_ns: int = 1000) -> PacketBatch:
    return PacketBatch.from_packets(list(sent), device=device, interval_ns=gap_ns)


@st.composite
def streams(draw, family: int) -> PacketBatch:
    """Packets with runs of one destination, as a busy link has them."""
    sent: list[bytes] = []
    for packet in draw(st.lists(packets(family), min_size=1, max_size=12)):
        sent += [packet] * draw(st.integers(1, 3))
        if draw(st.booleans()) and len(sent) > 1:  # same destination, another source
            other = draw(packets(family))
            at = 12 if family == 4 else 8
            width = 4 if family == 4 else 16
            mixed = (
                other[: at + width] + packet[at + width : at + 2 * width] + other[at + 2 * width :]
            )
            sent.append(_with_checksum(mixed) if family == 4 else mixed)
    device = draw(st.integers(1, 3))
    return stream(*sent, device=device, gap_ns=draw(st.sampled_from([1000, 1000, 200_000])))


def _with_checksum(packet: bytes) -> bytes:
    from tests.packets import checksum

    head = packet[:10] + b"\0\0" + packet[12:20]
    return head[:10] + checksum(head).to_bytes(2, "big") + packet[12:]


@pytest.mark.parametrize("family", [4, 6])
@settings(max_examples=80)
@given(data=st.data())
def test_strict_equals_off(family: int, data: st.DataObject) -> None:
    host, batch = data.draw(hosts(family)), data.draw(streams(family))
    off, expected, sent_off = run(host, batch, "off")
    strict, got, sent_strict = run(host, batch, "strict")
    for column in COLUMNS:
        assert np.array_equal(getattr(got, column), getattr(expected, column)), column
    assert strict.counters() == off.counters()
    assert sent_strict == sent_off


@pytest.mark.parametrize("family", [4, 6])
@settings(max_examples=80)
@given(data=st.data())
def test_on_differs_only_where_the_kernel_skips_the_source_check(
    family: int, data: st.DataObject
) -> None:
    host, batch = data.draw(hosts(family)), data.draw(streams(family))
    _, off, _ = run(host, batch, "off")
    _, on, _ = run(host, batch, "on")
    for k in range(len(batch)):
        if (on.verdict[k], on.reason[k]) == (off.verdict[k], off.reason[k]):
            if on.route[k] != off.route[k]:
                assert on.hinted[k]  # a route learnt for the first packet of the run
            continue
        # what a hint makes invalid has no route
        assert on.hinted[k] or on.reason_names[k] == "IP_INVALID_SOURCE"
        assert SOURCE_CHECK & {on.reason_names[k], off.reason_names[k]}


STRICT = "net.ipv4.conf.all.rp_filter = 1\n"


@needs_captures
def test_over_the_shared_captures() -> None:
    """`strict` is `off`, and `on` leaves out source checks alone, where real packets are many."""
    hinted = packets_seen = 0
    for name, host, batch in captures_with_hosts(1000, more_lines=STRICT):
        off, expected, sent_off = run(host, batch, "off")
        strict, got, sent_strict = run(host, batch, "strict")
        for column in COLUMNS:
            assert np.array_equal(getattr(got, column), getattr(expected, column)), (name, column)
        assert strict.counters() == off.counters() and sent_strict == sent_off, name
        _, on, _ = run(host, batch, "on")
        for k in np.nonzero((on.verdict != expected.verdict) | (on.reason != expected.reason))[0]:
            changed = {on.reason_names[k], expected.reason_names[k]}
            assert SOURCE_CHECK & changed, f"{name}, frame {k + 1}: {changed}"
        hinted += int(on.hinted.sum())
        packets_seen += len(batch)
    assert packets_seen > 10_000 and hinted > 500


# --- each case by name --------------------------------------------------------------------------------


def forwarder():
    """77/8 leaves by r1; r0 checks sources strictly, and 10.2/16 is not behind it."""
    host = router()
    add_route(host, Route(4, number("77.0.0.0"), 8, -1, scope=-1, nexthops=[Nexthop("r1")]))
    set_sysctl(host, "net.ipv4.conf.r0.rp_filter", 1)
    return host


GOOD = ip("10.0.0.2", "77.0.0.1")
BAD = ip("10.2.0.2", "77.0.0.1")  # its way back leaves by r2


def reasons(host, hint: str, *sent: bytes, gap_ns: int = 1000) -> list[str]:
    return run(host, stream(*sent, gap_ns=gap_ns), hint)[1].reason_names


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("off", ["NONE", "IP_RPFILTER", "NONE"]),
        ("strict", ["NONE", "IP_RPFILTER", "NONE"]),
        ("on", ["NONE", "NONE", "NONE"]),
    ],
)
def test_later_packets_of_a_run_skip_rp_filter(hint: str, expected: list[str]) -> None:
    assert reasons(forwarder(), hint, GOOD, BAD, GOOD) == expected


@pytest.mark.parametrize(
    ("why", "sent", "expected"),
    [
        ("a bad first packet makes no hint", [BAD, BAD], ["IP_RPFILTER"] * 2),
        ("another TOS byte", [GOOD, ip("10.2.0.2", "77.0.0.1", tos=4)], ["NONE", "IP_RPFILTER"]),
        ("ECN bits count too", [GOOD, ip("10.2.0.2", "77.0.0.1", tos=1)], ["NONE", "IP_RPFILTER"]),
        ("another destination", [GOOD, ip("10.2.0.2", "77.0.0.2")], ["NONE", "IP_RPFILTER"]),
        (
            "local packets are validated",
            [ip("10.0.0.2", "10.0.0.1"), ip("10.2.0.2", "10.0.0.1")],
            ["NONE", "IP_RPFILTER"],
        ),
    ],
)
def test_no_hint_no_skipping(why: str, sent: list[bytes], expected: list[str]) -> None:
    assert reasons(forwarder(), "on", *sent) == expected


def test_a_hinted_packet_to_a_group_must_have_a_source() -> None:
    """Alone it need not, to 224.0.0.0/24: queries of switches without an address (RFC 4541) do."""
    query = ip("0.0.0.0", "224.0.0.1")
    assert reasons(router(), "off", query, query) == ["NONE", "NONE"]
    assert reasons(router(), "strict", query, query) == ["NONE", "NONE"]
    _, verdicts, _ = run(router(), stream(query, query), "on")
    assert verdicts.reason_names == ["NONE", "IP_INVALID_SOURCE"]
    assert verdicts.hinted.tolist() == [False, True]  # the hint is why


def test_a_rule_ever_added_switches_ipv4_hints_off() -> None:
    host = forwarder()
    add_rule(host, Rule(4, 100, action="nop"))
    assert reasons(host, "on", GOOD, BAD) == ["NONE", "IP_RPFILTER"]
    netns, _, _ = run(host, stream(GOOD, GOOD), "on")
    assert netns.totals().hint == {"used": 0, "missed": 2, "refused": 1}


def test_a_list_ends_after_eight_packets() -> None:
    sent = [GOOD] * 8 + [BAD]
    assert reasons(forwarder(), "on", *sent)[8] == "IP_RPFILTER"
    netns = Netns(forwarder(), switches={"receive_list": "16"})
    assert netns.receive(stream(*sent)).reason_names[8] == "NONE"


def test_a_list_ends_with_a_pause() -> None:
    assert reasons(forwarder(), "on", GOOD, BAD, gap_ns=60_000) == ["NONE", "IP_RPFILTER"]


def test_a_list_goes_on_over_a_cut_batch() -> None:
    netns = Netns(forwarder())
    batch = stream(GOOD, BAD)
    netns.receive(batch.select(slice(0, 1)))
    assert netns.receive(batch.select(slice(1, 2)), continue_list=True).reason_names == ["NONE"]


def test_multipath_makes_no_hint() -> None:
    host = router()
    hops = [Nexthop(gateway=number("10.1.0.2")), Nexthop(gateway=number("10.2.0.2"))]
    add_route(host, Route(4, number("77.0.0.0"), 8, -1, scope=-1, nexthops=hops))
    netns, verdicts, _ = run(host, stream(GOOD, GOOD), "on")
    assert not verdicts.hinted.any()
    assert netns.totals().hint["refused"] == 1


def test_ipv6_hint_ignores_the_traffic_class_and_stops_at_source_routes() -> None:
    host = router()
    add_route(host, Route(6, number("3000::"), 16, -1, scope=-1, nexthops=[Nexthop("r1")]))
    one, other = (ip("2001:db8:0::2", "3000::1", tos=t) for t in (0, 4))
    assert run(host, stream(one, other), "on")[1].hinted.tolist() == [False, True]
    source = {"src": number("2001:db8:1::"), "src_plen": 48}
    add_route(
        host, Route(6, number("4000::"), 16, -1, scope=-1, nexthops=[Nexthop("r2")], **source)
    )
    assert run(host, stream(one, one), "on")[1].hinted.tolist() == [False, False]


def test_a_hinted_packet_causes_no_redirect() -> None:
    host = router()
    add_route(host, Route(4, number("77.0.0.0"), 8, -1, scope=-1,
                          nexthops=[Nexthop(gateway=number("10.0.0.9"))]))  # fmt: skip
    batch = stream(GOOD, GOOD)
    redirects = {hint: run(host, batch, hint)[0].counters().get("IcmpOutRedirects", 0) for hint in
                 ("off", "on")}  # fmt: skip
    assert redirects["on"] == 1
    assert redirects["off"] >= 1
