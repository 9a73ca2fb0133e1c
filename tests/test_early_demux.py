"""Early demux: what a connected socket remembers, what it skips, and how it meets the route hint."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ippath.batch import PacketBatch
from ippath.fib.control import set_sysctl
from ippath.model import Host, Listener
from ippath.netns import Netns
from tests.hosts import hosts, number, router
from tests.packets import ip
from tests.test_hints import COLUMNS, run, streams

R0, R1 = 1, 2
PEERS = ip("10.0.0.2", "10.0.0.1", sport=5000, dport=4000)
OTHERS = ip("10.1.0.2", "10.0.0.1", sport=5000, dport=9)


def connected_host(**sysctls: int) -> Host:
    host = router()
    host.listeners = [
        Listener(4, number("10.0.0.1"), 4000, peer=number("10.0.0.2"), peer_port=5000)
    ]
    set_sysctl(host, "net.ipv4.conf.all.rp_filter", 1)
    for name, value in sysctls.items():
        set_sysctl(host, f"net.ipv4.{name}", value)
    return host


def reasons(host: Host, hint: str, *sent: tuple[int, bytes], gap_ns: int = 1000) -> list[str]:
    devices, packets = zip(*sent)
    batch = PacketBatch.from_packets(list(packets), interval_ns=gap_ns)
    batch.device[:] = devices
    return Netns(host, switches={"route_hint": hint}).receive(batch).reason_names


@pytest.mark.parametrize("switch", ["ip_early_demux", "udp_early_demux"])
@pytest.mark.parametrize(("value", "last"), [(1, "NONE"), (0, "IP_RPFILTER")])
def test_source_validation_is_skipped_once_the_route_is_known(
    switch: str, value: int, last: str
) -> None:
    sent = [(R1, PEERS), (R0, PEERS), (R1, PEERS)]
    got = reasons(connected_host(**{switch: value}), "on", *sent)
    assert got == ["IP_RPFILTER", "NONE", last]


@pytest.mark.parametrize(
    ("why", "packet"),
    [
        ("another port of the peer", ip("10.0.0.2", "10.0.0.1", sport=5001, dport=4000)),
        ("another sender", ip("10.0.0.3", "10.0.0.1", sport=5000, dport=4000)),
        ("a fragment", ip("10.0.0.2", "10.0.0.1", sport=5000, dport=4000, frag=0x2000)),
    ],
)
def test_only_whole_datagrams_of_the_peer(why: str, packet: bytes) -> None:
    got = reasons(connected_host(), "on", (R0, PEERS), (R1, packet))
    assert got == ["NONE", "IP_RPFILTER"], why


def test_a_later_socket_of_the_same_address_hides_the_connected_one() -> None:
    host = connected_host()
    host.listeners.append(Listener(4, number("10.0.0.1"), 4000))
    assert reasons(host, "on", (R0, PEERS), (R1, PEERS)) == ["NONE", "IP_RPFILTER"]


@pytest.mark.parametrize(
    ("hint", "expected"), [("off", "NONE"), ("strict", "NONE"), ("on", "IP_RPFILTER")]
)
def test_a_hinted_packet_has_no_early_demux(hint: str, expected: str) -> None:
    """The hint comes first in the kernel; `strict` decides as without hints."""
    got = reasons(connected_host(), hint, (R0, PEERS), (R1, OTHERS), (R1, PEERS))
    assert got == ["NONE", "NO_SOCKET", expected]


@settings(max_examples=80)
@given(data=st.data())
def test_strict_equals_off_with_a_connected_socket(data: st.DataObject) -> None:
    host, batch = data.draw(hosts(4)), data.draw(streams(4))
    peer = data.draw(st.sampled_from(["10.0.0.2", "10.1.0.2", "10.1.0.1"]))
    own = data.draw(st.sampled_from(["10.0.0.1", "10.1.0.1"]))
    host.listeners.append(Listener(4, number(own), 2000, peer=number(peer), peer_port=1000))
    off, expected, _ = run(host, batch, "off")
    strict, got, _ = run(host, batch, "strict")
    for column in COLUMNS:
        assert getattr(got, column).tolist() == getattr(expected, column).tolist(), column
    assert strict.counters() == off.counters()
