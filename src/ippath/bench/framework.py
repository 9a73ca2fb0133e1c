"""Measuring: interleaved repetitions, medians with intervals, gains, peers.

A workload is a `Workload`: it sets up what it needs, then offers variants (ippath with switches one
way or the other) and peers (other programs that do the same or less).  `measure` runs them:

1. every variant once apart, to warm caches and compile; not counted;
2. rounds, each of which runs every variant once, in an order that changes from round to round, so
   that a slow moment of the machine hits all of them;
3. medians over the rounds, with the quartiles as interval; gains are computed within each round and
   then summarised, so that what slows both cancels out.
"""

from __future__ import annotations

import os
import platform
import random
import statistics
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

Run = Callable[[], None]


@dataclass(frozen=True)
class Variant:
    """One thing to measure: `run` does `units` units of work."""

    group: str  # variants of one group are compared with each other
    name: str
    run: Run
    units: int
    before: str = ""  # name of the variant of the group that this one improves on
    peer: bool = False


@dataclass(frozen=True)
class Absent:
    """A peer that this machine does not have."""

    name: str
    why: str


class Workload(ABC):
    """Something to measure; subclasses say what."""

    name: ClassVar[str]
    summary: ClassVar[str]
    unit: ClassVar[str]
    target: ClassVar[str] = ""  # what it should reach, in words

    def __init__(self, folder: Path, quick: bool):
        """`folder` is a temporary one; `quick` asks for less work."""
        self.folder, self.quick = folder, quick
        self.absent: list[Absent] = []

    @abstractmethod
    def set_up(self) -> None:
        """Make what the variants need; not measured.  Fills `absent`."""

    @abstractmethod
    def variants(self) -> list[Variant]:
        """What to measure, peers among them."""


@dataclass(frozen=True)
class Interval:
    """A median and its quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Interval:
        """Median and quartiles of at least one value."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(middle, low, high)

    def to_dict(self) -> dict[str, float]:
        """As plain data."""
        return {"median": self.median, "low": self.low, "high": self.high}


@dataclass
class Measured:
    """A variant and the seconds that each round took."""

    variant: Variant
    seconds: list[float] = field(default_factory=list)

    @property
    def rate(self) -> Interval:
        """Units per second."""
        return Interval.of([self.variant.units / s for s in self.seconds])


@dataclass(frozen=True)
class Gain:
    """How much faster `after` is than `before`: 1.0 is no difference."""

    group: str
    before: str
    after: str
    ratio: Interval


@dataclass
class Report:
    """All results of one workload."""

    workload: str
    summary: str
    unit: str
    target: str
    quick: bool
    environment: dict[str, Any]
    results: list[Measured]
    gains: list[Gain]
    absent: list[Absent]
    rounds: int

    def to_dict(self) -> dict[str, Any]:
        """As plain data with stable keys."""
        return {
            "workload": self.workload,
            "summary": self.summary,
            "unit": self.unit,
            "target": self.target,
            "quick": self.quick,
            "rounds": self.rounds,
            "environment": self.environment,
            "results": [
                {
                    "group": one.variant.group,
                    "variant": one.variant.name,
                    "peer": one.variant.peer,
                    "units": one.variant.units,
                    "per_second": one.rate.to_dict(),
                    "seconds": one.seconds,
                }
                for one in self.results
            ],
            "gains": [
                {"group": g.group, "before": g.before, "after": g.after, "ratio": g.ratio.to_dict()}
                for g in self.gains
            ],
            "absent_peers": [{"name": a.name, "why": a.why} for a in self.absent],
        }


@dataclass(frozen=True)
class Plan:
    """How often: at least `least` rounds, at most `most`, no new one after `seconds`."""

    least: int
    most: int
    seconds: float


QUICK, FULL = Plan(3, 7, 12.0), Plan(9, 31, 120.0)


def measure(
    workload: Workload,
    plan: Plan | None = None,
    *,
    clock: Callable[[], float] = time.perf_counter,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Set the workload up and measure it; `clock` gives seconds, `say` hears what is going on."""
    plan = plan or (QUICK if workload.quick else FULL)
    say("setting up")
    workload.set_up()
    measured = [Measured(v) for v in workload.variants()]
    with pinned() as cpu:
        for one in measured:
            say(f"warming up: {one.variant.group}, {one.variant.name}")
            one.variant.run()
        order = list(range(len(measured)))
        shuffler = random.Random(1)
        began, rounds = clock(), 0
        while rounds < plan.least or (rounds < plan.most and clock() - began < plan.seconds):
            rounds += 1
            say(f"round {rounds}")
            shuffler.shuffle(order)
            for k in order:
                start = clock()
                measured[k].variant.run()
                measured[k].seconds.append(max(clock() - start, 1e-9))
    return Report(
        workload=workload.name,
        summary=workload.summary,
        unit=workload.unit,
        target=workload.target,
        quick=workload.quick,
        environment=environment(cpu),
        results=measured,
        gains=gains(measured),
        absent=workload.absent,
        rounds=rounds,
    )


def gains(measured: list[Measured]) -> list[Gain]:
    """The gain of each variant over the one it names as `before`, round by round."""
    found = []
    by_name = {(m.variant.group, m.variant.name): m for m in measured}
    for after in measured:
        before = by_name.get((after.variant.group, after.variant.before))
        if before is None:
            continue
        scale = after.variant.units / before.variant.units
        ratios = [b / a * scale for a, b in zip(after.seconds, before.seconds)]
        group, name = after.variant.group, after.variant.name
        found.append(Gain(group, after.variant.before, name, Interval.of(ratios)))
    return found


@contextmanager
def pinned() -> Iterator[int | None]:
    """Keep this process on one CPU, the last it may use; None where that is not allowed."""
    try:
        allowed = os.sched_getaffinity(0)
        cpu = max(allowed)
        os.sched_setaffinity(0, {cpu})
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield cpu
    finally:
        os.sched_setaffinity(0, allowed)


def environment(cpu: int | None) -> dict[str, Any]:
    """What the numbers depend on: machine, versions, build."""
    from importlib.metadata import PackageNotFoundError, version

    from ippath import jit
    from ippath._version import VERSION

    def of(package: str) -> str | None:
        try:
            return version(package)
        except PackageNotFoundError:
            return None

    build = "checked" if jit.CHECKED else "fast"
    return {
        "ippath": VERSION,
        "build": build if jit.COMPILED else "uncompiled",
        "python": platform.python_version(),
        "numpy": of("numpy"),
        "numba": of("numba"),
        "machine": platform.machine(),
        "cpu": _cpu_name(),
        "cpus": os.cpu_count(),
        "pinned_to": cpu,
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "kernel": f"{platform.system()} {platform.release()}",
        "byte_order": sys.byteorder,
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
