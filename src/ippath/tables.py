"""The arrays behind the packet path: every table's columns, declared once.

All tables are int64 arrays, `table[row, COLUMN]`, so that one type serves them all: compiled code
stays small and the same source runs uncompiled.  IPv6 addresses take two columns, `_HI` and `_LO`,
each a 64-bit pattern; IPv4 addresses take `_LO`.  `-1` means "none" for row numbers.

`Tables` is what the control side builds and swaps as a whole (read-only for the path), `State` is
what packets change: counters, socket queues, rate limits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NONE = -1

# --- one row per device -------------------------------------------------------------------------
(
    DEV_IFINDEX, DEV_UP, DEV_LOOPBACK, DEV_MAC, DEV_MTU, DEV_MTU6, DEV_HAS4, DEV_HAS6,
    DEV_RAW_IP, DEV_NOARP,
    DEV_MASTER,  # the VRF that it belongs to (of a VRF: itself), or NONE
    DEV_GROUP, DEV_CARRIER,
    # effective sysctls: all and per device already merged by the kernel's operators
    DEV_FORWARDING4, DEV_RP_FILTER, DEV_ACCEPT_LOCAL, DEV_ROUTE_LOCALNET, DEV_SRC_VALID_MARK,
    DEV_ACCEPT_SOURCE_ROUTE, DEV_SEND_REDIRECTS, DEV_SHARED_MEDIA, DEV_DROP_UNICAST_L2_4,
    DEV_BC_FORWARDING, DEV_IGNORE_LINKDOWN4, DEV_LOG_MARTIANS, DEV_MC_FORWARDING4,
    DEV_DISABLE6, DEV_DROP_UNICAST_L2_6, DEV_HOP_LIMIT6, DEV_FORCE_FORWARDING6,
    DEV_IGNORE_LINKDOWN6, DEV_OIF_ADDRS_ONLY, DEV_ACCEPT_REDIRECTS, DEV_MC_FORWARDING6,
    DEV_SEG6, DEV_RPL6, DEV_SUPPRESS_FRAG_NDISC,
    DEV_SECURE_REDIRECTS, DEV_ACCEPT_REDIRECTS6, DEV_FORWARDING6,
    DEV_VLAN_FIRST, DEV_VLAN_COUNT,
    DEV_LOWPAN, DEV_PAN, DEV_SHORT,  # 6LoWPAN: DEV_MAC has 64 bits; PAN and short address, or NONE
    DEV_VRF_TABLE4, DEV_VRF_TABLE6,  # of a VRF: its tables' rows in each Fib, or NONE
    DEV_COLUMNS,
) = range(48)  # fmt: skip

# --- VLAN devices: rows of one parent stand together ---------------------------------------------
VLAN_PROTOCOL, VLAN_ID, VLAN_DEVICE, VLAN_COLUMNS = range(4)

# --- addresses, in device order ------------------------------------------------------------------
# IPv6 as the kernel lists them: wider scopes first, then newer ones
(
    ADDR_FAMILY, ADDR_DEVICE, ADDR_HI, ADDR_LO, ADDR_PREFIX_HI, ADDR_PREFIX_LO, ADDR_PLEN, ADDR_SCOPE,
    ADDR_SECONDARY, ADDR_TENTATIVE, ADDR_DEPRECATED,
    ADDR_ANYCAST,  # the subnet-router anycast address of its network is ours too
    ADDR_COLUMNS,
) = range(13)  # fmt: skip

# --- multicast groups joined, sorted by device ------------------------------------------------------
GROUP_FAMILY, GROUP_DEVICE, GROUP_HI, GROUP_LO, GROUP_COLUMNS = range(5)

# --- forwarding information base (one set of arrays per family) --------------------------------------
# a table is a row of disjoint address intervals, each naming the node of its longest prefix; a page is
# a run of them that covers a part of all addresses: first << PAGE_BITS | count
(
    TABLE_ID,
    TABLE_PAGE,  # of a small table: the page of all its intervals
    TABLE_TOP,  # of others: the place of the first level of the directory in `Fib.top`, or NONE
    TABLE_SHIFT,  # bits of an address (its high half) below that level
    TABLE_CHUNKS,  # large tables of IPv4 have chunks instead: their place in `Fib.top`, or NONE
    TABLE_LARGE,  # too large for caches: what later packets need is asked for ahead of them
    TABLE_COLUMNS,
) = range(7)  # fmt: skip
PAGE_BITS = 24
# chunks of a large table (ippath.fib.directory): bits of an address below a chunk and below its slots
CHUNK_BITS, SLOT_BITS = 14, 8
CHUNK_CROWDED = 1  # a bit that no chunk has otherwise
# a directory of starts that lie close together (ippath.fib.directory): this header, then the pages
SUB_HELD, SUB_BASE, SUB_LAST, SUB_SHIFT, SUB_BY_HIGH, SUB_HIGH, SUB_FIRST = range(7)
# a node is one prefix of one table; NODE_PARENT is the next shorter prefix that covers it
(
    NODE_PARENT, NODE_FIRST, NODE_COUNT, NODE_PLEN, NODE_SUB_FIRST, NODE_SUB_COUNT,
    NODE_SRC_HI, NODE_SRC_LO, NODE_SRC_PLEN,
    NODE_COLUMNS,
) = range(10)  # fmt: skip
# a route is a prefix and its place; what many routes share is an info (kernel: fib_alias, fib_info)
(
    ROUTE_TABLE, ROUTE_PLEN, ROUTE_DST_HI, ROUTE_DST_LO, ROUTE_INFO, ROUTE_NODE, ROUTE_COLUMNS,
) = range(7)  # fmt: skip
(
    INFO_TYPE, INFO_SCOPE, INFO_TOS, INFO_METRIC, INFO_NH_FIRST, INFO_NH_COUNT, INFO_PREFSRC_SET,
    INFO_PREFSRC_HI, INFO_PREFSRC_LO, INFO_MTU, INFO_MTU_LOCK, INFO_PREFERENCE, INFO_HOPLIMIT,
    INFO_ANYCAST,  # the subnet-router anycast address of a network, not a route added by hand
    INFO_OBJECT,  # OBJECT_*: whether the next hops are those of an object of `ip nexthop`
    INFO_BUCKET_FIRST, INFO_BUCKET_COUNT,  # of a resilient group, in Fib.bucket
    INFO_COLUMNS,
) = range(18)  # fmt: skip
OBJECT_NONE, OBJECT_SINGLE, OBJECT_BLACKHOLE, OBJECT_GROUP = range(4)
# a leaf is a node, NONE, or below that the only route of its node: -2 - (route << 24 | info)
LEAF_INFO_BITS = 24
(
    NH_DEVICE, NH_GATEWAY_FAMILY, NH_HI, NH_LO, NH_SCOPE, NH_BOUND, NH_DEAD, NH_LINKDOWN, NH_IDENTITY,
    NH_OWNER,  # whose exceptions its are: the same as long as the route stays
    NH_COLUMNS,
) = range(11)  # fmt: skip
(
    RULE_PREF, RULE_ACTION, RULE_TABLE, RULE_TARGET, RULE_INVERT, RULE_IIF, RULE_OIF,
    RULE_SRC_HI, RULE_SRC_LO, RULE_SRC_PLEN, RULE_DST_HI, RULE_DST_LO, RULE_DST_PLEN,
    RULE_TOS, RULE_DSCP, RULE_MARK, RULE_MASK, RULE_PROTOCOL, RULE_SPORT_LOW, RULE_SPORT_HIGH,
    RULE_DPORT_LOW, RULE_DPORT_HIGH, RULE_UID_LOW, RULE_UID_HIGH, RULE_SUPPRESS_PLEN,
    RULE_SUPPRESS_GROUP, RULE_L3MDEV, RULE_TABLE_ID,
    RULE_COLUMNS,
) = range(29)  # fmt: skip
ANY = -1  # a rule selector that is not set
NOT_A_DEVICE = -2  # a rule names a device that does not exist: matches nothing
ACTION_LOOKUP, ACTION_GOTO, ACTION_NOP, ACTION_BLACKHOLE, ACTION_UNREACHABLE, ACTION_PROHIBIT = (
    range(6)
)

# route types (RTN_*)
(
    RTN_UNSPEC, RTN_UNICAST, RTN_LOCAL, RTN_BROADCAST, RTN_ANYCAST, RTN_MULTICAST, RTN_BLACKHOLE,
    RTN_UNREACHABLE, RTN_PROHIBIT, RTN_THROW,
) = range(10)  # fmt: skip

# errors of a look-up (errno, as the kernel returns them)
ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL, EAGAIN, ENOENT = 101, 113, 13, 22, 11, 2
EADDRNOTAVAIL, EMSGSIZE, EDESTADDRREQ, EIO, ENODEV = 99, 90, 89, 5, 19

# --- UDP sockets -------------------------------------------------------------------------------------
(
    SOCK_FAMILY, SOCK_PROTOCOL, SOCK_HI, SOCK_LO, SOCK_PORT, SOCK_PEER_SET, SOCK_PEER_HI, SOCK_PEER_LO,
    SOCK_PEER_PORT, SOCK_DEVICE, SOCK_V6ONLY, SOCK_RCVBUF, SOCK_READ_NS, SOCK_NO_CHECK6,
    SOCK_REUSEPORT_FIRST, SOCK_REUSEPORT_COUNT, SOCK_WILDCARD, SOCK_LISTENER,
    SOCK_GROUPS4, SOCK_GROUPS6,  # takes groups that others joined (IP_MULTICAST_ALL and its twin)
    SOCK_MEMBER_FIRST, SOCK_MEMBER_COUNT,  # its rows of `Tables.member`
    SOCK_COVERAGE,  # UDP-Lite: least bytes that a checksum must cover; 0: all; NONE: any
    SOCK_DEAF4, SOCK_DEAF6,  # reports of path MTUs do not count (IP_PMTUDISC_INTERFACE, _OMIT)
    SOCK_COLUMNS,
) = range(26)  # fmt: skip
# SOCK_READ_NS: else nanoseconds between two reads
READ_AT_ONCE, READ_NEVER, READ_BY_CALLS = 0, -1, -2
# groups that a socket joined; without a device, by any
MEMBER_FAMILY, MEMBER_DEVICE, MEMBER_HI, MEMBER_LO, MEMBER_COLUMNS = range(5)
# queue state of a socket, changed by packets
(
    SOCKQ_BYTES,
    SOCKQ_PACKETS,
    SOCKQ_FIRST,
    SOCKQ_READ_AT,
    SOCKQ_DROPS,
    SOCKQ_RECEIVED,
    SOCKQ_COLUMNS,
) = range(7)

# --- neighbours: open addressing, keyed by device and address ------------------------------------------
NEIGH_DEVICE, NEIGH_HI, NEIGH_LO, NEIGH_MAC, NEIGH_STATE, NEIGH_COLUMNS = range(6)
NEIGH_VALID, NEIGH_FAILED_STATE = 1, 2

# --- configuration scalars --------------------------------------------------------------------------
(
    CONF_RULES4, CONF_RULES6, CONF_REQUIRE_SRC6, CONF_USER_LOCAL4, CONF_DISSECT4, CONF_DISSECT6,
    CONF_FORWARDING6, CONF_DEFAULT_TTL, CONF_ICMP_RATELIMIT_NS, CONF_ICMP_RATEMASK,
    CONF_ICMP_MSGS_PER_SEC, CONF_ICMP_MSGS_BURST, CONF_ICMP_ECHO_IGNORE_ALL,
    CONF_ICMP_ECHO_IGNORE_BROADCASTS, CONF_ICMP_INBOUND_IFADDR, CONF_FWMARK_REFLECT4,
    CONF_ICMP6_RATELIMIT_NS, CONF_ICMP6_ECHO_IGNORE_ALL,
    CONF_ICMP6_ECHO_IGNORE_MULTICAST, CONF_ICMP6_ECHO_IGNORE_ANYCAST, CONF_FWMARK_REFLECT6,
    CONF_HASH_POLICY4, CONF_HASH_POLICY6, CONF_HASH_FIELDS4, CONF_HASH_FIELDS6, CONF_HASH_SEED,
    CONF_FORWARD_USE_PMTU, CONF_MAX_HBH_OPTIONS, CONF_MAX_DST_OPTIONS, CONF_MAX_HBH_LENGTH,
    CONF_MAX_DST_LENGTH, CONF_L3MDEV_ACCEPT, CONF_MULTIPATH_USE_NEIGH,
    CONF_HINT, CONF_LIST, CONF_LIST_GAP_NS, CONF_ASSUME_NEIGH, CONF_BROADCAST_HINT,
    CONF_EARLY_DEMUX,  # it is on, and a socket is connected
    CONF_MULTIPATH4, CONF_MULTIPATH6,  # there are routes with several next hops
    CONF_ANYCAST_SRC_ECHO6, CONF_ANYCAST_AS_UNICAST6,
    CONF_CONNTRACK_DEFRAG,  # connection tracking puts fragments together before routing
    CONF_LEAST_FRAGMENT6,  # bytes of a packet with a fragment that is not the last
    CONF_EAGER,  # each destination gets an entry of its own, smaller MTU or not
    CONF_NO_PMTU_DISC, CONF_MIN_PMTU, CONF_MTU_EXPIRES4_NS, CONF_MTU_EXPIRES6_NS,
    CONF_REDIRECT_EXPIRES_NS,
    # switches of the send side
    CONF_SEND_LOOKUP, CONF_SOCKET_ROUTE, CONF_HEADER_TEMPLATE, CONF_SEND_ACCOUNTS, CONF_ZERO_COPY,
    CONF_PROTOCOLS4_0,
) = range(57)  # fmt: skip
CONF_PROTOCOLS6_0 = CONF_PROTOCOLS4_0 + 4  # handled protocols: 256 bits in four words each family
CONF_ICMP6_RATEMASK = CONF_PROTOCOLS6_0 + 4  # as many bits: limited ICMPv6 types
CONF_COLUMNS = CONF_ICMP6_RATEMASK + 4
HINT_OFF, HINT_ON, HINT_STRICT = range(3)


class Fib(NamedTuple):
    """The routes and rules of one family."""

    table: np.ndarray  # [tables, TABLE_COLUMNS]
    start_hi: np.ndarray  # interval starts, sign bit flipped so that signed order is address order
    start_lo: np.ndarray
    leaf: np.ndarray  # what each interval leads to, see LEAF_INFO_BITS
    top: np.ndarray  # for large tables: where a search starts (see ippath.fib.directory)
    node: np.ndarray  # [nodes, NODE_COLUMNS]
    route: np.ndarray  # [routes, ROUTE_COLUMNS]
    info: np.ndarray  # [infos, INFO_COLUMNS]
    nexthop: np.ndarray  # [next hops, NH_COLUMNS]
    bucket: np.ndarray  # of resilient groups: the place of each bucket's member among the next hops
    rule: np.ndarray  # [rules, RULE_COLUMNS], by preference
    local_key: np.ndarray  # IPv4: the host's addresses, a hash set (open addressing)


# memory for changes (ippath.fib.changes): what tables were built with, then what is in use, in elements;
# then heads of lists of what was given back, by size class: number + 1
SIZE_CLASSES = 52
(
    POOL_BUILT, POOL_BUILT_NODES, POOL_BUILT_ROUTES, POOL_RUNS, POOL_NODES, POOL_ROUTES,
    POOL_WORK,  # intervals that were written again since then
    POOL_FREE_RUNS,
) = range(8)  # fmt: skip
POOL_FREE_NODES = POOL_FREE_RUNS + SIZE_CLASSES
POOL_FREE_ROUTES = POOL_FREE_NODES + SIZE_CLASSES
POOL_WORDS = POOL_FREE_ROUTES + SIZE_CLASSES
# a change: the routes that a prefix of a table shall have, which are so many entries
(
    CHANGE_TABLE, CHANGE_HI, CHANGE_LO, CHANGE_PLEN, CHANGE_FIRST, CHANGE_COUNT, CHANGE_COLUMNS,
) = range(7)  # fmt: skip
ENTRY_SRC_HI, ENTRY_SRC_LO, ENTRY_SRC_PLEN, ENTRY_INFO, ENTRY_TABLE, ENTRY_COLUMNS = range(6)


AHEAD_ROWS = 16


class OpenFib(NamedTuple):
    """The arrays of a Fib that has room for changes, and where there is room."""

    table: np.ndarray
    start_hi: np.ndarray
    start_lo: np.ndarray
    leaf: np.ndarray
    top: np.ndarray
    node: np.ndarray
    route: np.ndarray
    pool: np.ndarray  # int64[POOL_WORDS]


class Tables(NamedTuple):
    """One version of everything that decides; built by the control side, never changed by packets."""

    conf: np.ndarray  # [CONF_COLUMNS]
    device: np.ndarray  # [devices, DEV_COLUMNS]
    vlan: np.ndarray  # [VLAN devices, VLAN_COLUMNS]
    address: np.ndarray  # [addresses, ADDR_COLUMNS]
    group: np.ndarray  # [memberships, GROUP_COLUMNS]
    fib4: Fib
    fib6: Fib
    socket: np.ndarray  # [sockets, SOCK_COLUMNS], in the order in which the kernel scans them
    port: np.ndarray  # [2 * 65536 + 1]: first exact, then first wildcard socket of each port
    member: np.ndarray  # [memberships of sockets, MEMBER_COLUMNS]
    neighbour: np.ndarray  # [2**k, NEIGH_COLUMNS]


# --- what packets change -----------------------------------------------------------------------------
# per-device packet and byte counts
(
    DEVSTAT_RX, DEVSTAT_RX_BYTES, DEVSTAT_RX_DROPPED, DEVSTAT_TX, DEVSTAT_TX_BYTES,
    DEVSTAT_FRAMES, DEVSTAT_TAGS,  # 6LoWPAN: frames sent, datagrams sent in fragments
    DEVSTAT_COLUMNS,
) = range(8)  # fmt: skip
# rate limit and redirect state of one peer (kernel: inet_peer)
(
    PEER_USED, PEER_HI, PEER_LO, PEER_TOKENS_NS, PEER_LAST_NS, PEER_REDIRECTS,
    PEER_FRAGMENTS,  # fragments that came from it (kernel: inet_peer.rid)
    PEER_COLUMNS,
) = range(8)  # fmt: skip
PEERS = 1 << 14  # peers remembered; more reuse the oldest of a bucket
PEER_WAYS = 4
# what the host learned about a destination (kernel: fib_nh_exception, rt6_exception)
(
    EXC_FAMILY,  # 0: the row is free
    EXC_OWNER, EXC_IFINDEX, EXC_CELL, EXC_HI, EXC_LO,
    EXC_NEXT,  # in its hash bucket: row + 1, 0 at the end
    EXC_MTU, EXC_LOCKED, EXC_GATEWAY_FAMILY, EXC_GATEWAY_HI, EXC_GATEWAY_LO,
    EXC_EXPIRES_NS,  # 0: never
    EXC_STAMP_NS,
    EXC_USED,  # a packet took it
    EXC_COLUMNS,
) = range(16)  # fmt: skip
EXCEPTIONS = 1 << 17  # rows; more take those of the oldest
EM_USED, EM_TOP, EM_HAND, EM_RANDOM, EM_SECRET, EM_COLUMNS = range(6)
# scalars
(
    MISC_ICMP_CREDIT, MISC_ICMP_STAMP_NS, MISC_RANDOM, MISC_OUT_BYTES, MISC_OUT_ROWS, MISC_COLLECT,
    MISC_HINT_USED, MISC_HINT_MISSED, MISC_HINT_REFUSED, MISC_NOW_NS, MISC_PACKETS, MISC_BYTES,
    MISC_LIST_COUNT, MISC_LIST_DEVICE, MISC_LIST_FAMILY, MISC_LIST_TIME,
    MISC_TAKEN_ROWS, MISC_TAKEN_BYTES,
    MISC_ALONE,  # each packet is a receive list of its own
    MISC_LOOP_ROWS, MISC_LOOP_BYTES,  # of `State.loop` in use
    MISC_ONE_CAUSE,  # all packets of the batch count as the frame that it begins with
    MISC_QUIET,  # groups get no copy of what this host sends (IP_MULTICAST_LOOP is off)
    MISC_OWN_IIF,  # of the packet that this host sends: the device that sockets see if it comes back
    MISC_GENERATION,  # of what routes depend on; a route that is older is looked up again
    MISC_COLUMNS,
) = range(26)  # fmt: skip
# MISC_COLLECT: packets sent, datagrams that sockets took, those of sockets read by calls
COLLECT_SENT, COLLECT_TAKEN, COLLECT_CALLS = 1, 2, 4
# packets sent
# OUT_WIRE is what OUT_LENGTH would be, had the capture not cut the packet
(
    OUT_OFFSET, OUT_LENGTH, OUT_WIRE, OUT_DEVICE, OUT_TIME_NS, OUT_CAUSE, OUT_LINK, OUT_COLUMNS,
) = range(8)  # fmt: skip
# datagrams that sockets took; the payload of a packet is kept once for all its takers.  TAKEN_DEVICE is
# a row (NOT_A_DEVICE: it is gone), once it is given to an open socket an interface index (0: gone)
(
    TAKEN_CAUSE, TAKEN_SOCKET, TAKEN_OFFSET, TAKEN_LENGTH, TAKEN_DEVICE, TAKEN_FAMILY, TAKEN_SRC_HI,
    TAKEN_SRC_LO, TAKEN_SPORT, TAKEN_DST_HI, TAKEN_DST_LO, TAKEN_SPEC_DST, TAKEN_TTL, TAKEN_TOS,
    TAKEN_KIND,  # TAKEN_DATAGRAM or TAKEN_ERROR
    TAKEN_DPORT, TAKEN_TIME_NS, TAKEN_LABEL,
    TAKEN_CHARGE,  # memory that it takes in the queue
    TAKEN_DROPS,  # datagrams that the socket had dropped before
    TAKEN_VALID,  # its checksum is right; a reader finds out
    TAKEN_MARK,
    TAKEN_INFO,  # of an error: path MTU, or the place of the problem
    TAKEN_COLUMNS,
) = range(24)  # fmt: skip
# an error has the quoted payload, the ICMP sender as source, where the datagram went to as
# destination, and type and code as TAKEN_TTL and TAKEN_TOS
TAKEN_DATAGRAM, TAKEN_ERROR = 0, 1
# packets that this host sent to itself; LOOP_TYPE is the route's, RTN_UNSPEC: it is routed anew
(
    LOOP_OFFSET, LOOP_LENGTH, LOOP_WIRE, LOOP_DEVICE, LOOP_TYPE, LOOP_IIF, LOOP_CAUSE, LOOP_MARK,
    LOOP_COLUMNS,
) = range(9)  # fmt: skip
# a datagram to send (ippath.udp.sendmsg); addresses of 0 and columns of NONE leave it to the host
(
    # what its route depends on; SEND_KEY columns
    SEND_FAMILY, SEND_PROTOCOL, SEND_SPORT, SEND_DPORT, SEND_SRC_HI, SEND_SRC_LO, SEND_DST_HI,
    SEND_DST_LO, SEND_OIF, SEND_TOS, SEND_MARK,
    SEND_GROUP_OIF, SEND_GROUP_SRC,  # IP_MULTICAST_IF
    SEND_UNICAST_OIF,
    SEND_TTL, SEND_HOPS,  # of this message; of the socket (IP_TTL, IPV6_UNICAST_HOPS)
    SEND_GROUP_TTL,  # IP_MULTICAST_TTL
    SEND_FLAGS,  # SENDS_*
    SEND_PMTUDISC,  # IP_PMTUDISC_*
    SEND_MTU,  # IPV6_MTU; 0: none
    SEND_LABEL,  # flow label
    SEND_COVERAGE,  # UDP-Lite: bytes that the checksum covers
    SEND_SEGMENT,  # UDP_SEGMENT: bytes of payload per datagram; 0: all in one
    SEND_ID,  # IPv4 identification; counts on from datagram to datagram
    # what came of it: 0 or an errno; the MTU that stopped it
    SEND_ERROR, SEND_INFO,
    SEND_COLUMNS,
) = range(27)  # fmt: skip
SEND_KEY = SEND_UNICAST_OIF + 1
TARGET_HI, TARGET_LO, TARGET_PORT, TARGET_COLUMNS = range(4)  # where one datagram of many goes
# SO_BROADCAST, SO_NO_CHECK or UDP_NO_CHECK6_TX, IP_MULTICAST_LOOP off, IPV6_DONTFRAG, MSG_PROBE
SENDS_BROADCAST, SENDS_UNSUMMED, SENDS_QUIET, SENDS_WHOLE, SENDS_PROBE = 1, 2, 4, 8, 16
PMTUDISC_DONT, PMTUDISC_WANT, PMTUDISC_DO, PMTUDISC_PROBE, PMTUDISC_INTERFACE, PMTUDISC_OMIT = (
    range(6)
)


# --- reassembly -------------------------------------------------------------------------------------
# who reassembles (kernel: struct fqdir): each has limits, memory and statistics of its own
FQDIR_IPV4, FQDIR_IPV6, FQDIR_CONNTRACK6, FQDIR_LOWPAN, FQDIRS = range(5)
(
    FQDIR_HIGH, FQDIR_TIMEOUT_NS, FQDIR_MAX_DIST, FQDIR_QUEUE_CHARGE,
    FQDIR_POLICY,  # POLICY_*: what becomes of overlaps
    FQDIR_STORE,  # STORE_*: how the fragments of a queue are kept
    FQDIR_EVICT, FQDIR_LOW,  # over the limit queues are let go, down to so many bytes
    FQDIR_OLDEST, FQDIR_NEWEST,  # queues by their last fragment, while it evicts
    FQDIR_MEM, FQDIR_PEAK, FQDIR_QUEUES,
    # statistics: packets, then datagrams, then packets again, all since the start
    FQDIR_FRAGMENTS, FQDIR_DATAGRAMS, FQDIR_JOINED, FQDIR_DUPLICATES, FQDIR_OVERLAPS,
    FQDIR_INVALID, FQDIR_TOO_FAR, FQDIR_REFUSED, FQDIR_EXPIRED, FQDIR_ECN, FQDIR_OVERSIZE,
    FQDIR_DISCARDED,
    FQDIR_COLUMNS,
) = range(26)  # fmt: skip
STORE_RUNS, STORE_TREE, STORE_LIST = range(3)
# Linux since 5.1; 4.18 and 4.19.0; before; others by the rules of ippath.frag.overlap
(
    POLICY_LINUX, POLICY_LINUX_418, POLICY_LINUX_OLD, POLICY_FIRST, POLICY_LAST, POLICY_BSD,
    POLICY_WINDOWS, POLICY_SOLARIS,
) = range(8)  # fmt: skip
# a queue: the fragments of one datagram
(
    FQ_DIR,  # NONE: the row is free
    FQ_NEXT, FQ_HASH,  # in its hash bucket (or among the free rows)
    FQ_USER, FQ_SRC_HI, FQ_SRC_LO, FQ_DST_HI, FQ_DST_LO, FQ_ID,  # the key
    FQ_FLAGS, FQ_LEN, FQ_MEAT, FQ_FRAGMENTS, FQ_ECN, FQ_MAX_SIZE, FQ_MAX_DF_SIZE, FQ_DEVICE,
    FQ_LEAST_HEADERS,  # bytes before the data of any fragment but the first, link-level header too
    FQ_PEER, FQ_SEEN,  # the source, and its count of fragments when this queue last had one
    FQ_DEADLINE_NS, FQ_LATER, FQ_EARLIER,  # the timer wheel
    FQ_NEWER, FQ_OLDER,  # neighbours between FQDIR_OLDEST and FQDIR_NEWEST
    FQ_ROOT, FQ_TAIL, FQ_LAST_RUN, FQ_FIRST,  # the runs, and the fragment with offset 0
    FQ_WHOLE,  # fragments as they came, where the tree has pieces of them
    FQ_OPTIONS,  # it had IPv4 options; OPT_* of it follow
    FQ_OPT_0,
) = range(32)  # fmt: skip
FQ_COLUMNS = FQ_OPT_0 + 16  # OPT_COLUMNS
FQ_FIRST_IN, FQ_LAST_IN = 1, 2  # FQ_FLAGS
# a fragment; the first of a run carries the run in the tree
(
    FRAG_OFFSET, FRAG_END, FRAG_NEXT, FRAG_RUN_END, FRAG_LEFT, FRAG_RIGHT, FRAG_UP, FRAG_PRIORITY,
    FRAG_BLOCK, FRAG_HEADER, FRAG_STORED, FRAG_CHARGE, FRAG_FRAME, FRAG_DEVICE, FRAG_PKT_TYPE,
    FRAG_MARK, FRAG_NEXTHDR_AT,
    FRAG_OWNER, FRAG_SKIP,  # whose bytes they are, and from where; a whole fragment owns itself
    FRAG_LINK,  # bytes of the link-level header, where it is kept, too
    FRAG_COLUMNS,
) = range(21)  # fmt: skip
FRAG_BLOCK_BYTES = 512  # a fragment wastes less than the kernel charges it beside its bytes
WHEEL_FIRST, WHEEL_LAST, WHEEL_COLUMNS = range(3)
WHEEL_SLOTS, WHEEL_TICK_BITS = 1 << 12, 26  # 275 seconds around, 67 ms a slot
# first free row, first row never used, rows in use
(
    FM_QUEUE_FREE, FM_QUEUE_TOP, FM_QUEUE_USED, FM_FRAG_FREE, FM_FRAG_TOP, FM_FRAG_USED,
    FM_BLOCK_FREE, FM_BLOCK_TOP, FM_BLOCK_USED,
    FM_SHORT,  # the arrays have to grow before the next fragment
    FM_DUE_NS,  # no queue expires before
    FM_JOINED, FM_PIECES, FM_OVERLAPS,  # rows of `State.joined`, `.pieces`, `.overlaps` in use
    FM_HEADROOM,  # that each fragment of the last datagram had before its data
    FM_RANDOM,
    # the key of the queue looked for
    FM_USER, FM_SRC_HI, FM_SRC_LO, FM_DST_HI, FM_DST_LO, FM_ID,
    FM_SECRET_0,  # of the hash, 32 bits each
) = range(23)  # fmt: skip
FM_FIRST_KEY, FQ_FIRST_KEY, KEY_WORDS = FM_USER, FQ_USER, 6
SECRETS = 2 * KEY_WORDS + 1
FM_COLUMNS = FM_SECRET_0 + SECRETS
(
    OVERLAP_FRAME, OVERLAP_BEGIN, OVERLAP_END, OVERLAP_OTHER, OVERLAP_OTHER_BEGIN,
    OVERLAP_OTHER_END, OVERLAP_DIFFER, OVERLAP_COMPARED, OVERLAP_FAMILY, OVERLAP_ID,
    OVERLAP_PROTOCOL, OVERLAP_SRC_HI, OVERLAP_SRC_LO, OVERLAP_DST_HI, OVERLAP_DST_LO, OVERLAP_TIME,
    OVERLAP_OUTCOME, OVERLAP_COLUMNS,
) = range(18)  # fmt: skip
DATAGRAM_BYTES = 1 << 17
MOST_FRAGMENTS = (
    1 << 14
)  # of one datagram: it has 8,192 units of 8 bytes, each may be cut by others


# --- 6LoWPAN ----------------------------------------------------------------------------------------
# the IEEE 802.15.4 frame in hand, and how far its headers have been read
(
    LW_TYPE, LW_INTRA_PAN, LW_SECURED,
    LW_DST_MODE, LW_DST_PAN, LW_DST, LW_SRC_MODE, LW_SRC_PAN, LW_SRC,
    LW_AT, LW_END, LW_WIRE_END,  # the byte that is read next; where capture and frame end
    LW_ERROR,  # LW_* of ippath.wire.lowpan: what went wrong first
    LW_BASE, LW_OUT,  # in `State.lowpan`: where the IPv6 packet begins, and where the next byte goes
    LW_SIZE, LW_TAG, LW_OFFSET,  # of a fragment
    LW_CHECKSUM,  # an elided UDP checksum, see ippath.rx.lowpan_iphc; 0: none
    LW_STRICT,  # as Linux does it, not all that the RFCs allow
    LW_COLUMNS,
) = range(21)  # fmt: skip
CONTEXT_PLEN, CONTEXT_HI, CONTEXT_LO, CONTEXT_COLUMNS = range(4)  # CONTEXT_PLEN is NONE: not active
CONTEXTS = 16
LOWPAN_SENT, LOWPAN_BYTES = 1 << 17, 1 << 18  # from LOWPAN_SENT on: headers of a packet that leaves


class State(NamedTuple):
    """What packets change."""

    counters: np.ndarray  # [len(COUNTERS)]
    verdicts: np.ndarray  # [7]: packets per verdict
    reasons: np.ndarray  # [len(REASONS)]: dropped and unsupported packets per reason
    devstat: np.ndarray  # [devices, DEVSTAT_COLUMNS]
    sockq: np.ndarray  # [sockets, SOCKQ_COLUMNS]
    rxdst: np.ndarray  # [sockets, SKB_COLUMNS]: routes that connected sockets remember, DST_* alone
    peer: np.ndarray  # [PEERS, PEER_COLUMNS], sets of PEER_WAYS
    exception: np.ndarray  # [EXCEPTIONS, EXC_COLUMNS]: what was learned about destinations
    exc_bucket: np.ndarray  # [2**k]: row + 1 of the first exception of each hash bucket
    exc_misc: np.ndarray  # [EM_COLUMNS]
    bucket_used: np.ndarray  # when a packet used each of `Fib.bucket`, in ns; 0: not since it moved
    misc: np.ndarray  # [MISC_COLUMNS]
    fqdir: np.ndarray  # [FQDIRS, FQDIR_COLUMNS]: limits and statistics of reassembly
    fq: np.ndarray  # [queues, FQ_COLUMNS]: datagrams under reassembly
    fq_bucket: np.ndarray  # [2**k]: first queue of each hash bucket
    fq_wheel: np.ndarray  # [WHEEL_SLOTS, WHEEL_COLUMNS]: queues by deadline
    frag: np.ndarray  # [fragments, FRAG_COLUMNS]: fragments that wait
    frag_link: np.ndarray  # [blocks]: the block that follows each block
    frag_data: np.ndarray  # uint8[blocks * FRAG_BLOCK_BYTES]: their bytes
    frag_misc: np.ndarray  # [FM_COLUMNS]: free lists, the key of the queue looked for, the clock
    datagram: np.ndarray  # uint8[DATAGRAM_BYTES]: the datagram that was put together last
    joined: np.ndarray  # [MOST_FRAGMENTS or more]: the frames that made it
    pieces: np.ndarray  # [MOST_FRAGMENTS]: where in its data the bytes of each fragment end
    overlaps: np.ndarray  # [rows, OVERLAP_COLUMNS]: fragments that overlapped, if anybody asks
    lw: np.ndarray  # [LW_COLUMNS]: the 6LoWPAN frame in hand
    lowpan: np.ndarray  # uint8[LOWPAN_BYTES]: the IPv6 packet that it holds
    context: np.ndarray  # [CONTEXTS, CONTEXT_COLUMNS]: prefixes known on both sides, set by control
    skb: np.ndarray  # the packet in hand, SKB_*
    ahead: (
        np.ndarray
    )  # [AHEAD_ROWS] how far the search for later packets has come (ippath.rx.burst)
    hint: np.ndarray  # the route hint: its key and a copy of the packet's DST_* fields
    flow: np.ndarray  # [4, FLOW_COLUMNS]: look-up keys
    result: np.ndarray  # [4, RES_COLUMNS]: look-up results
    opt: np.ndarray  # IPv4 options of the packet in hand, OPT_*, while SKB_OPTIONS is set
    scratch: np.ndarray  # uint8[]: messages under construction, see SCRATCH_*
    out: np.ndarray  # [rows, OUT_COLUMNS]: packets sent
    out_data: np.ndarray  # uint8[]: their bytes
    taken: np.ndarray  # [rows, TAKEN_COLUMNS]: datagrams that sockets took
    taken_data: np.ndarray  # uint8[]: their payloads
    loop: np.ndarray  # [rows, LOOP_COLUMNS]: packets that this host sent to itself
    loop_data: np.ndarray  # uint8[]: their bytes
    plan: np.ndarray  # [PLAN_COLUMNS]: what the datagrams of a flow have in common
    header: np.ndarray  # uint8[HEADER_BYTES]: the headers that they begin with


class Outgoing(NamedTuple):
    """Datagrams to send: payloads, and what is asked of each."""

    data: np.ndarray  # uint8[]
    offset: np.ndarray  # [n]: where each payload lies in it
    length: np.ndarray  # [n]
    message: np.ndarray  # [n, SEND_COLUMNS], or [1, SEND_COLUMNS] for all
    target: np.ndarray  # [n, TARGET_COLUMNS], or [0, TARGET_COLUMNS]: the message says where to
    way: np.ndarray  # [WAY_COLUMNS]: the route that was found last, see ippath.udp.way


# the packet in hand (kernel: struct sk_buff and its control block)
(
    SKB_FRAME, SKB_LINK, SKB_END, SKB_WIRE_END, SKB_TIME_NS, SKB_DEVICE, SKB_MARK, SKB_LEN,
    SKB_AVAIL, SKB_IHL, SKB_TOS, SKB_SRC_LO, SKB_DST_LO, SKB_NEXTHDR_AT,
    # zero when a packet begins
    SKB_FAMILY, SKB_SRC_HI, SKB_DST_HI, SKB_IP, SKB_TRANSPORT, SKB_FRAG, SKB_OPTIONS, SKB_OPT_ALERT,
    SKB_TTL_SPENT, SKB_UNCHECKED, SKB_VERDICT, SKB_REASON, SKB_HINTED,
    SKB_FRAG_MAX,  # of a datagram put together before routing: its largest fragment, with headers
    SKB_LOOPED,  # this host sent it itself
    # NONE when a packet begins
    SKB_PKT_TYPE, SKB_PROTOCOL, SKB_SOCKET, SKB_OUT_DEVICE, SKB_EARLY,
    SKB_KEPT,  # where `State.taken_data` has the payload
    SKB_IIF,  # of a reassembled datagram: the device by which its first fragment came
    # the route (kernel: skb_dst), NONE too; these travel with a hint
    DST_SET, DST_IDENTITY, DST_TYPE, DST_LOCAL, DST_ERROR, DST_ROUTE, DST_NH, DST_RULE, DST_DEVICE,
    DST_GATEWAY_FAMILY, DST_GATEWAY_HI, DST_GATEWAY_LO, DST_MULTIPATH, DST_REDIRECT, DST_TABLE,
    DST_INFO, DST_EXCEPTION, SKB_COLUMNS,
) = range(54)  # fmt: skip
SKB_FIRST_ZERO, SKB_FIRST_NONE = SKB_FAMILY, SKB_PKT_TYPE
DST_FIRST, DST_COUNT = DST_SET, SKB_COLUMNS - DST_SET
# a hint is a copy of the DST_* fields, in place, with the key in these slots
HINT_VALID, HINT_HI, HINT_LO, HINT_TOS = SKB_FRAME, SKB_DST_HI, SKB_DST_LO, SKB_TOS
HINT_PENDING = SKB_LINK  # the route is still with the packet in hand

# IPv4 options (kernel: struct ip_options); places are offsets from the start of the header
(
    OPT_SRR, OPT_RR, OPT_TS, OPT_CIPSO,
    OPT_STRICT,  # a strict source route
    OPT_HIT, OPT_NEXTHOP,  # the source route leads on from here, to this address
    OPT_CHANGED,  # the header was written to; its checksum is not yet right
    OPT_RR_ADDRESS, OPT_TS_ADDRESS, OPT_TS_TIME,  # a slot was taken; its content follows the route
    # options of the message that answers the packet
    ECHO_RR, ECHO_TS_ADDRESS, ECHO_TS_TIME, ECHO_SRR, ECHO_FIRST_HOP, OPT_COLUMNS,
) = range(17)  # fmt: skip
# places in `State.scratch`: the packet that leaves, one fragment of it, the header of the packet in
# hand as options changed it, options of a message
SCRATCH_PACKET, SCRATCH_FRAGMENT, SCRATCH_HEADER = 0, 1 << 17, (1 << 18) - 256
SCRATCH_OPTIONS, SCRATCH_BYTES = SCRATCH_HEADER + 64, 1 << 18

(
    PACKET_HOST, PACKET_BROADCAST, PACKET_MULTICAST, PACKET_OTHERHOST, PACKET_OUTGOING,
    PACKET_LOOPBACK,
) = range(6)  # fmt: skip

(
    FLOW_SRC_HI, FLOW_SRC_LO, FLOW_DST_HI, FLOW_DST_LO, FLOW_TOS, FLOW_MARK, FLOW_IIF, FLOW_OIF,
    FLOW_PROTOCOL, FLOW_SPORT, FLOW_DPORT, FLOW_SCOPE, FLOW_IGNORE_LINKSTATE, FLOW_STRICT,
    FLOW_REACHABLE, FLOW_PREFER, FLOW_LABEL, FLOW_HAS_SRC,
    FLOW_UID,  # of who asks; packets leave it at 0
    FLOW_L3MDEV,  # the VRF device that it belongs to, or NONE
    FLOW_HASH,  # of the packet that is routed or answered, where next hops are chosen by it; or NONE
    FLOW_COLUMNS,
) = range(22)  # fmt: skip
(
    RES_ROUTE, RES_INFO, RES_NH, RES_TYPE, RES_RULE, RES_TABLE,
    RES_EXCEPTION,  # what is known of the destination itself, see ippath.fib.exceptions
    RES_COLUMNS,
) = range(8)  # fmt: skip
# a question for a route (`ip route get`), and the answer to it
(
    ASK_FAMILY, ASK_SRC_SET, ASK_SRC_HI, ASK_SRC_LO, ASK_TOS, ASK_MARK, ASK_IIF, ASK_OIF, ASK_PROTOCOL,
    ASK_PORTS,  # source port << 16 | destination port
    ASK_UID, ASK_COLUMNS,
) = range(12)  # fmt: skip
(
    GOT_ERROR, GOT_TYPE, GOT_DEVICE, GOT_GATEWAY_FAMILY, GOT_GATEWAY_HI, GOT_GATEWAY_LO,
    GOT_SRC_SET, GOT_SRC_HI, GOT_SRC_LO,  # the source that the host would choose
    GOT_ROUTE, GOT_NH, GOT_RULE, GOT_TABLE, GOT_FLAGS,
    GOT_MTU, GOT_LOCKED, GOT_EXPIRES_NS,  # what was learned: a path MTU, and how long it lasts
    GOT_COLUMNS,
) = range(18)  # fmt: skip
# GOT_REDIRECT: whoever sends such a packet is told of a better way; GOT_REDIRECTED: this host was
GOT_LOCAL, GOT_BROADCAST, GOT_MULTICAST, GOT_REDIRECT, GOT_REDIRECTED = 1, 2, 4, 8, 16
# the way of a message: what was asked, and the OUTPUT rows that were the answer
WAY_GENERATION = SEND_KEY  # that it was found in; 0: there is none
WAY_OWNED = WAY_GENERATION + 1  # it is that of a connected socket
WAY_FLOW = WAY_OWNED + 1
WAY_RESULT = WAY_FLOW + FLOW_COLUMNS
WAY_COLUMNS = WAY_RESULT + RES_COLUMNS
# what the datagrams of a flow have in common
(
    PLAN_MTU,  # what one packet may hold
    PLAN_PATH_MTU, PLAN_LOCKED, PLAN_HOPS,
    PLAN_PART, PLAN_MOST,  # bytes of payload that a packet may have; a message in segments
    # of `State.header`: bytes of the link-level header, of all, partial sums of what stays the same
    PLAN_LINK, PLAN_HEADERS, PLAN_IP_SUM, PLAN_UDP_SUM,
    PLAN_COLUMNS,
) = range(11)  # fmt: skip
HEADER_BYTES = 64  # Ethernet, IPv6 and UDP, rounded up
# who uses which row of `flow` and `result`
FLOW_INPUT, FLOW_REVERSE, FLOW_OUTPUT, FLOW_SPARE = range(4)

# verdict words of a packet (int32[n, V_COLUMNS]): half a cache line, unpacked in ippath.verdicts
#   V_WHAT: verdict, reason << 8, family << 16, packet type + 1 << 20, FLAG_* << 24
#   V_WHERE: network offset (NO_NETWORK: none), protocol + 1 << 16
#   V_DEVICES: device + 1, out device + 1 << 16
#   V_TAKER: the socket if FLAG_SOCKET is set, else the next hop
V_WHAT, V_WHERE, V_DEVICES, V_TRANSPORT, V_LENGTH, V_RULE, V_ROUTE, V_TAKER, V_COLUMNS = range(9)
FLAG_HINTED, FLAG_UNCHECKED, FLAG_SOCKET = 1, 2, 4
NO_NETWORK = 0xFFFF
MOST_DEVICES = 0xFFFE
