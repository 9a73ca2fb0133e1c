"""A hundred thousand routes and ten tables with rules route as in the running kernel."""

from __future__ import annotations

import pytest

from ippath.verify.namespace import KernelError, available, kernel_version
from tests.kernel.route_scale import QUERIES, difference


@pytest.mark.skipif(
    bool(available()) or not kernel_version().startswith("6.18"),
    reason=available() or f"the reference is 6.18, this is {kernel_version()}",
)
@pytest.mark.parametrize("family", [4, 6])
def test_the_kernel_with_a_hundred_thousand_routes_agrees(family: int) -> None:
    try:
        found, errors = difference(family, seed=family)
    except KernelError as problem:
        if "Operation not permitted" in str(problem):
            pytest.skip("namespaces are not allowed here")
        raise
    assert not found
    assert 0 < errors < QUERIES // 2
