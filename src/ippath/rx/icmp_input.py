"""ICMP input (kernel: icmp_rcv, icmp_echo, icmp_timestamp, icmp_unreach; RFC 792).

Errors are checked, counted and told to the socket that they concern; they teach the host
what a path can carry, and better first hops.
No socket of this host waits for echo replies.
Drops: ICMP_CSUM, INVALID_PROTO, UNHANDLED_PROTO, PKT_TOO_SMALL, IP_INHDR, NO_SOCKET, NOT_SPECIFIED.
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
    R_ICMP_CSUM, R_INVALID_PROTO, R_IP_INHDR, R_NO_SOCKET, R_NOT_SPECIFIED, R_PKT_TOO_SMALL,
    R_UNHANDLED_PROTO,
)  # fmt: skip
from ippath.rx.icmp_send import BODY, icmp_reply
from ippath.rx.packet import capture_cut, copy_captured, count, deliver, drop, unchecked
from ippath.rx.path_mtu_input import reported_mtu4, update_pmtu4
from ippath.rx.redirect_input import redirect4
from ippath.tables import (
    CONF_ICMP_ECHO_IGNORE_ALL, CONF_ICMP_ECHO_IGNORE_BROADCASTS, DST_TYPE, NONE, RTN_BROADCAST,
    RTN_MULTICAST, SKB_AVAIL, SKB_IHL, SKB_IP, SKB_LEN, SOCK_DEAF4, SOCK_DEVICE,
)  # fmt: skip
from ippath.trace import T_ICMP_IN, note
from ippath.tx.ip_options4 import milliseconds_today
from ippath.udp.keep import keep_error
from ippath.udp.lookup import udp_sender
from ippath.wire.checksum import all_ones, partial
from ippath.wire.icmp import (
    FRAGMENTATION_NEEDED, ICMP_ECHO, ICMP_ECHO_REPLY, ICMP_EXTENDED_ECHO, ICMP_EXTENDED_ECHO_REPLY,
    ICMP_HEADER, ICMP_PARAMETER_PROBLEM, ICMP_REDIRECT, ICMP_SOURCE_QUENCH, ICMP_TIMESTAMP,
    ICMP_TIMESTAMP_REPLY, ICMP_TIME_EXCEEDED, ICMP_TYPES, ICMP_UNREACHABLE, REASSEMBLY_TIME,
    UNREACHABLE_CODES,
)  # fmt: skip
from ippath.wire.ipv4 import (
    IPPROTO_ICMP, DESTINATION, HEADER, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE, PROTOCOL, SOURCE,
)  # fmt: skip
from ippath.wire.memory import load8, load16be, load32be, store32be

ADDRESS_MASK, ADDRESS_MASK_REPLY = 17, 18


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
def _tell_sender(h, s, data, at, quoted, transport, protocol, end):
    """Tell the socket that sent what is quoted; its row or NONE (kernel: __udp4_lib_err, tcp_v4_err)."""
    if protocol != IPPROTO_UDP and protocol != IPPROTO_UDPLITE:
        return NONE
    source, destination = load32be(data, quoted + SOURCE), load32be(data, quoted + DESTINATION)
    ports = load32be(data, transport)
    row = udp_sender(h, s, protocol, 0, source, 0, destination, ports)
    if row == NONE:
        return NONE
    kind, code, info = load8(data, at), load8(data, at + 1), 0
    if kind == ICMP_UNREACHABLE and code == FRAGMENTATION_NEEDED:
        info = load16be(data, at + 6)
    elif kind == ICMP_PARAMETER_PROBLEM:
        info = load8(data, at + 4)
    keep_error(h, s, data, row, transport, end - transport, kind, code, info, 0, destination)
    return row


@kernel
def _learn(h, s, data, trace, at, quoted, protocol, oif, mtu):
    """Let routes know what an error about a packet of this host says of its way."""
    if mtu != NONE:
        update_pmtu4(h, s, data, quoted, protocol, oif, mtu, trace)
    elif load8(data, at) == ICMP_REDIRECT:
        redirect4(h, s, data, at, quoted, protocol, oif, trace)


@kernel
def _icmp_socket_deliver(h, s, data, trace, at, size, ihl, mtu):
    """Hand an error to the protocol that it concerns; errors that concern nobody are counted.

    `mtu` is what the error reports of the path, NONE if nothing.
    """
    quoted = at + ICMP_HEADER
    transport = quoted + ihl
    if size < ICMP_HEADER + ihl + 8:
        count(s, M_IcmpInErrors)
        return deliver(s, trace)
    if s.skb[SKB_IP] + s.skb[SKB_AVAIL] < transport + 8:
        return capture_cut(s, trace, transport + 8 - s.skb[SKB_IP])
    protocol = load8(data, quoted + PROTOCOL)
    end = min(at + size, s.skb[SKB_IP] + s.skb[SKB_AVAIL])
    if protocol == IPPROTO_TCP or protocol == IPPROTO_UDP or protocol == IPPROTO_UDPLITE:
        socket = _tell_sender(h, s, data, at, quoted, transport, protocol, end)
        if socket == NONE:
            count(s, M_IcmpInErrors)
        elif mtu == NONE or not h.socket[socket, SOCK_DEAF4]:
            _learn(h, s, data, trace, at, quoted, protocol, h.socket[socket, SOCK_DEVICE], mtu)
    elif protocol == IPPROTO_ICMP and load8(data, transport) == ICMP_ECHO_REPLY:
        # other messages are those of ping sockets (kernel: icmp_err)
        _learn(h, s, data, trace, at, quoted, protocol, NONE, mtu)
    return deliver(s, trace)


@kernel
def _icmp_unreach(h, s, data, trace, at, size, kind, code):
    """Check an error and the packet that it quotes (kernel: icmp_unreach, icmp_redirect)."""
    if size < ICMP_HEADER + HEADER:
        short = R_PKT_TOO_SMALL if kind == ICMP_REDIRECT else R_NOT_SPECIFIED
        return _error(s, trace, short)
    if s.skb[SKB_IP] + s.skb[SKB_AVAIL] < at + ICMP_HEADER + HEADER:
        return capture_cut(s, trace, at + ICMP_HEADER + HEADER - s.skb[SKB_IP])
    ihl = (load8(data, at + ICMP_HEADER) & 15) * 4
    if kind != ICMP_REDIRECT:
        if ihl < HEADER:
            return _error(s, trace, R_IP_INHDR)
        if (kind == ICMP_UNREACHABLE and code > UNREACHABLE_CODES) or (
            kind == ICMP_TIME_EXCEEDED and code == REASSEMBLY_TIME
        ):
            return deliver(s, trace)
    mtu = NONE
    if kind == ICMP_UNREACHABLE and code == FRAGMENTATION_NEEDED:
        mtu = reported_mtu4(h, data, at)
        if mtu == NONE:
            return deliver(s, trace)
    return _icmp_socket_deliver(h, s, data, trace, at, size, ihl, mtu)


@kernel
def _icmp_echo(h, s, data, trace, at, size):
    """Answer an echo request with its own code, identifier and data."""
    body = size - ICMP_HEADER
    copy_captured(s, data, at + ICMP_HEADER, BODY, body)
    icmp_reply(h, s, trace, ICMP_ECHO_REPLY, load8(data, at + 1), load32be(data, at + 4), body)


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
    kind, code = load8(data, at), load8(data, at + 1)
    note(trace, T_ICMP_IN, kind, code)
    _count_type(s, kind)
    if kind == ICMP_EXTENDED_ECHO:
        return deliver(s, trace)  # icmp_echo_enable_probe is off: no answer
    if kind == ICMP_EXTENDED_ECHO_REPLY:
        return drop(s, trace, R_NO_SOCKET)
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
    if kind > ICMP_TYPES:
        return _error(s, trace, R_UNHANDLED_PROTO)
    if kind == ICMP_ECHO:
        if not h.conf[CONF_ICMP_ECHO_IGNORE_ALL]:
            _icmp_echo(h, s, data, trace, at, size)
    elif kind == ICMP_ECHO_REPLY:
        return drop(s, trace, R_NO_SOCKET)
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
        return _icmp_unreach(h, s, data, trace, at, size, kind, code)
    return deliver(s, trace)


@kernel
def _timestamp_reply(h, s, data, trace, at):
    """Answer with originate, receive and transmit time in ms since midnight (RFC 792)."""
    now = milliseconds_today(s)
    store32be(s.scratch, BODY, load32be(data, at + 8))
    store32be(s.scratch, BODY + 4, now)
    store32be(s.scratch, BODY + 8, now)
    icmp_reply(h, s, trace, ICMP_TIMESTAMP_REPLY, 0, load32be(data, at + 4), 12)
