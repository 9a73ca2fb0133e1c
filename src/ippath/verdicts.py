"""The verdict of each packet, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ippath import tables as T
from ippath.reasons import REASON_NAMES, VERDICTS

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
        return _addresses(self, batch)

    def to_arrow(self, batch: PacketBatch, netns: Netns) -> pa.RecordBatch:
        """One row per packet, names in words; see docs/results.md for the columns."""
        import pyarrow as pa

        def words(codes: np.ndarray, names: list[str]) -> pa.Array:
            """A dictionary column; negative codes are null."""
            present = codes >= 0
            indices = pa.array(np.where(present, codes, 0).astype(np.int32), mask=~present)
            return pa.DictionaryArray.from_arrays(indices, pa.array(names or [""], pa.string()))

        source, destination, source_port, destination_port = _endpoints(self, batch)
        host = netns.host
        device_names = [d.name for d in host.devices]
        family6 = self.family == 6
        routes = netns.route_texts(4) + netns.route_texts(6)
        rules = netns.rule_texts(4) + netns.rule_texts(6)
        route_codes = _offset_codes(self.route, family6, len(netns.route_texts(4)))
        rule_codes = _offset_codes(self.rule, family6, len(netns.rule_texts(4)))
        tables = netns.route_tables(4) + netns.route_tables(6)
        table_names = sorted(set(tables))
        table_of_route = np.array([table_names.index(t) for t in tables] or [0])
        table_codes = np.where(route_codes >= 0, table_of_route[route_codes], -1)
        listeners = [netns.listener_text(k) for k in range(len(host.listeners))]
        columns: dict[str, Any] = {
            "frame": pa.array(netns.frames_of(batch)),
            "time": pa.array(batch.time_ns, pa.timestamp("ns", tz="UTC")),
            "device": words(self.device, device_names),
            "family": pa.array(self.family.astype(np.int8)),
            "source": source,
            "destination": destination,
            "protocol": pa.array(self.protocol.astype(np.int16), mask=self.protocol < 0),
            "source_port": source_port,
            "destination_port": destination_port,
            "length": pa.array(self.length),
            "verdict": words(self.verdict, list(VERDICTS)),
            "reason": words(np.where(self.reason > 0, self.reason, -1), list(REASON_NAMES)),
            "rule": words(rule_codes, rules),
            "table": words(table_codes, table_names),
            "route": words(route_codes, routes),
            "next_hop": _next_hops(self, netns),
            "out_device": words(self.out_device, device_names),
            "socket": words(self.socket, listeners),
            "hinted": pa.array(self.hinted),
            "unchecked": pa.array(self.unchecked),
        }
        return pa.RecordBatch.from_pydict(columns)


def _offset_codes(codes: np.ndarray, family6: np.ndarray, offset: int) -> np.ndarray:
    return np.where(codes >= 0, codes + np.where(family6, offset, 0), -1)


def _gather(batch: PacketBatch, rows: np.ndarray, at: np.ndarray, count: int) -> np.ndarray:
    """Bytes [at, at + count) of the chosen packets: uint8[len(rows), count]."""
    starts = batch.offset[rows] + at[rows]
    return batch.data[starts[:, None] + np.arange(count)]


def _readable(verdicts: Verdicts, batch: PacketBatch, family: int, need: int) -> np.ndarray:
    """Rows of that family whose first `need` bytes of the IP header were captured."""
    network = verdicts.network.astype(np.int64)
    fits = (network >= 0) & (network + need <= batch.length)
    return np.nonzero((verdicts.family == family) & fits)[0]


def _dictionary(n: int, parts: list[tuple[np.ndarray, np.ndarray, int]]) -> Any:
    """A dictionary-encoded string column of addresses from (rows, packed bytes, family) parts."""
    import ipaddress

    import pyarrow as pa

    indices = np.full(n, -1, np.int64)
    names: list[str] = []
    for rows, packed, family in parts:
        if not len(rows):
            continue
        width = packed.shape[1]
        keys = np.ascontiguousarray(packed).view(f"V{width}").ravel()
        unique, inverse = np.unique(keys, return_inverse=True)
        make: Any = ipaddress.IPv4Address if family == 4 else ipaddress.IPv6Address
        indices[rows] = inverse.ravel() + len(names)
        names += [str(make(key.tobytes())) for key in unique]
    codes = pa.array(np.where(indices >= 0, indices, 0).astype(np.int32), mask=indices < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(names or [""], pa.string()))


def _endpoints(verdicts: Verdicts, batch: PacketBatch) -> tuple[Any, Any, Any, Any]:
    import pyarrow as pa

    n = len(verdicts)
    network = verdicts.network.astype(np.int64)
    sources, destinations = [], []
    for family, header, width, at in ((4, 20, 4, 12), (6, 40, 16, 8)):
        rows = _readable(verdicts, batch, family, header)
        packed = _gather(batch, rows, network + at, 2 * width)
        sources.append((rows, packed[:, :width], family))
        destinations.append((rows, packed[:, width:], family))
    ports = np.full((n, 2), -1, np.int32)
    transport = verdicts.transport.astype(np.int64)
    has_ports = np.isin(verdicts.protocol, (6, 17, 136)) & (transport > 0)
    rows = np.nonzero(has_ports & (transport + 4 <= batch.length))[0]
    if len(rows):
        raw = _gather(batch, rows, transport, 4).astype(np.int32)
        ports[rows, 0] = raw[:, 0] << 8 | raw[:, 1]
        ports[rows, 1] = raw[:, 2] << 8 | raw[:, 3]
    columns = [pa.array(np.maximum(p, 0), mask=p < 0) for p in (ports[:, 0], ports[:, 1])]
    return _dictionary(n, sources), _dictionary(n, destinations), columns[0], columns[1]


def _addresses(verdicts: Verdicts, batch: PacketBatch) -> tuple[np.ndarray, np.ndarray]:
    source, destination, _, _ = _endpoints(verdicts, batch)
    return np.array(source.to_pylist(), object), np.array(destination.to_pylist(), object)


def _next_hops(verdicts: Verdicts, netns: Netns) -> Any:
    import pyarrow as pa

    names = netns.nexthop_texts(4) + netns.nexthop_texts(6)
    codes = _offset_codes(verdicts.next_hop, verdicts.family == 6, len(netns.nexthop_texts(4)))
    empty = np.array([not name for name in names] or [True])
    present = (codes >= 0) & ~empty[np.maximum(codes, 0)]
    indices = pa.array(np.where(present, codes, 0).astype(np.int32), mask=~present)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names or [""], pa.string()))
