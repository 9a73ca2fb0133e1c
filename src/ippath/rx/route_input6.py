"""IPv6 route input: the hint, then the FIB (kernel: ip6_can_use_hint, ip6_extract_route_hint,
ip6_route_input).

Input routing never drops by itself: "no route" is a route whose input handler does.
"""

from __future__ import annotations

from ippath.fib.exceptions import follow_exception, may_be_exception, use_exception6
from ippath.fib.lookup6 import fib_lookup6
from ippath.handles import copy_route
from ippath.jit import cold, hot
from ippath.rx.flow_dissector import dissect_upper
from ippath.rx.packet_hash import packet_hash6
from ippath.tables import (
    FLOW_L3MDEV,
    CONF_DISSECT6, CONF_EARLY_DEMUX, CONF_FORWARDING6, CONF_HINT, CONF_MULTIPATH6,
    CONF_REQUIRE_SRC6, CONF_RULES6, DEV_LOOPBACK, DST_DEVICE, DST_ERROR, DST_EXCEPTION, DST_GATEWAY_FAMILY, DST_GATEWAY_HI, DST_GATEWAY_LO, DST_IDENTITY, DST_INFO, DST_LOCAL,
    DST_MULTIPATH, DST_NH, DST_REDIRECT, DST_ROUTE, DST_RULE, DST_SET, DST_TABLE, DST_TYPE,
    ENETUNREACH, FLOW_DPORT, FLOW_DST_HI, FLOW_DST_LO, FLOW_HASH, FLOW_HAS_SRC,
    FLOW_IGNORE_LINKSTATE, FLOW_IIF, FLOW_INPUT, FLOW_LABEL, FLOW_MARK, FLOW_OIF, FLOW_PREFER,
    FLOW_PROTOCOL, FLOW_REACHABLE, FLOW_SCOPE, FLOW_SPORT, FLOW_SRC_HI, FLOW_SRC_LO, FLOW_STRICT,
    FLOW_TOS, HINT_HI, HINT_LO, HINT_PENDING, HINT_TOS, HINT_VALID, INFO_NH_FIRST, MISC_HINT_MISSED,
    MISC_HINT_REFUSED, MISC_HINT_USED, NH_DEVICE, NH_GATEWAY_FAMILY, NH_HI, NH_LO, NONE, RES_INFO,
    RES_NH, RES_ROUTE, RES_RULE, RES_TABLE, RES_TYPE, ROUTE_DST_HI, RTN_ANYCAST, RTN_LOCAL,
    RTN_MULTICAST, RTN_UNICAST, RTN_UNREACHABLE, SKB_DEVICE, SKB_DST_HI, SKB_DST_LO, SKB_HINTED,
    SKB_IP, SKB_MARK, SKB_NEXTHDR_AT, SKB_PROTOCOL, SKB_SRC_HI, SKB_SRC_LO, SKB_TOS,
)  # fmt: skip
from ippath.trace import T_HINT6, T_LOOPED6, T_ROUTE6, note
from ippath.udp.early_demux import udp_early_demux
from ippath.wire.ipv6 import NEXTHDR_ICMP, NEXT_HEADER, is_link_local, is_multicast
from ippath.wire.memory import load32be

IDENTITY6 = 1 << 32  # keeps IPv6 route identities apart from IPv4 ones
FAMILY6 = 6


@hot
def ip6_can_use_hint(s):
    """Same destination as the hint? (No TOS test and no source check in IPv6.)"""
    skb, hint = s.skb, s.hint
    return (
        hint[HINT_VALID] == FAMILY6
        and hint[HINT_LO] == skb[SKB_DST_LO]
        and hint[HINT_HI] == skb[SKB_DST_HI]
    )


@hot
def ip6_extract_route_hint(h, s):
    """Make the packet in hand the hint, unless source-specific routes or custom rules forbid it."""
    skb, hint = s.skb, s.hint
    hint[HINT_VALID] = 0
    if h.conf[CONF_HINT] == 0:
        return
    if h.conf[CONF_REQUIRE_SRC6] > 0 or h.conf[CONF_RULES6] or skb[DST_MULTIPATH]:
        s.misc[MISC_HINT_REFUSED] += 1
        return
    hint[HINT_PENDING] = 1
    hint[HINT_VALID] = FAMILY6
    hint[HINT_HI] = skb[SKB_DST_HI]
    hint[HINT_LO] = skb[SKB_DST_LO]
    hint[HINT_TOS] = skb[SKB_TOS]


@cold
def _bind_exception(h, s, route, nh):
    """Take what was learned about the destination (kernel: rt6_find_cached_rt)."""
    follow_exception(s, use_exception6(h, s, route, nh, s.skb[SKB_DST_HI], s.skb[SKB_DST_LO]))


@hot
def ip6_route_input(h, s, data, trace):
    """Attach a route to the packet in hand, an error route if there is none."""
    skb, fib = s.skb, h.fib6
    flow, result = s.flow[FLOW_INPUT], s.result[FLOW_INPUT]
    device = skb[SKB_DEVICE]
    dst_hi, dst_lo = skb[SKB_DST_HI], skb[SKB_DST_LO]
    flow[FLOW_SRC_HI], flow[FLOW_SRC_LO] = skb[SKB_SRC_HI], skb[SKB_SRC_LO]
    flow[FLOW_DST_HI], flow[FLOW_DST_LO] = dst_hi, dst_lo
    flow[FLOW_TOS] = skb[SKB_TOS]
    flow[FLOW_MARK] = skb[SKB_MARK]
    flow[FLOW_IIF] = device
    flow[FLOW_OIF] = NONE
    flow[FLOW_L3MDEV] = NONE
    flow[FLOW_SCOPE] = 0
    flow[FLOW_LABEL] = load32be(data, skb[SKB_IP]) & 0xFFFFF
    flow[FLOW_PROTOCOL] = skb[SKB_PROTOCOL]
    flow[FLOW_SPORT] = 0
    flow[FLOW_DPORT] = 0
    flow[FLOW_HAS_SRC] = 1
    flow[FLOW_IGNORE_LINKSTATE] = 0
    flow[FLOW_PREFER] = device
    flow[FLOW_STRICT] = is_link_local(dst_hi) or is_multicast(dst_hi)
    flow[FLOW_REACHABLE] = h.conf[CONF_FORWARDING6] == 0
    dissected = False
    if h.conf[CONF_DISSECT6]:
        dissect_upper(s, data, flow, True)
        dissected = flow[FLOW_PROTOCOL] == NEXTHDR_ICMP
    flow[FLOW_HASH] = packet_hash6(h, s, data, dissected) if h.conf[CONF_MULTIPATH6] else NONE
    error, multipath = fib_lookup6(h, s, FLOW_INPUT, trace)
    route, nh = result[RES_ROUTE], result[RES_NH]
    skb[DST_SET] = 1
    skb[DST_ERROR] = error
    skb[DST_ROUTE] = route
    skb[DST_INFO] = result[RES_INFO]
    skb[DST_NH] = nh
    skb[DST_RULE] = result[RES_RULE]
    skb[DST_TABLE] = result[RES_TABLE]
    skb[DST_MULTIPATH] = multipath
    skb[DST_REDIRECT] = 0
    skb[DST_GATEWAY_FAMILY] = 0
    skb[DST_LOCAL] = 0
    if error:
        skb[DST_TYPE] = RTN_UNREACHABLE
        skb[DST_DEVICE] = 0
        # one object per kind of error, whatever the destination (kernel: ip6_null_entry and twins)
        skb[DST_IDENTITY] = -(IDENTITY6 + error)
        return
    kind = result[RES_TYPE]
    skb[DST_DEVICE] = fib.nexthop[nh, NH_DEVICE]
    skb[DST_IDENTITY] = IDENTITY6 + (route << 16) + nh - fib.info[result[RES_INFO], INFO_NH_FIRST]
    skb[DST_GATEWAY_FAMILY] = fib.nexthop[nh, NH_GATEWAY_FAMILY]
    skb[DST_GATEWAY_HI] = fib.nexthop[nh, NH_HI]
    skb[DST_GATEWAY_LO] = fib.nexthop[nh, NH_LO]
    skb[DST_EXCEPTION] = NONE
    if may_be_exception(h, s):
        _bind_exception(h, s, route, nh)
    if kind == RTN_LOCAL or kind == RTN_ANYCAST:
        skb[DST_TYPE] = RTN_LOCAL
        skb[DST_LOCAL] = 1
    elif h.device[skb[DST_DEVICE], DEV_LOOPBACK]:
        skb[DST_TYPE] = RTN_UNREACHABLE
        skb[DST_ERROR] = ENETUNREACH
        note(trace, T_LOOPED6, skb[DST_DEVICE])
    elif is_multicast(dst_hi) and is_multicast(fib.route[route, ROUTE_DST_HI]):
        skb[DST_TYPE] = RTN_MULTICAST
    else:
        skb[DST_TYPE] = RTN_UNICAST
    note(trace, T_ROUTE6, route, kind, skb[DST_DEVICE])


@hot
def route_input6(h, s, data, trace):
    """Route the packet in hand: by the hint where it serves, else by the tables."""
    if s.skb[DST_SET] == 1:
        return  # looped back
    if ip6_can_use_hint(s):
        note(trace, T_HINT6)
        skb, hint = s.skb, s.hint
        copy_route(skb, hint)
        skb[SKB_HINTED] = 1
        s.misc[MISC_HINT_USED] += 1
        return
    if h.conf[CONF_HINT]:
        s.misc[MISC_HINT_MISSED] += 1
    if h.conf[CONF_EARLY_DEMUX] and s.skb[SKB_NEXTHDR_AT] == NEXT_HEADER:
        if udp_early_demux(h, s, data, trace):
            return
    ip6_route_input(h, s, data, trace)
