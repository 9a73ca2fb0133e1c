"""The resilient groups of a host that packets go through: the path notes uses, upkeep moves buckets."""

from __future__ import annotations

import numpy as np

from ippath.fib.resilient import NEVER, ResilientTable, bucket_runs
from ippath.model import Host


def bucket_places(host: Host) -> np.ndarray:
    """`Fib.bucket`: the place of the member of each bucket among the members of its group."""
    places: list[int] = []
    for number in bucket_runs(host):
        group = host.nexthops[number]
        place = {member: k for k, (member, _) in enumerate(group.members)}
        places += [place[member] for member in group.buckets]
    return np.array(places or [0], np.int64)


class ResilientGroups:
    """The buckets of all resilient groups of a host."""

    def __init__(self, host: Host):
        self.due_ns = NEVER  # the next upkeep of any
        self.used_ns = np.zeros(1, np.int64)  # of each of `Fib.bucket`; the path writes it
        self._tables: dict[int, ResilientTable] = {}
        self.follow(host, 0)

    def follow(self, host: Host, now: int) -> None:
        """Go on with the groups of `host`, whose buckets become what is left of those in use."""
        self._take_uses()
        tables = {}
        for group in host.nexthops.values():
            if group.resilient:
                table = self._tables.get(group.id)
                if table is None or len(table.buckets) != len(group.buckets):
                    table = ResilientTable(group.members, group.buckets)
                table.set(group, now)
                tables[group.id], group.buckets = table, list(table.buckets)
        self._tables = tables
        self.used_ns = np.array(self._uses(), np.int64)
        self._note_due()

    def upkeep(self, host: Host, now: int) -> np.ndarray:
        """Do what is due; `Fib.bucket` after that.

        Routes that are remembered elsewhere stay, as in the kernel.
        """
        self._take_uses()
        for number, table in self._tables.items():
            if table.due_ns <= now and table.upkeep(now):
                host.nexthops[number].buckets = list(table.buckets)
        self.used_ns[:] = self._uses()
        self._note_due()
        return bucket_places(host)

    def _take_uses(self) -> None:
        """Take over which buckets packets used."""
        at = 0
        for table in self._tables.values():
            end = at + len(table.buckets)
            table.used_ns, at = self.used_ns[at:end].tolist(), end

    def _uses(self) -> list[int]:
        return [ns for table in self._tables.values() for ns in table.used_ns] or [0]

    def _note_due(self) -> None:
        self.due_ns = min((table.due_ns for table in self._tables.values()), default=NEVER)
