"""The package as others get it: metadata, lock file, make targets, the demo's files."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def names(requirements: list[str]) -> set[str]:
    """The normalised names of requirement lines."""
    found = (re.match(r"[A-Za-z0-9._-]+", line) for line in requirements)
    return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}


LOCKED = names((ROOT / "requirements.lock").read_text().splitlines())
WANTED = names(PROJECT["project"]["dependencies"])
FOR_TESTS = names(PROJECT["project"]["optional-dependencies"]["test"])


def test_the_lock_file_pins_everything() -> None:
    lines = [
        line for line in (ROOT / "requirements.lock").read_text().splitlines()
        if line and not line.startswith("#")
    ]  # fmt: skip
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line) for line in lines)
    assert WANTED | FOR_TESTS <= LOCKED


def test_every_dependency_has_a_reason() -> None:
    text = (ROOT / "docs/dependencies.md").read_text()
    rows = [
        line
        for line in text.splitlines()
        if line.startswith("| ") and not line.startswith("| package")
    ]
    told = names([word for row in rows for word in re.findall(r"[\w-]+", row.split("|")[1])])
    assert WANTED | FOR_TESTS | {"setuptools"} <= told


def test_third_party_imports_are_declared() -> None:
    import ast

    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            found |= {m.split(".")[0] for m in modules}
    outside = found - set(sys.stdlib_module_names) - {"ippath", "llvmlite"}
    # measured against where they are installed
    peers = {"scapy", "dpkt", "pytricia", "radix", "SubnetTree", "pyasn"}
    extras = {"mrtparse"}
    served = {"pandas", "polars"}  # they get an accessor where they are installed
    assert outside - peers - extras - served == {name.replace("-", "_") for name in WANTED}


def test_public_names() -> None:
    import ippath

    assert set(ippath.__all__) == {
        "Defragmenter", "Host", "Lab", "Link", "Netns", "PacketBatch", "PrefixTable", "Verdicts",
        "__version__",
    }  # fmt: skip
    assert all(getattr(ippath, name) is not None for name in ippath.__all__)
    assert set(ippath.__all__) <= set(dir(ippath))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ippath.nothing


def test_version_is_one() -> None:
    from ippath._version import VERSION

    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"]["attr"] == "ippath._version.VERSION"
    assert VERSION.split(".dev")[0] in (ROOT / "CHANGELOG.md").read_text()


def test_types_are_shipped() -> None:
    assert (ROOT / "src/ippath/py.typed").exists()
    assert PROJECT["tool"]["setuptools"]["package-data"] == {"ippath": ["py.typed"]}


def test_the_demo_capture_is_what_its_maker_makes(tmp_path: Path) -> None:
    made = tmp_path / "office.pcapng"
    subprocess.run([sys.executable, str(ROOT / "demo/make_capture.py"), str(made)], check=True)
    assert made.read_bytes() == (ROOT / "demo/office.pcapng").read_bytes()


def test_make_targets() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    assert {
        "demo",
        "test",
        "test-compiled",
        "test-plain",
        "test-checked",
        "check",
        "fuzz",
    } <= targets
    assert "make test" in (ROOT / ".ci/run").read_text()
    for name in re.findall(r"tests/\w+\.py", text):
        assert (ROOT / name).exists()


def test_the_readme_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of the README, as it stands there."""
    text = (ROOT / "README.md").read_text()
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    assert len(code.strip().splitlines()) <= 12
    monkeypatch.chdir(ROOT)
    values: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), values)
    assert values["dropped"] == 152 and values["table"].num_rows == 1648
