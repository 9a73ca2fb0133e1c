"""UDP input for both families (kernel: __udp4_lib_rcv, __udp6_lib_rcv; RFC 768, RFC 8200 8.1).

In:  SKB_TRANSPORT and the IP length.   Out: SKB_SOCKET.
Drops: PKT_TOO_SMALL, UDP_CSUM, NO_SOCKET, SOCKET_RCVBUFF, NOT_SPECIFIED.
"""

from __future__ import annotations

from ippath.jit import cold, hot
from ippath.mib import (
    M_Udp6InDatagrams, M_UdpInDatagrams, M_UdpLite6InDatagrams, M_UdpLiteInDatagrams,
)  # fmt: skip
from ippath.reasons import (
    R_NOT_SPECIFIED, R_NO_SOCKET, R_PKT_TOO_SMALL, R_SOCKET_RCVBUFF, R_UDP_CSUM,
)  # fmt: skip
from ippath.rx.icmp_send import icmp_send
from ippath.rx.icmpv6_send import icmp6_send
from ippath.rx.packet import capture_cut, deliver, drop, unchecked
from ippath.tables import (
    COLLECT_CALLS, COLLECT_TAKEN, DST_TYPE, MISC_COLLECT, NONE, READ_AT_ONCE, READ_BY_CALLS,
    READ_NEVER, RTN_BROADCAST, RTN_MULTICAST, SCRATCH_HEADER, SKB_AVAIL, SKB_DST_HI, SKB_EARLY,
    SKB_FAMILY, SKB_IP, SKB_LEN, SKB_OPTIONS, SKB_PROTOCOL, SKB_SOCKET, SKB_TRANSPORT, SOCKQ_DROPS,
    SOCK_COVERAGE, SOCK_NO_CHECK6, SOCK_READ_NS,
)  # fmt: skip
from ippath.trace import T_UDP_CSUM, T_UDP_FLUSH, T_UDP_LENGTH, T_UDP_SOCKET, note
from ippath.udp.early_demux import remember_route
from ippath.udp.keep import keep_datagram
from ippath.udp.lookup import udp_lookup, udp_matches_group
from ippath.udp.queue import udp_enqueue
from ippath.wire.checksum import pseudo4, pseudo6, transport_ok
from ippath.wire.icmp import (
    ICMP6_UNREACHABLE, ICMP_UNREACHABLE, PORT6_UNREACHABLE, PORT_UNREACHABLE,
)  # fmt: skip
from ippath.wire.ipv4 import IPPROTO_UDP
from ippath.wire.ipv6 import is_multicast
from ippath.wire.memory import load16be

UDP_HEADER = 8
CHECKED_AT_ONCE = 76  # CHECKSUM_BREAK: longer datagrams are verified when they are read
# offsets of the counters within each of the four sets (see ippath.mib)
IN_DATAGRAMS, NO_PORTS, IN_ERRORS, RCVBUF_ERRORS, IN_CSUM_ERRORS, IGNORED_MULTI = 0, 1, 2, 4, 6, 7


@hot
def _mib(s, offset):
    """Count in the set of the packet's family and protocol."""
    if s.skb[SKB_FAMILY] == 4:
        base = M_UdpInDatagrams if s.skb[SKB_PROTOCOL] == IPPROTO_UDP else M_UdpLiteInDatagrams
    else:
        base = M_Udp6InDatagrams if s.skb[SKB_PROTOCOL] == IPPROTO_UDP else M_UdpLite6InDatagrams
    s.counters[base + offset] += 1


@cold
def _short(s, trace):
    _mib(s, IN_ERRORS)
    return drop(s, trace, R_PKT_TOO_SMALL)


@cold
def _count_bad_checksum(s):
    _mib(s, IN_CSUM_ERRORS)
    _mib(s, IN_ERRORS)


@cold
def _bad_checksum(s, trace, reason):
    _count_bad_checksum(s)
    return drop(s, trace, reason)


@hot
def _checksum_ok(s, data, trace, at, length, coverage, check):
    """Verify the checksum; True where there is none, or where the capture cut it off."""
    skb = s.skb
    if check == 0 and skb[SKB_PROTOCOL] == IPPROTO_UDP:
        return True
    if skb[SKB_IP] + skb[SKB_AVAIL] < at + coverage:
        unchecked(s)
        return True
    if skb[SKB_FAMILY] == 4:
        if skb[SKB_OPTIONS]:  # a source route may have led to another address of this host
            pseudo = pseudo4(s.scratch, SCRATCH_HEADER, skb[SKB_PROTOCOL], length)
        else:
            pseudo = pseudo4(data, skb[SKB_IP], skb[SKB_PROTOCOL], length)
    else:
        pseudo = pseudo6(data, skb[SKB_IP], skb[SKB_PROTOCOL], length)
    valid = transport_ok(data, at, coverage, pseudo)
    note(trace, T_UDP_CSUM, valid)
    return valid


@hot
def _queue(h, s, data, trace, row, length, valid):
    """Queue to one socket with its counters; True if it took the datagram.

    Calls that read count the datagram themselves, or find out that it is not `valid`.
    """
    if udp_enqueue(h, s, trace, row, length):
        reader, collect = h.socket[row, SOCK_READ_NS], s.misc[MISC_COLLECT]
        if collect & (COLLECT_CALLS if reader == READ_BY_CALLS else COLLECT_TAKEN):
            keep_datagram(h, s, data, trace, row, valid)
        if reader >= READ_AT_ONCE:
            _mib(s, IN_DATAGRAMS)
        return True
    _mib(s, RCVBUF_ERRORS)
    _mib(s, IN_ERRORS)
    return False


@cold
def _covers(h, s, row, coverage):
    """Does the checksum of a UDP-Lite datagram cover as much as the socket wants (udp_queue_rcv_one_skb)?

    `coverage` is NONE where it covers all.
    """
    wanted = h.socket[row, SOCK_COVERAGE]
    if coverage == NONE or wanted == NONE:
        return True
    if wanted and coverage >= wanted:
        return True
    s.sockq[row, SOCKQ_DROPS] += 1
    return False


@cold
def _deliver_to_group(h, s, data, trace, source_port, port, check, valid, coverage):
    """Give a copy to every socket that takes it (kernel: __udp4_lib_mcast_deliver).

    Readers find out that a long datagram is not `valid`, each for itself.
    """
    skb = s.skb
    takers, took, first = 0, 0, NONE
    for row in range(h.port[2 * port], h.port[2 * port + 2]):
        if not udp_matches_group(h, row, skb, source_port, port):
            continue
        if skb[SKB_FAMILY] == 6 and check == 0 and h.socket[row, SOCK_NO_CHECK6] == 0:
            continue
        takers += 1
        if not valid and h.socket[row, SOCK_READ_NS] >= READ_AT_ONCE:
            _count_bad_checksum(s)
        elif not _covers(h, s, row, coverage):
            _mib(s, IN_ERRORS)
        elif _queue(h, s, data, trace, row, skb[SKB_LEN], valid):
            took += 1
            if first == NONE:
                first = row
    note(trace, T_UDP_FLUSH, took)
    if takers == 0:
        _mib(s, IGNORED_MULTI)
        return drop(s, trace, R_NOT_SPECIFIED)
    if took == 0:
        return drop(s, trace, R_SOCKET_RCVBUFF if valid else R_UDP_CSUM)
    skb[SKB_SOCKET] = first
    return deliver(s, trace)


@cold
def _no_socket(h, s, data, trace, end):
    _mib(s, NO_PORTS)
    s.skb[SKB_LEN] = end  # what follows the datagram within the packet is not quoted
    s.skb[SKB_AVAIL] = min(s.skb[SKB_AVAIL], end)
    if s.skb[SKB_FAMILY] == 4:
        icmp_send(h, s, data, trace, ICMP_UNREACHABLE, PORT_UNREACHABLE, 0)
    else:
        icmp6_send(h, s, data, trace, ICMP6_UNREACHABLE, PORT6_UNREACHABLE, 0)
    return drop(s, trace, R_NO_SOCKET)


@hot
def udp_rcv(h, s, data, trace):
    """Receive the UDP or UDP-Lite datagram in hand; always DONE."""
    skb = s.skb
    at = skb[SKB_TRANSPORT]
    present = skb[SKB_LEN] - (at - skb[SKB_IP])
    six = skb[SKB_FAMILY] == 6
    if present < UDP_HEADER:
        _mib(s, IN_ERRORS)
        return drop(s, trace, R_NOT_SPECIFIED)
    if skb[SKB_IP] + skb[SKB_AVAIL] < at + UDP_HEADER:
        return capture_cut(s, trace, at - skb[SKB_IP] + UDP_HEADER)
    source_port, port = load16be(data, at), load16be(data, at + 2)
    length, check = load16be(data, at + 4), load16be(data, at + 6)
    note(trace, T_UDP_LENGTH, length, present)
    coverage, part = length, NONE
    if length > present:
        return _short(s, trace)
    if skb[SKB_PROTOCOL] == IPPROTO_UDP:
        if six and length == 0:
            length = present
        if length < UDP_HEADER:
            return _short(s, trace)
        coverage = length
    else:  # UDP-Lite: the length field is the checksum's coverage (RFC 3828)
        length = present
        if coverage == 0:
            coverage = length
        if check == 0 or coverage < UDP_HEADER:
            return _bad_checksum(s, trace, R_UDP_CSUM)
        if coverage < length:
            part = coverage
    group = (
        is_multicast(skb[SKB_DST_HI])
        if six
        else (skb[DST_TYPE] == RTN_BROADCAST or skb[DST_TYPE] == RTN_MULTICAST)
    )
    verified = length <= CHECKED_AT_ONCE
    if verified and not _checksum_ok(s, data, trace, at, length, coverage, check):
        return _bad_checksum(s, trace, R_UDP_CSUM)
    if skb[SKB_EARLY] != NONE:
        remember_route(s)
    if group:
        valid = verified or _checksum_ok(s, data, trace, at, length, coverage, check)
        return _deliver_to_group(h, s, data, trace, source_port, port, check, valid, part)
    row = udp_lookup(h, s, source_port, port)
    note(trace, T_UDP_SOCKET, port, row)
    if row == NONE:
        if six and check == 0:
            return _bad_checksum(s, trace, R_NO_SOCKET)
        if not verified and not _checksum_ok(s, data, trace, at, length, coverage, check):
            return _bad_checksum(s, trace, R_NO_SOCKET if six else R_UDP_CSUM)
        return _no_socket(h, s, data, trace, at - skb[SKB_IP] + length)
    if six and check == 0 and h.socket[row, SOCK_NO_CHECK6] == 0:
        return _bad_checksum(s, trace, R_UDP_CSUM)
    # longer datagrams are verified by the reader; one that is never read stays unverified
    reader, valid = h.socket[row, SOCK_READ_NS], True
    if not verified and reader != READ_NEVER:
        valid = _checksum_ok(s, data, trace, at, length, coverage, check)
        if not valid and reader >= READ_AT_ONCE:
            return _bad_checksum(s, trace, R_UDP_CSUM)
    if part != NONE and not _covers(h, s, row, part):
        _mib(s, IN_ERRORS)
        return drop(s, trace, R_NOT_SPECIFIED)
    if not _queue(h, s, data, trace, row, skb[SKB_LEN], valid):
        return drop(s, trace, R_SOCKET_RCVBUFF)
    skb[SKB_SOCKET] = row
    return deliver(s, trace)
