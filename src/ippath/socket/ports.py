"""Who may bind which port (kernel: udp_lib_get_port, inet_rcv_saddr_equal).

Two sockets of one port are in each other's way unless their devices or addresses keep them apart, or
both share the port.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from ippath.model import Listener
from ippath.socket.addresses import is_mapped

EPHEMERAL = (32768, 60999)  # net.ipv4.ip_local_port_range


def _ipv4(one: Listener) -> int | None:
    """The IPv4 address that a socket takes datagrams for, 0 for all; None: it takes none."""
    if one.family == 4:
        return one.ip
    if is_mapped(one.ip):
        return one.ip & 0xFFFFFFFF
    return 0 if one.ip == 0 and not one.v6only else None


def addresses_overlap(one: Listener, other: Listener) -> bool:
    """May the same datagram be for both (kernel: inet_rcv_saddr_equal)?"""
    if one.family == 6 and other.family == 6:
        if one.ip == other.ip:
            return True
        for wild, named in ((one, other), (other, one)):
            if wild.ip == 0:
                return not (wild.v6only and is_mapped(named.ip))
        return False
    mine, theirs = _ipv4(one), _ipv4(other)
    return mine is not None and theirs is not None and (mine == theirs or 0 in (mine, theirs))


def conflict(one: Listener, other: Listener) -> bool:
    """Are the two, of one port and protocol, in each other's way?"""
    if one.reuseaddr and other.reuseaddr:
        return False
    if one.device and other.device and one.device != other.device:
        return False
    if not addresses_overlap(one, other):
        return False
    return not (one.reuseport and other.reuseport)


def is_free(wanted: Listener, others: Iterable[Listener]) -> bool:
    """May `wanted` be bound beside the others?"""
    return not any(
        one.port == wanted.port and one.protocol == wanted.protocol and conflict(wanted, one)
        for one in others
    )


def choose(
    wanted: Listener,
    others: list[Listener],
    bounds: tuple[int, int],
    reserved: set[int],
    chance: random.Random,
) -> int:
    """A free port within `bounds`, or 0 if there is none."""
    low, high = bounds
    count = high - low + 1
    start, step = chance.randrange(count), chance.randrange(1, count + 1, 2) | 1
    taken = {one.port for one in others if one.protocol == wanted.protocol}
    for k in range(count):
        wanted.port = low + (start + k * step) % count
        if wanted.port in reserved:
            continue
        if wanted.port not in taken or is_free(wanted, others):
            return wanted.port
    # a step that shares a divisor with the count misses ports
    for wanted.port in range(low, high + 1):
        if wanted.port not in reserved and is_free(wanted, others):
            return wanted.port
    return 0
