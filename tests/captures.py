"""Builders of capture files, byte by byte, for tests: independent of ippath's own writers."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

MICROSECONDS, NANOSECONDS, KUZNETSOV = 0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34

SHARED = Path(
    os.environ.get("IPPATH_CAPTURES")
    or Path(__file__).resolve().parent.parent.parent / "shared" / "captures"
)


def ipv4_udp(payload: bytes = b"ippath", ttl: int = 64, destination: str = "192.0.2.1") -> bytes:
    """An IPv4/UDP packet from 198.51.100.7 with right checksums."""
    source = bytes((198, 51, 100, 7))
    target = bytes(int(part) for part in destination.split("."))
    udp = struct.pack("!HHHH", 4000, 53, 8 + len(payload), 0) + payload
    pseudo = source + target + struct.pack("!BBH", 0, 17, len(udp))
    checksum = internet_checksum(pseudo + udp) or 0xFFFF
    udp = udp[:6] + struct.pack("!H", checksum) + udp[8:]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 7, 0, ttl, 17, 0) + source + target
    return head[:10] + struct.pack("!H", internet_checksum(head)) + head[12:] + udp


def ipv6_udp(
    payload: bytes = b"ippath", destination: bytes = b"\x20\x01\x0d\xb8" + b"\0" * 11 + b"\1"
) -> bytes:
    """An IPv6/UDP packet from 2001:db8::7 with a right checksum."""
    source = b"\x20\x01\x0d\xb8" + b"\0" * 11 + b"\7"
    udp = struct.pack("!HHHH", 4000, 53, 8 + len(payload), 0) + payload
    pseudo = source + destination + struct.pack("!II", len(udp), 17)
    checksum = internet_checksum(pseudo + udp) or 0xFFFF
    udp = udp[:6] + struct.pack("!H", checksum) + udp[8:]
    return struct.pack("!IHBB", 0x60000000, len(udp), 17, 64) + source + destination + udp


def internet_checksum(data: bytes) -> int:
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(ethertype: int, body: bytes, tags: Sequence[tuple[int, int]] = ()) -> bytes:
    """An Ethernet frame; `tags` are (tag protocol, VLAN tag) from the outside in."""
    raw = b"\x02\0\0\0\0\1" + b"\x02\0\0\0\0\2"
    for protocol, tag in tags:
        raw += struct.pack("!HH", protocol, tag)
    return raw + struct.pack("!H", ethertype) + body


def mpls(labels: Sequence[int], body: bytes) -> bytes:
    """A label stack and what it carries."""
    last = len(labels) - 1
    return (
        b"".join(
            struct.pack("!I", label << 12 | (k == last) << 8 | 64) for k, label in enumerate(labels)
        )
        + body
    )


def pppoe(protocol: int, body: bytes) -> bytes:
    """A PPPoE session frame (RFC 2516) from its version byte on."""
    return struct.pack("!BBHHH", 0x11, 0, 1, len(body) + 2, protocol) + body


def link_samples() -> dict[str, tuple[int, bytes]]:
    """Name -> (link type, frame that carries `ipv4_udp()` or `ipv6_udp()`), of every link type."""
    four, six = ipv4_udp(), ipv6_udp()
    cooked = struct.pack("!HHH8s", 0, 1, 6, b"\2\0\0\0\0\2\0\0")
    cooked2 = struct.pack("!HHIHBB8s", 0x0800, 0, 2, 1, 0, 6, b"\2\0\0\0\0\2\0\0")
    return {
        "ethernet IPv4": (1, ethernet(0x0800, four)),
        "ethernet IPv6": (1, ethernet(0x86DD, six)),
        "VLAN": (1, ethernet(0x0800, four, [(0x8100, 5)])),
        "QinQ": (1, ethernet(0x86DD, six, [(0x88A8, 9), (0x8100, 5)])),
        "MPLS": (1, ethernet(0x8847, mpls([16, 17], four))),
        "PPPoE": (1, ethernet(0x8864, pppoe(0x0021, four))),
        "PPPoE link": (51, pppoe(0x0057, six)),
        "raw 101 IPv4": (101, four),
        "raw 101 IPv6": (101, six),
        "raw 12": (12, four),
        "raw 14": (14, six),
        "raw IPv4": (228, four),
        "raw IPv6": (229, six),
        "cooked": (113, cooked + struct.pack("!H", 0x0800) + four),
        "cooked v2": (276, cooked2 + four),
        "null little-endian": (0, struct.pack("<I", 2) + four),
        "null big-endian": (0, struct.pack(">I", 2) + four),
        "null IPv6 FreeBSD": (0, struct.pack("<I", 28) + six),
        "null IPv6 macOS": (0, struct.pack("<I", 30) + six),
        "loop": (108, struct.pack(">I", 24) + six),
        "PPP": (9, b"\x00\x21" + four),
        "PPP with address": (9, b"\xff\x03\x00\x57" + six),
        "PPP HDLC": (50, b"\xff\x03\x00\x21" + four),
    }


@dataclass
class Record:
    """A packet for the builders: captured bytes, time in nanoseconds, length on the wire."""

    data: bytes
    time_ns: int = 1_000_000_000
    wire_length: int | None = None

    @property
    def original(self) -> int:
        return len(self.data) if self.wire_length is None else self.wire_length


def pcap(
    records: Iterable[Record],
    *,
    link_type: int = 1,
    order: str = "<",
    magic: int = MICROSECONDS,
    version: tuple[int, int] = (2, 4),
    snaplen: int = 262144,
) -> bytes:
    """A pcap file; `order` is "<" or ">"."""
    parts = [struct.pack(order + "IHHIIII", magic, *version, 0, 0, snaplen, link_type)]
    for record in records:
        seconds, rest = divmod(record.time_ns, 10**9)
        fraction = rest if magic == NANOSECONDS else rest // 1000
        lengths = (len(record.data), record.original)
        parts.append(struct.pack(order + "IIII", seconds, fraction, *lengths))
        if magic == KUZNETSOV:
            parts.append(struct.pack(order + "IHBB", 3, 0x0800, 0, 0))
        parts.append(record.data)
    return b"".join(parts)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    """One pcapng option with its padding."""
    return struct.pack(order + "HH", code, len(value)) + value + b"\0" * (-len(value) % 4)


def options(values: Sequence[tuple[int, bytes]], order: str = "<") -> bytes:
    """pcapng options with their end; nothing if there are none."""
    if not values:
        return b""
    return b"".join(option(c, v, order) for c, v in values) + option(0, b"", order)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A pcapng block around its body, which is padded."""
    body += b"\0" * (-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def section(order: str = "<", comment: str = "") -> bytes:
    """A section header block."""
    body = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    return block(
        0x0A0D0D0A, body + options([(1, comment.encode())] if comment else [], order), order
    )


def interface(
    link_type: int = 1,
    *,
    snaplen: int = 262144,
    name: str = "",
    resolution: int | None = None,
    offset: int | None = None,
    comment: str = "",
    order: str = "<",
) -> bytes:
    """An interface description block; `resolution` is the if_tsresol byte, `offset` in seconds."""
    values = []
    if comment:
        values.append((1, comment.encode()))
    if name:
        values.append((2, name.encode()))
    if resolution is not None:
        values.append((9, bytes([resolution])))
    if offset is not None:
        values.append((14, struct.pack(order + "q", offset)))
    body = struct.pack(order + "HHI", link_type, 0, snaplen)
    return block(1, body + options(values, order), order)


def enhanced(
    data: bytes,
    units: int = 0,
    *,
    interface: int = 0,
    wire_length: int | None = None,
    comments: Sequence[str] = (),
    flags: int | None = None,
    order: str = "<",
) -> bytes:
    """An enhanced packet block; `units` is the time in the interface's resolution."""
    original = len(data) if wire_length is None else wire_length
    values = [(1, c.encode()) for c in comments]
    if flags is not None:
        values.append((2, struct.pack(order + "I", flags)))
    body = struct.pack(
        order + "IIIII", interface, units >> 32, units & 0xFFFFFFFF, len(data), original
    )
    body += data + b"\0" * (-len(data) % 4) + options(values, order)
    return block(6, body, order)


def simple(data: bytes, wire_length: int | None = None, order: str = "<") -> bytes:
    """A simple packet block."""
    original = len(data) if wire_length is None else wire_length
    return block(3, struct.pack(order + "I", original) + data, order)


def old_packet(
    data: bytes, units: int = 0, *, interface: int = 0, order: str = "<", flags: int | None = None
) -> bytes:
    """The obsolete packet block."""
    body = struct.pack(
        order + "HHIIII", interface, 0, units >> 32, units & 0xFFFFFFFF, len(data), len(data)
    )
    values = [] if flags is None else [(2, struct.pack(order + "I", flags))]
    return block(2, body + data + b"\0" * (-len(data) % 4) + options(values, order), order)
