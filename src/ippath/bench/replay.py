"""`replay`: from a memory-mapped capture to the socket or to the next device, 64-byte UDP frames."""

from __future__ import annotations

from pathlib import Path

from ippath.bench import traffic
from ippath.bench.framework import Run, Target, Variant, Workload
from ippath.bench.peers import Parser, find_parsers
from ippath.model import Host
from ippath.netns import Netns

PACKETS_PER_SECOND = 10_000_000  # what a core should do
TRAFFIC = [(family, random) for family in (4, 6) for random in (False, True)]
HINTS = ("off", "on", "strict")
DELIVERED, FORWARDED = "delivered", "forwarded"


class Replay(Workload):
    """Reading, header check, route, source check; UDP checksum and socket look-up, or forwarding."""

    name = "replay"
    summary = "64-byte UDP frames from a mapped capture to the socket, or out by another device"
    unit = "packets"
    target = "at least 10 M packets/s per core, from the file to the socket"
    sizes = (20_000_000, 80_000_000)

    def set_up(self) -> None:
        self.packets = max(1, self.size // traffic.RECORD)
        self.captures: dict[tuple[int, bool], Path] = {}
        for family, random in TRAFFIC:
            path = self.folder / f"ipv{family}-{'random' if random else 'one'}.pcap"
            frames = traffic.udp_frames(family, self.packets, random)
            self.captures[family, random] = traffic.save(path, frames)
        self.parsers, self.absent = find_parsers()

    def variants(self) -> list[Variant]:
        receiver, router = hosts(traffic.receiver()), hosts(traffic.router())
        found = []
        for (family, random), path in self.captures.items():
            group = group_name(family, "local", random)
            found += self._hints(group, path, receiver, DELIVERED)
            if not random:  # readers and peers look no further than the ports
                run = reading(path, self.packets)
                found.append(Variant(group, "reading alone", run, self.packets))
                found += [self._peer(group, path, parser) for parser in self.parsers]
        for (family, random), path in self.captures.items():
            found += self._hints(group_name(family, "forward", random), path, router, FORWARDED)
        return found

    def _hints(
        self, group: str, path: Path, netns: dict[str, Netns], verdict: str
    ) -> list[Variant]:
        target = Target(self.packets / PACKETS_PER_SECOND) if verdict == DELIVERED else None
        return [
            Variant(
                group, f"hint {hint}", replaying(path, netns[hint], self.packets, verdict),
                self.packets, before="" if hint == "off" else "hint off", target=target,
            )
            for hint in HINTS
        ]  # fmt: skip

    def _peer(self, group: str, path: Path, parser: Parser) -> Variant:
        packets = min(self.packets, parser.packets)
        return Variant(group, parser.name, parsing(parser, path, packets), packets, peer=True)


def group_name(family: int, way: str, random: bool) -> str:
    """Which traffic: `IPv4 local, random`."""
    return f"IPv{family} {way}, {'random' if random else 'one address'}"


def hosts(host: Host) -> dict[str, Netns]:
    """The host under each setting of the route hint."""
    return {hint: Netns(host, switches={"route_hint": hint}) for hint in HINTS}


def replaying(path: Path, netns: Netns, packets: int, verdict: str) -> Run:
    """A run that receives the whole capture, and makes sure that all of it got this verdict."""
    from ippath.capture import open_captures

    def run() -> None:
        before = netns.totals().verdicts[verdict]
        with open_captures([str(path)]) as captures:
            rows = None
            for batch in captures:
                if rows is None:
                    rows = netns.map_interfaces(captures.interfaces, "eth0")
                batch.device = rows[batch.device]
                netns.receive(batch, continue_list=True)
        got = netns.totals().verdicts[verdict] - before
        if got != packets:
            raise AssertionError(f"{got} of {packets} packets were {verdict}")

    return run


def reading(path: Path, packets: int) -> Run:
    """A run that maps and indexes the capture and does nothing with it."""
    from ippath.capture import open_captures

    def run() -> None:
        with open_captures([str(path)]) as captures:
            seen = sum(len(batch) for batch in captures)
        if seen != packets:
            raise AssertionError(f"{seen} of {packets} packets were read")

    return run


def parsing(parser: Parser, path: Path, packets: int) -> Run:
    """A run of a peer over the first packets of the capture."""

    def run() -> None:
        seen = parser.parse(path, packets)
        if seen != packets:
            raise AssertionError(f"it saw {seen} of {packets} packets")

    return run
