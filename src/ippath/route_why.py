"""Why a route won: the look-up rule by rule, and the prefixes that hold the address one by one.

The look-up is the path's own, traced (`ippath.trace`); nothing is decided here a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ippath import tables as T
from ippath import trace as TR
from ippath.config.printed_routes import route_line
from ippath.config.values import address_text, table_text
from ippath.explain import SKIPPED, WAY_BACK, ExplainedStep, Words, step_label
from ippath.fib.build import halves
from ippath.model import TABLE_LOCAL, TABLE_MAIN, Route
from ippath.route_get import Answer, Question, ask

if TYPE_CHECKING:
    from ippath.netns import Netns

_TABLE_ROWS = (TR.T_TABLE4, TR.T_TABLE6, TR.T_FIB_MISS4, TR.T_FIB_MISS6)
_SUPPRESSED = (TR.T_SUPPRESS4, TR.T_SUPPRESS6)
WINS, PASSED_OVER, NOT_REACHED = "wins", "passed over", "not reached"


@dataclass(frozen=True)
class Candidate:
    """One route whose prefix holds the address, in a table that was asked."""

    route: Route
    outcome: str  # WINS, PASSED_OVER or NOT_REACHED
    why: str

    @property
    def text(self) -> str:
        """The route as `ip route show` prints it, in one line."""
        return " ".join(route_line(self.route).split())


@dataclass(frozen=True)
class Why:
    """An answer with its reasons."""

    answer: Answer
    steps: list[ExplainedStep]
    candidates: list[Candidate]
    source: str  # how the source was chosen; empty if none was

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data with stable keys, ready for JSON."""
        answer = self.answer
        return {
            "answer": None if answer.error else answer.to_dict(),
            "error": answer.error_text or None,
            "steps": [
                {"check": s.check, "function": s.function, "text": s.text} for s in self.steps
            ],
            "prefixes": [
                {
                    "table": table_text(c.route.table), "route": c.text, "outcome": c.outcome,
                    "why": c.why,
                }
                for c in self.candidates
            ],
            "source": self.source or None,
        }  # fmt: skip

    def text(self, color: bool = False) -> str:
        """For people; with ANSI colours if `color`."""
        bold, dim, off = ("\033[1m", "\033[2m", "\033[0m") if color else ("", "", "")
        answer = self.answer
        head = answer.error_text or answer.text().rstrip()
        lines = [*(f"{bold}{line.rstrip()}{off}" for line in head.splitlines()), ""]
        names = [step_label(step) for step in self.steps]
        width = max(map(len, names), default=0)
        for step, name in zip(self.steps, names):
            lines.append(f"  {dim}{name:<{width}}{off}  {step.text}  {dim}{step.function}{off}")
        if self.candidates:
            family = answer.question.family
            lines += ["", f"prefixes that hold {address_text(family, answer.destination)}"]
        for one in self.candidates:
            sign = ">" if one.outcome == WINS else " "
            on, out = (bold, off) if one.outcome == WINS else ("", "")
            lines.append(f"{sign} {on}{one.text}{out}  {dim}{one.outcome}: {one.why}{off}")
        if self.source:
            lines += ["", f"source: {self.source}"]
        return "\n".join(lines) + "\n"


def why(netns: Netns, question: Question, destination: int) -> Why:
    """Ask for a route and for the reasons; raises `ippath.route_get.QuestionError`."""
    trace = TR.new_trace()
    answer = ask(netns, question, destination, trace)
    rows = trace[1 : min(int(trace[0, 0]), TR.TRACE_ROWS - 1) + 1]
    receiver = netns.device_row(question.iif) if question.iif else -1
    words = Words(netns, question.family, receiver)
    steps = [s for s in words.steps(rows) if s.step != TR.T_VERDICT]
    source = "" if answer.error else _source(netns, answer)
    return Why(answer, steps, _candidates(netns, answer, steps), source)


# --- prefixes -------------------------------------------------------------------------------------------


def _candidates(netns: Netns, answer: Answer, steps: list[ExplainedStep]) -> list[Candidate]:
    """Routes of the tables asked, in the order of the search; the last table asked ends it."""
    family = answer.question.family
    custom = netns.host.custom_rules4 if family == 4 else netns.host.custom_rules6
    found: list[Candidate] = []
    asked: list[int] = []
    skipped: dict[int, str] = {}
    for one in steps:
        if one.lookup == WAY_BACK:
            continue
        step, first, second = one.step, *one.values[:2]
        if step in (TR.T_SKIP4, TR.T_SKIP6):
            skipped[first] = SKIPPED[second]
        elif step in _TABLE_ROWS and first not in asked:
            asked.append(first)
            merged = family == 4 and not custom and first == TABLE_MAIN
            tables = [TABLE_LOCAL, TABLE_MAIN] if merged else [first]
            winner = second if step in (TR.T_TABLE4, TR.T_TABLE6) else T.NONE
            found += _of_tables(netns, answer, tables, winner, skipped)
            skipped = {}
        elif step in _SUPPRESSED:
            found = [
                Candidate(c.route, PASSED_OVER, "the rule suppresses what it found")
                if c.route is netns.routes(family)[second] else c
                for c in found
            ]  # fmt: skip
    return found


def _of_tables(
    netns: Netns, answer: Answer, tables: list[int], winner: int, skipped: dict[int, str]
) -> list[Candidate]:
    family = answer.question.family
    fib = netns.tables.fib4 if family == 4 else netns.tables.fib6
    routes = netns.routes(family)
    holds = np.isin(fib.route[:, T.ROUTE_TABLE], tables) & _covers(
        fib.route, answer.destination, family
    )
    rows = sorted(
        map(int, np.flatnonzero(holds)), key=lambda k: (-routes[k].plen, -routes[k].src_plen, k)
    )
    return [Candidate(routes[k], *_outcome(routes, k, winner, skipped, answer)) for k in rows]


def _covers(routes: np.ndarray, destination: int, family: int) -> np.ndarray:
    """Which prefixes hold the address: bool[routes]."""
    hi, lo = (np.uint64(h & 0xFFFFFFFFFFFFFFFF) for h in halves(destination))
    bits = np.zeros(len(routes), np.int64) + (32 if family == 4 else 128)
    free = bits - routes[:, T.ROUTE_PLEN]  # bits that may differ
    high = (
        routes[:, T.ROUTE_DST_HI].view(np.uint64) ^ hi
        if family == 6
        else np.zeros(len(routes), np.uint64)
    )
    low = np.ascontiguousarray(routes[:, T.ROUTE_DST_LO]).view(np.uint64) ^ lo
    return (_shifted(low, free) == 0) & (_shifted(high, free - 64) == 0)


def _shifted(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    gone = by >= 64
    shifted = values >> np.clip(by, 0, 63).astype(np.uint64)
    return np.where(gone, np.uint64(0), shifted)


def _outcome(
    routes: Sequence[Route], row: int, winner: int, skipped: dict[int, str], answer: Answer
) -> tuple[str, str]:
    route = routes[row]
    if row == winner:
        if answer.error and answer.route is route:
            return WINS, f"routes of type {route.type} refuse"
        if route.type == "throw":
            return WINS, "the search leaves this table"
        return WINS, "longest prefix with a route that can be used"
    if row in skipped:
        return PASSED_OVER, skipped[row]
    if winner < 0:
        return PASSED_OVER, "the source does not fit" if route.src_plen else "nothing to use there"
    best = routes[winner]
    if (route.plen, route.src_plen) == (best.plen, best.src_plen):
        if route.metric != best.metric:
            return NOT_REACHED, f"metric {route.metric}, the other has {best.metric}"
        return NOT_REACHED, "behind the other, of the same prefix"
    if route.plen >= best.plen and answer.question.family == 6:
        return PASSED_OVER, "other sources have routes of their own here"
    return NOT_REACHED, f"/{route.plen} is shorter than /{best.plen}"


# --- the source -----------------------------------------------------------------------------------------


def _source(netns: Netns, answer: Answer) -> str:
    """How the host came by the source of the packet."""
    question, route = answer.question, answer.route
    if question.iif is not None or not answer.chosen:
        return ""
    if question.source:
        return "as asked"
    chosen = address_text(question.family, answer.chosen)
    if route is not None and route.prefsrc == answer.chosen:
        return f"{chosen}, which the route names (src)"
    if answer.chosen == answer.destination:
        return f"{chosen}, the destination itself: the packet stays here"
    owner = next(
        (d.name for d in netns.host.devices for a in d.addresses if a.ip == answer.chosen), ""
    )
    if question.family == 6:
        return f"{chosen} of {owner}, the best by RFC 6724 (scope, device, label, common prefix)"
    if answer.gateway_family == 4 and owner == answer.device:
        return f"{chosen} of {owner}, the first address whose network holds the gateway, else the first"
    return f"{chosen} of {owner}, the first address wide enough in scope"
