"""A report as a table for people."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from ippath.report.paper import rate_text, seconds_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ippath.bench.framework import Gain, Interval, Measured, Report


def render(report: Report) -> RenderableType:
    """A heading for each group, one row a variant, peers last, gains beside them."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("")
    table.add_column(f"{report.unit}/s", justify="right")
    for title in ("middle half", "time", "gain"):
        table.add_column(title, justify="right")
    table.add_column("over")
    gains = {(g.group, g.after): g for g in report.gains}
    for group in dict.fromkeys(m.variant.group for m in report.results):
        table.add_row(Text(group, style="bold"))
        own = [one for one in report.results if one.variant.group == group]
        for one in sorted(own, key=lambda m: m.variant.peer):
            style = "cyan" if one.variant.peer else None
            table.add_row(*_row(one, gains.get((group, one.variant.name))), style=style)
    under = [f"{report.rounds} rounds, interleaved; {_machine(report)}"]
    if report.target:
        under.append(f"target: {report.target}")
    under += [f"peer {a.name}: {a.why}" for a in report.absent]
    if report.environment["build"] != "fast":
        under.append(f"this is the {report.environment['build']} build: no numbers to quote")
    heading = Text(f"{report.workload}: {report.summary}", style="bold")
    return Group(heading, Text(""), table, Text(""), *(Text(words, style="dim") for words in under))


def _row(one: Measured, gain: Gain | None) -> list[str]:
    variant, rate = one.variant, one.rate
    row = [f"  {variant.name}", "", ""]
    if variant.units > 1:
        row[1:] = [_short(rate.median), f"{_short(rate.low)} – {_short(rate.high)}"]
    row.append(seconds_text(median(one.seconds)))
    if gain is not None:
        row += [f"× {_ratio(gain.ratio)}", gain.before]
    return row


def _short(per_second: float) -> str:
    return rate_text(per_second, "").removesuffix("/s").strip()


def _ratio(ratio: Interval) -> str:
    return f"{ratio.median:.2f} ({ratio.low:.2f} – {ratio.high:.2f})"


def _machine(report: Report) -> str:
    told = report.environment
    where = "not pinned" if told["pinned_to"] is None else f"pinned to CPU {told['pinned_to']}"
    return f"{told['cpu']}, {where}, Python {told['python']}, numba {told['numba']}"
