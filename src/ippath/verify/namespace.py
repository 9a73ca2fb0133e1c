"""A network namespace of the running kernel that nobody else sees, and its TUN and TAP devices.

Everything is made in a forked child with its own network and mount namespace, so that it ends with
the child, also after a crash.  The only thing outside is a private tracefs instance for drop reasons
(event skb:kfree_skb): it is named after the process, removed at the end, and what dead processes left
is removed at the next start.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import pickle
import platform
import re
import shutil
import signal
import struct
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_REC, MS_PRIVATE, MNT_DETACH = 0x4000, 0x40000, 2
PR_SET_PDEATHSIG = 1
TUNSETIFF, TUNSETCARRIER = 0x400454CA, 0x400454E2
IFF_TUN, IFF_TAP, IFF_NAPI, IFF_NO_PI = 0x0001, 0x0002, 0x0010, 0x1000
INSTANCE_PREFIX = "ippath-verify-"
_DROP_EVENT = "events/skb/kfree_skb"

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


class KernelError(Exception):
    """The kernel could not be asked, or refused a line of the host; the message says why."""


def available() -> str:
    """Why the kernel can't be asked here, or an empty string if it can."""
    if platform.system() != "Linux":
        return "this is not Linux"
    if os.geteuid() != 0:
        return "it needs root (network namespaces, TUN devices, trace events)"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    if shutil.which("ip") is None:
        return "there is no ip command (Debian: iproute2)"
    return ""


def kernel_version() -> str:
    """Release of the running kernel, the numbers only (6.18.44)."""
    return re.match(r"[0-9.]+", platform.release()).group().rstrip(".")  # type: ignore[union-attr]


def in_child(work: Callable[[], Any]) -> Any:
    """Run `work` in a forked child and return its result; raises KernelError for any error in it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become_child(work, reading, writing)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as into:
            raw = into.read()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.waitpid(pid, 0)
    if not raw:
        raise KernelError("the child that asks the kernel ended without an answer")
    fine, result = pickle.loads(raw)
    if fine:
        return result
    raise result if isinstance(result, KernelError) else KernelError(str(result))


def _become_child(work: Callable[[], Any], reading: int, writing: int) -> None:
    """Never returns; sends (True, result) or (False, error)."""
    status = 1
    try:
        os.close(reading)
        _libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what to do
        result: tuple[bool, Any]
        try:
            result = True, work()
        except KernelError as problem:
            result = False, problem
        except BaseException:
            result = False, traceback.format_exc()
        with os.fdopen(writing, "wb") as out:
            pickle.dump(result, out)
        status = 0
    finally:
        os._exit(status)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise KernelError(f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(kind: str, target: str) -> None:
    """Mount a pseudo file system; raises KernelError."""
    result = _libc().mount(kind.encode(), target.encode(), kind.encode(), 0, None)
    _check(result, f"mount {kind}")


def private_mounts() -> None:
    """Keep what this process mounts to itself; raises KernelError."""
    _check(_libc().unshare(CLONE_NEWNS), "unshare mounts")
    _check(_libc().mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")


def enter_new_network() -> None:
    """Move this process into a fresh network namespace that is quiet and has kernel defaults."""
    private_mounts()
    _check(_libc().unshare(CLONE_NEWNET), "unshare network")
    mount("sysfs", "/sys")
    for scope in ("all", "default"):
        for name, value in _DEFAULTS4.items():
            write_sysctl(f"net.ipv4.conf.{scope}.{name}", value)
        for name, value in _QUIET6.items():
            write_sysctl(f"net.ipv6.conf.{scope}.{name}", value)
    write_sysctl("net.ipv4.conf.all.accept_source_route", 0)
    write_sysctl("net.ipv4.conf.default.accept_source_route", 1)
    write_sysctl("net.ipv4.igmp_qrv", 1)


def write_sysctl(name: str, value: Any) -> None:
    """Set a sysctl of this namespace; the name has dots, or slashes; raises KernelError."""
    path = name if "/" in name else name.replace(".", "/")
    try:
        (Path("/proc/sys") / path).write_text(str(value))
    except OSError as problem:
        raise KernelError(f"{name} = {value}: {problem.strerror}") from problem


@contextlib.contextmanager
def trace_instance() -> Iterator[Path]:
    """The folder of a tracefs instance that records drops, private to this process."""
    private_mounts()
    with tempfile.TemporaryDirectory(prefix=INSTANCE_PREFIX) as folder:
        mount("tracefs", folder)
        try:
            instances = Path(folder) / "instances"
            _remove_left_over(instances)
            mine = instances / f"{INSTANCE_PREFIX}{os.getpid()}"
            mine.mkdir()
            try:
                (mine / "buffer_size_kb").write_text("4096")
                (mine / _DROP_EVENT / "enable").write_text("1")
                yield mine
            finally:
                (mine / _DROP_EVENT / "enable").write_text("0")
                mine.rmdir()
        finally:
            _libc().umount2(folder.encode(), MNT_DETACH)


def _remove_left_over(instances: Path) -> None:
    """Remove the instances of processes that were killed."""
    for old in instances.glob(INSTANCE_PREFIX + "*"):
        if not os.path.exists(f"/proc/{old.name.removeprefix(INSTANCE_PREFIX)}"):
            with contextlib.suppress(OSError):
                (old / _DROP_EVENT / "enable").write_text("0")
                old.rmdir()


class Drops:
    """The drop events that some threads of this machine cause."""

    _EVENT = re.compile(r"kfree_skb: .*location=(\S+?)(?:\+0x\S+)? reason: (\w+)")

    def __init__(self, folder: Path, threads: list[int]):
        rule = " || ".join(f"common_pid == {thread}" for thread in threads)
        (folder / _DROP_EVENT / "filter").write_text(rule)
        self._pipe = os.open(folder / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        self.read()

    def read(self) -> list[tuple[str, str]]:
        """(reason, kernel function) of each drop since the last call."""
        text = b""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._pipe, 1 << 16):
                text += part
        if not text:
            return []
        found = self._EVENT.findall(text.decode(errors="replace"))
        return [(reason, where) for where, reason in found]

    def close(self) -> None:
        """Stop reading."""
        os.close(self._pipe)


def open_tun(name: str, *, ethernet: bool, napi: bool) -> int:
    """Make a TUN device (raw IP) or a TAP device (Ethernet frames); returns the wire's end."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    flags = (IFF_TAP if ethernet else IFF_TUN) | IFF_NO_PI | (IFF_NAPI if napi else 0)
    try:
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    except OSError as problem:
        raise KernelError(f"device {name}: {problem.strerror}") from problem
    return fd


def set_carrier(fd: int, on: bool) -> None:
    """Plug the wire in or out (`ip link` shows NO-CARRIER)."""
    fcntl.ioctl(fd, TUNSETCARRIER, struct.pack("i", int(on)))


class NapiThreads:
    """The kernel threads that take packets off devices with NAPI, on the CPU of this process.

    While this process runs with real-time priority they cannot run, so that packets queue up; they
    then find all of them in one poll, which makes a receive list.
    """

    def __init__(self, devices: list[str]):
        before = _threads_named("napi/")  # of other namespaces, whose devices may have these names
        for device in devices:
            Path(f"/sys/class/net/{device}/threaded").write_text("1")
        self.pids = sorted(_threads_named("napi/") - before)
        cpu = {min(os.sched_getaffinity(0))}
        for pid in [os.getpid(), *self.pids]:
            os.sched_setaffinity(pid, cpu)

    @contextlib.contextmanager
    def held_up(self) -> Iterator[None]:
        """Within, packets that are written queue up; at the end they have been taken."""
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
        try:
            yield
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        self.wait()

    def wait(self) -> None:
        """Return when the threads have nothing left to do."""
        import time

        quiet = 0
        while quiet < 2:
            time.sleep(0.0005)
            quiet = 0 if any(_is_running(pid) for pid in self.pids) else quiet + 1


def _is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "R"


def _threads_named(prefix: str) -> set[int]:
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if (folder / "comm").read_text().startswith(prefix):
                    found.add(int(folder.name))
    return found


def read_counters() -> dict[str, int]:
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
