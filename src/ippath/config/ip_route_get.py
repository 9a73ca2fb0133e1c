"""The words behind `ip route get`: a destination and what else the packet would have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ippath.config.values import (
    address_in, device_name, take_address, take_ip_protocol, take_number, take_tos,
)  # fmt: skip
from ippath.config.words import Reader, Word, Wrong, find_keyword, nearest

# in the order in which `ip` tries abbreviations
KEYWORDS = (
    "tos", "dsfield", "iif", "mark", "oif", "dev", "uid", "fibmatch", "from", "ipproto", "sport",
    "dport", "to",
)  # fmt: skip


@dataclass
class Asked:
    """A question as it was written: the fields of `ippath.route_get.Question`."""

    destination: int | None
    fields: dict[str, Any]
    fibmatch: bool = False  # the route itself is wanted


def reader_of(words: Iterable[str]) -> Reader:
    """The words of a command line; columns count as if they stood in one line."""
    listed, column = [], 1
    for text in words:
        listed.append(Word(text, 1, column))
        column += len(text) + 1
    return Reader(listed)


def read_question(
    reader: Reader, family: int | None = None, with_destination: bool = True
) -> Asked:
    """Read what stands behind `get`.  Raises Wrong."""
    asked = Asked(None, {})
    fields = asked.fields

    def address(what: str) -> int:
        nonlocal family
        family, value = take_address(reader, family, what)
        return value

    while reader:
        at = reader.word
        assert at is not None
        keyword = find_keyword(at.text, KEYWORDS)
        if keyword is None or keyword == "to":
            if keyword == "to":
                reader.take("to")
            elif asked.destination is not None or not with_destination:
                raise Wrong(
                    at, f"expected from, iif, oif, mark, tos, uid, ipproto, sport or dport, not {at.text!r}",
                    nearest(at.text, KEYWORDS),
                )  # fmt: skip
            word = reader.take("an address")
            family, asked.destination = address_in(word, word.text.partition("/")[0], family)
            continue
        reader.take(keyword)
        if keyword == "fibmatch":
            asked.fibmatch = True
        elif keyword == "from":
            fields["source"] = address("a source address")
        elif keyword == "iif":
            fields["iif"] = device_name(reader.take("the name of a device"))
        elif keyword in ("oif", "dev"):
            fields["oif"] = device_name(reader.take("the name of a device"))
        elif keyword in ("tos", "dsfield"):
            fields["tos"] = take_tos(reader)
        elif keyword == "ipproto":
            fields["protocol"] = take_ip_protocol(reader)
        else:
            most = 0xFFFF if keyword in ("sport", "dport") else 0xFFFFFFFF
            fields[keyword] = take_number(reader, f"a {keyword}", 0, most)
    if with_destination and asked.destination is None:
        raise Wrong(None, "expected an address")
    fields["family"] = family
    return asked
