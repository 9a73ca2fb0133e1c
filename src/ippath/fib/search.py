"""Longest prefix search: from an address to the leaf of its longest prefix in one table.

A table is a row of disjoint intervals, each naming a node, in pages: runs that begin with the interval
that holds the first address of a part of the address space.  Large tables have directories of pages
(`ippath.fib.directory`), so that the search is left with few intervals or none.  Sign bits are flipped in
the stored starts of IPv6, so that signed comparison orders addresses.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.prefix.bits import rank
from ippath.tables import (
    CHUNK_BITS, CHUNK_CROWDED, LEAF_INFO_BITS, NONE, PAGE_BITS, ROUTE_NODE, SLOT_BITS, SUB_BASE,
    SUB_BY_HIGH, SUB_FIRST, SUB_HELD, SUB_HIGH, SUB_LAST, SUB_SHIFT, TABLE_CHUNKS, TABLE_LARGE, TABLE_PAGE,
    TABLE_SHIFT, TABLE_TOP,
)  # fmt: skip
from ippath.wire.memory import prefetch

FLIP = -(1 << 63)
PAGE_COUNT = (1 << PAGE_BITS) - 1


@kernel
def _descend4(top, place, address):
    """The page that holds the address, by the directory at `place`."""
    while True:
        base = top[place + SUB_BASE]
        if address < base:
            return top[place + SUB_HELD]
        step = (min(address, top[place + SUB_LAST]) - base) >> top[place + SUB_SHIFT]
        page = top[place + SUB_FIRST + step]
        if page >= 0:
            return page
        place = -page


@kernel
def _descend6(top, place, hi, lo):
    """The same for an IPv6 address whose halves have their sign bits flipped."""
    while True:
        page = top[_entry6(top, place, hi, lo)]
        if page >= 0:
            return page
        place = -page


@kernel
def _entry6(top, place, hi, lo):
    """The place of the word for such an address in one directory."""
    base, end, high = top[place + SUB_BASE], top[place + SUB_LAST], top[place + SUB_HIGH]
    if top[place + SUB_BY_HIGH]:
        key, below = hi, hi < base
    else:
        key, below = (lo if hi == high else end), hi < high or (hi == high and lo < base)
    if below:
        return place + SUB_HELD
    return place + SUB_FIRST + ((min(key, end) - base) >> top[place + SUB_SHIFT])


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
    chunks, top = fib.table[table, TABLE_CHUNKS], fib.table[table, TABLE_TOP]
    if chunks != NONE:
        at = chunks + 2 * (address >> CHUNK_BITS)
        if fib.top[at] & CHUNK_CROWDED == 0:
            return fib.leaf[_by_chunk(fib, at, address)]
        page = fib.top[at + 1]
    elif top != NONE:
        page = fib.top[top + (address >> fib.table[table, TABLE_SHIFT])]
    else:
        page = fib.table[table, TABLE_PAGE]
    if page < 0:
        page = _descend4(fib.top, -page, address)
    low, size = page >> PAGE_BITS, page & PAGE_COUNT
    start = fib.start_lo
    while size > 1:  # halving: the largest start that is not above the address
        half = size >> 1
        if start[low + half] <= address:
            low += half
        size -= half
    return fib.leaf[low]


@hot
def large6(h):
    """The first IPv6 table that is worth asking ahead for, or NONE."""
    table = h.fib6.table
    for row in range(table.shape[0]):
        if table[row, TABLE_LARGE] and table[row, TABLE_TOP] != NONE:
            return row
    return NONE


@hot
def fetch_slot6(fib, table, hi):
    """Ask for the word of an address's slot in the first level; returns its place."""
    at = fib.table[table, TABLE_TOP] + ((hi >> fib.table[table, TABLE_SHIFT]) & 0xFFFF)
    prefetch(fib.top, at << 3)
    return at


@hot
def fetch_word6(fib, at):
    """Ask for what the word at `at` leads to: a directory, whose place it returns, or a page (NONE)."""
    word = fib.top[at]
    if word < 0:
        prefetch(fib.top, -word << 3)
        return -word
    first, count = word >> PAGE_BITS, word & PAGE_COUNT
    for end in (first, first + count - 1):
        prefetch(fib.start_hi, end << 3)
        prefetch(fib.leaf, end << 3)
    return NONE


@hot
def fetch_entry6(fib, place, hi, lo):
    """Ask for the word of an address in the directory at `place`; returns its place."""
    at = _entry6(fib.top, place, hi ^ FLIP, lo ^ FLIP)
    prefetch(fib.top, at << 3)
    return at


@hot
def search6(fib, table, hi, lo):
    """Leaf of the longest prefix of the IPv6 address (hi, lo) in table row `table`, or NONE."""
    key_hi, key_lo = hi ^ FLIP, lo ^ FLIP
    top = fib.table[table, TABLE_TOP]
    if top != NONE:
        page = fib.top[top + ((hi >> fib.table[table, TABLE_SHIFT]) & 0xFFFF)]
    else:
        page = fib.table[table, TABLE_PAGE]
    if page < 0:
        page = _descend6(fib.top, -page, key_hi, key_lo)
    low, size = page >> PAGE_BITS, page & PAGE_COUNT
    while size > 1:
        half = size >> 1
        at = low + half
        start = fib.start_hi[at]
        if start < key_hi or (start == key_hi and fib.start_lo[at] <= key_lo):
            low = at
        size -= half
    return fib.leaf[low]
