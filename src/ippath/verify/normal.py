"""What in a sent packet is random, taken out; and packets in words."""

from __future__ import annotations

import struct
from collections.abc import Collection
from ipaddress import IPv6Address

from ippath.verify.packets import checksum

# ICMPv6 that a host sends unasked: MLD, router solicitations
_UNASKED6 = {130, 131, 132, 133, 143}
_ETHER_TYPES = (b"\x08\x00", b"\x86\xdd", b"\x08\x06")


def split_frame(packet: bytes) -> tuple[bytes, bytes]:
    """(Ethernet header or nothing, the rest), told apart by the version nibble and length."""
    if looks_like_ip(packet):
        return b"", packet
    return packet[:14], packet[14:]


def looks_like_ip(packet: bytes) -> bool:
    """Whether a packet starts with an IP header rather than with an Ethernet one."""
    version = packet[0] >> 4 if packet else 0
    if version not in (4, 6):
        return False
    said = int.from_bytes(packet[2:4], "big") if version == 4 else 40 + int.from_bytes(packet[4:6], "big")  # fmt: skip
    return said == len(packet) or packet[12:14] not in _ETHER_TYPES


def is_noise(packet: bytes) -> bool:
    """Whether the packet is one that a namespace sends by itself (MLD, IGMP, router solicitation)."""
    _, ip = split_frame(packet)
    if len(ip) >= 20 and ip[0] >> 4 == 4:
        return ip[9] == 2
    if len(ip) >= 40 and ip[0] >> 4 == 6:
        number, at = ip[6], 40
        if number == 0 and len(ip) >= 48:
            number, at = ip[40], 48 + 8 * ip[41]
        return number == 58 and len(ip) > at and ip[at] in _UNASKED6
    return False


class Normal:
    """Makes what is random in a packet 0, and the IPv4 header checksum right again.

    The identification and the flow label of a packet that this host made are random, of a
    forwarded one they are not: a packet counts as forwarded if a received one has the same
    addresses, protocol and identification or flow label.  `ignore` names more: "timestamp option",
    "icmp timestamp".  A wrong header checksum stays wrong.
    """

    def __init__(self, ignore: Collection[str] = ()):
        self.ignore = ignore
        self._received: set[bytes] = set()

    def receive(self, packet: bytes) -> None:
        """Remember a packet that the host received."""
        self._received.add(_flow(split_frame(packet)[1]))

    def forwarded(self, packet: bytes) -> bool:
        """Whether a packet that was sent is one of those received."""
        return _flow(split_frame(packet)[1]) in self._received

    def __call__(self, packet: bytes) -> bytes:
        head, ip = split_frame(packet)
        forwarded = _flow(ip) in self._received
        if len(ip) >= 40 and ip[0] >> 4 == 6:
            return packet if forwarded else head + self._made6(ip)
        if len(ip) < 20 or ip[0] >> 4 != 4 or checksum(ip[: (ip[0] & 15) * 4]) != 0:
            return packet
        return head + self._made4(ip, forwarded)

    def _made6(self, ip: bytes) -> bytes:
        fixed = bytearray(ip)
        fixed[1:4] = bytes([ip[1] & 0xF0, 0, 0])
        at = _fragment_header(ip)
        if at:
            fixed[at + 4 : at + 8] = bytes(4)
        return bytes(fixed)

    def _made4(self, ip: bytes, forwarded: bool) -> bytes:
        fixed, size = bytearray(ip), (ip[0] & 15) * 4
        if not forwarded:
            fixed[4:6] = b"\0\0"
        if "timestamp option" in self.ignore:
            _clear_timestamps(fixed, 0, size)
            quoted = size + 8
            if ip[9] == 1 and ip[size] in (3, 5, 11, 12) and len(ip) >= quoted + 20:
                _clear_timestamps(fixed, quoted, (ip[quoted] & 15) * 4)
                fixed[size + 2 : size + 4] = b"\0\0"
        if "icmp timestamp" in self.ignore and ip[9] == 1:
            fixed[size + 12 : size + 20] = bytes(8)
            fixed[size + 2 : size + 4] = b"\0\0"
        fixed[10:12] = b"\0\0"
        fixed[10:12] = struct.pack("!H", checksum(bytes(fixed[:size])))
        return bytes(fixed)


def _flow(ip: bytes) -> bytes:
    """What tells packets apart: identification or flow label, protocol, addresses."""
    if len(ip) >= 40 and ip[0] >> 4 == 6:
        at = _fragment_header(ip)
        return ip[1:4] + ip[6:7] + ip[8:40] + (ip[at + 4 : at + 8] if at else b"")
    return ip[4:6] + ip[9:10] + ip[12:20] if len(ip) >= 20 and ip[0] >> 4 == 4 else b""


def _fragment_header(ip: bytes) -> int:
    """Where the fragment header of an IPv6 packet stands, 0 if it has none."""
    number, at = ip[6], 40
    while number in (0, 43, 60) and len(ip) >= at + 8:
        number, at = ip[at], at + 8 * (ip[at + 1] + 1)
    return at if number == 44 and len(ip) >= at + 8 else 0


def _clear_timestamps(ip: bytearray, header: int, size: int) -> None:
    """Make the times of a timestamp option (68) in the header at `ip[header]` 0."""
    at, end = header + 20, header + size
    while at < end and ip[at] != 0:
        if ip[at] == 1:
            at += 1
            continue
        length = ip[at + 1]
        if length < 2:
            return
        if ip[at] == 68:
            step = 4 if ip[at + 3] & 15 == 0 else 8
            for start in range(at + 4, at + length - step + 1, step):
                ip[start + step - 4 : start + step] = bytes(4)
        at += length


def words(packet: bytes) -> str:
    """The packet in words, for messages."""
    head, ip = split_frame(packet)
    text = ""
    if head:
        text = f"{head[6:12].hex(':')} > {head[:6].hex(':')} type {head[12:14].hex()} "
        if head[12:14] == b"\x08\x06" and len(ip) >= 28:
            asked = ".".join(map(str, ip[24:28]))
            return text + f"ARP op {ip[7]} from {'.'.join(map(str, ip[14:18]))} asks {asked}"
    if len(ip) >= 20 and ip[0] >> 4 == 4:
        total, ident, fragment = struct.unpack("!HHH", ip[2:8])
        size = (ip[0] & 15) * 4
        text += f"IPv4 {'.'.join(map(str, ip[12:16]))} > {'.'.join(map(str, ip[16:20]))}"
        text += f" len {total} tos {ip[1]:#x} id {ident:#x} ttl {ip[8]}"
        text += f" {'DF ' if fragment & 0x4000 else ''}{'MF ' if fragment & 0x2000 else ''}"
        text += f"off {(fragment & 0x1FFF) * 8} {'' if checksum(ip[:size]) == 0 else 'BAD SUM '}"
        if size > 20:
            text += f"options {ip[20:size].hex()} "
        if fragment & 0x1FFF:
            return text + f"data {len(ip) - size}"
        return text + _upper(ip[9], ip[size:])
    if len(ip) >= 40 and ip[0] >> 4 == 6:
        text += f"IPv6 {IPv6Address(ip[8:24])} > {IPv6Address(ip[24:40])}"
        text += f" len {int.from_bytes(ip[4:6], 'big')} class {int.from_bytes(ip[:2], 'big') >> 4 & 255:#x}"
        text += f" label {int.from_bytes(ip[1:4], 'big') & 0xFFFFF:#x} hops {ip[7]} "
        return text + _upper(ip[6], ip[40:])
    return text + f"{len(packet)} bytes {packet.hex()}"


def _upper(protocol: int, data: bytes) -> str:
    if protocol == 17 and len(data) >= 8:
        sport, dport, length, check = struct.unpack("!HHHH", data[:8])
        return f"UDP {sport} > {dport} len {length} sum {check:#06x}"
    if protocol in (1, 58) and len(data) >= 8:
        name = "ICMP" if protocol == 1 else "ICMPv6"
        rest = int.from_bytes(data[4:8], "big")
        text = f"{name} {data[0]}/{data[1]} rest {rest:#x} body {len(data) - 8}"
        if (
            protocol == 1
            and data[0] in (3, 4, 5, 11, 12)
            or protocol == 58
            and data[0] in (1, 2, 3, 4)
        ):
            text += f" [{words(data[8:])}]"
        return text
    return f"protocol {protocol} data {len(data)}"
