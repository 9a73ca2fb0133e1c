"""Random hosts and packets, asked of the running kernel and of ippath: `python -m tests.kernel.differ`.

Every difference is shrunk to the fewest host lines and packets that still differ, and printed as a
scenario that can be put into the table.  A seed makes a run repeatable.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ippath.verify.compare import Difference, compare
from ippath.verify.namespace import available
from ippath.verify.on_ippath import Ippath
from ippath.verify.on_kernel import Kernel
from ippath.verify.packets import (
    ROUTER_ALERT, Upper, data, echo, echo6, hop_by_hop, icmp, icmp6, ip4, ip6, record_route,
    routing, source_route, tcp, timestamp, udp,
)  # fmt: skip
from ippath.verify.scenario import Inject, Scenario, Send, Together
from ippath.verify.scenario_file import scenario_text
from ippath.verify.shrink import ask_both, shrunk

PACKETS = 4000  # sent to one host
LISTS = 80  # receive lists sent to a host that gets some
# random limits and clocks differ between two runs of the kernel itself
_LINES = """\
ip link add r0 type tun
ip link add r1 type tun
ip link add r2 type tun
net.ipv4.icmp_ratemask = 0
net.ipv4.icmp_msgs_per_sec = 100000
net.ipv4.icmp_msgs_burst = 100000
net.ipv6.icmp.ratelimit = 0
net.ipv4.fib_multipath_hash_seed = 4711
ip link set lo up
ip link set r0 up
ip link set r1 up
ip link set r2 up
ip addr add 10.0.0.1/24 dev r0
ip addr add 10.1.0.1/24 dev r1
ip addr add 10.2.0.1/24 dev r2
ip addr add 2001:db8:0::1/64 dev r0
ip addr add 2001:db8:1::1/64 dev r1
ip addr add 2001:db8:2::1/64 dev r2"""
_IP = {4: "ip", 6: "ip -6"}
_CLOCKS = ("timestamp option", "icmp timestamp")
DEVICES = ("r0", "r1", "r2")
_NETS4 = ("0.0.0.0/0", "77.0.0.0/8", "77.1.0.0/16", "77.1.2.0/24", "77.1.2.3/32", "10.1.0.0/16",
          "10.0.0.128/25", "10.2.0.64/26", "66.0.0.0/8", "10.0.0.7/32")  # fmt: skip
_NETS6 = ("::/0", "2001:db8:77::/48", "2001:db8:77:1::/64", "2001:db8:77:1::5/128",
          "2001:db8::/32", "2001:db8:1::80/121", "2001:db8:66::/48")  # fmt: skip
_AWAY = ("77.", "66.", "99.", "2001:db8:77", "2001:db8:66", "2001:db9")
_FAR4 = ("77.1.2.3", "77.9.9.9", "66.0.0.9", "99.0.0.1", "10.0.0.77", "10.1.0.130", "10.2.0.70")
_FAR6 = ("2001:db8:77:1::5", "2001:db8:77:9::1", "2001:db8:66::9", "2001:db9::1", "2001:db8::77",
         "2001:db8:1::85", "::ffff:77.1.2.3", "::ffff:10.1.0.9")  # fmt: skip
_OPTIONS4 = (
    b"\x01\x01\x01\x00", record_route(1), record_route(3), b"\x07\x07\x08\x0a\x00\x00\x09",
    timestamp(0, bytes(8)), timestamp(1, bytes(16)), ROUTER_ALERT, b"\x82\x0b" + bytes(9),
    source_route(131, ("10.1.0.2", "10.2.0.2")), source_route(137, ("10.1.0.2",)),
    source_route(131, ("10.0.0.1", "10.1.0.2")), source_route(131, ("10.1.0.2",), pointer=8),
    b"\x44\x05\x05\x00\x00", b"\x07\x02", b"\x99\x00",
)  # fmt: skip


class Generator:
    """Scenarios from one seed."""

    def __init__(self, seed: int, families: tuple[int, ...] = (4, 6)):
        self.random, self.seed, self.families = random.Random(seed), seed, families
        self.made = self.routes = 0

    def some(self, chance: float) -> bool:
        """True with this chance."""
        return self.random.random() < chance

    def scenario(self, packets: int = 40) -> Scenario:
        """The next scenario: a host and `packets` packets, or fewer and receive lists."""
        self.made += 1
        lists = self.some(0.15)
        lines = [*_LINES.splitlines(), *self._sysctls(), *self._routes(), *self._rules()]
        lines += self._listeners()
        sockets = [line for line in lines if line.startswith("listen udp")]
        steps: list[Any] = []
        for k in range(min(packets, 2 * LISTS) if lists else packets):
            family = self.random.choice(self.families)
            device = self.random.choice(("r0", "r0", "r1", "r2"))
            if lists and self.some(0.5):
                steps.append(Together(device, self._list(family, k)))
                continue
            if sockets and self.some(0.03):
                steps.append(self._send(sockets))
                continue
            packet = self._packet4() if family == 4 else self._packet6()
            steps.append(Inject(device, {f"{k}": packet}))
        name = f"random {self.seed}.{self.made}"
        return Scenario(name, "random", "\n".join(lines) + "\n", tuple(steps), _CLOCKS)

    # --- hosts ----------------------------------------------------------------------------------------

    def _sysctls(self) -> Iterator[str]:
        pick = self.random.choice
        yield f"net.ipv4.ip_forward = {pick((1, 1, 1, 0))}"
        yield f"net.ipv6.conf.all.forwarding = {pick((1, 1, 1, 0))}"
        for device in ("all", *DEVICES):
            for name, values in (
                ("rp_filter", (0, 0, 1, 2)), ("accept_local", (0, 0, 0, 1)),
                ("route_localnet", (0, 0, 0, 1)), ("send_redirects", (0, 1)),
                ("shared_media", (1, 1, 0)), ("src_valid_mark", (0, 1)),
                ("bc_forwarding", (0, 0, 0, 1)), ("accept_source_route", (0, 1)),
            ):  # fmt: skip
                if self.some(0.3):
                    yield f"net.ipv4.conf.{device}.{name} = {pick(values)}"
        if self.some(0.2):
            yield f"net.ipv4.conf.{pick(DEVICES)}.forwarding = {pick((0, 1))}"
        if self.some(0.2):
            yield f"net.ipv6.conf.{pick(DEVICES)}.forwarding = {pick((0, 1))}"
        for family in ("ipv4", "ipv6"):
            if self.some(0.5):
                yield f"net.{family}.fib_multipath_hash_policy = {pick((0, 1, 2, 3))}"
            if self.some(0.2):
                yield f"net.{family}.fib_multipath_hash_fields = {self.random.randrange(1, 1 << 12)}"
        if self.some(0.1):
            yield "net.ipv4.icmp_errors_use_inbound_ifaddr = 1"
        if self.some(0.1):
            yield "net.ipv4.icmp_echo_ignore_all = 1"
        if self.some(0.2):
            yield "net.ipv4.icmp_echo_ignore_broadcasts = 0"
        if self.some(0.3):
            yield f"ip link set {pick(DEVICES)} mtu {pick((1280, 1300, 1000, 576))}"

    def _routes(self) -> Iterator[str]:
        self.objects: dict[int, list[int]] = {4: [], 6: []}
        if self.some(0.3):
            yield from self._objects()
        for _ in range(self.random.randrange(7)):
            family = self.random.choice(self.families)
            yield f"{_IP[family]} route append {self._route(family)}"

    def _objects(self) -> Iterator[str]:
        """Objects of `ip nexthop` and groups of them; IPv4 routes may use those of IPv6."""
        pick = self.random.choice
        for number in range(1, 7):
            family, k = pick(self.families), self.random.randrange(3)
            near = f"10.{k}.0.9" if family == 4 else f"2001:db8:{k}::9"
            what = pick((f"via {near} dev r{k}", f"via {near} dev r{k}", f"dev r{k}", "blackhole"))
            yield f"{_IP[family]} nexthop add id {number} {what}"
            if what != "blackhole":
                self.objects[family].append(number)
        self.objects[4] += self.objects[6]
        for family, number in ((4, 14), (4, 15), (6, 16)):
            members = self.objects[family]
            if len(members) < 2 or family not in self.families:
                continue
            some = self.random.sample(members, self.random.randrange(1, len(members) + 1))
            group = "/".join(f"{one},{pick((1, 1, 2, 5))}" for one in some)
            kind = pick(("", "", f"type resilient buckets {pick((1, 7, 32))}"))
            yield f"ip nexthop add id {number} group {group} {kind}".strip()
            members += [number, number]

    def _route(self, family: int) -> str:
        pick = self.random.choice
        net = pick(_NETS4 if family == 4 else _NETS6)
        words = []
        kind = pick(("", "", "", "", "unreachable", "prohibit", "blackhole", "throw"))
        k = self.random.randrange(3)
        near = f"10.{k}.0.{pick((2, 3, 9))}" if family == 4 else f"2001:db8:{k}::{pick((2, 3, 9))}"
        if kind:
            words = [kind, net]
        elif self.objects[family] and self.some(0.6):
            words = [net, "nhid", str(pick(self.objects[family]))]
        elif self.some(0.2):
            words = [net, *self._nexthops(family)]
        elif self.some(0.3):
            words = [net, "dev", f"r{k}"]
        else:
            words = [net, "via", near, "dev", f"r{k}"]
        if "nexthop" in words:
            return " ".join(words)
        if "nhid" in words and family == 6:  # the first route used decides for all by the object
            self.routes += 1
            return " ".join([*words, "metric", str(10 + self.routes)])
        if family == 6 and self.some(0.7):  # equal metrics make multipath routes
            self.routes += 1
            words += ["metric", str(pick((10, 20, 2000)) + self.routes)]
        elif self.some(0.2):
            words += ["metric", pick(("10", "20", "2000"))]
        if family == 4 and self.some(0.1):
            words += ["tos", pick(("0x10", "0x08"))]
        if not kind and self.some(0.15):
            words += ["mtu", pick(("1280", "1400", "600"))] if family == 4 else ["mtu", "1300"]
        if not kind and self.some(0.1):
            words += ["src", f"10.{pick((0, 1, 2))}.0.1" if family == 4 else "2001:db8:1::1"]
        if self.some(0.2):
            words += ["table", "100"]
        return " ".join(words)

    def _nexthops(self, family: int) -> Iterator[str]:
        for k in self.random.sample(range(3), self.random.choice((2, 3))):
            near = f"10.{k}.0.9" if family == 4 else f"2001:db8:{k}::9"
            yield f"nexthop via {near} dev r{k} weight {self.random.choice((1, 1, 2, 5))}"

    def _rules(self) -> Iterator[str]:
        if not self.some(0.4):
            return
        pick = self.random.choice
        for pref in sorted(self.random.sample(range(1, 1000), self.random.randrange(1, 4))):
            family = pick(self.families)
            selector = pick((
                "from 10.0.0.0/25" if family == 4 else "from 2001:db8::/65",
                "to 77.0.0.0/8" if family == 4 else "to 2001:db8:77::/48",
                "iif r0", "iif r1", "tos 0x10", "ipproto udp dport 2000", "ipproto icmp"
                if family == 4 else "ipproto ipv6-icmp", "sport 1000", "from all", "oif r1",
            ))  # fmt: skip
            action = pick((
                "lookup 100", "lookup 100", "lookup main suppress_prefixlength 0", "unreachable",
                "prohibit", "blackhole", "goto 32766", "nop", "lookup main",
            ))  # fmt: skip
            invert = "not " if self.some(0.15) and selector != "from all" else ""
            yield f"{_IP[family]} rule add pref {pref} {invert}{selector} {action}"

    def _listeners(self) -> Iterator[str]:
        pick = self.random.choice
        for line in (
            "listen udp 0.0.0.0:2000", "listen udp [::]:2000 v6only", "listen udp 10.0.0.1:2000",
            "listen udp [::]:2001", "listen udp 10.1.0.1:2001 peer 10.0.0.5:1000",
            "listen udp 0.0.0.0:2000 dev r1", "join 239.1.1.1 dev r0", "join ff05::1:3 dev r0",
        ):  # fmt: skip
            if self.some(0.5):
                yield line
        if self.some(0.1):
            yield f"listen udp 0.0.0.0:2002 dev {pick(DEVICES)}"

    def _send(self, sockets: list[str]) -> Send:
        """A datagram from one of the sockets to another machine; what comes back by lo is left out."""
        pick, number = self.random.choice, self.random.randrange(len(sockets))
        to = pick(_FAR6 if "[" in sockets[number] else _FAR4)
        payload = data(pick((0, 8, 100, 1200, 1472, 3000)))
        fields: dict[str, Any] = {}
        if self.some(0.2):
            fields["ttl"] = pick((1, 2, 255))
        if self.some(0.2):
            fields["tos"] = pick((0x10, 0x08, 0xE0))
        if self.some(0.2):
            fields["device"] = pick(DEVICES)
        return Send(number, payload, (to, pick((9, 1000))), **fields)

    # --- packets --------------------------------------------------------------------------------------

    def _list(self, family: int, step: int) -> dict[str, bytes]:
        """One receive list: runs of few destinations from many sources, so that hints fit."""
        ends = [self._address4(False) if family == 4 else self._address6(False) for _ in range(2)]
        found = {}
        for k in range(self.random.randrange(2, 9)):
            end, port = self.random.choice(ends), self.random.choice((2000, 2001, 9))
            if family == 4:
                tos = self.random.choice((0, 0, 0, 0x10))
                packet = ip4(self._address4(True), end, udp(1000, port), ident=k + 1, tos=tos)
            else:
                packet = ip6(self._address6(True), end, udp(1000, port), label=k + 1)
            found[f"{step}.{k}"] = packet
        return found

    def _address4(self, source: bool) -> str:
        pick, number = self.random.choice, self.random.randrange
        if self.some(0.75 if source else 0.6):
            return f"10.{number(3)}.0.{number(2, 254)}"
        if source:  # answers to the host itself come back in by lo, which ippath does not follow
            return pick(("77.1.2.3", "77.9.9.9", f"66.0.0.{number(1, 250)}", "99.0.0.1", "10.0.0.0",
                         "255.255.255.255", "0.0.0.0", "224.0.0.1", "240.0.0.1"))  # fmt: skip
        return pick((
            "10.0.0.1", "10.1.0.1", "10.2.0.1", f"77.1.2.{number(1, 9)}", "77.1.9.1", "77.9.9.9",
            f"66.0.0.{number(1, 250)}", "99.0.0.1", "10.0.0.255", "10.1.0.255", "10.0.0.0",
            "255.255.255.255", "0.0.0.0", "127.0.0.1", "127.1.2.3", "224.0.0.1", "239.1.1.1",
            "239.9.9.9", "240.0.0.1", "0.1.2.3", "10.0.0.7",
        ))  # fmt: skip

    def _upper4(self) -> tuple[Upper | bytes, int | None]:
        pick = self.random.choice
        kind = self.random.random()
        if kind < 0.55:
            size = pick((8, 8, 8, 0, 100, 1300, 1400))
            wrong: dict[str, int] = pick(({}, {}, {}, {}, {"damage": 1}, {"length": 7}))
            return udp(pick((1000, 5000)), pick((2000, 2001, 9)), data(size), **wrong), None
        if kind < 0.7:
            return pick((echo(), echo(body=data(1400)), echo(damage=1))), None
        if kind < 0.85:
            quoted = ip4("10.0.0.1", "10.0.0.2", pick((udp(2000, 1000), tcp(), echo())))
            kind, code = pick((3, 5, 11, 12, 4, 13, 17, 9, 40)), pick((0, 1, 4))
            if (kind, code) == (3, 4):  # makes a route with a path MTU
                code = 13
            return icmp(kind, code, 0, quoted), None
        if kind < 0.93:
            return tcp(), None
        return self._other()

    def _other(self) -> tuple[bytes, int]:
        """What a packet of another protocol carries, tunnels among them, and its number."""
        pick, number = self.random.choice, self.random.randrange
        if self.some(0.3):
            return data(8), pick((47, 4, 41, 200, 136, 132, 33, 50, 51, 2))
        ports = udp(number(1, 9), 2000)
        inner = pick((
            ip4(f"192.0.2.{number(1, 9)}", "192.0.2.1", ports),
            ip6(f"2001:db8:a::{number(1, 9)}", "2001:db8:a::1", ports, label=number(16)),
        ))  # fmt: skip
        if self.some(0.5):
            return inner, 4 if inner[0] >> 4 == 4 else 41
        flags = pick((0, 0x2000, 0xB000, 0x4000, 1))
        kind = 0x800 if inner[0] >> 4 == 4 else 0x86DD
        return struct.pack("!HH", flags, kind) + bytes(4 * (flags >> 12).bit_count()) + inner, 47

    def _packet4(self) -> bytes:
        pick = self.random.choice
        payload, proto = self._upper4()
        fields: dict[str, Any] = {"proto": proto, "ident": self.random.randrange(1, 65536)}
        if self.some(0.15):
            fields["options"] = pick(_OPTIONS4)
        if self.some(0.15):
            fields["ttl"] = pick((0, 1, 2))
        if self.some(0.2):
            fields["tos"] = pick((0x10, 0x08, 0x01, 0x1C, 0xE0, 0xFF))
        if self.some(0.3):
            fields["df"] = True
        if self.some(0.05):
            fields.update(pick(({"mf": True}, {"offset": 5}, {"damage": 1}, {"ihl": 4}, {"length": 10}, {"reserved": True})))  # fmt: skip
        to = self._address4(False)
        fragment = fields.get("mf") or fields.get("offset")
        if fragment and not to.startswith(_AWAY):
            to = "77.1.2.6"  # reassembly, too
        if isinstance(payload, Upper) and payload.protocol == 6 and not to.startswith(_AWAY):
            to = "77.1.2.5"  # what TCP answers is another subject
        source = self._address4(True)
        if source == "0.0.0.0" and isinstance(payload, Upper) and payload.protocol == 1:
            source = "10.0.0.0"  # an answer to nobody would go by lo
        return ip4(source, to, payload, **fields)

    def _address6(self, source: bool) -> str:
        pick, number = self.random.choice, self.random.randrange
        if self.some(0.75 if source else 0.6):
            return f"2001:db8:{number(3)}::{number(2, 0xFFFF):x}"
        if source:
            return pick(("2001:db8:77:1::5", f"2001:db8:66::{number(1, 250):x}", "2001:db9::1",
                         "fe80::77", "ff02::1", "::", "::ffff:10.0.0.2"))  # fmt: skip
        return pick((
            "2001:db8:0::1", "2001:db8:1::1", "2001:db8:2::1", "2001:db8:77:1::5",
            f"2001:db8:77:1::{number(6, 99):x}", "2001:db8:77:9::1", "2001:db8:66::1",
            "2001:db9::1", "::1", "::", "ff02::1", "ff05::1:3", "ff05::9", "ff01::1", "fe80::77",
            "::ffff:10.0.0.2", "2001:db8:0::", "2001:db8:1::",
        ))  # fmt: skip

    def _upper6(self) -> Upper:
        pick = self.random.choice
        kind = self.random.random()
        if kind < 0.6:
            size = pick((8, 8, 8, 0, 100, 1300, 1400))
            wrong: dict[str, int] = pick(({}, {}, {}, {}, {"damage": 1}, {"length": 7}))
            return udp(pick((1000, 5000)), pick((2000, 2001, 9)), data(size), **wrong)
        if kind < 0.75:
            return pick((echo6(), echo6(body=data(1400)), echo6(damage=1)))
        if kind < 0.88:
            quoted = ip6("2001:db8:0::1", "2001:db8:0::2", pick((udp(2000, 1000), tcp(), echo6())))
            return icmp6(pick((1, 3, 4, 127, 200, 129, 140)), pick((0, 1, 4)), 0, quoted)
        return tcp()

    def _packet6(self) -> bytes:
        pick = self.random.choice
        fields: dict[str, Any] = {"label": self.random.randrange(1, 1 << 20)}
        if self.some(0.15):
            fields["hops"] = pick((0, 1, 2))
        if self.some(0.15):
            fields["traffic_class"] = pick((0x10, 0x03, 0x40))
        if self.some(0.15):
            fields["extensions"] = (pick((
                hop_by_hop(b"\x05\x02\x00\x00"), hop_by_hop(b"\x1e\x00"), hop_by_hop(b"\x3e\x00"),
                hop_by_hop(b"\x7e\x00"), hop_by_hop(b"\xbe\x00"), hop_by_hop(b"\xfe\x00"),
                routing(0, 1, ("2001:db8:1::2",)), routing(4, 0), routing(0, 0), routing(9, 2),
            )),)  # fmt: skip
        if self.some(0.05):
            fields["length"] = 10
        if self.some(0.06):
            payload, fields["last_header"] = self._other()
            return ip6(self._address6(True), self._address6(False), payload, **fields)
        payload, to = self._upper6(), self._address6(False)
        if payload.protocol == 6 and not to.startswith(_AWAY):
            to = "2001:db8:77:1::9"
        return ip6(self._address6(True), to, payload, **fields)


@dataclass
class Run:
    """What a random run has found so far."""

    seed: int
    packets: int = 0
    lists: int = 0
    hosts: int = 0
    refused: int = 0
    repeated: int = 0  # differed once, agreed when asked again: the clock
    unjudged: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    scenarios: list[Scenario] = field(default_factory=list)  # minimal ones that differ

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.packets:,} packets ({self.lists:,} receive lists) to "
            f"{self.hosts:,} hosts, {self.refused:,} more refused by the kernel; "
            f"{len(self.scenarios)} differed, {self.repeated} differed once and agreed when asked "
            f"again, {self.unjudged:,} packets not judged"
        )


def search(
    kernel: Kernel, ours: Ippath, generator: Generator, end: Callable[[Run], bool], packets: int
) -> Iterator[tuple[Run, Difference | None]]:
    """Draw, ask both, compare and shrink until `end`; yields after each host.

    A difference comes as its minimal scenario, the last of `Run.scenarios`.
    """
    run = Run(generator.seed)
    while not end(run):
        scenario = generator.scenario(packets)
        answer = kernel.run(scenario, counters=False)
        if answer.error:
            run.refused += 1
            print(f"refused: {answer.error.strip().splitlines()[-1]}", file=sys.stderr)
            yield run, None
            continue
        times = [outcome.time_ns for outcome in answer.outcomes]
        found = compare(scenario, answer, ours.run(scenario, counters=False, times=times))
        run.hosts += 1
        run.packets += scenario.packets
        run.lists += sum(isinstance(step, Together) for step in scenario.steps)
        run.unjudged += len(found.skipped)
        run.verdicts.update(reason for o in answer.outcomes for reason, _ in o.drops)
        difference = None
        if found.differences:
            again = ask_both(scenario, kernel, ours)
            if again and again.differences:
                keep = len(_LINES.splitlines())
                small = shrunk(scenario, kernel, ours, again, keep_lines=keep)
                run.scenarios.append(small)
                last = ask_both(small, kernel, ours)
                difference = (last.differences if last else again.differences)[0]
            else:
                run.repeated += 1
                print(f"once, in {scenario.name}: {found.differences[0]}", file=sys.stderr)
        yield run, difference


def main() -> int:
    """Search for some minutes; 1 if something differed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--family", type=int, choices=(4, 6), help="packets of one family")
    parser.add_argument("--packets", type=int, default=PACKETS, help="packets to one host")
    parser.add_argument("--most", type=int, default=5, help="differences to look for")
    parser.add_argument("--save", type=Path, help="folder for scenario files of differences")
    given = parser.parse_args()
    if why_not := available():
        print(f"the kernel can't be asked here: {why_not}", file=sys.stderr)
        return 2
    generator = Generator(given.seed or random.randrange(1, 1 << 30), (given.family,) if given.family else (4, 6))  # fmt: skip
    until, told = time.monotonic() + 60 * given.minutes, time.monotonic()

    def end(run: Run) -> bool:
        return time.monotonic() > until or len(run.scenarios) >= given.most

    run = Run(generator.seed)
    with Kernel() as kernel:
        for run, difference in search(kernel, Ippath(), generator, end, given.packets):
            if difference:
                text = scenario_text(run.scenarios[-1])
                print(f"{text}\n{difference}\n", flush=True)
                if given.save:
                    given.save.mkdir(parents=True, exist_ok=True)
                    name = run.scenarios[-1].name.replace(" ", "-")
                    (given.save / f"{name}.scenario").write_text(text)
            if time.monotonic() > told + 15:
                print(f"… {run}", file=sys.stderr)
                told = time.monotonic()
    print(run)
    print("drop reasons:", ", ".join(f"{k} {v:,}" for k, v in run.verdicts.most_common()))
    return int(bool(run.scenarios))


if __name__ == "__main__":
    sys.exit(main())
