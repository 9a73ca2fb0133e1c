"""The examples of docs/prefix-table.md and of the README's section on prefixes do what they show."""

from __future__ import annotations

import doctest
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent


def test_examples() -> None:
    done = doctest.testfile(
        str(DOCS / "docs" / "prefix-table.md"),
        module_relative=False,
        encoding="utf-8",
    )
    assert done.attempted > 20 and done.failed == 0


def test_readme() -> None:
    text = (DOCS / "README.md").read_text().split("## Prefixes")[1]
    code = text.split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(code, names)
    assert list(names["found"]) == [64501, 64500, -1]  # type: ignore[call-overload]
