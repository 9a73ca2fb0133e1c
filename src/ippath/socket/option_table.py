"""The table of socket options that are numbers: defaults and limits."""

from __future__ import annotations

from dataclasses import dataclass

from ippath.socket import constants as C

LARGEST = (1 << 31) - 1


@dataclass(frozen=True)
class Option:
    """A number that a socket keeps; what is out of range is EINVAL."""

    default: int = 0
    least: int = -LARGEST - 1
    most: int = LARGEST
    flag: bool = False  # kept as 0 or 1
    minus: int | None = None  # what -1 stands for
    byte: bool = False  # its low 8 bits are kept


FLAG = Option(flag=True)
STRICT_FLAG = Option(0, 0, 1)
_SOCKET = {
    C.SO_REUSEADDR: FLAG, C.SO_DONTROUTE: FLAG, C.SO_BROADCAST: FLAG, C.SO_KEEPALIVE: FLAG,
    C.SO_OOBINLINE: FLAG, C.SO_NO_CHECK: FLAG, C.SO_PRIORITY: Option(), C.SO_REUSEPORT: FLAG,
    C.SO_TIMESTAMP: FLAG, C.SO_TIMESTAMPNS: FLAG, C.SO_MARK: Option(), C.SO_RXQ_OVFL: FLAG,
    C.SO_PEEK_OFF: Option(-1), C.SO_ZEROCOPY: STRICT_FLAG, C.SO_RCVMARK: FLAG,
    C.SO_RCVLOWAT: Option(1),
}  # fmt: skip
_IP = {
    C.IP_TOS: Option(byte=True), C.IP_TTL: Option(-1, -1, 255), C.IP_RECVOPTS: FLAG,
    C.IP_RETOPTS: FLAG, C.IP_PKTINFO: FLAG, C.IP_MTU_DISCOVER: Option(1, 0, 5), C.IP_RECVERR: FLAG,
    C.IP_RECVTTL: FLAG, C.IP_RECVTOS: FLAG, C.IP_FREEBIND: FLAG, C.IP_TRANSPARENT: FLAG,
    C.IP_ORIGDSTADDR: FLAG, C.IP_BIND_ADDRESS_NO_PORT: FLAG,
    C.IP_MULTICAST_TTL: Option(1, -1, 255, minus=1), C.IP_MULTICAST_LOOP: Option(1, flag=True),
    C.IP_MULTICAST_ALL: Option(1, 0, 1), C.IP_MINTTL: Option(0, 0, 255),
    C.IP_LOCAL_PORT_RANGE: Option(),
}  # fmt: skip
_IPV6 = {
    C.IPV6_FLOWINFO: FLAG, C.IPV6_UNICAST_HOPS: Option(-1, -1, 255),
    C.IPV6_MULTICAST_HOPS: Option(1, -1, 255, minus=1), C.IPV6_MULTICAST_LOOP: Option(1, 0, 1),
    C.IPV6_MTU_DISCOVER: Option(1, 0, 5), C.IPV6_RECVERR: FLAG, C.IPV6_V6ONLY: FLAG,
    C.IPV6_MULTICAST_ALL: Option(1, flag=True), C.IPV6_FLOWINFO_SEND: FLAG, C.IPV6_RECVPKTINFO: FLAG,
    C.IPV6_RECVHOPLIMIT: FLAG, C.IPV6_RECVTCLASS: FLAG, C.IPV6_TCLASS: Option(0, -1, 255, minus=0),
    C.IPV6_DONTFRAG: FLAG, C.IPV6_AUTOFLOWLABEL: Option(1, flag=True), C.IPV6_ORIGDSTADDR: FLAG,
    C.IPV6_TRANSPARENT: FLAG, C.IPV6_FREEBIND: FLAG,
}  # fmt: skip
_UDP = {
    C.UDP_CORK: FLAG, C.UDP_NO_CHECK6_TX: FLAG, C.UDP_NO_CHECK6_RX: FLAG,
    C.UDP_SEGMENT: Option(0, 0, 0xFFFF), C.UDP_GRO: FLAG,
}  # fmt: skip
# changes of these change which datagrams the socket gets
SEEN_BY_RECEIVE = {
    (C.SOL_SOCKET, C.SO_REUSEADDR), (C.SOL_SOCKET, C.SO_REUSEPORT), (C.SOL_IP, C.IP_MULTICAST_ALL),
    (C.SOL_IPV6, C.IPV6_MULTICAST_ALL), (C.SOL_UDP, C.UDP_NO_CHECK6_RX), (C.SOL_IPV6, C.IPV6_V6ONLY),
    (C.SOL_IP, C.IP_MTU_DISCOVER), (C.SOL_IPV6, C.IPV6_MTU_DISCOVER),
}  # fmt: skip
DEFAULTS: dict[tuple[int, int], int] = {
    (level, name): option.default
    for level, table in (
        (C.SOL_SOCKET, _SOCKET), (C.SOL_IP, _IP), (C.SOL_IPV6, _IPV6), (C.SOL_UDP, _UDP),
    )
    for name, option in table.items()
}  # fmt: skip
TABLES: dict[int, dict[int, Option]] = {
    C.SOL_SOCKET: _SOCKET, C.SOL_IP: _IP, C.SOL_IPV6: _IPV6, C.SOL_UDP: _UDP
}  # fmt: skip
