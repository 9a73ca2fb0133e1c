"""Ancillary data: what is asked for with a datagram, and what is said beside one (RFC 3542).

Kernel: ip_cmsg_send, ip6_datagram_send_ctl, udp_cmsg_send; ip_cmsg_recv, put_cmsg.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from ippath.socket import constants as C
from ippath.socket.addresses import fail, is_mapped

INT = struct.Struct("=i")
ALIGN, HEADER = 8, 16  # struct cmsghdr on 64-bit machines
Message = tuple[int, int, bytes]


@dataclass
class Asked:
    """What ancillary data asks of one datagram; None: nothing."""

    source: int | None = None
    index: int = 0
    ttl: int | None = None
    tos: int | None = None
    mark: int | None = None
    priority: int | None = None
    segment: int | None = None
    whole: bool | None = None
    label: int | None = None
    slow: bool = False  # anything but the segment size: the route is looked up anew


def read4(messages: Iterable[Message], *, six: bool) -> Asked:
    """For an IPv4 destination; `six` is an IPv6 socket.  Raises the errno of a wrong one."""
    asked = Asked()
    for level, kind, data in messages:
        if _common(asked, level, kind, data):
            continue
        asked.slow = True
        if six and level == C.SOL_IPV6 and kind == C.IPV6_PKTINFO:
            _mapped_info(asked, data)
        elif level == C.SOL_IP:
            _read_ip(asked, kind, data)
    return asked


def _common(asked: Asked, level: int, kind: int, data: bytes) -> bool:
    """Messages of SOL_SOCKET and SOL_UDP; False for other levels."""
    if level == C.SOL_UDP:
        if kind != C.UDP_SEGMENT or len(data) != 2:
            fail(errno.EINVAL)
        asked.segment = int.from_bytes(data, "little")
        return True
    if level != C.SOL_SOCKET:
        return False
    asked.slow = True
    if kind in (C.SO_MARK, C.SO_PRIORITY):
        if len(data) != 4:
            fail(errno.EINVAL)
        value = INT.unpack(data)[0]
        if kind == C.SO_MARK:
            asked.mark = value & 0xFFFFFFFF
        else:
            asked.priority = value
    elif kind not in (1, 2):  # SCM_RIGHTS and SCM_CREDENTIALS are passed over
        fail(errno.EINVAL)
    return True


def _mapped_info(asked: Asked, data: bytes) -> None:
    if len(data) < 20:
        fail(errno.EINVAL)
    address, index = int.from_bytes(data[:16]), INT.unpack(data[16:20])[0]
    if not is_mapped(address):
        fail(errno.EINVAL)
    if index:
        asked.index = index
    asked.source = address & 0xFFFFFFFF


def _read_ip(asked: Asked, kind: int, data: bytes) -> None:
    if kind == C.IP_PKTINFO:
        if len(data) != 12:
            fail(errno.EINVAL)
        index = INT.unpack(data[:4])[0]
        if index:
            asked.index = index
        asked.source = int.from_bytes(data[4:8])
    elif kind == C.IP_TTL:
        if len(data) != 4:
            fail(errno.EINVAL)
        asked.ttl = _within(INT.unpack(data)[0], 1, 255)
    elif kind == C.IP_TOS:
        if len(data) not in (1, 4):
            fail(errno.EINVAL)
        asked.tos = _within(INT.unpack(data)[0] if len(data) == 4 else data[0], 0, 255)
    elif kind != C.IP_RETOPTS:
        fail(errno.EINVAL)


def _within(value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        fail(errno.EINVAL)
    return value


def read6(messages: Iterable[Message]) -> Asked:
    """For an IPv6 destination.  Raises the errno of a wrong one."""
    asked = Asked()
    for level, kind, data in messages:
        if _common(asked, level, kind, data):
            continue
        asked.slow = True
        if level == C.SOL_IPV6:
            _read_ipv6(asked, kind, data)
    return asked


def _read_ipv6(asked: Asked, kind: int, data: bytes) -> None:
    if kind in (C.IPV6_PKTINFO, 2):  # 2: that of RFC 2292
        if len(data) < 20:
            fail(errno.EINVAL)
        index = INT.unpack(data[16:20])[0]
        if index:
            asked.index = index
        asked.source = int.from_bytes(data[:16])
    elif kind in (C.IPV6_HOPLIMIT, 8):
        asked.ttl = _minus(data, 255)
    elif kind == C.IPV6_TCLASS:
        asked.tos = _minus(data, 255)
    elif kind == C.IPV6_DONTFRAG:
        if len(data) != 4:
            fail(errno.EINVAL)
        asked.whole = bool(_within(INT.unpack(data)[0], 0, 1))
    elif kind == C.IPV6_FLOWINFO:
        if len(data) < 4:
            fail(errno.EINVAL)
        asked.label = int.from_bytes(data[:4]) & 0xFFFFF
    else:
        fail(errno.EINVAL)


def _minus(data: bytes, most: int) -> int | None:
    """An int of which -1 stands for the default."""
    if len(data) != 4:
        fail(errno.EINVAL)
    value = _within(INT.unpack(data)[0], -1, most)
    return None if value == -1 else value


def packet_info4(index: int, spec_dst: int, address: int) -> bytes:
    """`struct in_pktinfo`."""
    return INT.pack(index) + spec_dst.to_bytes(4) + address.to_bytes(4)


def packet_info6(address: int, index: int) -> bytes:
    """`struct in6_pktinfo`."""
    return address.to_bytes(16) + INT.pack(index)


def space(length: int) -> int:
    """Bytes that a message of `length` bytes takes in a buffer (CMSG_SPACE)."""
    return (length + ALIGN - 1 & -ALIGN) + HEADER


def fitted(messages: list[Message], room: int) -> tuple[list[Message], bool]:
    """The messages that a buffer of `room` bytes holds, and whether any was cut (put_cmsg)."""
    kept: list[Message] = []
    for level, kind, data in messages:
        if room < HEADER:
            return kept, True
        if room < HEADER + len(data):
            kept.append((level, kind, data[: room - HEADER]))
            return kept, True
        kept.append((level, kind, data))
        room = max(0, room - space(len(data)))
    return kept, False
