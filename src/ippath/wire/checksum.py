"""The Internet checksum (RFC 1071), its pseudo headers and its incremental update (RFC 1624).

Partial sums are int64 sums of 32-bit words in memory order; `fold` brings one to 16 bits in
network order.  65,535 bytes add at most 2**46, so partial sums never overflow.
"""

from __future__ import annotations

from ippath.jit import kernel
from ippath.wire.memory import load8, load16le, load32be, load32le, load64be


@kernel
def partial(buf, offset, count):
    """Sum of `count` bytes from `offset`, in memory order, not folded."""
    total = 0
    words = count >> 2
    for k in range(words):
        total += load32le(buf, offset + 4 * k)
    at = offset + 4 * words
    if count & 2:
        total += load16le(buf, at)
        at += 2
    if count & 1:
        total += load8(buf, at)
    return total


@kernel
def fold(total):
    """A partial sum in memory order as a 16-bit sum in network order (not complemented)."""
    total = (total & 0xFFFFFFFF) + (total >> 32)
    total = (total & 0xFFFFFFFF) + (total >> 32)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return ((total & 0xFF) << 8) | (total >> 8)


@kernel
def fold_network(total):
    """A sum of values in network order, folded to 16 bits."""
    total = (total & 0xFFFFFFFF) + (total >> 32)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return (total & 0xFFFF) + (total >> 16)


@kernel
def checksum(buf, offset, count):
    """The checksum to store for `count` bytes whose checksum field is zero."""
    return 0xFFFF ^ fold(partial(buf, offset, count))


@kernel
def header_ok(buf, offset, count):
    """Does an IPv4 header of `count` bytes sum to all ones (kernel: ip_fast_csum)?"""
    return fold(partial(buf, offset, count)) == 0xFFFF


@kernel
def pseudo4(buf, ip, protocol, count):
    """Pseudo header sum in network order for the IPv4 packet at `ip` (RFC 768)."""
    return fold_network(load32be(buf, ip + 12) + load32be(buf, ip + 16) + protocol + count)


@kernel
def _halves(value):
    return ((value >> 32) & 0xFFFFFFFF) + (value & 0xFFFFFFFF)


@kernel
def pseudo6(buf, ip, protocol, count):
    """Pseudo header sum in network order for the IPv6 packet at `ip` (RFC 8200 section 8.1)."""
    total = protocol + count
    for k in range(4):
        total += _halves(load64be(buf, ip + 8 + 8 * k))
    return fold_network(total)


@kernel
def transport_ok(buf, offset, count, pseudo):
    """Does the transport segment with this pseudo header sum carry a valid checksum?"""
    return fold_network(pseudo + fold(partial(buf, offset, count))) == 0xFFFF


@kernel
def transport(buf, offset, count, pseudo):
    """The checksum to store for a transport segment whose field is zero."""
    return 0xFFFF ^ fold_network(pseudo + fold(partial(buf, offset, count)))


@kernel
def update16(check, old, new):
    """Checksum after one 16-bit word changed (RFC 1624, equation 3; kernel: csum_replace2)."""
    return 0xFFFF ^ fold_network((0xFFFF ^ check) + (0xFFFF ^ old) + new)
