"""Scenarios of multipath routes: which next hop a flow takes under a fixed hash seed."""

from __future__ import annotations

from ippath.verify.packets import data, echo, echo6, icmp, icmp6, ip4, ip6, tcp, udp
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
