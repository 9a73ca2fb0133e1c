"""Keeps what a socket took, with its source and ancillary data, for whoever reads the socket.

The payload of a packet is copied once, however many sockets take it.  Kernel: udp_recvmsg,
ip_cmsg_recv_pktinfo, ip6_datagram_recv_common_ctl.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.rx.icmp_send import specific_destination
from ippath.rx.packet import inet_iif
from ippath.tables import (
    COLLECT_CALLS, MISC_COLLECT, MISC_TAKEN_BYTES, MISC_TAKEN_ROWS, NONE, READ_BY_CALLS, SKB_AVAIL,
    SKB_DST_HI, SKB_DST_LO, SKB_FAMILY, SKB_FRAME, SKB_IP, SKB_KEPT, SKB_LEN, SKB_MARK,
    SKB_PROTOCOL, SKB_SRC_HI, SKB_SRC_LO, SKB_TIME_NS, SKB_TRANSPORT, SOCKQ_DROPS, SOCK_READ_NS,
    TAKEN_CAUSE, TAKEN_CHARGE, TAKEN_DATAGRAM, TAKEN_DEVICE, TAKEN_DPORT, TAKEN_DROPS, TAKEN_DST_HI,
    TAKEN_DST_LO, TAKEN_ERROR, TAKEN_FAMILY, TAKEN_INFO, TAKEN_KIND, TAKEN_LABEL, TAKEN_LENGTH,
    TAKEN_MARK, TAKEN_OFFSET, TAKEN_SOCKET, TAKEN_SPEC_DST, TAKEN_SPORT, TAKEN_SRC_HI, TAKEN_SRC_LO,
    TAKEN_TIME_NS, TAKEN_TOS, TAKEN_TTL, TAKEN_VALID,
)  # fmt: skip
from ippath.udp.queue import truesize
from ippath.wire.ipv4 import IPPROTO_UDP
from ippath.wire.memory import copy, load8, load16be, load32be, store8

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
def keep_datagram(h, s, data, trace, socket, valid):
    """Keep the datagram in hand for a socket (row of `Tables.socket`); is its checksum `valid`?"""
    skb, ip = s.skb, s.skb[SKB_IP]
    length = _payload_length(s, data)
    if skb[SKB_KEPT] == NONE:
        _keep_payload(s, data, length)
    row, taken = s.misc[MISC_TAKEN_ROWS], s.taken
    s.misc[MISC_TAKEN_ROWS] = row + 1
    taken[row, TAKEN_KIND] = TAKEN_DATAGRAM
    taken[row, TAKEN_CAUSE] = skb[SKB_FRAME]
    taken[row, TAKEN_SOCKET] = socket
    taken[row, TAKEN_OFFSET] = skb[SKB_KEPT]
    taken[row, TAKEN_LENGTH] = length
    taken[row, TAKEN_DEVICE] = inet_iif(skb)
    taken[row, TAKEN_FAMILY] = skb[SKB_FAMILY]
    taken[row, TAKEN_SRC_HI] = skb[SKB_SRC_HI]
    taken[row, TAKEN_SRC_LO] = skb[SKB_SRC_LO]
    taken[row, TAKEN_SPORT] = load16be(data, skb[SKB_TRANSPORT])
    taken[row, TAKEN_DPORT] = load16be(data, skb[SKB_TRANSPORT] + 2)
    taken[row, TAKEN_TIME_NS] = skb[SKB_TIME_NS]
    taken[row, TAKEN_MARK] = skb[SKB_MARK]
    taken[row, TAKEN_CHARGE] = truesize(skb, skb[SKB_LEN])
    taken[row, TAKEN_DROPS] = s.sockq[socket, SOCKQ_DROPS]
    taken[row, TAKEN_VALID] = valid
    taken[row, TAKEN_INFO] = 0
    taken[row, TAKEN_DST_HI] = skb[SKB_DST_HI]
    taken[row, TAKEN_DST_LO] = skb[SKB_DST_LO]
    if skb[SKB_FAMILY] == 4:
        taken[row, TAKEN_SPEC_DST] = specific_destination(h, s, trace)
        taken[row, TAKEN_TTL] = load8(data, ip + 8)
        taken[row, TAKEN_TOS] = load8(data, ip + 1)
        taken[row, TAKEN_LABEL] = 0
    else:
        taken[row, TAKEN_SPEC_DST] = 0
        taken[row, TAKEN_TTL] = load8(data, ip + 7)
        taken[row, TAKEN_TOS] = (load16be(data, ip) >> 4) & 0xFF
        taken[row, TAKEN_LABEL] = load32be(data, ip) & 0xFFFFF


@cold
def keep_error(
    h, s, data, socket, transport, present, kind, code, info, dst_hi, dst_lo
):  # fmt: skip
    """Keep an ICMP error for the socket that sent what it quotes, if calls read that socket.

    The quoted UDP header is at `data[transport]`; `present` bytes follow from there.  `info` is a
    path MTU or the place of a problem.  Kernel: ip_icmp_error, ipv6_icmp_error.
    """
    skb = s.skb
    if h.socket[socket, SOCK_READ_NS] != READ_BY_CALLS or not s.misc[MISC_COLLECT] & COLLECT_CALLS:
        return
    row, taken, start = s.misc[MISC_TAKEN_ROWS], s.taken, s.misc[MISC_TAKEN_BYTES]
    length = max(0, present - UDP_HEADER)
    copy(s.taken_data, start, data, transport + UDP_HEADER, length)
    s.misc[MISC_TAKEN_ROWS] = row + 1
    s.misc[MISC_TAKEN_BYTES] = start + length
    taken[row, TAKEN_KIND] = TAKEN_ERROR
    taken[row, TAKEN_CAUSE] = skb[SKB_FRAME]
    taken[row, TAKEN_SOCKET] = socket
    taken[row, TAKEN_OFFSET] = start
    taken[row, TAKEN_LENGTH] = length
    taken[row, TAKEN_DEVICE] = inet_iif(skb)
    taken[row, TAKEN_FAMILY] = skb[SKB_FAMILY]
    taken[row, TAKEN_SRC_HI] = skb[SKB_SRC_HI]
    taken[row, TAKEN_SRC_LO] = skb[SKB_SRC_LO]
    taken[row, TAKEN_SPORT] = load16be(data, transport)
    taken[row, TAKEN_DPORT] = load16be(data, transport + 2)
    taken[row, TAKEN_DST_HI] = dst_hi
    taken[row, TAKEN_DST_LO] = dst_lo
    taken[row, TAKEN_TTL] = kind
    taken[row, TAKEN_TOS] = code
    taken[row, TAKEN_INFO] = info
    taken[row, TAKEN_TIME_NS] = skb[SKB_TIME_NS]
    taken[row, TAKEN_SPEC_DST] = 0
    taken[row, TAKEN_MARK] = 0
    taken[row, TAKEN_LABEL] = 0
    taken[row, TAKEN_DROPS] = 0
    taken[row, TAKEN_VALID] = 1
    taken[row, TAKEN_CHARGE] = truesize(skb, skb[SKB_LEN])
