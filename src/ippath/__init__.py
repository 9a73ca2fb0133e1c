"""The Linux kernel's IP/UDP data path as a Python library.

>>> from ippath import Netns, PacketBatch
>>> netns = Netns.from_file("host.txt")
>>> verdicts = netns.receive(PacketBatch.read("capture.pcap"))

Names are imported when they are first used, so that `import ippath` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ippath._version import VERSION as __version__

if TYPE_CHECKING:
    from ippath.batch import PacketBatch
    from ippath.defrag import Defragmenter
    from ippath.lab import Lab, Link
    from ippath.model import Host
    from ippath.netns import Netns
    from ippath.prefix.table import PrefixTable
    from ippath.verdicts import Verdicts

__all__ = [
    "Defragmenter",
    "Host",
    "Lab",
    "Link",
    "Netns",
    "PacketBatch",
    "PrefixTable",
    "Verdicts",
    "__version__",
]

_HOMES = {
    "Defragmenter": "ippath.defrag",
    "Host": "ippath.model",
    "Lab": "ippath.lab",
    "Link": "ippath.lab",
    "Netns": "ippath.netns",
    "PacketBatch": "ippath.batch",
    "PrefixTable": "ippath.prefix.table",
    "Verdicts": "ippath.verdicts",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ippath' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
