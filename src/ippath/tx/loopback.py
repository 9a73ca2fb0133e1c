"""Packets that a host sends to itself: they wait until they come back in.

By the loopback device (kernel: loopback_xmit), and as copies of what the host sends to groups and
broadcasts (dev_loopback_xmit).  Such a packet keeps its route: nothing looks one up again.
"""

from __future__ import annotations

from ippath.fib.local import has_joined
from ippath.jit import cold, kernel
from ippath.tables import (
    FLOW_MARK, FLOW_OUTPUT, LOOP_CAUSE, LOOP_DEVICE, LOOP_IIF, LOOP_LENGTH, LOOP_MARK, LOOP_OFFSET,
    LOOP_TYPE, LOOP_WIRE, MISC_LOOP_BYTES, MISC_LOOP_ROWS, MISC_OWN_IIF, NONE, RTN_LOCAL,
    RTN_MULTICAST, RTN_UNICAST, RTN_UNSPEC, SKB_FRAME, SKB_MARK,
)  # fmt: skip
from ippath.wire.ipv4 import DESTINATION
from ippath.wire.memory import copy, load8, load32be

# what one packet or datagram may need: 64 KiB in the smallest fragments, 128 segments
RESERVE_ROWS, RESERVE_BYTES = 1 << 11, 1 << 18
LOOP_ROWS, LOOP_BYTES = 1 << 12, 1 << 20


@kernel
def loops_soon_full(s):
    """Do packets have to come back in before more are sent?"""
    return (
        s.misc[MISC_LOOP_ROWS] + RESERVE_ROWS > s.loop.shape[0]
        or s.misc[MISC_LOOP_BYTES] + RESERVE_BYTES > s.loop_data.shape[0]
    )


@cold
def loop_back(h, s, buf, at, kept, length, device, kind):
    """Keep the packet at `buf[at]`, which comes back in by `device`.

    `buf` has `kept` of its `length` bytes.  A packet that this host only forwards is routed anew.
    """
    iif = s.misc[MISC_OWN_IIF]
    row, start = s.misc[MISC_LOOP_ROWS], s.misc[MISC_LOOP_BYTES]
    if row >= s.loop.shape[0] or start + kept > s.loop_data.shape[0]:
        return  # whoever sends stops before this can happen; never write past the arena
    if iif == NONE:
        kind = RTN_UNSPEC
    elif kind == RTN_MULTICAST and load8(buf, at) >> 4 == 4:
        if not has_joined(h, 4, device, 0, load32be(buf, at + DESTINATION)):
            kind = RTN_UNICAST  # nobody here: it is discarded
    elif kind == RTN_UNICAST:
        kind = RTN_LOCAL  # a route by lo leads here, whatever it is called (__mkroute_output)
    s.loop[row, LOOP_OFFSET] = start
    s.loop[row, LOOP_LENGTH] = kept
    s.loop[row, LOOP_WIRE] = length
    s.loop[row, LOOP_DEVICE] = device
    s.loop[row, LOOP_TYPE] = kind
    s.loop[row, LOOP_IIF] = iif
    s.loop[row, LOOP_CAUSE] = s.skb[SKB_FRAME]
    s.loop[row, LOOP_MARK] = s.skb[SKB_MARK] if iif == NONE else s.flow[FLOW_OUTPUT, FLOW_MARK]
    copy(s.loop_data, start, buf, at, kept)
    s.misc[MISC_LOOP_ROWS] = row + 1
    s.misc[MISC_LOOP_BYTES] = start + kept
