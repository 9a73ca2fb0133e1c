"""The multipath hash of the packet in hand (kernel: fib_multipath_hash and rt6_multipath_hash with an
skb).

Errors about a packet are routed by its hash, too, so that they go the way of the flow.
"""

from __future__ import annotations

from ippath.fib.multipath import INNER_SHIFT, OUTER, flow_hash, join_hashes, policy_fields
from ippath.jit import cold, kernel
from ippath.rx.flow_dissector import FLOW_IS_IPV6, IN_TUNNEL, flow_dissect
from ippath.tables import (
    CONF_HASH_FIELDS4, CONF_HASH_FIELDS6, CONF_HASH_POLICY4, CONF_HASH_POLICY6, FLOW_DST_HI,
    FLOW_DST_LO, FLOW_LABEL, FLOW_PROTOCOL, FLOW_SPARE, FLOW_SRC_HI, FLOW_SRC_LO, SKB_AVAIL,
    SKB_DST_HI, SKB_DST_LO, SKB_FRAG, SKB_IHL, SKB_IP, SKB_PROTOCOL, SKB_SRC_HI, SKB_SRC_LO,
)  # fmt: skip
from ippath.wire.icmp import (
    ICMP6_PARAMETER_PROBLEM, ICMP6_UNREACHABLE, ICMP_HEADER, ICMP_PARAMETER_PROBLEM, ICMP_REDIRECT,
    ICMP_SOURCE_QUENCH, ICMP_TIME_EXCEEDED, ICMP_UNREACHABLE,
)  # fmt: skip
from ippath.wire.ipv4 import IPPROTO_ICMP, OFFSET_MASK
from ippath.wire.ipv6 import DESTINATION, HEADER, NEXTHDR_ICMP, NEXT_HEADER, SOURCE
from ippath.wire.memory import load8, load32be, load64be

HEADER4 = 20


@cold
def packet_hash4(h, s, data):
    """31-bit hash of the IPv4 packet in hand by net.ipv4.fib_multipath_hash_policy."""
    skb, flow, policy = s.skb, s.flow[FLOW_SPARE], h.conf[CONF_HASH_POLICY4]
    if policy == 3:
        return _chosen_fields(h, s, data, h.conf[CONF_HASH_FIELDS4], False)
    if policy == 2:
        return _innermost(h, s, data, False)
    if policy == 1:
        flow_dissect(s, data, False, True)
    else:
        flow[FLOW_SRC_HI] = flow[FLOW_DST_HI] = 0
        flow[FLOW_SRC_LO], flow[FLOW_DST_LO] = skb[SKB_SRC_LO], skb[SKB_DST_LO]
        _take_quoted4(s, data, flow)
    return flow_hash(h, flow, policy_fields(policy, 0, False), False, True) >> 1


@cold
def _innermost(h, s, data, family6):
    """Addresses of the innermost packet, and its label and protocol if that is IPv6 (policy 2)."""
    inner6 = flow_dissect(s, data, family6, False) & FLOW_IS_IPV6 != 0
    fields = policy_fields(2, 0, inner6)
    return flow_hash(h, s.flow[FLOW_SPARE], fields, inner6, True) >> 1


@cold
def _chosen_fields(h, s, data, fields, family6):
    """Fields of the packet and of what it carries (policy 3; kernel: fib_multipath_custom_hash_skb,
    rt6_multipath_custom_hash_skb)."""
    flow, outer, inner = s.flow[FLOW_SPARE], 0, 0
    tunnel = IN_TUNNEL  # not known yet
    if fields & OUTER:
        tunnel = flow_dissect(s, data, family6, True) & IN_TUNNEL
        _take_rewritten(s, flow, family6)
        outer = flow_hash(h, flow, fields & OUTER, family6, True)
    fields >>= INNER_SHIFT
    if tunnel and fields & OUTER:
        found = flow_dissect(s, data, family6, False)
        if found & IN_TUNNEL:
            inner = flow_hash(h, flow, fields & OUTER, found & FLOW_IS_IPV6 != 0, True)
    return join_hashes(outer, inner) >> 1


@kernel
def _take_rewritten(s, flow, family6):
    """Take the addresses as they are now: a routing header may have changed the destination."""
    if family6:
        flow[FLOW_SRC_HI], flow[FLOW_SRC_LO] = s.skb[SKB_SRC_HI], s.skb[SKB_SRC_LO]
        flow[FLOW_DST_HI], flow[FLOW_DST_LO] = s.skb[SKB_DST_HI], s.skb[SKB_DST_LO]


@cold
def _take_quoted4(s, data, flow):
    """An ICMP error counts as the packet that it quotes (kernel: ip_multipath_l3_keys)."""
    skb = s.skb
    at, ip = skb[SKB_IHL], skb[SKB_IP]
    if skb[SKB_PROTOCOL] != IPPROTO_ICMP or skb[SKB_FRAG] & OFFSET_MASK:
        return
    if skb[SKB_AVAIL] < at + ICMP_HEADER + HEADER4:
        return
    kind = load8(data, ip + at)
    if (
        kind == ICMP_UNREACHABLE
        or kind == ICMP_SOURCE_QUENCH
        or kind == ICMP_REDIRECT
        or kind == ICMP_TIME_EXCEEDED
        or kind == ICMP_PARAMETER_PROBLEM
    ):
        flow[FLOW_SRC_LO] = load32be(data, ip + at + ICMP_HEADER + 12)
        flow[FLOW_DST_LO] = load32be(data, ip + at + ICMP_HEADER + 16)


@cold
def packet_hash6(h, s, data, dissected):
    """31-bit hash of the IPv6 packet in hand by net.ipv6.fib_multipath_hash_policy.

    `dissected`: it is an ICMPv6 message whose flow the dissector found before, for rules by ports
    or protocol.  The kernel then takes all from there (ip6_multipath_l3_keys).
    """
    flow, policy = s.flow[FLOW_SPARE], h.conf[CONF_HASH_POLICY6]
    if policy == 3:
        return _chosen_fields(h, s, data, h.conf[CONF_HASH_FIELDS6], True)
    if policy == 2:
        return _innermost(h, s, data, True)
    fields = policy_fields(policy, 0, True)
    if policy == 0:
        quoted = _quoted6(s, data)
        if quoted:
            _fill6(data, flow, quoted)
            return flow_hash(h, flow, fields, True, False) >> 1
        if not dissected:
            _fill6(data, flow, s.skb[SKB_IP])
            _take_rewritten(s, flow, True)
            return flow_hash(h, flow, fields, True, False) >> 1
    flow_dissect(s, data, True, True)
    _take_rewritten(s, flow, True)
    return flow_hash(h, flow, fields, True, True) >> 1


@cold
def _fill6(data, flow, ip):
    """Fill addresses, flow label and next header of a flow from the IPv6 header at `data[ip]`."""
    flow[FLOW_SRC_HI] = load64be(data, ip + SOURCE)
    flow[FLOW_SRC_LO] = load64be(data, ip + SOURCE + 8)
    flow[FLOW_DST_HI] = load64be(data, ip + DESTINATION)
    flow[FLOW_DST_LO] = load64be(data, ip + DESTINATION + 8)
    flow[FLOW_LABEL] = load32be(data, ip) & 0xFFFFF
    flow[FLOW_PROTOCOL] = load8(data, ip + NEXT_HEADER)


@cold
def _quoted6(s, data):
    """Where the header of a quoted packet is: it counts in place of the ICMPv6 error; or 0.

    Kernel: ip6_multipath_l3_keys, which looks for errors only where they follow the header at once.
    """
    ip = s.skb[SKB_IP]
    message = ip + HEADER
    if load8(data, ip + NEXT_HEADER) != NEXTHDR_ICMP:
        return 0
    if s.skb[SKB_AVAIL] < HEADER + ICMP_HEADER + HEADER:
        return 0
    kind = load8(data, message)
    if kind < ICMP6_UNREACHABLE or kind > ICMP6_PARAMETER_PROBLEM:
        return 0
    return message + ICMP_HEADER
