"""Makes demo/office.pcapng: twelve seconds at the router of an office with two uplinks.

    python demo/make_capture.py demo/office.pcapng

Only the standard library, a fixed seed and a fixed date: the file is the same every time.  All
addresses are set aside for documentation and benchmarks (RFC 5737, RFC 2544, RFC 3849); 198.18.0.0/15
and 2001:db8:f000::/36 stand for the Internet.

    eth0   uplink A   198.51.100.2/24   2001:db8:a::2/64   default route
    eth1   uplink B   203.0.113.2/24    strict source validation
    eth2   office     192.0.2.1/25      2001:db8:c::1/64
           VLAN 20    192.0.2.129/25    the laboratory; rules send its calls out by uplink B

What goes wrong in it, as it does in real offices:
- the other side of the laboratory's calls is not heard: the rule that sends calls out by uplink B
  asks for their DSCP, the Internet gives answers back without one, so the way back of an answer
  leads by uplink A, and strict source validation on uplink B drops it;
- the same for whoever asks the router on its address of uplink B: no rule looks at that address;
- a laboratory host sends datagrams that are larger than uplink B takes.
"""

from __future__ import annotations

import random
import socket
import struct
import sys

SEED = 6
START_NS = 1_748_856_600 * 10**9  # 2025-06-02 09:30:00 UTC
UPLINK_A, UPLINK_B, OFFICE = 0, 1, 2
NAMES = ("eth0", "eth1", "eth2")
ROUTER = (b"\x02\0\0\0\0\x10", b"\x02\0\0\0\0\x11", b"\x02\0\0\0\0\x12")
ISP = (b"\x02\0\0\0\xaa\x01", b"\x02\0\0\0\xbb\x01")
BROADCAST = b"\xff" * 6
LAB = 20  # VLAN
EF = 46  # DSCP of calls (RFC 3246)
SECOND, MILLISECOND, MICROSECOND = 10**9, 10**6, 10**3


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def raw(address: str) -> bytes:
    """4 or 16 bytes of an address."""
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def ip(
    source: str, destination: str, protocol: int, payload: bytes, *, ttl: int = 60, ident: int = 0,
    df: bool = True, more: bool = False, offset: int = 0, tos: int = 0, damage: int = 0,
) -> bytes:  # fmt: skip
    """An IP packet; `damage` is added to the right header checksum of IPv4."""
    if ":" in source:
        head = struct.pack("!IHBB", 6 << 28, len(payload), protocol, ttl)
        return head + raw(source) + raw(destination) + payload
    flags = df << 14 | more << 13 | offset // 8
    head = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(payload), ident, flags, ttl, protocol, 0)
    head += raw(source) + raw(destination)
    value = (checksum(head) + damage) & 0xFFFF
    return head[:10] + struct.pack("!H", value) + head[12:] + payload


def _sum(source: str, destination: str, protocol: int, segment: bytes) -> int:
    length = len(segment)
    size = struct.pack("!IHBB", length, 0, 0, protocol)
    if ":" not in source:
        size = struct.pack("!BBH", 0, protocol, length)
    return checksum(raw(source) + raw(destination) + size + segment)


def udp(
    source: str,
    sport: int,
    destination: str,
    dport: int,
    payload: bytes,
    *,
    damage: int = 0,
    **ip_fields: int,
) -> bytes:
    """A UDP datagram; `damage` is added to the right checksum."""
    segment = struct.pack("!HHHH", sport, dport, 8 + len(payload), 0) + payload
    value = (_sum(source, destination, 17, segment) or 0xFFFF) + damage & 0xFFFF
    segment = segment[:6] + struct.pack("!H", value) + segment[8:]
    return ip(source, destination, 17, segment, **ip_fields)


def tcp(
    source: str,
    sport: int,
    destination: str,
    dport: int,
    payload: bytes = b"",
    *,
    flags: int = 0x10,
    seq: int = 1,
) -> bytes:
    """A TCP segment."""
    segment = struct.pack("!HHIIBBHHH", sport, dport, seq, 1, 0x50, flags, 64240, 0, 0) + payload
    value = _sum(source, destination, 6, segment)
    return ip(source, destination, 6, segment[:16] + struct.pack("!H", value) + segment[18:])


def echo(source: str, destination: str, number: int, **ip_fields: int) -> bytes:
    """An echo request of either family."""
    six = ":" in source
    message = struct.pack("!BBHHH", 128 if six else 8, 0, 0, 77, number) + bytes(range(56))
    value = _sum(source, destination, 58, message) if six else checksum(message)
    message = message[:2] + struct.pack("!H", value) + message[4:]
    return ip(source, destination, 58 if six else 1, message, **ip_fields)


def frame(packet: bytes, destination: bytes, source: bytes, vlan: int = 0) -> bytes:
    """An Ethernet frame, padded to the least size that there is on a wire."""
    kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    tag = struct.pack("!HH", 0x8100, vlan) if vlan else b""
    return (destination + source + tag + struct.pack("!H", kind) + packet).ljust(60, b"\0")


class Wire:
    """What was received, with interface and time."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int, int, bytes]] = []

    def add(self, interface: int, at: int, data: bytes) -> None:
        """A frame that interface `interface` received `at` nanoseconds after the start."""
        self.records.append((at, len(self.records), interface, data))

    def write(self, path: str) -> None:
        """All frames in order of time, as pcapng with nanoseconds."""
        with open(path, "wb") as file:
            file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
            for name in NAMES:
                options = option(2, name.encode()) + option(9, b"\x09") + option(0, b"")
                file.write(block(1, struct.pack("<HHI", 1, 0, 0) + options))
            for at, _, interface, data in sorted(self.records):
                time = START_NS + at
                head = struct.pack(
                    "<IIIII", interface, time >> 32, time & 0xFFFFFFFF, len(data), len(data)
                )
                file.write(block(6, head + data + bytes(-len(data) % 4)))


def block(kind: int, body: bytes) -> bytes:
    """A pcapng block."""
    size = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + size + body + size


def option(code: int, value: bytes) -> bytes:
    """A pcapng option."""
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def station(number: int) -> bytes:
    """The MAC of a host in the office."""
    return b"\x02\0\0\0\xcc" + bytes([number])


def dns_question(random_: random.Random, name: str) -> bytes:
    """A DNS question for an address."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return (
        struct.pack("!HHHHHH", random_.getrandbits(16), 0x0100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"
    )


def office_traffic(wire: Wire, random_: random.Random) -> None:
    """Calls and video of the office by uplink A, both ways, in bursts as network cards give them."""
    for number in range(14):
        six = number % 3 == 2
        inside = f"2001:db8:c::{number + 16:x}" if six else f"192.0.2.{number + 16}"
        outside = (
            f"2001:db8:f000::{number:x}" if six else f"198.18.{number}.{random_.randrange(1, 250)}"
        )
        port = random_.randrange(32768, 60999)
        at = random_.randrange(3 * SECOND)
        while at < 12 * SECOND:
            for k in range(random_.randrange(1, 7)):
                size = random_.choice((60, 120, 200, 600))
                packet = udp(outside, 443, inside, port, bytes(size), ttl=54)
                wire.add(UPLINK_A, at + k * 12 * MICROSECOND, frame(packet, ROUTER[0], ISP[0]))
            if random_.random() < 0.7:
                packet = udp(inside, port, outside, 443, bytes(random_.choice((40, 120))), ttl=64)
                wire.add(
                    OFFICE, at + 3 * MILLISECOND, frame(packet, ROUTER[2], station(number + 16))
                )
            at += random_.randrange(200 * MILLISECOND, 900 * MILLISECOND)


def laboratory_traffic(wire: Wire, random_: random.Random) -> None:
    """Calls leave by uplink B, and nobody is heard; backups are too large for it."""
    for number in range(4):
        inside, outside = f"192.0.2.{140 + number}", f"198.19.{number}.10"
        for _ in range(18):
            at = random_.randrange(12 * SECOND)
            packet = udp(inside, 30000 + number, outside, 4500, bytes(160), ttl=64, tos=EF << 2)
            wire.add(OFFICE, at, frame(packet, ROUTER[2], station(140 + number), LAB))
            answer = udp(outside, 4500, inside, 30000 + number, bytes(160), ttl=57)
            wire.add(UPLINK_B, at + 21 * MILLISECOND, frame(answer, ROUTER[1], ISP[1]))
    for k in range(6):  # a backup: 1,488 bytes of IP, and uplink B takes 1,480
        packet = udp(
            "192.0.2.144", 9000, "198.19.9.9", 9000, bytes(1460), ttl=64, df=k < 4, ident=k
        )
        wire.add(OFFICE, (2 + k) * SECOND, frame(packet, ROUTER[2], station(144), LAB))


def questions_to_the_router(wire: Wire, random_: random.Random) -> None:
    """DNS and time from inside; the same from outside by uplink B, where validation is strict."""
    for k in range(120):
        host = random_.randrange(16, 40)
        six = k % 4 == 3
        inside = f"2001:db8:c::{host:x}" if six else f"192.0.2.{host}"
        router = "2001:db8:c::1" if six else "192.0.2.1"
        question = dns_question(random_, random_.choice(("example.com", "mail.example.org")))
        damage = 1 if k in (50, 51, 90) else 0  # a bad network card
        packet = udp(
            inside, random_.randrange(1024, 65535), router, 53, question, ttl=64, damage=damage
        )
        wire.add(OFFICE, random_.randrange(12 * SECOND), frame(packet, ROUTER[2], station(host)))
    for k in range(20):
        packet = udp(f"192.0.2.{16 + k}", 123, "192.0.2.1", 123, bytes([0x23]) + bytes(47), ttl=64)
        wire.add(OFFICE, random_.randrange(12 * SECOND), frame(packet, ROUTER[2], station(16 + k)))
    for k in range(16):
        question = dns_question(random_, "office.example.com")
        packet = udp(f"198.18.200.{k + 1}", 5353, "203.0.113.2", 53, question, ttl=49)
        wire.add(UPLINK_B, random_.randrange(12 * SECOND), frame(packet, ROUTER[1], ISP[1]))
        packet = udp(f"198.18.201.{k + 1}", 5353, "198.51.100.2", 53, question, ttl=49)
        wire.add(UPLINK_A, random_.randrange(12 * SECOND), frame(packet, ROUTER[0], ISP[0]))
    for k in range(10):
        inside = "2001:db8:c::20" if k % 2 else "192.0.2.32"
        router = "2001:db8:c::1" if k % 2 else "192.0.2.1"
        wire.add(OFFICE, k * SECOND, frame(echo(inside, router, k, ttl=64), ROUTER[2], station(32)))


def daily_trouble(wire: Wire, random_: random.Random) -> None:
    """Traceroute, closed ports, a botnet, martians, damage, other people's frames."""
    for k in range(3):  # traceroute: three probes that end here, three that go on
        for ttl in (1, 2):
            packet = udp("192.0.2.20", 40000 + k, "198.18.7.7", 33434 + k, bytes(32), ttl=ttl)
            wire.add(
                OFFICE,
                5 * SECOND + k * 9 * MILLISECOND + ttl,
                frame(packet, ROUTER[2], station(20)),
            )
            packet = udp(
                "2001:db8:c::20", 40000 + k, "2001:db8:f000::7", 33434 + k, bytes(32), ttl=ttl
            )
            wire.add(
                OFFICE,
                6 * SECOND + k * 9 * MILLISECOND + ttl,
                frame(packet, ROUTER[2], station(32)),
            )
    for k in range(9):  # a printer asks a closed port of the router
        packet = udp("192.0.2.38", 1610, "192.0.2.1", 161, bytes(40), ttl=64)
        wire.add(OFFICE, (1 + k) * SECOND, frame(packet, ROUTER[2], station(38)))
    for k in range(22):  # a notebook calls a network that is blackholed
        packet = tcp("192.0.2.27", 50000 + k, f"198.18.66.{6 + k % 3}", 6667, flags=2)
        wire.add(OFFICE, random_.randrange(12 * SECOND), frame(packet, ROUTER[2], station(27)))
    for k, source in enumerate(("127.0.0.1", "224.0.0.9", "0.1.2.3", "198.51.100.2", "240.0.0.1")):
        packet = udp(source, 53, "192.0.2.16", 1024, bytes(64), ttl=50)
        wire.add(UPLINK_A, (2 * k + 1) * SECOND, frame(packet, ROUTER[0], ISP[0]))
    for k in range(3):
        packet = udp("198.18.1.9", 443, "192.0.2.17", 4000, bytes(200), ttl=50, damage=0x100)
        packet = packet[:10] + bytes([packet[10] ^ 0x40]) + packet[11:]
        wire.add(UPLINK_A, (3 * k + 1) * SECOND, frame(packet, ROUTER[0], ISP[0]))
    for _ in range(8):  # a switch that floods
        packet = udp("192.0.2.30", 7000, "192.0.2.31", 7000, bytes(100), ttl=64)
        wire.add(OFFICE, random_.randrange(12 * SECOND), frame(packet, station(31), station(30)))
    for k in range(5):  # DHCP
        packet = udp("0.0.0.0", 68, "255.255.255.255", 67, bytes(240), ttl=64)
        wire.add(OFFICE, (2 * k + 1) * SECOND, frame(packet, BROADCAST, station(60 + k)))
    for k in range(6):  # mDNS: the router has not joined
        packet = udp("192.0.2.33", 5353, "224.0.0.251", 5353, bytes(50), ttl=255)
        wire.add(OFFICE, 2 * k * SECOND, frame(packet, b"\x01\0\x5e\0\0\xfb", station(33)))
    for k in range(4):  # a question in two fragments
        whole = dns_question(random_, "example.com").ljust(1600, b"\0")
        segment = struct.pack("!HHHH", 5300, 53, 8 + len(whole), 0) + whole
        for offset, part in ((0, segment[:1480]), (1480, segment[1480:])):
            packet = ip(
                "192.0.2.35",
                "192.0.2.1",
                17,
                part,
                ttl=64,
                ident=900 + k,
                df=False,
                more=not offset,
                offset=offset,
            )
            wire.add(OFFICE, 3 * k * SECOND + offset, frame(packet, ROUTER[2], station(35)))
    for k in range(14):  # web pages of the office, and the administrator's shell
        packet = tcp(f"192.0.2.{16 + k}", 41000 + k, f"198.18.80.{k}", 443, bytes(200), flags=0x18)
        wire.add(OFFICE, random_.randrange(12 * SECOND), frame(packet, ROUTER[2], station(16 + k)))
        packet = tcp("192.0.2.16", 42000, "192.0.2.1", 22, bytes(36), flags=0x18, seq=k)
        wire.add(OFFICE, random_.randrange(12 * SECOND), frame(packet, ROUTER[2], station(16)))
    arp = (
        struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1)
        + station(21)
        + raw("192.0.2.21")
        + bytes(6)
        + raw("192.0.2.1")
    )
    for k in range(6):
        data = BROADCAST + station(21) + b"\x08\x06" + arp
        wire.add(OFFICE, 2 * k * SECOND + 5, data.ljust(60, b"\0"))


def main() -> None:
    """Write the capture to the path given."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: make_capture.py FILE")
    random_ = random.Random(SEED)
    wire = Wire()
    for part in (office_traffic, laboratory_traffic, questions_to_the_router, daily_trouble):
        part(wire, random_)
    wire.write(sys.argv[1])


if __name__ == "__main__":
    main()
