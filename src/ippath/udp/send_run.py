"""Datagrams of one flow, one after the other straight to their device: the inner loop of sending.

Headers come from a template, payloads from the caller's buffer, and the accounts are settled once
for all of them.  Kernel: udp_send_skb to dev_queue_xmit, for what nothing holds up.

In:  the plan and the template of a message.   Out: packets in the output arena.
"""

from __future__ import annotations

from ippath.batch import LINK_ETHERNET, LINK_RAW
from ippath.jit import hot, kernel
from ippath.mib import (
    M_Ip6OutOctets, M_Ip6OutRequests, M_Ip6OutTransmits, M_IpExtOutOctets, M_IpOutRequests,
    M_IpOutTransmits, M_Udp6OutDatagrams, M_UdpOutDatagrams,
)  # fmt: skip
from ippath.rx.rate_limit import random32
from ippath.tables import (
    COLLECT_SENT, CONF_SEND_ACCOUNTS, CONF_ZERO_COPY, DEVSTAT_TX, DEVSTAT_TX_BYTES, FLOW_OIF,
    FLOW_OUTPUT, MISC_COLLECT, MISC_OUT_BYTES, MISC_OUT_ROWS, NONE, PLAN_HEADERS, PLAN_LINK,
    PLAN_LOCKED, PLAN_MOST, PLAN_PART, PLAN_PATH_MTU, PMTUDISC_DO, PMTUDISC_OMIT, PMTUDISC_PROBE,
    PMTUDISC_WANT, SCRATCH_FRAGMENT, SENDS_UNSUMMED, SEND_DPORT, SEND_DST_HI, SEND_DST_LO, SEND_FAMILY, SEND_FLAGS, SEND_ID, SEND_PMTUDISC, SEND_SEGMENT, TARGET_HI,
    TARGET_LO, TARGET_PORT,
)  # fmt: skip
from ippath.tx.emit import note_sent
from ippath.tx.header_template import store_headers4, store_headers6
from ippath.wire.checksum import partial
from ippath.wire.memory import copy

MOST_SEGMENTS = 128  # UDP_MAX_SEGMENTS, 64 before 6.9
# room that one message may need in the output arena: 64 KiB in the smallest fragments, or segments
OUT_RESERVE_BYTES, OUT_RESERVE_ROWS = 1 << 18, 1 << 11


@hot
def cuts(mode):
    """May the host cut what is too large (kernel: ip_sk_ignore_df, ip6_sk_ignore_df)?"""
    return mode <= PMTUDISC_WANT or mode == PMTUDISC_OMIT


@hot
def is_whole(s, m, row, total):
    """Does a packet of `total` bytes carry DF (kernel: ip_dont_fragment)?"""
    mode, plan = m[row, SEND_PMTUDISC], s.plan
    if mode == PMTUDISC_WANT:
        return total <= plan[PLAN_PATH_MTU] and plan[PLAN_LOCKED] == 0
    return mode == PMTUDISC_DO or mode == PMTUDISC_PROBE


@hot
def identification(s, m, row, whole, index):
    """IPv4 identification (kernel: ip_select_ident_segs): a connected socket counts its own.

    Of the packet `index` of a message, which carries DF if it is `whole`.
    """
    if m[row, SEND_ID] != NONE:
        return (m[row, SEND_ID] + index) & 0xFFFF
    if whole and not cuts(m[row, SEND_PMTUDISC]):
        return 0
    return random32(s) & 0xFFFF


@hot
def fits(s, m, row, size):
    """Can `size` bytes go out as they are, or in segments of the size that is asked for?"""
    segment, plan = m[row, SEND_SEGMENT], s.plan
    if segment == 0:
        return size <= plan[PLAN_PART]
    return (
        min(size, segment) <= plan[PLAN_PART]
        and size <= min(plan[PLAN_MOST], segment * MOST_SEGMENTS)
        and m[row, SEND_FLAGS] & SENDS_UNSUMMED == 0
    )


@hot
def _same_target(o, m, row, number):
    """Does a datagram go where the one before it went?"""
    if o.target.shape[0] == 0:
        return True
    return (
        o.target[number, TARGET_LO] == m[row, SEND_DST_LO]
        and o.target[number, TARGET_HI] == m[row, SEND_DST_HI]
        and o.target[number, TARGET_PORT] == m[row, SEND_DPORT]
    )


@hot
def _account(s, device, family, datagrams, packets, octets, link):
    """Count what was sent."""
    count = s.counters
    if family == 4:
        count[M_UdpOutDatagrams] += datagrams
        count[M_IpOutRequests] += packets
        count[M_IpOutTransmits] += packets
        count[M_IpExtOutOctets] += octets
    else:
        count[M_Udp6OutDatagrams] += datagrams
        count[M_Ip6OutRequests] += packets
        count[M_Ip6OutTransmits] += packets
        count[M_Ip6OutOctets] += octets
    s.devstat[device, DEVSTAT_TX] += packets
    s.devstat[device, DEVSTAT_TX_BYTES] += octets + link * packets


@hot
def _store_packet(s, buf, at, family, ident, source, start, size, summed):
    """Write a packet whose payload is at `source[start]`; how many bytes."""
    payload_sum = partial(source, start, size) if summed else -1
    if family == 4:
        store_headers4(s, buf, at, size, ident, payload_sum)
    else:
        store_headers6(s, buf, at, size, payload_sum)
    headers = s.plan[PLAN_HEADERS]
    copy(buf, at + headers, source, start, size)
    return headers + size


@hot
def _run(h, s, o, row, number, end, buf, collect):
    """Send datagrams from `number` on into `buf`; returns the first that is not done."""
    m, misc, plan = o.message, s.misc, s.plan
    family, segment = m[row, SEND_FAMILY], m[row, SEND_SEGMENT]
    summed = m[row, SEND_FLAGS] & SENDS_UNSUMMED == 0
    device = s.flow[FLOW_OUTPUT, FLOW_OIF]
    whole = is_whole(s, m, row, 0)  # what goes straight fits the path
    link = plan[PLAN_LINK]
    link_type = LINK_ETHERNET if link else LINK_RAW
    zero_copy, at_once = h.conf[CONF_ZERO_COPY], h.conf[CONF_SEND_ACCOUNTS]
    at, out = (misc[MISC_OUT_BYTES], misc[MISC_OUT_ROWS]) if collect else (0, 0)
    last_at, last_out = s.out_data.shape[0] - OUT_RESERVE_BYTES, s.out.shape[0] - OUT_RESERVE_ROWS
    datagrams, packets, octets, index = 0, 0, 0, 0
    while number < end:
        size, start, done = o.length[number], o.offset[number], 0
        if collect and (at > last_at or out > last_out):
            break
        if not fits(s, m, row, size) or not _same_target(o, m, row, number):
            break
        while True:
            part = min(segment, size - done) if segment else size
            word = identification(s, m, row, whole, index) if family == 4 else 0
            if zero_copy:
                made = _store_packet(s, buf, at, family, word, o.data, start + done, part, summed)
            else:  # by a buffer of the host's own
                copy(s.scratch, SCRATCH_FRAGMENT, o.data, start + done, part)
                made = _store_packet(
                    s, buf, at, family, word, s.scratch, SCRATCH_FRAGMENT, part, summed
                )
            if collect:
                cause = -(number + 1) if segment else 0
                note_sent(s, out, at, made, made, device, link_type, cause)
                out += 1
                at += made
            index += 1
            packets += 1
            octets += made - link
            done += part
            if done >= size:
                break
        datagrams += 1
        number += 1
        if at_once == 0:
            _account(s, device, family, datagrams, packets, octets, link)
            datagrams, packets, octets = 0, 0, 0
    _account(s, device, family, datagrams, packets, octets, link)
    if m[row, SEND_ID] != NONE:
        m[row, SEND_ID] += index
    if collect:
        misc[MISC_OUT_BYTES], misc[MISC_OUT_ROWS] = at, out
    return number


@kernel
def send_run(h, s, o, row, number, end):
    """Send datagrams from `number` on, asked for in message `row`, as long as they go the same way.

    The first one does.  Returns the first that is not done.  Without a device that somebody looks
    at, packets are made all the same, each in the place of the one before.
    """
    if s.misc[MISC_COLLECT] & COLLECT_SENT:
        return _run(h, s, o, row, number, end, s.out_data, True)
    return _run(h, s, o, row, number, end, s.scratch, False)
