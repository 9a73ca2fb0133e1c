"""Scenario files: lines of a host file, then timed steps; reading and writing.

    name      a source that the route back does not reach
    ip link add r0 type tun
    ip addr add 10.0.0.1/24 dev r0
    net.ipv4.conf.all.rp_filter = 1
    listen udp 0.0.0.0:2000

    inject r0 ip 10.0.0.2 > 10.0.0.1 / udp 1000 > 2000      # allowed
    wait 0.5
    net.ipv4.conf.all.rp_filter = 2
    list r0
        ip 10.0.0.2 > 10.0.0.1 / udp 1000 > 2000
        ip 66.0.0.1 > 10.0.0.1 / udp 1000 > 2000
    send 0 to 10.0.0.2:1000 / "hello"
    route get 10.0.0.9
    route show -6 cache

Host lines before the first step make the host, those behind it change it.  A comment behind a packet
is its label.  docs/kernel.md describes the format.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ippath.config.host_file import OWN
from ippath.config.values import number_of
from ippath.config.words import (
    HostErrors, Line, Problem, Reader, Wrong, lines_of, nearest, read_lines,
)  # fmt: skip
from ippath.verify.on_kernel import RAW_IP_KINDS
from ippath.verify.packet_text import describe, read_packet
from ippath.verify.scenario import (
    Burst, Inject, RouteGet, Run, Scenario, Send, ShowCache, Step, Together, Wait,
)  # fmt: skip

LONGEST_LIST = 8  # net.core.gro_normal_batch
LONGEST_WAIT = 3600.0  # seconds
_ADD_DEVICE = re.compile(r"ip link add (?:name )?(\S+) .*type (\S+)")
_IGNORABLE = ("timestamp option", "icmp timestamp")


def load_scenario(path: str | Path) -> Scenario:
    """The scenario in a file; raises HostErrors (file, line, column, what was expected)."""
    return parse_scenario(Path(path).read_text(encoding="utf-8", errors="replace"), str(path))


def parse_scenario(text: str, name: str = "<scenario>") -> Scenario:
    """The scenario that a text describes; `name` is what messages call it.

    Raises HostErrors that lists all that is wrong.
    """
    from ippath.config import parse_host

    parser = _Parser(text, name)
    scenario = parser.run()
    try:
        parse_host(parser.host_text(), name)
    except HostErrors as wrong:
        parser.problems += wrong.problems
    if parser.problems:
        raise HostErrors(sorted(parser.problems, key=lambda p: (p.line, p.column)))
    return scenario


class _Parser:
    def __init__(self, text: str, name: str):
        self.file = name
        self.written = lines_of(text)
        self.lines, wrongs = read_lines(self.written)
        self.problems = [self.problem(wrong, None) for wrong in wrongs]
        self.comments = [_comment(line) for line in self.written]
        self.host: list[str] = []
        self.steps: list[Step] = []
        self.change: list[str] = []
        self.host_lines: set[int] = set()
        self.told = {"name": Path(name).stem, "subject": "file"}
        self.ignore: tuple[str, ...] = ()
        self.open: tuple[type[Burst | Together], str, dict[str, bytes]] | None = None
        self.labels = 0
        self.readers: dict[str, Callable[[Reader, Line], None]] = {
            "inject": self.inject, "list": self.several, "burst": self.several, "wait": self.wait,
            "send": self.send, "name": self.tell, "subject": self.tell, "ignore": self.pass_over,
        }  # fmt: skip

    def run(self) -> Scenario:
        for line in self.lines:
            try:
                self.read(line)
            except Wrong as wrong:
                self.problems.append(self.problem(wrong, line))
        self.close()
        self.flush_change()
        host = "\n".join(self.host) + "\n"
        return Scenario(
            self.told["name"], self.told["subject"], host, tuple(self.steps), self.ignore
        )

    def host_text(self) -> str:
        """The text with nothing but its host lines, at their numbers."""
        return "\n".join(
            line if number in self.host_lines else "" for number, line in enumerate(self.written, 1)
        )

    def problem(self, wrong: Wrong, line: Line | None) -> Problem:
        word = wrong.word or (line.words[-1] if line else None)
        if word is None:
            return Problem(self.file, 0, 0, wrong.expected, wrong.nearest)
        column = word.column if wrong.word else word.column + len(word.text) + 1
        length = len(word.text) if wrong.word else 1
        text = self.written[word.line - 1]
        return Problem(self.file, word.line, column, wrong.expected, wrong.nearest, length, text)

    # --- lines ----------------------------------------------------------------------------------------

    def read(self, line: Line) -> None:
        reader, first = Reader(line.words), line.words[0].text
        if self.open and line.indented:
            self.member(reader, line)
            return
        self.close()
        if first in self.readers:
            if first not in ("name", "subject", "ignore"):
                self.flush_change()
            reader.take("")
            self.readers[first](reader, line)
        elif [w.text for w in line.words[:2]] == ["route", "get"]:
            self.flush_change()
            words = tuple(w.text for w in line.words[2:])
            if not words:
                raise Wrong(None, "expected the address to get a route for")
            self.steps.append(RouteGet(words))
        elif [w.text for w in line.words[:2]] == ["route", "show"]:
            self.flush_change()
            words = tuple(w.text for w in line.words[2:])
            if words not in (("cache",), ("-6", "cache")):
                raise Wrong(line.words[-1], "expected `cache` or `-6 cache` after `route show`")
            self.steps.append(ShowCache(6 if words[0] == "-6" else 4))
        elif first not in OWN and (meant := nearest(first, self.readers, 0.7)):
            raise Wrong(line.words[0], f"expected a step or a line of a host, not {first!r}", meant)
        else:
            self.host_line(line)

    def host_line(self, line: Line) -> None:
        for word in line.words:
            self.host_lines.add(word.line)
        (self.change if self.steps else self.host).append(line.text)

    def flush_change(self) -> None:
        if self.change:
            self.steps.append(Run(tuple(self.change)))
            self.change = []

    def close(self) -> None:
        """End an open `list` or `burst`."""
        if self.open:
            made, device, packets = self.open
            self.steps.append(made(device, packets))
            self.open = None

    def tell(self, reader: Reader, line: Line) -> None:
        kind = line.words[0].text
        reader.take(f"the {kind}")
        self.told[kind] = " ".join(w.text for w in line.words[1:])

    def pass_over(self, reader: Reader, line: Line) -> None:
        text = " ".join(w.text for w in line.words[1:])
        if text not in _IGNORABLE:
            near = nearest(text, _IGNORABLE)
            raise Wrong(reader.word, f"expected one of: {', '.join(_IGNORABLE)}", near)
        self.ignore += (text,)

    # --- steps ----------------------------------------------------------------------------------------

    def device(self, reader: Reader) -> str:
        return reader.take("the name of a device").text

    def label(self, line: Line) -> str:
        self.labels += 1
        return self.comments[line.words[-1].line - 1] or str(self.labels)

    def inject(self, reader: Reader, line: Line) -> None:
        device = self.device(reader)
        packet = {self.label(line): read_packet(reader)}
        self.steps.append(Inject(device, packet))

    def several(self, reader: Reader, line: Line) -> None:
        made: type[Burst | Together] = Together if line.words[0].text == "list" else Burst
        device = self.device(reader)
        reader.end()
        self.open = (made, device, {})

    def member(self, reader: Reader, line: Line) -> None:
        assert self.open
        made, _, packets = self.open
        if made is Together and len(packets) == LONGEST_LIST:
            raise Wrong(reader.word, f"a receive list holds {LONGEST_LIST} packets at most")
        packets[self.label(line)] = read_packet(reader)

    def wait(self, reader: Reader, line: Line) -> None:
        word = reader.take("a number of seconds")
        try:
            seconds = float(word.text.removesuffix("s"))
        except ValueError:
            seconds = -1
        if not 0 <= seconds <= LONGEST_WAIT:
            raise Wrong(word, f"expected a number of seconds up to {LONGEST_WAIT:g}")
        reader.end()
        self.steps.append(Wait(seconds))

    def send(self, reader: Reader, line: Line) -> None:
        """`send SOCKET [to ADDRESS:PORT] [ttl N] [tos N] [dev NAME] [from ADDRESS] [/ PAYLOAD]`."""
        sockets = sum(text.startswith("listen udp") for text in self.host)
        if not sockets:
            raise Wrong(line.words[0], "the host has no socket: a line `listen udp …` makes one")
        socket = self.number(reader, sockets - 1, "the number of a socket, from 0")
        given: dict[str, str] = {}
        while reader and reader.text != "/":
            name = reader.choice(("to", "ttl", "tos", "dev", "from"), "to, ttl, tos, dev or from")
            word = reader.word
            given[name] = reader.take(f"the value of {name}").text
            if name in ("ttl", "tos") and number_of(given[name]) is None:
                raise Wrong(word, f"expected a number, not {given[name]!r}")
        payload = b""
        if reader.skip("/"):
            payload = read_packet(reader)
        to = None
        if "to" in given:
            host, _, port = given["to"].rpartition(":")
            if not host or number_of(port) is None:
                raise Wrong(line.words[2], "expected ADDRESS:PORT behind to")
            to = (host.strip("[]"), int(port))
        numbers = {k: number_of(given[k]) for k in ("ttl", "tos") if k in given}
        self.steps.append(
            Send(socket, payload, to, numbers.get("ttl"), numbers.get("tos"), given.get("dev"),
                 given.get("from"))
        )  # fmt: skip

    def number(self, reader: Reader, most: int, what: str) -> int:
        word = reader.take(what)
        value = number_of(word.text)
        if value is None or not 0 <= value <= most:
            raise Wrong(word, f"expected {what} up to {most}, not {word.text!r}")
        return value


def _comment(line: str) -> str:
    """What stands behind a # that begins the line or follows a space."""
    found = re.search(r'(?:^|\s)#\s*([^"\']*)$', line)
    return found[1].strip() if found else ""


# --- writing ------------------------------------------------------------------------------------------


def scenario_text(scenario: Scenario) -> str:
    """The scenario as the text of a scenario file."""
    ethernet = {
        match[1]: match[2] not in RAW_IP_KINDS for match in _ADD_DEVICE.finditer(scenario.host)
    }
    lines = [f"name {scenario.name}", f"subject {scenario.subject}"]
    lines += [f"ignore {what}" for what in scenario.ignore]
    lines += ["", *scenario.host.strip().splitlines(), ""]
    for step in scenario.steps:
        lines += _step_lines(step, ethernet)
    return "\n".join(lines) + "\n"


def _step_lines(step: Step, ethernet: dict[str, bool]) -> list[str]:
    if isinstance(step, Run):
        return ["", *step.lines, ""]
    if isinstance(step, Wait):
        return [f"wait {step.seconds:g}"]
    if isinstance(step, RouteGet):
        return [f"route get {' '.join(step.words)}"]
    if isinstance(step, ShowCache):
        return [f"route show {'-6 ' if step.family == 6 else ''}cache"]
    if isinstance(step, Send):
        return [_send_line(step)]
    is_frame = ethernet.get(step.device, False)
    packets = [
        describe(packet, ethernet=is_frame) + _label_comment(label)
        for label, packet in step.packets.items()
    ]
    if isinstance(step, Inject):
        return [f"inject {step.device} {text}" for text in packets]
    word = "list" if isinstance(step, Together) else "burst"
    return [f"{word} {step.device}", *(f"    {text}" for text in packets)]


def _label_comment(label: str) -> str:
    plain = label.translate(str.maketrans("", "", "\"'#")).strip()
    return f"    # {plain}" if plain and not plain.isdecimal() else ""


def _send_line(step: Send) -> str:
    words = [f"send {step.socket}"]
    if step.to:
        host, port = step.to
        words.append(f"to [{host}]:{port}" if ":" in host else f"to {host}:{port}")
    for name, value in (("ttl", step.ttl), ("tos", step.tos), ("dev", step.device), ("from", step.source)):  # fmt: skip
        words += [f"{name} {value}"] if value is not None else []
    if step.payload:
        words.append(f"/ {describe(step.payload)}")
    return " ".join(words)
