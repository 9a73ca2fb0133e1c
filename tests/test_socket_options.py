"""Options: defaults, limits and errors are the same for the kernel's sockets and ippath's."""

from __future__ import annotations

import errno
import socket as std
import struct

import pytest

from tests import sockets as S
from tests.sockets import V4, V6, outcome
from tests.test_socket_names import error

SOL, IP, IPV6, UDP = std.SOL_SOCKET, std.IPPROTO_IP, std.IPPROTO_IPV6, 17

DEFAULTS = [
    (SOL, std.SO_REUSEADDR), (SOL, std.SO_TYPE), (SOL, std.SO_ERROR), (SOL, std.SO_DONTROUTE),
    (SOL, std.SO_BROADCAST), (SOL, std.SO_RCVBUF), (SOL, std.SO_SNDBUF), (SOL, std.SO_KEEPALIVE),
    (SOL, std.SO_OOBINLINE), (SOL, S.SO_NO_CHECK), (SOL, std.SO_PRIORITY), (SOL, std.SO_REUSEPORT),
    (SOL, std.SO_PROTOCOL), (SOL, std.SO_DOMAIN), (SOL, std.SO_ACCEPTCONN), (SOL, S.SO_TIMESTAMP),
    (SOL, S.SO_TIMESTAMPNS), (SOL, S.SO_MARK), (SOL, S.SO_RXQ_OVFL), (SOL, S.SO_PEEK_OFF),
    (SOL, S.SO_ZEROCOPY), (SOL, S.SO_RCVMARK), (SOL, std.SO_RCVLOWAT), (SOL, 62), (SOL, 9999),
    (IP, std.IP_TOS), (IP, std.IP_TTL), (IP, S.IP_PKTINFO), (IP, S.IP_MTU_DISCOVER),
    (IP, S.IP_RECVERR), (IP, S.IP_RECVTTL), (IP, std.IP_RECVTOS), (IP, S.IP_MTU), (IP, S.IP_FREEBIND),
    (IP, std.IP_TRANSPARENT), (IP, std.IP_MULTICAST_TTL), (IP, std.IP_MULTICAST_LOOP),
    (IP, std.IP_MULTICAST_IF), (IP, S.IP_MULTICAST_ALL), (IP, S.IP_UNICAST_IF), (IP, 24), (IP, 51),
    (IP, S.IP_ORIGDSTADDR), (IP, 21), (IP, 999), (IPV6, std.IPV6_UNICAST_HOPS),
    (IPV6, std.IPV6_MULTICAST_HOPS), (IPV6, std.IPV6_MULTICAST_LOOP), (IPV6, std.IPV6_MULTICAST_IF),
    (IPV6, S.IPV6_MTU_DISCOVER), (IPV6, S.IPV6_MTU), (IPV6, S.IPV6_RECVERR), (IPV6, std.IPV6_V6ONLY),
    (IPV6, S.IPV6_MULTICAST_ALL), (IPV6, std.IPV6_RECVPKTINFO), (IPV6, std.IPV6_RECVHOPLIMIT),
    (IPV6, std.IPV6_RECVTCLASS), (IPV6, std.IPV6_TCLASS), (IPV6, std.IPV6_DONTFRAG),
    (IPV6, S.IPV6_UNICAST_IF), (IPV6, S.IPV6_FLOWINFO), (IPV6, 33), (IPV6, 78), (IPV6, 999),
    (UDP, S.UDP_CORK), (UDP, S.UDP_NO_CHECK6_TX), (UDP, S.UDP_NO_CHECK6_RX), (UDP, S.UDP_SEGMENT),
    (UDP, S.UDP_GRO), (UDP, S.UDPLITE_SEND_CSCOV), (UDP, S.UDPLITE_RECV_CSCOV), (UDP, 999),
    (777, 1),
]  # fmt: skip


@pytest.fixture(params=[V4, V6])
def both(request, pytestconfig):
    """A socket of each network, of one family, not bound."""
    networks = S.kernel_network(), S.ippath_network()
    yield tuple(n.socket(S.FAMILIES[request.param]) for n in networks)
    for network in networks:
        network.close()


@pytest.mark.parametrize("level, name", DEFAULTS)
def test_defaults(both, level, name) -> None:
    theirs, ours = (outcome(s.getsockopt, level, name) for s in both)
    assert ours == theirs


VALUES = [
    -(1 << 31),
    -2,
    -1,
    0,
    1,
    2,
    3,
    5,
    6,
    64,
    255,
    256,
    1279,
    1280,
    65535,
    65536,
    (1 << 31) - 1,
]
CHANGED = [
    (level, name)
    for level, name in DEFAULTS
    if (level, name) not in {(SOL, 62), (IP, std.IP_MULTICAST_IF), (IPV6, std.IPV6_MULTICAST_IF)}
]


@pytest.mark.parametrize("level, name", CHANGED)
def test_values_that_are_taken(both, level, name) -> None:
    for value in VALUES:
        told = []
        for one in both:
            said = outcome(one.setsockopt, level, name, value)
            told.append((value, said, outcome(one.getsockopt, level, name)))
        assert told[1] == told[0]


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 8])
@pytest.mark.parametrize(
    "level, name",
    [(SOL, std.SO_BROADCAST), (SOL, std.SO_RCVBUF), (IP, std.IP_TOS), (IP, std.IP_TTL),
     (IP, std.IP_MULTICAST_TTL), (IPV6, std.IPV6_V6ONLY), (IPV6, std.IPV6_TCLASS),
     (IPV6, std.IPV6_UNICAST_HOPS), (UDP, S.UDP_SEGMENT), (IP, std.IP_MULTICAST_IF),
     (IPV6, std.IPV6_MULTICAST_IF), (IP, std.IP_ADD_MEMBERSHIP)],
)  # fmt: skip
def test_bytes_in_place_of_numbers(both, level, name, size) -> None:
    raw = b"\1" + bytes(max(0, size - 1)) if size else b""
    theirs, ours = (
        (outcome(one.setsockopt, level, name, raw), outcome(one.getsockopt, level, name))
        for one in both
    )
    assert ours == theirs


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 8, 1024, 1025, -1])
@pytest.mark.parametrize("level, name", [(SOL, std.SO_RCVBUF), (IP, std.IP_TTL), (UDP, S.UDP_CORK)])
def test_values_as_bytes(both, level, name, size) -> None:
    theirs, ours = (outcome(s.getsockopt, level, name, size) for s in both)
    assert ours == theirs


@pytest.mark.parametrize(
    "name, value, said",
    [(std.SO_BINDTODEVICE, b"lo", b"lo\0"), (std.SO_BINDTODEVICE, b"none7", error(errno.ENODEV)),
     (62, 1, 1), (62, 77, 77), (62, -1, error(errno.EINVAL))],
)  # fmt: skip
def test_binding_to_a_device(net, name, value, said) -> None:
    one = net.socket()
    found = outcome(one.setsockopt, SOL, name, value)
    if found is None:
        found = (
            one.getsockopt(SOL, name, 16) if isinstance(said, bytes) else one.getsockopt(SOL, name)
        )
    assert found == said


def test_a_device_narrows(net) -> None:
    one, sender = net.bound(), net.socket()
    one.setsockopt(SOL, std.SO_BINDTODEVICE, b"lo")
    sender.sendto(b"x", one.getsockname())
    assert one.recv(9) == b"x"


@pytest.mark.parametrize(
    "value, kept",
    [(1, 2304), (1151, 2304), (1153, 2306), (100000, 200000), (212992, 425984)],
)
def test_receive_buffer(net, value, kept) -> None:
    one = net.socket()
    one.setsockopt(SOL, std.SO_RCVBUF, value)
    assert one.getsockopt(SOL, std.SO_RCVBUF) == kept


@pytest.mark.parametrize("where", [V4, V6])
def test_what_packets_carry(net, where) -> None:
    """TTL and TOS of the socket, as the receiver sees them."""
    one, other = net.pair(where)
    if where == V4:
        asked = [(IP, std.IP_TTL, 7), (IP, std.IP_TOS, 0x28)]
        told = [(IP, S.IP_RECVTTL), (IP, std.IP_RECVTOS)]
        expected = [(IP, std.IP_TTL, struct.pack("i", 7)), (IP, std.IP_TOS, b"\x28")]
    else:
        asked = [(IPV6, std.IPV6_UNICAST_HOPS, 7), (IPV6, std.IPV6_TCLASS, 0x28)]
        told = [(IPV6, std.IPV6_RECVHOPLIMIT), (IPV6, std.IPV6_RECVTCLASS)]
        expected = [(IPV6, std.IPV6_HOPLIMIT, struct.pack("i", 7)),
                    (IPV6, std.IPV6_TCLASS, struct.pack("i", 0x28))]  # fmt: skip
    for option in asked:
        one.setsockopt(*option)
    for level, name in told:
        other.setsockopt(level, name, 1)
    one.send(b"x")
    assert other.recvmsg(9, 200)[1] == expected


@pytest.mark.parametrize("where, mtu", [(V4, 65535), (V6, 65536)])
def test_path_mtu_of_a_connected_socket(net, where, mtu) -> None:
    one, _ = net.pair(where)
    level, name = (IP, S.IP_MTU) if where == V4 else (IPV6, S.IPV6_MTU)
    found = one.getsockopt(level, name)
    assert found == mtu


def test_setting_needs_a_value(net) -> None:
    found = outcome(net.socket().setsockopt, SOL, std.SO_BROADCAST, None, 4)
    assert found == error(errno.EFAULT)
    found = outcome(net.socket().setsockopt, SOL, std.SO_BROADCAST, 1 << 31)
    assert found == "TypeError: a bytes-like object is required, not 'int'"
