"""Changing a host as `ip` and the kernel change it: devices, addresses, routes, rules, groups.

Everything that the kernel does by itself happens here: connected, local and broadcast routes,
scopes of next hops, preferences of rules, groups that every device joins, routes that vanish with a
device.  Errors carry the words that `ip` prints.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ippath.fib.gateways import (
    REJECTING, check_nexthop, device_of, is_local4, is_own_address,
)  # fmt: skip
from ippath.fib.nexthops import follow, lose_nexthops
from ippath.fib.placing import (
    Unwanted, at_place, del_route, hop_keys, place4, place6, same_place,
)  # fmt: skip
from ippath.fib.reference import reference_lookup
from ippath.fib.refused import ControlError
from ippath.fib.sysctl import effective_sysctl, own_sysctl
from ippath.fib.sysctl import set_sysctl as _write_sysctl
from ippath.fib.vrf import MTU as VRF_MTU, PREFERENCE as VRF_PREFERENCE, table_of
from ippath.model import (
    LEAST_MTU6, SCOPE_HOST, SCOPE_LINK, SCOPE_NOWHERE, SCOPE_UNIVERSE, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN,
    Address, Device, Host, Neighbour, Nexthop, Route, Rule,
)  # fmt: skip

__all__ = [
    "ControlError", "Unwanted", "add_address", "add_device", "add_neighbour", "become_vrf", "add_route", "add_rule",
    "change_device", "del_address", "del_device", "del_route", "del_rule", "effective_sysctl",
    "finish", "flush_rules", "join_group", "new_host", "own_sysctl", "reference_lookup",
    "set_sysctl",
]  # fmt: skip

METRIC_USER6, METRIC_ADDRESS6 = 1024, 256
# a route of such a type reaches no farther (kernel: fib_props)
LEAST_SCOPES = {"local": SCOPE_HOST, "broadcast": SCOPE_LINK, "anycast": SCOPE_LINK}
LOCAL_TABLE_TYPES = {"local", "broadcast", "anycast", "nat"}
USUAL_MTUS = {"lowpan": LEAST_MTU6, "vrf": VRF_MTU}
LINK_LOCAL = 0xFE80 << 112
MULTICAST6 = 0xFF << 120
ALL_SYSTEMS4 = 0xE0000001
ALL_NODES6 = (0xFF02 << 112 | 1, 0xFF01 << 112 | 1)
ALL_ROUTERS6 = (0xFF02 << 112 | 2, 0xFF01 << 112 | 2, 0xFF05 << 112 | 2)
SOLICITED_NODE = 0xFF02 << 112 | 0x1FF000000


def new_host() -> Host:
    """A host as a new network namespace is once its loopback device is up."""
    host = Host()
    add_device(host, "lo", kind="loopback", mtu=65536)
    add_address(host, "lo", Address(4, 0x7F000001, 8, scope=SCOPE_HOST))
    add_address(host, "lo", Address(6, 1, 128, scope=SCOPE_HOST))
    host.rules += [
        Rule(family, pref, table=table, by_kernel=True)
        for family, pref, table in (
            (4, 0, TABLE_LOCAL), (4, 32766, TABLE_MAIN), (4, 32767, TABLE_DEFAULT),
            (6, 0, TABLE_LOCAL), (6, 32766, TABLE_MAIN),
        )
    ]  # fmt: skip
    return host


def set_sysctl(host: Host, key: str, value: str | int) -> None:
    """Write a sysctl by its dotted name; turning IPv6 forwarding on joins the routers' groups."""
    _write_sysctl(host, key, value)
    if key.startswith("net.ipv6.conf.") and key.endswith(".forwarding"):
        for device in host.devices:
            if own_sysctl(host, 6, device.name, "forwarding"):
                _become_router6(host, device)


# --- devices ----------------------------------------------------------------------------------------


def add_device(
    host: Host,
    name: str,
    *,
    kind: str = "ether",
    mac: int | None = None,
    mtu: int | None = None,
    up: bool = True,
    carrier: bool = True,
    master: str | None = None,
    group: int = 0,
    parent: str | None = None,
    vlan_id: int = 0,
    vlan_protocol: int = 0x8100,
    point_to_point: bool = False,
    noarp: bool = False,
    vrf_table: int = 0,
    ifindex: int | None = None,
) -> Device:
    """Add a device; raises ControlError if the name is taken or the parent does not exist."""
    if host.device(name) is not None:
        raise ControlError("RTNETLINK answers: File exists")
    above = device_of(host, parent) if parent is not None else None
    if mac is None and above is not None and kind == "vlan":
        mac = above.mac
    if mtu is None and kind in USUAL_MTUS:
        mtu = USUAL_MTUS[kind]
    elif mtu is None:
        mtu = above.mtu if above is not None else 1500
    if ifindex is None:
        ifindex = 1 + max((d.ifindex for d in host.devices), default=0)
    device = Device(
        name, ifindex, kind=kind, mac=mac, mtu=mtu, up=up, carrier=carrier, master=master,
        group=group, parent=parent, vlan_id=vlan_id, vlan_protocol=vlan_protocol,
        point_to_point=point_to_point or kind == "tun", noarp=noarp, vrf_table=vrf_table,
    )  # fmt: skip
    host.devices.append(device)
    if up:
        _come_up(host, device)
    if kind == "vrf":
        _add_vrf_rules(host)
    return device


def _add_vrf_rules(host: Host) -> None:
    """The first VRF brings a rule for the tables of all (kernel: vrf_add_fib_rules)."""
    for family in (4, 6):
        if not any(r.l3mdev for r in host.rules if r.family == family):
            add_rule(host, Rule(family, VRF_PREFERENCE, l3mdev=True))


def become_vrf(host: Host, device: Device, table: int) -> None:
    """Make a VRF of a device that was known by its name alone; the devices that it has follow."""
    device.kind, device.vrf_table = "vrf", table
    _add_vrf_rules(host)
    for other in [d for d in host.devices if d.master == device.name or d is device]:
        kept = [a for a in other.addresses if a.family == 6]
        _enslave(host, other, other.master)
        for address in kept:
            if not any(a.family == 6 and a.ip == address.ip for a in other.addresses):
                add_address(host, other.name, address)


def _enslave(host: Host, device: Device, master: str | None) -> None:
    """Give a device to a VRF, or take it out: it goes down and up (kernel: do_vrf_add_slave).

    IPv6 addresses go, as they do when a device goes down (kernel: addrconf_notify).
    """
    was_up = device.up
    device.up = False
    _go_down(host, device)
    _drop_routes(host, device, keep_local=False, family=4)
    device.master, device.up = master, was_up
    if was_up:
        _come_up(host, device)


def change_device(host: Host, name: str, **fields: object) -> None:
    """Change fields of a device; going down or losing the carrier changes routes as in the kernel."""
    device = device_of(host, name)
    known = {f.name for f in dataclasses.fields(Device)}
    for field in fields:
        if field not in known:
            raise ControlError(f"a device has no {field}")
    if "master" in fields:
        master = fields.pop("master")
        was, device.master = device.master, None if master is None else str(master)
        involved = [host.device(name or "") for name in (was, device.master)]
        if was != device.master and any(d is not None and d.kind == "vrf" for d in involved):
            device.master = was
            _enslave(host, device, None if master is None else str(master))
    was_up, had_carrier, had_ipv6 = device.up, device.carrier, device.speaks6
    for field, value in fields.items():
        setattr(device, field, value)
    if was_up and not device.up:
        _go_down(host, device)
    elif device.up and not was_up:
        _come_up(host, device)
    if device.up and was_up and had_ipv6 != device.speaks6:
        if had_ipv6:
            _leave6(host, device)
        else:
            _come_up6(host, device)
    if had_carrier != device.carrier:
        _mark_linkdown(host, device)


def del_device(host: Host, name: str) -> None:
    """Remove a device with its addresses, routes, groups and neighbours."""
    device = device_of(host, name)
    if device.kind == "loopback":
        raise ControlError("RTNETLINK answers: Operation not supported")
    lose_nexthops(host, name)
    _drop_routes(host, device, keep_local=False, deleted=True)
    for other in host.devices:
        if other.master == name:
            change_device(host, other.name, master=None)
    host.devices.remove(device)
    host.neighbours = [n for n in host.neighbours if n.device != name]
    for other in [d for d in host.devices if d.parent == name]:
        del_device(host, other.name)


def _come_up(host: Host, device: Device) -> None:
    device.multicast.add((4, ALL_SYSTEMS4))
    for route in host.routes:  # next hops of multipath routes come back to life
        for nexthop in route.nexthops:
            if nexthop.device == device.name:
                nexthop.dead = False
    for address in device.addresses:
        if address.family == 4:
            _add_address_routes4(host, device, address)
    _come_up6(host, device)
    _mark_linkdown(host, device)


def _come_up6(host: Host, device: Device) -> None:
    if not device.speaks6 or effective_sysctl(host, 6, device, "disable_ipv6"):
        return
    for group in ALL_NODES6:
        device.multicast.add((6, group))
    if device.kind != "loopback":
        _insert(host, _kernel_route(host, 6, MULTICAST6, 8, TABLE_LOCAL, "multicast", device, 256))
    if own_sysctl(host, 6, device.name, "forwarding"):
        device.multicast.add((6, ALL_ROUTERS6[0]))
    for address in device.addresses:
        if address.family == 6:
            _add_address_routes6(host, device, address)


def _leave6(host: Host, device: Device) -> None:
    """What IPv6 had on the device goes (kernel: addrconf_ifdown)."""
    _drop_routes(host, device, keep_local=False, family=6)
    device.addresses = [a for a in device.addresses if a.family == 4]
    device.multicast = {(f, g) for f, g in device.multicast if f == 4}
    host.neighbours = [n for n in host.neighbours if n.device != device.name or n.family == 4]


def _go_down(host: Host, device: Device) -> None:
    """Routes by the device go; IPv6 addresses too (kernel: fib_disable_ip, addrconf_ifdown)."""
    lose_nexthops(host, device.name)
    _drop_routes(host, device, keep_local=True, unlink6=False)
    if not own_sysctl(host, 6, device.name, "keep_addr_on_down"):
        device.addresses = [a for a in device.addresses if a.family == 4]
    device.multicast = {(f, g) for f, g in device.multicast if f == 4}
    host.neighbours = [
        n for n in host.neighbours if n.device != device.name or n.state == "permanent"
    ]


def _drop_routes(
    host: Host, device: Device, keep_local: bool, family: int = 0, unlink6: bool = True,
    deleted: bool = False,
) -> None:  # fmt: skip
    """Mark next hops by the device as dead; routes without others go.

    Those of IPv6 leave their routes with `unlink6` (kernel: fib6_ifdown, NETDEV_UNREGISTER).
    """
    kept = []
    for route in host.routes:
        mine = [n for n in route.nexthops if n.device == device.name]
        if (
            not mine
            or route.nhid
            or (family and route.family != family)
            or (keep_local and route.family == 4 and route.scope == SCOPE_HOST)
        ):
            kept.append(route)
            continue
        for nexthop in mine:
            nexthop.dead = True
        if route.family == 6 and unlink6:
            route.nexthops = [n for n in route.nexthops if n.device != device.name]
        if deleted and route.family == 4:  # the whole route (kernel: fib_sync_down_dev)
            continue
        if route.nexthops and not all(n.dead for n in route.nexthops):
            kept.append(route)
    host.routes = kept


def _mark_linkdown(host: Host, device: Device) -> None:
    if not device.carrier:
        lose_nexthops(host, device.name)
    for route in host.routes:
        for nexthop in route.nexthops:
            if nexthop.device == device.name and nexthop.scope != SCOPE_NOWHERE:
                nexthop.linkdown = not device.carrier


def _become_router6(host: Host, device: Device) -> None:
    if device.up and not effective_sysctl(host, 6, device, "disable_ipv6"):
        for group in ALL_ROUTERS6:
            device.multicast.add((6, group))
        for address in device.addresses:
            if address.family == 6:
                _add_anycast6(host, device, address)


def join_group(host: Host, device_name: str, family: int, group: int) -> None:
    """Join a multicast group on a device (IP_ADD_MEMBERSHIP, IPV6_JOIN_GROUP)."""
    device_of(host, device_name).multicast.add((family, group))


# --- addresses --------------------------------------------------------------------------------------


def _mask(bits: int, plen: int) -> int:
    return ((1 << plen) - 1) << (bits - plen)


def _prefix(address: Address) -> int:
    bits = 32 if address.family == 4 else 128
    base = address.ip if address.peer is None else address.peer
    return base & _mask(bits, address.plen)


def _kernel_route(
    host: Host,
    family: int,
    prefix: int,
    plen: int,
    table: int,
    kind: str,
    device: Device,
    metric: int = 0,
    prefsrc: int | None = None,
) -> Route:
    local = kind in ("local", "anycast") and (family == 6 or kind == "local")
    scope = SCOPE_UNIVERSE if family == 6 else (SCOPE_HOST if kind == "local" else SCOPE_LINK)
    nexthop = Nexthop(device.name, scope=SCOPE_NOWHERE if local else SCOPE_HOST)
    nexthop.linkdown = not device.carrier and not local
    table = table_of(host, device, table)
    return Route(
        family, prefix, plen, table, kind, metric=metric, scope=scope, protocol="kernel",
        prefsrc=prefsrc, nexthops=[nexthop],
    )  # fmt: skip


def _insert(host: Host, route: Route) -> None:
    """Add an automatic route unless it is there already."""
    for other in at_place(host, route):
        if (other.type, other.metric, other.prefsrc, other.scope) == (
            route.type,
            route.metric,
            route.prefsrc,
            route.scope,
        ) and hop_keys(other) == hop_keys(route):
            return
    host.routes.append(route)


def add_address(host: Host, device_name: str, address: Address) -> None:
    """Add an address with its routes (kernel: inet_insert_ifa, inet6_addr_add)."""
    device = device_of(host, device_name)
    if address.family == 6 and effective_sysctl(host, 6, device, "disable_ipv6"):
        raise ControlError("RTNETLINK answers: Permission denied")
    if address.family == 6 and not device.speaks6:
        raise ControlError("RTNETLINK answers: Invalid argument")
    mine = [a for a in device.addresses if a.family == address.family]
    for other in mine:
        same_subnet = other.plen == address.plen and _prefix(other) == _prefix(address)
        if other.ip == address.ip and (address.family == 6 or same_subnet):
            raise ControlError("RTNETLINK answers: File exists")
        if address.family == 4 and same_subnet and not other.secondary:
            address.secondary = True
    device.addresses.append(address)
    if address.family == 4:
        _add_address_routes4(host, device, address)
    else:
        _add_address_routes6(host, device, address)


def _primary(device: Device, address: Address) -> Address:
    if not address.secondary:
        return address
    for other in device.addresses:
        if (
            other.family == 4
            and not other.secondary
            and (other.plen, _prefix(other)) == (address.plen, _prefix(address))
        ):
            return other
    return address


def _add_address_routes4(host: Host, device: Device, address: Address) -> None:
    """Local, broadcast and connected routes of an IPv4 address (kernel: fib_add_ifaddr)."""
    source = _primary(device, address).ip
    prefix, plen = _prefix(address), address.plen

    def add(kind: str, to: int, length: int, metric: int = 0) -> None:
        table = TABLE_MAIN if kind == "unicast" else TABLE_LOCAL
        _insert(host, _kernel_route(host, 4, to, length, table, kind, device, metric, source))

    add("local", address.ip, 32)
    if not device.up:
        return
    if address.broadcast is not None and address.broadcast != 0xFFFFFFFF:
        add("broadcast", address.broadcast, 32)
    if prefix >> 24 and not address.secondary and (prefix != address.ip or plen < 32):
        if not address.noprefixroute:
            kind = "local" if device.kind == "loopback" else "unicast"
            add(kind, prefix, plen, address.metric)
        if plen < 31:
            add("broadcast", prefix | (_mask(32, 32) ^ _mask(32, plen)), 32)


def _add_address_routes6(host: Host, device: Device, address: Address) -> None:
    """Local, connected and anycast routes, and the groups, of an IPv6 address."""
    if address.ip >> 118 == 0x3FA and address.scope == SCOPE_UNIVERSE:
        address.scope = SCOPE_LINK
    _insert(host, _kernel_route(host, 6, address.ip, 128, TABLE_LOCAL, "local", device))
    if not device.up:
        return
    if not address.noprefixroute:
        metric = address.metric or METRIC_ADDRESS6
        own = address.ip & _mask(128, address.plen)
        _insert(
            host, _kernel_route(host, 6, own, address.plen, TABLE_MAIN, "unicast", device, metric)
        )
        if address.peer is not None:
            to = _kernel_route(host, 6, address.peer, 128, TABLE_MAIN, "unicast", device, metric)
            _insert(host, to)
    _join_solicited_node(device, address.ip)
    if own_sysctl(host, 6, device.name, "forwarding"):
        _add_anycast6(host, device, address)


def _join_solicited_node(device: Device, address: int) -> None:
    """Be reachable by neighbour solicitations for the address (kernel: addrconf_join_solict)."""
    if device.asks_neighbours:
        device.multicast.add((6, SOLICITED_NODE | (address & 0xFFFFFF)))


def _add_anycast6(host: Host, device: Device, address: Address) -> None:
    """The subnet router's anycast address (RFC 4291 2.6.1; kernel: addrconf_join_anycast)."""
    if address.plen >= 127 or device.kind == "loopback":
        return
    subnet = address.ip & _mask(128, address.plen)
    if subnet == 0:
        return
    _insert(host, _kernel_route(host, 6, subnet, 128, TABLE_LOCAL, "anycast", device))
    _join_solicited_node(device, subnet)


def del_address(host: Host, device_name: str, family: int, ip: int, plen: int) -> None:
    """Remove an address with its routes; an IPv4 primary takes its secondaries along."""
    device = device_of(host, device_name)
    found = next(
        (a for a in device.addresses if (a.family, a.ip, a.plen) == (family, ip, plen)), None
    )
    if found is None:
        raise ControlError("Error: ipv4: Address not found." if family == 4 else
                           "RTNETLINK answers: Cannot assign requested address")  # fmt: skip
    gone = [found]
    if (
        family == 4
        and not found.secondary
        and not own_sysctl(host, 4, device_name, "promote_secondaries")
    ):
        gone += [
            a
            for a in device.addresses
            if a.family == 4 and a.secondary and (a.plen, _prefix(a)) == (plen, _prefix(found))
        ]
    device.addresses = [a for a in device.addresses if not any(a is g for g in gone)]
    _renew_address_routes(host, device, family, {a.ip for a in gone})
    if family == 4 and not any(a.family == 4 for a in device.addresses):
        _drop_routes(host, device, keep_local=False, family=4)  # IPv4 is off there (fib_disable_ip)


def _renew_address_routes(host: Host, device: Device, family: int, gone: set[int]) -> None:
    """Remove the automatic routes that no address of the device asks for any more."""
    wanted = Host(devices=host.devices, sysctls=host.sysctls)
    for address in device.addresses:
        if address.family == family == 4:
            _add_address_routes4(wanted, device, address)
        elif address.family == family == 6:
            _add_address_routes6(wanted, device, address)

    def is_automatic(route: Route) -> bool:
        return (
            route.family == family
            and route.protocol == "kernel"
            and [n.device for n in route.nexthops] == [device.name]
            and route.type != "multicast"
        )

    def stays(route: Route) -> bool:
        return not is_automatic(route) or any(
            same_place(route, w) and route.type == w.type for w in wanted.routes
        )

    host.routes = [r for r in host.routes if stays(r)]
    if family == 4:  # others go if they name it as their source, and no other device has it
        gone = {ip for ip in gone if not is_local4(host, ip)}
        main = table_of(host, device, TABLE_MAIN)
        host.routes = [
            r
            for r in host.routes
            if r.family == 6 or r.table != main or r.prefsrc not in gone or is_automatic(r)
        ]


# --- routes -----------------------------------------------------------------------------------------


def _complete(route: Route) -> None:
    """Fill in what `ip route` chooses by type: table, scope, metric."""
    if route.table is None or route.table < 0:
        route.table = TABLE_LOCAL if route.type in LOCAL_TABLE_TYPES else TABLE_MAIN
    if route.scope is None or route.scope < 0:
        route.scope = SCOPE_UNIVERSE
        if route.family == 4:
            if route.type == "local":
                route.scope = SCOPE_HOST
            elif route.type in ("broadcast", "multicast", "anycast"):
                route.scope = SCOPE_LINK
            elif (
                route.type == "unicast"
                and not route.nhid
                and not any(n.gateway is not None for n in route.nexthops)
            ):
                route.scope = SCOPE_LINK
    if route.family == 6 and route.metric == 0:
        route.metric = METRIC_USER6
    for nexthop in route.nexthops:
        if nexthop.gateway is not None and not nexthop.gateway_family:
            nexthop.gateway_family = route.family


def add_route(host: Host, route: Route, mode: str = "add") -> None:
    """Add a route: `mode` is add, append, prepend, replace or change.

    Raises ControlError where the kernel refuses (kernel: fib_create_info, ip6_route_info_create).
    """
    _complete(route)
    if route.nhid:
        follow(host, route)
    elif route.type in REJECTING:
        route.nexthops = []
    elif not route.nexthops:
        if route.family == 6 and route.type in ("local", "anycast"):
            route.nexthops = [Nexthop("lo")]
        else:
            raise ControlError("Error: Egress device not specified." if route.family == 6 else
                               "RTNETLINK answers: No such device")  # fmt: skip
    if not route.nhid:
        _check_nexthops(host, route)
    if route.family == 4 and route.scope < LEAST_SCOPES.get(route.type, SCOPE_UNIVERSE):
        raise ControlError("Error: Invalid scope.")
    judged = route.prefsrc is not None and not (route.family == 4 and route.type in REJECTING)
    if judged and not is_own_address(host, route.family, route.prefsrc or 0):
        if not (route.type == "local" and route.prefsrc == route.prefix):
            raise ControlError("Error: Invalid prefsrc address.")
    if route.protocol == "kernel" and any(
        o.protocol == "kernel" and hop_keys(o) == hop_keys(route) for o in at_place(host, route)
    ):
        return  # pasted output of `ip route`: the address brought this route already
    if route.family == 4:
        place4(host, route, mode)
    else:
        place6(host, route, mode)
    if route.family == 4 and route.type == "local":
        host.user_local_routes = True


def _check_nexthops(host: Host, route: Route) -> None:
    if route.family == 4 and route.scope == SCOPE_HOST and route.type not in REJECTING:
        if len(route.nexthops) > 1:
            raise ControlError("Error: Route with host scope can not have multiple nexthops.")
        if route.nexthops[0].gateway is not None:
            raise ControlError("Error: Route with host scope can not have a gateway.")
    for nexthop in route.nexthops:
        check_nexthop(host, route, nexthop)


# --- rules ------------------------------------------------------------------------------------------


def _selectors(rule: Rule) -> dict[str, object]:
    return {f.name: getattr(rule, f.name) for f in dataclasses.fields(Rule) if f.name != "line"}


def add_rule(host: Host, rule: Rule) -> None:
    """Add a rule; a preference of -1 lets the kernel choose (kernel: fib_nl_newrule)."""
    if rule.pref < 0:
        prefs = sorted(r.pref for r in host.rules if r.family == rule.family)
        rule.pref = max(0, prefs[1] - 1) if len(prefs) > 1 and prefs[1] else 0
    if rule.action == "goto" and rule.goto <= rule.pref:
        raise ControlError("Error: Backward goto not supported.")
    if rule.action == "lookup" and not rule.table and not rule.l3mdev:
        rule.table = TABLE_MAIN
    if any(_selectors(r) == _selectors(rule) for r in host.rules):
        raise ControlError("RTNETLINK answers: File exists")
    host.rules.append(rule)
    _rules_changed(host, rule.family, added=True)


def del_rule(host: Host, rule: Rule, given: Iterable[str]) -> None:
    """Remove the first rule, by preference, that equals `rule` in the fields named in `given`."""
    fields = set(given)
    for other in sorted((r for r in host.rules if r.family == rule.family), key=lambda r: r.pref):
        if all(getattr(other, field) == getattr(rule, field) for field in fields):
            host.rules = [r for r in host.rules if r is not other]
            _rules_changed(host, rule.family, added=False)
            return
    raise ControlError("RTNETLINK answers: No such file or directory")


def flush_rules(host: Host, family: int) -> None:
    """Remove all rules but the one at preference 0 (`ip rule flush`)."""
    host.rules = [r for r in host.rules if r.family != family or r.pref == 0]
    _rules_changed(host, family, added=False)


def _rules_changed(host: Host, family: int, added: bool) -> None:
    # IPv4 remembers any change for good, IPv6 only that a rule was added
    if family == 4:
        host.custom_rules4 = True
    elif added:
        host.custom_rules6 = True


# --- the rest ---------------------------------------------------------------------------------------


def add_neighbour(host: Host, neighbour: Neighbour) -> None:
    """Add a neighbour entry; one for the same address and device is replaced."""
    device_of(host, neighbour.device)
    host.neighbours = [
        n
        for n in host.neighbours
        if (n.family, n.ip, n.device, n.proxy)
        != (neighbour.family, neighbour.ip, neighbour.device, neighbour.proxy)
    ]
    host.neighbours.append(neighbour)


def link_local_of(mac: int) -> int:
    """The link-local address that a device makes from its MAC (RFC 4291 appendix A)."""
    high, low = mac >> 24, mac & 0xFFFFFF
    return LINK_LOCAL | ((high ^ 0x020000) << 40) | (0xFFFE << 24) | low


def finish(host: Host) -> None:
    """Give each device the link-local address it would make itself, where none was given.

    Devices with a MAC, IPv6 on, and addr_gen_mode 0 (kernel: addrconf_addr_gen).
    """
    for device in host.devices:
        if (
            device.up
            and device.mac is not None
            and device.kind not in ("loopback", "tun", "none", "ppp", "vrf")
            and device.speaks6
            and not effective_sysctl(host, 6, device, "disable_ipv6")
            and own_sysctl(host, 6, device.name, "addr_gen_mode") != 1
            and not any(a.family == 6 and a.ip >> 118 == 0x3FA for a in device.addresses)
        ):
            made = link_local_of(device.mac)
            if device.kind == "lowpan":  # which has an EUI-64 already
                made = LINK_LOCAL | device.mac ^ 1 << 57
            address = Address(6, made, 64, scope=SCOPE_LINK)
            add_address(host, device.name, address)
