"""What a guess is made from: who sends what to whom, in tables of bounded size.

One pass over the packets; MAC addresses are numbers, UNKNOWN where the link has none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ippath.batch import (
    DIRECTION_IN, DIRECTION_OUT, LINK_ETHERNET, LINK_LINUX_SLL, LINK_LINUX_SLL2, LINK_LOOP,
    LINK_NULL, PacketBatch,
)  # fmt: skip
from ippath.tables import PACKET_HOST, PACKET_OUTGOING
from ippath.wire.ether import (
    ETH_P_8021AD, ETH_P_ARP, ETH_P_IP, ETH_P_IPV6, LINK_FOUND, find_networks,
)  # fmt: skip

MOST_KEYS = 1 << 16  # entries of each table of observations

UNKNOWN = -1  # no link-level address in the capture
OURS, OTHERS = -3, -4  # stand-ins for MACs where only the direction is known
_UDP = 17
_EVERYONE = 0xFFFFFFFFFFFF
_LOW64 = 0xFFFFFFFFFFFFFFFF
_FIRST_TTL = (64, 128, 255)  # with which systems send; anything else above 32 was forwarded
_LOWEST_FORWARDED = 33  # below are traceroutes, and senders that begin with 32


@dataclass
class Place:
    """What was seen on one capture interface, or on one VLAN of it."""

    frames: Counter[int] = field(default_factory=Counter)  # unicast frames by MAC, both ways
    received: Counter[int] = field(default_factory=Counter)  # unicast frames by destination MAC
    ours: Counter[int] = field(default_factory=Counter)  # MACs known to be ours by direction
    pairs: Counter[tuple[int, int, int, int, int]] = field(default_factory=Counter)
    # (family, ip) -> MAC by ARP and neighbour discovery
    owners: dict[tuple[int, int], int] = field(default_factory=dict)
    # (family, source, MAC) -> packets with a TTL that systems begin with, less those that have lost some
    origin: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    first: dict[tuple[int, int, int, int, int], int] = field(default_factory=dict)  # packet number
    broadcasts: set[int] = field(default_factory=set)  # IPv4 destinations of broadcast frames
    group: Counter[tuple[int, int, int, int, int]] = field(default_factory=Counter)  # as `pairs`
    raw: bool = False  # no link-level addresses
    loopback: bool = False


# --- reading the packets ------------------------------------------------------------------------------


def _bytes_at(batch: PacketBatch, rows: np.ndarray, at: np.ndarray, count: int) -> np.ndarray:
    """Bytes [at, at + count) of the chosen packets as uint8[len(rows), count]; zero past the end."""
    if not batch.data.shape[0]:
        return np.zeros((len(rows), count), np.int64)
    where = at[:, None] + np.arange(count)
    inside = where < batch.length[rows][:, None]
    where = np.where(inside, where + batch.offset[rows][:, None], 0)
    taken = batch.data[np.minimum(where, batch.data.shape[0] - 1)]
    return np.where(inside, taken, 0).astype(np.int64)


def _number(matrix: np.ndarray) -> np.ndarray:
    """Big-endian numbers from rows of at most seven bytes."""
    value = np.zeros(matrix.shape[0], np.int64)
    for column in range(matrix.shape[1]):
        value = value << 8 | matrix[:, column]
    return value


@dataclass
class _Frames:
    """Columns of all frames of a batch."""

    at: np.ndarray  # of the network header
    ethertype: np.ndarray
    vlan: np.ndarray  # see `vlan_tags`
    source_mac: np.ndarray
    destination_mac: np.ndarray
    direction: np.ndarray


def vlan_tags(code: int) -> tuple[int, bool, int]:
    """(outer VLAN, whether its tag is 802.1ad, inner VLAN or 0) behind a VLAN code of a place."""
    return code & 0xFFF, bool(code >> 12 & 1), code >> 13


def _vlan_codes(protocol: np.ndarray, outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """One number for the VLANs of a frame; 0 for none.  VLAN 0 only gives a priority."""
    outer, inner = (np.where(tag < 0, 0, tag & 0xFFF) for tag in (outer, inner))
    ad = (protocol == ETH_P_8021AD) & (outer > 0)
    return np.where(outer > 0, inner << 13 | ad << 12 | outer, inner)


def _frames(batch: PacketBatch) -> _Frames:
    found = np.zeros((len(batch), 6), np.int64)
    end = batch.offset + batch.length
    if batch.offset.min() < 0 or batch.length.min() < 0 or end.max() > batch.data.shape[0]:
        raise ValueError("the batch has packets outside its arena")
    find_networks(batch.data, batch.offset, batch.length, batch.link_type, found)
    at, ethertype = found[:, 1], np.where(found[:, 0] == LINK_FOUND, found[:, 2], 0)
    head = _bytes_at(batch, np.arange(len(batch)), np.zeros(len(batch), np.int64), 20)
    source, destination = np.full((2, len(batch)), UNKNOWN, np.int64)
    direction = batch.direction.astype(np.int64)

    ether = batch.link_type == LINK_ETHERNET
    source = np.where(ether, _number(head[:, 6:12]), source)
    destination = np.where(ether, _number(head[:, 0:6]), destination)
    for link_type, kind, size, address in (
        (LINK_LINUX_SLL, slice(0, 2), slice(4, 6), slice(6, 12)),
        (LINK_LINUX_SLL2, slice(10, 11), slice(11, 12), slice(12, 18)),
    ):  # cooked captures name the sender alone, and say to whom the frame was
        cooked = batch.link_type == link_type
        known = cooked & (_number(head[:, size]) == 6) & (_number(head[:, address]) != 0)
        source = np.where(known, _number(head[:, address]), source)
        packet_type = np.where(cooked, _number(head[:, kind]), -1)
        direction = np.where(packet_type == PACKET_OUTGOING, DIRECTION_OUT, direction)
        direction = np.where(packet_type == PACKET_HOST, DIRECTION_IN, direction)
    vlan = _vlan_codes(found[:, 3], found[:, 4], found[:, 5])
    return _Frames(at, ethertype, vlan, source, destination, direction)


class Observations:
    """Everything that was seen, in tables of bounded size."""

    def __init__(self) -> None:
        # (interface, VLAN code) -> what was seen there
        self.places: dict[tuple[int, int], Place] = defaultdict(Place)
        self.names: dict[int, str] = {}
        # (place, family, source, source port, destination, destination port) -> datagrams
        self.datagrams: Counter[tuple[Any, int, int, int, int, int]] = Counter()
        self.order: dict[tuple[Any, int, int, int, int, int], int] = {}
        self.packets = 0
        self.more = False

    def add(self, batch: PacketBatch) -> None:
        """Look at all packets of a batch."""
        self.names.update(enumerate(batch.interfaces))
        frames = _frames(batch)
        for interface, vlan, link_type in {
            *zip(batch.device.tolist(), frames.vlan.tolist(), batch.link_type.tolist())
        }:
            place = self.places[interface, vlan]
            place.raw |= link_type not in (LINK_ETHERNET, LINK_LINUX_SLL, LINK_LINUX_SLL2)
            place.loopback |= link_type in (LINK_NULL, LINK_LOOP)
        self._add_macs(batch, frames)
        self._add_arp(batch, frames)
        self._add_ip4(batch, frames)
        self._add_ip6(batch, frames)
        self.packets += len(batch)

    def _add_macs(self, batch: PacketBatch, frames: _Frames) -> None:
        columns = [batch.device, frames.vlan, frames.source_mac, frames.destination_mac,
                   frames.direction]  # fmt: skip
        for (interface, vlan, source, destination, direction), _, count in _distinct(columns):
            place = self.places[interface, vlan]
            group = destination >> 40 & 1  # broadcast, multicast, or no address at all
            if not group:
                if source != destination:  # a MAC that talks to itself says nothing
                    _count(place.frames, source, count)
                    _count(place.frames, destination, count)
                _count(place.received, destination, count)
            if direction == DIRECTION_OUT and source >= 0:
                _count(place.ours, source, count)
            elif direction == DIRECTION_IN and destination >= 0 and not group:
                _count(place.ours, destination, count)

    def _add_arp(self, batch: PacketBatch, frames: _Frames) -> None:
        mine = np.nonzero(frames.ethertype == ETH_P_ARP)[0]
        body = _bytes_at(batch, mine, frames.at[mine], 28)
        whole = _number(body[:, 0:6]) == 0x000108000604
        columns = (_number(body[:, 8:14]), _number(body[:, 14:18]))
        for k, fine, mac, ip in zip(mine.tolist(), whole.tolist(), *(c.tolist() for c in columns)):
            if fine and ip:
                key = int(batch.device[k]), int(frames.vlan[k])
                _put(self.places[key].owners, (4, ip), mac)

    def _add_ip4(self, batch: PacketBatch, frames: _Frames) -> None:
        mine = np.nonzero(frames.ethertype == ETH_P_IP)[0]
        mine = mine[frames.at[mine] + 20 <= batch.length[mine]]
        body = _bytes_at(batch, mine, frames.at[mine], 20)
        header = (body[:, 0] & 15) * 4
        first = _number(body[:, 6:8]) & 0x1FFF == 0
        addresses = [_number(body[:, 12:16]), _number(body[:, 16:20])]
        ports = _ports(batch, mine, frames.at[mine] + header, (body[:, 9] == _UDP) & first)
        self._add_packets(4, batch, mine, frames, body[:, 8], addresses, ports)

    def _add_ip6(self, batch: PacketBatch, frames: _Frames) -> None:
        mine = np.nonzero(frames.ethertype == ETH_P_IPV6)[0]
        mine = mine[frames.at[mine] + 40 <= batch.length[mine]]
        body = _bytes_at(batch, mine, frames.at[mine], 41)
        halves = np.ascontiguousarray(body[:, 8:40].astype(np.uint8)).view(">i8").astype(np.int64)
        ports = _ports(batch, mine, frames.at[mine] + 40, body[:, 6] == _UDP)
        # neighbour solicitations and advertisements come from the owner of the address
        neighbour = (body[:, 6] == 58) & np.isin(body[:, 40], (135, 136))
        for k, (hi, lo) in zip(mine[neighbour].tolist(), halves[neighbour, :2].tolist()):
            source, mac = _whole(hi, lo), int(frames.source_mac[k])
            if source and mac >= 0:
                key = int(batch.device[k]), int(frames.vlan[k])
                _put(self.places[key].owners, (6, source), mac)
        self._add_packets(6, batch, mine, frames, body[:, 7], list(halves.T), ports)

    def _add_packets(
        self, family: int, batch: PacketBatch, mine: np.ndarray, frames: _Frames,
        ttl: np.ndarray, addresses: list[np.ndarray], ports: list[np.ndarray],
    ) -> None:  # fmt: skip
        columns = [
            batch.device[mine], frames.vlan[mine], frames.source_mac[mine],
            frames.destination_mac[mine], frames.direction[mine], _origin(ttl), *ports, *addresses,
        ]  # fmt: skip
        for values, row, count in _distinct(columns):
            interface, vlan, from_mac, to_mac, direction, origin, sport, dport, *parts = values
            source, destination = parts if family == 4 else (_whole(*parts[:2]), _whole(*parts[2:]))
            place = self.places[interface, vlan]
            number = int(mine[row]) + self.packets
            if to_mac >= 0 and to_mac >> 40 & 1:
                if family == 4 and to_mac == _EVERYONE and len(place.broadcasts) < MOST_KEYS:
                    place.broadcasts.add(destination)
                _count(place.group, (family, source, destination, from_mac, to_mac), count)
                continue
            # a cooked frame names only its sender: direction stands in for the missing MAC
            if to_mac < 0 and direction == DIRECTION_OUT:
                from_mac, to_mac = OURS, OTHERS
            elif to_mac < 0 and direction == DIRECTION_IN:
                from_mac, to_mac = from_mac if from_mac > 0 else OTHERS, OURS
            pair = family, source, destination, from_mac, to_mac
            _count(place.pairs, pair, count)
            _count(place.origin, (family, source, from_mac), count * origin)
            if pair in place.pairs:
                place.first.setdefault(pair, number)
            if sport >= 0:
                datagram = ((interface, vlan), family, source, sport, destination, dport)
                _count(self.datagrams, datagram, count)
                if datagram in self.datagrams:
                    self.order.setdefault(datagram, number)


def _origin(ttl: np.ndarray) -> np.ndarray:
    """1 where a packet seems to come from its sender directly, -1 where a router had it, else 0."""
    forwarded = (ttl >= _LOWEST_FORWARDED) & ~np.isin(ttl, _FIRST_TTL)
    return np.isin(ttl, _FIRST_TTL).astype(np.int64) - forwarded


def _ports(
    batch: PacketBatch, rows: np.ndarray, at: np.ndarray, udp: np.ndarray
) -> list[np.ndarray]:
    """Source and destination ports, -1 where there is no UDP header."""
    raw = _bytes_at(batch, rows, at, 4)
    whole = udp & (at + 4 <= batch.length[rows])
    return [np.where(whole, _number(raw[:, k : k + 2]), -1) for k in (0, 2)]


def _distinct(columns: list[np.ndarray]) -> Iterator[tuple[list[int], int, int]]:
    """(values, first row, number of rows) of each different row, in the order of first rows."""
    matrix = np.ascontiguousarray(np.stack(columns, axis=1).astype(np.int64))
    if not matrix.shape[0]:
        return
    keys = matrix.view(f"V{8 * matrix.shape[1]}").ravel()
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    order = np.argsort(first)
    first = first[order]
    yield from zip(matrix[first].tolist(), first.tolist(), counts[order].tolist())


def _whole(hi: int, lo: int) -> int:
    return (hi & _LOW64) << 64 | (lo & _LOW64)


def _count(table: Counter[Any], key: Any, by: int) -> None:
    if key in table or len(table) < MOST_KEYS:
        table[key] += by


def _put(table: dict[Any, int], key: Any, value: int) -> None:
    if key in table or len(table) < MOST_KEYS:
        table[key] = value
