"""IPv6 output: fragments and the hand-over to the device (kernel: ip6_finish_output, ip6_fragment,
ip6_finish_output2; RFC 8200 section 4.5).
"""

from __future__ import annotations

from ippath.jit import cold, hot, kernel
from ippath.mib import (
    M_Ip6FragCreates, M_Ip6FragFails, M_Ip6FragOKs, M_Ip6OutMcastOctets, M_Ip6OutMcastPkts, M_Ip6OutNoRoutes,
    M_Ip6OutOctets, M_Ip6OutRequests, M_Ip6OutTransmits,
)  # fmt: skip
from ippath.rx.rate_limit import random32
from ippath.tables import (
    DEV_LOOPBACK, DEV_MTU6, FLOW_DST_HI, FLOW_DST_LO, FLOW_OIF, FLOW_OUTPUT, INFO_MTU,
    NH_GATEWAY_FAMILY, NH_HI, NH_LO, NONE, RES_NH, RES_TYPE, RTN_UNICAST, SCRATCH_FRAGMENT,
)  # fmt: skip
from ippath.trace import T_FRAGMENTED, T_LOOPED6, note
from ippath.tx.emit import emit, neighbour_answers
from ippath.wire.ipv6 import (
    DESTINATION, FRAGMENT_HEADER, HEADER, MORE_FRAGMENTS, NEXTHDR_FRAGMENT, NEXT_HEADER,
    PAYLOAD_LENGTH, is_multicast,
)  # fmt: skip
from ippath.wire.memory import copy, load8, load64be, store8, store16be, store32be

MINIMUM_MTU = 1280
LARGEST_MTU = 0xFFF8  # IP6_MAX_MTU, for routes by the loopback device


@hot
def route_mtu6(h, info, device):
    """MTU of a route: its own, or that of its device (kernel: ip6_mtu)."""
    mtu = h.device[device, DEV_MTU6]
    if info != NONE and h.fib6.info[info, INFO_MTU]:
        mtu = h.fib6.info[info, INFO_MTU]
    return min(mtu, LARGEST_MTU)


@hot
def finish_output6(h, s, buf, at, kept, size, device, hi, lo, group):
    """One packet of `size` bytes, of which `buf` has `kept`, to the device, counted as sent."""
    s.counters[M_Ip6OutTransmits] += 1
    s.counters[M_Ip6OutOctets] += size
    if group:
        s.counters[M_Ip6OutMcastPkts] += 1
        s.counters[M_Ip6OutMcastOctets] += size
    emit(h, s, buf, at, kept, size, device, 6, hi, lo, False)


@cold
def _fragment6(h, s, trace, size, mtu, device, hi, lo, group):
    """Cut the packet of `size` bytes in scratch into fragments that fit `mtu`, and send them."""
    buf = s.scratch
    number = random32(s)
    header = load8(buf, NEXT_HEADER)
    body = size - HEADER
    room = (mtu - HEADER - FRAGMENT_HEADER) & ~7
    if room < 8:
        s.counters[M_Ip6FragFails] += 1
        return
    done, fragments = 0, 0
    at = SCRATCH_FRAGMENT + HEADER
    while done < body:
        part = min(body - done, room)
        copy(buf, SCRATCH_FRAGMENT, buf, 0, HEADER)
        store8(buf, SCRATCH_FRAGMENT + NEXT_HEADER, NEXTHDR_FRAGMENT)
        store16be(buf, SCRATCH_FRAGMENT + PAYLOAD_LENGTH, FRAGMENT_HEADER + part)
        store8(buf, at, header)
        store8(buf, at + 1, 0)
        store16be(buf, at + 2, done | (MORE_FRAGMENTS if done + part < body else 0))
        store32be(buf, at + 4, number)
        copy(buf, at + FRAGMENT_HEADER, buf, HEADER + done, part)
        total = HEADER + FRAGMENT_HEADER + part
        finish_output6(h, s, buf, SCRATCH_FRAGMENT, total, total, device, hi, lo, group)
        s.counters[M_Ip6FragCreates] += 1
        done += part
        fragments += 1
    s.counters[M_Ip6FragOKs] += 1
    note(trace, T_FRAGMENTED, fragments, mtu)


@kernel
def ip_output6(h, s, trace, size, mtu):
    """Send the packet of this host in scratch by the route in the OUTPUT rows."""
    flow, result, fib = s.flow[FLOW_OUTPUT], s.result[FLOW_OUTPUT], h.fib6
    s.counters[M_Ip6OutRequests] += 1
    device, nh = flow[FLOW_OIF], result[RES_NH]
    if result[RES_TYPE] == RTN_UNICAST and h.device[device, DEV_LOOPBACK]:
        note(trace, T_LOOPED6, device)
        s.counters[M_Ip6OutNoRoutes] += 1
        return
    hi, lo = flow[FLOW_DST_HI], flow[FLOW_DST_LO]
    group = is_multicast(load64be(s.scratch, DESTINATION))
    if nh != NONE and fib.nexthop[nh, NH_GATEWAY_FAMILY]:
        hi, lo = fib.nexthop[nh, NH_HI], fib.nexthop[nh, NH_LO]
    if not group and not neighbour_answers(h, trace, device, 6, hi, lo):
        return
    if size > mtu:
        _fragment6(h, s, trace, size, mtu, device, hi, lo, group)
    else:
        finish_output6(h, s, s.scratch, 0, size, size, device, hi, lo, group)
