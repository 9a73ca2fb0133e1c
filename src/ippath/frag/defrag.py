"""Where fragments go (kernel: ip_defrag, ipv6_frag_rcv).

There is no reassembly engine yet: a fragment for this host gets the verdict `unsupported`, by name.
"""

from __future__ import annotations

from ippath.jit import cold
from ippath.reasons import R_FRAGMENT
from ippath.rx.packet import unsupported
from ippath.trace import T_FRAGMENT, note


@cold
def defragment(s, trace, offset, more):
    """Take the fragment in hand: `offset` in bytes, `more` if others follow; always DONE."""
    note(trace, T_FRAGMENT, offset, more)
    return unsupported(s, trace, R_FRAGMENT)
