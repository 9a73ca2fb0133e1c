"""The UDP socket as a whole."""

from __future__ import annotations

import errno
from typing import Any, Self

from ippath.netns import Netns
from ippath.socket import constants as C
from ippath.socket.addresses import fail
from ippath.socket.batches import Batches
from ippath.socket.options import Options

# the longest timeout that the standard library takes, in seconds
LONGEST = (1 << 63) / 10**9


class Socket(Batches, Options):
    """A UDP or UDP-Lite socket in a `Netns`; methods and exceptions are those of `socket.socket`.

    A call that waits lets the time of the lab pass, without sleeping; where nothing is on its way it
    raises `WouldBlockForever`.
    """

    def __init__(
        self, netns: Netns, family: int = C.AF_INET, type: int = C.SOCK_DGRAM, proto: int = 0
    ):
        """Raises the OSError that the kernel has for what is not UDP over IPv4 or IPv6."""
        kind = type & ~(C.SOCK_NONBLOCK | C.SOCK_CLOEXEC)
        if family not in (C.AF_INET, C.AF_INET6):
            fail(errno.EAFNOSUPPORT)
        if kind != C.SOCK_DGRAM:
            fail(errno.ESOCKTNOSUPPORT)
        if proto not in (0, C.IPPROTO_UDP, C.IPPROTO_UDPLITE):
            fail(errno.EPROTONOSUPPORT)
        super().__init__(netns, int(family), proto)
        if type & C.SOCK_NONBLOCK:
            self._timeout = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " [closed]" if self._closed else ""
        named = "" if self._closed or not self._bound else f", laddr={self.getsockname()}"
        if not self._closed and self._peer is not None and self._peer.port:
            named += f", raddr={self.getpeername()}"
        return f"<ippath.socket.Socket{state} family={self.family}, proto={self.proto}{named}>"

    def close(self) -> None:
        """Give address, port and all that is queued back."""
        if not self._closed:
            self._closed = True
            self._close()
            self._queue.clear()
            self._chunks.clear()
            self._reading.clear()
            self._errors.clear()

    def fileno(self) -> int:
        """-1: there is no file descriptor behind it."""
        return -1

    def settimeout(self, value: float | None) -> None:
        """Seconds of the lab's time that calls wait: None for ever, 0 not at all."""
        if value is not None:
            value = float(value)
            if value != value:
                raise ValueError("Invalid value NaN (not a number)")
            if value < 0:
                raise ValueError("Timeout value out of range")
            if value > LONGEST:
                raise OverflowError("timestamp too large to convert to C _PyTime_t")
        self._check_open()
        self._timeout = value

    def gettimeout(self) -> float | None:
        """Seconds that calls wait."""
        return self._timeout

    @property
    def timeout(self) -> float | None:
        """Seconds that calls wait."""
        return self._timeout

    def setblocking(self, flag: bool) -> None:
        """`settimeout(None)` or `settimeout(0)`."""
        self.settimeout(None if flag else 0.0)

    def getblocking(self) -> bool:
        """Whether calls wait at all."""
        return self._timeout != 0.0

    def listen(self, backlog: int = 0) -> None:
        """A UDP socket never listens."""
        self._check_open()
        fail(errno.EOPNOTSUPP)

    def accept(self) -> Any:
        """A UDP socket never accepts."""
        self._check_open()
        fail(errno.EOPNOTSUPP)


def socket(
    family: int = C.AF_INET, type: int = C.SOCK_DGRAM, proto: int = 0, *, netns: Netns
) -> Socket:
    """A UDP socket in `netns`."""
    return Socket(netns, family, type, proto)
