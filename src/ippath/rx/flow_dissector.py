"""The flow that a packet belongs to, also inside a tunnel (kernel: net/core/flow_dissector.c).

In:  the packet in hand.   Out: the flow row FLOW_SPARE, and what was found on the way.
Rules by protocol or ports and multipath hashes ask for it.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.tables import (
    FLOW_DPORT, FLOW_DST_HI, FLOW_DST_LO, FLOW_LABEL, FLOW_PROTOCOL, FLOW_SPARE, FLOW_SPORT,
    FLOW_SRC_HI, FLOW_SRC_LO, SKB_AVAIL, SKB_IP,
)  # fmt: skip
from ippath.wire import ipv4, ipv6
from ippath.wire.ether import ETH_P_8021AD, ETH_P_8021Q, ETH_P_IP, ETH_P_IPV6
from ippath.wire.ipv4 import (
    IPPROTO_DCCP, IPPROTO_GRE, IPPROTO_IPIP, IPPROTO_IPV6, IPPROTO_SCTP, IPPROTO_TCP, IPPROTO_UDP,
    IPPROTO_UDPLITE,
)  # fmt: skip
from ippath.wire.ipv6 import (
    NEXTHDR_AUTH, NEXTHDR_DEST, NEXTHDR_ESP, NEXTHDR_FRAGMENT, NEXTHDR_HOP, NEXTHDR_ROUTING,
)  # fmt: skip
from ippath.wire.memory import load8, load16be, load32be, load64be

IN_TUNNEL, FLOW_IS_IPV6 = 1, 2  # what flow_dissect found
MOST_HEADERS = 16  # MAX_FLOW_DISSECT_HDRS, and the first
NOTHING = 0  # no further network header
ETH_P_TEB, ETH_P_PPP = 0x6558, 0x880B
GRE_CHECKSUM, GRE_ROUTING, GRE_KEY, GRE_SEQUENCE, GRE_ACK, GRE_VERSION = (
    0x8000, 0x4000, 0x2000, 0x1000, 0x80, 7,
)  # fmt: skip
PPP_IP, PPP_IPV6 = 0x21, 0x57
_STOP = -1


@kernel
def _network4(data, at, end, flow):
    """Take the addresses of the IPv4 header at `data[at]`; where it ends, or _STOP."""
    if at + ipv4.HEADER > end or load8(data, at) & 15 < 5:
        return _STOP
    flow[FLOW_SRC_HI] = flow[FLOW_DST_HI] = 0
    flow[FLOW_SRC_LO] = load32be(data, at + ipv4.SOURCE)
    flow[FLOW_DST_LO] = load32be(data, at + ipv4.DESTINATION)
    flow[FLOW_PROTOCOL] = load8(data, at + ipv4.PROTOCOL)
    return at + (load8(data, at) & 15) * 4


@kernel
def _network6(data, at, end, flow):
    """Take addresses and label of the IPv6 header at `data[at]`; where it ends, or _STOP."""
    if at + ipv6.HEADER > end:
        return _STOP
    flow[FLOW_SRC_HI] = load64be(data, at + ipv6.SOURCE)
    flow[FLOW_SRC_LO] = load64be(data, at + ipv6.SOURCE + 8)
    flow[FLOW_DST_HI] = load64be(data, at + ipv6.DESTINATION)
    flow[FLOW_DST_LO] = load64be(data, at + ipv6.DESTINATION + 8)
    flow[FLOW_PROTOCOL] = load8(data, at + ipv6.NEXT_HEADER)
    label = load32be(data, at) & 0xFFFFF
    if label:  # without one that of a tunnel around it stays
        flow[FLOW_LABEL] = label
    return at + ipv6.HEADER


@kernel
def _is_skipped(protocol):
    """Is it an extension header that the dissector goes past?"""
    return protocol == NEXTHDR_HOP or protocol == NEXTHDR_ROUTING or protocol == NEXTHDR_DEST


@kernel
def _past_extensions(data, at, end, flow, passes):
    """Go past the extension headers; (where the next header is or _STOP, passes left)."""
    while _is_skipped(flow[FLOW_PROTOCOL]):
        if at + 2 > end:
            return _STOP, passes
        flow[FLOW_PROTOCOL], size = load8(data, at), (load8(data, at + 1) + 1) * 8
        at += size
        passes -= 1
        if passes == 0:
            return _STOP, passes
    if flow[FLOW_PROTOCOL] == NEXTHDR_FRAGMENT:
        if at + ipv6.FRAGMENT_HEADER <= end:
            flow[FLOW_PROTOCOL] = load8(data, at)
        return _STOP, passes  # a first fragment's ports do not count either
    return at, passes


@kernel
def _inside_gre(data, at, end):
    """(kind of what the GRE header at `data[at]` carries, where that is), or (NOTHING, _STOP).

    Enhanced GRE carries PPP (RFC 2637); Ethernet frames may have VLAN tags.
    """
    if at + 4 > end:
        return NOTHING, _STOP
    flags, kind = load16be(data, at), load16be(data, at + 2)
    version = flags & GRE_VERSION
    if flags & GRE_ROUTING or version > 1:
        return NOTHING, _STOP
    if version == 1 and not (kind == ETH_P_PPP and flags & GRE_KEY):
        return NOTHING, _STOP
    at += 4
    for optional in (GRE_CHECKSUM, GRE_KEY, GRE_SEQUENCE):
        if flags & optional:
            at += 4
    if version == 1:
        if flags & GRE_ACK:
            at += 4
        if at + 4 > end:
            return NOTHING, _STOP
        protocol = load16be(data, at + 2)
        kind = ETH_P_IP if protocol == PPP_IP else (ETH_P_IPV6 if protocol == PPP_IPV6 else kind)
        return kind, at + 4
    if kind == ETH_P_TEB:
        if at + 14 > end:
            return NOTHING, _STOP
        kind = load16be(data, at + 12)
        at += 14
    while (kind == ETH_P_8021Q or kind == ETH_P_8021AD) and at + 4 <= end:
        kind = load16be(data, at + 2)
        at += 4
    return kind, at


@kernel
def _take_ports(data, at, end, flow):
    """Take the ports, or what passes for them (kernel: skb_flow_get_ports)."""
    protocol = flow[FLOW_PROTOCOL]
    if protocol == NEXTHDR_AUTH:
        at += 4
    elif not (
        protocol == IPPROTO_TCP
        or protocol == IPPROTO_UDP
        or protocol == IPPROTO_UDPLITE
        or protocol == IPPROTO_SCTP
        or protocol == IPPROTO_DCCP
        or protocol == NEXTHDR_ESP
    ):
        return
    if at + 4 <= end:
        flow[FLOW_SPORT] = load16be(data, at)
        flow[FLOW_DPORT] = load16be(data, at + 2)


@cold
def flow_dissect(s, data, family6, at_tunnel):
    """Find the flow of the packet in hand: addresses, label, protocol and ports in FLOW_SPARE.

    `at_tunnel`: stop at a tunnel (FLOW_DISSECTOR_F_STOP_AT_ENCAP).  Returns IN_TUNNEL if there is
    one, and FLOW_IS_IPV6 if that is what the addresses are.
    """
    flow = s.flow[FLOW_SPARE]
    at = s.skb[SKB_IP]
    end = at + s.skb[SKB_AVAIL]
    flow[FLOW_LABEL] = flow[FLOW_PROTOCOL] = flow[FLOW_SPORT] = flow[FLOW_DPORT] = 0
    kind, found, passes = ETH_P_IPV6 if family6 else ETH_P_IP, 0, MOST_HEADERS
    while passes > 0:
        start = at
        if kind == ETH_P_IPV6:
            at = _network6(data, at, end, flow)
            if at != _STOP:
                found |= FLOW_IS_IPV6
                at, passes = _past_extensions(data, at, end, flow, passes)
        elif kind == ETH_P_IP:
            at = _network4(data, at, end, flow)
            if at != _STOP:
                found &= ~FLOW_IS_IPV6
                if load16be(data, start + ipv4.FLAGS_OFFSET) & (ipv4.MF | ipv4.OFFSET_MASK):
                    return found
        else:
            return found
        if at == _STOP:
            return found
        protocol = flow[FLOW_PROTOCOL]
        if protocol == IPPROTO_IPIP or protocol == IPPROTO_IPV6:
            kind = ETH_P_IP if protocol == IPPROTO_IPIP else ETH_P_IPV6
        elif protocol == IPPROTO_GRE:
            kind, at = _inside_gre(data, at, end)
            if at == _STOP:
                return found
        else:
            _take_ports(data, at, end, flow)
            return found
        found |= IN_TUNNEL
        if at_tunnel:
            return found
        passes -= 1
    return found


@cold
def dissect_upper(s, data, flow, family6):
    """Fill protocol and ports of a flow, for rules that ask for them.

    Kernel: fib4_rules_early_flow_dissect, fib6_rules_early_flow_dissect.
    """
    flow_dissect(s, data, family6, True)
    spare = s.flow[FLOW_SPARE]
    flow[FLOW_PROTOCOL] = spare[FLOW_PROTOCOL]
    flow[FLOW_SPORT], flow[FLOW_DPORT] = spare[FLOW_SPORT], spare[FLOW_DPORT]
