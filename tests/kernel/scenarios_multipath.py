"""Scenarios of multipath routes: which next hop a flow takes under a fixed hash seed."""

from __future__ import annotations

import struct

from ippath.verify.packets import (
    data, destination_options, echo, echo6, fragment_header, icmp, icmp6, ip4, ip6, tcp, udp,
)  # fmt: skip
from ippath.verify.scenario import Inject, Run, Together
from tests.kernel.scenarios import router, scenario

# redirects have a clock of their own, which is another subject
SEED = (
    "net.ipv4.conf.all.send_redirects = 0\nnet.ipv4.conf.r0.send_redirects = 0\n"
    "net.ipv4.fib_multipath_hash_seed = 4711"
)
EVEN = (
    "ip route add 77.0.0.0/8 nexthop via 10.0.0.9 nexthop via 10.1.0.9",
    "ip -6 route add 2001:db8:77::/48 nexthop via 2001:db8:0::9 nexthop via 2001:db8:1::9",
)
UNEVEN = (
    "ip route add 77.0.0.0/8 nexthop via 10.0.0.9 weight 1 nexthop via 10.1.0.9 weight 7",
    "ip -6 route add 2001:db8:77::/48 nexthop via 2001:db8:0::9 weight 1 "
    "nexthop via 2001:db8:1::9 weight 7",
)
SOURCE, SOURCE6 = "10.0.0.2", "2001:db8:0::2"


def _flows(count: int = 10) -> dict[str, bytes]:
    """Flows that differ in the destination, then in the ports, then in what else may count."""
    found = {}
    for k in range(1, count + 1):
        there, there6 = f"77.0.{k}.{k}", f"2001:db8:77::{k:x}"
        found[f"to {there}"] = ip4(SOURCE, there)
        found[f"v6 to {k}"] = ip6(SOURCE6, there6)
        found[f"port {k}"] = ip4(SOURCE, "77.0.0.1", udp(1000 + k, 2000))
        found[f"v6 port {k}"] = ip6(SOURCE6, "2001:db8:77::1", udp(1000 + k, 2000))
    for label in (1, 0xFFFFF, 0x12345, 0x80000):
        found[f"label {label:#x}"] = ip6(SOURCE6, "2001:db8:77::1", label=label)
    for name, upper in (("tcp", tcp()), ("echo", echo()), ("bytes", data(20))):
        found[name] = ip4(SOURCE, "77.0.0.1", upper, proto=47 if name == "bytes" else None)
    for name, upper6 in (("tcp", tcp()), ("echo", echo6())):
        found[f"v6 {name}"] = ip6(SOURCE6, "2001:db8:77::1", upper6)
    found["fragment"] = ip4(SOURCE, "77.0.0.1", mf=True)
    found["later fragment"] = ip4(SOURCE, "77.0.0.1", data(16), proto=17, offset=5)
    return found


for _policy in (0, 1, 3):
    for _name, _routes in (("even", EVEN), ("weights 1 and 7", UNEVEN)):
        scenario(
            f"multipath, policy {_policy}, {_name}",
            "multipath",
            router(
                SEED,
                f"net.ipv4.fib_multipath_hash_policy = {_policy}",
                f"net.ipv6.fib_multipath_hash_policy = {_policy}",
                *_routes,
            ),
            _flows(),
        )
for _fields in (1, 2, 4, 8, 16, 32, 0x3F):
    scenario(
        f"multipath, policy 3, fields {_fields:#x}",
        "multipath",
        router(
            SEED,
            "net.ipv4.fib_multipath_hash_policy = 3",
            "net.ipv6.fib_multipath_hash_policy = 3",
            f"net.ipv4.fib_multipath_hash_fields = {_fields}",
            f"net.ipv6.fib_multipath_hash_fields = {_fields}",
            *EVEN,
        ),
        _flows(6),
    )
for _seed in (1, 0xFFFFFFFF):
    scenario(
        f"multipath, seed {_seed:#x}",
        "multipath",
        router(SEED.replace("4711", str(_seed)), *EVEN),
        _flows(6),
    )
scenario(
    "multipath, errors go the way of what they quote",
    "multipath",
    router(SEED, *EVEN),
    {
        f"{kind} for {k}": ip4(SOURCE, "77.0.0.1", icmp(kind, 0, 0, ip4("77.0.0.1", f"10.9.{k}.1")))
        for kind in (3, 11, 12, 8)
        for k in range(4)
    }
    | {
        f"v6 {kind} for {k}": ip6(
            SOURCE6,
            "2001:db8:77::1",
            icmp6(kind, 0, 0, ip6("2001:db8:77::1", f"2001:db8:9::{k}", label=k)),
        )
        for kind in (1, 3, 128)
        for k in range(4)
    },
)
for _policy in (0, 1, 2, 3):
    scenario(
        f"multipath, policy {_policy}, with a rule by ports",
        "multipath",
        router(
            SEED,
            f"net.ipv4.fib_multipath_hash_policy = {_policy}",
            f"net.ipv6.fib_multipath_hash_policy = {_policy}",
            "net.ipv6.fib_multipath_hash_fields = 15",
            "ip rule add pref 100 sport 99 blackhole",
            "ip -6 rule add pref 100 sport 99 blackhole",
            *EVEN,
        ),
        _flows(4)
        | {
            f"v6 {name} {label:#x}": ip6(SOURCE6, "2001:db8:77::1", upper, label=label)
            for name, upper in (
                ("echo", echo6()),
                ("unknown ICMPv6", icmp6(200, 0, 0, ip6("2001:db8:77::1", "2001:db8:9::1"))),
                ("error", icmp6(1, 0, 0, ip6("2001:db8:77::1", "2001:db8:9::1", label=7))),
            )
            for label in (1, 0x100, 0x12345, 0x8AF2E)
        }
        | {
            f"v6 echo after options {label:#x}": ip6(
                SOURCE6,
                "2001:db8:77::1",
                echo6(),
                label=label,
                extensions=(destination_options(b""),),
            )
            for label in (1, 0x100, 0x12345, 0x8AF2E)
        },
    )


def _gre(flags: int, kind: int, optional: bytes, body: bytes) -> bytes:
    """A GRE header and what it carries (RFC 2784, RFC 2890)."""
    return struct.pack("!HH", flags, kind) + optional + body


def _tunnels(k: int) -> dict[str, tuple[int, bytes]]:
    """Protocol and bytes of tunnels around the k-th of several flows."""
    inner4 = ip4("192.0.2.1", f"192.0.2.{k}", udp(1000 + k, 2000))
    inner6 = ip6("2001:db8:a::1", f"2001:db8:a::{k:x}", udp(1000 + k, 2000), label=k)
    frame = bytes(12) + b"\x08\x00" + inner4
    return {
        "IPv4": (4, inner4),
        "IPv6": (41, inner6),
        "IPv4 in IPv4": (4, ip4("192.0.2.9", "192.0.2.8", inner4, proto=4)),
        "IPv6 fragment": (41, ip6("2001:db8::1", f"2001:db8::{k:x}",
                                  extensions=(fragment_header(1, False),))),
        "IPv4 fragment": (4, ip4("192.0.2.1", f"192.0.2.{k}", offset=2)),
        "GRE": (47, _gre(0, 0x800, b"", inner4)),
        "GRE of IPv6": (47, _gre(0, 0x86DD, b"", inner6)),
        "GRE with all": (47, _gre(0xB000, 0x800, bytes([0, 0, 0, 0, 0, 0, 0, k, 0, 0, 0, 1]), inner4)),
        "GRE of key": (47, _gre(0x2000, 0x9999, bytes([0, 0, 0, k]), inner4)),
        "GRE of Ethernet": (47, _gre(0, 0x6558, b"", frame)),
        "GRE version 1": (47, _gre(0x2001, 0x880B, bytes([0, 9, 0, k]), inner4)),
        "GRE cut": (47, _gre(0, 0x800, b"", inner4[:12])),
        "cut": (4, inner4[:12]),
        "AH": (51, bytes([17, 4, 0, 0]) + bytes(20) + struct.pack("!4H", k, 9, 8, 0)),
        "ESP": (50, struct.pack("!LL", 7 << 16 | k, 1)),
    }  # fmt: skip


for _policy in (1, 2, 3):
    for _family in (4, 6):
        _source, _there = (SOURCE, "77.0.0.1") if _family == 4 else (SOURCE6, "2001:db8:77::1")
        scenario(
            f"multipath, policy {_policy}, tunnels in IPv{_family}",
            "multipath",
            router(
                SEED,
                *EVEN,
                f"net.ipv{_family}.fib_multipath_hash_policy = {_policy}",
                f"net.ipv{_family}.fib_multipath_hash_fields = {0xFFF}",
            ),
            {
                f"{name} {k}": ip4(_source, _there, body, proto=number)
                if _family == 4
                else ip6(_source, _there, body, last_header=number)
                for k in range(1, 6)
                for name, (number, body) in _tunnels(k).items()
            },
        )
for _fields in (0x40, 0x80, 0x100, 0x200, 0x400, 0x800, 0xFC0):
    scenario(
        f"multipath, policy 3, fields {_fields:#x} of what tunnels carry",
        "multipath",
        router(
            SEED,
            *EVEN,
            "net.ipv4.fib_multipath_hash_policy = 3",
            "net.ipv6.fib_multipath_hash_policy = 3",
            f"net.ipv4.fib_multipath_hash_fields = {_fields}",
            f"net.ipv6.fib_multipath_hash_fields = {_fields}",
        ),
        {
            f"{name} {k}": ip4(SOURCE, "77.0.0.1", body, proto=number)
            for k in range(1, 4)
            for name, (number, body) in _tunnels(k).items()
        }
        | {
            f"v6 {name} {k}": ip6(SOURCE6, "2001:db8:77::1", body, last_header=number)
            for k in range(1, 4)
            for name, (number, body) in _tunnels(k).items()
        },
    )
scenario(
    "multipath, both directions of a flow",
    "multipath",
    router(
        SEED,
        "net.ipv4.fib_multipath_hash_policy = 1",
        *EVEN,
        "ip route add 66.0.0.0/8 nexthop via 10.0.0.9 nexthop via 10.1.0.9",
    ),
    {
        f"{way} {k}": ip4(*(("66.0.0.1", "77.0.0.1") if way == "there" else ("77.0.0.1", "66.0.0.1")),
                          udp(*((1000 + k, 2000) if way == "there" else (2000, 1000 + k))))
        for k in range(6)
        for way in ("there", "back")
    },
)  # fmt: skip
scenario(
    "multipath, answers of the host",
    "multipath",
    router(SEED, *EVEN),
    {f"from {k}": ip4(f"77.0.{k}.1", "10.0.0.1", echo()) for k in range(6)}
    | {f"v6 from {k}": ip6(f"2001:db8:77::{k + 1}", "2001:db8:0::1", echo6()) for k in range(6)},
)
scenario(
    "multipath, a next hop without carrier",
    "multipath",
    router(SEED, *EVEN),
    Inject("r0", {"before": ip4(SOURCE, "77.0.1.1"), "before 2": ip4(SOURCE, "77.0.2.2")}),
    Run(("ip link set r1 carrier off",)),
    Inject("r0", {f"after {k}": ip4(SOURCE, f"77.0.{k}.{k}") for k in range(1, 6)}),
    Inject("r0", {f"v6 after {k}": ip6(SOURCE6, f"2001:db8:77::{k}") for k in range(1, 6)}),
)
scenario(
    "multipath, a next hop without carrier is passed over",
    "multipath",
    router(
        SEED,
        "net.ipv4.conf.all.ignore_routes_with_linkdown = 1",
        "net.ipv6.conf.all.ignore_routes_with_linkdown = 1",
        *EVEN,
    ),
    Run(("ip link set r1 carrier off",)),
    Inject("r0", {f"{k}": ip4(SOURCE, f"77.0.{k}.{k}") for k in range(1, 6)}),
    Inject("r0", {f"v6 {k}": ip6(SOURCE6, f"2001:db8:77::{k}") for k in range(1, 6)}),
)
scenario(
    "multipath, a next hop whose device went down",
    "multipath",
    router(SEED, *EVEN),
    Run(("ip link set r1 down",)),
    Inject("r0", {f"{k}": ip4(SOURCE, f"77.0.{k}.{k}") for k in range(1, 6)}),
    Inject("r0", {f"v6 {k}": ip6(SOURCE6, f"2001:db8:77::{k}") for k in range(1, 6)}),
)
scenario(
    "list: multipath is no hint",
    "lists",
    router(SEED, "net.ipv4.fib_multipath_hash_policy = 1", *EVEN),
    Together(
        "r0", {f"port {k}": ip4(SOURCE, "77.0.0.1", udp(1000 + k), ident=k) for k in range(8)}
    ),
    Together(
        "r0", {f"v6 port {k}": ip6(SOURCE6, "2001:db8:77::1", udp(k), label=k) for k in range(8)}
    ),
)
