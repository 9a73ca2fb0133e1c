"""Messages of neighbour discovery (RFC 4861 section 4): where their fields stand, and options."""

from __future__ import annotations

from ippath.jit import kernel
from ippath.wire.memory import load8

TARGET = 8
REDIRECT_DESTINATION, REDIRECT_HEADER = 24, 40
OPT_TARGET_ADDRESS, OPT_REDIRECTED = 2, 4
OPTION_UNIT = 8  # bytes that the length of an option counts


@kernel
def options_end_well(data, at, end):
    """Do the options at `data[at:end]` fill that room exactly (kernel: ndisc_parse_options)?"""
    while at < end:
        if end - at < 2:
            return False
        size = load8(data, at + 1) * OPTION_UNIT
        if size == 0 or size > end - at:
            return False
        at += size
    return at == end


@kernel
def find_option(data, at, end, kind):
    """Where the first option of a kind stands, -1 if there is none; the options end well."""
    while at < end:
        if load8(data, at) == kind:
            return at
        at += load8(data, at + 1) * OPTION_UNIT
    return -1
