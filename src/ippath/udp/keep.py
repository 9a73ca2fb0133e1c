"""Keeps what a socket took, with its source and ancillary data, for whoever reads the socket.

The payload of a packet is copied once, however many sockets take it.  Kernel: udp_recvmsg,
ip_cmsg_recv_pktinfo, ip6_datagram_recv_common_ctl.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.rx.icmp_send import specific_destination
from ippath.rx.packet import inet_iif
from ippath.tables import (
    MISC_TAKEN_BYTES, MISC_TAKEN_ROWS, NONE, SKB_AVAIL, SKB_DST_HI, SKB_DST_LO,
    SKB_FAMILY, SKB_FRAME, SKB_IP, SKB_KEPT, SKB_LEN, SKB_PROTOCOL, SKB_SRC_HI, SKB_SRC_LO, SKB_TRANSPORT,
    TAKEN_CAUSE, TAKEN_DEVICE, TAKEN_DST_HI, TAKEN_DST_LO, TAKEN_FAMILY, TAKEN_LENGTH, TAKEN_OFFSET,
    TAKEN_SOCKET, TAKEN_SPEC_DST, TAKEN_SPORT, TAKEN_SRC_HI, TAKEN_SRC_LO, TAKEN_TOS, TAKEN_TTL,
)  # fmt: skip
from ippath.wire.ipv4 import IPPROTO_UDP
from ippath.wire.memory import copy, load8, load16be, store8

UDP_HEADER = 8


@kernel
def _payload_length(s, data):
    """Bytes of payload of the datagram in hand."""
    skb = s.skb
    at = skb[SKB_TRANSPORT]
    length = skb[SKB_IP] + skb[SKB_LEN] - at
    said = load16be(data, at + 4)
    if skb[SKB_PROTOCOL] == IPPROTO_UDP and said:
        length = min(length, said)
    return length - UDP_HEADER


@kernel
def _keep_payload(s, data, length):
    """Copy the payload; what the capture cut off reads as zeros."""
    skb, at = s.skb, s.misc[MISC_TAKEN_BYTES]
    start = skb[SKB_TRANSPORT] + UDP_HEADER
    there = max(0, min(length, skb[SKB_IP] + skb[SKB_AVAIL] - start))
    copy(s.taken_data, at, data, start, there)
    for k in range(there, length):
        store8(s.taken_data, at + k, 0)
    skb[SKB_KEPT] = at
    s.misc[MISC_TAKEN_BYTES] = at + length


@cold
def keep_datagram(h, s, data, trace, socket):
    """Keep the datagram in hand for a socket (row of `Tables.socket`)."""
    skb, ip = s.skb, s.skb[SKB_IP]
    length = _payload_length(s, data)
    if skb[SKB_KEPT] == NONE:
        _keep_payload(s, data, length)
    row, taken = s.misc[MISC_TAKEN_ROWS], s.taken
    s.misc[MISC_TAKEN_ROWS] = row + 1
    taken[row, TAKEN_CAUSE] = skb[SKB_FRAME]
    taken[row, TAKEN_SOCKET] = socket
    taken[row, TAKEN_OFFSET] = skb[SKB_KEPT]
    taken[row, TAKEN_LENGTH] = length
    taken[row, TAKEN_DEVICE] = inet_iif(skb)
    taken[row, TAKEN_FAMILY] = skb[SKB_FAMILY]
    taken[row, TAKEN_SRC_HI] = skb[SKB_SRC_HI]
    taken[row, TAKEN_SRC_LO] = skb[SKB_SRC_LO]
    taken[row, TAKEN_SPORT] = load16be(data, skb[SKB_TRANSPORT])
    taken[row, TAKEN_DST_HI] = skb[SKB_DST_HI]
    taken[row, TAKEN_DST_LO] = skb[SKB_DST_LO]
    if skb[SKB_FAMILY] == 4:
        taken[row, TAKEN_SPEC_DST] = specific_destination(h, s, trace)
        taken[row, TAKEN_TTL] = load8(data, ip + 8)
        taken[row, TAKEN_TOS] = load8(data, ip + 1)
    else:
        taken[row, TAKEN_SPEC_DST] = 0
        taken[row, TAKEN_TTL] = load8(data, ip + 7)
        taken[row, TAKEN_TOS] = (load16be(data, ip) >> 4) & 0xFF
