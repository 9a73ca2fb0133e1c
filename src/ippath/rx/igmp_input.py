"""IGMP input: what is taken notice of and what is dropped (kernel: igmp_rcv, igmp_heard_query).

Only the verdict is modelled: memberships are those of the host file, and no reports are sent.
Drops: NOT_SPECIFIED.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.reasons import R_NOT_SPECIFIED
from ippath.rx.packet import capture_cut, deliver, drop, unchecked
from ippath.tables import (
    PACKET_BROADCAST, PACKET_MULTICAST, SKB_AVAIL, SKB_IHL, SKB_IP, SKB_LEN, SKB_PKT_TYPE,
)  # fmt: skip
from ippath.trace import T_IGMP, note
from ippath.wire.checksum import all_ones, partial
from ippath.wire.memory import load8, load16be, load32be

HEADER, QUERY3 = 8, 12  # bytes: a message, an IGMPv3 query (RFC 3376 section 4.1)
MEMBERSHIP_QUERY, REPORT1, REPORT2 = 0x11, 0x12, 0x16


@kernel
def _query_is_good(data, at, size):
    """Is it a query that a host answers (kernel: igmp_heard_query)?"""
    if size == HEADER:
        return True
    if size < QUERY3:
        return False
    sources = load16be(data, at + 10)
    if load32be(data, at + 4) == 0:
        return sources == 0  # a general query names no sources
    return size >= QUERY3 + 4 * sources


@cold
def igmp_rcv(s, data, trace):
    """Handle the IGMP message in hand; always DONE."""
    skb = s.skb
    at = skb[SKB_IP] + skb[SKB_IHL]
    size, present = skb[SKB_LEN] - skb[SKB_IHL], skb[SKB_AVAIL] - skb[SKB_IHL]
    if size < HEADER:
        return drop(s, trace, R_NOT_SPECIFIED)
    if present < min(size, QUERY3):
        return capture_cut(s, trace, skb[SKB_IHL] + min(size, QUERY3))
    valid = True
    if present < size:
        unchecked(s)
    else:
        valid = all_ones(partial(data, at, size))
    kind = load8(data, at)
    note(trace, T_IGMP, kind, valid)
    group_frame = skb[SKB_PKT_TYPE] == PACKET_MULTICAST or skb[SKB_PKT_TYPE] == PACKET_BROADCAST
    if valid and (
        (kind == MEMBERSHIP_QUERY and _query_is_good(data, at, size))
        or ((kind == REPORT1 or kind == REPORT2) and group_frame)
    ):
        return deliver(s, trace)
    return drop(s, trace, R_NOT_SPECIFIED)  # what a host has no use for
