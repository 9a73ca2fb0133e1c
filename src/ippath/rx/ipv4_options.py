"""IPv4 options on input (kernel: ip_rcv_options, __ip_options_compile; RFC 791 section 3.1).

In:  a routed packet with ihl > 5.   Out: SKB_OPT_* offsets of record route, timestamp, source route.
Drops: IP_INHDR with ICMP parameter problem; NOT_SPECIFIED for refused source routes.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.mib import M_IpInHdrErrors
from ippath.reasons import R_IP_INHDR, R_NOT_SPECIFIED, R_SOURCE_ROUTE
from ippath.rx.icmp_send import ICMP_PARAMETER_PROBLEM, icmp_send
from ippath.rx.packet import CONTINUE, count, drop, unsupported
from ippath.tables import (
    DEV_ACCEPT_SOURCE_ROUTE, DST_TYPE, PACKET_HOST, RTN_LOCAL, RTN_UNICAST, SKB_DEVICE, SKB_IHL,
    SKB_IP, SKB_OPT_ALERT, SKB_OPT_ROUTED, SKB_OPT_RR, SKB_OPT_SRR, SKB_OPT_TS, SKB_OPTIONS,
    SKB_PKT_TYPE,
)  # fmt: skip
from ippath.trace import T_OPTIONS, T_SRR, note
from ippath.wire.ipv4 import (
    HEADER, IPOPT_CIPSO, IPOPT_END, IPOPT_LSRR, IPOPT_NOOP, IPOPT_RA, IPOPT_RR, IPOPT_SSRR,
    IPOPT_TIMESTAMP,
)  # fmt: skip
from ippath.wire.memory import load8, load16be

TS_ONLY, TS_ADDRESS, TS_PRESPECIFIED = 0, 1, 3
_FINE = -1


@kernel
def _check_timestamp(data, at, size):
    """Offset within the option of what is wrong with a timestamp option, or _FINE."""
    if size < 4:
        return 1
    pointer = load8(data, at + 2)
    if pointer < 5:
        return 2
    kind = load8(data, at + 3) & 15
    if pointer <= size:
        if pointer + 3 > size:
            return 2
        if (kind == TS_ADDRESS or kind == TS_PRESPECIFIED) and pointer + 7 > size:
            return 2
    elif kind != TS_PRESPECIFIED and load8(data, at + 3) >> 4 == 15:
        return 3
    return _FINE


@kernel
def _parse_options(skb, data, ip, ihl):
    """Offset of the byte that is wrong, from the start of the IP header, or _FINE."""
    at, left = ip + HEADER, ihl - HEADER
    while left > 0:
        option = load8(data, at)
        if option == IPOPT_END:
            return _FINE
        if option == IPOPT_NOOP:
            at += 1
            left -= 1
            continue
        if left < 2:
            return at - ip
        size = load8(data, at + 1)
        if size < 2 or size > left:
            return at - ip
        if option == IPOPT_SSRR or option == IPOPT_LSRR:
            if size < 3:
                return at + 1 - ip
            if load8(data, at + 2) < 4:
                return at + 2 - ip
            if skb[SKB_OPT_SRR]:
                return at - ip
            skb[SKB_OPT_SRR] = at - ip
        elif option == IPOPT_RR:
            if skb[SKB_OPT_RR]:
                return at - ip
            if size < 3:
                return at + 1 - ip
            pointer = load8(data, at + 2)
            if pointer < 4:
                return at + 2 - ip
            if pointer <= size and pointer + 3 > size:
                return at + 2 - ip
            skb[SKB_OPT_RR] = at - ip
        elif option == IPOPT_TIMESTAMP:
            if skb[SKB_OPT_TS]:
                return at - ip
            wrong = _check_timestamp(data, at, size)
            if wrong != _FINE:
                return at + wrong - ip
            skb[SKB_OPT_TS] = at - ip
        elif option == IPOPT_RA:
            if size < 4:
                return at + 1 - ip
            if load16be(data, at + 2) == 0:
                skb[SKB_OPT_ALERT] = at - ip
        elif option == IPOPT_CIPSO and size < 8:
            return at + 1 - ip
        at += size
        left -= size
    return _FINE


@cold
def ip_rcv_options(h, s, data, trace):
    """Parse the options of the packet in hand; CONTINUE or DONE."""
    skb = s.skb
    skb[SKB_OPTIONS] = 1
    ip = skb[SKB_IP]
    wrong = _parse_options(skb, data, ip, skb[SKB_IHL])
    if wrong != _FINE:
        note(trace, T_OPTIONS, wrong)
        icmp_send(h, s, data, trace, ICMP_PARAMETER_PROBLEM, 0, wrong << 24)
        count(s, M_IpInHdrErrors)
        return drop(s, trace, R_IP_INHDR)
    if skb[SKB_OPT_SRR] == 0:
        return CONTINUE
    accepted = h.device[skb[SKB_DEVICE], DEV_ACCEPT_SOURCE_ROUTE]
    note(trace, T_SRR, skb[SKB_DEVICE], accepted)
    if not accepted:
        return drop(s, trace, R_NOT_SPECIFIED)
    if skb[SKB_PKT_TYPE] != PACKET_HOST:
        return drop(s, trace, R_NOT_SPECIFIED)
    if skb[DST_TYPE] == RTN_UNICAST:
        if load8(data, ip + skb[SKB_OPT_SRR]) == IPOPT_LSRR:
            return CONTINUE
        icmp_send(h, s, data, trace, ICMP_PARAMETER_PROBLEM, 0, 16 << 24)
        return drop(s, trace, R_NOT_SPECIFIED)
    if skb[DST_TYPE] != RTN_LOCAL:
        return drop(s, trace, R_NOT_SPECIFIED)
    if load8(data, ip + skb[SKB_OPT_SRR] + 2) > load8(data, ip + skb[SKB_OPT_SRR] + 1):
        return CONTINUE  # the source route is used up: this host is its end
    skb[SKB_OPT_ROUTED] = 1
    return unsupported(s, trace, R_SOURCE_ROUTE)
