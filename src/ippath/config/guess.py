"""What follows from the sightings: which machine captured, its addresses, networks and neighbours.

A packet that a frame brings to us is not always for us: we may be a router.  An address is ours if
we answer for it at link level, if neighbours send to it through us although it lies on their own
network, if packets leave from it with a TTL that no router has touched, or if nothing else explains
what comes in for it.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ippath.config.sightings import OTHERS, OURS, UNKNOWN, Observations, Place, vlan_tags

MOST_ADDRESSES = 32  # addresses of one device; a machine that seems to have more is a router
MOST_NETWORKS = 2  # where nothing but received packets is known; to more networks we only forward

USUAL = {4: 24, 6: 64}  # prefix lengths of networks, if nothing says otherwise
_BITS = {4: 32, 6: 128}
_WIDEST, _NARROWEST = 16, 30  # of IPv4 networks that are guessed
_PRIVATE = ((0x0A000000, 8), (0xAC100000, 12), (0xC0A80000, 16))  # RFC 1918
_NAME_LENGTH = 15  # IFNAMSIZ - 1

Address = tuple[int, int]  # (family, ip)


@dataclass
class Device:
    """One device of the guess."""

    name: str
    place: Place
    parent: str = ""  # the device of the capture interface
    vlan: int = 0
    ad: bool = False  # its tag is 802.1ad, not 802.1Q
    below: str = ""  # the device that its frames come through
    mac: int = UNKNOWN
    neighbours: set[Address] = field(default_factory=set)  # at the other end of the link
    mine: dict[Address, str] = field(default_factory=dict)  # -> why
    plen: dict[Address, int] = field(default_factory=dict)
    on_link: list[tuple[int, int, int]] = field(default_factory=list)  # (family, network, plen)

    def sent_by_us(self, from_mac: int) -> bool:
        return from_mac == OURS or (from_mac >= 0 and from_mac == self.mac)

    def sent_to_us(self, to_mac: int) -> bool:
        return to_mac == OURS or (to_mac >= 0 and to_mac == self.mac)

    def comes_in(self, from_mac: int, to_mac: int) -> bool:
        return self.sent_to_us(to_mac) and not self.sent_by_us(from_mac)

    def covers(self, family: int, ip: int) -> bool:
        """Whether the address is on a network of this device."""
        return any(
            f == family and network(family, ip, plen) == net
            for f, net, plen in self.networks()
        )  # fmt: skip

    def networks(self) -> Iterator[tuple[int, int, int]]:
        """(family, network, prefix length) of all that is on link."""
        for (family, ip), plen in self.plen.items():
            yield family, network(family, ip, plen), plen
        yield from self.on_link


def is_unicast(family: int, ip: int) -> bool:
    """Whether the address can be that of one machine on a wire."""
    if family == 4:
        return 0 < ip < 0xE0000000 and ip >> 24 != 127
    return ip > 1 and ip >> 120 != 0xFF


def is_link_local(family: int, ip: int) -> bool:
    """Whether the address is in fe80::/10 (RFC 4291 section 2.5.6)."""
    return family == 6 and ip >> 118 == 0x3FA


def is_private(family: int, ip: int) -> bool:
    """Whether the address is private (RFC 1918) or unique local (RFC 4193)."""
    if family == 6:
        return ip >> 121 == 0x7E  # fc00::/7
    return any(network(4, ip, plen) == net for net, plen in _PRIVATE)


def network(family: int, ip: int, plen: int) -> int:
    """The first `plen` bits of an address, the others zero."""
    shift = _BITS[family] - plen
    return ip >> shift << shift


def common(family: int, one: int, other: int) -> int:
    """Length of the longest prefix that two addresses share."""
    return _BITS[family] - (one ^ other).bit_length()


def address_text(family: int, ip: int) -> str:
    """The address as `ip` prints it."""
    return str(ipaddress.IPv4Address(ip) if family == 4 else ipaddress.IPv6Address(ip))


def mac_text(mac: int) -> str:
    """A MAC address as `ip` prints it."""
    return ":".join(f"{byte:02x}" for byte in mac.to_bytes(6))


def times(count: int, word: str) -> str:
    """A number with its noun, in the plural where it must be."""
    plural = word + ("es" if word.endswith("s") else "s")
    return f"{count} {word if count == 1 else plural}"


class Guess:
    """Draws the conclusions and writes them as lines."""

    def __init__(self, seen: Observations):
        self.seen = seen
        self.devices: dict[tuple[int, int], Device] = {}
        self.maps: dict[str, str] = {}
        self.transit = {4: 0, 6: 0}  # frames to us whose packet is for somebody else
        self.unseen: dict[int, Counter[int]] = {4: Counter(), 6: Counter()}  # and who is nowhere
        self._name_devices()
        passed = self._passed_through()
        for interface in {i for i, _ in self.devices}:
            own = [k for k in self.devices if k[0] == interface]
            mac = self._own_mac([self.devices[k].place for k in own], [passed[k] for k in own])
            for k in own:
                self.devices[k].mac = mac
        for device in self.devices.values():
            device.neighbours = self._neighbours(device)
        self.foreign = self._elsewhere()
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
                outer, ad, inner = vlan_tags(key[1])
                if inner:  # a VLAN on a VLAN device
                    below = self._vlan_device((interface, key[1] & 0x1FFF), name, outer, ad, name)
                    self._vlan_device(key, name, inner, False, below.name)
                elif outer:
                    self._vlan_device(key, name, outer, ad, name)
                else:
                    self.devices[key] = Device(name, self.seen.places[key], name)

    def _vlan_device(
        self, key: tuple[int, int], parent: str, vlan: int, ad: bool, below: str
    ) -> Device:
        """The device of a VLAN; made if it is new."""
        if key not in self.devices:
            place = self.seen.places.get(key) or Place()
            taken = {d.name for d in self.devices.values()}
            names = (
                f"{below}.{vlan}{'.' * (k > 0)}{k or ''}"[-_NAME_LENGTH:] for k in itertools.count()
            )
            name = next(n for n in names if n not in taken)
            self.devices[key] = Device(name, place, parent, vlan, ad, below)
        return self.devices[key]

    def _only_loopback(self, interface: int) -> bool:
        places = [p for (i, _), p in self.seen.places.items() if i == interface]
        if any(p.loopback for p in places):
            return True
        talking = [pair for p in places for pair in p.pairs]
        nowhere_else = talking and not any(
            is_unicast(f, ip) for f, a, b, *_ in talking for ip in (a, b)
        )
        return bool(nowhere_else) and all(p.raw or not any(p.frames) for p in places)

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

    def _own_mac(self, places: list[Place], passed_through: list[Counter[int]]) -> int:
        """The MAC address of the machine that captured on an interface and its VLANs, or UNKNOWN."""
        ours = sum((p.ours for p in places), Counter[int]())
        known = [m for m in ours if m > 0]
        if known:
            return max(known, key=lambda m: (ours[m], -m))
        frames = sum((p.frames for p in places), Counter[int]())
        received = sum((p.received for p in places), Counter[int]())
        passed = sum(passed_through, Counter[int]())
        macs = [m for m in frames if m > 0]
        if not macs:
            return UNKNOWN
        behind: dict[int, set[Address]] = defaultdict(set)
        original = Counter[int]()
        for place in places:
            for family, source, destination, from_mac, to_mac in place.pairs:
                behind[from_mac].add((family, source))
                behind[to_mac].add((family, destination))
            for (_, _, mac), packets in place.origin.items():
                original[mac] += packets
        # takes part in most frames; among equals one that receives at all, then the one with fewer
        # addresses behind it (a router has many, unless the router is ours: see `passed`), whose
        # packets no router has touched, that has a private address
        return max(
            macs,
            key=lambda m: (
                passed[m], frames[m], received[m] > 0, -len(behind[m]), original[m] > 0,
                any(is_private(*key) for key in behind[m]), received[m], -m,
            ),
        )  # fmt: skip

    # whose addresses

    def _neighbours(self, device: Device) -> set[Address]:
        """Addresses on the link: by ARP and ND, or the only one of its family behind a MAC."""
        place = device.place
        found = {owned for owned, mac in place.owners.items() if mac != device.mac}
        behind: dict[int, set[Address]] = defaultdict(set)
        for family, source, destination, from_mac, to_mac in place.pairs:
            for mac, ip in ((from_mac, source), (to_mac, destination)):
                if mac > 0 and mac != device.mac and is_unicast(family, ip):
                    behind[mac].add((family, ip))
        for mac, addresses in behind.items():
            for family in (4, 6):
                only = [k for k in addresses if k[0] == family and not is_link_local(*k)]
                if len(only) == 1 and place.origin[(*only[0], mac)] >= 0:
                    found.add(only[0])
        return found

    def _elsewhere(self) -> set[Address]:
        """Addresses that cannot be ours: others send from them, or we send frames to them."""
        foreign: set[Address] = set()
        for device in self.devices.values():
            # a neighbour that sends us packets for an address does not have it behind itself: where
            # it seems so, the larger number counts
            sent: Counter[tuple[Address, int]] = Counter()
            wanted: Counter[tuple[Address, int]] = Counter()
            for (family, source, destination, from_mac, to_mac), n in device.place.pairs.items():
                if device.sent_by_us(from_mac):
                    if not device.sent_to_us(to_mac):
                        foreign.add((family, destination))
                elif device.sent_to_us(to_mac):
                    sent[(family, source), from_mac] += n
                    wanted[(family, destination), from_mac] += n
                elif from_mac > 0 and to_mac > 0 and device.mac != UNKNOWN:
                    foreign |= {(family, source), (family, destination)}
            foreign |= {key for (key, mac), n in sent.items() if n > wanted[key, mac]}
            foreign |= {key for key, mac in device.place.owners.items() if mac != device.mac}
        return foreign

    def _near(self, device: Device, family: int, ip: int) -> bool:
        """Whether the address lies on the network of the neighbours of the device."""
        if is_link_local(family, ip):
            return True
        others = [n for f, n in device.neighbours if f == family and not is_link_local(f, n)]
        shared = [common(family, ip, n) for n in others]
        if any(length >= USUAL[family] for length in shared):
            return True
        return family == 4 and len(others) > 1 and min(shared) >= _WIDEST

    def _own_addresses(self, device: Device) -> None:
        place = device.place
        if device.name == "lo":
            for family, _, ip, *_ in place.pairs:
                if is_unicast(family, ip):
                    device.mine[family, ip] = "packets to it go over lo"
            return
        for (family, ip), mac in sorted(place.owners.items()):
            if mac == device.mac and is_unicast(family, ip):
                device.mine[family, ip] = "answers for it at link level"
        cooked = any(OURS in pair[3:] for pair in place.pairs)
        itself = place.pairs and all(one == other for *_, one, other in place.pairs)
        if (device.mac == UNKNOWN and not cooked) or itself:
            self._busiest_addresses(device)
            return
        candidates, original = Counter[Address](), Counter[Address]()
        for (family, source, destination, from_mac, to_mac), count in place.pairs.items():
            if device.sent_to_us(to_mac) and is_unicast(family, destination):
                candidates[family, destination] += count
            if device.sent_by_us(from_mac) and is_unicast(family, source):
                candidates[family, source] += count
                original[family, source] = max(
                    original[family, source],
                    place.origin[family, source, device.mac], place.origin[family, source, OURS],
                )  # fmt: skip
        for family in (4, 6):
            own = {
                k: c for k, c in candidates.items()
                if k[0] == family and k not in self.foreign and not self._belongs_to_another(device, k)
            }  # fmt: skip
            sure = {k: c for k, c in own.items() if self._near(device, *k) or original[k] > 0}
            known = [k for k in (*device.mine, *sure) if k[0] == family and not is_link_local(*k)]
            if len(sure) > MOST_ADDRESSES:  # a router seen from one side
                sure = {k: c for k, c in sure.items() if self._near(device, *k)}
            elif not known:
                sure |= self._unexplained(device, family, own)
            for key, count in top(sure, MOST_ADDRESSES):
                packets = times(count, "unicast packet")
                device.mine.setdefault(key, f"{packets} to or from it")

    def _belongs_to_another(self, device: Device, key: Address) -> bool:
        """Whether the address lies on the network of another device's neighbours."""
        return not self._near(device, *key) and any(
            other is not device and self._near(other, *key) for other in self.devices.values()
        )

    def _unexplained(
        self, device: Device, family: int, own: dict[Address, int]
    ) -> dict[Address, int]:
        """What of `own` is ours because nothing else explains that it is sent to us."""
        stations, transit = set[Address](), False
        for f, source, destination, from_mac, to_mac in device.place.pairs:
            if f != family or not device.comes_in(from_mac, to_mac):
                continue
            if (f, source) not in device.neighbours:
                stations.discard((f, destination))
                continue
            stations.add((f, destination))
            transit |= (f, destination) in self.foreign
        if transit:  # neighbours use us as their router: all that they send may be for others
            own = {k: c for k, c in own.items() if k not in stations}
        networks = {network(*key, USUAL[family]) for key in own if not is_link_local(*key)}
        return own if len(networks) <= MOST_NETWORKS else {}

    def _busiest_addresses(self, device: Device) -> None:
        """Without link-level addresses: the one that takes part in most packets, for each family."""
        seen, received = Counter[Address](), Counter[Address]()
        pairs = device.place.pairs or device.place.group
        for (family, source, destination, _, _), count in pairs.items():
            received[family, destination] += count
            for ip in {source, destination}:
                seen[family, ip] += count
        for family in (4, 6):
            ranked = [k for k in seen if k[0] == family and is_unicast(*k) and k[1] != 0xFFFFFFFF]
            if ranked:
                best = max(
                    ranked, key=lambda k: (seen[k], is_private(*k), received[k], -k[1])
                )  # fmt: skip
                packets = times(seen[best], "packet")
                device.mine[best] = f"takes part in {packets}, more than any other"

    # which networks

    def _prefix_lengths(self, device: Device) -> None:
        others = [ip for d in self.devices.values() if d is not device
                  for f, ip in (*d.neighbours, *d.mine) if f == 4]  # fmt: skip
        near = [ip for f, ip in device.neighbours if f == 4]
        for family, ip in device.mine:
            if family == 6 or device.name == "lo":
                device.plen[family, ip] = _BITS[family] if device.name == "lo" else USUAL[family]
                continue
            on_link = [n for n in near if common(4, n, ip) >= _WIDEST]
            device.plen[family, ip] = _fit(ip, on_link, others)
            for broadcast in sorted(device.place.broadcasts):
                host_bits = (broadcast ^ ip).bit_length()
                ones = (1 << host_bits) - 1
                if 2 <= host_bits <= 16 and broadcast & ones == ones:
                    device.plen[family, ip] = 32 - host_bits
        if near and device.name != "lo" and not any(f == 4 for f, _ in device.mine):
            anchor = min(near)
            if all(common(4, n, anchor) >= _WIDEST for n in near):
                plen = _fit(anchor, near, others)
                device.on_link.append((4, network(4, anchor, plen), plen))

    # routers and routes

    def all_mine(self) -> set[Address]:
        return {key for device in self.devices.values() for key in device.mine}

    def _count_transit(self) -> None:
        mine = self.all_mine()
        for device in self.devices.values():
            own_broadcasts = device.place.broadcasts
            for (
                family,
                source,
                destination,
                from_mac,
                to_mac,
            ), count in device.place.pairs.items():
                if not device.comes_in(from_mac, to_mac) or not is_unicast(family, destination):
                    continue
                if (family, destination) in mine or destination in own_broadcasts:
                    continue
                if is_link_local(family, destination) or (family, source) in mine:
                    continue
                self.transit[family] += count
                if (family, destination) not in self.foreign and not any(
                    d.covers(family, destination) for d in self.devices.values()
                ):
                    self.unseen[family][destination] += count

    def gateways(self, family: int) -> list[tuple[int, Device, int, Counter[int]]]:
        """(packets, device, MAC, far addresses) of neighbours that speak for other networks."""
        found = []
        for _, device in sorted(self.devices.items()):
            if device.name == "lo":
                continue
            behind: dict[int, Counter[int]] = defaultdict(Counter)
            for (f, source, destination, from_mac, to_mac), count in device.place.pairs.items():
                if f != family:
                    continue
                if device.comes_in(from_mac, to_mac):
                    far, mac = source, from_mac
                elif device.sent_by_us(from_mac):
                    far, mac = destination, to_mac
                elif device.mac == UNKNOWN:
                    far, mac = (source if (f, destination) in device.mine else destination), OTHERS
                else:
                    continue
                if not is_unicast(f, far) or is_link_local(f, far):
                    continue
                if not device.covers(f, far) and (f, far) not in device.mine:
                    behind[mac][far] += count
            for mac, addresses in sorted(behind.items()):
                found.append((sum(addresses.values()), device, mac, addresses))
        return sorted(found, key=lambda g: -g[0])

    def gateway_address(self, family: int, device: Device, mac: int) -> int | None:
        """The address of the neighbour with this MAC on the device's own networks."""
        fitting = [ip for (f, ip), m in device.place.owners.items() if f == family and m == mac] + [
            source
            for f, source, _, from_mac, _ in device.place.pairs
            if f == family and from_mac == mac and mac > 0
        ]
        near = [
            ip for ip in fitting
            if (family, ip) not in device.mine
            and (device.covers(family, ip) or is_link_local(family, ip))
        ]  # fmt: skip
        return min(near) if near else None


def _fit(ip: int, on_link: list[int], others: list[int]) -> int:
    """Prefix length of a network of `ip` and `on_link`, without `others` if that can be."""
    needed = min([common(4, ip, n) for n in on_link], default=_NARROWEST)
    usual = min(USUAL[4], needed)
    apart = max([common(4, ip, n) for n in others], default=0) + 1
    return apart if usual < apart <= min(needed, _NARROWEST) else usual


def top(table: dict[Any, int], most: int) -> list[tuple[Any, int]]:
    """The largest entries, equal ones in the order of their keys."""
    return sorted(table.items(), key=lambda entry: (-entry[1], entry[0]))[:most]


def _is_device_name(name: str) -> bool:
    return 0 < len(name) <= _NAME_LENGTH and all(c.isalnum() or c in "-_.@" for c in name)
