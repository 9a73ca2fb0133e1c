"""Putting a datagram together (kernel: inet_frag_reasm_finish)."""

from __future__ import annotations

from ippath.frag.runs import first_run, next_run
from ippath.frag.store import get_bytes
from ippath.jit import kernel
from ippath.tables import (
    FM_JOINED, FM_PIECES, FRAG_BLOCK, FRAG_END, FRAG_FRAME, FRAG_HEADER, FRAG_NEXT, FRAG_OFFSET,
    FRAG_OWNER, FRAG_SKIP, FRAG_STORED, NONE,
)  # fmt: skip


@kernel
def copy_header(s, f, count, target, at):
    """The first `count` bytes of the headers of the fragment with offset 0, to `target[at]`."""
    get_bytes(s, s.frag[f, FRAG_BLOCK], 0, count, target, at)


@kernel
def copy_payload(s, q, target, at):
    """The data of all fragments, in order, to `target[at]`; their frames are added to `State.joined`.

    Their ends are in `State.pieces` then.  Returns how many bytes of the data the capture had up to
    the first gap that it left.
    """
    frag, pieces = s.frag, 0
    there, whole, frames = 0, True, s.frag_misc[FM_JOINED]
    run = first_run(s, q)
    while run != NONE:
        f = run
        while f != NONE:
            begin, end, owner = frag[f, FRAG_OFFSET], frag[f, FRAG_END], frag[f, FRAG_OWNER]
            skip = frag[f, FRAG_SKIP]
            stored = max(0, min(end - begin, frag[owner, FRAG_STORED] - skip))
            skip += frag[owner, FRAG_HEADER]
            get_bytes(s, frag[owner, FRAG_BLOCK], skip, stored, target, at + begin)
            if whole:
                there = begin + stored
                whole = there == end
            if frames < s.joined.shape[0]:
                s.joined[frames] = frag[owner, FRAG_FRAME]
                frames += 1
            if pieces < s.pieces.shape[0]:
                s.pieces[pieces] = end
                pieces += 1
            f = frag[f, FRAG_NEXT]
        run = next_run(s, run)
    s.frag_misc[FM_JOINED] = frames
    s.frag_misc[FM_PIECES] = pieces
    return there
