"""Counting captures by their outermost IP header, against what tshark counted.

The truth (TRUTH.tsv beside the shared captures) comes from tshark 4.0 with reassembly on.  Its
column `ipv4` counts every frame with an IP header of either version.  Where the census differs, the
table says by how much and why.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ippath.batch import (
    LINK_ETHERNET, LINK_IPV4, LINK_LINUX_SLL, LINK_NULL, LINK_RAW, PacketBatch,
)  # fmt: skip
from ippath.census import MEANING, NAMES, Census
from tests.captures import SHARED, ethernet, internet_checksum, ipv4_udp, ipv6_udp, mpls

TRUTH = SHARED / "TRUTH.tsv"

TUNNEL = "tshark reads into the tunnel and counts the inner packet too"
QUOTED = "tshark reads the packet that an ICMP error quotes"
UNOPENED = "tshark opens an encapsulation that a Linux host does not"
LINK = "a link type that ippath does not read"
REPEATED = "tshark also counts the fragments that it put together, or those inside ICMPv6 errors"

# file -> ({column: what the census says}, why); columns that are not named agree
KNOWN: dict[str, tuple[dict[str, int], str]] = {
    "suricata-verify__bug-5633-gre-01__gre-udp.pcap": ({"udp": 0}, TUNNEL),
    "suricata-verify__bug-5633-gre-02__gre-sample.pcap": ({"udp": 0}, TUNNEL),
    "suricata-verify__decode-teredo-01.pcap": ({"ipv6": 0}, TUNNEL),
    "suricata-verify__ipv6-evasion__ipv6-malformed-fragments-11__frag-11.pcap": (
        {"frag6": 1},
        REPEATED,
    ),
    "suricata-verify__ipv6-evasion__ipv6-malformed-fragments-24__frag-24.pcap": (
        {"frag6": 3},
        REPEATED,
    ),
    "suricata-verify__ipv6-evasion__ipv6-malformed-fragments-31__frag-31.pcap": (
        {"frag6": 48},
        REPEATED,
    ),
    "suricata-verify__ipv6-evasion__ipv6-malformed-fragments-33__frag-33.pcap": (
        {"frag6": 48},
        REPEATED,
    ),
    "suricata-verify__ipv6-evasion__ipv6-malformed-fragments-35__frag-35.pcap": (
        {"frag6": 4},
        REPEATED,
    ),
    "suricata-verify__ipv6-evasion__ipv6-malformed-fragments-36__frag-36.pcap": (
        {"frag6": 4},
        REPEATED,
    ),
    "tcpdump__802_15_4-data.pcap": ({"ipv4": 0, "ipv6": 0}, LINK),
    "tcpdump__LINKTYPE_PKTAP.pcap": ({"ipv4": 0, "udp": 0}, LINK),
    "tcpdump__LINKTYPE_USER2_PKTAP.pcap": ({"ipv4": 0, "udp": 0}, LINK),
    "tcpdump__gso-ipv4-geneve-ipv6.pcap": ({"ipv6": 0}, TUNNEL),
    "tcpdump__gso-ipv4-vxlan-ipv6.pcap": ({"ipv6": 0}, TUNNEL),
    "tcpdump__icmp-cksum-oobr-1.pcap": ({"udp": 0, "udp_bad_csum": 0}, QUOTED),
    "tcpdump__icmp-cksum-oobr-2.pcap": ({"udp": 0, "udp_bad_csum": 0}, QUOTED),
    "tcpdump__icmp-cksum-oobr-3.pcapng": ({"udp": 0}, QUOTED),
    "tcpdump__icmp-cksum-oobr-4.pcapng": ({"udp": 0}, QUOTED),
    "tcpdump__icmp-icmp_print-oobr-2.pcap": ({"ipv4": 0, "ip_bad_csum": 0, "snapped": 1}, LINK),
    "tcpdump__icmp-rfc5837.pcap": ({"udp": 0}, QUOTED),
    "tcpdump__icmp-rfc8335-missing-bytes.pcap": ({"ipv4": 0, "ip_bad_csum": 0}, UNOPENED),
    "tcpdump__icmpv6-rfc7112.pcap": ({"frag6": 0}, REPEATED),
    "tcpdump__ipv6_frag6_negative_len.pcap": (
        {"frag6": 1},
        "tshark stops at a length that cannot be",
    ),
    "tcpdump__lisp_invalid_length.pcap": (
        {"udp_bad_csum": 1},
        "tshark verifies nothing in a frame that was cut",
    ),
    "tcpdump__mpls-traceroute.pcap": ({"udp": 9}, QUOTED),
    "tcpdump__nsh.pcap": ({"ipv4": 0, "udp": 0}, UNOPENED),
    "zeek__cisco-fabric-path.pcap": ({"ipv4": 64, "ipv6": 32, "udp": 16}, UNOPENED),
    "zeek__communityid__icmp6.pcap": ({"udp": 0}, QUOTED),
    "zeek__erspan.pcap": ({"ipv6": 0, "udp": 0, "udp_bad_csum": 0}, TUNNEL),
    "zeek__icmp__icmp6-destunreach-ip6ext-udp.pcap": ({"udp": 0}, QUOTED),
    "zeek__icmp__icmp6-paramprob.pcap": ({"udp": 0}, QUOTED),
    "zeek__icmp__icmp6-redirect-hdr-opt.pcap": ({"udp": 0}, QUOTED),
    "zeek__icmp__icmp6-timeexceeded.pcap": ({"udp": 0}, QUOTED),
    "zeek__icmp__icmp6-toobig.pcap": ({"udp": 0}, QUOTED),
    "zeek__ipv4__fragmented-2.pcap": (
        {"udp": 2},
        "tshark shows a fragment's UDP header only when the datagram is whole",
    ),
    "zeek__ipv6-mobility-dst-opts.pcap": (
        {"udp": 3, "udp_bad_csum": 2},
        "mobile IPv6: a home address option stands for the source, and two are malformed",
    ),
    "zeek__llc.pcap": ({"ipv4": 0}, LINK),
    "zeek__quic__383379789-decrypt-crash.pcap": (
        {"udp_bad_csum": 0},
        "tshark verifies UDP lengths that go beyond the IP packet",
    ),
    "zeek__snap-tcp.pcap": ({"ipv4": 0}, UNOPENED),
    "zeek__tunnels__4in4.pcap": ({"udp": 0}, TUNNEL),
    "zeek__tunnels__6in4.pcap": ({"ipv6": 0, "udp": 0}, TUNNEL),
    "zeek__tunnels__6in6.pcap": ({"udp": 0}, TUNNEL),
    "zeek__tunnels__ayiya-large-identity.pcap": ({"ipv6": 0}, TUNNEL),
    "zeek__tunnels__geneve-ipv6.pcap": ({"ipv6": 0}, TUNNEL),
    "zeek__tunnels__gre-pptp.pcap": ({"udp": 0}, TUNNEL),
    "zeek__tunnels__gre-within-gre.pcap": ({"udp": 0}, TUNNEL),
    "zeek__tunnels__gtp__gtp2_different_udp_port.pcap": ({"udp_bad_csum": 0}, TUNNEL),
    "zeek__tunnels__gtp__gtp7_ipv6.pcap": ({"ipv6": 0}, TUNNEL),
    "zeek__tunnels__gtp__gtp8_teredo.pcap": ({"ipv6": 0}, TUNNEL),
    "zeek__tunnels__gtp__gtp9_unknown_or_too_short_payload.pcap": ({"udp_bad_csum": 0}, TUNNEL),
    "zeek__tunnels__ping6-in-ipv4.pcap": ({"ipv6": 0}, TUNNEL),
    "zeek__vntag.pcap": ({"ipv4": 0}, UNOPENED),
    "zeek__vntag_vlan_sandwich_clean.pcap": ({"ipv4": 0, "ip_bad_csum": 0}, UNOPENED),
    "zeek__wlanmon.pcap": ({"ipv4": 0, "ipv6": 0, "udp": 0}, LINK),
}


def truth() -> list[dict[str, str]]:
    """The rows of TRUTH.tsv; none where the shared captures are absent."""
    if not TRUTH.is_file():
        return []
    with TRUTH.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def count(path: Path) -> dict[str, int]:
    """The census of a file, with `ipv4` as the truth means it."""
    from ippath.capture import open_captures

    census = Census()
    with open_captures([path]) as captures:
        for batch in captures:
            census.add(batch)
    counts = census.counts
    return counts | {"ipv4": counts["ipv4"] + counts["ipv6"]}


@pytest.mark.skipif(not TRUTH.is_file(), reason="no shared captures here")
def test_counts_agree_with_tshark() -> None:
    """Every capture and every column, but for the table of known differences."""
    wrong, settled = [], []
    for row in truth():
        counts = count(SHARED / row["file"])
        known = KNOWN.get(row["file"], ({}, ""))[0]
        for name in NAMES:
            expected = known.get(name, int(row[name]))
            if counts[name] != expected:
                wrong.append(f"{row['file']}: {name} is {counts[name]}, not {expected}")
            if name in known and known[name] == int(row[name]):
                settled.append(f"{row['file']}: {name}")
    assert not wrong, "\n".join(wrong)
    assert not settled, "these agree and must leave the table: " + ", ".join(settled)


def one(packet: bytes, link_type: int = LINK_RAW, wire_length: int | None = None) -> dict[str, int]:
    """The counts of one packet that are not zero."""
    lengths = None if wire_length is None else [wire_length]
    census = Census()
    census.add(PacketBatch.from_packets([packet], link_type=link_type, wire_length=lengths))
    return {name: n for name, n in census.counts.items() if n}


def altered(packet: bytes, at: int, value: int) -> bytes:
    """The packet with one byte changed."""
    return packet[:at] + bytes([value]) + packet[at + 1 :]


def fragment4(word: int) -> bytes:
    """An IPv4/UDP packet with this flags and offset word, its header checksum right."""
    packet = ipv4_udp()
    head = packet[:6] + word.to_bytes(2) + packet[8:10] + b"\0\0" + packet[12:20]
    return head[:10] + internet_checksum(head).to_bytes(2) + head[12:] + packet[20:]


def fragment6(word: int) -> bytes:
    """An IPv6/UDP packet behind a fragment header with this offset word."""
    packet = ipv6_udp()
    header = bytes([17, 0]) + word.to_bytes(2) + bytes(4)
    length = int.from_bytes(packet[4:6]) + 8
    return packet[:4] + length.to_bytes(2) + bytes([44]) + packet[7:40] + header + packet[40:]


BASE4 = {"packets": 1, "ipv4": 1, "udp": 1}
BASE6 = {"packets": 1, "ipv6": 1, "udp": 1}
CASES = {
    "IPv4": (ipv4_udp(), LINK_RAW, BASE4),
    "IPv6": (ipv6_udp(), LINK_RAW, BASE6),
    "IPv4 by link type": (ipv4_udp(), LINK_IPV4, BASE4),
    "Ethernet": (ethernet(0x0800, ipv4_udp()), LINK_ETHERNET, BASE4),
    "VLAN in VLAN": (
        ethernet(0x86DD, ipv6_udp(), [(0x88A8, 5), (0x8100, 6)]), LINK_ETHERNET, BASE6,
    ),
    "MPLS": (ethernet(0x8847, mpls([16, 17], ipv4_udp())), LINK_ETHERNET, BASE4),
    "Linux cooked": (bytes(14) + b"\x08\x00" + ipv4_udp(), LINK_LINUX_SLL, BASE4),
    "null": ((2).to_bytes(4, "little") + ipv4_udp(), LINK_NULL, BASE4),
    "ARP": (ethernet(0x0806, bytes(28)), LINK_ETHERNET, {"packets": 1}),
    "unknown link type": (ipv4_udp(), 4711, {"packets": 1}),
    "no bytes": (b"", LINK_ETHERNET, {"packets": 1}),
    "IPv4 header checksum": (altered(ipv4_udp(), 8, 9), LINK_RAW, BASE4 | {"ip_bad_csum": 1}),
    "UDP checksum": (altered(ipv4_udp(), 30, 9), LINK_RAW, BASE4 | {"udp_bad_csum": 1}),
    "UDP checksum, IPv6": (altered(ipv6_udp(), 50, 9), LINK_RAW, BASE6 | {"udp_bad_csum": 1}),
    "no UDP checksum": (ipv4_udp()[:26] + b"\0\0" + ipv4_udp()[28:], LINK_RAW, BASE4),
    "no UDP checksum, IPv6": (
        ipv6_udp()[:46] + b"\0\0" + ipv6_udp()[48:], LINK_RAW, BASE6 | {"udp_bad_csum": 1},
    ),
    "first fragment": (fragment4(0x2000), LINK_RAW, BASE4 | {"frag4": 1}),
    "later fragment": (fragment4(0x0007), LINK_RAW, {"packets": 1, "ipv4": 1, "frag4": 1}),
    "first fragment, IPv6": (fragment6(0x0001), LINK_RAW, BASE6 | {"frag6": 1}),
    "later fragment, IPv6": (fragment6(0x0040), LINK_RAW, {"packets": 1, "ipv6": 1, "frag6": 1}),
    "atomic fragment, IPv6": (fragment6(0x0000), LINK_RAW, BASE6 | {"frag6": 1}),
    "half an IPv4 header": (ipv4_udp()[:9], LINK_RAW, {"packets": 1, "ipv4": 1}),
    "half an IPv6 header": (ipv6_udp()[:39], LINK_RAW, {"packets": 1, "ipv6": 1}),
    "half a UDP header": (ipv4_udp()[:25], LINK_RAW, {"packets": 1, "ipv4": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_packet(name: str) -> None:
    packet, link_type, expected = CASES[name]
    assert one(packet, link_type) == expected


def test_a_snapped_checksum_is_not_called_bad() -> None:
    whole = ipv4_udp()
    assert one(altered(whole, 30, 9)[:-1], wire_length=len(whole)) == BASE4 | {"snapped": 1}


def test_the_final_address_of_a_routing_header_counts_for_the_checksum() -> None:
    """RFC 8200 section 8.1: the checksum was made for where the packet goes in the end."""
    final = b"\x20\x01\x0d\xb8" + b"\0" * 11 + b"\x99"
    packet = ipv6_udp(destination=final)
    routing = bytes([17, 2, 0, 1, 0, 0, 0, 0]) + final
    head = packet[:4] + (len(packet) - 40 + 24).to_bytes(2) + bytes([43]) + packet[7:24]
    on_the_way = head + b"\x20\x01\x0d\xb8" + b"\0" * 11 + b"\1" + routing + packet[40:]
    assert one(on_the_way) == BASE6
    arrived = altered(on_the_way, 43, 0)
    assert one(arrived) == BASE6 | {"udp_bad_csum": 1}


def test_batches_add_up() -> None:
    census = Census()
    census.add(PacketBatch.from_packets([ipv4_udp(), ipv6_udp()]))
    census.add(PacketBatch.from_packets([], link_type=LINK_ETHERNET))
    census.add(PacketBatch.from_packets([ethernet(0x0800, ipv4_udp())], link_type=LINK_ETHERNET))
    assert census.counts["packets"] == 3 and census.counts["udp"] == 3
    assert census.link_types == {LINK_RAW: 2, LINK_ETHERNET: 1}
    assert set(MEANING) == set(census.counts)


def test_packets_outside_the_arena_are_refused() -> None:
    batch = PacketBatch.from_packets([ipv4_udp()])
    batch.offset[0] = 10
    with pytest.raises(ValueError, match="outside"):
        Census().add(batch)
