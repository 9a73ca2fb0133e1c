"""The multipath hash of the packet in hand (kernel: fib_multipath_hash and rt6_multipath_hash with an
skb).

Errors about a packet are routed by its hash, too, so that they go the way of the flow.
"""

from __future__ import annotations

from ippath.fib.multipath import multipath_hash
from ippath.jit import cold
from ippath.rx.dissect4 import dissect_ports
from ippath.rx.dissect6 import dissect6
from ippath.tables import (
    CONF_HASH_POLICY4, CONF_HASH_POLICY6, FLOW_DPORT, FLOW_DST_HI, FLOW_DST_LO, FLOW_LABEL,
    FLOW_PROTOCOL, FLOW_SPARE, FLOW_SPORT, FLOW_SRC_HI, FLOW_SRC_LO, SKB_AVAIL, SKB_DST_HI,
    SKB_DST_LO, SKB_FRAG, SKB_IHL, SKB_IP, SKB_PROTOCOL, SKB_SRC_HI, SKB_SRC_LO,
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
    skb, flow = s.skb, s.flow[FLOW_SPARE]
    flow[FLOW_SRC_HI] = flow[FLOW_DST_HI] = 0
    flow[FLOW_SRC_LO], flow[FLOW_DST_LO] = skb[SKB_SRC_LO], skb[SKB_DST_LO]
    if h.conf[CONF_HASH_POLICY4] == 0:
        _take_quoted4(s, data, flow)
    else:
        dissect_ports(s, data, flow)
    return multipath_hash(h, flow, False, True)


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
def packet_hash6(h, s, data):
    """31-bit hash of the IPv6 packet in hand by net.ipv6.fib_multipath_hash_policy."""
    skb, flow, ip = s.skb, s.flow[FLOW_SPARE], s.skb[SKB_IP]
    if h.conf[CONF_HASH_POLICY6] == 0:
        _fill6(data, flow, _quoted6(s, data))
        flow[FLOW_SPORT] = flow[FLOW_DPORT] = 0
    else:
        _fill6(data, flow, ip)
        dissect6(s, data, flow)
    if h.conf[CONF_HASH_POLICY6]:  # a routing header may have changed the destination
        flow[FLOW_SRC_HI], flow[FLOW_SRC_LO] = skb[SKB_SRC_HI], skb[SKB_SRC_LO]
        flow[FLOW_DST_HI], flow[FLOW_DST_LO] = skb[SKB_DST_HI], skb[SKB_DST_LO]
    return multipath_hash(h, flow, True, True)


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
    """Where the header is that counts: an ICMPv6 error counts as the packet that it quotes.

    Kernel: ip6_multipath_l3_keys, which looks for errors only where they follow the header at once.
    """
    ip = s.skb[SKB_IP]
    message = ip + HEADER
    if load8(data, ip + NEXT_HEADER) != NEXTHDR_ICMP:
        return ip
    if s.skb[SKB_AVAIL] < HEADER + ICMP_HEADER + HEADER:
        return ip
    kind = load8(data, message)
    if kind < ICMP6_UNREACHABLE or kind > ICMP6_PARAMETER_PROBLEM:
        return ip
    return message + ICMP_HEADER
