"""The measuring itself: order, intervals, gains, tables; never how fast something was."""

from __future__ import annotations

import io
import json
import mmap
import os
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ippath.batch import LINK_IEEE802154_NOFCS
from ippath.bench import fragments
from ippath.bench import pmtu
from ippath.bench.fib import Fib, column, one_by_one, table_of
from ippath.bench.frag import (
    AT_ONCE, LOWPAN_TRAFFIC, SLOWLY, Frag, holding, joining, receiving, under_attack,
)  # fmt: skip
from ippath.bench.frag_peers import LinuxVeth, build_dpdk, dpdk
from ippath.bench import (
    WORKLOADS, UnknownWorkload, check_name, measure_workload, peers, tables, traffic,
)  # fmt: skip
from ippath.bench.framework import (
    Absent, Gain, Interval, Measured, Plan, Report, Target, Variant, Workload, WorkloadError,
    gains, measure, pinned,
)  # fmt: skip
from ippath.bench.full_tables import full_table
from ippath.bench.memory import BEYOND, PEAK, Memory, resident, write_strangers
from ippath.bench.replay import DELIVERED, FORWARDED, Replay, group_name
from ippath.bench.start import Start, command
from ippath.bench.udp import Udp
from ippath.bench.udp_kernel import KernelUdp
from ippath.capture import open_captures
from ippath.cli import main
from ippath.jit import COMPILED
from ippath.verify.namespace import available
from tests.captures import internet_checksum
from tests.test_send_switches import MECHANISMS

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
    quantities = {"weight": "kg"}

    def __init__(self, folder: Path, quick: bool = True, size: int | None = None):
        super().__init__(folder, quick, size)
        self.clock, self.calls = Clock(), list[str]()

    def set_up(self) -> None:
        self.absent = [Absent("other", "not installed")]

    def _does(self, name: str, seconds: float) -> None:
        self.calls.append(name)
        self.clock.work(seconds)

    def _weighs(self) -> dict[str, float]:
        self._does("new", 1.0)
        return {"weight": 80.0}

    def variants(self) -> list[Variant]:
        return [
            Variant("all", "old", lambda: self._does("old", 4.0), 100, target=Target(3.0)),
            Variant("all", "new", self._weighs, 50, before="old", target=Target(120.0, "weight")),
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

    def took(group: str, before: str, *seconds: float) -> Measured:
        variant = Variant(group, "after" if before else "before", lambda: None, 10, before)
        return Measured(variant, {"seconds": list(seconds)})

    before, after = took("g", "", 1.0, 10.0, 3.0), took("g", "before", 0.5, 5.0, 1.5)
    (gain,) = gains([before, after, took("h", "before", 1.0, 1.0, 1.0)])
    assert gain.ratio == Interval(2.0, 2.0, 2.0)


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=40))
def test_intervals_hold_their_median(values: list[float]) -> None:
    interval = Interval.of(values)
    assert min(values) <= interval.low <= interval.median <= interval.high <= max(values)


def test_targets_are_reached_where_the_median_fits_in(tmp_path: Path) -> None:
    _, report = report_of(tmp_path, Plan(3, 3, 1e9))
    assert {one.variant.name: one.of_target for one in report.results} == {
        "old": 0.75, "new": 1.5, "peer": None,
    }  # fmt: skip


def test_nothing_is_begun_after_the_limit(tmp_path: Path) -> None:
    """A round takes 13 seconds: the limit falls into the second, the first is always whole."""
    report = report_of(tmp_path, Plan(5, 5, 1e9, 13.5))[1]
    assert report.rounds == 2
    assert sorted(len(one.seconds) for one in report.results) == [1, 1, 2]
    assert not report.interrupted
    report = report_of(tmp_path, Plan(5, 5, 1e9, 1.0))[1]
    assert [len(one.seconds) for one in report.results] == [1, 1, 1]


class Stopped(Toy):
    """Ctrl-C comes when "new" has run `after` times."""

    after = 0

    def _weighs(self) -> dict[str, float]:
        if self.calls.count("new") == self.after:
            raise KeyboardInterrupt
        return super()._weighs()


def shown(report: Report, encoding: str = "utf-8") -> str:
    """The table in a pipe."""
    return tables.text_for(report, io.TextIOWrapper(io.BytesIO(), encoding=encoding))


def test_an_interrupt_leaves_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stopped, "after", 3)  # once to warm up, twice measured
    toy = Stopped(tmp_path)
    report = measure(toy, Plan(9, 9, 1e9), clock=toy.clock)
    assert report.interrupted and report.to_dict()["interrupted"]
    measured = {one.variant.name: len(one.seconds) for one in report.results}
    assert measured["new"] == 2 and set(measured.values()) <= {2, 3}
    assert report.gains[0].ratio.median == 2.0
    assert "stopped early" in shown(report)


@pytest.mark.parametrize("after", [0, 1], ids=["while warming up", "in the first round"])
def test_an_interrupt_before_the_first_figure(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stopped, "after", after)
    toy = Stopped(tmp_path)
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    report = measure(toy, Plan(9, 9, 1e9), clock=toy.clock)
    assert report.interrupted and "new" not in [one.variant.name for one in report.results]
    assert "stopped" in shown(report)
    json.dumps(report.to_dict())
    if before is not None:
        assert os.sched_getaffinity(0) == before


class Broken(Toy):
    """A peer that fails, as an old program may."""

    broken_is_peer = True

    def variants(self) -> list[Variant]:
        def fail() -> None:
            raise OSError("no such option")

        return [Variant("all", "broken", fail, 1, peer=self.broken_is_peer), *super().variants()]


def test_a_peer_that_fails_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Broken(tmp_path)
    report = measure(toy, ONCE, clock=toy.clock)
    assert [one.variant.name for one in report.results] == ["old", "new", "peer"]
    assert report.absent[1] == Absent("broken (all)", "failed: no such option")
    monkeypatch.setattr(Broken, "broken_is_peer", False)
    with pytest.raises(OSError, match="no such option"):
        measure(Broken(tmp_path), ONCE)


# --- what is shown ----------------------------------------------------------------------------------


def test_reports_are_data(tmp_path: Path) -> None:
    told = json.loads(json.dumps(report_of(tmp_path, ONCE)[1].to_dict()))
    assert list(told) == [
        "workload", "summary", "unit", "target", "quick", "size", "rounds", "interrupted",
        "environment", "results", "gains", "absent_peers",
    ]  # fmt: skip
    assert [one["variant"] for one in told["results"]] == ["old", "new", "peer"]
    new = told["results"][1]
    assert list(new) == [
        "group", "variant", "peer", "units", "per_second", "seconds", "quantities", "target",
    ]  # fmt: skip
    assert new["per_second"] == {"median": 50.0, "low": 50.0, "high": 50.0}
    assert new["quantities"]["weight"]["median"] == 80.0
    assert new["target"] == {"quantity": "weight", "limit": 120.0, "reached": 1.5}
    assert told["gains"][0]["ratio"]["median"] == 2.0


def test_reports_are_a_table(tmp_path: Path) -> None:
    text = shown(report_of(tmp_path, ONCE)[1])
    for words in ("toy: nothing at all", "things/s", "x 2.00", "target: some", "kg",
                  "other: not installed", "150 %"):  # fmt: skip
        assert words in text
    assert text.index("new") < text.index("  peer"), "peers come last"
    assert "\033" not in text and text.isascii(), "plain in a pipe"


def long_report(tmp_path: Path) -> Report:
    """Everything as wide as it gets."""
    _, report = report_of(tmp_path, Plan(3, 3, 1e9))
    wide = Measured(
        Variant("IPv6 forward, one address", "scapy 2.10.11, parsing", lambda: None, 10**6,
                before="hint off", target=Target(0.1))
    )  # fmt: skip
    for seconds in (0.02, 0.2, 0.19):
        wide.add(seconds, None)
    report.results.append(wide)
    ratio = Interval(10.25, 10.11, 10.33)
    report.gains.append(Gain(wide.variant.group, "hint off", wide.variant.name, ratio))
    report.quantities = {}
    return report


@pytest.mark.parametrize("width", [100, 90, 80, 72])
def test_the_table_fits(width: int, tmp_path: Path) -> None:
    from rich.console import Console

    page = io.StringIO()
    Console(file=page, width=width).print(tables.render(long_report(tmp_path), width))
    lines = page.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    assert "…" not in page.getvalue(), "nothing is cut off"
    assert any("× 10.25 (10.11 – 10.33)" in line for line in lines)


def test_ranges_share_a_unit() -> None:
    assert tables._range(Interval(0, 9_990_000.0, 11_800_000.0)) == "10.0 – 11.8 M"
    assert tables._range(Interval(0, 99.0, 120.0)) == "99 – 120"
    assert tables._range(Interval(0, 9_200.0, 9_250.0)) == "9.20 – 9.25 k"


def test_pinning_ends_with_the_measurement() -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("no CPU affinity on this system")
    before = os.sched_getaffinity(0)
    with pinned() as cpu:
        assert cpu is None or os.sched_getaffinity(0) == {cpu}
    assert os.sched_getaffinity(0) == before


def test_peers_are_found_or_named_as_absent() -> None:
    found, absent = peers.find_parsers()
    names = [one.name.split()[0] for one in found] + [one.name for one in absent]
    assert sorted(names) == sorted(peers.NAMES)
    assert all("install" in one.why for one in absent)


def test_no_peer_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers.shutil, "which", lambda name: None)
    monkeypatch.setattr(peers, "version", lambda name: "1")
    for name in ("dpkt", "scapy.layers.inet"):
        monkeypatch.setitem(sys.modules, name, None)
    found, absent = peers.find_parsers()
    assert found == [] and [one.name for one in absent] == list(peers.NAMES)


def test_peers_see_every_packet(tmp_path: Path) -> None:
    found, _ = peers.find_parsers()
    if not found:
        pytest.skip("no peer is installed")
    for family in (4, 6):
        frames = traffic.udp_frames(family, 20, True)
        path = traffic.save(tmp_path / f"{family}.pcap", frames)
        for one in found:
            assert one.parse(path, 20) == 20, one.name
            assert one.parse(path, 7) == 7, f"{one.name} stops where it should"


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("tcpdump version 4.99.3", "4.99.3"),
        ("TShark (Wireshark) 4.0.17 (Git v4.0.17 packaged as 4.0.17-0).", "4.0.17"),
        ("TShark 4.6.1.", "4.6.1"),
        ("", "?"),
    ],
)
def test_versions_of_programs(line: str, version: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho '{line}'\necho libpcap version 1.10.3\n")
    program.chmod(0o755)
    assert peers._program_version(str(program)) == version


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


def test_saved_frames_come_back(tmp_path: Path) -> None:
    frames = traffic.udp_frames(6, 30, True)
    path = traffic.save(tmp_path / "frames.pcap", frames)
    assert path.stat().st_size == traffic.FILE_HEADER + 30 * traffic.RECORD
    with open_captures(path) as captures:
        (batch,) = list(captures)
    assert list(batch) == list(frames)
    assert batch.time_ns.tolist() == frames.time_ns.tolist()
    assert batch.wire_length.tolist() == [traffic.FRAME] * 30


# --- the workloads ----------------------------------------------------------------------------------


def test_the_replay_workload_covers_every_packet(tmp_path: Path) -> None:
    """Its runs raise if a packet has another verdict; here over a handful of packets."""
    workload = Replay(tmp_path, quick=True, size=40 * traffic.RECORD)
    workload.set_up()
    assert workload.packets == 40
    runs = [v for v in workload.variants() if not v.peer]
    ways = [(f, w, r) for w in ("local", "forward") for f in (4, 6) for r in (False, True)]
    assert list(dict.fromkeys(v.group for v in runs)) == [group_name(*way) for way in ways]
    for way in ways:
        hints = [v.name for v in runs if v.group == group_name(*way) and v.name.startswith("hint")]
        assert hints == ["hint off", "hint on", "hint strict"]
    for variant in runs:
        variant.run()
    workload.packets = 41
    first, *_, last = (v for v in workload.variants() if not v.peer)
    for variant, verdict in ((first, DELIVERED), (last, FORWARDED)):
        with pytest.raises(AssertionError, match=f"40 of 41 packets were {verdict}"):
            variant.run()


@pytest.mark.parametrize("pieces,flows,order", LOWPAN_TRAFFIC)
def test_made_6lowpan_fragments_make_datagrams(pieces: int, flows: int, order: str) -> None:
    made = fragments.lowpan_fragments(pieces, flows, 2, order)
    policy = "linux" if order == "in order" else "first"
    joining(made, 2 * flows, policy=policy, link_type=LINK_IEEE802154_NOFCS)()


@pytest.mark.parametrize(("family", "pieces", "flows"), [(4, 2, 1), (4, 8, 64), (6, 4, 64)])
@pytest.mark.parametrize("order", fragments.ORDERS)
def test_made_fragments_make_datagrams(family: int, pieces: int, flows: int, order: str) -> None:
    made = fragments.fragments(family, pieces, flows, 2, order)
    assert len(made) == 2 * flows * pieces
    joining(made, 2 * flows)()
    with pytest.raises(AssertionError, match="datagrams were put together"):
        joining(made[:-1], 2 * flows)()
    raw = [bytes(packet) for packet in made]
    assert len(set(raw)) == len(raw)
    if family == 4:
        assert all(internet_checksum(packet[:20]) == 0 for packet in raw)


@pytest.mark.parametrize("store", ["list", "tree", "runs"])
def test_attacks_are_held_whatever_the_store(store: str) -> None:
    holding(fragments.attack(50, 3), store)()
    load, honest = under_attack(4000)
    found = receiving(load, honest, store, SLOWLY, 64 << 20)()
    assert found is not None and found["honest"] == 100 and 0 < found["share"] < 100


def test_a_filled_memory_refuses_the_honest_too() -> None:
    load, honest = under_attack(4000)
    found = receiving(load, honest, "runs", AT_ONCE, 200_000)()
    assert found is not None and found["honest"] < 30


def test_the_frag_workload_has_each_step_of_the_rewrite(tmp_path: Path) -> None:
    workload = Frag(tmp_path, quick=True, size=4000)
    workload.set_up()
    workload._program, workload._no_kernel = None, "left out"
    steps = [v for v in workload.variants() if v.name in ("list", "tree", "runs")]
    assert [(v.name, v.before) for v in steps[:3]] == [
        ("list", ""), ("tree", "list"), ("runs", "tree"),
    ]  # fmt: skip
    assert len({v.group for v in steps}) == 4
    filled = {v.name: v for v in workload.variants() if v.group == "host, memory filled"}
    assert filled["refuse"].run() and filled["evict"].run()
    workload.tear_down()


def test_dpdk_puts_the_same_datagrams_together(tmp_path: Path) -> None:
    program, why = build_dpdk(tmp_path)
    if program is None:
        pytest.skip(why)
    made = fragments.fragments(4, 4, 8, 5, "shuffled")
    packets = tmp_path / "packets"
    packets.write_bytes(made.tobytes())
    try:
        peer = dpdk(program, packets, made, 4, 8, 4, True)
    except WorkloadError as problem:
        pytest.skip(str(problem))
    peer.run()
    peer.close()


@pytest.mark.parametrize("family", [4, 6])
def test_the_kernel_puts_the_same_datagrams_together(tmp_path: Path, family: int) -> None:
    if why_not := available():
        pytest.skip(why_not)
    made = fragments.fragments(family, 4, 8, 5, "shuffled")
    packets = tmp_path / "packets"
    packets.write_bytes(made.tobytes())
    peer = LinuxVeth(packets, made, family, 4)
    assert 0 <= peer.run()["share"] < 100
    peer.close()
    too_many = LinuxVeth(packets, made, family, 2)
    with pytest.raises(AssertionError, match="the kernel put 40 of 80 datagrams together"):
        too_many.run()
    too_many.close()


def test_the_udp_workload_measures_each_mechanism_alone(tmp_path: Path) -> None:
    workload = Udp(tmp_path, quick=True, size=400)
    workload.set_up()
    try:
        variants = workload.variants()
        for variant in variants:
            variant.run()
    finally:
        workload.tear_down()
    for name in MECHANISMS:
        pairs = [v for v in variants if name in v.group]
        assert {(v.name, v.before) for v in pairs} == {("off", ""), ("on", "off")}
        assert {v.group[:4] for v in pairs} == {"IPv4", "IPv6"}
    peers = {v.name.partition(", ")[2] for v in variants if v.peer}
    wanted = {"sendmmsg, TUN", "sendto, TUN", "TUN", "veth, recvmmsg"}
    assert peers == (set() if workload.absent else wanted)
    made = {v.name for v in variants if v.group.endswith("16 bytes, many in a call") and not v.peer}
    assert made == {"made, no device", "made, kept in memory"}


def test_a_kernel_that_does_less_is_told() -> None:
    if why := available():
        pytest.skip(why)
    kernel = KernelUdp()
    kernel.does("recvmmsg", 4, 300, 16)
    kernel.does("sendmmsg", 6, 1500, 2048, 16)
    with pytest.raises(WorkloadError, match="it ended with 1: ValueError"):
        kernel.does("sendto", "four", 1, 1)  # type: ignore[arg-type]
    kernel.close()


def test_the_start_workload_runs_the_command_line(tmp_path: Path) -> None:
    workload = Start(tmp_path, quick=True, size=40 * traffic.RECORD)
    workload.set_up()
    by_name = {v.name: v for v in workload.variants()}
    assert {"whole capture", "40 packets", "--help"} <= by_name.keys()
    by_name["with --verdicts to Parquet"].run()
    assert (tmp_path / "rows.parquet").exists()
    with pytest.raises(AssertionError, match="ended with 2: "):
        command("replay", str(tmp_path / "nothing.pcap"))()


def test_the_memory_workload_watches_a_process(tmp_path: Path) -> None:
    if not Path("/proc/self/smaps").exists():
        pytest.skip("no /proc/PID/smaps on this system")
    workload = Memory(tmp_path, quick=True, size=400 * traffic.RECORD)
    workload.set_up()
    variants = workload.variants()
    assert [v.units for v in variants] == [40, 400, 400]
    told = variants[1].run()
    assert told is not None and 10 < told[BEYOND] <= told[PEAK]
    assert (tmp_path / "verdicts.parquet").exists()


def test_pages_of_the_capture_do_not_count(tmp_path: Path) -> None:
    if not Path("/proc/self/smaps").exists():
        pytest.skip("no /proc/PID/smaps on this system")
    path, size = tmp_path / "large file.pcap", 32 << 20
    path.write_bytes(b"x" * size)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        sum(mapped[at] for at in range(0, size, mmap.PAGESIZE))
        with_it = resident(os.getpid(), tmp_path / "other")
        without = resident(os.getpid(), path)
    assert size * 0.9 < with_it - without < size * 1.5
    assert resident(1 << 30, path) == 0, "a process that is gone has nothing"


def test_strangers_are_right_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ippath.bench import memory
    from ippath.netns import Netns

    monkeypatch.setattr(memory, "BLOCK", 30)
    write_strangers(tmp_path / "strangers.pcap", 100)
    netns = Netns(traffic.receiver())
    with open_captures(tmp_path / "strangers.pcap") as captures:
        for batch in captures:
            batch.device = netns.map_interfaces(captures.interfaces, "eth0")[batch.device]
            netns.receive(batch)
            sources = {frame[26:30] for frame in batch}
            assert (batch.time_ns[1:] > batch.time_ns[:-1]).all()
    assert len(sources) == 100, "also from block to block"
    verdicts = netns.totals().verdicts
    dropped = sum(len(range(0, size, 4)) for size in (30, 30, 30, 10))
    assert (verdicts["delivered"], verdicts["dropped"]) == (100 - dropped, dropped)


def test_memory_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="TMPDIR=FOLDER takes another place, --size SIZE less"):
        Memory(tmp_path, quick=False, size=10**18).set_up()


# --- the command ------------------------------------------------------------------------------------


def test_without_a_name_the_workloads_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in WORKLOADS)


def test_an_unknown_workload_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "reply"]) == 2
    assert "did you mean replay?" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(UnknownWorkload, match="replay, frag, fib, pmtu, udp, start, memory"):
        check_name("nothing")


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_name_leads_to_a_workload(name: str) -> None:
    import importlib

    module, maker, summary = WORKLOADS[name]
    workload = getattr(importlib.import_module(module), maker)
    assert issubclass(workload, Workload) and workload.name == name and summary


@pytest.fixture
def toy_workload(monkeypatch: pytest.MonkeyPatch) -> list[Toy]:
    """`ippath bench toy` runs a Toy; the list holds those that were made."""
    made: list[Toy] = []

    class Listed(Toy):
        plans = (ONCE, ONCE)

        def __init__(self, *given: object):
            super().__init__(*given)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setitem(WORKLOADS, "toy", (__name__, "Listed", "nothing"))
    monkeypatch.setattr(sys.modules[__name__], "Listed", Listed, raising=False)
    return made


def test_the_command_measures_and_shows(
    toy_workload: list[Toy], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "toy", "--quick", "--size", "4GB"]) == 0
    out = capsys.readouterr().out
    assert "toy: nothing at all" in out and "\033" not in out
    assert toy_workload[0].size == 4_000_000_000 and toy_workload[0].quick
    assert not toy_workload[0].folder.exists(), "its files are gone"
    assert main(["bench", "toy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workload"] == "toy"
    assert measure_workload("toy").workload == "toy"


def test_what_the_machine_lacks_is_wrong_input(
    toy_workload: list[Toy], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(self: Toy) -> None:
        raise WorkloadError("no room")

    monkeypatch.setattr(Toy, "set_up", lacks)
    assert main(["bench", "toy"]) == 2
    assert "no room" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("500MB", 500_000_000),
        ("4 gb", 4 * 10**9),
        ("1.5G", 1_500_000_000),
        ("80", 80),
        ("3k", 3000),
    ],
)
def test_sizes(text: str, size: int, toy_workload: list[Toy]) -> None:
    assert main(["bench", "toy", "--size", text]) == 0
    assert toy_workload[0].size == size


@pytest.mark.parametrize("text", ["", "much", "4TB4", "-3MB", "0", "4 GB more"])
def test_wrong_sizes(
    text: str, toy_workload: list[Toy], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "toy", "--size", text]) == 2
    assert not toy_workload and "--size" in capsys.readouterr().err


def test_the_readme_says_what_the_figures_say() -> None:
    root = Path(__file__).parent.parent
    figures = (root / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    rates = [
        float(row.split("|")[3].split()[0])  # hint on, in millions
        for row in figures.splitlines()
        if row.startswith("| IPv") and " local, " in row
    ]
    assert len(rates) == 4
    told = f"{min(rates):.0f} to {max(rates):.0f} M packets/s"
    assert told in (root / "README.md").read_text(encoding="utf-8")


# --- pmtu --------------------------------------------------------------------------------------------


def test_every_variant_of_pmtu_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not COMPILED:
        monkeypatch.setattr(pmtu, "KNOWN", 800)
        monkeypatch.setattr(pmtu, "SMALLER", 100)
    workload = pmtu.Pmtu(tmp_path, quick=True, size=500)
    try:
        workload.set_up()
        variants = workload.variants()
        listed = {v.group + v.name: v.run() for v in variants if "listing" in v.group}
        for variant in variants:
            variant.run()
    finally:
        workload.tear_down()
    assert [(v.group[:4], v.name, listed[v.group + v.name]["entries"]) for v in variants if "listing" in v.group] == [
        (family, cache, pmtu.SMALLER if cache == "lazy" else pmtu.KNOWN)
        for family in ("IPv6", "IPv4")
        for cache in ("lazy", "eager")
    ]  # fmt: skip


# --- fib ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [4, 6])
def test_full_tables_are_distinct_prefixes_without_host_bits(family: int) -> None:
    table = full_table(family, 5000)
    width = np.uint64(32 if family == 4 else 64)
    assert len(table) == len(set(zip(table.key.tolist(), table.length.tolist()))) == 5000
    host = (np.uint64(1) << (width - table.length)) - np.uint64(1)
    assert not (table.key & host).any()
    assert {24: 4, 48: 6}[int(np.bincount(table.length).argmax())] == family


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("how", ["random", "skewed"])
def test_values_of_full_tables_are_those_of_a_linear_search(family: int, how: str) -> None:
    table = full_table(family, 300)
    keys = getattr(table, how)(200, np.random.default_rng(3))
    width = 32 if family == 4 else 64
    held = sorted(zip(table.length.tolist(), table.key.tolist(), table.value.tolist()))
    wanted = [
        next((v for n, k, v in reversed(held) if (k ^ key) >> (width - n) == 0), 0)
        for key in keys.tolist()
    ]
    assert table_of(table, np.int32).lookup(table.addresses(keys)).tolist() == wanted
    assert any(wanted) or how == "random"


def test_every_variant_of_fib_runs(tmp_path: Path) -> None:
    workload = Fib(tmp_path, quick=True, size=1000)
    try:
        workload.set_up()
        variants = workload.variants()
        for variant in variants:
            variant.run()
    finally:
        workload.tear_down()
    ours = [v for v in variants if not v.peer]
    assert {v.name for v in ours} >= {"PrefixTable, 1-byte values", "PrefixTable, one by one"}
    assert sum(v.name == "PrefixTable, 4-byte values" for v in ours) == 4


def test_a_peer_of_fib_that_finds_something_else_is_told_of() -> None:
    table = full_table(4, 100)
    own = table_of(table, np.int32)
    with pytest.raises(AssertionError, match="other values"):
        one_by_one(lambda t: lambda address: 1, own, [1, 2], [1, 3])()
    with pytest.raises(AssertionError, match="other values"):
        column(own, table.addresses(table.key), np.zeros(100))()
