"""IPv6 input: the header checks, in the kernel's order (ip6_rcv_core, RFC 8200 and RFC 4291).

In:  SKB_IP, SKB_LEN, SKB_AVAIL.   Out: the header's fields in SKB_*.
Drops: OTHERHOST, IPV6DISABLED, IP_INHDR, UNHANDLED_PROTO, UNICAST_IN_L2_MULTICAST, PKT_TOO_SMALL.
"""

from __future__ import annotations

from ippath.jit import cold, hot
from ippath.mib import (
    M_Ip6InCEPkts, M_Ip6InDiscards, M_Ip6InECT0Pkts, M_Ip6InECT1Pkts, M_Ip6InHdrErrors,
    M_Ip6InNoECTPkts, M_Ip6InOctets, M_Ip6InReceives, M_Ip6InTruncatedPkts,
)  # fmt: skip
from ippath.reasons import (
    R_IPV6DISABLED, R_IP_INHDR, R_NOT_SPECIFIED, R_OTHERHOST, R_PKT_TOO_SMALL, R_UNHANDLED_PROTO,
    R_UNICAST_IN_L2_MULTICAST,
)  # fmt: skip
from ippath.rx.exthdr import parse_hop_by_hop
from ippath.rx.packet import CONTINUE, capture_cut, count, drop
from ippath.tables import (
    DEV_DISABLE6, DEV_DROP_UNICAST_L2_6, DEV_HAS6, DEV_LOOPBACK, PACKET_BROADCAST,
    PACKET_MULTICAST, PACKET_OTHERHOST, SKB_AVAIL, SKB_DEVICE, SKB_DST_HI, SKB_DST_LO, SKB_FRAG,
    SKB_IP, SKB_LEN, SKB_NEXTHDR_AT, SKB_PKT_TYPE, SKB_PROTOCOL, SKB_SRC_HI, SKB_SRC_LO, SKB_TOS,
    SKB_TRANSPORT,
)  # fmt: skip
from ippath.trace import T_DISABLED6, T_IP6_ADDRESS, T_IP6_RCV, T_L2MCAST, note
from ippath.wire.ipv6 import (
    DESTINATION, HEADER, NEXTHDR_HOP, NEXT_HEADER, PAYLOAD_LENGTH, SOURCE, is_loopback,
    is_multicast, multicast_scope,
)  # fmt: skip
from ippath.wire.memory import load8, load16be, load32be, load64be


@hot
def count_ecn6(s, traffic_class):
    """Count the packet by its ECN codepoint."""
    ecn = traffic_class & 3
    if ecn == 0:
        count(s, M_Ip6InNoECTPkts)
    elif ecn == 1:
        count(s, M_Ip6InECT1Pkts)
    elif ecn == 2:
        count(s, M_Ip6InECT0Pkts)
    else:
        count(s, M_Ip6InCEPkts)


@cold
def _bad_header(s, trace, reason):
    count(s, M_Ip6InHdrErrors)
    return drop(s, trace, reason)


@cold
def _bad_address(s, trace, hi, lo, reason):
    note(trace, T_IP6_ADDRESS, hi, lo, reason)
    return _bad_header(s, trace, reason)


@hot
def ip6_rcv_core(h, s, data, trace):
    """Check the IPv6 header; CONTINUE with the fields in `skb`, or DONE."""
    skb = s.skb
    if skb[SKB_PKT_TYPE] == PACKET_OTHERHOST:
        return drop(s, trace, R_OTHERHOST)
    ip, length, avail, device = skb[SKB_IP], skb[SKB_LEN], skb[SKB_AVAIL], skb[SKB_DEVICE]
    count(s, M_Ip6InReceives)
    count(s, M_Ip6InOctets, length)
    if h.device[device, DEV_HAS6] == 0 or h.device[device, DEV_DISABLE6]:
        note(trace, T_DISABLED6, device)
        count(s, M_Ip6InDiscards)
        return drop(s, trace, R_IPV6DISABLED if h.device[device, DEV_DISABLE6] else R_NOT_SPECIFIED)
    if length < HEADER:
        return _bad_header(s, trace, R_IP_INHDR)
    if avail < HEADER:
        return capture_cut(s, trace, HEADER)
    first = load32be(data, ip)
    payload = load16be(data, ip + PAYLOAD_LENGTH)
    next_header = load8(data, ip + NEXT_HEADER)
    note(trace, T_IP6_RCV, first >> 28, payload, length, next_header)
    if first >> 28 != 6:
        return _bad_header(s, trace, R_UNHANDLED_PROTO)
    traffic_class = (first >> 20) & 0xFF
    count_ecn6(s, traffic_class)
    src_hi, src_lo = load64be(data, ip + SOURCE), load64be(data, ip + SOURCE + 8)
    dst_hi, dst_lo = load64be(data, ip + DESTINATION), load64be(data, ip + DESTINATION + 8)
    on_loopback = h.device[device, DEV_LOOPBACK] != 0
    if not on_loopback:
        if is_loopback(src_hi, src_lo):
            return _bad_address(s, trace, src_hi, src_lo, R_IP_INHDR)
        if is_loopback(dst_hi, dst_lo):
            return _bad_address(s, trace, dst_hi, dst_lo, R_IP_INHDR)
    group = is_multicast(dst_hi)
    if group and multicast_scope(dst_hi) == 1 and not on_loopback:
        return _bad_address(s, trace, dst_hi, dst_lo, R_IP_INHDR)
    kind = skb[SKB_PKT_TYPE]
    if not group and (kind == PACKET_BROADCAST or kind == PACKET_MULTICAST):
        if h.device[device, DEV_DROP_UNICAST_L2_6]:
            note(trace, T_L2MCAST, kind, device, 1)
            return _bad_header(s, trace, R_UNICAST_IN_L2_MULTICAST)
    if group and multicast_scope(dst_hi) == 0:
        return _bad_address(s, trace, dst_hi, dst_lo, R_IP_INHDR)
    if is_multicast(src_hi):
        return _bad_address(s, trace, src_hi, src_lo, R_IP_INHDR)
    skb[SKB_TOS] = traffic_class
    skb[SKB_PROTOCOL] = next_header
    skb[SKB_NEXTHDR_AT] = NEXT_HEADER
    skb[SKB_TRANSPORT] = ip + HEADER
    skb[SKB_FRAG] = 0
    skb[SKB_SRC_HI], skb[SKB_SRC_LO] = src_hi, src_lo
    skb[SKB_DST_HI], skb[SKB_DST_LO] = dst_hi, dst_lo
    if payload or next_header != NEXTHDR_HOP:
        if payload + HEADER > length:
            count(s, M_Ip6InTruncatedPkts)
            return drop(s, trace, R_PKT_TOO_SMALL)
        skb[SKB_LEN] = payload + HEADER
        skb[SKB_AVAIL] = min(avail, payload + HEADER)
    if next_header == NEXTHDR_HOP:
        return parse_hop_by_hop(h, s, data, trace, payload)
    return CONTINUE
