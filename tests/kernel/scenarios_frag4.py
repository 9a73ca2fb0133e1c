"""IPv4 fragments for this host: orders, duplicates, overlaps, holes, limits, ECN, what is answered.

A fragment is (first byte, length, more follow); lengths count the bytes behind the IP header.  Where
the datagram is to arrive whole it is one of `sized`, whose checksum tells whether it did.
"""

from __future__ import annotations

from itertools import permutations

from ippath.verify.packets import (
    ROUTER_ALERT, Upper, address, data, echo, eth, icmp, ip4, record_route, timestamp, udp,
)  # fmt: skip
from ippath.verify.scenario import Inject, Run, Step, Wait
from tests.kernel.scenarios import ethernet, router, scenario  # fmt: skip

HERE = ("10.0.0.2", "10.0.0.1")
_LISTEN = "listen udp 10.0.0.1:2000"
_SHORT = "net.ipv4.ipfrag_time = 1"
_EXPIRE = Wait(1.4, busy=True)
Piece = tuple[int, int, int]


def sized(size: int, dport: int = 2000) -> Upper:
    """A UDP datagram of `size` bytes, header included."""
    return udp(dport=dport, payload=data(size - 8))


def piece(
    upper: Upper,
    first: int,
    length: int,
    more: int,
    pair: tuple[str, str] = HERE,
    **fields: object,
) -> bytes:
    """Bytes [first, first + length) of the datagram as a fragment; zeros follow its end."""
    whole = upper.build(address(pair[0]), address(pair[1])) + bytes(70_000)
    body = whole[first : first + length]
    return ip4(
        *pair, body, proto=upper.protocol, offset=first // 8, mf=bool(more), **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def pieces(
    upper: Upper, *parts: Piece, pair: tuple[str, str] = HERE, **fields: object
) -> dict[str, bytes]:
    """Fragments of one datagram by label."""
    return {
        f"{k}: {first}+{length}{' more' if more else ''}": piece(
            upper, first, length, more, pair, **fields
        )
        for k, (first, length, more) in enumerate(parts, 1)
    }


def fragments(
    name: str, size: int, *parts: Piece, then: tuple[Step | dict[str, bytes], ...] = ()
) -> None:
    """A scenario with fragments of one UDP datagram of `size` bytes, and what follows."""
    scenario(
        f"fragments: {name}", "frag4", router(_LISTEN, _SHORT), pieces(sized(size), *parts), *then
    )


_THREE = ((0, 1000, 1), (1000, 1000, 1), (2000, 500, 0))
for order in permutations(range(3)):
    named = ", ".join("first middle last".split()[k] for k in order)
    fragments(named, 2500, *(_THREE[k] for k in order))
fragments("two", 2000, (0, 1480, 1), (1480, 520, 0))
fragments("eight, every other one first", 800, *(
    (100 * k - 4 * (k % 2), 104 - 8 * (k % 2) if k < 7 else 800 - 696, int(k < 7))
    for k in (0, 2, 4, 6, 1, 3, 5, 7)
))  # fmt: skip
fragments("of 8 bytes", 40, (16, 8, 1), (0, 8, 1), (32, 8, 0), (8, 8, 1), (24, 8, 1))
fragments("duplicate in order", 20, (0, 8, 1), (8, 8, 1), (8, 8, 1), (16, 4, 0))
fragments("duplicate within a run", 2000, (0, 1480, 1), (8, 16, 1), (1480, 520, 0))
fragments("duplicate over two of a run", 24, (0, 8, 1), (8, 8, 1), (0, 16, 1), (16, 8, 0))
fragments("duplicate of the first of two runs", 32, (0, 8, 1), (16, 16, 0), (0, 8, 1), (8, 8, 1))
fragments("duplicate of the tail", 24, (0, 8, 1), (16, 8, 0), (16, 8, 0), (8, 8, 1))
fragments("overlap from behind", 24, (0, 16, 1), (8, 16, 1), then=(_EXPIRE,))
fragments("overlap, then the rest", 24, (0, 16, 1), (8, 16, 1), (16, 8, 0), then=(_EXPIRE,))
fragments("overlap from the front", 32, (8, 16, 1), (0, 16, 1), (24, 8, 0), then=(_EXPIRE,))
fragments("overlap around", 40, (8, 8, 1), (0, 24, 1), (24, 16, 0), then=(_EXPIRE,))
fragments("overlap of two runs", 40, (0, 8, 1), (16, 8, 1), (0, 24, 1), then=(_EXPIRE,))
fragments(
    "overlap of two runs that touch", 40, (0, 24, 1), (32, 8, 1), (24, 8, 1), (24, 16, 1),
    then=(_EXPIRE,),
)  # fmt: skip
fragments("overlap with more of the same", 16, (0, 8, 1), (0, 16, 1), then=(_EXPIRE,))
fragments("overlap of the last", 24, (0, 16, 1), (8, 16, 0), then=(_EXPIRE,))
fragments("overlap, then all again", 24, (0, 16, 1), (8, 16, 1), (0, 16, 1), (16, 8, 0))
fragments("length no multiple of 8", 1010, (0, 1003, 1), (1000, 10, 0))
fragments("7 bytes and more", 100, (0, 7, 1), then=(_EXPIRE,))
fragments("header only", 100, (8, 0, 0), then=(_EXPIRE,))
fragments("header only, more", 100, (8, 0, 1), then=(_EXPIRE,))
fragments("whole, then the first again", 32, (0, 16, 1), (16, 16, 0), (0, 16, 1), then=(_EXPIRE,))
fragments("beyond the last", 32, (16, 8, 0), (24, 8, 1), then=(_EXPIRE,))
fragments("last before the end", 32, (16, 8, 0), (8, 8, 0), then=(_EXPIRE,))
fragments("last behind the last", 32, (16, 8, 0), (16, 16, 0), then=(_EXPIRE,))
fragments("last before what is held", 32, (16, 8, 1), (8, 8, 0), then=(_EXPIRE,))
fragments("duplicate that is the last", 16, (0, 16, 1), (8, 8, 0), then=(_EXPIRE,))
fragments(
    "duplicate that is the last, then more", 16, (0, 16, 1), (8, 8, 0), (16, 8, 1), then=(_EXPIRE,)
)
fragments("hole", 3000, (0, 1480, 1), (2960, 40, 0), then=(Wait(0.5), _EXPIRE))
fragments("hole at the front", 3000, (1480, 1480, 1), (2960, 40, 0), then=(_EXPIRE,))
fragments("only the last", 100, (96, 4, 0), then=(_EXPIRE,))
fragments("far end", 65535, (65528, 8, 1), then=(_EXPIRE,))
fragments("timer not renewed", 3000, (0, 1480, 1), then=(
    Wait(0.6), pieces(sized(3000), (2960, 40, 0)), Wait(0.7, busy=True),
    pieces(sized(3000), (1480, 1480, 1)),
))  # fmt: skip

_LARGE = tuple((k, 16_000, 1) for k in range(0, 64_000, 16_000))
for size, what in ((65_515, "65535 bytes"), (65_516, "65536 bytes")):
    scenario(
        f"fragments: {what} in all",
        "frag4",
        router("listen udp 10.0.0.1:2000", _SHORT),
        pieces(sized(size), *_LARGE, (64_000, size - 64_000, 0)),
    )
scenario(
    "fragments: header with options makes it too large",
    "frag4",
    router("listen udp 10.0.0.1:2000", _SHORT),
    {"first, router alert": piece(sized(65_515), 0, 16_000, 1, options=ROUTER_ALERT)}
    | pieces(sized(65_515), *_LARGE[1:], (64_000, 1515, 0)),
)

# different datagrams

scenario(
    "fragments: two protocols with one identification",
    "frag4",
    router(_LISTEN, _SHORT),
    {
        "UDP, first": piece(sized(100), 0, 56, 1),
        "ICMP, first": piece(echo(body=data(92)), 0, 56, 1),
        "UDP, last": piece(sized(100), 56, 44, 0),
        "ICMP, last": piece(echo(body=data(92)), 56, 44, 0),
    },
)
scenario(
    "fragments: sources, destinations and identifications apart",
    "frag4",
    router("listen udp 0.0.0.0:2000", _SHORT),
    {
        "10.0.0.2": piece(sized(100), 0, 56, 1),
        "10.0.0.3": piece(sized(100), 56, 44, 0, ("10.0.0.3", "10.0.0.1")),
        "to 10.1.0.1": piece(sized(100), 56, 44, 0, ("10.0.0.2", "10.1.0.1")),
        "other identification": piece(sized(100), 56, 44, 0, ident=9),
        "it": piece(sized(100), 56, 44, 0),
    },
    _EXPIRE,
)
scenario(
    "fragments: by two devices",
    "frag4",
    router(_LISTEN, _SHORT),
    Inject("r0", {"first": piece(sized(100), 0, 56, 1)}),
    Inject("r1", {"last": piece(sized(100), 56, 44, 0)}),
    Inject("r0", {"first again": piece(sized(100), 0, 56, 1)}),
)
scenario(
    "fragments: by two devices, a socket bound to each",
    "frag4",
    router("listen udp 0.0.0.0:2000 dev r0", "listen udp 0.0.0.0:2000 dev r1", _SHORT),
    Inject("r0", {"first": piece(sized(100), 0, 56, 1)}),
    Inject("r1", {"last": piece(sized(100), 56, 44, 0)}),
    Inject("r0", {"last, other order": piece(sized(100), 56, 44, 0, ident=2)}),
    Inject("r1", {"first, other order": piece(sized(100), 0, 56, 1, ident=2)}),
)
for gone, stays, net in (("r0", "r1", 1), ("r1", "r0", 0)):
    _pair = (f"10.{net}.0.2", "10.9.0.1")
    scenario(
        f"fragments: {gone} is deleted",
        "frag4",
        router(
            "ip addr add 10.9.0.1/32 dev lo", "listen udp 10.9.0.1:2000",
            f"listen udp 0.0.0.0:2000 dev {stays}", _SHORT,
        ),
        Inject(gone, {"waits in vain": piece(sized(100), 0, 56, 1, _pair, ident=1)}),
        Inject(gone, {"first": piece(sized(100), 0, 56, 1, _pair, ident=2)}),
        Inject(stays, {"waits": piece(sized(100), 0, 56, 1, _pair, ident=3)}),
        Run((f"ip link del {gone}",)),
        Inject(stays, {"last": piece(sized(100), 56, 44, 0, _pair, ident=2)}),
        _EXPIRE,
    )  # fmt: skip
scenario(
    "fragments: interleaved",
    "frag4",
    router(_LISTEN, _SHORT),
    {
        f"{k} of {ident}": piece(sized(2000), first, length, more, ident=ident)
        for k, (first, length, more) in enumerate(((0, 800, 1), (800, 800, 1), (1600, 400, 0)))
        for ident in range(1, 6)
    },
)

# what the datagram is

_PARTS = ((0, 600, 1), (600, 600, 1), (1200, 208, 0))
for what, upper in {
    "echo": echo(body=data(1400)),
    "closed port": sized(1408, 9),
    "wrong checksum": udp(payload=data(1400), damage=1),
    "UDP length 100": udp(payload=data(1400), length=100),
    "UDP length 2000": udp(payload=data(1400), length=2000),
    "no checksum": udp(payload=data(1400), check=0),
    "UDP-Lite": udp(payload=data(1400), protocol=136, length=20),
    "ICMP error": icmp(3, 3, 0, ip4("10.0.0.1", "10.0.0.2", udp(2000, 9)) + data(1372)),
    "unknown protocol": Upper(200, lambda src, dst: data(1408)),
}.items():
    scenario(f"fragments: {what}", "frag4", router(_LISTEN, _SHORT), pieces(upper, *_PARTS))
scenario(
    "fragments: UDP header alone",
    "frag4",
    router(_LISTEN, _SHORT),
    pieces(sized(100), (0, 8, 1), (8, 92, 0)),
    pieces(udp(length=4, payload=b""), (0, 8, 1), (8, 8, 0), ident=5),
)
scenario(
    "fragments: to broadcast and group",
    "frag4",
    router("listen udp 0.0.0.0:2000", "join 224.1.1.1 dev r0", _SHORT),
    pieces(sized(1408), *_PARTS, pair=("10.0.0.2", "10.0.0.255")),
    pieces(sized(1408), *_PARTS, pair=("10.0.0.2", "224.1.1.1")),
    pieces(sized(1408), *_PARTS[:2], pair=("10.0.0.2", "10.0.0.255")),
    _EXPIRE,
)
scenario(
    "fragments: closed port, DF",
    "frag4",
    router(_SHORT),
    pieces(sized(1408, 9), *_PARTS, df=True, ident=1),
    {
        "no DF, large": piece(sized(1408, 9), 0, 1200, 1, ident=2),
        "DF, small": piece(sized(1408, 9), 1200, 208, 0, ident=2, df=True),
    },
    {
        "DF, large": piece(sized(1408, 9), 0, 1200, 1, ident=3, df=True),
        "no DF, small": piece(sized(1408, 9), 1200, 208, 0, ident=3),
        "reserved, first": piece(sized(1408, 9), 0, 1200, 1, ident=4, reserved=True),
        "reserved, last": piece(sized(1408, 9), 1200, 208, 0, ident=4, reserved=True),
    },
)
scenario(
    "fragments: TTL and TOS of the first",
    "frag4",
    router(_SHORT),
    {
        "last": piece(sized(1408, 9), 1200, 208, 0, ttl=7, tos=0x40, ident=1),
        "first": piece(sized(1408, 9), 0, 1200, 1, ttl=1, tos=0x80, ident=1),
        "first, TTL 0": piece(sized(1408, 9), 0, 1200, 1, ttl=0, ident=2),
        "last, TTL 0": piece(sized(1408, 9), 1200, 208, 0, ttl=0, ident=2),
    },
)
for what, marks in {
    "ECT(0) and CE": (2, 3),
    "CE and ECT(0)": (3, 2),
    "ECT(1) and CE": (1, 3),
    "ECT(0) and ECT(1)": (2, 1),
    "ECT(1) and ECT(0)": (1, 2),
    "CE and CE": (3, 3),
    "not-ECT and ECT(0)": (0, 2),
    "not-ECT and CE": (0, 3),
    "ECT(1) and not-ECT": (1, 0),
    "not-ECT alone": (0, 0),
}.items():
    scenario(
        f"fragments: ECN {what}",
        "frag4",
        router(_SHORT),
        {
            "first": piece(sized(100, 9), 0, 56, 1, tos=marks[0]),
            "last": piece(sized(100, 9), 56, 44, 0, tos=marks[1]),
        },
    )
scenario(
    "fragments: ECN all kinds",
    "frag4",
    router(_SHORT),
    {
        f"{k}, ECN {mark}": piece(sized(100, 9), first, length, more, tos=mark)
        for k, (mark, (first, length, more)) in enumerate(
            zip((2, 1, 3), ((0, 40, 1), (40, 40, 1), (80, 20, 0)))
        )
    },
)

# options

_RECORD = record_route(2)
scenario(
    "fragments: options of the first",
    "frag4",
    router(_SHORT),
    {
        "first, record route": piece(sized(100, 9), 0, 56, 1, options=_RECORD, ident=1),
        "last": piece(sized(100, 9), 56, 44, 0, ident=1),
        "last, record route": piece(sized(100, 9), 56, 44, 0, options=_RECORD, ident=2),
        "first": piece(sized(100, 9), 0, 56, 1, ident=2),
        "last of 3": piece(sized(100, 9), 56, 44, 0, ident=3),
        "first of 3, record route": piece(sized(100, 9), 0, 56, 1, options=_RECORD, ident=3),
    },
)
scenario(
    "fragments: echo with options",
    "frag4",
    router(_SHORT),
    {
        "first": piece(echo(body=data(92)), 0, 56, 1, options=_RECORD),
        "last": piece(echo(body=data(92)), 56, 44, 0),
    },
)
scenario(
    "fragments: options in time exceeded",
    "frag4",
    router(_SHORT),
    {
        "record route": piece(sized(100), 0, 56, 1, options=_RECORD, ident=1),
        "timestamp": piece(sized(100), 0, 56, 1, options=timestamp(0, bytes(8)), ident=2),
    },
    _EXPIRE,
    ignore=("timestamp option",),
)

# time exceeded

scenario(
    "fragments: time exceeded",
    "frag4",
    router(_SHORT),
    {
        "800 bytes": piece(sized(1000), 0, 800, 1, ident=1),
        "8 bytes": piece(sized(1000), 0, 8, 1, ident=2),
        "with 3 bytes cut": piece(sized(1000), 0, 11, 1, ident=3),
        "ICMP echo": piece(echo(body=data(92)), 0, 56, 1, ident=4),
        "ICMP error": piece(icmp(3, 3, 0, data(92)), 0, 56, 1, ident=5),
        "TOS": piece(sized(1000), 0, 80, 1, ident=6, tos=0xB9),
    },
    _EXPIRE,
)
scenario(
    "fragments: time exceeded, rate limit",
    "frag4",
    router(_SHORT),
    *(  # apart, so that they run out in order
        step
        for k in range(10)
        for step in ({f"{k}": piece(sized(1000), 0, 80, 1, ident=k)}, Wait(0.05))
    ),
    _EXPIRE,
)
scenario(
    "fragments: time exceeded, source without route",
    "frag4",
    router(_SHORT),
    {
        "no route": piece(sized(1000), 0, 80, 1, ("99.0.0.1", "10.0.0.1"), ident=1),
        "multicast MAC of none": piece(sized(1000), 0, 80, 1, ident=2),
    },
    _EXPIRE,
)
scenario(
    "fragments: route gone when time is up",
    "frag4",
    router("ip route add 99.0.0.0/8 via 10.0.0.3", _SHORT),
    {
        "from 99.0.0.1": piece(sized(1000), 0, 80, 1, ("99.0.0.1", "10.0.0.1"), ident=1),
    },
    _EXPIRE,
)
scenario(
    "fragments: time exceeded by the last one's device",
    "frag4",
    router(_SHORT),
    Inject("r0", {"first": piece(sized(100), 0, 56, 1)}),
    Inject("r1", {"middle": piece(sized(100), 64, 8, 1)}),
    _EXPIRE,
)
scenario(
    "fragments: time exceeded on Ethernet",
    "frag4",
    ethernet(_SHORT),
    {
        "for us": eth(piece(sized(100), 0, 56, 1, ident=1)),
        "broadcast MAC": eth(piece(sized(100), 0, 56, 1, ident=2), "ff:ff:ff:ff:ff:ff"),
    },
    _EXPIRE,
)
scenario(
    "fragments: padded frames",
    "frag4",
    ethernet(_LISTEN, _SHORT),
    {
        "first": eth(piece(sized(20), 0, 8, 1), padding=18),
        "middle": eth(piece(sized(20), 8, 8, 1), padding=18),
        "last": eth(piece(sized(20), 16, 4, 0), padding=22),
    },
)

# limits

scenario(
    "fragments: memory limit",
    "frag4",
    router(_LISTEN, _SHORT, "net.ipv4.ipfrag_low_thresh = 0", "net.ipv4.ipfrag_high_thresh = 2000"),
    {
        "first of 1": piece(sized(100), 0, 56, 1, ident=1),  # 1032 bytes charged
        "first of 2": piece(sized(100), 0, 56, 1, ident=2),  # 2064
        "first of 3": piece(sized(100), 0, 56, 1, ident=3),
        "last of 1": piece(sized(100), 56, 44, 0, ident=1),
        "not a fragment": ip4(*HERE, sized(100)),
    },
    _EXPIRE,
    {
        "3 again": piece(sized(100), 0, 56, 1, ident=3),
        "last": piece(sized(100), 56, 44, 0, ident=3),
    },
)
for limit in (1032, 1031):
    scenario(
        f"fragments: memory limit of {limit} bytes",
        "frag4",
        router(_LISTEN, "net.ipv4.ipfrag_low_thresh = 0", f"net.ipv4.ipfrag_high_thresh = {limit}"),
        pieces(sized(100), (0, 56, 1), (56, 44, 0)),
    )
for length, charged in (
    (172, 1032),
    (173, 1480),
    (620, 1480),
    (621, 2504),
    (1640, 2504),
    (1648, 4552),
):
    scenario(
        f"fragments: {length} bytes are charged as {charged}",
        "frag4",
        router(
            _LISTEN, "net.ipv4.ipfrag_low_thresh = 0",
            f"net.ipv4.ipfrag_high_thresh = {charged - 1}",
        ),
        {
            "first": piece(sized(5000), 0, length, 1),
            "refused if charged that much": piece(sized(100), 0, 8, 1, ident=1),
        },
    )  # fmt: skip
scenario(
    "fragments: memory limit 0",
    "frag4",
    router(_LISTEN, "net.ipv4.ipfrag_low_thresh = 0", "net.ipv4.ipfrag_high_thresh = 0"),
    pieces(sized(100), (0, 56, 1), (56, 44, 0)),
)
scenario(
    "fragments: memory limit above 2 GiB",
    "frag4",
    router(_LISTEN, "net.ipv4.ipfrag_high_thresh = 8589934592"),
    pieces(sized(100), (0, 56, 1), (56, 44, 0)),
)
scenario(
    "fragments: memory limit changed",
    "frag4",
    router(_LISTEN, _SHORT),
    {"first": piece(sized(100), 0, 56, 1)},
    Run(("net.ipv4.ipfrag_low_thresh = 0", "net.ipv4.ipfrag_high_thresh = 1000")),
    {"refused": piece(sized(100), 56, 44, 0)},
    Run(("net.ipv4.ipfrag_high_thresh = 2000",)),
    {"taken": piece(sized(100), 56, 44, 0)},
)
scenario(
    "fragments: time limit changed",
    "frag4",
    router(_LISTEN, _SHORT),
    {"a second": piece(sized(100), 0, 56, 1, ident=1)},
    Run(("net.ipv4.ipfrag_time = 30",)),
    {"30 seconds": piece(sized(100), 0, 56, 1, ident=2)},
    _EXPIRE,
    {
        "too late": piece(sized(100), 56, 44, 0, ident=1),
        "in time": piece(sized(100), 56, 44, 0, ident=2),
    },
)


def _others(count: int, base: int = 100) -> dict[str, bytes]:
    return {f"other {k}": piece(sized(100), 0, 56, 1, ident=base + k) for k in range(count)}


for most, between, what in (
    (3, 2, "2 between, 3 allowed"), (3, 3, "3 between, 3 allowed"), (1, 0, "none between"),
    (1, 1, "1 between, 1 allowed"), (0, 9, "no limit"), (64, 63, "63 between"),
    (64, 64, "64 between"),
):  # fmt: skip
    scenario(
        f"fragments: distance, {what}",
        "frag4",
        router(_LISTEN, f"net.ipv4.ipfrag_max_dist = {most}"),
        {"first": piece(sized(100), 0, 56, 1)},
        _others(between),
        {"last": piece(sized(100), 56, 44, 0), "first again": piece(sized(100), 0, 56, 1)},
    )
scenario(
    "fragments: distance counts by source",
    "frag4",
    router(_LISTEN, "net.ipv4.ipfrag_max_dist = 2"),
    {"first": piece(sized(100), 0, 56, 1)},
    {
        f"from 10.0.0.3, {k}": piece(sized(100), 0, 56, 1, ("10.0.0.3", "10.0.0.1"), ident=k)
        for k in range(4)
    },
    {"last": piece(sized(100), 56, 44, 0)},
)
scenario(
    "fragments: distance, timer begins again",
    "frag4",
    router(_LISTEN, _SHORT, "net.ipv4.ipfrag_max_dist = 1"),
    {"first": piece(sized(100), 0, 56, 1)},
    Wait(0.6),
    _others(2),
    {"last, too far": piece(sized(100), 56, 44, 0)},
    Wait(0.7, busy=True),
    {"first again": piece(sized(100), 0, 56, 1)},
)
scenario(
    "fragments: not for this host",
    "frag4",
    router(_SHORT),
    pieces(sized(100), (0, 56, 1), (56, 44, 0), pair=("10.0.0.2", "10.1.0.2")),
    Wait(0.05),
)
scenario(
    "fragments: errors before reassembly",
    "frag4",
    router(_LISTEN, _SHORT),
    {
        "wrong header checksum": piece(sized(100), 0, 56, 1, damage=1),
        "first": piece(sized(100), 0, 56, 1),
        "last, cut short": piece(sized(100), 56, 44, 0)[:50],
        "last, from a martian": piece(sized(100), 56, 44, 0, ("127.0.0.2", "10.0.0.1")),
        "last": piece(sized(100), 56, 44, 0),
    },
)
