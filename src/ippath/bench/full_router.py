"""Forwarding through a router with a full table, and through one with ten routes."""

from __future__ import annotations

import numpy as np

from ippath.batch import PacketBatch
from ippath.bench import traffic
from ippath.bench.framework import Run, Variant
from ippath.bench.full_tables import Prefixes
from ippath.config import parse_host
from ippath.fib.blocks import RouteBlock
from ippath.fib.routes import routes_of
from ippath.model import Host
from ippath.netns import Netns

PACKETS = 400_000
ROUTES = 10  # of the small table
_NEAR = (127, 198, 203)  # first octets of addresses that are not far away


def _host(ways: list[str]) -> Host:
    """The router of `ippath.bench.traffic` without source checks, with these routes for its own."""
    kept = [
        line
        for line in traffic.router_lines().splitlines()
        if "rp_filter" not in line and "route add" not in line
    ]
    return parse_host("\n".join([*kept, *ways]), name="bench")


def small_router() -> Host:
    """A router with few routes: a default route, and some that lead elsewhere."""
    ways = [f"route add {20 * k}.0.0.0/8 via 203.0.113.{16 + k}" for k in range(1, ROUTES)]
    return _host(["route add default via 203.0.113.16", *ways])


def full_router(table: Prefixes) -> Host:
    """A router with a default route and all prefixes of an IPv4 table, over all gateways."""
    ways = [f"route add 0.0.0.0/{k + 1} via 203.0.113.{16 + k}" for k in range(traffic.GATEWAYS)]
    host = _host(["route add default via 203.0.113.16", *ways])
    routes = routes_of(host)
    patterns = [
        route for route in routes.singles() if route.family == 4 and route.nexthops[0].gateway
    ]
    prefix = np.zeros((len(table), 2), np.uint64)
    prefix[:, 1] = table.key
    pattern = (table.value % len(patterns)).astype(np.int32)
    routes.add_block(RouteBlock(4, prefix, table.length, pattern, patterns))
    return host


def packets(table: Prefixes, random: bool) -> PacketBatch:
    """UDP frames that any of those routers forwards: to any address, or to one."""
    batch = traffic.udp_frames(4, PACKETS, False)
    keys = table.random(2 * PACKETS, np.random.default_rng(3))
    keys = keys[~np.isin(keys >> np.uint64(24), _NEAR)][:PACKETS]
    frames = batch.data.reshape(-1, traffic.FRAME)
    frames[:, 30:34] = (keys if random else keys[:1]).astype(">u4").view(np.uint8).reshape(-1, 4)
    traffic.store_checksums(frames, 4)
    return batch


def variants(table: Prefixes) -> list[Variant]:
    """Random destinations and one, each with and without the hint, in both tables."""
    few, many = f"{ROUTES} routes", f"{len(table):,} routes"
    hosts = {few: small_router(), many: full_router(table)}
    routers = {
        (routes, hint): Netns(host, switches={"route_hint": hint})
        for routes, host in hosts.items()
        for hint in ("off", "on")
    }
    found = []
    for random in (True, False):
        batch = packets(table, random)
        group = f"IPv4 forwarding, {'random destinations' if random else 'one destination'}"
        for (routes, hint), netns in routers.items():
            before = f"{routes}, hint off" if hint == "on" else ""
            if hint == "off" and routes == many:
                before = f"{few}, hint off"
            run = forwarding(netns, batch)
            found.append(Variant(group, f"{routes}, hint {hint}", run, PACKETS, before=before))
    return found


def forwarding(netns: Netns, batch: PacketBatch) -> Run:
    """A run that receives all packets, and makes sure that they were forwarded."""

    def run() -> None:
        before = netns.totals().verdicts["forwarded"]
        netns.receive(batch, continue_list=True)
        got = netns.totals().verdicts["forwarded"] - before
        if got != len(batch):
            raise AssertionError(f"{got} of {len(batch)} packets were forwarded")

    return run
