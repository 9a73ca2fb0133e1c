"""IPv6 scenarios: ICMPv6 coming in, where errors and answers come from, limits, odd headers."""

from __future__ import annotations

from ippath.verify.packets import (
    data, destination_options, echo6, eth, fragment_header, hop_by_hop, icmp6, ip6, routing, tcp,
    udp,
)  # fmt: skip
from ippath.verify.scenario import Burst, Inject
from tests.kernel.scenarios import ethernet, router, scenario

A, B = "2001:db8:0::", "2001:db8:1::"
THERE, HERE = (A + "2", B + "2"), (A + "2", A + "1")
_LISTEN = "listen udp [::]:2000"

# ICMPv6 coming in


def _quoting(packet: bytes) -> bytes:
    return ip6(*HERE, icmp6(1, 4, 0, packet))


scenario(
    "v6 ICMPv6 types",
    "icmp6",
    router(_LISTEN),
    {
        f"type {kind}": ip6(*HERE, icmp6(kind, 0, 0, data(16)), hops=255)
        for kind in (
            0, 2, 3, 5, 100, 127, 129, 131, 132, 138, 139, 140, 141, 143, 144, 145, 146, 147,
            148, 151, 160, 161, 255,
        )
    },
)  # fmt: skip
scenario(
    "v6 ICMPv6 errors and what they quote",
    "icmp6",
    router(_LISTEN, "listen udp [2001:db8::1]:4000 peer [2001:db8::2]:5000"),
    {
        "no body": ip6(*HERE, icmp6(1, 4)),
        "39 bytes": _quoting(ip6(A + "1", A + "2", cut=39)),
        "47 bytes": _quoting(ip6(A + "1", A + "2", cut=47)),
        "48 bytes": _quoting(ip6(A + "1", A + "2", udp(2000, 9), cut=48)),
        "from an open port": _quoting(ip6(A + "1", A + "2", udp(2000, 9))),
        "from a closed port": _quoting(ip6(A + "1", A + "2", udp(2001, 9))),
        "from a connected socket": _quoting(ip6(A + "1", A + "2", udp(4000, 5000))),
        "from a connected socket, to another port": _quoting(ip6(A + "1", A + "2", udp(4000, 9))),
        "from another address": _quoting(ip6(A + "7", A + "2", udp(2000, 9))),
        "TCP": _quoting(ip6(A + "1", A + "2", tcp())),
        "UDP-Lite": _quoting(ip6(A + "1", A + "2", udp(2000, 9, protocol=136))),
        "echo request": _quoting(ip6(A + "1", A + "2", echo6())),
        "protocol 200": _quoting(ip6(A + "1", A + "2", data(8), last_header=200)),
        "no next header": _quoting(ip6(A + "1", A + "2", data(8), last_header=59)),
        "behind options": _quoting(
            ip6(A + "1", A + "2", udp(2000, 9), extensions=(destination_options(b""),))
        ),
        "options cut": _quoting(
            ip6(A + "1", A + "2", udp(2000, 9), extensions=(destination_options(b""),), cut=52)
        ),
        "options cut at once": _quoting(
            ip6(A + "1", A + "2", udp(2000, 9), extensions=(destination_options(b""),), cut=41)
        ),
        "first fragment": _quoting(
            ip6(A + "1", A + "2", udp(2000, 9), extensions=(fragment_header(0, True),))
        ),
        "later fragment": _quoting(
            ip6(A + "1", A + "2", udp(2000, 9), extensions=(fragment_header(8, True),))
        ),
        "too big": ip6(*HERE, icmp6(2, 0, 1300, ip6(A + "1", A + "2", udp(2000, 9)))),
        "too big, 39 bytes": ip6(*HERE, icmp6(2, 0, 1300, ip6(A + "1", A + "2", cut=39))),
        "unknown error": ip6(*HERE, icmp6(100, 0, 0, ip6(A + "1", A + "2", udp(2001, 9)))),
    },
)
scenario(
    "v6 neighbour discovery that is refused",
    "icmp6",
    router(),
    {
        "hop limit 64": ip6(*HERE, icmp6(136, 0, 0, data(16))),
        "code 1": ip6(*HERE, icmp6(136, 1, 0, data(16)), hops=255),
        "atomic fragment": ip6(
            *HERE, icmp6(136, 0, 0, data(16)), hops=255, extensions=(fragment_header(0, False),)
        ),
    },
)
scenario(
    "v6 neighbour discovery in fragments allowed",
    "icmp6",
    router("net.ipv6.conf.r0.suppress_frag_ndisc = 0"),
    {
        "atomic fragment, hop limit 64": ip6(
            *HERE, icmp6(136, 0, 0, data(16)), extensions=(fragment_header(0, False),)
        ),
    },
)

# answers

scenario(
    "v6 echo replies in fragments",
    "icmp6",
    router("ip link set r1 mtu 1280"),
    {
        "1452 bytes": ip6(*HERE, echo6(body=data(1452))),
        "1453 bytes": ip6(*HERE, echo6(body=data(1453))),
        "4000 bytes": ip6(*HERE, echo6(body=data(4000))),
        "1500 bytes in an atomic fragment": ip6(
            *HERE, echo6(body=data(1500)), extensions=(fragment_header(0, False),)
        ),
    },
    Inject("r1", {"1232 bytes": ip6(B + "2", B + "1", echo6(body=data(1232))),
                  "1233 bytes": ip6(B + "2", B + "1", echo6(body=data(1233)))}),
)  # fmt: skip
scenario(
    "v6 echo replies limited",
    "icmp6",
    router("net.ipv6.icmp.ratemask = 129", "net.ipv6.icmp.ratelimit = 1000"),
    Burst("r0", {f"{k}": ip6(*HERE, echo6(seq=k)) for k in range(10)}),
    {"error, not limited": ip6(*THERE, hops=1), "echo from ::": ip6("::", A + "1", echo6())},
)
scenario(
    "v6 echo requests ignored",
    "icmp6",
    router("net.ipv6.icmp.echo_ignore_all = 1"),
    {"echo": ip6(*HERE, echo6()), "closed port": ip6(*HERE, udp(dport=9))},
)
scenario(
    "v6 answers from anycast addresses",
    "icmp6",
    router("net.ipv6.anycast_src_echo_reply = 1", "ip -6 route add anycast 2001:db8:77::7 dev r0"),
    {
        "echo": ip6(A + "2", A, echo6()),
        "echo to an anycast route": ip6(A + "2", "2001:db8:77::7", echo6()),
        "closed port": ip6(A + "2", A, udp(dport=9)),
        "closed port at an anycast route": ip6(A + "2", "2001:db8:77::7", udp(dport=9)),
        "closed port at a network of local addresses": ip6(A + "2", "fe80::", udp(dport=9)),
    },
)
_ANYCAST_SOURCES = {
    "network on link": ip6("2001:db8:92::", B + "2", hops=1),
    "host of the network on link": ip6("2001:db8:92::1", B + "2", hops=1),
    "network by a gateway": ip6("2001:db8:91::", B + "2", hops=1),
    "two addresses": ip6("2001:db8:90::", B + "2", hops=1),
    "anycast route": ip6("2001:db8:77::7", B + "2", hops=1),
}
for _value in (0, 1):
    scenario(
        f"v6 errors to anycast sources, error_anycast_as_unicast {_value}",
        "icmp6",
        router(
            f"net.ipv6.icmp.error_anycast_as_unicast = {_value}",
            "ip -6 route add 2001:db8:92::/48 dev r1",
            f"ip -6 route add 2001:db8:91::/48 via {B}3",
            "ip -6 route add 2001:db8:90::/127 dev r1",
            "ip -6 route add anycast 2001:db8:77::7 dev r0",
        ),
        _ANYCAST_SOURCES,
    )
scenario(
    "v6 preferred source of a route",
    "icmp6",
    router(
        "ip addr add 2001:db8:66::9/128 dev lo",
        f"ip -6 route add 2001:db8:66::/48 via {B}3 src 2001:db8:66::9",
        f"ip -6 route add 2001:db8:67::/48 via {B}3",
    ),
    {
        "preferred": ip6("2001:db8:66::1", B + "2", hops=1),
        "none preferred": ip6("2001:db8:67::1", B + "2", hops=1),
        "preferred, closed port": ip6("2001:db8:66::1", A + "1", udp(dport=9)),
        "preferred, echo to anycast": ip6("2001:db8:66::1", A, echo6()),
        "echo to all nodes": ip6(A + "2", "ff02::1", echo6()),
    },
)
_SOURCES = (
    "ip addr add fd00::1/64 dev r0",
    "ip addr add fe80::1/64 dev r0",
    "ip addr add 2002:a00::1/64 dev r0",
    "ip addr add 2001:db8:5::1/64 dev r0",
    "ip addr add 2001:db8:5:1::1/64 dev r0 preferred_lft 0",
    "ip addr add 2001:db8:6::1/64 dev r1",
    "ip addr add fd77::1/128 dev lo",
    f"ip route add default via {A}9",
)
_FAR = {
    "global": ip6("2001:dead::1", B + "2", hops=1),
    "near the second": ip6("2001:db8:5:1::7", B + "2", hops=1),
    "near that of r1": ip6("2001:db8:6::7", B + "2", hops=1),
    "unique local": ip6("fd77::7", B + "2", hops=1),
    "6to4": ip6("2002:b00::7", B + "2", hops=1),
    "link-local": ip6("fe80::7", A + "3", hops=1),
    "site-local": ip6("fec0::7", B + "2", hops=1),
    "Teredo": ip6("2001::7", B + "2", hops=1),
    "compatible": ip6("::7:7", B + "2", hops=1),
    "mapped": ip6("::ffff:10.9.9.9", B + "2", hops=1),
    "orchid": ip6("2001:10::7", B + "2", hops=1),
    "echo of a group": ip6("2001:db8:5:1::7", "ff02::1", echo6()),
    "echo of a group, link-local": ip6("fe80::7", "ff02::1", echo6()),
}
scenario("v6 choice of the source", "icmp6", router(*_SOURCES), _FAR)
scenario(
    "v6 choice of the source, use_oif_addrs_only",
    "icmp6",
    router(*_SOURCES, "net.ipv6.conf.r0.use_oif_addrs_only = 1"),
    _FAR,
)
scenario(
    "v6 no address for the source",
    "icmp6",
    router(f"ip addr del {A}1/64 dev r0", f"ip addr del {B}1/64 dev r1",
           "ip -6 route add 2001:db8::/32 dev r0", "ip -6 route add 2001:db8:1::/48 dev r1"),
    {"hop limit": ip6(*THERE, hops=1), "through": ip6(*THERE),
     "no route": ip6(A + "2", "2002::1"), "too big": ip6(*THERE, udp(payload=data(1600)))},
)  # fmt: skip
scenario(
    "v6 answers from source-specific routes",
    "icmp6",
    router(f"ip -6 route add default from {A}/64 via {A}9", "ip addr add fe80::1/64 dev r0"),
    {
        "error": ip6("2001:dead::1", B + "2", hops=1),
        "echo": ip6("2001:dead::1", A + "1", echo6()),
        "echo to r1's address": ip6("2001:dead::1", B + "1", echo6()),
        "echo to anycast": ip6("2001:dead::1", A, echo6()),
        "closed port at r1's address": ip6("2001:dead::1", B + "1", udp(dport=9)),
    },
)
scenario(
    "v6 hop limit of answers",
    "icmp6",
    router("net.ipv6.conf.r0.hop_limit = 33", "net.ipv6.conf.r1.hop_limit = 44"),
    {"error": ip6(*THERE, hops=1), "echo": ip6(*HERE, echo6())},
    Inject("r1", {"error by r1": ip6(B + "2", A + "2", hops=1)}),
)
scenario(
    "v6 error to a source by lo",
    "icmp6",
    router("ip -6 route add 2001:db8:93::/48 dev lo"),
    {"hop limit": ip6("2001:db8:93::1", B + "2", hops=1),
     "no route": ip6("2001:db8:93::1", "2001:db8:99::1")},
)  # fmt: skip
scenario(
    "v6 errors to frames for many",
    "icmp6",
    ethernet("net.ipv6.conf.r0.drop_unicast_in_l2_multicast = 0"),
    {
        f"{what}, {where}": eth(packet, mac)
        for where, mac in (("broadcast", "ff:ff:ff:ff:ff:ff"), ("multicast", "33:33:00:00:00:01"))
        for what, packet in (
            ("closed port", ip6(*HERE, udp(dport=9))),
            ("option 0x9e", ip6(*HERE, extensions=(hop_by_hop(b"\x9e\x02\xaa\xbb"),))),
            ("option 0xde", ip6(*HERE, extensions=(hop_by_hop(b"\xde\x02\xaa\xbb"),))),
            ("routing header", ip6(*HERE, extensions=(routing(0, 1, (B + "2",)),))),
            ("echo", ip6(*HERE, echo6())),
            ("through", ip6(*THERE)),
        )
    },
)

# MTU

scenario(
    "v6 MTU below 1280",
    "icmp6",
    router(
        f"ip -6 route add 2001:db8:66::/48 via {B}3 mtu 1000",
        f"ip -6 route add 2001:db8:67::/48 via {B}3 mtu lock 1000",
        "net.ipv6.conf.r1.mtu = 1300",
    ),
    {
        "1300 bytes": ip6(A + "2", B + "2", udp(payload=data(1252))),
        "1301 bytes": ip6(A + "2", B + "2", udp(payload=data(1253))),
        "unlocked, 1100 bytes": ip6(A + "3", "2001:db8:66::1", udp(payload=data(1052))),
        "unlocked, 1400 bytes": ip6(A + "3", "2001:db8:66::1", udp(payload=data(1352))),
        "locked, 1100 bytes": ip6(A + "4", "2001:db8:67::1", udp(payload=data(1052))),
        "locked, 1400 bytes": ip6(A + "4", "2001:db8:67::1", udp(payload=data(1352))),
        "error to unlocked": ip6("2001:db8:66::1", A + "2", hops=1),
        "echo from unlocked": ip6("2001:db8:66::1", A + "1", echo6()),
        "long echo from unlocked": ip6("2001:db8:66::1", A + "1", echo6(body=data(1052))),
        "longer echo from unlocked": ip6("2001:db8:66::1", A + "1", echo6(body=data(1500))),
    },
)

# redirects

scenario(
    "v6 redirects limited",
    "icmp6",
    router("ip addr add fe80::1/64 dev r0"),
    Burst("r0", {f"to one, {k}": ip6(f"{A}{k + 16:x}", A + "3") for k in range(9)}),
    Burst("r0", {f"from one, {k}": ip6(A + "2", f"{A}{k + 48:x}") for k in range(9)}),
)

# extension headers

scenario(
    "v6 more fragment headers",
    "icmp6",
    router(_LISTEN),
    {
        "two": ip6(*HERE, extensions=(fragment_header(0, False), fragment_header(0, False))),
        "options between": ip6(
            *HERE,
            extensions=(
                fragment_header(0, False),
                destination_options(b""),
                fragment_header(0, False),
            ),
        ),
        "behind options": ip6(
            A + "3", A + "1", extensions=(destination_options(b""), fragment_header(0, False))
        ),
        "cut behind options": ip6(
            A + "3", A + "1", data(7), last_header=44, extensions=(destination_options(b""),)
        ),
        "reserved bits": ip6(
            *HERE, extensions=((44, b"\xff\x00\x06\x12\x34\x56\x78"),)
        ),
    },
)  # fmt: skip
_PADDED = (destination_options(b"\x1e\x0c" + bytes(12)),)  # 16 bytes
for _name, _lines in {
    "lengths": ("net.ipv6.max_hbh_length = 8", "net.ipv6.max_dst_opts_length = 8"),
    "numbers": ("net.ipv6.max_hbh_opts_number = 2", "net.ipv6.max_dst_opts_number = 2"),
    "known alone": ("net.ipv6.max_hbh_opts_number = -2", "net.ipv6.max_dst_opts_number = -2"),
}.items():
    scenario(
        f"v6 limits of options: {_name}",
        "icmp6",
        router(_LISTEN, *_lines),
        {
            f"{what}, {where}": ip6(
                f"{A}{n + 16:x}", A + "1", extensions=((kind(options)),)
            )
            for where, kind in (("hop-by-hop", hop_by_hop), ("destination", destination_options))
            for n, (what, options) in enumerate(
                {
                    "one of 8 bytes": b"\x1e\x04" + bytes(4),
                    "one of 16 bytes": b"\x1e\x0c" + bytes(12),
                    "two": b"\x1e\x00\x1e\x02\x00\x00",
                    "three": b"\x1e\x00\x1e\x00\x1e\x00",
                    "unknown 0x9e": b"\x9e\x04" + bytes(4),
                    "padding": b"",
                }.items()
            )
        },
    )  # fmt: skip
scenario(
    "v6 hop-by-hop options of other protocols",
    "icmp6",
    router(),
    {
        "IOAM, aligned": ip6(*THERE, extensions=(hop_by_hop(b"\x01\x00\x31\x02\x00\x00"),)),
        "IOAM, not aligned": ip6(*THERE, extensions=(hop_by_hop(b"\x31\x02\x00\x00"),)),
        "CALIPSO of 6": ip6(*THERE, extensions=(hop_by_hop(b"\x07\x06" + bytes(6)),)),
        "CALIPSO of 8": ip6(*THERE, extensions=(hop_by_hop(b"\x07\x08" + bytes(8)),)),
        "CALIPSO of 12": ip6(*THERE, extensions=(hop_by_hop(b"\x07\x0c" + bytes(12)),)),
        "tunnel limit": ip6(*THERE, extensions=(hop_by_hop(b"\x04\x01\x05"),)),
    },
)
scenario(
    "v6 first fragments answered",
    "icmp6",
    router(),
    {
        "ICMPv6, header alone": ip6(
            *THERE, b"", hops=1, last_header=58, extensions=(fragment_header(0, True),)
        ),
        "ICMPv6, header alone, atomic": ip6(
            *THERE, b"", hops=1, last_header=58, extensions=(fragment_header(0, False),)
        ),
        "ICMPv6 error": ip6(
            *THERE, icmp6(1, 0, 0, data(48)), hops=1, extensions=(fragment_header(0, True),)
        ),
        "options cut": ip6(A + "3", B + "2", b"\x3a", hops=1, last_header=60),
        "options of no bytes": ip6(A + "3", B + "2", b"", hops=1, last_header=60),
        "options point outside": ip6(
            A + "3", B + "2", b"\x3a\x05" + bytes(6), hops=1, last_header=60
        ),
        "no next header behind options": ip6(
            A + "3", B + "2", b"", hops=1, last_header=59, extensions=(destination_options(b""),)
        ),
    },
)

# rules


def _port_53(*extensions: tuple[int, bytes], upper: object = None, **fields: int) -> bytes:
    return ip6(A + "9", "2001:db8:71::1", upper or udp(1000, 53), extensions=extensions, **fields)  # type: ignore[arg-type]


scenario(
    "v6 rules on ports behind headers",
    "icmp6",
    router(
        f"ip -6 route add 2001:db8:71::/48 via {B}2",
        "ip -6 rule add pref 600 dport 53 prohibit",
        "ip -6 rule add pref 601 ipproto 51 unreachable",
        "net.ipv6.icmp.ratelimit = 0",
    ),
    {
        "UDP": _port_53(),
        "TCP": _port_53(upper=tcp(1000, 53)),
        "hop-by-hop": _port_53(hop_by_hop(b"")),
        "routing": _port_53(routing(0, 0)),
        "atomic fragment": _port_53(fragment_header(0, False)),
        "first fragment": _port_53(fragment_header(0, True)),
        "SCTP": _port_53(upper=b"\x03\xe8\x00\x35" + bytes(8), last_header=132),
        "DCCP": _port_53(upper=b"\x03\xe8\x00\x35" + bytes(12), last_header=33),
        "ESP": _port_53(upper=b"\x03\xe8\x00\x35" + bytes(12), last_header=50),
        "AH": _port_53(upper=b"\x11\x04\x00\x00\x03\xe8\x00\x35" + bytes(16), last_header=51),
        "AH, other port": _port_53(upper=b"\x11\x04\x00\x00" + bytes(20), last_header=51),
        "protocol 200": _port_53(upper=b"\x03\xe8\x00\x35" + bytes(8), last_header=200),
    },
)
scenario(
    "v6 rule suppress_ifgroup",
    "icmp6",
    router(
        "ip link set r1 group 7",
        f"ip -6 route add 2001:db8:71::/48 via {B}2 table 200",
        f"ip -6 route add 2001:db8:71::/48 via {A}3 table 201",
        f"ip -6 route add 2001:db8:72::/48 via {A}3 table 200",
        f"ip -6 route add 2001:db8:72::/48 via {B}2 table 201",
        "ip -6 rule add pref 600 lookup 200 suppress_ifgroup 7",
        "ip -6 rule add pref 601 lookup 201",
    ),
    {"by r1": ip6(A + "2", "2001:db8:71::1"), "by r0": ip6(A + "2", "2001:db8:72::1")},
)
scenario(
    "v6 rules on sources and packets without one",
    "icmp6",
    router(
        "ip -6 rule add pref 600 from ::/8 to 2001:db8::2 prohibit",
        f"ip -6 rule add pref 601 from {B}1 to 2001:db8::2 unreachable",
    ),
    {
        "error": ip6(*THERE, hops=1),
        "echo": ip6(*HERE, echo6()),
        "echo to anycast": ip6(A + "2", A, echo6()),
        "echo to r1's address": ip6(A + "2", B + "1", echo6()),
    },
)

# early demux: a connected socket remembers the route by which its peer's packets came

_FROM_PEER = ip6(A + "2", A + "1", udp(5000, 4000))
for _demux in (1, 0):
    scenario(
        f"v6 early demux, ip_early_demux {_demux}",
        "icmp6",
        router(
            "listen udp [2001:db8::1]:4000 peer [2001:db8::2]:5000",
            "ip -6 rule add pref 200 lookup local",
            "ip -6 rule del pref 0",
            f"ip -6 rule add pref 100 iif r1 to {A}1 prohibit",
            f"net.ipv4.ip_early_demux = {_demux}",
        ),
        Inject("r1", {"peer's, by the wrong device, first": _FROM_PEER}),
        Inject("r0", {"peer's": _FROM_PEER}),
        Inject(
            "r1",
            {
                "peer's, by the wrong device": _FROM_PEER,
                "behind options": ip6(
                    A + "2", A + "1", udp(5000, 4000), extensions=(hop_by_hop(b""),)
                ),
                "other port": ip6(A + "2", A + "1", udp(5001, 4000)),
            },
        ),
    )
scenario(
    "v6 nobody is answered from ::1",
    "icmp6",
    router("ip -6 rule add pref 333 from 2001:db8::/65 prohibit", "join ff05::1:3 dev r0"),
    {
        "to a group": ip6("::", "ff05::1:3", echo6()),
        "to us": ip6("::", "2001:db8:0::1", echo6()),
    },
)
