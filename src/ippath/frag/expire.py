"""Queues whose time is up, as time goes by."""

from __future__ import annotations

from ippath.frag.ipv4 import ip_expire
from ippath.frag.ipv6 import ip6_expire
from ippath.frag.lowpan import lowpan_expire
from ippath.frag.wheel import first_due
from ippath.jit import cold
from ippath.reasons import CONSUMED, R_NONE
from ippath.tables import FQDIR_IPV4, FQDIR_LOWPAN, FQ_DEADLINE_NS, FQ_DIR, MISC_NOW_NS, NONE


@cold
def expire_due(h, s, trace, now):
    """Let all queues expire whose deadline is not after `now`, each at its time."""
    entered = s.misc[MISC_NOW_NS]
    while True:
        q = first_due(s, now)
        if q == NONE:
            break
        s.misc[MISC_NOW_NS] = s.fq[q, FQ_DEADLINE_NS]
        if s.fq[q, FQ_DIR] == FQDIR_IPV4:
            ip_expire(h, s, trace, q)
        elif s.fq[q, FQ_DIR] == FQDIR_LOWPAN:
            lowpan_expire(s, q, CONSUMED, R_NONE)
        else:
            ip6_expire(h, s, trace, q)
    s.misc[MISC_NOW_NS] = max(entered, now)
