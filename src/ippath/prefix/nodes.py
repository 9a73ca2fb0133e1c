"""The tree of prefixes: exact matches, what covers a prefix, what it covers, in address order.

`t` is an opened handle on `ippath.prefix.layout.Arrays`; keys are two words, IPv4 in the upper half of
the first one.  No function here touches the chunks.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.prefix.bits import bit_of, common
from ippath.prefix.layout import (
    HAS_VALUE, LENGTH_SHIFT, META_COUNT, META_FREE_NODE, META_FREE_NODES, META_HIGH_MASK,
    META_LOW_MASK, META_NODES, META_SHIFT, META_WIDTH, NOT_THERE,
)  # fmt: skip


@hot
def _info_place(t, x):
    shift = t.meta[META_SHIFT]
    return (x << shift) + 2 * shift - 2


@hot
def _children_place(t, x):
    shift = t.meta[META_SHIFT]
    return (x << shift) + 2 * shift - 1


@hot
def high(t, x):
    """First word of a node's key."""
    return t.node[x << t.meta[META_SHIFT]] & t.meta[META_HIGH_MASK]


@hot
def low(t, x):
    """Second word of a node's key."""
    return t.node[(x << t.meta[META_SHIFT]) + 1] & t.meta[META_LOW_MASK]


@hot
def length_of(t, x):
    """Prefix length of a node."""
    return (t.node[_info_place(t, x)] >> LENGTH_SHIFT) & 0xFF


@hot
def has_value(t, x):
    """Is the node a prefix of the table, not only a branch?"""
    return t.node[_info_place(t, x)] & HAS_VALUE


@hot
def child(t, x, bit):
    """The child on this side, or 0."""
    return (t.node[_children_place(t, x)] >> (32 - 32 * bit)) & 0xFFFFFFFF


@kernel
def _set_child(t, x, bit, to):
    place = _children_place(t, x)
    both = t.node[place]
    if bit:
        t.node[place] = (both >> 32 << 32) | to
    else:
        t.node[place] = (to << 32) | (both & 0xFFFFFFFF)


@kernel
def _take_node(t):
    x = t.meta[META_FREE_NODE]
    if x:
        t.meta[META_FREE_NODE] = t.node[_children_place(t, x)]
        t.meta[META_FREE_NODES] -= 1
        return x
    x = t.meta[META_NODES]
    t.meta[META_NODES] = x + 1
    return x


@kernel
def _free_node(t, x):
    t.node[_info_place(t, x)] = 0
    t.node[_children_place(t, x)] = t.meta[META_FREE_NODE]
    t.meta[META_FREE_NODE] = x
    t.meta[META_FREE_NODES] += 1


@kernel
def _write_node(t, x, hi, lo, length, value):
    shift = t.meta[META_SHIFT]
    info = (length << LENGTH_SHIFT) | value
    at = x << shift
    if shift == 1:
        t.node[at] = hi | info
    else:
        t.node[at], t.node[at + 1], t.node[at + 2] = hi, lo, info
    t.node[_children_place(t, x)] = 0


@kernel
def _give_value(t, x):
    t.node[_info_place(t, x)] |= HAS_VALUE
    t.meta[META_COUNT] += 1


@hot
def walk(t, x, hi, lo, best):
    """The node of the longest prefix of an address from node x downwards; `best` if none is."""
    while x:
        best, x = step(t, x, hi, lo, best)
    return best


@hot
def step(t, x, hi, lo, best):
    """(best, or x if it is a prefix of the address; the node below x on the way to it, or 0)."""
    length = length_of(t, x)
    if common(hi, lo, high(t, x), low(t, x)) < length:
        return best, 0
    if has_value(t, x):
        best = x
    if length == t.meta[META_WIDTH]:
        return best, 0
    return best, child(t, x, bit_of(hi, lo, length))


@kernel
def cover(t, hi, lo, length):
    """The node of the longest prefix of at most `length` bits that covers the key, or NOT_THERE."""
    x, best = 0, NOT_THERE
    while True:
        own = length_of(t, x)
        if own > length or common(hi, lo, high(t, x), low(t, x)) < own:
            return best
        if has_value(t, x):
            best = x
        if own == length:
            return best
        x = child(t, x, bit_of(hi, lo, own))
        if x == 0:
            return best


@kernel
def exact(t, hi, lo, length):
    """The node of exactly this prefix, or NOT_THERE."""
    x = cover(t, hi, lo, length)
    return x if x != NOT_THERE and length_of(t, x) == length else NOT_THERE


@kernel
def top_below(t, hi, lo, length):
    """The uppermost node of at least `length` bits that the prefix covers, value or not; 0: none."""
    x = 0
    while length_of(t, x) < length:
        own = length_of(t, x)
        if common(hi, lo, high(t, x), low(t, x)) < own:
            return 0
        x = child(t, x, bit_of(hi, lo, own))
        if x == 0:
            return 0
    return x if common(hi, lo, high(t, x), low(t, x)) >= length else 0


@kernel
def add(t, hi, lo, length, wanted):
    """Insert a prefix: (its node, node of the longest prefix around it or 0, whether it is new).

    `wanted` is the number that its node gets if it has none yet; 0 takes a free one.
    """
    x, around = 0, 0
    while True:
        own = length_of(t, x)
        if own == length:
            if has_value(t, x):
                return x, around, 0
            _give_value(t, x)
            return x, around, 1
        if has_value(t, x):
            around = x
        side = bit_of(hi, lo, own)
        below = child(t, x, side)
        if below == 0:
            break
        shared = min(common(hi, lo, high(t, below), low(t, below)), length)
        if shared >= length_of(t, below):
            x = below
            continue
        if shared < length:
            x = _branch(t, x, side, hi, lo, shared, below)
            side = bit_of(hi, lo, shared)
            below = 0
        break
    new = wanted if wanted else _take_node(t)
    _write_node(t, new, hi, lo, length, 0)
    _give_value(t, new)
    if below:
        _set_child(t, new, bit_of(high(t, below), low(t, below), length), below)
    _set_child(t, x, side, new)
    return new, around, 1


@kernel
def _branch(t, x, side, hi, lo, length, below):
    """Put a node without value between x and its child; returns it."""
    new = _take_node(t)
    # the key's bits beyond the branch are cleared, in the word where it lies and in those after it
    keep_hi = hi if length >= 64 else (hi >> (63 - length) >> 1) << (63 - length) << 1
    keep_lo = 0 if length <= 64 else (lo >> (127 - length) >> 1) << (127 - length) << 1
    _write_node(t, new, keep_hi, keep_lo, length, 0)
    _set_child(t, new, bit_of(high(t, below), low(t, below), length), below)
    _set_child(t, x, side, new)
    return new


@kernel
def remove(t, hi, lo, length):
    """Take a prefix out: (the node it had or NOT_THERE, node of the longest prefix around it or 0)."""
    x, around = 0, 0
    parent, grandparent, side, parent_side = -1, -1, 0, 0
    while True:
        own = length_of(t, x)
        if own > length or common(hi, lo, high(t, x), low(t, x)) < own:
            return NOT_THERE, 0
        if own == length:
            break
        if has_value(t, x):
            around = x
        grandparent, parent_side, parent = parent, side, x
        side = bit_of(hi, lo, own)
        x = child(t, x, side)
        if x == 0:
            return NOT_THERE, 0
    if not has_value(t, x):
        return NOT_THERE, 0
    t.node[_info_place(t, x)] &= ~HAS_VALUE
    t.meta[META_COUNT] -= 1
    if x == 0 or (child(t, x, 0) and child(t, x, 1)):
        return x, around
    _set_child(t, parent, side, child(t, x, 0) | child(t, x, 1))
    _free_node(t, x)
    # a branch with one way left is none
    if parent > 0 and not has_value(t, parent):
        left, right = child(t, parent, 0), child(t, parent, 1)
        if left == 0 or right == 0:
            _set_child(t, grandparent, parent_side, left | right)
            _free_node(t, parent)
    return x, around


@kernel
def collect(t, top, stack, found, flat):
    """Write the prefixes at and below node `top` into `found`, in order; returns how many.

    It does not look below a prefix of more than `flat` bits.  Where `found` is empty it only counts.
    `stack` has room for 130 nodes.
    """
    count, depth = 0, 1
    stack[0] = top
    while depth:
        depth -= 1
        x = stack[depth]
        if has_value(t, x):
            if found.shape[0]:
                found[count] = x
            count += 1
            if length_of(t, x) > flat:
                continue
        left, right = child(t, x, 0), child(t, x, 1)
        if right:
            stack[depth] = right
            depth += 1
        if left:
            stack[depth] = left
            depth += 1
    return count
