"""A live host as files, and files as a Host.

`take` saves what decides about packets: devices, addresses, routes of all tables, rules,
neighbours, multicast groups, sysctls and UDP sockets.  No root is needed.  The files have the form
of `ip -j`, so a folder made by hand is read as well:

    ip -j -d addr > addr.json               ip -j route show table all > route.json
    ip -j rule > rule.json                  ip -j -6 rule > rule6.json
    ip -j neigh > neigh.json                ip -j maddr > maddr.json
    sysctl -a 2>/dev/null | grep ^net > sysctl.txt
    ss -aunemO > ss.txt

Only `addr.json` must be there.  One `.json` file holds the same under the names of the files.
"""

from __future__ import annotations

import ipaddress
import json
import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ippath.config.ss import parse_ss
from ippath.config.values import DSCP_NAMES, ip_protocol_number
from ippath.fib.nexthops import hops_of, is_group
from ippath.fib.resilient import shared_out
from ippath.model import (
    NexthopObject,
    ROUTE_TYPES,
    SCOPE_HOST,
    SCOPE_LINK,
    SCOPE_NOWHERE,
    SCOPES,
    TABLE_DEFAULT,
    TABLE_LOCAL,
    TABLE_MAIN,
    Address,
    Device,
    Host,
    Neighbour,
    Nexthop,
    Route,
    Rule,
)  # fmt: skip

TABLES = {"default": TABLE_DEFAULT, "main": TABLE_MAIN, "local": TABLE_LOCAL}
PARTS = ("addr", "route", "route6", "rule", "rule6", "neigh", "maddr", "sysctl", "ss",
         "nexthop", "nexthop_bucket")  # fmt: skip
DEFAULT_RULES = {
    4: [(0, TABLE_LOCAL), (32766, TABLE_MAIN), (32767, TABLE_DEFAULT)],
    6: [(0, TABLE_LOCAL), (32766, TABLE_MAIN)],
}
ROUTE_PROTOCOLS = {
    0: "unspec",
    1: "redirect",
    2: "kernel",
    3: "boot",
    4: "static",
    9: "ra",
    16: "dhcp",
}
METRIC6 = 1024  # IP6_RT_PRIO_USER
RAW_LINKS = {"none", "ipip", "sit", "gre", "tunnel", "tunnel6", "gre6", "rawip"}


class SnapshotError(ValueError):
    """A snapshot that cannot be read: which file, which entry, what is wrong."""


# --- reading ----------------------------------------------------------------------------------------


def read(path: str | Path) -> Host:
    """The host behind a snapshot: a folder or one `.json` file.

    Raises SnapshotError for what is missing or malformed, `ippath.config.ss.SsError` for ss output.
    """
    path = Path(path)
    parts = _folder_parts(path) if path.is_dir() else _file_parts(path)
    if "addr" not in parts:
        raise SnapshotError(f"{path}: no addresses (`ip -j -d addr > addr.json`)")
    host = Host(source=str(path))
    _Reader(host, str(path)).read(parts)
    return host


def _folder_parts(folder: Path) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    aliases = {
        "link": "addr",
        "address": "addr",
        "routes": "route",
        "rules": "rule",
        "neighbour": "neigh",
    }
    for file in sorted(folder.iterdir()):
        stem = aliases.get(file.stem, file.stem)
        six = stem.endswith("6")
        stem = aliases.get(stem.rstrip("46"), stem.rstrip("46")) + ("6" if six else "")
        if stem not in PARTS or not file.is_file():
            continue
        text = file.read_text(encoding="utf-8")
        if stem in ("sysctl", "ss"):
            parts[stem] = text
            continue
        entries = _json(text, str(file))
        if stem == "addr" and "addr" in parts:  # link.json beside addr.json: the details of both
            entries = _merge_links(parts["addr"], entries)
        parts[stem] = entries
    return parts


def _merge_links(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[dict[str, Any]]:
    merged = {entry.get("ifname"): dict(entry) for entry in first}
    for entry in second:
        merged.setdefault(entry.get("ifname"), {}).update(entry)
    return list(merged.values())


def _file_parts(path: Path) -> dict[str, Any]:
    parts = _json(path.read_text(encoding="utf-8"), str(path))
    if not isinstance(parts, dict):
        raise SnapshotError(f"{path}: expected an object with addr, route, …")
    return parts


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text) if text.strip() else []
    except json.JSONDecodeError as wrong:
        raise SnapshotError(f"{name}:{wrong.lineno}:{wrong.colno}: {wrong.msg}") from None


class _Reader:
    """Turns the parts of a snapshot into a Host."""

    def __init__(self, host: Host, name: str):
        self.host, self.name = host, name

    def read(self, parts: dict[str, Any]) -> None:
        self._each("addr", parts["addr"], self._device)
        self.host.devices.sort(key=lambda d: (d.kind != "loopback", d.ifindex))
        if not self.host.devices or self.host.devices[0].kind != "loopback":
            raise SnapshotError(f"{self.name}: addr has no loopback device")
        self._each("maddr", parts.get("maddr", []), self._groups)
        if "maddr" not in parts:
            for device in self.host.devices:
                device.multicast |= default_groups(device)
        by_ip6 = {entry.get("nhid") for entry in parts.get("route6", []) if isinstance(entry, dict)}
        self._each("nexthop", parts.get("nexthop", []), lambda e: self._object(e, by_ip6))
        self._each("nexthop_bucket", parts.get("nexthop_bucket", []), self._bucket)
        self._each("route", parts.get("route", []), lambda e: self._route(e, None))
        self._each("route6", parts.get("route6", []), lambda e: self._route(e, 6))
        self._each("rule", parts.get("rule", []), lambda e: self._rule(e, 4))
        self._each("rule6", parts.get("rule6", []), lambda e: self._rule(e, 6))
        self._each("neigh", parts.get("neigh", []), self._neighbour)
        # a write to `all` overwrites devices, but these values are what all writes ended in
        values = read_sysctls(parts.get("sysctl", ""))
        self.host.sysctls.update(sorted(values.items(), key=lambda item: _rank(item[0])))
        # the kernel tracks connections, and puts fragments together, while some rule asks for it
        if values.get("net.netfilter.nf_conntrack_count", "0") not in ("", "0"):
            self.host.switches["conntrack_defrag"] = "on"
        self.host.listeners += parse_ss(parts.get("ss", ""), f"{self.name} ss")
        self._conclude()

    def _each(self, part: str, entries: Iterable[dict[str, Any]], take: Any) -> None:
        for number, entry in enumerate(entries):
            if not entry:  # ip prints {} for what a filter left out
                continue
            try:
                take(entry)
            except (KeyError, ValueError, TypeError, AttributeError) as wrong:
                what = f"no {wrong}" if isinstance(wrong, KeyError) else str(wrong)
                raise SnapshotError(
                    f"{self.name}: entry {number} of {part}: {what}: {json.dumps(entry)[:200]}"
                ) from None

    # devices

    def _device(self, entry: dict[str, Any]) -> None:
        flags = set(entry.get("flags", ()))
        info = entry.get("linkinfo", {})
        data = info.get("info_data", {})
        link_type = entry.get("link_type", "ether")
        kind = _device_kind(link_type, info.get("info_kind", ""), data)
        mac = None
        if link_type == "ether" and entry.get("address"):
            mac = int(entry["address"].replace(":", ""), 16)
        name = entry["ifname"].partition("@")[0]
        device = Device(
            name=name,
            ifindex=int(entry["ifindex"]),
            kind=kind,
            mac=mac,
            mtu=int(entry.get("mtu", 1500)),
            up="UP" in flags,
            carrier="NO-CARRIER" not in flags,
            master=entry.get("master"),
            group=_group(entry.get("group", 0)),
            point_to_point="POINTOPOINT" in flags,
            noarp="NOARP" in flags,
        )
        if kind == "vlan":
            device.parent = entry.get("link")
            device.vlan_id = int(data["id"])
            device.vlan_protocol = 0x88A8 if data.get("protocol") == "802.1ad" else 0x8100
        if kind == "vrf":
            device.vrf_table = _table(data.get("table", 0))
        listed = [self._address(a) for a in entry.get("addr_info", ()) if a]
        device.addresses = in_order_of_adding(listed)
        self.host.devices.append(device)

    def _address(self, entry: dict[str, Any]) -> Address:
        family, ip = _ip(entry["local"])
        peer = entry.get("address")
        broadcast = entry.get("broadcast")
        return Address(
            family=family,
            ip=ip,
            plen=int(entry["prefixlen"]),
            peer=None if peer is None else _ip(peer)[1],
            broadcast=None if broadcast is None else _ip(broadcast)[1],
            scope=_scope(entry.get("scope", "global")),
            label=entry.get("label", ""),
            metric=int(entry.get("metric", 0)),
            secondary=bool(entry.get("secondary")) and family == 4,
            noprefixroute=bool(entry.get("noprefixroute")),
            tentative=bool(entry.get("tentative")),
            deprecated=bool(entry.get("deprecated")),
        )

    def _groups(self, entry: dict[str, Any]) -> None:
        device = self.host.device(entry["ifname"])
        if device is None:
            return
        for group in entry.get("maddr", ()):
            if group.get("family") in ("inet", "inet6"):
                device.multicast.add(_ip(group["address"]))

    # next hop objects

    def _object(self, entry: dict[str, Any], by_ip6: set[Any]) -> None:
        """One object; `by_ip6` are those that IPv6 routes go by, as a listing shows no families."""
        number = int(entry["id"])
        nexthop = NexthopObject(number, protocol=str(entry.get("protocol", "unspec")))
        nexthop.fdb = "fdb" in entry
        if "group" in entry:
            nexthop.family = 0
            nexthop.members = [
                (int(member["id"]), int(member.get("weight", 1))) for member in entry["group"]
            ]
            shape = entry.get("resilient_args", {})
            nexthop.resilient = bool(shape)
            nexthop.idle_timer = float(shape.get("idle_timer", -1))
            nexthop.unbalanced_timer = float(shape.get("unbalanced_timer", -1))
            nexthop.buckets = shared_out(nexthop.members, [0] * int(shape.get("buckets", 0)))
        else:
            hop = self._nexthop(entry, Route(4, 0, 0))
            hop.scope = _scope(entry.get("scope", "global"))
            nexthop.hop, six = hop, number in by_ip6
            if "blackhole" in entry:
                hop.blackhole, hop.device = True, "lo"
            elif hop.gateway is not None:
                six = hop.gateway_family == 6
            else:
                six = hop.scope == SCOPE_LINK
            nexthop.family = 6 if six else 4
        self.host.nexthops[number] = nexthop

    def _bucket(self, entry: dict[str, Any]) -> None:
        bucket = entry["bucket"]
        group = self.host.nexthops[int(entry["id"])]
        index, member = int(bucket["index"]), int(bucket["nhid"])
        if not 0 <= index < len(group.buckets) or member not in dict(group.members):
            raise ValueError(f"no bucket {index} for nexthop {member}")
        group.buckets[index] = member

    # routes

    def _route(self, entry: dict[str, Any], family: int | None) -> None:
        family = family or _route_family(entry)
        kind = entry.get("type", "unicast")
        if kind not in ROUTE_TYPES:
            raise ValueError(f"unknown route type {kind}")
        prefix, plen = _prefix(entry.get("dst", "default"), family)
        src, src_plen = _prefix(entry["from"], family) if "from" in entry else (0, 0)
        table = _table(entry.get("table", TABLE_MAIN))
        default_scope = "host" if kind == "local" and family == 4 else "global"
        scope = _scope(entry.get("scope", default_scope)) if family == 4 else 0
        metrics: dict[str, Any] = {}
        for more in entry.get("metrics", ()):
            metrics.update(more)
        prefsrc = entry.get("prefsrc")
        route = Route(
            family=family,
            prefix=prefix,
            plen=plen,
            table=table,
            type=kind,
            src=src,
            src_plen=src_plen,
            tos=int(str(entry.get("tos", 0)), 0),
            metric=int(entry.get("metric", METRIC6 if family == 6 else 0)),
            scope=scope,
            protocol=str(entry.get("protocol", "boot")),
            prefsrc=None if prefsrc is None else _ip(prefsrc)[1],
            mtu=int(metrics.get("mtu", 0)),
            mtu_lock="mtu" in metrics.get("lock", ()),
            hoplimit=int(metrics.get("hoplimit", 0)),
            preference=entry.get("pref", "medium"),
        )
        hops = entry.get("nexthops") or ([entry] if "dev" in entry else [])
        # reject routes need no next hop; IPv6 shows them on lo
        nexthop = self.host.nexthops.get(int(entry.get("nhid", 0)))
        if nexthop is not None:
            route.nhid, route.group = nexthop.id, is_group(nexthop)
            route.nexthops = hops_of(self.host, nexthop)
            if any(hop.blackhole for hop in route.nexthops):
                route.type = "unicast"  # the object is what refuses
        elif kind in ("unicast", "local", "broadcast", "anycast", "multicast"):
            route.nexthops = [self._nexthop(hop, route) for hop in hops]
        self.host.routes.append(route)

    def _nexthop(self, entry: dict[str, Any], route: Route) -> Nexthop:
        flags = set(entry.get("flags", ()))
        gateway, gateway_family = None, 0
        if "gateway" in entry:
            gateway_family, gateway = _ip(entry["gateway"])
        elif "via" in entry:
            gateway_family, gateway = _ip(entry["via"]["host"])
        if route.scope == SCOPE_HOST and route.family == 4:
            scope = SCOPE_NOWHERE
        else:  # a gateway was found on the link; without one the destination itself is the neighbour
            scope = SCOPE_HOST if gateway is None else SCOPE_LINK
        return Nexthop(
            device=entry.get("dev"),
            gateway=gateway,
            gateway_family=gateway_family,
            weight=int(entry.get("weight", 1)),
            onlink="onlink" in flags,
            scope=scope,
            dead="dead" in flags,
            linkdown="linkdown" in flags,
        )

    # rules, neighbours

    def _rule(self, entry: dict[str, Any], family: int) -> None:
        rule = Rule(family=family, pref=int(entry["priority"]))
        rule.src, rule.src_plen = _selector(entry, "src", "srclen", family)
        rule.dst, rule.dst_plen = _selector(entry, "dst", "dstlen", family)
        if "action" in entry and entry["action"] not in ("to_tbl", "lookup"):
            rule.action = str(entry["action"])
        if "goto" in entry:
            rule.action, rule.goto = "goto", int(entry["goto"])
        if "nop" in entry:
            rule.action = "nop"
        if "table" in entry:
            rule.table = _table(entry["table"])
        rule.l3mdev = "l3mdev" in entry
        rule.invert = "not" in entry
        rule.iif, rule.oif = entry.get("iif"), entry.get("oif")
        rule.tos = int(str(entry.get("tos", 0)), 0)
        if "dscp" in entry:
            dscp = str(entry["dscp"])
            rule.dscp = DSCP_NAMES[dscp] if dscp in DSCP_NAMES else int(dscp, 0)
        if "fwmark" in entry:
            rule.mark = int(str(entry["fwmark"]), 0)
            rule.mask = int(str(entry.get("fwmask", "0xffffffff")), 0)
        if "ipproto" in entry:
            number = ip_protocol_number(str(entry["ipproto"]))
            if number is None:
                raise ValueError(f"no IP protocol is called {entry['ipproto']!r}")
            rule.protocol = number
        rule.sport = _range(entry, "sport")
        rule.dport = _range(entry, "dport")
        rule.uidrange = _range(entry, "uid")
        rule.suppress_prefixlength = int(entry.get("suppress_prefixlen", -1))
        if "suppress_ifgroup" in entry:
            rule.suppress_ifgroup = _group(entry["suppress_ifgroup"])
        self.host.rules.append(rule)

    def _neighbour(self, entry: dict[str, Any]) -> None:
        family, ip = _ip(entry["dst"])
        state = entry.get("state") or ["permanent" if "proxy" in entry else "none"]
        if "noarp" in [s.lower() for s in state] and "proxy" not in entry:
            return  # groups and point-to-point entries that the kernel makes by itself
        mac = str(entry.get("lladdr", ""))
        usable = re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", mac)
        self.host.neighbours.append(
            Neighbour(
                family=family,
                ip=ip,
                device=entry["dev"],
                mac=int(mac.replace(":", ""), 16) if usable else None,
                state=state[0].lower(),
                proxy="proxy" in entry,
            )
        )

    # what follows from all of it

    def _conclude(self) -> None:
        host = self.host
        for family in (4, 6):
            if not any(r.family == family for r in host.rules):
                host.rules += [Rule(family, pref, table=t) for pref, t in DEFAULT_RULES[family]]
        host.custom_rules4 = _rules_changed(host.rules, 4)
        host.custom_rules6 = _rules_changed(host.rules, 6)
        for plain in (Rule(f, pref, table=t) for f in (4, 6) for pref, t in DEFAULT_RULES[f]):
            for rule in host.rules:
                if rule == plain:
                    rule.by_kernel = True
                    break
        host.user_local_routes = any(
            r.family == 4 and r.type == "local" and r.protocol != "kernel" for r in host.routes
        )


def _rank(name: str) -> int:
    if name == "net.ipv4.ip_forward" or ".conf.all." in name:
        return 0
    return 1 if ".conf.default." in name else 2


def _rules_changed(rules: list[Rule], family: int) -> bool:
    plain = [Rule(family, pref, table=table) for pref, table in DEFAULT_RULES[family]]
    return [r for r in rules if r.family == family] != plain


def in_order_of_adding(listed: list[Address]) -> list[Address]:
    """Addresses as they were added, from those that the kernel lists: it lists IPv6 newest first."""
    return [a for a in listed if a.family == 4] + [a for a in reversed(listed) if a.family == 6]


def default_groups(device: Device) -> set[tuple[int, int]]:
    """The groups that Linux joins by itself on a device that is up (RFC 1112, RFC 4291 2.8)."""
    if not device.up:
        return set()
    groups = {(6, int(ipaddress.IPv6Address(g))) for g in ("ff01::1", "ff02::1")}
    for address in device.addresses:
        if address.family == 4:
            groups.add((4, 0xE0000001))
        elif device.asks_neighbours:  # the solicited-node group
            groups.add((6, 0xFF0200000000000000000001FF000000 | (address.ip & 0xFFFFFF)))
    return groups


def _device_kind(link_type: str, kind: str, data: dict[str, Any]) -> str:
    if link_type == "loopback":
        return "loopback"
    if kind == "tun":
        return "tap" if data.get("type") == "tap" else "tun"
    if link_type == "ppp":
        return "ppp"
    if link_type in RAW_LINKS:
        return "none"
    return kind if kind in ("vlan", "veth", "dummy", "bridge", "vrf") else "ether"


def _ip(text: str) -> tuple[int, int]:
    address = ipaddress.ip_address(text)
    return address.version, int(address)


def _prefix(text: str, family: int) -> tuple[int, int]:
    if text in ("default", "all", "any"):
        return 0, 0
    network = ipaddress.ip_network(text, strict=False)
    if network.version != family:
        raise ValueError(f"{text} is not IPv{family}")
    return int(network.network_address), network.prefixlen


def _route_family(entry: dict[str, Any]) -> int:
    """IPv4 or IPv6 of an entry of `ip route show table all`, which prints both."""
    written = [str(entry.get(k, "")) for k in ("dst", "gateway", "from", "prefsrc")]
    written += [str(hop.get("gateway", "")) for hop in entry.get("nexthops", ())]
    return 6 if "pref" in entry or any(":" in text for text in written) else 4


def _selector(entry: dict[str, Any], name: str, length: str, family: int) -> tuple[int, int]:
    text = entry.get(name, "all")
    if text == "all":
        return 0, 0
    return _ip(text)[1], int(entry.get(length, 32 if family == 4 else 128))


def _range(entry: dict[str, Any], name: str) -> tuple[int, int] | None:
    if f"{name}_start" in entry:
        return int(entry[f"{name}_start"]), int(entry[f"{name}_end"])
    return (int(entry[name]), int(entry[name])) if name in entry else None


def _table(name: str | int) -> int:
    text = str(name)
    if text in TABLES:
        return TABLES[text]
    if not text.isdecimal():
        raise ValueError(f"table {text} has a name that only its host knows: save with `ip -N -j`")
    return int(text)


def _scope(name: str | int) -> int:
    text = str(name)
    return SCOPES[text] if text in SCOPES else int(text)


def _group(name: str | int) -> int:
    text = str(name)
    if text == "default":
        return 0
    if not text.isdecimal():
        raise ValueError(f"group {text} has a name that only its host knows: save with `ip -N -j`")
    return int(text)


def read_sysctls(text: str | dict[str, Any]) -> dict[str, str]:
    """Names and values of `name = value` lines (or of a dict); a `/` within a name is a dot."""
    if isinstance(text, dict):
        return {str(k).replace("/", "."): str(v) for k, v in text.items()}
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith(("#", ";", "sysctl:")):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise SnapshotError(f"sysctl.txt:{number}: expected name = value: {line}")
        values[name.strip().replace("/", ".")] = " ".join(value.split())
    return values


# --- taking -----------------------------------------------------------------------------------------


def take(path: str | Path) -> Path:
    """Save this host (network namespace) to a folder, or to one file if the name ends in `.json`.

    Needs pyroute2 and no root.  Returns the path.  Raises OSError if it cannot be written.
    """
    path = Path(path)
    parts = collect()
    if path.suffix == ".json":
        stamp = {"taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        path.write_text(json.dumps(stamp | parts, indent=1) + "\n", encoding="utf-8")
        return path
    path.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        if isinstance(part, str):
            (path / f"{name}.txt").write_text(part, encoding="utf-8")
            continue
        body = ",\n".join(json.dumps(entry) for entry in part)
        (path / f"{name}.json").write_text(f"[{body}]\n", encoding="utf-8")
    return path


def collect() -> dict[str, Any]:
    """The parts of a snapshot of this host: lists of `ip -j` entries, and text."""
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        links = list(netlink.get_links())
        names = {link["index"]: link.get_attr("IFLA_IFNAME") for link in links}
        addresses = list(netlink.get_addr())
        routes = {f: list(netlink.get_routes(family=f)) for f in (2, 10)}
        rules = {f: list(netlink.get_rules(family=f)) for f in (2, 10)}
        neighbours = [n for f in (2, 10) for n in netlink.get_neighbours(family=f)]
    parts: dict[str, Any] = {
        "addr": [_link_entry(link, names, addresses) for link in links],
        "route": [_route_entry(r, names) for r in routes[2] if not r["flags"] & 0x200],
        "route6": [_route_entry(r, names) for r in routes[10] if not r["flags"] & 0x200],
        "rule": [_rule_entry(r) for r in rules[2]],
        "rule6": [_rule_entry(r) for r in rules[10]],
        "neigh": [_neighbour_entry(n, names) for n in neighbours],
        "maddr": _groups_from_proc(),
        "sysctl": _sysctls_from_proc(),
        "ss": _sockets(),
    }
    if objects := _ip_json("nexthop"):
        parts |= {"nexthop": objects, "nexthop_bucket": _ip_json("nexthop", "bucket")}
        for name, option in (("route", "-4"), ("route6", "-6")):
            _add_nhids(parts[name], _ip_json(option, "route", "show", "table", "all"))
    return parts


def _add_nhids(routes: list[dict[str, Any]], listed: list[dict[str, Any]]) -> None:
    """Which objects routes go by, which pyroute2 does not know; both lists have the kernel's order."""
    for route, same in zip(routes, listed):
        if "nhid" in same and route["dst"].partition("/")[0] == same["dst"].partition("/")[0]:
            route["nhid"] = same["nhid"]


def _ip_json(*words: str) -> list[Any]:
    """What `ip -j` lists; nothing where there is no `ip`, or one that does not know it."""
    try:
        ran = subprocess.run(
            ["ip", "-j", *words], capture_output=True, text=True, timeout=30, check=False
        )
        return json.loads(ran.stdout) if ran.returncode == 0 and ran.stdout.strip() else []
    except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError):
        return []


_IFF = {0x1: "UP", 0x2: "BROADCAST", 0x8: "LOOPBACK", 0x10: "POINTOPOINT", 0x80: "NOARP",
        0x1000: "MULTICAST", 0x10000: "LOWER_UP"}  # fmt: skip
_LINK_TYPES = {1: "ether", 772: "loopback", 512: "ppp", 65534: "none", 768: "ipip", 776: "sit",
               778: "gre", 769: "tunnel6", 519: "rawip"}  # fmt: skip
_IFA_FLAGS = {0x01: "secondary", 0x20: "deprecated", 0x40: "tentative", 0x200: "noprefixroute"}
_RTNH = {0x1: "dead", 0x4: "onlink", 0x10: "linkdown"}
_TYPE_NAMES = {number: name for name, number in ROUTE_TYPES.items()}
_SCOPE_NAMES = {0: "global", 200: "site", 253: "link", 254: "host", 255: "nowhere"}
_TABLE_NAMES = {number: name for name, number in TABLES.items()}
_PREFERENCES = {0: "medium", 1: "high", 3: "low"}
_NUD = {0x01: "INCOMPLETE", 0x02: "REACHABLE", 0x04: "STALE", 0x08: "DELAY", 0x10: "PROBE",
        0x20: "FAILED", 0x40: "NOARP", 0x80: "PERMANENT"}  # fmt: skip
_ACTIONS = {1: "lookup", 2: "goto", 3: "nop", 6: "blackhole", 7: "unreachable", 8: "prohibit"}
_NONE32 = 0xFFFFFFFF


def _flags(value: int, names: dict[int, str]) -> list[str]:
    return [name for bit, name in names.items() if value & bit]


def _link_entry(link: Any, names: dict[int, str], addresses: list[Any]) -> dict[str, Any]:
    flags = _flags(link["flags"], _IFF)
    if link["flags"] & 1 and not link["flags"] & 0x10000:
        flags.append("NO-CARRIER")
    entry: dict[str, Any] = {
        "ifindex": link["index"],
        "ifname": link.get_attr("IFLA_IFNAME"),
        "flags": flags,
        "mtu": link.get_attr("IFLA_MTU"),
        "group": str(link.get_attr("IFLA_GROUP") or 0),
        "link_type": _LINK_TYPES.get(link["ifi_type"], str(link["ifi_type"])),
    }
    if link.get_attr("IFLA_ADDRESS"):
        entry["address"] = link.get_attr("IFLA_ADDRESS")
    if link.get_attr("IFLA_MASTER"):
        entry["master"] = names.get(link.get_attr("IFLA_MASTER"))
    if link.get_attr("IFLA_LINK") in names:
        entry["link"] = names[link.get_attr("IFLA_LINK")]
    info = link.get_attr("IFLA_LINKINFO")
    if info is not None:
        entry["linkinfo"] = _link_info(info)
    entry["addr_info"] = [_address_entry(a) for a in addresses if a["index"] == link["index"]]
    return entry


def _link_info(info: Any) -> dict[str, Any]:
    kind, data = info.get_attr("IFLA_INFO_KIND"), info.get_attr("IFLA_INFO_DATA")
    told: dict[str, Any] = {"info_kind": kind}
    if kind == "vlan" and data is not None:
        protocol = data.get_attr("IFLA_VLAN_PROTOCOL") or 0x8100
        ad = protocol in (0x88A8, 0xA888)  # as the kernel stores it, in network order
        told["info_data"] = {
            "protocol": "802.1ad" if ad else "802.1Q",
            "id": data.get_attr("IFLA_VLAN_ID"),
        }
    elif kind == "tun" and data is not None:
        told["info_data"] = {"type": "tap" if data.get_attr("IFLA_TUN_TYPE") == 2 else "tun"}
    elif kind == "vrf" and data is not None:
        told["info_data"] = {"table": data.get_attr("IFLA_VRF_TABLE")}
    return told


def _address_entry(address: Any) -> dict[str, Any]:
    four = address["family"] == 2
    own, other = address.get_attr("IFA_LOCAL"), address.get_attr("IFA_ADDRESS")
    entry: dict[str, Any] = {
        "family": "inet" if four else "inet6",
        "local": own or other,
        "prefixlen": address["prefixlen"],
        "scope": _SCOPE_NAMES.get(address["scope"], str(address["scope"])),
    }
    if own and other and own != other:
        entry["address"] = other
    for key, attribute in (("broadcast", "IFA_BROADCAST"), ("label", "IFA_LABEL")):
        if address.get_attr(attribute):
            entry[key] = address.get_attr(attribute)
    if address.get_attr("IFA_RT_PRIORITY"):
        entry["metric"] = address.get_attr("IFA_RT_PRIORITY")
    for name in _flags(address.get_attr("IFA_FLAGS") or 0, _IFA_FLAGS):
        entry[name] = True
    return entry


def _route_entry(route: Any, names: dict[int, str]) -> dict[str, Any]:
    table = route.get_attr("RTA_TABLE") or route["table"]
    destination = route.get_attr("RTA_DST")
    entry: dict[str, Any] = {
        "type": _TYPE_NAMES.get(route["type"], str(route["type"])),
        "dst": f"{destination}/{route['dst_len']}"
        if destination and route["dst_len"]
        else "default",
        "table": _TABLE_NAMES.get(table, str(table)),
        "protocol": ROUTE_PROTOCOLS.get(route["proto"], str(route["proto"])),
        "scope": _SCOPE_NAMES.get(route["scope"], str(route["scope"])),
    }
    if route["src_len"]:
        entry["from"] = f"{route.get_attr('RTA_SRC')}/{route['src_len']}"
    if route["tos"]:
        entry["tos"] = hex(route["tos"])
    for key, attribute in (("prefsrc", "RTA_PREFSRC"), ("metric", "RTA_PRIORITY")):
        if route.get_attr(attribute) is not None:
            entry[key] = route.get_attr(attribute)
    if route["family"] == 10:
        entry.setdefault("metric", 0)
        entry["pref"] = _PREFERENCES.get(_as_int(route.get_attr("RTA_PREF")), "medium")
    metrics = _metrics(route.get_attr("RTA_METRICS"))
    if metrics:
        entry["metrics"] = [metrics]
    many = route.get_attr("RTA_MULTIPATH")
    if many:
        entry["nexthops"] = [_hop_entry(hop, names) | {"weight": hop["hops"] + 1} for hop in many]
        entry["flags"] = []
    else:
        entry |= _hop_entry(route, names)
    return entry


def _as_int(value: Any) -> int:
    return int.from_bytes(value) if isinstance(value, bytes) else int(value or 0)


def _metrics(metrics: Any) -> dict[str, Any]:
    if metrics is None:
        return {}
    told: dict[str, Any] = {}
    for key, attribute in (("mtu", "RTAX_MTU"), ("hoplimit", "RTAX_HOPLIMIT")):
        if metrics.get_attr(attribute):
            told[key] = metrics.get_attr(attribute)
    if (metrics.get_attr("RTAX_LOCK") or 0) & 1 << 2:  # RTAX_MTU
        told["lock"] = ["mtu"]
    return told


def _hop_entry(hop: Any, names: dict[int, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"flags": _flags(hop["flags"], _RTNH)}
    index = hop.get_attr("RTA_OIF") or hop.get("oif")
    if index in names:
        entry["dev"] = names[index]
    via = hop.get_attr("RTA_VIA")
    if hop.get_attr("RTA_GATEWAY"):
        entry["gateway"] = hop.get_attr("RTA_GATEWAY")
    elif via:
        family = "inet6" if via["family"] == 10 else "inet"
        entry["via"] = {"family": family, "host": via["addr"]}
    return entry


def _rule_entry(rule: Any) -> dict[str, Any]:
    get = rule.get_attr
    entry: dict[str, Any] = {"priority": get("FRA_PRIORITY") or 0, "src": get("FRA_SRC") or "all"}
    if rule["src_len"]:
        entry["srclen"] = rule["src_len"]
    if rule["dst_len"]:
        entry["dst"], entry["dstlen"] = get("FRA_DST"), rule["dst_len"]
    if rule["flags"] & 0x2:
        entry["not"] = None
    if rule["tos"]:
        entry["tos"] = hex(rule["tos"])
    if get("FRA_DSCP") is not None:
        entry["dscp"] = _as_int(get("FRA_DSCP"))
    if get("FRA_FWMARK") is not None or get("FRA_FWMASK") is not None:
        entry["fwmark"] = hex(get("FRA_FWMARK") or 0)
        entry["fwmask"] = hex(get("FRA_FWMASK") or 0)
    for key, attribute in (("iif", "FRA_IIFNAME"), ("oif", "FRA_OIFNAME")):
        if get(attribute):
            entry[key] = get(attribute)
    if get("FRA_IP_PROTO"):
        entry["ipproto"] = str(get("FRA_IP_PROTO"))
    for key, attribute in (("sport", "FRA_SPORT_RANGE"), ("dport", "FRA_DPORT_RANGE"),
                           ("uid", "FRA_UID_RANGE")):  # fmt: skip
        if get(attribute):  # "start:end"
            low, _, high = get(attribute).partition(":")
            entry[f"{key}_start"], entry[f"{key}_end"] = int(low), int(high)
    table = get("FRA_TABLE") or rule["table"]
    action = _ACTIONS.get(rule["action"], str(rule["action"]))
    if get("FRA_L3MDEV"):
        entry["l3mdev"] = None
    elif action == "goto":
        entry["goto"] = get("FRA_GOTO") or 0
    elif action == "nop":
        entry["nop"] = None
    elif action == "lookup":
        entry["table"] = _TABLE_NAMES.get(table, str(table))
    else:
        entry["action"] = action
    if get("FRA_SUPPRESS_PREFIXLEN") not in (None, _NONE32):
        entry["suppress_prefixlen"] = get("FRA_SUPPRESS_PREFIXLEN")
    if get("FRA_SUPPRESS_IFGROUP") not in (None, _NONE32):
        entry["suppress_ifgroup"] = str(get("FRA_SUPPRESS_IFGROUP"))
    return entry


def _neighbour_entry(neighbour: Any, names: dict[int, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "dst": neighbour.get_attr("NDA_DST"),
        "dev": names.get(neighbour["ifindex"], ""),
    }
    if neighbour.get_attr("NDA_LLADDR"):
        entry["lladdr"] = neighbour.get_attr("NDA_LLADDR")
    if neighbour["flags"] & 0x08:
        entry["proxy"] = None
    else:
        entry["state"] = _flags(neighbour["state"], _NUD) or ["NONE"]
    return entry


def _groups_from_proc() -> list[dict[str, Any]]:
    """Multicast memberships by device, from /proc/net/igmp and igmp6."""
    groups: dict[str, list[dict[str, str]]] = {}
    name = ""
    for line in _lines("/proc/net/igmp")[1:]:
        words = line.split()
        if not line[:1].isspace() and len(words) > 1:
            name = words[1]
        elif words:
            packed = bytes.fromhex(words[0])[::-1]  # in the byte order of the machine
            groups.setdefault(name, []).append(
                {"family": "inet", "address": str(ipaddress.IPv4Address(packed))}
            )
    for line in _lines("/proc/net/igmp6"):
        words = line.split()
        address = str(ipaddress.IPv6Address(bytes.fromhex(words[2])))
        groups.setdefault(words[1], []).append({"family": "inet6", "address": address})
    return [{"ifname": name, "maddr": listed} for name, listed in groups.items()]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:  # IPv6 may be switched off
        return []


def _sysctls_from_proc(root: Path = Path("/proc/sys/net")) -> str:
    """All readable settings below `root` as `name = value` lines; a dot within a name is a `/`."""
    lines = []
    wanted = [(root / part).rglob("*") for part in ("core", "ipv4", "ipv6")]
    wanted += [(root / "netfilter").glob(f"nf_conntrack_{what}") for what in ("frag6_*", "count")]
    for file in (file for part in wanted for file in sorted(part)):
        if not file.is_file():
            continue
        try:
            value = file.read_text(encoding="utf-8", errors="replace")
        except OSError:  # some are for root, some can only be written
            continue
        names = [piece.replace(".", "/") for piece in file.relative_to(root).parts]
        if "\n" in value.strip():
            continue
        lines.append(f"net.{'.'.join(names)} = {' '.join(value.split())}")
    return "\n".join(lines) + "\n"


def _sockets() -> str:
    """UDP sockets as `ss -aunemO` prints them; from /proc/net where there is no ss."""
    try:
        ran = subprocess.run(
            ["ss", "-aunemO"], capture_output=True, text=True, timeout=30, check=False
        )
        if ran.returncode == 0:
            return ran.stdout
    except (OSError, subprocess.TimeoutExpired):
        pass
    return sockets_from_proc(_lines("/proc/net/udp"), _lines("/proc/net/udp6"))


def sockets_from_proc(udp: list[str], udp6: list[str]) -> str:
    """/proc/net/udp and udp6 as lines of ss; devices and v6only are not known there."""
    lines = ["State Recv-Q Send-Q Local Address:Port Peer Address:Port"]
    for listed, family in ((udp, 4), (udp6, 6)):
        for line in listed[1:]:
            words = line.split()
            local, peer = (_proc_endpoint(word, family) for word in words[1:3])
            state = "ESTAB" if words[3] == "01" else "UNCONN"
            if state == "UNCONN":
                peer = f"{peer.rpartition(':')[0]}:*"
            lines.append(f"{state} 0 0 {local} {peer}")
    return "\n".join(lines) + "\n"


def _proc_endpoint(word: str, family: int) -> str:
    """`0100007F:0035` as `127.0.0.1:53`: each 32-bit word is in the machine's byte order."""
    digits, _, port = word.partition(":")
    words = [bytes.fromhex(digits[k : k + 8])[::-1] for k in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    if family == 4:
        return f"{address}:{int(port, 16)}"
    where = "*" if int(address) == 0 else f"[{address}]"  # dual stack, as most are
    return f"{where}:{int(port, 16)}"
