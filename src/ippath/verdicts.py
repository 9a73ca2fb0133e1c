"""The verdict of each packet, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ippath import tables as T
from ippath.reasons import REASON_NAMES, UNSUPPORTED, VERDICTS

if TYPE_CHECKING:
    import pyarrow as pa

    from ippath.batch import PacketBatch
    from ippath.netns import Netns


class Verdicts:
    """What happened to each packet of a batch: int32[n, V_COLUMNS] with a name for each column.

    | property      | meaning                                                        |
    |---------------|----------------------------------------------------------------|
    | `verdict`     | code of `ippath.reasons.VERDICTS`                              |
    | `reason`      | code of `ippath.reasons.REASONS`                               |
    | `family`      | 4, 6, or 0 where no IP header was found                        |
    | `protocol`    | IP protocol (IPv6: last next header read), -1 if not read      |
    | `device`      | row of the receiving device in `Host.devices`, -1 if none      |
    | `rule`, `route`, `next_hop` | rows of the deciding rule, route and next hop, or -1 |
    | `out_device`  | row of the device it left by, or -1                            |
    | `socket`      | number of the listener in `Host.listeners` that took it, or -1 |
    | `hinted`      | its route came from the hint                                   |
    | `unchecked`   | the capture was cut, so that a checksum could not be verified  |
    """

    def __init__(self, table: np.ndarray, first_frame: int, sockets: np.ndarray):
        self.table = table
        self.first_frame = first_frame
        self._sockets = sockets

    def __len__(self) -> int:
        return int(self.table.shape[0])

    def _bits(self, word: int, shift: int, mask: int) -> np.ndarray:
        return (self.table[:, word] >> shift) & mask

    def _flag(self, flag: int) -> np.ndarray:
        return (self.table[:, T.V_WHAT] >> 24) & flag != 0

    verdict = property(lambda self: self._bits(T.V_WHAT, 0, 0xFF))
    reason = property(lambda self: self._bits(T.V_WHAT, 8, 0xFF))
    family = property(lambda self: self._bits(T.V_WHAT, 16, 0xF))
    packet_type = property(lambda self: self._bits(T.V_WHAT, 20, 0xF) - 1)
    protocol = property(lambda self: self._bits(T.V_WHERE, 16, 0xFFFF) - 1)
    device = property(lambda self: self._bits(T.V_DEVICES, 0, 0xFFFF) - 1)
    out_device = property(lambda self: self._bits(T.V_DEVICES, 16, 0xFFFF) - 1)
    transport = property(lambda self: self.table[:, T.V_TRANSPORT])
    length = property(lambda self: self.table[:, T.V_LENGTH])
    rule = property(lambda self: self.table[:, T.V_RULE])
    route = property(lambda self: self.table[:, T.V_ROUTE])
    hinted = property(lambda self: self._flag(T.FLAG_HINTED))
    unchecked = property(lambda self: self._flag(T.FLAG_UNCHECKED))
    unsupported = property(lambda self: self.verdict == UNSUPPORTED)

    @property
    def network(self) -> np.ndarray:
        """Offset of the IP header in the captured frame, -1 if none was found: int32[n]."""
        offset = self._bits(T.V_WHERE, 0, 0xFFFF)
        return np.where(offset == T.NO_NETWORK, -1, offset)

    @property
    def next_hop(self) -> np.ndarray:
        """Row of the next hop, -1 if none or if a socket took the packet: int32[n]."""
        return np.where(self._flag(T.FLAG_SOCKET), -1, self.table[:, T.V_TAKER])

    @property
    def socket(self) -> np.ndarray:
        """Number of the listener that took the packet, -1 if none: int32[n]."""
        rows = np.where(self._flag(T.FLAG_SOCKET), self.table[:, T.V_TAKER], -1)
        return np.where(rows >= 0, self._sockets[rows], -1).astype(np.int32)

    @property
    def verdict_names(self) -> list[str]:
        """The verdicts in words."""
        return [VERDICTS[v] for v in self.verdict]

    @property
    def reason_names(self) -> list[str]:
        """The reasons by the kernel's names; NONE where the packet was not dropped."""
        return [REASON_NAMES[r] for r in self.reason]

    def addresses(self, batch: PacketBatch) -> tuple[np.ndarray, np.ndarray]:
        """Source and destination addresses as strings (object[n]; None where there is no IP header)."""
        from ippath.verdict_rows import endpoints

        source, destination, _, _ = endpoints(self, batch)
        return np.array(source.to_pylist(), object), np.array(destination.to_pylist(), object)

    def to_arrow(self, batch: PacketBatch, netns: Netns) -> pa.RecordBatch:
        """One row per packet, names in words; see docs/results.md for the columns."""
        from ippath.verdict_rows import record_batch

        return record_batch(self, batch, netns)
