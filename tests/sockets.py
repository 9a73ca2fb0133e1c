"""Two networks for the same tests: the loopback of this machine's kernel, and a host of ippath."""

from __future__ import annotations

import socket as std
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ippath import Netns
from ippath.config import parse_host

V4, V6, MAPPED = "IPv4", "IPv6", "mapped"
HOSTS = {V4: "127.0.0.1", V6: "::1", MAPPED: "::ffff:127.0.0.1"}
FAMILIES = {V4: std.AF_INET, V6: std.AF_INET6, MAPPED: std.AF_INET6}
# of Linux, and not in every version of the standard library
SO_MARK, SO_RXQ_OVFL, SO_PEEK_OFF, SO_MEMINFO, SO_ZEROCOPY, SO_NO_CHECK = 36, 40, 42, 55, 60, 11
SO_TIMESTAMP, SO_TIMESTAMPNS, SO_RCVMARK = 29, 35, 75
IP_PKTINFO, IP_RECVERR, IP_MTU_DISCOVER, IP_MTU, IP_RECVTTL, IP_ORIGDSTADDR = 8, 11, 10, 14, 12, 20
IP_FREEBIND, IP_MULTICAST_ALL, IP_UNICAST_IF = 15, 49, 50
IPV6_MTU_DISCOVER, IPV6_MTU, IPV6_RECVERR, IPV6_FLOWINFO, IPV6_ORIGDSTADDR = 23, 24, 25, 11, 74
IPV6_MULTICAST_ALL, IPV6_UNICAST_IF, IPV6_AUTOFLOWLABEL = 29, 76, 70
UDP_CORK, UDP_NO_CHECK6_TX, UDP_NO_CHECK6_RX, UDP_SEGMENT, UDP_GRO = 1, 101, 102, 103, 104
UDPLITE_SEND_CSCOV, UDPLITE_RECV_CSCOV, IPPROTO_UDPLITE = 10, 11, 136
MSG_PROBE, MSG_ERRQUEUE, MSG_ZEROCOPY = 0x10, 0x2000, 0x4000000


class Network:
    """Sockets of one kind, closed when the test ends; a new one never blocks."""

    def __init__(self, kind: str, make: Callable[..., Any]):
        self.kind, self._make, self._sockets = kind, make, []

    def socket(self, family: int = std.AF_INET, proto: int = 0, timeout: float | None = 0) -> Any:
        """A UDP socket."""
        one = self._make(family, std.SOCK_DGRAM, proto)
        one.settimeout(timeout)
        self._sockets.append(one)
        return one

    def bound(self, where: str = V4, proto: int = 0) -> Any:
        """A socket at a loopback address and any port."""
        one = self.socket(FAMILIES[where], proto)
        one.bind((HOSTS[where], 0))
        return one

    def pair(self, where: str = V4, proto: int = 0) -> tuple[Any, Any]:
        """Two sockets that are connected to each other."""
        one, other = self.bound(where, proto), self.bound(where, proto)
        one.connect(other.getsockname()[:2])
        other.connect(one.getsockname()[:2])
        return one, other

    def free_port(self, where: str = V4) -> int:
        """A port that nobody listens on."""
        one = self.bound(where)
        port = one.getsockname()[1]
        one.close()
        return int(port)

    def close(self) -> None:
        """Close all sockets that it made."""
        for one in self._sockets:
            one.close()


def kernel_network() -> Network:
    """The loopback of this machine."""
    return Network("kernel", std.socket)


HOST = """\
ip link add eth0 type dummy
ip link set eth0 up
ip addr add 198.51.100.1/24 dev eth0
ip route add default via 198.51.100.2
"""


def ippath_network() -> Network:
    """A host of its own, with a way out, and as much memory for sockets as this machine gives."""
    host = parse_host(HOST)
    for name in ("rmem_max", "wmem_max"):
        host.sysctls[f"net.core.{name}"] = Path(f"/proc/sys/net/core/{name}").read_text().strip()
    return Network("ippath", Netns(host).socket)


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    """What a call returns, or the exception in words: type, errno, message."""
    try:
        return call(*args)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
