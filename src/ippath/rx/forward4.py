"""IPv4 forwarding (kernel: ip_forward, ip_forward_finish; RFC 1812 section 5).

In:  a routed packet whose route is not local.   Out: the packet on its way, TTL reduced.
Drops: IP_INHDR (TTL), PKT_TOO_BIG, NOT_SPECIFIED, NEIGH_FAILED.
"""

from __future__ import annotations

from ippath.fib.exceptions import exception_of
from ippath.jit import hot
from ippath.mib import M_IpForwDatagrams, M_IpFragFails, M_IpInHdrErrors
from ippath.reasons import (
    R_IP_INHDR, R_NEIGH_FAILED, R_NOT_SPECIFIED, R_PKT_TOO_BIG, R_QDISC_DROP,
)  # fmt: skip
from ippath.rx.header4 import copy_packet
from ippath.rx.icmp_send import icmp_send, ip_rt_send_redirect
from ippath.rx.ipv4_options import ip_forward_options
from ippath.rx.packet import count, drop, forwarded
from ippath.tables import (
    COLLECT_SENT, CONF_FORWARD_USE_PMTU, DEV_CARRIER, DEV_LOOPBACK, DST_DEVICE, DST_EXCEPTION,
    DST_GATEWAY_FAMILY, DST_GATEWAY_HI, DST_GATEWAY_LO, DST_INFO, DST_REDIRECT, DST_TYPE,
    MISC_COLLECT, OPT_SRR, OPT_STRICT, PACKET_HOST, SCRATCH_PACKET, SKB_AVAIL, SKB_DST_LO,
    SKB_FRAG_MAX, SKB_IP, SKB_LEN, SKB_OPTIONS, SKB_OUT_DEVICE, SKB_PKT_TYPE, SKB_TTL_SPENT,
)  # fmt: skip
from ippath.trace import T_FORWARD, T_FORWARD_L2, T_MTU, T_TTL, note
from ippath.tx.emit import neighbour_answers
from ippath.tx.ip_output4 import finish_output4, fragment4, refragment4
from ippath.tx.path_mtu import route_mtu4
from ippath.wire.icmp import (
    FRAGMENTATION_NEEDED, HOST_UNREACHABLE, ICMP_TIME_EXCEEDED, ICMP_UNREACHABLE,
    SOURCE_ROUTE_FAILED,
)  # fmt: skip
from ippath.wire.ipv4 import DF, FLAGS_OFFSET, TTL
from ippath.wire.memory import load8, load16be


@hot
def forward_mtu4(h, s):
    """MTU for a forwarded packet: the route's metric, else the device's (kernel: ip_dst_mtu_maybe_forward)."""
    skb = s.skb
    exception = exception_of(s, skb[DST_EXCEPTION], 4, 0, skb[SKB_DST_LO])
    learned = h.conf[CONF_FORWARD_USE_PMTU] != 0
    return route_mtu4(h, s, skb[DST_INFO], exception, skb[DST_DEVICE], learned)


@hot
def ip_forward(h, s, data, trace):
    """Forward the packet in hand; always DONE."""
    skb = s.skb
    if skb[SKB_PKT_TYPE] != PACKET_HOST:
        note(trace, T_FORWARD_L2, skb[SKB_PKT_TYPE])
        return drop(s, trace, R_NOT_SPECIFIED)
    ip, length, out = skb[SKB_IP], skb[SKB_LEN], skb[DST_DEVICE]
    ttl = load8(data, ip + TTL)
    note(trace, T_TTL, ttl)
    if ttl <= 1:
        count(s, M_IpInHdrErrors)
        icmp_send(h, s, data, trace, ICMP_TIME_EXCEEDED, 0, 0)
        return drop(s, trace, R_IP_INHDR)
    if skb[SKB_OPTIONS] and s.opt[OPT_STRICT] and skb[DST_GATEWAY_FAMILY]:
        icmp_send(h, s, data, trace, ICMP_UNREACHABLE, SOURCE_ROUTE_FAILED, 0)
        return drop(s, trace, R_NOT_SPECIFIED)
    count(s, M_IpForwDatagrams)
    mtu, received = forward_mtu4(h, s), skb[SKB_FRAG_MAX]
    dont_fragment = load16be(data, ip + FLAGS_OFFSET) & DF
    note(trace, T_MTU, length, mtu, out, dont_fragment != 0)
    if length > mtu and dont_fragment and (received > mtu or not received):
        count(s, M_IpFragFails)
        icmp_send(h, s, data, trace, ICMP_UNREACHABLE, FRAGMENTATION_NEEDED, mtu)
        return drop(s, trace, R_PKT_TOO_BIG)
    skb[SKB_TTL_SPENT] = 1
    if skb[DST_REDIRECT] and not (skb[SKB_OPTIONS] and s.opt[OPT_SRR]):
        ip_rt_send_redirect(h, s, data, trace)
    if skb[SKB_OPTIONS]:
        ip_forward_options(h, s, trace)
    family = skb[DST_GATEWAY_FAMILY]
    hi, lo = skb[DST_GATEWAY_HI], skb[DST_GATEWAY_LO]
    if family == 0:
        family, hi, lo = 4, 0, skb[SKB_DST_LO]
    skb[SKB_OUT_DEVICE] = out
    if dont_fragment and received > mtu:  # all of it fits, but not its fragments as they came
        count(s, M_IpFragFails)
        icmp_send(h, s, data, trace, ICMP_UNREACHABLE, FRAGMENTATION_NEEDED, mtu)
        return drop(s, trace, R_NOT_SPECIFIED)
    if not neighbour_answers(h, trace, out, family, hi, lo):
        icmp_send(h, s, data, trace, ICMP_UNREACHABLE, HOST_UNREACHABLE, 0)
        return drop(s, trace, R_NEIGH_FAILED)
    kind = skb[DST_TYPE]
    kept = skb[SKB_AVAIL]  # what the capture cut off cannot be sent: copies end where it did
    if received:
        copy_packet(s, data, SCRATCH_PACKET, kept)
        refragment4(
            h, s, trace, s.scratch, SCRATCH_PACKET, kept, length, min(mtu, received), out, family,
            hi, lo, kind,
        )  # fmt: skip
    elif length > mtu:
        copy_packet(s, data, SCRATCH_PACKET, kept)
        fragments = fragment4(
            h, s, trace, s.scratch, SCRATCH_PACKET, kept, length, mtu, out, family, hi, lo, kind
        )
        if fragments == 0:
            count(s, M_IpFragFails)
            return drop(s, trace, R_NOT_SPECIFIED)
    else:
        if s.misc[MISC_COLLECT] & COLLECT_SENT or h.device[out, DEV_LOOPBACK]:
            copy_packet(s, data, SCRATCH_PACKET, kept)
        finish_output4(h, s, s.scratch, SCRATCH_PACKET, kept, length, out, family, hi, lo, kind)
    if h.device[out, DEV_CARRIER] == 0:
        return drop(s, trace, R_QDISC_DROP)
    note(trace, T_FORWARD, out)
    return forwarded(s, trace)
