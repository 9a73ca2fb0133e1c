"""Python packages that find longest prefixes, and what processes that do so have in common."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ippath.bench.answering import Answering
from ippath.bench.framework import Absent
from ippath.bench.full_tables import Prefixes

Search = Callable[[Any], int]  # one address -> its value, 0 without a prefix


@dataclass(frozen=True)
class Package:
    """How one package is used, in the quickest way that it has for each purpose."""

    name: str
    build: Callable[[Prefixes, list[str]], Any]  # (table, its prefixes as text) -> a tree
    by_text: Callable[[Any], Search]
    # another form of address that is quicker, made of texts, and its search
    form: Callable[[Iterable[str]], list] = list
    by_form: Callable[[Any], Search] | None = None
    insert: Callable[[Any, str, int], Any] | None = None
    delete: Callable[[Any, str], Any] | None = None


def packed(texts: Iterable[str]) -> list[bytes]:
    """Addresses in network order."""
    families = {False: socket.AF_INET, True: socket.AF_INET6}
    return [socket.inet_pton(families[":" in text], text) for text in texts]


def _pytricia() -> Package:
    from pytricia import PyTricia

    def build(table: Prefixes, prefixes: list[str]) -> Any:
        tree = PyTricia(32, socket.AF_INET) if table.family == 4 else PyTricia(128, socket.AF_INET6)
        for prefix, value in zip(prefixes, table.value.tolist()):
            tree.insert(prefix, value)
        return tree

    def search(tree: Any) -> Search:
        get = tree.get
        return lambda address: get(address, 0)

    return Package(
        "pytricia", build, search, packed, search,
        lambda tree, prefix, value: tree.insert(prefix, value),
        lambda tree, prefix: tree.delete(prefix),
    )  # fmt: skip


def _radix() -> Package:
    import radix

    def insert(tree: Any, prefix: str, value: int) -> None:
        tree.add(prefix).data["value"] = value

    def build(table: Prefixes, prefixes: list[str]) -> Any:
        tree = radix.Radix()
        for prefix, value in zip(prefixes, table.value.tolist()):
            insert(tree, prefix, value)
        return tree

    def by_text(tree: Any) -> Search:
        best = tree.search_best

        def search(address: str) -> int:
            node = best(address)
            return node.data["value"] if node is not None else 0

        return search

    def by_form(tree: Any) -> Search:
        best = tree.search_best

        def search(address: bytes) -> int:
            node = best(packed=address)
            return node.data["value"] if node is not None else 0

        return search

    return Package(
        "py-radix",
        build,
        by_text,
        packed,
        by_form,
        insert,
        lambda tree, prefix: tree.delete(prefix),
    )


def _subnettree() -> Package:
    import SubnetTree

    def build(table: Prefixes, prefixes: list[str]) -> Any:
        tree = SubnetTree.SubnetTree()
        for prefix, value in zip(prefixes, table.value.tolist()):
            tree.insert(prefix, value)
        return tree

    def search(tree: Any, binary: bool) -> Search:
        def find(address: Any) -> int:
            try:
                return tree[address]
            except KeyError:
                return 0

        tree.set_binary_lookup_mode(binary)
        return find

    return Package(
        "pysubnettree", build, lambda tree: search(tree, False), packed,
        lambda tree: search(tree, True),
        lambda tree, prefix, value: tree.insert(prefix, value),
        lambda tree, prefix: tree.remove(prefix),
    )  # fmt: skip


def _pyasn() -> Package:
    from pyasn import pyasn

    def build(table: Prefixes, prefixes: list[str]) -> Any:
        lines = (f"{p}\t{v}" for p, v in zip(prefixes, table.value.tolist()))
        return pyasn(None, ipasn_string="\n".join(lines))

    def search(tree: Any) -> Search:
        find = tree.lookup
        return lambda address: find(address)[0] or 0

    return Package("pyasn", build, search)


_MAKERS = {"pytricia": _pytricia, "py-radix": _radix, "pysubnettree": _subnettree, "pyasn": _pyasn}


def find_packages() -> tuple[list[Package], list[Absent]]:
    """Those that are installed, with their versions as names, and those that are not."""
    found, absent = [], []
    for name, make in _MAKERS.items():
        try:
            package = make()
            title = f"{name} {version(name)}"
            found.append(Package(title, *(getattr(package, f) for f in _FIELDS)))
        except (ImportError, PackageNotFoundError):
            absent.append(Absent(name, f"not installed (pip install {name})"))
    return found, absent


_FIELDS = ("build", "by_text", "form", "by_form", "insert", "delete")


def resident() -> int:
    """Bytes that this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# --- processes that answer lines ---------------------------------------------------------------------


def rows_of(table: Prefixes, keys: np.ndarray, length: Any = 0, value: Any = 0) -> np.ndarray:
    """Rows of 24 bytes as those processes read them: address, length, value."""
    rows = np.zeros(len(keys), [("address", np.uint8, 16), ("length", "u4"), ("value", "u4")])
    if table.family == 4:
        rows["address"][:, :4] = keys.astype(">u4").view(np.uint8).reshape(-1, 4)
    else:
        rows["address"] = table.addresses(keys)
    rows["length"], rows["value"] = length, value
    return rows


class FibProcess(Answering):
    """A process that has the table."""

    def __init__(self, words: list[str], folder: Path, table: Prefixes):
        self._folder, self._table = folder, table
        super().__init__(words)

    @staticmethod
    def save(folder: Path, rows: np.ndarray) -> Path:
        """A file of rows."""
        path = folder / f"rows-{len(list(folder.iterdir()))}"
        path.write_bytes(rows.tobytes())
        return path

    def take_queries(self, keys: np.ndarray) -> int:
        """Give it addresses to look up; returns the number by which it knows them."""
        return self.ask(f"q {self.save(self._folder, rows_of(self._table, keys))}")
