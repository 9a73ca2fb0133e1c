"""IPv4 output routing for packets of this host (kernel: ip_route_output_key_hash_rcu,
fib_select_path, __mkroute_output).

In:  source (0: choose), destination, TOS, mark, device (or NONE), protocol, ports.
Out: the OUTPUT rows of `state.flow` and `state.result`; returns 0 or an errno.
"""

from __future__ import annotations

from ippath.fib.exceptions import bind_exception4
from ippath.fib.flow import fill_flow4, no_result
from ippath.fib.local import is_local4
from ippath.fib.lookup4 import fib_lookup4
from ippath.fib.multipath import multipath_hash, select_multipath
from ippath.fib.nexthop_group import select_member
from ippath.fib.search import leaf_node, search4
from ippath.jit import kernel
from ippath.tables import (
    FLOW_L3MDEV,
    ADDR_DEVICE, ADDR_FAMILY, ADDR_LO, ADDR_PLEN, ADDR_PREFIX_LO, ADDR_SCOPE, ADDR_SECONDARY,
    CONF_RULES4, DEV_HAS4, DEV_ROUTE_LOCALNET, DEV_UP, EINVAL, ENETUNREACH, FLOW_DPORT, FLOW_DST_LO,
    FLOW_OIF, FLOW_OUTPUT, FLOW_PROTOCOL, FLOW_SPORT, FLOW_SRC_LO, INFO_NH_COUNT, INFO_NH_FIRST,
    INFO_OBJECT, INFO_PREFSRC_LO, INFO_PREFSRC_SET, INFO_SCOPE, INFO_TYPE, NH_BOUND, NH_DEVICE,
    NH_GATEWAY_FAMILY, NH_LO, NODE_FIRST, NONE, OBJECT_GROUP, RES_INFO, RES_NH, RES_TYPE,
    ROUTE_INFO, RTN_BROADCAST, RTN_LOCAL, RTN_MULTICAST, RTN_UNICAST, TABLE_ID,
)  # fmt: skip
from ippath.trace import T_MULTIPATH, note
from ippath.wire.ipv4 import (
    IPPROTO_IGMP, is_limited_broadcast, is_local_multicast, is_loopback, is_multicast, is_zeronet,
)  # fmt: skip

LOOPBACK_DEVICE, LOOPBACK_ADDRESS, TABLE_LOCAL = 0, 0x7F000001, 255
SCOPE_UNIVERSE, SCOPE_LINK, SCOPE_HOST = 0, 253, 254


@kernel
def select_address(h, device, toward, scope):
    """Source address for packets by `device` toward an address, 0 if none (kernel: inet_select_addr)."""
    address = h.address
    chosen = 0
    for row in range(address.shape[0]):
        if address[row, ADDR_FAMILY] != 4 or address[row, ADDR_SECONDARY]:
            continue
        if address[row, ADDR_DEVICE] != device:
            continue
        at_scope = address[row, ADDR_SCOPE]
        if at_scope == SCOPE_HOST and h.device[device, DEV_ROUTE_LOCALNET]:
            at_scope = min(at_scope, SCOPE_LINK)
        if at_scope > scope:
            continue
        if (
            toward == 0
            or (toward ^ address[row, ADDR_PREFIX_LO]) >> (32 - address[row, ADDR_PLEN]) == 0
        ):
            return address[row, ADDR_LO]
        if chosen == 0:
            chosen = address[row, ADDR_LO]
    if chosen:
        return chosen
    for row in range(address.shape[0]):
        if (
            address[row, ADDR_FAMILY] == 4
            and not address[row, ADDR_SECONDARY]
            and address[row, ADDR_SCOPE] != SCOPE_LINK
            and address[row, ADDR_SCOPE] <= scope
        ):
            return address[row, ADDR_LO]
    return 0


@kernel
def nexthop_source(h, info, nh):
    """Source address that goes with a next hop (kernel: fib_info_update_nhc_saddr)."""
    fib = h.fib4
    gateway = fib.nexthop[nh, NH_LO] if fib.nexthop[nh, NH_GATEWAY_FAMILY] == 4 else 0
    return select_address(h, fib.nexthop[nh, NH_DEVICE], gateway, fib.info[info, INFO_SCOPE])


@kernel
def _select_from(h, s, info, hashed, source):
    """The next hop for a packet from `source` (0: any), by its address first, then by hash.

    Kernel: fib_select_multipath, which takes the source into account since 6.16.
    """
    fib = h.fib4
    if fib.info[info, INFO_OBJECT] == OBJECT_GROUP:
        return select_member(h, s, fib, info, hashed)
    if source == 0:
        return select_multipath(fib, info, hashed)
    best, chosen = 0, NONE
    first = fib.info[info, INFO_NH_FIRST]
    for nh in range(first, first + fib.info[info, INFO_NH_COUNT]):
        bound = fib.nexthop[nh, NH_BOUND]
        if bound < 0:
            continue
        score = 2 if nexthop_source(h, info, nh) == source else 0
        score += hashed <= bound
        if score > best:
            best, chosen = score, nh
        if best == 3:
            break
    return chosen


@kernel
def preferred_source(h, info, nh):
    """Source address that a route prefers (kernel: fib_result_prefsrc)."""
    fib = h.fib4
    if fib.info[info, INFO_PREFSRC_SET]:
        return fib.info[info, INFO_PREFSRC_LO]
    if nh == NONE:
        return 0
    return nexthop_source(h, info, nh)


@kernel
def _device_of_address(h, address):
    """Device that has the address, or NONE (kernel: __ip_dev_find; 127.0.0.0/8 by its route)."""
    for row in range(h.address.shape[0]):
        if h.address[row, ADDR_FAMILY] == 4 and h.address[row, ADDR_LO] == address:
            return h.address[row, ADDR_DEVICE]
    table = h.fib4.table
    for row in range(table.shape[0]):
        if table[row, TABLE_ID] == TABLE_LOCAL or (h.conf[CONF_RULES4] == 0 and row == 0):
            node = leaf_node(h.fib4, search4(h.fib4, row, address))
            if node != NONE:
                info = h.fib4.route[h.fib4.node[node, NODE_FIRST], ROUTE_INFO]
                if h.fib4.info[info, INFO_TYPE] == RTN_LOCAL:
                    return h.fib4.nexthop[h.fib4.info[info, INFO_NH_FIRST], NH_DEVICE]
    return NONE


@kernel
def _make_route(h, flow, result, out):
    """Judge the route by `out`: 0 or EINVAL, and its type (kernel: __mkroute_output)."""
    source, destination = flow[FLOW_SRC_LO], flow[FLOW_DST_LO]
    if h.device[out, DEV_HAS4] == 0:
        return EINVAL
    if is_loopback(source) and out != LOOPBACK_DEVICE and h.device[out, DEV_ROUTE_LOCALNET] == 0:
        return EINVAL
    if is_limited_broadcast(destination):
        result[RES_TYPE] = RTN_BROADCAST
    elif is_multicast(destination):
        result[RES_TYPE] = RTN_MULTICAST
    elif is_zeronet(destination):
        return EINVAL
    flow[FLOW_OIF] = out
    return 0


@kernel
def _without_lookup(h, flow, result, oif):
    """The device where no table is asked, else NONE: groups and broadcasts by a device."""
    source, destination = flow[FLOW_SRC_LO], flow[FLOW_DST_LO]
    to_many = is_multicast(destination) or is_limited_broadcast(destination)
    if oif == NONE:
        return _device_of_address(h, source) if source and to_many else NONE
    if (
        is_local_multicast(destination)
        or is_limited_broadcast(destination)
        or flow[FLOW_PROTOCOL] == IPPROTO_IGMP
    ):
        if source == 0:
            flow[FLOW_SRC_LO] = select_address(h, oif, 0, SCOPE_LINK)
        return oif
    if source == 0:
        if is_multicast(destination):
            flow[FLOW_SRC_LO] = select_address(h, oif, 0, SCOPE_UNIVERSE)
        elif destination == 0:
            flow[FLOW_SRC_LO] = select_address(h, oif, 0, SCOPE_HOST)
    return NONE


@kernel
def route_output4(h, s, source, destination, tos, mark, oif, protocol, ports, hashed, trace):
    """Route a packet of this host: 0 with the OUTPUT rows filled, or an errno.

    `ports` is source port << 16 | destination port.  RES_ROUTE is NONE where no table was asked, or
    none had a route and the device decides alone.
    """
    flow, result, fib = s.flow[FLOW_OUTPUT], s.result[FLOW_OUTPUT], h.fib4
    no_result(result)
    result[RES_TYPE] = RTN_UNICAST
    fill_flow4(flow, source, destination, tos, mark, LOOPBACK_DEVICE, oif)
    flow[FLOW_PROTOCOL] = protocol
    flow[FLOW_SPORT] = ports >> 16
    flow[FLOW_DPORT] = ports & 0xFFFF
    if source:
        if is_multicast(source) or is_limited_broadcast(source):
            return EINVAL
        if not is_local4(h.fib4, source) and _device_of_address(h, source) == NONE:
            return ENETUNREACH
    if oif != NONE and (h.device[oif, DEV_UP] == 0 or h.device[oif, DEV_HAS4] == 0):
        return ENETUNREACH
    out = _without_lookup(h, flow, result, oif)
    if out != NONE:
        return _make_route(h, flow, result, out)
    if destination == 0:
        if flow[FLOW_SRC_LO] == 0:
            flow[FLOW_SRC_LO] = LOOPBACK_ADDRESS
        flow[FLOW_DST_LO] = flow[FLOW_SRC_LO]
        result[RES_TYPE] = RTN_LOCAL
        return _make_route(h, flow, result, LOOPBACK_DEVICE)
    error = fib_lookup4(h, s, FLOW_OUTPUT, trace)
    if error:
        if oif == NONE or flow[FLOW_L3MDEV] != NONE:
            return error
        # no route by the device: what is asked for is taken to be on its link
        no_result(result)
        result[RES_TYPE] = RTN_UNICAST
        if flow[FLOW_SRC_LO] == 0:
            flow[FLOW_SRC_LO] = select_address(h, oif, 0, SCOPE_LINK)
        return _make_route(h, flow, result, oif)
    info = result[RES_INFO]
    if result[RES_TYPE] == RTN_LOCAL:
        if flow[FLOW_SRC_LO] == 0:
            flow[FLOW_SRC_LO] = destination
            if fib.info[info, INFO_PREFSRC_SET]:
                flow[FLOW_SRC_LO] = fib.info[info, INFO_PREFSRC_LO]
        return _make_route(h, flow, result, LOOPBACK_DEVICE)
    count = fib.info[info, INFO_NH_COUNT]
    if count > 1 and flow[FLOW_OIF] == NONE:
        if hashed == NONE:
            hashed = multipath_hash(h, flow, False)
        chosen = _select_from(h, s, info, hashed, flow[FLOW_SRC_LO])
        if chosen != NONE:
            result[RES_NH] = chosen
        note(trace, T_MULTIPATH, hashed, result[RES_NH], count)
    nh = result[RES_NH]
    if flow[FLOW_SRC_LO] == 0:
        flow[FLOW_SRC_LO] = preferred_source(h, info, nh)
    bind_exception4(h, s, result, destination)
    return _make_route(h, flow, result, fib.nexthop[nh, NH_DEVICE])
