"""`series.ip` for pandas and polars: import this module, and columns of addresses can be looked up.

    frame["asn"] = frame["source"].ip.lookup(table)

Nothing else needs either package; those that are installed get the accessor.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from ippath.prefix.table import PrefixTable

_NO_DEFAULT: Any = object()


class Addresses:
    """A series of addresses: text, bytes or numbers, as `PrefixTable.lookup` takes them."""

    def __init__(self, series: Any):
        self._series = series

    def lookup(self, table: PrefixTable, default: Any = _NO_DEFAULT) -> Any:
        """A series with the value of the longest prefix of each address, under the same name.

        Missing addresses and those without a prefix get `default`, or the table's `missing`.
        ValueError names the first row that is no address.
        """
        more = () if default is _NO_DEFAULT else (default,)
        return self._like(table.lookup(self._series, *more))

    def _like(self, values: np.ndarray) -> Any:
        raise NotImplementedError


class PandasAddresses(Addresses):
    """`.ip` of a pandas series; the index stays."""

    def _like(self, values: np.ndarray) -> Any:
        return type(self._series)(values, index=self._series.index, name=self._series.name)


class PolarsAddresses(Addresses):
    """`.ip` of a polars series."""

    def _like(self, values: np.ndarray) -> Any:
        given = values.tolist() if values.dtype == object else values
        return type(self._series)(self._series.name, given)


if find_spec("pandas"):
    from pandas.api.extensions import register_series_accessor

    register_series_accessor("ip")(PandasAddresses)

if find_spec("polars"):
    from polars.api import register_series_namespace

    register_series_namespace("ip")(PolarsAddresses)
