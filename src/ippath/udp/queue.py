"""The receive queue of a socket and its limit (kernel: __udp_enqueue_schedule_skb).

A socket's reader takes datagrams at once, at a given rate of packet time, by calls, or never.
"""

from __future__ import annotations

from ippath.jit import cold, hot
from ippath.tables import (
    MISC_NOW_NS, READ_AT_ONCE, READ_NEVER, SOCK_RCVBUF, SOCK_READ_NS, SOCKQ_BYTES, SOCKQ_DROPS,
    SOCKQ_PACKETS, SOCKQ_READ_AT, SOCKQ_RECEIVED, SKB_FAMILY, SKB_LOOPED,
)  # fmt: skip
from ippath.trace import T_UDP_QUEUE, note

# memory that a packet costs beside its bytes: struct sk_buff and skb_shared_info; heads are never
# smaller than SMALL_HEAD, and beyond LARGEST_HEAD (SKB_MAX_ALLOC) bytes lie in pages of their own
SKB, SHARED_INFO, ALIGN = 256, 320, 64
SMALL_HEAD, LARGEST_HEAD = 576, 16064
# room in front of the IP header: a device's (NET_SKB_PAD), that of a socket which sends by lo
DEVICE_ROOM, LOOPED_ROOM = 64, 31
UDP_HEADER = 8


@hot
def truesize(skb, length):
    """Memory charged for the packet in hand, of `length` bytes (kernel: SKB_TRUESIZE).

    As for a packet from a TUN device, or from a socket of this host (__ip_append_data).
    """
    room = LOOPED_ROOM if skb[SKB_LOOPED] else DEVICE_ROOM
    if length + room >= LARGEST_HEAD:
        headers = UDP_HEADER + (20 if skb[SKB_FAMILY] == 4 else 40)
        return SKB + SMALL_HEAD + length - headers
    needed = ((length + room + ALIGN - 1) & ~(ALIGN - 1)) + SHARED_INFO
    head = SMALL_HEAD
    if needed > head:
        head = 1024
        while head < needed:
            head *= 2
    return SKB + head


@cold
def _read_due(h, s, row):
    """Let the reader take what it had time for."""
    interval = h.socket[row, SOCK_READ_NS]
    waiting = s.sockq[row, SOCKQ_PACKETS]
    if interval <= 0 or waiting == 0:
        return
    now = s.misc[MISC_NOW_NS]
    taken = min(waiting, max(0, (now - s.sockq[row, SOCKQ_READ_AT]) // interval))
    if taken:
        # packets are taken in order; their sizes are averaged, which keeps the sum exact when empty
        bytes_taken = s.sockq[row, SOCKQ_BYTES] * taken // waiting
        s.sockq[row, SOCKQ_PACKETS] = waiting - taken
        s.sockq[row, SOCKQ_BYTES] -= bytes_taken
        s.sockq[row, SOCKQ_READ_AT] += taken * interval


@hot
def udp_enqueue(h, s, trace, row, length):
    """Queue a datagram; False if the receive buffer is full."""
    interval = h.socket[row, SOCK_READ_NS]
    if interval == READ_AT_ONCE:
        s.sockq[row, SOCKQ_RECEIVED] += 1
        note(trace, T_UDP_QUEUE, 0, h.socket[row, SOCK_RCVBUF], 0)
        return True
    _read_due(h, s, row)
    used, limit = s.sockq[row, SOCKQ_BYTES], h.socket[row, SOCK_RCVBUF]
    charge = truesize(s.skb, length)
    full = used > 0 and used + charge > limit  # one packet always fits
    note(trace, T_UDP_QUEUE, used, limit, full)
    if full:
        s.sockq[row, SOCKQ_DROPS] += 1
        return False
    if s.sockq[row, SOCKQ_PACKETS] == 0 and interval != READ_NEVER:
        s.sockq[row, SOCKQ_READ_AT] = s.misc[MISC_NOW_NS]
    s.sockq[row, SOCKQ_BYTES] = used + charge
    s.sockq[row, SOCKQ_PACKETS] += 1
    s.sockq[row, SOCKQ_RECEIVED] += 1
    return True
