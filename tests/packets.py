"""Packets for tests, built from words."""

from __future__ import annotations

import ipaddress
import struct


def checksum(data: bytes) -> int:
    """The Internet checksum of `data`."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF ^ total


def udp(source: str, destination: str, sport: int, dport: int, payload: bytes) -> bytes:
    """A UDP segment with its checksum."""
    src, dst = ipaddress.ip_address(source).packed, ipaddress.ip_address(destination).packed
    size = 8 + len(payload)
    pseudo = src + dst + struct.pack("!II", size, 17)
    segment = struct.pack("!HHHH", sport, dport, size, 0) + payload
    check = checksum(pseudo + segment) or 0xFFFF
    return segment[:6] + struct.pack("!H", check) + segment[8:]


def ip(
    source: str,
    destination: str,
    payload: bytes | None = None,
    *,
    sport: int = 1000,
    dport: int = 2000,
    protocol: int = 17,
    ttl: int = 64,
    tos: int = 0,
    size: int = 8,
    options: bytes = b"",
    frag: int = 0,
) -> bytes:
    """An IPv4 or IPv6 packet; UDP with `size` bytes of data unless a payload is given."""
    if payload is None:
        payload = udp(source, destination, sport, dport, bytes(k & 255 for k in range(size)))
    src, dst = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    if src.version == 6:
        head = struct.pack("!IHBB", 6 << 28 | tos << 20, len(payload), protocol, ttl)
        return head + src.packed + dst.packed + payload
    options += bytes(-len(options) % 4)
    ihl = 5 + len(options) // 4
    head = struct.pack(
        "!BBHHHBBH", 0x40 | ihl, tos, 4 * ihl + len(payload), 1, frag, ttl, protocol, 0
    )
    head += src.packed + dst.packed + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload
