"""The three import rules of docs/architecture.md, and that documents point at what exists."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from ippath.jit import NEVER_COMPILED

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "ippath"

PATH, CONTROL, EDGES = "path", "control", "edges"
# the longest prefix of a module's name decides
WORLDS = {
    "": CONTROL,  # ippath/__init__.py and _version.py name things, no more
    "batch": PATH, "handles": PATH, "jit": PATH, "jit_link": PATH, "mib": PATH, "reasons": PATH,
    "tables": PATH, "trace": PATH, "wire": PATH, "fib": PATH, "rx": PATH, "tx": PATH, "udp": PATH,
    "frag": PATH, "neigh": PATH,
    "fib.blocks": CONTROL, "fib.build": CONTROL, "fib.control": CONTROL, "fib.directory": CONTROL, "fib.reference": CONTROL,
    "fib.gateways": CONTROL, "fib.live": CONTROL, "fib.live_groups": CONTROL, "fib.nexthops": CONTROL, "fib.placing": CONTROL, "fib.refused": CONTROL,
    "fib.resilient": CONTROL,
    "fib.routes": CONTROL, "fib.vrf": CONTROL, "fib.sysctl": CONTROL,
    "prefix": PATH,
    "prefix.store": CONTROL, "prefix.keys": CONTROL, "prefix.columns": CONTROL,
    "prefix.table": CONTROL, "prefix.saved": CONTROL,
    "model": CONTROL, "switches": CONTROL,
    "config": CONTROL, "netns": CONTROL, "verdicts": CONTROL, "explain": CONTROL,
    "socket": CONTROL, "lab": CONTROL, "aio": EDGES, "frames": EDGES,
    "learned": CONTROL, "route_get": CONTROL, "route_why": CONTROL, "defrag": CONTROL, "lowpan": CONTROL, "verdict_rows": CONTROL, "address_texts": CONTROL,
    "census": EDGES, "pmtu": EDGES, "capture": EDGES, "device": EDGES, "cli": EDGES, "report": EDGES,
    "bench": EDGES, "verify": EDGES, "__main__": EDGES,
}  # fmt: skip
RANK = {PATH: 0, CONTROL: 1, EDGES: 2}
# conveniences that reach up a world, inside a function, for the caller's comfort
CONVENIENCES = {
    ("batch", "capture"),  # PacketBatch.read
}
COMPILERS = {"numpy", "numba", "llvmlite"}
# what rule 3 keeps out of the path: clocks, chance, files, devices, threads
NOT_IN_PATH = {
    "time",
    "random",
    "socket",
    "threading",
    "datetime",
    "secrets",
    "select",
    "io",
    "ctypes",
}
HEAVY = {"numba", "llvmlite", "pyarrow", "rich", "pyroute2"}


class Import(NamedTuple):
    """One import: of what, at which line, and whether it runs only when a function is called."""

    target: str
    line: int
    late: bool


def modules() -> dict[str, Path]:
    """Every module below ippath by its dotted name without `ippath.`."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        found[".".join(parts)] = path
    return found


def world(module: str) -> str:
    """The world of a module, by the longest known prefix of its name."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        known = WORLDS.get(".".join(parts[:length]))
        if known:
            return known
    return "" if module not in ("", "_version") else CONTROL


def imports(path: Path) -> list[Import]:
    """All imports of a file, but not those for type checkers alone."""
    found: list[Import] = []

    def visit(node: ast.AST, late: bool) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.orelse:
                visit(child, late)
            return
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            base = node.module or ""
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                known = base.startswith("ippath") and inner.removeprefix("ippath.") in MODULES
                found.append(Import(inner if known else base, node.lineno, late))
        inside = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(ast.parse(path.read_text()), False)
    return found


MODULES = modules()


def name_of(target: str) -> str | None:
    """`fib.build` for `ippath.fib.build`; None for what is not ours."""
    if target == "ippath":
        return ""
    return target.removeprefix("ippath.") if target.startswith("ippath.") else None


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_a_world(module: str) -> None:
    assert world(module), f"say in WORLDS and docs/architecture.md where ippath.{module} belongs"


@pytest.mark.parametrize("module", MODULES)
def test_no_arrow_points_back(module: str) -> None:
    """Rules 1 and 2: path imports path, control imports path and control, edges everything."""
    wrong = []
    for target, line, late in imports(MODULES[module]):
        other = name_of(target)
        if not other or RANK[world(other)] <= RANK[world(module)]:
            continue
        if late and (module, other.split(".")[0]) in CONVENIENCES:
            continue
        wrong.append(f"line {line}: {world(module)} imports {target}, which is {world(other)}")
    assert not wrong, f"ippath.{module}\n" + "\n".join(wrong)


@pytest.mark.parametrize("module", [m for m in MODULES if world(m) == PATH])
def test_the_path_is_pure(module: str) -> None:
    """Rule 1: nothing but NumPy and Numba from outside.  Rule 3: no clock, chance, file or thread."""
    for target, line, _ in imports(MODULES[module]):
        top = target.split(".")[0]
        if top == "ippath":
            continue
        assert top in COMPILERS or top in sys.stdlib_module_names, f"line {line} imports {target}"
        if not module.startswith("jit") and module != "wire.memory":
            assert top not in NOT_IN_PATH, f"line {line} imports {target}"


@pytest.mark.parametrize("module", MODULES)
def test_heavy_packages_come_late(module: str) -> None:
    """Numba in the path only; PyArrow, rich and pyroute2 when something needs them."""
    for target, line, late in imports(MODULES[module]):
        top = target.split(".")[0]
        if top in HEAVY and not late:
            compiled = top in COMPILERS and world(module) == PATH
            assert compiled, f"line {line} of ippath.{module} imports {target} at once"


@pytest.mark.parametrize("module", [m for m in MODULES if m.split(".")[0] in NEVER_COMPILED])
def test_packages_outside_the_digest_hold_no_kernels(module: str) -> None:
    """The key of compiled code leaves these sources out (ippath.jit.NEVER_COMPILED)."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        for decorator in getattr(node, "decorator_list", []):
            name = ast.unparse(decorator).split("(")[0].split(".")[-1]
            assert name not in ("kernel", "hot", "cold", "entry", "njit", "jit"), (
                f"line {node.lineno}"
            )


def test_never_compiled_packages_exist() -> None:
    assert all((PACKAGE / name).is_dir() for name in NEVER_COMPILED)


DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "demo").rglob("*.md")]
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text)
    for target in (a or b for a, b in targets):
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        file, _, anchor = target.partition("#")
        there = document.parent / file if file else document
        assert there.exists(), f"{document.name} points at {target}"
        if anchor and there.suffix == ".md":
            headings = re.findall(r"^#+\s+(.*)$", there.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}
            assert anchor in slugs, f"{document.name} points at {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_named_in_documents_exist(document: Path) -> None:
    """`src/…`, `tests/…`, `docs/…` and `demo/…` in backquotes are real."""
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    for name in re.findall(r"`((?:src|tests|docs|demo)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), f"{document.name} names {name}"
