"""What ICMP errors teach about a path (kernel: __ip_rt_update_pmtu, __ip6_rt_update_pmtu; RFC 1191,
RFC 8201).

In:  an error about a packet that this host sent, checked by who sent it.   Out: an exception for its
destination, if the path is smaller than was known.  A report never makes a path larger.
"""

from __future__ import annotations

from ippath.fib.exceptions import make_exception, owner4, owner6
from ippath.fib.lookup4 import fib_lookup4
from ippath.jit import cold, kernel
from ippath.tables import (
    NH_DEVICE, CONF_FWMARK_REFLECT4, CONF_FWMARK_REFLECT6, CONF_MIN_PMTU, CONF_MTU_EXPIRES4_NS,
    CONF_MTU_EXPIRES6_NS, CONF_NO_PMTU_DISC, EXC_EXPIRES_NS, EXC_LOCKED, EXC_MTU, FLOW_OIF,
    FLOW_OUTPUT, INFO_MTU_LOCK, INFO_NH_COUNT, INFO_NH_FIRST, MISC_NOW_NS, NONE, RES_EXCEPTION,
    RES_INFO, RES_NH, RES_ROUTE, SKB_MARK,
)  # fmt: skip
from ippath.trace import T_PMTU, T_PMTU6, note
from ippath.tx.path_mtu import learned_mtu, output_mtu4, output_mtu6
from ippath.tx.route_output4 import route_output4
from ippath.tx.route_output6 import look_up_output6
from ippath.wire.ipv4 import DESTINATION, SOURCE, TOS
from ippath.wire.ipv6 import DESTINATION as DESTINATION6
from ippath.wire.ipv6 import SOURCE as SOURCE6
from ippath.wire.memory import load8, load16be, load32be, load64be

NO_FIELD, NO_PMTU = 1, 2  # net.ipv4.ip_no_pmtu_disc: the MTU does not count; the message neither
STRICT = 3  # only protocols that check the numbers of what is quoted
DSCP = 0xFC
MINIMUM_MTU6 = 1280
# what became of a report (trace)
LEARNED, NOT_SMALLER, LOCKED_METRIC, NO_ROUTE, TOO_SMALL, KNOWN = range(6)


@kernel
def reported_mtu4(h, data, at):
    """The MTU that a "fragmentation needed" at `data[at]` reports; NONE if it is to be ignored.

    Kernel: icmp_unreach.  0 means that the path is to be taken for the smallest that counts.
    """
    mode = h.conf[CONF_NO_PMTU_DISC]
    if mode == NO_PMTU or mode == STRICT:
        return NONE
    return load16be(data, at + 6) if mode == 0 else 0


@kernel
def _learn4(h, s, nh, destination, mtu, locked):
    now, device = s.misc[MISC_NOW_NS], h.fib4.nexthop[nh, NH_DEVICE]
    row = make_exception(h, s, device, owner4(h, nh), 4, 0, destination)
    entry = s.exception[row]
    entry[EXC_MTU], entry[EXC_LOCKED] = mtu, locked
    entry[EXC_EXPIRES_NS] = max(1, now + h.conf[CONF_MTU_EXPIRES4_NS])


@kernel
def _judge4(h, s, destination, mtu, trace):
    """What to do with a report about the route in the OUTPUT rows."""
    flow, result = s.flow[FLOW_OUTPUT], s.result[FLOW_OUTPUT]
    info, exception = result[RES_INFO], result[RES_EXCEPTION]
    if info != NONE and h.fib4.info[info, INFO_MTU_LOCK]:
        return LOCKED_METRIC
    old = output_mtu4(h, s, result, flow[FLOW_OIF])
    if old < mtu:
        return NOT_SMALLER
    locked = 0
    if mtu < h.conf[CONF_MIN_PMTU]:
        mtu, locked = min(old, h.conf[CONF_MIN_PMTU]), 1
    lasts = h.conf[CONF_MTU_EXPIRES4_NS]
    if (
        not locked
        and exception != NONE
        and s.exception[exception, EXC_MTU] == mtu
        and s.misc[MISC_NOW_NS] < s.exception[exception, EXC_EXPIRES_NS] - lasts // 2
    ):
        return KNOWN
    if fib_lookup4(h, s, FLOW_OUTPUT, trace):
        return NO_ROUTE
    info = result[RES_INFO]
    first, count = h.fib4.info[info, INFO_NH_FIRST], h.fib4.info[info, INFO_NH_COUNT]
    if count < 2:
        first, count = result[RES_NH], 1
    for nh in range(first, first + count):  # any of them may be on the path
        _learn4(h, s, nh, destination, mtu, locked)
    return LEARNED


@cold
def update_pmtu4(h, s, data, quoted, protocol, oif, mtu, trace):
    """Take a report of `mtu` about the packet quoted at `data[quoted]`.

    Its flow is looked up as it was sent (kernel: ipv4_update_pmtu, ipv4_sk_update_pmtu).
    """
    source, destination = load32be(data, quoted + SOURCE), load32be(data, quoted + DESTINATION)
    mark = s.skb[SKB_MARK] if h.conf[CONF_FWMARK_REFLECT4] else 0
    tos = load8(data, quoted + TOS) & DSCP
    became = NO_ROUTE
    if route_output4(h, s, source, destination, tos, mark, oif, protocol, 0, NONE, trace) == 0:
        became = _judge4(h, s, destination, mtu, trace)
    note(trace, T_PMTU, destination, mtu, became)


@cold
def update_pmtu6(h, s, data, quoted, oif, mtu, trace):
    """Take a report of `mtu` about the packet quoted at `data[quoted]` (kernel: ip6_update_pmtu)."""
    src_hi, src_lo = load64be(data, quoted + SOURCE6), load64be(data, quoted + SOURCE6 + 8)
    hi, lo = load64be(data, quoted + DESTINATION6), load64be(data, quoted + DESTINATION6 + 8)
    mark = s.skb[SKB_MARK] if h.conf[CONF_FWMARK_REFLECT6] else 0
    error = look_up_output6(
        h, s, FLOW_OUTPUT, src_hi, src_lo, hi, lo, 0, mark, 0, 0, oif, NONE, trace
    )  # fmt: skip
    became = NO_ROUTE if error else _judge6(h, s, hi, lo, mtu)
    note(trace, T_PMTU6, hi, lo, mtu, became)


@kernel
def _judge6(h, s, hi, lo, mtu):
    flow, result = s.flow[FLOW_OUTPUT], s.result[FLOW_OUTPUT]
    if mtu < MINIMUM_MTU6:
        return TOO_SMALL
    if mtu >= output_mtu6(h, s, result, flow[FLOW_OIF]):
        return NOT_SMALLER
    now = s.misc[MISC_NOW_NS]
    row = result[RES_EXCEPTION]
    if row == NONE or learned_mtu(s, row) == 0:
        nh = result[RES_NH]
        owner, device = owner6(h, result[RES_ROUTE], nh), h.fib6.nexthop[nh, NH_DEVICE]
        row = make_exception(h, s, device, owner, 6, hi, lo)
    entry = s.exception[row]
    entry[EXC_MTU] = mtu
    entry[EXC_EXPIRES_NS] = max(1, now + h.conf[CONF_MTU_EXPIRES6_NS])
    return LEARNED
