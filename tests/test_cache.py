"""Compiled code is kept by a key of all sources that it may come from: no edit meets stale code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ippath.jit import COMPILED, NEVER_COMPILED, sources_digest

PACKAGE = Path(__file__).resolve().parent.parent / "src/ippath"
MODULES = sorted(p.relative_to(PACKAGE) for p in PACKAGE.rglob("*.py"))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package that a test may edit."""
    target = tmp_path / "source/ippath"
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def test_any_source_that_may_be_compiled_is_in_the_key(copied: Path) -> None:
    key = sources_digest(copied)
    assert key == sources_digest(PACKAGE)
    for module in MODULES:
        path = copied / module
        before = path.read_bytes()
        path.write_bytes(before + b"\n# a remark\n")
        changed = sources_digest(copied) != key
        assert changed == (module.parts[0] not in NEVER_COMPILED), module
        path.write_bytes(before)
    assert sources_digest(copied) == key


def test_names_and_versions_are_in_the_key(copied: Path) -> None:
    keys = {sources_digest(copied), sources_digest(copied, ("numba 1",))}
    keys.add(sources_digest(copied, ("numba 2",)))
    (copied / "mib.py").rename(copied / "mibs.py")
    keys.add(sources_digest(copied))
    (copied / "mibs.py").unlink()
    keys.add(sources_digest(copied))
    assert len(keys) == 5


PROGRAM = """
from ippath import jit
from ippath.batch import PacketBatch
from ippath.census import Census
from tests.captures import ipv4_udp
packet = bytearray(ipv4_udp())
packet[8] += 1  # the header checksum is wrong
census = Census()
census.add(PacketBatch.from_packets([bytes(packet)]))
print(jit.cache_folder().name, jit.COLD, census.counts["ip_bad_csum"])
"""


def run(package: Path, cache: Path, **environment: str) -> tuple[str, bool, int]:
    """(cache folder, whether it was made now, wrong header checksums counted) with this package."""
    root = Path(__file__).resolve().parent.parent
    variables = {
        **os.environ, **environment, "IPPATH_CACHE_DIR": str(cache),
        "PYTHONPATH": os.pathsep.join([str(package.parent), str(root)]),
    }  # fmt: skip
    variables.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    folder, cold, count = done.stdout.split()
    return folder, cold == "True", int(count)


def files_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.rglob("*.nb[ci]")}


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_an_edited_helper_is_compiled_into_its_callers(copied: Path, tmp_path: Path) -> None:
    """The entry is in census.py and the helper two modules away: Numba alone would not notice."""
    cache = tmp_path / "cache"
    first, cold, count = run(copied, cache)
    assert cold and count == 1
    kept = files_of(cache / first)
    assert any("census" in name for name in kept)
    assert run(copied, cache) == (first, False, 1)
    assert files_of(cache / first) == kept, "warm starts compile nothing"

    helper = copied / "wire/checksum.py"
    original = helper.read_text()
    head = "def header_ok(buf, offset, count):\n"
    assert head in original
    helper.write_text(original.replace(head, head + "    return True\n"))
    second, cold, count = run(copied, cache)
    assert second != first and cold and count == 0
    assert files_of(cache / first) == kept, "code of other sources stays as it is"

    helper.write_text(original)
    assert run(copied, cache) == (first, False, 1)
    assert run(copied, cache, NUMBA_DISABLE_JIT="1")[2] == 1
    assert files_of(cache / first) == kept
