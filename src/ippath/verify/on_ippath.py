"""Runs scenarios in ippath, with the same kind of answer as `ippath.verify.on_kernel`."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Sequence
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from ippath.batch import PacketBatch
from ippath.netns import Netns, Taken
from ippath.verify.compare import LATE
from ippath.verify.outcome import Answer, Datagram, Outcome
from ippath.verify.scenario import (
    WITH_PACKETS, Burst, Inject, RouteGet, Run, Scenario, Send, ShowCache, Step, Together, Wait,
)  # fmt: skip

START_NS = 1_700_000_000 * 10**9
PAUSE_NS, BURST_NS = 10**6, 10**5  # before a step, and between the packets of a burst
# as `namespace.enter_new_network` leaves it: no link-local addresses come by themselves
PREPARED = """\
net.ipv6.conf.all.addr_gen_mode = 1
net.ipv6.conf.default.addr_gen_mode = 1
"""
_LISTS = {"receive_list_gap": "0"}  # receive lists are what the steps say


@dataclass
class _Waiting:
    """Packets that are not received yet, and where their outcomes go."""

    outcome: Outcome
    times: list[int]


class Ippath:
    """ippath as an executor of scenarios; `seed` starts its randomness."""

    def __init__(self, *, switches: dict[str, str] | None = None, seed: int = 1):
        self.switches, self.seed = {**(switches or {}), **_LISTS}, seed

    def run(
        self, scenario: Scenario, *, counters: bool = True, times: Sequence[int] | None = None
    ) -> Answer:
        """What ippath does; with `counters` after each packet, else only in all.

        `times` are the clocks of the outcomes in another answer, in nanoseconds: rate limits then
        see the same time.  Raises `ippath.config.HostErrors` for a wrong line.
        """
        return _Session(scenario, self.switches, self.seed, counters, times).run()


class _Session:
    def __init__(
        self,
        scenario: Scenario,
        switches: dict[str, str],
        seed: int,
        counters: bool,
        times: Sequence[int] | None,
    ):
        from ippath.config import parse_host

        self.steps, self.counters, self.given = scenario.steps, counters, times
        self.text = PREPARED + scenario.host
        self.netns = Netns(parse_host(self.text), switches=switches, seed=seed)
        self.now = START_NS
        self.outcomes: list[Outcome] = []
        self.waiting: list[_Waiting] = []
        self.before: dict[str, int] = {}
        self.dropped: dict[str, int] = {}

    def run(self) -> Answer:
        for step in self.steps:
            if isinstance(step, WITH_PACKETS):
                self.take(step)
                continue
            self.flush()
            self.other(step)
        self.flush()
        self.netns.close_accounts()
        return Answer(self.outcomes, self.netns.counters())

    # --- packets --------------------------------------------------------------------------------------

    def take(self, step: Inject | Burst | Together) -> None:
        """Receive the packets of a step, or keep them until there are more."""
        packets = tuple(step.packets.items())
        parts = [(p,) for p in packets] if isinstance(step, Inject) else [packets]
        kind = {Inject: "packet", Burst: "burst", Together: "list"}[type(step)]
        gap = BURST_NS if isinstance(step, Burst) else 0
        if kind == "list":
            self.flush()
        for part in parts:
            labels, raw = zip(*part) if part else ((), ())
            start = self.clock()
            times = [start + k * gap for k in range(len(part))]
            self.now = max(self.now, start, *times)
            self.waiting.append(_Waiting(Outcome(kind, labels, step.device, raw), times))
            self.outcomes.append(self.waiting[-1].outcome)
            if self.counters or kind == "list":
                self.flush()

    def clock(self) -> int:
        """When the next step begins."""
        if self.given is None:
            return self.now + PAUSE_NS
        return self.given[len(self.outcomes)] - self.given[0] + START_NS

    def flush(self) -> None:
        """Receive all that wait as one batch and share out what came of it."""
        waiting, self.waiting = self.waiting, []
        if not waiting:
            return
        batch, owner = self.batch_of(waiting)
        lists = waiting[0].outcome.kind == "list"
        verdicts = self.netns.receive(
            batch, lists=lists, collect_output=True, collect_datagrams=True
        )
        for at, reason in enumerate(verdicts.reason_names):
            if reason != "NONE":
                owner[at].drops.append((reason, ""))
        for at in np.flatnonzero(verdicts.unsupported).tolist():
            owner[at].unsupported.append(verdicts.reason_names[at])
        self.note_late(waiting[-1].outcome, alone=len(waiting) == 1)
        self.share_out(lambda cause: owner[cause - batch.first_frame])

    def note_late(self, outcome: Outcome, *, alone: bool) -> None:
        """What was dropped beside the packets: fragments that had been held; in the last outcome.

        If it is `alone`, also packets that it made the host send to itself.
        """
        now = self.netns.totals().reasons
        more = Counter({name: n - self.dropped.get(name, 0) for name, n in now.items()})
        more.subtract(reason for reason, _ in outcome.drops)
        self.dropped = now
        outcome.late = {name: n for name, n in more.items() if name in LATE and n > 0}
        if alone:
            outcome.drops += [(n, "") for n in sorted(more.elements()) if n not in LATE]

    def batch_of(self, waiting: list[_Waiting]) -> tuple[PacketBatch, list[Outcome]]:
        rows = {device.name: k for k, device in enumerate(self.netns.host.devices)}
        packets = [p for w in waiting for p in w.outcome.packets]
        owner = [w.outcome for w in waiting for _ in w.outcome.packets]
        batch = PacketBatch.from_packets(packets)
        batch.time_ns = np.array([t for w in waiting for t in w.times], np.int64)
        batch.device = np.array([rows[o.device] for o in owner], np.int32)
        kinds = {name: self.netns.output_link_type(name) for name in rows}
        batch.link_type = np.array([kinds[o.device] for o in owner], np.int32)
        return batch, owner

    def share_out(self, owner_of: Any) -> None:
        """Give what was sent and taken to the outcomes of its causes."""
        for sent in self.netns.take_output():
            owner_of(sent.cause).out.setdefault(sent.device, []).append(sent.packet)
        for taken in self.netns.take_datagrams():
            owner_of(taken.cause).datagrams.append(self.datagram(taken))
        if self.counters:
            now = self.netns.counters()
            last = self.outcomes[-1]
            last.counters = {
                k: v - self.before.get(k, 0) for k, v in now.items() if v != self.before.get(k, 0)
            }
            self.before = now

    def datagram(self, taken: Taken) -> Datagram:
        """As the socket's owner sees it: an IPv6 socket gives IPv4 addresses in IPv6 clothes."""
        source = taken.source
        ancillary: dict[str, Any] = {"device": taken.device}
        if ":" in source:
            source, addr = as_printed(source), as_printed(taken.destination)
            ancillary |= {"hoplimit": taken.ttl, "tclass": taken.tos, "addr": addr}
        else:
            ancillary |= {"spec_dst": taken.spec_dst, "ttl": taken.ttl, "tos": taken.tos}
            ancillary["addr"] = taken.destination
            if self.netns.host.listeners[taken.listener].family == 6:
                source = f"::ffff:{source}"
        return Datagram(taken.listener, taken.payload, source, taken.port, ancillary)

    # --- other steps ----------------------------------------------------------------------------------

    def other(self, step: Step) -> None:
        if isinstance(step, Run):
            from ippath.config import parse_host

            self.text += "\n".join(step.lines) + "\n"
            self.netns.change(parse_host(self.text))
            return
        if isinstance(step, Wait):
            outcome = Outcome("wait", (f"{step.seconds:g}",))
            self.now = max(self.clock(), self.now + int(step.seconds * 10**9))
            self.netns.advance(self.now, collect_output=True, collect_datagrams=True)
            self.note_late(outcome, alone=True)
        elif isinstance(step, Send):
            outcome = Outcome("send", (str(step.socket),))
            self.now = self.clock()
            outcome.said = self.send(step)
        elif isinstance(step, ShowCache):
            outcome = Outcome("cache", (str(step.family),))
            outcome.said = cache_text(self.netns, step.family)
        else:
            assert isinstance(step, RouteGet)
            outcome = Outcome("route", (" ".join(step.words),))
            outcome.said = self.route_get(step.words)
        self.outcomes.append(outcome)
        self.share_out(lambda cause: outcome)

    def send(self, step: Send) -> str:
        """The name of the errno, or nothing."""
        error = self.netns.send(
            step.socket, step.payload, step.to, ttl=step.ttl, tos=step.tos or 0, device=step.device,
            source=step.source, time_ns=self.now, collect_datagrams=True,
        )  # fmt: skip
        return errno.errorcode[error] if error else ""

    def route_get(self, words: tuple[str, ...]) -> str:
        """What `ip route get` prints."""
        from ippath.config.ip_route_get import read_question, reader_of
        from ippath.route_get import Question, QuestionError, ask

        asked = read_question(reader_of(words), None)
        assert asked.destination is not None
        try:
            answer = ask(self.netns, Question(**asked.fields), asked.destination)
        except QuestionError as problem:
            return str(problem)
        text = answer.error_text if answer.error else answer.text()
        return text.strip()


def cache_text(netns: Netns, family: int) -> str:
    """What `ip route show cache` prints."""
    from ippath.learned import cache_of

    return "\n".join(one.text().rstrip() for one in cache_of(netns, family))


def as_printed(address: str) -> str:
    """An IPv6 address as the C library prints it: IPv4 addresses within keep their dots."""
    return socket.inet_ntop(socket.AF_INET6, ipaddress.IPv6Address(address).packed)
