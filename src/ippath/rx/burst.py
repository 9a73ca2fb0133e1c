"""The burst loop: packets one after the other through the stages, in receive lists.

This is the one compiled entry of the receive direction.  Reading order = travel order:

    link_input → ip_rcv_core (→ ip_defrag, if connections are tracked)
               → route_input4 (hint, else tables) → ip_rcv_options
               → ip_local_deliver | ip_forward | error route
    link_input → ip6_rcv_core (→ nf_ct_frag6_gather, if connections are tracked)
               → route_input6 (hint, else tables)
               → ip6_input | ip6_mc_input | ip6_forward | error route
    lowpan_input → the same, with the IPv6 packet that the frame holds or completes

A receive list ends where the device, the protocol or `receive_list` packets end, or where the next
packet came more than `receive_list_gap` later; a route hint never outlives its list.
"""

from __future__ import annotations

from ippath.batch import DIRECTION_LOOPED, DIRECTION_OUT
from ippath.fib.search import (
    chunks4, fetch_chunk4, fetch_entry6, fetch_leaf4, fetch_slot6, fetch_word6, large6,
)  # fmt: skip
from ippath.frag.conntrack6 import nf_ct_frag6_gather
from ippath.frag.expire import expire_due
from ippath.frag.ipv4 import USER_CONNTRACK_IN, ip_defrag
from ippath.handles import (
    as_arena,
    copy_route,
    open_bytes,
    open_column,
    open_rows,
    open_state,
    open_tables,
)
from ippath.jit import cold, entry, hot
from ippath.mib import (
    M_Ip6InAddrErrors, M_Ip6InNoRoutes, M_IpExtInBcastOctets, M_IpExtInBcastPkts,
    M_IpExtInMcastOctets, M_IpExtInMcastPkts, M_IpExtInNoRoutes, M_IpInAddrErrors,
)  # fmt: skip
from ippath.reasons import (
    CONSUMED, DROPPED, R_IP_INADDRERRORS, R_IP_INNOROUTES, R_NONE, R_NOT_SPECIFIED,
    R_UNICAST_IN_L2_MULTICAST, UNSUPPORTED,
)  # fmt: skip
from ippath.rx.exthdr_core import is_extension
from ippath.rx.forward4 import ip_forward
from ippath.rx.forward6 import ip6_forward
from ippath.rx.icmp_send import icmp_send
from ippath.rx.icmpv6_send import icmp6_send
from ippath.rx.ipv4_input import ip_rcv_core
from ippath.rx.ipv4_options import ip_rcv_options
from ippath.rx.ipv6_input import ip6_rcv_core
from ippath.rx.link import link_input, looped_input
from ippath.rx.local_deliver4 import ip_local_deliver
from ippath.rx.local_deliver6 import ip6_input, ip6_mc_input
from ippath.rx.lowpan import lowpan_input
from ippath.rx.packet import CONTINUE, DONE, REASSEMBLED, count, drop
from ippath.rx.rate_limit import SECOND, find_peer, peer_allows
from ippath.rx.route_input4 import ip_extract_route_hint, route_input4
from ippath.rx.route_input6 import ip6_extract_route_hint, route_input6
from ippath.tables import (
    AHEAD_ROWS,
    COLLECT_CALLS, COLLECT_SENT, COLLECT_TAKEN, CONF_CONNTRACK_DEFRAG, CONF_LIST, CONF_LIST_GAP_NS,
    DEVSTAT_RX_DROPPED, DEV_DROP_UNICAST_L2_4, DEV_FORWARDING4, DST_ERROR, DST_IDENTITY, DST_LOCAL,
    DST_NH, DST_ROUTE, DST_RULE, DST_TYPE, EACCES, EHOSTUNREACH, EINVAL, ENETUNREACH, FLAG_HINTED,
    FLAG_SOCKET, FLAG_UNCHECKED, FM_DUE_NS, FM_SHORT, HINT_PENDING, HINT_VALID, MISC_ALONE,
    MISC_BYTES, MISC_COLLECT, MISC_LIST_COUNT, MISC_LIST_DEVICE, MISC_LIST_FAMILY, MISC_LIST_TIME,
    MISC_LOOP_ROWS, MISC_NOW_NS, MISC_ONE_CAUSE, MISC_OUT_BYTES, MISC_OUT_ROWS, MISC_PACKETS,
    MISC_TAKEN_BYTES, MISC_TAKEN_ROWS, NONE, NO_NETWORK, PACKET_BROADCAST, PACKET_MULTICAST,
    RTN_BROADCAST, RTN_MULTICAST, SKB_COLUMNS, SKB_DEVICE, SKB_DST_HI, SKB_DST_LO, SKB_END,
    SKB_FAMILY, SKB_FIRST_NONE, SKB_FIRST_ZERO, SKB_FRAG, SKB_FRAME, SKB_HINTED, SKB_IHL, SKB_IP,
    SKB_LEN, SKB_LINK, SKB_MARK, SKB_OUT_DEVICE, SKB_PKT_TYPE, SKB_PROTOCOL, SKB_REASON, SKB_SOCKET,
    SKB_SRC_LO, SKB_TIME_NS, SKB_TRANSPORT, SKB_UNCHECKED, SKB_VERDICT, SKB_WIRE_END, V_DEVICES,
    V_LENGTH, V_ROUTE, V_RULE, V_TAKER, V_TRANSPORT, V_WHAT, V_WHERE,
)  # fmt: skip
from ippath.trace import T_CONNTRACK4, T_ERROR_ROUTE, T_L2MCAST, note
from ippath.wire.icmp import (
    ADMIN_PROHIBITED, HOST_UNREACHABLE, ICMP6_UNREACHABLE, ICMP_UNREACHABLE, NET_UNREACHABLE,
    NO_ROUTE, PACKET_FILTERED,
)  # fmt: skip
from ippath.wire.ieee802154 import is_ieee802154
from ippath.wire.ipv4 import DESTINATION, HEADER
from ippath.wire.ipv6 import DESTINATION as DESTINATION6
from ippath.wire.memory import load32be, load64be, prefetch

# room that one packet may need in the output arena: 64 KiB cut into the smallest fragments
OUT_RESERVE_BYTES = 1 << 20
OUT_RESERVE_ROWS = 1 << 14
TAKEN_RESERVE_BYTES = 1 << 16  # a datagram is kept once, however many sockets take it
LARGEST = (1 << 63) - 1
OUTSIDE = -1  # a packet lies outside the arena: nothing was received
AHEAD = 16  # packets: how far ahead frames are fetched into the cache
CHUNK_AHEAD, LEAF_AHEAD = 12, 8  # and what a large table has for their destinations
DESTINATION_SIZE, DESTINATION6_SIZE = 4, 16
# a search in a large IPv6 table has so many steps that are asked for, STEP packets apart
STEPS6, STEP6 = 6, 2
FIRST6 = 14  # packets: how far ahead the first one is
ERROR_ROUTE_BURST = 5  # ip_rt_error_burst / ip_rt_error_cost


@cold
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
        if peer_allows(s, peer, SECOND, ERROR_ROUTE_BURST):
            icmp_send(h, s, data, trace, ICMP_UNREACHABLE, code, 0)
    return drop(s, trace, reason)


@cold
def ip6_pkt_drop(h, s, data, trace):
    """Input handler of an IPv6 error route (kernel: ip6_pkt_discard, ip6_pkt_prohibit, dst_discard)."""
    skb = s.skb
    error = skb[DST_ERROR]
    note(trace, T_ERROR_ROUTE, error, skb[SKB_DEVICE], 0)
    if error == EINVAL:  # blackhole
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


@hot
def ip_receive(h, s, data, trace):
    """One IPv4 packet from header to verdict (kernel: ip_rcv)."""
    if ip_rcv_core(s, data, trace) != CONTINUE:
        return
    if s.skb[SKB_FRAG] and h.conf[CONF_CONNTRACK_DEFRAG]:
        _track4(h, s, data, trace)
    else:
        _ip_rcv_finish(h, s, data, trace)


@cold
def _ip_rcv_datagram(h, s, data, trace):
    """As `_ip_rcv_finish`, for a datagram that was put together."""
    _ip_rcv_finish(h, s, data, trace)


@cold
def _track4(h, s, data, trace):
    """A fragment, and with the last one its datagram (kernel: ipv4_conntrack_defrag)."""
    note(trace, T_CONNTRACK4)
    transport = s.skb[SKB_TRANSPORT]
    if ip_defrag(h, s, data, trace, USER_CONNTRACK_IN) == CONTINUE:
        _ip_rcv_datagram(h, s, as_arena(s.datagram), trace)
    s.skb[SKB_TRANSPORT] = transport  # the verdict is that of the fragment


@hot
def _ip_rcv_finish(h, s, data, trace):
    """Route a packet, and on from there (kernel: ip_rcv_finish)."""
    skb = s.skb
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


@hot
def ip6_receive(h, s, data, trace):
    """One IPv6 packet from header to verdict (kernel: ipv6_rcv)."""
    if ip6_rcv_core(h, s, data, trace) != CONTINUE:
        return
    if h.conf[CONF_CONNTRACK_DEFRAG] and is_extension(s.skb[SKB_PROTOCOL]):
        _track6(h, s, data, trace)
    else:
        _ip6_rcv_finish(h, s, data, trace)


@cold
def _ip6_rcv_extended(h, s, data, trace):
    """As `_ip6_rcv_finish`, for what connection tracking had a look at, and 6LoWPAN."""
    _ip6_rcv_finish(h, s, data, trace)


@cold
def _track6(h, s, data, trace):
    """A packet with extension headers, maybe the last fragment of a datagram (kernel: ipv6_defrag)."""
    transport = s.skb[SKB_TRANSPORT]
    outcome = nf_ct_frag6_gather(h, s, data, trace)
    if outcome == CONTINUE:
        _ip6_rcv_extended(h, s, data, trace)
    elif outcome == REASSEMBLED:
        _ip6_rcv_extended(h, s, as_arena(s.datagram), trace)
        s.skb[SKB_TRANSPORT] = transport  # the verdict is that of the fragment


@hot
def _ip6_rcv_finish(h, s, data, trace):
    """Route a packet, and on from there (kernel: ip6_rcv_finish)."""
    skb = s.skb
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


@hot
def _keep_hint(s):
    """Copy the route of the packet before to the hint, if it is to be one."""
    if s.hint[HINT_PENDING]:  # later than it became the hint: a copy of fresh stores has to wait
        copy_route(s.hint, s.skb)
        s.hint[HINT_PENDING] = 0


@hot
def _begin_packet(s, frame, device):
    """Clear what the packet before left behind."""
    skb = s.skb
    _keep_hint(s)
    for field in range(SKB_FIRST_ZERO, SKB_FIRST_NONE):
        skb[field] = 0
    for field in range(SKB_FIRST_NONE, SKB_COLUMNS):
        skb[field] = NONE
    skb[SKB_FRAME] = frame
    skb[SKB_DEVICE] = device


@hot
def forget_hint(s):
    """A receive list ended: no hint, and no route to compare with."""
    s.hint[HINT_VALID] = 0
    s.hint[SKB_SOCKET] = NONE  # identity of the route that the current sub-list shares


@cold
def _receive_inner(h, s, data, trace):
    """The IPv6 packet that a 6LoWPAN frame holds: as `ip6_receive`."""
    if ip6_rcv_core(h, s, data, trace) != CONTINUE:
        return
    if h.conf[CONF_CONNTRACK_DEFRAG] and is_extension(s.skb[SKB_PROTOCOL]):
        _track6(h, s, data, trace)
    else:
        _ip6_rcv_extended(h, s, data, trace)


@cold
def _receive_lowpan(h, s, data, link_type, direction_out, trace):
    """One IEEE 802.15.4 frame; it is a receive list of its own (kernel: netif_rx); DONE."""
    forget_hint(s)
    if lowpan_input(h, s, data, link_type, direction_out, trace) == CONTINUE:
        _receive_inner(h, s, as_arena(s.lowpan), trace)
    forget_hint(s)
    s.misc[MISC_LIST_DEVICE] = NONE
    s.skb[SKB_TRANSPORT] = 0  # which is no place in the frame
    return DONE


@hot
def _record(s, verdicts, row, start, network):
    """Write the packet's verdict row and add it to the accounts."""
    skb = s.skb
    verdict, reason, taker = skb[SKB_VERDICT], skb[SKB_REASON], skb[SKB_SOCKET]
    flags = skb[SKB_HINTED] * FLAG_HINTED + skb[SKB_UNCHECKED] * FLAG_UNCHECKED
    if taker != NONE:
        flags |= FLAG_SOCKET
    else:
        taker = skb[DST_NH]
    verdicts[row, V_WHAT] = (
        verdict
        | (reason << 8)
        | (skb[SKB_FAMILY] << 16)
        | ((skb[SKB_PKT_TYPE] + 1) << 20)
        | (flags << 24)
    )
    verdicts[row, V_WHERE] = network | ((skb[SKB_PROTOCOL] + 1) << 16)
    verdicts[row, V_DEVICES] = (skb[SKB_DEVICE] + 1) | ((skb[SKB_OUT_DEVICE] + 1) << 16)
    transport = skb[SKB_TRANSPORT]
    verdicts[row, V_TRANSPORT] = transport - start if transport else NONE
    verdicts[row, V_LENGTH] = skb[SKB_WIRE_END] - start
    verdicts[row, V_RULE] = skb[DST_RULE]
    verdicts[row, V_ROUTE] = skb[DST_ROUTE]
    verdicts[row, V_TAKER] = taker
    s.verdicts[verdict] += 1  # of one that is held, until it has another
    if verdict == DROPPED or verdict == UNSUPPORTED or (verdict == CONSUMED and reason != R_NONE):
        s.reasons[reason] += 1
        if verdict == DROPPED and skb[SKB_DEVICE] >= 0:
            s.devstat[skb[SKB_DEVICE], DEVSTAT_RX_DROPPED] += 1


@hot
def _within_arena(size, offset, length, begin, end):
    """Do all packets lie within the arena, whoever built the batch?  Written to be vectorised."""
    signs = 0
    for row in range(begin, end):
        left = size - (offset[row] & LARGEST)
        signs |= offset[row] | length[row] | left | (left - length[row])
    return signs >= 0


@hot
def _has_room(h, s, collect):
    """Is there room in the arenas for what one more packet may make?"""
    misc = s.misc
    if misc[MISC_LOOP_ROWS]:
        return False  # what the host sent to itself comes in first
    if collect & COLLECT_SENT and (
        misc[MISC_OUT_BYTES] + OUT_RESERVE_BYTES > s.out_data.shape[0]
        or misc[MISC_OUT_ROWS] + OUT_RESERVE_ROWS > s.out.shape[0]
    ):
        return False
    return collect & (COLLECT_TAKEN | COLLECT_CALLS) == 0 or (
        misc[MISC_TAKEN_BYTES] + TAKEN_RESERVE_BYTES <= s.taken_data.shape[0]
        and misc[MISC_TAKEN_ROWS] + h.socket.shape[0] <= s.taken.shape[0]
    )


@hot
def _destination_ahead(data, begin, from_start):
    """The destination of a later packet, if it is like the one before; 0 outside the arena."""
    at = begin + from_start + DESTINATION
    return load32be(data, at) if at + DESTINATION_SIZE <= data.shape[0] else 0


@hot
def fetch_routes(h, data, chunks, offset, row, end, from_start):
    """Ask for what the look-ups of the next packets will read, so that they need not wait for it.

    That decides nothing: a destination that was guessed wrong costs one line of cache.
    """
    later = _destination_ahead(data, offset[min(row + CHUNK_AHEAD, end - 1)], from_start)
    fetch_chunk4(h.fib4, chunks, later)
    sooner = _destination_ahead(data, offset[min(row + LEAF_AHEAD, end - 1)], from_start)
    fetch_leaf4(h.fib4, chunks, sooner)


@hot
def _destination6_ahead(data, begin, from_start):
    """The halves of the destination of a later packet, if it is like the one before."""
    at = begin + from_start + DESTINATION6
    if at + DESTINATION6_SIZE > data.shape[0]:
        return 0, 0
    return load64be(data, at), load64be(data, at + 8)


@hot
def fetch_routes6(h, s, data, table, offset, row, end, from_start):
    """The same for a large IPv6 table: each packet's search goes on by a step every other packet."""
    fib, ahead = h.fib6, s.ahead
    later = row + FIRST6
    hi, lo = _destination6_ahead(data, offset[min(later, end - 1)], from_start)
    ahead[later & (AHEAD_ROWS - 1)] = fetch_slot6(fib, table, hi)
    for step in range(1, STEPS6):
        later -= STEP6
        place = later & (AHEAD_ROWS - 1)
        if ahead[place] == NONE:
            continue
        if step & 1:
            ahead[place] = fetch_word6(fib, ahead[place])
        else:
            hi, lo = _destination6_ahead(data, offset[min(later, end - 1)], from_start)
            ahead[place] = fetch_entry6(fib, ahead[place], hi, lo)


@entry
def receive_burst(
    tables, state, arena, offset, length, wire_length, time_ns, link_type, capture_device,
    direction, mark, verdicts, first_frame, begin, end, trace,
):  # fmt: skip
    """Receive packets [begin, end) of a batch; returns the first packet not done, or OUTSIDE.

    The arrays are the columns of a PacketBatch; `verdicts` is int32[n, V_COLUMNS].  The return
    value is below `end` when packets of the host to itself wait in `state.loop`, the output arena has
    to be emptied, or the arrays of reassembly have to grow first; call again from there.  Queues expire by `time_ns` and MISC_NOW_NS.  A receive list may go on from the call before (`state.misc`), so that verdicts do not depend on
    how a capture is cut into batches.
    """
    h, s, data = open_tables(tables), open_state(state), open_bytes(arena)
    offset, time_ns, mark = open_column(offset), open_column(time_ns), open_column(mark)
    length, wire_length = open_column(length), open_column(wire_length)
    link_type, direction = open_column(link_type), open_column(direction)
    capture_device, verdicts = open_column(capture_device), open_rows(verdicts)
    if not _within_arena(arena.shape[0], offset, length, begin, end):
        return OUTSIDE
    skb, misc, fm = s.skb, s.misc, s.frag_misc
    if fm[FM_DUE_NS] <= misc[MISC_NOW_NS]:
        _keep_hint(s)
        expire_due(h, s, trace, misc[MISC_NOW_NS])
    list_size = 1 if misc[MISC_ALONE] else h.conf[CONF_LIST]
    list_gap = h.conf[CONF_LIST_GAP_NS]
    collect = misc[MISC_COLLECT]
    one_cause = misc[MISC_ONE_CAUSE]
    large = large6(h)
    if large != NONE:
        for place in range(AHEAD_ROWS):
            s.ahead[place] = NONE
    chunks, from_start = chunks4(h), 0  # bytes before the IP header of the packet before
    for row in range(begin, end):
        if (collect or misc[MISC_LOOP_ROWS]) and not _has_room(h, s, collect):
            return row
        if fm[FM_SHORT]:
            return row
        if chunks != NONE:
            fetch_routes(h, data, chunks, offset, row, end, from_start)
        if large != NONE:
            fetch_routes6(h, s, data, large, offset, row, end, from_start)
        ahead = offset[min(row + AHEAD, end - 1)]
        prefetch(data, ahead)
        prefetch(data, ahead + 63)
        start, size, time = offset[row], length[row], time_ns[row]
        now = max(misc[MISC_NOW_NS], time)  # a clock never goes back
        if fm[FM_DUE_NS] <= now:
            _keep_hint(s)
            expire_due(h, s, trace, now)
        misc[MISC_NOW_NS] = now
        _begin_packet(s, first_frame if one_cause else first_frame + row, capture_device[row])
        wire = max(size, wire_length[row])
        skb[SKB_LINK] = start
        skb[SKB_END] = start + size
        skb[SKB_WIRE_END] = start + wire
        skb[SKB_TIME_NS] = now
        skb[SKB_MARK] = mark[row]
        misc[MISC_PACKETS] += 1
        misc[MISC_BYTES] += wire
        network = NO_NETWORK
        way, lowpan = direction[row], is_ieee802154(link_type[row])
        if way >= DIRECTION_LOOPED:
            entered = looped_input(h, s, data, way - DIRECTION_LOOPED, link_type[row], trace)
        elif lowpan:
            entered = _receive_lowpan(h, s, data, link_type[row], way == DIRECTION_OUT, trace)
        else:
            entered = link_input(h, s, data, link_type[row], way == DIRECTION_OUT, trace)
        if entered == CONTINUE:
            network = from_start = skb[SKB_IP] - start
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
        elif skb[SKB_FAMILY] and not lowpan:
            network = skb[SKB_IP] - start
        _record(s, verdicts, row, start, network)
    return end
