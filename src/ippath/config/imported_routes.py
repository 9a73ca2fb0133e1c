"""Routes from elsewhere as lines of a host file: `ip` batches and output, BGP dumps, tables of values.

Every reader yields `Imported`; `line_of` writes one as people would type it.  What a line means is
decided when the host file is read, not here.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMATS = ("ip", "json", "mrt", "csv", "parquet")
_PREFIX_COLUMNS = ("prefix", "dst", "network", "destination")
_HOP_COLUMNS = ("via", "nexthop", "next_hop", "gateway", "value")
_MRT_TABLE = {"TABLE_DUMP_V2", "TABLE_DUMP"}
_RIB_UNICAST = {"RIB_IPV4_UNICAST", "RIB_IPV6_UNICAST", "AFI_IPv4", "AFI_IPv6"}
_LISTED = re.compile(r"(?:ip )?(?:-[46o] )*(?:route |ro |r )(?:add|append|replace|change|prepend) ")
_FROM_ADDRESSES = ("broadcast", "local", "anycast", "multicast")


class RouteSourceError(ValueError):
    """A source of routes that cannot be read: where, and what is wrong."""


@dataclass
class Imported:
    """One route: a prefix and the words behind it."""

    prefix: str
    via: str = ""  # gateway, or a value that stands for one
    words: list[str] = field(default_factory=list)  # dev, metric and so on, as `ip` takes them
    kind: str = ""  # unreachable and so on; unicast if empty
    where: str = ""  # for messages

    @property
    def six(self) -> bool:
        """Whether it is IPv6, as far as its texts tell."""
        return ":" in self.prefix or (self.prefix == "default" and ":" in self.via)


@dataclass
class Choices:
    """What the caller wants changed."""

    hops: dict[str, str] = field(default_factory=dict)  # next hop or value -> gateway
    gateways: dict[int, str] = field(default_factory=dict)  # family -> gateway for all
    device: str = ""
    table: str = ""


def guess_format(path: Path) -> str:
    """The format by the name and the first bytes of a file."""
    suffixes = {s.lstrip(".") for s in path.suffixes}
    for name in ("parquet", "csv", "json", "mrt"):
        if name in suffixes:
            return name
    with open(path, "rb") as file:
        head = file.read(12)
    if head[:4] == b"PAR1":
        return "parquet"
    if head.lstrip()[:1] == b"[":
        return "json"
    if head[:2] in (b"\x1f\x8b", b"BZ") or (
        len(head) == 12 and head[4:6] in (b"\0\x0c", b"\0\x0d")
    ):
        return "mrt"
    return "ip"


def read_routes(path: Path, kind: str) -> Iterator[Imported]:
    """The routes of a file of one of FORMATS; raises RouteSourceError."""
    reader = {"ip": _ip, "json": _ip_json, "mrt": _mrt, "csv": _columns, "parquet": _columns}[kind]
    yield from reader(path)


def line_of(route: Imported, choices: Choices) -> str:
    """The route as a line of a host file; raises RouteSourceError for a next hop that is no address."""
    words = ["ip -6 route append" if route.six else "ip route append"]
    if route.kind:
        words.append(route.kind)
    words.append(route.prefix)
    via = choices.hops.get(route.via, route.via)
    given = choices.gateways.get(6 if route.six else 4)
    if not route.kind:
        via = given or via
        if via:
            words += ["via", *_gateway(via, route)]
        if choices.device:
            words += ["dev", choices.device]
    rest = list(route.words)
    if choices.table:
        rest = _without(rest, "table") + ["table", choices.table]
    if choices.device:
        rest = _without(rest, "dev")
    return " ".join(words + rest)


def _gateway(via: str, route: Imported) -> list[str]:
    try:
        address = ipaddress.ip_address(via)
    except ValueError:
        raise RouteSourceError(
            f"{route.where}: {via[:60]!r} is no address of a gateway (--hop {via[:20]}=ADDRESS gives one)"
        ) from None
    return ["inet6", via] if address.version == 6 and not route.six else [via]


def _without(words: list[str], keyword: str) -> list[str]:
    """The words without one keyword and its value."""
    if keyword not in words:
        return words
    at = words.index(keyword)
    return words[:at] + words[at + 2 :]


# --- ip -------------------------------------------------------------------------------------------------


def _ip(path: Path) -> Iterator[Imported]:
    """Lines of a batch, a script or of `ip route show`; what addresses bring is left out."""
    text = path.read_text(encoding="utf-8", errors="replace")
    joined = re.sub(r"\\?\n\s+nexthop", " nexthop", text)
    for number, line in enumerate(joined.split("\n"), 1):
        words = line.partition("#")[0].replace("\\", " ").split()
        if not words:
            continue
        plain = " ".join(words) + " "
        verb = _LISTED.match(plain)
        if verb is not None:
            words = plain[verb.end() :].split()
        elif words[0] in ("ip", "route", "ro") or "from" in words[:1]:
            continue  # other commands
        kind = words.pop(0) if words[0].isalpha() and words[0] not in ("default", "to") else ""
        if words[:1] == ["to"]:
            words = words[1:]
        where = f"{path}:{number}"
        if not words or not re.fullmatch(r"default|[0-9a-fA-F.:]+(/[0-9]+)?", words[0]):
            raise RouteSourceError(f"{where}: expected a route, not {line.strip()[:60]!r}")
        if kind in _FROM_ADDRESSES or ("proto" in words and "kernel" in words):
            continue
        if kind == "unicast":
            kind = ""
        via = ""
        if "via" in words and "nexthop" not in words:
            at = words.index("via")
            after = at + 2 if words[at + 1 : at + 2] == ["inet6"] else at + 1
            via = words[after] if after < len(words) else ""
            words = words[:at] + words[after + 1 :]
        rest = [w for w in words[1:] if w not in ("linkdown", "dead", "offload", "rt_offload")]
        found = Imported(words[0], via, rest, kind, where)
        if words[0] == "default" and not via and verb is not None and "-6" in verb[0]:
            found.prefix = "::/0"
        yield found


def _ip_json(path: Path) -> Iterator[Imported]:
    """What `ip -j route show` prints."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as wrong:
        raise RouteSourceError(f"{path}: {wrong}") from None
    if not isinstance(entries, list):
        raise RouteSourceError(f"{path}: expected a list of routes as `ip -j route show` prints it")
    for number, entry in enumerate(entries, 1):
        where = f"{path}: route {number}"
        if not isinstance(entry, dict) or not isinstance(entry.get("dst"), str):
            raise RouteSourceError(f"{where}: expected an object with dst")
        kind = entry.get("type", "")
        if kind in _FROM_ADDRESSES or entry.get("protocol") == "kernel":
            continue
        via = entry.get("gateway", "") or (entry.get("via") or {}).get("host", "")
        words: list[str] = []
        for key, keyword in (
            ("from", "from"), ("tos", "tos"), ("dev", "dev"), ("table", "table"),
            ("protocol", "proto"), ("scope", "scope"), ("prefsrc", "src"), ("metric", "metric"),
        ):  # fmt: skip
            if key in entry and not (kind and key == "dev"):
                words += [keyword, str(entry[key])]
        for metrics in entry.get("metrics", []):
            words += [
                w for k, v in metrics.items() if k in ("mtu", "hoplimit") for w in (k, str(v))
            ]
        if entry.get("pref", "medium") != "medium":
            words += ["pref", str(entry["pref"])]
        words += [flag for flag in entry.get("flags", []) if flag == "onlink"]
        for hop in entry.get("nexthops", []):
            words.append("nexthop")
            words += ["via", hop["gateway"]] if "gateway" in hop else []
            words += ["dev", hop["dev"]] if "dev" in hop else []
            words += ["weight", str(hop["weight"])] if hop.get("weight", 1) != 1 else []
        prefix = entry["dst"]
        if prefix == "default" and "pref" in entry:  # which IPv6 routes have
            prefix = "::/0"
        yield Imported(prefix, via, words, "" if kind == "unicast" else kind, where)


# --- BGP ------------------------------------------------------------------------------------------------


def _mrt(path: Path) -> Iterator[Imported]:
    """The table in an MRT dump (RFC 6396); of several paths the one through fewest systems."""
    try:
        from mrtparse import Reader
    except ModuleNotFoundError:
        raise RouteSourceError(
            f"{path}: reading MRT dumps needs the package mrtparse (pip install mrtparse)"
        ) from None
    try:
        for number, entry in enumerate(Reader(str(path)), 1):
            if entry.err:
                raise RouteSourceError(f"{path}: record {number}: {entry.err_msg or entry.err}")
            yield from _mrt_record(entry.data, f"{path}: record {number}")
    except (KeyError, IndexError, TypeError, EOFError) as wrong:
        raise RouteSourceError(f"{path}: damaged MRT dump: {wrong!r}") from None


def _mrt_record(record: dict[str, Any], where: str) -> Iterator[Imported]:
    kind = next(iter(record["type"].values()))
    subtype = next(iter(record["subtype"].values()), "")
    if kind not in _MRT_TABLE or subtype not in _RIB_UNICAST:
        return
    if kind == "TABLE_DUMP":
        paths = [record["path_attributes"]]
    else:
        paths = [one["path_attributes"] for one in record["rib_entries"]]
    hops = [(_systems(path), k, _next_hop(path)) for k, path in enumerate(paths)]
    good = [one for one in hops if one[2]]
    if good:
        length = record["prefix_length"] if "prefix_length" in record else record["length"]
        yield Imported(f"{record['prefix']}/{length}", min(good)[2], ["proto", "bgp"], "", where)


def _systems(path: Iterable[dict[str, Any]]) -> int:
    """How many autonomous systems a path goes through; a set counts as one (RFC 4271 9.1.2.2)."""
    count = 0
    for attribute in path:
        if 2 in attribute["type"]:
            for segment in attribute["value"]:
                count += 1 if 1 in segment["type"] else len(segment["value"])
    return count


def _next_hop(path: Iterable[dict[str, Any]]) -> str:
    for attribute in path:
        if 14 in attribute["type"]:
            return str(attribute["value"]["next_hop"][0])
        if 3 in attribute["type"]:
            return str(attribute["value"])
    return ""


# --- tables of values -----------------------------------------------------------------------------------


def _columns(path: Path) -> Iterator[Imported]:
    """CSV or Parquet: a column of prefixes, one of next hops or values; maybe dev, table, metric."""
    import pyarrow as pa

    try:
        if path.suffix == ".csv":
            from pyarrow import csv

            table = csv.read_csv(path)
        else:
            import pyarrow.parquet as pq

            table = pq.read_table(path)
    except pa.ArrowException as wrong:
        raise RouteSourceError(f"{path}: {wrong}") from None
    names = table.column_names
    prefix = next((n for n in names if n in _PREFIX_COLUMNS), names[0] if names else "")
    hop = next((n for n in names if n in _HOP_COLUMNS and n != prefix), None)
    others = [n for n in names if n in ("dev", "table", "metric", "proto", "src")]
    if not prefix or (hop is None and not others):
        raise RouteSourceError(
            f"{path}: expected columns prefix and via (or nexthop, gateway, value)"
        )
    row = 0
    for batch in table.select([prefix, *([hop] if hop else []), *others]).to_batches():
        columns = {n: batch.column(n).to_pylist() for n in batch.schema.names}
        for k, text in enumerate(columns[prefix]):
            row += 1
            where = f"{path}: row {row}"
            if not isinstance(text, str) or not re.fullmatch(
                r"default|[0-9a-fA-F.:]+(/\d+)?", text
            ):
                raise RouteSourceError(f"{where}: {text!r} is no prefix")
            via = columns[hop][k] if hop else None
            words = [
                w for n in others if columns[n][k] is not None for w in (n, str(columns[n][k]))
            ]
            yield Imported(text, "" if via is None else str(via), words, "", where)
