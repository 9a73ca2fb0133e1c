"""IPv6 extension headers (kernel: ipv6_parse_hopopts, ip6_parse_tlv, ipv6_rthdr_rcv; RFC 8200 4).

Hop-by-hop options are read on input, destination options and routing headers at local delivery.
Drops: NOT_SPECIFIED, IP_INHDR, UNHANDLED_PROTO, PKT_TOO_SMALL; some with ICMPv6 parameter problem.
"""

from __future__ import annotations

from ippath.frag.ipv6 import ipv6_frag_rcv
from ippath.jit import cold, kernel
from ippath.mib import (
    M_Ip6InAddrErrors, M_Ip6InHdrErrors, M_Ip6InTruncatedPkts, M_Ip6ReasmOKs, M_Ip6ReasmReqds,
)  # fmt: skip
from ippath.reasons import (
    R_IP_INHDR, R_NOT_SPECIFIED, R_PKT_TOO_SMALL, R_SEGMENT_ROUTING, R_UNHANDLED_PROTO,
)  # fmt: skip
from ippath.rx.icmpv6_send import icmp6_send
from ippath.rx.packet import (
    ATOMIC_FRAGMENT, CONTINUE, DONE, capture_cut, count, drop, unsupported,
)  # fmt: skip
from ippath.tables import (
    CONF_MAX_DST_LENGTH, CONF_MAX_DST_OPTIONS, CONF_MAX_HBH_LENGTH, CONF_MAX_HBH_OPTIONS, DEV_RPL6,
    DEV_SEG6, PACKET_HOST, SKB_AVAIL, SKB_DEVICE, SKB_DST_HI, SKB_FRAG, SKB_IP, SKB_LEN,
    SKB_NEXTHDR_AT, SKB_OPT_ALERT, SKB_PKT_TYPE, SKB_PROTOCOL, SKB_TRANSPORT,
)  # fmt: skip
from ippath.trace import T_EXTHDR, T_EXTHDR_LONG, T_ROUTING, T_SEGMENTS, note
from ippath.wire.icmp import HEADER_FIELD, ICMP6_PARAMETER_PROBLEM, UNKNOWN_OPTION
from ippath.wire.ipv6 import (
    FRAGMENT_HEADER, FRAGMENT_OFFSET, HEADER, MORE_FRAGMENTS, NEXTHDR_DEST, NEXTHDR_FRAGMENT,
    NEXTHDR_HOP, NEXTHDR_ROUTING, PAYLOAD_LENGTH, RPL_ROUTING, SEGMENT_ROUTING, TLV_CALIPSO,
    TLV_IOAM, TLV_JUMBO, TLV_PAD1, TLV_PADN, TLV_ROUTER_ALERT, is_multicast,
)  # fmt: skip
from ippath.wire.memory import load8, load16be, load32be

JUMBO_LEAST = 65536


@kernel
def _extension_fits(s, trace, at):
    """Bytes of the extension header at `at`, 0 if the packet is too short, -1 if the capture is."""
    skb = s.skb
    end, cut = skb[SKB_IP] + skb[SKB_LEN], skb[SKB_IP] + skb[SKB_AVAIL]
    if at + 8 > end:
        return 0
    if at + 8 > cut:
        return -1
    return 8  # the caller reads the length byte and asks again


@kernel
def _unknown_option(h, s, data, trace, option, offset):
    """Act on an unknown option by its top two bits; CONTINUE to skip it (RFC 8200 section 4.2)."""
    action = option >> 6
    if action == 0:
        return CONTINUE
    if action == 2 or (action == 3 and not is_multicast(s.skb[SKB_DST_HI])):
        icmp6_send(h, s, data, trace, ICMP6_PARAMETER_PROBLEM, UNKNOWN_OPTION, offset)
    return drop(s, trace, R_UNHANDLED_PROTO)


@kernel
def _jumbo(h, s, data, trace, at, payload):
    """Jumbo payload option (RFC 2675; kernel: ipv6_hop_jumbo)."""
    skb = s.skb
    offset = at - skb[SKB_IP]
    if load8(data, at + 1) != 4 or offset & 3 != 2:
        return drop(s, trace, R_IP_INHDR)
    size = load32be(data, at + 2)
    if size < JUMBO_LEAST:
        icmp6_send(h, s, data, trace, ICMP6_PARAMETER_PROBLEM, HEADER_FIELD, offset + 2)
        return drop(s, trace, R_IP_INHDR)
    if payload:
        icmp6_send(h, s, data, trace, ICMP6_PARAMETER_PROBLEM, HEADER_FIELD, offset)
        return drop(s, trace, R_IP_INHDR)
    if size > skb[SKB_LEN] - HEADER:
        count(s, M_Ip6InTruncatedPkts)
        return drop(s, trace, R_PKT_TOO_SMALL)
    skb[SKB_LEN] = size + HEADER
    skb[SKB_AVAIL] = min(skb[SKB_AVAIL], size + HEADER)
    return CONTINUE


@kernel
def _parse_options(h, s, data, trace, at, size, header, payload):
    """Walk the TLV options of a hop-by-hop or destination header (kernel: ip6_parse_tlv)."""
    skb = s.skb
    hop = header == NEXTHDR_HOP
    allowed = h.conf[CONF_MAX_HBH_OPTIONS] if hop else h.conf[CONF_MAX_DST_OPTIONS]
    refuse_unknown = allowed < 0
    if refuse_unknown:
        allowed = -allowed
    here, left = at + 2, size - 2
    padding, options = 0, 0
    while left > 0:
        option = load8(data, here)
        if option == TLV_PAD1:
            padding += 1
            if padding > 7:
                return drop(s, trace, R_IP_INHDR)
            here += 1
            left -= 1
            continue
        if left < 2:
            return drop(s, trace, R_IP_INHDR)
        length = load8(data, here + 1) + 2
        if length > left:
            return drop(s, trace, R_IP_INHDR)
        if option == TLV_PADN:
            padding += length
            if padding > 7:
                return drop(s, trace, R_IP_INHDR)
            for k in range(2, length):
                if load8(data, here + k):
                    return drop(s, trace, R_IP_INHDR)
        else:
            options += 1
            if options > allowed:
                return drop(s, trace, R_IP_INHDR)
            outcome = CONTINUE
            if hop and option == TLV_ROUTER_ALERT:
                if length != 4:
                    outcome = drop(s, trace, R_IP_INHDR)
                else:
                    skb[SKB_OPT_ALERT] = here - skb[SKB_IP]
            elif hop and option == TLV_JUMBO:
                outcome = _jumbo(h, s, data, trace, here, payload)
            elif hop and (option == TLV_CALIPSO or option == TLV_IOAM):
                # no domain of interpretation is known here; IOAM is not enabled
                if option == TLV_CALIPSO or (here - skb[SKB_IP]) & 3:
                    outcome = drop(s, trace, R_IP_INHDR)
            elif refuse_unknown:
                outcome = drop(s, trace, R_UNHANDLED_PROTO)
            else:
                outcome = _unknown_option(h, s, data, trace, option, here - skb[SKB_IP])
            if outcome != CONTINUE:
                return outcome
            padding = 0
        here += length
        left -= length
    return CONTINUE


@kernel
def _options_header(h, s, data, trace, at, header, payload):
    """Check one options header and walk it; CONTINUE moves SKB_TRANSPORT behind it."""
    skb = s.skb
    fits = _extension_fits(s, trace, at)
    if fits < 0:
        return capture_cut(s, trace, at - skb[SKB_IP] + 8)
    size = (load8(data, at + 1) + 1) * 8 if fits else 0
    longest = h.conf[CONF_MAX_HBH_LENGTH] if header == NEXTHDR_HOP else h.conf[CONF_MAX_DST_LENGTH]
    whole = fits > 0 and at + size <= skb[SKB_IP] + skb[SKB_LEN]
    if not whole or size > longest:
        note(trace, T_EXTHDR, header, at - skb[SKB_IP], 0)
        if whole:
            note(trace, T_EXTHDR_LONG, size, longest)
        elif header == NEXTHDR_DEST:
            count(s, M_Ip6InHdrErrors)
        return drop(s, trace, R_NOT_SPECIFIED)
    if at + size > skb[SKB_IP] + skb[SKB_AVAIL]:
        return capture_cut(s, trace, at + size - skb[SKB_IP])
    outcome = _parse_options(h, s, data, trace, at, size, header, payload)
    if outcome == DONE and header == NEXTHDR_DEST:
        count(s, M_Ip6InHdrErrors)
    note(trace, T_EXTHDR, header, at - skb[SKB_IP], outcome == CONTINUE)
    if outcome == CONTINUE:
        skb[SKB_PROTOCOL] = load8(data, at)
        skb[SKB_NEXTHDR_AT] = at - skb[SKB_IP]
        skb[SKB_TRANSPORT] = at + size
    return outcome


@cold
def parse_hop_by_hop(h, s, data, trace, payload):
    """Hop-by-hop options right after the IPv6 header (kernel: ipv6_parse_hopopts)."""
    outcome = _options_header(h, s, data, trace, s.skb[SKB_IP] + HEADER, NEXTHDR_HOP, payload)
    if outcome == DONE:
        count(s, M_Ip6InHdrErrors)
    return outcome


@kernel
def destination_options(h, s, data, trace):
    """Destination options at local delivery (kernel: ipv6_destopt_rcv)."""
    return _options_header(h, s, data, trace, s.skb[SKB_TRANSPORT], NEXTHDR_DEST, 1)


@kernel
def routing_header(h, s, data, trace):
    """Routing header at local delivery (kernel: ipv6_rthdr_rcv; RFC 5095 forbids type 0)."""
    skb = s.skb
    at = skb[SKB_TRANSPORT]
    fits = _extension_fits(s, trace, at)
    if fits < 0:
        return capture_cut(s, trace, at - skb[SKB_IP] + 8)
    size = (load8(data, at + 1) + 1) * 8 if fits else 0
    if fits == 0 or at + size > skb[SKB_IP] + skb[SKB_LEN]:
        note(trace, T_EXTHDR, NEXTHDR_ROUTING, at - skb[SKB_IP], 0)
        count(s, M_Ip6InHdrErrors)
        return drop(s, trace, R_NOT_SPECIFIED)
    kind, left = load8(data, at + 2), load8(data, at + 3)
    note(trace, T_ROUTING, kind, at - skb[SKB_IP], left)
    if skb[SKB_PKT_TYPE] != PACKET_HOST or is_multicast(skb[SKB_DST_HI]):
        count(s, M_Ip6InAddrErrors)
        return drop(s, trace, R_NOT_SPECIFIED)
    if kind == SEGMENT_ROUTING or kind == RPL_ROUTING:
        column = DEV_SEG6 if kind == SEGMENT_ROUTING else DEV_RPL6
        enabled = h.device[skb[SKB_DEVICE], column]
        note(trace, T_SEGMENTS, skb[SKB_DEVICE], enabled)
        if enabled:
            return unsupported(s, trace, R_SEGMENT_ROUTING)
        return drop(s, trace, R_NOT_SPECIFIED)
    if left:
        count(s, M_Ip6InHdrErrors)
        icmp6_send(h, s, data, trace, ICMP6_PARAMETER_PROBLEM, HEADER_FIELD, at - skb[SKB_IP] + 2)
        return drop(s, trace, R_NOT_SPECIFIED)
    skb[SKB_PROTOCOL] = load8(data, at)
    skb[SKB_NEXTHDR_AT] = at - skb[SKB_IP]
    skb[SKB_TRANSPORT] = at + size
    return CONTINUE


@kernel
def fragment_header(h, s, data, trace):
    """Fragment header at local delivery (kernel: ipv6_frag_rcv).

    An atomic fragment is a whole packet (RFC 6946), if it is the only fragment header; all others
    wait for the rest of their datagram.
    """
    skb = s.skb
    at = skb[SKB_TRANSPORT]
    good = skb[SKB_FRAG] == 0
    if good:
        count(s, M_Ip6ReasmReqds)
        jumbo = load16be(data, skb[SKB_IP] + PAYLOAD_LENGTH) == 0
        good = not jumbo and at + FRAGMENT_HEADER <= skb[SKB_IP] + skb[SKB_LEN]
    note(trace, T_EXTHDR, NEXTHDR_FRAGMENT, at - skb[SKB_IP], good)
    if not good:
        count(s, M_Ip6InHdrErrors)
        icmp6_send(h, s, data, trace, ICMP6_PARAMETER_PROBLEM, HEADER_FIELD, at - skb[SKB_IP])
        return drop(s, trace, R_NOT_SPECIFIED)
    if at + FRAGMENT_HEADER > skb[SKB_IP] + skb[SKB_AVAIL]:
        return capture_cut(s, trace, at + FRAGMENT_HEADER - skb[SKB_IP])
    word = load16be(data, at + 2)
    skb[SKB_FRAG] = ATOMIC_FRAGMENT
    if word & (FRAGMENT_OFFSET | MORE_FRAGMENTS):
        return ipv6_frag_rcv(h, s, data, trace)
    count(s, M_Ip6ReasmOKs)
    skb[SKB_PROTOCOL] = load8(data, at)
    skb[SKB_NEXTHDR_AT] = at - skb[SKB_IP]
    skb[SKB_TRANSPORT] = at + FRAGMENT_HEADER
    return CONTINUE
