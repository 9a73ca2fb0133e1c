"""Redirects: a router says that another first hop is better (kernel: __ip_do_redirect,
rt6_do_redirect; RFC 1122 section 3.2.2.2, RFC 4861 section 8).

In:  a redirect about a packet that this host sent, checked by who sent it.   Out: an exception for
its destination with a gateway of its own.  Only the gateway that the destination has now is believed.
"""

from __future__ import annotations

from ippath.fib.exceptions import make_exception, owner4, owner6
from ippath.fib.first_hop6 import first_hop6
from ippath.fib.local import is_elsewhere
from ippath.fib.lookup4 import fib_lookup4
from ippath.jit import cold, kernel
from ippath.tables import (
    ADDR_DEVICE, ADDR_FAMILY, ADDR_PLEN, ADDR_PREFIX_LO, CONF_FWMARK_REFLECT4,
    CONF_REDIRECT_EXPIRES_NS, DEV_ACCEPT_REDIRECTS, DEV_ACCEPT_REDIRECTS6, DEV_FORWARDING6,
    DEV_HAS4, DEV_SECURE_REDIRECTS, DEV_SHARED_MEDIA, EXC_EXPIRES_NS, EXC_GATEWAY_FAMILY,
    EXC_GATEWAY_HI, EXC_GATEWAY_LO, EXC_LOCKED, EXC_MTU, FLOW_DST_HI, FLOW_DST_LO, FLOW_HAS_SRC,
    FLOW_IIF, FLOW_LABEL, FLOW_MARK, FLOW_OIF, FLOW_OUTPUT, FLOW_PROTOCOL, FLOW_SRC_HI, FLOW_SRC_LO,
    FLOW_TOS, MISC_NOW_NS, NH_DEAD, NH_DEVICE, NH_GATEWAY_FAMILY, NH_LO, NONE, RES_NH, SKB_DEVICE,
    SKB_IP, SKB_LEN, SKB_MARK, SKB_SRC_HI, SKB_SRC_LO,
)  # fmt: skip
from ippath.trace import T_REDIRECTED, T_REDIRECTED6, note
from ippath.tx.emit import neighbour_answers
from ippath.tx.path_mtu import next_hop
from ippath.tx.route_output4 import route_output4
from ippath.wire.ipv4 import (
    DESTINATION,
    SOURCE,
    TOS,
    is_limited_broadcast,
    is_multicast,
    is_zeronet,
)
from ippath.wire.ipv6 import is_link_local
from ippath.wire.ipv6 import is_multicast as is_multicast6
from ippath.wire.memory import load8, load32be, load64be
from ippath.wire.ndisc import (
    OPTION_UNIT, OPT_TARGET_ADDRESS, REDIRECT_DESTINATION, REDIRECT_HEADER, TARGET, find_option,
)  # fmt: skip

KNOWN_CODES = 3  # ICMP_REDIR_NET to ICMP_REDIR_HOSTTOS
LOOPBACK_DEVICE = 0
DSCP = 0xFC
# what became of a redirect (trace)
BELIEVED, NO_ROUTE, NOT_FIRST_HOP, NOT_ACCEPTED, BAD_GATEWAY, OFF_LINK, NOT_A_GATEWAY, SILENT = (
    range(8)
)


@kernel
def _on_link(h, device, gateway, other):
    """Are both in one network of the device (kernel: inet_addr_onlink)?"""
    address = h.address
    for row in range(address.shape[0]):
        if address[row, ADDR_FAMILY] == 4 and address[row, ADDR_DEVICE] == device:
            free, prefix = 32 - address[row, ADDR_PLEN], address[row, ADDR_PREFIX_LO]
            if gateway >> free == prefix >> free and other >> free == prefix >> free:
                return True
    return False


@kernel
def _is_known_gateway(h, device, gateway):
    """Is it the gateway of some route by the device (kernel: ip_fib_check_default)?"""
    hops = h.fib4.nexthop
    for nh in range(hops.shape[0]):
        if (
            hops[nh, NH_LO] == gateway
            and hops[nh, NH_GATEWAY_FAMILY] == 4
            and hops[nh, NH_DEVICE] == device
            and not hops[nh, NH_DEAD]
        ):
            return True
    return False


@kernel
def _judge_gateway4(h, device, gateway, sender):
    """May the sender, who is the gateway, name this one instead?"""
    if not h.device[device, DEV_ACCEPT_REDIRECTS]:
        return NOT_ACCEPTED
    if (
        gateway == sender
        or is_multicast(gateway)
        or is_limited_broadcast(gateway)
        or is_zeronet(gateway)
    ):
        return BAD_GATEWAY
    if h.device[device, DEV_SHARED_MEDIA]:
        return BELIEVED if is_elsewhere(h, gateway) else BAD_GATEWAY
    if not _on_link(h, device, gateway, sender):
        return OFF_LINK
    if h.device[device, DEV_SECURE_REDIRECTS] and not _is_known_gateway(h, device, gateway):
        return NOT_A_GATEWAY
    return BELIEVED


@kernel
def _judge4(h, s, destination, gateway, trace):
    """What to do with a redirect about the route in the OUTPUT rows; takes it if it is believed."""
    skb, flow, result = s.skb, s.flow[FLOW_OUTPUT], s.result[FLOW_OUTPUT]
    if result[RES_NH] == NONE:
        return NOT_FIRST_HOP
    family, _, now = next_hop(h.fib4, s, result, 0, 0, 0)
    if family != 4 or now != skb[SKB_SRC_LO] or h.device[skb[SKB_DEVICE], DEV_HAS4] == 0:
        return NOT_FIRST_HOP
    fate = _judge_gateway4(h, skb[SKB_DEVICE], gateway, now)
    if fate != BELIEVED:
        return fate
    if not neighbour_answers(h, trace, flow[FLOW_OIF], 4, 0, gateway):
        return SILENT
    if fib_lookup4(h, s, FLOW_OUTPUT, trace):
        return NO_ROUTE
    nh = result[RES_NH]
    row = make_exception(h, s, h.fib4.nexthop[nh, NH_DEVICE], owner4(h, nh), 4, 0, destination)
    entry = s.exception[row]
    entry[EXC_GATEWAY_FAMILY], entry[EXC_GATEWAY_HI], entry[EXC_GATEWAY_LO] = 4, 0, gateway
    entry[EXC_EXPIRES_NS] = max(1, s.misc[MISC_NOW_NS] + h.conf[CONF_REDIRECT_EXPIRES_NS])
    return BELIEVED


@cold
def redirect4(h, s, data, at, quoted, protocol, oif, trace):
    """Take the redirect at `data[at]` about the packet quoted at `data[quoted]`.

    Its flow is looked up as it was sent (kernel: ipv4_redirect, ipv4_sk_redirect).
    """
    source, destination = load32be(data, quoted + SOURCE), load32be(data, quoted + DESTINATION)
    gateway = load32be(data, at + 4)
    mark = s.skb[SKB_MARK] if h.conf[CONF_FWMARK_REFLECT4] else 0
    tos = load8(data, quoted + TOS) & DSCP
    fate = NO_ROUTE
    if load8(data, at + 1) & 7 <= KNOWN_CODES:
        if not route_output4(h, s, source, destination, tos, mark, oif, protocol, 0, NONE, trace):
            fate = _judge4(h, s, destination, gateway, trace)
    note(trace, T_REDIRECTED, destination, gateway, s.skb[SKB_SRC_LO], fate)


# --- IPv6 -----------------------------------------------------------------------------------------------


@kernel
def _judge6(h, s, data, at, trace):
    """What to do with a redirect about the flow in the OUTPUT row; takes it if it is believed."""
    skb, device = s.skb, s.skb[SKB_DEVICE]
    route, nh = first_hop6(h, s, FLOW_OUTPUT, skb[SKB_SRC_HI], skb[SKB_SRC_LO], trace)
    to_hi, to_lo = load64be(data, at + TARGET), load64be(data, at + TARGET + 8)
    hi, lo = (
        load64be(data, at + REDIRECT_DESTINATION),
        load64be(data, at + REDIRECT_DESTINATION + 8),
    )
    on_link = hi == to_hi and lo == to_lo
    if is_multicast6(hi) or not (on_link or is_link_local(to_hi)):
        return BAD_GATEWAY
    if h.device[device, DEV_FORWARDING6] or not h.device[device, DEV_ACCEPT_REDIRECTS6]:
        return NOT_ACCEPTED
    end = skb[SKB_IP] + skb[SKB_LEN]
    option = find_option(data, at + REDIRECT_HEADER, end, OPT_TARGET_ADDRESS)
    if option >= 0 and load8(data, option + 1) * OPTION_UNIT != OPTION_UNIT:
        return BAD_GATEWAY
    if route < 0:
        return NOT_FIRST_HOP
    row = make_exception(h, s, h.fib6.nexthop[nh, NH_DEVICE], owner6(h, route, nh), 6, hi, lo)
    entry = s.exception[row]  # in place of what was known
    entry[EXC_MTU] = entry[EXC_LOCKED] = entry[EXC_EXPIRES_NS] = 0
    entry[EXC_GATEWAY_FAMILY], entry[EXC_GATEWAY_HI], entry[EXC_GATEWAY_LO] = 6, to_hi, to_lo
    return BELIEVED


@cold
def redirect6(h, s, data, at, src_hi, src_lo, dst_hi, dst_lo, oif, trace):
    """Take the redirect at `data[at]` about a packet from `src` to `dst` (kernel: ip6_redirect).

    All of it is in the capture, and its options end well.
    """
    flow = s.flow[FLOW_OUTPUT]
    flow[FLOW_SRC_HI], flow[FLOW_SRC_LO] = src_hi, src_lo
    flow[FLOW_DST_HI], flow[FLOW_DST_LO] = dst_hi, dst_lo
    flow[FLOW_TOS] = flow[FLOW_MARK] = flow[FLOW_PROTOCOL] = flow[FLOW_LABEL] = 0
    flow[FLOW_IIF], flow[FLOW_OIF], flow[FLOW_HAS_SRC] = LOOPBACK_DEVICE, oif, 1
    fate = _judge6(h, s, data, at, trace)
    note(trace, T_REDIRECTED6, dst_hi, dst_lo, fate)
