"""Snapshots: what is read from `ip -j` output, and that a live host comes back as configured."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ippath.config.snapshot import (
    SnapshotError, default_groups, read, read_sysctls, sockets_from_proc,
)  # fmt: skip
from ippath.config.ss import SsError, parse_ss
from ippath.fib.sysctl import effective_sysctl
from ippath.model import Host, Nexthop, Rule

LO = {
    "ifindex": 1, "ifname": "lo", "flags": ["LOOPBACK", "UP", "LOWER_UP"], "mtu": 65536,
    "link_type": "loopback", "address": "00:00:00:00:00:00",
    "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8, "scope": "host"}],
}  # fmt: skip
ETH0 = {
    "ifindex": 2, "ifname": "eth0", "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
    "mtu": 1500, "group": "default", "link_type": "ether", "address": "02:00:00:00:00:01",
    "addr_info": [
        {"family": "inet", "local": "10.0.0.1", "prefixlen": 24, "broadcast": "10.0.0.255",
         "scope": "global", "label": "eth0"},
        {"family": "inet6", "local": "2001:db8::1", "prefixlen": 64, "scope": "global"},
    ],
}  # fmt: skip


def ip(text: str) -> int:
    return int(ipaddress.ip_address(text))


def load(tmp_path: Path, **parts: Any) -> Host:
    """A Host from a folder with these files, beside lo and eth0."""
    for name, part in ({"addr": [LO, ETH0]} | parts).items():
        text = part if isinstance(part, str) else json.dumps(part)
        suffix = "txt" if isinstance(part, str) else "json"
        (tmp_path / f"{name}.{suffix}").write_text(text)
    return read(tmp_path)


def test_devices_and_addresses(tmp_path: Path) -> None:
    vlan = {
        "ifindex": 5, "ifname": "eth0.7", "link": "eth0", "flags": ["UP", "NO-CARRIER"],
        "link_type": "ether", "address": "02:00:00:00:00:01", "group": "3",
        "linkinfo": {"info_kind": "vlan", "info_data": {"protocol": "802.1ad", "id": 7}},
        "addr_info": [],
    }  # fmt: skip
    tun = {
        "ifindex": 4, "ifname": "tun0", "flags": ["POINTOPOINT", "NOARP"], "link_type": "none",
        "linkinfo": {"info_kind": "tun", "info_data": {"type": "tun"}},
        "addr_info": [{"family": "inet", "local": "10.5.0.1", "address": "10.5.0.2",
                       "prefixlen": 32, "scope": "link", "noprefixroute": True}],
    }  # fmt: skip
    host = load(tmp_path, addr=[tun, vlan, ETH0, LO])
    assert [d.name for d in host.devices] == ["lo", "eth0", "tun0", "eth0.7"]
    lo, eth0, tun0, eth07 = host.devices
    assert (lo.kind, lo.mac) == ("loopback", None)
    assert (eth0.kind, eth0.mac, eth0.up, eth0.carrier) == ("ether", 0x020000000001, True, True)
    assert eth0.addresses[0].broadcast == ip("10.0.0.255")
    assert (tun0.kind, tun0.up, tun0.noarp, tun0.point_to_point) == ("tun", False, True, True)
    assert tun0.addresses[0].peer == ip("10.5.0.2") and tun0.addresses[0].noprefixroute
    assert (eth07.kind, eth07.parent, eth07.vlan_id) == ("vlan", "eth0", 7)
    assert (eth07.vlan_protocol, eth07.group, eth07.carrier) == (0x88A8, 3, False)


ROUTES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "connected": (
        {"dst": "10.0.0.0/24", "dev": "eth0", "protocol": "kernel", "scope": "link",
         "prefsrc": "10.0.0.1", "flags": []},
        {"family": 4, "prefix": ip("10.0.0.0"), "plen": 24, "table": 254, "scope": 253,
         "protocol": "kernel", "prefsrc": ip("10.0.0.1"),
         "nexthops": [Nexthop("eth0", scope=254)]},
    ),
    "default": (
        {"dst": "default", "gateway": "10.0.0.9", "dev": "eth0", "metric": 100,
         "flags": ["onlink"], "metrics": [{"mtu": 1400, "lock": ["mtu"]}]},
        {"prefix": 0, "plen": 0, "metric": 100, "mtu": 1400, "mtu_lock": True,
         "nexthops": [Nexthop("eth0", ip("10.0.0.9"), 4, onlink=True, scope=253)]},
    ),
    "local": (
        {"type": "local", "dst": "10.0.0.1", "dev": "eth0", "table": "local",
         "protocol": "kernel", "scope": "host", "flags": []},
        {"plen": 32, "table": 255, "type": "local", "scope": 254,
         "nexthops": [Nexthop("eth0", scope=255)]},
    ),
    "multipath": (
        {"dst": "10.8.0.0/16", "flags": [], "nexthops": [
            {"gateway": "10.0.0.2", "dev": "eth0", "weight": 2, "flags": ["linkdown"]},
            {"via": {"family": "inet6", "host": "2001:db8::2"}, "dev": "eth0", "weight": 1,
             "flags": ["dead"]}]},
        {"nexthops": [Nexthop("eth0", ip("10.0.0.2"), 4, 2, scope=253, linkdown=True),
                      Nexthop("eth0", ip("2001:db8::2"), 6, 1, scope=253, dead=True)]},
    ),
    "unreachable in a table": (
        {"type": "unreachable", "dst": "10.9.0.0/16", "table": "100", "flags": []},
        {"type": "unreachable", "table": 100, "nexthops": []},
    ),
    "by TOS": ({"dst": "10.7.0.0/16", "tos": "0x10", "dev": "eth0"}, {"tos": 16}),
    "IPv6 source-specific": (
        {"dst": "2001:db8:9::/48", "from": "2001:db8::/64", "gateway": "2001:db8::2",
         "dev": "eth0", "metric": 1024, "flags": [], "pref": "high"},
        {"family": 6, "plen": 48, "src": ip("2001:db8::"), "src_plen": 64, "metric": 1024,
         "preference": "high"},
    ),
    "IPv6 default by device": (
        {"dst": "default", "dev": "eth0", "flags": [], "pref": "medium"},
        {"family": 6, "plen": 0, "metric": 1024},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUTES)
def test_routes(name: str, tmp_path: Path) -> None:
    entry, expected = ROUTES[name]
    (route,) = load(tmp_path, route=[entry]).routes
    assert {key: getattr(route, key) for key in expected} == expected


RULES: dict[str, tuple[dict[str, Any], Rule]] = {
    "by mark": (
        {"priority": 9, "src": "all", "fwmark": "0x2", "table": "100"},
        Rule(4, 9, table=100, mark=2, mask=0xFFFFFFFF),
    ),
    "many selectors": (
        {"priority": 9, "not": None, "src": "10.0.0.0", "srclen": 24, "dst": "10.1.1.1",
         "fwmark": "0x10", "fwmask": "0xff", "iif": "eth0", "ipproto": "udp", "dport_start": 53,
         "dport_end": 60, "sport": 7, "table": "main"},
        Rule(4, 9, table=254, invert=True, src=ip("10.0.0.0"), src_plen=24, dst=ip("10.1.1.1"),
             dst_plen=32, mark=0x10, mask=0xFF, iif="eth0", protocol=17, sport=(7, 7),
             dport=(53, 60)),
    ),
    "refusing": (
        {"priority": 9, "src": "all", "tos": "0x10", "action": "unreachable"},
        Rule(4, 9, action="unreachable", tos=16),
    ),
    "goto": ({"priority": 9, "src": "all", "goto": 32766}, Rule(4, 9, action="goto", goto=32766)),
    "suppressing": (
        {"priority": 9, "src": "all", "uid_start": 0, "uid_end": 5, "table": "main",
         "suppress_prefixlen": 0, "suppress_ifgroup": "3"},
        Rule(4, 9, table=254, uidrange=(0, 5), suppress_prefixlength=0, suppress_ifgroup=3),
    ),
    "by DSCP": ({"priority": 9, "src": "all", "dscp": "CS5", "table": "7"}, Rule(4, 9, table=7, dscp=40)),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str, tmp_path: Path) -> None:
    entry, expected = RULES[name]
    host = load(tmp_path, rule=[entry])
    assert [r for r in host.rules if r.family == 4] == [expected]
    assert host.custom_rules4 and not host.custom_rules6


def test_without_rules_the_default_ones_hold(tmp_path: Path) -> None:
    host = load(tmp_path)
    assert [(r.family, r.pref, r.table) for r in host.rules] == [
        (4, 0, 255), (4, 32766, 254), (4, 32767, 253), (6, 0, 255), (6, 32766, 254),
    ]  # fmt: skip
    assert not host.custom_rules4 and not host.custom_rules6


def test_neighbours_groups_sockets_and_sysctls(tmp_path: Path) -> None:
    host = load(
        tmp_path,
        neigh=[
            {"dst": "10.0.0.2", "dev": "eth0", "lladdr": "02:00:00:00:00:02", "state": ["STALE"]},
            {"dst": "2001:db8::9", "dev": "eth0", "state": ["FAILED"]},
            {"dst": "ff02::16", "dev": "eth0", "lladdr": "33:33:00:00:00:16", "state": ["NOARP"]},
            {"dst": "2001:db8::7", "dev": "eth0", "proxy": None},
        ],
        maddr=[{"ifname": "eth0", "maddr": [
            {"link": "33:33:00:00:00:01"}, {"family": "inet", "address": "239.1.2.3"}]}],
        ss="UNCONN 0 0 0.0.0.0%eth0:68 0.0.0.0:*\n",
        sysctl="net.ipv4.conf.eth0/7.rp_filter = 2\nnet.ipv4.udp_mem = 1\t2\t3\n",
    )  # fmt: skip
    assert [(n.ip, n.state, n.mac, n.proxy) for n in host.neighbours] == [
        (ip("10.0.0.2"), "stale", 0x020000000002, False),
        (ip("2001:db8::9"), "failed", None, False),
        (ip("2001:db8::7"), "permanent", None, True),
    ]
    assert host.devices[1].multicast == {(4, ip("239.1.2.3"))}
    assert [(s.port, s.device) for s in host.listeners] == [(68, "eth0")]
    assert host.sysctls == {"net.ipv4.conf.eth0.7.rp_filter": "2", "net.ipv4.udp_mem": "1 2 3"}


def test_without_memberships_linux_joins_its_own(tmp_path: Path) -> None:
    eth0 = load(tmp_path).devices[1]
    wanted = {"224.0.0.1", "ff01::1", "ff02::1", "ff02::1:ff00:1"}
    assert eth0.multicast == {(ipaddress.ip_address(g).version, ip(g)) for g in wanted}
    eth0.up = False
    assert default_groups(eth0) == set()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no addresses": ({"addr": []}, "no loopback"),
    "broken JSON": ({"route": None}, "route.json:1:2"),
    "named table": ({"route": [{"dst": "default", "table": "isp"}]}, "ip -N"),
    "route type": ({"route": [{"dst": "default", "type": "tunnel"}]}, "entry 0 of route"),
    "no priority": ({"rule": [{"src": "all"}]}, "entry 0 of rule: no 'priority'"),
    "address": ({"neigh": [{"dst": "10.0.0.256", "dev": "eth0"}]}, "entry 0 of neigh"),
    "sysctl": ({"sysctl": "net.ipv4.ip_forward\n"}, "sysctl.txt:1: expected name = value"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_with_its_place(name: str, tmp_path: Path) -> None:
    parts, expected = WRONG[name]
    if parts.get("route", 0) is None:
        (tmp_path / "route.json").write_text("[oops]")
        parts = {}
    with pytest.raises(SnapshotError, match=expected.replace("(", r"\(")):
        load(tmp_path, **parts)


def test_a_folder_without_addresses_is_no_snapshot(tmp_path: Path) -> None:
    (tmp_path / "route.json").write_text("[]")
    with pytest.raises(SnapshotError, match="no addresses"):
        read(tmp_path)


def test_wrong_ss_output_says_where(tmp_path: Path) -> None:
    with pytest.raises(SsError, match="ss:1:1: expected a state"):
        load(tmp_path, ss="hello\n")


def test_what_a_device_had_is_not_overwritten_by_all(tmp_path: Path) -> None:
    """`all` and ip_forward, whenever listed, do not undo what the device was set to later."""
    sysctl = """net.ipv4.conf.eth0.forwarding = 0
net.ipv4.conf.all.forwarding = 1
net.ipv4.ip_forward = 1
net.ipv6.conf.eth0.disable_ipv6 = 1
net.ipv6.conf.all.disable_ipv6 = 0
"""
    host = load(tmp_path, sysctl=sysctl)
    lo, eth0 = host.devices
    forwarding = [effective_sysctl(host, 4, d, "forwarding") for d in (lo, eth0)]
    assert forwarding == [1, 0]
    assert effective_sysctl(host, 6, eth0, "disable_ipv6") == 1


@pytest.mark.parametrize(
    "line, defrag",
    [
        ("", None),
        ("net.netfilter.nf_conntrack_count = 0", None),
        ("net.netfilter.nf_conntrack_count = 3", "on"),
    ],
)
def test_a_host_that_tracks_connections_puts_fragments_together(
    tmp_path: Path, line: str, defrag: str | None
) -> None:
    host = load(tmp_path, sysctl=line + "\n")
    assert host.switches.get("conntrack_defrag") == defrag


def test_sysctl_lines_with_remarks() -> None:
    text = "# saved\nsysctl: permission denied on key 'x'\nnet.core.rmem_default = 212992\n"
    assert read_sysctls(text) == {"net.core.rmem_default": "212992"}


def test_sockets_from_proc_read_like_those_of_ss() -> None:
    udp = [
        "header",
        " 1: 0100007F:0035 00000000:0000 07 rest",
        " 2: 0100000A:0007 0200000A:0063 01",
    ]
    udp6 = ["header", f" 3: {'0' * 32}:0037 {'0' * 32}:0000 07",
            f" 4: B80D0120000000000000000001000000:003A {'0' * 32}:0000 07"]  # fmt: skip
    if sys.byteorder == "big":
        pytest.skip("written down on a little-endian machine")
    listeners = parse_ss(sockets_from_proc(udp, udp6))
    assert [(s.family, s.ip, s.port, s.peer_port) for s in listeners] == [
        (4, ip("127.0.0.1"), 53, 0), (4, ip("10.0.0.1"), 7, 99),
        (6, 0, 55, 0), (6, ip("2001:db8::1"), 58, 0),
    ]  # fmt: skip


# --- a live host --------------------------------------------------------------------------------------

NAME = f"sn-{os.getpid()}"
SETUP = """
link set lo up
link add sn0 address 02:00:00:00:00:01 type veth peer name sn1
link set sn1 up
link set sn0 mtu 1400 up
addr add 10.0.0.1/24 brd + dev sn0
addr add 10.0.0.9/24 dev sn0
addr add 10.5.0.1 peer 10.5.0.2/32 dev sn0
-6 addr add 2001:db8::1/64 dev sn0 nodad
route add 10.7.0.0/16 via 10.0.0.2 mtu lock 1300 metric 5 src 10.0.0.1
route add 10.8.0.0/16 nexthop via 10.0.0.2 dev sn0 weight 2 nexthop via 10.0.0.3 dev sn0
route add unreachable 10.9.0.0/16 table 100
-6 route add 2001:db8:8::/48 via 2001:db8::2 dev sn0
rule add pref 100 not from 10.0.0.0/24 fwmark 0x10/0xff iif sn0 ipproto udp dport 53-60 lookup 100
-6 rule add pref 50 from 2001:db8::/32 blackhole
neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev sn0
nexthop add id 1 via 10.0.0.2 dev sn0
nexthop add id 2 via 2001:db8::2 dev sn0
-6 nexthop add id 3 dev sn0
nexthop add id 4 blackhole
-6 nexthop add id 6 blackhole
nexthop add id 10 group 1/2,3 type resilient buckets 4 idle_timer 9
nexthop replace id 10 group 1,3/2 type resilient
nexthop add id 11 group 2/3
route add 10.20.0.0/16 nhid 10 metric 7
route add 10.21.0.0/16 nhid 4
-6 route add 2001:db8:20::/48 nhid 11
-6 route add 2001:db8:21::/48 nhid 6
"""
PROGRAM = """
import socket, sys
from ippath.config import snapshot
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.bind(("10.0.0.1", 5353))
two = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
two.bind(("::", 5354))
parts = snapshot.collect()  # once: a live host changes between two looks
snapshot.collect = lambda: parts
snapshot.take(sys.argv[1])
snapshot.take(sys.argv[2])
"""


@contextlib.contextmanager
def namespace() -> Iterator[list[str]]:
    """A network namespace set up by SETUP, as the words that run a command in it."""
    run = ["ip", "netns", "exec", NAME]
    if subprocess.run(["ip", "netns", "add", NAME], capture_output=True).returncode:
        pytest.skip("network namespaces are not allowed here")
    try:
        for line in SETUP.strip().splitlines():
            done = subprocess.run([*run, "ip", *line.split()], capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"this kernel refuses `ip {line}`: {done.stderr.strip()}")
        (sysctls := Path("/proc/sys/net/ipv4/conf/sn0/rp_filter"))
        subprocess.run([*run, "sh", "-c", f"echo 2 > {sysctls}"], check=True)
        yield run
    finally:
        subprocess.run(["ip", "netns", "del", NAME], capture_output=True)


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Host, Host]:
    """The host of the namespace, read from a folder and from one file."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and ip to make a network namespace")
    pytest.importorskip("pyroute2")
    folder = tmp_path_factory.mktemp("snapshot")
    source = str(Path(__file__).resolve().parent.parent / "src")
    with namespace() as run:
        command = [
            *run,
            sys.executable,
            "-c",
            PROGRAM,
            str(folder / "host"),
            str(folder / "h.json"),
        ]
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": source}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    return read(folder / "host"), read(folder / "h.json")


def test_one_file_says_the_same_as_the_folder(taken: tuple[Host, Host]) -> None:
    folder, file = taken
    file.source = folder.source
    assert file == folder


def test_a_live_host_comes_back_as_it_was_configured(taken: tuple[Host, Host]) -> None:
    host = taken[0]
    sn0 = host.device("sn0")
    assert sn0 is not None
    assert (sn0.kind, sn0.mac, sn0.mtu, sn0.up) == ("veth", 0x020000000001, 1400, True)
    four = [(a.ip, a.plen, a.peer, a.secondary) for a in sn0.addresses if a.family == 4]
    assert sorted(four, key=lambda a: a[0]) == [
        (ip("10.0.0.1"), 24, None, False),
        (ip("10.0.0.9"), 24, None, True),
        (ip("10.5.0.1"), 32, ip("10.5.0.2"), False),
    ]
    assert (ip("2001:db8::1"), 64) in [(a.ip, a.plen) for a in sn0.addresses if a.family == 6]
    assert {(4, ip("224.0.0.1")), (6, ip("ff02::1:ff00:1"))} <= sn0.multicast
    assert [(n.ip, n.mac, n.state) for n in host.neighbours if n.family == 4] == [
        (ip("10.0.0.2"), 0x020000000002, "permanent")
    ]
    assert [(s.family, s.ip, s.port, s.v6only) for s in host.listeners] == [
        (4, ip("10.0.0.1"), 5353, False), (6, 0, 5354, False),
    ]  # fmt: skip
    assert host.sysctls["net.ipv4.conf.sn0.rp_filter"] == "2"


def test_a_live_host_comes_back_with_its_nexthop_objects(taken: tuple[Host, Host]) -> None:
    from ippath.config import parse_host, render_host
    from ippath.config.ip_nexthop import nexthop_line

    host = taken[0]
    assert [nexthop_line(one) for one in host.nexthops.values()] == [
        "id 1 via 10.0.0.2 dev sn0 scope link", "id 2 via 2001:db8::2 dev sn0 scope link",
        "id 3 dev sn0 scope link", "id 4 blackhole", "id 6 blackhole",
        "id 10 group 1,3/2 type resilient buckets 4 idle_timer 9 unbalanced_timer 0",
        "id 11 group 2/3",
    ]  # fmt: skip
    assert [n.family for n in host.nexthops.values()] == [4, 6, 6, 4, 6, 0, 0]
    assert host.nexthops[10].buckets == [1, 1, 2, 1]  # as the kernel moved them
    by = {
        (r.family, r.nhid): (r.type, [h.gateway for h in r.nexthops]) for r in host.routes if r.nhid
    }
    near, near6 = ip("10.0.0.2"), ip("2001:db8::2")
    assert by == {
        (4, 10): ("unicast", [near, near6]), (4, 4): ("unicast", [None]),
        (6, 11): ("unicast", [near6, None]), (6, 6): ("unicast", [None]),
    }  # fmt: skip
    again = parse_host(render_host(host))
    assert {n.id: (n.family, n.members, n.buckets) for n in again.nexthops.values()} == {
        n.id: (n.family, n.members, n.buckets) for n in host.nexthops.values()
    }


def test_a_live_host_comes_back_with_its_routes_and_rules(taken: tuple[Host, Host]) -> None:
    from ippath.netns import route_text, rule_text

    host = taken[0]
    routes = {route_text(r) for r in host.routes}
    assert {
        "10.0.0.0/24 dev sn0 src 10.0.0.1",
        "10.7.0.0/16 via 10.0.0.2 dev sn0 src 10.0.0.1 metric 5 mtu lock 1300",
        "10.8.0.0/16 nexthop via 10.0.0.2 dev sn0 weight 2 nexthop via 10.0.0.3 dev sn0 weight 1",
        "unreachable 10.9.0.0/16 table 100",
        "local 10.0.0.9 dev sn0 table local src 10.0.0.1",
        "broadcast 10.0.0.255 dev sn0 table local src 10.0.0.1",
        "2001:db8:8::/48 via 2001:db8::2 dev sn0 metric 1024",
        "local 2001:db8::1 dev sn0 table local",
        "multicast ff00::/8 dev sn0 table local metric 256",
    } <= routes
    custom = [rule_text(r) for r in host.rules if r.pref not in (0, 32766, 32767)]
    assert custom == [
        "100: not from 10.0.0.0/24 fwmark 0x10/0xff iif sn0 ipproto udp dport 53-60 lookup 100",
        "50: from 2001:db8::/32 blackhole",
    ]
    assert host.custom_rules4 and host.custom_rules6 and not host.user_local_routes
