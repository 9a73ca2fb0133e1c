"""IPv4 route look-up (kernel: fib_lookup, fib_table_lookup).

In:  a row of `state.flow`.   Out: the same row of `state.result`, and 0 or an errno.
"""

from __future__ import annotations

from ippath.fib.flow import no_result
from ippath.fib.rules import TOS_MASK4, find_l3mdev, rule_matches, rule_table
from ippath.fib.search import search4
from ippath.jit import cold, hot, kernel
from ippath.tables import (
    ACTION_BLACKHOLE, ACTION_GOTO, ACTION_LOOKUP, ACTION_PROHIBIT, ACTION_UNREACHABLE, ANY,
    CONF_RULES4, DEV_GROUP, DEV_VRF_TABLE4, DEV_IGNORE_LINKDOWN4, EACCES, EAGAIN, EHOSTUNREACH, EINVAL, ENETUNREACH,
    FLOW_DST_LO, FLOW_IGNORE_LINKSTATE, FLOW_OIF, FLOW_SCOPE, FLOW_TOS, INFO_NH_COUNT,
    INFO_NH_FIRST, INFO_OBJECT, INFO_SCOPE, INFO_TOS, INFO_TYPE, LEAF_INFO_BITS, NH_DEAD, NH_DEVICE,
    NH_LINKDOWN, NODE_COUNT, NODE_FIRST, NODE_PARENT, NONE, OBJECT_NONE, RES_INFO, RES_NH,
    RES_ROUTE, RES_RULE, RES_TABLE, RES_TYPE, ROUTE_INFO, ROUTE_NODE, ROUTE_PLEN, RTN_BLACKHOLE,
    RTN_PROHIBIT, RTN_THROW, RTN_UNREACHABLE, RULE_ACTION, RULE_SUPPRESS_GROUP, RULE_SUPPRESS_PLEN,
    RULE_TARGET, TABLE_ID,
)  # fmt: skip
from ippath.trace import (
    SKIP_HOPS, SKIP_SCOPE, SKIP_TOS, T_FIB_ERROR, T_FIB_MISS4, T_RULE4, T_SKIP4, T_SUPPRESS4,
    T_TABLE4, note,
)  # fmt: skip

PASSED_OVER = -1
NODE_PASSED_OVER = -2  # with the other routes of the same prefix
LEAF_INFO_MASK = (1 << LEAF_INFO_BITS) - 1


@hot
def route_type_error(kind):
    """The errno of a route type that refuses (kernel: fib_props), or 0."""
    if kind == RTN_UNREACHABLE:
        return EHOSTUNREACH
    if kind == RTN_PROHIBIT:
        return EACCES
    if kind == RTN_BLACKHOLE:
        return EINVAL
    if kind == RTN_THROW:
        return EAGAIN
    return 0


@hot
def _usable_nexthop4(h, info, flow):
    """First usable next hop, or NONE (kernel: fib_lookup_good_nhc)."""
    fib = h.fib4
    first = fib.info[info, INFO_NH_FIRST]
    for nh in range(first, first + fib.info[info, INFO_NH_COUNT]):
        device = fib.nexthop[nh, NH_DEVICE]
        if fib.nexthop[nh, NH_DEAD]:
            continue
        if (
            fib.nexthop[nh, NH_LINKDOWN]
            and flow[FLOW_IGNORE_LINKSTATE] == 0
            and h.device[device, DEV_IGNORE_LINKDOWN4]
        ):
            continue
        if flow[FLOW_OIF] == NONE or flow[FLOW_OIF] == device:
            return nh
    return NONE


@hot
def _take4(h, flow, result, table, route, info, trace):
    """Try one route: 0 or a refusing errno with the result filled, or (NODE_)PASSED_OVER."""
    fib = h.fib4
    tos = fib.info[info, INFO_TOS]
    if tos and tos != flow[FLOW_TOS] & TOS_MASK4:
        note(trace, T_SKIP4, route, SKIP_TOS)
        return PASSED_OVER
    if fib.info[info, INFO_SCOPE] < flow[FLOW_SCOPE]:
        note(trace, T_SKIP4, route, SKIP_SCOPE)
        return PASSED_OVER
    kind = fib.info[info, INFO_TYPE]
    error = route_type_error(kind)
    nh = NONE
    if error == 0:
        nh = _usable_nexthop4(h, info, flow)
        if nh == NONE:
            note(trace, T_SKIP4, route, SKIP_HOPS)
            return PASSED_OVER if fib.info[info, INFO_OBJECT] == OBJECT_NONE else NODE_PASSED_OVER
    result[RES_ROUTE] = route
    result[RES_INFO] = info
    result[RES_NH] = nh
    result[RES_TYPE] = kind
    result[RES_TABLE] = fib.table[table, TABLE_ID]
    note(trace, T_TABLE4, fib.table[table, TABLE_ID], route)
    return error


@cold
def _walk4(h, flow, result, table, node, trace):
    """Try the routes of a node, then those of shorter prefixes."""
    fib = h.fib4
    while node != NONE:
        first = fib.node[node, NODE_FIRST]
        for route in range(first, first + fib.node[node, NODE_COUNT]):
            taken = _take4(h, flow, result, table, route, fib.route[route, ROUTE_INFO], trace)
            if taken >= 0:
                return taken
            if taken == NODE_PASSED_OVER:
                break
        node = fib.node[node, NODE_PARENT]
    note(trace, T_FIB_MISS4, fib.table[table, TABLE_ID], flow[FLOW_DST_LO])
    return EAGAIN


@hot
def table_lookup4(h, s, row, table, trace):
    """Look one table up: 0 with a result, EAGAIN for no match or throw, or a refusing errno."""
    fib, flow, result = h.fib4, s.flow[row], s.result[row]
    leaf = search4(fib, table, flow[FLOW_DST_LO])
    if leaf >= NONE:
        return _walk4(h, flow, result, table, leaf, trace)
    route, info = (-2 - leaf) >> LEAF_INFO_BITS, (-2 - leaf) & LEAF_INFO_MASK
    taken = _take4(h, flow, result, table, route, info, trace)
    if taken >= 0:
        return taken
    parent = fib.node[fib.route[route, ROUTE_NODE], NODE_PARENT]
    return _walk4(h, flow, result, table, parent, trace)


@kernel
def _suppressed4(h, rule, result):
    """Does the rule's suppressor discard this result (kernel: fib4_rule_suppress)?"""
    fib = h.fib4
    if fib.route[result[RES_ROUTE], ROUTE_PLEN] <= fib.rule[rule, RULE_SUPPRESS_PLEN]:
        return True
    group = fib.rule[rule, RULE_SUPPRESS_GROUP]
    return (
        group != ANY
        and result[RES_NH] != NONE
        and h.device[fib.nexthop[result[RES_NH], NH_DEVICE], DEV_GROUP] == group
    )


@cold
def _rules_lookup4(h, s, row, trace):
    fib, flow, result = h.fib4, s.flow[row], s.result[row]
    rules = fib.rule
    find_l3mdev(h, flow)
    rule = 0
    while rule < rules.shape[0]:
        matches = rule_matches(h, rules, rule, flow, TOS_MASK4)
        note(trace, T_RULE4, rule, matches)
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
        table = rule_table(h, rules, rule, flow, DEV_VRF_TABLE4)
        if action == ACTION_LOOKUP and table != NONE:
            error = table_lookup4(h, s, row, table, trace)
            if error == 0 and _suppressed4(h, rule, result):
                note(trace, T_SUPPRESS4, rule, result[RES_ROUTE])
            elif error != EAGAIN:
                return error
            no_result(result)  # thrown or suppressed: it decides nothing
        rule += 1
    return ENETUNREACH


@hot
def fib_lookup4(h, s, row, trace):
    """Find the route of flow `row`; 0 with `result[row]` filled, or the errno of the failure."""
    result = s.result[row]
    no_result(result)
    if h.conf[CONF_RULES4]:
        error = _rules_lookup4(h, s, row, trace)
        if error:
            note(trace, T_FIB_ERROR, error)
        return error
    # no custom rules ever: local and main are one table (row 0), default (row 1) comes after
    error = table_lookup4(h, s, row, 0, trace)
    if error == EAGAIN:
        if h.fib4.table.shape[0] > 1:
            error = table_lookup4(h, s, row, 1, trace)
        if error == EAGAIN:
            error = ENETUNREACH
            no_result(result)
    if error:
        note(trace, T_FIB_ERROR, error)
    return error
