"""Capture writers: pcap with one link type, pcapng with several interfaces and comments.

Both take whole batches; records are laid out by compiled code.
"""

from __future__ import annotations

import struct
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from ippath.batch import LINK_ETHERNET, PacketBatch
from ippath.capture.pcapng import (
    BYTE_ORDER_MAGIC, ENHANCED_BLOCK, INTERFACE_BLOCK, OPTION_COMMENT, OPTION_IF_NAME,
    OPTION_IF_TSRESOL, OPTION_PACKET_FLAGS, SECTION_BLOCK,
)  # fmt: skip
from ippath.jit import entry
from ippath.wire.memory import copy, store8, store16le, store32le

_BLOCK = 1 << 20  # bytes gathered before they are written
_SNAPLEN = 262144
_NANOSECOND_MAGIC, _MICROSECOND_MAGIC = 0xA1B23C4D, 0xA1B2C3D4
_LAST_SECOND = 0xFFFFFFFF  # pcap has 32 bits for seconds, without sign
_BLOCK_FRAME = 32  # of an enhanced packet block without options
_FLAGS_SIZE = 12  # the option for the direction, and the end of options


@entry
def pack_pcap(data, offset, length, wire_length, time_ns, at, scale, out):
    """Lay out packets from row `at` on in `out` until it is full; returns (rows done, bytes)."""
    size = 0
    while at < offset.shape[0]:
        n = int(length[at])
        if size + 16 + n > out.shape[0]:
            break
        time = max(0, time_ns[at])
        store32le(out, size, min(time // 1000000000, _LAST_SECOND))
        store32le(out, size + 4, time % 1000000000 // scale)
        store32le(out, size + 8, n)
        store32le(out, size + 12, max(n, wire_length[at]))
        copy(out, size + 16, data, offset[at], n)
        size += 16 + n
        at += 1
    return at, size


@entry
def pack_pcapng(data, offset, length, wire_length, time_ns, direction, interface, at, end, out):
    """Lay out enhanced packet blocks of rows `at` to `end` in `out` until it is full.

    Returns (rows done, bytes).
    """
    size = 0
    while at < end:
        n = int(length[at])
        padded = (n + 3) & ~3
        total = _BLOCK_FRAME + padded
        if direction[at] != 0:
            total += _FLAGS_SIZE
        if size + total > out.shape[0]:
            break
        time = max(0, time_ns[at])
        store32le(out, size, ENHANCED_BLOCK)
        store32le(out, size + 4, total)
        store32le(out, size + 8, interface[at])
        store32le(out, size + 12, time >> 32)
        store32le(out, size + 16, time & 0xFFFFFFFF)
        store32le(out, size + 20, n)
        store32le(out, size + 24, max(n, wire_length[at]))
        copy(out, size + 28, data, offset[at], n)
        for k in range(n, padded):
            store8(out, size + 28 + k, 0)
        option = size + 28 + padded
        if direction[at] != 0:
            store16le(out, option, OPTION_PACKET_FLAGS)
            store16le(out, option + 2, 4)
            store32le(out, option + 4, direction[at])
            store32le(out, option + 8, 0)
            option += _FLAGS_SIZE
        store32le(out, option, total)
        size += total
        at += 1
    return at, size


class _Writer:
    """The file, and the block in which records are gathered."""

    def __init__(self, path: str | Path | BinaryIO):
        self._own = isinstance(path, (str, Path))
        self._file: BinaryIO
        if isinstance(path, (str, Path)):
            self._file = open(path, "wb")  # noqa: SIM115 (closed by close)
        else:
            self._file = path
        self._out = np.empty(_BLOCK, np.uint8)
        self.packets = 0

    def _make_room(self, batch: PacketBatch) -> None:
        """Every packet must fit the block."""
        longest = int(batch.length.max(initial=0)) + 64
        if longest > len(self._out):
            self._out = np.empty(longest, np.uint8)

    def _put(self, size: int) -> None:
        self._file.write(self._out[:size].data)

    def close(self) -> None:
        """Writes what is left and closes a file that was opened by name."""
        if self._own:
            self._file.close()
        else:
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class PcapWriter(_Writer):
    """Writes a pcap file of one link type, times in nanoseconds (or microseconds).

    `path` is a file name or a binary file.  Raises OSError if it cannot be written.
    """

    def __init__(
        self,
        path: str | Path | BinaryIO,
        link_type: int = LINK_ETHERNET,
        nanosecond: bool = True,
        snaplen: int = _SNAPLEN,
    ):
        super().__init__(path)
        self.link_type = link_type
        self._scale = 1 if nanosecond else 1000
        magic = _NANOSECOND_MAGIC if nanosecond else _MICROSECOND_MAGIC
        # magic, version 2.4, two unused words, snapshot length, link type
        self._file.write(struct.pack("<IHHIIII", magic, 2, 4, 0, 0, snaplen, link_type))

    def write(self, batch: PacketBatch) -> None:
        """Append the packets; raises ValueError if one has another link type than the file."""
        other = np.flatnonzero(batch.link_type != self.link_type)
        if len(other):
            row = int(other[0])
            raise ValueError(
                f"packet {row} of the batch has link type {batch.link_type[row]}, the file "
                f"{self.link_type}; a pcapng file takes both"
            )
        self._make_room(batch)
        at = 0
        while at < len(batch):
            at, size = pack_pcap(
                batch.data, batch.offset, batch.length, batch.wire_length, batch.time_ns, at,
                self._scale, self._out,
            )  # fmt: skip
            self._put(size)
        self.packets += len(batch)


class PcapNgWriter(_Writer):
    """Writes a pcapng file, times in nanoseconds, comments and directions kept.

    Interfaces are described when their first packet comes: one for each pair of capture interface
    (name from `batch.interfaces`) and link type.  `comment` goes to the head of the file.
    Raises OSError if the file cannot be written.
    """

    def __init__(self, path: str | Path | BinaryIO, comment: str = "", snaplen: int = _SNAPLEN):
        super().__init__(path)
        self._snaplen = snaplen
        self._rows: dict[tuple[int, str, int], int] = {}
        head = _number(BYTE_ORDER_MAGIC, 4) + _number(1, 2) + _number(0, 2) + b"\xff" * 8
        self._file.write(_block(SECTION_BLOCK, head + _options([(OPTION_COMMENT, comment)])))

    def _interface(self, device: int, name: str, link_type: int) -> int:
        key = (device, name, link_type)
        if key not in self._rows:
            self._rows[key] = len(self._rows)
            body = _number(link_type, 2) + _number(0, 2) + _number(self._snaplen, 4)
            options = _options([(OPTION_IF_NAME, name), (OPTION_IF_TSRESOL, b"\x09")])
            self._file.write(_block(INTERFACE_BLOCK, body + options))
        return self._rows[key]

    def _interfaces(self, batch: PacketBatch) -> np.ndarray:
        """The file's interface number of each packet; new ones are described first."""
        pairs = np.stack([batch.device, batch.link_type], axis=1)
        kinds, first, kind = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        numbers = np.zeros(len(kinds), np.int64)
        for k in np.argsort(first):
            device, link = (int(v) for v in kinds[k])
            known = 0 <= device < len(batch.interfaces)
            name = batch.interfaces[device] if known else ""
            numbers[k] = self._interface(device, name, link)
        return numbers[kind.reshape(-1)]

    def write(self, batch: PacketBatch) -> None:
        """Append the packets."""
        if not len(batch):
            return
        interface = self._interfaces(batch)
        self._make_room(batch)
        at = 0
        for row, text in self._commented(batch) + [(len(batch), "")]:
            while at < row:
                at, size = self._pack(batch, interface, at, row)
                self._put(size)
            if row < len(batch):
                at, size = self._pack(batch, interface, row, row + 1)
                body = bytearray(self._out[8 : size - 4].tobytes())
                if batch.direction[row]:
                    del body[-4:]  # the end of options comes behind the comment
                self._file.write(_block(ENHANCED_BLOCK, body + _options([(OPTION_COMMENT, text)])))
        self.packets += len(batch)

    def _pack(
        self, batch: PacketBatch, interface: np.ndarray, at: int, end: int
    ) -> tuple[int, int]:
        return pack_pcapng(
            batch.data, batch.offset, batch.length, batch.wire_length, batch.time_ns,
            batch.direction, interface, at, end, self._out,
        )  # fmt: skip

    def _commented(self, batch: PacketBatch) -> list[tuple[int, str]]:
        """(row, comment) in order of the rows."""
        if not batch.comments:
            return []
        frames = batch.frame_numbers
        order = np.argsort(frames, kind="stable")
        found = []
        for frame, text in batch.comments.items():
            place = int(np.searchsorted(frames, frame, sorter=order))
            if place < len(frames) and frames[order[place]] == frame:
                found.append((int(order[place]), text))
        return sorted(found)


def _number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")


def _options(options: list[tuple[int, str | bytes]]) -> bytes:
    """Options with their end; empty if all are empty.  A text longer than 65535 bytes is cut."""
    packed = b""
    for code, value in options:
        raw = value.encode("utf-8", "replace") if isinstance(value, str) else value
        raw = raw[:0xFFFF]
        if raw:
            packed += _number(code, 2) + _number(len(raw), 2) + raw + b"\0" * (-len(raw) % 4)
    return packed + b"\0" * 4 if packed else b""


def _block(kind: int, body: bytes | bytearray) -> bytes:
    size = _number(12 + len(body), 4)
    return _number(kind, 4) + size + bytes(body) + size
