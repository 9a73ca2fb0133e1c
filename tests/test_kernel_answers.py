"""ippath against what a running Linux kernel answered.

Each scenario (tests/kernel/scenarios*.py) was recorded once (tests/kernel/recordings); here its
packets go through ippath and everything that can be seen must be the same: packets out, byte for
byte and in order, datagrams by socket, counters, drop reasons.
"""

from __future__ import annotations

import json

import pytest

from ippath.verify.compare import compare
from ippath.verify.namespace import KernelError, available, kernel_version
from ippath.verify.on_ippath import Ippath
from ippath.verify.on_kernel import Kernel
from ippath.verify.shrink import ask_both
from tests.kernel.differ import Generator
from tests.kernel.differ_fragments import scenario as random_fragments
from ippath.verify.normal import Normal, words
from ippath.verify.packets import checksum, eth, ip4, ip6, record_route, udp
from tests.kernel.record import RECORDINGS, answer_of, ask, load
from ippath.verify.scenario import Together
from tests.kernel.scenarios import all_scenarios

SCENARIOS = {s.name: s for s in all_scenarios()}
RECORDED = load()

# What ippath does not do like the kernel, and why.  A scenario that agrees again must leave.
_NO_ARP = "next hops are known or not: nobody is asked, no packet waits, nothing is answered"
KNOWN_DIFFERENCES: dict[str, str] = {
    "unresolved neighbour": _NO_ARP,
    "unresolved v6 neighbour": _NO_ARP,
    "neighbour queue full": _NO_ARP,
    "neighbour answers": _NO_ARP,
    "ARP": _NO_ARP,
    "neighbour solicitation for us": _NO_ARP,
}
# Scenarios with packets that ippath judges `unsupported`; those packets are not compared.
MAY_BE_UNSUPPORTED: set[str] = set()

# recorded anew where the kernel can be asked: a few of each subject
LIVE_SAMPLE = (
    "forward",
    "TTL expiry",
    "options forwarded",
    "addresses, rp_filter 1",
    "asymmetric routes, rp_filter 2",
    "local and main merged",
    "rule ipproto and ports",
    "list: good first",
    "list: bad first",
    "frames to broadcast MAC",
    "v6 hop-by-hop options",
    "UDP checksum",
)


@pytest.mark.parametrize("name", RECORDED)
def test_same_as_the_kernel(name: str) -> None:
    scenario = SCENARIOS[name]
    found = compare(scenario, answer_of(RECORDED[name]), Ippath().run(scenario))
    if name in KNOWN_DIFFERENCES:
        assert found.differences, f"{name} agrees again: take it off KNOWN_DIFFERENCES"
        pytest.xfail(KNOWN_DIFFERENCES[name])
    told = "\n".join(map(str, found.differences))
    assert not found.differences, f"\n{scenario.host}\n{told}"
    if name not in MAY_BE_UNSUPPORTED:
        assert not found.skipped, "ippath judged unsupported: " + "; ".join(found.skipped)


def test_every_scenario_is_recorded_as_it_is() -> None:
    """Hosts and packets of the table are those that the kernel was asked about."""
    assert list(SCENARIOS) and set(SCENARIOS) == set(RECORDED)
    stale = []
    for name, scenario in SCENARIOS.items():
        asked = [p.hex() for o in answer_of(RECORDED[name]).outcomes for p in o.packets]
        table = [p.hex() for s in scenario.steps for p in getattr(s, "packets", {}).values()]
        if asked != table or RECORDED[name]["host"] != scenario.host.splitlines():
            stale.append(name)
    assert not stale, "record again: python -m tests.kernel.record --only …"


def test_recordings_name_their_kernel() -> None:
    versions = {f.name: json.loads(f.read_text())["kernel"] for f in RECORDINGS.glob("*.json")}
    assert len(set(versions.values())) == 1 and all(v.startswith("6.18") for v in versions.values())


def test_lists_were_lists() -> None:
    """A source that fails alone was forwarded behind a good one: only the hint does that."""
    alone = answer_of(RECORDED["list: one by one for comparison"]).outcomes
    assert sum(step.counters.get("IpForwDatagrams", 0) for step in alone) == 2
    (together,) = answer_of(RECORDED["list: good first"]).outcomes
    assert together.counters["IpForwDatagrams"] == 8
    (after_bad,) = answer_of(RECORDED["list: bad first"]).outcomes
    assert after_bad.counters["TcpExtIPReversePathFilter"] == 1
    for scenario in SCENARIOS.values():
        for step in scenario.steps:
            assert not isinstance(step, Together) or len(step.packets) <= 8, scenario.name


needs_kernel = pytest.mark.skipif(
    bool(available()) or not kernel_version().startswith("6.18"),
    reason=available() or f"the reference is 6.18, this is {kernel_version()}",
)


@pytest.fixture(scope="module")
def kernel():
    try:
        with Kernel() as kernel:
            kernel.run(SCENARIOS["forward"])
            yield kernel
    except KernelError as problem:  # a container without the needed privileges
        pytest.skip(f"namespaces or trace events are not allowed here: {problem}")


@needs_kernel
def test_the_running_kernel_still_says_so(kernel: Kernel) -> None:
    for name, answer in ask(SCENARIOS[name] for name in LIVE_SAMPLE).items():
        assert answer == RECORDED[name], name


@needs_kernel
@pytest.mark.parametrize("family", [4, 6])
def test_random_hosts_agree_with_the_running_kernel(kernel: Kernel, family: int) -> None:
    """A few hosts that nobody chose; `make differ` asks for minutes."""
    generator, asked = Generator(seed=2026, families=(family,)), 0
    for _ in range(6):
        scenario = generator.scenario()
        found = ask_both(scenario, kernel, Ippath())
        asked += found is not None
        if found and found.differences:  # a busy machine is asked twice
            again = ask_both(scenario, kernel, Ippath())
            assert again and not again.differences, scenario.host + str(again.differences[0])
    assert asked >= 2


@needs_kernel
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_fragments_agree_with_the_running_kernel(kernel: Kernel, seed: int) -> None:
    found = ask_both(random_fragments(seed), kernel, Ippath())
    assert found and not found.differences, str(found and found.differences[0])


def test_only_what_is_random_is_made_equal() -> None:
    normal = Normal()
    normal.receive(ip4("10.0.0.2", "10.1.0.2", ident=5))
    forwarded = ip4("10.0.0.2", "10.1.0.2", ident=5, ttl=63)
    assert normal(forwarded) == forwarded
    own = ip4("10.0.0.1", "10.0.0.2", ident=77)
    assert normal(own) == ip4("10.0.0.1", "10.0.0.2", ident=0)
    damaged = ip4("10.0.0.1", "10.0.0.2", ident=77, damage=1)
    assert normal(damaged) == damaged
    labelled = ip6("2001:db8::1", "2001:db8::2", label=9, traffic_class=0xB9)
    cleared = ip6("2001:db8::1", "2001:db8::2", label=0, traffic_class=0xB9)
    assert normal(labelled) == cleared
    assert normal(eth(own)) == eth(ip4("10.0.0.1", "10.0.0.2", ident=0))
    normal.receive(labelled)
    assert normal(labelled) == labelled


def test_packets_are_well_formed_by_default() -> None:
    packet = ip4("10.0.0.2", "10.1.0.2", udp(payload=b"odd"), options=record_route(2))
    assert checksum(packet[:32]) == 0 and len(packet) == 32 + 11 == int.from_bytes(packet[2:4])
    pseudo = packet[12:20] + bytes([0, 17, 0, 11])
    assert checksum(pseudo + packet[32:]) == 0
    six = ip6("2001:db8::1", "2001:db8::2", udp(payload=b"odd"))
    assert checksum(six[8:40] + bytes([0, 0, 0, 11, 0, 0, 0, 17]) + six[40:]) == 0


def test_packets_in_words() -> None:
    text = words(eth(ip4("10.0.0.2", "10.1.0.2", ttl=7)))
    assert "IPv4 10.0.0.2 > 10.1.0.2" in text and "ttl 7" in text and "UDP 1000 > 2000" in text
    assert "hops 3" in words(ip6("2001:db8::1", "2001:db8::2", hops=3))
