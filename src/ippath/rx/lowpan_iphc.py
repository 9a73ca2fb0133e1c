"""From compressed headers to an IPv6 packet (RFC 6282; kernel: lowpan_header_decompress).

In:  the frame in LW_*, with LW_AT at the first byte of LOWPAN_IPHC.
Out: the headers in `State.lowpan` from LW_BASE to LW_OUT, LW_AT at the payload; or LW_ERROR.

With LW_STRICT as Linux: of next headers it knows UDP with its checksum, and a context is looked up
even where the address needs none.  Else all that the RFC allows.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.tables import (
    CONTEXT_HI, CONTEXT_LO, CONTEXT_PLEN, LW_AT, LW_BASE, LW_CHECKSUM, LW_DST, LW_DST_MODE, LW_END,
    LW_ERROR, LW_OUT, LW_SIZE, LW_SRC, LW_SRC_MODE, LW_STRICT, LW_WIRE_END, NONE,
)  # fmt: skip
from ippath.wire.checksum import pseudo6, transport
from ippath.wire.ieee802154 import ADDRESS_LONG, ADDRESS_SHORT
from ippath.wire.ipv4 import IPPROTO_UDP
from ippath.wire.ipv6 import (
    store_header6, DESTINATION, HEADER, NEXTHDR_DEST, NEXTHDR_FRAGMENT, NEXTHDR_HOP, NEXTHDR_IPV6,
    NEXTHDR_MOBILITY, NEXTHDR_ROUTING, NEXT_HEADER, PAYLOAD_LENGTH, SOURCE, TLV_PADN,
)  # fmt: skip
from ippath.wire.lowpan import (
    EID_DEST, EID_FRAGMENT, EID_HOP, EID_IPV6, EID_MOBILITY, EID_ROUTING, IPHC_CID, IPHC_DAC,
    IPHC_DAM, IPHC_HLIM, IPHC_M, IPHC_NH, IPHC_SAC, IPHC_SAM, IPHC_TF, LINK_LOCAL, LW_FINE,
    LW_NEXT_HEADER, LW_NO_ADDRESS, LW_NO_CHECKSUM, LW_NO_CONTEXT, LW_RESERVED, LW_TOO_LONG,
    NHC_EXTENSION, NHC_EXTENSION_MASK, NHC_EXTENSION_NH, NHC_UDP, NHC_UDP_MASK,
    NHC_UDP_NO_CHECKSUM, PORT_4, PORT_8, advance, fail, fetch8, fetch16, fetch32, fetch64,
    long_iid, short_iid,
)  # fmt: skip
from ippath.wire.memory import copy, load64be, store8, store16be

UDP_HEADER, UDP_LENGTH, UDP_CHECKSUM = 8, 4, 6
FRAGMENT_REST = 6  # bytes of a fragment header behind its next header and its reserved byte
LARGEST_PAYLOAD = 65535
MOST_HEADERS = 16


@kernel
def _traffic_class(s, data, form):
    """Version, traffic class and flow label as the first word of the IPv6 header."""
    ecn = dscp = flow = 0
    if form == 0:
        word = fetch32(data, s.lw)
        ecn, dscp, flow = word >> 30, word >> 24 & 63, word & 0xFFFFF
    elif form == 1:
        word = fetch8(data, s.lw) << 16
        word |= fetch16(data, s.lw)
        ecn, flow = word >> 22, word & 0xFFFFF
    elif form == 2:
        word = fetch8(data, s.lw)
        ecn, dscp = word >> 6, word & 63
    return 6 << 28 | dscp << 22 | ecn << 20 | flow


@kernel
def _hop_limit(s, data, form):
    if form == 0:
        return fetch8(data, s.lw)
    return 1 if form == 1 else (64 if form == 2 else 255)


@kernel
def _link_iid(s, mode, address):
    """The interface identifier that follows from a link-level address."""
    if mode == ADDRESS_SHORT:
        return short_iid(address)
    if mode == ADDRESS_LONG:
        return long_iid(address)
    fail(s.lw, LW_NO_ADDRESS)
    return 0


@kernel
def _is_active(s, context):
    """Is the context known here?"""
    if s.context[context, CONTEXT_PLEN] == NONE:
        fail(s.lw, LW_NO_CONTEXT)
        return False
    return True


@kernel
def under_prefix(s, context, hi, lo):
    """The address with its first bits replaced by those of a context."""
    row = s.context[context]
    plen = row[CONTEXT_PLEN]
    upper = -1 if plen >= 64 else (0 if plen == 0 else -1 << (64 - plen))
    lower = -1 if plen >= 128 else (0 if plen <= 64 else -1 << (128 - plen))
    return row[CONTEXT_HI] & upper | hi & ~upper, row[CONTEXT_LO] & lower | lo & ~lower


@kernel
def _unicast(s, data, stateful, form, context, mode, link):
    """(hi, lo) of a source, or of a destination that is no group (RFC 6282 section 3.1.1)."""
    needs_context = stateful and (form != 0 or s.lw[LW_STRICT] != 0)
    if needs_context and not _is_active(s, context):
        return 0, 0
    if form == 0:
        if stateful:
            return 0, 0
        hi = fetch64(data, s.lw)
        return hi, fetch64(data, s.lw)
    if form == 1:
        lo = fetch64(data, s.lw)
    elif form == 2:
        lo = short_iid(fetch16(data, s.lw))
    else:
        lo = _link_iid(s, mode, link)
    if stateful:
        return under_prefix(s, context, 0, lo)
    return LINK_LOCAL, lo


@kernel
def _group(s, data, stateful, form, context):
    """(hi, lo) of a multicast destination (RFC 6282 sections 3.1.1 and 3.2.4, RFC 3306)."""
    lw = s.lw
    if stateful:
        if form != 0 and lw[LW_STRICT] == 0:
            fail(lw, LW_RESERVED)
        if not _is_active(s, context):
            return 0, 0
        plen = s.context[context, CONTEXT_PLEN]
        prefix, _ = under_prefix(s, context, 0, 0)
        first = fetch16(data, lw)
        hi = ((0xFF0000 | first) - 0x1000000) << 40 | plen << 32 | prefix >> 32 & 0xFFFFFFFF
        return hi, prefix << 32 | fetch32(data, lw)
    if form == 0:
        hi = fetch64(data, lw)
        return hi, fetch64(data, lw)
    if form == 3:
        return (0xFF02 - 0x10000) << 48, fetch8(data, lw)
    hi = ((0xFF00 | fetch8(data, lw)) - 0x10000) << 48
    lo = fetch8(data, lw)
    if form == 1:
        return hi, lo << 32 | fetch32(data, lw)
    return hi, lo << 16 | fetch16(data, lw)


@kernel
def _ip_header(s, data, from_mode, from_link, to_mode, to_link):
    """Write one IPv6 header, but for its lengths; returns whether its next header is compressed."""
    lw, buf = s.lw, s.lowpan
    at = lw[LW_OUT]
    base = fetch16(data, lw)
    contexts = fetch8(data, lw) if base & IPHC_CID else 0
    first = _traffic_class(s, data, base >> IPHC_TF & 3)
    protocol = 0 if base & IPHC_NH else fetch8(data, lw)
    hops = _hop_limit(s, data, base >> IPHC_HLIM & 3)
    src_hi, src_lo = _unicast(
        s, data, base & IPHC_SAC, base >> IPHC_SAM & 3, contexts >> 4, from_mode, from_link
    )
    stateful, form = base & IPHC_DAC, base >> IPHC_DAM & 3
    if base & IPHC_M:
        dst_hi, dst_lo = _group(s, data, stateful, form, contexts & 15)
    else:
        if stateful and form == 0 and lw[LW_STRICT] == 0:
            fail(lw, LW_RESERVED)
        dst_hi, dst_lo = _unicast(s, data, stateful, form, contexts & 15, to_mode, to_link)
    store_header6(buf, at, first, 0, protocol, hops, src_hi, src_lo, dst_hi, dst_lo)
    lw[LW_OUT] = at + HEADER
    return base & IPHC_NH != 0


@kernel
def _udp(s, data, encoding, ip):
    """Write a UDP header, but for its length."""
    lw, buf = s.lw, s.lowpan
    at, ports = lw[LW_OUT], encoding & 3
    if ports == 3:
        both = fetch8(data, lw)
        sport, dport = PORT_4 | both >> 4, PORT_4 | both & 15
    else:
        sport = PORT_8 | fetch8(data, lw) if ports == 2 else fetch16(data, lw)
        dport = PORT_8 | fetch8(data, lw) if ports == 1 else fetch16(data, lw)
    check = 0
    if encoding & NHC_UDP_NO_CHECKSUM:
        if lw[LW_STRICT]:
            fail(lw, LW_NO_CHECKSUM)
        lw[LW_CHECKSUM] = (ip - lw[LW_BASE]) << 16 | (at - lw[LW_BASE])
    else:
        check = fetch16(data, lw)
    store16be(buf, at, sport)
    store16be(buf, at + 2, dport)
    store16be(buf, at + UDP_LENGTH, 0)
    store16be(buf, at + UDP_CHECKSUM, check)
    lw[LW_OUT] = at + UDP_HEADER


@kernel
def _extension_protocol(kind):
    """The next header value of an extension header by its EID, or NONE."""
    if kind == EID_HOP:
        return NEXTHDR_HOP
    if kind == EID_ROUTING:
        return NEXTHDR_ROUTING
    if kind == EID_FRAGMENT:
        return NEXTHDR_FRAGMENT
    if kind == EID_DEST:
        return NEXTHDR_DEST
    return NEXTHDR_MOBILITY if kind == EID_MOBILITY else NONE


@kernel
def _extension(s, data, encoding, protocol):
    """Write an extension header, padded to whole units of 8 bytes (RFC 6282 section 4.2)."""
    lw, buf = s.lw, s.lowpan
    at = lw[LW_OUT]
    store8(buf, at, 0 if encoding & NHC_EXTENSION_NH else fetch8(data, lw))
    count = fetch8(data, lw)
    begin = advance(lw, count)
    if begin < 0:
        return
    padding = -(2 + count) & 7
    options = protocol == NEXTHDR_HOP or protocol == NEXTHDR_DEST
    if padding and not options or protocol == NEXTHDR_FRAGMENT and count != FRAGMENT_REST:
        fail(lw, LW_NEXT_HEADER)
        return
    end = at + 2 + count + padding
    store8(buf, at + 1, 0 if protocol == NEXTHDR_FRAGMENT else (end - at) // 8 - 1)
    copy(buf, at + 2, data, begin, count)
    for k in range(at + 2 + count, end):
        store8(buf, k, 0)
    if padding > 1:  # one byte of zero is Pad1
        store8(buf, end - padding, TLV_PADN)
        store8(buf, end - padding + 1, padding - 2)
    lw[LW_OUT] = end


@kernel
def set_lengths(s, inner, udp):
    """Write the lengths, which follow from that of the datagram."""
    lw, buf = s.lw, s.lowpan
    base = lw[LW_BASE]
    total = lw[LW_SIZE]
    if total == 0:
        total = lw[LW_OUT] - base + lw[LW_WIRE_END] - lw[LW_AT]
    if total - HEADER > LARGEST_PAYLOAD:
        fail(lw, LW_TOO_LONG)
    store16be(buf, base + PAYLOAD_LENGTH, total - HEADER)
    if inner:
        store16be(buf, inner + PAYLOAD_LENGTH, base + total - inner - HEADER)
    if udp:
        store16be(buf, udp + UDP_LENGTH, base + total - udp)


@cold
def decompress(s, data):
    """Rebuild the headers of the packet in hand; LW_ERROR says whether that went well."""
    lw, buf = s.lw, s.lowpan
    ip = lw[LW_BASE]
    lw[LW_OUT], lw[LW_CHECKSUM] = ip, 0
    inner = udp = 0
    compressed = _ip_header(s, data, lw[LW_SRC_MODE], lw[LW_SRC], lw[LW_DST_MODE], lw[LW_DST])
    field = ip + NEXT_HEADER
    for _ in range(MOST_HEADERS):
        if not compressed or lw[LW_ERROR] != LW_FINE:
            break
        encoding = fetch8(data, lw)
        kind = encoding >> 1 & 7
        protocol = _extension_protocol(kind)
        if encoding & NHC_UDP_MASK == NHC_UDP:
            store8(buf, field, IPPROTO_UDP)
            udp = lw[LW_OUT]
            _udp(s, data, encoding, ip)
            compressed = False
        elif encoding & NHC_EXTENSION_MASK != NHC_EXTENSION or lw[LW_STRICT] or inner and protocol == NONE:  # fmt: skip
            fail(lw, LW_NEXT_HEADER)
        elif protocol != NONE:
            store8(buf, field, protocol)
            field = lw[LW_OUT]
            _extension(s, data, encoding, protocol)
            compressed = encoding & NHC_EXTENSION_NH != 0
        elif kind == EID_IPV6:
            store8(buf, field, NEXTHDR_IPV6)
            inner = lw[LW_OUT]
            # elided identifiers are those of the packet around it
            compressed = _ip_header(
                s, data, ADDRESS_LONG, long_iid(load64be(buf, ip + SOURCE + 8)),
                ADDRESS_LONG, long_iid(load64be(buf, ip + DESTINATION + 8)),
            )  # fmt: skip
            ip = inner
            field = ip + NEXT_HEADER
        else:
            fail(lw, LW_NEXT_HEADER)
    if compressed:  # more headers than anybody sends
        fail(lw, LW_NEXT_HEADER)
    set_lengths(s, inner, udp)


@kernel
def copy_rest(s, data):
    """Copy what follows the headers; returns (bytes of the packet, bytes of it that were captured)."""
    lw = s.lw
    out, at = lw[LW_OUT], lw[LW_AT]
    there = max(0, lw[LW_END] - at)
    copy(s.lowpan, out, data, at, there)
    made = out - lw[LW_BASE]
    return made + lw[LW_WIRE_END] - at, made + there


@cold
def fill_checksum(s, base, places, length, there):
    """Compute the UDP checksum that the sender left out; `places` is LW_CHECKSUM of its headers."""
    buf = s.lowpan
    ip, udp = base + (places >> 16), base + (places & 0xFFFF)
    check = 0xFFFF  # right, for all that is known, where the capture was cut
    count = base + length - udp
    if there == length and count >= UDP_HEADER:
        store16be(buf, udp + UDP_CHECKSUM, 0)
        check = transport(buf, udp, count, pseudo6(buf, ip, IPPROTO_UDP, count))
    store16be(buf, udp + UDP_CHECKSUM, 0xFFFF if check == 0 else check)
