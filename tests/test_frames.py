"""The accessor of pandas and polars; each test runs where the package is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ippath import PrefixTable

TEXTS = ["10.1.2.3", None, "2001:db8::1", "192.0.2.1"]
TABLE = PrefixTable({"10.0.0.0/8": 8, "2001:db8::/32": 32}, dtype=np.int16)
NAMES = PrefixTable({"10.0.0.0/8": "site", "2001:db8::/32": "six"})


def series(package: str, values: list, **more: Any) -> Any:
    module = pytest.importorskip(package)
    import ippath.frames  # noqa: F401

    return module.Series(
        name="source", **{"values" if package == "polars" else "data": values}, **more
    )


@pytest.mark.parametrize("package", ("pandas", "polars"))
def test_series_are_looked_up(package: str) -> None:
    found = series(package, TEXTS).ip.lookup(TABLE)
    assert found.name == "source" and type(found).__module__.startswith(package)
    assert found.to_list() == [8, -1, 32, -1]
    assert series(package, TEXTS).ip.lookup(NAMES, "none").to_list() == [
        "site",
        "none",
        "six",
        "none",
    ]
    assert series(package, [0x0A000001, 1]).ip.lookup(TABLE, 0).to_list() == [8, 0]
    assert series(package, []).ip.lookup(TABLE).to_list() == []


@pytest.mark.parametrize("package", ("pandas", "polars"))
def test_a_wrong_row_is_named(package: str) -> None:
    with pytest.raises(ValueError, match=r"row 1: '10\.0\.0\.256': not an IP address"):
        series(package, ["10.0.0.1", "10.0.0.256"]).ip.lookup(TABLE)


def test_the_index_of_pandas_stays() -> None:
    given = series("pandas", TEXTS, index=list("abcd"))
    for own in (given, given.astype("string[pyarrow]"), given.astype("category")):
        assert own.ip.lookup(TABLE).to_dict() == {"a": 8, "b": -1, "c": 32, "d": -1}
    assert given[::2].ip.lookup(TABLE).to_dict() == {"a": 8, "c": 32}
