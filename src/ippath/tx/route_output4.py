"""IPv4 output routing for packets of this host (kernel: ip_route_output_key_hash, fib_select_path).

In:  source (0: choose), destination, TOS, mark, device (or NONE).
Out: the OUTPUT rows of `state.flow` and `state.result`; returns 0 or an errno.
"""

from __future__ import annotations

from ippath.fib.flow import fill_flow4
from ippath.fib.lookup4 import fib_lookup4
from ippath.fib.multipath import multipath_hash, select_multipath
from ippath.jit import kernel
from ippath.tables import (
    ADDR_DEVICE, ADDR_FAMILY, ADDR_LO, ADDR_PLEN, ADDR_PREFIX_LO, ADDR_SCOPE, ADDR_SECONDARY,
    DEV_ROUTE_LOCALNET, EINVAL, FLOW_OIF, FLOW_OUTPUT, FLOW_PROTOCOL, FLOW_SRC_LO, NH_DEVICE,
    NH_GATEWAY_FAMILY, NH_LO, NONE, RES_NH, RES_ROUTE, RES_TYPE, ROUTE_NH_COUNT, ROUTE_PREFSRC_LO,
    ROUTE_PREFSRC_SET, ROUTE_SCOPE, RTN_LOCAL,
)  # fmt: skip
from ippath.wire.ipv4 import is_limited_broadcast, is_loopback, is_multicast, is_zeronet

LOOPBACK_DEVICE = 0
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
def preferred_source(h, route, nh):
    """Source address that a route prefers (kernel: fib_result_prefsrc)."""
    fib = h.fib4
    if fib.route[route, ROUTE_PREFSRC_SET]:
        return fib.route[route, ROUTE_PREFSRC_LO]
    if nh == NONE:
        return 0
    gateway = fib.nexthop[nh, NH_LO] if fib.nexthop[nh, NH_GATEWAY_FAMILY] == 4 else 0
    return select_address(h, fib.nexthop[nh, NH_DEVICE], gateway, fib.route[route, ROUTE_SCOPE])


@kernel
def route_output4(h, s, source, destination, tos, mark, protocol, trace):
    """Route a packet of this host: 0 with the OUTPUT rows filled, or an errno."""
    flow, result, fib = s.flow[FLOW_OUTPUT], s.result[FLOW_OUTPUT], h.fib4
    result[RES_ROUTE] = NONE
    result[RES_NH] = NONE
    if source and (is_multicast(source) or is_limited_broadcast(source)):
        return EINVAL
    fill_flow4(flow, source, destination, tos, mark, LOOPBACK_DEVICE, NONE)
    flow[FLOW_PROTOCOL] = protocol
    error = fib_lookup4(h, s, FLOW_OUTPUT, trace)
    if error:
        return error
    route = result[RES_ROUTE]
    if result[RES_TYPE] == RTN_LOCAL:
        if source == 0:
            source = destination
            if fib.route[route, ROUTE_PREFSRC_SET]:
                source = fib.route[route, ROUTE_PREFSRC_LO]
        flow[FLOW_SRC_LO] = source
        flow[FLOW_OIF] = LOOPBACK_DEVICE
        return 0
    if fib.route[route, ROUTE_NH_COUNT] > 1:
        chosen = select_multipath(fib, route, multipath_hash(h, flow, False))
        if chosen != NONE:
            result[RES_NH] = chosen
    nh = result[RES_NH]
    out = fib.nexthop[nh, NH_DEVICE]
    if source == 0:
        source = preferred_source(h, route, nh)
    flow[FLOW_SRC_LO] = source
    flow[FLOW_OIF] = out
    if is_loopback(source) and out != LOOPBACK_DEVICE and h.device[out, DEV_ROUTE_LOCALNET] == 0:
        return EINVAL
    if is_zeronet(destination):
        return EINVAL
    return 0
