"""Guess the host behind a capture: whose packets are these, and what must that host look like?

    print(infer_text(open_captures(paths)))      # `ip` lines with the reason for each
    host = infer(open_captures(paths))

The guess is made from the first packets only (`limit`), in one pass with bounded memory, and is the
same for the same packets.  What counts as evidence, strongest first: ARP and neighbour discovery,
the direction where the capture knows it, unicast frames to and from the machine that takes part in
most of them.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ippath.batch import (
    DIRECTION_IN,
    DIRECTION_OUT,
    LINK_ETHERNET,
    LINK_IPV4,
    LINK_IPV6,
    LINK_LINUX_SLL,
    LINK_LINUX_SLL2,
    LINK_LOOP,
    LINK_NULL,
    LINK_RAW,
    PacketBatch,
)  # fmt: skip
from ippath.model import Host

LOOKED_AT = 100_000  # packets that the guess is made from
MOST_KEYS = 1 << 16  # entries of each table of observations
MOST_ADDRESSES = 32  # addresses of one device; a machine that seems to have more is a router
MOST_LISTENERS = 256
MOST_ROUTES = 16

ETH_P_IP, ETH_P_IPV6, ETH_P_ARP = 0x0800, 0x86DD, 0x0806
_VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
_UNKNOWN = -1  # no link-level address in the capture
_OURS, _OTHERS = -3, -4  # stand-ins for MACs where only the direction is known
_UDP = 17
_EVERYONE = 0xFFFFFFFFFFFF
_LOW64 = 0xFFFFFFFFFFFFFFFF
_KIND = "veth"  # a plain Ethernet device
_NAME_LENGTH = 15  # IFNAMSIZ - 1


@dataclass
class _Place:
    """What was seen on one capture interface, or on one VLAN of it."""

    frames: Counter[int] = field(default_factory=Counter)  # unicast frames by MAC, both ways
    received: Counter[int] = field(default_factory=Counter)  # unicast frames by destination MAC
    ours: Counter[int] = field(default_factory=Counter)  # MACs known to be ours by direction
    pairs: Counter[tuple[int, int, int, int, int]] = field(default_factory=Counter)
    owners: dict[tuple[int, int], int] = field(
        default_factory=dict
    )  # (family, ip) -> MAC by ARP, ND
    first: dict[tuple[int, int, int, int, int], int] = field(default_factory=dict)  # packet number
    broadcasts: set[int] = field(default_factory=set)  # IPv4 destinations of broadcast frames
    raw: bool = False  # no link-level addresses
    loopback: bool = False


@dataclass
class _Device:
    """One device of the guess."""

    name: str
    place: _Place
    parent: str = ""
    vlan: int = 0
    mac: int = _UNKNOWN
    mine: dict[tuple[int, int], str] = field(default_factory=dict)  # (family, ip) -> why
    plen: dict[tuple[int, int], int] = field(default_factory=dict)


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


def _ether_header(batch: PacketBatch, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """(network offset, EtherType, VLAN, source MAC, destination MAC) of Ethernet frames."""
    head = _bytes_at(batch, rows, np.zeros(len(rows), np.int64), 14)
    at, kind = np.full(len(rows), 14, np.int64), _number(head[:, 12:14])
    vlan = np.zeros(len(rows), np.int64)
    for _ in range(2):
        tagged = np.isin(kind, _VLAN_TAGS)
        if not tagged.any():
            break
        tag = _bytes_at(batch, rows, at, 4)
        vlan = np.where(tagged & (vlan == 0), _number(tag[:, :2]) & 0xFFF, vlan)
        kind = np.where(tagged, _number(tag[:, 2:4]), kind)
        at = np.where(tagged, at + 4, at)
    return at, kind, vlan, _number(head[:, 6:12]), _number(head[:, 0:6])


def _cooked_header(batch: PacketBatch, rows: np.ndarray, second: bool) -> tuple[np.ndarray, ...]:
    """(network offset, EtherType, packet type, sender's MAC) of Linux cooked frames."""
    head = _bytes_at(batch, rows, np.zeros(len(rows), np.int64), 20)
    if second:
        size, mac, kind = head[:, 11], _number(head[:, 12:18]), head[:, 10]
        ethertype, at = _number(head[:, 0:2]), 20
    else:
        size, mac, kind = _number(head[:, 4:6]), _number(head[:, 6:12]), _number(head[:, 0:2])
        ethertype, at = _number(head[:, 14:16]), 16
    known = np.where((size == 6) & (mac != 0), mac, _UNKNOWN)
    return np.full(len(rows), at, np.int64), ethertype, kind, known


@dataclass
class _Frames:
    """Columns of the packets of one link type."""

    at: np.ndarray
    ethertype: np.ndarray
    vlan: np.ndarray
    source_mac: np.ndarray
    destination_mac: np.ndarray
    direction: np.ndarray


def _frames(batch: PacketBatch, rows: np.ndarray, link_type: int) -> _Frames | None:
    none, zero = np.full(len(rows), _UNKNOWN, np.int64), np.zeros(len(rows), np.int64)
    direction = batch.direction[rows].astype(np.int64)
    if link_type == LINK_ETHERNET:
        at, kind, vlan, source, destination = _ether_header(batch, rows)
        return _Frames(at, kind, vlan, source, destination, direction)
    if link_type in (LINK_LINUX_SLL, LINK_LINUX_SLL2):
        at, kind, packet_type, mac = _cooked_header(batch, rows, link_type == LINK_LINUX_SLL2)
        direction = np.where(packet_type == 4, DIRECTION_OUT, direction)
        direction = np.where(packet_type == 0, DIRECTION_IN, direction)
        return _Frames(at, kind, zero, mac, none, direction)
    if link_type not in (LINK_RAW, LINK_IPV4, LINK_IPV6, LINK_NULL, LINK_LOOP):
        return None
    at = zero + (4 if link_type in (LINK_NULL, LINK_LOOP) else 0)
    version = _bytes_at(batch, rows, at, 1)[:, 0] >> 4
    kind = np.where(version == 4, ETH_P_IP, np.where(version == 6, ETH_P_IPV6, 0))
    return _Frames(at, kind, zero, none, none, direction)


class _Observations:
    """Everything that was seen, in tables of bounded size."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, int], _Place] = defaultdict(_Place)  # (interface, VLAN)
        self.names: dict[int, str] = {}
        # (place, family, source, source port, destination, destination port) -> datagrams
        self.datagrams: Counter[tuple[Any, int, int, int, int, int]] = Counter()
        self.order: dict[tuple[Any, int, int, int, int, int], int] = {}
        self.packets = 0
        self.more = False

    def add(self, batch: PacketBatch) -> None:
        """Look at all packets of a batch."""
        self.names.update(enumerate(batch.interfaces))
        for link_type in np.unique(batch.link_type):
            rows = np.nonzero(batch.link_type == link_type)[0]
            frames = _frames(batch, rows, int(link_type))
            if frames is None:
                continue
            raw = link_type not in (LINK_ETHERNET, LINK_LINUX_SLL, LINK_LINUX_SLL2)
            for interface, vlan in {*zip(batch.device[rows].tolist(), frames.vlan.tolist())}:
                place = self.places[interface, vlan]
                place.raw |= raw
                place.loopback |= link_type in (LINK_NULL, LINK_LOOP)
            self._add_macs(batch, rows, frames)
            self._add_arp(batch, rows, frames)
            self._add_ip4(batch, rows, frames)
            self._add_ip6(batch, rows, frames)
        self.packets += len(batch)

    def _add_macs(self, batch: PacketBatch, rows: np.ndarray, frames: _Frames) -> None:
        columns = [batch.device[rows], frames.vlan, frames.source_mac, frames.destination_mac,
                   frames.direction]  # fmt: skip
        for (interface, vlan, source, destination, direction), _, count in _distinct(columns):
            place = self.places[interface, vlan]
            group = destination >> 40 & 1  # broadcast, multicast, or no address at all
            if not group:
                _count(place.frames, source, count)
                _count(place.frames, destination, count)
                _count(place.received, destination, count)
            if direction == DIRECTION_OUT and source >= 0:
                _count(place.ours, source, count)
            elif direction == DIRECTION_IN and destination >= 0 and not group:
                _count(place.ours, destination, count)

    def _add_arp(self, batch: PacketBatch, rows: np.ndarray, frames: _Frames) -> None:
        mine = np.nonzero(frames.ethertype == ETH_P_ARP)[0]
        body = _bytes_at(batch, rows[mine], frames.at[mine], 28)
        whole = _number(body[:, 0:6]) == 0x000108000604
        columns = (_number(body[:, 8:14]), _number(body[:, 14:18]))
        for k, fine, mac, ip in zip(mine.tolist(), whole.tolist(), *(c.tolist() for c in columns)):
            if fine and ip:
                key = int(batch.device[rows[k]]), int(frames.vlan[k])
                _put(self.places[key].owners, (4, ip), mac)

    def _add_ip4(self, batch: PacketBatch, rows: np.ndarray, frames: _Frames) -> None:
        mine = np.nonzero(frames.ethertype == ETH_P_IP)[0]
        mine = mine[frames.at[mine] + 20 <= batch.length[rows[mine]]]
        body = _bytes_at(batch, rows[mine], frames.at[mine], 20)
        header = (body[:, 0] & 15) * 4
        first = _number(body[:, 6:8]) & 0x1FFF == 0
        addresses = [_number(body[:, 12:16]), _number(body[:, 16:20])]
        ports = _ports(batch, rows[mine], frames.at[mine] + header, (body[:, 9] == _UDP) & first)
        self._add_packets(4, batch, rows, mine, frames, addresses, ports)

    def _add_ip6(self, batch: PacketBatch, rows: np.ndarray, frames: _Frames) -> None:
        mine = np.nonzero(frames.ethertype == ETH_P_IPV6)[0]
        mine = mine[frames.at[mine] + 40 <= batch.length[rows[mine]]]
        body = _bytes_at(batch, rows[mine], frames.at[mine], 41)
        halves = np.ascontiguousarray(body[:, 8:40].astype(np.uint8)).view(">i8").astype(np.int64)
        ports = _ports(batch, rows[mine], frames.at[mine] + 40, body[:, 6] == _UDP)
        # neighbour solicitations and advertisements come from the owner of the address
        neighbour = (body[:, 6] == 58) & np.isin(body[:, 40], (135, 136))
        for k, (hi, lo) in zip(mine[neighbour].tolist(), halves[neighbour, :2].tolist()):
            source, mac = _whole(hi, lo), int(frames.source_mac[k])
            if source and mac >= 0:
                key = int(batch.device[rows[k]]), int(frames.vlan[k])
                _put(self.places[key].owners, (6, source), mac)
        self._add_packets(6, batch, rows, mine, frames, list(halves.T), ports)

    def _add_packets(
        self, family: int, batch: PacketBatch, rows: np.ndarray, mine: np.ndarray, frames: _Frames,
        addresses: list[np.ndarray], ports: list[np.ndarray],
    ) -> None:  # fmt: skip
        columns = [
            batch.device[rows[mine]], frames.vlan[mine], frames.source_mac[mine],
            frames.destination_mac[mine], frames.direction[mine], *ports, *addresses,
        ]  # fmt: skip
        for values, row, count in _distinct(columns):
            interface, vlan, from_mac, to_mac, direction, sport, dport, *parts = values
            source, destination = parts if family == 4 else (_whole(*parts[:2]), _whole(*parts[2:]))
            place = self.places[interface, vlan]
            number = int(rows[mine[row]]) + self.packets
            if to_mac >= 0 and to_mac >> 40 & 1:
                if family == 4 and to_mac == _EVERYONE and len(place.broadcasts) < MOST_KEYS:
                    place.broadcasts.add(destination)
                continue
            # a cooked frame names only its sender: direction stands in for the missing MAC
            if to_mac < 0 and direction == DIRECTION_OUT:
                from_mac, to_mac = _OURS, _OTHERS
            elif to_mac < 0 and direction == DIRECTION_IN:
                from_mac, to_mac = _OTHERS, _OURS
            pair = family, source, destination, from_mac, to_mac
            _count(place.pairs, pair, count)
            if pair in place.pairs:
                place.first.setdefault(pair, number)
            if sport >= 0:
                datagram = ((interface, vlan), family, source, sport, destination, dport)
                _count(self.datagrams, datagram, count)
                if datagram in self.datagrams:
                    self.order.setdefault(datagram, number)


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


# --- conclusions ---------------------------------------------------------------------------------------


def _is_unicast(family: int, ip: int) -> bool:
    if family == 4:
        return 0 < ip < 0xE0000000 and ip >> 24 != 127
    return ip > 1 and ip >> 120 != 0xFF


def _text(family: int, ip: int) -> str:
    return str(ipaddress.IPv4Address(ip) if family == 4 else ipaddress.IPv6Address(ip))


def _mac_text(mac: int) -> str:
    return ":".join(f"{byte:02x}" for byte in mac.to_bytes(6))


class _Guess:
    """Draws the conclusions and writes them as lines."""

    def __init__(self, seen: _Observations):
        self.seen = seen
        self.devices: dict[tuple[int, int], _Device] = {}
        self.maps: dict[str, str] = {}
        self.transit = {4: 0, 6: 0}  # frames to us whose packet is for somebody else
        self._name_devices()
        passed = self._passed_through()
        for key, device in self.devices.items():
            device.mac = self._own_mac(device.place, passed[key])
        for device in self.devices.values():
            self._own_addresses(device)
        for device in self.devices.values():
            self._prefix_lengths(device)
        self._count_transit()

    # names

    def _name_devices(self) -> None:
        taken: set[str] = {"lo"}
        for interface in sorted({i for i, _ in self.seen.places}):
            wanted = self.seen.names.get(interface, "")
            name = wanted
            if not _is_device_name(wanted) or wanted in taken:
                name = next(n for n in (f"eth{k}" for k in itertools.count()) if n not in taken)
                if wanted and wanted != "lo":
                    self.maps[wanted] = name
            if wanted == "lo" or self._only_loopback(interface):
                name = "lo"
                if wanted and wanted != "lo":
                    self.maps[wanted] = name
            taken.add(name)
            for key in sorted(k for k in self.seen.places if k[0] == interface):
                vlan = key[1]
                own = f"{name}.{vlan}"[-_NAME_LENGTH:] if vlan else name
                self.devices[key] = _Device(own, self.seen.places[key], name, vlan)

    def _only_loopback(self, interface: int) -> bool:
        places = [p for (i, _), p in self.seen.places.items() if i == interface]
        if any(p.loopback for p in places):
            return True
        talking = [pair for p in places for pair in p.pairs]
        if talking and not any(_is_unicast(f, ip) for f, a, b, *_ in talking for ip in (a, b)):
            return all(p.raw for p in places)
        macs = set().union(*(p.frames for p in places))
        return macs == {0}

    # whose machine

    def _passed_through(self) -> dict[tuple[int, int], Counter[int]]:
        """For each place, MACs that took packets in, or sent them on, which other places saw too."""
        sightings: dict[tuple[int, int, int], list[tuple[int, Any, int, int]]] = defaultdict(list)
        for key, place in self.seen.places.items():
            for (family, source, destination, from_mac, to_mac), number in place.first.items():
                sightings[family, source, destination].append((number, key, from_mac, to_mac))
        found: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
        for seen in sightings.values():
            first = min(seen)
            for _, key, from_mac, to_mac in seen:
                if key != first[1] and (from_mac, to_mac) != first[2:]:  # routed, not copied
                    found[first[1]][first[3]] += 1
                    found[key][from_mac] += 1
        return found

    def _own_mac(self, place: _Place, passed: Counter[int]) -> int:
        """The MAC address of the machine that captured, or _UNKNOWN."""
        known = [m for m in place.ours if m > 0]
        if known:
            return max(known, key=lambda m: (place.ours[m], -m))
        macs = [m for m in place.frames if m > 0]
        if not macs:
            return _UNKNOWN
        behind: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for family, source, destination, from_mac, to_mac in place.pairs:
            behind[from_mac].add((family, source))
            behind[to_mac].add((family, destination))
        # takes part in most frames; among equals one that receives at all, then the one with fewer
        # addresses behind it (a router has many, unless the router is ours: see `passed`)
        return max(
            macs,
            key=lambda m: (
                passed[m], place.frames[m], place.received[m] > 0, -len(behind[m]),
                place.received[m], -m,
            ),
        )  # fmt: skip

    def _sent_by_us(self, device: _Device, from_mac: int) -> bool:
        return from_mac == _OURS or (from_mac >= 0 and from_mac == device.mac)

    def _sent_to_us(self, device: _Device, to_mac: int) -> bool:
        return to_mac == _OURS or (to_mac >= 0 and to_mac == device.mac)

    # which addresses

    def _elsewhere(self) -> set[tuple[int, int]]:
        """Addresses that cannot be ours: others send from them, or we send frames to them."""
        foreign = set()
        for device in self.devices.values():
            for family, source, destination, from_mac, to_mac in device.place.pairs:
                if self._sent_by_us(device, from_mac) and not self._sent_to_us(device, to_mac):
                    foreign.add((family, destination))
                elif self._sent_to_us(device, to_mac) and not self._sent_by_us(device, from_mac):
                    foreign.add((family, source))
            for owned, mac in device.place.owners.items():
                if mac != device.mac:
                    foreign.add(owned)
        return foreign

    def _own_addresses(self, device: _Device) -> None:
        place = device.place
        if device.name == "lo":
            return
        for (family, ip), mac in sorted(place.owners.items()):
            if mac == device.mac and _is_unicast(family, ip):
                device.mine[family, ip] = "answers for it at link level"
        if device.mac == _UNKNOWN and not any(p[3] in (_OURS, _OTHERS) for p in place.pairs):
            self._busiest_addresses(device)
            return
        foreign, candidates = self._elsewhere(), Counter[tuple[int, int]]()
        for (family, source, destination, from_mac, to_mac), count in place.pairs.items():
            if self._sent_to_us(device, to_mac) and _is_unicast(family, destination):
                candidates[family, destination] += count
            if self._sent_by_us(device, from_mac) and _is_unicast(family, source):
                candidates[family, source] += count
        for family in (4, 6):
            own = {k: c for k, c in candidates.items() if k[0] == family and k not in foreign}
            if len(own) > MOST_ADDRESSES:  # a router seen from one side
                own = {} if any(k[0] == family for k in device.mine) else dict(_top(own, 1))
            for key, count in _top(own, MOST_ADDRESSES):
                device.mine.setdefault(key, f"{count} unicast packets to or from it")

    def _busiest_addresses(self, device: _Device) -> None:
        """Without link-level addresses: the one that takes part in most packets, for each family."""
        seen, received = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        for (family, source, destination, _, _), count in device.place.pairs.items():
            received[family, destination] += count
            for ip in {source, destination}:
                seen[family, ip] += count
        for family in (4, 6):
            ranked = [k for k in seen if k[0] == family and _is_unicast(*k)]
            if ranked:
                best = max(ranked, key=lambda k: (seen[k], received[k], -k[1]))
                device.mine[best] = f"takes part in {seen[best]} packets, more than any other"

    # which networks

    def _on_link(self, device: _Device) -> Counter[tuple[int, int]]:
        """Addresses of neighbours: by ARP and ND, or the only one that its MAC sends from."""
        place, found = device.place, Counter[tuple[int, int]]()
        sourced: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for family, source, _, from_mac, _ in place.pairs:
            if from_mac > 0 and from_mac != device.mac and _is_unicast(family, source):
                sourced[from_mac].add((family, source))
        for owned, mac in place.owners.items():
            if mac != device.mac:
                found[owned] += 1
        for own in sourced.values():
            for family in (4, 6):
                only = [k for k in own if k[0] == family]
                if len(only) == 1:
                    found[only[0]] += 1
        return found

    def _prefix_lengths(self, device: _Device) -> None:
        neighbours = [ip for family, ip in self._on_link(device) if family == 4]
        for family, ip in device.mine:
            if family == 6:
                device.plen[family, ip] = 64
                continue
            plen = 24
            for other in neighbours:
                common = 32 - (other ^ ip).bit_length()
                if 16 <= common < plen:
                    plen = common
            for broadcast in sorted(device.place.broadcasts):
                host_bits = (broadcast ^ ip).bit_length()
                ones = (1 << host_bits) - 1
                if 2 <= host_bits <= 16 and broadcast & ones == ones:
                    plen = 32 - host_bits
            device.plen[family, ip] = plen

    def _covers(self, device: _Device, family: int, ip: int) -> bool:
        bits = 32 if family == 4 else 128
        return any(
            f == family and (own ^ ip) >> (bits - device.plen[f, own]) == 0
            for f, own in device.mine
        )

    # routers and routes

    def _all_mine(self) -> set[tuple[int, int]]:
        return {key for device in self.devices.values() for key in device.mine}

    def _count_transit(self) -> None:
        mine = self._all_mine()
        for device in self.devices.values():
            own_broadcasts = device.place.broadcasts
            for (family, _, destination, from_mac, to_mac), count in device.place.pairs.items():
                if not self._sent_to_us(device, to_mac) or self._sent_by_us(device, from_mac):
                    continue
                if _is_unicast(family, destination) and (family, destination) not in mine:
                    if destination not in own_broadcasts:
                        self.transit[family] += count

    def _gateways(self, family: int) -> list[tuple[int, _Device, int, Counter[int]]]:
        """(packets, device, MAC, far addresses) of neighbours that speak for other networks."""
        found = []
        for _, device in sorted(self.devices.items()):
            if device.name == "lo":
                continue
            behind: dict[int, Counter[int]] = defaultdict(Counter)
            for (f, source, destination, from_mac, to_mac), count in device.place.pairs.items():
                if f != family:
                    continue
                if self._sent_to_us(device, to_mac) and not self._sent_by_us(device, from_mac):
                    far, mac = source, from_mac
                elif self._sent_by_us(device, from_mac):
                    far, mac = destination, to_mac
                elif device.mac == _UNKNOWN:
                    far, mac = (source if (f, destination) in device.mine else destination), _OTHERS
                else:
                    continue
                if (
                    not _is_unicast(f, far)
                    or self._covers(device, f, far)
                    or (f, far) in device.mine
                ):
                    continue
                if f == 6 and far >> 118 == 0x3FA:  # link-local
                    continue
                behind[mac][far] += count
            for mac, addresses in sorted(behind.items()):
                found.append((sum(addresses.values()), device, mac, addresses))
        return sorted(found, key=lambda g: -g[0])

    def _gateway_address(self, family: int, device: _Device, mac: int) -> int | None:
        """The address of the neighbour with this MAC on the device's own networks."""
        fitting = [ip for (f, ip), m in device.place.owners.items() if f == family and m == mac] + [
            source
            for f, source, _, from_mac, _ in device.place.pairs
            if f == family and from_mac == mac and mac > 0
        ]
        near = [
            ip
            for ip in fitting
            if self._covers(device, family, ip) or (family == 6 and ip >> 118 == 0x3FA)
        ]
        return min(near) if near else None

    # lines

    def lines(self) -> list[tuple[str, str]]:
        """(line, why) in an order that loads."""
        out: list[tuple[str, str]] = [("ip link set lo up", "")]
        parents = {d.parent for d in self.devices.values()} - {"lo"}
        for parent in sorted(parents):
            own = [d for d in self.devices.values() if d.parent == parent]
            plain = next((d for d in own if not d.vlan), None)
            out += self._device_lines(parent, plain, own)
        for _, device in sorted(self.devices.items()):
            for (family, ip), why in sorted(device.mine.items()):
                plen = device.plen[family, ip]
                out.append((f"ip addr add {_text(family, ip)}/{plen} dev {device.name}", why))
        for family in (4, 6):
            out += self._route_lines(family)
        if self.transit[4]:
            why = f"{self.transit[4]} frames to this host carry packets for others"
            out.append(("net.ipv4.ip_forward = 1", why))
        if self.transit[6]:
            why = f"{self.transit[6]} frames to this host carry packets for others"
            out.append(("net.ipv6.conf.all.forwarding = 1", why))
        out += self._listener_lines()
        out += [
            (f"map {_quoted(wanted)} {name}", "capture interface")
            for wanted, name in sorted(self.maps.items())
            if len(self.seen.names) > 1
        ]
        return out

    def _device_lines(
        self, name: str, plain: _Device | None, own: list[_Device]
    ) -> list[tuple[str, str]]:
        macs = [d.mac for d in own if d.mac != _UNKNOWN]
        mac = (
            plain.mac if plain is not None and plain.mac != _UNKNOWN else next(iter(macs), _UNKNOWN)
        )
        raw = all(d.place.raw for d in own)
        out = []
        if raw:
            out.append((f"ip link add {name} type tun", "no link-level addresses in the capture"))
        elif mac == _UNKNOWN:
            out.append((f"ip link add {name} type {_KIND}", "no address of its own was seen"))
        else:
            place = plain.place if plain is not None else own[0].place
            why = f"takes part in {place.frames[mac]} of {_unicast(place)} unicast frames"
            if place.ours:
                why = "by the direction of its frames"
            out.append((f"ip link add {name} address {_mac_text(mac)} type {_KIND}", why))
        out.append((f"ip link set {name} up", ""))
        for device in sorted(own, key=lambda d: d.vlan):
            if device.vlan:
                line = f"ip link add link {name} name {device.name} type vlan id {device.vlan}"
                out += [(line, "frames with this tag"), (f"ip link set {device.name} up", "")]
        return out

    def _route_lines(self, family: int) -> list[tuple[str, str]]:
        command = "ip route add" if family == 4 else "ip -6 route add"
        gateways, out, routed = self._gateways(family), [], set[int]()
        for rank, (packets, device, mac, addresses) in enumerate(gateways[:MOST_ROUTES]):
            gateway = self._gateway_address(family, device, mac)
            via = f"via {_text(family, gateway)} " if gateway is not None else ""
            if not any(f == family for f, _ in device.mine):
                via = ""  # a gateway is accepted only on a connected network
            if rank == 0:
                who = f" through {_mac_text(mac)}" if mac > 0 else ""
                why = f"{packets} packets from or to {len(addresses)} addresses beyond{who}"
                out.append((f"{command} default {via}dev {device.name}", why))
                continue
            bits, plen = (32, 24) if family == 4 else (128, 64)
            nets = Counter[int]()
            for ip, count in addresses.items():
                nets[ip >> (bits - plen) << (bits - plen)] += count
            for net, count in _top(nets, MOST_ROUTES):
                if net in routed:
                    continue
                routed.add(net)
                line = f"{command} {_text(family, net)}/{plen} {via}dev {device.name}"
                out.append((line, f"{count} packets"))
        return out[: 2 * MOST_ROUTES]

    def _listener_lines(self) -> list[tuple[str, str]]:
        """Ports of ours that got unicast datagrams and sent some to the same peer."""
        mine, heard = self._all_mine(), Counter[tuple[int, int, int]]()
        first_in: set[tuple[int, int, int]] = set()
        for datagram, count in self.seen.datagrams.items():
            key, family, source, sport, destination, dport = datagram
            if (family, destination) not in mine:
                continue
            answer = (key, family, destination, dport, source, sport)
            if answer not in self.seen.datagrams:
                continue
            socket = (family, destination, dport)
            heard[socket] += count
            if self.seen.order.get(datagram, 0) < self.seen.order.get(answer, 0):
                first_in.add(socket)
        out = []
        for (family, ip, port), count in _top(heard, MOST_LISTENERS):
            where = f"{_text(4, ip)}:{port}" if family == 4 else f"[{_text(6, ip)}]:{port}"
            how = "answered" if (family, ip, port) in first_in else "replies to what it asked"
            out.append((f"listen udp {where}", f"{count} datagrams, {how}"))
        return out


def _unicast(place: _Place) -> int:
    return sum(place.received.values())


def _top(table: dict[Any, int], most: int) -> list[tuple[Any, int]]:
    """The largest entries, equal ones in the order of their keys."""
    return sorted(table.items(), key=lambda entry: (-entry[1], entry[0]))[:most]


def _is_device_name(name: str) -> bool:
    return 0 < len(name) <= _NAME_LENGTH and all(c.isalnum() or c in "-_.@" for c in name)


def _quoted(name: str) -> str:
    return f'"{name}"' if any(c.isspace() for c in name) else name


# --- the whole -------------------------------------------------------------------------------------------


def infer_text(batches: Iterable[PacketBatch], *, limit: int = LOOKED_AT, source: str = "") -> str:
    """The guess as lines of a host file, each with a comment that says why.

    `batches` are PacketBatches whose `device` is the capture interface; at most `limit` packets are
    looked at, and the first line says so.  `source` names the capture in that line.
    """
    seen = _Observations()
    for batch in batches:
        left = limit - seen.packets
        if left <= 0:
            seen.more = True
            break
        if len(batch) > left:
            batch, seen.more = batch.select(slice(0, left)), True
        if len(batch):
            seen.add(batch)
    lines = _Guess(seen).lines()
    looked = f"the first {seen.packets}" if seen.more else f"all {seen.packets}"
    whence = f" of {source}" if source else ""
    width = max(len(line) for line, _ in lines)
    text = [f"# guessed from {looked} packets{whence}; edit what is wrong"]
    text += [f"{line:<{width}}  # {why}" if why else line for line, why in lines]
    return "\n".join(text) + "\n"


def infer(batches: Iterable[PacketBatch], *, limit: int = LOOKED_AT, source: str = "") -> Host:
    """The guess as a Host; see `infer_text`."""
    from ippath.config import parse_host

    return parse_host(infer_text(batches, limit=limit, source=source), name="<inferred>")
