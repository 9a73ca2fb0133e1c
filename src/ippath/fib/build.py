"""From a Host's routes and rules to the arrays of `ippath.tables.Fib`.

Control side, plain Python: runs once for each version of the tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from ippath import tables as T
from ippath.fib.directory import directory
from ippath.fib.multipath import mix32
from ippath.jit import plain
from ippath.model import (
    ROUTE_TYPES, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, Host, Nexthop, Route, Rule,
)  # fmt: skip

FLIP = -(1 << 63)
_hash = plain(mix32)
DIRECTORY_LEAST = 64  # tables with more intervals get a directory by the first 16 bits
PREFERENCE = {"low": 1, "medium": 2, "high": 3}
_ACTIONS = {
    "lookup": T.ACTION_LOOKUP, "goto": T.ACTION_GOTO, "nop": T.ACTION_NOP,
    "blackhole": T.ACTION_BLACKHOLE, "unreachable": T.ACTION_UNREACHABLE,
    "prohibit": T.ACTION_PROHIBIT,
}  # fmt: skip


def halves(address: int) -> tuple[int, int]:
    """The two signed 64-bit halves of an address of up to 128 bits."""
    hi, lo = address >> 64, address & 0xFFFFFFFFFFFFFFFF
    return (hi - (1 << 64) if hi >> 63 else hi), (lo - (1 << 64) if lo >> 63 else lo)


def rows(count: int, columns: int) -> np.ndarray:
    """A table of `count` rows filled with NONE (at least one row, so that indexing stays legal)."""
    return np.full((max(count, 1), columns), T.NONE, np.int64)


class _Builder:
    """Builds the Fib of one family."""

    def __init__(self, host: Host, family: int, device_rows: dict[str, int]):
        self.host, self.family, self.device_rows = host, family, device_rows
        self.bits = 32 if family == 4 else 128
        self.routes: list[Route] = []
        self.route_rows: list[np.ndarray] = []
        self.nexthop_rows: list[list[int]] = []
        self.node_rows: list[list[int]] = []
        self.table_rows: list[list[int]] = []
        self.starts: list[int] = []
        self.leaves: list[int] = []
        self.top: list[np.ndarray] = []
        self.infos: dict[tuple, int] = {}

    # --- routes and next hops -------------------------------------------------------------------

    def _info_identity(self, route: Route) -> int:
        """Equal for routes that the kernel would let share one fib_info."""
        key = (
            route.protocol, route.scope, route.type, route.prefsrc, route.metric, route.mtu,
            route.mtu_lock, route.table if route.type == "local" else 0,
            tuple((n.device, n.gateway, n.gateway_family, n.weight, n.onlink) for n in route.nexthops),
        )  # fmt: skip
        return self.infos.setdefault(key, len(self.infos)) << 16

    def _ignores_linkdown(self, nexthop: Nexthop) -> bool:
        from ippath.fib.control import effective_sysctl

        device = self.host.device(nexthop.device or "")
        return device is not None and bool(
            effective_sysctl(self.host, self.family, device, "ignore_routes_with_linkdown")
        )

    def _bounds(self, nexthops: list[Nexthop]) -> list[int]:
        """Upper hash bounds by weight over the live next hops (kernel: fib_rebalance)."""
        live = [
            not n.dead
            and n.device in self.device_rows
            and not (n.linkdown and self._ignores_linkdown(n))
            for n in nexthops
        ]
        total = sum(n.weight for n, alive in zip(nexthops, live) if alive)
        bounds, weight = [], 0
        for nexthop, alive in zip(nexthops, live):
            if not alive:
                bounds.append(-1)
                continue
            weight += nexthop.weight
            bounds.append(((weight << 31) + total // 2) // total - 1)
        return bounds

    def _add_nexthops(self, route: Route, route_row: int) -> tuple[int, int]:
        nexthops = route.nexthops
        first = len(self.nexthop_rows)
        if not nexthops and (self.family == 6 or route.type in ("local", "broadcast", "anycast")):
            nexthops = [Nexthop(device="lo")]  # reject routes of IPv6 point at the loopback device
        identity = self._info_identity(route) if self.family == 4 else first << 16
        for k, (nexthop, bound) in enumerate(zip(nexthops, self._bounds(nexthops))):
            hi, lo = halves(nexthop.gateway or 0)
            row = [0] * T.NH_COLUMNS
            row[T.NH_DEVICE] = self.device_rows.get(nexthop.device or "", 0)
            row[T.NH_GATEWAY_FAMILY] = nexthop.gateway_family if nexthop.gateway is not None else 0
            row[T.NH_HI], row[T.NH_LO] = hi, lo
            row[T.NH_SCOPE] = nexthop.scope
            row[T.NH_BOUND] = bound
            row[T.NH_DEAD] = int(nexthop.dead or nexthop.device not in self.device_rows)
            row[T.NH_LINKDOWN] = int(nexthop.linkdown)
            row[T.NH_ROUTE] = route_row
            row[T.NH_IDENTITY] = identity + k
            self.nexthop_rows.append(row)
        return first, len(nexthops)

    def _add_route(self, route: Route) -> None:
        number = len(self.route_rows)
        row = np.zeros(T.ROUTE_COLUMNS, np.int64)
        row[T.ROUTE_TABLE] = route.table
        row[T.ROUTE_TYPE] = ROUTE_TYPES[route.type]
        row[T.ROUTE_SCOPE] = route.scope
        row[T.ROUTE_TOS] = route.tos
        row[T.ROUTE_METRIC] = route.metric
        row[T.ROUTE_PLEN] = route.plen
        row[T.ROUTE_NH_FIRST], row[T.ROUTE_NH_COUNT] = self._add_nexthops(route, number)
        row[T.ROUTE_PREFSRC_SET] = int(route.prefsrc is not None)
        row[T.ROUTE_PREFSRC_HI], row[T.ROUTE_PREFSRC_LO] = halves(route.prefsrc or 0)
        row[T.ROUTE_MTU], row[T.ROUTE_MTU_LOCK] = route.mtu, int(route.mtu_lock)
        row[T.ROUTE_PREFERENCE] = PREFERENCE[route.preference]
        row[T.ROUTE_DST_HI], row[T.ROUTE_DST_LO] = halves(route.prefix)
        row[T.ROUTE_HOPLIMIT] = route.hoplimit
        row[T.ROUTE_ANYCAST] = int(route.type == "anycast" and route.protocol == "kernel")
        row[T.ROUTE_MODEL] = len(self.routes)
        self.routes.append(route)
        self.route_rows.append(row)

    # --- nodes and intervals ----------------------------------------------------------------------

    def _order(self, route: Route) -> tuple:
        if self.family == 4:  # local before main where the two are merged
            return (
                -route.table if route.table in (TABLE_LOCAL, TABLE_MAIN) else 0,
                -route.tos,
                route.metric,
            )
        return (route.metric,)

    def _node(
        self, routes: list[Route], parent: int, plen: int, src: int = 0, src_plen: int = 0
    ) -> int:
        first = len(self.route_rows)
        for route in sorted(routes, key=self._order):  # stable: insertion order within a key
            self._add_route(route)
        row = [0] * T.NODE_COLUMNS
        row[T.NODE_PARENT], row[T.NODE_PLEN] = parent, plen
        row[T.NODE_FIRST], row[T.NODE_COUNT] = first, len(routes)
        row[T.NODE_SUB_FIRST] = row[T.NODE_SUB_COUNT] = 0
        row[T.NODE_SRC_HI], row[T.NODE_SRC_LO] = halves(src)
        row[T.NODE_SRC_PLEN] = src_plen
        self.node_rows.append(row)
        return len(self.node_rows) - 1

    def _prefix_node(self, routes: list[Route], parent: int, plen: int) -> int:
        node = self._node([r for r in routes if r.src_plen == 0], parent, plen)
        by_source: dict[tuple[int, int], list[Route]] = defaultdict(list)
        for route in routes:
            if route.src_plen:
                by_source[(route.src_plen, route.src)].append(route)
        if by_source:
            self.node_rows[node][T.NODE_SUB_FIRST] = len(self.node_rows)
            self.node_rows[node][T.NODE_SUB_COUNT] = len(by_source)
            for (src_plen, src), group in sorted(by_source.items(), reverse=True):
                self._node(group, node, plen, src, src_plen)
        return node

    def add_table(self, table: int, routes: Iterable[Route]) -> int:
        """Add one table; returns its row."""
        by_prefix: dict[tuple[int, int], list[Route]] = defaultdict(list)
        for route in routes:
            by_prefix[(route.prefix, route.plen)].append(route)
        first = len(self.starts)
        stack: list[tuple[int, int]] = []  # (last address, node) of the prefixes around here
        last = (1 << self.bits) - 1

        def emit(start: int, node: int) -> None:
            if len(self.starts) > first and self.starts[-1] == start:
                self.leaves[-1] = node
            elif len(self.starts) == first or self.leaves[-1] != node:
                self.starts.append(start)
                self.leaves.append(node)

        emit(0, T.NONE)
        for (prefix, plen), group in sorted(by_prefix.items()):
            while stack and stack[-1][0] < prefix:
                end, _ = stack.pop()
                emit(end + 1, stack[-1][1] if stack else T.NONE)
            node = self._prefix_node(group, stack[-1][1] if stack else T.NONE, plen)
            stack.append((prefix | (last >> plen if plen else last), node))
            emit(prefix, node)
        while stack:
            end, _ = stack.pop()
            if end < last:
                emit(end + 1, stack[-1][1] if stack else T.NONE)
        row = [0] * T.TABLE_COLUMNS
        row[T.TABLE_ID], row[T.TABLE_FIRST] = table, first
        row[T.TABLE_COUNT] = len(self.starts) - first
        row[T.TABLE_TOP] = T.NONE
        if row[T.TABLE_COUNT] > DIRECTORY_LEAST:
            row[T.TABLE_TOP] = place = sum(len(t) for t in self.top)
            self.top.append(directory(self.starts[first:], self.bits, first, place))
        self.table_rows.append(row)
        return len(self.table_rows) - 1

    # --- rules --------------------------------------------------------------------------------------

    def _device_selector(self, name: str | None) -> int:
        return T.ANY if name is None else self.device_rows.get(name, T.NOT_A_DEVICE)

    def _rule_row(self, rule: Rule, table_rows: dict[int, int], ordered: list[Rule]) -> list[int]:
        shift = 96 if self.family == 4 else 0
        row = [0] * T.RULE_COLUMNS
        row[T.RULE_PREF] = rule.pref
        row[T.RULE_ACTION] = _ACTIONS[rule.action]
        row[T.RULE_TABLE] = table_rows.get(rule.table, T.NONE)
        row[T.RULE_TABLE_ID] = rule.table
        row[T.RULE_TARGET] = T.NONE
        if rule.action == "goto":
            row[T.RULE_TARGET] = next(
                (k for k, other in enumerate(ordered) if other.pref == rule.goto), T.NONE
            )
        row[T.RULE_INVERT] = int(rule.invert)
        row[T.RULE_IIF], row[T.RULE_OIF] = map(self._device_selector, (rule.iif, rule.oif))
        row[T.RULE_SRC_HI], row[T.RULE_SRC_LO] = halves(rule.src)
        row[T.RULE_SRC_PLEN] = rule.src_plen + shift if rule.src_plen else 0
        row[T.RULE_DST_HI], row[T.RULE_DST_LO] = halves(rule.dst)
        row[T.RULE_DST_PLEN] = rule.dst_plen + shift if rule.dst_plen else 0
        row[T.RULE_TOS] = rule.tos
        row[T.RULE_DSCP] = T.ANY if rule.dscp is None else rule.dscp
        row[T.RULE_MARK], row[T.RULE_MASK] = rule.mark, rule.mask
        row[T.RULE_PROTOCOL] = rule.protocol
        row[T.RULE_SPORT_LOW], row[T.RULE_SPORT_HIGH] = rule.sport or (T.ANY, T.ANY)
        row[T.RULE_DPORT_LOW], row[T.RULE_DPORT_HIGH] = rule.dport or (T.ANY, T.ANY)
        low, high = rule.uidrange or (0, 1 << 32)
        row[T.RULE_UID_LOW], row[T.RULE_UID_HIGH] = low, high
        row[T.RULE_SUPPRESS_PLEN] = rule.suppress_prefixlength
        row[T.RULE_SUPPRESS_GROUP] = rule.suppress_ifgroup
        row[T.RULE_L3MDEV] = int(rule.l3mdev)
        return row

    # --- all of it ------------------------------------------------------------------------------------

    def build(self) -> T.Fib:
        by_table: dict[int, list[Route]] = defaultdict(list)
        for route in self.host.routes:
            if route.family == self.family:
                by_table[route.table].append(route)
        custom = self.host.custom_rules4 if self.family == 4 else self.host.custom_rules6
        rules = sorted(
            (r for r in self.host.rules if r.family == self.family), key=lambda r: r.pref
        )
        table_rows: dict[int, int] = {}
        if custom:
            for table, routes in sorted(by_table.items()):
                table_rows[table] = self.add_table(table, routes)
        elif self.family == 4:
            merged = [
                r
                for r in self.host.routes
                if r.family == 4 and r.table in (TABLE_LOCAL, TABLE_MAIN)
            ]
            self.add_table(TABLE_MAIN, merged)
            if by_table.get(TABLE_DEFAULT):
                self.add_table(TABLE_DEFAULT, by_table[TABLE_DEFAULT])
        else:
            self.add_table(TABLE_LOCAL, by_table.get(TABLE_LOCAL, []))
            self.add_table(TABLE_MAIN, by_table.get(TABLE_MAIN, []))
        rule_rows = [self._rule_row(r, table_rows, rules) for r in rules]
        if self.family == 4:
            start_lo = np.array(self.starts or [0], np.int64)
            start_hi = np.zeros(1, np.int64)
        else:
            pairs = [halves(s) for s in self.starts] or [(0, 0)]
            start_hi = np.array([h for h, _ in pairs], np.int64) ^ FLIP
            start_lo = np.array([lo for _, lo in pairs], np.int64) ^ FLIP
        return T.Fib(
            table=_matrix(self.table_rows, T.TABLE_COLUMNS),
            start_hi=start_hi,
            start_lo=start_lo,
            leaf=np.array(self.leaves or [T.NONE], np.int64),
            top=np.concatenate(self.top).astype(np.int64) if self.top else np.zeros(1, np.int64),
            node=_matrix(self.node_rows, T.NODE_COLUMNS),
            route=_matrix(self.route_rows, T.ROUTE_COLUMNS),
            nexthop=_matrix(self.nexthop_rows, T.NH_COLUMNS),
            rule=_matrix(rule_rows, T.RULE_COLUMNS),
            local_key=self._local_keys(),
        )

    def _local_keys(self) -> np.ndarray:
        """Open-addressing set of the host's IPv4 addresses (see ippath.fib.local.is_local4)."""
        own = [a.ip for d in self.host.devices for a in d.addresses if a.family == self.family == 4]
        size = 16
        while size < 4 * len(own):
            size *= 2
        keys = np.full(size, T.NONE, np.int64)
        for address in own:
            slot = _hash(0, address) & (size - 1)
            while keys[slot] >= 0 and keys[slot] != address:
                slot = (slot + 1) & (size - 1)
            keys[slot] = address
        return keys


def _matrix(listed: list, columns: int) -> np.ndarray:
    if not listed:
        return np.zeros((0, columns), np.int64)
    return np.ascontiguousarray(np.array(listed, np.int64))


def build_fib(
    host: Host, family: int, device_rows: dict[str, int]
) -> tuple[T.Fib, list[Route], list[Rule]]:
    """The arrays of one family, the routes behind `Fib.route` rows, the rules behind `Fib.rule` rows."""
    builder = _Builder(host, family, device_rows)
    fib = builder.build()
    rules = sorted((r for r in host.rules if r.family == family), key=lambda r: r.pref)
    return fib, builder.routes, rules
