"""What all users of the engine do with a fragment: keep it, or let its datagram go.

A user (`ippath.frag.ipv4`, `ippath.frag.ipv6`) knows headers, counters and messages; it finds the
queue, checks the fragment against it, and calls these.
"""

from __future__ import annotations

from ippath.frag.queue import charge, destroy_queue, kill_queue
from ippath.frag.runs import put_in_place
from ippath.frag.store import check_room, new_fragment, put_bytes, truesize
from ippath.jit import hot, kernel
from ippath.reasons import CONSUMED, HELD, R_NONE
from ippath.rx.packet import DONE
from ippath.tables import (
    FQDIR_DISCARDED, FQ_DEADLINE_NS, FQ_DEVICE, FQ_DIR, FQ_FIRST, FQ_FIRST_IN, FQ_FLAGS,
    FQ_FRAGMENTS, FQ_LAST_IN, FQ_LEAST_HEADERS, FQ_LEN, FQ_MAX_SIZE, FQ_MEAT, FRAG_BLOCK,
    FRAG_CHARGE, FRAG_DEVICE, FRAG_END, FRAG_FRAME, FRAG_HEADER, FRAG_LINK, FRAG_MARK,
    FRAG_NEXTHDR_AT, FRAG_OFFSET, FRAG_OWNER, FRAG_PKT_TYPE, FRAG_SKIP, FRAG_STORED, MISC_NOW_NS,
    NONE, SKB_AVAIL, SKB_DEVICE, SKB_FRAME, SKB_IP, SKB_LINK, SKB_MARK, SKB_NEXTHDR_AT,
    SKB_PKT_TYPE, SKB_REASON, SKB_VERDICT, SKB_WIRE_END,
)  # fmt: skip
from ippath.trace import T_FRAG_HELD, T_VERDICT, note

COMPLETE = FQ_FIRST_IN | FQ_LAST_IN
MILLISECOND = 1_000_000


@hot
def contradicts(more, end, length, last_known):
    """Does a fragment up to `end` contradict the length that is known so far?"""
    if more:
        return end > length and last_known != 0
    return end < length or (last_known != 0 and end != length)


@kernel
def note_end(s, q, more, end):
    """Keep how long the datagram is at least, and whether that is known for certain."""
    fq = s.fq
    if not more:
        fq[q, FQ_FLAGS] |= FQ_LAST_IN
    if not more or end > fq[q, FQ_LEN]:
        fq[q, FQ_LEN] = end


@kernel
def store_fragment(s, data, header, offset, end):
    """Keep bytes [offset, end) of the datagram, which follow `header` bytes; returns the row.

    Of the fragment with offset 0 the headers are kept, too.
    """
    skb, frag = s.skb, s.frag
    f = new_fragment(s)
    stored = max(0, min(end - offset, skb[SKB_AVAIL] - header))
    kept = header if offset == 0 else 0
    frag[f, FRAG_OFFSET] = offset
    frag[f, FRAG_END] = end
    frag[f, FRAG_HEADER] = kept
    frag[f, FRAG_STORED] = stored
    frag[f, FRAG_BLOCK] = put_bytes(s, data, skb[SKB_IP] + header - kept, kept + stored)
    frag[f, FRAG_FRAME] = skb[SKB_FRAME]
    frag[f, FRAG_DEVICE] = skb[SKB_DEVICE]
    frag[f, FRAG_PKT_TYPE] = skb[SKB_PKT_TYPE]
    frag[f, FRAG_MARK] = skb[SKB_MARK]
    frag[f, FRAG_NEXTHDR_AT] = skb[SKB_NEXTHDR_AT]
    frag[f, FRAG_CHARGE] = truesize(skb[SKB_WIRE_END] - skb[SKB_LINK])
    frag[f, FRAG_OWNER] = f
    frag[f, FRAG_SKIP] = 0
    frag[f, FRAG_LINK] = 0
    return f


@kernel
def count_fragment(s, q, f, header):
    """Count a fragment that its queue has taken in."""
    fq, frag = s.fq, s.frag
    offset, end = frag[f, FRAG_OFFSET], frag[f, FRAG_END]
    charge(s, fq[q, FQ_DIR], frag[f, FRAG_CHARGE])
    fq[q, FQ_DEVICE] = frag[f, FRAG_DEVICE]
    fq[q, FQ_FRAGMENTS] += 1
    fq[q, FQ_MAX_SIZE] = max(fq[q, FQ_MAX_SIZE], header + end - offset)
    if offset == 0:
        fq[q, FQ_FIRST] = f
        fq[q, FQ_FLAGS] |= FQ_FIRST_IN
    else:
        before = header + s.skb[SKB_IP] - s.skb[SKB_LINK]
        fq[q, FQ_LEAST_HEADERS] = min(fq[q, FQ_LEAST_HEADERS], before)


@kernel
def keep_fragment(s, data, q, header, offset, end, side, run):
    """Store the fragment in hand and put it where `find_place` said; returns the row."""
    f = store_fragment(s, data, header, offset, end)
    put_in_place(s, q, f, side, run)
    s.fq[q, FQ_MEAT] += end - offset
    count_fragment(s, q, f, header)
    return f


@kernel
def is_complete(s, q):
    """Is the whole datagram there?"""
    fq = s.fq
    return fq[q, FQ_FLAGS] == COMPLETE and fq[q, FQ_MEAT] == fq[q, FQ_LEN]


@kernel
def hold(s, trace, q):
    """The packet in hand waits for others; always DONE."""
    fq = s.fq
    known = fq[q, FQ_LEN] if fq[q, FQ_FLAGS] & FQ_LAST_IN else NONE
    left = fq[q, FQ_DEADLINE_NS] - s.misc[MISC_NOW_NS]
    note(trace, T_FRAG_HELD, fq[q, FQ_MEAT], known, left // MILLISECOND)
    s.skb[SKB_VERDICT] = HELD
    s.skb[SKB_REASON] = R_NONE
    note(trace, T_VERDICT, HELD, R_NONE)
    check_room(s)
    return DONE


@kernel
def discard_queue(s, q):
    """Give the datagram up; what was held of it is consumed without a word."""
    s.fqdir[s.fq[q, FQ_DIR], FQDIR_DISCARDED] += s.fq[q, FQ_FRAGMENTS]
    kill_queue(s, q)
    destroy_queue(s, q, CONSUMED, R_NONE)
