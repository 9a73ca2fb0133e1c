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
NEAR_OCTETS = (127, 198, 203)  # first octets of IPv4 addresses that are not far away
DESTINATION = {4: slice(30, 34), 6: slice(38, 54)}  # bytes of a frame


def _gateway(family: int, k: int) -> str:
    """The k-th of the router's gateways."""
    return f"203.0.113.{16 + k}" if family == 4 else f"2001:db8:1::{16 + k:x}"


def _host(family: int, ways: list[str]) -> Host:
    """The router of `ippath.bench.traffic` without source checks, with these routes for its own."""
    kept = [
        line
        for line in traffic.router_lines().splitlines()
        if "rp_filter" not in line and "route add" not in line
    ]
    option = "" if family == 4 else "-6 "
    ways = [f"{option}route add default via {_gateway(family, 0)}"] + [
        f"{option}route add {way}" for way in ways
    ]
    return parse_host("\n".join([*kept, *ways]), name="bench")


def small_router(family: int) -> Host:
    """A router with few routes: a default route, and some that lead elsewhere."""
    return _host(family, [
        (f"{20 * k}.0.0.0/8" if family == 4 else f"{0x2400 + k:x}::/16") + f" via {_gateway(family, k)}"
        for k in range(1, ROUTES)
    ])  # fmt: skip


def full_router(table: Prefixes) -> Host:
    """A router with a default route and all prefixes of a table, over all gateways."""
    family = table.family
    anywhere = "0.0.0.0" if family == 4 else "::"
    host = _host(
        family,
        [f"{anywhere}/{k + 1} via {_gateway(family, k)}" for k in range(traffic.GATEWAYS)],
    )
    routes = routes_of(host)
    patterns = [
        route for route in routes.singles() if route.family == family and route.nexthops[0].gateway
    ]
    prefix = np.zeros((len(table), 2), np.uint64)
    prefix[:, 1 if family == 4 else 0] = table.key
    pattern = (table.value % len(patterns)).astype(np.int32)
    routes.add_block(RouteBlock(family, prefix, table.length, pattern, patterns))
    return host


def packets(table: Prefixes, random: bool) -> PacketBatch:
    """UDP frames that any of those routers forwards: to any address, or to one."""
    family = table.family
    batch = traffic.udp_frames(family, PACKETS, False)
    keys = table.random(2 * PACKETS, np.random.default_rng(3))
    if family == 4:
        keys = keys[~np.isin(keys >> np.uint64(24), NEAR_OCTETS)]
    keys = keys[:PACKETS] if random else np.repeat(keys[:1], PACKETS)
    frames = batch.data.reshape(-1, traffic.FRAME)
    packed = table.addresses(keys)
    if family == 4:
        packed = packed.astype(">u4").view(np.uint8).reshape(-1, 4)
    frames[:, DESTINATION[family]] = packed
    traffic.store_checksums(frames, family)
    return batch


def variants(table: Prefixes) -> list[Variant]:
    """Random destinations and one, each with and without the hint, in both tables."""
    few, many = f"{ROUTES} routes", f"{len(table):,} routes"
    family = table.family
    hosts = {few: small_router(family), many: full_router(table)}
    routers = {
        (routes, hint): Netns(host, switches={"route_hint": hint})
        for routes, host in hosts.items()
        for hint in ("off", "on")
    }
    found = []
    for random in (True, False):
        batch = packets(table, random)
        group = f"IPv{family} forwarding, {'random destinations' if random else 'one destination'}"
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
