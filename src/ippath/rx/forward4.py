"""IPv4 forwarding (kernel: ip_forward, ip_forward_finish; RFC 1812 section 5).

In:  a routed packet whose route is not local.   Out: the packet on its way, TTL reduced.
Drops: IP_INHDR (TTL), PKT_TOO_BIG, NOT_SPECIFIED, NEIGH_FAILED.
"""

from __future__ import annotations

from ippath.jit import cold, hot
from ippath.mib import M_IpForwDatagrams, M_IpFragFails, M_IpInHdrErrors
from ippath.reasons import (
    R_CAPTURE_CUT, R_IP_INHDR, R_NEIGH_FAILED, R_NOT_SPECIFIED, R_PKT_TOO_BIG,
)  # fmt: skip
from ippath.rx.icmp_send import icmp_send, ip_rt_send_redirect
from ippath.rx.packet import count, drop, forwarded, unsupported
from ippath.tables import (
    DEV_MTU, DST_DEVICE, DST_GATEWAY_FAMILY, DST_GATEWAY_HI, DST_GATEWAY_LO, DST_NH, DST_REDIRECT,
    DST_ROUTE, DST_TYPE, MISC_COLLECT, NONE, PACKET_HOST, ROUTE_MTU, SKB_AVAIL, SKB_DST_LO,
    SKB_IHL, SKB_IP, SKB_LEN, SKB_OPT_RR, SKB_OPT_SRR, SKB_OPT_TS, SKB_OPTIONS, SKB_OUT_DEVICE,
    SKB_PKT_TYPE, SKB_TIME_NS,
)  # fmt: skip
from ippath.trace import T_FORWARD, T_FORWARD_L2, T_MTU, T_TTL, note
from ippath.tx.emit import neighbour_answers
from ippath.tx.ip_output4 import finish_output4, fragment4
from ippath.tx.route_output4 import SCOPE_LINK, preferred_source, select_address
from ippath.wire.checksum import checksum, update16
from ippath.wire.icmp import (
    FRAGMENTATION_NEEDED, HOST_UNREACHABLE, ICMP_TIME_EXCEEDED, ICMP_UNREACHABLE,
    SOURCE_ROUTE_FAILED,
)  # fmt: skip
from ippath.wire.ipv4 import CHECKSUM, DF, FLAGS_OFFSET, IPOPT_SSRR, TTL
from ippath.wire.memory import copy, load8, load16be, store8, store16be, store32be

TS_ONLY, TS_ADDRESS = 0, 1
DAY_MS = 86_400_000


@hot
def forward_mtu4(h, s):
    """MTU for a forwarded packet: the route's metric, else the device's (kernel: ip_dst_mtu_maybe_forward)."""
    skb = s.skb
    mtu = h.fib4.route[skb[DST_ROUTE], ROUTE_MTU] if skb[DST_ROUTE] != NONE else 0
    if mtu == 0:
        mtu = h.device[skb[DST_DEVICE], DEV_MTU]
    return min(mtu, 65535)


@cold
def _fill_options(h, s, buf):
    """Record this router in record route and timestamp options (kernel: ip_forward_options)."""
    skb = s.skb
    # the kernel asks ip_rt_get_source: the address this host would use on the way to the packet's target
    mine = preferred_source(h, skb[DST_ROUTE], skb[DST_NH])
    if mine == 0:
        mine = select_address(h, skb[DST_DEVICE], 0, SCOPE_LINK)
    if skb[SKB_OPT_RR]:
        at = skb[SKB_OPT_RR]
        pointer = load8(buf, at + 2)
        if pointer <= load8(buf, at + 1):
            store32be(buf, at + pointer - 1, mine)
            store8(buf, at + 2, pointer + 4)
    if skb[SKB_OPT_TS]:
        at = skb[SKB_OPT_TS]
        pointer, size = load8(buf, at + 2), load8(buf, at + 1)
        kind = load8(buf, at + 3) & 15
        now = (skb[SKB_TIME_NS] // 1_000_000) % DAY_MS
        if pointer > size:
            if kind <= TS_ADDRESS:
                store8(buf, at + 3, load8(buf, at + 3) + 16)
        elif kind == TS_ADDRESS:
            store32be(buf, at + pointer - 1, mine)
            store32be(buf, at + pointer + 3, now)
            store8(buf, at + 2, pointer + 8)
        elif kind == TS_ONLY:
            store32be(buf, at + pointer - 1, now)
            store8(buf, at + 2, pointer + 4)


@cold
def _rewrite(h, s, data, ttl):
    """Copy the packet to scratch as it leaves: TTL reduced, options filled, checksum right."""
    skb, buf = s.skb, s.scratch
    copy(buf, 0, data, skb[SKB_IP], skb[SKB_AVAIL])
    word = load16be(buf, TTL)
    store8(buf, TTL, ttl - 1)
    store16be(buf, CHECKSUM, update16(load16be(buf, CHECKSUM), word, load16be(buf, TTL)))
    if skb[SKB_OPTIONS] and (skb[SKB_OPT_RR] or skb[SKB_OPT_TS]):
        _fill_options(h, s, buf)
        store16be(buf, CHECKSUM, 0)
        store16be(buf, CHECKSUM, checksum(buf, 0, skb[SKB_IHL]))


@hot
def ip_forward(h, s, data, trace):
    """Forward the packet in hand; always DONE."""
    skb = s.skb
    if skb[SKB_PKT_TYPE] != PACKET_HOST:
        note(trace, T_FORWARD_L2, skb[SKB_PKT_TYPE])
        return drop(s, trace, R_NOT_SPECIFIED)
    ip, length, out = skb[SKB_IP], skb[SKB_LEN], skb[DST_DEVICE]
    ttl = load8(data, ip + TTL)
    note(trace, T_TTL, ttl)
    if ttl <= 1:
        count(s, M_IpInHdrErrors)
        icmp_send(h, s, data, trace, ICMP_TIME_EXCEEDED, 0, 0)
        return drop(s, trace, R_IP_INHDR)
    if (
        skb[SKB_OPT_SRR]
        and load8(data, ip + skb[SKB_OPT_SRR]) == IPOPT_SSRR
        and skb[DST_GATEWAY_FAMILY]
    ):
        icmp_send(h, s, data, trace, ICMP_UNREACHABLE, SOURCE_ROUTE_FAILED, 0)
        return drop(s, trace, R_NOT_SPECIFIED)
    count(s, M_IpForwDatagrams)
    mtu = forward_mtu4(h, s)
    dont_fragment = load16be(data, ip + FLAGS_OFFSET) & DF
    note(trace, T_MTU, length, mtu, out, dont_fragment != 0)
    if length > mtu and dont_fragment:
        count(s, M_IpFragFails)
        icmp_send(h, s, data, trace, ICMP_UNREACHABLE, FRAGMENTATION_NEEDED, mtu)
        return drop(s, trace, R_PKT_TOO_BIG)
    if skb[DST_REDIRECT] and skb[SKB_OPT_SRR] == 0:
        ip_rt_send_redirect(h, s, data, trace)
    family = skb[DST_GATEWAY_FAMILY]
    hi, lo = skb[DST_GATEWAY_HI], skb[DST_GATEWAY_LO]
    if family == 0:
        family, hi, lo = 4, 0, skb[SKB_DST_LO]
    skb[SKB_OUT_DEVICE] = out
    if not neighbour_answers(h, trace, out, family, hi, lo):
        icmp_send(h, s, data, trace, ICMP_UNREACHABLE, HOST_UNREACHABLE, 0)
        return drop(s, trace, R_NEIGH_FAILED)
    kind = skb[DST_TYPE]
    if length > mtu:
        if skb[SKB_AVAIL] < length and s.misc[MISC_COLLECT]:
            return unsupported(s, trace, R_CAPTURE_CUT)
        _rewrite(h, s, data, ttl)
        if fragment4(h, s, trace, s.scratch, 0, length, mtu, out, family, hi, lo, kind) == 0:
            count(s, M_IpFragFails)
            return drop(s, trace, R_NOT_SPECIFIED)
    else:
        if s.misc[MISC_COLLECT]:
            _rewrite(h, s, data, ttl)
        # what the capture cut off cannot be written: the copy ends where the capture did
        size = length if s.misc[MISC_COLLECT] == 0 else skb[SKB_AVAIL]
        finish_output4(h, s, s.scratch, 0, size, out, family, hi, lo, kind)
    note(trace, T_FORWARD, out)
    return forwarded(s, trace)
