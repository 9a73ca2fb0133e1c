"""The headers that the datagrams of one flow begin with: made once, with the sums of what stays.

Kernel: neigh_hh_output keeps link-level headers, and the checksum of a flow's pseudo header is left
to be completed.  A packet is then a copy of its headers, a few stores, and two sums folded.

In:  the OUTPUT rows, what does not change.   Out: `state.header` and PLAN_* of it.
"""

from __future__ import annotations

from ippath.jit import hot, kernel
from ippath.tables import (
    DEV_CARRIER, DEV_LOOPBACK, DEV_LOWPAN, DEV_RAW_IP, FLOW_DST_HI, FLOW_DST_LO, FLOW_OIF,
    FLOW_OUTPUT, FLOW_SRC_HI, FLOW_SRC_LO, HEADER_BYTES, PLAN_HEADERS, PLAN_HOPS, PLAN_IP_SUM,
    PLAN_LINK, PLAN_UDP_SUM, RES_TYPE, RTN_UNICAST,
)  # fmt: skip
from ippath.tx.emit import ETHER_HEADER, neighbour_answers, store_ethernet
from ippath.tx.path_mtu import next_hop
from ippath.wire.checksum import fold, partial, pseudo4, pseudo6
from ippath.wire.ether import ETH_P_IP, ETH_P_IPV6
from ippath.wire.ipv4 import CHECKSUM, IDENTIFICATION, IPPROTO_UDP, TOTAL_LENGTH, store_header4
from ippath.wire.ipv4 import HEADER as HEADER4
from ippath.wire.ipv6 import HEADER as HEADER6
from ippath.wire.ipv6 import PAYLOAD_LENGTH, is_multicast, store_header6
from ippath.wire.memory import copy, store16be

UDP_HEADER = 8
UDP_LENGTH, UDP_CHECKSUM = 4, 6


@kernel
def _store_link(h, s, fib, family, hi, lo):
    """Write the link-level header; False if packets have to go the long way."""
    device, result = s.flow[FLOW_OUTPUT, FLOW_OIF], s.result[FLOW_OUTPUT]
    if (
        result[RES_TYPE] != RTN_UNICAST
        or h.device[device, DEV_LOOPBACK]
        or h.device[device, DEV_LOWPAN]
        or h.device[device, DEV_CARRIER] == 0
    ):
        return False
    ethertype = ETH_P_IP if family == 4 else ETH_P_IPV6
    family, hi, lo = next_hop(fib, s, result, hi, lo, family)
    if not neighbour_answers(h, None, device, family, hi, lo):
        return False
    s.plan[PLAN_LINK] = 0
    if h.device[device, DEV_RAW_IP] == 0:
        s.plan[PLAN_LINK] = ETHER_HEADER
        store_ethernet(h, s.header, 0, device, family, hi, lo, False, ethertype)
    return True


@kernel
def _store_udp(s, at, sport, dport, pseudo):
    """Write the UDP header without length and checksum."""
    store16be(s.header, at, sport)
    store16be(s.header, at + 2, dport)
    store16be(s.header, at + UDP_LENGTH, 0)
    store16be(s.header, at + UDP_CHECKSUM, 0)
    s.plan[PLAN_UDP_SUM] = pseudo + partial(s.header, at, UDP_HEADER)
    s.plan[PLAN_HEADERS] = at + UDP_HEADER


@kernel
def template4(h, s, tos, flags, sport, dport):
    """Make the headers of a flow over IPv4; False if its packets have to go the long way."""
    flow, header = s.flow[FLOW_OUTPUT], s.header
    if not _store_link(h, s, h.fib4, 4, 0, flow[FLOW_DST_LO]):
        return False
    ip = s.plan[PLAN_LINK]
    store_header4(
        header, ip, tos, 0, 0, flags, s.plan[PLAN_HOPS], IPPROTO_UDP,
        flow[FLOW_SRC_LO], flow[FLOW_DST_LO],
    )  # fmt: skip
    s.plan[PLAN_IP_SUM] = partial(header, ip, HEADER4)
    _store_udp(s, ip + HEADER4, sport, dport, pseudo4(header, ip, IPPROTO_UDP, 0))
    return True


@kernel
def template6(h, s, tos, label, sport, dport):
    """Make the headers of a flow over IPv6; False if its packets have to go the long way."""
    flow, header = s.flow[FLOW_OUTPUT], s.header
    if is_multicast(flow[FLOW_DST_HI]):
        return False
    if not _store_link(h, s, h.fib6, 6, flow[FLOW_DST_HI], flow[FLOW_DST_LO]):
        return False
    ip = s.plan[PLAN_LINK]
    store_header6(
        header, ip, 6 << 28 | tos << 20 | label, 0, IPPROTO_UDP, s.plan[PLAN_HOPS],
        flow[FLOW_SRC_HI], flow[FLOW_SRC_LO], flow[FLOW_DST_HI], flow[FLOW_DST_LO],
    )  # fmt: skip
    _store_udp(s, ip + HEADER6, sport, dport, pseudo6(header, ip, IPPROTO_UDP, 0))
    return True


@hot
def store_headers4(s, buf, at, size, ident, payload_sum):
    """Write the headers of a packet with `size` bytes of payload to `buf[at]`.

    HEADER_BYTES are written, the payload has to follow.  `payload_sum` is its partial sum, or -1: no
    checksum is wanted.
    """
    plan = s.plan
    copy(buf, at, s.header, 0, HEADER_BYTES)
    length = UDP_HEADER + size
    total, ip = HEADER4 + length, at + plan[PLAN_LINK]
    store16be(buf, ip + TOTAL_LENGTH, total)
    store16be(buf, ip + IDENTIFICATION, ident)
    # a shift by 8 swaps the bytes of a 16-bit word, modulo 65535
    store16be(buf, ip + CHECKSUM, 0xFFFF ^ fold(plan[PLAN_IP_SUM] + (total + ident << 8)))
    _finish_udp(s, buf, ip + HEADER4, length, payload_sum)


@hot
def store_headers6(s, buf, at, size, payload_sum):
    """The same over IPv6."""
    plan = s.plan
    copy(buf, at, s.header, 0, HEADER_BYTES)
    length, ip = UDP_HEADER + size, at + plan[PLAN_LINK]
    store16be(buf, ip + PAYLOAD_LENGTH, length)
    _finish_udp(s, buf, ip + HEADER6, length, payload_sum)


@hot
def _finish_udp(s, buf, udp, length, payload_sum):
    """Write length and checksum."""
    store16be(buf, udp + UDP_LENGTH, length)
    if payload_sum >= 0:
        total = 0xFFFF ^ fold(s.plan[PLAN_UDP_SUM] + (length << 9) + payload_sum)
        store16be(buf, udp + UDP_CHECKSUM, total if total else 0xFFFF)
