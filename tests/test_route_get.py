"""`ip route get` and `ip route show` of modelled hosts: word for word what the kernel's hosts answer."""

from __future__ import annotations

import csv
import ipaddress
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ippath.cli import FINE, WRONG_INPUT, main
from ippath.cli.exits import NO
from ippath.config.host_file import parse_host
from ippath.netns import Netns
from ippath.route_get import Question, QuestionError, answer_rows, ask
from ippath.route_why import NOT_REACHED, PASSED_OVER, WINS, why
from ippath.verify.namespace import KernelError, available, kernel_version
from ippath.verify.on_ippath import PREPARED
from tests.kernel.route_asker import (
    ANSWERS, HOST, RULES, Questions, answerable, ask_kernel, differences, recorded, table,
)  # fmt: skip


def number(text: str) -> int:
    return int(ipaddress.ip_address(text))


@pytest.fixture(scope="module")
def netns() -> Netns:
    return Netns(parse_host(PREPARED + HOST + RULES), seed=1)


@pytest.fixture
def host_file(tmp_path: Path) -> str:
    path = tmp_path / "router.host"
    path.write_text(PREPARED + HOST + RULES)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(list(args))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


# --- the kernel's answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [0, 1], ids=["no rules", "rules"])
def test_printed_as_the_kernel_printed_it(which: int) -> None:
    host, commands, kernel = recorded()[which]
    assert not (found := differences(host, commands, kernel)), "\n".join(found)
    errors = {answer["err"] for answer in kernel}
    assert len(errors) > 5 and sum(bool(answer["out"]) for answer in kernel) > 300


def test_the_recording_is_of_the_table() -> None:
    assert [(host, commands) for host, commands, _ in recorded()] == table(), (
        "record again: python -m tests.kernel.route_asker"
    )
    assert json.loads(ANSWERS.read_text())["kernel"].startswith("6.18")


@pytest.mark.skipif(bool(available()), reason=available() or "available")
@pytest.mark.parametrize("family", [4, 6])
def test_random_hosts_answer_as_the_running_kernel(family: int) -> None:
    if not kernel_version().startswith("6.18"):
        pytest.skip(f"the reference is 6.18, this is {kernel_version()}")
    generator = Questions(2026, (family,))
    asked = 0
    for _ in range(8):
        host = generator.host()
        commands = answerable([generator.question() for _ in range(40)])
        try:
            kernel = ask_kernel(host, commands)
        except KernelError as problem:
            if "Operation not permitted" in str(problem):
                pytest.skip("namespaces are not allowed here")
            continue  # the kernel refuses a line
        asked += len(commands)
        assert not (found := differences(host, commands, kernel)), host + "\n".join(found)
    assert asked >= 160


# --- asking in Python -----------------------------------------------------------------------------------


def test_one_question_and_many_have_one_answer(netns: Netns) -> None:
    for family, first in ((4, 0x0A000000), (6, number("2001:db8::"))):
        step = 0x3B0001 if family == 4 else 0xFFF1 << 66
        wanted = [(first + k * step) % (1 << (32 if family == 4 else 128)) for k in range(300)]
        mask = (1 << 64) - 1
        halves = np.array([[w >> 64, w & mask] for w in wanted], np.uint64).view(np.int64)
        question = Question(family)
        rows = answer_rows(netns, question, halves)
        for destination, row in zip(wanted, rows):
            one = ask(netns, question, destination)
            assert one.error == row[0]
            assert one.route is (netns.routes(family)[row[9]] if row[9] >= 0 else None)


def test_asking_counts_nothing_and_leaves_the_host_as_it_is(netns: Netns) -> None:
    before = netns.totals()
    netns.route_get("10.9.1.1", source="10.0.0.9", iif="r0")
    netns.route_get("2001:db8:b::1")
    assert netns.totals() == before


def test_a_device_that_is_not_there(netns: Netns) -> None:
    with pytest.raises(QuestionError, match='Cannot find device "r9"'):
        netns.route_get("10.9.1.1", oif="r9")


# --- why ------------------------------------------------------------------------------------------------


def test_why_names_rules_and_prefixes(netns: Netns) -> None:
    told = why(netns, Question(4), number("10.14.0.1"))
    assert [(c.text.split()[0], c.outcome) for c in told.candidates] == [
        ("10.14.0.0/24", WINS), ("10.14.0.0/16", NOT_REACHED), ("10.14.0.0/16", NOT_REACHED),
        ("default", NOT_REACHED),
    ]  # fmt: skip
    texts = [s.text for s in told.steps]
    assert "rule 100: from all fwmark 0x7 lookup 100: no match" in texts
    assert "rule 32766: from all lookup main: matches" in texts
    assert told.source.startswith("10.1.0.1 of r1")


@pytest.mark.parametrize(
    ("destination", "question", "passed_over", "because"),
    [
        ("10.16.0.1", {}, "10.16.0.0/16", "it is for another TOS"),
        ("2001:db8:d::1", {}, "2001:db8:d::/48", "other sources"),
        ("8.8.8.8", {"mark": 7, "oif": "r0"}, "8.8.0.0/16", "no next hop is alive and leaves"),
    ],
)
def test_why_says_what_was_passed_over(
    netns: Netns, destination: str, question: dict[str, Any], passed_over: str, because: str
) -> None:
    family = 6 if ":" in destination else 4
    told = why(netns, Question(family, **question), number(destination))
    (one,) = (c for c in told.candidates if c.text.startswith(passed_over))
    assert one.outcome == PASSED_OVER and because in one.why


def test_why_of_a_refusal(capsys: pytest.CaptureFixture[str], host_file: str) -> None:
    code, out, _ = run(capsys, "route", "why", "10.10.0.1", "--host", host_file)
    assert code == NO
    assert out.startswith("RTNETLINK answers: No route to host\n")
    assert "> unreachable 10.10.0.0/16  wins: routes of type unreachable refuse" in out
    code, out, _ = run(capsys, "route", "why", "10.10.0.1", "--host", host_file, "--json")
    told = json.loads(out)
    assert told["answer"] is None and told["prefixes"][0]["outcome"] == WINS


# --- the command ----------------------------------------------------------------------------------------


def test_the_command_prints_what_ip_prints(
    capsys: pytest.CaptureFixture[str], host_file: str
) -> None:
    asked = ("route", "get", "8.8.8.8", "from", "10.1.0.7", "iif", "r1", "--host", host_file)
    assert run(capsys, *asked) == (
        FINE, "8.8.8.8 from 10.1.0.7 via 10.0.0.254 dev r0 \n    cache iif r1 \n", "",
    )  # fmt: skip
    code, out, _ = run(capsys, *asked, "--json")
    assert out.endswith("}]\n") and json.loads(out)[0]["iif"] == "r1"
    assert run(capsys, "route", "get", "10.11.0.1", "--host", host_file) == (
        NO, "", "RTNETLINK answers: Permission denied\n",
    )  # fmt: skip
    assert run(capsys, "route", "get", "fibmatch", "10.9.1.1", "--host", host_file)[1] == (
        "10.9.0.0/16 via 10.1.0.254 dev r1 proto bgp src 10.0.0.1 metric 5 mtu 1300 \n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["get", "10.0.0"], "expected an IP address, not '10.0.0'"),
        (["get", "10.0.0.1", "frm", "10.0.0.2"], "did you mean 'from'?"),
        (["get", "10.0.0.1", "from", "::1"], "expected an IPv4 address, not '::1'"),
        (["get", "10.0.0.1", "sport", "70000"], "between 0 and 65535"),
        (["get", "10.0.0.1", "oif", "r9"], 'Cannot find device "r9"'),
        (["get"], "expected an address"),
        (["show", "tabel", "7"], "did you mean 'table'?"),
        (["get", "10.0.0.1", "-o", "x.csv"], "--output goes with --file"),
    ],
)
def test_wrong_words(
    capsys: pytest.CaptureFixture[str], host_file: str, words: list[str], said: str
) -> None:
    code, out, err = run(capsys, "route", *words, "--host", host_file)
    assert (code, out) == (WRONG_INPUT, "") and said in err


def test_diff(capsys: pytest.CaptureFixture[str], host_file: str, tmp_path: Path) -> None:
    other = tmp_path / "other.host"
    other.write_text(
        PREPARED + HOST + RULES + "ip route del 10.9.0.0/16\nip route add 10.7.0.0/16 dev r2\n"
    )
    code, out, _ = run(capsys, "route", "diff", host_file, str(other))
    assert (code, out.splitlines()) == (NO, [
        "- 10.9.0.0/16 via 10.1.0.254 dev r1 proto bgp src 10.0.0.1 metric 5 mtu 1300",
        "+ 10.7.0.0/16 dev r2 scope link",
    ])  # fmt: skip
    assert run(capsys, "route", "diff", host_file, str(other), "table", "100")[0] == FINE
    assert run(capsys, "route", "diff", host_file, host_file) == (FINE, "", "")
    told = json.loads(run(capsys, "route", "diff", host_file, str(other), "--json")[1])
    assert [r["dst"] for r in told["added"]] == ["10.7.0.0/16"]


# --- files of addresses ---------------------------------------------------------------------------------

MIXED = ["8.8.8.8", "10.0.0.1", "2001:db8::5", "10.10.0.1", "3000::1", "10.15.0.1"]


def _written(kind: str, folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv as pa_csv

    path = folder / f"addresses.{kind}"
    texts = pa.array(MIXED)
    if kind == "txt":
        path.write_text("# wanted\n" + "\n".join(MIXED) + "\n")
    elif kind == "parquet":
        pq.write_table(pa.table({"n": range(len(MIXED)), "address": texts}), path)
    elif kind == "csv":
        pa_csv.write_csv(pa.table({"address": texts}), path)
    else:
        np.save(path, np.array(MIXED))
    return path


@pytest.mark.parametrize("kind", ["txt", "parquet", "csv", "npy"])
@pytest.mark.parametrize("output", ["parquet", "csv", "jsonl", "arrow", "txt"])
def test_a_file_of_addresses(
    capsys: pytest.CaptureFixture[str], host_file: str, tmp_path: Path, kind: str, output: str
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, target = _written(kind, tmp_path), tmp_path / f"ways.{output}"
    code, _, err = run(
        capsys, "route", "get", "--file", str(path), "--host", host_file, "-o", str(target)
    )
    assert code == FINE, err
    assert "6 addresses, 1 without a way" in err
    if output == "txt":
        lines = target.read_text().splitlines()
        assert lines[0] == "8.8.8.8\tvia 10.0.0.254 dev r0 src 10.0.0.1"
        assert lines[3] == "10.10.0.1\tNo route to host"
        return
    if output == "parquet":
        rows = pq.read_table(target).to_pylist()
    elif output == "arrow":
        rows = pa.ipc.open_file(target).read_all().to_pylist()
    elif output == "jsonl":
        rows = [json.loads(line) for line in target.read_text().splitlines()]
    else:
        rows = [{k: v or None for k, v in row.items()} for row in csv.DictReader(target.open())]
    assert [row["address"] for row in rows] == MIXED
    assert [row["error"] for row in rows] == [None] * 3 + ["No route to host"] + [None] * 2
    assert rows[0] | {"route": ""} == {
        "address": "8.8.8.8", "error": None, "type": "unicast", "via": "10.0.0.254", "dev": "r0",
        "source": "10.0.0.1", "table": "main", "prefix": "0.0.0.0/0", "route": "",
    }  # fmt: skip
    assert rows[5]["via"] == "fe80::5" and rows[4]["prefix"] == "::/0"


@pytest.mark.parametrize(
    ("values", "family"),
    [
        (np.array([0x08080808, 0x0A000001], np.uint32), 4),
        (np.array([[8, 8, 8, 8], [10, 0, 0, 1]], np.uint8), 4),
        (np.array([list(range(16)), [32] + [0] * 15], np.uint8), 6),
        (np.array([b"8.8.8.8", b"10.0.0.1"]), 4),
    ],
)
def test_arrays_of_addresses(
    capsys: pytest.CaptureFixture[str],
    host_file: str,
    tmp_path: Path,
    values: np.ndarray,
    family: int,
) -> None:
    np.save(tmp_path / "a.npy", values)
    code, out, err = run(
        capsys, "route", "get", "--file", str(tmp_path / "a.npy"), "--host", host_file
    )
    assert code == FINE, err
    wanted = ["8.8.8.8", "10.0.0.1"] if family == 4 else ["1:203:405:607:809:a0b:c0d:e0f", "2000::"]
    assert [line.split("\t")[0] for line in out.splitlines()] == wanted


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", "8.8.8.8\n8.8.8\n", "a.txt:2: '8.8.8' is no address"),
        ("a.txt", "fe80::1%eth0\n", "a.txt:1: 'fe80::1%eth0' is no address"),
        ("a.npy", b"\x93NUMPY rubbish", "a.npy"),
        ("a.npy", np.array([1.5]), "not float64[1]"),
        ("a.npy", np.array([1 << 40]), "row 1: 1099511627776 is no IPv4 address"),
        ("a.npy", np.array([[1, 2, 3]], np.uint8), "not uint8[1, 3]"),
        ("a.parquet", b"PAR1 rubbish", "a.parquet"),
        ("a.csv", "address\n8.8.8.8\nx\n", "row 2: 'x' is no address"),
        ("a.csv", "", "a.csv"),
    ],
)
def test_wrong_files_of_addresses(
    capsys: pytest.CaptureFixture[str],
    host_file: str,
    tmp_path: Path,
    name: str,
    content: Any,
    said: str,
) -> None:
    path = tmp_path / name
    if isinstance(content, np.ndarray):
        np.save(path, content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run(capsys, "route", "get", "--file", str(path), "--host", host_file)
    assert (code, out) == (WRONG_INPUT, "") and said in err


def test_the_suffix_of_the_output_is_judged_first(
    capsys: pytest.CaptureFixture[str], host_file: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("8.8.8.8\n")
    code, _, err = run(
        capsys,
        "route",
        "get",
        "--file",
        str(tmp_path / "a.txt"),
        "--host",
        host_file,
        "-o",
        "x.xls",
    )
    assert code == WRONG_INPUT and ".parquet" in err
