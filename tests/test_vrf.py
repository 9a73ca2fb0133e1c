"""Devices of a VRF: which table their packets are looked up in, and which sockets get them.

The outcomes are those of the kernel's selftests fcnal-test.sh, vrf_route_leaking.sh and of its source; the
kernel that answers are recorded from has no VRFs.
"""

from __future__ import annotations

import ipaddress

import pytest

from ippath import Netns, PacketBatch
from ippath.config import parse_host
from ippath.config.host_file import parse
from ippath.config.render import render_host
from ippath.fib.control import change_device, del_device
from ippath.fib.routes import routes_of
from ippath.model import Host
from ippath.netns import route_text, rule_text
from ippath.reasons import VERDICTS
from ippath.tables import ENETUNREACH
from ippath.verify.packets import ip4, ip6, udp
from tests.packets import checksum, ip

HOST = """\
ip link add red type vrf table 10
ip link add blue type vrf table 20
ip link set red up
ip link set blue up
ip link add r0 type tun
ip link add r1 type tun
ip link add b0 type tun
ip link add d0 type tun
ip link set r0 master red
ip link set r1 vrf red
ip link set b0 master blue
ip addr add 10.1.0.1/24 dev r0
ip addr add 10.2.0.1/24 dev r1
ip addr add 10.1.0.1/24 dev b0
ip addr add 10.3.0.1/24 dev d0
ip addr add 2001:db8:1::1/64 dev r0
ip addr add 2001:db8:2::1/64 dev r1
ip addr add 2001:db8:1::1/64 dev b0
ip addr add 2001:db8:3::1/64 dev d0
net.ipv4.ip_forward = 1
net.ipv6.conf.all.forwarding = 1
"""
UNREACHABLE = """\
ip route add vrf red unreachable default metric 4278198272
ip -6 route add vrf red unreachable default metric 4278198272
"""
LEAK = """\
ip route add 10.3.0.0/24 dev d0 table 10
ip -6 route add 2001:db8:3::/64 dev d0 table 10
"""


def address(family: int, net: int, last: int) -> str:
    return f"10.{net}.0.{last}" if family == 4 else f"2001:db8:{net}::{last:x}"


def fate(lines: str, family: int, device: str, net: int, last: int) -> str:
    """What becomes of a datagram from 10.1.0.9 (2001:db8:1::9)."""
    netns = Netns(parse_host(HOST + lines))
    packet = ip(address(family, 1, 9), address(family, net, last), sport=4000, dport=5000)
    batch = PacketBatch.from_packets([packet], device=netns.device_row(device))
    verdicts = netns.receive(batch, collect_output=True)
    sent = [f"by {s.device}" for s in netns.take_output()]
    reason = verdicts.reason_names[0] if verdicts.verdict_names[0] == "dropped" else ""
    return " ".join([verdicts.verdict_names[0], *filter(None, [reason]), *sent])


# lines, device that it comes by, destination, what becomes of it
CASES = [
    ("", "r0", (2, 9), "forwarded by r1"),
    ("", "b0", (2, 9), "dropped IP_INNOROUTES by b0"),
    ("", "d0", (2, 9), "dropped IP_INNOROUTES"),
    # what the VRF's table does not know, main may
    ("", "r0", (3, 9), "forwarded by d0"),
    (UNREACHABLE, "r0", (3, 9), "dropped NOT_SPECIFIED by r0"),
    (UNREACHABLE, "r0", (2, 9), "forwarded by r1"),
    (UNREACHABLE + LEAK, "r0", (3, 9), "forwarded by d0"),
    # the same address in two VRFs, and in none
    ("", "r0", (1, 1), "dropped NO_SOCKET by r0"),
    ("", "b0", (1, 1), "dropped NO_SOCKET by b0"),
    ("", "d0", (1, 1), "dropped IP_INNOROUTES"),
    ("", "r0", (2, 1), "dropped NO_SOCKET by r0"),
    # sockets: those of no VRF get nothing, unless they may
    ("listen udp ANY:5000\n", "r0", (1, 1), "dropped NO_SOCKET by r0"),
    ("listen udp ANY:5000\n", "d0", (3, 1), "delivered"),
    ("listen udp ANY:5000\nnet.ipv4.udp_l3mdev_accept = 1\n", "r0", (1, 1), "delivered"),
    ("listen udp ANY:5000 dev red\n", "r0", (1, 1), "delivered"),
    ("listen udp ANY:5000 dev red\n", "r1", (2, 1), "delivered"),
    ("listen udp ANY:5000 dev red\n", "b0", (1, 1), "dropped NO_SOCKET by b0"),
    ("listen udp ANY:5000 dev red\n", "d0", (3, 1), "dropped NO_SOCKET"),
    ("listen udp ANY:5000 dev r0\n", "r0", (1, 1), "delivered"),
    ("listen udp ANY:5000 dev r1\n", "r0", (1, 1), "dropped NO_SOCKET by r0"),
    # a rule for the VRF is one for all of its devices
    ("ip RULE add pref 5 iif red blackhole\n", "r0", (2, 9), "dropped NOT_SPECIFIED"),
    ("ip RULE add pref 5 oif red blackhole\n", "r0", (2, 9), "dropped NOT_SPECIFIED"),
    ("ip RULE add pref 5 iif red blackhole\n", "b0", (1, 1), "dropped NO_SOCKET by b0"),
    ("ip RULE add pref 5 iif blue blackhole\n", "r0", (2, 9), "forwarded by r1"),
    # without its rule a VRF looks up nothing of its own
    ("ip RULE del l3mdev pref 1000\n", "r0", (2, 9), "dropped IP_INNOROUTES"),
]  # fmt: skip


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(("lines", "device", "to", "expected"), CASES)
def test_what_becomes_of_a_datagram(
    family: int, lines: str, device: str, to: tuple[int, int], expected: str
) -> None:
    lines = lines.replace("ANY", "0.0.0.0" if family == 4 else "[::]")
    lines = lines.replace("ip RULE", "ip rule" if family == 4 else "ip -6 rule")
    if family == 6 and lines == UNREACHABLE:  # IPv6 has no better word for any refusal
        expected = expected.replace("NOT_SPECIFIED", "IP_INNOROUTES")
    assert fate(lines, family, device, *to) == expected


def routes_in(host: Host, table: int) -> list[str]:
    return sorted(route_text(r) for r in routes_of(host).singles() if r.table == table)


def test_automatic_routes_go_to_the_table_of_the_vrf() -> None:
    host = parse_host(HOST)
    assert [(r.family, r.pref) for r in host.rules if r.l3mdev] == [(4, 1000), (6, 1000)]
    assert host.custom_rules4 and host.custom_rules6, "route hints are off"
    assert host.device("red").mtu == 65575 and not host.device("red").asks_neighbours
    assert {(r.family, r.table) for r in routes_of(host).singles() for n in r.nexthops if n.device == "r0"} == {
        (4, 10), (6, 10)
    }  # fmt: skip
    assert {r.table for r in routes_of(host).singles() for n in r.nexthops if n.device == "d0"} == {
        254,
        255,
    }


def test_a_device_that_gets_a_master_goes_down_and_up() -> None:
    """Static routes by it go, IPv4 addresses stay, IPv6 addresses go."""
    host = parse_host(HOST + "ip route add 99.0.0.0/8 via 10.3.0.7\n")
    change_device(host, "d0", master="blue")
    assert not [r for r in routes_of(host).singles() if r.prefix == 99 << 24]
    assert {r.table for r in routes_of(host).singles() for n in r.nexthops if n.device == "d0"} == {
        20
    }
    assert [a.family for a in host.device("d0").addresses] == [4]
    change_device(host, "d0", master=None)
    assert {r.table for r in routes_of(host).singles() for n in r.nexthops if n.device == "d0"} == {
        254,
        255,
    }


def test_a_vrf_that_is_deleted_leaves_its_devices_to_main() -> None:
    host = parse_host(HOST)
    del_device(host, "red")
    assert host.device("r0").master is None
    assert not [r for r in routes_of(host).singles() if r.table == 10]
    assert any(
        r.table == 254 for r in routes_of(host).singles() for n in r.nexthops if n.device == "r0"
    )


def test_addresses_that_go_take_their_routes_in_the_vrf_along() -> None:
    host = parse_host(HOST + "ip addr add 10.7.0.1/24 dev r0\nip addr del 10.1.0.1/24 dev r0\n")
    assert not [text for text in routes_in(host, 10) if "10.1.0" in text]
    assert [text for text in routes_in(host, 10) if "10.7.0.1" in text]


def test_a_pasted_listing_makes_the_same_host() -> None:
    """Of `ip -d link`, in which a device is named before its master is known to be a VRF."""
    listing = """\
2: r0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue master red state UP mode DEFAULT
    link/ether 02:00:00:00:00:02 brd ff:ff:ff:ff:ff:ff
3: red: <NOARP,MASTER,UP,LOWER_UP> mtu 65575 qdisc noqueue state UP mode DEFAULT
    link/ether 02:00:00:00:00:03 brd ff:ff:ff:ff:ff:ff promiscuity 0
    vrf table 10 addrgenmode eui64
ip addr add 10.1.0.1/24 dev r0
0:	from all lookup local
1000:	from all lookup [l3mdev-table]
32766:	from all lookup main
"""
    host = parse_host(listing)
    assert sum(r.l3mdev for r in host.rules if r.family == 4) == 1
    assert {r.table for r in routes_of(host).singles() for n in r.nexthops if n.device == "r0"} == {
        10
    }


def test_a_route_of_a_vrf_resolves_its_gateway_there() -> None:
    host = parse_host(HOST + "ip route add 99.0.0.0/8 via 10.2.0.7 vrf red\n")
    assert [r.nexthops[0].device for r in routes_of(host).singles() if r.prefix == 99 << 24] == [
        "r1"
    ]
    with pytest.raises(ValueError, match="Nexthop has invalid gateway"):
        parse_host(HOST + "ip route add 99.0.0.0/8 via 10.2.0.7\n")


@pytest.mark.parametrize(("question", "device"), [
    ({"oif": "red"}, "r1"), ({"oif": "r1"}, "r1"), ({"iif": "r0", "source": "10.1.0.9"}, "r1"),
    ({"oif": "blue"}, None), ({}, None),
])  # fmt: skip
def test_route_get(question: dict, device: str | None) -> None:
    answer = Netns(parse_host(HOST)).route_get("10.2.0.9", **question)
    assert (answer.device or None) == device or answer.error, answer
    assert bool(answer.error) == (device is None)


@pytest.mark.parametrize(
    ("source", "verdict"), [("10.1.0.9", "forwarded"), ("10.3.0.9", "dropped")]
)
def test_strict_source_validation_within_a_vrf(source: str, verdict: str) -> None:
    netns = Netns(parse_host(HOST + "net.ipv4.conf.all.rp_filter = 1\n"))
    batch = PacketBatch.from_packets([ip(source, "10.2.0.9")], device=netns.device_row("r0"))
    assert netns.receive(batch).verdict_names[0] == verdict


@pytest.mark.parametrize("family", [4, 6])
def test_errors_go_back_within_the_vrf(family: int) -> None:
    """The same sender's address is known in both VRFs; TTL exceeded goes to the right one."""
    netns = Netns(parse_host(HOST + "ip route add 10.9.0.0/24 dev b0 table 20\n"))
    source = address(family, 1, 9)
    packet = ip(source, address(family, 2, 9), ttl=1)
    batch = PacketBatch.from_packets([packet], device=netns.device_row("r0"))
    netns.receive(batch, collect_output=True)
    assert [s.device for s in netns.take_output()] == ["r0"]
    packet = ip(source, address(family, 1, 8), ttl=1)
    batch = PacketBatch.from_packets([packet], device=netns.device_row("b0"))
    netns.receive(batch, collect_output=True)
    assert [s.device for s in netns.take_output()] == ["b0"]


@pytest.mark.parametrize("family", [4, 6])
def test_an_echo_is_answered_within_the_vrf(family: int) -> None:
    netns = Netns(parse_host(HOST))
    kind, protocol = (8, 1) if family == 4 else (128, 58)
    echo = icmp(kind, address(family, 1, 9), address(family, 1, 1))
    for device in ("r0", "b0"):
        packet = ip(address(family, 1, 9), address(family, 1, 1), echo, protocol=protocol)
        batch = PacketBatch.from_packets([packet], device=netns.device_row(device))
        netns.receive(batch, collect_output=True)
        assert [s.device for s in netns.take_output()] == [device]


def icmp(kind: int, source: str, destination: str) -> bytes:
    body = bytes([kind, 0, 0, 0, 0, 1, 0, 1]) + b"echo"
    pseudo = b""
    if kind == 128:
        ends = (ipaddress.ip_address(source).packed, ipaddress.ip_address(destination).packed)
        pseudo = b"".join(ends) + len(body).to_bytes(4) + (58).to_bytes(4)
    return body[:2] + checksum(pseudo + body).to_bytes(2) + body[4:]


def test_a_socket_that_is_bound_to_a_vrf_sends_within_it() -> None:
    netns = Netns(parse_host(HOST + "listen udp 10.1.0.1:5000 dev red\nlisten udp 0.0.0.0:5001\n"))
    assert netns.send(0, b"hello", ("10.2.0.9", 7), collect_output=True) == 0
    assert [s.device for s in netns.take_output()] == ["r1"]
    assert netns.send(1, b"hello", ("10.2.0.9", 7)) == ENETUNREACH


def test_bridges_are_still_not_followed() -> None:
    lines = "ip link add br0 type bridge\nip link add e0 type veth\nip link set e0 master br0\n"
    assert any("bridges" in warning.expected for warning in parse(lines).warnings)
    assert not any("VRF" in warning.expected for warning in parse(HOST).warnings)


@pytest.mark.parametrize(
    "lines",
    ["", UNREACHABLE + LEAK, "ip rule del l3mdev pref 1000\n", "ip link set d0 master blue\n"],
)
def test_a_host_with_vrfs_is_printed_as_lines_that_make_it_again(lines: str) -> None:
    host = parse_host(HOST + lines)
    again = parse_host(render_host(host))
    for table in (10, 20, 254, 255):
        assert routes_in(again, table) == routes_in(host, table)
    assert [rule_text(r) for r in again.rules] == [rule_text(r) for r in host.rules]
    assert [(d.name, d.master, d.mtu, d.up) for d in again.devices] == [
        (d.name, d.master, d.mtu, d.up) for d in host.devices
    ]  # fmt: skip


@pytest.mark.parametrize("family", [4, 6])
def test_a_rule_for_what_is_in_no_vrf_has_no_table_of_one(family: int) -> None:
    """`not l3mdev` matches where no VRF says which table: the next rule decides."""
    option = "" if family == 4 else "-6 "
    netns = Netns(parse_host(f"{HOST}ip {option}rule add not l3mdev pref 5\nlisten udp [::]:9\n"))
    device = [d.name for d in netns.host.devices].index("d0")
    make = ip4 if family == 4 else ip6
    packet = make(address(family, 3, 2), address(family, 3, 1), udp(dport=9))
    verdicts = netns.receive(PacketBatch.from_packets([packet], device=device))
    assert VERDICTS[int(verdicts.verdict[0])] == "delivered"
