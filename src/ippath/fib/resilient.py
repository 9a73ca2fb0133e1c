"""The buckets of resilient groups: whose they are, and when they go to another member.

A bucket that packets took lately stays with its member, although others should have more; it goes when
it has been idle for a while, or the group out of balance for too long (kernel: nexthop.c,
nh_res_table_upkeep).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ippath.model import Host, NexthopObject

if TYPE_CHECKING:
    import numpy as np

Members = list[tuple[int, int]]  # number and weight
SECOND = 10**9
LEAST_WAIT = SECOND // 2  # between two rounds (kernel: NH_RES_UPKEEP_DW_MINIMUM_INTERVAL)
NEVER = 2**63 - 1


def wanted(members: Members, buckets: int) -> dict[int, int]:
    """How many buckets each member should have (kernel: nh_res_group_rebalance)."""
    total, weights, given = sum(weight for _, weight in members), 0, 0
    wants: dict[int, int] = {}
    for number, weight in members:
        weights += weight
        bound = (buckets * weights + total // 2) // total
        wants[number] = bound - given
        given = bound
    return wants


def shared_out(members: Members, buckets: list[int]) -> list[int]:
    """The member of each bucket after a change, if packets used none of them lately."""
    table = ResilientTable(members, buckets)
    table.upkeep(0)
    return table.buckets


def resilient_groups(host: Host) -> list[NexthopObject]:
    """The resilient groups of a host, in the order of their buckets in `Fib.bucket`."""
    return [nexthop for nexthop in host.nexthops.values() if nexthop.resilient]


def bucket_runs(host: Host) -> dict[int, tuple[int, int]]:
    """Where the buckets of each group are in `Fib.bucket`: the first, and how many."""
    runs, first = {}, 0
    for group in resilient_groups(host):
        runs[group.id] = first, len(group.buckets)
        first += len(group.buckets)
    return runs


class ResilientTable:
    """The buckets of one group and when packets took them last (kernel: struct nh_res_table)."""

    def __init__(self, members: Members, buckets: list[int]):
        self.members, self.buckets = list(members), list(buckets)
        self.used_ns: list[int] | np.ndarray = [0] * len(buckets)  # 0: not since the member has it
        self.idle_ns = self.unbalanced_ns = 0  # the latter 0: it may take as long as it takes
        self.unbalanced_since_ns = -1  # -1: it is not
        self.due_ns = NEVER  # the next upkeep

    def set(self, group: NexthopObject, now: int) -> None:
        """Take members and timers of the group as they are now (kernel: replace_nexthop_grp_res)."""
        timers = round(group.idle_timer * SECOND), round(group.unbalanced_timer * SECOND)
        if (timers, group.members) != ((self.idle_ns, self.unbalanced_ns), self.members):
            self.idle_ns, self.unbalanced_ns = timers
            self.members = list(group.members)
            self.upkeep(now)

    def upkeep(self, now: int) -> bool:
        """Let buckets go that members have too many of and may; whether one did."""
        wants = wanted(self.members, len(self.buckets))
        has = {number: self.buckets.count(number) for number in wants}
        # who has too few, the last of the group first
        poor = [number for number in reversed(wants) if has[number] < wants[number]]
        if poor and self.unbalanced_since_ns < 0:
            self.unbalanced_since_ns = now
        due, moved = now + (self.unbalanced_ns or self.idle_ns), False
        for k, number in enumerate(self.buckets):
            if number in wants:
                if has[number] <= wants[number]:
                    continue
                stays = self._stays_until(k)
                if now < stays:
                    due = min(due, stays)
                    continue
                has[number] -= 1
            taker = poor[0]
            self.buckets[k], self.used_ns[k], moved = taker, 0, True
            has[taker] += 1
            if has[taker] == wants[taker]:
                poor.pop(0)
        if not poor:
            self.unbalanced_since_ns = -1
        self.due_ns = max(due, now + LEAST_WAIT) if poor else NEVER
        return moved

    def _stays_until(self, k: int) -> int:
        """When a bucket of a member with too many may go (kernel: nh_res_bucket_should_migrate)."""
        if self.used_ns[k] == 0:
            return 0
        until = int(self.used_ns[k]) + self.idle_ns
        if self.unbalanced_ns:
            until = min(until, self.unbalanced_since_ns + self.unbalanced_ns)
        return until
