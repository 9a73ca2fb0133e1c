"""A host as the lines of a host file.

What the kernel does by itself is not printed: connected, local and broadcast routes, the default
rules, automatic link-local addresses, groups that every device joins.  To know what that is, a host
with the same devices, sysctls and addresses is made, and the rest is what this one has besides.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from ippath.config.ip_nexthop import members_text
from ippath.config.values import (
    address_text, ip_protocol_text, mac_text, prefix_text, scope_text, table_text,
)  # fmt: skip
from ippath.fib.control import (
    ALL_SYSTEMS4,
    ALL_ROUTERS6,
    USUAL_MTUS,
    ControlError,
    add_route,
    finish,
    link_local_of,
    own_sysctl,
)
from ippath.fib.nexthops import add_nexthop, is_group
from ippath.fib.resilient import shared_out
from ippath.fib.routes import routes_of
from ippath.fib.vrf import PREFERENCE as VRF_PREFERENCE
from ippath.model import (
    SCOPE_HOST, SCOPE_LINK, SCOPE_UNIVERSE, TABLE_LOCAL, TABLE_MAIN, Address, Device,
    Host, Listener, Neighbour, Nexthop, NexthopObject, Route, Rule,
)  # fmt: skip

_LOCAL_TYPES = ("local", "broadcast", "anycast")
_FIRST_RCVBUF = 212992
_ORDERED_AT_MOST = 400  # routes that are tried out before they are printed


def render_host(host: Host) -> str:
    """The host as the text of a host file that `ippath.config.parse_host` reads."""
    late = _late_down(host)
    up, later = _device_lines(host, late)
    sysctls = _sysctl_lines(host)
    addresses = list(_address_lines(host, late))
    down = list(_down_lines(host, late))
    base = _read([*up, *sysctls, *later, *addresses])
    if host.nexthops:
        addresses += _nexthop_lines(host, base)
        base = _read([*up, *sysctls, *later, *addresses])
    final = _read([*up, *sysctls, *later, *addresses, *down])
    finish(final)
    missing = _link_local_lines(host, final)
    if missing:
        final = _read([*up, *sysctls, *missing, *later, *addresses, *down])
        finish(final)
    routes, deleted = _route_lines(host, base, final)
    sections = [
        up,
        sysctls + missing,
        later,
        addresses,
        routes + down + deleted,
        list(_rule_lines(host)),
        list(_neighbour_lines(host)),
        list(_group_lines(host, final)),
        list(_listener_lines(host)),
        list(_lowpan_lines(host)),
        [f"map {_quoted(wanted)} {name}" for wanted, name in host.device_map.items()],
        [f"switch {name} {value}" for name, value in host.switches.items()],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _lowpan_lines(host: Host) -> Iterator[str]:
    for device in host.devices:
        for what, value in (("pan_id", device.pan_id), ("short_addr", device.short_address)):
            if value is not None:
                yield f"iwpan dev {device.name} set {what} {value:#06x}"
    for number, (prefix, plen) in sorted(host.contexts.items()):
        yield f"6lowpan context {number} {address_text(6, prefix)}/{plen}"


def _read(lines: Iterable[str]) -> Host:
    """What lines make, without what `finish` adds; lines that are refused are passed over."""
    from ippath.config.host_file import build

    return build("\n".join(lines) + "\n")


def _ip(family: int) -> str:
    return "ip" if family == 4 else "ip -6"


def _quoted(name: str) -> str:
    if name and not any(c.isspace() or c in "\"'\\" for c in name) and not name.startswith("#"):
        return name
    return f"'{name}'" if '"' in name else f'"{name}"'


# --- devices ------------------------------------------------------------------------------------------


def _late_down(host: Host) -> set[str]:
    """Devices that were up before, which has left routes or groups."""
    down = {d.name for d in host.devices if not d.up}
    was_up = {d.name for d in host.devices if not d.up and (4, ALL_SYSTEMS4) in d.multicast}
    return was_up | {
        hop.device
        for route in host.routes
        for hop in route.nexthops
        if hop.device in down and (hop.dead or route.protocol != "kernel")
    }


def _sysctl_lines(host: Host) -> list[str]:
    lines = []
    implied = None
    for key, value in host.sysctls.items():
        if key == "net.ipv4.conf.all.forwarding":
            lines.append(f"net.ipv4.ip_forward = {value}")
            implied = ("net.ipv4.conf.all.accept_redirects", "0" if int(value) else "1")
        else:
            if (key, value) != implied:
                lines.append(f"{key} = {value}".rstrip())
            implied = None  # one that was written later has its place
    return lines


def _device_lines(host: Host, late: set[str]) -> tuple[list[str], list[str]]:
    """The lines that make devices: those before the sysctls, and those behind.

    A device that comes after forwarding was turned on joins one group of routers only.
    """
    early: list[str] = []
    later: list[str] = []
    after: list[str] = []
    index = 1
    known: dict[str, Device] = {}
    for device in _parents_first(host.devices):
        if device.kind == "loopback" and device.name == "lo":
            early += _loopback_lines(device, late)
            known["lo"] = device
            continue
        parent = known.get(device.parent or "")
        words = ["ip link add"]
        words += [f"link {parent.name} name {device.name}" if parent else device.name]
        if device.ifindex != index + 1:
            words.append(f"index {device.ifindex}")
        index = max(index, device.ifindex)
        inherited = parent.mac if parent and device.kind == "vlan" else None
        children = [d for d in host.devices if d.kind == "vlan" and d.parent == device.name]
        size = 8 if device.kind == "lowpan" else 6
        usual = USUAL_MTUS.get(device.kind, parent.mtu if parent else 1500)
        if device.mac is not None and any(d.mac is None for d in children):
            after.append(f"ip link set {device.name} address {mac_text(device.mac)}")
        elif device.mac is not None and device.mac != inherited:
            words.append(f"address {mac_text(device.mac, size)}")
        if device.mtu != usual:
            words.append(f"mtu {device.mtu}")
        if device.group:
            words.append(f"group {device.group}")
        if device.noarp:
            words.append("arp off")
        if device.point_to_point != (device.kind == "tun"):
            words.append(f"pointopoint {'on' if device.point_to_point else 'off'}")
        if not device.up and device.name not in late:
            words.append("down")
        if not device.carrier:
            words.append("carrier off")
        words.append(f"type {device.kind}")
        if device.kind == "vlan":
            words.append(f"id {device.vlan_id}")
            if device.vlan_protocol == 0x88A8:
                words.append("protocol 802.1ad")
        elif device.kind == "vrf":
            words.append(f"table {table_text(device.vrf_table)}")
        forwards = device.up and own_sysctl(host, 6, device.name, "forwarding")
        came_later = forwards and (6, ALL_ROUTERS6[2]) not in device.multicast
        (later if came_later or later else early).append(" ".join(words))
        known[device.name] = device
        if device.master:
            after.append(f"ip link set {device.name} master {device.master}")
    return (early, later + after) if later else (early + after, [])


def _loopback_lines(device: Device, late: set[str]) -> Iterator[str]:
    if device.mtu != 65536:
        yield f"ip link set lo mtu {device.mtu}"
    if device.mac is not None:
        yield f"ip link set lo address {mac_text(device.mac)}"
    if device.group:
        yield f"ip link set lo group {device.group}"
    if device.noarp:
        yield "ip link set lo arp off"
    if device.point_to_point:
        yield "ip link set lo pointopoint on"
    if not device.carrier:
        yield "ip link set lo carrier off"
    if not device.up and "lo" not in late:
        yield "ip link set lo down"


def _parents_first(devices: list[Device]) -> list[Device]:
    ordered: list[Device] = []
    waiting = list(devices)
    names = {d.name for d in devices}
    while waiting:
        done = {d.name for d in ordered}
        ready = [
            d for d in waiting if d.parent is None or d.parent in done or d.parent not in names
        ]
        if not ready:  # a circle; there is no good order
            return ordered + waiting
        # the first that can be added, so that the order stays where it may
        first = ready[0]
        ordered.append(first)
        waiting = [d for d in waiting if d is not first]
    return ordered


def _address_line(device: Device, address: Address) -> str:
    family = address.family
    words = [f"{_ip(family)} addr add"]
    if address.peer is None:
        words.append(prefix_text(family, address.ip, address.plen))
    else:
        peer = prefix_text(family, address.peer, address.plen)
        words.append(f"{address_text(family, address.ip)} peer {peer}")
    if address.broadcast is not None:
        words.append(f"brd {address_text(4, address.broadcast)}")
    words.append(f"dev {device.name}")
    if family == 4 and address.scope != (SCOPE_HOST if address.ip >> 24 == 127 else SCOPE_UNIVERSE):
        words.append(f"scope {scope_text(address.scope)}")
    if address.label and address.label != device.name:
        words.append(f"label {address.label}")
    if address.metric:
        words.append(f"metric {address.metric}")
    words += [
        flag for flag in ("noprefixroute", "tentative", "deprecated") if getattr(address, flag)
    ]
    return " ".join(words)


def _unlabelled(device: Device, address: Address) -> Address:
    """An address without the label that says only which device it is on."""
    return dataclasses.replace(address, label="") if address.label == device.name else address


def _is_automatic(device: Device, position: int) -> bool:
    """Whether an address is there without a line: the loopback's two, a link-local at the end."""
    address = _unlabelled(device, device.addresses[position])
    if device.name == "lo":
        plain = (Address(4, 0x7F000001, 8, scope=SCOPE_HOST), Address(6, 1, 128, scope=SCOPE_HOST))
        return address in plain
    return (
        device.mac is not None
        and position == len(device.addresses) - 1
        and address == Address(6, link_local_of(device.mac), 64, scope=SCOPE_LINK)
        and not any(a.family == 6 and a.ip >> 118 == 0x3FA for a in device.addresses[:position])
        and device.kind not in ("loopback", "tun", "none", "ppp")
        and device.up
        and device.speaks6
    )


def _address_lines(host: Host, late: set[str]) -> Iterator[str]:
    """Addresses in the order of their local routes, since equal ones are looked up in that order."""
    where: dict[tuple[Any, ...], int] = {}
    for k, route in enumerate(host.routes):
        if route.type == "local" and route.nexthops:
            where.setdefault((route.family, route.prefix, route.nexthops[0].device), k)
    lines: list[tuple[int, str]] = []
    for device in host.devices:
        if device.name == "lo":
            yield from _lost_loopback_lines(device)
        at = {4: -1, 6: -1}
        for position, address in enumerate(device.addresses):
            family = address.family
            if family == 6 and device.name in late:
                continue
            found = where.get((family, address.ip, device.name), len(host.routes))
            at[family] = max(at[family], found)  # within a device as they are
            if not _is_automatic(device, position):
                lines.append((at[family], _address_line(device, address)))
    yield from (line for _, line in sorted(lines, key=lambda entry: entry[0]))


def _lost_loopback_lines(device: Device) -> Iterator[str]:
    for family, ip, plen in ((4, 0x7F000001, 8), (6, 1, 128)):
        plain = Address(family, ip, plen, scope=SCOPE_HOST)
        if not any(_unlabelled(device, a) == plain for a in device.addresses) and not (
            family == 6 and (not device.up or not device.speaks6)
        ):
            yield f"{_ip(family)} addr del {prefix_text(family, ip, plen)} dev lo"


def _down_lines(host: Host, late: set[str]) -> Iterator[str]:
    for device in host.devices:
        if device.name in late:
            yield f"ip link set {device.name} down"
            for address in device.addresses:
                if address.family == 6:
                    yield _address_line(device, address)


def _link_local_lines(host: Host, final: Host) -> list[str]:
    """Sysctls against automatic addresses that a device does not have."""
    lines = []
    for device in host.devices:
        made = final.device(device.name)
        if made is None:
            continue
        have = {(a.family, a.ip) for a in device.addresses}
        if any((a.family, a.ip) not in have for a in made.addresses):
            lines.append(f"net.ipv6.conf.{device.name}.addr_gen_mode = 1")
    return lines


# --- next hop objects ---------------------------------------------------------------------------------


def _nexthop_lines(host: Host, base: Host) -> Iterator[str]:
    """The objects, groups last, and which members have buckets that are not as at first.

    A gateway that is out of reach by now was once in reach: a route to it comes and goes.
    """
    for nexthop in sorted(host.nexthops.values(), key=is_group):
        hop = nexthop.hop
        words = [f"{_ip(nexthop.family or 4)} nexthop add id {nexthop.id}"]
        if hop is None:
            words.append(f"group {members_text(nexthop)}")
        elif hop.blackhole:
            words.append("blackhole")
        elif hop.gateway is not None:
            words.append(f"via {address_text(hop.gateway_family, hop.gateway)}")
        if hop is not None and hop.device is not None and not hop.blackhole:
            words.append(f"dev {hop.device}" + (" onlink" if hop.onlink else ""))
        if nexthop.resilient:
            words.append(
                f"type resilient buckets {len(nexthop.buckets)} idle_timer {nexthop.idle_timer:g} "
                f"unbalanced_timer {nexthop.unbalanced_timer:g}"
            )
        if nexthop.protocol != "unspec":
            words.append(f"proto {nexthop.protocol}")
        way = _way_once(base, nexthop)
        if way:
            yield way.format("add")
        yield " ".join([*words, *(["fdb"] if nexthop.fdb else [])])
        if way:
            yield way.format("del")
        at_first = shared_out(nexthop.members, [0] * len(nexthop.buckets))
        for k, (member, usual) in enumerate(zip(nexthop.buckets, at_first)):
            if member != usual:
                yield f"id {nexthop.id} index {k} idle_time 0 nhid {member}"


def _way_once(base: Host, nexthop: NexthopObject) -> str:
    """The line that adds (or, filled in so, deletes) a route to the gateway, if one is needed."""
    hop = nexthop.hop
    if hop is None or hop.gateway is None or hop.device is None or hop.onlink:
        return ""
    try:
        add_nexthop(copy.deepcopy(base), copy.deepcopy(nexthop))
    except ControlError:
        family = hop.gateway_family
        return f"{_ip(family)} route {{}} {address_text(family, hop.gateway)} dev {hop.device} metric 9"
    return ""


# --- routes -------------------------------------------------------------------------------------------


def _plain(route: Route) -> tuple[Any, ...]:
    """A route without its line, as something that can be compared and put into sets."""
    # the scope of a next hop follows from the rest
    hops = tuple(dataclasses.astuple(dataclasses.replace(n, scope=0)) for n in route.nexthops)
    rest = tuple(
        getattr(route, f.name)
        for f in dataclasses.fields(Route)
        if f.name not in ("line", "nexthops")
    )
    return rest + hops


def _place(route: Route) -> tuple[Any, ...]:
    """What the kernel takes for the same route: their order decides."""
    tos = route.tos if route.family == 4 else 0
    return (
        route.family, route.table, route.prefix, route.plen, route.src, route.src_plen, tos,
        route.metric,
    )  # fmt: skip


def _route_lines(host: Host, base: Host, final: Host) -> tuple[list[str], list[str]]:
    """The lines that add routes, and those that remove automatic ones."""
    automatic = {_plain(route) for route in final.routes}
    present = {_plain(route) for route in host.routes}
    taken = {_place(route) for route in base.routes}
    groups: dict[tuple[Any, ...], list[Route]] = {}
    for route in host.routes:
        groups.setdefault(_place(route), []).append(route)
    wanted: list[tuple[str, Route]] = []
    for place, routes in groups.items():
        wanted += _group(routes, automatic, place in taken)
    wanted = [("append", route) for route in _once_reached(host)] + wanted
    if len(wanted) <= _ORDERED_AT_MOST:
        wanted = _in_good_order(base, wanted)
    lines = [_route_line(mode, route) for mode, route in wanted]
    gone = [_delete_line(route) for route in final.routes if _plain(route) not in present]
    if host.user_local_routes and not any(
        r.family == 4 and r.type == "local" for _, r in wanted
    ):  # one was there once, and the kernel remembers
        spare = "local 0.0.0.0/32 dev lo table 4294967295"
        gone += [f"ip route add {spare}", f"ip route del {spare}"]
    return lines, gone


def _once_reached(host: Host) -> list[Route]:
    """Routes to IPv6 gateways of dead next hops, which go with the devices when those go down."""
    gateways = {
        (hop.gateway, hop.device)
        for route in routes_of(host).singles()
        for hop in route.nexthops
        if hop.dead and hop.gateway is not None and hop.gateway_family == 6
    }
    return [
        Route(6, gateway, 128, metric=1024, nexthops=[Nexthop(device)])
        for gateway, device in sorted(gateways)
        if gateway >> 118 != 0x3FA
    ]


def _group(
    routes: list[Route], automatic: set[tuple[Any, ...]], taken: bool
) -> Iterator[tuple[str, Route]]:
    """Routes of one place with the verbs that bring them into their order."""
    own = [k for k, route in enumerate(routes) if _plain(route) not in automatic]
    others = [k for k in range(len(routes)) if k not in set(own)]
    first = others[0] if others else -1
    for k in reversed([k for k in own if k < first]):
        yield "prepend", routes[k]
    for count, k in enumerate(k for k in own if k > first):
        yield "add" if count == 0 and not others and not taken else "append", routes[k]


def _in_good_order(base: Host, wanted: list[tuple[str, Route]]) -> list[tuple[str, Route]]:
    """Each route behind those that its gateway needs, otherwise as they are."""
    trial = copy.deepcopy(base)
    good: list[tuple[str, Route]] = []
    while wanted:
        refused = []
        for mode, route in wanted:
            again = copy.deepcopy(route)
            try:
                add_route(trial, again, mode)
            except ControlError:
                refused.append((mode, route))
            else:
                good.append((mode, route))
        if len(refused) == len(wanted):
            return good + refused
        wanted = refused
    return good


def _default_scope(route: Route) -> int:
    if route.family == 6:
        return SCOPE_UNIVERSE
    if route.type == "local":
        return SCOPE_HOST
    if route.type in ("broadcast", "multicast", "anycast"):
        return SCOPE_LINK
    several = route.nhid or len(route.nexthops) > 1 or any(n.weight != 1 for n in route.nexthops)
    gateway = any(n.gateway is not None for n in route.nexthops)
    if route.type == "unicast" and not several and not gateway:
        return SCOPE_LINK
    return SCOPE_UNIVERSE


def _hop_text(route: Route, hop: Nexthop) -> str:
    words = []
    if hop.gateway is not None:
        inet6 = "inet6 " if route.family == 4 and hop.gateway_family == 6 else ""
        words.append(f"via {inet6}{address_text(hop.gateway_family, hop.gateway)}")
    if hop.device is not None:
        words.append(f"dev {hop.device}")
    return " ".join(words)


def _route_line(mode: str, route: Route) -> str:
    family = route.family
    words = [f"{_ip(family)} route {mode}"]
    if route.type != "unicast":
        words.append(route.type)
    words.append(prefix_text(family, route.prefix, route.plen) if route.plen else "default")
    if route.src_plen:
        words.append(f"from {prefix_text(family, route.src, route.src_plen)}")
    if route.tos:
        words.append(f"tos {route.tos:#04x}")
    if route.nhid:
        words.append(f"nhid {route.nhid}")
    elif len(route.nexthops) == 1 and route.nexthops[0].weight == 1:
        words.append(_hop_text(route, route.nexthops[0]))
        if route.nexthops[0].onlink:
            words.append("onlink")
    if route.table != (TABLE_LOCAL if route.type in _LOCAL_TYPES else TABLE_MAIN):
        words.append(f"table {table_text(route.table)}")
    if route.protocol != "boot":
        words.append(f"proto {route.protocol}")
    if route.scope != _default_scope(route):
        words.append(f"scope {scope_text(route.scope)}")
    if route.metric and not (family == 6 and route.metric == 1024):
        words.append(f"metric {route.metric}")
    if route.prefsrc is not None:
        words.append(f"src {address_text(family, route.prefsrc)}")
    if route.mtu:
        words.append(f"mtu {'lock ' if route.mtu_lock else ''}{route.mtu}")
    if route.hoplimit:
        words.append(f"hoplimit {route.hoplimit}")
    if route.preference != "medium":
        words.append(f"pref {route.preference}")
    if not route.nhid and (
        len(route.nexthops) > 1 or any(hop.weight != 1 for hop in route.nexthops)
    ):
        for hop in route.nexthops:
            words.append(f"nexthop {_hop_text(route, hop)}")
            if hop.weight != 1:
                words.append(f"weight {hop.weight}")
            if hop.onlink:
                words.append("onlink")
    return " ".join(words)


def _delete_line(route: Route) -> str:
    words = [f"{_ip(route.family)} route del"]
    if route.type != "unicast":
        words.append(route.type)
    words.append(prefix_text(route.family, route.prefix, route.plen))
    if route.nexthops:
        words.append(f"dev {route.nexthops[0].device}")
    words.append(f"table {table_text(route.table)} proto {route.protocol}")
    if route.metric:
        words.append(f"metric {route.metric}")
    return " ".join(words)


# --- rules, neighbours, sockets -----------------------------------------------------------------------


def _rule_text(rule: Rule) -> str:
    family = rule.family
    words = [f"pref {rule.pref}"]
    if rule.invert:
        words.append("not")
    if rule.src_plen:
        words.append(f"from {prefix_text(family, rule.src, rule.src_plen)}")
    if rule.dst_plen:
        words.append(f"to {prefix_text(family, rule.dst, rule.dst_plen)}")
    if rule.iif:
        words.append(f"iif {rule.iif}")
    if rule.oif:
        words.append(f"oif {rule.oif}")
    if rule.tos:
        words.append(f"tos {rule.tos:#04x}")
    if rule.dscp is not None:
        words.append(f"dscp {rule.dscp}")
    if rule.mark or rule.mask:
        full = rule.mask == 0xFFFFFFFF and rule.mark
        words.append(f"fwmark {rule.mark:#x}" + ("" if full else f"/{rule.mask:#x}"))
    if rule.protocol:
        words.append(f"ipproto {ip_protocol_text(rule.protocol)}")
    for side in ("sport", "dport"):
        ports = getattr(rule, side)
        if ports is not None:
            low, high = ports
            words.append(f"{side} {low}" if low == high else f"{side} {low}-{high}")
    if rule.uidrange is not None:
        words.append(f"uidrange {rule.uidrange[0]}-{rule.uidrange[1]}")
    if rule.l3mdev:
        words.append("l3mdev")
    if rule.action == "lookup":
        if rule.table or not rule.l3mdev:
            words.append(f"lookup {table_text(rule.table)}")
    elif rule.action == "goto":
        words.append(f"goto {rule.goto}")
    else:
        words.append(rule.action)
    if rule.suppress_prefixlength >= 0:
        words.append(f"suppress_prefixlength {rule.suppress_prefixlength}")
    if rule.suppress_ifgroup >= 0:
        words.append(f"suppress_ifgroup {rule.suppress_ifgroup}")
    return " ".join(words)


def _rule_lines(host: Host) -> Iterator[str]:
    from ippath.fib.control import new_host

    has_vrf = any(device.kind == "vrf" for device in host.devices)
    for family in (4, 6):
        mine = [r for r in host.rules if r.family == family]
        kept: list[int] = []
        lines = []
        defaults = [r for r in new_host().rules if r.family == family]
        if has_vrf:
            defaults.append(Rule(family, VRF_PREFERENCE, l3mdev=True))
        for default in defaults:
            at = next((k for k, r in enumerate(mine) if _same_rule(r, default)), None)
            # one that was removed and added again may stand behind others of its preference
            if at is None or any(
                r.pref == default.pref and k not in kept for k, r in enumerate(mine[:at])
            ):
                lines.append(f"{_ip(family)} rule del {_rule_text(default)}")
            else:
                kept.append(at)
        lines += [
            f"{_ip(family)} rule add {_rule_text(rule)}"
            for k, rule in enumerate(mine)
            if k not in kept
        ]
        changed = host.custom_rules4 if family == 4 else host.custom_rules6
        added = any(" rule add " in line for line in lines)
        if changed and not (added or has_vrf or (lines and family == 4)):
            # a rule was there once, and the kernel remembers
            lines += [f"{_ip(family)} rule {verb} pref 32765 nop" for verb in ("add", "del")]
        yield from lines


def _same_rule(one: Rule, other: Rule) -> bool:
    return dataclasses.replace(one, line="") == dataclasses.replace(other, line="")


def _neighbour_lines(host: Host) -> Iterator[str]:
    for entry in host.neighbours:
        yield _neighbour_line(entry)


def _neighbour_line(entry: Neighbour) -> str:
    words = ["ip neigh add"]
    if entry.proxy:
        words.append("proxy")
    words.append(address_text(entry.family, entry.ip))
    if entry.mac is not None:
        words.append(f"lladdr {mac_text(entry.mac, 8 if entry.mac >> 48 else 6)}")
    words.append(f"dev {entry.device}")
    if not entry.proxy or entry.state != "permanent":
        words.append(f"nud {entry.state}")
    return " ".join(words)


def _group_lines(host: Host, final: Host) -> Iterator[str]:
    for device in host.devices:
        made = final.device(device.name)
        joined = made.multicast if made is not None else set()
        for family, group in sorted(device.multicast - joined):
            yield f"join {address_text(family, group)} dev {device.name}"


def _listener_lines(host: Host) -> Iterator[str]:
    default = host.sysctls.get("net.core.rmem_default", "")
    size = int(default) if default.isdecimal() else _FIRST_RCVBUF
    for one in host.listeners:
        yield _listener_line(one, size)
    families: dict[int, set[int]] = {}
    for family, number in host.protocols:
        families.setdefault(number, set()).add(family)
    for number in sorted(families):
        both = len(families[number]) == 2
        yield f"listen proto {number}" + (
            "" if both else " inet" if 4 in families[number] else " inet6"
        )


def _endpoint(family: int, ip: int, port: int) -> str:
    text = address_text(family, ip)
    return f"{text}:{port}" if family == 4 else f"[{text}]:{port}"


def _listener_line(one: Listener, size: int) -> str:
    name = "udplite" if one.protocol == 136 else "udp"
    words = [f"listen {name} {_endpoint(one.family, one.ip, one.port)}"]
    if one.device:
        words.append(f"dev {one.device}")
    if one.peer is not None:
        words.append(f"peer {_endpoint(one.family, one.peer, one.peer_port)}")
    if one.reader != "fast":
        words.append(f"reader {one.reader}")
    if one.rcvbuf != size:
        words.append(f"rcvbuf {one.rcvbuf}")
    if not one.reuseaddr:
        words.append("noreuseaddr")
    words += [
        word
        for word, is_set in (
            ("reuseport", one.reuseport), ("v6only", one.v6only), ("no_check6", one.no_check6_rx),
        )
        if is_set
    ]  # fmt: skip
    return " ".join(words)
