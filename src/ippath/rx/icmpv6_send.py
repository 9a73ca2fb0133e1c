"""ICMPv6 errors, echo replies and redirects that this host sends (kernel: icmp6_send,
icmpv6_echo_reply, ndisc_send_redirect; RFC 4443 section 2.4).
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.mib import (
    M_Icmp6OutDestUnreachs, M_Icmp6OutEchoReplies, M_Icmp6OutMsgs,
    M_Icmp6OutParmProblems, M_Icmp6OutPktTooBigs, M_Icmp6OutRateLimitHost, M_Icmp6OutRedirects,
    M_Icmp6OutTimeExcds, M_Icmp6OutType0, M_IcmpOutRateLimitGlobal, M_Ip6OutNoRoutes,
)  # fmt: skip
from ippath.rx.exthdr_core import skip_extensions
from ippath.rx.flow_dissector import flow_dissect
from ippath.rx.packet import copy_captured
from ippath.rx.packet_hash import packet_hash6
from ippath.rx.rate_limit import SECOND, find_peer, global_allows, global_consume, peer_allows
from ippath.tables import (
    DEV_MASTER,
    ADDR_HI, ADDR_LO, CONF_ANYCAST_AS_UNICAST6, CONF_ANYCAST_SRC_ECHO6, CONF_FWMARK_REFLECT6,
    CONF_ICMP6_RATELIMIT_NS, CONF_ICMP6_RATEMASK, CONF_MULTIPATH6, DEV_HOP_LIMIT6, DEV_LOOPBACK,
    DEV_RAW_IP, DST_DEVICE, DST_GATEWAY_FAMILY, DST_GATEWAY_HI, DST_GATEWAY_LO, DST_INFO,
    FLOW_DPORT, FLOW_OIF, FLOW_OUTPUT, FLOW_PROTOCOL, FLOW_SPARE, FLOW_SPORT, FLOW_SRC_HI,
    FLOW_SRC_LO, INFO_HOPLIMIT, INFO_PREFSRC_SET, INFO_TYPE, NEIGH_MAC, NH_GATEWAY_FAMILY, NONE,
    PACKET_HOST, RES_INFO, RES_NH, RES_ROUTE, RTN_LOCAL, SKB_AVAIL, SKB_DEVICE, SKB_DST_HI,
    SKB_DST_LO, SKB_IP, SKB_LEN, SKB_MARK, SKB_PKT_TYPE, SKB_SRC_HI, SKB_SRC_LO, SKB_TOS,
    SKB_TTL_SPENT,
)  # fmt: skip
from ippath.trace import T_ICMP6_SEND, T_REDIRECT, note
from ippath.tx.emit import neighbour_row
from ippath.tx.ip_output6 import MINIMUM_MTU, ip_output6
from ippath.tx.path_mtu import output_mtu6
from ippath.tx.route_output6 import (
    choose_source6, is_anycast_route6, is_own_address6, is_own_anycast6, link_local_address,
    look_up_output6, select_source6,
)  # fmt: skip
from ippath.wire.checksum import pseudo6, transport
from ippath.wire.icmp import (
    ICMP6_ECHO_REPLY, ICMP6_INFORMATIONAL, ICMP6_PARAMETER_PROBLEM, ICMP6_TIME_EXCEEDED,
    ICMP6_TOO_BIG, ICMP6_UNREACHABLE, ICMP_HEADER, NDISC_REDIRECT, UNKNOWN_OPTION,
)  # fmt: skip
from ippath.wire.ipv6 import (
    store_header6, HEADER, HOP_LIMIT, NEXTHDR_ICMP, is_link_local, is_loopback,
    is_multicast, is_unspecified,
)  # fmt: skip
from ippath.wire.memory import copy, load8, store8, store16be, store32be, store64be

SENT, SUPPRESSED, LIMITED_ALL, LIMITED_PEER, NO_WAY_BACK = range(5)


@kernel
def count_icmp6_out(s, kind):
    """Count an ICMPv6 message that leaves (kernel: ICMP6MSGOUT_INC_STATS)."""
    s.counters[M_Icmp6OutMsgs] += 1
    s.counters[M_Icmp6OutType0 + kind] += 1
    if kind == ICMP6_UNREACHABLE:
        s.counters[M_Icmp6OutDestUnreachs] += 1
    elif kind == ICMP6_TOO_BIG:
        s.counters[M_Icmp6OutPktTooBigs] += 1
    elif kind == ICMP6_TIME_EXCEEDED:
        s.counters[M_Icmp6OutTimeExcds] += 1
    elif kind == ICMP6_PARAMETER_PROBLEM:
        s.counters[M_Icmp6OutParmProblems] += 1
    elif kind == ICMP6_ECHO_REPLY:
        s.counters[M_Icmp6OutEchoReplies] += 1
    elif kind == NDISC_REDIRECT:
        s.counters[M_Icmp6OutRedirects] += 1


@kernel
def _is_ineligible(s, data):
    """Is the packet in hand an ICMPv6 error, which must not be answered (kernel: is_ineligible)?"""
    skb = s.skb
    header, at, fragment = skip_extensions(data, skb[SKB_IP], skb[SKB_AVAIL])
    if at < 0 or header != NEXTHDR_ICMP:
        return False
    if at + 1 > skb[SKB_AVAIL]:
        return fragment == 0  # a first fragment without the message's first byte may be answered
    return load8(data, skb[SKB_IP] + at) < ICMP6_INFORMATIONAL


@kernel
def _is_limited(h, kind):
    """Does net.ipv6.icmp.ratemask cover this type (kernel: icmpv6_mask_allow)?"""
    return (h.conf[CONF_ICMP6_RATEMASK + (kind >> 6)] >> (kind & 63)) & 1 == 1


@kernel
def _peer_limit(h, s, out, hi, lo):
    """Per-destination limit, then the charge to the shared bucket (kernel: icmpv6_xrlim_allow)."""
    if h.device[out, DEV_LOOPBACK] == 0 and h.conf[CONF_ICMP6_RATELIMIT_NS] > 0:
        peer = find_peer(h, s, 6, hi, lo)
        if not peer_allows(s, peer, h.conf[CONF_ICMP6_RATELIMIT_NS]):
            s.counters[M_Icmp6OutRateLimitHost] += 1
            return False
    global_consume(s)
    return True


@kernel
def _global_limit(h, s, limited):
    """The limit for all, from which messages by the loopback device are free (icmpv6_global_allow)."""
    if not limited or h.device[s.skb[SKB_DEVICE], DEV_LOOPBACK] or global_allows(h, s):
        return True
    s.counters[M_IcmpOutRateLimitGlobal] += 1
    return False


@kernel
def _count_no_way_back(h, s, data):
    """Look the way back up a second time, as IPsec wants it, for the sake of its counter.

    The way is that of the packet in hand turned round, by the device that it came by (kernel:
    icmpv6_route_lookup, xfrm_decode_session_reverse).  Without IPsec its route is not used.
    """
    skb, flow = s.skb, s.flow[FLOW_SPARE]
    flow_dissect(s, data, True, True)
    ports = flow[FLOW_DPORT] << 16 | flow[FLOW_SPORT]
    error = look_up_output6(
        h, s, FLOW_SPARE, skb[SKB_DST_HI], skb[SKB_DST_LO], skb[SKB_SRC_HI], skb[SKB_SRC_LO],
        0, skb[SKB_MARK], flow[FLOW_PROTOCOL], ports, skb[SKB_DEVICE], NONE, None,
    )  # fmt: skip
    choose_source6(h, s, FLOW_SPARE, error, skb[SKB_DEVICE], None)


@kernel
def _hop_limit(h, s):
    result, flow = s.result[FLOW_OUTPUT], s.flow[FLOW_OUTPUT]
    limit = h.fib6.info[result[RES_INFO], INFO_HOPLIMIT]
    return limit if limit else h.device[flow[FLOW_OIF], DEV_HOP_LIMIT6]


@cold
def copy_packet6(s, data, at, size):
    """Copy the first `size` bytes of the packet in hand to `scratch[at]`, its hop limit as spent.

    What the capture cut off reads as zeros.
    """
    skb, buf = s.skb, s.scratch
    copy_captured(s, data, skb[SKB_IP], at, size)
    if skb[SKB_TTL_SPENT]:
        store8(buf, at + HOP_LIMIT, load8(buf, at + HOP_LIMIT) - 1)


@kernel
def _write_and_send(
    h, s, trace, kind, code, info, label, traffic_class, hop_limit, dst_hi, dst_lo, size
):
    """Complete the message whose body is in scratch from byte 48 and send it.

    `size` counts the ICMPv6 part.
    """
    flow, buf = s.flow[FLOW_OUTPUT], s.scratch
    mtu = output_mtu6(h, s, s.result[FLOW_OUTPUT], flow[FLOW_OIF])
    store_header6(
        buf, 0, (6 << 28) | (traffic_class << 20) | label, size, NEXTHDR_ICMP, hop_limit,
        flow[FLOW_SRC_HI], flow[FLOW_SRC_LO], dst_hi, dst_lo,
    )  # fmt: skip
    store8(buf, HEADER, kind)
    store8(buf, HEADER + 1, code)
    store16be(buf, HEADER + 2, 0)
    store32be(buf, HEADER + 4, info)
    store16be(buf, HEADER + 2, transport(buf, HEADER, size, pseudo6(buf, 0, NEXTHDR_ICMP, size)))
    count_icmp6_out(s, kind)
    ip_output6(h, s, trace, HEADER + size, mtu)


@kernel
def _was_meant_for_one(skb):
    """Unicast, at link level too?"""
    return not is_multicast(skb[SKB_DST_HI]) and skb[SKB_PKT_TYPE] == PACKET_HOST


@kernel
def _answerable(s, data, kind, code, info):
    """May the packet in hand be answered with this error (RFC 4443 section 2.4 (e))?"""
    skb = s.skb
    if not _was_meant_for_one(skb):
        option = 0
        if kind == ICMP6_PARAMETER_PROBLEM and code == UNKNOWN_OPTION:
            option = load8(data, skb[SKB_IP] + info) if info < skb[SKB_AVAIL] else 0x80
        if kind != ICMP6_TOO_BIG and option & 0xC0 != 0x80:
            return False
    if is_unspecified(skb[SKB_SRC_HI], skb[SKB_SRC_LO]) or is_multicast(skb[SKB_SRC_HI]):
        return False
    return not _is_ineligible(s, data)


@kernel
def _error_source(h, s, hi, lo):
    """Source address of an error to (hi, lo), or :: to leave it to the route (kernel: icmp6_send).

    The address that the packet was sent to, if it is ours; else the best of the device it came by.
    """
    skb = s.skb
    device, dst_hi, dst_lo = skb[SKB_DEVICE], skb[SKB_DST_HI], skb[SKB_DST_LO]
    if _was_meant_for_one(skb) and (
        is_own_address6(h, device, dst_hi, dst_lo) or is_own_anycast6(h, device, dst_hi, dst_lo)
    ):
        return dst_hi, dst_lo
    error = look_up_output6(h, s, FLOW_SPARE, 0, 0, hi, lo, 0, 0, NEXTHDR_ICMP, 0, NONE, NONE, None)
    if error == 0 and h.fib6.info[s.result[FLOW_SPARE, RES_INFO], INFO_PREFSRC_SET]:
        return 0, 0
    row = select_source6(h, device, hi, lo)
    if row == NONE:
        return 0, 0
    return h.address[row, ADDR_HI], h.address[row, ADDR_LO]


@cold
def icmp6_send(h, s, data, trace, kind, code, info):
    """Answer the packet in hand with an ICMPv6 error, if it may be answered."""
    skb = s.skb
    hi, lo = skb[SKB_SRC_HI], skb[SKB_SRC_LO]
    if not _answerable(s, data, kind, code, info):
        note(trace, T_ICMP6_SEND, kind, code, hi, lo, SUPPRESSED)
        return
    limited = _is_limited(h, kind)
    if not _global_limit(h, s, limited):
        note(trace, T_ICMP6_SEND, kind, code, hi, lo, LIMITED_ALL)
        return
    src_hi, src_lo = _error_source(h, s, hi, lo)
    mark = skb[SKB_MARK] if h.conf[CONF_FWMARK_REFLECT6] else 0
    oif = h.device[skb[SKB_DEVICE], DEV_MASTER]
    if is_link_local(hi) or is_loopback(hi, lo):
        oif = skb[SKB_DEVICE]
    hashed = packet_hash6(h, s, data, False) if h.conf[CONF_MULTIPATH6] else NONE
    error = look_up_output6(
        h, s, FLOW_OUTPUT, src_hi, src_lo, hi, lo, 0, mark, NEXTHDR_ICMP, kind << 8 | code, oif,
        hashed, trace,
    )  # fmt: skip
    if limited:
        if error:
            s.counters[M_Ip6OutNoRoutes] += 1
            s.counters[M_Icmp6OutRateLimitHost] += 1
            note(trace, T_ICMP6_SEND, kind, code, hi, lo, NO_WAY_BACK)
            return
        if not _peer_limit(h, s, s.flow[FLOW_OUTPUT, FLOW_OIF], hi, lo):
            note(trace, T_ICMP6_SEND, kind, code, hi, lo, LIMITED_PEER)
            return
    if choose_source6(h, s, FLOW_OUTPUT, error, oif, trace):
        note(trace, T_ICMP6_SEND, kind, code, hi, lo, NO_WAY_BACK)
        return
    result = s.result[FLOW_OUTPUT]
    if h.conf[CONF_ANYCAST_AS_UNICAST6] == 0 and is_anycast_route6(
        h, result[RES_ROUTE], result[RES_NH], hi, lo
    ):
        note(trace, T_ICMP6_SEND, kind, code, hi, lo, SUPPRESSED)
        return
    _count_no_way_back(h, s, data)
    quoted = min(skb[SKB_LEN], MINIMUM_MTU - HEADER - ICMP_HEADER)
    copy_packet6(s, data, HEADER + ICMP_HEADER, quoted)
    note(trace, T_ICMP6_SEND, kind, code, hi, lo, SENT)
    _write_and_send(
        h, s, trace, kind, code, info, 0, 0, _hop_limit(h, s), hi, lo, ICMP_HEADER + quoted
    )


@kernel
def icmp6_echo_reply(h, s, data, trace, code, info, body, size, anycast):
    """Answer an echo request; `size` bytes of body start at `body` in the packet.

    True if the answer was sent (kernel: icmpv6_echo_reply).
    """
    skb = s.skb
    hi, lo = skb[SKB_SRC_HI], skb[SKB_SRC_LO]
    src_hi, src_lo = skb[SKB_DST_HI], skb[SKB_DST_LO]
    unicast = h.fib6.info[skb[DST_INFO], INFO_TYPE] == RTN_LOCAL
    if not unicast and not (anycast and h.conf[CONF_ANYCAST_SRC_ECHO6]):
        src_hi, src_lo = 0, 0
    device = skb[SKB_DEVICE]
    mark = skb[SKB_MARK] if h.conf[CONF_FWMARK_REFLECT6] else 0
    error = look_up_output6(
        h, s, FLOW_OUTPUT, src_hi, src_lo, hi, lo, 0, mark, NEXTHDR_ICMP,
        ICMP6_ECHO_REPLY << 8, device, NONE, trace,
    )  # fmt: skip
    if choose_source6(h, s, FLOW_OUTPUT, error, device, trace):
        note(trace, T_ICMP6_SEND, ICMP6_ECHO_REPLY, code, hi, lo, NO_WAY_BACK)
        return False
    limited = _is_limited(h, ICMP6_ECHO_REPLY)
    if not _global_limit(h, s, limited):
        note(trace, T_ICMP6_SEND, ICMP6_ECHO_REPLY, code, hi, lo, LIMITED_ALL)
        return False
    if limited and not _peer_limit(h, s, s.flow[FLOW_OUTPUT, FLOW_OIF], hi, lo):
        note(trace, T_ICMP6_SEND, ICMP6_ECHO_REPLY, code, hi, lo, LIMITED_PEER)
        return False
    copy_captured(s, data, body, HEADER + ICMP_HEADER, size)
    note(trace, T_ICMP6_SEND, ICMP6_ECHO_REPLY, code, hi, lo, SENT)
    _write_and_send(
        h, s, trace, ICMP6_ECHO_REPLY, code, info, 0, skb[SKB_TOS], _hop_limit(h, s), hi, lo,
        ICMP_HEADER + size,
    )  # fmt: skip
    return True


@cold
def ndisc_send_redirect(h, s, data, trace):
    """Tell the sender of the packet in hand about the better first hop (RFC 4861 section 8.2)."""
    skb = s.skb
    device = skb[DST_DEVICE]
    # one limit for each destination, one for each source
    peer = find_peer(h, s, 6, skb[SKB_DST_HI], skb[SKB_DST_LO])
    if not peer_allows(s, peer, SECOND):
        note(trace, T_REDIRECT, 0)
        return
    target_hi, target_lo = skb[SKB_DST_HI], skb[SKB_DST_LO]
    if skb[DST_GATEWAY_FAMILY]:
        target_hi, target_lo = skb[DST_GATEWAY_HI], skb[DST_GATEWAY_LO]
    source = link_local_address(h, device)
    if source == NONE:
        note(trace, T_REDIRECT, 0)
        return
    on_link = target_hi == skb[SKB_DST_HI] and target_lo == skb[SKB_DST_LO]
    if not on_link and not is_link_local(target_hi):
        note(trace, T_REDIRECT, 0)
        return
    hi, lo = skb[SKB_SRC_HI], skb[SKB_SRC_LO]
    src_hi, src_lo = h.address[source, ADDR_HI], h.address[source, ADDR_LO]
    if look_up_output6(
        h, s, FLOW_OUTPUT, src_hi, src_lo, hi, lo, 0, 0, NEXTHDR_ICMP, NDISC_REDIRECT << 8,
        device, NONE, trace,
    ):  # fmt: skip
        note(trace, T_REDIRECT, 0)
        return
    nh = s.result[FLOW_OUTPUT, RES_NH]
    if nh != NONE and h.fib6.nexthop[nh, NH_GATEWAY_FAMILY]:
        note(trace, T_REDIRECT, 0)
        return
    peer = find_peer(h, s, 6, hi, lo)
    if not peer_allows(s, peer, SECOND):
        note(trace, T_REDIRECT, 0)
        return
    note(trace, T_REDIRECT, 1)
    buf = s.scratch
    body = HEADER + ICMP_HEADER
    store64be(buf, body, target_hi)
    store64be(buf, body + 8, target_lo)
    store64be(buf, body + 16, skb[SKB_DST_HI])
    store64be(buf, body + 24, skb[SKB_DST_LO])
    size = 32
    row = neighbour_row(h, device, target_hi, target_lo)
    if row >= 0 and h.neighbour[row, NEIGH_MAC] >= 0 and h.device[device, DEV_RAW_IP] == 0:
        mac = h.neighbour[row, NEIGH_MAC]
        store16be(buf, body + size, 0x0201)  # target link-layer address, one unit of 8 bytes
        store16be(buf, body + size + 2, mac >> 32)
        store32be(buf, body + size + 4, mac & 0xFFFFFFFF)
        size += 8
    room = MINIMUM_MTU - HEADER - ICMP_HEADER - size - 8
    quoted = min(room, skb[SKB_LEN], skb[SKB_AVAIL]) & ~7
    store32be(buf, body + size, (4 << 24) | (((quoted + 8) >> 3) << 16))  # redirected header
    store32be(buf, body + size + 4, 0)
    copy(buf, body + size + 8, data, skb[SKB_IP], quoted)
    size += 8 + quoted
    _write_and_send(h, s, trace, NDISC_REDIRECT, 0, 0, 0, 0, 255, hi, lo, ICMP_HEADER + size)
