"""`udp`: datagrams sent and received by sockets, each mechanism of the send side alone, two workers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import ippath.socket as socket
from ippath.batch import PacketBatch
from ippath.bench.framework import Absent, Run, Target, Variant, Workload, allowed_cpus, together
from ippath.bench.udp_kernel import AIM, BURST, PORT, KernelUdp
from ippath.config import parse_host
from ippath.netns import Netns
from ippath.verify.namespace import available, kernel_version

FAMILIES = (4, 6)
SMALL, SEGMENTS, LARGE = (
    16,
    128,
    8000,
)  # bytes of payload; segments of a message; bytes in fragments
LONG = 1400  # bytes of payload where copies count
SENDS, SEGMENTS_SENT, RECEIVES = 15e6, 40e6, 20e6  # a second per core, what should be reached
FEWER = 20  # one call each costs so much more than one of many
PARTS = 8  # calls that fill a cork
# switches by the work that shows them
BY_BATCH = ("send_lookup", "header_template", "send_accounts", "send_options", "zero_copy")
HOST = """\
ip link add d0 type dummy
ip link set d0 up
ip addr add 10.9.0.1/24 dev d0
ip addr add 2001:db8:9::1/64 dev d0
"""
SINK = HOST + "listen udp 0.0.0.0:9\nlisten udp [::]:9\n"
SOURCE = HOST.replace("10.9.0.1", "10.9.0.7").replace("9::1", "9::7")
OWN = {4: "10.9.0.1", 6: "2001:db8:9::1"}


class Udp(Workload):
    """ippath has no device: what it sends is made and dropped, or kept. Linux sends into a full TUN."""

    name = "udp"
    summary = "datagrams sent and received in memory; ippath has no device behind it, Linux has"
    unit = "datagrams"
    target = (
        "per core 15 M sends, 40 M segments, 20 M receives a second; one sendto in 1.5 times "
        "the time of the standard library's"
    )
    sizes = (100_000, 400_000)  # datagrams

    def set_up(self) -> None:
        self._cpus = allowed_cpus()
        why = available()
        self._kernel = None if why else KernelUdp()
        if why:
            self.absent.append(Absent("Linux", why))

    def tear_down(self) -> None:
        """End the kernel's process."""
        if self._kernel is not None:
            self._kernel.close()

    def variants(self) -> list[Variant]:
        found: list[Variant] = []
        for family in FAMILIES:
            found += self._many(family) + self._single(family)
            found += self._segments(family) + self._large(family) + self._received(family)
        for family in FAMILIES:
            found += self._switches(family)
        return found + self._workers()

    # --- sending --------------------------------------------------------------------------------------

    def _peer(self, group: str, name: str, units: int, what: str, *numbers: int) -> list[Variant]:
        """The kernel beside it, if it can be asked."""
        kernel = self._kernel
        if kernel is None:
            return []

        def run() -> None:
            kernel.does(what, *numbers)

        return [Variant(group, f"Linux {kernel_version()}, {name}", run, units, peer=True)]

    def _many(self, family: int) -> list[Variant]:
        group, n = f"IPv{family}, {SMALL} bytes, many in a call", self.size
        target = Target(n / SENDS)
        return [
            Variant(group, "made, no device", sending(family, n, SMALL), n, target=target),
            Variant(
                group,
                "made, kept in memory",
                sending(family, n, SMALL, keep=True),
                n,
                target=target,
            ),
            *self._peer(group, "sendmmsg, TUN", n, "sendmmsg", family, n, SMALL, 0),
        ]

    def _single(self, family: int) -> list[Variant]:
        group, n = f"IPv{family}, {SMALL} bytes, one call each", self.size // FEWER
        return [
            Variant(group, "sendto, no device", calling(family, n, "sendto"), n),
            Variant(group, "send, no device", calling(family, n, "send"), n),
            *self._peer(group, "sendto, TUN", n, "sendto", family, n, SMALL),
        ]

    def _segments(self, family: int) -> list[Variant]:
        messages = max(1, self.size // SEGMENTS)
        group, n = f"IPv{family}, {SEGMENTS} segments of {SMALL} bytes", messages * SEGMENTS
        size, target = SEGMENTS * SMALL, Target(n / SEGMENTS_SENT)
        made = sending(family, messages, size, segment=SMALL)
        kept = sending(family, messages, size, segment=SMALL, keep=True)
        return [
            Variant(group, "made, no device", made, n, target=target),
            Variant(group, "made, kept in memory", kept, n, target=target),
            *self._peer(group, "TUN", n, "sendmmsg", family, messages, size, SMALL),
        ]

    def _large(self, family: int) -> list[Variant]:
        group, n = f"IPv{family}, {LARGE:,} bytes in fragments", max(1, self.size // FEWER)
        return [
            Variant(group, "made, no device", sending(family, n, LARGE), n),
            *self._peer(group, "sendmmsg, TUN", n, "sendmmsg", family, n, LARGE, 0),
        ]

    # --- receiving ------------------------------------------------------------------------------------

    def _received(self, family: int) -> list[Variant]:
        group, n = f"IPv{family}, {SMALL} bytes, received", self.size
        batch, target = arriving(family, n), Target(n / RECEIVES)
        found = [
            Variant(
                group, f"batch sink, hint {hint}", receiving(batch, hint), n,
                before="" if hint == "off" else "batch sink, hint off", target=target,
            )
            for hint in ("off", "on")
        ]  # fmt: skip
        few = max(BURST, n // FEWER)
        return found + self._peer(group, "veth, recvmmsg", few, "recvmmsg", family, few, SMALL)

    # --- each mechanism alone -------------------------------------------------------------------------

    def _switches(self, family: int) -> list[Variant]:
        n, few = self.size, self.size // FEWER
        work: list[tuple[str, tuple[str, ...], Callable[..., Run], int]] = [
            (name, (name,), lambda **s: sending(family, n, SMALL, **s), n) for name in BY_BATCH
        ]
        work += [
            (f"zero_copy, {LONG} bytes", ("zero_copy",), lambda **s: sending(family, n, LONG, **s), n),
            ("socket_route, one call each", ("socket_route",),
             lambda **s: calling(family, few, "send", **s), few),
            (f"cork_by_reference, {PARTS} parts", ("cork_by_reference",),
             lambda **s: corking(family, few, **s), few),
            ("all of them", (*BY_BATCH, "socket_route", "cork_by_reference"),
             lambda **s: sending(family, n, SMALL, **s), n),
        ]  # fmt: skip
        return [
            Variant(
                f"IPv{family}, {title}", value, make(**{name: value for name in names}), units,
                before="off" if value == "on" else "",
            )
            for title, names, make, units in work
            for value in ("off", "on")
        ]  # fmt: skip

    # --- two workers ----------------------------------------------------------------------------------

    def _workers(self) -> list[Variant]:
        if len(self._cpus) < 2:
            self.absent.append(Absent("two workers", "this process has one CPU"))
            return []
        n, found = 4 * self.size, []
        for family in FAMILIES:
            batch = arriving(family, n)
            for what, make in (
                ("sending", lambda family=family: sending(family, n, SMALL)),
                ("receiving", lambda batch=batch: receiving(batch, "on")),
            ):
                group = f"IPv{family}, workers, {what}"
                for count in (1, 2):
                    run = together([make() for _ in range(count)], self._cpus)
                    before = "1 thread" if count == 2 else ""
                    name = "1 thread" if count == 1 else f"{count} threads"
                    found.append(Variant(group, name, run, count * n, before=before))
        return found


def _family(family: int) -> int:
    return socket.AF_INET if family == 4 else socket.AF_INET6  # type: ignore[attr-defined]


def sending(
    family: int, count: int, size: int, *, segment: int = 0, keep: bool = False, **switches: str
) -> Run:
    """A run that sends datagrams of one socket to one address, all in one call."""
    netns = Netns(parse_host(HOST), switches=switches)
    netns.keeps_output = keep
    sock = netns.socket(_family(family))
    if segment:
        sock.setsockopt(socket.SOL_UDP, socket.UDP_SEGMENT, segment)  # type: ignore[attr-defined]
    data = np.zeros(count * size, np.uint8)
    offset, length = np.arange(count) * size, np.full(count, size)

    def run() -> None:
        sent = sock.send_batch(data, offset, length, address=(AIM[family], PORT))
        netns.take_output_batches()
        if sent != count:
            raise AssertionError(f"{sent} of {count} datagrams were sent")

    return run


def calling(family: int, count: int, how: str, **switches: str) -> Run:
    """A run of so many calls of `sendto`, or of `send` by a connected socket."""
    netns = Netns(parse_host(HOST), switches=switches)
    sock, payload, to = netns.socket(_family(family)), bytes(SMALL), (AIM[family], PORT)
    sock.bind(("", 0))
    name = "UdpOutDatagrams" if family == 4 else "Udp6OutDatagrams"
    if how == "send":
        sock.connect(to)

    def run() -> None:
        before = netns.counters().get(name, 0)
        if how == "send":
            for _ in range(count):
                sock.send(payload)
        else:
            for _ in range(count):
                sock.sendto(payload, to)
        sent = netns.counters()[name] - before
        if sent != count:
            raise AssertionError(f"{sent} of {count} datagrams were sent")

    return run


def corking(family: int, count: int, **switches: str) -> Run:
    """A run of so many calls that each add a part to a datagram."""
    netns = Netns(parse_host(HOST), switches=switches)
    sock, payload = netns.socket(_family(family)), bytes(SMALL)
    sock.connect((AIM[family], PORT))
    name = "UdpOutDatagrams" if family == 4 else "Udp6OutDatagrams"
    flags = [socket.MSG_MORE] * (PARTS - 1) + [0]  # type: ignore[attr-defined]

    def run() -> None:
        before = netns.counters().get(name, 0)
        for _ in range(count // PARTS):
            for flag in flags:
                sock.send(payload, flag)
        sent = netns.counters()[name] - before
        if sent != count // PARTS:
            raise AssertionError(f"{sent} of {count // PARTS} datagrams were sent")

    return run


def arriving(family: int, count: int) -> PacketBatch:
    """Datagrams of one sender as they come to the sink."""
    netns = Netns(parse_host(SOURCE))
    netns.keeps_output = True
    sock = netns.socket(_family(family))
    data = np.zeros(count * SMALL, np.uint8)
    offset, length = np.arange(count) * SMALL, np.full(count, SMALL)
    sock.send_batch(data, offset, length, address=(OWN[family], PORT))
    return netns.take_output_batches()["d0"]


def receiving(batch: PacketBatch, hint: str) -> Run:
    """A run in which the sink receives the batch."""
    netns = Netns(parse_host(SINK), switches={"route_hint": hint})

    def run() -> None:
        before = netns.totals().verdicts["delivered"]
        netns.receive(batch)
        got = netns.totals().verdicts["delivered"] - before
        if got != len(batch):
            raise AssertionError(f"{got} of {len(batch)} datagrams were delivered")

    return run
