"""Columns of addresses and prefixes in the forms in which people have them, made ready for compiled code.

Arrow columns are taken as they lie in memory; lists become Arrow columns.  Nothing here looks at one
value at a time, but for lists of objects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ippath.prefix import entries, text
from ippath.prefix.keys import WIDTH, key_of, number_of, refuse

NOTHING = np.zeros(1, np.uint8)  # compiled code takes no empty column of bytes


@dataclass(frozen=True)
class Packed:
    """A column of addresses of one family."""

    family: int
    data: np.ndarray  # uint32[n], or uint8[16 * n]
    missing: np.ndarray | None = None  # rows that hold nothing

    def __len__(self) -> int:
        return len(self.data) if self.family == 4 else len(self.data) // 16

    def number(self, row: int) -> bytes | int:
        """The value of a row, for messages."""
        if self.family == 4:
            return int(self.data[row])
        return self.data[16 * row : 16 * row + 16].tobytes()

    def rows(self, which: np.ndarray) -> Packed:
        """Some of the rows, as a column of their own."""
        width = 1 if self.family == 4 else 16
        return Packed(self.family, self.data.reshape(-1, width)[which].reshape(-1))


@dataclass(frozen=True)
class Texts:
    """A column of text: row k is data[offsets[k] … offsets[k + 1] - gap - 1]."""

    data: np.ndarray  # uint8[]
    offsets: np.ndarray  # int32[] or int64[]
    gap: int  # bytes between two rows
    source: Any  # the list or Arrow array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def value(self, row: int) -> str | None:
        """The text of a row; None where it is missing."""
        value = self.source[row]
        return value if isinstance(self.source, list) else value.as_py()

    def refuse(self, row: int, why: int) -> None:
        """Raise the ValueError for a row."""
        value = self.value(row)
        refuse(value, text.MISSING if value is None else why, row)

    def parsed(self) -> tuple[np.ndarray, Packed, Packed]:
        """(family of each row, or 0 where it is missing; IPv4 and IPv6 addresses in their rows)."""
        family = np.empty(len(self), np.int8)
        numbers, packed = np.empty(len(self), np.uint32), np.empty(16 * len(self), np.uint8)
        row, why = entries.parse_addresses(
            self.data, self.offsets, self.gap, family, numbers, packed
        )
        if row >= 0:
            self.refuse(row, why)
        for row in np.flatnonzero(family == 0).tolist():
            if self.value(row) is not None:
                self.refuse(row, text.EMPTY)
        return family, Packed(4, numbers), Packed(6, packed)


class Keys(NamedTuple):
    """Prefixes in columns, of either family."""

    family: np.ndarray
    hi: np.ndarray
    lo: np.ndarray
    length: np.ndarray

    def of(self, family: int) -> tuple[np.ndarray, Keys]:
        """Rows of one family, and their keys."""
        rows = np.flatnonzero(self.family == family)
        return rows, Keys(*(np.ascontiguousarray(column[rows]) for column in self))


def is_column(value: Any) -> bool:
    """Is it many addresses, not one?"""
    return isinstance(value, list) or (
        not isinstance(value, (str, bytes, bytearray, memoryview, tuple))
        and (
            (isinstance(value, np.ndarray) and value.ndim > 0)
            or hasattr(value, "__arrow_c_array__")
            or hasattr(value, "__arrow_c_stream__")
            or hasattr(value, "to_numpy")
        )
    )


def addresses(value: Any, family: int | None) -> Texts | Packed:
    """A column of addresses."""
    if isinstance(value, np.ndarray):
        return _from_numpy(value, family)
    if isinstance(value, list):
        return _from_list(value, family)
    if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
        return _from_arrow(_arrow(value), family)
    return _from_numpy(np.asarray(value.to_numpy()), family)


def _arrow(value: Any) -> Any:
    """One Arrow array of whatever speaks Arrow: PyArrow, polars, pandas, DuckDB …"""
    import pyarrow as pa

    if isinstance(value, pa.Array):
        return value
    if not isinstance(value, pa.ChunkedArray):
        value = pa.array(value) if hasattr(value, "__arrow_c_array__") else pa.chunked_array(value)
    if isinstance(value, pa.ChunkedArray):
        value = pa.concat_arrays(value.chunks) if value.num_chunks else pa.array([], value.type)
    return value


def _from_arrow(array: Any, family: int | None) -> Texts | Packed:
    import pyarrow as pa

    kind = array.type
    if pa.types.is_dictionary(kind):
        return _from_arrow(array.dictionary_decode(), family)
    if pa.types.is_null(kind):
        array, kind = array.cast(pa.string()), pa.string()
    if pa.types.is_integer(kind):
        missing = np.asarray(array.is_null()) if array.null_count else None
        packed = _from_numpy(np.asarray(array.fill_null(0)), family)
        return replace(packed, missing=missing) if isinstance(packed, Packed) else packed
    if pa.types.is_fixed_size_binary(kind):
        array = array.cast(pa.binary())
        kind = array.type
    if str(kind) in ("string_view", "binary_view"):
        array = array.cast(pa.string() if str(kind) == "string_view" else pa.binary())
        kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _texts(array)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _from_binary(array, family)
    raise TypeError(f"a column of {kind} holds no addresses")


def _parts(array: Any) -> tuple[np.ndarray, np.ndarray]:
    """Bytes and offsets of an Arrow column, without a copy where no row is missing."""
    import pyarrow as pa

    if array.null_count:
        nothing = "" if "string" in str(array.type) else b""
        array = array.fill_null(pa.scalar(nothing, array.type))
    _, offsets, data = array.buffers()
    wide = "large" in str(array.type)
    width = np.int64 if wide else np.int32
    if offsets is None or not len(array):
        return NOTHING, np.zeros(1, np.int32)
    begin = array.offset
    places = np.frombuffer(offsets, width)[begin : begin + len(array) + 1]
    assert isinstance(array, pa.Array)
    return (np.frombuffer(data, np.uint8) if data is not None and data.size else NOTHING), places


def _texts(array: Any) -> Texts:
    data, offsets = _parts(array)
    return Texts(data, offsets, 0, array)


def _lines(values: list) -> Texts | None:
    """A list of text, joined, which is quicker than to make an Arrow column of it.

    None if some of it is no text, or has more than one line.
    """
    try:
        joined = "\n".join(values)
    except TypeError:
        return None
    raw = joined.encode("utf-8", "surrogatepass")
    data = np.frombuffer(raw + bytes(text.AT_ONCE), np.uint8)
    offsets = np.zeros(len(values) + 1, np.int64)
    if not values or entries.split(data, len(raw), offsets) != len(values):
        return None
    return Texts(data, offsets, 1, values)


def _from_binary(array: Any, family: int | None) -> Packed:
    data, offsets = _parts(array)
    sizes = np.diff(offsets)
    missing = np.asarray(array.is_null()) if array.null_count else np.zeros(len(sizes), bool)
    held = sizes[~missing]
    size = int(held[0]) if len(held) else 4 if family == 4 else 16
    if size not in (4, 16):
        row = int(np.flatnonzero(~missing)[0])
        refuse(array[row].as_py(), f"{size} bytes: an address has 4 or 16", row)
    wrong = np.flatnonzero((sizes != size) & ~missing)
    if len(wrong):
        row = int(wrong[0])
        refuse(array[row].as_py(), f"{sizes[row]} bytes where the column has {size}", row)
    rows = np.zeros((len(sizes), size), np.uint8)
    rows[~missing] = data[int(offsets[0]) : int(offsets[-1])].reshape(-1, size)[: len(held)]
    packed = _from_numpy(rows, family)
    assert isinstance(packed, Packed)
    return replace(packed, missing=missing if missing.any() else None)


def _from_numpy(array: np.ndarray, family: int | None) -> Texts | Packed:
    if array.dtype.kind in "OU" or array.dtype.kind == "T":
        return _from_list(array.tolist(), family)
    if array.dtype.kind == "S":
        return _from_list([raw.decode("latin-1") for raw in array.tolist()], family)
    if array.dtype == np.uint8 and array.ndim == 2 and array.shape[1] in (4, 16):
        if array.shape[1] == 4:
            numbers = np.ascontiguousarray(array).view(">u4").reshape(-1).astype(np.uint32)
            return _of_family(Packed(4, numbers), family)
        return _of_family(Packed(6, np.ascontiguousarray(array).reshape(-1)), family)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ValueError(
            f"{array.dtype}{array.shape} holds no addresses: wanted uint32[n], uint8[n, 4] or uint8[n, 16]"
        )
    if family == 6 and len(array):
        refuse(int(array[0]), "numbers of 128 bits: give uint8[n, 16]", 0)
    if array.dtype != np.uint32:
        # a smaller type would hold none but the first addresses; uint8[n] is more often packed bytes
        if array.dtype.itemsize < 4 and len(array):
            raise ValueError(f"{array.dtype}{array.shape} is too narrow for IPv4 addresses")
        wrong = np.flatnonzero((array < 0) | (array > 0xFFFFFFFF))
        if len(wrong):
            refuse(int(array[wrong[0]]), "not the number of an IPv4 address", int(wrong[0]))
    return _of_family(Packed(4, np.ascontiguousarray(array, np.uint32)), family)


def _of_family(column: Packed, family: int | None) -> Packed:
    if family not in (None, column.family) and len(column):
        refuse(column.number(0), f"the table holds IPv{family} prefixes", 0)
    return column


def _from_list(values: list, family: int | None) -> Texts | Packed:
    """A list: all text, or anything that `ippath.prefix.keys` knows, one by one."""
    import pyarrow as pa

    if (lines := _lines(values)) is not None:
        return lines
    try:
        return _texts(pa.array(values, pa.string()))
    except (pa.ArrowTypeError, pa.ArrowInvalid, TypeError):
        pass
    if (
        values
        and all(isinstance(v, int) and not isinstance(v, bool) for v in values)
        and family != 6
    ):
        wrong = next((k for k, v in enumerate(values) if not 0 <= v <= 0xFFFFFFFF), None)
        if wrong is not None:
            refuse(values[wrong], "not the number of an IPv4 address", wrong)
        return Packed(4, np.array(values, np.uint32))
    keys = [key_of(v, family, row) for row, v in enumerate(values)]
    for row, key in enumerate(keys):
        if key.length != WIDTH[key.family]:
            refuse(values[row], text.NOT_ONE_ADDRESS, row)
    families = {key.family for key in keys}
    if families == {4}:
        return Packed(4, np.array([number_of(key) for key in keys], np.uint32))
    if families == {6}:
        raw = b"".join(number_of(key).to_bytes(16, "big") for key in keys)
        return Packed(6, np.frombuffer(raw, np.uint8))
    import ipaddress

    both = {4: ipaddress.IPv4Address, 6: ipaddress.IPv6Address}
    return _texts(pa.array([str(both[key.family](number_of(key))) for key in keys], pa.string()))


def prefixes(value: Any, lengths: Any, family: int | None) -> Keys:
    """A column of prefixes: text, objects, or addresses with a column of lengths beside them.

    ValueError names the first row that is wrong.
    """
    if lengths is None and not is_column(value):
        value = list(value)
    if lengths is None and isinstance(value, list) and not all(type(v) is str for v in value):
        return _columns([key_of(v, family, row) for row, v in enumerate(value)])
    column = addresses(value, family)
    if isinstance(column, Texts):
        keys = _parsed(column, family)
    else:
        keys = _unpacked(column)
    if lengths is not None:
        if isinstance(column, Texts) and len(column) and "/" in (column.value(0) or ""):
            refuse(column.value(0), "two prefix lengths", 0)
        given = np.asarray(lengths)
        if given.dtype.kind not in "iu" or given.shape != keys.length.shape:
            raise ValueError(
                f"lengths: {given.dtype}{given.shape} for {len(keys.length)} addresses"
            )
        keys = keys._replace(length=given.astype(np.int64))
    _judge(keys, column)
    return keys


def _parsed(column: Texts, family: int | None) -> Keys:
    keys = Keys(*(np.zeros(len(column), np.int64) for _ in range(4)))
    row, why = entries.parse_texts(column.data, column.offsets, column.gap, *keys)
    if row >= 0:
        column.refuse(row, why)
    if family is not None and (keys.family != family).any():
        row = int(np.flatnonzero(keys.family != family)[0])
        refuse(column.value(row), f"the table holds IPv{family} prefixes", row)
    return keys


def _unpacked(column: Packed) -> Keys:
    if column.missing is not None:
        refuse(None, text.MISSING, int(np.flatnonzero(column.missing)[0]))
    if column.family == 4:
        hi = (column.data.astype(np.uint64) << np.uint64(32)).view(np.int64)
        lo = np.zeros(len(hi), np.int64)
    else:
        words = column.data.view(">i8").reshape(-1, 2)
        hi, lo = words[:, 0].astype(np.int64), words[:, 1].astype(np.int64)
    full = np.full(len(hi), WIDTH[column.family], np.int64)
    return Keys(np.full(len(hi), column.family, np.int64), hi, lo, full)


def _judge(keys: Keys, column: Texts | Packed) -> None:
    for family in (4, 6):
        rows, own = keys.of(family)
        wrong, why = entries.check_keys(own.hi, own.lo, own.length, WIDTH[family])
        if wrong >= 0:
            row = int(rows[wrong])
            if isinstance(column, Texts):
                refuse(f"{column.value(row)}/{own.length[wrong]}", why, row)
            refuse((column.number(row), int(own.length[wrong])), why, row)


def _columns(keys: list) -> Keys:
    if not keys:
        return Keys(*(np.zeros(0, np.int64) for _ in range(4)))
    return Keys(*(np.array(column, np.int64) for column in zip(*keys)))
