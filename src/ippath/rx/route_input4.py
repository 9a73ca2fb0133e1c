"""IPv4 route input: the hint, then martians, the FIB and the source check.

Mirrors `ip_route_use_hint`, `ip_extract_route_hint`, `ip_route_input_slow`, `ip_route_input_mc`,
`ip_mkroute_input`, in the kernel's order.

In:  a checked header.   Out: the packet's DST_* fields.
Drops: IP_INVALID_SOURCE, IP_INVALID_DEST, IP_LOCALNET, IP_RPFILTER, IP_LOCAL_SOURCE, NOT_SPECIFIED.
"""

from __future__ import annotations

from ippath.fib.exceptions import follow_exception, may_be_exception, use_exception4
from ippath.fib.flow import fill_flow4, no_result
from ippath.fib.local import has_joined
from ippath.fib.lookup4 import fib_lookup4
from ippath.fib.multipath import select_multipath
from ippath.fib.nexthop_group import select_member
from ippath.handles import copy_route
from ippath.jit import cold, hot, kernel
from ippath.mib import M_TcpExtIPReversePathFilter
from ippath.reasons import (
    R_IP_INVALID_DEST, R_IP_INVALID_SOURCE, R_IP_LOCALNET, R_IP_RPFILTER, R_NOT_SPECIFIED,
)  # fmt: skip
from ippath.rx.flow_dissector import dissect_upper
from ippath.rx.packet import CONTINUE, count, drop
from ippath.rx.packet_hash import packet_hash4
from ippath.rx.source_validation import VALID_ON_LINK, fib_validate_source
from ippath.tables import (
    ADDR_DEVICE, ADDR_FAMILY, ADDR_PLEN, ADDR_PREFIX_LO, CONF_BROADCAST_HINT, CONF_DISSECT4,
    CONF_EARLY_DEMUX, CONF_HINT, CONF_RULES4, DEV_BC_FORWARDING, DEV_FORWARDING4, DEV_HAS4,
    DEV_MC_FORWARDING4, DEV_ROUTE_LOCALNET, DEV_SEND_REDIRECTS, DEV_SHARED_MEDIA, DST_DEVICE,
    DST_ERROR, DST_EXCEPTION, DST_GATEWAY_FAMILY, DST_GATEWAY_HI, DST_GATEWAY_LO, DST_IDENTITY,
    DST_INFO, DST_LOCAL, DST_MULTIPATH, DST_NH, DST_REDIRECT, DST_ROUTE, DST_RULE, DST_SET,
    DST_TABLE, DST_TYPE, EHOSTUNREACH, FLOW_INPUT, HINT_HI, HINT_LO, HINT_ON, HINT_PENDING, HINT_STRICT, HINT_TOS, HINT_VALID,
    INFO_NH_COUNT, INFO_OBJECT, MISC_HINT_MISSED, MISC_HINT_REFUSED, MISC_HINT_USED, NH_DEVICE,
    NH_GATEWAY_FAMILY, NH_HI, NH_IDENTITY, NH_LO, NONE, OBJECT_GROUP, RES_INFO, RES_NH, RES_ROUTE,
    RES_RULE, RES_TABLE, RES_TYPE, RTN_BROADCAST, RTN_LOCAL, RTN_MULTICAST, RTN_UNICAST,
    RTN_UNREACHABLE, SKB_DEVICE, SKB_DST_LO, SKB_FRAME, SKB_HINTED, SKB_MARK, SKB_PROTOCOL,
    SKB_REASON, SKB_SRC_LO, SKB_TOS,
)  # fmt: skip
from ippath.trace import (
    T_BROADCAST, T_HINT, T_HINT_STRICT, T_LOCALNET, T_MARTIAN_DEST, T_MARTIAN_SOURCE, T_MCAST,
    T_MULTIPATH, T_NO_FORWARD4, T_ROUTE4, note,
)  # fmt: skip
from ippath.udp.early_demux import udp_early_demux
from ippath.wire.ipv4 import (
    IPPROTO_IGMP, is_limited_broadcast, is_local_multicast, is_loopback, is_multicast, is_zeronet,
)  # fmt: skip

DSCP_MASK = 0xFC
LOOPBACK_DEVICE = 0


@cold
def _martian_source(s, trace, reason):
    note(trace, T_MARTIAN_SOURCE, s.skb[SKB_SRC_LO], reason)
    return drop(s, trace, reason)


@cold
def _martian_destination(s, trace, reason):
    note(trace, T_MARTIAN_DEST, s.skb[SKB_DST_LO], reason)
    return drop(s, trace, reason)


@cold
def _same_subnet(h, device, one, other):
    """Are both addresses (0: any) in one subnet of the device (kernel: inet_addr_onlink)?"""
    address = h.address
    for row in range(address.shape[0]):
        if address[row, ADDR_FAMILY] == 4 and address[row, ADDR_DEVICE] == device:
            shift = 32 - address[row, ADDR_PLEN]
            prefix = address[row, ADDR_PREFIX_LO]
            if (one ^ prefix) >> shift == 0 and (other == 0 or (other ^ prefix) >> shift == 0):
                return True
    return False


@kernel
def _wants_redirect(h, device, source, gateway, valid):
    """Should a packet that leaves by the device it came from cause a redirect?"""
    return int(
        valid == VALID_ON_LINK
        and h.device[device, DEV_SEND_REDIRECTS] != 0
        and (h.device[device, DEV_SHARED_MEDIA] != 0 or _same_subnet(h, device, source, gateway))
    )


# --- the hint ---------------------------------------------------------------------------------------


@hot
def ip_can_use_hint(s):
    """Same destination and same TOS byte as the hint?"""
    skb, hint = s.skb, s.hint
    return (
        hint[HINT_VALID] != 0
        and hint[HINT_LO] == skb[SKB_DST_LO]
        and hint[HINT_TOS] == skb[SKB_TOS]
        and hint[HINT_HI] == 4
    )


@hot
def ip_route_use_hint(h, s, trace):
    """Take the route of the hint after the source checks that remain (Linux 5.5 and later).

    A forwarded packet's source is not validated again (route_hint=strict does it all the same).
    """
    skb, hint = s.skb, s.hint
    device, source = skb[SKB_DEVICE], skb[SKB_SRC_LO]
    strict = h.conf[CONF_HINT] == HINT_STRICT
    note(trace, T_HINT_STRICT if strict else T_HINT)
    skb[SKB_HINTED] = 1  # dropped packets, too: the hint decided which checks they met
    s.misc[MISC_HINT_USED] += 1
    if h.device[device, DEV_HAS4] == 0:
        return drop(s, trace, R_NOT_SPECIFIED)
    if is_multicast(source) or is_limited_broadcast(source):
        return _martian_source(s, trace, R_IP_INVALID_SOURCE)
    if is_zeronet(source):
        return _martian_source(s, trace, R_IP_INVALID_SOURCE)
    if is_loopback(source) and h.device[device, DEV_ROUTE_LOCALNET] == 0:
        return _martian_source(s, trace, R_IP_LOCALNET)
    redirect = 0
    if hint[DST_LOCAL] or (strict and hint[DST_ERROR] == 0):
        out = NONE if hint[DST_LOCAL] else hint[DST_DEVICE]
        valid = fib_validate_source(
            h, s, trace, source, skb[SKB_DST_LO], skb[SKB_TOS] & DSCP_MASK, out, device
        )
        if valid < 0:
            return _martian_source(s, trace, -valid)
        if strict and out == device:
            gateway = hint[DST_GATEWAY_LO] if hint[DST_GATEWAY_FAMILY] == 4 else 0
            redirect = _wants_redirect(h, device, source, gateway, valid)
    copy_route(skb, hint)
    skb[DST_REDIRECT] = redirect
    return CONTINUE


@hot
def ip_extract_route_hint(h, s):
    """Make the packet in hand the hint, unless a guard forbids it (kernel: since 5.5, 6.6, 6.18)."""
    skb, hint = s.skb, s.hint
    hint[HINT_VALID] = 0
    if h.conf[CONF_HINT] == 0:
        return
    destination = skb[SKB_DST_LO]
    if (
        h.conf[CONF_RULES4]
        or is_limited_broadcast(destination)
        or is_zeronet(destination)
        or skb[DST_MULTIPATH]
        or (skb[DST_TYPE] == RTN_BROADCAST and h.conf[CONF_BROADCAST_HINT] == 0)
    ):
        s.misc[MISC_HINT_REFUSED] += 1
        return
    hint[HINT_PENDING] = 1
    hint[HINT_VALID] = 1
    hint[HINT_HI] = 4
    hint[HINT_LO] = destination
    hint[HINT_TOS] = skb[SKB_TOS]


# --- the slow path ----------------------------------------------------------------------------------


@hot
def _attach(s, kind, local, device, identity):
    """Attach a route that is not tied to a FIB entry."""
    skb, result = s.skb, s.result[FLOW_INPUT]
    skb[DST_SET] = 1
    skb[DST_TYPE] = kind
    skb[DST_LOCAL] = local
    skb[DST_ERROR] = 0
    skb[DST_DEVICE] = device
    skb[DST_IDENTITY] = identity
    skb[DST_ROUTE] = result[RES_ROUTE]
    skb[DST_INFO] = result[RES_INFO]
    skb[DST_NH] = result[RES_NH]
    skb[DST_RULE] = result[RES_RULE]
    skb[DST_TABLE] = result[RES_TABLE]
    skb[DST_GATEWAY_FAMILY] = 0
    skb[DST_MULTIPATH] = 0
    skb[DST_REDIRECT] = 0
    skb[DST_EXCEPTION] = NONE


@hot
def _fresh_identity(s):
    """A route object of this packet's own: never equal to another packet's."""
    return -2 - s.skb[SKB_FRAME]


@cold
def _error_route(s, trace, error):
    _attach(s, RTN_UNREACHABLE, 0, LOOPBACK_DEVICE, _fresh_identity(s))
    s.skb[DST_ERROR] = error
    return CONTINUE


@cold
def _bind_exception(h, s, nh):
    """Take what was learned about the destination (kernel: find_exception, rt_bind_exception)."""
    follow_exception(s, use_exception4(h, s, nh, s.skb[SKB_DST_LO]))


@hot
def _make_forward_route(h, s, data, trace, kind):
    """Build the route of a packet to forward (kernel: ip_mkroute_input, __mkroute_input)."""
    skb, fib, result = s.skb, h.fib4, s.result[FLOW_INPUT]
    route, nh = result[RES_ROUTE], result[RES_NH]
    multipath = 0
    info = result[RES_INFO]
    if fib.info[info, INFO_NH_COUNT] > 1:
        hashed = packet_hash4(h, s, data)
        if fib.info[info, INFO_OBJECT] == OBJECT_GROUP:
            chosen = select_member(h, s, fib, info, hashed)
        else:
            chosen = select_multipath(fib, info, hashed)
        if chosen != NONE:
            nh = chosen
        multipath = 1
        note(trace, T_MULTIPATH, hashed, nh, fib.info[info, INFO_NH_COUNT])
    device, out = skb[SKB_DEVICE], fib.nexthop[nh, NH_DEVICE]
    if h.device[out, DEV_HAS4] == 0:
        return drop(s, trace, R_NOT_SPECIFIED)
    valid = fib_validate_source(
        h, s, trace, skb[SKB_SRC_LO], skb[SKB_DST_LO], skb[SKB_TOS] & DSCP_MASK, out, device
    )
    if valid < 0:
        return _martian_source(s, trace, -valid)
    _attach(s, kind, 0, out, fib.nexthop[nh, NH_IDENTITY])
    skb[DST_NH] = nh
    skb[DST_MULTIPATH] = multipath
    family = fib.nexthop[nh, NH_GATEWAY_FAMILY]
    skb[DST_GATEWAY_FAMILY] = family
    skb[DST_GATEWAY_HI] = fib.nexthop[nh, NH_HI]
    skb[DST_GATEWAY_LO] = fib.nexthop[nh, NH_LO]
    if may_be_exception(h, s):
        _bind_exception(h, s, nh)
    if out == device:
        gateway = fib.nexthop[nh, NH_LO] if family == 4 else 0
        skb[DST_REDIRECT] = _wants_redirect(h, out, skb[SKB_SRC_LO], gateway, valid)
    note(trace, T_ROUTE4, route, kind, out)
    return CONTINUE


@cold
def _broadcast_input(h, s, trace, from_fib):
    """Deliver to this host as a broadcast (kernel: brd_input)."""
    skb = s.skb
    note(trace, T_BROADCAST, skb[SKB_DST_LO])
    if not is_zeronet(skb[SKB_SRC_LO]):
        valid = fib_validate_source(
            h, s, trace, skb[SKB_SRC_LO], 0, skb[SKB_TOS] & DSCP_MASK, NONE, skb[SKB_DEVICE]
        )
        if valid < 0:
            return _martian_source(s, trace, -valid)
    identity = _fresh_identity(s)
    if from_fib and s.result[FLOW_INPUT, RES_NH] != NONE:
        identity = h.fib4.nexthop[s.result[FLOW_INPUT, RES_NH], NH_IDENTITY]
    _attach(s, RTN_BROADCAST, 1, LOOPBACK_DEVICE, identity)
    return CONTINUE


@cold
def ip_route_input_mc(h, s, trace):
    """Route a packet to a multicast group (kernel: ip_route_input_rcu, ip_mc_validate_source)."""
    skb = s.skb
    device, source, group = skb[SKB_DEVICE], skb[SKB_SRC_LO], skb[SKB_DST_LO]
    no_result(s.result[FLOW_INPUT])
    joined = has_joined(h, 4, device, 0, group)
    note(trace, T_MCAST, group, device, joined)
    forwards = h.device[device, DEV_MC_FORWARDING4] != 0
    if not joined and (is_local_multicast(group) or not forwards):
        return drop(s, trace, R_NOT_SPECIFIED)
    if is_multicast(source) or is_limited_broadcast(source):
        return drop(s, trace, R_IP_INVALID_SOURCE)
    if is_loopback(source) and h.device[device, DEV_ROUTE_LOCALNET] == 0:
        return drop(s, trace, R_IP_LOCALNET)
    if is_zeronet(source):
        if not is_local_multicast(group) and skb[SKB_PROTOCOL] != IPPROTO_IGMP:
            return drop(s, trace, R_IP_INVALID_SOURCE)
    else:
        valid = fib_validate_source(h, s, trace, source, 0, skb[SKB_TOS] & DSCP_MASK, NONE, device)
        if valid < 0:
            return drop(s, trace, -valid)
    _attach(s, RTN_MULTICAST, 1 if joined else 0, LOOPBACK_DEVICE, _fresh_identity(s))
    return CONTINUE


@hot
def ip_route_input_slow(h, s, data, trace):
    """Route the packet in hand by the tables; CONTINUE with DST_*, or DONE."""
    skb = s.skb
    device, source, destination = skb[SKB_DEVICE], skb[SKB_SRC_LO], skb[SKB_DST_LO]
    if h.device[device, DEV_HAS4] == 0:
        return drop(s, trace, R_NOT_SPECIFIED)
    flow = s.flow[FLOW_INPUT]  # source validation looks at protocol and ports, too
    fill_flow4(flow, source, destination, skb[SKB_TOS] & DSCP_MASK, skb[SKB_MARK], device, NONE)
    if h.conf[CONF_DISSECT4]:
        dissect_upper(s, data, flow, False)
    if is_multicast(destination):
        return ip_route_input_mc(h, s, trace)
    if is_multicast(source) or is_limited_broadcast(source):
        return _martian_source(s, trace, R_IP_INVALID_SOURCE)
    if is_limited_broadcast(destination) or (source == 0 and destination == 0):
        no_result(s.result[FLOW_INPUT])
        return _broadcast_input(h, s, trace, False)
    if is_zeronet(source):
        return _martian_source(s, trace, R_IP_INVALID_SOURCE)
    if is_zeronet(destination):
        return _martian_destination(s, trace, R_IP_INVALID_DEST)
    if is_loopback(destination):
        note(trace, T_LOCALNET, destination, device, h.device[device, DEV_ROUTE_LOCALNET])
        if h.device[device, DEV_ROUTE_LOCALNET] == 0:
            return _martian_destination(s, trace, R_IP_LOCALNET)
    elif is_loopback(source):
        note(trace, T_LOCALNET, source, device, h.device[device, DEV_ROUTE_LOCALNET])
        if h.device[device, DEV_ROUTE_LOCALNET] == 0:
            return _martian_source(s, trace, R_IP_LOCALNET)
    error = fib_lookup4(h, s, FLOW_INPUT, trace)
    if error:
        if h.device[device, DEV_FORWARDING4] == 0:
            note(trace, T_NO_FORWARD4, device)
            error = EHOSTUNREACH
        return _error_route(s, trace, error)
    result = s.result[FLOW_INPUT]
    kind = result[RES_TYPE]
    if kind == RTN_BROADCAST:
        if h.device[device, DEV_BC_FORWARDING]:
            return _make_forward_route(h, s, data, trace, RTN_BROADCAST)
        return _broadcast_input(h, s, trace, True)
    if kind == RTN_LOCAL:
        valid = fib_validate_source(
            h, s, trace, source, destination, skb[SKB_TOS] & DSCP_MASK, NONE, device
        )
        if valid < 0:
            return _martian_source(s, trace, -valid)
        _attach(s, RTN_LOCAL, 1, LOOPBACK_DEVICE, h.fib4.nexthop[result[RES_NH], NH_IDENTITY])
        note(trace, T_ROUTE4, result[RES_ROUTE], kind, LOOPBACK_DEVICE)
        return CONTINUE
    if h.device[device, DEV_FORWARDING4] == 0:
        note(trace, T_NO_FORWARD4, device)
        return _error_route(s, trace, EHOSTUNREACH)
    if kind != RTN_UNICAST:
        return _martian_destination(s, trace, R_IP_INVALID_DEST)
    return _make_forward_route(h, s, data, trace, RTN_UNICAST)


@hot
def route_input4(h, s, data, trace):
    """Route the packet in hand: by the hint where it serves, else by the tables."""
    skb = s.skb
    if skb[DST_SET] == 1:
        return CONTINUE  # looped back
    hinted = ip_can_use_hint(s)
    if hinted and h.conf[CONF_HINT] == HINT_STRICT:
        # strict must decide as a look-up would: groups and broadcasts have checks of their own
        kind = s.hint[DST_TYPE]
        hinted = kind != RTN_MULTICAST and kind != RTN_BROADCAST
    if h.conf[CONF_HINT] and not hinted:
        s.misc[MISC_HINT_MISSED] += 1
    if h.conf[CONF_EARLY_DEMUX] and not (hinted and h.conf[CONF_HINT] == HINT_ON):
        if udp_early_demux(h, s, data, trace):
            return CONTINUE
    if hinted:
        routed = ip_route_use_hint(h, s, trace)
    else:
        routed = ip_route_input_slow(h, s, data, trace)
    if routed != CONTINUE and skb[SKB_REASON] == R_IP_RPFILTER:
        count(s, M_TcpExtIPReversePathFilter)
    return routed
