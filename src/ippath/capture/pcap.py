"""The pcap format (draft-ietf-opsawg-pcap): file header, and the index of its packets.

Also read: nanosecond files, either byte order, Kuznetsov's variant with a longer record header,
and the swapped length fields of versions before 2.4.
"""

from __future__ import annotations

import numpy as np

from ippath.batch import DIRECTION_OUT
from ippath.capture.columns import (
    INDEX_BAD, INDEX_FULL, INDEX_MORE, MAX_WIRE, ByteOrder, Indexed, link_number, load32,
    look_ahead, max_packet,
)  # fmt: skip
from ippath.jit import entry
from ippath.wire.memory import load8

HEADER = 24
_MICROSECONDS, _NANOSECONDS, _KUZNETSOV = 0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34
_MAGICS = (_MICROSECONDS, _NANOSECONDS, _KUZNETSOV)
_PACKET_OUTGOING = 4  # Kuznetsov's records carry the kernel's packet type

# how captured and original length are stored (libpcap: sf-pcap.c, NOT_SWAPPED and so on)
_LENGTHS_PLAIN, _LENGTHS_SWAPPED, _LENGTHS_MAYBE_SWAPPED = range(3)

# options of the index kernel
OPT_BIG, OPT_NANOSECONDS, OPT_RECORD_HEADER, OPT_MAX_PACKET, OPT_LENGTHS = range(5)


def is_pcap(head: bytes) -> bool:
    """Whether a file that starts with these bytes is a pcap file."""
    return any(head[:4] == m.to_bytes(4, order) for m in _MAGICS for order in ("big", "little"))


@entry
def index_pcap(
    data, at, end, limit, options, offset, length, wire_length, time_ns, direction, status
):
    """Fill the columns with up to `limit` packets of `data[at:end]`; returns their number.

    status: next record, INDEX_* code, bytes promised (MORE) or captured length (BAD).
    """
    big = options[OPT_BIG]
    scale = 1 if options[OPT_NANOSECONDS] else 1000
    header, longest = options[OPT_RECORD_HEADER], options[OPT_MAX_PACKET]
    lengths = options[OPT_LENGTHS]
    count = 0
    code = INDEX_FULL
    value = 0
    while count < limit:
        if at + header > end:
            code, value = INDEX_MORE, header
            break
        captured, original = load32(data, at + 8, big), load32(data, at + 12, big)
        if lengths == _LENGTHS_SWAPPED or (
            lengths == _LENGTHS_MAYBE_SWAPPED and captured > original
        ):
            captured, original = original, captured
        if captured > longest:
            code, value = INDEX_BAD, captured
            break
        if at + header + captured > end:
            code, value = INDEX_MORE, header + captured
            break
        look_ahead(data, at, header + captured)
        offset[count] = at + header
        length[count] = captured
        wire_length[count] = min(max(original, captured), MAX_WIRE)
        time_ns[count] = load32(data, at, big) * 1000000000 + load32(data, at + 4, big) * scale
        if header == 24:
            direction[count] = DIRECTION_OUT if load8(data, at + 22) == _PACKET_OUTGOING else 0
        else:
            direction[count] = 0
        count += 1
        at += header + captured
    status[0], status[1], status[2] = at, code, value
    return count


class PcapFormat:
    """Reader of one pcap file; `head` is its first 24 bytes.  Raises ValueError (offset, why)."""

    name = "pcap"

    def __init__(self, head: bytes, device: int):
        if len(head) < HEADER:
            raise ValueError(
                0, f"pcap file header cut short: {HEADER} bytes promised, {len(head)} left"
            )
        order: ByteOrder = "big" if int.from_bytes(head[:4], "big") in _MAGICS else "little"

        def number(at: int, size: int) -> int:
            return int.from_bytes(head[at : at + size], order)

        magic = number(0, 4)
        major, minor = number(4, 2), number(6, 2)
        self.snaplen = number(16, 4)
        self.link_type = link_number(number(20, 4))
        self.device = device
        lengths = _LENGTHS_PLAIN
        if major == 543 or (major == 2 and minor < 3):
            lengths = _LENGTHS_SWAPPED
        elif major == 2 and minor == 3:
            lengths = _LENGTHS_MAYBE_SWAPPED
        self.options = np.zeros(5, np.int64)
        self.options[OPT_BIG] = order == "big"
        self.options[OPT_NANOSECONDS] = magic == _NANOSECONDS
        self.options[OPT_RECORD_HEADER] = 24 if magic == _KUZNETSOV else 16
        self.options[OPT_MAX_PACKET] = max_packet(self.link_type)
        self.options[OPT_LENGTHS] = lengths
        self.start = HEADER
        self.most_needed = 24 + max_packet(self.link_type)

    @property
    def link_types(self) -> list[int]:
        """The link types known so far."""
        return [self.link_type]

    def index(self, data: np.ndarray, at: int, end: int, limit: int) -> Indexed:
        """Up to `limit` packets of `data[at:end]`."""
        offset, time_ns = np.empty(limit, np.int64), np.empty(limit, np.int64)
        length, wire = np.empty(limit, np.int32), np.empty(limit, np.int32)
        direction = np.empty(limit, np.int32)
        status = np.zeros(3, np.int64)
        n = index_pcap(
            data, at, end, limit, self.options, offset, length, wire, time_ns, direction, status
        )
        at, code, value = (int(s) for s in status)
        why = ""
        if code == INDEX_BAD:
            why = (
                f"bad captured length {value}: "
                f"at most {self.options[OPT_MAX_PACKET]} for link type {self.link_type}"
            )
        elif code == INDEX_MORE:
            header = int(self.options[OPT_RECORD_HEADER])
            part, size = ("record header", 0) if value == header else ("packet", header)
            why = f"truncated {part}: {value - size} bytes promised, {end - at - size} left"
        return Indexed(
            offset=offset[:n], length=length[:n], wire_length=wire[:n], time_ns=time_ns[:n],
            link_type=np.full(n, self.link_type, np.int32),
            device=np.full(n, self.device, np.int32), direction=direction[:n],
            next=at, code=code, needed=value, why=why,
        )  # fmt: skip
