"""Sending from a socket (kernel: udp_sendmsg, udpv6_sendmsg, ip_append_data, udp_push_pending_frames).

What is checked here, and in which order, is what the kernel checks before it builds packets; the
rest is `ippath.udp.sendmsg`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ippath import tables as T
from ippath.fib.build import halves
from ippath.mib import COUNTERS
from ippath.netns import outgoing
from ippath.socket import constants as C
from ippath.socket.addresses import Name, as_bytes, fail, is_group, is_link_local6, is_mapped, parse
from ippath.socket.ancillary import Asked, read4, read6
from ippath.socket.errors import ORIGIN_ZEROCOPY, ZEROCOPY_COPIED, QueuedError
from ippath.socket.naming import Naming
from ippath.socket.ready import Readiness

PEER = ()  # as an address that is ready
UDP_HEADER = 8
LARGEST4 = 0xFFFF
SECOND = 10**9
_COUNTER = {name: k for k, name in enumerate(COUNTERS)}


@dataclass
class Cork:
    """A datagram that grows call by call (UDP_CORK, MSG_MORE)."""

    row: np.ndarray
    target: Name
    parts: list[bytes] = field(default_factory=list)
    length: int = 0
    notices: list[int] = field(default_factory=list)


class Sending(Naming, Readiness):
    """`send` and its relatives."""

    _cork: Cork | None = None
    _notice = 0  # number of the next completion notice

    # --- the calls ------------------------------------------------------------------------------------

    def send(self, data: Any, flags: int = 0) -> int:
        """Send a datagram to the peer; how many bytes."""
        if not flags and (sent := self._again(PEER, data)) is not None:
            return sent
        return self._send(as_bytes(data), flags, None, (), PEER)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send a datagram to the peer."""
        self._send(as_bytes(data), flags, None, ())

    def sendto(self, *args: Any) -> int:
        """`sendto(data, [flags,] address)`: send a datagram; how many bytes."""
        if len(args) == 2 and (sent := self._again(args[1], args[0])) is not None:
            return sent
        if not 2 <= len(args) <= 3:
            raise TypeError(f"sendto() takes 2 or 3 arguments ({len(args)} given)")
        data, flags, address = args[0], args[1] if len(args) == 3 else 0, args[-1]
        payload = as_bytes(data)
        if not isinstance(flags, int):
            raise TypeError(f"'{type(flags).__name__}' object cannot be interpreted as an integer")
        return self._send(payload, flags, self._parse("sendto", address), (), address)

    def sendmsg(
        self,
        buffers: Iterable[Any],
        ancdata: Iterable[Any] = (),
        flags: int = 0,
        address: Any = None,
    ) -> int:
        """Send a datagram put together from buffers, with ancillary data; how many bytes."""
        try:
            parts = list(buffers)
        except TypeError:
            raise TypeError("sendmsg() argument 1 must be an iterable") from None
        payload = b"".join(as_bytes(part) for part in parts)
        target = None if address is None else self._parse("sendmsg", address)
        try:
            items = list(ancdata)
        except TypeError:
            raise TypeError("sendmsg() argument 2 must be an iterable") from None
        messages = [(int(level), int(kind), as_bytes(data)) for level, kind, data in items]
        return self._send(payload, flags, target, messages)

    def _parse(self, caller: str, address: Any) -> Name:
        return parse(caller, 6 if self._six else 4, address, self._scopes())

    # --- checks ---------------------------------------------------------------------------------------

    def _send(
        self, payload: bytes, flags: int, target: Name | None, messages: Any, again: Any = None
    ) -> int:
        """Send a datagram; the next one to `again` may be like it."""
        self._check_open()
        self._autobind()
        if self._cork is not None:
            return self._append(payload, flags, target)
        self._forget_way()
        six = self._six and not self._goes_as_ipv4(target)
        if not six and len(payload) > LARGEST4:
            fail(errno.EMSGSIZE)
        if not six and flags & C.MSG_OOB:
            fail(errno.EOPNOTSUPP)
        row, where = self._begin6(target, messages) if six else self._begin4(target, messages)
        if flags & C.MSG_PROBE:
            row[T.SEND_FLAGS] |= T.SENDS_PROBE
        if self._options[C.SOL_UDP, C.UDP_CORK] or flags & C.MSG_MORE:
            return self._start_cork(row, where, payload, flags)
        self._go(row, where, payload, flags)
        if flags & C.MSG_ZEROCOPY:
            self._complete(self._take_notice())
        if again is not None and not flags:
            self._keep_ready(again, row, where)
        return len(payload)

    def _goes_as_ipv4(self, target: Name | None) -> bool:
        """Does an IPv6 socket send by IPv4?  Raises where it may not (T1.2, T1.3)."""
        if target is None:
            if self._peer is None:
                fail(errno.EDESTADDRREQ)
            target = self._peer
        if target.ip == 0 and is_mapped(self._source):
            return True
        if not is_mapped(target.ip):
            return False
        if self._options[C.SOL_IPV6, C.IPV6_V6ONLY]:
            fail(errno.ENETUNREACH)
        return True

    def _begin4(self, target: Name | None, messages: Any) -> tuple[np.ndarray, Name]:
        """The message to an IPv4 destination, and where it goes."""
        where = target
        if where is None:
            if self._peer is None:
                fail(errno.EDESTADDRREQ)
            where = self._peer
        elif where.port == 0:
            fail(errno.EINVAL)
        row = self._family_template(4)
        asked = read4(messages, six=self._six) if messages else Asked()
        destination = where.ip & 0xFFFFFFFF
        if self._six and where.ip == 0:
            destination = 0x7F000001
        source = self._source & 0xFFFFFFFF if asked.source is None else asked.source
        self._ask(row, asked)
        row[T.SEND_SRC_LO], row[T.SEND_DST_LO] = source, destination
        row[T.SEND_DPORT] = where.port
        if self._next_id is not None:
            row[T.SEND_ID] = self._next_id
        return row, where

    def _begin6(self, target: Name | None, messages: Any) -> tuple[np.ndarray, Name]:
        """The message to an IPv6 destination, and where it goes."""
        row = self._family_template(6)
        where = target
        if where is None:
            assert self._peer is not None
            where = self._peer
        else:
            if where.port == 0:
                fail(errno.EINVAL)
            if self._options[C.SOL_IPV6, C.IPV6_FLOWINFO_SEND]:
                row[T.SEND_LABEL] = where.flowinfo & 0xFFFFF
        if where.scope and is_link_local6(where.ip) or where.scope and is_group(6, where.ip):
            row[T.SEND_OIF] = self._device_index_row(where.scope)
        asked = read6(messages) if messages else Asked()
        source = self._source or self._sticky_source
        if asked.source:
            source = asked.source
            self._check_source6(source, asked, row)
        self._ask(row, asked)
        if is_mapped(source):
            fail(errno.EAFNOSUPPORT if not is_mapped(where.ip) else errno.EINVAL)
        row[T.SEND_SRC_HI : T.SEND_SRC_LO + 1] = halves(source)
        row[T.SEND_DST_HI : T.SEND_DST_LO + 1] = halves(where.ip)
        row[T.SEND_DPORT] = where.port
        return row, where

    def _check_source6(self, source: int, asked: Asked, row: np.ndarray) -> None:
        """May packet information ask for this source?"""
        if is_link_local6(source) and not asked.index and row[T.SEND_OIF] == T.NONE:
            fail(errno.EINVAL)
        own = any(
            (one.family, one.ip) == (6, source)
            for device in self._netns.host.devices
            for one in device.addresses
        )
        free = (
            self._options[C.SOL_IPV6, C.IPV6_FREEBIND]
            or self._options[C.SOL_IPV6, C.IPV6_TRANSPARENT]
        )
        if not own and not free:
            fail(errno.EINVAL)

    def _ask(self, row: np.ndarray, asked: Asked) -> None:
        """Put what ancillary data asks into the message."""
        if asked.index:
            found = self._device_index_row(asked.index)
            if row[T.SEND_FAMILY] == 6 and row[T.SEND_OIF] not in (T.NONE, found):
                fail(errno.EINVAL)
            row[T.SEND_OIF] = found
        for column, value in (
            (T.SEND_TTL, asked.ttl), (T.SEND_TOS, asked.tos), (T.SEND_MARK, asked.mark),
            (T.SEND_SEGMENT, asked.segment), (T.SEND_LABEL, asked.label),
        ):  # fmt: skip
            if value is not None:
                row[column] = value
        if asked.whole is not None:
            row[T.SEND_FLAGS] &= ~T.SENDS_WHOLE
            row[T.SEND_FLAGS] |= T.SENDS_WHOLE * asked.whole

    def _device_index_row(self, index: int) -> int:
        name = self._device_of(index)
        if name is None:
            fail(errno.ENODEV)
        return self._row_of(name)

    # --- sending --------------------------------------------------------------------------------------

    def _go(self, row: np.ndarray, where: Name, payload: bytes, flags: int) -> None:
        """Send one message; raises its errno."""
        if self._error or self._shut & 2 or self._wire >= self._sndbuf:
            self._before_memory(row, flags)
        if len(payload) > self._sndbuf:
            self._check_pieces(row, len(payload))
        self._transmit_one(row, payload)
        self._finish(row, where)

    def _transmit_one(self, row: np.ndarray, payload: bytes) -> int:
        arena = np.frombuffer(payload or b"\0", np.uint8)
        length = np.array([len(payload)], np.int64)
        datagrams = outgoing(arena, _ZERO, length, row, way=self._way)
        self._netns.transmit(datagrams, sender=self)
        return int(row[T.SEND_ERROR])

    def _before_memory(self, row: np.ndarray, flags: int) -> None:
        """What the first buffer of a datagram meets: pending errors, shutdown, a full buffer.

        Errors of the route come before (kernel: sock_alloc_send_pskb).
        """
        probe = row.copy()
        probe[T.SEND_FLAGS] |= T.SENDS_PROBE
        error = self._transmit_one(probe, b"")
        if error:
            fail(error)
        if row[T.SEND_FLAGS] & T.SENDS_PROBE:
            return
        timeout = 0.0 if flags & C.MSG_DONTWAIT else self._timeout
        until = None if timeout is None else self._now() + round(timeout * SECOND)
        while True:
            if self._error:
                error, self._error = self._error, 0
                fail(error)
            if self._shut & 2:
                fail(errno.EPIPE)
            if self._wire < self._sndbuf:
                return
            if timeout == 0.0:
                self._count_refused()
                fail(errno.EAGAIN)
            if until is not None and self._now() >= until:
                raise TimeoutError("timed out")
            self._netns.let_time_pass(until)

    def _count_refused(self) -> None:
        self._netns.state.counters[
            _COUNTER["Udp6SndbufErrors" if self._six else "UdpSndbufErrors"]
        ] += 1

    def _check_pieces(self, row: np.ndarray, size: int) -> None:
        """Pieces of a large datagram beside the first may take twice the buffer (W2), else ENOBUFS."""
        probe = row.copy()
        probe[T.SEND_FLAGS] |= T.SENDS_PROBE
        if self._transmit_one(probe, b""):
            return
        mtu = int(probe[T.SEND_INFO])
        pieces = size // max(1, mtu - 60)
        if row[T.SEND_SEGMENT] == 0 and pieces > 1 and pieces * (mtu + 832) > 2 * self._sndbuf:
            six = row[T.SEND_FAMILY] == 6
            self._netns.state.counters[_COUNTER["Ip6OutDiscards" if six else "IpOutDiscards"]] += 1
            self._count_refused()
            fail(errno.ENOBUFS)

    # --- cork -----------------------------------------------------------------------------------------

    def _start_cork(self, row: np.ndarray, where: Name, payload: bytes, flags: int) -> int:
        probe = row.copy()
        probe[T.SEND_FLAGS] |= T.SENDS_PROBE
        error = self._transmit_one(probe, b"")
        if error:
            fail(error)
        if row[T.SEND_FLAGS] & T.SENDS_PROBE:
            return len(payload)
        row[T.SEND_INFO] = probe[T.SEND_INFO]
        self._cork = Cork(row, where)
        return self._grow(payload, flags)

    def _append(self, payload: bytes, flags: int, target: Name | None) -> int:
        """Add to the datagram that is begun; the destination given is not looked at."""
        cork = self._cork
        assert cork is not None
        four = cork.row[T.SEND_FAMILY] == 4
        if four and len(payload) > LARGEST4:
            fail(errno.EMSGSIZE)
        if not four and target is not None and is_mapped(target.ip):
            fail(errno.EINVAL)
        return self._grow(payload, flags)

    def _grow(self, payload: bytes, flags: int) -> int:
        cork = self._cork
        assert cork is not None
        cork.length += len(payload)
        if cork.length > _most(cork.row):
            self._cork = None
            self._too_large(cork.row, cork.target)
            fail(errno.EMSGSIZE)
        cork.parts.append(payload)
        if self._netns.switches["cork_by_reference"] == "off":
            cork.row, cork.parts = cork.row.copy(), [b"".join(cork.parts)]
            self._way[T.WAY_GENERATION] = 0
        if flags & C.MSG_ZEROCOPY and (payload or not cork.parts[:-1]):
            cork.notices.append(self._take_notice())
        if not (self._options[C.SOL_UDP, C.UDP_CORK] or flags & C.MSG_MORE):
            self._push_cork()
        return len(payload)

    def _push_cork(self) -> None:
        cork, self._cork = self._cork, None
        if cork is None:
            return
        self._go(cork.row, cork.target, b"".join(cork.parts), 0)
        for notice in cork.notices:
            self._complete(notice)

    # --- zero copy ------------------------------------------------------------------------------------

    def _take_notice(self) -> int:
        """The number of a send whose buffer the caller wants back; -1: it did not ask."""
        if not self._options[C.SOL_SOCKET, C.SO_ZEROCOPY]:
            return -1
        number = self._notice
        self._notice = (number + 1) & 0xFFFFFFFF
        return number

    def _complete(self, number: int) -> None:
        """Tell that the buffer is free again; follow-up notices grow (kernel: msg_zerocopy_complete).

        Payloads are copied into the arena that packets leave by, and are told so.
        """
        if number < 0:
            return
        last = self._errors[-1] if self._errors else None
        if last is not None and last.origin == ORIGIN_ZEROCOPY and last.data == number - 1:
            last.data = number
            return
        self._errors.append(
            QueuedError(0, ORIGIN_ZEROCOPY, code=ZEROCOPY_COPIED, info=number, data=number)
        )


def _most(row: np.ndarray) -> int:
    """Bytes of payload that a corked datagram may have."""
    header = 20 if row[T.SEND_FAMILY] == 4 else 40
    mode, mtu = row[T.SEND_PMTUDISC], int(row[T.SEND_INFO])
    cuts = mode <= T.PMTUDISC_WANT or mode == T.PMTUDISC_OMIT or row[T.SEND_SEGMENT]
    if row[T.SEND_FLAGS] & T.SENDS_WHOLE:
        cuts = False
    if row[T.SEND_FAMILY] == 4:
        return (LARGEST4 if cuts else mtu) - header - UDP_HEADER
    return (LARGEST4 if cuts else mtu - header) - UDP_HEADER


_ZERO = np.zeros(1, np.int64)
