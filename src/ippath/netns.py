"""One host: tables, counters and sockets.  Takes batches in, gives verdicts and packets out."""

from __future__ import annotations

import dataclasses
import ipaddress
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ippath import tables as T
from ippath.batch import (
    DIRECTION_LOOPED,
    LINK_ETHERNET,
    LINK_IEEE802154_NOFCS,
    LINK_RAW,
    PacketBatch,
)
from ippath.config.values import address_text, ip_protocol_text
from ippath.fib.build import halves
from ippath.fib.live import LiveFib
from ippath.fib.live_groups import ResilientGroups
from ippath.fib.multipath import mix32
from ippath.fib.reference import kernel_order, source_toward
from ippath.fib.resilient import NEVER
from ippath.fib.routes import routes_of
from ippath.fib.vrf import vrf_of
from ippath.frag.arena import (
    STORES, grown, new_arena, set_contexts, set_limits, statistics,
)  # fmt: skip
from ippath.handles import Handle, outgoing_handle, state_handle, tables_handle
from ippath.jit import plain
from ippath.mib import COUNTERS
from ippath.model import Device, Host, Listener, Nexthop, Route, Rule
from ippath.reasons import REASON_NAMES, VERDICTS
from ippath.switches import resolve
from ippath.tx.loopback import LOOP_BYTES, LOOP_ROWS
from ippath.verdicts import Verdicts

if TYPE_CHECKING:
    from ippath.fib.placing import Unwanted
    from ippath.socket import Socket
    from ippath.explain import Explanation
    from ippath.route_get import Answer

OUT_BYTES, OUT_ROWS = 16 << 20, 1 << 16
NO_TARGETS = np.zeros((0, T.TARGET_COLUMNS), np.int64)
# who reassembles: the beginning of the sysctls, and seconds that a datagram may take
REASSEMBLY = {
    T.FQDIR_IPV4: ("net.ipv4.ipfrag_", 30),
    T.FQDIR_IPV6: ("net.ipv6.ip6frag_", 60),
    T.FQDIR_CONNTRACK6: ("net.netfilter.nf_conntrack_frag6_", 60),
    T.FQDIR_LOWPAN: ("net.ieee802154.6lowpan.6lowpanfrag_", 60),
}
HIGH_THRESH, LOW_THRESH = 4 << 20, 3 << 20  # bytes, by default
# the rest of their names: column and unit
FRAGMENT_LIMITS = {
    "high_thresh": (T.FQDIR_HIGH, 1),
    "low_thresh": (T.FQDIR_LOW, 1),
    "time": (T.FQDIR_TIMEOUT_NS, 10**9),
    "timeout": (T.FQDIR_TIMEOUT_NS, 10**9),
    "max_dist": (T.FQDIR_MAX_DIST, 1),
}
LEAST_MTU6 = 1280
MAPPED4 = 0xFFFFFFFF  # the IPv4 address within ::ffff:a.b.c.d
TABLE_NAMES = {253: "default", 254: "main", 255: "local"}
_hash = plain(mix32)
_MASK = (1 << 64) - 1

# protocols with a handler on every Linux host: ICMP, IGMP, TCP, UDP, UDP-Lite; IPv6: TCP, UDP,
# UDP-Lite, ICMPv6.  Others need a module or a raw socket (`listen proto N`).
HANDLED = {(4, 1), (4, 2), (4, 6), (4, 17), (4, 136), (6, 6), (6, 17), (6, 58), (6, 136)}


def _reassembly_of(name: str) -> int | None:
    """The directory of reassembly that a sysctl belongs to."""
    for directory, (prefix, _) in REASSEMBLY.items():
        if name.startswith(prefix):
            return directory
    return None


FIRST_OPEN = 1 << 20  # numbers of open sockets; below are those of `Host.listeners`
Inbox = Callable[[np.ndarray, np.ndarray], None]


class AccountingError(AssertionError):
    """Packets in do not equal packets with a verdict: a bug in ippath, never in the input."""


class Sender(Protocol):
    """The socket whose messages are sent."""

    def has_error(self) -> bool:
        """Whether its next call will fail with what the network said."""

    def charge_wire(self, size: int) -> None:
        """A slow link holds so many more bytes of what it sent, or fewer."""


class World(Protocol):
    """What moves packets between hosts and lets time pass (see `ippath.lab`)."""

    def step(self, until_ns: int | None) -> bool:
        """See `Netns.let_time_pass`."""

    def sent(self, netns: Netns, sender: Sender | None = None) -> None:
        """`netns` sent packets by its devices, for the socket `sender` if it is given."""


@dataclass
class Totals:
    """What a host counted so far."""

    packets: int
    bytes: int
    verdicts: dict[str, int]
    reasons: dict[str, int]
    counters: dict[str, int]
    hint: dict[str, int]
    devices: list[dict[str, Any]]
    reassembly: dict[str, dict[str, int]]  # by family, see ippath.frag.arena.STATISTICS


class Sent(NamedTuple):
    """A packet that left: device, bytes, when, and the frame number of the packet that caused it."""

    device: str
    packet: bytes
    time_ns: int
    cause: int


@dataclass
class Taken:
    """A datagram that a socket took, with what `recvmsg` says beside it.

    `listener` is its number in `Host.listeners`; `spec_dst` the address to answer from (IPv4,
    `ipi_spec_dst`), `tos` the traffic class, `ttl` the hop limit, `cause` the frame number.
    """

    listener: int
    payload: bytes
    source: str
    port: int
    destination: str
    spec_dst: str
    device: str
    ttl: int
    tos: int
    cause: int


class Netns:
    """A Linux host that receives packets.

    >>> netns = Netns.from_file("host.txt")
    >>> verdicts = netns.receive(PacketBatch.read("capture.pcap"))
    >>> netns.totals().reasons
    """

    def __init__(self, host: Host, *, switches: dict[str, str] | None = None, seed: int = 0):
        """Build the tables of `host`.  `switches` override the host's own; `seed` starts all randomness.

        Raises `ippath.switches.SwitchError` for a switch or value that does not exist.
        """
        self.host = host
        self._given_switches = switches or {}
        self.switches = resolve({**host.switches, **self._given_switches})
        self.seed = seed
        self._device_rows = {d.name: k for k, d in enumerate(host.devices)}
        self._made: dict[str, Any] = {}
        # with the names of the devices at that time
        self._sent: list[tuple[list[str], np.ndarray, np.ndarray]] = []
        self._taken: list[tuple[list[str], np.ndarray, np.ndarray]] = []
        self._open: dict[int, Listener] = {}  # sockets of ippath.socket, in the order of binding
        self._inboxes: dict[int, Inbox] = {}
        self._members: dict[int, list[tuple[int, str, int]]] = {}  # of sockets, bound or not
        self._next_number = FIRST_OPEN
        self._collected = -1  # COLLECT_* that the arenas are made for
        self.version = 0  # of the host; `change` makes another
        self.keeps_output = False  # whether `take_output` gets what open sockets send
        self._versions = threading.Lock()  # held while routes change, or a version is taken
        self._running = 0  # calls that use `_version`, the tables as they were when it began
        self._routes_are_new = False  # what remembers routes has to forget them
        self.world: World | None = None  # what moves packets between hosts, and their clocks
        self._groups = ResilientGroups(host)
        self.tables = self._build()
        self.state = self._new_state()
        self._tables_handle = self._version = tables_handle(self.tables)
        self._state_handle = state_handle(self.state)

    def change(self, host: Host) -> None:
        """Go on as `host`: new tables; counters, rate limits, queues, fragments and the clock stay.

        Rows in `Verdicts` before the change belong to the tables of then.
        """
        old, old_tables, old_rows, old_sysctls = (
            self.state, self.tables, self._device_rows, self._sysctls,
        )  # fmt: skip
        self.version += 1
        self._drain()
        self.host = host
        self.switches = resolve({**host.switches, **self._given_switches})
        self._device_rows = {d.name: k for k, d in enumerate(host.devices)}
        self._made = {}
        self._groups.follow(host, int(self.state.misc[T.MISC_NOW_NS]))
        self.tables = self._build()
        fresh = self._new_state()
        self.state = old._replace(
            devstat=fresh.devstat, sockq=fresh.sockq, rxdst=fresh.rxdst, taken=fresh.taken,
            bucket_used=fresh.bucket_used,
        )  # fmt: skip
        self._collected = -1
        self._carry_queues(old_tables.socket, old)
        self.state.misc[T.MISC_LIST_DEVICE] = T.NONE
        self.state.misc[T.MISC_GENERATION] += 1
        self._set_lowpan(self.state.lw, self.state.context)
        moved = np.array(
            [self._device_rows.get(name, T.NOT_A_DEVICE) for name in old_rows], np.int64
        )
        for row, now in enumerate(moved):
            if now >= 0:
                fresh.devstat[now] = old.devstat[row]
        for table, column in ((old.fq, T.FQ_DEVICE), (old.frag, T.FRAG_DEVICE)):
            known = table[:, column] >= 0
            table[known, column] = moved[table[known, column]]
        for name, value in host.sysctls.items():
            if _reassembly_of(name) is not None and old_sysctls.get(name) != value:
                self.set_fragment_limit(name, int(value))
        self._tables_handle = self._version = tables_handle(self.tables)
        self._state_handle = state_handle(self.state)
        self._keep_exceptions(old_tables.device)

    def routes_changed(self) -> None:
        """Follow what `ippath.fib.control` has done to the routes of the host, and to nothing else.

        Costs what the changed prefixes cost, however many routes there are.  A batch that another
        thread receives meanwhile goes on with the routes as they were.
        """
        with self._versions:
            places = routes_of(self.host).take_changes()
            followed = places is not None and all(
                self._fibs[family].change([p for p in places if p.family == family])
                for family in {place.family for place in places}
            )
            if followed:
                self._take_fibs()
        if not followed:
            self.change(self.host)

    def _take_fibs(self) -> None:
        """Go on with the Fibs as they are now."""
        old, four, six = self.tables, self._fibs[4].fib, self._fibs[6].fib
        conf, guards = old.conf, self._route_guards()
        if any(conf[column] != value for column, value in guards.items()):
            conf = conf.copy()
            for column, value in guards.items():
                conf[column] = value
        if conf is not old.conf or four is not old.fib4 or six is not old.fib6:
            self.tables = old._replace(conf=conf, fib4=four, fib6=six)
            self._tables_handle = tables_handle(self.tables)
        for name in [n for n in self._made if n.startswith(("route", "table", "nexthop"))]:
            del self._made[name]
        self._routes_are_new = True
        if not self._running:
            self._forget_routes()

    def _forget_routes(self) -> None:
        """Sockets and receive lists look up again; what was learned of routes that are gone goes."""
        state = self.state
        self.version += 1
        state.rxdst[:] = 0
        state.misc[T.MISC_GENERATION] += 1
        state.misc[T.MISC_LIST_DEVICE] = T.NONE
        if state.exc_misc[T.EM_USED]:
            from ippath.fib.exceptions import keep_exceptions

            keep_exceptions(self._tables_handle.value, self._state_handle.value)
        self._version, self._routes_are_new = self._tables_handle, False

    @contextmanager
    def _one_version(self) -> Iterator[None]:
        """Go through packets with `self._version` of the tables, whatever happens to routes meanwhile."""
        with self._versions:
            self._running += 1
            held = list(self._fibs.values())
            for live in held:
                live.hold(1)
        try:
            yield
        finally:
            with self._versions:
                self._running -= 1
                for live in held:
                    live.hold(-1)
                if self._routes_are_new and not self._running:
                    self._forget_routes()

    def add_route(self, route: Route, mode: str = "add") -> None:
        """Add a route as `ip route` does: `mode` is add, append, prepend, replace or change.

        Raises `ippath.fib.control.ControlError` where the kernel refuses; then nothing has changed.
        """
        from ippath.fib.control import add_route

        add_route(self.host, route, mode)
        self.routes_changed()

    def del_route(self, wanted: Unwanted) -> None:
        """Delete the first route that is as described (`ippath.fib.control.Unwanted`).

        Raises ControlError if there is none.
        """
        from ippath.fib.control import del_route

        del_route(self.host, wanted)
        self.routes_changed()

    def _keep_exceptions(self, old_devices: np.ndarray) -> None:
        """Keep what was learned about destinations as far as routes and devices stay."""
        if not self.state.exc_misc[T.EM_USED]:
            return
        from ippath.fib.exceptions import device_mtu_changed, keep_exceptions

        old = {row[T.DEV_IFINDEX]: row for row in old_devices}
        for row in self.tables.device:
            was = old.get(row[T.DEV_IFINDEX])
            for family, column in ((4, T.DEV_MTU), (6, T.DEV_MTU6)):
                if was is not None and was[column] != row[column]:
                    device_mtu_changed(
                        self._state_handle.value,
                        family,
                        row[T.DEV_IFINDEX],
                        was[column],
                        row[column],
                    )
        keep_exceptions(self._tables_handle.value, self._state_handle.value)

    def _carry_queues(self, sockets: np.ndarray, state: T.State, routes: bool = False) -> None:
        """Take over what sockets hold of `state`, which was that of `sockets`, as rows have moved.

        With `routes` also those that connected sockets remember.
        """
        rows = {number: k for k, number in enumerate(self.tables.socket[:, T.SOCK_LISTENER])}
        for row, number in enumerate(sockets[:, T.SOCK_LISTENER]):
            if number in rows:
                self.state.sockq[rows[number]] = state.sockq[row]
                if routes:
                    self.state.rxdst[rows[number]] = state.rxdst[row]

    @classmethod
    def from_file(
        cls, path: str | Path, *, switches: dict[str, str] | None = None, seed: int = 0
    ) -> Netns:
        """A host from a host file or a snapshot (file or folder).

        Raises `ippath.config.HostErrors` (file, line, column, what was expected) for a wrong line.
        """
        from ippath.config import load

        return cls(load(path), switches=switches, seed=seed)

    # --- tables ---------------------------------------------------------------------------------------

    def _number(self, key: str, default: int) -> int:
        return int(self.host.sysctls.get(key, default))

    def _build(self) -> T.Tables:
        self._sysctls = dict(self.host.sysctls)
        self._fibs = {family: LiveFib(self.host, family, self._device_rows) for family in (4, 6)}
        routes_of(self.host).take_changes()
        device, vlan = self._build_devices()
        socket, port, member = self._build_sockets()
        return T.Tables(
            conf=self._build_conf(),
            device=device,
            vlan=vlan,
            address=self._build_addresses(),
            group=self._build_groups(),
            fib4=self._fibs[4].fib,
            fib6=self._fibs[6].fib,
            socket=socket,
            port=port,
            member=member,
            neighbour=self._build_neighbours(),
        )

    def _build_devices(self) -> tuple[np.ndarray, np.ndarray]:
        host = self.host
        table = np.zeros((len(host.devices), T.DEV_COLUMNS), np.int64)
        vlans: list[list[int]] = []
        for k, device in enumerate(host.devices):
            below = [d for d in host.devices if d.kind == "vlan" and d.parent == device.name]
            table[k, T.DEV_VLAN_FIRST], table[k, T.DEV_VLAN_COUNT] = len(vlans), len(below)
            vlans += [[d.vlan_protocol, d.vlan_id, self._device_rows[d.name]] for d in below]
            self._fill_device(table[k], device)
        matrix = np.array(vlans, np.int64) if vlans else np.zeros((0, T.VLAN_COLUMNS), np.int64)
        return table, matrix

    def _fill_device(self, row: np.ndarray, device: Device) -> None:
        from ippath.fib.control import effective_sysctl, own_sysctl

        def four(name: str) -> int:
            return effective_sysctl(self.host, 4, device, name)

        def six(name: str) -> int:
            return effective_sysctl(self.host, 6, device, name)

        loopback = device.kind == "loopback"
        has = {a.family for a in device.addresses}
        row[T.DEV_IFINDEX] = device.ifindex
        row[T.DEV_UP] = int(device.up)
        row[T.DEV_LOOPBACK] = int(loopback)
        row[T.DEV_MAC] = T.NONE if device.mac is None else halves(device.mac)[1]
        row[T.DEV_LOWPAN] = int(device.kind == "lowpan")
        row[T.DEV_PAN] = T.NONE if device.pan_id is None else device.pan_id
        row[T.DEV_SHORT] = T.NONE if device.short_address is None else device.short_address
        row[T.DEV_MTU] = device.mtu
        row[T.DEV_MTU6] = self._number(f"net.ipv6.conf.{device.name}.mtu", device.mtu)
        row[T.DEV_HAS4] = (2 if 4 in has else 1) if device.mtu >= 68 else 0
        row[T.DEV_HAS6] = int(device.speaks6)
        row[T.DEV_RAW_IP] = int(device.raw_ip)
        row[T.DEV_NOARP] = int(not device.asks_neighbours)
        vrf = vrf_of(self.host, device)
        row[T.DEV_MASTER] = T.NONE if vrf is None else self._device_rows[vrf.name]
        row[T.DEV_VRF_TABLE4] = row[T.DEV_VRF_TABLE6] = T.NONE
        if vrf is device:
            row[T.DEV_VRF_TABLE4] = self._fibs[4].row_of(device.vrf_table)
            row[T.DEV_VRF_TABLE6] = self._fibs[6].row_of(device.vrf_table)
        row[T.DEV_GROUP] = device.group
        row[T.DEV_CARRIER] = int(device.carrier)
        for column, name in (
            (T.DEV_FORWARDING4, "forwarding"), (T.DEV_RP_FILTER, "rp_filter"),
            (T.DEV_ACCEPT_LOCAL, "accept_local"), (T.DEV_ROUTE_LOCALNET, "route_localnet"),
            (T.DEV_SRC_VALID_MARK, "src_valid_mark"),
            (T.DEV_ACCEPT_SOURCE_ROUTE, "accept_source_route"),
            (T.DEV_SEND_REDIRECTS, "send_redirects"), (T.DEV_SHARED_MEDIA, "shared_media"),
            (T.DEV_DROP_UNICAST_L2_4, "drop_unicast_in_l2_multicast"),
            (T.DEV_BC_FORWARDING, "bc_forwarding"),
            (T.DEV_IGNORE_LINKDOWN4, "ignore_routes_with_linkdown"),
            (T.DEV_LOG_MARTIANS, "log_martians"), (T.DEV_MC_FORWARDING4, "mc_forwarding"),
            (T.DEV_ACCEPT_REDIRECTS, "accept_redirects"),
            (T.DEV_SECURE_REDIRECTS, "secure_redirects"),
        ):  # fmt: skip
            row[column] = four(name)
        for column, name in (
            (T.DEV_DISABLE6, "disable_ipv6"),
            (T.DEV_DROP_UNICAST_L2_6, "drop_unicast_in_l2_multicast"),
            (T.DEV_HOP_LIMIT6, "hop_limit"), (T.DEV_FORCE_FORWARDING6, "force_forwarding"),
            (T.DEV_IGNORE_LINKDOWN6, "ignore_routes_with_linkdown"),
            (T.DEV_OIF_ADDRS_ONLY, "use_oif_addrs_only"),
            (T.DEV_SUPPRESS_FRAG_NDISC, "suppress_frag_ndisc"),
            (T.DEV_ACCEPT_REDIRECTS6, "accept_redirects"), (T.DEV_FORWARDING6, "forwarding"),
        ):  # fmt: skip
            row[column] = six(name)
        for column, name in ((T.DEV_SEG6, "seg6_enabled"), (T.DEV_RPL6, "rpl_seg_enabled")):
            row[column] = min(own_sysctl(self.host, 6, "all", name), six(name))

    def _build_addresses(self) -> np.ndarray:
        anycast = {
            (hop.device, route.prefix)
            for route in routes_of(self.host).singles()
            if (route.family, route.type, route.plen) == (6, "anycast", 128)
            and route.protocol == "kernel"
            for hop in route.nexthops
        }
        rows = []
        for k, device in enumerate(self.host.devices):
            for address in kernel_order(device.addresses):
                bits = 32 if address.family == 4 else 128
                base = address.ip if address.peer is None else address.peer
                prefix = base >> (bits - address.plen) << (bits - address.plen)
                rows.append(
                    [address.family, k, *halves(address.ip), *halves(prefix), address.plen,
                     address.scope, int(address.secondary), int(address.tentative),
                     int(address.deprecated),
                     int(address.family == 6 and (device.name, prefix) in anycast)]
                )  # fmt: skip
        return np.array(rows, np.int64) if rows else np.zeros((0, T.ADDR_COLUMNS), np.int64)

    def _build_groups(self) -> np.ndarray:
        rows = [
            [family, k, *halves(group)]
            for k, device in enumerate(self.host.devices)
            for family, group in sorted(device.multicast | self._joined(device.name))
        ]
        return np.array(rows, np.int64) if rows else np.zeros((0, T.GROUP_COLUMNS), np.int64)

    def _joined(self, device: str) -> set[tuple[int, int]]:
        """Groups that sockets joined by the device: family, address."""
        return {
            (family, group)
            for members in self._members.values()
            for family, name, group in members
            if name == device
        }

    def _build_neighbours(self) -> np.ndarray:
        size = 16
        while size < 4 * len(self.host.neighbours):
            size *= 2
        table = np.zeros((size, T.NEIGH_COLUMNS), np.int64)
        for entry in self.host.neighbours:
            device = self._device_rows.get(entry.device)
            if device is None or entry.proxy:
                continue
            hi, lo = halves(entry.ip)
            slot = _hash(_hash(_hash(device, hi), lo), lo >> 32) & (size - 1)
            while table[slot, T.NEIGH_STATE]:
                slot = (slot + 1) & (size - 1)
            dead = entry.state.lower() in ("failed", "incomplete", "none")
            mac = T.NONE if entry.mac is None else halves(entry.mac)[1]
            state = T.NEIGH_FAILED_STATE if dead else T.NEIGH_VALID
            table[slot] = [device, hi, lo, mac, state]
        return table

    def _socket_row(self, number: int, listener: Listener) -> list[int]:
        mapped = _is_mapped(listener.family, listener.ip)
        ip = listener.ip & MAPPED4 if mapped else listener.ip
        if listener.reader == "fast":
            read = T.READ_AT_ONCE
        elif listener.reader == "none":
            read = T.READ_NEVER
        elif listener.reader == "calls":
            read = T.READ_BY_CALLS
        else:
            read = max(1, int(1e9 / float(listener.reader.removesuffix("/s"))))
        peer = listener.peer
        if peer is not None and _is_mapped(listener.family, peer):
            peer &= MAPPED4
        row = [0] * T.SOCK_COLUMNS
        row[T.SOCK_FAMILY], row[T.SOCK_PROTOCOL] = listener.family, listener.protocol
        row[T.SOCK_HI], row[T.SOCK_LO] = halves(ip)
        row[T.SOCK_PORT] = listener.port
        row[T.SOCK_PEER_SET] = int(peer is not None)
        row[T.SOCK_PEER_HI], row[T.SOCK_PEER_LO] = halves(peer or 0)
        row[T.SOCK_PEER_PORT] = listener.peer_port
        device = listener.device
        row[T.SOCK_DEVICE] = (
            T.NONE if device is None else self._device_rows.get(device, T.NOT_A_DEVICE)
        )
        # a socket bound to a real IPv6 address takes IPv6 only
        row[T.SOCK_V6ONLY] = int(
            listener.v6only or (listener.family == 6 and ip != 0 and not mapped)
        )
        row[T.SOCK_RCVBUF], row[T.SOCK_READ_NS] = listener.rcvbuf, read
        row[T.SOCK_NO_CHECK6] = int(listener.no_check6_rx)
        row[T.SOCK_WILDCARD] = int(ip == 0)
        row[T.SOCK_LISTENER] = number
        row[T.SOCK_GROUPS4], row[T.SOCK_GROUPS6] = (
            int(listener.takes_groups4),
            int(listener.groups6),
        )
        row[T.SOCK_DEAF4], row[T.SOCK_DEAF6] = int(listener.deaf4), int(listener.deaf6)
        row[T.SOCK_COVERAGE] = T.NONE if listener.coverage is None else listener.coverage
        return row

    def _connected(self, listener: Listener) -> Listener:
        """The socket as `connect` leaves it: bound to the address by which it reaches its peer."""
        if listener.peer is None or listener.ip:
            return listener
        if _is_mapped(listener.family, listener.peer):
            source = source_toward(self.host, 4, listener.peer & MAPPED4, listener.device)
            source |= 0xFFFF << 32
        else:
            source = source_toward(self.host, listener.family, listener.peer, listener.device)
        return dataclasses.replace(listener, ip=source)

    def _build_sockets(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sockets by port in the order in which the kernel scans them: latest bound first.

        Returns them, the first of each port, and the groups that they joined.
        """
        groups: dict[tuple, list[int]] = {}
        singles: list[int] = []
        sockets = {n: self._connected(one) for n, one in enumerate(self.host.listeners)}
        sockets.update(self._open)
        for number, one in sockets.items():
            if one.reuseport and one.peer is None:
                key = (one.port, one.family, one.v6only, one.ip, one.device, one.protocol)
                groups.setdefault(key, []).append(number)
            else:
                singles.append(number)
        order = [[n] for n in reversed(singles)] + list(groups.values())
        order.sort(key=lambda members: _port_group(sockets[members[0]]))
        rows: list[list[int]] = []
        joined: list[list[int]] = []
        for members in order:
            first = len(rows)
            for number in members:
                row = self._socket_row(number, sockets[number])
                row[T.SOCK_MEMBER_FIRST] = len(joined)
                row[T.SOCK_MEMBER_COUNT] = len(sockets[number].members)
                joined += [
                    [family, self._device_rows.get(device, T.NOT_A_DEVICE), *halves(group)]
                    for family, device, group in sockets[number].members
                ]
                row[T.SOCK_REUSEPORT_FIRST], row[T.SOCK_REUSEPORT_COUNT] = first, len(members)
                rows.append(row)
        table = np.array(rows, np.int64) if rows else np.zeros((0, T.SOCK_COLUMNS), np.int64)
        group = 2 * table[:, T.SOCK_PORT] + table[:, T.SOCK_WILDCARD]
        port = np.zeros(2 * 65536 + 1, np.int64)
        np.cumsum(np.bincount(group, minlength=2 * 65536), out=port[1:])
        member = np.array(joined, np.int64) if joined else np.zeros((0, T.MEMBER_COLUMNS), np.int64)
        return table, port, member

    def _build_conf(self) -> np.ndarray:
        host, number = self.host, self._number
        conf = np.zeros(T.CONF_COLUMNS, np.int64)
        conf[T.CONF_RULES4], conf[T.CONF_RULES6] = host.custom_rules4, host.custom_rules6
        for column, value in self._route_guards().items():
            conf[column] = value
        for column, family in ((T.CONF_DISSECT4, 4), (T.CONF_DISSECT6, 6)):
            conf[column] = any(
                r.protocol or r.sport or r.dport for r in host.rules if r.family == family
            )
        conf[T.CONF_FORWARDING6] = number("net.ipv6.conf.all.forwarding", 0)
        conf[T.CONF_DEFAULT_TTL] = number("net.ipv4.ip_default_ttl", 64)
        conf[T.CONF_ICMP_RATELIMIT_NS] = number("net.ipv4.icmp_ratelimit", 1000) * 1_000_000
        conf[T.CONF_ICMP_RATEMASK] = number("net.ipv4.icmp_ratemask", 6168)
        conf[T.CONF_ICMP_MSGS_PER_SEC] = number("net.ipv4.icmp_msgs_per_sec", 1000)
        conf[T.CONF_ICMP_MSGS_BURST] = number("net.ipv4.icmp_msgs_burst", 50)
        conf[T.CONF_ICMP_ECHO_IGNORE_ALL] = number("net.ipv4.icmp_echo_ignore_all", 0)
        conf[T.CONF_ICMP_ECHO_IGNORE_BROADCASTS] = number("net.ipv4.icmp_echo_ignore_broadcasts", 1)
        conf[T.CONF_ICMP_INBOUND_IFADDR] = number("net.ipv4.icmp_errors_use_inbound_ifaddr", 0)
        conf[T.CONF_FWMARK_REFLECT4] = number("net.ipv4.fwmark_reflect", 0)
        conf[T.CONF_FWMARK_REFLECT6] = number("net.ipv6.fwmark_reflect", 0)
        conf[T.CONF_ICMP6_RATELIMIT_NS] = number("net.ipv6.icmp.ratelimit", 100) * 1_000_000
        conf[T.CONF_ICMP6_ECHO_IGNORE_ALL] = number("net.ipv6.icmp.echo_ignore_all", 0)
        conf[T.CONF_ICMP6_ECHO_IGNORE_MULTICAST] = number("net.ipv6.icmp.echo_ignore_multicast", 0)
        conf[T.CONF_ICMP6_ECHO_IGNORE_ANYCAST] = number("net.ipv6.icmp.echo_ignore_anycast", 0)
        conf[T.CONF_ANYCAST_SRC_ECHO6] = number("net.ipv6.anycast_src_echo_reply", 0)
        conf[T.CONF_ANYCAST_AS_UNICAST6] = number("net.ipv6.icmp.error_anycast_as_unicast", 0)
        conf[T.CONF_L3MDEV_ACCEPT] = number("net.ipv4.udp_l3mdev_accept", 0)
        conf[T.CONF_FORWARD_USE_PMTU] = number("net.ipv4.ip_forward_use_pmtu", 0)
        conf[T.CONF_NO_PMTU_DISC] = number("net.ipv4.ip_no_pmtu_disc", 0)
        conf[T.CONF_MIN_PMTU] = number("net.ipv4.route.min_pmtu", 552)
        conf[T.CONF_MTU_EXPIRES4_NS] = number("net.ipv4.route.mtu_expires", 600) * 10**9
        conf[T.CONF_MTU_EXPIRES6_NS] = number("net.ipv6.route.mtu_expires", 600) * 10**9
        conf[T.CONF_REDIRECT_EXPIRES_NS] = number("net.ipv4.route.gc_timeout", 300) * 10**9
        conf[T.CONF_HASH_POLICY4] = number("net.ipv4.fib_multipath_hash_policy", 0)
        conf[T.CONF_HASH_POLICY6] = number("net.ipv6.fib_multipath_hash_policy", 0)
        conf[T.CONF_HASH_FIELDS4] = number("net.ipv4.fib_multipath_hash_fields", 7)
        conf[T.CONF_HASH_FIELDS6] = number("net.ipv6.fib_multipath_hash_fields", 7)
        conf[T.CONF_HASH_SEED] = number("net.ipv4.fib_multipath_hash_seed", 0) or _hash(
            0x9E3779B9, self.seed
        )
        conf[T.CONF_MAX_HBH_OPTIONS] = number("net.ipv6.max_hbh_opts_number", 8)
        conf[T.CONF_MAX_DST_OPTIONS] = number("net.ipv6.max_dst_opts_number", 8)
        conf[T.CONF_MAX_HBH_LENGTH] = number("net.ipv6.max_hbh_length", 0x7FFFFFFF)
        conf[T.CONF_MAX_DST_LENGTH] = number("net.ipv6.max_dst_opts_length", 0x7FFFFFFF)
        conf[T.CONF_HINT] = {"off": T.HINT_OFF, "on": T.HINT_ON, "strict": T.HINT_STRICT}[
            self.switches["route_hint"]
        ]
        conf[T.CONF_LIST] = int(self.switches["receive_list"])
        conf[T.CONF_LIST_GAP_NS] = int(self.switches["receive_list_gap"]) * 1000
        conf[T.CONF_ASSUME_NEIGH] = int(self.switches["neighbours"] == "assume")
        conf[T.CONF_BROADCAST_HINT] = int(self.switches["broadcast_hint"] == "on")
        conf[T.CONF_EAGER] = int(self.switches["route_cache"] == "eager")
        for column, name in (
            (T.CONF_SEND_LOOKUP, "send_lookup"), (T.CONF_SOCKET_ROUTE, "socket_route"),
            (T.CONF_HEADER_TEMPLATE, "header_template"), (T.CONF_SEND_ACCOUNTS, "send_accounts"),
            (T.CONF_ZERO_COPY, "zero_copy"),
        ):  # fmt: skip
            conf[column] = int(self.switches[name] == "on")
        small = self.switches["fragment_minimum6"] == "on"
        conf[T.CONF_LEAST_FRAGMENT6] = LEAST_MTU6 if small else 0
        conf[T.CONF_CONNTRACK_DEFRAG] = int(self.switches["conntrack_defrag"] == "on")
        conf[T.CONF_EARLY_DEMUX] = self._early_demux()
        handled = HANDLED | host.protocols
        for first, bits in (
            (T.CONF_PROTOCOLS4_0, sum(1 << p for f, p in handled if f == 4)),
            (T.CONF_PROTOCOLS6_0, sum(1 << p for f, p in handled if f == 6)),
            (
                T.CONF_ICMP6_RATEMASK,
                _bit_list(host.sysctls.get("net.ipv6.icmp.ratemask", "0-1,3-127")),
            ),
        ):
            for word in range(4):
                conf[first + word] = halves(bits >> (64 * word) & 0xFFFFFFFFFFFFFFFF)[1]
        return conf

    def _route_guards(self) -> dict[int, int]:
        """What the packet path wants to know of all routes together: columns of `conf`."""
        four, six = self._fibs[4], self._fibs[6]
        return {
            T.CONF_REQUIRE_SRC6: six.sourced, T.CONF_USER_LOCAL4: int(self.host.user_local_routes),
            T.CONF_MULTIPATH4: int(four.has_several), T.CONF_MULTIPATH6: int(six.has_several),
        }  # fmt: skip

    def _early_demux(self) -> bool:
        """Whether early demux is on, and a socket is connected."""
        return bool(
            self._number("net.ipv4.ip_early_demux", 1)
            and self._number("net.ipv4.udp_early_demux", 1)
            and any(listener.peer is not None for _, listener in self.open_listeners())
        )

    # --- state ------------------------------------------------------------------------------------------

    def _new_arena(self) -> dict[str, np.ndarray]:
        """The arrays of reassembly, with the limits that the sysctls give."""
        arena = new_arena(self.seed)
        for directory, (prefix, seconds) in REASSEMBLY.items():
            time = "timeout" if directory == T.FQDIR_CONNTRACK6 else "time"
            set_limits(
                arena["fqdir"],
                directory,
                high=self._number(f"{prefix}high_thresh", HIGH_THRESH),
                low=self._number(f"{prefix}low_thresh", LOW_THRESH),
                timeout_ns=self._number(prefix + time, seconds) * 10**9,
                max_dist=self._number("net.ipv4.ipfrag_max_dist", 64),
            )
            store = STORES[self.switches["fragment_store"]]
            arena["fqdir"][directory, T.FQDIR_STORE] = store
            evict = self.switches["fragment_memory"] == "evict"
            arena["fqdir"][directory, T.FQDIR_EVICT] = int(evict)
        self._set_lowpan(arena["lw"], arena["context"])
        return arena

    def _set_lowpan(self, lw: np.ndarray, context: np.ndarray) -> None:
        lw[T.LW_STRICT] = int(self.switches["lowpan"] == "linux")
        set_contexts(context, self.host.contexts)

    def _new_state(self) -> T.State:
        misc = np.zeros(T.MISC_COLUMNS, np.int64)
        misc[T.MISC_RANDOM] = _hash(0x85EBCA6B, self.seed) or 1
        misc[T.MISC_ICMP_STAMP_NS] = -(10**9)
        misc[T.MISC_LIST_DEVICE] = misc[T.MISC_OWN_IIF] = T.NONE
        misc[T.MISC_GENERATION] = 1
        state = T.State(
            counters=np.zeros(len(COUNTERS), np.int64),
            verdicts=np.zeros(len(VERDICTS), np.int64),
            reasons=np.zeros(len(REASON_NAMES), np.int64),
            devstat=np.zeros((len(self.host.devices), T.DEVSTAT_COLUMNS), np.int64),
            sockq=np.zeros((len(self.tables.socket), T.SOCKQ_COLUMNS), np.int64),
            rxdst=np.zeros((len(self.tables.socket), T.SKB_COLUMNS), np.int64),
            peer=np.zeros((T.PEERS, T.PEER_COLUMNS), np.int64),
            exception=np.zeros((T.EXCEPTIONS, T.EXC_COLUMNS), np.int64),
            exc_bucket=np.zeros(T.EXCEPTIONS, np.int64),
            bucket_used=self._groups.used_ns,
            exc_misc=np.array([0, 0, 0, *(_hash(k, self.seed) for k in (0x517CC1B7, 0x27220A95))]),
            misc=misc,
            **self._new_arena(),
            skb=np.zeros(T.SKB_COLUMNS, np.int64),
            ahead=np.full(T.AHEAD_ROWS, T.NONE, np.int64),
            hint=np.full(T.SKB_COLUMNS, T.NONE, np.int64),
            flow=np.zeros((4, T.FLOW_COLUMNS), np.int64),
            result=np.full((4, T.RES_COLUMNS), T.NONE, np.int64),
            opt=np.zeros(T.OPT_COLUMNS, np.int64),
            scratch=np.zeros(T.SCRATCH_BYTES, np.uint8),
            out=np.zeros((0, T.OUT_COLUMNS), np.int64),
            out_data=np.zeros(0, np.uint8),
            taken=np.zeros((0, T.TAKEN_COLUMNS), np.int64),
            taken_data=np.zeros(0, np.uint8),
            loop=np.zeros((LOOP_ROWS, T.LOOP_COLUMNS), np.int64),
            loop_data=np.zeros(LOOP_BYTES, np.uint8),
            plan=np.zeros(T.PLAN_COLUMNS, np.int64),
            header=np.zeros(T.HEADER_BYTES, np.uint8),
        )
        state.hint[T.HINT_VALID] = state.hint[T.HINT_PENDING] = 0
        return state

    def map_interfaces(self, names: list[str], on: str | None = None) -> np.ndarray:
        """Device row for each capture interface: int32[len(names)], -1 where there is none.

        By `map` lines, then by name; interfaces without a name (and all, when `on` is given) go to
        `on`, else to the first device that is not the loopback.  Raises ValueError if `on` names no
        device.
        """
        if on is not None and on not in self._device_rows:
            known = ", ".join(self._device_rows)
            raise ValueError(f"the host has no device {on}; it has {known}")
        default = on or next((d.name for d in self.host.devices[1:]), "lo")
        single = len(names) == 1
        mapped = []
        for name in names:
            target = self.host.device_map.get(name, name)
            if on is not None or not name or (single and target not in self._device_rows):
                target = default
            mapped.append(self._device_rows.get(target, T.NONE))
        return np.array(mapped, np.int32)

    def map_devices(self, batch: PacketBatch, names: list[str], on: str | None = None) -> None:
        """Give the packets of a batch devices of this host instead of interfaces of the capture.

        `names` are the capture's interfaces where the batch has none of its own; see
        `map_interfaces`, also for the ValueError.
        """
        rows = np.append(self.map_interfaces(batch.interfaces or names, on), T.NONE)
        known = (batch.device >= 0) & (batch.device < len(rows) - 1)
        batch.device = rows[np.where(known, batch.device, len(rows) - 1)].astype(np.int32)

    # --- receive ----------------------------------------------------------------------------------------

    def receive(
        self,
        batch: PacketBatch,
        *,
        collect_output: bool = False,
        collect_datagrams: bool = False,
        continue_list: bool = False,
        lists: bool = True,
        trace: np.ndarray | None = None,
    ) -> Verdicts:
        """Receive a batch, in order, and give each packet's verdict.

        `batch.device` holds rows of `host.devices` (see `map_interfaces`); a row out of range gets
        the verdict `unsupported`, NO_DEVICE.  With `collect_output` packets sent are kept for
        `take_output`, with `collect_datagrams` what sockets took for `take_datagrams`.  A batch
        starts a new receive list unless `continue_list` is set; without `lists` each packet comes
        alone, as from a device without NAPI.
        """
        from ippath.rx.burst import OUTSIDE, receive_burst

        n = len(batch)
        table = np.empty((n, T.V_COLUMNS), np.int32)  # the path writes every word
        self._collect(collect_output, collect_datagrams)
        state = self.state
        state.misc[T.MISC_ALONE] = not lists
        if not continue_list:
            state.misc[T.MISC_LIST_DEVICE] = T.NONE
        at = 0
        with self._one_version():
            while True:
                end = self._until_upkeep(batch.time_ns, at)
                done = receive_burst(
                    self._version.value, self._state_handle.value, batch.data, batch.offset,
                    batch.length, batch.wire_length, batch.time_ns, batch.link_type, batch.device,
                    batch.direction, batch.mark, table, batch.first_frame, at, end, trace,
                )  # fmt: skip
                if done == OUTSIDE:
                    raise ValueError("the batch has packets outside its arena")
                if self.state.misc[T.MISC_LOOP_ROWS]:
                    self._bring_back()
                elif done < end:
                    self._make_room()
                at = done
                if at >= n:
                    break
            if self._open:
                self._drain_taken()
        return Verdicts(table, batch.first_frame, self._listener_numbers())

    def _upkeep(self, time_ns: int) -> None:
        """Let buckets of resilient groups go to other members whose time has come, or comes by then."""
        groups = self._groups
        if groups.due_ns < NEVER:
            until_ns = max(int(self.state.misc[T.MISC_NOW_NS]), time_ns)
            while groups.due_ns <= until_ns:
                places = groups.upkeep(groups.due_ns)
                for live in self._fibs.values():
                    live.fib.bucket[:] = places

    def _until_upkeep(self, times: np.ndarray, at: int) -> int:
        """How far packets from `at` on go before buckets may have to."""
        if self._groups.due_ns < NEVER and at < len(times):
            self._upkeep(int(times[at]))
            due = times[at:] >= self._groups.due_ns
            if due.any():
                return at + int(due.argmax())
        return len(times)

    def _bring_back(self) -> None:
        """Receive what the host sent to itself, and what that makes it send to itself, in order."""
        state = self.state
        if state.hint[T.HINT_PENDING]:  # the packet in hand will be another
            state.hint[T.DST_FIRST :] = state.skb[T.DST_FIRST :]
            state.hint[T.HINT_PENDING] = 0
        hint, misc = state.hint.copy(), state.misc
        lists = misc[T.MISC_LIST_COUNT : T.MISC_LIST_TIME + 1].copy()
        alone, misc[T.MISC_ALONE], misc[T.MISC_ONE_CAUSE] = misc[T.MISC_ALONE], 1, 1
        waiting = deque([self._take_loop()])
        while waiting:
            rows, data = waiting.popleft()
            causes = rows[:, T.LOOP_CAUSE]
            ends = np.append(np.flatnonzero(np.diff(causes)) + 1, len(rows)).tolist()
            begin = 0
            for end in ends:
                self._receive_looped(rows[begin:end], data, waiting)
                begin = end
        misc[T.MISC_ALONE], misc[T.MISC_ONE_CAUSE] = alone, 0
        misc[T.MISC_LIST_COUNT : T.MISC_LIST_TIME + 1] = lists
        state.hint[:] = hint

    def _take_loop(self) -> tuple[np.ndarray, np.ndarray]:
        """The packets that wait to come back in, and their bytes."""
        misc, state = self.state.misc, self.state
        rows = state.loop[: misc[T.MISC_LOOP_ROWS]].copy()
        data = state.loop_data[: misc[T.MISC_LOOP_BYTES]].copy()
        misc[T.MISC_LOOP_ROWS] = misc[T.MISC_LOOP_BYTES] = 0
        return rows, data

    def _receive_looped(self, rows: np.ndarray, data: np.ndarray, waiting: deque) -> None:
        """Receive packets of one cause; those that they make the host send to itself are to wait."""
        from ippath.rx.burst import receive_burst

        n, misc = len(rows), self.state.misc
        offset, mark = (np.ascontiguousarray(rows[:, c]) for c in (T.LOOP_OFFSET, T.LOOP_MARK))
        length, wire, device, iif = (
            rows[:, c].astype(np.int32)
            for c in (T.LOOP_LENGTH, T.LOOP_WIRE, T.LOOP_DEVICE, T.LOOP_IIF)
        )
        way = (DIRECTION_LOOPED + rows[:, T.LOOP_TYPE]).astype(np.int32)
        times = np.full(n, misc[T.MISC_NOW_NS], np.int64)
        verdicts = np.empty((n, T.V_COLUMNS), np.int32)
        at = 0
        while at < n:
            at = receive_burst(
                self._version.value, self._state_handle.value, data, offset, length, wire,
                times, iif, device, way, mark, verdicts, int(rows[0, T.LOOP_CAUSE]), at, n, None,
            )  # fmt: skip
            if misc[T.MISC_LOOP_ROWS]:
                waiting.append(self._take_loop())
            elif at < n:
                self._make_room()

    def set_fragment_limit(self, name: str, value: int) -> None:
        """Change a limit of reassembly while packets wait: a sysctl such as net.ipv4.ipfrag_time.

        Datagrams that are begun keep their deadline.  Raises KeyError for another sysctl, ValueError
        for a high threshold below the low one, as the kernel refuses it.
        """
        directory = _reassembly_of(name)
        if directory is None:
            raise KeyError(name)
        prefix = REASSEMBLY[directory][0]
        limit = name.removeprefix(prefix)
        if limit in ("high_thresh", "low_thresh"):
            low = self._number(f"{prefix}low_thresh", LOW_THRESH)
            high = self._number(f"{prefix}high_thresh", HIGH_THRESH)
            low, high = (value, high) if limit == "low_thresh" else (low, value)
            if not 0 <= low <= high:
                raise ValueError(f"{name} = {value}: low is {low} then, high is {high}")
        self.host.sysctls[name] = str(value)
        column, unit = FRAGMENT_LIMITS[limit]
        self.state.fqdir[directory, column] = value * unit

    def advance(
        self, time_ns: int, *, collect_output: bool = False, collect_datagrams: bool = False
    ) -> None:
        """Let the host's clock reach `time_ns` without a packet: datagrams under reassembly expire.

        Does nothing if the clock is there already.
        """
        misc = self.state.misc
        if time_ns > misc[T.MISC_NOW_NS]:
            self._upkeep(time_ns)
            misc[T.MISC_NOW_NS] = time_ns
            self.receive(
                PacketBatch.from_packets([]), collect_output=collect_output,
                collect_datagrams=collect_datagrams, continue_list=True,
            )  # fmt: skip

    def _make_room(self) -> None:
        """Empty the output arena, enlarge the arrays of reassembly if they are short."""
        self._drain()
        if self.state.frag_misc[T.FM_SHORT]:
            self.state = self.state._replace(**grown(self.state))
            self._state_handle = state_handle(self.state)

    def send(
        self,
        number: int,
        payload: bytes,
        to: tuple[str, int] | None = None,
        *,
        ttl: int | None = None,
        tos: int = 0,
        device: str | None = None,
        source: str | None = None,
        time_ns: int = 0,
        collect_output: bool = True,
        collect_datagrams: bool = False,
    ) -> int:
        """Send a datagram from a listener (number in `Host.listeners`); 0 or an errno.

        `to` is (address, port), None the peer of a connected socket.  `device` and `source` are what
        packet information asks for (IP_PKTINFO, IPV6_PKTINFO), `ttl` a hop limit, `tos` a traffic
        class.  Raises ValueError for an address or device that is none.
        Kernel: udp_sendmsg, udpv6_sendmsg.
        """
        listener = self._connected(self.host.listeners[number])
        if to is None and listener.peer is None:
            return T.EDESTADDRREQ
        six = listener.family == 6
        target, port = (listener.peer or 0, listener.peer_port) if to is None else (_address(to[0], six), to[1])  # fmt: skip
        if port == 0:
            return T.EINVAL
        origin = listener.ip if source is None else _address(source, six)
        if not six and device is not None and source is None:
            origin = 0  # IP_PKTINFO has a source, and 0 leaves it open
        family = listener.family
        if _is_mapped(family, target):
            if listener.v6only:
                return T.ENETUNREACH
            if (device is not None or source is not None) and not _is_mapped(6, origin):
                return T.EINVAL
            family, target = 4, target & MAPPED4
            origin = origin & MAPPED4 if _is_mapped(6, origin) else 0
            ttl, tos = None, 0  # IPV6_HOPLIMIT and IPV6_TCLASS are not looked at
        name = device if device is not None else listener.device
        if name is not None and name not in self._device_rows:
            raise ValueError(f"the host has no device {name}")
        if family == 6 and source is not None and not self._is_own6(origin):
            return T.EINVAL
        row = new_message(family, listener.protocol)
        row[T.SEND_SPORT], row[T.SEND_DPORT] = listener.port, port
        row[T.SEND_SRC_HI : T.SEND_SRC_LO + 1] = halves(origin)
        row[T.SEND_DST_HI : T.SEND_DST_LO + 1] = halves(target)
        row[T.SEND_OIF] = T.NONE if name is None else self._device_rows[name]
        row[T.SEND_TTL] = T.NONE if ttl is None else ttl
        row[T.SEND_TOS] = tos
        self._collect(collect_output, collect_datagrams)
        self._transmit(outgoing(_bytes(payload), *_one_payload(payload), row), 0, 1, time_ns, True)
        return int(row[T.SEND_ERROR])

    def _transmit(
        self,
        datagrams: Handle,
        begin: int,
        end: int,
        time_ns: int,
        each: bool,
        sender: Sender | None = None,
    ) -> int:
        """Send datagrams [begin, end) and bring back what comes back; the first that is not done.

        It stops after one that failed, or whose answer is an error for `sender`.  See
        `ippath.udp.sendmsg.udp_send`.
        """
        from ippath.udp.sendmsg import udp_send

        at, misc = begin, self.state.misc
        self._upkeep(time_ns)
        with self._one_version():
            while at < end:
                done = udp_send(
                    self._version.value, self._state_handle.value, datagrams.value, at, end,
                    time_ns, each,
                )  # fmt: skip
                failed = done < 0
                if failed:
                    done = ~done
                if misc[T.MISC_LOOP_ROWS]:
                    self._bring_back()
                    self._drain_taken()
                    failed = failed or (sender is not None and sender.has_error())
                elif done == at:
                    self._make_room()
                at = done
                if failed:
                    break
        return at

    # --- sockets that calls read (ippath.socket) ----------------------------------------------------------

    def new_number(self) -> int:
        """The number of a socket that is made."""
        self._next_number += 1
        return self._next_number - 1

    def open_socket(self, number: int, listener: Listener, inbox: Inbox) -> None:
        """Put a bound socket among those that datagrams find.

        `inbox` gets what arrives: rows of TAKEN_* columns, and the bytes that they point at.
        """
        self._inboxes[number] = inbox
        self.change_socket(number, listener, moved=True)

    def hold_groups(self, number: int, members: list[tuple[int, str, int]]) -> None:
        """The socket is a member of these groups: family, device, address."""
        self._members[number] = list(members)
        self._refresh_sockets()

    def change_socket(self, number: int, listener: Listener, *, moved: bool) -> None:
        """An open socket has other options; `moved`: another address, it stands before all others."""
        if moved:
            self._open.pop(number, None)
        self._open[number] = listener
        self._refresh_sockets()

    def close_socket(self, number: int) -> None:
        """Take a socket away, bound or not."""
        known = number in self._open or number in self._members
        for table in (self._open, self._inboxes, self._members):
            table.pop(number, None)
        if known:
            self._refresh_sockets()

    def open_listeners(self) -> list[tuple[int, Listener]]:
        """All sockets of the host by number: those of its description, then open ones."""
        return [*enumerate(self.host.listeners), *self._open.items()]

    def _refresh_sockets(self) -> None:
        """Build anew what depends on the open sockets."""
        self._drain()
        old = self.tables
        socket, port, member = self._build_sockets()
        conf = old.conf.copy()
        conf[T.CONF_EARLY_DEMUX] = self._early_demux()
        self.tables = old._replace(
            socket=socket, port=port, member=member, conf=conf, group=self._build_groups()
        )
        state = self.state
        rows = len(socket)
        self.state = state._replace(
            sockq=np.zeros((rows, T.SOCKQ_COLUMNS), np.int64),
            rxdst=np.zeros((rows, T.SKB_COLUMNS), np.int64),
            taken=np.zeros((0, T.TAKEN_COLUMNS), np.int64),
        )
        self._collected = -1
        self._carry_queues(old.socket, state, routes=True)
        self._rows = {number: k for k, number in enumerate(socket[:, T.SOCK_LISTENER].tolist())}
        self._tables_handle = self._version = tables_handle(self.tables)
        self._state_handle = state_handle(self.state)

    def socket(self, family: int = 2, type: int = 2, proto: int = 0) -> Socket:
        """A UDP socket of this host, to be used like one of the standard library.

        Raises the OSError that the kernel has for other families, types and protocols.
        """
        from ippath.socket import Socket

        return Socket(self, family, type, proto)

    def chance(self) -> random.Random:
        """Randomness that starts from the seed, for what the packet path does not draw itself."""
        return self.cached("chance", lambda: random.Random(self.seed))

    def let_time_pass(self, until_ns: int | None) -> bool:
        """Let time pass to the next event, at most to `until_ns`; False if nothing will ever happen.

        A host alone has no events: its clock goes to `until_ns` at once.
        """
        if self.world is not None:
            return self.world.step(until_ns)
        if until_ns is None:
            return False
        self.advance(until_ns)
        return True

    def queue_of(self, number: int) -> np.ndarray:
        """The queue of an open socket: int64[SOCKQ_COLUMNS], to be changed by whoever reads it."""
        return self.state.sockq[self._rows[number]]

    def transmit(
        self,
        datagrams: Handle,
        *,
        begin: int = 0,
        end: int | None = None,
        each: bool = True,
        time_ns: int = 0,
        sender: Sender | None = None,
    ) -> int:
        """Send datagrams of open sockets from `begin` to before `end`; the first that is not done.

        `datagrams` is what `outgoing` makes.  It stops after one that failed: SEND_ERROR of its
        message is an errno then.  `sender` is charged for what a slow link has not sent yet.  With
        `each`, what a datagram brings back to this host (an answer that nobody listens) is seen
        before the next is sent.
        """
        self._collect(self.keeps_output, False)
        last = len(datagrams.owner.offset) if end is None else end
        done = self._transmit(datagrams, begin, last, time_ns, each, sender)
        if self.world is not None:
            self.world.sent(self, sender)
        return done

    def _is_own6(self, address: int) -> bool:
        return any((a.family, a.ip) == (6, address) for d in self.host.devices for a in d.addresses)

    def _collect(self, output: bool, datagrams: bool) -> None:
        """Say what is collected from now on, and make room for it."""
        wanted = T.COLLECT_SENT * output | T.COLLECT_TAKEN * datagrams
        if self._open:
            wanted |= T.COLLECT_CALLS
        if wanted == self._collected:
            return
        self._collected = wanted
        state = self.state
        if output and not len(state.out):
            state = state._replace(
                out=np.zeros((OUT_ROWS, T.OUT_COLUMNS), np.int64),
                out_data=np.zeros(OUT_BYTES, np.uint8),
            )
        if (datagrams or self._open) and not len(state.taken):
            rows = OUT_ROWS + len(self.tables.socket)
            state = state._replace(
                taken=np.zeros((rows, T.TAKEN_COLUMNS), np.int64),
                taken_data=np.zeros(OUT_BYTES, np.uint8),
            )
        if state is not self.state:
            self.state = state
            self._state_handle = state_handle(state)
        state.misc[T.MISC_COLLECT] = wanted

    def _listener_numbers(self) -> np.ndarray:
        numbers = self.tables.socket[:, T.SOCK_LISTENER]
        return numbers if len(numbers) else np.zeros(1, np.int64)

    # --- routes without packets ---------------------------------------------------------------------------

    def device_row(self, name: str) -> int:
        """Row of the device of that name; NOT_A_DEVICE (-2) if there is none."""
        return self._device_rows.get(name, T.NOT_A_DEVICE)

    def handles_to_ask(self) -> tuple[Any, Any]:
        """Handles for `ippath.tx.route_get`: the tables, and a state that counts for nobody.

        It knows what was learned about destinations, and the time.
        """
        state = self.cached("state to ask", lambda: state_handle(self._state_to_ask()))
        state.owner.misc[T.MISC_NOW_NS] = self.state.misc[T.MISC_NOW_NS]
        return self._tables_handle.value, state.value

    def _state_to_ask(self) -> T.State:
        names = ("exception", "exc_bucket", "exc_misc")
        return self._new_state()._replace(**{name: getattr(self.state, name) for name in names})

    def route_get(self, destination: str | int, **question: Any) -> Answer:
        """The way to an address, as `ip route get` finds it.

        `question` holds the fields of `ippath.route_get.Question` (source, iif, oif, mark, tos, …);
        the family is that of the address, or must be given with an int.  Raises
        `ippath.route_get.QuestionError`.
        """
        from ippath.route_get import Question, ask

        if isinstance(destination, str):
            address = ipaddress.ip_address(destination)
            destination, question["family"] = int(address), address.version
        if isinstance(question.get("source"), str):
            question["source"] = int(ipaddress.ip_address(question["source"]))
        return ask(self, Question(**question), destination)

    def explain(self, batch: PacketBatch, index: int) -> Explanation:
        """Receive packet `index` of the batch alone, traced; see `ippath.explain`.

        Packets before it must have been received already if they matter (rate limits, queues).
        """
        from ippath.explain import explain

        return explain(self, batch, index)

    def close_accounts(self) -> None:
        """Check that every packet has exactly one verdict; raises AccountingError."""
        entered = int(self.state.misc[T.MISC_PACKETS])
        given = int(self.state.verdicts[1:].sum())
        if entered != given or self.state.verdicts[0]:
            detail = {v: int(c) for v, c in zip(VERDICTS, self.state.verdicts)}
            raise AccountingError(
                f"{entered} packets entered, verdicts add up to {given}: {detail}"
            )

    # --- what was counted --------------------------------------------------------------------------------

    def counters(self) -> dict[str, int]:
        """Counters that are not zero, by nstat's names."""
        values = self.state.counters
        return {COUNTERS[k]: int(values[k]) for k in np.nonzero(values)[0]}

    def totals(self) -> Totals:
        """Everything counted since the host was made."""
        misc, state = self.state.misc, self.state
        return Totals(
            packets=int(misc[T.MISC_PACKETS]),
            bytes=int(misc[T.MISC_BYTES]),
            verdicts={VERDICTS[v]: int(state.verdicts[v]) for v in range(1, len(VERDICTS))},
            reasons={REASON_NAMES[k]: int(state.reasons[k]) for k in np.nonzero(state.reasons)[0]},
            counters=self.counters(),
            hint={
                "used": int(misc[T.MISC_HINT_USED]),
                "missed": int(misc[T.MISC_HINT_MISSED]),
                "refused": int(misc[T.MISC_HINT_REFUSED]),
            },
            devices=[
                {
                    "name": device.name,
                    "rx_packets": int(row[T.DEVSTAT_RX]),
                    "rx_bytes": int(row[T.DEVSTAT_RX_BYTES]),
                    "rx_dropped": int(row[T.DEVSTAT_RX_DROPPED]),
                    "tx_packets": int(row[T.DEVSTAT_TX]),
                    "tx_bytes": int(row[T.DEVSTAT_TX_BYTES]),
                }
                for device, row in zip(self.host.devices, state.devstat)
            ],
            reassembly={
                "ipv4": statistics(state.fqdir[T.FQDIR_IPV4]),
                "ipv6": statistics(state.fqdir[T.FQDIR_IPV6]),
                "conntrack6": statistics(state.fqdir[T.FQDIR_CONNTRACK6]),
                "6lowpan": statistics(state.fqdir[T.FQDIR_LOWPAN]),
            },
        )

    def socket_counts(self) -> list[dict[str, int]]:
        """For each listener: datagrams received, dropped for a full queue, still queued."""
        counts = [{"received": 0, "dropped": 0, "queued": 0} for _ in self.host.listeners]
        for row, queue in zip(self.tables.socket, self.state.sockq):
            if row[T.SOCK_LISTENER] >= FIRST_OPEN:
                continue
            counts[row[T.SOCK_LISTENER]] = {
                "received": int(queue[T.SOCKQ_RECEIVED]),
                "dropped": int(queue[T.SOCKQ_DROPS]),
                "queued": int(queue[T.SOCKQ_PACKETS]),
            }
        return counts

    # --- packets sent --------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Move what the arenas hold to the lists of pending packets and datagrams."""
        misc, state = self.state.misc, self.state
        rows, used = misc[T.MISC_OUT_ROWS], misc[T.MISC_OUT_BYTES]
        if rows:
            sent = (list(self._device_rows), state.out[:rows].copy(), state.out_data[:used].copy())
            self._sent.append(sent)
        misc[T.MISC_OUT_ROWS] = misc[T.MISC_OUT_BYTES] = 0
        self._drain_taken()

    def _drain_taken(self) -> None:
        """Give what open sockets took to them, keep the rest for `take_datagrams`."""
        misc, state = self.state.misc, self.state
        count, used = misc[T.MISC_TAKEN_ROWS], misc[T.MISC_TAKEN_BYTES]
        misc[T.MISC_TAKEN_ROWS] = misc[T.MISC_TAKEN_BYTES] = 0
        if not count:
            return
        rows, data = state.taken[:count].copy(), state.taken_data[:used].copy()
        rows[:, T.TAKEN_SOCKET] = self.tables.socket[rows[:, T.TAKEN_SOCKET], T.SOCK_LISTENER]
        if self._inboxes:  # read later, when rows of devices may have moved
            own, row = rows[:, T.TAKEN_SOCKET] >= FIRST_OPEN, rows[:, T.TAKEN_DEVICE]
            index = np.where(row >= 0, self.tables.device[row, T.DEV_IFINDEX], 0)
            rows[:, T.TAKEN_DEVICE] = np.where(own, index, row)
        numbers = np.unique(rows[:, T.TAKEN_SOCKET]).tolist()
        if len(numbers) == 1 and numbers[0] in self._inboxes:
            self._inboxes[numbers[0]](rows, data)
            return
        for number in numbers:
            if number in self._inboxes:
                mine = rows[rows[:, T.TAKEN_SOCKET] == number]
                self._inboxes[number](*_gathered(mine, data))
        rest = rows[rows[:, T.TAKEN_SOCKET] < FIRST_OPEN]
        if len(rest):
            self._taken.append((list(self._device_rows), rest, data))

    def take_output_batches(self) -> dict[str, PacketBatch]:
        """Packets sent since the last call, a batch per device, in order; frames are their causes."""
        self._drain()
        parts, self._sent = self._sent, []
        by_device: dict[str, list[PacketBatch]] = {}
        for names, rows, data in parts:
            devices = rows[:, T.OUT_DEVICE]
            one = bool((devices == devices[0]).all())
            for device in devices[:1] if one else np.unique(devices):
                mine = rows if one else rows[devices == device]
                length = mine[:, T.OUT_LENGTH].astype(np.int32)
                by_device.setdefault(names[device], []).append(
                    PacketBatch(
                        data=data, offset=mine[:, T.OUT_OFFSET], length=length,
                        wire_length=mine[:, T.OUT_WIRE].astype(np.int32), time_ns=mine[:, T.OUT_TIME_NS],
                        link_type=mine[:, T.OUT_LINK].astype(np.int32),
                        device=np.full(len(mine), device, np.int32),
                        direction=np.zeros(len(mine), np.int32),
                        mark=np.zeros(len(mine), np.int64),
                    )
                )  # fmt: skip
        from ippath.batch import concatenate

        return {n: p[0] if len(p) == 1 else concatenate(p) for n, p in by_device.items()}

    def take_output(self) -> list[Sent]:
        """Each packet sent since the last call, in order."""
        self._drain()
        parts, self._sent = self._sent, []
        sent = []
        for names, rows, data in parts:
            raw = data.tobytes()
            for row in rows.tolist():
                start = row[T.OUT_OFFSET]
                packet = raw[start : start + row[T.OUT_LENGTH]]
                device = names[row[T.OUT_DEVICE]]
                sent.append(Sent(device, packet, row[T.OUT_TIME_NS], row[T.OUT_CAUSE]))
        return sent

    def take_datagrams(self) -> list[Taken]:
        """Each datagram that a socket took since the last call, in order."""
        self._drain()
        parts, self._taken = self._taken, []
        taken = []
        for names, rows, data in parts:
            raw = data.tobytes()
            for row in rows.tolist():
                start, family = row[T.TAKEN_OFFSET], row[T.TAKEN_FAMILY]
                taken.append(
                    Taken(
                        listener=row[T.TAKEN_SOCKET],
                        payload=raw[start : start + row[T.TAKEN_LENGTH]],
                        source=address_text(family, _whole(row, T.TAKEN_SRC_HI)),
                        port=row[T.TAKEN_SPORT],
                        destination=address_text(family, _whole(row, T.TAKEN_DST_HI)),
                        spec_dst=address_text(4, row[T.TAKEN_SPEC_DST]) if family == 4 else "",
                        device=names[row[T.TAKEN_DEVICE]] if row[T.TAKEN_DEVICE] >= 0 else "",
                        ttl=row[T.TAKEN_TTL],
                        tos=row[T.TAKEN_TOS],
                        cause=row[T.TAKEN_CAUSE],
                    )
                )
        return taken

    def output_link_type(self, device: str) -> int:
        """LINKTYPE_ of packets that leave by the device."""
        row = self.tables.device[self._device_rows[device]]
        if row[T.DEV_LOWPAN]:
            return LINK_IEEE802154_NOFCS
        raw = row[T.DEV_RAW_IP]
        return LINK_RAW if raw else LINK_ETHERNET

    # --- words ------------------------------------------------------------------------------------------

    def frames_of(self, batch: PacketBatch) -> np.ndarray:
        """Frame number of each packet of the batch: int64[n]."""
        frames = getattr(batch, "frames", None)
        if frames is not None:
            return np.asarray(frames, np.int64)
        return batch.first_frame + np.arange(len(batch), dtype=np.int64)

    def cached(self, key: str, make: Callable[[], Any]) -> Any:
        """What `make` makes of the host and its tables; made once, shared by all who name `key`."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def routes(self, family: int) -> Sequence[Route]:
        """The routes behind the row numbers in `Verdicts.route`."""
        return self._fibs[family].rows

    def rules(self, family: int) -> list[Rule]:
        """The rules behind the row numbers in `Verdicts.rule`."""
        return self._fibs[family].rules

    def route_texts(self, family: int) -> list[str]:
        """Each route as `ip route` prints it, by row."""
        return self.cached(f"route{family}", lambda: [route_text(r) for r in self.routes(family)])

    def route_tables(self, family: int) -> list[str]:
        """The table of each route, by row."""
        return self.cached(
            f"table{family}", lambda: [table_name(r.table) for r in self.routes(family)]
        )

    def rule_texts(self, family: int) -> list[str]:
        """Each rule as `ip rule` prints it, by row."""
        return self.cached(f"rule{family}", lambda: [rule_text(r) for r in self.rules(family)])

    def nexthop_texts(self, family: int) -> list[str]:
        """Each next hop in words ("via 10.0.0.1 dev eth0"), by row."""

        return self.cached(
            f"nexthop{family}", lambda: [nexthop_text(n) for n in self._fibs[family].nexthops]
        )

    def listener_text(self, number: int) -> str:
        """A listener in words: `udp 0.0.0.0:53`."""
        if number in self._open:
            return listener_text(self._open[number])
        return listener_text(self.host.listeners[number]) if number < FIRST_OPEN else "closed"


def new_message(family: int, protocol: int) -> np.ndarray:
    """A message that leaves all to the host: int64[SEND_COLUMNS], as a new socket would send it."""
    row = np.zeros(T.SEND_COLUMNS, np.int64)
    for column in (
        T.SEND_OIF, T.SEND_TTL, T.SEND_HOPS, T.SEND_GROUP_OIF, T.SEND_UNICAST_OIF, T.SEND_COVERAGE,
        T.SEND_ID,
    ):  # fmt: skip
        row[column] = T.NONE
    row[T.SEND_FAMILY], row[T.SEND_PROTOCOL] = family, protocol
    row[T.SEND_GROUP_TTL], row[T.SEND_PMTUDISC] = 1, T.PMTUDISC_WANT
    return row


def outgoing(
    data: np.ndarray,
    offset: np.ndarray,
    length: np.ndarray,
    message: np.ndarray,
    target: np.ndarray | None = None,
    way: np.ndarray | None = None,
) -> Handle:
    """Datagrams for `Netns.transmit`; the arrays are not copied.

    `offset` and `length` (int64[n]) find the payloads in `data` (uint8[], not empty).  `message` is
    int64[n, SEND_COLUMNS], or one for all (see `new_message`); its result and SEND_ID change.
    `target` (int64[n, TARGET_COLUMNS]) is where each goes, if the message does not say it.  `way` is
    the route that the sender found last (see `new_way`).
    """
    return outgoing_handle(
        T.Outgoing(
            data, offset, length, message.reshape(-1, T.SEND_COLUMNS),
            NO_TARGETS if target is None else target, new_way() if way is None else way,
        )
    )  # fmt: skip


def new_way() -> np.ndarray:
    """A way that nobody has found yet: int64[WAY_COLUMNS]."""
    return np.zeros(T.WAY_COLUMNS, np.int64)


def _bytes(payload: bytes) -> np.ndarray:
    """The payload as an arena, which is never empty."""
    return np.frombuffer(bytearray(payload) or bytearray(1), np.uint8)


def _one_payload(payload: bytes) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(1, np.int64), np.array([len(payload)], np.int64)


def _gathered(rows: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows with an arena of their own, so that nobody keeps what is not his."""
    parts = [data[row[T.TAKEN_OFFSET] :][: row[T.TAKEN_LENGTH]] for row in rows]
    ends = np.cumsum(rows[:, T.TAKEN_LENGTH])
    rows[:, T.TAKEN_OFFSET] = ends - rows[:, T.TAKEN_LENGTH]
    return rows, np.concatenate(parts)


def _address(text: str, six: bool) -> int:
    """The address as an int; an IPv6 socket sees IPv4 addresses in IPv6 clothes."""
    address = ipaddress.ip_address(text)
    if address.version == 6 and not six:
        raise ValueError(f"{text}: the socket speaks IPv4")
    return int(address) | (0xFFFF << 32 if six and address.version == 4 else 0)


def _whole(row: list[int], high: int) -> int:
    """The address whose halves stand in columns `high` and `high + 1`."""
    return (row[high] & _MASK) << 64 | row[high + 1] & _MASK


def _is_mapped(family: int, ip: int) -> bool:
    """Is it an IPv4 address in IPv6 clothes, ::ffff:a.b.c.d?"""
    return family == 6 and ip >> 32 == 0xFFFF


def _port_group(listener: Listener) -> tuple[int, bool]:
    """Sockets with an address of their own stand before the wildcard ones of their port."""
    mapped = _is_mapped(listener.family, listener.ip)
    return listener.port, (listener.ip & MAPPED4 if mapped else listener.ip) == 0


def _bit_list(text: str) -> int:
    """`0-1,3-127` as a 256-bit mask (the kernel's bitmap list format)."""
    bits = 0
    for part in filter(None, str(text).split(",")):
        low, _, high = part.partition("-")
        for bit in range(int(low), int(high or low) + 1):
            bits |= 1 << bit
    return bits & ((1 << 256) - 1)


def table_name(table: int) -> str:
    """`main` for 254 and so on; other tables by number."""
    return TABLE_NAMES.get(table, str(table))


def prefix_text(family: int, prefix: int, plen: int) -> str:
    """`default`, a bare host address, or `prefix/length`."""
    bits = 32 if family == 4 else 128
    if plen == 0:
        return "default"
    text = address_text(family, prefix)
    return text if plen == bits else f"{text}/{plen}"


def nexthop_text(nexthop: Nexthop) -> str:
    """`via 10.0.0.1 dev eth0`."""
    parts = []
    if nexthop.gateway is not None:
        family = nexthop.gateway_family or 4
        parts.append(f"via {address_text(family, nexthop.gateway)}")
    if nexthop.device:
        parts.append(f"dev {nexthop.device}")
    return " ".join(parts)


def route_text(route: Route) -> str:
    """A route as `ip route show table all` prints it."""
    parts = [] if route.type == "unicast" else [route.type]
    parts.append(prefix_text(route.family, route.prefix, route.plen))
    if route.src_plen:
        parts.append(f"from {prefix_text(route.family, route.src, route.src_plen)}")
    if route.tos:
        parts.append(f"tos {route.tos:#x}")
    if len(route.nexthops) == 1:
        parts.append(nexthop_text(route.nexthops[0]))
    if route.table != 254:
        parts.append(f"table {table_name(route.table)}")
    if route.prefsrc is not None:
        parts.append(f"src {address_text(route.family, route.prefsrc)}")
    if route.metric:
        parts.append(f"metric {route.metric}")
    if route.mtu:
        parts.append(f"mtu {'lock ' if route.mtu_lock else ''}{route.mtu}")
    if len(route.nexthops) > 1:
        parts += [f"nexthop {nexthop_text(n)} weight {n.weight}" for n in route.nexthops]
    return " ".join(p for p in parts if p)


def rule_text(rule: Rule) -> str:
    """A rule as `ip rule` prints it."""
    parts = [f"{rule.pref}:"]
    if rule.invert:
        parts.append("not")
    bits = 32 if rule.family == 4 else 128

    def prefix(address: int, plen: int) -> str:
        text = address_text(rule.family, address)
        return text if plen == bits else f"{text}/{plen}"

    parts.append(f"from {prefix(rule.src, rule.src_plen) if rule.src_plen else 'all'}")
    if rule.dst_plen:
        parts.append(f"to {prefix(rule.dst, rule.dst_plen)}")
    if rule.tos:
        parts.append(f"tos {rule.tos:#04x}")
    if rule.mark or rule.mask:
        mask = "" if rule.mask == 0xFFFFFFFF else f"/{rule.mask:#x}"
        parts.append(f"fwmark {rule.mark:#x}{mask}" if rule.mark else f"fwmark 0{mask}")
    if rule.iif:
        parts.append(f"iif {rule.iif}")
    if rule.oif:
        parts.append(f"oif {rule.oif}")
    if rule.uidrange:
        parts.append(f"uidrange {rule.uidrange[0]}-{rule.uidrange[1]}")
    if rule.protocol:
        parts.append(f"ipproto {ip_protocol_text(rule.protocol)}")
    for name, ports in (("sport", rule.sport), ("dport", rule.dport)):
        if ports:
            low, high = ports
            parts.append(f"{name} {low}" if low == high else f"{name} {low}-{high}")
    if rule.dscp is not None:
        parts.append(f"dscp {rule.dscp}")
    if rule.l3mdev:
        parts.append("lookup [l3mdev-table]")
    elif rule.action == "lookup":
        parts.append(f"lookup {table_name(rule.table)}")
    elif rule.action == "goto":
        parts.append(f"goto {rule.goto}")
    else:
        parts.append(rule.action)
    if rule.suppress_prefixlength >= 0:
        parts.append(f"suppress_prefixlength {rule.suppress_prefixlength}")
    if rule.suppress_ifgroup >= 0:
        parts.append(f"suppress_ifgroup {rule.suppress_ifgroup}")
    return " ".join(parts)


def listener_text(listener: Listener) -> str:
    """A socket in words: `udp 0.0.0.0:53`, `udp [::]:443 dev eth0`."""
    name = "udplite" if listener.protocol == 136 else "udp"
    ip = address_text(listener.family, listener.ip)
    where = f"[{ip}]:{listener.port}" if listener.family == 6 else f"{ip}:{listener.port}"
    device = f" dev {listener.device}" if listener.device else ""
    return f"{name} {where}{device}"
