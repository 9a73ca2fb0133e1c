"""Sending datagrams from sockets (kernel: udp_sendmsg, udpv6_sendmsg, udp_send_skb).

In:  payloads in an arena and rows of SEND_* columns, for each or for all: where to, and what the
     socket's options and ancillary data ask for.
Out: packets in the output arena; in the row 0 or an errno.

A message is routed, then planned: what all its datagrams have in common.  Those that can go straight
to their device do, many at a time (`ippath.udp.send_run`); others go the long way, one by one.
"""

from __future__ import annotations

from ippath.handles import open_outgoing, open_state, open_tables
from ippath.jit import entry, kernel
from ippath.mib import (
    M_IpOutNoRoutes, M_Udp6OutDatagrams, M_UdpLite6OutDatagrams, M_UdpLiteOutDatagrams,
    M_UdpOutDatagrams,
)  # fmt: skip
from ippath.tables import (
    COLLECT_SENT, CONF_DEFAULT_TTL, CONF_HEADER_TEMPLATE, CONF_SEND_LOOKUP, DEV_HOP_LIMIT6, DEV_MTU,
    DEV_MTU6, EACCES, EINVAL, EIO, EMSGSIZE, ENETUNREACH, ENODEV, FLOW_DST_HI, FLOW_DST_LO, FLOW_OIF,
    FLOW_OUTPUT, FLOW_SRC_HI, FLOW_SRC_LO, INFO_HOPLIMIT, MISC_COLLECT, MISC_LOOP_ROWS, MISC_NOW_NS,
    MISC_OUT_BYTES, MISC_OUT_ROWS, MISC_QUIET, NONE, PLAN_HOPS, PLAN_LOCKED, PLAN_MOST, PLAN_MTU,
    PLAN_PART, PLAN_PATH_MTU, PMTUDISC_PROBE, RES_EXCEPTION, RES_INFO, RES_TYPE, RTN_BROADCAST, RTN_MULTICAST, SENDS_BROADCAST, SENDS_PROBE,
    SENDS_QUIET, SENDS_UNSUMMED, SENDS_WHOLE, SEND_COVERAGE, SEND_DPORT, SEND_DST_HI, SEND_DST_LO,
    SEND_ERROR, SEND_FAMILY, SEND_FLAGS, SEND_GROUP_OIF, SEND_GROUP_SRC, SEND_GROUP_TTL, SEND_HOPS,
    SEND_ID, SEND_INFO, SEND_LABEL, SEND_MARK, SEND_MTU, SEND_OIF, SEND_PMTUDISC, SEND_PROTOCOL,
    SEND_SEGMENT, SEND_SPORT, SEND_SRC_HI, SEND_SRC_LO, SEND_TOS, SEND_TTL, SEND_UNICAST_OIF,
    SKB_FRAME, TARGET_HI, TARGET_LO, TARGET_PORT, WAY_GENERATION, WAY_OWNED,
)  # fmt: skip
from ippath.tx.header_template import template4, template6
from ippath.tx.ip_output4 import ip_output4
from ippath.tx.ip_output6 import ip_output6
from ippath.tx.loopback import loops_soon_full
from ippath.tx.path_mtu import is_mtu_locked4, output_mtu4, output_mtu6
from ippath.tx.route_output4 import route_output4
from ippath.tx.route_output6 import choose_source6, look_up_output6
from ippath.udp.send_run import (
    MOST_SEGMENTS, OUT_RESERVE_BYTES, OUT_RESERVE_ROWS, cuts, fits, identification, is_whole,
    send_run,
)  # fmt: skip
from ippath.udp.way import keep_way, take_way, way_stands
from ippath.wire.checksum import checksum, pseudo4, pseudo6, transport
from ippath.wire.ipv4 import CHECKSUM, DF, IPPROTO_UDP, store_header4
from ippath.wire.ipv4 import HEADER as HEADER4
from ippath.wire.ipv4 import is_multicast as is_multicast4
from ippath.wire.ipv6 import HEADER as HEADER6
from ippath.wire.ipv6 import is_multicast, store_header6
from ippath.wire.memory import copy, store16be

UDP_HEADER = 8
LARGEST = 0xFFFF  # bytes of a UDP datagram with its header, and of an IPv4 packet
LEAST_MTU4 = 68  # kernel: inetdev_valid_mtu
FRAGMENT_HEADER6 = 8
TOS_DSCP = 0xFC


@kernel
def _segments(m, row, size, headers, mtu):
    """Bytes of payload per datagram, or an errno as a negative number (kernel: udp_send_skb)."""
    segment = m[row, SEND_SEGMENT]
    if segment == 0:
        return size
    if headers + min(size, segment) > mtu:
        return -EMSGSIZE
    if size > segment * MOST_SEGMENTS or m[row, SEND_FLAGS] & SENDS_UNSUMMED:
        return -EINVAL
    if m[row, SEND_PROTOCOL] != IPPROTO_UDP:
        return -EIO
    return segment


@kernel
def _write_udp(s, m, row, at, length):
    """Write the UDP header in front of a payload that is there; returns how much the sum covers.

    The checksum is still 0.  UDP-Lite has the covered length in place of the length (RFC 3828).
    """
    buf, covered = s.scratch, m[row, SEND_COVERAGE]
    said, summed = length, length
    if covered != NONE and covered < length:
        said = covered
        summed = covered if covered else length
    store16be(buf, at, m[row, SEND_SPORT])
    store16be(buf, at + 2, m[row, SEND_DPORT])
    store16be(buf, at + 4, said)
    store16be(buf, at + 6, 0)
    return summed


@kernel
def _sum_udp(s, m, row, at, summed, pseudo):
    if m[row, SEND_FLAGS] & SENDS_UNSUMMED:
        return
    total = transport(s.scratch, at, summed, pseudo)
    store16be(s.scratch, at + 6, total if total else 0xFFFF)


@kernel
def _route4(h, s, m, row):
    """Route an IPv4 message; 0 or an errno."""
    destination, source, oif = m[row, SEND_DST_LO], m[row, SEND_SRC_LO], m[row, SEND_OIF]
    if is_multicast4(destination):
        if oif == NONE:
            oif = m[row, SEND_GROUP_OIF]
        if source == 0:
            source = m[row, SEND_GROUP_SRC]
    elif oif == NONE:
        oif = m[row, SEND_UNICAST_OIF]
    ports = m[row, SEND_SPORT] << 16 | m[row, SEND_DPORT]
    error = route_output4(
        h, s, source, destination, m[row, SEND_TOS] & TOS_DSCP, m[row, SEND_MARK], oif,
        m[row, SEND_PROTOCOL], ports, NONE, None,
    )  # fmt: skip
    if error == ENETUNREACH:
        s.counters[M_IpOutNoRoutes] += 1
    return error


@kernel
def _hops4(h, s, m, row):
    """TTL: what the message asks for, the socket's for groups, the route's, or the default."""
    if m[row, SEND_TTL] != NONE:
        return m[row, SEND_TTL]
    if s.result[FLOW_OUTPUT, RES_TYPE] == RTN_MULTICAST:
        return m[row, SEND_GROUP_TTL]
    if m[row, SEND_HOPS] != NONE:
        return m[row, SEND_HOPS]
    info = s.result[FLOW_OUTPUT, RES_INFO]
    if info != NONE and h.fib4.info[info, INFO_HOPLIMIT]:
        return h.fib4.info[info, INFO_HOPLIMIT]
    return h.conf[CONF_DEFAULT_TTL]


@kernel
def _plan4(h, s, m, row):
    """What the datagrams of an IPv4 message have in common, once it is routed: 0 or an errno."""
    result, device = s.result[FLOW_OUTPUT], s.flow[FLOW_OUTPUT, FLOW_OIF]
    if result[RES_TYPE] == RTN_BROADCAST and m[row, SEND_FLAGS] & SENDS_BROADCAST == 0:
        return EACCES
    path_mtu = output_mtu4(h, s, result, device)
    mtu = h.device[device, DEV_MTU] if m[row, SEND_PMTUDISC] >= PMTUDISC_PROBE else path_mtu
    if mtu < LEAST_MTU4:
        return ENETUNREACH
    plan = s.plan
    plan[PLAN_MTU] = m[row, SEND_INFO] = mtu
    plan[PLAN_PATH_MTU] = path_mtu
    plan[PLAN_LOCKED] = is_mtu_locked4(h, s, result[RES_INFO], result[RES_EXCEPTION])
    plan[PLAN_HOPS] = _hops4(h, s, m, row)
    plan[PLAN_PART] = mtu - HEADER4 - UDP_HEADER
    plan[PLAN_MOST] = LARGEST - HEADER4 - UDP_HEADER
    return 0


@kernel
def _send4(h, s, m, row, data, start, size):
    """Send one message over IPv4 the long way: 0 or an errno."""
    flow, plan = s.flow[FLOW_OUTPUT], s.plan
    mtu = plan[PLAN_MTU]
    most = LARGEST if cuts(m[row, SEND_PMTUDISC]) or m[row, SEND_SEGMENT] else min(mtu, LARGEST)
    if HEADER4 + UDP_HEADER + size > most:
        return EMSGSIZE
    segment = _segments(m, row, size, HEADER4 + UDP_HEADER, mtu)
    if segment < 0:
        return -segment
    buf, protocol, done, index = s.scratch, m[row, SEND_PROTOCOL], 0, 0
    lite = protocol != IPPROTO_UDP
    s.counters[M_UdpLiteOutDatagrams if lite else M_UdpOutDatagrams] += 1
    while True:
        part = min(segment, size - done)
        length = UDP_HEADER + part
        total = HEADER4 + length
        whole = is_whole(s, m, row, total)
        copy(buf, HEADER4 + UDP_HEADER, data, start + done, part)
        store_header4(
            buf, 0, m[row, SEND_TOS], total, identification(s, m, row, whole, index),
            DF if whole else 0, plan[PLAN_HOPS], protocol, flow[FLOW_SRC_LO], flow[FLOW_DST_LO],
        )  # fmt: skip
        store16be(buf, CHECKSUM, checksum(buf, 0, HEADER4))
        summed = _write_udp(s, m, row, HEADER4, length)
        _sum_udp(s, m, row, HEADER4, summed, pseudo4(buf, 0, protocol, length))
        ip_output4(h, s, None, 0, total, mtu)
        done += part
        index += 1
        if done >= size:
            break
    if m[row, SEND_ID] != NONE:
        m[row, SEND_ID] += index
    return 0


@kernel
def _route6(h, s, m, row):
    """Route an IPv6 message and choose its source; 0 or an errno."""
    dst_hi, dst_lo, oif = m[row, SEND_DST_HI], m[row, SEND_DST_LO], m[row, SEND_OIF]
    if dst_hi == 0 and dst_lo == 0:
        dst_lo = 1  # to nobody is to oneself
    if oif == NONE:
        oif = m[row, SEND_GROUP_OIF] if is_multicast(dst_hi) else m[row, SEND_UNICAST_OIF]
    ports = m[row, SEND_SPORT] << 16 | m[row, SEND_DPORT]
    error = look_up_output6(
        h, s, FLOW_OUTPUT, m[row, SEND_SRC_HI], m[row, SEND_SRC_LO], dst_hi, dst_lo,
        m[row, SEND_TOS], m[row, SEND_MARK], m[row, SEND_PROTOCOL], ports, oif, NONE, None,
    )  # fmt: skip
    return choose_source6(h, s, FLOW_OUTPUT, error, oif, None)


@kernel
def _hops6(h, s, m, row):
    """Hop limit: what the message or socket asks for, the route's, or the device's."""
    flow = s.flow[FLOW_OUTPUT]
    if m[row, SEND_TTL] != NONE:
        return m[row, SEND_TTL]
    if is_multicast(flow[FLOW_DST_HI]):
        return m[row, SEND_GROUP_TTL]
    if m[row, SEND_HOPS] != NONE:
        return m[row, SEND_HOPS]
    hops = h.fib6.info[s.result[FLOW_OUTPUT, RES_INFO], INFO_HOPLIMIT]
    return hops if hops else h.device[flow[FLOW_OIF], DEV_HOP_LIMIT6]


@kernel
def _plan6(h, s, m, row):
    """What the datagrams of an IPv6 message have in common (kernel: ip6_setup_cork)."""
    plan, device = s.plan, s.flow[FLOW_OUTPUT, FLOW_OIF]
    mtu = output_mtu6(h, s, s.result[FLOW_OUTPUT], device)
    if m[row, SEND_PMTUDISC] >= PMTUDISC_PROBE:
        mtu = h.device[device, DEV_MTU6]
    if m[row, SEND_MTU]:
        mtu = min(mtu, m[row, SEND_MTU])
    plan[PLAN_MTU] = m[row, SEND_INFO] = mtu
    plan[PLAN_HOPS] = _hops6(h, s, m, row)
    plan[PLAN_PART] = mtu - HEADER6 - UDP_HEADER
    plan[PLAN_MOST] = LARGEST - UDP_HEADER


@kernel
def _too_large6(m, row, size, mtu):
    """Is there no way to send so much (kernel: __ip6_append_data)?"""
    length = UDP_HEADER + size
    if ((mtu - HEADER6) & ~7) + HEADER6 <= FRAGMENT_HEADER6 or mtu <= HEADER6:
        return True
    if m[row, SEND_FLAGS] & SENDS_WHOLE and m[row, SEND_SEGMENT] == 0 and length > mtu - HEADER6:
        return True
    may_cut = cuts(m[row, SEND_PMTUDISC]) or m[row, SEND_SEGMENT]
    return length > (LARGEST if may_cut else mtu - HEADER6)


@kernel
def _send6(h, s, m, row, data, start, size):
    """Send one message over IPv6 the long way: 0 or an errno."""
    flow, buf, mtu = s.flow[FLOW_OUTPUT], s.scratch, s.plan[PLAN_MTU]
    if _too_large6(m, row, size, mtu):
        return EMSGSIZE
    segment = _segments(m, row, size, HEADER6 + UDP_HEADER, mtu)
    if segment < 0:
        return -segment
    protocol, done = m[row, SEND_PROTOCOL], 0
    lite = protocol != IPPROTO_UDP
    s.counters[M_UdpLite6OutDatagrams if lite else M_Udp6OutDatagrams] += 1
    while True:
        part = min(segment, size - done)
        length = UDP_HEADER + part
        copy(buf, HEADER6 + UDP_HEADER, data, start + done, part)
        store_header6(
            buf, 0, 6 << 28 | m[row, SEND_TOS] << 20 | m[row, SEND_LABEL], length, protocol,
            s.plan[PLAN_HOPS], flow[FLOW_SRC_HI], flow[FLOW_SRC_LO], flow[FLOW_DST_HI],
            flow[FLOW_DST_LO],
        )  # fmt: skip
        summed = _write_udp(s, m, row, HEADER6, length)
        _sum_udp(s, m, row, HEADER6, summed, pseudo6(buf, 0, protocol, length))
        ip_output6(h, s, None, HEADER6 + length, mtu)
        done += part
        if done >= size:
            return 0


@kernel
def _has_room(s):
    misc = s.misc
    if loops_soon_full(s):
        return False
    return misc[MISC_COLLECT] & COLLECT_SENT == 0 or (
        misc[MISC_OUT_BYTES] + OUT_RESERVE_BYTES <= s.out_data.shape[0]
        and misc[MISC_OUT_ROWS] + OUT_RESERVE_ROWS <= s.out.shape[0]
    )


@kernel
def _devices_exist(h, m, row):
    """Are the devices that the message names there?  They may have gone since the socket named them."""
    last = h.device.shape[0] - 1
    lowest = min(m[row, SEND_OIF], m[row, SEND_GROUP_OIF], m[row, SEND_UNICAST_OIF])
    highest = max(m[row, SEND_OIF], m[row, SEND_GROUP_OIF], m[row, SEND_UNICAST_OIF])
    return lowest >= NONE and highest <= last


@kernel
def _find_way(h, s, m, row, way):
    """Route a message, unless its way is known: 0 or an errno."""
    if way_stands(s, way, m, row):
        take_way(s, way)
        return 0
    error = _route4(h, s, m, row) if m[row, SEND_FAMILY] == 4 else _route6(h, s, m, row)
    if error == 0:
        keep_way(s, way, m, row)
    return error


@kernel
def _plan(h, s, m, row, way):
    """Route and plan a message: 0 or an errno."""
    if not _devices_exist(h, m, row):
        return ENODEV
    if h.conf[CONF_SEND_LOOKUP] == 0 and way[WAY_OWNED] == 0:
        way[WAY_GENERATION] = 0
    error = _find_way(h, s, m, row, way)
    if error:
        return error
    if m[row, SEND_FAMILY] == 4:
        return _plan4(h, s, m, row)
    _plan6(h, s, m, row)
    return 0


@kernel
def _goes_straight(h, s, m, row, size):
    """Can the message go straight to its device?  Makes its headers then."""
    if h.conf[CONF_HEADER_TEMPLATE] == 0 or m[row, SEND_PROTOCOL] != IPPROTO_UDP:
        return False
    if not fits(s, m, row, size):
        return False
    tos, sport, dport = m[row, SEND_TOS], m[row, SEND_SPORT], m[row, SEND_DPORT]
    if m[row, SEND_FAMILY] == 6:
        return template6(h, s, tos, m[row, SEND_LABEL], sport, dport)
    whole = is_whole(s, m, row, 0)  # what goes straight fits the path
    return template4(h, s, tos, DF if whole else 0, sport, dport)


@kernel
def _long_way(h, s, o, m, row, number):
    """Send message `number`, asked for in row `row`: 0 or an errno."""
    # no packet caused it; the segments of one message are told from others
    s.skb[SKB_FRAME] = -(number + 1) if m[row, SEND_SEGMENT] else 0
    s.misc[MISC_QUIET] = m[row, SEND_FLAGS] & SENDS_QUIET
    if m[row, SEND_FAMILY] == 4:
        error = _send4(h, s, m, row, o.data, o.offset[number], o.length[number])
    else:
        error = _send6(h, s, m, row, o.data, o.offset[number], o.length[number])
    s.misc[MISC_QUIET] = 0
    return error


@entry
def udp_send(tables, state, outgoing, begin, end, now, each):
    """Send datagrams [begin, end) of an Outgoing; returns the first that is not done.

    `now` is the clock in nanoseconds.  SEND_ERROR of the message becomes 0 or an errno.  It stops
    after one that failed (what it returns is then inverted, below 0), when an arena has to be
    emptied, and with `each` after one that comes back in, whose effects the next one may see.
    """
    h, s, o = open_tables(tables), open_state(state), open_outgoing(outgoing)
    m, misc, number = o.message, s.misc, begin
    shared, aimed = m.shape[0] == 1, o.target.shape[0] > 0
    misc[MISC_NOW_NS] = max(misc[MISC_NOW_NS], now)
    while number < end:
        if not _has_room(s) or (each and misc[MISC_LOOP_ROWS]):
            return number
        row = 0 if shared else number
        if aimed:
            m[row, SEND_DST_HI] = o.target[number, TARGET_HI]
            m[row, SEND_DST_LO] = o.target[number, TARGET_LO]
            m[row, SEND_DPORT] = o.target[number, TARGET_PORT]
        error, upto = _plan(h, s, m, row, o.way), number + 1
        if error == 0 and m[row, SEND_FLAGS] & SENDS_PROBE == 0:
            if _goes_straight(h, s, m, row, o.length[number]):
                upto = send_run(h, s, o, row, number, end if shared else upto)
            else:
                error = _long_way(h, s, o, m, row, number)
        m[row, SEND_ERROR] = error
        number = upto
        if error:
            return ~number
    return number
