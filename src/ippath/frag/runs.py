"""The fragments of one datagram: runs in order of arrival, in a tree by offset.

A run is a chain of fragments of which each begins where the one before it ends.  A fragment that
goes on from the end is appended to the last run; any other begins a run of its own (kernel:
inet_frag_queue_insert).  Runs are nodes of a treap: a search tree that random priorities keep
balanced, whatever the order of arrival.

For comparison, two older ways: STORE_TREE has each fragment as a node of its own, as Linux had
for a few weeks in 4.19-rc, STORE_LIST a list in order of offset, as up to 4.18.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.tables import (
    FM_RANDOM, FQDIR_STORE, FQ_DIR, FQ_LAST_RUN, FQ_ROOT, FQ_TAIL, FRAG_END, FRAG_LEFT, FRAG_NEXT,
    FRAG_OFFSET, FRAG_PRIORITY, FRAG_RIGHT, FRAG_RUN_END, FRAG_UP, NONE, STORE_LIST, STORE_RUNS,
)  # fmt: skip

# what becomes of a fragment
FITS, DUPLICATE, OVERLAP = range(3)
# where one that fits goes: to the end of the last run, into the tree, or behind one of the list
APPENDED, ROOT, LEFT, RIGHT, BEHIND = range(5)


@hot
def find_place(s, q, offset, end):
    """(FITS, DUPLICATE or OVERLAP; where it goes; the run there) for bytes [offset, end)."""
    fq, frag = s.fq, s.frag
    tail, store = fq[q, FQ_TAIL], s.fqdir[fq[q, FQ_DIR], FQDIR_STORE]
    if tail == NONE:
        return FITS, ROOT, NONE
    if store == STORE_LIST:
        return _find_in_list(s, q, offset, end)
    tail_end, run = frag[tail, FRAG_END], fq[q, FQ_LAST_RUN]
    if tail_end < end:
        if offset < tail_end:
            return OVERLAP, ROOT, NONE
        # the last run is the rightmost node: nothing hangs to its right
        goes_on = offset == tail_end and store == STORE_RUNS
        return FITS, APPENDED if goes_on else RIGHT, run
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
def _find_in_list(s, q, offset, end):
    """As `find_place`, by a search from the head unless the fragment goes behind all others.

    The list is a tree whose nodes have right children only.
    """
    frag = s.frag
    before, behind = s.fq[q, FQ_TAIL], NONE
    if frag[before, FRAG_OFFSET] >= offset:
        before, behind = NONE, s.fq[q, FQ_ROOT]
        while behind != NONE and frag[behind, FRAG_OFFSET] < offset:
            before, behind = behind, frag[behind, FRAG_RIGHT]
    if before != NONE and frag[before, FRAG_END] > offset:
        return DUPLICATE if end <= frag[before, FRAG_END] else OVERLAP, ROOT, before
    if behind != NONE and frag[behind, FRAG_OFFSET] < end:
        same = frag[behind, FRAG_OFFSET] == offset and end <= frag[behind, FRAG_END]
        return DUPLICATE if same else OVERLAP, ROOT, behind
    return FITS, BEHIND, before


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


@kernel
def _splice(s, q, f, before):
    """Make the fragment follow `before` in the list, or begin it."""
    frag = s.frag
    behind = s.fq[q, FQ_ROOT] if before == NONE else frag[before, FRAG_RIGHT]
    frag[f, FRAG_RUN_END] = frag[f, FRAG_END]
    frag[f, FRAG_LEFT] = NONE
    frag[f, FRAG_RIGHT] = behind
    frag[f, FRAG_UP] = before
    if behind != NONE:
        frag[behind, FRAG_UP] = f
    if before == NONE:
        s.fq[q, FQ_ROOT] = f
    else:
        frag[before, FRAG_RIGHT] = f


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
    if side == BEHIND:
        _splice(s, q, f, run)
    else:
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
def take_any(s, q):
    """Take the run that is easiest to reach out of the tree, NONE once the tree is empty."""
    frag, run = s.frag, s.fq[q, FQ_ROOT]
    if run != NONE and frag[run, FRAG_LEFT] == NONE:
        below = frag[run, FRAG_RIGHT]
        s.fq[q, FQ_ROOT] = below
        if below != NONE:
            frag[below, FRAG_UP] = NONE
        return run
    while run != NONE:
        below = frag[run, FRAG_LEFT]
        if below == NONE:
            below = frag[run, FRAG_RIGHT]
        if below == NONE:
            _replace_child(s, q, frag[run, FRAG_UP], run, NONE)
            return run
        run = below
    return NONE
