"""Longest prefix search: from an address to the node of its longest prefix in one table.

A table is a sorted run of disjoint intervals, each naming a node; large tables have a directory by
the first 16 bits in front, so that the search starts in a short run.  Sign bits are flipped in the
stored starts, so that signed comparison orders addresses.
"""

from __future__ import annotations

from ippath.jit import hot
from ippath.tables import NONE, TABLE_COUNT, TABLE_FIRST, TABLE_TOP

FLIP = -(1 << 63)


@hot
def search4(fib, table, address):
    """Node of the longest prefix of `address` (32 bits) in table row `table`, or NONE."""
    low = fib.table[table, TABLE_FIRST]
    size = fib.table[table, TABLE_COUNT]
    if size == 0:
        return NONE
    top = fib.table[table, TABLE_TOP]
    if top >= 0:
        slot = top + (address >> 16)
        low = fib.top[slot]
        size = fib.top[slot + 1] - low + 1
    start = fib.start_lo
    while size > 1:  # branch-free halving: the largest start that is not above the address
        half = size >> 1
        if start[low + half] <= address:
            low += half
        size -= half
    return fib.leaf[low]


@hot
def search6(fib, table, hi, lo):
    """Node of the longest prefix of the IPv6 address (hi, lo) in table row `table`, or NONE."""
    low = fib.table[table, TABLE_FIRST]
    size = fib.table[table, TABLE_COUNT]
    if size == 0:
        return NONE
    top = fib.table[table, TABLE_TOP]
    if top >= 0:
        slot = top + ((hi >> 48) & 0xFFFF)
        low = fib.top[slot]
        size = fib.top[slot + 1] - low + 1
    key_hi, key_lo = hi ^ FLIP, lo ^ FLIP
    while size > 1:
        half = size >> 1
        at = low + half
        start = fib.start_hi[at]
        if start < key_hi or (start == key_hi and fib.start_lo[at] <= key_lo):
            low = at
        size -= half
    return fib.leaf[low]
