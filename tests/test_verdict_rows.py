"""Verdicts as rows: addresses in words, names of the host, files by row group."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ippath import Netns, PacketBatch, verdict_rows
from ippath.address_texts import ipv4_texts, ipv6_texts
from ippath.bench import traffic
from ippath.report import verdict_files
from ippath.report.verdict_files import open_verdict_file

ZEROS = st.binary(min_size=2, max_size=2) | st.just(b"\0\0") | st.just(b"\0\0")


@given(st.lists(st.binary(min_size=4, max_size=4), max_size=20))
def test_ipv4_addresses_as_text(raw: list[bytes]) -> None:
    packed = np.frombuffer(b"".join(raw), np.uint8).reshape(-1, 4)
    assert ipv4_texts(packed).to_pylist() == [str(ipaddress.IPv4Address(one)) for one in raw]


def test_ipv6_addresses_of_every_shape() -> None:
    """All 256 ways in which the words of an address can be zero or not."""
    words = [[(k >> bit & 1) * (0xA0 << bit) for bit in range(8)] for k in range(256)]
    packed = np.array(words, ">u2").view(np.uint8)
    expected = [str(ipaddress.IPv6Address(row.tobytes())) for row in packed]
    assert ipv6_texts(packed).to_pylist() == expected
    assert expected[0] == "::"


@given(st.lists(st.lists(ZEROS, min_size=8, max_size=8).map(b"".join), max_size=20))
@example(
    [ipaddress.IPv6Address(a).packed for a in ("::1", "::ffff:198.51.100.1", "fe80::", "::2:0")]
)
def test_ipv6_addresses_as_text(raw: list[bytes]) -> None:
    packed = np.frombuffer(b"".join(raw), np.uint8).reshape(-1, 16)
    assert ipv6_texts(packed).to_pylist() == [str(ipaddress.IPv6Address(one)) for one in raw]


def received(count: int, netns: Netns | None = None) -> tuple[Any, PacketBatch, Netns]:
    """Rows of IPv4 and IPv6 frames to many addresses of the benchmark's receiver."""
    from ippath.batch import concatenate

    netns = netns or Netns(traffic.receiver())
    batch = concatenate([traffic.udp_frames(family, count, True) for family in (4, 6)])
    batch.device = np.full(2 * count, 1, np.int32)
    return netns.receive(batch).to_arrow(batch, netns), batch, netns


def told(rows: Any) -> list[dict[str, Any]]:
    """The rows as data; times as nanoseconds, which Python's own type has not."""
    at = rows.schema.get_field_index("time")
    return rows.set_column(at, "time", rows.column(at).cast(pa.int64())).to_pylist()


def test_rows_name_both_families() -> None:
    rows, batch, _ = received(40)
    for row, frame in zip(told(rows), batch):
        at, size = (26, 4) if row["family"] == 4 else (22, 16)
        source, destination = frame[at : at + size], frame[at + size : at + 2 * size]
        assert row["source"] == str(ipaddress.ip_address(source))
        assert row["destination"] == str(ipaddress.ip_address(destination))
        assert (row["source_port"], row["destination_port"]) == (40000, traffic.PORT)
        assert row["route"].startswith(f"local {row['destination']} dev eth0")
        assert (row["table"], row["verdict"], row["device"]) == ("local", "delivered", "eth0")
        any_address = "0.0.0.0" if row["family"] == 4 else "[::]"
        assert row["socket"] == f"udp {any_address}:{traffic.PORT}"
        assert row["reason"] is row["out_device"] is None


def test_names_of_the_host_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    original = verdict_rows._Names
    monkeypatch.setattr(verdict_rows, "_Names", lambda n: made.append(n) or original(n))
    rows, _, netns = received(3)
    again, _, _ = received(3, netns)
    assert made == [netns]
    column = rows.schema.get_field_index("route")
    one, other = (r.column(column).dictionary.buffers()[2].address for r in (rows, again))
    assert one == other, "batches share the names"
    received(3)
    assert len(made) == 2, "another host has names of its own"


def test_parquet_rows_go_by_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(verdict_files, "ROW_GROUP", 200)
    netns = Netns(traffic.receiver())
    parts = [received(count, netns)[0] for count in (40, 50, 60, 3)]
    file = open_verdict_file(tmp_path / "rows.parquet", parts[0].schema)
    for part in parts:
        file.write(part)
    file.close()
    found = pq.ParquetFile(tmp_path / "rows.parquet")
    groups = [found.metadata.row_group(k).num_rows for k in range(found.num_row_groups)]
    assert groups == [300, 6], "a group is full as soon as it holds 200; the rest at the end"
    assert told(found.read()) == [row for part in parts for row in told(part)]


def test_only_words_that_occur_are_kept() -> None:
    names = pa.array([f"route {k}" for k in range(1000)])
    few = pa.DictionaryArray.from_arrays(pa.array([7, None, 999, 7, None], pa.int32()), names)
    none = pa.DictionaryArray.from_arrays(pa.array([None] * 5, pa.int32()), names)
    rows = pa.RecordBatch.from_pydict({"few": few, "none": none, "number": pa.array(range(5))})
    kept = verdict_files._with_words_used(rows)
    assert kept.to_pylist() == rows.to_pylist() and kept.schema == rows.schema
    assert kept.column(0).dictionary.to_pylist() == ["route 7", "route 999"]
    assert len(kept.column(1).dictionary) == 0
