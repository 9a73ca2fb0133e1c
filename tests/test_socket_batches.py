"""Many datagrams in one call: as many single calls would have it, in lists and in arrays."""

from __future__ import annotations

import errno
import ipaddress

import numpy as np
import pytest

import ippath.socket as socket
from ippath import Netns, PacketBatch
from ippath.fib.control import new_host
from tests.sockets import FAMILIES, HOSTS, MAPPED, V4, V6, outcome
from tests.test_lab import two
from tests.test_socket_names import error

WHERE = pytest.mark.parametrize("where", [V4, V6, MAPPED])
BOTH = pytest.mark.parametrize("where", [V4, V6])
EAGAIN = error(errno.EAGAIN)


def pair(where: str = V4):
    """A host, and two of its sockets, which never block."""
    netns = Netns(new_host())
    found = []
    for _ in range(2):
        sock = netns.socket(FAMILIES[where])
        sock.bind((HOSTS[where], 0))
        sock.settimeout(0)
        found.append(sock)
    return netns, *found


def payloads(count: int) -> tuple[list[bytes], np.ndarray, np.ndarray, np.ndarray]:
    """Payloads of different sizes, nothing among them, and the arrays that hold them."""
    parts = [bytes([k & 255]) * (k * 37 % 1400) for k in range(count)]
    length = np.array([len(p) for p in parts], np.int64)
    data = np.frombuffer(bytearray(b"".join(parts)), np.uint8)
    return parts, data, np.cumsum(length) - length, length


def test_lists() -> None:
    _, one, other = pair()
    to = other.getsockname()
    assert one.sendmmsg([([b"a", b"b"], (), to), ([b"c"], [], to), ([b""], (), to)]) == 3
    got = other.recvmmsg(2, 9)
    assert got == [(b"ab", [], 0, one.getsockname()), (b"c", [], 0, one.getsockname())]
    assert [m[0] for m in other.recvmmsg(9, 9)] == [b""]
    assert outcome(other.recvmmsg, 9, 9) == EAGAIN


def test_a_list_ends_with_what_fails() -> None:
    _, one, other = pair()
    to = other.getsockname()
    assert one.sendmmsg([([b"a"], (), to), ([b"b"], (), ("127.0.0.1", 0)), ([b"c"], (), to)]) == 1
    assert outcome(one.sendmmsg, [([b"b"],)]) == error(errno.EDESTADDRREQ)
    assert [m[0] for m in other.recvmmsg(9, 9)] == [b"a"]
    assert one.sendmmsg([([b"x"], (), to)] * 2000) == 1024


def test_waiting_for_one_or_all() -> None:
    lab, near, far = two()
    one, other = near.socket(), far.socket()
    other.bind(("192.0.2.2", 7))
    other.settimeout(5)
    for k in range(3):
        lab.call_at(k * 10**9, lambda: one.sendto(b"x", ("192.0.2.2", 7)) and None)
    assert len(other.recvmmsg(2, 9, 0, socket.MSG_WAITFORONE)) == 1 and lab.now_ns == 0
    assert len(other.recvmmsg(2, 9)) == 2 and lab.now_ns == 2 * 10**9


def test_an_error_after_the_first_waits() -> None:
    netns, one, other = pair()
    one.connect(other.getsockname())
    other.connect(one.getsockname())
    other.send(b"x")
    other.close()
    one.send(b"refused")
    assert outcome(one.recvmmsg, 9, 9) == error(errno.ECONNREFUSED)
    assert [m[0] for m in one.recvmmsg(9, 9)] == [b"x"]


@WHERE
@pytest.mark.parametrize("connected", [True, False])
def test_arrays_are_many_single_sends(where, connected) -> None:
    parts, data, offset, length = payloads(100)
    netns, one, other = pair(where)
    other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 212992)
    if connected:
        one.connect(other.getsockname()[:2])
        assert one.send_batch(data, offset, length) == 100
    else:
        assert one.send_batch(data, offset, length, address=other.getsockname()[:2]) == 100
    assert [other.recvfrom(2000) for _ in parts] == [(p, one.getsockname()) for p in parts]
    single, mine, theirs = pair(where)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 212992)
    for part in parts:
        mine.sendto(part, theirs.getsockname()[:2])
    for _ in parts:
        theirs.recv(2000)
    assert single.counters() == netns.counters()


@BOTH
def test_arrays_of_destinations(where) -> None:
    netns, one, _ = pair(where)
    takers = []
    for k in range(3):
        sock = netns.socket(FAMILIES[where])
        sock.bind((f"127.0.0.{k + 2}" if where == V4 else "::1", 7000 + k))
        sock.settimeout(0)
        takers.append(sock)
    hosts = [ipaddress.ip_address(s.getsockname()[0]) for s in takers] * 2
    if where == V4:
        addresses = np.array([int(h) for h in hosts], np.uint32)
    else:
        addresses = np.frombuffer(b"".join(h.packed for h in hosts), np.uint8).reshape(-1, 16)
    ports = np.array([7000, 7001, 7002] * 2)
    batch = PacketBatch.from_packets([bytes([k]) for k in range(6)])
    assert one.send_batch(batch, addresses=addresses, ports=ports) == 6
    assert [[s.recv(9)[0] for _ in range(2)] for s in takers] == [[0, 3], [1, 4], [2, 5]]


@BOTH
def test_arrays_received(where) -> None:
    parts, data, offset, length = payloads(50)
    netns, one, other = pair(where)
    for turn in range(3):
        one.send_batch(data, offset, length, address=other.getsockname()[:2])
        if turn == 1:
            assert other.recv(2000, socket.MSG_PEEK) == parts[0]  # one by one from here on
        if turn == 2:
            one.sendto(b"single", other.getsockname()[:2])
        got = other.receive_batch()
        assert len(got) == 50 + (turn == 2)
        assert [got.payload(k) for k in range(50)] == parts
        assert {got.address(k)[:2] for k in range(50)} == {one.getsockname()[:2]}
        assert set(got.family.tolist()) == {4 if where == V4 else 6} and set(got.ttl.tolist()) == {
            64
        }
    assert got.payload(50) == b"single"
    assert outcome(other.receive_batch) == EAGAIN
    assert netns.queue_of(other._number)[:2].tolist() == [0, 0]
    name = "UdpInDatagrams" if where == V4 else "Udp6InDatagrams"
    assert netns.counters()[name] == 151


def test_a_part_of_what_waits() -> None:
    parts, data, offset, length = payloads(10)
    _, one, other = pair()
    one.send_batch(data, offset, length, address=other.getsockname())
    got = other.receive_batch(4)
    assert [got.payload(k) for k in range(len(got))] == parts[:4]
    assert len(other.receive_batch()) == 6


def test_a_flood_is_bounded_by_the_queue() -> None:
    netns, one, other = pair()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50000)
    data, zero = np.zeros(16, np.uint8), np.zeros(20000, np.int64)
    assert one.send_batch(data, zero, zero + 16, address=other.getsockname()) == 20000
    assert len(other.receive_batch()) == 100000 // 832
    assert netns.counters()["UdpRcvbufErrors"] == 20000 - 100000 // 832


def test_a_refusal_stops_a_connected_socket() -> None:
    """The answer to the first comes before the second is sent."""
    _, one, other = pair()
    one.connect(other.getsockname())
    other.close()
    data, zero = np.zeros(16, np.uint8), np.zeros(5, np.int64)
    assert one.send_batch(data, zero, zero + 1) == 1
    assert outcome(one.send_batch, data, zero, zero + 1) == error(errno.ECONNREFUSED)


def test_what_fails_first_is_raised() -> None:
    _, one, other = pair()
    data, zero = np.zeros(70000, np.uint8), np.zeros(3, np.int64)
    to = other.getsockname()
    assert one.send_batch(data, zero, np.array([1, 70000, 1]), address=to) == 1
    found = outcome(lambda: one.send_batch(data, zero, np.array([70000, 1, 1]), address=to))
    assert found == error(errno.EMSGSIZE)
    addresses = np.full(3, 0x7F000001, np.uint32)
    ports = np.array([to[1], 0, to[1]])
    assert one.send_batch(data, zero, zero, addresses=addresses, ports=ports) == 1
    found = outcome(lambda: one.send_batch(data, zero, zero, addresses=addresses, ports=0))
    assert found == error(errno.EINVAL)
    assert outcome(lambda: one.send_batch(data, zero, zero)) == error(errno.EDESTADDRREQ)


BAD = [
    (dict(offset=[0, 9], length=[1, 2]), "payload 1 lies outside the arena: 9, 2 bytes"),
    (dict(offset=[-1], length=[1]), "payload 0 lies outside the arena"),
    (dict(offset=[0], length=[-1]), "payload 0 lies outside the arena"),
    (dict(offset=[1], length=[(1 << 63) - 1]), "payload 0 lies outside the arena"),
    (dict(offset=[0], length=[1, 2]), "length has shape"),
    (dict(offset=None, length=[1]), "uint8"),
    (dict(offset=[0], length=[1], addresses=np.zeros(2, np.uint32), ports=1), "addresses has shape"),
    (dict(offset=[0], length=[1], addresses=np.zeros(1, np.uint32)), "ports has shape"),
]  # fmt: skip


@pytest.mark.parametrize("given, said", BAD)
def test_arrays_that_do_not_fit(given, said) -> None:
    _, one, other = pair()
    given = {k: np.array(v) if isinstance(v, list) else v for k, v in given.items()}
    if "addresses" not in given:
        given["address"] = other.getsockname()
    with pytest.raises(ValueError, match=said):
        one.send_batch(np.zeros(10, np.uint8), **given)


def test_nothing_to_send() -> None:
    _, one, other = pair()
    empty = np.zeros(0, np.int64)
    assert one.send_batch(np.zeros(0, np.uint8), empty, empty, address=other.getsockname()) == 0


@BOTH
def test_segments_in_arrays(where) -> None:
    _, one, other = pair(where)
    one.setsockopt(17, socket.UDP_SEGMENT, 100)
    other.setsockopt(17, socket.UDP_GRO, 1)
    data, zero = np.zeros(250, np.uint8), np.zeros(3, np.int64)
    assert one.send_batch(data, zero, zero + 250, address=other.getsockname()[:2]) == 3
    assert [len(other.recv(999)) for _ in range(3)] == [250] * 3
