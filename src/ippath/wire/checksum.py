"""The Internet checksum (RFC 1071), its pseudo headers and its incremental update (RFC 1624).

Partial sums are int64 sums of words in memory order; `fold` brings one to 16 bits in network order.
65,535 bytes add at most 2**46, so partial sums never overflow.  A valid packet sums to "all ones":
a multiple of 65535, whatever the byte order, so that verifying needs no folding.
"""

from __future__ import annotations

from ippath.jit import cold, hot, kernel
from ippath.wire.memory import load8, load16le, load32le, load64le


MASK = 0xFFFFFFFF
LARGEST = (1 << 62) - 1  # tells the compiler that a sum is never negative
HEADER = 20


@hot
def partial(buf, offset, count):
    """Sum of `count` bytes from `offset`, in memory order, not folded."""
    total = 0
    words = count >> 3
    for k in range(words):
        word = load64le(buf, offset + 8 * k)
        total += (word & MASK) + ((word >> 32) & MASK)
    at = offset + 8 * words
    if count & 4:
        total += load32le(buf, at)
        at += 4
    if count & 2:
        total += load16le(buf, at)
        at += 2
    if count & 1:
        total += load8(buf, at)
    return total


@hot
def fold(total):
    """A partial sum in memory order as a 16-bit sum in network order (not complemented)."""
    total = (total & 0xFFFFFFFF) + (total >> 32)
    total = (total & 0xFFFFFFFF) + (total >> 32)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return ((total & 0xFF) << 8) | (total >> 8)


@hot
def all_ones(total):
    """Does a partial sum fold to all ones?"""
    return total > 0 and (total & LARGEST) % 0xFFFF == 0


@hot
def checksum(buf, offset, count):
    """The checksum to store for `count` bytes whose checksum field is zero."""
    return 0xFFFF ^ fold(partial(buf, offset, count))


@cold
def _long_header_ok(buf, offset, count):
    return all_ones(partial(buf, offset, count))


@hot
def header_ok(buf, offset, count):
    """Does an IPv4 header of `count` bytes sum to all ones (kernel: ip_fast_csum)?"""
    if count == HEADER:
        return all_ones(partial(buf, offset, HEADER))
    return _long_header_ok(buf, offset, count)


@hot
def pseudo4(buf, ip, protocol, count):
    """Partial sum of the pseudo header of the IPv4 packet at `ip` (RFC 768)."""
    # a shift by 8 swaps the bytes of a 16-bit word, modulo 65535
    return load32le(buf, ip + 12) + load32le(buf, ip + 16) + ((protocol + count) << 8)


@hot
def pseudo6(buf, ip, protocol, count):
    """Partial sum of the pseudo header of the IPv6 packet at `ip` (RFC 8200 section 8.1)."""
    return partial(buf, ip + 8, 32) + ((protocol + count) << 8)


@hot
def transport_ok(buf, offset, count, pseudo):
    """Does the transport segment with this pseudo header sum carry a valid checksum?"""
    return all_ones(pseudo + partial(buf, offset, count))


@cold
def transport(buf, offset, count, pseudo):
    """The checksum to store for a transport segment whose field is zero."""
    return 0xFFFF ^ fold(pseudo + partial(buf, offset, count))


@kernel
def update16(check, old, new):
    """Checksum after one 16-bit word changed (RFC 1624, equation 3; kernel: csum_replace2)."""
    total = (0xFFFF ^ check) + (0xFFFF ^ old) + new
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF ^ ((total & 0xFFFF) + (total >> 16))
