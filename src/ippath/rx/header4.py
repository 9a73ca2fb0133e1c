"""The IPv4 packet in hand as this host has changed it: options written to, TTL spent.

A capture is never written to.  Options that change leave a copy of the header in scratch; whoever
sends the packet on, or quotes it, takes it from here.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.rx.packet import copy_captured
from ippath.tables import OPT_COLUMNS, SCRATCH_HEADER, SKB_IHL, SKB_IP, SKB_OPTIONS, SKB_TTL_SPENT
from ippath.wire.checksum import update16
from ippath.wire.ipv4 import CHECKSUM, TTL
from ippath.wire.memory import copy, load16be, store8, store16be


@cold
def begin_options(s, data):
    """Make the copy of the header that options are written to, and forget the last packet's."""
    skb = s.skb
    copy(s.scratch, SCRATCH_HEADER, data, skb[SKB_IP], skb[SKB_IHL])
    for field in range(OPT_COLUMNS):
        s.opt[field] = 0
    skb[SKB_OPTIONS] = 1


@kernel
def spend_ttl(buf, at):
    """Take one from the TTL of the header at `buf[at]` (kernel: ip_decrease_ttl; RFC 1624)."""
    word = load16be(buf, at + TTL)
    store8(buf, at + TTL, (word >> 8) - 1)
    store16be(
        buf, at + CHECKSUM, update16(load16be(buf, at + CHECKSUM), word, load16be(buf, at + TTL))
    )


@cold
def copy_packet(s, data, at, count):
    """Copy the first `count` bytes to `scratch[at]`; what the capture cut off reads as zeros."""
    skb, buf = s.skb, s.scratch
    copy_captured(s, data, skb[SKB_IP], at, count)
    if skb[SKB_OPTIONS]:
        copy(buf, at, buf, SCRATCH_HEADER, min(count, skb[SKB_IHL]))
    if skb[SKB_TTL_SPENT]:
        spend_ttl(buf, at)
