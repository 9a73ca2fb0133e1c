"""How Hypothesis looks for examples, in all tests.

By default each run has the same examples, so that a failure comes from a change and not from chance,
and does not shrink them, which may take minutes.  `IPPATH_SEARCH=1` looks for new ones, remembers
those that fail and shrinks them; pytest's `--hypothesis-seed` repeats such a run.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]  # hosts and packets are large examples

settings.register_profile(
    "same", deadline=None, derandomize=True, print_blob=True, suppress_health_check=SLOW,
    phases=[Phase.explicit, Phase.generate],
)  # fmt: skip
settings.register_profile("search", deadline=None, print_blob=True, suppress_health_check=SLOW)
settings.load_profile("search" if os.environ.get("IPPATH_SEARCH") else "same")


@pytest.fixture(params=["kernel", "ippath"])
def net(request):
    """Sockets of the kernel's loopback and of ippath, for the same tests (see tests/sockets.py)."""
    from tests.sockets import ippath_network, kernel_network

    network = kernel_network() if request.param == "kernel" else ippath_network()
    yield network
    network.close()
