"""Next hops resolved, and addresses judged, when routes and next hop objects are added.

Mirrors `fib_check_nh`, `fib6_nh_init`, `ip6_validate_gw` and `inet_addr_type`.
"""

from __future__ import annotations

from ippath.fib.reference import reference_lookup
from ippath.fib.refused import ControlError
from ippath.fib.routes import routes_of
from ippath.model import (
    SCOPE_HOST, SCOPE_LINK, SCOPE_NOWHERE, TABLE_LOCAL, TABLE_MAIN, Device, Host, Nexthop, Route,
)  # fmt: skip

REJECTING = {"blackhole", "unreachable", "prohibit", "throw"}


def device_of(host: Host, name: str) -> Device:
    """The device of that name.  Raises ControlError if there is none."""
    device = host.device(name)
    if device is None:
        raise ControlError(f'Cannot find device "{name}"')
    return device


def is_local4(host: Host, ip: int) -> bool:
    """Whether the local table has the address (kernel: inet_addr_type)."""
    return address_type4(host, ip) == "local"


def address_type4(host: Host, ip: int) -> str:
    """What kind of address it is to this host, as a type of routes (kernel: inet_addr_type)."""
    if ip >> 24 == 0 or ip == 0xFFFFFFFF:
        return "broadcast"
    if ip >> 28 == 0xE:
        return "multicast"
    # the local table is one with main until the first rule changes
    tables = (TABLE_LOCAL,) if host.custom_rules4 else (TABLE_LOCAL, TABLE_MAIN)
    covering = [r for table in tables for r in routes_of(host).covering(4, table, ip) if not r.tos]
    kind = max(covering, key=lambda r: (r.plen, r.table)).type if covering else "unicast"
    return "unicast" if kind in REJECTING else kind


def is_own_address(host: Host, family: int, ip: int) -> bool:
    if any(a.family == family and a.ip == ip for d in host.devices for a in d.addresses):
        return True
    found = reference_lookup(host, family, ip)
    return family == 4 and found.route is not None and found.route.type == "local"


def check_nexthop(host: Host, route: Route, nexthop: Nexthop) -> None:
    """Resolve a next hop: device, scope, link state (kernel: fib_check_nh, fib6_nh_init)."""
    device = device_of(host, nexthop.device) if nexthop.device is not None else None
    if route.family == 6 and device is not None and not device.speaks6:
        raise ControlError("RTNETLINK answers: No such device")
    if nexthop.gateway is None:
        if device is None:
            raise ControlError("RTNETLINK answers: No such device")
        if nexthop.onlink and route.family == 4 and route.scope != SCOPE_HOST:
            raise ControlError(
                "Error: Invalid flags for nexthop - PERVASIVE and ONLINK can not be set."
            )
        if not device.up and not (route.family == 4 and route.scope == SCOPE_HOST):
            raise ControlError("Error: Nexthop device is not up.")
        nexthop.scope = SCOPE_NOWHERE if route.scope == SCOPE_HOST else SCOPE_HOST
    elif nexthop.gateway_family == 6:
        _check_gateway6(host, route.table, nexthop, device)
        nexthop.scope = SCOPE_LINK
    else:
        _check_gateway4(host, route, nexthop, device)
    out = host.device(nexthop.device or "")
    nexthop.linkdown = out is not None and not out.carrier and nexthop.scope != SCOPE_NOWHERE
    nexthop.dead = False


def _check_gateway4(host: Host, route: Route, nexthop: Nexthop, device: Device | None) -> None:
    assert nexthop.gateway is not None
    if nexthop.onlink:
        if route.scope >= SCOPE_LINK:
            raise ControlError("Error: Nexthop has invalid scope.")
        if device is None:
            raise ControlError("Error: Nexthop device required for onlink.")
        if not device.up:
            raise ControlError("Error: Device for nexthop is not up.")
        if address_type4(host, nexthop.gateway) != "unicast":
            raise ControlError("Error: Nexthop has invalid gateway.")
        nexthop.scope = SCOPE_LINK
        return
    found = reference_lookup(
        host, 4, nexthop.gateway, oif=nexthop.device, scope=max(route.scope + 1, SCOPE_LINK),
        table=route.table if route.table not in (0, TABLE_MAIN) else None, ignore_linkdown=True,
    )  # fmt: skip
    if found.route is None or found.route.type not in ("unicast", "local"):
        raise ControlError("Error: Nexthop has invalid gateway.")
    out = host.device(found.nexthop.device) if found.nexthop and found.nexthop.device else None
    if out is None or not out.up:
        raise ControlError("Error: Device for nexthop is not up.")
    nexthop.device, nexthop.scope = out.name, found.route.scope


def _check_gateway6(host: Host, table: int, nexthop: Nexthop, device: Device | None) -> None:
    gateway = nexthop.gateway
    assert gateway is not None
    link_local = gateway >> 118 == 0x3FA
    if gateway >> 120 == 0xFF:
        raise ControlError("Error: Invalid gateway address.")
    if link_local and device is None:
        raise ControlError("Error: Egress device not specified.")
    if device is not None and not device.up:
        raise ControlError("RTNETLINK answers: Network is down")
    owners = [
        d for d in host.devices if any(a.family == 6 and a.ip == gateway for a in d.addresses)
    ]
    if any(not link_local or d is device for d in owners):
        raise ControlError("Error: Gateway can not be a local address.")
    if link_local:
        return
    if nexthop.onlink:
        _check_onlink6(host, gateway, device)
        return
    for first in (table or None, None):  # the route's own table, then all
        found = reference_lookup(
            host, 6, gateway, oif=nexthop.device, table=first, only=first is not None,
            ignore_linkdown=True,
        )  # fmt: skip
        if (
            found.error == 0
            and found.route is not None
            and found.nexthop is not None
            and found.nexthop.gateway is None
        ):
            nexthop.device = found.nexthop.device
            return
    raise ControlError("RTNETLINK answers: No route to host")


def _check_onlink6(host: Host, gateway: int, device: Device | None) -> None:
    """What is on link by a device must not be known elsewhere (kernel: ip6_route_check_nh_onlink)."""
    if device is None:
        raise ControlError("Error: Nexthop device required for onlink.")
    found = reference_lookup(
        host, 6, gateway, table=TABLE_MAIN, only=True, iif=device.name, ignore_linkdown=True
    )
    if found.error or found.route is None or found.route.plen == 0:
        return
    if (
        found.route.type != "unicast"
        or found.nexthop is None
        or found.nexthop.device != device.name
    ):
        raise ControlError("Error: Nexthop has invalid gateway or device mismatch.")
