"""The keyed hash that finds a queue: NH, the universal hash of UMAC (RFC 4418 section 5.2.2).

With secret words nobody can aim at one bucket: two keys collide with a probability of 2**-32 over
all secrets, whichever they are.  The kernel hashes the same tuple with a secret of its own (jhash2,
rhashtable); which bucket a queue lands in can not be seen from outside.
"""

from __future__ import annotations

from ippath.fib.multipath import mix32
from ippath.jit import hot
from ippath.tables import (
    FM_DST_LO, FM_FIRST_KEY, FM_ID, FM_SECRET_0, FM_SRC_LO, FM_USER, KEY_WORDS, SECRETS,
)  # fmt: skip

MASK = 0xFFFFFFFF


@hot
def _product(fm, secret, one, other):
    """(one + secret) * (other + next secret), each sum of 32 bits; 64 bits count, as a pattern."""
    return ((one + int(fm[secret])) & MASK) * ((other + int(fm[secret + 1])) & MASK)


@hot
def key_hash(fm, wide):
    """32-bit hash of the key in FM_*; `wide`: also the upper halves of its words, as IPv6 needs."""
    if wide:
        total = 0
        for k in range(KEY_WORDS):
            word = int(fm[FM_FIRST_KEY + k])
            total += _product(fm, FM_SECRET_0 + 2 * k, word, word >> 32)
    else:
        total = _product(fm, FM_SECRET_0, int(fm[FM_SRC_LO]), int(fm[FM_DST_LO]))
        total += _product(fm, FM_SECRET_0 + 2, int(fm[FM_ID]), int(fm[FM_USER]))
    return mix32(mix32(fm[FM_SECRET_0 + SECRETS - 1], total), total >> 32)
