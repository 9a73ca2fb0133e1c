"""Recorded answers in words."""

from __future__ import annotations

from typing import Any

from ippath.verify.normal import words
from ippath.verify.outcome import Outcome

# counters that follow from every packet; left out where people read
_DULL = ("InReceives", "Octets", "ECTPkts", "ECT0Pkts", "ECT1Pkts", "InDelivers", "IcmpMsg")


def show(name: str, answer: dict[str, Any]) -> str:
    """One scenario's answer as text."""
    lines = [f"== {name}"]
    for step in answer["steps"]:
        outcome = Outcome.from_json(step)
        lines.append(f" {outcome.label}")
        lines += [f"    in   {words(packet)}" for packet in outcome.packets[:2]]
        for device, sent in outcome.out.items():
            lines += [f"    {device:4} {words(packet)}" for packet in sent]
        lines += [f"    sock {got}" for got in outcome.datagrams]
        lines += [f"    drop {' in '.join(drop)}" for drop in outcome.drops]
        lines += [f"    said {outcome.said}"] if outcome.said else []
        said = {k: v for k, v in outcome.counters.items() if not any(d in k for d in _DULL)}
        lines.append(f"    count {said}")
    return "\n".join(lines)
