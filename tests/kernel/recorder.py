"""Asks the running kernel: a scenario's packets go through a fresh network namespace.

Each scenario runs in a forked child with its own network and mount namespace, so that everything
made for it (devices, addresses, routes, sockets) ends with the child, also after a crash.  The
only thing outside is a private tracefs instance for drop reasons (event skb:kfree_skb); it is named
after the process, removed at the end, and what dead recorders left is removed at the next start.

Devices are TUN (`type tun`, raw IP) or TAP (`type veth` in the scenario: an Ethernet device); the
test process is the wire.  A write returns when the kernel is done with the packet, so that what it
caused can be read at once.  A receive list is made by a device with NAPI in its own kernel thread
on our CPU: while we run with real-time priority it cannot, so that the packets queue up and it
then finds them all in one poll.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import itertools
import json
import os
import platform
import re
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kernel.normal import is_noise, normalise
from tests.kernel.scenarios import Burst, Inject, Run, Scenario, Together, Wait

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_TAP, IFF_NAPI, IFF_NO_PI = 0x0001, 0x0002, 0x0010, 0x1000
SO_BINDTODEVICE, IP_RECVERR = 25, 11
INSTANCE_PREFIX = "ippath-recorder-"
_DROP = re.compile(r"kfree_skb: .*protocol=(\d+) location=(\S+?)(?:\+0x\S+)? reason: (\w+)")

# what a fresh namespace would inherit from the machine (IPv4), set to the kernel's own defaults
_DEFAULTS4 = {
    "forwarding": 0, "rp_filter": 0, "accept_local": 0, "src_valid_mark": 0, "route_localnet": 0,
    "accept_redirects": 1, "secure_redirects": 1, "send_redirects": 1, "shared_media": 1,
    "log_martians": 0, "bc_forwarding": 0, "drop_unicast_in_l2_multicast": 0,
    "ignore_routes_with_linkdown": 0, "arp_notify": 0,
    "igmpv2_unsolicited_report_interval": 1, "igmpv3_unsolicited_report_interval": 1,
}  # fmt: skip
# IPv6 speaks unasked unless told not to
_QUIET6 = {
    "accept_dad": 0, "dad_transmits": 0, "addr_gen_mode": 1, "router_solicitations": 0,
    "accept_ra": 0, "autoconf": 0, "mldv1_unsolicited_report_interval": 1,
    "mldv2_unsolicited_report_interval": 1,
}  # fmt: skip

_libc = ctypes.CDLL(None, use_errno=True)


class RecorderError(Exception):
    """The kernel could not be asked; the message says why."""


def available() -> str:
    """Why the kernel can't be asked here, or an empty string if it can."""
    if platform.system() != "Linux":
        return "not Linux"
    if os.geteuid() != 0:
        return "needs root"
    if not os.path.exists("/dev/net/tun"):
        return "no /dev/net/tun"
    if shutil.which("ip") is None:
        return "no ip command"
    return ""


def kernel_version() -> str:
    """Release of the running kernel, the numbers only (6.18.44)."""
    return re.match(r"[0-9.]+", platform.release()).group().rstrip(".")  # type: ignore[union-attr]


def record(scenarios: list[Scenario]) -> dict[str, dict[str, Any]]:
    """The kernel's answers by scenario name; one that failed has only the key "error"."""
    return _in_child(lambda: _record_all(scenarios))


def _in_child(work: Any) -> Any:
    """Run `work` in a forked child and return its JSON-able result."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reading)
            try:
                result = {"ok": work()}
            except BaseException:
                result = {"error": traceback.format_exc()}
            with os.fdopen(writing, "w") as out:
                json.dump(result, out)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as into:
        text = into.read()
    os.waitpid(pid, 0)
    if not text:
        raise RecorderError("the recorder's child ended without an answer")
    result = json.loads(text)
    if "error" in result:
        raise RecorderError(result["error"])
    return result["ok"]


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise RecorderError(f"{what}: {os.strerror(code)}")


def _private_mounts() -> None:
    _check(_libc.unshare(CLONE_NEWNS), "unshare mounts")
    _check(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")


def _mount(kind: str, target: str) -> None:
    _check(_libc.mount(kind.encode(), target.encode(), kind.encode(), 0, None), f"mount {kind}")


def _record_all(scenarios: list[Scenario]) -> dict[str, Any]:
    _private_mounts()
    with tempfile.TemporaryDirectory(prefix=INSTANCE_PREFIX) as folder:
        _mount("tracefs", folder)
        try:
            with _trace_instance(Path(folder)) as trace:
                return {s.name: _record_with_retries(s, trace) for s in scenarios}
        finally:
            _libc.umount2(folder.encode(), 2)


@contextlib.contextmanager
def _trace_instance(root: Path) -> Iterator[Path]:
    instances = root / "instances"
    for old in instances.glob(INSTANCE_PREFIX + "*"):  # left by a recorder that was killed
        if not os.path.exists(f"/proc/{old.name.removeprefix(INSTANCE_PREFIX)}"):
            (old / "events/skb/kfree_skb/enable").write_text("0")
            old.rmdir()
    mine = instances / f"{INSTANCE_PREFIX}{os.getpid()}"
    mine.mkdir()
    try:
        (mine / "events/skb/kfree_skb/enable").write_text("1")
        yield mine
    finally:
        (mine / "events/skb/kfree_skb/enable").write_text("0")
        mine.rmdir()


def _record_with_retries(scenario: Scenario, trace: Path) -> Any:
    error: RecorderError | None = None
    for _ in range(4):
        try:
            return _in_child(lambda: _Session(scenario, trace).run())
        except RecorderError as problem:  # kernel noise in between, or a machine too busy
            error = problem
            if "Retry" not in str(problem):
                break
    return {"error": str(error)}


class Retry(Exception):
    """Something else happened in between; the scenario has to be run again."""


class _Session:
    """One scenario in one namespace; lives in the forked child."""

    def __init__(self, scenario: Scenario, trace: Path) -> None:
        self.scenario = scenario
        self.trace_folder = trace
        self.devices: dict[str, int] = {}  # name -> file descriptor of the wire end
        self.listeners: list[socket.socket] = []
        self.joined: list[socket.socket] = []
        self.ip_lines: list[str] = []
        self.received: list[bytes] = []
        self.napi = any(isinstance(s, Together) for s in scenario.steps)
        self.busy = any(isinstance(s, Wait) and s.busy for s in scenario.steps)

    def run(self) -> dict[str, Any]:
        _private_mounts()
        _check(_libc.unshare(CLONE_NEWNET), "unshare network")
        _mount("sysfs", "/sys")
        self.prepare()
        for line in self.scenario.host.splitlines():
            self.apply(line.split("#")[0].strip())
        self.flush_ip()
        self.settle()
        self.open_trace()
        results = []
        for step in self.scenario.steps:
            results.extend(self.step(step))
        os.close(self.trace)
        return {"host": self.scenario.host.splitlines(), "steps": results}

    # making the host

    def prepare(self) -> None:
        for scope in ("all", "default"):
            for name, value in _DEFAULTS4.items():
                _sysctl(f"net/ipv4/conf/{scope}/{name}", value)
            for name, value in _QUIET6.items():
                _sysctl(f"net/ipv6/conf/{scope}/{name}", value)
        _sysctl("net/ipv4/conf/all/accept_source_route", 0)
        _sysctl("net/ipv4/conf/default/accept_source_route", 1)
        _sysctl("net/ipv4/igmp_qrv", 1)

    def apply(self, line: str) -> None:
        if not line or line.startswith("switch "):
            return
        words = line.split()
        if words[0] == "ip":
            if words[1:3] == ["link", "add"] and words[-1] in ("tun", "veth"):
                self.make_device(words)
            elif "addr" in words[:3] and "add" in words and ":" in line:
                self.ip_lines.append(line.removeprefix("ip ") + " nodad")
            else:
                self.ip_lines.append(line.removeprefix("ip "))
            return
        self.flush_ip()
        if words[0] == "listen":
            self.listen(words)
        elif words[0] == "join":
            self.join(words)
        elif "=" in line:
            name, value = (part.strip() for part in line.split("=", 1))
            _sysctl(name.replace(".", "/"), value)
        else:
            raise RecorderError(f"what is this line? {line}")

    def flush_ip(self) -> None:
        """Run the `ip` lines gathered so far, in order; `-6` lines need a run of their own."""
        lines, self.ip_lines = self.ip_lines, []
        for six, group in itertools.groupby(lines, lambda line: line.startswith("-6 ")):
            text = "".join(line.removeprefix("-6 ") + "\n" for line in group)
            command = ["ip", *(["-6"] if six else []), "-batch", "-"]
            done = subprocess.run(command, input=text, text=True, capture_output=True)
            if done.returncode:
                raise RecorderError(f"{done.stderr.strip()} in\n{text}")

    def make_device(self, words: list[str]) -> None:
        self.flush_ip()
        name, kind = words[3], words[-1]
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        flags = (IFF_TUN if kind == "tun" else IFF_TAP) | IFF_NO_PI
        flags |= IFF_NAPI if self.napi else 0
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
        self.devices[name] = fd
        if len(words) > 6:
            self.ip_lines.append(f"link set {name} " + " ".join(words[4:-2]))

    def listen(self, words: list[str]) -> None:
        local, options = words[2], words[3:]
        host, port = _endpoint(local)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            only = int("v6only" in options)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        if "dev" in options:
            device = options[options.index("dev") + 1]
            sock.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, device.encode())
        sock.bind((host, port))
        if "peer" in options:
            sock.connect(_endpoint(options[options.index("peer") + 1]))
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
            self.read_outputs()
            now = counters()
            quiet = quiet + 1 if now == before else 0
            before = now
            if quiet == 3:
                return
        raise RecorderError("the namespace does not become quiet")

    def open_trace(self) -> None:
        pids = [os.getpid()]
        if self.napi:
            for name in self.devices:
                Path(f"/sys/class/net/{name}/threaded").write_text("1")
            pids += _napi_threads(list(self.devices))
        if self.napi or self.busy:
            for pid in pids:
                os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})
        rule = " || ".join(f"common_pid == {pid}" for pid in pids)
        (self.trace_folder / "events/skb/kfree_skb/filter").write_text(rule)
        self.trace = os.open(self.trace_folder / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        self.read_drops()
        self.last_counters = counters()

    # asking

    def step(self, step: Any) -> Iterator[dict[str, Any]]:
        if isinstance(step, Inject):
            for label, packet in step.packets.items():
                os.write(self.devices[step.device], packet)
                if self.napi:
                    time.sleep(0.005)  # the device's thread takes it, not the writer
                yield {"packet": label, **self.collect(step.device, {label: packet})}
        elif isinstance(step, Burst):
            for packet in step.packets.values():
                os.write(self.devices[step.device], packet)
            yield {"burst": list(step.packets), **self.collect(step.device, step.packets)}
        elif isinstance(step, Together):
            self.write_list(step)
            yield {"list": list(step.packets), **self.collect(step.device, step.packets)}
        elif isinstance(step, Wait):
            self.wait(step)
            yield {"wait": step.seconds, **self.collect("", {})}
        elif isinstance(step, Run):
            for line in step.lines:
                self.apply(line)
            self.flush_ip()
            time.sleep(0.02)
            self.read_outputs()
            self.read_drops()
            self.last_counters = counters()

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

    def write_list(self, step: Together) -> None:
        fd = self.devices[step.device]
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
        try:
            for packet in step.packets.values():
                os.write(fd, packet)
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        time.sleep(0.05)  # now the device's thread has its turn

    def collect(self, device: str, packets: dict[str, bytes]) -> dict[str, Any]:
        outputs = self.read_outputs()
        sockets, errors = self.read_sockets()
        drops = self.read_drops()
        now = counters()
        delta = {k: v - self.last_counters.get(k, 0) for k, v in now.items()}
        self.last_counters = now
        if any(is_noise(p) for packets_out in outputs.values() for p in packets_out):
            raise Retry("the namespace spoke unasked")
        self.received += packets.values()
        result: dict[str, Any] = {"in": {device: [p.hex() for p in packets.values()]}}
        result["out"] = {
            name: [normalise(p, self.received, self.scenario.ignore).hex() for p in sent]
            for name, sent in outputs.items()
            if sent
        }
        result["sockets"] = sockets
        if errors:
            result["errors"] = errors
        result["drops"] = drops
        result["counters"] = {k: v for k, v in sorted(delta.items()) if v}
        return result

    def read_outputs(self) -> dict[str, list[bytes]]:
        outputs: dict[str, list[bytes]] = {}
        for name, fd in self.devices.items():
            outputs[name] = []
            with contextlib.suppress(BlockingIOError, OSError):
                while True:
                    outputs[name].append(os.read(fd, 70000))
        return outputs

    def read_sockets(self) -> tuple[list[list[Any]], list[list[Any]]]:
        """Datagrams and pending errors, each with the number of the `listen` line from 0."""
        got, errors = [], []
        for index, sock in enumerate(self.listeners):
            while True:
                try:
                    payload, source = sock.recvfrom(70000)
                except BlockingIOError:
                    break
                except OSError as problem:  # an ICMP error for a connected socket
                    errors.append([index, errno.errorcode[problem.errno or 0]])
                    continue
                got.append([index, payload.hex(), source[0], source[1]])
        return got, errors

    def read_drops(self) -> list[list[str]]:
        text = b""
        while select.select([self.trace], [], [], 0)[0]:
            try:
                text += os.read(self.trace, 65536)
            except BlockingIOError:
                break
        drops = []
        for line in text.decode(errors="replace").splitlines():
            match = _DROP.search(line)
            if match:
                drops.append([match.group(3), match.group(2)])
        return drops


def _endpoint(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def _sysctl(path: str, value: Any) -> None:
    file = Path("/proc/sys") / path
    try:
        file.write_text(str(value))
    except OSError as problem:
        raise RecorderError(f"{file}: {problem}") from problem


def _napi_threads(devices: list[str]) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                name = (folder / "comm").read_text()
                if any(name.startswith(f"napi/{device}-") for device in devices):
                    found.append(int(folder.name))
    return found


def counters() -> dict[str, int]:
    """The namespace's IP, ICMP and UDP counters under nstat's names."""
    values: dict[str, int] = {}
    for file in ("snmp", "netstat"):
        lines = Path(f"/proc/thread-self/net/{file}").read_text().splitlines()
        for names, numbers in zip(lines[::2], lines[1::2], strict=True):
            prefix, _, rest = names.partition(": ")
            for name, number in zip(rest.split(), numbers.split()[1:], strict=True):
                values[prefix + name] = int(number)
    for line in Path("/proc/thread-self/net/snmp6").read_text().splitlines():
        name, number = line.split()
        values[name] = int(number)
    return values
