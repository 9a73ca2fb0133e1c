"""The ports of an IPv4 packet (kernel: __skb_flow_dissect)."""

from __future__ import annotations

from ippath.jit import cold
from ippath.tables import (
    FLOW_DPORT, FLOW_PROTOCOL, FLOW_SPORT, SKB_AVAIL, SKB_FRAG, SKB_IHL, SKB_IP, SKB_PROTOCOL,
)  # fmt: skip
from ippath.wire.ipv4 import IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE
from ippath.wire.memory import load16be


@cold
def dissect_ports(s, data, flow):
    """Fill protocol and ports of a flow from the packet (kernel: fib4_rules_early_flow_dissect)."""
    skb = s.skb
    protocol = skb[SKB_PROTOCOL]
    flow[FLOW_PROTOCOL] = protocol
    flow[FLOW_SPORT] = 0
    flow[FLOW_DPORT] = 0
    at = skb[SKB_IHL]
    if skb[SKB_FRAG] == 0 and skb[SKB_AVAIL] >= at + 4:  # a first fragment's ports do not count
        if protocol == IPPROTO_TCP or protocol == IPPROTO_UDP or protocol == IPPROTO_UDPLITE:
            flow[FLOW_SPORT] = load16be(data, skb[SKB_IP] + at)
            flow[FLOW_DPORT] = load16be(data, skb[SKB_IP] + at + 2)
