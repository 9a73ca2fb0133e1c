"""A user's host and capture, made into scenarios that the running kernel can be asked.

Frames become what the device in the namespace takes: raw IP on TUN, Ethernet on TAP.  What ippath
does not follow further than to its handler (TCP, ARP, IGMP, …) is left out and counted; a neighbour
that ippath takes for granted is made known to the kernel, too.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator

from ippath.batch import LINK_ETHERNET, PacketBatch
from ippath.config import render_host
from ippath.model import Device, Host, Neighbour
from ippath.netns import Netns
from ippath.reasons import CONSUMED, DELIVERED, R_NONE, REASON_NAMES, UNSUPPORTED
from ippath.tables import PACKET_BROADCAST, PACKET_HOST, PACKET_MULTICAST
from ippath.tx.emit import ASSUMED_MAC
from ippath.verify.scenario import Inject, Scenario, Step

CHUNK = 10_000  # packets that one namespace is given
ETHER_HEADER = 14
WIRE = bytes.fromhex("02fe00000001")  # MAC of who sends what came without Ethernet headers
BROADCAST, ALL_HOSTS = b"\xff" * 6, bytes.fromhex("01005e000001")
TCP, IGMP, ICMP6 = 6, 2, 58
# ICMPv6 whose answers belong to protocols of their own: MLD, neighbour discovery
_OWN_PROTOCOLS6 = {130, 131, 132, 133, 134, 135, 136, 137, 143}
_MADE_BY_US = ("ether", "veth", "tap", "dummy", "bridge", "tun", "none", "ppp", "wireguard")


def prepare(host: Host) -> tuple[Host, list[str]]:
    """The host as a namespace can have it, and what had to be changed, in words.

    A device with an unknown MAC gets one: frames are then readdressed to it.  A VLAN device becomes
    one of its own, since not every kernel has VLANs: frames come to it without their tag.
    """
    changed, devices = [], []
    macs = {device.name: device.mac for device in host.devices}
    for number, device in enumerate(host.devices):
        if device.kind == "vlan":
            mac = macs.get(device.parent or "") if device.mac is None else device.mac
            device = dataclasses.replace(device, kind="ether", parent=None, mac=mac)
            changed.append(f"{device.name} is a device of its own, frames come to it without a tag")
        if device.kind != "loopback" and not device.raw_ip and device.mac is None:
            device = dataclasses.replace(device, mac=0x0200_0000_0000 | number << 8 | 1)
            changed.append(f"{device.name} got a MAC address, frames are readdressed to it")
        devices.append(device)
    switches = {k: v for k, v in host.switches.items() if k == "neighbours"}
    return dataclasses.replace(host, devices=devices, switches=switches), changed


class Preparer:
    """Makes scenarios of the packets that come; counts what is left out, by why."""

    def __init__(self, host: Host, *, seed: int = 0):
        self.host, self.changed = prepare(host)
        self.netns = Netns(host, seed=seed)  # the host as it is says by which device packets came
        self.left_out: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.asked = 0

    def scenarios(self, batches: Iterable[PacketBatch], name: str) -> Iterator[Scenario]:
        """One scenario for each CHUNK packets; `batches` have devices of the host."""
        for batch in batches:
            for begin in range(0, len(batch), CHUNK):
                part = batch.select(slice(begin, begin + CHUNK))
                scenario = self._scenario(part, name)
                if scenario.steps:
                    self.asked += scenario.packets
                    yield scenario

    def _scenario(self, batch: PacketBatch, name: str) -> Scenario:
        verdicts = self.netns.receive(batch, lists=False, collect_output=True)
        neighbours = self._neighbours(batch)
        steps: list[Step] = []
        columns = (verdicts.verdict, verdicts.reason, verdicts.device, verdicts.protocol)
        rows = zip(*(c.tolist() for c in (*columns, verdicts.network, verdicts.packet_type)))
        for at, (verdict, reason, device, protocol, network, kind) in enumerate(rows):
            raw = _bytes_of(batch, at)
            why = self._why_not(batch, at, raw, verdict, reason, protocol, int(verdicts.transport[at]))  # fmt: skip
            wire = self.host.devices[device] if device >= 0 else None
            if not why and (wire is None or wire.kind not in _MADE_BY_US):
                why = "came by a device that a namespace has no wire for"
            if why:
                self.left_out[why] += 1
                continue
            assert wire is not None
            packet = _as_taken(wire, raw, int(batch.link_type[at]), network, kind)
            label = str(batch.first_frame + at)
            if steps and isinstance(steps[-1], Inject) and steps[-1].device == wire.name:
                steps[-1].packets[label] = packet
            else:
                steps.append(Inject(wire.name, {label: packet}))
            self.verdicts[_verdict_text(verdict, reason)] += 1
        known = dataclasses.replace(self.host, neighbours=[*self.host.neighbours, *neighbours])
        first = batch.first_frame
        return Scenario(f"{name} from frame {first}", "capture", host_text(known), tuple(steps))

    def _why_not(
        self, batch: PacketBatch, at: int, raw: bytes, verdict: int, reason: int, protocol: int,
        transport: int,
    ) -> str:  # fmt: skip
        """Why a packet is left out, or nothing."""
        if batch.wire_length[at] > batch.length[at]:
            return "cut short by the capture"
        if verdict == UNSUPPORTED:
            return f"not judged by ippath: {REASON_NAMES[reason]}"
        if verdict == CONSUMED and reason != R_NONE:
            return "sent by the host itself"
        if verdict == CONSUMED:
            return "ARP and other protocols of the link"
        if verdict == DELIVERED and protocol == TCP:
            return "TCP for the host: what it answers is not followed"
        if verdict == DELIVERED and protocol == IGMP:
            return "IGMP for the host"
        if protocol == ICMP6 and 0 <= transport < len(raw) and raw[transport] in _OWN_PROTOCOLS6:
            return "MLD and neighbour discovery"
        return ""

    def _neighbours(self, batch: PacketBatch) -> list[Neighbour]:
        """Entries for next hops that answered without one."""
        if self.netns.switches["neighbours"] != "assume":
            return []
        gateways = {
            (hop.device, hop.gateway & 0xFFFFFFFF): hop.gateway
            for route in self.host.routes
            for hop in route.nexthops
            if hop.gateway is not None
        }
        found: dict[tuple[str, int, int], Neighbour] = {}
        for sent in self.netns.take_output():
            mac = int.from_bytes(sent.packet[:6], "big")
            if self.netns.output_link_type(sent.device) != LINK_ETHERNET or mac >> 32 != ASSUMED_MAC >> 32:  # fmt: skip
                continue
            family, low = (4 if sent.packet[12:14] == b"\x08\x00" else 6), mac & 0xFFFFFFFF
            destination = int.from_bytes(sent.packet[38:54], "big") if family == 6 else low
            if destination & 0xFFFFFFFF != low:
                destination = gateways.get((sent.device, low), low)
            found[sent.device, family, destination] = Neighbour(family, destination, sent.device, mac)  # fmt: skip
        return list(found.values())


def host_text(host: Host) -> str:
    """The host's lines as the kernel executor takes them."""
    lines = render_host(host).splitlines()
    return "\n".join(line for line in lines if line and not line.startswith(("map ", "switch ")))


def _bytes_of(batch: PacketBatch, at: int) -> bytes:
    start = int(batch.offset[at])
    return batch.data[start : start + int(batch.length[at])].tobytes()


def _as_taken(wire: Device, raw: bytes, link_type: int, network: int, kind: int) -> bytes:
    """The packet as the wire's device takes it."""
    if wire.raw_ip:
        return raw[max(network, 0) :]
    mine, body = (wire.mac or 0).to_bytes(6, "big"), raw[max(network, 0) :]
    if link_type != LINK_ETHERNET:
        target = {PACKET_BROADCAST: BROADCAST, PACKET_MULTICAST: ALL_HOSTS}.get(kind, mine)
        ethertype = b"\x86\xdd" if body and body[0] >> 4 == 6 else b"\x08\x00"
        return target + WIRE + ethertype + body
    target = mine if kind == PACKET_HOST and not raw[0] & 1 else raw[:6]
    if network > ETHER_HEADER:  # without its VLAN tags
        return target + raw[6:12] + raw[network - 2 :]
    return target + raw[6:]


def _verdict_text(verdict: int, reason: int) -> str:
    from ippath.reasons import VERDICTS

    return VERDICTS[verdict] + (f" {REASON_NAMES[reason]}" if reason != R_NONE else "")
