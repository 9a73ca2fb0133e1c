"""`pmtu`: sends to many destinations behind one gateway, with a route of their own each and without.

The measurement of the kernel series that made IPv6 route caching lazy: each worker sends to 10,000
destinations of its own.  Then the series' case of 80,000 destinations of which 1,000 have a smaller MTU:
entries, their memory, and the time that a listing of them takes.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping

import numpy as np

from ippath import tables as T
from ippath.batch import LINK_RAW, PacketBatch
from ippath.bench.frag_peers import Counted
from ippath.bench.framework import Absent, Variant, Workload, allowed_cpus, together
from ippath.bench.pmtu_traffic import (
    DEVICE_LINES, OWN, PORT, ROUTER, SIZE, destinations, texts,
)  # fmt: skip
from ippath.config import parse_host
from ippath.learned import learned
from ippath.netns import Netns
from ippath.verify.namespace import available, kernel_version
from ippath.verify.packets import icmp, icmp6, ip4, ip6

DESTINATIONS = 10_000  # of each worker
KNOWN, SMALLER, MTU = 80_000, 1_000, 1300  # destinations, those with a smaller MTU, bytes
WORKERS = (1, 2)
HOST = f"link set lo up\nlink add r0 type tun\n{DEVICE_LINES.replace(' nodad', '')}"
CACHES = ("lazy", "eager")


class Pmtu(Workload):
    """Sends to one destination and to many, by both ways to cache routes."""

    name = "pmtu"
    summary = "UDP sends to many destinations behind one gateway; what is learned of some of them"
    unit = "sends, listings"
    target = "lazy: 10,000 destinations at no less than 0.97 times the rate of one"
    quantities = {"entries": "entries", "memory": "MB"}
    sizes = (100_000, 400_000)  # datagrams to a run

    def set_up(self) -> None:
        self._peers: list[Counted] = []
        self._cpus = allowed_cpus()
        self._no_kernel = available()
        if self._no_kernel:
            self.absent.append(Absent("Linux", self._no_kernel))

    def tear_down(self) -> None:
        """End the kernel's processes."""
        for process in self._peers:
            process.close()

    def variants(self) -> list[Variant]:
        found: list[Variant] = []
        for family in (6, 4):
            found += self._sends(family) + self._workers(family)
        return found + [self._listing(family, cache) for family in (6, 4) for cache in CACHES]

    def _sends(self, family: int) -> list[Variant]:
        group = f"IPv{family}, sends of {SIZE} bytes"
        one = f"lazy, to 1 of {DESTINATIONS:,}"
        cases = (
            (one, "lazy", 1, ""),
            (f"lazy, to {DESTINATIONS:,}", "lazy", DESTINATIONS, one),
            (f"eager, to {DESTINATIONS:,}", "eager", DESTINATIONS, f"lazy, to {DESTINATIONS:,}"),
        )
        found = [
            Variant(group, name, Sender(family, cache, many, self.size).run, self.size, before)
            for name, cache, many, before in cases
        ]
        if not self._no_kernel:
            for many in (1, DESTINATIONS):
                words = [sys.executable, "-m", "ippath.bench.pmtu_kernel"]
                words += map(str, (family, many, self.size))
                process = Counted("the kernel", words, self.size, "sent {} datagrams")
                self._peers.append(process)
                name = f"Linux {kernel_version()}, to {many:,}"
                found.append(Variant(group, name, process.run, self.size, peer=True))
        return found

    def _workers(self, family: int) -> list[Variant]:
        group = f"IPv{family}, workers that send to {DESTINATIONS:,} each"
        found = []
        for cache in CACHES:
            for count in WORKERS:
                senders = [Sender(family, cache, DESTINATIONS, self.size) for _ in range(count)]
                run = together([sender.run for sender in senders], self._cpus)
                before = f"{cache}, {WORKERS[0]} worker" if count > WORKERS[0] else ""
                name = f"{cache}, {count} worker{'s' * (count > 1)}"
                found.append(Variant(group, name, run, count * self.size, before))
        return found

    def _listing(self, family: int, cache: str) -> Variant:
        """`route show cache` after sends to all destinations and reports about some."""
        sender = Sender(family, cache, KNOWN, KNOWN)
        sender.run()
        sender.learn(texts(family, KNOWN)[:: KNOWN // SMALLER])
        group = f"IPv{family}, listing {KNOWN:,} destinations, {SMALLER:,} with a smaller MTU"
        return Variant(group, cache, sender.list, 1, "" if cache == "lazy" else "lazy")


class Sender:
    """One worker: a host with tables, counters and route entries of its own, and a socket."""

    def __init__(self, family: int, cache: str, many: int, count: int):
        self._family, self._expected = family, SMALLER if cache == "lazy" else KNOWN
        self._netns = Netns(parse_host(HOST, name="bench"), switches={"route_cache": cache})
        kind = socket.AF_INET if family == 4 else socket.AF_INET6
        self._socket = self._netns.socket(kind, socket.SOCK_DGRAM)
        self._data = np.zeros(SIZE, np.uint8)
        self._offset = np.zeros(count, np.int64)
        self._length = np.full(count, SIZE, np.int64)
        addresses = destinations(family, many)
        self._addresses = addresses[np.arange(count) % many]

    def run(self) -> None:
        """Send all; raises AssertionError if one was not."""
        done = self._socket.send_batch(
            self._data, self._offset, self._length, addresses=self._addresses, ports=PORT
        )
        if done != len(self._offset):
            raise AssertionError(f"{done} of {len(self._offset)} datagrams were sent")

    def learn(self, destinations: list[str]) -> None:
        """Hear from a router of smaller MTUs on the way to these."""
        own, router = OWN[self._family], ROUTER[self._family]
        if self._family == 4:
            packets = [
                ip4(router, own, icmp(3, 4, MTU, ip4(own, to, icmp(0, 0, 1))))
                for to in destinations
            ]
        else:
            packets = [
                ip6(router, own, icmp6(2, 0, MTU, ip6(own, to, icmp6(129, 0, 1))))
                for to in destinations
            ]
        batch = PacketBatch.from_packets(packets, link_type=LINK_RAW)
        batch.device = np.full(len(packets), self._netns.device_row("r0"), np.int32)
        self._netns.receive(batch)

    def list(self) -> Mapping[str, float]:
        """List all entries as text; raises AssertionError if they are not as many as they should be."""
        text = "".join(one.text() for one in learned(self._netns, self._family))
        count = text.count("dev r0")
        if count != self._expected:
            raise AssertionError(f"{count} entries, expected {self._expected}")
        return {"entries": count, "memory": count * T.EXC_COLUMNS * 8 / 1e6}
