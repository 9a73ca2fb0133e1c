"""The keyed hash that finds a queue: HalfSipHash-1-3 (Aumasson and Bernstein, 2012).

The kernel hashes the same tuple with a secret of its own (jhash2, rhashtable); which bucket a queue
lands in can not be seen from outside.  With a secret nobody can aim at one bucket.
"""

from __future__ import annotations

from ippath.jit import hot
from ippath.tables import FM_FIRST_KEY, FM_SEED_HIGH, FM_SEED_LOW, KEY_WORDS

MASK = 0xFFFFFFFF
START2, START3 = 0x6C796765, 0x74656462


@hot
def _rotate(value, bits):
    return ((value << bits) & MASK) | (value >> (32 - bits))


@hot
def _round(v0, v1, v2, v3):
    v0 = (v0 + v1) & MASK
    v1 = _rotate(v1, 5) ^ v0
    v0 = _rotate(v0, 16)
    v2 = (v2 + v3) & MASK
    v3 = _rotate(v3, 8) ^ v2
    v0 = (v0 + v3) & MASK
    v3 = _rotate(v3, 7) ^ v0
    v2 = (v2 + v1) & MASK
    v1 = _rotate(v1, 13) ^ v2
    v2 = _rotate(v2, 16)
    return v0, v1, v2, v3


@hot
def key_hash(fm, wide):
    """32-bit hash of the key in FM_*; `wide`: also the upper halves of its words, as IPv6 needs."""
    low, high = fm[FM_SEED_LOW], fm[FM_SEED_HIGH]
    v0, v1, v2, v3 = low, high, low ^ START2, high ^ START3
    for k in range(FM_FIRST_KEY, FM_FIRST_KEY + KEY_WORDS):
        word = fm[k] & MASK
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        v0 ^= word
        if wide:
            word = (fm[k] >> 32) & MASK
            v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
            v0 ^= word
    v2 ^= 0xFF
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v1 ^ v3
