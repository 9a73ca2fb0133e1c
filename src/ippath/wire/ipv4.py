"""IPv4 header fields (RFC 791): where each one is, and classes of addresses."""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.wire.memory import store16be, store32be

HEADER = 20
VERSION_IHL, TOS, TOTAL_LENGTH, IDENTIFICATION, FLAGS_OFFSET = 0, 1, 2, 4, 6
TTL, PROTOCOL, CHECKSUM, SOURCE, DESTINATION, OPTIONS = 8, 9, 10, 12, 16, 20
DF, MF, OFFSET_MASK = 0x4000, 0x2000, 0x1FFF
IPPROTO_ICMP, IPPROTO_IGMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6, IPPROTO_UDPLITE = (
    1, 2, 6, 17, 58, 136,
)  # fmt: skip
IPPROTO_IPIP, IPPROTO_DCCP, IPPROTO_IPV6, IPPROTO_GRE, IPPROTO_SCTP = 4, 33, 41, 47, 132
IPOPT_END, IPOPT_NOOP, IPOPT_RR, IPOPT_TIMESTAMP = 0, 1, 7, 68
IPOPT_LSRR, IPOPT_SSRR, IPOPT_RA, IPOPT_CIPSO = 131, 137, 148, 134
IPOPT_COPY = 0x80
LIMITED_BROADCAST = 0xFFFFFFFF


@kernel
def store_header4(buf, at, tos, total, ident, flags, ttl, protocol, source, destination):
    """Write an IPv4 header without options to `buf[at]`; its checksum is still 0."""
    store16be(buf, at, 0x4500 | tos)
    store16be(buf, at + TOTAL_LENGTH, total)
    store16be(buf, at + IDENTIFICATION, ident)
    store16be(buf, at + FLAGS_OFFSET, flags)
    store16be(buf, at + TTL, ttl << 8 | protocol)
    store16be(buf, at + CHECKSUM, 0)
    store32be(buf, at + SOURCE, source)
    store32be(buf, at + DESTINATION, destination)


@hot
def is_multicast(address):
    """224.0.0.0/4."""
    return address >> 28 == 0xE


@hot
def is_local_multicast(address):
    """224.0.0.0/24: never forwarded."""
    return address >> 8 == 0xE00000


@hot
def is_limited_broadcast(address):
    """255.255.255.255."""
    return address == LIMITED_BROADCAST


@hot
def is_zeronet(address):
    """0.0.0.0 alone, as since Linux 5.3."""
    return address == 0


@hot
def is_loopback(address):
    """127.0.0.0/8."""
    return address >> 24 == 127
