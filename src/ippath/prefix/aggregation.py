"""Fewer prefixes that say the same: halves of equal value become one, repetitions go.

Sorted prefixes are a walk through the tree, each after those around it.  On the way down a prefix
goes that repeats the value of the one around it; on the way up, when all within a prefix is done, it
is merged with its other half if that was the last one before it, and so on upwards.
"""

from __future__ import annotations

from ippath.jit import kernel
from ippath.prefix.bits import bit_of, common

DEEPEST = 130  # prefixes within each other
GONE = -1  # length of a row that is not kept


@kernel
def aggregate(hi, lo, length, value, which, done, frames):
    """Keep some of the rows, in place and in order, perhaps with fewer bits; returns how many.

    `which[k]` becomes the row whose value row k has.  `done` has room for as many rows, `frames` for
    2 * DEEPEST: the prefixes around the row in hand, each with the place in `done` where the rows
    directly within it begin.
    """
    rows, depth, count = hi.shape[0], 0, 0
    for k in range(rows):
        which[k] = k
        while depth and not _covers(hi, lo, length, frames[2 * depth - 2], k):
            depth -= 1
            count = _complete(hi, lo, length, value, which, done, frames, depth)
        if depth and value[which[frames[2 * depth - 2]]] == value[k]:
            length[k] = GONE
            continue
        frames[2 * depth], frames[2 * depth + 1] = k, count
        depth += 1
    while depth:
        depth -= 1
        count = _complete(hi, lo, length, value, which, done, frames, depth)
    kept = 0
    for k in range(rows):
        if length[k] != GONE:
            hi[kept], lo[kept], length[kept], which[kept] = hi[k], lo[k], length[k], which[k]
            kept += 1
    return kept


@kernel
def _covers(hi, lo, length, outer, inner):
    shared = common(hi[outer], lo[outer], hi[inner], lo[inner])
    return length[outer] <= length[inner] and shared >= length[outer]


@kernel
def _complete(hi, lo, length, value, which, done, frames, depth):
    """Close the frame at `depth`: merge it upwards or list it in `done`; returns how many are there."""
    row, count = frames[2 * depth], frames[2 * depth + 1]
    around = frames[2 * depth - 2] if depth else -1
    begin = frames[2 * depth - 1] if depth else 0
    if (
        around >= 0 and value[which[around]] == value[which[row]]
    ):  # its own halves changed its value
        length[row] = GONE
        return count
    while count > begin and _are_halves(hi, lo, length, done[count - 1], row):
        left = done[count - 1]
        if value[which[left]] != value[which[row]]:
            break
        count -= 1
        length[row] = GONE
        length[left] -= 1  # the left half begins where both together do
        row = left
        if around >= 0 and length[around] == length[row]:
            which[around] = which[row]
            length[row] = GONE
            return count
        if around >= 0 and value[which[around]] == value[which[row]]:
            length[row] = GONE
            return count
    done[count] = row
    return count + 1


@kernel
def _are_halves(hi, lo, length, left, right):
    bits = length[right]
    return (
        bits > 0
        and length[left] == bits
        and common(hi[left], lo[left], hi[right], lo[right]) == bits - 1
        and bit_of(hi[right], lo[right], bits - 1) == 1
    )
