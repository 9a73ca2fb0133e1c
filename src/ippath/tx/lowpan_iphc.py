"""Header compression on the way out (RFC 6282; kernel: lowpan_header_compress).

The shortest exact form of each field, as Linux chooses it; what `ippath.rx.lowpan_iphc` rebuilds.
With LW_STRICT a destination of the link is compressed only where the source looks like one, too,
as in the kernel.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.rx.lowpan_iphc import under_prefix
from ippath.tables import (
    CONTEXTS, CONTEXT_HI, CONTEXT_LO, CONTEXT_PLEN, LOWPAN_SENT, LW_STRICT, NONE,
)  # fmt: skip
from ippath.wire.ipv4 import IPPROTO_UDP
from ippath.wire.ipv6 import (
    DESTINATION, HEADER, HOP_LIMIT, NEXT_HEADER, SOURCE, is_multicast, prefix_match,
)  # fmt: skip
from ippath.wire.lowpan import (
    DISPATCH_IPHC, IPHC_CID, IPHC_DAC, IPHC_DAM, IPHC_HLIM, IPHC_M, IPHC_NH, IPHC_SAC, IPHC_SAM,
    IPHC_TF, LINK_LOCAL, NHC_UDP, PORT_4, PORT_8, long_iid, short_iid,
)  # fmt: skip
from ippath.wire.memory import (
    load8,
    load16be,
    load32be,
    load64be,
    store8,
    store16be,
    store32be,
    store64be,
)

UDP_HEADER, UDP_CHECKSUM = 8, 6
ALL_NODES_HI = (0xFF02 - 0x10000) << 48  # ff02::/64
LOW_54 = (1 << 54) - 1


@kernel
def _context_of(s, hi, lo):
    """The active context with the longest prefix of an address, or NONE."""
    found, longest = NONE, -1
    for k in range(CONTEXTS):
        row = s.context[k]
        plen = row[CONTEXT_PLEN]
        if plen > longest and prefix_match(hi, lo, row[CONTEXT_HI], row[CONTEXT_LO], plen):
            found, longest = k, plen
    return found


@kernel
def _group_context(s, hi, lo):
    """The context of a group that is based on a unicast prefix (RFC 3306), or NONE."""
    for k in range(CONTEXTS):
        plen = s.context[k, CONTEXT_PLEN]
        if plen != NONE and hi >> 32 & 0xFF == plen:
            prefix, _ = under_prefix(s, k, 0, 0)
            if (hi & 0xFFFFFFFF) == (prefix >> 32 & 0xFFFFFFFF) and (lo >> 32 & 0xFFFFFFFF) == (prefix & 0xFFFFFFFF):  # fmt: skip
                return k
    return NONE


@kernel
def _identifier(s, at, context, hi, lo, link):
    """Write what a prefix known to both leaves of an address; returns (form, next byte)."""
    for form in (3, 2):
        iid = long_iid(link) if form == 3 else short_iid(lo & 0xFFFF)
        base, low = LINK_LOCAL, iid
        if context != NONE:
            base, low = under_prefix(s, context, 0, iid)
        if base == hi and low == lo:
            if form == 2:
                store16be(s.lowpan, at, lo)
                return 2, at + 2
            return 3, at
    store64be(s.lowpan, at, lo)
    return 1, at + 8


@kernel
def _whole_address(s, at, hi, lo):
    store64be(s.lowpan, at, hi)
    store64be(s.lowpan, at + 8, lo)
    return at + 16


@kernel
def _group(s, at, context, hi, lo):
    """Write a multicast destination; returns (its bits of IPHC, next byte)."""
    buf = s.lowpan
    if context != NONE:
        store16be(buf, at, hi >> 40)
        store32be(buf, at + 2, lo)
        return IPHC_M | IPHC_DAC, at + 6
    if hi == ALL_NODES_HI and lo >> 8 == 0:
        store8(buf, at, lo)
        return IPHC_M | 3 << IPHC_DAM, at + 1
    if hi & (1 << 48) - 1 or lo >> 40:
        return IPHC_M, _whole_address(s, at, hi, lo)
    store8(buf, at, hi >> 48)
    if lo >> 24 == 0:
        store8(buf, at + 1, lo >> 16)
        store16be(buf, at + 2, lo)
        return IPHC_M | 2 << IPHC_DAM, at + 4
    store8(buf, at + 1, lo >> 32)
    store32be(buf, at + 2, lo)
    return IPHC_M | 1 << IPHC_DAM, at + 6


@kernel
def _traffic_class(s, at, first):
    """Write traffic class and flow label; returns (form, next byte)."""
    buf, tos, flow = s.lowpan, first >> 20 & 0xFF, first & 0xFFFFF
    turned = (tos & 3) << 6 | tos >> 2  # ECN first
    if flow == 0:
        if tos == 0:
            return 3, at
        store8(buf, at, turned)
        return 2, at + 1
    if tos >> 2 == 0:
        store8(buf, at, turned | flow >> 16)
        store16be(buf, at + 1, flow)
        return 1, at + 3
    store32be(buf, at, turned << 24 | flow)
    return 0, at + 4


@kernel
def _udp(s, at, buf, udp):
    """Write a UDP header; returns the next byte."""
    out, sport, dport = s.lowpan, load16be(buf, udp), load16be(buf, udp + 2)
    if sport & 0xFFF0 == PORT_4 and dport & 0xFFF0 == PORT_4:
        store8(out, at, NHC_UDP | 3)
        store8(out, at + 1, (sport & 15) << 4 | dport & 15)
        at += 2
    elif dport & 0xFF00 == PORT_8:
        store8(out, at, NHC_UDP | 1)
        store16be(out, at + 1, sport)
        store8(out, at + 3, dport)
        at += 4
    elif sport & 0xFF00 == PORT_8:
        store8(out, at, NHC_UDP | 2)
        store8(out, at + 1, sport)
        store16be(out, at + 2, dport)
        at += 4
    else:
        store8(out, at, NHC_UDP)
        store16be(out, at + 1, sport)
        store16be(out, at + 3, dport)
        at += 5
    store16be(out, at, load16be(buf, udp + UDP_CHECKSUM))
    return at + 2


@cold
def compress(s, buf, ip, kept, from_link, to_link):
    """Compress the headers of the packet at `buf[ip]`, of which `kept` bytes are there, 40 at least.

    They are written to `State.lowpan` from LOWPAN_SENT on; returns (their bytes, bytes that they
    stand for).  The links are EUI-64s.
    """
    first, protocol, hops = (
        load32be(buf, ip),
        load8(buf, ip + NEXT_HEADER),
        load8(buf, ip + HOP_LIMIT),
    )
    src_hi, src_lo = load64be(buf, ip + SOURCE), load64be(buf, ip + SOURCE + 8)
    dst_hi, dst_lo = load64be(buf, ip + DESTINATION), load64be(buf, ip + DESTINATION + 8)
    group = is_multicast(dst_hi)
    source, target = _context_of(s, src_hi, src_lo), NONE
    target = _group_context(s, dst_hi, dst_lo) if group else _context_of(s, dst_hi, dst_lo)
    contexts = max(0, source) << 4 | max(0, target)
    at = LOWPAN_SENT + 2
    base = DISPATCH_IPHC << 8
    if contexts:
        base |= IPHC_CID
        store8(s.lowpan, at, contexts)
        at += 1
    form, at = _traffic_class(s, at, first)
    base |= form << IPHC_TF
    udp = protocol == IPPROTO_UDP and kept >= HEADER + UDP_HEADER
    if udp:
        base |= IPHC_NH
    else:
        store8(s.lowpan, at, protocol)
        at += 1
    if hops == 1 or hops == 64 or hops == 255:
        base |= (1 if hops == 1 else (2 if hops == 64 else 3)) << IPHC_HLIM
    else:
        store8(s.lowpan, at, hops)
        at += 1
    if src_hi == 0 and src_lo == 0:
        base |= IPHC_SAC
    elif source != NONE or src_hi == LINK_LOCAL:
        form, at = _identifier(s, at, source, src_hi, src_lo, from_link)
        base |= form << IPHC_SAM | (IPHC_SAC if source != NONE else 0)
    else:
        at = _whole_address(s, at, src_hi, src_lo)
    if group:
        form, at = _group(s, at, target, dst_hi, dst_lo)
        base |= form
    elif target != NONE or dst_hi == LINK_LOCAL and (s.lw[LW_STRICT] == 0 or src_hi & LOW_54 == 0):
        form, at = _identifier(s, at, target, dst_hi, dst_lo, to_link)
        base |= form << IPHC_DAM | (IPHC_DAC if target != NONE else 0)
    else:
        at = _whole_address(s, at, dst_hi, dst_lo)
    store16be(s.lowpan, LOWPAN_SENT, base)
    if udp:
        at = _udp(s, at, buf, ip + HEADER)
    return at - LOWPAN_SENT, HEADER + UDP_HEADER if udp else HEADER
