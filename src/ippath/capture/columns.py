"""What both capture formats share: index results, length limits, link type numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ippath.batch import LINK_RAW
from ippath.jit import hot, kernel
from ippath.wire.memory import load16be, load16le, load32be, load32le, prefetch

ByteOrder = Literal["little", "big"]

# why indexing stopped
INDEX_FULL = 0  # as many packets as asked for
INDEX_MORE = 1  # the next record is not complete in the arena
INDEX_BAD = 2  # the next record cannot be right

# The longest packet that is believed (libpcap: max_snaplen_for_dlt).  Anything longer is a damaged
# record header; believing it would skip over the rest of the file.
MAX_PACKET = 262144
MAX_PACKET_BIG = 128 << 20
_BIG_LINKS = {231, 249, 220, 266}  # D-Bus, USBPcap, USB Linux mmapped, USB Darwin

MAX_TIME = 1 << 62  # later times (year 2116) come from damage
MAX_OFFSET = MAX_TIME - 2 * 10**9  # of an interface's clock: the sum of both must fit 63 bits
MAX_INTERFACES = 65536  # more names than this come from damage

# numbers that raw IP has in files of various systems (tcpdump.org/linktypes.html)
_SAME_LINK = {12: LINK_RAW, 14: LINK_RAW}

MAX_WIRE = 0x7FFFFFFF
_AHEAD = 32  # records


def link_number(raw: int) -> int:
    """LINKTYPE_ of a header field, without the frame check length in its top bits."""
    number = raw & 0xFFFF
    return _SAME_LINK.get(number, number)


def max_packet(link_type: int) -> int:
    """The longest captured length that is believed for a link type, in bytes."""
    return MAX_PACKET_BIG if link_type in _BIG_LINKS else MAX_PACKET


@dataclass
class Indexed:
    """Packets found in an arena: columns, where to go on, and what stopped the index."""

    offset: np.ndarray
    length: np.ndarray
    wire_length: np.ndarray
    time_ns: np.ndarray
    link_type: np.ndarray
    device: np.ndarray
    direction: np.ndarray
    next: int  # first byte of the record after the last packet
    code: int  # INDEX_*
    needed: int = 0  # INDEX_MORE: bytes of the next record as far as known
    why: str = ""  # INDEX_MORE, INDEX_BAD: in words
    comments: list[tuple[int, str]] = field(default_factory=list)  # (row, text)


@kernel
def load16(data, at, big):
    """16 bits in the byte order of the file."""
    return load16be(data, at) if big else load16le(data, at)


@kernel
def load32(data, at, big):
    """32 bits in the byte order of the file."""
    return load32be(data, at) if big else load32le(data, at)


@hot
def look_ahead(data, at, size):
    """Fetch what may be a coming record into the cache, if all have this size.

    A record tells only where the next one stands, so that the processor cannot run ahead by itself.
    """
    prefetch(data, at + _AHEAD * size)  # type: ignore[call-arg]
