"""A network in one process: hosts joined by links, and the clock that they share.

Nothing sleeps: time jumps to the next packet that arrives.  Loss is drawn from a seed, so that a run
repeats.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ippath import tables as T
from ippath.batch import LINK_ETHERNET, PacketBatch
from ippath.model import Host
from ippath.netns import Netns, Sender

SECOND = 10**9
ETHER_HEADER = 14


@dataclass(frozen=True)
class Link:
    """How a link carries packets, the same both ways.

    `delay` is in seconds, `loss` the share of packets that vanish, `rate` in bits a second (None: as
    fast as may be), `mtu` what both devices are set to (None: it stays), `queue` how many bytes wait
    at a device at most while the link is busy; more are dropped.
    """

    delay: float = 0.0
    loss: float = 0.0
    rate: float | None = None
    mtu: int | None = None
    queue: int = 1 << 20

    def __post_init__(self) -> None:
        if self.delay < 0 or not 0 <= self.loss <= 1 or (self.rate is not None and self.rate <= 0):
            raise ValueError(f"no link is like this: {self}")


@dataclass
class LinkCounts:
    """What one direction of a link did so far, in packets."""

    sent: int = 0
    lost: int = 0
    queue_full: int = 0
    bytes: int = 0


@dataclass
class _End:
    """A device, and the link that leads on from it."""

    link: Link
    netns: Netns
    device: str
    far: _End | None = None
    busy_until: int = 0
    counts: LinkCounts = field(default_factory=LinkCounts)


class _Event(NamedTuple):
    time: int
    order: int
    call: Callable[[], None] | None  # None: a packet arrives
    end: _End | None = None
    packet: bytes = b""
    kind: int = 0


class Lab:
    """Hosts, links and a clock in nanoseconds.

    >>> lab = Lab(seed=1)
    >>> lab.connect(client, "eth0", server, "eth0", Link(delay=0.01, loss=0.1))
    >>> lab.run(1.0)
    """

    def __init__(self, *, seed: int = 0, start_ns: int = 0):
        self.now_ns = start_ns
        self._chance = random.Random(seed)
        self._hosts: list[Netns] = []
        self._ends: dict[tuple[int, str], _End] = {}
        self._events: list[_Event] = []
        self._order = itertools.count()
        self._handlers: dict[int, Callable[[], None]] = {}

    # --- building -------------------------------------------------------------------------------------

    def add(self, host: Netns | Host) -> Netns:
        """Take a host into the lab; from now on its clock is the lab's.

        Raises ValueError if it belongs to another lab.
        """
        netns = host if isinstance(host, Netns) else Netns(host, seed=len(self._hosts))
        if netns.world is self:
            return netns
        if netns.world is not None:
            raise ValueError("the host belongs to another lab")
        netns.world, netns.keeps_output = self, True
        self._hosts.append(netns)
        netns.advance(self.now_ns)
        return netns

    def connect(
        self, one: Netns, device: str, other: Netns, far_device: str, link: Link | None = None
    ) -> None:
        """Join two devices.  Raises ValueError for a device that does not exist or has a link."""
        link = link or Link()
        ends = []
        for netns, name in ((one, device), (other, far_device)):
            self.add(netns)
            found = netns.host.device(name)
            if found is None:
                raise ValueError(f"the host has no device {name}")
            if (id(netns), name) in self._ends:
                raise ValueError(f"device {name} has a link already")
            if link.mtu is not None:
                found.mtu = link.mtu
                netns.change(netns.host)
            ends.append(_End(link, netns, name))
        ends[0].far, ends[1].far = ends[1], ends[0]
        for end in ends:
            self._ends[id(end.netns), end.device] = end

    def counts(self, netns: Netns, device: str) -> LinkCounts:
        """What the link did with packets from this device."""
        return self._ends[id(netns), device].counts

    # --- time -----------------------------------------------------------------------------------------

    def call_at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Call something when the clock is there; at once if it is past."""
        when = max(time_ns, self.now_ns)
        heapq.heappush(self._events, _Event(when, next(self._order), call))

    def next_event_ns(self) -> int | None:
        """When something happens next: a packet, a call, fragments that expire; None: never."""
        due = [self._events[0].time] if self._events else []
        never = 1 << 62
        due += [int(n.state.frag_misc[T.FM_DUE_NS]) for n in self._hosts]
        soonest = min(due, default=never)
        return None if soonest >= never else max(soonest, self.now_ns)

    def step(self, until_ns: int | None = None) -> bool:
        """Go on to the next event, at most to `until_ns`; False if nothing will ever happen."""
        due = self.next_event_ns()
        if due is None or (until_ns is not None and due > until_ns):
            if until_ns is None:
                return False
            self._set_clock(until_ns)
            return True
        self._set_clock(due)
        while self._events and self._events[0].time <= self.now_ns:
            event = heapq.heappop(self._events)
            if event.call is not None:
                event.call()
            else:
                self._arrive(event)
        return True

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until = self.now_ns + round(seconds * SECOND)
        while self.now_ns < until:
            self.step(until)

    def run_until_idle(self, most: float = 3600.0) -> None:
        """Let time pass until nothing is on its way, for `most` seconds at the longest."""
        until = self.now_ns + round(most * SECOND)
        while (due := self.next_event_ns()) is not None and due <= until:
            self.step(until)

    def _set_clock(self, time_ns: int) -> None:
        self.now_ns = max(self.now_ns, time_ns)
        for netns in self._hosts:
            if netns.state.frag_misc[T.FM_DUE_NS] <= self.now_ns:
                netns.advance(self.now_ns, collect_output=True)
                self.sent(netns)
            misc = netns.state.misc
            misc[T.MISC_NOW_NS] = max(misc[T.MISC_NOW_NS], self.now_ns)

    # --- packets --------------------------------------------------------------------------------------

    def sent(self, netns: Netns, sender: Sender | None = None) -> None:
        """Put what the host sent on its links; `sender` is charged until it has left the device."""
        for device, batch in netns.take_output_batches().items():
            end = self._ends.get((id(netns), device))
            if end is not None:
                for packet, kind in zip(batch, batch.link_type.tolist()):
                    self._carry(end, packet, kind, sender)

    def _carry(self, end: _End, packet: bytes, kind: int, sender: Sender | None) -> None:
        link, counts = end.link, end.counts
        leaves = max(self.now_ns, end.busy_until)
        if link.rate is not None:
            if (leaves - self.now_ns) * link.rate > link.queue * 8 * SECOND:
                counts.queue_full += 1
                return
            leaves += round(len(packet) * 8 * SECOND / link.rate)
            end.busy_until = leaves
            if sender is not None:
                sender.charge_wire(len(packet))
                self.call_at(leaves, lambda: sender.charge_wire(-len(packet)))
        counts.sent += 1
        counts.bytes += len(packet)
        if link.loss and self._chance.random() < link.loss:
            counts.lost += 1
            return
        arrives = leaves + round(link.delay * SECOND)
        event = _Event(arrives, next(self._order), None, end.far, packet, kind)
        heapq.heappush(self._events, event)

    def _arrive(self, event: _Event) -> None:
        """Receive the packet, and those that come by the same link at the same time."""
        end = event.end
        assert end is not None
        packets = [self._addressed(end, event)]
        while self._events:
            more = self._events[0]
            if more.time != event.time or more.end is not end or more.kind != event.kind:
                break
            packets.append(self._addressed(end, heapq.heappop(self._events)))
        netns = end.netns
        batch = PacketBatch.from_packets(
            packets, link_type=event.kind, device=netns.device_row(end.device), time_ns=self.now_ns
        )
        netns.receive(batch, collect_output=True)
        self.sent(netns)

    def _addressed(self, end: _End, event: _Event) -> bytes:
        """The frame as it reaches the device: neighbours know each other's link-level address."""
        mac = int(end.netns.tables.device[end.netns.device_row(end.device), T.DEV_MAC])
        packet = event.packet
        if event.kind != LINK_ETHERNET or mac == T.NONE or packet[0] & 1:
            return packet
        return mac.to_bytes(6) + packet[6:]
