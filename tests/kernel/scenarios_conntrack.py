"""Fragments on a host that tracks connections: put together before they are routed, then cut again.

The helpers are those of scenarios_frag4 and scenarios_frag6.  What goes through the router leaves by
r1; how it was cut decides how it is cut again.
"""

from __future__ import annotations

from ippath.verify.packets import (
    ROUTER_ALERT, Upper, data, destination_options, echo, echo6, eth, hop_by_hop, record_route,
    routing, tcp, timestamp, udp,
)  # fmt: skip
from ippath.verify.scenario import Inject, Run, Step, Wait
from tests.kernel.scenarios import ethernet, router, scenario
from tests.kernel.scenarios_frag4 import Piece, sized
from tests.kernel.scenarios_frag4 import piece as piece4
from tests.kernel.scenarios_frag4 import pieces as pieces4
from tests.kernel.scenarios_frag6 import piece as piece6
from tests.kernel.scenarios_frag6 import pieces as pieces6

_TRACK = "switch conntrack_defrag on"
_SHORT = (
    "net.ipv4.ipfrag_time = 1", "net.netfilter.nf_conntrack_frag6_timeout = 1",
    "net.ipv6.ip6frag_time = 1",
)  # fmt: skip
_EXPIRE = Wait(1.4, busy=True)
A, B = "2001:db8:0::", "2001:db8:1::"
HERE4, THROUGH4 = ("10.0.0.2", "10.0.0.1"), ("10.0.0.2", "10.1.0.2")
HERE6, THROUGH6 = (A + "2", A + "1"), (A + "2", B + "2")
_THREE = ((0, 1000, 1), (1000, 1000, 1), (2000, 500, 0))


def tracking(*lines: str) -> str:
    """The default host with connection tracking, short times and sockets."""
    listen = ("listen udp 10.0.0.1:2000", "listen udp [::]:2000 v6only")
    return router(_TRACK, *_SHORT, *listen, *lines)


def through(
    name: str,
    size: int,
    *parts: Piece,
    lines: tuple[str, ...] = (),
    then: tuple[Step | dict[str, bytes], ...] = (),
    families: str = "46",
    **fields: object,
) -> None:
    """Scenarios with fragments of one UDP datagram to be forwarded, IPv4 and IPv6."""
    if "4" in families:
        scenario(
            f"conntrack: {name}", "conntrack", tracking(*lines),
            pieces4(sized(size), *parts, pair=THROUGH4, **fields), *then,
        )  # fmt: skip
    if "6" in families:
        scenario(
            f"v6 conntrack: {name}", "conntrack", tracking(*lines),
            pieces6(sized(size), *parts, pair=THROUGH6, **fields), *then,
        )  # fmt: skip


# forwarded: as they came

through("in order", 2500, *_THREE)
through("reversed", 2500, *reversed(_THREE))
through("first last", 2500, *_THREE[1:], _THREE[0])
through("middle last", 2500, _THREE[0], _THREE[2], _THREE[1])
through("two of 1500 and the rest", 2000, (0, 1480, 1), (1480, 520, 0), families="4")
through("of 8 bytes", 40, (16, 8, 1), (0, 8, 1), (32, 8, 0), (8, 8, 1), (24, 8, 1))
through("large one second", 1700, (0, 200, 1), (200, 1000, 1), (1200, 500, 0))
through("last one largest", 1500, (0, 96, 1), (96, 1404, 0))
through("last fragment no multiple of 8", 1207, (0, 600, 1), (600, 607, 0))
through("length no multiple of 8, more", 1010, (0, 1003, 1), (1000, 10, 0), families="4")
through("duplicate", 2500, _THREE[0], _THREE[0], *_THREE[1:])
through("overlap", 2500, _THREE[0], (992, 1000, 1), *_THREE[1:], then=(_EXPIRE,))
through("whole datagram larger than the MTU, fragments not", 2500, *_THREE, lines=("ip link set r1 mtu 1300",))  # fmt: skip
through("different TTL and TOS", 2500, *_THREE[:1], then=(
    {"second": piece4(sized(2500), 1000, 1000, 1, THROUGH4, ttl=9, tos=0x10),
     "third": piece4(sized(2500), 2000, 500, 0, THROUGH4, ttl=1)},
), families="4")  # fmt: skip
through("different hop limits", 2500, *_THREE[:1], then=(
    {"second": piece6(sized(2500), 1000, 1000, 1, THROUGH6, hops=9, traffic_class=0x10),
     "third": piece6(sized(2500), 2000, 500, 0, THROUGH6, hops=1)},
), families="6")  # fmt: skip
scenario("conntrack: TTL of the first has run out", "conntrack", tracking(), {
    "first": piece4(sized(1500), 0, 1000, 1, THROUGH4, ttl=1),
    "last": piece4(sized(1500), 1000, 500, 0, THROUGH4),
})  # fmt: skip
scenario("v6 conntrack: hop limit of the first has run out", "conntrack", tracking(), {
    "first": piece6(sized(1500), 0, 1000, 1, THROUGH6, hops=1),
    "last": piece6(sized(1500), 1000, 500, 0, THROUGH6),
})  # fmt: skip

# forwarded: fragments that do not fit

_SMALL = ("ip link set r1 mtu 1280",)
through("fragments larger than the MTU", 2960, (0, 1480, 1), (1480, 1480, 0), lines=_SMALL)
through("fragments larger than a tiny MTU", 1000, (0, 496, 1), (496, 504, 0), lines=("ip link set r1 mtu 300",), families="4")  # fmt: skip
through("larger than the MTU, DF", 2960, (0, 1480, 1), (1480, 1480, 0), lines=_SMALL, df=True, families="4")  # fmt: skip
through("smaller than the MTU, DF", 2400, (0, 1200, 1), (1200, 1200, 0), lines=_SMALL, df=True, families="4")  # fmt: skip
through("DF, three", 2500, *_THREE, df=True, families="4")
through("all of it smaller than the MTU, DF", 600, (0, 400, 1), (400, 200, 0), df=True, families="4")  # fmt: skip
through("route with an MTU", 2500, *_THREE, lines=("ip route add 10.1.0.2 dev r1 mtu 700", f"ip route add {B}2 dev r1 mtu 700"))  # fmt: skip
through("route with a locked MTU", 2500, *_THREE, lines=("ip route add 10.1.0.2 dev r1 mtu lock 700", f"ip route add {B}2 dev r1 mtu lock 700"))  # fmt: skip
for label, first, second in (("small last", False, True), ("large first", True, False)):
    scenario(f"conntrack: DF in the {label}", "conntrack", tracking(), {
        "first": piece4(sized(1500), 0, 1000, 1, THROUGH4, df=first),
        "last": piece4(sized(1500), 1000, 500, 0, THROUGH4, df=second),
    })  # fmt: skip
scenario("conntrack: DF in a large first, slow way", "conntrack", tracking(), {
    "first, options": piece4(sized(2500), 0, 1000, 1, THROUGH4, df=True, options=ROUTER_ALERT),
    "second": piece4(sized(2500), 1000, 1000, 1, THROUGH4, df=True),
    "last": piece4(sized(2500), 2000, 500, 0, THROUGH4, df=True),
})  # fmt: skip
scenario("conntrack: options in later fragments make them too large for DF", "conntrack", tracking("ip link set r1 mtu 1480"), {
    "first": piece4(sized(1448), 0, 8, 1, THROUGH4, df=True),
    "last": piece4(sized(1448), 8, 1440, 0, THROUGH4, df=True, options=bytes([1] * 40)),
})  # fmt: skip

# forwarded: headers that differ

for label, options, later in (
    ("NOPs in the first", bytes([1] * 8), b""),
    ("NOPs in later ones", b"", bytes([1] * 8)),
    ("record route in the first", record_route(3), b""),
    ("record route in all", record_route(3), record_route(3)),
    ("router alert in the first", ROUTER_ALERT, b""),
    ("a copied and an uncopied option", ROUTER_ALERT + record_route(2), ROUTER_ALERT),
    ("timestamp in the first", timestamp(0, bytes(8)), b""),
    ("a wrong option in the first", bytes([7, 200, 4, 0]), b""),
):
    for order in ((0, 1000, 1), (1000, 500, 0)), ((1000, 500, 0), (0, 1000, 1)):
        ahead = "first" if order[0][0] == 0 else "last"
        scenario(
            f"conntrack: {label}, {ahead} ahead", "conntrack", tracking(),
            {f"{first}": piece4(sized(1500), first, length, more, THROUGH4, options=later if first else options)
             for first, length, more in order},
            ignore=("timestamp option",),
        )  # fmt: skip
for label, before, later in (
    ("hop-by-hop options", (hop_by_hop(b""),), (hop_by_hop(b""),)),
    ("hop-by-hop options in the first", (hop_by_hop(b""),), ()),
    ("hop-by-hop options in later ones", (), (hop_by_hop(b""),)),
    ("destination options before", (destination_options(b""),), (destination_options(b""),)),
    ("routing header before", (routing(0, 0),), (routing(0, 0),)),
    ("destination options, routing header", (destination_options(b""), routing(0, 0)), (destination_options(b""), routing(0, 0))),
):  # fmt: skip
    for pair, where in ((THROUGH6, "through"), (HERE6, "here")):
        for order in ((0, 1000, 1), (1000, 500, 0)), ((1000, 500, 0), (0, 1000, 1)):
            ahead = "first" if order[0][0] == 0 else "last"
            scenario(
                f"v6 conntrack: {label}, {where}, {ahead} ahead", "conntrack", tracking(),
                {f"{first}": piece6(sized(1500), first, length, more, pair, before=before if first == 0 else later)
                 for first, length, more in order},
                _EXPIRE,
            )  # fmt: skip


def inner(size: int, *headers: tuple[int, bytes], dport: int = 2000) -> Upper:
    """A UDP datagram behind extension headers, all of it to be cut."""
    numbers = [number for number, _ in headers] + [17]
    return Upper(
        numbers[0],
        lambda src, dst: (
            b"".join(
                bytes([following]) + body for (_, body), following in zip(headers, numbers[1:])
            )
            + udp(dport=dport, payload=data(size - 8)).build(src, dst)
        ),
    )


for label, headers in (
    ("destination options behind", (destination_options(b""),)),
    ("long destination options behind", (destination_options(bytes([1, 100]) + bytes(100)),)),
    ("routing header behind", (routing(0, 0),)),
    ("hop-by-hop options behind", (hop_by_hop(b""),)),
    ("another fragment header behind", ((44, bytes([0, 0, 0, 0, 0, 0, 9])),)),
):
    for pair, where in ((THROUGH6, "through"), (HERE6, "here")):
        scenario(
            f"v6 conntrack: {label}, {where}", "conntrack", tracking(),
            pieces6(inner(1400, *headers), (0, 1000, 1), (1000, 512, 0), pair=pair), _EXPIRE,
        )  # fmt: skip
        scenario(
            f"v6 conntrack: {label}, small pieces, {where}", "conntrack", tracking(),
            pieces6(inner(100, *headers), (0, 24, 1), (24, 24, 1), (48, 152, 0), pair=pair), _EXPIRE,
        )  # fmt: skip

# for this host

for name, parts in (
    ("in order", _THREE),
    ("reversed", _THREE[::-1]),
    ("duplicate", (_THREE[0], *_THREE)),
    ("hole", (_THREE[0], _THREE[2])),
    ("hole at the front", _THREE[1:]),
    ("overlap", (_THREE[0], (992, 1000, 1))),
    ("beyond the last", ((16, 8, 0), (24, 8, 1))),
    ("last before the end", ((16, 8, 0), (8, 8, 0), (0, 8, 1), (8, 8, 1))),
    ("header only", ((8, 0, 0), (0, 8, 1))),
    ("length no multiple of 8", ((0, 104, 1), (104, 99, 1))),
    ("beyond 65535", ((65528, 16, 0), (0, 1000, 1))),
    ("only one that goes beyond 65535", ((65528, 16, 0),)),
):
    scenario(f"conntrack: {name}, here", "conntrack", tracking(), pieces4(sized(2500), *parts), _EXPIRE)  # fmt: skip
    scenario(f"v6 conntrack: {name}, here", "conntrack", tracking(), pieces6(sized(2500), *parts), _EXPIRE)  # fmt: skip
    if name not in ("in order", "reversed", "duplicate", "overlap"):
        through(name + ", through", 2500, *parts, then=(_EXPIRE,))
through("unreachable, a hole", 2500, _THREE[0], lines=("ip route add unreachable 10.1.0.2", f"ip route add unreachable {B}2"), then=(_EXPIRE,))  # fmt: skip
through("no socket far away, TTL", 2500, *_THREE, lines=("ip route add 10.1.0.2 via 10.0.0.3 dev r0", f"ip route add {B}2 via {A}3 dev r0"))  # fmt: skip
through("unreachable", 2500, *_THREE, lines=("ip route add unreachable 10.1.0.2", f"ip route add unreachable {B}2"))  # fmt: skip
scenario("conntrack: forwarding off", "conntrack", tracking("net.ipv4.ip_forward = 0"), pieces4(sized(2500), *_THREE, pair=THROUGH4))  # fmt: skip
scenario("conntrack: reverse path, with the whole datagram", "conntrack", tracking("net.ipv4.conf.r0.rp_filter = 1"), pieces4(sized(2500), *_THREE, pair=("10.1.0.3", "10.1.0.2")))  # fmt: skip
scenario("conntrack: rule by port, with the whole datagram", "conntrack", tracking("ip rule add ipproto udp dport 2000 prohibit"), pieces4(sized(2500), *_THREE, pair=THROUGH4))  # fmt: skip
scenario("v6 conntrack: rule by port, with the whole datagram", "conntrack", tracking("ip -6 rule add ipproto udp dport 2000 prohibit"), pieces6(sized(2500), *_THREE, pair=THROUGH6))  # fmt: skip
scenario("conntrack: by two devices", "conntrack", tracking(), {"first": piece4(sized(1500), 0, 1000, 1)}, Inject("r1", {"last": piece4(sized(1500), 1000, 500, 0)}))  # fmt: skip
scenario("v6 conntrack: by two devices", "conntrack", tracking(), {"first": piece6(sized(1500), 0, 1000, 1)}, Inject("r1", {"last": piece6(sized(1500), 1000, 500, 0)}), _EXPIRE)  # fmt: skip
scenario("conntrack: echo request here", "conntrack", tracking(), pieces4(echo(body=data(1492)), (0, 1000, 1), (1000, 500, 0)))  # fmt: skip
scenario("v6 conntrack: echo request here", "conntrack", tracking(), pieces6(echo6(body=data(1492)), (0, 1000, 1), (1000, 500, 0)))  # fmt: skip
scenario("v6 conntrack: no fragments", "conntrack", tracking(), {"through": piece6(sized(1200), 0, 1200, 0, THROUGH6), "here": piece6(sized(1200), 0, 1200, 0)})  # fmt: skip
scenario("v6 conntrack: atomic ones", "conntrack", tracking(), {
    "through": piece6(sized(100), 0, 100, 0, THROUGH6),
    "here": piece6(sized(100), 0, 100, 0),
    "here, options before": piece6(sized(100), 0, 100, 0, before=(destination_options(b""),)),
    "through, hop-by-hop": piece6(sized(100), 0, 100, 0, THROUGH6, before=(hop_by_hop(b""),)),
    "first of others": piece6(sized(100), 0, 56, 1, THROUGH6),
    "atomic with its number": piece6(sized(100), 0, 100, 0, THROUGH6),
}, _EXPIRE)  # fmt: skip
scenario("v6 conntrack: large atomic one for a small MTU", "conntrack", tracking(*_SMALL), {
    "1240": piece6(sized(1240), 0, 1240, 0, THROUGH6),
    "1241": piece6(sized(1241), 0, 1241, 0, THROUGH6),
    "1400": piece6(sized(1400), 0, 1400, 0, THROUGH6),
})  # fmt: skip
scenario("v6 conntrack: first without its whole header", "conntrack", tracking(), {
    "UDP, 4 bytes": piece6(sized(100), 0, 4, 1, THROUGH6),
    "UDP, nothing": piece6(sized(100), 0, 0, 1, THROUGH6),
    "TCP, 16 bytes, here": piece6(tcp(), 0, 16, 1),
    "TCP, 16 bytes, through": piece6(tcp(), 0, 16, 1, THROUGH6),
    "UDP, 8 bytes": piece6(sized(100), 0, 8, 1, THROUGH6),
}, _EXPIRE)  # fmt: skip

# ECN, memory, distance

for label, classes in (
    ("one CE", (2, 3, 2)), ("mixed ECT", (1, 2, 1)), ("one without ECN", (2, 2, 0)), ("all CE", (3, 3, 3)),
):  # fmt: skip
    scenario(f"conntrack: ECN, {label}", "conntrack", tracking(), {
        f"{part[0]}": piece4(sized(2500), *part, THROUGH4, tos=tos) for part, tos in zip(_THREE, classes)
    })  # fmt: skip
    scenario(f"v6 conntrack: ECN, {label}", "conntrack", tracking(), {
        f"{part[0]}": piece6(sized(2500), *part, THROUGH6, traffic_class=tos) for part, tos in zip(_THREE, classes)
    })  # fmt: skip
_ONE = {f"{k}": piece6(sized(100, dport=9), 0, 56, 1, THROUGH6, ident=k) for k in range(1, 5)}
scenario("v6 conntrack: memory limit", "conntrack", tracking(
    "net.netfilter.nf_conntrack_frag6_low_thresh = 0", "net.netfilter.nf_conntrack_frag6_high_thresh = 2000",
), _ONE, {"last of 1": piece6(sized(100, dport=9), 56, 44, 0, THROUGH6, ident=1)}, _EXPIRE)  # fmt: skip
scenario("v6 conntrack: memory limit changed", "conntrack", tracking(), {"1": _ONE["1"]}, Run((
    "net.netfilter.nf_conntrack_frag6_low_thresh = 0", "net.netfilter.nf_conntrack_frag6_high_thresh = 0",
)), {"2": _ONE["2"]}, Run(("net.netfilter.nf_conntrack_frag6_high_thresh = 100000",)), {
    "last of 1": piece6(sized(100, dport=9), 56, 44, 0, THROUGH6, ident=1)})  # fmt: skip
scenario("v6 conntrack: limits of local delivery do not count", "conntrack", tracking(
    "net.ipv6.ip6frag_low_thresh = 0", "net.ipv6.ip6frag_high_thresh = 0",
), pieces6(sized(2500), *_THREE), pieces6(sized(2500), *_THREE, pair=THROUGH6, ident=5))  # fmt: skip
scenario("conntrack: memory limit", "conntrack", tracking(
    "net.ipv4.ipfrag_low_thresh = 0", "net.ipv4.ipfrag_high_thresh = 2000",
), {f"{k}": piece4(sized(100), 0, 56, 1, THROUGH4, ident=k) for k in range(1, 5)}, _EXPIRE)  # fmt: skip
scenario("conntrack: distance", "conntrack", tracking("net.ipv4.ipfrag_max_dist = 2"), {
    f"{ident}: {first}": piece4(sized(100), first, 56 if first == 0 else 44, int(first == 0), THROUGH4, ident=ident)
    for ident, first in ((1, 0), (2, 0), (3, 0), (1, 56), (4, 0), (4, 56), (5, 0), (6, 0), (7, 0), (5, 56))
}, _EXPIRE)  # fmt: skip
for size in (65_515, 65_516):
    large = [(k, 16_000, 1) for k in range(0, 64_000, 16_000)]
    through(f"{size} bytes", size, *large, (64_000, size - 64_000, 0), lines=("ip link set r0 mtu 65535", "ip link set r1 mtu 20000"), families="4")  # fmt: skip
for size in (65_535, 65_536):
    large = [(k, 16_000, 1) for k in range(0, 64_000, 16_000)]
    scenario(
        f"v6 conntrack: {size} bytes", "conntrack",
        tracking("ip link set r0 mtu 65535", "ip link set r1 mtu 20000"),
        pieces6(echo6(body=data(size - 8)), *large, (64_000, size - 64_000, 0), pair=THROUGH6),
    )  # fmt: skip
scenario("conntrack: switched on between", "conntrack", router(*_SHORT, "listen udp 10.0.0.1:2000"), pieces4(sized(2500), *_THREE[:2]), Run((_TRACK,)), pieces4(sized(2500), *_THREE[2:]), _EXPIRE)  # fmt: skip
for family, made in ((4, pieces4), (6, pieces6)):
    pair = THROUGH4 if family == 4 else THROUGH6
    scenario(f"v{family} conntrack: on Ethernet".removeprefix("v4 "), "conntrack", ethernet(_TRACK), {
        label: eth(packet) for label, packet in made(sized(2500), *_THREE, pair=pair).items()
    })  # fmt: skip
