"""Scenarios of path MTU: what reports are believed, and what the host does with them."""

from __future__ import annotations

from ippath.verify.packets import data, echo, echo6, icmp, icmp6, ip4, ip6, tcp, udp
from ippath.verify.scenario import Inject, RouteGet, Run, Send, ShowCache, Step, Wait
from tests.kernel.scenarios import router, scenario

FAR, FAR6 = "80.0.0.1", "2001:db8:80::1"
OWN, OWN6 = "10.1.0.1", "2001:db8:1::1"
ROUTER, ROUTER6 = "10.1.0.7", "2001:db8:1::7"
ROUTES = (
    "ip route add 80.0.0.0/8 via 10.1.0.9",
    "ip -6 route add 2001:db8:80::/48 via 2001:db8:1::9",
)
SOCKETS = ("listen udp 0.0.0.0:2000", "listen udp [::]:2000")
FIRST4, FIRST6 = 0, 1
SENT4 = ip4(OWN, FAR, udp(2000, 53, data(1400)), df=True)
SENT6 = ip6(OWN6, FAR6, udp(2000, 53, data(1400)))
ECHO4, ECHO6 = ip4(OWN, FAR, echo(body=data(1400))), ip6(OWN6, FAR6, echo6(body=data(1400)))


def needed(mtu: int, quoted: bytes = SENT4, *, code: int = 4, source: str = ROUTER) -> bytes:
    """Fragmentation needed, as a router would write it."""
    return ip4(source, OWN, icmp(3, code, mtu, quoted[:548]))


def too_big(mtu: int, quoted: bytes = SENT6, *, source: str = ROUTER6) -> bytes:
    """Packet too big, as a router would write it."""
    return ip6(source, OWN6, icmp6(2, 0, mtu, quoted[:1232]))


def probes(far: str = FAR, far6: str = FAR6) -> tuple[Step, ...]:
    """What shows the MTU of the paths: datagrams of sockets, echo replies, forwarded packets."""
    return (
        *(Send(FIRST4, data(n), (far, 53)) for n in (500, 1172, 1173, 1400)),
        *(Send(FIRST6, data(n), (far6, 53)) for n in (1232, 1233, 1252, 1253, 1400)),
        Inject("r1", {
            "echo of 1400": ip4(far, OWN, echo(body=data(1372))),
            "v6 echo of 1400": ip6(far6, OWN6, echo6(body=data(1352))),
            "closed port": ip4(far, OWN, udp(dport=9, payload=data(1000))),
            "v6 closed port": ip6(far6, OWN6, udp(dport=9, payload=data(1300))),
        }),
        Inject("r0", {
            "forwarded": ip4("10.0.0.2", far, udp(payload=data(1372))),
            "forwarded, DF": ip4("10.0.0.2", far, udp(payload=data(1372)), df=True),
            "v6 forwarded": ip6("2001:db8::2", far6, udp(payload=data(1352))),
        }),
    )  # fmt: skip


def host(*lines: str) -> str:
    """The router with routes to far networks and two sockets."""
    return router(
        "net.ipv4.icmp_ratemask = 0", "net.ipv6.icmp.ratelimit = 0", *ROUTES, *SOCKETS, *lines
    )


scenario("pmtu: nothing learned", "pmtu", host(), *probes())
for _mtu in (1200, 1300, 1492):
    scenario(
        f"pmtu: {_mtu}",
        "pmtu",
        host(),
        Inject("r1", {"needed": needed(_mtu), "too big": too_big(max(_mtu, 1280))}),
        *probes(),
        *probes("80.0.0.2", "2001:db8:80::2"),
    )
for _mtu in (0, 1, 68, 551, 552, 553, 576, 1499, 1500, 1501, 65535):
    scenario(
        f"pmtu: edges, {_mtu}",
        "pmtu",
        host(),
        Inject("r1", {"needed": needed(_mtu)}),
        *(Send(FIRST4, data(n), (FAR, 53)) for n in (500, 524, 525, 548, 549, 1400, 1472)),
        Inject("r0", {"forwarded": ip4("10.0.0.2", FAR, udp(payload=data(1372))),
                      "forwarded, DF": ip4("10.0.0.2", FAR, udp(payload=data(1372)), df=True)}),
    )  # fmt: skip
for _mtu in (0, 68, 1279, 1280, 1281, 1499, 1500, 1501, 65536):
    scenario(
        f"pmtu: v6 edges, {_mtu}",
        "pmtu",
        host(),
        Inject("r1", {"too big": too_big(_mtu)}),
        *(Send(FIRST6, data(n), (FAR6, 53)) for n in (1231, 1232, 1233, 1400, 1452, 1453)),
        Inject("r0", {"forwarded": ip6("2001:db8::2", FAR6, udp(payload=data(1352)))}),
    )
_QUOTED = {
    "an echo request": (ECHO4, ECHO6),
    "an echo reply": (
        ip4(OWN, FAR, icmp(0, 0, 0x70001, data(1400))), ip6(OWN6, FAR6, icmp6(129, 0, 1, data(1400)))
    ),
    "an echo reply of the other address of ours": (
        ip4("10.0.0.1", FAR, icmp(0, 0, 1)), ip6("2001:db8::1", FAR6, icmp6(129, 0, 1)),
    ),
    "an echo reply of another host": (
        ip4("10.1.0.3", FAR, icmp(0, 0, 1)), ip6("2001:db8:1::3", FAR6, icmp6(129, 0, 1)),
    ),
    "an echo reply to a neighbour": (
        ip4(OWN, "10.1.0.5", icmp(0, 0, 1)), ip6(OWN6, "2001:db8:1::5", icmp6(129, 0, 1)),
    ),
    "an echo reply to our own address": (
        ip4(OWN, "10.0.0.1", icmp(0, 0, 1)), ip6(OWN6, "2001:db8::1", icmp6(129, 0, 1)),
    ),
    "an echo reply to nowhere": (
        ip4(OWN, "99.0.0.1", icmp(0, 0, 1)), ip6(OWN6, "2001:db9::1", icmp6(129, 0, 1)),
    ),
    "an echo reply to a group": (
        ip4(OWN, "239.1.1.1", icmp(0, 0, 1)), ip6(OWN6, "ff05::1:3", icmp6(129, 0, 1)),
    ),
    "another port": (ip4(OWN, FAR, udp(2001, 53)), ip6(OWN6, FAR6, udp(2001, 53))),
    "TCP": (ip4(OWN, FAR, tcp()), ip6(OWN6, FAR6, tcp())),
    "another protocol": (ip4(OWN, FAR, data(20), proto=47), ip6(OWN6, FAR6, data(20), last_header=47)),
    "a source that is not ours": (
        ip4("10.1.0.3", FAR, echo()), ip6("2001:db8:1::3", FAR6, echo6()),
    ),
    "the other address of ours": (ip4("10.0.0.1", FAR, echo()), ip6("2001:db8::1", FAR6, echo6())),
    "our own address": (ip4(OWN, "10.0.0.1", echo()), ip6(OWN6, "2001:db8::1", echo6())),
    "a neighbour": (ip4(OWN, "10.1.0.5", echo()), ip6(OWN6, "2001:db8:1::5", echo6())),
    "nowhere": (ip4(OWN, "99.0.0.1", echo()), ip6(OWN6, "2001:db9::1", echo6())),
    "a cut packet": (SENT4[:27], SENT6[:47]),
    "a group": (ip4(OWN, "239.1.1.1", echo()), ip6(OWN6, "ff05::1:3", echo6())),
    "a later fragment": (ip4(OWN, FAR, data(24), proto=17, offset=5), b""),
}  # fmt: skip
for _name, (_quoted, _quoted6) in _QUOTED.items():
    scenario(
        f"pmtu: {_name} quoted",
        "pmtu",
        host(),
        Inject("r1", {"needed": needed(1200, _quoted), "too big": too_big(1300, _quoted6)}),
        *probes(),
        *(Send(FIRST4, data(1400), (far, 53)) for far in ("10.1.0.5", "99.0.0.1")),
        *(Send(FIRST6, data(1400), (far, 53)) for far in ("2001:db8:1::5", "2001:db9::1")),
    )
scenario(
    "pmtu: other errors teach nothing",
    "pmtu",
    host(),
    Inject("r1", {f"3/{code}": needed(1200, code=code) for code in (0, 1, 2, 3, 5, 13, 15, 16)}),
    *probes(),
)
scenario(
    "pmtu: reports that follow",
    "pmtu",
    host(),
    *(
        step
        for mtu in (1400, 1300, 1450, 1290, 500)
        for step in (
            Inject("r1", {f"needed {mtu}": needed(mtu), f"too big {mtu}": too_big(mtu)}),
            Send(FIRST4, data(1400), (FAR, 53)),
            Send(FIRST6, data(1400), (FAR6, 53)),
        )
    ),
)
scenario(
    "pmtu: from whoever and by whatever device",
    "pmtu",
    host(),
    Inject("r0", {"needed": needed(1200, source="10.0.0.66"),
                  "too big": too_big(1300, source="2001:db8::66")}),
    *probes(),
)  # fmt: skip
for _mode in (1, 2, 3):
    scenario(
        f"pmtu: ip_no_pmtu_disc {_mode}",
        "pmtu",
        host(f"net.ipv4.ip_no_pmtu_disc = {_mode}"),
        Inject("r1", {"needed": needed(1200)}),
        *(Send(FIRST4, data(n), (FAR, 53)) for n in (500, 524, 525, 1400)),
    )
scenario(
    "pmtu: min_pmtu",
    "pmtu",
    host("net.ipv4.route.min_pmtu = 1000"),
    Inject("r1", {"needed": needed(900)}),
    *(Send(FIRST4, data(n), (FAR, 53)) for n in (872, 873, 972, 973, 1400)),
)
scenario(
    "pmtu: ip_forward_use_pmtu",
    "pmtu",
    host("net.ipv4.ip_forward_use_pmtu = 1"),
    Inject("r1", {"needed": needed(1200), "too big": too_big(1300)}),
    *probes(),
)
scenario(
    "pmtu: routes with an MTU of their own",
    "pmtu",
    host(
        "ip route replace 80.0.0.0/8 via 10.1.0.9 mtu 1350",
        "ip -6 route replace 2001:db8:80::/48 via 2001:db8:1::9 mtu 1350",
    ),
    Inject("r1", {"needed 1400": needed(1400), "too big 1400": too_big(1400)}),
    *probes(),
    Inject("r1", {"needed 1200": needed(1200), "too big 1300": too_big(1300)}),
    *probes(),
)
scenario(
    "pmtu: locked MTUs",
    "pmtu",
    host(
        "ip route replace 80.0.0.0/8 via 10.1.0.9 mtu lock 1350",
        "ip -6 route replace 2001:db8:80::/48 via 2001:db8:1::9 mtu lock 1350",
    ),
    Inject("r1", {"needed": needed(1200), "too big": too_big(1300)}),
    *probes(),
)
scenario(
    "pmtu: one next hop, two networks",
    "pmtu",
    host(
        "ip route add 80.0.0.0/16 via 10.1.0.9",
        "ip -6 route add 2001:db8:80::/64 via 2001:db8:1::9",
    ),
    Inject("r1", {"needed": needed(1200), "too big": too_big(1300)}),
    *probes(),
    Run(("ip route del 80.0.0.0/16 via 10.1.0.9", "ip -6 route del 2001:db8:80::/64")),
    *probes(),
)
scenario(
    "pmtu: a route that is replaced",
    "pmtu",
    host(),
    Inject("r1", {"needed": needed(1200), "too big": too_big(1300)}),
    Run(("ip route replace 80.0.0.0/8 via 10.1.0.8",
         "ip -6 route replace 2001:db8:80::/48 via 2001:db8:1::8")),
    *probes(),
    Run(("ip route replace 80.0.0.0/8 via 10.1.0.9",
         "ip -6 route replace 2001:db8:80::/48 via 2001:db8:1::9")),
    *probes(),
)  # fmt: skip
scenario(
    "pmtu: another route comes",
    "pmtu",
    host(),
    Inject("r1", {"needed": needed(1200), "too big": too_big(1300)}),
    Run(
        (
            "ip route add 90.0.0.0/8 via 10.1.0.9",
            "ip -6 route add 2001:db8:90::/48 via 2001:db8:1::9",
        )
    ),
    *probes(),
)
scenario(
    "pmtu: several next hops",
    "pmtu",
    host(
        "net.ipv4.fib_multipath_hash_seed = 4711",
        "net.ipv4.fib_multipath_hash_policy = 1",
        "net.ipv6.fib_multipath_hash_policy = 1",
        "ip route replace 80.0.0.0/8 nexthop via 10.1.0.9 nexthop via 10.1.0.8",
        "ip -6 route replace 2001:db8:80::/48 nexthop via 2001:db8:1::9 nexthop via 2001:db8:1::8",
    ),
    Inject("r1", {"needed": needed(1200), "too big": too_big(1300)}),
    *(Send(FIRST4, data(1400), (FAR, port)) for port in range(50, 58)),
    *(Send(FIRST6, data(1400), (FAR6, port)) for port in range(50, 58)),
)
scenario(
    "pmtu: a smaller device MTU",
    "pmtu",
    host(),
    Inject("r1", {"needed": needed(1400), "too big": too_big(1400)}),
    Run(("ip link set r1 mtu 1300",)),
    *probes(),
)
scenario(
    "pmtu: over after its time",
    "pmtu",
    host("net.ipv4.route.mtu_expires = 1", "net.ipv6.route.mtu_expires = 1"),
    Inject("r1", {"needed": needed(1200), "too big": too_big(1300)}),
    Send(FIRST4, data(1400), (FAR, 53)),
    Send(FIRST6, data(1400), (FAR6, 53)),
    Wait(1.3),
    *probes(),
)
scenario(
    "pmtu: route get",
    "pmtu",
    host(),
    Inject("r1", {"needed": needed(1200), "locked": needed(400, ip4(OWN, "80.0.0.2", icmp(0, 0, 1))),
                  "too big": too_big(1300)}),
    *(RouteGet((far,)) for far in (FAR, "80.0.0.2", "80.0.0.3", FAR6, "2001:db8:80::2")),
    RouteGet((FAR, "from", "10.0.0.2", "iif", "r0")),
    RouteGet(("80.0.0.2", "from", "10.0.0.2", "iif", "r0")),
    RouteGet((FAR6, "from", "2001:db8::2", "iif", "r0")),
    ShowCache(4),
    ShowCache(6),
)  # fmt: skip
for _rules in (False, True):
    scenario(
        f"pmtu: route show cache{', with rules' if _rules else ''}",
        "pmtu",
        host(
            "ip route add 80.0.0.0/8 via 10.1.0.9 table 100",
            "ip -6 route add 2001:db8:80::/48 via 2001:db8:1::9 table 100",
            "ip route add 85.0.0.0/8 dev r0 src 10.0.0.1 mtu 1400",
            "ip -6 route add 2001:db8:85::/48 dev r0 mtu 1400",
            "ip route add 86.0.0.0/8 nexthop via 10.1.0.3 nexthop via 10.0.0.3",
            *(("ip rule add pref 100 to 80.0.0.2 lookup 100",
               "ip -6 rule add pref 100 to 2001:db8:80::2 lookup 100") if _rules else ()),
        ),
        ShowCache(4),
        ShowCache(6),
        Inject("r1", {
            f"{far} {mtu}": needed(mtu, ip4(OWN, far, icmp(0, 0, 1)))
            for far, mtu in ((FAR, 1200), ("80.0.0.2", 400), ("85.0.0.1", 1300), ("86.0.0.1", 1000),
                             ("10.1.0.5", 900), ("10.0.0.1", 800))
        } | {
            f"{far} {mtu}": too_big(mtu, ip6(OWN6, far, icmp6(129, 0, 1)), source=ROUTER6)
            for far, mtu in ((FAR6, 1300), ("2001:db8:80::2", 1400), ("2001:db8:85::1", 1300),
                             ("2001:db8:1::5", 1290))
        }),
        ShowCache(4),
        ShowCache(6),
        Run(("ip route del 80.0.0.0/8 via 10.1.0.9 table 100",)),
        ShowCache(4),
        Inject("r1", {"again": ip4(FAR, OWN, echo()), "again 85": ip4("85.0.0.1", OWN, echo())}),
        ShowCache(4),
    )  # fmt: skip
scenario(
    "pmtu: nexthop objects",
    "pmtu",
    host(
        "ip nexthop add id 1 via 10.1.0.8 dev r1",
        "ip nexthop add id 2 via 2001:db8:1::8 dev r1",
        "ip route add 90.0.0.0/16 nhid 1",
        "ip route add 90.0.0.0/24 nhid 1",
        "ip -6 route add 2001:db8:90::/48 nhid 2",
        "ip -6 route add 2001:db8:90::/64 nhid 2",
    ),
    Inject("r1", {
        "needed": needed(1200, ip4(OWN, "90.0.0.1", icmp(0, 0, 1))),
        "too big": too_big(1300, ip6(OWN6, "2001:db8:90::1", icmp6(129, 0, 1))),
    }),
    *probes("90.0.0.1", "2001:db8:90::1"),
    Run(("ip route del 90.0.0.0/24", "ip -6 route del 2001:db8:90::/64")),
    *probes("90.0.0.1", "2001:db8:90::1"),
    Run(("ip nexthop replace id 1 via 10.1.0.7 dev r1",
         "ip nexthop replace id 2 via 2001:db8:1::7 dev r1")),
    *probes("90.0.0.1", "2001:db8:90::1"),
)  # fmt: skip
