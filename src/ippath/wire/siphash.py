"""SipHash-2-4 over words of 64 bits, each as two halves of 32 (Aumasson and Bernstein 2012).

Halves, because the same source runs compiled, where integers end at 64 bits, and as plain Python.
"""

from __future__ import annotations

from ippath.jit import kernel

HALF = 0xFFFFFFFF
# "somepseudorandomlygeneratedbytes"
C0H, C0L, C1H, C1L = 0x736F6D65, 0x70736575, 0x646F7261, 0x6E646F6D
C2H, C2L, C3H, C3L = 0x6C796765, 0x6E657261, 0x74656462, 0x79746573


@kernel
def _add(ah, al, bh, bl):
    low = al + bl
    return (ah + bh + (low >> 32)) & HALF, low & HALF


@kernel
def _rotated(h, lo, by):
    """Rotated to the left by less than 32."""
    return (
        ((h << by) | (lo >> (32 - by))) & HALF,
        ((lo << by) | (h >> (32 - by))) & HALF,
    )


@kernel
def sip_round(v):
    """One SipRound on (v0 high, v0 low, … v3 low)."""
    h0, l0, h1, l1, h2, l2, h3, l3 = v
    h0, l0 = _add(h0, l0, h1, l1)
    h1, l1 = _rotated(h1, l1, 13)
    h1, l1 = h1 ^ h0, l1 ^ l0
    h0, l0 = l0, h0
    h2, l2 = _add(h2, l2, h3, l3)
    h3, l3 = _rotated(h3, l3, 16)
    h3, l3 = h3 ^ h2, l3 ^ l2
    h0, l0 = _add(h0, l0, h3, l3)
    h3, l3 = _rotated(h3, l3, 21)
    h3, l3 = h3 ^ h0, l3 ^ l0
    h2, l2 = _add(h2, l2, h1, l1)
    h1, l1 = _rotated(h1, l1, 17)
    h1, l1 = h1 ^ h2, l1 ^ l2
    h2, l2 = l2, h2
    return h0, l0, h1, l1, h2, l2, h3, l3


@kernel
def sip_start(key_high, key_low):
    """The state for a key whose two words are equal."""
    return (
        key_high ^ C0H, key_low ^ C0L, key_high ^ C1H, key_low ^ C1L,
        key_high ^ C2H, key_low ^ C2L, key_high ^ C3H, key_low ^ C3L,
    )  # fmt: skip


@kernel
def sip_word(v, high, low):
    """Take in one word."""
    h0, l0, h1, l1, h2, l2, h3, l3 = v
    h0, l0, h1, l1, h2, l2, h3, l3 = sip_round(
        sip_round((h0, l0, h1, l1, h2, l2, h3 ^ high, l3 ^ low))
    )
    return h0 ^ high, l0 ^ low, h1, l1, h2, l2, h3, l3


@kernel
def sip_end(v, length):
    """The low half of the hash of a message of `length` bytes, a multiple of 8."""
    h0, l0, h1, l1, h2, l2, h3, l3 = sip_word(v, (length & 0xFF) << 24, 0)
    h0, l0, h1, l1, h2, l2, h3, l3 = sip_round(
        sip_round(sip_round(sip_round((h0, l0, h1, l1, h2, l2 ^ 0xFF, h3, l3))))
    )
    return l0 ^ l1 ^ l2 ^ l3
