"""The way that a sender found last, for as long as nothing changed that it depends on.

Kernel: sk_dst_cache and sk_dst_check; rt_genid, fnhe_genid and fn_sernum are one number here,
MISC_GENERATION, which any change of routes, rules, addresses, devices or of what was learned about
destinations moves on.

In:  a message.   Out: the OUTPUT rows of `state.flow` and `state.result`.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.tables import (
    EXC_EXPIRES_NS, FLOW_COLUMNS, FLOW_OUTPUT, MISC_GENERATION, MISC_NOW_NS, NONE, RES_COLUMNS,
    RES_EXCEPTION, SEND_KEY, WAY_FLOW, WAY_GENERATION, WAY_RESULT,
)  # fmt: skip


@hot
def way_stands(s, way, m, row):
    """Does the way that was found last answer this message, too?"""
    if way[WAY_GENERATION] != s.misc[MISC_GENERATION]:
        return False
    for column in range(SEND_KEY):
        if way[column] != m[row, column]:
            return False
    exception = way[WAY_RESULT + RES_EXCEPTION]
    if exception == NONE:
        return True
    expires = s.exception[exception, EXC_EXPIRES_NS]
    return expires == 0 or s.misc[MISC_NOW_NS] <= expires


@kernel
def take_way(s, way):
    """Answer with the way that was found last."""
    for column in range(FLOW_COLUMNS):
        s.flow[FLOW_OUTPUT, column] = way[WAY_FLOW + column]
    for column in range(RES_COLUMNS):
        s.result[FLOW_OUTPUT, column] = way[WAY_RESULT + column]


@kernel
def keep_way(s, way, m, row):
    """Remember the answer to this message."""
    way[WAY_GENERATION] = s.misc[MISC_GENERATION]
    for column in range(SEND_KEY):
        way[column] = m[row, column]
    for column in range(FLOW_COLUMNS):
        way[WAY_FLOW + column] = s.flow[FLOW_OUTPUT, column]
    for column in range(RES_COLUMNS):
        way[WAY_RESULT + column] = s.result[FLOW_OUTPUT, column]
