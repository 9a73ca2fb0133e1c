"""Random changes of routes, addresses, devices and rules, told to the running kernel and to ippath.

After each line both must have taken or refused it, for the same reason, and list the same routes:
`python -m tests.kernel.route_changes --minutes 5`; with `--record` the table CASES is asked and kept.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ippath.config.host_file import Script
from ippath.config.ip_nexthop import nexthop_line
from ippath.config.ip_route_get import reader_of
from ippath.config.printed_routes import read_selection, show
from ippath.verify.namespace import KernelError, in_child, kernel_version
from ippath.verify.on_ippath import PREPARED
from ippath.verify.on_kernel import Session
from ippath.verify.scenario import Scenario

HOST = """\
ip link add r0 type tun
ip link add r1 type tun
ip link add r2 type tun
ip addr add 10.0.0.1/24 dev r0
ip addr add 10.1.0.1/24 dev r1
ip addr add 2001:db8:0::1/64 dev r0
ip addr add 2001:db8:1::1/64 dev r1
ip addr add 2001:db8:9::1/128 dev lo
"""
LINES = 40  # told to one host
DEVICES = ("r0", "r0", "r1", "r1", "r2")
LISTED = (
    "nexthop", "route show table all", "-6 route show table all", "rule", "-6 rule",
)  # fmt: skip
_PREFIXES4 = ("77.0.0.0/8", "77.1.0.0/16", "77.1.2.0/24", "default", "10.0.0.0/16", "10.2.0.0/24")
_PREFIXES6 = ("2001:db8:77::/48", "2001:db8:77:1::/64", "default", "2001:db8:2::/64")


@dataclass
class Heard:
    """What became of one line."""

    error: str  # empty: done
    listed: list[str]  # the routes after it


class Changes:
    """Random lines from one seed."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.kinds: list[tuple[int, Callable[[], str]]] = [
            (60, self.route), (5, self.address), (4, self.link), (4, self.rule), (2, self.flush),
            (30, self.nexthop),
        ]  # fmt: skip

    def some(self, chance: float) -> bool:
        """True with this chance."""
        return self.random.random() < chance

    def line(self) -> str:
        """The next line."""
        weights = [weight for weight, _ in self.kinds]
        return self.random.choices([make for _, make in self.kinds], weights)[0]()

    def family(self) -> tuple[int, str]:
        """A family and how a line for it begins."""
        return self.random.choice(((4, "ip"), (6, "ip -6")))

    def gateway(self, family: int) -> str:
        """An address of a neighbour, or one that is none."""
        pick = self.random.choice
        if self.some(0.08):
            return pick(("10.0.0.1", "99.0.0.1") if family == 4 else ("2001:db8::1", "3000::1"))
        last = pick((2, 3))
        near = f"10.{pick((0, 1))}.0.{last}"
        return near if family == 4 else f"2001:db8:{pick((0, 1))}::{last}"

    def hop(self, family: int) -> str:
        """A single next hop."""
        words = []
        if self.some(0.7):
            words = ["via", self.gateway(family)]
            if family == 4 and self.some(0.1):
                words = ["via", "inet6", self.gateway(6)]
        if not words or self.some(0.5):
            words += ["dev", self.random.choice(DEVICES)]
            if self.some(0.1):
                words.append("onlink")
        return " ".join(words)

    def hops(self, family: int) -> str:
        """Several next hops."""
        pick = self.random.choice
        found = []
        for _ in range(pick((2, 2, 3))):
            hop = self.hop(family)
            if family == 6 and "via" not in hop and self.some(0.8):
                hop = f"via {self.gateway(6)}"
            found.append(f"nexthop {hop} weight {pick((1, 1, 3))}")
        return " ".join(found)

    def place(self, family: int, alone: bool) -> list[str]:
        """What makes up the place of a route, but for its prefix.

        `alone`: it stands beside no siblings.  Where such a route of IPv6 is between siblings, the
        kernel has it but does not list it (kernel: fib6_dump_node).
        """
        pick, words = self.random.choice, []
        if family == 6 and alone:
            words += ["metric", str(pick((6, 10, 1025)))]
        elif self.some(0.4):
            words += ["metric", str(pick((5, 9, 1024)))]
        if family == 4 and self.some(0.15):
            words += ["tos", pick(("0x10", "0x08"))]
        if self.some(0.15):
            words += ["table", pick(("100", "local"))]
        if family == 6 and self.some(0.15):
            words += ["from", pick(("2001:db8::/64", "2001:db8::/48"))]
        return words

    def route(self) -> str:
        """A change of one route."""
        pick = self.random.choice
        family, ip = self.family()
        verb = pick(("add", "add", "add", "append", "append", "prepend", "replace", "replace",
                     "change", "del", "del", "del"))  # fmt: skip
        prefix = pick(_PREFIXES4 if family == 4 else _PREFIXES6)
        kind = (
            pick(("unreachable", "prohibit", "blackhole", "throw", "local", "broadcast"))
            if self.some(0.15)
            else ""
        )
        words = [ip, "route", verb, kind, prefix]
        several = ""
        if verb == "del" and self.some(0.5):
            pass
        elif kind in ("", "local", "broadcast"):
            if self.some(0.25):
                several = self.hops(family)
            else:
                words.append(self.hop(family))
        alone = verb != "del" and "via" not in f"{words} {several}"
        words += self.place(family, alone)
        if self.some(0.1):  # of IPv6, only one that never goes: see docs/differences.md
            words += ["src", pick(("10.0.0.1", "10.1.0.1", "9.9.9.9") if family == 4 else
                                  ("2001:db8:9::1", "3000::9"))]  # fmt: skip
        if verb != "del" and self.some(0.1):
            words += ["mtu", "1400"]
        if self.some(0.1):
            words += ["proto", pick(("static", "bgp"))]
        if family == 4 and self.some(0.05):
            words += ["scope", pick(("link", "host", "global"))]
        return " ".join(filter(None, [*words, several]))

    def by_nexthop(self, ip: str, verb: str, family: int) -> str:
        """A change of one route that goes by an object."""
        pick = self.random.choice
        prefix = pick(_PREFIXES4 if family == 4 else _PREFIXES6)
        kind = pick(("blackhole", "local")) if self.some(0.06) else ""
        words = [ip, "route", verb, kind, prefix, "nhid", str(pick(range(1, 8)))]
        return " ".join(filter(None, [*words, *self.place(family, True)]))

    def nexthop(self) -> str:
        """An object comes, goes or changes."""
        pick = self.random.choice
        number = pick(range(1, 8))
        verb = pick(("add", "add", "add", "replace", "replace", "del"))
        if verb == "del":
            return f"ip nexthop del id {number}"
        family, ip = self.family()
        kind = self.random.random()
        if kind < 0.08:
            what = "blackhole"
        elif kind < 0.4:
            members = self.random.sample(range(1, 8), pick((1, 2, 2, 3)))
            what = "group " + "/".join(f"{n},{pick((1, 3))}" for n in members)
            ip = "ip"
            if self.some(0.4):
                what += f" type resilient{pick(('', ' buckets 8', ' buckets 8', ' buckets 16'))}"
        elif kind < 0.5:
            what = f"dev {pick(DEVICES)}"
        else:
            what = f"via {self.gateway(family)} dev {pick(DEVICES)}"
            if self.some(0.1):
                what += " onlink"
        return f"{ip} nexthop {verb} id {number} {what}"

    def address(self) -> str:
        """An address comes or goes."""
        pick = self.random.choice
        verb = pick(("add", "del"))
        if self.some(0.5):
            k = pick((0, 1, 2))
            return f"ip addr {verb} 10.{k}.0.{pick((1, 1, 8))}/24 dev r{k}"
        k = pick((0, 1, 2))
        return f"ip addr {verb} 2001:db8:{k}::{pick((1, 1, 8))}/64 dev r{k}"

    def link(self) -> str:
        """A device goes down or comes up."""
        return (
            f"ip link set {self.random.choice(DEVICES)} {self.random.choice(('down', 'up', 'up'))}"
        )

    def rule(self) -> str:
        """A rule comes or goes."""
        _, ip = self.family()
        verb = self.random.choice(("add", "del"))
        return f"{ip} rule {verb} pref {self.random.choice((100, 101))} iif r0 lookup 100"

    def flush(self) -> str:
        """Routes go by their table or device."""
        _, ip = self.family()
        return f"{ip} route flush {self.random.choice(('table 100', 'dev r1', 'proto static'))}"


# what random lines found, made short: the kernel's answer to the last line is recorded
CASES = """\
ip route add 77.0.0.0/8 dev r0 metric 9; ip route add 77.0.0.0/8 dev r1 metric 5; ip route del 77.0.0.0/8
ip route add 77.0.0.0/8 dev r0; ip route append 77.0.0.0/8 dev r1; ip route prepend 77.0.0.0/8 via 10.0.0.2
ip route add 77.0.0.0/8 dev r0; ip route append 77.0.0.0/8 dev r1; ip route replace 77.0.0.0/8 dev r1
ip route add 77.0.0.0/8 dev r0; ip route append 77.0.0.0/8 dev r1; ip route replace 77.0.0.0/8 dev r0
ip route add 77.0.0.0/8 dev r0; ip route append 77.0.0.0/8 dev r0 mtu 1400
ip route add 77.0.0.0/8 dev r0; ip route append 77.0.0.0/8 dev r0 proto bgp
ip route add 77.0.0.0/8 dev r0; ip route append 77.0.0.0/8 dev r0
ip route add 77.0.0.0/8 dev r0; ip route add 77.0.0.0/8 dev r0 tos 0x10
ip route add 77.0.0.0/8 dev r0 tos 0x10; ip route del 77.0.0.0/8
ip route change 77.0.0.0/8 dev r0
ip route replace 77.0.0.0/8 dev r0
ip route add 77.0.0.0/8 dev r0 metric 5; ip route change 77.0.0.0/8 dev r1
ip route add 77.0.0.0/8 dev r0; ip route del 77.0.0.0/8 nexthop dev r0 nexthop via 10.1.0.2
ip route add 77.0.0.0/8 nexthop dev r0 nexthop dev r1; ip route del 77.0.0.0/8 nexthop dev r0
ip route add 77.0.0.0/8 nexthop dev r0 nexthop dev r1; ip route del 77.0.0.0/8 dev r0
ip route add 77.0.0.0/8 nexthop dev r0 nexthop dev r1; ip route del 77.0.0.0/8 dev r1
ip route add 77.0.0.0/8 nexthop dev r0 nexthop dev r1; ip route flush dev r1
ip route add throw 77.0.0.0/8; ip route del 77.0.0.0/8 nexthop dev r0 nexthop dev r1
ip route add throw 77.0.0.0/8; ip route del 77.0.0.0/8 mtu 1400
ip route add local 77.0.0.0/8 dev r0; ip route del local 77.0.0.0/8 scope link
ip route add local 77.0.0.0/8 via 10.0.0.2 dev r0 scope global
ip route add local 77.0.0.0/8 nexthop dev r0 nexthop dev r1
ip route add 77.0.0.0/8 dev r0 onlink
ip route add local 77.0.0.0/8 dev r0 onlink
ip route add 77.0.0.0/8 via 10.0.0.1 dev r0 onlink
ip route add 77.0.0.0/8 via 10.0.0.1 scope link
ip route add local 10.0.0.0/16 dev r1; ip route add 77.0.0.0/8 via 10.0.0.9 dev r0 onlink
ip rule add pref 9 iif r0 lookup 100; ip route add local 10.0.0.0/16 dev r1; ip route add 77.0.0.0/8 via 10.0.0.9 dev r0 onlink
ip route add blackhole default; ip route add 77.0.0.0/8 via 99.0.0.9 dev r0 onlink
ip route add local default dev r2 tos 0x08; ip route add 77.0.0.0/8 via 99.0.0.9 dev r0 onlink
ip route add prohibit 77.0.0.0/8 src 9.9.9.9
ip route add default via inet6 2001:db8::3
ip route append default via inet6 2001:db8::3 tos 0x08
ip route add 77.0.0.0/8 via 10.0.0.2 dev r0; ip addr del 10.0.0.1/24 dev r0
ip addr add 10.0.0.8/24 dev r0; ip route add 77.0.0.0/8 dev r1 src 10.0.0.8; ip route add throw 77.0.0.0/9 table local src 10.0.0.8; ip addr del 10.0.0.8/24 dev r0
ip link set r0 down; ip route add local 77.0.0.0/8 dev r0
ip link set r0 down; ip route add 77.0.0.0/8 dev r0
ip route add 77.0.0.0/8 nexthop dev r0 nexthop dev r1; ip link del r1
ip -6 route add 3000::/16 nexthop via 2001:db8::2 nexthop via 2001:db8:1::2; ip link del r1
ip nexthop add id 1 dev r0; ip nexthop add id 2 dev r1; ip nexthop add id 3 group 1/2; ip route add 77.0.0.0/8 nhid 3; ip link del r1
ip route add 77.0.0.0/8 nexthop dev r0 nexthop dev r1; ip link set r0 down
ip route add 77.0.0.0/8 nexthop dev r0 nexthop dev r1; ip link set r0 down; ip link set r1 down
ip route add 77.0.0.0/8 nexthop dev r0 nexthop dev r1; ip link set r0 down; ip link set r0 up
ip -6 route add 3000::/16 dev r0; ip -6 route append 3000::/16 dev r1; ip -6 route replace 3000::/16 dev r0 metric 1024
ip -6 route add 3000::/16 via 2001:db8::2; ip -6 route append 3000::/16 via 2001:db8:1::2; ip -6 route replace 3000::/16 via 2001:db8::3
ip -6 route add 3000::/16 dev r0; ip -6 route append 3000::/16 via 2001:db8::2; ip -6 route replace 3000::/16 via 2001:db8::3
ip -6 route add 3000::/16 via 2001:db8::2; ip -6 route replace 3000::/16 dev r1
ip -6 route add 3000::/16 via 2001:db8::2; ip -6 route append 3000::/16 via 2001:db8::2 proto bgp
ip -6 route add unreachable 3000::/16; ip -6 route append blackhole 3000::/16
ip -6 route add 3000::/16 nexthop via 2001:db8::2 nexthop dev r1
ip -6 route add 3000::/16 nexthop via 2001:db8::2 nexthop via 2001:db8::2 dev r0
ip -6 route add 3000::/16 via 2001:db8:1::2; ip -6 route append 3000::/16 nexthop via 2001:db8::2 nexthop via 2001:db8:1::2
ip -6 route add 3000::/16 nexthop via 2001:db8::2 nexthop via 2001:db8:1::2; ip -6 route del 3000::/16 via 2001:db8::2
ip -6 route add 3000::/16 nexthop via 2001:db8::2 nexthop via 2001:db8:1::2; ip -6 route del 3000::/16 dev r1
ip -6 route add 3000::/16 nexthop via 2001:db8::2 nexthop via 2001:db8:1::2; ip -6 route del 3000::/16 nexthop dev r1 nexthop via 2001:db8::9
ip -6 route add 3000::/16 via 2001:db8::2; ip -6 route del 3000::/16 from 2001:db8::/48
ip -6 route add 3000::/16 from 2001:db8::/48 dev r0; ip -6 route del 3000::/16
ip -6 route add 3000::/16 from 2001:db8::/48 dev r0; ip -6 route del 3000::/16 from 2001:db8::/64
ip -6 route add 3000::/16 via 2001:db8::2; ip -6 route del blackhole 3000::/16 src 2001:db8::9 mtu 1400
ip -6 route add 3000::/16 via 2001:db8::2 metric 5; ip -6 route del 3000::/16 metric 6
ip -6 route change 3000::/16 dev r0
ip -6 route add 3000::/16 via 2001:db8:1::3 dev r0 onlink
ip -6 route add 3000::/16 via 4000::3 dev r0 onlink
ip -6 route add throw default metric 5; ip -6 route add default dev r0; ip -6 route add 3000::/16 via 2001:db8:1::3 dev r0
ip -6 route add default dev r1 table local; ip -6 route add 3000::/16 via 2001:db8::3 dev r1
ip -6 route add 3000::/16 nexthop via 2001:db8::2 nexthop via 2001:db8:1::2; ip link set r1 down
ip -6 route add 3000::/16 nexthop via 2001:db8::2 nexthop via 2001:db8:1::2; ip link set r1 down; ip link set r1 up
ip -6 route add 3000::/16 nexthop via 2001:db8::2 nexthop via 2001:db8:1::2; ip link set r1 down; ip link set r0 down
ip link set r0 down; ip addr add 2001:db8:5::1/64 dev r0
ip link set r0 down; ip addr add 2001:db8:5::1/64 dev r0; ip link set r0 up
ip link set r0 down; ip -6 route add local 3000::/16 dev r0
ip nexthop add id 1 via 10.0.0.2 dev r0; ip nexthop add id 2 dev r1; ip nexthop add id 5 group 1,3/2; ip route add 77.0.0.0/8 nhid 5
ip nexthop add id 1 via 2001:db8::2 dev r0; ip route add 77.0.0.0/8 nhid 1; ip -6 route add 3000::/16 nhid 1
ip nexthop add id 1 blackhole; ip route add 77.0.0.0/8 nhid 1; ip -6 route add 3000::/16 nhid 1
ip -6 nexthop add id 1 blackhole; ip nexthop add id 2 group 1; ip -6 route add 3000::/16 nhid 2
ip nexthop add id 1 dev r0; ip route add blackhole 77.0.0.0/8 nhid 1; ip route add local 78.0.0.0/8 nhid 1; ip nexthop del id 1
ip nexthop add id 1 via 10.0.0.2 dev r0; ip route add local 78.0.0.0/8 nhid 1
ip nexthop add id 1 via 99.0.0.2 dev r0 onlink; ip route add 78.0.0.0/8 nhid 1 scope link
ip -6 nexthop add id 1 dev r0; ip -6 route add 3000::/16 from 2001:db8::/64 nhid 1
ip nexthop add id 1 dev r0; ip route add 77.0.0.0/8 nhid 1 dev r0
ip nexthop add dev r0; ip nexthop add id 3 dev r0; ip nexthop add dev r1; ip nexthop add dev r1
ip nexthop add id 1 dev r0; ip nexthop add id 1 dev r1
ip nexthop add id 1 dev r0; ip route add 77.0.0.0/8 nhid 1; ip nexthop replace id 1 via 10.1.0.2 dev r1
ip -6 nexthop add id 1 dev r0; ip -6 route add 3000::/16 nhid 1; ip nexthop replace id 1 via 10.1.0.2 dev r1
ip nexthop add id 1 dev r0; ip nexthop add id 2 dev r1; ip nexthop add id 5 group 1/2; ip route add 77.0.0.0/8 nhid 5; ip nexthop replace id 2 via 10.0.0.9 dev r0
ip nexthop add id 1 dev r0; ip nexthop add id 2 dev r1; ip nexthop add id 5 group 1/2; ip nexthop replace id 2 blackhole
ip nexthop add id 1 dev r0; ip nexthop add id 2 dev r1; ip nexthop add id 5 group 1/2; ip nexthop add id 6 group 5
ip nexthop add id 1 dev r0; ip nexthop add id 2 dev r1; ip nexthop add id 5 group 1/2; ip nexthop replace id 5 dev r0
ip nexthop add id 1 dev r0; ip nexthop add id 2 dev r1; ip nexthop replace id 1 group 2
ip nexthop add id 1 dev r0; ip nexthop add id 5 group 1 type resilient
ip nexthop add id 1 dev r0; ip nexthop add id 5 group 1 type resilient buckets 4; ip nexthop replace id 5 group 1
ip nexthop add id 1 dev r0; ip nexthop add id 5 group 1 type resilient buckets 4 idle_timer 7; ip nexthop replace id 5 group 1,3 type resilient unbalanced_timer 9
ip nexthop add id 1 dev r0; ip nexthop add id 5 group 1 type resilient buckets 8; ip nexthop replace id 5 group 1 type resilient buckets 16
ip nexthop add id 1 dev r0; ip nexthop add id 2 dev r1; ip nexthop add id 5 group 1/2; ip route add 77.0.0.0/8 nhid 5; ip nexthop del id 1
ip nexthop add id 1 dev r0; ip nexthop add id 5 group 1; ip route add 77.0.0.0/8 nhid 5; ip nexthop del id 1
ip nexthop add id 1 dev r0; ip nexthop add id 2 dev r1; ip nexthop add id 5 group 1/2; ip route add 77.0.0.0/8 nhid 5; ip link set r1 down
ip -6 nexthop add id 1 dev r0; ip -6 nexthop add id 2 dev r1; ip nexthop add id 5 group 1/2; ip -6 route add 3000::/16 nhid 5; ip link set r1 down; ip link set r1 up
ip nexthop add id 1 dev r0; ip nexthop add id 2 dev r1; ip nexthop add id 5 group 1/2; ip route add 77.0.0.0/8 nhid 5; ip link set r1 carrier off
ip link set r1 down; ip nexthop add id 1 dev r1
ip link set r1 carrier off; ip nexthop add id 1 dev r1
ip nexthop add id 1 via 99.0.0.2 dev r0
ip nexthop add id 1 dev r0 onlink
ip nexthop add id 1 via 10.0.0.2
ip nexthop add id 1 via 10.0.0.2 fdb; ip route add 77.0.0.0/8 nhid 1
ip nexthop add id 1 via 10.0.0.2 fdb; ip nexthop add id 2 group 1
ip nexthop add id 1 dev r0; ip nexthop add id 2 group 1 fdb
ip nexthop add id 1 group 2/2
ip nexthop add id 1 group 2
ip nexthop del id 1
ip -6 nexthop add id 1 via 2001:db8::2 dev r0; ip -6 route add 3000::/16 nhid 1; ip -6 route append 3000::/16 via 2001:db8::2
ip -6 nexthop add id 1 via 2001:db8::2 dev r0; ip -6 route add 3000::/16 nhid 1; ip -6 route append 3000::/16 nhid 1
ip nexthop add id 1 dev r0; ip route add 77.0.0.0/8 nhid 1; ip route append 77.0.0.0/8 dev r0 scope global; ip route del 77.0.0.0/8 dev r0
ip nexthop add id 1 dev r0; ip route add 77.0.0.0/8 nhid 1; ip route del 77.0.0.0/8 nhid 2
ip -6 nexthop add id 1 dev r0; ip -6 route add 3000::/16 nhid 1; ip -6 route del 3000::/16 dev r1
ip rule add pref 32766 lookup main
ip rule add lookup main
ip rule add lookup 77; ip rule add lookup 77
ip rule add pref 9 lookup 77; ip rule add pref 9 lookup 77
ip -6 rule add lookup 77; ip -6 rule add lookup 78; ip -6 rule add pref 9 lookup 77
ip -6 route add local default via 2001:db8::3; ip -6 nexthop add id 4 via 2001:db8:1::3 dev r1
ip nexthop add id 1 dev r0; ip nexthop add id 2 dev r0 proto bgp; ip nexthop add id 5 group 1/2; ip nexthop flush proto 186
""".splitlines()
ANSWERS = Path(__file__).parent / "route_changes.json"


# --- asking -------------------------------------------------------------------------------------------


def _ip(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], text=True, capture_output=True)


def told_kernel(host: str, lines: list[str], listed: tuple[str, ...] = LISTED) -> list[Heard]:
    """Tell the running kernel; raises KernelError if the host can't be made."""

    def tell() -> list[Heard]:
        session = Session(Scenario("changes", "routes", host, ()), Path(), False)
        session.make_host()
        heard = []
        for line in lines:
            words = line.split()[1:]
            if "addr" in words and "add" in words and ":" in line:
                words.append("nodad")
            if words[-2:-1] == ["carrier"]:
                session.ip_line(line.split())
                error = ""
            else:
                error = _ip(words).stderr.strip()
                if "addr" in words and ":" in line:
                    time.sleep(0.03)  # routes of IPv6 addresses come a little later
            heard.append(Heard(error, [_ip(shown.split()).stdout for shown in listed]))
        return heard

    return in_child(tell)


def _listing(script: Script, command: str) -> str:
    words = command.split()
    family = 6 if words[0] == "-6" else None
    if "nexthop" in words:
        return "".join(f"{nexthop_line(one)}\n" for one in script.host.nexthops.values())
    if "rule" in words:
        from ippath.netns import rule_text

        rules = sorted((r for r in script.host.rules if r.family == (family or 4)),
                       key=lambda r: r.pref)  # fmt: skip
        return "".join(f"{rule_text(rule)}\n" for rule in rules)
    chosen = read_selection(script.host, reader_of(words[words.index("show") + 1 :]), family)
    return show(chosen.of(script.host), chosen.known)


def told_ippath(host: str, lines: list[str], listed: tuple[str, ...] = LISTED) -> list[Heard]:
    """The same to ippath."""
    script, heard = Script(PREPARED + host), []
    for line in lines:
        error = script.run(line)
        heard.append(Heard(error, [_listing(script, shown) for shown in listed]))
    return heard


def _compact(text: str) -> list[str]:
    text = re.sub(r"unbalanced_time [0-9.]+", "", text)  # how long, by the clock
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def difference(lines: list[str], theirs: list[Heard], ours: list[Heard]) -> str:
    """In words the first line after which the two are not equal; empty if there is none."""
    for k, (kernel, ippath) in enumerate(zip(theirs, ours)):
        if bool(kernel.error) != bool(ippath.error) and " flush " not in lines[k]:
            return f"{k}: {lines[k]}\n  kernel {kernel.error or 'does it'}\n  ippath {ippath.error or 'does it'}"
        for listed, mine in zip(kernel.listed, ippath.listed):
            one, other = _compact(listed), _compact(mine)
            if one != other:
                lost = [f"  kernel {text}" for text in one if text not in other]
                more = [f"  ippath {text}" for text in other if text not in one]
                return "\n".join(
                    [
                        f"{k}: {lines[k]} {kernel.error}",
                        *(lost + more or ["  the order", *one, "  /", *other]),
                    ]
                )
    return ""


def lines_of(case: str) -> list[str]:
    """The lines of one of the CASES."""
    return [line.strip() for line in case.split(";")]


def record() -> None:
    """Ask the kernel about CASES: why the last line was refused, and what is listed then."""
    told = {}
    for case in CASES:
        last = told_kernel(HOST, lines_of(case))[-1]
        told[case] = {"error": last.error, "listed": last.listed}
    ANSWERS.write_text(json.dumps({"kernel": kernel_version(), "cases": told}, indent=1) + "\n")
    print(f"{len(told)} cases recorded")


def recorded() -> dict[str, Heard]:
    """What became of the last line of each of the CASES."""
    return {case: Heard(**told) for case, told in json.loads(ANSWERS.read_text())["cases"].items()}


def shrunk(host: str, lines: list[str]) -> list[str]:
    """The fewest lines that still differ."""
    at = 0
    while at < len(lines):
        fewer = lines[:at] + lines[at + 1 :]
        if difference(fewer, told_kernel(host, fewer), told_ippath(host, fewer)):
            lines = fewer
        else:
            at += 1
    return lines


def run(minutes: float, seed: int, most: int = 5) -> int:
    """Tell random lines for some minutes; print the differences; how many hosts differed."""
    end, told, differed, made = time.monotonic() + 60 * minutes, 0, 0, 0
    while time.monotonic() < end and differed < most:
        changes = Changes(seed * 100_003 + made)
        made += 1
        lines = [changes.line() for _ in range(LINES)]
        theirs, ours = told_kernel(HOST, lines), told_ippath(HOST, lines)
        told += len(lines)
        if found := difference(lines, theirs, ours):
            differed += 1
            lines = shrunk(HOST, lines[: int(found.split(":")[0]) + 1])
            found = difference(lines, told_kernel(HOST, lines), told_ippath(HOST, lines))
            print("\n".join(lines) + "\n" + found + "\n", flush=True)
    print(f"seed {seed}: {told} lines told to {made} hosts, {differed} differed")
    return differed


def main() -> int:
    """Tell random lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=5, help="stop after so many hosts that differ")
    parser.add_argument(
        "--record", action="store_true", help="ask about the table, keep the answers"
    )
    given = parser.parse_args()
    if given.record:
        record()
        return 0
    seed = given.seed or random.randrange(1, 1 << 20)
    try:
        return int(bool(run(given.minutes, seed, given.most)))
    except KernelError as problem:
        print(problem, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
