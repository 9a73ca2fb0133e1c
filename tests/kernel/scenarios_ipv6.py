"""IPv6 scenarios on raw IP devices: headers, extension headers, forwarding, routes, ICMPv6."""

from __future__ import annotations

from ippath.verify.packets import (
    data,
    destination_options,
    echo6,
    fragment_header,
    hop_by_hop,
    icmp6,
    ip4,
    ip6,
    routing,
    tcp,
    udp,
)
from ippath.verify.scenario import Burst, Inject, Run, Together, Wait
from tests.kernel.scenarios import router, scenario

A, B = "2001:db8:0::", "2001:db8:1::"
THERE, HERE = (A + "2", B + "2"), (A + "2", A + "1")
NOWHERE = "2001:db8:99::1"
_LISTEN = "listen udp [::]:2000"


def senders(packets: dict[str, tuple[str, str]], **fields: int) -> dict[str, bytes]:
    """Packets by label from (source, destination)."""
    return {label: ip6(*pair, **fields) for label, pair in packets.items()}  # type: ignore[arg-type]


scenario(
    "v6 header errors",
    "ipv6",
    router(_LISTEN),
    {
        "plain": ip6(*THERE),
        "39 bytes": ip6(*THERE, cut=39),
        "1 byte": ip6(*THERE, cut=1),
        "40 bytes of more": ip6(*THERE, cut=40),
        "length 100 of 16": ip6(*THERE, length=100),
        "length 17 of 16": ip6(*THERE, length=17),
        "length 0": ip6(*THERE, length=0),
        "length 0, local": ip6(*HERE, length=0),
        "length 12, local": ip6(*HERE, length=12),
        "length 8": ip6(*THERE, length=8),
        "padding": ip6(*THERE, trailer=data(10)),
        "padding, local": ip6(*HERE, trailer=data(10)),
        "no payload": ip6(*THERE, b""),
        "next header 59": ip6(*THERE, data(8), last_header=59),
        "hop limit 255": ip6(*THERE, hops=255),
        "hop limit 2": ip6(*THERE, hops=2),
        "hop limit 0, local": ip6(*HERE, hops=0),
        "label and class": ip6(*THERE, label=0xABCDE, traffic_class=0xB8),
    },
)
scenario(
    "v6 ECN counters",
    "ipv6",
    router(_LISTEN),
    {f"class {c:#x}": ip6(*THERE, traffic_class=c) for c in (0, 1, 2, 3, 0xFF)}
    | {"CE, bad source": ip6("ff02::5", THERE[1], traffic_class=3)},
)
_ODD = {
    "source ::1": ("::1", B + "2"),
    "destination ::1": (A + "2", "::1"),
    "source ::": ("::", B + "2"),
    "source ::, local": ("::", A + "1"),
    "source ::, back out": ("::", A + "3"),
    "destination ::": (A + "2", "::"),
    "source multicast": ("ff02::5", B + "2"),
    "source multicast, local": ("ff0e::5", A + "1"),
    "destination ff01::1": (A + "2", "ff01::1"),
    "destination ff00::1": (A + "2", "ff00::1"),
    "destination ff02::1": (A + "2", "ff02::1"),
    "destination ff02::2": (A + "2", "ff02::2"),
    "destination ff05::2": (A + "2", "ff05::2"),
    "destination ff02::99, not joined": (A + "2", "ff02::99"),
    "destination ff05::99, joined": (A + "2", "ff05::99"),
    "destination ff05::98, not joined": (A + "2", "ff05::98"),
    "destination ff0e::98, not joined": (A + "2", "ff0e::98"),
    "destination ff11::1": (A + "2", "ff11::1"),
    "destination ff03::1": (A + "2", "ff03::1"),
    "solicited node": (A + "2", "ff02::1:ff00:1"),
    "source own": (A + "1", B + "2"),
    "source own, local": (B + "1", A + "1"),
    "source link-local": ("fe80::20", B + "2"),
    "source link-local, local": ("fe80::20", A + "1"),
    "source link-local, back out": ("fe80::20", A + "3"),
    "source link-local to all nodes": ("fe80::20", "ff02::1"),
    "destination link-local": (A + "2", "fe80::77"),
    "destination own link-local": (A + "2", "fe80::1"),
    "both link-local": ("fe80::20", "fe80::1"),
    "both link-local, another": ("fe80::20", "fe80::21"),
    "source unroutable": (NOWHERE, B + "2"),
    "source of the other side": (B + "77", B + "2"),
    "source is destination": (B + "2", B + "2"),
    "source mapped": ("::ffff:10.0.0.2", B + "2"),
    "destination mapped": (A + "2", "::ffff:10.1.0.2"),
    "source unique local": ("fc00::1", B + "2"),
    "subnet-router anycast": (A + "2", A),
    "other subnet-router anycast": (A + "2", B),
    "source anycast": (A, B + "2"),
}
_LINK_LOCAL = ("ip addr add fe80::1/64 dev r0", "ip addr add fe80::1/64 dev r1")
for _name, _lines, _forward in (
    ("defaults", (), True),
    ("not forwarding", (), False),
    ("a default route", (f"ip route add default via {B}2",), True),
    ("rules", ("ip -6 rule add pref 100 nop",), True),
):
    scenario(
        f"v6 addresses, {_name}",
        "ipv6",
        router(_LISTEN, "join ff05::99 dev r0", *_LINK_LOCAL, *_lines, forward=_forward),
        senders(_ODD),
    )
scenario(
    "v6 forwarding per device",
    "ipv6",
    router("net.ipv6.conf.all.forwarding = 0", "net.ipv6.conf.r0.forwarding = 1"),
    {"r0 alone": ip6(*THERE), "no route": ip6(A + "2", NOWHERE)},
)
scenario(
    "v6 force_forwarding",
    "ipv6",
    router("net.ipv6.conf.all.forwarding = 0", "net.ipv6.conf.r0.force_forwarding = 1"),
    {"r0 alone": ip6(*THERE), "no route": ip6(A + "2", NOWHERE)},
    Inject("r1", {"from r1": ip6(B + "2", A + "2")}),
)
scenario(
    "v6 disabled on a device",
    "ipv6",
    router("net.ipv6.conf.r0.disable_ipv6 = 1"),
    {"through": ip6(*THERE), "v4 through": ip4("10.0.0.2", "10.1.0.2")},
)

# ICMPv6 errors

scenario(
    "v6 hop limit",
    "ipv6",
    router(),
    {
        "1": ip6(*THERE, hops=1),
        "0": ip6(*THERE, hops=0),
        "1 with class and label": ip6(A + "3", B + "2", hops=1, traffic_class=0xFF, label=0x12345),
        "1, ICMPv6 error": ip6(A + "4", B + "2", icmp6(1, 0, 0, data(48)), hops=1),
        "1, echo": ip6(A + "4", B + "2", echo6(), hops=1),
        "1, redirect": ip6(A + "4", B + "2", icmp6(137, 0, 0, data(32)), hops=1),
        "1, ICMPv6 without a type": ip6(A + "4", B + "2", b"", last_header=58, hops=1),
        "1, ICMPv6 of one byte": ip6(A + "4", B + "2", b"\x80", last_header=58, hops=1),
        "1, error behind an option header": ip6(
            A + "4",
            B + "2",
            icmp6(1, 0, 0, data(48)),
            hops=1,
            extensions=(destination_options(b""),),
        ),
        "1, first fragment": ip6(A + "5", B + "2", hops=1, extensions=(fragment_header(0, True),)),
        "1, later fragment": ip6(A + "5", B + "2", hops=1, extensions=(fragment_header(4, True),)),
        "1, later fragment of ICMPv6": ip6(
            A + "5",
            B + "2",
            icmp6(1, 0, 0, data(48)),
            hops=1,
            extensions=(fragment_header(4, True),),
        ),
        "1, from anycast": ip6(A, B + "2", hops=1),
        "1, from ::": ip6("::", B + "2", hops=1),
        "1, from unroutable": ip6(NOWHERE, B + "2", hops=1),
        "1, no route": ip6(A + "6", NOWHERE, hops=1),
        "1, TCP": ip6(A + "7", B + "2", tcp(), hops=1),
    },
)
scenario(
    "v6 quotation length",
    "ipv6",
    router(),
    {
        f"{n} bytes of payload": ip6(f"{A}{k}", B + "2", udp(payload=data(n)), hops=1)
        for k, n in enumerate((0, 1, 1183, 1184, 1185, 1400), 2)
    },
)
scenario(
    "v6 hop limit burst of one source",
    "ipv6",
    router(),
    Burst("r0", {f"{k}": ip6(*THERE, hops=1, label=k) for k in range(12)}),
    Burst("r0", {f"no route {k}": ip6(A + "9", NOWHERE, label=k) for k in range(12)}),
)
scenario(
    "v6 ICMPv6 rate of 1 s",
    "ipv6",
    router("net.ipv6.icmp.ratelimit = 1000"),
    Burst("r0", {f"{k}": ip6(*THERE, hops=1, label=k) for k in range(12)}),
)
scenario(
    "v6 tokens come back",
    "ipv6",
    router(),
    Burst("r0", {f"first {k}": ip6(*THERE, hops=1, label=k) for k in range(8)}),
    Wait(0.25),
    Burst("r0", {f"second {k}": ip6(*THERE, hops=1, label=k) for k in range(6)}),
)
scenario(
    "v6 source address of errors",
    "ipv6",
    router(
        f"ip route add 2001:db8:66::/48 via {B}3",
        "ip addr add 2001:db8:0::9/64 dev r0",
        "ip addr add 2001:db8:66::9/128 dev lo",
    ),
    {
        "answer leaves r1": ip6("2001:db8:66::1", B + "2", hops=1),
        "to the second address": ip6(A + "2", A + "9", udp(dport=9)),
        "to r1's address": ip6(A + "2", B + "1", udp(dport=9)),
        "to lo's address": ip6(A + "2", "2001:db8:66::9", udp(dport=9)),
        "from a link-local": ip6("fe80::20", A + "1", udp(dport=9)),
    },
)
scenario(
    "v6 local delivery",
    "ipv6",
    router(_LISTEN),
    {
        "open port": ip6(*HERE),
        "closed port": ip6(*HERE, udp(dport=9)),
        "next header 200": ip6(*HERE, data(8), last_header=200),
        "next header 59": ip6(*HERE, data(8), last_header=59),
        "next header 4": ip6(*HERE, data(8), last_header=4),
        "next header 255": ip6(A + "3", A + "1", data(8), last_header=255),
        "200 behind options": ip6(
            A + "3", A + "1", data(8), last_header=200, extensions=(destination_options(b""),)
        ),
        "200 to all nodes": ip6(A + "4", "ff02::1", data(8), last_header=200),
        "closed port to anycast": ip6(A + "4", A, udp(dport=9)),
        "echo": ip6(*HERE, echo6()),
        "echo, class 0xff": ip6(*HERE, echo6(), traffic_class=0xFF),
        "echo, label": ip6(*HERE, echo6(), label=0x12345),
        "echo, code 5": ip6(*HERE, icmp6(128, 5, 7, b"x")),
        "echo, bad checksum": ip6(*HERE, echo6(damage=1)),
        "echo, bad checksum, long": ip6(*HERE, echo6(body=data(400), damage=1)),
        "echo, 1400 bytes": ip6(*HERE, echo6(body=data(1400))),
        "echo, hop limit 1": ip6(*HERE, echo6(), hops=1),
        "echo, 4 bytes": ip6(*HERE, b"\x80\0\0\0", last_header=58),
        "echo to anycast": ip6(A + "2", A, echo6()),
        "echo to all nodes": ip6(A + "2", "ff02::1", echo6()),
        "echo from ::": ip6("::", A + "1", echo6()),
        "echo from unroutable": ip6(NOWHERE, A + "1", echo6()),
        "echo reply": ip6(*HERE, icmp6(129, 0, 7, b"x")),
        "ICMPv6 type 200": ip6(*HERE, icmp6(200, 0, 7, b"x")),
        "ICMPv6 type 100": ip6(*HERE, icmp6(100, 0, 7, b"x")),
        "unreachable, no socket": ip6(*HERE, icmp6(1, 4, 0, ip6(A + "1", A + "2"))),
        "unreachable, short quotation": ip6(*HERE, icmp6(1, 4, 0, data(20))),
    },
)
scenario(
    "v6 echo ignored",
    "ipv6",
    router(
        "net.ipv6.icmp.echo_ignore_multicast = 1",
        "net.ipv6.icmp.echo_ignore_anycast = 1",
    ),
    {
        "unicast": ip6(*HERE, echo6()),
        "multicast": ip6(A + "2", "ff02::1", echo6()),
        "anycast": ip6(A + "2", A, echo6()),
    },
)

# extension headers


def _hbh(options: bytes, there: tuple[str, str] = THERE, **fields: object) -> bytes:
    return ip6(*there, extensions=(hop_by_hop(options),), **fields)  # type: ignore[arg-type]


_OPTIONS = {
    "padding only": b"",
    "router alert": b"\x05\x02\x00\x00",
    "router alert of 3": b"\x05\x03\x00\x00\x00",
    "unknown 0x1e": b"\x1e\x02\xaa\xbb",
    "unknown 0x5e": b"\x5e\x02\xaa\xbb",
    "unknown 0x9e": b"\x9e\x02\xaa\xbb",
    "unknown 0xde": b"\xde\x02\xaa\xbb",
    "unknown 0x9e behind padding": b"\x01\x02\x00\x00\x9e\x02\xaa\xbb",
    "PadN not zero": b"\x01\x02\x00\x01",
    "PadN of 8": b"\x01\x06" + bytes(6) + b"\x1e\x00",
    "8 bytes of padding": b"\x01\x04" + bytes(4) + b"\x00\x00" + b"\x1e\x00\x1e\x00",
    "7 bytes of padding": b"\x01\x05" + bytes(5) + b"\x1e\x03abc",
    "option too long": b"\x1e\x20\xaa\xbb",
    "last byte an option": b"\x1e\x03abc\x1e",
    "8 options": b"\x1e\x00" * 7 + b"\x1e\x02ab",
    "9 options": b"\x1e\x00" * 9,
    "jumbo of 100": b"\xc2\x04\x00\x00\x00\x64",
    "jumbo of 70000": b"\xc2\x04\x00\x01\x11\x70",
    "jumbo of wrong length": b"\xc2\x02\x00\x00",
    "home address": b"\xc9\x10" + bytes(16),
    "tunnel limit": b"\x04\x01\x05",
}
scenario("v6 hop-by-hop options", "ipv6ext", router(), {k: _hbh(o) for k, o in _OPTIONS.items()})
scenario(
    "v6 hop-by-hop options, local",
    "ipv6ext",
    router(_LISTEN),
    {k: _hbh(o, HERE) for k, o in _OPTIONS.items()},
)
scenario(
    "v6 destination options",
    "ipv6ext",
    router(_LISTEN),
    {
        k: ip6(f"{A}{n + 16:x}", A + "1", extensions=(destination_options(o),))
        for n, (k, o) in enumerate(_OPTIONS.items())
    },
)
scenario(
    "v6 options to a group",
    "ipv6ext",
    router(_LISTEN),
    {
        k: ip6(f"{A}{n + 16:x}", "ff02::1", extensions=(kind(o),))
        for n, (k, kind, o) in enumerate(
            (
                ("hop-by-hop 0x9e", hop_by_hop, b"\x9e\x02\xaa\xbb"),
                ("hop-by-hop 0xde", hop_by_hop, b"\xde\x02\xaa\xbb"),
                ("hop-by-hop 0x5e", hop_by_hop, b"\x5e\x02\xaa\xbb"),
                ("destination 0x9e", destination_options, b"\x9e\x02\xaa\xbb"),
                ("destination 0xde", destination_options, b"\xde\x02\xaa\xbb"),
            )
        )
    },
)
scenario(
    "v6 extension headers",
    "ipv6ext",
    router(_LISTEN),
    {
        "destination options through": ip6(*THERE, extensions=(destination_options(b"\x9e\x00"),)),
        "hop-by-hop cut": ip6(*THERE, b"\x11\x04" + bytes(6), last_header=0),
        "hop-by-hop of 7 bytes": ip6(*THERE, bytes(7), last_header=0),
        "hop-by-hop of no bytes": ip6(*THERE, b"", last_header=0),
        "hop-by-hop with length 0": ip6(*THERE, extensions=(hop_by_hop(b""),), length=0),
        "hop-by-hop second": ip6(*HERE, extensions=(destination_options(b""), hop_by_hop(b""))),
        "two hop-by-hop": ip6(*THERE, extensions=(hop_by_hop(b""), hop_by_hop(b""))),
        "two hop-by-hop, local": ip6(
            A + "3", A + "1", extensions=(hop_by_hop(b""), hop_by_hop(b""))
        ),
        "many destination options": ip6(*HERE, extensions=(destination_options(b""),) * 7),
        "very many destination options": ip6(*HERE, extensions=(destination_options(b""),) * 12),
        "destination options cut": ip6(*HERE, b"\x11\x04" + bytes(6), last_header=60),
        "destination options of 7 bytes": ip6(*HERE, bytes(7), last_header=60),
        "next header 59 behind": ip6(
            *HERE, b"", last_header=59, extensions=(destination_options(b""),)
        ),
        "bad checksum behind": ip6(*HERE, udp(damage=1), extensions=(destination_options(b""),)),
        "closed port behind": ip6(
            A + "4", A + "1", udp(dport=9), extensions=(hop_by_hop(b""), destination_options(b""))
        ),
        "router alert through": _hbh(b"\x05\x02\x00\x00"),
        "AH": ip6(A + "5", A + "1", bytes([17, 4]) + bytes(22), last_header=51),
        "ESP": ip6(A + "6", A + "1", bytes(24), last_header=50),
    },
)
scenario(
    "v6 routing headers",
    "ipv6ext",
    router(_LISTEN),
    {
        k: ip6(f"{A}{n + 16:x}", dst, extensions=(r,))
        for n, (k, dst, r) in enumerate(
            (
                ("type 0, 1 left", A + "1", routing(0, 1, (B + "2",))),
                ("type 0, 0 left", A + "1", routing(0, 0, (B + "2",))),
                ("type 1, 1 left", A + "1", routing(1, 1, (B + "2",))),
                ("type 2, 1 left", A + "1", routing(2, 1, (B + "2",))),
                ("type 2, 0 left", A + "1", routing(2, 0, (B + "2",))),
                ("type 3, 1 left", A + "1", routing(3, 1, (B + "2",))),
                ("type 3, 0 left", A + "1", routing(3, 0, (B + "2",))),
                ("type 4, 1 left", A + "1", routing(4, 1, (B + "2",))),
                ("type 4, 0 left", A + "1", routing(4, 0, (B + "2",))),
                ("type 253, 1 left", A + "1", routing(253, 1, ())),
                ("type 253, 0 left", A + "1", routing(253, 0, ())),
                ("through", B + "2", routing(0, 1, (B + "3",))),
                ("to all nodes", "ff02::1", routing(0, 0, (B + "3",))),
            )
        )
    },
)
scenario(
    "v6 fragments through",
    "ipv6ext",
    router(),
    {
        "first": ip6(
            *THERE, udp(payload=data(40)), extensions=(fragment_header(0, True),), part=(0, 24)
        ),
        "last": ip6(
            *THERE, udp(payload=data(40)), extensions=(fragment_header(3, False),), part=(24, 48)
        ),
        "atomic": ip6(*THERE, extensions=(fragment_header(0, False),)),
        "header cut": ip6(*THERE, data(4), last_header=44),
    },
)
scenario(
    "v6 atomic fragment, local",
    "ipv6ext",
    router(_LISTEN),
    {
        "open port": ip6(*HERE, extensions=(fragment_header(0, False),)),
        "closed port": ip6(*HERE, udp(dport=9), extensions=(fragment_header(0, False),)),
        "echo": ip6(*HERE, echo6(), extensions=(fragment_header(0, False),)),
        "next header 200": ip6(
            A + "3", A + "1", data(8), last_header=200, extensions=(fragment_header(0, False),)
        ),
        "header cut": ip6(A + "4", A + "1", data(4), last_header=44),
    },
)

# MTU

scenario(
    "v6 to a smaller MTU",
    "ipv6",
    router("ip link set r1 mtu 1400"),
    {
        "1448 bytes": ip6(*THERE, udp(payload=data(1400))),
        "1400 bytes": ip6(*THERE, udp(payload=data(1352))),
        "1401 bytes": ip6(A + "3", B + "2", udp(payload=data(1353))),
        "1448 bytes, ICMPv6 error": ip6(A + "3", B + "2", icmp6(1, 0, 0, data(1400))),
        "1448 bytes from a link-local": ip6("fe80::20", B + "2", udp(payload=data(1400))),
        "fragment": ip6(
            A + "4", B + "2", data(1400), last_header=17, extensions=(fragment_header(4, True),)
        ),
        "padding does not count": ip6(*THERE, udp(payload=data(1352)), trailer=data(64)),
    },
)
scenario(
    "v6 route MTU",
    "ipv6",
    router(
        f"ip route add 2001:db8:66::/48 via {B}3 mtu 1300",
        f"ip route add 2001:db8:67::/48 via {B}3 mtu lock 1300",
        f"ip route add 2001:db8:68::/48 via {B}3 hoplimit 5",
    ),
    {
        "unlocked": ip6(A + "2", "2001:db8:66::1", udp(payload=data(1400))),
        "locked": ip6(A + "3", "2001:db8:67::1", udp(payload=data(1400))),
        "1300 bytes": ip6(A + "2", "2001:db8:66::1", udp(payload=data(1252))),
        "route's hop limit": ip6("2001:db8:68::1", A + "1", echo6()),
        "route's MTU in the answer": ip6("2001:db8:66::1", A + "1", echo6(body=data(1300))),
    },
)

# routes and rules

_TYPES = (
    "ip -6 route add unreachable 2001:db8:98::/48",
    "ip -6 route add prohibit 2001:db8:97::/48",
    "ip -6 route add blackhole 2001:db8:96::/48",
    "ip -6 route add throw 2001:db8:95::/48",
    "ip -6 route add local 2001:db8:94::/48 dev lo",
    "ip -6 route add 2001:db8:93::/48 dev lo",
    "ip -6 route add 2001:db8:92::/48 dev r1",
    f"ip -6 route add 2001:db8:91::/48 via {B}3",
    "ip -6 route add anycast 2001:db8:90::/48 dev r1",
)
_TO_TYPES = {
    f"to {n}": ip6(f"{A}{n}", f"2001:db8:{n}::1") for n in (99, 98, 97, 96, 95, 94, 93, 92, 91, 90)
}
scenario("v6 route types", "ipv6routes", router(_LISTEN, *_TYPES), _TO_TYPES)
scenario(
    "v6 route types, not forwarding",
    "ipv6routes",
    router(_LISTEN, *_TYPES, forward=False),
    _TO_TYPES,
)
scenario(
    "v6 longest prefix",
    "ipv6routes",
    router(
        f"ip -6 route add 2001:db8:70::/44 via {B}2",
        "ip -6 route add unreachable 2001:db8:70::/48",
        "ip -6 route add 2001:db8:70:1::/64 dev r0",
        "ip -6 route add prohibit 2001:db8:70:1::5/128",
        f"ip -6 route add default via {B}4",
        "ip -6 route add blackhole 3000::/4",
    ),
    {
        d: ip6(f"{A}{k}", d)
        for k, d in enumerate(
            (
                "2001:db8:71::1", "2001:db8:70::1", "2001:db8:70:1::1", "2001:db8:70:1::5",
                "2001:db9::1", "3001::1", "4001::1",
            ),
            20,
        )
    },
)  # fmt: skip
scenario(
    "v6 metrics",
    "ipv6routes",
    router(
        f"ip -6 route add 2001:db8:70::/48 via {B}2 metric 10",
        "ip -6 route add 2001:db8:70::/48 dev r0 metric 5",
        f"ip -6 route add 2001:db8:71::/48 via {B}2 metric 10",
        "ip -6 route add unreachable 2001:db8:71::/48 metric 5",
        f"ip -6 route add 2001:db8:72::/48 via {B}2",
        f"ip -6 route replace 2001:db8:72::/48 via {A}3",
        f"ip -6 route add 2001:db8:73::/48 via {B}2 pref low metric 7",
        f"ip -6 route append 2001:db8:73::/48 via {A}3 pref high metric 7",
        "net.ipv4.fib_multipath_hash_seed = 1",
    ),
    {f"to {n}": ip6(f"{A}{n}", f"2001:db8:{n}::1") for n in (70, 71, 72, 73)},
)
_SAME = (
    "ip -6 route add 2001:db8:a0::/48 dev r0 metric 7",
    "ip -6 route append 2001:db8:a0::/48 dev r1 metric 7",
)
scenario(
    "v6 device routes of equal metric",
    "ipv6routes",
    router(*_SAME),
    Inject("r0", {"from r0": ip6(A + "2", "2001:db8:a0::1")}),
    Inject("r1", {"from r1": ip6(B + "2", "2001:db8:a0::1")}),
)
scenario(
    "v6 gateway routes of equal metric on one device",
    "ipv6routes",
    router(
        f"ip -6 route add 2001:db8:a1::/48 via {B}2 metric 7",
        f"ip -6 route append 2001:db8:a1::/48 via {B}3 metric 7",
    ),
    {f"{k}": ip6(f"{A}{k + 2}", "2001:db8:a1::1") for k in range(4)},
)
scenario(
    "v6 source-specific routes",
    "ipv6routes",
    router(
        f"ip -6 route add 2001:db8:60::/48 via {B}2",
        f"ip -6 route add 2001:db8:60::/48 from {A}/64 dev r0",
    ),
    {
        "source in": ip6(A + "2", "2001:db8:60::1"),
        "other source": ip6("2001:db8:5::1", "2001:db8:60::1"),
        "other source, other destination": ip6("2001:db8:5::1", B + "2"),
    },
)
scenario(
    "v6 source-specific routes over a shorter prefix",
    "ipv6routes",
    router(
        f"ip -6 route add 2001:db8:60::/44 via {B}2",
        "ip -6 route add unreachable 2001:db8:60::/48",
        f"ip -6 route add 2001:db8:60::/48 from {A}/64 dev r0",
        f"ip -6 route add prohibit 2001:db8:60::/48 from {A}/96",
    ),
    {
        "source in /96": ip6(A + "2", "2001:db8:60::1"),
        "source in /64": ip6("2001:db8:0:0:1::1", "2001:db8:60::1"),
        "other source": ip6("2001:db8:5::1", "2001:db8:60::1"),
    },
)
scenario(
    "v6 source-specific default route",
    "ipv6routes",
    router(
        f"ip -6 route add default via {B}2",
        f"ip -6 route add default from {A}/64 dev r0",
    ),
    {"source in": ip6(A + "2", NOWHERE), "other source": ip6("2001:db8:5::1", NOWHERE)},
)
scenario(
    "v6 source-specific default route alone",
    "ipv6routes",
    router(f"ip -6 route add default from {A}/64 via {B}2"),
    {
        "source in": ip6(A + "2", NOWHERE),
        "other source": ip6("2001:db8:5::1", NOWHERE),
        "answer to it": ip6(A + "3", NOWHERE, hops=1),
    },
)
_TABLES = (
    f"ip -6 route add default via {B}9 mtu 1280 table 200",
    f"ip -6 route add 2001:db8:71::/48 via {B}2",
)


def _ask(
    src: str = A + "2", dst: str = "2001:db8:71::1", upper: object = None, **fields: int
) -> bytes:
    """A packet that is too big if table 200 routed it."""
    return ip6(src, dst, upper or udp(payload=data(1300)), **fields)  # type: ignore[arg-type]


scenario(
    "v6 rules",
    "ipv6routes",
    router(
        *_TABLES,
        f"ip -6 rule add pref 600 from {A}3/128 lookup 200",
        "ip -6 rule add pref 601 to 2001:db8:72::/48 unreachable",
        f"ip -6 rule add pref 602 from {A}4/128 prohibit",
        f"ip -6 rule add pref 603 from {A}5/128 blackhole",
        "ip -6 rule add pref 604 tos 0x10 lookup 200",
        "ip -6 rule add pref 605 ipproto udp dport 53 lookup 200",
        "ip -6 rule add pref 606 not from 2001:db8::/32 prohibit",
        "ip -6 rule add pref 607 iif r1 lookup 200",
    ),
    {
        "none": _ask(),
        "from": _ask(A + "3"),
        "to": _ask(A + "6", "2001:db8:72::1"),
        "prohibit": _ask(A + "4"),
        "blackhole": _ask(A + "5"),
        "class 0x10": _ask(A + "7", traffic_class=0x10),
        "class 0x11": _ask(A + "8", traffic_class=0x11),
        "class 0x90": _ask(traffic_class=0x90),
        "port 53": _ask(A + "9", upper=udp(1000, 53, data(1300))),
        "port 54": _ask(A + "9", upper=udp(1000, 54, data(1300))),
        "port 53 behind options": ip6(
            A + "a",
            "2001:db8:71::1",
            udp(1000, 53, data(1300)),
            extensions=(destination_options(b""),),
        ),
        "not from": _ask("2001:dead::1"),
        "local, prohibited": ip6(A + "4", A + "1", echo6()),
    },
    Inject("r1", {"iif": _ask(B + "7")}),
)
scenario(
    "v6 rule suppress_prefixlength and goto",
    "ipv6routes",
    router(
        *_TABLES,
        f"ip -6 route add default via {B}3",
        "ip -6 rule add pref 700 lookup 200",
        f"ip -6 rule add pref 500 from {A}3/128 goto 32766",
        "ip -6 rule add pref 600 lookup main suppress_prefixlength 0",
    ),
    {
        "a /48": _ask(),
        "default": _ask(dst="2001:db9::1"),
        "default by goto": _ask(A + "3", "2001:db9::1"),
    },
)
scenario(
    "v6 reject in a rule's table",
    "ipv6routes",
    router(
        *_TABLES,
        "ip -6 route add throw 2001:db8:71::/64 table 201",
        "ip -6 route add unreachable 2001:db8:71:1::/64 table 201",
        "ip -6 rule add pref 600 lookup 201",
    ),
    {
        "thrown": _ask(),
        "unreachable": _ask(dst="2001:db8:71:1::1"),
        "not there": _ask(dst="2001:db8:71:2::1"),
    },
)
scenario(
    "v6 redirects",
    "ipv6",
    router("ip addr add fe80::1/64 dev r0", "ip -6 route add 2001:db8:77::/48 via fe80::3 dev r0"),
    {
        "to a neighbour": ip6(A + "2", A + "3"),
        "by a gateway": ip6(A + "4", "2001:db8:77::1"),
        "source not on link": ip6("2001:db8:5::1", A + "3"),
        "source link-local": ip6("fe80::20", A + "3"),
        "long packet": ip6(A + "5", A + "3", udp(payload=data(1400))),
    },
)
scenario(
    "v6 redirects without a link-local address",
    "ipv6",
    router(),
    {"to a neighbour": ip6(A + "2", A + "3")},
)
scenario(
    "v6 route changes while running",
    "ipv6routes",
    router(),
    {"before": ip6(A + "2", NOWHERE)},
    Run((f"ip -6 route add {NOWHERE}/128 via {B}2",)),
    {"with": ip6(A + "2", NOWHERE)},
    Run((f"ip -6 route del {NOWHERE}/128",)),
    {"after": ip6(A + "3", NOWHERE)},
)

# receive lists

scenario(
    "list: v6 same destination",
    "lists",
    router(_LISTEN),
    Together("r0", {f"{k}": ip6(f"{A}{2 + k}", B + "2", traffic_class=k) for k in range(8)}),
)
scenario(
    "list: v6 equal metric, hint keeps the first device",
    "lists",
    router(*_SAME, f"ip -6 route add 2001:db8:a1::/48 from 2001:db8:5::/64 via {B}2"),
    Together("r0", {f"{k}": ip6(f"{A}{2 + k}", "2001:db8:a0::1") for k in range(4)}),
)
scenario(
    "list: v6 rule on the source",
    "lists",
    router(*_TABLES, f"ip -6 rule add pref 600 from {A}3/128 unreachable"),
    Together(
        "r0",
        {f"{k}": ip6(f"{A}{n}", "2001:db8:71::1", label=k + 1) for k, n in enumerate((2, 3, 2, 3))},
    ),
)
scenario(
    "list: v6 source-specific",
    "lists",
    router(
        f"ip -6 route add 2001:db8:60::/48 via {B}2",
        f"ip -6 route add prohibit 2001:db8:60::/48 from {A}/64",
        f"ip -6 route add default via {B}3",
    ),
    Together(
        "r0",
        {
            f"{k}": ip6(src, "2001:db8:60::1", label=k + 1)
            for k, src in enumerate(("2001:db8:5::1", A + "2", "2001:db8:5::1", A + "2"))
        },
    ),
)
scenario(
    "list: v6 group joined and source ::",
    "lists",
    router(_LISTEN),
    Together(
        "r0",
        {
            f"{k}": ip6(src, "ff02::1", label=k + 1)
            for k, src in enumerate((A + "2", "::", "::1", A + "2"))
        },
    ),
)
