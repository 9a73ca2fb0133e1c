"""`start`: the whole process, from the shell's point of view."""

from __future__ import annotations

import os
import subprocess
import sys

from ippath.bench import traffic
from ippath.bench.framework import Plan, Run, Target, Variant, Workload

FEW = 100  # packets of a small capture


class Start(Workload):
    """Process start, imports, cached compiled code, 1 M packets, summary."""

    name = "start"
    summary = "a whole `ippath replay` process with warm caches, and what starting alone takes"
    unit = "packets"
    target = "1 M packets in less than 3 s, a small capture in 1.5 s, --help in 0.3 s"
    sizes = (80_000_000, 80_000_000)
    plans = (Plan(3, 7, 12.0, 25.0), Plan(9, 31, 90.0))

    def set_up(self) -> None:
        self.packets = max(1, self.size // traffic.RECORD)
        frames = traffic.udp_frames(4, self.packets, False)
        self.capture = traffic.save(self.folder / "start.pcap", frames)
        self.small = traffic.save(self.folder / "small.pcap", frames.select(slice(0, FEW)))
        self.host = self.folder / "host.txt"
        self.host.write_text(traffic.small_host_lines(), encoding="utf-8")

    def variants(self) -> list[Variant]:
        capture, small = str(self.capture), str(self.small)
        host, few = ("--host", str(self.host)), min(FEW, self.packets)
        million = Target(3.0 * self.packets / 1e6) if self.packets >= 1_000_000 else None
        rows = str(self.folder / "rows.parquet")
        return [
            Variant("replay", "whole capture", command("replay", *host, capture), self.packets,
                    target=million),
            Variant("replay", "with --verdicts to Parquet",
                    command("replay", *host, capture, "--verdicts", rows), self.packets),
            Variant("replay", "the host guessed", command("replay", capture), self.packets,
                    target=million),
            Variant("small capture", f"{few} packets", command("replay", *host, small), few,
                    target=Target(1.5)),
            Variant("small capture", "one packet explained",
                    command("explain", *host, small, "--frame", "1"), 1, target=Target(1.5)),
            Variant("no work", "--help", command("--help"), 1, target=Target(0.3)),
        ]  # fmt: skip


def command(*words: str) -> Run:
    """A run of the command line in a process of its own."""
    line = [sys.executable, "-m", "ippath", *words]

    def run() -> None:
        done = subprocess.run(line, capture_output=True, text=True, env=os.environ.copy())
        if done.returncode:
            raise AssertionError(f"{' '.join(line)} ended with {done.returncode}: {done.stderr}")

    return run
