"""The resilient groups of a host that packets go through: the path notes uses, upkeep moves buckets."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ippath.fib.resilient import NEVER, ResilientTable, resilient_groups
from ippath.model import Host, NexthopObject


def bucket_places(groups: Iterable[NexthopObject | ResilientTable]) -> np.ndarray:
    """`Fib.bucket`: the place of the member of each bucket among the members of its group."""
    places: list[int] = []
    for group in groups:
        place = {member: k for k, (member, _) in enumerate(group.members)}
        places += [place[member] for member in group.buckets]
    return np.array(places or [0], np.int64)


class ResilientGroups:
    """The buckets of all resilient groups of a host, as packets go through them.

    What is done to the host takes effect when `follow` is called, and not before.
    """

    def __init__(self, host: Host):
        self.due_ns = NEVER  # the next upkeep of any
        self.used_ns = np.zeros(1, np.int64)  # of each of `Fib.bucket`; the path writes it
        self._tables: dict[int, ResilientTable] = {}
        self.follow(host, 0)

    def follow(self, host: Host, now: int) -> None:
        """Go on with the groups of `host`, whose buckets become what is left of those in use."""
        tables = {}
        for group in resilient_groups(host):
            table = self._tables.get(group.id)
            if table is None or len(table.buckets) != len(group.buckets):
                table = ResilientTable(group.members, group.buckets)
            table.set(group, now)
            tables[group.id], group.buckets = table, table.buckets  # from now on, one list
        self._tables = tables
        uses = [ns for table in tables.values() for ns in table.used_ns]
        self.used_ns = np.array(uses or [0], np.int64)
        at = 0
        for table in tables.values():
            end = at + len(table.buckets)
            table.used_ns, at = self.used_ns[at:end], end
        self._note_due()

    def upkeep(self, now: int) -> np.ndarray:
        """Do what is due; `Fib.bucket` after that.

        Routes that are remembered elsewhere stay, as in the kernel.
        """
        for table in self._tables.values():
            if table.due_ns <= now:
                table.upkeep(now)
        self._note_due()
        return bucket_places(self._tables.values())

    def _note_due(self) -> None:
        self.due_ns = min((table.due_ns for table in self._tables.values()), default=NEVER)
