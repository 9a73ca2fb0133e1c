"""What a socket remembers, and what it asks its host."""

from __future__ import annotations

import errno
import struct
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from ippath import tables as T
from ippath.fib.build import halves
from ippath.model import Listener
from ippath.netns import Netns, new_message, new_way, outgoing
from ippath.socket import constants as C
from ippath.socket.addresses import MAPPED, Name, fail, is_mapped
from ippath.socket.errors import QueuedError
from ippath.socket.option_table import DEFAULTS

if TYPE_CHECKING:
    from ippath.socket.arrived import Arrived
    from ippath.socket.ready import Ready

INT = struct.Struct("=i")
DEFAULT_BUFFER = 212992  # net.core.rmem_default, wmem_default


class Base:
    """The state of a UDP socket, with the questions that all its parts ask."""

    def __init__(self, netns: Netns, family: int, proto: int):
        self._netns = netns
        self.family, self.type, self.proto = family, C.SOCK_DGRAM, proto
        self._six = family == C.AF_INET6
        self._protocol = proto or C.IPPROTO_UDP
        self._closed = False
        self._timeout: float | None = None
        self._options = dict(DEFAULTS)
        if self._six:
            self._options[C.SOL_IP, C.IP_MULTICAST_ALL] = 0
        self._rcvbuf = self._sndbuf = DEFAULT_BUFFER
        self._mtu6 = 0
        self._send_coverage: int | None = None
        self._receive_coverage: int | None = None
        # names: `_source` sends, `_own` receives; a group that is bound to never sends
        self._number = netns.new_number()
        self._port = 0
        self._own = self._source = 0
        self._bound_address = self._bound_port = False  # by `bind`, not by the way
        self._device: str | None = None
        self._peer: Name | None = None
        self._members: list[tuple[int, str, int]] = []
        self._group_device: str | None = None
        self._group_device6: str | None = None
        self._group_source = 0
        self._unicast_device: str | None = None
        self._unicast_device6: str | None = None
        self._sticky_source = 0
        self._sticky_device: str | None = None
        self._error = 0
        self._errors: deque[QueuedError] = deque()
        self._queue: deque[Arrived] = deque()  # see `_arrived`
        self._chunks: deque[tuple[np.ndarray, np.ndarray]] = (
            deque()
        )  # behind it, not yet taken apart
        self._reading: deque[Arrived] = deque()  # what the reader took off the queue at once
        self._deficit = 0
        self._shut = 0
        self._message: np.ndarray | None = None  # what all messages begin with
        self._described = 0  # the version of the host that it is for
        self._ready: dict[Any, Ready | None] = {}  # by address, see `ippath.socket.ready`
        self._way = new_way()  # that it found last
        self._next_id: int | None = None  # IPv4 identification while connected
        self._wire = 0  # bytes charged for what devices have not sent yet

    # --- the host -------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            fail(errno.EBADF)

    @property
    def _bound(self) -> bool:
        return self._port != 0

    def _now(self) -> int:
        return int(self._netns.state.misc[T.MISC_NOW_NS])

    def _scopes(self) -> dict[str, int]:
        """ifindex of each device of the host."""
        return self._netns.cached(
            "scopes", lambda: {d.name: d.ifindex for d in self._netns.host.devices}
        )

    def _device_of(self, index: int) -> str | None:
        return next((name for name, i in self._scopes().items() if i == index), None)

    def _index_of(self, name: str | None) -> int:
        if name is None:
            return 0
        known = self._scopes().get(name)
        return (
            int(name.removeprefix("if")) if known is None and name[2:].isdecimal() else known or 0
        )

    def _device_bytes(self) -> bytes:
        return self._device.encode() + b"\0" if self._device else b""

    def _device_with4(self, address: int) -> str | None:
        """The device that has this IPv4 address (kernel: ip_dev_find)."""
        for device in self._netns.host.devices:
            for one in device.addresses:
                if one.family == 4 and one.ip == address:
                    return device.name
        answer = self._netns.route_get(address, family=4)
        return answer.route.nexthops[0].device if answer.type == "local" and answer.route else None

    def _device_toward(self, family: int, address: int) -> str | None:
        answer = self._netns.route_get(address, family=family)
        return answer.device if not answer.error else None

    def _default_ttl(self) -> int:
        return int(self._netns.host.sysctls.get("net.ipv4.ip_default_ttl", 64))

    def _default_hops(self) -> int:
        return int(self._netns.host.sysctls.get("net.ipv6.conf.default.hop_limit", 64))

    # --- how datagrams find it ------------------------------------------------------------------------

    def _listener(self) -> Listener:
        """The socket as the host's tables know it."""
        options = self._options
        return Listener(
            6 if self._six else 4,
            self._own,
            self._port,
            device=self._device,
            peer=self._peer.ip if self._peer else None,
            peer_port=self._peer.port if self._peer else 0,
            v6only=bool(self._six and options[C.SOL_IPV6, C.IPV6_V6ONLY]),
            rcvbuf=self._rcvbuf,
            reader="calls",
            reuseaddr=bool(options[C.SOL_SOCKET, C.SO_REUSEADDR]),
            reuseport=bool(options[C.SOL_SOCKET, C.SO_REUSEPORT]),
            no_check6_rx=bool(options[C.SOL_UDP, C.UDP_NO_CHECK6_RX]),
            protocol=self._protocol,
            groups4=bool(options[C.SOL_IP, C.IP_MULTICAST_ALL]),
            groups6=bool(options[C.SOL_IPV6, C.IPV6_MULTICAST_ALL]),
            members=list(self._members),
            coverage=self._receive_coverage,
            deaf4=options[C.SOL_IP, C.IP_MTU_DISCOVER] >= C.IP_PMTUDISC_INTERFACE,
            deaf6=options[C.SOL_IPV6, C.IPV6_MTU_DISCOVER] >= C.IP_PMTUDISC_INTERFACE,
        )

    def _renew(self, *, moved: bool = False) -> None:
        """Tell the host of changes; `moved`: datagrams find it elsewhere."""
        self._netns.change_socket(self._number, self._listener(), moved=moved)
        self._forget_messages()

    def _renew_members(self) -> None:
        """The host hears groups as long as any socket, bound or not, is a member."""
        self._netns.hold_groups(self._number, self._members)
        if self._bound:
            self._renew()

    def _bind_device(self, name: str | None) -> None:
        self._device = name
        self._forget_messages()
        if self._bound:
            self._renew(moved=True)

    def _others(self) -> list[Listener]:
        return [one for number, one in self._netns.open_listeners() if number != self._number]

    # --- messages -------------------------------------------------------------------------------------

    def _forget_messages(self) -> None:
        """Something changed that messages depend on."""
        self._message = None
        self._ready.clear()

    def _template(self) -> np.ndarray:
        """What every message of this socket begins with (kernel: ipcm_init_sk, ipcm6_init_sk)."""
        if self._message is not None and self._described == self._netns.version:
            return self._message
        row = new_message(6 if self._six else 4, self._protocol)
        option = self._options
        row[T.SEND_SPORT] = self._port
        row[T.SEND_OIF] = self._row_of(self._device)
        row[T.SEND_MARK] = option[C.SOL_SOCKET, C.SO_MARK] & 0xFFFFFFFF
        if option[C.SOL_SOCKET, C.SO_BROADCAST]:
            row[T.SEND_FLAGS] |= T.SENDS_BROADCAST
        row[T.SEND_SEGMENT] = option[C.SOL_UDP, C.UDP_SEGMENT]
        if self._protocol == C.IPPROTO_UDPLITE and self._send_coverage is not None:
            row[T.SEND_COVERAGE] = self._send_coverage
        self._message, self._described = row, self._netns.version
        return row

    def _family_template(self, family: int) -> np.ndarray:
        """A message for a destination of this family, with the options that it has."""
        row = self._template().copy()
        option = self._options
        row[T.SEND_FAMILY] = family
        if family == 4:
            row[T.SEND_TOS] = option[C.SOL_IP, C.IP_TOS]
            row[T.SEND_HOPS] = option[C.SOL_IP, C.IP_TTL]
            row[T.SEND_PMTUDISC] = option[C.SOL_IP, C.IP_MTU_DISCOVER]
            row[T.SEND_GROUP_TTL] = option[C.SOL_IP, C.IP_MULTICAST_TTL]
            row[T.SEND_GROUP_OIF] = self._row_of(self._group_device)
            row[T.SEND_GROUP_SRC] = self._group_source
            row[T.SEND_UNICAST_OIF] = self._row_of(self._unicast_device)
            if not option[C.SOL_IP, C.IP_MULTICAST_LOOP]:
                row[T.SEND_FLAGS] |= T.SENDS_QUIET
            if option[C.SOL_SOCKET, C.SO_NO_CHECK]:
                row[T.SEND_FLAGS] |= T.SENDS_UNSUMMED
            return row
        row[T.SEND_TOS] = option[C.SOL_IPV6, C.IPV6_TCLASS]
        row[T.SEND_HOPS] = option[C.SOL_IPV6, C.IPV6_UNICAST_HOPS]
        row[T.SEND_PMTUDISC] = option[C.SOL_IPV6, C.IPV6_MTU_DISCOVER]
        row[T.SEND_GROUP_TTL] = option[C.SOL_IPV6, C.IPV6_MULTICAST_HOPS]
        row[T.SEND_GROUP_OIF] = self._row_of(self._group_device6)
        row[T.SEND_UNICAST_OIF] = self._row_of(self._unicast_device6)
        row[T.SEND_MTU] = self._mtu6
        if row[T.SEND_OIF] == T.NONE:
            row[T.SEND_OIF] = self._row_of(self._sticky_device)
        for level, name, flag in (
            (C.SOL_UDP, C.UDP_NO_CHECK6_TX, T.SENDS_UNSUMMED),
            (C.SOL_IPV6, C.IPV6_DONTFRAG, T.SENDS_WHOLE),
        ):
            if option[level, name]:
                row[T.SEND_FLAGS] |= flag
        if not option[C.SOL_IPV6, C.IPV6_MULTICAST_LOOP]:
            row[T.SEND_FLAGS] |= T.SENDS_QUIET
        return row

    def _row_of(self, device: str | None) -> int:
        return T.NONE if device is None else self._netns.device_row(device)

    def _ask_route(self, target: Name) -> tuple[int, np.ndarray]:
        """Ask for the way to an address without sending: an errno or 0, and the message that asked.

        The OUTPUT row of the flow has the source then.
        """
        family = 4 if not self._six or is_mapped(target.ip) else 6
        row = self._family_template(family)
        mask = 0xFFFFFFFF if family == 4 else (1 << 128) - 1
        row[T.SEND_SRC_HI : T.SEND_SRC_LO + 1] = halves(self._source & mask)
        row[T.SEND_DST_HI : T.SEND_DST_LO + 1] = halves(target.ip & mask)
        row[T.SEND_DPORT] = target.port
        row[T.SEND_FLAGS] |= T.SENDS_PROBE
        if target.scope and row[T.SEND_OIF] == T.NONE:
            row[T.SEND_OIF] = self._row_of(self._device_of(target.scope))
        nothing = np.zeros(1, np.int64)
        self._netns.transmit(outgoing(_NOTHING, nothing, nothing, row))
        return int(row[T.SEND_ERROR]), row

    def _route_source(self, family: int) -> int:
        """The source that the route asked for last would give."""
        flow = self._netns.state.flow[T.FLOW_OUTPUT]
        if family == 4:
            return int(flow[T.FLOW_SRC_LO])
        return (int(flow[T.FLOW_SRC_HI]) & _MASK) << 64 | int(flow[T.FLOW_SRC_LO]) & _MASK

    def _probe_mtu(self) -> int:
        assert self._peer is not None
        error, row = self._ask_route(self._peer)
        if error:
            fail(errno.ENOTCONN)
        return int(row[T.SEND_INFO])

    # --- memory ---------------------------------------------------------------------------------------

    def _charged(self) -> int:
        """Bytes charged for what is queued (kernel: sk_rmem_alloc)."""
        queued = int(self._netns.queue_of(self._number)[T.SOCKQ_BYTES]) if self._bound else 0
        return queued + sum(e.charge for e in self._errors)

    def _drops(self) -> int:
        return int(self._netns.queue_of(self._number)[T.SOCKQ_DROPS]) if self._bound else 0

    def _unsent(self) -> int:
        return self._wire

    def has_error(self) -> bool:
        """Whether the next call will fail with what the network said."""
        return self._error != 0

    def charge_wire(self, size: int) -> None:
        """A slow link holds so many more bytes of what this socket sent, or fewer."""
        self._wire += size

    def _push_cork(self) -> None:
        raise NotImplementedError

    def _inbox(self, rows: np.ndarray, data: np.ndarray) -> None:
        raise NotImplementedError

    def _dressed(self, family: int, name: Name) -> Name:
        """An address of a packet as this socket shows it."""
        if self._six and family == 4:
            return Name(name.ip | MAPPED, name.port)
        return name


_MASK = (1 << 64) - 1
_NOTHING = np.zeros(1, np.uint8)
