"""What is in a capture: frames counted by their outermost IP header, without any host.

    census = Census()
    for batch in open_captures(paths):
        census.add(batch)
    print(census.counts)

The counts are those that a protocol analyser would give for the outermost IP header, so that a
reading of a capture can be checked against another program's.
"""

from __future__ import annotations

import numpy as np

from ippath.batch import PacketBatch
from ippath.handles import open_bytes
from ippath.jit import entry, kernel
from ippath.wire import ipv6
from ippath.wire.checksum import header_ok, partial, pseudo4, transport_ok
from ippath.wire.ether import ETH_P_IP, ETH_P_IPV6, LINK_FOUND, find_network
from ippath.wire.ipv4 import FLAGS_OFFSET, IPPROTO_UDP, MF, OFFSET_MASK, PROTOCOL, TOTAL_LENGTH
from ippath.wire.ipv6 import (
    NEXT_HEADER,
    NEXTHDR_AUTH,
    NEXTHDR_DEST,
    NEXTHDR_FRAGMENT,
    NEXTHDR_HOP,
    NEXTHDR_ROUTING,
    PAYLOAD_LENGTH,
)  # fmt: skip
from ippath.wire.memory import load8, load16be

HEADER4, UDP_HEADER = 20, 8
HEADER6, SOURCE6, DESTINATION6 = ipv6.HEADER, ipv6.SOURCE, ipv6.DESTINATION
MAX_EXTENSIONS = 64
ROUTING_SOURCE, ROUTING_MOBILE, ROUTING_SEGMENTS = 0, 2, 4  # routing header types

NAMES = (
    "packets", "ipv4", "ipv6", "frag4", "frag6", "ip_bad_csum", "udp", "udp_bad_csum", "snapped",
)  # fmt: skip
PACKETS, IPV4, IPV6, FRAG4, FRAG6, IP_BAD_CSUM, UDP, UDP_BAD_CSUM, SNAPPED = range(9)
MEANING = {
    "packets": "frames",
    "ipv4": "frames whose outermost IP header is IPv4",
    "ipv6": "frames whose outermost IP header is IPv6",
    "frag4": "IPv4 fragments",
    "frag6": "IPv6 packets with a fragment header",
    "ip_bad_csum": "IPv4 headers with a wrong checksum",
    "udp": "frames with a UDP header",
    "udp_bad_csum": "UDP checksums that were captured whole and are wrong",
    "snapped": "frames captured shorter than they were on the wire",
}


@kernel
def _pseudo6_routed(data, ip, final, count):
    """Pseudo header sum with the last address of a routing header (RFC 8200 section 8.1)."""
    addresses = partial(data, ip + SOURCE6, 16) + partial(data, final, 16)
    return addresses + ((IPPROTO_UDP + count) << 8)


@kernel
def _count_udp(data, ip, at, end, final, total, counts):
    """Count the UDP header at `at`, and its checksum where all of it was captured (RFC 768).

    `final` is where the final IPv6 destination stands, 0 for IPv4; `total` is the packet's length.
    """
    if at + UDP_HEADER > end:
        return
    counts[UDP] += 1
    length, check = load16be(data, at + 4), load16be(data, at + 6)
    if check == 0:
        if final:  # none is not allowed there (RFC 8200 section 8.1)
            counts[UDP_BAD_CSUM] += 1
        return
    if length < UDP_HEADER or at + length > min(end, ip + total):
        return
    if final:
        pseudo = _pseudo6_routed(data, ip, final, length)
    else:
        pseudo = pseudo4(data, ip, IPPROTO_UDP, length)
    if not transport_ok(data, at, length, pseudo):
        counts[UDP_BAD_CSUM] += 1


@kernel
def _count_ip4(data, ip, end, counts):
    counts[IPV4] += 1
    if ip + HEADER4 > end:
        return
    header, total = (load8(data, ip) & 15) * 4, load16be(data, ip + TOTAL_LENGTH)
    if header < HEADER4:
        return
    word = load16be(data, ip + FLAGS_OFFSET)
    fragment = word & (MF | OFFSET_MASK)
    if fragment:
        counts[FRAG4] += 1
    if ip + header > end:
        return
    if not header_ok(data, ip, header):
        counts[IP_BAD_CSUM] += 1
    if load8(data, ip + PROTOCOL) == IPPROTO_UDP and word & OFFSET_MASK == 0:
        whole = 0 if fragment else total  # a fragment's checksum covers more than the fragment
        _count_udp(data, ip, ip + header, end, 0, whole, counts)


@kernel
def _final_destination(data, at, size, end):
    """Where a routing header with segments left keeps the final address, or 0."""
    if at + size > end or size < 24 or load8(data, at + 3) == 0:
        return 0
    kind = load8(data, at + 2)
    if kind == ROUTING_SEGMENTS:  # stored in reverse (RFC 8754 section 2)
        return at + 8
    if kind == ROUTING_SOURCE or kind == ROUTING_MOBILE:
        return at + 8 + (size - 8) // 16 * 16 - 16
    return 0


@kernel
def _count_ip6(data, ip, end, counts):
    counts[IPV6] += 1
    if ip + HEADER6 > end:
        return
    total = load16be(data, ip + PAYLOAD_LENGTH) + HEADER6
    header, at = load8(data, ip + NEXT_HEADER), ip + HEADER6
    final, fragments = ip + DESTINATION6, 0
    for _ in range(MAX_EXTENSIONS):
        if header == NEXTHDR_HOP or header == NEXTHDR_DEST or header == NEXTHDR_ROUTING:
            if at + 2 > end:
                return
            size = (load8(data, at + 1) + 1) * 8
            if header == NEXTHDR_ROUTING:
                found = _final_destination(data, at, size, end)
                if found:
                    final = found
        elif header == NEXTHDR_AUTH:
            if at + 2 > end:
                return
            size = (load8(data, at + 1) + 2) * 4
        elif header == NEXTHDR_FRAGMENT:
            if at + 8 > end:
                return
            if fragments == 0:
                counts[FRAG6] += 1
            fragments += 1
            word = load16be(data, at + 2)
            if word & 0xFFF8:
                return
            if word & 1:
                total = 0
            size = 8
        else:
            break
        header, at = load8(data, at), at + size
    if header == IPPROTO_UDP:
        _count_udp(data, ip, at, end, final, total, counts)


@entry
def _census(arena, offset, length, wire_length, link_type, counts):
    """Count the frames of a batch into `counts`, int64[len(NAMES)]."""
    data = open_bytes(arena)
    for row in range(offset.shape[0]):
        start = offset[row]
        end = start + length[row]
        counts[PACKETS] += 1
        if wire_length[row] > length[row]:
            counts[SNAPPED] += 1
        status, ip, ethertype, _, _, _ = find_network(data, start, end, np.int64(link_type[row]))
        if status != LINK_FOUND or ip >= end:
            continue
        version = load8(data, ip) >> 4
        if ethertype == ETH_P_IPV6 or (ethertype == ETH_P_IP and version == 6):
            _count_ip6(data, ip, end, counts)
        elif ethertype == ETH_P_IP:
            _count_ip4(data, ip, end, counts)


class Census:
    """Counts of what was added; `counts` has the names of `NAMES`, `link_types` the LINKTYPE_s."""

    def __init__(self) -> None:
        self._counts = np.zeros(len(NAMES), np.int64)
        self.link_types: dict[int, int] = {}

    def add(self, batch: PacketBatch) -> None:
        """Count the frames of a batch; raises ValueError for packets outside its arena."""
        if not len(batch):
            return
        end = batch.offset + batch.length
        if batch.offset.min() < 0 or batch.length.min() < 0 or end.max() > batch.data.shape[0]:
            raise ValueError("the batch has packets outside its arena")
        _census(
            batch.data, batch.offset, batch.length, batch.wire_length, batch.link_type, self._counts
        )
        for link_type, count in zip(*np.unique(batch.link_type, return_counts=True)):
            self.link_types[int(link_type)] = self.link_types.get(int(link_type), 0) + int(count)

    @property
    def counts(self) -> dict[str, int]:
        """The counts by name; what each means is in `MEANING`."""
        return {name: int(count) for name, count in zip(NAMES, self._counts)}
