"""IPv4 input: the header checks, in the kernel's order (ip_rcv_core, RFC 1122 section 3.2.1).

In:  SKB_IP, SKB_LEN, SKB_AVAIL.   Out: the header's fields in SKB_*.
Drops: OTHERHOST, IP_INHDR, IP_CSUM, PKT_TOO_SMALL.
"""

from __future__ import annotations

from ippath.jit import hot
from ippath.mib import (
    M_IpExtInCEPkts, M_IpExtInCsumErrors, M_IpExtInECT0Pkts, M_IpExtInECT1Pkts,
    M_IpExtInNoECTPkts, M_IpExtInOctets, M_IpExtInTruncatedPkts, M_IpInHdrErrors, M_IpInReceives,
)  # fmt: skip
from ippath.reasons import R_IP_CSUM, R_IP_INHDR, R_OTHERHOST, R_PKT_TOO_SMALL
from ippath.rx.packet import CONTINUE, capture_cut, count, drop
from ippath.tables import (
    PACKET_OTHERHOST, SKB_AVAIL, SKB_DST_LO, SKB_FRAG, SKB_IHL, SKB_IP, SKB_LEN,
    SKB_PKT_TYPE, SKB_PROTOCOL, SKB_SRC_LO, SKB_TOS, SKB_TRANSPORT,
)  # fmt: skip
from ippath.trace import T_IP_CSUM, T_IP_RCV, note
from ippath.wire.checksum import header_ok
from ippath.wire.ipv4 import (
    DESTINATION, FLAGS_OFFSET, HEADER, MF, OFFSET_MASK, PROTOCOL, SOURCE, TOS, TOTAL_LENGTH,
    VERSION_IHL,
)  # fmt: skip
from ippath.wire.memory import load8, load16be, load32be


@hot
def count_ecn4(s, tos):
    """Count the packet by its ECN codepoint, before the checksum is verified."""
    ecn = tos & 3
    if ecn == 0:
        count(s, M_IpExtInNoECTPkts)
    elif ecn == 1:
        count(s, M_IpExtInECT1Pkts)
    elif ecn == 2:
        count(s, M_IpExtInECT0Pkts)
    else:
        count(s, M_IpExtInCEPkts)


@hot
def ip_rcv_core(s, data, trace):
    """Check the IPv4 header; CONTINUE with the fields in `skb`, or DONE."""
    skb = s.skb
    if skb[SKB_PKT_TYPE] == PACKET_OTHERHOST:
        return drop(s, trace, R_OTHERHOST)
    ip, length, avail = skb[SKB_IP], skb[SKB_LEN], skb[SKB_AVAIL]
    count(s, M_IpInReceives)
    count(s, M_IpExtInOctets, length)
    if length < HEADER:
        count(s, M_IpInHdrErrors)
        return drop(s, trace, R_IP_INHDR)
    if avail < HEADER:
        return capture_cut(s, trace, HEADER)
    first = load8(data, ip + VERSION_IHL)
    ihl = (first & 15) * 4
    total = load16be(data, ip + TOTAL_LENGTH)
    note(trace, T_IP_RCV, first >> 4, ihl, total, length)
    if first >> 4 != 4 or ihl < HEADER:
        count(s, M_IpInHdrErrors)
        return drop(s, trace, R_IP_INHDR)
    tos = load8(data, ip + TOS)
    count_ecn4(s, tos)
    if length < ihl:
        count(s, M_IpInHdrErrors)
        return drop(s, trace, R_IP_INHDR)
    if avail < ihl:
        return capture_cut(s, trace, ihl)
    valid = header_ok(data, ip, ihl)
    note(trace, T_IP_CSUM, valid)
    if not valid:
        count(s, M_IpExtInCsumErrors)
        count(s, M_IpInHdrErrors)
        return drop(s, trace, R_IP_CSUM)
    if length < total:
        count(s, M_IpExtInTruncatedPkts)
        return drop(s, trace, R_PKT_TOO_SMALL)
    if total < ihl:
        count(s, M_IpInHdrErrors)
        return drop(s, trace, R_IP_INHDR)
    skb[SKB_LEN] = total
    skb[SKB_AVAIL] = min(avail, total)
    skb[SKB_IHL] = ihl
    skb[SKB_TOS] = tos
    skb[SKB_PROTOCOL] = load8(data, ip + PROTOCOL)
    skb[SKB_TRANSPORT] = ip + ihl
    skb[SKB_FRAG] = load16be(data, ip + FLAGS_OFFSET) & (MF | OFFSET_MASK)
    skb[SKB_SRC_LO] = load32be(data, ip + SOURCE)
    skb[SKB_DST_LO] = load32be(data, ip + DESTINATION)
    return CONTINUE
