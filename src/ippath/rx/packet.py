"""What every stage does to the packet in hand: count, drop, deliver, carry a route.

A stage returns CONTINUE, or DONE once the packet has its verdict.
"""

from __future__ import annotations

from ippath.jit import cold, hot, kernel
from ippath.reasons import (
    CONSUMED, DELIVERED, DROPPED, FORWARDED, R_CAPTURE_CUT, R_NONE, UNSUPPORTED,
)  # fmt: skip
from ippath.tables import (
    NONE, SKB_AVAIL, SKB_DEVICE, SKB_IIF, SKB_IP, SKB_REASON, SKB_UNCHECKED, SKB_VERDICT,
)  # fmt: skip
from ippath.trace import T_CUT, T_VERDICT, note
from ippath.wire.memory import copy, store8

CONTINUE, DONE = 0, 1
REASSEMBLED = 2  # go on with the datagram in `State.datagram`
ATOMIC_FRAGMENT = 2  # SKB_FRAG behind a fragment header: none of the bits of a real fragment


@hot
def inet_iif(skb):
    """The device that sockets see: that of the first fragment (kernel: inet_iif, inet6_iif)."""
    return skb[SKB_DEVICE] if skb[SKB_IIF] == NONE else skb[SKB_IIF]


@hot
def count(s, counter, by=1):
    """Add to a counter of `ippath.mib`."""
    s.counters[counter] += by


@cold
def drop(s, trace, reason):
    """The packet ends here, dropped for `reason`."""
    s.skb[SKB_VERDICT] = DROPPED
    s.skb[SKB_REASON] = reason
    note(trace, T_VERDICT, DROPPED, reason)
    return DONE


@cold
def unsupported(s, trace, reason):
    """ippath cannot say what Linux would do with this packet."""
    s.skb[SKB_VERDICT] = UNSUPPORTED
    s.skb[SKB_REASON] = reason
    note(trace, T_VERDICT, UNSUPPORTED, reason)
    return DONE


@cold
def capture_cut(s, trace, needed):
    """The deciding bytes were on the wire but not in the capture."""
    note(trace, T_CUT, s.skb[SKB_AVAIL], needed)
    return unsupported(s, trace, R_CAPTURE_CUT)


@hot
def deliver(s, trace):
    """The packet reached a socket or protocol handler."""
    s.skb[SKB_VERDICT] = DELIVERED
    s.skb[SKB_REASON] = R_NONE
    note(trace, T_VERDICT, DELIVERED, R_NONE)
    return DONE


@cold
def consume(s, trace, reason):
    """The packet was used up without being delivered or dropped."""
    s.skb[SKB_VERDICT] = CONSUMED
    s.skb[SKB_REASON] = reason
    note(trace, T_VERDICT, CONSUMED, reason)
    return DONE


@hot
def forwarded(s, trace):
    """The packet left by another device."""
    s.skb[SKB_VERDICT] = FORWARDED
    s.skb[SKB_REASON] = R_NONE
    note(trace, T_VERDICT, FORWARDED, R_NONE)
    return DONE


@kernel
def copy_captured(s, data, start, to, size):
    """Copy `size` bytes of the packet in hand from `data[start]` to `scratch[to]`.

    What the capture cut off reads as zeros.
    """
    skb = s.skb
    there = max(0, min(size, skb[SKB_IP] + skb[SKB_AVAIL] - start))
    copy(s.scratch, to, data, start, there)
    for k in range(there, size):
        store8(s.scratch, to + k, 0)


@kernel
def unchecked(s):
    """Remember that a check could not be made because the capture was cut."""
    s.skb[SKB_UNCHECKED] = 1
