"""What `ip route …` prints on a host that the running kernel has made, and on the modelled one.

`python -m tests.kernel.route_asker` records the table below; with `--minutes` it asks random hosts.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ippath.verify.namespace import KernelError, in_child, kernel_version
from ippath.verify.on_ippath import PREPARED
from ippath.verify.on_kernel import Session
from ippath.verify.scenario import Scenario
from tests.kernel.differ import _LINES, DEVICES, Generator

ANSWERS = Path(__file__).parent / "route_answers.json"
Printed = dict[str, Any]  # out, err


def _run(command: str) -> Printed:
    done = subprocess.run(["ip", *command.split()], text=True, capture_output=True)
    return {"out": done.stdout, "err": done.stderr}


def ask_kernel(host: str, commands: list[str]) -> list[Printed]:
    """Run `ip COMMAND` for each command on the host; raises KernelError if it can't be made."""

    def ask() -> list[Printed]:
        session = Session(Scenario("asked", "routes", host, ()), Path(), False)
        session.make_host()  # it keeps the sockets open
        return [_run(command) for command in commands]

    return in_child(ask)


def answerable(commands: list[str]) -> list[str]:
    """Those `commands` that the running kernel answers as one with the distributions' options does.

    Without CONFIG_IPV6_MROUTE nobody is asked where multicast that came in goes on, which is
    what `rt6_fill_node` refuses with EMSGSIZE.
    """
    if Path("/proc/net/ip6_mr_vif").exists():
        return commands
    return [command for command in commands if not re.search(r"get ff\S*:.* iif ", command)]


def ask_ippath(host: str, commands: list[str]) -> list[Printed]:
    """The same of the modelled host."""
    from ippath.config.host_file import parse_host
    from ippath.netns import Netns

    netns = Netns(parse_host(PREPARED + host), seed=1)
    return [_printed(netns, command.split()) for command in commands]


def _printed(netns: Any, words: list[str]) -> Printed:
    from ippath.config.ip_route_get import read_question, reader_of
    from ippath.route_get import Question, QuestionError, ask

    as_json, family = "-j" in words, 6 if "-6" in words else 4 if "-4" in words else None
    if "show" in words:
        return _shown(netns.host, words[words.index("show") + 1 :], family, as_json)
    asked = read_question(reader_of(words[words.index("get") + 1 :]), family)
    try:
        answer = ask(netns, Question(**asked.fields), asked.destination)
    except QuestionError as problem:
        return {"out": "", "err": f"{problem}\n"}
    if answer.error:
        return {"out": "", "err": f"{answer.error_text}\n"}
    if as_json:
        return {"out": json.dumps([answer.to_dict()], separators=(",", ":")) + "\n", "err": ""}
    return {"out": answer.text(), "err": ""}


def differences(host: str, commands: list[str], kernel: list[Printed]) -> list[str]:
    """In words where ippath prints something else."""
    found = []
    for command, theirs, ours in zip(commands, kernel, ask_ippath(host, commands)):
        if theirs != ours:
            found.append(f"ip {command}\n  kernel {theirs['out'] or theirs['err']!r}\n"
                         f"  ippath {ours['out'] or ours['err']!r}")  # fmt: skip
    return found


def _shown(host: Any, words: list[str], family: int | None, as_json: bool) -> Printed:
    from ippath.config.ip_route_get import reader_of
    from ippath.config.printed_routes import read_selection, route_dict, show

    chosen = read_selection(host, reader_of(words), family)
    if problem := chosen.missing_table(host):
        return {"out": "[ ]\n" if as_json else "", "err": f"{problem}\n"}
    routes = chosen.of(host)
    if as_json:
        told = [route_dict(route, chosen.known) for route in routes]
        return {"out": json.dumps(told, separators=(",", ":")) + "\n", "err": ""}
    return {"out": show(routes, chosen.known), "err": ""}


# --- the table ----------------------------------------------------------------------------------------

HOST = (
    _LINES
    + """
net.ipv4.ip_forward = 1
net.ipv6.conf.all.forwarding = 1
ip link set r2 mtu 1300
ip route add default via 10.0.0.254
ip route add 10.9.0.0/16 via 10.1.0.254 mtu 1300 metric 5 src 10.0.0.1 proto bgp
ip route add 10.8.0.0/16 via 10.1.0.254 mtu lock 1200 hoplimit 9
ip route add unreachable 10.10.0.0/16
ip route add prohibit 10.11.0.0/16
ip route add blackhole 10.12.0.0/16
ip route add throw 10.13.0.0/16
ip route add 10.15.0.0/16 via inet6 fe80::5 dev r1
ip route add 10.16.0.0/16 tos 0x10 dev r1
ip route add 10.17.0.0/16 via 10.2.0.9 dev r2 onlink
ip route add local 10.18.0.0/16 dev r1
ip route add 239.1.0.0/16 dev r2
ip -6 route add default via 2001:db8::fe mtu 1290 pref high
ip -6 route add 2001:db8:9::/48 via fe80::9 dev r1 metric 7 proto ra hoplimit 9
ip -6 route add unreachable 2001:db8:a::/48
ip -6 route add prohibit 2001:db8:b::/48
ip -6 route add blackhole 2001:db8:c::/48
ip -6 route add throw 2001:db8:f::/48
ip -6 route add 2001:db8:d::/48 from 2001:db8:1::/64 via 2001:db8:1::2
ip -6 route add 2001:db8:10::/48 dev lo
ip -6 route add 2001:db8:11::/48 via 2001:db8:2::9 src 2001:db8:1::1
ip -6 route add local 2001:db8:12::/48 dev lo
ip -6 route add 2001:db8:9:1::/64 dev r2
ip -6 route add 2001:db8:9:1::/64 from 2001:db8:2::/64 dev r2
ip -6 route add 2001:db8:9:1::/64 from 2001:db8:2::8/128 dev r2
ip -6 route add 2001:db8:9:1:2::/80 dev r2
ip -6 route add 2001:db8:13::/48 nexthop via 2001:db8::2 weight 2 nexthop via 2001:db8:1::2
ip route add 10.14.0.0/16 nexthop via 10.0.0.2 weight 2 nexthop via 10.1.0.2
ip route add 10.14.0.0/16 dev r1 metric 9
ip route add 10.14.0.0/24 via 10.1.0.7 dev r1
"""
)
RULES = """\
ip rule add pref 100 fwmark 7 lookup 100
ip rule add pref 101 uidrange 5-9 lookup 100
ip rule add pref 102 ipproto tcp dport 80 lookup 100
ip rule add pref 103 to 10.20.0.0/16 prohibit
ip rule add pref 104 to 10.21.0.0/16 unreachable
ip rule add pref 105 iif r2 lookup 100
ip rule add pref 106 oif r2 lookup 100
ip rule add pref 107 tos 0x10 lookup 100
ip route add 8.8.0.0/16 via 10.1.0.9 table 100
ip -6 rule add pref 100 fwmark 0x17 lookup 100
ip -6 rule add pref 101 uidrange 5-9 lookup 100
ip -6 rule add pref 102 ipproto tcp dport 80 lookup 100
ip -6 rule add pref 103 to 2001:db8:20::/48 prohibit
ip -6 rule add pref 105 iif r2 lookup 100
ip -6 rule add pref 107 from 2001:db8:1::/64 lookup 100
ip -6 rule add pref 108 tos 0x20 lookup 100
ip -6 route add 3000::/16 via 2001:db8:1::9 table 100
"""
_TO4 = """10.0.0.1 127.0.0.1 127.9.9.9 10.0.0.5 10.0.0.255 255.255.255.255 224.0.0.1 239.1.1.1 8.8.8.8
10.9.1.1 10.8.1.1 10.10.0.1 10.11.0.1 10.12.0.1 10.13.0.1 10.15.0.1 10.16.0.1 10.17.0.1 10.18.0.1
0.0.0.0 0.0.0.1 240.0.0.1 10.20.0.1 10.21.0.1""".split()
_TO6 = """::1 2001:db8::1 2001:db8::5 2001:db8:: 2001:db8:9::1 2001:db8:a::1 2001:db8:b::1
2001:db8:c::1 2001:db8:d::1 2001:db8:f::1 2001:db8:10::1 2001:db8:11::1 2001:db8:12::1 3000::1
ff02::1 ff0e::1 fe80::1 :: ::ffff:1.2.3.4 2001:db8:20::1""".split()
_WITH4 = [
    "", "from 10.1.0.1", "from 10.0.0.7 iif r0", "from 10.1.0.7 iif r1", "from 99.0.0.1 iif r2",
    "oif r1", "from 10.0.0.1 oif r2", "mark 7", "mark 0x17 uid 7", "ipproto tcp sport 7 dport 80",
    "tos 0x10", "iif r0", "from 10.7.7.7", "from 127.0.0.1 iif r0", "from 224.0.0.9", "oif gone",
]  # fmt: skip
_WITH6 = [
    "", "from 2001:db8:1::1", "from 2001:db8:1::7 iif r1", "from 3000::7 iif r2", "oif r1",
    "from 2001:db8::1 oif r2", "mark 0x17", "uid 7", "ipproto tcp sport 7 dport 80", "tos 0x20",
    "iif r0", "from 2001:db8::77", "oif gone",
]  # fmt: skip


SHOWN = [
    "route show", "route show table all", "-6 route show", "-6 route show table all", "-4 route show table all",
    "-j route show table all", "-j -6 route show table all", "route show table 100", "route show dev r1",
    "route show 10.9.0.0/16", "route show root 10.0.0.0/8", "route show match 10.9.1.0/24",
    "route show via 10.1.0.254", "route show proto bgp", "route show table local type broadcast",
    "-6 route show table local", "-6 route show default", "route show scope link",
]  # fmt: skip


def table() -> list[tuple[str, list[str]]]:
    """Hosts and the commands that they are asked."""
    commands = list(SHOWN)
    for option, targets, selectors in (("", _TO4, _WITH4), ("-6 ", _TO6, _WITH6)):
        for words in selectors:
            commands += [f"{option}route get {to} {words}".strip() for to in targets]
        commands += [f"-j {option}route get {to}".strip() for to in targets]
        commands += [f"-j {option}route get {to} {selectors[3]} mark 3" for to in targets]
    return [(HOST, commands), (HOST + RULES, commands)]


# --- random hosts -------------------------------------------------------------------------------------


class Questions(Generator):
    """Random hosts, and random questions about them."""

    def host(self) -> str:
        lines = [*_LINES.splitlines(), *self._sysctls(), *self._routes(), *self._rules()]
        lines += [line for line in self._listeners() if line.startswith("join")]
        return "\n".join(lines) + "\n"

    def question(self) -> str:
        pick = self.random.choice
        family = pick(self.families)
        address = self._address4 if family == 4 else self._address6
        words = ["route", "get", address(False)]
        if self.some(0.3):
            words = ["-j", *words]
        if family == 6:
            words = ["-6", *words]
        elif self.some(0.1):
            words[-1] = pick(("224.0.0.5", "239.1.1.1", "10.0.0.255", "255.255.255.255"))
        if self.some(0.5):
            own = f"10.{self.random.randrange(3)}.0.1" if family == 4 else "2001:db8:1::1"
            words += ["from", own if self.some(0.4) else address(True)]
        if self.some(0.3):
            words += ["iif", pick(DEVICES)]
        elif self.some(0.3):
            words += ["oif", pick(DEVICES)]
        for chance, name, values in (
            (0.2, "mark", ("7", "0x17")), (0.2, "tos", ("0x10", "0x08", "0x20")),
            (0.1, "uid", ("7", "1000")), (0.2, "sport", ("1000",)), (0.2, "dport", ("2000",)),
        ):  # fmt: skip
            if self.some(chance):
                words += [name, pick(values)]
        if self.some(0.3):
            words += ["ipproto", pick(("udp", "tcp", "icmp" if family == 4 else "ipv6-icmp"))]
        return " ".join(words)


def random_run(minutes: float, seed: int, families: tuple[int, ...]) -> int:
    """Ask random hosts for some minutes; prints and counts what differs."""
    generator = Questions(seed, families)
    end, asked, differed, refused = time.monotonic() + 60 * minutes, 0, 0, 0
    while time.monotonic() < end and differed < 8:
        host = generator.host()
        commands = answerable([generator.question() for _ in range(60)])
        try:
            kernel = ask_kernel(host, commands)
        except KernelError:
            refused += 1
            continue
        asked += len(commands)
        found = differences(host, commands, kernel)
        if found:
            differed += 1
            print(host.removeprefix(_LINES).lstrip() + "\n".join(found[:6]), flush=True)
    print(f"seed {seed}: {asked} questions ({refused} hosts refused), {differed} hosts differed")
    return int(differed > 0)


def recorded() -> list[tuple[str, list[str], list[Printed]]]:
    """Hosts, commands and the kernel's answers of the last recording."""
    hosts = json.loads(ANSWERS.read_text())["hosts"]
    return [
        ("\n".join(one["host"]) + "\n", list(one["asked"]), list(one["asked"].values()))
        for one in hosts
    ]


def show() -> bool:
    """Print where ippath differs from the recording; true if it does."""
    found = [
        line
        for host, commands, kernel in recorded()
        for line in differences(host, commands, kernel)
    ]
    print("\n".join(found), f"\n{len(found)} differ")
    return bool(found)


def main() -> int:
    """Record the table, or ask random hosts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", type=int, choices=(4, 6))
    parser.add_argument("--show", action="store_true", help="compare with the recording")
    given = parser.parse_args()
    if given.minutes:
        seed = given.seed or random.randrange(1, 1 << 30)
        return random_run(given.minutes, seed, (given.family,) if given.family else (4, 6))
    if given.show:
        return int(show())
    if any(answerable(commands) != commands for _, commands in table()):
        parser.error("this kernel was built without IPv6 multicast routing: record on another")
    hosts = [
        {"host": host.splitlines(), "asked": dict(zip(commands, ask_kernel(host, commands)))}
        for host, commands in table()
    ]
    text = json.dumps({"kernel": kernel_version(), "hosts": hosts}, indent=1)
    ANSWERS.write_text(text + "\n")
    print(f"{sum(len(h['asked']) for h in hosts)} answers recorded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
