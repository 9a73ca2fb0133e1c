"""The measuring itself: order, intervals, gains, tables; never how fast something was."""

from __future__ import annotations

import importlib.util
import io
import json
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ippath.bench import UnknownWorkload, measure_workload, run_bench, traffic
from ippath.bench.framework import (
    Absent, Gain, Interval, Measured, Plan, Report, Variant, Workload, gains, measure, pinned,
)  # fmt: skip
from ippath.bench.peers import find_parsers
from tests.captures import internet_checksum

ONCE = Plan(1, 1, 0.0)


class Clock:
    """A clock that only work moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        self.now += seconds


class Toy(Workload):
    """Two variants and a peer on a clock of their own."""

    name, summary, unit, target = "toy", "nothing at all", "things", "some"

    def __init__(self, folder: Path, quick: bool = True):
        super().__init__(folder, quick)
        self.clock, self.calls = Clock(), list[str]()

    def set_up(self) -> None:
        self.absent = [Absent("other", "not installed")]

    def _does(self, name: str, seconds: float) -> None:
        self.calls.append(name)
        self.clock.work(seconds)

    def variants(self) -> list[Variant]:
        return [
            Variant("all", "old", lambda: self._does("old", 4.0), 100),
            Variant("all", "new", lambda: self._does("new", 1.0), 50, before="old"),
            Variant("all", "peer", lambda: self._does("peer", 8.0), 1, peer=True),
        ]


def report_of(tmp_path: Path, plan: Plan) -> tuple[Toy, Report]:
    toy = Toy(tmp_path)
    return toy, measure(toy, plan, clock=toy.clock)


def test_warming_up_is_apart_and_rounds_are_interleaved(tmp_path: Path) -> None:
    toy, report = report_of(tmp_path, Plan(4, 4, 1e9))
    assert toy.calls[:3] == ["old", "new", "peer"], "each once before anything is measured"
    rounds = [toy.calls[k : k + 3] for k in range(3, len(toy.calls), 3)]
    assert len(rounds) == report.rounds == 4
    assert all(Counter(one) == {"old": 1, "new": 1, "peer": 1} for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1, "the order changes from round to round"
    assert [len(one.seconds) for one in report.results] == [4, 4, 4]


@pytest.mark.parametrize(
    ("plan", "rounds"),
    [(Plan(2, 9, 0.0), 2), (Plan(1, 3, 1e9), 3), (Plan(1, 9, 14.0), 2), (Plan(1, 9, 12.0), 1)],
    ids=["at least", "at most", "a round began in time", "no time for another"],
)
def test_how_many_rounds(plan: Plan, rounds: int, tmp_path: Path) -> None:
    assert report_of(tmp_path, plan)[1].rounds == rounds  # a round takes 13 seconds of this clock


def test_rates_and_gains_are_those_of_the_clock(tmp_path: Path) -> None:
    _, report = report_of(tmp_path, Plan(3, 3, 1e9))
    rates = {one.variant.name: one.rate.median for one in report.results}
    assert rates == {"old": 25.0, "new": 50.0, "peer": 0.125}
    assert report.gains == [Gain("all", "old", "new", Interval(2.0, 2.0, 2.0))]


def test_a_gain_is_taken_within_each_round() -> None:
    """A machine that slows down between rounds does not widen the interval."""
    before = Measured(Variant("g", "before", lambda: None, 10), [1.0, 10.0, 3.0])
    after = Measured(Variant("g", "after", lambda: None, 10, "before"), [0.5, 5.0, 1.5])
    elsewhere = Measured(Variant("h", "after", lambda: None, 10, "before"), [1.0, 1.0, 1.0])
    (gain,) = gains([before, after, elsewhere])
    assert gain.ratio == Interval(2.0, 2.0, 2.0)


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=40))
def test_intervals_hold_their_median(values: list[float]) -> None:
    interval = Interval.of(values)
    assert min(values) <= interval.low <= interval.median <= interval.high <= max(values)


def test_reports_are_data_and_a_table(tmp_path: Path) -> None:
    from rich.console import Console

    from ippath.bench.tables import render

    _, report = report_of(tmp_path, ONCE)
    told = json.loads(json.dumps(report.to_dict()))
    assert {"workload", "unit", "rounds", "environment", "results", "gains", "absent_peers"} <= (
        told.keys()
    )
    assert [one["variant"] for one in told["results"]] == ["old", "new", "peer"]
    assert told["gains"][0]["ratio"]["median"] == 2.0
    console = Console(file=io.StringIO(), width=110)
    console.print(render(report))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for shown in (
        "toy: nothing at all",
        "things/s",
        "× 2.00",
        "target: some",
        "other: not installed",
    ):
        assert shown in text
    assert text.index("new") < text.index("  peer"), "peers come last"


def test_pinning_ends_with_the_measurement() -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("no CPU affinity on this system")
    before = os.sched_getaffinity(0)
    with pinned() as cpu:
        assert cpu is None or os.sched_getaffinity(0) == {cpu}
    assert os.sched_getaffinity(0) == before


def test_peers_are_found_or_named_as_absent() -> None:
    found, absent = find_parsers()
    assert {name.split()[0] for name in found} | {one.name for one in absent} == {"dpkt", "scapy"}
    assert len(found) + len(absent) == 2


# --- the traffic ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize("family", [4, 6])
def test_frames_are_whole_and_right(family: int, random: bool) -> None:
    batch = traffic.udp_frames(family, 200, random)
    addresses = set()
    for frame in batch:
        assert len(frame) == 64
        ip = frame[14:]
        if family == 4:
            assert internet_checksum(ip[:20]) == 0
            pseudo, udp = ip[12:20] + bytes([0, 17]), ip[20:]
        else:
            pseudo, udp = ip[8:40] + bytes([0, 17]), ip[40:]
        assert internet_checksum(pseudo + len(udp).to_bytes(2) + udp) == 0
        assert int.from_bytes(udp[2:4]) == traffic.PORT
        addresses.add(ip[16:20] if family == 4 else ip[24:40])
    assert (len(addresses) > 100) == random and (len(addresses) == 1) != random
    again = traffic.udp_frames(family, 200, random)
    assert list(again) == list(batch), "the same every time"


def test_the_receiver_has_every_destination() -> None:
    host = traffic.receiver()
    own = {(a.family, a.ip) for d in host.devices for a in d.addresses}
    for family in (4, 6):
        at, size = (30, 4) if family == 4 else (38, 16)
        for frame in traffic.udp_frames(family, 300, True):
            assert (family, int.from_bytes(frame[at : at + size])) in own


needs_path = pytest.mark.skipif(
    importlib.util.find_spec("ippath.fib.control") is None, reason="no route control yet"
)


@needs_path
def test_the_replay_workload_delivers_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its runs raise if a packet is not delivered; here over a handful of packets."""
    from ippath import jit
    from ippath.bench.replay import CASES, Replay

    monkeypatch.setattr(jit, "COMPILED", False)  # asks for few packets
    workload = Replay(tmp_path, quick=True)
    original = traffic.udp_frames
    monkeypatch.setattr(traffic, "udp_frames", lambda f, n, r: original(f, 40, r))
    workload.set_up()
    workload.packets = 40
    runs = [v for v in workload.variants() if not v.peer]
    assert {v.group for v in runs} == set(CASES)
    for variant in runs:
        variant.run()
    with pytest.raises(AssertionError, match="40 of 41"):
        workload.packets = 41
        workload.variants()[0].run()


# --- the command -----------------------------------------------------------------------------------------


def test_without_a_name_the_workloads_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench(None) == 0
    assert "replay" in capsys.readouterr().out


def test_an_unknown_workload_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench("reply") == 2
    assert "did you mean replay?" in capsys.readouterr().err
    with pytest.raises(UnknownWorkload, match="replay, start"):
        measure_workload("nothing")
