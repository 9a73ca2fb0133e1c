"""Scenarios of sending: what a socket's datagram becomes, and which errno stops it."""

from __future__ import annotations

from ippath.verify.packets import data
from ippath.verify.scenario import RouteGet, Run, Send, Step, Wait
from tests.kernel.scenarios import ethernet, router, scenario

ANY4, ANY6 = "listen udp 0.0.0.0:2000", "listen udp [::]:2001"
BOUND4, BOUND6 = "listen udp 10.1.0.1:2002", "listen udp [2001:db8:1::1]:2003"
CONNECTED4 = "listen udp 0.0.0.0:2004 peer 10.1.0.2:9"
CONNECTED6 = "listen udp [::]:2005 peer [2001:db8:1::2]:9"
SOCKETS = (ANY4, ANY6, BOUND4, BOUND6, CONNECTED4, CONNECTED6)
FIRST4, FIRST6, SECOND4, SECOND6, PEER4, PEER6 = range(6)
THERE, THERE6 = ("10.1.0.2", 9), ("2001:db8:1::2", 9)


def _sizes(number: int, to: tuple[str, int]) -> tuple[Step, ...]:
    return tuple(Send(number, data(n), to) for n in (0, 1, 1452, 1453, 1472, 1473, 4000, 20001))


scenario("send: sizes", "send", router(*SOCKETS), *_sizes(FIRST4, THERE), *_sizes(FIRST6, THERE6))
scenario(
    "send: the largest, and more",
    "send",
    router(*SOCKETS),
    *(Send(FIRST4, data(n), THERE) for n in (65507, 65508, 65535)),
    *(Send(FIRST6, data(n), THERE6) for n in (65527, 65528)),
)
scenario(
    "send: sources",
    "send",
    router("ip addr add 10.1.0.9/24 dev r1", "ip addr add 2001:db8:1::9/64 dev r1", *SOCKETS),
    *(Send(n, b"payload8", THERE) for n in (FIRST4, SECOND4, PEER4)),
    *(Send(n, b"payload8", THERE6) for n in (FIRST6, SECOND6, PEER6)),
    Send(PEER4, b"payload8"),
    Send(PEER6, b"payload8"),
    Send(FIRST4, b"payload8"),
    Send(FIRST6, b"payload8"),
    Send(FIRST4, b"payload8", THERE, source="10.1.0.9"),
    Send(FIRST4, b"payload8", THERE, source="10.0.0.1"),
    Send(FIRST4, b"payload8", THERE, source="10.9.0.1"),
    Send(FIRST6, b"payload8", THERE6, source="2001:db8:1::9"),
    Send(FIRST6, b"payload8", THERE6, source="2001:db8:9::1"),
    Send(FIRST6, b"mapped", ("::ffff:10.1.0.2", 9)),
    Send(SECOND4, b"other network", ("10.0.0.2", 9)),
    Send(SECOND6, b"other network", ("2001:db8::2", 9)),
)
scenario(
    "send: hop limit and class",
    "send",
    router(*SOCKETS, "ip route add 77.0.0.0/8 via 10.1.0.2 hoplimit 9",
           "ip -6 route add 2001:db8:77::/48 via 2001:db8:1::2 hoplimit 9"),
    *(Send(FIRST4, b"payload8", to, ttl=ttl, tos=tos)
      for to in (THERE, ("77.0.0.1", 9)) for ttl, tos in ((None, None), (1, None), (255, 0x10), (None, 0xB9))),
    *(Send(FIRST6, b"payload8", to, ttl=ttl, tos=tos)
      for to in (THERE6, ("2001:db8:77::1", 9)) for ttl, tos in ((None, None), (1, None), (255, 0x10), (None, 0xB9))),
)  # fmt: skip
scenario(
    "send: what stops it",
    "send",
    router(
        *SOCKETS,
        "ip route add unreachable 77.0.1.0/24",
        "ip route add prohibit 77.0.2.0/24",
        "ip route add blackhole 77.0.3.0/24",
        "ip -6 route add unreachable 2001:db8:77:1::/64",
        "ip -6 route add prohibit 2001:db8:77:2::/64",
        "ip -6 route add blackhole 2001:db8:77:3::/64",
    ),
    *(Send(FIRST4, b"payload8", (to, 9)) for to in ("99.0.0.1", "77.0.1.1", "77.0.2.1", "77.0.3.1", "10.0.0.255", "255.255.255.255", "0.1.2.3")),
    *(Send(FIRST6, b"payload8", (to, 9)) for to in ("2001:db9::1", "2001:db8:77:1::1", "2001:db8:77:2::1", "2001:db8:77:3::1")),
    Send(FIRST4, b"payload8", ("10.1.0.2", 0)),
    Send(FIRST6, b"payload8", ("2001:db8:1::2", 0)),
)  # fmt: skip
scenario(
    "send: by a device",
    "send",
    router(*SOCKETS, "listen udp 0.0.0.0:2010 dev r0", "listen udp [::]:2011 dev r0"),
    Send(FIRST4, b"payload8", THERE, device="r0"),
    Send(FIRST4, b"payload8", ("99.0.0.1", 9), device="r0"),
    Send(FIRST6, b"payload8", THERE6, device="r0"),
    Send(FIRST6, b"payload8", ("2001:db9::1", 9), device="r0"),
    Send(6, b"payload8", THERE),
    Send(6, b"payload8", ("10.0.0.2", 9)),
    Send(7, b"payload8", ("2001:db8::2", 9)),
)
scenario(
    "send: to groups",
    "send",
    router(*SOCKETS, "ip route add 239.0.0.0/8 dev r1"),
    Send(FIRST4, b"payload8", ("239.1.1.1", 9)),
    Send(FIRST4, b"payload8", ("224.0.0.5", 9), device="r0"),
    Send(FIRST4, b"payload8", ("239.1.1.1", 9), device="r0", ttl=7),
    Send(FIRST6, b"payload8", ("ff05::9", 9), device="r0"),
    Send(FIRST6, b"payload8", ("ff05::9", 9), device="r1", ttl=7),
)
scenario(
    "send: on Ethernet",
    "send",
    ethernet(*SOCKETS),
    Send(FIRST4, b"payload8", THERE),
    Send(FIRST6, b"payload8", THERE6),
    Send(FIRST4, b"payload8", ("239.1.1.1", 9), device="r0"),
    Send(FIRST6, b"payload8", ("ff05::9", 9), device="r0"),
    Send(FIRST4, data(2000), THERE),
    Send(FIRST6, data(2000), THERE6),
)
scenario(
    "send: after changes of the host",
    "send",
    router(*SOCKETS),
    Send(FIRST4, b"payload8", ("77.0.0.1", 9)),
    Run(("ip route add 77.0.0.0/8 via 10.1.0.2 mtu 600", "ip -6 route add 2001:db8:77::/48 via 2001:db8:1::2 mtu 1280")),
    Send(FIRST4, data(1000), ("77.0.0.1", 9)),
    Send(FIRST6, data(1400), ("2001:db8:77::1", 9)),
    Wait(0.1),
    Run(("ip route del 77.0.0.0/8", "net.ipv4.ip_default_ttl = 33")),
    Send(FIRST4, b"payload8", ("77.0.0.1", 9)),
    Send(FIRST4, b"payload8", THERE),
)  # fmt: skip
scenario(
    "route get between packets",
    "send",
    router(),
    RouteGet(("10.1.0.2",)),
    RouteGet(("77.0.0.1",)),
    RouteGet(("77.0.0.1", "from", "10.0.0.2", "iif", "r0")),
    Run(("ip route add 77.0.0.0/8 via 10.1.0.2", "ip route add prohibit 78.0.0.0/8")),
    RouteGet(("77.0.0.1",)),
    RouteGet(("77.0.0.1", "from", "10.0.0.2", "iif", "r0")),
    RouteGet(("78.0.0.1",)),
    RouteGet(("2001:db8:1::2",)),
    RouteGet(("2001:db9::1",)),
)

# --- what a host sends to itself comes back in ---------------------------------------------------------

_OWN4 = ("127.0.0.1", "127.9.9.9", "10.0.0.1", "10.1.0.1", "0.0.0.0")
_OWN6 = ("::1", "2001:db8::1", "2001:db8:1::1", "::")
scenario(
    "send: to itself",
    "send",
    router(*SOCKETS),
    *(Send(FIRST4, b"payload8", (to, 2000)) for to in _OWN4),
    *(Send(FIRST6, b"payload8", (to, 2001)) for to in _OWN6),
    *(Send(FIRST6, b"payload8", (f"::ffff:{to}", 2000)) for to in _OWN4[:4]),
    Send(FIRST4, b"payload8", ("127.0.0.1", 2001)),
    Send(SECOND4, b"payload8", ("10.0.0.1", 2002)),
    Send(SECOND4, b"payload8", ("10.1.0.1", 2002)),
    Send(SECOND6, b"payload8", ("2001:db8:1::1", 2003)),
)
scenario(
    "send: to itself, where nobody listens",
    "send",
    router(*SOCKETS, "net.ipv4.icmp_ratemask = 0", "net.ipv6.icmp.ratelimit = 0"),
    *(Send(FIRST4, b"payload8", (to, 9)) for to in _OWN4),
    *(Send(FIRST6, b"payload8", (to, 9)) for to in _OWN6),
    Send(SECOND4, data(1200), ("10.0.0.1", 9)),
    Send(SECOND6, data(1400), ("2001:db8::1", 9)),
)
scenario(
    "send: to itself, of any size",
    "send",
    router(*SOCKETS),
    *(Send(FIRST4, data(n), ("127.0.0.1", 2000)) for n in (0, 1, 4000, 65507)),
    *(Send(FIRST6, data(n), ("::1", 2001)) for n in (0, 1, 4000, 65488, 65489, 65527)),
)
scenario(
    "send: to itself, sockets with a device",
    "send",
    router(
        ANY4, ANY6, "listen udp 0.0.0.0:2020 dev r0", "listen udp 0.0.0.0:2021 dev r1",
        "listen udp 0.0.0.0:2022 dev lo", "listen udp [::]:2020 dev r0", "listen udp [::]:2021 dev r1",
        "listen udp [::]:2022 dev lo",
    ),
    *(Send(FIRST4, b"payload8", (to, port))
      for to in ("10.0.0.1", "10.1.0.1", "127.0.0.1") for port in (2020, 2021, 2022)),
    *(Send(FIRST6, b"payload8", (to, port))
      for to in ("2001:db8::1", "2001:db8:1::1", "::1") for port in (2020, 2021, 2022)),
)  # fmt: skip
scenario(
    "send: to groups that it joined",
    "send",
    ethernet(*SOCKETS, "listen udp 0.0.0.0:2030"),
    Send(FIRST4, b"payload8", ("224.0.0.1", 2030), device="r1"),
    Send(FIRST4, b"payload8", ("239.9.9.9", 2030), device="r1"),
    Send(FIRST4, data(3000), ("224.0.0.1", 2030), device="r1"),
    Send(FIRST6, b"payload8", ("ff02::1", 2001), device="r1"),
    Send(FIRST6, data(3000), ("ff02::1", 2001), device="r1"),
    Send(FIRST6, b"payload8", ("ff02::77", 2001), device="r1"),
    Send(FIRST6, b"payload8", ("ff02::1", 2001), ttl=0, device="r1"),
)
scenario(
    "send: to oneself by routes that say otherwise",
    "send",
    router(*SOCKETS, "ip route add local 94.0.0.0/8 dev lo", "ip route add 88.0.0.0/8 dev lo",
           "ip -6 route add local 2001:db8:94::/48 dev lo"),
    Send(FIRST4, b"payload8", ("94.1.2.3", 2000)),
    Send(FIRST4, b"payload8", ("88.1.2.3", 2000)),
    Send(FIRST6, b"payload8", ("2001:db8:94::1", 2001)),
)  # fmt: skip
