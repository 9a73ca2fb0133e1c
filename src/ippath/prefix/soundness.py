"""Is a table from a file safe to be read?  Nothing may point outside, in circles, or to two places."""

from __future__ import annotations

from ippath.jit import kernel
from ippath.prefix.bits import bit_of, common, host_bits, popcount
from ippath.prefix.layout import (
    GROUP, META_CHUNKS, META_COUNT, META_LAST, META_LEAVES, META_NODES, META_TOP, META_WIDTH, STRIDE,
)  # fmt: skip
from ippath.prefix.nodes import child, has_value, high, length_of, low


@kernel
def tree_is_sound(t, values, seen, stack):
    """Every node once, each within its parent and longer; as many prefixes as are told.

    `seen` is zero, for every node; `values` is how many values there are.
    """
    nodes, count, depth = t.meta[META_NODES], 0, 1
    stack[0] = 0
    seen[0] = 1
    if length_of(t, 0) or high(t, 0) or low(t, 0):
        return False
    while depth:
        depth -= 1
        x = stack[depth]
        length = length_of(t, x)
        if has_value(t, x):
            count += 1
            if x >= values:
                return False
        for side in range(2):
            y = child(t, x, side)
            if y == 0:
                continue
            if y >= nodes or seen[y]:
                return False
            own, hi, lo = length_of(t, y), high(t, y), low(t, y)
            if own <= length or own > t.meta[META_WIDTH] or host_bits(hi, lo, own):
                return False
            if common(hi, lo, high(t, x), low(t, x)) < length or bit_of(hi, lo, length) != side:
                return False
            seen[y] = 1
            stack[depth] = y
            depth += 1
    return count == t.meta[META_COUNT]


@kernel
def chunks_are_sound(t, values, seen, stack):
    """Every group once and not too deep, every block inside `leaf`, every word a node.

    `seen[META_NODES + …]` is zero, for every chunk.
    """
    depth, nodes = 0, t.meta[META_NODES]
    for chunk in range(1 << (t.meta[META_TOP] - 6)):
        depth = _look(t, chunk, t.meta[META_TOP], values, nodes, seen, stack, depth)
        while depth > 0:
            depth -= 1
            group, bits = stack[depth] >> 8, stack[depth] & 255
            for own in range(GROUP * group, GROUP * group + GROUP):
                depth = _look(t, own, bits, values, nodes, seen, stack, depth)
                if depth < 0:
                    return False
        if depth < 0:
            return False
    return True


@kernel
def _is_node(t, x, values, nodes, seen):
    return 0 <= x < nodes and (x == 0 or (x < values and seen[x]))


@kernel
def _look(t, chunk, bits, values, nodes, seen, stack, depth):
    """Judge a chunk and put the groups below it on the stack: its depth, or -1."""
    at = t.chunk[2 * chunk + 1]
    if at < 0 or at + popcount(t.chunk[2 * chunk]) >= t.meta[META_LEAVES]:
        return -1
    for k in range(at, at + popcount(t.chunk[2 * chunk]) + 1):
        word = t.leaf[k]
        if word >= 0:
            if not _is_node(t, word, values, nodes, seen):
                return -1
        elif ~word & 1:
            record = ~word >> 1
            if record + 1 >= t.meta[META_LEAVES]:
                return -1
            below = t.leaf[record + 1]
            if not _is_node(t, t.leaf[record], values, nodes, seen):
                return -1
            if below < 0 or below >= nodes or not seen[below]:
                return -1
        else:
            group = ~word >> 1
            place = GROUP * group
            if bits >= t.meta[META_LAST] or place + GROUP > t.meta[META_CHUNKS]:
                return -1
            if place < 1 << (t.meta[META_TOP] - 6) or seen[nodes + place]:
                return -1
            seen[nodes + place] = 1
            stack[depth] = (group << 8) | (bits + STRIDE)
            depth += 1
    return depth
