"""IPv6 output: fragments and the hand-over to the device (kernel: ip6_finish_output, ip6_fragment,
ip6_finish_output2; RFC 8200 section 4.5).
"""

from __future__ import annotations

from ippath.fib.local import has_joined
from ippath.jit import cold, hot, kernel
from ippath.mib import (
    M_Ip6FragCreates, M_Ip6FragFails, M_Ip6FragOKs, M_Ip6OutDiscards, M_Ip6OutMcastOctets,
    M_Ip6OutMcastPkts, M_Ip6OutNoRoutes, M_Ip6OutOctets, M_Ip6OutRequests, M_Ip6OutTransmits,
)  # fmt: skip
from ippath.rx.rate_limit import random32
from ippath.tables import (
    DEV_LOOPBACK, FLOW_DST_HI, FLOW_DST_LO, FLOW_OIF, FLOW_OUTPUT, FM_HEADROOM, FM_PIECES,
    MISC_OWN_IIF, MISC_QUIET, NH_DEVICE, NONE, RES_NH, RES_TYPE, RTN_ANYCAST, RTN_LOCAL,
    RTN_MULTICAST, RTN_UNICAST, SCRATCH_FRAGMENT,
)  # fmt: skip
from ippath.trace import T_FRAGMENTED, T_LOOPED6, T_REFRAGMENTED, note
from ippath.tx.emit import emit, neighbour_answers
from ippath.tx.ip_output4 import pieces_fit
from ippath.tx.loopback import loop_back
from ippath.tx.path_mtu import next_hop
from ippath.wire.ipv6 import (
    DESTINATION, FRAGMENT_HEADER, HEADER, HOP_LIMIT, MORE_FRAGMENTS, NEXTHDR_DEST, NEXTHDR_FRAGMENT,
    NEXTHDR_HOP, NEXTHDR_ROUTING, NEXT_HEADER, PAYLOAD_LENGTH, is_multicast,
)  # fmt: skip
from ippath.wire.memory import copy, load8, load64be, store8, store16be, store32be

MINIMUM_MTU = 1280
LINK_ROOM = 16  # LL_RESERVED_SPACE of devices without and with Ethernet headers


@cold
def _loop_group(h, s, buf, at, kept, size, device):
    """The copy of what goes to a group; False if it stays here (kernel: ip6_finish_output2)."""
    if h.device[device, DEV_LOOPBACK]:
        return True
    hi, lo = load64be(buf, at + DESTINATION), load64be(buf, at + DESTINATION + 8)
    if s.misc[MISC_QUIET] == 0 and has_joined(h, 6, device, hi, lo):
        loop_back(h, s, buf, at, kept, size, device, RTN_MULTICAST)
    if load8(buf, at + HOP_LIMIT) == 0:
        s.counters[M_Ip6OutDiscards] += 1
        return False
    return True


@hot
def finish_output6(h, s, buf, at, kept, size, device, hi, lo, group):
    """One packet of `size` bytes, of which `buf` has `kept`, to the device, counted as sent."""
    if group and s.misc[MISC_OWN_IIF] != NONE:
        if not _loop_group(h, s, buf, at, kept, size, device):
            return
    s.counters[M_Ip6OutTransmits] += 1
    s.counters[M_Ip6OutOctets] += size
    if group:
        s.counters[M_Ip6OutMcastPkts] += 1
        s.counters[M_Ip6OutMcastOctets] += size
    emit(h, s, buf, at, kept, size, device, 6, hi, lo, RTN_MULTICAST if group else RTN_LOCAL)


@kernel
def _send_fragment6(
    h, s, kept, header, number_at, number, ident, start, part, more, device, hi, lo, group
):  # fmt: skip
    """Send `part` bytes behind the first `header + start` of the packet in scratch as a fragment.

    Its headers are the packet's first `header` bytes; the protocol number at `number_at` of them
    moves into the fragment header.
    """
    buf, at = s.scratch, SCRATCH_FRAGMENT + header
    copy(buf, SCRATCH_FRAGMENT, buf, 0, header)
    store8(buf, SCRATCH_FRAGMENT + number_at, NEXTHDR_FRAGMENT)
    store16be(
        buf, SCRATCH_FRAGMENT + PAYLOAD_LENGTH, header - HEADER + FRAGMENT_HEADER + part
    )  # fmt: skip
    store8(buf, at, number)
    store8(buf, at + 1, 0)
    store16be(buf, at + 2, start | (MORE_FRAGMENTS if more else 0))
    store32be(buf, at + 4, ident)
    there = max(0, min(part, kept - header - start))
    copy(buf, at + FRAGMENT_HEADER, buf, header + start, there)
    before = header + FRAGMENT_HEADER
    finish_output6(
        h, s, buf, SCRATCH_FRAGMENT, before + there, before + part, device, hi, lo, group
    )
    s.counters[M_Ip6FragCreates] += 1


@kernel
def _cut6(h, s, kept, size, header, number_at, mtu, device, hi, lo, group):
    """Cut the packet of `size` bytes in scratch into fragments that fit `mtu`; how many."""
    ident, number = random32(s), load8(s.scratch, number_at)
    body, room = size - header, mtu - header - FRAGMENT_HEADER
    done, fragments = 0, 0
    while done < body:
        part = min(body - done, room)
        if part < body - done:
            part &= ~7
        more = done + part < body
        _send_fragment6(
            h, s, kept, header, number_at, number, ident, done, part, more, device, hi, lo, group
        )  # fmt: skip
        done += part
        fragments += 1
    s.counters[M_Ip6FragOKs] += 1
    return fragments


@cold
def _fragment6(h, s, trace, size, mtu, device, hi, lo, group):
    """Cut the packet of `size` bytes in scratch into fragments that fit `mtu`, and send them."""
    if mtu < HEADER + FRAGMENT_HEADER + 8:
        s.counters[M_Ip6FragFails] += 1
        return
    fragments = _cut6(h, s, size, size, HEADER, NEXT_HEADER, mtu, device, hi, lo, group)
    note(trace, T_FRAGMENTED, fragments, mtu)


@kernel
def unfragmentable_part(buf, first):
    """(bytes that every fragment repeats, where the number of what follows stands) of a packet.

    Its first fragment had `first` bytes, in which the headers have to end, else (-1, 0) (kernel:
    ip6_find_1stfragopt; RFC 8200 section 4.5).
    """
    number_at, at, routed = NEXT_HEADER, HEADER, False
    while at <= first:
        number = load8(buf, number_at)
        if number == NEXTHDR_ROUTING:
            routed = True
        elif number != NEXTHDR_HOP and (number != NEXTHDR_DEST or routed):
            return at, number_at
        if at + 2 > first:
            break
        number_at = at
        at += (load8(buf, at + 1) + 1) * 8
    return -1, 0


@cold
def refragment6(h, s, trace, kept, size, limit, header, number_at, device, hi, lo, group):
    """Send the datagram in scratch, which was put together, in fragments of `limit` bytes at most.

    As they came, if they fit; else cut anew (kernel: ip6_fragment).  `header` and `number_at` are
    its `unfragmentable_part`.
    """
    pieces = s.frag_misc[FM_PIECES]
    skip = header - (size - s.pieces[pieces - 1])  # headers that came as data of the first
    # each needs room for the headers in front of it, and for those of the link
    there = s.frag_misc[FM_HEADROOM] >= header + FRAGMENT_HEADER + LINK_ROOM
    as_they_came = there and pieces_fit(s, skip, limit - header - FRAGMENT_HEADER)
    if as_they_came:
        ident, number = random32(s), load8(s.scratch, number_at)
        fragments, done = pieces, skip
        for k in range(fragments):
            end, more = s.pieces[k], k < fragments - 1
            _send_fragment6(
                h, s, kept, header, number_at, number, ident, done - skip, end - done, more,
                device, hi, lo, group,
            )  # fmt: skip
            done = end
        s.counters[M_Ip6FragOKs] += 1
    else:
        fragments = _cut6(h, s, kept, size, header, number_at, limit, device, hi, lo, group)
    note(trace, T_REFRAGMENTED, fragments, as_they_came, limit)


@kernel
def ip_output6(h, s, trace, size, mtu):
    """Send the packet of this host in scratch by the route in the OUTPUT rows."""
    flow, result, fib = s.flow[FLOW_OUTPUT], s.result[FLOW_OUTPUT], h.fib6
    s.counters[M_Ip6OutRequests] += 1
    device, nh = flow[FLOW_OIF], result[RES_NH]
    if result[RES_TYPE] == RTN_UNICAST and h.device[device, DEV_LOOPBACK]:
        note(trace, T_LOOPED6, device)
        s.counters[M_Ip6OutNoRoutes] += 1
        return
    hi, lo = flow[FLOW_DST_HI], flow[FLOW_DST_LO]
    group = is_multicast(load64be(s.scratch, DESTINATION))
    _, hi, lo = next_hop(fib, s, result, hi, lo, 6)
    if not group and not neighbour_answers(h, trace, device, 6, hi, lo):
        return
    # sockets see the device that has the address, not the one by which packets come back
    own = nh != NONE and (result[RES_TYPE] == RTN_LOCAL or result[RES_TYPE] == RTN_ANYCAST)
    s.misc[MISC_OWN_IIF] = fib.nexthop[nh, NH_DEVICE] if own else device
    if size > mtu:
        _fragment6(h, s, trace, size, mtu, device, hi, lo, group)
    else:
        finish_output6(h, s, s.scratch, 0, size, size, device, hi, lo, group)
    s.misc[MISC_OWN_IIF] = NONE
