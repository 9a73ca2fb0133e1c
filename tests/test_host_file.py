"""Host files: what lines mean, what is wrong with others, and that hosts are printed as they are."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ippath.config import HostErrors, HostWarning, load, new_host, parse, parse_host, render_host
from ippath.model import Address, Host, Listener, Neighbour, Nexthop, Route, Rule
from ippath.verify.scenario import Run
from tests.kernel.scenarios import all_scenarios

ROOT = Path(__file__).resolve().parent.parent

BASE = """
ip link add eth0 address 02:00:00:00:00:10 type dummy
ip link add eth1 address 02:00:00:00:00:11 type dummy
ip addr add 192.0.2.1/24 dev eth0
ip addr add 198.51.100.1/24 dev eth1
ip -6 addr add 2001:db8::1/64 dev eth0
"""


def number(text: str) -> int:
    return int(ipaddress.ip_address(text))


def canonical(host: Host) -> dict[str, Any]:
    """Everything that matters about a host; the order only where it decides something."""
    plain = dataclasses.asdict(host)
    plain.pop("source")
    for kind in ("routes", "rules", "listeners"):
        for one in plain[kind]:
            one.pop("line")
    plain.pop("last_nexthop")
    for nexthop in plain["nexthops"].values():
        nexthop.pop("line")
    plain["routes"].sort(
        key=lambda r: (
            r["family"], r["table"], r["prefix"], r["plen"], r["src"], r["src_plen"],
            r["tos"] if r["family"] == 4 else 0, r["metric"],
            # each device has its own, and a packet looks for that of its device
            r["nexthops"][0]["device"] if r["type"] == "multicast" else "",
        )
    )  # fmt: skip
    plain["rules"].sort(key=lambda r: (r["family"], r["pref"]))
    for device in plain["devices"]:
        device["addresses"].sort(key=lambda a: a["family"])
    plain["sysctls"] = list(plain["sysctls"].items())  # the latest write holds
    return plain


def means(text: str, base: str = BASE) -> list[str]:
    """The lines that a text adds to the printed host (or changes in it)."""
    before = render_host(parse_host(base)).splitlines()
    after = render_host(parse_host(base + text)).splitlines()
    return [line for line in after if line and line not in before]


# --- what lines mean -------------------------------------------------------------------------------

# name: (what is written, the same in full)
ROUTES = {
    "by gateway": (
        "ip route add 10.0.0.0/8 via 192.0.2.2",
        "ip route add 10.0.0.0/8 via 192.0.2.2 dev eth0",
    ),
    "without ip": (
        "route add 10.0.0.0/8 via 192.0.2.2", "ip route add 10.0.0.0/8 via 192.0.2.2 dev eth0",
    ),
    "without verb": (
        "ip route 10.0.0.0/8 via 192.0.2.2", "ip route add 10.0.0.0/8 via 192.0.2.2 dev eth0",
    ),
    "as ip route prints it": (
        "10.0.0.0/8 via 192.0.2.2 dev eth0 proto static metric 100 linkdown",
        "ip route add 10.0.0.0/8 via 192.0.2.2 dev eth0 proto static metric 100",
    ),
    "abbreviated": (
        "ip r a def via 192.0.2.2 met 7", "ip route add default via 192.0.2.2 dev eth0 metric 7",
    ),
    "abbreviated family": (
        "ip -6 ro add default via 2001:db8::2", "ip -6 route add default via 2001:db8::2 dev eth0",
    ),
    "with a prompt and sudo": (
        "$ sudo ip route add default via 192.0.2.2",
        "ip route add default via 192.0.2.2 dev eth0",
    ),
    "short prefix": ("ip route add 10/8 dev eth1", "ip route add 10.0.0.0/8 dev eth1"),
    "netmask": (
        "ip route add 10.0.0.0/255.0.0.0 dev eth1", "ip route add 10.0.0.0/8 dev eth1",
    ),
    "single address": ("ip route add 10.0.0.1 dev eth1", "ip route add 10.0.0.1/32 dev eth1"),
    "to": ("ip route add to 10.0.0.0/8 dev eth1", "ip route add 10.0.0.0/8 dev eth1"),
    "words in any order": (
        "ip route add table 100 dev eth1 metric 5 10.0.0.0/8",
        "ip route add 10.0.0.0/8 dev eth1 table 100 metric 5",
    ),
    "table by name": (
        "table 100 isp\nip route add default dev eth1 table isp",
        "ip route add default dev eth1 table 100",
    ),
    "table local": (
        "ip route add 10.0.0.0/8 dev eth1 table local",
        "ip route add 10.0.0.0/8 dev eth1 table local",
    ),
    "preference is metric": (
        "ip route add default dev eth1 preference 9", "ip route add default dev eth1 metric 9",
    ),
    "source, scope, protocol": (
        "ip route add 10.0.0.0/8 dev eth1 src 192.0.2.1 scope global proto bird",
        "ip route add 10.0.0.0/8 dev eth1 proto bird scope global src 192.0.2.1",
    ),
    "protocol by number": (
        "ip route add 10.0.0.0/8 dev eth1 proto 4", "ip route add 10.0.0.0/8 dev eth1 proto static",
    ),
    "TOS": (
        "ip route add 10.0.0.0/8 tos 0x10 dev eth1", "ip route add 10.0.0.0/8 tos 0x10 dev eth1",
    ),
    "dsfield without 0x": (
        "ip route add 10.0.0.0/8 dsfield 10 dev eth1",
        "ip route add 10.0.0.0/8 tos 0x10 dev eth1",
    ),
    "onlink": (
        "ip route add 10.0.0.0/8 via 203.0.113.1 dev eth1 onlink",
        "ip route add 10.0.0.0/8 via 203.0.113.1 dev eth1 onlink",
    ),
    "MTU and hop limit": (
        "ip route add 10.0.0.0/8 dev eth1 mtu lock 1400 hoplimit 9",
        "ip route add 10.0.0.0/8 dev eth1 mtu lock 1400 hoplimit 9",
    ),
    "what concerns TCP is passed over": (
        "ip route add 10.0.0.0/8 dev eth1 advmss 1400 window 1000 rtt 20ms initcwnd 10 quickack 1",
        "ip route add 10.0.0.0/8 dev eth1",
    ),
    "IPv6 gateway of an IPv4 route": (
        "ip route add 10.0.0.0/8 via inet6 2001:db8::9 dev eth0",
        "ip route add 10.0.0.0/8 via inet6 2001:db8::9 dev eth0",
    ),
    "blackhole": ("ip route add blackhole 10.0.0.0/8", "ip route add blackhole 10.0.0.0/8"),
    "unreachable, abbreviated": (
        "ip route add unreach 10.0.0.0/8", "ip route add unreachable 10.0.0.0/8",
    ),
    "prohibit": (
        "ip -6 route add prohibit 3000::/4 metric 7", "ip -6 route add prohibit 3000::/4 metric 7",
    ),
    "throw": (
        "ip route add throw 10.0.0.0/8 table 100", "ip route add throw 10.0.0.0/8 table 100",
    ),
    "local": ("ip route add local 10.0.0.0/8 dev lo", "ip route add local 10.0.0.0/8 dev lo"),
    "broadcast": (
        "ip route add brd 10.0.0.0/8 dev eth1", "ip route add broadcast 10.0.0.0/8 dev eth1",
    ),
    "anycast": (
        "ip -6 route add anycast 2001:db8:9::/48 dev eth1",
        "ip -6 route add anycast 2001:db8:9::/48 dev eth1",
    ),
    "multicast": (
        "ip route add multicast 10.0.0.0/8 dev eth1", "ip route add multicast 10.0.0.0/8 dev eth1",
    ),
    "unreachable of IPv6 as ip prints it": (
        "unreachable 2001:db8:9::/48 dev lo metric 1024 error -113 pref medium",
        "ip -6 route add unreachable 2001:db8:9::/48",
    ),
    "source-specific": (
        "ip -6 route add default from 2001:db8::/64 via 2001:db8::2",
        "ip -6 route add default from 2001:db8::/64 via 2001:db8::2 dev eth0",
    ),
    "router preference": (
        "default via fe80::1 dev eth0 proto ra metric 100 expires 1790sec hoplimit 64 pref high",
        "ip -6 route add default via fe80::1 dev eth0 proto ra metric 100 hoplimit 64 pref high",
    ),
    "next hops": (
        "ip route add 10.0.0.0/8 nexthop via 192.0.2.2 weight 3 nexthop dev eth1",
        "ip route add 10.0.0.0/8 nexthop via 192.0.2.2 dev eth0 weight 3 nexthop dev eth1",
    ),
    "next hops on lines of their own": (
        "default proto static metric 5 \n\tnexthop via 192.0.2.2 dev eth0 weight 1 \n"
        "\tnexthop via 198.51.100.2 dev eth1 weight 2",
        "ip route add default proto static metric 5 nexthop via 192.0.2.2 dev eth0 "
        "nexthop via 198.51.100.2 dev eth1 weight 2",
    ),
    "id of a nexthop beside the next hop": (
        "default nhid 12 via 192.0.2.2 dev eth0 proto zebra metric 20",
        "ip route add default via 192.0.2.2 dev eth0 proto zebra metric 20",
    ),
    "backslash continues": (
        "ip route add 10.0.0.0/8 \\\n   via 192.0.2.2 \\\n dev eth0",
        "ip route add 10.0.0.0/8 via 192.0.2.2 dev eth0",
    ),
    "comment": (
        "ip route add 10.0.0.0/8 dev eth1  # a comment", "ip route add 10.0.0.0/8 dev eth1",
    ),
    "append": (
        "ip route add 10.0.0.0/8 dev eth1\nip route append 10.0.0.0/8 dev eth0",
        "ip route add 10.0.0.0/8 dev eth1", "ip route append 10.0.0.0/8 dev eth0",
    ),
    "prepend": (
        "ip route add 10.0.0.0/8 dev eth1\nip route prepend 10.0.0.0/8 dev eth0",
        "ip route add 10.0.0.0/8 dev eth0", "ip route append 10.0.0.0/8 dev eth1",
    ),
    "replace": (
        "ip route add 10.0.0.0/8 dev eth1\nip route replace 10.0.0.0/8 dev eth0",
        "ip route add 10.0.0.0/8 dev eth0",
    ),
    "change": (
        "ip route add 10.0.0.0/8 dev eth1\nip route change 10.0.0.0/8 dev eth0",
        "ip route add 10.0.0.0/8 dev eth0",
    ),
    "del": ("ip route add 10.0.0.0/8 dev eth1\nip route del 10.0.0.0/8",),
    "del by device": (
        "ip route add 10.0.0.0/8 dev eth1\nip route append 10.0.0.0/8 dev eth0\n"
        "ip route del 10.0.0.0/8 dev eth1",
        "ip route add 10.0.0.0/8 dev eth0",
    ),
    "del of a connected route": (
        "ip route del 198.51.100.0/24",
        "ip route del 198.51.100.0/24 dev eth1 table main proto kernel",
    ),
    "flush of a table": (
        "ip route add default dev eth1 table 100\nip route flush table 100",
    ),
    "connected routes add nothing": (
        "192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.1\n"
        "local 192.0.2.1 dev eth0 table local proto kernel scope host src 192.0.2.1\n"
        "broadcast 192.0.2.255 dev eth0 table local proto kernel scope link src 192.0.2.1\n"
        "2001:db8::/64 dev eth0 proto kernel metric 256 pref medium\n"
        "ff00::/8 dev eth0 table local proto kernel metric 256 pref medium",
    ),
    "the command above its output tells the family": (
        "$ ip -6 route\ndefault dev eth1 metric 7", "ip -6 route add default dev eth1 metric 7",
    ),
    "the command above its output tells the table": (
        "ip route show table 100\ndefault via 192.0.2.2 dev eth0",
        "ip route add default via 192.0.2.2 dev eth0 table 100",
    ),
}  # fmt: skip

RULES = {
    "lookup": ("ip rule add from 10.0.0.0/8 lookup 100", "ip rule add pref 32765 from 10.0.0.0/8 lookup 100"),
    "table is lookup": ("ip rule add pref 7 table 100", "ip rule add pref 7 lookup 100"),
    "no action is main": ("ip rule add pref 7 to 10.0.0.0/8", "ip rule add pref 7 to 10.0.0.0/8 lookup main"),
    "all is no selector": ("ip rule add pref 7 from all to any lookup 100", "ip rule add pref 7 lookup 100"),
    "priority": ("ip rule add priority 7 lookup 100", "ip rule add pref 7 lookup 100"),
    "abbreviated": ("ip ru a pri 7 from 10.0.0.0/8 look 100", "ip rule add pref 7 from 10.0.0.0/8 lookup 100"),
    "as ip rule prints it": ("1000:\tfrom 10.0.0.0/8 lookup 100 proto static", "ip rule add pref 1000 from 10.0.0.0/8 lookup 100"),
    "detached as printed": ("7:\tfrom all iif gone0 [detached] lookup 100", "ip rule add pref 7 iif gone0 lookup 100"),
    "unresolved goto as printed": ("7:\tfrom all goto 100 [unresolved]", "ip rule add pref 7 goto 100"),
    "default rules as printed add nothing": (
        "0:\tfrom all lookup local\n32766:\tfrom all lookup main\n32767:\tfrom all lookup default",
    ),
    "mark": ("ip rule add pref 7 fwmark 0x10 lookup 100", "ip rule add pref 7 fwmark 0x10 lookup 100"),
    "mark and mask": ("ip rule add pref 7 fwmark 16/0xf0 lookup 100", "ip rule add pref 7 fwmark 0x10/0xf0 lookup 100"),
    "not": ("ip rule add pref 7 not from 10.0.0.0/8 prohibit", "ip rule add pref 7 not from 10.0.0.0/8 prohibit"),
    "devices": ("ip rule add pref 7 iif eth0 oif eth1 lookup 100", "ip rule add pref 7 iif eth0 oif eth1 lookup 100"),
    "dev is iif": ("ip rule add pref 7 dev eth0 lookup 100", "ip rule add pref 7 iif eth0 lookup 100"),
    "TOS": ("ip rule add pref 7 tos 0x10 lookup 100", "ip rule add pref 7 tos 0x10 lookup 100"),
    "DSCP by name": ("ip rule add pref 7 dscp EF lookup 100", "ip rule add pref 7 dscp 46 lookup 100"),
    "DSCP 0": ("ip rule add pref 7 dscp 0 lookup 100", "ip rule add pref 7 dscp 0 lookup 100"),
    "ports": (
        "ip rule add pref 7 ipproto udp sport 100-200 dport 53 lookup 100",
        "ip rule add pref 7 ipproto udp sport 100-200 dport 53 lookup 100",
    ),
    "protocol by number": ("ip rule add pref 7 ipproto 17 lookup 100", "ip rule add pref 7 ipproto udp lookup 100"),
    "protocol without a name": (
        "ip rule add pref 7 ipproto 253 lookup 100", "ip rule add pref 7 ipproto ipproto-253 lookup 100",
    ),
    "users": ("ip rule add pref 7 uidrange 1000-1999 lookup 100", "ip rule add pref 7 uidrange 1000-1999 lookup 100"),
    "suppress": (
        "ip rule add pref 7 lookup main suppress_prefixlength 0 suppress_ifgroup 3",
        "ip rule add pref 7 lookup main suppress_prefixlength 0 suppress_ifgroup 3",
    ),
    "l3mdev": ("ip rule add pref 1000 l3mdev", "ip rule add pref 1000 l3mdev"),
    "goto": ("ip rule add pref 7 goto 32766", "ip rule add pref 7 goto 32766"),
    "nop": ("ip rule add pref 7 nop", "ip rule add pref 7 nop"),
    "blackhole": ("ip rule add pref 7 blackhole", "ip rule add pref 7 blackhole"),
    "type": ("ip rule add pref 7 type unreachable", "ip rule add pref 7 unreachable"),
    "IPv6 by option": ("ip -6 rule add pref 7 lookup 100", "ip -6 rule add pref 7 lookup 100"),
    "IPv6 by prefix": ("ip rule add pref 7 from 2001:db8::/32 lookup 100", "ip -6 rule add pref 7 from 2001:db8::/32 lookup 100"),
    "del of a default rule": ("ip rule del pref 32767", "ip rule del pref 32767 lookup default"),
    "flush": (
        "ip rule flush", "ip rule del pref 32766 lookup main", "ip rule del pref 32767 lookup default",
    ),
    # the kernel remembers that there was a rule (fib_has_custom_rules)
    "add and del": (
        "ip rule add pref 7 lookup 100\nip rule del pref 7",
        "ip rule add pref 32765 nop", "ip rule del pref 32765 nop",
    ),
}  # fmt: skip

DEVICES = {
    "dummy": ("ip link add d0 type dummy", "ip link add d0 type dummy"),
    "address, MTU, group": (
        "ip link add d0 address 02:00:00:00:00:99 mtu 1400 group 7 type veth",
        "ip link add d0 address 02:00:00:00:00:99 mtu 1400 group 7 type veth",
    ),
    "VLAN": (
        "ip link add link eth0 name lab type vlan id 20",
        "ip link add link eth0 name lab type vlan id 20",
    ),
    "provider VLAN": (
        "ip link add link eth0 name lab type vlan protocol 802.1ad id 20",
        "ip link add link eth0 name lab type vlan id 20 protocol 802.1ad",
    ),
    "VRF": ("ip link add red type vrf table 10", "ip link add red type vrf table 10"),
    "veth pair": (
        "ip link add v0 type veth peer name v1",
        "ip link add v0 type veth", "ip link add v1 type veth",
    ),
    "tun": ("ip link add t0 type tun", "ip link add t0 type tun"),
    "tuntap": ("ip tuntap add dev t0 mode tap", "ip link add t0 type tap"),
    "down": ("ip link add d0 type dummy\nip link set d0 down", "ip link add d0 type dummy", "ip link set d0 down"),
    "up again": ("ip link add d0 type dummy\nip link set d0 down\nip link set dev d0 up", "ip link add d0 type dummy"),
    "set several": (
        "ip link add d0 type dummy\nip link set d0 mtu 1300 address 02:00:00:00:00:98 arp off",
        "ip link add d0 address 02:00:00:00:00:98 mtu 1300 arp off type dummy",
    ),
    "no carrier": (
        "ip link add d0 type dummy\nip link set d0 carrier off", "ip link add d0 carrier off type dummy",
    ),
    "master": (
        "ip link add br0 type bridge\nip link add d0 type dummy\nip link set d0 master br0",
        "ip link add br0 type bridge", "ip link add d0 type dummy", "ip link set d0 master br0",
    ),
    "nomaster": (
        "ip link add br0 type bridge\nip link add d0 type dummy\nip link set d0 master br0\n"
        "ip link set d0 nomaster",
        "ip link add br0 type bridge", "ip link add d0 type dummy",
    ),
    "renamed": ("ip link add d0 type dummy\nip link set d0 name lan", "ip link add lan type dummy"),
    "deleted": ("ip link add d0 type dummy\nip link del d0",),
    "an address makes the device": (
        "ip addr add 10.0.0.1/24 dev new0",
        "ip link add new0 type ether", "ip addr add 10.0.0.1/24 dev new0",
    ),
    "loopback": ("ip link set lo mtu 1500", "ip link set lo mtu 1500"),
    "no automatic address": (
        "ip link add d0 address 02:00:00:00:00:99 type dummy\nip link set d0 addrgenmode none",
        "ip link add d0 address 02:00:00:00:00:99 type dummy",
        "net.ipv6.conf.d0.addr_gen_mode = 1",
    ),
    "as ip -d link prints it": (
        "7: lab@eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1496 qdisc noqueue state UP mode DEFAULT group default qlen 1000\n"
        "    link/ether 02:00:00:00:00:10 brd ff:ff:ff:ff:ff:ff promiscuity 0 minmtu 0 maxmtu 65535\n"
        "    vlan protocol 802.1Q id 20 <REORDER_HDR> numtxqueues 1 numrxqueues 1",
        "ip link add link eth0 name lab index 7 mtu 1496 type vlan id 20",
    ),
    "as ip -o link prints it": (
        "9: d0: <BROADCAST,NOARP,UP,LOWER_UP> mtu 1500 qdisc noqueue state UNKNOWN \\    link/ether 02:00:00:00:00:99 brd ff:ff:ff:ff:ff:ff",
        "ip link add d0 index 9 address 02:00:00:00:00:99 arp off type dummy".replace("dummy", "ether"),
    ),
    "as ip -br link prints it": (
        "d0               UP             02:00:00:00:00:99 <BROADCAST,MULTICAST,UP,LOWER_UP>",
        "ip link add d0 address 02:00:00:00:00:99 type ether",
    ),
}  # fmt: skip

ADDRESSES = {
    "IPv4": ("ip addr add 10.0.0.1/24 dev eth1", "ip addr add 10.0.0.1/24 dev eth1"),
    "without verb": ("ip addr 10.0.0.1/24 dev eth1", "ip addr add 10.0.0.1/24 dev eth1"),
    "device first": ("ip a a dev eth1 10.0.0.1/24", "ip addr add 10.0.0.1/24 dev eth1"),
    "no length": ("ip addr add 10.0.0.1 dev eth1", "ip addr add 10.0.0.1/32 dev eth1"),
    "IPv6": ("ip addr add 2001:db8:9::1/64 dev eth1 nodad", "ip -6 addr add 2001:db8:9::1/64 dev eth1"),
    "broadcast": (
        "ip addr add 10.0.0.1/24 brd + dev eth1", "ip addr add 10.0.0.1/24 brd 10.0.0.255 dev eth1",
    ),
    "peer": (
        "ip addr add 10.0.0.1 peer 10.0.1.1/32 dev eth1",
        "ip addr add 10.0.0.1 peer 10.0.1.1/32 dev eth1",
    ),
    "scope, label, metric": (
        "ip addr add 10.0.0.1/24 dev eth1 scope link label eth1:a metric 7 noprefixroute",
        "ip addr add 10.0.0.1/24 dev eth1 scope link label eth1:a metric 7 noprefixroute",
    ),
    "del": ("ip addr add 10.0.0.1/24 dev eth1\nip addr del 10.0.0.1/24 dev eth1",),
    "replace": (
        "ip addr add 10.0.0.1/24 dev eth1\nip addr replace 10.0.0.1/24 metric 7 dev eth1",
        "ip addr add 10.0.0.1/24 dev eth1 metric 7",
    ),
    "as ip -o addr prints it": (
        "3: eth1    inet 10.0.0.1/24 metric 100 brd 10.0.0.255 scope global dynamic eth1\\       valid_lft 86000sec preferred_lft 86000sec",
        "ip addr add 10.0.0.1/24 brd 10.0.0.255 dev eth1 metric 100",
    ),
    "as ip -br addr prints it": (
        "eth1             UP             10.0.0.1/24 2001:db8:9::1/64",
        "ip addr add 10.0.0.1/24 dev eth1", "ip -6 addr add 2001:db8:9::1/64 dev eth1",
    ),
}  # fmt: skip

OTHERS = {
    "neighbour": (
        "ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:22 dev eth0",
        "ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:22 dev eth0 nud permanent",
    ),
    "neighbour as ip prints it": (
        "192.0.2.2 dev eth0 lladdr 02:00:00:00:00:22 REACHABLE",
        "ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:22 dev eth0 nud reachable",
    ),
    "failed neighbour as ip prints it": (
        "192.0.2.9 dev eth0 FAILED", "ip neigh add 192.0.2.9 dev eth0 nud failed",
    ),
    "router as ip prints it": (
        "fe80::1 dev eth0 lladdr 02:00:00:00:00:22 router STALE",
        "ip neigh add fe80::1 lladdr 02:00:00:00:00:22 dev eth0 nud stale",
    ),
    "proxy": ("ip neigh add proxy 192.0.2.9 dev eth0", "ip neigh add proxy 192.0.2.9 dev eth0"),
    "neighbour replaced": (
        "ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:22 dev eth0\n"
        "ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:23 dev eth0 nud stale",
        "ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:23 dev eth0 nud stale",
    ),
    "neighbour deleted": (
        "ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:22 dev eth0\nip neigh del 192.0.2.2 dev eth0",
    ),
    "sysctl": ("net.ipv4.ip_forward = 1", "net.ipv4.ip_forward = 1"),
    "sysctl without spaces": ("net.ipv4.icmp_ratelimit=0", "net.ipv4.icmp_ratelimit = 0"),
    "sysctl command": (
        "sysctl -w net.ipv4.icmp_ratelimit=0 net.ipv4.icmp_ratemask=0x10",
        "net.ipv4.icmp_ratelimit = 0", "net.ipv4.icmp_ratemask = 16",
    ),
    "sysctl with slashes": (
        "net/ipv4/conf/eth0/rp_filter = 2", "net.ipv4.conf.eth0.rp_filter = 2",
    ),
    "sysctl of a device with a dot": (
        "ip link add link eth0 name eth0.5 type vlan id 5\nnet/ipv4/conf/eth0.5/rp_filter = 2",
        "ip link add link eth0 name eth0.5 type vlan id 5", "net.ipv4.conf.eth0/5.rp_filter = 2",
    ),
    "sysctl of several numbers": (
        "net.ipv4.ip_local_port_range = 32768\t60999", "net.ipv4.ip_local_port_range = 32768 60999",
    ),
    "listen": ("listen udp 0.0.0.0:53", "listen udp 0.0.0.0:53"),
    "listen without udp": ("listen [::]:53", "listen udp [::]:53"),
    "socket alone": ("[::]:443", "listen udp [::]:443"),
    "listen with all": (
        "listen udp [2001:db8::1]:53 dev eth0 reader 1000/s rcvbuf 4096 reuseport v6only "
        "peer [2001:db8::2]:99 no_check6 noreuseaddr",
        "listen udp [2001:db8::1]:53 dev eth0 peer [2001:db8::2]:99 reader 1000/s rcvbuf 4096 "
        "noreuseaddr reuseport v6only no_check6",
    ),
    "listen, never read": ("listen udp 0.0.0.0:53 reader none", "listen udp 0.0.0.0:53 reader none"),
    "UDP-Lite": ("listen udplite 0.0.0.0:53", "listen udplite 0.0.0.0:53"),
    "as ss prints it": (
        "UNCONN 0      0            0.0.0.0:68         0.0.0.0:*", "listen udp 0.0.0.0:68",
    ),
    "protocol": ("listen proto ospf", "listen proto 89"),
    "protocol of IPv6": ("listen proto 89 inet6", "listen proto 89 inet6"),
    "join": ("join 239.1.2.3 dev eth0", "join 239.1.2.3 dev eth0"),
    "map": ('map "Ethernet 2" eth0', 'map "Ethernet 2" eth0'),
    "map with backslashes": (r"map \Device\NPF_1 eth0", r'map "\Device\NPF_1" eth0'),
    "switch": ("switch neighbours strict", "switch neighbours strict"),
    "switch with a sign": ("switch neighbours=strict", "switch neighbours strict"),
}  # fmt: skip

FORMS = {**ROUTES, **{f"rule: {k}": v for k, v in RULES.items()},
         **{f"device: {k}": v for k, v in DEVICES.items()},
         **{f"address: {k}": v for k, v in ADDRESSES.items()}, **OTHERS}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_line_means_the_same_as_its_full_form(name: str) -> None:
    written, *full = FORMS[name]
    assert means(written) == full
    assert canonical(parse_host(BASE + "\n".join(full))) == canonical(parse_host(BASE + written))


def test_fields_of_a_route() -> None:
    line = (
        "ip route add 10.0.0.0/8 tos 0x10 table 100 metric 7 proto static src 192.0.2.1 mtu lock 1400 "
        "hoplimit 9 nexthop via 192.0.2.2 weight 3 nexthop via 198.51.100.2 dev eth1 onlink"
    )
    (route,) = [r for r in parse_host(BASE + line).routes if r.table == 100]
    assert route == Route(
        4, number("10.0.0.0"), 8, 100, "unicast", tos=0x10, metric=7, scope=0, protocol="static",
        prefsrc=number("192.0.2.1"), mtu=1400, mtu_lock=True, hoplimit=9, line=line,
        nexthops=[
            Nexthop("eth0", number("192.0.2.2"), 4, 3, scope=253),
            Nexthop("eth1", number("198.51.100.2"), 4, onlink=True, scope=253),
        ],
    )  # fmt: skip


def test_fields_of_a_rule() -> None:
    line = (
        "ip rule add pref 7 not from 10.0.0.0/8 to 11.0.0.0/8 iif eth0 oif eth1 tos 0x10 fwmark 1/3 "
        "ipproto udp sport 1-2 dport 53 uidrange 5-6 lookup 100 suppress_prefixlength 8"
    )
    assert parse_host(BASE + line).rules[-1] == Rule(
        4, 7, table=100, invert=True, iif="eth0", oif="eth1", src=number("10.0.0.0"), src_plen=8,
        dst=number("11.0.0.0"), dst_plen=8, tos=0x10, mark=1, mask=3, protocol=17, sport=(1, 2),
        dport=(53, 53), uidrange=(5, 6), suppress_prefixlength=8, line=line,
    )  # fmt: skip


def test_fields_of_the_rest() -> None:
    host = parse_host(
        BASE
        + "ip addr add 10.0.0.1/24 brd + dev eth1 label eth1:a\n"
        + "ip neigh add proxy fe80::9 dev eth0\n"
        + "listen udp 192.0.2.1:53 dev eth0 rcvbuf 5000 reader 7/s\n"
        + "join ff05::99 dev eth1\nlisten proto 89\nmap one eth0\nswitch receive_list 1\n"
        + "sysctl -w net.ipv4.conf.eth0.rp_filter=2\n"
    )
    eth0, eth1 = host.devices[1:]
    assert eth1.addresses[1] == Address(
        4, number("10.0.0.1"), 24, broadcast=number("10.0.0.255"), label="eth1:a"
    )
    assert host.neighbours == [Neighbour(6, number("fe80::9"), "eth0", None, "permanent", True)]
    assert [dataclasses.replace(one, line="") for one in host.listeners] == [
        Listener(4, number("192.0.2.1"), 53, "eth0", rcvbuf=5000, reader="7/s")
    ]
    assert (6, number("ff05::99")) in eth1.multicast and host.protocols == {(4, 89), (6, 89)}
    assert host.device_map == {"one": "eth0"} and host.switches == {"receive_list": "1"}
    assert host.sysctls["net.ipv4.conf.eth0.rp_filter"] == "2"
    assert eth0.up and eth0.mac == 0x020000000010


def test_an_empty_file_is_a_new_host() -> None:
    assert (
        canonical(parse_host("")) == canonical(parse_host("# nothing\n\n")) == canonical(new_host())
    )


IP_ADDR = """\
1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000
    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
    inet 127.0.0.1/8 scope host lo
       valid_lft forever preferred_lft forever
    inet6 ::1/128 scope host noprefixroute
       valid_lft forever preferred_lft forever
2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP group default qlen 1000
    link/ether 52:54:00:12:34:56 brd ff:ff:ff:ff:ff:ff
    altname enp0s3
    inet 10.0.2.15/24 metric 100 brd 10.0.2.255 scope global dynamic eth0
       valid_lft 86000sec preferred_lft 86000sec
    inet6 fe80::5054:ff:fe12:3456/64 scope link
       valid_lft forever preferred_lft forever
3: wlan0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc noqueue state DOWN group default qlen 1000
    link/ether 52:54:00:12:34:57 brd ff:ff:ff:ff:ff:ff permaddr 00:11:22:33:44:55
4: off0: <BROADCAST,MULTICAST> mtu 1500 qdisc noop state DOWN group default qlen 1000
    link/ether 52:54:00:12:34:58 brd ff:ff:ff:ff:ff:ff
5: wg0: <POINTOPOINT,NOARP,UP,LOWER_UP> mtu 1420 qdisc noqueue state UNKNOWN group default qlen 1000
    link/none
    inet 10.9.0.2 peer 10.9.0.1/32 scope global wg0
       valid_lft forever preferred_lft forever
"""


def test_the_output_of_ip_addr() -> None:
    host = parse_host(IP_ADDR)
    names = ["lo", "eth0", "wlan0", "off0", "wg0"]
    assert [(d.name, d.ifindex) for d in host.devices] == list(zip(names, range(1, 6)))
    lo, eth0, wlan0, off0, wg0 = host.devices
    assert len(lo.addresses) == 2
    assert eth0.mac == 0x525400123456 and eth0.addresses[0] == Address(
        4, number("10.0.2.15"), 24, broadcast=number("10.0.2.255"), metric=100
    )
    assert len(eth0.addresses) == 2, "the link-local address is the one that was printed"
    assert wlan0.up and not wlan0.carrier and not off0.up
    assert wg0.kind == "none" and wg0.noarp and wg0.mtu == 1420
    assert wg0.addresses[0].peer == number("10.9.0.1")
    assert canonical(parse_host(render_host(host))) == canonical(host)


@pytest.mark.parametrize(
    "family, line",
    {
        "IPv4 by default": (4, "ip route add default dev eth1 metric 9"),
        "IPv6 by option": (6, "ip -6 route add default dev eth1 metric 9"),
        "IPv6 by -family": (6, "ip -f inet6 route add default dev eth1 metric 9"),
        "IPv6 by gateway": (6, "ip route add default via 2001:db8::2 metric 9"),
        "IPv6 by prefix": (6, "ip route add 3000::/4 dev eth1 metric 9"),
        "IPv6 by pref": (6, "default dev eth1 metric 9 pref medium"),
    }.values(),
)
def test_family_of_a_route(family: int, line: str) -> None:
    assert [r.family for r in parse_host(BASE + line).routes if r.metric == 9] == [family]


def test_routes_stay_whose_source_another_device_has() -> None:
    """As Linux 6.18 does; with the last such address they go."""
    from ippath.netns import route_text

    text = (
        "ip link add eth0 type veth\nip link add eth1 type veth\nip addr add 10.0.0.1/24 dev eth0\n"
        "ip addr add 10.1.0.1/24 dev eth1\nip addr add 10.0.0.1 peer 10.1.0.1/32 dev lo\n"
        "ip addr add 10.1.0.1/24 dev lo\nip link del eth1\n"
    )
    shown = {route_text(r) for r in parse_host(text).routes if r.family == 4}
    assert {line for line in shown if "10.1.0" in line} == {
        "local 10.1.0.0/24 dev lo table local src 10.1.0.1",
        "local 10.1.0.1 dev lo table local src 10.0.0.1",
        "local 10.1.0.1 dev lo table local src 10.1.0.1",
        "broadcast 10.1.0.255 dev lo table local src 10.1.0.1",
    }
    route = "ip route add 172.16.0.0/12 via 10.0.0.9 src 10.3.0.1\n"
    one = "ip link add eth0 type veth\nip addr add 10.0.0.1/24 dev eth0\nip addr add 10.3.0.1/32 dev lo\n"
    for last in ("", "ip addr del 10.3.0.1/32 dev lo\n"):
        host = parse_host(one + route + last)
        assert any(r.plen == 12 for r in host.routes) == (not last)


def documented() -> tuple[list[str], list[str]]:
    """The plain blocks of the document, one text each, and the lines within its tables."""
    blocks: list[str] = []
    lines: list[str] = []
    fence = None
    for line in (ROOT / "docs" / "host-files.md").read_text().splitlines():
        if line.startswith("```"):
            fence = line[3:] or "plain" if fence is None else None
            if fence == "plain":
                blocks.append("")
        elif fence == "plain":
            blocks[-1] += line + "\n"
        elif line.startswith("| `"):
            lines.append(line.split("`")[1])
    return blocks, lines


def test_examples_in_the_document_are_valid() -> None:
    blocks, lines = documented()
    blocks = [block for block in blocks if "office.host:" not in block]
    base = BASE + "ip link add tun0 type tun\nip link add br0 type bridge\ntable 100 isp\n"
    single = [line for block in blocks[1:-1] for line in block.splitlines()] + lines
    single = [line for line in single if line and "…" not in line]
    assert len(single) > 50
    for text in [blocks[0], BASE + blocks[-1]]:
        parse_host(text)
    for line in single:
        # BASE has some of it already
        before = "ip addr flush dev eth0" if " addr add " in line else ""
        before = "ip rule add pref 1000 nop" if line == "ip rule del pref 1000" else before
        before = "ip link del eth0" if line.startswith("ip link add eth0") else before
        before = "ip link del tun0" if line.startswith("ip tuntap add dev tun0") else before
        if "nhid" in line or any(f"nexthop {w}" in line for w in ("replace", "del", "add id 1")):
            others = [n for n in (1, 2, 3, 10) if f"add id {n} " not in line]
            before = "\n".join(f"ip nexthop add id {n} dev eth0" for n in others)
        if line not in COMMANDS:
            parse_host(f"{base}{before}\n{line}\n")


# commands whose output may be pasted, not lines of a host file
COMMANDS = ("ip addr", "ip link", "ip route", "ip rule", "ip neigh", "sysctl -a", "ss -lun")


def test_the_errors_in_the_document_are_those_that_are_reported() -> None:
    (shown,) = [block for block in documented()[0] if "office.host:" in block]
    text = "ip link add eth0 type dummy\nip addr add 192.0.2.1/24 dev eth0\n"
    text += "".join(line[4:] + "\n" for line in shown.splitlines() if line.startswith("    ip"))
    with pytest.raises(HostErrors) as caught:
        parse_host(text, "office.host")
    assert str(caught.value) + "\n" == shown


# --- what is wrong ---------------------------------------------------------------------------------

# name: (text, line, column, part of the message, the word that was probably meant)
ERRORS: dict[str, tuple[str, int, int, str, str | None]] = {
    "unknown first word": ("\nlisen udp 0.0.0.0:53", 2, 1, "listen", "listen"),
    "nothing known": ("qqqq", 1, 1, "expected a line for ip", None),
    "unknown object": ("ip rulez add lookup 100", 1, 4, "expected route, rule", "rule"),
    "object that is not modelled": ("ip netconf show", 1, 4, "not supported", None),
    "unknown option": ("ip -7 route", 1, 4, "option of ip", None),
    "another namespace": ("ip -n blue route", 1, 4, "namespace", None),
    "route type": (
        "ip route add blackhale 10.0.0.0/8", 1, 14, "expected the type of a route", "blackhole",
    ),
    "verb": ("ip route adx 10.0.0.0/8", 1, 10, "expected add, replace", "add"),
    "unknown verb of rule": ("ip rule ada pref 5", 1, 9, "expected add, del", "add"),
    "no prefix": ("ip route add", 1, 14, "expected a prefix", None),
    "prefix": ("ip route add 10.0.0.300/8 dev lo", 1, 14, "10.0.0.300/8", None),
    "prefix length": ("ip route add 10.0.0.0/33 dev lo", 1, 14, "up to 32", None),
    "bits behind the prefix": ("ip route add 10.0.0.1/8 dev lo", 1, 14, "(the prefix is 10.0.0.0/8)", None),
    "family of the prefix": ("ip -6 route add 10.0.0.0/8 dev lo", 1, 17, "IPv6", None),
    "family of the gateway": (
        "ip route add 10.0.0.0/8 via fe80::1 dev lo", 1, 29, "via inet6", None,
    ),
    "family of the source": (
        "ip route add 10.0.0.0/8 dev lo src fe80::1", 1, 36, "IPv4 address", None,
    ),
    "second prefix": ("ip route add 10.0.0.0/8 11.0.0.0/8 dev lo", 1, 25, "not known here", None),
    "keyword": ("ip route add 10.0.0.0/8 dve lo", 1, 25, "'dve' is not known", "dev"),
    "device": (BASE + "ip route add 10.0.0.0/8 dev eht0", 7, 29, "no device is called 'eht0'", "eth0"),
    "value is missing": ("ip route add 10.0.0.0/8 dev", 1, 29, "name of a device", None),
    "number": ("ip route add 10.0.0.0/8 dev lo metric x", 1, 39, "a number, not 'x'", None),
    "number too large": (
        "ip route add 10.0.0.0/8 dev lo metric 4294967296", 1, 39, "between 0 and 4294967295", None,
    ),
    "table": ("ip route add 10.0.0.0/8 dev lo table mian", 1, 38, "a table by number or name", "main"),
    "scope": ("ip route add 10.0.0.0/8 dev lo scope lnik", 1, 38, "a scope", "link"),
    "protocol": ("ip route add 10.0.0.0/8 dev lo proto statci", 1, 38, "routing protocol", "static"),
    "TOS": ("ip route add 10.0.0.0/8 tos 0x100 dev lo", 1, 29, "TOS", None),
    "ECN in the TOS": ("ip route add 10.0.0.0/8 tos 0x11 dev lo", 1, 29, "ECN", None),
    "router preference": ("ip -6 route add default dev lo pref hihg", 1, 37, "low, medium or high", "high"),
    "from of IPv4": ("ip route add 10.0.0.0/8 from 11.0.0.0/8 dev lo", 1, 25, "write a rule", None),
    "encapsulation": ("ip route add 10.0.0.0/8 encap mpls 1 dev lo", 1, 25, "not supported", None),
    "nexthop object alone": ("ip route add 10.0.0.0/8 nhid 5", 1, 25, "does not exist", None),
    "via and nexthop": (
        "ip route add 10.0.0.0/8 dev lo nexthop dev lo", 1, 32, "either via and dev or nexthop", None,
    ),
    "gateway that is not on a link": (
        BASE + "ip route add 10.0.0.0/8 via 203.0.113.9 dev eth0", 7, 29,
        "Nexthop has invalid gateway", None,
    ),
    "route that is there": (
        "ip route add blackhole 10.0.0.0/8\nip route add blackhole 10.0.0.0/8", 2, 24,
        "RTNETLINK answers: File exists", None,
    ),
    "route that is not there": ("ip route del 10.0.0.0/8", 1, 14, "No such process", None),
    "foreign source address": (
        BASE + "ip route add 10.0.0.0/8 dev eth0 src 10.9.9.9", 7, 38, "Invalid prefsrc", None,
    ),
    "device that is down": (
        BASE + "ip link set eth1 down\nip route add 10.0.0.0/8 dev eth1", 8, 29, "not up", None,
    ),
    "selector of a rule": ("ip rule add form 10.0.0.0/8 lookup 100", 1, 13, "one of from, to", "from"),
    "mark": ("ip rule add fwmark blue lookup 100", 1, 20, "a mark like 0x10", None),
    "port": ("ip rule add dport 70000 lookup 100", 1, 19, "between 1 and 65535", None),
    "range of ports": ("ip rule add dport 9-5 lookup 100", 1, 19, "smaller first", None),
    "users": ("ip rule add uidrange 5 lookup 100", 1, 22, "1000-1999", None),
    "IP protocol": ("ip rule add ipproto upd lookup 100", 1, 21, "IP protocol", "udp"),
    "DSCP": ("ip rule add dscp 64 lookup 100", 1, 18, "DSCP from 0 to 63", None),
    "goto backwards": ("ip rule add pref 9 goto 5", 1, 25, "Backward goto", None),
    "families of a rule": (
        "ip rule add from 10.0.0.0/8 to 2001:db8::/32 lookup 100", 1, 32, "IPv4", None,
    ),
    "rule that is there": (
        "ip rule add pref 9 lookup 77\nip rule add pref 9 lookup 77", 2, 13, "File exists", None,
    ),
    "rule that is not there": ("ip rule del pref 77", 1, 13, "No such file", None),
    "rule to delete": ("ip rule del", 1, 13, "which rule", None),
    "type of device": ("ip link add d0 type dumy", 1, 21, "expected a type of device", "dummy"),
    "no type": ("ip link add d0", 1, 16, "expected type", None),
    "VLAN without id": (BASE + "ip link add link eth0 name v type vlan", 7, 40, "id", None),
    "VLAN without device": ("ip link add v type vlan id 5", 1, 13, "link DEVICE", None),
    "VLAN number": (BASE + "ip link add link eth0 name v type vlan id 4096", 7, 43, "4095", None),
    "device twice": (BASE + "ip link add eth0 type dummy", 7, 13, "File exists", None),
    "name of a device": ("ip link add way-too-long-name type dummy", 1, 13, "cannot be the name", None),
    "MAC": ("ip link add d0 address 02:00 type dummy", 1, 24, "six bytes", None),
    "what to set": (BASE + "ip link set eth0 upp", 7, 18, "something to set", "up"),
    "on or off": (BASE + "ip link set eth0 arp yes", 7, 22, "on or off", None),
    "delete of an unknown device": (BASE + "ip link del eth7", 7, 13, "no device", "eth1"),
    "address": ("ip addr add 10.0.0.300/8 dev eth0", 1, 13, "10.0.0.300/8", None),
    "address without a device": ("ip addr add 10.0.0.1/8", 1, 24, "expected dev", None),
    "address that is there": (BASE + "ip addr add 192.0.2.1/24 dev eth0", 7, 13, "File exists", None),
    "address that is not there": (BASE + "ip addr del 192.0.2.9/24 dev eth0", 7, 13, "not found", None),
    "IPv6 broadcast": ("ip addr add fe80::1/64 brd + dev eth0", 1, 28, "IPv6 has no broadcast", None),
    "word behind an address": ("ip addr add 10.0.0.1/8 dve eth0", 1, 24, "one of dev, peer", "dev"),
    "inet without a device": ("    inet 10.0.0.1/8 scope global eth0", 1, 5, "device's name above", None),
    "neighbour without a device": (
        "ip neigh add 10.0.0.1 lladdr 02:00:00:00:00:01", 1, 48, "expected dev", None,
    ),
    "state of a neighbour": (
        BASE + "ip neigh add 192.0.2.2 dev eth0 nud reachible", 7, 37, "a state", "reachable",
    ),
    "neighbour that is there": (
        BASE + "ip neigh add 192.0.2.2 dev eth0\nip neigh add 192.0.2.2 dev eth0", 8, 14,
        "File exists", None,
    ),
    "socket without a port": ("listen udp 0.0.0.0", 1, 12, "an address and port", None),
    "port of a socket": ("listen udp 0.0.0.0:0", 1, 12, "between 1 and 65535", None),
    "option of a socket": ("listen udp 0.0.0.0:53 reuseprot", 1, 23, "reuseport", "reuseport"),
    "v6only of IPv4": ("listen udp 0.0.0.0:53 v6only", 1, 23, "IPv6 sockets", None),
    "reader": ("listen udp 0.0.0.0:53 reader slow", 1, 30, "fast, none or a rate", None),
    "peer of another family": ("listen udp 0.0.0.0:53 peer [::1]:5", 1, 28, "IPv4", None),
    "ss without a port": ("UNCONN 0 0 0.0.0.0 *:*", 1, 12, "a colon and a port", None),
    "group": ("join 10.0.0.1 dev lo", 1, 6, "no multicast group", None),
    "join without a device": ("join 239.1.1.1", 1, 16, "expected dev", None),
    "map to nothing": (BASE + "map one eth7", 7, 9, "no device is called 'eth7'", "eth1"),
    "switch": ("switch neighbors strict", 1, 8, "no switch", "neighbours"),
    "value of a switch": ("switch neighbours maybe", 1, 19, "one of assume, strict", None),
    "number of a table": ("table isp 100", 1, 7, "the number of a table", None),
    "name of a table": ("table 100 main", 1, 11, "table 254 is called 'main' already", None),
    "sysctl that is not of the network": ("kernel.pid_max = 1", 1, 1, "net.", None),
    "sysctl without a value": ("net.ipv4.ip_forward =", 1, 23, "expected a value", None),
    "sysctl without a sign": ("net.ipv4.ip_forward", 1, 21, "expected =", None),
    "sysctl that is no number": (
        "net.ipv4.conf.all.rp_filter = strict", 1, 31, "expected an integer", None,
    ),
    "sysctl out of range": ("net.ipv4.ip_default_ttl = 256", 1, 27, "between 1 and 255", None),
    "list of a sysctl": ("net.ipv6.icmp.ratemask = a-b", 1, 26, "0-1,3-127", None),
    "option of sysctl": ("sysctl --all", 1, 8, "-w", None),
    "quote": ('map "a eth0', 1, 5, "closing quote", None),
    "more words": ("join 239.1.1.1 dev lo now", 1, 23, "'now' is not known here", None),
    "column in a continued line": (
        "ip route add 10.0.0.0/8 \\\n  dve lo", 2, 3, "'dve' is not known", "dev",
    ),
    "column behind a tab": ("\tip\trulez", 1, 5, "expected route", "rule"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_what_is_wrong_is_named(name: str) -> None:
    text, line, column, part, near = ERRORS[name]
    with pytest.raises(HostErrors) as caught:
        parse_host(text, name="a.host")
    (problem,) = caught.value.problems
    assert (problem.line, problem.column, problem.nearest) == (line, column, near), str(problem)
    assert part in problem.expected and problem.file == "a.host"


def test_errors_show_the_line_and_a_caret() -> None:
    with pytest.raises(HostErrors) as caught:
        parse_host("ip route add 10.0.0.0/8 dve lo\nlisten udp 0.0.0.0:0\n", name="a.host")
    assert str(caught.value) == (
        "a.host:1:25: 'dve' is not known here; expected via, dev, table, metric, src, …; "
        "did you mean 'dev'?\n"
        "    ip route add 10.0.0.0/8 dve lo\n"
        "                            ^~~\n"
        "a.host:2:12: expected a port between 1 and 65535, not '0'\n"
        "    listen udp 0.0.0.0:0\n"
        "               ^~~~~~~~~"
    )


def test_all_errors_are_reported_in_order() -> None:
    wrong = [text for text, line, *_ in ERRORS.values() if line == 1 and "\n" not in text]
    with pytest.raises(HostErrors) as caught:
        parse_host("\n".join(wrong))
    assert [p.line for p in caught.value.problems] == list(range(1, len(wrong) + 1))


def test_a_wrong_device_line_does_not_make_its_users_wrong() -> None:
    with pytest.raises(HostErrors) as caught:
        parse_host("ip link add d0 type dumy\nip route add default dev d0\nmap one d0\n")
    assert [p.line for p in caught.value.problems] == [1]


WARNINGS = {
    "device of a rule": ("ip rule add pref 7 iif eht0 lookup 100", "no device is called 'eht0'", "eth0"),
    "device of a socket": ("listen udp 0.0.0.0:53 dev eht0", "no device is called 'eht0'", "eth0"),
    "device of a sysctl": ("net.ipv4.conf.eht0.rp_filter = 1", "no device is called 'eht0'", "eth0"),
    "name like a known one": (
        "net.ipv4.conf.all.rp_fliter = 1", "decides nothing", "net.ipv4.conf.all.rp_filter",
    ),
    "global name like a known one": (
        "net.ipv4.icmp_ratelimt = 1", "decides nothing", "net.ipv4.icmp_ratelimit",
    ),
    "type that is not followed": ("ip link add b0 type bond mode 1", "a bond is taken for", None),
}  # fmt: skip


@pytest.mark.parametrize("name", WARNINGS)
def test_what_is_doubtful_is_warned_of(name: str) -> None:
    line, part, near = WARNINGS[name]
    (warning,) = parse(BASE + line).warnings
    assert part in warning.expected and warning.nearest == near and warning.line == 7


def test_loading_warns(tmp_path: Path) -> None:
    line, part, _ = next(iter(WARNINGS.values()))
    path = tmp_path / "doubtful.host"
    path.write_text(BASE + line)
    with pytest.warns(HostWarning, match=re.escape(part)) as caught:
        load(path)
    assert len(caught) == 1 and str(caught[0].message).startswith(f"{path}:7:")


def test_sysctls_without_influence_are_taken() -> None:
    parsed = parse("net.ipv4.tcp_rmem = 4096 131072 6291456\nnet.netfilter.nf_conntrack_max = 5\n")
    assert not parsed.warnings
    assert parsed.host.sysctls["net.ipv4.tcp_rmem"] == "4096 131072 6291456"


# what `ip rule` prints (iproute2 6.1)
PRINTED_RULES = """\
5: from all tos 0x08 lookup 99
6: from all fwmark 0/0xff lookup 99
7: from 1.2.3.4 to 10.0.0.0/8 iif lo oif eth9 uidrange 5-6 sport 1-2 lookup main suppress_prefixlength 0
8: from all goto 9
9: not from 10.0.0.0/24 fwmark 0x10/0xff iif eth0 ipproto udp dport 53-60 lookup 100
10: from all unreachable
11: from all blackhole
12: from all lookup 99 suppress_ifgroup 3
32759: from all ipproto igmp lookup 99
32760: from all ipproto ipproto-253 lookup 99
32761: from all ipproto ipv6-icmp lookup 99
32762: from all ipproto ipv6 lookup 99
32763: from all ipproto ospf lookup 99
32764: from all ipproto sctp lookup 99
32765: from all ipproto udp dport 53 lookup 99
"""


@pytest.mark.parametrize("line", PRINTED_RULES.splitlines())
def test_rules_in_results_look_as_ip_prints_them(line: str) -> None:
    from ippath.netns import rule_text

    pref = int(line.partition(":")[0])
    (rule,) = [
        r for r in parse_host("ip link add eth0 type dummy\n" + line).rules if r.pref == pref
    ]
    assert rule_text(rule) == line


# --- printing and reading again -----------------------------------------------------------------------


def texts() -> dict[str, str]:
    """Hosts of the recorded scenarios and the demo."""
    found = {"demo": (ROOT / "demo" / "office.host").read_text()}
    for scenario in all_scenarios():
        text = scenario.host
        found[scenario.name] = text
        for number, step in enumerate(scenario.steps):
            if isinstance(step, Run):
                text += "\n".join(step.lines) + "\n"
                found[f"{scenario.name}, step {number}"] = text
    return found


def test_recorded_hosts_are_printed_as_they_are() -> None:
    different = []
    for name, text in texts().items():
        host = parse_host(text)
        if canonical(parse_host(render_host(host))) != canonical(host):
            different.append(name)
    assert not different


_DEVICES = st.sampled_from(["eth0", "eth1", "lab", "tun0", "lo"])
_IP4 = st.sampled_from(["10.0.0.1", "10.0.0.2", "10.1.0.1", "192.0.2.7", "127.0.0.5", "224.0.0.9"])
_IP6 = st.sampled_from(["2001:db8::1", "2001:db8::2", "2001:db8:1::1", "fe80::7", "fd00::3"])
_MACS = st.sampled_from(["02:00:00:00:00:01", "02:00:00:00:00:02", "33:33:00:00:00:01"])
_NUMBERS = st.sampled_from(["0", "1", "7", "100", "1280", "1400", "32766", "65535"])
_TABLES = st.sampled_from(["main", "local", "default", "100"])


def _some(*options: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Any of the options, each or not, in their order."""
    return st.tuples(*[st.just("") | option for option in options]).map(" ".join)


def _line(*parts: str | st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    made = [st.just(p) if isinstance(p, str) else p for p in parts]
    return st.tuples(*made).map(" ".join)


def _prefixes(family: int) -> st.SearchStrategy[str]:
    def cut(ip: str, plen: int) -> str:
        return str(ipaddress.ip_network(f"{ip}/{plen}", strict=False))

    if family == 4:
        return st.just("default") | st.builds(cut, _IP4, st.sampled_from([8, 16, 24, 25, 32]))
    return st.just("default") | st.builds(cut, _IP6, st.sampled_from([16, 48, 64, 128]))


def _routes(family: int) -> st.SearchStrategy[str]:
    gateway = _line("via", _IP4 if family == 4 else _IP6)
    hop = _some(gateway, _line("dev", _DEVICES), st.just("onlink"))
    hops = st.lists(
        _line("nexthop", hop, st.sampled_from(["", "weight 3"])), min_size=1, max_size=3
    )
    options = [
        _line("table", _TABLES), _line("metric", _NUMBERS), _line("proto", st.sampled_from(["static", "ra", "77"])),
        _line("scope", st.sampled_from(["link", "host", "global"])),
        _line("src", _IP4 if family == 4 else _IP6), _line("mtu", st.sampled_from(["1400", "lock 1300"])),
        _line("hoplimit", st.sampled_from(["5", "64"])), _line("tos", st.sampled_from(["0x10", "0x08"])),
    ]  # fmt: skip
    if family == 6:
        options += [
            _line("pref", st.sampled_from(["low", "medium", "high"])),
            _line("from", _prefixes(6)),
        ]
    return _line(
        "ip" if family == 4 else "ip -6", "route",
        st.sampled_from(["add", "add", "append", "prepend", "replace", "del"]),
        st.sampled_from(["", "", "", "unicast", "local", "blackhole", "prohibit", "throw", "multicast"]),
        _prefixes(family), hop | hops.map(" ".join), _some(*options),
    )  # fmt: skip


def _rules(family: int) -> st.SearchStrategy[str]:
    return _line(
        "ip" if family == 4 else "ip -6", "rule", st.sampled_from(["add", "add", "del"]),
        _some(
            st.just("not"), _line("from", _prefixes(family).filter("default".__ne__)),
            _line("to", _prefixes(family)), _line("pref", _NUMBERS), _line("iif", _DEVICES),
            _line("oif", _DEVICES), _line("fwmark", st.sampled_from(["0x10", "1/3", "0/7"])),
            _line("dscp", st.sampled_from(["EF", "0", "8"])), _line("tos", st.just("0x10")),
            _line("ipproto", st.sampled_from(["udp", "tcp", "99"])),
            _line("sport", st.sampled_from(["5", "5-9"])), _line("dport", st.just("53")),
            _line("uidrange", st.just("0-99")), _line("suppress_prefixlength", st.sampled_from("08")),
            _line("suppress_ifgroup", st.sampled_from("07")),
        ),
        st.sampled_from(["", "lookup 100", "lookup main", "prohibit", "nop", "goto 32766", "l3mdev"]),
    )  # fmt: skip


_VALID = st.one_of(
    _routes(4), _routes(6), _routes(4), _routes(6), _rules(4), _rules(6),
    _line("ip addr", st.sampled_from(["add", "add", "replace", "del"]), _IP4.map("{}/24".format),
          "dev", _DEVICES, _some(st.sampled_from(["brd +", "brd 10.0.0.77"]), st.just("metric 7"),
                                 st.just("noprefixroute"), st.just("scope link"))),
    _line("ip nexthop", st.sampled_from(["add", "add", "replace"]), st.sampled_from(["id 1", "id 2", "id 3", ""]),
          st.one_of(_line("via", _IP4, "dev", _DEVICES, _some(st.just("onlink"))), _line("dev", _DEVICES),
                    st.just("blackhole"), st.sampled_from(["group 1", "group 1/2", "group 2,3/1"]),
                    st.sampled_from(["group 1/2 type resilient buckets 5", "group 2/1,4 type resilient"]))),
    _line("ip nexthop del id", st.sampled_from("123")),
    _line("ip route", st.sampled_from(["add", "append"]), _prefixes(4), "nhid", st.sampled_from("1234"),
          _some(_line("metric", _NUMBERS), st.just("scope link"))),
    _line("ip addr add", _IP4, "peer", _IP4.map("{}/32".format), "dev", _DEVICES),
    _line("ip addr", st.sampled_from(["add", "add", "del"]), _IP6.map("{}/64".format), "dev", _DEVICES,
          _some(st.just("metric 7"), st.just("noprefixroute"), st.just("deprecated"))),
    _line("ip link set", _DEVICES, st.sampled_from(
        ["up", "down", "mtu 1400", "mtu 1000", "address 02:00:00:00:00:77", "arp off", "carrier off",
         "carrier on", "group 7"])),
    _line("ip link add", st.sampled_from(["x0", "x1"]), _some(_line("address", _MACS), _line("mtu", _NUMBERS)),
          st.sampled_from(["down", "up", ""]),
          "type", st.sampled_from(["dummy", "tun", "tap", "veth", "none", "bridge", "vrf table 9"])),
    st.just("ip link add link eth1 name v9 type vlan id 9 protocol 802.1ad"),
    _line("ip link del", st.sampled_from(["x0", "eth1", "lab"])),
    _line("ip neigh", st.sampled_from(["add", "replace", "del"]), _some(st.just("proxy")), _IP4 | _IP6,
          "dev", _DEVICES, _some(_line("lladdr", _MACS), _line("nud", st.sampled_from(["stale", "failed"])))),
    _line("listen", st.sampled_from(["udp", "udplite"]), st.sampled_from(["0.0.0.0:53", "[::]:53", "10.0.0.1:9"]),
          _some(_line("dev", _DEVICES), st.just("reuseport"), st.just("rcvbuf 5000"),
                st.sampled_from(["reader none", "reader 5/s"]))),
    _line("listen proto", st.sampled_from(["89", "89 inet", "47 inet6"])),
    _line("join", st.sampled_from(["239.9.9.9", "ff05::9", "224.0.0.1"]), "dev", _DEVICES),
    _line("map", st.sampled_from(["a", '"b c"', "'d\"e'", "\\x"]), _DEVICES),
    st.sampled_from(["switch neighbours strict", "switch receive_list 1"]),
    _line(st.sampled_from(["net.ipv4.ip_forward", "net.ipv4.conf.all.rp_filter", "net.ipv4.icmp_ratelimit",
                           "net.ipv4.conf.eth0.rp_filter", "net.ipv4.conf.all.accept_redirects"]),
          "=", st.sampled_from(["0", "1", "2"])),
    st.sampled_from(["net.ipv6.conf.all.forwarding = 1", "net.ipv6.conf.eth1.disable_ipv6 = 1",
                     "net.ipv6.conf.eth0.addr_gen_mode = 1", "net.core.rmem_default = 5000"]),
)  # fmt: skip
_START = """
ip link add eth0 address 02:00:00:00:00:01 type dummy
ip link add eth1 type veth
ip link add link eth0 name lab type vlan id 20
ip link add tun0 type tun
ip addr add 10.0.0.1/24 dev eth0
ip addr add 10.1.0.1/24 dev eth1
ip -6 addr add 2001:db8::1/64 dev eth0
"""


def without_wrong_lines(text: str) -> Host:
    """The host that the valid lines of a text make."""
    for _ in range(100):
        try:
            return parse_host(text)
        except HostErrors as errors:
            wrong = {p.line for p in errors.problems}
            lines = enumerate(text.split("\n"), 1)
            text = "\n".join(line for number, line in lines if number not in wrong)
    raise AssertionError("taking wrong lines away never ends")


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.lists(_VALID, max_size=12), st.booleans())
def test_any_host_is_printed_as_it_is(lines: list[str], devices_first: bool) -> None:
    start = _START if devices_first else "net.ipv6.conf.all.forwarding = 1\n" + _START
    host = without_wrong_lines(start + "\n".join(lines))
    printed = render_host(host)
    try:
        again = parse_host(printed)
    except HostErrors as errors:
        raise AssertionError(f"{printed}\n{errors}") from None
    assert canonical(again) == canonical(host), printed
    assert render_host(again) == printed


# --- any text ------------------------------------------------------------------------------------------

_WORDS = st.sampled_from(
    sorted({word for text, *_ in (*ERRORS.values(), *FORMS.values()) for word in text.split()})
    + IP_ADDR.split() + ["\\", "#", '"', "'", "=", "/", "[", "]", "::", "-1", "0x", "99999999999999999999"]
)  # fmt: skip
_SOUP = st.lists(st.lists(_WORDS, max_size=9).map(" ".join), max_size=12).map("\n".join)


LONG = {
    "digits of a port": "listen udp 0.0.0.0:" + "9" * 5000,
    "digits of a switch": "switch receive_list " + "9" * 5000,
    "digits of a metric": "ip route add default dev lo metric " + "9" * 5000,
    "digits of a length": "ip route add 10.0.0.0/" + "9" * 5000,
    "digits of a sysctl": "net.ipv4.ip_forward = " + "9" * 5000,
    "digits of a lifetime": "ip addr add 10.0.0.1/8 dev eth0 valid_lft " + "9" * 5000,
    "a word": "q" * 200_000,
    "a line": "ip route add " + "default " * 20_000,
    "lines": "ip rout ad defualt via\n" * 2_000,
    "quotes": '"' * 10_001,
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.timeout(60)
def test_long_nonsense_is_wrong(name: str) -> None:
    with pytest.raises(HostErrors):
        parse_host(LONG[name])


@settings(max_examples=200)
@given(
    st.one_of(_SOUP, st.text(), st.lists(_VALID | st.text(max_size=9), max_size=9).map(" ".join))
)
def test_any_text_is_a_host_or_wrong(text: str) -> None:
    try:
        host = parse_host(text)
    except HostErrors as errors:
        assert errors.problems and str(errors)
        lines = text.replace("\r\n", "\n").split("\n")
        for problem in errors.problems:
            assert 1 <= problem.line <= len(lines)
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 3
    else:
        render_host(host)


# --- loading ----------------------------------------------------------------------------------------------


def test_load_reads_host_files_and_snapshots(tmp_path: Path) -> None:
    path = tmp_path / "a.host"
    path.write_text(BASE)
    assert canonical(load(path)) == canonical(parse_host(BASE)) and load(path).source == str(path)
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    lo = '[{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP"],"link_type":"loopback","addr_info":[]}]'
    (snapshot / "addr.json").write_text(lo)
    single = tmp_path / "snapshot.json"
    single.write_text('{"addr": ' + lo + "}")
    assert (
        [d.name for d in load(snapshot).devices] == ["lo"] == [d.name for d in load(single).devices]
    )


SNAPSHOT = {
    "addr": [
        {"ifindex": 1, "ifname": "lo", "flags": ["LOOPBACK", "UP"], "mtu": 65536,
         "link_type": "loopback", "address": "00:00:00:00:00:00",
         "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8, "scope": "host",
                        "label": "lo"},
                       {"family": "inet6", "local": "::1", "prefixlen": 128, "scope": "host"}]},
        {"ifindex": 7, "ifname": "eth0", "flags": ["BROADCAST", "UP"], "mtu": 1400,
         "link_type": "ether", "address": "02:00:00:00:00:10",
         "addr_info": [{"family": "inet", "local": "192.0.2.1", "prefixlen": 24, "label": "eth0"}]},
    ],
    "route": [
        {"dst": "192.0.2.0/24", "dev": "eth0", "protocol": "kernel", "scope": "link",
         "prefsrc": "192.0.2.1"},
        {"dst": "default", "gateway": "192.0.2.9", "dev": "eth0", "protocol": "dhcp", "metric": 100},
        {"type": "local", "dst": "192.0.2.1", "dev": "eth0", "table": "local",
         "protocol": "kernel", "scope": "host", "prefsrc": "192.0.2.1"},
    ],
    "rule": [{"priority": 0, "src": "all", "table": "local"},
             {"priority": 50, "src": "all", "dst": "10.0.0.0", "dstlen": 8, "table": "100"},
             {"priority": 32766, "src": "all", "table": "main"}],
}  # fmt: skip


def test_a_snapshot_is_printed_as_a_host_file(tmp_path: Path) -> None:
    """The lines are those that differ from what the kernel does by itself."""
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(SNAPSHOT))
    host = load(path)
    printed = render_host(host)
    again = parse_host(printed)
    lines = set(printed.splitlines())
    assert lines > {
        "ip link add eth0 index 7 address 02:00:00:00:00:10 mtu 1400 type ether",
        "ip addr add 192.0.2.1/24 dev eth0",
        "net.ipv6.conf.eth0.addr_gen_mode = 1",  # it has no link-local address
        "ip route add default via 192.0.2.9 dev eth0 proto dhcp metric 100",
        "ip route del broadcast 192.0.2.255/32 dev eth0 table local proto kernel",
        "ip rule del pref 32767 lookup default",
        "ip rule add pref 50 to 10.0.0.0/8 lookup 100",
    }
    assert not any("192.0.2.0/24" in line for line in lines)
    have = {(r.family, r.table, r.prefix, r.plen, r.type) for r in host.routes}
    assert {(r.family, r.table, r.prefix, r.plen, r.type) for r in again.routes} == have
    assert sorted(r.pref for r in again.rules) == sorted(r.pref for r in host.rules)


def test_load_names_the_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    binary = tmp_path / "binary"
    binary.write_bytes(b"ip link\nab\xff")
    with pytest.raises(HostErrors) as caught:
        load(binary)
    assert str(caught.value) == f"{binary}:2:3: expected UTF-8 text\n    \n      ^"
    (tmp_path / "empty").mkdir()
    with pytest.raises(HostErrors, match="no addresses"):
        load(tmp_path / "empty")


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, ippath.config; assert not {'numpy', 'ippath.fib'} & sys.modules.keys();"
        "ippath.config.parse_host('ip link add d type dummy'); assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT / "src")})
