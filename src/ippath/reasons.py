"""Verdicts and drop reasons: one definition each, with the sentence that people read.

Reasons carry the kernel's names (enum skb_drop_reason, without the SKB_DROP_REASON_ prefix).  Those
that only ippath knows are marked `own`: they say what a replay could not do, not what Linux would.
"""

from __future__ import annotations

from dataclasses import dataclass

# verdicts: every packet that enters gets exactly one
NO_VERDICT, DELIVERED, FORWARDED, CONSUMED, DROPPED, HELD, UNSUPPORTED = range(7)
VERDICTS = ("none", "delivered", "forwarded", "consumed", "dropped", "held", "unsupported")


@dataclass(frozen=True)
class Reason:
    """One drop reason."""

    name: str
    meaning: str
    own: bool = False


REASONS: tuple[Reason, ...] = (
    Reason("NONE", "not dropped"),
    Reason("NOT_SPECIFIED", "the kernel gives no better reason"),
    Reason("NO_SOCKET", "no socket listens on this address and port"),
    Reason("PKT_TOO_SMALL", "shorter than its own length field says"),
    Reason("UDP_CSUM", "UDP checksum is wrong"),
    Reason("ICMP_CSUM", "ICMP checksum is wrong"),
    Reason("SOCKET_RCVBUFF", "the socket's receive queue is full"),
    Reason("PROTO_MEM", "UDP's memory limit is reached"),
    Reason("SOCKET_FILTER", "the socket's filter refused it"),
    Reason("NETFILTER_DROP", "connection tracking refused the fragment"),
    Reason("OTHERHOST", "the frame is addressed to another machine"),
    Reason("IP_CSUM", "IPv4 header checksum is wrong"),
    Reason("IP_INHDR", "malformed IP header, or its hop count ran out"),
    Reason("IP_RPFILTER", "the source fails the reverse path check (rp_filter)"),
    Reason("UNICAST_IN_L2_MULTICAST", "unicast address inside a broadcast or multicast frame"),
    Reason("XFRM_POLICY", "refused by IPsec policy"),
    Reason("IP_NOPROTO", "no handler for this IP protocol"),
    Reason("IP_INADDRERRORS", "not for this host, and forwarding is off"),
    Reason("IP_INNOROUTES", "no route to the destination"),
    Reason("IP_OUTNOROUTES", "no route out"),
    Reason("PKT_TOO_BIG", "larger than the outgoing MTU and may not be fragmented"),
    Reason("DUP_FRAG", "a fragment that was already there"),
    Reason("FRAG_REASM_TIMEOUT", "fragments of the datagram did not all come in time"),
    Reason("FRAG_TOO_FAR", "too many fragments of other datagrams in between"),
    Reason("IP_INVALID_SOURCE", "the source address can never be a sender"),
    Reason("IP_INVALID_DEST", "the destination address can never be a receiver"),
    Reason("IP_LOCALNET", "loopback address on a wire (route_localnet is off)"),
    Reason("IP_LOCAL_SOURCE", "the source is one of this host's own addresses"),
    Reason("INVALID_PROTO", "protocol not possible here"),
    Reason("IPV6DISABLED", "IPv6 is switched off on the device"),
    Reason("IPV6_BAD_EXTHDR", "the extension headers of a quoted packet do not end"),
    Reason("IPV6_NDISC_FRAG", "fragmented neighbour discovery"),
    Reason("IPV6_NDISC_HOP_LIMIT", "neighbour discovery from beyond the link"),
    Reason("IPV6_NDISC_BAD_CODE", "neighbour discovery with a wrong ICMPv6 code"),
    Reason("IPV6_NDISC_BAD_OPTIONS", "neighbour discovery whose options do not end well"),
    Reason("UNHANDLED_PROTO", "nothing on this host handles this kind of packet"),
    Reason("NEIGH_FAILED", "the next hop does not answer ARP or neighbour discovery"),
    Reason("NEIGH_QUEUEFULL", "too many packets wait for the next hop's address"),
    Reason("QDISC_DROP", "the outgoing device has no carrier"),
    Reason("DEV_READY", "the device is down"),
    Reason("HDR_TRUNC", "ends inside its own headers"),
    Reason("ICMP_BAD_PAYLOAD", "ICMP error whose quotation is too short"),
    Reason("LINK_TYPE", "ippath cannot read this link type", own=True),
    Reason("LINK_HEADER", "the link-level header is incomplete or malformed", own=True),
    Reason("OUTGOING", "sent by this host, not received", own=True),
    Reason("CAPTURE_CUT", "the capture kept too few bytes to decide", own=True),
    Reason("SEGMENT_ROUTING", "segment routing is on, and ippath does not do it", own=True),
    Reason("LINK_SECURITY", "the frame is encrypted, and ippath has no keys", own=True),
    Reason("NO_DEVICE", "the capture interface maps to no device of the host", own=True),
)

REASON_NAMES = tuple(r.name for r in REASONS)
_CODES = {name: code for code, name in enumerate(REASON_NAMES)}


def reason_code(name: str) -> int:
    """The number that stands for a reason in verdict columns; KeyError if there is none."""
    return _CODES[name]


# the same numbers as module constants, for compiled code: R_IP_RPFILTER and so on
globals().update({f"R_{name}": code for name, code in _CODES.items()})


def __getattr__(name: str) -> int:  # tells type checkers that R_* exist; they are set above
    raise AttributeError(name)
