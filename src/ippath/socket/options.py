"""Socket options: which there are, their values and limits (kernel: sk_setsockopt, do_ip_setsockopt,
do_ipv6_setsockopt, udp_lib_setsockopt).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from typing import Any

from ippath.socket import constants as C
from ippath.socket.addresses import as_bytes, fail, is_group
from ippath.socket.base import INT, Base
from ippath.socket.option_table import LARGEST, SEEN_BY_RECEIVE, TABLES, Option

_NEED_A_BYTE = (C.IP_MULTICAST_TTL, C.IP_MULTICAST_LOOP, C.IP_MULTICAST_ALL, C.IP_TTL)
LARGEST_BUFFER = 212992  # net.core.rmem_max, wmem_max
LEAST_RCVBUF, LEAST_SNDBUF = 2304, 4608  # SOCK_MIN_RCVBUF, SOCK_MIN_SNDBUF
LEAST_MTU6 = 1280


class Options(Base):
    """`setsockopt` and `getsockopt`."""

    def setsockopt(self, level: int, optname: int, value: Any, optlen: int | None = None) -> None:
        """Set an option to an int or bytes, or to null bytes of length `optlen`."""
        self._check_open()
        if value is None:
            if optlen is None:
                raise TypeError("an integer is required (got type NoneType)")
            fail(errno.EFAULT if optlen else errno.EINVAL)
        elif isinstance(value, int) and -LARGEST - 1 <= value <= LARGEST:
            raw = INT.pack(value)
        else:
            raw = as_bytes(value)
        level = self._level(level, errno.ENOPROTOOPT)
        self._forget_messages()
        special = _SETTERS.get((level, optname))
        if special is not None:
            special(self, raw)
            return
        option = TABLES[level].get(optname)
        if option is None:
            fail(errno.ENOPROTOOPT)
        self._set(level, optname, option, self._value_in(level, raw, optname))

    def getsockopt(self, level: int, optname: int, buflen: int = 0) -> int | bytes:
        """The value of an option: an int, or with `buflen` the bytes."""
        self._check_open()
        if buflen < 0 or buflen > 1024:
            raise OSError("getsockopt buflen out of range")
        level = self._level(level, errno.ENOPROTOOPT if self._six else errno.EOPNOTSUPP)
        special = _GETTERS.get((level, optname))
        if special is not None:
            value = special(self)
        elif optname in TABLES[level]:
            value = self._options[level, optname]
        else:
            fail(errno.ENOPROTOOPT)
        if isinstance(value, bytes):
            return value[:buflen] if buflen else INT.unpack(value[:4].ljust(4, b"\0"))[0]
        if level == C.SOL_IP and 0 < buflen < 4 and 0 <= value <= 0xFF:
            return bytes([value])
        return INT.pack(value)[:buflen] if buflen else value

    def _level(self, level: int, otherwise: int) -> int:
        """The table of options behind a level; raises `otherwise` where the family has none."""
        if level == C.SOL_UDPLITE:
            level = C.SOL_UDP
        if level not in TABLES or (level == C.SOL_IPV6 and not self._six):
            fail(otherwise)
        return level

    def _value_in(self, level: int, raw: bytes, name: int = 0) -> int:
        if len(raw) >= 4:
            return int(INT.unpack(raw[:4])[0])
        if level == C.SOL_IP:
            if not raw and name in _NEED_A_BYTE:
                fail(errno.EINVAL)
            return raw[0] if raw else 0
        fail(errno.EINVAL)

    def _set(self, level: int, name: int, option: Option, value: int) -> None:
        if option.flag:
            value = int(value != 0)
        if option.byte:
            value &= 0xFF
        if not option.least <= value <= option.most:
            fail(errno.EINVAL)
        if value == -1 and option.minus is not None:
            value = option.minus
        self._options[level, name] = value
        self._forget_messages()
        if (level, name) in SEEN_BY_RECEIVE and self._bound:
            self._renew()

    def _opt(self, level: int, name: int) -> int:
        return self._options[level, name]

    # --- options that are more than a number ----------------------------------------------------------

    def _set_ttl(self, raw: bytes) -> None:
        value = self._value_in(C.SOL_IP, raw)
        if value == 0:
            fail(errno.EINVAL)
        self._set(C.SOL_IP, C.IP_TTL, TABLES[C.SOL_IP][C.IP_TTL], value)

    def _set_timestamp(self, name: int, other: int, raw: bytes) -> None:
        """One of SO_TIMESTAMP and SO_TIMESTAMPNS: the later counts."""
        value = int(self._value_in(C.SOL_SOCKET, raw) != 0)
        self._options[C.SOL_SOCKET, other] = 0
        self._options[C.SOL_SOCKET, name] = value

    def _set_error_queue(self, level: int, name: int, raw: bytes) -> None:
        value = int(self._value_in(level, raw) != 0)
        self._options[level, name] = value
        if not value:
            self._errors.clear()

    def _set_v6only(self, raw: bytes) -> None:
        value = self._value_in(C.SOL_IPV6, raw)
        if self._bound:
            fail(errno.EINVAL)
        self._options[C.SOL_IPV6, C.IPV6_V6ONLY] = int(value != 0)

    def _set_mtu6(self, raw: bytes) -> None:
        value = self._value_in(C.SOL_IPV6, raw)
        if value and value < LEAST_MTU6:
            fail(errno.EINVAL)
        self._mtu6 = value
        self._forget_messages()

    def _set_buffer(self, name: int, sysctl: str | None, raw: bytes) -> None:
        """SO_RCVBUF and SO_SNDBUF, as large as the `sysctl` lets it be; without one any size."""
        value = self._value_in(C.SOL_SOCKET, raw)
        if sysctl is None:
            value = max(value, 0)
        else:
            most = int(self._netns.host.sysctls.get(sysctl, LARGEST_BUFFER))
            value = min(value & 0xFFFFFFFF, most)
        if name == C.SO_RCVBUF:
            self._rcvbuf = max(min(value, LARGEST // 2) * 2, LEAST_RCVBUF)
            if self._bound:
                self._renew()
        else:
            self._sndbuf = max(min(value, LARGEST // 2) * 2, LEAST_SNDBUF)

    def _set_device(self, raw: bytes) -> None:
        name = raw[:15].split(b"\0")[0].decode("latin-1")
        if name and name not in self._scopes():
            fail(errno.ENODEV)
        self._bind_device(name or None)

    def _set_device_index(self, raw: bytes) -> None:
        index = self._value_in(C.SOL_SOCKET, raw)
        if index < 0:
            fail(errno.EINVAL)
        self._bind_device((self._device_of(index) or f"if{index}") if index else None)

    def _set_least(self, raw: bytes) -> None:
        """SO_RCVLOWAT, which UDP does not look at."""
        value = self._value_in(C.SOL_SOCKET, raw)
        self._options[C.SOL_SOCKET, C.SO_RCVLOWAT] = LARGEST if value < 0 else value or 1

    def _set_port_range(self, raw: bytes) -> None:
        value = self._value_in(C.SOL_IP, raw)
        low, high = value & 0xFFFF, value >> 16 & 0xFFFF
        if low and high and low > high:
            fail(errno.EINVAL)
        self._options[C.SOL_IP, C.IP_LOCAL_PORT_RANGE] = value

    def _set_cork(self, raw: bytes) -> None:
        value = self._value_in(C.SOL_UDP, raw)
        self._options[C.SOL_UDP, C.UDP_CORK] = int(value != 0)
        if not value:
            self._push_cork()

    def _set_coverage(self, name: int, raw: bytes) -> None:
        """UDPLITE_*_CSCOV: 0 is all, else at least the header's 8 bytes."""
        value = self._value_in(C.SOL_UDP, raw)
        if self.proto != C.IPPROTO_UDPLITE:
            fail(errno.ENOPROTOOPT)
        value = 8 if value != 0 and value < 8 else min(value, 0xFFFF)
        if name == C.UDPLITE_SEND_CSCOV:
            self._send_coverage = value
            self._forget_messages()
        else:
            self._receive_coverage = value
            if self._bound:
                self._renew()

    def _set_group_device4(self, raw: bytes) -> None:
        """IP_MULTICAST_IF: an address of a device, or struct ip_mreqn."""
        address, index = 0, 0
        if len(raw) >= 12:
            address, index = int.from_bytes(raw[4:8]), INT.unpack(raw[8:12])[0]
        elif len(raw) >= 8:
            address = int.from_bytes(raw[4:8])
        elif len(raw) >= 4:
            address = int.from_bytes(raw[:4])
        else:
            fail(errno.EINVAL)
        if index:
            name = self._device_of(index)
        elif address:
            name = self._device_with4(address)
        else:
            self._group_device, self._group_source = None, 0
            self._forget_messages()
            return
        if name is None or (self._device and self._device != name):
            fail(errno.EADDRNOTAVAIL if name is None else errno.EINVAL)
        self._group_device, self._group_source = name, address
        self._forget_messages()

    def _set_group_device6(self, raw: bytes) -> None:
        index = self._value_in(C.SOL_IPV6, raw)
        name = self._device_of(index) if index else None
        if index and name is None:
            fail(errno.ENODEV)
        if index and self._device and self._device != name:
            fail(errno.EINVAL)
        self._group_device6 = name
        self._forget_messages()

    def _set_unicast_device(self, level: int, raw: bytes) -> None:
        """IP_UNICAST_IF and IPV6_UNICAST_IF: an ifindex in network byte order."""
        if len(raw) != 4:
            fail(errno.EINVAL)
        index = int.from_bytes(raw)
        name = self._device_of(index) if index else None
        if index and name is None:
            fail(errno.EADDRNOTAVAIL)
        if level == C.SOL_IP:
            self._unicast_device = name
        else:
            self._unicast_device6 = name
        self._forget_messages()

    def _membership4(self, join: bool, raw: bytes) -> None:
        """IP_ADD_MEMBERSHIP and IP_DROP_MEMBERSHIP: struct ip_mreq or ip_mreqn."""
        if len(raw) < 8:
            fail(errno.EINVAL)
        group, address = int.from_bytes(raw[:4]), int.from_bytes(raw[4:8])
        index = INT.unpack(raw[8:12])[0] if len(raw) >= 12 else 0
        if not is_group(4, group):
            fail(errno.EINVAL if join else errno.EADDRNOTAVAIL)
        if index:
            device = self._device_of(index)
        elif address:
            device = self._device_with4(address)
        else:
            device = self._device_toward(4, group)
        self._membership(join, 4, device, group)

    def _membership6(self, join: bool, raw: bytes) -> None:
        """IPV6_JOIN_GROUP and IPV6_LEAVE_GROUP: struct ipv6_mreq."""
        if len(raw) < 20:
            fail(errno.EINVAL)
        group, index = int.from_bytes(raw[:16]), INT.unpack(raw[16:20])[0]
        if not is_group(6, group):
            fail(errno.EINVAL)
        device = self._device_of(index) if index else self._device_toward(6, group)
        self._membership(join, 6, device, group)

    def _membership(self, join: bool, family: int, device: str | None, group: int) -> None:
        if device is None:
            fail(errno.ENODEV if join or family == 6 else errno.EADDRNOTAVAIL)
        entry = (family, device, group)
        if join:
            if entry in self._members:
                fail(errno.EADDRINUSE)
            self._members.append(entry)
        else:
            if entry not in self._members:
                fail(errno.EADDRNOTAVAIL)
            self._members.remove(entry)
        self._renew_members()

    def _set_packet_info6(self, raw: bytes) -> None:
        """IPV6_PKTINFO: source and device of all that is sent."""
        if len(raw) < 20:
            fail(errno.EINVAL)
        index = INT.unpack(raw[16:20])[0]
        name = self._device_of(index) if index else None
        if index and name is None:
            fail(errno.ENODEV)
        self._sticky_source, self._sticky_device = int.from_bytes(raw[:16]), name
        self._forget_messages()

    def _path_mtu(self) -> int:
        """IP_MTU and IPV6_MTU: that of the way to the peer."""
        if self._peer is None:
            fail(errno.ENOTCONN)
        return self._probe_mtu()

    def _take_error(self) -> int:
        error, self._error = self._error, 0
        return error

    def _memory(self) -> bytes:
        """SO_MEMINFO: what is charged for what is queued, and the limits."""
        return struct.pack(
            "=9I", self._charged(), self._rcvbuf, self._unsent(), self._sndbuf, 0, self._unsent(), 0,
            0, self._drops(),
        )  # fmt: skip


def _refuse(_: Options, raw: bytes) -> None:
    fail(errno.ENOPROTOOPT)


def _with(method: Callable, *given: Any) -> Callable[[Options, bytes], None]:
    return lambda one, raw: method(one, *given, raw)


_SETTERS: dict[tuple[int, int], Callable[[Options, bytes], None]] = {
    (C.SOL_SOCKET, C.SO_TYPE): _refuse,
    (C.SOL_SOCKET, C.SO_ERROR): _refuse,
    (C.SOL_SOCKET, C.SO_PROTOCOL): _refuse,
    (C.SOL_SOCKET, C.SO_DOMAIN): _refuse,
    (C.SOL_SOCKET, C.SO_ACCEPTCONN): _refuse,
    (C.SOL_SOCKET, C.SO_MEMINFO): _refuse,
    (C.SOL_SOCKET, C.SO_RCVBUF): _with(Options._set_buffer, C.SO_RCVBUF, "net.core.rmem_max"),
    (C.SOL_SOCKET, C.SO_SNDBUF): _with(Options._set_buffer, C.SO_SNDBUF, "net.core.wmem_max"),
    (C.SOL_SOCKET, C.SO_RCVBUFFORCE): _with(Options._set_buffer, C.SO_RCVBUF, None),
    (C.SOL_SOCKET, C.SO_SNDBUFFORCE): _with(Options._set_buffer, C.SO_SNDBUF, None),
    (C.SOL_SOCKET, C.SO_BINDTODEVICE): Options._set_device,
    (C.SOL_SOCKET, C.SO_BINDTOIFINDEX): Options._set_device_index,
    (C.SOL_SOCKET, C.SO_TIMESTAMP): _with(Options._set_timestamp, C.SO_TIMESTAMP, C.SO_TIMESTAMPNS),
    (C.SOL_SOCKET, C.SO_TIMESTAMPNS): _with(
        Options._set_timestamp, C.SO_TIMESTAMPNS, C.SO_TIMESTAMP
    ),
    (C.SOL_SOCKET, C.SO_RCVLOWAT): Options._set_least,
    (C.SOL_IP, C.IP_LOCAL_PORT_RANGE): Options._set_port_range,
    (C.SOL_IP, C.IP_TTL): Options._set_ttl,
    (C.SOL_IP, C.IP_RECVERR): _with(Options._set_error_queue, C.SOL_IP, C.IP_RECVERR),
    (C.SOL_IP, C.IP_MULTICAST_IF): Options._set_group_device4,
    (C.SOL_IP, C.IP_UNICAST_IF): _with(Options._set_unicast_device, C.SOL_IP),
    (C.SOL_IP, C.IP_ADD_MEMBERSHIP): _with(Options._membership4, True),
    (C.SOL_IP, C.IP_DROP_MEMBERSHIP): _with(Options._membership4, False),
    (C.SOL_IP, C.IP_MTU): _refuse,
    (C.SOL_IPV6, C.IPV6_V6ONLY): Options._set_v6only,
    (C.SOL_IPV6, C.IPV6_MTU): Options._set_mtu6,
    (C.SOL_IPV6, C.IPV6_RECVERR): _with(Options._set_error_queue, C.SOL_IPV6, C.IPV6_RECVERR),
    (C.SOL_IPV6, C.IPV6_MULTICAST_IF): Options._set_group_device6,
    (C.SOL_IPV6, C.IPV6_UNICAST_IF): _with(Options._set_unicast_device, C.SOL_IPV6),
    (C.SOL_IPV6, C.IPV6_JOIN_GROUP): _with(Options._membership6, True),
    (C.SOL_IPV6, C.IPV6_LEAVE_GROUP): _with(Options._membership6, False),
    (C.SOL_IPV6, C.IPV6_PKTINFO): Options._set_packet_info6,
    (C.SOL_UDP, C.UDP_CORK): Options._set_cork,
    (C.SOL_UDP, C.UDPLITE_SEND_CSCOV): _with(Options._set_coverage, C.UDPLITE_SEND_CSCOV),
    (C.SOL_UDP, C.UDPLITE_RECV_CSCOV): _with(Options._set_coverage, C.UDPLITE_RECV_CSCOV),
}


def _coverage(name: int) -> Callable[[Options], int]:
    def get(one: Options) -> int:
        value = one._send_coverage if name == C.UDPLITE_SEND_CSCOV else one._receive_coverage
        return value or 0

    return get


_GETTERS: dict[tuple[int, int], Callable[[Options], int | bytes]] = {
    (C.SOL_SOCKET, C.SO_TYPE): lambda one: C.SOCK_DGRAM,
    (C.SOL_SOCKET, C.SO_ERROR): Options._take_error,
    (C.SOL_SOCKET, C.SO_PROTOCOL): lambda one: one.proto or C.IPPROTO_UDP,
    (C.SOL_SOCKET, C.SO_DOMAIN): lambda one: int(one.family),
    (C.SOL_SOCKET, C.SO_ACCEPTCONN): lambda one: 0,
    (C.SOL_SOCKET, C.SO_RCVBUF): lambda one: one._rcvbuf,
    (C.SOL_SOCKET, C.SO_SNDBUF): lambda one: one._sndbuf,
    (C.SOL_SOCKET, C.SO_MEMINFO): Options._memory,
    (C.SOL_SOCKET, C.SO_BINDTODEVICE): lambda one: one._device_bytes(),
    (C.SOL_SOCKET, C.SO_BINDTOIFINDEX): lambda one: one._index_of(one._device),
    (C.SOL_IP, C.IP_TTL): lambda one: (
        one._default_ttl() if one._opt(C.SOL_IP, C.IP_TTL) < 0 else one._opt(C.SOL_IP, C.IP_TTL)
    ),
    (C.SOL_IP, C.IP_MTU): Options._path_mtu,
    (C.SOL_IP, C.IP_MULTICAST_IF): lambda one: one._group_source.to_bytes(4),
    (C.SOL_IP, C.IP_UNICAST_IF): lambda one: one._index_of(one._unicast_device).to_bytes(4),
    (C.SOL_IPV6, C.IPV6_UNICAST_HOPS): lambda one: (
        one._default_hops() if one._opt(C.SOL_IPV6, C.IPV6_UNICAST_HOPS) < 0
        else one._opt(C.SOL_IPV6, C.IPV6_UNICAST_HOPS)
    ),
    (C.SOL_IPV6, C.IPV6_MTU): Options._path_mtu,
    (C.SOL_IPV6, C.IPV6_MULTICAST_IF): lambda one: one._index_of(one._group_device6),
    (C.SOL_IPV6, C.IPV6_UNICAST_IF): lambda one: one._index_of(one._unicast_device6).to_bytes(4),
    (C.SOL_UDP, C.UDPLITE_SEND_CSCOV): _coverage(C.UDPLITE_SEND_CSCOV),
    (C.SOL_UDP, C.UDPLITE_RECV_CSCOV): _coverage(C.UDPLITE_RECV_CSCOV),
}  # fmt: skip
