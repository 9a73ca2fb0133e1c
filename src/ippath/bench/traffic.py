"""Captures and hosts for workloads, made without reading or sending anything."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import numpy as np

from ippath.batch import LINK_ETHERNET, PacketBatch
from ippath.model import (
    SCOPE_HOST, SCOPE_LINK, SCOPE_NOWHERE, TABLE_LOCAL, Address, Device, Host, Listener, Nexthop,
    Route, Rule,
)  # fmt: skip

FRAME = 64  # bytes
PORT = 9000
ADDRESSES = 1024  # of the host, for traffic to random destinations
MAC, PEER_MAC = 0x020000000001, 0x020000000002
FIRST4 = int(ipaddress.IPv4Address("198.18.0.1"))
FIRST6 = int(ipaddress.IPv6Address("2001:db8::1:0"))
PEER4 = int(ipaddress.IPv4Address("198.18.128.1"))
PEER6 = int(ipaddress.IPv6Address("2001:db8::ffff:1"))
START_NS = 1_700_000_000 * 10**9
GAP_NS = 100


def receiver() -> Host:
    """A host with ADDRESSES addresses of each family on eth0 and a socket on PORT for both."""
    lo = Device("lo", 1, "loopback", mtu=65536)
    eth0 = Device("eth0", 2, mac=MAC)
    host = Host(devices=[lo, eth0], source="bench")
    for family, first, plen in ((4, FIRST4, 16), (6, FIRST6, 64)):
        bits = 32 if family == 4 else 128
        hop = Nexthop("eth0", scope=SCOPE_HOST)
        prefix = first >> (bits - plen) << (bits - plen)
        scope = SCOPE_LINK if family == 4 else 0
        connected = Route(family, prefix, plen, scope=scope, protocol="kernel", nexthops=[hop])
        host.routes.append(connected)
        for ip in range(first, first + ADDRESSES):
            eth0.addresses.append(Address(family, ip, plen))
            own = Nexthop("eth0", scope=SCOPE_NOWHERE)
            host.routes.append(
                Route(family, ip, bits, TABLE_LOCAL, "local", scope=SCOPE_HOST if family == 4 else 0,
                      protocol="kernel", nexthops=[own])
            )  # fmt: skip
        tables = (255, 254, 253) if family == 4 else (255, 254)
        host.rules += [Rule(family, p, table=t) for p, t in zip((0, 32766, 32767), tables)]
        host.listeners.append(Listener(family, 0, PORT, v6only=family == 6))
    return host


def udp_frames(family: int, count: int, random_destination: bool, seed: int = 1) -> PacketBatch:
    """`count` frames of 64 bytes to the receiver's socket, checksums right, GAP_NS apart."""
    head = _ethernet_ip4() if family == 4 else _ethernet_ip6()
    frames = np.zeros((count, FRAME), np.uint8)
    frames[:] = np.frombuffer(head, np.uint8)
    generator = np.random.default_rng(seed)
    chosen = generator.integers(0, ADDRESSES, count) if random_destination else np.zeros(count, int)
    if family == 4:
        destination = FIRST4 + chosen
        for k in range(4):
            frames[:, 30 + k] = destination >> (24 - 8 * k) & 0xFF
        _store_checksum(frames, 24, [(14, 20)], 0)
        udp, pseudo = 34, [(26, 8)]
    else:
        low = (FIRST6 & 0xFFFF) + chosen
        frames[:, 52], frames[:, 53] = low >> 8, low & 0xFF
        udp, pseudo = 54, [(22, 32)]
    _store_checksum(frames, udp + 6, [*pseudo, (udp, FRAME - udp)], 17 + FRAME - udp)
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
    total = np.full(frames.shape[0], extra, np.int64)
    for start, count in parts:
        block = frames[:, start : start + count].astype(np.int64)
        total += (block[:, 0::2] << 8 | block[:, 1::2]).sum(axis=1)
    for _ in range(3):
        total = (total & 0xFFFF) + (total >> 16)
    check = 0xFFFF ^ total
    frames[:, at], frames[:, at + 1] = check >> 8, check & 0xFF


def save(path: Path, batch: PacketBatch) -> Path:
    """Write a batch as a pcap file with nanoseconds."""
    from ippath.capture import PcapWriter

    with PcapWriter(path, LINK_ETHERNET, nanosecond=True) as writer:
        writer.write(batch)
    return path
