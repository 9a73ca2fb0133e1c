"""A report as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ippath.report.paper import rate_text, seconds_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ippath.bench.framework import Gain, Interval, Measured, Report


def render(report: Report) -> RenderableType:
    """One row a variant, peers last in each group, gains beside them."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{report.workload}: {report.summary}", title_justify="left", box=None)
    table.add_column("case")
    table.add_column("variant")
    table.add_column("median", justify="right")
    table.add_column("middle half", justify="right")
    table.add_column("time", justify="right")
    table.add_column("gain", justify="right")
    gains = {(g.group, g.after): g for g in report.gains}
    last = ""
    for one in sorted(report.results, key=lambda m: m.variant.peer):
        last = _add_row(table, one, gains, last, report.unit)
    under = [f"{report.rounds} rounds, interleaved; {_machine(report)}"]
    if report.target:
        under.append(f"target: {report.target}")
    under += [f"peer {a.name}: {a.why}" for a in report.absent]
    if report.environment["build"] != "fast":
        under.append(f"this is the {report.environment['build']} build: no numbers to quote")
    return Group(table, Text(""), *(Text(line, style="dim") for line in under))


def _add_row(
    table: Table, one: Measured, gains: dict[tuple[str, str], Gain], last: str, unit: str
) -> str:
    variant, rate = one.variant, one.rate
    many = variant.units > 1
    median = rate_text(rate.median, unit) if many else ""
    middle = f"{rate_text(rate.low, unit)} – {rate_text(rate.high, unit)}" if many else ""
    gain = gains.get((variant.group, variant.name))
    shown = f"× {_ratio(gain.ratio)} over {gain.before}" if gain is not None else ""
    seconds = sorted(one.seconds)[len(one.seconds) // 2]
    group = "" if variant.group == last else variant.group
    style = "cyan" if variant.peer else None
    table.add_row(group, variant.name, median, middle, seconds_text(seconds), shown, style=style)
    return variant.group


def _ratio(ratio: Interval) -> str:
    return f"{ratio.median:.2f} ({ratio.low:.2f} – {ratio.high:.2f})"


def _machine(report: Report) -> str:
    told = report.environment
    where = "not pinned" if told["pinned_to"] is None else f"pinned to CPU {told['pinned_to']}"
    return f"{told['cpu']}, {where}, Python {told['python']}, numba {told['numba']}"
