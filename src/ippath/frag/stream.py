"""Reassembly without a host: packets of a capture in, whole datagrams out.

Whatever is no fragment passes.  Fragments are judged as `ippath.frag.ipv4` and `.ipv6` do, but for
what only a host has: no device, no route, no answer, no limit of distance.  A datagram leaves with
the link-level header of its first fragment, in the place of the fragment that made it whole.
"""

from __future__ import annotations

from ippath.batch import LINK_IEEE802154_TAP
from ippath.frag.fragment import (
    contradicts, count_fragment, discard_queue, is_complete, keep_fragment, note_end,
    store_fragment,
)  # fmt: skip
from ippath.frag.lowpan import LARGEST_DATAGRAM, lowpan_frag_queue, lowpan_frag_reasm
from ippath.frag.lowpan import DUPLICATED as LOWPAN_DUPLICATED
from ippath.frag.lowpan import INVALID as LOWPAN_INVALID
from ippath.frag.lowpan import KEPT as LOWPAN_KEPT
from ippath.frag.lowpan import REFUSED as LOWPAN_REFUSED
from ippath.frag.lowpan import WHOLE as LOWPAN_WHOLE
from ippath.frag.overlap import first_piece, settle_overlaps
from ippath.frag.queue import destroy_queue, find_queue, kill_queue
from ippath.frag.runs import DUPLICATE, FITS, find_place, next_run
from ippath.frag.store import check_room, free_fragment, get_bytes
from ippath.frag.stream_ahead import join_ahead
from ippath.frag.stream_join import LARGEST, OUT_COUNT, OUT_FRAMES, join, note_out
from ippath.frag.stream_read import (
    ATOMIC, CUT, DAMAGED, DUPLICATED, FAILED, INVALID, IS_FRAGMENT, JOINED, KEPT, OVERLAPPED,
    PASSED, REFUSED, read_fragment, take_up,
)  # fmt: skip
from ippath.frag.wheel import first_due
from ippath.handles import as_arena, open_bytes, open_state
from ippath.jit import cold, entry, kernel
from ippath.reasons import CONSUMED, DROPPED, R_FRAG_REASM_TIMEOUT, R_NONE
from ippath.rx.lowpan_dispatch import FRAGMENT, REFUSE, open_payload, rebuild, take_fragment_header
from ippath.tables import (
    DATAGRAM_BYTES, FM_DST_HI, FM_DST_LO, FM_DUE_NS, FM_ID, FM_JOINED, FM_OVERLAPS, FM_SHORT,
    FM_SRC_HI, FM_SRC_LO, FQDIR_DATAGRAMS, FQDIR_DISCARDED, FQDIR_DUPLICATES, FQDIR_EXPIRED,
    FQDIR_FRAGMENTS, FQDIR_INVALID, FQDIR_IPV4, FQDIR_IPV6, FQDIR_JOINED, FQDIR_LOWPAN,
    FQDIR_OVERLAPS, FQDIR_POLICY, FQDIR_REFUSED, FQ_DIR, FQ_ECN, FQ_FIRST, FQ_FLAGS,
    FQ_FRAGMENTS, FQ_LAST_IN, FQ_LEN, FQ_MAX_DF_SIZE, FQ_ROOT, FRAG_BLOCK, FRAG_END, FRAG_FRAME,
    FRAG_HEADER, FRAG_LINK, FRAG_NEXT, FRAG_OFFSET, FRAG_OWNER, FRAG_SKIP, FRAG_STORED, LW_AT,
    LW_BASE, LW_END, LW_ERROR, LW_SECURED, LW_SIZE, LW_STRICT, LW_TYPE, LW_WIRE_END,
    MISC_NOW_NS, MISC_OUT_BYTES, MISC_OUT_ROWS, MOST_FRAGMENTS, NONE, OVERLAP_BEGIN,
    OVERLAP_COMPARED, OVERLAP_DIFFER, OVERLAP_DST_HI, OVERLAP_DST_LO, OVERLAP_END,
    OVERLAP_FAMILY, OVERLAP_FRAME, OVERLAP_ID, OVERLAP_OTHER, OVERLAP_OTHER_BEGIN,
    OVERLAP_OTHER_END, OVERLAP_OUTCOME, OVERLAP_PROTOCOL, OVERLAP_SRC_HI, OVERLAP_SRC_LO,
    OVERLAP_TIME, POLICY_BSD, POLICY_LINUX, POLICY_LINUX_418, SKB_AVAIL, SKB_END, SKB_FRAME,
    SKB_IP, SKB_LINK, SKB_PROTOCOL, SKB_TIME_NS, SKB_WIRE_END,
)  # fmt: skip
from ippath.wire.ether import ETH_P_IP, ETH_P_IPV6, LINK_FOUND, find_network
from ippath.wire.ieee802154 import (
    FCS, MAC_CUT, MAC_FOUND, TYPE_DATA, frame_check, is_ieee802154, parse_frame,
)  # fmt: skip
from ippath.wire.ipv4 import DF, FLAGS_OFFSET
from ippath.wire.lowpan import DISPATCH_IPV6, LW_CUT, LW_FINE
from ippath.wire.memory import copy, load16be, load16le, load8, store16le, store8

MOST_REPORTED = 64  # overlaps of one fragment
COMPARED_AT = 1 << 16  # in `State.datagram`: bytes that were kept, for comparison


@kernel
def _take_fragment(s, data, q, six, ip, header, offset, end, more, tos):
    """Check one fragment against its queue and put it in; what became of it."""
    fq, directory = s.fq, s.fqdir[FQDIR_IPV6 if six else FQDIR_IPV4]
    policy = directory[FQDIR_POLICY]
    if more and not six:
        end &= ~7
    if (six and more and end & 7) or (six and end > LARGEST):
        directory[FQDIR_INVALID] += 1
        return INVALID
    last_known = fq[q, FQ_FLAGS] & FQ_LAST_IN
    # OpenBSD: no fragment but the last ends where the datagram does
    at_end = policy == POLICY_BSD and more and last_known and end >= fq[q, FQ_LEN]
    if contradicts(more, end, fq[q, FQ_LEN], last_known) or end == offset or at_end:
        directory[FQDIR_INVALID] += 1
        if policy == POLICY_LINUX:
            discard_queue(s, q)
        return INVALID
    length, flags = fq[q, FQ_LEN], fq[q, FQ_FLAGS]
    note_end(s, q, more, end)
    reported = s.frag_misc[FM_OVERLAPS]
    if s.overlaps.shape[0] and fq[q, FQ_ROOT] != NONE:
        _note_overlaps(s, data, q, six, header, offset, end)
    if policy == POLICY_LINUX or policy == POLICY_LINUX_418:
        outcome = _put_in(s, data, q, header, offset, end, directory, policy)
    else:
        outcome = _cut_in(s, data, q, header, offset, end, directory, policy)
        if outcome == DUPLICATED:  # it never counted
            fq[q, FQ_FLAGS], fq[q, FQ_LEN] = flags, length
    for row in range(reported, s.frag_misc[FM_OVERLAPS]):
        s.overlaps[row, OVERLAP_OUTCOME] = outcome
    if outcome != KEPT:
        return outcome
    f = fq[q, FQ_FIRST]
    if offset == 0 and s.frag[f, FRAG_LINK] == 0:
        s.frag[f, FRAG_LINK] = ip - s.skb[SKB_LINK]
    fq[q, FQ_ECN] |= 1 << (tos & 3)
    if not six and load16be(data, ip + FLAGS_OFFSET) & DF:
        fq[q, FQ_MAX_DF_SIZE] = max(fq[q, FQ_MAX_DF_SIZE], header + end - offset)
    return KEPT


@kernel
def _put_in(s, data, q, header, offset, end, directory, policy):
    """The way of Linux since 4.18: what overlaps takes the whole datagram with it."""
    place, side, run = find_place(s, q, offset, end)
    if place == FITS:
        keep_fragment(s, data, q, header, offset, end, side, run)
        return KEPT
    if place == DUPLICATE and policy == POLICY_LINUX:
        directory[FQDIR_DUPLICATES] += 1
        return DUPLICATED
    directory[FQDIR_OVERLAPS] += 1
    discard_queue(s, q)
    return OVERLAPPED


@kernel
def _cut_in(s, data, q, header, offset, end, directory, policy):
    """The way of others: what overlaps is cut off, of the new or of the old."""
    f = store_fragment(s, data, header, offset, end)
    contested, won = settle_overlaps(s, q, f, policy, offset, end)
    if won == 0:
        directory[FQDIR_DUPLICATES] += 1
        free_fragment(s, f)
        return DUPLICATED
    if contested:
        directory[FQDIR_OVERLAPS] += 1
    first = s.fq[q, FQ_FIRST]
    count_fragment(s, q, f, header)
    if first != NONE:  # headers are those of the first fragment that came
        s.fq[q, FQ_FIRST] = first
    return KEPT


@cold
def _note_overlaps(s, data, q, six, header, offset, end):
    """Note each fragment held that has bytes in common, and how many of those differ."""
    skb, frag, fm = s.skb, s.frag, s.frag_misc
    here = max(0, min(end - offset, skb[SKB_AVAIL] - header))
    report = s.overlaps
    most = min(report.shape[0], fm[FM_OVERLAPS] + MOST_REPORTED)
    run = first_piece(s, q, offset)
    while run != NONE and frag[run, FRAG_OFFSET] < end:
        f = run
        while f != NONE and frag[f, FRAG_OFFSET] < end:
            begin, stop = max(offset, frag[f, FRAG_OFFSET]), min(end, frag[f, FRAG_END])
            row = fm[FM_OVERLAPS]
            if begin < stop and row < most:
                fm[FM_OVERLAPS] = row + 1
                owner = frag[f, FRAG_OWNER]
                skip = frag[f, FRAG_SKIP] + begin - frag[f, FRAG_OFFSET]
                common = min(stop, offset + here) - begin
                common = max(0, min(common, frag[owner, FRAG_STORED] - skip))
                skip += frag[owner, FRAG_HEADER]
                get_bytes(s, frag[owner, FRAG_BLOCK], skip, common, s.datagram, COMPARED_AT)
                at, differ = skb[SKB_IP] + header + begin - offset, 0
                for k in range(common):
                    if load8(data, at + k) != load8(s.datagram, COMPARED_AT + k):
                        differ += 1
                report[row, OVERLAP_FRAME] = skb[SKB_FRAME]
                report[row, OVERLAP_BEGIN], report[row, OVERLAP_END] = offset, end
                report[row, OVERLAP_OTHER] = frag[owner, FRAG_FRAME]
                report[row, OVERLAP_OTHER_BEGIN] = frag[f, FRAG_OFFSET]
                report[row, OVERLAP_OTHER_END] = frag[f, FRAG_END]
                report[row, OVERLAP_DIFFER], report[row, OVERLAP_COMPARED] = differ, common
                report[row, OVERLAP_FAMILY] = 6 if six else 4
                report[row, OVERLAP_ID] = fm[FM_ID] if six else fm[FM_ID] >> 8
                report[row, OVERLAP_PROTOCOL] = skb[SKB_PROTOCOL]
                report[row, OVERLAP_SRC_HI] = fm[FM_SRC_HI]
                report[row, OVERLAP_SRC_LO] = fm[FM_SRC_LO]
                report[row, OVERLAP_DST_HI] = fm[FM_DST_HI]
                report[row, OVERLAP_DST_LO] = fm[FM_DST_LO]
                report[row, OVERLAP_TIME] = skb[SKB_TIME_NS]
            f = frag[f, FRAG_NEXT]
        run = next_run(s, run)


@kernel
def _give_datagram(s, q, six, cause):
    """Join a complete queue and append the datagram to the output; JOINED or FAILED."""
    kill_queue(s, q)
    directory = s.fqdir[FQDIR_IPV6 if six else FQDIR_IPV4]
    fragments, frames = s.fq[q, FQ_FRAGMENTS], s.frag_misc[FM_JOINED]
    length, there = join(s, q, six, s.misc[MISC_OUT_BYTES])
    if length == 0:
        directory[FQDIR_DISCARDED] += fragments
        destroy_queue(s, q, CONSUMED, R_NONE)
        return FAILED
    directory[FQDIR_DATAGRAMS] += 1
    directory[FQDIR_JOINED] += fragments
    row = note_out(s, there, length, cause)
    s.out[row, OUT_FRAMES], s.out[row, OUT_COUNT] = frames, s.frag_misc[FM_JOINED] - frames
    destroy_queue(s, q, CONSUMED, R_NONE)
    return JOINED


@kernel
def _receive(s, data, fate, six, ip, header, offset, end, more, tos, cause):
    """A packet that `read_fragment` has read; what became of it."""
    directory = FQDIR_IPV6 if six else FQDIR_IPV4
    if fate == INVALID:
        s.fqdir[directory, FQDIR_FRAGMENTS] += 1
        s.fqdir[directory, FQDIR_INVALID] += 1
    if fate != IS_FRAGMENT:
        return fate
    s.fqdir[directory, FQDIR_FRAGMENTS] += 1
    q = find_queue(s, directory, six, s.misc[MISC_NOW_NS])
    if q == NONE:
        s.fqdir[directory, FQDIR_REFUSED] += 1
        return REFUSED
    outcome = _take_fragment(s, data, q, six, ip, header, offset, end, more, tos)
    if outcome == KEPT and is_complete(s, q):
        outcome = _give_datagram(s, q, six, cause)
    check_room(s)
    return outcome


@kernel
def _give_lowpan(s, q, f, link_type, fcs, cause):
    """Join a complete 6LoWPAN queue: a frame that has the IPv6 packet uncompressed; always JOINED."""
    frames, out = s.frag_misc[FM_JOINED], s.out_data
    base, length, there = lowpan_frag_reasm(s, q, f)
    at, size = s.misc[MISC_OUT_BYTES], base + there
    copy(out, at, s.lowpan, 0, size)
    if fcs and there == length:
        start = at + (load16le(out, at + 2) if link_type == LINK_IEEE802154_TAP else 0)
        store16le(out, at + size, frame_check(out, start, at + size - start))
        size += fcs
    row = note_out(s, size, base + length + fcs, cause)
    s.out[row, OUT_FRAMES], s.out[row, OUT_COUNT] = frames, s.frag_misc[FM_JOINED] - frames
    return JOINED


@cold
def _lowpan(s, data, link_type, cause):
    """An IEEE 802.15.4 frame; what became of it."""
    skb, lw, directory = s.skb, s.lw, s.fqdir[FQDIR_LOWPAN]
    start, end = skb[SKB_LINK], skb[SKB_END]
    status, fcs = parse_frame(data, start, end, skb[SKB_WIRE_END], link_type, lw)
    if status != MAC_FOUND or lw[LW_TYPE] != TYPE_DATA or lw[LW_SECURED] or fcs > FCS:
        return CUT if status == MAC_CUT else PASSED
    lw[LW_ERROR], lw[LW_BASE], lw[LW_SIZE] = LW_FINE, 0, 0
    kind, dispatch = open_payload(s, data)
    if kind != FRAGMENT or lw[LW_ERROR] != LW_FINE:
        return CUT if lw[LW_ERROR] == LW_CUT else PASSED
    before = lw[LW_AT] - start
    first = take_fragment_header(s, data, dispatch)
    length, there = lw[LW_WIRE_END] - lw[LW_AT], max(0, lw[LW_END] - lw[LW_AT])
    wrong = lw[LW_STRICT] != 0 and lw[LW_SIZE] > LARGEST_DATAGRAM
    if first and lw[LW_ERROR] == LW_FINE:
        copy(s.lowpan, 0, data, start, before)
        store8(s.lowpan, before, DISPATCH_IPV6)
        lw[LW_BASE] = before + 1
        kind, length, there = rebuild(s, data, load8(data, lw[LW_AT]))
        wrong = wrong or kind == REFUSE
    if lw[LW_ERROR] == LW_CUT:
        return CUT
    if wrong or lw[LW_ERROR] != LW_FINE:
        directory[FQDIR_FRAGMENTS] += 1
        directory[FQDIR_INVALID] += 1
        return INVALID
    skb[SKB_IP] = 0 if first else lw[LW_AT]
    skb[SKB_AVAIL] = lw[LW_BASE] + there
    if first:
        fate, q, f = lowpan_frag_queue(s, as_arena(s.lowpan), lw[LW_BASE], length, 1)
    else:
        fate, q, f = lowpan_frag_queue(s, data, 0, length, 0)
    check_room(s)
    if fate == LOWPAN_WHOLE:
        return _give_lowpan(s, q, f, link_type, fcs, cause)
    if fate == LOWPAN_KEPT:
        return KEPT
    if fate == LOWPAN_REFUSED:
        return REFUSED
    if fate == LOWPAN_INVALID:
        return INVALID
    return DUPLICATED if fate == LOWPAN_DUPLICATED else OVERLAPPED


@cold
def expire_stream(s, now):
    """Let go of all datagrams whose time is up."""
    while True:
        q = first_due(s, now)
        if q == NONE:
            return
        s.fqdir[s.fq[q, FQ_DIR], FQDIR_EXPIRED] += s.fq[q, FQ_FRAGMENTS]
        kill_queue(s, q)
        destroy_queue(s, q, DROPPED, R_FRAG_REASM_TIMEOUT)


@entry
def defragment_burst(
    state, arena, offset, length, wire_length, time_ns, link_type, device, frame, outcome, whole,
    begin, end,
):  # fmt: skip
    """Take packets [begin, end) of a batch; returns the first packet not done.

    `outcome` gets what became of each.  Datagrams, and with `whole` all that passed, are added to
    `State.out`.  The return value is below `end` when that, `State.joined` or `State.overlaps` has to
    be emptied, or the arrays of the engine have to grow, first.
    """
    s, data = open_state(state), open_bytes(arena)
    skb, misc, fm = s.skb, s.misc, s.frag_misc
    if fm[FM_DUE_NS] <= misc[MISC_NOW_NS]:
        expire_stream(s, misc[MISC_NOW_NS])
    row = begin
    while row < end:
        start, size, wire = offset[row], length[row], wire_length[row]
        if (
            fm[FM_SHORT]
            or misc[MISC_OUT_ROWS] >= s.out.shape[0]
            or misc[MISC_OUT_BYTES] + max(size, DATAGRAM_BYTES) > s.out_data.shape[0]
            or fm[FM_JOINED] + MOST_FRAGMENTS > s.joined.shape[0]
            or (s.overlaps.shape[0] and fm[FM_OVERLAPS] + MOST_REPORTED > s.overlaps.shape[0])
        ):
            return row
        now = max(misc[MISC_NOW_NS], time_ns[row])
        misc[MISC_NOW_NS] = now
        if fm[FM_DUE_NS] <= now:
            expire_stream(s, now)
        skb[SKB_FRAME], skb[SKB_TIME_NS] = frame[row], now
        take_up(s, start, size, wire, device[row])
        fate = PASSED
        if is_ieee802154(link_type[row]):
            fate = _lowpan(s, data, link_type[row], row)
        else:
            status, ip, kind, _, vlan, _ = find_network(data, start, start + size, link_type[row])
            six, user = kind == ETH_P_IPV6, vlan + 1
            if status == LINK_FOUND and (six or kind == ETH_P_IP):
                fate, header, first, last, more, tos = read_fragment(s, data, six, ip, user)
                if fate == IS_FRAGMENT and first == 0 and more:
                    done = join_ahead(
                        s, data, offset, length, wire_length, time_ns, link_type, device, frame,
                        outcome, row, end, six, ip, user, header, last, tos,
                    )  # fmt: skip
                    if done:
                        row += done
                        continue
                    take_up(s, start, size, wire, device[row])
                    read_fragment(s, data, six, ip, user)
                fate = _receive(s, data, fate, six, ip, header, first, last, more, tos, row)
        outcome[row] = fate
        if whole and (fate == PASSED or fate == ATOMIC or fate == CUT or fate == DAMAGED):
            copy(s.out_data, misc[MISC_OUT_BYTES], data, start, size)
            note_out(s, size, max(size, wire), row)
        row += 1
    return end
