"""IPv6 fragments for this host: orders, duplicates, overlaps, holes, limits, headers, what is answered.

As in scenarios_frag4; lengths count the bytes behind the fragment header.
"""

from __future__ import annotations

from itertools import permutations

from ippath.verify.packets import (
    Upper, address, data, destination_options, echo6, eth, fragment_header, hop_by_hop, icmp6, ip6,
    routing, tcp, udp,
)  # fmt: skip
from ippath.verify.scenario import Inject, Run, Step, Wait
from tests.kernel.scenarios import ethernet, router, scenario
from tests.kernel.scenarios_frag4 import Piece, sized

A, B = "2001:db8:0::", "2001:db8:1::"
HERE = (A + "2", A + "1")
_LISTEN = "listen udp [::]:2000"
_SHORT = "net.ipv6.ip6frag_time = 1"
_EXPIRE = Wait(1.4, busy=True)


def piece(
    upper: Upper,
    first: int,
    length: int,
    more: int,
    pair: tuple[str, str] = HERE,
    *,
    ident: int = 0x12345678,
    before: tuple[tuple[int, bytes], ...] = (),
    number: int | None = None,
    bits: int = 0,
    **fields: object,
) -> bytes:
    """Bytes [first, first + length) of the datagram as a fragment; zeros follow its end.

    `before` are extension headers before the fragment header, `number` replaces the protocol in it,
    `bits` are the two reserved ones.
    """
    whole = upper.build(address(pair[0]), address(pair[1])) + bytes(70_000)
    kind, header = fragment_header(first // 8, bool(more), ident)
    header = header[:2] + bytes([header[2] | bits << 1]) + header[3:]
    return ip6(
        *pair, whole[first : first + length],
        last_header=upper.protocol if number is None else number,
        extensions=(*before, (kind, header)), **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def pieces(
    upper: Upper, *parts: Piece, pair: tuple[str, str] = HERE, **fields: object
) -> dict[str, bytes]:
    """Fragments of one datagram by label."""
    return {
        f"{k}: {first}+{length}{' more' if more else ''}": piece(
            upper, first, length, more, pair, **fields  # type: ignore[arg-type]
        )
        for k, (first, length, more) in enumerate(parts, 1)
    }  # fmt: skip


def fragments(
    name: str, size: int, *parts: Piece, then: tuple[Step | dict[str, bytes], ...] = ()
) -> None:
    """A scenario with fragments of one UDP datagram of `size` bytes, and what follows."""
    scenario(
        f"v6 fragments: {name}",
        "frag6",
        router(_LISTEN, _SHORT),
        pieces(sized(size), *parts),
        *then,
    )


_THREE = ((0, 1000, 1), (1000, 1000, 1), (2000, 500, 0))
for order in permutations(range(3)):
    named = ", ".join("first middle last".split()[k] for k in order)
    fragments(named, 2500, *(_THREE[k] for k in order))
fragments("two", 1332, (0, 1232, 1), (1232, 100, 0))
fragments("of 8 bytes", 40, (16, 8, 1), (0, 8, 1), (32, 8, 0), (8, 8, 1), (24, 8, 1))
fragments("duplicate in order", 20, (0, 8, 1), (8, 8, 1), (8, 8, 1), (16, 4, 0))
fragments("first twice", 1240, (0, 1232, 1), (0, 1232, 1), (1232, 8, 0))
fragments("duplicate over two of a run", 24, (0, 8, 1), (8, 8, 1), (0, 16, 1), (16, 8, 0))
fragments("duplicate of the tail", 24, (0, 8, 1), (16, 8, 0), (16, 8, 0), (8, 8, 1))
fragments("overlap from behind", 24, (0, 16, 1), (8, 16, 1), (16, 8, 0), then=(_EXPIRE,))
fragments("overlap from the front", 32, (8, 16, 1), (0, 16, 1), (24, 8, 0), then=(_EXPIRE,))
fragments("overlap around", 40, (8, 8, 1), (0, 24, 1), (24, 16, 0), then=(_EXPIRE,))
fragments("overlap of two runs", 40, (0, 8, 1), (16, 8, 1), (0, 24, 1), then=(_EXPIRE,))
fragments("overlap with the last", 1324, (0, 1232, 1), (1224, 100, 0), then=(_EXPIRE,))
fragments("overlap, then all again", 24, (0, 16, 1), (8, 16, 1), (0, 16, 1), (16, 8, 0))
fragments("length no multiple of 8", 1000, (0, 100, 1), then=(_EXPIRE,))
fragments(
    "length no multiple of 8 kills", 1000, (0, 104, 1), (104, 99, 1), (104, 896, 0), then=(_EXPIRE,)
)
fragments("header only", 100, (8, 0, 0), then=(_EXPIRE,))
fragments("header only, more", 100, (8, 0, 1), then=(_EXPIRE,))
fragments("whole, then the first again", 32, (0, 16, 1), (16, 16, 0), (0, 16, 1), then=(_EXPIRE,))
fragments("beyond the last", 32, (16, 8, 0), (24, 8, 1), then=(_EXPIRE,))
fragments("last before the end", 32, (16, 8, 0), (8, 8, 0), then=(_EXPIRE,))
fragments("last behind the last", 32, (16, 8, 0), (16, 16, 0), then=(_EXPIRE,))
fragments("duplicate that is the last", 16, (0, 16, 1), (8, 8, 0), then=(_EXPIRE,))
fragments("hole", 3000, (0, 1480, 1), (2960, 40, 0), then=(_EXPIRE,))
fragments("hole at the front", 3000, (1480, 1480, 1), (2960, 40, 0), then=(_EXPIRE,))
fragments("beyond 65535", 65535, (0, 1480, 1), (65528, 16, 0), (1480, 40, 0), then=(_EXPIRE,))
fragments("at 65535", 65535, (65528, 7, 0), then=(_EXPIRE,))

_LARGE = tuple((k, 16_000, 1) for k in range(0, 64_000, 16_000))
fragments("65535 bytes of payload", 65_535, *_LARGE, (64_000, 1_535, 0))
scenario(
    "v6 fragments: headers make it too large",
    "frag6",
    router(_LISTEN, _SHORT),
    {"first": piece(sized(65_535), 0, 16_000, 1, before=(hop_by_hop(b""),))}
    | pieces(sized(65_535), *_LARGE[1:], (64_000, 1_535, 0)),
)

# atomic fragments, reserved bits

scenario(
    "v6 fragments: atomic ones between",
    "frag6",
    router(_LISTEN, _SHORT),
    {
        "first": piece(sized(100), 0, 56, 1),
        "atomic, same identification": piece(sized(40), 0, 40, 0),
        "atomic, reserved bits": piece(sized(40), 0, 40, 0, bits=3),
        "last, reserved bits": piece(sized(100), 56, 44, 0, bits=3),
    },
)

# which header is missing

for what, upper in (
    ("UDP", udp(payload=data(100))), ("TCP", tcp()), ("ICMPv6", echo6(body=data(100))),
    ("another protocol", Upper(200, lambda src, dst: data(100))),
    ("an unknown header", Upper(253, lambda src, dst: data(100))),
):  # fmt: skip
    scenario(
        f"v6 fragments: header of {what} missing",
        "frag6",
        router(_LISTEN, _SHORT),
        {
            f"first with {length} bytes": piece(upper, 0, length, 1, ident=length)
            for length in (0, 1, 4, 7, 8, 16, 20, 24)
        },
        {
            f"later with {length} bytes": piece(upper, 8, length, 1, ident=100 + length)
            for length in (1, 8)
        },
        _EXPIRE,
    )
scenario(
    "v6 fragments: options in the first fragment",
    "frag6",
    router(_LISTEN, _SHORT),
    {
        "options only": piece(Upper(60, lambda src, dst: b"\x11\x00\x01\x04" + bytes(4)), 0, 8, 1),
        "options run over": piece(
            Upper(60, lambda src, dst: b"\x11\x01\x01\x0c" + bytes(12)), 0, 8, 1, ident=2
        ),
        "no next header": piece(Upper(59, lambda src, dst: data(8)), 0, 8, 1, ident=3),
    },
    _EXPIRE,
)

# headers before and behind

_OPTIONS = hop_by_hop(b"\x01\x04" + bytes(4))
scenario(
    "v6 fragments: headers before the fragment header",
    "frag6",
    router(_SHORT),
    {
        "hop-by-hop, first": piece(sized(100, 9), 0, 56, 1, before=(_OPTIONS,), ident=1),
        "hop-by-hop of 16 bytes, last": piece(
            sized(100, 9), 56, 44, 0, before=(hop_by_hop(bytes([1, 12]) + bytes(12)),), ident=1
        ),
        "none, last": piece(sized(100, 9), 56, 44, 0, ident=2),
        "routing and options, first": piece(
            sized(100, 9), 0, 56, 1, before=(routing(0, 0), destination_options(b"")), ident=2
        ),
    },
)
_INNER = destination_options(b"")
_BEHIND = Upper(60, lambda src, dst: bytes([17]) + _INNER[1] + sized(92, 9).build(src, dst))
scenario(
    "v6 fragments: options behind the fragment header",
    "frag6",
    router(_SHORT),
    pieces(_BEHIND, (0, 56, 1), (56, 44, 0)),
)
scenario(
    "v6 fragments: fragment header within",
    "frag6",
    router(_LISTEN, _SHORT),
    pieces(
        Upper(44, lambda src, dst: bytes([17, 0, 0, 0, 0, 0, 0, 1]) + sized(92).build(src, dst)),
        (0, 56, 1), (56, 44, 0),
    ),
    {
        "atomic, then fragment": ip6(
            *HERE, sized(40), extensions=(fragment_header(0, False), fragment_header(0, True, 9))
        ),
    },
)  # fmt: skip
scenario(
    "v6 fragments: next header of the first",
    "frag6",
    router(_SHORT),
    {
        "last says ICMPv6": piece(sized(100, 9), 56, 44, 0, number=58),
        "first says UDP": piece(sized(100, 9), 0, 56, 1),
    },
)
scenario(
    "v6 fragments: payload length 0 and short",
    "frag6",
    router(_LISTEN),
    {
        "length 0": ip6(
            *HERE, sized(100), part=(0, 56), extensions=(fragment_header(0, True),), length=0
        ),
        "4 bytes of the header": ip6(
            *HERE, sized(100), part=(0, 56), extensions=(fragment_header(0, True),), length=4
        ),
        "the header alone": ip6(
            *HERE, sized(100), part=(0, 56), extensions=(fragment_header(0, True),), length=8
        ),
        "trailing bytes": piece(sized(100), 0, 56, 1, trailer=data(8)),
        "last": piece(sized(100), 56, 44, 0),
    },
)

# different datagrams

scenario(
    "v6 fragments: sources, destinations and identifications apart",
    "frag6",
    router(_LISTEN, _SHORT),
    {
        "it, first": piece(sized(100), 0, 56, 1),
        "::3": piece(sized(100), 56, 44, 0, (A + "3", A + "1")),
        "to the other address": piece(sized(100), 56, 44, 0, (A + "2", B + "1")),
        "other identification": piece(sized(100), 56, 44, 0, ident=9),
        "it, last": piece(sized(100), 56, 44, 0),
    },
    _EXPIRE,
)
scenario(
    "v6 fragments: by two devices",
    "frag6",
    router(_LISTEN, _SHORT),
    Inject("r0", {"first": piece(sized(100), 0, 56, 1)}),
    Inject("r1", {"last": piece(sized(100), 56, 44, 0)}),
)
_GROUP = (A + "2", "ff02::1")
scenario(
    "v6 fragments: to a group, by two devices",
    "frag6",
    router(_LISTEN, _SHORT),
    Inject("r0", {"first": piece(sized(100), 0, 56, 1, _GROUP)}),
    Inject("r1", {"last": piece(sized(100), 56, 44, 0, _GROUP)}),
    Inject("r0", {"last": piece(sized(100), 56, 44, 0, _GROUP)}),
    _EXPIRE,
)
_LINK = ("fe80::2", "fe80::1")
scenario(
    "v6 fragments: link-local, by two devices",
    "frag6",
    router("ip addr add fe80::1/64 dev r0", "ip addr add fe80::1/64 dev r1", _LISTEN, _SHORT),
    Inject("r0", {"first": piece(sized(100), 0, 56, 1, _LINK)}),
    Inject("r1", {"last": piece(sized(100), 56, 44, 0, _LINK)}),
    Inject("r0", {"last": piece(sized(100), 56, 44, 0, _LINK)}),
    _EXPIRE,
)
for gone, stays, net in (("r0", "r1", B), ("r1", "r0", A)):
    _pair = (f"{net}2", "2001:db8:9::1")
    scenario(
        f"v6 fragments: {gone} is deleted",
        "frag6",
        router(
            "ip addr add 2001:db8:9::1/128 dev lo", "listen udp [2001:db8:9::1]:2000",
            f"listen udp [::]:2000 dev {stays}", _SHORT,
        ),
        Inject(gone, {"waits in vain": piece(sized(100), 0, 56, 1, _pair, ident=1)}),
        Inject(gone, {"first": piece(sized(100), 0, 56, 1, _pair, ident=2)}),
        Inject(stays, {"waits": piece(sized(100), 0, 56, 1, _pair, ident=3)}),
        Run((f"ip link del {gone}",)),
        Inject(stays, {"last": piece(sized(100), 56, 44, 0, _pair, ident=2)}),
        _EXPIRE,
    )  # fmt: skip
scenario(
    "v6 fragments: interleaved",
    "frag6",
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
    "echo": echo6(body=data(1400)),
    "closed port": sized(1408, 9),
    "wrong checksum": udp(payload=data(1400), damage=1),
    "UDP length 100": udp(payload=data(1400), length=100),
    "no checksum": udp(payload=data(1400), check=0),
    "UDP-Lite": udp(payload=data(1400), protocol=136, length=20),
    "ICMPv6 error": icmp6(1, 4, 0, ip6(A + "1", A + "2", udp(2000, 9)) + data(1344)),
    "unknown protocol": Upper(200, lambda src, dst: data(1408)),
    "neighbour advertisement": icmp6(136, 0, 0, data(1400)),
}.items():
    scenario(
        f"v6 fragments: {what}", "frag6", router(_LISTEN, _SHORT), pieces(upper, *_PARTS, hops=255)
    )
scenario(
    "v6 fragments: group not joined, and joined",
    "frag6",
    router(_LISTEN, "join ff05::99 dev r0", _SHORT),
    pieces(sized(1408), *_PARTS, pair=(A + "2", "ff05::99")),
    pieces(sized(1408), *_PARTS, pair=(A + "2", "ff05::98")),
)
scenario(
    "v6 fragments: hop limit and class of the first",
    "frag6",
    router(_SHORT),
    {
        "last": piece(sized(1408, 9), 1200, 208, 0, hops=7, traffic_class=0x40, label=5),
        "first": piece(sized(1408, 9), 0, 1200, 1, hops=1, traffic_class=0x80, label=9),
    },
)
for what, marks in {
    "ECT(0) and CE": (2, 3),
    "CE and ECT(1)": (3, 1),
    "ECT(0) and ECT(1)": (2, 1),
    "CE and CE": (3, 3),
    "not-ECT and ECT(0)": (0, 2),
    "not-ECT and CE": (0, 3),
    "ECT(1) and not-ECT": (1, 0),
}.items():
    scenario(
        f"v6 fragments: ECN {what}",
        "frag6",
        router(_SHORT),
        {
            "first": piece(sized(100, 9), 0, 56, 1, traffic_class=marks[0]),
            "last": piece(sized(100, 9), 56, 44, 0, traffic_class=marks[1]),
        },
    )

# time exceeded

scenario(
    "v6 fragments: time exceeded",
    "frag6",
    router(_SHORT),
    {
        "1400 bytes": piece(sized(3000), 0, 1400, 1, ident=1),
        "8 bytes": piece(sized(1000), 0, 8, 1, ident=2),
        "ICMPv6 echo": piece(echo6(body=data(92)), 0, 56, 1, ident=3),
        "ICMPv6 error": piece(icmp6(1, 3, 0, data(92)), 0, 56, 1, ident=4),
        "to a group": piece(sized(1000), 0, 80, 1, (A + "2", "ff02::1"), ident=5),
        "source without route": piece(sized(1000), 0, 80, 1, ("2001:db8:77::1", A + "1"), ident=6),
    },
    _EXPIRE,
)
scenario(
    "v6 fragments: time exceeded, rate limit",
    "frag6",
    router(_SHORT),
    *(  # apart, so that they run out in order
        step
        for k in range(10)
        for step in ({f"{k}": piece(sized(1000), 0, 80, 1, ident=k)}, Wait(0.05))
    ),
    _EXPIRE,
)
scenario(
    "v6 fragments: time exceeded on Ethernet",
    "frag6",
    ethernet(_SHORT),
    {
        "for us": eth(piece(sized(100), 0, 56, 1, ident=1)),
        "broadcast MAC": eth(piece(sized(100), 0, 56, 1, ident=2), "ff:ff:ff:ff:ff:ff"),
    },
    _EXPIRE,
)
scenario(
    "v6 fragments: time exceeded by the last one's device",
    "frag6",
    router(_SHORT),
    Inject("r0", {"first": piece(sized(100), 0, 56, 1)}),
    Inject("r1", {"duplicate": piece(sized(100), 0, 56, 1)}),
    _EXPIRE,
)

# limits

scenario(
    "v6 fragments: memory limit",
    "frag6",
    router(
        _LISTEN, _SHORT, "net.ipv6.ip6frag_low_thresh = 0", "net.ipv6.ip6frag_high_thresh = 2000"
    ),
    {
        "first of 1": piece(sized(100), 0, 56, 1, ident=1),  # 1016 bytes charged
        "first of 2": piece(sized(100), 0, 56, 1, ident=2),  # 2032
        "first of 3": piece(sized(100), 0, 56, 1, ident=3),
        "last of 1": piece(sized(100), 56, 44, 0, ident=1),
        "atomic": piece(sized(40), 0, 40, 0),
    },
    _EXPIRE,
    {
        "3 again": piece(sized(100), 0, 56, 1, ident=3),
        "last": piece(sized(100), 56, 44, 0, ident=3),
    },
)
for limit in (1016, 1015):
    scenario(
        f"v6 fragments: memory limit of {limit} bytes",
        "frag6",
        router(
            _LISTEN, "net.ipv6.ip6frag_low_thresh = 0", f"net.ipv6.ip6frag_high_thresh = {limit}"
        ),
        pieces(sized(100), (0, 56, 1), (56, 44, 0)),
    )
scenario(
    "v6 fragments: memory limit 0",
    "frag6",
    router(_LISTEN, "net.ipv6.ip6frag_low_thresh = 0", "net.ipv6.ip6frag_high_thresh = 0"),
    pieces(sized(100), (0, 56, 1), (56, 44, 0)),
    {"atomic": piece(sized(40), 0, 40, 0)},
)
scenario(
    "v6 fragments: time limit changed",
    "frag6",
    router(_LISTEN, _SHORT),
    {"a second": piece(sized(100), 0, 56, 1, ident=1)},
    Run(("net.ipv6.ip6frag_time = 60",)),
    {"60 seconds": piece(sized(100), 0, 56, 1, ident=2)},
    _EXPIRE,
    {
        "too late": piece(sized(100), 56, 44, 0, ident=1),
        "in time": piece(sized(100), 56, 44, 0, ident=2),
    },
)
