"""Host files: the lines that people give to `ip`, what `ip` prints, sysctls and sockets, as a Host.

Lines are read from top to bottom, as a shell would run them; `docs/host-files.md` shows them all.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ippath.config.bulk_routes import LEAST_RUN, Run, find_runs, read_run
from ippath.config.draft import Draft, Skip
from ippath.config.ip_address import STATES as LINK_STATES
from ippath.config.ip_address import read_address, read_brief, read_inet_line, read_one_line
from ippath.config.ip_link import (
    read_detail_line,
    read_header,
    read_link,
    read_link_line,
    read_tuntap,
)
from ippath.config.ip_neighbour import is_printed_neighbour, read_neighbour, read_printed_neighbour
from ippath.config.ip_nexthop import (
    begins_nexthop, is_printed_nexthop, read_nexthop, read_printed_nexthop,
)  # fmt: skip
from ippath.config.ip_route import begins_route, read_printed_route, read_route
from ippath.config.ip_rule import is_printed_rule, read_printed_rule, read_rule
from ippath.config.lowpan import read_6lowpan, read_iwpan
from ippath.config.sockets import begins_listener, read_join, read_listen
from ippath.config.ss import SsError, parse_ss
from ippath.config.sysctls import begins_sysctl, read_sysctl, read_sysctl_command
from ippath.config.values import device_name, number_of
from ippath.config.words import (
    HostErrors, Line, Problem, Reader, Word, Wrong, find_keyword, lines_of, nearest,
    read_lines,
)  # fmt: skip
from ippath.fib.control import ControlError, finish
from ippath.fib.routes import routes_of
from ippath.model import Host, Route
from ippath.switches import SWITCHES, SwitchError, check_switch

__all__ = ["HostErrors", "Parsed", "Problem", "Script", "parse", "parse_host"]

# in the order in which `ip` tries abbreviations
OBJECTS = (
    "address", "addrlabel", "maddress", "route", "rule", "neighbor", "neighbour", "ntable", "link",
    "tunnel", "tuntap", "token", "tcp_metrics", "monitor", "xfrm", "mroute", "mrule", "netns",
    "netconf", "vrf", "nexthop", "mptcp", "sr", "stats",
)  # fmt: skip
OWN = ("listen", "join", "map", "switch", "table", "sysctl", "6lowpan", "iwpan")
_OPTIONS = {
    "-4": 4, "-6": 6, "-0": None, "-o": None, "-oneline": None, "-br": None, "-brief": None,
    "-d": None, "-details": None, "-s": None, "-stats": None, "-statistics": None, "-c": None,
    "-color": None, "-N": None, "-Numeric": None, "-force": None, "-a": None, "-all": None,
    "-color=never": None, "-color=always": None, "-color=auto": None, "-t": None,
}  # fmt: skip
_HEADER = re.compile(r"[0-9]{1,10}:")
_SKIPPED = {"altname", "RX:", "TX:", "RX", "TX", "prefix_delegation", "alias", "parentbus"}
_DETAILS = {
    "vlan", "tun", "vrf", "dummy", "veth", "bridge", "bridge_slave", "vrf_slave", "bond", "macvlan",
    "vxlan", "geneve", "openvswitch", "openvswitch_slave", "ipvlan", "bond_slave", "wireguard",
    "team", "ifb", "loopback", "macvtap", "gre", "ipip", "sit",
}  # fmt: skip
_SS = {"UNCONN", "ESTAB", "State", "Netid"}


@dataclass
class Parsed:
    """A host, and what looked doubtful in its description."""

    host: Host
    warnings: list[Problem] = field(default_factory=list)


def parse_host(text: str, name: str = "<host>") -> Host:
    """The host that `text` describes; raises HostErrors that lists all that is wrong.

    `name` is what messages call the text.
    """
    return parse(text, name).host


def parse(text: str, name: str = "<host>") -> Parsed:
    """As `parse_host`, together with warnings about lines that are valid but doubtful."""
    return _Parser(text, name).run()


def build(text: str) -> Host:
    """The host that valid lines make, without automatic link-local addresses; for `render_host`."""
    parser = _Parser(text, "")
    parser.read()
    return parser.draft.host


class Script:
    """A host that is given lines one at a time, as a shell runs them: one that fails changes nothing.

    `host` is what the lines so far have made.
    """

    def __init__(self, text: str = ""):
        """Begin with the lines of `text`, which are valid."""
        self._parser = _Parser(text, "")
        self._parser.read()
        self.host = self._parser.draft.host

    def run(self, text: str) -> str:
        """Run one line; what is wrong with it, in the words of `ip` where the kernel refuses."""
        parser = self._parser
        lines, wrongs = read_lines([text])
        if wrongs:
            return wrongs[0].expected
        before = len(parser.problems)
        parser.written = [text]
        for line in lines:
            parser._guard(line, parser._line)
        return parser.problems[-1].expected if len(parser.problems) > before else ""


class _Parser:
    def __init__(self, text: str, name: str):
        self.name = name
        self.draft = Draft()
        self.written = lines_of(text)
        self.runs = find_runs(self.written) if len(self.written) > LEAST_RUN else []
        self.lines, wrongs = read_lines(_without_runs(self.written, self.runs))
        self.problems = [self._problem(wrong, None) for wrong in wrongs]
        torn = {problem.line for problem in self.problems}
        self.lines = [line for line in self.lines if torn.isdisjoint(w.line for w in line.words)]
        self._join_nexthops()
        self.own: dict[str, Callable[[Reader, Line], None]] = {
            "listen": lambda reader, line: read_listen(self.draft, reader, line.text),
            "join": lambda reader, line: read_join(self.draft, reader),
            "map": lambda reader, line: self._map(reader),
            "switch": lambda reader, line: self._switch(reader),
            "table": lambda reader, line: self._table(reader),
            "sysctl": lambda reader, line: read_sysctl_command(self.draft, reader),
            "6lowpan": lambda reader, line: read_6lowpan(self.draft, reader),
            "iwpan": lambda reader, line: read_iwpan(self.draft, reader),
        }

    def run(self) -> Parsed:
        """Read all lines; raise what is wrong with them."""
        self.read()
        if self.problems:
            raise HostErrors(sorted(self.problems, key=lambda p: (p.line, p.column)))
        finish(self.draft.host)
        warnings = [
            self._problem(Wrong(w, text, near), None) for w, text, near in self.draft.warnings
        ]
        return Parsed(self.draft.host, warnings)

    def read(self) -> None:
        """Read all lines and collect what is wrong."""
        self.draft.host.source = self.name
        sockets: list[Line] = []  # output of ss is read as a whole
        runs = deque(self.runs)
        for line in self.lines:
            while runs and runs[0].first < line.words[0].line:
                self._take_run(runs.popleft())
            if self._is_ss(line):
                sockets.append(line)
                continue
            self._take_ss(sockets)
            self._guard(line, self._line)
        self._take_ss(sockets)
        while runs:
            self._take_run(runs.popleft())
        self._conclude()

    def _take_run(self, run: Run) -> None:
        """Read many lines of routes at once."""
        self._leave()
        host = self.draft.host

        def read_line(number: int, text: str) -> Route | None:
            lines, _ = read_lines([text], number)
            self._guard(lines[0], self._line)
            newest = routes_of(host).newest()
            return newest if newest is not None and newest.line == lines[0].text else None

        read_run(host, run, read_line)

    def _problem(self, wrong: Wrong, line: Line | None) -> Problem:
        word = wrong.word
        if word is None and line is not None:  # the end of the line
            last = line.words[-1]
            text = self.written[last.line - 1]
            width = len(last.text) + 2 * last.quoted
            word = Word("", last.line, min(last.column + width + 1, len(text) + 2))
        assert word is not None
        return Problem(
            self.name, word.line, word.column, wrong.expected, wrong.nearest,
            max(1, len(word.text)), self.written[word.line - 1].rstrip(),
        )  # fmt: skip

    def _guard(self, line: Line, work: Callable[[Line], None]) -> None:
        try:
            work(line)
        except Skip:
            pass
        except ControlError as error:
            self.problems.append(self._problem(Wrong(line.words[0], str(error)), line))
        except Wrong as wrong:
            self.problems.append(self._problem(wrong, line))

    # --- lines as a whole -----------------------------------------------------------------------------

    def _join_nexthops(self) -> None:
        """`ip route` prints the next hops of a multipath route on lines of their own."""
        joined: list[Line] = []
        for line in self.lines:
            goes_on = line.words[0].text == "nexthop" and not begins_nexthop(line.words)
            if goes_on and joined and _is_route(joined[-1]):
                joined[-1].words += line.words
            else:
                joined.append(line)
        self.lines = joined

    def _is_ss(self, line: Line) -> bool:
        first = line.words[0].text
        if first in _SS:
            return True
        return first in ("udp", "udplite") and len(line.words) > 1 and line.words[1].text in _SS

    def _take_ss(self, lines: list[Line]) -> None:
        if not lines:
            return
        text = "\n".join(self.written[line.words[0].line - 1] for line in lines)
        try:
            self.draft.host.listeners += parse_ss(text, self.name)
        except SsError as error:
            for problem in error.problems:
                at = lines[problem.line - 1].words[0].line
                word = Word("", at, problem.column)
                self.problems.append(
                    self._problem(Wrong(word, f"expected {problem.expected}"), None)
                )
        lines.clear()

    def _line(self, line: Line) -> None:
        reader = Reader(line.words)
        if reader.left > 1:
            reader.skip("$")
        if reader.left > 1:
            reader.skip("sudo")
        first = reader.text
        rest = reader.words[reader.at :]
        draft = self.draft
        if first == "ip" or first == "/sbin/ip" or first.startswith("-") and first in _OPTIONS:
            reader.skip("ip", "/sbin/ip")
            self._ip(reader, line)
        elif first in self.own:
            reader.take(first)
            self._leave()
            self.own[first](reader, line)
            reader.end()
        elif _HEADER.fullmatch(first):
            self._numbered(reader, rest, line)
        elif self._block_line(reader, first):
            pass
        elif len(rest) > 1 and rest[1].text in LINK_STATES and find_keyword(first, OBJECTS) is None:
            self._leave()
            read_brief(draft, reader)
        elif begins_sysctl(rest):
            self._leave()
            read_sysctl(draft, reader)
        elif begins_listener(first):
            self._leave()
            read_listen(draft, reader, line.text)
        elif is_printed_nexthop(rest):
            self._leave()
            read_printed_nexthop(draft, reader, line.text)
        elif begins_nexthop(rest):
            self._ip(reader, line)
        elif begins_route(first):
            self._leave()
            if is_printed_neighbour(rest):
                read_printed_neighbour(draft, reader)
            else:
                read_printed_route(draft, reader, line.text)
        elif len(first) > 1 and find_keyword(first, OBJECTS) is not None:
            self._ip(reader, line)
        else:
            raise Wrong(reader.word, *_unknown(first))

    def _leave(self) -> None:
        self.draft.block = None

    def _block_line(self, reader: Reader, first: str) -> bool:
        """Lines below the one with a device's name in the output of `ip link` and `ip addr`."""
        draft = self.draft
        if first.startswith("link/"):
            read_link_line(draft, reader)
        elif first in ("inet", "inet6"):
            read_inet_line(draft, reader)
        elif first == "valid_lft":
            if draft.block is None:
                raise Wrong(reader.word, "expected an address above")
        elif draft.block is not None and (first in _SKIPPED or number_of(first) is not None):
            pass  # other names and counters
        elif draft.block is not None and first in _DETAILS and reader.words[0].column > 1:
            read_detail_line(draft, reader)
        else:
            return False
        return True

    def _numbered(self, reader: Reader, rest: list[Word], line: Line) -> None:
        """`2: eth0: <…>`, `2: eth0    inet …` or `1000: from all lookup 100`."""
        second = rest[1].text if len(rest) > 1 else ""
        third = rest[2].text if len(rest) > 2 else ""
        if second.endswith(":"):
            read_header(self.draft, reader)
            if reader:  # ip -o
                read_link_line(self.draft, reader)
        elif third in ("inet", "inet6"):
            read_one_line(self.draft, reader)
        elif is_printed_rule(rest[0].text):
            self._leave()
            read_printed_rule(self.draft, reader, line.text)

    # --- ip -------------------------------------------------------------------------------------------

    def _ip(self, reader: Reader, line: Line) -> None:
        self._leave()
        family = None
        while reader.text.startswith("-"):
            word = reader.take("an option")
            if word.text in ("-f", "-family"):
                family = {"inet": 4, "inet6": 6}[reader.choice(("inet", "inet6"), "inet or inet6")]
            elif word.text in ("-n", "-netns", "-b", "-batch", "-j", "-json"):
                raise Wrong(
                    word, f"{word.text} is not supported; one namespace is described in text"
                )
            elif word.text not in _OPTIONS:
                raise Wrong(
                    word, f"expected an option of ip like -6, not {word.text!r}",
                    nearest(word.text, _OPTIONS),
                )  # fmt: skip
            else:
                family = _OPTIONS[word.text] or family
        word = reader.take("route, rule, addr, link or neigh")
        what = find_keyword(word.text, OBJECTS)
        draft = self.draft
        if what not in (None, "address", "link", "route", "rule", "neighbor", "neighbour"):
            draft.listing = ""
        if what == "route":
            read_route(draft, reader, family, line.text)
        elif what == "rule":
            read_rule(draft, reader, family, line.text)
        elif what == "address":
            read_address(draft, reader, family)
        elif what == "link":
            read_link(draft, reader)
        elif what in ("neighbor", "neighbour"):
            read_neighbour(draft, reader, family)
        elif what == "tuntap":
            read_tuntap(draft, reader)
        elif what == "nexthop":
            read_nexthop(draft, reader, family, line.text)
        elif what is None:
            raise Wrong(
                word, f"expected route, rule, addr, link or neigh, not {word.text!r}",
                nearest(word.text, ("route", "rule", "addr", "link", "neigh")),
            )  # fmt: skip
        else:
            raise Wrong(word, f"ip {what} is not supported")
        reader.end()

    # --- our own lines --------------------------------------------------------------------------------

    def _map(self, reader: Reader) -> None:
        interface = reader.take("the name of an interface in the capture")
        device = reader.take("the name of a device")
        self.draft.mapped.append((interface, device))

    def _switch(self, reader: Reader) -> None:
        names = [s.name for s in SWITCHES]
        name = reader.take("the name of a switch")
        if "=" in name.text:
            text, _, value_text = name.text.partition("=")
            value = Word(value_text, name.line, name.column + len(text) + 1)
            name = Word(text, name.line, name.column)
        else:
            reader.skip("=")
            value = reader.take("the value of the switch")
        if name.text not in names:
            raise Wrong(name, f"no switch is called {name.text!r}", nearest(name.text, names))
        if len(value.text) > 20:
            raise Wrong(value, f"{value.text[:20]}… is too long for the value of a switch")
        try:
            self.draft.host.switches[name.text] = check_switch(name.text, value.text)
        except SwitchError as error:
            raise Wrong(value, str(error)) from None

    def _table(self, reader: Reader) -> None:
        number = reader.take("the number of a table")
        value = number_of(number.text)
        if value is None or not 0 < value <= 0xFFFFFFFF:
            raise Wrong(number, f"expected the number of a table, not {number.text!r}")
        name = reader.take("a name for the table")
        if number_of(name.text) is not None:
            raise Wrong(name, f"expected a name for the table, not {name.text!r}")
        if self.draft.tables.get(name.text, value) != value:
            taken = self.draft.tables[name.text]
            raise Wrong(name, f"table {taken} is called {name.text!r} already")
        self.draft.tables[name.text] = value

    # --- the end --------------------------------------------------------------------------------------

    def _conclude(self) -> None:
        draft = self.draft
        names = draft.names()
        for interface, device in draft.mapped:
            if draft.host.device(device.text) is not None:
                draft.host.device_map[interface.text] = device.text
            elif device.text not in draft.broken:
                wrong = Wrong(
                    device, f"no device is called {device.text!r}", nearest(device.text, names, 0.5)
                )
                self.problems.append(self._problem(wrong, None))
        for name, parent in draft.parents.items():
            made = draft.host.device(name)
            if made is None:
                continue
            if made.kind == "ether" and made.parent is None:
                draft.warn(parent, f"what kind of device {name} is shows `ip -d link`")
            elif made.parent == parent.text and draft.host.device(parent.text) is None:
                near = nearest(parent.text, names, 0.5)
                wrong = Wrong(parent, f"no device is called {parent.text!r}", near)
                self.problems.append(self._problem(wrong, None))
        told: set[str] = set()
        for word in draft.mentioned:
            name = device_name(word)
            if draft.host.device(name) is None and name not in told | draft.broken:
                told.add(name)
                draft.warn(word, f"no device is called {name!r}", nearest(name, names, 0.5))


def _without_runs(written: list[str], runs: list[Run]) -> list[str]:
    """The lines with those of runs left empty, so that the others keep their numbers."""
    left = list(written) if runs else written
    for run in runs:
        begin = run.first - 1
        left[begin : begin + len(run.lines)] = [""] * len(run.lines)
    return left


def _is_route(line: Line) -> bool:
    """Whether a line is one of `ip route`, typed or printed."""
    texts = [w.text for w in line.words if w.text not in ("$", "sudo", "ip", "-4", "-6")]
    if not texts:
        return False
    return begins_route(texts[0]) or find_keyword(texts[0], OBJECTS) == "route"


def _unknown(first: str) -> tuple[str, str | None]:
    valid = ("ip", *OWN, "route", "rule", "addr", "link", "neigh", "default", "blackhole",
             "unreachable", "prohibit", "throw")  # fmt: skip
    expected = "expected a line for ip, a sysctl (net.…=…), " + ", ".join(OWN)
    return f"{expected}, not {first[:40]!r}", nearest(first, valid)
