"""A scenario: a host in lines of a host file, and timed steps that it is put through.

Plain values without input or output; `ippath.verify.scenario_file` reads and writes them,
`ippath.verify.on_kernel` and `ippath.verify.on_ippath` run them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Inject:
    """Packets one at a time: each has its own outputs, counters and drops."""

    device: str
    packets: dict[str, bytes]  # by a label that is unique within the step


@dataclass(frozen=True)
class Burst:
    """Packets one at a time but in quick succession, judged together (for rate limits)."""

    device: str
    packets: dict[str, bytes]


@dataclass(frozen=True)
class Together:
    """Packets as one receive list (at most 8)."""

    device: str
    packets: dict[str, bytes]


@dataclass(frozen=True)
class Wait:
    """Let time pass; what the host does meanwhile is recorded.

    `busy`: the kernel's executor keeps the processor, so that drops by timers happen under its name
    and are seen.
    """

    seconds: float
    busy: bool = False


@dataclass(frozen=True)
class Run:
    """Change the host between packets, by lines like those of the host text."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Send:
    """Send a datagram from a socket, as `sendmsg` does."""

    socket: int  # number of the `listen` line, from 0
    payload: bytes
    to: tuple[str, int] | None = None  # None: to the peer of a connected socket
    ttl: int | None = None
    tos: int | None = None
    device: str | None = None  # packet information: the device to leave by
    source: str | None = None  # packet information: the address to send from


@dataclass(frozen=True)
class RouteGet:
    """Ask for a route, in the words of `ip route get`."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class ShowCache:
    """Ask what was learned about destinations, as `ip route show cache` does."""

    family: int = 4


Step = Inject | Burst | Together | Wait | Run | Send | RouteGet | ShowCache
WITH_PACKETS = (Inject, Burst, Together)


@dataclass(frozen=True)
class Scenario:
    """One host and what is done to it.

    `ignore` names what is not compared: "timestamp option", "icmp timestamp" (clock readings in
    packets that the host makes).
    """

    name: str
    subject: str
    host: str
    steps: tuple[Step, ...]
    ignore: tuple[str, ...] = ()

    @property
    def packets(self) -> int:
        """How many packets are injected."""
        return sum(len(s.packets) for s in self.steps if isinstance(s, WITH_PACKETS))
