"""Routes as `ip route show` prints them: the order of the kernel's dump, the words, the JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ippath.config.draft import Draft
from ippath.config.ip_route import TYPES, take_protocol
from ippath.config.values import (
    BITS, SCOPE_NAMES, address_text, device_name, prefix_in, prefix_text, scope_text, table_text,
    take_address, take_named, take_number,
)  # fmt: skip
from ippath.config.words import Reader, Wrong, find_keyword, nearest
from ippath.model import SCOPE_UNIVERSE, TABLE_MAIN, Host, Nexthop, Route

TABLE_BUCKETS = 256  # the kernel dumps tables by the low bits of their numbers (fib_table_hash)
REJECTING = ("blackhole", "unreachable", "prohibit", "throw")
_KEYWORDS = ("table", "protocol", "dev", "oif", "via", "src", "scope", "type", "root", "match", "exact",
             "metric", "to")  # fmt: skip
# what a selector makes superfluous
_HIDES = {
    "protocol": {"protocol"}, "dev": {"dev"}, "oif": {"dev"}, "via": {"gateway", "via"},
    "scope": {"scope"}, "src": {"prefsrc"},
}  # fmt: skip


# --- order ----------------------------------------------------------------------------------------------


def dumped(routes: Iterable[Route], family: int) -> list[Route]:
    """The routes of one family in the order in which the kernel lists them."""
    tables: dict[int, list[Route]] = defaultdict(list)
    for route in routes:
        if route.family == family:
            tables[route.table].append(route)
    found: list[Route] = []
    for table in sorted(tables, key=lambda t: (t % TABLE_BUCKETS, t)):
        found += _trie_order(tables[table]) if family == 4 else _tree_order(tables[table])
    return found


def _trie_order(routes: list[Route]) -> list[Route]:
    """By address; of one address the longer prefix first (kernel: fib_table_dump, fib_find_alias)."""
    return sorted(routes, key=lambda r: (r.prefix, -r.plen, -r.tos, r.metric))


def _tree_order(routes: list[Route]) -> Iterator[Route]:
    """More specific ones first, sources before what lies below (kernel: fib6_walk_continue)."""
    nodes: dict[tuple[int, int], list[Route]] = defaultdict(list)
    for route in routes:
        nodes[route.prefix, route.plen].append(route)
    around: list[tuple[int, int]] = []  # prefixes entered and not yet left
    for prefix, plen in sorted(nodes):
        while around and not _inside(prefix, around[-1]):
            yield from _leaf(nodes[around.pop()])
        around.append((prefix, plen))
        by_source = [r for r in nodes[prefix, plen] if r.src_plen]
        yield from sorted(
            by_source, key=lambda r: (_last(r.src, r.src_plen), -r.src_plen, r.metric)
        )
    while around:
        yield from _leaf(nodes[around.pop()])


def _leaf(routes: list[Route]) -> list[Route]:
    return sorted((r for r in routes if not r.src_plen), key=lambda r: r.metric)


def _inside(prefix: int, outer: tuple[int, int]) -> bool:
    return not (prefix ^ outer[0]) >> (128 - outer[1])


def _last(prefix: int, plen: int) -> int:
    return prefix | ((1 << (128 - plen)) - 1)


# --- words ----------------------------------------------------------------------------------------------


def _prefix(family: int, prefix: int, plen: int) -> str:
    if plen == 0 and not prefix:
        return "default"
    return (
        address_text(family, prefix) if plen == BITS[family] else prefix_text(family, prefix, plen)
    )


def _flags(hop: Nexthop) -> list[str]:
    return [
        name
        for name, is_set in (
            ("dead", hop.dead), ("onlink", hop.onlink), ("linkdown", hop.linkdown or hop.dead),
        )
        if is_set
    ]  # fmt: skip


def _hop(family: int, hop: Nexthop) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if hop.gateway is not None:
        host = address_text(hop.gateway_family, hop.gateway)
        if hop.gateway_family == family:
            told["gateway"] = host
        else:
            told["via"] = {"family": f"inet{hop.gateway_family}", "host": host}
    if hop.device is not None:
        told["dev"] = hop.device
    return told


def route_dict(route: Route, known: Container[str] = ()) -> dict[str, Any]:
    """One route with the keys of `ip -j route show`, but for those of which all values are `known`."""
    family = route.family
    told: dict[str, Any] = {}
    hops = route.nexthops
    if route.type != "unicast":
        told["type"] = route.type
    elif any(hop.blackhole for hop in hops):
        told["type"] = "blackhole"
    told["dst"] = _prefix(family, route.prefix, route.plen)
    if route.src_plen:
        told["from"] = _prefix(family, route.src, route.src_plen)
    if route.tos:
        told["tos"] = f"{route.tos:#04x}"
    if route.nhid:
        told["nhid"] = route.nhid
    single = len(hops) == 1 and not (family == 6 and route.group)
    if single:
        told |= _hop(family, hops[0])
    elif family == 6 and not hops and route.type in REJECTING:
        told["dev"] = "lo"
    if route.table != TABLE_MAIN:
        told["table"] = table_text(route.table)
    if route.protocol != "boot":
        told["protocol"] = route.protocol
    if family == 4 and route.scope != SCOPE_UNIVERSE:
        told["scope"] = scope_text(route.scope)
    if route.prefsrc is not None:
        told["prefsrc"] = address_text(family, route.prefsrc)
    if route.metric or family == 6:
        told["metric"] = route.metric
    told["flags"] = _flags(hops[0]) if single else []
    if metrics := {
        name: value for name, value in (("mtu", route.mtu), ("hoplimit", route.hoplimit)) if value
    }:
        told["metrics"] = [metrics]
    if family == 6:
        told["pref"] = route.preference
    if hops and not single:
        told["nexthops"] = [
            {**_hop(family, hop), "weight": hop.weight, "flags": _flags(hop)} for hop in hops
        ]
    return {key: value for key, value in told.items() if key not in known}


def _hop_words(told: dict[str, Any]) -> list[str]:
    via = told.get("via")
    gateway = told.get("gateway") or (via and f"{via['family']} {via['host']}")
    words = ["via", gateway] if gateway else []
    return words + (["dev", told["dev"]] if "dev" in told else [])


def route_line(route: Route, known: Container[str] = ()) -> str:
    """One route as `ip route show` prints it: a line, more with several next hops."""
    told = route_dict(route, known)
    words = [told["type"]] if "type" in told else []
    words.append(told["dst"])
    for name in ("from", "tos", "nhid"):
        if name in told:
            words += [name, str(told[name])]
    words += _hop_words(told)
    for name, key in (
        ("table", "table"), ("proto", "protocol"), ("scope", "scope"), ("src", "prefsrc"),
        ("metric", "metric"),
    ):  # fmt: skip
        if key in told:
            words += [name, str(told[key])]
    words += told["flags"]
    for name, value in (told.get("metrics") or [{}])[0].items():
        words += [name, *(["lock"] if name == "mtu" and route.mtu_lock else []), str(value)]
    text = " ".join(words) + " "
    if "pref" in told:
        text += f"pref {told['pref']}"
    for hop in told.get("nexthops", ()):
        words = ["nexthop", *_hop_words(hop), "weight", str(hop["weight"]), *hop["flags"]]
        text += "\n\t" + " ".join(words) + " "
    return text + "\n"


# --- what to show -----------------------------------------------------------------------------------------


@dataclass
class Selection:
    """Which routes `ip route show` shall show."""

    family: int | None
    table: int | None = TABLE_MAIN  # None: all
    known: set[str] = field(default_factory=lambda: {"table"})  # keys that need not be shown
    keep: Callable[[Route], bool] = lambda route: True

    def missing_table(self, host: Host) -> str:
        """What `ip` says of a table that does not exist; empty if there is one."""
        if self.table in (None, TABLE_MAIN) or any(
            route.table == self.table and route.family == self.family for route in host.routes
        ):
            return ""
        return f"Error: ipv{self.family}: FIB table does not exist.\nDump terminated"

    def of(self, host: Host) -> list[Route]:
        """Those of the host, in the kernel's order."""
        families = (4, 6) if self.family is None else (self.family,)
        return [
            route
            for family in families
            for route in dumped(host.routes, family)
            if (self.table is None or route.table == self.table) and self.keep(route)
        ]


def read_selection(host: Host, reader: Reader, family: int | None = None) -> Selection:
    """Read what stands behind `ip route show`.  Raises Wrong.

    As with `ip`, the table is main and the family IPv4, unless the words say something else.
    """
    draft = Draft(host)
    tests: list[Callable[[Route], bool]] = []
    hidden: set[str] = set()
    chosen = Selection(family)

    def prefix() -> tuple[int, int]:
        nonlocal family
        family, found, plen = prefix_in(reader.take("a prefix"), family)
        return found, plen

    while reader:
        at = reader.word
        assert at is not None
        keyword = find_keyword(at.text, _KEYWORDS)
        if keyword in (None, "to", "exact"):
            if keyword is not None:
                reader.take(keyword)
            elif not (at.text == "default" or at.text[0].isdigit() or ":" in at.text):
                raise Wrong(
                    at, f"expected table, dev, proto, … or a prefix, not {at.text!r}",
                    nearest(at.text, _KEYWORDS),
                )  # fmt: skip
            tests.append(_exactly(*prefix()))
            continue
        reader.take(keyword)
        hidden |= _HIDES.get(keyword, set())
        if keyword == "table":
            chosen.table = None if reader.skip("all") else draft.table(reader)
            chosen.known = set() if chosen.table is None else {"table"}
        elif keyword == "protocol":
            tests.append(_has("protocol", take_protocol(reader)))
        elif keyword in ("dev", "oif"):
            name = device_name(reader.take("the name of a device"))
            tests.append(_leaves_by("device", name))
        elif keyword == "via":
            _, gateway = take_address(reader, None)
            tests.append(_leaves_by("gateway", gateway))
        elif keyword == "src":
            tests.append(_has("prefsrc", take_address(reader, family)[1]))
        elif keyword == "scope":
            tests.append(_has("scope", take_named(reader, "a scope", SCOPE_NAMES, 255)))
        elif keyword == "type":
            tests.append(_has("type", reader.choice(TYPES, "the type of a route")))
        elif keyword == "metric":
            tests.append(_has("metric", take_number(reader, "a metric")))
        else:
            tests.append((_below if keyword == "root" else _around)(*prefix()))
    if chosen.table is not None or family is not None:
        chosen.family = family or 4
    chosen.known |= hidden
    chosen.keep = lambda route: all(test(route) for test in tests)
    return chosen


def _has(field: str, value: object) -> Callable[[Route], bool]:
    return lambda route: getattr(route, field) == value


def _leaves_by(field: str, value: object) -> Callable[[Route], bool]:
    return lambda route: [getattr(hop, field) for hop in route.nexthops] == [value]


def _exactly(prefix: int, plen: int) -> Callable[[Route], bool]:
    return lambda route: (route.prefix, route.plen) == (prefix, plen)


def _below(prefix: int, plen: int) -> Callable[[Route], bool]:
    return lambda r: r.plen >= plen and not (r.prefix ^ prefix) >> (BITS[r.family] - plen)


def _around(prefix: int, plen: int) -> Callable[[Route], bool]:
    return lambda r: r.plen <= plen and not (r.prefix ^ prefix) >> (BITS[r.family] - r.plen)


def show(routes: list[Route], known: Container[str] = ()) -> str:
    """All lines."""
    return "".join(route_line(route, known) for route in routes)


def differing(before: list[Route], after: list[Route]) -> tuple[list[Route], list[Route]]:
    """Routes that only the one, and only the other has, each in its order."""
    lines = {id(route): (route.family, route_line(route)) for route in (*before, *after)}
    had, have = ({lines[id(route)] for route in routes} for routes in (before, after))
    return (
        [route for route in before if lines[id(route)] not in have],
        [route for route in after if lines[id(route)] not in had],
    )
