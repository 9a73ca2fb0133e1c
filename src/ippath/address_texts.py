"""Many addresses as text at a time, as `ipaddress` writes them, in Arrow and NumPy."""

from __future__ import annotations

import functools
import ipaddress
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

_MAPPED = 0xFFFF  # sixth word of ::ffff:0.0.0.0/96, which newer versions of Python write with dots


def ipv4_texts(packed: np.ndarray) -> pa.StringArray:
    """IPv4 addresses, uint8[n, 4], as `198.51.100.1`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    octets = pa.array([str(k) for k in range(256)])
    parts = [octets.take(pa.array(np.ascontiguousarray(packed[:, k]))) for k in range(4)]
    return pc.binary_join_element_wise(*parts, ".")


@functools.cache
def _hex_words() -> Any:
    """All 16-bit words as hexadecimal text, a megabyte."""
    import pyarrow as pa

    return pa.array([f"{word:x}" for word in range(1 << 16)])


def ipv6_texts(packed: np.ndarray) -> pa.StringArray:
    """IPv6 addresses, uint8[n, 16], as `2001:db8::1` (RFC 5952).

    The longest run of two or more zero words, the first of equal ones, becomes `::`.  Addresses are
    taken together by where that run is.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    words = np.ascontiguousarray(packed).view(">u2").astype(np.int32)
    start, length = _longest_zeros(words)
    shape = np.where(length >= 2, 9 * start + length, 0)
    mapped = (start == 0) & (length == 5) & (words[:, 5] == _MAPPED)
    shape[mapped] = -1
    pieces, order = [pa.array([], pa.string())], []
    for one in np.unique(shape):
        rows = np.flatnonzero(shape == one)
        order.append(rows)
        if one < 0:
            pieces.append(pa.array([str(ipaddress.IPv6Address(packed[k].tobytes())) for k in rows]))
            continue
        first, count = divmod(int(one), 9)
        texts: list[Any] = [_hex_words().take(pa.array(words[rows, k])) for k in range(8)]
        if count:
            head, tail = texts[:first], texts[first + count :]
            texts = [*(head or [""]), "", *(tail or [""])]
        if not any(isinstance(t, pa.Array) for t in texts):
            pieces.append(pa.array(["::"] * len(rows)))
        else:
            pieces.append(pc.binary_join_element_wise(*texts, ":"))
    back = np.empty(len(packed), np.int64)
    if order:
        back[np.concatenate(order)] = np.arange(len(packed))
    return pa.concat_arrays(pieces).take(pa.array(back))


def _longest_zeros(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start and length of the longest run of zeros in each row, the first of equal ones."""
    run = np.zeros((len(words), 9), np.int32)
    for k in range(7, -1, -1):
        run[:, k] = (words[:, k] == 0) * (run[:, k + 1] + 1)
    start = run.argmax(axis=1)
    return start, run[np.arange(len(words)), start]
