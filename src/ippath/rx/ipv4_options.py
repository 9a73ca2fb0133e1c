"""IPv4 options on input and when forwarding (kernel: __ip_options_compile, ip_options_rcv_srr,
ip_forward_options; RFC 791 section 3.1, RFC 1812 section 5.3.13).

In:  a routed packet with ihl > 5.   Out: OPT_*, and a changed copy of the header in scratch.
Drops: IP_INHDR with ICMP parameter problem; NOT_SPECIFIED for source routes that are refused.
"""

from __future__ import annotations

from ippath.fib.flow import fill_flow4
from ippath.fib.local import is_elsewhere
from ippath.fib.lookup4 import fib_lookup4
from ippath.jit import cold, kernel
from ippath.mib import M_IpInHdrErrors
from ippath.reasons import R_IP_INHDR, R_NOT_SPECIFIED
from ippath.rx.header4 import begin_options
from ippath.rx.icmp_send import ICMP_PARAMETER_PROBLEM, icmp_send, specific_destination
from ippath.rx.packet import CONTINUE, count, drop
from ippath.rx.route_input4 import ip_route_input_slow
from ippath.tables import (
    DEV_ACCEPT_SOURCE_ROUTE, DST_DEVICE, DST_GATEWAY_FAMILY, DST_GATEWAY_LO, DST_TYPE, FLOW_SPARE,
    OPT_CHANGED, OPT_CIPSO, OPT_HIT, OPT_NEXTHOP, OPT_RR, OPT_RR_ADDRESS, OPT_SRR, OPT_STRICT,
    OPT_TS, OPT_TS_ADDRESS, OPT_TS_TIME, PACKET_HOST, RES_INFO, RES_NH, RTN_LOCAL, RTN_UNICAST,
    SCRATCH_HEADER, SKB_DEVICE, SKB_DST_LO, SKB_IHL, SKB_MARK, SKB_OPT_ALERT, SKB_PKT_TYPE,
    SKB_SRC_LO, SKB_TOS,
)  # fmt: skip
from ippath.trace import T_OPTIONS, T_SRR, T_SRR_NEXT, note
from ippath.tx.ip_options4 import (
    TS_ADDRESS, TS_ONLY, TS_PRESPECIFIED, milliseconds_today,
)  # fmt: skip
from ippath.tx.route_output4 import SCOPE_UNIVERSE, preferred_source, select_address
from ippath.wire.checksum import checksum
from ippath.wire.ipv4 import (
    CHECKSUM, DESTINATION, HEADER, IPOPT_CIPSO, IPOPT_END, IPOPT_LSRR, IPOPT_NOOP, IPOPT_RA,
    IPOPT_RR, IPOPT_SSRR, IPOPT_TIMESTAMP,
)  # fmt: skip
from ippath.wire.memory import load8, load16be, load32be, store8, store16be, store32be

DESTINATION_POINTER = 16  # of a parameter problem: the destination address
_FINE = -1


# --- on input -----------------------------------------------------------------------------------------


@kernel
def _record_route(h, s, trace, at):
    """Take a slot of the record route option at `at`; what is wrong with it, or _FINE."""
    opt, buf = s.opt, s.scratch
    if opt[OPT_RR]:
        return 0
    size, pointer = load8(buf, at + 1), load8(buf, at + 2)
    if size < 3:
        return 1
    if pointer < 4:
        return 2
    if pointer <= size:
        if pointer + 3 > size:
            return 2
        store32be(buf, at + pointer - 1, specific_destination(h, s, trace))
        store8(buf, at + 2, pointer + 4)
        opt[OPT_RR_ADDRESS] = 1
        opt[OPT_CHANGED] = 1
    opt[OPT_RR] = at - SCRATCH_HEADER
    return _FINE


@kernel
def _timestamp(h, s, trace, at):
    """Fill a slot of the timestamp option at `at`; what is wrong with it, or _FINE."""
    opt, buf = s.opt, s.scratch
    if opt[OPT_TS]:
        return 0
    size, pointer, flags = load8(buf, at + 1), load8(buf, at + 2), load8(buf, at + 3)
    if size < 4:
        return 1
    if pointer < 5:
        return 2
    kind = flags & 15
    if pointer > size:
        if kind != TS_PRESPECIFIED:
            if flags >> 4 == 15:
                return 3
            store8(buf, at + 3, flags + 16)  # one more host that found no room
            opt[OPT_CHANGED] = 1
        opt[OPT_TS] = at - SCRATCH_HEADER
        return _FINE
    if pointer + 3 > size:
        return 2
    if (kind == TS_ADDRESS or kind == TS_PRESPECIFIED) and pointer + 7 > size:
        return 2
    opt[OPT_TS] = at - SCRATCH_HEADER
    if kind != TS_ONLY and kind != TS_ADDRESS and kind != TS_PRESPECIFIED:
        return _FINE
    here = at + pointer - 1
    if kind == TS_PRESPECIFIED and is_elsewhere(h, load32be(buf, here)):
        return _FINE
    if kind == TS_ADDRESS:
        store32be(buf, here, specific_destination(h, s, trace))
        opt[OPT_TS_ADDRESS] = 1
    if kind != TS_ONLY:
        here += 4
        pointer += 4
    store32be(buf, here, milliseconds_today(s))
    store8(buf, at + 2, pointer + 4)
    opt[OPT_TS_TIME] = 1
    opt[OPT_CHANGED] = 1
    return _FINE


@kernel
def _source_route(s, at):
    """Note the source route option at `at`; what is wrong with it, or _FINE."""
    opt, buf = s.opt, s.scratch
    if load8(buf, at + 1) < 3:
        return 1
    if load8(buf, at + 2) < 4:
        return 2
    if opt[OPT_SRR]:
        return 0
    opt[OPT_SRR] = at - SCRATCH_HEADER
    opt[OPT_STRICT] = int(load8(buf, at) == IPOPT_SSRR)
    return _FINE


@kernel
def _cipso(s, at):
    """Note the CIPSO option at `at`; what is wrong with it: no domain of interpretation is known."""
    if s.opt[OPT_CIPSO]:
        return 0
    s.opt[OPT_CIPSO] = at - SCRATCH_HEADER
    return 1 if load8(s.scratch, at + 1) < 8 else 2


@cold
def _ip_options_compile(h, s, trace):
    """Go through the options; offset of the byte that is wrong, from the header's start, or _FINE."""
    skb, buf = s.skb, s.scratch
    at, end = SCRATCH_HEADER + HEADER, SCRATCH_HEADER + skb[SKB_IHL]
    while at < end:
        option = load8(buf, at)
        if option == IPOPT_END:
            for rest in range(at + 1, end):
                if load8(buf, rest) != IPOPT_END:
                    store8(buf, rest, IPOPT_END)
                    s.opt[OPT_CHANGED] = 1
            return _FINE
        if option == IPOPT_NOOP:
            at += 1
            continue
        if at + 2 > end:
            return at - SCRATCH_HEADER
        size = load8(buf, at + 1)
        if size < 2 or at + size > end:
            return at - SCRATCH_HEADER
        wrong = _FINE
        if option == IPOPT_SSRR or option == IPOPT_LSRR:
            wrong = _source_route(s, at)
        elif option == IPOPT_RR:
            wrong = _record_route(h, s, trace, at)
        elif option == IPOPT_TIMESTAMP:
            wrong = _timestamp(h, s, trace, at)
        elif option == IPOPT_RA:
            if size < 4:
                wrong = 1
            elif load16be(buf, at + 2) == 0:
                skb[SKB_OPT_ALERT] = at - SCRATCH_HEADER
        elif option == IPOPT_CIPSO:
            wrong = _cipso(s, at)
        if wrong != _FINE:
            return at + wrong - SCRATCH_HEADER
        at += size
    return _FINE


@cold
def ip_options_rcv_srr(h, s, data, trace):
    """Follow the source route of a packet that is addressed to this host, or to its neighbour."""
    skb, opt, buf = s.skb, s.opt, s.scratch
    if skb[SKB_PKT_TYPE] != PACKET_HOST:
        return drop(s, trace, R_NOT_SPECIFIED)
    if skb[DST_TYPE] == RTN_UNICAST:
        if not opt[OPT_STRICT]:
            return CONTINUE
        icmp_send(h, s, data, trace, ICMP_PARAMETER_PROBLEM, 0, DESTINATION_POINTER << 24)
        return drop(s, trace, R_NOT_SPECIFIED)
    if skb[DST_TYPE] != RTN_LOCAL:
        return drop(s, trace, R_NOT_SPECIFIED)
    at = SCRATCH_HEADER + opt[OPT_SRR]
    size, pointer = load8(buf, at + 1), load8(buf, at + 2)
    while pointer <= size:
        if pointer + 3 > size:
            wrong = opt[OPT_SRR] + 2
            icmp_send(h, s, data, trace, ICMP_PARAMETER_PROBLEM, 0, wrong << 24)
            return drop(s, trace, R_NOT_SPECIFIED)
        nexthop, destination = load32be(buf, at + pointer - 1), skb[SKB_DST_LO]
        note(trace, T_SRR_NEXT, nexthop)
        skb[SKB_DST_LO] = nexthop
        routed = ip_route_input_slow(h, s, data, trace)
        kind = skb[DST_TYPE]
        if routed != CONTINUE or (kind != RTN_UNICAST and kind != RTN_LOCAL):
            return drop(s, trace, R_NOT_SPECIFIED)
        opt[OPT_CHANGED] = 1
        if kind != RTN_LOCAL:
            skb[SKB_DST_LO] = destination  # until the packet is forwarded
            opt[OPT_HIT] = 1
            opt[OPT_NEXTHOP] = nexthop
            return CONTINUE
        store32be(buf, SCRATCH_HEADER + DESTINATION, nexthop)  # one of ours again
        pointer += 4
    return CONTINUE


@cold
def ip_rcv_options(h, s, data, trace):
    """Process the options of the packet in hand; CONTINUE or DONE."""
    skb = s.skb
    begin_options(s, data)
    wrong = _ip_options_compile(h, s, trace)
    if wrong != _FINE:
        note(trace, T_OPTIONS, wrong)
        icmp_send(h, s, data, trace, ICMP_PARAMETER_PROBLEM, 0, wrong << 24)
        count(s, M_IpInHdrErrors)
        return drop(s, trace, R_IP_INHDR)
    if s.opt[OPT_SRR] == 0:
        return CONTINUE
    accepted = h.device[skb[SKB_DEVICE], DEV_ACCEPT_SOURCE_ROUTE]
    note(trace, T_SRR, skb[SKB_DEVICE], accepted)
    if not accepted:
        return drop(s, trace, R_NOT_SPECIFIED)
    return ip_options_rcv_srr(h, s, data, trace)


# --- when forwarding ----------------------------------------------------------------------------------


@cold
def _route_source(h, s, trace):
    """The address by which this host would send to the packet's target (kernel: ip_rt_get_source)."""
    skb, flow, result = s.skb, s.flow[FLOW_SPARE], s.result[FLOW_SPARE]
    fill_flow4(
        flow, skb[SKB_SRC_LO], skb[SKB_DST_LO], skb[SKB_TOS] & 0xFC, skb[SKB_MARK],
        skb[SKB_DEVICE], skb[DST_DEVICE],
    )  # fmt: skip
    if fib_lookup4(h, s, FLOW_SPARE, trace) == 0:
        return preferred_source(h, result[RES_INFO], result[RES_NH])
    nexthop = skb[DST_GATEWAY_LO] if skb[DST_GATEWAY_FAMILY] == 4 else skb[SKB_DST_LO]
    return select_address(h, skb[DST_DEVICE], nexthop, SCOPE_UNIVERSE)


@cold
def ip_forward_options(h, s, trace):
    """Record this router in the options of the packet that it forwards."""
    skb, opt, buf = s.skb, s.opt, s.scratch
    if opt[OPT_RR_ADDRESS]:
        at = SCRATCH_HEADER + opt[OPT_RR]
        store32be(buf, at + load8(buf, at + 2) - 5, _route_source(h, s, trace))
    if opt[OPT_HIT]:
        at = SCRATCH_HEADER + opt[OPT_SRR]
        pointer, size = load8(buf, at + 2), load8(buf, at + 1)
        while pointer + 3 <= size and load32be(buf, at + pointer - 1) != opt[OPT_NEXTHOP]:
            pointer += 4
        if pointer + 3 <= size:
            skb[SKB_DST_LO] = opt[OPT_NEXTHOP]
            store32be(buf, SCRATCH_HEADER + DESTINATION, opt[OPT_NEXTHOP])
            store32be(buf, at + pointer - 1, _route_source(h, s, trace))
            store8(buf, at + 2, pointer + 4)
        if opt[OPT_TS_ADDRESS]:
            at = SCRATCH_HEADER + opt[OPT_TS]
            store32be(buf, at + load8(buf, at + 2) - 9, _route_source(h, s, trace))
    if opt[OPT_CHANGED]:
        store16be(buf, SCRATCH_HEADER + CHECKSUM, 0)
        store16be(buf, SCRATCH_HEADER + CHECKSUM, checksum(buf, SCRATCH_HEADER, skb[SKB_IHL]))
        opt[OPT_CHANGED] = 0
