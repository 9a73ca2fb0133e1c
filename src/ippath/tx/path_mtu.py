"""The MTU of a path, and the next hop to a destination, with what was learned about it.

Kernel: ip_dst_mtu_maybe_forward, ip6_mtu, rt_nexthop.  `exception` is a row of `state.exception` or
NONE, as the look-up left it (`RES_EXCEPTION`, `DST_EXCEPTION`).
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.tables import (
    DEV_MTU, DEV_MTU6, EXC_EXPIRES_NS, EXC_GATEWAY_FAMILY, EXC_GATEWAY_HI, EXC_GATEWAY_LO,
    EXC_LOCKED, EXC_MTU, INFO_MTU, INFO_MTU_LOCK, MISC_NOW_NS, NH_GATEWAY_FAMILY, NH_HI, NH_LO,
    NONE, RES_EXCEPTION, RES_INFO, RES_NH,
)  # fmt: skip

LARGEST_MTU4 = 65535  # IP_MAX_MTU
LARGEST_MTU6 = 0xFFFF + 40  # IP6_MAX_MTU


@kernel
def learned_mtu(s, exception):
    """The path MTU that was learned, 0 if there is none or its time is over."""
    if exception == NONE:
        return 0
    entry = s.exception[exception]
    return entry[EXC_MTU] if s.misc[MISC_NOW_NS] < entry[EXC_EXPIRES_NS] else 0


@kernel
def is_mtu_locked4(h, s, info, exception):
    """May the path not be probed (kernel: ip_mtu_locked)?"""
    if info != NONE and h.fib4.info[info, INFO_MTU_LOCK]:
        return True
    return exception != NONE and s.exception[exception, EXC_LOCKED] != 0


@hot
def route_mtu4(h, s, info, exception, device, honours_learned):
    """MTU of an IPv4 route: learned, its own, or that of its device.

    What was learned does not count for packets that are forwarded, unless it is locked
    (`honours_learned`: it does).
    """
    if exception != NONE and (honours_learned or is_mtu_locked4(h, s, info, exception)):
        mtu = learned_mtu(s, exception)
        if mtu:
            return min(mtu, LARGEST_MTU4)
    if info != NONE and h.fib4.info[info, INFO_MTU]:
        return min(h.fib4.info[info, INFO_MTU], LARGEST_MTU4)
    return min(h.device[device, DEV_MTU], LARGEST_MTU4)


@hot
def route_mtu6(h, s, info, exception, device):
    """MTU of an IPv6 route: learned, its own, or that of its device (kernel: ip6_mtu)."""
    mtu = learned_mtu(s, exception)
    if mtu == 0 and info != NONE:
        mtu = h.fib6.info[info, INFO_MTU]
    if mtu == 0:
        mtu = h.device[device, DEV_MTU6]
    return min(mtu, LARGEST_MTU6)


@kernel
def output_mtu4(h, s, result, device):
    """MTU for a packet of this host by the route in a result row."""
    return route_mtu4(h, s, result[RES_INFO], result[RES_EXCEPTION], device, True)


@kernel
def output_mtu6(h, s, result, device):
    """MTU for a packet of this host by the route in a result row."""
    return route_mtu6(h, s, result[RES_INFO], result[RES_EXCEPTION], device)


@kernel
def next_hop(fib, s, result, hi, lo, family):
    """(family, high, low) of who the packet goes to next: a gateway, or the destination itself."""
    exception, nh = result[RES_EXCEPTION], result[RES_NH]
    if exception != NONE and s.exception[exception, EXC_GATEWAY_FAMILY]:
        entry = s.exception[exception]
        return entry[EXC_GATEWAY_FAMILY], entry[EXC_GATEWAY_HI], entry[EXC_GATEWAY_LO]
    if nh != NONE and fib.nexthop[nh, NH_GATEWAY_FAMILY]:
        return fib.nexthop[nh, NH_GATEWAY_FAMILY], fib.nexthop[nh, NH_HI], fib.nexthop[nh, NH_LO]
    return family, hi, lo
