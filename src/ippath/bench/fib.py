"""`fib`: longest prefixes in tables as large as the Internet's, beside other programs."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ippath.bench import full_router
from ippath.bench.fib_dpdk import BULK, SCALAR, VECTOR, WIDTHS, DpdkFib, build_program
from ippath.bench.fib_kernel import KernelFib
from ippath.bench.fib_peers import FibProcess, Package, Search, find_packages, resident
from ippath.bench.framework import Absent, Plan, Run, Target, Variant, Workload, WorkloadError
from ippath.bench.full_tables import Prefixes, full_table
from ippath.prefix.table import PrefixTable
from ippath.verify.namespace import in_child

IPV6_SHARE = 0.23  # IPv6 prefixes for each of IPv4
# addresses of a column, of a list, and those that are asked for one by one
QUERIES, LISTED, FEW = 4_000_000, 200_000, 20_000
CHANGES = {"compiled": 100_000, "one": 10_000}
# what the project set out to reach
BUILD_SECONDS, PUT_COMPILED, PUT_ONE = 1.0, 500_000, 50_000
DTYPES = {"1-byte": np.uint8, "4-byte": np.int32}


class Fib(Workload):
    """PrefixTable by columns, by text, one by one; how it is built and changed."""

    name = "fib"
    summary = "longest prefixes in full tables: look-ups, building, changes; forwarding by them"
    unit = "addresses, prefixes"
    target = (
        "1.5 times rte_fib's best rate; 150 times the quickest Python peer by columns, 40 times by text;"
        " one by one as quick as pytricia; 1 M prefixes in 1 s and 64 MB; forwarding to random"
        " destinations at two thirds of the rate with 10 routes"
    )
    quantities = {"memory": "MB"}
    sizes = (100_000, 1_000_000)  # IPv4 prefixes
    plans = (Plan(1, 2, 20.0, 60.0), Plan(5, 15, 240.0, 600.0))

    def set_up(self) -> None:
        counts = {4: self.size, 6: max(1, int(self.size * IPV6_SHARE))}
        self._tables = {family: full_table(family, count) for family, count in counts.items()}
        self._queries = min(QUERIES, 20 * self.size)
        self._packages, self.absent = find_packages()
        self._program, self._dpdk = build_program(self.folder)
        if self._program is None:
            self.absent.append(Absent("DPDK rte_fib", self._dpdk))
        self._processes: list[FibProcess] = []
        self._memory = {
            (package.name, family): in_child(functools.partial(grown_by, package, table)) / 1e6
            for package in self._packages
            for family, table in self._tables.items()
        }

    def tear_down(self) -> None:
        """End the peers' processes."""
        for process in self._processes:
            process.close()

    def variants(self) -> list[Variant]:
        found = []
        for family, table in self._tables.items():
            found += self._of_family(family, table)
        for table in self._tables.values():
            found += full_router.variants(table)
        return found

    def _of_family(self, family: int, table: Prefixes) -> list[Variant]:
        chance = np.random.default_rng(2)
        ours = {name: table_of(table, dtype) for name, dtype in DTYPES.items()}
        prefixes = prefix_texts(table)
        trees = [(package, package.build(table, prefixes)) for package in self._packages]
        dpdk, kernel = self._dpdk_fibs(table), self._kernel_fib(table)
        title = f"IPv{family}, {len(table):,} prefixes"
        found = []
        for how, draw in (("random", table.random), ("skewed", table.skewed)):
            keys = draw(self._queries, chance)
            group = f"{title}: {how} addresses"
            found += self._columns(group, table, keys, ours, dpdk, kernel, trees)
            if how == "random":
                found += self._texts(title, table, keys[:LISTED], ours["4-byte"], trees)
        return found + self._changes(title, table, prefixes, dpdk, kernel)

    # --- look-ups --------------------------------------------------------------------------------

    def _dpdk_fibs(self, table: Prefixes) -> list[tuple[str, DpdkFib]]:
        found: list[tuple[str, DpdkFib]] = []
        for width in WIDTHS[table.family] if self._program is not None else ():
            assert self._program is not None
            process = DpdkFib(self._program, table, width)
            self._processes.append(process)
            found.append((f"{width}-byte", process))
        return found

    def _kernel_fib(self, table: Prefixes) -> KernelFib | None:
        try:
            process = KernelFib(self.folder, table)
        except WorkloadError as problem:
            self.absent.append(Absent("the kernel", f"needs root and `ip`: {problem}"))
            return None
        self._processes.append(process)
        return process

    def _columns(
        self, group: str, table: Prefixes, keys: np.ndarray, ours: dict[str, PrefixTable],
        dpdk: list[tuple[str, DpdkFib]], kernel: KernelFib | None, trees: list[tuple[Package, Any]],
    ) -> list[Variant]:  # fmt: skip
        addresses, few = table.addresses(keys), keys[:FEW]
        wanted = table_of(table, np.int64).lookup(addresses)
        found = [
            Variant(group, f"PrefixTable, {name} values", column(own, addresses, wanted), len(keys))
            for name, own in ours.items()
        ]
        for name, process in dpdk:
            queries, total = process.take_queries(keys), int(wanted[::BULK].sum())
            for way, kind in (("scalar", SCALAR), ("AVX-512", VECTOR)):
                if process.has(kind[table.family]):
                    run = asking(process, queries, kind[table.family], total)
                    title = f"DPDK {self._dpdk} {way}, {name} values"
                    found.append(Variant(group, title, run, len(keys), peer=True))
        if kernel is not None:
            run = asking(kernel, kernel.take_queries(few), 0, int(wanted[: len(few)].sum()))
            found.append(Variant(group, "the kernel, by netlink", run, len(few), peer=True))
        texts, values = table.texts(few), wanted[: len(few)].tolist()
        for package, tree in trees:
            form = package.form(texts)
            make = package.by_form or package.by_text
            run = one_by_one(make, tree, form, values)
            found.append(Variant(group, package.name, run, len(few), peer=True))
        return found

    def _texts(
        self, title: str, table: Prefixes, keys: np.ndarray, ours: PrefixTable,
        trees: list[tuple[Package, Any]],
    ) -> list[Variant]:  # fmt: skip
        import pyarrow as pa

        listed = table.texts(keys)
        found_in_list, texts = np.array(ours.lookup(listed)), listed[:FEW]
        values = found_in_list[:FEW]
        times = max(1, self._queries // 4 // len(texts))
        text_column, wanted = pa.array(texts * times), np.tile(values, times)
        group = f"{title}: random addresses as text"
        one = f"{title}: text, one by one"
        found = [
            Variant(group, "PrefixTable, Arrow", column(ours, text_column, wanted), len(wanted)),
            Variant(group, "PrefixTable, list", column(ours, listed, found_in_list), len(listed)),
            Variant(one, "PrefixTable", one_by_one(lambda t: t.lookup, ours, texts, values.tolist()),
                    len(texts)),
        ]  # fmt: skip
        for package, tree in trees:
            for each in (group, one):
                run = one_by_one(package.by_text, tree, texts, values.tolist())
                found.append(Variant(each, package.name, run, len(texts), peer=True))
        return found

    # --- building and changing -------------------------------------------------------------------

    def _changes(
        self, title: str, table: Prefixes, prefixes: list[str], dpdk: list[tuple[str, DpdkFib]],
        kernel: KernelFib | None,
    ) -> list[Variant]:  # fmt: skip
        group = f"{title}: building"
        found = [
            Variant(group, "PrefixTable", building(table), len(table),
                    target=Target(BUILD_SECONDS * self.size / 1e6)),
        ]  # fmt: skip
        for package in self._packages:
            run = building_peer(package, table, prefixes, self._memory[package.name, table.family])
            found.append(Variant(group, package.name, run, len(table), peer=True))
        for name, process in dpdk[:1]:
            run = rebuilding(process)
            found.append(
                Variant(group, f"DPDK {self._dpdk}, {name} values", run, len(table), peer=True)
            )
        many, few = (min(len(table) // 2, n) for n in CHANGES.values())
        group = f"{title}: deleting and adding"
        found += [
            Variant(group, "PrefixTable, columns", changing_columns(table, many), 2 * many,
                    target=Target(2 * many / PUT_COMPILED)),
            Variant(group, "PrefixTable, one by one", changing(table, prefixes[:few]), 2 * few,
                    target=Target(2 * few / PUT_ONE)),
        ]  # fmt: skip
        # rte_fib6 of DPDK 22.11 has no room for what was deleted and is added again
        for name, process in dpdk[:1] if table.family == 4 else ():
            title = f"DPDK {self._dpdk}, {name} values"
            found.append(Variant(group, title, changing_by(process, many), 2 * many, peer=True))
        if kernel is not None:
            run = changing_by(kernel, few)
            found.append(Variant(group, "the kernel, by netlink", run, 2 * few, peer=True))
        for package in self._packages:
            if package.insert is not None:
                run = changing_peer(package, table, prefixes, few)
                found.append(Variant(group, package.name, run, 2 * few, peer=True))
        return found


def table_of(table: Prefixes, dtype: Any) -> PrefixTable:
    """The prefixes as a PrefixTable."""
    return PrefixTable.from_arrays(
        table.addresses(table.key), table.value.astype(dtype), table.length, dtype=dtype,
        family=table.family, missing=0,
    )  # fmt: skip


def column(table: PrefixTable, addresses: Any, wanted: np.ndarray) -> Run:
    """A run that looks a column up, and compares some of the values found."""

    def run() -> None:
        found = table.lookup(addresses)
        if not np.array_equal(found[::BULK], wanted[::BULK]):
            raise AssertionError("PrefixTable found other values")

    return run


def one_by_one(make: Callable[[Any], Search], tree: Any, addresses: list, wanted: list[int]) -> Run:
    """A run that asks for one address after the other."""

    def run() -> None:
        search = make(tree)
        if [search(address) for address in addresses] != wanted:
            raise AssertionError("it found other values")

    return run


def asking(process: FibProcess, queries: int, kind: int, wanted: int) -> Run:
    """A run of a process over addresses that it has; the sum tells whether it found the values."""

    def run() -> None:
        if (got := process.ask(f"l {queries} {kind}")) != wanted:
            raise AssertionError(f"the values add up to {got}, not {wanted}")

    return run


def changing_by(process: FibProcess, count: int) -> Run:
    """A run in which a process deletes prefixes and adds them again."""

    def run() -> None:
        process.ask(f"u {count}")

    return run


def rebuilding(process: DpdkFib) -> Run:
    """A run in which DPDK builds its table again; what it sets aside is its memory."""

    def run() -> Mapping[str, float]:
        return {"memory": process.ask("b") / 1e6}

    return run


def building(table: Prefixes) -> Run:
    """A run that builds a PrefixTable."""

    def run() -> Mapping[str, float]:
        own = table_of(table, np.int32)
        if len(own) != len(table):
            raise AssertionError(f"{len(own)} of {len(table)} prefixes are in the table")
        return {"memory": own.nbytes / 1e6}

    return run


def prefix_texts(table: Prefixes) -> list[str]:
    """The prefixes as people write them."""
    return [f"{a}/{n}" for a, n in zip(table.texts(table.key), table.length.tolist())]


def give_back_memory() -> None:
    """Let the system have what was freed, as far as the C library can tell (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def grown_by(package: Package, table: Prefixes) -> int:
    """Bytes by which this process grows when it builds a tree, values included."""
    prefixes = prefix_texts(table)
    give_back_memory()  # or the tree fills what the texts left
    before = resident()
    tree = package.build(table, prefixes)
    grown = resident() - before
    del tree
    return grown


def building_peer(package: Package, table: Prefixes, prefixes: list[str], memory: float) -> Run:
    """A run that builds a tree; `memory` is what that takes, in MB."""

    def run() -> Mapping[str, float]:
        package.build(table, prefixes)
        return {"memory": memory}

    return run


def changing(table: Prefixes, prefixes: list[str]) -> Run:
    """A run that deletes prefixes and sets them again, as text, in a loop of Python."""
    own = table_of(table, np.int32)
    values = dict(zip(prefixes, table.value.tolist()))

    def run() -> None:
        for prefix in values:
            del own[prefix]
        for prefix, value in values.items():
            own[prefix] = value
        if len(own) != len(table):
            raise AssertionError(f"{len(own)} of {len(table)} prefixes are in the table")

    return run


def changing_columns(table: Prefixes, count: int) -> Run:
    """A run that deletes prefixes and sets them again, as columns: applied one by one, compiled."""
    own = table_of(table, np.int32)
    keys, lengths = table.addresses(table.key[:count]), table.length[:count]
    values = table.value[:count].astype(np.int32)

    def run() -> None:
        if own.drop_columns(keys, lengths) != count:
            raise AssertionError("not all prefixes were there")
        own.put_columns(keys, values, lengths)

    return run


def changing_peer(package: Package, table: Prefixes, prefixes: list[str], count: int) -> Run:
    """The same of a package, in its own tree."""
    tree = package.build(table, prefixes)
    package.by_text(tree)
    values = list(zip(prefixes[:count], table.value[:count].tolist()))
    insert, delete = package.insert, package.delete
    assert insert is not None and delete is not None

    def run() -> None:
        for prefix, _ in values:
            delete(tree, prefix)
        for prefix, value in values:
            insert(tree, prefix, value)

    return run
