"""`start`: the whole process, from the shell's point of view."""

from __future__ import annotations

import os
import subprocess
import sys

from ippath.bench import traffic
from ippath.bench.framework import Run, Variant, Workload

HOST = f"""\
ip link set lo up
ip link add eth0 address 02:00:00:00:00:01 type veth
ip link set eth0 up
ip addr add 198.18.0.1/16 dev eth0
ip addr add 2001:db8::1:0/64 dev eth0
listen udp 0.0.0.0:{traffic.PORT}
"""


class Start(Workload):
    """Process start, imports, cached compiled code, 1 M packets, summary."""

    name = "start"
    summary = "a whole `ippath replay` process with warm caches, and what starting alone takes"
    unit = "packets"
    target = "1 M packets in less than 3 s"

    def set_up(self) -> None:
        from ippath import jit

        self.packets = 1_000_000 if jit.COMPILED else 2_000
        frames = traffic.udp_frames(4, self.packets, False)
        self.capture = traffic.save(self.folder / "start.pcap", frames)
        self.small = traffic.save(self.folder / "one.pcap", frames.select(slice(0, 1)))
        self.host = self.folder / "host.txt"
        self.host.write_text(HOST, encoding="utf-8")

    def variants(self) -> list[Variant]:
        replay = ["replay", "--host", str(self.host), "--json"]
        return [
            Variant("replay", "whole capture", command(*replay, str(self.capture)), self.packets),
            Variant("replay", "one packet", command(*replay, str(self.small)), 1),
            Variant("no work", "--help", command("--help"), 1),
        ]


def command(*words: str) -> Run:
    """A run of the command line in a process of its own."""
    line = [sys.executable, "-m", "ippath", *words]

    def run() -> None:
        done = subprocess.run(line, capture_output=True, text=True, env=os.environ.copy())
        if done.returncode:
            raise AssertionError(f"{' '.join(line)} ended with {done.returncode}: {done.stderr}")

    return run
