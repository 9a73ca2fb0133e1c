"""Other programs that read the same captures: found if they are installed, else named as absent.

They only parse: no route, no checksum, no socket.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ippath.bench.framework import Absent

Parser = Callable[[Path, int], int]  # (capture, packets at most) -> destination ports seen


def _dpkt() -> Parser:
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


def _scapy() -> Parser:
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


_MAKERS: dict[str, Callable[[], Parser]] = {"dpkt": _dpkt, "scapy": _scapy}


def find_parsers() -> tuple[dict[str, Parser], list[Absent]]:
    """Parsers by name with version, and the peers that are not here."""
    found: dict[str, Parser] = {}
    absent: list[Absent] = []
    for name, make in _MAKERS.items():
        try:
            found[f"{name} {version(name)}, parsing only"] = make()
        except (ImportError, PackageNotFoundError):
            absent.append(Absent(name, f"not installed (pip install {name})"))
    return found, absent
