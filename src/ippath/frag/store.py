"""Memory of the engine: rows for queues and fragments, blocks for their bytes; nothing is allocated.

Rows and blocks come from free lists over fixed arrays.  The control side makes the arrays larger
between two bursts when they get short (`ippath.frag.arena`), so that a fragment always finds room.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.tables import (
    FM_BLOCK_FREE, FM_BLOCK_TOP, FM_BLOCK_USED, FM_FRAG_FREE, FM_FRAG_TOP, FM_FRAG_USED,
    FM_QUEUE_FREE, FM_QUEUE_TOP, FM_QUEUE_USED, FM_SHORT, FQ_DIR, FQ_NEXT, FRAG_BLOCK,
    FRAG_BLOCK_BYTES, FRAG_NEXT, NONE,
)  # fmt: skip
from ippath.wire.memory import copy

MOST_BYTES = 65535 + 40 + 1024  # that one fragment can bring, with a link-level header
RESERVED_BLOCKS = MOST_BYTES // FRAG_BLOCK_BYTES + 1
RESERVED_ROWS = 8200  # pieces into which one fragment can fall between others

# memory that alloc_skb takes for a packet: room for headers before it, its descriptors
HEADROOM, SHARED_INFO, DESCRIPTOR = 64, 320, 256
SMALL_HEAD, PAGE, LARGEST_SLAB = 576, 4096, 8192


@kernel
def truesize(length):
    """Bytes that Linux charges for a received packet of `length` bytes (SKB_TRUESIZE of alloc_skb).

    On x86-64, for packets that alloc_skb made, as TUN's are.  Network cards whose drivers cut
    buffers out of pages are charged a little differently, each in its own way.
    """
    size = ((length + HEADROOM + 63) & ~63) + SHARED_INFO
    if size <= SMALL_HEAD:
        return SMALL_HEAD + DESCRIPTOR
    if size > LARGEST_SLAB:
        return ((size + PAGE - 1) & -PAGE) + DESCRIPTOR
    slab = 1024
    while slab < size:
        slab *= 2
    return slab + DESCRIPTOR


@hot
def check_room(s):
    """Ask for larger arrays if the next fragment might not find room."""
    fm = s.frag_misc
    if (
        fm[FM_FRAG_USED] + RESERVED_ROWS > s.frag.shape[0]
        or fm[FM_QUEUE_USED] >= s.fq.shape[0]
        or fm[FM_BLOCK_USED] + RESERVED_BLOCKS > s.frag_link.shape[0]
    ):
        fm[FM_SHORT] = 1


@kernel
def new_queue(s):
    """A free row of `State.fq`."""
    fm = s.frag_misc
    q = fm[FM_QUEUE_FREE]
    if q == NONE:
        q = fm[FM_QUEUE_TOP]
        fm[FM_QUEUE_TOP] = q + 1
    else:
        fm[FM_QUEUE_FREE] = s.fq[q, FQ_NEXT]
    fm[FM_QUEUE_USED] += 1
    return q


@kernel
def free_queue(s, q):
    """Give a row of `State.fq` back."""
    fm = s.frag_misc
    s.fq[q, FQ_DIR] = NONE
    s.fq[q, FQ_NEXT] = fm[FM_QUEUE_FREE]
    fm[FM_QUEUE_FREE] = q
    fm[FM_QUEUE_USED] -= 1


@kernel
def new_fragment(s):
    """A free row of `State.frag`."""
    fm = s.frag_misc
    f = fm[FM_FRAG_FREE]
    if f == NONE:
        f = fm[FM_FRAG_TOP]
        fm[FM_FRAG_TOP] = f + 1
    else:
        fm[FM_FRAG_FREE] = s.frag[f, FRAG_NEXT]
    fm[FM_FRAG_USED] += 1
    return f


@kernel
def free_fragment(s, f):
    """Give a fragment's row and its blocks back."""
    fm = s.frag_misc
    block = s.frag[f, FRAG_BLOCK]
    while block != NONE:
        following = s.frag_link[block]
        s.frag_link[block] = fm[FM_BLOCK_FREE]
        fm[FM_BLOCK_FREE] = block
        fm[FM_BLOCK_USED] -= 1
        block = following
    s.frag[f, FRAG_NEXT] = fm[FM_FRAG_FREE]
    fm[FM_FRAG_FREE] = f
    fm[FM_FRAG_USED] -= 1


@kernel
def _new_block(s):
    fm = s.frag_misc
    block = fm[FM_BLOCK_FREE]
    if block == NONE:
        block = fm[FM_BLOCK_TOP]
        fm[FM_BLOCK_TOP] = block + 1
    else:
        fm[FM_BLOCK_FREE] = s.frag_link[block]
    fm[FM_BLOCK_USED] += 1
    s.frag_link[block] = NONE
    return block


@kernel
def put_bytes(s, data, start, count):
    """Keep `count` bytes from `data[start]`; returns their first block."""
    first = _new_block(s)
    block, done = first, 0
    while True:
        part = min(count - done, FRAG_BLOCK_BYTES)
        copy(s.frag_data, block * FRAG_BLOCK_BYTES, data, start + done, part)
        done += part
        if done >= count:
            return first
        following = _new_block(s)
        s.frag_link[block] = following
        block = following


@kernel
def get_bytes(s, block, skip, count, target, at):
    """Copy `count` kept bytes, without the first `skip`, to `target[at]`."""
    while skip >= FRAG_BLOCK_BYTES:
        skip -= FRAG_BLOCK_BYTES
        block = s.frag_link[block]
    done = 0
    while done < count:
        part = min(count - done, FRAG_BLOCK_BYTES - skip)
        copy(target, at + done, s.frag_data, block * FRAG_BLOCK_BYTES + skip, part)
        done += part
        skip = 0
        block = s.frag_link[block]
