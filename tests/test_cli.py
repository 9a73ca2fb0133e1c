"""The command line: exit codes, what is printed where, files, and that it starts quickly."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ippath.batch import LINK_RAW, PacketBatch
from ippath.cli import ENDED_EARLY, FINE, INTERNAL, WRONG_INPUT, build, main, replay
from ippath.reasons import DROPPED, FORWARDED, reason_code
from ippath.report.watch import DropDestinations
from tests.captures import SHARED
from ippath.verify.packets import ip4, ip6

ROOT = Path(__file__).resolve().parent.parent
CAPTURE, HOST = str(ROOT / "demo/office.pcapng"), str(ROOT / "demo/office.host")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])}

KEYS = {
    "packets", "bytes", "verdicts", "reasons", "reasons_by_verdict", "drop_destinations", "counters",
    "hint", "switches", "devices", "sockets", "reassembly", "unchecked", "first_time_ns", "last_time_ns",
    "capture_seconds", "seconds", "packets_per_second", "compiled", "captures", "endings", "host",
    "files", "interrupted",
}  # fmt: skip
VERDICTS = {"delivered", "forwarded", "consumed", "dropped", "held", "unsupported"}


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command run in this process."""
    code = main(list(args))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def replayed(capsys: pytest.CaptureFixture[str], *args: str) -> dict:
    """What `replay --json` of the demo gives, with more arguments."""
    code, out, err = run(capsys, "replay", CAPTURE, "--host", HOST, "--json", *args)
    assert code == FINE, err
    return json.loads(out)


@pytest.fixture
def truncated(tmp_path: Path) -> str:
    path = tmp_path / "truncated.pcapng"
    path.write_bytes(Path(CAPTURE).read_bytes()[:20_001])
    return str(path)


# --- exit codes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args", "code", "says"),
    [
        ("fine", ["switches"], FINE, ""),
        ("help", ["--help"], FINE, ""),
        ("no command", [], WRONG_INPUT, "Usage"),
        ("unknown command", ["replya"], WRONG_INPUT, "did you mean replay?"),
        ("unknown option", ["switches", "--jsn"], WRONG_INPUT, "--json"),
        ("no capture", ["replay"], WRONG_INPUT, "CAPTURE"),
        ("missing capture", ["replay", "none.pcap", "--host", HOST], WRONG_INPUT, "none.pcap"),
        ("missing host", ["replay", CAPTURE, "--host", "none.host"], WRONG_INPUT, "none.host"),
        ("capture as host", ["replay", CAPTURE, "--host", CAPTURE], WRONG_INPUT, ""),
        ("host as capture", ["replay", HOST, "--host", HOST], WRONG_INPUT, "not a capture"),
        (
            "unknown switch",
            ["replay", CAPTURE, "--host", HOST, "--switch", "rout_hint=on"],
            WRONG_INPUT,
            "did you mean route_hint?",
        ),
        (
            "switch without value",
            ["replay", CAPTURE, "--host", HOST, "--switch", "route_hint"],
            WRONG_INPUT,
            "NAME=VALUE",
        ),
        (
            "wrong value",
            ["replay", CAPTURE, "--host", HOST, "--switch", "route_hint=maybe"],
            WRONG_INPUT,
            "on, off, strict",
        ),
        (
            "unknown device",
            ["replay", CAPTURE, "--host", HOST, "--on", "eth7"],
            WRONG_INPUT,
            "no device eth7",
        ),
        (
            "verdict file of no kind",
            ["replay", CAPTURE, "--host", HOST, "--verdicts", "rows.xlsx"],
            WRONG_INPUT,
            ".parquet, .csv, .jsonl, .arrow",
        ),
        (
            "verdict file in no folder",
            ["replay", CAPTURE, "--host", HOST, "--verdicts", "no/such/rows.csv"],
            WRONG_INPUT,
            "no folder",
        ),
        ("no frame", ["explain", CAPTURE, "--host", HOST], WRONG_INPUT, "--frame"),
        (
            "frame beyond the end",
            ["explain", CAPTURE, "--host", HOST, "--frame", "99999"],
            WRONG_INPUT,
            "1648 frames",
        ),
        ("frame 0", ["explain", CAPTURE, "--host", HOST, "--frame", "0"], WRONG_INPUT, "--frame"),
        ("hex without host", ["explain", "--hex", "45"], WRONG_INPUT, "--host"),
        ("hex that is none", ["explain", "--hex", "4x", "--host", HOST], WRONG_INPUT, "'x'"),
        ("hex of odd length", ["explain", "--hex", "450", "--host", HOST], WRONG_INPUT, "odd"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)  # fmt: skip
def test_exit_codes(
    capsys: pytest.CaptureFixture[str], name: str, args: list[str], code: int, says: str
) -> None:
    got, out, err = run(capsys, *args)
    assert got == code, err
    assert says in err or code == FINE, err
    assert "Traceback" not in err
    if code:
        assert not out


def test_wrong_host_lines_are_all_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "wrong.host"
    path.write_text(
        "ip link add eth0 type dummy\nip rute add default dev eth0\nip addr add 10.0.0.1/33 dev eth0\n"
    )
    code, out, err = run(capsys, "check", str(path))
    assert code == WRONG_INPUT and not out
    assert f"{path}:2" in err and f"{path}:3" in err and "route" in err


def test_a_capture_that_ends_early(capsys: pytest.CaptureFixture[str], truncated: str) -> None:
    code, out, _ = run(capsys, "replay", truncated, "--host", HOST, "--json")
    assert code == ENDED_EARLY
    summary = json.loads(out)
    (ending,) = summary["endings"]
    assert ending["path"] == truncated and 0 < ending["offset"] <= 20_001 and ending["why"]
    assert 0 < summary["packets"] < 1648
    code, out, _ = run(capsys, "replay", truncated, "--host", HOST)
    assert code == ENDED_EARLY and "ended early at byte" in out
    assert run(capsys, "info", truncated)[0] == ENDED_EARLY


def test_accounts_that_do_not_close(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ippath.netns import AccountingError, Netns

    def fail(self: Netns) -> None:
        raise AccountingError("3 packets entered, verdicts add up to 2")

    monkeypatch.setattr(Netns, "close_accounts", fail)
    code, out, err = run(capsys, "replay", CAPTURE, "--host", HOST)
    assert code == INTERNAL and "accounts do not close" in err and not out


def test_a_bug_shows_where(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(replay.Replay, "run", fail)
    code, _, err = run(capsys, "replay", CAPTURE, "--host", HOST)
    assert code == INTERNAL and "Traceback" in err and "internal error" in err


# --- replay -----------------------------------------------------------------------------------------


def test_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    summary = replayed(capsys)
    assert set(summary) == KEYS
    assert set(summary["verdicts"]) == VERDICTS
    assert set(summary["hint"]) == {"used", "missed", "refused"}
    document = (ROOT / "docs/results.md").read_text().partition("## Keys of `--json`")[2]
    documented = set()
    for line in document.splitlines():
        if line.startswith("| `"):
            documented |= set(re.findall(r"`(\w+)`", line.split("|")[1]))
    assert documented == KEYS


def test_every_packet_has_one_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    summary = replayed(capsys)
    assert summary["packets"] == 1648 == sum(summary["verdicts"].values())
    assert sum(d["rx_packets"] for d in summary["devices"] if d["name"] != "lab") == 1648
    dropped = summary["reasons_by_verdict"]["dropped"]
    assert sum(dropped.values()) == summary["verdicts"]["dropped"]


def test_the_demo_shows_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    summary = replayed(capsys)
    reasons = summary["reasons"]
    # 72 answers to the laboratory, 16 questions to the router's address of uplink B
    assert reasons["IP_RPFILTER"] == 72 + 16
    assert summary["counters"]["TcpExtIPReversePathFilter"] == reasons["IP_RPFILTER"]
    expected = {
        "IP_CSUM": 3, "UDP_CSUM": 3, "NO_SOCKET": 9, "OTHERHOST": 8, "PKT_TOO_BIG": 4, "IP_INHDR": 6,
        "IP_LOCALNET": 1, "IP_LOCAL_SOURCE": 1, "IP_INVALID_SOURCE": 1,
    }  # fmt: skip
    four = summary["reassembly"]["ipv4"]
    assert (four["fragments"], four["joined"], four["reassembled"]) == (8, 8, 4)
    assert {name: reasons.get(name) for name in expected} == expected
    sockets = {s["socket"]: s["received"] for s in summary["sockets"]}
    assert sockets == {
        "udp 0.0.0.0:53": 108, "udp [::]:53": 29, "udp 0.0.0.0:123": 20, "udp 0.0.0.0:67 dev eth2": 5,
    }  # fmt: skip
    top = summary["drop_destinations"]["IP_RPFILTER"]
    assert {"destination": "203.0.113.2", "packets": 16} in top


def test_the_summary_is_plain_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    code, out, err = run(capsys, "replay", "demo/office.pcapng", "--host", "demo/office.host")
    assert code == FINE and out.isascii() and "\033" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert "IP_RPFILTER" in out and "reverse path check" in out and "IpInReceives" in out
    assert not err


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.0000021, "0.002 ms"), (0.000633, "0.633 ms"), (0.0122, "12.2 ms"),
     (1.234, "1.23 s"), (119, "119 s"), (125, "2 min 05 s"), (11100, "3 h 05 min")],
)  # fmt: skip
def test_durations_are_plain_text(seconds: float, text: str) -> None:
    from ippath.report.paper import seconds_text

    assert seconds_text(seconds) == text


def test_the_summary_has_colours_when_forced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(ROOT)
    _, coloured, _ = run(capsys, "replay", "demo/office.pcapng", "--host", "demo/office.host")
    assert "\033[31m" in coloured and "█" in coloured
    bare = re.sub(r"\033\[\d*m", "", coloured)
    assert max(map(len, bare.splitlines())) <= 100
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in run(capsys, "replay", CAPTURE, "--host", HOST)[1]


def test_without_host_the_guess_is_shown_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved = tmp_path / "guess.host"
    code, out, err = run(capsys, "replay", CAPTURE, "--json", "--save-host", str(saved))
    assert code == FINE
    summary = json.loads(out)  # standard output is JSON alone
    assert summary["host"]["inferred"] and "ip link add eth0" in err
    assert saved.read_text().splitlines() == summary["host"]["lines"]
    again = json.loads(run(capsys, "replay", CAPTURE, "--json", "--host", str(saved))[1])
    assert again["verdicts"] == summary["verdicts"] and not again["host"]["inferred"]
    assert run(capsys, "infer", CAPTURE)[1] == saved.read_text()


@pytest.mark.parametrize(
    "args", [["replay", CAPTURE, "--host"], ["explain", CAPTURE, "--frame", "9", "--host"]]
)
def test_doubtful_lines_are_warned_of_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, args: list[str]
) -> None:
    path = tmp_path / "doubtful.host"
    path.write_text(Path(HOST).read_text() + "ip rule add iif eth7 lookup 100\n")
    code, _, err = run(capsys, *args, str(path))
    assert code == FINE
    assert err.count("warning:") == 1 and f"warning: {path}:" in err and "eth7" in err
    assert not run(capsys, *args, str(path), "--quiet")[2]


def test_quiet_says_nothing_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "replay", CAPTURE, "--quiet")
    assert code == FINE and not err


@pytest.mark.parametrize("limit", [0, 1, 100, 5000])
def test_limit(capsys: pytest.CaptureFixture[str], limit: int) -> None:
    summary = replayed(capsys, "--limit", str(limit))
    assert summary["packets"] == min(limit, 1648) == sum(summary["verdicts"].values())


def test_on_puts_everything_on_one_device(capsys: pytest.CaptureFixture[str]) -> None:
    devices = {d["name"]: d for d in replayed(capsys, "--on", "eth0")["devices"]}
    assert devices["eth0"]["rx_packets"] == 1648 and devices["eth1"]["rx_packets"] == 0


def test_switches_reach_the_path(capsys: pytest.CaptureFixture[str]) -> None:
    on, off = replayed(capsys), replayed(capsys, "--switch", "route_hint=off")
    assert on["hint"]["used"] > 0 and off["hint"]["used"] == 0
    assert off["switches"]["route_hint"] == "off"


def test_standard_input_gives_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "ippath", "replay", "-", "--host", HOST, "--json"]
    piped = subprocess.run(
        command, stdin=open(CAPTURE, "rb"), capture_output=True,
        env={**ENVIRONMENT, "NUMBA_DISABLE_JIT": "1"}, check=True,
    )  # fmt: skip
    assert json.loads(piped.stdout)["verdicts"] == replayed(capsys)["verdicts"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared captures are not here")
@pytest.mark.parametrize("host", [[], ["--host", HOST, "--on", "eth0"]], ids=["guessed", "demo"])
def test_every_shared_capture_replays(capsys: pytest.CaptureFixture[str], host: list[str]) -> None:
    wrong = []
    for path in sorted(SHARED.glob("*.pcap*")):
        code, out, err = run(
            capsys, "replay", str(path), *host, "--json", "--quiet", "--limit", "3000"
        )
        if code not in (FINE, ENDED_EARLY) or err:
            wrong.append(f"{path.name}: {code} {err}")
            continue
        summary = json.loads(out)
        if summary["packets"] != sum(summary["verdicts"].values()):
            wrong.append(f"{path.name}: {summary['verdicts']}")
    assert not wrong, "\n".join(wrong)


# --- files ------------------------------------------------------------------------------------------


def test_verdict_files_agree(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [str(tmp_path / f"rows{suffix}") for suffix in (".parquet", ".csv", ".jsonl", ".arrow")]
    summary = replayed(capsys, *(part for name in names for part in ("--verdicts", name)))
    assert summary["files"] == names
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(Path(n).name for n in names)

    def plain(table: pa.Table) -> list[dict]:
        """Rows with times as text; Python's own have no nanoseconds."""
        at = table.schema.get_field_index("time")
        text = table.column("time").cast(pa.timestamp("ns")).cast(pa.string())
        return table.set_column(at, "time", text).to_pylist()

    rows = plain(pq.read_table(names[0]))
    assert len(rows) == 1648 and [r["frame"] for r in rows] == list(range(1, 1649))
    assert plain(pa.ipc.open_file(names[3]).read_all()) == rows
    lines = [json.loads(line) for line in Path(names[2]).read_text().splitlines()]
    with open(names[1], newline="") as file:
        cells = list(csv.DictReader(file))
    for row, line, cell in zip(rows, lines, cells, strict=True):
        time = row.pop("time")
        assert line.pop("time") == cell.pop("time") == time.replace(" ", "T") + "Z"
        assert line == row
        for key, value in cell.items():
            expected = row[key]
            text = "" if expected is None else str(expected)
            assert value == (text.lower() if isinstance(expected, bool) else text), (key, time)
    given = {v: sum(line["verdict"] == v for line in lines) for v in VERDICTS}
    assert given["held"] == 4  # fragments, whose datagrams came together afterwards
    given["consumed"] += given["held"]
    assert given | {"held": 0} == summary["verdicts"]


def test_verdict_columns_are_documented(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name = tmp_path / "rows.csv"
    replayed(capsys, "--verdicts", str(name), "--limit", "1")
    text = (ROOT / "docs/results.md").read_text()
    section = text.partition("## Columns of `--verdicts`")[2].partition("## Keys")[0]
    documented: list[str] = []
    for line in section.splitlines():
        if line.startswith("| `"):
            documented += re.findall(r"`(\w+)`", line.split("|")[1])
    assert name.read_text().splitlines()[0].replace('"', "").split(",") == documented


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".arrow"])
def test_verdict_files_without_packets(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = tmp_path / f"rows{suffix}"
    replayed(capsys, "--limit", "0", "--verdicts", str(name))
    if suffix == ".parquet":
        assert pq.read_table(name).num_rows == 0
    elif suffix == ".arrow":
        assert pa.ipc.open_file(name).read_all().num_rows == 0
    else:
        assert len(name.read_text().splitlines()) == (suffix == ".csv")


def test_verdicts_do_not_depend_on_batches(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = []
    for step in (7, 1 << 20):
        for name in ("STEP", "STEP_PLAIN", "STEP_WITH_ROWS", "STEP_WITH_OUTPUT"):
            monkeypatch.setattr(replay, name, step)
        rows = tmp_path / f"{step}.csv"
        replayed(capsys, "--verdicts", str(rows))
        texts.append(rows.read_text())
    assert texts[0] == texts[1]


def test_packets_sent_are_written_by_device(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "sent"
    summary = replayed(capsys, "--write", str(folder))
    sent = {d["name"]: d["tx_packets"] for d in summary["devices"] if d["tx_packets"]}
    # what a VLAN device sends leaves by the device below
    found = {path.stem: len(PacketBatch.read(path)) for path in folder.glob("*.pcap")}
    assert found and all(found[name] >= count for name, count in sent.items() if name in found)
    assert summary["files"] == sorted(str(folder / f"{name}.pcap") for name in found)
    assert not list(folder.glob(".*"))
    answers = [p for p in PacketBatch.read(folder / "eth2.pcap") if p[23:24] == b"\x01"]
    assert any(p[34] == 11 for p in answers), "time exceeded goes back to the office"


def test_write_does_not_replace_its_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    capture = tmp_path / "eth0.pcap"
    capture.write_bytes(Path(CAPTURE).read_bytes())
    code, _, err = run(capsys, "replay", str(capture), "--host", HOST, "--write", str(tmp_path))
    assert code == WRONG_INPUT and "would replace" in err
    assert capture.read_bytes() == Path(CAPTURE).read_bytes()


def test_interrupt_keeps_what_was_done(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    for name in ("STEP", "STEP_WITH_ROWS", "STEP_PLAIN"):
        monkeypatch.setattr(replay, name, 100)

    def interrupt(self: object, packets: int, read: int, total: int | None) -> None:
        if packets == 300:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(replay.Progress, "update", interrupt)
    rows = tmp_path / "rows.parquet"
    summary = replayed(capsys, "--verdicts", str(rows))
    assert summary["interrupted"] and summary["packets"] == 300 == sum(summary["verdicts"].values())
    assert pq.read_table(rows).num_rows == 300
    code, out, err = run(capsys, "replay", CAPTURE, "--host", HOST)
    assert code == FINE and "Ctrl-C" in out and "again to stop at once" in err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_failure_leaves_no_half_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, packets: int, read: int, total: int | None) -> None:
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(replay.Progress, "update", fail)
    rows, folder = str(tmp_path / "rows.csv"), str(tmp_path / "sent")
    code, _, _ = run(
        capsys, "replay", CAPTURE, "--host", HOST, "--verdicts", rows, "--write", folder
    )
    assert code == INTERNAL
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


# --- explain ----------------------------------------------------------------------------------------


def test_explain_names_sysctl_and_route(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    replayed(capsys, "--verdicts", str(rows))
    frames = [json.loads(line) for line in rows.read_text().splitlines()]
    frame = next(r["frame"] for r in frames if r["reason"] == "IP_RPFILTER")
    args = ("explain", CAPTURE, "--host", HOST, "--frame", str(frame))
    code, out, err = run(capsys, *args)
    assert code == FINE, err
    decided = out.partition("decided by")[2]
    assert "IP_RPFILTER" in out
    assert "net.ipv4.conf.eth1.rp_filter" in decided
    assert "default via 198.51.100.1 dev eth0" in decided
    facts = json.loads(run(capsys, *args, "--json")[1])
    assert facts["frame"] == frame and facts["reason"] == "IP_RPFILTER"


def test_explain_and_replay_agree(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """For the first frame of each verdict and reason."""
    rows = tmp_path / "rows.jsonl"
    replayed(capsys, "--verdicts", str(rows))
    seen: dict[tuple[str, str], int] = {}
    for line in rows.read_text().splitlines():
        row = json.loads(line)
        seen.setdefault((row["verdict"], row["reason"]), row["frame"])
    assert len(seen) > 12
    for (verdict, reason), frame in seen.items():
        out = run(capsys, "explain", CAPTURE, "--host", HOST, "--frame", str(frame), "--json")[1]
        facts = json.loads(out)
        assert (facts["verdict"], facts["reason"]) == (verdict, reason or "NONE"), frame


RPF_PACKET = ip4("198.18.200.1", "203.0.113.2")


@pytest.mark.parametrize(
    ("name", "digits"),
    [
        ("bare", RPF_PACKET.hex()),
        ("spaces", RPF_PACKET.hex(" ")),
        ("colons", RPF_PACKET.hex(":").upper()),
        ("0x", "0x" + RPF_PACKET.hex()),
        ("a frame", "020000000011020000bb0001" + "0800" + RPF_PACKET.hex()),
        (
            "a dump",
            "\n".join(
                f"{at:04x}  {RPF_PACKET[at : at + 16].hex(' ')}"
                for at in range(0, len(RPF_PACKET), 16)
            ),
        ),
    ],
)  # fmt: skip
def test_explain_hex(capsys: pytest.CaptureFixture[str], name: str, digits: str) -> None:
    code, out, err = run(
        capsys, "explain", "--hex", digits, "--host", HOST, "--on", "eth1", "--json"
    )
    assert code == FINE, err
    facts = json.loads(out)
    assert facts["reason"] == "IP_RPFILTER" and facts["packet"]["destination"] == "203.0.113.2"


# --- the other commands -----------------------------------------------------------------------------


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(capsys, "info", CAPTURE, "--json")[1])
    assert facts["packets"] == 1648 and facts["ipv6"] == 391 and facts["udp_bad_csum"] == 6
    assert [i["name"] for i in facts["interfaces"]] == ["eth0", "eth1", "eth2"]
    text = run(capsys, "info", CAPTURE)[1]
    assert "ETHERNET" in text and "12.0 s from 2025-06-02" in text and text.isascii()


def test_check_prints_a_host_that_is_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, text, _ = run(capsys, "check", HOST)
    assert code == FINE
    copy = tmp_path / "copy.host"
    copy.write_text(text)
    assert run(capsys, "check", str(copy))[1] == text
    again = json.loads(run(capsys, "replay", CAPTURE, "--host", str(copy), "--json")[1])
    assert again["verdicts"] == replayed(capsys)["verdicts"]


def test_switches_lists_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    from ippath.switches import SWITCHES

    listed = json.loads(run(capsys, "switches", "--json")[1])
    assert [s["name"] for s in listed] == [s.name for s in SWITCHES]
    text = run(capsys, "switches")[1]
    assert all(s.name in text for s in SWITCHES)


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    from ippath.cli.commands import COMMANDS

    for name in COMMANDS:
        code, out, _ = run(capsys, name, "--help")
        assert code == FINE and "Usage: ippath " + name in out


# --- starting ---------------------------------------------------------------------------------------


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from ippath.cli import main; main(['--help']); "
        "print([m for m in ('numpy', 'numba', 'pyarrow', 'rich', 'pyroute2') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=ENVIRONMENT, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_importing_the_package_imports_nothing() -> None:
    script = "import sys, ippath; print('numpy' in sys.modules, ippath.Netns.__name__, 'numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**ENVIRONMENT, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert done.stdout.split() == ["False", "Netns", "True"]


def test_a_short_capture_does_not_wait_for_the_compiler(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "IPPATH_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("NUMBA_DISABLE_JIT", None)
    done = subprocess.run(
        [sys.executable, "-m", "ippath", "replay", CAPTURE, "--host", HOST, "--json"],
        capture_output=True, text=True, env=environment, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["compiled"] is False and "compiling" not in done.stderr


@pytest.mark.parametrize(
    ("packets", "limit", "cached", "plain"),
    [
        (10, None, True, True),
        (build.FEW, None, True, True),
        (build.FEW + 1, None, True, False),
        (build.FEW + 1, None, False, True),
        (build.FEW_WHEN_COLD + 1, None, False, False),
        (None, None, False, False),  # cannot be told: a pipe
        (None, 10, False, True),
        (1_000_000, 10, True, True),
    ],
)
def test_which_build(
    monkeypatch: pytest.MonkeyPatch,
    packets: int | None,
    limit: int | None,
    cached: bool,
    plain: bool,
) -> None:
    monkeypatch.delitem(sys.modules, "ippath.jit", raising=False)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "")
    monkeypatch.delenv("NUMBA_DISABLE_JIT")
    monkeypatch.setattr(build, "count_packets", lambda paths, most: packets)
    monkeypatch.setattr(build, "has_compiled_code", lambda entry: cached)
    build.choose_build(["a.pcap"], limit)
    assert os.environ.get("NUMBA_DISABLE_JIT") == ("1" if plain else None)


def test_counting_packets(tmp_path: Path) -> None:
    import gzip
    import lzma

    raw = Path(CAPTURE).read_bytes()
    files = {"plain": raw, "gz": gzip.compress(raw), "xz": lzma.compress(raw), "junk": b"hello" * 9}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for name in ("plain", "gz", "xz"):
        assert build.count_packets([str(tmp_path / name)], 10**6) == 1648
        assert build.count_packets([str(tmp_path / name)], 100) == 100
    assert build.count_packets([str(tmp_path / "junk")], 100) == 0
    assert build.count_packets([str(tmp_path)], 10**6) == 3 * 1648
    assert build.count_packets(["-"], 100) is None


def test_a_closed_pipe_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "ippath", "switches"], stdout=closed, stderr=subprocess.PIPE,
            env=ENVIRONMENT, check=False,
        )  # fmt: skip
    assert done.returncode == FINE and not done.stderr


# --- destinations of drops --------------------------------------------------------------------------


def _dropped(packets: list[bytes], reason: str) -> tuple[PacketBatch, Any]:
    """Raw IP packets, and verdicts that say that all were dropped."""
    n = len(packets)
    verdicts = SimpleNamespace(
        verdict=np.full(n, DROPPED), reason=np.full(n, reason_code(reason)),
        family=np.array([p[0] >> 4 for p in packets]), network=np.zeros(n, np.int32),
    )  # fmt: skip
    return PacketBatch.from_packets(packets, link_type=LINK_RAW), verdicts


def test_destinations_are_counted_by_reason_and_family() -> None:
    counts = DropDestinations()
    packets = [ip4("10.0.0.1", f"10.0.0.{k % 3 + 7}") for k in range(10)]
    packets += [ip6("2001:db8::1", "2001:db8::7")] * 4
    batch, verdicts = _dropped(packets, "IP_RPFILTER")
    counts.add(batch, verdicts)
    counts.add(*_dropped(packets[:1], "NO_SOCKET"))
    verdicts.verdict[:] = FORWARDED
    counts.add(batch, verdicts)
    rpf = counts.top(reason_code("IP_RPFILTER"))
    assert rpf == [("10.0.0.7", 4), ("2001:db8::7", 4), ("10.0.0.8", 3), ("10.0.0.9", 3)]
    assert counts.top(reason_code("NO_SOCKET")) == [("10.0.0.7", 1)]
    assert counts.top(reason_code("IP_CSUM")) == [] and not counts.approximate


def test_destinations_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from ippath.report import watch

    monkeypatch.setattr(watch, "MERGE_AT", 64)
    monkeypatch.setattr(watch, "KEPT", 16)
    counts = DropDestinations()
    for k in range(40):
        flood = [ip4("10.0.0.1", f"10.{k}.{j}.1") for j in range(20)]
        counts.add(*_dropped([*flood, ip4("10.0.0.1", "10.9.9.9"), flood[0]], "IP_RPFILTER"))
        assert counts._waiting <= 64 + 22
    assert counts.approximate
    assert counts.top(reason_code("IP_RPFILTER"), 1) == [("10.9.9.9", 40)]


def test_cut_packets_have_no_destination() -> None:
    counts = DropDestinations()
    counts.add(*_dropped([ip4("10.0.0.1", "10.0.0.2")[:19]], "HDR_TRUNC"))
    assert counts.top(reason_code("HDR_TRUNC")) == []


# --- folding ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "folded"),
    [
        ("short", ["short"]),
        ("one two three four five six", ["one two three four", "five six"]),
        ("  name  one two three four", ["  name  one two", "        three four"]),
        ("  1. one two three four five", ["  1. one two three", "     four five"]),
        ("averyveryverylongwordindeed x", ["averyveryverylongwordindeed", "x"]),
        ("\033[1mone two three four\033[0m five", ["\033[1mone two three four\033[0m", "five"]),
    ],
)
def test_long_lines_are_folded(line: str, folded: list[str]) -> None:
    from ippath.report.fold import fold

    assert fold(line, 20).splitlines() == folded
