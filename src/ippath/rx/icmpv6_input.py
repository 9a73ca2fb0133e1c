"""ICMPv6 input (kernel: icmpv6_rcv, icmpv6_notify, ndisc_rcv; RFC 4443, RFC 4861 section 7.1).

Errors are checked, counted and told to the socket that they concern; they teach the host what a
path can carry, and better first hops.
Drops: ICMP_CSUM, PKT_TOO_SMALL, IPV6_BAD_EXTHDR, IPV6_NDISC_*, NO_SOCKET, NOT_SPECIFIED.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.mib import (
    M_Icmp6InCsumErrors, M_Icmp6InDestUnreachs, M_Icmp6InEchoReplies, M_Icmp6InEchos,
    M_Icmp6InErrors, M_Icmp6InGroupMembQueries, M_Icmp6InGroupMembReductions,
    M_Icmp6InGroupMembResponses, M_Icmp6InMLDv2Reports, M_Icmp6InMsgs,
    M_Icmp6InNeighborAdvertisements, M_Icmp6InNeighborSolicits, M_Icmp6InParmProblems,
    M_Icmp6InPktTooBigs, M_Icmp6InRedirects, M_Icmp6InRouterAdvertisements, M_Icmp6InRouterSolicits,
    M_Icmp6InTimeExcds, M_Icmp6InType0,
)  # fmt: skip
from ippath.reasons import (
    R_ICMP_CSUM, R_IPV6_BAD_EXTHDR, R_IPV6_NDISC_BAD_CODE, R_IPV6_NDISC_BAD_OPTIONS, R_IPV6_NDISC_FRAG,
    R_IPV6_NDISC_HOP_LIMIT, R_NONE, R_NOT_SPECIFIED, R_NO_SOCKET, R_PKT_TOO_SMALL,
)  # fmt: skip
from ippath.rx.exthdr_core import skip_extensions
from ippath.rx.icmpv6_send import icmp6_echo_reply
from ippath.rx.packet import capture_cut, consume, count, deliver, drop, unchecked
from ippath.rx.path_mtu_input import update_pmtu6
from ippath.rx.redirect_input import redirect6
from ippath.tables import (
    CONF_ICMP6_ECHO_IGNORE_ALL, CONF_ICMP6_ECHO_IGNORE_ANYCAST, CONF_ICMP6_ECHO_IGNORE_MULTICAST,
    DEV_SUPPRESS_FRAG_NDISC, DST_NH, DST_ROUTE, NONE, SKB_AVAIL, SKB_DEVICE, SKB_DST_HI, SKB_DST_LO,
    SKB_FRAG, SKB_IP, SKB_LEN, SKB_SRC_HI, SKB_TRANSPORT, SOCK_DEAF6, SOCK_DEVICE,
)  # fmt: skip
from ippath.trace import T_ICMP_IN, T_NDISC_FRAG, T_QUOTED6, note
from ippath.tx.route_output6 import is_anycast_route6
from ippath.udp.keep import keep_error
from ippath.udp.lookup import udp_sender
from ippath.wire.checksum import pseudo6, transport_ok
from ippath.wire.icmp import (
    ICMP6_ECHO, ICMP6_ECHO_REPLY, ICMP6_EXTENDED_ECHO_REPLY, ICMP6_INFORMATIONAL,
    ICMP6_PARAMETER_PROBLEM, ICMP6_TIME_EXCEEDED, ICMP6_TOO_BIG, ICMP6_UNREACHABLE, ICMP_HEADER,
    MLD2_REPORT, MLD_QUERY, MLD_REDUCTION, MLD_REPORT, NDISC_NEIGHBOUR_ADVERTISEMENT,
    NDISC_NEIGHBOUR_SOLICITATION, NDISC_REDIRECT, NDISC_ROUTER_ADVERTISEMENT,
    NDISC_ROUTER_SOLICITATION,
)  # fmt: skip
from ippath.wire.ipv4 import IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE
from ippath.wire.ipv6 import (
    DESTINATION, HEADER, HOP_LIMIT, NEXTHDR_ICMP, SOURCE, is_link_local, is_multicast,
)  # fmt: skip
from ippath.wire.memory import load8, load32be, load64be
from ippath.wire.ndisc import (
    OPTION_UNIT, OPT_REDIRECTED, REDIRECT_DESTINATION, REDIRECT_HEADER, find_option, options_end_well,
)  # fmt: skip

TRANSPORT_QUOTED = 8  # bytes behind the IPv6 headers that a quotation must hold
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
    anycast = is_anycast_route6(
        h, skb[DST_ROUTE], skb[DST_NH], skb[SKB_DST_HI], skb[SKB_DST_LO]
    )  # fmt: skip
    ignored = h.conf[CONF_ICMP6_ECHO_IGNORE_ALL]
    if is_multicast(skb[SKB_DST_HI]):
        ignored |= h.conf[CONF_ICMP6_ECHO_IGNORE_MULTICAST]
    if anycast:
        ignored |= h.conf[CONF_ICMP6_ECHO_IGNORE_ANYCAST]
    if ignored:
        return drop(s, trace, R_NOT_SPECIFIED)
    code, info = load8(data, at + 1), load32be(data, at + 4)
    body = at + ICMP_HEADER
    if icmp6_echo_reply(h, s, data, trace, code, info, body, size - ICMP_HEADER, anycast):
        return deliver(s, trace)
    return drop(s, trace, R_NOT_SPECIFIED)


@kernel
def _error(s, trace, reason):
    count(s, M_Icmp6InErrors)
    return drop(s, trace, reason)


@kernel
def _tell_sender(h, s, data, at, quoted, transport, protocol, end):
    """Tell the socket that sent what is quoted; its row or NONE (kernel: __udp6_lib_err, tcp_v6_err)."""
    if protocol == IPPROTO_TCP:
        return NONE
    dst_hi, dst_lo = load64be(data, quoted + DESTINATION), load64be(data, quoted + DESTINATION + 8)
    row = udp_sender(
        h, s, protocol, load64be(data, quoted + SOURCE), load64be(data, quoted + SOURCE + 8),
        dst_hi, dst_lo, load32be(data, transport),
    )  # fmt: skip
    if row == NONE:
        return NONE
    kind, code = load8(data, at), load8(data, at + 1)
    if kind == NDISC_REDIRECT:
        return row  # no error of the socket
    if kind == ICMP6_TOO_BIG and h.socket[row, SOCK_DEAF6]:
        return row
    takes = kind == ICMP6_TOO_BIG or kind == ICMP6_PARAMETER_PROBLEM
    info = load32be(data, at + 4) if takes else 0
    keep_error(h, s, data, row, transport, end - transport, kind, code, info, dst_hi, dst_lo)
    return row


@kernel
def _learn(h, s, data, trace, at, quoted, oif, mtu):
    """Let routes know what an error about a packet of this host says of its way."""
    if mtu != NONE:
        update_pmtu6(h, s, data, quoted, oif, mtu, trace)
    elif load8(data, at) == NDISC_REDIRECT:
        redirect6(
            h, s, data, at, load64be(data, quoted + SOURCE), load64be(data, quoted + SOURCE + 8),
            load64be(data, quoted + DESTINATION), load64be(data, quoted + DESTINATION + 8), oif,
            trace,
        )  # fmt: skip


@kernel
def _icmpv6_notify(h, s, data, trace, at, quoted, length, mtu):
    """Hand an error to the protocol that it concerns; errors that concern nobody are counted.

    It quotes `length` bytes from `data[quoted]` on; `mtu` is what it reports of the path, NONE if
    nothing.
    """
    present = min(length, s.skb[SKB_IP] + s.skb[SKB_AVAIL] - quoted)
    if length < HEADER:
        return _error(s, trace, R_PKT_TOO_SMALL)
    if present < HEADER:
        return capture_cut(s, trace, quoted + HEADER - s.skb[SKB_IP])
    protocol, inner, _ = skip_extensions(data, quoted, present)
    if inner < 0 or inner + TRANSPORT_QUOTED > present:
        if present < length:
            return capture_cut(s, trace, s.skb[SKB_LEN])
        return _error(s, trace, R_IPV6_BAD_EXTHDR if inner < 0 else R_PKT_TOO_SMALL)
    if protocol == IPPROTO_UDP or protocol == IPPROTO_UDPLITE or protocol == IPPROTO_TCP:
        socket = _tell_sender(h, s, data, at, quoted, quoted + inner, protocol, quoted + present)
        note(trace, T_QUOTED6, length, protocol, socket != NONE)
        if socket == NONE:
            count(s, M_Icmp6InErrors)
        elif mtu == NONE or not h.socket[socket, SOCK_DEAF6]:
            _learn(h, s, data, trace, at, quoted, h.socket[socket, SOCK_DEVICE], mtu)
    elif protocol == NEXTHDR_ICMP:
        _learn(h, s, data, trace, at, quoted, s.skb[SKB_DEVICE], mtu)
    return deliver(s, trace)


@kernel
def _redirect_rcv(h, s, data, trace, at, size):
    """A redirect, with or without the packet that it is about (kernel: ndisc_redirect_rcv)."""
    skb, end = s.skb, at + size
    if not is_link_local(skb[SKB_SRC_HI]):
        return drop(s, trace, R_NOT_SPECIFIED)
    if skb[SKB_AVAIL] < skb[SKB_LEN]:
        return capture_cut(s, trace, skb[SKB_LEN])
    if size < REDIRECT_HEADER or not options_end_well(data, at + REDIRECT_HEADER, end):
        return drop(s, trace, R_IPV6_NDISC_BAD_OPTIONS)
    option = find_option(data, at + REDIRECT_HEADER, end, OPT_REDIRECTED)
    if option >= 0:
        quoted = option + OPTION_UNIT
        return _icmpv6_notify(h, s, data, trace, at, quoted, end - quoted, NONE)
    hi, lo = (
        load64be(data, at + REDIRECT_DESTINATION),
        load64be(data, at + REDIRECT_DESTINATION + 8),
    )
    redirect6(h, s, data, at, skb[SKB_DST_HI], skb[SKB_DST_LO], hi, lo, skb[SKB_DEVICE], trace)
    return drop(s, trace, R_NOT_SPECIFIED)  # as the kernel calls it, believed or not


@kernel
def _ndisc_rcv(h, s, data, trace, at, size, kind, code):
    """Neighbour discovery: its first checks, and redirects (kernel: ndisc_rcv)."""
    skb = s.skb
    if skb[SKB_FRAG]:
        suppress = h.device[skb[SKB_DEVICE], DEV_SUPPRESS_FRAG_NDISC]
        note(trace, T_NDISC_FRAG, skb[SKB_DEVICE], suppress)
        if suppress:
            return drop(s, trace, R_IPV6_NDISC_FRAG)
    if load8(data, skb[SKB_IP] + HOP_LIMIT) != NDISC_HOP_LIMIT:
        return drop(s, trace, R_IPV6_NDISC_HOP_LIMIT)
    if code:
        return drop(s, trace, R_IPV6_NDISC_BAD_CODE)
    if kind == NDISC_REDIRECT:
        return _redirect_rcv(h, s, data, trace, at, size)
    return consume(s, trace, R_NONE)


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
        return _error(s, trace, R_ICMP_CSUM)
    if size < ICMP_HEADER:
        return _error(s, trace, R_NOT_SPECIFIED)
    kind, code = load8(data, at), load8(data, at + 1)
    note(trace, T_ICMP_IN, kind, code)
    _count_type(s, kind)
    if kind < ICMP6_INFORMATIONAL:  # errors, those of unknown type too
        if kind == ICMP6_TOO_BIG and size < ICMP_HEADER + HEADER:
            return _error(s, trace, R_NOT_SPECIFIED)
        mtu = load32be(data, at + 4) if kind == ICMP6_TOO_BIG else NONE
        quoted = at + ICMP_HEADER
        return _icmpv6_notify(h, s, data, trace, at, quoted, size - ICMP_HEADER, mtu)
    if kind == ICMP6_ECHO:
        return _echo(h, s, data, trace, at, size)
    if kind == ICMP6_ECHO_REPLY or kind == ICMP6_EXTENDED_ECHO_REPLY:
        return drop(s, trace, R_NO_SOCKET)  # no socket of this host waits for echo replies
    if NDISC_ROUTER_SOLICITATION <= kind <= NDISC_REDIRECT:
        return _ndisc_rcv(h, s, data, trace, at, size, kind, code)
    if kind == MLD_QUERY or kind == MLD_REPORT:
        return consume(s, trace, R_NONE)
    return drop(s, trace, R_NOT_SPECIFIED)
