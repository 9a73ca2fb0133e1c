"""Reassembly of IPv6 fragments by connection tracking, before they are routed (kernel:
nf_conntrack_reasm.c, ipv6_defrag; RFC 8200 section 4.5).

It has limits and memory of its own, counts nothing in the host's counters but what expires, and
answers nothing else.  IPv4 needs no such twin: connection tracking calls ip_defrag there.

In:  a packet with extension headers.   Out: CONTINUE with the packet as it is; REASSEMBLED with the
datagram in hand, in `State.datagram`; or DONE.
Held: it waits for others.   Consumed: its datagram was complete, but can not be.
Drops: NETFILTER_DROP (memory limit, contradicts what is known, overlap), DUP_FRAG; later, of those
held, FRAG_REASM_TIMEOUT.
"""

from __future__ import annotations

from ippath.frag.fragment import contradicts, hold, is_complete, keep_fragment, note_end
from ippath.frag.ipv6 import (
    IDENTIFICATION, LARGEST, is_too_small, join6, set_key, upper_header_missing, why_impossible,
)  # fmt: skip
from ippath.frag.queue import destroy_queue, find_queue, kill_queue
from ippath.frag.runs import DUPLICATE, OVERLAP, find_place
from ippath.jit import cold, kernel
from ippath.reasons import CONSUMED, R_DUP_FRAG, R_NETFILTER_DROP, R_NONE
from ippath.rx.exthdr_core import find_fragment_header
from ippath.rx.packet import (
    ATOMIC_FRAGMENT, CONTINUE, REASSEMBLED, capture_cut, consume, drop,
)  # fmt: skip
from ippath.tables import (
    FQDIR_CONNTRACK6, FQDIR_DISCARDED, FQDIR_DUPLICATES, FQDIR_FRAGMENTS, FQDIR_HIGH, FQDIR_INVALID,
    FQDIR_MEM, FQDIR_OVERLAPS, FQDIR_REFUSED, FQ_ECN, FQ_FLAGS, FQ_FRAGMENTS, FQ_LAST_IN, FQ_LEN,
    FQ_MAX_SIZE, FQ_MEAT, MISC_NOW_NS, NONE, SKB_AVAIL, SKB_FRAG, SKB_FRAG_MAX, SKB_IP, SKB_LEN,
    SKB_NEXTHDR_AT, SKB_PROTOCOL, SKB_TOS,
)  # fmt: skip
from ippath.trace import (
    T_CONNTRACK6, T_FRAGMENT, T_FRAG_LENGTH, T_FRAG_OVERSIZE, T_FRAG_PLACE, T_FRAG_QUEUE_CT6,
    T_FRAG_REFUSED_CT6, T_FRAG_TRUNCATED, note,
)  # fmt: skip
from ippath.wire.ipv6 import (
    FRAGMENT_HEADER, FRAGMENT_OFFSET, HEADER, MORE_FRAGMENTS, NEXTHDR_HOP,
    NEXT_HEADER, PAYLOAD_LENGTH,
)  # fmt: skip
from ippath.wire.memory import load8, load16be, load32be

USER_CONNTRACK_IN = 1


@cold
def nf_ct_frag6_gather(h, s, data, trace):
    """Take the packet in hand if it is a fragment; an atomic one is a whole datagram at once."""
    skb, directory = s.skb, s.fqdir[FQDIR_CONNTRACK6]
    ip, length, available = skb[SKB_IP], skb[SKB_LEN], skb[SKB_AVAIL]
    if load16be(data, ip + PAYLOAD_LENGTH) == 0:
        return CONTINUE
    before, at = find_fragment_header(data, ip, available)
    if at < 0 and available < length:
        return capture_cut(s, trace, available + 1)
    if at < 0:
        return CONTINUE
    note(trace, T_CONNTRACK6, at)
    if upper_header_missing(data, ip, length, available):
        note(trace, T_FRAG_TRUNCATED)
        return CONTINUE  # local delivery answers
    if at + FRAGMENT_HEADER > length:
        return drop(s, trace, R_NETFILTER_DROP)
    if at + FRAGMENT_HEADER > available:
        return capture_cut(s, trace, at + FRAGMENT_HEADER)
    directory[FQDIR_FRAGMENTS] += 1
    if is_too_small(h, data, ip + at, length):
        return _refuse(s, trace)
    set_key(h, s, USER_CONNTRACK_IN, load32be(data, ip + at + IDENTIFICATION))
    q = find_queue(s, FQDIR_CONNTRACK6, True, s.misc[MISC_NOW_NS])
    if q == NONE:
        note(trace, T_FRAG_REFUSED_CT6, directory[FQDIR_MEM], directory[FQDIR_HIGH])
        directory[FQDIR_REFUSED] += 1
        return drop(s, trace, R_NETFILTER_DROP)
    return _nf_ct_frag6_queue(s, data, trace, q, before, at)


@cold
def _refuse(s, trace):
    """Drop the fragment alone; the queue stays as it is, and be it new and empty."""
    s.fqdir[FQDIR_CONNTRACK6, FQDIR_INVALID] += 1
    return drop(s, trace, R_NETFILTER_DROP)


@kernel
def _give_up(s, q, statistic):
    """Let go of the datagram and of what was held of it."""
    directory = s.fqdir[FQDIR_CONNTRACK6]
    directory[statistic] += 1
    directory[FQDIR_DISCARDED] += s.fq[q, FQ_FRAGMENTS]
    kill_queue(s, q)
    destroy_queue(s, q, CONSUMED, R_NONE)


@kernel
def _nf_ct_frag6_queue(s, data, trace, q, before, at):
    """Check the fragment against its queue and put it in; the order of checks is the kernel's."""
    skb, fq, ip = s.skb, s.fq, s.skb[SKB_IP]
    word, header = load16be(data, ip + at + 2), at + FRAGMENT_HEADER
    offset, more = word & FRAGMENT_OFFSET, word & MORE_FRAGMENTS
    end = offset + skb[SKB_LEN] - header
    note(trace, T_FRAGMENT, offset, end, more)
    note(trace, T_FRAG_QUEUE_CT6, fq[q, FQ_FRAGMENTS], fq[q, FQ_MEAT],
         s.fqdir[FQDIR_CONNTRACK6, FQDIR_MEM], s.fqdir[FQDIR_CONNTRACK6, FQDIR_HIGH])  # fmt: skip
    if end > LARGEST:
        note(trace, T_FRAG_OVERSIZE, end, LARGEST)
        return _refuse(s, trace)
    length, last_known = fq[q, FQ_LEN], fq[q, FQ_FLAGS] & FQ_LAST_IN
    if more and end & 7:
        note(trace, T_FRAG_LENGTH, end, length, last_known != 0)
        _give_up(s, q, FQDIR_INVALID)
        return CONTINUE  # local delivery answers
    if contradicts(more, end, length, last_known):
        note(trace, T_FRAG_LENGTH, end, length, last_known != 0)
        return _refuse(s, trace)
    note_end(s, q, more, end)
    if end == offset:
        note(trace, T_FRAG_LENGTH, end, end, 0)
        return _refuse(s, trace)
    place, side, run = find_place(s, q, offset, end)
    note(trace, T_FRAG_PLACE, place)
    if place == DUPLICATE:
        s.fqdir[FQDIR_CONNTRACK6, FQDIR_DUPLICATES] += 1
        return drop(s, trace, R_DUP_FRAG)
    if place == OVERLAP:
        _give_up(s, q, FQDIR_OVERLAPS)
        return drop(s, trace, R_NETFILTER_DROP)
    skb[SKB_NEXTHDR_AT] = before
    f = keep_fragment(s, data, q, header, offset, end, side, run)
    fq[q, FQ_ECN] |= 1 << (skb[SKB_TOS] & 3)
    if not is_complete(s, q):
        return hold(s, trace, q)
    return _nf_ct_frag6_reasm(s, trace, q, f)


@kernel
def _nf_ct_frag6_reasm(s, trace, q, f):
    """Put the datagram together; REASSEMBLED with it in hand, or DONE."""
    skb = s.skb
    kill_queue(s, q)
    impossible = why_impossible(s, trace, q)
    if impossible:
        s.fqdir[FQDIR_CONNTRACK6, impossible] += 1
        s.fqdir[FQDIR_CONNTRACK6, FQDIR_DISCARDED] += s.fq[q, FQ_FRAGMENTS]
        destroy_queue(s, q, CONSUMED, R_NONE, f)
        return consume(s, trace, R_NONE)
    join6(s, trace, q)
    skb[SKB_FRAG] = ATOMIC_FRAGMENT
    skb[SKB_FRAG_MAX] = s.fq[q, FQ_MAX_SIZE]
    # the stages ahead know of hop-by-hop options alone: they take what stands behind other headers
    # for the content of the first of them, as Linux does
    hops = skb[SKB_NEXTHDR_AT] != NEXT_HEADER and load8(s.datagram, NEXT_HEADER) == NEXTHDR_HOP
    skb[SKB_NEXTHDR_AT] = HEADER if hops else NEXT_HEADER
    skb[SKB_PROTOCOL] = load8(s.datagram, skb[SKB_NEXTHDR_AT])
    destroy_queue(s, q, CONSUMED, R_NONE, f)
    return REASSEMBLED
