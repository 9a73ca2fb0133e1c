"""Makes a scenario small: the fewest host lines and packets that still show a difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ippath.verify.compare import Comparison, compare
from ippath.verify.on_ippath import Ippath
from ippath.verify.on_kernel import Kernel
from ippath.verify.scenario import Inject, Run, Scenario, Step


def ask_both(
    scenario: Scenario, kernel: Kernel, ours: Ippath, *, counters: bool = True
) -> Comparison | None:
    """Run a scenario in both and compare; None if one of them refuses the host."""
    answer = kernel.run(scenario, counters=counters)
    if answer.error:
        return None
    times = [outcome.time_ns for outcome in answer.outcomes]
    return compare(scenario, answer, ours.run(scenario, counters=counters, times=times))


def shrunk(
    scenario: Scenario,
    kernel: Kernel,
    ours: Ippath,
    found: Comparison,
    *,
    keep_lines: int = 0,
    most: int = 400,
) -> Scenario:
    """The same with as few steps, packets and host lines as still make a difference.

    `found` is what the scenario as a whole came to: the first packet that differs is tried alone,
    then with all before it.  The first `keep_lines` lines of the host stay.  At most `most`
    attempts are made.
    """
    from ippath.config import HostErrors

    attempts = 0

    def differs(steps: Sequence[Step], lines: Sequence[str]) -> bool:
        nonlocal attempts
        if attempts >= most:
            return False
        attempts += 1
        host = "\n".join(lines) + "\n"
        smaller = dataclasses.replace(scenario, host=host, steps=tuple(steps))
        try:
            found = ask_both(smaller, kernel, ours)
        except HostErrors:  # a host that misses a line it needs
            return False
        return found is not None and bool(found.differences)

    steps, lines = _single(scenario.steps), scenario.host.splitlines()
    fixed, lines = lines[:keep_lines], lines[keep_lines:]
    first = found.differences[0].number
    if first >= 0:  # steps and outcomes go together, but for changes of the host
        at = [k for k, step in enumerate(steps) if not isinstance(step, Run)][first]
        changes = [step for step in steps[:at] if isinstance(step, Run)]
        for fewer in ([*changes, steps[at]], steps[: at + 1]):
            if differs(fewer, fixed + lines):
                steps = fewer
                break
    steps = _fewest(steps, lambda fewer: differs(fewer, fixed + lines))
    lines = _fewest(lines, lambda fewer: differs(steps, fixed + fewer))
    host = "\n".join(fixed + lines) + "\n"
    return dataclasses.replace(scenario, host=host, steps=tuple(steps))


def _single(steps: Sequence[Step]) -> list[Step]:
    """Steps that inject several packets one at a time become steps of one packet."""
    return [
        part
        for step in steps
        for part in (
            [Inject(step.device, {label: packet}) for label, packet in step.packets.items()]
            if isinstance(step, Inject)
            else [step]
        )
    ]


def _fewest(items: list[Any], still: Callable[[list[Any]], bool]) -> list[Any]:
    """Take away halves, quarters, … single items while `still` holds for the rest."""
    items = list(items)
    size = max(1, len(items) // 2)
    while size:
        at = 0
        while at < len(items):
            fewer = items[:at] + items[at + size :]
            if still(fewer):
                items = fewer
            else:
                at += size
        size //= 2
    return items
