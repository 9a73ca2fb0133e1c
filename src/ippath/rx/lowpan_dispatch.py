"""What the dispatch byte says comes next: mesh and broadcast headers, fragments, IPv6 in three dresses.

RFC 4944 sections 5 and 10, RFC 6282 section 2; kernel: lowpan_rx_h_check and the handlers behind it.
What can be wrong stands in LW_ERROR; a payload that is refused as a whole gives REFUSE.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.rx.lowpan_hc1 import decompress_hc1
from ippath.rx.lowpan_iphc import copy_rest, decompress, fill_checksum
from ippath.tables import (
    LW_AT, LW_BASE, LW_CHECKSUM, LW_DST, LW_DST_MODE, LW_END, LW_ERROR, LW_INTRA_PAN, LW_OFFSET,
    LW_OUT, LW_SIZE, LW_SRC, LW_SRC_MODE, LW_STRICT, LW_TAG, LW_WIRE_END,
)  # fmt: skip
from ippath.wire.ieee802154 import ADDRESS_LONG, ADDRESS_SHORT
from ippath.wire.ipv6 import HEADER
from ippath.wire.lowpan import (
    DISPATCH_BC0, DISPATCH_FRAG1, DISPATCH_FRAGN, DISPATCH_HC1, DISPATCH_IPHC, DISPATCH_IPV6,
    DISPATCH_MESH, LW_CUT, LW_FINE, LW_RESERVED, LW_TRUNCATED, SIZE_MASK, fail, fetch8, fetch16,
    fetch64,
)  # fmt: skip
from ippath.wire.memory import load8

REFUSE, PASS, FRAGMENT = range(3)
DEEP = 15  # hops left that do not fit into four bits


@kernel
def is_iphc(dispatch):
    """LOWPAN_IPHC, 011xxxxx."""
    return dispatch & 0xE0 == DISPATCH_IPHC


@kernel
def is_first_fragment(dispatch):
    """11000xxx."""
    return dispatch & 0xF8 == DISPATCH_FRAG1


@kernel
def is_later_fragment(dispatch):
    """11100xxx."""
    return dispatch & 0xF8 == DISPATCH_FRAGN


@kernel
def _mesh_address(data, lw, short):
    return fetch16(data, lw) if short else fetch64(data, lw)


@kernel
def _open_mesh(data, lw):
    """Read a mesh header: the frame counts as one from the originator to the final address."""
    head = fetch8(data, lw)
    if head & DEEP == DEEP:
        fetch8(data, lw)
    origin = _mesh_address(data, lw, head & 0x20)
    final = _mesh_address(data, lw, head & 0x10)
    lw[LW_SRC], lw[LW_DST] = origin, final
    lw[LW_SRC_MODE] = ADDRESS_SHORT if head & 0x20 else ADDRESS_LONG
    lw[LW_DST_MODE] = ADDRESS_SHORT if head & 0x10 else ADDRESS_LONG


@kernel
def _peek(data, lw):
    """The next byte, which stays to be read."""
    if lw[LW_AT] >= lw[LW_END]:
        fail(lw, LW_TRUNCATED if lw[LW_AT] >= lw[LW_WIRE_END] else LW_CUT)
        return 0
    return load8(data, lw[LW_AT])


@cold
def open_payload(s, data):
    """(PASS, FRAGMENT or REFUSE; the dispatch) of a data frame; mesh and broadcast headers come off."""
    lw = s.lw
    if lw[LW_STRICT] and lw[LW_INTRA_PAN] == 0:
        return REFUSE, 0
    dispatch = _peek(data, lw)
    if lw[LW_STRICT] == 0:
        if dispatch & 0xC0 == DISPATCH_MESH:
            _open_mesh(data, lw)
            dispatch = _peek(data, lw)
        if dispatch == DISPATCH_BC0:
            fetch16(data, lw)
            dispatch = _peek(data, lw)
    if is_iphc(dispatch) or dispatch == DISPATCH_IPV6:
        return PASS, dispatch
    if is_first_fragment(dispatch) or is_later_fragment(dispatch):
        return FRAGMENT, dispatch
    if dispatch == DISPATCH_HC1 and lw[LW_STRICT] == 0:
        return PASS, dispatch
    return REFUSE, dispatch


@kernel
def take_fragment_header(s, data, dispatch):
    """Read a fragment header into LW_SIZE, LW_TAG, LW_OFFSET; is it a first fragment's?"""
    lw = s.lw
    first = is_first_fragment(dispatch)
    lw[LW_SIZE] = fetch16(data, lw) & SIZE_MASK
    lw[LW_TAG] = fetch16(data, lw)
    lw[LW_OFFSET] = 0 if first else fetch8(data, lw) * 8
    if first:
        if lw[LW_SIZE] < HEADER:
            fail(lw, LW_RESERVED)
        _peek(data, lw)
    return first


@cold
def rebuild(s, data, dispatch):
    """(PASS or REFUSE, bytes, bytes captured) of the IPv6 packet, or of what a first fragment has of it.

    It begins at LW_BASE of `State.lowpan`.
    """
    lw = s.lw
    lw[LW_OUT], lw[LW_CHECKSUM] = lw[LW_BASE], 0
    if is_iphc(dispatch):
        decompress(s, data)
    elif dispatch == DISPATCH_IPV6:
        lw[LW_AT] += 1
    elif dispatch == DISPATCH_HC1 and lw[LW_STRICT] == 0:
        lw[LW_AT] += 1
        decompress_hc1(s, data)
    else:
        return REFUSE, 0, 0
    if lw[LW_ERROR] != LW_FINE:
        return PASS, 0, 0
    length, there = copy_rest(s, data)
    if lw[LW_CHECKSUM] and lw[LW_SIZE] == 0:
        fill_checksum(s, lw[LW_BASE], lw[LW_CHECKSUM], length, there)
    return PASS, length, there
