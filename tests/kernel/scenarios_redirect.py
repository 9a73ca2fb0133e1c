"""Scenarios of redirects received: which are believed, and what the host does with them."""

from __future__ import annotations

import ipaddress

from ippath.verify.packets import data, echo, icmp, icmp6, ip4, ip6, tcp, udp
from ippath.verify.scenario import Inject, RouteGet, Run, Send, ShowCache, Step
from tests.kernel.scenarios import router, scenario
from tests.kernel.scenarios_pmtu import needed, too_big

FAR, FAR6 = "80.0.0.1", "2001:db8:80::1"
OWN, OWN6 = "10.1.0.1", "2001:db8:1::1"
OLD, NEW = "10.1.0.9", "10.1.0.8"
OLD6, NEW6 = "fe80::9", "fe80::8"
ROUTES = (
    "ip addr add fe80::1/64 dev r1",
    f"ip route add 80.0.0.0/8 via {OLD}",
    f"ip -6 route add 2001:db8:80::/48 via {OLD6} dev r1",
)
SOCKETS = ("listen udp 0.0.0.0:2000", "listen udp [::]:2000", "listen udp [::]:2001 dev r1")
SENT4, SENT6 = ip4(OWN, FAR, udp(2000, 53, data(64))), ip6(OWN6, FAR6, udp(2000, 53, data(64)))
REPLY4, REPLY6 = ip4(OWN, FAR, icmp(0, 0, 1, data(8))), ip6(OWN6, FAR6, icmp6(129, 0, 1, data(8)))


def to_host(
    gateway: str = NEW, quoted: bytes = SENT4, *, code: int = 1, source: str = OLD
) -> bytes:
    """An ICMP redirect to another gateway."""
    return ip4(source, OWN, icmp(5, code, int(ipaddress.IPv4Address(gateway)), quoted))


def to_host6(
    target: str = NEW6,
    quoted: bytes | None = REPLY6,
    *,
    destination: str = FAR6,
    source: str = OLD6,
    hops: int = 255,
    code: int = 0,
    options: bytes = b"",
) -> bytes:
    """A redirect of neighbour discovery (RFC 4861 section 4.5), with the packet that it is about."""
    body = ipaddress.IPv6Address(target).packed + ipaddress.IPv6Address(destination).packed
    if quoted is not None:
        padded = quoted + bytes(-len(quoted) % 8)
        options += bytes([4, 1 + len(padded) // 8]) + bytes(6) + padded
    return ip6(source, OWN6, icmp6(137, code, 0, body + options), hops=hops)


def probes(far: str = FAR, far6: str = FAR6) -> tuple[Step, ...]:
    """What shows the way to the destinations."""
    return (
        RouteGet((far,)),
        RouteGet((far6,)),
        RouteGet((far, "from", "10.0.0.2", "iif", "r0")),
        Send(0, data(8), (far, 53)),
        Send(1, data(8), (far6, 53)),
        Inject("r1", {"echo": ip4(far, OWN, echo())}),
        ShowCache(4),
        ShowCache(6),
    )


def host(*lines: str, forward: bool = False) -> str:
    """The host with routes to far networks; it does not forward, so it believes redirects."""
    return router(*ROUTES, *SOCKETS, *lines, forward=forward)


scenario(
    "redirect: believed",
    "redirect",
    host(),
    *probes(),
    Inject("r1", {"redirect": to_host(), "v6, of a reply": to_host6()}),
    *probes(),
    *probes("80.0.0.2", "2001:db8:80::2"),
    Inject("r1", {"the old gateway again": to_host("10.1.0.7"),
                  "v6, the old gateway again": to_host6("fe80::7")}),
    *probes(),
    Inject("r1", {"the new gateway": to_host("10.1.0.7", source=NEW),
                  "v6, the new gateway": to_host6("fe80::7", source=NEW6)}),
    *probes(),
)  # fmt: skip
_QUOTED = {
    "an echo reply": (REPLY4, REPLY6),
    "an echo request": (ip4(OWN, FAR, echo()), ip6(OWN6, FAR6, icmp6(128, 0, 1))),
    "another port": (ip4(OWN, FAR, udp(2002, 53)), ip6(OWN6, FAR6, udp(2002, 53))),
    "UDP of a socket": (SENT4, SENT6),
    "UDP of a socket at the device": (SENT4, ip6(OWN6, FAR6, udp(2001, 53))),
    "TCP": (ip4(OWN, FAR, tcp()), ip6(OWN6, FAR6, tcp())),
    "another protocol": (ip4(OWN, FAR, data(20), proto=47), ip6(OWN6, FAR6, data(20), last_header=47)),
    "nothing": (b"", None),
    "a cut packet": (SENT4[:27], SENT6[:47]),
    "a source that is not ours": (ip4("10.1.0.3", FAR, icmp(0, 0, 1)), ip6("2001:db8:1::3", FAR6, icmp6(129, 0, 1))),
    "another destination": (ip4(OWN, "80.0.0.3", icmp(0, 0, 1)), ip6(OWN6, "2001:db8:80::3", icmp6(129, 0, 1))),
}  # fmt: skip
for _name, (_quoted, _quoted6) in _QUOTED.items():
    scenario(
        f"redirect: {_name} quoted",
        "redirect",
        host(),
        Inject("r1", {"redirect": to_host(quoted=_quoted), "v6": to_host6(quoted=_quoted6)}),
        *probes(),
        *probes("80.0.0.3", "2001:db8:80::3"),
    )
scenario(
    "redirect: gateways that are refused",
    "redirect",
    host("ip route add 10.3.0.0/24 via 10.1.0.77"),
    Inject("r1", {
        gateway: to_host(gateway)
        for gateway in (OLD, OWN, "10.0.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.1", "10.1.0.255",
                        "127.0.0.1")
    }),
    *probes(),
    Inject("r1", {gateway: to_host(gateway) for gateway in ("11.0.0.1", "10.0.0.7", FAR)}),
    *probes(),
)  # fmt: skip
scenario(
    "redirect: targets that are refused",
    "redirect",
    host(),
    Inject("r1", {
        "global target": to_host6("2001:db8:1::8"),
        "group": to_host6(destination="ff02::1"),
        "from a global address": to_host6(source="2001:db8:1::9"),
        "from another router": to_host6(source="fe80::66"),
        "hop limit 64": to_host6(hops=64),
        "code 1": to_host6(code=1),
        "an option of no bytes": to_host6(options=bytes([2, 0])),
        "an option that is cut": to_host6(quoted=None, options=bytes([2, 9]) + bytes(6)),
        "short": ip6(OLD6, OWN6, icmp6(137, 0, 0, bytes(20)), hops=255),
        "a link-layer address": to_host6(options=bytes([2, 1, 2, 0, 0, 0, 0, 8])),
    }),
    *probes(),
)  # fmt: skip
scenario(
    "redirect: the destination is on the link",
    "redirect",
    host(),
    Inject("r1", {"redirect": to_host(FAR), "v6": to_host6(FAR6)}),
    *probes(),
    Inject("r1", {"then a gateway": to_host(source=FAR), "v6, then a gateway": to_host6()}),
    *probes(),
)
scenario(
    "redirect: codes",
    "redirect",
    host(),
    *(
        step
        for code in range(6)
        for step in (
            Inject("r1", {f"code {code}": to_host(
                quoted=ip4(OWN, f"80.0.1.{code}", icmp(0, 0, 1)), code=code)}),
            RouteGet((f"80.0.1.{code}",)),
        )
    ),
    Inject("r1", {"code 8": to_host(quoted=ip4(OWN, "80.0.1.8", icmp(0, 0, 1)), code=8)}),
    RouteGet(("80.0.1.8",)),
)  # fmt: skip
scenario(
    "redirect: from whoever and by whatever device",
    "redirect",
    host(),
    Inject("r1", {"from another": to_host(source="10.1.0.66")}),
    *probes(),
    Inject("r0", {"by the other device": to_host(), "v6, by the other device": to_host6()}),
    *probes(),
)
for _lines in (
    ("net.ipv4.conf.all.accept_redirects = 0", "net.ipv4.conf.r1.accept_redirects = 0",
     "net.ipv6.conf.r1.accept_redirects = 0"),
    ("net.ipv4.conf.all.accept_redirects = 0", "net.ipv6.conf.all.accept_redirects = 0"),
    ("net.ipv4.conf.r1.accept_redirects = 0",),
):  # fmt: skip
    for _forward in (False, True):
        scenario(
            f"redirect: {', '.join(line.split('conf.')[1] for line in _lines)}"
            f"{', forwards' if _forward else ''}",
            "redirect",
            host(*_lines, forward=_forward),
            Inject("r1", {"redirect": to_host(), "v6": to_host6()}),
            *probes(),
        )
scenario(
    "redirect: a router that believes them",
    "redirect",
    host("net.ipv4.conf.all.accept_redirects = 1", "net.ipv6.conf.r1.forwarding = 0", forward=True),
    Inject("r1", {"redirect": to_host(), "v6": to_host6()}),
    *probes(),
    Inject("r0", {"forwarded": ip4("10.0.0.2", FAR), "v6 forwarded": ip6("2001:db8::2", FAR6)}),
    Inject("r1", {"back": ip4("10.1.0.2", FAR), "v6 back": ip6("2001:db8:1::2", FAR6)}),
)
for _shared, _secure in ((0, 0), (0, 1), (1, 0)):
    scenario(
        f"redirect: shared_media {_shared}, secure_redirects {_secure}",
        "redirect",
        host(
            *(f"net.ipv4.conf.{name}.shared_media = {_shared}" for name in ("all", "r1")),
            *(f"net.ipv4.conf.{name}.secure_redirects = {_secure}" for name in ("all", "r1")),
            "ip addr add 10.2.0.1/24 dev r1",
            "ip addr add 10.1.0.129/25 dev r1",
            "ip route add default via 10.1.0.5 metric 5",
            "ip route add 90.0.0.0/8 via 10.1.0.4",
            "ip route add 91.0.0.0/8 via 10.0.0.4",
        ),
        *(
            step
            for k, gateway in enumerate(
                (
                    "10.1.0.8",
                    "10.1.0.5",
                    "10.1.0.4",
                    "10.0.0.4",
                    "10.2.0.4",
                    "11.0.0.1",
                    "10.1.0.130",
                )
            )
            for step in (
                Inject("r1", {gateway: to_host(gateway, ip4(OWN, f"80.0.2.{k}", icmp(0, 0, 1)))}),
                RouteGet((f"80.0.2.{k}",)),
            )
        ),
    )
scenario(
    "redirect: with path MTUs",
    "redirect",
    host("net.ipv4.icmp_ratemask = 0"),
    Inject("r1", {"needed": needed(1200), "too big": too_big(1300)}),
    Inject("r1", {"redirect": to_host(), "v6": to_host6()}),
    *probes(),
    Send(0, data(1400), (FAR, 53)),
    Send(1, data(1400), (FAR6, 53)),
    Inject("r1", {"needed again": needed(1100), "too big again": too_big(1290)}),
    *probes(),
    Send(0, data(1400), (FAR, 53)),
    Send(1, data(1400), (FAR6, 53)),
)
scenario(
    "redirect: several next hops",
    "redirect",
    host(
        "net.ipv4.fib_multipath_hash_seed = 4711",
        f"ip route replace 80.0.0.0/8 nexthop via {OLD} nexthop via 10.1.0.6",
        f"ip -6 route replace 2001:db8:80::/48 nexthop via {OLD6} dev r1 nexthop via fe80::6 dev r1",
    ),
    Inject("r1", {"redirect": to_host(), "other redirect": to_host(source="10.1.0.6"),
                  "v6": to_host6(), "v6 other": to_host6(source="fe80::6")}),
    *(Send(0, data(8), (FAR, port)) for port in range(50, 54)),
    *(Send(1, data(8), (FAR6, port)) for port in range(50, 54)),
)  # fmt: skip
scenario(
    "redirect: routes that go",
    "redirect",
    host(),
    Inject("r1", {"redirect": to_host(), "v6": to_host6()}),
    Run((f"ip route replace 80.0.0.0/8 via {OLD} mtu 1400",
         f"ip -6 route replace 2001:db8:80::/48 via {OLD6} dev r1 mtu 1400")),
    *probes(),
)  # fmt: skip
scenario(
    "redirect: rules, default routes, and what is not routed",
    "redirect",
    host(
        "ip route add default via 10.1.0.9 metric 5",
        f"ip -6 route add default via {OLD6} dev r1",
        "ip -6 route add unreachable 2001:db8:81::/48",
        "ip -6 rule add pref 100 to 2001:db8:90::/48 lookup 100",
        f"ip -6 route add 2001:db8:90::/48 via {NEW6} dev r1 table 100",
        "ip rule add pref 100 to 90.0.0.0/8 lookup 100",
        "ip route add 90.0.0.0/8 via 10.1.0.8 table 100",
    ),
    Inject("r1", {
        f"v6 {far}, from {source}": to_host6(
            "fe80::7", ip6(OWN6, far, icmp6(129, 0, 1)), destination=far, source=source)
        for far in ("2001:db8:99::1", "2001:db8:81::1", "2001:db8:90::1", "2001:db8:80::5", "2001:db8:1::5")
        for source in (OLD6, NEW6)
    }),
    Inject("r1", {
        f"{far}, from {source}": to_host("10.1.0.7", ip4(OWN, far, icmp(0, 0, 1)), source=source)
        for far in ("99.0.0.1", "90.0.0.1", "10.1.0.5")
        for source in (OLD, NEW)
    }),
    *(RouteGet((far,)) for far in ("99.0.0.1", "90.0.0.1", "10.1.0.5", "2001:db8:99::1",
                                   "2001:db8:81::1", "2001:db8:90::1", "2001:db8:80::5", "2001:db8:1::5")),
    ShowCache(4),
    ShowCache(6),
)  # fmt: skip
