"""Memory of large arrays: in large pages, where the system has them.

Look-ups go anywhere in such arrays, and with small pages the processor waits longer for its table of
pages than for the memory itself: twice as long for a million prefixes.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

import numpy as np

PAGE = 1 << 21  # bytes
LEAST = PAGE  # smaller arrays come from NumPy


def zeros(size: int, dtype: Any) -> np.ndarray:
    """An array of so many zeros."""
    kind = np.dtype(dtype)
    room = size * kind.itemsize
    if room < LEAST or kind.hasobject or not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.zeros(size, kind)
    region = mmap.mmap(-1, room + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without them
        region.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(region, np.uint8)
    begin = -whole.ctypes.data % PAGE
    return whole[begin : begin + room].view(kind)


def together(parts: list[np.ndarray]) -> np.ndarray:
    """Arrays of one type, one behind the other."""
    whole = zeros(sum(map(len, parts)), parts[0].dtype)
    return np.concatenate(parts, out=whole)


def copy_of(array: np.ndarray, used: int) -> np.ndarray:
    """The first `used` elements in memory of their own."""
    copied = zeros(used, array.dtype)
    copied[:] = array[:used]
    return copied
