"""Builders of IEEE 802.15.4 frames and 6LoWPAN payloads, byte by byte: independent of ippath's own."""

from __future__ import annotations

import ipaddress
import struct

HERE, THERE = 0x0200000000000001, 0x0200000000000002  # EUI-64
PAN = 0xABCD
HOST = """ip link add lowpan0 address 02:00:00:00:00:00:00:01 type lowpan
iwpan dev lowpan0 set pan_id 0xabcd
iwpan dev lowpan0 set short_addr 0x0001
6lowpan context 0 2001:db8::/64
6lowpan context 3 2001:db8:3:4::/64
ip addr add 2001:db8::1/64 dev lowpan0
ip addr add 2001:db8:3:4::1/64 dev lowpan0
listen udp [::]:61617
listen udp [::]:5683
"""


def crc16(data: bytes) -> int:
    """The frame check sequence, bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x8408 if crc & 1 else 0)
    return crc


def frame(
    payload: bytes, *, source: int = THERE, target: int = HERE, short: tuple[bool, bool] = (False, False),
    pan: int = PAN, kind: int = 1, flags: int = 0x40, fcs: bool = False, sequence: int = 7,
) -> bytes:  # fmt: skip
    """A frame of version 2006 from `source` to `target`; `short`: (source, target) are short."""
    control = kind | flags | (2 if short[1] else 3) << 10 | 1 << 12 | (2 if short[0] else 3) << 14
    raw = struct.pack("<HBH", control, sequence, pan) + target.to_bytes(
        2 if short[1] else 8, "little"
    )
    if not flags & 0x40:
        raw += struct.pack("<H", pan)
    raw += source.to_bytes(2 if short[0] else 8, "little") + payload
    return raw + struct.pack("<H", crc16(raw)) if fcs else raw


def tap(raw: bytes, fcs_type: int) -> bytes:
    """A frame behind a TAP header that says which check sequence it ends with."""
    fields = struct.pack("<HHI", 0, 1, fcs_type) + struct.pack("<HHI", 1, 4, 0xC2000000)
    return struct.pack("<BBH", 0, 0, 4 + len(fields)) + fields + raw


def link_local(address: int, short: bool = False) -> bytes:
    """The address that follows from a link-level one."""
    iid = 0x000000FFFE000000 | address if short else address ^ 1 << 57
    return bytes.fromhex("fe80000000000000") + iid.to_bytes(8)


def packet(
    body: bytes, *, protocol: int = 17, source: bytes = link_local(THERE), target: bytes = link_local(HERE),
    hops: int = 64, first: int = 0,
) -> bytes:  # fmt: skip
    """An IPv6 packet; `first`: traffic class and flow label."""
    return struct.pack("!IHBB", 6 << 28 | first, len(body), protocol, hops) + source + target + body


def ip(text: str) -> bytes:
    """An IPv6 address as bytes."""
    return ipaddress.IPv6Address(text).packed


def checksum(whole: bytes) -> int:
    """The UDP checksum of an IPv6 packet whose payload is a datagram with the field zero."""
    data = whole[8:40] + struct.pack("!II", len(whole) - 40, 17) + whole[40:]
    total = sum(
        struct.unpack(f"!{len(data) // 2 + len(data) % 2}H", data + b"\0" * (len(data) % 2))
    )
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF or 0xFFFF


def udp(payload: bytes, *, sport: int = 61616, dport: int = 61617, **fields: bytes) -> bytes:
    """An IPv6 packet with a UDP datagram and its checksum; the fields of `packet`."""
    body = struct.pack("!HHHH", sport, dport, 8 + len(payload), 0) + payload
    whole = packet(body, **fields)
    return whole[:46] + struct.pack("!H", checksum(whole)) + whole[48:]


def first_fragment(size: int, tag: int, payload: bytes) -> bytes:
    """FRAG1 in front of compressed or uncompressed headers."""
    return struct.pack("!HH", 0xC000 | size, tag) + payload


def later_fragment(size: int, tag: int, offset: int, payload: bytes) -> bytes:
    """FRAGN; `offset` in bytes."""
    return struct.pack("!HHB", 0xE000 | size, tag, offset // 8) + payload
