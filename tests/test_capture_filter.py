"""tcpdump expressions: libpcap compiles, our interpreter runs; libpcap's own run is the judge."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import captures as make
from captures import Record
from ippath.batch import PacketBatch
from ippath.capture import FilterError, PacketFilter, open_captures
from ippath.capture import filter as filter_module

try:
    LIBRARY = filter_module._load_library()
    LIBRARY.bpf_filter.restype = ctypes.c_uint
    LIBRARY.bpf_filter.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint]
    LIBRARY.bpf_validate.argtypes = [ctypes.c_void_p, ctypes.c_int]
except FilterError:
    LIBRARY = None

needs_libpcap = pytest.mark.skipif(LIBRARY is None, reason="libpcap is not installed")

FOUR, SIX = make.ipv4_udp(), make.ipv6_udp()
FRAMES = {
    "four": make.ethernet(0x0800, FOUR),
    "six": make.ethernet(0x86DD, SIX),
    "vlan": make.ethernet(0x0800, FOUR, [(0x8100, 5)]),
    "arp": make.ethernet(0x0806, bytes(28)),
    "big": make.ethernet(0x0800, make.ipv4_udp(bytes(1000), destination="203.0.113.9")),
    "cut": make.ethernet(0x0800, FOUR)[:20],
}


def chosen(expression: str, link_type: int, frames: dict[str, bytes], **columns) -> set[str]:
    batch = PacketBatch.from_packets(list(frames.values()), link_type=link_type)
    for name, values in columns.items():
        setattr(batch, name, np.array(values, np.int32))
    keep = PacketFilter(expression).matches(batch)
    return {name for name, kept in zip(frames, keep, strict=True) if kept}


EXPRESSIONS = [
    ("udp", {"four", "six", "big"}),
    ("ip", {"four", "big", "cut"}),
    ("ip6", {"six"}),
    ("arp", {"arp"}),
    ("vlan 5 and udp", {"vlan"}),
    ("udp dst port 53 and ip", {"four", "big"}),
    ("net 203.0.113.0/24", {"big"}),
    ("not ip and not ip6", {"vlan", "arp"}),
    ("greater 500", {"big"}),
    ("less 20", {"cut"}),
    ("ip[8] = 64", {"four", "big"}),
    ("ether[12:2] & 0xff00 = 0x0800 and len - 48 == 0", {"four"}),
    ("udp[4:2] * 3 / 6 = 7", {"four"}),
    ("ip6 protochain 17", {"six"}),
    ("ether src 02:00:00:00:00:02", set(FRAMES)),
]


@needs_libpcap
@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS, ids=[e[0] for e in EXPRESSIONS])
def test_expressions(expression, expected):
    assert chosen(expression, 1, FRAMES) == expected


def judged(program: np.ndarray, packet: bytes, wire: int) -> bool:
    """What libpcap's own interpreter says."""
    rows = [tuple(row) for row in program.tolist()]
    native = (filter_module._Instruction * len(rows))(*rows)
    return LIBRARY.bpf_filter(native, packet, wire, len(packet)) != 0


# libpcap knows a few headers less than the receive path does
UNKNOWN_TO_LIBPCAP = {
    "MPLS", "null big-endian", "null IPv6 FreeBSD", "null IPv6 macOS", "loop", "PPP",
}  # fmt: skip


@needs_libpcap
@pytest.mark.parametrize("name", make.link_samples())
def test_every_link_type(name):
    link, frame = make.link_samples()[name]
    link = {12: 101, 14: 101}.get(link, link)
    prefix = {"VLAN": "vlan and ", "QinQ": "vlan and vlan and ", "PPPoE": "pppoes and "}
    expression = prefix.get(name, "") + "udp port 53"
    matched = chosen(expression, link, {"it": frame}) == {"it"}
    assert matched == judged(PacketFilter(expression).program(link), frame, len(frame))
    assert matched == (name not in UNKNOWN_TO_LIBPCAP)
    assert chosen("tcp", link, {"it": frame}) == set()


@needs_libpcap
def test_direction_comes_from_the_capture():
    frames = {"in": FRAMES["four"], "out": FRAMES["four"], "unknown": FRAMES["six"]}
    assert chosen("outbound", 1, frames, direction=[1, 2, 0]) == {"out"}
    assert chosen("inbound", 1, frames, direction=[1, 2, 0]) == {"in", "unknown"}


@needs_libpcap
def test_length_is_the_one_on_the_wire():
    frames = {"snapped": FRAMES["four"], "whole": FRAMES["four"]}
    assert chosen("greater 1000", 1, frames, wire_length=[1500, 48]) == {"snapped"}


@needs_libpcap
def test_frames_keep_their_numbers(tmp_path):
    path = tmp_path / "c"
    names = ["arp", "four", "arp", "six", "arp", "big"]
    path.write_bytes(make.pcap([Record(FRAMES[n], k) for k, n in enumerate(names)]))
    for chunk in (1, 2, 100):
        with open_captures(path, filter="udp", chunk=chunk) as captures:
            batches = list(captures)
        assert [p for b in batches for p in b] == [FRAMES[n] for n in ("four", "six", "big")]
        assert [int(f) for b in batches for f in b.frame_numbers] == [2, 4, 6]
        assert captures.packets_read == 6
    with open_captures(path, filter=" ") as captures:
        assert sum(map(len, captures)) == 6


@needs_libpcap
def test_compiled_once_per_link_type(tmp_path, monkeypatch):
    """Packets of a link type where the expression means nothing do not match."""
    compiled = []
    original = PacketFilter._compile

    def counted(self, link_type):
        compiled.append(link_type)
        return original(self, link_type)

    monkeypatch.setattr(PacketFilter, "_compile", counted)
    raw = make.section() + make.interface(1) + make.interface(101)
    for k in range(4):
        raw += make.enhanced(FRAMES["four"] if k % 2 else FOUR, k, interface=1 - k % 2)
    path = tmp_path / "c"
    path.write_bytes(raw)
    with open_captures(path, filter="udp", chunk=1) as captures:
        assert sum(map(len, captures)) == 4
    assert compiled == [1, 101]
    with open_captures(path, filter="ether src 02:00:00:00:00:02") as captures:
        (batch,) = captures
    assert batch.frame_numbers.tolist() == [2, 4]
    assert list(captures.packet_filter.refused) == [101]


@needs_libpcap
@pytest.mark.parametrize("expression", ["udp adn tcp", "port", "host 1.2.3.4.5.6", "(udp"])
def test_bad_expression(tmp_path, expression):
    path = tmp_path / "c"
    path.write_bytes(make.pcap([Record(FRAMES["four"])]))
    with pytest.raises(FilterError, match="filter ") as caught:
        open_captures(path, filter=expression)
    assert expression in str(caught.value)
    assert len(str(caught.value)) > len(expression) + 15  # and what libpcap says of it


def test_without_libpcap(tmp_path, monkeypatch):
    monkeypatch.setattr(filter_module, "_LIBRARIES", ("libpcap-that-is-not-there.so",))
    monkeypatch.setattr(filter_module.ctypes.util, "find_library", lambda name: None)
    path = tmp_path / "c"
    path.write_bytes(make.pcap([Record(FRAMES["four"])]))
    with pytest.raises(FilterError, match="apt install libpcap0.8"):
        open_captures(path, filter="udp")
    with open_captures(path) as captures:  # nothing else needs it
        assert sum(map(len, captures)) == 1


# --- the interpreter --------------------------------------------------------------------------------


def run(program: list[tuple[int, int, int, int]], packet: bytes, wire: int = 0) -> bool:
    """Whether a program matches a packet in the middle of an arena of ones."""
    arena = np.frombuffer(bytearray(b"\xff" * 9 + packet + b"\xff" * 9), np.uint8)
    keep = np.zeros(1, np.uint8)
    one = lambda value, dtype: np.array([value], dtype)  # noqa: E731
    filter_module.run_filter(
        np.array(program, np.int64).reshape(-1, 4), arena, one(9, np.int64),
        one(len(packet), np.int32), one(wire or len(packet), np.int32), one(0, np.int32),
        one(1, np.int32), 1, keep,
    )  # fmt: skip
    return bool(keep[0])


LD_W, LD_H, LD_B, LD_IND_W, LDX_MSH = 0x20, 0x28, 0x30, 0x40, 0xB1
LDX_IMM, RET_A, RET_K, JA, DIV_X, JEQ = 0x01, 0x16, 0x06, 0x05, 0x3C, 0x15

PROGRAMS = [
    ("word inside", [(LD_W, 0, 0, 0), (RET_A, 0, 0, 0)], b"\0\0\0\1", True),
    ("word over the end", [(LD_W, 0, 0, 1), (RET_K, 0, 0, 1)], b"\0\0\0\1", False),
    ("half over the end", [(LD_H, 0, 0, 3), (RET_K, 0, 0, 1)], b"\0\0\0\1", False),
    ("byte at the end", [(LD_B, 0, 0, 3), (RET_A, 0, 0, 0)], b"\0\0\0\1", True),
    ("byte behind the end", [(LD_B, 0, 0, 4), (RET_K, 0, 0, 1)], b"\0\0\0\1", False),
    ("far load", [(LD_B, 0, 0, 0xFFFFFFFF), (RET_K, 0, 0, 1)], b"\0\0\0\1", False),
    ("index wraps", [(LDX_IMM, 0, 0, 0xFFFFFFFF), (LD_IND_W, 0, 0, 1), (RET_A, 0, 0, 0)], b"\0\0\0\1", True),
    ("index over the end", [(LDX_IMM, 0, 0, 9), (LD_IND_W, 0, 0, 1), (RET_K, 0, 0, 1)], b"\0\0\0\1", False),
    ("header length behind the end", [(LDX_MSH, 0, 0, 4), (RET_K, 0, 0, 1)], b"\0\0\0\1", False),
    ("division by zero", [(DIV_X, 0, 0, 0), (RET_K, 0, 0, 1)], b"", False),
    ("no return", [(LDX_IMM, 0, 0, 9)], b"", False),
    ("jump out", [(JA, 0, 0, 1000), (RET_K, 0, 0, 1)], b"", False),
    ("jump back for ever", [(JA, 0, 0, 0xFFFFFFFF), (RET_K, 0, 0, 1)], b"", False),
    ("jump before the start", [(JA, 0, 0, 0x80000000), (RET_K, 0, 0, 1)], b"", False),
    ("scratch out of range", [(0x60, 0, 0, 16), (RET_K, 0, 0, 1)], b"", False),
    ("store out of range", [(0x02, 0, 0, 16), (RET_K, 0, 0, 1)], b"", False),
    ("empty program", [], b"abc", False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "packet", "expected"), [p[1:] for p in PROGRAMS], ids=[p[0] for p in PROGRAMS]
)
def test_programs(program, packet, expected):
    assert run(program, packet) is expected


small = st.sampled_from([0, 1, 2, 3, 7, 14, 31, 40])
word = st.one_of(small, st.integers(0, 0xFFFFFFFF))
ALU = [0x04, 0x14, 0x24, 0x44, 0x54, 0xA4]
instruction = st.one_of(
    st.tuples(st.sampled_from([0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0xB1]), st.just(0), st.just(0), small),
    st.tuples(st.sampled_from([0x00, 0x01, 0x80, 0x81, 0x07, 0x87, 0x84]), st.just(0), st.just(0), word),
    st.tuples(st.sampled_from([0x60, 0x61, 0x02, 0x03]), st.just(0), st.just(0), st.integers(0, 15)),
    st.tuples(st.sampled_from(ALU + [c | 8 for c in (*ALU, 0x34, 0x94, 0x64, 0x74)]), st.just(0), st.just(0), word),
    st.tuples(st.sampled_from([0x34, 0x94]), st.just(0), st.just(0), st.integers(1, 0xFFFFFFFF)),
    st.tuples(st.sampled_from([0x64, 0x74]), st.just(0), st.just(0), st.integers(0, 31)),
    st.tuples(
        st.sampled_from([0x15, 0x25, 0x35, 0x45, 0x1D, 0x2D, 0x3D, 0x4D]),
        st.integers(0, 3), st.integers(0, 3), word,
    ),
)  # fmt: skip


@needs_libpcap
@given(
    body=st.lists(instruction, min_size=1, max_size=25),
    packet=st.binary(max_size=50),
    longer=st.integers(0, 2000),
)
@settings(max_examples=200)
def test_random_programs_agree_with_libpcap(body, packet, longer):
    clear = [(0x02, 0, 0, k) for k in range(16)]  # libpcap's scratch memory holds anything at first
    program = [
        *clear,
        *body,
        (RET_A, 0, 0, 0),
        (RET_A, 0, 0, 0),
        (RET_A, 0, 0, 0),
        (RET_A, 0, 0, 0),
    ]
    native = (filter_module._Instruction * len(program))(*program)
    assert LIBRARY.bpf_validate(native, len(program))
    wire = len(packet) + longer
    assert run(program, packet, wire) == judged(np.array(program), packet, wire)


@needs_libpcap
def test_shared_captures_agree_with_libpcap():
    """Every frame of the shared captures, through some filters of real life."""
    if not make.SHARED.is_dir():
        pytest.skip("the shared captures are not here")
    compared = 0
    for expression in ("udp", "ip6 and not icmp6", "ip[6:2] & 0x3fff != 0", "vlan or port 53"):
        packet_filter = PacketFilter(expression)
        with open_captures(make.SHARED) as captures:
            for batch in captures:
                batch = batch.select(slice(0, None, 23))
                keep = packet_filter.matches(batch)
                for row, packet in enumerate(batch):
                    program = packet_filter.program(int(batch.link_type[row]))
                    if program is None:
                        assert not keep[row]
                        continue
                    expected = judged(program, packet, int(batch.wire_length[row]))
                    assert keep[row] == expected, (expression, batch.frame_numbers[row])
                    compared += 1
    assert compared > 1000
