"""Reassembly of IPv4 fragments (kernel: ip_defrag, ip_frag_queue, ip_frag_reasm, ip_expire; RFC 791).

In:  a fragment with its route.   Out: CONTINUE with the datagram in hand, in `State.datagram`; or DONE.
Held: it waits for others.   Consumed: its datagram was complete, but can not be.
Drops: NOT_SPECIFIED (memory limit, contradicts what is known, overlap), DUP_FRAG; later, of those
held, FRAG_TOO_FAR and FRAG_REASM_TIMEOUT.
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
from ippath.frag.queue import (
    destroy_queue, empty_queue, find_queue, kill_queue, release_fragments,
)  # fmt: skip
from ippath.frag.runs import DUPLICATE, OVERLAP, find_place
from ippath.frag.wheel import start_timer, stop_timer
from ippath.handles import as_arena
from ippath.jit import cold, kernel
from ippath.mib import (
    M_IpExtReasmOverlaps, M_IpReasmFails, M_IpReasmOKs, M_IpReasmReqds, M_IpReasmTimeout,
)  # fmt: skip
from ippath.reasons import (
    CONSUMED, DROPPED, R_DUP_FRAG, R_FRAG_REASM_TIMEOUT, R_FRAG_TOO_FAR, R_NONE, R_NOT_SPECIFIED,
)  # fmt: skip
from ippath.rx.icmp_send import icmp_send
from ippath.rx.packet import CONTINUE, consume, count, drop
from ippath.rx.rate_limit import find_peer
from ippath.rx.route_input4 import ip_route_input_slow
from ippath.tables import (
    DST_TYPE, FM_DST_HI, FM_DST_LO, FM_ID, FM_JOINED, FM_SRC_HI, FM_SRC_LO, FM_USER,
    FQDIR_DATAGRAMS, FQDIR_DISCARDED, FQDIR_DUPLICATES, FQDIR_ECN, FQDIR_EXPIRED, FQDIR_FRAGMENTS,
    FQDIR_HIGH, FQDIR_INVALID, FQDIR_IPV4, FQDIR_JOINED, FQDIR_MAX_DIST, FQDIR_MEM, FQDIR_OVERLAPS,
    FQDIR_OVERSIZE, FQDIR_REFUSED, FQDIR_TIMEOUT_NS, FQDIR_TOO_FAR, FQ_DEVICE, FQ_ECN, FQ_FIRST,
    FQ_FIRST_IN, FQ_FLAGS, FQ_FRAGMENTS, FQ_LAST_IN, FQ_LEN, FQ_MAX_DF_SIZE, FQ_MAX_SIZE, FQ_MEAT,
    FQ_OPTIONS, FQ_OPT_0, FQ_PEER, FQ_SEEN, FQ_TAIL, FQ_USER, FRAG_BLOCK, FRAG_BLOCK_BYTES,
    FRAG_DEVICE, FRAG_END, FRAG_FRAME, FRAG_HEADER, FRAG_MARK, FRAG_PKT_TYPE, FRAG_STORED,
    MISC_NOW_NS, NONE, OPT_COLUMNS, PEER_FRAGMENTS, PEER_HI, PEER_LO, RTN_LOCAL, SCRATCH_HEADER,
    SKB_AVAIL, SKB_COLUMNS, SKB_DEVICE, SKB_DST_LO, SKB_FAMILY, SKB_FIRST_NONE, SKB_FRAG,
    SKB_FRAG_MAX, SKB_FRAME, SKB_IHL, SKB_IIF, SKB_IP, SKB_LEN, SKB_MARK, SKB_OPTIONS, SKB_PKT_TYPE,
    SKB_PROTOCOL, SKB_SRC_LO, SKB_TIME_NS, SKB_TOS, SKB_TRANSPORT,
)  # fmt: skip
from ippath.trace import (
    T_FRAGMENT, T_FRAG_ECN, T_FRAG_JOINED, T_FRAG_LENGTH, T_FRAG_OVERSIZE, T_FRAG_PLACE,
    T_FRAG_QUEUE, T_FRAG_REFUSED, T_FRAG_TOO_FAR, note,
)  # fmt: skip
from ippath.wire.checksum import checksum
from ippath.wire.icmp import ICMP_TIME_EXCEEDED, REASSEMBLY_TIME
from ippath.wire.ipv4 import (
    CHECKSUM, DESTINATION, DF, FLAGS_OFFSET, IDENTIFICATION, MF, OFFSET_MASK, PROTOCOL, SOURCE, TOS,
    TOTAL_LENGTH,
)  # fmt: skip
from ippath.wire.memory import copy, load8, load16be, load32be, store8, store16be

# who reassembles: datagrams of different users never mix (kernel: enum ip_defrag_users)
USER_LOCAL_DELIVER, USER_CONNTRACK_IN = 0, 2
LARGEST = 65535


@kernel
def _set_key(s, data, user):
    """The datagram that the fragment in hand belongs to, into FM_*."""
    skb, fm = s.skb, s.frag_misc
    fm[FM_USER] = user
    fm[FM_SRC_HI] = fm[FM_DST_HI] = 0
    fm[FM_SRC_LO], fm[FM_DST_LO] = skb[SKB_SRC_LO], skb[SKB_DST_LO]
    fm[FM_ID] = load16be(data, skb[SKB_IP] + IDENTIFICATION) << 8 | skb[SKB_PROTOCOL]


@kernel
def _attached_peer(h, s, q):
    """The queue's source: its row, found again if the table gave it to another."""
    source = s.skb[SKB_SRC_LO]
    peer = s.fq[q, FQ_PEER]
    if peer != NONE and (s.peer[peer, PEER_LO] != source or s.peer[peer, PEER_HI] != 0):
        peer = s.fq[q, FQ_PEER] = find_peer(h, s, 4, 0, source)
    return peer


@kernel
def _is_too_far(h, s, trace, q):
    """Did the source send too many other fragments since this queue's last (`ip_frag_too_far`)?"""
    most = s.fqdir[FQDIR_IPV4, FQDIR_MAX_DIST]
    peer = _attached_peer(h, s, q)
    if peer == NONE or most == 0:
        return False
    seen = s.peer[peer, PEER_FRAGMENTS] + 1
    s.peer[peer, PEER_FRAGMENTS] = seen
    between = seen - s.fq[q, FQ_SEEN]
    s.fq[q, FQ_SEEN] = seen
    if s.fq[q, FQ_TAIL] == NONE or between <= most:
        return False
    note(trace, T_FRAG_TOO_FAR, between - 1, most)
    return True


@kernel
def _begin_anew(s, q):
    """Forget the fragments that came before (`ip_frag_reinit`)."""
    count(s, M_IpReasmFails)
    s.fqdir[FQDIR_IPV4, FQDIR_TOO_FAR] += s.fq[q, FQ_FRAGMENTS]
    stop_timer(s, q)
    start_timer(s, q, s.misc[MISC_NOW_NS] + s.fqdir[FQDIR_IPV4, FQDIR_TIMEOUT_NS])
    release_fragments(s, q, DROPPED, R_FRAG_TOO_FAR)
    empty_queue(s, q)


@cold
def _discard(s, trace, q, statistic):
    """Give the datagram up, and drop the fragment in hand."""
    count(s, M_IpReasmFails)
    s.fqdir[FQDIR_IPV4, statistic] += 1
    discard_queue(s, q)
    return drop(s, trace, R_NOT_SPECIFIED)


@cold
def ip_defrag(h, s, data, trace, user):
    """Take the fragment in hand; CONTINUE if that makes its datagram whole, else DONE."""
    skb, directory = s.skb, s.fqdir[FQDIR_IPV4]
    count(s, M_IpReasmReqds)
    directory[FQDIR_FRAGMENTS] += 1
    _set_key(s, data, user)
    q = find_queue(s, FQDIR_IPV4, False, s.misc[MISC_NOW_NS])
    if q == NONE:
        note(trace, T_FRAG_REFUSED, directory[FQDIR_MEM], directory[FQDIR_HIGH])
        count(s, M_IpReasmFails)
        directory[FQDIR_REFUSED] += 1
        return drop(s, trace, R_NOT_SPECIFIED)
    if s.fq[q, FQ_FRAGMENTS] == 0 and directory[FQDIR_MAX_DIST]:
        s.fq[q, FQ_PEER] = find_peer(h, s, 4, 0, skb[SKB_SRC_LO])
    return _ip_frag_queue(h, s, data, trace, q)


@kernel
def _ip_frag_queue(h, s, data, trace, q):
    """Check the fragment against its queue and put it in; the order of checks is the kernel's."""
    skb, fq = s.skb, s.fq
    if _is_too_far(h, s, trace, q):
        _begin_anew(s, q)
    fragment, header = skb[SKB_FRAG], skb[SKB_IHL]
    offset = (fragment & OFFSET_MASK) * 8
    end = offset + skb[SKB_LEN] - header
    more = fragment & MF
    note(trace, T_FRAGMENT, offset, end, more != 0)
    note(trace, T_FRAG_QUEUE, fq[q, FQ_FRAGMENTS], fq[q, FQ_MEAT], s.fqdir[FQDIR_IPV4, FQDIR_MEM],
         s.fqdir[FQDIR_IPV4, FQDIR_HIGH])  # fmt: skip
    length, last_known = fq[q, FQ_LEN], fq[q, FQ_FLAGS] & FQ_LAST_IN
    if more:
        end &= ~7  # what exceeds a multiple of 8 is cut off
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
        s.fqdir[FQDIR_IPV4, FQDIR_DUPLICATES] += 1
        return drop(s, trace, R_DUP_FRAG)
    if place == OVERLAP:
        count(s, M_IpExtReasmOverlaps)
        return _discard(s, trace, q, FQDIR_OVERLAPS)
    f = keep_fragment(s, data, q, header, offset, end, side, run)
    fq[q, FQ_ECN] |= 1 << (skb[SKB_TOS] & 3)
    if load16be(data, skb[SKB_IP] + FLAGS_OFFSET) & DF:
        fq[q, FQ_MAX_DF_SIZE] = max(fq[q, FQ_MAX_DF_SIZE], header + end - offset)
    if offset == 0:
        _keep_options(s, q, f)
    if not is_complete(s, q):
        return hold(s, trace, q)
    return _ip_frag_reasm(s, trace, q, f)


@kernel
def _keep_options(s, q, f):
    """Remember the options of the first fragment as this host has understood and changed them."""
    fq = s.fq
    fq[q, FQ_OPTIONS] = s.skb[SKB_OPTIONS]
    if s.skb[SKB_OPTIONS]:
        first = s.frag[f, FRAG_BLOCK] * FRAG_BLOCK_BYTES
        copy(s.frag_data, first, s.scratch, SCRATCH_HEADER, s.frag[f, FRAG_HEADER])
        for k in range(OPT_COLUMNS):
            fq[q, FQ_OPT_0 + k] = s.opt[k]


@kernel
def _recall_options(s, q, ihl):
    """The options of the packet in `State.datagram` are those of the packet in hand."""
    s.skb[SKB_OPTIONS] = s.fq[q, FQ_OPTIONS]
    if s.skb[SKB_OPTIONS]:
        copy(s.scratch, SCRATCH_HEADER, s.datagram, 0, ihl)
        for k in range(OPT_COLUMNS):
            s.opt[k] = s.fq[q, FQ_OPT_0 + k]


@kernel
def _fail(s, trace, q, f, statistic):
    """The datagram is complete but can not be: it is consumed with all its fragments."""
    count(s, M_IpReasmFails)
    s.fqdir[FQDIR_IPV4, statistic] += 1
    s.fqdir[FQDIR_IPV4, FQDIR_DISCARDED] += s.fq[q, FQ_FRAGMENTS]
    destroy_queue(s, q, CONSUMED, R_NONE, f)
    return consume(s, trace, R_NONE)


@kernel
def _ip_frag_reasm(s, trace, q, f):
    """Put the datagram together; CONTINUE with it in hand, or DONE."""
    skb, fq, datagram = s.skb, s.fq, s.datagram
    kill_queue(s, q)
    ecn = combined_ecn(fq[q, FQ_ECN])
    if ecn < 0:
        note(trace, T_FRAG_ECN, fq[q, FQ_ECN])
        return _fail(s, trace, q, f, FQDIR_ECN)
    first = fq[q, FQ_FIRST]
    ihl, length = s.frag[first, FRAG_HEADER], fq[q, FQ_LEN]
    if ihl + length > LARGEST:
        note(trace, T_FRAG_OVERSIZE, ihl + length, LARGEST)
        return _fail(s, trace, q, f, FQDIR_OVERSIZE)
    copy_header(s, first, ihl, s.datagram, 0)
    s.frag_misc[FM_JOINED] = 0
    there = copy_payload(s, q, s.datagram, ihl)
    tos = load8(datagram, TOS) | ecn
    keep_df = fq[q, FQ_MAX_DF_SIZE] == fq[q, FQ_MAX_SIZE]
    store8(datagram, TOS, tos)
    store16be(datagram, TOTAL_LENGTH, ihl + length)
    store16be(datagram, FLAGS_OFFSET, DF if keep_df else 0)
    store16be(datagram, CHECKSUM, 0)
    store16be(datagram, CHECKSUM, checksum(datagram, 0, ihl))
    _recall_options(s, q, ihl)
    skb[SKB_IP] = 0
    skb[SKB_LEN] = ihl + length
    skb[SKB_AVAIL] = ihl + there
    skb[SKB_IHL] = ihl
    skb[SKB_TOS] = tos
    skb[SKB_TRANSPORT] = ihl
    skb[SKB_FRAG] = 0
    skb[SKB_MARK] = s.frag[first, FRAG_MARK]
    skb[SKB_PKT_TYPE] = s.frag[first, FRAG_PKT_TYPE]
    skb[SKB_IIF] = s.frag[first, FRAG_DEVICE]
    if fq[q, FQ_USER] != USER_LOCAL_DELIVER:
        skb[SKB_FRAG_MAX] = fq[q, FQ_MAX_SIZE]
    count(s, M_IpReasmOKs)
    s.fqdir[FQDIR_IPV4, FQDIR_DATAGRAMS] += 1
    s.fqdir[FQDIR_IPV4, FQDIR_JOINED] += fq[q, FQ_FRAGMENTS]
    note(trace, T_FRAG_JOINED, fq[q, FQ_FRAGMENTS], ihl + length, there == length)
    destroy_queue(s, q, CONSUMED, R_NONE, f)
    return CONTINUE


@cold
def _answer(h, s, data, trace, user):
    """Tell the sender that its datagram did not arrive in time, if it was for this host."""
    if ip_route_input_slow(h, s, data, trace) != CONTINUE:
        return
    if user == USER_LOCAL_DELIVER or s.skb[DST_TYPE] == RTN_LOCAL:
        icmp_send(h, s, data, trace, ICMP_TIME_EXCEEDED, REASSEMBLY_TIME, 0)


@kernel
def _take_up_first(s, q):
    """Make the first fragment, as it came, the packet in hand."""
    skb, frag, buf = s.skb, s.frag, s.datagram
    f = s.fq[q, FQ_FIRST]
    ihl = frag[f, FRAG_HEADER]
    copy_header(s, f, ihl + frag[f, FRAG_STORED], s.datagram, 0)
    for field in range(SKB_COLUMNS):
        skb[field] = 0 if field < SKB_FIRST_NONE else NONE
    skb[SKB_FRAME] = frag[f, FRAG_FRAME]
    skb[SKB_TIME_NS] = s.misc[MISC_NOW_NS]
    skb[SKB_DEVICE] = s.fq[q, FQ_DEVICE]
    skb[SKB_MARK] = frag[f, FRAG_MARK]
    skb[SKB_PKT_TYPE] = frag[f, FRAG_PKT_TYPE]
    skb[SKB_FAMILY] = 4
    skb[SKB_LEN] = ihl + frag[f, FRAG_END]
    skb[SKB_AVAIL] = ihl + frag[f, FRAG_STORED]
    skb[SKB_IHL] = ihl
    skb[SKB_TOS] = load8(buf, TOS)
    skb[SKB_PROTOCOL] = load8(buf, PROTOCOL)
    skb[SKB_FRAG] = load16be(buf, FLAGS_OFFSET) & (MF | OFFSET_MASK)
    skb[SKB_SRC_LO] = load32be(buf, SOURCE)
    skb[SKB_DST_LO] = load32be(buf, DESTINATION)
    skb[SKB_TRANSPORT] = ihl
    _recall_options(s, q, ihl)


@cold
def ip_expire(h, s, trace, q):
    """The time of a queue is up."""
    kill_queue(s, q)
    count(s, M_IpReasmFails)
    count(s, M_IpReasmTimeout)
    s.fqdir[FQDIR_IPV4, FQDIR_EXPIRED] += s.fq[q, FQ_FRAGMENTS]
    if s.fq[q, FQ_FLAGS] & FQ_FIRST_IN and s.fq[q, FQ_DEVICE] >= 0:  # else the device is gone
        _take_up_first(s, q)
        _answer(h, s, as_arena(s.datagram), trace, s.fq[q, FQ_USER])
    destroy_queue(s, q, DROPPED, R_FRAG_REASM_TIMEOUT)
