"""ICMP input (kernel: icmp_rcv, icmp_echo, icmp_timestamp; RFC 792).

Errors are checked and counted; what they teach routes and sockets comes with the path MTU engine.
Drops: ICMP_CSUM, INVALID_PROTO, UNHANDLED_PROTO, PKT_TOO_SMALL.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.mib import (
    M_IcmpInAddrMaskReps, M_IcmpInAddrMasks, M_IcmpInCsumErrors, M_IcmpInDestUnreachs,
    M_IcmpInEchoReps, M_IcmpInEchos, M_IcmpInErrors, M_IcmpInMsgs, M_IcmpInParmProbs,
    M_IcmpInRedirects, M_IcmpInSrcQuenchs, M_IcmpInTimeExcds, M_IcmpInTimestampReps,
    M_IcmpInTimestamps, M_IcmpMsgInType0,
)  # fmt: skip
from ippath.reasons import (
    R_ICMP_CSUM, R_INVALID_PROTO, R_NOT_SPECIFIED, R_PKT_TOO_SMALL, R_UNHANDLED_PROTO,
)  # fmt: skip
from ippath.rx.icmp_send import icmp_reply
from ippath.rx.packet import capture_cut, count, deliver, drop, unchecked
from ippath.tables import (
    CONF_ICMP_ECHO_IGNORE_ALL, CONF_ICMP_ECHO_IGNORE_BROADCASTS, DST_TYPE, RTN_BROADCAST,
    RTN_MULTICAST, SKB_AVAIL, SKB_IHL, SKB_IP, SKB_LEN, SKB_TIME_NS,
)  # fmt: skip
from ippath.trace import T_ICMP_IN, note
from ippath.wire.checksum import all_ones, partial
from ippath.wire.icmp import (
    ICMP_ECHO, ICMP_ECHO_REPLY, ICMP_HEADER, ICMP_PARAMETER_PROBLEM, ICMP_REDIRECT,
    ICMP_SOURCE_QUENCH, ICMP_TIME_EXCEEDED, ICMP_TIMESTAMP, ICMP_TIMESTAMP_REPLY, ICMP_TYPES,
    ICMP_UNREACHABLE,
)  # fmt: skip
from ippath.wire.memory import load8, load32be, store32be

ADDRESS_MASK, ADDRESS_MASK_REPLY = 17, 18
DAY_MS = 86_400_000


@kernel
def _count_type(s, kind):
    s.counters[M_IcmpMsgInType0 + kind] += 1
    if kind == ICMP_ECHO:
        s.counters[M_IcmpInEchos] += 1
    elif kind == ICMP_ECHO_REPLY:
        s.counters[M_IcmpInEchoReps] += 1
    elif kind == ICMP_UNREACHABLE:
        s.counters[M_IcmpInDestUnreachs] += 1
    elif kind == ICMP_TIME_EXCEEDED:
        s.counters[M_IcmpInTimeExcds] += 1
    elif kind == ICMP_REDIRECT:
        s.counters[M_IcmpInRedirects] += 1
    elif kind == ICMP_PARAMETER_PROBLEM:
        s.counters[M_IcmpInParmProbs] += 1
    elif kind == ICMP_SOURCE_QUENCH:
        s.counters[M_IcmpInSrcQuenchs] += 1
    elif kind == ICMP_TIMESTAMP:
        s.counters[M_IcmpInTimestamps] += 1
    elif kind == ICMP_TIMESTAMP_REPLY:
        s.counters[M_IcmpInTimestampReps] += 1
    elif kind == ADDRESS_MASK:
        s.counters[M_IcmpInAddrMasks] += 1
    elif kind == ADDRESS_MASK_REPLY:
        s.counters[M_IcmpInAddrMaskReps] += 1


@kernel
def _error(s, trace, reason):
    count(s, M_IcmpInErrors)
    return drop(s, trace, reason)


@kernel
def _quotation(s, data, trace, at, size):
    """Check the packet that an error quotes (kernel: icmp_unreach, icmp_redirect)."""
    if size < ICMP_HEADER + 20:
        return _error(s, trace, R_PKT_TOO_SMALL)
    if s.skb[SKB_IP] + s.skb[SKB_AVAIL] < at + ICMP_HEADER + 20:
        return capture_cut(s, trace, ICMP_HEADER + 20)
    ihl = (load8(data, at + ICMP_HEADER) & 15) * 4
    if ihl < 20:
        return _error(s, trace, R_NOT_SPECIFIED)
    if size < ICMP_HEADER + ihl + 8:
        count(s, M_IcmpInErrors)
    return deliver(s, trace)


@cold
def icmp_rcv(h, s, data, trace):
    """Handle the ICMP message in hand; always DONE."""
    skb = s.skb
    at = skb[SKB_IP] + skb[SKB_IHL]
    size = skb[SKB_LEN] - skb[SKB_IHL]
    present = skb[SKB_AVAIL] - skb[SKB_IHL]
    count(s, M_IcmpInMsgs)
    if present < size:
        unchecked(s)
        if size >= ICMP_HEADER and present < ICMP_HEADER:
            return capture_cut(s, trace, ICMP_HEADER)
    elif not all_ones(partial(data, at, size)):
        count(s, M_IcmpInCsumErrors)
        count(s, M_IcmpInErrors)
        return drop(s, trace, R_ICMP_CSUM)
    if size < ICMP_HEADER:
        return _error(s, trace, R_NOT_SPECIFIED)
    kind = load8(data, at)
    note(trace, T_ICMP_IN, kind, load8(data, at + 1))
    _count_type(s, kind)
    if kind > ICMP_TYPES:
        return _error(s, trace, R_UNHANDLED_PROTO)
    if skb[DST_TYPE] == RTN_BROADCAST or skb[DST_TYPE] == RTN_MULTICAST:
        if (kind == ICMP_ECHO or kind == ICMP_TIMESTAMP) and h.conf[
            CONF_ICMP_ECHO_IGNORE_BROADCASTS
        ]:
            return _error(s, trace, R_INVALID_PROTO)
        if not (
            kind == ICMP_ECHO
            or kind == ICMP_TIMESTAMP
            or kind == ADDRESS_MASK
            or kind == ADDRESS_MASK_REPLY
        ):
            return _error(s, trace, R_INVALID_PROTO)
    if kind == ICMP_ECHO:
        if h.conf[CONF_ICMP_ECHO_IGNORE_ALL]:
            return drop(s, trace, R_NOT_SPECIFIED)
        icmp_reply(
            h, s, data, trace, ICMP_ECHO_REPLY, load32be(data, at + 4), at + ICMP_HEADER,
            size - ICMP_HEADER,
        )  # fmt: skip
    elif kind == ICMP_TIMESTAMP:
        if size < ICMP_HEADER + 12:
            return _error(s, trace, R_PKT_TOO_SMALL)
        if present >= ICMP_HEADER + 12:
            _timestamp_reply(h, s, data, trace, at)
    elif (
        kind == ICMP_UNREACHABLE
        or kind == ICMP_SOURCE_QUENCH
        or kind == ICMP_REDIRECT
        or kind == ICMP_TIME_EXCEEDED
        or kind == ICMP_PARAMETER_PROBLEM
    ):
        return _quotation(s, data, trace, at, size)
    return deliver(s, trace)


@kernel
def _timestamp_reply(h, s, data, trace, at):
    """Answer with originate, receive and transmit time in ms since midnight (RFC 792)."""
    body = len(s.scratch) - 64
    now = (s.skb[SKB_TIME_NS] // 1_000_000) % DAY_MS
    store32be(s.scratch, body, load32be(data, at + 8))
    store32be(s.scratch, body + 4, now)
    store32be(s.scratch, body + 8, now)
    ip, avail = s.skb[SKB_IP], s.skb[SKB_AVAIL]
    s.skb[SKB_IP], s.skb[SKB_AVAIL] = 0, len(s.scratch)  # the body lies in scratch, whole
    icmp_reply(h, s, s.scratch, trace, ICMP_TIMESTAMP_REPLY, load32be(data, at + 4), body, 12)
    s.skb[SKB_IP], s.skb[SKB_AVAIL] = ip, avail
