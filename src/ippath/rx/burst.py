"""The burst loop: packets one after the other through the stages, in receive lists.

This is the one compiled entry of the receive direction.  Reading order = travel order:

    link_input → ip_rcv_core → route_input4 (hint, else tables) → ip_rcv_options
               → ip_local_deliver | ip_forward | error route
    link_input → ip6_rcv_core → route_input6 (hint, else tables)
               → ip6_input | ip6_mc_input | ip6_forward | error route

A receive list ends where the device, the protocol or `receive_list` packets end, or where the next
packet came more than `receive_list_gap` later; a route hint never outlives its list.
"""

from __future__ import annotations

from numpy import int64

from ippath.batch import DIRECTION_OUT
from ippath.handles import open_bytes, open_state, open_tables
from ippath.jit import entry, kernel
from ippath.mib import (
    M_Ip6InAddrErrors, M_Ip6InNoRoutes, M_IpExtInBcastOctets, M_IpExtInBcastPkts,
    M_IpExtInMcastOctets, M_IpExtInMcastPkts, M_IpExtInNoRoutes, M_IpInAddrErrors,
)  # fmt: skip
from ippath.reasons import (
    CONSUMED, DROPPED, R_IP_INADDRERRORS, R_IP_INNOROUTES, R_NONE, R_NOT_SPECIFIED,
    R_UNICAST_IN_L2_MULTICAST, UNSUPPORTED,
)  # fmt: skip
from ippath.rx.forward4 import ip_forward
from ippath.rx.forward6 import ip6_forward
from ippath.rx.icmp_send import icmp_send
from ippath.rx.icmpv6_send import icmp6_send
from ippath.rx.ipv4_input import ip_rcv_core
from ippath.rx.ipv4_options import ip_rcv_options
from ippath.rx.ipv6_input import ip6_rcv_core
from ippath.rx.link import link_input
from ippath.rx.local_deliver4 import ip_local_deliver
from ippath.rx.local_deliver6 import ip6_input, ip6_mc_input
from ippath.rx.packet import CONTINUE, count, drop, forget_route
from ippath.rx.rate_limit import SECOND, find_peer
from ippath.rx.route_input4 import ip_extract_route_hint, route_input4
from ippath.rx.route_input6 import ip6_extract_route_hint, route_input6
from ippath.tables import (
    CONF_LIST, CONF_LIST_GAP_NS, DEV_DROP_UNICAST_L2_4, DEV_FORWARDING4, DEVSTAT_RX_DROPPED,
    DST_DEVICE, DST_ERROR, DST_IDENTITY, DST_LOCAL, DST_NH, DST_ROUTE, DST_RULE, DST_TYPE, EACCES,
    EHOSTUNREACH, ENETUNREACH, FLAG_HINTED, FLAG_UNCHECKED, HINT_VALID, MISC_BYTES, MISC_COLLECT,
    MISC_LIST_COUNT, MISC_LIST_DEVICE, MISC_LIST_FAMILY, MISC_LIST_TIME, MISC_NOW_NS,
    MISC_OUT_BYTES, MISC_OUT_ROWS, MISC_PACKETS, NONE, PACKET_BROADCAST,
    PACKET_MULTICAST, PEER_LAST_NS, PEER_TOKENS_NS, RTN_BROADCAST, RTN_LOCAL, RTN_MULTICAST,
    SKB_DEVICE, SKB_DST_HI, SKB_DST_LO, SKB_END, SKB_FAMILY, SKB_FRAG, SKB_FRAME, SKB_HINTED,
    SKB_IHL, SKB_IP, SKB_LEN, SKB_LINK, SKB_MARK, SKB_OPT_ALERT, SKB_OPT_ROUTED, SKB_OPT_RR,
    SKB_OPT_SRR, SKB_OPT_TS, SKB_OPTIONS, SKB_OUT_DEVICE, SKB_PKT_TYPE, SKB_PROTOCOL, SKB_REASON,
    SKB_SOCKET, SKB_SRC_LO, SKB_TIME_NS, SKB_TRANSPORT, SKB_UNCHECKED, SKB_VERDICT, SKB_WIRE_END,
    V_DEVICE, V_FAMILY, V_FLAGS, V_LENGTH, V_NETWORK, V_NEXTHOP, V_OUT_DEVICE, V_PKT_TYPE,
    V_PROTOCOL, V_REASON, V_ROUTE, V_RULE, V_SOCKET, V_TRANSPORT, V_VERDICT,
)  # fmt: skip
from ippath.trace import T_ERROR_ROUTE, T_L2MCAST, note
from ippath.wire.icmp import (
    ADMIN_PROHIBITED, HOST_UNREACHABLE, ICMP6_UNREACHABLE, ICMP_UNREACHABLE, NET_UNREACHABLE,
    NO_ROUTE, PACKET_FILTERED,
)  # fmt: skip
from ippath.wire.ipv4 import HEADER

# room that one packet may need in the output arena: 64 KiB cut into the smallest fragments
OUT_RESERVE_BYTES = 1 << 20
OUT_RESERVE_ROWS = 1 << 14
ERROR_ROUTE_BURST = 5  # ip_rt_error_burst / ip_rt_error_cost


@kernel
def ip_error(h, s, data, trace):
    """Input handler of an IPv4 error route (kernel: ip_error)."""
    skb = s.skb
    device, error = skb[SKB_DEVICE], skb[DST_ERROR]
    forwarding = h.device[device, DEV_FORWARDING4]
    note(trace, T_ERROR_ROUTE, error, device, forwarding)
    if not forwarding:
        if error == EHOSTUNREACH:
            count(s, M_IpInAddrErrors)
            return drop(s, trace, R_IP_INADDRERRORS)
        if error == ENETUNREACH:
            count(s, M_IpExtInNoRoutes)
            return drop(s, trace, R_IP_INNOROUTES)
        return drop(s, trace, R_NOT_SPECIFIED)
    reason, code = R_NOT_SPECIFIED, NONE
    if error == EHOSTUNREACH:
        code = HOST_UNREACHABLE
    elif error == ENETUNREACH:
        code = NET_UNREACHABLE
        count(s, M_IpExtInNoRoutes)
        reason = R_IP_INNOROUTES
    elif error == EACCES:
        code = PACKET_FILTERED
    if code != NONE:
        # a limiter of its own, on the same tokens as the ICMP limiter
        peer = find_peer(h, s, 4, 0, skb[SKB_SRC_LO])
        now = s.misc[MISC_NOW_NS]
        tokens = s.peer[peer, PEER_TOKENS_NS] + max(0, now - s.peer[peer, PEER_LAST_NS])
        tokens = min(tokens, ERROR_ROUTE_BURST * SECOND)
        s.peer[peer, PEER_LAST_NS] = now
        send = tokens >= SECOND
        if send:
            tokens -= SECOND
        s.peer[peer, PEER_TOKENS_NS] = tokens
        if send:
            icmp_send(h, s, data, trace, ICMP_UNREACHABLE, code, 0)
    return drop(s, trace, reason)


@kernel
def ip6_pkt_drop(h, s, data, trace):
    """Input handler of an IPv6 error route (kernel: ip6_pkt_discard, ip6_pkt_prohibit, dst_discard)."""
    skb = s.skb
    error = skb[DST_ERROR]
    note(trace, T_ERROR_ROUTE, error, skb[SKB_DEVICE], 0)
    if error != ENETUNREACH and error != EACCES:
        return drop(s, trace, R_NOT_SPECIFIED)
    if skb[SKB_DST_HI] == 0 and skb[SKB_DST_LO] == 0:
        count(s, M_Ip6InAddrErrors)
        reason = R_IP_INADDRERRORS
    else:
        count(s, M_Ip6InNoRoutes)
        reason = R_IP_INNOROUTES
    code = ADMIN_PROHIBITED if error == EACCES else NO_ROUTE
    icmp6_send(h, s, data, trace, ICMP6_UNREACHABLE, code, 0)
    return drop(s, trace, reason)


@kernel
def ip_receive(h, s, data, trace):
    """One IPv4 packet from header to verdict (kernel: ip_rcv, ip_rcv_finish)."""
    skb = s.skb
    if ip_rcv_core(s, data, trace) != CONTINUE:
        return
    if route_input4(h, s, data, trace) != CONTINUE:
        return
    if skb[SKB_IHL] > HEADER and ip_rcv_options(h, s, data, trace) != CONTINUE:
        return
    kind, packet_type = skb[DST_TYPE], skb[SKB_PKT_TYPE]
    if kind == RTN_MULTICAST:
        count(s, M_IpExtInMcastPkts)
        count(s, M_IpExtInMcastOctets, skb[SKB_LEN])
    elif kind == RTN_BROADCAST:
        count(s, M_IpExtInBcastPkts)
        count(s, M_IpExtInBcastOctets, skb[SKB_LEN])
    elif packet_type == PACKET_BROADCAST or packet_type == PACKET_MULTICAST:
        refused = h.device[skb[SKB_DEVICE], DEV_DROP_UNICAST_L2_4]
        note(trace, T_L2MCAST, packet_type, skb[SKB_DEVICE], refused)
        if refused:
            drop(s, trace, R_UNICAST_IN_L2_MULTICAST)
            return
    # a new route makes a new hint; an equal one keeps the old (kernel: ip_list_rcv_finish)
    if s.hint[SKB_SOCKET] != skb[DST_IDENTITY]:
        ip_extract_route_hint(h, s)
        s.hint[SKB_SOCKET] = skb[DST_IDENTITY]
    if skb[DST_LOCAL] == 1:
        ip_local_deliver(h, s, data, trace)
    elif skb[DST_ERROR]:
        ip_error(h, s, data, trace)
    else:
        ip_forward(h, s, data, trace)


@kernel
def ip6_receive(h, s, data, trace):
    """One IPv6 packet from header to verdict (kernel: ipv6_rcv, ip6_rcv_finish)."""
    skb = s.skb
    if ip6_rcv_core(h, s, data, trace) != CONTINUE:
        return
    route_input6(h, s, data, trace)
    if s.hint[SKB_SOCKET] != skb[DST_IDENTITY]:
        ip6_extract_route_hint(h, s)
        s.hint[SKB_SOCKET] = skb[DST_IDENTITY]
    if skb[DST_LOCAL] == 1:
        ip6_input(h, s, data, trace)
    elif skb[DST_ERROR]:
        ip6_pkt_drop(h, s, data, trace)
    elif skb[DST_TYPE] == RTN_MULTICAST:
        ip6_mc_input(h, s, data, trace)
    else:
        ip6_forward(h, s, data, trace)


@kernel
def _begin_packet(s, frame, device):
    """Clear what the packet before left behind."""
    skb = s.skb
    skb[SKB_FRAME] = frame
    skb[SKB_DEVICE] = device
    skb[SKB_PKT_TYPE] = NONE
    skb[SKB_FAMILY] = 0
    skb[SKB_IP] = 0
    skb[SKB_PROTOCOL] = NONE
    skb[SKB_TRANSPORT] = 0
    skb[SKB_FRAG] = 0
    skb[SKB_OPTIONS] = 0
    skb[SKB_OPT_SRR] = 0
    skb[SKB_OPT_RR] = 0
    skb[SKB_OPT_TS] = 0
    skb[SKB_OPT_ALERT] = 0
    skb[SKB_OPT_ROUTED] = 0
    skb[SKB_UNCHECKED] = 0
    skb[SKB_VERDICT] = 0
    skb[SKB_REASON] = R_NONE
    skb[SKB_SOCKET] = NONE
    skb[SKB_OUT_DEVICE] = NONE
    skb[SKB_HINTED] = 0
    forget_route(skb)


@kernel
def forget_hint(s):
    """A receive list ended: no hint, and no route to compare with."""
    s.hint[HINT_VALID] = 0
    s.hint[SKB_SOCKET] = NONE  # identity of the route that the current sub-list shares


@kernel
def _record(s, verdicts, row, start, network):
    """Write the packet's verdict row and add it to the accounts."""
    skb = s.skb
    verdict, reason = skb[SKB_VERDICT], skb[SKB_REASON]
    verdicts[row, V_VERDICT] = verdict
    verdicts[row, V_REASON] = reason
    verdicts[row, V_FAMILY] = skb[SKB_FAMILY]
    verdicts[row, V_PROTOCOL] = skb[SKB_PROTOCOL]
    verdicts[row, V_NETWORK] = network
    verdicts[row, V_TRANSPORT] = skb[SKB_TRANSPORT] - start if skb[SKB_TRANSPORT] else NONE
    verdicts[row, V_PKT_TYPE] = skb[SKB_PKT_TYPE]
    verdicts[row, V_DEVICE] = skb[SKB_DEVICE]
    verdicts[row, V_RULE] = skb[DST_RULE]
    verdicts[row, V_ROUTE] = skb[DST_ROUTE]
    verdicts[row, V_NEXTHOP] = skb[DST_NH]
    verdicts[row, V_OUT_DEVICE] = skb[SKB_OUT_DEVICE]
    verdicts[row, V_SOCKET] = skb[SKB_SOCKET]
    verdicts[row, V_FLAGS] = (FLAG_HINTED if skb[SKB_HINTED] else 0) | (
        FLAG_UNCHECKED if skb[SKB_UNCHECKED] else 0
    )
    verdicts[row, V_LENGTH] = skb[SKB_WIRE_END] - start
    s.verdicts[verdict] += 1
    if verdict == DROPPED or verdict == UNSUPPORTED or (verdict == CONSUMED and reason != R_NONE):
        s.reasons[reason] += 1
        if verdict == DROPPED and skb[SKB_DEVICE] >= 0:
            s.devstat[skb[SKB_DEVICE], DEVSTAT_RX_DROPPED] += 1


@entry
def receive_burst(
    tables, state, arena, offset, length, wire_length, time_ns, link_type, capture_device, direction, mark,
    verdicts, first_frame, begin, end, trace,
):  # fmt: skip
    """Receive packets [begin, end) of a batch; returns the first packet not done.

    A receive list may go on from the call before (`state.misc`), so that verdicts do not depend on
    how a capture is cut into batches.

    The arrays are the columns of a PacketBatch; `verdicts` is int32[n, V_COLUMNS].  The return value is below `end` when the output arena has to
    be emptied first; call again from there.
    """
    h, s, data = open_tables(tables), open_state(state), open_bytes(arena)
    skb, misc = s.skb, s.misc
    list_size, list_gap = h.conf[CONF_LIST], h.conf[CONF_LIST_GAP_NS]
    now = misc[MISC_NOW_NS]
    for row in range(begin, end):
        if s.misc[MISC_COLLECT] and (
            s.misc[MISC_OUT_BYTES] + OUT_RESERVE_BYTES > s.out_data.shape[0]
            or s.misc[MISC_OUT_ROWS] + OUT_RESERVE_ROWS > s.out.shape[0]
        ):
            return row
        start, size, time = offset[row], int64(length[row]), time_ns[row]
        now = max(now, time)  # a clock never goes back
        s.misc[MISC_NOW_NS] = now
        _begin_packet(s, first_frame + row, int64(capture_device[row]))
        skb[SKB_LINK] = start
        skb[SKB_END] = start + size
        skb[SKB_WIRE_END] = start + max(size, int64(wire_length[row]))
        skb[SKB_TIME_NS] = now
        skb[SKB_MARK] = mark[row]
        s.misc[MISC_PACKETS] += 1
        s.misc[MISC_BYTES] += skb[SKB_WIRE_END] - start
        network = NONE
        if link_input(h, s, data, int64(link_type[row]), direction[row] == DIRECTION_OUT, trace) == CONTINUE:
            network = skb[SKB_IP] - start
            family, device = skb[SKB_FAMILY], skb[SKB_DEVICE]
            if (
                misc[MISC_LIST_COUNT] >= list_size
                or device != misc[MISC_LIST_DEVICE]
                or family != misc[MISC_LIST_FAMILY]
                or time - misc[MISC_LIST_TIME] > list_gap
            ):
                forget_hint(s)
                misc[MISC_LIST_COUNT] = 0
                misc[MISC_LIST_DEVICE] = device
                misc[MISC_LIST_FAMILY] = family
            misc[MISC_LIST_COUNT] += 1
            misc[MISC_LIST_TIME] = time
            if family == 4:
                ip_receive(h, s, data, trace)
            else:
                ip6_receive(h, s, data, trace)
        elif skb[SKB_FAMILY]:
            network = skb[SKB_IP] - start
        _record(s, verdicts, row, start, network)
    return end
