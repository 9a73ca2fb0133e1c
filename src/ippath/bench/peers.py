"""Other programs that read the same captures: found if they are installed, else named as absent.

They only parse: no route, no checksum, no socket.  The Python packages run in this process; tcpdump
and tshark are processes, so that their figures hold their start.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ippath.bench.framework import Absent

Parse = Callable[[Path, int], int]  # (capture, packets at most) -> packets whose UDP port was seen


@dataclass(frozen=True)
class Parser:
    """A program that parses a capture, and the packets it should be asked for."""

    name: str
    parse: Parse
    packets: int  # as many as take about a tenth of a second or more


def _dpkt() -> Parse:
    import dpkt

    def parse(path: Path, most: int) -> int:
        seen = 0
        with path.open("rb") as file:
            for number, (_, raw) in enumerate(dpkt.pcap.Reader(file)):
                if number >= most:
                    break
                seen += dpkt.ethernet.Ethernet(raw).data.data.dport > 0
        return seen

    return parse


def _scapy() -> Parse:
    import logging

    logging.getLogger("scapy").setLevel(logging.ERROR)
    from scapy.layers.inet import UDP
    from scapy.layers.inet6 import IPv6  # noqa: F401  (binds IPv6 to Ethernet)
    from scapy.utils import PcapReader

    def parse(path: Path, most: int) -> int:
        seen = 0
        with PcapReader(str(path)) as reader:
            for number, packet in enumerate(reader):
                if number >= most:
                    break
                seen += packet[UDP].dport > 0
        return seen

    return parse


def _output(*line: str) -> str:
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


def _tcpdump(program: str) -> Parse:
    """libpcap's reader and compiled filter: the port of every packet is looked at, nothing else."""

    def parse(path: Path, most: int) -> int:
        counted = _output(
            program, "-nr", str(path), "-c", str(most), "--count", "udp dst portrange 1-65535"
        )
        return int(counted.split()[0])

    return parse


def _tshark(program: str) -> Parse:
    def parse(path: Path, most: int) -> int:
        fields = ("-T", "fields", "-e", "udp.dstport")
        return len(_output(program, "-nr", str(path), "-c", str(most), *fields).split())

    return parse


_PACKAGES: dict[str, tuple[Callable[[], Parse], int]] = {
    "dpkt": (_dpkt, 10_000),
    "scapy": (_scapy, 1_000),
}
_PROGRAMS: dict[str, tuple[Callable[[str], Parse], str, int]] = {
    "tcpdump": (_tcpdump, "filter alone", 1_000_000),
    "tshark": (_tshark, "with start", 50_000),
}
NAMES = (*_PACKAGES, *_PROGRAMS)


def find_parsers() -> tuple[list[Parser], list[Absent]]:
    """The parsers of this machine, and the peers that are not here with the way to get them."""
    found: list[Parser] = []
    absent: list[Absent] = []
    for name, (make, packets) in _PACKAGES.items():
        try:
            found.append(Parser(f"{name} {version(name)}, parsing", make(), packets))
        except (ImportError, PackageNotFoundError):
            absent.append(Absent(name, f"not installed (pip install {name})"))
    for name, (make_program, how, packets) in _PROGRAMS.items():
        path = shutil.which(name)
        if path is None:
            absent.append(Absent(name, f"not installed (apt-get install {name})"))
        else:
            title = f"{name} {_program_version(path)}, {how}"
            found.append(Parser(title, make_program(path), packets))
    return found, absent


def _program_version(path: str) -> str:
    """What follows the program's name, or "version", in the first line of `--version`."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True)
    words = (done.stdout or done.stderr).partition("\n")[0].split()
    return next((word.rstrip(".,") for word in words if word[:1].isdigit()), "?")
