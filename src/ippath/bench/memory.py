"""`memory`: what a process that replays a large capture keeps resident."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from ippath.bench import traffic
from ippath.bench.framework import Plan, Run, Target, Variant, Workload, WorkloadError

BLOCK = 1 << 20  # packets made at a time
WARM = 25_000  # packets: more than the command line gives to the uncompiled path
MEGABYTE = 1e6
EVERY = 0.05  # seconds between two looks at the process
BEYOND, PEAK = "resident_mb", "peak_mb"


class Memory(Workload):
    """A capture of many small packets, some dropped, most of them between hosts never seen before."""

    name = "memory"
    summary = (
        "resident memory of an `ippath replay` process, beyond the pages of the capture itself"
    )
    unit = "packets"
    target = "less than 600 MB beyond the mapped capture, whatever its size"
    quantities = {BEYOND: "MB beyond", PEAK: "MB in all"}
    sizes = (200_000_000, 4_000_000_000)
    warms_up = False
    plans = (Plan(1, 1, 0.0), Plan(1, 1, 0.0))

    def set_up(self) -> None:
        if not Path("/proc/self/smaps").exists():
            raise WorkloadError("memory is measured by /proc/PID/smaps, which this system has not")
        free = shutil.disk_usage(self.folder).free
        needed = 2 * self.size  # the verdicts take less than the capture
        if free < needed:
            raise WorkloadError(
                f"{self.folder.parent} has {free / 1e9:.1f} GB free, {needed / 1e9:.1f} GB are "
                "needed; TMPDIR=FOLDER takes another place, --size SIZE less"
            )
        self.packets = max(10, self.size // traffic.RECORD)
        self.host = self.folder / "host.txt"
        self.host.write_text(traffic.small_host_lines(), encoding="utf-8")
        self.small = self.folder / "small.pcap"
        self.large = self.folder / "large.pcap"
        write_strangers(self.small, self.packets // 10)
        write_strangers(self.large, self.packets)
        # compiled code in the cache, as in every run but the first
        warm = self.folder / "warm.pcap"
        write_strangers(warm, min(self.packets, WARM))
        watched(warm, "replay", "--quiet", "--host", str(self.host), str(warm))()

    def variants(self) -> list[Variant]:
        return [
            self._variant("a tenth of the capture", "--verdicts to Parquet", self.small, "parquet"),
            self._variant("the whole capture", "--verdicts to Parquet", self.large, "parquet"),
            self._variant("the whole capture", "summary alone", self.large, ""),
        ]

    def _variant(self, group: str, name: str, capture: Path, suffix: str) -> Variant:
        packets = (capture.stat().st_size - traffic.FILE_HEADER) // traffic.RECORD
        words = ["replay", "--quiet", "--host", str(self.host), str(capture)]
        if suffix:
            words += ["--verdicts", str(self.folder / f"verdicts.{suffix}")]
        return Variant(group, name, watched(capture, *words), packets, target=Target(600, BEYOND))


def write_strangers(path: Path, packets: int) -> None:
    """A capture of UDP frames from random sources to the receiver, every fourth one to nowhere.

    It is written block by block; each block has other addresses.
    """
    with path.open("wb") as file:
        file.write(traffic.file_header())
        for first in range(0, packets, BLOCK):
            count = min(BLOCK, packets - first)
            records = traffic.records(_strangers(count, first), first)
            file.write(records.data)


def _strangers(count: int, seed: int) -> np.ndarray:
    """uint8[count, FRAME]: IPv4 frames with checksums."""
    frames = traffic.udp_frames(4, count, False).data.reshape(count, traffic.FRAME)
    generator = np.random.default_rng(seed)
    frames[:, 26:30] = generator.integers(0, 256, (count, 4))
    frames[:, 26] = 11 + frames[:, 26] % 64  # unicast, and none of the receiver's
    frames[::4, 30:34] = frames[::4, 26:30] ^ 1
    traffic.store_checksums(frames, 4)
    return frames


def watched(capture: Path, *words: str) -> Run:
    """A run of the command line that returns what its process had resident at most, in MB.

    The pages of `capture` are not counted: they belong to the page cache and are given back.
    """
    line = [sys.executable, "-m", "ippath", *words]

    def run() -> dict[str, float]:
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        beyond = peak = 0
        try:
            while process.poll() is None:
                beyond = max(beyond, resident(process.pid, capture))
                # the kernel counts its high water in batches, which may lag behind the pages
                peak = max(peak, high_water(process.pid), beyond)
                time.sleep(EVERY)
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            assert process.stderr is not None
            raise AssertionError(f"{' '.join(line)} failed: {process.stderr.read().decode()}")
        return {BEYOND: beyond / MEGABYTE, PEAK: peak / MEGABYTE}

    return run


def resident(pid: int, without: Path) -> int:
    """Bytes that a process has resident, but for the mapping of one file; 0 if it is gone."""
    total, skip = 0, False
    try:
        with open(f"/proc/{pid}/smaps", encoding="utf-8") as smaps:
            for line in smaps:
                if line.startswith("Rss:"):
                    total += 0 if skip else int(line.split()[1])
                elif "-" in line.partition(" ")[0]:
                    skip = line.rstrip().endswith(str(without))
    except OSError:
        return 0
    return total * 1024


def high_water(pid: int) -> int:
    """The most bytes that a process had resident, everything counted; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
