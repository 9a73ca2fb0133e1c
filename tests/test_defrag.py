"""Defragmenter and `ippath defrag`: whose bytes win, what comes out, captures, memory, the command."""

from __future__ import annotations

import csv
import json
import random
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ippath import Defragmenter
from ippath import tables as T
from ippath.batch import LINK_ETHERNET, PacketBatch
from ippath.cli import FINE, WRONG_INPUT, main
from ippath.defrag import POLICIES, Limits
from ippath.verify.packets import (
    address, checksum, data, destination_options, eth, fragment_header, ip4, ip6, udp,
)  # fmt: skip
from tests.captures import SHARED
from tests.shared import needs_captures
from tests.test_reassembly import HERE4, HERE6, PIECES, SECOND, fragment, host, receive

ROOT = Path(__file__).resolve().parent.parent
TRIMMING = ("linux-old", "first", "last", "bsd", "windows", "solaris")
Piece = tuple[int, bytes, bool]


def packets(pieces: Sequence[Piece], family: int = 4, ident: int = 1) -> list[bytes]:
    """Fragments of one datagram from (offset, bytes, more follow)."""
    made = []
    for offset, body, more in pieces:
        if family == 4:
            made.append(ip4(*HERE4, body, proto=200, offset=offset // 8, mf=more, ident=ident))
        else:
            header = fragment_header(offset // 8, more, ident)
            made.append(ip6(*HERE6, body, last_header=200, extensions=(header,)))
    return made


def put_together(pieces: Sequence[Piece], policy: str = "linux", family: int = 4) -> bytes | None:
    """The data of the datagram, None if there is none; there is at most one."""
    engine = Defragmenter(policy, whole=False)
    out = list(engine.push(PacketBatch.from_packets(packets(pieces, family))))
    assert len(out) <= 1
    return out[0][20 if family == 4 else 40 :] if out else None


def settled(engine: Defragmenter) -> dict[str, Any]:
    """Statistics after everything has expired: nothing may be left."""
    engine.advance(1 << 62)
    found = engine.statistics()
    assert found["memory"] == 0 and found["waiting"] == 0
    misc = engine._state.frag_misc
    assert not any(misc[k] for k in (T.FM_QUEUE_USED, T.FM_FRAG_USED, T.FM_BLOCK_USED))
    return found


# --- whose bytes win ----------------------------------------------------------------------------------

# where the new fragment lies, seen from an old one in units 2 to 4
RELATIONS = {
    "begins before, ends within": (1, 4),
    "begins before, ends with it": (1, 5),
    "begins before, ends behind": (1, 6),
    "begins with it, ends within": (2, 4),
    "the same": (2, 5),
    "begins with it, ends behind": (2, 6),
    "within": (3, 4),
    "begins within, ends with it": (3, 5),
    "begins within, ends behind": (4, 6),
}
# of the old one or the new one, in that order (Novak 2005, table 3.2)
WINNERS = {
    "first": "OOO OOO OOO",
    "last": "NNN NNN NNN",
    "bsd": "NNN OOO OOO",
    "linux-old": "NNN NNN OOO",
    "windows": "OON OOO OOO",
    "solaris": "ONN OOO OOO",
}


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("policy", WINNERS)
def test_whose_bytes_win(policy: str, family: int) -> None:
    for (what, (begin, end)), winner in zip(RELATIONS.items(), WINNERS[policy].replace(" ", "")):
        others = [u for u in range(7) if not (2 <= u < 5 or begin <= u < end)]
        pieces = [(16, b"O" * 24, True), (8 * begin, b"N" * 8 * (end - begin), True)]
        pieces += [(8 * u, b"F" * 8, u < 6) for u in others]
        found = put_together(pieces, policy, family)
        units = {
            u: "N" if begin <= u < end else "F" if not 2 <= u < 5 else "O" for u in range(7)
        } | {u: winner for u in range(2, 5) if begin <= u < end}
        expected = b"".join(units[u].encode() * 8 for u in range(7))
        assert found == expected, f"{policy}: the new one {what}"


@pytest.mark.parametrize("family", [4, 6])
def test_linux_drops_the_datagram_where_fragments_overlap(family: int) -> None:
    for what, (begin, end) in RELATIONS.items():
        others = [u for u in range(7) if not (2 <= u < 5 or begin <= u < end)]
        pieces = [(16, b"O" * 24, True), (8 * begin, b"N" * 8 * (end - begin), True)]
        pieces += [(8 * u, b"F" * 8, u < 6) for u in others]
        within = 2 <= begin and end <= 5
        found = put_together(pieces, "linux", family)
        assert (found is not None) == within, what
        assert put_together(pieces, "linux-4.18", family) is None
        if found is not None:  # a duplicate is one whatever its bytes
            assert b"N" not in found


def naive(pieces: Sequence[Piece], policy: str) -> bytes:
    """The rule by rule, on a plain list; bytes nobody sent read as a dot."""
    held: list[tuple[int, int, bytes]] = []
    for begin, body, _ in pieces:
        end, left, kept = begin + len(body), [(begin, begin + len(body))], []
        for first, last, old in held:
            if last <= begin or first >= end:
                kept.append((first, last, old))
                continue
            new_wins = {
                "first": False, "last": True, "bsd": begin < first, "linux-old": begin <= first,
                "windows": begin < first and end > last, "solaris": begin < first and end >= last,
            }[policy]  # fmt: skip
            if new_wins:
                if first < begin:
                    kept.append((first, begin, old[: begin - first]))
                if last > end:
                    kept.append((end, last, old[end - first :]))
            else:
                kept.append((first, last, old))
                left = [
                    part
                    for a, b in left
                    for part in ((a, min(b, first)), (max(a, last), b))
                    if part[0] < part[1]
                ]
        held = sorted(kept + [(a, b, body[a - begin : b - begin]) for a, b in left])
    size = max(last for _, last, _ in held)
    whole = bytearray(b"." * size)
    for first, last, old in held:
        whole[first:last] = old
    return bytes(whole)


UNITS = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(UNITS, st.sampled_from(TRIMMING))
def test_overlaps_as_a_plain_list_would_have_them(
    units: list[tuple[int, int]], policy: str
) -> None:
    pieces = [
        (8 * begin, bytes([65 + k]) * 8 * size, True) for k, (begin, size) in enumerate(units)
    ]
    expected = naive(pieces, policy)
    holes = [u for u in range(len(expected) // 8) if expected[8 * u] == ord(".")]
    pieces += [(8 * u, b"." * 8, True) for u in holes] + [(len(expected), b"end", False)]
    assert put_together(pieces, policy) == expected + b"end"


def test_a_middle_one_that_overlaps_to_the_left() -> None:
    """An inspector put a fragment that was cut at its left in at its old offset."""
    pieces = [(0, b"A" * 16, True), (8, b"B" * 16, True), (24, b"C" * 8, False)]
    expected = b"A" * 16 + b"B" * 8 + b"C" * 8
    for policy in ("first", "bsd", "linux-old", "windows", "solaris"):
        assert put_together(pieces, policy) == expected, policy
    assert put_together(pieces, "last") == b"A" * 8 + b"B" * 16 + b"C" * 8
    assert put_together(pieces, "linux") is None


# the OpenBSD regression tests frag_* on overlaps: true data is T0 … T2, a dummy X; IPv4 must answer
# with the true data there, IPv6 (RFC 5722) must not answer, as Linux does in both
T0, T1, T2, X = b"abcdefgh", b"ijklmnop", b"qrstuvwx", b"XXXXXXXX"
OPENBSD = {
    "overhead": [(0, T0, True), (8, T1, True), (8, X + T2, False)],
    "overhead0": [(0, T0 + T1, True), (8, X + T2, False)],
    "overhead1": [(0, T0 + T1, True), (8, X, True), (16, T2, False)],
    "overtail": [(16, T2, False), (8, X, True), (0, T0 + T1, True)],
    "overtail0": [(8, X + T2, False), (0, T0 + T1, True)],
    "overtail1": [(8, T1 + T2, False), (8, X, True), (0, T0, True)],
    "mf0middle": [(0, T0 + T1, True), (8, X, False), (16, T2, False)],
    "mf1end": [(16, T2, False), (8, X + X, True), (0, T0 + T1, True)],
}
# a fragment within a run is a duplicate to Linux
LINUX_ANSWERS = {"overhead1", "overtail1"}


@pytest.mark.parametrize("name", OPENBSD)
def test_cases_of_openbsd(name: str) -> None:
    pieces = OPENBSD[name]
    assert put_together(pieces, "bsd") == T0 + T1 + T2
    for family in (4, 6):
        found = put_together(pieces, "linux", family)
        assert found == (T0 + T1 + T2 if name in LINUX_ANSWERS else None), family


def test_openbsd_index_boundary() -> None:
    """frag_overindex and frag_overreplace: an overlap far in, found all the same."""
    true = bytes(random.Random(1).randbytes(5120))
    for size in (64, 1024):
        parts: list[Piece] = [(k, true[k : k + size], True) for k in range(0, 4096 - size, size)]
        parts.append((4088, X + true[4096:4104], True))
        parts.append((4096 - size, true[4096 - size : 4096], True))
        parts.append((4096, true[4096:], False))
        assert put_together(parts, "bsd") == true
        assert put_together(parts, "linux") is None


@pytest.mark.parametrize("policy", ["linux", "bsd"])
def test_permutations_of_openbsd(policy: str) -> None:
    """frag_permute, frag_padding, frag_zerofirst, frag_zerosecond, frag_udpheader, frag_udppayload."""
    from itertools import permutations

    for parts in permutations([(0, T0, True), (8, T1, True), (16, T2, False)]):
        assert put_together(parts, policy) == T0 + T1 + T2
    empty = [(0, b"", True), (0, T0 + T1, True), (16, T2, False)]
    assert put_together(empty, policy) == T0 + T1 + T2
    empty = [(0, T0 + T1, True), (16, b"", True), (16, T2, False)]
    assert put_together(empty, policy) == (None if policy == "linux" else T0 + T1 + T2)


# --- the selftests of Linux -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", [4, 6])
def test_linux_selftest_ip_defrag(family: int) -> None:
    """Odd fragments first, then the UDP header alone, then the even ones; an overlap kills it."""
    generator = random.Random(3)
    for size in (1, 700, 4000, 20_000, 59_000):
        for step in (1280, 1400) if family == 6 else (8, 64, 520, 1400):
            if step > size or size // step > 3000:
                continue
            pair = HERE4 if family == 4 else HERE6
            whole = udp(payload=data(size)).build(address(pair[0]), address(pair[1]))
            parts = [
                (k, whole[k : k + step], k + step < len(whole)) for k in range(8, len(whole), step)
            ]
            order = [*parts[::2], (0, whole[:8], True), *parts[1::2]]
            assert put_together(order, "linux", family) == whole
            if len(parts) > 2 and step > 8:
                # one that lies across two that came
                at = parts[0][0] + 8 * generator.randrange(1, step // 8)
                bad = [*parts[::2], (at, bytes(step), True), (0, whole[:8], True), *parts[1::2]]
                assert put_together(bad, "linux", family) is None


def test_linux_selftest_ipv6_fragmentation() -> None:
    """A fragment that ends inside the UDP header, or none: the others may not be taken for it."""
    pieces = [(0, bytes(8), True), (8, bytes(100), False)]
    first = ip6(*HERE6, bytes(4), last_header=17, extensions=(fragment_header(0, True, 1),))
    engine = Defragmenter(whole=False)
    assert not len(engine.push(PacketBatch.from_packets([first, *packets(pieces, 6)[1:]])))
    found = engine.statistics()
    assert (found["invalid"], found["waiting"]) == (1, 1)


# --- the same as the host does ------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(PIECES)
def test_the_tool_judges_as_the_host_does(pieces: list[tuple[int, int, bool]]) -> None:
    made = [fragment(4, 8 * unit, length, more) for unit, length, more in pieces]
    netns, engine = host(), Defragmenter(whole=False)
    receive(netns, made)
    engine.push(PacketBatch.from_packets(made))
    here, there = engine.statistics()["ipv4"], netns.totals().reassembly["ipv4"]
    assert here == {name: there[name] for name in here}
    settled(engine)


@settings(max_examples=100, deadline=None)
@given(PIECES, st.sampled_from(list(POLICIES)), st.sampled_from([4, 6]))
def test_every_fragment_has_one_end(
    pieces: list[tuple[int, int, bool]], policy: str, family: int
) -> None:
    made = [fragment(family, 8 * unit, length, more) for unit, length, more in pieces]
    engine = Defragmenter(policy)
    engine.push(PacketBatch.from_packets(made))
    found = settled(engine)
    ends = ["joined", "duplicates", "invalid", "refused", "expired", "discarded"]
    if policy in ("linux", "linux-4.18"):
        ends.append("overlaps")  # of the others they count among those that were used
    assert sum(found[name] for name in ends) == found["fragments"] == len(pieces)


# --- what comes out -----------------------------------------------------------------------------------


def test_what_is_whole_passes_and_datagrams_take_the_place_of_their_last_fragment() -> None:
    pieces = [(0, b"a" * 16, True), (32, b"c" * 5, False), (16, b"b" * 16, True)]
    first, last, middle = (eth(p) for p in packets(pieces))
    batch = PacketBatch.from_packets(
        [eth(ip4(*HERE4)), first, last, eth(b"\0" * 20, kind=0x88CC), middle, eth(ip6(*HERE6))],
        link_type=LINK_ETHERNET,
        time_ns=SECOND,
        interval_ns=SECOND,
    )
    batch.first_frame = 11
    batch.comments = {11: "kept"}
    out = Defragmenter(comments=True).push(batch)
    assert list(out.frame_numbers) == [11, 14, 15, 16]
    assert list(out.time_ns) == [SECOND, 4 * SECOND, 5 * SECOND, 6 * SECOND]
    assert out.comments == {11: "kept", 15: "reassembled from frames 12, 15, 13"}
    datagram = out.packet(2)
    assert datagram[:14] == first[:14] and datagram[34:] == b"a" * 16 + b"b" * 16 + b"c" * 5
    assert checksum(datagram[14:34]) == 0
    assert struct.unpack_from("!HHH", datagram, 16) == (57, 1, 0)
    only = Defragmenter(whole=False).push(batch)
    assert list(only.frame_numbers) == [15] and only.packet(0) == datagram


def test_link_level_headers_are_those_of_the_first_fragment() -> None:
    a, b = packets([(0, b"a" * 16, True), (16, b"b" * 4, False)])
    vlan = lambda tag, p: eth(struct.pack("!HH", tag, 0x0800) + p, kind=0x8100)  # noqa: E731
    session = lambda p: eth(  # noqa: E731
        b"\x11\x00" + struct.pack("!HHH", 7, len(p) + 2, 0x21) + p, kind=0x8864
    )
    for wrap in (lambda p: vlan(5, p), session):
        batch = PacketBatch.from_packets([wrap(b), wrap(a)], link_type=LINK_ETHERNET)
        (out,) = list(Defragmenter().push(batch))
        whole = ip4(*HERE4, b"a" * 16 + b"b" * 4, proto=200, ident=1)
        assert out == wrap(whole)
    mixed = PacketBatch.from_packets([vlan(5, a), vlan(6, b)], link_type=LINK_ETHERNET)
    assert not len(Defragmenter(whole=False).push(mixed))


def test_headers_of_ipv6_datagrams() -> None:
    before = destination_options(b"")
    whole = udp(payload=data(92)).build(address(HERE6[0]), address(HERE6[1]))
    made = [
        ip6(*HERE6, whole[56:], last_header=58, extensions=(fragment_header(7, False),)),
        ip6(*HERE6, whole[:56], last_header=17, hops=9, extensions=(before, fragment_header(0, True))),
    ]  # fmt: skip
    (out,) = list(Defragmenter().push(PacketBatch.from_packets(made)))
    assert out == ip6(*HERE6, whole, last_header=17, hops=9, extensions=(before,))


def test_batches_may_be_cut_anywhere_and_output_never_overflows() -> None:
    generator = random.Random(5)
    made = [
        p
        for ident in range(300)
        for p in packets([(8 * k, generator.randbytes(8), k < 20) for k in range(21)], ident=ident)
    ]
    made += packets([(k, bytes(8000), k < 56_000) for k in range(0, 64_000, 8000)], ident=999) * 40
    generator.shuffle(made)
    limits = Limits(memory=64 << 20)
    once, often = Defragmenter(limits=limits), Defragmenter(limits=limits)
    whole = once.push(PacketBatch.from_packets(made))
    at, parts = 0, []
    while at < len(made):
        size = generator.randrange(1, 500)
        batch = PacketBatch.from_packets(made[at : at + size])
        batch.first_frame = at + 1
        parts += list(often.push(batch))
        at += size
    assert parts == list(whole) and once.statistics() == often.statistics()
    assert once.statistics()["reassembled"] >= 300


@st.composite
def nearly_in_order(draw: st.DrawFn) -> tuple[list[bytes], list[int], list[int], Limits]:
    """Datagrams whose fragments follow each other, with now and then a flaw: (packets, lengths, times)."""
    made: list[bytes] = []
    for ident in range(draw(st.integers(1, 5))):
        family = draw(st.sampled_from([4, 6]))
        step = 8 * draw(st.integers(1, 4))
        count = draw(st.integers(2, 6))
        pieces = [(k * step, bytes([k + 1]) * step, k < count - 1) for k in range(count)]
        if draw(st.booleans()):  # an end that is no multiple of 8, maybe in the middle
            k = draw(st.integers(0, count - 1))
            offset, body, more = pieces[k]
            pieces[k] = (offset, body[: draw(st.integers(0, step - 1))], more)
        bits = {"df": draw(st.booleans()), "tos": draw(st.integers(0, 3))}
        for offset, body, more in pieces:
            here = dict(bits) if draw(st.integers(0, 9)) else {"df": False, "tos": 3}
            if family == 4:
                options = b"\x01" * (4 * draw(st.integers(0, 1)))
                packet = ip4(*HERE4, body, proto=200, offset=offset // 8, mf=more, ident=ident % 3,
                             options=options, **here)  # fmt: skip
            else:
                header = fragment_header(offset // 8, more, ident % 3)
                packet = ip6(
                    *HERE6, body, last_header=200, extensions=(header,), traffic_class=here["tos"]
                )
            made.append(packet)
    for _ in range(draw(st.integers(0, 3))):  # one is missing, is there twice, comes elsewhere
        at = draw(st.integers(0, len(made) - 1))
        packet = made.pop(at)
        for _ in range(draw(st.integers(0, 2))):
            made.insert(draw(st.integers(0, len(made))), packet)
        if not made:
            made.append(packet)
    cut = [len(p) - draw(st.sampled_from([0] * 15 + [1, 9])) for p in made]
    gap = draw(st.sampled_from([0, 0, 10**9, 11 * 10**9, 31 * 10**9]))
    time, times = 0, []
    for _ in made:
        time += gap if draw(st.integers(0, 3)) == 0 else 1000
        times.append(time)
    memory = draw(st.sampled_from([0, 1500, 3000, 8000, 1 << 20]))
    return made, cut, times, Limits(memory=memory)


@settings(max_examples=400, deadline=None)
@given(nearly_in_order(), st.sampled_from(list(POLICIES)))
def test_what_comes_in_order_is_joined_as_if_each_had_waited(
    stream: tuple[list[bytes], list[int], list[int], Limits], policy: str
) -> None:
    made, cut, times, limits = stream
    batch = PacketBatch.from_packets(
        [p[:n] for p, n in zip(made, cut)], wire_length=[len(p) for p in made], time_ns=times
    )
    once, often = (Defragmenter(policy, limits, comments=True) for _ in range(2))
    whole = once.push(batch)
    parts = [often.push(batch.select(slice(at, at + 1))) for at in range(len(batch))]
    for part in parts:  # one by one none can be joined ahead
        assert len(part) <= 1
    assert [p for part in parts for p in part] == list(whole)
    assert [n for part in parts for n in part.frame_numbers] == whole.frame_numbers.tolist()
    assert {k: v for part in parts for k, v in part.comments.items()} == whole.comments
    assert once.statistics() == often.statistics()
    assert settled(once) == settled(often)


@pytest.mark.parametrize("family", [4, 6])
def test_what_waits_already_takes_part_in_a_datagram_in_order(family: int) -> None:
    made = packets([(0, b"a" * 8, True), (8, b"b" * 8, True), (16, b"c" * 8, False)], family)
    engine = Defragmenter(whole=False)
    out = engine.push(PacketBatch.from_packets([made[1], *made]))
    assert [p[-24:] for p in out] == [b"a" * 8 + b"b" * 8 + b"c" * 8]
    assert settled(engine)["duplicates"] == 1


def test_cut_fragments_make_a_cut_datagram() -> None:
    made = packets([(0, b"a" * 400, True), (400, b"b" * 400, False)])
    batch = PacketBatch.from_packets(
        [p[:100] for p in made], wire_length=[len(p) for p in made]
    )  # fmt: skip
    out = Defragmenter().push(batch)
    assert out.packet(0)[20:] == b"a" * 80 and int(out.wire_length[0]) == 820


def test_damaged_ones_are_left_alone() -> None:
    good = packets([(0, b"a" * 16, True), (16, b"b" * 4, False)])
    wrong = [
        ip4(*HERE4, b"x" * 16, mf=True, damage=1), ip4(*HERE4, b"x" * 16, mf=True, length=300),
        ip4(*HERE4, b"x" * 16, mf=True, ihl=3), good[0][:30],
        ip6(*HERE6, b"x" * 16, extensions=(fragment_header(0, True),), length=300),
    ]  # fmt: skip
    engine = Defragmenter()
    out = list(engine.push(PacketBatch.from_packets([*wrong, *good])))
    assert out[: len(wrong)] == wrong and len(out) == len(wrong) + 1
    assert engine.statistics()["damaged"] == len(wrong)


@pytest.mark.parametrize("policy", POLICIES)
def test_floods_stay_within_the_limit(policy: str) -> None:
    """Endless holes, a byte of every datagram, the same identification again and again."""
    limit = 100_000
    engine = Defragmenter(policy, Limits(memory=limit), whole=False)
    generator = random.Random(9)
    for round_ in range(4):
        made = [
            packets([(8 * generator.randrange(8000), bytes(8), True)], ident=ident)[0]
            for ident in (k if round_ % 2 else k % 3 for k in range(600))
        ]
        engine.push(PacketBatch.from_packets(made, time_ns=round_ * SECOND))
        assert engine.statistics()["memory_peak"] <= limit + 2000
    assert engine.statistics()["refused"] > 0
    settled(engine)


def test_a_minute_of_flood_never_takes_a_hundredth_more_than_the_limit() -> None:
    engine = Defragmenter(whole=False)
    made = [ip4(*HERE4, bytes(1480), proto=17, mf=True, ident=k) for k in range(3000)]
    for second in range(0, 60, 20):
        batch = PacketBatch.from_packets(made, time_ns=second * SECOND, interval_ns=SECOND // 150)
        engine.push(batch)
    found = engine.statistics()
    assert found["refused"] > 0 and found["expired"] > 0
    assert found["memory_limit"] * 0.99 < found["memory_peak"] <= found["memory_limit"] * 1.01


@pytest.mark.parametrize("store", ["runs", "tree", "list"])
def test_older_ways_to_keep_fragments_give_the_same_datagrams(store: str) -> None:
    generator = random.Random(11)
    body = generator.randbytes(4000)
    parts: list[Piece] = [(k, body[k : k + 40], k < 3960) for k in range(0, 4000, 40)]
    parts += [parts[7], parts[50]]  # again
    for _ in range(5):
        generator.shuffle(parts)
        engine = Defragmenter(store=store, whole=False)
        last = [p for p in parts if p not in (parts[-1],)]
        (out,) = list(engine.push(PacketBatch.from_packets(packets(last + parts[-1:]))))[:1]
        assert out[20:] == body
        settled(engine)
    with pytest.raises(ValueError, match="store is one of runs, tree, list"):
        Defragmenter(store="hash")


def test_teardrop_and_ping_of_death() -> None:
    teardrop = [(0, bytes(36), True), (24, bytes(4), False)]
    for policy in POLICIES:
        put_together(teardrop, policy)
    death = [(k, bytes(1480), True) for k in range(0, 65_120, 1480)] + [
        (65_120, bytes(1000), False)
    ]
    engine = Defragmenter()
    assert not len(engine.push(PacketBatch.from_packets(packets(death))))
    assert engine.statistics()["oversize"] == 1


def test_overlaps_are_reported_with_what_differs() -> None:
    pieces = [(0, b"A" * 16, True), (8, b"AAAABBBBCCCCDDDD", True), (0, b"A" * 8, True)]
    engine = Defragmenter("bsd", overlaps=True)
    engine.push(PacketBatch.from_packets(packets(pieces), time_ns=SECOND))
    first, again = engine.take_overlaps()
    assert (first.frame, first.begin, first.end) == (2, 8, 24)
    assert (first.other_frame, first.other_begin, first.other_end) == (1, 0, 16)
    assert (first.differing, first.compared, first.outcome) == (4, 8, "held")
    assert (first.source, first.destination, first.identification) == (*HERE4, 1)
    assert (again.differing, again.compared, again.outcome) == (0, 8, "duplicate")
    assert engine.take_overlaps() == []
    six = Defragmenter(overlaps=True)
    six.push(PacketBatch.from_packets(packets(pieces[:2], 6)))
    (one,) = six.take_overlaps()
    assert (one.source, one.outcome, one.differing) == (HERE6[0], "overlap", 4)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="policy is one of linux, .*, not solaris9"):
        Defragmenter("solaris9")
    with pytest.raises(ValueError, match="not negative"):
        Defragmenter(limits=Limits(memory=-1))


# --- shared captures ----------------------------------------------------------------------------------

# where Linux's rules differ from tshark's, which puts together whatever covers the bytes
RULES = {
    "suricata-verify__ipv6-evasion__ipv6-malformed-fragments-29__frag-29.pcap": (
        (0, 0), "the last fragment ends before bytes that came: discarded"),
    "suricata-verify__ipv6-evasion__ipv6-malformed-fragments-35__frag-35.pcap": (
        (0, 1), "fragments within the datagram: a second fragment header is refused"),
    "suricata-verify__ipv6-evasion__ipv6-malformed-fragments-36__frag-36.pcap": (
        (0, 1), "fragments within the datagram: a second fragment header is refused"),
    "suricata-verify__ipv6-evasion__ipv6-malformed-fragments-7__frag-7.pcap": (
        (0, 0), "an overlap discards the datagram"),
    "zeek__ipv4__fragmented-4.pcap": ((0, 0), "an overlap discards the datagram"),
    "zeek__ipv6-reassembly-state-leak.pcap": (
        (0, 0), "65528 bytes behind a header of options are more than 65535"),
}  # fmt: skip


@needs_captures
def test_as_many_datagrams_as_tshark() -> None:
    seen = 0
    with open(SHARED / "TRUTH.tsv", newline="") as file:
        truth = {row["file"]: row for row in csv.DictReader(file, delimiter="\t")}
    for name, counts in truth.items():
        if not any(int(counts[k]) for k in ("frag4", "frag6", "reasm4", "reasm6")):
            continue
        engine = Defragmenter(whole=False)
        from ippath.capture import open_captures

        with open_captures([str(SHARED / name)]) as source:
            for batch in source:
                engine.push(batch)
        found = engine.statistics()
        expected = (int(counts["reasm4"]), int(counts["reasm6"]))
        if name in RULES:
            assert expected != RULES[name][0], name
            expected = RULES[name][0]
        assert (found["ipv4"]["reassembled"], found["ipv6"]["reassembled"]) == expected, name
        seen += sum(expected)
    assert seen == 78


# --- the command --------------------------------------------------------------------------------------


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """A capture with two datagrams in fragments, one of them with an overlap, and a whole packet."""
    from ippath.capture.writer import PcapNgWriter

    made = packets([(0, b"a" * 16, True), (16, b"b" * 4, False)])
    made += packets([(0, b"a" * 16, True), (8, b"b" * 16, True)], 6) + [ip4(*HERE4)]
    path = tmp_path / "in.pcapng"
    with PcapNgWriter(path) as writer:
        writer.write(PacketBatch.from_packets(made, time_ns=SECOND, interval_ns=1000))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["defrag", *args])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_command_writes_datagrams_with_comments(
    capsys: pytest.CaptureFixture[str], capture: str, tmp_path: Path
) -> None:
    output = str(tmp_path / "out.pcapng")
    code, out, _ = run(capsys, capture, "-o", output, "--overlaps", "-q")
    assert code == FINE and "1  datagrams put together" in out and f"wrote {output}" in out
    assert "frame 4 [8, 24) and frame 3 [0, 16): 8 of the bytes in common differ" in out
    written = PacketBatch.read(output)
    assert len(written) == 2 and written.packet(0)[20:] == b"a" * 16 + b"b" * 4
    assert written.comments == {1: "reassembled from frames 1, 2"}
    code, _, _ = run(capsys, capture, "-o", output, "--only", "--policy", "last", "-q")
    assert code == FINE and len(PacketBatch.read(output)) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.pcapng", "out.pcapng"]


def test_the_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str], capture: str) -> None:
    code, out, _ = run(capsys, capture, "--json", "--overlaps", "-q")
    facts = json.loads(out)
    assert code == FINE and facts["reassembled"] == 1 and facts["overlaps"] == 1
    assert facts["overlapping"][0]["differing"] == 8
    text = (ROOT / "docs/reassembly.md").read_text().partition("## Keys of `--json`")[2]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    documented = {name for line in rows for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert documented == set(facts)


def test_the_command_refuses_to_replace_its_input(
    capsys: pytest.CaptureFixture[str], capture: str
) -> None:
    before = Path(capture).read_bytes()
    code, _, err = run(capsys, capture, "-o", capture, "-q")
    assert code == WRONG_INPUT and "would replace the capture" in err
    assert Path(capture).read_bytes() == before
    assert run(capsys, capture, "--policy", "minix")[0] == WRONG_INPUT
