"""IPv4 scenarios of routing: martians, source validation, route types, rules, TOS, tables."""

from __future__ import annotations

from ippath.verify.packets import data, echo, icmp, ip4, tcp, udp
from ippath.verify.scenario import Inject, Run, Together
from tests.kernel.scenarios import router, scenario

SPREAD = tuple(f"10.0.0.{k}" for k in range(2, 60))  # senders, so that ICMP limits don't matter
_LISTEN = "listen udp 0.0.0.0:2000"

# martians and odd addresses

_ODD = {
    "source multicast": ("224.0.0.5", "10.1.0.2"),
    "source limited broadcast": ("255.255.255.255", "10.1.0.2"),
    "source 0": ("0.0.0.0", "10.1.0.2"),
    "source 0, local": ("0.0.0.0", "10.0.0.1"),
    "source 0.1.2.3": ("0.1.2.3", "10.1.0.2"),
    "source 127.0.0.1": ("127.0.0.1", "10.1.0.2"),
    "source 127.0.0.1, local": ("127.0.0.1", "10.0.0.1"),
    "source 127.0.0.1, to 127.0.0.1": ("127.0.0.1", "127.0.0.1"),
    "source own": ("10.0.0.1", "10.1.0.2"),
    "source own, other device": ("10.1.0.1", "10.1.0.2"),
    "source own, local": ("10.1.0.1", "10.0.0.1"),
    "source directed broadcast": ("10.0.0.255", "10.1.0.2"),
    "source other broadcast": ("10.1.0.255", "10.1.0.2"),
    "source directed broadcast, local": ("10.0.0.255", "10.0.0.1"),
    "source unroutable": ("55.0.0.1", "10.1.0.2"),
    "source unroutable, local": ("55.0.0.1", "10.0.0.1"),
    "source of the other side": ("10.1.0.77", "10.1.0.2"),
    "source of the other side, local": ("10.1.0.77", "10.0.0.1"),
    "source 240.0.0.1": ("240.0.0.1", "10.1.0.2"),
    "destination 0": ("10.0.0.2", "0.0.0.0"),
    "both 0": ("0.0.0.0", "0.0.0.0"),
    "destination 0.1.2.3": ("10.0.0.3", "0.1.2.3"),
    "destination 127.0.0.1": ("10.0.0.4", "127.0.0.1"),
    "destination 127.0.0.9": ("10.0.0.4", "127.0.0.9"),
    "destination 240.0.0.1": ("10.0.0.5", "240.0.0.1"),
    "destination network address": ("10.0.0.2", "10.1.0.0"),
    "destination directed broadcast": ("10.0.0.2", "10.1.0.255"),
    "destination limited broadcast": ("10.0.0.2", "255.255.255.255"),
    "destination limited broadcast, source 0": ("0.0.0.0", "255.255.255.255"),
    "destination limited broadcast, source own": ("10.0.0.1", "255.255.255.255"),
    "destination limited broadcast, source loopback": ("127.0.0.1", "255.255.255.255"),
    "destination own network's broadcast": ("10.0.0.2", "10.0.0.255"),
    "destination broadcast, source own": ("10.0.0.1", "10.0.0.255"),
    "destination all hosts": ("10.0.0.2", "224.0.0.1"),
    "destination all hosts, source 0": ("0.0.0.0", "224.0.0.1"),
    "destination all hosts, source own": ("10.0.0.1", "224.0.0.1"),
    "destination all hosts, source loopback": ("127.0.0.1", "224.0.0.1"),
    "destination all hosts, source multicast": ("224.0.0.9", "224.0.0.1"),
    "destination all hosts, source unroutable": ("55.0.0.1", "224.0.0.1"),
    "group not joined": ("10.0.0.2", "239.1.1.1"),
    "local group not joined": ("10.0.0.2", "224.0.0.251"),
    "group joined": ("10.0.0.2", "239.9.9.9"),
    "group joined, source 0": ("0.0.0.0", "239.9.9.9"),
    "group joined on the other device": ("10.0.0.2", "239.8.8.8"),
}


def _odd() -> dict[str, bytes]:
    return {label: ip4(*pair) for label, pair in _ODD.items()}


_JOIN = ("join 239.9.9.9 dev r0", "join 239.8.8.8 dev r1")
for _name, _lines in {
    "defaults": (),
    "rp_filter 1": ("net.ipv4.conf.all.rp_filter = 1",),
    "rp_filter 2": ("net.ipv4.conf.all.rp_filter = 2",),
    "rp_filter 1 on all, 2 on r0": (
        "net.ipv4.conf.all.rp_filter = 1",
        "net.ipv4.conf.r0.rp_filter = 2",
    ),
    "accept_local": ("net.ipv4.conf.r0.accept_local = 1",),
    "accept_local and rp_filter 1": (
        "net.ipv4.conf.all.accept_local = 1",
        "net.ipv4.conf.r0.rp_filter = 1",
    ),
    "route_localnet": ("net.ipv4.conf.r0.route_localnet = 1",),
    "route_localnet on all and rp_filter 2": (
        "net.ipv4.conf.all.route_localnet = 1",
        "net.ipv4.conf.all.rp_filter = 2",
    ),
    "a rule": ("ip rule add pref 100 nop",),
    "bc_forwarding": ("net.ipv4.conf.all.bc_forwarding = 1", "net.ipv4.conf.r0.bc_forwarding = 1"),
    "bc_forwarding on all only": ("net.ipv4.conf.all.bc_forwarding = 1",),
    "a default route": ("ip route add default via 10.1.0.2",),
    "a default route, rp_filter 2": (
        "ip route add default via 10.1.0.2",
        "net.ipv4.conf.all.rp_filter = 2",
    ),
    "a default route back, rp_filter 1": (
        "ip route add default via 10.0.0.2",
        "net.ipv4.conf.all.rp_filter = 1",
    ),
}.items():
    scenario(f"addresses, {_name}", "martians", router(_LISTEN, *_JOIN, *_lines), _odd())
scenario("addresses, not forwarding", "martians", router(_LISTEN, *_JOIN, forward=False), _odd())
scenario(
    "addresses, not forwarding, rp_filter 1",
    "martians",
    router(_LISTEN, *_JOIN, "net.ipv4.conf.all.rp_filter = 1", forward=False),
    _odd(),
)

# source validation

_ASYMMETRIC = {
    "back the other way": ip4("77.0.0.1", "10.1.0.2"),
    "back the other way, local": ip4("77.0.0.1", "10.0.0.1"),
    "back here": ip4("78.0.0.1", "10.1.0.2"),
    "no way back": ip4("79.0.0.1", "10.1.0.2"),
    "blackholed": ip4("80.0.0.1", "10.1.0.2"),
    "unreachable": ip4("81.0.0.1", "10.1.0.2"),
    "prohibited": ip4("82.0.0.1", "10.1.0.2"),
    "thrown": ip4("83.0.0.1", "10.1.0.2"),
    "multipath over both": ip4("84.0.0.1", "10.1.0.2"),
    "multipath over the other two": ip4("85.0.0.1", "10.1.0.2"),
    "better route the other way": ip4("86.0.0.1", "10.1.0.2"),
    "user's local": ip4("87.0.0.1", "10.1.0.2"),
    "to all hosts, other way": ip4("77.0.0.1", "224.0.0.1"),
    "to broadcast, other way": ip4("77.0.0.1", "10.0.0.255"),
}
_ASYMMETRIC_ROUTES = (
    "ip link add r2 type tun",
    "ip link set r2 up",
    "ip addr add 10.2.0.1/24 dev r2",
    "ip route add 77.0.0.0/8 via 10.1.0.2",
    "ip route add 78.0.0.0/8 via 10.0.0.2",
    "ip route add blackhole 80.0.0.0/8",
    "ip route add unreachable 81.0.0.0/8",
    "ip route add prohibit 82.0.0.0/8",
    "ip route add throw 83.0.0.0/8",
    "ip route add 84.0.0.0/8 nexthop via 10.0.0.2 nexthop via 10.1.0.2",
    "ip route add 85.0.0.0/8 nexthop via 10.2.0.2 nexthop via 10.1.0.2",
    "ip route add 86.0.0.0/8 via 10.1.0.2 metric 5",
    "ip route add 86.0.0.0/8 via 10.0.0.2 metric 6",
)
for _mode in (0, 1, 2):
    scenario(
        f"asymmetric routes, rp_filter {_mode}",
        "source",
        router(_LISTEN, *_ASYMMETRIC_ROUTES, f"net.ipv4.conf.all.rp_filter = {_mode}"),
        _ASYMMETRIC,
    )
    scenario(
        f"asymmetric routes and a user's local route, rp_filter {_mode}",
        "source",
        router(
            _LISTEN,
            *_ASYMMETRIC_ROUTES,
            "ip route add local 87.0.0.0/8 dev lo",
            f"net.ipv4.conf.r0.rp_filter = {_mode}",
        ),
        _ASYMMETRIC,
    )
    scenario(
        f"source rules, rp_filter {_mode}",
        "source",
        router(
            _LISTEN,
            *_ASYMMETRIC_ROUTES,
            "ip route add 78.0.0.0/8 via 10.1.0.2 table 200",
            "ip route add 77.0.0.0/8 via 10.0.0.2 table 200",
            "ip rule add pref 500 from 10.1.0.0/24 lookup 200",
            f"net.ipv4.conf.all.rp_filter = {_mode}",
        ),
        _ASYMMETRIC,
    )
scenario(
    "reverse look-up uses the incoming interface as loopback",
    "source",
    router(
        "ip rule add pref 500 iif lo lookup 200",
        "ip route add 77.0.0.0/8 via 10.1.0.2 table 200",
        "ip route add 77.0.0.0/8 via 10.0.0.2",
        "net.ipv4.conf.all.rp_filter = 1",
    ),
    {"iif lo": ip4("77.0.0.1", "10.1.0.2"), "iif lo, local": ip4("77.0.0.1", "10.0.0.1")},
)
scenario(
    "reverse look-up with TOS",
    "source",
    router(
        "ip route add 77.0.0.0/8 tos 0x10 via 10.0.0.2",
        "ip route add 77.0.0.0/8 via 10.1.0.2",
        "net.ipv4.conf.all.rp_filter = 1",
    ),
    {f"tos {tos:#x}": ip4("77.0.0.1", "10.1.0.2", tos=tos) for tos in (0, 0x10, 0x11, 0xF0)},
)
scenario(
    "reverse look-up with swapped ports",
    "source",
    router(
        "ip rule add pref 500 ipproto udp dport 1000 lookup 200",
        "ip route add 77.0.0.0/8 via 10.0.0.2 table 200",
        "ip route add 77.0.0.0/8 via 10.1.0.2",
        "net.ipv4.conf.all.rp_filter = 1",
    ),
    {
        "source port 1000": ip4("77.0.0.1", "10.1.0.2", udp(1000, 2000)),
        "source port 1001": ip4("77.0.0.1", "10.1.0.2", udp(1001, 2000)),
        "destination port 1000": ip4("77.0.0.1", "10.1.0.2", udp(1001, 1000)),
    },
)
_NO_ADDRESS = """
ip link add r0 type tun
ip link add r1 type tun
net.ipv4.ip_forward = 1
ip link set lo up
ip link set r0 up
ip link set r1 up
ip addr add 10.1.0.1/24 dev r1
"""
for _mode in (0, 1, 2):
    scenario(
        f"device without addresses, rp_filter {_mode}",
        "source",
        _NO_ADDRESS + f"net.ipv4.conf.all.rp_filter = {_mode}\n",
        {
            "unroutable source": ip4("55.0.0.1", "10.1.0.2"),
            "source of the other side": ip4("10.1.0.7", "10.1.0.2"),
            "local": ip4("10.1.0.7", "10.1.0.1"),
            "limited broadcast": ip4("0.0.0.0", "255.255.255.255"),
            "all hosts": ip4("10.1.0.7", "224.0.0.1"),
        },
    )

# route types

_TYPES = (
    "ip route add unreachable 98.0.0.0/8",
    "ip route add prohibit 97.0.0.0/8",
    "ip route add blackhole 96.0.0.0/8",
    "ip route add throw 95.0.0.0/8",
    "ip route add local 94.0.0.0/8 dev lo",
    "ip route add broadcast 93.0.0.0/8 dev r1",
    "ip route add multicast 92.0.0.0/8 dev r1",
    "ip route add anycast 91.0.0.0/8 dev r1",
    "ip route add 90.0.0.0/8 dev r1",
    "ip route add 89.0.0.0/8 via 10.1.0.3",
    "ip route add 88.0.0.0/8 dev lo",
    "ip route add 87.0.0.0/8 via 99.9.9.9 dev r1 onlink",
)
_TO_TYPES = {
    f"to {net}": ip4(f"10.0.0.{net}", f"{net}.0.0.1")
    for net in (99, 98, 97, 96, 95, 94, 93, 92, 91, 90, 89, 87)
}
scenario("route by lo", "routes", router(*_TYPES), {"to 88": ip4("10.0.0.88", "88.0.0.1")})
scenario("route types", "routes", router(_LISTEN, *_TYPES), _TO_TYPES)
scenario(
    "route types, not forwarding", "routes", router(_LISTEN, *_TYPES, forward=False), _TO_TYPES
)
scenario(
    "one rejected source",
    "routes",
    router(*_TYPES),
    {
        "98 first": ip4("10.0.0.2", "98.0.0.1"),
        "98 second": ip4("10.0.0.2", "98.0.0.1"),
        "98 third": ip4("10.0.0.2", "98.0.0.1"),
        "97": ip4("10.0.0.2", "97.0.0.1"),
        "echo": ip4("10.0.0.3", "97.0.0.1", echo()),
        "ICMP error": ip4("10.0.0.4", "97.0.0.1", icmp(3, 1, 0, data(28))),
    },
)
scenario(
    "longest prefix",
    "routes",
    router(
        "ip route add 70.0.0.0/8 via 10.1.0.2",
        "ip route add unreachable 70.1.0.0/16",
        "ip route add 70.1.2.0/24 via 10.0.0.9",
        "ip route add 70.1.2.128/25 via 10.1.0.3",
        "ip route add prohibit 70.1.2.129/32",
        "ip route add 0.0.0.0/1 via 10.1.0.4",
        "ip route add default via 10.1.0.5",
    ),
    {
        d: ip4(f"10.0.0.{k}", d)
        for k, d in enumerate(
            (
                "70.0.0.1",
                "70.1.0.1",
                "70.1.2.1",
                "70.1.2.128",
                "70.1.2.129",
                "71.0.0.1",
                "200.0.0.1",
            ),
            20,
        )
    },
)
scenario(
    "TOS routes",
    "routes",
    router(
        "ip route add 70.0.0.0/8 via 10.1.0.2",
        "ip route add 70.0.0.0/8 tos 0x10 dev r0",
        "ip route add unreachable 70.0.0.0/8 tos 0x08",
    ),
    {
        f"tos {tos:#x}": ip4(SPREAD[k], "70.0.0.1", tos=tos)
        for k, tos in enumerate((0, 0x10, 0xF0, 0x14, 0x11, 0x08, 0x18, 0x0B, 0xE8, 0x20, 0x04))
    },
)
scenario(
    "metrics",
    "routes",
    router(
        "ip route add 71.0.0.0/8 via 10.1.0.2 metric 10",
        "ip route add 71.0.0.0/8 dev r0 metric 5",
        "ip route append 71.0.0.0/8 via 10.1.0.3 metric 5",
        "ip route add 72.0.0.0/8 via 10.1.0.2 metric 10",
        "ip route add unreachable 72.0.0.0/8 metric 20",
        "ip route add 73.0.0.0/8 via 10.1.0.2 metric 20",
        "ip route add unreachable 73.0.0.0/8 metric 10",
        "ip route add 74.0.0.0/8 via 10.1.0.2 metric 20",
        "ip route add throw 74.0.0.0/8 metric 10",
        "ip route add 75.0.0.0/8 via 10.1.0.2",
        "ip route prepend 75.0.0.0/8 dev r0",
        "ip route add 76.0.0.0/8 via 10.1.0.2",
        "ip route replace 76.0.0.0/8 dev r0",
    ),
    {f"to {n}": ip4(f"10.0.0.{n}", f"{n}.0.0.1") for n in (71, 72, 73, 74, 75, 76)},
)
scenario(
    "default table",
    "routes",
    router(
        "ip route add 50.0.0.0/8 via 10.1.0.2 table default",
        "ip route add unreachable 50.1.0.0/16",
        "ip route add throw 50.2.0.0/16",
        "ip route add prohibit 51.0.0.0/8 table default",
    ),
    {
        "only there": ip4("10.0.0.2", "50.0.0.1"),
        "main says unreachable": ip4("10.0.0.3", "50.1.0.1"),
        "main throws": ip4("10.0.0.4", "50.2.0.1"),
        "prohibit there": ip4("10.0.0.5", "51.0.0.1"),
        "nowhere": ip4("10.0.0.6", "52.0.0.1"),
    },
)
scenario(
    "several default routes",
    "routes",
    router("ip route add default via 10.1.0.2", "ip route append default via 10.0.0.3"),
    {"anywhere": ip4("10.0.0.2", "99.0.0.1")},
)
_MERGED = (
    "ip route add 127.0.0.0/24 via 10.1.0.2",
    "ip route add local 60.0.0.0/8 dev lo",
    "ip route add 60.1.0.0/16 via 10.1.0.2",
    "ip route add 10.1.0.1/32 via 10.0.0.2",
    "ip route add 10.0.0.255/32 via 10.1.0.2",
    "net.ipv4.conf.r0.route_localnet = 1",
)
_TO_MERGED = {
    "127.0.0.9": ip4("10.0.0.2", "127.0.0.9"),
    "127.1.0.9": ip4("10.0.0.2", "127.1.0.9"),
    "60.0.0.1": ip4("10.0.0.2", "60.0.0.1"),
    "60.1.0.1": ip4("10.0.0.2", "60.1.0.1"),
    "own address": ip4("10.0.0.2", "10.1.0.1"),
    "broadcast address": ip4("10.0.0.2", "10.0.0.255"),
}
scenario("local and main merged", "routes", router(_LISTEN, *_MERGED), _TO_MERGED)
scenario(
    "local and main split by a rule",
    "routes",
    router(_LISTEN, *_MERGED, "ip rule add pref 1000 nop"),
    _TO_MERGED,
)
scenario(
    "local and main split by a rule that is gone",
    "routes",
    router(_LISTEN, *_MERGED, "ip rule add pref 1000 nop", "ip rule del pref 1000"),
    _TO_MERGED,
)
scenario(
    "small prefixes",
    "routes",
    router(
        "ip addr add 10.3.0.1/30 dev r1",
        "ip addr add 10.3.1.0/31 dev r1",
        "ip addr add 10.3.2.1/32 dev r1",
        "ip addr add 10.3.3.1/24 brd 10.3.3.77 dev r1",
        "ip addr add 10.3.4.1 peer 10.3.5.1/32 dev r1",
        "ip addr add 10.3.6.1/24 brd + dev r1",
        _LISTEN,
    ),
    {
        d: ip4(SPREAD[k], d)
        for k, d in enumerate(
            "10.3.0.0 10.3.0.1 10.3.0.2 10.3.0.3 10.3.1.0 10.3.1.1 10.3.2.1 10.3.2.2 10.3.3.0 "
            "10.3.3.77 10.3.3.255 10.3.4.1 10.3.5.1 10.3.4.2 10.3.6.0 10.3.6.255".split()
        )
    },
)
scenario(
    "forwarding per device",
    "routes",
    router("net.ipv4.conf.r0.forwarding = 0"),
    {"r0 to r1": ip4("10.0.0.2", "10.1.0.2"), "no route": ip4("10.0.0.2", "99.0.0.1")},
    Inject(
        "r1", {"r1 to r0": ip4("10.1.0.2", "10.0.0.2"), "no route": ip4("10.1.0.2", "99.0.0.1")}
    ),
)
scenario(
    "multipath, one next hop dead",
    "routes",
    router(
        "ip link add r2 type tun",
        "ip link set r2 up",
        "ip addr add 10.2.0.1/24 dev r2",
        "ip route add 74.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2",
        "ip link set r2 down",
    ),
    {f"{k}": ip4(SPREAD[k], "74.0.0.1") for k in range(6)},
)
scenario(
    "multipath over next hops of one device",
    "routes",
    router("ip route add 74.0.0.0/8 nexthop via 10.1.0.2 weight 3 nexthop via 10.1.0.3"),
    {f"{k}": ip4(SPREAD[k], "74.0.0.1") for k in range(6)},
)

# rules

_RULE_TABLES = (
    "ip route add default via 10.1.0.9 mtu 1000 table 200",  # told from main by the MTU
    "ip route add 71.0.0.0/8 via 10.1.0.2",
    _LISTEN,
)
_BIG = data(1200)


def _ask(
    src: str = "10.0.0.2", dst: str = "71.0.0.1", upper: object = None, **fields: int
) -> bytes:
    """A packet that is fragmented if table 200 routed it."""
    return ip4(src, dst, upper or udp(payload=_BIG), **fields)  # type: ignore[arg-type]


scenario(
    "rule from",
    "rules",
    router(*_RULE_TABLES, "ip rule add pref 600 from 10.0.0.0/28 lookup 200"),
    {"inside": _ask(), "edge": _ask("10.0.0.15"), "outside": _ask("10.0.0.16")},
)
scenario(
    "rule to",
    "rules",
    router(*_RULE_TABLES, "ip rule add pref 600 to 71.1.0.0/16 lookup 200"),
    {"inside": _ask(dst="71.1.0.1"), "outside": _ask(dst="71.2.0.1")},
)
scenario(
    "rule iif",
    "rules",
    router(*_RULE_TABLES, "ip rule add pref 600 iif r1 lookup 200"),
    Inject("r0", {"by r0": _ask()}),
    Inject("r1", {"by r1": _ask("10.1.0.7")}),
)
scenario(
    "rule iif lo and oif",
    "rules",
    router(
        *_RULE_TABLES,
        "ip rule add pref 600 iif lo lookup 200",
        "ip rule add pref 601 oif r1 lookup 200",
    ),
    {"forwarded": _ask(), "ICMP answer": _ask(ttl=1), "answer elsewhere": _ask("66.0.0.1", ttl=1)},
)
scenario(
    "rule tos",
    "rules",
    router(*_RULE_TABLES, "ip rule add pref 600 tos 0x10 lookup 200"),
    {f"tos {tos:#x}": _ask(tos=tos) for tos in (0, 0x10, 0x11, 0xF0, 0x18, 0x14, 0x30)},
)
scenario(
    "rule ipproto and ports",
    "rules",
    router(
        *_RULE_TABLES,
        "ip rule add pref 600 ipproto udp dport 53 lookup 200",
        "ip rule add pref 601 ipproto udp sport 100-200 unreachable",
        "ip rule add pref 602 ipproto icmp prohibit",
        "ip rule add pref 603 ipproto tcp dport 80 blackhole",
        "ip rule add pref 604 dport 99 unreachable",
    ),
    {
        "udp 53": _ask(upper=udp(1000, 53, _BIG)),
        "udp 54": _ask(upper=udp(1000, 54, _BIG)),
        "udp from 99": _ask(upper=udp(99, 54, _BIG)),
        "udp from 100": _ask("10.0.0.3", upper=udp(100, 54, _BIG)),
        "udp from 200": _ask("10.0.0.4", upper=udp(200, 54, _BIG)),
        "udp from 201": _ask(upper=udp(201, 54, _BIG)),
        "udp from 100 to 53": _ask(upper=udp(100, 53, _BIG)),
        "tcp 53": _ask(upper=tcp(1000, 53)),
        "tcp 80": _ask(upper=tcp(1000, 80)),
        "tcp 99": _ask("10.0.0.5", upper=tcp(1000, 99)),
        "udp 99": _ask("10.0.0.6", upper=udp(1000, 99, _BIG)),
        "icmp": _ask("10.0.0.7", upper=echo()),
        "icmp to us": ip4("10.0.0.2", "10.0.0.1", echo()),
        "first fragment to 53": ip4("10.0.0.2", "71.0.0.1", udp(1000, 53, _BIG), mf=True),
        "later fragment": ip4("10.0.0.2", "71.0.0.1", udp(1000, 53, _BIG), offset=10),
        "cut in the ports": ip4("10.0.0.2", "71.0.0.1", b"\x03\xe8", proto=17),
        "udp-lite 53": _ask(upper=udp(1000, 53, _BIG, protocol=136)),
        "protocol 200": ip4("10.0.0.2", "71.0.0.1", b"\x03\xe8\x00\x35" + _BIG, proto=200),
    },
)
scenario(
    "rule not",
    "rules",
    router(*_RULE_TABLES, "ip rule add pref 650 not from 10.0.0.0/24 blackhole"),
    {
        "from here": _ask(),
        "from elsewhere": _ask("66.0.0.2"),
        "elsewhere, local": ip4("66.0.0.2", "10.0.0.1"),
    },
)
scenario(
    "rule actions",
    "rules",
    router(
        *_RULE_TABLES,
        "ip rule add pref 600 from 10.0.0.3 unreachable",
        "ip rule add pref 601 from 10.0.0.4 prohibit",
        "ip rule add pref 602 from 10.0.0.5 blackhole",
        "ip rule add pref 603 from 10.0.0.6 nop",
        "ip rule add pref 604 from 10.0.0.6 lookup 200",
        "ip rule add pref 605 from 10.0.0.7 lookup 201",
    ),
    {
        "unreachable": _ask("10.0.0.3"),
        "prohibit": _ask("10.0.0.4"),
        "blackhole": _ask("10.0.0.5"),
        "nop": _ask("10.0.0.6"),
        "table that does not exist": _ask("10.0.0.7"),
        "none": _ask("10.0.0.8"),
    },
)
scenario(
    "rule before local",
    "rules",
    router(
        *_RULE_TABLES,
        "ip rule add pref 10 from all lookup local",
        "ip rule del pref 0",
        "ip rule add pref 5 from 10.0.0.3 prohibit",
    ),
    {"prohibit, local": ip4("10.0.0.3", "10.0.0.1"), "local": ip4("10.0.0.4", "10.0.0.1")},
)
scenario(
    "no local rule",
    "rules",
    router(*_RULE_TABLES, "ip rule del pref 0"),
    {"own address": ip4("10.0.0.3", "10.0.0.1"), "through": _ask()},
)
scenario(
    "rule goto",
    "rules",
    router(
        *_RULE_TABLES,
        "ip rule add pref 700 lookup 200",
        "ip rule add pref 600 from 10.0.0.3 goto 32766",
        "ip rule add pref 601 from 10.0.0.4 goto 32767",
        "ip rule add pref 602 from 10.0.0.5 goto 900",
        "ip rule add pref 603 from 10.0.0.6 goto 700",
    ),
    {
        "goto main": _ask("10.0.0.3"),
        "goto default": _ask("10.0.0.4"),
        "goto nowhere": _ask("10.0.0.5"),
        "goto 700": _ask("10.0.0.6"),
        "none": _ask("10.0.0.7"),
    },
)
scenario(
    "rule suppress_prefixlength",
    "rules",
    router(
        *_RULE_TABLES,
        "ip rule add pref 600 lookup main suppress_prefixlength 8",
        "ip rule add pref 700 lookup 200",
    ),
    {"a /8": _ask(), "a /24": _ask(dst="10.1.0.7"), "none": _ask(dst="150.0.0.1")},
)
scenario(
    "rule suppress_prefixlength 0",
    "rules",
    router(
        *_RULE_TABLES,
        "ip route add default via 10.1.0.3",
        "ip rule add pref 600 lookup main suppress_prefixlength 0",
        "ip rule add pref 700 lookup 200",
    ),
    {"a /8": _ask(), "default": _ask(dst="150.0.0.1")},
)
scenario(
    "rules of equal and automatic preference",
    "rules",
    router(
        *_RULE_TABLES,
        "ip rule add pref 600 from 10.0.0.0/24 lookup 200",
        "ip rule add pref 600 from 10.0.0.3 unreachable",
        "ip rule add from 10.2.0.0/24 prohibit",
        "ip rule add from 10.2.0.0/25 blackhole",
    ),
    {
        "equal: first wins": _ask("10.0.0.3"),
        "automatic: last wins": _ask("10.2.0.3"),
        "automatic: the other": _ask("10.2.0.200"),
    },
)
scenario(
    "rule on a device that is not there",
    "rules",
    router(
        *_RULE_TABLES,
        "ip rule add pref 600 iif nosuch0 prohibit",
        "ip rule add pref 601 not iif nosuch0 to 71.2.0.0/16 lookup 200",
    ),
    {"never": _ask(), "always": _ask(dst="71.2.0.1")},
)
scenario(
    "table that throws",
    "rules",
    router(
        *_RULE_TABLES,
        "ip route add throw 71.0.0.0/16 table 200",
        "ip rule add pref 600 lookup 200",
    ),
    {"thrown back to main": _ask(), "kept": _ask(dst="71.1.0.1")},
)
scenario(
    "rule fwmark without a mark",
    "rules",
    router(
        *_RULE_TABLES,
        "ip rule add pref 600 fwmark 0x10/0xf0 lookup 200",
        "ip rule add pref 601 not fwmark 0x10/0xf0 to 71.2.0.0/16 prohibit",
        "net.ipv4.conf.all.src_valid_mark = 1",
    ),
    {"unmarked": _ask(), "not marked": _ask(dst="71.2.0.1")},
)
scenario(
    "rule added while running",
    "rules",
    router(*_RULE_TABLES),
    {"before": _ask()},
    Run(("ip rule add pref 600 from 10.0.0.0/24 lookup 200",)),
    {"with": _ask()},
    Run(("ip rule del pref 600",)),
    {"after": _ask()},
)

# receive lists

_GOOD, _BAD = "10.0.0.2", "10.1.0.77"  # the bad one fails strict source validation
_STRICT = "net.ipv4.conf.all.rp_filter = 1"


def _row(sources: tuple[str, ...], dst: str = "10.1.0.2", **fields: int) -> dict[str, bytes]:
    return {
        f"{k} from {src}": ip4(src, dst, ident=k + 1, **fields) for k, src in enumerate(sources)
    }


scenario(
    "list: one by one for comparison",
    "lists",
    router(_STRICT),
    Inject("r0", _row((_GOOD, _BAD, _GOOD, _BAD))),
)
scenario(
    "list: good first",
    "lists",
    router(_STRICT),
    Together("r0", _row((_GOOD, _BAD) * 4)),
)
scenario(
    "list: bad first",
    "lists",
    router(_STRICT),
    Together("r0", _row((_BAD, _GOOD) + (_BAD,) * 6)),
)
scenario(
    "list: ECN bits differ",
    "lists",
    router(_STRICT),
    Together(
        "r0",
        {
            f"{k}": ip4(_BAD if k % 2 else _GOOD, "10.1.0.2", tos=k % 2, ident=k + 1)
            for k in range(8)
        },
    ),
)
scenario(
    "list: destinations alternate",
    "lists",
    router(_STRICT),
    Together(
        "r0",
        {
            f"{k}": ip4(_BAD if k in (3, 5, 7) else _GOOD, f"10.1.0.{2 + k % 2}", ident=k + 1)
            for k in range(8)
        },
    ),
)
scenario(
    "list: hint is the first of a run",
    "lists",
    router(_STRICT),
    Together(
        "r0",
        {
            f"{k} to .{dst} from {src}": ip4(src, f"10.1.0.{dst}", ident=k + 1)
            for k, (src, dst) in enumerate(
                ((_GOOD, 2), (_GOOD, 3), (_BAD, 3), (_BAD, 2), (_GOOD, 3), (_BAD, 2), (_BAD, 3))
            )
        },
    ),
)
scenario(
    "list: local destination",
    "lists",
    router(_STRICT, _LISTEN),
    Together("r0", _row((_GOOD, _BAD) * 4, "10.0.0.1")),
)
scenario(
    "list: loopback source",
    "lists",
    router(_STRICT),
    Together("r0", _row((_GOOD, "127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", _BAD))),
)
scenario(
    "list: no source, to a group",
    "lists",
    router(_STRICT, _LISTEN),
    Together("r0", _row((_GOOD, "0.0.0.0", _GOOD, "0.0.0.0"), "224.0.0.1")),
)
scenario(
    "list: no source alone, to a group",
    "lists",
    router(_STRICT, _LISTEN),
    Together("r0", _row(("0.0.0.0", "0.0.0.0"), "224.0.0.1")),
)
scenario(
    "list: own address as source",
    "lists",
    router(),
    Together("r0", _row((_GOOD, "10.1.0.1", "10.0.0.1", _GOOD))),
)
scenario(
    "list: with a rule",
    "lists",
    router(_STRICT, "ip rule add pref 600 nop"),
    Together("r0", _row((_GOOD, _BAD) * 4)),
)
scenario(
    "list: with a rule that is gone",
    "lists",
    router(_STRICT, "ip rule add pref 600 nop", "ip rule del pref 600"),
    Together("r0", _row((_GOOD, _BAD) * 4)),
)
scenario(
    "list: directed broadcast",
    "lists",
    router(_STRICT, _LISTEN),
    Together("r0", _row((_GOOD, _BAD) * 4, "10.0.0.255")),
)
scenario(
    "list: directed broadcast forwarded",
    "lists",
    router(
        _STRICT,
        "net.ipv4.conf.all.bc_forwarding = 1",
        "net.ipv4.conf.r0.bc_forwarding = 1",
    ),
    Together("r0", _row((_GOOD, _BAD) * 4, "10.1.0.255")),
)
scenario(
    "list: limited broadcast",
    "lists",
    router(_STRICT, _LISTEN),
    Together("r0", _row((_GOOD, _BAD) * 4, "255.255.255.255")),
)
scenario(
    "list: all hosts from 0.0.0.0",
    "lists",
    router(_LISTEN),
    Together("r0", _row(("0.0.0.0",) * 8, "224.0.0.1")),
)
scenario(
    "list: all hosts",
    "lists",
    router(_STRICT, _LISTEN),
    Together("r0", _row((_GOOD, _BAD, "0.0.0.0", _GOOD), "224.0.0.1")),
)
scenario(
    "list: group then group not joined",
    "lists",
    router(_LISTEN, "join 239.9.9.9 dev r0"),
    Together(
        "r0",
        {
            f"{k} {dst}": ip4(_GOOD, dst, ident=k + 1)
            for k, dst in enumerate(
                ("239.9.9.9", "239.9.9.9", "239.1.1.1", "239.9.9.9", "239.1.1.1")
            )
        },
    ),
)
scenario(
    "list: bad header in between",
    "lists",
    router(_STRICT),
    Together(
        "r0",
        {
            "good": ip4(_GOOD, "10.1.0.2", ident=1),
            "bad checksum": ip4(_GOOD, "10.1.0.2", ident=2, damage=1),
            "bad source": ip4(_BAD, "10.1.0.2", ident=3),
            "martian": ip4("224.0.0.1", "10.1.0.3", ident=4),
            "bad source again": ip4(_BAD, "10.1.0.2", ident=5),
        },
    ),
)
scenario(
    "list: unroutable",
    "lists",
    router(_STRICT),
    Together("r0", _row((_GOOD, _BAD, "10.0.0.3", "10.0.0.4"), "99.0.0.1")),
)
scenario(
    "list: redirect only for the unhinted",
    "lists",
    router(),
    Together("r0", _row(("10.0.0.2", "10.0.0.4", "10.0.0.5"), "10.0.0.3")),
)
scenario(
    "list: TTL runs out",
    "lists",
    router(_STRICT),
    Together(
        "r0",
        {
            f"{k} ttl {ttl} from {src}": ip4(src, "10.1.0.2", ttl=ttl, ident=k + 1)
            for k, (src, ttl) in enumerate(((_GOOD, 1), (_BAD, 64), (_BAD, 1), ("10.0.0.4", 2)))
        },
    ),
)
scenario(
    "list: both families mixed with options",
    "lists",
    router(_STRICT),
    Together(
        "r0",
        {
            "plain": ip4(_GOOD, "10.1.0.2", ident=1),
            "options": ip4(_GOOD, "10.1.0.2", ident=2, options=b"\x94\x04\x00\x00"),
            "bad options": ip4(_GOOD, "10.1.0.2", ident=3, options=b"\x07\x02\x01\x01"),
            "bad source": ip4(_BAD, "10.1.0.2", ident=4),
        },
    ),
)
