"""Changes of a table in place: give a prefix its routes, or none any more.

What an address finds changes within the prefix alone, and there in every interval that belonged to the
next shorter prefix before (or does so afterwards): a change costs as much as intervals and slots of the
directory lie within the prefix.  An interval that is cut gets its slot a page of its own, as intervals
that the table was built with are shared by pages; those pages are taken and given back by size.

`fib` is an opened handle on `ippath.tables.OpenFib`.  Keys are two words, those of IPv6 with flipped sign
bits as the starts are stored; IPv4 uses the second.  `s` is scratch, int64[SPOT_WORDS]: where the slot in
hand is, and its first and last address.  Nobody may look anything up meanwhile.

Kernel: fib_table_insert, fib_table_delete, fib6_add, fib6_del change one leaf of a trie likewise.
"""

from __future__ import annotations

from ippath.fib.search import FLIP, PAGE_COUNT, leaf_node, search4, search6
from ippath.handles import open_fib
from ippath.jit import entry, kernel
from ippath.prefix.bits import one_bit, popcount
from ippath.tables import (
    CHANGE_COUNT, CHANGE_FIRST, CHANGE_HI, CHANGE_LO, CHANGE_PLEN, CHANGE_TABLE, CHUNK_BITS,
    CHUNK_CROWDED, ENTRY_INFO, ENTRY_SRC_HI, ENTRY_SRC_LO, ENTRY_SRC_PLEN, ENTRY_TABLE,
    LEAF_INFO_BITS, NODE_COUNT, NODE_FIRST, NODE_PARENT, NODE_PLEN, NODE_SRC_HI, NODE_SRC_LO,
    NODE_SRC_PLEN, NODE_SUB_COUNT, NODE_SUB_FIRST, NONE, PAGE_BITS, POOL_BUILT, POOL_BUILT_NODES,
    POOL_BUILT_ROUTES, POOL_FREE_NODES, POOL_FREE_ROUTES, POOL_FREE_RUNS, POOL_NODES, POOL_ROUTES,
    POOL_RUNS, POOL_WORK, ROUTE_DST_HI, ROUTE_DST_LO, ROUTE_INFO, ROUTE_NODE, ROUTE_PLEN,
    ROUTE_TABLE, SLOT_BITS, SUB_BASE, SUB_BY_HIGH, SUB_FIRST, SUB_HELD, SUB_HIGH, SUB_LAST,
    SUB_SHIFT, TABLE_CHUNKS, TABLE_PAGE, TABLE_SHIFT, TABLE_TOP,
)  # fmt: skip

LEAST, MOST = FLIP, ~FLIP  # words of flipped keys
SPOT_PLACE, SPOT_CHUNK, BEGIN_HI, BEGIN_LO, END_HI, END_LO, SPOT_WORDS = range(7)
NO_ROOM, OTHERS = -1, 1
IN_TABLE = -1  # SPOT_PLACE: the page stands in the table's row


@entry
def change_fib(handle, six, changes, begin, end, entries, rows, s):
    """Apply changes [begin, end) one by one; returns the first for which there was no room.

    `changes` are rows of CHANGE_* columns, `entries` those of ENTRY_*: the routes of a prefix in the order
    of the look-up, those without a source first.  `rows[e]` becomes the row of entry e in `Fib.route`.
    What had no room is as it was.
    """
    fib = open_fib(handle)
    for k in range(begin, end):
        if not _set_routes(fib, six, changes[k], entries, rows, s):
            return k
    return end


# --- memory ---------------------------------------------------------------------------------------------


@kernel
def class_size(size_class):
    """Elements of a run of that class: 1, 2, 3, 4, 6, 8, 12, …"""
    if size_class & 1:
        return 1 << (size_class + 1) // 2
    return 3 << size_class // 2 >> 1 if size_class else 1


@kernel
def class_of(count):
    """The smallest class with room for so many."""
    size_class = 0
    while class_size(size_class) < count:
        size_class += 1
    return size_class


@kernel
def _take_run(fib, count):
    """A run of intervals, or NONE if there is no room."""
    pool, size_class = fib.pool, class_of(count)
    first = pool[POOL_FREE_RUNS + size_class] - 1
    if first != NONE:
        pool[POOL_FREE_RUNS + size_class] = fib.start_lo[first]
        return first
    first = pool[POOL_RUNS]
    if first + class_size(size_class) > fib.leaf.shape[0]:
        return NONE
    pool[POOL_RUNS] += class_size(size_class)
    return first


@kernel
def _give_run(fib, first, count):
    """Give back a run that `_take_run` gave for so many intervals."""
    head = POOL_FREE_RUNS + class_of(count)
    fib.start_lo[first] = fib.pool[head]
    fib.pool[head] = first + 1


@kernel
def _take_rows(pool, rows, used, free, count):
    """`count` rows of nodes or routes that stand together; there is room for them."""
    size_class = class_of(count)
    first = pool[free + size_class] - 1
    if first != NONE:
        pool[free + size_class] = rows[first, 1]
        return first
    first = pool[used]
    pool[used] += class_size(size_class)
    return first


@kernel
def _give_rows(pool, rows, built, free, first, count):
    """Give rows back; those that the table was built with may be too few for their class."""
    if count:
        size_class = class_of(count)
        if first < built and class_size(size_class) > count:
            size_class -= 1
        for k in range(first, first + count):
            rows[k, 0] = NONE  # in use no longer: a route of no table
        rows[first, 1] = pool[free + size_class]
        pool[free + size_class] = first + 1


# --- places ---------------------------------------------------------------------------------------------


@kernel
def _is_before(hi, lo, other_hi, other_lo):
    return hi < other_hi or (hi == other_hi and lo < other_lo)


@kernel
def _next(six, hi, lo):
    if six and lo == MOST:
        return hi + 1, LEAST
    return hi, lo + 1


@kernel
def _previous(six, hi, lo):
    if six and lo == LEAST:
        return hi - 1, MOST
    return hi, lo - 1


@kernel
def _start(fib, six, at):
    return (fib.start_hi[at] if six else 0), fib.start_lo[at]


@kernel
def _set_begin(s, hi, lo):
    s[BEGIN_HI], s[BEGIN_LO] = hi, lo


@kernel
def _set_end(s, hi, lo):
    s[END_HI], s[END_LO] = hi, lo


@kernel
def _locate(fib, six, table, hi, lo, s):
    """The innermost slot that holds a key: its place and its bounds, into `s`."""
    _set_begin(s, LEAST if six else 0, LEAST if six else 0)
    _set_end(s, MOST if six else 0, MOST if six else 0xFFFFFFFF)
    chunks, top = fib.table[table, TABLE_CHUNKS], fib.table[table, TABLE_TOP]
    s[SPOT_PLACE], s[SPOT_CHUNK] = IN_TABLE, 0
    if chunks != NONE:
        number = lo >> CHUNK_BITS
        s[BEGIN_LO], s[END_LO] = number << CHUNK_BITS, (number + 1 << CHUNK_BITS) - 1
        s[SPOT_PLACE], s[SPOT_CHUNK] = chunks + 2 * number + 1, 1
        if fib.top[s[SPOT_PLACE] - 1] & CHUNK_CROWDED == 0:
            return
    elif top != NONE:
        shift = fib.table[table, TABLE_SHIFT]
        number = (hi ^ FLIP if six else lo) >> shift
        s[SPOT_PLACE] = top + (number & 0xFFFF)
        if six:
            s[BEGIN_HI] = hi >> shift << shift
            s[END_HI] = s[BEGIN_HI] + ((1 << shift) - 1)
        else:
            s[BEGIN_LO], s[END_LO] = number << shift, (number + 1 << shift) - 1
    word = fib.table[table, TABLE_PAGE] if s[SPOT_PLACE] == IN_TABLE else fib.top[s[SPOT_PLACE]]
    while word < 0:
        s[SPOT_CHUNK] = 0
        if six:
            s[SPOT_PLACE] = _step6(fib.top, -word, hi, lo, s)
        else:
            s[SPOT_PLACE] = _step4(fib.top, -word, lo, s)
        word = fib.top[s[SPOT_PLACE]]


@kernel
def _step4(top, place, address, s):
    """The slot of an address in the directory at `place`; narrows the bounds."""
    base, last, shift = top[place + SUB_BASE], top[place + SUB_LAST], top[place + SUB_SHIFT]
    if address < base:
        s[END_LO] = base - 1
        return place + SUB_HELD
    step = (min(address, last) - base) >> shift
    s[BEGIN_LO] = base + (step << shift)
    if step < (last - base) >> shift:
        s[END_LO] = s[BEGIN_LO] + (1 << shift) - 1
    return place + SUB_FIRST + step


@kernel
def _step6(top, place, hi, lo, s):
    """The same for IPv6."""
    base, last, shift = top[place + SUB_BASE], top[place + SUB_LAST], top[place + SUB_SHIFT]
    high, by_high = top[place + SUB_HIGH], top[place + SUB_BY_HIGH]
    if by_high:
        key, below = hi, hi < base
    else:
        key, below = (lo if hi == high else last), _is_before(hi, lo, high, base)
    if below:
        before = _previous(True, base if by_high else high, LEAST if by_high else base)
        _set_end(s, before[0], before[1])
        return place + SUB_HELD
    step = (min(key, last) - base) >> shift
    begin = base + (step << shift)
    _set_begin(s, begin if by_high else high, LEAST if by_high else begin)
    if step < (last - base) >> shift:
        end = begin + ((1 << shift) - 1)
        _set_end(s, end if by_high else high, MOST if by_high else end)
    return place + SUB_FIRST + step


@kernel
def _page(fib, table, s):
    """(first, count) of the intervals of the slot in hand."""
    place = s[SPOT_PLACE]
    if place == IN_TABLE:
        word = fib.table[table, TABLE_PAGE]
    else:
        word = fib.top[place]
        if s[SPOT_CHUNK] and fib.top[place - 1] & CHUNK_CROWDED == 0:
            return word, popcount(fib.top[place - 1]) + 1
    return word >> PAGE_BITS, word & PAGE_COUNT


@kernel
def _set_page(fib, table, s, first, count):
    """Give the slot in hand these intervals."""
    place, page = s[SPOT_PLACE], first << PAGE_BITS | count
    if place == IN_TABLE:
        fib.table[table, TABLE_PAGE] = page
        return
    fib.top[place] = page
    if not s[SPOT_CHUNK]:
        return
    bits = 0
    for at in range(first + 1, first + count):
        start = fib.start_lo[at]
        if start & ((1 << SLOT_BITS) - 1):
            fib.top[place - 1] = CHUNK_CROWDED
            return
        bits |= one_bit((start >> SLOT_BITS) & 63)
    fib.top[place - 1], fib.top[place] = bits, first


@kernel
def _bounds(fib, six, first, count, k, s):
    """First and last key of the k-th interval of a page within its slot."""
    hi, lo = _start(fib, six, first + k)
    if k == 0:
        hi, lo = s[BEGIN_HI], s[BEGIN_LO]
    if k + 1 == count:
        return hi, lo, s[END_HI], s[END_LO]
    next_hi, next_lo = _start(fib, six, first + k + 1)
    end_hi, end_lo = _previous(six, next_hi, next_lo)
    return hi, lo, end_hi, end_lo


# --- words ----------------------------------------------------------------------------------------------


@kernel
def _word_of(fib, node):
    """What intervals say that belong to a node (see LEAF_INFO_BITS)."""
    if node == NONE or fib.node[node, NODE_COUNT] != 1 or fib.node[node, NODE_SUB_COUNT]:
        return node
    route = fib.node[node, NODE_FIRST]
    return -2 - (route << LEAF_INFO_BITS | fib.route[route, ROUTE_INFO])


@kernel
def _is_within(fib, six, at, r):
    """Does an interval that its table was built with lie within the range, with all its addresses?"""
    hi, lo = _start(fib, six, at)
    if _is_before(hi, lo, r[0], r[1]):
        return False
    if at + 1 < fib.pool[POOL_BUILT]:
        next_hi, next_lo = _start(fib, six, at + 1)
        if _is_before(hi, lo, next_hi, next_lo):  # else another table begins
            end_hi, end_lo = _previous(six, next_hi, next_lo)
            return not _is_before(r[2], r[3], end_hi, end_lo)
    return r[2] == (MOST if six else 0) and r[3] == (MOST if six else 0xFFFFFFFF)


@kernel
def _replace_words(fib, six, table, r, old, new, s):
    """Let intervals that say `old` say `new` within a range.

    `r` is its first and its last key.  Returns NO_ROOM, else whether any others lie within (OTHERS).
    Giving back `old` for `new` undoes what was done in part.
    """
    hi, lo, seen = r[0], r[1], 0
    while True:
        _locate(fib, six, table, hi, lo, s)
        found = _replace_in_page(fib, six, table, r, old, new, s)
        if found == NO_ROOM:
            return NO_ROOM
        seen |= found
        if not _is_before(s[END_HI], s[END_LO], r[2], r[3]):
            return seen
        hi, lo = _next(six, s[END_HI], s[END_LO])


@kernel
def _place_in_page(fib, six, first, count, hi, lo):
    """The interval of a page that holds a key, or the first one if the key is before the page."""
    low, size = first, count
    while size > 1:
        half = size >> 1
        start_hi, start_lo = _start(fib, six, low + half)
        if not _is_before(hi, lo, start_hi, start_lo):
            low += half
        size -= half
    return low - first


@kernel
def _replace_in_page(fib, six, table, r, old, new, s):
    first, count = _page(fib, table, s)
    own = first >= fib.pool[POOL_BUILT]
    begin = _place_in_page(fib, six, first, count, r[0], r[1])
    k, seen, hit = begin, 0, False
    whole = True  # nobody needs an interval that changes as it was
    while k < count:
        hi, lo, end_hi, end_lo = _bounds(fib, six, first, count, k, s)
        if _is_before(r[2], r[3], hi, lo):
            break
        if fib.leaf[first + k] != old:
            seen = OTHERS
        else:
            hit = True
            if not own:
                whole &= _is_within(fib, six, first + k, r)
            elif _is_before(hi, lo, r[0], r[1]) or _is_before(r[2], r[3], end_hi, end_lo):
                whole = False
        k += 1
    if not hit:
        return seen
    fib.pool[POOL_WORK] += count
    if own or not whole:
        if _rewrite(fib, six, table, r, old, new, first, count, begin, k, own, s):
            return seen
        if not whole:
            return NO_ROOM
    for at in range(first + begin, first + k):
        if fib.leaf[at] == old:
            fib.leaf[at] = new
    return seen


@kernel
def _rewrite(fib, six, table, r, old, new, first, count, begin, end, own, s):
    """Write the page in hand anew: intervals [begin, end) cut at the range, equal neighbours joined."""
    to = fib.pool[POOL_RUNS]
    if to + count + 2 > fib.leaf.shape[0]:
        return False
    _copy(fib, six, first, to, begin)
    size = begin
    for k in range(begin, end):
        word = fib.leaf[first + k]
        hi, lo, end_hi, end_lo = _bounds(fib, six, first, count, k, s)
        if word != old:
            size = _push(fib, six, to, size, hi, lo, word)
            continue
        if _is_before(hi, lo, r[0], r[1]):
            size = _push(fib, six, to, size, hi, lo, old)
            hi, lo = r[0], r[1]
        size = _push(fib, six, to, size, hi, lo, new)
        if _is_before(r[2], r[3], end_hi, end_lo):
            hi, lo = _next(six, r[2], r[3])
            size = _push(fib, six, to, size, hi, lo, old)
    if end < count:
        hi, lo = _start(fib, six, first + end)
        size = _push(fib, six, to, size, hi, lo, fib.leaf[first + end])
        _copy(fib, six, first + end + 1, to + size, count - end - 1)
        size += count - end - 1
    at = first
    if not own or class_of(size) != class_of(count):
        at = _take_run(fib, size)
        if at == NONE:
            return False
        if own:
            _give_run(fib, first, count)
    if at != to:
        _copy(fib, six, to, at, size)
    _set_page(fib, table, s, at, size)
    return True


@kernel
def _copy(fib, six, source, to, count):
    """Copy intervals to where no others are."""
    for k in range(count):
        if six:
            fib.start_hi[to + k] = fib.start_hi[source + k]
        fib.start_lo[to + k], fib.leaf[to + k] = fib.start_lo[source + k], fib.leaf[source + k]


@kernel
def _push(fib, six, to, size, hi, lo, word):
    """Add an interval to those being written, unless it goes on with the one before."""
    if size and fib.leaf[to + size - 1] == word:
        return size
    if six:
        fib.start_hi[to + size] = hi
    fib.start_lo[to + size], fib.leaf[to + size] = lo, word
    return size + 1


# --- nodes ----------------------------------------------------------------------------------------------


@kernel
def _find(fib, six, table, hi, lo, plen):
    """(node of a prefix or NONE, node of the next shorter one or NONE)."""
    leaf = search6(fib, table, hi, lo) if six else search4(fib, table, lo)
    node = leaf_node(fib, leaf)
    while node != NONE and fib.node[node, NODE_PLEN] > plen:
        node = fib.node[node, NODE_PARENT]
    if node != NONE and fib.node[node, NODE_PLEN] == plen:
        return node, fib.node[node, NODE_PARENT]
    return NONE, node


@kernel
def _range_of(six, hi, lo, plen):
    """First and last key of a prefix."""
    if not six:
        return 0, lo, 0, lo | ~(-1 << (32 - plen))
    if plen == 0:
        return LEAST, LEAST, MOST, MOST
    if plen <= 64:
        return hi ^ FLIP, LEAST, (hi | ~(-1 << (64 - plen))) ^ FLIP, MOST
    return hi ^ FLIP, lo ^ FLIP, hi ^ FLIP, (lo | ~(-1 << (128 - plen))) ^ FLIP


@kernel
def _adopt(fib, six, table, r, old, new, s):
    """Make the node `new` the parent of all nodes within the range whose parent is `old`."""
    hi, lo = r[0], r[1]
    while True:
        _locate(fib, six, table, hi, lo, s)
        first, count = _page(fib, table, s)
        for k in range(count):
            begin_hi, begin_lo, end_hi, end_lo = _bounds(fib, six, first, count, k, s)
            if _is_before(end_hi, end_lo, r[0], r[1]) or _is_before(r[2], r[3], begin_hi, begin_lo):
                continue
            node = leaf_node(fib, fib.leaf[first + k])
            while node not in (NONE, old, new):
                parent = fib.node[node, NODE_PARENT]
                if parent == old:
                    fib.node[node, NODE_PARENT] = parent = new
                if parent == new:
                    break
                node = parent
        if not _is_before(s[END_HI], s[END_LO], r[2], r[3]):
            return
        hi, lo = _next(six, s[END_HI], s[END_LO])


@kernel
def _release(fib, node):
    """Give back the routes of a node, and the nodes of its sources."""
    pool, nodes = fib.pool, fib.node
    subs, first = nodes[node, NODE_SUB_COUNT], nodes[node, NODE_SUB_FIRST]
    for owner in range(-1, subs):
        row = node if owner < 0 else first + owner
        _give_rows(
            pool, fib.route, pool[POOL_BUILT_ROUTES], POOL_FREE_ROUTES, nodes[row, NODE_FIRST],
            nodes[row, NODE_COUNT],
        )  # fmt: skip
    _give_rows(pool, nodes, pool[POOL_BUILT_NODES], POOL_FREE_NODES, first, subs)


@kernel
def _same_source(entries, one, other):
    return (
        entries[one, ENTRY_SRC_PLEN] == entries[other, ENTRY_SRC_PLEN]
        and entries[one, ENTRY_SRC_HI] == entries[other, ENTRY_SRC_HI]
        and entries[one, ENTRY_SRC_LO] == entries[other, ENTRY_SRC_LO]
    )


@kernel
def _put_routes(fib, node, change, entries, rows, begin, end):
    """Give a node the routes of entries [begin, end), of one source or none."""
    nodes, count = fib.node, end - begin
    nodes[node, NODE_COUNT], nodes[node, NODE_FIRST] = count, 0
    nodes[node, NODE_PLEN] = change[CHANGE_PLEN]
    nodes[node, NODE_SRC_HI] = nodes[node, NODE_SRC_LO] = nodes[node, NODE_SRC_PLEN] = 0
    if count == 0:
        return
    first = _take_rows(fib.pool, fib.route, POOL_ROUTES, POOL_FREE_ROUTES, count)
    nodes[node, NODE_FIRST] = first
    nodes[node, NODE_SRC_HI] = entries[begin, ENTRY_SRC_HI]
    nodes[node, NODE_SRC_LO] = entries[begin, ENTRY_SRC_LO]
    nodes[node, NODE_SRC_PLEN] = entries[begin, ENTRY_SRC_PLEN]
    for k in range(count):
        route = first + k
        fib.route[route, ROUTE_TABLE] = entries[begin + k, ENTRY_TABLE]
        fib.route[route, ROUTE_PLEN] = change[CHANGE_PLEN]
        fib.route[route, ROUTE_DST_HI] = change[CHANGE_HI]
        fib.route[route, ROUTE_DST_LO] = change[CHANGE_LO]
        fib.route[route, ROUTE_INFO] = entries[begin + k, ENTRY_INFO]
        fib.route[route, ROUTE_NODE] = node
        rows[begin + k] = route


@kernel
def _put_all(fib, node, change, entries, rows):
    """Give a node all routes of a change, those with a source in nodes of their own."""
    begin = change[CHANGE_FIRST]
    end = begin + change[CHANGE_COUNT]
    split = begin
    while split < end and entries[split, ENTRY_SRC_PLEN] == 0:
        split += 1
    _put_routes(fib, node, change, entries, rows, begin, split)
    subs = 0
    for e in range(split, end):
        subs += e == split or not _same_source(entries, e - 1, e)
    nodes, first = fib.node, 0
    if subs:
        first = _take_rows(fib.pool, nodes, POOL_NODES, POOL_FREE_NODES, subs)
    nodes[node, NODE_SUB_FIRST], nodes[node, NODE_SUB_COUNT] = first, subs
    for sub in range(first, first + subs):
        last = split + 1
        while last < end and _same_source(entries, last - 1, last):
            last += 1
        _put_routes(fib, sub, change, entries, rows, split, last)
        nodes[sub, NODE_PARENT] = node
        nodes[sub, NODE_SUB_FIRST] = nodes[sub, NODE_SUB_COUNT] = 0
        split = last


@kernel
def _has_room(fib, count):
    """Is there room for the rows of so many routes, whatever their sources?"""
    pool, most = fib.pool, 2 * count + 1  # classes are at most half as large again
    return (
        pool[POOL_NODES] + most <= fib.node.shape[0]
        and pool[POOL_ROUTES] + most <= fib.route.shape[0]
    )


@kernel
def _set_routes(fib, six, change, entries, rows, s):
    """Give a prefix the routes of a change; returns whether there was room."""
    table, plen, count = change[CHANGE_TABLE], change[CHANGE_PLEN], change[CHANGE_COUNT]
    if not _has_room(fib, count):
        return False
    node, holder = _find(fib, six, table, change[CHANGE_HI], change[CHANGE_LO], plen)
    r = _range_of(six, change[CHANGE_HI], change[CHANGE_LO], plen)
    if node != NONE:
        old = _word_of(fib, node)
        if count == 0:
            new = _word_of(fib, holder)
            if _replace_words(fib, six, table, r, old, new, s):
                _adopt(fib, six, table, r, node, holder, s)
            _give_node(fib, node)
            return True
        _release(fib, node)
        _put_all(fib, node, change, entries, rows)
        new = _word_of(fib, node)
        if new != old:
            _replace_words(fib, six, table, r, old, new, s)
        return True
    if count == 0:
        return True
    node = _take_rows(fib.pool, fib.node, POOL_NODES, POOL_FREE_NODES, 1)
    _put_all(fib, node, change, entries, rows)
    fib.node[node, NODE_PARENT] = holder
    old, new = _word_of(fib, holder), _word_of(fib, node)
    done = _replace_words(fib, six, table, r, old, new, s)
    if done == NO_ROOM:
        _replace_words(fib, six, table, r, new, old, s)
        _give_node(fib, node)
        return False
    if done:
        _adopt(fib, six, table, r, holder, node, s)
    return True


@kernel
def _give_node(fib, node):
    _release(fib, node)
    _give_rows(fib.pool, fib.node, fib.pool[POOL_BUILT_NODES], POOL_FREE_NODES, node, 1)
