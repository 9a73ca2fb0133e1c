"""IPv6 header fields (RFC 8200), extension headers, and classes of addresses.

An address is two int64 halves, `hi` and `lo`, each holding the 64-bit pattern.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.wire.memory import store8, store16be, store32be, store64be

HEADER = 40
FRAGMENT_HEADER = 8
MORE_FRAGMENTS, FRAGMENT_OFFSET = 1, 0xFFF8
PAYLOAD_LENGTH, NEXT_HEADER, HOP_LIMIT, SOURCE, DESTINATION = 4, 6, 7, 8, 24
NEXTHDR_HOP, NEXTHDR_ROUTING, NEXTHDR_FRAGMENT, NEXTHDR_AUTH, NEXTHDR_NONE, NEXTHDR_DEST = (
    0, 43, 44, 51, 59, 60,
)  # fmt: skip
NEXTHDR_IPV6, NEXTHDR_ESP, NEXTHDR_ICMP, NEXTHDR_MOBILITY = 41, 50, 58, 135
RPL_ROUTING, SEGMENT_ROUTING = 3, 4  # types of routing header
TLV_PAD1, TLV_PADN, TLV_ROUTER_ALERT, TLV_CALIPSO, TLV_IOAM, TLV_JUMBO = 0, 1, 5, 7, 49, 194


@kernel
def store_header6(buf, at, first, length, protocol, hops, src_hi, src_lo, dst_hi, dst_lo):
    """Write an IPv6 header to `buf[at]`; `first` is its first word, `length` that of the payload."""
    store32be(buf, at, first)
    store16be(buf, at + PAYLOAD_LENGTH, length)
    store8(buf, at + NEXT_HEADER, protocol)
    store8(buf, at + HOP_LIMIT, hops)
    store64be(buf, at + SOURCE, src_hi)
    store64be(buf, at + SOURCE + 8, src_lo)
    store64be(buf, at + DESTINATION, dst_hi)
    store64be(buf, at + DESTINATION + 8, dst_lo)


@kernel
def prefix_match(hi, lo, prefix_hi, prefix_lo, plen):
    """Do the first `plen` bits agree?"""
    if plen <= 64:
        return plen == 0 or (hi ^ prefix_hi) >> (64 - plen) == 0
    return hi == prefix_hi and (lo ^ prefix_lo) >> (128 - plen) == 0


@hot
def is_multicast(hi):
    """ff00::/8."""
    return (hi >> 56) & 0xFF == 0xFF


@hot
def multicast_scope(hi):
    """The scope nibble of a multicast address (RFC 4291 section 2.7)."""
    return (hi >> 48) & 0xF


@hot
def is_unspecified(hi, lo):
    """::"""
    return hi == 0 and lo == 0


@hot
def is_loopback(hi, lo):
    """::1"""
    return hi == 0 and lo == 1


@hot
def is_link_local(hi):
    """fe80::/10."""
    return (hi >> 54) & 0x3FF == 0x3FA


@kernel
def is_v4_mapped(hi, lo):
    """::ffff:0:0/96."""
    return hi == 0 and (lo >> 32) & 0xFFFFFFFF == 0xFFFF
