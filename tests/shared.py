"""The shared captures with the hosts guessed from them, for tests that go through all of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ippath.batch import PacketBatch
from ippath.capture import CaptureError
from ippath.config import parse_host
from ippath.config.infer import infer_text
from ippath.model import Host
from ippath.netns import Netns
from tests.captures import SHARED

needs_captures = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared captures are not here")


def captures(limit: int) -> Iterator[tuple[str, PacketBatch]]:
    """(file name, its first `limit` packets) of each capture that can be read."""
    for path in sorted(SHARED.glob("*.pcap*")):
        try:
            yield path.name, PacketBatch.read(path, limit)
        except CaptureError:
            continue


def arriving(batch: PacketBatch, host: Host, on: str | None = None) -> PacketBatch:
    """The packets on the devices of the host that the capture's interfaces are, or all on one."""
    rows = Netns(host).map_interfaces(batch.interfaces or [""], on)
    mapped = batch.select(slice(0, len(batch)))
    mapped.device = rows[np.clip(batch.device, 0, len(rows) - 1)]
    return mapped


def captures_with_hosts(
    limit: int, more_lines: str = ""
) -> Iterator[tuple[str, Host, PacketBatch]]:
    """(file name, host guessed from it, packets on its devices); `more_lines` end the host file."""
    for name, batch in captures(limit):
        host = parse_host(infer_text([batch]) + more_lines)
        yield name, host, arriving(batch, host)
