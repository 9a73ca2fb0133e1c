"""Scenarios of next hop objects (`ip nexthop`): groups by hash and by bucket, and how they change."""

from __future__ import annotations

from ippath.verify.packets import echo, ip4, ip6, udp
from ippath.verify.scenario import Inject, RouteGet, Run, Send, Together, Wait
from tests.kernel.scenarios import ethernet, router, scenario
from tests.kernel.scenarios_multipath import SEED, SOURCE, SOURCE6

OBJECTS = (
    "ip nexthop add id 1 via 10.0.0.9 dev r0",
    "ip nexthop add id 2 via 10.1.0.9 dev r1",
    "ip nexthop add id 3 via 2001:db8:0::9 dev r0",
    "ip nexthop add id 4 via 2001:db8:1::9 dev r1",
    "ip nexthop add id 5 dev r1",
    "ip -6 nexthop add id 6 dev r1",
    "ip nexthop add id 7 blackhole",
    "ip -6 nexthop add id 8 blackhole",
)


def _routes(id4: int, id6: int) -> tuple[str, str]:
    return f"ip route add 77.0.0.0/8 nhid {id4}", f"ip -6 route add 2001:db8:77::/48 nhid {id6}"


def _flows(count: int = 12) -> dict[str, bytes]:
    found = {}
    for k in range(1, count + 1):
        found[f"to {k}"] = ip4(SOURCE, f"77.0.{k}.{k}", udp(1000 + k, 2000))
        found[f"v6 to {k}"] = ip6(SOURCE6, f"2001:db8:77::{k:x}", udp(1000 + k, 2000))
    found["echo"] = ip4(SOURCE, "77.0.0.1", echo())
    return found


for _name, _groups in (
    ("even", ("1/2", "3/4")),
    ("weights 1 and 7", ("1/2,7", "3,7/4")),
    ("one member", ("2", "4")),
    ("members without gateway", ("1/5", "3/6")),
):
    for _policy in (0, 1):
        scenario(
            f"nexthop group, {_name}, policy {_policy}",
            "nexthop",
            router(
                SEED,
                f"net.ipv4.fib_multipath_hash_policy = {_policy}",
                f"net.ipv6.fib_multipath_hash_policy = {_policy}",
                *OBJECTS,
                f"ip nexthop add id 20 group {_groups[0]}",
                f"ip nexthop add id 21 group {_groups[1]}",
                *_routes(20, 21),
            ),
            _flows(),
        )
for _buckets, _weights in ((8, ("1/2", "3/4")), (7, ("1,3/2", "3/4,5")), (1, ("1/2", "3/4"))):
    scenario(
        f"resilient group, {_buckets} buckets",
        "nexthop",
        router(
            SEED,
            *OBJECTS,
            f"ip nexthop add id 20 group {_weights[0]} type resilient buckets {_buckets}",
            f"ip nexthop add id 21 group {_weights[1]} type resilient buckets {_buckets}",
            *_routes(20, 21),
        ),
        _flows(20),
    )
scenario(
    "nexthop objects of one next hop",
    "nexthop",
    router(
        SEED,
        *OBJECTS,
        *_routes(2, 4),
        "ip route add 78.0.0.0/8 nhid 4",
        "ip route add 79.0.0.0/8 nhid 5",
        "ip route add 80.0.0.0/8 nhid 6",
        "ip route add 81.0.0.0/8 nhid 7",
        "ip route add 82.0.0.0/8 nhid 8",
        "ip route add blackhole 83.0.0.0/8 nhid 2",
        "ip -6 route add 2001:db8:79::/48 nhid 6",
        "ip -6 route add 2001:db8:81::/48 nhid 8",
        "ip route add unreachable 84.0.0.0/8 nhid 2",
        "ip route add throw 85.0.0.0/8 nhid 2",
        # an object each: the kernel keeps one IPv6 route for all that go by an object, the first used
        *(f"ip nexthop add id 1{n} via 2001:db8:1::9 dev r1" for n in range(3, 7)),
        "ip -6 route add blackhole 2001:db8:83::/48 nhid 13",
        "ip -6 route add unreachable 2001:db8:84::/48 nhid 14",
        "ip -6 route add throw 2001:db8:85::/48 nhid 15",
        "ip -6 route add local 2001:db8:86::/48 nhid 16",
    ),
    {f"to {n}": ip4(SOURCE, f"{n}.0.0.1") for n in range(77, 86)}
    | {f"v6 to {n}": ip6(SOURCE6, f"2001:db8:{n}::1") for n in (77, 79, 81, 83, 84, 85, 86)},
    *(RouteGet((f"{n}.0.0.1",)) for n in range(77, 86)),
    *(RouteGet((f"2001:db8:{n}::1",)) for n in (77, 79, 81, 83, 84, 85, 86)),
    RouteGet(("79.0.0.1", "from", "10.0.0.2", "iif", "r0")),
)
scenario(
    "nexthop objects change under routes",
    "nexthop",
    router(
        SEED,
        *OBJECTS,
        "ip nexthop add id 20 group 1/2",
        "ip nexthop add id 21 group 3/4",
        *_routes(20, 21),
        "ip route add 79.0.0.0/8 nhid 5",
    ),
    _flows(6),
    Run(
        (
            "ip nexthop replace id 2 via 10.1.0.2 dev r1",
            "ip nexthop replace id 4 via 2001:db8:1::2 dev r1",
        )
    ),
    _flows(6),
    Run(("ip nexthop replace id 20 group 1,9/2", "ip nexthop replace id 21 group 3/4,9")),
    _flows(6),
    Run(("ip nexthop del id 1", "ip nexthop del id 3")),
    _flows(6),
    Run(("ip nexthop replace id 5 blackhole",)),
    {"to 79": ip4(SOURCE, "79.0.0.1")},
    Run(("ip link set r1 carrier off",)),
    _flows(3) | {"to 79": ip4(SOURCE, "79.0.0.1")},
)
scenario(
    "resilient groups change, all buckets idle",
    "nexthop",
    router(
        SEED,
        *OBJECTS,
        "ip nexthop add id 9 via 10.1.0.77 dev r1",
        "ip nexthop add id 20 group 1/2/9 type resilient buckets 16",
        "ip nexthop replace id 20 group 1/2,3/9 type resilient",
        "ip nexthop del id 9",
        "ip nexthop add id 21 group 3/4 type resilient buckets 9",
        "ip nexthop replace id 21 group 3,4/4 type resilient",
        *_routes(20, 21),
    ),
    _flows(20),
)
_MORE = (
    "ip nexthop replace id 20 group 1/2/9 type resilient",
    "ip nexthop replace id 21 group 3/4/10 type resilient",
)
for _name, _timers in {
    "idle": "idle_timer 1",
    "out of balance": "idle_timer 3 unbalanced_timer 1",
}.items():
    scenario(
        f"resilient groups change, buckets in use, until they are {_name}",
        "nexthop",
        router(
            SEED,
            *OBJECTS,
            "ip nexthop add id 9 via 10.1.0.77 dev r1",
            "ip nexthop add id 10 via 2001:db8:1::77 dev r1",
            f"ip nexthop add id 20 group 1/2 type resilient buckets 8 {_timers}",
            f"ip nexthop add id 21 group 3/4 type resilient buckets 8 {_timers}",
            *_routes(20, 21),
        ),
        _flows(16),
        Run(_MORE),
        _flows(16),
        Wait(2.5),
        _flows(16),
        Run(("ip nexthop del id 9", "ip nexthop del id 10")),
        _flows(16),
    )
scenario(
    "resilient groups change, one bucket in use",
    "nexthop",
    router(
        SEED,
        *OBJECTS,
        "ip nexthop add id 9 via 10.1.0.77 dev r1",
        "ip nexthop add id 10 via 2001:db8:1::77 dev r1",
        "ip nexthop add id 20 group 1/2 type resilient buckets 8",
        "ip nexthop add id 21 group 3/4 type resilient buckets 8",
        *_routes(20, 21),
    ),
    _flows(1),
    Run(_MORE),
    _flows(16),
)
_DEAD = (
    "ip neigh add 10.1.0.9 dev r1 nud failed",
    "ip neigh add 2001:db8:1::9 dev r1 nud failed",
    "ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev r0 nud permanent",
    "ip neigh add 2001:db8::9 lladdr 02:00:00:00:00:09 dev r0 nud permanent",
)
_ETHERNET_OBJECTS = (
    SEED,
    *OBJECTS[:4],
    "ip nexthop add id 20 group 1/2,200",
    "ip nexthop add id 21 group 3/4,200",
    *_routes(20, 21),
)
scenario(
    "nexthop group, a neighbour that does not answer",
    "nexthop",
    ethernet(*_ETHERNET_OBJECTS, *_DEAD),
    {
        name: b"\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02"
        + (b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd")
        + packet
        for name, packet in _flows(6).items()
    },
)
scenario(
    "nexthop group without a member for the device asked for",
    "nexthop",
    router(
        SEED,
        "ip link add r2 type tun",
        "ip addr add 10.2.0.1/24 dev r2",
        *OBJECTS,
        "ip nexthop add id 20 group 1/2",
        "ip route add 77.0.0.0/8 dev r2 metric 9",
        "ip route add 77.1.0.0/16 nhid 20",
        "ip route add 77.1.0.0/16 via 10.2.0.9 metric 9",
        "ip route add 77.2.0.0/16 nexthop via 10.0.0.9 nexthop via 10.1.0.9",
        "ip route add 77.2.0.0/16 via 10.2.0.9 metric 9",
    ),
    *(
        RouteGet((f"77.{n}.0.1", *more))
        for n in (1, 2)
        for more in ((), ("oif", "r0"), ("oif", "r1"), ("oif", "r2"))
    ),
)
scenario(
    "the host's own packets by nexthop groups",
    "nexthop",
    router(
        SEED,
        *OBJECTS,
        "ip nexthop add id 20 group 1/2",
        "ip nexthop add id 21 group 3/4",
        *_routes(20, 21),
        "listen udp 0.0.0.0:2000",
        "listen udp [::]:2000 v6only",
        "listen udp 10.0.0.1:2001",
    ),
    *(
        step
        for k in range(1, 7)
        for step in (
            Send(0, b"one", (f"77.0.{k}.1", 9)),
            Send(1, b"two", (f"2001:db8:77::{k}", 9)),
            Send(2, b"three", (f"77.0.{k}.2", 9)),
            RouteGet((f"77.0.{k}.1",)),
            RouteGet((f"77.0.{k}.1", "from", "10.1.0.1")),
            RouteGet((f"2001:db8:77::{k}",)),
        )
    ),
)
scenario(
    "source validation by nexthop groups",
    "nexthop",
    router(
        SEED,
        "net.ipv4.conf.all.rp_filter = 1",
        *OBJECTS,
        "ip nexthop add id 20 group 1/2",
        "ip nexthop add id 22 group 1",
        "ip route add 77.0.0.0/8 nhid 20",
        "ip route add 78.0.0.0/8 nhid 22",
        "ip route add 79.0.0.0/8 nhid 7",
        "ip route add 80.0.0.0/8 nhid 5",
    ),
    Inject("r0", {f"r0 from {n}": ip4(f"{n}.0.0.1", "10.1.0.2") for n in (77, 78, 79, 80)}),
    Inject("r1", {f"r1 from {n}": ip4(f"{n}.0.0.1", "10.0.0.2") for n in (77, 78, 79, 80)}),
)
scenario(
    "receive lists by nexthop objects",
    "nexthop",
    router(
        SEED, "net.ipv4.conf.all.rp_filter = 1", *OBJECTS, "ip nexthop add id 20 group 1/2",
        "ip nexthop add id 22 group 2", "ip route add 77.0.0.0/8 nhid 20",
        "ip route add 78.0.0.0/8 nhid 22", "ip route add 79.0.0.0/8 nhid 2",
    ),
    *(
        Together(
            "r0",
            {f"{n}.{k}": ip4(source, f"{n}.0.0.1", ident=k + 1)
             for k, source in enumerate(("10.0.0.2", "99.0.0.1", "10.0.0.3", "10.1.0.7"))},
        )
        for n in (77, 78, 79)
    ),
)  # fmt: skip
