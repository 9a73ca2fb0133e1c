"""`replay`: from a memory-mapped capture to the socket, 64-byte UDP frames."""

from __future__ import annotations

from pathlib import Path

from ippath.bench import traffic
from ippath.bench.framework import Run, Variant, Workload
from ippath.bench.peers import Parser, find_parsers
from ippath.netns import Netns

CASES = {
    "IPv4, one destination": (4, False),
    "IPv4, random destinations": (4, True),
    "IPv6, one destination": (6, False),
    "IPv6, random destinations": (6, True),
}


class Replay(Workload):
    """Reading, header check, route, UDP checksum, socket look-up."""

    name = "replay"
    summary = "64-byte UDP frames from a mapped capture to the socket that takes them"
    unit = "packets"
    target = "at least 10 M packets/s per core"

    def set_up(self) -> None:
        from ippath import jit

        self.packets = 2_000 if not jit.COMPILED else 250_000 if self.quick else 1_000_000
        self.peer_packets = min(self.packets, 1_000 if self.quick else 5_000)
        host = traffic.receiver()
        hints = ("off", "on", "strict")
        self.hosts = {hint: Netns(host, switches={"route_hint": hint}) for hint in hints}
        self.captures: dict[str, Path] = {}
        for k, (case, (family, random)) in enumerate(CASES.items()):
            frames = traffic.udp_frames(family, self.packets, random)
            self.captures[case] = traffic.save(self.folder / f"case{k}.pcap", frames)
        self.parsers, self.absent = find_parsers()

    def variants(self) -> list[Variant]:
        found = []
        for case, path in self.captures.items():
            for hint, netns in self.hosts.items():
                before = "" if hint == "off" else "hint off"
                run = replaying(path, netns, self.packets)
                found.append(Variant(case, f"hint {hint}", run, self.packets, before))
            found.append(Variant(case, "reading alone", reading(path, self.packets), self.packets))
            for name, parse in self.parsers.items():
                run = parsing(parse, path, self.peer_packets)
                found.append(Variant(case, name, run, self.peer_packets, peer=True))
        return found


def replaying(path: Path, netns: Netns, packets: int) -> Run:
    """A run that receives the whole capture, and makes sure that all of it was delivered."""
    from ippath.capture import open_captures

    def run() -> None:
        before = netns.totals().verdicts["delivered"]
        with open_captures([str(path)]) as captures:
            rows = None
            for batch in captures:
                if rows is None:
                    rows = netns.map_interfaces(captures.interfaces)
                batch.device = rows[batch.device]
                netns.receive(batch, continue_list=True)
        delivered = netns.totals().verdicts["delivered"] - before
        if delivered != packets:
            raise AssertionError(f"{delivered} of {packets} packets were delivered")

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


def parsing(parse: Parser, path: Path, packets: int) -> Run:
    """A run of a peer over the first packets of the capture."""

    def run() -> None:
        seen = parse(path, packets)
        if seen != packets:
            raise AssertionError(f"the peer saw {seen} of {packets} packets")

    return run
