"""Options of messages that answer a packet with options (kernel: __ip_options_echo, ip_options_build).

A message records its way as the packet did, and goes back along its source route.
"""

from __future__ import annotations

from ippath.fib.local import is_elsewhere
from ippath.jit import cold, kernel
from ippath.tables import (
    ECHO_FIRST_HOP, ECHO_RR, ECHO_SRR, ECHO_TS_ADDRESS, ECHO_TS_TIME, OPT_CIPSO, OPT_RR,
    OPT_RR_ADDRESS, OPT_SRR, OPT_TS, OPT_TS_ADDRESS, OPT_TS_TIME, SCRATCH_HEADER, SCRATCH_OPTIONS,
    SKB_SRC_LO, SKB_TIME_NS,
)  # fmt: skip
from ippath.wire.ipv4 import IPOPT_END
from ippath.wire.memory import copy, load8, load32be, store8, store32be

INVALID = -1
TS_ONLY, TS_ADDRESS, TS_PRESPECIFIED = 0, 1, 3
DAY_MS = 86_400_000


@kernel
def milliseconds_today(s):
    """Milliseconds since midnight UT (kernel: inet_current_timestamp; RFC 791)."""
    return (s.skb[SKB_TIME_NS] // 1_000_000) % DAY_MS


@cold
def _echo_record_route(s, to):
    """Copy the record route option with a slot for this host; its size, or INVALID."""
    opt, buf = s.opt, s.scratch
    at = SCRATCH_HEADER + opt[OPT_RR]
    size, pointer = load8(buf, at + 1), load8(buf, at + 2)
    copy(buf, to, buf, at, size)
    if opt[OPT_RR_ADDRESS] and pointer <= size:
        if pointer + 3 > size:
            return INVALID
        store8(buf, to + 2, pointer + 4)
        opt[ECHO_RR] = to + pointer - 1
    return size


@cold
def _echo_timestamp(h, s, to):
    """Copy the timestamp option with a slot for this host; its size, or INVALID."""
    opt, buf = s.opt, s.scratch
    at = SCRATCH_HEADER + opt[OPT_TS]
    size, pointer = load8(buf, at + 1), load8(buf, at + 2)
    copy(buf, to, buf, at, size)
    if pointer > size:
        return size
    if opt[OPT_TS_ADDRESS]:
        if pointer + 3 > size:
            return INVALID
        opt[ECHO_TS_ADDRESS] = to + pointer - 1
        pointer += 4
    if opt[OPT_TS_TIME]:
        if pointer + 3 > size:
            return INVALID
        if load8(buf, to + 3) & 15 != TS_PRESPECIFIED:
            opt[ECHO_TS_TIME] = to + pointer - 1
            pointer += 4
        elif pointer + 7 <= size and not is_elsewhere(h, load32be(buf, to + pointer - 1)):
            opt[ECHO_TS_TIME] = to + pointer + 3  # the next address asked for is ours as well
            pointer += 8
    store8(buf, to + 2, pointer)
    return size


@cold
def _echo_source_route(s, to):
    """Turn the source route round; the size of the option, 0 where nothing is left of it."""
    opt, buf = s.opt, s.scratch
    at = SCRATCH_HEADER + opt[OPT_SRR]
    size, pointer = load8(buf, at + 1), load8(buf, at + 2)
    pointer = min(pointer, size + 1) - 4
    if pointer <= 3:
        return 0
    first = load32be(buf, at + pointer - 1)
    pointer -= 4
    written = 4
    while pointer > 3:
        store32be(buf, to + written - 1, load32be(buf, at + pointer - 1))
        pointer -= 4
        written += 4
    if load32be(buf, at + pointer + 3) == s.skb[SKB_SRC_LO]:
        written -= 4  # the sender put itself in the route (RFC 1812 section 4.2.2.6)
    if written <= 3:
        return 0
    opt[ECHO_FIRST_HOP] = first
    store8(buf, to, load8(buf, at))
    store8(buf, to + 1, written + 3)
    store8(buf, to + 2, 4)
    opt[ECHO_SRR] = to + written - 1
    return written + 3


@cold
def ip_options_echo(h, s):
    """Build the options of an answer in scratch; their size, padded, or INVALID.

    Sets ECHO_*: places still to fill in, and the first hop of a source route.
    """
    opt, buf = s.opt, s.scratch
    for field in range(ECHO_RR, ECHO_FIRST_HOP + 1):
        opt[field] = 0
    to = SCRATCH_OPTIONS
    if opt[OPT_RR]:
        size = _echo_record_route(s, to)
        if size < 0:
            return INVALID
        to += size
    if opt[OPT_TS]:
        size = _echo_timestamp(h, s, to)
        if size < 0:
            return INVALID
        to += size
    if opt[OPT_SRR]:
        to += _echo_source_route(s, to)
    if opt[OPT_CIPSO]:
        at = SCRATCH_HEADER + opt[OPT_CIPSO]
        size = load8(buf, at + 1)
        copy(buf, to, buf, at, size)
        to += size
    while (to - SCRATCH_OPTIONS) & 3:
        store8(buf, to, IPOPT_END)
        to += 1
    return to - SCRATCH_OPTIONS


@cold
def ip_options_build(s, source, target):
    """Fill in what was left open until the message had its route."""
    opt, buf = s.opt, s.scratch
    if opt[ECHO_SRR]:
        store32be(buf, opt[ECHO_SRR], target)
    if opt[ECHO_RR]:
        store32be(buf, opt[ECHO_RR], source)
    if opt[ECHO_TS_ADDRESS]:
        store32be(buf, opt[ECHO_TS_ADDRESS], source)
    if opt[ECHO_TS_TIME]:
        store32be(buf, opt[ECHO_TS_TIME], milliseconds_today(s))
