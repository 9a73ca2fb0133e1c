"""IPv6 route look-up (kernel: fib6_rule_lookup, fib6_table_lookup, rt6_select, fib6_select_path).

Destination first, source second: at a prefix with source-specific routes the source must match one
of them, or the search goes on at the next shorter prefix.

In:  a row of `state.flow`.   Out: the same row of `state.result`, and 0 or an errno.
"""

from __future__ import annotations

from ippath.fib.flow import no_result
from ippath.fib.multipath import multipath_hash
from ippath.fib.nexthop_group import select_member
from ippath.fib.rules import DSCP_MASK, find_l3mdev, rule_matches, rule_table
from ippath.fib.search import leaf_node, search6
from ippath.jit import cold, kernel
from ippath.tables import (
    ACTION_BLACKHOLE, ACTION_GOTO, ACTION_LOOKUP, ACTION_PROHIBIT, ACTION_UNREACHABLE, ANY,
    CONF_RULES6, DEV_GROUP, DEV_VRF_TABLE6, DEV_IGNORE_LINKDOWN6, EACCES, EAGAIN, EHOSTUNREACH, EINVAL, ENETUNREACH,
    FLOW_DST_HI, FLOW_DST_LO, FLOW_HASH, FLOW_HAS_SRC, FLOW_IGNORE_LINKSTATE, FLOW_PREFER,
    FLOW_REACHABLE, FLOW_SRC_HI, FLOW_SRC_LO, FLOW_STRICT, INFO_METRIC, INFO_NH_COUNT,
    INFO_NH_FIRST, INFO_OBJECT, INFO_PREFERENCE, INFO_TYPE, LEAF_INFO_BITS, NEIGH_FAILED_STATE,
    NEIGH_STATE, NH_BOUND, NH_DEAD, NH_DEVICE, NH_GATEWAY_FAMILY, NH_HI, NH_LINKDOWN, NH_LO,
    NODE_COUNT, NODE_FIRST, NODE_PARENT, NODE_PLEN, NODE_SRC_HI, NODE_SRC_LO, NODE_SRC_PLEN,
    NODE_SUB_COUNT, NODE_SUB_FIRST, NONE, OBJECT_BLACKHOLE, OBJECT_GROUP, OBJECT_NONE, RES_INFO,
    RES_NH, RES_ROUTE, RES_RULE, RES_TABLE, RES_TYPE, ROUTE_INFO, ROUTE_PLEN, RTN_BLACKHOLE,
    RTN_PROHIBIT, RTN_THROW, RTN_UNREACHABLE, RULE_ACTION, RULE_INVERT, RULE_SRC_PLEN,
    RULE_SUPPRESS_GROUP, RULE_SUPPRESS_PLEN, RULE_TARGET, TABLE_ID,
)  # fmt: skip
from ippath.trace import (
    SKIP_HOPS, T_FIB_ERROR, T_FIB_MISS6, T_MULTIPATH, T_RULE6, T_SKIP6, T_SOURCE6, T_SUPPRESS6,
    T_TABLE6, note,
)  # fmt: skip
from ippath.tx.emit import neighbour_row
from ippath.wire.ipv6 import prefix_match

NOT_ELIGIBLE = -1
LEAF_INFO_MASK = (1 << LEAF_INFO_BITS) - 1
SAME_DEVICE = 2


@kernel
def reject_error6(kind):
    """The errno of a route type that refuses, or 0 (kernel: ip6_rt_type_to_error)."""
    if kind == RTN_UNREACHABLE:
        return EHOSTUNREACH
    if kind == RTN_PROHIBIT:
        return EACCES
    if kind == RTN_BLACKHOLE:
        return EINVAL
    if kind == RTN_THROW:
        return EAGAIN
    return 0


@kernel
def _sub_node(node_table, node, src_hi, src_lo, below):
    """Longest source prefix under `node` shorter than `below` that covers the source, or NONE."""
    first = node_table[node, NODE_SUB_FIRST]
    for sub in range(first, first + node_table[node, NODE_SUB_COUNT]):  # longest first
        if node_table[sub, NODE_SRC_PLEN] < below and prefix_match(
            src_hi, src_lo,
            node_table[sub, NODE_SRC_HI], node_table[sub, NODE_SRC_LO], node_table[sub, NODE_SRC_PLEN],
        ):  # fmt: skip
            return sub
    return NONE


@kernel
def first_node6(node_table, leaf, src_hi, src_lo, trace):
    """Where the search starts (kernel: fib6_node_lookup)."""
    node = leaf
    while node != NONE:
        if node_table[node, NODE_SUB_COUNT]:
            sub = _sub_node(node_table, node, src_hi, src_lo, 129)
            if sub != NONE:
                return sub
            if node_table[node, NODE_PLEN] == 0:
                return node  # only the root falls back to its own source-less routes
            note(trace, T_SOURCE6, node_table[node_table[node, NODE_SUB_FIRST], NODE_FIRST])
        else:
            return node
        node = node_table[node, NODE_PARENT]
    return NONE


@kernel
def next_node6(node_table, node, src_hi, src_lo):
    """Where the search goes on when `node` has nothing usable (kernel: fib6_backtrack)."""
    if node_table[node, NODE_SRC_PLEN] > 0:
        parent = node_table[node, NODE_PARENT]
        sub = _sub_node(node_table, parent, src_hi, src_lo, node_table[node, NODE_SRC_PLEN])
        if sub != NONE:
            return sub
        if node_table[parent, NODE_COUNT]:
            return parent
        node = parent
    node = node_table[node, NODE_PARENT]
    while node != NONE:
        sub = _sub_node(node_table, node, src_hi, src_lo, 129)
        if sub != NONE:
            return sub
        if node_table[node, NODE_COUNT]:
            return node
        node = node_table[node, NODE_PARENT]
    return NONE


@kernel
def _score(h, flow, info, nh, reachable):
    """How well a next hop suits, or NOT_ELIGIBLE (kernel: rt6_score_route, find_match)."""
    fib = h.fib6
    device = fib.nexthop[nh, NH_DEVICE]
    if fib.nexthop[nh, NH_DEAD]:
        return NOT_ELIGIBLE
    if (
        fib.nexthop[nh, NH_LINKDOWN]
        and flow[FLOW_IGNORE_LINKSTATE] == 0
        and h.device[device, DEV_IGNORE_LINKDOWN6]
    ):
        return NOT_ELIGIBLE
    score = 0
    if flow[FLOW_PREFER] == NONE or flow[FLOW_PREFER] == device:
        score = SAME_DEVICE
    elif flow[FLOW_STRICT]:
        return NOT_ELIGIBLE
    score += 4 * fib.info[info, INFO_PREFERENCE]
    if reachable and fib.nexthop[nh, NH_GATEWAY_FAMILY]:
        row = neighbour_row(h, device, fib.nexthop[nh, NH_HI], fib.nexthop[nh, NH_LO])
        if row >= 0 and h.neighbour[row, NEIGH_STATE] == NEIGH_FAILED_STATE:
            return NOT_ELIGIBLE
    return score


@kernel
def _take6(h, flow, route, info, best, reachable, result, trace):
    """Fill the result if a next hop of the route beats `best`; returns the better score."""
    fib = h.fib6
    start = fib.info[info, INFO_NH_FIRST]
    usable = False
    for nh in range(start, start + fib.info[info, INFO_NH_COUNT]):
        score = _score(h, flow, info, nh, reachable)
        usable |= score != NOT_ELIGIBLE
        if score > best:
            best = score
            result[RES_ROUTE] = route
            result[RES_INFO] = info
            result[RES_NH] = nh
            if fib.info[info, INFO_OBJECT] != OBJECT_NONE:
                break  # the first member that is better is taken (kernel: rt6_nh_find_match)
    if not usable:
        note(trace, T_SKIP6, route, SKIP_HOPS)
    return best


@kernel
def _best_of(h, flow, first, last, reachable, result, trace):
    """Best next hop among routes [first, last); fills the result, returns its score."""
    best = NOT_ELIGIBLE
    for route in range(first, last):
        info = h.fib6.route[route, ROUTE_INFO]
        if h.fib6.info[info, INFO_OBJECT] == OBJECT_BLACKHOLE:  # beats all (kernel: __find_rr_leaf)
            result[RES_ROUTE] = route
            result[RES_INFO] = info
            result[RES_NH] = h.fib6.info[info, INFO_NH_FIRST]
            return 0
        best = _take6(h, flow, route, info, best, reachable, result, trace)
    return best


@kernel
def _select(h, flow, node, reachable, result, trace):
    """Choose within one node: the lowest metric first, then all others together (kernel: rt6_select)."""
    fib = h.fib6
    first = fib.node[node, NODE_FIRST]
    last = first + fib.node[node, NODE_COUNT]
    if first == last:
        return False
    lowest = fib.info[fib.route[first, ROUTE_INFO], INFO_METRIC]
    split = first
    while split < last and fib.info[fib.route[split, ROUTE_INFO], INFO_METRIC] == lowest:
        split += 1
    if _best_of(h, flow, first, split, reachable, result, trace) != NOT_ELIGIBLE:
        return True
    return _best_of(h, flow, split, last, reachable, result, trace) != NOT_ELIGIBLE


@kernel
def _select_path(h, s, flow, result, reachable, trace):
    """Spread over the siblings of a multipath route (kernel: fib6_select_path); 1 if there are any."""
    fib = h.fib6
    info = result[RES_INFO]
    count, kind = fib.info[info, INFO_NH_COUNT], fib.info[info, INFO_OBJECT]
    if count <= 1 and kind != OBJECT_GROUP:
        return int(kind != OBJECT_NONE)  # the kernel says so of objects, one next hop or more
    hashed = flow[FLOW_HASH]
    if hashed == NONE:
        hashed = multipath_hash(h, flow, True)
    if kind == OBJECT_GROUP:
        result[RES_NH] = select_member(h, s, fib, info, hashed)
        note(trace, T_MULTIPATH, hashed, result[RES_NH], count)
        return 1
    start = fib.info[info, INFO_NH_FIRST]
    for nh in range(start, start + count):
        if hashed <= fib.nexthop[nh, NH_BOUND]:
            if _score(h, flow, info, nh, reachable) != NOT_ELIGIBLE:
                result[RES_NH] = nh
            break
    note(trace, T_MULTIPATH, hashed, result[RES_NH], count)
    return 1


@kernel
def _found6(fib, result, table, trace):
    """Complete the result; 0 or a refusing errno."""
    kind = fib.info[result[RES_INFO], INFO_TYPE]
    result[RES_TYPE] = kind
    result[RES_TABLE] = fib.table[table, TABLE_ID]
    note(trace, T_TABLE6, fib.table[table, TABLE_ID], result[RES_ROUTE])
    return reject_error6(kind)


@kernel
def table_lookup6(h, s, row, table, trace):
    """Look one table up: 0 with a result, EAGAIN for no match or throw, or a refusing errno."""
    fib, flow, result = h.fib6, s.flow[row], s.result[row]
    src_hi, src_lo = flow[FLOW_SRC_HI], flow[FLOW_SRC_LO]
    reachable = flow[FLOW_REACHABLE]
    leaf = search6(fib, table, flow[FLOW_DST_HI], flow[FLOW_DST_LO])
    if leaf < NONE:  # the usual case: one route without a source, and it can be used
        route, info = (-2 - leaf) >> LEAF_INFO_BITS, (-2 - leaf) & LEAF_INFO_MASK
        if _take6(h, flow, route, info, NOT_ELIGIBLE, reachable, result, None) != NOT_ELIGIBLE:
            return _found6(fib, result, table, trace)
    begin = first_node6(fib.node, leaf_node(fib, leaf), src_hi, src_lo, trace)
    for _ in range(2):
        node = begin
        while node != NONE:
            if _select(h, flow, node, reachable, result, trace):
                return _found6(fib, result, table, trace)
            node = next_node6(fib.node, node, src_hi, src_lo)
        if not reachable:
            break
        reachable = 0
    note(trace, T_FIB_MISS6, fib.table[table, TABLE_ID], flow[FLOW_DST_HI], flow[FLOW_DST_LO])
    return EAGAIN


@kernel
def _suppressed6(h, rule, result):
    """Does the rule's suppressor discard this result (kernel: fib6_rule_suppress)?"""
    fib = h.fib6
    if fib.route[result[RES_ROUTE], ROUTE_PLEN] <= fib.rule[rule, RULE_SUPPRESS_PLEN]:
        return True
    group = fib.rule[rule, RULE_SUPPRESS_GROUP]
    return group != ANY and h.device[fib.nexthop[result[RES_NH], NH_DEVICE], DEV_GROUP] == group


@cold
def _rules_lookup6(h, s, row, trace):
    fib, flow, result = h.fib6, s.flow[row], s.result[row]
    rules = fib.rule
    find_l3mdev(h, flow)
    rule = 0
    while rule < rules.shape[0]:
        matches = rule_matches(h, rules, rule, flow, DSCP_MASK)
        if rules[rule, RULE_SRC_PLEN] and not flow[FLOW_HAS_SRC]:  # `from` needs a source
            matches = rules[rule, RULE_INVERT] != 0
        note(trace, T_RULE6, rule, matches)
        if not matches:
            rule += 1
            continue
        action = rules[rule, RULE_ACTION]
        if action == ACTION_GOTO and rules[rule, RULE_TARGET] > rule:
            rule = rules[rule, RULE_TARGET]
            continue
        result[RES_RULE] = rule
        if action == ACTION_UNREACHABLE:
            return ENETUNREACH
        if action == ACTION_PROHIBIT:
            return EACCES
        if action == ACTION_BLACKHOLE:
            return EINVAL
        table = rule_table(h, rules, rule, flow, DEV_VRF_TABLE6)
        if action == ACTION_LOOKUP and table != NONE:
            error = table_lookup6(h, s, row, table, trace)
            if error == 0 and _suppressed6(h, rule, result):
                note(trace, T_SUPPRESS6, rule, result[RES_ROUTE])
            elif error != EAGAIN:
                return error
            no_result(result)  # thrown or suppressed: it decides nothing
        rule += 1
    return ENETUNREACH


@kernel
def fib_lookup6(h, s, row, trace):
    """Find the route of flow `row`: 0 with `result[row]` filled, or the errno; and the multipath flag."""
    flow, result = s.flow[row], s.result[row]
    no_result(result)
    if h.conf[CONF_RULES6]:
        error = _rules_lookup6(h, s, row, trace)
    else:  # no custom rules: local (row 0), then main (row 1)
        error = table_lookup6(h, s, row, 0, trace)
        if error == EAGAIN and h.fib6.table.shape[0] > 1:
            error = table_lookup6(h, s, row, 1, trace)
        if error == EAGAIN:
            error = ENETUNREACH
            no_result(result)
    if error:
        note(trace, T_FIB_ERROR, error)
        return error, 0
    return 0, _select_path(h, s, flow, result, flow[FLOW_REACHABLE], trace)
