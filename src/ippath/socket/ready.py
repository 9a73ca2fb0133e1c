"""Datagrams like those before: checked once, filled in once, sent again and again.

A socket that sends to an address for the second time without flags or ancillary data keeps the
message, until an option, a name or the host changes.  What is left to do for the third datagram
is to copy its payload and to make the compiled call.
"""

from __future__ import annotations

import errno
from typing import Any, NamedTuple

import numpy as np

from ippath import tables as T
from ippath.handles import Handle
from ippath.netns import outgoing
from ippath.socket import constants as C
from ippath.socket.addresses import Name, fail
from ippath.socket.base import Base
from ippath.socket.errors import ORIGIN_LOCAL, QueuedError

MOST_ADDRESSES = 256  # kept at a time
LARGEST = 2048  # bytes of payload; larger datagrams cost more than what is saved here


class Ready(NamedTuple):
    """A message to an address, with all that is needed to send it."""

    datagrams: Handle
    row: np.ndarray  # the message
    where: Name
    version: int  # of the host


class Readiness(Base):
    """Keeps messages that are likely to be sent again."""

    _cork: Any = None  # the datagram that grows, if one does
    _payload = bytearray()
    _length = np.zeros(1, np.int64)

    def _again(self, address: Any, data: Any) -> int | None:
        """Send to an address as before: how many bytes; None if it takes more thought."""
        try:
            ready = self._ready.get(address)
        except TypeError:  # no address at all
            return None
        if ready is None or type(data) is not bytes or self._error or self._wire:
            return None
        size = len(data)
        if size > LARGEST or ready.version != self._netns.version or self._cork is not None:
            return None
        if address and type(address[1]) is not int:
            return None
        self._payload[:size] = data
        self._length[0] = size
        if self._next_id is not None:
            ready.row[T.SEND_ID] = self._next_id
        self._forget_way()
        self._netns.transmit(ready.datagrams, end=1, sender=self)
        self._finish(ready.row, ready.where)
        return size

    def _keep_ready(self, address: Any, row: np.ndarray, where: Name) -> None:
        """A datagram went to an address: the next one may be like it."""
        if address and not _is_plain(address):
            return
        if address in self._ready:
            self._ready[address] = Ready(self._parcel(row), row, where, self._netns.version)
            return
        if len(self._ready) >= MOST_ADDRESSES:
            self._ready.clear()
        self._ready[address] = None

    def _parcel(self, row: np.ndarray) -> Handle:
        """Arrays for one datagram; all that are ready share a buffer."""
        if not self._payload:
            self._payload, self._length = bytearray(LARGEST), np.zeros(1, np.int64)
        data = np.frombuffer(self._payload, np.uint8)
        return outgoing(data, np.zeros(1, np.int64), self._length, row, way=self._way)

    def _forget_way(self) -> None:
        """Have a route looked up at the next datagram, unless the socket remembers its own."""
        if not self._way[T.WAY_OWNED]:
            self._way[T.WAY_GENERATION] = 0

    def _finish(self, row: np.ndarray, where: Name) -> None:
        """See what came of a message; raises its errno."""
        error = row.item(T.SEND_ERROR)
        if error == errno.EMSGSIZE:
            self._too_large(row, where)
        if error:
            fail(error)
        if self._next_id is not None and row[T.SEND_ID] != T.NONE:
            self._next_id = row.item(T.SEND_ID)

    def _too_large(self, row: np.ndarray, where: Name) -> None:
        """A datagram was too large: an entry in the error queue, if anybody wants it."""
        four = row[T.SEND_FAMILY] == 4
        wanted = (C.SOL_IP, C.IP_RECVERR) if four else (C.SOL_IPV6, C.IPV6_RECVERR)
        if self._options[wanted]:
            name = Name(where.ip & 0xFFFFFFFF, where.port) if four else where
            self._errors.append(
                QueuedError(
                    errno.EMSGSIZE, ORIGIN_LOCAL, info=int(row[T.SEND_INFO]),
                    family=4 if four else 6, destination=name,
                )
            )  # fmt: skip


def _is_plain(address: Any) -> bool:
    """A pair of a host and a port, as most addresses are."""
    return len(address) == 2 and type(address[0]) is str and type(address[1]) is int
