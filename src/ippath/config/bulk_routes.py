"""Long runs of plain routes in a host file, read at once: full tables of a million lines.

Lines of `ip route` that differ in their prefixes alone are judged by reading the first of them as any
other line; the rest become a block of arrays (`ippath.fib.blocks`).  Whatever is not that simple – a
prefix twice, a route that would lead to a gateway, a prefix that is wrong – goes line by line.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ippath.fib.routes import routes_of
from ippath.model import Host, Route

if TYPE_CHECKING:
    import numpy as np

    from ippath.fib.blocks import RouteBlock

LEAST_RUN = 500  # lines; shorter runs are not worth it
# verb or none as `ip` prints it, prefix, the rest of the line; neither types nor sources nor next hops
_LINE = re.compile(
    r"((?:(?:ip )?(?:-[46] )?(?:route|ro|r) (?:add|append|replace) )?"
    r"(?:(?:unreachable|prohibit|blackhole|throw) )?)([0-9a-fA-F.:]+)(?:/([0-9]{1,3}))?"
    r"((?: (?!(?:from|nexthop|nhid|encap|inet6|lladdr|to) )[\w.:@/-]+)*) ?"
)
_KINDS = ("unicast", "unreachable", "prohibit", "blackhole", "throw")


@dataclass
class Run:
    """Lines of one host file that stand together, all of them plain routes."""

    first: int  # number of the first line, from 1
    lines: list[str] = field(default_factory=list)
    # verb and type, address, length and the rest of each line
    words: list[tuple[str, str, str, str]] = field(default_factory=list)


def find_runs(written: list[str]) -> list[Run]:
    """The long runs among the lines of a file."""
    runs: list[Run] = []
    begin = 0
    words: list[Any] = []
    plain = _LINE.fullmatch
    for number, line in enumerate([*written, ""]):
        match = plain(line)
        if match is not None:
            words.append(match.groups(""))
            continue
        if number - begin > LEAST_RUN:
            # what follows may go on with the last line, as `nexthop` does
            runs.append(Run(begin + 1, written[begin : number - 1], words[:-1]))
        begin, words = number + 1, []
    return runs


def read_run(host: Host, run: Run, read_line: Callable[[int, str], Route | None]) -> None:
    """Add the routes of a run.

    `read_line` reads one line by its number as any other and returns the route that it brought, or
    None.
    """
    import numpy as np

    from ippath.fib.blocks import RouteBlock

    patterns: dict[tuple[str, bool, str], int] = {}
    routes: list[Route] = []
    # lines, patterns, addresses and lengths, by family
    simple: dict[bool, tuple[list[int], list[int], list[bytes], list[int]]] = {
        six: ([], [], [], []) for six in (False, True)
    }
    slow: set[tuple[str, bool, str]] = set()  # whose first line was refused, or is special

    def read(k: int) -> Route | None:
        return read_line(run.first + k, run.lines[k])

    for k, (verb, address, length, rest) in enumerate(run.words):
        six = ":" in address
        key = verb, six, rest
        number = patterns.get(key)
        if number is None:
            route = read(k)
            if key in slow:
                continue
            if route is None or route.type not in _KINDS or route.protocol == "kernel":
                slow.add(key)
            else:
                patterns[key] = len(routes)
                routes.append(route)
            continue
        try:
            packed = socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, address)
            plen = int(length) if length else 128 if six else 32
        except OSError:
            plen = 999
        if plen > (128 if six else 32):
            read(k)  # says what is wrong
            continue
        numbers, kinds, addresses, lengths = simple[six]
        numbers.append(k)
        kinds.append(number)
        addresses.append(packed)
        lengths.append(plen)
    for six, (numbers, kinds, addresses, lengths) in simple.items():
        if not numbers:
            continue
        prefix = _halves(b"".join(addresses), six)
        block = RouteBlock(
            6 if six else 4, prefix, np.array(lengths, np.uint8), np.array(kinds, np.int32), routes
        )
        if _valid(block).all() and not _clashes(host, block) and not _leads_astray(host, block):
            routes_of(host).add_block(block)
        else:
            for k in numbers:
                read(k)


def _halves(packed: bytes, six: bool) -> np.ndarray:
    import numpy as np

    if six:
        return np.frombuffer(packed, ">u8").astype(np.uint64).reshape(-1, 2)
    halves = np.zeros((len(packed) // 4, 2), np.uint64)
    halves[:, 1] = np.frombuffer(packed, ">u4")
    return halves


def _valid(block: RouteBlock) -> np.ndarray:
    """Which prefixes have no bits behind their length."""
    import numpy as np

    high, low = _masks(block.plen.astype(np.int64), block.family)
    return (block.prefix[:, 0] & ~high == 0) & (block.prefix[:, 1] & ~low == 0)


def _masks(plen: np.ndarray, family: int) -> tuple[np.ndarray, np.ndarray]:
    """The network masks of these lengths as halves (of IPv4 the low half alone)."""
    import numpy as np

    full = np.uint64(0xFFFFFFFFFFFFFFFF)
    if family == 4:
        free = (32 - plen).astype(np.uint64)
        return np.zeros(len(plen), np.uint64), full << free
    behind_high = np.clip(64 - plen, 0, 64).astype(np.uint64)
    behind_low = np.clip(128 - plen, 0, 64).astype(np.uint64)
    most = np.uint64(63)
    return (
        np.where(behind_high > most, np.uint64(0), full << np.minimum(behind_high, most)),
        np.where(behind_low > most, np.uint64(0), full << np.minimum(behind_low, most)),
    )


def _clashes(host: Host, block: RouteBlock) -> bool:
    """Whether a route has an equal (table, prefix, TOS, metric) in the block or on the host."""
    import numpy as np

    places: dict[tuple[int, int, int], int] = {}
    of_pattern = np.array(
        [places.setdefault((p.table, p.tos, p.metric), len(places)) for p in block.patterns]
    )
    columns = (block.plen, block.prefix[:, 1], block.prefix[:, 0], of_pattern[block.pattern])
    if block.family == 4 and len(places) == 1:
        order = np.argsort(block.prefix[:, 1] << np.uint64(8) | block.plen)
    else:
        order = np.lexsort(columns)
    same = np.ones(max(len(order) - 1, 0), bool)
    for column in columns:
        same &= column[order[1:]] == column[order[:-1]]
    if same.any():
        return True
    routes = routes_of(host)
    for other in routes.singles():
        if other.family == block.family and (other.table, other.tos, other.metric) in places:
            if block.at(other.table, other.prefix, other.plen):
                return True
    mine: set[tuple[int, int, int]] = set()
    for before in routes.blocks:
        if before.family == block.family:
            mine = mine or _keys(block)
            if mine & _keys(before.rest()):
                return True
    return False


def _keys(block: RouteBlock) -> set[tuple[int, int, int]]:
    return set(zip(block.prefix[:, 0].tolist(), block.prefix[:, 1].tolist(), block.plen.tolist()))


def _leads_astray(host: Host, block: RouteBlock) -> bool:
    """Whether a route of the block holds a gateway more closely than what leads there now."""
    from ippath.fib.reference import reference_lookup

    gateways = {
        (hop.gateway_family, hop.gateway)
        for pattern in block.patterns
        for hop in pattern.nexthops
        if hop.gateway is not None
    }
    for family, gateway in gateways:
        if family != block.family or gateway is None:
            continue
        found = reference_lookup(host, family, gateway, ignore_linkdown=True).route
        reach = found.plen if found is not None else -1
        bits = 32 if family == 4 else 128
        for plen in block.lengths():
            free = bits - plen
            if plen > reach and len(block.rows_of(gateway >> free << free, plen)):
                return True
    return False
