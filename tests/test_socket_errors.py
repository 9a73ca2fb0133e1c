"""Errors that the network reports, and completion notices: the same for both kinds of socket."""

from __future__ import annotations

import errno
import socket as std
import struct

import pytest

from tests import sockets as S
from tests.sockets import FAMILIES, HOSTS, MAPPED, V4, V6, outcome
from tests.test_socket_names import error

SOL, IP, IPV6 = std.SOL_SOCKET, std.IPPROTO_IP, std.IPPROTO_IPV6
REFUSED, EAGAIN = error(errno.ECONNREFUSED), error(errno.EAGAIN)
WHERE = pytest.mark.parametrize("where", [V4, V6, MAPPED])
BOTH = pytest.mark.parametrize("where", [V4, V6])
WANT = {V4: (IP, S.IP_RECVERR), V6: (IPV6, S.IPV6_RECVERR), MAPPED: (IP, S.IP_RECVERR)}


def refused(net, where):
    """A socket connected to a port without a socket, after one datagram; and that port."""
    port = net.free_port(where)
    one = net.socket(FAMILIES[where])
    one.connect((HOSTS[where], port))
    one.send(b"payload8")
    return one, port


@WHERE
@pytest.mark.parametrize("call", ["send", "recv", "SO_ERROR"])
def test_refused_once(net, where, call) -> None:
    one, _ = refused(net, where)
    if call == "SO_ERROR":
        assert one.getsockopt(SOL, std.SO_ERROR) == errno.ECONNREFUSED
        assert one.getsockopt(SOL, std.SO_ERROR) == 0
    else:
        found = outcome(one.send, b"x") if call == "send" else outcome(one.recv, 9)
        assert found == REFUSED
    assert outcome(one.recv, 9) == EAGAIN and outcome(one.send, b"y") == 1


@WHERE
def test_an_unconnected_socket_hears_nothing(net, where) -> None:
    one, port = net.socket(FAMILIES[where]), net.free_port(where)
    for _ in range(2):
        assert one.sendto(b"x", (HOSTS[where], port)) == 1
    assert outcome(one.recv, 9) == EAGAIN


@WHERE
def test_the_error_queue(net, where) -> None:
    one, port = net.socket(FAMILIES[where]), net.free_port(where)
    one.setsockopt(*WANT[where], 1)
    one.sendto(b"payload8", (HOSTS[where], port))
    assert outcome(one.sendto, b"next", (HOSTS[where], port)) == REFUSED
    data, messages, flags, name = one.recvmsg(99, 200, S.MSG_ERRQUEUE)
    assert data == b"payload8" and flags == S.MSG_ERRQUEUE
    assert name[:2] == (HOSTS[where], port)
    ((level, kind, extended),) = messages
    # messages are of the socket's family, not of the packet's
    assert (level, kind) == (WANT[V4] if where == V4 else WANT[V6])
    number, origin, what, code, _, info, more = struct.unpack("=IBBBBII", extended[:16])
    assert (number, info, more) == (errno.ECONNREFUSED, 0, 0)
    assert (origin, what, code) == ((3, 1, 4) if where == V6 else (2, 3, 3))
    assert len(extended) == 16 + (16 if where == V4 else 28)
    family = std.AF_INET if where == V4 else std.AF_INET6
    assert struct.unpack("=H", extended[16:18]) == (family,)
    assert outcome(one.recvmsg, 99, 200, S.MSG_ERRQUEUE) == EAGAIN


@BOTH
def test_entries_come_one_by_one(net, where) -> None:
    one, port = net.socket(FAMILIES[where]), net.free_port(where)
    one.setsockopt(*WANT[where], 1)
    for k in range(6):  # every other call is told of the error before
        outcome(one.sendto, bytes([k]), (HOSTS[where], port))
    got = [one.recvmsg(99, 200, S.MSG_ERRQUEUE)[0] for _ in range(3)]
    assert got == [b"\0", b"\2", b"\4"]
    assert one.getsockopt(SOL, std.SO_ERROR) == 0


@BOTH
def test_reading_the_queue_settles_the_error(net, where) -> None:
    one, port = refused(net, where)
    one.getsockopt(SOL, std.SO_ERROR)
    one.setsockopt(*WANT[where], 1)
    one.send(b"1")
    one.recvmsg(99, 200, S.MSG_ERRQUEUE)
    assert one.getsockopt(SOL, std.SO_ERROR) == 0


@BOTH
def test_the_queue_is_emptied_by_the_option(net, where) -> None:
    one, port = net.socket(FAMILIES[where]), net.free_port(where)
    one.setsockopt(*WANT[where], 1)
    one.sendto(b"x", (HOSTS[where], port))
    one.setsockopt(*WANT[where], 0)
    assert outcome(one.recvmsg, 99, 200, S.MSG_ERRQUEUE) == EAGAIN


@BOTH
@pytest.mark.parametrize("room, left", [(3, b"pay"), (0, b"")])
def test_a_quotation_is_cut(net, where, room, left) -> None:
    one, port = net.socket(FAMILIES[where]), net.free_port(where)
    one.setsockopt(*WANT[where], 1)
    one.sendto(b"payload8", (HOSTS[where], port))
    data, messages, flags, _ = one.recvmsg(room, 0, S.MSG_ERRQUEUE)
    assert data == left and messages == []
    assert flags == S.MSG_ERRQUEUE | std.MSG_TRUNC | std.MSG_CTRUNC


@BOTH
def test_a_pending_error_comes_before_data(net, where) -> None:
    one, _ = refused(net, where)
    peer = net.socket(FAMILIES[where])
    peer.bind(one.getpeername()[:2])
    peer.sendto(b"x", one.getsockname()[:2])
    assert outcome(one.recv, 9) == REFUSED and one.recv(9) == b"x"


@BOTH
def test_bad_calls_keep_a_pending_error(net, where) -> None:
    one, _ = refused(net, where)
    assert outcome(one.sendto, b"x", (HOSTS[where], 0)) == error(errno.EINVAL)
    assert outcome(one.recv, 9) == REFUSED


# with PROBE and INTERFACE the loopback's MTU of 65536 lets one byte more pass than a header can say
MODES = [
    (mode, size)
    for mode in range(6)
    for size in (65507, 65508, 65530)
    if (mode, size) not in {(3, 65508), (4, 65508)}
]


@pytest.mark.parametrize("mode, size", MODES)
@BOTH
def test_what_is_too_large(where, mode, size) -> None:
    """Path MTU discovery decides whether a datagram may be cut; the error queue tells the MTU."""
    told = []
    for network in (S.kernel_network(), S.ippath_network()):
        one, other = network.bound(where), network.bound(where)
        level, name = (IP, S.IP_MTU_DISCOVER) if where == V4 else (IPV6, S.IPV6_MTU_DISCOVER)
        one.setsockopt(level, name, mode)
        one.setsockopt(*WANT[where], 1)
        said = outcome(one.sendto, bytes(size), other.getsockname()[:2])
        queued = outcome(one.recvmsg, 9, 200, S.MSG_ERRQUEUE)
        if isinstance(queued, tuple):
            queued = queued[0], queued[1], queued[2], queued[3][0]
        told.append((said, queued, len(outcome(other.recv, 70000)) if said == size else 0))
        network.close()
    assert told[1] == told[0]


@pytest.mark.parametrize("size", [1240, 65480, 65489])
def test_do_not_fragment6(net, size) -> None:
    one, other = net.bound(V6), net.bound(V6)
    one.setsockopt(IPV6, std.IPV6_DONTFRAG, 1)
    said = outcome(one.sendto, bytes(size), other.getsockname()[:2])
    assert said == (size if size <= 65488 else error(errno.EMSGSIZE))


@pytest.mark.parametrize("mtu", [1280, 1500, 9000])
def test_an_mtu_of_ones_own(net, mtu) -> None:
    one, other = net.bound(V6), net.bound(V6)
    one.setsockopt(IPV6, S.IPV6_MTU, mtu)
    one.setsockopt(IPV6, S.IPV6_MTU_DISCOVER, 2)
    assert one.sendto(bytes(mtu - 48), other.getsockname()[:2]) == mtu - 48
    assert outcome(one.sendto, bytes(mtu - 47), other.getsockname()[:2]) == error(errno.EMSGSIZE)
    one.setsockopt(IPV6, S.IPV6_MTU_DISCOVER, 1)
    assert one.sendto(bytes(20000), other.getsockname()[:2]) == 20000
    assert [len(other.recv(70000)) for _ in range(2)] == [mtu - 48, 20000]


# --- completion notices --------------------------------------------------------------------------------


def notices(one) -> list[tuple[int, ...]]:
    """Each entry of the error queue: errno, origin, code, first and last number."""
    found = []
    while True:
        got = outcome(one.recvmsg, 9, 200, S.MSG_ERRQUEUE)
        if got == EAGAIN:
            return found
        assert got[0] == b""
        number, origin, _, code, _, low, high = struct.unpack("=IBBBBII", got[1][0][2][:16])
        found.append((number, origin, code, low, high))


@BOTH
def test_zero_copy_tells_when_it_is_done(net, where) -> None:
    one, other = net.pair(where)
    one.setsockopt(SOL, S.SO_ZEROCOPY, 1)
    for _ in range(3):
        one.send(bytes(1000), S.MSG_ZEROCOPY)
    for _ in range(3):
        other.recv(2000)
    assert notices(one) == [(0, 5, 1, 0, 2)]
    one.send(b"", S.MSG_ZEROCOPY)  # nothing counts, too
    one.send(bytes(1000), S.MSG_ZEROCOPY)
    other.recv(2000), other.recv(2000)
    assert notices(one) == [(0, 5, 1, 3, 4)]


@BOTH
def test_zero_copy_must_be_wanted(net, where) -> None:
    one, other = net.pair(where)
    assert one.send(bytes(1000), S.MSG_ZEROCOPY) == 1000
    assert other.recv(2000) == bytes(1000) and notices(one) == []


@BOTH
def test_zero_copy_of_a_failed_call_takes_no_number(net, where) -> None:
    one, other = net.pair(where)
    one.setsockopt(SOL, S.SO_ZEROCOPY, 1)
    assert outcome(one.send, bytes(70000), S.MSG_ZEROCOPY) == error(errno.EMSGSIZE)
    one.send(bytes(10), S.MSG_ZEROCOPY)
    other.recv(99)
    assert notices(one) == [(0, 5, 1, 0, 0)]
