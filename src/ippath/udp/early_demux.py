"""Early demux: a connected socket keeps the route by which its peer's datagrams came in.

Later ones take it before any look-up, so that neither rules nor source validation see them – by
whatever device they come (kernel: udp_v4_early_demux, udp_v6_early_demux, udp_sk_rx_dst_set;
sysctls ip_early_demux and udp_early_demux).
"""

from __future__ import annotations

from ippath.handles import copy_route
from ippath.jit import cold
from ippath.tables import (
    DST_REDIRECT, DST_SET, NONE, PACKET_HOST, SKB_AVAIL, SKB_DEVICE, SKB_DST_HI, SKB_DST_LO,
    SKB_EARLY, SKB_FRAG, SKB_IP, SKB_LEN, SKB_PKT_TYPE, SKB_PROTOCOL, SKB_SRC_HI, SKB_SRC_LO,
    SKB_TRANSPORT, SOCK_DEVICE, SOCK_HI, SOCK_LO, SOCK_PEER_HI, SOCK_PEER_LO, SOCK_PEER_PORT,
    SOCK_PEER_SET, SOCK_PROTOCOL,
)  # fmt: skip
from ippath.trace import T_EARLY_DEMUX, note
from ippath.udp.lookup import bound_device_matches
from ippath.wire.ipv4 import IPPROTO_UDP
from ippath.wire.memory import load16be

UDP_HEADER = 8


@cold
def _connected_socket(h, skb, source_port, port):
    """The socket connected to this sender, if it is the first of its address and port, or NONE."""
    socket = h.socket
    for row in range(h.port[2 * port], h.port[2 * port + 1]):
        if (
            socket[row, SOCK_PROTOCOL] != IPPROTO_UDP
            or socket[row, SOCK_LO] != skb[SKB_DST_LO]
            or socket[row, SOCK_HI] != skb[SKB_DST_HI]
        ):
            continue
        if (
            socket[row, SOCK_PEER_SET]
            and socket[row, SOCK_PEER_PORT] == source_port
            and socket[row, SOCK_PEER_LO] == skb[SKB_SRC_LO]
            and socket[row, SOCK_PEER_HI] == skb[SKB_SRC_HI]
            and bound_device_matches(h, socket[row, SOCK_DEVICE], skb[SKB_DEVICE])
        ):
            return row
        return NONE  # the kernel looks no further
    return NONE


@cold
def udp_early_demux(h, s, data, trace):
    """Give the packet in hand the route that its connected socket remembers; True if there is one."""
    skb = s.skb
    if skb[SKB_PROTOCOL] != IPPROTO_UDP or skb[SKB_FRAG] or skb[SKB_PKT_TYPE] != PACKET_HOST:
        return False
    at = skb[SKB_TRANSPORT]
    end = at - skb[SKB_IP] + UDP_HEADER
    if skb[SKB_LEN] < end or skb[SKB_AVAIL] < end:
        return False
    row = _connected_socket(h, skb, load16be(data, at), load16be(data, at + 2))
    skb[SKB_EARLY] = row
    if row == NONE or s.rxdst[row, DST_SET] != 1:
        return False
    copy_route(skb, s.rxdst[row])
    skb[DST_REDIRECT] = 0
    note(trace, T_EARLY_DEMUX, row)
    return True


@cold
def remember_route(s):
    """Keep the route of the packet in hand with its connected socket (kernel: udp_sk_rx_dst_set)."""
    copy_route(s.rxdst[s.skb[SKB_EARLY]], s.skb)
