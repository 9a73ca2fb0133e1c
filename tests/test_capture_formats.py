"""pcap and pcapng files as they are read: packets, times, interfaces, link types, comments."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import captures as make
from captures import KUZNETSOV, MICROSECONDS, NANOSECONDS, Record
from ippath.batch import DIRECTION_IN, DIRECTION_OUT, PacketBatch, concatenate
from ippath.capture import open_captures, read_batch

FRAME = make.ethernet(0x0800, make.ipv4_udp())
T = 1_700_000_000_123_456_789


def read(tmp_path, raw: bytes) -> PacketBatch:
    path = tmp_path / "capture"
    path.write_bytes(raw)
    return read_batch(path)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("magic", "time"),
    [(MICROSECONDS, T // 1000 * 1000), (NANOSECONDS, T), (KUZNETSOV, T // 1000 * 1000)],
    ids=["microseconds", "nanoseconds", "Kuznetsov"],
)
def test_pcap_variants(tmp_path, order, magic, time):
    records = [Record(FRAME, T), Record(FRAME[:30], T, wire_length=1500), Record(b"", T)]
    batch = read(tmp_path, make.pcap(records, order=order, magic=magic))
    assert list(batch) == [FRAME, FRAME[:30], b""]
    assert batch.wire_length.tolist() == [len(FRAME), 1500, 0]
    assert batch.time_ns.tolist() == [time] * 3
    assert batch.link_type.tolist() == [1] * 3
    assert batch.interfaces == [""]


def test_pcap_frame_check_length_in_the_link_type_is_ignored(tmp_path):
    batch = read(tmp_path, make.pcap([Record(FRAME)], link_type=0x24000001))
    assert batch.link_type.tolist() == [1]


@pytest.mark.parametrize("number", [12, 14, 101])
def test_raw_ip_has_one_link_type(tmp_path, number):
    batch = read(tmp_path, make.pcap([Record(make.ipv4_udp())], link_type=number))
    assert batch.link_type.tolist() == [101]


@pytest.mark.parametrize(
    ("version", "captured", "stored_first", "stored_second", "wire"),
    [
        ((2, 4), 40, 40, 60, 60),
        ((2, 2), 40, 60, 40, 60),
        ((2, 3), 40, 60, 40, 60),
        ((2, 3), 40, 40, 60, 60),
        ((2, 4), 40, 40, 10, 40),
    ],
    ids=["2.4", "2.2 swapped", "2.3 swapped", "2.3 plain", "wire length too small"],
)
def test_pcap_length_fields(tmp_path, version, captured, stored_first, stored_second, wire):
    raw = make.pcap([], version=version)
    raw += struct.pack("<IIII", 1, 0, stored_first, stored_second) + bytes(captured)
    batch = read(tmp_path, raw)
    assert (batch.length.tolist(), batch.wire_length.tolist()) == ([captured], [wire])


def test_longest_packets_are_read(tmp_path):
    batch = read(tmp_path, make.pcap([Record(bytes(262144))], snaplen=100))
    assert batch.length.tolist() == [262144]


@pytest.mark.parametrize("name", make.link_samples())
def test_every_link_type_is_read(tmp_path, name):
    link, frame = make.link_samples()[name]
    batch = read(tmp_path, make.pcap([Record(frame)] * 3, link_type=link))
    assert list(batch) == [frame] * 3


# --- pcapng -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["<", ">"])
def test_report_1_each_interface_has_its_own_resolution(tmp_path, order):
    """kbandla/dpkt#681: packets of a nanosecond and a microsecond interface alternate."""
    raw = make.section(order)
    raw += make.interface(1, resolution=6, name="eth0", order=order)
    raw += make.interface(1, resolution=9, name="eth1", order=order)
    expected = []
    for k in range(4):
        time = T // 1000 * 1000 + k * 1000
        units = time if k % 2 else time // 1000
        raw += make.enhanced(FRAME, units, interface=k % 2, order=order)
        expected.append(time)
    batch = read(tmp_path, raw)
    assert batch.time_ns.tolist() == expected
    assert [batch.interfaces[d] for d in batch.device] == ["eth0", "eth1"] * 2


@pytest.mark.parametrize("order", ["<", ">"])
def test_report_2_interfaces_differ_in_link_type_and_snap_length(tmp_path, order):
    """Rup0rt/pcapfix#23: Ethernet and Linux cooked in one file, snap lengths 65535 and 262144."""
    cooked = make.link_samples()["cooked"][1]
    raw = make.section(order)
    raw += make.interface(1, snaplen=65535, order=order)
    raw += make.interface(113, snaplen=262144, order=order)
    raw += make.enhanced(FRAME, 1, interface=0, order=order)
    raw += make.enhanced(cooked, 2, interface=1, order=order)
    raw += make.enhanced(FRAME + bytes(70000), 3, interface=0, order=order)
    batch = read(tmp_path, raw)
    assert list(batch) == [FRAME, cooked, FRAME + bytes(70000)]
    assert batch.link_type.tolist() == [1, 113, 1]
    assert batch.device.tolist() == [0, 1, 0]  # both without a name, told apart


RESOLUTIONS = [
    # name, if_tsresol, if_tsoffset, units, nanoseconds
    ("default is microseconds", None, None, 5_000_001, 5_000_001_000),
    ("seconds", 0, None, 1_700_000_000, 1_700_000_000 * 10**9),
    ("milliseconds", 3, None, 1_500, 1_500_000_000),
    ("nanoseconds", 9, None, T, T),
    ("picoseconds", 12, None, 1_234_567_890_123, 1_234_567_890),
    ("10^-20, finer than 63 bits", 20, None, 10**18, 10_000_000),
    ("10^-127", 127, None, 10**18, 0),
    ("2^-10", 0x8A, None, 1024 + 512, 1_500_000_000),
    ("2^-32", 0xA0, None, (7 << 32) + (1 << 31), 7_500_000_000),
    ("2^-40", 0xA8, None, (7 << 40) + (1 << 38), 7_250_000_000),
    ("2^-64", 0xC0, None, 1 << 62, 250_000_000),
    ("2^-127", 0xFF, None, 1 << 62, 0),
    ("offset", 9, 1_700_000_000, 5, 1_700_000_000 * 10**9 + 5),
    ("offset before 1970", 6, -10, 3_000_000, -7_000_000_000),
]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("resolution", "offset", "units", "time"),
    [row[1:] for row in RESOLUTIONS],
    ids=[row[0] for row in RESOLUTIONS],
)
def test_time_resolution_and_offset(tmp_path, order, resolution, offset, units, time):
    raw = make.section(order) + make.interface(1, resolution=resolution, offset=offset, order=order)
    batch = read(tmp_path, raw + make.enhanced(FRAME, units, order=order))
    # powers of two beyond 62 bits are divided by whole nanoseconds
    assert batch.time_ns[0] == pytest.approx(time, abs=1, rel=1e-9)


@pytest.mark.parametrize("resolution", [0, 6, 9, 12, 127, 0x80, 0xA0, 0xBE, 0xFF])
@pytest.mark.parametrize("offset", [-(1 << 63), 0, (1 << 63) - 1])
def test_absurd_times_stay_in_range(tmp_path, resolution, offset):
    raw = make.section() + make.interface(1, resolution=resolution, offset=offset)
    for units in (0, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
        raw += make.enhanced(FRAME, units)
    times = read(tmp_path, raw).time_ns
    assert ((times >= -(1 << 62)) & (times <= 1 << 62)).all()
    assert (np.diff(times) >= 0).all()


def test_sections_restart_interfaces_and_may_differ_in_byte_order(tmp_path):
    raw = make.section("<") + make.interface(1, name="eth0") + make.enhanced(FRAME, 1)
    raw += make.section(">") + make.interface(101, name="tun0", resolution=9, order=">")
    raw += make.interface(1, name="eth0", order=">")
    raw += make.enhanced(make.ipv4_udp(), 5, order=">")
    raw += make.enhanced(FRAME, 9, interface=1, order=">")
    batch = read(tmp_path, raw)
    assert batch.interfaces == ["eth0", "tun0"]
    assert batch.device.tolist() == [0, 1, 0]
    assert batch.link_type.tolist() == [1, 101, 1]
    assert batch.time_ns.tolist() == [1000, 5, 9000]


def test_block_kinds(tmp_path):
    """Enhanced, old and simple packet blocks; blocks about other things are passed over."""
    raw = make.section() + make.interface(1, resolution=9, snaplen=50)
    raw += make.block(4, b"\0" * 4)  # name resolution
    raw += make.block(5, b"\0" * 12)  # interface statistics
    raw += make.enhanced(FRAME, 77, flags=1)
    raw += make.block(0xBAD, b"custom data of some length...")
    raw += make.simple(FRAME[:40])
    raw += make.simple(FRAME[:50], wire_length=1000)
    raw += make.old_packet(FRAME, 99, flags=2)
    batch = read(tmp_path, raw)
    assert list(batch) == [FRAME, FRAME[:40], FRAME[:50], FRAME]
    assert batch.wire_length.tolist() == [len(FRAME), 40, 1000, len(FRAME)]
    assert batch.time_ns.tolist() == [77, 77, 77, 99]  # simple packets have no time of their own
    assert batch.direction.tolist() == [DIRECTION_IN, 0, 0, DIRECTION_OUT]


def test_block_lengths_without_padding_are_understood(tmp_path):
    data = FRAME[:41]
    body = struct.pack("<IIIII", 0, 0, 7, 41, 41) + data
    size = struct.pack("<I", 12 + len(body))
    bare = struct.pack("<I", 6) + size + body + size
    padded = struct.pack("<I", 6) + size + body + b"\0" * 3 + size
    raw = make.section() + make.interface(1) + bare + padded + make.enhanced(FRAME, 9)
    assert list(read(tmp_path, raw)) == [data, data, FRAME]


@pytest.mark.parametrize("code", [1, 2], ids=["comment", "flags"])
def test_an_option_that_leaves_its_block_is_no_option(tmp_path, code):
    """The four bytes it claims are the block's length at its end, and the next block."""
    head = struct.pack("<IIIII", 0, 0, 7, len(FRAME), len(FRAME)) + FRAME
    whole = make.block(6, head + make.option(code, b"\1\0\0\0"))
    beyond = make.block(6, head + struct.pack("<HH", code, 4))
    path = tmp_path / "c"
    path.write_bytes(make.section() + make.interface(1) + whole + beyond)
    with open_captures(path) as captures:
        (batch,) = captures
    assert batch.direction.tolist() == ([1, 0] if code == 2 else [0, 0])
    assert list(batch.comments) == ([1] if code == 1 else [])


def test_comments_are_kept(tmp_path):
    raw = make.section(comment="by hand") + make.interface(1, comment="the uplink")
    raw += make.enhanced(FRAME, 1) + make.enhanced(FRAME, 2, comments=["look", "twice"], flags=2)
    path = tmp_path / "c"
    path.write_bytes(raw + make.enhanced(FRAME, 3, comments=["grün"]))
    with open_captures(path) as captures:
        (batch,) = captures
    assert batch.comments == {2: "look\ntwice", 3: "grün"}
    assert captures.comments == batch.comments
    assert captures.notes == ["by hand", "the uplink"]


def test_many_comments(tmp_path):
    """More than one index call can note."""
    n = 5000
    raw = b"".join(make.enhanced(b"x", k, comments=[f"c{k}"]) for k in range(1, n + 1))
    batch = read(tmp_path, make.section() + make.interface(1) + raw)
    assert batch.comments == {k: f"c{k}" for k in range(1, n + 1)}


# --- batches ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 50, 1000])
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_chunks_over_the_mapped_file(tmp_path, kind, chunk):
    frames = [FRAME[:20] + bytes([k]) for k in range(50)]
    if kind == "pcap":
        raw = make.pcap([Record(f, k) for k, f in enumerate(frames)])
    else:
        raw = make.section() + make.interface(1)
        raw += b"".join(make.enhanced(f, k) for k, f in enumerate(frames))
    path = tmp_path / "c"
    path.write_bytes(raw)
    with open_captures(path, chunk=chunk) as captures:
        batches = list(captures)
    assert [p for b in batches for p in b] == frames
    assert all(1 <= len(b) <= chunk for b in batches)
    assert [int(f) for b in batches for f in b.frame_numbers] == list(range(1, 51))
    assert all(b.data is batches[0].data for b in batches)  # the file itself, not copied
    assert batches[0].data.tobytes() == raw
    assert captures.bytes_read == captures.bytes_total == len(raw)
    assert captures.packets_read == 50
    joined = concatenate(batches)
    assert joined.data is batches[0].data
    assert list(joined) == frames


def test_read_batch_limit(tmp_path):
    path = tmp_path / "c"
    path.write_bytes(make.pcap([Record(bytes([k])) for k in range(9)]))
    assert list(read_batch(path, 4)) == [b"\0", b"\1", b"\2", b"\3"]
    assert len(read_batch(path, 0)) == 0
    assert len(read_batch(path, 100)) == 9


def test_a_capture_without_packets_is_fine(tmp_path):
    for raw in (make.pcap([]), make.section(), make.section() + make.interface(1)):
        path = tmp_path / "c"
        path.write_bytes(raw)
        with open_captures(path) as captures:
            assert list(captures) == []
        assert captures.endings == []


def test_batches_stay_valid_after_close(tmp_path):
    path = tmp_path / "c"
    path.write_bytes(make.pcap([Record(FRAME)] * 3))
    with open_captures(path) as captures:
        batches = list(captures)
    path.unlink()
    assert [p for b in batches for p in b] == [FRAME] * 3


def test_a_mapped_file_does_not_stay_resident(tmp_path):
    """What the reader has passed gives its pages back; whoever looks again finds the same bytes."""
    path = tmp_path / "c"
    packets = 300
    path.write_bytes(make.pcap([Record(bytes([k % 251]) * 200_000) for k in range(packets)]))
    with open_captures(path, chunk=20) as captures:
        batches = []
        for batch in captures:
            assert int(batch.data[batch.offset].sum()) >= 0
            batches.append(batch)
            touched = batch.data[batch.offset[0] : batch.offset[-1]].max()
            assert touched <= 250
            assert _resident(str(path)) < 20 << 20
    assert all(batches[k // 20].packet(k % 20)[0] == k % 251 for k in range(packets))


def _resident(path: str) -> int:
    """Resident bytes of this process's mappings of a file."""
    total, mine = 0, False
    with open("/proc/self/smaps") as maps:
        for line in maps:
            if "-" in line.split(" ", 1)[0]:
                mine = line.rstrip().endswith(path)
            elif mine and line.startswith("Rss:"):
                total += int(line.split()[1]) * 1024
    return total


def test_selected_rows_keep_their_frame_numbers():
    batch = PacketBatch.from_packets([b"a", b"b", b"c", b"d"])
    assert batch.select(slice(1, 3)).frame_numbers.tolist() == [2, 3]
    odd = batch.select(np.array([1, 3]))
    assert odd.frame_numbers.tolist() == [2, 4]
    assert odd.select(np.array([1])).frame_numbers.tolist() == [4]
    assert odd.select(slice(1, None)).frame_numbers.tolist() == [4]
    assert batch.select(slice(None, None, 2)).frame_numbers.tolist() == [1, 3]
    both = concatenate([batch.select(np.array([0])), odd])
    assert both.frame_numbers.tolist() == [1, 2, 4]
    assert list(both) == [b"a", b"b", b"d"]
