"""Each mechanism of the send side can be switched off, and nobody can tell from what is sent.

The same calls are made on hosts that differ in their switches alone: results, errors, packets (with
their times and causes), counters and what sockets receive have to be equal, bit for bit.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ippath.socket as socket
from ippath import Netns
from ippath.batch import LINK_RAW, PacketBatch
from ippath.config import parse_host
from ippath.switches import SWITCHES
from ippath.verify.packets import icmp, icmp6, ip4, ip6, udp
from ippath.tables import MISC_NOW_NS
from tests.sockets import (
    IP_MTU_DISCOVER, IP_RECVERR, IPV6_MTU, IPV6_MTU_DISCOVER, SO_NO_CHECK, UDP_CORK,
    UDP_NO_CHECK6_TX, UDP_SEGMENT, outcome,
)  # fmt: skip

IP_TOS, IP_TTL = 1, 2
TUN0 = 2  # row of the device

MECHANISMS = (
    "send_lookup", "socket_route", "header_template", "send_accounts", "send_options",
    "cork_by_reference", "zero_copy",
)  # fmt: skip
HOST = """
ip link add eth0 type dummy
ip link set eth0 up
ip link add tun0 type tun
ip link set tun0 mtu 1300
ip link set tun0 up
ip addr add 198.51.100.1/24 dev eth0
ip addr add 2001:db8::1/64 dev eth0
ip addr add 10.1.0.1/24 dev tun0
ip addr add 2001:db8:1::1/64 dev tun0
ip route add default via 10.1.0.9
ip -6 route add default via 2001:db8:1::9
ip route add 192.0.2.0/24 via 198.51.100.9 mtu 1000
ip route add unreachable 192.0.3.0/24
ip route add 192.0.4.0/24 nexthop via 198.51.100.8 dev eth0 nexthop via 10.1.0.8 dev tun0
ip neigh add 198.51.100.66 dev eth0 nud failed
net.ipv4.icmp_ratemask = 0
"""
FAR4, FAR6 = "203.0.113.9", "2001:db8:99::1"
TO4 = (
    FAR4, "198.51.100.7", "192.0.2.5", "192.0.3.1", "192.0.4.4", "198.51.100.66",
    "127.0.0.1", "198.51.100.1", "224.1.1.1", "255.255.255.255", "0.0.0.0", "198.51.100.255",
)  # fmt: skip
TO6 = (FAR6, "2001:db8::7", "::1", "2001:db8:1::1", "ff02::1", "::ffff:203.0.113.9")
SIZES = st.one_of(st.integers(0, 64), st.sampled_from([1252, 1253, 1272, 1273, 1452, 4000]))
OPTIONS = [
    (socket.SOL_IP, IP_MTU_DISCOVER, range(6)), (socket.SOL_IP, IP_TTL, (1, 9, 255)),
    (socket.SOL_IP, IP_TOS, (0, 8, 255)), (socket.SOL_SOCKET, SO_NO_CHECK, (0, 1)),
    (socket.SOL_UDP, UDP_SEGMENT, (0, 7, 100, 1400)), (socket.SOL_UDP, UDP_CORK, (0, 1)),
    (socket.SOL_UDP, UDP_NO_CHECK6_TX, (0, 1)), (socket.SOL_IPV6, IPV6_MTU_DISCOVER, range(6)),
    (socket.SOL_IPV6, IPV6_MTU, (0, 1280, 1300)), (socket.SOL_SOCKET, socket.SO_BROADCAST, (0, 1)),
    (socket.SOL_IPV6, socket.IPV6_UNICAST_HOPS, (-1, 3, 255)),
]  # fmt: skip


class World:
    """A host with sockets, and what happened there so far."""

    def __init__(self, *, ready: bool = True, **switches: str):
        """`ready`: sockets keep messages that they sent twice."""
        self.netns = Netns(parse_host(HOST), switches=switches, seed=3)
        self.netns.keeps_output = True
        self.sockets = [self.netns.socket(f) for f in (socket.AF_INET, socket.AF_INET6) * 2]
        for port, sock in enumerate(self.sockets, 4000):
            sock.bind(("", port))
            sock.settimeout(0)
            sock.setsockopt(socket.SOL_IP, IP_RECVERR, 1)
            if not ready:
                sock._again = lambda *_: None
        for sock, peer in zip(self.sockets[2:], (FAR4, FAR6)):
            sock.connect((peer, 4000))
        self.log: list[Any] = []

    def does(self, call: Callable[..., Any], *args: Any) -> None:
        """Make a call and note what comes of it."""
        result = outcome(call, *args)
        self.log.append(result)

    def story(self) -> Any:
        """All that can be seen from outside."""
        for sock in self.sockets:
            for _ in range(20):
                self.does(sock.recvmsg, 9000, 500)
                self.does(sock.recvmsg, 9000, 500, socket.MSG_ERRQUEUE)
        totals = self.netns.totals()
        return self.log, self.netns.take_output(), totals.counters, totals.devices


def address(k: int, number: int) -> tuple[str, int]:
    """Where to, of what socket `k` can name; sometimes without a port."""
    known = TO6 if k & 1 else TO4
    return known[number % len(known)], 0 if number % 29 == 28 else 4000 + number % 5


def send(world: World, k: int, number: int, sizes: list[int], flags: int) -> None:
    """A datagram, to somebody or to the peer, and maybe more like it."""
    payload = bytes(range(256)) * 20
    sock = world.sockets[k]
    for size in sizes[: 1 + number % 5]:
        if number % 3 == 0:
            world.does(sock.send, payload[:size], *[flags][: number % 2])
        else:
            world.does(sock.sendto, payload[:size], *[flags][: number % 2], address(k, number))


def send_many(world: World, k: int, number: int, sizes: list[int], flags: int) -> None:
    """Datagrams in one call: to one address, to many, or to the peer."""
    length = np.array(sizes, np.int64)
    data = np.frombuffer(bytes(range(1, 255)) * (2 + int(length.sum()) // 254), np.uint8)
    offset = np.cumsum(length) - length + number % 3
    how: dict[str, Any] = {}
    if number % 3 == 1:
        how = {"address": address(k, number)}
    elif number % 3 == 2:
        names = [address(k, number + j // 3) for j in range(len(sizes))]
        raw = b"".join(packed(name) for name, _ in names)
        how = {"ports": np.array([port for _, port in names])}
        joined = np.frombuffer(raw, np.uint8)
        how["addresses"] = joined.reshape(-1, 16) if k & 1 else joined.view(">u4").astype(np.uint32)
    world.does(lambda: world.sockets[k].send_batch(data, offset, length, **how))


def packed(name: str) -> bytes:
    """The address in bytes."""
    return ipaddress.ip_address(name).packed


def connect(world: World, k: int, number: int, sizes: list[int], flags: int) -> None:
    """A peer, another one, or none."""
    if number % 5 == 4:
        world.does(world.sockets[k].disconnect)
    else:
        world.does(world.sockets[k].connect, address(k, number))


def option(world: World, k: int, number: int, sizes: list[int], flags: int) -> None:
    """Another value of an option."""
    level, name, values = OPTIONS[number % len(OPTIONS)]
    world.does(world.sockets[k].setsockopt, level, name, values[sizes[0] % len(values)])


def report(k: int, number: int, ours: int) -> bytes:
    """A router's word: of a smaller path, or of a better first hop."""
    if k & 1:
        quoted = ip6("2001:db8:1::1", FAR6, udp(ours, 4000, b""))
        return ip6("2001:db8:1::7", "2001:db8:1::1", icmp6(2, 0, 1280 + number % 20, quoted))
    quoted = ip4("10.1.0.1", FAR4, udp(ours, 4000, b""))
    redirect = number % 4 == 0
    message = icmp(5, 1, 0x0A010007, quoted) if redirect else icmp(3, 4, 600 + number % 600, quoted)
    return ip4("10.1.0.9", "10.1.0.1", message)


def learn(world: World, k: int, number: int, sizes: list[int], flags: int) -> None:
    """A router speaks of what a socket sent."""
    batch = PacketBatch.from_packets(
        [report(k, number, world.sockets[k].getsockname()[1])], link_type=LINK_RAW
    )
    batch.device[:] = TUN0
    world.does(lambda: world.netns.receive(batch, collect_output=True).verdict_names)


CHANGES = {
    "the MTU of a link": "ip link set tun0 mtu 1290",
    "a closer route": "ip route add 203.0.113.0/24 via 198.51.100.3",
    "a closer route of IPv6": "ip -6 route add 2001:db8:99::/48 via 2001:db8::3",
    "a neighbour": "ip neigh add 198.51.100.7 dev eth0 lladdr 02:00:00:00:00:77 nud permanent",
    "a link goes down": "ip link set tun0 down",
    "a new address": "ip addr add 203.0.113.9/32 dev eth0",
    "a sysctl": "net.ipv4.ip_default_ttl = 9",
    "a rule": "ip rule add to 203.0.113.9 lookup 7 pref 5\nip route add unreachable 203.0.113.9 table 7",
}


def change(world: World, k: int, number: int, sizes: list[int], flags: int) -> None:
    """The host changes: routes, rules, MTUs, neighbours, addresses, links."""
    lines = list(CHANGES.values())[number % len(CHANGES)]
    world.does(lambda: world.netns.change(parse_host(HOST + lines)))


def wait(world: World, k: int, number: int, sizes: list[int], flags: int) -> None:
    """Time passes: some of what was learned is forgotten, or nothing yet."""
    now = int(world.netns.state.misc[MISC_NOW_NS])
    world.netns.advance(now + (number % 700) * 10**9)


DEEDS = [send, send, send_many, send_many, send_many, connect, option, option, learn, change, wait]
CALLS = st.lists(
    st.tuples(
        st.sampled_from(DEEDS), st.integers(0, 3), st.integers(0, 10_000),
        st.lists(SIZES, min_size=1, max_size=8),
        st.sampled_from([0, 0, 0, socket.MSG_MORE, socket.MSG_DONTWAIT]),
    ),
    min_size=5, max_size=25,
)  # fmt: skip


def story(calls: list[Any], **how: Any) -> Any:
    """What comes of the calls in such a `World`."""
    world = World(**how)
    for deed, *what in calls:
        deed(world, *what)
    return world.story()


@settings(max_examples=60, deadline=None)
@given(CALLS)
def test_nobody_can_tell(calls: list[Any]) -> None:
    expected = story(calls)
    for name in MECHANISMS:
        assert story(calls, **{name: "off"}) == expected, name
    assert story(calls, **{name: "off" for name in MECHANISMS}) == expected
    assert story(calls, ready=False) == expected


def test_they_are_on() -> None:
    known = {switch.name: switch for switch in SWITCHES}
    assert all(known[name].default == "on" for name in MECHANISMS)


def sent_by_peers(world: World, size: int) -> list[Any]:
    """What leaves when the connected sockets send."""
    results = [outcome(sock.send, bytes(size)) for sock in world.sockets[2:]]
    return [*results, *((one.device, one.packet) for one in world.netns.take_output())]


LEARNED = {"a path MTU": 2, "a path MTU of IPv6": 3}  # by which socket
SEEN = sorted(CHANGES.keys() - {"a neighbour"})  # nobody here sends to that one


@pytest.mark.parametrize("what", [*SEEN, *LEARNED])
def test_a_remembered_route_lasts_until(what: str) -> None:
    """A connected socket that has sent goes the new way with the next datagram."""
    worlds = World(), World(socket_route="off", send_lookup="off")
    before, after = [], []
    for world in worlds:
        before.append(sent_by_peers(world, 1240))
        if what in CHANGES:
            world.netns.change(parse_host(HOST + CHANGES[what]))
        else:
            learn(world, LEARNED[what], 1, [0], 0)
            sent_by_peers(world, 0)  # raises what was heard
        after.append(sent_by_peers(world, 1240))
    assert before[0] == before[1] and after[0] == after[1]
    assert before[0] != after[0]


@pytest.mark.parametrize("template", ["on", "off"])
@pytest.mark.parametrize("mode", range(6))
def test_only_what_must_stay_whole_has_no_identification(mode: int, template: str) -> None:
    """As Linux sends it from a socket that is not connected: by chance, but 0 with DF on demand."""
    netns = Netns(parse_host(HOST), switches={"header_template": template})
    netns.keeps_output = True
    sock = netns.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_IP, IP_MTU_DISCOVER, mode)
    sock.sendto(bytes(16), (FAR4, 9))
    (sent,) = netns.take_output()
    ip = sent.packet[-44:]  # 20 bytes of header, 8 of UDP, 16 of payload
    known = ip[4:6] == bytes(2)
    assert known == (mode in (2, 3))  # IP_PMTUDISC_DO, IP_PMTUDISC_PROBE
