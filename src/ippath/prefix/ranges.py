"""What IPv6 addresses find: ranges of addresses, in a tree whose nodes are cache lines.

Derived from the nodes of one version, for columns of many addresses.  By its first 64 bits an address
lies in one range of those that find the same word: a value where it has at most four bytes, else a
node.  A line has the last addresses of as many ranges as fit, behind them their words, and in its last
byte a bit for each range within which longer prefixes lie; such addresses are looked up in the chunks.
A line of a higher level has the last addresses of eight lines below it, and leads to nine.

A look-up begins near the lines.  The first 16 bits of an address choose a word of `start`, which says
how many bits more choose another one: the lowest line of the tree that all such addresses go through.
Both say so in the upper bits, and the lower ones are the number of bits, or the level of the line.

Addresses are *keys* here: signed numbers in the order of the addresses, with the first bit inverted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ippath.jit import hot, kernel
from ippath.prefix.bits import popcount
from ippath.prefix.blocks import ACTIVE, CHUNK, HI, NODE
from ippath.prefix.chunks import slot_of
from ippath.prefix.nodes import high, length_of
from ippath.prefix.pages import zeros
from ippath.wire.memory import eight_below, load8, prefetch

LINE_SHIFT = 6  # a line has 64 bytes
ENDS = 8  # that fit in a line of the higher levels
WAYS = ENDS + 1
FIRST_KEY, LAST_KEY = -1 << 63, (1 << 63) - 1
LONGER = -1  # in place of a node: prefixes of more than 64 bits lie within the range
TOP = 16  # bits that choose the first word of `start`
LEVEL_SHIFT = BITS_SHIFT = 5
SLOTS_A_LINE = 2  # words of `start` below the first one, for each line


class Ranges(NamedTuple):
    """Ranges of all addresses."""

    start: np.ndarray  # int32[]
    level: np.ndarray  # int64[]: child k of line n of a level is line 9 * n + level + k
    lines: np.ndarray  # uint8[]
    each: int  # ranges in a line

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.start.nbytes + self.level.nbytes + self.lines.nbytes


# --- making them ---------------------------------------------------------------------------------


@kernel
def sweep(t, which, ends, nodes, frames):
    """Write the ranges that find the same node, in order: last keys and nodes; returns how many.

    `which` are the nodes with values, in order; `frames` has room for 2 * DEEPEST: last key and node
    of the prefixes around the one in hand.
    """
    frames[0], frames[1] = LAST_KEY, 0
    count, depth = 0, 1
    for k in range(which.shape[0]):
        node = which[k]
        if node == 0:
            continue
        length = length_of(t, node)
        first = high(t, node) ^ FIRST_KEY
        while frames[2 * depth - 2] < first:
            depth -= 1
            count = _write(ends, nodes, count, frames[2 * depth], frames[2 * depth + 1])
        if frames[2 * depth - 1] == LONGER:
            continue  # one more within the same 64 bits
        if first != FIRST_KEY:
            count = _write(ends, nodes, count, first - 1, frames[2 * depth - 1])
        frames[2 * depth] = first if length >= 64 else first | ~(-1 << (64 - length))
        frames[2 * depth + 1] = node if length <= 64 else LONGER
        depth += 1
    while depth:
        depth -= 1
        count = _write(ends, nodes, count, frames[2 * depth], frames[2 * depth + 1])
    return count


@kernel
def _write(ends, nodes, count, last, node):
    """Let a node be found from where the ranges end to the key `last`, if that is further on."""
    if count and ends[count - 1] >= last:
        return count
    ends[count], nodes[count] = last, node
    return count + 1


def arranged(ends: np.ndarray, words: np.ndarray, longer: np.ndarray) -> Ranges:
    """Ranges with these last keys and words; `longer`: only the whole address decides."""
    kept = np.append((words[1:] != words[:-1]) | (longer[1:] != longer[:-1]), True)
    ends, words, longer = ends[kept], words[kept], longer[kept]
    each = ((1 << LINE_SHIFT) - 1) // (8 + words.itemsize)
    levels = [_rows(ends, each)]
    while len(levels[-1]) > 1:
        levels.append(_rows(levels[-1][:, -1], WAYS))
    begin = np.cumsum([0, *map(len, levels)])
    lines = zeros(int(begin[-1]) << LINE_SHIFT, np.uint8)
    by_byte, by_end, by_word = (
        lines.view(kind).reshape(begin[-1], -1) for kind in (np.uint8, np.int64, words.dtype)
    )
    bottom, behind = len(levels[0]), 8 * each // words.itemsize
    by_end[:bottom, :each] = levels[0]
    by_word[:bottom, behind : behind + each] = _rows(words, each)
    by_byte[:bottom, -1:] = np.packbits(_rows(longer, each), axis=1, bitorder="little")
    for at, rows in zip(begin[1:], levels[1:]):
        by_end[at : at + len(rows)] = rows[:, :ENDS]
    level = np.append(0, begin[:-2] - WAYS * begin[1:-1])
    return Ranges(_start(ends, each, begin), level, lines, each)


def _rows(column: np.ndarray, each: int) -> np.ndarray:
    """So many in a row; the last element fills the last row."""
    return np.pad(column, (0, -len(column) % each), mode="edge").reshape(-1, each)


def _start(ends: np.ndarray, each: int, begin: np.ndarray) -> np.ndarray:
    first = np.arange(-1 << (TOP - 1), 1 << (TOP - 1)) << (64 - TOP)
    lines = np.diff(np.searchsorted(ends, first, "right") // each, append=len(ends) // each)
    bits = np.ceil(np.log2(np.maximum(SLOTS_A_LINE * lines, 1))).astype(np.int64).clip(0, TOP)
    count = 1 << bits
    below = np.cumsum(count) - count
    free = np.repeat(64 - TOP - bits, count)  # bits that do not choose
    first = np.repeat(first, count) + (np.arange(len(free)) - np.repeat(below, count) << free)
    line = np.searchsorted(ends, first) // each
    last = np.searchsorted(ends, first + ((1 << free) - 1)) // each
    level = np.zeros(len(line), np.int64)
    while (apart := line != last).any():
        level += apart
        line, last = np.where(apart, line // WAYS, line), np.where(apart, last // WAYS, last)
    words = (begin[level] + line) << LEVEL_SHIFT | level
    return np.concatenate([below + len(below) << BITS_SHIFT | bits, words]).astype(np.int32)


# --- looking up ----------------------------------------------------------------------------------


@hot
def find_lines(start, level, lines, s, count):
    """Lines of the keys s[HI …], into s[CHUNK …], and the processor is asked for them."""
    active = 0
    for k in range(count):
        key = s[HI + k]
        word = start[(key >> (64 - TOP)) + (1 << (TOP - 1))]
        bits = word & 31
        word = start[(word >> BITS_SHIFT) + slot_of(key, TOP + bits, bits)]
        prefetch(lines, word >> LEVEL_SHIFT << LINE_SHIFT)  # type: ignore[call-arg]
        s[NODE + k], s[CHUNK + k], s[ACTIVE + active] = word & 31, word >> LEVEL_SHIFT, k
        active += (word & 31) != 0
    while active:
        left, active = active, 0
        for j in range(left):
            k = s[ACTIVE + j]
            up, line = s[NODE + k], s[CHUNK + k]
            less = popcount(eight_below(lines, line << LINE_SHIFT, s[HI + k]))
            line = WAYS * line + level[up] + less
            prefetch(lines, line << LINE_SHIFT)  # type: ignore[call-arg]
            s[NODE + k], s[CHUNK + k], s[ACTIVE + active] = up - 1, line, k
            active += up != 1


@hot
def place(lines, line, key, each):
    """Which range of a line a key is in."""
    below = eight_below(lines, line << LINE_SHIFT, key)
    return popcount(below & ((1 << each) - 1))


@hot
def has_longer(lines, line, which):
    """Does the whole address decide in this range of a line?"""
    return (load8(lines, (line << LINE_SHIFT) + (1 << LINE_SHIFT) - 1) >> which) & 1
