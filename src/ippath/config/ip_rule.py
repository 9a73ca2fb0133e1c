"""`ip rule` lines and what `ip rule` prints."""

from __future__ import annotations

import re

from ippath.config.draft import Draft, refused
from ippath.config.values import (
    BITS, device_name, number_in, number_of, prefix_in, take_dscp, take_ip_protocol, take_named,
    take_number, take_ports, take_tos,
)  # fmt: skip
from ippath.config.words import Reader, Word, Wrong, find_keyword, nearest
from ippath.fib.control import ControlError, add_rule, del_rule, flush_rules
from ippath.model import Rule

VERBS = ("add", "delete", "flush", "list", "lst", "show", "save", "restore", "help")
ACTIONS = ("blackhole", "unreachable", "prohibit", "nop")
KEYWORDS = (
    "not", "from", "to", "preference", "order", "priority", "tos", "dsfield", "dscp", "fwmark",
    "table", "lookup", "goto", *ACTIONS, "suppress_prefixlength", "sup_pl", "suppress_ifgroup",
    "sup_group", "iif", "dev", "oif", "l3mdev", "uidrange", "ipproto", "sport", "dport", "type",
    "protocol", "realms", "tun_id", "pref", "nat", "map-to", "flowlabel", "unresolved", "detached",
)  # fmt: skip
_PRINTED = re.compile(r"[0-9]{1,10}:")
_UID_MOST = 0xFFFFFFFF
_EXPECTED = "one of from, to, pref, iif, oif, fwmark, tos, dscp, ipproto, sport, dport, lookup, …"


def is_printed_rule(text: str) -> bool:
    """Whether a line begins as those that `ip rule` prints: with a preference and a colon."""
    return bool(_PRINTED.fullmatch(text))


def read_rule(draft: Draft, reader: Reader, family: int | None, line: str) -> None:
    """A line that begins with `ip rule`; the verb may be missing."""
    at = reader.word
    verb = reader.keyword(VERBS) if reader.text not in ("from", "to", "not") else None
    if verb in ("list", "lst", "show", "save") or (verb is None and not reader):
        draft.listing, draft.listing_family = "rule", family
        reader.at = len(reader.words)  # what is shown is below
        return
    if verb in ("restore", "help"):
        raise Wrong(at, "expected add, del or flush")
    if verb == "flush":
        reader.end()
        flush_rules(draft.host, family or 4)
        return
    if verb is None and find_keyword(reader.text, KEYWORDS) is None:
        valid = ("add", "del", "flush", *KEYWORDS)
        raise Wrong(
            at, f"expected add, del or flush, not {reader.text!r}", nearest(reader.text, valid)
        )
    rule, given, words = _read(draft, reader, family)
    rule.line = line
    try:
        if verb == "delete":
            if not given:
                raise Wrong(None, f"expected which rule: {_EXPECTED}")
            del_rule(draft.host, rule, given)
        else:
            add_rule(draft.host, rule)
    except ControlError as error:
        raise refused(error, words.get("goto") or words.get("pref") or at) from None


def read_printed_rule(draft: Draft, reader: Reader, line: str) -> None:
    """`1000:	from 192.0.2.0/24 lookup 100` as `ip rule` prints it; the default rules add nothing."""
    word = reader.take("a preference")
    family = draft.listing_family if draft.listing == "rule" else None
    rule, _, _ = _read(draft, reader, family)
    rule.line = line
    rule.pref = number_in(
        Word(word.text[:-1], word.line, word.column), "a preference", 0, 0xFFFFFFFF
    )
    default = [
        r
        for r in draft.host.rules
        if (r.family, r.pref, r.action, r.table)
        == (rule.family, rule.pref, rule.action, rule.table)
        and (r.pref in (0, 32766, 32767) or r.l3mdev and rule.l3mdev)
    ]
    if default:
        return
    try:
        add_rule(draft.host, rule)
    except ControlError as error:
        raise refused(error, word) from None


def _read(
    draft: Draft, reader: Reader, family: int | None
) -> tuple[Rule, set[str], dict[str, Word]]:
    """The rule, the names of the fields that were given, and the words of some."""
    rule = Rule(family or 4, -1)
    given: set[str] = set()
    words: dict[str, Word] = {}

    def agree(found: int | None, word: Word) -> None:
        nonlocal family
        if found is not None and family is not None and found != family:
            raise Wrong(word, f"expected an IPv{family} prefix, not {word.text!r}")
        family = family or found

    while reader:
        at = reader.word
        assert at is not None
        if reader.text.startswith("[") and reader.text.endswith("]"):  # [detached], [unresolved]
            reader.take("a flag")
            continue
        keyword = reader.choice(KEYWORDS, _EXPECTED)
        if keyword == "not":
            rule.invert = True
            given.add("invert")
        elif keyword in ("from", "to"):
            word = reader.take("a prefix or all")
            found, ip, plen = prefix_in(word, family, "a prefix or all")
            agree(found, word)
            ip &= ~((1 << (BITS[family or 4] - plen)) - 1)
            side = "src" if keyword == "from" else "dst"
            setattr(rule, side, ip)
            setattr(rule, f"{side}_plen", plen)
            if plen:  # `from all` says nothing
                given |= {side, f"{side}_plen"}
        elif keyword in ("preference", "order", "priority", "pref"):
            words["pref"] = at
            rule.pref = take_number(reader, "a preference")
            given.add("pref")
        elif keyword in ("tos", "dsfield"):
            rule.tos = take_tos(reader)
            given.add("tos")
        elif keyword == "dscp":
            word = reader.word or at
            rule.dscp = take_dscp(reader)
            if "/" in word.text:
                raise Wrong(word, "masks on the DSCP are not supported")
            given.add("dscp")
        elif keyword == "fwmark":
            word = reader.take("a mark like 0x10 or 0x10/0xff")
            mark, slash, mask = word.text.partition("/")
            value = number_of(mark)
            cover = number_of(mask) if slash else None
            if (
                value is None
                or value > 0xFFFFFFFF
                or (slash and (cover is None or cover > 0xFFFFFFFF))
            ):
                raise Wrong(word, f"expected a mark like 0x10 or 0x10/0xff, not {word.text!r}")
            rule.mark = value
            rule.mask = cover if cover is not None else (0xFFFFFFFF if value else 0)
            given |= {"mark", "mask"} if slash else {"mark"}
        elif keyword in ("table", "lookup") and reader.skip("[l3mdev-table]"):  # as it is printed
            rule.l3mdev = True
            given.add("l3mdev")
        elif keyword in ("table", "lookup"):
            rule.table = draft.table(reader)
            given |= {"table", "action"}
        elif keyword == "goto":
            words["goto"] = reader.word or at
            rule.action, rule.goto = "goto", take_number(reader, "the preference of a rule")
            given |= {"action", "goto"}
        elif keyword in ACTIONS or keyword == "type":
            if keyword == "type":
                keyword = reader.choice(
                    (*ACTIONS, "unicast"), "blackhole, unreachable, prohibit or nop"
                )
            rule.action = "lookup" if keyword == "unicast" else keyword
            given.add("action")
        elif keyword in ("suppress_prefixlength", "sup_pl"):
            rule.suppress_prefixlength = take_number(reader, "a prefix length", 0, 128)
            given.add("suppress_prefixlength")
        elif keyword in ("suppress_ifgroup", "sup_group"):
            rule.suppress_ifgroup = take_named(reader, "a group", {"default": 0}, 0x7FFFFFFF)
            given.add("suppress_ifgroup")
        elif keyword in ("iif", "dev", "oif"):
            word = reader.take("the name of a device")
            side = "oif" if keyword == "oif" else "iif"
            setattr(rule, side, device_name(word))
            draft.mentioned.append(word)
            given.add(side)
        elif keyword == "l3mdev":
            rule.l3mdev = True
            given.add("l3mdev")
        elif keyword == "uidrange":
            rule.uidrange = _uids(reader)
            given.add("uidrange")
        elif keyword == "ipproto":
            rule.protocol = take_ip_protocol(reader)
            given.add("protocol")
        elif keyword in ("sport", "dport"):
            setattr(rule, keyword, take_ports(reader, "a port"))
            given.add(keyword)
        elif keyword in ("protocol", "realms"):
            reader.take(f"a value for {keyword}")  # who added the rule; traffic classes
        else:
            if keyword not in ("unresolved", "detached"):
                raise Wrong(at, f"{keyword} is not supported in a rule")
    rule.family = family or 4
    return rule, given, words


def _uids(reader: Reader) -> tuple[int, int]:
    word = reader.take("a range of user ids like 1000-1999")
    low, dash, high = word.text.partition("-")
    first, last = number_of(low), number_of(high)
    if not dash or first is None or last is None or not first <= last <= _UID_MOST:
        raise Wrong(word, f"expected a range of user ids like 1000-1999, not {word.text!r}")
    return first, last
