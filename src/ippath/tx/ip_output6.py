"""IPv6 output: hand-over to the device (kernel: ip6_finish_output2)."""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.mib import (
    M_Ip6OutMcastOctets, M_Ip6OutMcastPkts, M_Ip6OutOctets, M_Ip6OutRequests, M_Ip6OutTransmits,
)  # fmt: skip
from ippath.tables import (
    FLOW_DST_HI, FLOW_DST_LO, FLOW_OIF, FLOW_OUTPUT, NH_GATEWAY_FAMILY, NH_HI, NH_LO, NONE, RES_NH,
)  # fmt: skip
from ippath.tx.emit import emit, neighbour_answers
from ippath.wire.ipv6 import DESTINATION, is_multicast
from ippath.wire.memory import load64be


@hot
def finish_output6(h, s, buf, at, size, counted, device, hi, lo, group):
    """One packet to the device, counted as sent."""
    s.counters[M_Ip6OutTransmits] += 1
    s.counters[M_Ip6OutOctets] += counted
    if group:
        s.counters[M_Ip6OutMcastPkts] += 1
        s.counters[M_Ip6OutMcastOctets] += counted
    emit(h, s, buf, at, size, device, 6, hi, lo, False)


@kernel
def ip_output6(h, s, trace, size):
    """Send the packet of this host in scratch by the route in the OUTPUT rows."""
    flow, result, fib = s.flow[FLOW_OUTPUT], s.result[FLOW_OUTPUT], h.fib6
    s.counters[M_Ip6OutRequests] += 1
    device, nh = flow[FLOW_OIF], result[RES_NH]
    hi, lo = flow[FLOW_DST_HI], flow[FLOW_DST_LO]
    group = is_multicast(load64be(s.scratch, DESTINATION))
    if nh != NONE and fib.nexthop[nh, NH_GATEWAY_FAMILY]:
        hi, lo = fib.nexthop[nh, NH_HI], fib.nexthop[nh, NH_LO]
    if group or neighbour_answers(h, trace, device, 6, hi, lo):
        finish_output6(h, s, s.scratch, 0, size, size, device, hi, lo, group)
