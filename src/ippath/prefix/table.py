"""`PrefixTable`: a mapping from IP prefixes to values that finds the longest prefix of addresses.

As a mapping it is exact: `table["10.0.0.0/8"]` is the value of that prefix and of no other.
`lookup` finds the longest prefix, of one address or of a column of a million.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from struct import Struct
from typing import Any, Self

import numpy as np

from ippath.jit import COMPILED, direct
from ippath.prefix import columns, entries, text
from ippath.prefix.aggregation import DEEPEST
from ippath.prefix.blocks import SCRATCH
from ippath.prefix.columns import Keys, Packed, Texts
from ippath.prefix.keys import WIDTH, Key, key_of, refuse, text_of
from ippath.prefix.layout import NOT_THERE
from ippath.prefix.store import EVERY_LENGTH, Owner, Store

FEW = 1000  # changes that are made in place; more are made on a copy, beside the readers
TEXTS_AT_ONCE = 1 << 14  # keys that are turned into text together when a table is walked through
_UNSET: Any = object()
# a look-up of one address takes as long as ten of these are looked up in their modules
_packed, _INET, _INET6 = socket.inet_pton, int(socket.AF_INET), int(socket.AF_INET6)
_one_number, _two_words = Struct(">i").unpack, Struct(">qq").unpack
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def _missing_of(dtype: np.dtype) -> Any:
    """What an address without prefix gets: None, NaN, -1, the largest unsigned number, or zeros."""
    if dtype.kind == "O":
        return None
    if dtype.kind in "fc":
        return dtype.type(np.nan)
    if dtype.kind == "i":
        return dtype.type(-1)
    if dtype.kind == "u":
        return dtype.type(np.iinfo(dtype).max)
    return np.zeros((), dtype)[()]


def _find_one(handle: Any, hi: int, lo: int) -> int:
    """The first look-up of one address: those after it call compiled code without a look at types."""
    global _find_one
    node = entries.find_one(handle, hi, lo)
    _find_one = direct(entries.find_one)  # type: ignore[assignment]
    return node


class PrefixTable(MutableMapping):
    """IP prefixes of both families, or of one, and a value for each.

    `items` is a mapping or pairs; keys are those of `ippath.prefix.keys`.  Without `dtype` values are
    any objects; with it they are elements of an array of that NumPy type, and `missing` is what a
    look-up gives where there is no prefix (by default None, NaN, -1 or the largest unsigned number).
    `family` 4 or 6 makes a table of one family, in which numbers are addresses.

    Readers of columns run without Python's lock and see one version of the table from beginning to
    end, whatever a writer does meanwhile.
    """

    def __init__(
        self, items: Mapping | Iterable = (), *, dtype: Any = None, family: int | None = None,
        missing: Any = _UNSET,
    ):  # fmt: skip
        if family not in (None, 4, 6):
            raise ValueError(f"family {family!r}: 4, 6 or None for both")
        self.family = family
        self.dtype = np.dtype(object if dtype is None else dtype)
        self.missing = _missing_of(self.dtype) if missing is _UNSET else self._value(missing)
        self._begin({f: Store.new(f, self.dtype, self.missing) for f in (4, 6)})
        if items:
            self.update(items)

    def _begin(self, stores: dict[int, Store]) -> None:
        self._writing = threading.RLock()  # held by the one writer
        self._lock = threading.Lock()  # held for moments: while a store changes, or is exchanged
        self._owner = Owner()
        self._other = None if self.family is None else 10 - self.family  # the family it has not
        self._four, self._six = stores[4], stores[6]
        for store in stores.values():
            store.owners.add(self._owner)

    @classmethod
    def from_arrays(
        cls, prefixes: Any, values: Any, lengths: Any = None, *, dtype: Any = None,
        family: int | None = None, missing: Any = _UNSET,
    ) -> PrefixTable:  # fmt: skip
        """A table of columns: a million prefixes in a fraction of a second.

        `prefixes`: text (a list, an Arrow, pandas or polars column), or addresses (uint32[n],
        uint8[n, 16], Arrow binary) with `lengths` beside them.  Of equal prefixes the last one counts.
        ValueError names the first row that is wrong.
        """
        if dtype is None and not isinstance(values, list):
            values = _column_of_values(values)
            dtype = None if values.dtype == object else values.dtype
        table = cls(dtype=dtype, family=family, missing=missing)
        table._put_columns(columns.prefixes(prefixes, lengths, family), values)
        return table

    # --- one key ---------------------------------------------------------------------------------

    def lookup(self, address: Any, default: Any = _UNSET) -> Any:
        """The value of the longest prefix of an address, or of each address of a column.

        `address`: one key (of a prefix: the longest that covers all of it), or a column: uint32[n],
        uint8[n, 4], uint8[n, 16], a list, an Arrow, pandas or polars column of text or bytes.
        A column gives an array of values.  Where there is no prefix the value is `default`, or
        `self.missing`.  ValueError names the first row that is no address.
        """
        if address.__class__ is str:
            try:
                if ":" in address:
                    hi, lo = _two_words(_packed(_INET6, address))
                    store = self._six
                else:
                    hi, lo, store = _one_number(_packed(_INET, address))[0] << 32, 0, self._four
            except (OSError, ValueError):
                return self._lookup_key(address, default)
            changes = store.changes
            if COMPILED and not (changes & 1 or (self._other and self._other == store.family)):
                node = _find_one(store.handle, hi, lo)
                if node >= 0:
                    value = store.values[node]
                else:
                    value = self.missing if default is _UNSET else default
                if store.changes == changes and node != entries.MAPPED:
                    return value
            return self._lookup_key(address, default)
        if columns.is_column(address):
            return self._lookup_column(address, default)
        return self._lookup_key(address, default)

    def _lookup_key(self, given: Any, default: Any) -> Any:
        found = self.match(given)
        if found is None:
            return self.missing if default is _UNSET else default
        return found[1]

    def match(self, address: Any) -> tuple[str, Any] | None:
        """The longest prefix that covers an address or prefix, with its value; None: there is none."""
        return self._cover(key_of(address, self.family), 0)

    def parent(self, prefix: Any) -> str | None:
        """The longest prefix of the table around this one, which need not be in the table."""
        found = self._cover(key_of(prefix, self.family), 1)
        return None if found is None else found[0]

    def _cover(self, key: Key, shorter: int) -> tuple[str, Any] | None:
        if key.length < shorter:
            return None
        with self._lock:
            store = self._store(key.family)
            node = entries.cover_one(store.handle, key.hi, key.lo, key.length - shorter)
            if node == NOT_THERE:
                return None
            value = store.values[node]
            hi, lo, length = store.describe(np.array([node], np.int32))
        return _texts(key.family, hi, lo, length)[0], value

    def __getitem__(self, prefix: Any) -> Any:
        key = key_of(prefix, self.family)
        with self._lock:
            store = self._store(key.family)
            node = entries.exact_one(store.handle, *key[1:])
            if node != NOT_THERE:
                return store.values[node]
        raise KeyError(prefix)

    def __contains__(self, prefix: object) -> bool:
        key = key_of(prefix, self.family)
        with self._lock:
            return entries.exact_one(self._store(key.family).handle, *key[1:]) != NOT_THERE

    def __setitem__(self, prefix: Any, value: Any) -> None:
        key, value = key_of(prefix, self.family), self._value(value)
        with self._writing, self._lock:
            self._own(key.family).put(*key[1:], value)

    def __delitem__(self, prefix: Any) -> None:
        key = key_of(prefix, self.family)
        with self._writing, self._lock:
            if entries.exact_one(self._store(key.family).handle, *key[1:]) == NOT_THERE:
                raise KeyError(prefix)
            self._own(key.family).drop(*key[1:])

    def _value(self, value: Any) -> Any:
        """A value as the array of values holds it: refused before anything changes."""
        if self.dtype == object:
            return value
        return _cast([value], self.dtype)[0]

    def __len__(self) -> int:
        return len(self._four) + len(self._six)

    # --- versions --------------------------------------------------------------------------------

    def _store(self, family: int) -> Store:
        return self._four if family == 4 else self._six

    def _exchange(self, store: Store) -> None:
        """Make a new version the current one."""
        old = self._store(store.family)
        store.owners.add(self._owner)
        if store.family == 4:
            self._four = store
        else:
            self._six = store
        old.owners.discard(self._owner)

    def _own(self, family: int) -> Store:
        """The store of a family, to be changed: a copy where others rely on it.  Under both locks."""
        store = self._store(family)
        if store.is_shared():
            store = store.copy()
            self._exchange(store)
        return store

    def _read(self) -> _Reading:
        """Both stores as they are now, held until the block ends."""
        return _Reading(self)

    def snapshot(self) -> PrefixTable:
        """The table as it is now, at once: what is equal is shared until one of both changes."""
        with self._lock:
            return self._like({4: self._four, 6: self._six})

    __copy__ = copy = snapshot

    def _like(self, stores: dict[int, Store]) -> PrefixTable:
        table = object.__new__(type(self))
        table.family, table.dtype, table.missing = self.family, self.dtype, self.missing
        table._begin(stores)
        return table

    @property
    def nbytes(self) -> int:
        """Memory in use for prefixes and look-ups, in bytes; values come on top."""
        return self._four.nbytes + self._six.nbytes

    def __repr__(self) -> str:
        return (
            f"<PrefixTable: {len(self._four):,} IPv4 and {len(self._six):,} IPv6 prefixes, "
            f"{self.nbytes / 1e6:.1f} MB without values>"
        )

    # --- many keys -------------------------------------------------------------------------------

    def update(self, items: Any = (), /, **names: Any) -> None:  # type: ignore[override]
        """Insert or replace all of a mapping or of pairs – or, where one is wrong, none of them."""
        if names:
            raise TypeError("prefixes are no keyword arguments")
        if isinstance(items, PrefixTable):
            with items._read() as (four, six):
                for store in (four, six):
                    nodes = store.nodes()
                    keys = Keys(np.full(len(nodes), store.family, np.int64), *store.describe(nodes))
                    self._put_columns(keys, store.values[nodes])
            return
        pairs = list(items.items() if hasattr(items, "keys") else items)
        keys = columns.prefixes([pair[0] for pair in pairs], None, self.family)
        self._put_columns(keys, [pair[1] for pair in pairs])

    def put_columns(self, prefixes: Any, values: Any, lengths: Any = None) -> None:
        """Insert or replace columns, as for `from_arrays`: all rows, or none."""
        self._put_columns(columns.prefixes(prefixes, lengths, self.family), values)

    def _put_columns(self, keys: Keys, values: Any) -> None:
        values = self._values(values)
        if len(values) != len(keys.hi):
            raise ValueError(f"{len(values)} values for {len(keys.hi)} prefixes")
        with self._writing:
            fresh = []
            for family in (4, 6):
                rows, own = keys.of(family)
                if not len(rows):
                    continue
                if len(rows) <= FEW:
                    with self._lock:
                        store = self._own(family)
                        for hi, lo, length, row in zip(own.hi, own.lo, own.length, rows):
                            store.put(int(hi), int(lo), int(length), values[row])
                    continue
                fresh.append(self._store(family).with_many(*own[1:], values[rows]))
            with self._lock:
                for store in fresh:
                    self._exchange(store)

    def drop_columns(self, prefixes: Any, lengths: Any = None) -> int:
        """Remove the prefixes of a column that are in the table; returns how many were."""
        keys = columns.prefixes(prefixes, lengths, self.family)
        with self._writing:
            return self._drop_keys(keys)

    def _drop_keys(self, keys: Keys) -> int:
        before = len(self)
        for family in (4, 6):
            rows, own = keys.of(family)
            if len(rows):
                store = self._store(family).copy()
                store.drop_many(*own[1:])
                with self._lock:
                    self._exchange(store)
        return before - len(self)

    def clear(self) -> None:
        """Remove everything."""
        with self._writing, self._lock:
            for family in (4, 6):
                self._exchange(Store.new(family, self.dtype, self.missing))

    def _values(self, values: Any) -> np.ndarray:
        if self.dtype != object:
            return _cast(values, self.dtype)
        if isinstance(values, np.ndarray) and values.dtype == object:
            return values
        held = np.empty(len(values), object)
        held[:] = values if isinstance(values, list) else list(values)
        return held

    # --- columns of addresses --------------------------------------------------------------------

    def _lookup_column(self, given: Any, default: Any) -> np.ndarray:
        column = columns.addresses(given, self.family)
        with self._read() as stores:
            if isinstance(column, Texts):
                return self._lookup_texts(column, stores, default)
            return self._lookup_packed(column, stores, default)

    def _lookup_packed(
        self, column: Packed, stores: tuple[Store, Store], default: Any
    ) -> np.ndarray:
        store = stores[0 if column.family == 4 else 1]
        plain = default is _UNSET and column.missing is None
        if plain and self.dtype.kind in "iufb" and self.dtype.itemsize in _SIGNED:
            return _take(column, store)
        nodes = _find(column, store)
        values = store.values.take(nodes)
        nothing = np.zeros(len(nodes), bool) if store.rooted else nodes == 0
        if column.missing is not None:
            nothing = nothing | column.missing
        values[nothing] = self.missing if default is _UNSET else default
        return values

    def _lookup_texts(self, column: Texts, stores: tuple[Store, Store], default: Any) -> np.ndarray:
        """Null rows find nothing."""
        families, *parts = column.parsed()
        if self._other and (wrong := families == self._other).any():
            row = int(wrong.argmax())
            refuse(column.value(row), f"the table holds IPv{self.family} prefixes", row)
        for part in parts:
            if (families == part.family).all():
                return self._lookup_packed(part, stores, default)
        values = np.empty(len(column), self.dtype)
        values[:] = self.missing if default is _UNSET else default
        for part in parts:
            rows = np.flatnonzero(families == part.family)
            values[rows] = self._lookup_packed(part.rows(rows), stores, default)
        return values

    # --- order and neighbours --------------------------------------------------------------------

    def __iter__(self) -> Iterator[str]:
        """Prefixes as text, in the order of their addresses, IPv4 first; those of the beginning."""
        for prefix, _ in self._walk():
            yield prefix

    def _walk(self) -> Iterator[tuple[str, Any]]:
        table = self.snapshot()
        for store in (table._four, table._six):
            nodes = store.nodes()
            for begin in range(0, len(nodes), TEXTS_AT_ONCE):
                some = nodes[begin : begin + TEXTS_AT_ONCE]
                yield from zip(_texts(store.family, *store.describe(some)), store.values[some])

    def items(self) -> Any:
        """Prefixes with their values, in order."""
        return _Items(self)

    def _within(self, prefix: Any, flat: bool, itself: bool) -> list[str]:
        key = key_of(prefix, self.family)
        with self._read() as stores:
            store = stores[0 if key.family == 4 else 1]
            top = entries.top_node(store.handle, *key[1:])
            if top == NOT_THERE:
                return []
            nodes = store.nodes(top, key.length if flat else EVERY_LENGTH)
            hi, lo, length = store.describe(nodes)
            if not itself:
                hi, lo, length = (c[length > key.length] for c in (hi, lo, length))
            return _texts(key.family, hi, lo, length)

    def covered(self, prefix: Any) -> list[str]:
        """Prefixes of the table within this one, itself included if it is there, in order."""
        return self._within(prefix, flat=False, itself=True)

    def children(self, prefix: Any) -> list[str]:
        """Prefixes directly within this one: those with no other between, in order."""
        return self._within(prefix, flat=True, itself=False)

    def covering(self, prefix: Any) -> list[str]:
        """Prefixes of the table that cover this one, the shortest first, itself included."""
        found = []
        at = self.match(prefix)
        while at is not None:
            found.append(at[0])
            at = self._cover(key_of(at[0]), 1)
        return found[::-1]

    def to_arrays(self, family: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(addresses, lengths, values) of one family in order: uint32[n] or uint8[n, 16], uint8[n]."""
        with self._read() as stores:
            store = stores[0 if family == 4 else 1]
            nodes = store.nodes()
            hi, lo, length = store.describe(nodes)
            return _addresses(family, hi, lo), length.astype(np.uint8), store.values[nodes]

    # --- sets ------------------------------------------------------------------------------------

    def __or__(self, other: Any) -> PrefixTable:
        """Prefixes of both; where both have one, the value of the right one."""
        if not isinstance(other, (PrefixTable, Mapping)):
            return NotImplemented
        table = self.snapshot()
        table.update(other)
        return table

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def __and__(self, other: PrefixTable) -> PrefixTable:
        """Prefixes that both have, with the values of the left one."""
        return self._kept(other, True)

    def __sub__(self, other: PrefixTable) -> PrefixTable:
        """Prefixes that the right one has not."""
        return self._kept(other, False)

    def _kept(self, other: PrefixTable, common: bool) -> PrefixTable:
        if not isinstance(other, PrefixTable):
            return NotImplemented
        table = self.snapshot()
        theirs = other.snapshot()
        for family in (4, 6):
            mine = table._store(family)
            keys = mine.describe(mine.nodes())
            there = theirs._store(family).find_exact(*keys) >= 0
            drop = tuple(c[~there if common else there] for c in keys)
            if len(drop[0]):
                table._drop_keys(Keys(np.full(len(drop[0]), family, np.int64), *drop))
        return table

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrefixTable):
            return dict(self.items()) == other if isinstance(other, Mapping) else NotImplemented
        return len(self) == len(other) and all(
            np.array_equal(a, b)
            for family in (4, 6)
            for a, b in zip(self.to_arrays(family), other.to_arrays(family))
        )

    __hash__ = None  # type: ignore[assignment]

    def aggregate(self) -> PrefixTable:
        """A table of fewer prefixes that finds the same value for every address.

        A prefix goes that has the value of the one around it, and two halves of equal value become
        one.  That is not the least possible table, but one whose prefixes all lie within old ones.
        """
        table = self._like({f: Store.new(f, self.dtype, self.missing) for f in (4, 6)})
        for family in (4, 6):
            with self._read() as stores:
                store = stores[0 if family == 4 else 1]
                nodes = store.nodes()
                hi, lo, length = store.describe(nodes)
                values = store.values[nodes]
            which, done = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
            frames = np.zeros(2 * DEEPEST, np.int64)
            count = entries.aggregate(hi, lo, length, _classes(values), which, done, frames)
            hi, lo, length, which = (c[:count] for c in (hi, lo, length, which))
            keys = Keys(np.full(count, family, np.int64), hi, lo, length)
            table._put_columns(keys, values[which])
        return table

    # --- elsewhere -------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        parts = {}
        with self._read() as stores:
            for store in stores:
                nodes = store.nodes()
                hi, lo, length = store.describe(nodes)
                parts[store.family] = (hi, lo, length.astype(np.uint8), store.values[nodes])
        return _unpickled, (self.family, self.dtype, self.missing, parts)

    def save(self, file: Any) -> None:
        """Write the table to a file that `PrefixTable.load` maps; `dtype` is not object."""
        from ippath.prefix.saved import save

        with self._read() as stores:
            save(file, stores, self.dtype, self.missing, self.family)

    @classmethod
    def load(cls, file: Any) -> PrefixTable:
        """Map a saved table: at once, and its memory is shared by all processes that do.

        ValueError where the file is no table or is damaged.  Changes stay in this process.
        """
        from ippath.prefix.saved import load

        stores, dtype, missing, family = load(file)
        table = object.__new__(cls)
        table.family, table.dtype, table.missing = family, dtype, missing
        table._begin(stores)
        return table


class _Reading:
    """Holds both stores of a table while a block reads them."""

    def __init__(self, table: PrefixTable):
        with table._lock:
            self.stores = (table._four, table._six)
            for store in self.stores:
                store.hold(1)

    def __enter__(self) -> tuple[Store, Store]:
        return self.stores

    def __exit__(self, *error: object) -> None:
        for store in self.stores:
            store.hold(-1)


class _Items:
    """The items of a table, as a view."""

    def __init__(self, table: PrefixTable):
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self._table._walk()

    def __contains__(self, item: tuple[Any, Any]) -> bool:
        return item[0] in self._table and self._table[item[0]] == item[1]


def _unpickled(family: int | None, dtype: np.dtype, missing: Any, parts: dict) -> PrefixTable:
    table = PrefixTable(dtype=dtype, family=family, missing=missing)
    for own, (hi, lo, length, values) in parts.items():
        length = length.astype(np.int64)
        if entries.check_keys(hi, lo, length, WIDTH[own])[0] >= 0:
            raise ValueError("the pickle holds no prefix table")
        table._put_columns(Keys(np.full(len(hi), own, np.int64), hi, lo, length), values)
    return table


def _scratch() -> np.ndarray:
    return np.empty(SCRATCH, np.int64)


def _take(column: Packed, store: Store) -> np.ndarray:
    """Values of numbers of one to eight bytes, in one go."""
    found = np.empty(len(column), store.values.dtype)
    if store.take(column.data, found.view(_SIGNED[found.itemsize])):
        _refuse_mapped(column)
    return found


def _find(column: Packed, store: Store) -> np.ndarray:
    nodes = np.empty(len(column), np.int32)
    if column.family == 4:
        entries.find_ipv4(store.handle, column.data, nodes, _scratch())
    elif entries.find_ipv6(store.handle, column.data, nodes, _scratch()):
        _refuse_mapped(column)
    return nodes


def _refuse_mapped(column: Packed) -> None:
    words = column.data.view(">u8").reshape(-1, 2)
    mapped = (words[:, 0] == 0) & (words[:, 1] >> np.uint64(32) == entries.MAPPED_WORD)
    row = int(np.flatnonzero(mapped)[0])
    refuse(column.number(row), text.MAPPED, row)


def _addresses(family: int, hi: np.ndarray, lo: np.ndarray) -> np.ndarray:
    if family == 4:
        return (hi.view(np.uint64) >> np.uint64(32)).astype(np.uint32)
    return np.stack([hi, lo], axis=1).astype(">i8").view(np.uint8).reshape(-1, 16)


def _texts(family: int, hi: np.ndarray, lo: np.ndarray, length: np.ndarray) -> list[str]:
    from ippath.address_texts import ipv4_texts, ipv6_texts

    if len(hi) < 64:
        words = zip(hi.tolist(), lo.tolist(), length.tolist())
        mask = (1 << 64) - 1
        if family == 4:
            return [text_of(4, (h & mask) >> 32, n) for h, _, n in words]
        return [text_of(6, (h & mask) << 64 | low & mask, n) for h, low, n in words]
    packed = _addresses(family, hi, lo)
    if family == 4:
        whole = ipv4_texts(packed.astype(">u4").view(np.uint8).reshape(-1, 4))
    else:
        whole = ipv6_texts(packed)
    return [f"{a}/{n}" for a, n in zip(whole.to_pylist(), length.tolist())]


def _column_of_values(values: Any) -> np.ndarray:
    """An array of values; of Arrow, pandas and polars columns, too."""
    if isinstance(values, (np.ndarray, list)):
        return np.asarray(values)
    if hasattr(values, "to_numpy"):
        try:
            return np.asarray(values.to_numpy(zero_copy_only=False))
        except TypeError:
            return np.asarray(values.to_numpy())
    return np.asarray(list(values))


def _cast(values: Any, dtype: np.dtype) -> np.ndarray:
    """Values as elements of this type; those that would not be the same raise."""
    if dtype.kind not in "biufc":
        given = values if isinstance(values, np.ndarray) else list(values)
        return np.asarray(given, dtype)
    column = _column_of_values(values)
    if dtype.kind in "iu" and column.dtype.kind in "iu" and len(column):
        limits = np.iinfo(dtype)
        if int(column.min()) < limits.min or int(column.max()) > limits.max:
            raise ValueError(f"values from {column.min()} to {column.max()} are no {dtype}")
        return column.astype(dtype)
    return column.astype(dtype, casting="same_kind", copy=False)


def _classes(values: np.ndarray) -> np.ndarray:
    """Equal values as equal numbers; objects that cannot be hashed are equal to themselves only."""
    if values.dtype != object:
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    numbers: dict[Any, int] = {}
    found = np.zeros(len(values), np.int64)
    for k, value in enumerate(values):
        try:
            found[k] = numbers.setdefault((type(value), value), len(numbers))
        except TypeError:
            found[k] = numbers.setdefault(("", id(value)), len(numbers))
    return found
