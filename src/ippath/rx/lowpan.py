"""6LoWPAN input: from an IEEE 802.15.4 frame to the IPv6 packet that it holds or completes.

Mirrors the end of `mac802154` (`ieee802154_subif_frame`) and `lowpan_rcv`; RFC 4944, RFC 6282.

In:  frame bounds, link type, capture device.
Out: CONTINUE with the packet in `State.lowpan`, SKB_IP, SKB_LEN, SKB_AVAIL; or DONE.
Drops: OTHERHOST, DEV_READY; NOT_SPECIFIED for all that 6LoWPAN refuses, as in the kernel.
Held: it waits for other fragments.   Consumed: beacons, acknowledgements, commands; OUTGOING.
Unsupported: LINK_HEADER, LINK_SECURITY, CAPTURE_CUT, NO_DEVICE.

With LW_STRICT as Linux, which has no mesh, no broadcast header and no HC1.
"""

from __future__ import annotations

from ippath.frag.fragment import hold
from ippath.frag.lowpan import KEPT, LARGEST_DATAGRAM, WHOLE, lowpan_frag_queue, lowpan_frag_reasm
from ippath.handles import as_arena
from ippath.jit import cold, kernel
from ippath.reasons import (
    R_DEV_READY, R_LINK_HEADER, R_LINK_SECURITY, R_NONE, R_NOT_SPECIFIED, R_NO_DEVICE, R_OTHERHOST,
    R_OUTGOING,
)  # fmt: skip
from ippath.rx.lowpan_dispatch import PASS, REFUSE, open_payload, rebuild, take_fragment_header
from ippath.rx.packet import CONTINUE, capture_cut, consume, drop, unsupported
from ippath.tables import (
    DEVSTAT_RX, DEVSTAT_RX_BYTES, DEV_MAC, DEV_PAN, DEV_SHORT, DEV_UP, FM_JOINED, LW_AT, LW_BASE,
    LW_DST, LW_DST_MODE, LW_DST_PAN, LW_END, LW_ERROR, LW_OFFSET, LW_OUT, LW_SECURED, LW_SIZE,
    LW_SRC, LW_SRC_MODE, LW_TAG, LW_TYPE, LW_WIRE_END, NONE, PACKET_BROADCAST, PACKET_HOST,
    PACKET_OTHERHOST, PACKET_OUTGOING, SKB_AVAIL, SKB_DEVICE, SKB_END, SKB_FAMILY, SKB_IP, SKB_LEN,
    SKB_LINK, SKB_PKT_TYPE, SKB_WIRE_END,
)  # fmt: skip
from ippath.trace import (
    T_LOWPAN_DISPATCH, T_LOWPAN_FRAGMENT, T_LOWPAN_IPHC, T_LOWPAN_JOINED, T_LOWPAN_PLACE,
    T_LOWPAN_REFUSED, T_LOWPAN_WRONG, T_WPAN, T_WPAN_FCS, note,
)  # fmt: skip
from ippath.wire.ieee802154 import (
    ADDRESS_LONG, ADDRESS_NONE, ADDRESS_SHORT, BROADCAST, MAC_BAD, MAC_BAD_FCS, MAC_CUT, TYPE_DATA,
    parse_frame,
)  # fmt: skip
from ippath.wire.lowpan import DISPATCH_IPHC, LW_CUT, LW_FINE
from ippath.wire.memory import load8


@kernel
def _packet_type(h, lw, device):
    """PACKET_* of a frame; a device whose addresses nobody knows takes all."""
    mode, to, pan = lw[LW_DST_MODE], lw[LW_DST], lw[LW_DST_PAN]
    row = h.device[device]
    mine = row[DEV_MAC]
    if mine != NONE and lw[LW_SRC_MODE] == ADDRESS_LONG and lw[LW_SRC] == mine:
        return PACKET_OUTGOING  # a capture made on the host shows what it sent, too
    if mode == ADDRESS_NONE:
        return PACKET_HOST if lw[LW_SRC_MODE] == ADDRESS_NONE or mine == NONE else PACKET_OTHERHOST
    if row[DEV_PAN] != NONE and pan != NONE and pan != row[DEV_PAN] and pan != BROADCAST:
        return PACKET_OTHERHOST
    if mode == ADDRESS_SHORT and to == BROADCAST:
        return PACKET_BROADCAST
    known = row[DEV_SHORT] if mode == ADDRESS_SHORT else mine
    if known == NONE:  # one of the two addresses is enough to tell others' frames
        return PACKET_HOST
    return PACKET_HOST if to == known else PACKET_OTHERHOST


@kernel
def _frame_unreadable(s, trace, status):
    """The verdict of a frame whose MAC header could not be read."""
    skb = s.skb
    if status == MAC_BAD_FCS:
        note(trace, T_WPAN_FCS)
        return drop(s, trace, R_NOT_SPECIFIED)
    if status == MAC_CUT:
        skb[SKB_AVAIL] = skb[SKB_END] - skb[SKB_LINK]
        return capture_cut(s, trace, skb[SKB_AVAIL] + 1)
    return unsupported(s, trace, R_LINK_HEADER)


@kernel
def _headers_wrong(s, trace, begin):
    """The verdict of a frame whose compressed headers could not be read."""
    lw = s.lw
    note(trace, T_LOWPAN_WRONG, lw[LW_AT] - begin, lw[LW_ERROR])
    if lw[LW_ERROR] == LW_CUT:
        s.skb[SKB_AVAIL] = lw[LW_END] - s.skb[SKB_LINK]
        return capture_cut(s, trace, s.skb[SKB_AVAIL] + 1)
    return drop(s, trace, R_NOT_SPECIFIED)


@kernel
def _hand_up(s, at, length, there):
    """The packet goes on as IPv6 (kernel: lowpan_give_skb_to_device)."""
    skb = s.skb
    s.lw[LW_OUT] = at + there
    skb[SKB_FAMILY] = 6
    skb[SKB_IP], skb[SKB_LEN], skb[SKB_AVAIL] = at, length, there
    s.devstat[skb[SKB_DEVICE], DEVSTAT_RX] += 1
    s.devstat[skb[SKB_DEVICE], DEVSTAT_RX_BYTES] += length
    return CONTINUE


@cold
def _take_fragment(s, data, trace, dispatch):
    """A fragment; CONTINUE if it makes its datagram whole."""
    lw, skb = s.lw, s.skb
    begin = lw[LW_AT]
    first = take_fragment_header(s, data, dispatch)
    if lw[LW_ERROR] != LW_FINE:
        return _headers_wrong(s, trace, begin)
    if first:
        begin, inner = lw[LW_AT], load8(data, lw[LW_AT])
        outcome, length, there = rebuild(s, data, inner)
        if outcome == REFUSE:
            note(trace, T_LOWPAN_DISPATCH, inner)
            return drop(s, trace, R_NOT_SPECIFIED)
        if lw[LW_ERROR] != LW_FINE:
            return _headers_wrong(s, trace, begin)
        note(trace, T_LOWPAN_IPHC, lw[LW_AT] - begin, lw[LW_OUT] - lw[LW_BASE])
    else:
        length, there = lw[LW_WIRE_END] - lw[LW_AT], max(0, lw[LW_END] - lw[LW_AT])
    note(trace, T_LOWPAN_FRAGMENT, lw[LW_OFFSET], lw[LW_OFFSET] + length, lw[LW_SIZE], lw[LW_TAG])
    if lw[LW_SIZE] > LARGEST_DATAGRAM:
        return drop(s, trace, R_NOT_SPECIFIED)
    skb[SKB_IP] = 0 if first else lw[LW_AT]
    skb[SKB_AVAIL] = there
    if first:
        fate, q, f = lowpan_frag_queue(s, as_arena(s.lowpan), 0, length, 1)
    else:
        fate, q, f = lowpan_frag_queue(s, data, 0, length, 0)
    note(trace, T_LOWPAN_PLACE, fate)
    if fate == KEPT:
        return hold(s, trace, q)
    if fate != WHOLE:
        return drop(s, trace, R_NOT_SPECIFIED)
    s.frag_misc[FM_JOINED] = 0
    at, length, there = lowpan_frag_reasm(s, q, f)
    note(trace, T_LOWPAN_JOINED, length)
    return _hand_up(s, at, length, there)


@cold
def _lowpan_rcv(s, data, trace):
    """The payload of a data frame (kernel: lowpan_rcv, lowpan_invoke_rx_handlers)."""
    lw = s.lw
    begin = lw[LW_AT]
    outcome, dispatch = open_payload(s, data)
    if lw[LW_ERROR] != LW_FINE:
        return _headers_wrong(s, trace, begin)
    if outcome == REFUSE:
        note(trace, T_LOWPAN_REFUSED)
        return drop(s, trace, R_NOT_SPECIFIED)
    note(trace, T_LOWPAN_DISPATCH, dispatch)
    if outcome != PASS:
        return _take_fragment(s, data, trace, dispatch)
    begin = lw[LW_AT]
    outcome, length, there = rebuild(s, data, dispatch)
    if outcome == REFUSE:
        return drop(s, trace, R_NOT_SPECIFIED)
    if lw[LW_ERROR] != LW_FINE:
        return _headers_wrong(s, trace, begin)
    if dispatch >= DISPATCH_IPHC:
        note(trace, T_LOWPAN_IPHC, lw[LW_AT] - begin, lw[LW_OUT] - lw[LW_BASE])
    return _hand_up(s, 0, length, there)


@cold
def lowpan_input(h, s, data, link_type, direction_out, trace):
    """Take a frame in; CONTINUE with an IPv6 packet in `State.lowpan`, or DONE."""
    skb, lw = s.skb, s.lw
    start, end, wire_end, device = skb[SKB_LINK], skb[SKB_END], skb[SKB_WIRE_END], skb[SKB_DEVICE]
    if device < 0 or device >= h.device.shape[0]:
        skb[SKB_DEVICE] = NONE
        return unsupported(s, trace, R_NO_DEVICE)
    status, _ = parse_frame(data, start, end, wire_end, link_type, lw)
    if status == MAC_CUT or status == MAC_BAD or status == MAC_BAD_FCS:
        return _frame_unreadable(s, trace, status)
    kind = PACKET_OUTGOING if direction_out else _packet_type(h, lw, device)
    skb[SKB_PKT_TYPE] = kind
    note(trace, T_WPAN, lw[LW_DST_MODE], lw[LW_DST], kind)
    if kind == PACKET_OUTGOING:
        return consume(s, trace, R_OUTGOING)
    if h.device[device, DEV_UP] == 0:
        return drop(s, trace, R_DEV_READY)
    if lw[LW_TYPE] != TYPE_DATA:
        return consume(s, trace, R_NONE)
    if kind == PACKET_OTHERHOST:
        return drop(s, trace, R_OTHERHOST)
    if lw[LW_SECURED]:
        return unsupported(s, trace, R_LINK_SECURITY)
    lw[LW_ERROR], lw[LW_BASE], lw[LW_SIZE] = LW_FINE, 0, 0
    return _lowpan_rcv(s, data, trace)
