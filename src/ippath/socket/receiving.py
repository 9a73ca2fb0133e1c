"""Reading from a socket (kernel: udp_recvmsg, udpv6_recvmsg, __skb_recv_udp, ip_recv_error)."""

from __future__ import annotations

import errno
import struct
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from ippath import tables as T
from ippath.mib import COUNTERS
from ippath.socket import constants as C
from ippath.socket.addresses import Name, as_tuple, fail, is_link_local6, sockaddr
from ippath.socket.ancillary import INT, Message, fitted, packet_info4, packet_info6
from ippath.socket.arrived import Arrived, coalesce, each_arrived
from ippath.socket.base import Base
from ippath.socket.errors import (
    ORIGIN_ICMP, ORIGIN_ICMP6, QueuedError, dressed, icmp6_errno, icmp_errno,
)  # fmt: skip

_SETS = {(4, 17): "Udp", (4, 136): "UdpLite", (6, 17): "Udp6", (6, 136): "UdpLite6"}
_COUNTER = {name: k for k, name in enumerate(COUNTERS)}
_SECOND = 10**9


class WouldBlockForever(TimeoutError):
    """A call without timeout waits for what can never come: nothing is on its way in the lab."""


class Received(NamedTuple):
    """What one call gives."""

    data: bytes
    length: int  # what the call returns: more than `data` if MSG_TRUNC was asked for
    messages: list[Message]
    flags: int
    name: Name | None


class Receiving(Base):
    """`recv` and its relatives."""

    # --- arrival --------------------------------------------------------------------------------------

    @property
    def _arrived(self) -> deque[Arrived]:
        """Datagrams that arrived and that the reader has not taken off, one by one."""
        while self._chunks:
            self._queue.extend(each_arrived(*self._chunks.popleft()))
        return self._queue

    def _waits(self) -> bool:
        """Whether anything is queued."""
        return bool(self._reading or self._queue or self._chunks)

    def _inbox(self, rows: np.ndarray, data: np.ndarray) -> None:
        joins = self._options[C.SOL_UDP, C.UDP_GRO]
        if len(rows) > 1 and not joins and not rows[:, T.TAKEN_KIND].any():
            self._chunks.append((rows, data))
            return
        arrived = each_arrived(rows, data)
        if self._options[C.SOL_UDP, C.UDP_GRO] and len(arrived) > 1:
            arrived = self._joined(arrived)
        for one in arrived:
            if one.row[T.TAKEN_KIND] == T.TAKEN_ERROR:
                self._hear(one)
            else:
                self._arrived.append(one)

    def _joined(self, arrived: list[Arrived]) -> list[Arrived]:
        """The datagrams of one flow together, as UDP_GRO asks for (kernel: udp_gro_receive).

        Their memory is counted anew.
        """
        joined = coalesce(arrived)
        queue = self._netns.queue_of(self._number)
        for column, change in (
            (T.SOCKQ_PACKETS, len(joined) - len(arrived)),
            (T.SOCKQ_BYTES, sum(o.row[T.TAKEN_CHARGE] for o in joined)),
            (T.SOCKQ_BYTES, -sum(o.row[T.TAKEN_CHARGE] for o in arrived)),
        ):
            queue[column] += change
        return joined

    def _hear(self, one: Arrived) -> None:
        """An ICMP error concerns this socket (kernel: __udp4_lib_err, __udp6_lib_err)."""
        kind, code, option = one.row[T.TAKEN_TTL], one.row[T.TAKEN_TOS], self._options
        if one.family == 4:
            found = icmp_errno(kind, code)
            queued = option[C.SOL_IP, C.IP_RECVERR]
            if found == (errno.EMSGSIZE, True) and not option[C.SOL_IP, C.IP_MTU_DISCOVER]:
                return
        else:
            found = icmp6_errno(kind, code, option[C.SOL_IPV6, C.IPV6_MTU_DISCOVER])
            queued = option[C.SOL_IPV6, C.IPV6_RECVERR]
        if found is None:
            return
        error, hard = found
        if not queued and not (hard and self._peer is not None):
            return
        charge = one.row[T.TAKEN_CHARGE]
        if queued and self._charged() + charge < self._rcvbuf:
            self._errors.append(
                QueuedError(
                    error, ORIGIN_ICMP if one.family == 4 else ORIGIN_ICMP6, kind, code,
                    one.row[T.TAKEN_INFO], payload=one.payload, family=one.family,
                    destination=one.destination, offender=self._scoped(one, one.source._replace(port=0)),
                    charge=charge,
                )
            )  # fmt: skip
        self._error = error

    def _scoped(self, one: Arrived, name: Name) -> Name:
        """The address with the device of a link-local one."""
        if one.family == 6 and is_link_local6(name.ip):
            return name._replace(scope=int(one.row[T.TAKEN_DEVICE]))
        return name

    # --- waiting --------------------------------------------------------------------------------------

    def _wait_for_data(self, flags: int) -> None:
        """Return when there is something to take; raises the pending error, EAGAIN or TimeoutError."""
        timeout = 0.0 if flags & C.MSG_DONTWAIT else self._timeout
        until = None if timeout is None else self._now() + round(timeout * _SECOND)
        while True:
            if self._error:
                fail(self._take_pending())
            if self._waits():
                return
            if timeout == 0.0:
                fail(errno.EAGAIN)
            if timeout is None and self._shut & 1:
                return
            if until is not None and self._now() >= until:
                raise TimeoutError("timed out")
            if not self._netns.let_time_pass(until):
                raise WouldBlockForever("nothing is on its way: this call would block for ever")

    def _take_pending(self) -> int:
        error, self._error = self._error, 0
        return error

    # --- taking ---------------------------------------------------------------------------------------

    def _front(self) -> deque[Arrived]:
        """The reader's own queue, filled from that of arrivals when it is empty."""
        if not self._reading:
            self._reading, self._queue = self._arrived, self._reading
        return self._reading

    def _count_many(self, families: np.ndarray) -> None:
        """Count datagrams that were read, by the family of their packets."""
        for family in (4, 6):
            name = _SETS[family, self._protocol] + "InDatagrams"
            self._netns.state.counters[_COUNTER[name]] += int((families == family).sum())

    def _count(self, one: Arrived, name: str) -> None:
        self._netns.state.counters[_COUNTER[_SETS[one.family, self._protocol] + name]] += 1

    def _release(self, one: Arrived) -> None:
        """Give the memory of a datagram back, in portions (kernel: udp_rmem_release)."""
        queue = self._netns.queue_of(self._number)
        queue[T.SOCKQ_PACKETS] -= 1
        self._deficit += one.row[T.TAKEN_CHARGE]
        if self._deficit >= self._rcvbuf >> 2 or not self._reading:
            queue[T.SOCKQ_BYTES] -= self._deficit
            self._deficit = 0

    def _drop_invalid(self) -> None:
        """Throw away what a reader finds to be damaged."""
        while self._waits() and not self._front()[0].row[T.TAKEN_VALID]:
            bad = self._reading.popleft()
            self._release(bad)
            self._count(bad, "InCsumErrors")
            self._count(bad, "InErrors")
            self._netns.queue_of(self._number)[T.SOCKQ_DROPS] += 1

    def _next(self, flags: int) -> tuple[Arrived, int] | None:
        """The next datagram and where in it to start; None after a shutdown."""
        while True:
            self._wait_for_data(flags)
            self._drop_invalid()
            if self._waits():
                break
            if self._shut & 1 and self._timeout is None and not flags & C.MSG_DONTWAIT:
                return None
        queue, offset = self._front(), self._options[C.SOL_SOCKET, C.SO_PEEK_OFF]
        if not flags & C.MSG_PEEK:
            one = queue.popleft()
            self._release(one)
            self._count(one, "InDatagrams")
            if offset >= 0:
                self._options[C.SOL_SOCKET, C.SO_PEEK_OFF] = max(0, offset - len(one.payload))
            return one, 0
        if offset < 0:
            return queue[0], 0
        for one in (*queue, *self._arrived):
            if offset < len(one.payload):
                return one, offset
            offset -= len(one.payload)
        fail(errno.EAGAIN)

    def _receive(self, size: int, flags: int, room: int | None = None) -> Received:
        """One datagram, its first `size` bytes, and ancillary data in `room` bytes (None: unasked)."""
        self._check_open()
        if flags & C.MSG_ERRQUEUE:
            return self._receive_error(size, room or 0)
        found = self._next(flags)
        if found is None:
            return Received(b"", 0, [], 0, None)
        one, start = found
        whole = len(one.payload)
        data = one.payload[start : start + size]
        cut = size <= whole - start and size < whole
        if flags & C.MSG_PEEK and self._options[C.SOL_SOCKET, C.SO_PEEK_OFF] >= 0:
            self._options[C.SOL_SOCKET, C.SO_PEEK_OFF] += len(data)
        messages, short = ([], False) if room is None else fitted(self._beside(one), room)
        told = (C.MSG_TRUNC if cut else 0) | (C.MSG_CTRUNC if short else 0)
        length = whole if flags & C.MSG_TRUNC else len(data)
        name = self._dressed(one.family, self._scoped(one, one.source))
        return Received(data, length, messages, told, name)

    def _receive_error(self, size: int, room: int) -> Received:
        if not self._errors:
            fail(errno.EAGAIN)
        entry = self._errors.popleft()
        if self._errors and self._errors[0].from_icmp:
            self._error = self._errors[0].errno
        elif entry.from_icmp:
            self._error = 0
        level, kind = (C.SOL_IPV6, C.IPV6_RECVERR) if self._six else (C.SOL_IP, C.IP_RECVERR)
        extended = entry.extended(6 if self._six else 4)
        messages, short = fitted([(level, kind, extended)], room)
        told = C.MSG_ERRQUEUE | (C.MSG_CTRUNC if short else 0)
        if size < len(entry.payload):
            told |= C.MSG_TRUNC
        name = entry.destination
        if name is not None:
            name = dressed(6 if self._six else 4, entry.family, name)
        data = entry.payload[:size]
        return Received(data, len(data), messages, told, name)

    # --- ancillary data -------------------------------------------------------------------------------

    def _beside(self, one: Arrived) -> list[Message]:
        """What is said beside a datagram, in the kernel's order."""
        option, row = self._options, one.row
        found: list[Message] = []

        def add(level: int, name: int, kind: int, data: bytes) -> None:
            if option[level, name]:
                found.append((level, kind, data))

        time = row[T.TAKEN_TIME_NS]
        seconds, rest = divmod(time, _SECOND)
        stamp = struct.pack("=qq", seconds, rest // 1000)
        add(C.SOL_SOCKET, C.SO_TIMESTAMP, C.SO_TIMESTAMP, stamp)
        add(C.SOL_SOCKET, C.SO_TIMESTAMPNS, C.SO_TIMESTAMPNS, struct.pack("=qq", seconds, rest))
        if row[T.TAKEN_DROPS]:
            add(C.SOL_SOCKET, C.SO_RXQ_OVFL, C.SO_RXQ_OVFL, INT.pack(row[T.TAKEN_DROPS]))
        mark = row[T.TAKEN_MARK].to_bytes(4, "little")
        add(C.SOL_SOCKET, C.SO_RCVMARK, C.SO_MARK, mark)
        if one.segment:
            add(C.SOL_UDP, C.UDP_GRO, C.UDP_GRO, INT.pack(one.segment))
        index = row[T.TAKEN_DEVICE]
        if self._six:
            address = self._dressed(one.family, one.destination).ip
            add(C.SOL_IPV6, C.IPV6_RECVPKTINFO, C.IPV6_PKTINFO, packet_info6(address, index))
        if one.family == 4:
            info = packet_info4(index, row[T.TAKEN_SPEC_DST], one.destination.ip)
            add(C.SOL_IP, C.IP_PKTINFO, C.IP_PKTINFO, info)
            add(C.SOL_IP, C.IP_RECVTTL, C.IP_TTL, INT.pack(row[T.TAKEN_TTL]))
            add(C.SOL_IP, C.IP_RECVTOS, C.IP_TOS, bytes([row[T.TAKEN_TOS]]))
            where = sockaddr(4, one.destination)
            add(C.SOL_IP, C.IP_ORIGDSTADDR, C.IP_ORIGDSTADDR, where)
            return found
        add(C.SOL_IPV6, C.IPV6_RECVHOPLIMIT, C.IPV6_HOPLIMIT, INT.pack(row[T.TAKEN_TTL]))
        add(C.SOL_IPV6, C.IPV6_RECVTCLASS, C.IPV6_TCLASS, INT.pack(row[T.TAKEN_TOS]))
        flow = row[T.TAKEN_TOS] << 20 | row[T.TAKEN_LABEL]
        if flow:
            add(C.SOL_IPV6, C.IPV6_FLOWINFO, C.IPV6_FLOWINFO, flow.to_bytes(4))
        where = sockaddr(6, self._scoped(one, one.destination))
        add(C.SOL_IPV6, C.IPV6_ORIGDSTADDR, C.IPV6_ORIGDSTADDR, where)
        return found

    # --- the calls ------------------------------------------------------------------------------------

    def _as_tuple(self, name: Name | None) -> Any:
        return None if name is None else as_tuple(6 if self._six else 4, name)

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """The next datagram, its first `bufsize` bytes."""
        if bufsize < 0:
            raise ValueError("negative buffersize in recv")
        got = self._receive(bufsize, flags)
        return got.data.ljust(got.length, b"\0")

    def recvfrom(self, bufsize: int, flags: int = 0) -> tuple[bytes, Any]:
        """The next datagram and its sender."""
        if bufsize < 0:
            raise ValueError("negative buffersize in recvfrom")
        got = self._receive(bufsize, flags)
        return got.data.ljust(got.length, b"\0"), self._as_tuple(got.name)

    def _into(self, caller: str, buffer: Any, nbytes: int, flags: int) -> Received:
        view = memoryview(buffer).cast("B")
        if nbytes < 0:
            raise ValueError(f"negative buffersize in {caller}")
        if nbytes > len(view):
            short = "nbytes is greater than the length of the buffer"
            raise ValueError(
                short if caller == "recvfrom_into" else "buffer too small for requested bytes"
            )
        got = self._receive(nbytes or len(view), flags)
        view[: len(got.data)] = got.data
        return got

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """The next datagram into a buffer; how many bytes."""
        return self._into("recv_into", buffer, nbytes, flags).length

    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        """The next datagram into a buffer; how many bytes, and its sender."""
        got = self._into("recvfrom_into", buffer, nbytes, flags)
        return got.length, self._as_tuple(got.name)

    def recvmsg(
        self, bufsize: int, ancbufsize: int = 0, flags: int = 0
    ) -> tuple[bytes, list[Message], int, Any]:
        """The next datagram, ancillary data, MSG_* flags that are set, its sender."""
        if bufsize < 0:
            raise ValueError("negative buffer size in recvmsg()")
        got = self._receive(bufsize, flags, _room(ancbufsize))
        data = got.data.ljust(got.length, b"\0")
        return data, got.messages, got.flags, self._as_tuple(got.name)

    def recvmsg_into(
        self, buffers: Any, ancbufsize: int = 0, flags: int = 0
    ) -> tuple[int, list[Message], int, Any]:
        """The next datagram spread over buffers; how many bytes, and the rest as `recvmsg`."""
        views = [memoryview(b).cast("B") for b in buffers]
        got = self._receive(sum(map(len, views)), flags, _room(ancbufsize))
        at = 0
        for view in views:
            part = got.data[at : at + len(view)]
            view[: len(part)] = part
            at += len(part)
        return got.length, got.messages, got.flags, self._as_tuple(got.name)

    def pending(self) -> int:
        """Bytes of the next datagram, 0 if there is none (FIONREAD)."""
        self._check_open()
        self._drop_invalid()
        return len(self._front()[0].payload) if self._waits() else 0

    def poll(self) -> int:
        """POLL* bits that are up (kernel: udp_poll)."""
        self._check_open()
        self._drop_invalid()
        bits = C.POLLIN if self._waits() else 0
        if self._error or self._errors:
            bits |= C.POLLERR
        if self._shut & 1:
            bits |= C.POLLIN | C.POLLRDHUP
        if self._shut == 3:
            bits |= C.POLLHUP
        if self._wire * 2 <= self._sndbuf:
            bits |= C.POLLOUT
        return bits


def _room(size: int) -> int:
    if size < 0 or size > 0x7FFFFFFF:
        raise ValueError("invalid ancillary data buffer length")
    return size
