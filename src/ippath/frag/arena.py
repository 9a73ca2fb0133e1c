"""The arrays of the engine: made, and made larger between two bursts, by the control side.

The engine's limits are the kernel's, in bytes charged; the arrays follow what it really holds, so
that thresholds of many gigabytes cost nothing until the fragments come.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ippath import tables as T
from ippath.frag.store import RESERVED_BLOCKS, RESERVED_ROWS
from ippath.frag.wheel import NEVER

QUEUES, FRAGMENTS, BLOCKS = 1 << 10, 1 << 14, 1 << 12  # to begin with
# how the fragments of a datagram are kept (STORE_*)
STORES = {"runs": T.STORE_RUNS, "tree": T.STORE_TREE, "list": T.STORE_LIST}
# bytes of struct frag_queue (ipq: struct ipq) on x86-64
QUEUE_CHARGE = {T.FQDIR_IPV4: 200, T.FQDIR_IPV6: 184, T.FQDIR_CONNTRACK6: 184, T.FQDIR_LOWPAN: 184}
# what a directory counts, in the order in which people read it: fragments, unless said otherwise
STATISTICS = {
    "fragments": T.FQDIR_FRAGMENTS,
    "reassembled": T.FQDIR_DATAGRAMS,  # datagrams
    "joined": T.FQDIR_JOINED,  # fragments that became datagrams
    "duplicates": T.FQDIR_DUPLICATES,
    "overlaps": T.FQDIR_OVERLAPS,
    "invalid": T.FQDIR_INVALID,
    "too_far": T.FQDIR_TOO_FAR,
    "refused": T.FQDIR_REFUSED,  # over the memory limit
    "expired": T.FQDIR_EXPIRED,
    "discarded": T.FQDIR_DISCARDED,  # held, and let go with their datagram
    "ecn": T.FQDIR_ECN,  # datagrams whose fragments disagree
    "oversize": T.FQDIR_OVERSIZE,  # datagrams
    "memory": T.FQDIR_MEM,  # bytes charged now
    "memory_peak": T.FQDIR_PEAK,
}
_SEED_STEP, _SEED_MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1


def new_arena(seed: int) -> dict[str, np.ndarray]:
    """The fields of `State` that reassembly uses, empty; `seed` is the secret of the hash."""
    misc = np.zeros(T.FM_COLUMNS, np.int64)
    misc[[T.FM_QUEUE_FREE, T.FM_FRAG_FREE, T.FM_BLOCK_FREE]] = T.NONE
    misc[T.FM_DUE_NS] = NEVER
    for k in range(T.SECRETS):
        misc[T.FM_SECRET_0 + k] = _secret(seed, k)
    misc[T.FM_RANDOM] = _secret(seed, T.SECRETS) or 1
    fqdir = np.zeros((T.FQDIRS, T.FQDIR_COLUMNS), np.int64)
    fqdir[:, [T.FQDIR_OLDEST, T.FQDIR_NEWEST]] = T.NONE
    for directory, size in QUEUE_CHARGE.items():
        fqdir[directory, T.FQDIR_QUEUE_CHARGE] = size
    lw = np.zeros(T.LW_COLUMNS, np.int64)
    lw[T.LW_STRICT] = 1
    return {
        "fqdir": fqdir,
        "fq": _rows(QUEUES, T.FQ_COLUMNS, T.FQ_DIR),
        "fq_bucket": np.full(QUEUES, T.NONE, np.int64),
        "fq_wheel": np.full((T.WHEEL_SLOTS, T.WHEEL_COLUMNS), T.NONE, np.int64),
        "frag": np.zeros((FRAGMENTS, T.FRAG_COLUMNS), np.int64),
        "frag_link": np.zeros(BLOCKS, np.int64),
        "frag_data": np.zeros(BLOCKS * T.FRAG_BLOCK_BYTES, np.uint8),
        "frag_misc": misc,
        "datagram": np.zeros(T.DATAGRAM_BYTES, np.uint8),
        "joined": np.zeros(T.MOST_FRAGMENTS, np.int64),
        "pieces": np.zeros(T.MOST_FRAGMENTS, np.int64),
        "overlaps": np.zeros((0, T.OVERLAP_COLUMNS), np.int64),
        "lw": lw,
        "lowpan": np.zeros(T.LOWPAN_BYTES, np.uint8),
        "context": np.full((T.CONTEXTS, T.CONTEXT_COLUMNS), T.NONE, np.int64),
    }


def set_contexts(context: np.ndarray, prefixes: dict[int, tuple[int, int]]) -> None:
    """Set the contexts of 6LoWPAN: number -> (prefix, length); all others are not active."""
    context[:] = T.NONE
    for number, (prefix, plen) in prefixes.items():
        words = np.array([prefix >> 64, prefix & (1 << 64) - 1], np.uint64).view(np.int64)
        context[number] = [plen, *words]


def _secret(seed: int, number: int) -> int:
    """A word of 32 bits that follows from the seed (splitmix64, Steele et al. 2014)."""
    word = (seed * 64 + number + 1) * _SEED_STEP & _SEED_MASK
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _SEED_MASK
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _SEED_MASK
    return (word ^ word >> 31) >> 32


def set_limits(
    fqdir: np.ndarray,
    directory: int,
    *,
    high: int,
    low: int = 0,
    timeout_ns: int,
    max_dist: int = 0,
) -> None:
    """Set the limits of one directory: bytes, nanoseconds, fragments.  Valid from now on."""
    fqdir[directory, T.FQDIR_HIGH] = high
    fqdir[directory, T.FQDIR_LOW] = low
    fqdir[directory, T.FQDIR_TIMEOUT_NS] = timeout_ns
    fqdir[directory, T.FQDIR_MAX_DIST] = max_dist


def statistics(directory: np.ndarray) -> dict[str, int]:
    """What a row of `State.fqdir` has counted, by the names of STATISTICS."""
    return {name: int(directory[column]) for name, column in STATISTICS.items()}


def grown(state: Any) -> dict[str, np.ndarray]:
    """Larger arrays with the same content, for those that are short."""
    misc = state.frag_misc
    larger: dict[str, np.ndarray] = {}
    while misc[T.FM_FRAG_USED] + RESERVED_ROWS > len(larger.get("frag", state.frag)):
        larger["frag"] = _twice(larger.get("frag", state.frag))
    if misc[T.FM_BLOCK_USED] + RESERVED_BLOCKS > len(state.frag_link):
        larger["frag_link"], larger["frag_data"] = _twice(state.frag_link), _twice(state.frag_data)
    if misc[T.FM_QUEUE_USED] >= len(state.fq):
        larger["fq"] = fq = _rows(2 * len(state.fq), T.FQ_COLUMNS, T.FQ_DIR)
        fq[: len(state.fq)] = state.fq
        larger["fq_bucket"] = _hashed_again(fq, 2 * len(state.fq_bucket))
    misc[T.FM_SHORT] = 0
    return larger


def _rows(count: int, columns: int, free_mark: int) -> np.ndarray:
    rows = np.zeros((count, columns), np.int64)
    rows[:, free_mark] = T.NONE
    return rows


def _twice(array: np.ndarray) -> np.ndarray:
    larger = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _hashed_again(fq: np.ndarray, buckets: int) -> np.ndarray:
    """New hash buckets; the links between queues of a bucket are written into `fq`."""
    live = np.nonzero(fq[:, T.FQ_DIR] != T.NONE)[0]
    bucket = fq[live, T.FQ_HASH] & (buckets - 1)
    order = np.argsort(bucket, kind="stable")
    live, bucket = live[order], bucket[order]
    same = bucket[1:] == bucket[:-1]
    fq[live[:-1], T.FQ_NEXT] = np.where(same, live[1:], T.NONE)
    first = np.full(buckets, T.NONE, np.int64)
    if len(live):
        fq[live[-1], T.FQ_NEXT] = T.NONE
        begins = np.concatenate([[True], ~same])
        first[bucket[begins]] = live[begins]
    return first
