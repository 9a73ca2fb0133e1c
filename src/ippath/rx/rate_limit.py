"""Rate limits of ICMP: one token bucket per peer, one for all (kernel: inet_peer_xrlim_allow,
icmp_global_allow).

Peers live in a fixed table of small sets; a full set gives up its oldest entry, so that forged
sources cannot grow it.
"""

from __future__ import annotations

from ippath.fib.multipath import mix32
from ippath.jit import kernel
from ippath.tables import (
    CONF_HASH_SEED, CONF_ICMP_MSGS_BURST, CONF_ICMP_MSGS_PER_SEC, MISC_ICMP_CREDIT,
    MISC_ICMP_STAMP_NS, MISC_NOW_NS, MISC_RANDOM, PEER_FRAGMENTS, PEER_HI, PEER_LAST_NS, PEER_LO,
    PEER_REDIRECTS, PEER_TOKENS_NS, PEER_USED, PEER_WAYS,
)  # fmt: skip

BURST = 6  # XRLIM_BURST_FACTOR
SECOND = 1_000_000_000
FRESH = 60 * SECOND  # a new peer has been silent this long


@kernel
def random32(s):
    """Next number of the host's own generator (xorshift, 32 bits): runs repeat with the seed."""
    value = s.misc[MISC_RANDOM] & 0xFFFFFFFF
    value ^= (value << 13) & 0xFFFFFFFF
    value ^= value >> 17
    value ^= (value << 5) & 0xFFFFFFFF
    s.misc[MISC_RANDOM] = value
    return value


@kernel
def find_peer(h, s, family, hi, lo):
    """Row of the peer with this address, made if it is new (kernel: inet_getpeer)."""
    key = h.conf[CONF_HASH_SEED] & 0xFFFFFFFF
    key = mix32(mix32(mix32(mix32(key, hi), hi >> 32), lo), lo >> 32)
    first = (key * PEER_WAYS) & (s.peer.shape[0] - 1)
    oldest = first
    for row in range(first, first + PEER_WAYS):
        if (
            s.peer[row, PEER_USED] == family
            and s.peer[row, PEER_HI] == hi
            and s.peer[row, PEER_LO] == lo
        ):
            return row
        if s.peer[row, PEER_USED] == 0:
            oldest = row
            break
        if s.peer[row, PEER_LAST_NS] < s.peer[oldest, PEER_LAST_NS]:
            oldest = row
    now = s.misc[MISC_NOW_NS]
    s.peer[oldest, PEER_USED] = family
    s.peer[oldest, PEER_HI] = hi
    s.peer[oldest, PEER_LO] = lo
    s.peer[oldest, PEER_TOKENS_NS] = 0
    s.peer[oldest, PEER_LAST_NS] = now - FRESH
    s.peer[oldest, PEER_REDIRECTS] = 0
    s.peer[oldest, PEER_FRAGMENTS] = 0
    return oldest


@kernel
def peer_allows(s, peer, interval, burst=BURST):
    """Take one token of `interval` ns from the peer's bucket; False if it has none.

    ICMP, error routes and redirects share the bucket's clock, and with different tokens the bucket.
    """
    now = s.misc[MISC_NOW_NS]
    tokens = s.peer[peer, PEER_TOKENS_NS] + max(0, now - s.peer[peer, PEER_LAST_NS])
    s.peer[peer, PEER_LAST_NS] = now
    tokens = min(tokens, burst * interval)
    allowed = tokens >= interval
    if allowed:
        tokens -= interval
    s.peer[peer, PEER_TOKENS_NS] = tokens
    return allowed


@kernel
def global_allows(h, s):
    """Is there credit in the bucket that all ICMP messages share?"""
    if s.misc[MISC_ICMP_CREDIT] > 0:
        return True
    now = s.misc[MISC_NOW_NS]
    elapsed = min(now - s.misc[MISC_ICMP_STAMP_NS], SECOND)
    if elapsed < SECOND // 50:
        return False
    increment = h.conf[CONF_ICMP_MSGS_PER_SEC] * (elapsed // 1_000_000) // 1000
    if increment == 0:
        return False
    s.misc[MISC_ICMP_STAMP_NS] = now
    s.misc[MISC_ICMP_CREDIT] = min(
        s.misc[MISC_ICMP_CREDIT] + increment, h.conf[CONF_ICMP_MSGS_BURST]
    )
    return True


@kernel
def global_consume(s):
    """Charge a random 0, 1 or 2 messages (since 5.10, so that the bucket cannot be read out)."""
    s.misc[MISC_ICMP_CREDIT] -= random32(s) % 3
