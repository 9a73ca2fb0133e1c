"""Sending one datagram from a socket (kernel: udp_sendmsg, udpv6_sendmsg, udp_send_skb).

In:  a payload, the socket's address and port, where to, and what ancillary data asks for.
Out: packets in the output arena; returns 0 or an errno.
"""

from __future__ import annotations

from ippath.handles import open_bytes, open_state, open_tables
from ippath.jit import entry, kernel
from ippath.mib import M_IpOutNoRoutes, M_Udp6OutDatagrams, M_UdpOutDatagrams
from ippath.rx.rate_limit import random32
from ippath.tables import (
    CONF_DEFAULT_TTL, DEV_HOP_LIMIT6, DEV_MTU, EACCES, EMSGSIZE, ENETUNREACH, FLOW_DST_HI,
    FLOW_DST_LO, FLOW_OIF, FLOW_OUTPUT, FLOW_SRC_HI, FLOW_SRC_LO,
    INFO_HOPLIMIT, INFO_MTU, INFO_MTU_LOCK, MISC_NOW_NS, NONE, RES_INFO,
    RES_TYPE, RTN_BROADCAST, RTN_MULTICAST, SKB_FRAME,
)  # fmt: skip
from ippath.tx.ip_output4 import ip_output4
from ippath.tx.ip_output6 import ip_output6, route_mtu6
from ippath.tx.route_output4 import route_output4
from ippath.tx.route_output6 import choose_source6, look_up_output6
from ippath.wire.checksum import checksum, pseudo4, pseudo6, transport
from ippath.wire.ipv4 import CHECKSUM, DF, FLAGS_OFFSET, IPPROTO_UDP, TOTAL_LENGTH
from ippath.wire.ipv4 import HEADER as HEADER4
from ippath.wire.ipv6 import DESTINATION, SOURCE, is_multicast
from ippath.wire.ipv6 import HEADER as HEADER6
from ippath.wire.memory import copy, store8, store16be, store32be, store64be

UDP_HEADER = 8
LARGEST = 0xFFFF  # bytes of a UDP datagram with its header, and of an IPv4 packet
TOS_DSCP = 0xFC
GROUP_HOPS = 1  # IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS


@kernel
def _write_udp(s, at, sport, dport, length):
    """Write the UDP header in front of a payload that is there; the checksum is still 0."""
    buf = s.scratch
    store16be(buf, at, sport)
    store16be(buf, at + 2, dport)
    store16be(buf, at + 4, length)
    store16be(buf, at + 6, 0)


@kernel
def _sum_udp(s, at, length, pseudo):
    total = transport(s.scratch, at, length, pseudo)
    store16be(s.scratch, at + 6, total if total else 0xFFFF)


@kernel
def _send4(h, s, data, size, sport, dport, source, destination, oif, ttl, tos):
    length = UDP_HEADER + size
    if HEADER4 + length > LARGEST:
        return EMSGSIZE
    error = route_output4(
        h, s, source, destination, tos & TOS_DSCP, 0, oif, IPPROTO_UDP, sport << 16 | dport, NONE,
        None,
    )  # fmt: skip
    flow, result, buf = s.flow[FLOW_OUTPUT], s.result[FLOW_OUTPUT], s.scratch
    if error == ENETUNREACH:
        s.counters[M_IpOutNoRoutes] += 1
    if error:
        return error
    if result[RES_TYPE] == RTN_BROADCAST:
        return EACCES  # SO_BROADCAST is not set
    info, locked = result[RES_INFO], 0
    mtu = h.device[flow[FLOW_OIF], DEV_MTU]
    hops = h.conf[CONF_DEFAULT_TTL]
    if info != NONE:
        locked = h.fib4.info[info, INFO_MTU_LOCK]
        if h.fib4.info[info, INFO_MTU]:
            mtu = h.fib4.info[info, INFO_MTU]
        if h.fib4.info[info, INFO_HOPLIMIT]:
            hops = h.fib4.info[info, INFO_HOPLIMIT]
    if ttl != NONE:
        hops = ttl
    elif result[RES_TYPE] == RTN_MULTICAST:
        hops = GROUP_HOPS
    total = HEADER4 + length
    copy(buf, HEADER4 + UDP_HEADER, data, 0, size)
    store16be(buf, 0, 0x4500 | tos)
    store16be(buf, TOTAL_LENGTH, total)
    store16be(buf, 4, random32(s) & 0xFFFF)
    store16be(buf, FLAGS_OFFSET, DF if total <= mtu and not locked else 0)
    store16be(buf, 8, hops << 8 | IPPROTO_UDP)
    store16be(buf, CHECKSUM, 0)
    store32be(buf, 12, flow[FLOW_SRC_LO])
    store32be(buf, 16, flow[FLOW_DST_LO])
    store16be(buf, CHECKSUM, checksum(buf, 0, HEADER4))
    _write_udp(s, HEADER4, sport, dport, length)
    _sum_udp(s, HEADER4, length, pseudo4(buf, 0, IPPROTO_UDP, length))
    s.counters[M_UdpOutDatagrams] += 1
    ip_output4(h, s, None, 0, total)
    return 0


@kernel
def _send6(h, s, data, size, sport, dport, src_hi, src_lo, dst_hi, dst_lo, oif, hops, tos):
    length = UDP_HEADER + size
    if length > LARGEST:
        return EMSGSIZE
    if dst_hi == 0 and dst_lo == 0:
        dst_lo = 1  # to nobody is to oneself
    error = look_up_output6(
        h, s, FLOW_OUTPUT, src_hi, src_lo, dst_hi, dst_lo, tos, 0, IPPROTO_UDP, sport << 16 | dport,
        oif, NONE, None,
    )  # fmt: skip
    error = choose_source6(h, s, FLOW_OUTPUT, error, oif, None)
    if error:
        return error
    flow, buf, info = s.flow[FLOW_OUTPUT], s.scratch, s.result[FLOW_OUTPUT, RES_INFO]
    if hops == NONE:
        hops = h.fib6.info[info, INFO_HOPLIMIT]
        if is_multicast(dst_hi):
            hops = GROUP_HOPS
        elif hops == 0:
            hops = h.device[flow[FLOW_OIF], DEV_HOP_LIMIT6]
    copy(buf, HEADER6 + UDP_HEADER, data, 0, size)
    store32be(buf, 0, 6 << 28 | tos << 20)
    store16be(buf, 4, length)
    store8(buf, 6, IPPROTO_UDP)
    store8(buf, 7, hops)
    store64be(buf, SOURCE, flow[FLOW_SRC_HI])
    store64be(buf, SOURCE + 8, flow[FLOW_SRC_LO])
    store64be(buf, DESTINATION, flow[FLOW_DST_HI])
    store64be(buf, DESTINATION + 8, flow[FLOW_DST_LO])
    _write_udp(s, HEADER6, sport, dport, length)
    _sum_udp(s, HEADER6, length, pseudo6(buf, 0, IPPROTO_UDP, length))
    s.counters[M_Udp6OutDatagrams] += 1
    ip_output6(h, s, None, HEADER6 + length, route_mtu6(h, info, flow[FLOW_OIF]))
    return 0


@entry
def udp_send(
    tables, state, payload, family, sport, dport, src_hi, src_lo, dst_hi, dst_lo, oif, ttl, tos, now
):
    """Send `payload` (uint8[n]); 0 or an errno.

    `oif` is a device row, `ttl` a hop limit; NONE leaves them to the route.  `tos` is the traffic
    class, `now` the clock in nanoseconds.  A source of 0 is chosen by the route.
    """
    h, s, data = open_tables(tables), open_state(state), open_bytes(payload)
    s.misc[MISC_NOW_NS] = max(s.misc[MISC_NOW_NS], now)
    s.skb[SKB_FRAME] = 0  # no packet caused it
    size = payload.shape[0]
    if family == 4:
        return _send4(h, s, data, size, sport, dport, src_lo, dst_lo, oif, ttl, tos)
    return _send6(
        h, s, data, size, sport, dport, src_hi, src_lo, dst_hi, dst_lo, oif, ttl, tos
    )  # fmt: skip
