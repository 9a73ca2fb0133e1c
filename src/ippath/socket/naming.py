"""Names of a socket: bind, connect and what they leave behind (kernel: __inet_bind, __inet6_bind,
__ip4_datagram_connect, __ip6_datagram_connect, udp_disconnect).
"""

from __future__ import annotations

import errno
from typing import Any

from ippath import tables as T
from ippath.model import Listener
from ippath.socket import constants as C
from ippath.socket.addresses import (
    MAPPED, Name, as_tuple, fail, is_group, is_link_local6, is_mapped, parse,
)  # fmt: skip
from ippath.socket.base import Base
from ippath.socket.ports import EPHEMERAL, choose, is_free


class Naming(Base):
    """`bind`, `connect`, `getsockname`, `getpeername`, `shutdown`, `close`."""

    def bind(self, address: Any) -> None:
        """Take an address and a port; port 0 is any that is free."""
        self._check_open()
        name = parse("bind", 6 if self._six else 4, address, self._scopes())
        if self._six:
            self._check_bind6(name)
        else:
            self._check_bind4(name.ip)
        if self._bound or self._peer is not None:
            fail(errno.EINVAL)
        own = name.ip
        before = self._own, self._source
        self._own = own
        four = not self._six or is_mapped(own)
        self._source = (
            0 if four and self._is_to_many4(own & 0xFFFFFFFF) or is_group(6, own) else own
        )
        if not self._take_port(name.port):
            self._own, self._source = before
            fail(errno.EADDRINUSE)
        self._bound_address = own != 0
        self._bound_port = name.port != 0
        if self._six and own and not is_mapped(own):
            self._options[C.SOL_IPV6, C.IPV6_V6ONLY] = 1
            self._renew()

    def _kind4(self, address: int) -> str:
        """Type of an IPv4 address (kernel: inet_addr_type)."""
        if address in (0, 0xFFFFFFFF):
            return "broadcast"
        if is_group(4, address):
            return "multicast"
        return self._netns.route_get(address, family=4).type

    def _is_to_many4(self, address: int) -> bool:
        return address != 0 and self._kind4(address) in ("multicast", "broadcast")

    def _check_bind4(self, address: int) -> None:
        option = self._options
        if address == 0 or option[C.SOL_IP, C.IP_FREEBIND] or option[C.SOL_IP, C.IP_TRANSPARENT]:
            return
        if self._netns.host.sysctls.get("net.ipv4.ip_nonlocal_bind", "0") != "0":
            return
        if self._kind4(address) not in ("local", "multicast", "broadcast"):
            fail(errno.EADDRNOTAVAIL)

    def _check_bind6(self, name: Name) -> None:
        if self._bound or self._peer is not None:
            fail(errno.EINVAL)
        if is_mapped(name.ip):
            if self._options[C.SOL_IPV6, C.IPV6_V6ONLY]:
                fail(errno.EINVAL)
            self._check_bind4(name.ip & 0xFFFFFFFF)
            return
        if name.ip == 0:
            return
        local_group = name.ip >> 112 & 0xFF0F in (0xFF01, 0xFF02)
        if is_link_local6(name.ip) or local_group:
            if name.scope:
                device = self._device_of(name.scope)
                if device is None:
                    fail(errno.ENODEV)
                self._device = device
            if self._device is None:
                fail(errno.EINVAL)
        if is_group(6, name.ip):
            return
        own = any(
            (one.family, one.ip) == (6, name.ip)
            for device in self._netns.host.devices
            for one in device.addresses
            if not is_link_local6(name.ip) or device.name == self._device
        )
        free = (
            self._options[C.SOL_IPV6, C.IPV6_FREEBIND]
            or self._options[C.SOL_IPV6, C.IPV6_TRANSPARENT]
        )
        if not own and not free:
            fail(errno.EADDRNOTAVAIL)

    # --- ports ----------------------------------------------------------------------------------------

    def _take_port(self, port: int) -> bool:
        """Take the port, or any for 0, and let datagrams find the socket; False if it is in use."""
        wanted = self._listener()
        wanted.port = port
        others = self._others()
        if port == 0:
            port = self._free_port(wanted, others)
            if port == 0:
                return False
        elif not is_free(wanted, others):
            return False
        self._port = port
        self._netns.open_socket(self._number, self._listener(), self._inbox)
        self._forget_messages()
        return True

    def _free_port(self, wanted: Listener, others: list[Listener]) -> int:
        sysctls = self._netns.host.sysctls
        text = sysctls.get("net.ipv4.ip_local_port_range", "")
        low, high = (int(word) for word in text.split()) if text else EPHEMERAL
        own = self._options[C.SOL_IP, C.IP_LOCAL_PORT_RANGE]
        if low <= own & 0xFFFF <= high:
            low = own & 0xFFFF
        if low <= own >> 16 & 0xFFFF <= high:
            high = own >> 16 & 0xFFFF
        reserved = _ports(sysctls.get("net.ipv4.ip_local_reserved_ports", ""))
        return choose(wanted, others, (low, high), reserved, self._netns.chance())

    def _autobind(self) -> None:
        if not self._bound and not self._take_port(0):
            fail(errno.EAGAIN)

    # --- the peer -------------------------------------------------------------------------------------

    def connect(self, address: Any) -> None:
        """Have one peer: datagrams of others are refused, `send` goes to it."""
        self._check_open()
        name = parse("connect", 6 if self._six else 4, address, self._scopes())
        error = self._connect(name)
        if error:
            fail(error)

    def connect_ex(self, address: Any) -> int:
        """As `connect`; returns the errno."""
        self._check_open()
        return self._connect(parse("connect_ex", 6 if self._six else 4, address, self._scopes()))

    def disconnect(self) -> None:
        """Give the peer up (connect with AF_UNSPEC); what was not bound by `bind` goes, too."""
        self._check_open()
        self._peer, self._device, self._next_id = None, None, None
        self._way[T.WAY_OWNED] = 0
        if not self._bound_address:
            self._own = self._source = 0
        self._forget_messages()
        if not self._bound_port and self._bound:
            self._port = 0
            self._netns.close_socket(self._number)
            self._netns.hold_groups(self._number, self._members)
        elif self._bound:
            self._renew(moved=True)

    def _connect(self, name: Name) -> int:
        """Connect; an errno or 0."""
        self._autobind()
        if self._six:
            error, name = self._target6(name)
            if error:
                return error
        error, _ = self._ask_route(name)
        if error:
            return error
        four = not self._six or is_mapped(name.ip)
        if name.ip & 0xFFFFFFFF == 0 and four:
            name = name._replace(ip=self._route_destination(name.ip))
        source = self._route_source(4 if four else 6)
        if self._six and four:
            source |= MAPPED
        moved = self._own == 0
        self._source = self._source or source
        self._own = self._own or source
        self._peer = name
        self._way[T.WAY_OWNED] = self._netns.switches["socket_route"] == "on"
        self._next_id = self._netns.chance().randrange(1 << 16)
        self._renew(moved=moved)
        return 0

    def _route_destination(self, ip: int) -> int:
        """What 0.0.0.0 stands for on the way asked for last."""
        found = int(self._netns.state.flow[T.FLOW_OUTPUT, T.FLOW_DST_LO])
        return found | (MAPPED if self._six else 0)

    def _target6(self, name: Name) -> tuple[int, Name]:
        """Where an IPv6 socket connects to."""
        if name.ip == 0:
            name = name._replace(ip=0x7F000001 | MAPPED if is_mapped(self._own) else 1)
        if is_mapped(name.ip):
            if self._options[C.SOL_IPV6, C.IPV6_V6ONLY]:
                return errno.ENETUNREACH, name
            return 0, name
        if is_link_local6(name.ip):
            if name.scope:
                device = self._device_of(name.scope)
                if device is None or (self._device and self._device != device):
                    return errno.EINVAL, name
                self._device = device
            if self._device is None and self._group_device6 is None:
                return errno.EINVAL, name
        else:
            name = name._replace(scope=0)
        if is_mapped(self._source):
            return errno.EAFNOSUPPORT, name
        return 0, name

    # --- what they are --------------------------------------------------------------------------------

    def getsockname(self) -> Any:
        """Own address."""
        self._check_open()
        own = self._source or self._own
        if self._six:
            scope = self._index_of(self._device) if is_link_local6(own) else 0
            return as_tuple(6, Name(own, self._port, 0, scope))
        return as_tuple(4, Name(own, self._port))

    def getpeername(self) -> Any:
        """The peer's address; ENOTCONN without one."""
        self._check_open()
        if self._peer is None or self._peer.port == 0:
            fail(errno.ENOTCONN)
        if not self._six:
            return as_tuple(4, self._peer)
        scope = self._index_of(self._device) if is_link_local6(self._peer.ip) else 0
        return as_tuple(6, self._peer._replace(flowinfo=0, scope=scope))

    def shutdown(self, how: int) -> None:
        """No more reading, sending, or both."""
        self._check_open()
        if not 0 <= how <= 2:
            fail(errno.EINVAL)
        self._shut |= how + 1
        self._forget_messages()
        if self._peer is None:
            fail(errno.ENOTCONN)

    def _close(self) -> None:
        self._forget_messages()
        self._netns.close_socket(self._number)
        self._port = 0


def _ports(text: str) -> set[int]:
    """`53,100-102` as a set."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return found
