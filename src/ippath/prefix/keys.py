"""Keys of prefix tables: one prefix or address in any of its forms, and what can be wrong with it.

| form                          | what it is                                                     |
|-------------------------------|----------------------------------------------------------------|
| `"10.0.0.0/8"`, `"2001:db8::1"` | text; without a length one address                           |
| `IPv4Network`, `IPv6Address`, … | the objects of `ipaddress`                                    |
| `b"\\x0a\\x00\\x00\\x00"`        | 4 or 16 bytes in network order: one address                    |
| `167772160`                   | one address, in a table of one family (`family=4` or 6)        |
| `(address, 8)`                | any of these with a length                                     |
| `(167772160, 8, 4)`           | a number with its length and family: in any table              |
"""

from __future__ import annotations

import ipaddress
import socket
from struct import Struct
from typing import Any, NamedTuple, NoReturn

from ippath.prefix import text
from ippath.prefix.bits import signed

WIDTH = {4: 32, 6: 128}
WRONG = {
    text.EMPTY: "empty",
    text.NO_ADDRESS: "not an IP address",
    text.ZONE: "a zone says nothing in a table of prefixes: leave it out",
    text.MAPPED: "IPv4-mapped IPv6: write the IPv4 address",
    text.NO_LENGTH: "the prefix length is out of range",
    text.HOST_BITS: "host bits are set",
    text.NOT_ONE_ADDRESS: "a prefix where one address is wanted",
    text.MISSING: "missing",
}
_TWO_WORDS = Struct(">qq")


class Key(NamedTuple):
    """A prefix: the address in two words, IPv4 in the upper half of the first one."""

    family: int
    hi: int
    lo: int
    length: int


def refuse(value: Any, why: int | str, row: int | None = None) -> NoReturn:
    """Raise the ValueError that names the value, and its row."""
    where = "" if row is None else f"row {row}: "
    raise ValueError(f"{where}{value!r}: {WRONG[why] if isinstance(why, int) else why}")


def key_of(given: Any, family: int | None = None, row: int | None = None) -> Key:
    """The key that was given; `family` is that of a table of one family.

    ValueError names what is wrong with it, TypeError a form that is none of the above.
    """
    if isinstance(given, tuple) and len(given) in (2, 3):
        key = _with_length(given, family, row)
    else:
        own, number, length = _address(given, given, family, row)
        key = _checked(given, own, number, WIDTH[own] if length is None else length, row)
    if family is not None and key.family != family:
        refuse(given, f"the table holds IPv{family} prefixes", row)
    return key


def _with_length(given: tuple, family: int | None, row: int | None) -> Key:
    if len(given) == 3:
        if given[2] not in (4, 6):
            refuse(given, "the family is 4 or 6", row)
        family = given[2]
    own, number, length = _address(given[0], given, family, row)
    if length is not None:
        refuse(given, "two prefix lengths", row)
    try:
        length = int(given[1].__index__())
    except AttributeError:
        refuse(given, "the prefix length is no number", row)
    return _checked(given, own, number, length, row)


def _address(
    given: Any, whole: Any, family: int | None, row: int | None
) -> tuple[int, int, int | None]:
    """(family, number, length if the form has one)."""
    if isinstance(given, str):
        return _from_text(given, whole, row)
    if isinstance(given, (bytes, bytearray, memoryview)):
        raw = bytes(given)
        if len(raw) not in (4, 16):
            refuse(whole, f"{len(raw)} bytes: an address has 4 or 16", row)
        return (4 if len(raw) == 4 else 6), int.from_bytes(raw, "big"), None
    if isinstance(given, (ipaddress.IPv4Network, ipaddress.IPv6Network)):
        address, length = given.network_address, given.prefixlen
    elif isinstance(given, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
        address, length = given, None
    elif hasattr(given, "__index__") and not isinstance(given, bool):
        if family is None:
            refuse(whole, "a number is an address only in a table of one family", row)
        number = given.__index__()
        if not 0 <= number < 1 << WIDTH[family]:
            refuse(whole, f"not the number of an IPv{family} address", row)
        return family, number, None
    else:
        where = "" if row is None else f"row {row}: "
        raise TypeError(f"{where}{whole!r}: a prefix is text, bytes, a number or of ipaddress")
    if getattr(address, "scope_id", None):
        refuse(whole, text.ZONE, row)
    return address.version, int(address), length


def _from_text(given: str, whole: Any, row: int | None) -> tuple[int, int, int | None]:
    address, slash, bits = given.partition("/")
    family = 6 if ":" in address else 4
    if not given:
        refuse(whole, text.EMPTY, row)
    if "%" in address:
        refuse(whole, text.ZONE, row)
    try:
        raw = socket.inet_pton(socket.AF_INET6 if family == 6 else socket.AF_INET, address)
    except (OSError, ValueError):
        refuse(whole, text.NO_ADDRESS, row)
    if slash and not (bits.isascii() and bits.isdigit() and len(bits) <= 3):
        refuse(whole, text.NO_LENGTH, row)
    return family, int.from_bytes(raw, "big"), int(bits) if slash else None


def _checked(given: Any, family: int, number: int, length: int, row: int | None) -> Key:
    width = WIDTH[family]
    if not 0 <= length <= width:
        refuse(given, text.NO_LENGTH, row)
    if family == 6 and number >> 32 == 0xFFFF:
        refuse(given, text.MAPPED, row)
    if number & ((1 << (width - length)) - 1):
        prefix = text_of(family, number >> (width - length) << (width - length), length)
        refuse(given, f"host bits are set: the prefix is {prefix}", row)
    if family == 4:
        return Key(4, signed(number << 32), 0, length)
    return Key(6, signed(number >> 64), signed(number), length)


def number_of(key: Key) -> int:
    """The address of a key."""
    if key.family == 4:
        return (key.hi >> 32) & 0xFFFFFFFF
    return (key.hi & (1 << 64) - 1) << 64 | key.lo & (1 << 64) - 1


def text_of(family: int, number: int, length: int) -> str:
    """`10.0.0.0/8`."""
    address = ipaddress.IPv4Address(number) if family == 4 else ipaddress.IPv6Address(number)
    return f"{address}/{length}"


def words_of(packed: bytes) -> tuple[int, int]:
    """Both words of an IPv6 address."""
    return _TWO_WORDS.unpack(packed)
