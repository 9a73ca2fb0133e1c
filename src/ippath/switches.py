"""The registry of mechanism switches: name, default, values, meaning, the kernel that has it.

A switch reaches compiled code as a number in the configuration array and is read outside the
per-packet loop, so that it costs nothing there.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass


class SwitchError(ValueError):
    """A switch or a value that does not exist; the message says what is valid."""


@dataclass(frozen=True)
class Switch:
    """One named mechanism switch; `values` empty means a number >= `least`."""

    name: str
    default: str
    values: tuple[str, ...]
    meaning: str
    kernel: str
    least: int = 0
    most: int = 1 << 31


SWITCHES: tuple[Switch, ...] = (
    Switch(
        "route_hint",
        "on",
        ("on", "off", "strict"),
        "reuse the previous packet's route within a receive list; strict also validates every source",
        "on: Linux 5.5 and later (multipath excluded as since 6.6); off: before; strict: ippath only",
    ),
    Switch(
        "receive_list",
        "8",
        (),
        "packets that one receive list holds at most (net.core.gro_normal_batch)",
        "8: default since 5.4; 1: no lists, as before 4.19",
        1,
        65536,
    ),
    Switch(
        "receive_list_gap",
        "50",
        (),
        "microseconds between two packets that end a receive list (interrupt moderation)",
        "depends on the network card; 50 is a common setting",
    ),
    Switch(
        "route_cache",
        "lazy",
        ("lazy", "eager"),
        "lazy: an entry for destinations about which something was learned; eager: one for each destination",
        "eager: IPv4 up to 3.5, IPv6 up to 4.1; lazy: since then",
    ),
    Switch(
        "neighbours",
        "assume",
        ("assume", "strict"),
        "assume: a next hop without a neighbour entry answers; strict: it does not",
        "strict: what an isolated kernel does; assume: what a working network does",
    ),
    Switch(
        "fragment_store",
        "runs",
        ("runs", "tree", "list"),
        "how fragments of a datagram are kept: a tree of runs, a tree of fragments, or a list",
        "list: up to 4.18 (CVE-2018-5391); tree: a step of the rewrite in 4.19; runs: since 4.19",
    ),
    Switch(
        "fragment_memory",
        "refuse",
        ("refuse", "evict"),
        "over the high threshold: refuse fragments, or let the oldest datagrams go down to the low one",
        "evict: up to 3.16 (a little coarser up to 4.16); refuse: since 4.17",
    ),
    Switch(
        "fragment_minimum6",
        "off",
        ("off", "on"),
        "refuse IPv6 fragments of packets below 1280 bytes, unless they are the last",
        "on: 4.19, 5.0 and stable kernels from late 2018 to mid 2019; off: before and since 5.1",
    ),
    Switch(
        "conntrack_defrag",
        "off",
        ("off", "on"),
        "put fragments together before they are routed, as connection tracking does",
        "on: while some rule of iptables or nftables asks for a connection's state, or translates",
    ),
    Switch(
        "lowpan",
        "linux",
        ("linux", "rfc"),
        "6LoWPAN as Linux does it, or all of RFC 4944 and RFC 6282 and fragments in any order",
        "linux: 5.2 and later take fragments in order alone, know no mesh and no HC1; rfc: none",
    ),
    Switch(
        "broadcast_hint",
        "on",
        ("on", "off"),
        "let packets to a directed broadcast address be hints",
        "on: about 6.18 and later; off: 5.5 to 6.17",
    ),
    Switch(
        "send_lookup",
        "on",
        ("on", "off"),
        "datagrams of one call to one destination share a route look-up; off: one each, or two",
        "on: within a cork or with UDP_SEGMENT; off: sendmmsg of a socket that is not connected",
    ),
    Switch(
        "socket_route",
        "on",
        ("on", "off"),
        "a connected socket remembers its route until something changes that it depends on",
        "on: all (sk_dst_cache)",
    ),
    Switch(
        "header_template",
        "on",
        ("on", "off"),
        "make the headers of a flow once, with partial sums, and complete them for each packet",
        "on: link-level headers (hh_cache), and checksums where the device completes them",
    ),
    Switch(
        "send_accounts",
        "on",
        ("on", "off"),
        "settle the accounts once for the datagrams of a call; off: for each",
        "off: 6.18; on: where the UDP optimisations of 2022 lead to",
    ),
    Switch(
        "send_options",
        "on",
        ("on", "off"),
        "look at options and ancillary data once for the datagrams of a call; off: for each",
        "off: all; since 5.19 there is less of it (ipcm6_init_sk)",
    ),
    Switch(
        "cork_by_reference",
        "on",
        ("on", "off"),
        "a cork keeps flow, route and payload where they are; off: copies them with each call",
        "on: since 5.18; off: before",
    ),
    Switch(
        "zero_copy",
        "on",
        ("on", "off"),
        "payloads go from the caller's buffer into the packet; off: by a buffer of the host's own",
        "on: MSG_ZEROCOPY; off: without",
    ),
)

_BY_NAME = {s.name: s for s in SWITCHES}


def nearest(word: str, words: list[str] | tuple[str, ...]) -> str:
    """`; did you mean X?` for the closest valid word, or an empty string."""
    close = difflib.get_close_matches(word, words, 1, 0.5)
    return f"; did you mean {close[0]}?" if close else ""


def check_switch(name: str, value: str) -> str:
    """The value if it is valid for the switch; raises SwitchError that says what is valid."""
    switch = _BY_NAME.get(name)
    if switch is None:
        raise SwitchError(f"no switch is called {name}{nearest(name, list(_BY_NAME))}")
    if switch.values:
        if value not in switch.values:
            raise SwitchError(f"switch {name} is one of {', '.join(switch.values)}, not {value}")
    elif not (value.isdecimal() and switch.least <= int(value) <= switch.most):
        raise SwitchError(f"switch {name} is a number of at least {switch.least}, not {value}")
    return value


def resolve(given: dict[str, str]) -> dict[str, str]:
    """All switches with their values: the defaults overridden by `given` (checked)."""
    values = {s.name: s.default for s in SWITCHES}
    for name, value in given.items():
        values[name] = check_switch(name, value)
    return values
