"""Whether receive lists get hints while routes and rules change, asked of the kernel and of ippath.

The kernel keeps a count of source-specific IPv6 routes, and remembers custom rules; while there is
one, hints are off.  The count shows in the look-ups that it traces: with a hint one packet of a list is
looked up, without one each.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

from ippath.batch import PacketBatch
from ippath.config.host_file import Script
from ippath.netns import Netns
from ippath.verify.namespace import NapiThreads, in_child, trace_instance
from ippath.verify.on_ippath import PREPARED
from ippath.verify.on_kernel import Session
from ippath.verify.packets import ip4, ip6
from ippath.verify.scenario import Scenario, Together
from tests.kernel.route_changes import HOST

ROUTER = (
    HOST
    + """\
ip addr add 2001:db8:2::1/64 dev r2
net.ipv4.ip_forward = 1
net.ipv6.conf.all.forwarding = 1
net.ipv4.icmp_msgs_per_sec = 100000
net.ipv4.conf.all.send_redirects = 0
"""
)
PACKETS = 4
THERE4, THERE6 = "10.1.0.99", "2001:db8:1::99"
_LISTS = {
    4: {f"{k}": ip4(f"10.0.0.{k + 2}", THERE4) for k in range(PACKETS)},
    6: {f"{k}": ip6(f"2001:db8::{k + 2}", THERE6) for k in range(PACKETS)},
}
_EVENTS = ("events/fib/fib_table_lookup", "events/fib6/fib6_table_lookup")
_LOOKED_UP = {
    4: re.compile(rf"fib_table_lookup: table 25[45] .* -> {THERE4}/"),
    6: re.compile(rf"fib6_table_lookup: table 254 .* -> {THERE6}/"),
}
Hinted = tuple[bool, bool]  # IPv4, IPv6


@contextlib.contextmanager
def _traced() -> Iterator[int]:
    """A pipe of the look-ups in this machine's tables."""
    with trace_instance() as folder:
        for event in _EVENTS:
            (folder / event / "enable").write_text("1")
        pipe = os.open(folder / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        try:
            yield pipe
        finally:
            os.close(pipe)
            for event in _EVENTS:
                (folder / event / "enable").write_text("0")


def _read(pipe: int) -> str:
    text = b""
    with contextlib.suppress(BlockingIOError):
        while part := os.read(pipe, 1 << 16):
            text += part
    return text.decode(errors="replace")


def told_kernel(lines: list[str]) -> list[Hinted]:
    """Whether lists are hinted after each line (that the kernel may refuse), in the running kernel."""

    def tell() -> list[Hinted]:
        with _traced() as pipe:
            step = Together("r0", _LISTS[4])  # the devices get threads
            session = Session(Scenario("guards", "hints", ROUTER, (step,)), Path(), False)
            session.make_host()
            threads = NapiThreads(list(session.wires))
            return [_ask(session, threads, pipe, line) for line in lines]

    return in_child(tell)


def _ask(session: Session, threads: NapiThreads, pipe: int, line: str) -> Hinted:
    os.system(f"{line} >/dev/null 2>&1")
    time.sleep(0.02)
    found = []
    for family in (4, 6):
        _read(pipe)
        with threads.held_up():
            for packet in _LISTS[family].values():
                os.write(session.wires["r0"], packet)
        found.append(len(_LOOKED_UP[family].findall(_read(pipe))) < PACKETS)
    return found[0], found[1]


def told_ippath(lines: list[str]) -> list[Hinted]:
    """The same of ippath."""
    script, found = Script(PREPARED + ROUTER), []
    netns = Netns(script.host)
    for line in lines:
        script.run(line)
        if " route " in line:
            netns.routes_changed()
        else:
            netns.change(script.host)
        hinted = []
        for family in (4, 6):
            batch = PacketBatch.from_packets(list(_LISTS[family].values()))
            batch.device[:] = netns.device_row("r0")
            hinted.append(bool(netns.receive(batch, lists=True).hinted.any()))
        found.append((hinted[0], hinted[1]))
    return found


# lines, and whether IPv4 and IPv6 lists are hinted after the last
CASES: dict[str, Hinted] = {
    "ip rule": (True, True),
    # a rule that is there already: the kernel's own is another one
    "ip rule add pref 32766 lookup main": (False, True),
    "ip -6 rule add pref 32766 lookup main": (True, False),
    # refused before anything is changed
    "ip rule add pref 9 tos 0x01 lookup main": (True, True),
    "ip rule del pref 77": (True, True),
    "ip rule add pref 9 goto 5": (True, True),
    "ip -6 rule add pref 9 goto 5": (True, True),
    "ip -6 rule del pref 77": (True, True),
    # once custom, always custom; deleting a default rule counts for IPv4 alone
    "ip rule add pref 9 lookup 100; ip rule del pref 9": (False, True),
    "ip -6 rule add pref 9 lookup 100; ip -6 rule del pref 9": (True, False),
    "ip rule del pref 32767": (False, True),
    "ip rule flush": (False, True),
    "ip -6 rule flush": (True, True),
    "ip rule add pref 9 goto 99999": (False, True),
    "ip rule add pref 1000 l3mdev": (False, True),
    "ip -6 rule add pref 1000 l3mdev": (True, False),
    # routes with a source, in any table
    "ip -6 route add unreachable 3000::/16 from 2001:db8:5::/64 table 100": (True, False),
    "ip -6 route add unreachable 3000::/16 from 2001:db8:5::/64 table 100;"
    " ip -6 route flush table 100": (True, True),
    "ip -6 route add 3000::/16 from 2001:db8:5::/64 dev r2; ip link set r2 down": (True, True),
    "ip tuntap add d0 mode tun; ip link set d0 up;"
    " ip -6 route add 3000::/16 from 2001:db8:5::/64 dev d0": (True, False),
    "ip tuntap add d0 mode tun; ip link set d0 up;"
    " ip -6 route add 3000::/16 from 2001:db8:5::/64 dev d0; ip link del d0": (True, True),
    # half-way: what was added before the failure goes again
    "ip -6 route add 3000::/16 from 2001:db8:5::/64 nexthop via 2001:db8:1::2 nexthop via 3001::1": (
        True, True,
    ),
    "ip -6 route add 3000::/16 from 2001:db8:5::/64 via 2001:db8:1::2;"
    " ip -6 route append 3000::/16 from 2001:db8:5::/64 nexthop via 2001:db8:2::2"
    " nexthop via 2001:db8:1::2": (True, False),
    "ip -6 route add 3000::/16 from 2001:db8:5::/64 via 2001:db8:1::2;"
    " ip -6 route append 3000::/16 from 2001:db8:5::/64 nexthop via 2001:db8:2::2"
    " nexthop via 2001:db8:1::2; ip -6 route del 3000::/16 from 2001:db8:5::/64 via 2001:db8:1::2": (
        True, True,
    ),
    # several next hops: the last that goes takes the route along
    "ip -6 route add 3000::/16 from 2001:db8:5::/64 nexthop via 2001:db8:1::2"
    " nexthop via 2001:db8:2::2; ip link set r2 down": (True, False),
    "ip -6 route add 3000::/16 from 2001:db8:5::/64 nexthop via 2001:db8:2::3"
    " nexthop via 2001:db8:2::2; ip link set r2 down": (True, True),
    "ip -6 route add 3000::/16 from 2001:db8:5::/64 nexthop via 2001:db8:2::3"
    " nexthop via 2001:db8:2::2; ip link set r2 mtu 1000": (True, True),
    "ip -6 nexthop add id 1 dev r1; ip -6 route add 3000::/16 from 2001:db8:5::/64 nhid 1": (
        True, True,
    ),
}  # fmt: skip


# --- random lines ---------------------------------------------------------------------------------------

_SOURCES = ("from 2001:db8:5::/64", "from 2001:db8:5::/48", "from 2001:db8:5::/64", "")
_PLACES = ("2001:db8:77::/48", "2001:db8:78::/48", "default")
_WAYS = (
    "dev r1",
    "dev r2",
    "via 2001:db8:1::2",
    "via 2001:db8:2::2",
    "via 2001:db8:2::3",
    "nhid 1",
)


def lines_of(seed: int, count: int = 30) -> list[str]:
    """Random changes of source-specific routes, many of which fail, some half-way."""
    chance = random.Random(seed)
    pick = chance.choice
    found = ["ip -6 nexthop add id 1 dev r1"]
    while len(found) < count:
        kind = chance.random()
        place = f"{pick(_PLACES)} {pick(_SOURCES)} {pick(('', '', 'table 100'))}"
        if kind < 0.4:
            found.append(f"ip -6 route {pick(('add', 'append', 'replace'))} {place} {pick(_WAYS)}")
        elif kind < 0.6:  # of several next hops, the last may be there already, or never be there
            hops = chance.sample(_WAYS[2:5] + ("via 3000::1", "via 2001:db8:2::2"), 3)
            several = " ".join(f"nexthop {hop}" for hop in hops)
            found.append(f"ip -6 route {pick(('add', 'append', 'replace'))} {place} {several}")
        elif kind < 0.85:
            found.append(f"ip -6 route del {place} {pick(('', *_WAYS))}")
        elif kind < 0.93:
            found.append(f"ip -6 route flush {pick(('table 100', 'dev r2', 'proto boot'))}")
        else:
            found.append(f"ip link set r2 {pick(('down', 'up'))}")
    return found
