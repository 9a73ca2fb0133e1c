"""What a capture shows about path MTUs, packet by packet, in tables of fixed size.

A *path* is a sender and a destination about which a size error came: an ICMP "fragmentation needed"
(RFC 1191) or an ICMPv6 "packet too big" (RFC 8201); the packet that it quotes says which.  A *flow* is
one of the path that goes on sending packets too large.  A *stall* is a TCP segment that is sent
again and again and never acknowledged, as if the path swallowed what is large.
"""

from __future__ import annotations

import numpy as np

from ippath.fib.multipath import mix32
from ippath.handles import open_bytes
from ippath.jit import entry, kernel
from ippath.rx.exthdr_core import skip_extensions
from ippath.wire import ipv6
from ippath.wire.ether import ETH_P_IP, ETH_P_IPV6, LINK_FOUND, find_network
from ippath.wire.icmp import FRAGMENTATION_NEEDED, ICMP6_TOO_BIG, ICMP_HEADER, ICMP_UNREACHABLE
from ippath.wire.ipv4 import (
    DESTINATION, DF, FLAGS_OFFSET, HEADER, IPPROTO_ICMP, IPPROTO_UDP, MF, OFFSET_MASK, PROTOCOL,
    SOURCE, TOTAL_LENGTH, VERSION_IHL,
)  # fmt: skip
from ippath.wire.memory import load8, load16be, load32be, load64be

# a packet, or the one that an error quotes
(
    P_FAMILY, P_SRC_HI, P_SRC_LO, P_DST_HI, P_DST_LO, P_PROTOCOL, P_SPORT, P_DPORT, P_LENGTH,
    P_WHOLE,  # it must not, or can not, be cut by a router
    P_PIECE,  # it is a fragment
    P_IP, P_AT,  # where the IP header begins, and the upper one
    P_COLUMNS,
) = range(14)  # fmt: skip
PATH_KEY, FLOW_KEY = 5, 8  # columns that tell paths and flows apart
(
    PATH_MTU,  # that the sender may count on, by the smallest report
    PATH_REPORTED,  # the smallest report as it stood
    PATH_REPORTS, PATH_FIRST_NS, PATH_LAST_NS, PATH_FIRST_FRAME, PATH_LAST_FRAME,
    PATH_QUOTED,  # length of the largest packet quoted
    PATH_BY_HI, PATH_BY_LO,  # the first that reported
    PATH_OTHERS,  # reports of others than that one
    PATH_SENT,  # packets of the path after the first report
    PATH_LARGE, PATH_LARGEST, PATH_LARGE_NS, PATH_LARGE_FRAME,  # of those that were too large
    PATH_MOST,  # the largest packet of the path after the last too large one
    PATH_NEXT,
    PATH_COLUMNS,
) = range(PATH_KEY, PATH_KEY + 19)  # fmt: skip
(
    FLOW_COUNT, FLOW_FIRST_FRAME, FLOW_LAST_FRAME, FLOW_LARGEST, FLOW_MTU, FLOW_NEXT, FLOW_COLUMNS,
) = range(FLOW_KEY, FLOW_KEY + 7)  # fmt: skip
(
    STALL_SEQ, STALL_LENGTH, STALL_REPEATS, STALL_FIRST_NS, STALL_LAST_NS, STALL_FIRST_FRAME,
    STALL_LAST_FRAME,
    # the longest wait that the flow had, then
    WORST_LENGTH, WORST_REPEATS, WORST_FIRST_NS, WORST_LAST_NS, WORST_FIRST_FRAME, WORST_LAST_FRAME,
    WORST_PASSED,  # length of a smaller segment with the same first byte that followed
    STALL_COLUMNS,
) = range(FLOW_KEY, FLOW_KEY + 15)  # fmt: skip
ERROR_ROW, ERROR_MTU, ERROR_PATH, ERROR_COLUMNS = range(4)
PATHS, FLOWS, STALL_SETS, STALL_WAYS = 1 << 14, 1 << 14, 1 << 14, 4
# scalars
M_PATHS, M_FLOWS, M_PATHS_LEFT, M_FLOWS_LEFT, M_PACKETS, M_ERRORS, M_COLUMNS = range(7)
IPPROTO_TCP, IPPROTO_UDPLITE, IPPROTO_SCTP, IPPROTO_ICMPV6 = 6, 136, 132, 58
TCP_HEADER, RST = 20, 4
NONE = -1
LEAST4, LEAST6 = 68, 1280  # bytes that every path takes (RFC 791, RFC 8200)
SUSPECT = 1280  # a segment no larger than this is not swallowed for its size
ROUND = 1 << 32


@kernel
def _read_ip4(data, ip, end, p):
    """Fill `p` from an IPv4 header at `ip`; False if there is none."""
    if ip + HEADER > end or load8(data, ip + VERSION_IHL) >> 4 != 4:
        return False
    ihl, word = (load8(data, ip + VERSION_IHL) & 15) * 4, load16be(data, ip + FLAGS_OFFSET)
    if ihl < HEADER:
        return False
    p[P_FAMILY], p[P_SRC_HI], p[P_DST_HI] = 4, 0, 0
    p[P_SRC_LO], p[P_DST_LO] = load32be(data, ip + SOURCE), load32be(data, ip + DESTINATION)
    p[P_PROTOCOL], p[P_LENGTH] = load8(data, ip + PROTOCOL), load16be(data, ip + TOTAL_LENGTH)
    p[P_WHOLE], p[P_PIECE] = word & DF, word & (MF | OFFSET_MASK)
    p[P_AT] = NONE if word & OFFSET_MASK else ip + ihl
    return True


@kernel
def _read_ip6(data, ip, end, p):
    """The same for IPv6."""
    if ip + ipv6.HEADER > end or load8(data, ip) >> 4 != 6:
        return False
    p[P_FAMILY] = 6
    p[P_SRC_HI], p[P_SRC_LO] = (
        load64be(data, ip + ipv6.SOURCE),
        load64be(data, ip + ipv6.SOURCE + 8),
    )
    at = ip + ipv6.DESTINATION
    p[P_DST_HI], p[P_DST_LO] = load64be(data, at), load64be(data, at + 8)
    p[P_LENGTH] = load16be(data, ip + ipv6.PAYLOAD_LENGTH) + ipv6.HEADER
    protocol, at, fragment = skip_extensions(data, ip, end - ip)
    p[P_PROTOCOL], p[P_WHOLE], p[P_PIECE] = protocol, 1, fragment & 0xFFF9
    p[P_AT] = NONE if at < 0 or fragment & ipv6.FRAGMENT_OFFSET else ip + at
    return True


@kernel
def _read_ports(data, end, p):
    """Add the ports, if the packet has them."""
    protocol, at = p[P_PROTOCOL], p[P_AT]
    p[P_SPORT] = p[P_DPORT] = 0
    has = (
        protocol == IPPROTO_TCP
        or protocol == IPPROTO_UDP
        or protocol == IPPROTO_UDPLITE
        or protocol == IPPROTO_SCTP
    )
    if has and at != NONE and at + 4 <= end:
        p[P_SPORT], p[P_DPORT] = load16be(data, at), load16be(data, at + 2)


@kernel
def _hash(p, words):
    value = 0x9E3779B9
    for k in range(words):
        value = mix32(value, p[k])
        value = mix32(value, p[k] >> 32)
    return value


@kernel
def _find(table, bucket, p, words, link):
    """(bucket, row of the table whose key is `p[:words]`, or NONE)."""
    slot = _hash(p, words) & (bucket.shape[0] - 1)
    row = bucket[slot]
    while row != NONE:
        same = True
        for k in range(words):
            same = same and table[row, k] == p[k]
        if same:
            break
        row = table[row, link]
    return slot, row


@kernel
def _add(table, bucket, slot, p, words, link, misc, used, left):
    """A new row with this key, NONE if the table is full."""
    row = misc[used]
    if row == table.shape[0]:
        misc[left] += 1
        return NONE
    misc[used] = row + 1
    table[row] = 0
    for k in range(words):
        table[row, k] = p[k]
    table[row, link] = bucket[slot]
    bucket[slot] = row
    return row


@kernel
def _quoted(data, end, p, quote):
    """(MTU that a size error reports, whether the packet is one); `quote` gets what it quotes."""
    at = p[P_AT]
    if at == NONE or at + ICMP_HEADER > end:
        return 0, False
    if p[P_FAMILY] == 4:
        size_error = (
            load8(data, at) == ICMP_UNREACHABLE and load8(data, at + 1) == FRAGMENTATION_NEEDED
        )
        if p[P_PROTOCOL] != IPPROTO_ICMP or not size_error:
            return 0, False
        mtu, found = load16be(data, at + 6), _read_ip4(data, at + ICMP_HEADER, end, quote)
    else:
        if p[P_PROTOCOL] != IPPROTO_ICMPV6 or load8(data, at) != ICMP6_TOO_BIG:
            return 0, False
        mtu, found = load32be(data, at + 4), _read_ip6(data, at + ICMP_HEADER, end, quote)
    if found:
        _read_ports(data, end, quote)
    return mtu, found


@kernel
def _report(path, bucket, misc, p, quote, mtu, now, frame):
    """Note a size error; returns the row of its path, NONE if there is no room."""
    slot, row = _find(path, bucket, quote, PATH_KEY, PATH_NEXT)
    counts = max(mtu, LEAST4 if quote[P_FAMILY] == 4 else LEAST6)
    if row == NONE:
        row = _add(path, bucket, slot, quote, PATH_KEY, PATH_NEXT, misc, M_PATHS, M_PATHS_LEFT)
        if row == NONE:
            return NONE
        one = path[row]
        one[PATH_MTU], one[PATH_REPORTED] = counts, mtu
        one[PATH_FIRST_NS], one[PATH_FIRST_FRAME] = now, frame
        one[PATH_BY_HI], one[PATH_BY_LO] = p[P_SRC_HI], p[P_SRC_LO]
    one = path[row]
    one[PATH_MTU], one[PATH_REPORTED] = min(one[PATH_MTU], counts), min(one[PATH_REPORTED], mtu)
    one[PATH_REPORTS] += 1
    one[PATH_LAST_NS], one[PATH_LAST_FRAME] = now, frame
    one[PATH_QUOTED] = max(one[PATH_QUOTED], quote[P_LENGTH])
    if one[PATH_BY_HI] != p[P_SRC_HI] or one[PATH_BY_LO] != p[P_SRC_LO]:
        one[PATH_OTHERS] += 1
    return row


@kernel
def _follow(path, bucket, flow, flow_bucket, misc, p, now, frame):
    """Note a packet of a path about which there was a report."""
    _, row = _find(path, bucket, p, PATH_KEY, PATH_NEXT)
    if row == NONE:
        return
    one, length = path[row], p[P_LENGTH]
    one[PATH_SENT] += 1
    if length <= one[PATH_MTU] or not p[P_WHOLE]:
        one[PATH_MOST] = max(one[PATH_MOST], length)
        return
    one[PATH_LARGE] += 1
    one[PATH_LARGEST] = max(one[PATH_LARGEST], length)
    one[PATH_LARGE_NS], one[PATH_LARGE_FRAME], one[PATH_MOST] = now, frame, 0
    slot, at = _find(flow, flow_bucket, p, FLOW_KEY, FLOW_NEXT)
    if at == NONE:
        at = _add(flow, flow_bucket, slot, p, FLOW_KEY, FLOW_NEXT, misc, M_FLOWS, M_FLOWS_LEFT)
        if at == NONE:
            return
        flow[at, FLOW_FIRST_FRAME] = frame
    flow[at, FLOW_COUNT] += 1
    flow[at, FLOW_LAST_FRAME], flow[at, FLOW_MTU] = frame, one[PATH_MTU]
    flow[at, FLOW_LARGEST] = max(flow[at, FLOW_LARGEST], length)


@kernel
def _find_stall(stall, p):
    """(row of the flow, whether it is there); if not, the row that is least missed."""
    first = (_hash(p, FLOW_KEY) & (STALL_SETS - 1)) * STALL_WAYS
    best = first
    for row in range(first, first + STALL_WAYS):
        same = True
        for k in range(FLOW_KEY):
            same = same and stall[row, k] == p[k]
        if same:
            return row, True
        less = stall[row, WORST_REPEATS] < stall[best, WORST_REPEATS]
        older = (
            stall[row, WORST_REPEATS] == stall[best, WORST_REPEATS]
            and stall[row, STALL_LAST_NS] < stall[best, STALL_LAST_NS]
        )
        if less or older:
            best = row
    return best, False


@kernel
def _turn(p, back):
    """`back` gets the key of the flow in the other direction."""
    back[P_FAMILY], back[P_PROTOCOL] = p[P_FAMILY], p[P_PROTOCOL]
    back[P_SRC_HI], back[P_SRC_LO], back[P_SPORT] = p[P_DST_HI], p[P_DST_LO], p[P_DPORT]
    back[P_DST_HI], back[P_DST_LO], back[P_DPORT] = p[P_SRC_HI], p[P_SRC_LO], p[P_SPORT]


@kernel
def _is_before(one, other):
    """Is one sequence number before the other (RFC 9293 section 3.4)?"""
    return (other - one) % ROUND < ROUND // 2 and one != other


@kernel
def _wait_for(row, seq, length, repeats, now, frame):
    """Let the segment be the one that the flow waits for."""
    row[STALL_SEQ], row[STALL_LENGTH], row[STALL_REPEATS] = seq, length, repeats
    row[STALL_FIRST_NS] = row[STALL_LAST_NS] = now
    row[STALL_FIRST_FRAME] = row[STALL_LAST_FRAME] = frame


@kernel
def _repeat(row, length, now, frame):
    """The segment that the flow waits for is sent again."""
    if (
        row[STALL_REPEATS] and length < row[STALL_LENGTH]
    ):  # cut smaller, as probing for black holes does
        if row[WORST_FIRST_FRAME] == row[STALL_FIRST_FRAME]:
            row[WORST_PASSED] = length
        return
    row[STALL_LENGTH] = length  # the first time it may be one of many that a device was to cut
    row[STALL_REPEATS] += 1
    row[STALL_LAST_NS], row[STALL_LAST_FRAME] = now, frame
    if row[STALL_REPEATS] >= row[WORST_REPEATS]:
        for k in range(STALL_LENGTH, STALL_LAST_FRAME + 1):
            row[WORST_LENGTH + k - STALL_LENGTH] = row[k]
        row[WORST_PASSED] = 0


@kernel
def _watch_segment(stall, p, seq, now, frame):
    """A TCP segment with data: was it sent before?  The newest large one is watched until then."""
    at, known = _find_stall(stall, p)
    row, length = stall[at], p[P_LENGTH]
    large = length > SUSPECT and p[P_WHOLE] != 0
    if not known:
        if not large:
            return
        row[:] = 0
        for k in range(FLOW_KEY):
            row[k] = p[k]
    waits = row[STALL_LENGTH] != 0
    if waits and seq == row[STALL_SEQ]:
        _repeat(row, length, now, frame)
    elif large and waits and _is_before(seq, row[STALL_SEQ]):
        _wait_for(row, seq, length, 1, now, frame)
    elif large and row[STALL_REPEATS] == 0:
        _wait_for(row, seq, length, 0, now, frame)


@kernel
def _watch_tcp(data, end, stall, p, back, now, frame):
    """Follow what a TCP flow sends, and what the other side acknowledges."""
    at = p[P_AT]
    if at == NONE or at + TCP_HEADER > end or p[P_PIECE]:
        return
    header, flags = (load8(data, at + 12) >> 4) * 4, load8(data, at + 13)
    _turn(p, back)
    other, known = _find_stall(stall, back)
    if known and (flags & RST or _is_before(stall[other, STALL_SEQ], load32be(data, at + 8))):
        stall[other, STALL_LENGTH] = stall[other, STALL_REPEATS] = 0
    if p[P_LENGTH] > at - p[P_IP] + header:
        _watch_segment(stall, p, load32be(data, at + 4), now, frame)


@entry
def scan(
    arena, offset, length, link_type, time_ns, frame, begin, path, path_bucket, flow, flow_bucket,
    stall, misc, packet, errors,
):  # fmt: skip
    """Take in packets [begin, n) of a batch; returns the first not done: where `errors` is full.

    `packet` is room for three of them, int64[3, P_COLUMNS]; `errors` gets the size errors.
    """
    data, found = open_bytes(arena), 0
    p, quote, back = packet[0], packet[1], packet[2]
    for row in range(begin, offset.shape[0]):
        if found == errors.shape[0]:
            misc[M_ERRORS] = found
            return row
        start = offset[row]
        end = start + length[row]
        status, ip, kind, _, _, _ = find_network(data, start, end, np.int64(link_type[row]))
        if status != LINK_FOUND:
            continue
        read = (kind == ETH_P_IP and _read_ip4(data, ip, end, p)) or (
            kind == ETH_P_IPV6 and _read_ip6(data, ip, end, p)
        )
        if not read:
            continue
        misc[M_PACKETS] += 1
        p[P_IP] = ip
        mtu, is_error = _quoted(data, end, p, quote)
        if is_error:
            of = _report(path, path_bucket, misc, p, quote, mtu, time_ns[row], frame[row])
            errors[found, ERROR_ROW], errors[found, ERROR_MTU] = row, mtu
            errors[found, ERROR_PATH] = of
            found += 1
            continue
        _read_ports(data, end, p)
        if misc[M_PATHS]:
            _follow(path, path_bucket, flow, flow_bucket, misc, p, time_ns[row], frame[row])
        if p[P_PROTOCOL] == IPPROTO_TCP:
            _watch_tcp(data, end, stall, p, back, time_ns[row], frame[row])
    misc[M_ERRORS] = found
    return offset.shape[0]
