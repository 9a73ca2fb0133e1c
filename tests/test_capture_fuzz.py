"""Damaged captures: whatever the bytes, reading ends, raises CaptureError at most, stays inside."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import captures as make
from captures import Record
from ippath.capture import CaptureError, open_captures

FRAME = make.ethernet(0x0800, make.ipv4_udp())
ROUNDS = int(os.environ.get("IPPATH_FUZZ_ROUNDS", "250"))  # of each seed file


def seeds() -> dict[str, bytes]:
    records = [Record(FRAME[: 10 + k], k, wire_length=60) for k in range(9)]
    found = {}
    for order in "<>":
        for magic in (make.MICROSECONDS, make.NANOSECONDS, make.KUZNETSOV):
            found[f"pcap {magic:x} {order}"] = make.pcap(records, order=order, magic=magic)
        raw = make.section(order, comment="fuzz") + make.interface(1, name="eth0", order=order)
        raw += make.interface(113, resolution=9, offset=7, snaplen=64, order=order)
        raw += make.enhanced(FRAME, 5, flags=2, comments=["a comment"], order=order)
        raw += make.enhanced(FRAME[:33], 6, interface=1, order=order)
        raw += make.simple(FRAME[:20], 60, order) + make.block(5, bytes(8), order)
        raw += make.old_packet(FRAME, 7, interface=1, flags=1, order=order)
        raw += make.section("<") + make.interface(101, resolution=0xA0)
        raw += make.enhanced(make.ipv4_udp(), 1 << 33)
        found[f"pcapng {order}"] = raw
    return found


SEEDS = seeds()


def drain(paths, **options) -> int:
    """Reads all; returns the number of packets.  Any packet outside its arena is a failure."""
    packets, position = 0, 1
    try:
        with open_captures(paths, **options) as captures:
            for batch in captures:
                assert len(batch) >= 1
                end = batch.offset + batch.length
                assert batch.offset.min() >= 0
                assert batch.length.min() >= 0
                assert end.max() <= batch.data.shape[0]
                assert (batch.wire_length >= batch.length).all()
                assert (np.abs(batch.time_ns) <= 1 << 62).all()
                assert batch.device.min() >= 0
                assert batch.device.max() < len(captures.interfaces)
                assert set(np.unique(batch.direction)) <= {0, 1, 2}
                assert batch.first_frame == position
                position += len(batch)
                packets += len(batch)
            for ending in captures.endings:
                assert ending.why
                assert ending.offset >= 0
    except CaptureError as problem:
        assert problem.why
    return packets


SPECIAL = [
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x0c\0\0\0",
]


def mutated(raw: bytes, choice: random.Random) -> bytes:
    """One to four changes: a flipped bit, a special word, a piece cut, doubled or moved."""
    data = bytearray(raw)
    for _ in range(choice.randint(1, 4)):
        at = choice.randrange(len(data) + 1)
        size = choice.choice([1, 2, 4, 8, 16, 40])
        kind = choice.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << choice.randrange(8)
        elif kind == 1:
            data[at : at + 4] = choice.choice(SPECIAL)
        elif kind == 2:
            del data[at : at + size]
        elif kind == 3:
            data[at:at] = data[at : at + size]
        elif kind == 4:
            data = data[:at]
        else:
            data[at : at + size] = choice.randbytes(size)
    return bytes(data)


@pytest.mark.parametrize("name", SEEDS)
def test_mutations(tmp_path, name):
    choice = random.Random(name)
    path = tmp_path / "c"
    whole = 0
    for _ in range(ROUNDS):
        raw = mutated(SEEDS[name], choice)
        path.write_bytes(raw)
        mapped = drain(path, chunk=choice.choice([1, 3, 1000]))
        whole += mapped
        if choice.random() < 0.1:
            path.write_bytes(gzip.compress(raw, 1))
            assert drain(path) == mapped  # a stream finds what a mapping finds
    assert whole > ROUNDS  # most of the packets survive most of the changes


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_mutations_of_compressed_files(tmp_path, pack):
    choice = random.Random(pack.__module__)
    path = tmp_path / "c"
    packed = pack(SEEDS["pcapng <"] * 3)
    for _ in range(ROUNDS // 4):
        path.write_bytes(mutated(packed, choice))
        drain(path)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_mutations_of_arrow_compressed_files(tmp_path, codec):
    pyarrow = pytest.importorskip("pyarrow")
    choice = random.Random(codec)
    path = tmp_path / "c"
    packed = pyarrow.compress(SEEDS["pcapng <"] * 3, codec=codec, asbytes=True)
    for _ in range(ROUNDS // 4):
        path.write_bytes(mutated(packed, choice))
        drain(path)


@pytest.mark.parametrize("pair", [("pcap a1b2c3d4 <", "pcapng >"), ("pcapng <", "pcapng >")])
def test_mutations_in_a_merge(tmp_path, pair):
    choice = random.Random(str(pair))
    paths = [tmp_path / "a", tmp_path / "b"]
    for _ in range(ROUNDS // 4):
        for path, name in zip(paths, pair, strict=True):
            path.write_bytes(mutated(SEEDS[name], choice))
        drain(paths, chunk=choice.choice([1, 4, 100]))


@given(head=st.sampled_from(sorted(SEEDS)), keep=st.integers(0, 200), tail=st.binary(max_size=300))
@settings(max_examples=100)
def test_any_bytes_behind_a_good_start(tmp_path_factory, head, keep, tail):
    path = tmp_path_factory.getbasetemp() / "fuzz-tail"
    path.write_bytes(SEEDS[head][:keep] + tail)
    drain(path)


word = st.one_of(st.integers(0, 64), st.integers(0, 0xFFFFFFFF)).map(
    lambda v: v.to_bytes(4, "little")
)
body = st.lists(word, max_size=14).map(b"".join)


@given(
    blocks=st.lists(st.tuples(st.sampled_from([1, 2, 3, 5, 6, 0x0A0D0D0A, 99]), body), max_size=8)
)
@settings(max_examples=100)
def test_well_framed_blocks_with_any_body(tmp_path_factory, blocks):
    """Right lengths around wrong contents get past the first checks."""
    path = tmp_path_factory.getbasetemp() / "fuzz-blocks"
    raw = make.section() + make.interface(1)
    path.write_bytes(raw + b"".join(make.block(kind, content) for kind, content in blocks))
    drain(path)
