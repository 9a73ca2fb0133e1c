"""How the ECN codepoints of fragments combine (kernel: ip_frag_ecn_table; RFC 3168 section 5.3)."""

from __future__ import annotations

from ippath.jit import kernel

NOT_ECT, ECT1, ECT0, CE = 1, 2, 4, 8  # a set of codepoints: 1 << (tos & 3)


@kernel
def combined_ecn(members):
    """What to set in the TOS of the datagram, or -1: it has to be dropped."""
    if members & NOT_ECT and members != NOT_ECT:
        return -1
    if members & CE and members != CE:
        return 3
    return 0
