"""Addresses and prefixes in text, as Python's `ipaddress` reads them; compiled.

No zone, no leading zero in an octet, no IPv4-mapped IPv6 address: a table has IPv4 prefixes for those.
RFC 4291 section 2.2 for IPv6; parsed keys have IPv4 in the upper half of the first word.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.prefix.bits import from_ipv4, host_bits, shift_in
from ippath.wire.memory import load8

# what is wrong with a text; its sentence is in ippath.prefix.keys
FINE, EMPTY, NO_ADDRESS, ZONE, MAPPED, NO_LENGTH, HOST_BITS, NOT_ONE_ADDRESS, MISSING = range(9)

_NINE, _DOT, _SLASH, _COLON, _PERCENT, _ZERO = 57, 46, 47, 58, 37, 48


@hot
def _parse4(data, at, end):
    """(address or -1, place behind it) of a dotted quad."""
    value, octet, digits, dots = 0, 0, 0, 0
    while at < end:
        byte = load8(data, at)
        if _ZERO <= byte <= _NINE:
            if digits and octet == 0:
                return -1, at  # 010 could be 8 or 10
            octet = 10 * octet + byte - _ZERO
            digits += 1
            if octet > 255:
                return -1, at
        elif byte == _DOT:
            if digits == 0 or dots == 3:
                return -1, at
            value = (value << 8) | octet
            octet, digits = 0, 0
            dots += 1
        else:
            break
        at += 1
    if dots != 3 or digits == 0:
        return -1, at
    return (value << 8) | octet, at


@hot
def _hex(byte):
    """Value of a hexadecimal digit, or -1."""
    if _ZERO <= byte <= _NINE:
        return byte - _ZERO
    byte |= 32
    return byte - 87 if 97 <= byte <= 102 else -1


@hot
def _append(hi, lo, word):
    """Shift 16 bits in from the right."""
    return shift_in(hi, (lo >> 48) & 0xFFFF), shift_in(lo, word)


@kernel
def _parse6(data, at, end):
    """(what is wrong, first word, second word, place behind it) of an IPv6 address."""
    hi, lo, words = 0, 0, 0
    gap, gap_hi, gap_lo = -1, 0, 0  # words before `::`, and what they are
    if at + 1 < end and load8(data, at) == _COLON:
        if load8(data, at + 1) != _COLON:
            return NO_ADDRESS, 0, 0, at
        gap = 0
        at += 2
    while at < end:
        start, word = at, 0
        while at < end and at - start < 5:
            digit = _hex(load8(data, at))
            if digit < 0:
                break
            word = (word << 4) | digit
            at += 1
        after = load8(data, at) if at < end else 0
        if after == _DOT:
            address, at = _parse4(data, start, end)
            if address < 0 or words > 6:
                return NO_ADDRESS, 0, 0, at
            hi, lo = _append(hi, lo, address >> 16)
            hi, lo = _append(hi, lo, address & 0xFFFF)
            words += 2
            break
        if at == start:
            if gap == words:
                break  # the text ends with ::
            return NO_ADDRESS, 0, 0, at
        if at - start > 4 or words == 8:
            return NO_ADDRESS, 0, 0, at
        hi, lo = _append(hi, lo, word)
        words += 1
        if after != _COLON:
            break
        at += 1
        if at < end and load8(data, at) == _COLON:
            if gap >= 0:
                return NO_ADDRESS, 0, 0, at
            gap, gap_hi, gap_lo = words, hi, lo
            hi, lo = 0, 0
            at += 1
        elif at == end:
            return NO_ADDRESS, 0, 0, at
    if at < end and load8(data, at) == _PERCENT:
        return ZONE, 0, 0, at
    if gap < 0:
        return (FINE if words == 8 else NO_ADDRESS), hi, lo, at
    if words > 7:
        return NO_ADDRESS, 0, 0, at
    for _ in range(8 - gap):
        gap_hi, gap_lo = _append(gap_hi, gap_lo, 0)
    return FINE, gap_hi | hi, gap_lo | lo, at


@kernel
def parse(data, at, end):
    """(what is wrong, family, first word, second word, length) of an address or prefix.

    The length is -1 where the text has none.
    """
    if at == end:
        return EMPTY, 0, 0, 0, 0
    family, hi, lo, wrong = 4, 0, 0, FINE
    address, behind = _parse4(data, at, end)
    if address >= 0:
        hi = from_ipv4(address)
    else:
        family = 6
        wrong, hi, lo, behind = _parse6(data, at, end)
        if wrong == FINE and hi == 0 and (lo >> 32) == 0xFFFF:
            wrong = MAPPED
        if wrong != FINE:
            return wrong, family, 0, 0, 0
    if behind == end:
        return FINE, family, hi, lo, -1
    if load8(data, behind) == _PERCENT:
        return ZONE, family, 0, 0, 0
    if load8(data, behind) != _SLASH:
        return NO_ADDRESS, family, 0, 0, 0
    length = _parse_length(data, behind + 1, end)
    if length < 0 or length > (32 if family == 4 else 128):
        return NO_LENGTH, family, 0, 0, 0
    return (HOST_BITS if host_bits(hi, lo, length) else FINE), family, hi, lo, length


@kernel
def _parse_length(data, at, end):
    """A decimal number of one to three digits, or -1."""
    if at == end or end - at > 3:
        return -1
    value = 0
    for k in range(at, end):
        byte = load8(data, k)
        if byte < _ZERO or byte > _NINE:
            return -1
        value = 10 * value + byte - _ZERO
    return value
