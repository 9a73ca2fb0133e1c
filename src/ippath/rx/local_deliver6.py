"""IPv6 local delivery: extension headers, then the protocol (kernel: ip6_input, ip6_mc_input,
ip6_protocol_deliver_rcu).

Drops: IP_INADDRERRORS (group not joined), IP_NOPROTO, and those of the headers and of reassembly.
Unsupported: SEGMENT_ROUTING.
"""

from __future__ import annotations

from ippath.fib.local import has_joined
from ippath.handles import as_arena
from ippath.jit import cold, hot, kernel
from ippath.mib import (
    M_Ip6InDelivers, M_Ip6InDiscards, M_Ip6InMcastOctets, M_Ip6InMcastPkts,
    M_Ip6InUnknownProtos,
)  # fmt: skip
from ippath.reasons import R_IP_INADDRERRORS, R_IP_NOPROTO, R_NOT_SPECIFIED
from ippath.rx.exthdr import destination_options, fragment_header, routing_header
from ippath.rx.exthdr_core import MAX_EXTENSIONS
from ippath.rx.icmpv6_input import icmpv6_rcv
from ippath.rx.icmpv6_send import icmp6_send
from ippath.rx.local_deliver4 import has_handler
from ippath.rx.packet import CONTINUE, DONE, REASSEMBLED, count, deliver, drop
from ippath.tables import (
    CONF_PROTOCOLS6_0, SKB_AVAIL, SKB_DEVICE, SKB_DST_HI, SKB_DST_LO, SKB_IP, SKB_LEN,
    SKB_NEXTHDR_AT, SKB_PROTOCOL, SKB_TRANSPORT,
)  # fmt: skip
from ippath.trace import T_DELIVER, T_MCAST6, note
from ippath.udp.receive import udp_rcv
from ippath.wire.icmp import (
    ICMP6_PARAMETER_PROBLEM, MLD2_REPORT, MLD_QUERY, MLD_REDUCTION, MLD_REPORT,
    UNKNOWN_NEXT_HEADER,
)  # fmt: skip
from ippath.wire.ipv4 import IPPROTO_UDP, IPPROTO_UDPLITE
from ippath.wire.ipv6 import (
    NEXTHDR_DEST, NEXTHDR_FRAGMENT, NEXTHDR_HOP, NEXTHDR_ICMP, NEXTHDR_NONE, NEXTHDR_ROUTING,
    is_multicast,
)  # fmt: skip
from ippath.wire.memory import load8


@kernel
def _is_mld(s, data):
    """Multicast listener discovery, which is heard without membership (kernel: ipv6_is_mld)."""
    skb = s.skb
    at = skb[SKB_TRANSPORT]
    if skb[SKB_PROTOCOL] != NEXTHDR_ICMP or at + 1 > skb[SKB_IP] + skb[SKB_AVAIL]:
        return False
    kind = load8(data, at)
    return kind == MLD_QUERY or kind == MLD_REPORT or kind == MLD_REDUCTION or kind == MLD2_REPORT


@kernel
def _is_walked(protocol):
    """Extension headers that local delivery reads one by one."""
    return protocol == NEXTHDR_DEST or protocol == NEXTHDR_ROUTING or protocol == NEXTHDR_FRAGMENT


@cold
def _walk_extensions(h, s, data, trace):
    """Read extension headers up to the protocol behind them; CONTINUE, DONE or REASSEMBLED."""
    skb = s.skb
    for _ in range(MAX_EXTENSIONS):
        protocol = skb[SKB_PROTOCOL]
        if not _is_walked(protocol):
            break
        if protocol == NEXTHDR_DEST:
            outcome = destination_options(h, s, data, trace)
        elif protocol == NEXTHDR_ROUTING:
            outcome = routing_header(h, s, data, trace)
        else:
            outcome = fragment_header(h, s, data, trace)
        if outcome != CONTINUE:
            return outcome
    return CONTINUE


@hot
def _to_protocol(h, s, data, trace):
    """Give the packet in hand to its protocol (kernel: ip6_protocol_deliver_rcu); always DONE."""
    skb = s.skb
    protocol = skb[SKB_PROTOCOL]
    handled = protocol != NEXTHDR_HOP and has_handler(h, CONF_PROTOCOLS6_0, protocol)
    note(trace, T_DELIVER, protocol, handled or protocol == NEXTHDR_NONE)
    if handled:
        if is_multicast(skb[SKB_DST_HI]) and not _is_mld(s, data):
            joined = has_joined(h, 6, skb[SKB_DEVICE], skb[SKB_DST_HI], skb[SKB_DST_LO])
            note(trace, T_MCAST6, skb[SKB_DST_HI], skb[SKB_DST_LO], skb[SKB_DEVICE], joined)
            if not joined:
                count(s, M_Ip6InDiscards)
                return drop(s, trace, R_IP_INADDRERRORS)
        count(s, M_Ip6InDelivers)
        if protocol == IPPROTO_UDP or protocol == IPPROTO_UDPLITE:
            return udp_rcv(h, s, data, trace)
        if protocol == NEXTHDR_ICMP:
            return icmpv6_rcv(h, s, data, trace)
        return deliver(s, trace)
    if protocol == NEXTHDR_NONE:
        count(s, M_Ip6InDelivers)
        return drop(s, trace, R_NOT_SPECIFIED)  # a handler of its own discards it
    count(s, M_Ip6InUnknownProtos)
    icmp6_send(h, s, data, trace, ICMP6_PARAMETER_PROBLEM, UNKNOWN_NEXT_HEADER, skb[SKB_NEXTHDR_AT])
    return drop(s, trace, R_IP_NOPROTO)


@cold
def _deliver_datagram(h, s, data, trace):
    """A datagram that was put together: the headers behind the fragment header, and its protocol."""
    if _walk_extensions(h, s, data, trace) == CONTINUE:
        _to_protocol(h, s, data, trace)


@cold
def _deliver_extended(h, s, data, trace):
    """A packet with extension headers, among them that of a fragment; always DONE."""
    outcome = _walk_extensions(h, s, data, trace)
    if outcome == CONTINUE:
        return _to_protocol(h, s, data, trace)
    if outcome == REASSEMBLED:
        _deliver_datagram(h, s, as_arena(s.datagram), trace)
        s.skb[SKB_TRANSPORT] = 0  # the verdict is that of the fragment
    return DONE


@hot
def ip6_input(h, s, data, trace):
    """Deliver the packet in hand to its protocol; always DONE."""
    if _is_walked(s.skb[SKB_PROTOCOL]):
        return _deliver_extended(h, s, data, trace)
    return _to_protocol(h, s, data, trace)


@cold
def ip6_mc_input(h, s, data, trace):
    """A packet to a multicast group (kernel: ip6_mc_input)."""
    skb = s.skb
    count(s, M_Ip6InMcastPkts)
    count(s, M_Ip6InMcastOctets, skb[SKB_LEN])
    joined = has_joined(h, 6, skb[SKB_DEVICE], skb[SKB_DST_HI], skb[SKB_DST_LO])
    if joined:
        return ip6_input(h, s, data, trace)
    note(trace, T_MCAST6, skb[SKB_DST_HI], skb[SKB_DST_LO], skb[SKB_DEVICE], joined)
    return drop(s, trace, R_NOT_SPECIFIED)
