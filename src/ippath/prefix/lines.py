"""What IPv4 addresses find in a large table: a cache line for each 64 slots of its top.

Derived from the chunks of one version, for columns of many addresses.  A look-up is one load that
waits for no other, where chunks need two or three in a row.  A line has the chunk's bits and behind
them its words: the values themselves where they have at most four bytes, else nodes.  A line whose
bit 0 is set (a chunk's never is) has no words, since they are too many or some prefix is longer than
the top; its addresses wait until they are a block, which is looked up in the chunks.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.prefix.bits import from_ipv4, popcount, rank
from ippath.prefix.blocks import ACTIVE, HI, LATER, LO, find_block
from ippath.prefix.layout import LARGE_TOP
from ippath.wire.memory import prefetch

# bytes of a line: 24 words of one byte are enough for most, so that twice as many lines stay in caches
SHORT_SHIFT, LONG_SHIFT = 5, 6
NO_WORDS = 1  # bit 0
AHEAD = 64  # addresses: how far ahead lines are fetched into the cache
BELOW = 32 - LARGE_TOP  # bits of an address below its slot


@kernel
def fill(t, lines, words, values, direct):
    """Write all lines; `words` is the same memory as numbers of the width of a word.

    `direct`: a word is a value, else it is a node.
    """
    chunks = 1 << (LARGE_TOP - 6)
    numbers, width = lines.shape[0] // chunks, words.shape[0] // chunks
    bits_in_words = width // numbers
    for chunk in range(chunks):
        bits, at = t.chunk[2 * chunk], t.chunk[2 * chunk + 1]
        count, to = popcount(bits) + 1, chunk * width + bits_in_words
        if bits_in_words + count > width:
            lines[numbers * chunk] = NO_WORDS
            continue
        lines[numbers * chunk] = bits
        for k in range(count):
            node = t.leaf[at + k]
            if node < 0:
                lines[numbers * chunk] = NO_WORDS
                break
            words[to + k] = values[node] if direct else node


@hot
def fetch(lines, address, shift):
    """Ask for the line of an address of 32 bits; lines have 1 << shift bytes."""
    prefetch(lines, address >> (BELOW + 6) << shift)


@hot
def place(lines, address, shift, width):
    """Where among the words the one for this address is, or -1: look it up in the chunks."""
    line = address >> (BELOW + 6)
    bits = lines[line << (shift - 3)]
    if bits & NO_WORDS:
        return -1
    return width * line + (width >> (shift - 3)) + rank(bits, (address >> BELOW) & 63)


@kernel
def find_waiting(t, s, count):
    """Nodes of `count` addresses s[LATER …] whose lines have no words, into s[NODE …]."""
    for k in range(count):
        s[HI + k], s[LO + k], s[ACTIVE + k] = from_ipv4(s[LATER + k]), 0, k
    find_block(t, s, count)
