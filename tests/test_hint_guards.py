"""The guards of route hints rise and fall with routes and rules as the running kernel's do."""

from __future__ import annotations

import pytest

from ippath.verify.namespace import KernelError, available, kernel_version
from tests.kernel import hint_guards
from tests.kernel.hint_guards import CASES, Hinted
from tests.kernel.route_changes import lines_of

needs_kernel = pytest.mark.skipif(
    bool(available()) or not kernel_version().startswith("6.18"),
    reason=available() or f"the reference is 6.18, this is {kernel_version()}",
)


def told_kernel(lines: list[str]) -> list[Hinted]:
    """The kernel's answer; where it may not be asked, the test is skipped."""
    try:
        return hint_guards.told_kernel(lines)
    except KernelError as problem:
        pytest.skip(f"namespaces or trace events are not allowed here: {problem}")


@pytest.mark.parametrize("case", CASES)
def test_hints_go_and_come_back(case: str) -> None:
    assert hint_guards.told_ippath(lines_of(case))[-1] == CASES[case]


@needs_kernel
@pytest.mark.parametrize("case", CASES)
def test_the_running_kernel_says_so(case: str) -> None:
    assert told_kernel(lines_of(case))[-1] == CASES[case]


@needs_kernel
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_changes_agree_with_the_running_kernel(seed: int) -> None:
    """Thirty changes of source-specific routes, many of them refused, some half-way."""
    lines = hint_guards.lines_of(seed)
    theirs, ours = told_kernel(lines), hint_guards.told_ippath(lines)
    assert any(six for _, six in theirs) and not all(six for _, six in theirs)
    assert [(n, lines[n]) for n in range(len(lines)) if theirs[n] != ours[n]] == []
