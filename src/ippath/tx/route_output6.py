"""IPv6 output routing and source address selection (kernel: ip6_route_output_flags,
ipv6_dev_get_saddr; RFC 6724 as Linux does it).
"""

from __future__ import annotations

from ippath.fib.lookup6 import fib_lookup6
from ippath.jit import kernel
from ippath.tables import (
    ADDR_DEPRECATED, ADDR_DEVICE, ADDR_FAMILY, ADDR_HI, ADDR_LO, ADDR_PLEN, ADDR_TENTATIVE,
    CONF_FORWARDING6, FLOW_DPORT, FLOW_DST_HI, FLOW_DST_LO, FLOW_HAS_SRC, FLOW_IGNORE_LINKSTATE,
    FLOW_IIF, FLOW_LABEL, FLOW_MARK, FLOW_OIF, FLOW_OUTPUT, FLOW_PREFER, FLOW_PROTOCOL,
    FLOW_REACHABLE, FLOW_SPORT, FLOW_SRC_HI, FLOW_SRC_LO, FLOW_STRICT, FLOW_TOS, NH_DEVICE, NONE,
    RES_NH, RES_ROUTE, ROUTE_PREFSRC_HI, ROUTE_PREFSRC_LO, ROUTE_PREFSRC_SET,
)  # fmt: skip
from ippath.wire.ipv6 import (
    is_link_local, is_loopback, is_multicast, is_unspecified, multicast_scope, prefix_match,
)  # fmt: skip

LOOPBACK_DEVICE = 0
SCOPE_INTERFACE, SCOPE_LINK_LOCAL, SCOPE_SITE, SCOPE_GLOBAL = 1, 2, 5, 14


@kernel
def address_scope6(hi, lo):
    """Scope of an address in RFC 4291's numbers (kernel: ipv6_addr_scope)."""
    if is_multicast(hi):
        return multicast_scope(hi)
    if is_link_local(hi) or is_loopback(hi, lo):
        return SCOPE_LINK_LOCAL
    if (hi >> 54) & 0x3FF == 0x3FB:  # fec0::/10
        return SCOPE_SITE
    return SCOPE_GLOBAL


@kernel
def address_label(hi, lo):
    """Policy label of an address (kernel: ip6addrlbl_init_table; RFC 6724 section 2.1)."""
    if is_loopback(hi, lo):
        return 0
    if hi == 0 and (lo >> 32) & 0xFFFFFFFF == 0xFFFF:
        return 4
    if hi == 0 and (lo >> 32) == 0:
        return 3
    top = (hi >> 32) & 0xFFFFFFFF
    if top == 0x20010000:
        return 6
    if top >> 4 == 0x2001001:
        return 7
    if top >> 16 == 0x2002:
        return 2
    if top >> 16 == 0x3FFE:
        return 12
    if top >> 25 == 0xFC00 >> 9:
        return 5
    if top >> 22 == 0xFEC0 >> 6:
        return 11
    return 1


@kernel
def _common_bits(hi, lo, other_hi, other_lo, most):
    bits = 0
    while bits < most and prefix_match(hi, lo, other_hi, other_lo, bits + 1):
        bits += 1
    return bits


@kernel
def _better(h, one, other, device, hi, lo, scope, label):
    """Is address row `one` a better source than `other`? (the first rule that differs decides)"""
    address = h.address
    one_hi, one_lo = address[one, ADDR_HI], address[one, ADDR_LO]
    other_hi, other_lo = address[other, ADDR_HI], address[other, ADDR_LO]
    one_is = one_hi == hi and one_lo == lo
    other_is = other_hi == hi and other_lo == lo
    if one_is != other_is:
        return one_is
    one_scope, other_scope = address_scope6(one_hi, one_lo), address_scope6(other_hi, other_lo)
    if one_scope != other_scope:
        if one_scope >= scope and other_scope >= scope:
            return one_scope < other_scope
        return one_scope > other_scope
    if address[one, ADDR_DEPRECATED] != address[other, ADDR_DEPRECATED]:
        return address[one, ADDR_DEPRECATED] == 0
    one_out = address[one, ADDR_DEVICE] == device
    other_out = address[other, ADDR_DEVICE] == device
    if one_out != other_out:
        return one_out
    one_label = address_label(one_hi, one_lo) == label
    other_label = address_label(other_hi, other_lo) == label
    if one_label != other_label:
        return one_label
    return _common_bits(one_hi, one_lo, hi, lo, address[one, ADDR_PLEN]) > _common_bits(
        other_hi, other_lo, hi, lo, address[other, ADDR_PLEN]
    )


@kernel
def select_source6(h, device, hi, lo):
    """Row of the source address for packets to (hi, lo) by `device`, or NONE (ipv6_dev_get_saddr)."""
    address = h.address
    scope, label = address_scope6(hi, lo), address_label(hi, lo)
    only_device = is_multicast(hi) or scope <= SCOPE_LINK_LOCAL
    best = NONE
    for row in range(address.shape[0]):
        if address[row, ADDR_FAMILY] != 6 or address[row, ADDR_TENTATIVE]:
            continue
        if only_device and address[row, ADDR_DEVICE] != device:
            continue
        if best == NONE or _better(h, row, best, device, hi, lo, scope, label):
            best = row
    return best


@kernel
def link_local_address(h, device):
    """Row of a link-local address of the device, or NONE (kernel: ipv6_get_lladdr)."""
    address = h.address
    for row in range(address.shape[0]):
        if (
            address[row, ADDR_FAMILY] == 6
            and address[row, ADDR_DEVICE] == device
            and is_link_local(address[row, ADDR_HI])
            and not address[row, ADDR_TENTATIVE]
        ):
            return row
    return NONE


@kernel
def address_row6(h, hi, lo):
    """Row of one of the host's own addresses, or NONE."""
    address = h.address
    for row in range(address.shape[0]):
        if (
            address[row, ADDR_LO] == lo
            and address[row, ADDR_HI] == hi
            and address[row, ADDR_FAMILY] == 6
        ):
            return row
    return NONE


@kernel
def route_output6(h, s, src_hi, src_lo, dst_hi, dst_lo, traffic_class, mark, protocol, oif, trace):
    """Route a packet of this host: 0 with the OUTPUT rows filled, or an errno."""
    flow, result = s.flow[FLOW_OUTPUT], s.result[FLOW_OUTPUT]
    has_source = not is_unspecified(src_hi, src_lo)
    flow[FLOW_SRC_HI], flow[FLOW_SRC_LO] = src_hi, src_lo
    flow[FLOW_DST_HI], flow[FLOW_DST_LO] = dst_hi, dst_lo
    flow[FLOW_TOS] = traffic_class
    flow[FLOW_MARK] = mark
    flow[FLOW_IIF] = LOOPBACK_DEVICE
    flow[FLOW_OIF] = oif
    flow[FLOW_PROTOCOL] = protocol
    flow[FLOW_SPORT] = 0
    flow[FLOW_DPORT] = 0
    flow[FLOW_LABEL] = 0
    flow[FLOW_IGNORE_LINKSTATE] = 0
    flow[FLOW_HAS_SRC] = has_source
    flow[FLOW_PREFER] = oif
    flow[FLOW_STRICT] = oif != NONE and (
        is_link_local(dst_hi) or is_multicast(dst_hi) or not has_source
    )
    flow[FLOW_REACHABLE] = h.conf[CONF_FORWARDING6] == 0
    error, _ = fib_lookup6(h, s, FLOW_OUTPUT, trace)
    if error:
        return error
    out = h.fib6.nexthop[result[RES_NH], NH_DEVICE]
    flow[FLOW_OIF] = out
    if not has_source:
        route = result[RES_ROUTE]
        if h.fib6.route[route, ROUTE_PREFSRC_SET]:
            flow[FLOW_SRC_HI] = h.fib6.route[route, ROUTE_PREFSRC_HI]
            flow[FLOW_SRC_LO] = h.fib6.route[route, ROUTE_PREFSRC_LO]
        else:
            row = select_source6(h, out, dst_hi, dst_lo)
            if row != NONE:
                flow[FLOW_SRC_HI] = h.address[row, ADDR_HI]
                flow[FLOW_SRC_LO] = h.address[row, ADDR_LO]
    return 0
