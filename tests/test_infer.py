"""Guessing the host from a capture: what is evidence for what, and that every guess loads."""

from __future__ import annotations

import importlib.util
import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ippath.batch import (
    DIRECTION_IN, DIRECTION_OUT, LINK_ETHERNET, LINK_LINUX_SLL, LINK_NULL, LINK_RAW, PacketBatch,
)  # fmt: skip
from ippath.config.infer import infer, infer_text
from tests.captures import SHARED, internet_checksum

DEMO = Path(__file__).resolve().parent.parent / "demo/office.pcapng"
HOST_FILES = importlib.util.find_spec("ippath.config.host_file") is not None
loads = pytest.mark.skipif(not HOST_FILES, reason="host files cannot be read yet")

US, ROUTER, NEIGHBOUR, OTHER = (f"02:00:00:00:00:0{k}" for k in range(1, 5))
EVERYONE = "ff:ff:ff:ff:ff:ff"


def mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def udp_ip(
    source: str, destination: str, sport: int = 4000, dport: int = 53, ttl: int = 64
) -> bytes:
    """A UDP packet of either family, without a UDP checksum."""
    udp = sport.to_bytes(2) + dport.to_bytes(2) + (12).to_bytes(2) + bytes(2) + b"data"
    one, two = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    if one.version == 4:
        head = bytes([0x45, 0]) + (20 + len(udp)).to_bytes(2) + bytes(4) + bytes([ttl, 17])
        checksum = internet_checksum(head + bytes(2) + one.packed + two.packed)
        head += checksum.to_bytes(2)
    else:
        head = bytes([0x60, 0, 0, 0]) + len(udp).to_bytes(2) + bytes([17, ttl])
    return head + one.packed + two.packed + udp


def frame(
    from_mac: str, to_mac: str, source: str, destination: str,
    sport: int = 4000, dport: int = 53, vlan: int = 0, ttl: int = 64, tags: bytes = b"",
) -> bytes:  # fmt: skip
    """An Ethernet frame with a UDP packet."""
    kind = b"\x08\x00" if ":" not in source else b"\x86\xdd"
    tags += b"\x81\x00" + vlan.to_bytes(2) if vlan else b""
    packet = udp_ip(source, destination, sport, dport, ttl)
    return mac(to_mac) + mac(from_mac) + tags + kind + packet


def arp(
    from_mac: str, sender: str, target: str, to_mac: str = EVERYONE, reply: bool = False
) -> bytes:
    """An ARP request or reply."""
    body = bytes([0, 1, 8, 0, 6, 4, 0, 2 if reply else 1]) + mac(from_mac)
    body += ipaddress.IPv4Address(sender).packed + bytes(6) + ipaddress.IPv4Address(target).packed
    return mac(to_mac) + mac(from_mac) + b"\x08\x06" + body


def advertisement(from_mac: str, source: str, to_mac: str, destination: str) -> bytes:
    """A neighbour advertisement."""
    body = bytes([136, 0, 0, 0]) + bytes(4) + ipaddress.IPv6Address(source).packed
    head = bytes([0x60, 0, 0, 0]) + len(body).to_bytes(2) + bytes([58, 255])
    addresses = ipaddress.IPv6Address(source).packed + ipaddress.IPv6Address(destination).packed
    return mac(to_mac) + mac(from_mac) + b"\x86\xdd" + head + addresses + body


def ethernet(
    *frames: bytes, interfaces: tuple[str, ...] = ("eth0",), device: object = 0
) -> PacketBatch:
    batch = PacketBatch.from_packets(frames, link_type=LINK_ETHERNET, device=device)  # type: ignore[arg-type]
    batch.interfaces = list(interfaces)
    return batch


def lines(*batches: PacketBatch, **options: object) -> list[str]:
    """The guess without comments and padding."""
    text = infer_text(batches, **options)  # type: ignore[arg-type]
    return [line for line in (re.sub(r"\s*#.*", "", one) for one in text.splitlines()) if line]


def stations(*pairs: tuple[int, str], net: str = "10.0.0") -> list[bytes]:
    """Packets of hosts of a network, each with a MAC of its own, that we get."""
    return [frame(f"02:00:00:00:01:{k:02x}", US, f"{net}.{k}", to, 5000 + k, 53) for k, to in pairs]


SERVER = [
    frame(ROUTER, US, "192.0.2.50", "10.0.0.1", 4000, 53),
    frame(US, ROUTER, "10.0.0.1", "192.0.2.50", 53, 4000),
    frame(ROUTER, US, "198.51.100.9", "10.0.0.1", 4001, 53),
    frame(US, ROUTER, "10.0.0.1", "198.51.100.9", 53, 4001),
    arp(US, "10.0.0.1", "10.0.0.254"),
    arp(ROUTER, "10.0.0.254", "10.0.0.1", US, reply=True),
]


@dataclass(frozen=True)
class Case:
    """Packets, lines that the guess must have, and beginnings of lines that it must not."""

    batch: PacketBatch
    present: tuple[str, ...]
    absent: tuple[str, ...] = ()


CASES: dict[str, Case] = {
    "a server behind a router": Case(
        ethernet(*SERVER),
        (f"ip link add eth0 address {US} type veth", "ip addr add 10.0.0.1/24 dev eth0",
         "ip route add default via 10.0.0.254 dev eth0", "listen udp 10.0.0.1:53"),
        ("net.ipv4.ip_forward", "ip addr add 192.0.2.50", "listen udp 192"),
    ),
    "a client": Case(
        ethernet(frame(US, ROUTER, "10.0.0.1", "192.0.2.50", 5000, 53),
                 frame(ROUTER, US, "192.0.2.50", "10.0.0.1", 53, 5000),
                 frame(US, ROUTER, "10.0.0.1", "192.0.2.51", 5001, 53)),
        ("ip addr add 10.0.0.1/24 dev eth0", "listen udp 10.0.0.1:5000"),
        ("listen udp 10.0.0.1:5001", "listen udp 192"),
    ),
    "a port that nobody answers is not open": Case(
        ethernet(frame(ROUTER, US, "192.0.2.50", "10.0.0.1", 4000, 161), *SERVER),
        ("listen udp 10.0.0.1:53",),
        ("listen udp 10.0.0.1:161",),
    ),
    "a network seen by its broadcast address": Case(
        ethernet(*SERVER, frame(NEIGHBOUR, EVERYONE, "10.0.3.9", "10.0.3.255")),
        ("ip addr add 10.0.0.1/22 dev eth0",),
    ),
    "a network as wide as its neighbours": Case(
        ethernet(*SERVER, arp(NEIGHBOUR, "10.0.1.7", "10.0.0.1")),
        ("ip addr add 10.0.0.1/23 dev eth0",),
    ),
    "two addresses": Case(
        ethernet(*SERVER, frame(ROUTER, US, "192.0.2.50", "10.0.0.2"),
                 frame(US, ROUTER, "10.0.0.2", "192.0.2.50")),
        ("ip addr add 10.0.0.1/24 dev eth0", "ip addr add 10.0.0.2/24 dev eth0"),
    ),
    "a router between two interfaces": Case(
        ethernet(
            arp(US, "10.0.0.1", "10.0.0.7"), arp(NEIGHBOUR, "10.0.0.7", "10.0.0.1", US, True),
            frame(NEIGHBOUR, US, "10.0.0.7", "10.1.0.7"),
            frame(NEIGHBOUR, US, "10.0.0.7", "10.1.0.7"),
            arp(ROUTER, "10.1.0.1", "10.1.0.7"), arp(OTHER, "10.1.0.7", "10.1.0.1", ROUTER, True),
            frame(ROUTER, OTHER, "10.0.0.7", "10.1.0.7"),
            frame(ROUTER, OTHER, "10.0.0.7", "10.1.0.7"),
            frame(ROUTER, OTHER, "10.0.0.9", "10.1.0.7"),
            interfaces=("eth0", "eth1"), device=[0, 0, 0, 0, 1, 1, 1, 1, 1],
        ),
        ("ip addr add 10.0.0.1/24 dev eth0", "ip addr add 10.1.0.1/24 dev eth1",
         "net.ipv4.ip_forward = 1"),
        ("ip addr add 10.1.0.7", "ip addr add 10.0.0.7", "net.ipv6"),
    ),
    "IPv6": Case(
        ethernet(advertisement(US, "2001:db8::1", ROUTER, "2001:db8::fe"), advertisement(ROUTER, "2001:db8::fe", US, "2001:db8::1"),
                 frame(ROUTER, US, "2001:db8:9::1", "2001:db8::1"),
                 frame(ROUTER, US, "2001:db8:9::2", "2001:db8::1")),
        ("ip addr add 2001:db8::1/64 dev eth0",
         "ip -6 route add default via 2001:db8::fe dev eth0"),
        ("ip route add default", "net.ipv6.conf.all.forwarding"),
    ),
    "a VLAN": Case(
        ethernet(frame(ROUTER, US, "192.0.2.50", "10.0.0.1", vlan=7),
                 frame(US, ROUTER, "10.0.0.1", "192.0.2.50", 53, 4000, vlan=7),
                 frame(ROUTER, US, "192.0.2.51", "10.0.0.1", vlan=7)),
        (f"ip link add eth0 address {US} type veth",
         "ip link add link eth0 name eth0.7 type vlan id 7", "ip addr add 10.0.0.1/24 dev eth0.7",
         "ip route add default dev eth0.7"),
    ),
    "names that are no device names": Case(
        ethernet(*SERVER, *SERVER, interfaces=(r"\Device\NPF_{1}", "Wi-Fi 2"),
                 device=[0] * 6 + [1] * 6),
        (r"map \Device\NPF_{1} eth0", 'map "Wi-Fi 2" eth1'),
    ),
    "a capture of what came in alone": Case(
        ethernet(*(frame(ROUTER, US, "192.0.2.50", f"10.0.0.{k}") for k in (1, 2, 3))),
        (f"ip link add eth0 address {US} type veth", "ip addr add 10.0.0.1/24 dev eth0"),
        ("ip addr add 192",),
    ),
    "a router seen from inside": Case(
        ethernet(*stations((10, "10.0.0.1"), (11, "8.8.8.8"), (12, "9.9.9.9"), (13, "1.1.1.1")),
                 frame(US, "02:00:00:00:01:0b", "8.8.8.8", "10.0.0.11", 53, 5011, ttl=57)),
        ("ip addr add 10.0.0.1/24 dev eth0", "ip link add beyond type dummy",
         "ip route add default dev beyond", "net.ipv4.ip_forward = 1"),
        ("ip addr add 8", "ip addr add 9", "ip addr add 1.", "ip route add default dev eth0"),
    ),
    "a router that only receives": Case(
        ethernet(*stations((10, "10.0.0.1"), (11, "8.8.8.8"), (12, "9.9.9.9")),
                 frame(ROUTER, OTHER, "8.8.8.8", "10.0.0.11", ttl=57),
                 frame(ROUTER, OTHER, "8.8.4.4", "10.0.0.11", ttl=57),
                 frame(ROUTER, OTHER, "9.9.9.9", "203.0.113.2", ttl=57),
                 interfaces=("eth0", "eth1"), device=[0, 0, 0, 1, 1, 1]),
        ("ip addr add 10.0.0.1/24 dev eth0", "ip addr add 203.0.113.2/24 dev eth1",
         "ip route add default dev eth1", "net.ipv4.ip_forward = 1"),
        ("ip addr add 8", "ip addr add 9", "ip link add beyond", "ip route add 10"),
    ),
    "one forged packet does not take an address away": Case(
        ethernet(*(frame(ROUTER, US, f"192.0.2.{k}", "10.0.0.1", ttl=57) for k in range(5)),
                 frame(ROUTER, US, "10.0.0.1", "10.0.0.77", ttl=57),
                 frame(ROUTER, US, "10.0.0.1", "10.0.0.1", ttl=57)),
        ("ip addr add 10.0.0.1/24 dev eth0", "ip route add default dev eth0"),
        ("ip route add default via 10.0.0.1",),
    ),
    "two networks that are halves of a usual one": Case(
        ethernet(*stations((10, "192.0.2.1"), (11, "192.0.2.1"), net="192.0.2"),
                 *(one.replace(b"\x08\x00", b"\x81\x00\0\x14\x08\x00", 1) for one in stations(
                     (140, "192.0.2.11"), (141, "192.0.2.10"), net="192.0.2"))),
        ("ip addr add 192.0.2.1/25 dev eth0", "ip route add 192.0.2.128/25 dev eth0.20"),
        ("ip route add 192.0.2.0/24", "ip addr add 192.0.2.1/24"),
    ),
    "neighbouring networks behind a second router are one route": Case(
        ethernet(*SERVER, *(frame(OTHER, US, f"198.51.{k}.7", "10.0.0.1") for k in range(4))),
        ("ip route add 198.51.0.0/22 dev eth0",), ("ip route add 198.51.1.0/24",),
    ),
    "what only receives listens where several peers ask": Case(
        ethernet(*(frame(ROUTER, US, f"192.0.2.{k}", "10.0.0.1", 4000 + k, 53) for k in range(3)),
                 *(frame(ROUTER, US, "192.0.2.9", "10.0.0.1", 4000, 100 + k) for k in range(9))),
        ("listen udp 10.0.0.1:53",), ("listen udp 10.0.0.1:10",),
    ),
    "the end that no router stands before captured": Case(
        ethernet(frame(US, ROUTER, "10.0.0.1", "192.0.2.50", ttl=64),
                 frame(ROUTER, US, "192.0.2.50", "10.0.0.1", 53, 4000, ttl=53)),
        (f"ip link add eth0 address {US} type veth",),
    ),
    "among equals the private address captured": Case(
        ethernet(frame(US, ROUTER, "10.0.0.1", "192.0.2.50"),
                 frame(ROUTER, US, "192.0.2.50", "10.0.0.1", 53, 4000)),
        (f"ip link add eth0 address {US} type veth",),
    ),
    "a MAC that talks to itself": Case(
        ethernet(*(frame(US, US, f"10.0.0.{k}", "10.0.0.1") for k in (2, 3))),
        ("ip link add eth0 type veth", "ip addr add 10.0.0.1/24 dev eth0"),
        ("ip addr add 10.0.0.2", "ip addr add 10.0.0.3"),
    ),
    "unicast packets in broadcast frames": Case(
        ethernet(frame(US, EVERYONE, "10.0.0.2", "10.0.0.1"),
                 frame(US, EVERYONE, "10.0.0.3", "10.0.0.1")),
        ("ip addr add 10.0.0.1/24 dev eth0",),
    ),
    "QinQ": Case(
        ethernet(frame(ROUTER, US, "192.0.2.50", "10.0.0.1", vlan=7, tags=b"\x88\xa8\0\5"),
                 frame(US, ROUTER, "10.0.0.1", "192.0.2.50", vlan=7, tags=b"\x88\xa8\0\5")),
        ("ip link add link eth0 name eth0.5 type vlan proto 802.1ad id 5",
         "ip link add link eth0.5 name eth0.5.7 type vlan id 7",
         "ip addr add 10.0.0.1/24 dev eth0.5.7"),
    ),
    "one MAC on all VLANs of an interface": Case(
        ethernet(frame(ROUTER, US, "192.0.2.50", "10.0.1.1", vlan=7),
                 frame(OTHER, US, "192.0.2.50", "10.0.2.1", vlan=8),
                 frame(US, OTHER, "10.0.2.1", "192.0.2.50", vlan=8)),
        (f"ip link add eth0 address {US} type veth", "ip addr add 10.0.1.1/24 dev eth0.7",
         "ip addr add 10.0.2.1/24 dev eth0.8"),
    ),
    "PPPoE": Case(
        ethernet(*(mac(US) + mac(ROUTER) + b"\x88\x64\x11\0\0\1\0\x2c\0\x21"
                   + udp_ip(f"192.0.2.{k}", "10.0.0.1") for k in (1, 2))),
        ("ip addr add 10.0.0.1/24 dev eth0", "ip route add default dev eth0"),
    ),
    "no packets": Case(ethernet(), ("ip link set lo up",), ("ip addr", "ip route", "listen")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_concluded(name: str) -> None:
    case = CASES[name]
    found = lines(case.batch)
    for line in case.present:
        assert line in found, "\n".join(found)
    for beginning in case.absent:
        assert not [line for line in found if line.startswith(beginning)], "\n".join(found)


def test_the_direction_decides_where_the_capture_knows_it() -> None:
    """The neighbour takes part in more frames, but the frames that went out are ours."""
    batch = ethernet(
        frame(US, ROUTER, "10.0.0.1", "192.0.2.50"),
        frame(ROUTER, NEIGHBOUR, "192.0.2.50", "10.0.0.7"),
        frame(NEIGHBOUR, ROUTER, "10.0.0.7", "192.0.2.50"),
    )
    batch.direction[:] = [DIRECTION_OUT, 0, 0]
    assert f"ip link add eth0 address {US} type veth" in lines(batch)
    batch.direction[:] = [0, DIRECTION_IN, 0]
    assert f"ip link add eth0 address {NEIGHBOUR} type veth" in lines(batch)


def cooked(kind: int, from_mac: str, packet: bytes) -> bytes:
    """A frame of a Linux cooked capture: packet type 0 is to us, 4 is from us."""
    return kind.to_bytes(2) + bytes([0, 1, 0, 6]) + mac(from_mac) + bytes(2) + b"\x08\x00" + packet


def test_linux_cooked_captures_know_the_direction() -> None:
    packets = [
        cooked(0, ROUTER, udp_ip("192.0.2.50", "10.0.0.1", 4000, 53)),
        cooked(4, US, udp_ip("10.0.0.1", "192.0.2.50", 53, 4000)),
    ]
    found = lines(PacketBatch.from_packets(packets, link_type=LINK_LINUX_SLL))
    assert f"ip link add eth0 address {US} type veth" in found
    assert "ip addr add 10.0.0.1/24 dev eth0" in found and "listen udp 10.0.0.1:53" in found
    assert not [line for line in found if "192.0.2.50" in line]


def test_without_link_level_the_busiest_address_is_ours() -> None:
    packets = [udp_ip(f"192.0.2.{k}", "10.0.0.1") for k in range(1, 5)]
    found = lines(PacketBatch.from_packets(packets, link_type=LINK_RAW))
    assert "ip link add eth0 type tun" in found
    assert "ip addr add 10.0.0.1/24 dev eth0" in found
    assert "ip route add default dev eth0" in found


def test_a_loopback_capture_needs_no_device() -> None:
    raw = PacketBatch.from_packets([udp_ip("127.0.0.1", "127.0.0.53")], link_type=LINK_RAW)
    null = PacketBatch.from_packets(
        [(2).to_bytes(4, "little") + udp_ip("127.0.0.1", "127.0.0.1")], link_type=LINK_NULL
    )
    assert lines(raw) == lines(null)
    assert not [line for line in lines(raw) if "link add" in line or "addr add" in line]


@loads
def test_what_was_captured_on_lo_is_delivered() -> None:
    """The kernel does not check again what a host sends to itself."""
    from ippath.netns import Netns

    asked = [udp_ip("127.0.0.1", "127.0.0.1", 4000, 53), udp_ip("10.0.0.1", "10.0.0.1", 4000, 53)]
    answers = [udp_ip("127.0.0.1", "127.0.0.1", 53, 4000), udp_ip("10.0.0.1", "10.0.0.1", 53, 4000)]
    packets = [(2).to_bytes(4, "little") + packet for packet in asked + answers]
    batch = PacketBatch.from_packets(packets, link_type=LINK_NULL)
    netns = Netns(infer([batch]))
    batch.device = netns.map_interfaces([""])[batch.device]
    assert netns.receive(batch).verdict_names == ["delivered"] * 4


def test_every_line_of_substance_says_why() -> None:
    for line in infer_text([ethernet(*SERVER)]).splitlines()[1:]:
        assert "#" in line or line.startswith("ip link set"), line


def test_only_the_first_packets_are_looked_at() -> None:
    late = ethernet(frame(ROUTER, US, "192.0.2.50", "10.0.0.99"))
    text = infer_text([ethernet(*SERVER), late], limit=6, source="a.pcap")
    assert text.startswith("# guessed from the first 6 packets of a.pcap")
    assert "10.0.0.99" not in text
    whole = infer_text([ethernet(*SERVER), late])
    assert whole.startswith("# guessed from all 7 packets") and "10.0.0.99" in whole


def test_a_batch_is_cut_at_the_limit() -> None:
    assert infer_text([ethernet(*SERVER)], limit=3).startswith("# guessed from the first 3 packets")


def test_how_a_capture_is_cut_into_batches_does_not_matter() -> None:
    whole = ethernet(*SERVER)
    parts = [whole.select(slice(k, k + 1)) for k in range(len(whole))]
    assert infer_text(parts) == infer_text([whole])


def test_a_thousand_addresses_are_a_router_not_a_host() -> None:
    frames = [
        frame((ROUTER, OTHER)[k & 1], US, "192.0.2.50", f"10.{k >> 8}.{k & 255}.1")
        for k in range(1000)
    ]
    found = lines(ethernet(*frames, arp(US, "10.9.9.9", "10.9.9.8")))
    assert [line for line in found if line.startswith("ip addr")] == [
        "ip addr add 10.9.9.9/24 dev eth0"
    ]
    assert "net.ipv4.ip_forward = 1" in found


@loads
@pytest.mark.parametrize("name", CASES)
def test_every_guess_loads(name: str) -> None:
    host = infer([CASES[name].batch])
    assert host.devices[0].name == "lo"
    wanted = len([line for line in lines(CASES[name].batch) if line.startswith("ip addr add")])
    assert sum(1 for d in host.devices[1:] for _ in d.addresses) >= wanted


@loads
def test_the_guess_takes_the_packets_it_was_made_from() -> None:
    """The point of it all: a server's requests are delivered by the host guessed from them."""
    from ippath.netns import Netns

    batch = ethernet(*SERVER)
    netns = Netns(infer([batch]))
    batch.device = netns.map_interfaces(batch.interfaces)[batch.device]
    verdicts = netns.receive(batch)
    names = verdicts.verdict_names
    assert (names[0], names[2], names[5]) == ("delivered", "delivered", "consumed")


@loads
@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared captures here")
def test_every_shared_capture_makes_a_host() -> None:
    from ippath.capture import CaptureError, open_captures

    count = 0
    for path in sorted(SHARED.glob("*.pcap*")):
        try:
            with open_captures([path]) as captures:
                text = infer_text(captures, limit=2000)
            with open_captures([path]) as captures:
                assert infer(captures, limit=2000).devices, text
        except CaptureError:
            continue
        count += 1
    assert count > 100


@loads
def test_the_guess_from_the_demo() -> None:
    """A router that only receives, with two uplinks; what it forwards is not taken for its own."""
    from ippath.capture import open_captures

    with open_captures([DEMO]) as captures:
        found = lines(*captures)
    assert [line for line in found if line.startswith("ip addr")] == [
        "ip addr add 198.51.100.2/24 dev eth0",
        "ip addr add 203.0.113.2/24 dev eth1",
        "ip addr add 192.0.2.1/25 dev eth2",
        "ip addr add 2001:db8:c::1/64 dev eth2",
    ]
    assert [line for line in found if "route add" in line] == [
        "ip route add 192.0.2.128/25 dev eth2.20",
        "ip route add default dev eth0",
        "ip route add 198.19.0.0/22 dev eth1",
        "ip route add 198.18.200.0/24 dev eth1",
        "ip -6 route add default dev eth0",
    ]
    assert "listen udp 192.0.2.1:123" in found and "listen udp 192.0.2.1:161" not in found


@settings(max_examples=60)
@given(
    st.lists(st.binary(max_size=80), max_size=20),
    st.sampled_from([LINK_ETHERNET, LINK_LINUX_SLL, LINK_NULL, LINK_RAW, 276, 9, 4711]),
)
def test_any_bytes_make_a_guess(packets: list[bytes], link_type: int) -> None:
    text = infer_text([PacketBatch.from_packets(packets, link_type=link_type)])
    assert text.startswith("# guessed from all")


@settings(max_examples=60)
@given(st.data())
def test_damaged_frames_make_a_guess_that_loads(data: st.DataObject) -> None:
    packets = []
    for packet in SERVER:
        raw = bytearray(packet)
        for _ in range(data.draw(st.integers(0, 4))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
        packets.append(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    batch = ethernet(*packets)
    assert infer_text([batch]).startswith("# guessed from")
    if HOST_FILES:
        infer([batch])
