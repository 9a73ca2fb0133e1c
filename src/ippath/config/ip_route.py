"""`ip route` lines and what `ip route` prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ippath.config.draft import Draft, refused
from ippath.config.values import (
    BITS, ROUTE_PROTOCOLS, SCOPE_NAMES, address_in, prefix_in, prefix_text, take_address,
    take_named, take_number, take_tos,
)  # fmt: skip
from ippath.config.words import Reader, Word, Wrong, find_keyword, nearest
from ippath.fib.control import LOCAL_TABLE_TYPES, ControlError, Unwanted, add_route, del_route
from ippath.fib.nexthops import hops_of
from ippath.model import (
    ROUTE_TYPES, SCOPE_HOST, SCOPE_LINK, SCOPE_UNIVERSE, TABLE_LOCAL, TABLE_MAIN, Nexthop, Route,
)  # fmt: skip

VERBS = (
    "add", "change", "chg", "replace", "prepend", "append", "delete", "test", "get", "flush",
    "show", "list", "lst", "save", "restore", "help",
)  # fmt: skip
MODES = {"add": "add", "change": "change", "chg": "change", "replace": "replace",
         "prepend": "prepend", "append": "append"}  # fmt: skip
TYPES = tuple(t for t in ROUTE_TYPES if t != "unspec")
PREFERENCES = ("low", "medium", "high")
# in the order in which abbreviations are tried
KEYWORDS = (
    "via", "dev", "oif", "table", "metric", "priority", "preference", "proto", "protocol", "src",
    "scope", "tos", "dsfield", "onlink", "nexthop", "weight", "from", "mtu", "hoplimit", "pref",
    "vrf", "to", "realms", "realm", "expires", "nhid", "encap", "as",
    "advmss", "window", "rtt", "rttvar", "rto_min", "ssthresh", "cwnd", "initcwnd", "initrwnd",
    "reordering", "quickack", "features", "congctl", "fastopen_no_cookie", "ttl-propagate",
    "error", "users", "age", "iif", "linkdown", "dead", "pervasive", "offload", "offload_failed",
    "trap", "notify", "rt_offload", "rt_trap", "unresolved", "cache", "pmtu", "dst-nat", "hoplimit",
)  # fmt: skip
# they concern TCP, lifetimes or offload: a packet's way does not depend on them
_VALUE_IGNORED = {
    "advmss", "window", "rtt", "rttvar", "rto_min", "ssthresh", "cwnd", "initcwnd", "initrwnd",
    "reordering", "quickack", "fastopen_no_cookie", "ttl-propagate", "error", "users", "age",
    "realms", "realm", "expires", "features", "congctl",
}  # fmt: skip
_FLAG_IGNORED = {
    "linkdown", "dead", "pervasive", "offload", "offload_failed", "trap", "notify", "rt_offload",
    "rt_trap", "unresolved", "cache", "pmtu", "dst-nat",
}  # fmt: skip
_NEXTHOP_KEYWORDS = (
    "via", "dev", "oif", "weight", "onlink", "dead", "linkdown", "pervasive", "offload",
    "offload_failed", "trap", "notify", "unresolved", "nexthop", "realms", "realm", "encap", "nhid",
)  # fmt: skip
_PREFIX = "a prefix like 192.0.2.0/24 or default"
_ROUTE_START = re.compile(r"[0-9][0-9.]*(/.*)?|[0-9a-fA-F]*:[0-9a-fA-F:.]*(/.*)?")


@dataclass
class _Written:
    route: Route
    family_known: bool
    given: dict[str, Word]


def begins_route(text: str) -> bool:
    """Whether a line that begins with this word looks like one that `ip route` prints."""
    return text in TYPES or text in ("default", "nexthop") or bool(_ROUTE_START.fullmatch(text))


def read_route(draft: Draft, reader: Reader, family: int | None, line: str) -> None:
    """A line that begins with `ip route`; the verb may be missing."""
    verb_word = reader.word
    verb = reader.keyword(VERBS) if reader.text not in (*TYPES, "default", "to") else None
    if verb is None:
        if not reader:
            verb = "show"
        elif not begins_route(reader.text) and find_keyword(reader.text, ("default", "to")) is None:
            valid = ("add", "replace", "append", "prepend", "change", "del", *TYPES, "default")
            raise Wrong(
                reader.word,
                f"expected add, replace, append, prepend, change, del, {_PREFIX}, "
                f"not {reader.text!r}",
                nearest(reader.text, valid),
            )
    if verb in ("show", "list", "lst", "save"):
        _listing(draft, reader, family)
        return
    if verb in ("get", "test", "restore", "help"):
        raise Wrong(verb_word, "expected add, replace, append, prepend, change, del or flush")
    if verb == "flush":
        _flush(draft, reader, family)
        return
    written = _read(draft, reader, family)
    written.route.line = line
    if verb == "delete":
        _delete(draft, written)
    else:
        _add(draft, written, MODES[verb or "add"])


def read_printed_route(draft: Draft, reader: Reader, line: str) -> None:
    """A line that `ip route` prints.  Those that an address has brought already add nothing."""
    family = draft.listing_family if draft.listing == "route" else None
    written = _read(draft, reader, None if family != 6 else _family_of(reader, 6), printed=True)
    route = written.route
    route.line = line
    if route.table < 0 and draft.listing == "route" and draft.listing_table is not None:
        route.table = draft.listing_table
    rejecting = route.type in ("unreachable", "blackhole", "prohibit", "throw")
    if rejecting:  # IPv6 shows them on lo
        route.nexthops = []
        if route.nhid and _is_blackhole(draft, route.nhid):
            route.type = "unicast"  # the object is what refuses
    _add(draft, written, "append")


def _is_blackhole(draft: Draft, number: int) -> bool:
    nexthop = draft.host.nexthops[number]
    return any(hop.blackhole for hop in hops_of(draft.host, nexthop))


def _family_of(reader: Reader, family: int) -> int | None:
    """The family of a listing, unless the line shows an address of another."""
    shown = " ".join(w.text for w in reader.words)
    return None if re.search(r"\b[0-9]+(\.[0-9]+){3}\b", shown) and ":" not in shown else family


def _listing(draft: Draft, reader: Reader, family: int | None) -> None:
    draft.listing, draft.listing_family, draft.listing_table = "route", family, None
    while reader:
        if reader.text in ("table", "vrf"):
            vrf = reader.take("table").text == "vrf"
            if reader.text == "all":
                reader.take("a table")
            elif vrf:
                draft.listing_table = _vrf(draft, reader)
            else:
                draft.listing_table = draft.table(reader)
        else:
            reader.take("a selector")  # what is shown is below


def _vrf(draft: Draft, reader: Reader) -> int:
    word = reader.take("the name of a VRF")
    device = draft.device(word)
    if device.kind != "vrf":
        raise Wrong(word, f"{device.name} is no VRF")
    return device.vrf_table


def _flush(draft: Draft, reader: Reader, family: int | None) -> None:
    """`ip route flush`: by table, device, protocol or prefix."""
    table, device, protocol, prefix, everything = 254, None, None, None, False
    if not reader:
        raise Wrong(None, "expected what to flush: table, dev, proto or a prefix")
    while reader:
        keyword = reader.keyword(("table", "dev", "protocol", "cache", "all", "exact", "root"))
        if keyword == "cache":
            reader.end()
            return
        if keyword == "table":
            if reader.skip("all"):
                everything = True
            else:
                table = draft.table(reader)
        elif keyword == "dev":
            device = draft.take_device(reader).name
        elif keyword == "protocol":
            protocol = take_protocol(reader)
        elif keyword == "root":
            raise Wrong(reader.words[reader.at - 1], "write exact and a prefix")
        elif keyword not in ("all", "exact"):
            prefix = prefix_in(reader.take(_PREFIX), family, _PREFIX)
            family = prefix[0] or family
    host = draft.host

    def goes(route: Route) -> bool:
        return (
            route.family == (family or 4)
            and (everything or route.table == table)
            and (device is None or [n.device for n in route.nexthops] == [device])
            and (protocol is None or route.protocol == protocol)
            and (prefix is None or (route.prefix, route.plen) == prefix[1:])
        )

    host.routes = [r for r in host.routes if not goes(r)]


def take_protocol(reader: Reader) -> str:
    """The next word as the routing protocol that brought a route."""
    number = take_named(reader, "a routing protocol by name or number", ROUTE_PROTOCOLS, 255)
    return next((n for n, v in ROUTE_PROTOCOLS.items() if v == number), str(number))


def _read(draft: Draft, reader: Reader, family: int | None, printed: bool = False) -> _Written:
    route = Route(family or 4, 0, 0, table=-1, scope=-1)
    given: dict[str, Word] = {}
    hop = Nexthop()
    hop_used = False
    destination: Word | None = None
    begin = reader.at

    def agree(found: int | None, word: Word) -> None:
        nonlocal family
        if found is None:
            return
        if family is None:
            family = found
        elif family != found:
            raise Wrong(word, f"expected an IPv{family} prefix or address, not {word.text!r}")

    while reader:
        leads = reader.at == begin or find_keyword(reader.text, KEYWORDS) is None
        if destination is None and leads and (kind := _type(reader)) is not None:
            given["type"] = reader.words[reader.at - 1]
            route.type = kind
            continue
        at = reader.word
        assert at is not None
        text = reader.text
        keyword = None
        if destination is None and (begins_route(text) or text in ("all", "any") or "/" in text):
            pass
        else:
            keyword = find_keyword(text, KEYWORDS)
        if keyword is None or keyword == "to":
            if keyword == "to":
                reader.take("to")
            if destination is not None:
                known = (*KEYWORDS, *TYPES)
                raise Wrong(
                    reader.word,
                    f"{text!r} is not known here; expected via, dev, table, metric, src, …",
                    nearest(text, known),
                )
            word = reader.take(_PREFIX)
            destination = word
            if find_keyword(word.text, ("default",)) and len(word.text) > 1:
                word = Word("default", word.line, word.column)
            elif word.text.isalpha() and word.text not in ("all", "any"):
                known = (*TYPES, "default", *KEYWORDS)
                raise Wrong(
                    word, f"expected the type of a route or {_PREFIX}, not {word.text!r}",
                    nearest(word.text, known),
                )  # fmt: skip
            found, route.prefix, route.plen = prefix_in(word, family, _PREFIX)
            agree(found, word)
            continue
        reader.take(keyword)
        given[keyword] = at
        if keyword == "via":
            hop_used = True
            family = _via(reader, hop, family)
            given["via"] = reader.words[reader.at - 1]
        elif keyword in ("dev", "oif"):
            hop_used = True
            given["dev"] = reader.take("the name of a device")
            hop.device = draft.device(given["dev"]).name
        elif keyword == "weight":
            hop_used = True
            hop.weight = take_number(reader, "a weight", 1, 256)
        elif keyword == "onlink":
            hop.onlink = True
        elif keyword == "nexthop":
            family = _nexthops(draft, reader, route, family, given)
        elif keyword == "table":
            route.table = draft.table(reader)
        elif keyword == "vrf":
            route.table = _vrf(draft, reader)
        elif keyword in ("metric", "priority", "preference"):
            route.metric = take_number(reader, "a metric")
        elif keyword in ("proto", "protocol"):
            route.protocol = take_protocol(reader)
        elif keyword == "src":
            given["src"] = reader.word or at
            found, route.prefsrc = take_address(reader, family, "a source address")
            agree(found, given["src"])
        elif keyword == "scope":
            route.scope = take_named(reader, "a scope", SCOPE_NAMES, 255)
        elif keyword in ("tos", "dsfield"):
            route.tos = take_tos(reader)
        elif keyword == "from":
            word = reader.take("a source prefix")
            found, route.src, route.src_plen = prefix_in(word, family, "a source prefix")
            agree(found, word)
            if family == 4 and route.src_plen:
                raise Wrong(at, "IPv4 routes have no source prefix; write a rule")
        elif keyword == "mtu":
            route.mtu_lock = reader.skip("lock")
            route.mtu = take_number(reader, "an MTU", 0, 0x7FFFFFFF)
        elif keyword == "hoplimit":
            reader.skip("lock")
            route.hoplimit = take_number(reader, "a hop limit", 0, 255)
        elif keyword == "pref":
            route.preference = reader.choice(PREFERENCES, "low, medium or high")
            family = 6 if family is None else family
        elif keyword == "encap":
            raise Wrong(at, "encapsulation is not supported")
        elif keyword == "nhid":
            route.nhid = take_number(reader, "the number of a nexthop", 1, 0xFFFFFFFF)
        elif keyword == "iif":
            reader.take("the name of a device")
        elif keyword in _VALUE_IGNORED:
            reader.skip("lock")
            reader.take(f"a value for {keyword}")
        elif keyword not in _FLAG_IGNORED:
            raise Wrong(at, f"{keyword} is not supported")
    if destination is None:
        raise Wrong(None, f"expected {_PREFIX}")
    if hop_used and route.nexthops:
        raise Wrong(given["nexthop"], "expected either via and dev or nexthop, not both")
    if route.nhid and (hop_used or route.nexthops):
        if not printed:
            raise Wrong(
                given["nhid"], "Error: Nexthop specification and nexthop id are mutually exclusive."
            )
        if route.nhid in draft.host.nexthops:
            hop_used, route.nexthops = False, []
        else:  # the listing of the objects is not here, but this is what they were
            route.nhid = 0
    if hop_used:
        route.nexthops = [hop]
    elif "nexthop" in given and route.scope < 0 and route.type == "unicast":
        route.scope = SCOPE_UNIVERSE  # whatever the next hops are
    family = family or 4
    if family == 6 and route.tos:
        raise Wrong(
            given.get("tos") or given["dsfield"],
            "Error: Invalid dsfield (tos): option not available for IPv6.",
        )
    route.family = family
    host_bits = (1 << (BITS[family] - route.plen)) - 1
    if route.prefix & host_bits:
        if family == 4:
            raise Wrong(
                destination,
                f"Error: Invalid prefix for given prefix length. (the prefix is "
                f"{prefix_text(4, route.prefix & ~host_bits, route.plen)})",
            )
        route.prefix &= ~host_bits
    route.src &= ~((1 << (BITS[family] - route.src_plen)) - 1)
    for nexthop in route.nexthops:
        if nexthop.gateway is not None and not nexthop.gateway_family:
            nexthop.gateway_family = family
    given["to"] = destination
    return _Written(route, True, given)


def _type(reader: Reader) -> str | None:
    """The type of a route at the beginning, abbreviations included."""
    text = reader.text
    if text == "brd":
        reader.take("brd")
        return "broadcast"
    if (
        not text.isalpha()
        or len(text) < 3
        or text in ("default", "all", "any", "via", "dev", "src")
    ):
        return None
    return reader.keyword(TYPES)


def _via(reader: Reader, hop: Nexthop, family: int | None) -> int | None:
    via = reader.keyword(("inet6", "inet")) if reader.text in ("inet6", "inet") else None
    word = reader.take("the address of a gateway")
    asked = {"inet6": 6, "inet": 4}.get(via or "")
    hop.gateway_family, hop.gateway = address_in(word, word.text, asked)
    if family is None and via is None:
        return hop.gateway_family
    if family == 6 and hop.gateway_family == 4:
        raise Wrong(word, f"expected an IPv6 address, not {word.text!r}")
    if family == 4 and hop.gateway_family == 6 and via is None:
        raise Wrong(
            word, f"expected an IPv4 address, not {word.text!r} "
            "(an IPv6 gateway is written `via inet6 ADDRESS`)"
        )  # fmt: skip
    return family or hop.gateway_family


def _nexthops(
    draft: Draft, reader: Reader, route: Route, family: int | None, given: dict[str, Word]
) -> int | None:
    """Everything behind the first `nexthop`: the rest of the line."""
    hop = Nexthop()
    route.nexthops.append(hop)
    while reader:
        at = reader.word
        assert at is not None
        keyword = find_keyword(reader.text, _NEXTHOP_KEYWORDS)
        if keyword is None:
            return family
        reader.take(keyword)
        if keyword == "nexthop":
            hop = Nexthop()
            route.nexthops.append(hop)
        elif keyword == "via":
            family = _via(reader, hop, family)
            given["via"] = reader.words[reader.at - 1]
        elif keyword in ("dev", "oif"):
            given["dev"] = reader.take("the name of a device")
            hop.device = draft.device(given["dev"]).name
        elif keyword == "weight":
            hop.weight = take_number(reader, "a weight", 1, 256)
        elif keyword == "onlink":
            hop.onlink = True
        elif keyword in ("realms", "realm", "nhid"):
            reader.take(f"a value for {keyword}")
        elif keyword == "encap":
            raise Wrong(at, "encapsulation is not supported")
    return family


def _at(error: ControlError, given: dict[str, Word]) -> Word:
    """The word of a route that the kernel's message is about."""
    text = str(error).lower()
    for part, keyword in (
        ("nexthop", "nhid"), ("prefsrc", "src"), ("gateway", "via"), ("no route to host", "via"), ("onlink", "onlink"),
        ("scope", "scope"), ("scope", "via"), ("not up", "dev"), ("is down", "dev"),
        ("device", "dev"),
    ):  # fmt: skip
        if part in text and keyword in given:
            return given[keyword]
    return given["to"]


def _add(draft: Draft, written: _Written, mode: str) -> None:
    try:
        add_route(draft.host, written.route, mode)
    except ControlError as error:
        raise refused(error, _at(error, written.given)) from None


def _delete(draft: Draft, written: _Written) -> None:
    route, given = written.route, written.given
    kind = route.type if "type" in given else None
    table, scope = route.table, route.scope if "scope" in given else -1
    if table < 0:
        table = TABLE_LOCAL if kind in LOCAL_TABLE_TYPES else TABLE_MAIN
    if scope < 0 and kind in LOCAL_TABLE_TYPES:
        scope = SCOPE_HOST if kind == "local" else SCOPE_LINK
    wanted = Unwanted(
        route.family, route.prefix, route.plen, table,
        type=kind,
        tos=route.tos,
        metric=route.metric or None,
        src=route.src,
        src_plen=route.src_plen,
        scope=scope if scope >= 0 else None,
        protocol=route.protocol if given.keys() & {"proto", "protocol"} else None,
        prefsrc=route.prefsrc,
        mtu=route.mtu or None,
        hoplimit=route.hoplimit or None,
        nhid=route.nhid or None,
        hops=route.nexthops,
        listed="nexthop" in given,
    )  # fmt: skip
    try:
        del_route(draft.host, wanted)
    except ControlError as error:
        raise refused(error, given["to"]) from None
