"""What the host learned about single destinations: smaller path MTUs, better first hops.

Kernel: struct fib_nh_exception (update_or_create_fnhe, find_exception) and struct rt6_exception
(rt6_insert_exception, rt6_find_cached_rt).  Entries are made on demand alone; every other
destination shares its route; with the switch `route_cache=eager` each gets an entry, as up to Linux 4.1.
An entry belongs to a next hop (IPv4) or to a next hop of one route
(IPv6), which the look-up has found before: its `owner`, a number that outlives a rebuilt table.
The number of entries of a next hop is bounded, as in Linux: by buckets, and by their depth.

In:  owner and destination.   Out: a row of `state.exception`, or NONE.
"""

from __future__ import annotations

from ippath.fib.multipath import mix32
from ippath.fib.search import leaf_node, search6, search4
from ippath.handles import open_state, open_tables
from ippath.jit import cold, hot, kernel, entry
from ippath.tables import (
    CONF_EAGER, DEV_IFINDEX, DST_EXCEPTION, DST_GATEWAY_FAMILY, DST_GATEWAY_HI, DST_GATEWAY_LO, EM_HAND, EM_RANDOM, EM_SECRET, EM_TOP, EM_USED, EXC_CELL, EXC_EXPIRES_NS,
    EXC_FAMILY, EXC_GATEWAY_FAMILY, EXC_GATEWAY_HI, EXC_GATEWAY_LO, EXC_HI, EXC_IFINDEX, EXC_LO,
    EXC_LOCKED, EXC_MTU, EXC_NEXT, EXC_OWNER, EXC_STAMP_NS, EXC_USED, INFO_NH_COUNT, INFO_NH_FIRST,
    MISC_GENERATION, MISC_NOW_NS, NH_DEVICE, NH_OWNER, NODE_COUNT, NODE_FIRST, NODE_PARENT, NODE_SRC_HI,
    NODE_SRC_LO,
    NODE_SRC_PLEN, NODE_SUB_COUNT, NODE_SUB_FIRST, NONE, RES_EXCEPTION, RES_NH, RES_ROUTE,
    ROUTE_DST_HI, ROUTE_DST_LO, ROUTE_INFO, ROUTE_NODE, ROUTE_PLEN, ROUTE_TABLE,
)  # fmt: skip

CELLS4, CELLS6 = 2048, 1024  # FNHE_HASH_SIZE, FIB6_EXCEPTION_BUCKET_SIZE
DEPTH = 5  # FNHE_RECLAIM_DEPTH, FIB6_MAX_DEPTH: that many to twice as many, by chance


@hot
def any_exceptions(s):
    """Was anything learned at all?"""
    return s.exc_misc[EM_USED] != 0


@kernel
def owner4(h, nh):
    """Whose exceptions those of an IPv4 next hop are."""
    return h.fib4.nexthop[nh, NH_OWNER]


@kernel
def owner6(h, route, nh):
    """Whose exceptions those of a next hop of an IPv6 route are: they go with the route."""
    fib = h.fib6
    state = fib.nexthop[nh, NH_OWNER] & 0xFFFFFFFF
    node = fib.route[route, ROUTE_NODE]
    high = mix32(mix32(state, fib.route[route, ROUTE_DST_HI]), fib.route[route, ROUTE_DST_HI] >> 32)
    low = mix32(mix32(high, fib.route[route, ROUTE_DST_LO]), fib.route[route, ROUTE_DST_LO] >> 32)
    low = mix32(mix32(low, fib.route[route, ROUTE_PLEN]), fib.route[route, ROUTE_TABLE])
    if fib.node[node, NODE_SRC_PLEN]:
        low = mix32(mix32(low, fib.node[node, NODE_SRC_HI]), fib.node[node, NODE_SRC_HI] >> 32)
        low = mix32(mix32(low, fib.node[node, NODE_SRC_LO]), fib.node[node, NODE_SRC_LO] >> 32)
    return high << 31 ^ low


@kernel
def _cell(s, family, hi, lo):
    """Bucket of a destination among those of its owner; keyed, so that nobody can fill one."""
    state = mix32(mix32(s.exc_misc[EM_SECRET], lo), lo >> 32)
    state = mix32(mix32(state, hi), hi >> 32)
    return state & ((CELLS4 if family == 4 else CELLS6) - 1)


@kernel
def _bucket(s, owner, cell):
    return mix32(mix32(cell, owner), owner >> 32) & (s.exc_bucket.shape[0] - 1)


@kernel
def _unlink(s, row):
    """Forget an entry; its row stays where it is until it is taken again."""
    table = s.exception
    bucket = _bucket(s, table[row, EXC_OWNER], table[row, EXC_CELL])
    at = s.exc_bucket[bucket] - 1
    if at == row:
        s.exc_bucket[bucket] = table[row, EXC_NEXT]
    else:
        while table[at, EXC_NEXT] - 1 != row:
            at = table[at, EXC_NEXT] - 1
        table[at, EXC_NEXT] = table[row, EXC_NEXT]
    table[row, EXC_FAMILY] = 0
    s.exc_misc[EM_USED] -= 1
    s.misc[MISC_GENERATION] += 1


@cold
def find_exception(s, owner, family, hi, lo):
    """The entry for a destination, or NONE; one whose time is over goes."""
    table, cell = s.exception, _cell(s, family, hi, lo)
    at = s.exc_bucket[_bucket(s, owner, cell)] - 1
    while at >= 0:
        entry = table[at]
        if (
            entry[EXC_LO] == lo
            and entry[EXC_HI] == hi
            and entry[EXC_OWNER] == owner
            and entry[EXC_FAMILY] == family
        ):
            if entry[EXC_EXPIRES_NS] and s.misc[MISC_NOW_NS] > entry[EXC_EXPIRES_NS]:
                _unlink(s, at)
                return NONE
            return at
        at = entry[EXC_NEXT] - 1
    return NONE


@kernel
def _make_room(s, owner, cell):
    """Let the oldest of a bucket go that is deeper than chance allows."""
    table, misc = s.exception, s.exc_misc
    misc[EM_RANDOM] = mix32(misc[EM_RANDOM], 0x9E3779B9)
    most = DEPTH + misc[EM_RANDOM] % DEPTH
    while True:
        depth, oldest = 0, NONE
        at = s.exc_bucket[_bucket(s, owner, cell)] - 1
        while at >= 0:
            if table[at, EXC_OWNER] == owner and table[at, EXC_CELL] == cell:
                depth += 1
                if oldest == NONE or table[at, EXC_STAMP_NS] < table[oldest, EXC_STAMP_NS]:
                    oldest = at
            at = table[at, EXC_NEXT] - 1
        if depth <= most:
            return
        _unlink(s, oldest)


@kernel
def _free_row(s):
    """A row for a new entry: one never used, then those used longest ago."""
    table, misc = s.exception, s.exc_misc
    if misc[EM_TOP] < table.shape[0]:
        misc[EM_TOP] += 1
        return misc[EM_TOP] - 1
    row = misc[EM_HAND]
    misc[EM_HAND] = (row + 1) % table.shape[0]
    if table[row, EXC_FAMILY]:
        _unlink(s, row)
    return row


@cold
def make_exception(h, s, device, owner, family, hi, lo):
    """The entry for a destination, a new empty one if there is none.

    `device` is that of the next hop.  Ways that senders remember have to be found anew.
    """
    s.misc[MISC_GENERATION] += 1
    row = find_exception(s, owner, family, hi, lo)
    if row == NONE:
        cell = _cell(s, family, hi, lo)
        if h.conf[CONF_EAGER] == 0:
            _make_room(s, owner, cell)
        row = _free_row(s)
        table, bucket = s.exception, _bucket(s, owner, cell)
        table[row, EXC_FAMILY], table[row, EXC_OWNER], table[row, EXC_CELL] = family, owner, cell
        table[row, EXC_HI], table[row, EXC_LO] = hi, lo
        table[row, EXC_USED] = 0
        table[row, EXC_IFINDEX] = h.device[device, DEV_IFINDEX]
        table[row, EXC_MTU] = table[row, EXC_LOCKED] = table[row, EXC_GATEWAY_FAMILY] = 0
        table[row, EXC_GATEWAY_HI] = table[row, EXC_GATEWAY_LO] = table[row, EXC_EXPIRES_NS] = 0
        table[row, EXC_NEXT] = s.exc_bucket[bucket]
        s.exc_bucket[bucket] = row + 1
        s.exc_misc[EM_USED] += 1
    s.exception[row, EXC_STAMP_NS] = s.misc[MISC_NOW_NS]
    return row


@kernel
def exception_of(s, row, family, hi, lo):
    """The row, if it still is about this destination; a row may have been taken for another one."""
    if row == NONE:
        return NONE
    entry = s.exception[row]
    if entry[EXC_FAMILY] == family and entry[EXC_HI] == hi and entry[EXC_LO] == lo:
        return row
    return NONE


@kernel
def is_on_link6(entry):
    """Was the destination found to be on the link: is it its own gateway?"""
    return (
        entry[EXC_GATEWAY_FAMILY] == 6
        and entry[EXC_GATEWAY_LO] == entry[EXC_LO]
        and entry[EXC_GATEWAY_HI] == entry[EXC_HI]
    )


@hot
def may_be_exception(h, s):
    """May a destination have an entry, or is each one to get its own (route_cache=eager)?"""
    return any_exceptions(s) or h.conf[CONF_EAGER] != 0


@kernel
def use_exception4(h, s, nh, destination):
    """The entry for a destination that a packet goes to, or NONE (kernel: rt_bind_exception)."""
    row = find_exception(s, owner4(h, nh), 4, 0, destination)
    if row == NONE and h.conf[CONF_EAGER]:
        device = h.fib4.nexthop[nh, NH_DEVICE]
        row = make_exception(h, s, device, owner4(h, nh), 4, 0, destination)
    if row != NONE:
        s.exception[row, EXC_USED] = 1
    return row


@kernel
def use_exception6(h, s, route, nh, hi, lo):
    """The same of IPv6 (kernel: rt6_find_cached_rt; up to 4.1 rt6_alloc_cow, rt6_alloc_clone)."""
    owner = owner6(h, route, nh)
    row = find_exception(s, owner, 6, hi, lo)
    if row == NONE and h.conf[CONF_EAGER] and h.fib6.route[route, ROUTE_PLEN] < 128:
        row = make_exception(h, s, h.fib6.nexthop[nh, NH_DEVICE], owner, 6, hi, lo)
    return row


@kernel
def follow_exception(s, row):
    """Let the packet in hand go as was learned of its destination: by entry `row`, if there is one."""
    skb = s.skb
    skb[DST_EXCEPTION] = row
    if row != NONE and s.exception[row, EXC_GATEWAY_FAMILY]:
        skb[DST_GATEWAY_FAMILY] = s.exception[row, EXC_GATEWAY_FAMILY]
        skb[DST_GATEWAY_HI] = s.exception[row, EXC_GATEWAY_HI]
        skb[DST_GATEWAY_LO] = s.exception[row, EXC_GATEWAY_LO]


@kernel
def bind_exception4(h, s, result, destination):
    """Note the exception for a destination in the result of its look-up (rt_bind_exception)."""
    if may_be_exception(h, s) and result[RES_NH] != NONE:
        result[RES_EXCEPTION] = use_exception4(h, s, result[RES_NH], destination)


@kernel
def bind_exception6(h, s, result, hi, lo):
    """Note the exception for a destination in the result of its look-up (rt6_find_cached_rt)."""
    if may_be_exception(h, s) and result[RES_NH] != NONE and result[RES_ROUTE] != NONE:
        result[RES_EXCEPTION] = use_exception6(h, s, result[RES_ROUTE], result[RES_NH], hi, lo)


# --- when the host changes ------------------------------------------------------------------------------


@entry
def keep_exceptions(tables, state):
    """Forget what was learned of next hops that are gone; returns how many entries went.

    A route that stays keeps its exceptions, one that is replaced does not.
    """
    h, s = open_tables(tables), open_state(state)
    gone = 0
    for row in range(s.exc_misc[EM_TOP]):
        if s.exception[row, EXC_FAMILY] and _route_of(h, s, row)[0] == NONE:
            _unlink(s, row)
            gone += 1
    return gone


@entry
def exception_route(tables, state, row, place):
    """Rows of the route and the next hop that an entry belongs to into `place`, NONE if gone."""
    h, s = open_tables(tables), open_state(state)
    place[0], place[1] = _route_of(h, s, row)


@kernel
def _route_of(h, s, row):
    """(route, next hop) of an entry, among those whose prefixes hold its destination."""
    entry = s.exception[row]
    family = entry[EXC_FAMILY]
    for table in range(h.fib4.table.shape[0] if family == 4 else h.fib6.table.shape[0]):
        if family == 4:
            found = _owner_from(
                h, h.fib4, leaf_node(h.fib4, search4(h.fib4, table, entry[EXC_LO])), entry
            )
        else:
            leaf = search6(h.fib6, table, entry[EXC_HI], entry[EXC_LO])
            found = _owner_from(h, h.fib6, leaf_node(h.fib6, leaf), entry)
        if found[0] != NONE:
            return found
    return NONE, NONE


@kernel
def _owner_from(h, fib, node, entry):
    """The same from a node on: there, with its source subtrees, then at shorter prefixes."""
    while node != NONE:
        first = fib.node[node, NODE_SUB_FIRST]
        for sub in range(-1, fib.node[node, NODE_SUB_COUNT]):
            found = _owner_at(h, fib, node if sub < 0 else first + sub, entry)
            if found[0] != NONE:
                return found
        node = fib.node[node, NODE_PARENT]
    return NONE, NONE


@kernel
def _owner_at(h, fib, node, entry):
    """The route of a node, and its next hop, that the entry belongs to."""
    first = fib.node[node, NODE_FIRST]
    for route in range(first, first + fib.node[node, NODE_COUNT]):
        info = fib.route[route, ROUTE_INFO]
        hop = fib.info[info, INFO_NH_FIRST]
        for nh in range(hop, hop + fib.info[info, INFO_NH_COUNT]):
            owner = owner4(h, nh) if entry[EXC_FAMILY] == 4 else owner6(h, route, nh)
            if owner == entry[EXC_OWNER]:
                return route, nh
    return NONE, NONE


@entry
def device_mtu_changed(state, family, ifindex, old, new):
    """Follow the MTU of a device (kernel: fib_nhc_update_mtu, rt6_exceptions_update_pmtu)."""
    s = open_state(state)
    for row in range(s.exc_misc[EM_TOP]):
        entry = s.exception[row]
        if entry[EXC_FAMILY] != family or entry[EXC_IFINDEX] != ifindex or entry[EXC_MTU] == 0:
            continue
        if entry[EXC_LOCKED]:
            if new <= entry[EXC_MTU]:
                entry[EXC_MTU], entry[EXC_LOCKED] = new, 0
        elif new < entry[EXC_MTU] or entry[EXC_MTU] == old:
            entry[EXC_MTU] = new
