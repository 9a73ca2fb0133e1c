"""Runs scenarios in the running kernel, each in a network namespace of its own.

    with Kernel() as kernel:
        answer = kernel.run(scenario)

Devices are TUN (raw IP) or TAP (Ethernet frames); this process is the wire.  A write returns when
the kernel is done with the packet, so that what it caused can be read at once.  Scenarios with
receive lists use devices with NAPI (see `namespace.NapiThreads`).
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import itertools
import os
import pickle
import re
import select
import signal
import socket
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from ippath.verify import dscp_rules
from ippath.verify.connection_tracking import track_connections
from ippath.verify.namespace import (
    Drops, KernelError, NapiThreads, available, enter_new_network, in_child, open_tun,
    read_counters, set_carrier, trace_instance, write_sysctl,
)  # fmt: skip
from ippath.verify.normal import Normal, is_noise
from ippath.verify.outcome import Answer, Datagram, Outcome
from ippath.verify.scenario import (
    Burst, Inject, RouteGet, Run, Scenario, Send, ShowCache, Step, Together, Wait,
)  # fmt: skip

SO_BINDTODEVICE, SO_REUSEADDR, SO_REUSEPORT, UDP_NO_CHECK6_RX = 25, 2, 15, 102
IP_TOS, IP_TTL, IP_PKTINFO, IP_RECVTTL, IP_RECVTOS = 1, 2, 8, 12, 13
IPV6_RECVPKTINFO, IPV6_PKTINFO, IPV6_RECVHOPLIMIT, IPV6_HOPLIMIT = 49, 50, 51, 52
IPV6_RECVTCLASS, IPV6_TCLASS = 66, 67
RAW_IP_KINDS = ("tun", "none", "ppp", "wireguard")
ETHERNET_KINDS = ("veth", "tap", "dummy", "ether", "bridge")
CLOCK_MONOTONIC_COARSE = 6  # Python's `time` has no name for it
TICK_NS = round(time.clock_getres(CLOCK_MONOTONIC_COARSE) * 1e9)
LARGEST = 70_000  # bytes: more than any packet or datagram
LINKWATCH = 1.2  # seconds after which routes know that a carrier went or came
TRIES = 4  # the kernel may speak in between, or the machine be too busy


class _Disturbed(Exception):
    """Something else happened in between; the scenario has to be run again."""


class Kernel:
    """The running kernel as an executor of scenarios.

    A process beside this one asks it; it ends, and all it made, with the context.  Raises
    KernelError where the kernel can't be asked (see `namespace.available`).
    """

    def __enter__(self) -> Self:
        if why_not := available():
            raise KernelError(f"the kernel can't be asked here: {why_not}")
        there, mine = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            mine.close()
            _serve(there)
        there.close()
        self._channel = mine.makefile("rwb")
        mine.close()
        return self

    def __exit__(self, *problem: object) -> None:
        with contextlib.suppress(OSError):
            self._channel.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def run(self, scenario: Scenario, *, counters: bool = True) -> Answer:
        """What the kernel does; with `counters` after each packet, else only in all.

        A host that the kernel refuses gives an answer with an `error`.  Raises KernelError where
        namespaces or trace events are not allowed.
        """
        try:
            pickle.dump((scenario, counters), self._channel)
            self._channel.flush()
            answer = pickle.load(self._channel)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise KernelError("the process that asks the kernel ended") from None
        if isinstance(answer, KernelError):
            raise answer
        return answer


def _serve(channel: socket.socket) -> None:
    """The process beside: answers requests until the channel closes.  Never returns."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent closes the channel
        with channel.makefile("rwb") as requests:
            try:
                with trace_instance() as trace:
                    _answer_requests(requests, trace)
            except KernelError as problem:
                pickle.dump(problem, requests)
        status = 0
    finally:
        os._exit(status)


def _answer_requests(requests: Any, trace: Path) -> None:
    while True:
        try:
            scenario, counters = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(_ask(scenario, trace, counters), requests)
        requests.flush()


def _ask(scenario: Scenario, trace: Path, counters: bool) -> Answer:
    error = ""
    for _ in range(TRIES):
        try:
            return in_child(lambda: Session(scenario, trace, counters).run())
        except KernelError as problem:
            error = str(problem)
            if "_Disturbed" not in error:
                break
    return Answer(error=error)


class Session:
    """One scenario in one namespace; lives in a forked child."""

    def __init__(self, scenario: Scenario, trace: Path, counters: bool) -> None:
        self.scenario, self.counters = scenario, counters
        self.trace_folder = trace
        self.wires: dict[str, int] = {}  # device -> file descriptor of the wire's end
        self.listeners: list[socket.socket] = []
        self.never_read: set[int] = set()
        self.joined: list[socket.socket] = []
        self.ip_lines: list[str] = []
        self.napi = any(isinstance(s, Together) for s in scenario.steps)
        self.ready = select.poll()
        self.names: dict[int, str] = {}  # device by the wire's descriptor
        self.numbers: dict[int, int] = {}  # listener by its descriptor
        self.received = Normal()
        self.before: dict[str, int] = {}
        self.total: Counter[str] = Counter()

    def make_host(self) -> None:
        """Enter a namespace and make the host there; raises KernelError where it is refused."""
        enter_new_network()
        self.ip_lines.append("link set lo up")
        for line in self.scenario.host.splitlines():
            self.apply(line.split("#")[0].strip())
        self.flush_ip()
        self.settle()

    def run(self) -> Answer:
        """Make the host and take it through the steps."""
        self.make_host()
        self.start_watching()
        outcomes = [outcome for step in self.scenario.steps for outcome in self.step(step)]
        self.account()
        self.drops.close()
        return Answer(outcomes, dict(self.total))

    # --- making the host ------------------------------------------------------------------------------

    def apply(self, line: str) -> None:
        words = line.replace("=", " = ").split()
        if words[:2] == ["switch", "conntrack_defrag"] and words[-1] == "on":
            track_connections()
        if not line or line.startswith(("switch ", "map ", "table ")):
            return
        words = line.split()
        if words[0] == "ip":
            self.ip_line(words)
            return
        self.flush_ip()
        if words[0] == "listen":
            self.listen(words)
        elif words[0] == "join":
            self.join(words)
        elif "=" in line:
            name, value = (part.strip() for part in line.split("=", 1))
            write_sysctl(name, value)
        else:
            raise KernelError(f"what is this line? {line}")

    def ip_line(self, words: list[str]) -> None:
        line = " ".join(words[1:])
        if words[1:3] == ["link", "add"] and words[-1] in RAW_IP_KINDS + ETHERNET_KINDS:
            self.make_device(words)
        elif words[1:3] == ["link", "set"] and words[-2:-1] == ["carrier"]:
            self.flush_ip()
            set_carrier(self.wires[words[3]], words[-1] == "on")
            time.sleep(LINKWATCH)
        elif "rule" in words[:3] and "add" in words and "dscp" in words:
            self.flush_ip()
            dscp_rules.add_rule(dscp_rules.rule_of(" ".join(words)))
        elif "addr" in words[:3] and "add" in words and ":" in line and "nodad" not in words:
            self.ip_lines.append(line + " nodad")
        else:
            self.ip_lines.append(line)

    def flush_ip(self) -> None:
        """Run the `ip` lines gathered so far, in order; `-6` lines need a run of their own."""
        lines, self.ip_lines = self.ip_lines, []
        for six, group in itertools.groupby(lines, lambda line: line.startswith("-6 ")):
            text = "".join(line.removeprefix("-6 ") + "\n" for line in group)
            command = ["ip", *(["-6"] if six else []), "-batch", "-"]
            done = subprocess.run(command, input=text, text=True, capture_output=True)
            if done.returncode:
                raise KernelError(f"{done.stderr.strip()} in\n{text}")

    def make_device(self, words: list[str]) -> None:
        """`ip link add NAME [address MAC] [mtu N] … type KIND`."""
        self.flush_ip()
        name, kind = words[3], words[-1]
        fd = open_tun(name, ethernet=kind in ETHERNET_KINDS, napi=self.napi)
        self.wires[name], self.names[fd] = fd, name
        self.ready.register(fd, select.POLLIN)
        if len(words) > 6:
            settings = " ".join(words[4:-2])
            self.ip_lines.append(f"link set {name} {settings}")
        self.ip_lines.append(f"link set {name} up")  # as in host files, unless a line says down

    def listen(self, words: list[str]) -> None:
        options = words[3:]
        host, port = _endpoint(words[2])
        six = ":" in host
        family = socket.AF_INET6 if six else socket.AF_INET
        protocol = 136 if words[1] == "udplite" else 17
        sock = socket.socket(family, socket.SOCK_DGRAM, protocol)
        sock.setblocking(False)
        for name, option in (("reuseport", SO_REUSEPORT), ("reuseaddr", SO_REUSEADDR)):
            if name in options or (name == "reuseaddr" and "noreuseaddr" not in options):
                sock.setsockopt(socket.SOL_SOCKET, option, 1)
        if six:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int("v6only" in options))
            for option in (IPV6_RECVPKTINFO, IPV6_RECVHOPLIMIT, IPV6_RECVTCLASS):
                sock.setsockopt(socket.IPPROTO_IPV6, option, 1)
        if "no_check6_rx" in options:
            sock.setsockopt(protocol, UDP_NO_CHECK6_RX, 1)
        for option in (IP_PKTINFO, IP_RECVTTL, IP_RECVTOS):
            sock.setsockopt(socket.IPPROTO_IP, option, 1)
        given = dict(zip(options, options[1:]))
        if "dev" in given:
            sock.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, given["dev"].encode())
        sock.bind((host, port))
        if "peer" in given:
            sock.connect(_endpoint(given["peer"]))
        if given.get("reader") == "none":
            self.never_read.add(len(self.listeners))
        else:
            self.numbers[sock.fileno()] = len(self.listeners)
            self.ready.register(sock, select.POLLIN)
        self.listeners.append(sock)

    def join(self, words: list[str]) -> None:
        group, index = words[1], socket.if_nametoindex(words[3])
        if ":" in group:
            sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            request = socket.inet_pton(socket.AF_INET6, group) + struct.pack("=I", index)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
        else:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            request = socket.inet_aton(group) + bytes(4) + struct.pack("=I", index)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
        self.joined.append(sock)

    def settle(self) -> None:
        """Wait until the namespace has said what it says unasked, and forget it."""
        before: dict[str, int] = {}
        quiet = 0
        for _ in range(100):
            time.sleep(0.02)
            self.read_ready(Outcome("", ()))
            now = read_counters()
            quiet = quiet + 1 if now == before else 0
            before = now
            if quiet == 3:
                return
        raise KernelError("the namespace does not become quiet")

    def start_watching(self) -> None:
        threads = [os.getpid()]
        if any(isinstance(s, Wait) and s.busy for s in self.scenario.steps):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # where its timers will run
        if self.napi:
            self.threads = NapiThreads(list(self.wires))
            threads += self.threads.pids
        self.drops = Drops(self.trace_folder, threads)
        self.before = read_counters()

    # --- asking ---------------------------------------------------------------------------------------

    def step(self, step: Step) -> Iterator[Outcome]:
        if isinstance(step, Inject):
            for label, packet in step.packets.items():
                outcome = Outcome("packet", (label,), step.device, (packet,), time_ns=_now())
                self.write(step.device, packet)
                if self.napi:
                    self.threads.wait()  # the device's thread takes it, not the writer
                yield self.collect(outcome)
        elif isinstance(step, Burst):
            packets = tuple(step.packets.values())
            outcome = Outcome("burst", tuple(step.packets), step.device, packets, time_ns=_now())
            for packet in packets:
                self.write(step.device, packet)
            yield self.collect(outcome)
        elif isinstance(step, Together):
            packets = tuple(step.packets.values())
            outcome = Outcome("list", tuple(step.packets), step.device, packets, time_ns=_now())
            with self.threads.held_up():
                for packet in packets:
                    self.write(step.device, packet)
            yield self.collect(outcome)
        elif isinstance(step, Wait):
            self.wait(step)
            yield self.collect(Outcome("wait", (f"{step.seconds:g}",), time_ns=_now()))
        elif isinstance(step, Send):
            outcome = Outcome("send", (str(step.socket),), time_ns=_now())
            outcome.said = self.send(step)
            yield self.collect(outcome)
        elif isinstance(step, RouteGet):
            outcome = Outcome("route", (" ".join(step.words),), time_ns=_now())
            outcome.said = self.route_get(step.words)
            yield self.collect(outcome)
        elif isinstance(step, ShowCache):
            outcome = Outcome("cache", (str(step.family),), time_ns=_now())
            told = self.ip(f"-{step.family}", "route", "show", "cache")
            outcome.said = sorted_entries(told, step.family)
            yield self.collect(outcome)
        else:
            self.change(step)

    def wait(self, step: Wait) -> None:
        if not step.busy:
            time.sleep(step.seconds)
            return
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
        try:
            end = time.monotonic() + step.seconds
            while time.monotonic() < end:
                pass
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    def write(self, device: str, packet: bytes) -> None:
        self.received.receive(packet)
        try:
            os.write(self.wires[device], packet)
        except KeyError:
            raise KernelError(f"no wire at device {device}") from None
        except OSError as problem:  # a device that is down, a packet that a TUN device can't be
            raise KernelError(f"packet to {device}: {problem.strerror}") from None

    def change(self, step: Run) -> None:
        """Change the host; what it says and counts meanwhile is nobody's packet."""
        self.account()
        for line in step.lines:
            self.apply(line)
        self.flush_ip()
        time.sleep(0.02)
        self.read_ready(Outcome("", ()))
        self.drops.read()
        self.before = read_counters()

    def account(self) -> dict[str, int]:
        """By how much each counter rose since the last call."""
        now = read_counters()
        rise = {k: v - self.before.get(k, 0) for k, v in now.items() if v != self.before.get(k, 0)}
        self.before = now
        self.total.update(rise)
        return rise

    def send(self, step: Send) -> str:
        """Send by `sendmsg`; the name of the errno, or nothing."""
        sock = self.listeners[step.socket]
        six = sock.family == socket.AF_INET6
        level = socket.IPPROTO_IPV6 if six else socket.IPPROTO_IP
        control = []
        if step.ttl is not None:
            kind = IPV6_HOPLIMIT if six else IP_TTL
            control.append((level, kind, struct.pack("=i", step.ttl)))
        if step.tos is not None:
            kind = IPV6_TCLASS if six else IP_TOS
            control.append((level, kind, struct.pack("=i", step.tos)))
        if step.device is not None or step.source is not None:
            index = socket.if_nametoindex(step.device) if step.device else 0
            if six:
                address = socket.inet_pton(socket.AF_INET6, step.source or "::")
                control.append((level, IPV6_PKTINFO, address + struct.pack("=I", index)))
            else:
                address = socket.inet_aton(step.source or "0.0.0.0")
                info = struct.pack("=i4s4x", index, address)
                control.append((level, IP_PKTINFO, info))
        try:
            sock.sendmsg([step.payload], control, 0, *([step.to] if step.to else []))
        except OSError as problem:
            return errno.errorcode[problem.errno or 0]
        return ""

    def route_get(self, words: tuple[str, ...]) -> str:
        return self.ip("-6" if ":" in words[0] else "-4", "route", "get", *words)

    def ip(self, *words: str) -> str:
        """What an `ip` command prints."""
        done = subprocess.run(["ip", *words], text=True, capture_output=True)
        return (done.stdout or done.stderr).strip()

    def collect(self, outcome: Outcome) -> Outcome:
        self.read_ready(outcome)
        outcome.drops = self.drops.read()
        if self.counters:
            outcome.counters = self.account()
        return outcome

    def read_ready(self, outcome: Outcome) -> None:
        """Read all that devices and sockets have to say."""
        while ready := self.ready.poll(0):
            for fd, _ in ready:
                if fd in self.names:
                    self.read_wire(fd, outcome)
                else:
                    self.read_socket(fd, outcome)

    def read_wire(self, fd: int, outcome: Outcome) -> None:
        sent = outcome.out.setdefault(self.names[fd], [])
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    packet = os.read(fd, LARGEST)
                except OSError as problem:
                    if problem.errno != errno.EBADFD:
                        raise
                    self.ready.unregister(fd)  # the device was deleted
                    return
                if outcome.kind and is_noise(packet) and not self.received.forwarded(packet):
                    raise _Disturbed("the namespace spoke unasked")
                sent.append(packet)

    def read_socket(self, fd: int, outcome: Outcome) -> None:
        number = self.numbers[fd]
        sock = self.listeners[number]
        while True:
            try:
                payload, control, _, source = sock.recvmsg(LARGEST, 512)
            except BlockingIOError:
                return
            except OSError as problem:  # an ICMP error for a connected socket
                outcome.errors.append((number, errno.errorcode[problem.errno or 0]))
                continue
            found = Datagram(number, payload, source[0].partition("%")[0], source[1])
            found.ancillary = _ancillary(control)
            outcome.datagrams.append(found)


def _ancillary(control: list[tuple[int, int, bytes]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for level, kind, data in control:
        number = int.from_bytes(data[:4], "little") if len(data) >= 4 else data[0]
        if (level, kind) == (socket.IPPROTO_IP, IP_PKTINFO):
            index, spec_dst, addr = struct.unpack("=i4s4s", data)
            found["device"] = _device_name(index)
            found["spec_dst"], found["addr"] = map(socket.inet_ntoa, (spec_dst, addr))
        elif (level, kind) == (socket.IPPROTO_IPV6, IPV6_PKTINFO):
            found["device"] = _device_name(int.from_bytes(data[16:20], "little"))
            found["addr"] = socket.inet_ntop(socket.AF_INET6, data[:16])
        else:
            names = {
                (socket.IPPROTO_IP, IP_TTL): "ttl", (socket.IPPROTO_IP, IP_TOS): "tos",
                (socket.IPPROTO_IPV6, IPV6_HOPLIMIT): "hoplimit",
                (socket.IPPROTO_IPV6, IPV6_TCLASS): "tclass",
            }  # fmt: skip
            found[names[level, kind]] = number
    return found


def sorted_entries(told: str, family: int) -> str:
    """What `ip route show cache` printed by destination: Linux follows a hash of its own."""
    entries = re.findall(r"[^\n]+\n +[^\n]+|[^\n]+" if family == 4 else r"[^\n]+", told)
    entries.sort(key=lambda text: int(ipaddress.ip_address(text.split()[0])))
    return "\n".join(text.rstrip() for text in entries)


def _now() -> int:
    """The clock by which the kernel limits rates, in whole ticks (jiffies)."""
    return (time.clock_gettime_ns(CLOCK_MONOTONIC_COARSE) + TICK_NS // 2) // TICK_NS * TICK_NS


def _device_name(index: int) -> str:
    """Empty for a device that is gone."""
    try:
        return socket.if_indextoname(index)
    except OSError:
        return ""


def _endpoint(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
