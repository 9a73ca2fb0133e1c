"""What the writers write, the readers read."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ippath.batch import PacketBatch
from ippath.capture import PcapNgWriter, PcapWriter, read_batch

COLUMNS = ("length", "wire_length", "time_ns", "link_type")
packets = st.lists(st.binary(max_size=70), min_size=1, max_size=12)


def same(one: PacketBatch, two: PacketBatch, *names: str) -> None:
    assert list(one) == list(two)
    for name in COLUMNS + names:
        assert getattr(one, name).tolist() == getattr(two, name).tolist(), name


@given(raw=packets, time=st.integers(0, 4_294_967_000 * 10**9), snapped=st.integers(0, 3000))
@settings(max_examples=40)
def test_pcap_round_trip(tmp_path_factory, raw, time, snapped):
    path = tmp_path_factory.mktemp("w") / "c.pcap"
    lengths = [len(p) + snapped for p in raw]
    batch = PacketBatch.from_packets(raw, link_type=1, time_ns=time, wire_length=lengths)
    with PcapWriter(path, 1) as writer:
        writer.write(batch)
        writer.write(batch)
    again = read_batch(path)
    same(again.select(slice(0, len(raw))), batch)
    same(again.select(slice(len(raw), None)), batch)
    assert writer.packets == 2 * len(raw)


@given(raw=packets, data=st.data())
@settings(max_examples=40)
def test_pcapng_round_trip(tmp_path_factory, raw, data):
    n = len(raw)
    path = tmp_path_factory.mktemp("w") / "c.pcapng"
    batch = PacketBatch.from_packets(raw, time_ns=10**18, interval_ns=7)
    draw = lambda *values: data.draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))  # noqa: E731
    batch.device = np.array(draw(0, 1), np.int32)
    batch.link_type = np.array(draw(1, 101), np.int32)
    batch.direction = np.array(draw(0, 1, 2), np.int32)
    batch.interfaces = ["eth0", "wlan0"]
    texts = data.draw(st.dictionaries(st.integers(1, n), st.text("aé\n", min_size=1), max_size=n))
    batch.comments = dict(texts)
    with PcapNgWriter(path, comment="made by a test") as writer:
        writer.write(batch)
    again = read_batch(path)
    same(again, batch, "direction")
    assert [again.interfaces[d] for d in again.device] == [
        batch.interfaces[d] for d in batch.device
    ]
    assert again.comments == batch.comments


def test_pcap_in_microseconds_and_to_a_file_object():
    target = io.BytesIO()
    writer = PcapWriter(target, 101, nanosecond=False, snaplen=9000)
    writer.write(PacketBatch.from_packets([b"abc"], time_ns=3_000_001_999))
    writer.close()
    expected = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 9000, 101)
    expected += struct.pack("<IIII", 3, 1, 3, 3) + b"abc"
    assert target.getvalue() == expected


def test_times_outside_the_format_are_clamped():
    target = io.BytesIO()
    times = [-5, (1 << 62)]
    PcapWriter(target, 101).write(PacketBatch.from_packets([b"", b""], time_ns=times))
    first, second = (
        struct.unpack_from("<II", target.getvalue(), 24),
        struct.unpack_from("<I", target.getvalue(), 40),
    )
    assert first == (0, 0)
    assert second == (0xFFFFFFFF,)


def test_pcap_refuses_another_link_type():
    writer = PcapWriter(io.BytesIO(), 1)
    batch = PacketBatch.from_packets([b"a", b"b"], link_type=1)
    batch.link_type[1] = 101
    with pytest.raises(ValueError, match="packet 1 of the batch has link type 101, the file 1"):
        writer.write(batch)


@pytest.mark.parametrize("writer_class", [PcapWriter, PcapNgWriter])
def test_batches_larger_than_the_block(tmp_path, writer_class):
    path = tmp_path / "c"
    raw = [bytes([k]) * size for k, size in enumerate([2_000_000, 10, 700_000, 700_000, 0])]
    batch = PacketBatch.from_packets(raw, link_type=231)  # D-Bus: long packets are believed
    with writer_class(path) if writer_class is PcapNgWriter else PcapWriter(path, 231) as writer:
        writer.write(batch)
        writer.write(batch.select(slice(0, 0)))
    assert list(read_batch(path)) == raw


def test_interfaces_are_described_once_and_before_their_packets(tmp_path):
    path = tmp_path / "c"
    batch = PacketBatch.from_packets([b"a", b"b"], device=[1, 0])
    batch.interfaces = ["eth0", "eth1"]
    with PcapNgWriter(path) as writer:
        for _ in range(3):
            writer.write(batch)
    raw, kinds, at = path.read_bytes(), [], 0
    while at < len(raw):
        kind, size = struct.unpack_from("<II", raw, at)
        kinds.append(kind)
        at += size
    assert kinds == [0x0A0D0D0A, 1, 1] + [6] * 6
    assert read_batch(path).interfaces == ["eth1", "eth0"]
