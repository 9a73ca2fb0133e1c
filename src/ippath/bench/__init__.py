"""`ippath bench`: workloads, and how they are measured and shown.

`WORKLOADS` names the workloads; each is a class in a module of its own, imported when it runs.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ippath.bench.framework import Report

# name -> module, class, one line
WORKLOADS = {
    "replay": ("ippath.bench.replay", "Replay", "capture to socket and forwarding, 64-byte frames"),
    "frag": ("ippath.bench.frag", "Frag", "reassembly beside DPDK and scapy, and under attack"),
    "fib": ("ippath.bench.fib", "Fib", "longest prefixes in full tables, beside DPDK and packages"),
    "pmtu": ("ippath.bench.pmtu", "Pmtu", "sends to many destinations, what is learned of some"),
    "udp": ("ippath.bench.udp", "Udp", "sockets that send and receive, beside Linux"),
    "start": ("ippath.bench.start", "Start", "a whole process: start, 1 M packets, summary"),
    "memory": ("ippath.bench.memory", "Memory", "memory of a process that replays 4 GB"),
}


class UnknownWorkload(ValueError):
    """There is no workload of that name; the message says what there is."""


def workload_list() -> str:
    """The workloads, a line each."""
    lines = [f"  {name:<8} {summary}" for name, (_, _, summary) in WORKLOADS.items()]
    return "\n".join(["workloads of ippath bench NAME:", *lines])


def check_name(name: str) -> None:
    """Raises UnknownWorkload for a name that is none."""
    if name not in WORKLOADS:
        close = difflib.get_close_matches(name, WORKLOADS, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UnknownWorkload(
            f"no workload is called {name}, there are {', '.join(WORKLOADS)}{hint}"
        )


def measure_workload(name: str, quick: bool = False, size: int | None = None) -> Report:
    """The Report of a workload; `size` is that of its captures in bytes.

    Raises UnknownWorkload, and WorkloadError if this machine cannot run it.
    """
    import sys
    import tempfile
    from importlib import import_module
    from pathlib import Path

    check_name(name)
    from ippath.bench.framework import measure

    def say(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    module, maker, _ = WORKLOADS[name]
    with tempfile.TemporaryDirectory(prefix="ippath-bench-") as folder:
        workload = getattr(import_module(module), maker)(Path(folder), quick, size)
        report = measure(workload, say=say)
    say("")
    return report
