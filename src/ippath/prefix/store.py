"""One version of a prefix table of one family: the arrays, the values, and how both grow.

A store is changed in place while one table alone uses it.  Who wants it to stay as it is – a reader of
a column, a snapshot, a file that is mapped – holds it; a writer that finds it held copies it first.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from ippath.handles import prefixes_handle
from ippath.prefix import entries, lines
from ippath.prefix.aggregation import DEEPEST
from ippath.prefix.blocks import SCRATCH
from ippath.prefix.layout import (
    GROUP, LARGE, LARGE_TOP, META_CHUNKS, META_COUNT, META_FREE_BLOCK, META_FREE_GROUP,
    META_FREE_GROUPS, META_FREE_WORDS, META_LEAVES, META_NODES, META_SHIFT, META_TOP, NO_ROOM,
    ROOM_GROUPS, ROOM_NODES, ROOM_WORDS, SMALL_TOP, Arrays, empty, top_chunks,
)  # fmt: skip
from ippath.prefix.pages import copy_of, zeros
from ippath.prefix.ranges import LONGER, Ranges, arranged

EVERY_LENGTH = 1000  # longer than any prefix
MANY_ASKED = 1 << 20  # addresses looked up in a version before more is derived from it
_WORDS = {1: np.int8, 2: np.int16, 4: np.int32}
STACK = 130  # nodes on the way from the root to an address, and what hangs beside them


class Owner:
    """A table, as its stores know it: gone when the table is."""


class Store:
    """Arrays and values; `handle` is what compiled code takes."""

    def __init__(
        self, family: int, arrays: Arrays, values: np.ndarray, missing: Any, frozen: bool = False
    ):
        self.family, self.values, self.missing = family, values, missing
        self.frozen = frozen  # the arrays are those of a file
        self.owners: weakref.WeakSet = weakref.WeakSet()  # the tables that use it
        self.readers = 0  # of columns
        self._count = threading.Lock()
        self.changes = 0  # odd while a change of one key is under way
        # of this version, for columns: see ippath.prefix.lines and ippath.prefix.ranges
        self.derived: np.ndarray | Ranges | None = None
        self._asked = 0
        self._take(arrays)

    def _take(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self._keeper = prefixes_handle(arrays)
        self.handle = self._keeper.value

    @classmethod
    def new(cls, family: int, dtype: np.dtype, missing: Any = None, rows: int = 0) -> Store:
        """An empty one; `rows` prefixes will come, whose nodes are numbered from 1."""
        top = LARGE_TOP if family == 4 and rows >= LARGE else SMALL_TOP
        nodes = 2 * rows + ROOM_NODES + 16
        room = 1 << (top - 6)
        arrays = empty(family, top, nodes, ROOM_GROUPS + rows // 2, ROOM_WORDS + room + 3 * rows)
        if rows:
            arrays.meta[META_NODES] = rows + 1
        values = zeros(rows + 1, dtype)
        values[0] = missing
        return cls(family, arrays, values, missing)

    def hold(self, more: int) -> None:
        """One reader more or less."""
        with self._count:
            self.readers += more

    def is_shared(self) -> bool:
        """Does somebody but one table rely on it?"""
        return self.frozen or self.readers > 0 or len(self.owners) > 1

    # --- what it is ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self.arrays.meta[META_COUNT])

    @property
    def nbytes(self) -> int:
        """Bytes in use, but for the values."""
        meta = self.arrays.meta
        used = (int(meta[META_NODES]) << int(meta[META_SHIFT])) + 2 * int(meta[META_CHUNKS])
        beside = 0 if self.derived is None else self.derived.nbytes
        return 8 * used + 4 * int(meta[META_LEAVES]) + meta.nbytes + beside

    @property
    def allocated(self) -> int:
        """Bytes set aside, but for the values."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def rooted(self) -> bool:
        """Has the prefix of length 0 a value?"""
        return entries.exact_one(self.handle, 0, 0, 0) == 0

    def nodes(self, top: int = 0, flat: int = EVERY_LENGTH) -> np.ndarray:
        """Nodes of the prefixes at and below a node, in order; not those below longer than `flat`."""
        stack, count = np.zeros(STACK, np.int32), len(self)
        if top or flat != EVERY_LENGTH:
            count = entries.collect(self.handle, top, stack, np.zeros(0, np.int32), flat)
        found = np.zeros(count, np.int32)
        if count:
            entries.collect(self.handle, top, stack, found, flat)
        return found

    def find_exact(self, hi: np.ndarray, lo: np.ndarray, length: np.ndarray) -> np.ndarray:
        """Nodes of exactly these prefixes, or NOT_THERE."""
        found = np.zeros(len(hi), np.int32)
        entries.find_exact(self.handle, hi, lo, length, found)
        return found

    def take(self, addresses: np.ndarray, found: np.ndarray) -> bool:
        """Values of a column of addresses: signed numbers; True: one is IPv4-mapped, and refused.

        `addresses` is uint32[n] or uint8[16 * n]; the caller holds the store.
        """
        values, scratch = self.values.view(found.dtype), np.empty(SCRATCH, np.int64)
        direct = values.itemsize in _WORDS
        self._asked += len(found)
        if self._asked >= MANY_ASKED and self.derived is None:
            self.derived = self._derive(values, _WORDS.get(values.itemsize, np.int32))
        own = self.derived
        if isinstance(own, Ranges):
            words = own.lines.view(_WORDS.get(values.itemsize, np.int32))
            return entries.take_by_ranges(
                self.handle, own.start, own.level, own.lines, words, own.each, values, direct,
                addresses, found, scratch,
            )  # fmt: skip
        if own is not None:
            words = own.view(_WORDS.get(values.itemsize, np.int32))
            entries.take_by_lines(
                self.handle, own, words, values, direct, addresses, found, scratch
            )
            return False
        take = entries.take_ipv4 if self.family == 4 else entries.take_ipv6
        return bool(take(self.handle, addresses, values, found, scratch))

    def _derive(self, values: np.ndarray, kind: Any) -> np.ndarray | Ranges | None:
        """What columns of many addresses are looked up in, of this version; None: the chunks."""
        direct = values.dtype == kind
        if self.family == 6:
            nodes = self.nodes()
            ends, found = (np.empty(2 * len(nodes) + 1, np.int64) for _ in range(2))
            frames = np.zeros(2 * DEEPEST, np.int64)
            count = entries.sweep(self.handle, nodes, ends, found, frames)
            longer = found[:count] == LONGER
            words = np.maximum(found[:count], 0)
            return arranged(ends[:count], values[words] if direct else words.astype(kind), longer)
        if self.arrays.meta[META_TOP] != LARGE_TOP:
            return None
        shift = lines.SHORT_SHIFT if values.itemsize == 1 else lines.LONG_SHIFT
        own = zeros(top_chunks(LARGE_TOP) << (shift - 3), np.int64)
        entries.fill_lines(self.handle, own, own.view(kind), values, direct)
        return own

    def describe(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Both words of the keys and the lengths of nodes: int64[]."""
        columns = tuple(np.zeros(len(nodes), np.int64) for _ in range(3))
        entries.describe(self.handle, nodes, *columns)
        return columns  # type: ignore[return-value]

    # --- growing ---------------------------------------------------------------------------------

    def copy(self) -> Store:
        """The same, to be changed."""
        arrays = Arrays(*(copy_of(a, len(a)) for a in self.arrays))
        return Store(self.family, arrays, copy_of(self.values, len(self.values)), self.missing)

    def with_many(
        self, hi: np.ndarray, lo: np.ndarray, length: np.ndarray, values: np.ndarray
    ) -> Store:
        """A new version in which these prefixes were inserted or replaced."""
        if len(self):
            store = self.copy()
            store.put_many(hi, lo, length, values, False)
            return store
        order = _sorted(hi, lo, length)
        hi, lo, length = hi[order], lo[order], length[order]
        last = np.ones(len(hi), bool)  # of equal prefixes
        last[:-1] = (hi[1:] != hi[:-1]) | (lo[1:] != lo[:-1]) | (length[1:] != length[:-1])
        if not last.all():
            hi, lo, length, order = hi[last], lo[last], length[last], order[last]
        store = Store.new(self.family, self.values.dtype, self.missing, len(hi))
        store.put_many(hi, lo, length, values[order], True)
        store.trim()
        return store

    def make_room(self, length: int) -> None:
        """Room for an update of a prefix of this length; values keep their nodes."""
        meta = self.arrays.meta
        if self.family == 4 and len(self) >= LARGE and meta[META_TOP] == SMALL_TOP:
            self._rebuild(LARGE_TOP)
            return
        node, chunk, leaf, _ = self.arrays
        top = int(meta[META_TOP])
        words = ROOM_WORDS + (1 << max(0, top - 6 - length))
        if int(meta[META_FREE_WORDS]) > (int(meta[META_LEAVES]) >> 1) + ROOM_WORDS:
            packed = zeros(len(leaf), np.int32)
            entries.compact(self.handle, packed)
            leaf = packed
        shift = int(meta[META_SHIFT])
        self._take(
            Arrays(
                _grown(node, int(meta[META_NODES]) << shift, ROOM_NODES << shift),
                _grown(chunk, 2 * int(meta[META_CHUNKS]), 2 * GROUP * ROOM_GROUPS),
                _grown(leaf, int(meta[META_LEAVES]), words),
                meta,
            )
        )

    def _rebuild(self, top: int) -> None:
        """The same tree with chunks of another top."""
        nodes, meta = self.nodes(), self.arrays.meta
        words = ROOM_WORDS + top_chunks(top) + 4 * len(self)
        fresh = empty(self.family, top, 0, ROOM_GROUPS + len(self), words)
        for place in (META_CHUNKS, META_LEAVES, META_TOP):
            meta[place] = fresh.meta[place]
        meta[META_FREE_BLOCK : META_FREE_BLOCK + 65] = 0
        meta[META_FREE_WORDS] = meta[META_FREE_GROUP] = meta[META_FREE_GROUPS] = 0
        self._take(Arrays(self.arrays.node, fresh.chunk, fresh.leaf, meta))
        done = 0
        while True:
            done += entries.rebuild(self.handle, nodes[done:])
            if done == len(nodes):
                return
            self.make_room(0)

    def trim(self) -> None:
        """Give back what was set aside and not used, but for a little."""
        meta = self.arrays.meta
        shift = int(meta[META_SHIFT])
        self._take(
            Arrays(
                _cut(self.arrays.node, (int(meta[META_NODES]) + ROOM_NODES) << shift),
                _cut(self.arrays.chunk, 2 * (int(meta[META_CHUNKS]) + GROUP * ROOM_GROUPS)),
                _cut(self.arrays.leaf, int(meta[META_LEAVES]) + ROOM_WORDS),
                meta,
            )
        )

    def _make_room_for_values(self) -> None:
        nodes = int(self.arrays.meta[META_NODES])
        if nodes > len(self.values):
            larger = zeros(nodes + nodes // 4 + 16, self.values.dtype)
            larger[: len(self.values)] = self.values
            self.values = larger

    # --- changing --------------------------------------------------------------------------------

    def _forget_derived(self) -> None:
        self.derived, self._asked = None, 0

    def put(self, hi: int, lo: int, length: int, value: Any) -> None:
        """Insert or replace one prefix."""
        self._forget_derived()
        self.changes += 1
        try:
            node = entries.put_one(self.handle, hi, lo, length)
            if node == NO_ROOM:
                self.make_room(length)
                node = entries.put_one(self.handle, hi, lo, length)
            if node >= len(self.values):
                self._make_room_for_values()
            self.values[node] = value
        finally:
            self.changes += 1

    def drop(self, hi: int, lo: int, length: int) -> Any:
        """Remove one prefix that is there; returns its value."""
        self._forget_derived()
        self.changes += 1
        try:
            node = entries.drop_one(self.handle, hi, lo, length)
            if node < NO_ROOM:
                self.make_room(length)
                node = entries.drop_one(self.handle, hi, lo, length)
            value = self.values[node]
            self.values[node] = self.missing
            return value
        finally:
            self.changes += 1

    def put_many(
        self, hi: np.ndarray, lo: np.ndarray, length: np.ndarray, values: np.ndarray, numbered: bool
    ) -> None:
        """Insert or replace prefixes, the later of equal ones last; `numbered`: rows are nodes 1 to n."""
        self._forget_derived()
        found, scratch = np.zeros(len(hi), np.int32), np.empty(SCRATCH, np.int64)
        done = 0
        while done < len(hi):
            done = entries.put_many(
                self.handle, hi, lo, length, found, done, int(numbered), scratch
            )
            if done < len(hi):
                self.make_room(int(length[done]))
        self._make_room_for_values()
        self.values[found] = values

    def drop_many(self, hi: np.ndarray, lo: np.ndarray, length: np.ndarray) -> int:
        """Remove those of the prefixes that are there; returns how many were."""
        self._forget_derived()
        found, scratch = np.zeros(len(hi), np.int32), np.empty(SCRATCH, np.int64)
        before, done = len(self), 0
        while done < len(hi):
            done = entries.drop_many(self.handle, hi, lo, length, found, done, scratch)
            if done < len(hi):
                self.make_room(int(length[done]))
        self.values[found[found >= 0]] = self.missing
        return before - len(self)


def _grown(array: np.ndarray, used: int, least: int) -> np.ndarray:
    """With room for `least` more than is used, and half as much again where it has to grow."""
    if used + least <= len(array):
        return array
    larger = zeros(used + least + used // 2, array.dtype)
    larger[:used] = array[:used]
    return larger


def _sorted(hi: np.ndarray, lo: np.ndarray, length: np.ndarray) -> np.ndarray:
    """The order of prefixes by address, the shorter of equal ones first; equal ones as they stand."""
    if not lo.any() and not (hi & 0xFF).any():  # one word holds it all
        return np.argsort(hi.view(np.uint64) | length.astype(np.uint64), kind="stable")
    return np.lexsort((length, lo.view(np.uint64), hi.view(np.uint64)))


def _cut(array: np.ndarray, size: int) -> np.ndarray:
    return array if len(array) <= size + size // 8 else copy_of(array, size)
