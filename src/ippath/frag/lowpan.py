"""Reassembly of 6LoWPAN fragments (kernel: lowpan_frag_rcv, lowpan_frag_queue, lowpan_frag_reasm;
RFC 4944 section 5.3).

In:  the frame in LW_*, with LW_AT behind the fragment header and LW_SIZE, LW_TAG, LW_OFFSET from it;
     of a first fragment the headers are rebuilt already, so that it holds bytes of the IPv6 packet.
Out: REASSEMBLED with the packet in `State.lowpan`, or DONE.

Linux asks for room up to the end of the datagram, whatever the fragment brings: fragments that do not
come in order are dropped, the queue waits on.  Without LW_STRICT any order will do.
"""

from __future__ import annotations

from ippath.frag.fragment import contradicts, count_fragment, discard_queue, store_fragment
from ippath.frag.queue import destroy_queue, find_queue, kill_queue
from ippath.frag.runs import DUPLICATE, FITS, find_place, first_run, next_run, put_in_place
from ippath.frag.store import check_room, get_bytes
from ippath.jit import cold, kernel
from ippath.reasons import CONSUMED, R_NONE
from ippath.rx.lowpan_iphc import fill_checksum
from ippath.tables import (
    FM_DST_HI, FM_DST_LO, FM_ID, FM_JOINED, FM_SRC_HI, FM_SRC_LO, FM_USER, FQDIR_DATAGRAMS,
    FQDIR_DUPLICATES, FQDIR_EXPIRED, FQDIR_FRAGMENTS, FQDIR_INVALID, FQDIR_JOINED, FQDIR_LOWPAN,
    FQDIR_OVERLAPS, FQDIR_REFUSED, FQ_FIRST, FQ_FIRST_IN, FQ_FLAGS, FQ_FRAGMENTS, FQ_LAST_IN,
    FQ_LAST_RUN, FQ_LEN, FQ_MEAT, FQ_TAIL, FRAG_BLOCK, FRAG_END, FRAG_FRAME, FRAG_HEADER, FRAG_NEXT,
    FRAG_NEXTHDR_AT, FRAG_OFFSET, FRAG_STORED, LW_CHECKSUM, LW_DST, LW_DST_MODE, LW_DST_PAN,
    LW_OFFSET, LW_SIZE, LW_SRC, LW_SRC_MODE, LW_SRC_PAN, LW_STRICT, LW_TAG, MISC_NOW_NS, NONE,
)  # fmt: skip

# what becomes of a fragment
KEPT, WHOLE, REFUSED, INVALID, DUPLICATED, OVERLAPPED, GIVEN_UP = range(7)
LARGEST_DATAGRAM = 1280  # IPV6_MIN_MTU: what Linux reassembles here
COMPLETE = FQ_FIRST_IN | FQ_LAST_IN


@kernel
def _set_key(s):
    """The datagram that the fragment belongs to, into FM_*: tag, size, and both addresses."""
    lw, fm = s.lw, s.frag_misc
    fm[FM_USER] = lw[LW_SRC_MODE] | lw[LW_DST_MODE] << 4
    fm[FM_SRC_HI], fm[FM_SRC_LO] = lw[LW_SRC_PAN], lw[LW_SRC]
    fm[FM_DST_HI], fm[FM_DST_LO] = lw[LW_DST_PAN], lw[LW_DST]
    fm[FM_ID] = lw[LW_SIZE] << 16 | lw[LW_TAG]


@kernel
def _learn_length(s, q, offset, length, size):
    """Note what the fragment says of the datagram's end; False if that can not be."""
    fq = s.fq
    known, last_known = fq[q, FQ_LEN], fq[q, FQ_FLAGS] & FQ_LAST_IN
    final = offset + length == size
    if contradicts(not final, size, known, last_known):
        return False
    if s.lw[LW_STRICT] == 0 and (length == 0 or offset + length > size):
        return False
    if final:
        fq[q, FQ_FLAGS] |= FQ_LAST_IN
    fq[q, FQ_LEN] = max(known, size)
    return True


@cold
def lowpan_frag_queue(s, data, header, length, first):
    """Take `length` bytes in that follow `header` bytes at SKB_IP; (what becomes of them, queue, row).

    With WHOLE the queue is complete, killed, and to be given to `lowpan_frag_reasm`.
    """
    lw, fq, directory = s.lw, s.fq, s.fqdir[FQDIR_LOWPAN]
    offset, size, strict = lw[LW_OFFSET], lw[LW_SIZE], lw[LW_STRICT] != 0
    directory[FQDIR_FRAGMENTS] += 1
    _set_key(s)
    q = find_queue(s, FQDIR_LOWPAN, True, s.misc[MISC_NOW_NS])
    if q == NONE:
        directory[FQDIR_REFUSED] += 1
        return REFUSED, NONE, NONE
    if not _learn_length(s, q, offset, length, size):
        directory[FQDIR_INVALID] += 1
        return INVALID, q, NONE
    end = size if strict else offset + length
    place, side, run = find_place(s, q, offset, end)
    if place != FITS:
        directory[FQDIR_DUPLICATES if place == DUPLICATE else FQDIR_OVERLAPS] += 1
        if place == DUPLICATE or strict:
            return DUPLICATED if place == DUPLICATE else OVERLAPPED, q, NONE
        discard_queue(s, q)
        return GIVEN_UP, NONE, NONE
    tail, last_run = fq[q, FQ_TAIL], fq[q, FQ_LAST_RUN]
    at_end = tail == NONE or s.frag[tail, FRAG_END] < end
    f = store_fragment(s, data, header, offset, offset + length)
    s.frag[f, FRAG_NEXTHDR_AT] = lw[LW_CHECKSUM] if first else 0
    put_in_place(s, q, f, side, run)
    if not at_end:  # which the fragment is for Linux, however far its bytes reach
        fq[q, FQ_TAIL], fq[q, FQ_LAST_RUN] = tail, last_run
    flags, head = fq[q, FQ_FLAGS], fq[q, FQ_FIRST]
    fq[q, FQ_MEAT] += length
    count_fragment(s, q, f, header)
    if first:
        fq[q, FQ_FIRST] = f
        fq[q, FQ_FLAGS] = flags | FQ_FIRST_IN
    else:  # the first is told by its dispatch, not by its offset
        fq[q, FQ_FIRST], fq[q, FQ_FLAGS] = head, flags
    if fq[q, FQ_FLAGS] == COMPLETE and fq[q, FQ_MEAT] == fq[q, FQ_LEN]:
        kill_queue(s, q)
        return WHOLE, q, f
    return KEPT, q, f


@cold
def lowpan_frag_reasm(s, q, in_hand):
    """Put a complete queue together, behind the headers kept, at the start of `State.lowpan`.

    Returns (where the packet begins, its length, bytes of it that were captured).
    """
    frag, directory, first = s.frag, s.fqdir[FQDIR_LOWPAN], s.fq[q, FQ_FIRST]
    base, length = frag[first, FRAG_HEADER], s.fq[q, FQ_LEN]
    get_bytes(s, frag[first, FRAG_BLOCK], 0, base, s.lowpan, 0)
    at, there, whole, frames = base, 0, True, s.frag_misc[FM_JOINED]
    run = first_run(s, q)
    while run != NONE:
        f = run
        while f != NONE:  # one behind the other, as the kernel chains them
            size, stored = frag[f, FRAG_END] - frag[f, FRAG_OFFSET], frag[f, FRAG_STORED]
            get_bytes(s, frag[f, FRAG_BLOCK], frag[f, FRAG_HEADER], stored, s.lowpan, at)
            if whole:
                there = at - base + stored
                whole = stored == size
            at += size
            if frames < s.joined.shape[0]:
                s.joined[frames] = frag[f, FRAG_FRAME]
                frames += 1
            f = frag[f, FRAG_NEXT]
        run = next_run(s, run)
    s.frag_misc[FM_JOINED] = frames
    if frag[first, FRAG_NEXTHDR_AT]:
        fill_checksum(s, base, frag[first, FRAG_NEXTHDR_AT], length, there)
    directory[FQDIR_DATAGRAMS] += 1
    directory[FQDIR_JOINED] += s.fq[q, FQ_FRAGMENTS]
    destroy_queue(s, q, CONSUMED, R_NONE, in_hand)
    check_room(s)
    return base, length, there


@cold
def lowpan_expire(s, q, verdict, reason):
    """The time of a queue is up: nobody is told (kernel: lowpan_frag_expire)."""
    directory = s.fqdir[FQDIR_LOWPAN]
    directory[FQDIR_EXPIRED] += s.fq[q, FQ_FRAGMENTS]
    kill_queue(s, q)
    destroy_queue(s, q, verdict, reason)
