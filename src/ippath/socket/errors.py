"""What ICMP errors mean to sockets, and the queue in which a socket finds them.

Kernel: icmp_err_convert, icmpv6_err_convert, __udp4_lib_err, __udp6_lib_err, ip_icmp_error,
ip_recv_error; sections 7.1 to 7.3 of RFC 1122 and RFC 4443 name the types.
"""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass

from ippath import tables as T
from ippath.socket.addresses import MAPPED, Name, is_link_local6, sockaddr
from ippath.wire.icmp import (
    ICMP6_PARAMETER_PROBLEM, ICMP6_TIME_EXCEEDED, ICMP6_TOO_BIG, ICMP6_UNREACHABLE,
    ICMP_PARAMETER_PROBLEM, ICMP_REDIRECT, ICMP_SOURCE_QUENCH, ICMP_TIME_EXCEEDED, ICMP_UNREACHABLE,
)  # fmt: skip

ORIGIN_NONE, ORIGIN_LOCAL, ORIGIN_ICMP, ORIGIN_ICMP6, ORIGIN_TXSTATUS, ORIGIN_ZEROCOPY = range(6)
ZEROCOPY_COPIED = 1

# errno, and whether it is hard: soft ones reach only sockets with IP_RECVERR
_UNREACHABLE4 = [
    (errno.ENETUNREACH, False), (errno.EHOSTUNREACH, False), (errno.ENOPROTOOPT, True),
    (errno.ECONNREFUSED, True), (errno.EMSGSIZE, True), (errno.EOPNOTSUPP, False),
    (errno.ENETUNREACH, True), (errno.EHOSTDOWN, True), (errno.ENONET, True),
    (errno.ENETUNREACH, True), (errno.EHOSTUNREACH, True), (errno.ENETUNREACH, False),
    (errno.EHOSTUNREACH, False), (errno.EHOSTUNREACH, True), (errno.EHOSTUNREACH, True),
    (errno.EHOSTUNREACH, True),
]  # fmt: skip
_UNREACHABLE6 = [
    (errno.ENETUNREACH, False), (errno.EACCES, True), (errno.EHOSTUNREACH, False),
    (errno.EHOSTUNREACH, False), (errno.ECONNREFUSED, True), (errno.EACCES, True),
    (errno.EACCES, True),
]  # fmt: skip


def icmp_errno(kind: int, code: int) -> tuple[int, bool] | None:
    """Errno of an ICMP error and whether it is hard; None: no socket hears of it."""
    if kind in (ICMP_SOURCE_QUENCH, ICMP_REDIRECT):
        return None
    if kind == ICMP_PARAMETER_PROBLEM:
        return errno.EPROTO, True
    if kind == ICMP_UNREACHABLE and code < len(_UNREACHABLE4):
        return _UNREACHABLE4[code]
    assert kind in (ICMP_UNREACHABLE, ICMP_TIME_EXCEEDED), kind
    return errno.EHOSTUNREACH, False


def icmp6_errno(kind: int, code: int, mtu_discover: int) -> tuple[int, bool] | None:
    """The same of an ICMPv6 error, for a socket with this IPV6_MTU_DISCOVER."""
    if kind == ICMP6_UNREACHABLE:
        return _UNREACHABLE6[code] if code < len(_UNREACHABLE6) else (errno.EPROTO, True)
    if kind == ICMP6_TOO_BIG:
        if mtu_discover in (T.PMTUDISC_INTERFACE, T.PMTUDISC_OMIT):
            return None
        return errno.EMSGSIZE, mtu_discover != T.PMTUDISC_DONT
    if kind == ICMP6_TIME_EXCEEDED:
        return errno.EHOSTUNREACH, False
    if kind == ICMP6_PARAMETER_PROBLEM:
        return errno.EPROTO, True
    return None


@dataclass
class QueuedError:
    """An entry of the error queue (kernel: struct sock_exterr_skb).

    `destination` is where the datagram went, `offender` who sent the error; addresses are of
    `family`.
    """

    errno: int
    origin: int
    type: int = 0
    code: int = 0
    info: int = 0
    data: int = 0
    payload: bytes = b""
    family: int = 4
    destination: Name | None = None
    offender: Name | None = None
    charge: int = 0

    @property
    def from_icmp(self) -> bool:
        """Whether the network said so."""
        return self.origin in (ORIGIN_ICMP, ORIGIN_ICMP6)

    def extended(self, socket_family: int) -> bytes:
        """`struct sock_extended_err` and the offender's address, as the socket's family has it."""
        head = struct.pack(
            "=IBBBBII", self.errno, self.origin, self.type, self.code, 0, self.info, self.data
        )
        if self.offender is None:
            return head + bytes(16 if socket_family == 4 else 28)
        return head + sockaddr(socket_family, dressed(socket_family, self.family, self.offender))


def dressed(socket_family: int, family: int, name: Name) -> Name:
    """The address as a socket of `socket_family` sees it: IPv4 in IPv6 clothes."""
    if socket_family == 6 and family == 4:
        return Name(name.ip | MAPPED, name.port)
    if family == 6 and not is_link_local6(name.ip):
        return name._replace(scope=0)
    return name
