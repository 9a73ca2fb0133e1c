"""What a host learned, listed: smaller path MTUs and better gateways (`ip route show cache`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ippath import tables as T
from ippath.config.values import address_text
from ippath.jit import plain
from ippath.model import Route
from ippath.route_get import whole

if TYPE_CHECKING:
    from ippath.netns import Netns

MAIN = 254


@dataclass(frozen=True)
class Learned:
    """One destination about which something is known (kernel: fib_nh_exception, rt6_exception)."""

    family: int
    destination: int
    device: str
    gateway_family: int  # 0: the destination is on the link
    gateway: int
    redirected: bool  # a router named the gateway
    mtu: int  # 0: that of the route
    locked: bool  # the MTU may not be probed: packets leave without DF
    expires: int | None  # seconds; None: it does not
    used: bool  # IPv4: a packet took it since; Linux lists no others
    route: Route  # to which it is the exception

    def to_dict(self) -> dict[str, Any]:
        """The entry with the keys of `ip -j route show cache`."""
        told: dict[str, Any] = {"dst": address_text(self.family, self.destination)}
        if self.gateway_family == self.family:
            told["gateway"] = address_text(self.family, self.gateway)
        elif self.gateway_family:
            host = address_text(self.gateway_family, self.gateway)
            told["via"] = {"family": f"inet{self.gateway_family}", "host": host}
        told["dev"] = self.device
        if self.family == 6:
            told["metric"] = self.route.metric
        told["flags"] = []
        if self.family == 4:
            told["cache"] = ["redirected"] if self.redirected else []
        if self.expires is not None:
            told["expires"] = self.expires
        if self.mtu:
            told["metrics"] = [{"mtu": self.mtu}]
        if self.family == 6:
            told["pref"] = self.route.preference
        return told

    def text(self) -> str:
        """The entry as `ip route show cache` prints it, spaces at the ends of lines too."""
        told = self.to_dict()
        via = told.get("via")
        gateway = told.get("gateway") or (via and f"{via['family']} {via['host']}")
        words = [told["dst"], *(["via", gateway] if gateway else []), "dev", self.device]
        known = [] if self.expires is None else ["expires", f"{self.expires}sec"]
        if self.mtu:
            known += ["mtu", *(["lock"] if self.locked else []), str(self.mtu)]
        if self.family == 4:
            flags = ["<redirected>"] if self.redirected else []
            return f"{' '.join(words)} \n    {' '.join(['cache', *flags, *known])} \n"
        words += ["metric", str(told["metric"]), *known, "pref", told["pref"]]
        return " ".join(words) + "\n"


def learned(netns: Netns, family: int | None = None) -> list[Learned]:
    """All that is known and not over, by family and destination."""
    now = int(netns.state.misc[T.MISC_NOW_NS])
    top = int(netns.state.exc_misc[T.EM_TOP])
    entries = netns.state.exception[:top]
    families = (4, 6) if family is None else (family,)
    over = entries[:, T.EXC_EXPIRES_NS]
    known = np.isin(entries[:, T.EXC_FAMILY], families) & ((over == 0) | (over > now))
    found = [one for row in np.flatnonzero(known) for one in _entry(netns, int(row), now)]
    return sorted(found, key=lambda one: (one.family, one.destination, one.device, one.gateway))


def _entry(netns: Netns, row: int, now: int) -> Iterator[Learned]:
    """The entry in a row; nothing if its route is gone."""
    from ippath.fib.exceptions import exception_route, is_on_link6

    entry = netns.state.exception[row]
    tables, state = netns.handles_to_ask()
    place = np.zeros(2, np.int64)
    exception_route(tables, state, row, place)
    if place[0] < 0:
        return
    family = int(entry[T.EXC_FAMILY])
    fib = netns.tables.fib4 if family == 4 else netns.tables.fib6
    hop = fib.nexthop[place[1]]
    gateway = hop[T.NH_GATEWAY_FAMILY], hop[T.NH_HI], hop[T.NH_LO]
    if entry[T.EXC_GATEWAY_FAMILY]:
        gateway = entry[T.EXC_GATEWAY_FAMILY], entry[T.EXC_GATEWAY_HI], entry[T.EXC_GATEWAY_LO]
        if family == 6 and plain(is_on_link6)(entry):
            gateway = 0, 0, 0  # the destination is on the link itself
    over = int(entry[T.EXC_EXPIRES_NS])
    yield Learned(
        family,
        whole(entry[T.EXC_HI], entry[T.EXC_LO]),
        netns.host.devices[hop[T.NH_DEVICE]].name,
        int(gateway[0]),
        whole(gateway[1], gateway[2]) if gateway[0] else 0,
        bool(entry[T.EXC_GATEWAY_FAMILY]),
        int(entry[T.EXC_MTU]),
        bool(entry[T.EXC_LOCKED]),
        (over - now) // 10**9 if over else None,
        family == 6 or bool(entry[T.EXC_USED]),
        netns.routes(family)[place[0]],
    )


def cache_of(netns: Netns, family: int) -> list[Learned]:
    """What `ip route show cache` lists: the main table's, in IPv4 what packets took."""
    return [one for one in learned(netns, family) if one.used and one.route.table == MAIN]
