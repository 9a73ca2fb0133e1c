"""Where the upper layer of an IPv6 packet begins, and its ports (kernel: ipv6_skip_exthdr,
__skb_flow_dissect).
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.tables import FLOW_DPORT, FLOW_PROTOCOL, FLOW_SPORT, SKB_AVAIL, SKB_IP
from ippath.wire.ipv4 import IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE
from ippath.wire.ipv6 import (
    HEADER, NEXTHDR_AUTH, NEXTHDR_DEST, NEXTHDR_ESP, NEXTHDR_FRAGMENT, NEXTHDR_HOP, NEXTHDR_NONE,
    NEXTHDR_ROUTING, NEXT_HEADER,
)  # fmt: skip
from ippath.wire.memory import load8, load16be

MAX_EXTENSIONS = 1 << 13  # as many as fit into a packet
MOST_DISSECTED = 16  # MAX_FLOW_DISSECT_HDRS, and the first
IPPROTO_DCCP, IPPROTO_SCTP = 33, 132


@kernel
def is_extension(header):
    """Is it an extension header that can be skipped (kernel: ipv6_ext_hdr, without NEXTHDR_NONE)?"""
    return (
        header == NEXTHDR_HOP
        or header == NEXTHDR_ROUTING
        or header == NEXTHDR_FRAGMENT
        or header == NEXTHDR_AUTH
        or header == NEXTHDR_DEST
    )


@kernel
def skip_extensions(data, ip, available):
    """(upper protocol, its offset, offset and flags of the fragment) of the packet at `data[ip]`.

    Offsets count from the IPv6 header; -1 where the chain runs out of the `available` bytes.  A
    later fragment ends at its fragment header (kernel: ipv6_skip_exthdr).
    """
    header, at = load8(data, ip + NEXT_HEADER), HEADER
    fragment = 0
    for _ in range(MAX_EXTENSIONS):
        if header == NEXTHDR_NONE:
            break
        if not is_extension(header):
            return header, at, fragment
        if at + (4 if header == NEXTHDR_FRAGMENT else 2) > available:
            break
        size = 8
        if header == NEXTHDR_FRAGMENT:
            fragment = load16be(data, ip + at + 2)
            if fragment & ~7:
                return header, at, fragment
        elif header == NEXTHDR_AUTH:
            size = (load8(data, ip + at + 1) + 2) * 4
        else:
            size = (load8(data, ip + at + 1) + 1) * 8
        header = load8(data, ip + at)
        at += size
    return header, -1, fragment


@kernel
def _has_ports(protocol):
    """Do the ports, or what passes for them, come first (kernel: skb_flow_get_ports)?"""
    return (
        protocol == IPPROTO_TCP
        or protocol == IPPROTO_UDP
        or protocol == IPPROTO_UDPLITE
        or protocol == IPPROTO_SCTP
        or protocol == IPPROTO_DCCP
        or protocol == NEXTHDR_ESP
    )


@cold
def dissect6(s, data, flow):
    """Fill protocol and ports of the packet in hand; any fragment header hides the ports."""
    ip, available = s.skb[SKB_IP], s.skb[SKB_AVAIL]
    flow[FLOW_SPORT] = 0
    flow[FLOW_DPORT] = 0
    header, at = load8(data, ip + NEXT_HEADER), HEADER
    for _ in range(MOST_DISSECTED):
        if header != NEXTHDR_HOP and header != NEXTHDR_ROUTING and header != NEXTHDR_DEST:
            break
        if at + 2 > available:
            break
        size = (load8(data, ip + at + 1) + 1) * 8
        header = load8(data, ip + at)
        at += size
    if header == NEXTHDR_FRAGMENT and at + 8 <= available:
        flow[FLOW_PROTOCOL] = load8(data, ip + at)
        return
    flow[FLOW_PROTOCOL] = header
    if header == NEXTHDR_AUTH:
        at += 4
    elif not _has_ports(header):
        return
    if at + 4 <= available:
        flow[FLOW_SPORT] = load16be(data, ip + at)
        flow[FLOW_DPORT] = load16be(data, ip + at + 2)
