"""`ip nexthop` lines and what `ip nexthop` prints."""

from __future__ import annotations

from typing import Any

from ippath.config.draft import Draft, refused
from ippath.config.ip_route import take_protocol
from ippath.config.values import (
    SCOPE_NAMES,
    address_in,
    address_text,
    number_of,
    scope_text,
    take_named,
    take_number,
)
from ippath.config.words import Reader, Word, Wrong, find_keyword, nearest
from ippath.fib.control import ControlError
from ippath.fib.nexthops import MOST_BUCKETS, add_nexthop, del_nexthop, is_group
from ippath.model import Nexthop, NexthopObject

VERBS = ("add", "replace", "delete", "flush", "show", "list", "lst", "get", "bucket", "help")
# in the order in which abbreviations are tried
_KEYWORDS = (
    "id", "dev", "via", "encap", "blackhole", "fdb", "onlink", "group", "type", "protocol", "proto",
    "buckets", "idle_timer", "unbalanced_timer", "unbalanced_time", "scope", "linkdown", "dead",
    "offload", "trap", "unresolved",
)  # fmt: skip
_FLAG_IGNORED = {"linkdown", "dead", "offload", "trap", "unresolved"}
_MOST_WEIGHT = 256


def read_nexthop(draft: Draft, reader: Reader, family: int | None, line: str) -> None:
    """A line that begins with `ip nexthop`."""
    word = reader.word
    verb = reader.keyword(VERBS)
    if verb is None and reader:
        raise Wrong(
            word, f"expected add, replace, del or flush, not {reader.text!r}",
            nearest(reader.text, VERBS),
        )  # fmt: skip
    if verb in (None, "show", "list", "lst", "bucket"):
        draft.listing = "nexthop"
        reader.at = len(reader.words)
    elif verb == "delete":
        _delete(draft, reader)
    elif verb == "flush":
        _flush(draft, reader)
    elif verb in ("add", "replace"):
        nexthop = _read(draft, reader, family)
        nexthop.line = line
        _do(draft, nexthop, verb == "replace", word)
    else:
        raise Wrong(word, "expected add, replace, del or flush")


def begins_nexthop(words: list[Word]) -> bool:
    """`nexthop add …` without `ip` before it, not a next hop of a route (`nexthop via …`)."""
    texts = [word.text for word in words[:2]]
    return texts[0] == "nexthop" and find_keyword(texts[-1], VERBS) is not None


def is_printed_nexthop(words: list[Word]) -> bool:
    """Whether a line is one that `ip nexthop` prints: `id 1 via …`."""
    return len(words) > 2 and words[0].text == "id" and number_of(words[1].text) is not None


def read_printed_nexthop(draft: Draft, reader: Reader, line: str) -> None:
    """A line that `ip nexthop` or `ip nexthop bucket` prints."""
    word = reader.word
    if reader.left > 2 and reader.words[reader.at + 2].text == "index":
        _bucket(draft, reader)
        return
    nexthop = _read(draft, reader, None)
    nexthop.line = line
    _do(draft, nexthop, False, word)


def _bucket(draft: Draft, reader: Reader) -> None:
    """`id 8 index 0 idle_time 0.12 nhid 4`: which member has a bucket of a resilient group."""
    group = draft.host.nexthops.get(int(reader.words[reader.at + 1].text))
    word = reader.word
    reader.at += 2
    if group is None or not group.resilient:
        raise Wrong(word, "expected the number of a resilient group")
    index = member = -1
    while reader:
        keyword = reader.choice(("index", "idle_time", "nhid"), "index, idle_time or nhid")
        if keyword == "index":
            index = take_number(reader, "the number of a bucket", 0, len(group.buckets) - 1)
        elif keyword == "nhid":
            at = reader.word
            member = _id(reader)
            if member not in dict(group.members):
                raise Wrong(at, "expected a member of the group")
        else:
            _seconds(reader)
    if index < 0 or member < 0:
        raise Wrong(None, "expected index and nhid")
    group.buckets[index] = member


def _do(draft: Draft, nexthop: NexthopObject, replace: bool, word: Word | None) -> None:
    try:
        add_nexthop(draft.host, nexthop, replace)
    except ControlError as error:
        raise refused(error, word) from None


def _id(reader: Reader) -> int:
    return take_number(reader, "the number of a nexthop", 1, 0xFFFFFFFF)


def _delete(draft: Draft, reader: Reader) -> None:
    word = reader.word
    reader.choice(("id",), "id and a number")
    try:
        del_nexthop(draft.host, _id(reader))
    except ControlError as error:
        raise refused(error, word) from None


def _flush(draft: Draft, reader: Reader) -> None:
    device, groups, protocol = None, False, None
    while reader:
        keyword = reader.choice(("dev", "groups", "protocol", "all"), "dev, groups or proto")
        if keyword == "dev":
            device = draft.take_device(reader).name
        elif keyword == "groups":
            groups = True
        elif keyword == "protocol":
            protocol = take_protocol(reader)
    host = draft.host
    for nexthop in list(host.nexthops.values()):
        if (
            nexthop.id in host.nexthops
            and (device is None or (nexthop.hop is not None and nexthop.hop.device == device))
            and (not groups or is_group(nexthop))
            and protocol in (None, nexthop.protocol)
        ):
            del_nexthop(host, nexthop.id)


def _read(draft: Draft, reader: Reader, family: int | None) -> NexthopObject:
    nexthop, hop = NexthopObject(0), Nexthop()
    given: dict[str, Word] = {}
    resilient, buckets = False, 0
    while reader:
        at = reader.word
        assert at is not None
        keyword = reader.choice(_KEYWORDS, "id, via, dev, blackhole, group, …")
        given[keyword] = at
        if keyword == "id":
            nexthop.id = _id(reader)
        elif keyword == "dev":
            hop.device = draft.take_device(reader).name
            family = family or 4
        elif keyword == "via":
            family = _via(reader, hop, family)
        elif keyword == "blackhole":
            hop.blackhole = True
            family = family or 4
        elif keyword == "group":
            nexthop.members = _members(reader)
        elif keyword == "type":
            resilient = reader.choice(("mpath", "resilient"), "mpath or resilient") == "resilient"
        elif keyword == "buckets":
            buckets = take_number(reader, "a number of buckets", 1, MOST_BUCKETS)
        elif keyword == "idle_timer":
            nexthop.idle_timer = _seconds(reader)
        elif keyword == "unbalanced_timer":
            nexthop.unbalanced_timer = _seconds(reader)
        elif keyword == "unbalanced_time":
            _seconds(reader)
        elif keyword in ("protocol", "proto"):
            nexthop.protocol = take_protocol(reader)
        elif keyword == "scope":
            take_named(reader, "a scope", SCOPE_NAMES, 255)  # it follows from the rest
        elif keyword == "fdb":
            nexthop.fdb = True
        elif keyword == "onlink":
            hop.onlink = True
        elif keyword == "encap":
            raise Wrong(at, "encapsulation is not supported")
        else:
            assert keyword in _FLAG_IGNORED
    if "group" in given:
        _alone(given, "group", ("via", "dev", "blackhole", "onlink"))
        nexthop.family = 0
        nexthop.resilient, nexthop.buckets = resilient, [0] * buckets if resilient else []
        return nexthop
    if hop.blackhole:
        _alone(given, "blackhole", ("via", "dev"))
    if resilient:
        raise Wrong(given["type"], "expected group and the numbers of nexthops before type")
    nexthop.family, nexthop.hop = family or 4, hop
    return nexthop


def _alone(given: dict[str, Word], name: str, others: tuple[str, ...]) -> None:
    for other in others:
        if other in given:
            raise Wrong(given[other], f"{other} can't stand beside {name}")


def _via(reader: Reader, hop: Nexthop, family: int | None) -> int:
    asked = {"inet6": 6, "inet": 4}.get(reader.text)
    if asked is not None:
        reader.take("inet or inet6")
    word = reader.take("the address of a gateway")
    hop.gateway_family, hop.gateway = address_in(word, word.text, asked or family)
    if family is not None and hop.gateway_family != family:
        raise Wrong(word, f"expected an IPv{family} address, not {word.text!r}")
    return hop.gateway_family


def _members(reader: Reader) -> list[tuple[int, int]]:
    """`1/2,3`: numbers of nexthops, each with its weight or 1."""
    word = reader.take("a group like 1/2 or 1,10/2,5")
    found = []
    for part in word.text.split("/"):
        number, comma, weight = part.partition(",")
        values = number_of(number), number_of(weight) if comma else 1
        if not values[0] or not values[1] or values[0] > 0xFFFFFFFF or values[1] > _MOST_WEIGHT:
            raise Wrong(word, f"expected a group like 1/2 or 1,10/2,5, not {word.text[:60]!r}")
        found.append((values[0], values[1]))
    return found


def _seconds(reader: Reader) -> float:
    word = reader.take("seconds")
    try:
        value = float(word.text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1 << 32:
        raise Wrong(word, f"expected seconds, not {word.text!r}")
    return value


# --- what `ip` prints -----------------------------------------------------------------------------------


def nexthop_dict(nexthop: NexthopObject) -> dict[str, Any]:
    """One object with the keys of `ip -j nexthop`."""
    told: dict[str, Any] = {"id": nexthop.id}
    hop = nexthop.hop
    if hop is None:
        told["group"] = [
            {"id": number, "weight": weight} if weight != 1 else {"id": number}
            for number, weight in nexthop.members
        ]
        if nexthop.resilient:
            told["type"] = "resilient"
            told["resilient_args"] = {
                "buckets": len(nexthop.buckets), "idle_timer": nexthop.idle_timer,
                "unbalanced_timer": nexthop.unbalanced_timer,
            }  # fmt: skip
    elif hop.blackhole:
        told["blackhole"] = None
    else:
        if hop.gateway is not None:
            told["gateway"] = address_text(hop.gateway_family, hop.gateway)
        if hop.device is not None:
            told["dev"] = hop.device
        told["scope"] = scope_text(hop.scope)
    if nexthop.protocol != "unspec":
        told["protocol"] = nexthop.protocol
    told["flags"] = ["onlink"] if hop is not None and hop.onlink else []
    if nexthop.fdb:
        told["fdb"] = None
    return told


def nexthop_line(nexthop: NexthopObject) -> str:
    """One object as `ip nexthop` prints it, without the end of the line."""
    told = nexthop_dict(nexthop)
    words = [f"id {nexthop.id}"]
    if "group" in told:
        words += ["group", members_text(nexthop)]
    if nexthop.resilient:
        words += [
            f"type resilient buckets {len(nexthop.buckets)}",
            f"idle_timer {nexthop.idle_timer:g}",
            f"unbalanced_timer {nexthop.unbalanced_timer:g}",
        ]
    words += ["blackhole"] if "blackhole" in told else []
    for word, key in (
        ("via", "gateway"),
        ("dev", "dev"),
        ("scope", "scope"),
        ("proto", "protocol"),
    ):
        if key in told:
            words += [word, str(told[key])]
    return " ".join([*words, *told["flags"], *(["fdb"] if nexthop.fdb else [])])


def members_text(nexthop: NexthopObject) -> str:
    """The members of a group as they are written."""
    return "/".join(
        f"{number}" if weight == 1 else f"{number},{weight}" for number, weight in nexthop.members
    )
