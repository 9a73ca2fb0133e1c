"""Changes of routes do what they do in the kernel: recorded cases, and random ones asked live."""

from __future__ import annotations

import pytest

from ippath.verify.namespace import KernelError, available, kernel_version
from tests.kernel import route_changes
from tests.kernel.route_changes import CASES, HOST, LINES, Changes, Heard

RECORDED = route_changes.recorded()


@pytest.mark.parametrize("case", CASES)
def test_same_as_the_kernel(case: str) -> None:
    lines = route_changes.lines_of(case)
    ours = route_changes.told_ippath(HOST, lines)[-1]
    found = route_changes.difference(lines[-1:], [RECORDED[case]], [ours])
    assert not found, found


def test_all_cases_are_recorded() -> None:
    assert set(CASES) == set(RECORDED)


def test_differences_are_found() -> None:
    done, refused = Heard("", ["a\nb\n"]), Heard("RTNETLINK answers: File exists", ["a\n"])
    assert not route_changes.difference(["ip"], [done], [done])
    assert "File exists" in route_changes.difference(["ip"], [done], [refused])
    assert "kernel b" in route_changes.difference(["ip"], [done], [Heard("", ["a\n"])])
    assert "ippath b" in route_changes.difference(["ip"], [Heard("", ["a\n"])], [done])
    assert "order" in route_changes.difference(["ip"], [done], [Heard("", ["b\na\n"])])


@pytest.mark.skipif(
    bool(available()) or not kernel_version().startswith("6.18"),
    reason=available() or f"the reference is 6.18, this is {kernel_version()}",
)
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_random_changes_agree_with_the_running_kernel(seed: int) -> None:
    changes = Changes(seed)
    lines = [changes.line() for _ in range(LINES)]
    try:
        theirs = route_changes.told_kernel(HOST, lines)
    except KernelError as problem:  # a container without the needed privileges
        pytest.skip(f"namespaces are not allowed here: {problem}")
    found = route_changes.difference(lines, theirs, route_changes.told_ippath(HOST, lines))
    assert not found, "\n".join([*lines, found])
