"""Verdicts as files: one row per packet, written batch by batch, complete at every moment it ends.

A file grows under a hidden name beside its own and is renamed when it is closed, so that readers
never see half of one.  The columns are those of `Verdicts.to_arrow` (docs/results.md).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".csv", ".jsonl", ".arrow")
ROW_GROUP = 1 << 18  # rows; larger groups would grow memory, smaller ones the file


class VerdictFile:
    """One file; make it with `open_verdict_file`."""

    def __init__(self, path: Path, schema: pa.Schema):
        self.path = path
        self.rows = 0
        self._partial = path.with_name(f".{path.name}.partial")
        self._open(schema)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        self._write(rows)
        self.rows += rows.num_rows

    def close(self) -> None:
        """Finish the file and give it its name."""
        self._close()
        os.replace(self._partial, self.path)

    def discard(self) -> None:
        """Drop what was written."""
        try:
            self._close()
        finally:
            self._partial.unlink(missing_ok=True)

    def _open(self, schema: pa.Schema) -> None:
        raise NotImplementedError

    def _write(self, rows: pa.RecordBatch) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


class ParquetFile(VerdictFile):
    """Rows wait until there is a row group of them, so that its dictionaries are written once."""

    def _open(self, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(self._partial, schema, compression="zstd")
        self._waiting: list[pa.RecordBatch] = []
        self._count = 0

    def _write(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(_with_words_used(rows))
        self._count += rows.num_rows
        if self._count >= ROW_GROUP:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa

        if self._count:
            table = pa.Table.from_batches(self._waiting).unify_dictionaries()
            self._writer.write_table(table, row_group_size=self._count)
        self._waiting, self._count = [], 0

    def _close(self) -> None:
        self._write_group()
        self._writer.close()


class ArrowFile(VerdictFile):
    """Arrow IPC file.  It allows one dictionary per column, so addresses go in as plain strings."""

    def _open(self, schema: pa.Schema) -> None:
        import pyarrow as pa

        self._schema = _decoded(schema, ("source", "destination"))
        self._writer = pa.ipc.new_file(self._partial, self._schema)

    def _write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows.cast(self._schema))

    def _close(self) -> None:
        self._writer.close()


class CsvFile(VerdictFile):
    def _open(self, schema: pa.Schema) -> None:
        import pyarrow as pa
        from pyarrow import csv

        flat = _decoded(schema, schema.names)
        at = flat.get_field_index("time")
        self._schema = flat.set(at, pa.field("time", pa.string()))
        self._writer = csv.CSVWriter(str(self._partial), self._schema)

    def _write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(_with_time_text(rows).cast(self._schema))

    def _close(self) -> None:
        self._writer.close()


class JsonLinesFile(VerdictFile):
    def _open(self, schema: pa.Schema) -> None:
        pairs = ", ".join(f"{json.dumps(name)}: %s" for name in schema.names)
        self._line = "{" + pairs.replace("%%", "%") + "}\n"
        self._file = open(self._partial, "w", encoding="utf-8")

    def _write(self, rows: pa.RecordBatch) -> None:
        columns = [_json_cells(column) for column in _with_time_text(rows).columns]
        self._file.write("".join(map(self._line.__mod__, zip(*columns))))

    def _close(self) -> None:
        self._file.close()


_KINDS: dict[str, type[VerdictFile]] = {
    ".parquet": ParquetFile,
    ".csv": CsvFile,
    ".jsonl": JsonLinesFile,
    ".arrow": ArrowFile,
}


def open_verdict_file(path: str | Path, schema: pa.Schema) -> VerdictFile:
    """A file for rows of `schema`, its kind chosen by the suffix.

    Raises ValueError for a suffix that is none of SUFFIXES, OSError if it cannot be written.
    """
    path = Path(path)
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"{path}: verdict files end in {', '.join(SUFFIXES)}")
    return kind(path, schema)


def _decoded(schema: pa.Schema, names: Any) -> pa.Schema:
    """The schema with the dictionary columns of these names as plain values."""
    import pyarrow as pa

    for name in names:
        at = schema.get_field_index(name)
        one = schema.field(at)
        if pa.types.is_dictionary(one.type):
            schema = schema.set(at, pa.field(name, one.type.value_type))
    return schema


def _with_words_used(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows; dictionaries longer than the column hold only the words that occur in it.

    A host may have a million routes, and a row group would hold the names of all.
    """
    import numpy as np
    import pyarrow as pa

    columns = []
    for column in rows.columns:
        if isinstance(column, pa.DictionaryArray) and len(column.dictionary) > len(column):
            codes = column.indices.fill_null(-1).to_numpy()
            used, codes = np.unique(codes, return_inverse=True)
            missing = int(len(used) > 0 and used[0] < 0)
            words = column.dictionary.take(pa.array(used[missing:]))
            indices = pa.array(
                np.maximum(codes - missing, 0).astype(np.int32), mask=codes < missing
            )
            column = pa.DictionaryArray.from_arrays(indices, words)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _with_time_text(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Times as RFC 3339 text with nanoseconds; without a time zone database, as it is all UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    at = rows.schema.get_field_index("time")
    text = rows.column(at).cast(pa.timestamp("ns")).cast(pa.string())
    text = pc.replace_substring(text, " ", "T")
    text = pc.binary_join_element_wise(text, "Z", "")
    return rows.set_column(at, pa.field("time", pa.string()), text)


def _json_cells(column: pa.Array) -> list[str]:
    """Each value of a column as JSON text."""
    import pyarrow as pa

    if isinstance(column, pa.DictionaryArray):
        words = [json.dumps(word) for word in column.dictionary.to_pylist()]
        return ["null" if k is None else words[k] for k in column.indices.to_pylist()]
    if pa.types.is_string(column.type):
        return [json.dumps(value) for value in column.to_pylist()]
    if pa.types.is_boolean(column.type):
        return ["null" if v is None else ("true" if v else "false") for v in column.to_pylist()]
    return ["null" if value is None else str(value) for value in column.to_pylist()]
