"""What other systems, and Linux before 4.18, make of overlapping fragments.

They keep what fits and cut off the rest; they differ in whose bytes win.  The rules are those that
target-based reassembly knows (Shankar and Paxson 2003; Novak 2005), for a new fragment and a piece
that is held:

| policy      | the new one's bytes win where it                       | as in                         |
|-------------|--------------------------------------------------------|-------------------------------|
| `first`     | never                                                  |                               |
| `last`      | always                                                 |                               |
| `bsd`       | begins before the piece                                | 4.4BSD, OpenBSD               |
| `linux-old` | begins before the piece, or with it                    | Linux up to 4.17 (IPv4)       |
| `windows`   | begins before the piece and ends behind it             | Windows                       |
| `solaris`   | begins before the piece and ends behind it, or with it | Solaris                       |

The tree holds pieces, disjoint and in order; the fragments that own their bytes hang at FQ_WHOLE
until the datagram is done.
"""

from __future__ import annotations

from ippath.frag.runs import LEFT, RIGHT, ROOT, hang, next_run, take_out
from ippath.frag.store import free_fragment, new_fragment
from ippath.jit import cold, kernel
from ippath.tables import (
    FQ_MEAT, FQ_ROOT, FQ_WHOLE, FRAG_BLOCK, FRAG_END, FRAG_LEFT, FRAG_NEXT, FRAG_OFFSET, FRAG_OWNER,
    FRAG_RIGHT, FRAG_RUN_END, FRAG_SKIP, NONE, POLICY_BSD, POLICY_FIRST, POLICY_LAST,
    POLICY_LINUX_OLD, POLICY_WINDOWS,
)  # fmt: skip


@kernel
def new_one_wins(policy, begin, end, piece_begin, piece_end):
    """Whose bytes count where a fragment and a piece that is held overlap?"""
    if policy == POLICY_FIRST:
        return False
    if policy == POLICY_LAST:
        return True
    if policy == POLICY_BSD:
        return begin < piece_begin
    if policy == POLICY_LINUX_OLD:
        return begin <= piece_begin
    if policy == POLICY_WINDOWS:
        return begin < piece_begin and end > piece_end
    return begin < piece_begin and end >= piece_end


@kernel
def first_piece(s, q, begin):
    """The first piece that ends behind `begin`, or NONE."""
    frag, f, found = s.frag, s.fq[q, FQ_ROOT], NONE
    while f != NONE:
        if frag[f, FRAG_RUN_END] > begin:
            found, f = f, frag[f, FRAG_LEFT]
        else:
            f = frag[f, FRAG_RIGHT]
    return found


@kernel
def _add_piece(s, q, owner, skip, begin, end):
    """Put bytes [begin, end) into the tree, which has no others there."""
    frag, f = s.frag, new_fragment(s)
    frag[f, FRAG_OFFSET] = begin
    frag[f, FRAG_END] = end
    frag[f, FRAG_OWNER] = owner
    frag[f, FRAG_SKIP] = skip
    frag[f, FRAG_BLOCK] = NONE
    frag[f, FRAG_NEXT] = NONE
    s.fq[q, FQ_MEAT] += end - begin
    parent, side, below = NONE, ROOT, s.fq[q, FQ_ROOT]
    while below != NONE:
        parent = below
        side = LEFT if begin < frag[below, FRAG_OFFSET] else RIGHT
        below = frag[below, FRAG_LEFT] if side == LEFT else frag[below, FRAG_RIGHT]
    hang(s, q, f, side, parent)


@kernel
def _take_bytes(s, q, piece, begin, end):
    """Take [begin, end) away from a piece, of which two may be left."""
    frag = s.frag
    first, last, skip = frag[piece, FRAG_OFFSET], frag[piece, FRAG_END], frag[piece, FRAG_SKIP]
    if begin <= first and end >= last:
        s.fq[q, FQ_MEAT] -= last - first
        take_out(s, q, piece)
        free_fragment(s, piece)
    elif begin <= first:
        s.fq[q, FQ_MEAT] -= end - first
        frag[piece, FRAG_OFFSET] = end
        frag[piece, FRAG_SKIP] = skip + end - first
    else:
        s.fq[q, FQ_MEAT] -= last - begin
        frag[piece, FRAG_END] = frag[piece, FRAG_RUN_END] = begin
        if end < last:
            _add_piece(s, q, frag[piece, FRAG_OWNER], skip + end - first, end, last)


@cold
def settle_overlaps(s, q, owner, policy, begin, end):
    """Put the bytes of a fragment in, as far as they win; returns (bytes contested, bytes that won).

    Unless none of its bytes is used, the fragment hangs at the queue then.
    """
    frag = s.frag
    contested, lost, at = 0, 0, begin
    piece = first_piece(s, q, begin)
    while piece != NONE and frag[piece, FRAG_OFFSET] < end:
        following = next_run(s, piece)
        first, last = frag[piece, FRAG_OFFSET], frag[piece, FRAG_END]
        common = min(end, last) - max(begin, first)
        contested += common
        if new_one_wins(policy, begin, end, first, last):
            _take_bytes(s, q, piece, begin, end)
        else:
            lost += common
            if at < first:
                _add_piece(s, q, owner, at - begin, at, first)
            at = last
        piece = following
    if at < end:
        _add_piece(s, q, owner, at - begin, at, end)
    won = end - begin - lost
    if won:
        frag[owner, FRAG_NEXT] = s.fq[q, FQ_WHOLE]
        s.fq[q, FQ_WHOLE] = owner
    return contested, won
