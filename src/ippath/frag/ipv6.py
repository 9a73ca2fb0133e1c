"""Reassembly of IPv6 fragments (kernel: ipv6_frag_rcv, ip6_frag_queue, ip6_frag_reasm,
ip6frag_expire_frag_queue; RFC 8200 section 4.5).

In:  a packet whose fragment header comes next.   Out: REASSEMBLED with the datagram in hand, in
`State.datagram`; or DONE.
Held: it waits for others.   Consumed: its datagram was complete, but can not be.
Drops: NOT_SPECIFIED, partly with ICMPv6 parameter problem; DUP_FRAG; FRAG_REASM_TIMEOUT later.
"""

from __future__ import annotations

from ippath.frag.ecn import combined_ecn
from ippath.frag.fragment import (
    contradicts,
    discard_queue,
    hold,
    is_complete,
    keep_fragment,
    note_end,
)
from ippath.frag.join import copy_header, copy_payload
from ippath.frag.queue import destroy_queue, find_queue, kill_queue
from ippath.frag.runs import DUPLICATE, OVERLAP, find_place
from ippath.frag.store import HEADROOM
from ippath.handles import as_arena
from ippath.jit import cold, kernel
from ippath.mib import M_Ip6InHdrErrors, M_Ip6ReasmFails, M_Ip6ReasmOKs, M_Ip6ReasmTimeout
from ippath.reasons import (
    CONSUMED, DROPPED, R_DUP_FRAG, R_FRAG_REASM_TIMEOUT, R_NONE, R_NOT_SPECIFIED,
)  # fmt: skip
from ippath.rx.exthdr_core import skip_extensions
from ippath.rx.icmpv6_send import icmp6_send
from ippath.rx.packet import REASSEMBLED, consume, count, drop
from ippath.tables import (
    CONF_LEAST_FRAGMENT6, DEV_IFINDEX, FM_DST_HI, FM_DST_LO, FM_HEADROOM, FM_ID, FM_JOINED,
    FM_SRC_HI, FM_SRC_LO, FM_USER, FQDIR_DATAGRAMS, FQDIR_DISCARDED, FQDIR_DUPLICATES, FQDIR_ECN,
    FQDIR_EXPIRED, FQDIR_FRAGMENTS, FQDIR_HIGH, FQDIR_INVALID, FQDIR_IPV6, FQDIR_JOINED, FQDIR_MEM,
    FQDIR_OVERLAPS, FQDIR_OVERSIZE, FQDIR_REFUSED, FQ_DEVICE, FQ_DIR, FQ_ECN, FQ_FIRST, FQ_FIRST_IN,
    FQ_FLAGS, FQ_FRAGMENTS, FQ_LAST_IN, FQ_LEAST_HEADERS, FQ_LEN, FQ_MEAT, FRAG_DEVICE, FRAG_END,
    FRAG_FRAME, FRAG_HEADER, FRAG_MARK, FRAG_NEXTHDR_AT, FRAG_PKT_TYPE, FRAG_STORED, MISC_NOW_NS,
    NONE, SKB_AVAIL, SKB_COLUMNS, SKB_DEVICE, SKB_DST_HI, SKB_DST_LO, SKB_FAMILY, SKB_FIRST_NONE,
    SKB_FRAME, SKB_IIF, SKB_IP, SKB_LEN, SKB_MARK, SKB_NEXTHDR_AT, SKB_PKT_TYPE, SKB_PROTOCOL,
    SKB_SRC_HI, SKB_SRC_LO, SKB_TIME_NS, SKB_TOS, SKB_TRANSPORT,
)  # fmt: skip
from ippath.trace import (
    T_FRAGMENT, T_FRAG_ECN, T_FRAG_JOINED, T_FRAG_LENGTH, T_FRAG_OVERSIZE, T_FRAG_PLACE,
    T_FRAG_QUEUE6, T_FRAG_REFUSED6, T_FRAG_TRUNCATED, note,
)  # fmt: skip
from ippath.wire.icmp import (
    HEADER_FIELD, ICMP6_PARAMETER_PROBLEM, ICMP6_TIME_EXCEEDED, INCOMPLETE_HEADERS, REASSEMBLY_TIME,
)  # fmt: skip
from ippath.wire.ipv4 import IPPROTO_TCP, IPPROTO_UDP
from ippath.wire.ipv6 import (
    DESTINATION, FRAGMENT_HEADER, FRAGMENT_OFFSET, HEADER, MORE_FRAGMENTS, NEXTHDR_ICMP,
    PAYLOAD_LENGTH, SOURCE, is_link_local, is_multicast,
)  # fmt: skip
from ippath.wire.memory import load8, load16be, load32be, load64be, store8, store16be

USER_LOCAL_DELIVER = 0
LARGEST = 65535
IDENTIFICATION = 4  # in the fragment header
TCP_HEADER, UDP_HEADER, ICMP_HEADER = 20, 8, 8


@kernel
def is_too_small(h, data, at, length):
    """Is it too small a packet, with its fragment header at `data[at]`, to have others follow it?

    Nothing is, but for the kernels of CONF_LEAST_FRAGMENT6.
    """
    return length < h.conf[CONF_LEAST_FRAGMENT6] and load16be(data, at + 2) & MORE_FRAGMENTS != 0


@kernel
def upper_header_missing(data, ip, length, available):
    """Is it a first fragment without its whole upper-layer header (`ipv6frag_thdr_truncated`)?"""
    protocol, at, fragment = skip_extensions(data, ip, available)
    if at < 0 or fragment & FRAGMENT_OFFSET:
        return False
    size = 1
    if protocol == IPPROTO_TCP:
        size = TCP_HEADER
    elif protocol == IPPROTO_UDP:
        size = UDP_HEADER
    elif protocol == NEXTHDR_ICMP:
        size = ICMP_HEADER
    return at + size > length


@kernel
def set_key(h, s, user, identification):
    """The datagram that the fragment in hand belongs to, into FM_*.

    Without its device, unless the address means something else on each (`fq_find`).
    """
    skb, fm = s.skb, s.frag_misc
    by_device = is_multicast(skb[SKB_DST_HI]) or is_link_local(skb[SKB_DST_HI])
    fm[FM_USER] = user | (h.device[skb[SKB_DEVICE], DEV_IFINDEX] << 20 if by_device else 0)
    fm[FM_SRC_HI], fm[FM_SRC_LO] = skb[SKB_SRC_HI], skb[SKB_SRC_LO]
    fm[FM_DST_HI], fm[FM_DST_LO] = skb[SKB_DST_HI], skb[SKB_DST_LO]
    fm[FM_ID] = identification


@cold
def ipv6_frag_rcv(h, s, data, trace):
    """Take the fragment in hand; REASSEMBLED if that makes its datagram whole, else DONE.

    The caller has seen that it is no atomic fragment, and counted it.
    """
    skb, directory = s.skb, s.fqdir[FQDIR_IPV6]
    at = skb[SKB_TRANSPORT]
    directory[FQDIR_FRAGMENTS] += 1
    if is_too_small(h, data, at, skb[SKB_LEN]):
        return _refuse(h, s, data, trace, at - skb[SKB_IP])
    if upper_header_missing(data, skb[SKB_IP], skb[SKB_LEN], skb[SKB_AVAIL]):
        note(trace, T_FRAG_TRUNCATED)
        directory[FQDIR_INVALID] += 1
        count(s, M_Ip6InHdrErrors)
        icmp6_send(h, s, data, trace, ICMP6_PARAMETER_PROBLEM, INCOMPLETE_HEADERS, 0)
        return drop(s, trace, R_NOT_SPECIFIED)
    set_key(h, s, USER_LOCAL_DELIVER, load32be(data, at + IDENTIFICATION))
    q = find_queue(s, FQDIR_IPV6, True, s.misc[MISC_NOW_NS])
    if q == NONE:
        note(trace, T_FRAG_REFUSED6, directory[FQDIR_MEM], directory[FQDIR_HIGH])
        count(s, M_Ip6ReasmFails)
        directory[FQDIR_REFUSED] += 1
        return drop(s, trace, R_NOT_SPECIFIED)
    s.fq[q, FQ_DEVICE] = skb[SKB_DEVICE]
    return _ip6_frag_queue(h, s, data, trace, q)


@cold
def _discard(s, trace, q, statistic):
    """Give the datagram up, and drop the fragment in hand."""
    count(s, M_Ip6ReasmFails)
    s.fqdir[FQDIR_IPV6, statistic] += 1
    discard_queue(s, q)
    return drop(s, trace, R_NOT_SPECIFIED)


@cold
def _refuse(h, s, data, trace, pointer):
    """Tell the sender which field is wrong; the queue stays as it is, and be it new and empty."""
    s.fqdir[FQDIR_IPV6, FQDIR_INVALID] += 1
    count(s, M_Ip6InHdrErrors)
    icmp6_send(h, s, data, trace, ICMP6_PARAMETER_PROBLEM, HEADER_FIELD, pointer)
    return drop(s, trace, R_NOT_SPECIFIED)


@kernel
def _ip6_frag_queue(h, s, data, trace, q):
    """Check the fragment against its queue and put it in; the order of checks is the kernel's."""
    skb, fq = s.skb, s.fq
    at, ip = skb[SKB_TRANSPORT], skb[SKB_IP]
    word = load16be(data, at + 2)
    header = at + FRAGMENT_HEADER - ip
    offset, more = word & FRAGMENT_OFFSET, word & MORE_FRAGMENTS
    end = offset + skb[SKB_LEN] - header
    note(trace, T_FRAGMENT, offset, end, more)
    note(trace, T_FRAG_QUEUE6, fq[q, FQ_FRAGMENTS], fq[q, FQ_MEAT], s.fqdir[FQDIR_IPV6, FQDIR_MEM],
         s.fqdir[FQDIR_IPV6, FQDIR_HIGH])  # fmt: skip
    if end > LARGEST:
        note(trace, T_FRAG_OVERSIZE, end, LARGEST)
        return _refuse(h, s, data, trace, at + 2 - ip)
    length, last_known = fq[q, FQ_LEN], fq[q, FQ_FLAGS] & FQ_LAST_IN
    if more and end & 7:
        note(trace, T_FRAG_LENGTH, end, length, last_known != 0)
        return _refuse(h, s, data, trace, PAYLOAD_LENGTH)
    if contradicts(more, end, length, last_known):
        note(trace, T_FRAG_LENGTH, end, length, last_known != 0)
        return _discard(s, trace, q, FQDIR_INVALID)
    note_end(s, q, more, end)
    if end == offset:
        note(trace, T_FRAG_LENGTH, end, end, 0)
        return _discard(s, trace, q, FQDIR_INVALID)
    place, side, run = find_place(s, q, offset, end)
    note(trace, T_FRAG_PLACE, place)
    if place == DUPLICATE:
        s.fqdir[FQDIR_IPV6, FQDIR_DUPLICATES] += 1
        return drop(s, trace, R_DUP_FRAG)
    if place == OVERLAP:
        return _discard(s, trace, q, FQDIR_OVERLAPS)
    f = keep_fragment(s, data, q, header, offset, end, side, run)
    fq[q, FQ_ECN] |= 1 << (skb[SKB_TOS] & 3)
    if not is_complete(s, q):
        return hold(s, trace, q)
    return _ip6_frag_reasm(s, trace, q, f)


@kernel
def _fail(s, trace, q, f, statistic):
    """The datagram is complete but can not be: it is consumed with all its fragments."""
    count(s, M_Ip6ReasmFails)
    s.fqdir[FQDIR_IPV6, statistic] += 1
    s.fqdir[FQDIR_IPV6, FQDIR_DISCARDED] += s.fq[q, FQ_FRAGMENTS]
    destroy_queue(s, q, CONSUMED, R_NONE, f)
    return consume(s, trace, R_NONE)


@kernel
def why_impossible(s, trace, q):
    """Can the complete datagram not be?  The statistic of the reason, or 0."""
    fq = s.fq
    if combined_ecn(fq[q, FQ_ECN]) < 0:
        note(trace, T_FRAG_ECN, fq[q, FQ_ECN])
        return FQDIR_ECN
    size = s.frag[fq[q, FQ_FIRST], FRAG_HEADER] - FRAGMENT_HEADER - HEADER + fq[q, FQ_LEN]
    if size > LARGEST:
        note(trace, T_FRAG_OVERSIZE, size, LARGEST)
        return FQDIR_OVERSIZE
    return 0


@kernel
def _ip6_frag_reasm(s, trace, q, f):
    """Put the datagram together; REASSEMBLED with it in hand, or DONE."""
    kill_queue(s, q)
    impossible = why_impossible(s, trace, q)
    if impossible:
        return _fail(s, trace, q, f, impossible)
    count(s, M_Ip6ReasmOKs)
    join6(s, trace, q)
    destroy_queue(s, q, CONSUMED, R_NONE, f)
    return REASSEMBLED


@kernel
def join6(s, trace, q):
    """Put the fragments of the queue together: the datagram becomes the packet in hand.

    Its headers are those before the fragment header of the first fragment.
    """
    skb, fq, frag, datagram = s.skb, s.fq, s.frag, s.datagram
    first, length = fq[q, FQ_FIRST], fq[q, FQ_LEN]
    header = frag[first, FRAG_HEADER] - FRAGMENT_HEADER
    copy_header(s, first, header + FRAGMENT_HEADER, s.datagram, 0)
    protocol, next_header_at = load8(datagram, header), frag[first, FRAG_NEXTHDR_AT]
    s.frag_misc[FM_JOINED] = 0
    s.frag_misc[FM_HEADROOM] = HEADROOM + fq[q, FQ_LEAST_HEADERS]
    there = copy_payload(s, q, s.datagram, header)
    store8(datagram, next_header_at, protocol)
    store16be(datagram, PAYLOAD_LENGTH, header - HEADER + length)
    store8(datagram, 1, load8(datagram, 1) | combined_ecn(fq[q, FQ_ECN]) << 4)
    skb[SKB_IP] = 0
    skb[SKB_LEN] = header + length
    skb[SKB_AVAIL] = header + there
    skb[SKB_TOS] = load16be(datagram, 0) >> 4 & 0xFF
    skb[SKB_PROTOCOL] = protocol
    skb[SKB_NEXTHDR_AT] = next_header_at
    skb[SKB_TRANSPORT] = header
    skb[SKB_MARK] = frag[first, FRAG_MARK]
    skb[SKB_PKT_TYPE] = frag[first, FRAG_PKT_TYPE]
    skb[SKB_IIF] = frag[first, FRAG_DEVICE]
    s.fqdir[fq[q, FQ_DIR], FQDIR_DATAGRAMS] += 1
    s.fqdir[fq[q, FQ_DIR], FQDIR_JOINED] += fq[q, FQ_FRAGMENTS]
    note(trace, T_FRAG_JOINED, fq[q, FQ_FRAGMENTS], header + length, there == length)


@cold
def _answer(h, s, data, trace):
    """Tell the sender that its datagram did not arrive in time."""
    icmp6_send(h, s, data, trace, ICMP6_TIME_EXCEEDED, REASSEMBLY_TIME, 0)


@kernel
def _take_up_first(s, q):
    """Make the first fragment, as it came, the packet in hand."""
    skb, frag, buf = s.skb, s.frag, s.datagram
    f = s.fq[q, FQ_FIRST]
    header = frag[f, FRAG_HEADER]
    copy_header(s, f, header + frag[f, FRAG_STORED], s.datagram, 0)
    for field in range(SKB_COLUMNS):
        skb[field] = 0 if field < SKB_FIRST_NONE else NONE
    skb[SKB_FRAME] = frag[f, FRAG_FRAME]
    skb[SKB_TIME_NS] = s.misc[MISC_NOW_NS]
    skb[SKB_DEVICE] = s.fq[q, FQ_DEVICE]
    skb[SKB_MARK] = frag[f, FRAG_MARK]
    skb[SKB_PKT_TYPE] = frag[f, FRAG_PKT_TYPE]
    skb[SKB_FAMILY] = 6
    skb[SKB_LEN] = header + frag[f, FRAG_END]
    skb[SKB_AVAIL] = header + frag[f, FRAG_STORED]
    skb[SKB_TOS] = load16be(buf, 0) >> 4 & 0xFF
    skb[SKB_PROTOCOL] = load8(buf, header - FRAGMENT_HEADER)
    skb[SKB_SRC_HI], skb[SKB_SRC_LO] = load64be(buf, SOURCE), load64be(buf, SOURCE + 8)
    skb[SKB_DST_HI], skb[SKB_DST_LO] = load64be(buf, DESTINATION), load64be(buf, DESTINATION + 8)
    skb[SKB_TRANSPORT] = header


@cold
def ip6_expire(h, s, trace, q):
    """The time of a queue is up, also of one of connection tracking."""
    kill_queue(s, q)
    s.fqdir[s.fq[q, FQ_DIR], FQDIR_EXPIRED] += s.fq[q, FQ_FRAGMENTS]
    # connection tracking refused all of it, or the device is gone: not even counted
    if s.fq[q, FQ_DEVICE] < 0:
        destroy_queue(s, q, DROPPED, R_FRAG_REASM_TIMEOUT)
        return
    count(s, M_Ip6ReasmFails)
    count(s, M_Ip6ReasmTimeout)
    if s.fq[q, FQ_FLAGS] & FQ_FIRST_IN:
        _take_up_first(s, q)
        _answer(h, s, as_arena(s.datagram), trace)
    destroy_queue(s, q, DROPPED, R_FRAG_REASM_TIMEOUT)
