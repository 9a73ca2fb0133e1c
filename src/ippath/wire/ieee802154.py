"""IEEE 802.15.4 frames: from a captured frame to its addresses and the payload of the MAC layer.

Reads frames of versions 2003 to 2015: addressing modes, PAN id compression, information elements.
Link types: with a frame check sequence, without, and with the TAP header in front.  Addresses are
int64 patterns in the order in which people write them; on the air they come last byte first.
"""

from __future__ import annotations

from ippath.batch import LINK_IEEE802154, LINK_IEEE802154_NOFCS, LINK_IEEE802154_TAP
from ippath.jit import cold, hot, kernel
from ippath.tables import (
    LW_AT, LW_DST, LW_DST_MODE, LW_DST_PAN, LW_END, LW_INTRA_PAN, LW_SECURED, LW_SRC, LW_SRC_MODE,
    LW_SRC_PAN, LW_TYPE, LW_WIRE_END, NONE,
)  # fmt: skip
from ippath.wire.memory import load8, load16le, load64le

TYPE_BEACON, TYPE_DATA, TYPE_ACK, TYPE_COMMAND = range(4)
# the frame control field (IEEE 802.15.4-2015 section 7.2.1)
TYPE_MASK, SECURED, ACK_REQUEST, INTRA_PAN, NO_SEQUENCE, ELEMENTS = 7, 8, 32, 64, 256, 512
VERSION_2015 = 2
ADDRESS_NONE, ADDRESS_RESERVED, ADDRESS_SHORT, ADDRESS_LONG = range(4)
BROADCAST = 0xFFFF  # PAN id or short address
FCS = 2  # bytes
# information elements that end the list of headers: others follow, or the payload does
HEADER_TERMINATION_1, HEADER_TERMINATION_2, PAYLOAD_TERMINATION = 0x7E, 0x7F, 15
TAP_FCS_TYPE, TAP_NO_FCS, TAP_FCS_16 = 0, 0, 1
MOST_ELEMENTS = 64
LARGEST_FRAME = 65535

# how the payload was found
MAC_FOUND, MAC_CUT, MAC_BAD, MAC_BAD_FCS = range(4)


@hot
def is_ieee802154(link_type):
    """Is it a link type of IEEE 802.15.4?"""
    return (
        link_type == LINK_IEEE802154
        or link_type == LINK_IEEE802154_NOFCS
        or link_type == LINK_IEEE802154_TAP
    )


@kernel
def frame_check(data, start, count):
    """The frame check sequence of `count` bytes (ITU-T CRC-16, IEEE 802.15.4 section 7.2.11)."""
    crc = 0
    for k in range(count):
        low = (load8(data, start + k) ^ crc) & 0xFF
        low ^= low << 4 & 0xFF
        crc = (crc >> 8 | low << 8) ^ low >> 4 ^ low << 3
        crc &= 0xFFFF
    return crc


@kernel
def _behind_tap(data, start, end):
    """(start of the frame, its FCS type) behind a TAP header; start -1: cut off, -2: malformed."""
    if start + 4 > end:
        return -1, 0
    size, fcs = load16le(data, start + 2), TAP_FCS_16
    if load8(data, start) != 0 or size < 4:
        return -2, 0
    if start + size > end:
        return -1, 0
    at = start + 4
    for _ in range(MOST_ELEMENTS):
        if at + 4 > start + size:
            break
        kind, length = load16le(data, at), load16le(data, at + 2)
        if kind == TAP_FCS_TYPE and length >= 1 and at + 5 <= start + size:
            fcs = load8(data, at + 4)
        at += 4 + (length + 3 & ~3)
    return start + size, fcs


@kernel
def _skip_elements(data, at, end):
    """Where the payload begins behind information elements; -1: cut off, -2: malformed."""
    in_header = True
    for _ in range(MOST_ELEMENTS):
        if at == end:
            return at
        if at + 2 > end:
            return -1
        word = load16le(data, at)
        at += 2
        if in_header:
            if word >> 15:
                return -2
            kind = word >> 7 & 0xFF
            if kind == HEADER_TERMINATION_2:
                return at
            if kind == HEADER_TERMINATION_1:
                in_header = False
            at += word & 0x7F
        else:
            if word >> 15 == 0:
                return -2
            if word >> 11 & 15 == PAYLOAD_TERMINATION:
                return at
            at += word & 0x7FF
        if at > end:
            return -1
    return -2


@kernel
def _has_pans(control, version, to_mode, from_mode):
    """(destination PAN present, source PAN present) (IEEE 802.15.4-2015 table 7-2)."""
    compressed = control & INTRA_PAN != 0
    if version < VERSION_2015:
        return to_mode != 0, from_mode != 0 and not (compressed and to_mode != 0)
    if to_mode == 0 and from_mode == 0:
        return compressed, False
    if from_mode == 0:
        return not compressed, False
    if to_mode == 0:
        return False, not compressed
    if to_mode == ADDRESS_LONG and from_mode == ADDRESS_LONG:
        return not compressed, False
    return True, not compressed


@kernel
def _read_address(data, at, mode):
    """A short or long address."""
    if mode == ADDRESS_SHORT:
        return load16le(data, at)
    return load64le(data, at)


@kernel
def _parse_header(data, at, end, lw):
    """Read the MAC header at `at` into LW_*; MAC_*."""
    if at + 2 > end:
        return MAC_CUT
    control = load16le(data, at)
    version, to_mode, from_mode = control >> 12 & 3, control >> 10 & 3, control >> 14 & 3
    lw[LW_TYPE] = control & TYPE_MASK
    lw[LW_INTRA_PAN] = control & INTRA_PAN != 0
    lw[LW_SECURED] = control & SECURED != 0
    lw[LW_DST_MODE], lw[LW_SRC_MODE] = to_mode, from_mode
    lw[LW_DST_PAN] = lw[LW_SRC_PAN] = lw[LW_DST] = lw[LW_SRC] = NONE
    if version > VERSION_2015 or lw[LW_TYPE] > TYPE_COMMAND:
        return MAC_BAD
    if to_mode == ADDRESS_RESERVED or from_mode == ADDRESS_RESERVED:
        return MAC_BAD
    at += 2 if version == VERSION_2015 and control & NO_SEQUENCE else 3
    to_pan, from_pan = _has_pans(control, version, to_mode, from_mode)
    to_size = 0 if to_mode == 0 else (2 if to_mode == ADDRESS_SHORT else 8)
    from_size = 0 if from_mode == 0 else (2 if from_mode == ADDRESS_SHORT else 8)
    if at + 2 * to_pan + to_size + 2 * from_pan + from_size > end:
        return MAC_CUT
    if to_pan:
        lw[LW_DST_PAN] = load16le(data, at)
        at += 2
    if to_mode:
        lw[LW_DST] = _read_address(data, at, to_mode)
        at += to_size
    if from_pan:
        lw[LW_SRC_PAN] = load16le(data, at)
        at += 2
    elif from_mode:
        lw[LW_SRC_PAN] = lw[LW_DST_PAN]
    if from_mode:
        lw[LW_SRC] = _read_address(data, at, from_mode)
        at += from_size
    if version == VERSION_2015 and control & ELEMENTS and not control & SECURED:
        at = _skip_elements(data, at, end)
        if at < 0:
            return MAC_CUT if at == -1 else MAC_BAD
    lw[LW_AT] = at
    return MAC_FOUND


@cold
def parse_frame(data, start, end, wire_end, link_type, lw):
    """Read a frame into LW_*: addresses, and where its payload is; returns (MAC_*, bytes of FCS).

    `start`, `end` and `wire_end` bound what was captured, and what was on the air.
    """
    fcs = FCS if link_type == LINK_IEEE802154 else 0
    if link_type == LINK_IEEE802154_TAP:
        start, kind = _behind_tap(data, start, end)
        if start < 0:
            return MAC_CUT if start == -1 else MAC_BAD, 0
        fcs = 0 if kind == TAP_NO_FCS else (FCS if kind == TAP_FCS_16 else 2 * FCS)
    whole = end == wire_end
    wire_end -= fcs
    if wire_end < start or end - start > LARGEST_FRAME:
        return MAC_BAD, fcs
    end = min(end, wire_end)
    if whole and fcs == FCS and frame_check(data, start, end - start) != load16le(data, end):
        return MAC_BAD_FCS, fcs
    status = _parse_header(data, start, end, lw)
    lw[LW_END], lw[LW_WIRE_END] = end, wire_end
    if status == MAC_CUT and whole:
        status = MAC_BAD
    return status, fcs
