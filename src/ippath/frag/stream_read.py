"""The fragment that a packet of a capture carries: which datagram, which bytes of it.

Mirrors what ip_rcv and ipv6_frag_rcv check before a fragment meets its queue; without a host there is
no device, no route and no answer.
"""

from __future__ import annotations

from ippath.frag.ipv6 import upper_header_missing
from ippath.jit import kernel
from ippath.tables import (
    FM_DST_HI, FM_DST_LO, FM_ID, FM_SRC_HI, FM_SRC_LO, FM_USER, FQDIR_IPV6, FQDIR_POLICY,
    NONE, POLICY_LINUX, SKB_AVAIL, SKB_DEVICE, SKB_END, SKB_IP, SKB_LINK, SKB_NEXTHDR_AT,
    SKB_OUT_DEVICE, SKB_PROTOCOL, SKB_WIRE_END,
)  # fmt: skip
from ippath.wire import ipv6
from ippath.wire.checksum import header_ok
from ippath.wire.ipv4 import (
    DESTINATION, FLAGS_OFFSET, HEADER, IDENTIFICATION, MF, OFFSET_MASK, PROTOCOL, SOURCE, TOS,
    TOTAL_LENGTH, VERSION_IHL,
)  # fmt: skip
from ippath.wire.memory import load8, load16be, load32be, load64be

# what became of a packet
(
    PASSED, ATOMIC, KEPT, JOINED, DUPLICATED, OVERLAPPED, INVALID, REFUSED, FAILED, CUT, DAMAGED,
    IS_FRAGMENT,  # not known yet: it has to meet its queue
) = range(12)  # fmt: skip
MAX_EXTENSIONS = 64


@kernel
def take_up(s, start, size, wire, device):
    """Make the frame at `start` the packet in hand; `wire`: its length before the capture cut it."""
    skb = s.skb
    skb[SKB_LINK], skb[SKB_IP], skb[SKB_END] = start, start, start + size
    skb[SKB_WIRE_END] = start + max(size, wire)
    skb[SKB_DEVICE], skb[SKB_OUT_DEVICE] = NONE, device


@kernel
def _read4(s, data, ip, user):
    skb, fm = s.skb, s.frag_misc
    start, end = skb[SKB_LINK], skb[SKB_END]
    if ip + HEADER > end:
        return CUT if skb[SKB_WIRE_END] > end else PASSED, 0, 0, 0, 0, 0
    fragment = load16be(data, ip + FLAGS_OFFSET) & (MF | OFFSET_MASK)
    if fragment == 0:
        return PASSED, 0, 0, 0, 0, 0
    ihl, total = (load8(data, ip + VERSION_IHL) & 15) * 4, load16be(data, ip + TOTAL_LENGTH)
    if ihl < HEADER or total < ihl or ip + total > skb[SKB_WIRE_END]:
        return DAMAGED, 0, 0, 0, 0, 0
    if ip + ihl > end:
        return CUT, 0, 0, 0, 0, 0
    if not header_ok(data, ip, ihl):
        return DAMAGED, 0, 0, 0, 0, 0
    skb[SKB_AVAIL] = min(end, ip + total) - start
    skb[SKB_PROTOCOL] = load8(data, ip + PROTOCOL)
    fm[FM_USER] = user
    fm[FM_SRC_HI] = fm[FM_DST_HI] = 0
    fm[FM_SRC_LO], fm[FM_DST_LO] = load32be(data, ip + SOURCE), load32be(data, ip + DESTINATION)
    fm[FM_ID] = load16be(data, ip + IDENTIFICATION) << 8 | skb[SKB_PROTOCOL]
    offset = (fragment & OFFSET_MASK) * 8
    header, more = ip + ihl - start, fragment & MF
    return IS_FRAGMENT, header, offset, offset + total - ihl, more, load8(data, ip + TOS)


@kernel
def _find_fragment_header(s, data, ip, total):
    """Offset of the fragment header from the IPv6 header, -1 if there is none, -2 if it is cut off."""
    skb = s.skb
    header, at = load8(data, ip + ipv6.NEXT_HEADER), ipv6.HEADER
    skb[SKB_NEXTHDR_AT] = ipv6.NEXT_HEADER
    for _ in range(MAX_EXTENSIONS):
        walked = (
            header == ipv6.NEXTHDR_HOP
            or header == ipv6.NEXTHDR_ROUTING
            or header == ipv6.NEXTHDR_DEST
        )
        if not walked and header != ipv6.NEXTHDR_FRAGMENT:
            return -1
        if at + 8 > total:
            return -1
        if ip + at + 8 > skb[SKB_END]:
            return -2
        if header == ipv6.NEXTHDR_FRAGMENT:
            return at
        header = load8(data, ip + at)
        skb[SKB_NEXTHDR_AT] = at
        at += (load8(data, ip + at + 1) + 1) * 8
    return -1


@kernel
def _read6(s, data, ip, user):
    skb, fm = s.skb, s.frag_misc
    start, end = skb[SKB_LINK], skb[SKB_END]
    if ip + ipv6.HEADER > end:
        return CUT if skb[SKB_WIRE_END] > end else PASSED, 0, 0, 0, 0, 0
    total = load16be(data, ip + ipv6.PAYLOAD_LENGTH) + ipv6.HEADER
    at = _find_fragment_header(s, data, ip, total)
    if at < 0:
        return CUT if at == -2 else PASSED, 0, 0, 0, 0, 0
    if ip + total > skb[SKB_WIRE_END]:
        return DAMAGED, 0, 0, 0, 0, 0
    word = load16be(data, ip + at + 2)
    offset, more = word & ipv6.FRAGMENT_OFFSET, word & ipv6.MORE_FRAGMENTS
    if offset == 0 and not more:
        return ATOMIC, 0, 0, 0, 0, 0
    skb[SKB_AVAIL] = min(end, ip + total) - start
    skb[SKB_PROTOCOL] = load8(data, ip + at)
    if s.fqdir[FQDIR_IPV6, FQDIR_POLICY] == POLICY_LINUX and upper_header_missing(
        data, ip, total, skb[SKB_AVAIL] - (ip - start)
    ):
        return INVALID, 0, 0, 0, 0, 0
    fm[FM_SRC_HI] = load64be(data, ip + ipv6.SOURCE)
    fm[FM_SRC_LO] = load64be(data, ip + ipv6.SOURCE + 8)
    fm[FM_DST_HI] = load64be(data, ip + ipv6.DESTINATION)
    fm[FM_DST_LO] = load64be(data, ip + ipv6.DESTINATION + 8)
    own = ipv6.is_multicast(fm[FM_DST_HI]) or ipv6.is_link_local(fm[FM_DST_HI])
    fm[FM_USER] = user | ((skb[SKB_OUT_DEVICE] + 1) << 20 if own else 0)
    fm[FM_ID] = load32be(data, ip + at + 4)
    header = at + ipv6.FRAGMENT_HEADER
    tos = load16be(data, ip) >> 4 & 0xFF
    return IS_FRAGMENT, ip + header - start, offset, offset + total - header, more, tos


@kernel
def read_fragment(s, data, six, ip, user):
    """(IS_FRAGMENT or what became of it, bytes before the data, first byte, end, whether more follow, TOS).

    For the packet in hand, whose IP header begins at `ip`; of a fragment the key is in FM_* then.
    """
    if six:
        return _read6(s, data, ip, user)
    return _read4(s, data, ip, user)
