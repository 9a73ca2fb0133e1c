"""Recorded answers in words."""

from __future__ import annotations

from typing import Any

from tests.kernel.normal import words

# counters that follow from every packet; left out where people read
_DULL = ("InReceives", "Octets", "ECTPkts", "ECT0Pkts", "ECT1Pkts", "InDelivers", "IcmpMsg")


def show(name: str, answer: dict[str, Any]) -> str:
    """One scenario's answer as text."""
    lines = [f"== {name}"]
    for step in answer["steps"]:
        label = next(
            f"{kind} {step[kind]}" for kind in ("packet", "burst", "list", "wait") if kind in step
        )
        lines.append(f" {label}")
        packets = [bytes.fromhex(text) for sent in step["in"].values() for text in sent]
        lines += [f"    in   {words(packet)}" for packet in packets[:2]]
        for device, sent in step["out"].items():
            lines += [f"    {device:4} {words(bytes.fromhex(text))}" for text in sent]
        lines += [f"    sock {got}" for got in step["sockets"]]
        lines += [f"    drop {' in '.join(drop)}" for drop in step["drops"]]
        said = {k: v for k, v in step["counters"].items() if not any(d in k for d in _DULL)}
        lines.append(f"    count {said}")
    return "\n".join(lines)
