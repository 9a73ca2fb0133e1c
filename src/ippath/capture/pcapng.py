"""The pcapng format (draft-ietf-opsawg-pcapng): sections, interfaces, and the index of packets.

The compiled index walks the blocks that carry packets and skips those that say nothing about them;
it stops at section headers and interface descriptions, which are few and read in Python.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ippath.capture.columns import (
    INDEX_BAD, INDEX_FULL, INDEX_MORE, MAX_INTERFACES, MAX_OFFSET, MAX_PACKET, MAX_PACKET_BIG,
    MAX_TIME, MAX_WIRE, ByteOrder, Indexed, link_number, load16, load32,
    look_ahead, max_packet,
)  # fmt: skip
from ippath.jit import entry, kernel

SECTION_BLOCK = 0x0A0D0D0A  # the same in either byte order
INTERFACE_BLOCK, OLD_PACKET_BLOCK, SIMPLE_BLOCK, ENHANCED_BLOCK = 1, 2, 3, 6
BYTE_ORDER_MAGIC = 0x1A2B3C4D
HEADER = 12  # type, length and byte order of the first section

OPTION_END, OPTION_COMMENT = 0, 1
OPTION_PACKET_FLAGS = 2
OPTION_IF_NAME, OPTION_IF_TSRESOL, OPTION_IF_TSOFFSET = 2, 9, 14

# a block that claims more than this is damaged: any packet, and as much again in options
_MAX_BLOCK, _MAX_BLOCK_BIG = 16 << 20, MAX_PACKET_BIG + (16 << 20)

# interface table of a section
IF_MODE, IF_FACTOR, IF_MAX_UNITS, IF_OFFSET = range(4)
IF_LINK, IF_SNAPLEN, IF_DEVICE, IF_MAX_PACKET = range(4, 8)
IF_COLUMNS = 8
# how a time stamp becomes nanoseconds: times a factor, divided by it, or shifted right by it
_MULTIPLY, _DIVIDE, _BINARY = range(3)

# comments: row, first byte, bytes
_COMMENT_ROWS = 4096

# status words of the index
ST_NEXT, ST_CODE, ST_VALUE, ST_OTHER, ST_COMMENTS, ST_TIME = range(6)
# further reasons to stop
_AT_SECTION, _AT_INTERFACE = 10, 11
_BAD_LENGTH, _BAD_TRAILER, _BAD_PACKET, _BAD_CAPTURED, _BAD_INTERFACE = range(12, 17)


def is_pcapng(head: bytes) -> bool:
    """Whether a file that starts with these bytes is a pcapng file."""
    return head[:4] == b"\n\r\r\n"


@kernel
def _nanoseconds(interfaces, row, high, low):
    """Nanoseconds since 1970 of a time stamp in units of the interface; damage gives MAX_TIME."""
    units = (high << 32) | low
    if high >= 1 << 31 or units > interfaces[row, IF_MAX_UNITS]:
        units = interfaces[row, IF_MAX_UNITS]
    mode, factor = interfaces[row, IF_MODE], interfaces[row, IF_FACTOR]
    if mode == _MULTIPLY:
        time = units * factor
    elif mode == _DIVIDE:
        time = units // factor if factor else 0
    else:
        whole = units >> factor
        part = units - (whole << factor)
        # the product with 10^9 (30 bits) must fit 63 bits
        if factor > 33:
            time = whole * 1000000000 + (((part >> (factor - 33)) * 1000000000) >> 33)
        else:
            time = whole * 1000000000 + ((part * 1000000000) >> factor)
    return min(time + interfaces[row, IF_OFFSET], MAX_TIME)


@kernel
def _packet_options(data, at, end, big, row, comments, found):
    """Reads the options of a packet; returns (direction, number of comments found so far)."""
    direction = 0
    while at + 4 <= end:
        code, size = load16(data, at, big), load16(data, at + 2, big)
        at += 4
        if code == OPTION_END or at + size > end:
            break
        if code == OPTION_PACKET_FLAGS and size == 4:
            direction = load32(data, at, big) & 3
            if direction == 3:
                direction = 0
        elif code == OPTION_COMMENT and found < comments.shape[0]:
            comments[found, 0], comments[found, 1], comments[found, 2] = row, at, size
            found += 1
        at += (size + 3) & ~3
    return direction, found


@entry
def index_pcapng(
    data, at, end, limit, big, interfaces, interface_count, max_block,
    offset, length, wire_length, time_ns, link_type, device, direction, comments, status,
):  # fmt: skip
    """Fill the columns with up to `limit` packets of the blocks in `data[at:end]`.

    Returns the number of packets.  status: next block, code, two values for the words, comments
    found; ST_TIME goes in and out: the time of the last packet, which simple packets take over.
    """
    count, found = 0, 0
    code, value, other = INDEX_FULL, 0, 0
    last_time = status[ST_TIME]
    while count < limit and found < comments.shape[0]:
        if at + 12 > end:
            code, value = INDEX_MORE, 12
            break
        kind = load32(data, at, big)
        if kind == SECTION_BLOCK:  # its length is in its own byte order
            code = _AT_SECTION
            break
        total = load32(data, at + 4, big)
        if total < 12 or total > max_block:
            code, value = _BAD_LENGTH, total
            break
        if at + total > end:
            code, value = INDEX_MORE, total
            break
        # some writers leave the padding out of the length
        size = total
        trailer = load32(data, at + total - 4, big)
        if trailer != total:
            size = (total + 3) & ~3
            if size != total:
                if at + size > end:
                    code, value = INDEX_MORE, size
                    break
                trailer = load32(data, at + size - 4, big)
            if trailer != total:
                code, value, other = _BAD_TRAILER, total, trailer
                break
        if kind == INTERFACE_BLOCK:
            code = _AT_INTERFACE
            break
        body_end = at + size - 4
        if kind == ENHANCED_BLOCK or kind == OLD_PACKET_BLOCK:
            if total < 32:
                code, value = _BAD_LENGTH, total
                break
            if kind == ENHANCED_BLOCK:
                row = load32(data, at + 8, big)
            else:
                row = load16(data, at + 8, big)
            captured, original = load32(data, at + 20, big), load32(data, at + 24, big)
            start = at + 28
            if row >= interface_count:
                code, value, other = _BAD_INTERFACE, row, interface_count
                break
            last_time = _nanoseconds(
                interfaces, row, load32(data, at + 12, big), load32(data, at + 16, big)
            )
        elif kind == SIMPLE_BLOCK:
            if total < 16:
                code, value = _BAD_LENGTH, total
                break
            row = 0
            if interface_count == 0:
                code, value, other = _BAD_INTERFACE, 0, 0
                break
            original, start = load32(data, at + 8, big), at + 12
            captured = min(original, body_end - start)
            if interfaces[0, IF_SNAPLEN] > 0:
                captured = min(captured, interfaces[0, IF_SNAPLEN])
        else:
            at += size
            continue
        if captured > body_end - start:
            code, value, other = _BAD_PACKET, captured, body_end - start
            break
        if captured > interfaces[row, IF_MAX_PACKET]:
            code, value, other = _BAD_CAPTURED, captured, row
            break
        way = 0
        options = start + ((captured + 3) & ~3)
        if kind != SIMPLE_BLOCK and options + 4 <= body_end:
            way, found = _packet_options(data, options, body_end, big, count, comments, found)
        look_ahead(data, at, size)
        offset[count], length[count] = start, captured
        wire_length[count] = min(max(original, captured), MAX_WIRE)
        time_ns[count] = last_time
        link_type[count], device[count] = interfaces[row, IF_LINK], interfaces[row, IF_DEVICE]
        direction[count] = way
        count += 1
        at += size
    status[ST_NEXT], status[ST_CODE], status[ST_VALUE], status[ST_OTHER] = at, code, value, other
    status[ST_COMMENTS], status[ST_TIME] = found, last_time
    return count


class PcapNgFormat:
    """Reader of one pcapng file.

    `add_interface(local number, name)` gives the capture interface number of an interface.  Raises
    ValueError (offset, why) if the first section header is no such thing.
    """

    name = "pcapng"

    def __init__(self, head: bytes, add_interface: Callable[[int, str], int]):
        self._add_interface = add_interface
        self.start = 0
        self.notes: list[str] = []  # comments on sections and interfaces
        self._interfaces = np.zeros((4, IF_COLUMNS), np.int64)
        self._count = 0
        self._big = 0
        self._time = 0
        self._max_block = _MAX_BLOCK
        self.most_needed = _MAX_BLOCK_BIG
        self._links: dict[int, None] = {}
        if len(head) < HEADER:
            raise ValueError(
                0, f"pcapng section header cut short: {HEADER} bytes promised, {len(head)} left"
            )
        if _byte_order(head[8:12]) is None:
            raise ValueError(8, f"pcapng section header with byte-order magic {head[8:12].hex()}")

    @property
    def _order(self) -> ByteOrder:
        return "big" if self._big else "little"

    @property
    def link_types(self) -> list[int]:
        """The link types known so far."""
        return list(self._links)

    # --- blocks that are read in Python -----------------------------------------------------------

    def _options(self, data: np.ndarray, at: int, end: int) -> list[tuple[int, bytes]]:
        found = []
        order = self._order
        raw = data[at:end].tobytes()
        at = 0
        while at + 4 <= len(raw):
            code = int.from_bytes(raw[at : at + 2], order)
            size = int.from_bytes(raw[at + 2 : at + 4], order)
            at += 4
            if code == OPTION_END or at + size > len(raw):
                break
            found.append((code, raw[at : at + size]))
            at += (size + 3) & ~3
        return found

    def _note(self, options: list[tuple[int, bytes]]) -> None:
        for code, raw in options:
            if code == OPTION_COMMENT and len(self.notes) < _COMMENT_ROWS:
                self.notes.append(_text(raw))

    def _read_section(self, data: np.ndarray, at: int, end: int) -> tuple[int, int, str]:
        """(code, bytes of the block or bytes needed, why) of the section header at `at`."""
        if at + HEADER > end:
            return INDEX_MORE, HEADER, ""
        order = _byte_order(data[at + 8 : at + 12].tobytes())
        if order is None:
            magic = data[at + 8 : at + 12].tobytes().hex()
            return INDEX_BAD, 0, f"section header with byte-order magic {magic}"
        total = int.from_bytes(data[at + 4 : at + 8].tobytes(), order)
        if total < 28 or total % 4 or total > _MAX_BLOCK:
            return INDEX_BAD, 0, f"bad block length {total} of a section header"
        if at + total > end:
            return INDEX_MORE, total, ""
        trailer = int.from_bytes(data[at + total - 4 : at + total].tobytes(), order)
        if trailer != total:
            return INDEX_BAD, 0, _trailer_text(total, trailer)
        major = int.from_bytes(data[at + 12 : at + 14].tobytes(), order)
        if major != 1:
            return INDEX_BAD, 0, f"pcapng version {major}, expected 1"
        self._big, self._count = int(order == "big"), 0
        self._note(self._options(data, at + 24, at + total - 4))
        return INDEX_FULL, total, ""

    def _read_interface(self, data: np.ndarray, at: int) -> tuple[int, int, str]:
        order = self._order
        total = int.from_bytes(data[at + 4 : at + 8].tobytes(), order)
        size = (total + 3) & ~3  # the index has seen that it ends in the arena
        if int.from_bytes(data[at + total - 4 : at + total].tobytes(), order) == total:
            size = total
        if total < 20:
            return INDEX_BAD, 0, f"bad block length {total} of an interface description"
        link = link_number(int.from_bytes(data[at + 8 : at + 10].tobytes(), order))
        options = self._options(data, at + 16, at + size - 4)
        self._note(options)
        first = {code: raw for code, raw in reversed(options)}
        resolution = first.get(OPTION_IF_TSRESOL, b"")
        seconds = int.from_bytes(first.get(OPTION_IF_TSOFFSET, b""), order, signed=True)
        if self._count == len(self._interfaces):
            self._interfaces = np.concatenate([self._interfaces, np.zeros_like(self._interfaces)])
        row = self._interfaces[self._count]
        row[IF_MODE], row[IF_FACTOR], row[IF_MAX_UNITS] = _resolution(
            resolution[0] if resolution else 6
        )
        row[IF_OFFSET] = max(-MAX_OFFSET, min(MAX_OFFSET, seconds * 10**9))
        row[IF_LINK] = link
        row[IF_SNAPLEN] = int.from_bytes(data[at + 12 : at + 16].tobytes(), order)
        row[IF_MAX_PACKET] = max_packet(link)
        device = self._add_interface(self._count, _text(first.get(OPTION_IF_NAME, b"")))
        if device < 0:
            return INDEX_BAD, 0, f"more than {MAX_INTERFACES} interfaces"
        row[IF_DEVICE] = device
        if row[IF_MAX_PACKET] > MAX_PACKET:
            self._max_block = _MAX_BLOCK_BIG
        self._links[link] = None
        self._count += 1
        return INDEX_FULL, size, ""

    # --- packets ----------------------------------------------------------------------------------

    def index(self, data: np.ndarray, at: int, end: int, limit: int) -> Indexed:
        """Up to `limit` packets of `data[at:end]`."""
        offset, time_ns = np.empty(limit, np.int64), np.empty(limit, np.int64)
        columns = [np.empty(limit, np.int32) for _ in range(5)]
        length, wire, link, device, direction = columns
        comments = np.empty((_COMMENT_ROWS, 3), np.int64)
        status = np.zeros(6, np.int64)
        texts: list[tuple[int, str]] = []
        n, needed, why = 0, 0, ""
        while True:
            status[ST_TIME] = self._time
            rows = slice(n, limit)
            found = index_pcapng(
                data, at, end, limit - n, self._big, self._interfaces, self._count,
                self._max_block, offset[rows], length[rows], wire[rows], time_ns[rows],
                link[rows], device[rows], direction[rows], comments, status,
            )  # fmt: skip
            at, code, value, other = (int(status[k]) for k in range(4))
            self._time = int(status[ST_TIME])
            for row, start, size in comments[: status[ST_COMMENTS]].tolist():
                texts.append((n + row, _text(data[start : start + size].tobytes())))
            n += int(found)
            if code == INDEX_MORE:
                needed = value
            elif code == _AT_SECTION or code == _AT_INTERFACE:
                if code == _AT_SECTION:
                    code, needed, why = self._read_section(data, at, end)
                else:
                    code, needed, why = self._read_interface(data, at)
                if code == INDEX_FULL:
                    at += needed
                    continue
            elif code != INDEX_FULL:
                code, why = INDEX_BAD, self._why(code, value, other)
            if code == INDEX_MORE:
                part = "block header" if needed == 12 else "block"
                why = f"truncated {part}: {needed} bytes promised, {end - at} left"
            break
        return Indexed(
            offset=offset[:n], length=length[:n], wire_length=wire[:n], time_ns=time_ns[:n],
            link_type=link[:n], device=device[:n], direction=direction[:n],
            next=at, code=code, needed=needed, why=why, comments=texts,
        )  # fmt: skip

    def _why(self, code: int, value: int, other: int) -> str:
        if code == _BAD_LENGTH:
            return f"bad block length {value}"
        if code == _BAD_TRAILER:
            return _trailer_text(value, other)
        if code == _BAD_PACKET:
            return f"packet of {value} captured bytes in a block that has room for {other}"
        if code == _BAD_CAPTURED:
            link, most = self._interfaces[other, IF_LINK], self._interfaces[other, IF_MAX_PACKET]
            return f"bad captured length {value}: at most {most} for link type {link}"
        return f"packet of interface {value}, but the section describes {other}"


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("utf-8", "replace")


def _byte_order(magic: bytes) -> ByteOrder | None:
    if magic == BYTE_ORDER_MAGIC.to_bytes(4, "little"):
        return "little"
    return "big" if magic == BYTE_ORDER_MAGIC.to_bytes(4, "big") else None


def _trailer_text(total: int, trailer: int) -> str:
    return f"bad block length: {total} at its start, {trailer} at its end"


def _resolution(code: int) -> tuple[int, int, int]:
    """(mode, factor, greatest units) of an if_tsresol byte (draft section 4.2)."""
    power = code & 0x7F
    if code & 0x80:
        if power <= 62:
            return _BINARY, power, min((1 << 63) - 1, (MAX_TIME // 10**9) << power)
        # all 63 bits are less than a second
        return (_DIVIDE, (1 << power) // 10**9, (1 << 63) - 1) if power <= 92 else (_DIVIDE, 0, 0)
    if power <= 9:
        factor = 10 ** (9 - power)
        return _MULTIPLY, factor, (MAX_TIME - 1) // factor
    # 10^18 is the last power that fits; finer units of 63 bits are less than a nanosecond
    return (_DIVIDE, 10 ** (power - 9), (1 << 63) - 1) if power <= 27 else (_DIVIDE, 0, 0)
