"""Values within the lines of a host file: numbers, addresses, prefixes, names of tables and so on."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping

from ippath.config.words import Reader, Word, Wrong, nearest
from ippath.model import SCOPES

BITS = {4: 32, 6: 128}
TABLES = {"default": 253, "main": 254, "local": 255}
SCOPE_NAMES = {name: value for name, value in SCOPES.items() if name != "universe"}
# /etc/iproute2/rt_protos
ROUTE_PROTOCOLS = {
    "unspec": 0, "redirect": 1, "kernel": 2, "boot": 3, "static": 4, "gated": 8, "ra": 9, "mrt": 10,
    "zebra": 11, "bird": 12, "dnrouted": 13, "xorp": 14, "ntk": 15, "dhcp": 16, "mrouted": 17,
    "keepalived": 18, "babel": 42, "openr": 99, "bgp": 186, "isis": 187, "ospf": 188, "rip": 189,
    "eigrp": 192,
}  # fmt: skip
# names of the six DSCP bits (RFC 2474, 2597, 3246, 5865)
DSCP_NAMES = {
    "default": 0, **{f"CS{k}": 8 * k for k in range(8)},
    **{f"AF{c}{d}": 8 * c + 2 * d for c in range(1, 5) for d in range(1, 4)}, "EF": 46, "LE": 1,
    "VOICE-ADMIT": 44,
}  # fmt: skip
# names as `ip` prints them (/etc/protocols), then others that mean the same
IP_PROTOCOLS = {
    "icmp": 1, "igmp": 2, "ggp": 3, "ipencap": 4, "st": 5, "tcp": 6, "egp": 8, "igp": 9,
    "pup": 12, "udp": 17, "hmp": 20, "xns-idp": 22, "rdp": 27, "iso-tp4": 29, "dccp": 33, "xtp": 36,
    "ddp": 37, "idpr-cmtp": 38, "ipv6": 41, "ipv6-route": 43, "ipv6-frag": 44, "idrp": 45, "rsvp": 46,
    "gre": 47, "esp": 50, "ah": 51, "skip": 57, "ipv6-icmp": 58, "ipv6-nonxt": 59, "ipv6-opts": 60,
    "rspf": 73, "vmtp": 81, "eigrp": 88, "ospf": 89, "ax.25": 93, "ipip": 94, "etherip": 97,
    "encap": 98, "pim": 103, "ipcomp": 108, "vrrp": 112, "l2tp": 115, "isis": 124, "sctp": 132,
    "fc": 133, "mobility-header": 135, "udplite": 136, "mpls-in-ip": 137, "manet": 138, "hip": 139,
    "shim6": 140, "wesp": 141, "rohc": 142, "ethernet": 143,
    "icmpv6": 58, "ospfigp": 89,
}  # fmt: skip
_UNNAMED_PROTOCOL = "ipproto-"  # as `ip rule` prints numbers that have no name
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}")
_MAC = re.compile(r"[0-9a-fA-F]{1,2}([:-][0-9a-fA-F]{1,2}){5}")
_EUI64 = re.compile(r"[0-9a-fA-F]{1,2}([:-][0-9a-fA-F]{1,2}){7}")
_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_DEVICE = re.compile(r"[^\s/\x00-\x1f]{1,15}")


def number_of(text: str) -> int | None:
    """A number written in decimal, with 0x, or (a leading 0) in octal; None if it is none."""
    if not _NUMBER.fullmatch(text):
        return None
    if text[:2].lower() == "0x":
        return int(text, 16)
    if len(text) > 1 and text[0] == "0":
        return int(text, 8) if not set(text) & set("89") else None
    return int(text)


def take_number(reader: Reader, what: str, least: int = 0, most: int = 0xFFFFFFFF) -> int:
    """A number between `least` and `most`; `what` names it in the message."""
    word = reader.take(what)
    return number_in(word, what, least, most)


def number_in(word: Word, what: str, least: int = 0, most: int = 0xFFFFFFFF) -> int:
    """The number that a word is."""
    value = number_of(word.text)
    if value is None:
        raise Wrong(word, f"expected {what}, a number, not {word.text!r}")
    if not least <= value <= most:
        raise Wrong(word, f"expected {what} between {least} and {most}, not {value}")
    return value


def take_named(reader: Reader, what: str, names: Mapping[str, int], most: int = 0xFFFFFFFF) -> int:
    """A number or one of the names that stand for one."""
    word = reader.take(what)
    if word.text in names:
        return names[word.text]
    value = number_of(word.text)
    if value is None or value > most:
        raise Wrong(word, f"expected {what}, not {word.text!r}", nearest(word.text, names))
    return value


def ip_protocol_text(number: int) -> str:
    """An IP protocol as `ip rule` prints it: a name, or `ipproto-253`."""
    return next((n for n, v in IP_PROTOCOLS.items() if v == number), f"{_UNNAMED_PROTOCOL}{number}")


def ip_protocol_number(text: str) -> int | None:
    """The IP protocol by name, by number, or as `ip rule` prints it; None if it is none of them."""
    if text in IP_PROTOCOLS:
        return IP_PROTOCOLS[text]
    number = number_of(text.removeprefix(_UNNAMED_PROTOCOL))
    return number if number is not None and number <= 255 else None


def take_ip_protocol(reader: Reader) -> int:
    """A word that is an IP protocol."""
    word = reader.take("an IP protocol by name or number")
    number = ip_protocol_number(word.text)
    if number is None:
        near = nearest(word.text, IP_PROTOCOLS)
        raise Wrong(word, f"expected an IP protocol by name or number, not {word.text!r}", near)
    return number


def take_mac(reader: Reader, long: bool = False) -> int:
    """A link-level address of six bytes; `long`: of eight, as 6LoWPAN devices have."""
    word = reader.take("a link-level address like 02:00:00:00:00:01")
    if not (_EUI64 if long else _MAC).fullmatch(word.text):
        size = "eight" if long else "six"
        raise Wrong(word, f"expected a link-level address of {size} bytes, not {word.text!r}")
    value = 0
    for part in re.split("[:-]", word.text):
        value = value << 8 | int(part, 16)
    return value


def device_name(word: Word) -> str:
    """A word as the name of a device; `eth0.5@eth0` is eth0.5."""
    name = word.text.partition("@")[0]
    # the kernel takes all and default, but its sysctls of that name mean something else
    if not _DEVICE.fullmatch(name) or name in (".", "..", "all", "default") or ":" in name:
        raise Wrong(word, f"{word.text!r} cannot be the name of a device")
    return name


def address_in(word: Word, text: str, family: int | None) -> tuple[int, int]:
    """The family and value of an address within a word."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise Wrong(word, f"expected an {_ip(family)} address, not {word.text!r}") from None
    if getattr(address, "scope_id", None):
        raise Wrong(word, f"expected an address without %, not {word.text!r}")
    if family is not None and address.version != family:
        raise Wrong(word, f"expected an {_ip(family)} address, not {word.text!r}")
    return address.version, int(address)


def _ip(family: int | None) -> str:
    return "IP" if family is None else f"IPv{family}"


def take_address(reader: Reader, family: int | None, what: str = "an address") -> tuple[int, int]:
    """An address: its family and value."""
    word = reader.take(what)
    return address_in(word, word.text, family)


def take_length(word: Word, text: str, family: int) -> int:
    """The length behind the slash; IPv4 also takes a netmask."""
    bits = BITS[family]
    if family == 4 and text.count(".") == 3:
        mask = address_in(word, text, 4)[1]
        length = mask.bit_count()
        if mask != ((1 << length) - 1) << (32 - length):
            raise Wrong(word, f"{text} is no netmask")
        return length
    if not re.fullmatch("[0-9]{1,3}", text) or int(text) > bits:
        raise Wrong(word, f"expected a prefix length up to {bits}, not {text!r}")
    return int(text)


def take_prefix(
    reader: Reader, family: int | None, what: str = "a prefix"
) -> tuple[int | None, int, int]:
    """Family, address, length; `default`, `all` and `any` have length 0 and maybe no family.

    IPv4 networks may leave out zero bytes at the end (10/8), as for `ip`.
    """
    word = reader.take(what)
    return prefix_in(word, family, what)


def prefix_in(
    word: Word, family: int | None, what: str = "a prefix"
) -> tuple[int | None, int, int]:
    """The prefix that a word is; see `take_prefix`."""
    if word.text in ("default", "all", "any"):
        return family, 0, 0
    text, slash, length = word.text.partition("/")
    if slash and re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){0,2}", text):
        text += ".0" * (3 - text.count("."))
    try:
        found, ip = address_in(word, text, family)
    except Wrong:
        known = nearest(word.text, ("default",)) if word.text.isalpha() else None
        of = "" if family is None else f" of IPv{family}"
        raise Wrong(word, f"expected {what}{of}, not {word.text!r}", known) from None
    return found, ip, take_length(word, length, found) if slash else BITS[found]


def take_ports(reader: Reader, what: str) -> tuple[int, int]:
    """A port or two with a hyphen."""
    word = reader.take(f"{what}, a port or a range like 100-200")
    match = _PORTS.fullmatch(word.text)
    if match is None:
        if "/" in word.text:
            raise Wrong(word, "masks on ports are not supported")
        raise Wrong(word, f"expected a port or a range like 100-200, not {word.text!r}")
    low, high = int(match[1]), int(match[2] or match[1])
    if not 0 < low <= high <= 65535:
        raise Wrong(
            word, f"expected ports between 1 and 65535, the smaller first, not {word.text!r}"
        )
    return low, high


def take_tos(reader: Reader) -> int:
    """A TOS byte as `ip` takes it: hexadecimal with or without 0x, or a DSCP name."""
    word = reader.take("a TOS byte")
    if word.text.upper() in DSCP_NAMES or word.text == "default":
        return DSCP_NAMES.get(word.text, DSCP_NAMES.get(word.text.upper(), 0)) << 2
    if not re.fullmatch("(0[xX])?[0-9a-fA-F]{1,2}", word.text):
        raise Wrong(
            word, f"expected a TOS byte in hexadecimal like 0x10, not {word.text!r}",
            nearest(word.text.upper(), DSCP_NAMES),
        )  # fmt: skip
    value = int(word.text, 16)
    if value & 3:
        raise Wrong(word, "the two lowest bits of the TOS byte belong to ECN and must be 0")
    return value


def take_dscp(reader: Reader) -> int:
    """A DSCP of six bits by number or name."""
    word = reader.take("a DSCP")
    if word.text.upper() in DSCP_NAMES or word.text == "default":
        return DSCP_NAMES.get(word.text, DSCP_NAMES.get(word.text.upper(), 0))
    value = number_of(word.text)
    if value is None or value > 63:
        raise Wrong(
            word, f"expected a DSCP from 0 to 63 or a name like EF, not {word.text!r}",
            nearest(word.text.upper(), DSCP_NAMES),
        )  # fmt: skip
    return value


def address_text(family: int, ip: int) -> str:
    """An address as people and `ip` write it (::ffff:192.0.2.1 where IPv4 is inside)."""
    if family == 4:
        return socket.inet_ntop(socket.AF_INET, ip.to_bytes(4))
    return socket.inet_ntop(socket.AF_INET6, ip.to_bytes(16))


def prefix_text(family: int, ip: int, plen: int) -> str:
    """A prefix with its length always written."""
    return f"{address_text(family, ip)}/{plen}"


def mac_text(mac: int, size: int = 6) -> str:
    """A link-level address of `size` bytes with colons."""
    return mac.to_bytes(size, "big").hex(":")


def scope_text(scope: int) -> str:
    """The name of a scope, or its number."""
    return next((name for name, value in SCOPE_NAMES.items() if value == scope), str(scope))


def table_text(table: int) -> str:
    """The name of one of the three tables that have one everywhere, or the number."""
    return next((name for name, value in TABLES.items() if value == table), str(table))
