"""Sending and receiving: the same functions for the kernel's sockets and ippath's."""

from __future__ import annotations

import errno
import os
import socket as std
import struct

import pytest

from tests.sockets import (
    FAMILIES, HOSTS, IP_MULTICAST_ALL, IPPROTO_UDPLITE, MAPPED, MSG_PROBE, SO_MEMINFO, SO_PEEK_OFF, UDP_CORK, UDP_GRO,
    UDP_SEGMENT, UDPLITE_RECV_CSCOV, UDPLITE_SEND_CSCOV, V4, V6, outcome,
)  # fmt: skip
from tests.test_socket_names import error

WHERE = pytest.mark.parametrize("where", [V4, V6, MAPPED])
BOTH = pytest.mark.parametrize("where", [V4, V6])
EAGAIN = error(errno.EAGAIN)


@WHERE
@pytest.mark.parametrize("size", [0, 1, 1472, 1500, 9000, 65507])
def test_sizes(net, where, size) -> None:
    one, other = net.bound(where), net.bound(where)
    payload = os.urandom(size)
    assert one.sendto(payload, other.getsockname()[:2]) == size
    assert other.recvfrom(70000) == (payload, one.getsockname())
    assert outcome(other.recv, 9) == EAGAIN


@pytest.mark.parametrize(
    "where, size, number",
    [(V4, 65508, errno.EMSGSIZE), (V4, 65536, errno.EMSGSIZE), (MAPPED, 65508, errno.EMSGSIZE),
     (V6, 65527, None), (V6, 65528, errno.EMSGSIZE), (V6, 70000, errno.EMSGSIZE)],
)  # fmt: skip
def test_the_largest(net, where, size, number) -> None:
    one, other = net.bound(where), net.bound(where)
    found = outcome(one.sendto, bytes(size), other.getsockname()[:2])
    assert found == (size if number is None else error(number))


@WHERE
def test_both_ways(net, where) -> None:
    one, other = net.pair(where)
    one.send(b"there")
    assert other.recv(100) == b"there"
    other.sendall(b"back")
    assert one.recvfrom(100) == (b"back", other.getsockname())


def test_a_socket_of_both_families(net) -> None:
    six, four = net.socket(std.AF_INET6), net.bound(V4)
    six.bind(("::", 0))
    port = six.getsockname()[1]
    four.sendto(b"x", ("127.0.0.1", port))
    data, sender = six.recvfrom(9)
    assert data == b"x" and sender == ("::ffff:127.0.0.1", four.getsockname()[1], 0, 0)
    six.sendto(b"y", sender)
    assert four.recvfrom(9) == (b"y", ("127.0.0.1", port))


def test_to_oneself(net) -> None:
    one = net.bound()
    one.sendto(b"me", one.getsockname())
    assert one.recvfrom(9) == (b"me", one.getsockname())


@pytest.mark.parametrize("where, host", [(V4, "0.0.0.0"), (V6, "::")])
def test_to_nobody_is_to_oneself(net, where, host) -> None:
    one, other = net.socket(FAMILIES[where]), net.bound(where)
    one.sendto(b"x", (host, other.getsockname()[1]))
    assert other.recv(9) == b"x"


@BOTH
def test_order_is_kept(net, where) -> None:
    one, other = net.pair(where)
    for k in range(50):
        one.send(bytes([k]))
    assert [other.recv(9)[0] for _ in range(50)] == list(range(50))


REFUSED = [
    (V4, lambda s: s.send(b"x"), error(errno.EDESTADDRREQ)),
    (V6, lambda s: s.send(b"x"), error(errno.EDESTADDRREQ)),
    (V4, lambda s: s.sendto(b"x", ("127.0.0.1", 0)), error(errno.EINVAL)),
    (V6, lambda s: s.sendto(b"x", ("::1", 0)), error(errno.EINVAL)),
    (V4, lambda s: s.sendto(b"x", std.MSG_OOB, ("127.0.0.1", 9)), error(errno.EOPNOTSUPP)),
    (V6, lambda s: s.sendto(b"x", std.MSG_OOB, ("::1", 9)), 1),
    (V4, lambda s: s.sendto(b"x", ("255.255.255.255", 9)), error(errno.EACCES)),
    (V4, lambda s: s.sendto(b"x", ("127.255.255.255", 9)), error(errno.EACCES)),
    (V4, lambda s: s.sendto("x", ("127.0.0.1", 9)),
     "TypeError: a bytes-like object is required, not 'str'"),
    (V4, lambda s: s.sendto(b"x"), "TypeError: sendto() takes 2 or 3 arguments (1 given)"),
    (V4, lambda s: s.sendto(b"x", 0, ("127.0.0.1", 9), 1),
     "TypeError: sendto() takes 2 or 3 arguments (4 given)"),
    (V4, lambda s: s.sendto(b"x", "127.0.0.1"),
     "TypeError: sendto(): AF_INET address must be tuple, not str"),
    (V4, lambda s: s.sendto(b"x", ("127.0.0.1", 70000)),
     "OverflowError: sendto(): port must be 0-65535."),
    (V4, lambda s: s.sendto(b"x", ("::1", 9)),
     "gaierror: [Errno -9] Address family for hostname not supported"),
    (V4, lambda s: s.sendto(b"x", MSG_PROBE, ("127.0.0.1", 9)), 1),
    (V4, lambda s: s.sendto(b"x", ("240.0.0.1", 9)), None),
    (V6, lambda s: s.sendto(b"x", ("fe80::1%lo", 9)), None),
    (V4, lambda s: s.sendmsg(7), "TypeError: sendmsg() argument 1 must be an iterable"),
    (V4, lambda s: s.recv(-1), "ValueError: negative buffersize in recv"),
    (V4, lambda s: s.recvfrom(-1), "ValueError: negative buffersize in recvfrom"),
    (V4, lambda s: s.recvmsg(-1), "ValueError: negative buffer size in recvmsg()"),
    (V4, lambda s: s.recvmsg(1, -1), "ValueError: invalid ancillary data buffer length"),
    (V4, lambda s: s.recv_into(bytearray(2), 3), "ValueError: buffer too small for requested bytes"),
    (V4, lambda s: s.recvfrom_into(bytearray(2), 3),
     "ValueError: nbytes is greater than the length of the buffer"),
    (V4, lambda s: s.recv_into(bytearray(2), -3), "ValueError: negative buffersize in recv_into"),
    (V4, lambda s: s.settimeout(-1), "ValueError: Timeout value out of range"),
    (V4, lambda s: s.settimeout(float("nan")), "ValueError: Invalid value NaN (not a number)"),
    (V4, lambda s: s.recv(9), EAGAIN),
    (V4, lambda s: s.recv(9, std.MSG_ERRQUEUE), EAGAIN),
]  # fmt: skip


@pytest.mark.parametrize("where, call, said", [r for r in REFUSED if r[2] is not None])
def test_what_is_refused(net, where, call, said) -> None:
    assert outcome(call, net.socket(FAMILIES[where])) == said


@pytest.mark.parametrize("where, host", [(V6, "::ffff:127.0.0.1"), (V6, "::ffff:0.0.0.0")])
def test_v6only_never_sends_ipv4(net, where, host) -> None:
    one = net.socket(std.AF_INET6)
    one.setsockopt(std.IPPROTO_IPV6, std.IPV6_V6ONLY, 1)
    assert outcome(one.sendto, b"x", (host, 9)) == error(errno.ENETUNREACH)


def test_a_socket_bound_to_ipv6_sends_no_ipv4(net) -> None:
    one = net.bound(V6)
    assert outcome(one.sendto, b"x", ("::ffff:127.0.0.1", 9)) == error(errno.ENETUNREACH)


def test_a_socket_bound_to_mapped_sends_no_ipv6(net) -> None:
    one = net.bound(MAPPED)
    assert outcome(one.sendto, b"x", ("::1", 9)) == error(errno.EAFNOSUPPORT)


# --- reading -------------------------------------------------------------------------------------------


@WHERE
@pytest.mark.parametrize("room, flags, told", [(4, 0, std.MSG_TRUNC), (5, 0, 0), (9, 0, 0), (0, 0, std.MSG_TRUNC)])  # fmt: skip
def test_what_does_not_fit_is_lost(net, where, room, flags, told) -> None:
    one, other = net.pair(where)
    one.send(b"12345")
    one.send(b"next")
    data, messages, found, name = other.recvmsg(room, 0, flags)
    assert (data, messages, found & std.MSG_TRUNC) == (b"12345"[:room], [], told)
    assert name == one.getsockname()
    assert other.recv(9) == b"next"


@BOTH
def test_the_whole_length(net, where) -> None:
    one, other = net.pair(where)
    one.send(b"12345")
    assert other.recv_into(bytearray(2), 2, std.MSG_TRUNC) == 5


@BOTH
def test_peek(net, where) -> None:
    one, other = net.pair(where)
    one.send(b"12345")
    for _ in range(2):
        assert other.recv(3, std.MSG_PEEK) == b"123"
    assert other.recv(9) == b"12345" and outcome(other.recv, 9) == EAGAIN


def test_peek_offset(net) -> None:
    one, other = net.pair()
    other.setsockopt(std.SOL_SOCKET, SO_PEEK_OFF, 0)
    one.send(b"0123456789")
    one.send(b"abcde")
    assert other.recv(4, std.MSG_PEEK) == b"0123"
    assert other.recv(10, std.MSG_PEEK) == b"456789"
    assert other.recv(10, std.MSG_PEEK) == b"abcde"
    assert outcome(other.recv, 10, std.MSG_PEEK) == EAGAIN
    assert other.recv(10) == b"0123456789"
    assert other.getsockopt(std.SOL_SOCKET, SO_PEEK_OFF) == 5


def test_into_buffers(net) -> None:
    one, other = net.pair()
    for text in (b"one", b"two", b"three", b"four"):
        one.send(text)
    buffer = bytearray(8)
    assert other.recv_into(buffer) == 3 and bytes(buffer) == b"one\0\0\0\0\0"
    assert other.recvfrom_into(buffer, 2) == (2, one.getsockname()) and buffer[:3] == b"twe"
    first, second = bytearray(2), bytearray(9)
    length, messages, flags, name = other.recvmsg_into([first, second])
    assert (length, messages, flags, name) == (5, [], 0, one.getsockname())
    assert bytes(first) == b"th" and second[:3] == b"ree"
    assert other.recv(9) == b"four"


def test_gathered_from_buffers(net) -> None:
    one, other = net.pair()
    assert one.sendmsg([b"ab", bytearray(b"cd"), memoryview(b"ef")]) == 6
    assert one.sendmsg([]) == 0
    assert other.recv(9) == b"abcdef" and other.recv(9) == b""


def test_timeouts(net) -> None:
    one = net.bound()
    one.settimeout(0.05)
    assert one.gettimeout() == 0.05 and one.getblocking()
    assert outcome(one.recv, 9) == "TimeoutError: timed out"
    one.setblocking(False)
    assert one.gettimeout() == 0.0 and not one.getblocking()
    assert outcome(one.recvfrom, 9) == EAGAIN
    one.settimeout(None)
    assert one.timeout is None and outcome(one.recv, 9, std.MSG_DONTWAIT) == EAGAIN


# --- memory --------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("size", [0, 16, 100, 400, 1000, 1472, 4000, 15000, 20000, 65000])
def test_what_a_datagram_costs(net, where, size) -> None:
    one, other = net.pair(where)
    one.send(bytes(size))
    found = struct.unpack("9I", other.getsockopt(std.SOL_SOCKET, SO_MEMINFO, 36))[0]
    head = size + (48 if where == V6 else 28) + 31
    if head >= 16064:
        expected = 832 + size
    else:
        needed = (head + 63 & -64) + 320
        expected = 832 if needed <= 576 else 256 + (1 << (max(needed, 1024) - 1).bit_length())
    assert found == expected


@BOTH
@pytest.mark.parametrize(
    "buffer, size", [(1, 1), (2000, 1), (10000, 600), (20000, 1472), (1, 60000)]
)
def test_how_many_fit(net, where, buffer, size) -> None:
    one, other = net.pair(where)
    other.setsockopt(std.SOL_SOCKET, std.SO_RCVBUF, buffer)
    for _ in range(100):
        one.send(bytes(size))
    limit = other.getsockopt(std.SOL_SOCKET, std.SO_RCVBUF)
    count = 0
    while outcome(other.recv, 1) != EAGAIN:
        count += 1
    charge = {1: 832, 600: 1280, 1472: 2304, 60000: 60832}[size]
    assert limit == max(2304, 2 * buffer) and count == max(1, limit // charge)


def test_memory_comes_back_in_portions(net) -> None:
    """What a reader took off at once stays charged until a quarter of the buffer is free."""
    one, other = net.pair()
    other.setsockopt(std.SOL_SOCKET, std.SO_RCVBUF, 10000)
    for _ in range(20):
        one.send(b"x")

    def charged() -> int:
        return struct.unpack("9I", other.getsockopt(std.SOL_SOCKET, SO_MEMINFO, 36))[0]

    seen = []
    for _ in range(20):
        other.recv(1)
        seen.append(charged())
    assert seen == [16640 - 832 * (k - k % 7) if k < 20 else 0 for k in range(1, 21)]


def test_a_flood_drops_and_counts(net) -> None:
    one, other = net.pair()
    other.setsockopt(std.SOL_SOCKET, std.SO_RCVBUF, 1)
    for _ in range(10):
        one.send(b"x")
    assert struct.unpack("9I", other.getsockopt(std.SOL_SOCKET, SO_MEMINFO, 36))[8] == 8


# --- cork, segments, UDP-Lite --------------------------------------------------------------------------


@BOTH
def test_more(net, where) -> None:
    one, other = net.pair(where)
    for part in (b"ab", b"cd"):
        assert one.send(part, std.MSG_MORE) == 2
    assert outcome(other.recv, 9) == EAGAIN
    assert one.send(b"ef") == 2
    assert other.recv(9) == b"abcdef" and outcome(other.recv, 9) == EAGAIN


@BOTH
def test_cork(net, where) -> None:
    one, other = net.pair(where)
    one.setsockopt(std.SOL_UDP if hasattr(std, "SOL_UDP") else 17, UDP_CORK, 1)
    for part in (b"1", b"22", b"", b"333"):
        one.send(part)
    assert outcome(other.recv, 9) == EAGAIN
    one.setsockopt(17, UDP_CORK, 0)
    assert other.recv(9) == b"122333" and one.getsockopt(17, UDP_CORK) == 0


def test_cork_keeps_the_first_destination(net) -> None:
    one, first, second = net.bound(), net.bound(), net.bound()
    one.sendto(b"a", std.MSG_MORE, first.getsockname())
    one.sendto(b"b", second.getsockname())
    assert first.recv(9) == b"ab" and outcome(second.recv, 9) == EAGAIN


@BOTH
def test_cork_that_grows_too_large_is_lost(net, where) -> None:
    one, other = net.pair(where)
    one.setsockopt(17, UDP_CORK, 1)
    sent = 0
    while outcome(one.send, bytes(1000)) == 1000:
        sent += 1
    assert sent == 65
    one.setsockopt(17, UDP_CORK, 0)
    assert outcome(other.recv, 9) == EAGAIN
    assert one.send(b"x") == 1 and other.recv(9) == b"x"


def test_cork_and_the_other_family(net) -> None:
    one, other, four = net.socket(std.AF_INET6), net.bound(V6), net.bound(V4)
    one.sendto(b"a", std.MSG_MORE, other.getsockname()[:2])
    found = outcome(one.sendto, b"b", ("::ffff:127.0.0.1", four.getsockname()[1]))
    assert found == error(errno.EINVAL)
    one.sendto(b"c", other.getsockname()[:2])
    assert other.recv(9) == b"ac"


@BOTH
@pytest.mark.parametrize(
    "size, segment, parts",
    [(4416, 1472, [1472, 1472, 1472]), (3000, 1472, [1472, 1472, 56]), (100, 1000, [100]),
     (12800, 100, [100] * 128), (1, 1, [1]), (0, 100, [0])],
)  # fmt: skip
def test_segments(net, where, size, segment, parts) -> None:
    one, other = net.pair(where)
    one.setsockopt(17, UDP_SEGMENT, segment)
    payload = os.urandom(size)
    assert one.send(payload) == size
    got = [other.recv(70000) for _ in parts]
    assert [len(p) for p in got] == parts and b"".join(got) == payload
    assert outcome(other.recv, 9) == EAGAIN


@BOTH
def test_segments_by_ancillary_data(net, where) -> None:
    one, other = net.pair(where)
    one.sendmsg([bytes(250)], [(17, UDP_SEGMENT, struct.pack("H", 100))])
    assert [len(other.recv(999)) for _ in range(3)] == [100, 100, 50]


@BOTH
@pytest.mark.parametrize(
    "size, segment, number",
    [(12801, 100, errno.EINVAL), (65508, 1000, errno.EMSGSIZE), (129, 1, errno.EINVAL)],
)
def test_too_many_segments(net, where, size, segment, number) -> None:
    if where == V6 and size == 65508:
        size = 65528
    one, _ = net.pair(where)
    one.setsockopt(17, UDP_SEGMENT, segment)
    assert outcome(one.send, bytes(size)) == error(number)


@BOTH
def test_segments_arrive_whole_where_they_may(net, where) -> None:
    one, other = net.pair(where)
    other.setsockopt(17, UDP_GRO, 1)
    one.setsockopt(17, UDP_SEGMENT, 100)
    one.send(bytes(250))
    one.send(b"alone")
    data, messages, flags, _ = other.recvmsg(999, 99)
    assert (len(data), messages, flags) == (250, [(17, UDP_GRO, struct.pack("i", 100))], 0)
    data, messages, _, _ = other.recvmsg(999, 99)
    assert (data, messages) == (b"alone", [])


@BOTH
def test_udp_lite(net, where) -> None:
    one, other = net.pair(where, IPPROTO_UDPLITE)
    one.send(b"whole")
    one.setsockopt(IPPROTO_UDPLITE, UDPLITE_SEND_CSCOV, 8)
    one.send(b"part")
    assert other.recv(9) == b"whole" and other.recv(9) == b"part"
    other.setsockopt(IPPROTO_UDPLITE, UDPLITE_RECV_CSCOV, 20)
    one.send(b"too little")
    assert outcome(other.recv, 9) == EAGAIN
    one.setsockopt(IPPROTO_UDPLITE, UDPLITE_SEND_CSCOV, 20)
    one.send(bytes(30))
    assert other.recv(99) == bytes(30)


@BOTH
def test_without_a_checksum(net, where) -> None:
    one, other = net.pair(where)
    level, name = (std.SOL_SOCKET, 11) if where == V4 else (17, 101)
    one.setsockopt(level, name, 1)
    one.send(b"x")
    if where == V6:
        assert outcome(other.recv, 9) == EAGAIN
        other.setsockopt(17, 102, 1)
        one.send(b"x")
    assert other.recv(9) == b"x"


# --- groups --------------------------------------------------------------------------------------------

GROUP = "239.1.2.3"  # the loopback device has no way to IPv6 groups


def _listening(net):
    one = net.socket()
    one.setsockopt(std.SOL_SOCKET, std.SO_REUSEADDR, 1)
    return one


def _membership(option):
    return std.IPPROTO_IP, option, std.inet_aton(GROUP) + std.inet_aton("127.0.0.1")


def _sender(net):
    one = net.socket()
    one.setsockopt(std.IPPROTO_IP, std.IP_MULTICAST_IF, std.inet_aton("127.0.0.1"))
    return one


def test_every_member_of_a_group_gets_a_copy(net) -> None:
    one, other, sender = _listening(net), _listening(net), _sender(net)
    one.bind(("0.0.0.0", 0))
    other.bind(one.getsockname())
    sender.sendto(b"nobody", (GROUP, one.getsockname()[1]))
    assert outcome(one.recv, 9) == EAGAIN
    for s in (one, other):
        s.setsockopt(*_membership(std.IP_ADD_MEMBERSHIP))
    sender.sendto(b"all", (GROUP, one.getsockname()[1]))
    assert one.recv(9) == b"all" and other.recv(9) == b"all"


def test_groups_that_others_joined(net) -> None:
    one, other, sender = _listening(net), _listening(net), _sender(net)
    one.bind(("0.0.0.0", 0))
    other.bind(one.getsockname())
    one.setsockopt(*_membership(std.IP_ADD_MEMBERSHIP))
    where = (GROUP, one.getsockname()[1])
    sender.sendto(b"1", where)
    assert one.recv(9) == b"1" and other.recv(9) == b"1"
    other.setsockopt(std.IPPROTO_IP, IP_MULTICAST_ALL, 0)
    sender.sendto(b"2", where)
    assert one.recv(9) == b"2" and outcome(other.recv, 9) == EAGAIN


def test_leaving_a_group(net) -> None:
    one, sender = _listening(net), _sender(net)
    one.bind(("0.0.0.0", 0))
    one.setsockopt(*_membership(std.IP_ADD_MEMBERSHIP))
    again = outcome(one.setsockopt, *_membership(std.IP_ADD_MEMBERSHIP))
    assert again == error(errno.EADDRINUSE)
    sender.sendto(b"1", (GROUP, one.getsockname()[1]))
    one.setsockopt(*_membership(std.IP_DROP_MEMBERSHIP))
    sender.sendto(b"2", (GROUP, one.getsockname()[1]))
    assert one.recv(9) == b"1" and outcome(one.recv, 9) == EAGAIN
    again = outcome(one.setsockopt, *_membership(std.IP_DROP_MEMBERSHIP))
    assert again == error(errno.EADDRNOTAVAIL)


def test_bound_to_a_group(net) -> None:
    one, wide, sender = _listening(net), _listening(net), _sender(net)
    one.bind((GROUP, 0))
    wide.bind(("127.0.0.1", one.getsockname()[1]))
    one.setsockopt(*_membership(std.IP_ADD_MEMBERSHIP))
    sender.sendto(b"group", (GROUP, one.getsockname()[1]))
    assert one.recv(9) == b"group" and outcome(wide.recv, 9) == EAGAIN


def test_broadcast(net) -> None:
    one, other, sender = net.socket(), net.bound(), net.socket()
    one.bind(("0.0.0.0", 0))
    sender.setsockopt(std.SOL_SOCKET, std.SO_BROADCAST, 1)
    sender.sendto(b"all", ("127.255.255.255", one.getsockname()[1]))
    assert one.recv(9) == b"all" and outcome(other.recv, 9) == EAGAIN


def test_hosts_are_known(net) -> None:
    assert HOSTS[V4] == net.bound().getsockname()[0]
