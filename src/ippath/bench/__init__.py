"""`ippath bench`: workloads, and how they are measured and shown.

`WORKLOADS` names the workloads; each is a class in a module of its own, imported when it runs.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ippath.bench.framework import Report

WORKLOADS = {
    "replay": ("ippath.bench.replay", "Replay", "capture to socket, 64-byte UDP frames"),
    "start": ("ippath.bench.start", "Start", "a whole process: start, 1 M packets, summary"),
}


class UnknownWorkload(ValueError):
    """There is no workload of that name; the message says what there is."""


def run_bench(name: str | None, quick: bool = False, as_json: bool = False) -> int:
    """Measure workload `name` and print the result; without a name list the workloads.

    Returns the exit code: 0, or 2 for a workload that does not exist.
    """
    import json
    import sys

    if name is None:
        print("workloads:")
        for known, (_, _, summary) in WORKLOADS.items():
            print(f"  {known:<8} {summary}")
        return 0
    try:
        report = measure_workload(name, quick)
    except UnknownWorkload as unknown:
        print(f"ippath bench: {unknown}", file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps(report.to_dict(), indent=2))
        return 0
    from rich.console import Console

    from ippath.bench.tables import render

    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    console.print(render(report))
    return 0


run = run_bench  # the name that the command line uses


def measure_workload(name: str, quick: bool = False) -> Report:
    """The Report of a workload; raises UnknownWorkload."""
    import sys
    import tempfile
    from importlib import import_module
    from pathlib import Path

    if name not in WORKLOADS:
        close = difflib.get_close_matches(name, WORKLOADS, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UnknownWorkload(
            f"no workload is called {name}, there are {', '.join(WORKLOADS)}{hint}"
        )
    from ippath.bench.framework import measure

    def say(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    module, maker, _ = WORKLOADS[name]
    with tempfile.TemporaryDirectory(prefix="ippath-bench-") as folder:
        workload = getattr(import_module(module), maker)(Path(folder), quick)
        report = measure(workload, say=say)
    say("")
    return report
