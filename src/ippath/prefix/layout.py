"""The arrays of a prefix table of one family, and what their words mean.

Two structures say the same, each for its own questions:

- **nodes**: a binary tree without one-way paths (PATRICIA), in the order of the addresses.  It holds
  what the table is: exact, parent, children and ordered walks are answered here.  Node 0 is the root,
  the prefix of length 0.  A node that only branches has no value.
- **chunks**: what an address finds, 64 slots at a time.  The top has 2**META_TOP slots, one for each
  beginning of that many bits; groups of 256 slots below it (four chunks) resolve 8 bits more, down to
  META_LAST bits.  Equal neighbours are stored once: bit k of a chunk says that slot k differs from the
  one before, and the words of the runs lie together in `leaf`.  So 2**24 slots of a full table take
  4 MB and one word for each change, and a look-up is one bit count between two loads.

A word of `leaf`: 0 or more is the node of the longest prefix (0: the root, or none).  Below zero, with
the bits inverted, the last bit tells two kinds apart: a group of chunks, or a *deep* record of two
words of `leaf`: the node of the longest prefix around the slot, and the uppermost node within, from
which the search goes on in the tree.  A slot within which only one prefix lies is deep, so that lone
prefixes far down need no chain of groups; and so is everything below META_LAST bits.

Blocks of `leaf` have 1 to 64 words; free ones of a size are chained, as are free groups and nodes.
All zeros, but for `meta`, is an empty table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ippath.prefix.pages import zeros

# meta
(
    META_SHIFT,  # a node has 2**shift words: two for IPv4, four for IPv6
    META_HIGH_MASK, META_LOW_MASK,  # which bits of a node's first words are its key
    META_WIDTH,  # bits of an address
    META_TOP,  # bits that the top resolves, 16 or 24
    META_LAST,  # bits that chunks resolve at most
    META_COUNT,  # prefixes
    META_NODES, META_CHUNKS, META_LEAVES,  # words, chunks, nodes used so far, free ones included
    META_FREE_NODE, META_FREE_GROUP,  # first of each chain, 0: none
    META_FREE_NODES, META_FREE_GROUPS, META_FREE_WORDS,  # how many are free
    META_FREE_BLOCK,  # [65]: first free block of each size
) = range(16)  # fmt: skip
META_WORK = META_FREE_BLOCK + 65  # [64]: the words of a chunk that changes
META_PATH = META_WORK + 64  # [16]: chunk and slot of each level on the way down
META_STACK = META_PATH + 16  # [2048]: groups still to be painted
META_WORDS = META_STACK + 2048

# a node of IPv4: the key in the upper half of the first word, below it the length and whether it has
# a value; then both children, the one for bit 0 in the upper half.  IPv6 has two words of key, then
# length and value, then the children.
HAS_VALUE = 1
LENGTH_SHIFT = 1

GROUP = 4  # chunks of a group
STRIDE = 8  # bits that a group resolves
SMALL_TOP, LARGE_TOP = 16, 24
LARGE = 20_000  # prefixes from which a table has the large top

NO_ROOM = -1  # an update needs larger arrays; nothing was changed
NOT_THERE = -1

# the most that one update takes, in words of `leaf` (more for short prefixes), groups and nodes
ROOM_WORDS, ROOM_GROUPS, ROOM_NODES = 512, 8, 4


class Arrays(NamedTuple):
    """One version of a table of one family."""

    node: np.ndarray  # int64[]
    chunk: np.ndarray  # int64[]: bits and place of the first word, of each chunk
    leaf: np.ndarray  # int32[]
    meta: np.ndarray  # int64[META_WORDS]


def top_chunks(top: int) -> int:
    """Chunks of the top."""
    return 1 << (top - 6)


def empty(family: int, top: int, nodes: int, groups: int, words: int) -> Arrays:
    """Arrays of an empty table with room for so many nodes, groups and words."""
    meta = np.zeros(META_WORDS, np.int64)
    six = family == 6
    meta[META_SHIFT] = 2 if six else 1
    meta[META_HIGH_MASK] = -1 if six else -1 << 32
    meta[META_LOW_MASK] = -1 if six else 0
    meta[META_WIDTH] = 128 if six else 32
    meta[META_TOP] = top
    meta[META_LAST] = 64 if six else 32
    meta[META_NODES] = meta[META_LEAVES] = 1
    meta[META_CHUNKS] = top_chunks(top)
    return Arrays(
        zeros(nodes << int(meta[META_SHIFT]), np.int64),
        zeros(2 * (top_chunks(top) + GROUP * groups), np.int64),
        zeros(words, np.int32),
        meta,
    )
