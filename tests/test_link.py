"""What is made of frames of each link type: from a capture file to the verdict.

Expected verdicts are those of a Linux host whose device takes such frames; what the link level hides
has a reason of its own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import pytest

from ippath.batch import DIRECTION_OUT, PacketBatch
from ippath.config import parse_host
from ippath.netns import Netns
from tests import captures as make
from tests.shared import arriving

OURS, NEIGHBOUR, OTHER = b"\x02\0\0\0\0\1", b"\x02\0\0\0\0\2", b"\x02\0\0\0\0\3"
EVERYONE, GROUP = b"\xff" * 6, b"\x01\0\x5e\0\0\1"
HOST = """
ip link add eth0 address 02:00:00:00:00:01 type dummy
ip addr add 192.0.2.1/24 dev eth0
ip -6 addr add 2001:db8::1/64 dev eth0
ip route add default via 192.0.2.254
ip -6 route add default via 2001:db8::fe
listen udp 0.0.0.0:53
listen udp [::]:53
"""
VLANS = """
ip link add link eth0 name eth0.5 type vlan id 5
ip link add link eth0 name outer type vlan proto 802.1ad id 9
ip link add link outer name inner type vlan id 5
"""
FOUR, SIX = make.ipv4_udp(), make.ipv6_udp()
SAMPLES = make.link_samples()


def judge(batch: PacketBatch, host: str = HOST + VLANS) -> list[tuple[str, str, str]]:
    """(verdict, reason, device) of each packet."""
    netns = Netns(parse_host(host))
    verdicts = netns.receive(arriving(batch, netns.host, "eth0"))
    netns.close_accounts()
    names = [device.name for device in netns.host.devices]
    return [
        (verdict, reason, names[row])
        for verdict, reason, row in zip(
            verdicts.verdict_names, verdicts.reason_names, verdicts.device
        )
    ]


def of_frame(frame: bytes, link_type: int = 1, host: str = HOST + VLANS) -> str:
    """Verdict and reason of one frame."""
    ((verdict, reason, _),) = judge(PacketBatch.from_packets([frame], link_type=link_type), host)
    return f"{verdict} {reason}"


FILES = {
    "pcap": lambda link, frame: make.pcap([make.Record(frame)] * 2, link_type=link),
    "pcap, big-endian, nanoseconds": lambda link, frame: make.pcap(
        [make.Record(frame)] * 2, link_type=link, order=">", magic=make.NANOSECONDS
    ),
    "pcapng": lambda link, frame: (
        make.section() + make.interface(link, name="x") + 2 * make.enhanced(frame)
    ),
    "pcapng, big-endian, simple blocks": lambda link, frame: (
        make.section(">") + make.interface(link, order=">") + 2 * make.simple(frame, order=">")
    ),
}
DEVICES = {"VLAN": "eth0.5", "QinQ": "inner"}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("name", SAMPLES)
def test_every_link_type_reaches_the_socket(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / "capture"
    path.write_bytes(FILES[kind](*SAMPLES[name]))
    expected = ("delivered", "NONE", DEVICES.get(name, "eth0"))
    assert judge(PacketBatch.read(path)) == [expected] * 2


@pytest.mark.parametrize("number", [2, 105, 127, 147, 192, 4711])
def test_other_link_types_have_a_verdict_that_says_so(tmp_path: Path, number: int) -> None:
    path = tmp_path / "capture"
    path.write_bytes(make.pcap([make.Record(FOUR)] * 3, link_type=number))
    assert judge(PacketBatch.read(path)) == [("unsupported", "LINK_TYPE", "eth0")] * 3


def tagged(frame: bytes) -> bytes:
    """The frame in VLAN 5."""
    return frame[:12] + b"\x81\0\0\5" + frame[12:]


def frame(destination: bytes, source: bytes = NEIGHBOUR, kind: int = 0x0800, body: bytes = FOUR):  # type: ignore[no-untyped-def]
    return destination + source + kind.to_bytes(2) + body


def cooked(packet_type: int, kind: int = 0x0800, body: bytes = FOUR) -> bytes:
    return struct.pack("!HHH8sH", packet_type, 1, 6, NEIGHBOUR + bytes(2), kind) + body


def cooked2(packet_type: int, kind: int = 0x0800, body: bytes = FOUR) -> bytes:
    return struct.pack("!HHIHBB8s", kind, 0, 2, 1, packet_type, 6, NEIGHBOUR + bytes(2)) + body


@dataclass(frozen=True)
class Case:
    """A frame and its verdict."""

    frame: bytes
    expected: str
    link_type: int = 1


CASES: dict[str, Case] = {
    # whose frame
    "to us": Case(frame(OURS), "delivered NONE"),
    "to another": Case(frame(OTHER), "dropped OTHERHOST"),
    "to all": Case(frame(EVERYONE), "delivered NONE"),
    "to a group": Case(frame(GROUP), "delivered NONE"),
    "IPv6 to another": Case(frame(OTHER, kind=0x86DD, body=SIX), "dropped OTHERHOST"),
    "by us to another": Case(frame(OTHER, OURS), "consumed OUTGOING"),
    "by us to all": Case(frame(EVERYONE, OURS), "consumed OUTGOING"),
    "by us to us: a loop on the way": Case(frame(OURS, OURS), "delivered NONE"),
    "by us, in a VLAN": Case(tagged(frame(OTHER, OURS)), "consumed OUTGOING"),
    # VLANs
    "priority tag": Case(OURS + NEIGHBOUR + b"\x81\0\xe0\0\x08\0" + FOUR, "delivered NONE"),
    "VLAN without a device": Case(OURS + NEIGHBOUR + b"\x81\0\0\6\x08\0" + FOUR, "dropped OTHERHOST"),
    "inner VLAN without a device": Case(
        OURS + NEIGHBOUR + b"\x88\xa8\0\x09\x81\0\0\6\x08\0" + FOUR, "dropped OTHERHOST"),
    "the tag of the other kind": Case(
        OURS + NEIGHBOUR + b"\x88\xa8\0\5\x08\0" + FOUR, "dropped OTHERHOST"),
    "VLAN, to another": Case(tagged(frame(OTHER)), "dropped OTHERHOST"),
    # other than IP
    "ARP": Case(frame(EVERYONE, kind=0x0806, body=bytes(28)), "consumed NONE"),
    "ARP to another": Case(frame(OTHER, kind=0x0806, body=bytes(28)), "dropped OTHERHOST"),
    "LLDP": Case(frame(OURS, kind=0x88CC, body=bytes(30)), "dropped UNHANDLED_PROTO"),
    "IEEE 802.3 length": Case(frame(OURS, kind=0x0026, body=bytes(40)), "dropped UNHANDLED_PROTO"),
    "PPPoE discovery": Case(frame(OURS, kind=0x8863, body=bytes(30)), "dropped UNHANDLED_PROTO"),
    "PPPoE with LCP": Case(
        frame(OURS, kind=0x8864, body=make.pppoe(0xC021, bytes(8))), "dropped UNHANDLED_PROTO"),
    "MPLS without an end": Case(
        frame(OURS, kind=0x8847, body=b"\0\1\0\x40" * 64), "unsupported LINK_HEADER"),
    "MPLS with something else": Case(
        frame(OURS, kind=0x8847, body=make.mpls([16], bytes(40))), "dropped UNHANDLED_PROTO"),
    "MPLS in a VLAN": Case(
        tagged(frame(OURS, kind=0x8847, body=make.mpls([16, 17], SIX))), "delivered NONE"),
    # Linux cooked
    "cooked, to us": Case(cooked(0), "delivered NONE", 113),
    "cooked, to all": Case(cooked(1), "delivered NONE", 113),
    "cooked, to a group": Case(cooked(2), "delivered NONE", 113),
    "cooked, to another": Case(cooked(3), "dropped OTHERHOST", 113),
    "cooked, by us": Case(cooked(4), "consumed OUTGOING", 113),
    "cooked, ARP": Case(cooked(0, 0x0806, bytes(28)), "consumed NONE", 113),
    "cooked, VLAN": Case(cooked(0, 0x8100, b"\0\5\x86\xdd" + SIX), "delivered NONE", 113),
    "cooked v2, to another": Case(cooked2(3), "dropped OTHERHOST", 276),
    "cooked v2, by us": Case(cooked2(4), "consumed OUTGOING", 276),
    "cooked v2, IPv6": Case(cooked2(0, 0x86DD, SIX), "delivered NONE", 276),
    # raw, null, loop, PPP
    "raw, version 5": Case(b"\x55" + FOUR[1:], "dropped UNHANDLED_PROTO", 101),
    "raw, empty": Case(b"", "unsupported LINK_HEADER", 101),
    "raw IPv4 with an IPv6 packet": Case(SIX, "dropped IP_INHDR", 228),
    "raw IPv6 with an IPv4 packet": Case(FOUR, "dropped IP_INHDR", 229),
    "null, another family": Case((7).to_bytes(4, "little") + FOUR, "dropped UNHANDLED_PROTO", 0),
    "loop, another family": Case((99).to_bytes(4) + FOUR, "dropped UNHANDLED_PROTO", 108),
    "PPP, one byte of protocol": Case(b"\x21" + FOUR, "delivered NONE", 9),
    "PPP with LCP": Case(b"\xc0\x21" + bytes(8), "dropped UNHANDLED_PROTO", 9),
    "PPP with MPLS": Case(b"\x02\x81" + make.mpls([16], FOUR), "delivered NONE", 9),
    # too short
    "half an Ethernet header": Case(frame(OURS)[:9], "unsupported LINK_HEADER"),
    "half a tag": Case(OURS + NEIGHBOUR + b"\x81\0\0", "dropped HDR_TRUNC"),
    "half a cooked header": Case(cooked(0)[:15], "unsupported LINK_HEADER", 113),
    "half a null header": Case(b"\2\0", "unsupported LINK_HEADER", 0),
    "Ethernet without a packet": Case(frame(OURS, body=b""), "dropped IP_INHDR"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_of_a_frame(name: str) -> None:
    case = CASES[name]
    assert of_frame(case.frame, case.link_type) == case.expected


@pytest.mark.parametrize("name", SAMPLES)
def test_a_frame_cut_by_the_capture_is_not_called_short(name: str) -> None:
    """Captured bytes end in each of the headers in turn: never a reason that blames the sender."""
    link_type, whole = SAMPLES[name]
    link_type = 101 if name in ("raw 12", "raw 14") else link_type  # as read from a file
    sizes = range(len(whole) - len(FOUR) + 28)
    batch = PacketBatch.from_packets(
        [whole[:size] for size in sizes], link_type=link_type, wire_length=[len(whole)] * len(sizes)
    )
    for size, (verdict, reason, _) in zip(sizes, judge(batch)):
        assert (verdict, reason) in {
            ("unsupported", "CAPTURE_CUT"), ("delivered", "NONE"), ("unsupported", "LINK_HEADER"),
        }, size  # fmt: skip


def test_a_device_that_is_down_takes_nothing() -> None:
    assert of_frame(frame(OURS), host=HOST + "ip link set eth0 down\n") == "dropped DEV_READY"
    host = HOST + VLANS + "ip link set eth0.5 down\n"
    assert of_frame(tagged(frame(OURS)), host=host) == "dropped DEV_READY"


def test_the_direction_of_the_capture_decides_before_all_else() -> None:
    batch = PacketBatch.from_packets([frame(OURS), b"", frame(OTHER)], link_type=1)
    batch.direction[:] = DIRECTION_OUT
    assert {row[:2] for row in judge(batch)} <= {
        ("consumed", "OUTGOING"), ("unsupported", "LINK_HEADER"),
    }  # fmt: skip


def test_a_packet_on_no_device_has_a_verdict() -> None:
    netns = Netns(parse_host(HOST))
    batch = PacketBatch.from_packets([frame(OURS)] * 2, link_type=1, device=[-1, 9])
    verdicts = netns.receive(batch)
    netns.close_accounts()
    assert verdicts.verdict_names == ["unsupported"] * 2
    assert verdicts.reason_names == ["NO_DEVICE"] * 2
