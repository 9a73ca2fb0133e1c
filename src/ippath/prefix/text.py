"""Addresses and prefixes in text, as Python's `ipaddress` reads them; compiled.

`parse` goes byte by byte and says what is wrong.  `quick` compares 64 bytes at once, which makes masks
of the digits and of what separates them, and knows an address or leaves the text to `parse`.

No zone, no leading zero in an octet, no IPv4-mapped IPv6 address: a table has IPv4 prefixes for those.
RFC 4291 section 2.2 for IPv6; parsed keys have IPv4 in the upper half of the first word.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.prefix.bits import (
    from_ipv4,
    host_bits,
    one_bit,
    popcount,
    shift_in,
    shift_up,
    trailing_zeros,
)
from ippath.wire.memory import bytes_between, load8, load32be

# what is wrong with a text; its sentence is in ippath.prefix.keys
FINE, EMPTY, NO_ADDRESS, ZONE, MAPPED, NO_LENGTH, HOST_BITS, NOT_ONE_ADDRESS, MISSING = range(9)

_NINE, _DOT, _SLASH, _COLON, _PERCENT, _ZERO = 57, 46, 47, 58, 37, 48
_LINE_FEED, _A, _F, _SMALL = 10, 97, 102, 32
AT_ONCE = 64  # bytes that `quick` reads, whatever the text's length, which is less


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


@kernel
def split(data, size, offsets):
    """Where the lines of the first `size` bytes begin, and where one more would; returns how many lines.

    AT_ONCE bytes more are there to be read.  Only as many are written as `offsets` has room for.
    """
    count = 1
    offsets[0] = 0
    for at in range(0, size, AT_ONCE):
        ends = bytes_between(data, at, 0, _LINE_FEED, _LINE_FEED)
        if at + AT_ONCE > size:
            ends &= ~(-1 << (size - at))
        while ends:
            place = trailing_zeros(ends)
            ends ^= one_bit(place)
            if count < offsets.shape[0]:
                offsets[count] = at + place + 1
            count += 1
    if count < offsets.shape[0]:
        offsets[count] = size + 1
    return count


# --- addresses by masks of 64 bytes --------------------------------------------------------------


@hot
def quick(data, at, size):
    """(family, first word, second word) of an address, or (0, 0, 0): it is for `parse`.

    AT_ONCE bytes from `at` on are there to be read, and `size` is less.
    """
    whole = ~(-1 << size)
    colons = bytes_between(data, at, 0, _COLON, _COLON) & whole
    digits = bytes_between(data, at, 0, _ZERO, _NINE) & whole
    if colons:
        digits |= bytes_between(data, at, _SMALL, _A, _F) & whole
        return _quick6(data, at, whole, colons, digits)
    return _quick4(data, at, whole, digits)


@hot
def _quick4(data, at, whole, digits):
    dots = bytes_between(data, at, 0, _DOT, _DOT) & whole
    first = digits & ~(digits << 1)  # of each octet
    zeros = bytes_between(data, at, 0, _ZERO, _ZERO) & first
    wrong = (
        (digits | dots) ^ whole  # other bytes
        | (digits & digits >> 1 & digits >> 2 & digits >> 3)  # four digits
        | (zeros & digits >> 1)  # a leading zero
    )
    if wrong or popcount(dots) != 3 or popcount(first) != 4:
        return 0, 0, 0
    address, most = 0, 0
    for _ in range(4):
        start = trailing_zeros(first)
        first &= first - 1
        size = trailing_zeros(~(digits >> start))
        figures = load32be(data, at + start) >> (32 - 8 * size) & 0x0F0F0F
        octet = (figures & 15) + 10 * (figures >> 8 & 15) + 100 * (figures >> 16)
        address, most = address << 8 | octet, max(most, octet)
    return (4, from_ipv4(address), 0) if most < 256 else (0, 0, 0)


@hot
def _quick6(data, at, whole, colons, digits):
    first = digits & ~(digits << 1)  # of each word
    double = colons & colons >> 1
    alone = colons & ~(double | double << 1)  # a colon that has digits on both sides
    wrong = (
        (digits | colons) ^ whole  # other bytes
        | (digits & digits >> 1 & digits >> 2 & digits >> 3 & digits >> 4)  # five digits
        | (double & (double - 1))  # two gaps, or three colons
        | (alone & ~(digits << 1 & digits >> 1))
    )
    count = popcount(first)
    if wrong or (count > 7 if double else count != 8):
        return 0, 0, 0
    before = popcount(first & (double - 1)) if double else 8  # words in front of the gap
    hi, lo = 0, 0
    for k in range(count):
        start = trailing_zeros(first)
        first &= first - 1
        size = trailing_zeros(~(digits >> start))
        word = _hex_word(load32be(data, at + start) >> (32 - 8 * size))
        place = k if k < before else k + 8 - count
        if place < 4:
            hi |= shift_up(word, 48 - 16 * place)
        else:
            lo |= shift_up(word, 112 - 16 * place)
    if hi == 0 and (lo >> 32) == 0xFFFF:
        return 0, 0, 0
    return 6, hi, lo


@hot
def _hex_word(figures):
    """The number that up to four hexadecimal digits make."""
    halves = (figures & 0x0F0F0F0F) + 9 * (figures >> 6 & 0x01010101)
    pairs = (halves | halves >> 4) & 0x00FF00FF
    return (pairs | pairs >> 8) & 0xFFFF
