"""Choosing one of several next hops by hash (kernel: fib_multipath_hash, fib_select_multipath).

The hash is the kernel's, SipHash over its flow keys (flow_hash_from_keys_seed): with one
`net.ipv4.fib_multipath_hash_seed` both choose the same next hop.  Without one the kernel's seed is
random, and ours follows from the host's `seed`.
"""

from __future__ import annotations

from ippath.jit import cold, hot, kernel
from ippath.tables import (
    CONF_HASH_FIELDS4, CONF_HASH_FIELDS6, CONF_HASH_POLICY4, CONF_HASH_POLICY6, CONF_HASH_SEED,
    FLOW_DPORT, FLOW_DST_HI, FLOW_DST_LO, FLOW_LABEL, FLOW_PROTOCOL, FLOW_SPORT, FLOW_SRC_HI,
    FLOW_SRC_LO, INFO_NH_COUNT, INFO_NH_FIRST, NH_BOUND, NONE,
)  # fmt: skip
from ippath.wire.siphash import sip_end, sip_start, sip_word

HALF = 0xFFFFFFFF
FLIP = -(1 << 63)  # makes signed order that of addresses
OUTER = 0x3F  # fields of the packet itself
INNER_SHIFT = 6  # as many bits on, the same fields of what a tunnel carries
JHASH_START = (0xDEADBEEF + (2 << 2)) & HALF
KEYS4, KEYS6 = 48, 72  # bytes of flow keys that are hashed
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
def policy_fields(policy, fields, family6):
    """The FIELD_* that a policy hashes; those of policy 3 are `fields`, its sysctl."""
    if policy == 1:
        return FIELD_SADDR | FIELD_DADDR | FIELD_PROTOCOL | FIELD_SPORT | FIELD_DPORT
    if policy == 3:
        return fields & OUTER
    if family6:
        return FIELD_SADDR | FIELD_DADDR | FIELD_PROTOCOL | FIELD_LABEL
    return FIELD_SADDR | FIELD_DADDR


@kernel
def _swapped(value):
    """The 32 bits of `value` with their bytes in the other order."""
    value = ((value & 0x00FF00FF) << 8) | ((value >> 8) & 0x00FF00FF)
    return ((value << 16) | (value >> 16)) & HALF


@kernel
def _precedes(a_hi, a_lo, b_hi, b_lo):
    """Is the IPv6 address a less than b, byte by byte?"""
    if a_hi != b_hi:
        return (a_hi ^ FLIP) < (b_hi ^ FLIP)
    return (a_lo ^ FLIP) < (b_lo ^ FLIP)


@kernel
def _take_address6(v, before, hi, lo):
    """Take in the four words of an IPv6 address; `before` is the word that waits for its other half."""
    v = sip_word(v, _swapped((hi >> 32) & HALF), before)
    v = sip_word(v, _swapped((lo >> 32) & HALF), _swapped(hi & HALF))
    return v, _swapped(lo & HALF)


@cold
def flow_hash(h, flow, fields, family6, dissected):
    """Hash of the chosen fields of a flow, 32 bits and never 0 (kernel: flow_hash_from_keys_seed).

    `dissected`: the flow dissector found the label, and leaves it in the host's byte order.
    """
    seed = h.conf[CONF_HASH_SEED] & HALF
    src_hi, src_lo, dst_hi, dst_lo = 0, 0, 0, 0
    if fields & FIELD_SADDR:
        src_hi, src_lo = flow[FLOW_SRC_HI], flow[FLOW_SRC_LO]
    if fields & FIELD_DADDR:
        dst_hi, dst_lo = flow[FLOW_DST_HI], flow[FLOW_DST_LO]
    protocol = flow[FLOW_PROTOCOL] if fields & FIELD_PROTOCOL else 0
    label = flow[FLOW_LABEL] if family6 and fields & FIELD_LABEL else 0
    if not dissected:
        label = _swapped(label)
    sport = flow[FLOW_SPORT] if fields & FIELD_SPORT else 0
    dport = flow[FLOW_DPORT] if fields & FIELD_DPORT else 0
    # both directions of a flow hash alike (kernel: __flow_hash_consistentify)
    sport, dport = _swapped(sport) >> 16, _swapped(dport) >> 16
    if dport < sport:
        sport, dport = dport, sport
    v = sip_start(seed, seed)
    v = sip_word(v, label, protocol << 16)
    v = sip_word(v, 0, 0)  # VLAN tags
    v = sip_word(v, 0, 0)
    v = sip_word(v, sport | dport << 16, 0)
    if family6:
        if _precedes(dst_hi, dst_lo, src_hi, src_lo):
            src_hi, src_lo, dst_hi, dst_lo = dst_hi, dst_lo, src_hi, src_lo
        v, rest = _take_address6(v, 0, src_hi, src_lo)
        v, rest = _take_address6(v, rest, dst_hi, dst_lo)
        hashed = sip_end(sip_word(v, 0, rest), KEYS6)
    else:
        source, destination = _swapped(src_lo), _swapped(dst_lo)
        if destination < source:
            source, destination = destination, source
        hashed = sip_end(sip_word(sip_word(v, source, 0), 0, destination), KEYS4)
    return max(hashed, 1)


@cold
def multipath_hash(h, flow, family6):
    """31-bit hash of a flow that is about to be sent, by fib_multipath_hash_policy."""
    policy = h.conf[CONF_HASH_POLICY6] if family6 else h.conf[CONF_HASH_POLICY4]
    fields = h.conf[CONF_HASH_FIELDS6] if family6 else h.conf[CONF_HASH_FIELDS4]
    return flow_hash(h, flow, policy_fields(policy, fields, family6), family6, False) >> 1


@kernel
def _left(value, by):
    return ((value << by) | (value >> (32 - by))) & HALF


@kernel
def join_hashes(outer, inner):
    """One hash of those of the outer and of the inner fields (kernel: jhash_2words, policy 3)."""
    a = (outer + JHASH_START) & HALF
    b = (inner + JHASH_START) & HALF
    c = JHASH_START
    c = ((c ^ b) - _left(b, 14)) & HALF
    a = ((a ^ c) - _left(c, 11)) & HALF
    b = ((b ^ a) - _left(a, 25)) & HALF
    c = ((c ^ b) - _left(b, 16)) & HALF
    a = ((a ^ c) - _left(c, 4)) & HALF
    b = ((b ^ a) - _left(a, 14)) & HALF
    return ((c ^ b) - _left(b, 24)) & HALF


@cold
def select_multipath(fib, info, hashed):
    """The next hop whose bound first reaches the hash; NONE if no next hop is alive."""
    first = fib.info[info, INFO_NH_FIRST]
    for nh in range(first, first + fib.info[info, INFO_NH_COUNT]):
        if hashed <= fib.nexthop[nh, NH_BOUND]:
            return nh
    return NONE
