"""What other systems test of reassembly, as tables: OpenBSD's regress/sys/netinet/frag and
netinet6/frag6, Linux's selftests ip_defrag and ipv6_fragmentation.

The cases are theirs, under their names; what is right here is what Linux answers.  Most send an echo
request of 24 bytes, of which `wrong` bytes at the start of a fragment are somebody else's.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import permutations

from ippath.verify.packets import (
    Upper, address, data, destination_options, echo, echo6, eth, fragment_header, hop_by_hop, ip4,
    ip6, udp,
)  # fmt: skip
from ippath.verify.scenario import Send, Step, Wait
from tests.kernel.scenarios import ethernet, router, scenario

HERE = {4: ("10.0.0.2", "10.0.0.1"), 6: ("2001:db8:0::2", "2001:db8:0::1")}
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcd"
_TIME = {4: "net.ipv4.ipfrag_time = 1", 6: "net.ipv6.ip6frag_time = 1"}
_LISTEN = ("listen udp 0.0.0.0:2000", "listen udp [::]:2000 v6only")
_EXPIRE = Wait(1.4, busy=True)
# what OpenBSD makes of it: the datagram, nothing, or something that depends on limits of its own
WHOLE, NOTHING, LIMITS = "whole", "nothing", "limits"


@dataclass(frozen=True)
class Part:
    """Bytes [first, first + length) of a message, the first `wrong` of them replaced."""

    first: int
    length: int
    more: bool
    wrong: int = 0


@dataclass(frozen=True)
class Case:
    """Fragments of an echo request of `size` bytes, in the order in which they come."""

    name: str
    parts: tuple[Part, ...]
    openbsd: str
    size: int = 24
    families: str = "46"


def _parts(*given: tuple[int, ...]) -> tuple[Part, ...]:
    return tuple(Part(one[0], one[1], bool(one[2]), *one[3:]) for one in given)


def _boundary(size: int, boundary: int = 4096) -> list[tuple[int, ...]]:
    return [(k, size, 1) for k in range(0, boundary - size, size)]


CASES = (
    Case("frag", _parts((0, 16, 1), (16, 8, 0)), WHOLE),
    Case("overhead0", _parts((0, 16, 1), (8, 16, 0, 8)), WHOLE),
    Case("overhead", _parts((0, 8, 1), (8, 8, 1), (8, 16, 0, 8)), WHOLE),
    Case("overhead1", _parts((0, 16, 1), (8, 8, 1, 8), (16, 8, 0)), WHOLE),
    Case("overtail0", _parts((8, 16, 0, 8), (0, 16, 1)), WHOLE),
    Case("overtail", _parts((16, 8, 0), (8, 8, 1, 8), (0, 16, 1)), WHOLE),
    Case("overtail1", _parts((8, 16, 0), (8, 8, 1, 8), (0, 8, 1)), WHOLE),
    Case("mf0long", _parts((8, 16, 0), (16, 16, 0, 16), (0, 8, 1)), WHOLE),
    Case("mf0middle", _parts((0, 16, 1), (8, 8, 0, 8), (16, 8, 0)), WHOLE),
    Case("mf0short", _parts((16, 16, 0), (8, 16, 0, 16), (0, 16, 1)), WHOLE, 32),
    Case("mf1end", _parts((16, 8, 0), (8, 16, 1, 16), (0, 16, 1)), WHOLE),
    Case("zerofirst", _parts((0, 0, 1), (0, 16, 1), (16, 8, 0)), WHOLE),
    Case("zerosecond", _parts((0, 16, 1), (0, 0, 1), (16, 8, 0)), WHOLE),
    Case("queuelimit, 64", _parts(*((k, 8, 1) for k in range(0, 504, 8)), (504, 64, 0)), WHOLE, 568),
    Case("queuelimit, 65", _parts(*((k, 8, 1) for k in range(0, 512, 8)), (512, 56, 0)), LIMITS, 568),
    Case("refrag", _parts((0, 16, 1), *((k, 32, 1) for k in range(16, 1584, 32)), (1584, 24, 0)), WHOLE, 1608),
    Case("overindex", _parts(*_boundary(512), (4088, 16, 0, 8), (3584, 512, 1)), WHOLE, 4104),
    Case("overlimit", _parts(
        *_boundary(512), *((k, 512, 1) for k in range(4096, 7680, 512)), (7680, 512, 0), (4088, 16, 1, 8), (3584, 512, 1),
    ), LIMITS, 8192),
    Case("overreplace", _parts(*_boundary(1024), (4088, 16, 1, 8), (3072, 1024, 1), (4096, 1024, 0)), WHOLE, 5120),
    Case("overdrop", _parts((0, 16, 1), (8, 16, 0, 16), (0, 8, 1), (8, 8, 1), (16, 8, 0)), LIMITS),
    *(
        Case(f"permute {order}", _parts(*(((0, 8, 1), (8, 8, 1), (16, 8, 0))[k] for k in order)), WHOLE)
        for order in permutations(range(3))
    ),
)  # fmt: skip


def message(family: int, size: int) -> Upper:
    """An echo request of `size` bytes."""
    body = (LETTERS * (size // len(LETTERS) + 1))[: size - 8]
    return echo(body=body) if family == 4 else echo6(body=body)


def packet(family: int, upper: Upper, part: Part, **fields: object) -> bytes:
    """The fragment of a part."""
    pair = HERE[family]
    whole = upper.build(address(pair[0]), address(pair[1])) + bytes(1000)
    body = whole[part.first : part.first + part.length]
    body = (b"01234567" * (part.wrong // 8)) + body[part.wrong :]
    return fragment(family, upper.protocol, part.first, body, part.more, **fields)


def fragment(
    family: int, protocol: int, first: int, body: bytes, more: bool, **fields: object
) -> bytes:
    """A fragment with any bytes."""
    if family == 4:
        return ip4(*HERE[4], body, proto=protocol, offset=first // 8, mf=more, **fields)  # type: ignore[arg-type]
    before = fields.pop("before", ())
    headers = (*before, fragment_header(first // 8, more))  # type: ignore[misc]
    return ip6(*HERE[6], body, last_header=protocol, extensions=headers, **fields)  # type: ignore[arg-type]


def packets(family: int, case: Case) -> dict[str, bytes]:
    """The fragments of a case by label."""
    upper = message(family, case.size)
    return {
        f"{k}: {p.first}+{p.length}{' more' if p.more else ''}": packet(family, upper, p)
        for k, p in enumerate(case.parts, 1)
    }


def _scenario(family: int, name: str, *steps: Step | dict[str, bytes]) -> None:
    host = router(*_LISTEN, *_TIME.values())
    scenario(f"v{family} regress: {name}", "regress", host, *steps)


for case in CASES:
    for family in map(int, case.families):
        _scenario(family, case.name, packets(family, case), _EXPIRE)

for family in (4, 6):
    # udpheader, udppayload: cut behind the header, cut within the data
    whole = udp(payload=LETTERS[:16])
    for label, at in (("udpheader", 8), ("udppayload", 16)):
        _scenario(family, label, {
            "first": packet(family, whole, Part(0, at, True)),
            "last": packet(family, whole, Part(at, 24 - at, False)),
        })  # fmt: skip
    # padding: bytes of the frame behind the packet
    two = [packet(family, message(family, 24), part) for part in _parts((0, 16, 1), (16, 8, 0))]
    scenario(f"v{family} regress: padding", "regress", ethernet(), {
        label: eth(one, padding=4) for label, one in zip(("first", "last"), two)
    })  # fmt: skip
    # timeout: six fragments, each in time behind the one before it; no answer
    six = [packet(family, message(family, 48), Part(k, 8, k < 40)) for k in range(0, 48, 8)]
    steps: list[Step | dict[str, bytes]] = []
    for k, one in enumerate(six):
        steps += [{f"{k}": one}, Wait(0.3, busy=True)]
    _scenario(family, "timeout", *steps)
    # maxlen: as large as it gets, in random order
    size, unit = (65_515, 424) if family == 4 else (65_535, 1200)
    cut = [Part(k, min(unit, size - k), k + unit < size) for k in range(0, size, unit)]
    random.Random(1).shuffle(cut)
    large = udp(payload=data(size - 8))
    _scenario(family, "maxlen", {f"{p.first}": packet(family, large, p) for p in cut})

_ECHO = message(4, 24)
_scenario(4, "opt", {
    "first, NOP": packet(4, _ECHO, Part(0, 16, True), options=b"\1"),
    "last": packet(4, _ECHO, Part(16, 8, False)),
})  # fmt: skip

_ECHO6 = message(6, 24)
_FIRST, _LAST = Part(0, 16, True), Part(16, 8, False)
_PAD = bytes([1, 12]) + bytes(12) + bytes([1, 6]) + bytes(6)
_scenario(6, "ext", {
    "first": packet(6, _ECHO6, _FIRST, before=(hop_by_hop(b""),)),
    "last": packet(6, _ECHO6, _LAST, before=(hop_by_hop(b""),)),
})  # fmt: skip
_scenario(6, "ext2long", {
    "first": packet(6, _ECHO6, _FIRST),
    "last, many headers": packet(
        6, _ECHO6, _LAST, before=(hop_by_hop(bytes([1, 28]) + bytes(28)), destination_options(b"")),
    ),
})  # fmt: skip
_scenario(6, "maxpacket", {
    "first": packet(6, _ECHO6, _FIRST),
    "behind the end": fragment(6, 58, 65528, bytes(8), False),
    "last": packet(6, _ECHO6, _LAST),
}, _EXPIRE)  # fmt: skip
_scenario(6, "maxpacket0", {
    "behind the end": fragment(6, 58, 65528, bytes(8), False),
    "first": packet(6, _ECHO6, _FIRST),
    "last": packet(6, _ECHO6, _LAST),
}, _EXPIRE)  # fmt: skip
_scenario(6, "mf0atomic", {
    "first": packet(6, _ECHO6, _FIRST),
    "atomic": packet(6, _ECHO6, Part(0, 8, False)),
    "last": packet(6, _ECHO6, _LAST),
})  # fmt: skip
_scenario(6, "overatomic", {
    "second": packet(6, _ECHO6, Part(8, 16, False, 16)),
    "atomic, all": packet(6, _ECHO6, Part(0, 24, False)),
}, _EXPIRE)  # fmt: skip
_scenario(6, "udpatomic", {
    "atomic": packet(6, udp(payload=LETTERS[:16]), Part(0, 24, False)),
})  # fmt: skip


def _behind(header: tuple[int, bytes]) -> tuple[int, bytes]:
    """(its number, header and echo request) for an extension header that is cut, too."""
    body = _ECHO6.build(address(HERE[6][0]), address(HERE[6][1]))
    return header[0], bytes([58]) + header[1] + body


for label, header, ends in (
    ("opt", destination_options(_PAD), (8,)),
    ("hop", hop_by_hop(b""), (24,)),
    ("shortatomic", destination_options(b""), (24,)),
):
    number, body = _behind(header)
    cuts = [0, *ends, len(body)]
    made = {
        f"{first}": fragment(6, number, first, body[first:end], end < len(body))
        for first, end in zip(cuts, cuts[1:])
    }
    if label == "shortatomic":
        made = {
            "first": made["0"],
            "atomic, no upper header": fragment(6, number, 0, body[:8], False),
            "last": made["24"],
        }
    _scenario(6, label, made, _EXPIRE)


# Linux: ip_defrag sends every other fragment, then the UDP header alone, then the rest; with
# overlaps one more fragment, anywhere, comes in between


def _ip_defrag(
    family: int, size: int, unit: int, extra: tuple[int, int] | None
) -> dict[str, bytes]:
    whole = udp(payload=data(size))
    chunks = [
        Part(8 + k, min(unit, size - k), size - k > unit) for k in range(0, size, unit)
    ]  # fmt: skip
    order = chunks[::2]
    if extra is not None:
        order.append(Part(extra[0] // 8 * 8, extra[1], True))
    order += [Part(0, 8, True), *chunks[1::2]]
    return {f"{k}: {p.first}+{p.length}": packet(family, whole, p) for k, p in enumerate(order)}


for family in (4, 6):
    for size, unit in ((64, 8), (100, 48), (1000, 104), (5000, 1280), (8000, 1400)):
        tracked = ("", "conntrack ")
        for prefix in tracked:
            lines = ("switch conntrack_defrag on",) if prefix else ()
            lines += ("net.netfilter.nf_conntrack_frag6_timeout = 1",)
            host = router(*_LISTEN, *_TIME.values(), *lines)
            name = f"v{family} regress: {prefix}ip_defrag {size} by {unit}"
            scenario(name, "regress", host, _ip_defrag(family, size, unit, None))
            chance = random.Random(size)
            for k in range(3):
                extra = (chance.randrange(8 + size - 1), 8 + 8 * chance.randrange(32))
                scenario(
                    f"{name}, overlap {k}", "regress", host,
                    _ip_defrag(family, size, unit, extra), _EXPIRE,
                )  # fmt: skip

# Linux: ipv6_fragmentation sends 8,192 bytes where the MTU is 1,500
_scenario(6, "ipv6_fragmentation", Send(1, bytes(8192), ("2001:db8:1::2", 9)))
