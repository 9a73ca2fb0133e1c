"""IPv4 local delivery: fragments aside, each protocol to its handler (kernel: ip_local_deliver,
ip_protocol_deliver_rcu).

Drops: IP_NOPROTO with ICMP protocol unreachable.   Unsupported: FRAGMENT.
"""

from __future__ import annotations

from ippath.frag.defrag import defragment
from ippath.jit import hot
from ippath.mib import M_IpInDelivers, M_IpInUnknownProtos
from ippath.reasons import R_IP_NOPROTO
from ippath.rx.icmp_input import icmp_rcv
from ippath.rx.icmp_send import icmp_send
from ippath.rx.igmp_input import igmp_rcv
from ippath.rx.packet import count, deliver, drop
from ippath.tables import CONF_PROTOCOLS4_0, SKB_FRAG, SKB_PROTOCOL
from ippath.trace import T_DELIVER, note
from ippath.udp.receive import udp_rcv
from ippath.wire.icmp import ICMP_UNREACHABLE, PROTOCOL_UNREACHABLE
from ippath.wire.ipv4 import (
    IPPROTO_ICMP,
    IPPROTO_IGMP,
    IPPROTO_UDP,
    IPPROTO_UDPLITE,
    MF,
    OFFSET_MASK,
)


@hot
def has_handler(h, first_word, protocol):
    """Is there a handler for this IP protocol number (kernel: inet_protos)?"""
    return (h.conf[first_word + (protocol >> 6)] >> (protocol & 63)) & 1 == 1


@hot
def ip_local_deliver(h, s, data, trace):
    """Deliver the packet in hand to its protocol; always DONE."""
    skb = s.skb
    if skb[SKB_FRAG]:
        fragment = skb[SKB_FRAG]
        return defragment(s, trace, (fragment & OFFSET_MASK) * 8, fragment & MF != 0)
    protocol = skb[SKB_PROTOCOL]
    handled = has_handler(h, CONF_PROTOCOLS4_0, protocol)
    note(trace, T_DELIVER, protocol, handled)
    if not handled:
        count(s, M_IpInUnknownProtos)
        icmp_send(h, s, data, trace, ICMP_UNREACHABLE, PROTOCOL_UNREACHABLE, 0)
        return drop(s, trace, R_IP_NOPROTO)
    count(s, M_IpInDelivers)
    if protocol == IPPROTO_UDP or protocol == IPPROTO_UDPLITE:
        return udp_rcv(h, s, data, trace)
    if protocol == IPPROTO_ICMP:
        return icmp_rcv(h, s, data, trace)
    if protocol == IPPROTO_IGMP:
        return igmp_rcv(s, data, trace)
    return deliver(s, trace)
