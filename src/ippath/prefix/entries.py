"""The compiled entries of prefix tables: what Python calls with one key or with a column of them.

`handle` is the value of a handle on `ippath.prefix.layout.Arrays`.  Entries for one key keep Python's
lock, so that no change comes between; those for columns run beside everything else, on a version of
the table that nobody changes meanwhile.
"""

from __future__ import annotations

from ippath.handles import open_bytes, open_column, open_messages, open_prefixes, open_rows
from ippath.jit import entry, hot, kernel, short_entry
from ippath.prefix import aggregation, chunks, lines, nodes, ranges, soundness, text
from ippath.prefix.bits import host_bits
from ippath.prefix.blocks import (
    ACTIVE, BLOCK, CHUNK, HI, LATER, LO, NODE, ROW, fetch_ways, find_block, find_block4,
)  # fmt: skip
from ippath.prefix.chunks import find, has_room
from ippath.prefix.layout import LARGE_TOP, META_COUNT, NO_ROOM, NOT_THERE
from ippath.wire.memory import load64be, store64be

MAPPED = NOT_THERE - 1
MAPPED_WORD = 0xFFFF  # upper half of the second word of ::ffff:0:0/96


@hot
def is_mapped(hi, lo):
    """Is it an IPv4 address within IPv6, ::ffff:a.b.c.d?"""
    return hi == 0 and (lo >> 32) == MAPPED_WORD


# --- one key -------------------------------------------------------------------------------------


@short_entry
def find_one(handle, hi, lo):
    """The node of the longest prefix of an address, NOT_THERE, or MAPPED: it is IPv4 within IPv6."""
    if is_mapped(hi, lo):
        return MAPPED
    t = open_prefixes(handle)
    node = find(t, hi, lo)
    return node if node or nodes.has_value(t, 0) else NOT_THERE


@short_entry
def cover_one(handle, hi, lo, length):
    """The node of the longest prefix that covers this one, itself included, or NOT_THERE."""
    return nodes.cover(open_prefixes(handle), hi, lo, length)


@short_entry
def exact_one(handle, hi, lo, length):
    """The node of exactly this prefix, or NOT_THERE."""
    return nodes.exact(open_prefixes(handle), hi, lo, length)


@hot
def _put(t, hi, lo, length, wanted):
    """(node, whether it is new); (NO_ROOM, 0) where the arrays are too small."""
    if not has_room(t, length):
        return NO_ROOM, 0
    node, around, new = nodes.add(t, hi, lo, length, wanted)
    if new and node:  # a value of the root changes no slot: they hold 0 already
        chunks.insert(t, hi, lo, length, node, around)
    return node, new


@hot
def _drop(t, hi, lo, length):
    """The node that the prefix had, NOT_THERE where it was not in the table."""
    node, around = nodes.remove(t, hi, lo, length)
    if node > 0:
        chunks.remove(t, hi, lo, length, node, around)
    return node


@short_entry
def put_one(handle, hi, lo, length):
    """Insert a prefix: its node, whether it was there or not; NO_ROOM: nothing done."""
    node, _ = _put(open_prefixes(handle), hi, lo, length, 0)
    return node


@short_entry
def drop_one(handle, hi, lo, length):
    """Remove a prefix: (node that it had, or NOT_THERE); NO_ROOM - 1: nothing done, make room."""
    t = open_prefixes(handle)
    if not has_room(t, length):
        return NO_ROOM - 1
    return _drop(t, hi, lo, length)


@short_entry
def count(handle):
    """Prefixes in the table."""
    return open_prefixes(handle).meta[META_COUNT]


# --- columns of keys -----------------------------------------------------------------------------


@entry
def find_ipv4(handle, addresses, found, scratch):
    """Nodes of the longest prefixes of uint32[] addresses; 0 is the root or none."""
    t, addresses, found = open_prefixes(handle), open_column(addresses), open_rows(found)
    s = open_rows(scratch)
    for begin in range(0, found.shape[0], BLOCK):
        count = min(BLOCK, found.shape[0] - begin)
        find_block4(t, addresses, begin, count, s)
        for k in range(count):
            found[begin + k] = s[NODE + k]


@entry
def take_ipv4(handle, addresses, values, found, scratch):
    """The values of the longest prefixes, signed numbers of any width; values[0] where none is."""
    t, addresses, found = open_prefixes(handle), open_column(addresses), open_rows(found)
    values, s = open_column(values), open_rows(scratch)
    for begin in range(0, found.shape[0], BLOCK):
        count = min(BLOCK, found.shape[0] - begin)
        find_block4(t, addresses, begin, count, s)
        for k in range(count):
            found[begin + k] = values[s[NODE + k]]


@entry
def fill_lines(handle, cache_lines, words, values, direct):
    """Fill the lines of a large IPv4 table: see `ippath.prefix.lines`."""
    lines.fill(
        open_prefixes(handle), open_rows(cache_lines), open_rows(words), open_column(values), direct
    )


@entry
def take_by_lines(handle, cache_lines, words, values, direct, addresses, found, scratch):
    """The values of the longest prefixes of uint32[] addresses, by lines; values[0] where none is."""
    t, addresses, found = open_prefixes(handle), open_column(addresses), open_rows(found)
    cache_lines, words, values = open_column(cache_lines), open_column(words), open_column(values)
    s = open_rows(scratch)
    count, waiting = found.shape[0], 0
    width = words.shape[0] >> (LARGE_TOP - 6)
    short = 8 * cache_lines.shape[0] >> lines.SHORT_SHIFT == 1 << (LARGE_TOP - 6)
    shift = lines.SHORT_SHIFT if short else lines.LONG_SHIFT
    for k in range(count):
        lines.fetch(cache_lines, addresses[min(k + lines.AHEAD, count - 1)] & 0xFFFFFFFF, shift)
        address = addresses[k] & 0xFFFFFFFF
        at = lines.place(cache_lines, address, shift, width)
        if at >= 0:
            found[k] = words[at] if direct else values[words[at]]
            continue
        s[LATER + waiting], s[ROW + waiting] = address, k
        waiting += 1
        if waiting == BLOCK:
            _take_waiting(t, values, found, s, waiting)
            waiting = 0
    _take_waiting(t, values, found, s, waiting)


@kernel
def _take_waiting(t, values, found, s, count):
    lines.find_waiting(t, s, count)
    for k in range(count):
        found[s[ROW + k]] = values[s[NODE + k]]


@entry
def sweep(handle, which, ends, found, frames):
    """Ranges of IPv6 addresses that find the same node: see `ippath.prefix.ranges`."""
    return ranges.sweep(
        open_prefixes(handle),
        open_column(which),
        open_rows(ends),
        open_rows(found),
        open_rows(frames),
    )


@entry
def take_by_ranges(
    handle, start, level, range_lines, words, each, values, direct, packed, found, scratch
):
    """Values for IPv6 addresses of 16 bytes each, by ranges: is one of the addresses mapped IPv4?

    `words` is the memory of the lines as numbers of the width of a word.
    """
    t, packed, found, s = (
        open_prefixes(handle), open_bytes(packed), open_rows(found), open_rows(scratch),
    )  # fmt: skip
    start, level, range_lines = open_column(start), open_column(level), open_bytes(range_lines)
    words, values = open_column(words), open_column(values)
    width = 64 * words.shape[0] // range_lines.shape[0]  # words of a line
    behind = 8 * each * width // 64
    mapped = False
    for begin in range(0, found.shape[0], BLOCK):
        count = min(BLOCK, found.shape[0] - begin)
        for k in range(count):
            hi = load64be(packed, 16 * (begin + k))
            if hi == 0:
                mapped |= is_mapped(hi, load64be(packed, 16 * (begin + k) + 8))
            s[HI + k] = hi ^ ranges.FIRST_KEY
        ranges.find_lines(start, level, range_lines, s, count)
        waiting = 0
        for k in range(count):
            line = s[CHUNK + k]
            which = ranges.place(range_lines, line, s[HI + k], each)
            word = words[line * width + behind + which]
            found[begin + k] = word if direct else values[word]
            s[ACTIVE + waiting] = k
            waiting += ranges.has_longer(range_lines, line, which)
        if waiting:
            _take_longer(t, values, packed, begin, found, s, waiting)
    return mapped


@kernel
def _take_longer(t, values, packed, begin, found, s, count):
    for j in range(count):
        k = s[ACTIVE + j]
        s[HI + k] ^= ranges.FIRST_KEY
        s[LO + k] = load64be(packed, 16 * (begin + k) + 8)
    # the search lists those that it has not found yet in place of all
    for j in range(count):
        s[LATER + j] = s[ACTIVE + j]
    find_block(t, s, count)
    for j in range(count):
        k = s[LATER + j]
        found[begin + k] = values[s[NODE + k]]


@hot
def _find_packed(t, packed, begin, count, s):
    """Nodes of a block of IPv6 addresses: is one of them mapped?"""
    mapped = False
    for k in range(count):
        hi, lo = load64be(packed, 16 * (begin + k)), load64be(packed, 16 * (begin + k) + 8)
        mapped |= is_mapped(hi, lo)
        s[HI + k], s[LO + k], s[ACTIVE + k] = hi, lo, k
    find_block(t, s, count)
    return mapped


@entry
def find_ipv6(handle, packed, found, scratch):
    """The same for addresses of 16 bytes each, one after the other: is one of them mapped IPv4?"""
    t, packed, found = open_prefixes(handle), open_bytes(packed), open_rows(found)
    s = open_rows(scratch)
    mapped = False
    for begin in range(0, found.shape[0], BLOCK):
        count = min(BLOCK, found.shape[0] - begin)
        mapped |= _find_packed(t, packed, begin, count, s)
        for k in range(count):
            found[begin + k] = s[NODE + k]
    return mapped


@entry
def take_ipv6(handle, packed, values, found, scratch):
    """Their values; values[0] where there is none: is one of the addresses mapped IPv4?"""
    t, packed, found = open_prefixes(handle), open_bytes(packed), open_rows(found)
    values, s = open_column(values), open_rows(scratch)
    mapped = False
    for begin in range(0, found.shape[0], BLOCK):
        count = min(BLOCK, found.shape[0] - begin)
        mapped |= _find_packed(t, packed, begin, count, s)
        for k in range(count):
            found[begin + k] = values[s[NODE + k]]
    return mapped


@entry
def split(data, size, offsets):
    """Where lines of text begin: see `ippath.prefix.text.split`."""
    return text.split(open_bytes(data), size, open_rows(offsets))


@entry
def parse_addresses(data, offsets, gap, family, numbers, packed):
    """Addresses as text into columns: (first row that is wrong or -1, why).

    Row k is data[offsets[k] … offsets[k + 1] - gap - 1]; empty ones have family 0.  IPv4 is written to
    `numbers`, uint32[n], IPv6 to `packed`, uint8[16 * n].
    """
    data, offsets, family = open_bytes(data), open_column(offsets), open_rows(family)
    numbers, packed = open_rows(numbers), open_messages(packed)
    for k in range(family.shape[0]):
        at, end = int(offsets[k]), int(offsets[k + 1]) - gap
        own, hi, lo = 0, 0, 0
        if end - at < text.AT_ONCE and at + text.AT_ONCE <= data.shape[0]:
            own, hi, lo = text.quick(data, at, end - at)
        if own == 0 and at < end:
            wrong, own, hi, lo, length = text.parse(data, at, end)
            if wrong == text.FINE and length >= 0:
                wrong = text.NOT_ONE_ADDRESS
            if wrong != text.FINE:
                return k, wrong
        family[k] = own
        if own == 4:
            numbers[k] = (hi >> 32) & 0xFFFFFFFF
        elif own == 6:
            store64be(packed, 16 * k, hi)
            store64be(packed, 16 * k + 8, lo)
    return -1, text.FINE


@entry
def parse_texts(data, offsets, gap, family, hi, lo, length):
    """Prefixes as text into columns: (first row that is wrong or -1, why).

    An address alone has all its bits as length.
    """
    data, offsets, family = open_bytes(data), open_column(offsets), open_rows(family)
    hi, lo, length = open_rows(hi), open_rows(lo), open_rows(length)
    for k in range(hi.shape[0]):
        wrong, own, first, second, bits = text.parse(data, offsets[k], offsets[k + 1] - gap)
        if wrong != text.FINE:
            return k, wrong
        family[k], hi[k], lo[k] = own, first, second
        length[k] = bits if bits >= 0 else (32 if own == 4 else 128)
    return -1, text.FINE


@entry
def check_keys(hi, lo, length, width):
    """Judge prefixes of one family in columns: (first row that is wrong or -1, why)."""
    hi, lo, length = open_column(hi), open_column(lo), open_column(length)
    for k in range(hi.shape[0]):
        if length[k] < 0 or length[k] > width:
            return k, text.NO_LENGTH
        if width == 128 and length[k] >= 96 and is_mapped(hi[k], lo[k]):
            return k, text.MAPPED
        if host_bits(hi[k], lo[k], length[k]):
            return k, text.HOST_BITS
    return -1, text.FINE


@entry
def find_exact(handle, hi, lo, length, found):
    """Nodes of exactly these prefixes, or NOT_THERE."""
    t, found = open_prefixes(handle), open_rows(found)
    hi, lo, length = open_column(hi), open_column(lo), open_column(length)
    for k in range(found.shape[0]):
        found[k] = nodes.exact(t, hi[k], lo[k], length[k])


@entry
def put_many(handle, hi, lo, length, found, begin, numbered, scratch):
    """Insert prefixes one by one from row `begin`; returns the row that found no room, or the count.

    `numbered`: row k gets node k + 1, for an empty table whose nodes are set aside.
    """
    t, found, s = open_prefixes(handle), open_rows(found), open_rows(scratch)
    hi, lo, length = open_column(hi), open_column(lo), open_column(length)
    count = found.shape[0]
    for first in range(begin, count, BLOCK):
        last = min(first + BLOCK, count)
        if not numbered:
            fetch_ways(t, hi, lo, first, last - first, s)
        for k in range(first, last):
            node, _ = _put(t, hi[k], lo[k], length[k], (k + 1) if numbered else 0)
            if node == NO_ROOM:
                return k
            found[k] = node
    return count


@entry
def drop_many(handle, hi, lo, length, found, begin, scratch):
    """Remove prefixes one by one from row `begin`; returns the row that found no room, or the count."""
    t, found, s = open_prefixes(handle), open_rows(found), open_rows(scratch)
    hi, lo, length = open_column(hi), open_column(lo), open_column(length)
    count = found.shape[0]
    for first in range(begin, count, BLOCK):
        last = min(first + BLOCK, count)
        fetch_ways(t, hi, lo, first, last - first, s)
        for k in range(first, last):
            if not has_room(t, length[k]):
                return k
            found[k] = _drop(t, hi[k], lo[k], length[k])
    return count


@entry
def rebuild(handle, which):
    """Fill empty chunks from the tree: `which` are its nodes with values, each after those around it."""
    t, which = open_prefixes(handle), open_column(which)
    for k in range(which.shape[0]):
        node = which[k]
        if node:
            hi, lo, length = nodes.high(t, node), nodes.low(t, node), nodes.length_of(t, node)
            if not has_room(t, length):
                return k
            around = max(nodes.cover(t, hi, lo, length - 1), 0)
            chunks.insert(t, hi, lo, length, node, around)
    return which.shape[0]


@entry
def collect(handle, top, stack, found, flat):
    """Nodes of the prefixes at and below node `top`, in order: see `ippath.prefix.nodes.collect`."""
    return nodes.collect(open_prefixes(handle), top, open_rows(stack), open_rows(found), flat)


@entry
def describe(handle, which, hi, lo, length):
    """Keys and lengths of nodes."""
    t, which = open_prefixes(handle), open_column(which)
    hi, lo, length = open_rows(hi), open_rows(lo), open_rows(length)
    for k in range(which.shape[0]):
        node = which[k]
        hi[k], lo[k], length[k] = nodes.high(t, node), nodes.low(t, node), nodes.length_of(t, node)


@entry
def aggregate(hi, lo, length, value, which, done, frames):
    """Fewer sorted prefixes with the same values, in place; see `ippath.prefix.aggregation`."""
    return aggregation.aggregate(
        open_rows(hi), open_rows(lo), open_rows(length), open_column(value), open_rows(which),
        open_rows(done), open_rows(frames),
    )  # fmt: skip


@entry
def is_sound(handle, values, seen, stack):
    """May a table from a file be read?  See `ippath.prefix.soundness`."""
    t, seen, stack = open_prefixes(handle), open_rows(seen), open_rows(stack)
    return soundness.tree_is_sound(t, values, seen, stack) and soundness.chunks_are_sound(
        t, values, seen, stack
    )


@entry
def compact(handle, leaf):
    """Move the words of all chunks together into `leaf`; returns how many."""
    return chunks.compact(open_prefixes(handle), open_rows(leaf))


@short_entry
def top_node(handle, hi, lo, length):
    """The uppermost node that the prefix covers, with a value or not, or NOT_THERE."""
    t = open_prefixes(handle)
    node = nodes.top_below(t, hi, lo, length)
    return node if node or length == 0 else NOT_THERE
