"""Longest prefix search: from an address to the leaf of its longest prefix in one table.

A table is a sorted run of disjoint intervals, each naming a node; large tables have directories in
front (`ippath.fib.directory`), so that the search starts in a short run or needs none.  Sign bits are flipped in
the stored starts of IPv6, so that signed comparison orders addresses.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.prefix.bits import rank
from ippath.tables import (
    CHUNK_BITS, CHUNK_CROWDED, SLOT_BITS, TABLE_CHUNKS,
    LEAF_INFO_BITS, NONE, ROUTE_NODE, SUB_BASE, SUB_BY_HIGH, SUB_FIRST, SUB_HELD, SUB_HIGH,
    SUB_LAST, SUB_SHIFT, TABLE_COUNT, TABLE_FIRST, TABLE_SHIFT, TABLE_TOP,
)  # fmt: skip
from ippath.wire.memory import prefetch

FLIP = -(1 << 63)


@kernel
def _descend4(top, place, address):
    """(first, last) interval that may hold the address, by the directory at `place`."""
    while True:
        base = top[place + SUB_BASE]
        if address < base:
            return top[place + SUB_HELD], top[place + SUB_HELD]
        step = (min(address, top[place + SUB_LAST]) - base) >> top[place + SUB_SHIFT]
        first, last = top[place + SUB_FIRST + step], top[place + SUB_FIRST + step + 1]
        if first >= 0:
            return first, last if last >= 0 else top[-last + SUB_HELD]
        place = -first


@kernel
def _descend6(top, place, hi, lo):
    """The same for an IPv6 address whose halves have their sign bits flipped."""
    while True:
        base, end, high = top[place + SUB_BASE], top[place + SUB_LAST], top[place + SUB_HIGH]
        if top[place + SUB_BY_HIGH]:
            key, below = hi, hi < base
        else:
            key, below = (lo if hi == high else end), hi < high or (hi == high and lo < base)
        if below:
            return top[place + SUB_HELD], top[place + SUB_HELD]
        step = (min(key, end) - base) >> top[place + SUB_SHIFT]
        first, last = top[place + SUB_FIRST + step], top[place + SUB_FIRST + step + 1]
        if first >= 0:
            return first, last if last >= 0 else top[-last + SUB_HELD]
        place = -first


@kernel
def leaf_node(fib, leaf):
    """The node that a leaf stands for, or NONE."""
    if leaf >= NONE:
        return leaf
    return fib.route[(-2 - leaf) >> LEAF_INFO_BITS, ROUTE_NODE]


@hot
def chunks4(h):
    """Where the chunks of a large IPv4 table are in `fib4.top`, or NONE."""
    table = h.fib4.table
    for row in range(table.shape[0]):
        if table[row, TABLE_CHUNKS] != NONE:
            return table[row, TABLE_CHUNKS]
    return NONE


@hot
def fetch_chunk4(fib, chunks, address):
    """Ask for what `fetch_leaf4` reads."""
    prefetch(fib.top, (chunks + 2 * (address >> CHUNK_BITS)) << 3)


@hot
def fetch_leaf4(fib, chunks, address):
    """Ask for the leaf that a search for this address will end with, if its chunk is not crowded."""
    prefetch(fib.leaf, _by_chunk(fib, chunks + 2 * (address >> CHUNK_BITS), address) << 3)


@hot
def _by_chunk(fib, at, address):
    """The interval of an address by the chunk at `at`."""
    return fib.top[at + 1] + rank(fib.top[at], (address >> SLOT_BITS) & 63)


@hot
def search4(fib, table, address):
    """Leaf of the longest prefix of `address` (32 bits) in table row `table`, or NONE."""
    chunks = fib.table[table, TABLE_CHUNKS]
    if chunks != NONE:
        at = chunks + 2 * (address >> CHUNK_BITS)
        if fib.top[at] & CHUNK_CROWDED == 0:
            return fib.leaf[_by_chunk(fib, at, address)]
    low = fib.table[table, TABLE_FIRST]
    size = fib.table[table, TABLE_COUNT]
    if size == 0:
        return NONE
    top = fib.table[table, TABLE_TOP]
    if top >= 0:
        slot = top + (address >> fib.table[table, TABLE_SHIFT])
        low, last = fib.top[slot], fib.top[slot + 1]
        if low < 0:
            low, last = _descend4(fib.top, -low, address)
        elif last < 0:
            last = fib.top[-last + SUB_HELD]
        size = last - low + 1
    start = fib.start_lo
    while size > 1:  # halving: the largest start that is not above the address
        half = size >> 1
        if start[low + half] <= address:
            low += half
        size -= half
    return fib.leaf[low]


@hot
def search6(fib, table, hi, lo):
    """Leaf of the longest prefix of the IPv6 address (hi, lo) in table row `table`, or NONE."""
    low = fib.table[table, TABLE_FIRST]
    size = fib.table[table, TABLE_COUNT]
    if size == 0:
        return NONE
    key_hi, key_lo = hi ^ FLIP, lo ^ FLIP
    top = fib.table[table, TABLE_TOP]
    if top >= 0:
        slot = top + ((hi >> fib.table[table, TABLE_SHIFT]) & 0xFFFF)
        low, last = fib.top[slot], fib.top[slot + 1]
        if low < 0:
            low, last = _descend6(fib.top, -low, key_hi, key_lo)
        elif last < 0:
            last = fib.top[-last + SUB_HELD]
        size = last - low + 1
    while size > 1:
        half = size >> 1
        at = low + half
        start = fib.start_hi[at]
        if start < key_hi or (start == key_hi and fib.start_lo[at] <= key_lo):
            low = at
        size -= half
    return fib.leaf[low]
