"""Others that put fragments together: DPDK's rte_ip_frag, scapy, the running kernel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ippath.bench.answering import Answering

# Packets of a file through a reassembly table, once for each line that comes in, each in a buffer of
# its own as a driver has it.  Either only the header is copied, and the data is taken to be there; or
# all of the packet, and of the datagram, as a program does that reads and writes captures.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ip.h>
#include <rte_ip_frag.h>
#include <rte_mbuf.h>

int main(int argc, char **argv) {
    char *eal[] = {argv[0], "--no-huge", "-m", "1024", "--no-pci",
                   "--no-telemetry", "--no-shconf", "--log-level", "1"};
    if (argc < 8 || rte_eal_init(9, eal) < 0) return 1;
    long count = atol(argv[2]), size = atol(argv[3]), six = atol(argv[4]), flows = atol(argv[5]);
    long held = flows * atol(argv[6]), copied = atol(argv[7]), header = six ? 48 : 20, whole, k;
    char *packets = malloc(count * size), *out = malloc(1 << 20);
    FILE *file = fopen(argv[1], "rb");
    if (!file || fread(packets, size, count, file) != (size_t)count) return 2;
    struct rte_mempool *pool =
        rte_pktmbuf_pool_create("p", held + 8191, 256, 0, 256 + size, rte_socket_id());
    uint32_t most = 1024;
    while (most < 2 * flows) most *= 2;
    struct rte_ip_frag_tbl *table = rte_ip_frag_table_create(
        most / 8, 16, most, rte_get_tsc_hz() * 3600, rte_socket_id());
    static struct rte_ip_frag_death_row row;
    if (!pool || !table) return 3;
    puts("ready");
    fflush(stdout);
    char line[32];
    while (fgets(line, sizeof line, stdin)) {
        for (whole = k = 0; k < count; k++) {
            struct rte_mbuf *m = rte_pktmbuf_alloc(pool), *joined;
            if (!m) return 4;
            char *data = rte_pktmbuf_mtod(m, char *);
            memcpy(data, packets + k * size, copied ? size : header);
            m->data_len = m->pkt_len = size;
            m->l2_len = 0;
            m->l3_len = header;
            if (six)
                joined = rte_ipv6_frag_reassemble_packet(table, &row, m, rte_rdtsc(),
                    (struct rte_ipv6_hdr *)data, (struct rte_ipv6_fragment_ext *)(data + 40));
            else
                joined = rte_ipv4_frag_reassemble_packet(table, &row, m, rte_rdtsc(),
                    (struct rte_ipv4_hdr *)data);
            if (joined) {
                whole++;
                if (copied) {
                    char *to = out;
                    for (m = joined; m; to += m->data_len, m = m->next)
                        memcpy(to, rte_pktmbuf_mtod(m, char *), m->data_len);
                }
                rte_pktmbuf_free(joined);
            }
            rte_ip_frag_free_death_row(&row, 0);
        }
        printf("%ld\n", whole);
        fflush(stdout);
    }
    return 0;
}
"""
MEMORY = 1 << 30
DPDK_MOST_PIECES = 8  # RTE_LIBRTE_IP_FRAG_MAX_FRAG of Debian's build


def build_dpdk(folder: Path) -> tuple[Path | None, str]:
    """(the program or None, DPDK's version or why there is none)."""
    return compiled(PROGRAM, folder / "dpdk_frag")


def compiled(source: str, program: Path) -> tuple[Path | None, str]:
    """A C program that uses DPDK: (where it is or None, DPDK's version or why there is none)."""
    compiler = shutil.which("cc")
    if compiler is None or shutil.which("pkg-config") is None:
        return None, "needs a C compiler and pkg-config"
    found = _text("pkg-config", "--modversion", "libdpdk")
    if not found:
        return None, "not installed (apt-get install libdpdk-dev)"
    file = program.with_suffix(".c")
    file.write_text(source)
    flags = _text("pkg-config", "--cflags", "libdpdk").split()
    libraries = _text("pkg-config", "--libs", "libdpdk").split()
    command = [compiler, "-O3", *flags, str(file), "-o", str(program), *libraries]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return None, f"does not compile: {done.stderr.strip().splitlines()[-1:]}"
    return program, found


def _text(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


class Counted(Answering):
    """A process that does all of its work for each line and says how much was done."""

    def __init__(
        self, name: str, words: list[str], wanted: int, did: str = "put {} datagrams together"
    ):
        self._name, self._wanted, self._did = name, wanted, did
        super().__init__(words)

    def run(self) -> None:
        """All of it once; raises AssertionError if less was done."""
        done = self.ask(str(self._wanted))
        if done != self._wanted:
            did = self._did.format(f"{done} of {self._wanted}")
            raise AssertionError(f"{self._name} {did}")


def dpdk(
    program: Path,
    packets: Path,
    made: np.ndarray,
    family: int,
    flows: int,
    pieces: int,
    copied: bool,
) -> Counted:
    """DPDK's table, with the packets of a file."""
    numbers = (*made.shape, int(family == 6), flows, pieces, int(copied))
    return Counted("DPDK", [str(program), str(packets), *map(str, numbers)], len(made) // pieces)


class LinuxVeth:
    """The running kernel behind a veth pair; `share` is what reassembly takes of its time."""

    def __init__(self, packets: Path, made: np.ndarray, family: int, pieces: int):
        def kernel(memory: int, datagrams: int) -> Counted:
            numbers = (made.shape[1], family, memory)
            program = [sys.executable, "-m", "ippath.bench.frag_kernel", str(packets)]
            return Counted("the kernel", [*program, *map(str, numbers)], datagrams)

        refusing = kernel(0, 0)
        self._without = min(_seconds(refusing.run) for _ in range(3))
        refusing.close()
        self._process = kernel(MEMORY, len(made) // pieces)

    def run(self) -> Mapping[str, float]:
        """All packets once, and the share of the time beyond that of refusing all fragments."""
        return {"share": max(0.0, 100 * (1 - self._without / _seconds(self._process.run)))}

    def close(self) -> None:
        """End the process."""
        self._process.close()


def _seconds(run: Callable[[], None]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def find_scapy() -> tuple[Callable[[list[bytes]], int] | None, str]:
    """(a function that counts the datagrams it puts together, its version), or (None, why not)."""
    try:
        found = version("scapy")
        import logging

        logging.getLogger("scapy").setLevel(logging.ERROR)
        from scapy.layers.inet import IP, defragment
    except (ImportError, PackageNotFoundError):
        return None, "not installed (pip install scapy)"

    def run(raw: list[bytes]) -> int:
        whole: Any = defragment([IP(packet) for packet in raw])
        return sum(packet.frag == 0 and not packet.flags.MF for packet in whole)

    return run, found
