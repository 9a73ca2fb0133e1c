"""Where a new route stands among routes of the same prefix, and which one `ip route del` takes.

Mirrors `fib_table_insert`, `fib_table_delete`, `fib6_add_rt2node`, `ip6_route_multipath_add` and
`ip6_route_del`.  Several next hops of IPv6 are routes of their own in the kernel that go side by side
(siblings); here they are one route.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ippath.fib.refused import FILE_EXISTS, NO_SUCH_FILE, NO_SUCH_PROCESS, ControlError
from ippath.fib.routes import place_of, routes_of
from ippath.model import Host, Nexthop, Route


@dataclass
class Unwanted:
    """What a route must be like to be deleted; None (of lists: nothing) is any."""

    family: int
    prefix: int
    plen: int
    table: int
    type: str | None = None
    tos: int = 0
    metric: int | None = None
    src: int = 0
    src_plen: int = 0
    scope: int | None = None
    protocol: str | None = None
    prefsrc: int | None = None
    mtu: int | None = None
    hoplimit: int | None = None
    nhid: int | None = None
    hops: list[Nexthop] = field(default_factory=list)  # their devices and gateways count
    listed: bool = False  # they were written as `nexthop …`


def same_place(one: Route, other: Route) -> bool:
    """Whether two routes have the same table, prefix and source prefix."""
    return (
        one.family == other.family
        and one.table == other.table
        and (one.prefix, one.plen) == (other.prefix, other.plen)
        and (one.src, one.src_plen) == (other.src, other.src_plen)
    )


def at_place(host: Host, route: Route) -> list[Route]:
    """Routes of the same table, prefix and source prefix."""
    found = routes_of(host).at(route.family, route.table, route.prefix, route.plen)
    return [other for other in found if same_place(other, route)]


def hop_keys(route: Route) -> list[tuple]:
    """What tells the next hops of routes apart."""
    if route.nhid:
        return [(route.nhid,)]
    return [
        (n.device, n.gateway if n.gateway is None else (n.gateway_family, n.gateway), n.weight,
         n.onlink, n.scope)
        for n in route.nexthops
    ]  # fmt: skip


# --- IPv4 -----------------------------------------------------------------------------------------------


def _identical4(one: Route, other: Route) -> bool:
    """Whether the kernel keeps the same fib_info and type for both (kernel: fib_find_info)."""
    return (
        one.type, one.scope, one.protocol, one.prefsrc, one.mtu, one.mtu_lock, one.hoplimit,
    ) == (
        other.type, other.scope, other.protocol, other.prefsrc, other.mtu, other.mtu_lock,
        other.hoplimit,
    ) and hop_keys(one) == hop_keys(other)  # fmt: skip


def place4(host: Host, route: Route, mode: str) -> None:
    """Add an IPv4 route (kernel: fib_table_insert).  Raises ControlError."""
    routes = routes_of(host)
    same = [
        other
        for other in at_place(host, route)
        if (other.tos, other.metric) == (route.tos, route.metric)
    ]
    if not same:
        if mode == "change":
            raise ControlError(NO_SUCH_FILE)
        routes.append(route)
        return
    if mode == "add":
        raise ControlError(FILE_EXISTS)
    equal = next((other for other in same if _identical4(other, route)), None)
    if equal is not None:
        if mode in ("replace", "change") and equal is same[0]:
            return
        raise ControlError(FILE_EXISTS)
    there = routes.own(place_of(route))
    if mode in ("replace", "change"):
        there[_number_of(there, same[0])] = route
    elif mode == "prepend":
        there.insert(_number_of(there, same[0]), route)
    else:
        there.insert(_number_of(there, same[-1]) + 1, route)
    routes.arrange(place_of(route), there)


def _number_of(routes: list[Route], route: Route) -> int:
    return next(k for k, other in enumerate(routes) if other is route)


def _hops_match4(wanted: Unwanted, route: Route) -> bool:
    """kernel: fib_nh_match."""
    if wanted.nhid:
        return route.nhid == wanted.nhid
    if not wanted.hops:
        return True
    if route.nhid:
        return False
    if not wanted.listed:
        return bool(route.nexthops) and _hop_matches(wanted.hops[0], route.nexthops[0])
    if not 0 < len(route.nexthops) <= len(wanted.hops):
        return False
    return all(_hop_matches(hop, other) for hop, other in zip(wanted.hops, route.nexthops))


def _hop_matches(wanted: Nexthop, hop: Nexthop) -> bool:
    if wanted.device is not None and wanted.device != hop.device:
        return False
    return wanted.gateway is None or (
        (wanted.gateway_family, wanted.gateway) == (hop.gateway_family, hop.gateway)
    )


def _delete4(host: Host, wanted: Unwanted) -> bool:
    """kernel: fib_table_delete."""
    found = routes_of(host).at(4, wanted.table, wanted.prefix, wanted.plen)
    for route in sorted((r for r in found if r.tos == wanted.tos), key=lambda r: r.metric):
        if all(
            getattr(wanted, name) in (None, getattr(route, name))
            for name in ("type", "metric", "scope", "protocol", "prefsrc", "mtu", "hoplimit")
        ) and _hops_match4(wanted, route):
            routes_of(host).discard(route)
            return True
    return False


# --- IPv6 -----------------------------------------------------------------------------------------------


def _joins(route: Route) -> bool:
    """Whether a route can stand beside siblings (kernel: rt6_qualify_for_ecmp)."""
    return (
        not route.nhid
        and bool(route.nexthops)
        and all(n.gateway is not None for n in route.nexthops)
    )


def _ways6(route: Route) -> list[tuple]:
    """By which IPv6 routes of one metric are duplicates (kernel: rt6_duplicate_nexthop)."""
    if route.nhid:
        return [(route.nhid,)]
    return [(n.device, n.gateway) for n in route.nexthops] or [("lo", None)]


def _at_metric(host: Host, route: Route) -> list[Route]:
    return [other for other in at_place(host, route) if other.metric == route.metric]


def _place_one6(host: Host, route: Route, mode: str) -> None:
    """Add a route with one next hop (kernel: fib6_add_rt2node)."""
    routes, same = routes_of(host), _at_metric(host, route)
    if mode == "add" and same:
        raise ControlError(FILE_EXISTS)
    if mode in ("replace", "change"):
        alike = [other for other in same if _joins(other) == _joins(route)]
        if alike or same:
            there = routes.own(place_of(route))
            there[_number_of(there, (alike or same)[0])] = route
            routes.arrange(place_of(route), there)
        elif mode == "change":
            raise ControlError(NO_SUCH_FILE)
        else:
            routes.append(route)
        return
    if any(way in _ways6(other) for other in same for way in _ways6(route)):
        raise ControlError(FILE_EXISTS)
    beside = next((other for other in same if _joins(other)), None)
    if beside is not None and _joins(route):
        routes.own(place_of(beside))
        beside.nexthops = beside.nexthops + route.nexthops
        routes.note(beside)
    else:
        routes.append(route)


def place6(host: Host, route: Route, mode: str) -> None:
    """Add an IPv6 route; several next hops one by one.  Raises ControlError, then nothing is added."""
    if len(route.nexthops) < 2 or route.nhid:
        _place_one6(host, route, mode)
        return
    if not _joins(route):
        raise ControlError(
            "Error: Device only routes can not be added for IPv6 using the multipath API."
        )
    if len(set(_ways6(route))) < len(route.nexthops):
        raise ControlError(FILE_EXISTS)
    for k, hop in enumerate(route.nexthops):
        try:
            _place_one6(
                host, dataclasses.replace(route, nexthops=[hop]), mode if k == 0 else "append"
            )
        except ControlError:
            for added in route.nexthops[:k]:
                del_route(host, _like(route, added))
            raise


def _like(route: Route, hop: Nexthop) -> Unwanted:
    return Unwanted(
        6, route.prefix, route.plen, route.table, metric=route.metric, src=route.src,
        src_plen=route.src_plen, protocol=route.protocol, hops=[hop],
    )  # fmt: skip


def _delete6(host: Host, wanted: Unwanted, siblings: bool = True) -> bool:
    """Delete by one next hop or none; all `siblings` unless a gateway is given (ip6_route_del)."""
    found = routes_of(host).at(6, wanted.table, wanted.prefix, wanted.plen)
    place = (wanted.src, wanted.src_plen)
    if not any(r.src_plen for r in found):
        place = (0, 0)  # where no route has a source, the one asked for does not count
    hop = wanted.hops[0] if wanted.hops else Nexthop()
    for route in sorted((r for r in found if (r.src, r.src_plen) == place), key=lambda r: r.metric):
        if wanted.metric not in (None, route.metric) or wanted.protocol not in (
            None,
            route.protocol,
        ):
            continue
        if route.nhid and wanted.nhid in (None, route.nhid):
            routes_of(host).discard(route)
            return True
        if wanted.nhid:
            continue
        hops = route.nexthops or [Nexthop("lo")]
        mine = next((k for k, n in enumerate(hops) if _hop_matches(hop, n)), None)
        if mine is None:
            continue
        if len(route.nexthops) > 1 and (hop.gateway is not None or not siblings):
            routes_of(host).own(place_of(route))
            route.nexthops = route.nexthops[:mine] + route.nexthops[mine + 1 :]
            routes_of(host).note(route)
        else:
            routes_of(host).discard(route)
        return True
    return False


def del_route(host: Host, wanted: Unwanted) -> None:
    """Remove the first route, by metric, that is as described.  Raises ControlError if there is none.

    Of several next hops of an IPv6 route those named go, one by one.
    """
    if wanted.family == 4:
        done = _delete4(host, wanted)
    elif wanted.listed:
        gone = [
            _delete6(host, dataclasses.replace(wanted, hops=[hop]), siblings=False)
            for hop in wanted.hops
        ]
        done = all(gone)
    else:
        done = _delete6(host, wanted)
    if not done:
        raise ControlError(NO_SUCH_PROCESS)
