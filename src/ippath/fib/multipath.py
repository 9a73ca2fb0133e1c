"""Choosing one of several next hops by hash (kernel: fib_multipath_hash, fib_select_multipath).

The kernel's hash function and seed are not part of its interface; the threshold rule is.  A 32-bit
multiply-and-xor hash with a per-host seed stands in, so that a run can be repeated.
"""

from __future__ import annotations

from ippath.jit import cold, hot, kernel
from ippath.tables import (
    CONF_HASH_FIELDS4, CONF_HASH_FIELDS6, CONF_HASH_POLICY4, CONF_HASH_POLICY6, CONF_HASH_SEED,
    FLOW_DPORT, FLOW_DST_HI, FLOW_DST_LO, FLOW_LABEL, FLOW_PROTOCOL, FLOW_SPORT, FLOW_SRC_HI,
    FLOW_SRC_LO, NH_BOUND, NONE, ROUTE_NH_COUNT, ROUTE_NH_FIRST,
)  # fmt: skip

FIELD_SADDR, FIELD_DADDR, FIELD_PROTOCOL, FIELD_LABEL, FIELD_SPORT, FIELD_DPORT = (
    1, 2, 4, 8, 16, 32,
)  # fmt: skip


@hot
def mix32(state, value):
    """Stir the 32 low bits of `value` into a 32-bit hash state."""
    state = (state ^ (value & 0xFFFFFFFF)) & 0xFFFFFFFF
    state = (state * 0x7FEB352D) & 0xFFFFFFFF
    state ^= state >> 15
    state = (state * 0x46A1AD2B) & 0xFFFFFFFF
    return state ^ (state >> 16)


@kernel
def _mix64(state, value):
    return mix32(mix32(state, value), value >> 32)


@kernel
def _fields(policy, fields, family6):
    if policy == 1:
        return FIELD_SADDR | FIELD_DADDR | FIELD_PROTOCOL | FIELD_SPORT | FIELD_DPORT
    if policy == 3:
        return fields
    if family6:
        return FIELD_SADDR | FIELD_DADDR | FIELD_PROTOCOL | FIELD_LABEL
    return FIELD_SADDR | FIELD_DADDR


@cold
def multipath_hash(h, flow, family6):
    """31-bit hash of the flow by fib_multipath_hash_policy."""
    if family6:
        fields = _fields(h.conf[CONF_HASH_POLICY6], h.conf[CONF_HASH_FIELDS6], True)
    else:
        fields = _fields(h.conf[CONF_HASH_POLICY4], h.conf[CONF_HASH_FIELDS4], False)
    state = h.conf[CONF_HASH_SEED] & 0xFFFFFFFF
    if fields & FIELD_SADDR:
        state = _mix64(_mix64(state, flow[FLOW_SRC_HI]), flow[FLOW_SRC_LO])
    if fields & FIELD_DADDR:
        state = _mix64(_mix64(state, flow[FLOW_DST_HI]), flow[FLOW_DST_LO])
    if fields & FIELD_PROTOCOL:
        state = mix32(state, flow[FLOW_PROTOCOL])
    if fields & FIELD_LABEL:
        state = mix32(state, flow[FLOW_LABEL])
    if fields & FIELD_SPORT:
        state = mix32(state, flow[FLOW_SPORT])
    if fields & FIELD_DPORT:
        state = mix32(state, flow[FLOW_DPORT])
    return state >> 1


@cold
def select_multipath(fib, route, hashed):
    """The next hop whose bound first reaches the hash; NONE if no next hop is alive."""
    first = fib.route[route, ROUTE_NH_FIRST]
    for nh in range(first, first + fib.route[route, ROUTE_NH_COUNT]):
        if hashed <= fib.nexthop[nh, NH_BOUND]:
            return nh
    return NONE
