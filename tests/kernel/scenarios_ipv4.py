"""IPv4 scenarios on raw IP devices: headers, options, local delivery, forwarding, ICMP."""

from __future__ import annotations

from ippath.verify.packets import (
    END,
    NOOP,
    ROUTER_ALERT,
    address,
    checksum,
    data,
    echo,
    eth,
    icmp,
    ip4,
    record_route,
    source_route,
    tcp,
    timestamp,
    udp,
)
from ippath.verify.scenario import Burst, Inject, Wait
from tests.kernel.scenarios import ethernet, router, scenario

THERE = ("10.0.0.2", "10.1.0.2")  # through the router
HERE = ("10.0.0.2", "10.0.0.1")  # to the router

# headers and lengths

scenario("forward", "ipv4", router(), {"plain": ip4(*THERE), "back": ip4("10.0.0.2", "10.1.0.3")})
scenario(
    "header errors",
    "ipv4",
    router(),
    {
        "ihl 4": ip4(*THERE, ihl=4),
        "ihl 0": ip4(*THERE, ihl=0),
        "ihl 15 beyond the packet": ip4(*THERE, ihl=15),
        "ihl 15 inside the packet, sum wrong": ip4(
            *THERE, udp(payload=data(100)), ihl=15, damage=1
        ),
        "bad checksum": ip4(*THERE, damage=1),
        "checksum 0": ip4(*THERE, check=0),
        "checksum ffff": ip4(*THERE, check=0xFFFF),
        "16 bytes only": ip4(*THERE, cut=16),
        "19 bytes only": ip4(*THERE, cut=19),
        "20 bytes only": ip4(*THERE, cut=20),
        "good again": ip4(*THERE),
    },
)
scenario(
    "total length",
    "ipv4",
    router("listen udp 0.0.0.0:2000"),
    {
        "100 of 36": ip4(*THERE, length=100),
        "37 of 36": ip4(*THERE, length=37),
        "19": ip4(*THERE, length=19),
        "0": ip4(*THERE, length=0),
        "20, header only": ip4(*THERE, length=20),
        "23 of 24 with options": ip4(*THERE, options=NOOP * 4, length=23),
        "10 bytes of padding": ip4(*THERE, trailer=data(10)),
        "padding, local": ip4(*HERE, trailer=data(10)),
        "cut inside UDP, local": ip4(*HERE, length=24),
        "cut inside the payload, local": ip4(*HERE, length=30),
        "header only, local": ip4(*HERE, length=20),
    },
)
scenario(
    "odd but accepted header fields",
    "ipv4",
    router("listen udp 0.0.0.0:2000"),
    {
        "reserved bit": ip4(*THERE, reserved=True),
        "reserved bit and DF": ip4(*THERE, reserved=True, df=True),
        "identification 0": ip4(*THERE, ident=0),
        "protocol 0": ip4(*THERE, data(8), proto=0),
        "protocol 255": ip4(*THERE, data(8), proto=255),
        "source is destination": ip4("10.1.0.2", "10.1.0.2"),
        "TTL 255": ip4(*THERE, ttl=255),
        "TTL 2": ip4(*THERE, ttl=2),
        "TTL 0, local": ip4(*HERE, ttl=0),
        "TTL 1, local": ip4(*HERE, ttl=1),
        "DF, local": ip4(*HERE, df=True),
        "checksum that borrows at TTL step": ip4(*THERE, ttl=1 + 1, ident=0xFFFF),
    },
)
scenario(
    "checksum update at the carry",
    "ipv4",
    router(),
    {
        f"identification {k:#x}": ip4(*THERE, ident=k)
        for k in (0x63B0, 0x63B1, 0x64B0, 0x64B1, 0x65B2)
    },
)
scenario(
    "ECN counters",
    "ipv4",
    router("listen udp 0.0.0.0:2000"),
    {f"tos {tos:#x}": ip4(*THERE, tos=tos) for tos in (0, 1, 2, 3, 0xB8, 0xFF)}
    | {"ECT0, local": ip4(*HERE, tos=2), "CE and bad checksum": ip4(*THERE, tos=3, damage=5)},
)

# TTL

_IGMP = {
    "query, version 3": b"\x11\x64" + bytes(10),
    "query of 10 bytes": b"\x11\x64" + bytes(8),
    "general query that names a source": b"\x11\x64" + bytes(6) + b"\0\0\0\1" + bytes(4),
    "group query": b"\x11\x64\0\0\xef\x09\x09\x09" + bytes(4),
    "group query, sources cut": b"\x11\x64\0\0\xef\x09\x09\x09\0\0\0\2" + bytes(4),
    "report, version 1": b"\x12\0\0\0\xe0\0\0\x09",
    "report, version 2": b"\x16\0\0\0\xe0\0\0\x09",
    "report, version 3": b"\x22\0\0\0\0\0\0\0",
    "leave": b"\x17\0\0\0\xe0\0\0\x09",
    "unknown type": b"\x99\0\0\0\0\0\0\0",
    "7 bytes": b"\x11\x64" + bytes(5),
    # last: older queriers change how newer queries are read
    "query, version 2": b"\x11\x64" + bytes(6),
}


def _igmp(message: bytes) -> bytes:
    return message[:2] + checksum(message).to_bytes(2, "big") + message[4:]


scenario(
    "IGMP received",
    "ipv4",
    ethernet("join 239.9.9.9 dev r0"),
    {
        **{
            label: eth(
                ip4("10.0.0.2", "224.0.0.1", _igmp(message), proto=2, ttl=1),
                dst="01:00:5e:00:00:01",
            )
            for label, message in _IGMP.items()
        },
        "bad checksum": eth(
            ip4("10.0.0.2", "224.0.0.1", b"\x11\x64\1\1" + bytes(4), proto=2, ttl=1),
            dst="01:00:5e:00:00:01",
        ),
        "report to us alone": eth(
            ip4("10.0.0.2", "10.0.0.1", _igmp(_IGMP["report, version 2"]), proto=2, ttl=1)
        ),
    },
)
scenario(
    "TTL expiry",
    "ipv4",
    router(),
    {
        "1": ip4(*THERE, ttl=1),
        "0": ip4("10.0.0.3", "10.1.0.2", ttl=0),
        "1 with TOS": ip4("10.0.0.4", "10.1.0.2", ttl=1, tos=0xFF),
        "1 with TOS 8": ip4("10.0.0.5", "10.1.0.2", ttl=1, tos=0x08),
        "1 with DF": ip4("10.0.0.6", "10.1.0.2", ttl=1, df=True),
        "1 with options": ip4("10.0.0.7", "10.1.0.2", ttl=1, options=record_route(3)),
        "1, no route": ip4("10.0.0.8", "99.0.0.1", ttl=1),
        "1, empty payload": ip4("10.0.0.9", "10.1.0.2", b"", ttl=1),
    },
)
scenario(
    "no ICMP about some",
    "ipv4",
    router(),
    {
        "ICMP error": ip4("10.0.0.2", "10.1.0.2", icmp(3, 3, 0, data(28)), ttl=1),
        "ICMP redirect": ip4("10.0.0.2", "10.1.0.2", icmp(5, 1, 0, data(28)), ttl=1),
        "echo": ip4("10.0.0.2", "10.1.0.2", echo(), ttl=1),
        "echo reply": ip4("10.0.0.3", "10.1.0.2", icmp(0, 0, 7, data(8)), ttl=1),
        "ICMP type 19": ip4("10.0.0.4", "10.1.0.2", icmp(19, 0, 7, data(8)), ttl=1),
        "ICMP type 18": ip4("10.0.0.4", "10.1.0.2", icmp(18, 0, 7, data(8)), ttl=1),
        "ICMP type 6": ip4("10.0.0.4", "10.1.0.2", icmp(6, 0, 7, data(8)), ttl=1),
        "ICMP without a type": ip4("10.0.0.5", "10.1.0.2", b"", proto=1, ttl=1),
        "ICMP of one byte": ip4("10.0.0.5", "10.1.0.2", b"\x08", proto=1, ttl=1),
        "first fragment": ip4("10.0.0.6", "10.1.0.2", ttl=1, mf=True),
        "later fragment": ip4("10.0.0.6", "10.1.0.2", ttl=1, offset=4),
        "source routed to nowhere": ip4("99.0.0.1", "10.1.0.2", ttl=1),
    },
)
scenario(
    "ICMP to a broadcast address",
    "ipv4",
    router(),
    {"source broadcast address": ip4("10.0.0.255", "10.1.0.2", ttl=1)},
)
scenario(
    "ICMP source address",
    "ipv4",
    router("ip route add 66.0.0.0/8 via 10.1.0.3", "ip addr add 10.0.0.9/24 dev r0"),
    {
        "answer leaves r1": ip4("66.1.1.1", "10.1.0.2", ttl=1),
        "local address used": ip4("10.0.0.2", "10.0.0.9", udp(dport=9)),
        "other device's address": ip4("10.0.0.3", "10.1.0.1", udp(dport=9)),
    },
)
scenario(
    "ICMP source address by incoming device",
    "ipv4",
    router("ip route add 66.0.0.0/8 via 10.1.0.3", "net.ipv4.icmp_errors_use_inbound_ifaddr = 1"),
    {"answer leaves r1": ip4("66.1.1.1", "10.1.0.2", ttl=1)},
)
scenario(
    "ICMP quotation length",
    "ipv4",
    router(),
    {
        f"{n} bytes of payload": ip4(f"10.0.0.{k}", "10.1.0.2", udp(payload=data(n)), ttl=1)
        for k, n in enumerate((0, 1, 511, 519, 520, 521, 1000, 1472), 2)
    },
)
scenario(
    "ICMP quotation with small return MTU",
    "ipv4",
    router("ip route add 10.0.0.64/26 dev r0 mtu 200", "ip route add 10.0.0.128/26 dev r0 mtu 68"),
    {
        "mtu 200": ip4("10.0.0.65", "10.1.0.2", udp(payload=data(600)), ttl=1),
        "mtu 68": ip4("10.0.0.130", "10.1.0.2", udp(payload=data(600)), ttl=1),
    },
)
scenario(
    "TTL expiry burst of one source",
    "ipv4",
    router(),
    Burst("r0", {f"{k}": ip4(*THERE, ttl=1, ident=k) for k in range(20)}),
)
scenario(
    "no route burst of one source",
    "ipv4",
    router(),
    Burst("r0", {f"{k}": ip4("10.0.0.2", "99.0.0.1", ident=k) for k in range(20)}),
)
scenario(
    "port unreachable burst of one source",
    "ipv4",
    router(),
    Burst("r0", {f"{k}": ip4(*HERE, ident=k) for k in range(20)}),
)
scenario(
    "port unreachable burst, unlimited",
    "ipv4",
    router("net.ipv4.icmp_ratelimit = 0"),
    Burst("r0", {f"{k}": ip4(*HERE, ident=k) for k in range(20)}),
)
scenario(
    "no route burst, ICMP unlimited",
    "ipv4",
    router("net.ipv4.icmp_ratelimit = 0"),
    Burst("r0", {f"{k}": ip4("10.0.0.2", "99.0.0.1", ident=k) for k in range(20)}),
)
scenario(
    "tokens come back",
    "ipv4",
    router(),
    Burst("r0", {f"first {k}": ip4(*THERE, ttl=1, ident=k) for k in range(8)}),
    Wait(2.5),
    Burst("r0", {f"second {k}": ip4(*THERE, ttl=1, ident=k) for k in range(5)}),
)
scenario(
    "kinds of ICMP share the tokens",
    "ipv4",
    router(),
    Burst("r0", {f"expiry {k}": ip4(*THERE, ttl=1, ident=k) for k in range(4)}),
    Burst("r0", {f"no port {k}": ip4(*HERE, ident=k) for k in range(4)}),
    Burst("r0", {f"echo {k}": ip4(*HERE, echo(seq=k)) for k in range(4)}),
    {"no route": ip4("10.0.0.2", "99.0.0.1")},
)

# local delivery

scenario(
    "local delivery",
    "ipv4",
    router("listen udp 0.0.0.0:2000"),
    {
        "open port": ip4(*HERE),
        "closed port": ip4(*HERE, udp(dport=2001)),
        "other device's address": ip4("10.0.0.3", "10.1.0.1"),
        "other device's address, closed": ip4("10.0.0.3", "10.1.0.1", udp(dport=9)),
        "protocol 200": ip4("10.0.0.4", "10.0.0.1", data(20), proto=200),
        "protocol 0": ip4("10.0.0.5", "10.0.0.1", data(20), proto=0),
        "empty payload of 200": ip4("10.0.0.6", "10.0.0.1", b"", proto=200),
        "closed port with options": ip4(
            "10.0.0.7", "10.0.0.1", udp(dport=9), options=record_route(3)
        ),
        "port 0": ip4("10.0.0.8", "10.0.0.1", udp(sport=0, dport=2000)),
        "destination port 0": ip4("10.0.0.9", "10.0.0.1", udp(dport=0)),
        "empty datagram": ip4(*HERE, udp(payload=b"")),
    },
)
scenario(
    "echo",
    "ipv4",
    router(),
    {
        "plain": ip4(*HERE, echo()),
        "to the other device": ip4("10.0.0.2", "10.1.0.1", echo()),
        "TOS 0xff": ip4(*HERE, echo(), tos=0xFF),
        "TTL 1": ip4(*HERE, echo(), ttl=1),
        "DF": ip4(*HERE, echo(), df=True),
        "code 5": ip4(*HERE, icmp(8, 5, 7, b"x")),
        "odd length": ip4(*HERE, echo(body=b"abc")),
        "empty": ip4(*HERE, echo(body=b"")),
        "4 bytes": ip4(*HERE, b"\x08\0\xf7\xff", proto=1),
        "bad checksum": ip4(*HERE, echo(damage=1)),
        "bad checksum, long": ip4(*HERE, echo(body=data(400), damage=1)),
        "1400 bytes": ip4(*HERE, echo(body=data(1400))),
        "with padding": ip4(*HERE, echo(), trailer=data(6)),
        "from unroutable": ip4("99.0.0.1", "10.0.0.1", echo()),
        "record route": ip4(*HERE, echo(), options=record_route(3)),
        "record route and NOOP": ip4(*HERE, echo(), options=NOOP + record_route(3)),
        "router alert": ip4(*HERE, echo(), options=ROUTER_ALERT),
        "reply": ip4(*HERE, icmp(0, 0, 7 << 16 | 1, b"ping-data")),
    },
)
scenario(
    "echo ignored",
    "ipv4",
    router("net.ipv4.icmp_echo_ignore_all = 1"),
    {"plain": ip4(*HERE, echo())},
)
scenario(
    "echo of more than the MTU",
    "ipv4",
    router("ip link set r0 mtu 1000"),
    {
        "1200 bytes": ip4(*HERE, echo(body=data(1200))),
        "1200, DF": ip4(*HERE, echo(body=data(1200)), df=True),
    },
)
scenario(
    "echo from the broadcast side",
    "ipv4",
    router("net.ipv4.icmp_echo_ignore_broadcasts = 0"),
    {
        "directed": ip4("10.0.0.2", "10.0.0.255", echo()),
        "limited": ip4("10.0.0.2", "255.255.255.255", echo()),
        "all hosts": ip4("10.0.0.2", "224.0.0.1", echo()),
        "other net's broadcast": ip4("10.0.0.2", "10.1.0.255", echo()),
    },
)
scenario(
    "echo to broadcast ignored",
    "ipv4",
    router(),
    {
        "directed": ip4("10.0.0.2", "10.0.0.255", echo()),
        "limited": ip4("10.0.0.2", "255.255.255.255", echo()),
        "all hosts": ip4("10.0.0.2", "224.0.0.1", echo()),
        "timestamp request": ip4("10.0.0.2", "10.0.0.255", icmp(13, 0, 7, data(12))),
    },
)
scenario(
    "ICMP received",
    "ipv4",
    router("listen udp 10.0.0.1:4000 peer 10.0.0.2:5000"),
    {
        "type 19": ip4(*HERE, icmp(19, 0, 0, data(8))),
        "type 255": ip4(*HERE, icmp(255, 0, 0, data(8))),
        "type 40 to broadcast": ip4("10.0.0.2", "10.0.0.255", icmp(40, 0, 0, data(8))),
        "type 1": ip4(*HERE, icmp(1, 0, 0, data(8))),
        "type 2": ip4(*HERE, icmp(2, 0, 0, data(8))),
        "type 7": ip4(*HERE, icmp(7, 0, 0, data(8))),
        "router advertisement": ip4(*HERE, icmp(9, 0, 0, data(8))),
        "router solicitation": ip4(*HERE, icmp(10, 0, 0, data(8))),
        "information request": ip4(*HERE, icmp(15, 0, 0, data(8))),
        "address mask request": ip4(*HERE, icmp(17, 0, 0, data(8))),
        "timestamp reply": ip4(*HERE, icmp(14, 0, 0, data(12))),
        "unreachable without quotation": ip4(*HERE, icmp(3, 3)),
        "unreachable quoting 20 bytes": ip4(*HERE, icmp(3, 3, 0, ip4("10.0.0.1", "10.0.0.2")[:20])),
        "unreachable quoting 27 bytes": ip4(*HERE, icmp(3, 3, 0, ip4("10.0.0.1", "10.0.0.2")[:27])),
        "quotation with ihl 4": ip4(*HERE, icmp(3, 3, 0, ip4("10.0.0.1", "10.0.0.2", ihl=4))),
        "port unreachable, no such socket": ip4(*HERE, icmp(3, 3, 0, ip4("10.0.0.1", "10.0.0.2"))),
        "port unreachable, socket": ip4(
            *HERE, icmp(3, 3, 0, ip4("10.0.0.1", "10.0.0.2", udp(4000, 5000)))
        ),
        "code 16": ip4(*HERE, icmp(3, 16, 0, ip4("10.0.0.1", "10.0.0.2", udp(4000, 5000)))),
        "host unreachable, socket": ip4(
            *HERE, icmp(3, 1, 0, ip4("10.0.0.1", "10.0.0.2", udp(4000, 5000)))
        ),
        "time exceeded, socket": ip4(
            *HERE, icmp(11, 0, 0, ip4("10.0.0.1", "10.0.0.2", udp(4000, 5000)))
        ),
        "source quench, socket": ip4(
            *HERE, icmp(4, 0, 0, ip4("10.0.0.1", "10.0.0.2", udp(4000, 5000)))
        ),
        "extended echo": ip4(*HERE, icmp(42, 0, 0x70001, data(8))),
        "extended echo reply": ip4(*HERE, icmp(43, 0, 0x70001, data(8))),
        "reassembly time exceeded, no such socket": ip4(
            *HERE, icmp(11, 1, 0, ip4("10.0.0.1", "10.0.0.2"))
        ),
        "code 16, no such socket": ip4(*HERE, icmp(3, 16, 0, ip4("10.0.0.1", "10.0.0.2"))),
        "quoting TCP": ip4(*HERE, icmp(3, 1, 0, ip4("10.0.0.1", "10.0.0.2", tcp()))),
        "redirect without quotation": ip4(*HERE, icmp(5, 1, 0x0A000003)),
        "redirect, quotation with ihl 4": ip4(
            *HERE, icmp(5, 1, 0x0A000003, ip4("10.0.0.1", "10.0.0.2", ihl=4))
        ),
        "redirect, socket": ip4(
            *HERE, icmp(5, 1, 0x0A000003, ip4("10.0.0.1", "10.0.0.2", udp(4000, 5000)))
        ),
        "quoting protocol 200": ip4(
            *HERE, icmp(3, 2, 0, ip4("10.0.0.1", "10.0.0.2", data(8), proto=200))
        ),
        "quoting an echo": ip4(*HERE, icmp(3, 1, 0, ip4("10.0.0.1", "10.0.0.2", echo()))),
        "unreachable to broadcast": ip4(
            "10.0.0.2", "10.0.0.255", icmp(3, 3, 0, ip4("10.0.0.1", "10.0.0.2", udp(4000, 5000)))
        ),
        "parameter problem": ip4(
            *HERE, icmp(12, 0, 20 << 24, ip4("10.0.0.1", "10.0.0.2", udp(4000, 5000)))
        ),
    },
)
scenario(
    "ICMP timestamp request",
    "ipv4",
    router(),
    {
        "plain": ip4(*HERE, icmp(13, 0, 7 << 16 | 1, bytes(12))),
        "too short": ip4(*HERE, icmp(13, 0, 7 << 16 | 1, b"")),
    },
    ignore=("icmp timestamp",),
)

# options

scenario(
    "options forwarded",
    "ipv4",
    router(),
    {
        "record route": ip4(*THERE, options=record_route(2)),
        "record route, one used": ip4(
            *THERE, options=bytes([7, 11, 8]) + address("1.2.3.4") + bytes(4)
        ),
        "record route full": ip4(*THERE, options=record_route(2, pointer=12)),
        "record route, far pointer": ip4(*THERE, options=record_route(2, pointer=40)),
        "record route without room": ip4(*THERE, options=record_route(0)),
        "NOOPs": ip4(*THERE, options=NOOP * 4),
        "NOOP then record route": ip4(*THERE, options=NOOP + record_route(2)),
        "router alert": ip4(*THERE, options=ROUTER_ALERT),
        "router alert value 1": ip4(*THERE, options=b"\x94\x04\x00\x01"),
        "END then zeros": ip4(*THERE, options=END * 4),
        "END then rubbish": ip4(*THERE, options=END + b"\x07\x01\x02"),
        "unknown option": ip4(*THERE, options=b"\x4f\x04\xaa\xbb"),
        "unknown copied option": ip4(*THERE, options=b"\xcf\x04\xaa\xbb"),
        "security": ip4(*THERE, options=bytes([130, 11]) + bytes(9)),
        "stream id": ip4(*THERE, options=b"\x88\x04\x00\x01"),
        "40 bytes": ip4(*THERE, options=NOOP + record_route(9)),
        "timestamp prespecified, not ours": ip4(
            *THERE, options=timestamp(3, address("10.9.9.9") + bytes(4))
        ),
        "timestamp full": ip4(*THERE, options=timestamp(0, bytes(4), pointer=9)),
        "timestamp full, overflow 14": ip4(
            *THERE, options=timestamp(0, bytes(4), pointer=9, overflow=14)
        ),
        "timestamp prespecified, full": ip4(*THERE, options=timestamp(3, bytes(8), pointer=13)),
        "timestamp type 2": ip4(*THERE, options=timestamp(2, bytes(8))),
        "timestamp type 7": ip4(*THERE, options=timestamp(7, bytes(8))),
    },
)
scenario(
    "timestamps written",
    "ipv4",
    router(),
    {
        "time only": ip4(*THERE, options=timestamp(0, bytes(8))),
        "with address": ip4(*THERE, options=timestamp(1, bytes(16))),
        "prespecified, ours": ip4(*THERE, options=timestamp(3, address("10.1.0.1") + bytes(4))),
        "prespecified, ours by the wrong side": ip4(
            *THERE, options=timestamp(3, address("10.0.0.1") + bytes(4))
        ),
        "echoed": ip4(*HERE, echo(), options=timestamp(0, bytes(12))),
        "echoed with address": ip4(*HERE, echo(), options=timestamp(1, bytes(24))),
    },
    ignore=("timestamp option",),
)
scenario(
    "options malformed",
    "ipv4",
    router(),
    {
        label: ip4(f"10.0.0.{k}", "10.1.0.2", options=options)
        for k, (label, options) in enumerate(
            {
                "record route pointer 0": record_route(2, pointer=0),
                "record route pointer 3": record_route(2, pointer=3),
                "record route length 2": b"\x07\x02\x01\x01",
                "record route with 3 bytes left": bytes([7, 10, 8]) + bytes(7) + NOOP * 2,
                "two record routes": record_route(1) + NOOP + record_route(1) + NOOP,
                "option length 0": b"\x4f\x00\x01\x01",
                "option length 1": b"\x4f\x01\x01\x01",
                "option longer than the header": b"\x4f\x05\x01\x01",
                "last byte an option": NOOP * 3 + b"\x07",
                "timestamp pointer 4": timestamp(0, bytes(8), pointer=4),
                "timestamp length 3": b"\x44\x03\x05\x01",
                "timestamp overflow 15": timestamp(0, bytes(4), pointer=9, overflow=15),
                "timestamp no room for both": timestamp(1, bytes(12), pointer=13),
                "router alert of 3": b"\x94\x03\x00\x01",
                "two timestamps": timestamp(2, bytes(4)) * 2,
            }.items(),
            2,
        )
    },
)
scenario(
    "options to the router",
    "ipv4",
    router("listen udp 0.0.0.0:2000"),
    {
        "record route": ip4(*HERE, options=record_route(2)),
        "router alert": ip4(*HERE, options=ROUTER_ALERT),
        "record route malformed": ip4(*HERE, options=record_route(2, pointer=0)),
        "END then rubbish": ip4(*HERE, options=END + b"\x07\x01\x02"),
    },
)
scenario(
    "source routes refused",
    "ipv4",
    router(),
    {
        "loose to us": ip4(*HERE, options=source_route(131, ("10.1.0.2",))),
        "strict to us": ip4(*HERE, options=source_route(137, ("10.1.0.2",))),
        "loose through us": ip4(*THERE, options=source_route(131, ("10.1.0.3",))),
        "used up": ip4(*HERE, options=source_route(131, ("10.1.0.2",), pointer=8)),
        "pointer 3": ip4(
            "10.0.0.3", "10.0.0.1", options=source_route(131, ("10.1.0.2",), pointer=3)
        ),
        "two of them": ip4(
            "10.0.0.4",
            "10.0.0.1",
            options=source_route(131, ("10.1.0.2",)) + source_route(137, ("10.1.0.2",)),
        ),
    },
)
scenario(
    "source routes accepted",
    "ipv4",
    router("net.ipv4.conf.all.accept_source_route = 1", "listen udp 0.0.0.0:2000"),
    {
        "loose to us": ip4(*HERE, options=source_route(131, ("10.1.0.2",))),
        "strict to us": ip4(*HERE, options=source_route(137, ("10.1.0.2",))),
        "strict not to us": ip4(*THERE, options=source_route(137, ("10.1.0.3",))),
        "loose not to us": ip4(*THERE, options=source_route(131, ("10.1.0.3",))),
        "used up": ip4(*HERE, options=source_route(131, ("10.1.0.2",), pointer=8)),
        "next is us again": ip4(*HERE, options=source_route(131, ("10.1.0.1", "10.1.0.2"))),
        "next is us, then end": ip4(*HERE, options=source_route(131, ("10.1.0.1",))),
        "next has no route": ip4(*HERE, options=source_route(131, ("99.0.0.1",))),
    },
)
scenario(
    "source routes recorded and answered",
    "ipv4",
    router("net.ipv4.conf.all.accept_source_route = 1", "ip route add 66.0.0.0/8 via 10.1.0.3"),
    {
        "forwarded with record route": ip4(
            *HERE, options=source_route(131, ("10.1.0.2",)) + NOOP + record_route(3)
        ),
        "forwarded with timestamps": ip4(
            *HERE, options=source_route(131, ("66.0.0.1",)) + NOOP + timestamp(1, bytes(16))
        ),
        "strict by a gateway": ip4(*HERE, options=source_route(137, ("66.0.0.1",))),
        "TTL over": ip4("10.0.0.3", "10.0.0.1", ttl=1, options=source_route(131, ("10.1.0.2",))),
        "too big": ip4(
            "10.0.0.4",
            "10.0.0.1",
            udp(payload=data(1480)),
            df=True,
            options=source_route(131, ("10.1.0.2", "10.1.0.4")),
        ),
        "echo at the end of a route": ip4(
            "10.0.0.2",
            "10.0.0.1",
            echo(),
            options=source_route(131, ("10.0.0.7", "10.0.0.8"), pointer=12),
        ),
        "echo through another router": ip4(
            "10.0.0.2",
            "10.0.0.1",
            echo(),
            options=source_route(131, ("10.1.0.7", "10.0.0.8"), pointer=12),
        ),
        "echo, sender in its own route": ip4(
            "10.0.0.2",
            "10.0.0.1",
            echo(),
            options=source_route(131, ("10.0.0.2", "10.0.0.8"), pointer=12),
        ),
        "closed port at the end of a route": ip4(
            "10.0.0.9",
            "10.0.0.1",
            udp(dport=9),
            options=source_route(137, ("10.0.0.7", "10.0.0.8"), pointer=12),
        ),
        "pointer inside an address": ip4(
            "10.0.0.10", "10.0.0.1", options=source_route(131, ("10.1.0.2",), pointer=6)
        ),
        "to a broadcast": ip4("10.0.0.2", "10.0.0.255", options=source_route(131, ("10.1.0.2",))),
        "next is a group": ip4(*HERE, options=source_route(131, ("224.0.0.1",))),
        "next is unroutable back": ip4(
            "99.0.0.1", "10.0.0.1", options=source_route(131, ("10.1.0.2",))
        ),
    },
    ignore=("timestamp option",),
)
scenario(
    "answers with options",
    "ipv4",
    router("ip route add 66.0.0.0/8 via 10.1.0.3"),
    {
        "closed port, timestamps": ip4(
            "10.0.0.2", "10.0.0.1", udp(dport=9), options=timestamp(0, bytes(12))
        ),
        "closed port, timestamps with address": ip4(
            "10.0.0.3", "10.0.0.1", udp(dport=9), options=timestamp(1, bytes(24))
        ),
        "record route with one slot": ip4("10.0.0.4", "10.0.0.1", echo(), options=record_route(1)),
        "record route, full": ip4(
            "10.0.0.4", "10.0.0.1", echo(), options=b"\x07\x07\x08\x0a\x00\x00\x09\x00"
        ),
        "timestamps, one slot": ip4("10.0.0.4", "10.0.0.1", echo(), options=timestamp(0, bytes(4))),
        "timestamps, one slot with address": ip4(
            "10.0.0.4", "10.0.0.1", echo(), options=timestamp(1, bytes(8))
        ),
        "prespecified, ours twice": ip4(
            "10.0.0.4",
            "10.0.0.1",
            echo(),
            options=bytes.fromhex("4414050300000000000000000000000000000000").replace(
                bytes(16), bytes.fromhex("0a000001000000000a01000100000000")
            ),
        ),
        "prespecified, ours then another's": ip4(
            "10.0.0.4",
            "10.0.0.1",
            echo(),
            options=bytes.fromhex("441405030a000001000000000a01000200000000"),
        ),
        "CIPSO": ip4(
            "10.0.0.4", "10.0.0.1", echo(), options=bytes.fromhex("860a00000001010400010000")
        ),
        "TTL over, answer by the other side": ip4(
            "66.0.0.1", "10.0.0.7", ttl=1, options=record_route(3)
        ),
        "router alert": ip4("10.0.0.4", "10.0.0.1", echo(), options=ROUTER_ALERT),
    },
    ignore=("timestamp option",),
)
scenario(
    "options stay in fragments when copied",
    "ipv4",
    router("ip link set r1 mtu 100"),
    {
        "record route and router alert": ip4(
            *THERE, udp(payload=data(150)), options=record_route(2) + NOOP + ROUTER_ALERT
        ),
        "unknown copied and uncopied": ip4(
            *THERE, udp(payload=data(150)), options=b"\x4f\x04\xaa\xbb\xcf\x04\xcc\xdd"
        ),
        "END in the middle": ip4(*THERE, udp(payload=data(150)), options=ROUTER_ALERT + END * 4),
    },
)

# MTU and fragments

_BIG = udp(payload=data(1400))
scenario(
    "forward to a smaller MTU",
    "ipv4",
    router("ip link set r1 mtu 1000"),
    {
        "DF clear": ip4(*THERE, _BIG),
        "DF": ip4(*THERE, _BIG, df=True),
        "exactly 1000, DF": ip4(*THERE, udp(payload=data(972)), df=True),
        "1001, DF": ip4("10.0.0.3", "10.1.0.2", udp(payload=data(973)), df=True),
        "1001, DF clear": ip4(*THERE, udp(payload=data(973))),
        "fragment in the middle": ip4(*THERE, data(1400), proto=17, offset=100, mf=True),
        "last fragment": ip4(*THERE, data(1400), proto=17, offset=100),
        "fragment with DF": ip4(*THERE, data(1400), proto=17, offset=0, mf=True, df=True),
        "later fragment with DF": ip4(*THERE, data(1400), proto=17, offset=9, mf=True, df=True),
        "TOS and reserved bit": ip4(*THERE, _BIG, tos=0x2C, reserved=True),
        "TCP": ip4(*THERE, tcp()),
        "ICMP error too big, DF": ip4("10.0.0.4", "10.1.0.2", icmp(3, 3, 0, data(1200)), df=True),
    },
)
scenario(
    "options of what is cut",
    "ipv4",
    router("ip link set r1 mtu 600"),
    {
        f"{name}, {where}": ip4(*THERE, data(1000), proto=17, options=options, **part)
        for name, options in (
            ("record route", record_route(3)),
            ("timestamp", timestamp(3, address("10.9.9.9") + bytes(4))),
            ("router alert", ROUTER_ALERT),
            ("all three", ROUTER_ALERT + record_route(2) + NOOP + b"\x4f\x04\xaa\xbb"),
        )
        for where, part in (
            ("whole", {}),
            ("first", {"mf": True}),
            ("middle", {"mf": True, "offset": 5}),
            ("last", {"offset": 40}),
        )
    },
)
scenario(
    "fragment edges",
    "ipv4",
    router("ip link set r1 mtu 68"),
    {
        f"payload {n}": ip4(*THERE, data(n), proto=200)
        for n in (48, 49, 55, 56, 57, 95, 96, 97, 200)
    },
)
scenario(
    "fragments forwarded whole",
    "ipv4",
    router(),
    {
        "first": ip4(*THERE, udp(payload=data(40)), mf=True, part=(0, 24)),
        "last": ip4(*THERE, udp(payload=data(40)), offset=3, part=(24, 48)),
    },
)
scenario(
    "route MTU",
    "ipv4",
    router(
        "ip route add 88.0.0.0/8 via 10.1.0.2 mtu 1200",
        "ip route add 89.0.0.0/8 via 10.1.0.2 mtu lock 700",
    ),
    {
        "unlocked": ip4("10.0.0.2", "88.0.0.1", _BIG),
        "unlocked, DF": ip4("10.0.0.2", "88.0.0.1", _BIG, df=True),
        "locked": ip4("10.0.0.3", "89.0.0.1", _BIG),
        "locked, DF": ip4("10.0.0.3", "89.0.0.1", _BIG, df=True),
    },
)
scenario(
    "too big with a zero-length tail",
    "ipv4",
    router("ip link set r1 mtu 1000"),
    {"padding does not count": ip4(*THERE, udp(payload=data(972)), df=True, trailer=data(64))},
)

# redirects

scenario(
    "redirect sent",
    "ipv4",
    router(),
    {"first": ip4("10.0.0.2", "10.0.0.3"), "second at once": ip4("10.0.0.2", "10.0.0.3")},
)
scenario(
    "redirect not sent",
    "ipv4",
    router(
        "ip route add 77.0.0.0/8 via 10.0.0.3",
        "ip route add 78.0.0.0/8 via 10.0.0.3",
    ),
    {
        "source not on link": ip4("66.0.0.6", "77.0.0.3"),
        "source on link, gateway": ip4("10.0.0.2", "77.0.0.3"),
        "source on link, expired": ip4("10.0.0.4", "77.0.0.3", ttl=1),
        "TTL 2": ip4("10.0.0.5", "77.0.0.3", ttl=2),
    },
)
scenario(
    "redirects off",
    "ipv4",
    router("net.ipv4.conf.all.send_redirects = 0", "net.ipv4.conf.r0.send_redirects = 0"),
    {"same link": ip4("10.0.0.2", "10.0.0.3")},
)
scenario(
    "redirects off on all only",
    "ipv4",
    router("net.ipv4.conf.all.send_redirects = 0"),
    {"same link": ip4("10.0.0.2", "10.0.0.3")},
)
scenario(
    "redirects without shared media",
    "ipv4",
    router(
        "net.ipv4.conf.all.shared_media = 0",
        "net.ipv4.conf.r0.shared_media = 0",
        "ip addr add 10.2.0.1/24 dev r0",
    ),
    {"same subnet": ip4("10.0.0.2", "10.0.0.3"), "other subnet": ip4("10.0.0.4", "10.2.0.3")},
)
scenario(
    "redirects share the clock of error routes",
    "ipv4",
    router(),
    {
        "redirected": ip4("10.0.0.2", "10.0.0.3"),
        "no route, at once": ip4("10.0.0.2", "99.0.0.1"),
        "no route, another sender": ip4("10.0.0.4", "99.0.0.1"),
    },
)
scenario(
    "redirects in a row",
    "ipv4",
    router(),
    Inject("r0", {"0": ip4("10.0.0.2", "10.0.0.3")}),
    Wait(0.07),
    Inject("r0", {"70 ms": ip4("10.0.0.2", "10.0.0.3")}),
    Wait(0.03),
    Inject("r0", {"100 ms": ip4("10.0.0.2", "10.0.0.3")}),
    Wait(0.15),
    Inject("r0", {"250 ms": ip4("10.0.0.2", "10.0.0.3")}),
)
