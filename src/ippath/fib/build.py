"""From a Host's routes and rules to the arrays of `ippath.tables.Fib`.

Control side: runs once for each version of the tables, on whole arrays, so that a full table of a
million routes takes about a second.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ippath import tables as T
from ippath.fib.blocks import RouteBlock
from ippath.fib.directory import (
    FIRST_BITS,
    WORDS_OF_A_LINE,
    chunks,
    directory,
    has_chunks,
    is_large,
)
from ippath.fib.live_groups import bucket_places
from ippath.fib.multipath import mix32
from ippath.fib.resilient import bucket_runs, resilient_groups
from ippath.fib.routes import routes_of
from ippath.jit import plain
from ippath.prefix.pages import together
from ippath.model import (
    ROUTE_TYPES, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, Host, Nexthop, Route, Rule,
)  # fmt: skip

FLIP = -(1 << 63)
_hash = plain(mix32)
OBJECT_IDENTITY = 1 << 48  # keeps next hop objects apart from next hops of routes
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


@dataclass
class _Columns:
    """Routes of one family, a row each; those of blocks last."""

    high: np.ndarray  # uint64: halves of the prefix
    low: np.ndarray
    plen: np.ndarray
    table: np.ndarray
    info: np.ndarray
    tos: np.ndarray
    metric: np.ndarray
    src_high: np.ndarray
    src_low: np.ndarray
    src_plen: np.ndarray

    def take(self, rows: np.ndarray) -> _Columns:
        """Some of the rows."""
        return _Columns(*(getattr(self, f.name)[rows] for f in dataclasses.fields(self)))


NO_ROUTE = Route(4, 0, 0, table=0, type="unspec")  # of a row that is not in use


class RouteRows(Sequence[Route]):
    """The routes behind the rows of `Fib.route`; those of blocks become objects when asked for."""

    def __init__(self, singles: list[Route], blocks: list[RouteBlock], origin: np.ndarray):
        self._singles, self._blocks, self._origin = singles, blocks, origin
        self._ends = np.cumsum([len(singles), *map(len, blocks)])
        self._later: dict[int, Route] = {}  # rows that were given out since then
        self._size = len(origin)

    def put(self, row: int, route: Route) -> None:
        """Say which route has this row from now on."""
        self._later[row] = route
        self._size = max(self._size, row + 1)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[k] for k in range(*row.indices(len(self)))]
        row = range(self._size)[row]
        if row in self._later:
            return self._later[row]
        if row >= len(self._origin):
            return NO_ROUTE
        at = int(self._origin[row])
        if at < len(self._singles):
            return self._singles[at]
        block = int(np.searchsorted(self._ends, at, side="right")) - 1
        return self._blocks[block].route(at - int(self._ends[block]))


class FibBuilder:
    """Builds the Fib of one family."""

    def __init__(self, host: Host, family: int, device_rows: dict[str, int]):
        self.host, self.family, self.device_rows = host, family, device_rows
        self.bits = 32 if family == 4 else 128
        self.nexthop_rows: list[list[int]] = []
        self.nexthops: list[Nexthop] = []  # behind those rows
        self.info_rows: list[list[int]] = []
        self.table_rows: list[list[int]] = []
        self.parts: dict[str, list[np.ndarray]] = defaultdict(list)  # arrays of tables, in order
        self.sizes: dict[str, int] = defaultdict(int)
        self.hops: dict[tuple, tuple[int, int]] = {}
        self.infos: dict[tuple, int] = {}
        self.row_of: dict[int, int] = {}  # of each table that is looked up, in `Fib.table`
        self.bucket_runs = bucket_runs(host)

    # --- infos and next hops --------------------------------------------------------------------

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

    def _nexthops(self, route: Route) -> tuple[int, int]:
        """First row and count; routes that the kernel would let share one fib_info share them."""
        nexthops = route.nexthops
        if not nexthops and (self.family == 6 or route.type in ("local", "broadcast", "anycast")):
            nexthops = [Nexthop(device="lo")]  # reject routes of IPv6 point at the loopback device
        key = (
            route.protocol, route.scope, route.type, route.prefsrc, route.metric, route.mtu,
            route.mtu_lock, route.table if route.type == "local" else 0, route.nhid,
            tuple(
                (n.device, n.gateway, n.gateway_family, n.weight, n.onlink, n.scope, n.dead, n.linkdown)
                for n in nexthops
            ),
        )  # fmt: skip
        found = self.hops.get(key)
        if found is not None:
            return found
        first = len(self.nexthop_rows)
        bounds = _group_bounds(nexthops) if route.group else self._bounds(nexthops)
        for k, (nexthop, bound) in enumerate(zip(nexthops, bounds)):
            row = [0] * T.NH_COLUMNS
            row[T.NH_DEVICE] = self.device_rows.get(nexthop.device or "", 0)
            row[T.NH_GATEWAY_FAMILY] = nexthop.gateway_family if nexthop.gateway is not None else 0
            row[T.NH_HI], row[T.NH_LO] = halves(nexthop.gateway or 0)
            row[T.NH_SCOPE] = nexthop.scope
            row[T.NH_BOUND] = bound
            row[T.NH_DEAD] = int(nexthop.dead or nexthop.device not in self.device_rows)
            row[T.NH_LINKDOWN] = int(nexthop.linkdown)
            row[T.NH_IDENTITY] = len(self.hops) << 16 | k
            row[T.NH_OWNER] = _owner(key, k)
            if route.nhid:  # an object keeps the way for all routes that go by it
                number = self._member(route, k)
                row[T.NH_IDENTITY] = OBJECT_IDENTITY + number
                row[T.NH_OWNER] = _owner((nexthop.device, nexthop.gateway), number)
            self.nexthop_rows.append(row)
            self.nexthops.append(nexthop)
        self.hops[key] = first, len(nexthops)
        return self.hops[key]

    def _member(self, route: Route, k: int) -> int:
        """The number of the object that is the k-th next hop of the route."""
        return self.host.nexthops[route.nhid].members[k][0] if route.group else route.nhid

    def _object(self, route: Route) -> tuple[int, int, int]:
        """What a route says of its object: OBJECT_*, and where its buckets are."""
        if not route.nhid:
            return T.OBJECT_NONE, 0, 0
        if route.nexthops[0].blackhole:
            return T.OBJECT_BLACKHOLE, 0, 0
        if not route.group:
            return T.OBJECT_SINGLE, 0, 0
        first, count = self.bucket_runs.get(route.nhid, (0, 0))
        return T.OBJECT_GROUP, first, count

    def info(self, route: Route) -> int:
        """Row of what the route shares with others."""
        first, count = self._nexthops(route)
        anycast = int(route.type == "anycast" and route.protocol == "kernel")
        row = [0] * T.INFO_COLUMNS
        row[T.INFO_TYPE] = ROUTE_TYPES[route.type]
        row[T.INFO_SCOPE] = route.scope
        row[T.INFO_TOS] = route.tos
        row[T.INFO_METRIC] = route.metric
        row[T.INFO_NH_FIRST], row[T.INFO_NH_COUNT] = first, count
        row[T.INFO_PREFSRC_SET] = int(route.prefsrc is not None)
        row[T.INFO_PREFSRC_HI], row[T.INFO_PREFSRC_LO] = halves(route.prefsrc or 0)
        row[T.INFO_MTU], row[T.INFO_MTU_LOCK] = route.mtu, int(route.mtu_lock)
        row[T.INFO_PREFERENCE] = PREFERENCE[route.preference]
        row[T.INFO_HOPLIMIT] = route.hoplimit
        row[T.INFO_ANYCAST] = anycast
        row[T.INFO_OBJECT], row[T.INFO_BUCKET_FIRST], row[T.INFO_BUCKET_COUNT] = self._object(route)
        if row[T.INFO_OBJECT] == T.OBJECT_BLACKHOLE:
            row[T.INFO_TYPE] = T.RTN_BLACKHOLE
        number = self.infos.setdefault(tuple(row), len(self.infos))
        if number == len(self.info_rows):
            self.info_rows.append(row)
        return number

    def _columns(self, singles: list[Route], blocks: list[RouteBlock]) -> _Columns:
        low = 0xFFFFFFFFFFFFFFFF
        rows = [
            (r.prefix >> 64, r.prefix & low, r.plen, r.table, self.info(r), r.tos, r.metric,
             r.src >> 64, r.src & low, r.src_plen)
            for r in singles
        ]  # fmt: skip
        kinds = (np.uint64, np.uint64, *[np.int64] * 5, np.uint64, np.uint64, np.int64)
        parts = (
            [[np.array(column, kind) for column, kind in zip(zip(*rows), kinds)]] if rows else []
        )
        for block in blocks:
            infos = np.array([self.info(p) for p in block.patterns], np.int64)
            of = {
                name: np.array([getattr(p, name) for p in block.patterns], np.int64)[block.pattern]
                for name in ("table", "tos", "metric")
            }
            none = np.zeros(len(block), np.uint64)
            parts.append(
                [block.prefix[:, 0], block.prefix[:, 1], block.plen.astype(np.int64), of["table"],
                 infos[block.pattern], of["tos"], of["metric"], none, none, none.astype(np.int64)]
            )  # fmt: skip
        if not parts:
            return _Columns(*(np.zeros(0, kind) for kind in kinds))
        return _Columns(*(np.concatenate(column) for column in zip(*parts)))

    # --- tables -----------------------------------------------------------------------------------

    def _order(self, these: _Columns) -> np.ndarray:
        """Rows of a table by prefix, shorter first, and within one in the order of the look-up."""
        if self.family == 4:
            keys = these.low << np.uint64(8) | these.plen.astype(np.uint64)
            order = np.argsort(keys)
            keys = keys[order]
            if not np.any(keys[1:] == keys[:-1]):
                return order
            merged = np.isin(these.table, (TABLE_LOCAL, TABLE_MAIN))
            place = np.where(merged, -these.table, 0)  # local before main where the two are merged
            return np.lexsort((these.metric, -these.tos, place, these.plen, these.low))
        has_source = these.src_plen > 0
        return np.lexsort(
            (these.metric, these.src_low, these.src_high, -these.src_plen, has_source, these.plen,
             these.low, these.high)
        )  # fmt: skip

    def _add(self, name: str, array: np.ndarray) -> int:
        """Put an array behind those of the tables before; returns where it begins."""
        at = self.sizes[name]
        self.parts[name].append(array)
        self.sizes[name] += len(array)
        return at

    def add_table(self, table: int, all_routes: _Columns, rows: np.ndarray) -> int:
        """Add a table that holds these rows of all routes; returns its row."""
        rows = rows[self._order(all_routes.take(rows))]
        these = all_routes.take(rows)
        nodes, node_of_row, prefixes = self._nodes(these)
        high, low, leaf, parent = _intervals(
            these.high[prefixes], these.low[prefixes], these.plen[prefixes], self.bits
        )
        first_node = self.sizes["node"]
        of_prefix = node_of_row[prefixes] - (these.src_plen[prefixes] > 0)  # a prefix's own node
        self._link(nodes, of_prefix, parent, first_node)
        self._add("node", nodes)
        row = np.zeros(T.TABLE_COLUMNS, np.int64)
        row[T.TABLE_ID] = table
        first = self.sizes["leaf"]
        row[T.TABLE_PAGE] = first << T.PAGE_BITS | len(high)
        row[T.TABLE_TOP] = row[T.TABLE_CHUNKS] = T.NONE
        row[T.TABLE_SHIFT] = min(self.bits, 64) - FIRST_BITS
        row[T.TABLE_LARGE] = int(is_large(self.bits, len(high)))
        self._add("top", np.zeros(-self.sizes["top"] % WORDS_OF_A_LINE, np.int64))
        if has_chunks(self.bits, len(high)):
            row[T.TABLE_CHUNKS] = self._add("top", chunks(low, first, self.sizes["top"]))
        elif len(high) > DIRECTORY_LEAST:
            place = self.sizes["top"]
            row[T.TABLE_TOP] = self._add("top", directory(high, low, self.bits, first, place))
        words = self._leaf_words(nodes, of_prefix, these, first_node)
        self._add("leaf", np.where(leaf >= 0, words[leaf], T.NONE) if len(words) else leaf)
        self._add("start_hi", high)
        self._add("start_lo", low)
        self._add("route", self._route_rows(these, node_of_row + first_node))
        self._add("origin", rows)
        self.table_rows.append(row.tolist())
        return len(self.table_rows) - 1

    def _nodes(self, these: _Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Node rows without parents, the node of each route, and the first route of each prefix.

        Each prefix has a node for its routes without a source, maybe none, and one for each source.
        """
        count = len(these.plen)
        new_prefix, new_source = np.ones(count, bool), these.src_plen > 0
        if count:
            same = _same(these, ("high", "low", "plen"))
            new_prefix[1:] = ~same
            new_source[1:] &= ~(same & _same(these, ("src_high", "src_low", "src_plen")))
        node_of_row = np.cumsum(new_prefix.astype(np.int64) + new_source) - 1
        prefixes = np.flatnonzero(new_prefix)
        size = int(node_of_row[-1]) + 1 if count else 0
        nodes = np.zeros((size, T.NODE_COLUMNS), np.int64)
        nodes[:, T.NODE_COUNT] = np.bincount(node_of_row, minlength=size)
        ends = np.cumsum(nodes[:, T.NODE_COUNT])
        nodes[:, T.NODE_FIRST] = self.sizes["route"] + ends - nodes[:, T.NODE_COUNT]
        nodes[node_of_row, T.NODE_PLEN] = these.plen
        own = node_of_row[prefixes] - new_source[prefixes]
        nodes[own, T.NODE_PLEN] = these.plen[prefixes]
        for column, values in (
            (T.NODE_SRC_HI, these.src_high), (T.NODE_SRC_LO, these.src_low),
            (T.NODE_SRC_PLEN, these.src_plen),
        ):  # fmt: skip
            nodes[node_of_row, column] = values.view(np.int64)
        return nodes, node_of_row, prefixes

    def _link(
        self, nodes: np.ndarray, of_prefix: np.ndarray, parent: np.ndarray, first: int
    ) -> None:
        """Fill in the parents, and where the nodes of sources are."""
        ends = np.append(of_prefix[1:], len(nodes))
        subs = ends - of_prefix - 1
        nodes[of_prefix, T.NODE_SUB_COUNT] = subs
        nodes[of_prefix, T.NODE_SUB_FIRST] = np.where(subs > 0, first + of_prefix + 1, 0)
        nodes[:, T.NODE_PARENT] = first + np.repeat(of_prefix, subs + 1)  # of sources: the prefix
        nodes[of_prefix, T.NODE_PARENT] = np.where(
            parent >= 0, first + of_prefix[parent] if len(of_prefix) else T.NONE, T.NONE
        )

    def _leaf_words(
        self, nodes: np.ndarray, of_prefix: np.ndarray, these: _Columns, first_node: int
    ) -> np.ndarray:
        """For each prefix its node, or the only route and its info (see LEAF_INFO_BITS)."""
        mine = nodes[of_prefix]
        alone = (mine[:, T.NODE_COUNT] == 1) & (mine[:, T.NODE_SUB_COUNT] == 0)
        route = mine[:, T.NODE_FIRST]
        at = np.minimum(route - self.sizes["route"], max(len(these.info) - 1, 0))
        info = these.info[at] if len(these.info) else route
        words = -2 - (route << T.LEAF_INFO_BITS | info)
        return np.where(alone, words, first_node + of_prefix)

    def _route_rows(self, these: _Columns, nodes: np.ndarray) -> np.ndarray:
        rows = np.zeros((len(nodes), T.ROUTE_COLUMNS), np.int64)
        rows[:, T.ROUTE_TABLE], rows[:, T.ROUTE_PLEN] = these.table, these.plen
        rows[:, T.ROUTE_DST_HI] = these.high.view(np.int64)
        rows[:, T.ROUTE_DST_LO] = these.low.view(np.int64)
        rows[:, T.ROUTE_INFO], rows[:, T.ROUTE_NODE] = these.info, nodes
        return rows

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

    @property
    def rules(self) -> list[Rule]:
        """The rules behind the rows of `Fib.rule`."""
        return sorted((r for r in self.host.rules if r.family == self.family), key=lambda r: r.pref)

    @property
    def has_rules(self) -> bool:
        """Whether rules choose among all tables; without, local and main are looked up, and default."""
        return self.host.custom_rules4 if self.family == 4 else self.host.custom_rules6

    # --- all of it ------------------------------------------------------------------------------------

    def build(self) -> T.Fib:
        routes = routes_of(self.host)
        self.singles = [r for r in routes.singles() if r.family == self.family]
        self.blocks = [b.rest() for b in routes.blocks if b.family == self.family]
        columns = self._columns(self.singles, self.blocks)

        def add(table: int, *held: int) -> int:
            held = held or (table,)
            row = self.add_table(table, columns, np.flatnonzero(np.isin(columns.table, held)))
            self.row_of |= dict.fromkeys(held, row)
            return row

        self.row_of = {}
        table_rows: dict[int, int] = {}
        if self.has_rules:
            for table in np.unique(columns.table).tolist():
                table_rows[table] = add(table)
        elif self.family == 4:
            add(TABLE_MAIN, TABLE_LOCAL, TABLE_MAIN)
            if np.any(columns.table == TABLE_DEFAULT):
                add(TABLE_DEFAULT)
        else:
            add(TABLE_LOCAL)
            add(TABLE_MAIN)
        rule_rows = [self._rule_row(r, table_rows, self.rules) for r in self.rules]
        route = self._whole("route", T.ROUTE_COLUMNS)
        flip = 0 if self.family == 4 else FLIP
        return T.Fib(
            table=_matrix(self.table_rows, T.TABLE_COLUMNS),
            start_hi=self._starts("start_hi") ^ FLIP if flip else np.zeros(1, np.int64),
            start_lo=self._starts("start_lo") ^ flip,
            leaf=together(self.parts["leaf"] or [np.full(1, T.NONE, np.int64)]),
            top=together(self.parts["top"] or [np.zeros(1, np.int64)]),
            node=self._whole("node", T.NODE_COLUMNS),
            route=route,
            **self.shared(),
            bucket=bucket_places(resilient_groups(self.host)),
            rule=_matrix(rule_rows, T.RULE_COLUMNS),
            local_key=self._local_keys(),
        )

    def shared(self) -> dict[str, np.ndarray]:
        """What routes share: the arrays of infos and next hops."""
        return {
            "info": _matrix(self.info_rows, T.INFO_COLUMNS),
            "nexthop": _matrix(self.nexthop_rows, T.NH_COLUMNS),
        }

    def rows(self) -> RouteRows:
        """The routes behind the rows of the Fib that was built."""
        origin = np.concatenate(self.parts["origin"] or [np.zeros(0, np.int64)])
        return RouteRows(self.singles, self.blocks, origin)

    def _whole(self, name: str, columns: int) -> np.ndarray:
        parts = self.parts[name]
        if not parts:
            return np.zeros((0, columns), np.int64)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _starts(self, name: str) -> np.ndarray:
        parts = self.parts[name]
        return np.concatenate(parts or [np.zeros(1, np.uint64)]).view(np.int64)

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


def _group_bounds(nexthops: list[Nexthop]) -> list[int]:
    """Upper hash bounds of a group's members, alive or not (kernel: nh_hthr_group_rebalance)."""
    total, weight, bounds = sum(n.weight for n in nexthops), 0, []
    for nexthop in nexthops:
        weight += nexthop.weight
        bounds.append(((weight << 31) + total // 2) // total - 1)
    return bounds


def _owner(key: tuple, k: int) -> int:
    """A number that the k-th next hop of such a route has in every version of the tables."""
    digest = hashlib.blake2b(repr((key, k)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2


def _matrix(listed: list, columns: int) -> np.ndarray:
    if not listed:
        return np.zeros((0, columns), np.int64)
    return np.ascontiguousarray(np.array(listed, np.int64))


def _same(these: _Columns, names: tuple[str, ...]) -> np.ndarray:
    """Whether each row but the first equals the one before in these columns."""
    equal = np.ones(len(these.plen) - 1, bool)
    for name in names:
        column = getattr(these, name)
        equal &= column[1:] == column[:-1]
    return equal


def _intervals(
    high: np.ndarray, low: np.ndarray, plen: np.ndarray, bits: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The disjoint intervals of nested prefixes, which are sorted, shorter ones first.

    Returns the halves of their starts and the prefix that each belongs to (NONE: none), then the next
    shorter prefix around each prefix.
    """
    after_high, after_low, open_end = _after(high, low, plen, bits)
    points, start, after = _ranks(high, low, after_high, after_low)
    after[open_end] = len(points[0])
    parent = np.arange(len(plen)) - 1
    while len(wrong := np.flatnonzero((parent >= 0) & (after[parent] <= start))):
        parent[wrong] = parent[parent[wrong]]  # what ends before cannot hold it: its holder may
    at = np.arange(len(points[0]))
    held = np.searchsorted(start, at, side="right") - 1
    if len(plen):
        while len(wrong := np.flatnonzero((held >= 0) & (after[held] <= at))):
            held[wrong] = parent[held[wrong]]
    kept = np.ones(len(at), bool)
    kept[1:] = held[1:] != held[:-1]
    return points[0][kept], points[1][kept], held[kept], parent


def _after(
    high: np.ndarray, low: np.ndarray, plen: np.ndarray, bits: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The address behind each prefix, and whether there is none."""
    free = (bits - plen).astype(np.uint64)
    one, full = np.uint64(1), np.uint64(64)
    if bits == 32:
        end = low + (one << free)
        return high, end, end > np.uint64(0xFFFFFFFF)
    below = np.where(free < full, one << np.minimum(free, full - one), np.uint64(0))
    above = np.where(
        free >= full, one << np.minimum(free - np.minimum(free, full), full - one), np.uint64(0)
    )
    after_low = low + below
    carry = ((free < full) & (after_low < low)).astype(np.uint64)
    after_high = high + above + carry
    whole = plen == 0
    return after_high, after_low, whole | ((after_high == 0) & (after_low == 0))


def _ranks(
    high: np.ndarray, low: np.ndarray, after_high: np.ndarray, after_low: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray, np.ndarray]:
    """All starts and ends in order, with 0; and the place of each start and of each end there."""
    zero = np.zeros(1, np.uint64)
    highs = np.concatenate([zero, high, after_high])
    lows = np.concatenate([zero, low, after_low])
    order = np.lexsort((lows, highs)) if np.any(highs) else np.argsort(lows, kind="stable")
    highs, lows = highs[order], lows[order]
    new = np.ones(len(order), bool)
    new[1:] = (highs[1:] != highs[:-1]) | (lows[1:] != lows[:-1])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.cumsum(new) - 1
    count = len(high)
    return (highs[new], lows[new]), rank[1 : 1 + count], rank[1 + count :]
