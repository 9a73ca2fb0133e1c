"""Ancillary data of both directions: the same for the kernel's sockets and ippath's."""

from __future__ import annotations

import errno
import socket as std
import struct

import pytest

from tests import sockets as S
from tests.sockets import FAMILIES, MAPPED, V4, V6, outcome
from tests.test_socket_names import error

SOL, IP, IPV6, UDP = std.SOL_SOCKET, std.IPPROTO_IP, std.IPPROTO_IPV6, 17
EINVAL, ENODEV = error(errno.EINVAL), error(errno.ENODEV)
LO = 1


def integer(value: int) -> bytes:
    return struct.pack("i", value)


def info4(index: int, spec: str, address: str = "0.0.0.0") -> bytes:
    return integer(index) + std.inet_aton(spec) + std.inet_aton(address)


def info6(address: str, index: int) -> bytes:
    return std.inet_pton(std.AF_INET6, address) + integer(index)


# what is sent along, and what the call says: None is the length of the payload
ASKED4 = [
    ([], None),
    ([(IP, std.IP_TTL, integer(7))], None),
    ([(IP, std.IP_TTL, integer(0))], EINVAL),
    ([(IP, std.IP_TTL, integer(256))], EINVAL),
    ([(IP, std.IP_TTL, b"\7")], EINVAL),
    ([(IP, std.IP_TOS, integer(0x10))], None),
    ([(IP, std.IP_TOS, b"\x10")], None),
    ([(IP, std.IP_TOS, integer(-1))], EINVAL),
    ([(IP, std.IP_TOS, b"\1\2")], EINVAL),
    ([(IP, S.IP_PKTINFO, info4(0, "127.0.0.9"))], None),
    ([(IP, S.IP_PKTINFO, info4(LO, "0.0.0.0"))], None),
    ([(IP, S.IP_PKTINFO, info4(99, "0.0.0.0"))], ENODEV),
    ([(IP, S.IP_PKTINFO, b"short")], EINVAL),
    ([(IP, S.IP_PKTINFO, info4(0, "192.0.2.77"))], error(errno.ENETUNREACH)),
    ([(IP, 99, integer(1))], EINVAL),
    ([(SOL, 99, integer(1))], EINVAL),
    ([(SOL, std.SO_PRIORITY, integer(1))], None),
    ([(UDP, S.UDP_SEGMENT, struct.pack("H", 1000))], None),
    ([(UDP, S.UDP_SEGMENT, integer(1000))], EINVAL),
    ([(UDP, 99, integer(1))], EINVAL),
    ([(777, 99, b"anything")], None),
    ([(IPV6, std.IPV6_HOPLIMIT, integer(7))], None),
    ([(IP, std.IP_TTL, integer(7)), (IP, std.IP_TOS, integer(4)), (IP, std.IP_TTL, integer(9))], None),
]  # fmt: skip
ASKED6 = [
    ([(IPV6, std.IPV6_HOPLIMIT, integer(7))], None),
    ([(IPV6, std.IPV6_HOPLIMIT, integer(0))], None),
    ([(IPV6, std.IPV6_HOPLIMIT, integer(-1))], None),
    ([(IPV6, std.IPV6_HOPLIMIT, integer(-2))], EINVAL),
    ([(IPV6, std.IPV6_HOPLIMIT, integer(256))], EINVAL),
    ([(IPV6, std.IPV6_HOPLIMIT, b"\7")], EINVAL),
    ([(IPV6, std.IPV6_TCLASS, integer(0x28))], None),
    ([(IPV6, std.IPV6_TCLASS, integer(-2))], EINVAL),
    ([(IPV6, std.IPV6_TCLASS, integer(256))], EINVAL),
    ([(IPV6, std.IPV6_DONTFRAG, integer(1))], None),
    ([(IPV6, std.IPV6_DONTFRAG, integer(2))], EINVAL),
    ([(IPV6, std.IPV6_PKTINFO, info6("::1", LO))], None),
    ([(IPV6, std.IPV6_PKTINFO, info6("::", LO))], None),
    ([(IPV6, std.IPV6_PKTINFO, info6("::", 99))], ENODEV),
    ([(IPV6, std.IPV6_PKTINFO, info6("2001:db8::77", 0))], EINVAL),
    ([(IPV6, std.IPV6_PKTINFO, info6("fe80::77", 0))], EINVAL),
    ([(IPV6, std.IPV6_PKTINFO, b"short")], EINVAL),
    ([(IPV6, 99, integer(1))], EINVAL),
    ([(IP, std.IP_TTL, integer(7))], None),
    ([(UDP, S.UDP_SEGMENT, integer(1))], EINVAL),
    ([(SOL, 99, integer(1))], EINVAL),
    ([(777, 99, b"anything")], None),
]  # fmt: skip
TOLD4 = [(IP, S.IP_PKTINFO), (IP, S.IP_RECVTTL), (IP, std.IP_RECVTOS), (IP, S.IP_ORIGDSTADDR)]
TOLD6 = [(IPV6, std.IPV6_RECVPKTINFO), (IPV6, std.IPV6_RECVHOPLIMIT), (IPV6, std.IPV6_RECVTCLASS),
         (IPV6, S.IPV6_ORIGDSTADDR)]  # fmt: skip
CASES = [(V4, *case) for case in ASKED4] + [(V6, *case) for case in ASKED6]


def seen(network: S.Network, where: str, messages: list) -> tuple:
    """What a call with ancillary data says, and what the receiver is told."""
    one, other = network.socket(FAMILIES[where]), network.bound(where)
    for level, name in TOLD4 if where == V4 else TOLD6:
        other.setsockopt(level, name, 1)
    said = outcome(one.sendmsg, [b"payload8"], messages, 0, other.getsockname()[:2])
    if not isinstance(said, int):
        return said, None
    data, told, flags, sender = other.recvmsg(99, 400)
    where_to = struct.pack("!H", other.getsockname()[1])
    return said, data, [(a, b, c.replace(where_to, b"PP")) for a, b, c in told], flags, sender[0]


@pytest.mark.parametrize("where, messages, said", CASES)
def test_what_may_be_asked(where, messages, said) -> None:
    theirs, ours = S.kernel_network(), S.ippath_network()
    found = seen(theirs, where, messages)
    assert found[0] == (8 if said is None else said)
    assert seen(ours, where, messages) == found
    theirs.close()


@pytest.mark.parametrize("messages, said", [
    ([(IPV6, std.IPV6_PKTINFO, info6("::ffff:127.0.0.9", 0))], 8),
    ([(IPV6, std.IPV6_PKTINFO, info6("::1", 0))], EINVAL),
    ([(IPV6, std.IPV6_HOPLIMIT, integer(7))], 8),
    ([(IP, std.IP_TTL, integer(7))], 8),
])  # fmt: skip
def test_ipv4_by_an_ipv6_socket(net, messages, said) -> None:
    one, other = net.socket(std.AF_INET6), net.bound(MAPPED)
    assert outcome(one.sendmsg, [b"payload8"], messages, 0, other.getsockname()[:2]) == said


@pytest.mark.parametrize("names", [[], TOLD4[:1], TOLD4[1:3], TOLD4, TOLD6[:1], [*TOLD4, *TOLD6]])
def test_what_an_ipv6_socket_is_told_of_ipv4(names) -> None:
    told = []
    for network in (S.kernel_network(), S.ippath_network()):
        one, other = network.socket(), network.bound(MAPPED)
        for level, name in names:
            other.setsockopt(level, name, 1)
        port = other.getsockname()[1]
        one.sendto(b"x", ("127.0.0.1", port))
        _, messages, flags, _ = other.recvmsg(9, 400)
        packed = struct.pack("!H", port)
        told.append(([(a, b, c.replace(packed, b"PP")) for a, b, c in messages], flags))
        network.close()
    assert told[1] == told[0]


@pytest.mark.parametrize(
    "room", [0, 1, 15, 16, 17, 20, 24, 28, 29, 32, 40, 48, 52, 56, 64, 72, 100]
)
@pytest.mark.parametrize("where", [V4, V6])
def test_room_for_messages(where, room) -> None:
    told = []
    for network in (S.kernel_network(), S.ippath_network()):
        one, other = network.bound(where), network.bound(where)
        for level, name in (TOLD4 if where == V4 else TOLD6)[:3]:
            other.setsockopt(level, name, 1)
        one.sendto(b"x", other.getsockname()[:2])
        told.append(other.recvmsg(9, room)[:3])
        network.close()
    assert told[1] == told[0]


@pytest.mark.parametrize("name, size", [(S.SO_TIMESTAMP, 16), (S.SO_TIMESTAMPNS, 16)])
def test_time_stamps(net, name, size) -> None:
    one, other = net.pair()
    other.setsockopt(SOL, name, 1)
    one.send(b"x")
    messages = other.recvmsg(9, 99)[1]
    assert [(a, b, len(c)) for a, b, c in messages] == [(SOL, name, size)]


def test_drops_are_told(net) -> None:
    one, other = net.pair()
    other.setsockopt(SOL, std.SO_RCVBUF, 1)
    other.setsockopt(SOL, S.SO_RXQ_OVFL, 1)
    for _ in range(5):
        one.send(b"x")
    for _ in range(2):
        assert other.recvmsg(9, 99)[1] == []
    one.send(b"y")
    assert other.recvmsg(9, 99)[1] == [(SOL, S.SO_RXQ_OVFL, struct.pack("I", 3))]


@pytest.mark.parametrize("where", [V4, V6])
def test_marks(net, where) -> None:
    one, other = net.pair(where)
    other.setsockopt(SOL, S.SO_RCVMARK, 1)
    if outcome(one.setsockopt, SOL, S.SO_MARK, 0x77) is not None:
        pytest.skip("marks need privileges")
    one.send(b"x")
    one.sendmsg([b"y"], [(SOL, S.SO_MARK, integer(0x99))])
    marks = [other.recvmsg(9, 99)[1] for _ in range(2)]
    assert marks == [[(SOL, S.SO_MARK, integer(v))] for v in (0x77, 0x99)]


def test_flow_labels(net) -> None:
    one, other = net.pair(V6)
    other.setsockopt(IPV6, S.IPV6_FLOWINFO, 1)
    one.setsockopt(IPV6, S.IPV6_AUTOFLOWLABEL, 0)
    one.send(b"x")
    assert other.recvmsg(9, 99)[1] == []
    one.setsockopt(IPV6, std.IPV6_TCLASS, 0x30)
    one.send(b"x")
    assert other.recvmsg(9, 99)[1] == [(IPV6, S.IPV6_FLOWINFO, b"\x03\0\0\0")]
