"""IPv6 forwarding (kernel: ip6_forward; RFC 8200, RFC 4443).

In:  a routed packet whose route is not local.   Out: the packet on its way, hop limit reduced.
Drops: IP_INADDRERRORS, IP_INHDR (hop limit), PKT_TOO_BIG, NOT_SPECIFIED.
"""

from __future__ import annotations

from ippath.fib.exceptions import exception_of
from ippath.jit import cold, hot
from ippath.mib import (
    M_Ip6FragFails, M_Ip6InAddrErrors, M_Ip6InHdrErrors, M_Ip6InTooBigErrors, M_Ip6OutForwDatagrams,
)  # fmt: skip
from ippath.reasons import (
    R_IP_INADDRERRORS, R_IP_INHDR, R_NOT_SPECIFIED, R_PKT_TOO_BIG, R_QDISC_DROP,
)  # fmt: skip
from ippath.rx.icmpv6_send import icmp6_send, ndisc_send_redirect
from ippath.rx.packet import DONE, capture_cut, count, drop, forwarded
from ippath.tables import (
    COLLECT_SENT, CONF_FORWARDING6, DEV_CARRIER, DEV_FORCE_FORWARDING6, DEV_LOOPBACK, DEV_MTU6,
    DST_DEVICE, DST_EXCEPTION, DST_GATEWAY_FAMILY, DST_GATEWAY_HI, DST_GATEWAY_LO, DST_INFO,
    FM_PIECES, INFO_MTU_LOCK, MISC_COLLECT, NONE, PACKET_HOST, SKB_AVAIL, SKB_DEVICE, SKB_DST_HI,
    SKB_DST_LO, SKB_FRAG_MAX, SKB_IP, SKB_LEN, SKB_OUT_DEVICE, SKB_PKT_TYPE, SKB_SRC_HI, SKB_SRC_LO,
    SKB_TTL_SPENT,
)  # fmt: skip
from ippath.trace import T_FORWARD, T_FORWARD_L2, T_MTU, T_NO_FORWARD6, T_SCOPE6, T_TTL, note
from ippath.tx.emit import neighbour_answers
from ippath.tx.ip_output6 import MINIMUM_MTU, finish_output6, refragment6, unfragmentable_part
from ippath.tx.path_mtu import route_mtu6
from ippath.wire.icmp import (
    ADDRESS_UNREACHABLE, ICMP6_TIME_EXCEEDED, ICMP6_TOO_BIG, ICMP6_UNREACHABLE, NOT_NEIGHBOUR,
)  # fmt: skip
from ippath.wire.ipv6 import (
    FRAGMENT_HEADER, HOP_LIMIT, is_link_local, is_loopback, is_multicast, is_unspecified,
)  # fmt: skip
from ippath.wire.memory import copy, load8, store8


@hot
def _exception(s):
    return exception_of(s, s.skb[DST_EXCEPTION], 6, s.skb[SKB_DST_HI], s.skb[SKB_DST_LO])


@hot
def forward_mtu6(h, s):
    """MTU for forwarding: a locked metric, else the device's (kernel: ip6_dst_mtu_maybe_forward)."""
    skb = s.skb
    device = skb[DST_DEVICE]
    mtu = h.device[device, DEV_MTU6]
    info = skb[DST_INFO]
    if info != NONE and h.fib6.info[info, INFO_MTU_LOCK]:
        mtu = route_mtu6(h, s, info, _exception(s), device)
    return max(mtu, MINIMUM_MTU)


@hot
def _source_may_pass(h, s, data, trace):
    """Scope checks of a source that leaves its link (RFC 4007; kernel: ip6_forward)."""
    skb = s.skb
    hi, lo = skb[SKB_SRC_HI], skb[SKB_SRC_LO]
    if is_unspecified(hi, lo) or is_multicast(hi) or is_loopback(hi, lo):
        note(trace, T_SCOPE6, hi, lo)
        return False
    if is_link_local(hi):
        note(trace, T_SCOPE6, hi, lo)
        icmp6_send(h, s, data, trace, ICMP6_UNREACHABLE, NOT_NEIGHBOUR, 0)
        return False
    return True


@hot
def _next_hop(s):
    skb = s.skb
    if skb[DST_GATEWAY_FAMILY]:
        return skb[DST_GATEWAY_HI], skb[DST_GATEWAY_LO]
    return skb[SKB_DST_HI], skb[SKB_DST_LO]


@hot
def _is_reachable(h, s, data, trace, hi, lo):
    """Does the next hop answer?  Else the packet is dropped, and its sender told."""
    out = s.skb[DST_DEVICE]
    s.skb[SKB_OUT_DEVICE] = out
    if neighbour_answers(h, trace, out, 6, hi, lo):
        return True
    icmp6_send(h, s, data, trace, ICMP6_UNREACHABLE, ADDRESS_UNREACHABLE, 0)
    drop(s, trace, R_NOT_SPECIFIED)
    return False


@hot
def _left(h, s, trace):
    """The packet went to its device; always DONE."""
    out = s.skb[DST_DEVICE]
    if h.device[out, DEV_CARRIER] == 0:
        return drop(s, trace, R_QDISC_DROP)
    note(trace, T_FORWARD, out)
    return forwarded(s, trace)


@cold
def _too_big(h, s, data, trace, mtu):
    """Too big on its way out: for the route, or as fragments that nobody may make smaller."""
    note(trace, T_MTU, s.skb[SKB_LEN], mtu, s.skb[DST_DEVICE], 1)
    icmp6_send(h, s, data, trace, ICMP6_TOO_BIG, 0, mtu)
    count(s, M_Ip6FragFails)
    return drop(s, trace, R_NOT_SPECIFIED)


@cold
def _forward_in_fragments(h, s, data, trace, mtu):
    """Send on what connection tracking put together, no fragment larger than they came."""
    skb = s.skb
    length, kept, received = skb[SKB_LEN], skb[SKB_AVAIL], skb[SKB_FRAG_MAX]
    first = length - s.pieces[s.frag_misc[FM_PIECES] - 1] + s.pieces[0]
    header, number_at = unfragmentable_part(data, min(first, kept))
    if header < 0:
        if kept < first:
            return capture_cut(s, trace, first)
        count(s, M_Ip6FragFails)
        return drop(s, trace, R_NOT_SPECIFIED)
    if received > mtu:
        return _too_big(h, s, data, trace, mtu)
    limit = max(received, MINIMUM_MTU)
    if limit < header + FRAGMENT_HEADER + 8:
        return _too_big(h, s, data, trace, limit)
    hi, lo = _next_hop(s)
    if not _is_reachable(h, s, data, trace, hi, lo):
        return DONE
    copy(s.scratch, 0, data, skb[SKB_IP], kept)
    store8(s.scratch, HOP_LIMIT, load8(s.scratch, HOP_LIMIT) - 1)
    group = is_multicast(skb[SKB_DST_HI])
    refragment6(h, s, trace, kept, length, limit, header, number_at, skb[DST_DEVICE], hi, lo, group)
    return _left(h, s, trace)


@hot
def ip6_forward(h, s, data, trace):
    """Forward the packet in hand; always DONE."""
    skb = s.skb
    device, out = skb[SKB_DEVICE], skb[DST_DEVICE]
    if h.conf[CONF_FORWARDING6] == 0 and h.device[device, DEV_FORCE_FORWARDING6] == 0:
        note(trace, T_NO_FORWARD6)
        count(s, M_Ip6InAddrErrors)
        return drop(s, trace, R_IP_INADDRERRORS)
    if skb[SKB_PKT_TYPE] != PACKET_HOST:
        note(trace, T_FORWARD_L2, skb[SKB_PKT_TYPE])
        return drop(s, trace, R_NOT_SPECIFIED)
    ip, length = skb[SKB_IP], skb[SKB_LEN]
    hop_limit = load8(data, ip + HOP_LIMIT)
    note(trace, T_TTL, hop_limit)
    if hop_limit <= 1:
        icmp6_send(h, s, data, trace, ICMP6_TIME_EXCEEDED, 0, 0)
        count(s, M_Ip6InHdrErrors)
        return drop(s, trace, R_IP_INHDR)
    if out == device:
        ndisc_send_redirect(h, s, data, trace)
    elif not _source_may_pass(h, s, data, trace):
        count(s, M_Ip6InAddrErrors)
        return drop(s, trace, R_IP_INADDRERRORS)
    count(s, M_Ip6OutForwDatagrams)
    mtu = forward_mtu6(h, s)
    received = skb[SKB_FRAG_MAX]
    note(trace, T_MTU, length, mtu, out, 1)
    if length > mtu and (received > mtu or not received):
        icmp6_send(h, s, data, trace, ICMP6_TOO_BIG, 0, mtu)
        count(s, M_Ip6InTooBigErrors)
        count(s, M_Ip6FragFails)
        return drop(s, trace, R_PKT_TOO_BIG)
    skb[SKB_TTL_SPENT] = 1
    # from here on any metric counts, locked or not, and what was learned
    mtu = route_mtu6(h, s, skb[DST_INFO], _exception(s), out)
    if received and (length > mtu or length > received):
        return _forward_in_fragments(h, s, data, trace, mtu)
    if length > mtu:
        return _too_big(h, s, data, trace, mtu)
    hi, lo = _next_hop(s)
    if not _is_reachable(h, s, data, trace, hi, lo):
        return DONE
    kept = skb[SKB_AVAIL]  # what the capture cut off cannot be sent: the copy ends where it did
    if s.misc[MISC_COLLECT] & COLLECT_SENT or h.device[out, DEV_LOOPBACK]:
        copy(s.scratch, 0, data, ip, kept)
        store8(s.scratch, HOP_LIMIT, hop_limit - 1)
    finish_output6(h, s, s.scratch, 0, kept, length, out, hi, lo, is_multicast(skb[SKB_DST_HI]))
    return _left(h, s, trace)
