"""Packets that the host sent, as one pcap file per device (`--write DIR`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ippath.batch import PacketBatch
    from ippath.netns import Netns


class SentPackets:
    """Writes `DIR/<device>.pcap` for each device that sends something; hidden until closed."""

    def __init__(self, folder: Path, netns: Netns):
        self.folder = folder
        self._netns = netns
        self._writers: dict[str, Any] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, device: str) -> Path:
        """Where the packets of a device go."""
        return self.folder / f"{device}.pcap"

    def _partial(self, device: str) -> Path:
        return self.folder / f".{device}.pcap.partial"

    def write(self, batches: dict[str, PacketBatch]) -> None:
        """Add what `Netns.take_output_batches` gave."""
        from ippath.capture import PcapWriter

        for device, batch in batches.items():
            if device not in self._writers:
                link = self._netns.output_link_type(device)
                self._writers[device] = PcapWriter(self._partial(device), link, nanosecond=True)
            self._writers[device].write(batch)

    def close(self) -> list[Path]:
        """Finish all files and give them their names; returns them."""
        paths = []
        for device, writer in self._writers.items():
            writer.close()
            os.replace(self._partial(device), self.path(device))
            paths.append(self.path(device))
        return sorted(paths)

    def discard(self) -> None:
        """Drop what was written."""
        for device, writer in self._writers.items():
            writer.close()
            self._partial(device).unlink(missing_ok=True)
