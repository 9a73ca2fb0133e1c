"""IPv4 output: fragmentation and hand-over to the device (kernel: ip_output, ip_do_fragment).

Fragments are cut as `ip_frag_next` cuts them; options without the copy bit become NOOPs in all
fragments but the first (RFC 791 section 3.1).
"""

from __future__ import annotations

from ippath.fib.local import has_joined
from ippath.jit import cold, hot, kernel
from ippath.mib import (
    M_IpExtOutBcastOctets, M_IpExtOutBcastPkts, M_IpExtOutMcastOctets, M_IpExtOutMcastPkts,
    M_IpExtOutOctets, M_IpFragCreates, M_IpFragOKs, M_IpOutRequests, M_IpOutTransmits,
)  # fmt: skip
from ippath.tables import (
    DEV_LOOPBACK, FLOW_DST_LO, FLOW_OIF, FLOW_OUTPUT, FM_PIECES, MISC_OWN_IIF, MISC_QUIET,
    NH_DEVICE, NONE, RES_NH, RES_TYPE, RTN_BROADCAST, RTN_LOCAL, RTN_MULTICAST, RTN_UNICAST,
    SCRATCH_FRAGMENT,
)  # fmt: skip
from ippath.trace import T_FRAGMENTED, T_REFRAGMENTED, note
from ippath.tx.emit import emit, neighbour_answers
from ippath.tx.loopback import loop_back
from ippath.tx.path_mtu import next_hop, output_mtu4
from ippath.wire.checksum import checksum
from ippath.wire.ipv4 import (
    CHECKSUM, DESTINATION, DF, FLAGS_OFFSET, HEADER, IPOPT_COPY, IPOPT_END, IPOPT_NOOP, MF,
    OFFSET_MASK, TOTAL_LENGTH, TTL, VERSION_IHL,
)  # fmt: skip
from ippath.wire.memory import copy, load8, load16be, load32be, store8, store16be


@hot
def finish_output4(h, s, buf, at, kept, size, device, family, hi, lo, kind):
    """One packet of `size` bytes, of which `buf` has `kept`, to the device, counted as sent.

    Kernel: ip_finish_output2.
    """
    s.counters[M_IpOutTransmits] += 1
    s.counters[M_IpExtOutOctets] += size
    if kind == RTN_MULTICAST:
        s.counters[M_IpExtOutMcastPkts] += 1
        s.counters[M_IpExtOutMcastOctets] += size
    elif kind == RTN_BROADCAST:
        s.counters[M_IpExtOutBcastPkts] += 1
        s.counters[M_IpExtOutBcastOctets] += size
    emit(h, s, buf, at, kept, size, device, family, hi, lo, kind)


@kernel
def _blank_options(buf, at, ihl):
    """Overwrite options that must not be copied (kernel: ip_options_fragment)."""
    here, end = at + HEADER, at + ihl
    while here < end:
        option = load8(buf, here)
        if option == IPOPT_END:
            return
        if option == IPOPT_NOOP:
            here += 1
            continue
        size = load8(buf, here + 1) if here + 1 < end else 0
        if size < 2 or here + size > end:
            return
        if option & IPOPT_COPY == 0:
            for k in range(size):
                store8(buf, here + k, IPOPT_NOOP)
        here += size


@kernel
def _send_fragment4(
    h, s, buf, at, kept, ihl, start, part, word, device, family, hi, lo, kind
):  # fmt: skip
    """Send `part` bytes of data from byte `start` on, under the packet's header with `word` in it."""
    work = s.scratch
    copy(work, SCRATCH_FRAGMENT, buf, at, ihl)
    there = max(0, min(part, kept - ihl - start))
    copy(work, SCRATCH_FRAGMENT + ihl, buf, at + ihl + start, there)
    if start and load16be(buf, at + FLAGS_OFFSET) & OFFSET_MASK == 0:
        # a later fragment has the options that it should have
        _blank_options(work, SCRATCH_FRAGMENT, ihl)
    store16be(work, SCRATCH_FRAGMENT + FLAGS_OFFSET, word)
    store16be(work, SCRATCH_FRAGMENT + TOTAL_LENGTH, ihl + part)
    store16be(work, SCRATCH_FRAGMENT + CHECKSUM, 0)
    store16be(work, SCRATCH_FRAGMENT + CHECKSUM, checksum(work, SCRATCH_FRAGMENT, ihl))
    finish_output4(
        h, s, work, SCRATCH_FRAGMENT, ihl + there, ihl + part, device, family, hi, lo, kind
    )
    s.counters[M_IpFragCreates] += 1


@kernel
def _cut4(h, s, buf, at, kept, size, mtu, flags, device, family, hi, lo, kind):
    """Cut the packet at `buf[at]` into fragments that fit `mtu`, `flags` in each; how many."""
    ihl = (load8(buf, at + VERSION_IHL) & 15) * 4
    word = load16be(buf, at + FLAGS_OFFSET)
    base, more_after = word & OFFSET_MASK, word & MF
    if (mtu - ihl) & ~7 < 8:
        return 0
    left, done, fragments = size - ihl, 0, 0
    while left > 0:
        part = min(left, mtu - ihl)
        if part < left:
            part &= ~7
        left -= part
        word = flags | (base + (done >> 3)) | (MF if left > 0 or more_after else 0)
        _send_fragment4(
            h, s, buf, at, kept, ihl, done, part, word, device, family, hi, lo, kind
        )  # fmt: skip
        done += part
        fragments += 1
    s.counters[M_IpFragOKs] += 1
    return fragments


@cold
def fragment4(h, s, trace, buf, at, kept, size, mtu, device, family, hi, lo, kind):
    """Cut the packet at `buf[at]` into fragments that fit `mtu` and send them; returns how many.

    `buf` has the first `kept` of the packet's `size` bytes, its header at least.
    """
    fragments = _cut4(h, s, buf, at, kept, size, mtu, 0, device, family, hi, lo, kind)
    note(trace, T_FRAGMENTED, fragments, mtu)
    return fragments


@kernel
def pieces_fit(s, skip, room):
    """Can the datagram that was put together leave in the fragments in which it came?

    `skip` bytes stand before the data that is cut, counted from the data as it came; `room` bytes
    fit into a fragment.  All but the last have to be multiples of 8 (kernel: "correct geometry").
    """
    pieces, done = s.frag_misc[FM_PIECES], skip
    for k in range(pieces):
        part = s.pieces[k] - done
        if part > room or (part & 7 and k < pieces - 1):
            return False
        done = s.pieces[k]
    return pieces > 1


@cold
def refragment4(h, s, trace, buf, at, kept, size, limit, device, family, hi, lo, kind):
    """Send a datagram that was put together in fragments of `limit` bytes at most; how many.

    As they came, if they fit; else cut anew, with DF if the largest had it (kernel:
    ip_do_fragment, IPSKB_FRAG_PMTU).
    """
    ihl = (load8(buf, at + VERSION_IHL) & 15) * 4
    as_they_came = pieces_fit(s, 0, limit - ihl)
    if as_they_came:
        fragments, done = s.frag_misc[FM_PIECES], 0
        for k in range(fragments):
            part = s.pieces[k] - done
            word = done >> 3 | (MF if k < fragments - 1 else 0)
            _send_fragment4(
                h, s, buf, at, kept, ihl, done, part, word, device, family, hi, lo, kind
            )  # fmt: skip
            done += part
        s.counters[M_IpFragOKs] += 1
    else:
        flags = load16be(buf, at + FLAGS_OFFSET) & DF
        fragments = _cut4(h, s, buf, at, kept, size, limit, flags, device, family, hi, lo, kind)
    note(trace, T_REFRAGMENTED, fragments, as_they_came, limit)
    return fragments


@kernel
def _loop_group(h, s, at, size, device, kind):
    """The copy of what goes to a group or broadcast; False if it stays here (kernel: ip_mc_output)."""
    if h.device[device, DEV_LOOPBACK]:
        return True
    if kind == RTN_BROADCAST:
        loop_back(h, s, s.scratch, at, size, size, device, kind)
    elif kind == RTN_MULTICAST:
        group = load32be(s.scratch, at + DESTINATION)
        if s.misc[MISC_QUIET] == 0 and has_joined(h, 4, device, 0, group):
            loop_back(h, s, s.scratch, at, size, size, device, kind)
        return load8(s.scratch, at + TTL) != 0
    return True


@kernel
def _finish(h, s, trace, at, size, mtu, device, family, hi, lo, kind):
    if not neighbour_answers(h, trace, device, family, hi, lo):
        return
    if size > mtu:
        fragment4(h, s, trace, s.scratch, at, size, size, mtu, device, family, hi, lo, kind)
    else:
        finish_output4(h, s, s.scratch, at, size, size, device, family, hi, lo, kind)


@kernel
def ip_output4(h, s, trace, at, size, mtu):
    """Send the packet of this host at `scratch[at]` by the route in the OUTPUT rows.

    `mtu` is that of the sender; NONE: that of the route.
    """
    flow, result, fib = s.flow[FLOW_OUTPUT], s.result[FLOW_OUTPUT], h.fib4
    s.counters[M_IpOutRequests] += 1
    device, kind, nh = flow[FLOW_OIF], result[RES_TYPE], result[RES_NH]
    hi, lo, family = 0, flow[FLOW_DST_LO], 4
    if kind == RTN_UNICAST:
        family, hi, lo = next_hop(fib, s, result, hi, lo, 4)
    if mtu == NONE:
        mtu = output_mtu4(h, s, result, device)
    # sockets see the device that has the address, not the one by which packets come back
    iif = fib.nexthop[nh, NH_DEVICE] if nh != NONE and kind == RTN_LOCAL else device
    s.misc[MISC_OWN_IIF] = iif
    if _loop_group(h, s, at, size, device, kind):
        _finish(h, s, trace, at, size, mtu, device, family, hi, lo, kind)
    s.misc[MISC_OWN_IIF] = NONE
