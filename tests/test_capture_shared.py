"""The shared captures: real files, counted by tshark."""

from __future__ import annotations

import csv

import pytest

from captures import SHARED
from ippath.capture import open_captures

if not SHARED.is_dir():
    pytest.skip("the shared captures are not here", allow_module_level=True)

with open(SHARED / "TRUTH.tsv", newline="") as table:
    TRUTH = list(csv.DictReader(table, delimiter="\t"))

# Two records of this file claim 34 and 0 bytes on the wire and 64 captured.  tshark counts any
# difference as snapped; for us the wire length is at least what was captured.
WIRE_SHORTER_THAN_CAPTURED = {"tcpdump__icmp-icmp_print-oobr-2.pcap": 2}


def test_there_are_enough():
    assert len(TRUTH) > 300


@pytest.mark.parametrize("row", TRUTH, ids=[row["file"] for row in TRUTH])
def test_counts(row):
    packets = snapped = 0
    with open_captures(SHARED / row["file"], chunk=1000) as captures:
        for batch in captures:
            packets += len(batch)
            snapped += int((batch.length < batch.wire_length).sum())
    assert packets == int(row["packets"])
    assert snapped + WIRE_SHORTER_THAN_CAPTURED.get(row["file"], 0) == int(row["snapped"])
    assert bool(captures.endings) == bool(row["damage"])


def test_all_as_one_stream():
    """The folder in order of time has every packet of every file."""
    packets, last = 0, None
    with open_captures(SHARED) as captures:
        for batch in captures:
            assert batch.first_frame == packets + 1
            packets += len(batch)
            last = batch
    assert packets == sum(int(row["packets"]) for row in TRUTH)
    assert last is not None
    assert sorted(p.rsplit("/", 1)[1] for p in captures.skipped) == [
        "INDEX.tsv", "README.md", "TRUTH.tsv",
    ]  # fmt: skip
