"""ICMPv6 errors, echo replies and redirects that this host sends (kernel: icmp6_send,
icmpv6_echo_reply, ndisc_send_redirect; RFC 4443 section 2.4).
"""

from __future__ import annotations

from ippath.fib.search import search6
from ippath.jit import cold, kernel
from ippath.mib import (
    M_Icmp6OutDestUnreachs, M_Icmp6OutEchoReplies, M_Icmp6OutMsgs, M_Icmp6OutParmProblems,
    M_Icmp6OutPktTooBigs, M_Icmp6OutRateLimitHost, M_Icmp6OutRedirects, M_Icmp6OutTimeExcds,
    M_Icmp6OutType0, M_IcmpOutRateLimitGlobal,
)  # fmt: skip
from ippath.rx.rate_limit import find_peer, global_allows, global_consume, peer_allows
from ippath.tables import (
    ADDR_HI, ADDR_LO, CONF_FWMARK_REFLECT6, CONF_ICMP6_RATELIMIT_NS,
    CONF_ICMP6_RATEMASK_HI, CONF_ICMP6_RATEMASK_LO, DEV_HOP_LIMIT6, DEV_LOOPBACK,
    DEV_RAW_IP, DST_DEVICE, DST_GATEWAY_FAMILY, DST_GATEWAY_HI, DST_GATEWAY_LO, FLOW_OIF,
    FLOW_OUTPUT, FLOW_SRC_HI, FLOW_SRC_LO, NEIGH_MAC, NH_GATEWAY_FAMILY, NODE_COUNT, NODE_FIRST,
    NODE_PLEN, NONE, PACKET_HOST, RES_NH, RES_ROUTE, ROUTE_HOPLIMIT, ROUTE_TYPE, RTN_ANYCAST,
    SKB_AVAIL, SKB_DEVICE, SKB_DST_HI, SKB_DST_LO, SKB_IP, SKB_LEN, SKB_MARK, SKB_PKT_TYPE,
    SKB_SRC_HI, SKB_SRC_LO, SKB_TOS,
)  # fmt: skip
from ippath.trace import T_ICMP6_SEND, T_REDIRECT, note
from ippath.tx.emit import neighbour_row
from ippath.tx.ip_output6 import ip_output6
from ippath.tx.route_output6 import (
    address_row6, link_local_address, route_output6, select_source6,
)  # fmt: skip
from ippath.wire.checksum import pseudo6, transport
from ippath.wire.icmp import (
    ICMP6_ECHO_REPLY, ICMP6_INFORMATIONAL, ICMP6_PARAMETER_PROBLEM, ICMP6_TIME_EXCEEDED,
    ICMP6_TOO_BIG, ICMP6_UNREACHABLE, ICMP_HEADER, NDISC_REDIRECT, UNKNOWN_OPTION,
)  # fmt: skip
from ippath.wire.ipv6 import (
    DESTINATION, HEADER, NEXTHDR_AUTH, NEXTHDR_DEST, NEXTHDR_FRAGMENT, NEXTHDR_HOP, NEXTHDR_ICMP,
    NEXTHDR_ROUTING, NEXT_HEADER, SOURCE, is_link_local, is_multicast, is_unspecified,
)  # fmt: skip
from ippath.wire.memory import copy, load8, load16be, store8, store16be, store32be, store64be

MINIMUM_MTU = 1280
SENT, SUPPRESSED, LIMITED_ALL, LIMITED_PEER, NO_WAY_BACK = range(5)
MAX_EXTENSIONS = 64


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
def skip_extensions(s, data):
    """(upper protocol, its offset from the IP header, fragment offset, end seen) of the packet in hand.

    The offset is -1 where the chain runs out of the captured packet (kernel: ipv6_skip_exthdr).
    """
    skb = s.skb
    ip, avail = skb[SKB_IP], skb[SKB_AVAIL]
    header, at = load8(data, ip + NEXT_HEADER), HEADER
    fragment = 0
    for _ in range(MAX_EXTENSIONS):
        if not (
            header == NEXTHDR_HOP
            or header == NEXTHDR_ROUTING
            or header == NEXTHDR_FRAGMENT
            or header == NEXTHDR_AUTH
            or header == NEXTHDR_DEST
        ):
            return header, at, fragment
        if at + 8 > avail:
            return header, -1, fragment
        if header == NEXTHDR_FRAGMENT:
            fragment = load16be(data, ip + at + 2) & 0xFFF8
            size = 8
            if fragment:
                return load8(data, ip + at), at + 8, fragment
        elif header == NEXTHDR_AUTH:
            size = (load8(data, ip + at + 1) + 2) * 4
        else:
            size = (load8(data, ip + at + 1) + 1) * 8
        header = load8(data, ip + at)
        at += size
    return header, -1, fragment


@kernel
def _is_ineligible(s, data):
    """Is the packet in hand an ICMPv6 error, which must not be answered (kernel: is_ineligible)?"""
    skb = s.skb
    header, at, fragment = skip_extensions(s, data)
    if at < 0:
        return False
    if header == NEXTHDR_ICMP:
        if fragment:
            return False
        if at + 1 > skb[SKB_AVAIL]:
            return True
        return load8(data, skb[SKB_IP] + at) < ICMP6_INFORMATIONAL
    return False


@kernel
def anycast_address(h, hi, lo):
    """Is this an anycast address of the host (kernel: ipv6_anycast_destination)?"""
    fib = h.fib6
    for table in range(fib.table.shape[0]):
        node = search6(fib, table, hi, lo)
        if node != NONE and fib.node[node, NODE_PLEN] == 128:
            first = fib.node[node, NODE_FIRST]
            for route in range(first, first + fib.node[node, NODE_COUNT]):
                if fib.route[route, ROUTE_TYPE] == RTN_ANYCAST:
                    return True
    return False


@kernel
def _is_limited(h, kind):
    """Does net.ipv6.icmp.ratemask cover this type (kernel: icmpv6_mask_allow)?"""
    if kind > 127:
        return False
    if kind < 64:
        return (h.conf[CONF_ICMP6_RATEMASK_LO] >> kind) & 1 == 1
    return (h.conf[CONF_ICMP6_RATEMASK_HI] >> (kind - 64)) & 1 == 1


@kernel
def _peer_limit(h, s, limited, out, hi, lo):
    """Per-destination limit, then the charge to the shared bucket (kernel: icmpv6_xrlim_allow)."""
    if not limited:
        return True
    if h.device[out, DEV_LOOPBACK] == 0 and h.conf[CONF_ICMP6_RATELIMIT_NS] > 0:
        peer = find_peer(h, s, 6, hi, lo)
        if not peer_allows(s, peer, h.conf[CONF_ICMP6_RATELIMIT_NS]):
            s.counters[M_Icmp6OutRateLimitHost] += 1
            return False
    global_consume(s)
    return True


@kernel
def _hop_limit(h, s):
    result, flow = s.result[FLOW_OUTPUT], s.flow[FLOW_OUTPUT]
    limit = h.fib6.route[result[RES_ROUTE], ROUTE_HOPLIMIT]
    return limit if limit else h.device[flow[FLOW_OIF], DEV_HOP_LIMIT6]


@kernel
def _write_and_send(
    h, s, trace, kind, code, info, label, traffic_class, hop_limit, dst_hi, dst_lo, size
):
    """Complete the message whose body is in scratch from byte 48 and send it; `size` counts the ICMPv6 part."""
    flow, buf = s.flow[FLOW_OUTPUT], s.scratch
    store32be(buf, 0, (6 << 28) | (traffic_class << 20) | label)
    store16be(buf, 4, size)
    store8(buf, 6, NEXTHDR_ICMP)
    store8(buf, 7, hop_limit)
    store64be(buf, SOURCE, flow[FLOW_SRC_HI])
    store64be(buf, SOURCE + 8, flow[FLOW_SRC_LO])
    store64be(buf, DESTINATION, dst_hi)
    store64be(buf, DESTINATION + 8, dst_lo)
    store8(buf, HEADER, kind)
    store8(buf, HEADER + 1, code)
    store16be(buf, HEADER + 2, 0)
    store32be(buf, HEADER + 4, info)
    store16be(buf, HEADER + 2, transport(buf, HEADER, size, pseudo6(buf, 0, NEXTHDR_ICMP, size)))
    count_icmp6_out(s, kind)
    ip_output6(h, s, trace, HEADER + size)


@kernel
def _answerable(s, data, kind, code, info):
    """May the packet in hand be answered with this error (RFC 4443 section 2.4 (e))?"""
    skb = s.skb
    if is_multicast(skb[SKB_DST_HI]) or skb[SKB_PKT_TYPE] != PACKET_HOST:
        option = 0
        if kind == ICMP6_PARAMETER_PROBLEM and code == UNKNOWN_OPTION:
            if info < skb[SKB_AVAIL]:
                option = load8(data, skb[SKB_IP] + info)
        if kind != ICMP6_TOO_BIG and option & 0xC0 != 0x80:
            return False
    if is_unspecified(skb[SKB_SRC_HI], skb[SKB_SRC_LO]) or is_multicast(skb[SKB_SRC_HI]):
        return False
    return not _is_ineligible(s, data)


@cold
def icmp6_send(h, s, data, trace, kind, code, info):
    """Answer the packet in hand with an ICMPv6 error, if it may be answered."""
    skb = s.skb
    hi, lo = skb[SKB_SRC_HI], skb[SKB_SRC_LO]
    if not _answerable(s, data, kind, code, info) or anycast_address(h, hi, lo):
        note(trace, T_ICMP6_SEND, kind, code, hi, lo, SUPPRESSED)
        return
    device = skb[SKB_DEVICE]
    limited = _is_limited(h, kind)
    if h.device[device, DEV_LOOPBACK] == 0 and limited and not global_allows(h, s):
        s.counters[M_IcmpOutRateLimitGlobal] += 1
        note(trace, T_ICMP6_SEND, kind, code, hi, lo, LIMITED_ALL)
        return
    src_hi, src_lo = 0, 0
    if not is_multicast(skb[SKB_DST_HI]) and (
        address_row6(h, skb[SKB_DST_HI], skb[SKB_DST_LO]) != NONE
        or anycast_address(h, skb[SKB_DST_HI], skb[SKB_DST_LO])
    ):
        src_hi, src_lo = skb[SKB_DST_HI], skb[SKB_DST_LO]
    mark = skb[SKB_MARK] if h.conf[CONF_FWMARK_REFLECT6] else 0
    if is_unspecified(src_hi, src_lo):
        # the address of the incoming device, unless the route names one (kernel: icmp6_send)
        row = select_source6(h, device, hi, lo)
        if row != NONE:
            src_hi, src_lo = h.address[row, ADDR_HI], h.address[row, ADDR_LO]
    oif = device if is_link_local(hi) else NONE
    if route_output6(h, s, src_hi, src_lo, hi, lo, 0, mark, NEXTHDR_ICMP, oif, trace):
        note(trace, T_ICMP6_SEND, kind, code, hi, lo, NO_WAY_BACK)
        return
    if not _peer_limit(h, s, limited, s.flow[FLOW_OUTPUT, FLOW_OIF], hi, lo):
        note(trace, T_ICMP6_SEND, kind, code, hi, lo, LIMITED_PEER)
        return
    quoted = min(skb[SKB_LEN], MINIMUM_MTU - HEADER - ICMP_HEADER)
    present = min(quoted, skb[SKB_AVAIL])
    copy(s.scratch, HEADER + ICMP_HEADER, data, skb[SKB_IP], present)
    for k in range(present, quoted):
        store8(s.scratch, HEADER + ICMP_HEADER + k, 0)
    note(trace, T_ICMP6_SEND, kind, code, hi, lo, SENT)
    _write_and_send(
        h, s, trace, kind, code, info, 0, 0, _hop_limit(h, s), hi, lo, ICMP_HEADER + quoted
    )


@kernel
def icmp6_echo_reply(h, s, data, trace, info, body, size):
    """Answer an echo request; `size` bytes of body start at `body` in the packet."""
    skb = s.skb
    hi, lo = skb[SKB_SRC_HI], skb[SKB_SRC_LO]
    src_hi, src_lo = skb[SKB_DST_HI], skb[SKB_DST_LO]
    if is_multicast(src_hi) or anycast_address(h, src_hi, src_lo):
        src_hi, src_lo = 0, 0
    device = skb[SKB_DEVICE]
    limited = _is_limited(h, ICMP6_ECHO_REPLY)
    if limited and not global_allows(h, s):
        return
    mark = skb[SKB_MARK] if h.conf[CONF_FWMARK_REFLECT6] else 0
    if route_output6(h, s, src_hi, src_lo, hi, lo, 0, mark, NEXTHDR_ICMP, device, trace):
        note(trace, T_ICMP6_SEND, ICMP6_ECHO_REPLY, 0, hi, lo, NO_WAY_BACK)
        return
    if not _peer_limit(h, s, limited, s.flow[FLOW_OUTPUT, FLOW_OIF], hi, lo):
        return
    present = max(0, min(size, skb[SKB_IP] + skb[SKB_AVAIL] - body))
    copy(s.scratch, HEADER + ICMP_HEADER, data, body, present)
    for k in range(present, size):
        store8(s.scratch, HEADER + ICMP_HEADER + k, 0)
    note(trace, T_ICMP6_SEND, ICMP6_ECHO_REPLY, 0, hi, lo, SENT)
    _write_and_send(
        h, s, trace, ICMP6_ECHO_REPLY, 0, info, 0, skb[SKB_TOS], _hop_limit(h, s), hi, lo,
        ICMP_HEADER + size,
    )  # fmt: skip


@cold
def ndisc_send_redirect(h, s, data, trace):
    """Tell the sender of the packet in hand about the better first hop (RFC 4861 section 8.2)."""
    skb = s.skb
    device = skb[DST_DEVICE]
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
    if route_output6(h, s, src_hi, src_lo, hi, lo, 0, 0, NEXTHDR_ICMP, device, trace):
        note(trace, T_REDIRECT, 0)
        return
    nh = s.result[FLOW_OUTPUT, RES_NH]
    if nh != NONE and h.fib6.nexthop[nh, NH_GATEWAY_FAMILY]:
        note(trace, T_REDIRECT, 0)
        return
    peer = find_peer(h, s, 6, hi, lo)
    if not peer_allows(s, peer, 1_000_000_000):
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
