"""Verdicts as Arrow: one row per packet, names in words (docs/results.md lists the columns).

What depends on the host alone (names of routes, rules, devices …) is made once for its tables and
shared by all batches; dictionaries of addresses hold those of their batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ippath.reasons import REASON_NAMES, VERDICTS

if TYPE_CHECKING:
    import pyarrow as pa

    from ippath.batch import PacketBatch
    from ippath.netns import Netns
    from ippath.verdicts import Verdicts

# family, bytes of the IP header, bytes of an address, where the source stands
_FAMILIES = ((4, 20, 4, 12), (6, 40, 16, 8))
_WITH_PORTS = (6, 17, 136)  # TCP, UDP, UDP-Lite


class _Names:
    """The dictionaries of one host; IPv6 rows of a table come after the IPv4 ones."""

    def __init__(self, netns: Netns):
        host = netns.host
        self.devices = _texts([d.name for d in host.devices])
        self.verdicts = _texts(list(VERDICTS))
        self.reasons = _texts(list(REASON_NAMES))
        self.rules = _texts(netns.rule_texts(4) + netns.rule_texts(6))
        self.routes = _texts(netns.route_texts(4) + netns.route_texts(6))
        hops = netns.nexthop_texts(4) + netns.nexthop_texts(6)
        self.next_hops = _texts(hops)
        self.sockets = [number for number, _ in netns.open_listeners()]
        self.listeners = _texts([netns.listener_text(number) for number in self.sockets])
        tables = netns.route_tables(4) + netns.route_tables(6)
        names = sorted(set(tables))
        self.tables = _texts(names)
        number = {name: k for k, name in enumerate(names)}
        self.table_of_route = np.array([number[t] for t in tables] or [0])
        self.hop_named = np.array([bool(hop) for hop in hops] or [False])
        self.first6 = {
            "rule": len(netns.rule_texts(4)),
            "route": len(netns.route_texts(4)),
            "next_hop": len(netns.nexthop_texts(4)),
        }


def _texts(names: list[str]) -> pa.StringArray:
    """A dictionary; never empty, so that any code below its length is one."""
    import pyarrow as pa

    return pa.array(names or [""], pa.string())


def record_batch(verdicts: Verdicts, batch: PacketBatch, netns: Netns) -> pa.RecordBatch:
    """One row per packet of the batch."""
    import pyarrow as pa

    names: _Names = netns.cached("verdict rows", lambda: _Names(netns))
    six = verdicts.family == 6

    def both(what: str, codes: np.ndarray) -> np.ndarray:
        """Codes of one family's rows as codes of the dictionary for both."""
        return np.where(codes >= 0, codes + np.where(six, names.first6[what], 0), -1)

    route, hop = both("route", verdicts.route), both("next_hop", verdicts.next_hop)
    table = np.where(route >= 0, names.table_of_route[np.maximum(route, 0)], -1)
    hop = np.where((hop >= 0) & names.hop_named[np.maximum(hop, 0)], hop, -1)
    reason = np.where(verdicts.reason > 0, verdicts.reason, -1)
    source, destination, source_port, destination_port = endpoints(verdicts, batch)
    protocol = verdicts.protocol
    columns: dict[str, Any] = {
        "frame": pa.array(netns.frames_of(batch)),
        "time": pa.array(batch.time_ns, pa.timestamp("ns", tz="UTC")),
        "device": _words(verdicts.device, names.devices),
        "family": pa.array(verdicts.family.astype(np.int8)),
        "source": source,
        "destination": destination,
        "protocol": pa.array(protocol.astype(np.int16), mask=protocol < 0),
        "source_port": source_port,
        "destination_port": destination_port,
        "length": pa.array(verdicts.length),
        "verdict": _words(verdicts.verdict, names.verdicts),
        "reason": _words(reason, names.reasons),
        "rule": _words(both("rule", verdicts.rule), names.rules),
        "table": _words(table, names.tables),
        "route": _words(route, names.routes),
        "next_hop": _words(hop, names.next_hops),
        "out_device": _words(verdicts.out_device, names.devices),
        "socket": _words(_positions(verdicts.socket, names.sockets), names.listeners),
        "hinted": pa.array(verdicts.hinted),
        "unchecked": pa.array(verdicts.unchecked),
    }
    return pa.RecordBatch.from_pydict(columns)


def _words(codes: np.ndarray, names: pa.StringArray) -> pa.DictionaryArray:
    """A dictionary column; negative codes are null."""
    import pyarrow as pa

    present = codes >= 0
    indices = pa.array(np.where(present, codes, 0).astype(np.int32), mask=~present)
    return pa.DictionaryArray.from_arrays(indices, names)


def _positions(codes: np.ndarray, known: list[int]) -> np.ndarray:
    """Where each code stands among the `known`, -1 for others."""
    found = np.full(len(codes), -1)
    for position, code in enumerate(known):
        found[codes == code] = position
    return found


def endpoints(verdicts: Verdicts, batch: PacketBatch) -> tuple[Any, Any, Any, Any]:
    """Source and destination address (dictionaries of text), source and destination port (int32).

    Null where the packet has none, or where the capture cut it off.
    """
    import pyarrow as pa

    n = len(verdicts)
    network, length = verdicts.network.astype(np.int64), batch.length
    sources, destinations = [], []
    for family, header, width, at in _FAMILIES:
        whole = (network >= 0) & (network + header <= length)
        rows = np.flatnonzero((verdicts.family == family) & whole)
        packed = batch.gather(rows, network[rows] + at, 2 * width)
        sources.append((rows, packed[:, :width]))
        destinations.append((rows, packed[:, width:]))
    ports = np.full((n, 2), -1, np.int32)
    transport = verdicts.transport.astype(np.int64)
    has_ports = np.isin(verdicts.protocol, _WITH_PORTS) & (transport > 0)
    rows = np.flatnonzero(has_ports & (transport + 4 <= length))
    ports[rows] = batch.gather(rows, transport[rows], 4).view(">u2")
    columns = [pa.array(np.maximum(p, 0), mask=p < 0) for p in ports.T]
    return _addresses(n, sources), _addresses(n, destinations), columns[0], columns[1]


def _addresses(n: int, parts: list[tuple[np.ndarray, np.ndarray]]) -> pa.DictionaryArray:
    """A dictionary column of n addresses from (rows, packed addresses) of IPv4 and of IPv6."""
    import pyarrow as pa

    from ippath.address_texts import ipv4_texts, ipv6_texts

    codes = np.full(n, -1, np.int64)
    texts = []
    known = 0
    for rows, packed in parts:
        if not len(rows):
            continue
        width = packed.shape[1]
        raw = pa.py_buffer(np.ascontiguousarray(packed))
        column = pa.Array.from_buffers(pa.binary(width), len(rows), [None, raw])
        encoded = column.dictionary_encode()
        codes[rows] = encoded.indices.to_numpy() + known
        unique = encoded.dictionary
        found = np.frombuffer(unique.buffers()[1], np.uint8, len(unique) * width)
        texts.append((ipv4_texts if width == 4 else ipv6_texts)(found.reshape(-1, width)))
        known += len(unique)
    return _words(codes, pa.concat_arrays(texts) if texts else _texts([]))
