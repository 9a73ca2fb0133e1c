"""The key of a route look-up, and its empty result (kernel: struct flowi4, struct fib_result)."""

from __future__ import annotations

from ippath.jit import hot
from ippath.tables import (
    FLOW_DPORT, FLOW_DST_HI, FLOW_DST_LO, FLOW_IGNORE_LINKSTATE, FLOW_IIF, FLOW_L3MDEV, FLOW_LABEL, FLOW_MARK,
    FLOW_OIF, FLOW_PROTOCOL, FLOW_SCOPE, FLOW_SPORT, FLOW_SRC_HI, FLOW_SRC_LO, FLOW_TOS, NONE,
    RES_EXCEPTION, RES_INFO, RES_NH, RES_ROUTE, RES_RULE, RES_TABLE,
)  # fmt: skip


@hot
def fill_flow4(flow, source, destination, tos, mark, iif, oif):
    """Begin an IPv4 look-up key; what is not given is 0."""
    flow[FLOW_SRC_HI] = 0
    flow[FLOW_SRC_LO] = source
    flow[FLOW_DST_HI] = 0
    flow[FLOW_DST_LO] = destination
    flow[FLOW_TOS] = tos
    flow[FLOW_MARK] = mark
    flow[FLOW_IIF] = iif
    flow[FLOW_OIF] = oif
    flow[FLOW_L3MDEV] = NONE
    flow[FLOW_SCOPE] = 0
    flow[FLOW_IGNORE_LINKSTATE] = 0
    flow[FLOW_LABEL] = 0
    flow[FLOW_PROTOCOL] = 0
    flow[FLOW_SPORT] = 0
    flow[FLOW_DPORT] = 0


@hot
def no_result(result):
    """Empty the result of a look-up: nothing decided."""
    result[RES_ROUTE] = NONE
    result[RES_INFO] = NONE
    result[RES_NH] = NONE
    result[RES_RULE] = NONE
    result[RES_TABLE] = NONE
    result[RES_EXCEPTION] = NONE
