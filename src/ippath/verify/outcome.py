"""What a scenario's steps led to: the common answer of both executors, and its JSON form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ippath.verify.normal import Normal


@dataclass
class Datagram:
    """A datagram that a socket was given, with its source and ancillary data.

    `ancillary` has the names of the fields of `struct in_pktinfo` and `in6_pktinfo` (device,
    spec_dst, addr) beside ttl and tos, or hoplimit and tclass.
    """

    socket: int  # number of the `listen` line, from 0
    payload: bytes
    address: str
    port: int
    ancillary: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> list[Any]:
        """The datagram as a list of plain values."""
        return [self.socket, self.payload.hex(), self.address, self.port, self.ancillary]


@dataclass
class Outcome:
    """What one step led to, or one packet of an `Inject` step."""

    kind: str  # packet, burst, list, wait, send, route
    labels: tuple[str, ...]
    device: str = ""
    packets: tuple[bytes, ...] = ()
    out: dict[str, list[bytes]] = field(default_factory=dict)
    datagrams: list[Datagram] = field(default_factory=list)
    errors: list[tuple[int, str]] = field(default_factory=list)  # pending errors (socket, errno)
    drops: list[tuple[str, str]] = field(default_factory=list)  # (reason, kernel function)
    counters: dict[str, int] = field(default_factory=dict)  # by how much they rose
    said: str = ""  # what `ip route get` printed, or the errno of a send
    time_ns: int = 0  # the clock when the first packet went in
    unsupported: list[str] = field(default_factory=list)  # reasons why ippath did not judge
    late: dict[str, int] = field(default_factory=dict)  # ippath: fragments dropped that were held

    @property
    def label(self) -> str:
        """The step in words."""
        return f"{self.kind} {', '.join(self.labels)}"

    def to_json(self, normal: Normal) -> dict[str, Any]:
        """The outcome as plain values, packets with what is random in them taken out."""
        shown: dict[str, Any] = {self.kind: list(self.labels)}
        if self.packets:
            shown["in"] = {self.device: [p.hex() for p in self.packets]}
        if self.out:
            shown["out"] = {d: [normal(p).hex() for p in sent] for d, sent in self.out.items()}
        if self.datagrams:
            shown["sockets"] = [d.to_json() for d in self.datagrams]
        if self.errors:
            shown["errors"] = [list(e) for e in self.errors]
        if self.drops:
            shown["drops"] = [list(d) for d in self.drops]
        if self.said:
            shown["said"] = self.said
        if self.counters:
            shown["counters"] = dict(sorted(self.counters.items()))
        return shown

    @classmethod
    def from_json(cls, shown: dict[str, Any]) -> Outcome:
        """The outcome that `to_json` wrote."""
        kind = next(iter(shown))
        device, packets = next(iter(shown.get("in", {"": []}).items()))
        return cls(
            kind,
            tuple(shown[kind]),
            device,
            tuple(bytes.fromhex(p) for p in packets),
            {d: [bytes.fromhex(p) for p in sent] for d, sent in shown.get("out", {}).items()},
            [Datagram(s, bytes.fromhex(p), *rest) for s, p, *rest in shown.get("sockets", ())],
            [(number, name) for number, name in shown.get("errors", ())],
            [(reason, where) for reason, where in shown.get("drops", ())],
            shown.get("counters", {}),
            shown.get("said", ""),
        )


@dataclass
class Answer:
    """All outcomes of a scenario, in order; `error` says why there are none."""

    outcomes: list[Outcome] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)  # over all steps
    error: str = ""
