"""Objects of `ip nexthop`, their groups, and the routes that follow them (kernel: nexthop.c).

A route with `nhid` keeps copies of the object's next hops in `Route.nexthops`; every change of an
object renews them.
"""

from __future__ import annotations

import copy
import dataclasses

from ippath.fib.gateways import REJECTING, check_nexthop, device_of
from ippath.fib.refused import FILE_EXISTS, NO_SUCH_FILE, ControlError
from ippath.fib.resilient import shared_out
from ippath.fib.routes import routes_of
from ippath.model import (
    SCOPE_HOST, SCOPE_LINK, SCOPE_UNIVERSE, Host, Nexthop, NexthopObject, Route,
)  # fmt: skip

IDLE_TIMER = 120  # seconds (kernel: NH_RES_DEFAULT_IDLE_TIMER)
MOST_BUCKETS = 0xFFFF


def _refuse(text: str) -> ControlError:
    return ControlError(f"Error: {text}")


# --- what an object is ----------------------------------------------------------------------------------


def is_group(nexthop: NexthopObject) -> bool:
    """Whether the object is a group, with one member or more."""
    return nexthop.hop is None


def members_of(host: Host, nexthop: NexthopObject) -> list[NexthopObject]:
    """The members of a group; the object itself if it is none."""
    if not is_group(nexthop):
        return [nexthop]
    return [host.nexthops[number] for number, _ in nexthop.members]


def hops_of(host: Host, nexthop: NexthopObject) -> list[Nexthop]:
    """The next hops that routes by this object have."""
    if nexthop.hop is not None:
        return [copy.copy(nexthop.hop)]
    found = []
    for number, weight in nexthop.members:
        hop = host.nexthops[number].hop
        assert hop is not None
        found.append(dataclasses.replace(hop, weight=weight))
    return found


def _has_family4(host: Host, nexthop: NexthopObject) -> bool:
    return any(member.family == 4 for member in members_of(host, nexthop))


# --- routes ---------------------------------------------------------------------------------------------


def follow(host: Host, route: Route) -> None:
    """Give the route the next hops of its object.  Raises ControlError where that can't be.

    Kernel: fib_check_nexthop, fib6_check_nexthop.
    """
    nexthop = host.nexthops.get(route.nhid)
    if nexthop is None:
        raise _refuse("Nexthop id does not exist.")
    if route.family == 6 and route.src_plen:
        raise _refuse("Nexthops can not be used with source routing.")
    check_user(host, nexthop, route)
    route.nexthops, route.group = hops_of(host, nexthop), is_group(nexthop)


def check_user(host: Host, nexthop: NexthopObject, route: Route) -> None:
    """Refuse an object that a route can't go by."""
    if route.family == 6 and _has_family4(host, nexthop):
        raise _refuse("IPv6 routes can not use an IPv4 nexthop.")
    if route.family == 4 and route.type in REJECTING:
        return
    if nexthop.fdb:
        raise _refuse("Route cannot point to a fdb nexthop.")
    if route.family == 6:
        return
    if is_group(nexthop) and route.scope == SCOPE_HOST:
        raise _refuse("Route with host scope can not have multiple nexthops.")
    hop = members_of(host, nexthop)[0].hop
    assert hop is not None
    if route.scope == SCOPE_HOST and hop.gateway is not None:
        raise _refuse("Route with host scope can not have a gateway.")
    if hop.onlink and route.scope >= SCOPE_LINK:
        raise _refuse("Scope mismatch with nexthop.")


def _users(host: Host, numbers: set[int]) -> list[Route]:
    """The routes that go by one of these objects."""
    return [r for r in routes_of(host).singles() if r.nhid in numbers] if numbers else []


def _with_groups(host: Host, number: int) -> set[int]:
    """An object and the groups that it is in."""
    return {number} | {
        other.id for other in host.nexthops.values() if number in dict(other.members)
    }


def _renew(host: Host, numbers: set[int]) -> None:
    """Let the routes by these objects follow them; those whose object has gone go."""
    for route in _users(host, numbers):
        if route.nhid in host.nexthops:
            nexthop = host.nexthops[route.nhid]
            route.nexthops, route.group = hops_of(host, nexthop), is_group(nexthop)
    routes_of(host).anything_may_have_changed()
    if gone := {number for number in numbers if number not in host.nexthops}:
        if _users(host, gone):
            host.routes = [route for route in host.routes if route.nhid not in gone]


# --- adding and replacing -------------------------------------------------------------------------------


def add_nexthop(host: Host, nexthop: NexthopObject, replace: bool = False) -> None:
    """Add an object, or replace one; an id of 0 lets the kernel choose (kernel: nexthop_add).

    Raises ControlError, then nothing is changed.
    """
    if replace and not nexthop.id:
        raise _refuse("Replace requires nexthop id.")
    if is_group(nexthop):
        _check_group(host, nexthop)
    else:
        _check_single(host, nexthop)
    if not nexthop.id:
        host.last_nexthop += 1
        while host.last_nexthop in host.nexthops:
            host.last_nexthop += 1
        nexthop.id = host.last_nexthop
    old = host.nexthops.get(nexthop.id)
    if old is not None:
        if not replace:
            raise ControlError(FILE_EXISTS)
        _check_replacement(host, old, nexthop)
    elif nexthop.resilient and not nexthop.buckets:
        raise _refuse("Number of buckets not specified for nexthop group insertion.")
    if nexthop.resilient:
        _share_out(nexthop, old)
    host.nexthops[nexthop.id] = nexthop
    host.nexthops = dict(sorted(host.nexthops.items()))
    _renew(host, _with_groups(host, nexthop.id))


def _check_single(host: Host, nexthop: NexthopObject) -> None:
    """kernel: rtm_to_nh_config, nh_create_ipv4, nh_create_ipv6."""
    hop = nexthop.hop
    assert hop is not None
    if hop.blackhole:
        hop.device, hop.scope = "lo", SCOPE_UNIVERSE
        return
    if nexthop.fdb:
        hop.scope = SCOPE_LINK
        return
    if hop.device is None:
        raise _refuse("Device attribute required for non-blackhole and non-fdb nexthops.")
    device = device_of(host, hop.device)
    if not device.up:
        raise _refuse("Nexthop device is not up.")
    if not device.carrier:
        raise _refuse("Carrier for nexthop device is down.")
    if hop.onlink and hop.gateway is None:
        raise _refuse("ONLINK flag can not be set for nexthop without a gateway.")
    as_route = Route(nexthop.family, 0, 0, table=0)  # of no table
    check_nexthop(host, as_route, hop)
    if nexthop.family == 6:
        hop.scope = SCOPE_LINK


def _check_group(host: Host, group: NexthopObject) -> None:
    """kernel: nh_check_attr_group."""
    numbers = [number for number, _ in group.members]
    if len(set(numbers)) < len(numbers):
        raise _refuse("Nexthop id can not be used twice in a group.")
    families = set()
    for number in numbers:
        member = host.nexthops.get(number)
        if member is None:
            raise _refuse("Invalid nexthop id.")
        if is_group(member):
            kind = "Resilient" if member.resilient else "Hash-threshold"
            raise _refuse(f"{kind} group can not be a nexthop within a group.")
        assert member.hop is not None
        if member.hop.blackhole and len(numbers) > 1:
            raise _refuse("Blackhole nexthop can not be used in a group with more than 1 path.")
        if group.fdb and not member.fdb:
            raise _refuse("FDB nexthop group can only have fdb nexthops.")
        families.add(member.family)
        if group.fdb and len(families) > 1:
            raise _refuse("FDB nexthop group cannot have mixed family nexthops.")
        if member.fdb and not group.fdb:
            raise _refuse("Non FDB nexthop group cannot have fdb nexthops.")


def _check_replacement(host: Host, old: NexthopObject, new: NexthopObject) -> None:
    """kernel: replace_nexthop, replace_nexthop_grp, replace_nexthop_single."""
    for route in _users(host, {old.id}):
        check_user(host, new, route)
    for group in host.nexthops.values():
        if old.id not in dict(group.members):
            continue
        if new.hop is not None and new.hop.blackhole and len(group.members) > 1:
            raise _refuse(
                "Blackhole nexthop can not be a member of a group with more than one path."
            )
        for route in _users(host, {group.id}):
            check_user(host, new, route)
    if is_group(old) and not is_group(new):
        raise _refuse("Can not replace a nexthop group with a nexthop.")
    if is_group(new) and not is_group(old):
        raise _refuse("Can not replace a nexthop with a nexthop group.")
    if old.resilient != new.resilient:
        raise _refuse("Can not replace a nexthop group with one of a different type.")
    if new.buckets and len(old.buckets) != len(new.buckets):
        raise _refuse("Can not change number of buckets of a resilient nexthop group.")


# --- removing -------------------------------------------------------------------------------------------


def del_nexthop(host: Host, number: int) -> None:
    """Remove an object from its groups and with its routes (kernel: remove_nexthop).

    Raises ControlError if there is none.
    """
    if number not in host.nexthops:
        raise ControlError(NO_SUCH_FILE)
    touched = _with_groups(host, number)
    del host.nexthops[number]
    for other in touched - {number}:
        group = host.nexthops[other]
        group.members = [(n, weight) for n, weight in group.members if n != number]
        if not group.members:
            del host.nexthops[other]
        elif group.resilient:
            group.buckets = shared_out(group.members, group.buckets)
    _renew(host, touched)


def lose_nexthops(host: Host, device: str) -> None:
    """Remove the objects by a device that went, or lost its carrier (kernel: nexthop_flush_dev)."""
    for nexthop in list(host.nexthops.values()):
        hop = nexthop.hop
        if hop is not None and hop.device == device and not hop.blackhole:
            del_nexthop(host, nexthop.id)


# --- resilient groups -----------------------------------------------------------------------------------


def _share_out(group: NexthopObject, old: NexthopObject | None) -> None:
    """Fill the buckets of a group that is new or takes the place of an old one."""
    if group.idle_timer < 0:
        group.idle_timer = old.idle_timer if old is not None else IDLE_TIMER
    if group.unbalanced_timer < 0:
        group.unbalanced_timer = old.unbalanced_timer if old is not None else 0
    group.buckets = shared_out(group.members, old.buckets if old is not None else group.buckets)
