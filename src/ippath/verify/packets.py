"""Packets for the scenarios, built from named fields; every field can be set to something wrong.

Checksums and lengths are right unless given.  Addresses are text, payloads are `bytes` or one of
the upper-layer values made here (`udp`, `tcp`, `icmp`, `icmp6`, …), which know their protocol number
and take the pseudo header from the IP header they are put in.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

MAC_R0 = "02:00:00:00:00:01"
MAC_R1 = "02:00:00:00:01:01"


def mac_of(network: int, host: int) -> str:
    """The MAC of neighbour `host` on r0 (network 0), r1 (network 1), …"""
    return f"02:00:00:00:{network:02x}:{host:02x}"


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071) of `data`."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@dataclass(frozen=True)
class Upper:
    """An upper-layer packet: its protocol number and a builder that is given the addresses."""

    protocol: int
    build: Callable[[bytes, bytes], bytes]


def address(text: str) -> bytes:
    """4 or 16 bytes of an address written as text."""
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)


def _pseudo(src: bytes, dst: bytes, protocol: int, length: int) -> bytes:
    if len(src) == 4:
        return src + dst + struct.pack("!BBH", 0, protocol, length & 0xFFFF)
    return src + dst + struct.pack("!II", length, protocol)


def data(n: int) -> bytes:
    """`n` bytes that differ from each other: 0, 1, 2, …"""
    return bytes(k & 0xFF for k in range(n))


def udp(
    sport: int = 1000,
    dport: int = 2000,
    payload: bytes = b"payload8",
    *,
    length: int | None = None,
    check: int | None = None,
    damage: int = 0,
    protocol: int = 17,
) -> Upper:
    """A UDP (17) or UDP-Lite (136) datagram; `damage` is added to the right checksum."""

    def build(src: bytes, dst: bytes) -> bytes:
        ulen = 8 + len(payload) if length is None else length
        head = struct.pack("!HHH", sport, dport, ulen)
        value = check
        if value is None:
            pseudo_length = ulen if protocol == 17 else 8 + len(payload)
            covered = (head + b"\0\0" + payload)[: ulen if 8 <= ulen else None]
            value = checksum(_pseudo(src, dst, protocol, pseudo_length) + covered) or 0xFFFF
            value = (value + damage) & 0xFFFF
        return head + struct.pack("!H", value) + payload

    return Upper(protocol, build)


def tcp(
    sport: int = 1000,
    dport: int = 2000,
    *,
    flags: int = 2,
    seq: int = 1,
    ack: int = 0,
    payload: bytes = b"",
) -> Upper:
    """A TCP segment without options."""

    def build(src: bytes, dst: bytes) -> bytes:
        head = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, 0x50, flags, 1000, 0, 0)
        value = checksum(_pseudo(src, dst, 6, len(head) + len(payload)) + head + payload)
        return head[:16] + struct.pack("!H", value) + head[18:] + payload

    return Upper(6, build)


def icmp(
    kind: int, code: int = 0, rest: int = 0, body: bytes = b"", *, damage: int = 0, pad: int = 0
) -> Upper:
    """An ICMP message: type, code, the four bytes after the checksum, the body."""

    def build(src: bytes, dst: bytes) -> bytes:
        tail = struct.pack("!I", rest) + body + bytes(pad)
        value = checksum(struct.pack("!BBH", kind, code, 0) + tail)
        return struct.pack("!BBH", kind, code, (value + damage) & 0xFFFF) + tail

    return Upper(1, build)


def echo(ident: int = 7, seq: int = 1, body: bytes = b"ping-data", **wrong: int) -> Upper:
    """An ICMP echo request."""
    return icmp(8, 0, ident << 16 | seq, body, **wrong)


def icmp6(kind: int, code: int = 0, rest: int = 0, body: bytes = b"", *, damage: int = 0) -> Upper:
    """An ICMPv6 message: type, code, the four bytes after the checksum, the body."""

    def build(src: bytes, dst: bytes) -> bytes:
        tail = struct.pack("!I", rest) + body
        whole = struct.pack("!BBH", kind, code, 0) + tail
        value = checksum(_pseudo(src, dst, 58, len(whole)) + whole)
        return struct.pack("!BBH", kind, code, (value + damage) & 0xFFFF) + tail

    return Upper(58, build)


def echo6(ident: int = 7, seq: int = 1, body: bytes = b"ping-data", **wrong: int) -> Upper:
    """An ICMPv6 echo request."""
    return icmp6(128, 0, ident << 16 | seq, body, **wrong)


def ip4(
    src: str,
    dst: str,
    payload: Upper | bytes | None = None,
    *,
    ttl: int = 64,
    tos: int = 0,
    ident: int = 0x1234,
    df: bool = False,
    mf: bool = False,
    reserved: bool = False,
    offset: int = 0,
    proto: int | None = None,
    options: bytes = b"",
    length: int | None = None,
    ihl: int | None = None,
    version: int = 4,
    check: int | None = None,
    damage: int = 0,
    trailer: bytes = b"",
    cut: int | None = None,
    part: tuple[int, int] | None = None,
) -> bytes:
    """An IPv4 packet.

    `offset` is in units of 8 bytes; `options` are padded with END to a multiple of 4; `damage` is
    added to the right header checksum; `trailer` follows the packet; `cut` keeps so many bytes in
    all; `part` = (first, last) keeps that range of the payload, for fragments.
    """
    payload = udp() if payload is None else payload
    source, destination = address(src), address(dst)
    if isinstance(payload, Upper):
        proto = payload.protocol if proto is None else proto
        payload = payload.build(source, destination)
    if part is not None:
        payload = payload[part[0] : part[1]]
    options += bytes(-len(options) % 4)
    total = 20 + len(options) + len(payload) if length is None else length
    fragment = reserved << 15 | df << 14 | mf << 13 | offset
    words = (20 + len(options)) // 4 if ihl is None else ihl
    protocol = 17 if proto is None else proto
    head = struct.pack(
        "!BBHHHBBH", version << 4 | words, tos, total, ident, fragment, ttl, protocol, 0
    )
    head += source + destination + options
    value = checksum(head[: max(words * 4, 20)]) if check is None else check
    head = head[:10] + struct.pack("!H", (value + damage) & 0xFFFF) + head[12:]
    return (head + payload + trailer)[:cut]


def ip6(
    src: str,
    dst: str,
    payload: Upper | bytes | None = None,
    *,
    hops: int = 64,
    traffic_class: int = 0,
    label: int = 0,
    extensions: tuple[tuple[int, bytes], ...] = (),
    next_header: int | None = None,
    last_header: int | None = None,
    length: int | None = None,
    version: int = 6,
    trailer: bytes = b"",
    cut: int | None = None,
    part: tuple[int, int] | None = None,
) -> bytes:
    """An IPv6 packet; `extensions` are (number, bytes after the next-header byte) in order.

    `last_header` replaces the number of the payload, `next_header` that in the IPv6 header.
    """
    payload = udp() if payload is None else payload
    source, destination = address(src), address(dst)
    number = 59
    if isinstance(payload, Upper):
        number = payload.protocol
        payload = payload.build(source, destination)
    if part is not None:
        payload = payload[part[0] : part[1]]
    number = number if last_header is None else last_header
    for kind, rest in reversed(extensions):
        payload = bytes([number]) + rest + payload
        number = kind
    number = number if next_header is None else next_header
    size = len(payload) if length is None else length
    first = version << 28 | traffic_class << 20 | label
    head = struct.pack("!IHBB", first, size, number, hops) + source + destination
    return (head + payload + trailer)[:cut]


def hop_by_hop(options: bytes) -> tuple[int, bytes]:
    """A hop-by-hop options header around `options`, padded with PadN as needed."""
    return 0, _option_header(options)


def destination_options(options: bytes) -> tuple[int, bytes]:
    """A destination options header around `options`, padded with PadN as needed."""
    return 60, _option_header(options)


def _option_header(options: bytes) -> bytes:
    pad = -(len(options) + 2) % 8
    options += {0: b"", 1: b"\0"}.get(pad) or (bytes([1, pad - 2]) + bytes(pad - 2) if pad else b"")
    return bytes([(len(options) + 2) // 8 - 1]) + options


def routing(kind: int, left: int, addresses: tuple[str, ...] = ()) -> tuple[int, bytes]:
    """A routing header of type `kind` with `left` segments left."""
    body = b"".join(address(a) for a in addresses)
    return 43, bytes([len(body) // 8, kind, left]) + bytes(4) + body


def fragment_header(offset: int, more: bool, ident: int = 0x12345678) -> tuple[int, bytes]:
    """An IPv6 fragment header; `offset` in units of 8 bytes."""
    return 44, bytes([0]) + struct.pack("!HI", offset << 3 | more, ident)


def eth(
    packet: bytes,
    dst: str = MAC_R0,
    src: str = "02:00:00:00:00:02",
    *,
    kind: int | None = None,
    padding: int = 0,
) -> bytes:
    """An Ethernet frame around `packet`; the type follows its version nibble unless given."""
    if kind is None:
        kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    mac = bytes.fromhex(dst.replace(":", "")) + bytes.fromhex(src.replace(":", ""))
    return mac + struct.pack("!H", kind) + packet + bytes(padding)


# IPv4 options


def record_route(room: int, pointer: int = 4) -> bytes:
    """A record route option (7) with room for `room` addresses."""
    return bytes([7, 3 + 4 * room, pointer]) + bytes(4 * room)


def source_route(kind: int, addresses: tuple[str, ...], pointer: int = 4) -> bytes:
    """A loose (131) or strict (137) source route."""
    return bytes([kind, 3 + 4 * len(addresses), pointer]) + b"".join(map(address, addresses))


def timestamp(flag: int, body: bytes, pointer: int = 5, overflow: int = 0) -> bytes:
    """A timestamp option (68) of type `flag`."""
    return bytes([68, 4 + len(body), pointer, overflow << 4 | flag]) + body


ROUTER_ALERT = b"\x94\x04\x00\x00"
NOOP, END = b"\x01", b"\x00"
