"""Captures and hosts for workloads, made without reading or sending anything.

Frames have 64 bytes from the destination MAC to the end of the payload, which is what a capture
holds (on a wire 4 bytes of FCS follow).  In a pcap file each takes RECORD bytes.
"""

from __future__ import annotations

import functools
import ipaddress
from pathlib import Path

import numpy as np

from ippath.batch import LINK_ETHERNET, PacketBatch
from ippath.model import Host

FRAME = 64  # bytes
RECORD = 16 + FRAME  # bytes of a pcap record
FILE_HEADER = 24  # bytes of a pcap file header
PORT = 9000
ADDRESSES = 1024  # behind or on the host, for traffic to random destinations
GATEWAYS = 16  # that the router sends to
MAC, PEER_MAC = 0x020000000001, 0x020000000002
FIRST4 = int(ipaddress.IPv4Address("198.18.0.1"))
FIRST6 = int(ipaddress.IPv6Address("2001:db8::1:0"))
PEER4 = int(ipaddress.IPv4Address("198.18.128.1"))
PEER6 = int(ipaddress.IPv6Address("2001:db8::ffff:1"))
_RECORD = np.dtype(
    [("seconds", "<u4"), ("nanoseconds", "<u4"), ("captured", "<u4"), ("wire", "<u4"),
     ("frame", np.uint8, FRAME)]
)  # fmt: skip
START_NS = 1_700_000_000 * 10**9
GAP_NS = 100  # between packets

_LINKS = """\
link set lo up
link add eth0 address 02:00:00:00:00:01 type veth
link set eth0 up
"""


def _destinations() -> list[tuple[str, str]]:
    """(IPv4, IPv6) of all destinations, as people write them."""
    return [
        (str(ipaddress.IPv4Address(FIRST4 + k)), str(ipaddress.IPv6Address(FIRST6 + k)))
        for k in range(ADDRESSES)
    ]


def small_host_lines() -> str:
    """Host file of a host with the first IPv4 address and a socket on PORT."""
    return f"{_LINKS}addr add 198.18.0.1/16 dev eth0\nlisten udp 0.0.0.0:{PORT}\n"


@functools.cache
def receiver_lines() -> str:
    """Host file of a host with ADDRESSES addresses of each family and a socket on PORT for both."""
    lines = [_LINKS]
    for four, six in _destinations():
        lines += [f"addr add {four}/16 dev eth0", f"addr add {six}/64 dev eth0"]
    lines += [f"listen udp 0.0.0.0:{PORT}", f"listen udp [::]:{PORT} v6only"]
    return "\n".join(lines) + "\n"


@functools.cache
def router_lines() -> str:
    """Host file of a router: ADDRESSES host routes of each family by eth1, GATEWAYS next hops.

    Sources are validated strictly on eth0 (rp_filter 1).
    """
    lines = [
        _LINKS, "link add eth1 address 02:00:00:00:00:03 type veth", "link set eth1 up",
        "addr add 198.18.128.2/24 dev eth0", "addr add 2001:db8::ffff:2/112 dev eth0",
        "addr add 203.0.113.1/24 dev eth1", "addr add 2001:db8:1::1/64 dev eth1",
        "net.ipv4.ip_forward = 1", "net.ipv6.conf.all.forwarding = 1",
        "net.ipv4.conf.eth0.rp_filter = 1",
    ]  # fmt: skip
    for k in range(GATEWAYS):
        for gateway in (f"203.0.113.{16 + k}", f"2001:db8:1::{16 + k:x}"):
            lines.append(f"neigh add {gateway} lladdr 02:00:00:00:01:{k:02x} dev eth1")
    for k, (four, six) in enumerate(_destinations()):
        lines.append(f"route add {four} via 203.0.113.{16 + k % GATEWAYS}")
        lines.append(f"-6 route add {six} via 2001:db8:1::{16 + k % GATEWAYS:x}")
    return "\n".join(lines) + "\n"


@functools.cache
def receiver() -> Host:
    """The host of `receiver_lines`."""
    return _host(receiver_lines())


@functools.cache
def router() -> Host:
    """The host of `router_lines`."""
    return _host(router_lines())


def _host(lines: str) -> Host:
    from ippath.config import parse_host

    return parse_host(lines, name="bench")


def udp_frames(family: int, count: int, random_destination: bool, seed: int = 1) -> PacketBatch:
    """`count` frames of FRAME bytes to the receiver's socket, checksums right, GAP_NS apart."""
    head = _ethernet_ip4() if family == 4 else _ethernet_ip6()
    frames = np.zeros((count, FRAME), np.uint8)
    frames[:] = np.frombuffer(head, np.uint8)
    generator = np.random.default_rng(seed)
    chosen = generator.integers(0, ADDRESSES, count) if random_destination else np.zeros(count, int)
    if family == 4:
        destination = FIRST4 + chosen
        for k in range(4):
            frames[:, 30 + k] = destination >> (24 - 8 * k) & 0xFF
    else:
        low = (FIRST6 & 0xFFFF) + chosen
        frames[:, 52], frames[:, 53] = low >> 8, low & 0xFF
    store_checksums(frames, family)
    length = np.full(count, FRAME, np.int32)
    return PacketBatch(
        data=frames.reshape(-1),
        offset=np.arange(count, dtype=np.int64) * FRAME,
        length=length,
        wire_length=length.copy(),
        time_ns=START_NS + GAP_NS * np.arange(count, dtype=np.int64),
        link_type=np.full(count, LINK_ETHERNET, np.int32),
        device=np.zeros(count, np.int32),
        direction=np.zeros(count, np.int32),
        mark=np.zeros(count, np.int64),
    )


def store_checksums(frames: np.ndarray, family: int) -> None:
    """Set the checksums of uint8[n, FRAME] UDP frames (those of IPv4 without options)."""
    if family == 4:
        _store_checksum(frames, 24, [(14, 20)], 0)
        udp, pseudo = 34, (26, 8)
    else:
        udp, pseudo = 54, (22, 32)
    _store_checksum(frames, udp + 6, [pseudo, (udp, FRAME - udp)], 17 + FRAME - udp)


def _ethernet_ip4() -> bytes:
    udp = FRAME - 34
    ip = bytes([0x45, 0]) + (FRAME - 14).to_bytes(2) + bytes([0, 0, 0x40, 0, 64, 17, 0, 0])
    ip += PEER4.to_bytes(4) + bytes(4)
    return _ethernet(0x0800) + ip + _udp(udp)


def _ethernet_ip6() -> bytes:
    udp = FRAME - 54
    ip = bytes([0x60, 0, 0, 0]) + udp.to_bytes(2) + bytes([17, 64])
    ip += PEER6.to_bytes(16) + FIRST6.to_bytes(16)
    return _ethernet(0x86DD) + ip + _udp(udp)


def _ethernet(ethertype: int) -> bytes:
    return MAC.to_bytes(6) + PEER_MAC.to_bytes(6) + ethertype.to_bytes(2)


def _udp(size: int) -> bytes:
    return (40000).to_bytes(2) + PORT.to_bytes(2) + size.to_bytes(2) + bytes(size - 6)


def _store_checksum(frames: np.ndarray, at: int, parts: list[tuple[int, int]], extra: int) -> None:
    """The Internet checksum over `parts` (offset, even count) and `extra`, stored at `at`."""
    frames[:, at : at + 2] = 0
    total = np.full(frames.shape[0], extra, np.int64)
    for start, count in parts:
        block = frames[:, start : start + count].astype(np.int64)
        total += (block[:, 0::2] << 8 | block[:, 1::2]).sum(axis=1)
    for _ in range(3):
        total = (total & 0xFFFF) + (total >> 16)
    check = 0xFFFF ^ total
    frames[:, at], frames[:, at + 1] = check >> 8, check & 0xFF


def save(path: Path, batch: PacketBatch) -> Path:
    """Write a batch of `udp_frames` as a pcap file with nanoseconds."""
    frames = batch.data[batch.offset[:, None] + np.arange(FRAME)]
    with path.open("wb") as file:
        file.write(file_header())
        file.write(records(frames, 0).data)
    return path


def file_header() -> bytes:
    """Of a little-endian pcap file with nanoseconds."""
    words = (0xA1B23C4D, 4 << 16 | 2, 0, 0, 262144, LINK_ETHERNET)
    return b"".join(word.to_bytes(4, "little") for word in words)


def records(frames: np.ndarray, first: int) -> np.ndarray:
    """pcap records of uint8[n, FRAME] frames; `first` is the number of packets before them."""
    table = np.zeros(len(frames), _RECORD)
    time = START_NS + GAP_NS * (first + np.arange(len(frames), dtype=np.int64))
    table["seconds"], table["nanoseconds"] = time // 10**9, time % 10**9
    table["captured"] = table["wire"] = FRAME
    table["frame"] = frames
    return table
