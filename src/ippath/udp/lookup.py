"""Which socket gets a datagram (kernel: __udp4_lib_lookup, __udp6_lib_lookup, compute_score).

Sockets of one port stand together, in the order in which the kernel scans them (latest bound
first).  Exact-address sockets beat wildcard ones; within a group the higher score wins, first on
ties; members of a reuseport group share by hash.
"""

from __future__ import annotations

from ippath.fib.multipath import mix32
from ippath.jit import cold, hot, kernel
from ippath.rx.packet import inet_iif
from ippath.tables import (
    CONF_L3MDEV_ACCEPT, DEV_MASTER,
    CONF_HASH_SEED, MEMBER_DEVICE, MEMBER_FAMILY, MEMBER_HI, MEMBER_LO, NONE, SKB_DST_HI,
    SKB_DST_LO, SKB_FAMILY, SKB_PROTOCOL, SKB_SRC_HI, SKB_SRC_LO, SOCK_DEVICE, SOCK_FAMILY,
    SOCK_GROUPS4, SOCK_GROUPS6, SOCK_HI, SOCK_LO, SOCK_MEMBER_COUNT, SOCK_MEMBER_FIRST,
    SOCK_PEER_HI, SOCK_PEER_LO, SOCK_PEER_PORT, SOCK_PEER_SET, SOCK_PORT, SOCK_PROTOCOL,
    SOCK_REUSEPORT_COUNT, SOCK_REUSEPORT_FIRST, SOCK_V6ONLY, SOCK_WILDCARD,
)  # fmt: skip
from ippath.wire.ipv4 import is_multicast


@hot
def _accepts(h, row, skb, source_port):
    """Score of the socket for this packet, or -1 (kernel: compute_score)."""
    socket = h.socket
    four = skb[SKB_FAMILY] == 4
    score = 0
    if four:
        if socket[row, SOCK_V6ONLY]:
            return -1
        score = 2 if socket[row, SOCK_FAMILY] == 4 else 1
    elif socket[row, SOCK_FAMILY] != 6:
        return -1
    if socket[row, SOCK_PROTOCOL] != skb[SKB_PROTOCOL]:
        return -1
    if socket[row, SOCK_WILDCARD] == 0 and (
        socket[row, SOCK_LO] != skb[SKB_DST_LO] or socket[row, SOCK_HI] != skb[SKB_DST_HI]
    ):
        return -1
    weight = 4 if four else 1
    if socket[row, SOCK_PEER_SET]:
        if (
            socket[row, SOCK_PEER_LO] != skb[SKB_SRC_LO]
            or socket[row, SOCK_PEER_HI] != skb[SKB_SRC_HI]
        ):
            return -1
        score += weight
    if socket[row, SOCK_PEER_PORT]:
        if socket[row, SOCK_PEER_PORT] != source_port:
            return -1
        score += weight
    if not bound_device_matches(h, socket[row, SOCK_DEVICE], inet_iif(skb)):
        return -1
    return score + weight if socket[row, SOCK_DEVICE] != NONE else score


@hot
def bound_device_matches(h, bound, device):
    """May a socket bound to `bound` (or NONE) get what came by `device` (kernel: inet_bound_dev_eq)?"""
    master = h.device[device, DEV_MASTER] if device >= 0 else NONE  # the device may be gone
    if bound == NONE:
        return master == NONE or master == device or h.conf[CONF_L3MDEV_ACCEPT] != 0
    return bound == device or bound == master


@cold
def _reuseport_pick(h, row, skb, source_port, port):
    """The member of the socket's group that this flow belongs to (kernel: reuseport_select_sock)."""
    members = h.socket[row, SOCK_REUSEPORT_COUNT]
    state = h.conf[CONF_HASH_SEED] & 0xFFFFFFFF
    state = mix32(mix32(state, skb[SKB_DST_LO]), skb[SKB_DST_LO] >> 32)
    state = mix32(mix32(state, skb[SKB_DST_HI]), skb[SKB_DST_HI] >> 32)
    state = mix32(mix32(state, skb[SKB_SRC_LO]), skb[SKB_SRC_LO] >> 32)
    state = mix32(mix32(state, skb[SKB_SRC_HI]), skb[SKB_SRC_HI] >> 32)
    state = mix32(state, (source_port << 16) | port)
    return h.socket[row, SOCK_REUSEPORT_FIRST] + ((state * members) >> 32)


@hot
def udp_lookup(h, s, source_port, port):
    """Row of the socket that gets the packet in hand, or NONE."""
    skb = s.skb
    for wildcard in range(2):
        best, best_score = NONE, -1
        group = 2 * port + wildcard  # exact addresses first, then wildcard ones
        for row in range(h.port[group], h.port[group + 1]):
            score = _accepts(h, row, skb, source_port)
            if score > best_score:
                best, best_score = row, score
        if best != NONE:
            if h.socket[best, SOCK_REUSEPORT_COUNT] <= 1 or h.socket[best, SOCK_PEER_SET]:
                return best
            return _reuseport_pick(h, best, skb, source_port, port)
    return NONE


@kernel
def udp_sender(h, s, protocol, src_hi, src_lo, dst_hi, dst_lo, ports):
    """Row of the socket that sent such a datagram: the one that an answer would reach, or NONE.

    `ports` is source port << 16 | destination port (kernel: __udp4_lib_err, __udp6_lib_err).
    """
    skb = s.skb
    own, mine_hi, mine_lo = skb[SKB_PROTOCOL], skb[SKB_DST_HI], skb[SKB_DST_LO]
    peer_hi, peer_lo = skb[SKB_SRC_HI], skb[SKB_SRC_LO]
    skb[SKB_PROTOCOL] = protocol
    skb[SKB_DST_HI], skb[SKB_DST_LO] = src_hi, src_lo
    skb[SKB_SRC_HI], skb[SKB_SRC_LO] = dst_hi, dst_lo
    row = udp_lookup(h, s, ports & 0xFFFF, ports >> 16)
    skb[SKB_PROTOCOL] = own
    skb[SKB_DST_HI], skb[SKB_DST_LO] = mine_hi, mine_lo
    skb[SKB_SRC_HI], skb[SKB_SRC_LO] = peer_hi, peer_lo
    return row


@cold
def _takes_group(h, row, skb):
    """Did the socket join the group, or does it take those that others joined (ip_mc_sf_allow)?"""
    if skb[SKB_FAMILY] == 4:
        if not is_multicast(skb[SKB_DST_LO]) or h.socket[row, SOCK_GROUPS4]:
            return True
    elif h.socket[row, SOCK_GROUPS6]:
        return True
    member, first = h.member, h.socket[row, SOCK_MEMBER_FIRST]
    for k in range(first, first + h.socket[row, SOCK_MEMBER_COUNT]):
        if (
            member[k, MEMBER_FAMILY] == skb[SKB_FAMILY]
            and member[k, MEMBER_LO] == skb[SKB_DST_LO]
            and member[k, MEMBER_HI] == skb[SKB_DST_HI]
            and (skb[SKB_FAMILY] == 6 or member[k, MEMBER_DEVICE] == inet_iif(skb))
        ):
            return True
    return False


@kernel
def udp_matches_group(h, row, skb, source_port, port):
    """Does the socket take this multicast or broadcast datagram (kernel: __udp_is_mcast_sock)?"""
    if h.socket[row, SOCK_PORT] != port or _accepts(h, row, skb, source_port) < 0:
        return False
    return _takes_group(h, row, skb)
