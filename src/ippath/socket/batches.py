"""Many datagrams in one call: lists, and arrays without an object per datagram (kernel: sendmmsg,
recvmmsg).
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ippath import tables as T
from ippath.batch import PacketBatch
from ippath.fib.build import halves
from ippath.netns import outgoing
from ippath.socket import constants as C
from ippath.socket.addresses import Name, as_tuple, fail, is_mapped
from ippath.socket.receiving import Receiving
from ippath.socket.sending import Sending

MOST_MESSAGES = 1024  # UIO_MAXIOV


@dataclass
class Datagrams:
    """What a socket received, as columns over one arena.

    | column               | dtype       | meaning                                     |
    |----------------------|-------------|---------------------------------------------|
    | `data`               | uint8[]     | the arena                                   |
    | `offset`, `length`   | int64[n]    | where each payload lies in it               |
    | `family`             | int64[n]    | 4 or 6                                      |
    | `source_hi`, `_lo`   | int64[n]    | sender, 64-bit halves; IPv4 in `_lo`        |
    | `port`               | int64[n]    | the sender's port                           |
    | `ttl`, `tos`         | int64[n]    | hop limit and traffic class                 |
    | `device`             | int64[n]    | interface index; 0 if the device is gone    |
    | `time_ns`            | int64[n]    | when each came                              |
    """

    data: np.ndarray
    offset: np.ndarray
    length: np.ndarray
    family: np.ndarray
    source_hi: np.ndarray
    source_lo: np.ndarray
    port: np.ndarray
    ttl: np.ndarray
    tos: np.ndarray
    device: np.ndarray
    time_ns: np.ndarray

    def __len__(self) -> int:
        return len(self.offset)

    def payload(self, index: int) -> bytes:
        """The bytes of one datagram."""
        start = int(self.offset[index])
        return self.data[start : start + int(self.length[index])].tobytes()

    def address(self, index: int) -> Any:
        """The sender of one, as `recvfrom` gives it to a socket of the packet's family."""
        family, mask = int(self.family[index]), (1 << 64) - 1
        ip = int(self.source_lo[index])
        if family == 6:
            ip = (int(self.source_hi[index]) & mask) << 64 | ip & mask
        return as_tuple(family, Name(ip, int(self.port[index])))


_COLUMNS = {
    "offset": T.TAKEN_OFFSET, "length": T.TAKEN_LENGTH, "family": T.TAKEN_FAMILY,
    "source_hi": T.TAKEN_SRC_HI, "source_lo": T.TAKEN_SRC_LO, "port": T.TAKEN_SPORT,
    "ttl": T.TAKEN_TTL, "tos": T.TAKEN_TOS, "device": T.TAKEN_DEVICE, "time_ns": T.TAKEN_TIME_NS,
}  # fmt: skip


class Batches(Sending, Receiving):
    """`sendmmsg`, `recvmmsg`, and their twins on arrays."""

    def sendmmsg(self, messages: Iterable[Any], flags: int = 0) -> int:
        """Send up to 1,024 datagrams, each `(buffers[, ancdata[, address]])`; how many were sent.

        It stops at the first that fails, and raises its error if it was the first of all.
        """
        sent = 0
        for message in messages:
            if sent == MOST_MESSAGES:
                break
            buffers, ancdata, address = (*message, (), None)[:3] if len(message) < 3 else message
            try:
                self.sendmsg(buffers, ancdata, flags, address)
            except OSError:
                if sent:
                    break
                raise
            sent += 1
        return sent

    def recvmmsg(
        self, count: int, bufsize: int, ancbufsize: int = 0, flags: int = 0
    ) -> list[tuple[bytes, list[tuple[int, int, bytes]], int, Any]]:
        """Up to `count` datagrams, each as `recvmsg` gives it.

        Waits for all of them; with MSG_WAITFORONE for the first alone.  An error after the first
        datagram is kept for the next call.
        """
        got: list[Any] = []
        once, flags = flags & C.MSG_WAITFORONE, flags & ~C.MSG_WAITFORONE
        while len(got) < count:
            try:
                got.append(self.recvmsg(bufsize, ancbufsize, flags))
            except OSError as problem:
                if not got:
                    raise
                if problem.errno not in (None, errno.EAGAIN):
                    self._error = problem.errno
                break
            if once:
                flags |= C.MSG_DONTWAIT
        return got

    # --- arrays ---------------------------------------------------------------------------------------

    def send_batch(
        self,
        batch: PacketBatch | np.ndarray,
        offset: np.ndarray | None = None,
        length: np.ndarray | None = None,
        *,
        address: Any = None,
        addresses: np.ndarray | None = None,
        ports: np.ndarray | int | None = None,
    ) -> int:
        """Send each packet of a PacketBatch, or of uint8[] with `offset` and `length` (int64[n]).

        They go to `address`, to `addresses` (uint32[n], or for IPv6 uint8[n, 16]) with `ports`, or to
        the peer.  Returns how many were sent: it stops at the first that fails, and raises its error
        if it was the first of all.  Raises ValueError for arrays that do not fit together.
        """
        self._check_open()
        self._autobind()
        if self._cork is not None:
            fail(errno.EINVAL)
        data, offset, length = _payloads(batch, offset, length)
        n = len(offset)
        if n == 0:
            return 0
        self._forget_way()
        targets = None
        if addresses is None:
            message = self._one_message(address)
        else:
            message, targets = self._many_targets(addresses, ports, n)
        if self._next_id is not None:
            message[T.SEND_ID] = self._next_id
        if self._error or self._shut & 2 or self._wire >= self._sndbuf:
            self._before_memory(message, 0)
        end = n if targets is None else _before_port_0(targets)
        done, error = self._transmit_all(data, offset, length, message, targets, end)
        if done == 0 and (error or end < n):
            fail(error or errno.EINVAL)
        return done

    def _one_message(self, address: Any) -> np.ndarray:
        target = None if address is None else self._parse("send_batch", address)
        six = self._six and not self._goes_as_ipv4(target)
        row, _ = self._begin6(target, ()) if six else self._begin4(target, ())
        return row

    def _many_targets(
        self, addresses: np.ndarray, ports: Any, n: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """A message for all of the addresses, which are of one family, and the targets."""
        four = addresses.ndim == 1
        if addresses.shape != ((n,) if four else (n, 16)):
            raise ValueError(f"addresses has shape {addresses.shape}, not ({n},) or ({n}, 16)")
        if ports is None or np.ndim(ports) and np.shape(ports) != (n,):
            raise ValueError(f"ports has shape {np.shape(ports)}, not ({n},)")
        if four and self._six and self._options[C.SOL_IPV6, C.IPV6_V6ONLY]:
            fail(errno.ENETUNREACH)
        if not four and not self._six:
            fail(errno.EAFNOSUPPORT)
        row = self._family_template(4 if four else 6)
        source = self._source & 0xFFFFFFFF if four else self._source or self._sticky_source
        if not four and is_mapped(source):
            fail(errno.EAFNOSUPPORT)
        row[T.SEND_SRC_HI : T.SEND_SRC_LO + 1] = halves(source)
        targets = np.zeros((n, T.TARGET_COLUMNS), np.int64)
        if four:
            targets[:, T.TARGET_LO] = addresses
        else:
            words = np.ascontiguousarray(addresses, np.uint8).view(">u8").astype(np.uint64)
            targets[:, T.TARGET_HI : T.TARGET_LO + 1] = words.view(np.int64)
        targets[:, T.TARGET_PORT] = ports
        return row, targets

    def _transmit_all(
        self, data: np.ndarray, offset: np.ndarray, length: np.ndarray, message: np.ndarray,
        targets: np.ndarray | None, end: int,
    ) -> tuple[int, int]:  # fmt: skip
        """How many of `end` were sent, and the errno that stopped it or 0.

        A connected socket hears of an answer before it sends the next, as it does in Linux.
        """
        messages = message.reshape(1, -1)
        if self._netns.switches["send_options"] == "off" and end > 1:
            messages = _a_message_each(message, length)
        datagrams = outgoing(data, offset, length, messages, targets, self._way)
        each = self._peer is not None
        done = self._netns.transmit(datagrams, end=end, each=each, sender=self)
        last = messages[min(done, len(messages)) - 1] if done else message
        if last[T.SEND_ID] != T.NONE:
            self._next_id = int(last[T.SEND_ID])
        error = int(last[T.SEND_ERROR])
        return (done - 1 if error else done), error

    def receive_batch(self, most: int | None = None, flags: int = 0) -> Datagrams:
        """All datagrams that wait, or the first `most`, as arrays; waits for the first as `recv` does.

        Arrays that came together are handed on as they are, without a copy.
        """
        self._check_open()
        self._wait_for_data(flags)
        whole = len(self._chunks[0][0]) if self._chunks else 0
        if whole and not self._queue and not self._reading and (most is None or whole <= most):
            rows, data = self._chunks.popleft()
            if rows[:, T.TAKEN_VALID].all():
                self._release_rows(rows)
                return _datagrams(rows, data)
            self._chunks.appendleft((rows, data))
        return self._gather(most)

    def _gather(self, most: int | None) -> Datagrams:
        """The same from datagrams that are kept one by one."""
        rows: list[list[int]] = []
        parts: list[bytes] = []
        while most is None or len(rows) < most:
            self._drop_invalid()
            if not self._waits():
                break
            one = self._front().popleft()
            self._release(one)
            self._count(one, "InDatagrams")
            rows.append(one.row)
            parts.append(one.payload)
        table = np.array(rows, np.int64).reshape(-1, T.TAKEN_COLUMNS)
        sizes = np.array([len(p) for p in parts], np.int64)
        table[:, T.TAKEN_LENGTH] = sizes
        table[:, T.TAKEN_OFFSET] = np.cumsum(sizes) - sizes
        return _datagrams(table, np.frombuffer(bytearray(b"".join(parts)), np.uint8))

    def _release_rows(self, rows: np.ndarray) -> None:
        """Give memory back and count, for many at once."""
        queue = self._netns.queue_of(self._number)
        queue[T.SOCKQ_PACKETS] -= len(rows)
        queue[T.SOCKQ_BYTES] -= int(rows[:, T.TAKEN_CHARGE].sum())
        self._count_many(rows[:, T.TAKEN_FAMILY])


def _payloads(
    batch: PacketBatch | np.ndarray, offset: np.ndarray | None, length: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arena, offsets and lengths, checked."""
    if isinstance(batch, PacketBatch):
        data, offset, length = batch.data, batch.offset, batch.length
    else:
        data = batch
    if data.dtype != np.uint8 or data.ndim != 1 or offset is None or length is None:
        raise ValueError("payloads are uint8[] with offset and length, or a PacketBatch")
    offset = np.ascontiguousarray(offset, np.int64)
    length = np.ascontiguousarray(length, np.int64)
    if offset.ndim != 1 or offset.shape != length.shape:
        raise ValueError(f"length has shape {length.shape}, not {offset.shape}")
    outside = np.flatnonzero((offset < 0) | (length < 0) | (length > len(data) - offset))
    if len(outside):
        row = int(outside[0])
        raise ValueError(
            f"payload {row} lies outside the arena: {offset[row]}, {length[row]} bytes"
        )
    if not data.flags.c_contiguous or len(data) == 0:
        data = np.concatenate([data, np.zeros(1, np.uint8)])
    return data, offset, length


def _before_port_0(targets: np.ndarray) -> int:
    """How many stand before the first that has no port."""
    bad = np.flatnonzero(targets[:, T.TARGET_PORT] == 0)
    return int(bad[0]) if len(bad) else len(targets)


def _a_message_each(message: np.ndarray, length: np.ndarray) -> np.ndarray:
    """The message once more for each datagram, with the identification that it comes to."""
    messages = np.repeat(message.reshape(1, -1), len(length), axis=0)
    if message[T.SEND_ID] != T.NONE:
        segment = int(message[T.SEND_SEGMENT])
        packets = np.maximum(-(-length // segment), 1) if segment else np.ones_like(length)
        messages[:, T.SEND_ID] += np.cumsum(packets) - packets
    return messages


def _datagrams(rows: np.ndarray, data: np.ndarray) -> Datagrams:
    return Datagrams(data, **{name: rows[:, column] for name, column in _COLUMNS.items()})
