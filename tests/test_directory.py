"""Searches through directories end where a plain search ends, however the starts lie."""

from __future__ import annotations

import bisect
import ipaddress
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ippath import Netns, PacketBatch
from ippath import tables as T
from ippath.config import parse_host
from ippath.fib import directory as module
from ippath.fib.build import halves
from ippath.fib.directory import DENSE, FIRST_BITS, chunks, directory
from ippath.fib.search import FLIP, PAGE_COUNT, search4, search6
from ippath.jit import COMPILED
from tests.packets import ip


def clustered(draw: st.DrawFn, bits: int) -> list[int]:
    """Interval starts: 0, and bunches of neighbours anywhere, at any distance from each other."""
    starts = {0}
    for _ in range(draw(st.integers(1, 4))):
        anchor = draw(
            st.integers(0, (1 << bits) - 1) | st.sampled_from([0, (1 << bits) - 1, 1 << 64])
        )
        even = draw(st.sampled_from([0, 8, 14]))  # the edges of slots and chunks
        anchor = anchor >> even << even
        step = 1 << draw(st.integers(even, bits - 8))
        for k in range(draw(st.integers(1, 3 * DENSE))):
            starts.add((anchor + k * step) % (1 << bits))
    return sorted(starts)


def split(starts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """High and low halves."""
    low = (1 << 64) - 1
    return (
        np.array([s >> 64 for s in starts], np.uint64), np.array([s & low for s in starts], np.uint64),
    )  # fmt: skip


def fib_of(starts: list[int], bits: int, first: int, chunked: bool = False) -> T.Fib:
    """A table of these intervals behind `first` others; the leaf of each is its number."""
    before = np.zeros(first, np.int64)
    pairs = [halves(s) for s in starts]
    high = np.array([h for h, _ in pairs], np.int64)
    low = np.array([lo for _, lo in pairs], np.int64)
    if bits == 128:
        high, low = high ^ FLIP, low ^ FLIP
    place = 5  # of another table
    if chunked:
        levels = chunks(split(starts)[1], first, place)
    else:
        levels = directory(*split(starts), bits, first, place)
    top = np.concatenate([np.zeros(place, np.int64), levels])
    table = np.full((1, T.TABLE_COLUMNS), T.NONE, np.int64)
    table[0, T.TABLE_CHUNKS if chunked else T.TABLE_TOP] = place
    table[0, T.TABLE_SHIFT] = min(bits, 64) - FIRST_BITS
    nothing = np.zeros((0, 1), np.int64)
    return T.Fib(
        table=table, start_hi=np.concatenate([before, high]),
        start_lo=np.concatenate([before, low]), leaf=np.arange(first + len(starts)), top=top,
        node=nothing, route=nothing, info=nothing, nexthop=nothing, bucket=nothing, rule=nothing, local_key=nothing,
    )  # fmt: skip


@pytest.mark.skipif(COMPILED, reason="calls the search by itself, which runs uncompiled")
@pytest.mark.parametrize(("bits", "chunked"), [(32, False), (32, True), (128, False)])
@given(data=st.data())
def test_a_search_through_directories(bits: int, chunked: bool, data: st.DataObject) -> None:
    starts = data.draw(st.composite(lambda draw: clustered(draw, bits))())
    first = data.draw(st.sampled_from([0, 7]))
    fib = fib_of(starts, bits, first, chunked)
    end = 1 << bits
    near = st.sampled_from(starts).flatmap(
        lambda s: st.sampled_from([(s + d) % end for d in (-1, 0, 1)])
    )
    for _ in range(20):
        address = data.draw(near | st.integers(0, end - 1))
        found = search4(fib, 0, address) if bits == 32 else search6(fib, 0, *halves(address))
        assert found == first + bisect.bisect_right(starts, address) - 1, hex(address)


@pytest.mark.parametrize("bits", [32, 128])
def test_few_candidates_are_left(bits: int) -> None:
    """1,024 neighbours in one slot of 16 bits: every search ends among a few."""
    base = 0xC6120001 if bits == 32 else 0x20010DB8 << 96 | 1 << 16
    starts = [0, *range(base, base + 1024)]
    if bits == 128:
        starts.append((base >> 64) + 1 << 64)  # the end of the prefix around them
    top = directory(*split(starts), bits, 0, 0)
    slot = base >> bits - 16
    assert top[slot] < 0 <= top[slot - 1], "only that slot has a directory of its own"
    assert len(top) < (1 << 16) + 10 * 1024
    last = -int(top[slot])
    while True:  # down to the directory of the neighbours themselves
        pages = top[last + T.SUB_FIRST :]
        if pages[0] >= 0:
            break
        last = -int(pages[0])
    assert (pages[:1024] & PAGE_COUNT <= 2).all()


def routes_and_targets(family: int) -> tuple[list[str], list[int]]:
    """Prefixes in bunches, and addresses at their edges."""
    chance = random.Random(family)
    bits = 32 if family == 4 else 128
    text = ipaddress.IPv4Address if family == 4 else ipaddress.IPv6Address
    anchors = [int(text(a)) for a in (
        ("198.18.0.0", "198.18.200.0", "11.0.0.0") if family == 4
        else ("2001:db8::1:0", "2001:db8:0:1::", "2001:db8:8000::", "2a00::")
    )]  # fmt: skip
    prefixes = set()
    for anchor in anchors:
        for k in range(DENSE + 30):
            plen = chance.choice([bits, bits, bits - 1, bits - 3])
            prefixes.add(((anchor + 2 * k) >> bits - plen << bits - plen, plen))
        for plen in (bits // 4, bits // 2):
            prefixes.add((anchor >> bits - plen << bits - plen, plen))
    targets = set()
    for prefix, plen in prefixes:
        size = 1 << bits - plen
        targets |= {prefix, prefix + 1, prefix + size - 1, prefix + size}
    lines = [f"{text(prefix)}/{plen}" for prefix, plen in sorted(prefixes)]
    return lines, sorted(targets)


@pytest.mark.parametrize(("family", "large"), [(4, False), (4, True), (6, False)])
def test_dense_tables_route_as_the_longest_prefix_says(
    family: int, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:  # as if they had a million routes: chunks, and prefetching of what they lead to
        monkeypatch.setattr(module, "LARGE", 10)
    prefixes, targets = routes_and_targets(family)
    lines = [
        "link set lo up", "link add eth0 type veth", "link set eth0 up",
        "addr add 192.0.2.1/24 dev eth0", "addr add 2001:db8:ffff::1/64 dev eth0",
        "net.ipv4.ip_forward = 1", "net.ipv6.conf.all.forwarding = 1",
        *(f"{'-6 ' * (family == 6)}route add {prefix} dev eth0" for prefix in prefixes),
    ]  # fmt: skip
    netns = Netns(parse_host("\n".join(lines)), switches={"route_hint": "off"})
    source = "192.0.2.9" if family == 4 else "2001:db8:ffff::9"
    networks = [ipaddress.ip_network(p) for p in prefixes]
    addresses = [ipaddress.ip_address(t) for t in targets]
    batch = PacketBatch.from_packets([ip(source, str(a)) for a in addresses], device=1)
    assert (netns.tables.fib4.table[:, T.TABLE_CHUNKS] != T.NONE).any() == large
    found = netns.receive(batch).route
    known = netns.routes(family)
    for address, row in zip(addresses, found):
        expected = max(
            (n for n in networks if address in n), key=lambda n: n.prefixlen, default=None
        )
        if expected is None:
            assert row < 0 or known[row].plen == 0, address
        else:
            assert row >= 0, f"{address}: nothing found, expected {expected}"
            assert (known[row].prefix, known[row].plen) == (
                int(expected.network_address), expected.prefixlen,
            ), address  # fmt: skip
    fib = netns.tables.fib4 if family == 4 else netns.tables.fib6
    first = fib.top[1 : 1 << 19 : 2] if large else fib.top[: 1 << 16]
    assert (first < 0).any() and not (first < 0).all()


def test_starts_too_far_apart_stay_without_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are counted in signed numbers: a directory over half of 64 bits would not fit."""
    monkeypatch.setattr(module, "DENSE", 2)
    starts = [0, *((0x20010DB8 << 96) + (k << 62) for k in range(4))]
    assert (directory(*split(starts), 128, 0, 0) >= 0).all()
