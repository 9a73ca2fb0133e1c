"""UDP scenarios: checks on arrival, choice of the socket, fan-out."""

from __future__ import annotations

from ippath.verify.packets import data, ip4, ip6, udp
from ippath.verify.scenario import Inject, Together
from tests.kernel.scenarios import router, scenario

HERE = ("10.0.0.2", "10.0.0.1")
HERE6 = ("2001:db8:0::2", "2001:db8:0::1")

scenario(
    "UDP length field",
    "udp",
    router("listen udp 0.0.0.0:2000"),
    {
        "7": ip4(*HERE, udp(length=7)),
        "0": ip4(*HERE, udp(length=0)),
        "8 of 16": ip4(*HERE, udp(length=8)),
        "12 of 16": ip4(*HERE, udp(length=12)),
        "17 of 16": ip4(*HERE, udp(length=17)),
        "65535": ip4(*HERE, udp(length=65535)),
        "header cut": ip4(*HERE, data(7), proto=17),
        "no bytes": ip4(*HERE, b"", proto=17),
        "7, closed port": ip4(*HERE, udp(dport=9, length=7)),
        "12 of 16, closed port": ip4("10.0.0.3", "10.0.0.1", udp(dport=9, length=12)),
        "padding behind IP": ip4(*HERE, udp(), trailer=data(20)),
    },
)
scenario(
    "UDP checksum",
    "udp",
    router("listen udp 0.0.0.0:2000"),
    {
        "zero": ip4(*HERE, udp(check=0)),
        "bad": ip4(*HERE, udp(damage=1)),
        "bad, 76 bytes": ip4(*HERE, udp(payload=data(68), damage=1)),
        "bad, 77 bytes": ip4(*HERE, udp(payload=data(69), damage=1)),
        "bad, 1000 bytes": ip4(*HERE, udp(payload=data(992), damage=1)),
        "ffff": ip4(*HERE, udp(check=0xFFFF)),
        "bad, closed port": ip4(*HERE, udp(dport=9, damage=1)),
        "bad, closed port, 77 bytes": ip4(*HERE, udp(dport=9, payload=data(69), damage=1)),
        "zero, closed port": ip4(*HERE, udp(dport=9, check=0)),
        "over the cut part": ip4(*HERE, udp(payload=data(100), length=50)),
        "bad, to broadcast": ip4("10.0.0.2", "10.0.0.255", udp(damage=1)),
        "bad, to broadcast, long": ip4("10.0.0.2", "10.0.0.255", udp(payload=data(100), damage=1)),
        "good after bad": ip4(*HERE, udp(payload=data(100))),
    },
)
# with this payload the sum comes to 0, which a sender writes as ffff
_SUM_ZERO = (0x7061 + 0x22AC).to_bytes(2, "big") + b"yload8"
scenario(
    "UDP computed checksum zero",
    "udp",
    router("listen udp 0.0.0.0:2000"),
    {
        "written as ffff": ip4(*HERE, udp(payload=_SUM_ZERO, check=0xFFFF)),
        "written as 0": ip4(*HERE, udp(payload=_SUM_ZERO, check=0)),
    },
)
scenario(
    "UDP over IPv6 length field",
    "udp",
    router("listen udp [::]:2000"),
    {
        "7": ip6(*HERE6, udp(length=7)),
        "0": ip6(*HERE6, udp(length=0)),
        "8 of 16": ip6(*HERE6, udp(length=8)),
        "12 of 16": ip6(*HERE6, udp(length=12)),
        "17 of 16": ip6(*HERE6, udp(length=17)),
        "header cut": ip6(*HERE6, data(7), last_header=17),
        "no bytes": ip6(*HERE6, b"", last_header=17),
        "12 of 16, closed port": ip6(*HERE6, udp(dport=9, length=12)),
        "padding behind IP": ip6(*HERE6, udp(), trailer=data(20)),
    },
)
scenario(
    "UDP over IPv6 checksum",
    "udp",
    router("listen udp [::]:2000"),
    {
        "zero": ip6(*HERE6, udp(check=0)),
        "bad": ip6(*HERE6, udp(damage=1)),
        "bad, 76 bytes": ip6(*HERE6, udp(payload=data(68), damage=1)),
        "bad, 77 bytes": ip6(*HERE6, udp(payload=data(69), damage=1)),
        "bad, closed port": ip6(*HERE6, udp(dport=9, damage=1)),
        "bad, closed port, 77 bytes": ip6(*HERE6, udp(dport=9, payload=data(69), damage=1)),
        "zero, closed port": ip6(*HERE6, udp(dport=9, check=0)),
        "zero to a group": ip6("2001:db8:0::2", "ff02::1", udp(check=0)),
        "bad to a group": ip6("2001:db8:0::2", "ff02::1", udp(damage=1)),
        "to a group": ip6("2001:db8:0::2", "ff02::1"),
        "to a group, closed port": ip6("2001:db8:0::2", "ff02::1", udp(dport=9)),
    },
)
_SENDERS = {
    "from .2:1000": ip4(*HERE),
    "from .2:1001": ip4(*HERE, udp(1001)),
    "from .3:1000": ip4("10.0.0.3", "10.0.0.1"),
    "to r1's address": ip4("10.0.0.2", "10.1.0.1"),
    "to broadcast": ip4("10.0.0.2", "10.0.0.255"),
    "to limited broadcast": ip4("10.0.0.2", "255.255.255.255"),
    "to all hosts": ip4("10.0.0.2", "224.0.0.1"),
    "to a joined group": ip4("10.0.0.2", "239.9.9.9"),
}
for _name, _lines in {
    "exact and wildcard": ("listen udp 0.0.0.0:2000", "listen udp 10.0.0.1:2000"),
    "wildcard alone": ("listen udp 0.0.0.0:2000",),
    "exact alone": ("listen udp 10.0.0.1:2000",),
    "two wildcards": ("listen udp 0.0.0.0:2000", "listen udp 0.0.0.0:2000"),
    "device-bound and not": ("listen udp 0.0.0.0:2000 dev r0", "listen udp 0.0.0.0:2000"),
    "bound to the other device": ("listen udp 0.0.0.0:2000 dev r1",),
    "device-bound wildcard and exact": (
        "listen udp 0.0.0.0:2000 dev r0",
        "listen udp 10.0.0.1:2000",
    ),
    "connected and not": (
        "listen udp 0.0.0.0:2000",
        "listen udp 10.0.0.1:2000 peer 10.0.0.2:1000",
        "listen udp 10.0.0.1:2000",
    ),
    "connected wildcard": ("listen udp 0.0.0.0:2000 peer 10.0.0.2:1000",),
    "connected alone": ("listen udp 10.0.0.1:2000 peer 10.0.0.2:1000",),
    "IPv6 socket alone": ("listen udp [::]:2000",),
    "IPv6 socket alone, v6only": ("listen udp [::]:2000 v6only",),
    "IPv6 and IPv4 wildcards": ("listen udp 0.0.0.0:2000", "listen udp [::]:2000"),
    "mapped address": ("listen udp [::ffff:10.0.0.1]:2000",),
    "bound to a group": ("listen udp 239.9.9.9:2000", "listen udp 0.0.0.0:2000"),
    "bound to the broadcast address": ("listen udp 10.0.0.255:2000", "listen udp 10.0.0.1:2000"),
    "bound to the limited broadcast address": ("listen udp 255.255.255.255:2000",),
    "nobody": ("listen udp 0.0.0.0:2001",),
}.items():
    scenario(
        f"UDP socket choice: {_name}", "udp", router(*_lines, "join 239.9.9.9 dev r0"), _SENDERS
    )
_SENDERS6 = {
    "from ::2 port 1000": ip6(*HERE6),
    "from ::2 port 1001": ip6(*HERE6, udp(1001)),
    "from ::3": ip6("2001:db8:0::3", "2001:db8:0::1"),
    "to r1's address": ip6("2001:db8:0::2", "2001:db8:1::1"),
    "to all nodes": ip6("2001:db8:0::2", "ff02::1"),
    "to a joined group": ip6("2001:db8:0::2", "ff05::99"),
    "to a group not joined": ip6("2001:db8:0::2", "ff05::98"),
    "to subnet-router anycast": ip6("2001:db8:0::2", "2001:db8:0::"),
}
for _name, _lines in {
    "exact and wildcard": ("listen udp [::]:2000", "listen udp [2001:db8:0::1]:2000"),
    "two wildcards": ("listen udp [::]:2000", "listen udp [::]:2000"),
    "device-bound and not": ("listen udp [::]:2000 dev r0", "listen udp [::]:2000"),
    "bound to the other device": ("listen udp [::]:2000 dev r1",),
    "connected and not": (
        "listen udp [::]:2000",
        "listen udp [2001:db8:0::1]:2000 peer [2001:db8:0::2]:1000",
        "listen udp [2001:db8:0::1]:2000",
    ),
    "connected alone": ("listen udp [2001:db8:0::1]:2000 peer [2001:db8:0::2]:1000",),
    "IPv4 socket alone": ("listen udp 0.0.0.0:2000",),
    "bound to a group": ("listen udp [ff05::99]:2000", "listen udp [::]:2000"),
}.items():
    scenario(
        f"UDP socket choice over IPv6: {_name}",
        "udp",
        router(*_lines, "join ff05::99 dev r0"),
        _SENDERS6,
    )
scenario(
    "UDP datagrams by both devices",
    "udp",
    router("listen udp 0.0.0.0:2000 dev r0", "listen udp 0.0.0.0:2000 dev r1"),
    Inject("r0", {"by r0": ip4(*HERE)}),
    Inject(
        "r1",
        {
            "by r1": ip4("10.1.0.2", "10.1.0.1"),
            "by r1 to r0's address": ip4("10.1.0.2", "10.0.0.1"),
        },
    ),
)
scenario(
    "UDP-Lite",
    "udp",
    router("listen udp 0.0.0.0:2000"),
    {"no such socket": ip4(*HERE, udp(protocol=136)), "over IPv6": ip6(*HERE6, udp(protocol=136))},
)
scenario(
    "UDP in a receive list",
    "lists",
    router("listen udp 10.0.0.1:2000 peer 10.0.0.2:1000", "listen udp 0.0.0.0:2000"),
    Together(
        "r0",
        {
            "connected": ip4(*HERE, udp(payload=b"a"), ident=1),
            "connected again": ip4(*HERE, udp(payload=b"b"), ident=2),
            "other sender": ip4("10.0.0.3", "10.0.0.1", udp(payload=b"c"), ident=3),
            "bad checksum": ip4(*HERE, udp(payload=b"d", damage=1), ident=4),
            "closed port": ip4(*HERE, udp(dport=9), ident=5),
            "connected at last": ip4(*HERE, udp(payload=b"e"), ident=6),
        },
    ),
)

# early demux: a connected socket remembers the route by which its peer's packets came

_CONNECTED = (
    "listen udp 10.0.0.1:4000 peer 10.0.0.2:5000",
    "listen udp [2001:db8::1]:4000 peer [2001:db8::2]:5000",
    "net.ipv4.conf.all.rp_filter = 1",
)
_FROM_PEER = ip4("10.0.0.2", "10.0.0.1", udp(5000, 4000))
for _demux in (1, 0):
    scenario(
        f"early demux, ip_early_demux {_demux}",
        "udp",
        router(*_CONNECTED, f"net.ipv4.ip_early_demux = {_demux}"),
        Inject("r1", {"peer's, by the wrong device, first": _FROM_PEER}),
        Inject("r0", {"peer's": _FROM_PEER, "peer's again": _FROM_PEER}),
        Inject(
            "r1",
            {
                "peer's, by the wrong device": _FROM_PEER,
                "peer's with TOS, by the wrong device": ip4(
                    "10.0.0.2", "10.0.0.1", udp(5000, 4000), tos=0x10
                ),
                "other port, by the wrong device": ip4("10.0.0.2", "10.0.0.1", udp(5001, 4000)),
                "peer's, with options, by the wrong device": ip4(
                    "10.0.0.2", "10.0.0.1", udp(5000, 4000), options=b"\x01\x01\x01\x00"
                ),
            },
        ),
    )
scenario(
    "early demux comes after the hint",
    "udp",
    router(*_CONNECTED),
    Inject("r0", {"peer's": _FROM_PEER}),
    Together(
        "r1",
        {
            "another's, from the right side": ip4("10.1.0.2", "10.0.0.1", udp(5000, 9), ident=1),
            "peer's, from the wrong side": ip4("10.0.0.2", "10.0.0.1", udp(5000, 4000), ident=2),
        },
    ),
)

scenario(
    "UDP to groups, checksums",
    "udp",
    router("listen udp 0.0.0.0:2000", "listen udp 0.0.0.0:2000 dev r0", "join 239.9.9.9 dev r0"),
    {
        "short and bad": ip4("10.0.0.2", "239.9.9.9", udp(damage=1)),
        "long and bad, read": ip4("10.0.0.2", "239.9.9.9", udp(payload=data(100), damage=1)),
        "long and bad, no such port": ip4(
            "10.0.0.2", "239.9.9.9", udp(dport=9, payload=data(100), damage=1)
        ),
        "short and bad, no such port": ip4("10.0.0.2", "239.9.9.9", udp(dport=9, damage=1)),
        "long and good": ip4("10.0.0.2", "239.9.9.9", udp(payload=data(100))),
        "to broadcast, long and bad": ip4(
            "10.0.0.2", "10.0.0.255", udp(payload=data(100), damage=1)
        ),
    },
)
scenario(
    "UDP-Lite shorter than it says",
    "udp",
    router("listen udp 0.0.0.0:2000"),
    {
        "coverage beyond the end": ip4(*HERE, data(8), proto=136),
        "header cut": ip4(*HERE, data(7), proto=136),
    },
)
