"""Explaining one packet: the verdict of the replay, and the names of what decided.

The numbers in the names of cases are those of public reports of people who could not find out why
their packets vanished.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ippath import trace as TR
from ippath.batch import LINK_ETHERNET, LINK_RAW, PacketBatch
from ippath.config import parse_host
from ippath.explain import Explanation, explain, resolve_sysctl
from ippath.netns import Netns
from ippath.verify.packets import (
    echo, echo6, eth, fragment_header, hop_by_hop, icmp, icmp6, ip4, ip6, routing, tcp, udp,
)  # fmt: skip
from tests.shared import captures_with_hosts, needs_captures


BASE = """
ip link add r0 type tun
ip link add r1 type tun
ip link set r0 up
ip link set r1 up
ip addr add 10.0.0.1/24 dev r0
ip addr add 10.1.0.1/24 dev r1
ip addr add 2001:db8:0::1/64 dev r0
ip addr add 2001:db8:1::1/64 dev r1
net.ipv4.ip_forward = 1
net.ipv6.conf.all.forwarding = 1
"""
STRICT = BASE + "net.ipv4.conf.all.rp_filter = 1\nip route add default via 10.0.0.2 dev r0\n"


def netns(text: str, **switches: str) -> Netns:
    return Netns(parse_host(text), switches=switches, seed=1)


def told(text: str, packet: bytes, device: str = "r0", mark: int = 0) -> Explanation:
    """The explanation of one packet on a fresh host."""
    host = netns(text)
    row = [d.name for d in host.host.devices].index(device)
    return host.explain(PacketBatch.from_packets([packet], device=row, mark=mark), 0)


@dataclass(frozen=True)
class Case:
    """A packet, its verdict, and (kind, part of the text) of what must be among what decided."""

    host: str
    packet: bytes
    verdict: str
    decided: tuple[tuple[str, str], ...]
    device: str = "r0"
    mark: int = 0
    ways: tuple[str, ...] = ()
    not_ways: tuple[str, ...] = field(default=())


CASES: dict[str, Case] = {
    "delivered to a socket": Case(
        BASE + "listen udp 0.0.0.0:53\n", ip4("10.0.0.2", "10.0.0.1", udp(4000, 53)),
        "delivered NONE", (("table", "local"), ("socket", "udp 0.0.0.0:53")),
    ),
    "delivered, IPv6": Case(
        BASE + "listen udp [::]:53\n", ip6("2001:db8::2", "2001:db8::1", udp(4000, 53)),
        "delivered NONE", (("table", "local"), ("socket", "udp [::]:53")),
    ),
    "forwarded": Case(
        BASE + "ip route add 10.9.0.0/16 via 10.1.0.2\n", ip4("10.0.0.2", "10.9.0.1", udp()),
        "forwarded NONE",
        (("table", "main"), ("route", "10.9.0.0/16 via 10.1.0.2 dev r1"),
         ("next hop", "via 10.1.0.2 dev r1"), ("device", "r1")),
    ),
    "forwarded by a rule": Case(
        BASE + "ip route add default via 10.1.0.2 dev r1 table 100\n"
        "ip rule add pref 50 from 10.0.0.0/24 lookup 100\n",
        ip4("10.0.0.2", "10.9.0.1", udp()), "forwarded NONE",
        (("rule", "50: from 10.0.0.0/24 lookup 100"), ("table", "100"),
         ("route", "default via 10.1.0.2 dev r1 table 100")),
    ),
    "no socket": Case(
        BASE + "listen udp 10.1.0.1:53\n", ip4("10.0.0.2", "10.0.0.1", udp(4000, 53)),
        "dropped NO_SOCKET",
        (("socket", "none listens on 10.0.0.1 port 53"), ("other socket", "udp 10.1.0.1:53")),
    ),
    "not forwarding": Case(
        BASE.replace("ip_forward = 1", "ip_forward = 0"), ip4("10.0.0.2", "10.1.0.2", udp()),
        "dropped IP_INADDRERRORS",
        (("sysctl", "net.ipv4.ip_forward = 0"), ("route", "10.1.0.0/24 dev r1")),
    ),
    "not forwarding by the device's own setting": Case(
        BASE + "net.ipv4.conf.r0.forwarding = 0\n", ip4("10.0.0.2", "10.1.0.2", udp()),
        "dropped IP_INADDRERRORS", (("sysctl", "net.ipv4.conf.r0.forwarding = 0"),),
    ),
    "not forwarding, IPv6": Case(
        BASE.replace("net.ipv6.conf.all.forwarding = 1", ""),
        ip6("2001:db8::2", "2001:db8:1::2", udp()), "dropped IP_INADDRERRORS",
        (("sysctl", "net.ipv6.conf.all.forwarding = 0"),),
    ),
    "no route": Case(
        BASE, ip4("10.0.0.2", "192.0.2.1", udp()), "dropped IP_INNOROUTES",
        (("route", "none"), ("check", "network unreachable")),
    ),
    "unreachable route": Case(
        BASE + "ip route add unreachable 10.9.0.0/16\n", ip4("10.0.0.2", "10.9.0.1", udp()),
        "dropped NOT_SPECIFIED", (("route", "unreachable 10.9.0.0/16"),),
    ),
    "bad header": Case(
        BASE, ip4("10.0.0.2", "10.0.0.1", udp())[:10] + b"\0\0"
        + ip4("10.0.0.2", "10.0.0.1", udp())[12:],
        "dropped IP_CSUM", (("check", "header checksum bad"),),
    ),
    "loopback address on a wire": Case(
        BASE, ip4("10.0.0.2", "127.0.0.1", udp()), "dropped IP_LOCALNET",
        (("sysctl", "route_localnet = 0"),),
    ),
    "source is ours": Case(
        BASE, ip4("10.1.0.1", "10.0.0.1", udp()), "dropped IP_LOCAL_SOURCE",
        (("sysctl", "accept_local = 0"), ("address", "10.1.0.1 is an address of r1")),
    ),
    "report 5: the way back leaves by the other device": Case(
        STRICT, ip4("192.0.2.9", "10.1.0.1", udp()), "dropped IP_RPFILTER",
        (("sysctl", "net.ipv4.conf.all.rp_filter = 1 (the larger of all and device counts; r1 has 0)"),
         ("way back", "default via 10.0.0.2 dev r0 (table main), leaves by r0; the packet came in on r1"),
         ("log", "martian source 10.1.0.1 from 192.0.2.9, on dev r1")),
        device="r1",
        ways=("net.ipv4.conf.r1.rp_filter = 2", "ip rule add from 10.1.0.1 lookup"),
        not_ways=("src_valid_mark",),
    ),
    "report 5: a table for it is there, a rule is not": Case(
        STRICT + "ip route add default via 10.1.0.2 dev r1 table 100\n",
        ip4("192.0.2.9", "10.1.0.1", udp()), "dropped IP_RPFILTER", (), device="r1",
        ways=("ip rule add from 10.1.0.1 lookup 100 (which has default via 10.1.0.2 dev r1 table 100)",),
    ),
    "report 6: a mark rule that the way back does not see": Case(
        STRICT + "ip route add default via 10.1.0.2 dev r1 table 1\n"
        "ip rule add pref 90 fwmark 2 lookup 1\n",
        ip4("192.0.2.9", "10.1.0.1", udp()), "dropped IP_RPFILTER",
        (("rule back", "32766: from all lookup main"),), device="r1", mark=2,
        ways=("net.ipv4.conf.r1.src_valid_mark = 1", "rule 90: from all fwmark 0x2 lookup 1"),
    ),
    "report 6: with src_valid_mark": Case(
        STRICT + "ip route add default via 10.1.0.2 dev r1 table 1\n"
        "ip rule add pref 90 fwmark 2 lookup 1\nnet.ipv4.conf.all.src_valid_mark = 1\n"
        "listen udp 0.0.0.0:2000\n",
        ip4("192.0.2.9", "10.1.0.1", udp()), "delivered NONE", (), device="r1", mark=2,
    ),
    "report 7: no way back at all": Case(
        BASE + "net.ipv4.conf.r1.rp_filter = 1\nnet.ipv4.conf.r1.log_martians = 1\n",
        ip4("192.0.2.9", "10.1.0.1", udp()), "dropped IP_RPFILTER",
        (("sysctl", "net.ipv4.conf.r1.rp_filter = 1"), ("way back", "none: no route to 192.0.2.9"),
         ("log", "the kernel log has")), device="r1",
        ways=("ip route add 192.0.2.9 dev r1",), not_ways=("rp_filter = 2",),
    ),
    "report 8: two uplinks, rules by source": Case(
        STRICT + "ip route add default via 10.1.0.2 dev r1 table 100\n"
        "ip rule add pref 50 from 10.0.0.0/24 lookup main\n"
        "ip rule add pref 60 from 10.1.0.0/24 lookup 100\n",
        ip4("192.0.2.9", "10.0.0.1", udp()), "dropped IP_RPFILTER",
        (("rule back", "50: from 10.0.0.0/24 lookup main"), ("way back", "leaves by r0")),
        device="r1",
    ),
    "report 10: either device of a multipath route is a way back": Case(
        BASE + "net.ipv4.conf.all.rp_filter = 1\nlisten udp 0.0.0.0:2000\n"
        "ip route add default nexthop via 10.0.0.2 dev r0 nexthop via 10.1.0.2 dev r1\n",
        ip4("192.0.2.9", "10.1.0.1", udp()), "delivered NONE", (), device="r1",
    ),
    "TTL": Case(
        BASE, ip4("10.0.0.2", "10.1.0.2", udp(), ttl=1), "dropped IP_INHDR",
        (("check", "TTL 1"), ("route", "10.1.0.0/24 dev r1")),
    ),
    "too big": Case(
        BASE + "ip link set r1 mtu 600\n", ip4("10.0.0.2", "10.1.0.2", udp(payload=bytes(700)), df=True),
        "dropped PKT_TOO_BIG", (("check", "MTU 600 on r1, DF 1"),),
    ),
    "UDP checksum": Case(
        BASE + "listen udp 0.0.0.0:2000\n", ip4("10.0.0.2", "10.0.0.1", udp(damage=1)),
        "dropped UDP_CSUM", (("check", "UDP checksum bad"),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_decided_is_named(name: str) -> None:
    case = CASES[name]
    explanation = told(case.host, case.packet, case.device, case.mark)
    text = explanation.text()
    assert f"{explanation.verdict} {explanation.reason}" == case.verdict, text
    for kind, part in case.decided:
        assert [w for k, w in explanation.decided_by if k == kind and part in w], text
    ways = "\n".join(explanation.ways_out)
    for part in case.ways:
        assert part in ways, text
    for part in case.not_ways:
        assert part not in ways, text
    assert bool(explanation.ways_out) == (explanation.reason == "IP_RPFILTER")


@pytest.mark.parametrize(
    "name", [n for n in CASES if CASES[n].ways and "report" in n and "a mark" not in n]
)
def test_the_ways_out_are_ways_out(name: str) -> None:
    """Each suggestion that is complete is tried: the packet then passes the check."""
    case = CASES[name]
    explanation = told(case.host, case.packet, case.device, case.mark)
    tried = 0
    for way in explanation.ways_out:
        lines = re.findall(r"net\.ipv4\.conf\.\w+\.\w+ = \d", way)
        lines += [re.sub(r" \(.*", "", m) for m in re.findall(r"ip (?:rule|route) add [^,]+", way)]
        if not lines or "NUMBER" in way:
            continue
        changed = told(case.host + "\n".join(lines) + "\n", case.packet, case.device, case.mark)
        assert changed.reason != "IP_RPFILTER", way
        tried += 1
    assert tried >= 2


def test_the_way_of_the_mark_is_a_way_out() -> None:
    case = CASES["report 6: a mark rule that the way back does not see"]
    changed = told(
        case.host + "net.ipv4.conf.r1.src_valid_mark = 1\n", case.packet, case.device, case.mark
    )
    assert changed.reason == "NO_SOCKET"


def test_both_look_ups_are_told_apart() -> None:
    """Report 8: which rules were tried on the way in, and which on the way back."""
    case = CASES["report 8: two uplinks, rules by source"]
    explanation = told(case.host, case.packet, case.device)
    tried = [
        (s.lookup, s.values[0], bool(s.values[1]))
        for s in explanation.steps
        if s.step == TR.T_RULE4
    ]
    assert tried == [("route", 0, True), ("way back", 0, True), ("way back", 1, True)]
    assert "rule (way back)" in explanation.text()


def test_the_look_up_of_an_answer_decides_nothing() -> None:
    explanation = told(BASE, ip4("10.0.0.2", "10.0.0.1", udp()))
    assert [s.lookup for s in explanation.steps if s.step == TR.T_TABLE4] == ["route", "answer"]
    assert ("table", "local") in explanation.decided_by
    assert not [what for _, what in explanation.decided_by if "10.0.0.0/24" in what]


SETTINGS: dict[str, tuple[str, str, str]] = {
    "larger: all": (
        "net.ipv4.conf.all.rp_filter = 2\nnet.ipv4.conf.r0.rp_filter = 1\n", "rp_filter",
        "net.ipv4.conf.all.rp_filter = 2 (the larger of all and device counts; r0 has 1)",
    ),
    "larger: device": (
        "net.ipv4.conf.r0.rp_filter = 1\n", "rp_filter",
        "net.ipv4.conf.r0.rp_filter = 1 (the larger of all and device counts; all has 0)",
    ),
    "larger: equal": (
        "net.ipv4.conf.all.rp_filter = 1\nnet.ipv4.conf.r0.rp_filter = 1\n", "rp_filter",
        "net.ipv4.conf.all.rp_filter and net.ipv4.conf.r0.rp_filter = 1",
    ),
    "OR: on in one": (
        "net.ipv4.conf.r0.accept_local = 1\n", "accept_local",
        "net.ipv4.conf.r0.accept_local = 1 (on in all or device is enough; all has 0)",
    ),
    "OR: off in both": (
        "", "accept_local",
        "net.ipv4.conf.all.accept_local and net.ipv4.conf.r0.accept_local = 0",
    ),
    "AND: off in one": (
        "", "accept_source_route",
        "net.ipv4.conf.all.accept_source_route = 0 (it must be on in all and device; r0 has 1)",
    ),
    "copied by all": (
        "net.ipv4.conf.r0.forwarding = 0\nnet.ipv4.ip_forward = 1\n", "forwarding",
        "net.ipv4.* = 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_named_as_it_holds(name: str) -> None:
    lines, flag, expected = SETTINGS[name]
    base = BASE.replace("net.ipv4.ip_forward = 1\n", "")
    setting = resolve_sysctl(netns(base + lines), f"net.ipv4.conf.{{dev}}.{flag}", 1)
    pattern = re.escape(expected).replace(r"\*", r"(ip_forward|conf\.all\.forwarding)")
    assert re.fullmatch(pattern, str(setting))


def test_text_and_data_say_the_same() -> None:
    case = CASES["report 5: the way back leaves by the other device"]
    explanation = told(case.host, case.packet, case.device)
    data = json.loads(json.dumps(explanation.to_dict()))
    assert set(data) == {
        "frame", "time_ns", "device", "packet", "steps", "verdict", "reason", "meaning",
        "decided_by", "ways_out", "counters", "truncated",
    }  # fmt: skip
    text = explanation.text()
    for step in data["steps"][:-1]:
        assert step["text"] in text
    assert data["counters"]["TcpExtIPReversePathFilter"] == 1
    assert data["packet"]["source"] == "192.0.2.9" and data["packet"]["destination_port"] == 2000
    assert "\033[" not in text and "\033[" in explanation.text(color=True)
    assert re.sub(r"\033\[\d+m", "", explanation.text(color=True)) == text


HEADERS = {
    "UDP": (ip4("10.0.0.2", "10.0.0.1", udp()), "UDP 10.0.0.2:1000 > 10.0.0.1:2000, IP length 36"),
    "UDP over IPv6": (
        ip6("2001:db8::2", "2001:db8::1", udp()), "UDP [2001:db8::2]:1000 > [2001:db8::1]:2000"),
    "behind extension headers": (
        ip6("2001:db8::2", "2001:db8::1", udp(), extensions=(hop_by_hop(b"\1\0"),)),
        "UDP [2001:db8::2]:1000 > [2001:db8::1]:2000"),
    "ICMP": (ip4("10.0.0.2", "10.0.0.1", echo()), "type 8 code 0"),
    "a fragment": (ip4("10.0.0.2", "10.0.0.1", udp(), offset=1), "fragment at 8"),
    "a marked packet": (ip4("10.0.0.2", "10.0.0.1", udp()), "mark 0x2a"),
    "no IP at all": (b"\0" * 30, "no IP header"),
    "cut": (ip4("10.0.0.2", "10.0.0.1", udp())[:9], "UDP|no IP header"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_the_packet_in_one_line(name: str) -> None:
    packet, expected = HEADERS[name]
    header = told(BASE, packet, mark=0x2A if "marked" in name else 0).header
    assert any(part in header for part in expected.split("|")), header


def test_an_index_outside_the_batch_is_refused() -> None:
    host = netns(BASE)
    batch = PacketBatch.from_packets([ip4("10.0.0.2", "10.0.0.1", udp())], device=1)
    for index in (-1, 1):
        with pytest.raises(IndexError, match="batch of 1"):
            explain(host, batch, index)


# --- explained is replayed ------------------------------------------------------------------------------


def explained_rows(
    text: str, batch: PacketBatch, **switches: str
) -> Iterator[tuple[int, str, str]]:
    host = netns(text, **switches)
    for index in range(len(batch)):
        explanation = host.explain(batch, index)
        explanation.text()
        yield index, explanation.verdict, explanation.reason


def assert_same(text: str, batch: PacketBatch, **switches: str) -> None:
    """Explaining every packet in order gives what replaying them gives."""
    verdicts = netns(text, **switches).receive(batch)
    replayed = list(zip(range(len(batch)), verdicts.verdict_names, verdicts.reason_names))
    assert list(explained_rows(text, batch, **switches)) == replayed


MIXED = (
    STRICT
    + """
ip route add unreachable 10.7.0.0/16
ip route add blackhole 10.8.0.0/16
ip route add 10.9.0.0/16 nexthop via 10.0.0.2 dev r0 nexthop via 10.1.0.2 dev r1
ip route add default via 10.1.0.2 dev r1 table 100
ip rule add pref 50 from 10.0.0.64/26 lookup 100
ip -6 route add 2001:db8:9::/48 via 2001:db8:1::2 dev r1
listen udp 0.0.0.0:2000
listen udp [::]:2000
listen udp 10.0.0.1:53 dev r1
"""
)
PLAIN = "\n".join(line for line in MIXED.splitlines() if "rule add" not in line)
SOURCES = ("10.0.0.2", "10.0.0.70", "10.0.0.1", "10.1.0.9", "192.0.2.1", "0.0.0.0", "127.0.0.1",
           "224.0.0.5", "255.255.255.255")  # fmt: skip
TARGETS = ("10.0.0.1", "10.1.0.2", "10.7.0.1", "10.8.0.1", "10.9.0.1", "10.0.0.255", "224.0.0.1",
           "239.1.2.3", "255.255.255.255", "127.0.0.1", "198.51.100.1", "0.0.0.0")  # fmt: skip
SOURCES6 = ("2001:db8::2", "2001:db8:1::9", "fe80::2", "::1", "ff02::1", "::", "2001:db8:77::1")
TARGETS6 = ("2001:db8::1", "2001:db8:1::2", "2001:db8:9::1", "ff02::1", "ff01::1", "::1",
            "2001:db8:55::1", "::")  # fmt: skip

uppers = st.sampled_from([
    udp(), udp(dport=53), udp(damage=1), udp(payload=bytes(1600)), tcp(), echo(), icmp(3, 3),
])  # fmt: skip
uppers6 = st.sampled_from([udp(), udp(dport=9), udp(damage=1), tcp(), echo6(), icmp6(1, 4)])
packets4 = st.builds(
    lambda s, d, u, ttl, tos, offset: ip4(s, d, u, ttl=ttl, tos=tos, offset=offset),
    st.sampled_from(SOURCES), st.sampled_from(TARGETS), uppers, st.sampled_from([64, 64, 1, 0]),
    st.sampled_from([0, 0, 8, 0xB8]), st.sampled_from([0, 0, 0, 4]),
)  # fmt: skip
packets6 = st.builds(
    lambda s, d, u, hops, more: ip6(s, d, u, hops=hops, extensions=more),
    st.sampled_from(SOURCES6), st.sampled_from(TARGETS6), uppers6, st.sampled_from([64, 64, 1]),
    st.sampled_from([(), (), (hop_by_hop(b"\1\0"),), (hop_by_hop(b"\xc3\0"),),
                     (routing(0, 1, ("2001:db8::9",)),), (fragment_header(0, False),),
                     (fragment_header(2, True),)]),
)  # fmt: skip


@settings(max_examples=25)
@given(
    st.lists(st.one_of(packets4, packets6), min_size=1, max_size=12),
    st.sampled_from([MIXED, PLAIN]),
    st.sampled_from(["on", "off", "strict"]),
    st.integers(1, 2),
)
def test_generated_packets(packets: list[bytes], text: str, hint: str, device: int) -> None:
    doubled = [p for p in packets for _ in range(2)]  # so that hints come into play
    batch = PacketBatch.from_packets(doubled, device=device, interval_ns=1000)
    assert_same(text, batch, route_hint=hint)


def test_the_hint_of_the_replay_is_that_of_the_explanation() -> None:
    """The second packet of a run passes by the hint, though its source would fail alone."""
    good, bad = (ip4(s, "10.1.0.2", udp()) for s in ("10.0.0.2", "10.1.0.77"))
    batch = PacketBatch.from_packets([good, bad], device=1, interval_ns=1000)
    assert_same(PLAIN, batch)
    host = netns(PLAIN)
    host.receive(batch.select(slice(0, 1)))
    explanation = host.explain(batch, 1)
    assert explanation.verdict == "forwarded"
    assert [what for kind, what in explanation.decided_by if kind == "route hint"]
    assert netns(PLAIN).explain(batch, 1).reason == "IP_RPFILTER"


@settings(max_examples=40)
@given(st.data())
def test_damaged_packets(data: st.DataObject) -> None:
    packet = bytearray(eth(data.draw(st.one_of(packets4, packets6))))
    for _ in range(data.draw(st.integers(0, 3))):
        packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
    raw = bytes(packet[: data.draw(st.integers(0, len(packet)))])
    batch = PacketBatch.from_packets(
        [raw], link_type=data.draw(st.sampled_from([LINK_ETHERNET, LINK_RAW, 113, 276, 9, 0, 7777])),
        device=data.draw(st.integers(-1, 3)), wire_length=[len(raw) + data.draw(st.integers(0, 40))],
    )  # fmt: skip
    assert_same(MIXED, batch)


FRAMES = 300  # of each shared capture; few have more


@needs_captures
def test_every_frame_of_the_shared_captures() -> None:
    """Explained and replayed are the same, on the host guessed from each capture."""
    seen = 0
    for name, host, batch in captures_with_hosts(FRAMES):
        verdicts = Netns(host, seed=1).receive(batch)
        one_by_one = Netns(host, seed=1)
        for index in range(len(batch)):
            explanation = one_by_one.explain(batch, index)
            explanation.text()
            assert (explanation.verdict, explanation.reason) == (
                verdicts.verdict_names[index], verdicts.reason_names[index],
            ), f"{name}, frame {index + 1}"  # fmt: skip
            seen += 1
    assert seen > 5000
