"""Files that end early, files that are no captures, compressed files and pipes."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import re
import struct
import subprocess
import sys
import threading

import pytest

import captures as make
from captures import Record
from ippath.capture import CaptureError, Ending, open_captures, read_batch

FRAME = make.ethernet(0x0800, make.ipv4_udp())  # 48 bytes
RECORD = 16 + len(FRAME)
PCAP = make.pcap([Record(FRAME, k) for k in range(3)])
NG_HEAD = make.section() + make.interface(1)
NG = NG_HEAD + b"".join(make.enhanced(FRAME, k) for k in range(3))
BLOCK = len(make.enhanced(FRAME, 1))


def patched(raw: bytes, at: int, field: str, *values: int) -> bytes:
    new = struct.pack("<" + field, *values)
    return raw[:at] + new + raw[at + len(new) :]


SECOND = 24 + RECORD  # where the second packet of PCAP begins
NG_SECOND = len(NG_HEAD) + BLOCK

ENDINGS = [
    # name, file, packets read, offset, words
    ("whole", PCAP, 3, None, ""),
    ("packet cut", PCAP[:-10], 2, SECOND + RECORD, "truncated packet: 48 bytes promised, 38 left"),
    ("header cut", PCAP[: SECOND + 12], 1, SECOND, "truncated record header: 16 bytes promised, 12 left"),
    ("absurd length", patched(PCAP, SECOND + 8, "I", 0xFFFFFFF0), 1, SECOND, "bad captured length 4294967280: at most 262144 for link type 1"),
    ("too long", patched(PCAP, SECOND + 8, "I", 262145), 1, SECOND, "bad captured length 262145: at most 262144"),
    ("long but possible", patched(PCAP, SECOND + 8, "I", 262144), 1, SECOND, "truncated packet: 262144 bytes promised, 112 left"),
    ("first packet bad", patched(PCAP, 24 + 8, "I", 1 << 31), 0, 24, "bad captured length"),
    ("ng whole", NG, 3, None, ""),
    ("ng block cut", NG[:-10], 2, NG_SECOND + BLOCK, f"truncated block: {BLOCK} bytes promised, {BLOCK - 10} left"),
    ("ng block header cut", NG[: NG_SECOND + 7], 1, NG_SECOND, "truncated block header: 12 bytes promised, 7 left"),
    ("ng bad length", patched(NG, NG_SECOND + 4, "I", 7), 1, NG_SECOND, "bad block length 7"),
    ("ng zero length", patched(NG, NG_SECOND + 4, "I", 0), 1, NG_SECOND, "bad block length 0"),
    ("ng absurd length", patched(NG, NG_SECOND + 4, "I", 0xFFFFFFFC), 1, NG_SECOND, "bad block length 4294967292"),
    ("ng packet block too small", NG_HEAD + make.block(6, b"\0" * 12), 0, len(NG_HEAD), "bad block length 24"),
    ("ng lengths differ", patched(NG, NG_SECOND + BLOCK - 4, "I", 99), 1, NG_SECOND, f"bad block length: {BLOCK} at its start, 99 at its end"),
    ("ng packet exceeds block", patched(NG, NG_SECOND + 20, "I", 1000), 1, NG_SECOND, "packet of 1000 captured bytes in a block that has room for 48"),
    ("ng unknown interface", patched(NG, NG_SECOND + 8, "I", 5), 1, NG_SECOND, "packet of interface 5, but the section describes 1"),
    ("ng simple packet without interface", make.section() + make.simple(FRAME), 0, len(make.section()), "packet of interface 0, but the section describes 0"),
    ("ng packet too long", NG_HEAD + make.enhanced(bytes(262148)), 0, len(NG_HEAD), "bad captured length 262148"),
    ("ng interface block too small", make.section() + make.block(1, b""), 0, len(make.section()), "bad block length 12 of an interface description"),
    ("ng second section bad", NG + patched(make.section(), 8, "I", 1), 3, len(NG), "section header with byte-order magic 01000000"),
    ("ng second section cut", NG + make.section()[:20], 3, len(NG), "truncated block: 28 bytes promised, 20 left"),
    ("ng section version", NG + patched(make.section(), 12, "H", 9), 3, len(NG), "pcapng version 9, expected 1"),
    ("ng section length", NG + patched(make.section(), 4, "I", 30), 3, len(NG), "bad block length 30 of a section header"),
]  # fmt: skip


@pytest.mark.parametrize("way", ["mapped", "pipe"])
@pytest.mark.parametrize(
    ("raw", "packets", "offset", "why"), [row[1:] for row in ENDINGS], ids=[r[0] for r in ENDINGS]
)
def test_endings(tmp_path, way, raw, packets, offset, why):
    path = tmp_path / "capture"
    if way == "mapped":
        path.write_bytes(raw)
    else:
        os.mkfifo(path)
        threading.Thread(target=path.write_bytes, args=(raw,), daemon=True).start()
    with open_captures(path) as captures:
        read = [p for b in captures for p in b]
    assert read == [FRAME] * packets
    if offset is None:
        assert captures.endings == []
    else:
        (ending,) = captures.endings
        assert (ending.path, ending.offset) == (str(path), offset)
        assert ending.why.startswith(why)
        assert f"ended early at byte {offset}: {why}" in str(ending)


NO_CAPTURES = [
    ("text", b"hello world, this is text", 0, "not a capture: starts with 'hello wo'; expected pcap or pcapng"),
    ("binary", b"\x7fELF\1\2\3\4\5\6", 0, "not a capture: starts with 7f 45 4c 46 01 02 03 04"),
    ("empty", b"", 0, "is empty"),
    ("one byte", b"\xd4", 0, "not a capture: starts with d4"),
    ("pcap header cut", PCAP[:10], 0, "pcap file header cut short: 24 bytes promised, 10 left"),
    ("pcapng header cut", NG[:9], 0, "pcapng section header cut short: 12 bytes promised, 9 left"),
    ("pcapng magic", patched(NG, 8, "I", 77), 8, "pcapng section header with byte-order magic 4d000000"),
    ("gzip of text", gzip.compress(b"hello world"), 0, "not a capture: its gzip data starts with 'hello wo'"),
    ("gzip cut at once", gzip.compress(PCAP)[:9], 0, "gzip data cut short"),
    ("gzip damaged", gzip.compress(PCAP)[:10] + b"\xff" * 40, 0, "gzip data damaged"),
    ("xz damaged", lzma.compress(PCAP)[:6] + b"\xff" * 40, 0, "xz data damaged"),
    ("bzip2 damaged", b"BZh9" + b"\xff" * 40, 0, "bzip2 data damaged"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "offset", "why"), [row[1:] for row in NO_CAPTURES], ids=[r[0] for r in NO_CAPTURES]
)
def test_no_capture(tmp_path, raw, offset, why):
    path = tmp_path / "file"
    path.write_bytes(raw)
    with pytest.raises(CaptureError, match=re.escape(why)) as caught:
        open_captures([path])
    assert (caught.value.path, caught.value.offset) == (str(path), offset)
    assert str(caught.value).startswith(f"{path}: ")


def test_missing_and_unreadable(tmp_path):
    with pytest.raises(CaptureError, match="no such file"):
        open_captures(tmp_path / "none.pcap")
    with pytest.raises(CaptureError, match="cannot be opened"):
        open_captures("with\0zero")
    locked = tmp_path / "locked.pcap"
    locked.write_bytes(PCAP)
    locked.chmod(0)
    if os.access(locked, os.R_OK):
        return  # root may read everything
    with pytest.raises(CaptureError, match="permission denied"):
        open_captures(locked)


# --- compressed -------------------------------------------------------------------------------------


def zstd(raw: bytes) -> bytes:
    return bytes(pytest.importorskip("pyarrow").compress(raw, codec="zstd", asbytes=True))


def lz4(raw: bytes) -> bytes:
    return bytes(pytest.importorskip("pyarrow").compress(raw, codec="lz4", asbytes=True))


PACKERS = {
    "gzip": gzip.compress, "xz": lzma.compress, "bzip2": bz2.compress, "zstd": zstd, "lz4": lz4,
}  # fmt: skip


def noise(k: int) -> bytes:
    """A frame that does not compress."""
    return random.Random(k).randbytes(1000)


@pytest.mark.parametrize("name", PACKERS)
def test_compressed(tmp_path, name):
    frames = [noise(k) for k in range(300)]
    packed = PACKERS[name](make.pcap([Record(f, k) for k, f in enumerate(frames)]))
    path = tmp_path / "capture.pcap"  # told by its first bytes, not by its name
    path.write_bytes(packed)
    with open_captures(path, chunk=100) as captures:
        batches = list(captures)
    assert [p for b in batches for p in b] == frames
    assert captures.endings == []
    assert captures.bytes_total == captures.bytes_read == len(packed)


@pytest.mark.parametrize("name", PACKERS)
def test_members_follow_each_other(tmp_path, name):
    """`cat a.gz b.gz` is one stream."""
    path = tmp_path / "c"
    path.write_bytes(PACKERS[name](PCAP[:70]) + PACKERS[name](PCAP[70:]))
    assert list(read_batch(path)) == [FRAME] * 3


@pytest.mark.parametrize("name", ["gzip", "xz", "bzip2"])
def test_padding_and_rubbish_behind_compressed_data(tmp_path, name):
    path = tmp_path / "c"
    path.write_bytes(PACKERS[name](PCAP) + b"\0" * 512)
    with open_captures(path) as captures:
        assert sum(map(len, captures)) == 3
    assert captures.endings == []
    path.write_bytes(PACKERS[name](PCAP) + b"rubbish" * 9)
    with open_captures(path) as captures:
        assert sum(map(len, captures)) == 3
    assert captures.endings[0].why.startswith(f"{name} data ")


@pytest.mark.parametrize("name", PACKERS)
def test_compressed_data_cut_short(tmp_path, name):
    frames = [noise(k) for k in range(2000)]
    packed = PACKERS[name](make.pcap([Record(f, k) for k, f in enumerate(frames)]))
    path = tmp_path / "c"
    path.write_bytes(packed[: len(packed) // 2])
    with open_captures(path) as captures:
        read = [p for b in captures for p in b]
    assert read == frames[: len(read)]
    if name != "bzip2":  # blocks of 900 kB
        assert len(read) > 500
    (ending,) = captures.endings
    assert name in ending.why
    assert "cut short" in ending.why or "damaged" in ending.why
    assert ending.offset == 24 + 1016 * len(read)


def test_a_bomb_is_read_in_bounded_memory(tmp_path):
    """256 MB of zeros, block by block."""
    path = tmp_path / "c"
    body = make.pcap([Record(bytes(262144), 0)] * 1000)
    path.write_bytes(gzip.compress(body, 1))
    del body
    code = (
        "import sys, resource\n"
        "from ippath.capture import open_captures\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with open_captures(sys.argv[1]) as captures:\n"
        "    n = sum(len(b) for b in captures)\n"
        "print(n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    packets, grown = map(int, answer.stdout.split())
    assert packets == 1000
    assert grown < 100_000  # kB; the data is 256 MB


# --- standard input ---------------------------------------------------------------------------------

COUNT = (
    "from ippath.capture import open_captures\n"
    "with open_captures('-') as captures:\n"
    "    print(sum(len(b) for b in captures), captures.bytes_total,"
    " [str(e) for e in captures.endings])\n"
)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (PCAP, "3 None []"),
        (gzip.compress(NG), "3 None []"),
        (PCAP[:-1], "2 None ['standard input: ended early at byte 152: truncated packet"),
    ],
    ids=["pcap", "gzip", "cut"],
)
def test_standard_input(data, expected):
    answer = subprocess.run(
        [sys.executable, "-c", COUNT], input=data, capture_output=True, check=True
    )
    assert answer.stdout.decode().startswith(expected)


def test_a_slow_pipe_gives_what_it_has(tmp_path):
    """Packets of a running tcpdump appear before its buffer is full."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    go_on = threading.Event()

    def send() -> None:
        with open(path, "wb", buffering=0) as pipe:
            pipe.write(PCAP[: SECOND + 5])
            assert go_on.wait(30)
            pipe.write(PCAP[SECOND + 5 :])

    sender = threading.Thread(target=send)
    sender.start()
    with open_captures(path) as captures:
        batches = iter(captures)
        assert list(next(batches)) == [FRAME]
        go_on.set()
        assert [p for b in batches for p in b] == [FRAME] * 2
    sender.join()


def test_a_packet_longer_than_a_block_of_the_stream(tmp_path):
    """D-Bus messages may have 128 MB."""
    big = bytes(range(256)) * (9 << 12)
    path = tmp_path / "c"
    path.write_bytes(
        gzip.compress(make.pcap([Record(b"x"), Record(big), Record(b"y")], link_type=231), 1)
    )
    assert list(read_batch(path)) == [b"x", big, b"y"]


def test_ending_in_words():
    text = str(Ending("a.pcap", 40, "truncated packet: 60 bytes promised, 12 left"))
    assert text == "a.pcap: ended early at byte 40: truncated packet: 60 bytes promised, 12 left"
