"""6LoWPAN dispatch values, header encodings, and what can be wrong with them (RFC 4944, RFC 6282)."""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.tables import LW_AT, LW_END, LW_ERROR, LW_WIRE_END
from ippath.wire.memory import load8, load16be, load32be, load64be

# the first byte of the payload (RFC 4944 section 5.1, RFC 6282 section 2)
DISPATCH_ESC, DISPATCH_IPV6, DISPATCH_HC1, DISPATCH_DFF, DISPATCH_BC0 = 0x40, 0x41, 0x42, 0x43, 0x50
DISPATCH_IPHC, DISPATCH_MESH, DISPATCH_FRAG1, DISPATCH_FRAGN = 0x60, 0x80, 0xC0, 0xE0
FRAG1_HEADER, FRAGN_HEADER = 4, 5
SIZE_MASK = 0x7FF  # datagram_size, in the first two bytes of a fragment

# LOWPAN_IPHC, as one word of 16 bits (RFC 6282 section 3.1.1)
IPHC_TF, IPHC_NH, IPHC_HLIM, IPHC_CID = 11, 1 << 10, 8, 1 << 7  # TF and HLIM: shifts of two bits
IPHC_SAC, IPHC_SAM, IPHC_M, IPHC_DAC, IPHC_DAM = 1 << 6, 4, 1 << 3, 1 << 2, 0
# LOWPAN_NHC (RFC 6282 section 4)
NHC_UDP, NHC_UDP_MASK, NHC_UDP_NO_CHECKSUM = 0xF0, 0xF8, 4
NHC_EXTENSION, NHC_EXTENSION_MASK, NHC_EXTENSION_NH = 0xE0, 0xF0, 1
EID_HOP, EID_ROUTING, EID_FRAGMENT, EID_DEST, EID_MOBILITY, EID_IPV6 = 0, 1, 2, 3, 4, 7
PORT_8, PORT_4 = 0xF000, 0xF0B0  # what ports of 8 and of 4 bits begin with

LINK_LOCAL = -0x0180000000000000  # fe80::/64, its upper half
SHORT_IID = 0x000000FFFE000000  # of an interface with a short address: 0000:00ff:fe00:XXXX
UNIVERSAL = 1 << 57  # the bit in which an interface identifier differs from the EUI-64

# LW_ERROR: what is wrong with the headers of a frame, in the words of ippath.explain
(
    LW_FINE, LW_TRUNCATED, LW_CUT, LW_NO_CONTEXT, LW_NO_ADDRESS, LW_RESERVED, LW_NEXT_HEADER,
    LW_TOO_LONG, LW_NO_CHECKSUM,
) = range(9)  # fmt: skip


@hot
def fail(lw, error):
    """Remember what went wrong first."""
    if lw[LW_ERROR] == LW_FINE:
        lw[LW_ERROR] = error


@kernel
def advance(lw, count):
    """Go on by `count` bytes; returns where they begin, -1 if they are not there."""
    at = lw[LW_AT]
    if at + count > lw[LW_END]:
        fail(lw, LW_TRUNCATED if at + count > lw[LW_WIRE_END] else LW_CUT)
        return -1
    lw[LW_AT] = at + count
    return at


@kernel
def fetch8(data, lw):
    """The next byte; 0 if it is not there."""
    at = advance(lw, 1)
    return 0 if at < 0 else load8(data, at)


@kernel
def fetch16(data, lw):
    """The next 16 bits; 0 if they are not there."""
    at = advance(lw, 2)
    return 0 if at < 0 else load16be(data, at)


@kernel
def fetch32(data, lw):
    """The next 32 bits; 0 if they are not there."""
    at = advance(lw, 4)
    return 0 if at < 0 else load32be(data, at)


@kernel
def fetch64(data, lw):
    """The next 64 bits as a pattern; 0 if they are not there."""
    at = advance(lw, 8)
    return 0 if at < 0 else load64be(data, at)


@kernel
def short_iid(address):
    """The interface identifier that a short address makes (RFC 6282 section 3.2.2)."""
    return SHORT_IID | address


@kernel
def long_iid(address):
    """The interface identifier that an EUI-64 makes (RFC 4291 appendix A)."""
    return address ^ UNIVERSAL
