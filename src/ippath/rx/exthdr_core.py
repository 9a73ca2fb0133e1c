"""Where the upper layer of an IPv6 packet begins (kernel: net/ipv6/exthdrs_core.c)."""

from __future__ import annotations

from ippath.jit import kernel
from ippath.wire.ipv6 import (
    HEADER, NEXTHDR_AUTH, NEXTHDR_DEST, NEXTHDR_FRAGMENT, NEXTHDR_HOP, NEXTHDR_NONE,
    NEXTHDR_ROUTING, NEXT_HEADER,
)  # fmt: skip
from ippath.wire.memory import load8, load16be

MAX_EXTENSIONS = 1 << 13  # as many as fit into a packet


@kernel
def is_extension(header):
    """Is it an extension header that can be skipped (kernel: ipv6_ext_hdr, without NEXTHDR_NONE)?"""
    return (
        header == NEXTHDR_HOP
        or header == NEXTHDR_ROUTING
        or header == NEXTHDR_FRAGMENT
        or header == NEXTHDR_AUTH
        or header == NEXTHDR_DEST
    )


@kernel
def find_fragment_header(data, ip, available):
    """(where its number stands, the fragment header) of the packet at `data[ip]`, or (-1, -1).

    Offsets count from the IPv6 header (kernel: find_prev_fhdr).
    """
    number_at, at = NEXT_HEADER, HEADER
    for _ in range(MAX_EXTENSIONS):
        header = load8(data, ip + number_at)
        if header == NEXTHDR_FRAGMENT:
            return (number_at, at) if at <= available else (-1, -1)
        if not is_extension(header) or at + 2 > available:
            break
        number_at = at
        if header == NEXTHDR_AUTH:
            at += (load8(data, ip + at + 1) + 2) * 4
        else:
            at += (load8(data, ip + at + 1) + 1) * 8
    return -1, -1


@kernel
def skip_extensions(data, ip, available):
    """(upper protocol, its offset, offset and flags of the fragment) of the packet at `data[ip]`.

    Offsets count from the IPv6 header; -1 where the chain runs out of the `available` bytes.  A
    later fragment ends at its fragment header (kernel: ipv6_skip_exthdr).
    """
    header, at = load8(data, ip + NEXT_HEADER), HEADER
    fragment = 0
    for _ in range(MAX_EXTENSIONS):
        if header == NEXTHDR_NONE:
            break
        if not is_extension(header):
            return header, at, fragment
        if at + (4 if header == NEXTHDR_FRAGMENT else 2) > available:
            break
        size = 8
        if header == NEXTHDR_FRAGMENT:
            fragment = load16be(data, ip + at + 2)
            if fragment & ~7:
                return header, at, fragment
        elif header == NEXTHDR_AUTH:
            size = (load8(data, ip + at + 1) + 2) * 4
        else:
            size = (load8(data, ip + at + 1) + 1) * 8
        header = load8(data, ip + at)
        at += size
    return header, -1, fragment
