"""The chunks: what an address finds, and how they follow a change of the tree.

`t` is an opened handle on `ippath.prefix.layout.Arrays`, where words and blocks are described.
Functions that change chunks need the room that `has_room` asks for.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.prefix.bits import one_bit, popcount, rank
from ippath.prefix.layout import (
    GROUP, META_CHUNKS, META_FREE_BLOCK, META_FREE_GROUP, META_FREE_GROUPS, META_FREE_WORDS, META_LAST,
    META_LEAVES, META_NODES, META_PATH, META_SHIFT, META_STACK, META_TOP, META_WORK, ROOM_GROUPS,
    ROOM_NODES, ROOM_WORDS, STRIDE,
)  # fmt: skip
from ippath.prefix.nodes import high, length_of, top_below, walk


@hot
def slot_of(hi, bits, stride):
    """The number that the last `stride` of the first `bits` bits of a key make; `bits` up to 64."""
    return (hi >> (64 - bits)) & ((1 << stride) - 1)


@hot
def word_at(t, chunk, slot):
    """The word of a slot."""
    return t.leaf[t.chunk[2 * chunk + 1] + rank(t.chunk[2 * chunk], slot)]


@hot
def find(t, hi, lo):
    """The node of the longest prefix of an address; 0 is the root, whether it has a value or not."""
    bits = t.meta[META_TOP]
    slot = slot_of(hi, bits, bits)
    word = word_at(t, slot >> 6, slot & 63)
    return word if word >= 0 else below(t, hi, lo, bits, word)


@kernel
def below(t, hi, lo, bits, word):
    """The same from a word below zero of a slot that `bits` bits have led to."""
    while word < 0:
        what = ~word
        if what & 1:
            record = what >> 1
            return walk(t, t.leaf[record + 1], hi, lo, t.leaf[record])
        bits += STRIDE
        slot = slot_of(hi, bits, STRIDE)
        word = word_at(t, GROUP * (what >> 1) + (slot >> 6), slot & 63)
    return word


# --- blocks and groups ---------------------------------------------------------------------------


@kernel
def has_room(t, length):
    """Is there room for any update of a prefix of this length?"""
    words = ROOM_WORDS
    if length < t.meta[META_TOP] - 6:
        words += 1 << (t.meta[META_TOP] - 6 - length)
    return (
        t.meta[META_LEAVES] + words <= t.leaf.shape[0]
        and 2 * (t.meta[META_CHUNKS] + GROUP * ROOM_GROUPS) <= t.chunk.shape[0]
        and (t.meta[META_NODES] + ROOM_NODES) << t.meta[META_SHIFT] <= t.node.shape[0]
    )


@kernel
def _take_block(t, size):
    at = t.meta[META_FREE_BLOCK + size]
    if at:
        t.meta[META_FREE_BLOCK + size] = t.leaf[at]
        t.meta[META_FREE_WORDS] -= size
        return int(at)
    at = t.meta[META_LEAVES]
    t.meta[META_LEAVES] = at + size
    return int(at)


@kernel
def _free_block(t, at, size):
    t.leaf[at] = t.meta[META_FREE_BLOCK + size]
    t.meta[META_FREE_BLOCK + size] = at
    t.meta[META_FREE_WORDS] += size


@kernel
def _take_group(t, word):
    """A group of chunks all of whose slots hold this word."""
    group = t.meta[META_FREE_GROUP]
    if group:
        t.meta[META_FREE_GROUP] = t.chunk[2 * GROUP * group]
        t.meta[META_FREE_GROUPS] -= 1
    else:
        group = t.meta[META_CHUNKS] // GROUP
        t.meta[META_CHUNKS] += GROUP
    for chunk in range(GROUP * group, GROUP * group + GROUP):
        at = 0
        if word:
            at = _take_block(t, 1)
            t.leaf[at] = word
        t.chunk[2 * chunk], t.chunk[2 * chunk + 1] = 0, at
    return group


@kernel
def _free_group(t, group):
    for chunk in range(GROUP * group, GROUP * group + GROUP):
        at = t.chunk[2 * chunk + 1]
        if at:
            _free_block(t, at, popcount(t.chunk[2 * chunk]) + 1)
        t.chunk[2 * chunk], t.chunk[2 * chunk + 1] = 0, 0
    t.chunk[2 * GROUP * group] = t.meta[META_FREE_GROUP]
    t.chunk[2 * GROUP * group + 1] = -1  # what a free group is known by
    t.meta[META_FREE_GROUP] = group
    t.meta[META_FREE_GROUPS] += 1


# --- one chunk -----------------------------------------------------------------------------------


@kernel
def _unfold(t, chunk):
    """Write the words of all slots to META_WORK."""
    bits, at = t.chunk[2 * chunk], t.chunk[2 * chunk + 1]
    word = t.leaf[at]
    t.meta[META_WORK] = word
    for slot in range(1, 64):
        if (bits >> slot) & 1:
            at += 1
            word = t.leaf[at]
        t.meta[META_WORK + slot] = word


@kernel
def _fold(t, chunk):
    """Store the words in META_WORK as the chunk's."""
    work = META_WORK
    bits, runs = 0, 1
    for slot in range(1, 64):
        if t.meta[work + slot] != t.meta[work + slot - 1]:
            bits |= one_bit(slot)
            runs += 1
    at, old_runs = t.chunk[2 * chunk + 1], popcount(t.chunk[2 * chunk]) + 1
    nothing = runs == 1 and t.meta[work] == 0
    if at and (old_runs != runs or nothing):
        _free_block(t, at, old_runs)
        at = 0
    if not at and not nothing:
        at = _take_block(t, runs)
    t.chunk[2 * chunk], t.chunk[2 * chunk + 1] = bits, at
    if nothing:
        return
    t.leaf[at] = t.meta[work]
    for slot in range(1, 64):
        if (bits >> slot) & 1:
            at += 1
            t.leaf[at] = t.meta[work + slot]


@kernel
def _paint_chunk(t, chunk, first, last, old, new, depth):
    """Replace the node `old` by `new` in some slots; puts groups below them on the stack."""
    _unfold(t, chunk)
    changed = False
    for slot in range(META_WORK + first, META_WORK + last + 1):
        word = t.meta[slot]
        if word == old:
            t.meta[slot] = new
            changed = True
        elif word < 0:
            ref = ~word >> 1
            if ~word & 1:
                if t.leaf[ref] == old:
                    t.leaf[ref] = new
            else:
                t.meta[META_STACK + depth] = ref
                depth += 1
    if changed:
        _fold(t, chunk)
    return depth


@kernel
def _paint(t, first_chunk, first, count, old, new):
    """Replace `old` by `new` in `count` slots from slot `first` of these chunks, and below them."""
    depth = 0
    slot, end = first, first + count
    while slot < end:
        last = min(end - 1, slot | 63)
        depth = _paint_chunk(t, first_chunk + (slot >> 6), slot & 63, last & 63, old, new, depth)
        while depth:
            depth -= 1
            group = t.meta[META_STACK + depth]
            for chunk in range(GROUP * group, GROUP * group + GROUP):
                depth = _paint_chunk(t, chunk, 0, 63, old, new, depth)
        slot = last + 1


@kernel
def _set_word(t, chunk, slot, word):
    _unfold(t, chunk)
    t.meta[META_WORK + slot] = word
    _fold(t, chunk)


# --- following the tree --------------------------------------------------------------------------


@kernel
def insert(t, hi, lo, length, node, around):
    """Let the addresses of a new prefix find its node, where they found the prefix around it."""
    bits, stride, first_chunk = t.meta[META_TOP], t.meta[META_TOP], 0
    while length > bits:
        slot = slot_of(hi, bits, stride)
        chunk = first_chunk + (slot >> 6)
        word = word_at(t, chunk, slot & 63)
        if word >= 0:
            record = _take_block(t, 2)
            t.leaf[record], t.leaf[record + 1] = word, node
            _set_word(t, chunk, slot & 63, ~(2 * record + 1))
            return
        what = ~word
        if what & 1:
            record = what >> 1
            if bits == t.meta[META_LAST]:
                t.leaf[record + 1] = top_below(t, hi, lo, bits)
                return
            group = _refine(t, record, bits)
            _set_word(t, chunk, slot & 63, ~(2 * group))
        else:
            group = what >> 1
        first_chunk, bits, stride = GROUP * group, bits + STRIDE, STRIDE
    slot = slot_of(hi, bits, stride) if length else 0
    _paint(t, first_chunk, slot, 1 << (bits - length), around, node)


@kernel
def _refine(t, record, bits):
    """Make a group of the deep record of a slot that ends at `bits`; returns it."""
    around, node = t.leaf[record], t.leaf[record + 1]
    _free_block(t, record, 2)
    group = _take_group(t, around)
    hi, length = high(t, node), length_of(t, node)
    bits += STRIDE
    slot = slot_of(hi, bits, STRIDE)
    if length > bits:
        again = _take_block(t, 2)
        t.leaf[again], t.leaf[again + 1] = around, node
        _set_word(t, GROUP * group + (slot >> 6), slot & 63, ~(2 * again + 1))
    else:
        _paint(t, GROUP * group, slot, 1 << (bits - length), around, node)
    return group


@kernel
def remove(t, hi, lo, length, node, around):
    """Let the addresses of a prefix that left the tree find the one around it."""
    bits, stride, first_chunk = t.meta[META_TOP], t.meta[META_TOP], 0
    path = META_PATH
    while length > bits:
        slot = slot_of(hi, bits, stride)
        chunk = first_chunk + (slot >> 6)
        t.meta[path], t.meta[path + 1] = chunk, slot & 63
        path += 2
        what = ~word_at(t, chunk, slot & 63)
        if what & 1:
            record = what >> 1
            top = top_below(t, hi, lo, bits) if bits == t.meta[META_LAST] else 0
            if top:
                t.leaf[record + 1] = top
                return
            word = t.leaf[record]
            _free_block(t, record, 2)
            path -= 2
            _set_word(t, chunk, slot & 63, word)
            _collapse(t, path)
            return
        first_chunk, bits, stride = GROUP * (what >> 1), bits + STRIDE, STRIDE
    slot = slot_of(hi, bits, stride) if length else 0
    _paint(t, first_chunk, slot, 1 << (bits - length), node, around)
    _collapse(t, path)


@kernel
def _collapse(t, path):
    """Give up groups all of whose slots became equal, from the last one on the path upwards."""
    while path > META_PATH:
        path -= 2
        chunk, slot = t.meta[path], t.meta[path + 1]
        group = ~word_at(t, chunk, slot) >> 1
        word = t.leaf[t.chunk[2 * GROUP * group + 1]]
        for own in range(GROUP * group, GROUP * group + GROUP):
            if t.chunk[2 * own] or t.leaf[t.chunk[2 * own + 1]] != word:
                return
        _free_group(t, group)
        _set_word(t, chunk, slot, word)


@kernel
def _move(t, leaf, at, size, to):
    """Copy a block and the deep records that its words lead to; returns the end of what was written."""
    end = to + size
    for k in range(size):
        word = t.leaf[at + k]
        if word < 0 and ~word & 1:
            record = ~word >> 1
            leaf[end], leaf[end + 1] = t.leaf[record], t.leaf[record + 1]
            word = ~(2 * end + 1)
            end += 2
        leaf[to + k] = word
    return end


@kernel
def compact(t, leaf):
    """Move all blocks to the front of `leaf`, in the order of the chunks; returns the words used."""
    end = 1
    for chunk in range(t.meta[META_CHUNKS]):
        group = chunk // GROUP * GROUP
        if t.chunk[2 * group + 1] < 0:
            continue
        at = t.chunk[2 * chunk + 1]
        if at:
            t.chunk[2 * chunk + 1] = end
            end = _move(t, leaf, at, popcount(t.chunk[2 * chunk]) + 1, end)
    for size in range(1, 65):
        t.meta[META_FREE_BLOCK + size] = 0
    t.meta[META_FREE_WORDS] = 0
    t.meta[META_LEAVES] = end
    return end
