"""IPv4 local delivery: fragments aside, each protocol to its handler (kernel: ip_local_deliver,
ip_protocol_deliver_rcu).

Drops: IP_NOPROTO with ICMP protocol unreachable, and those of reassembly.
"""

from __future__ import annotations

from ippath.frag.ipv4 import USER_LOCAL_DELIVER, ip_defrag
from ippath.handles import as_arena
from ippath.jit import cold, hot
from ippath.mib import M_IpInDelivers, M_IpInUnknownProtos
from ippath.reasons import R_IP_NOPROTO
from ippath.rx.icmp_input import icmp_rcv
from ippath.rx.icmp_send import icmp_send
from ippath.rx.igmp_input import igmp_rcv
from ippath.rx.packet import CONTINUE, DONE, count, deliver, drop
from ippath.tables import CONF_PROTOCOLS4_0, SKB_FRAG, SKB_PROTOCOL, SKB_TRANSPORT
from ippath.trace import T_DELIVER, note
from ippath.udp.receive import udp_rcv
from ippath.wire.icmp import ICMP_UNREACHABLE, PROTOCOL_UNREACHABLE
from ippath.wire.ipv4 import (
    IPPROTO_ICMP,
    IPPROTO_IGMP,
    IPPROTO_UDP,
    IPPROTO_UDPLITE,
)


@hot
def has_handler(h, first_word, protocol):
    """Is there a handler for this IP protocol number (kernel: inet_protos)?"""
    return (h.conf[first_word + (protocol >> 6)] >> (protocol & 63)) & 1 == 1


@hot
def _to_protocol(h, s, data, trace):
    """Give the packet in hand to its protocol (kernel: ip_local_deliver_finish); always DONE."""
    skb = s.skb
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


@cold
def _deliver_datagram(h, s, data, trace):
    """As `_to_protocol`, for a datagram that was put together."""
    return _to_protocol(h, s, data, trace)


@cold
def _deliver_fragment(h, s, data, trace):
    """A fragment, and with the last one its datagram; always DONE."""
    transport = s.skb[SKB_TRANSPORT]
    if ip_defrag(h, s, data, trace, USER_LOCAL_DELIVER) == CONTINUE:
        _deliver_datagram(h, s, as_arena(s.datagram), trace)
    s.skb[SKB_TRANSPORT] = transport  # the verdict is that of the fragment
    return DONE


@hot
def ip_local_deliver(h, s, data, trace):
    """Deliver the packet in hand to its protocol; always DONE."""
    if s.skb[SKB_FRAG]:
        return _deliver_fragment(h, s, data, trace)
    return _to_protocol(h, s, data, trace)
