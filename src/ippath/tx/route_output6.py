"""IPv6 output routing and source address selection (kernel: ip6_route_output_flags,
ipv6_dev_get_saddr; RFC 6724 as Linux does it).
"""

from __future__ import annotations

from ippath.fib.exceptions import bind_exception6
from ippath.fib.lookup6 import fib_lookup6
from ippath.jit import kernel
from ippath.mib import M_Ip6OutNoRoutes
from ippath.tables import (
    FLOW_L3MDEV,
    ADDR_ANYCAST, ADDR_DEPRECATED, ADDR_DEVICE, ADDR_FAMILY, ADDR_HI, ADDR_LO, ADDR_PLEN,
    ADDR_PREFIX_HI, ADDR_PREFIX_LO, ADDR_TENTATIVE, CONF_FORWARDING6, DEV_OIF_ADDRS_ONLY,
    EADDRNOTAVAIL, ENETUNREACH, FLOW_DPORT, FLOW_DST_HI, FLOW_DST_LO, FLOW_HASH, FLOW_HAS_SRC,
    FLOW_IGNORE_LINKSTATE, FLOW_IIF, FLOW_LABEL, FLOW_MARK, FLOW_OIF, FLOW_PREFER, FLOW_PROTOCOL,
    FLOW_REACHABLE, FLOW_SPORT, FLOW_SRC_HI, FLOW_SRC_LO, FLOW_STRICT, FLOW_TOS, INFO_ANYCAST,
    INFO_NH_FIRST, INFO_OBJECT, INFO_PREFSRC_HI, INFO_PREFSRC_LO, INFO_PREFSRC_SET, INFO_TYPE,
    NH_DEVICE, NH_GATEWAY_FAMILY, NONE, OBJECT_GROUP, RES_INFO, RES_NH, ROUTE_DST_HI, ROUTE_DST_LO,
    ROUTE_INFO, ROUTE_PLEN, RTN_LOCAL,
)  # fmt: skip
from ippath.wire.ipv6 import (
    is_link_local, is_loopback, is_multicast, is_unspecified, prefix_match,
)  # fmt: skip

LOOPBACK_DEVICE = 0
SCOPE_INVALID, SCOPE_INTERFACE, SCOPE_LINK_LOCAL, SCOPE_SITE, SCOPE_GLOBAL = -1, 1, 2, 5, 14


@kernel
def address_scope6(hi, lo):
    """Scope of an address in RFC 4291's numbers, -1 for :: (kernel: __ipv6_addr_src_scope).

    It calls no other kernel, so that the control side can use its plain twin.
    """
    top = (hi >> 54) & 0x3FF
    if hi == 0 and lo == 0:
        return SCOPE_INVALID
    if top >> 2 == 0xFF:
        return (hi >> 48) & 0xF
    if top == 0x3FA or (hi == 0 and lo == 1):
        return SCOPE_LINK_LOCAL
    if top == 0x3FB:  # fec0::/10
        return SCOPE_SITE
    return SCOPE_GLOBAL


@kernel
def address_label(hi, lo):
    """Policy label of an address (kernel: ip6addrlbl_init_table; RFC 6724 section 2.1).

    It calls no other kernel either.
    """
    if hi == 0 and lo == 1:
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
    """Row of the source address for packets to (hi, lo) by `device`, or NONE (ipv6_dev_get_saddr).

    Without a device (NONE) all addresses compete.
    """
    address = h.address
    scope, label = address_scope6(hi, lo), address_label(hi, lo)
    only_device = device != NONE and (
        is_multicast(hi) or scope <= SCOPE_LINK_LOCAL or h.device[device, DEV_OIF_ADDRS_ONLY] != 0
    )
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
def is_own_address6(h, device, hi, lo):
    """Is it an address of this host, link-local ones on `device` alone (kernel: ipv6_chk_addr)?"""
    address = h.address
    for row in range(address.shape[0]):
        if (
            address[row, ADDR_LO] == lo
            and address[row, ADDR_HI] == hi
            and address[row, ADDR_FAMILY] == 6
            and not address[row, ADDR_TENTATIVE]
            and (address_scope6(hi, lo) != SCOPE_LINK_LOCAL or address[row, ADDR_DEVICE] == device)
        ):
            return True
    return False


@kernel
def is_own_anycast6(h, device, hi, lo):
    """Is it a subnet-router anycast address of this host (kernel: ipv6_chk_acast_addr_src)?"""
    address = h.address
    for row in range(address.shape[0]):
        if (
            address[row, ADDR_ANYCAST]
            and address[row, ADDR_PREFIX_LO] == lo
            and address[row, ADDR_PREFIX_HI] == hi
            and (not is_link_local(hi) or address[row, ADDR_DEVICE] == device)
        ):
            return True
    return False


@kernel
def is_anycast_route6(h, route, nh, hi, lo):
    """Does the route make its destination an anycast address (kernel: ipv6_anycast_destination)?

    The address of a network on link counts too: it is the subnet router's.
    """
    if route == NONE:
        return False
    routes = h.fib6.route
    if h.fib6.info[routes[route, ROUTE_INFO], INFO_ANYCAST]:
        return True
    return (
        routes[route, ROUTE_PLEN] < 127
        and routes[route, ROUTE_DST_LO] == lo
        and routes[route, ROUTE_DST_HI] == hi
        and (nh == NONE or h.fib6.nexthop[nh, NH_GATEWAY_FAMILY] == 0)
    )


@kernel
def device_out6(h, result):
    """Device by which a route leaves: what is ours stays here (kernel: ip6_rt_get_dev_rcu)."""
    info = result[RES_INFO]
    if h.fib6.info[info, INFO_TYPE] == RTN_LOCAL or h.fib6.info[info, INFO_ANYCAST]:
        return LOOPBACK_DEVICE
    return h.fib6.nexthop[result[RES_NH], NH_DEVICE]


@kernel
def source_device6(h, result):
    """Device whose addresses are preferred as sources; of a group that of its first member.

    kernel: ip6_route_get_saddr, fib6_info_nh_dev.
    """
    info = result[RES_INFO]
    if h.fib6.info[info, INFO_OBJECT] == OBJECT_GROUP:
        return h.fib6.nexthop[h.fib6.info[info, INFO_NH_FIRST], NH_DEVICE]
    return device_out6(h, result)


@kernel
def look_up_output6(
    h, s, row, src_hi, src_lo, dst_hi, dst_lo, tos, mark, protocol, ports, oif, hashed, trace
):
    """Look the way out up: 0 with the rows `row` filled, or an errno (kernel: ip6_route_output).

    `hashed` chooses among next hops; NONE: as the flow itself says.  `ports` is source port << 16 | destination port; ICMPv6 has type << 8 | code there.
    """
    flow, result = s.flow[row], s.result[row]
    has_source = not is_unspecified(src_hi, src_lo)
    flow[FLOW_SRC_HI], flow[FLOW_SRC_LO] = src_hi, src_lo
    flow[FLOW_DST_HI], flow[FLOW_DST_LO] = dst_hi, dst_lo
    flow[FLOW_TOS] = tos
    flow[FLOW_MARK] = mark
    flow[FLOW_IIF] = LOOPBACK_DEVICE
    flow[FLOW_OIF] = oif
    flow[FLOW_L3MDEV] = NONE
    flow[FLOW_PROTOCOL] = protocol
    flow[FLOW_SPORT] = ports >> 16
    flow[FLOW_DPORT] = ports & 0xFFFF
    flow[FLOW_LABEL] = 0
    flow[FLOW_HASH] = hashed
    flow[FLOW_IGNORE_LINKSTATE] = 0
    flow[FLOW_HAS_SRC] = has_source
    flow[FLOW_PREFER] = oif
    flow[FLOW_STRICT] = oif != NONE and (
        is_link_local(dst_hi)
        or is_multicast(dst_hi)
        or is_loopback(dst_hi, dst_lo)
        or not has_source
    )
    flow[FLOW_REACHABLE] = h.conf[CONF_FORWARDING6] == 0
    error, _ = fib_lookup6(h, s, row, trace)
    if error == 0:
        flow[FLOW_OIF] = device_out6(h, result)
        bind_exception6(h, s, result, dst_hi, dst_lo)
    return error


@kernel
def choose_source6(h, s, used, error, oif, trace):
    """Complete the look-up in the rows `used` with a source address (kernel: ip6_dst_lookup_tail).

    `error` is what the look-up said.  Where it failed for want of a source, as with source-specific
    routes, it is repeated with the best address there is.  Returns 0 or an errno.
    """
    flow, result = s.flow[used], s.result[used]
    if is_unspecified(flow[FLOW_SRC_HI], flow[FLOW_SRC_LO]):
        info, out = result[RES_INFO], source_device6(h, result) if error == 0 else NONE
        if error == 0 and h.fib6.info[info, INFO_PREFSRC_SET]:
            flow[FLOW_SRC_HI] = h.fib6.info[info, INFO_PREFSRC_HI]
            flow[FLOW_SRC_LO] = h.fib6.info[info, INFO_PREFSRC_LO]
        else:
            row = select_source6(h, out, flow[FLOW_DST_HI], flow[FLOW_DST_LO])
            if row == NONE:
                return EADDRNOTAVAIL
            flow[FLOW_SRC_HI] = h.address[row, ADDR_HI]
            flow[FLOW_SRC_LO] = h.address[row, ADDR_LO]
        if error:
            flow[FLOW_HAS_SRC] = 1
            flow[FLOW_STRICT] = oif != NONE
            error, _ = fib_lookup6(h, s, used, trace)
            if error == 0:
                flow[FLOW_OIF] = device_out6(h, result)
                hi, lo = flow[FLOW_DST_HI], flow[FLOW_DST_LO]
                bind_exception6(h, s, result, hi, lo)
    if error == ENETUNREACH:
        s.counters[M_Ip6OutNoRoutes] += 1
    return error
