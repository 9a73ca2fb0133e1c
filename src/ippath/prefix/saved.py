"""Prefix tables in files: arrays as they lie in memory, to be mapped by any number of processes.

A file is a line of JSON, padded to a page, and the arrays, each from a page of its own.  Nothing in it
is trusted: a file whose arrays point outside themselves, or in circles, is refused.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ippath.prefix import entries
from ippath.prefix.layout import (
    GROUP, META_CHUNKS, META_LEAVES, META_NODES, META_SHIFT, META_TOP, META_WORDS, SMALL_TOP,
    LARGE_TOP, Arrays, empty,
)  # fmt: skip
from ippath.prefix.store import Store

FORMAT = "ippath prefix table 1"
PAGE = 4096
_LARGEST_HEADER = 1 << 16
_NAMES = ("node", "chunk", "leaf", "meta")


def save(
    file: Any, stores: tuple[Store, Store], dtype: np.dtype, missing: Any, family: Any
) -> None:
    """Write both stores; the file appears under its name when it is whole."""
    if dtype.hasobject:
        raise TypeError(
            "values that are objects cannot be mapped: give the table a dtype, or pickle it"
        )
    arrays: list[np.ndarray] = []
    places: list[tuple[str, int, int]] = []
    at = PAGE
    for store in stores:
        meta = store.arrays.meta
        used = (
            int(meta[META_NODES]) << int(meta[META_SHIFT]),
            2 * int(meta[META_CHUNKS]),
            int(meta[META_LEAVES]),
            META_WORDS,
        )
        for name, array, size in zip(_NAMES, store.arrays, used):
            arrays.append(array[:size])
            places.append((f"{name}{store.family}", at, size))
            at = _next_page(at + array[:size].nbytes)
        arrays.append(store.values)
        places.append((f"value{store.family}", at, len(store.values)))
        at = _next_page(at + store.values.nbytes)
    kept = np.array(missing, dtype).tobytes().hex()
    header = {
        "format": FORMAT, "dtype": np.lib.format.dtype_to_descr(dtype), "missing": kept,
        "family": family, "arrays": places,
    }  # fmt: skip
    line = json.dumps(header).encode() + b"\n"
    if len(line) > PAGE:
        raise TypeError(f"{dtype}: too many fields for the head of the file")
    target = Path(os.fspath(file))
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as out:
            out.write(line.ljust(PAGE))
            for array, (_, begin, _) in zip(arrays, places):
                out.seek(begin)
                out.write(np.ascontiguousarray(array).tobytes())
            out.truncate(at)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _next_page(at: int) -> int:
    return -(-at // PAGE) * PAGE


def load(file: Any) -> tuple[dict[int, Store], np.dtype, Any, int | None]:
    """(stores, dtype, missing, family) of a saved table, mapped."""
    path = Path(os.fspath(file))
    try:
        header, dtype, missing = _header(path)
        places = {name: (int(begin), int(size)) for name, begin, size in header["arrays"]}
        family = header["family"]
        stores = {f: _store(path, f, places, dtype, missing) for f in (4, 6)}
        if family not in (None, 4, 6):
            _refuse(path, "its family")
    except (KeyError, TypeError, OverflowError, SyntaxError, RecursionError):
        _refuse(path, "its head")
    return stores, dtype, missing, family


def _refuse(path: Path, what: str) -> NoReturn:
    raise ValueError(f"{path}: no prefix table, or a damaged one ({what})")


def _header(path: Path) -> tuple[dict, np.dtype, Any]:
    with path.open("rb") as source:
        line = source.readline(PAGE)
    try:
        header = json.loads(line)
        if header["format"] != FORMAT:
            _refuse(path, "its head")
        described = header["dtype"]
        if isinstance(described, list):
            described = [tuple(field) for field in described]
        dtype = np.lib.format.descr_to_dtype(described)
        if dtype.hasobject:
            _refuse(path, "its type of values")
        missing = np.frombuffer(bytes.fromhex(header["missing"]), dtype)[0]
    except (ValueError, IndexError) as problem:
        raise ValueError(f"{path}: no prefix table, or a damaged one (its head)") from problem
    return header, dtype, missing


def _map(path: Path, name: str, places: dict, dtype: Any) -> np.ndarray:
    begin, size = places[name]
    if begin % PAGE or begin < PAGE or size < 1:
        _refuse(path, name)
    try:
        return np.asarray(np.memmap(path, dtype, "r", begin, (size,)))
    except ValueError:
        _refuse(path, f"{name} is cut off")


def _store(path: Path, family: int, places: dict, dtype: np.dtype, missing: Any) -> Store:
    kinds = {"node": np.int64, "chunk": np.int64, "leaf": np.int32, "meta": np.int64}
    node, chunk, leaf, told = (_map(path, f"{n}{family}", places, kinds[n]) for n in _NAMES)
    values = _map(path, f"value{family}", places, dtype)
    if len(told) != META_WORDS or told[META_TOP] not in (SMALL_TOP, LARGE_TOP):
        _refuse(path, f"meta{family}")
    fresh = empty(family, int(told[META_TOP]), 0, 0, 0)
    meta = np.array(told)
    fixed = fresh.meta[: META_TOP + 2]  # what follows from the family and the top
    whole = (
        (meta[: META_TOP + 2] == fixed).all()
        and len(node) == int(meta[META_NODES]) << int(meta[META_SHIFT])
        and len(chunk) == 2 * int(meta[META_CHUNKS])
        and len(chunk) >= len(fresh.chunk)
        and len(chunk) % (2 * GROUP) == 0
        and len(leaf) == meta[META_LEAVES]
    )
    if not whole:
        _refuse(path, f"meta{family}")
    store = Store(family, Arrays(node, chunk, leaf, meta), values, missing, frozen=True)
    seen = np.zeros(int(meta[META_NODES]) + int(meta[META_CHUNKS]), np.uint8)
    stack = np.zeros(int(meta[META_NODES]) + int(meta[META_CHUNKS]) + 1, np.int64)
    if not entries.is_sound(store.handle, len(values), seen, stack):
        _refuse(path, f"the table of IPv{family}")
    return store
