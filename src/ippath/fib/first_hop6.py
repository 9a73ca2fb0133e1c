"""Which route leads to a destination through a given router (kernel: __ip6_route_redirect).

All routes of a node count, not only the best, and learned ones too: whoever is a first hop for the
destination may say that another is better.
"""

from __future__ import annotations

from ippath.fib.exceptions import any_exceptions, find_exception, owner6
from ippath.fib.lookup6 import first_node6, next_node6
from ippath.fib.rules import DSCP_MASK, find_l3mdev, rule_matches, rule_table
from ippath.fib.search import leaf_node, search6
from ippath.jit import cold, kernel
from ippath.tables import (
    DEV_VRF_TABLE6,
    ACTION_LOOKUP, CONF_RULES6, EXC_GATEWAY_HI, EXC_GATEWAY_LO, FLOW_DST_HI, FLOW_DST_LO, FLOW_OIF,
    FLOW_SRC_HI, FLOW_SRC_LO, INFO_NH_COUNT, INFO_NH_FIRST, INFO_TYPE, NH_DEAD, NH_DEVICE,
    NH_GATEWAY_FAMILY, NH_HI, NH_LO, NODE_COUNT, NODE_FIRST, NONE, ROUTE_INFO, RTN_ANYCAST,
    RTN_LOCAL, RTN_MULTICAST, RTN_UNICAST, RULE_ACTION,
)  # fmt: skip

NOT_HERE, REFUSING = -1, -2


@kernel
def _leads_by(h, s, flow, route, nh, hi, lo):
    """Is the router the gateway of a next hop, or what was learned to be better than it?"""
    hop = h.fib6.nexthop[nh]
    if hop[NH_DEAD] or not hop[NH_GATEWAY_FAMILY] or hop[NH_DEVICE] != flow[FLOW_OIF]:
        return False
    if hop[NH_HI] == hi and hop[NH_LO] == lo:
        return True
    if not any_exceptions(s):
        return False
    row = find_exception(s, owner6(h, route, nh), 6, flow[FLOW_DST_HI], flow[FLOW_DST_LO])
    return (
        row != NONE
        and s.exception[row, EXC_GATEWAY_HI] == hi
        and s.exception[row, EXC_GATEWAY_LO] == lo
    )


@kernel
def _in_node(h, s, flow, node, hi, lo):
    """(route, next hop) of a node by the router; NOT_HERE, or REFUSING for a route that rejects."""
    fib = h.fib6
    first = fib.node[node, NODE_FIRST]
    for route in range(first, first + fib.node[node, NODE_COUNT]):
        info = fib.route[route, ROUTE_INFO]
        kind = fib.info[info, INFO_TYPE]
        if kind not in (RTN_UNICAST, RTN_LOCAL, RTN_ANYCAST, RTN_MULTICAST):
            return REFUSING, NONE
        start = fib.info[info, INFO_NH_FIRST]
        for nh in range(start, start + fib.info[info, INFO_NH_COUNT]):
            if _leads_by(h, s, flow, route, nh, hi, lo):
                return route, nh
    return NOT_HERE, NONE


@kernel
def _in_table(h, s, flow, table, hi, lo, trace):
    """The same of a table, from its longest prefix on."""
    fib = h.fib6
    src_hi, src_lo = flow[FLOW_SRC_HI], flow[FLOW_SRC_LO]
    leaf = search6(fib, table, flow[FLOW_DST_HI], flow[FLOW_DST_LO])
    node = first_node6(fib.node, leaf_node(fib, leaf), src_hi, src_lo, trace)
    while node != NONE:
        route, nh = _in_node(h, s, flow, node, hi, lo)
        if route != NOT_HERE:
            return route, nh
        node = next_node6(fib.node, node, src_hi, src_lo)
    return NOT_HERE, NONE


@cold
def first_hop6(h, s, row, hi, lo, trace):
    """(route, next hop) by which flow `row` goes through the router (hi, lo), else a route < 0."""
    flow, fib = s.flow[row], h.fib6
    if not h.conf[CONF_RULES6]:  # local (row 0), then main (row 1)
        route, nh = NOT_HERE, NONE
        for table in range(min(2, fib.table.shape[0])):
            if route == NOT_HERE:
                route, nh = _in_table(h, s, flow, table, hi, lo, trace)
        return route, nh
    find_l3mdev(h, flow)
    for rule in range(fib.rule.shape[0]):
        if fib.rule[rule, RULE_ACTION] != ACTION_LOOKUP:
            continue
        if rule_matches(h, fib.rule, rule, flow, DSCP_MASK):
            table = rule_table(h, fib.rule, rule, flow, DEV_VRF_TABLE6)
            if table == NONE:
                continue
            route, nh = _in_table(h, s, flow, table, hi, lo, trace)
            if route != NOT_HERE:
                return route, nh
    return NOT_HERE, NONE
