"""Fragments for workloads, made in memory: many datagrams, in order or not, one after the other or not."""

from __future__ import annotations

import ipaddress

import numpy as np

from ippath.batch import LINK_RAW, PacketBatch

SOURCE4, HOST4 = ipaddress.IPv4Address("10.0.0.2").packed, ipaddress.IPv4Address("10.0.0.1").packed
SOURCE6 = ipaddress.IPv6Address("2001:db8::2").packed
HOST6 = ipaddress.IPv6Address("2001:db8::1").packed
START_NS = 1_700_000_000 * 10**9
UDP, MORE = 17, 0x2000
# headers of nine bytes, so that all frames are of one length: flow label, next header, hop limit, source
IPHC = bytes.fromhex("6823 000001 3b 40 0005")
FIRST_PART, LATER_PART = 112, 80  # bytes of the IPv6 packet that a fragment stands for
ORDERS = ("in order", "reversed", "shuffled")


def fragments(
    family: int, pieces: int, flows: int, rounds: int, order: str = "in order", payload: int = 64
) -> np.ndarray:
    """IP packets, uint8[rounds * flows * pieces, length]: `flows` datagrams at a time, interleaved.

    Each datagram falls into `pieces` fragments of `payload` bytes.  `order` is that of the fragments of
    each round.  The identification tells datagrams apart, beyond 65,536 the source address, too.
    """
    datagram, piece = _numbered(pieces, flows, rounds, order)
    return packets(family, datagram, piece * payload, piece < pieces - 1, payload)


def lowpan_fragments(pieces: int, flows: int, rounds: int, order: str = "in order") -> np.ndarray:
    """IEEE 802.15.4 frames with 6LoWPAN fragments, otherwise as `fragments`; headers are compressed."""
    datagram, piece = _numbered(pieces, flows, rounds, order)
    first = piece == 0
    size = FIRST_PART + (pieces - 1) * LATER_PART
    made = np.zeros((len(datagram), 21 + 5 + LATER_PART), np.uint8)
    made[:, :5] = np.frombuffer(bytes.fromhex("41cc 07 cdab"), np.uint8)
    made[:, 5:13] = np.frombuffer(bytes.fromhex("0100000000000002"), np.uint8)
    made[:, 13:17].view("<u4")[:, 0] = datagram >> 16
    made[:, 20] = 2
    made[:, 21:23] = (
        np.where(first, 0xC000 | size, 0xE000 | size).astype(">u2")[:, None].view(np.uint8)
    )
    made[:, 23:25] = (datagram & 0xFFFF).astype(">u2")[:, None].view(np.uint8)
    made[:, 25] = (FIRST_PART + (piece - 1) * LATER_PART) // 8
    made[first, 25:34] = np.frombuffer(IPHC, np.uint8)
    return made


def _numbered(pieces: int, flows: int, rounds: int, order: str) -> tuple[np.ndarray, np.ndarray]:
    """Number of the datagram, and of the piece, of each fragment."""
    count = rounds * flows * pieces
    number = np.arange(rounds * flows).reshape(rounds, 1, flows)
    datagram = np.broadcast_to(number, (rounds, pieces, flows)).reshape(rounds, -1)
    piece = np.broadcast_to(np.arange(pieces).reshape(1, pieces, 1), (rounds, pieces, flows))
    piece = piece.reshape(rounds, -1)
    if order == "reversed":
        datagram, piece = datagram[:, ::-1], piece[:, ::-1]
    elif order == "shuffled":
        places = np.random.default_rng(1).permuted(
            np.broadcast_to(np.arange(pieces * flows), datagram.shape), axis=1
        )
        datagram = np.take_along_axis(datagram, places, 1)
        piece = np.take_along_axis(piece, places, 1)
    return datagram.reshape(count), piece.reshape(count)


def packets(
    family: int, datagram: np.ndarray, offset: np.ndarray, more: np.ndarray, payload: int
) -> np.ndarray:
    """One fragment for each row: number of its datagram, first byte, whether others follow."""
    header = 20 if family == 4 else 48
    made = np.zeros((len(datagram), header + payload), np.uint8)
    if family == 4:
        words = made[:, :20].view(">u2")
        words[:, 0] = 0x4500
        words[:, 1] = header + payload
        words[:, 2] = datagram & 0xFFFF
        words[:, 3] = offset // 8 | np.where(more, MORE, 0)
        words[:, 4] = 64 << 8 | UDP
        made[:, 12:20] = np.frombuffer(SOURCE4 + HOST4, np.uint8)
        made[:, 13] = datagram >> 16
        total = words.astype(np.int64).sum(axis=1)
        words[:, 5] = 0xFFFF ^ _folded(total)
        return made
    made[:, :8].view(">u4")[:, 0] = 6 << 28
    made[:, 4:6].view(">u2")[:, 0] = 8 + payload
    made[:, 6], made[:, 7], made[:, 40] = 44, 64, UDP
    made[:, 8:40] = np.frombuffer(SOURCE6 + HOST6, np.uint8)
    made[:, 42:44].view(">u2")[:, 0] = offset | more
    made[:, 44:48].view(">u4")[:, 0] = datagram
    return made


def _folded(total: np.ndarray) -> np.ndarray:
    total = (total & 0xFFFF) + (total >> 16)
    return (total & 0xFFFF) + (total >> 16)


def batch_of(made: np.ndarray, gap_ns: int = 100, link_type: int = LINK_RAW) -> PacketBatch:
    """The packets as a batch; the default link type is none."""
    count, length = made.shape
    return PacketBatch(
        data=made.reshape(-1),
        offset=np.arange(count) * length,
        length=np.full(count, length),
        wire_length=np.full(count, length),
        time_ns=START_NS + gap_ns * np.arange(count),
        link_type=np.full(count, link_type),
        device=np.zeros(count),
        direction=np.zeros(count),
        mark=np.zeros(count),
    )


def attack(runs: int, datagrams: int, seed: int = 1) -> np.ndarray:
    """Fragments of 8 bytes with holes between them, in random order; no datagram is ever whole.

    `runs` for each of `datagrams`, one datagram after the other; at most 4,095.
    """
    random = np.random.default_rng(seed)
    order = random.permuted(np.broadcast_to(np.arange(runs), (datagrams, runs)), axis=1)
    number = np.repeat(np.arange(datagrams), runs)
    return packets(4, number + 1000, order.reshape(-1) * 16, np.ones(len(number), bool), 8)
