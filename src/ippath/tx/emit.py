"""The last step out: neighbour, link header, device (kernel: ip_finish_output2, dev_queue_xmit).

Packets leave into an arena that the caller drains; nothing is copied while nobody collects.  Those
by the loopback device come back in.
"""

from __future__ import annotations

from ippath.batch import LINK_ETHERNET, LINK_RAW
from ippath.fib.multipath import mix32
from ippath.jit import cold, hot, kernel
from ippath.tables import (
    COLLECT_SENT, CONF_ASSUME_NEIGH, DEVSTAT_TX, DEVSTAT_TX_BYTES, DEV_CARRIER, DEV_LOOPBACK,
    DEV_LOWPAN, DEV_MAC, DEV_NOARP, DEV_PAN, DEV_RAW_IP, MISC_COLLECT, MISC_NOW_NS, MISC_OUT_BYTES,
    MISC_OUT_ROWS, NEIGH_DEVICE, NEIGH_FAILED_STATE, NEIGH_HI, NEIGH_LO, NEIGH_MAC, NEIGH_STATE,
    NEIGH_VALID, NONE, OUT_CAUSE, OUT_DEVICE, OUT_LENGTH, OUT_LINK, OUT_OFFSET, OUT_TIME_NS,
    OUT_WIRE, RTN_BROADCAST, SKB_FRAME,
)  # fmt: skip
from ippath.trace import T_NEIGH, T_NEIGH6, note
from ippath.tx.loopback import loop_back
from ippath.tx.lowpan import ALL, lowpan_xmit
from ippath.wire.ether import ETH_P_IP, ETH_P_IPV6
from ippath.wire.lowpan import long_iid
from ippath.wire.memory import copy, load8, store16be, store32be

ETHER_HEADER = 14
BROADCAST_MAC = 0xFFFFFFFFFFFF
ASSUMED_MAC = 0x02_00_00_00_00_00  # a locally administered address for neighbours nobody named


@hot
def neighbour_row(h, device, hi, lo):
    """Row of the neighbour entry, or -1."""
    table = h.neighbour
    mask = table.shape[0] - 1
    slot = mix32(mix32(mix32(device, hi), lo), lo >> 32) & mask
    while table[slot, NEIGH_STATE] != 0:
        if (
            table[slot, NEIGH_LO] == lo
            and table[slot, NEIGH_HI] == hi
            and table[slot, NEIGH_DEVICE] == device
        ):
            return slot
        slot = (slot + 1) & mask
    return -1


@hot
def neighbour_answers(h, trace, device, family, hi, lo):
    """Can packets be sent to this next hop at all (kernel: neigh_event_send)?"""
    if h.device[device, DEV_NOARP] or h.device[device, DEV_LOOPBACK]:
        return True
    row = neighbour_row(h, device, hi, lo)
    if row < 0:
        state = NEIGH_VALID if h.conf[CONF_ASSUME_NEIGH] else NEIGH_FAILED_STATE
    else:
        state = h.neighbour[row, NEIGH_STATE]
    kind = (0 if row < 0 else 2) + (0 if state == NEIGH_VALID else 1)
    if family == 4:
        note(trace, T_NEIGH, lo, device, kind)
    else:
        note(trace, T_NEIGH6, hi, lo, device, kind)
    return state == NEIGH_VALID


@kernel
def neighbour_mac(h, device, family, hi, lo, broadcast):
    """Link-level address for a next hop (kernel: arp_mc_map, ndisc_mc_map, neigh_resolve_output)."""
    if broadcast:
        return BROADCAST_MAC
    if family == 4 and lo >> 28 == 0xE:
        return 0x01005E000000 | (lo & 0x7FFFFF)
    if family == 6 and (hi >> 56) & 0xFF == 0xFF:
        return 0x333300000000 | (lo & 0xFFFFFFFF)
    row = neighbour_row(h, device, hi, lo)
    if row >= 0 and h.neighbour[row, NEIGH_MAC] >= 0:
        return h.neighbour[row, NEIGH_MAC]
    return ASSUMED_MAC | (lo & 0xFFFFFFFF)


@kernel
def _lowpan_address(h, device, hi, lo):
    """EUI-64 of a next hop; all for a group (kernel: ndisc_mc_map)."""
    if (hi >> 56) & 0xFF == 0xFF:
        return ALL
    row = neighbour_row(h, device, hi, lo)
    if row >= 0 and h.neighbour[row, NEIGH_MAC] != NONE:
        return h.neighbour[row, NEIGH_MAC]
    return long_iid(lo)  # from which the address was made, if nobody says otherwise


@cold
def _emit_lowpan(h, s, buf, offset, kept, length, device, hi, lo):
    """Send by a 6LoWPAN device, which carries IPv6 alone."""
    if load8(buf, offset) >> 4 != 6:
        return
    s.devstat[device, DEVSTAT_TX] += 1
    s.devstat[device, DEVSTAT_TX_BYTES] += length
    if s.misc[MISC_COLLECT] & COLLECT_SENT:
        mine, to = h.device[device, DEV_MAC], _lowpan_address(h, device, hi, lo)
        mine = 0 if mine == NONE else mine
        lowpan_xmit(s, buf, offset, kept, length, device, h.device[device, DEV_PAN], mine, to)


@kernel
def store_ethernet(h, buf, at, device, family, hi, lo, broadcast, ethertype):
    """Write the header of an Ethernet frame to the next hop (hi, lo) to `buf[at]`."""
    mac = neighbour_mac(h, device, family, hi, lo, broadcast)
    mine = max(0, h.device[device, DEV_MAC])
    store16be(buf, at, mac >> 32)
    store32be(buf, at + 2, mac & 0xFFFFFFFF)
    store16be(buf, at + 6, mine >> 32)
    store32be(buf, at + 8, mine & 0xFFFFFFFF)
    store16be(buf, at + 12, ethertype)


@hot
def note_sent(s, row, at, length, wire, device, link, cause):
    """Write the row of a packet whose bytes stand in the output arena from `at` on."""
    out = s.out
    out[row, OUT_OFFSET] = at
    out[row, OUT_LENGTH] = length
    out[row, OUT_WIRE] = wire
    out[row, OUT_DEVICE] = device
    out[row, OUT_TIME_NS] = s.misc[MISC_NOW_NS]
    out[row, OUT_CAUSE] = cause
    out[row, OUT_LINK] = link


@cold
def emit(h, s, buf, offset, kept, length, device, family, hi, lo, kind):
    """Send a packet of `length` bytes by `device` to the next hop (hi, lo).

    `buf` has its first `kept` bytes from `offset` on, an IP header at least.  `kind` is the type of
    its route.
    """
    if h.device[device, DEV_CARRIER] == 0:
        return  # kernel: noop_enqueue
    if h.device[device, DEV_LOWPAN]:
        _emit_lowpan(h, s, buf, offset, kept, length, device, hi, lo)
        return
    raw = h.device[device, DEV_RAW_IP] != 0
    header = 0 if raw else ETHER_HEADER
    s.devstat[device, DEVSTAT_TX] += 1
    s.devstat[device, DEVSTAT_TX_BYTES] += length + header
    if h.device[device, DEV_LOOPBACK]:
        loop_back(h, s, buf, offset, kept, length, device, kind)
        return
    if s.misc[MISC_COLLECT] & COLLECT_SENT == 0:
        return
    row, at = s.misc[MISC_OUT_ROWS], s.misc[MISC_OUT_BYTES]
    if row >= s.out.shape[0] or at + header + kept > s.out_data.shape[0]:
        return  # the burst loop stops before this can happen; never write past the arena
    link = LINK_RAW if raw else LINK_ETHERNET
    note_sent(s, row, at, header + kept, header + length, device, link, s.skb[SKB_FRAME])
    if not raw:
        ethertype = ETH_P_IP if load8(buf, offset) >> 4 == 4 else ETH_P_IPV6
        broadcast = kind == RTN_BROADCAST
        store_ethernet(h, s.out_data, at, device, family, hi, lo, broadcast, ethertype)
    copy(s.out_data, at + header, buf, offset, kept)
    s.misc[MISC_OUT_ROWS] = row + 1
    s.misc[MISC_OUT_BYTES] = at + header + kept
