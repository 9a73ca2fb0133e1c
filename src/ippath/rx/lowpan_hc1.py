"""HC1 and HC2, the header compression of RFC 4944 section 10 that RFC 6282 replaced; Linux has it not.

In and out as `ippath.rx.lowpan_iphc`.  Fields that are carried follow each other bit by bit.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.rx.lowpan_iphc import set_lengths
from ippath.tables import (
    LW_AT, LW_BASE, LW_DST, LW_DST_MODE, LW_DST_PAN, LW_END, LW_OUT, LW_SRC, LW_SRC_MODE,
    LW_SRC_PAN, LW_WIRE_END,
)  # fmt: skip
from ippath.wire.ieee802154 import ADDRESS_LONG, ADDRESS_SHORT
from ippath.wire.ipv4 import IPPROTO_TCP, IPPROTO_UDP
from ippath.wire.ipv6 import (
    store_header6, HEADER, NEXTHDR_ICMP,
)  # fmt: skip
from ippath.wire.lowpan import (
    LINK_LOCAL, LW_CUT, LW_NO_ADDRESS, LW_TRUNCATED, PORT_4, fail, fetch8, fetch64, long_iid,
    short_iid,
)  # fmt: skip
from ippath.wire.memory import load8, store16be

# the HC1 encoding: prefix and identifier of both addresses, traffic class, next header, HC2
PREFIX_ELIDED, IDENTIFIER_ELIDED, CLASS_ELIDED, HC2_FOLLOWS = 2, 1, 8, 1
HC2_SOURCE, HC2_DESTINATION, HC2_LENGTH = 0x80, 0x40, 0x20
UDP_HEADER, UDP_LENGTH, UDP_CHECKSUM = 8, 4, 6
PAN_SHIFT = 48


@kernel
def _address(s, data, form, mode, link, pan):
    """(hi, lo): prefix and identifier, each carried, or that of the link."""
    hi = LINK_LOCAL if form & PREFIX_ELIDED else fetch64(data, s.lw)
    if form & IDENTIFIER_ELIDED == 0:
        return hi, fetch64(data, s.lw)
    if mode == ADDRESS_LONG:
        return hi, long_iid(link)
    if mode == ADDRESS_SHORT:  # the PAN id stands in front, its universal bit cleared (section 6)
        shifted = (pan & 0xFDFF) << PAN_SHIFT if pan & 0x8000 == 0 else ((pan & 0xFDFF) - 0x10000) << PAN_SHIFT  # fmt: skip
        return hi, shifted | short_iid(link)
    fail(s.lw, LW_NO_ADDRESS)
    return hi, 0


@kernel
def _bits(s, data, at, count):
    """`count` bits that begin at bit `at` of the frame; 0 if they are not there."""
    lw = s.lw
    end = at + count + 7 >> 3
    if end > lw[LW_END]:
        fail(lw, LW_TRUNCATED if end > lw[LW_WIRE_END] else LW_CUT)
        return 0
    value = 0
    for k in range(at, at + count):
        value = value << 1 | load8(data, k >> 3) >> (7 - (k & 7)) & 1
    return value


@cold
def decompress_hc1(s, data):
    """Rebuild the headers behind an HC1 dispatch; LW_ERROR says whether that went well."""
    lw, buf, at = s.lw, s.lowpan, s.lw[LW_OUT]
    encoding = fetch8(data, lw)
    next_header = encoding >> 1 & 3
    udp = fetch8(data, lw) if encoding & HC2_FOLLOWS and next_header == 1 else 0
    hops = fetch8(data, lw)
    src_hi, src_lo = _address(s, data, encoding >> 6, lw[LW_SRC_MODE], lw[LW_SRC], lw[LW_SRC_PAN])
    dst_hi, dst_lo = _address(
        s, data, encoding >> 4 & 3, lw[LW_DST_MODE], lw[LW_DST], lw[LW_DST_PAN]
    )
    bit, first = lw[LW_AT] * 8, 6 << 28
    if encoding & CLASS_ELIDED == 0:
        first |= _bits(s, data, bit, 28)
        bit += 28
    if next_header == 0:
        protocol = _bits(s, data, bit, 8)
        bit += 8
    else:
        protocol = IPPROTO_UDP if next_header == 1 else (NEXTHDR_ICMP if next_header == 2 else IPPROTO_TCP)  # fmt: skip
    store_header6(buf, at, first, 0, protocol, hops, src_hi, src_lo, dst_hi, dst_lo)
    lw[LW_OUT] = at + HEADER
    if encoding & HC2_FOLLOWS and next_header == 1:
        bit = _hc2_udp(s, data, udp, bit)
    lw[LW_AT] = bit + 7 >> 3
    elided = encoding & HC2_FOLLOWS and udp & HC2_LENGTH
    set_lengths(s, 0, lw[LW_BASE] + HEADER if elided else 0)


@kernel
def _hc2_udp(s, data, encoding, bit):
    """Write the UDP header of HC2; returns the bit behind it."""
    lw, buf = s.lw, s.lowpan
    at, length = lw[LW_OUT], 0
    size = 4 if encoding & HC2_SOURCE else 16
    source = _bits(s, data, bit, size) | (PORT_4 if size == 4 else 0)
    bit += size
    size = 4 if encoding & HC2_DESTINATION else 16
    destination = _bits(s, data, bit, size) | (PORT_4 if size == 4 else 0)
    bit += size
    if encoding & HC2_LENGTH == 0:
        length = _bits(s, data, bit, 16)
        bit += 16
    store16be(buf, at, source)
    store16be(buf, at + 2, destination)
    store16be(buf, at + UDP_LENGTH, length)
    store16be(buf, at + UDP_CHECKSUM, _bits(s, data, bit, 16))
    lw[LW_OUT] = at + UDP_HEADER
    return bit + 16
