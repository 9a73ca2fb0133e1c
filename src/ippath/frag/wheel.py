"""The timer wheel: queues by deadline (kernel: a timer per queue, `inet_frag_queue.timer`).

A slot is a list of queues whose deadlines fall into the same tick, in the order in which they were
set.  Time is the clock of the packets; FM_DUE_NS says when the wheel has to be looked at again.
"""

from __future__ import annotations

from ippath.jit import cold, kernel
from ippath.tables import (
    FM_DUE_NS, FQ_DEADLINE_NS, FQ_EARLIER, FQ_LATER, NONE, WHEEL_FIRST, WHEEL_LAST, WHEEL_SLOTS,
    WHEEL_TICK_BITS,
)  # fmt: skip

NEVER = (1 << 63) - 1


@kernel
def _slot(deadline):
    return (deadline >> WHEEL_TICK_BITS) & (WHEEL_SLOTS - 1)


@kernel
def start_timer(s, q, deadline):
    """Let the queue expire at `deadline`, which has not passed."""
    fq, wheel, slot = s.fq, s.fq_wheel, _slot(deadline)
    last = wheel[slot, WHEEL_LAST]
    fq[q, FQ_DEADLINE_NS] = deadline
    fq[q, FQ_LATER] = NONE
    fq[q, FQ_EARLIER] = last
    if last == NONE:
        wheel[slot, WHEEL_FIRST] = q
    else:
        fq[last, FQ_LATER] = q
    wheel[slot, WHEEL_LAST] = q
    s.frag_misc[FM_DUE_NS] = min(s.frag_misc[FM_DUE_NS], deadline)


@kernel
def stop_timer(s, q):
    """Take the queue off the wheel."""
    fq, wheel, slot = s.fq, s.fq_wheel, _slot(s.fq[q, FQ_DEADLINE_NS])
    earlier, later = fq[q, FQ_EARLIER], fq[q, FQ_LATER]
    if earlier == NONE:
        wheel[slot, WHEEL_FIRST] = later
    else:
        fq[earlier, FQ_LATER] = later
    if later == NONE:
        wheel[slot, WHEEL_LAST] = earlier
    else:
        fq[later, FQ_EARLIER] = earlier


@cold
def _earliest(s, tick):
    """The first deadline on the wheel; none lies before `tick`."""
    fq, earliest = s.fq, NEVER
    for ahead in range(WHEEL_SLOTS):
        q = s.fq_wheel[(tick + ahead) & (WHEEL_SLOTS - 1), WHEEL_FIRST]
        this_turn = False
        while q != NONE:
            deadline = fq[q, FQ_DEADLINE_NS]
            this_turn = this_turn or deadline >> WHEEL_TICK_BITS == tick + ahead
            earliest = min(earliest, deadline)
            q = fq[q, FQ_LATER]
        if this_turn:  # others may belong to a later turn of the wheel
            break
    return earliest


@cold
def first_due(s, now):
    """The next queue to expire at `now`, still on the wheel, or NONE once all have been taken."""
    fm, fq = s.frag_misc, s.fq
    while fm[FM_DUE_NS] <= now:
        tick = fm[FM_DUE_NS] >> WHEEL_TICK_BITS
        q = s.fq_wheel[tick & (WHEEL_SLOTS - 1), WHEEL_FIRST]
        while q != NONE:
            deadline = fq[q, FQ_DEADLINE_NS]
            if deadline <= now and deadline >> WHEEL_TICK_BITS == tick:
                return q
            q = fq[q, FQ_LATER]
        fm[FM_DUE_NS] = _earliest(s, tick)
    return NONE
