"""Hosts joined by links: what arrives when, what is lost, and that a seed repeats a run."""

from __future__ import annotations

import errno
import importlib.util
import struct
from pathlib import Path

import pytest

import ippath.socket as socket
from ippath import Lab, Link
from ippath.config import parse_host
from ippath.socket import WouldBlockForever
from tests.test_socket_names import error
from tests.sockets import outcome

MS = 10**6
EXAMPLES = Path(__file__).parent.parent / "examples"


def host(number: int, kind: str = "veth", more: str = "") -> str:
    return (
        f"ip link add eth0 type {kind}\nip link set eth0 up\n"
        f"ip addr add 192.0.2.{number}/24 dev eth0\n"
        f"ip addr add 2001:db8::{number}/64 dev eth0\n{more}"
    )


def two(link: Link | None = None, seed: int = 1, kind: str = "veth"):
    """A lab with two hosts, 192.0.2.1 and 192.0.2.2, and their link."""
    lab = Lab(seed=seed)
    one, other = (lab.add(parse_host(host(k, kind))) for k in (1, 2))
    lab.connect(one, "eth0", other, "eth0", link or Link())
    return lab, one, other


def bound(netns, address: str, port: int = 7):
    sock = netns.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    sock.bind((address, port))
    return sock


@pytest.mark.parametrize("kind", ["veth", "tun"])
@pytest.mark.parametrize(
    "first, second", [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")]
)
def test_a_datagram_crosses_and_comes_back(kind, first, second) -> None:
    lab, one, other = two(Link(delay=0.005), kind=kind)
    mine, theirs = bound(one, first), bound(other, second)
    mine.sendto(b"there", (second, 7))
    data, sender = theirs.recvfrom(99)
    assert data == b"there" and sender[:2] == (first, 7) and lab.now_ns == 5 * MS
    theirs.sendto(b"back", sender)
    assert mine.recv(99) == b"back" and lab.now_ns == 10 * MS


def test_a_timeout_takes_no_time() -> None:
    lab, one, _ = two()
    mine = bound(one, "192.0.2.1")
    mine.settimeout(3600)
    assert outcome(mine.recv, 9) == "TimeoutError: timed out" and lab.now_ns == 3600 * 10**9
    mine.settimeout(None)
    with pytest.raises(WouldBlockForever, match="nothing is on its way"):
        mine.recv(9)


def test_a_slow_link_takes_its_time() -> None:
    """1,000 bytes a packet at 80 kbit/s are 100 ms each."""
    lab, one, other = two(Link(rate=80_000), kind="tun")
    mine, theirs = bound(one, "192.0.2.1"), bound(other, "192.0.2.2")
    for _ in range(3):
        mine.sendto(bytes(972), ("192.0.2.2", 7))
    times = []
    for _ in range(3):
        theirs.recv(1000)
        times.append(lab.now_ns // MS)
    assert times == [100, 200, 300]


def test_a_slow_link_fills_the_send_buffer() -> None:
    lab, one, _ = two(Link(rate=80_000), kind="tun")
    mine = bound(one, "192.0.2.1")
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    mine.settimeout(0)
    sent = 0
    while outcome(mine.sendto, bytes(972), ("192.0.2.2", 7)) == 972:
        sent += 1
    assert sent == 5  # 4,608 bytes are exceeded once
    assert outcome(mine.send, b"") == error(errno.EDESTADDRREQ)
    assert one.counters()["UdpSndbufErrors"] == 1
    mine.settimeout(1)
    assert mine.sendto(bytes(972), ("192.0.2.2", 7)) == 972 and lab.now_ns == 100 * MS
    assert lab.counts(one, "eth0").sent == 6


def test_what_waits_at_a_device_is_bounded() -> None:
    lab, one, _ = two(Link(rate=80_000, queue=5000), kind="tun")
    for k in range(20):  # each socket has a buffer of its own
        bound(one, "192.0.2.1", 100 + k).sendto(bytes(972), ("192.0.2.2", 7))
    counts = lab.counts(one, "eth0")
    assert (counts.sent, counts.queue_full) == (6, 14)


@pytest.mark.parametrize("loss", [0.0, 0.3, 1.0])
def test_loss_is_drawn_from_the_seed(loss) -> None:
    def run(seed: int) -> list[bytes]:
        lab, one, other = two(Link(loss=loss), seed=seed)
        mine, theirs = bound(one, "192.0.2.1"), bound(other, "192.0.2.2")
        for k in range(200):
            mine.sendto(bytes([k]), ("192.0.2.2", 7))
        lab.run_until_idle()
        theirs.settimeout(0)
        return list(iter(lambda: outcome(theirs.recv, 9), error(errno.EAGAIN)))

    got = run(1)
    assert run(1) == got and abs(len(got) - 200 * (1 - loss)) < 40
    assert 0 < loss < 1 or len(got) == 200 * (1 - loss)
    assert loss in (0.0, 1.0) or run(2) != got


def test_large_datagrams_are_cut_and_put_together() -> None:
    lab, one, other = two(Link(mtu=1280))
    for first, second in (("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")):
        mine, theirs = bound(one, first), bound(other, second)
        payload = bytes(range(256)) * 40
        mine.sendto(payload, (second, 7))
        assert theirs.recv(20000) == payload
    assert other.counters()["IpReasmOKs"] == other.counters()["Ip6ReasmOKs"] == 1


def test_fragments_that_wait_expire_by_the_labs_clock() -> None:
    """One fragment is lost: after 30 seconds the sender hears of it."""
    lab, one, other = two(Link(mtu=1280), kind="tun")
    mine = bound(one, "192.0.2.1")
    bound(other, "192.0.2.2")
    lab.keep = []  # type: ignore[attr-defined]
    carry = lab._carry

    def lose_the_second(end, packet, kind, sender):
        lab.keep.append(packet)  # type: ignore[attr-defined]
        if len(lab.keep) != 2:  # type: ignore[attr-defined]
            carry(end, packet, kind, sender)

    lab._carry = lose_the_second  # type: ignore[method-assign]
    mine.setsockopt(socket.SOL_IP, socket.IP_RECVERR, 1)
    mine.sendto(bytes(2000), ("192.0.2.2", 7))
    mine.settimeout(60)
    assert outcome(mine.recv, 9) == "TimeoutError: timed out"
    assert other.counters()["IpReasmTimeout"] == 1 and other.counters()["IcmpOutTimeExcds"] == 1


def test_nobody_listens_there() -> None:
    lab, one, _ = two(Link(delay=0.01))
    mine = one.socket()
    mine.connect(("192.0.2.2", 9))
    mine.send(b"x")
    assert outcome(mine.recv, 9) == error(errno.ECONNREFUSED) and lab.now_ns == 20 * MS


@pytest.mark.parametrize("family", [4, 6])
def test_groups_reach_both_ends(family) -> None:
    lab, one, other = two()
    address = ("192.0.2.{}" if family == 4 else "2001:db8::{}").format
    group = "239.1.2.3" if family == 4 else "ff12::1:3"
    takers = []
    for netns in (one, other):
        sock = netns.socket(socket.AF_INET if family == 4 else socket.AF_INET6)
        sock.bind(("" if family == 4 else "::", 7))
        index = struct.pack("i", netns.host.device("eth0").ifindex)
        if family == 4:
            packed = bytes([239, 1, 2, 3, 0, 0, 0, 0]) + index
            sock.setsockopt(socket.SOL_IP, socket.IP_ADD_MEMBERSHIP, packed)
        else:
            packed = bytes.fromhex("ff12" + "0" * 20 + "00010003") + index
            sock.setsockopt(socket.SOL_IPV6, socket.IPV6_JOIN_GROUP, packed)
        takers.append(sock)
    sender = bound(one, address(1), 8)
    option = (socket.SOL_IP, socket.IP_MULTICAST_IF) if family == 4 else (
        socket.SOL_IPV6, socket.IPV6_MULTICAST_IF)  # fmt: skip
    index = struct.pack("i", one.host.device("eth0").ifindex)
    sender.setsockopt(*option, bytes(8) + index if family == 4 else index)
    sender.sendto(b"all", (group, 7))
    for taker in takers:
        assert taker.recvfrom(9)[0] == b"all"
    loop = (socket.SOL_IP, socket.IP_MULTICAST_LOOP) if family == 4 else (
        socket.SOL_IPV6, socket.IPV6_MULTICAST_LOOP)  # fmt: skip
    sender.setsockopt(*loop, 0)
    sender.sendto(b"others", (group, 7))
    assert takers[1].recv(9) == b"others"
    takers[0].settimeout(1)
    assert outcome(takers[0].recv, 9) == "TimeoutError: timed out"


def test_calls_happen_when_they_are_due() -> None:
    lab, _, _ = two()
    seen = []
    for at in (30, 10, 20):
        lab.call_at(at * MS, lambda: seen.append(lab.now_ns // MS))
    lab.run(0.025)
    assert seen == [10, 20] and lab.now_ns == 25 * MS
    lab.run_until_idle()
    assert seen == [10, 20, 30]


@pytest.mark.parametrize(
    "wrong", [{"delay": -1}, {"loss": 2}, {"loss": -0.1}, {"rate": 0}, {"rate": -5}]
)
def test_links_that_cannot_be(wrong) -> None:
    with pytest.raises(ValueError, match="no link is like this"):
        Link(**wrong)


def test_devices_that_cannot_be_joined() -> None:
    lab, one, other = two()
    third = parse_host(host(3))
    with pytest.raises(ValueError, match="no device eth7"):
        lab.connect(one, "eth7", lab.add(third), "eth0")
    with pytest.raises(ValueError, match="eth0 has a link already"):
        lab.connect(one, "eth0", lab.add(third), "eth0")
    with pytest.raises(ValueError, match="another lab"):
        Lab().add(one)


def test_the_example_of_a_server_behind_a_tunnel(capsys) -> None:
    spec = importlib.util.spec_from_file_location(
        "dns_behind_tunnel", EXAMPLES / "dns_behind_tunnel.py"
    )
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main()
    assert capsys.readouterr().out.splitlines() == [
        "  100 bytes, WANT: 100 bytes after 44.1 ms",
        " 1472 bytes, WANT: no answer; the server's error queue: too large, the path takes 1400 bytes",
        "  100 bytes, DONT: 100 bytes after 44.1 ms",
        " 1472 bytes, DONT: 1472 bytes after 45.2 ms",
        "the client's host put 1 datagram together from 2 fragments",
    ]
