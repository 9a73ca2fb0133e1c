"""ICMPv6 input (kernel: icmpv6_rcv, ndisc_rcv; RFC 4443, RFC 4861 section 7.1).

Drops: ICMP_CSUM, PKT_TOO_SMALL, IPV6_NDISC_HOP_LIMIT, IPV6_NDISC_BAD_CODE, UNHANDLED_PROTO.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.mib import (
    M_Icmp6InCsumErrors, M_Icmp6InDestUnreachs, M_Icmp6InEchoReplies, M_Icmp6InEchos,
    M_Icmp6InErrors, M_Icmp6InGroupMembQueries, M_Icmp6InGroupMembReductions,
    M_Icmp6InGroupMembResponses, M_Icmp6InMLDv2Reports, M_Icmp6InMsgs, M_Icmp6InNeighborAdvertisements,
    M_Icmp6InNeighborSolicits, M_Icmp6InParmProblems, M_Icmp6InPktTooBigs, M_Icmp6InRedirects,
    M_Icmp6InRouterAdvertisements, M_Icmp6InRouterSolicits, M_Icmp6InTimeExcds, M_Icmp6InType0,
)  # fmt: skip
from ippath.reasons import (
    R_ICMP_CSUM, R_IPV6_NDISC_BAD_CODE, R_IPV6_NDISC_HOP_LIMIT, R_NONE, R_NOT_SPECIFIED,
    R_UNHANDLED_PROTO,
)  # fmt: skip
from ippath.rx.icmpv6_send import anycast_address, icmp6_echo_reply
from ippath.rx.packet import capture_cut, consume, count, deliver, drop, unchecked
from ippath.tables import (
    CONF_ICMP6_ECHO_IGNORE_ALL, CONF_ICMP6_ECHO_IGNORE_ANYCAST, CONF_ICMP6_ECHO_IGNORE_MULTICAST,
    SKB_AVAIL, SKB_DST_HI, SKB_DST_LO, SKB_IP, SKB_LEN, SKB_TRANSPORT,
)  # fmt: skip
from ippath.trace import T_ICMP_IN, note
from ippath.wire.checksum import pseudo6, transport_ok
from ippath.wire.icmp import (
    ICMP6_ECHO, ICMP6_ECHO_REPLY, ICMP6_INFORMATIONAL, ICMP6_PARAMETER_PROBLEM, ICMP6_TIME_EXCEEDED, ICMP6_TOO_BIG,
    ICMP6_UNREACHABLE, ICMP_HEADER, MLD2_REPORT, MLD_QUERY, MLD_REDUCTION, MLD_REPORT,
    NDISC_NEIGHBOUR_ADVERTISEMENT, NDISC_NEIGHBOUR_SOLICITATION, NDISC_REDIRECT,
    NDISC_ROUTER_ADVERTISEMENT, NDISC_ROUTER_SOLICITATION,
)  # fmt: skip
from ippath.wire.ipv6 import HEADER, HOP_LIMIT, NEXTHDR_ICMP, is_multicast
from ippath.wire.memory import load8, load32be

NDISC_HOP_LIMIT = 255


@kernel
def _count_type(s, kind):
    s.counters[M_Icmp6InType0 + kind] += 1
    if kind == ICMP6_UNREACHABLE:
        s.counters[M_Icmp6InDestUnreachs] += 1
    elif kind == ICMP6_TOO_BIG:
        s.counters[M_Icmp6InPktTooBigs] += 1
    elif kind == ICMP6_TIME_EXCEEDED:
        s.counters[M_Icmp6InTimeExcds] += 1
    elif kind == ICMP6_PARAMETER_PROBLEM:
        s.counters[M_Icmp6InParmProblems] += 1
    elif kind == ICMP6_ECHO:
        s.counters[M_Icmp6InEchos] += 1
    elif kind == ICMP6_ECHO_REPLY:
        s.counters[M_Icmp6InEchoReplies] += 1
    elif kind == MLD_QUERY:
        s.counters[M_Icmp6InGroupMembQueries] += 1
    elif kind == MLD_REPORT:
        s.counters[M_Icmp6InGroupMembResponses] += 1
    elif kind == MLD_REDUCTION:
        s.counters[M_Icmp6InGroupMembReductions] += 1
    elif kind == NDISC_ROUTER_SOLICITATION:
        s.counters[M_Icmp6InRouterSolicits] += 1
    elif kind == NDISC_ROUTER_ADVERTISEMENT:
        s.counters[M_Icmp6InRouterAdvertisements] += 1
    elif kind == NDISC_NEIGHBOUR_SOLICITATION:
        s.counters[M_Icmp6InNeighborSolicits] += 1
    elif kind == NDISC_NEIGHBOUR_ADVERTISEMENT:
        s.counters[M_Icmp6InNeighborAdvertisements] += 1
    elif kind == NDISC_REDIRECT:
        s.counters[M_Icmp6InRedirects] += 1
    elif kind == MLD2_REPORT:
        s.counters[M_Icmp6InMLDv2Reports] += 1


@kernel
def _echo(h, s, data, trace, at, size):
    skb = s.skb
    if h.conf[CONF_ICMP6_ECHO_IGNORE_ALL]:
        return drop(s, trace, R_NOT_SPECIFIED)
    if is_multicast(skb[SKB_DST_HI]):
        if h.conf[CONF_ICMP6_ECHO_IGNORE_MULTICAST]:
            return drop(s, trace, R_NOT_SPECIFIED)
    elif h.conf[CONF_ICMP6_ECHO_IGNORE_ANYCAST] and anycast_address(
        h, skb[SKB_DST_HI], skb[SKB_DST_LO]
    ):
        return drop(s, trace, R_NOT_SPECIFIED)
    icmp6_echo_reply(
        h, s, data, trace, load32be(data, at + 4), at + ICMP_HEADER, size - ICMP_HEADER
    )
    return deliver(s, trace)


@cold
def icmpv6_rcv(h, s, data, trace):
    """Handle the ICMPv6 message in hand; always DONE."""
    skb = s.skb
    at = skb[SKB_TRANSPORT]
    before = at - skb[SKB_IP]
    size, present = skb[SKB_LEN] - before, skb[SKB_AVAIL] - before
    count(s, M_Icmp6InMsgs)
    if present < size:
        unchecked(s)
        if size >= ICMP_HEADER and present < ICMP_HEADER:
            return capture_cut(s, trace, before + ICMP_HEADER)
    elif not transport_ok(data, at, size, pseudo6(data, skb[SKB_IP], NEXTHDR_ICMP, size)):
        count(s, M_Icmp6InCsumErrors)
        count(s, M_Icmp6InErrors)
        return drop(s, trace, R_ICMP_CSUM)
    if size < ICMP_HEADER:
        count(s, M_Icmp6InErrors)
        return drop(s, trace, R_NOT_SPECIFIED)
    kind, code = load8(data, at), load8(data, at + 1)
    note(trace, T_ICMP_IN, kind, code)
    _count_type(s, kind)
    if kind == ICMP6_ECHO:
        return _echo(h, s, data, trace, at, size)
    if kind == ICMP6_TOO_BIG and size < ICMP_HEADER + HEADER:
        count(s, M_Icmp6InErrors)
        return drop(s, trace, R_NOT_SPECIFIED)
    if NDISC_ROUTER_SOLICITATION <= kind <= NDISC_REDIRECT:
        if load8(data, skb[SKB_IP] + HOP_LIMIT) != NDISC_HOP_LIMIT:
            return drop(s, trace, R_IPV6_NDISC_HOP_LIMIT)
        if code:
            return drop(s, trace, R_IPV6_NDISC_BAD_CODE)
        return consume(s, trace, R_NONE)
    if kind == MLD_QUERY or kind == MLD_REPORT or kind == MLD_REDUCTION or kind == MLD2_REPORT:
        return consume(s, trace, R_NONE)
    if kind < ICMP6_INFORMATIONAL and not (ICMP6_UNREACHABLE <= kind <= ICMP6_PARAMETER_PROBLEM):
        return drop(s, trace, R_UNHANDLED_PROTO)
    return deliver(s, trace)
