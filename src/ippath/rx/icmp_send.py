"""ICMP errors, replies and redirects that this host sends (kernel: __icmp_send, icmp_reply,
ip_rt_send_redirect; RFC 1812 section 4.3).

In:  the packet in hand.   Out: a message on its way, or nothing if a condition forbids it.
"""

from __future__ import annotations

from ippath.fib.flow import fill_flow4
from ippath.fib.lookup4 import fib_lookup4
from ippath.jit import cold, kernel
from ippath.mib import (
    M_IcmpMsgOutType0, M_IcmpOutDestUnreachs, M_IcmpOutEchoReps, M_IcmpOutMsgs, M_IcmpOutParmProbs,
    M_IcmpOutRateLimitGlobal, M_IcmpOutRateLimitHost, M_IcmpOutRedirects, M_IcmpOutTimeExcds,
    M_IcmpOutTimestampReps,
)  # fmt: skip
from ippath.rx.header4 import copy_packet
from ippath.rx.packet_hash import packet_hash4
from ippath.rx.rate_limit import find_peer, global_allows, global_consume, peer_allows, random32
from ippath.tables import (
    DEV_MASTER, FLOW_L3MDEV,
    CONF_DEFAULT_TTL, CONF_FWMARK_REFLECT4, CONF_ICMP_INBOUND_IFADDR, CONF_ICMP_RATELIMIT_NS,
    CONF_ICMP_RATEMASK, CONF_MULTIPATH4, DEV_LOOPBACK, DEV_SRC_VALID_MARK, DST_GATEWAY_FAMILY,
    DST_GATEWAY_LO, DST_LOCAL, DST_SET, DST_TYPE, ECHO_FIRST_HOP, ECHO_SRR, FLOW_OIF, FLOW_OUTPUT,
    FLOW_SPARE, FLOW_SRC_LO, INFO_HOPLIMIT, MISC_NOW_NS, NONE, PACKET_HOST, PEER_LAST_NS,
    PEER_REDIRECTS, PEER_TOKENS_NS, RES_INFO, RES_NH, RTN_BROADCAST, RTN_MULTICAST, SCRATCH_OPTIONS,
    SCRATCH_PACKET, SKB_AVAIL, SKB_DEVICE, SKB_DST_LO, SKB_FRAG, SKB_IHL, SKB_IP, SKB_LEN, SKB_MARK,
    SKB_OPTIONS, SKB_PKT_TYPE, SKB_PROTOCOL, SKB_SRC_LO, SKB_TOS,
)  # fmt: skip
from ippath.trace import T_ICMP_SEND, T_REDIRECT, note
from ippath.tx.ip_options4 import ip_options_build, ip_options_echo
from ippath.tx.ip_output4 import ip_output4
from ippath.tx.path_mtu import output_mtu4
from ippath.tx.route_output4 import (
    SCOPE_LINK, SCOPE_UNIVERSE, preferred_source, route_output4, select_address,
)  # fmt: skip
from ippath.wire.checksum import checksum
from ippath.wire.icmp import (
    FRAGMENTATION_NEEDED, ICMP_ECHO_REPLY, ICMP_HEADER, ICMP_PARAMETER_PROBLEM, ICMP_REDIRECT,
    ICMP_TIME_EXCEEDED, ICMP_TIMESTAMP_REPLY, ICMP_TYPES, ICMP_UNREACHABLE, REDIRECT_HOST,
)  # fmt: skip
from ippath.wire.ipv4 import (
    CHECKSUM, DESTINATION, FLAGS_OFFSET, HEADER, IDENTIFICATION, IPPROTO_ICMP, OFFSET_MASK,
    PROTOCOL, SOURCE, TOTAL_LENGTH, TTL, is_zeronet,
)  # fmt: skip
from ippath.wire.memory import copy, load8, store8, store16be, store32be

DUMMY_SOURCE = 0xC0000008  # 192.0.0.8 (RFC 7600): when the host has no address to speak from
QUOTE_LIMIT = 576
TOS_ECN_AND_PRECEDENCE = 0x1E
INTERNETWORK_CONTROL = 0xC0
LOOPBACK_DEVICE = 0
# in scratch: the ICMP message, its body; the IP header with its options ends where the message begins
MESSAGE = SCRATCH_PACKET + 60
BODY = MESSAGE + 8
REDIRECT_LOAD_NS = 20_000_000  # ip_rt_redirect_load
REDIRECT_NUMBER = 9
REDIRECT_SILENCE_NS = REDIRECT_LOAD_NS << (REDIRECT_NUMBER + 1)

# what became of a message, for the trace
SENT, SUPPRESSED, LIMITED_ALL, LIMITED_PEER, NO_WAY_BACK = range(5)


ERROR_TYPES = sum(1 << kind for kind in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12))


@kernel
def _is_error_type(kind):
    """Errors, and types that nobody defined (kernel: icmp_pointers[].error; RFC 1122 3.2.2.1)."""
    return (ERROR_TYPES >> kind) & 1 == 1


@kernel
def count_icmp_out(s, kind):
    """Count an ICMP message that leaves (kernel: icmp_out_count)."""
    s.counters[M_IcmpOutMsgs] += 1
    s.counters[M_IcmpMsgOutType0 + kind] += 1
    if kind == ICMP_UNREACHABLE:
        s.counters[M_IcmpOutDestUnreachs] += 1
    elif kind == ICMP_TIME_EXCEEDED:
        s.counters[M_IcmpOutTimeExcds] += 1
    elif kind == ICMP_PARAMETER_PROBLEM:
        s.counters[M_IcmpOutParmProbs] += 1
    elif kind == ICMP_REDIRECT:
        s.counters[M_IcmpOutRedirects] += 1
    elif kind == ICMP_ECHO_REPLY:
        s.counters[M_IcmpOutEchoReps] += 1
    elif kind == ICMP_TIMESTAMP_REPLY:
        s.counters[M_IcmpOutTimestampReps] += 1


@kernel
def _is_limited(h, kind, code):
    """Does icmp_ratemask cover this message? Path MTU discovery never is (kernel: icmpv4_mask_allow)."""
    if kind > ICMP_TYPES or (kind == ICMP_UNREACHABLE and code == FRAGMENTATION_NEEDED):
        return False
    return (h.conf[CONF_ICMP_RATEMASK] >> kind) & 1 == 1


@kernel
def _peer_limit(h, s, limited, out, destination):
    """Per-destination limit; charges the shared bucket if it passes (kernel: icmpv4_xrlim_allow)."""
    if not limited:
        return True
    if h.device[out, DEV_LOOPBACK] == 0 and h.conf[CONF_ICMP_RATELIMIT_NS] > 0:
        peer = find_peer(h, s, 4, 0, destination)
        if not peer_allows(s, peer, h.conf[CONF_ICMP_RATELIMIT_NS]):
            s.counters[M_IcmpOutRateLimitHost] += 1
            return False
    global_consume(s)
    return True


@kernel
def _write_and_send(
    h, s, trace, kind, code, info, source, destination, options, sender, tos, size, counted
):
    """Complete the message whose body is in scratch from BODY and send it."""
    result, fib = s.result[FLOW_OUTPUT], h.fib4
    buf = s.scratch
    icmp = MESSAGE
    ip = icmp - HEADER - options
    if options:
        ip_options_build(s, source, sender)
        copy(buf, ip + HEADER, buf, SCRATCH_OPTIONS, options)
    store8(buf, icmp, kind)
    store8(buf, icmp + 1, code)
    store16be(buf, icmp + 2, 0)
    store32be(buf, icmp + 4, info)
    store16be(buf, icmp + 2, checksum(buf, icmp, size))
    ttl = fib.info[result[RES_INFO], INFO_HOPLIMIT]
    header = HEADER + options
    store16be(buf, ip, ((0x40 | header >> 2) << 8) | tos)
    store16be(buf, ip + TOTAL_LENGTH, header + size)
    store16be(buf, ip + IDENTIFICATION, random32(s) & 0xFFFF)
    store16be(buf, ip + FLAGS_OFFSET, 0)
    store8(buf, ip + TTL, ttl if ttl else h.conf[CONF_DEFAULT_TTL])
    store8(buf, ip + PROTOCOL, IPPROTO_ICMP)
    store16be(buf, ip + CHECKSUM, 0)
    store32be(buf, ip + SOURCE, source)
    store32be(buf, ip + DESTINATION, destination)
    store16be(buf, ip + CHECKSUM, checksum(buf, ip, header))
    count_icmp_out(s, counted)
    ip_output4(h, s, trace, ip, header + size, NONE)


@kernel
def _answer_options(h, s):
    """(size of the options of an answer or INVALID, where it goes first: a source route's hop)."""
    if not s.skb[SKB_OPTIONS]:
        return 0, s.skb[SKB_SRC_LO]
    size = ip_options_echo(h, s)
    return size, s.opt[ECHO_FIRST_HOP] if s.opt[ECHO_SRR] else s.skb[SKB_SRC_LO]


@kernel
def _error_allowed(s, data, kind):
    """The conditions under which no error may be sent (RFC 1122 section 3.2.2)."""
    skb = s.skb
    if skb[DST_SET] != 1 or skb[SKB_PKT_TYPE] != PACKET_HOST:
        return False
    if skb[DST_TYPE] == RTN_MULTICAST or (skb[DST_TYPE] == RTN_BROADCAST and skb[DST_LOCAL] == 1):
        return False  # a broadcast that is forwarded (bc_forwarding) is answered
    if skb[SKB_FRAG] & OFFSET_MASK:
        return False
    if skb[SKB_PROTOCOL] == IPPROTO_ICMP and _is_error_type(kind):
        if skb[SKB_AVAIL] <= skb[SKB_IHL]:
            return False
        inner = load8(data, skb[SKB_IP] + skb[SKB_IHL])
        if inner > ICMP_TYPES or _is_error_type(inner):
            return False
    return True


@cold
def icmp_send(h, s, data, trace, kind, code, info):
    """Answer the packet in hand with an ICMP error, if it may be answered."""
    skb = s.skb
    sender = skb[SKB_SRC_LO]
    if not _error_allowed(s, data, kind):
        note(trace, T_ICMP_SEND, kind, code, sender, SUPPRESSED)
        return
    limited = _is_limited(h, kind, code)
    if h.device[skb[SKB_DEVICE], DEV_LOOPBACK] == 0 and limited and not global_allows(h, s):
        s.counters[M_IcmpOutRateLimitGlobal] += 1
        note(trace, T_ICMP_SEND, kind, code, sender, LIMITED_ALL)
        return
    if skb[DST_LOCAL] == 1:
        source = skb[SKB_DST_LO]
    elif h.conf[CONF_ICMP_INBOUND_IFADDR]:
        source = select_address(h, skb[SKB_DEVICE], sender, SCOPE_LINK)
    else:
        source = 0
    tos = skb[SKB_TOS]
    if _is_error_type(kind):
        tos = (tos & TOS_ECN_AND_PRECEDENCE) | INTERNETWORK_CONTROL
    options, target = _answer_options(h, s)
    if options < 0:
        note(trace, T_ICMP_SEND, kind, code, sender, SUPPRESSED)
        return
    mark = skb[SKB_MARK] if h.conf[CONF_FWMARK_REFLECT4] else 0
    hashed = packet_hash4(h, s, data) if h.conf[CONF_MULTIPATH4] else NONE
    vrf = h.device[skb[SKB_DEVICE], DEV_MASTER]
    if is_zeronet(target) or route_output4(
        h, s, source, target, tos & 0xFC, mark, vrf, IPPROTO_ICMP, 0, hashed, trace
    ):
        note(trace, T_ICMP_SEND, kind, code, sender, NO_WAY_BACK)
        return
    flow = s.flow[FLOW_OUTPUT]
    if not _peer_limit(h, s, limited, flow[FLOW_OIF], target):
        note(trace, T_ICMP_SEND, kind, code, sender, LIMITED_PEER)
        return
    mtu = output_mtu4(h, s, s.result[FLOW_OUTPUT], flow[FLOW_OIF])
    room = min(mtu, QUOTE_LIMIT) - HEADER - options - ICMP_HEADER
    if room <= HEADER:
        return
    source = flow[FLOW_SRC_LO]
    if source == 0:
        source = DUMMY_SOURCE
    quoted = min(skb[SKB_LEN], room)
    copy_packet(s, data, BODY, quoted)
    note(trace, T_ICMP_SEND, kind, code, sender, SENT)
    _write_and_send(
        h, s, trace, kind, code, info, source, target, options, sender, tos, ICMP_HEADER + quoted,
        kind,
    )  # fmt: skip


@kernel
def specific_destination(h, s, trace):
    """The address to answer from (kernel: fib_compute_spec_dst; RFC 1122 section 3.2.1.3)."""
    skb = s.skb
    if skb[DST_LOCAL] == 1 and skb[DST_TYPE] != RTN_BROADCAST and skb[DST_TYPE] != RTN_MULTICAST:
        return skb[SKB_DST_LO]
    scope = SCOPE_UNIVERSE
    if not is_zeronet(skb[SKB_SRC_LO]):
        flow, result = s.flow[FLOW_SPARE], s.result[FLOW_SPARE]
        mark = skb[SKB_MARK] if h.device[skb[SKB_DEVICE], DEV_SRC_VALID_MARK] else 0
        fill_flow4(flow, 0, skb[SKB_SRC_LO], skb[SKB_TOS] & 0xFC, mark, LOOPBACK_DEVICE, NONE)
        flow[FLOW_L3MDEV] = h.device[skb[SKB_DEVICE], DEV_MASTER]
        if fib_lookup4(h, s, FLOW_SPARE, trace) == 0:
            return preferred_source(h, result[RES_INFO], result[RES_NH])
    else:
        scope = SCOPE_LINK
    return select_address(h, skb[SKB_DEVICE], skb[SKB_SRC_LO], scope)


@kernel
def icmp_reply(h, s, trace, kind, code, info, size):
    """Answer an echo or timestamp request; the caller put `size` bytes of body at scratch[BODY]."""
    skb = s.skb
    sender = skb[SKB_SRC_LO]
    options, target = _answer_options(h, s)
    if options < 0:
        note(trace, T_ICMP_SEND, kind, code, sender, SUPPRESSED)
        return
    limited = _is_limited(h, kind, code)
    if limited and not global_allows(h, s):
        s.counters[M_IcmpOutRateLimitGlobal] += 1
        return
    source = specific_destination(h, s, trace)
    mark = skb[SKB_MARK] if h.conf[CONF_FWMARK_REFLECT4] else 0
    vrf = h.device[skb[SKB_DEVICE], DEV_MASTER]
    if route_output4(
        h, s, source, target, skb[SKB_TOS] & 0xFC, mark, vrf, IPPROTO_ICMP, 0, NONE, trace
    ):
        note(trace, T_ICMP_SEND, kind, code, sender, NO_WAY_BACK)
        return
    flow = s.flow[FLOW_OUTPUT]
    if not _peer_limit(h, s, limited, flow[FLOW_OIF], target):
        note(trace, T_ICMP_SEND, kind, code, sender, LIMITED_PEER)
        return
    note(trace, T_ICMP_SEND, kind, code, sender, SENT)
    # Linux counts every reply as an echo reply: the flow that __ip_make_skb asks has no type
    _write_and_send(
        h, s, trace, kind, code, info, flow[FLOW_SRC_LO], target, options, sender, skb[SKB_TOS],
        ICMP_HEADER + size, ICMP_ECHO_REPLY,
    )  # fmt: skip


@cold
def ip_rt_send_redirect(h, s, data, trace):
    """Tell the sender of the packet in hand about the better first hop, not too often."""
    skb = s.skb
    peer = find_peer(h, s, 4, 0, skb[SKB_SRC_LO])
    now = s.misc[MISC_NOW_NS]
    if now - s.peer[peer, PEER_LAST_NS] > REDIRECT_SILENCE_NS:
        s.peer[peer, PEER_TOKENS_NS] = 0
        s.peer[peer, PEER_REDIRECTS] = 0
    sent = s.peer[peer, PEER_REDIRECTS]
    if sent >= REDIRECT_NUMBER:
        s.peer[peer, PEER_LAST_NS] = now
        note(trace, T_REDIRECT, 0)
        return
    if sent and now - s.peer[peer, PEER_LAST_NS] <= REDIRECT_LOAD_NS << sent:
        note(trace, T_REDIRECT, 0)
        return
    gateway = skb[DST_GATEWAY_LO] if skb[DST_GATEWAY_FAMILY] == 4 else skb[SKB_DST_LO]
    note(trace, T_REDIRECT, 1)
    icmp_send(h, s, data, trace, ICMP_REDIRECT, REDIRECT_HOST, gateway)
    s.peer[peer, PEER_LAST_NS] = now
    s.peer[peer, PEER_REDIRECTS] = sent + 1
