"""asyncio on a lab: transports, timers and whole libraries in simulated time."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

import ippath.socket as socket
from ippath import Link, aio
from ippath.socket import WouldBlockForever
from tests.test_lab import bound, two

THERE = "192.0.2.2"


class Echo(asyncio.DatagramProtocol):
    """Answers in capitals."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.transport.sendto(data.upper(), addr)


class Keep(asyncio.DatagramProtocol):
    """Keeps all that happens."""

    def __init__(self) -> None:
        self.seen: asyncio.Queue[Any] = asyncio.Queue()

    def connection_made(self, transport: Any) -> None:
        self.seen.put_nowait("made")

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.seen.put_nowait((data, addr))

    def error_received(self, exc: Exception) -> None:
        self.seen.put_nowait(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        self.seen.put_nowait(("lost", exc))


def on_two(main: Any, link: Link | None = None) -> Any:
    """Run `main(here, there)` on the first of two hosts."""
    lab, here, there = two(link or Link(delay=0.01))
    return aio.run(main(here, there), lab=lab, host=here)


def endpoint(protocol: Any, **given: Any) -> Any:
    return asyncio.get_running_loop().create_datagram_endpoint(protocol, **given)


def test_a_protocol_as_it_is() -> None:
    async def main(here: Any, there: Any) -> list[Any]:
        with aio.on(there):
            await endpoint(Echo, local_addr=(THERE, 7))
        transport, keep = await endpoint(Keep, remote_addr=(THERE, 7))
        assert transport.get_extra_info("peername") == (THERE, 7)
        transport.sendto(b"hello")
        seen = [await keep.seen.get() for _ in range(2)]
        seen.append(asyncio.get_running_loop().time())
        transport.close()
        assert transport.is_closing()
        seen.append(await keep.seen.get())
        return seen

    assert on_two(main) == ["made", (b"HELLO", (THERE, 7)), 0.02, ("lost", None)]


def test_sleep_and_timeouts_take_no_time() -> None:
    async def main(here: Any, there: Any) -> list[float]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(100_000)
        times = [loop.time()]
        _, keep = await endpoint(Keep, local_addr=("192.0.2.1", 0))
        assert await keep.seen.get() == "made"
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(keep.seen.get(), 5)
        return [*times, loop.time()]

    assert on_two(main) == [100_000.0, 100_005.0]


def test_errors_reach_the_protocol() -> None:
    async def main(here: Any, there: Any) -> int:
        transport, keep = await endpoint(Keep, remote_addr=(THERE, 9))
        transport.sendto(b"nobody")
        assert await keep.seen.get() == "made"
        problem = await keep.seen.get()
        return int(problem.errno)

    assert on_two(main) == errno.ECONNREFUSED


def test_tasks_of_several_hosts() -> None:
    """A task keeps the host that it was started on."""

    async def ask(name: str) -> Any:
        transport, keep = await endpoint(Keep, remote_addr=(THERE, 7))
        await keep.seen.get()
        await asyncio.sleep(1)
        transport.sendto(name.encode())
        return transport.get_extra_info("sockname")[0], (await keep.seen.get())[0]

    async def main(here: Any, there: Any) -> list[Any]:
        with aio.on(there):
            await endpoint(Echo, local_addr=("0.0.0.0", 7))
            theirs = asyncio.create_task(ask("there"))
        mine = asyncio.create_task(ask("here"))
        return [await mine, await theirs]

    assert on_two(main) == [("192.0.2.1", b"HERE"), (THERE, b"THERE")]


def test_a_full_buffer_waits() -> None:
    async def main(here: Any, there: Any) -> list[Any]:
        taker = bound(there, THERE)
        transport, _ = await endpoint(Keep, remote_addr=(THERE, 7))
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        for k in range(20):
            transport.sendto(bytes([k]) * 900)
        waiting = transport.get_write_buffer_size()
        await asyncio.sleep(10)
        taker.settimeout(0)
        return [
            waiting > 0,
            transport.get_write_buffer_size(),
            [taker.recv(999)[0] for _ in range(20)],
        ]

    assert on_two(main, Link(rate=100_000)) == [True, 0, list(range(20))]


def test_nothing_will_ever_happen() -> None:
    async def main(here: Any, there: Any) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(WouldBlockForever, match="all tasks would wait for ever"):
        on_two(main)


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda t: t.sendto("text"), "must be a bytes-like object, not 'str'"),
        (lambda t: t.sendto(b"x", ("192.0.2.3", 7)), "Invalid address: must be None or"),
    ],
)
def test_wrong_calls(call, said) -> None:
    async def main(here: Any, there: Any) -> None:
        transport, _ = await endpoint(Keep, remote_addr=(THERE, 7))
        with pytest.raises((TypeError, ValueError), match=said):
            call(transport)

    on_two(main)


# --- libraries from PyPI, where they are installed -----------------------------------------------------


def test_dnspython() -> None:
    """Its stub resolver asks a server that is a lab's host; the first question is lost."""
    pytest.importorskip("dns")
    import dns.asyncquery
    import dns.flags
    import dns.message
    import dns.rrset

    class Server(asyncio.DatagramProtocol):
        def connection_made(self, transport: Any) -> None:
            self.transport, self.asked = transport, 0

        def datagram_received(self, data: bytes, addr: Any) -> None:
            self.asked += 1
            if self.asked == 1:
                return
            answer = dns.message.make_response(dns.message.from_wire(data))
            answer.answer.append(dns.rrset.from_text("example.org.", 60, "IN", "A", "203.0.113.5"))
            self.transport.sendto(answer.to_wire(), addr)

    async def main(here: Any, there: Any) -> tuple[str, float]:
        with aio.on(there):
            await endpoint(Server, local_addr=(THERE, 53))
        question = dns.message.make_query("example.org.", "A")
        for _ in range(2):
            try:
                answer = await dns.asyncquery.udp(question, THERE, timeout=3)
            except dns.exception.Timeout:
                continue
        return answer.answer[0].to_text(), asyncio.get_running_loop().time()

    text, seconds = on_two(main)
    # it reckons its deadline by the real clock, too, so that the lab's time may be a little shorter
    assert text == "example.org. 60 IN A 203.0.113.5" and 1 < seconds < 3.1


def test_aiocoap() -> None:
    """A CoAP client and server, unchanged."""
    aiocoap = pytest.importorskip("aiocoap")
    from aiocoap import resource

    class Clock(resource.Resource):
        async def render_get(self, request: Any) -> Any:
            return aiocoap.Message(payload=b"tick" * 500)  # in blocks of 1,024 bytes

    async def main(here: Any, there: Any) -> bytes:
        site = resource.Site()
        site.add_resource(["clock"], Clock())
        with aio.on(there):
            server = await aiocoap.Context.create_server_context(
                site, bind=(THERE, 5683), transports=["simplesocketserver"]
            )
        client = await aiocoap.Context.create_client_context(transports=["simple6"])
        request = aiocoap.Message(code=aiocoap.GET, uri=f"coap://{THERE}/clock")
        answer = await client.request(request).response
        await client.shutdown()
        await server.shutdown()
        return bytes(answer.payload)

    assert on_two(main, Link(delay=0.01, loss=0.1)) == b"tick" * 500
