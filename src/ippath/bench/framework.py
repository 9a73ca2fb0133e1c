"""Measuring: interleaved repetitions, medians with intervals, gains, targets, peers.

A workload is a `Workload`: it sets up what it needs, then offers variants (ippath with switches one
way or the other) and peers (other programs that do the same or less).  `measure` runs them:

1. every variant once apart, to warm caches and compile; not counted;
2. rounds, each of which runs every variant once, in an order that changes from round to round, so
   that a slow moment of the machine hits all of them;
3. medians over the rounds, with the quartiles as interval; gains are computed within each round and
   then summarised, so that what slows both cancels out.

Ctrl-C ends the rounds; the report then holds what was measured until then.
"""

from __future__ import annotations

import os
import platform
import random
import statistics
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

SECONDS = "seconds"  # the quantity that every variant has

# does the work once; may return further quantities that it measured, by name
Run = Callable[[], Mapping[str, float] | None]


@dataclass(frozen=True)
class Target:
    """What a variant should stay below: seconds of one run, or another quantity."""

    limit: float
    quantity: str = SECONDS


@dataclass(frozen=True)
class Variant:
    """One thing to measure: `run` does `units` units of work."""

    group: str  # variants of one group are compared with each other
    name: str
    run: Run
    units: int
    before: str = ""  # name of the variant of the group that this one improves on
    peer: bool = False
    target: Target | None = None


@dataclass(frozen=True)
class Absent:
    """A peer that could not be measured here."""

    name: str
    why: str


class WorkloadError(Exception):
    """The machine cannot run the workload as asked; the message says what it needs."""


@dataclass(frozen=True)
class Plan:
    """How often: at least `least` rounds, at most `most`, no new one after `seconds`.

    After `limit` seconds nothing more is begun, even within a round, once each variant has run.
    """

    least: int
    most: int
    seconds: float
    limit: float = float("inf")


class Workload(ABC):
    """Something to measure; subclasses say what."""

    name: ClassVar[str]
    summary: ClassVar[str]
    unit: ClassVar[str]
    target: ClassVar[str] = ""  # what it should reach, in words
    quantities: ClassVar[dict[str, str]] = {}  # measured besides the time: name -> column title
    sizes: ClassVar[tuple[int, int]] = (0, 0)  # bytes of a capture: quick, full
    warms_up: ClassVar[bool] = True  # False where `set_up` does it, since a run takes minutes
    plans: ClassVar[tuple[Plan, Plan]] = (Plan(3, 7, 12.0, 30.0), Plan(9, 31, 120.0))

    def __init__(self, folder: Path, quick: bool, size: int | None = None):
        """`folder` is a temporary one; `quick` asks for less work; `size` replaces `sizes`."""
        self.folder, self.quick = folder, quick
        self.size = self.sizes[0 if quick else 1] if size is None else size
        self.absent: list[Absent] = []

    @abstractmethod
    def set_up(self) -> None:
        """Make what the variants need; not measured.  Fills `absent`."""

    def tear_down(self) -> None:
        """Undo what was begun outside the folder: processes, devices."""
        return

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
    """A variant and what each round measured: seconds, and the workload's other quantities."""

    variant: Variant
    values: dict[str, list[float]] = field(default_factory=lambda: {SECONDS: []})

    @property
    def seconds(self) -> list[float]:
        """Of each round."""
        return self.values[SECONDS]

    @property
    def rate(self) -> Interval:
        """Units per second."""
        return Interval.of([self.variant.units / s for s in self.seconds])

    def interval(self, quantity: str) -> Interval:
        """Of one quantity over the rounds."""
        return Interval.of(self.values[quantity])

    @property
    def of_target(self) -> float | None:
        """How often the median fits into the target: 1.0 or more meets it; None without one."""
        target = self.variant.target
        if target is None:
            return None
        return target.limit / max(self.interval(target.quantity).median, 1e-12)

    def add(self, seconds: float, others: Mapping[str, float] | None) -> None:
        """Take the figures of one round."""
        self.seconds.append(max(seconds, 1e-9))
        for quantity, value in (others or {}).items():
            self.values.setdefault(quantity, []).append(value)

    def to_dict(self) -> dict[str, Any]:
        """As plain data with stable keys."""
        variant = self.variant
        target = variant.target
        return {
            "group": variant.group,
            "variant": variant.name,
            "peer": variant.peer,
            "units": variant.units,
            "per_second": self.rate.to_dict(),
            "seconds": self.seconds,
            "quantities": {
                name: {**self.interval(name).to_dict(), "values": values}
                for name, values in self.values.items()
                if name != SECONDS
            },
            "target": None if target is None else {
                "quantity": target.quantity, "limit": target.limit, "reached": self.of_target,
            },
        }  # fmt: skip


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
    size: int
    environment: dict[str, Any]
    results: list[Measured]
    gains: list[Gain]
    absent: list[Absent]
    rounds: int
    quantities: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As plain data with the stable keys of docs/benchmarks.md."""
        return {
            "workload": self.workload,
            "summary": self.summary,
            "unit": self.unit,
            "target": self.target,
            "quick": self.quick,
            "size": self.size,
            "rounds": self.rounds,
            "interrupted": self.interrupted,
            "environment": self.environment,
            "results": [one.to_dict() for one in self.results],
            "gains": [
                {"group": g.group, "before": g.before, "after": g.after, "ratio": g.ratio.to_dict()}
                for g in self.gains
            ],
            "absent_peers": [{"name": a.name, "why": a.why} for a in self.absent],
        }


def measure(
    workload: Workload,
    plan: Plan | None = None,
    *,
    clock: Callable[[], float] = time.perf_counter,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Set the workload up and measure it; `clock` gives seconds, `say` hears what is going on.

    Raises WorkloadError if the machine has not what the workload needs.
    """
    plan = plan or workload.plans[0 if workload.quick else 1]
    measured: list[Measured] = []
    interrupted, cpu = False, None
    try:
        say("setting up")
        workload.set_up()
        with pinned() as cpu:
            measured = _warmed_up(workload, say)
            _rounds(measured, plan, clock, say)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        workload.tear_down()
    measured = [one for one in measured if one.seconds]
    return Report(
        workload=workload.name,
        summary=workload.summary,
        unit=workload.unit,
        target=workload.target,
        quick=workload.quick,
        size=workload.size,
        environment=environment(cpu),
        results=measured,
        gains=gains(measured),
        absent=workload.absent,
        rounds=max((len(one.seconds) for one in measured), default=0),
        quantities=workload.quantities,
        interrupted=interrupted,
    )


def _warmed_up(workload: Workload, say: Callable[[str], None]) -> list[Measured]:
    """Run every variant once; peers that fail are absent from then on."""
    measured = []
    for variant in workload.variants():
        if not workload.warms_up:
            measured.append(Measured(variant))
            continue
        say(f"warming up: {variant.group}, {variant.name}")
        try:
            variant.run()
        except Exception as problem:
            if not variant.peer:
                raise
            workload.absent.append(
                Absent(f"{variant.name} ({variant.group})", f"failed: {problem}")
            )
            continue
        measured.append(Measured(variant))
    return measured


def _rounds(
    measured: list[Measured], plan: Plan, clock: Callable[[], float], say: Callable[[str], None]
) -> None:
    order = list(range(len(measured)))
    shuffler = random.Random(1)
    began, rounds = clock(), 0
    while rounds < plan.least or (rounds < plan.most and clock() - began < plan.seconds):
        rounds += 1
        shuffler.shuffle(order)
        for done, k in enumerate(order):
            if rounds > 1 and clock() - began > plan.limit:
                return
            say(f"round {rounds}, {done} of {len(order)}")
            start = clock()
            others = measured[k].variant.run()
            measured[k].add(clock() - start, others)


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


def allowed_cpus() -> set[int]:
    """The CPUs that this process may use, none where that can not be told."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def together(runs: list[Run], cpus: set[int]) -> Run:
    """A run of several runs at a time, each in a thread; on all of `cpus` meanwhile."""

    def run() -> None:
        mine = allowed_cpus()
        failed: list[BaseException] = []

        def work(one: Run) -> None:
            try:
                one()
            except BaseException as problem:
                failed.append(problem)

        if cpus:
            os.sched_setaffinity(0, cpus)
        try:
            threads = [threading.Thread(target=work, args=(one,)) for one in runs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            if mine:
                os.sched_setaffinity(0, mine)
        if failed:
            raise failed[0]

    return run


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
