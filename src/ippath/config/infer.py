"""Guess the host behind a capture: whose packets are these, and what must that host look like?

    print(infer_text(open_captures(paths)))      # `ip` lines with the reason for each
    host = infer(open_captures(paths))

The guess is made from the first packets only (`limit`), in one pass with bounded memory, and is the
same for the same packets.  What counts as evidence, strongest first: ARP and neighbour discovery,
the direction where the capture knows it, unicast frames to and from the machine that takes part in
most of them.

`sightings` looks at the packets, `guess` draws the conclusions, here they become lines.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from ippath.batch import PacketBatch
from ippath.config.guess import (
    USUAL, Device, Guess, address_text, mac_text, network, times, top,
)  # fmt: skip
from ippath.config.sightings import UNKNOWN, Observations
from ippath.model import Host

LOOKED_AT = 100_000  # packets that the guess is made from
MOST_LISTENERS = 256
MOST_ROUTES = 16

_KIND = "veth"  # a plain Ethernet device
_UNSEEN = "beyond"  # a device for what leaves by none of the captured ones
_LISTENING = 3  # datagrams from more than one peer, where no answer can be seen


class _Lines:
    """Writes a guess as lines of a host file, each with its reason."""

    def __init__(self, guess: Guess):
        self.guess = guess
        self.devices = guess.devices

    def lines(self) -> list[tuple[str, str]]:
        """(line, why) in an order that loads."""
        out: list[tuple[str, str]] = [("ip link set lo up", "")]
        out += self._loopback_lines()
        parents = {d.parent for d in self.devices.values()} - {"lo"}
        for parent in sorted(parents):
            out += self._device_lines(parent)
        for _, device in sorted(self.devices.items()):
            for (family, ip), why in sorted(device.mine.items()):
                plen = device.plen[family, ip]
                out.append(
                    (f"ip addr add {address_text(family, ip)}/{plen} dev {device.name}", why)
                )
        routes = [line for family in (4, 6) for line in self._route_lines(family)]
        beyond = self._unseen_name()
        if any(line.endswith(f"default dev {beyond}") for line, _ in routes):
            why = "the way that packets for others take on: not in the capture"
            out += [(f"ip link add {beyond} type dummy", why), (f"ip link set {beyond} up", "")]
        out += routes
        for family, sysctl in ((4, "net.ipv4.ip_forward"), (6, "net.ipv6.conf.all.forwarding")):
            if self.guess.transit[family]:
                frames = times(self.guess.transit[family], "frame")
                out.append((f"{sysctl} = 1", f"{frames} to this host, packets for others"))
        out += self._listener_lines()
        out += [
            (f"map {_quoted(wanted)} {name}", "capture interface")
            for wanted, name in sorted(self.guess.maps.items())
            if len(self.guess.seen.names) > 1
        ]
        return out

    def _loopback_lines(self) -> list[tuple[str, str]]:
        """What lets packets in that were captured on lo."""
        talk = [pair for d in self.devices.values() if d.name == "lo" for pair in d.place.pairs]
        if not any(family == 4 for family, *_ in talk):
            return []
        why = "packets that a host sends to itself are not checked again"
        return [
            (f"net.ipv4.conf.lo.{name} = 1", why) for name in ("route_localnet", "accept_local")
        ]

    def _device_lines(self, name: str) -> list[tuple[str, str]]:
        own = [d for d in self.devices.values() if d.parent == name]
        mac, places, out = own[0].mac, [d.place for d in own], []
        if any(place.raw for place in places):
            out.append((f"ip link add {name} type tun", "no link-level addresses in the capture"))
        elif mac == UNKNOWN:
            out.append((f"ip link add {name} type {_KIND}", "no address of its own was seen"))
        else:
            unicast = sum(sum(place.received.values()) for place in places)
            part = sum(place.frames[mac] for place in places)
            why = f"takes part in {part} of {times(unicast, 'unicast frame')}"
            if any(place.ours for place in places):
                why = "by the direction of its frames"
            out.append((f"ip link add {name} address {mac_text(mac)} type {_KIND}", why))
        out.append((f"ip link set {name} up", ""))
        for device in own:
            if device.vlan:
                kind = f"vlan{' proto 802.1ad' * device.ad} id {device.vlan}"
                line = f"ip link add link {device.below} name {device.name} type {kind}"
                out += [(line, "frames with this tag"), (f"ip link set {device.name} up", "")]
        return out

    def _unseen_name(self) -> str:
        taken = {d.name for d in self.devices.values()} | {d.parent for d in self.devices.values()}
        names = (_UNSEEN + (str(k) if k else "") for k in itertools.count())
        return next(name for name in names if name not in taken)

    def _route_lines(self, family: int) -> list[tuple[str, str]]:
        command = "ip route add" if family == 4 else "ip -6 route add"
        out: list[tuple[str, str]] = []
        taken: set[tuple[int, int]] = set()  # networks that are connected or have a route
        for device in self.devices.values():
            for (f, ip), plen in device.plen.items():
                taken |= {(network(f, ip, plen), plen)} if f == family else set()
        for _, device in sorted(self.devices.items()):
            for f, net, plen in device.on_link:
                if f == family and (net, plen) not in taken:
                    taken.add((net, plen))
                    count = sum(device.covers(*n) for n in device.neighbours if n[0] == family)
                    why = f"{times(count, 'neighbour')}; no address of ours was seen"
                    out.append(
                        (f"{command} {address_text(family, net)}/{plen} dev {device.name}", why)
                    )
        gateways = self.guess.gateways(family)[:MOST_ROUTES]
        if self._leads_nowhere(family, gateways):
            packets, addresses = self.guess.unseen[family].total(), len(self.guess.unseen[family])
            why = f"{times(packets, 'packet')} for {times(addresses, 'address')}"
            out.append((f"{command} default dev {self._unseen_name()}", why))
            rest = gateways
        else:
            rest = gateways[1:]
            for packets, device, mac, far in gateways[:1]:
                who = f" through {mac_text(mac)}" if mac > 0 else ""
                many = f"{times(packets, 'packet')} from or to {times(len(far), 'address')}"
                why = f"{many} beyond{who}"
                out.append((f"{command} default {self._way(family, device, mac)}", why))
        for _, device, mac, far in rest:
            usual = USUAL[family]
            nets = Counter[tuple[int, int]]()
            for ip, count in far.items():
                if not any(d.covers(family, ip) for d in self.devices.values()):
                    nets[network(family, ip, usual), usual] += count
            wanted = {net: n for net, n in top(nets, MOST_ROUTES) if net not in taken}
            taken |= set(wanted)
            for (net, plen), count in _collapsed(family, wanted):
                line = (
                    f"{command} {address_text(family, net)}/{plen} {self._way(family, device, mac)}"
                )
                out.append((line, f"{times(count, 'packet')} from or to it"))
        return out[: 2 * MOST_ROUTES]

    def _leads_nowhere(self, family: int, gateways: list[Any]) -> bool:
        """Whether packets for others leave by no device of the capture: it shows one side only."""
        if not self.guess.unseen[family]:
            return False
        came_in = {
            device.name
            for device in self.devices.values()
            for f, _, destination, from_mac, to_mac in device.place.pairs
            if f == family
            and destination in self.guess.unseen[f]
            and device.comes_in(from_mac, to_mac)
        }
        return not gateways or came_in == {gateways[0][1].name}

    def _way(self, family: int, device: Device, mac: int) -> str:
        gateway = self.guess.gateway_address(family, device, mac)
        # a gateway is accepted only on a connected network
        if gateway is None or not any(f == family for f, _ in device.mine):
            return f"dev {device.name}"
        return f"via {address_text(family, gateway)} dev {device.name}"

    def _sends(self) -> bool:
        """Whether the capture has packets that we sent, apart from those to ourselves."""
        return any(
            device.sent_by_us(from_mac)
            or (device.mac == UNKNOWN and (family, source) in device.mine)
            for device in self.devices.values()
            for family, source, _, from_mac, _ in device.place.pairs
        )  # fmt: skip

    def _listener_lines(self) -> list[tuple[str, str]]:
        """Ports of ours that got unicast datagrams and sent some to the same peer.

        Where the capture has received packets alone: ports that several peers sent to.
        """
        mine, heard = self.guess.all_mine(), Counter[tuple[int, int, int]]()
        first_in: set[tuple[int, int, int]] = set()
        asked: Counter[tuple[int, int, int]] = Counter()
        peers: dict[tuple[int, int, int], set[int]] = defaultdict(set)
        for datagram, count in self.guess.seen.datagrams.items():
            key, family, source, sport, destination, dport = datagram
            if (family, destination) not in mine and self.devices[key].name != "lo":
                continue
            socket = (family, destination, dport)
            asked[socket] += count
            peers[socket].add(source)
            answer = (key, family, destination, dport, source, sport)
            if answer not in self.guess.seen.datagrams:
                continue
            heard[socket] += count
            if self.guess.seen.order.get(datagram, 0) < self.guess.seen.order.get(answer, 0):
                first_in.add(socket)
        why = {
            socket: "answered" if socket in first_in else "replies to what it asked"
            for socket in heard
        }
        if not self._sends():
            heard = Counter({
                socket: count for socket, count in asked.items()
                if count >= _LISTENING and len(peers[socket]) > 1
            })  # fmt: skip
            why = {socket: f"of {times(len(peers[socket]), 'peer')}; no answers were captured"
                   for socket in heard}  # fmt: skip
        out = []
        for socket, count in top(heard, MOST_LISTENERS):
            family, ip, port = socket
            where = (
                f"{address_text(4, ip)}:{port}"
                if family == 4
                else f"[{address_text(6, ip)}]:{port}"
            )
            out.append((f"listen udp {where}", f"{times(count, 'datagram')}, {why[socket]}"))
        return out


def _collapsed(
    family: int, networks: dict[tuple[int, int], int]
) -> list[tuple[tuple[int, int], int]]:
    """((network, prefix length), packets), adjacent networks as one, most packets first."""
    kind = ipaddress.IPv4Network if family == 4 else ipaddress.IPv6Network
    merged = Counter[tuple[int, int]]()
    for one in ipaddress.collapse_addresses([kind(key) for key in networks]):  # type: ignore[type-var]
        first, plen = int(one.network_address), one.prefixlen
        for (net, _), count in networks.items():
            if network(family, net, plen) == first:
                merged[first, plen] += count
    return top(merged, MOST_ROUTES)


def _quoted(name: str) -> str:
    return f'"{name}"' if any(c.isspace() for c in name) else name


# --- the whole -------------------------------------------------------------------------------------------


def infer_text(batches: Iterable[PacketBatch], *, limit: int = LOOKED_AT, source: str = "") -> str:
    """The guess as lines of a host file, each with a comment that says why.

    `batches` are PacketBatches whose `device` is the capture interface; at most `limit` packets are
    looked at, and the first line says so.  `source` names the capture in that line.
    """
    seen = Observations()
    for batch in batches:
        left = limit - seen.packets
        if left <= 0:
            seen.more = True
            break
        if len(batch) > left:
            batch, seen.more = batch.select(slice(0, left)), True
        if len(batch):
            seen.add(batch)
    lines = _Lines(Guess(seen)).lines()
    packets = times(seen.packets, "packet")
    looked = f"the first {packets}" if seen.more else f"all {packets}"
    whence = f" of {source}" if source else ""
    width = max(len(line) for line, _ in lines)
    text = [f"# guessed from {looked}{whence}; edit what is wrong"]
    text += [f"{line:<{width}}  # {why}" if why else line for line, why in lines]
    return "\n".join(text) + "\n"


def infer(batches: Iterable[PacketBatch], *, limit: int = LOOKED_AT, source: str = "") -> Host:
    """The guess as a Host; see `infer_text`."""
    from ippath.config import parse_host

    return parse_host(infer_text(batches, limit=limit, source=source), name="<inferred>")
