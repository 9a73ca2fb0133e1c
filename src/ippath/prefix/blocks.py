"""Look-ups of many addresses, a block at a time and step by step.

A look-up is a chain of loads each of which waits for the one before, mostly for the third-level cache.
Here every step is done for a whole block before the next one, and asks for the cache lines of the next
step, so that the processor waits for many addresses at once.

`t` is an opened handle on `ippath.prefix.layout.Arrays`; `s` is scratch, int64[SCRATCH], with the
address, the state and at last the node of each row of the block.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.prefix.bits import from_ipv4, rank
from ippath.prefix.chunks import below, slot_of
from ippath.prefix.layout import GROUP, META_SHIFT, META_TOP, STRIDE
from ippath.prefix.nodes import step
from ippath.wire.memory import prefetch

BLOCK = 128  # the lines of a block stay in the first-level cache, and there are enough to wait for
HI, LO, ACTIVE, CHUNK, NODE, LATER, ROW, DEEP, SCRATCH = range(0, 9 * BLOCK, BLOCK)
CHUNK_SHIFT, LEAF_SHIFT, NUMBER_SHIFT = 4, 2, 3  # bytes of chunk, word and number, as shifts


@hot
def find_block4(t, addresses, begin, count, s):
    """Nodes of IPv4 addresses begin … begin + count - 1, into s[NODE …]."""
    shift = 32 - t.meta[META_TOP]
    for k in range(count):
        slot = (addresses[begin + k] & 0xFFFFFFFF) >> shift
        prefetch(t.chunk, slot >> 6 << CHUNK_SHIFT)
    for k in range(count):
        slot = (addresses[begin + k] & 0xFFFFFFFF) >> shift
        chunk = slot >> 6
        at = t.chunk[2 * chunk + 1] + rank(t.chunk[2 * chunk], slot & 63)
        s[NODE + k] = at
        prefetch(t.leaf, at << LEAF_SHIFT)
    for k in range(count):
        word = t.leaf[s[NODE + k]]
        if word < 0:
            word = below(t, from_ipv4(addresses[begin + k]), 0, 32 - shift, word)
        s[NODE + k] = word


@kernel
def find_block(t, s, count):
    """Nodes of addresses s[HI …], s[LO …] into s[NODE …]: of the `count` rows that s[ACTIVE …] lists."""
    bits, deep = t.meta[META_TOP], 0
    for j in range(count):
        k = s[ACTIVE + j]
        chunk = slot_of(s[HI + k], bits, bits) >> 6
        s[CHUNK + k] = chunk
        prefetch(t.chunk, chunk << CHUNK_SHIFT)
    while count:
        for j in range(count):
            k = s[ACTIVE + j]
            chunk = s[CHUNK + k]
            at = t.chunk[2 * chunk + 1] + rank(t.chunk[2 * chunk], slot_of(s[HI + k], bits, 6))
            s[NODE + k] = at
            prefetch(t.leaf, at << LEAF_SHIFT)
        bits += STRIDE
        left, count = count, 0
        for j in range(left):
            k = s[ACTIVE + j]
            word = t.leaf[s[NODE + k]]
            s[NODE + k] = word
            group = word < 0 and word & 1  # the bits are inverted: not deep
            if group:
                chunk = GROUP * (~word >> 1) + (slot_of(s[HI + k], bits, STRIDE) >> 6)
                s[CHUNK + k] = chunk
                prefetch(t.chunk, chunk << CHUNK_SHIFT)
                s[ACTIVE + count] = k
                count += 1
            elif word < 0:
                s[CHUNK + k] = ~word >> 1
                prefetch(t.leaf, ~word >> 1 << LEAF_SHIFT)
                s[DEEP + deep] = k
                deep += 1
    _walk_block(t, s, deep)


@kernel
def _walk_block(t, s, count):
    """Go on in the tree, with `count` rows s[DEEP …] whose deep records s[CHUNK …] names."""
    shift = t.meta[META_SHIFT] + NUMBER_SHIFT
    for j in range(count):
        k = s[DEEP + j]
        record = s[CHUNK + k]
        s[NODE + k], s[CHUNK + k] = t.leaf[record], t.leaf[record + 1]
        prefetch(t.node, s[CHUNK + k] << shift)
    while count:
        left, count = count, 0
        for j in range(left):
            k = s[DEEP + j]
            s[NODE + k], below = step(t, s[CHUNK + k], s[HI + k], s[LO + k], s[NODE + k])
            if below:
                s[CHUNK + k] = below
                prefetch(t.node, below << shift)
                s[DEEP + count] = k
                count += 1


@kernel
def fetch_ways(t, hi, lo, begin, count, s):
    """Bring what changes of prefixes begin … begin + count - 1 will look at into the cache.

    That is their ways through the tree, two thirds of the time of a change otherwise, and their slots.
    """
    shift, bits = t.meta[META_SHIFT] + NUMBER_SHIFT, t.meta[META_TOP]
    for k in range(count):
        prefetch(t.chunk, slot_of(hi[begin + k], bits, bits) >> 6 << CHUNK_SHIFT)
        s[CHUNK + k], s[ACTIVE + k] = 0, k
    left = count
    while left:
        active, left = left, 0
        for j in range(active):
            k = s[ACTIVE + j]
            _, below = step(t, s[CHUNK + k], hi[begin + k], lo[begin + k], 0)
            s[CHUNK + k], s[ACTIVE + left] = below, k
            prefetch(t.node, below << shift)
            left += below != 0
    for k in range(count):
        chunk = slot_of(hi[begin + k], bits, bits) >> 6
        prefetch(t.leaf, t.chunk[2 * chunk + 1] << LEAF_SHIFT)
