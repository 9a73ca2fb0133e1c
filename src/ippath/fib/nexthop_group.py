"""Choosing a member of a group of next hop objects by hash (kernel: nexthop_select_path).

Other than multipath routes, groups always leave out members whose neighbours are known not to answer,
whatever the sysctls say, and count members alike whether their links are up.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.tables import (
    INFO_BUCKET_COUNT, INFO_BUCKET_FIRST, INFO_NH_COUNT, INFO_NH_FIRST, MISC_NOW_NS,
    NEIGH_FAILED_STATE, NEIGH_STATE, NH_BOUND, NH_DEVICE, NH_GATEWAY_FAMILY, NH_HI, NH_LO, NONE,
)  # fmt: skip
from ippath.tx.emit import neighbour_row


@kernel
def _is_good(h, fib, nh):
    """Is nothing bad known of the member's neighbour (kernel: nexthop_is_good_nh)?"""
    if fib.nexthop[nh, NH_GATEWAY_FAMILY] == 0:
        return True
    row = neighbour_row(
        h, fib.nexthop[nh, NH_DEVICE], fib.nexthop[nh, NH_HI], fib.nexthop[nh, NH_LO]
    )
    return row < 0 or h.neighbour[row, NEIGH_STATE] != NEIGH_FAILED_STATE


@cold
def select_member(h, s, fib, info, hashed):
    """Row of the next hop for a 31-bit hash; never NONE.

    Kernel: nexthop_select_path_hthr; nexthop_select_path_res for resilient groups.
    """
    first = fib.info[info, INFO_NH_FIRST]
    buckets = fib.info[info, INFO_BUCKET_COUNT]
    if buckets:
        bucket = fib.info[info, INFO_BUCKET_FIRST] + hashed % buckets
        s.bucket_used[bucket] = max(1, s.misc[MISC_NOW_NS])
        return first + fib.bucket[bucket]
    good = NONE
    for nh in range(first, first + fib.info[info, INFO_NH_COUNT]):
        if not _is_good(h, fib, nh):
            continue
        if good == NONE:
            good = nh
        if hashed <= fib.nexthop[nh, NH_BOUND]:
            return nh
    return first if good == NONE else good
