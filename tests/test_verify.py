"""The harness that holds the kernel beside ippath: its files, and that it finds what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ippath.cli import main
from ippath.config import HostErrors
from ippath.fib.build import FibBuilder
from ippath.netns import Netns
from ippath.tables import DEV_MTU
from ippath.verify.compare import compare
from ippath.verify.namespace import available
from ippath.verify.on_ippath import Ippath
from ippath.verify.packet_text import describe, packet_of
from ippath.verify.packets import ip4, ip6, udp
from ippath.verify.scenario import Inject, RouteGet, Run, Scenario, Send, Together, Wait
from ippath.verify.scenario_file import parse_scenario, scenario_text
from tests.kernel.record import answer_of, load
from tests.kernel.scenarios import all_scenarios

SCENARIOS = {s.name: s for s in all_scenarios()}
RECORDED = load()
DEMO = Path(__file__).resolve().parent.parent / "demo"


def _without_strictness(monkeypatch: pytest.MonkeyPatch) -> None:
    """rp_filter of a device and of `all`: the smaller counts instead of the larger."""
    import ippath.fib.control as control

    right = control.effective_sysctl

    def wrong(host, family, device, name):
        return 0 if name == "rp_filter" else right(host, family, device, name)

    monkeypatch.setattr(control, "effective_sysctl", wrong)


def _with_larger_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The MTU of devices is 8 too large."""
    right = Netns._fill_device

    def wrong(self, row, device):
        right(self, row, device)
        row[DEV_MTU] += 8

    monkeypatch.setattr(Netns, "_fill_device", wrong)


def _without_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules do not look at the source."""
    right = FibBuilder._rule_row

    def wrong(self, rule, *rest):
        from dataclasses import replace

        return right(self, replace(rule, src_plen=0, src=0), *rest)

    monkeypatch.setattr(FibBuilder, "_rule_row", wrong)


@pytest.mark.parametrize("plant", [_without_strictness, _with_larger_devices, _without_rules])
def test_planted_bugs_are_found(monkeypatch: pytest.MonkeyPatch, plant) -> None:
    """With each bug some recorded scenarios differ; without it none of those does."""

    def differing() -> list[str]:
        return [
            name
            for name in RECORDED
            if SCENARIOS[name].subject in ("source", "rules", "forward", "send", "routes", "ipv4")
            and compare(
                SCENARIOS[name], answer_of(RECORDED[name]), Ippath().run(SCENARIOS[name])
            ).differences
        ]

    before = differing()
    plant(monkeypatch)
    assert set(differing()) - set(before)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_files_hold_every_scenario(name: str) -> None:
    """Written and read again, hosts, packets and steps are the same."""
    scenario = SCENARIOS[name]
    again, host = parse_scenario(scenario_text(scenario)), scenario.host
    steps = _flat(scenario)
    if isinstance(steps[0], Run):  # a change before the first step is part of the host
        host += "\n".join(steps.pop(0).lines)
    assert _lines(again.host) == _lines(host)
    assert _flat(again) == steps
    assert again.ignore == scenario.ignore


def _lines(host: str) -> list[str]:
    plain = (line.split("#")[0].strip() for line in host.splitlines())
    return [line for line in plain if line]


def _flat(scenario: Scenario) -> list:
    flat: list = []
    for step in scenario.steps:
        if isinstance(step, Inject):
            flat += [(step.device, packet) for packet in step.packets.values()]
        elif hasattr(step, "packets"):
            flat.append((type(step), step.device, tuple(step.packets.values())))
        else:
            flat.append(step if not isinstance(step, Wait) else step.seconds)
    return flat


def test_a_scenario_file() -> None:
    scenario = parse_scenario(
        """name  two ways
ip link add r0 type tun
ip addr add 10.0.0.1/24 dev r0
listen udp 0.0.0.0:2000
inject r0 ip 10.0.0.2 > 10.0.0.1 ttl 3 / udp 1 > 2000 / "hi"   # a label
wait 0.5
net.ipv4.conf.all.rp_filter = 1
list r0
    ip 10.0.0.2 > 10.0.0.1
send 0 to 10.0.0.2:9 ttl 7 / data 4
route get 10.0.0.9
"""
    )
    greeting = ip4("10.0.0.2", "10.0.0.1", udp(1, 2000, b"hi"), ttl=3)
    assert scenario.name == "two ways" and len(scenario.host.splitlines()) == 3
    assert scenario.steps == (
        Inject("r0", {"a label": greeting}),
        Wait(0.5),
        Run(("net.ipv4.conf.all.rp_filter = 1",)),
        Together("r0", {"2": ip4("10.0.0.2", "10.0.0.1")}),
        Send(0, b"\0\1\2\3", ("10.0.0.2", 9), ttl=7),
        RouteGet(("10.0.0.9",)),
    )


@pytest.mark.parametrize(
    "line, column, expected",
    [
        ("inject r0 ip 1.2.3.4 > 5.6.7 / udp 1 > 2", 24, "expected an IPv4 address"),
        ("inject r0 ip 1.2.3.4 > 5.6.7.8 / upd 1 > 2", 34, "did you mean 'udp'"),
        ("inject r0 udp 1 > 2", 11, "no IP header"),
        ("wait soon", 6, "a number of seconds"),
        ("lsit r0", 1, "did you mean 'list'"),
        ("send 0 to 1.2.3.4:5", 1, "no socket"),
        ("ip addr add 1.2.3.4/40 dev r0", 13, "prefix length"),
    ],
)
def test_what_is_wrong_in_a_scenario_file(line: str, column: int, expected: str) -> None:
    with pytest.raises(HostErrors) as caught:
        parse_scenario(f"ip link add r0 type tun\n{line}\n", "x.scenario")
    assert f"x.scenario:2:{column}: " in str(caught.value) and expected in str(caught.value)


def test_descriptions_of_packets() -> None:
    six = ip6("2001:db8::2", "2001:db8:1::2", hops=1, label=7)
    text = 'ip6 2001:db8::2 > 2001:db8:1::2 hops 1 label 0x7 / udp 1000 > 2000 / "payload8"'
    assert describe(six) == text and packet_of(text) == six
    for raw in (b"", b"\x45", bytes(20), b"\x60" + bytes(39), b"\x4f" + bytes(30)):
        assert packet_of(describe(raw)) == raw


# --- the command, with the kernel of this machine -------------------------------------------------------

WHY_NOT = available()
live = pytest.mark.skipif(bool(WHY_NOT), reason=f"the kernel can't be asked here: {WHY_NOT}")


@live
def test_the_demo_is_as_in_linux(capsys: pytest.CaptureFixture[str]) -> None:
    few = 300
    demo = [str(DEMO / "office.host"), str(DEMO / "office.pcapng")]
    assert main(["verify", "--quiet", "--json", "--limit", str(few), *demo]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["agrees"] and told["differences"] == {} and told["examples"] == []
    assert told["packets"] + sum(told["left_out"].values()) == few
    assert told["compared"]["packets_sent"] > 50 and told["compared"]["drop_reasons"] > 5


@live
def test_a_planted_bug_becomes_a_minimal_scenario(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a host and several packets the one packet and the lines are left that show the bug."""
    given = tmp_path / "mtu.scenario"
    scenario = SCENARIOS["forward to a smaller MTU"]
    given.write_text(scenario_text(scenario))
    assert main(["verify", "--quiet", str(given)]) == 0
    assert f"agree on {scenario.packets} of {scenario.packets} packets" in capsys.readouterr().out
    _with_larger_devices(monkeypatch)
    found = tmp_path / "found"
    assert main(["verify", "--quiet", "--most", "1", "--save", str(found), str(given)]) == 4
    told = capsys.readouterr().out
    assert f"of {scenario.packets} packets" in told and "differ on 0" not in told
    for file in found.iterdir():
        small = parse_scenario(file.read_text(), str(file))
        assert small.packets == 1
        assert len(small.host.splitlines()) <= len(scenario.host.splitlines()) // 2
        assert main(["verify", "--quiet", str(file)]) == 4, "found again"
    capsys.readouterr()
    monkeypatch.undo()
    for file in found.iterdir():
        assert main(["verify", "--quiet", str(file)]) == 0, "and gone without the bug"
