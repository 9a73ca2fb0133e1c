"""Link input: whose frame is it, which device gets it, where does the IP header start?

Mirrors `eth_type_trans`, `vlan_do_receive` and the head of `__netif_receive_skb_core`.  PPPoE
sessions and MPLS label stacks are opened as if they ended on the receiving device.

In:  frame bounds, link type, capture device.   Out: SKB_DEVICE, SKB_PKT_TYPE, SKB_IP, SKB_LEN.
Drops: OTHERHOST, UNHANDLED_PROTO, DEV_READY.   Unsupported: LINK_TYPE, LINK_HEADER, NO_DEVICE.
Consumed: ARP, and OUTGOING, what the host itself sent.
"""

from __future__ import annotations

from ippath.batch import LINK_ETHERNET, LINK_LINUX_SLL, LINK_LINUX_SLL2
from ippath.jit import cold, hot, kernel
from ippath.reasons import (
    R_DEV_READY, R_HDR_TRUNC, R_LINK_HEADER, R_LINK_TYPE, R_NO_DEVICE, R_NONE, R_OTHERHOST,
    R_OUTGOING, R_UNHANDLED_PROTO,
)  # fmt: skip
from ippath.rx.packet import CONTINUE, DONE, capture_cut, consume, drop, unsupported
from ippath.tables import (
    DEVSTAT_RX, DEVSTAT_RX_BYTES, DEV_LOOPBACK, DEV_MAC, DEV_UP, DEV_VLAN_COUNT, DEV_VLAN_FIRST,
    DST_DEVICE, DST_ERROR, DST_LOCAL, DST_SET, DST_TYPE, EINVAL, NONE, PACKET_BROADCAST,
    PACKET_HOST, PACKET_LOOPBACK, PACKET_MULTICAST, PACKET_OTHERHOST, PACKET_OUTGOING, RTN_LOCAL,
    RTN_UNICAST, RTN_UNSPEC, SKB_AVAIL, SKB_DEVICE, SKB_END, SKB_FAMILY, SKB_IIF, SKB_IP, SKB_LEN,
    SKB_LINK, SKB_LOOPED, SKB_PKT_TYPE, SKB_WIRE_END, VLAN_DEVICE, VLAN_ID, VLAN_PROTOCOL,
)  # fmt: skip
from ippath.trace import T_LINK, T_LINK_MAC, T_VLAN, T_VLAN_UNKNOWN, note
from ippath.wire.ether import (
    ETH_P_ARP, ETH_P_IP, ETH_P_IPV6, LINK_BAD, LINK_FOUND, LINK_UNKNOWN, find_network,
)  # fmt: skip
from ippath.wire.memory import load8, load16be, load32be

BROADCAST_MAC = 0xFFFFFFFFFFFF
LOOPBACK_DEVICE = 0
_NO_PACKET_TYPE = -1


@hot
def _packet_type(h, s, data, trace, link_type, start, device):
    """PACKET_* of a frame whose link-level header is known to be complete."""
    if link_type == LINK_ETHERNET:
        destination = (load16be(data, start) << 32) | load32be(data, start + 2)
        mine = h.device[device, DEV_MAC]
        kind = PACKET_HOST
        if destination & (1 << 40):
            kind = PACKET_BROADCAST if destination == BROADCAST_MAC else PACKET_MULTICAST
        elif mine >= 0 and destination != mine and h.device[device, DEV_LOOPBACK] == 0:
            kind = PACKET_OTHERHOST
        # a capture made on the host shows what it sent, too
        if kind != PACKET_HOST and mine >= 0:
            if (load16be(data, start + 6) << 32) | load32be(data, start + 8) == mine:
                kind = PACKET_OUTGOING
        note(trace, T_LINK_MAC, destination, mine, device, kind)
        return kind
    if link_type == LINK_LINUX_SLL:
        return min(load16be(data, start), PACKET_OUTGOING)
    if link_type == LINK_LINUX_SLL2:
        return min(load8(data, start + 10), PACKET_OUTGOING)
    return PACKET_HOST


@kernel
def _vlan_device(h, device, protocol, tag):
    """The VLAN device of `device` for this tag, or NONE (kernel: vlan_find_dev)."""
    first = h.device[device, DEV_VLAN_FIRST]
    for row in range(first, first + h.device[device, DEV_VLAN_COUNT]):
        if h.vlan[row, VLAN_PROTOCOL] == protocol and h.vlan[row, VLAN_ID] == tag & 0xFFF:
            return h.vlan[row, VLAN_DEVICE]
    return NONE


@cold
def _vlan_input(h, s, data, trace, link_type, protocol, outer, inner):
    """Find the VLAN device of a tagged frame (kernel: vlan_do_receive); CONTINUE or DONE."""
    skb = s.skb
    device, kind, start = skb[SKB_DEVICE], skb[SKB_PKT_TYPE], skb[SKB_LINK]
    while outer >= 0:
        below = _vlan_device(h, device, protocol, outer)
        if below == NONE:
            if outer & 0xFFF:  # a priority tag (VLAN 0) is no VLAN
                note(trace, T_VLAN_UNKNOWN, outer & 0xFFF, device)
                kind = PACKET_OTHERHOST
        else:
            note(trace, T_VLAN, outer & 0xFFF, device, below)
            if h.device[below, DEV_UP] == 0:
                return drop(s, trace, R_DEV_READY)
            if link_type == LINK_ETHERNET and (kind == PACKET_OTHERHOST or kind == PACKET_HOST):
                # a VLAN device may have a MAC of its own
                kind = _packet_type(h, s, data, trace, link_type, start, below)
            device = below
            s.devstat[device, DEVSTAT_RX] += 1
            s.devstat[device, DEVSTAT_RX_BYTES] += skb[SKB_WIRE_END] - start
        protocol, outer, inner = 0x8100, inner, -1
    skb[SKB_DEVICE] = device
    skb[SKB_PKT_TYPE] = kind
    return consume(s, trace, R_OUTGOING) if kind == PACKET_OUTGOING else CONTINUE


@cold
def _link_unreadable(s, trace, status):
    """The verdict of a frame whose network header was not found."""
    skb = s.skb
    if status == LINK_UNKNOWN:
        return unsupported(s, trace, R_LINK_TYPE)
    if status == LINK_BAD:
        return unsupported(s, trace, R_LINK_HEADER)
    if skb[SKB_WIRE_END] > skb[SKB_END]:
        return capture_cut(s, trace, skb[SKB_IP] - skb[SKB_LINK] + 4)
    if skb[SKB_IP] > skb[SKB_LINK]:
        return drop(s, trace, R_HDR_TRUNC)
    return unsupported(s, trace, R_LINK_HEADER)


@cold
def _not_ip(s, trace, ethertype):
    if s.skb[SKB_PKT_TYPE] == PACKET_OTHERHOST:
        return drop(s, trace, R_OTHERHOST)
    if ethertype == ETH_P_ARP:
        return consume(s, trace, R_NONE)
    return drop(s, trace, R_UNHANDLED_PROTO)


@cold
def looped_input(h, s, data, kind, iif, trace):
    """Take a packet that this host sent to itself, with its route; CONTINUE or DONE.

    `kind` is the type of the route, `iif` the device that sockets see.  Kernel: netif_rx by
    loopback_xmit or dev_loopback_xmit, skb_valid_dst.
    """
    skb = s.skb
    start, device = skb[SKB_LINK], skb[SKB_DEVICE]
    skb[SKB_LOOPED] = 1
    skb[SKB_IP] = start
    skb[SKB_AVAIL] = skb[SKB_END] - start
    skb[SKB_LEN] = skb[SKB_WIRE_END] - start
    skb[SKB_FAMILY] = load8(data, start) >> 4
    on_loopback = h.device[device, DEV_LOOPBACK] != 0
    skb[SKB_PKT_TYPE] = PACKET_HOST if on_loopback else PACKET_LOOPBACK
    if h.device[device, DEV_UP] == 0:
        return drop(s, trace, R_DEV_READY)
    s.devstat[device, DEVSTAT_RX] += 1
    s.devstat[device, DEVSTAT_RX_BYTES] += skb[SKB_LEN]
    if on_loopback and iif != device:
        skb[SKB_IIF] = iif
    if kind != RTN_UNSPEC:
        skb[DST_SET] = 1
        skb[DST_TYPE] = kind
        skb[DST_DEVICE] = LOOPBACK_DEVICE
        skb[DST_LOCAL] = kind == RTN_LOCAL or (skb[SKB_FAMILY] == 4 and kind != RTN_UNICAST)
        skb[DST_ERROR] = EINVAL if kind == RTN_UNICAST else 0  # kernel: dst_discard
    note(
        trace,
        T_LINK,
        device,
        skb[SKB_PKT_TYPE],
        ETH_P_IP if skb[SKB_FAMILY] == 4 else ETH_P_IPV6,
        0,
    )
    return CONTINUE


@hot
def link_input(h, s, data, link_type, direction_out, trace):
    """Peel the link level off; returns CONTINUE with SKB_FAMILY 4 or 6, or DONE."""
    skb = s.skb
    start, end, wire_end = skb[SKB_LINK], skb[SKB_END], skb[SKB_WIRE_END]
    device = skb[SKB_DEVICE]
    if device < 0 or device >= h.device.shape[0]:
        skb[SKB_DEVICE] = NONE
        return unsupported(s, trace, R_NO_DEVICE)
    status, at, ethertype, protocol, outer, inner = find_network(data, start, end, link_type)
    skb[SKB_IP] = at
    skb[SKB_AVAIL] = max(0, end - at)
    skb[SKB_LEN] = max(0, wire_end - at)
    if status != LINK_FOUND:
        return _link_unreadable(s, trace, status)
    family = 4 if ethertype == ETH_P_IP else (6 if ethertype == ETH_P_IPV6 else 0)
    kind = _packet_type(h, s, data, trace, link_type, start, device)
    if direction_out:
        kind = PACKET_OUTGOING
    skb[SKB_PKT_TYPE] = kind
    if kind == PACKET_OUTGOING:
        skb[SKB_FAMILY] = family
        return consume(s, trace, R_OUTGOING)
    if h.device[device, DEV_UP] == 0:
        return drop(s, trace, R_DEV_READY)
    s.devstat[device, DEVSTAT_RX] += 1
    s.devstat[device, DEVSTAT_RX_BYTES] += wire_end - start
    if outer >= 0 and _vlan_input(h, s, data, trace, link_type, protocol, outer, inner) != CONTINUE:
        return DONE
    note(trace, T_LINK, skb[SKB_DEVICE], skb[SKB_PKT_TYPE], ethertype, at - start)
    skb[SKB_FAMILY] = family
    return CONTINUE if family else _not_ip(s, trace, ethertype)
