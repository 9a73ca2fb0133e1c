"""How path functions become machine code: the two decorators, and where compiled code is kept.

`kernel` marks a helper, `entry` the few functions that Python calls with a whole batch.  `hot` is a
kernel on the way of every packet, always inlined; `cold` one that few packets need, never inlined,
so that it stays out of the way of the others.  `short_entry` is an entry for one item, not a batch.
The same source runs compiled, uncompiled and checked:

| environment            | effect                                                              |
|------------------------|---------------------------------------------------------------------|
| `NUMBA_DISABLE_JIT=1`  | plain Python; Numba is not even imported                            |
| `IPPATH_CHECKED=1`     | every load, store and copy verifies its range, arrays too           |
| `IPPATH_CACHE_DIR=DIR` | where compiled code is kept (default: the user's cache folder)      |

Numba's own cache notices a change of the file that defines an entry, not of the helpers that the
entry inlines.  So the cache folder's name is a digest of all sources that may hold or feed compiled code
and of the versions that produce machine code: edit any helper and its callers are compiled again.
Packages in `NEVER_COMPILED` define no kernels (a test holds that) and stay out of the digest.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any, TypeVar
from collections.abc import Callable

F = TypeVar("F", bound=Callable[..., Any])

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
CHECKED = os.environ.get("IPPATH_CHECKED", "0") not in ("", "0")
KEPT_CACHES = 4  # newest cache folders kept; older ones belong to sources that are gone

NEVER_COMPILED = ("bench", "cli", "config", "report", "socket")

_PACKAGE = Path(__file__).parent


def sources_digest(folder: Path = _PACKAGE, versions: tuple[str, ...] = ()) -> str:
    """Digest of the Python sources under `folder` and of `versions`: the key of compiled code."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        if path.relative_to(folder).parts[0] in NEVER_COMPILED:
            continue
        digest.update(str(path.relative_to(folder)).encode())
        digest.update(path.read_bytes())
    for version in versions:
        digest.update(version.encode())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """The folder for code compiled from exactly these sources with exactly these versions."""
    from importlib.metadata import version

    root = Path(
        os.environ.get("IPPATH_CACHE_DIR")
        or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ippath"
    )
    versions = (sys.version, version("numba"), version("llvmlite"), version("numpy"))
    name = sources_digest(versions=versions) + ("-checked" if CHECKED else "")
    return root / name


def _prune(current: Path) -> None:
    try:
        others = [p for p in current.parent.iterdir() if p.is_dir() and p != current]
        others.sort(key=lambda p: p.stat().st_mtime, reverse=True)
        import shutil

        for stale in others[KEPT_CACHES - 1 :]:
            shutil.rmtree(stale, ignore_errors=True)
    except OSError:
        pass  # a read-only or vanished cache is no reason to fail


COLD = False  # True when this process has to compile: the command line then says so
entries: list[Any] = []

if COMPILED:
    _folder = cache_folder()
    COLD = not _folder.is_dir()
    try:
        _folder.mkdir(parents=True, exist_ok=True)
        if COLD:
            _prune(_folder)
        os.environ["NUMBA_CACHE_DIR"] = str(_folder)
    except OSError:
        pass
    from numba import njit

    from ippath import jit_link

    _KERNEL: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    _ENTRY: dict[str, Any] = {"cache": True, "no_cfunc_wrapper": True}
    if jit_link.available():
        _KERNEL["pipeline_class"] = jit_link.KernelCompiler
        _ENTRY["pipeline_class"] = jit_link.EntryCompiler
    _OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": CHECKED}

    def kernel(function: F) -> F:
        """A path helper: compiled into every entry that calls it, inlined where LLVM finds it wise."""
        # no wrapper for calls from Python: it would be compiled for every helper and never used
        return jit_link.compile_once(njit(**_KERNEL, **_OPTIONS)(function), _OPTIONS)

    def hot(function: F) -> F:
        """A helper on the way of every packet: always inlined."""
        function.inlining = "alwaysinline"  # type: ignore[attr-defined]
        return kernel(function)

    def cold(function: F) -> F:
        """A helper that few packets need: always a call."""
        function.inlining = "noinline cold"  # type: ignore[attr-defined]
        return kernel(function)

    def entry(function: F) -> F:
        """A function that Python calls with a whole batch: compiled once, kept on disk."""
        compiled = njit(**_ENTRY, **_OPTIONS)(function)
        entries.append(compiled)
        return compiled

    def short_entry(function: F) -> F:
        """An entry whose calls are so short that they keep Python's lock: nothing runs beside them."""
        compiled = njit(**_ENTRY, **{**_OPTIONS, "nogil": False})(function)
        entries.append(compiled)
        return compiled

else:

    def kernel(function: F) -> F:
        """A path helper, left as plain Python."""
        return function

    hot = cold = kernel

    def entry(function: F) -> F:
        """A batch function, left as plain Python."""
        return function

    short_entry = entry


def plain(function: Any) -> Callable[..., Any]:
    """The uncompiled twin of a kernel, for control-side code that calls it a few times."""
    return getattr(function, "py_func", function)


def direct(function: Any) -> Callable[..., Any]:
    """What runs an entry that was called before, always with the same types: it is not asked for them."""
    compiled = list(getattr(function, "overloads", {}).values())
    return compiled[0].entry_point if len(compiled) == 1 else function
