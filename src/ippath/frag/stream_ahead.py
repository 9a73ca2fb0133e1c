"""Datagrams whose fragments follow each other in order: joined at once, without a queue.

That is how fragments leave their sender, and how most captures have them.  What comes out, what is
counted and what the memory is charged are as if each fragment had waited in a queue for the next; where
that is not certain, `join_ahead` leaves the fragments to their queue.
"""

from __future__ import annotations

from ippath.frag.queue import is_known
from ippath.frag.store import truesize
from ippath.frag.stream_join import (
    LARGEST, OUT_COUNT, OUT_FRAMES, ecn_of, finish_header4, finish_header6, finish_link,
    is_oversize, note_out,
)  # fmt: skip
from ippath.frag.stream_read import IS_FRAGMENT, JOINED, KEPT, read_fragment, take_up
from ippath.jit import kernel
from ippath.tables import (
    FM_DST_HI, FM_DST_LO, FM_DUE_NS, FM_ID, FM_JOINED, FM_SRC_HI, FM_SRC_LO, FM_USER,
    FQDIR_DATAGRAMS, FQDIR_FRAGMENTS, FQDIR_HIGH, FQDIR_IPV4, FQDIR_IPV6, FQDIR_JOINED, FQDIR_MEM,
    FQDIR_PEAK, FQDIR_QUEUE_CHARGE, FQDIR_STORE, FQDIR_TIMEOUT_NS, MISC_NOW_NS, MISC_OUT_BYTES,
    SKB_AVAIL, SKB_LINK, SKB_NEXTHDR_AT, SKB_WIRE_END, STORE_RUNS,
)  # fmt: skip
from ippath.wire import ipv6
from ippath.wire.ether import ETH_P_IP, ETH_P_IPV6, LINK_FOUND, find_network
from ippath.wire.ipv4 import DF, FLAGS_OFFSET
from ippath.wire.memory import copy, load8, load16be

MOST = 64  # fragments, as of a datagram as large as they get by Ethernet


@kernel
def _fits(s, header, offset, end, more):
    """Is there nothing about the fragment itself that a queue would have to look at?"""
    whole = s.skb[SKB_AVAIL] - header >= end - offset  # as far as the capture goes
    return whole and offset < end <= LARGEST and not (more and end & 7)


@kernel
def join_ahead(
    s, data, place, length, wire_length, time_ns, link_type, device, frame, outcome, row, stop,
    six, ip, user, header, end, tos,
):  # fmt: skip
    """Join the datagram that packet `row` begins, if the next packets are the rest of it.

    The packet in hand has bytes [0, end) behind `header` bytes; others follow.  Returns how many packets
    are done; 0 if none, and then another packet may be in hand.
    """
    skb, fm, out, misc = s.skb, s.frag_misc, s.out_data, s.misc
    directory = s.fqdir[FQDIR_IPV6 if six else FQDIR_IPV4]
    start, first, before = skb[SKB_LINK], header, header - (ipv6.FRAGMENT_HEADER if six else 0)
    link, nexthdr_at, now = ip - start, skb[SKB_NEXTHDR_AT], misc[MISC_NOW_NS]
    last = min(stop, row + MOST) - 1
    if (
        directory[FQDIR_STORE] != STORE_RUNS
        or s.overlaps.shape[0]
        or not _fits(s, header, 0, end, 1)
        or is_oversize(six, header - link, end)
    ):
        return 0
    src_hi, src_lo, dst_hi, dst_lo = fm[FM_SRC_HI], fm[FM_SRC_LO], fm[FM_DST_HI], fm[FM_DST_LO]
    user_key, number = fm[FM_USER], fm[FM_ID]
    protocol = load8(data, start + before)  # of IPv6
    at, joined = misc[MISC_OUT_BYTES], fm[FM_JOINED]
    copy(out, at, data, start, before)
    copy(out, at + before, data, start + header, end)
    s.joined[joined] = frame[row]
    largest, members = header + end, 1 << (tos & 3)
    largest_df = largest if not six and load16be(data, ip + FLAGS_OFFSET) & DF else 0
    charges = directory[FQDIR_QUEUE_CHARGE] + truesize(skb[SKB_WIRE_END] - start)
    kind, more, this = ETH_P_IPV6 if six else ETH_P_IP, 1, row
    while more:
        this += 1
        if this > last or link_type[this] != link_type[row]:
            return 0
        take_up(s, place[this], length[this], wire_length[this], device[this])
        begin = skb[SKB_LINK]
        status, ip, found, _, vlan, _ = find_network(
            data, begin, begin + length[this], link_type[this]
        )
        if status != LINK_FOUND or found != kind:
            return 0
        fate, header, offset, new_end, more, tos = read_fragment(s, data, six, ip, vlan + 1)
        if (
            fate != IS_FRAGMENT
            or offset != end
            or fm[FM_ID] != number
            or fm[FM_USER] != user_key
            or fm[FM_SRC_LO] != src_lo
            or fm[FM_DST_LO] != dst_lo
            or fm[FM_SRC_HI] != src_hi
            or fm[FM_DST_HI] != dst_hi
            or not _fits(s, header, offset, new_end, more)
            or is_oversize(six, first - link, new_end)
        ):
            return 0
        size, end = new_end - offset, new_end
        copy(out, at + before + offset, data, begin + header, size)
        s.joined[joined + this - row] = frame[this]
        largest = max(largest, header + size)
        if not six and load16be(data, ip + FLAGS_OFFSET) & DF:
            largest_df = max(largest_df, header + size)
        members |= 1 << (tos & 3)
        charges += truesize(skb[SKB_WIRE_END] - begin)
        now = max(now, time_ns[this])
    memory, ecn = directory[FQDIR_MEM] + charges, ecn_of(directory, members)
    if (
        ecn < 0
        or memory > directory[FQDIR_HIGH]
        or now >= fm[FM_DUE_NS]
        or now - misc[MISC_NOW_NS] >= directory[FQDIR_TIMEOUT_NS]
        or is_known(s, FQDIR_IPV6 if six else FQDIR_IPV4, six)
    ):
        return 0
    if six:
        finish_header6(out, at + link, before - link, end, ecn, protocol, nexthdr_at)
    else:
        finish_header4(out, at + link, before - link, end, ecn, largest_df == largest)
    finish_link(out, at, link, before - link + end)
    count = this - row + 1
    directory[FQDIR_FRAGMENTS] += count
    directory[FQDIR_DATAGRAMS] += 1
    directory[FQDIR_JOINED] += count
    directory[FQDIR_PEAK] = max(directory[FQDIR_PEAK], memory)
    noted = note_out(s, before + end, before + end, this)
    s.out[noted, OUT_FRAMES], s.out[noted, OUT_COUNT] = joined, count
    fm[FM_JOINED] = joined + count
    for waited in range(row, this):
        outcome[waited] = KEPT
    outcome[this] = JOINED
    misc[MISC_NOW_NS] = now
    return count
