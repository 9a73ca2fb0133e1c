"""Reverse path check: may this source come in by this device? (kernel: fib_validate_source)

rp_filter is checked here, and nowhere else.

Sysctls: rp_filter (larger of all and device), accept_local, src_valid_mark, send_redirects.
Drops: IP_RPFILTER, IP_LOCAL_SOURCE, IP_INVALID_SOURCE.
"""

from __future__ import annotations

from ippath.fib.flow import fill_flow4
from ippath.fib.local import is_local4
from ippath.fib.lookup4 import fib_lookup4
from ippath.jit import hot, kernel
from ippath.reasons import R_IP_INVALID_SOURCE, R_IP_LOCAL_SOURCE, R_IP_RPFILTER
from ippath.tables import (
    DEV_MASTER, FLOW_L3MDEV,
    CONF_RULES4, CONF_USER_LOCAL4, DEV_ACCEPT_LOCAL, DEV_HAS4, DEV_LOOPBACK, DEV_RP_FILTER,
    DEV_SEND_REDIRECTS, DEV_SRC_VALID_MARK, FLOW_DPORT, FLOW_IGNORE_LINKSTATE, FLOW_INPUT, FLOW_OIF,
    FLOW_PROTOCOL, FLOW_REVERSE, FLOW_SPORT, INFO_NH_COUNT, INFO_NH_FIRST, NH_DEVICE, NH_SCOPE, NONE, RES_INFO, RES_NH, RES_ROUTE, RES_TYPE,
    RTN_LOCAL, RTN_UNICAST, SKB_MARK,
)  # fmt: skip
from ippath.trace import (
    T_RPF_LOCAL, T_RPF_LOOKUP, T_RPF_LOOSE, T_RPF_MATCH, T_RPF_NOROUTE, T_RPF_OFF, T_RPF_STRICT,
    T_RPF_TYPE, note,
)  # fmt: skip

SCOPE_HOST = 254
LOOPBACK_DEVICE = 0
# a valid source returns one of these; a drop reason comes back as -reason
VALID, VALID_ON_LINK = 0, 1


@kernel
def _route_uses_device(h, fib, info, device):
    """Does any next hop of the route leave by `device` (kernel: fib_info_nh_uses_dev)?"""
    first = fib.info[info, INFO_NH_FIRST]
    for nh in range(first, first + fib.info[info, INFO_NH_COUNT]):
        used = fib.nexthop[nh, NH_DEVICE]
        if used == device or h.device[used, DEV_MASTER] == device:
            return True
    return False


@kernel
def _on_link(fib, nh):
    return VALID_ON_LINK if nh != NONE and fib.nexthop[nh, NH_SCOPE] >= SCOPE_HOST else VALID


@kernel
def _full_check(h, s, trace, source, destination, tos, oif, device, rp_filter):
    """The look-up in the other direction (kernel: __fib_validate_source)."""
    fib, flow, result = h.fib4, s.flow[FLOW_REVERSE], s.result[FLOW_REVERSE]
    forward = s.flow[FLOW_INPUT]
    mark = s.skb[SKB_MARK] if h.device[device, DEV_SRC_VALID_MARK] else 0
    fill_flow4(flow, destination, source, tos, mark, oif if oif != NONE else LOOPBACK_DEVICE, NONE)
    flow[FLOW_L3MDEV] = h.device[device, DEV_MASTER]
    flow[FLOW_PROTOCOL] = forward[FLOW_PROTOCOL]
    flow[FLOW_SPORT] = forward[FLOW_DPORT]
    flow[FLOW_DPORT] = forward[FLOW_SPORT]
    note(trace, T_RPF_LOOKUP, device, source, rp_filter, mark)
    if fib_lookup4(h, s, FLOW_REVERSE, trace):
        note(trace, T_RPF_NOROUTE, device, source, rp_filter)
        return -R_IP_RPFILTER if rp_filter else VALID
    route, kind = result[RES_ROUTE], result[RES_TYPE]
    if kind != RTN_UNICAST:
        if kind != RTN_LOCAL:
            note(trace, T_RPF_TYPE, source, route)
            return -R_IP_INVALID_SOURCE
        if h.device[device, DEV_ACCEPT_LOCAL] == 0:
            note(trace, T_RPF_LOCAL, device, source, 0)
            return -R_IP_LOCAL_SOURCE
    if _route_uses_device(h, fib, result[RES_INFO], device) or (
        kind == RTN_LOCAL and h.device[device, DEV_LOOPBACK]
    ):
        note(trace, T_RPF_MATCH, device, route)
        return _on_link(fib, result[RES_NH])
    if h.device[device, DEV_HAS4] < 2:  # no address on the device: the last resort decides
        note(trace, T_RPF_NOROUTE, device, source, rp_filter)
        return -R_IP_RPFILTER if rp_filter else VALID
    back = fib.nexthop[result[RES_NH], NH_DEVICE] if result[RES_NH] != NONE else NONE
    if rp_filter == 1:
        note(trace, T_RPF_STRICT, device, route, back)
        return -R_IP_RPFILTER
    note(trace, T_RPF_LOOSE, device, route, back, rp_filter)
    flow[FLOW_OIF] = device
    flow[FLOW_IGNORE_LINKSTATE] = 1
    if fib_lookup4(h, s, FLOW_REVERSE, trace) == 0 and result[RES_TYPE] == RTN_UNICAST:
        return _on_link(fib, result[RES_NH])
    return VALID


@hot
def fib_validate_source(h, s, trace, source, destination, tos, oif, device):
    """VALID, VALID_ON_LINK (source is a neighbour on `device`), or -reason."""
    rp_filter = h.device[device, DEV_RP_FILTER]
    if rp_filter == 0 and (device != oif or h.device[device, DEV_SEND_REDIRECTS] == 0):
        if h.device[device, DEV_ACCEPT_LOCAL]:
            note(trace, T_RPF_OFF, device, source)
            return VALID
        if h.conf[CONF_USER_LOCAL4] == 0 and h.conf[CONF_RULES4] == 0:
            if is_local4(h.fib4, source):
                note(trace, T_RPF_LOCAL, device, source, 0)
                return -R_IP_LOCAL_SOURCE
            note(trace, T_RPF_OFF, device, source)
            return VALID
    return _full_check(h, s, trace, source, destination, tos, oif, device, rp_filter)
