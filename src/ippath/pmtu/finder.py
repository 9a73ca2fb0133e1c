"""Paths of a capture with a smaller MTU: who was told, who did not listen, and what was swallowed.

    finder = Finder(netns)
    for batch in open_captures(paths):
        netns.map_devices(batch, …)
        finder.add(batch)
    print(finder.findings().to_dict())

The packets go through the host as in a replay, so that each size error gets the host's own judgement.
Memory is bounded: so many paths, flows and errors are told apart, and what goes beyond is counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ippath import trace as TR
from ippath.config.values import address_text
from ippath.learned import learned
from ippath.pmtu import scan as S
from ippath.reasons import REASON_NAMES, VERDICTS
from ippath.route_get import whole
from ippath.rx.path_mtu_input import (
    KNOWN, LEARNED, LOCKED_METRIC, NO_ROUTE, NOT_SMALLER, TOO_SMALL,
)  # fmt: skip
from ippath.wire.ipv4 import SOURCE as SOURCE4
from ippath.wire.ipv6 import SOURCE as SOURCE6

if TYPE_CHECKING:
    from ippath.batch import PacketBatch
    from ippath.netns import Netns
    from ippath.verdicts import Verdicts

ERRORS = 1 << 10  # size errors found at a time
MOST_FLOWS = 8  # of a path that are named
MOST_TRACED = 100_000  # size errors of which the host says why; the others have a verdict only
REPEATS, SECONDS = 3, 1.0  # a segment sent again so often, over so long, was swallowed
IN_FLIGHT = 1.0  # seconds after a report in which packets may still be too large
# what the host made of a size error
FATES = {
    LEARNED: "learned", KNOWN: "known already", NOT_SMALLER: "not smaller than known",
    LOCKED_METRIC: "the route's MTU is locked", NO_ROUTE: "no packet of this host could take it",
    TOO_SMALL: "less than IPv6 allows",
}  # fmt: skip
NO_SENDER = "no socket sent what it quotes"
NOT_ASKED = "ignored by net.ipv4.ip_no_pmtu_disc"
PASSED_ON = "passed on"


@dataclass(frozen=True)
class Flow:
    """A flow that sent packets too large for its path after the report."""

    protocol: int
    source_port: int
    destination_port: int
    packets: int
    largest: int
    first_frame: int
    last_frame: int


@dataclass
class Path:
    """A sender and a destination about which size errors came."""

    family: int
    source: str
    destination: str
    reporter: str
    other_reports: int  # by others than `reporter`
    reports: int
    reported: int  # the smallest MTU as it was reported
    mtu: int  # what the path takes by that: no less than the protocol promises
    quoted: int  # length of the largest packet that a report quotes
    first_frame: int
    last_frame: int
    first_time_ns: int
    last_time_ns: int
    fates: dict[str, int]  # what the host made of the reports
    sent: int  # packets of the path after the first report
    too_large: int  # of those, that must not be cut
    largest: int
    last_too_large_frame: int
    seconds_too_large: float  # from the first report to the last packet that was too large
    largest_after: int  # of the packets behind that one
    learned: int | None  # the MTU that the host itself has for the destination in the end
    flows: list[Flow] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """`heeded`, `ignored`, or `not seen` if the path has no packets in the capture later."""
        if not self.sent:
            return "not seen"
        if not self.too_large:
            return "heeded"
        quiet = self.largest_after and self.seconds_too_large <= IN_FLIGHT
        return "heeded" if quiet else "ignored"

    def to_dict(self) -> dict[str, Any]:
        """Plain data with stable keys."""
        return {**vars(self), "outcome": self.outcome, "flows": [vars(f) for f in self.flows]}


@dataclass(frozen=True)
class Unanswered:
    """A destination for which the host dropped packets as too large without telling the sender."""

    source: str
    destination: str
    dropped: int
    told: int  # size errors that the host sent about it

    def to_dict(self) -> dict[str, Any]:
        """Plain data with stable keys."""
        return dict(vars(self))


@dataclass(frozen=True)
class Swallowed:
    """A TCP segment that was sent again and again, never acknowledged, and no size error came."""

    family: int
    source: str
    source_port: int
    destination: str
    destination_port: int
    length: int
    times: int
    first_frame: int
    last_frame: int
    seconds: float
    passed: int  # length of a smaller one with the same first byte that followed; 0: none

    def to_dict(self) -> dict[str, Any]:
        """Plain data with stable keys."""
        return dict(vars(self))


@dataclass
class Findings:
    """All of it; `not_kept` counts what came when the tables were full."""

    packets: int
    errors: int
    paths: list[Path]
    unanswered: list[Unanswered]
    swallowed: list[Swallowed]
    not_kept: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data with stable keys."""
        return {
            "packets": self.packets,
            "size_errors": self.errors,
            "paths": [path.to_dict() for path in self.paths],
            "unanswered": [one.to_dict() for one in self.unanswered],
            "swallowed": [one.to_dict() for one in self.swallowed],
            "not_kept": self.not_kept,
        }


class Tables:
    """The tables of `ippath.pmtu.scan` for one stream of packets."""

    def __init__(self) -> None:
        def rows(count: int, columns: int) -> np.ndarray:
            return np.zeros((count, columns), np.int64)

        self.path, self.flow = rows(S.PATHS, S.PATH_COLUMNS), rows(S.FLOWS, S.FLOW_COLUMNS)
        self._buckets = [np.full(2 * n, S.NONE, np.int64) for n in (S.PATHS, S.FLOWS)]
        self.stall = rows(S.STALL_SETS * S.STALL_WAYS, S.STALL_COLUMNS)
        self.misc = np.zeros(S.M_COLUMNS, np.int64)
        self._packet, self._errors = rows(3, S.P_COLUMNS), rows(ERRORS, S.ERROR_COLUMNS)

    def scan(self, batch: PacketBatch) -> np.ndarray:
        """Take a batch in; its size errors, int64[n, ERROR_COLUMNS]."""
        found, at, frames = [], 0, batch.frame_numbers
        while at < len(batch):
            at = S.scan(
                batch.data, batch.offset, batch.length, batch.link_type, batch.time_ns, frames, at,
                self.path, self._buckets[0], self.flow, self._buckets[1], self.stall, self.misc,
                self._packet, self._errors,
            )  # fmt: skip
            found.append(self._errors[: self.misc[S.M_ERRORS]].copy())
        return np.concatenate(found) if found else self._errors[:0]

    @property
    def paths(self) -> np.ndarray:
        """The rows in use."""
        return self.path[: self.misc[S.M_PATHS]]

    @property
    def flows(self) -> np.ndarray:
        """The rows in use."""
        return self.flow[: self.misc[S.M_FLOWS]]


class Finder:
    """Takes packets in, as a host receives them, and says what became of path MTUs."""

    def __init__(self, netns: Netns):
        self._netns = netns
        self._seen, self._answers = Tables(), Tables()
        self._fates: dict[int, Counter[str]] = {}
        self._too_big: Counter[tuple[int, int, int]] = Counter()
        self._errors = 0
        self._too_big_reason = REASON_NAMES.index("PKT_TOO_BIG")

    def add(self, batch: PacketBatch) -> None:
        """Take a batch in whose devices are mapped."""
        at = 0
        for row, _, path in self._seen.scan(batch).tolist():
            self._receive(batch, at, row)
            fate = self._judge(batch, row)
            if path != S.NONE:
                self._fates.setdefault(path, Counter())[fate] += 1
            self._errors += 1
            at = row + 1
        self._receive(batch, at, len(batch))
        for sent in self._netns.take_output_batches().values():
            self._answers.scan(sent)

    def _receive(self, batch: PacketBatch, begin: int, end: int) -> None:
        if begin == end:
            return
        part = batch if end - begin == len(batch) else batch.select(slice(begin, end))
        verdicts = self._netns.receive(part, collect_output=True, continue_list=True)
        self._note_too_big(part, verdicts)

    def _judge(self, batch: PacketBatch, row: int) -> str:
        """Let the host receive a size error; what it makes of it."""
        one = batch.select(slice(row, row + 1))
        trace = TR.new_trace() if self._errors < MOST_TRACED else None
        verdicts = self._netns.receive(one, collect_output=True, continue_list=True, trace=trace)
        self._note_too_big(one, verdicts)
        if trace is not None:
            for step in trace[1 : min(int(trace[0, 0]), TR.TRACE_ROWS - 1) + 1]:
                if step[0] in (TR.T_PMTU, TR.T_PMTU6):
                    return FATES[int(step[3 if step[0] == TR.T_PMTU else 4])]
        verdict = VERDICTS[int(verdicts.verdict[0])]
        if verdict == "forwarded":
            return PASSED_ON
        if verdict in ("delivered", "consumed") and trace is not None:
            asked = int(self._netns.host.sysctls.get("net.ipv4.ip_no_pmtu_disc", 0)) < 2
            return NO_SENDER if asked or int(verdicts.family[0]) == 6 else NOT_ASKED
        reason = REASON_NAMES[int(verdicts.reason[0])]
        return f"{verdict}, {reason}" if int(verdicts.reason[0]) else verdict

    def _note_too_big(self, batch: PacketBatch, verdicts: Verdicts) -> None:
        """Count what the host dropped as too large, by source and destination."""
        rows = np.flatnonzero(verdicts.reason == self._too_big_reason)
        if not len(rows):
            return
        for family, offset, size in ((4, SOURCE4, 4), (6, SOURCE6, 16)):
            mine = rows[verdicts.family[rows] == family]
            both = batch.gather(mine, verdicts.network[mine] + offset, 2 * size)
            for pair, count in zip(*np.unique(both, axis=0, return_counts=True)):
                raw = pair.tobytes()
                source, destination = (
                    int.from_bytes(part, "big") for part in (raw[:size], raw[size:])
                )
                key = (family, source, destination)
                if key in self._too_big or len(self._too_big) < S.PATHS:
                    self._too_big[key] += int(count)

    # --- what was found -------------------------------------------------------------------------------

    def findings(self) -> Findings:
        """What the packets so far show; paths with most packets too large first."""
        misc = self._seen.misc
        own = {(one.family, one.destination): one.mtu for one in learned(self._netns)}
        flows = self._flows()
        paths = [
            self._path(row, one, own, flows.get(tuple(one[: S.PATH_KEY]), []))
            for row, one in enumerate(self._seen.paths.tolist())
        ]
        paths.sort(key=lambda p: (-p.too_large, -p.reports, p.first_frame))
        return Findings(
            packets=int(misc[S.M_PACKETS]),
            errors=self._errors,
            paths=paths,
            unanswered=self._unanswered(),
            swallowed=self._swallowed(),
            not_kept=int(misc[S.M_PATHS_LEFT] + misc[S.M_FLOWS_LEFT]),
        )

    def _path(
        self, row: int, one: list[int], own: dict[tuple[int, int], int], flows: list[Flow]
    ) -> Path:
        """The path of a row, with the MTUs that the host learned and the path's own flows."""
        family, source, destination = _key(one)
        large_ns, first_ns = one[S.PATH_LARGE_NS], one[S.PATH_FIRST_NS]
        return Path(
            family=family,
            source=address_text(family, source),
            destination=address_text(family, destination),
            reporter=address_text(family, whole(one[S.PATH_BY_HI], one[S.PATH_BY_LO])),
            other_reports=one[S.PATH_OTHERS],
            reports=one[S.PATH_REPORTS],
            reported=one[S.PATH_REPORTED],
            mtu=one[S.PATH_MTU],
            quoted=one[S.PATH_QUOTED],
            first_frame=one[S.PATH_FIRST_FRAME],
            last_frame=one[S.PATH_LAST_FRAME],
            first_time_ns=first_ns,
            last_time_ns=one[S.PATH_LAST_NS],
            fates=dict(self._fates.get(row, Counter()).most_common()),
            sent=one[S.PATH_SENT],
            too_large=one[S.PATH_LARGE],
            largest=one[S.PATH_LARGEST],
            last_too_large_frame=one[S.PATH_LARGE_FRAME],
            seconds_too_large=(large_ns - first_ns) / 1e9 if large_ns else 0.0,
            largest_after=one[S.PATH_MOST],
            learned=own.get((family, destination)),
            flows=sorted(flows, key=lambda f: (-f.packets, f.first_frame))[:MOST_FLOWS],
        )

    def _flows(self) -> dict[tuple[int, ...], list[Flow]]:
        """The flows that sent packets too large, by the key of their path."""
        found: dict[tuple[int, ...], list[Flow]] = {}
        for one in self._seen.flows.tolist():
            found.setdefault(tuple(one[: S.PATH_KEY]), []).append(
                Flow(
                    protocol=one[S.P_PROTOCOL],
                    source_port=one[S.P_SPORT],
                    destination_port=one[S.P_DPORT],
                    packets=one[S.FLOW_COUNT],
                    largest=one[S.FLOW_LARGEST],
                    first_frame=one[S.FLOW_FIRST_FRAME],
                    last_frame=one[S.FLOW_LAST_FRAME],
                )
            )
        return found

    def _unanswered(self) -> list[Unanswered]:
        told = {_key(one): one[S.PATH_REPORTS] for one in self._answers.paths.tolist()}
        found = [
            Unanswered(
                address_text(f, src), address_text(f, dst), count, told.get((f, src, dst), 0)
            )
            for (f, src, dst), count in self._too_big.items()
        ]
        return sorted(
            (one for one in found if one.told < one.dropped), key=lambda one: one.told - one.dropped
        )

    def _swallowed(self) -> list[Swallowed]:
        reported = {tuple(one[: S.PATH_KEY]) for one in self._seen.paths.tolist()}
        stall = self._seen.stall
        often = stall[
            (stall[:, S.WORST_REPEATS] >= REPEATS)
            & (stall[:, S.WORST_LAST_NS] - stall[:, S.WORST_FIRST_NS] >= SECONDS * 1e9)
        ]
        found = [
            Swallowed(
                family=(key := _key(one))[0],
                source=address_text(key[0], key[1]),
                source_port=one[S.P_SPORT],
                destination=address_text(key[0], key[2]),
                destination_port=one[S.P_DPORT],
                length=one[S.WORST_LENGTH],
                times=one[S.WORST_REPEATS] + 1,
                first_frame=one[S.WORST_FIRST_FRAME],
                last_frame=one[S.WORST_LAST_FRAME],
                seconds=(one[S.WORST_LAST_NS] - one[S.WORST_FIRST_NS]) / 1e9,
                passed=one[S.WORST_PASSED],
            )
            for one in often.tolist()
            if tuple(one[: S.PATH_KEY]) not in reported
        ]
        return sorted(found, key=lambda one: (-one.times, one.first_frame))


def _key(one: list[int]) -> tuple[int, int, int]:
    """(family, source, destination) of a row."""
    return (
        one[S.P_FAMILY],
        whole(one[S.P_SRC_HI], one[S.P_SRC_LO]),
        whole(one[S.P_DST_HI], one[S.P_DST_LO]),
    )
