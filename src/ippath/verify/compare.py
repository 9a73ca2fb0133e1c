"""Says in words where two answers to a scenario differ: the kernel's and ours."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from ippath.verify.normal import Normal, words
from ippath.verify.outcome import Answer, Datagram, Outcome
from ippath.verify.scenario import Scenario

LATE = ("FRAG_TOO_FAR", "FRAG_REASM_TIMEOUT")  # reasons why fragments that are held are dropped
PIECES = "skb_release_data"  # the fragments of a datagram that was used up are freed as if dropped
SHOWN = 8  # packets of a step that a message shows


@dataclass
class Difference:
    """Where the two differ in one outcome: `lines` for people, `kind` equal for equal causes."""

    number: int  # of the outcome; -1: the counters over all steps
    label: str
    kind: str
    lines: list[str]

    def __str__(self) -> str:
        return "\n".join([self.label, *(f"    {line}" for line in self.lines)])


@dataclass
class Comparison:
    """All differences, and the outcomes that could not be compared."""

    differences: list[Difference] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # what ippath says it cannot judge


def compare(scenario: Scenario, kernel: Answer, ours: Answer) -> Comparison:
    """Compare the kernel's answer with ippath's, outcome by outcome.

    Counters are compared after each outcome where both have them, else over all steps.
    """
    normal, found = Normal(scenario.ignore), Comparison()
    for number, (theirs, mine) in enumerate(zip(kernel.outcomes, ours.outcomes)):
        for packet in mine.packets:
            normal.receive(packet)
        if mine.unsupported:
            found.skipped.append(f"{mine.label}: {', '.join(mine.unsupported)}")
            continue
        lines = _differences(theirs, mine, normal)
        if lines:
            asked = [f"in     {words(p)}" for p in mine.packets[:SHOWN]]
            found.differences.append(Difference(number, mine.label, lines[0], asked + lines))
    if len(kernel.outcomes) != len(ours.outcomes):
        text = f"outcomes: kernel {len(kernel.outcomes)}, ippath {len(ours.outcomes)}"
        found.differences.append(Difference(-1, "steps", text, [text]))
    if not any(o.counters for o in kernel.outcomes) and not found.skipped:
        lines = _counters(kernel.counters, ours.counters)
        if lines:
            found.differences.append(Difference(-1, "counters over all steps", lines[0], lines))
    return found


def _differences(theirs: Outcome, mine: Outcome, normal: Normal) -> list[str]:
    if (theirs.kind, theirs.packets) != (mine.kind, mine.packets):
        return ["the scenario changed after it was recorded; record it again"]
    lines = _reasons(theirs, mine)
    if mine.packets:
        lines += _outputs(theirs.out, mine.out, normal)
    else:  # timers that run out in one tick of the kernel's run in no certain order
        lines += _outputs(_sorted(theirs.out, normal), _sorted(mine.out, normal), normal)
    lines += _datagrams(theirs.datagrams, mine.datagrams)
    if _without_clock(theirs.said) != _without_clock(mine.said):
        lines += ["said:", f"  kernel {theirs.said or 'nothing'}", f"  ippath {mine.said or 'nothing'}"]  # fmt: skip
    if theirs.counters or mine.counters:
        if theirs.counters != mine.counters and theirs.counters:
            lines += _counters(theirs.counters, mine.counters)
    return lines


def _without_clock(said: str) -> str:
    """What was said, without the seconds that something still lasts."""
    return re.sub(r"expires \d+sec", "expires", said)


def _sorted(out: dict[str, list[bytes]], normal: Normal) -> dict[str, list[bytes]]:
    return {device: sorted(map(normal, packets)) for device, packets in out.items()}


def _outputs(
    kernel: dict[str, list[bytes]], ours: dict[str, list[bytes]], normal: Normal
) -> list[str]:
    if kernel == ours:
        return []
    found: list[str] = []
    for device in sorted(kernel.keys() | ours.keys()):
        theirs, mine = ([normal(p) for p in side.get(device, [])] for side in (kernel, ours))
        for k in range(max(len(theirs), len(mine))):
            expected = theirs[k] if k < len(theirs) else None
            got = mine[k] if k < len(mine) else None
            if expected != got:
                found += _packets(f"{device} packet {k}:", expected, got)
    return found


def _packets(label: str, expected: bytes | None, got: bytes | None) -> list[str]:
    lines = [
        label,
        f"  kernel {words(expected) if expected is not None else 'nothing'}",
        f"  ippath {words(got) if got is not None else 'nothing'}",
    ]
    if expected is not None and got is not None and words(expected) == words(got):
        at = next(
            (i for i, (a, b) in enumerate(zip(expected, got)) if a != b),
            min(len(expected), len(got)),
        )
        lines.append(f"  from byte {at}: {expected[at:].hex()} and {got[at:].hex()}")
    return lines


def _datagrams(kernel: list[Datagram], ours: list[Datagram]) -> list[str]:
    """Which socket is served first is not defined; the order within a socket is."""
    theirs, mine = (sorted(side, key=lambda d: d.socket) for side in (kernel, ours))
    if theirs == mine:
        return []
    counted = [dict(Counter(d.socket for d in side)) for side in (theirs, mine)]
    if counted[0] != counted[1]:
        return [f"datagrams by socket: kernel {counted[0]}, ippath {counted[1]}"]
    return [
        line
        for one, other in zip(theirs, mine)
        if one != other
        for line in (f"datagram to socket {one.socket}:", f"  kernel {one}", f"  ippath {other}")
    ]


def _reasons(theirs: Outcome, mine: Outcome) -> list[str]:
    """A single packet has one of the recorded reasons; in bursts and lists the counts are equal.

    The kernel may drop other packets on the way (a looped-back copy, a queued packet), and one
    copy of a packet whose other copies arrive.  Timers that ran under another thread's name are not
    seen.
    """
    kernel = [r for r, where in theirs.drops if r not in LATE and where != PIECES]
    ours = [reason for reason, _ in mine.drops if reason not in LATE]
    late = [Counter(r for r, _ in o.drops if r in LATE) + Counter(o.late) for o in (theirs, mine)]
    if late[0] != late[1] and not (theirs.kind == "wait" and late[0] <= late[1]):
        return [f"dropped of what was held: kernel {dict(late[0])}, ippath {dict(late[1])}"]
    if kernel == ours:
        return []
    if theirs.kind == "packet":
        allowed = set(kernel)
        if not kernel or theirs.datagrams or "NEIGH_QUEUEFULL" in kernel:
            allowed.add("NONE")
        one = ours[0] if ours else "NONE"
        return [] if one in allowed else [f"drop reason: kernel {kernel or 'none'}, ippath {one}"]
    if theirs.kind not in ("burst", "list") or Counter(kernel) == Counter(ours):
        return []
    return [f"drop reasons: kernel {dict(Counter(kernel))}, ippath {dict(Counter(ours))}"]


def _counters(kernel: dict[str, int], ours: dict[str, int]) -> list[str]:
    return [
        f"{name}: kernel {kernel.get(name, 0)}, ippath {ours.get(name, 0)}"
        for name in sorted(kernel.keys() | ours.keys())
        if kernel.get(name, 0) != ours.get(name, 0)
    ]
