"""The receive queue of a socket and its limit (kernel: __udp_enqueue_schedule_skb).

A socket's reader takes datagrams at once, at a given rate of packet time, by calls, or never.
"""

from __future__ import annotations

from ippath.jit import cold, hot, kernel
from ippath.tables import (
    MISC_NOW_NS, READ_AT_ONCE, READ_NEVER, SOCK_RCVBUF, SOCK_READ_NS, SOCKQ_BYTES, SOCKQ_DROPS,
    SOCKQ_PACKETS, SOCKQ_READ_AT, SOCKQ_RECEIVED, SKB_LOOPED,
)  # fmt: skip
from ippath.trace import T_UDP_QUEUE, note

# memory that one small packet costs beside its bytes: struct sk_buff and skb_shared_info, aligned
SKB_OVERHEAD = 576
HEADROOM = 64
ALIGN = 64
# what a socket of this host sends: struct sk_buff, skb_shared_info, link-level headroom by lo, the
# smallest head there is, and the largest (SKB_MAX_ALLOC), beyond which bytes lie in pages
SKB, SHARED_INFO, LINK_ROOM, SMALL_HEAD, LARGEST_HEAD = 256, 320, 31, 576, 16064
HEADERS = 28


@hot
def truesize(length):
    """Memory charged for a packet of `length` bytes (model of SKB_TRUESIZE)."""
    return ((length + HEADROOM + ALIGN - 1) & ~(ALIGN - 1)) + SKB_OVERHEAD


@kernel
def looped_truesize(length):
    """Memory charged for a packet of `length` bytes that came from this host (__ip_append_data)."""
    if length + LINK_ROOM >= LARGEST_HEAD:
        return SKB + SMALL_HEAD + length - HEADERS
    needed = ((length + LINK_ROOM + ALIGN - 1) & ~(ALIGN - 1)) + SHARED_INFO
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
    full = used > limit
    note(trace, T_UDP_QUEUE, used, limit, full)
    if full:
        s.sockq[row, SOCKQ_DROPS] += 1
        return False
    if s.sockq[row, SOCKQ_PACKETS] == 0 and interval != READ_NEVER:
        s.sockq[row, SOCKQ_READ_AT] = s.misc[MISC_NOW_NS]
    charge = looped_truesize(length) if s.skb[SKB_LOOPED] else truesize(length)
    s.sockq[row, SOCKQ_BYTES] = used + charge
    s.sockq[row, SOCKQ_PACKETS] += 1
    s.sockq[row, SOCKQ_RECEIVED] += 1
    return True
