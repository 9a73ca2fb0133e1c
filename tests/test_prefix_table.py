"""PrefixTable: what people ask of it, judged by a table that is searched from end to end."""

from __future__ import annotations

import copy
import ipaddress
import itertools
import os
import pickle
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ippath import PrefixTable
from ippath.bench.full_tables import full_table
from ippath.jit import COMPILED
from ippath.prefix import columns

SEARCH = os.environ.get("IPPATH_SEARCH", "0") not in ("", "0")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
WIDTH = {4: 32, 6: 128}


def network(family: int, number: int, length: int) -> Network:
    """The prefix that holds the address of this number."""
    kind = ipaddress.IPv4Network if family == 4 else ipaddress.IPv6Network
    return kind((number >> (WIDTH[family] - length) << (WIDTH[family] - length), length))


def key(prefix: Network) -> tuple[int, int, int]:
    return prefix.version, int(prefix.network_address), prefix.prefixlen


def longest(held: dict[Network, Any], address: Any) -> Any:
    """The oracle: looks at every prefix."""
    found = [p for p in held if p.version == address.version and address in p]
    return held[max(found, key=lambda p: p.prefixlen)] if found else None


# few bits vary, so that prefixes meet; lengths around the borders of groups and words
BASES = {
    4: (0x0A000000, 0xC6336400, 0xFFFFFF00, 0),
    6: (0x20010DB8 << 96, 0xFD << 120, 1 << 127, 1 << 48),
}
LENGTHS = {4: (0, 1, 8, 15, 16, 17, 22, 23, 24, 25, 31, 32),
           6: (0, 1, 16, 24, 25, 32, 33, 40, 47, 48, 56, 63, 64, 65, 96, 127, 128)}  # fmt: skip


@st.composite
def addresses(draw: Any, family: int) -> int:
    flip = draw(st.integers(0, 255)) << draw(st.integers(0, WIDTH[family] - 8))
    return draw(st.sampled_from(BASES[family])) ^ flip


@st.composite
def networks(draw: Any, *families: int) -> Network:
    family = draw(st.sampled_from(families or (4, 6)))
    length = draw(st.sampled_from(LENGTHS[family]) | st.integers(0, WIDTH[family]))
    found = network(family, draw(addresses(family)), length)
    mapped = family == 6 and int(found.network_address) >> 32 == 0xFFFF
    return network(6, 1 << 127, length) if mapped else found


class Life(RuleBasedStateMachine):
    """A table and a dict live through the same changes."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.held = PrefixTable(), {}
        self.kept: list[tuple[PrefixTable, dict]] = []
        self.number = 0

    @rule(prefix=networks())
    def put(self, prefix: Network) -> None:
        self.number += 1
        self.table[prefix] = self.held[prefix] = self.number

    @rule(prefixes=st.lists(networks(), max_size=8))
    def put_many(self, prefixes: list[Network]) -> None:
        pairs = [(str(p), f"{self.number}.{k}") for k, p in enumerate(prefixes)]
        self.table.update(pairs)
        self.held.update({p: value for p, (_, value) in zip(prefixes, pairs)})

    @rule(data=st.data())
    def drop(self, data: Any) -> None:
        if self.held:
            prefix = data.draw(st.sampled_from(sorted(self.held, key=key)))
            del self.table[prefix], self.held[prefix]
            assert prefix not in self.table

    @rule(data=st.data())
    def drop_column(self, data: Any) -> None:
        prefixes = data.draw(st.lists(networks(), max_size=4))
        if self.held:
            prefixes += data.draw(st.lists(st.sampled_from(sorted(self.held, key=key)), max_size=6))
        gone = {p for p in prefixes if self.held.pop(p, None) is not None}
        assert self.table.drop_columns([str(p) for p in prefixes]) == len(gone)

    @rule()
    def keep(self) -> None:
        self.kept.append((self.table.snapshot(), dict(self.held)))

    @rule()
    def change_sides(self) -> None:
        """Go on with a snapshot; what was left behind must stay as it is."""
        if self.kept:
            (self.table, self.held), other = self.kept[-1], (self.table, self.held)
            self.kept[-1] = other

    @rule(family=st.sampled_from((4, 6)), data=st.data())
    def look_up(self, family: int, data: Any) -> None:
        numbers = data.draw(st.lists(addresses(family), min_size=1, max_size=8))
        inside = [p for p in self.held if p.version == family][:8]
        numbers += [int(p.broadcast_address) for p in inside]
        objects = [ipaddress.ip_address(n) if family == 4 else ipaddress.IPv6Address(n)
                   for n in numbers if family == 4 or n >> 32 != 0xFFFF]  # fmt: skip
        expected = [longest(self.held, a) for a in objects]
        texts = [str(a) for a in objects]
        assert [self.table.lookup(t) for t in texts] == expected
        assert self.table.lookup(texts).tolist() == expected
        assert self.table.lookup(packed(objects)).tolist() == expected

    @rule(prefix=networks())
    def neighbours(self, prefix: Network) -> None:
        same = [p for p in self.held if p.version == prefix.version]
        around = [p for p in same if prefix.subnet_of(p)]
        within = [p for p in same if p.subnet_of(prefix)]
        assert self.table.covering(prefix) == texts_of(around)
        assert self.table.covered(prefix) == texts_of(within)
        inner = [p for p in within if p != prefix]
        direct = [p for p in inner if not any(p != q and p.subnet_of(q) for q in inner)]
        assert self.table.children(prefix) == texts_of(direct)
        above = [p for p in around if p != prefix]
        parent = max(above, key=lambda p: p.prefixlen, default=None)
        assert self.table.parent(prefix) == (None if parent is None else str(parent))

    @rule()
    def aggregate(self) -> None:
        values = {p: v if isinstance(v, str) else v % 2 for p, v in self.held.items()}
        table = PrefixTable({str(p): v for p, v in values.items()})
        fewer = table.aggregate()
        assert len(fewer) <= len(table)
        for prefix in values:
            for address in (prefix.network_address, prefix.broadcast_address):
                for near in (
                    address,
                    *(address + d for d in (-1, 1) if 0 < int(address) + d < 2**32),
                ):
                    assert fewer.match(near) is None or fewer.lookup(near) == longest(values, near)
                    assert fewer.lookup(near) == longest(values, near)

    @invariant()
    def same(self) -> None:
        assert len(self.table) == len(self.held)
        assert list(self.table) == texts_of(self.held)

    def teardown(self) -> None:
        for table, held in [*self.kept, (self.table, self.held)]:
            expected = {str(p): v for p, v in held.items()}
            assert dict(table.items()) == expected
            assert dict(pickle.loads(pickle.dumps(table)).items()) == expected
        self.table.clear()
        assert list(self.table) == [] and self.table.lookup("10.0.0.1") is None


def texts_of(prefixes: Any) -> list[str]:
    return [str(p) for p in sorted(prefixes, key=key)]


def packed(objects: list) -> np.ndarray:
    raw = np.frombuffer(b"".join(a.packed for a in objects), np.uint8)
    return raw.reshape(len(objects), -1)


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=2000 if SEARCH else 40, stateful_step_count=60 if SEARCH else 25, deadline=None
)


# --- large tables ------------------------------------------------------------------------------------


def made_up(family: int, count: int, seed: int) -> dict[Network, int]:
    """Prefixes of all lengths, most of them in a few places."""
    rng = random.Random(seed)
    width, held = WIDTH[family], {}
    bases = [rng.getrandbits(width) for _ in range(20)]
    while len(held) < count:
        number = rng.choice(bases) ^ (rng.getrandbits(width) >> rng.randrange(width))
        held[network(family, number, rng.randrange(8, width + 1))] = len(held)
    return held


def by_intervals(held: dict[Network, int], family: int, numbers: list[int]) -> list[int]:
    """A second oracle: paint prefixes over sorted borders, the shortest first."""
    top = 1 << WIDTH[family]
    edges = {0}
    for p in held:
        edges |= {int(p.network_address), int(p.broadcast_address) + 1}
    starts = sorted(edges - {top})
    place = {s: k for k, s in enumerate([*starts, top])}
    painted = [-1] * len(starts)
    for p in sorted(held, key=lambda p: p.prefixlen):
        begin = place[int(p.network_address)]
        end = place.get(int(p.broadcast_address) + 1, len(starts))
        painted[begin:end] = [held[p]] * (end - begin)
    from bisect import bisect_right

    return [painted[bisect_right(starts, n) - 1] for n in numbers]


@pytest.mark.parametrize("family", (4, 6))
@pytest.mark.parametrize("seed", range(20 if SEARCH else 1))
def test_random_addresses_of_large_tables(
    family: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the size at which a table gets its large top; in search mode millions of addresses."""
    count = 25_000 if COMPILED else 2_000
    held = made_up(family, count, seed)
    table = PrefixTable.from_arrays([str(p) for p in held], np.array(list(held.values()), np.int32))
    rng = random.Random(seed + 1)
    asked = 100_000 if SEARCH else 5_000
    prefixes = list(held)
    numbers = []
    for _ in range(asked):
        p = rng.choice(prefixes)
        inside = int(p.network_address) | rng.getrandbits(WIDTH[family]) & int(p.hostmask)
        numbers.append(inside ^ (rng.random() < 0.3) << rng.randrange(WIDTH[family]))
    kind = ipaddress.IPv4Address if family == 4 else ipaddress.IPv6Address
    column = packed([kind(n) for n in numbers])

    def agree() -> None:
        expected = by_intervals(held, family, numbers)
        for many in (1 << 40, 0):  # before and after more is derived from the version
            monkeypatch.setattr("ippath.prefix.store.MANY_ASKED", many)
            assert table.lookup(column).tolist() == expected
        assert table.lookup(pa.array([str(kind(n)) for n in numbers])).tolist() == expected

    agree()
    gone = rng.sample(prefixes, count // 2)
    table.drop_columns([str(p) for p in gone])
    for p in gone:
        del held[p]
    agree()
    back = gone[: count // 4]
    for k, p in enumerate(back):
        table[p] = held[p] = -2 - k
    agree()


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.float32, np.float64])
def test_many_addresses_find_what_few_find(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of many addresses go by lines: full ones, crowded ones, ones with longer prefixes."""
    monkeypatch.setattr("ippath.prefix.store.LARGE", 500)
    monkeypatch.setattr("ippath.prefix.store.MANY_ASKED", 4000)
    rng = np.random.default_rng(7)
    place = rng.integers(0, 1 << 12, 3000).astype(np.uint32) << 8 | 0x0A000000  # many in a line
    length = rng.choice([12, 16, 20, 22, 24, 24, 24, 28, 32], 3000).astype(np.uint8)
    length[1500:] = np.minimum(length[1500:], 24)
    place[:1500] |= 0x00F00000  # those longer than the top have lines of their own
    place = place >> (32 - length.astype(np.uint32)) << (32 - length.astype(np.uint32))
    values = rng.integers(0, 100, 3000).astype(dtype)
    table = PrefixTable.from_arrays(place, values, length)
    asked = rng.integers(0, 1 << 24, 5000).astype(np.uint32) | np.uint32(0x0A000000)

    def agree() -> None:
        few = np.concatenate([table.lookup(asked[at : at + 500]) for at in range(0, 3500, 500)])
        many = table.lookup(asked)
        assert table._four.derived is not None and many.dtype == dtype
        assert np.array_equal(few, many[:3500], equal_nan=np.dtype(dtype).kind == "f")

    agree()
    table[(int(asked[0]), 32, 4)] = values[0] + dtype(1)
    assert table._four.derived is None, "lines are of one version"
    agree()
    del table[(int(asked[0]), 32, 4)]
    agree()
    before, snapshot = table.lookup(asked), table.snapshot()
    table.put_columns(asked[:2], values[:2] + dtype(1), np.array([32, 32]))
    agree()
    assert np.array_equal(snapshot.lookup(asked), before, equal_nan=np.dtype(dtype).kind == "f")


@given(st.dictionaries(networks(6), st.integers(0, 3), max_size=30), st.data())
def test_ranges_of_ipv6_find_what_a_search_finds(held: dict[Network, int], data: Any) -> None:
    """Ranges begin and end where prefixes do; equal neighbours are one."""
    edges = [n for p in held for n in (int(p.network_address) - 1, int(p.broadcast_address) + 1)]
    numbers = data.draw(st.lists(addresses(6) | st.sampled_from([0, *edges]), min_size=1))
    numbers += [int(p.network_address) for p in held] + [int(p.broadcast_address) for p in held]
    asked = [ipaddress.IPv6Address(n % (1 << 128)) for n in numbers if n >> 32 != 0xFFFF]
    assume(asked)
    expected = [longest(held, a) for a in asked]
    for dtype in (np.int8, np.int16, np.int32, np.float64):  # 7, 6 and 5 ranges in a line; nodes
        table = PrefixTable({str(p): value for p, value in held.items()}, dtype=dtype, missing=7)
        with mock.patch("ippath.prefix.store.MANY_ASKED", 0):
            found = table.lookup(packed(asked)).tolist()
        assert found == [7 if value is None else value for value in expected]


def test_a_table_that_grows_one_by_one_equals_one_that_was_built() -> None:
    held = made_up(4, 22_000 if COMPILED else 600, 7)
    grown = PrefixTable(dtype=np.int64)
    for prefix, value in held.items():
        grown[prefix] = value
    built = PrefixTable.from_arrays([str(p) for p in held], np.array(list(held.values())))
    assert grown == built
    everywhere = np.random.default_rng(1).integers(0, 1 << 32, 20_000, dtype=np.uint32)
    assert (grown.lookup(everywhere) == built.lookup(everywhere)).all()
    for prefix in held:
        del grown[prefix]
    assert len(grown) == 0 and (grown.lookup(everywhere) == -1).all()


def test_memory_stays_bounded_while_a_table_changes() -> None:
    """Blocks of every size come and go: what is free is used again, or moved together."""
    table = PrefixTable(dtype=np.uint8, family=4)
    most = 0
    for turn in range(12):
        stride = 1 + turn % 4
        numbers = np.arange(0, 1 << 13, stride, dtype=np.uint32) << 11
        keys = (numbers, np.full(len(numbers), 21 + turn % 4, np.int64))
        table.put_columns(keys[0], np.ones(len(numbers), np.uint8), keys[1])
        table.drop_columns(*keys)
        if turn == 3:
            most = table.nbytes
    assert len(table) == 0
    assert table.nbytes <= most * 1.5


# --- forms of keys, values and columns -------------------------------------------------------------

SAME = [
    "10.0.0.0/8", ipaddress.ip_network("10.0.0.0/8"), ("10.0.0.0", 8), (0x0A000000, 8, 4),
    (b"\x0a\0\0\0", 8), (ipaddress.ip_address("10.0.0.0"), 8),
]  # fmt: skip


@pytest.mark.parametrize("form", SAME, ids=repr)
def test_forms_of_a_key(form: Any) -> None:
    table = PrefixTable({"10.0.0.0/8": "ten", "::/0": "six"})
    assert table[form] == "ten" and form in table
    table[form] = "again"
    assert dict(table.items()) == {"10.0.0.0/8": "again", "::/0": "six"}
    del table[form]
    assert list(table) == ["::/0"]


def test_numbers_in_tables_of_one_family() -> None:
    table = PrefixTable({(0x0A000000, 8): 1, 0x0A000001: 2}, family=4)
    assert list(table) == ["10.0.0.0/8", "10.0.0.1/32"]
    assert table.lookup(0x0A000001) == 2 and table.lookup(0x0A000002) == 1
    six = PrefixTable({(1 << 127, 1): 1}, family=6)
    assert list(six) == ["8000::/1"] and six.lookup((1 << 127) + 5) == 1


ADDRESSES = ["10.1.2.3", "192.0.2.1", "10.255.0.9"]
COLUMNS = {
    "uint32": np.array([0x0A010203, 0xC0000201, 0x0AFF0009], np.uint32),
    "int64": np.array([0x0A010203, 0xC0000201, 0x0AFF0009]),
    "big endian": np.array([0x0A010203, 0xC0000201, 0x0AFF0009], ">u4"),
    "bytes": np.array([[10, 1, 2, 3], [192, 0, 2, 1], [10, 255, 0, 9]], np.uint8),
    "list": ADDRESSES,
    "list of objects": [ipaddress.ip_address(a) for a in ADDRESSES],
    "list of numbers": [0x0A010203, 0xC0000201, 0x0AFF0009],
    "list of bytes": [ipaddress.ip_address(a).packed for a in ADDRESSES],
    "NumPy text": np.array(ADDRESSES),
    "NumPy bytes": np.array([a.encode() for a in ADDRESSES]),
    "NumPy objects": np.array(ADDRESSES, object),
    "Arrow": pa.array(ADDRESSES),
    "Arrow, a part": pa.array(["", *ADDRESSES, ""])[1:4],
    "Arrow, large": pa.array(ADDRESSES, pa.large_string()),
    "Arrow, views": pa.array(ADDRESSES, pa.string_view()),
    "Arrow, dictionary": pa.array(ADDRESSES).dictionary_encode(),
    "Arrow, chunks": pa.chunked_array([ADDRESSES[:1], ADDRESSES[1:]]),
    "Arrow, binary": pa.array([ipaddress.ip_address(a).packed for a in ADDRESSES]),
    "Arrow, fixed": pa.array([ipaddress.ip_address(a).packed for a in ADDRESSES], pa.binary(4)),
    "Arrow, numbers": pa.array([0x0A010203, 0xC0000201, 0x0AFF0009], pa.uint32()),
}


@pytest.mark.parametrize("form", COLUMNS)
def test_forms_of_a_column(form: str) -> None:
    table = PrefixTable({"10.0.0.0/8": "ten", "10.255.0.0/16": "end"})
    assert table.lookup(COLUMNS[form]).tolist() == ["ten", None, "end"]
    assert table.lookup(COLUMNS[form], "?").tolist() == ["ten", "?", "end"]


def test_series_of_other_packages_come_as_arrow_or_numpy() -> None:
    class Series:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return pa.chunked_array([ADDRESSES]).__arrow_c_stream__(requested_schema)

    class Old:
        def to_numpy(self) -> np.ndarray:
            return np.array(ADDRESSES, object)

    table = PrefixTable({"10.0.0.0/8": 8})
    assert table.lookup(Series()).tolist() == table.lookup(Old()).tolist() == [8, None, 8]


def test_nulls_find_nothing() -> None:
    table = PrefixTable({"0.0.0.0/0": 1}, dtype=np.int16)
    assert table.lookup(pa.array(["1.1.1.1", None])).tolist() == [1, -1]
    assert table.lookup(pa.array([b"abcd", None])).tolist() == [1, -1]
    assert table.lookup(pa.array([5, None])).tolist() == [1, -1]


@pytest.mark.parametrize(
    "dtype, value, missing",
    [(np.int32, 7, -1), (np.uint16, 7, 65535), (np.int8, 7, -1), (np.uint64, 7, 2**64 - 1),
     (np.float64, 0.5, np.nan), (bool, True, False), ("S3", b"abc", b""),
     ([("a", "i4"), ("b", "f8")], (1, 2.0), (0, 0.0))],
)  # fmt: skip
def test_values_of_numpy_types(dtype: Any, value: Any, missing: Any) -> None:
    table = PrefixTable({"10.0.0.0/8": value, "2001:db8::/32": value}, dtype=dtype)
    found = table.lookup(["10.0.0.1", "11.0.0.1", "2001:db8::1", "::1"])
    expected = np.array([value, missing, value, missing], dtype)
    assert found.dtype == np.dtype(dtype)
    assert str(found) == str(expected)
    one = table.lookup(np.array([0x0A000001, 0], np.uint32))
    assert str(one) == str(expected[:2])
    assert str(table.lookup("10.0.0.1")) == str(expected[0])
    assert str(table.lookup("9.0.0.1")) == str(expected[1])


def test_values_that_do_not_fit_change_nothing() -> None:
    table = PrefixTable({"10.0.0.0/8": 1}, dtype=np.int8)
    for values in (["a", 1], [1.5, 1]):
        with pytest.raises((TypeError, ValueError)):
            table.update([("11.0.0.0/8", values[0]), ("12.0.0.0/8", values[1])])
    with pytest.raises((TypeError, ValueError)):
        table["11.0.0.0/8"] = "text"
    assert list(table) == ["10.0.0.0/8"]


# --- bad input -------------------------------------------------------------------------------------

BAD = {
    "10.0.0.1/8": "host bits are set", "2001:db8::1/32": "host bits are set",
    "10.0.0.0/33": "prefix length", "::/129": "prefix length", "10.0.0.0/": "prefix length",
    "10.0.0.0/-1": "prefix length", "10.0.0.0/8x": "prefix length", "fe80::1%eth0": "zone",
    "::ffff:192.0.2.1": "IPv4-mapped", "::ffff:0:0/96": "IPv4-mapped", "": "empty",
    "10.0.0": "not an IP address", "10.0.0.256": "not an IP address", "010.0.0.1": "not an IP address",
    "1::2::3": "not an IP address", "10.0.0.0 /8": "not an IP address", "::g": "not an IP address",
    "1:2:3:4:5:6:7:8:9": "not an IP address", "example.org": "not an IP address",
    "10.0.0.1\0": "not an IP address", "１０.0.0.1": "not an IP address",
    "10.0.0.1\n10.0.0.2": "not an IP address",
    "1" * 100: "not an IP address", "1.2.3.4.5": "not an IP address", ":1::2": "not an IP address",
}  # fmt: skip


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_bad_text_is_named_and_changes_nothing(value: str) -> None:
    table = PrefixTable({"192.0.2.0/24": 1, "::/0": 2})
    before = dict(table.items())
    why = BAD[value]
    for act in (
        lambda: table.__setitem__(value, 3),
        lambda: table[value],
        lambda: table.lookup(value),
        lambda: table.parent(value),
    ):
        with pytest.raises(ValueError, match=why) as caught:
            act()
        assert repr(value) in str(caught.value)
    for act in (
        lambda: table.update([("198.51.100.0/24", 1), ("203.0.113.0/24", 1), (value, 1)]),
        lambda: table.put_columns(pa.array(["198.51.100.0/24", "::1", value]), [1, 2, 3]),
        lambda: table.drop_columns(["192.0.2.0/24", "::/0", value]),
        lambda: PrefixTable.from_arrays(["198.51.100.0/24", "::1", value], [1, 2, 3]),
    ):
        with pytest.raises(ValueError, match=why) as caught:
            act()
        assert str(caught.value).startswith("row 2: ") and repr(value)[1:-1] in str(caught.value)
    if "/" not in value:
        with pytest.raises(ValueError, match=f"row 1: .*{why}"):
            table.lookup(["198.51.100.1", value])
    assert dict(table.items()) == before


@pytest.mark.parametrize(
    "given, why",
    [
        (b"abc", "3 bytes: an address has 4 or 16"),
        (b"", "0 bytes"),
        (5, "a number is an address only in a table of one family"),
        ((5, 8), "a number is an address"),
        (("10.0.0.0/8", 8), "two prefix lengths"),
        ((1 << 32, 8, 4), "not the number of an IPv4 address"),
        ((-1, 8, 4), "not the number of an IPv4 address"),
        ((1, 8, 5), "the family is 4 or 6"),
        (("10.0.0.0", "8"), "the prefix length is no number"),
        (("10.0.0.0", 40), "prefix length"),
        (ipaddress.ip_address("fe80::1%eth0"), "zone"),
        (ipaddress.ip_address("::ffff:1.2.3.4"), "IPv4-mapped"),
    ],
    ids=repr,
)
def test_bad_keys_of_other_forms(given: Any, why: str) -> None:
    table = PrefixTable()
    with pytest.raises(ValueError, match=why):
        table[given] = 1
    with pytest.raises(ValueError, match=f"row 1: .*{why}"):
        table.update([("10.0.0.0/8", 1), (given, 2)])
    assert len(table) == 0
    with pytest.raises(TypeError, match="is text, bytes, a number"):
        table[1.5] = 1


MAPPED = [[0] * 16, [0] * 10 + [255, 255, 192, 0, 2, 1]]


@pytest.mark.parametrize(
    "column, why",
    [
        (np.array(MAPPED, np.uint8), "row 1: .*IPv4-mapped"),
        (np.array([1, -5]), "row 1: -5"),
        (np.array([1, 1 << 32]), "row 1: 4294967296"),
        (np.zeros((3, 5), np.uint8), "holds no addresses"),
        (np.zeros(3, np.uint8), "too narrow"),
        (np.zeros(3), "holds no addresses"),
        (pa.array([b"abcd", b"abc"]), "row 1: b'abc': 3 bytes"),
        (pa.array([b"abcde"]), "row 0: b'abcde': 5 bytes"),
        (["10.0.0.0/8"], "row 0: '10.0.0.0/8': a prefix where one address is wanted"),
        (["10.0.0.1", "\ud800"], r"row 1: .*ud800.*: not an IP address"),
        (["10.0.0.1", "", "::1"], "row 1: .*: empty"),
        (["10.0.0.1", None, "x"], "row 2: .x.: not an IP address"),
        ([1, -1], "row 1: -1"),
    ],
    ids=repr,
)
def test_bad_columns(column: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        PrefixTable({"::/0": 1}).lookup(column)


def test_bad_lengths_of_columns() -> None:
    numbers = np.array([0x0A000000, 0x0B000001], np.uint32)
    for lengths, why in (
        ([8, 33], "row 1: .*prefix length"), ([8, -1], "row 1: .*prefix length"),
        ([8, 8], "row 1: .*host bits"), ([8], "lengths: "), ([8.0, 8.0], "lengths: "),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            PrefixTable.from_arrays(numbers, [1, 2], lengths)
    with pytest.raises(ValueError, match="3 values for 1 prefixes"):
        PrefixTable.from_arrays(["10.0.0.0/8"], [1, 2, 3])


def test_a_table_of_one_family_refuses_the_other() -> None:
    table = PrefixTable(family=4)
    for act in (
        lambda: table.update({"::/0": 1}),
        lambda: table.lookup("::1"),
        lambda: table.lookup(np.zeros((1, 16), np.uint8)),
    ):
        with pytest.raises(ValueError, match="the table holds IPv4 prefixes"):
            act()


@pytest.mark.parametrize("seed", range(3))
def test_text_is_read_as_python_reads_it(seed: int) -> None:
    """Random damage to addresses: both compiled parsers take what `ipaddress` takes."""
    rng = random.Random(seed)
    good = ["1.2.3.4", "::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8",
            "1:2:3:4:5:6:1.2.3.4", "::1.2.3.4", "2001:DB8::a", "64:ff9b::192.0.2.1",
            "203.0.113.255", "2001:db8:fe09:10::AbCd:ef00", "fedc:ba98:7654:3210:fedc:ba98:7654:3210"]  # fmt: skip
    table = PrefixTable({"0.0.0.0/0": 4, "::/0": 6})
    for _ in range(3000 if COMPILED else 800):
        text = list(rng.choice(good))
        for _ in range(rng.randrange(4)):
            text.insert(rng.randrange(len(text) + 1), rng.choice("0123456789abF:.%/ "))
            del text[rng.randrange(len(text))]
        told = "".join(text)
        try:
            address = ipaddress.ip_address(told)
            if address.version == 6 and (address.scope_id or address.ipv4_mapped):
                raise ValueError
        except ValueError:
            with pytest.raises(ValueError):
                table.lookup([told])
            with pytest.raises(ValueError):
                table.lookup(told)
        else:
            assert table.lookup([told]).tolist() == [address.version] == [table.lookup(told)]
            # a list is padded, so that 64 bytes can be read at once; an Arrow column may not be
            for column in ([told], pa.array([told])):
                family, *parts = columns.addresses(column, None).parsed()
                number = parts[0 if family[0] == 4 else 1].number(0)
                raw = number.to_bytes(4, "big") if family[0] == 4 else number
                assert raw == address.packed


@given(st.lists(st.sampled_from(["", "10.0.0.1", "::1", "1" * 70, "\u20ac", "1::\n2::"])))
def test_lists_of_text_become_lines(values: list[str]) -> None:
    """Each line in its place, whatever its length; text of two lines is not taken for two rows."""
    found = columns.addresses(values, None)
    rows = [
        bytes(found.data[a : b - found.gap]).decode() for a, b in itertools.pairwise(found.offsets)
    ]
    assert rows == values


# --- sets, copies, files, threads --------------------------------------------------------------------


def test_sets() -> None:
    left = PrefixTable({"10.0.0.0/8": 1, "10.1.0.0/16": 2, "2001:db8::/32": 3})
    right = PrefixTable({"10.1.0.0/16": 20, "2001:db8::/32": 30, "::/0": 40})
    assert dict((left | right).items()) == {
        "10.0.0.0/8": 1, "10.1.0.0/16": 20, "::/0": 40, "2001:db8::/32": 30,
    }  # fmt: skip
    assert dict((left & right).items()) == {"10.1.0.0/16": 2, "2001:db8::/32": 3}
    assert dict((left - right).items()) == {"10.0.0.0/8": 1}
    assert len(left) == 3 and len(right) == 3
    left |= {"1.0.0.0/8": 9}
    assert left["1.0.0.0/8"] == 9
    assert (left == PrefixTable(left)) and left != right


AGGREGATES = [
    ({"10.0.0.0/9": 1, "10.128.0.0/9": 1}, {"10.0.0.0/8": 1}),
    ({"10.0.0.0/9": 1, "10.128.0.0/9": 2}, {"10.0.0.0/9": 1, "10.128.0.0/9": 2}),
    ({"10.0.0.0/8": 1, "10.1.0.0/16": 1}, {"10.0.0.0/8": 1}),
    ({"10.0.0.0/8": 1, "10.1.0.0/16": 2, "10.1.1.0/24": 1}, None),
    ({"0.0.0.0/1": 1, "128.0.0.0/1": 1}, {"0.0.0.0/0": 1}),
    ({f"10.0.{k}.0/24": 1 for k in range(256)}, {"10.0.0.0/16": 1}),
    ({"10.0.0.0/8": 2, "10.0.0.0/9": 1, "10.128.0.0/9": 1}, {"10.0.0.0/8": 1}),
    ({"10.0.0.0/8": 1, "10.0.0.0/10": 2, "10.0.0.0/11": 1, "10.32.0.0/11": 1}, {"10.0.0.0/8": 1}),
    ({"10.0.0.0/9": 1, "10.0.0.0/24": 5, "10.128.0.0/9": 1}, {"10.0.0.0/8": 1, "10.0.0.0/24": 5}),
    ({"::/1": 1, "8000::/1": 1, "::1/128": [1]}, {"::/0": 1, "::1/128": [1]}),
]


@pytest.mark.parametrize("before, after", AGGREGATES)
def test_aggregation(before: dict, after: dict | None) -> None:
    assert dict(PrefixTable(before).aggregate().items()) == (after or before)


def test_copies_are_apart() -> None:
    table = PrefixTable({"10.0.0.0/8": 1})
    copies = [copy.copy(table), copy.deepcopy(table), table.snapshot(), PrefixTable(table)]
    table["10.0.0.0/8"] = 2
    copies[0]["11.0.0.0/8"] = 3
    assert [dict(c.items()) for c in copies[1:]] == [{"10.0.0.0/8": 1}] * 3
    assert dict(copies[0].items()) == {"10.0.0.0/8": 1, "11.0.0.0/8": 3}
    assert table.lookup("11.0.0.1") is None


def test_walking_sees_the_table_of_the_beginning() -> None:
    table = PrefixTable({f"10.{k}.0.0/16": k for k in range(20)})
    seen = []
    for prefix in table:
        seen.append(prefix)
        del table[prefix]
    assert len(seen) == 20 and len(table) == 0


def saved(folder: Path) -> tuple[PrefixTable, Path]:
    held = {**made_up(4, 300, 3), **made_up(6, 300, 4)}
    table = PrefixTable({str(p): v for p, v in held.items()}, dtype=np.int32)
    table.save(folder / "table")
    return table, folder / "table"


def test_saved_tables_are_mapped_and_copied_when_changed(tmp_path: Path) -> None:
    table, file = saved(tmp_path)
    again = PrefixTable.load(file)
    assert again == table and again.lookup("203.0.113.9") == table.lookup("203.0.113.9")
    with pytest.raises(ValueError):
        again._four.arrays.node[0] = 1  # the file's memory is not to be written
    before = file.read_bytes()
    again["203.0.113.0/24"] = 77
    assert again.lookup(["203.0.113.9"]).tolist() == [77]
    assert "203.0.113.0/24" not in table and file.read_bytes() == before
    with pytest.raises(TypeError, match="pickle it"):
        PrefixTable({"::/0": "object"}).save(tmp_path / "objects")


def test_another_process_reads_a_saved_table(tmp_path: Path) -> None:
    table, file = saved(tmp_path)
    code = f"from ippath import PrefixTable; print(len(PrefixTable.load({str(file)!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert int(done.stdout) == len(table)


def test_damaged_files_are_refused_or_harmless(tmp_path: Path) -> None:
    table, file = saved(tmp_path)
    whole = file.read_bytes()
    rng = random.Random(5)
    asked = [str(ipaddress.IPv6Address(rng.getrandbits(128))) for _ in range(50)]
    asked += [str(ipaddress.IPv4Address(rng.getrandbits(32))) for _ in range(50)]
    refused = 0
    for turn in range(120 if COMPILED else 12):
        raw = bytearray(whole)
        if turn % 6 == 0:
            raw = raw[: rng.randrange(len(raw))]
        for _ in range(rng.randrange(1, 30)):
            used = (
                [k for k in (rng.randrange(len(raw)) for _ in range(40)) if raw[k]] if raw else []
            )
            for k in used[:1]:
                raw[k] = rng.randrange(256)
        file.write_bytes(raw)
        try:
            damaged = PrefixTable.load(file)
        except (ValueError, OSError):
            refused += 1
            continue
        damaged.lookup(asked)
        list(damaged), damaged.covered("::/0")
        damaged["10.9.8.0/24"] = 1
        damaged.drop_columns(list(damaged)[:50])
    assert refused > 5


def test_readers_see_one_version_while_a_writer_changes_the_table() -> None:
    """All prefixes have the same value in every version; a reader that sees two saw two versions."""
    numbers = np.arange(256, dtype=np.uint32) << 24
    lengths = np.full(256, 8)
    table = PrefixTable.from_arrays(numbers, np.zeros(256, np.int64), lengths)
    asked = np.random.default_rng(1).integers(
        0, 1 << 32, 200_000 if COMPILED else 300, dtype=np.uint32
    )
    wrong: list[Any] = []
    done = threading.Event()

    def read() -> None:
        last = 0
        while not done.is_set():
            found = table.lookup(asked)
            if (found != found[0]).any() or found[0] < last:
                wrong.append(found)
            last = found[0]
            one = table.lookup("10.0.0.1")
            if one < last:
                wrong.append(one)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for turn in range(1, 150 if COMPILED else 15):
            table.put_columns(numbers, np.full(256, turn), lengths)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not wrong
    assert table.lookup("10.0.0.1") == turn


# --- what went wrong for people elsewhere ------------------------------------------------------------
# pytricia issues 16, 18 and 20, py-radix issue 39


def test_a_prefix_is_looked_up_with_its_length() -> None:
    """A shorter prefix is not found by what lies within it, a longer one not by its first address."""
    table = PrefixTable({"10.0.0.0/8": "site", "10.1.0.0/16": "lab", "2001:db8::/32": "six"})
    assert [table.lookup(p) for p in ("10.1.0.0/16", "10.0.0.0/15", "10.1.0.0/24", "10.0.0.0/7")] == [
        "lab", "site", "lab", None,
    ]  # fmt: skip
    assert table.get("10.1.0.0/24") is None and "10.1.0.0/24" not in table
    assert table.lookup("2001:db8::/32") == "six" and table.lookup("2001:db8::/31") is None
    for wrong in ("10.1.2.3/33", "10.1.2.3/16", "2001:db8::/129"):
        with pytest.raises(ValueError):
            table.lookup(wrong)


def test_columns_of_text_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    table = PrefixTable({"10.0.0.0/8": 4, "2001:db8::/32": 6}, dtype=np.int16)
    texts = [f"10.{k % 256}.0.{k % 199}" for k in range(300)] + [
        f"2001:db8::{k:x}" for k in range(300)
    ]

    def refused(*given: Any) -> None:
        raise AssertionError("one key was read in Python")

    monkeypatch.setattr("ippath.prefix.columns.key_of", refused)
    monkeypatch.setattr("ippath.prefix.table.key_of", refused)
    for column in (texts, pa.array(texts), np.array(texts), pa.array(texts).dictionary_encode()):
        assert table.lookup(column).tolist() == [4] * 300 + [6] * 300


def test_a_pickled_table_goes_on_as_a_table() -> None:
    """No freezing first, nothing lost, and both change on their own."""
    table = PrefixTable({"10.0.0.0/8": {"as": 64500}, "2001:db8::/32": "six"})
    again = pickle.loads(pickle.dumps(table))
    again["10.1.0.0/16"] = table["10.2.0.0/16"] = 1
    assert again.lookup("10.0.0.1") == {"as": 64500} and again.lookup("10.1.0.1") == 1
    assert list(table) == ["10.0.0.0/8", "10.2.0.0/16", "2001:db8::/32"] and len(again) == 3


@pytest.mark.parametrize("family, count, most", [(4, 1_000_000, 64), (6, 230_000, 140)])
def test_a_full_table_is_small(family: int, count: int, most: int) -> None:
    """At most so many bytes for each prefix, all that look-ups are made quicker by included."""
    count = count if COMPILED else count // 100
    held = full_table(family, count)
    keys = held.addresses(held.key)
    table = PrefixTable.from_arrays(keys, held.value, held.length, dtype=np.uint8, missing=0)
    with mock.patch("ippath.prefix.store.MANY_ASKED", 0):
        found = table.lookup(keys)
    assert len(table) == count and (found > 0).all()
    fixed = 6e6  # the top, whatever the table holds
    assert table.nbytes < most * count + (0 if COMPILED else fixed)
    sizes = {a.nbytes for s in (table._four, table._six) for a in s.arrays}
    assert sum(sizes) < 2 * most * count + fixed, "memory is not set aside beyond need"
