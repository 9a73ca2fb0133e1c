"""asyncio on a lab: an event loop whose time is the lab's, and datagram transports of its hosts.

Programs and libraries that use `loop.create_datagram_endpoint` run unchanged; `sleep` and timeouts
take no real time.  Which host an endpoint belongs to is a matter of context: see `on`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import socket as std
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from ippath.lab import Lab
from ippath.netns import Netns
from ippath.socket import Socket, WouldBlockForever
from ippath.socket import constants as C

LARGEST = 256 * 1024  # bytes read at once, as asyncio's own transports do
SECOND = 10**9
R = TypeVar("R")
_host: contextvars.ContextVar[Netns] = contextvars.ContextVar("host")


@contextlib.contextmanager
def on(host: Netns) -> Iterator[None]:
    """Endpoints made within, and by tasks started within, belong to `host`."""
    token = _host.set(host)
    try:
        yield
    finally:
        _host.reset(token)


def run(main: Coroutine[Any, Any, R], *, lab: Lab, host: Netns) -> R:
    """Run a coroutine on a host of the lab, as `asyncio.run` does; its time is the lab's.

    Raises `WouldBlockForever` if all tasks wait for what can never come.
    """
    loop = LabEventLoop(lab)
    asyncio.set_event_loop(loop)
    try:
        with on(host):
            task = loop.create_task(main)
        return loop.run_until_complete(task)
    finally:
        try:
            _cancel_all(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_all(loop: LabEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


class _Selector:
    """Waits as a selector does, by letting the lab's time pass."""

    def __init__(self, loop: LabEventLoop):
        self.loop = loop

    def select(self, timeout: float | None) -> list[LabTransport]:
        """Transports that have something to do, after `timeout` seconds at the latest."""
        lab = self.loop.lab
        until = None if timeout is None else lab.now_ns + max(0, round(timeout * SECOND))
        while True:
            ready = self.loop.busy()
            if ready or (until is not None and lab.now_ns >= until):
                return ready
            if not lab.step(until):
                raise WouldBlockForever("nothing is on its way: all tasks would wait for ever")
            if self.loop.has_work():
                return self.loop.busy()

    def close(self) -> None:
        """Nothing is open."""


class LabEventLoop(asyncio.BaseEventLoop):
    """An event loop for the hosts of a lab; it has datagram endpoints and no other connections."""

    def __init__(self, lab: Lab):
        super().__init__()
        self.lab = lab
        self._clock_resolution = 1e-9
        self._selector = _Selector(self)
        self._endpoints: list[LabTransport] = []

    def time(self) -> float:
        """The lab's clock, in seconds."""
        return self.lab.now_ns / SECOND

    def busy(self) -> list[LabTransport]:
        """Transports that can read, or write what waits."""
        return [one for one in self._endpoints if one.is_busy()]

    def has_work(self) -> bool:
        """Whether callbacks wait to be called."""
        return bool(self._ready)  # type: ignore[attr-defined]

    def _process_events(self, event_list: list[LabTransport]) -> None:
        for transport in event_list:
            self.call_soon(transport.work, context=transport.context)

    def _write_to_self(self) -> None:
        """Nothing sleeps that could be woken."""

    def close(self) -> None:
        """Close the endpoints that are left, and the loop."""
        for transport in list(self._endpoints):
            transport.abandon()
        super().close()

    def watch(self, transport: LabTransport) -> None:
        """Look after a transport from now on."""
        self._endpoints.append(transport)

    def forget(self, transport: LabTransport) -> None:
        """Look after a transport no more."""
        if transport in self._endpoints:
            self._endpoints.remove(transport)

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        """Addresses that are numbers already, and `localhost`; no name is looked up."""
        if host == "localhost":
            host = "::1" if family == std.AF_INET6 else "127.0.0.1"
        return std.getaddrinfo(host, port, family, type, proto, flags | std.AI_NUMERICHOST)

    async def create_datagram_endpoint(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], Any],
        local_addr: Any = None,
        remote_addr: Any = None,
        *,
        family: int = 0,
        proto: int = 0,
        flags: int = 0,
        reuse_port: bool | None = None,
        allow_broadcast: bool | None = None,
        sock: Any = None,
    ) -> tuple[LabTransport, Any]:
        """An endpoint of the host of the context, see `asyncio.loop.create_datagram_endpoint`.

        A `sock` of this machine gives its family and name, and is closed.
        """
        if sock is None:
            named = local_addr or remote_addr
            found = await self.getaddrinfo(
                *(named or ("127.0.0.1", 0))[:2], family=family, type=C.SOCK_DGRAM, proto=proto
            )
            sock = self._host().socket(found[0][0], C.SOCK_DGRAM, proto)
            if reuse_port:
                sock.setsockopt(C.SOL_SOCKET, C.SO_REUSEPORT, 1)
            if allow_broadcast:
                sock.setsockopt(C.SOL_SOCKET, C.SO_BROADCAST, 1)
            if local_addr:
                sock.bind(local_addr)
            if remote_addr:
                sock.connect(remote_addr)
        elif not isinstance(sock, Socket):
            sock = self._adopted(sock)
        protocol = protocol_factory()
        transport = LabTransport(self, sock, protocol)
        self.watch(transport)
        self.call_soon(protocol.connection_made, transport)
        await asyncio.sleep(0)
        return transport, protocol

    def _host(self) -> Netns:
        try:
            return self.lab.add(_host.get())
        except LookupError:
            raise RuntimeError("no host: start the task within `ippath.aio.on(host)`") from None

    def _adopted(self, real: std.socket) -> Socket:
        one = self._host().socket(int(real.family), C.SOCK_DGRAM, real.proto)
        if real.family == std.AF_INET6:
            only = real.getsockopt(std.IPPROTO_IPV6, std.IPV6_V6ONLY)
            one.setsockopt(C.SOL_IPV6, C.IPV6_V6ONLY, only)
        name = real.getsockname()
        real.close()
        if name[1]:
            one.bind(name)
        return one


class LabTransport(asyncio.DatagramTransport):
    """A datagram transport over a socket of a lab's host."""

    def __init__(self, loop: LabEventLoop, sock: Socket, protocol: Any):
        sock.settimeout(0)
        extra: dict[str, Any] = {"socket": sock, "sockname": sock.getsockname()}
        try:
            extra["peername"] = sock.getpeername()
        except OSError:
            extra["peername"] = None
        super().__init__(extra)
        self.context = contextvars.copy_context()
        self._loop, self._sock, self._protocol = loop, sock, protocol
        self._waiting: deque[tuple[bytes, Any]] = deque()
        self._closing = False

    def is_busy(self) -> bool:
        """Whether there is something to read, or room for what waits to be sent."""
        bits = self._sock.poll()
        return bool(bits & (C.POLLIN | C.POLLERR) or (self._waiting and bits & C.POLLOUT))

    def work(self) -> None:
        """Send what waits, give a datagram or an error to the protocol."""
        while self._waiting and self._sock.poll() & C.POLLOUT:
            self._send(*self._waiting.popleft())
        if self._closing:
            if not self._waiting:
                self._finish()
            return
        try:
            data, sender = self._sock.recvfrom(LARGEST)
        except BlockingIOError:
            self._drop_errors()
        except OSError as problem:
            self._protocol.error_received(problem)
        else:
            self._protocol.datagram_received(data, sender)

    def _drop_errors(self) -> None:
        """Nobody reads the error queue of a transport: it must not keep the loop awake."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self._sock.recvmsg(0, 0, C.MSG_ERRQUEUE)

    def sendto(self, data: Any, addr: Any = None) -> None:
        """Send a datagram; it waits where the host's send buffer is full."""
        if not isinstance(data, bytes | bytearray | memoryview):
            kind = type(data).__name__
            raise TypeError(f"data argument must be a bytes-like object, not {kind!r}")
        peer = self.get_extra_info("peername")
        if peer and addr not in (None, peer, peer[:2]):
            raise ValueError(f"Invalid address: must be None or {peer}")
        if not data:
            return
        if self._waiting:
            self._waiting.append((bytes(data), addr))
        else:
            self._send(bytes(data), addr)

    def _send(self, data: bytes, addr: Any) -> None:
        try:
            if self.get_extra_info("peername"):
                self._sock.send(data)
            else:
                self._sock.sendto(data, addr)
        except BlockingIOError:
            self._waiting.append((data, addr))
        except OSError as problem:
            self._protocol.error_received(problem)

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing

    def close(self) -> None:
        """Close when all that waits has been sent."""
        if not self._closing:
            self._closing = True
            if not self._waiting:
                self._loop.call_soon(self._finish)

    def abort(self) -> None:
        """Close at once."""
        self._waiting.clear()
        self.close()

    def abandon(self) -> None:
        """Close without telling the protocol."""
        self._loop.forget(self)
        self._sock.close()

    def _finish(self) -> None:
        if self._protocol is not None:
            protocol, self._protocol = self._protocol, None
            self.abandon()
            protocol.connection_lost(None)

    def get_protocol(self) -> Any:
        """The protocol that gets what arrives."""
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        """Another protocol gets what arrives from now on."""
        self._protocol = protocol

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be sent."""
        return sum(len(data) for data, _ in self._waiting)
