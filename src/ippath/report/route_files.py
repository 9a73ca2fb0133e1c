"""Files of addresses to ask for, and files of answers: a row per address, in their order."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from ippath.netns import Netns

SUFFIXES = (".parquet", ".csv", ".arrow", ".jsonl", ".txt")
_COLUMN_NAMES = ("address", "destination", "dst", "ip")
MOST4 = (1 << 32) - 1


class AddressFileError(ValueError):
    """A file without usable addresses: which file and row, and what is wrong."""


@dataclass(frozen=True)
class Part:
    """The addresses of one family: their rows in the file, int64[n], and halves, int64[n, 2]."""

    family: int
    rows: np.ndarray
    halves: np.ndarray


def check_output(path: str | None) -> None:
    """Raise AddressFileError for a suffix that is none of SUFFIXES."""
    if path is not None and Path(path).suffix not in SUFFIXES:
        raise AddressFileError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}")


# --- reading --------------------------------------------------------------------------------------------


def read_addresses(path: Path) -> list[Part]:
    """All addresses of a file; raises AddressFileError.

    Text has one address a line (empty lines and # are left out); .csv and .parquet a column called
    address, or their first; .npy uint32[n], uint8[n, 4], uint8[n, 16] or texts.
    """
    if path.suffix == ".npy":
        try:
            values = np.load(path, allow_pickle=False)
        except ValueError as wrong:
            raise AddressFileError(f"{path}: {wrong}") from None
        return _of_array(values, path)
    if path.suffix in (".parquet", ".csv"):
        return _of_column(_column(path), path)
    listed = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            text = line.partition("#")[0].strip()
            if text:
                listed.append((number, text))
    return _of_texts([text for _, text in listed], path, [number for number, _ in listed])


def _column(path: Path) -> pa.ChunkedArray:
    import pyarrow as pa

    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            names = pq.read_schema(path).names
            name = next((n for n in names if n in _COLUMN_NAMES), names[0] if names else "")
            return pq.read_table(path, columns=[name]).column(0)
        from pyarrow import csv

        table = csv.read_csv(path)
        name = next((n for n in table.column_names if n in _COLUMN_NAMES), table.column_names[0])
        return table.column(name)
    except (pa.ArrowException, IndexError) as wrong:
        raise AddressFileError(f"{path}: {wrong}") from None


def _of_column(column: pa.ChunkedArray, path: Path) -> list[Part]:
    import pyarrow as pa

    if column.null_count:
        at = next(k for k, value in enumerate(column) if not value.is_valid)
        raise AddressFileError(f"{path}: row {at + 1} holds no address")
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_integer(kind):
        return _of_array(column.to_numpy(), path)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _of_bytes(column.to_pylist(), path)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _of_texts(column.to_pylist(), path)
    raise AddressFileError(f"{path}: a column of {kind} holds no addresses")


def _of_array(values: np.ndarray, path: Path) -> list[Part]:
    if values.ndim == 1 and values.dtype.kind in "ui":
        wrong = np.flatnonzero((values < 0) | (values > MOST4))
        if len(wrong):
            raise AddressFileError(
                f"{path}: row {wrong[0] + 1}: {values[wrong[0]]} is no IPv4 address"
            )
        halves = np.zeros((len(values), 2), np.int64)
        halves[:, 1] = values
        return [Part(4, np.arange(len(values)), halves)]
    if values.ndim == 2 and values.dtype == np.uint8 and values.shape[1] in (4, 16):
        return [_packed(np.ascontiguousarray(values), np.arange(len(values)))]
    if values.ndim == 1 and values.dtype.kind in "US":
        return _of_texts([str(v) for v in np.char.decode(values) if values.dtype.kind == "S"]
                         if values.dtype.kind == "S" else values.tolist(), path)  # fmt: skip
    raise AddressFileError(
        f"{path}: expected uint32[n], uint8[n, 4], uint8[n, 16] or texts, "
        f"not {values.dtype}[{', '.join(map(str, values.shape))}]"
    )


def _packed(packed: np.ndarray, rows: np.ndarray) -> Part:
    """Addresses in network byte order: uint8[n, 4] or uint8[n, 16]."""
    if packed.shape[1] == 4:
        halves = np.zeros((len(packed), 2), np.int64)
        halves[:, 1] = packed.view(">u4")[:, 0]
        return Part(4, rows, halves)
    return Part(6, rows, packed.view(">i8").astype(np.int64))


def _of_bytes(values: list[bytes], path: Path, names: list[int] | None = None) -> list[Part]:
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    wrong = np.flatnonzero((lengths != 4) & (lengths != 16))
    if len(wrong):
        at = int(wrong[0])
        raise AddressFileError(f"{path}: row {at + 1}: {lengths[at]} bytes are no address")
    parts = []
    for size in (4, 16):
        rows = np.flatnonzero(lengths == size)
        if len(rows):
            joined = (
                b"".join(values[k] for k in rows) if len(rows) < len(values) else b"".join(values)
            )
            parts.append(_packed(np.frombuffer(joined, np.uint8).reshape(-1, size), rows))
    return parts


def _of_texts(texts: list[str], path: Path, lines: list[int] | None = None) -> list[Part]:
    packed = []
    for k, text in enumerate(texts):
        try:
            packed.append(
                socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
            )
        except (OSError, ValueError):
            where = f":{lines[k]}:" if lines else f": row {k + 1}:"
            raise AddressFileError(f"{path}{where} {text[:60]!r} is no address") from None
    return _of_bytes(packed, path)


# --- answers --------------------------------------------------------------------------------------------


def write_answers(
    netns: Netns, parts: list[Part], fields: dict[str, Any], output: str | None, as_json: bool,
    stream: TextIO,
) -> int:  # fmt: skip
    """Ask for all addresses and write the answers; how many have no way.

    `fields` are those of `ippath.route_get.Question` but for the family.  Without `output` the rows
    go to `stream`: as text with tabs, or as JSON lines.
    """
    import pyarrow as pa

    tables = [_answers(netns, part, fields) for part in parts]
    table = pa.concat_tables([_plain(one) for one in tables] if len(tables) > 1 else tables)
    if len(parts) > 1:
        order = np.argsort(np.concatenate([part.rows for part in parts]), kind="stable")
        table = table.take(pa.array(order))
    if output is not None:
        _save(table, Path(output))
    elif as_json:
        for batch in table.to_batches(max_chunksize=1 << 16):
            stream.writelines(
                json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist()
            )
    else:
        _write_text(table, stream)
    return len(table) - table.column("error").null_count


def _answers(netns: Netns, part: Part, fields: dict[str, Any]) -> pa.Table:
    """The columns of docs/results.md for the addresses of one family."""
    import pyarrow as pa

    from ippath import tables as T
    from ippath.address_texts import ipv4_texts, ipv6_texts
    from ippath.config.printed_routes import route_line
    from ippath.config.values import address_text, prefix_text, table_text
    from ippath.route_get import TYPE_NAMES, Question, answer_rows, error_name, whole

    family = part.family
    got = answer_rows(netns, Question(family=family, **fields), part.halves)
    routes, devices = netns.routes(family), netns.host.devices
    way = got[:, T.GOT_ERROR] == 0

    def words(column: int, text: Any, valid: np.ndarray) -> pa.DictionaryArray:
        values, codes = np.unique(got[:, column], return_inverse=True)
        used = np.zeros(len(values), bool)
        used[codes[valid]] = True
        texts = [text(int(v)) if u else "" for v, u in zip(values, used)]
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=~valid), texts)

    def addresses(hi: int, lo: int, of: np.ndarray | int, valid: np.ndarray) -> pa.DictionaryArray:
        keys = np.column_stack([got[:, hi], got[:, lo], np.broadcast_to(of, len(got))])
        values, codes = np.unique(keys, axis=0, return_inverse=True)
        texts = [address_text(int(f) or 4, whole(h, low) & (MOST4 if f in (0, 4) else -1))
                 for h, low, f in values]  # fmt: skip
        return pa.DictionaryArray.from_arrays(
            pa.array(codes.astype(np.int32).reshape(-1), mask=~valid), texts
        )

    gateway = got[:, T.GOT_GATEWAY_FAMILY]
    routed = got[:, T.GOT_ROUTE] >= 0
    if family == 4:
        asked = ipv4_texts(part.halves[:, 1].astype(">u4").view(np.uint8).reshape(-1, 4))
    else:
        asked = ipv6_texts(part.halves.astype(">i8").view(np.uint8).reshape(-1, 16))
    columns = {
        "address": asked,
        "error": words(T.GOT_ERROR, error_name, ~way),
        "type": words(T.GOT_TYPE, lambda v: TYPE_NAMES[v], way),
        "via": addresses(T.GOT_GATEWAY_HI, T.GOT_GATEWAY_LO, gateway, way & (gateway > 0)),
        "dev": words(T.GOT_DEVICE, lambda v: devices[v].name, way),
        "source": addresses(T.GOT_SRC_HI, T.GOT_SRC_LO, family, way & (got[:, T.GOT_SRC_SET] == 1)),
        "table": words(T.GOT_ROUTE, lambda v: table_text(routes[v].table), routed),
        "prefix": words(
            T.GOT_ROUTE, lambda v: prefix_text(family, routes[v].prefix, routes[v].plen), routed
        ),
        "route": words(T.GOT_ROUTE, lambda v: " ".join(route_line(routes[v]).split()), routed),
    }
    return pa.table(columns)


def _plain(table: pa.Table) -> pa.Table:
    """Dictionary columns as plain strings."""
    import pyarrow as pa

    return table.cast(pa.schema([(name, pa.string()) for name in table.column_names]))


def _save(table: pa.Table, path: Path) -> None:
    """Write a file that has its name only once it is whole."""
    import pyarrow as pa

    partial = path.with_name(f".{path.name}.partial")
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, partial, compression="zstd")
        elif path.suffix == ".csv":
            from pyarrow import csv

            csv.write_csv(_plain(table), partial)
        elif path.suffix == ".arrow":
            with pa.ipc.new_file(partial, table.schema) as file:
                file.write_table(table)
        else:
            with open(partial, "w", encoding="utf-8") as file:
                if path.suffix == ".txt":
                    _write_text(table, file)
                else:
                    file.writelines(json.dumps(row) + "\n" for row in table.to_pylist())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _write_text(table: pa.Table, stream: TextIO) -> None:
    """`ADDRESS`, a tab, and what `ip route get` says first, or the error."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in _plain(table).to_batches(max_chunksize=1 << 16):
        columns = dict(zip(batch.schema.names, batch.columns))

        def word(name: str, before: str, columns: dict[str, Any] = columns) -> Any:
            given = pc.binary_join_element_wise(before, columns[name], "")
            return pc.fill_null(given, "")

        kind = pc.if_else(
            pc.equal(columns["type"], "unicast"), pa.scalar(None, pa.string()), columns["type"]
        )
        kind = pc.fill_null(pc.binary_join_element_wise(" ", kind, ""), "")
        way = pc.binary_join_element_wise(
            kind, word("via", " via "), word("dev", " dev "), word("source", " src "), ""
        )
        failed = pc.binary_join_element_wise(" ", columns["error"], "")
        text = pc.binary_join_element_wise(
            columns["address"], "\t", pc.utf8_ltrim_whitespace(pc.coalesce(failed, way)), "\n", ""
        )
        stream.write("".join(text.to_pylist()))
