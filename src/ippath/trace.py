"""What a stage did to a packet, as rows of numbers: the trace behind `ippath explain`.

Every stage calls `note(trace, T_STEP, …)` where it decides something.  In the fast build `trace` is
None and the call compiles to nothing; in the traced run it is an int64 array and each call adds a
row.  The sentences live here, next to the stage and kernel function that they belong to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ippath.jit import COMPILED

TRACE_ROWS, TRACE_VALUES = 512, 6


@dataclass(frozen=True)
class Step:
    """One kind of trace row.  `text` formats the values: {0:dev}, {1:ip4}, {2:route4} …"""

    name: str
    stage: str
    function: str  # the kernel function that makes the same check
    text: str
    sysctl: str = ""  # the setting that decides here


STEPS: list[Step] = []


def _step(name: str, stage: str, function: str, text: str, sysctl: str = "") -> int:
    STEPS.append(Step(name, stage, function, text, sysctl))
    return len(STEPS) - 1


if COMPILED:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def note(typing, trace, step, *values):
        """Add a row to the trace; no code at all when `trace` is None."""
        signature = types.void(trace, step, types.StarArgTuple(values))

        def codegen(context, builder, sig, args):
            if not isinstance(sig.args[0], types.Array):
                return context.get_dummy_value()
            array = context.make_array(sig.args[0])(context, builder, args[0])
            i64 = ir.IntType(64)
            row = builder.add(builder.load(array.data), ir.Constant(i64, 1))
            with builder.if_then(builder.icmp_signed("<", row, ir.Constant(i64, TRACE_ROWS))):
                builder.store(row, array.data)
                first = builder.mul(row, ir.Constant(i64, 1 + TRACE_VALUES))
                given = [(sig.args[1], args[1])]
                unpacked = cgutils.unpack_tuple(builder, args[2]) if len(sig.args[2]) else []
                given += list(zip(sig.args[2], unpacked))
                for k, (kind, value) in enumerate(given):
                    word = context.cast(builder, value, kind, types.int64)
                    at = builder.add(first, ir.Constant(i64, k))
                    builder.store(word, builder.gep(array.data, [at]))
            return context.get_dummy_value()

        return signature, codegen

else:

    def note(trace, step, *values):
        """Add a row to the trace; nothing at all when `trace` is None."""
        if trace is None:
            return
        row = trace[0, 0] + 1
        if row < TRACE_ROWS:
            trace[0, 0] = row
            trace[row, 0] = step
            for k, value in enumerate(values):
                trace[row, k + 1] = value


# why a route was passed over
SKIP_TOS, SKIP_SCOPE, SKIP_HOPS = range(3)


def new_trace() -> np.ndarray:
    """An empty trace: int64[TRACE_ROWS, 1 + TRACE_VALUES], row 0 holds the count."""
    return np.zeros((TRACE_ROWS, 1 + TRACE_VALUES), np.int64)


# fmt: off
T_LINK = _step("link", "link", "eth_type_trans", "frame from {0:dev}: {1:pkttype}, EtherType {2:hex4}, IP header at byte {3}")
T_LINK_MAC = _step("link address", "link", "eth_type_trans", "destination {0:mac}, device {2:dev} has {1:mac}: {3:pkttype}")
T_WPAN = _step("link", "link", "ieee802154_subif_frame", "IEEE 802.15.4 frame to {0:wpan}: {2:pkttype}")
T_WPAN_FCS = _step("checksum", "link", "ieee802154_rx", "the frame check sequence is wrong")
T_LOWPAN_DISPATCH = _step("dispatch", "lowpan", "lowpan_invoke_rx_handlers", "dispatch {0:hex}: {0:dispatch}")
T_LOWPAN_REFUSED = _step("dispatch", "lowpan", "lowpan_rx_h_check", "not an intra-PAN data frame with a known dispatch: dropped")
T_LOWPAN_IPHC = _step("header compression", "lowpan", "lowpan_header_decompress", "{0} bytes of headers become {1}")
T_LOWPAN_WRONG = _step("header compression", "lowpan", "lowpan_header_decompress", "wrong after {0} bytes of headers: {1:lowpan}")
T_LOWPAN_FRAGMENT = _step("fragment", "lowpan", "lowpan_frag_rcv", "bytes {0} to {1} of a datagram of {2}, tag {3}")
T_LOWPAN_PLACE = _step("place", "lowpan", "lowpan_frag_queue", "{0:lowpanplace}", "net.ieee802154.6lowpan.6lowpanfrag_high_thresh")
T_LOWPAN_JOINED = _step("reassembled", "lowpan", "lowpan_frag_reasm", "an IPv6 packet of {0} bytes")
T_VLAN = _step("vlan", "link", "vlan_do_receive", "VLAN {0} on {1:dev} goes to {2:dev}")
T_VLAN_UNKNOWN = _step("vlan", "link", "__netif_receive_skb_core", "VLAN {0} has no device on {1:dev}: the frame counts as another machine's")
T_IP_RCV = _step("header", "ipv4_input", "ip_rcv_core", "version {0}, header {1} bytes, total length {2} of {3} received")
T_IP_CSUM = _step("checksum", "ipv4_input", "ip_rcv_core", "header checksum {0:okbad}")
T_HINT = _step("route hint", "hint", "ip_route_use_hint", "same destination and TOS as the previous packet of the list: its route is reused")
T_HINT_STRICT = _step("route hint", "hint", "ip_route_use_hint", "the hint's route is reused, the source is validated all the same (route_hint=strict)", "switch route_hint")
T_EARLY_DEMUX = _step("early demux", "udp", "udp_v4_early_demux", "{0:socket} is connected to the sender: the route of its datagrams before is taken, no look-up, no source check", "net.ipv4.ip_early_demux")
T_MARTIAN_SOURCE = _step("martian source", "route_input", "ip_route_input_slow", "source {0:ip4}: {1:reason}")
T_MARTIAN_DEST = _step("martian destination", "route_input", "ip_route_input_slow", "destination {0:ip4}: {1:reason}")
T_LOCALNET = _step("loopback address", "route_input", "ip_route_input_slow", "loopback address {0:ip4} on {1:dev}: route_localnet is {2}", "net.ipv4.conf.{dev}.route_localnet")
T_RULE4 = _step("rule", "fib", "fib_rules_lookup", "rule {0:rule4}: {1:matches}")
T_RULE6 = _step("rule", "fib", "fib_rules_lookup", "rule {0:rule6}: {1:matches}")
T_SUPPRESS4 = _step("rule", "fib", "fib4_rule_suppress", "rule {0:rule4} suppresses the result {1:route4}")
T_SUPPRESS6 = _step("rule", "fib", "fib6_rule_suppress", "rule {0:rule6} suppresses the result {1:route6}")
T_TABLE4 = _step("table", "fib", "fib_table_lookup", "table {0:table}: {1:route4}")
T_TABLE6 = _step("table", "fib", "fib6_table_lookup", "table {0:table}: {1:route6}")
T_FIB_MISS4 = _step("table", "fib", "fib_table_lookup", "table {0:table} has no route to {1:ip4}")
T_FIB_MISS6 = _step("table", "fib", "fib6_table_lookup", "table {0:table} has no route to {1:ip6}")
T_SKIP4 = _step("route", "fib", "fib_table_lookup", "{0:route4} is passed over: {1:skip}")
T_SKIP6 = _step("route", "fib", "rt6_score_route", "{0:route6} is passed over: {1:skip}")
T_SOURCE6 = _step("source", "fib", "fib6_node_lookup", "{0:route6} and others of this prefix want another source")
T_FIB_ERROR = _step("look-up", "fib", "fib_lookup", "the look-up ends with {0:errno}")
T_NO_FORWARD4 = _step("forwarding", "route_input", "ip_route_input_slow", "not an address of this host, and {0:dev} does not forward", "net.ipv4.conf.{dev}.forwarding")
T_BROADCAST = _step("broadcast", "route_input", "ip_route_input_slow", "{0:ip4} is a broadcast address")
T_RPF_OFF = _step("source check", "source validation", "fib_validate_source", "rp_filter is 0 on {0:dev}: source {1:ip4} is accepted without a look-up", "net.ipv4.conf.{dev}.rp_filter")
T_RPF_LOCAL = _step("source check", "source validation", "fib_validate_source", "source {1:ip4} is an address of this host and accept_local is {2} on {0:dev}", "net.ipv4.conf.{dev}.accept_local")
T_RPF_LOOKUP = _step("source check", "source validation", "__fib_validate_source", "rp_filter {2} on {0:dev}: where would a reply to {1:ip4} leave? (mark {3:hex} used)", "net.ipv4.conf.{dev}.rp_filter")
T_RPF_NOROUTE = _step("source check", "source validation", "__fib_validate_source", "no route back to {1:ip4}, rp_filter {2} on {0:dev}", "net.ipv4.conf.{dev}.rp_filter")
T_RPF_MATCH = _step("source check", "source validation", "__fib_validate_source", "the way back, {1:route4}, uses {0:dev}: valid")
T_RPF_STRICT = _step("source check", "source validation", "__fib_validate_source", "the way back is {1:route4} by {2:dev}, but the packet came in on {0:dev}; rp_filter 1 wants the same device", "net.ipv4.conf.{dev}.rp_filter")
T_RPF_LOOSE = _step("source check", "source validation", "__fib_validate_source", "the way back is {1:route4} by {2:dev}; rp_filter {3} accepts any device", "net.ipv4.conf.{dev}.rp_filter")
T_RPF_TYPE = _step("source check", "source validation", "__fib_validate_source", "the source {0:ip4} belongs to {1:route4}, which is no host")
T_MCAST = _step("multicast", "route_input", "ip_route_input_mc", "group {0:ip4} on {1:dev}: {2:joined}")
T_ROUTE4 = _step("route", "route_input", "ip_route_input_slow", "{0:route4} ({1:rtype}) by {2:dev}")
T_MULTIPATH = _step("multipath", "route_input", "fib_select_path", "hash {0:hex} chooses next hop {1} of {2}", "net.ipv4.fib_multipath_hash_policy")
T_OPTIONS = _step("options", "ipv4_options", "ip_rcv_options", "IPv4 options: error at byte {0}")
T_SRR_NEXT = _step("options", "ipv4_options", "ip_options_rcv_srr", "the source route leads on to {0:ip4}")
T_SRR = _step("options", "ipv4_options", "ip_rcv_options", "source route option, accept_source_route is {1} on {0:dev}", "net.ipv4.conf.{dev}.accept_source_route")
T_L2MCAST = _step("link-level multicast", "ipv4_input", "ip_rcv_finish_core", "unicast address in a link-level {0:pkttype} frame; drop_unicast_in_l2_multicast is {2} on {1:dev}", "net.ipv4.conf.{dev}.drop_unicast_in_l2_multicast")
T_ERROR_ROUTE = _step("error route", "route_input", "ip_error", "error route: {0:errno}; forwarding is {2} on {1:dev}")
T_DELIVER = _step("local delivery", "local_deliver", "ip_local_deliver_finish", "for this host, protocol {0}: {1:handler}")
T_FRAGMENT = _step("fragment", "local_deliver", "ip_frag_queue", "bytes {0} to {1} of a datagram, {2:more}")
T_FRAG_QUEUE = _step("reassembly", "local_deliver", "inet_frag_find", "{0} other fragments of it are held, {1} bytes; {2} bytes of memory in use, limit {3}", "net.ipv4.ipfrag_high_thresh")
T_FRAG_QUEUE6 = _step("reassembly", "local_deliver", "inet_frag_find", "{0} other fragments of it are held, {1} bytes; {2} bytes of memory in use, limit {3}", "net.ipv6.ip6frag_high_thresh")
T_FRAG_REFUSED = _step("reassembly", "local_deliver", "inet_frag_find", "{0} bytes of memory are in use, {1} are allowed: no fragment is taken", "net.ipv4.ipfrag_high_thresh")
T_FRAG_REFUSED6 = _step("reassembly", "local_deliver", "inet_frag_find", "{0} bytes of memory are in use, {1} are allowed: no fragment is taken", "net.ipv6.ip6frag_high_thresh")
T_FRAG_QUEUE_CT6 = _step("reassembly", "conntrack", "inet_frag_find", "{0} other fragments of it are held, {1} bytes; {2} bytes of memory in use, limit {3}", "net.netfilter.nf_conntrack_frag6_high_thresh")
T_FRAG_REFUSED_CT6 = _step("reassembly", "conntrack", "inet_frag_find", "{0} bytes of memory are in use, {1} are allowed: no fragment is taken", "net.netfilter.nf_conntrack_frag6_high_thresh")
T_CONNTRACK4 = _step("connection tracking", "conntrack", "ipv4_conntrack_defrag", "fragments are put together before they are routed (switch conntrack_defrag)")
T_CONNTRACK6 = _step("connection tracking", "conntrack", "ipv6_defrag", "fragments are put together before they are routed (switch conntrack_defrag); fragment header at byte {0}")
T_FRAG_TOO_FAR = _step("distance", "local_deliver", "ip_frag_too_far", "{0} fragments of other datagrams came from the source since the last of this one, fewer than {1} are allowed: it begins anew", "net.ipv4.ipfrag_max_dist")
T_FRAG_LENGTH = _step("length", "local_deliver", "ip_frag_queue", "the fragment ends at byte {0}; known of the datagram: {1} bytes, {2:final}")
T_FRAG_PLACE = _step("place", "local_deliver", "inet_frag_queue_insert", "{0:place}")
T_FRAG_HELD = _step("waiting", "local_deliver", "ip_frag_queue", "{0} bytes of {1:total} are there: it waits for the others, {2} ms at most")
T_FRAG_TRUNCATED = _step("first fragment", "local_deliver", "ipv6frag_thdr_truncated", "the first fragment ends inside the upper-layer header")
T_FRAG_ECN = _step("ecn", "local_deliver", "ip_frag_reasm", "complete, but some fragments are ECN-capable and some are not (set {0:hex}): discarded")
T_FRAG_OVERSIZE = _step("length", "local_deliver", "ip_frag_reasm", "{0} bytes, the most is {1}")
T_FRAG_JOINED = _step("reassembled", "local_deliver", "ip_frag_reasm", "{0} fragments make a datagram of {1} bytes; captured: {2:whole}")
T_UDP_LENGTH = _step("length", "udp_receive", "udp_rcv", "UDP length {0}, {1} bytes present")
T_UDP_CSUM = _step("checksum", "udp_receive", "udp4_csum_init", "UDP checksum {0:okbad}")
T_UDP_SOCKET = _step("socket", "udp_receive", "__udp4_lib_lookup", "destination port {0}: {1:socket}")
T_UDP_QUEUE = _step("queue", "udp_receive", "__udp_enqueue_schedule_skb", "{0} bytes queued, limit {1}: {2:okfull}", "net.core.rmem_default")
T_UDP_FLUSH = _step("fan-out", "udp_receive", "__udp4_lib_mcast_deliver", "{0} sockets take a copy")
T_ICMP_IN = _step("icmp", "icmp_input", "icmp_rcv", "ICMP type {0} code {1}")
T_FORWARD_L2 = _step("forward", "forward", "ip_forward", "the frame was a link-level {0:pkttype}: not forwarded")
T_TTL = _step("hop count", "forward", "ip_forward", "TTL {0}")
T_MTU = _step("mtu", "forward", "ip_forward", "{0} bytes, MTU {1} on {2:dev}, DF {3}")
T_FRAGMENTED = _step("fragmentation", "forward", "ip_do_fragment", "cut into {0} fragments of at most {1} bytes")
T_REFRAGMENTED = _step("fragmentation", "forward", "ip_do_fragment", "sent on in {0} fragments of at most {2} bytes, as {1:refragmented}")
T_IGMP = _step("igmp", "igmp_input", "igmp_rcv", "IGMP type {0}, checksum {1:okbad}")
T_REDIRECT = _step("redirect", "forward", "ip_rt_send_redirect", "leaves by the device it came from: redirect {0:sent}")
T_NEIGH = _step("neighbour", "output", "ip_finish_output2", "next hop {0:ip4} on {1:dev}: {2:neigh}")
T_NEIGH6 = _step("neighbour", "output", "ip6_finish_output2", "next hop {0:ip6} on {2:dev}: {3:neigh}")
T_FORWARD = _step("forward", "forward", "ip_forward", "forwarded to {0:dev}")
T_ICMP_SEND = _step("icmp", "icmp_send", "__icmp_send", "ICMP type {0} code {1} to {2:ip4}: {3:icmpfate}")
T_ICMP6_SEND = _step("icmp", "icmpv6_send", "icmp6_send", "ICMPv6 type {0} code {1} to {2:ip6}: {4:icmpfate}")
T_IP6_RCV = _step("header", "ipv6_input", "ip6_rcv_core", "version {0}, payload length {1} of {2} received, next header {3}")
T_IP6_ADDRESS = _step("address check", "ipv6_input", "ip6_rcv_core", "address {0:ip6} not allowed here: {2:reason}")
T_HINT6 = _step("route hint", "hint", "ip6_list_rcv_finish", "same destination as the previous packet of the list: its route is reused")
T_ROUTE6 = _step("route", "route_input", "ip6_route_input", "{0:route6} ({1:rtype}) by {2:dev}")
T_NO_FORWARD6 = _step("forwarding", "forward", "ip6_forward", "not for this host, and net.ipv6.conf.all.forwarding is 0", "net.ipv6.conf.all.forwarding")
T_EXTHDR = _step("extension header", "exthdr", "ipv6_parse_hopopts", "extension header {0} at byte {1}: {2:okbad}")
T_EXTHDR_LONG = _step("extension header", "exthdr", "ipv6_destopt_rcv", "{0} bytes of options, {1} are allowed", "net.ipv6.max_dst_opts_length")
T_ROUTING = _step("routing header", "exthdr", "ipv6_rthdr_rcv", "routing header of type {0} at byte {1}, {2} segments left")
T_SEGMENTS = _step("routing header", "exthdr", "ipv6_srh_rcv", "seg6_enabled (rpl_seg_enabled for type 3) is {1} on {0:dev}", "net.ipv6.conf.{dev}.seg6_enabled")
T_NDISC_FRAG = _step("neighbour discovery", "icmpv6_input", "ndisc_suppress_frag_ndisc", "neighbour discovery in a fragment; suppress_frag_ndisc is {1} on {0:dev}", "net.ipv6.conf.{dev}.suppress_frag_ndisc")
T_QUOTED6 = _step("quoted packet", "icmpv6_input", "icmpv6_notify", "the error quotes {0} bytes of a packet of protocol {1}: {2:sender}")
T_PMTU = _step("path mtu", "path_mtu_input", "__ip_rt_update_pmtu", "a router reports MTU {1} on the path to {0:ip4}: {2:pmtu}", "net.ipv4.ip_no_pmtu_disc")
T_PMTU6 = _step("path mtu", "path_mtu_input", "__ip6_rt_update_pmtu", "a router reports MTU {2} on the path to {0:ip6}: {3:pmtu}")
T_REDIRECTED = _step("redirect", "redirect_input", "__ip_do_redirect", "{2:ip4} says to reach {0:ip4} by {1:ip4}: {3:redirected}", "net.ipv4.conf.{dev}.accept_redirects")
T_REDIRECTED6 = _step("redirect", "redirect_input", "rt6_do_redirect", "a router names a better way to {0:ip6}: {2:redirected}", "net.ipv6.conf.{dev}.accept_redirects")
T_MCAST6 = _step("multicast", "local_deliver", "ip6_mc_input", "group {0:ip6} on {2:dev}: {3:joined}")
T_SCOPE6 = _step("scope", "forward", "ip6_forward", "source {0:ip6} may not be forwarded")
T_LOOPED6 = _step("loopback route", "route_input", "fib6_is_reject", "the route leads to {0:dev}, where only addresses of this host may live: it refuses")
T_DISABLED6 = _step("ipv6 off", "ipv6_input", "ip6_rcv_core", "IPv6 is disabled on {0:dev}", "net.ipv6.conf.{dev}.disable_ipv6")
T_CUT = _step("capture", "capture", "", "the capture kept {0} bytes, {1} are needed to decide")
T_VERDICT = _step("verdict", "verdict", "kfree_skb_reason", "{0:verdict}: {1:reason}")
# fmt: on
