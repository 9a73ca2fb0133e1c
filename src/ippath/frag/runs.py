"""The fragments of one datagram: runs in order of arrival, in a tree by offset.

A run is a chain of fragments of which each begins where the one before it ends.  A fragment that
goes on from the end is appended to the last run; any other begins a run of its own (kernel:
inet_frag_queue_insert).  Runs are nodes of a treap: a search tree that random priorities keep
balanced, whatever the order of arrival.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.tables import (
    FM_RANDOM, FQ_LAST_RUN, FQ_ROOT, FQ_TAIL, FRAG_END, FRAG_LEFT, FRAG_NEXT, FRAG_OFFSET,
    FRAG_PRIORITY, FRAG_RIGHT, FRAG_RUN_END, FRAG_UP, NONE,
)  # fmt: skip

# what becomes of a fragment
FITS, DUPLICATE, OVERLAP = range(3)
# where one that fits goes: behind the last run, or into the tree
APPENDED, ROOT, LEFT, RIGHT = range(4)


@hot
def find_place(s, q, offset, end):
    """(FITS, DUPLICATE or OVERLAP; where it goes; the run there) for bytes [offset, end)."""
    fq, frag = s.fq, s.frag
    tail = fq[q, FQ_TAIL]
    if tail == NONE:
        return FITS, ROOT, NONE
    tail_end, run = frag[tail, FRAG_END], fq[q, FQ_LAST_RUN]
    if tail_end < end:
        if offset < tail_end:
            return OVERLAP, ROOT, NONE
        # the last run is the rightmost node: nothing hangs to its right
        return FITS, APPENDED if offset == tail_end else RIGHT, run
    run = fq[q, FQ_ROOT]
    while True:
        if end <= frag[run, FRAG_OFFSET]:
            side, below = LEFT, frag[run, FRAG_LEFT]
        elif offset >= frag[run, FRAG_RUN_END]:
            side, below = RIGHT, frag[run, FRAG_RIGHT]
        elif offset >= frag[run, FRAG_OFFSET] and end <= frag[run, FRAG_RUN_END]:
            return DUPLICATE, ROOT, run
        else:
            return OVERLAP, ROOT, run
        if below == NONE:
            return FITS, side, run
        run = below


@kernel
def _priority(s):
    value = s.frag_misc[FM_RANDOM] & 0xFFFFFFFF
    value ^= (value << 13) & 0xFFFFFFFF
    value ^= value >> 17
    value ^= (value << 5) & 0xFFFFFFFF
    s.frag_misc[FM_RANDOM] = value
    return value


@kernel
def _replace_child(s, q, parent, old, new):
    frag = s.frag
    if parent == NONE:
        s.fq[q, FQ_ROOT] = new
    elif frag[parent, FRAG_LEFT] == old:
        frag[parent, FRAG_LEFT] = new
    else:
        frag[parent, FRAG_RIGHT] = new


@kernel
def _rotate_up(s, q, f):
    """Put the node in its parent's place, the parent below it."""
    frag = s.frag
    parent = frag[f, FRAG_UP]
    above = frag[parent, FRAG_UP]
    if frag[parent, FRAG_LEFT] == f:
        moved = frag[f, FRAG_RIGHT]
        frag[parent, FRAG_LEFT] = moved
        frag[f, FRAG_RIGHT] = parent
    else:
        moved = frag[f, FRAG_LEFT]
        frag[parent, FRAG_RIGHT] = moved
        frag[f, FRAG_LEFT] = parent
    if moved != NONE:
        frag[moved, FRAG_UP] = parent
    _replace_child(s, q, above, parent, f)
    frag[f, FRAG_UP] = above
    frag[parent, FRAG_UP] = f


@kernel
def hang(s, q, f, side, parent):
    """Make the fragment a run of its own below `parent`."""
    frag = s.frag
    priority = _priority(s)
    frag[f, FRAG_RUN_END] = frag[f, FRAG_END]
    frag[f, FRAG_LEFT] = frag[f, FRAG_RIGHT] = NONE
    frag[f, FRAG_UP] = parent
    frag[f, FRAG_PRIORITY] = priority
    if parent == NONE:
        s.fq[q, FQ_ROOT] = f
    elif side == LEFT:
        frag[parent, FRAG_LEFT] = f
    else:
        frag[parent, FRAG_RIGHT] = f
    while parent != NONE and frag[parent, FRAG_PRIORITY] < priority:
        _rotate_up(s, q, f)
        parent = frag[f, FRAG_UP]


@hot
def put_in_place(s, q, f, side, run):
    """Insert the fragment where `find_place` said."""
    fq, frag = s.fq, s.frag
    frag[f, FRAG_NEXT] = NONE
    tail = fq[q, FQ_TAIL]
    if side == APPENDED:
        frag[tail, FRAG_NEXT] = f
        frag[run, FRAG_RUN_END] = frag[f, FRAG_END]
        fq[q, FQ_TAIL] = f
        return
    hang(s, q, f, side, run)
    if tail == NONE or frag[tail, FRAG_END] < frag[f, FRAG_END]:
        fq[q, FQ_TAIL] = f
        fq[q, FQ_LAST_RUN] = f


@kernel
def first_run(s, q):
    """The run with the lowest offset, NONE if there is none."""
    run = s.fq[q, FQ_ROOT]
    while run != NONE and s.frag[run, FRAG_LEFT] != NONE:
        run = s.frag[run, FRAG_LEFT]
    return run


@kernel
def next_run(s, run):
    """The run behind this one, or NONE."""
    frag = s.frag
    below = frag[run, FRAG_RIGHT]
    if below != NONE:
        while frag[below, FRAG_LEFT] != NONE:
            below = frag[below, FRAG_LEFT]
        return below
    above = frag[run, FRAG_UP]
    while above != NONE and frag[above, FRAG_RIGHT] == run:
        run, above = above, frag[above, FRAG_UP]
    return above


@kernel
def take_out(s, q, f):
    """Take one run out of the tree."""
    frag = s.frag
    while True:
        left, right = frag[f, FRAG_LEFT], frag[f, FRAG_RIGHT]
        if left == NONE and right == NONE:
            break
        higher = left if right == NONE else right
        if (
            left != NONE
            and right != NONE
            and frag[left, FRAG_PRIORITY] > frag[right, FRAG_PRIORITY]
        ):
            higher = left
        _rotate_up(s, q, higher)
    _replace_child(s, q, frag[f, FRAG_UP], f, NONE)


@kernel
def take_leaf(s, q):
    """Take a run without others below it out of the tree, NONE once the tree is empty."""
    frag, run = s.frag, s.fq[q, FQ_ROOT]
    while run != NONE:
        below = frag[run, FRAG_LEFT]
        if below == NONE:
            below = frag[run, FRAG_RIGHT]
        if below == NONE:
            _replace_child(s, q, frag[run, FRAG_UP], run, NONE)
            return run
        run = below
    return NONE
