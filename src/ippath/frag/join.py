"""Putting a datagram together, in `State.datagram` (kernel: inet_frag_reasm_finish)."""

from __future__ import annotations

from ippath.frag.runs import first_run, next_run
from ippath.frag.store import get_bytes
from ippath.jit import kernel
from ippath.tables import (
    FRAG_BLOCK, FRAG_END, FRAG_HEADER, FRAG_NEXT, FRAG_OFFSET, FRAG_STORED, NONE,
)  # fmt: skip


@kernel
def copy_header(s, f, count):
    """The first `count` bytes of the headers of the fragment with offset 0, to the beginning."""
    get_bytes(s, s.frag[f, FRAG_BLOCK], 0, count, 0)


@kernel
def copy_payload(s, q, at):
    """The data of all fragments, in order, to `datagram[at]`.

    Returns how many bytes of it the capture had up to the first gap that it left.
    """
    frag = s.frag
    there, whole = 0, True
    run = first_run(s, q)
    while run != NONE:
        f = run
        while f != NONE:
            stored = frag[f, FRAG_STORED]
            get_bytes(
                s, frag[f, FRAG_BLOCK], frag[f, FRAG_HEADER], stored, at + frag[f, FRAG_OFFSET]
            )
            if whole:
                there = frag[f, FRAG_OFFSET] + stored
                whole = there == frag[f, FRAG_END]
            f = frag[f, FRAG_NEXT]
        run = next_run(s, run)
    return there
