"""Datagrams put together from a capture, appended to the output.

A datagram has the link-level header of its first fragment (kernel: ip_frag_reasm, ip6_frag_reasm).
"""

from __future__ import annotations

from ippath.frag.ecn import combined_ecn
from ippath.frag.join import copy_header, copy_payload
from ippath.jit import kernel
from ippath.tables import (
    FQDIR_ECN, FQDIR_IPV4, FQDIR_IPV6, FQDIR_OVERSIZE, FQDIR_POLICY, FQ_ECN, FQ_FIRST, FQ_LEN,
    FQ_MAX_DF_SIZE, FQ_MAX_SIZE, FRAG_HEADER, FRAG_LINK, FRAG_NEXTHDR_AT, MISC_OUT_BYTES,
    MISC_OUT_ROWS, OUT_CAUSE, OUT_DEVICE, OUT_LENGTH, OUT_OFFSET, OUT_TIME_NS, OUT_WIRE,
    POLICY_LINUX_OLD,
)  # fmt: skip
from ippath.wire import ipv6
from ippath.wire.checksum import checksum
from ippath.wire.ether import ETH_P_PPPOE
from ippath.wire.ipv4 import CHECKSUM, DF, FLAGS_OFFSET, TOS, TOTAL_LENGTH
from ippath.wire.memory import load8, load16be, store8, store16be

LARGEST = 65535
# columns of `State.out`, used otherwise than for packets that a host sends: the row of the input, and
# the first and the number of the frames in `State.joined`
OUT_FRAMES, OUT_COUNT = OUT_DEVICE, OUT_TIME_NS


@kernel
def ecn_of(directory, members):
    """What to set in the TOS of a datagram whose fragments have these ECN bits, or -1."""
    return 0 if directory[FQDIR_POLICY] > POLICY_LINUX_OLD else combined_ecn(members)


@kernel
def is_oversize(six, header, length):
    """Is a datagram too large, whose `length` bytes of data follow `header` bytes without the link's?"""
    if six:
        return header - ipv6.FRAGMENT_HEADER - ipv6.HEADER + length > LARGEST
    return header + length > LARGEST


@kernel
def finish_header4(out, at, ihl, length, ecn, keep_df):
    """Make the first fragment's IPv4 header at `out[at]` that of the datagram."""
    store8(out, at + TOS, load8(out, at + TOS) | ecn)
    store16be(out, at + TOTAL_LENGTH, ihl + length)
    store16be(out, at + FLAGS_OFFSET, DF if keep_df else 0)
    store16be(out, at + CHECKSUM, 0)
    store16be(out, at + CHECKSUM, checksum(out, at, ihl))


@kernel
def finish_header6(out, at, header, length, ecn, protocol, nexthdr_at):
    """The same for the IPv6 headers at `out[at]`, `header` bytes without the fragment header."""
    store8(out, at + nexthdr_at, protocol)
    store16be(out, at + ipv6.PAYLOAD_LENGTH, header - ipv6.HEADER + length)
    store8(out, at + 1, load8(out, at + 1) | ecn << 4)


@kernel
def finish_link(out, at, link, length):
    """Make the link-level header of `link` bytes at `out[at]` that of a packet of `length` bytes."""
    if link >= 14 and load16be(out, at + link - 10) == ETH_P_PPPOE:
        store16be(out, at + link - 4, length + 2)


@kernel
def note_out(s, length, wire, cause):
    """Note a packet at the end of the output; returns its row."""
    row, place = s.misc[MISC_OUT_ROWS], s.misc[MISC_OUT_BYTES]
    s.out[row, OUT_OFFSET], s.out[row, OUT_LENGTH], s.out[row, OUT_WIRE] = place, length, wire
    s.out[row, OUT_CAUSE], s.out[row, OUT_FRAMES], s.out[row, OUT_COUNT] = cause, 0, 0
    s.misc[MISC_OUT_ROWS] = row + 1
    s.misc[MISC_OUT_BYTES] = place + length
    return row


@kernel
def join(s, q, six, at):
    """The whole datagram of a killed queue to `out_data[at]`; (length, captured), or (0, 0)."""
    directory, out, fq = s.fqdir[FQDIR_IPV6 if six else FQDIR_IPV4], s.out_data, s.fq
    ecn, first = ecn_of(directory, fq[q, FQ_ECN]), fq[q, FQ_FIRST]
    if ecn < 0:
        directory[FQDIR_ECN] += 1
        return 0, 0
    link, header, length = s.frag[first, FRAG_LINK], s.frag[first, FRAG_HEADER], fq[q, FQ_LEN]
    if is_oversize(six, header - link, length):
        directory[FQDIR_OVERSIZE] += 1
        return 0, 0
    copy_header(s, first, header, out, at)
    if six:
        header -= ipv6.FRAGMENT_HEADER
        protocol = load8(out, at + header)
        there = copy_payload(s, q, out, at + header)
        nexthdr_at = s.frag[first, FRAG_NEXTHDR_AT]
        finish_header6(out, at + link, header - link, length, ecn, protocol, nexthdr_at)
    else:
        there = copy_payload(s, q, out, at + header)
        keep_df = fq[q, FQ_MAX_DF_SIZE] == fq[q, FQ_MAX_SIZE]
        finish_header4(out, at + link, header - link, length, ecn, keep_df)
    finish_link(out, at, link, header - link + length)
    return header + length, header + there
