"""Problems that people reported in public, each as they would bring it here: files and the command.

Each test begins with the problem in a line.  Where packets vanished, what counts is that the
explanation names what decided, and that the ways out which it suggests are ways out.
"""

from __future__ import annotations

import csv
import json
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ippath.batch import PacketBatch
from ippath.cli import FINE, main
from ippath.config import parse_host
from ippath.jit import COMPILED
from ippath.netns import Netns
from tests import captures as make
from ippath.verify.packets import Upper, echo, icmp, ip4, ip6, udp

ECHO_REPLY = icmp(0, 0, 7 << 16 | 1, b"ping-data")


def run(capsys: pytest.CaptureFixture[str], *args: object) -> Any:
    """The JSON of a command that must end well."""
    code = main([*map(str, args), "--json"])
    printed = capsys.readouterr()
    assert code == FINE, printed.err
    return json.loads(printed.out)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# --- captures with several interfaces -----------------------------------------------------------------

FRAME = make.ethernet(0x0800, make.ipv4_udp())
COOKED = make.link_samples()["cooked"][1]
RECEIVER = """
ip link add eth0 type dummy
ip link add any type dummy
ip addr add 192.0.2.1/24 dev eth0
ip route add default via 192.0.2.254
listen udp 0.0.0.0:53
"""


def test_each_interface_of_a_capture_has_its_own_clock(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In a capture with two interfaces all times were read with the resolution of the first."""
    path, rows = tmp_path / "two.pcapng", tmp_path / "rows.csv"
    nanoseconds = [1_700_000_000_000_000_000 + k * 1_001_001 for k in range(6)]
    blocks = [make.section(), make.interface(1, name="eth0", resolution=6),
              make.interface(1, name="any", resolution=9)]  # fmt: skip
    for k, time in enumerate(nanoseconds):
        units = time if k % 2 else time // 1000
        blocks.append(make.enhanced(FRAME, units, interface=k % 2))
    path.write_bytes(b"".join(blocks))
    (tmp_path / "host").write_text(RECEIVER)
    summary = run(capsys, "replay", path, "--host", tmp_path / "host", "--verdicts", rows)
    expected = [t if k % 2 else t // 1000 * 1000 for k, t in enumerate(nanoseconds)]
    assert [row["time"] for row in rows_of(rows)] == [
        f"2023-11-14T22:13:20.{time % 10**9:09}Z" for time in expected
    ]
    assert (summary["first_time_ns"], summary["last_time_ns"]) == (expected[0], expected[-1])
    assert [row["device"] for row in rows_of(rows)] == ["eth0", "any"] * 3
    assert summary["verdicts"]["delivered"] == 6


@pytest.mark.parametrize("order", ["<", ">"])
def test_interfaces_of_a_capture_may_differ_in_link_type_and_snap_length(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, order: str
) -> None:
    """Tools stopped at a capture of `eth0` and `any` together, or showed nothing of one of them."""
    path = tmp_path / "two.pcapng"
    blocks = [make.section(order), make.interface(1, name="eth0", snaplen=65535, order=order),
              make.interface(113, name="any", snaplen=262144, order=order)]  # fmt: skip
    for k in range(8):
        frame = COOKED if k % 2 else FRAME
        blocks.append(make.enhanced(frame, k, interface=k % 2, order=order))
    path.write_bytes(b"".join(blocks))
    (tmp_path / "host").write_text(RECEIVER)
    summary = run(capsys, "replay", path, "--host", tmp_path / "host")
    assert summary["verdicts"]["delivered"] == summary["packets"] == 8
    received = {device["name"]: device["rx_packets"] for device in summary["devices"]}
    assert (received["eth0"], received["any"]) == (4, 4)
    counted = run(capsys, "info", path)
    assert counted["ipv4"] == counted["udp"] == 8 and counted["udp_bad_csum"] == 0


# --- packets that vanish in the reverse path check ----------------------------------------------------

UPLINKS = """
ip link add eth0 type tun
ip link add eth1 type tun
ip addr add 203.0.113.2/24 dev eth0
ip addr add 198.51.100.2/24 dev eth1
ip route add default via 203.0.113.1
"""
STRICT = "net.ipv4.conf.all.rp_filter = 1\n"


@dataclass(frozen=True)
class Vanished:
    """A packet that strict source validation drops, and what must be said of it."""

    host: str
    packet: bytes
    device: str
    says: tuple[str, ...]  # parts of "kind: what" of what decided
    ways: tuple[str, ...]  # parts of what is suggested
    passes: str = "delivered"  # the verdict after each of the ways out


VANISHED: dict[str, Vanished] = {
    "replies to a ping by the second interface come back and are not seen": Vanished(
        UPLINKS + STRICT, ip4("192.0.2.9", "198.51.100.2", ECHO_REPLY), "eth1",
        ("sysctl: net.ipv4.conf.all.rp_filter = 1", "way back: default via 203.0.113.1 dev eth0",
         "leaves by eth0; the packet came in on eth1"),
        ("net.ipv4.conf.eth1.rp_filter = 2", "ip rule add from 198.51.100.2 lookup"),
        "dropped",  # nobody asked: past the check, no socket waits for the answer
    ),
    "behind a tunnel everything is a martian": Vanished(
        "ip link add eth0 type tun\nip link add wg0 type tun\nip addr add 203.0.113.2/24 dev eth0\n"
        "ip addr add 10.8.0.2 peer 10.8.0.1 dev wg0\nip route add default via 203.0.113.1\n"
        "net.ipv4.conf.wg0.rp_filter = 1\nnet.ipv4.conf.wg0.log_martians = 1\n",
        ip4("192.0.2.9", "10.8.0.2", echo()), "wg0",
        ("sysctl: net.ipv4.conf.wg0.rp_filter = 1", "way back: default via 203.0.113.1 dev eth0",
         "martian source 10.8.0.2 from 192.0.2.9, on dev wg0"),
        ("net.ipv4.conf.wg0.rp_filter = 2",),
    ),
    "egress by a second uplink is chosen by source, and its answers are dropped at the gateway": (
        Vanished(
            UPLINKS + STRICT + "ip link add lan type tun\nip addr add 10.0.0.1/24 dev lan\n"
            "net.ipv4.ip_forward = 1\nip route add default via 198.51.100.1 table 200\n"
            "ip rule add pref 100 from 10.0.0.128/25 lookup 200\n",
            ip4("192.0.2.9", "10.0.0.7", udp()), "eth1",
            ("sysctl: net.ipv4.conf.all.rp_filter = 1", "rule back: 32766: from all lookup main",
             "way back: default via 203.0.113.1 dev eth0"),
            ("net.ipv4.conf.eth1.rp_filter = 2", "ip rule add from 10.0.0.7 lookup 200"),
            "forwarded",
        )
    ),
    "one of several equal paths is missing: its answers vanish without a word in the log": Vanished(
        UPLINKS.replace("ip route add default via 203.0.113.1",
                        "ip link add eth2 type tun\nip addr add 100.64.0.2/24 dev eth2\n"
                        "ip route add default nexthop via 203.0.113.1 nexthop via 198.51.100.1")
        + STRICT,
        ip4("192.0.2.9", "100.64.0.2", echo()), "eth2",
        ("sysctl: net.ipv4.conf.all.rp_filter = 1", "nexthop via 203.0.113.1 dev eth0",
         "nothing in the kernel log"),
        ("net.ipv4.conf.eth2.rp_filter = 2",),
    ),
}  # fmt: skip


def explained(
    capsys: pytest.CaptureFixture[str], folder: Path, text: str, packet: bytes, device: str
) -> dict[str, Any]:
    (folder / "host").write_text(text)
    return run(
        capsys, "explain", "--hex", packet.hex(), "--host", folder / "host", "--on", device
    )  # fmt: skip


def decisions(explanation: dict[str, Any]) -> str:
    return "\n".join(f"{d['kind']}: {d['what']}" for d in explanation["decided_by"])


@pytest.mark.parametrize("problem", VANISHED)
def test_it_is_said_which_check_dropped_and_how_the_packet_would_pass(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, problem: str
) -> None:
    case = VANISHED[problem]
    told = explained(capsys, tmp_path, case.host, case.packet, case.device)
    assert (told["verdict"], told["reason"]) == ("dropped", "IP_RPFILTER")
    for part in case.says:
        assert part in decisions(told), decisions(told)
    assert told["counters"]["TcpExtIPReversePathFilter"] == 1
    suggested = "\n".join(told["ways_out"])
    for part in case.ways:
        assert part in suggested, suggested
    tried = 0
    for way in told["ways_out"]:
        lines = re.findall(r"net\.ipv4\.conf\.\w+\.\w+ = \d", way)
        lines += [re.sub(r" \(.*", "", m) for m in re.findall(r"ip (?:rule|route) add [^,]+", way)]
        if not lines or "NUMBER" in way:
            continue
        text = case.host + "\n".join(lines) + "\n"
        after = explained(capsys, tmp_path, text, case.packet, case.device)
        assert (after["verdict"], after["reason"] == "IP_RPFILTER") == (case.passes, False), way
        tried += 1
    assert tried >= len(case.ways)


def test_the_replay_counts_what_the_check_dropped(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The same over a whole capture: answers on the wrong interface, and nothing else, are dropped."""
    case = next(iter(VANISHED.values()))
    right = ip4("192.0.2.9", "203.0.113.2", echo())
    blocks = [make.section(), make.interface(101, name="eth0"), make.interface(101, name="eth1")]
    for k in range(10):
        blocks.append(make.enhanced(case.packet if k % 2 else right, k, interface=k % 2))
    (tmp_path / "two.pcapng").write_bytes(b"".join(blocks))
    (tmp_path / "host").write_text(case.host)
    summary = run(capsys, "replay", tmp_path / "two.pcapng", "--host", tmp_path / "host")
    assert summary["reasons"]["IP_RPFILTER"] == 5
    assert summary["counters"]["TcpExtIPReversePathFilter"] == 5
    assert summary["verdicts"]["delivered"] == summary["counters"]["IcmpInEchos"] == 5


# --- marks ----------------------------------------------------------------------------------------------

MARKED = (
    UPLINKS + STRICT + "ip route add default via 198.51.100.1 table 1\n"
    "ip rule add fwmark 2 lookup 1\nlisten udp 0.0.0.0:2000\n"
)  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "mark", "expected"),
    [
        ("", 2, "dropped IP_RPFILTER"),
        ("net.ipv4.conf.eth1.src_valid_mark = 1\n", 2, "delivered NONE"),
        ("net.ipv4.conf.all.src_valid_mark = 1\n", 2, "delivered NONE"),
        ("net.ipv4.conf.eth1.src_valid_mark = 1\n", 3, "dropped IP_RPFILTER"),
        ("net.ipv4.conf.eth0.src_valid_mark = 1\n", 2, "dropped IP_RPFILTER"),
    ],
)
def test_the_reverse_path_check_sees_the_mark_only_if_it_is_told_to(
    setting: str, mark: int, expected: str
) -> None:
    """Marked packets are routed by their mark, yet fail a check that the mark rule would pass."""
    netns = Netns(parse_host(MARKED + setting))
    packet = ip4("192.0.2.9", "198.51.100.2", udp())
    row = [device.name for device in netns.host.devices].index("eth1")
    batch = PacketBatch.from_packets([packet], device=row, mark=mark)
    told = netns.explain(batch, 0)
    verdicts = netns.receive(batch)
    assert f"{verdicts.verdict_names[0]} {verdicts.reason_names[0]}" == expected
    if not setting:
        assert any("src_valid_mark = 1" in way for way in told.ways_out)


# --- equal paths ----------------------------------------------------------------------------------------

EQUAL_PATHS = """
ip link add eth0 type tun
ip link add eth1 type tun
ip link add eth2 type tun
ip addr add 203.0.113.2/24 dev eth0
ip addr add 198.51.100.2/24 dev eth1
ip addr add 10.0.0.1/24 dev eth2
ip route add default nexthop via 203.0.113.1 nexthop via 198.51.100.1 weight 3
net.ipv4.ip_forward = 1
"""


@pytest.mark.parametrize("rp_filter", [0, 1, 2])
def test_answers_may_come_by_any_of_several_equal_paths(rp_filter: int) -> None:
    """Return traffic of an equal-cost route comes in by the other next hop and is dropped."""
    netns = Netns(parse_host(EQUAL_PATHS + f"net.ipv4.conf.all.rp_filter = {rp_filter}\n"))
    names = [device.name for device in netns.host.devices]
    packets = [ip4(f"192.0.2.{k}", "10.0.0.7", udp(53, 4000 + k)) for k in range(64)]
    for name in ("eth0", "eth1"):
        batch = PacketBatch.from_packets(packets, device=names.index(name))
        assert netns.receive(batch).verdict_names == ["forwarded"] * 64
    batch = PacketBatch.from_packets(packets, device=names.index("eth2"))
    spoofed = set(netns.receive(batch).reason_names)
    assert spoofed == ({"IP_RPFILTER"} if rp_filter == 1 else {"NONE"})


# --- datagrams above the MTU ----------------------------------------------------------------------------

BRIDGED = """
ip link add eth0 mtu {first} type tun
ip link add eth1 mtu 1500 type tun
ip addr add 10.0.0.1/24 dev eth0
ip addr add 10.1.0.1/24 dev eth1
ip addr add 2001:db8:0::1/64 dev eth0
ip addr add 2001:db8:1::1/64 dev eth1
net.ipv4.ip_forward = 1
net.ipv6.conf.all.forwarding = 1
"""
DATA = bytes(k * 7 & 255 for k in range(3000))


def forwarded(first: int, *packets: bytes) -> tuple[list[str], list[tuple[str, bytes]]]:
    """Verdicts of packets received on eth0, and what was sent (device, packet)."""
    netns = Netns(parse_host(BRIDGED.format(first=first)))
    row = [device.name for device in netns.host.devices].index("eth0")
    verdicts = netns.receive(
        PacketBatch.from_packets(list(packets), device=row), collect_output=True
    )  # fmt: skip
    names = [f"{v} {r}" for v, r in zip(verdicts.verdict_names, verdicts.reason_names)]
    return names, [(sent.device, sent.packet) for sent in netns.take_output()]


def put_together(fragments: list[bytes]) -> bytes:
    """The payload of IPv4 fragments, with their headers checked on the way."""
    parts = {}
    for number, packet in enumerate(fragments):
        assert make.internet_checksum(packet[:20]) == 0 and len(packet) <= 1500
        total, ident, word = struct.unpack("!HHH", packet[2:8])
        assert total == len(packet) and ident == 0x1234
        assert bool(word & 0x2000) == (number + 1 < len(fragments))
        parts[(word & 0x1FFF) * 8] = packet[20:]
    whole = b""
    for offset in sorted(parts):
        assert offset == len(whole)
        whole += parts[offset]
    return whole


def datagram(packet: bytes) -> bytes:
    return packet[20:]


def test_a_datagram_above_the_mtu_is_forwarded_in_fragments() -> None:
    """Datagrams larger than the MTU vanish between a container and its host."""
    packet = ip4("10.0.0.2", "10.1.0.2", udp(payload=DATA))
    names, sent = forwarded(9000, packet)
    assert names == ["forwarded NONE"]
    assert {device for device, _ in sent} == {"eth1"} and len(sent) == 3
    assert put_together([raw for _, raw in sent]) == datagram(packet)
    assert {raw[8] for _, raw in sent} == {63}


def test_fragments_are_forwarded_as_they_came() -> None:
    """The same, cut into fragments by the sender already."""
    parts = [(0, 1480), (1480, 2960), (2960, 3008)]
    packets = [
        ip4("10.0.0.2", "10.1.0.2", udp(payload=DATA), part=part, offset=part[0] // 8,
            mf=part[1] < 3008)
        for part in parts
    ]  # fmt: skip
    names, sent = forwarded(1500, *packets)
    assert names == ["forwarded NONE"] * 3
    assert put_together([raw for _, raw in sent]) == datagram(
        ip4("10.0.0.2", "10.1.0.2", udp(payload=DATA))
    )


def test_a_datagram_that_must_not_be_cut_is_dropped_with_a_reason_and_an_answer() -> None:
    """The same with "don't fragment": the sender is told the MTU (RFC 1191)."""
    names, sent = forwarded(9000, ip4("10.0.0.2", "10.1.0.2", udp(payload=DATA), df=True))
    assert names == ["dropped PKT_TOO_BIG"]
    ((device, answer),) = sent
    assert device == "eth0" and answer[16:20] == bytes([10, 0, 0, 2])
    assert answer[20:22] == bytes([3, 4]) and answer[26:28] == (1500).to_bytes(2)


def test_routers_do_not_cut_ipv6() -> None:
    """The same with IPv6: packet too big (RFC 4443 section 3.2)."""
    names, sent = forwarded(9000, ip6("2001:db8:0::2", "2001:db8:1::2", udp(payload=DATA)))
    assert names == ["dropped PKT_TOO_BIG"]
    ((device, answer),) = sent
    assert device == "eth0" and answer[40:42] == bytes([2, 0])
    assert int.from_bytes(answer[44:48]) == 1500


def test_what_is_too_long_for_the_device_it_came_by_is_not_dropped_for_that() -> None:
    """Receiving looks at no MTU: larger packets reach a host whose neighbour has a larger MTU."""
    names, sent = forwarded(1500, ip4("10.0.0.2", "10.1.0.2", udp(payload=DATA)))
    assert names == ["forwarded NONE"] and len(sent) == 3


# --- fragments that overlap ----------------------------------------------------------------------------


def fragment(first: int, size: int, fill: bytes, more: bool) -> bytes:
    payload = Upper(17, lambda src, dst: fill * size)
    return ip4("10.0.0.2", "10.0.0.1", payload, offset=first // 8, mf=more)


def replayed_pieces(
    capsys: pytest.CaptureFixture[str], folder: Path, pieces: list[bytes]
) -> dict[str, Any]:
    """The summary of a replay of fragments for the host."""
    path = folder / "fragments.pcap"
    path.write_bytes(make.pcap([make.Record(p) for p in pieces], link_type=101))
    (folder / "host").write_text(BRIDGED.format(first=1500))
    return run(capsys, "replay", path, "--host", folder / "host", "--on", "eth0")


def test_an_overlap_discards_the_datagram(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Overlapping fragments: the later one won without a word.  Linux drops all, and counts it."""
    pieces = [
        fragment(0, 16, b"A", True),
        fragment(8, 16, b"B", True),
        fragment(24, 8, b"C", False),
    ]
    summary = replayed_pieces(capsys, tmp_path, pieces)
    assert summary["verdicts"] | {"forwarded": 0} == {
        "delivered": 0, "forwarded": 0, "consumed": 1, "dropped": 1, "held": 1, "unsupported": 0,
    }  # fmt: skip
    assert summary["reassembly"]["ipv4"]["overlaps"] == 1
    assert summary["counters"]["IpExtReasmOverlaps"] == summary["counters"]["IpReasmFails"] == 1


@pytest.mark.parametrize("first, size, duplicate", [(0, 16, True), (8, 8, True), (8, 16, False)])
def test_only_what_is_held_already_may_come_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, first: int, size: int, duplicate: bool
) -> None:
    """A conformance suite wants overlaps with equal bytes accepted: Linux does so within a run."""
    pieces = [
        fragment(0, 16, b"A", True), fragment(first, size, b"A", True), fragment(16, 16, b"A", False)
    ]  # fmt: skip
    summary = replayed_pieces(capsys, tmp_path, pieces)
    four = summary["reassembly"]["ipv4"]
    assert (four["duplicates"], four["overlaps"]) == ((1, 0) if duplicate else (0, 1))
    assert four["reassembled"] == int(duplicate)


def test_prefixes_with_a_length_text_pickles_and_many_records() -> None:
    """Prefix trees look up `/length` wrongly, are slow with text, do not pickle, grow large."""
    import copy
    import pickle

    import numpy as np

    from ippath import PrefixTable

    table = PrefixTable({"10.0.0.0/8": "all", "10.1.0.0/16": "part"})
    for asked, exact, longest in (
        ("10.1.0.0/16", "part", "part"), ("10.0.0.0/12", None, "all"), ("10.0.0.0/7", None, None),
        ("10.1.2.0/24", None, "part"), ("10.1.2.3", None, "part"), ("10.0.0.0/8", "all", "all"),
    ):  # fmt: skip
        assert (table.get(asked), table.lookup(asked)) == (exact, longest)
    assert table.lookup(["10.1.2.3", "10.2.0.0"]).tolist() == ["part", "all"]

    for again in (pickle.loads(pickle.dumps(table)), copy.deepcopy(table)):
        again["10.1.1.0/24"] = "new"
        assert again.lookup("10.1.1.1") == "new" and table.lookup("10.1.1.1") == "part"

    rows = 200_000 if COMPILED else 2_000
    numbers = np.arange(rows, dtype=np.uint32) << 10
    many = PrefixTable.from_arrays(numbers, np.arange(rows), np.full(rows, 22))
    assert (many.lookup(numbers + 1023) == np.arange(rows)).all()
    assert many.nbytes < 64e6 * rows / 1e6 + 10e6
