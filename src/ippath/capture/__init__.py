"""Captures in and out: pcap, pcapng, compressed, piped, merged, filtered.

Everything but the errors loads on first use, since it brings the compiler along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ippath.capture.errors import CaptureError, Ending, FilterError

if TYPE_CHECKING:
    from ippath.capture.captures import Captures, open_captures, read_batch
    from ippath.capture.filter import PacketFilter
    from ippath.capture.writer import PcapNgWriter, PcapWriter

__all__ = [
    "CaptureError", "Captures", "Ending", "FilterError", "PacketFilter", "PcapNgWriter",
    "PcapWriter", "open_captures", "read_batch",
]  # fmt: skip

_HOME = {
    "Captures": "captures", "open_captures": "captures", "read_batch": "captures",
    "PacketFilter": "filter", "PcapNgWriter": "writer", "PcapWriter": "writer",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"ippath.capture.{_HOME[name]}"), name)
