"""Damages packets: real ones, in ways that reach deep into the path.

Most damage is small (a bit, a length, an option) and most checksums are repaired afterwards, so that
packets die late and not at the first check.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

from ippath.batch import LINK_ETHERNET, LINK_RAW, PacketBatch
from tests.captures import SHARED
from tests.packets import checksum, ip

DEMO = Path(__file__).resolve().parent.parent / "demo/office.pcapng"
OF_EACH = 60  # packets of each shared capture
LONGEST = 1 << 16
_BYTES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 0x0F, 0x10, 0x11, 0x20, 0x3F, 0x40, 0x7F, 0x80, 0xFE, 0xFF)
_EXTENSIONS = (0, 43, 44, 51, 60, 135, 139)
_TRANSPORTS = (17, 6, 1, 58, 136, 59, 4, 41, 47, 50, 132, 255)
_OPTIONS4 = (
    b"\x94\4\0\0", b"\x07\x0b\4" + bytes(8), b"\x07\x0b\x0c" + bytes(8), b"\x44\x0c\5\0" + bytes(8),
    b"\x44\x0c\5\1" + bytes(8), b"\x83\x07\4\x0a\1\0\2", b"\x89\x07\4\x0a\0\0\1", b"\x82\x0b" + bytes(9),
    b"\1\1\1\0", b"\x86\x0a\0\0\0\1\1\4\0\0",
)  # fmt: skip
_OPTIONS6 = (b"\1\0", b"\5\2\0\0", b"\xc2\4\0\1\0\0", b"\xc9\x10" + bytes(16), b"\x3e\0", b"\x80\0",
             b"\xc3\0", b"\0", b"\1\xff")  # fmt: skip


@dataclass
class Frame:
    """A frame on its way to damage: what is captured, its length on the wire, where IP begins."""

    data: bytearray
    link_type: int
    wire: int
    ip: int = field(default=0)

    @property
    def family(self) -> int:
        return self.data[self.ip] >> 4 if self.ip < len(self.data) else 0


def _ip_offset(data: bytes, link_type: int) -> int:
    """Where IP begins in a frame of a simple kind; other kinds count as all IP."""
    if link_type != LINK_ETHERNET:
        return 0
    at = 12
    while data[at : at + 2] in (b"\x81\0", b"\x88\xa8"):
        at += 4
    return at + 2


def material() -> list[tuple[bytes, int, int]]:
    """(bytes, link type, wire length) of real packets, and some of the tests' own."""
    from tests.shared import captures

    batches = [PacketBatch.read(DEMO)]
    if SHARED.is_dir():
        batches += [batch for _, batch in captures(OF_EACH)]
    found = [
        (data, int(link), int(wire))
        for batch in batches
        for data, link, wire in zip(batch, batch.link_type, batch.wire_length)
        if len(data) <= 4096
    ]
    for source, target in (("10.0.0.2", "10.1.0.2"), ("2001:db8::2", "2001:db8:1::2")):
        for size in (0, 8, 1400):
            packet = ip(source, target, size=size)
            found += [(packet, LINK_RAW, len(packet))] * 40
    return found


class Mutator:
    """Damaged packets without end, the same for the same seed.

    Addresses of both families are put in often, those of `special` now and then, and frames are most
    often to `mac`, so that packets meet routes and sockets.
    """

    def __init__(self, seed: int, routed: list[bytes], special: list[bytes], mac: bytes):
        self.random = random.Random(seed)
        self.material = material()
        self.addresses = {f: [a for a in routed if len(a) == n] for f, n in ((4, 4), (6, 16))}
        self.special = {f: [a for a in special if len(a) == n] for f, n in ((4, 4), (6, 16))}
        self.mac = mac

    def frame(self) -> Frame:
        """One damaged frame."""
        choose = self.random
        raw, link_type, wire = choose.choice(self.material)
        if link_type == LINK_ETHERNET and choose.random() < 0.5:  # most devices are raw IP
            raw, link_type = raw[_ip_offset(raw, link_type) :], LINK_RAW
            wire = len(raw)
        frame = Frame(bytearray(raw), link_type, wire, _ip_offset(raw, link_type))
        if choose.random() < 0.9:
            self._readdress(frame)
        if frame.family in (4, 6) and choose.random() < 0.7:
            self._open_port(frame)
        if link_type == LINK_ETHERNET and choose.random() < 0.8:
            frame.data[0:6] = self.mac
        for _ in range(choose.choice((0, 1, 1, 1, 2, 3, 6))):
            choose.choice(_DAMAGE)(self, frame)
        if choose.random() < 0.9:
            self._repair(frame)
        if choose.random() < 0.1:
            del frame.data[choose.randrange(len(frame.data) + 1) :]
        if choose.random() < 0.1:
            frame.wire = len(frame.data) + choose.choice((0, 1, 4, 100, 1400, 70000))
        del frame.data[LONGEST:]
        frame.wire = max(frame.wire, len(frame.data))
        return frame

    def batch(self, count: int, devices: int) -> PacketBatch:
        """`count` damaged packets on any of `devices` devices, or on none."""
        choose = self.random
        frames: list[Frame] = []
        while len(frames) < count:  # runs of equal packets, for lists and hints
            frames += [self.frame()] * choose.choice((1, 1, 1, 2, 3))
        del frames[count:]
        rows = [choose.randrange(devices) for _ in range(count)]
        for k in range(1, count):
            if choose.random() < 0.7:
                rows[k] = rows[k - 1]
        times, now = [], 10**18
        for _ in range(count):
            now += choose.choice((0, 1000, 1000, 60_000, 10**9, -(10**9)))
            times.append(now)
        batch = PacketBatch.from_packets(
            [bytes(f.data) for f in frames], link_type=[f.link_type for f in frames], device=rows,
            time_ns=times, wire_length=[f.wire for f in frames],
        )  # fmt: skip
        for k in range(0, count, 97):
            batch.device[k] = choose.choice((-1, devices, devices - 1))
            batch.direction[k] = choose.randrange(3)
        batch.mark[:] = [choose.choice((0, 0, 1, 2, 0xFFFFFFFF)) for _ in range(count)]
        return batch

    # --- before and after damage

    def _readdress(self, frame: Frame) -> None:
        at, family = frame.ip, frame.family
        first, size = (12, 4) if family == 4 else (8, 16)
        if family not in self.addresses or len(frame.data) < at + first + 2 * size:
            return
        for place in (0, 1):
            if self.random.random() < 0.8:
                begin = at + first + place * size
                often = self.random.random() < 0.9
                choice = (self.addresses if often else self.special)[family]
                frame.data[begin : begin + size] = self.random.choice(choice)

    def _open_port(self, frame: Frame) -> None:
        """Send a UDP datagram to a port that is likely open."""
        data, at = frame.data, frame.ip
        protocol, head = (9, (data[at] & 15) * 4) if frame.family == 4 else (6, 40)
        if len(data) >= at + head + 8 and data[at + protocol] in (17, 136):
            port = self.random.choice((53, 2000, 2001, 443, 7))
            data[at + head + 2 : at + head + 4] = port.to_bytes(2)

    def _repair(self, frame: Frame) -> None:
        """Make the checksums right where they are in reach."""
        data, at = frame.data, frame.ip
        if frame.family == 4 and len(data) >= at + 20:
            size = (data[at] & 15) * 4
            if size >= 20 and len(data) >= at + size:
                data[at + 10 : at + 12] = b"\0\0"
                data[at + 10 : at + 12] = checksum(bytes(data[at : at + size])).to_bytes(2)
                total = int.from_bytes(data[at + 2 : at + 4])
                addresses, protocol = bytes(data[at + 12 : at + 20]), data[at + 9]
                self._repair_transport(data, at + size, at + total, addresses, protocol)
        elif frame.family == 6 and len(data) >= at + 40:
            end = at + 40 + int.from_bytes(data[at + 4 : at + 6])
            self._repair_transport(data, at + 40, end, bytes(data[at + 8 : at + 40]), data[at + 6])

    def _repair_transport(
        self, data: bytearray, at: int, end: int, addresses: bytes, protocol: int
    ) -> None:
        place = {17: 6, 136: 6, 1: 2, 58: 2, 6: 16}.get(protocol)
        if place is None or end > len(data) or end < at + place + 2:
            return
        data[at + place : at + place + 2] = b"\0\0"
        pseudo = b"" if protocol == 1 else addresses + struct.pack("!II", end - at, protocol)
        value = checksum(pseudo + bytes(data[at:end])) or 0xFFFF
        data[at + place : at + place + 2] = value.to_bytes(2)

    # --- damage

    def _near(self, frame: Frame) -> int:
        """A place that is most often in the headers."""
        end = len(frame.data)
        if not end:
            return -1
        if self.random.random() < 0.8:
            return min(end - 1, frame.ip + self.random.randrange(72))
        return self.random.randrange(end)

    def _bit(self, frame: Frame) -> None:
        at = self._near(frame)
        if at >= 0:
            frame.data[at] ^= 1 << self.random.randrange(8)

    def _byte(self, frame: Frame) -> None:
        at = self._near(frame)
        if at >= 0:
            frame.data[at] = self.random.choice(_BYTES)

    def _word(self, frame: Frame) -> None:
        at = self._near(frame)
        if at >= 0 and at + 2 <= len(frame.data):
            left = len(frame.data) - at
            value = self.random.choice((0, 7, 8, 19, 20, 39, 40, left, left - 1, left + 1, 0xFFFF))
            frame.data[at : at + 2] = (value & 0xFFFF).to_bytes(2)

    def _drop(self, frame: Frame) -> None:
        at = self._near(frame)
        del frame.data[max(at, 0) : max(at, 0) + self.random.choice((1, 2, 4, 8, 20))]

    def _repeat(self, frame: Frame) -> None:
        at, size = max(self._near(frame), 0), self.random.choice((1, 4, 8, 16, 40))
        frame.data[at:at] = frame.data[at : at + size] * self.random.choice((1, 2, 5))

    def _splice(self, frame: Frame) -> None:
        other = self.random.choice(self.material)[0]
        at = max(self._near(frame), 0)
        frame.data[at:] = other[self.random.randrange(len(other) + 1) :]

    def _transport(self, frame: Frame) -> None:
        at = frame.ip + (9 if frame.family == 4 else 6)
        if at < len(frame.data):
            frame.data[at] = self.random.choice(_TRANSPORTS)

    def _hops(self, frame: Frame) -> None:
        at = frame.ip + (8 if frame.family == 4 else 7)
        if at < len(frame.data):
            frame.data[at] = self.random.choice((0, 1, 2, 64, 255))

    def _fragment(self, frame: Frame) -> None:
        if frame.family == 4 and len(frame.data) >= frame.ip + 20:
            word = self.random.choice((0x2000, 0x4000, 0x6000, 1, 0x1FFF, 0x3FFF, 0x8000))
            frame.data[frame.ip + 6 : frame.ip + 8] = word.to_bytes(2)
        else:
            self._extend(frame, 44)

    def _options(self, frame: Frame) -> None:
        """IPv4 options in front of the transport header, with the lengths that belong to them."""
        data, at = frame.data, frame.ip
        if frame.family != 4 or len(data) < at + 20:
            return self._extend(frame, self.random.choice(_EXTENSIONS))
        options = b"".join(self.random.choices(_OPTIONS4, k=self.random.randrange(1, 4)))[:40]
        options += bytes(-len(options) % 4)
        old = max(5, data[at] & 15) * 4
        total = int.from_bytes(data[at + 2 : at + 4]) - old + 20 + len(options)
        data[at + 20 : at + old] = options
        data[at] = 0x40 | (5 + len(options) // 4)
        data[at + 2 : at + 4] = (total & 0xFFFF).to_bytes(2)
        frame.wire = max(frame.wire + 20 + len(options) - old, len(data))
        return None

    def _extend(self, frame: Frame, header: int) -> None:
        """An IPv6 extension header in front of what follows the fixed one."""
        data, at = frame.data, frame.ip
        if frame.family != 6 or len(data) < at + 40:
            return
        body = b"".join(self.random.choices(_OPTIONS6, k=self.random.randrange(1, 4)))
        if header == 43:
            body = bytes([self.random.choice((0, 2, 3, 4)), self.random.randrange(3)]) + bytes(4)
            body += self.random.choice(self.addresses[6])
        if header == 44:
            word = self.random.choice((0, 1, 8, 9, 0xFFF8, 0xFFF9))
            body = word.to_bytes(2) + bytes(4)
        body += bytes(-(2 + len(body)) % 8)
        length = 0 if header == 44 else (len(body) + 2) // 8 - 1
        data[at + 40 : at + 40] = bytes([data[at + 6], length]) + body
        data[at + 6] = header
        payload = int.from_bytes(data[at + 4 : at + 6]) + len(body) + 2
        data[at + 4 : at + 6] = (payload & 0xFFFF).to_bytes(2)
        frame.wire = max(frame.wire + len(body) + 2, len(data))


_DAMAGE = (
    Mutator._bit, Mutator._bit, Mutator._byte, Mutator._byte, Mutator._word, Mutator._word,
    Mutator._drop, Mutator._repeat, Mutator._splice, Mutator._transport, Mutator._hops,
    Mutator._fragment, Mutator._options, Mutator._options,
)  # fmt: skip
