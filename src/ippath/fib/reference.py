"""A route look-up in plain Python: slow, short, and independent of the tables of the fast path.

The control side uses it to resolve gateways, the tests to hold the fast look-up against.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ippath.fib.routes import routes_of
from ippath.fib.sysctl import effective_sysctl
from ippath.fib.vrf import vrf_of
from ippath.model import (
    TABLE_DEFAULT,
    TABLE_LOCAL,
    TABLE_MAIN,
    Address,
    Device,
    Host,
    Nexthop,
    Route,
    Rule,
)

ERRORS = {"unreachable": 113, "prohibit": 13, "blackhole": 22, "throw": 11}
ENETUNREACH, EACCES, EINVAL, EAGAIN = 101, 13, 22, 11
_RULE_ERRORS = {"unreachable": ENETUNREACH, "prohibit": EACCES, "blackhole": EINVAL}
LINK_LOCAL_SCOPE = 2
_PREFERENCE = {"low": 0, "medium": 1, "high": 2}


@dataclass
class Query:
    """What a look-up asks."""

    family: int
    destination: int
    source: int = 0
    iif: str | None = None
    oif: str | None = None
    mark: int = 0
    tos: int = 0
    protocol: int = 0
    sport: int = 0
    dport: int = 0
    scope: int = 0
    ignore_linkdown: bool = False


@dataclass
class Found:
    """What it found: an error number, or the route, its first usable next hop and the rule."""

    error: int = ENETUNREACH
    route: Route | None = None
    nexthop: Nexthop | None = None
    rule: Rule | None = None


def _covers(bits: int, prefix: int, plen: int, address: int) -> bool:
    return plen == 0 or (prefix ^ address) >> (bits - plen) == 0


def _usable(host: Host, query: Query, route: Route) -> Nexthop | None:
    for nexthop in route.nexthops:
        device = host.device(nexthop.device or "")
        if nexthop.dead or device is None:
            continue
        if nexthop.linkdown and not query.ignore_linkdown:
            if effective_sysctl(host, query.family, device, "ignore_routes_with_linkdown"):
                continue
        if query.oif is None or nexthop.device == query.oif:
            return nexthop
    return None


def _by_length(host: Host, query: Query, tables: tuple[int, ...]) -> list[Route]:
    bits = 32 if query.family == 4 else 128
    routes = [
        r
        for table in tables
        for r in routes_of(host).covering(query.family, table, query.destination)
        if _covers(bits, r.src, r.src_plen, query.source)
    ]

    def order(route: Route) -> tuple:
        if query.family == 4:
            return (-route.plen, -route.table, -route.tos, route.metric)
        # among equals that which leaves by the device asked for, or came in by (rt6_check_dev)
        devices = {nexthop.device for nexthop in route.nexthops}
        preference = _PREFERENCE[route.preference]
        other = (query.oif or query.iif) not in devices
        return (-route.plen, -route.src_plen, route.metric, -preference, other)

    return sorted(routes, key=order)


def _look_in(host: Host, query: Query, tables: tuple[int, ...]) -> Found:
    over = -1
    for route in _by_length(host, query, tables):
        if route.plen == over:
            continue
        if query.family == 4:
            if route.tos and route.tos != query.tos & 0x1C:
                continue
            if route.scope < query.scope:
                continue
        error = ERRORS.get(route.type, 0)
        if any(hop.blackhole for hop in route.nexthops):
            error = ERRORS["blackhole"]
        if error and query.family == 6 and query.oif not in (None, "lo"):
            continue  # they are routes by lo
        if error:
            return Found(error, route)
        nexthop = _usable(host, query, route)
        if nexthop is not None:
            return Found(0, route, nexthop)
        if route.nhid and query.family == 4:  # the rest of this prefix is passed over, too
            over = route.plen
    return Found(EAGAIN)


def _is_device(host: Host, wanted: str | None, name: str | None, vrf: Device | None) -> bool:
    """Is it the device of a selector? That of a VRF stands for all of its devices."""
    if vrf is not None and wanted == vrf.name:
        return True
    named = host.device(wanted) if wanted is not None else None
    return wanted is None or (wanted == name and not (named is not None and named.kind == "vrf"))


def _rule_applies(host: Host, query: Query, rule: Rule, vrf: Device | None) -> bool:
    bits = 32 if query.family == 4 else 128
    mask = 0x1C if query.family == 4 else 0xFC
    matches = (
        _is_device(host, rule.iif, query.iif, vrf)
        and _is_device(host, rule.oif, query.oif, vrf)
        and not (rule.mark ^ query.mark) & rule.mask
        and (not rule.l3mdev or vrf is not None)
        and (rule.uidrange is None or rule.uidrange[0] == 0)
        and _covers(bits, rule.src, rule.src_plen, query.source)
        and _covers(bits, rule.dst, rule.dst_plen, query.destination)
        and (rule.dscp is None or rule.dscp == (query.tos & 0xFC) >> 2)
        and (rule.dscp is not None or not rule.tos or rule.tos == query.tos & mask)
        and (not rule.protocol or rule.protocol == query.protocol)
        and (rule.sport is None or rule.sport[0] <= query.sport <= rule.sport[1])
        and (rule.dport is None or rule.dport[0] <= query.dport <= rule.dport[1])
    )
    return matches != rule.invert


def _suppressed(host: Host, rule: Rule, found: Found) -> bool:
    assert found.route is not None
    if found.route.plen <= rule.suppress_prefixlength:
        return True
    device: Device | None = host.device(found.nexthop.device or "") if found.nexthop else None
    return (
        rule.suppress_ifgroup >= 0 and device is not None and device.group == rule.suppress_ifgroup
    )


def _by_rules(host: Host, query: Query) -> Found:
    rules = sorted((r for r in host.rules if r.family == query.family), key=lambda r: r.pref)
    vrf = vrf_of(host, host.device(query.oif or query.iif or ""))
    if vrf is not None and query.oif == vrf.name:  # it says which tables, not by which device
        query = dataclasses.replace(query, oif=None)
    at = 0
    while at < len(rules):
        rule = rules[at]
        at += 1
        if not _rule_applies(host, query, rule, vrf):
            continue
        if rule.action == "goto":
            target = next((k for k, r in enumerate(rules) if r.pref == rule.goto), None)
            if target is not None and target >= at:
                at = target
            continue
        if rule.action in _RULE_ERRORS:
            return Found(_RULE_ERRORS[rule.action], rule=rule)
        if rule.action != "lookup":
            continue
        table = vrf.vrf_table if rule.l3mdev and vrf is not None else rule.table
        found = _look_in(host, query, (table,))
        if found.error == 0 and _suppressed(host, rule, found):
            continue
        if found.error != EAGAIN:
            found.rule = rule
            return found
    return Found()


def reference_lookup(
    host: Host,
    family: int,
    destination: int,
    source: int = 0,
    *,
    iif: str | None = None,
    oif: str | None = None,
    mark: int = 0,
    tos: int = 0,
    protocol: int = 0,
    sport: int = 0,
    dport: int = 0,
    scope: int = 0,
    table: int | None = None,
    only: bool = False,
    ignore_linkdown: bool = False,
) -> Found:
    """Find a route as the kernel would; `table` asks that table first, or `only` that.

    Addresses are ints.
    """
    query = Query(
        family, destination, source, iif, oif, mark, tos, protocol, sport, dport, scope,
        ignore_linkdown,
    )  # fmt: skip
    if table is not None:
        found = _look_in(host, query, (table,))
        if found.error == 0 or only:
            return found
    custom = host.custom_rules4 if family == 4 else host.custom_rules6
    if custom:
        return _by_rules(host, query)
    if family == 4:  # local and main are one table until the first rule changes
        chain = [(TABLE_LOCAL, TABLE_MAIN), (TABLE_DEFAULT,)]
    else:
        chain = [(TABLE_LOCAL,), (TABLE_MAIN,)]
    for tables in chain:
        found = _look_in(host, query, tables)
        if found.error != EAGAIN:
            return found
    return Found()


def source_toward(host: Host, family: int, peer: int, oif: str | None = None) -> int:
    """The address that connect() gives a socket without one; 0 where there is no way to `peer`.

    Source: ip4_datagram_connect, fib_result_prefsrc, inet_select_addr; ip6_dst_lookup.
    """
    found = reference_lookup(host, family, peer, iif="lo", oif=oif)
    if found.error or found.route is None:
        return 0
    if found.route.prefsrc:
        return found.route.prefsrc
    if found.route.type == "local":
        return peer
    nexthop = found.nexthop
    device = host.device(nexthop.device or "") if nexthop else None
    if family == 6:
        return _source6(host, peer, device)
    own = [a for a in device.addresses if a.family == 4 and not a.secondary] if device else []
    toward = nexthop.gateway or 0 if nexthop and nexthop.gateway_family == 4 else 0
    near = [a for a in own if toward and _covers(32, a.ip, a.plen, toward)]
    return next((a.ip for a in near + own), 0)


def _scope_and_label(address: int) -> tuple[int, int]:
    """Scope and policy label of an IPv6 address, by the functions of the path."""
    from ippath.fib.build import halves
    from ippath.jit import plain
    from ippath.tx.route_output6 import address_label, address_scope6

    hi, lo = halves(address)
    return plain(address_scope6)(hi, lo), plain(address_label)(hi, lo)


def kernel_order(addresses: list[Address]) -> list[Address]:
    """IPv6 addresses as the kernel lists them, by scope, newest first; IPv4 ones as they were added."""
    six = [a for a in reversed(addresses) if a.family == 6]
    six.sort(key=lambda a: _scope_and_label(a.ip)[0], reverse=True)
    return [a for a in addresses if a.family == 4] + six


def _source6(host: Host, peer: int, out: Device | None) -> int:
    """The best IPv6 address toward `peer` by `out`, 0 if there is none (kernel: ipv6_dev_get_saddr)."""
    scope, label = _scope_and_label(peer)
    only_out = peer >> 120 == 0xFF or scope <= LINK_LOCAL_SCOPE

    def merit(address: Address, device: Device) -> tuple:
        own, own_label = _scope_and_label(address.ip)
        return (
            address.ip == peer,
            -own if own >= scope else own - 128,
            not address.deprecated,
            device is out,
            own_label == label,
            min(128 - (address.ip ^ peer).bit_length(), address.plen),
        )

    candidates = [
        (merit(address, device), address.ip)
        for device in host.devices
        if device is out or not only_out
        for address in kernel_order(device.addresses)
        if address.family == 6 and not address.tentative
    ]
    best = max((m for m, _ in candidates), default=())
    return next((ip for m, ip in candidates if m == best), 0)
