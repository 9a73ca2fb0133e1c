"""Questions for routes without packets: what `ip route get` asks (kernel: inet_rtm_getroute,
inet6_rtm_getroute).

In:  one row ASK_* that holds for all, and the destinations.   Out: a row GOT_* for each.
"""

from __future__ import annotations

from ippath.fib.exceptions import bind_exception6, is_on_link6
from ippath.fib.local import has_joined
from ippath.fib.lookup6 import fib_lookup6
from ippath.handles import open_bytes, open_state, open_tables
from ippath.jit import entry, kernel
from ippath.rx.packet import CONTINUE
from ippath.rx.route_input4 import ip_route_input_slow
from ippath.tables import (
    FLOW_L3MDEV,
    ADDR_HI, ADDR_LO, ASK_FAMILY, ASK_IIF, ASK_MARK, ASK_OIF, ASK_PORTS, ASK_PROTOCOL, ASK_SRC_HI,
    ASK_SRC_LO, ASK_SRC_SET, ASK_TOS, ASK_UID, CONF_FORWARDING6, DST_DEVICE, DST_ERROR,
    DST_EXCEPTION, DST_GATEWAY_FAMILY, DST_GATEWAY_HI, DST_GATEWAY_LO, DST_LOCAL, DST_NH,
    DST_REDIRECT, DST_ROUTE, DST_RULE, DST_TABLE, DST_TYPE, EINVAL, EXC_EXPIRES_NS,
    EXC_FAMILY, EXC_GATEWAY_FAMILY, EXC_GATEWAY_HI, EXC_GATEWAY_LO, EXC_LOCKED, EXC_MTU, FLOW_DPORT,
    FLOW_DST_HI, FLOW_DST_LO, FLOW_HASH, FLOW_HAS_SRC, FLOW_IGNORE_LINKSTATE, FLOW_IIF, FLOW_INPUT,
    FLOW_LABEL, FLOW_MARK, FLOW_OIF, FLOW_OUTPUT, FLOW_PREFER, FLOW_PROTOCOL, FLOW_REACHABLE,
    FLOW_SPORT, FLOW_SRC_HI, FLOW_SRC_LO, FLOW_STRICT, FLOW_TOS, FLOW_UID, GOT_BROADCAST,
    GOT_DEVICE, GOT_ERROR, GOT_EXPIRES_NS, GOT_FLAGS, GOT_GATEWAY_FAMILY, GOT_GATEWAY_HI,
    GOT_GATEWAY_LO, GOT_LOCAL, GOT_LOCKED, GOT_MTU, GOT_MULTICAST, GOT_NH, GOT_REDIRECT, GOT_REDIRECTED,
    GOT_ROUTE,
    GOT_RULE, GOT_SRC_HI, GOT_SRC_LO, GOT_SRC_SET, GOT_TABLE, GOT_TYPE, INFO_OBJECT,
    INFO_PREFSRC_HI, INFO_PREFSRC_LO, INFO_PREFSRC_SET, MISC_NOW_NS, NH_DEVICE, NH_GATEWAY_FAMILY,
    NH_HI, NH_LO, NH_SCOPE, NONE, OBJECT_GROUP, RES_EXCEPTION, RES_INFO, RES_NH, RES_ROUTE,
    RES_RULE, RES_TABLE, RES_TYPE, ROUTE_PLEN, RTN_ANYCAST, RTN_BROADCAST, RTN_LOCAL, RTN_MULTICAST,
    RTN_UNICAST, SKB_AVAIL, SKB_DEVICE, SKB_DST_HI, SKB_DST_LO, SKB_FAMILY, SKB_FRAG, SKB_FRAME,
    SKB_IHL, SKB_IP, SKB_MARK, SKB_PROTOCOL, SKB_SRC_HI, SKB_SRC_LO, SKB_TOS,
)  # fmt: skip
from ippath.tx.route_output4 import LOOPBACK_DEVICE, SCOPE_LINK, route_output4
from ippath.tx.route_output6 import device_out6, look_up_output6, select_source6, source_device6
from ippath.wire.ipv4 import HEADER
from ippath.wire.ipv6 import is_link_local, is_loopback, is_multicast

LEAST_GROUP_PLEN = 4  # shorter prefixes say nothing about groups (kernel: __mkroute_output)


@kernel
def _nothing(got, row, error):
    for column in range(got.shape[1]):
        got[row, column] = NONE
    got[row, GOT_ERROR] = error
    got[row, GOT_GATEWAY_FAMILY] = 0
    got[row, GOT_SRC_SET] = 0
    got[row, GOT_FLAGS] = 0
    got[row, GOT_MTU] = got[row, GOT_LOCKED] = got[row, GOT_EXPIRES_NS] = 0


@kernel
def _gateway(fib, nh, got, row):
    got[row, GOT_GATEWAY_FAMILY] = fib.nexthop[nh, NH_GATEWAY_FAMILY]
    got[row, GOT_GATEWAY_HI] = fib.nexthop[nh, NH_HI]
    got[row, GOT_GATEWAY_LO] = fib.nexthop[nh, NH_LO]


@kernel
def _output4(h, s, ask, destination, got, row, trace):
    """A packet of this host."""
    source = ask[ASK_SRC_LO] if ask[ASK_SRC_SET] else 0
    error = route_output4(
        h, s, source, destination, ask[ASK_TOS], ask[ASK_MARK], ask[ASK_OIF], ask[ASK_PROTOCOL],
        ask[ASK_PORTS], NONE, trace,
    )  # fmt: skip
    flow, result, fib = s.flow[FLOW_OUTPUT], s.result[FLOW_OUTPUT], h.fib4
    got[row, GOT_RULE] = result[RES_RULE]
    if error:
        got[row, GOT_ERROR] = error
        got[row, GOT_ROUTE] = result[RES_ROUTE]
        return
    kind, out = result[RES_TYPE], flow[FLOW_OIF]
    route, nh = result[RES_ROUTE], result[RES_NH]
    flags = GOT_LOCAL if out == LOOPBACK_DEVICE or kind == RTN_LOCAL else 0
    if kind == RTN_BROADCAST:
        flags = GOT_LOCAL | GOT_BROADCAST
        nh = NONE
    elif kind == RTN_MULTICAST:
        flags |= GOT_MULTICAST
        if has_joined(h, 4, out, 0, destination):
            flags |= GOT_LOCAL
        if route != NONE and fib.route[route, ROUTE_PLEN] < LEAST_GROUP_PLEN:
            nh = NONE
    got[row, GOT_TYPE] = kind
    got[row, GOT_DEVICE] = out
    got[row, GOT_FLAGS] = flags
    got[row, GOT_ROUTE] = route
    got[row, GOT_NH] = nh
    got[row, GOT_TABLE] = result[RES_TABLE]
    got[row, GOT_SRC_SET] = 1
    got[row, GOT_SRC_HI] = 0
    got[row, GOT_SRC_LO] = flow[FLOW_SRC_LO]
    if nh != NONE and fib.nexthop[nh, NH_SCOPE] == SCOPE_LINK:
        _gateway(fib, nh, got, row)
    if nh != NONE:
        _learned(s, result[RES_EXCEPTION], got, row)


@kernel
def _learned(s, exception, got, row):
    """What is known of the destination itself (kernel: rt_fill_info, rt6_fill_node)."""
    if exception == NONE:
        return
    entry = s.exception[exception]
    left = entry[EXC_EXPIRES_NS] - s.misc[MISC_NOW_NS]
    if entry[EXC_EXPIRES_NS] and left > 0:
        got[row, GOT_EXPIRES_NS] = left
        got[row, GOT_MTU], got[row, GOT_LOCKED] = entry[EXC_MTU], entry[EXC_LOCKED]
    if entry[EXC_GATEWAY_FAMILY]:
        got[row, GOT_FLAGS] |= GOT_REDIRECTED
        got[row, GOT_GATEWAY_FAMILY] = entry[EXC_GATEWAY_FAMILY]
        got[row, GOT_GATEWAY_HI] = entry[EXC_GATEWAY_HI]
        got[row, GOT_GATEWAY_LO] = entry[EXC_GATEWAY_LO]
        if entry[EXC_FAMILY] == 6 and is_on_link6(entry):
            got[row, GOT_GATEWAY_FAMILY] = 0


@kernel
def _input4(h, s, data, ask, destination, got, row, trace):
    """A packet that came in by a device; `data` is one with the protocol and ports asked for."""
    skb = s.skb
    skb[SKB_FRAME] = row
    skb[SKB_FAMILY] = 4
    skb[SKB_DEVICE] = ask[ASK_IIF]
    skb[SKB_SRC_HI] = 0
    skb[SKB_SRC_LO] = ask[ASK_SRC_LO]
    skb[SKB_DST_HI] = 0
    skb[SKB_DST_LO] = destination
    skb[SKB_TOS] = ask[ASK_TOS]
    skb[SKB_MARK] = ask[ASK_MARK]
    skb[SKB_PROTOCOL] = ask[ASK_PROTOCOL]
    skb[SKB_IP] = 0
    skb[SKB_IHL] = HEADER
    skb[SKB_AVAIL] = data.shape[0]
    skb[SKB_FRAG] = 0
    routed = ip_route_input_slow(h, s, data, trace)
    got[row, GOT_RULE] = s.result[FLOW_INPUT, RES_RULE]
    if routed != CONTINUE:
        got[row, GOT_ERROR] = EINVAL
        return
    if skb[DST_ERROR]:
        got[row, GOT_ERROR] = skb[DST_ERROR]
        got[row, GOT_ROUTE] = skb[DST_ROUTE]
        return
    kind = skb[DST_TYPE]
    flags = GOT_LOCAL if skb[DST_LOCAL] else 0
    if kind == RTN_BROADCAST:
        flags |= GOT_BROADCAST
    elif kind == RTN_MULTICAST:
        flags |= GOT_MULTICAST
    if skb[DST_REDIRECT]:
        flags |= GOT_REDIRECT
    got[row, GOT_TYPE] = kind
    got[row, GOT_DEVICE] = skb[DST_DEVICE]
    got[row, GOT_FLAGS] = flags
    got[row, GOT_ROUTE] = skb[DST_ROUTE]
    got[row, GOT_NH] = skb[DST_NH]
    got[row, GOT_RULE] = skb[DST_RULE]
    got[row, GOT_TABLE] = skb[DST_TABLE]
    nh = skb[DST_NH]
    if (
        skb[DST_GATEWAY_FAMILY]
        and (kind == RTN_UNICAST or kind == RTN_BROADCAST)
        and h.fib4.nexthop[nh, NH_SCOPE] == SCOPE_LINK
    ):
        got[row, GOT_GATEWAY_FAMILY] = skb[DST_GATEWAY_FAMILY]
        got[row, GOT_GATEWAY_HI] = skb[DST_GATEWAY_HI]
        got[row, GOT_GATEWAY_LO] = skb[DST_GATEWAY_LO]
    if kind == RTN_UNICAST:
        _learned(s, skb[DST_EXCEPTION], got, row)


@kernel
def _look_up_input6(h, s, ask, hi, lo, trace):
    """Look a packet up that came in by a device (kernel: ip6_route_input_lookup); 0 or an errno."""
    flow = s.flow[FLOW_OUTPUT]
    device = ask[ASK_IIF]
    flow[FLOW_SRC_HI], flow[FLOW_SRC_LO] = ask[ASK_SRC_HI], ask[ASK_SRC_LO]
    flow[FLOW_DST_HI], flow[FLOW_DST_LO] = hi, lo
    flow[FLOW_TOS] = ask[ASK_TOS]
    flow[FLOW_MARK] = ask[ASK_MARK]
    flow[FLOW_IIF] = device
    flow[FLOW_OIF] = ask[ASK_OIF]
    flow[FLOW_L3MDEV] = NONE
    flow[FLOW_PROTOCOL] = ask[ASK_PROTOCOL]
    flow[FLOW_SPORT] = ask[ASK_PORTS] >> 16
    flow[FLOW_DPORT] = ask[ASK_PORTS] & 0xFFFF
    flow[FLOW_LABEL] = 0
    flow[FLOW_HASH] = NONE
    flow[FLOW_IGNORE_LINKSTATE] = 0
    flow[FLOW_HAS_SRC] = ask[ASK_SRC_SET]
    flow[FLOW_PREFER] = device
    flow[FLOW_STRICT] = is_link_local(hi) or is_multicast(hi) or is_loopback(hi, lo)
    flow[FLOW_REACHABLE] = h.conf[CONF_FORWARDING6] == 0
    error, _ = fib_lookup6(h, s, FLOW_OUTPUT, trace)
    if error == 0:
        bind_exception6(h, s, s.result[FLOW_OUTPUT], hi, lo)
    return error


@kernel
def _ask6(h, s, ask, hi, lo, got, row, trace):
    coming_in = ask[ASK_IIF] != NONE
    if coming_in:
        error = _look_up_input6(h, s, ask, hi, lo, trace)
    else:
        error = look_up_output6(
            h, s, FLOW_OUTPUT, ask[ASK_SRC_HI], ask[ASK_SRC_LO], hi, lo, ask[ASK_TOS],
            ask[ASK_MARK], ask[ASK_PROTOCOL], ask[ASK_PORTS], ask[ASK_OIF], NONE, trace,
        )  # fmt: skip
    result, fib = s.result[FLOW_OUTPUT], h.fib6
    route, nh, kind = result[RES_ROUTE], result[RES_NH], result[RES_TYPE]
    got[row, GOT_RULE] = result[RES_RULE]
    got[row, GOT_ROUTE] = route
    if error:
        got[row, GOT_ERROR] = error
        return
    got[row, GOT_TYPE] = kind
    got[row, GOT_DEVICE] = device_out6(h, result)
    got[row, GOT_NH] = nh
    got[row, GOT_TABLE] = result[RES_TABLE]
    if kind == RTN_LOCAL or kind == RTN_ANYCAST:
        got[row, GOT_FLAGS] = GOT_LOCAL
    if fib.nexthop[nh, NH_GATEWAY_FAMILY]:
        _gateway(fib, nh, got, row)
    _learned(s, result[RES_EXCEPTION], got, row)
    info = result[RES_INFO]
    if fib.info[info, INFO_PREFSRC_SET]:
        got[row, GOT_SRC_SET] = 1
        got[row, GOT_SRC_HI] = fib.info[info, INFO_PREFSRC_HI]
        got[row, GOT_SRC_LO] = fib.info[info, INFO_PREFSRC_LO]
    elif not coming_in:
        near = fib.nexthop[nh, NH_DEVICE]
        if fib.info[info, INFO_OBJECT] == OBJECT_GROUP:
            near = source_device6(h, result)
        chosen = select_source6(h, near, hi, lo)
        if chosen != NONE:
            got[row, GOT_SRC_SET] = 1
            got[row, GOT_SRC_HI] = h.address[chosen, ADDR_HI]
            got[row, GOT_SRC_LO] = h.address[chosen, ADDR_LO]


@entry
def route_get(tables, state, packet, ask, destinations, got, trace):
    """Answer one question for each destination.

    `ask` is int64[ASK_COLUMNS], `destinations` int64[n, 2] (high and low half), `got`
    int64[n, GOT_COLUMNS]; `packet` is an IPv4 packet with the protocol and ports asked for.
    """
    h, s, data = open_tables(tables), open_state(state), open_bytes(packet)
    for row in range(s.flow.shape[0]):
        s.flow[row, FLOW_UID] = ask[ASK_UID]
    for row in range(destinations.shape[0]):
        hi, lo = destinations[row, 0], destinations[row, 1]
        _nothing(got, row, 0)
        if ask[ASK_FAMILY] == 6:
            _ask6(h, s, ask, hi, lo, got, row, trace)
        elif ask[ASK_IIF] == NONE:
            _output4(h, s, ask, lo, got, row, trace)
        else:
            _input4(h, s, data, ask, lo, got, row, trace)
