"""The host as people describe it: devices, addresses, routes, rules, neighbours, sockets, sysctls.

Plain data, filled by `ippath.config`, changed with the kernel's semantics by `ippath.fib.control`,
and turned into the arrays of the packet path by `ippath.netns`.  Addresses are Python ints
(32 or 128 bits), families are 4 or 6, MAC addresses 48-bit ints.
"""

from __future__ import annotations

from dataclasses import dataclass, field

TABLE_DEFAULT, TABLE_MAIN, TABLE_LOCAL = 253, 254, 255

# scopes (rtnetlink): larger is nearer
SCOPES = {"global": 0, "universe": 0, "site": 200, "link": 253, "host": 254, "nowhere": 255}
SCOPE_UNIVERSE, SCOPE_SITE, SCOPE_LINK, SCOPE_HOST, SCOPE_NOWHERE = 0, 200, 253, 254, 255

# route types (rtnetlink RTN_*)
ROUTE_TYPES = {
    "unspec": 0, "unicast": 1, "local": 2, "broadcast": 3, "anycast": 4, "multicast": 5,
    "blackhole": 6, "unreachable": 7, "prohibit": 8, "throw": 9,
}  # fmt: skip

LEAST_MTU6 = 1280  # bytes (RFC 8200 section 5)

PROTOCOLS = {"unspec": 0, "redirect": 1, "kernel": 2, "boot": 3, "static": 4, "ra": 9, "dhcp": 16}


@dataclass
class Address:
    """One address of a device (`ip addr`)."""

    family: int
    ip: int
    plen: int
    peer: int | None = None  # the other end; the connected prefix is then computed from it
    broadcast: int | None = None
    scope: int = SCOPE_UNIVERSE
    label: str = ""
    metric: int = 0
    secondary: bool = False
    noprefixroute: bool = False
    tentative: bool = False
    deprecated: bool = False


@dataclass
class Device:
    """One network device (`ip link`)."""

    name: str
    ifindex: int
    kind: str = (
        "ether"  # ether, loopback, vlan, veth, tun, tap, dummy, bridge, vrf, lowpan, none (raw IP)
    )
    mac: int | None = None  # None: unknown, every unicast frame counts as ours
    mtu: int = 1500
    up: bool = True
    carrier: bool = True
    master: str | None = None
    group: int = 0
    parent: str | None = None  # VLAN devices
    vlan_id: int = 0
    vlan_protocol: int = 0x8100
    point_to_point: bool = False
    noarp: bool = False
    vrf_table: int = 0
    pan_id: int | None = None  # 6LoWPAN devices, whose `mac` is an EUI-64
    short_address: int | None = None
    addresses: list[Address] = field(default_factory=list)
    multicast: set[tuple[int, int]] = field(default_factory=set)  # joined groups (family, address)

    @property
    def raw_ip(self) -> bool:
        """Whether frames have no link header and no link-level addresses."""
        return self.kind in ("tun", "none", "ppp")

    @property
    def speaks6(self) -> bool:
        """Whether the MTU is large enough for IPv6 (kernel: addrconf_notify; RFC 8200 section 5)."""
        return self.mtu >= LEAST_MTU6

    @property
    def asks_neighbours(self) -> bool:
        """Whether link-level addresses are asked for, and solicited-node groups joined (not NOARP)."""
        return not (self.raw_ip or self.kind in ("loopback", "vrf") or self.noarp)


@dataclass
class Nexthop:
    """One next hop of a route."""

    device: str | None = None
    gateway: int | None = None
    gateway_family: int = 0
    weight: int = 1
    onlink: bool = False
    scope: int = SCOPE_NOWHERE  # filled when the route is added (kernel: nhc_scope)
    dead: bool = False
    linkdown: bool = False
    blackhole: bool = False  # of an object of `ip nexthop`


@dataclass
class NexthopObject:
    """One object of `ip nexthop`: a next hop, a blackhole, or a group of such objects."""

    id: int
    family: int = 4  # 0: a group
    hop: Nexthop | None = None  # None: a group
    fdb: bool = False  # for bridges and VXLAN, not for routes
    members: list[tuple[int, int]] = field(default_factory=list)  # of a group: id and weight
    resilient: bool = False  # a group that changes the ways of as few flows as it can
    buckets: list[int] = field(default_factory=list)  # of a resilient group: the member of each
    idle_timer: float = -1  # seconds; -1: as before, or 120
    unbalanced_timer: float = -1  # seconds; -1: as before, or 0
    protocol: str = "unspec"
    line: str = ""


@dataclass
class Route:
    """One route (`ip route`)."""

    family: int
    prefix: int
    plen: int
    table: int = TABLE_MAIN
    type: str = "unicast"
    src: int = 0  # IPv6 source-specific routing
    src_plen: int = 0
    tos: int = 0
    metric: int = 0
    scope: int = SCOPE_UNIVERSE
    protocol: str = "boot"
    prefsrc: int | None = None
    nexthops: list[Nexthop] = field(default_factory=list)
    mtu: int = 0
    mtu_lock: bool = False
    hoplimit: int = 0
    preference: str = "medium"  # IPv6 router preference
    nhid: int = 0  # the object of `ip nexthop` that `nexthops` follow; 0: none
    group: bool = False  # that object is a group
    line: str = ""  # as written, for messages and explanations


@dataclass
class Rule:
    """One policy rule (`ip rule`)."""

    family: int
    pref: int
    action: str = "lookup"  # lookup, goto, nop, blackhole, unreachable, prohibit
    table: int = 0
    goto: int = 0
    invert: bool = False
    iif: str | None = None
    oif: str | None = None
    src: int = 0
    src_plen: int = 0
    dst: int = 0
    dst_plen: int = 0
    tos: int = 0
    dscp: int | None = None
    mark: int = 0
    mask: int = 0
    protocol: int = 0
    sport: tuple[int, int] | None = None
    dport: tuple[int, int] | None = None
    uidrange: tuple[int, int] | None = None
    suppress_prefixlength: int = -1
    suppress_ifgroup: int = -1
    l3mdev: bool = False
    by_kernel: bool = False  # one of the first three; a rule that is added never equals it
    line: str = ""


@dataclass
class Neighbour:
    """One neighbour entry (`ip neigh`)."""

    family: int
    ip: int
    device: str
    mac: int | None = None
    state: str = "permanent"
    proxy: bool = False


@dataclass
class Listener:
    """One UDP socket that the host has open (`listen udp …`)."""

    family: int
    ip: int  # 0: any
    port: int
    device: str | None = None
    peer: int | None = None
    peer_port: int = 0
    v6only: bool = False
    rcvbuf: int = 212992  # as stored, bytes (kernel: sk_rcvbuf)
    reader: str = "fast"  # fast: read at once; none: never read; N: N datagrams a second
    reuseaddr: bool = True
    reuseport: bool = False
    no_check6_rx: bool = False
    protocol: int = 17  # 136: UDP-Lite
    line: str = ""
    # of sockets that are read by calls (reader "calls", see ippath.socket)
    groups4: bool | None = None  # takes IPv4 groups that others joined; None: as a new socket does
    groups6: bool = True
    members: list[tuple[int, str, int]] = field(default_factory=list)  # family, device, group
    deaf4: bool = False  # reports of path MTUs do not count for it
    deaf6: bool = False
    coverage: int | None = None  # UDP-Lite: least bytes that a checksum must cover; 0: all

    @property
    def takes_groups4(self) -> bool:
        """Whether it takes IPv4 groups that others joined; new IPv6 sockets do not."""
        return self.family == 4 if self.groups4 is None else self.groups4


@dataclass
class Host:
    """Everything that decides what happens to a packet."""

    devices: list[Device] = field(default_factory=list)  # [0] is always lo
    routes: list[Route] = field(default_factory=list)  # in insertion order, automatic ones too
    rules: list[Rule] = field(default_factory=list)  # in insertion order, defaults too
    nexthops: dict[int, NexthopObject] = field(default_factory=dict)
    last_nexthop: int = 0  # the number that was last given to an object without one
    neighbours: list[Neighbour] = field(default_factory=list)
    listeners: list[Listener] = field(default_factory=list)
    protocols: set[tuple[int, int]] = field(default_factory=set)  # extra handlers (family, number)
    sysctls: dict[str, str] = field(default_factory=dict)  # "net.ipv4.ip_forward" -> "1"
    switches: dict[str, str] = field(default_factory=dict)
    custom_rules4: bool = False  # a rule was ever added or deleted (kernel: fib_has_custom_rules)
    custom_rules6: bool = False
    user_local_routes: bool = False  # kernel: fib_has_custom_local_routes
    contexts: dict[int, tuple[int, int]] = field(default_factory=dict)  # 6LoWPAN: number -> prefix
    device_map: dict[str, str] = field(default_factory=dict)  # capture interface -> device
    source: str = ""  # where the description came from

    def device(self, name: str) -> Device | None:
        """The device of that name, or None."""
        return next((d for d in self.devices if d.name == name), None)
