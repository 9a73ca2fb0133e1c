"""Sending by a 6LoWPAN device: compressed headers, in fragments where they must be (kernel: lowpan_xmit,
lowpan_xmit_fragmented; RFC 4944 section 5.3).

A packet becomes one IEEE 802.15.4 frame, or a first and later fragments; rows of `State.out`.
Frames carry no check sequence.  Sequence numbers and tags begin at 0; Linux draws them.
"""

from __future__ import annotations

from ippath.batch import LINK_IEEE802154_NOFCS
from ippath.handles import open_bytes, open_state
from ippath.jit import cold, entry, kernel
from ippath.tables import (
    DEVSTAT_FRAMES, DEVSTAT_TAGS, LOWPAN_SENT, MISC_NOW_NS, MISC_OUT_BYTES, MISC_OUT_ROWS, NONE,
    OUT_CAUSE, OUT_DEVICE, OUT_LENGTH, OUT_LINK, OUT_OFFSET, OUT_TIME_NS, OUT_WIRE, SKB_FRAME,
)  # fmt: skip
from ippath.tx.lowpan_iphc import compress
from ippath.wire.ieee802154 import (
    ADDRESS_LONG, ADDRESS_SHORT, BROADCAST, FCS, INTRA_PAN, TYPE_DATA,
)  # fmt: skip
from ippath.wire.lowpan import (
    DISPATCH_FRAG1, DISPATCH_FRAGN, FRAG1_HEADER, FRAGN_HEADER, SIZE_MASK,
)  # fmt: skip
from ippath.wire.memory import copy, store8, store16be, store16le, store64le

LARGEST_FRAME = 127  # bytes, with the check sequence (aMaxPhyPacketSize)
ALL = NONE  # link-level address of all, as a pattern of 64 bits
MAC_LONG, MAC_BROADCAST = 21, 15  # bytes of the MAC header


@kernel
def _mac_header(s, at, device, pan, mine, to):
    """Write the MAC header of a data frame within the PAN; returns the next byte."""
    buf, everyone = s.out_data, to == ALL
    mode = ADDRESS_SHORT if everyone else ADDRESS_LONG
    store16le(buf, at, TYPE_DATA | INTRA_PAN | mode << 10 | ADDRESS_LONG << 14)
    store8(buf, at + 2, s.devstat[device, DEVSTAT_FRAMES])
    s.devstat[device, DEVSTAT_FRAMES] += 1
    store16le(buf, at + 3, BROADCAST if pan == NONE else pan)
    if everyone:
        store16le(buf, at + 5, BROADCAST)
        at += 7
    else:
        store64le(buf, at + 5, to)
        at += 13
    store64le(buf, at, mine)
    return at + 8


@kernel
def _begin_frame(s, device, pan, mine, to):
    """Begin a frame; returns where its payload goes, or NONE if there is no room."""
    row, at = s.misc[MISC_OUT_ROWS], s.misc[MISC_OUT_BYTES]
    if row >= s.out.shape[0] or at + LARGEST_FRAME > s.out_data.shape[0]:
        return NONE  # the burst loop stops before this can happen; never write past the arena
    return _mac_header(s, at, device, pan, mine, to)


@kernel
def _end_frame(s, device, end, missing):
    """Note the frame that ends at `end`, of which the capture cut `missing` bytes off."""
    row, at = s.misc[MISC_OUT_ROWS], s.misc[MISC_OUT_BYTES]
    s.out[row, OUT_OFFSET], s.out[row, OUT_LENGTH] = at, end - at
    s.out[row, OUT_WIRE] = end - at + missing
    s.out[row, OUT_DEVICE], s.out[row, OUT_TIME_NS] = device, s.misc[MISC_NOW_NS]
    s.out[row, OUT_CAUSE], s.out[row, OUT_LINK] = s.skb[SKB_FRAME], LINK_IEEE802154_NOFCS
    s.misc[MISC_OUT_ROWS] = row + 1
    s.misc[MISC_OUT_BYTES] = end


@kernel
def _put_payload(s, at, buf, begin, count, end):
    """Copy `count` bytes from `buf[begin]`, of which those up to `end` are there; returns how many."""
    there = max(0, min(count, end - begin))
    copy(s.out_data, at, buf, begin, there)
    return there


@cold
def lowpan_xmit(s, buf, ip, kept, length, device, pan, mine, to):
    """Send the IPv6 packet of `length` bytes at `buf[ip]`, of which `kept` are there, 40 at least.

    `mine` and `to` are EUI-64s; `to` is ALL for a group.  What is longer than a fragment header can
    say is not sent.
    """
    made, meant = compress(s, buf, ip, kept, mine, to)
    rest, end = length - meant, ip + kept
    room = LARGEST_FRAME - FCS - (MAC_BROADCAST if to == ALL else MAC_LONG)
    whole = made + rest <= room
    if not whole and length > SIZE_MASK:
        return
    at = _begin_frame(s, device, pan, mine, to)
    if at == NONE:
        return
    tag, part = s.devstat[device, DEVSTAT_TAGS], rest
    if not whole:
        s.devstat[device, DEVSTAT_TAGS] += 1
        store16be(s.out_data, at, DISPATCH_FRAG1 << 8 | length)
        store16be(s.out_data, at + 2, tag)
        at += FRAG1_HEADER
        part = (room - FRAG1_HEADER - made) & ~7
    copy(s.out_data, at, s.lowpan, LOWPAN_SENT, made)
    there = _put_payload(s, at + made, buf, ip + meant, part, end)
    _end_frame(s, device, at + made + there, part - there)
    most, done = (room - FRAGN_HEADER) & ~7, meant + part
    while done < length:
        at = _begin_frame(s, device, pan, mine, to)
        if at == NONE:
            return
        part = min(most, length - done)
        store16be(s.out_data, at, DISPATCH_FRAGN << 8 | length)
        store16be(s.out_data, at + 2, tag)
        store8(s.out_data, at + 4, done >> 3)
        there = _put_payload(s, at + FRAGN_HEADER, buf, ip + done, part, end)
        _end_frame(s, device, at + FRAGN_HEADER + there, part - there)
        done += part


@entry
def send_packets(state, arena, offset, length, pan, mine, to):
    """Send the IPv6 packets of a batch, each of 40 bytes at least, from one EUI-64 to another."""
    s, buf = open_state(state), open_bytes(arena)
    for row in range(offset.shape[0]):
        size = length[row]
        lowpan_xmit(s, buf, offset[row], size, size, 0, pan, mine, to)
