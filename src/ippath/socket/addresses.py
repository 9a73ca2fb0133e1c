"""Socket addresses: from what the standard library takes to numbers, and back.

Wrong ones raise what the standard library raises, in its words (CPython: getsockaddrarg).  No name
is looked up but `localhost`: what is not a number is not known.
"""

from __future__ import annotations

import functools
import ipaddress
import os
import socket as std
import struct
from typing import Any, NamedTuple, NoReturn

from ippath.config.values import address_text

MAPPED = 0xFFFF << 32  # ::ffff:0.0.0.0
LOCALHOST = {4: "127.0.0.1", 6: "::1"}


class Name(NamedTuple):
    """Where a socket is, or where it sends to: the fields of a sockaddr."""

    ip: int
    port: int
    flowinfo: int = 0
    scope: int = 0  # ifindex


def failure(error: int) -> OSError:
    """The exception of an errno."""
    return OSError(error, os.strerror(error))


def fail(error: int) -> NoReturn:
    """Raise the exception of an errno."""
    raise failure(error)


def is_mapped(ip: int) -> bool:
    """Is it an IPv4 address in IPv6 clothes, ::ffff:a.b.c.d?"""
    return ip >> 32 == 0xFFFF


def is_group(family: int, ip: int) -> bool:
    """Is it a multicast address?"""
    return ip >> 28 == 0xE if family == 4 else ip >> 120 == 0xFF


def is_link_local6(ip: int) -> bool:
    """fe80::/10."""
    return ip >> 118 == 0x3FA


@functools.lru_cache(4096)
def host_number(host: str, family: int) -> int:
    """The address that a host text stands for; raises `socket.gaierror` as the C library does."""
    if host == "":
        return 0
    if host in ("<broadcast>", "255.255.255.255"):
        if family != 4:
            raise OSError("address family mismatched")
        return 0xFFFFFFFF
    if host == "localhost":
        host = LOCALHOST[family]
    kind = std.AF_INET if family == 4 else std.AF_INET6
    found = std.getaddrinfo(host, None, kind, std.SOCK_DGRAM, 0, std.AI_NUMERICHOST)
    return int(ipaddress.ip_address(found[0][4][0]))


def parse(caller: str, family: int, address: Any, scopes: dict[str, int]) -> Name:
    """An address as given to `caller`; `scopes` has the ifindex of each device."""
    if type(address) is tuple and len(address) == 2 and type(address[0]) is str:
        host, port = address
        if type(port) is int and 0 <= port <= 0xFFFF and "%" not in host:
            return Name(host_number(host, family), port)
    return _parse_slowly(caller, family, address, scopes)


def _parse_slowly(caller: str, family: int, address: Any, scopes: dict[str, int]) -> Name:
    kind = "AF_INET" if family == 4 else "AF_INET6"
    if not isinstance(address, tuple):
        raise TypeError(f"{caller}(): {kind} address must be tuple, not {type(address).__name__}")
    least, most = (2, 2) if family == 4 else (2, 4)
    if not least <= len(address) <= most:
        shape = (
            "a pair (host, port)" if family == 4 else "a tuple (host, port[, flowinfo[, scopeid]])"
        )
        raise TypeError(f"{kind} address must be {shape}")
    host = _host_text(address[0])
    port = _integer(address[1])
    flowinfo, scope = (_unsigned(v) for v in (*address[2:], 0, 0)[:2])
    host, _, zone = host.partition("%") if family == 6 else (host, "", "")
    ip = host_number(host, family)
    if zone:
        scope = _zone(zone, scopes)
    if not -(1 << 31) <= port < 1 << 31 or not 0 <= port <= 0xFFFF:
        raise OverflowError(f"{caller}(): port must be 0-65535.")
    if flowinfo > 0xFFFFF:
        raise OverflowError(f"{caller}(): flowinfo must be 0-1048575.")
    return Name(ip, port, flowinfo, scope)


def _host_text(host: Any) -> str:
    if isinstance(host, str):
        if "\0" in host:
            raise TypeError("host name must not contain null character")
        return host
    if isinstance(host, bytes | bytearray):
        return bytes(host).decode("latin-1")
    raise TypeError(f"str, bytes or bytearray expected, not {type(host).__name__}")


def _integer(value: Any) -> int:
    try:
        return int(value.__index__())
    except AttributeError:
        name = type(value).__name__
        raise TypeError(f"'{name}' object cannot be interpreted as an integer") from None


def _unsigned(value: Any) -> int:
    return _integer(value) & 0xFFFFFFFF


def _zone(zone: str, scopes: dict[str, int]) -> int:
    if zone in scopes:
        return scopes[zone]
    if zone.isdecimal():
        return int(zone)
    raise std.gaierror(std.EAI_NONAME, "Name or service not known")


def as_tuple(family: int, name: Name) -> tuple:
    """The tuple that the standard library gives for an address of this family."""
    if family == 4:
        return address_text(4, name.ip), name.port
    return address_text(6, name.ip), name.port, name.flowinfo, name.scope


def sockaddr(family: int, name: Name) -> bytes:
    """`struct sockaddr_in` or `sockaddr_in6`."""
    if family == 4:
        return struct.pack("=HH4s8x", std.AF_INET, std.htons(name.port), name.ip.to_bytes(4))
    return struct.pack(
        "=HHI16sI", std.AF_INET6, std.htons(name.port), std.htonl(name.flowinfo),
        name.ip.to_bytes(16), name.scope,
    )  # fmt: skip


def as_bytes(data: Any) -> bytes:
    """The bytes of a bytes-like object; TypeError for anything else."""
    if isinstance(data, bytes):
        return data
    try:
        return bytes(memoryview(data))
    except TypeError:
        name = type(data).__name__
        raise TypeError(f"a bytes-like object is required, not '{name}'") from None
