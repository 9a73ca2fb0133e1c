"""A report as a table for people."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, TextIO

from ippath.report.paper import rate_text, seconds_text, wants_color

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ippath.bench.framework import Gain, Interval, Measured, Report

WIDTH = 100  # in a pipe
DISPENSABLE = ("time", "middle half", "over", "of target")  # left out in this order, if need be
_PLAIN = str.maketrans({"×": "x", "–": "-"})
_UNITS = ("", " k", " M", " G")

Cell = Callable[["Measured", "Gain | None"], str]


def text_for(report: Report, stream: TextIO) -> str:
    """The table as `stream` can show it: colours and its width on a terminal, plain in a pipe."""
    from rich.console import Console

    color = wants_color(stream)
    width = WIDTH
    if stream.isatty():
        import shutil

        width = max(60, shutil.get_terminal_size((WIDTH, 24)).columns)
    page = io.StringIO()
    console = Console(
        file=page, width=width, highlight=False, force_terminal=color, no_color=not color,
        color_system="standard" if color else None, emoji=False, markup=False,
    )  # fmt: skip
    console.print(render(report, width))
    text = "".join(line.rstrip() + "\n" for line in page.getvalue().splitlines())
    return text if color else text.translate(_PLAIN)


def render(report: Report, width: int = WIDTH) -> RenderableType:
    """A heading for each group, one row a variant, peers last, gains beside them."""
    from rich.console import Group
    from rich.text import Text

    heading = Text(f"{report.workload}: {report.summary}", style="bold")
    under = [Text(words, style="dim") for words in _below(report)]
    if report.interrupted:
        words = "stopped early: this is what was measured until then"
        if not report.results:
            words = "stopped before anything was measured"
        under.insert(0, Text(words, style="yellow"))
    if not report.results:
        return Group(heading, Text(""), *under)
    return Group(heading, Text(""), _table(report, width), Text(""), *under)


def _table(report: Report, width: int) -> RenderableType:
    """The table without the columns for which `width` is too narrow."""
    from rich.console import Console

    console = Console(width=1000)
    columns = _columns(report)
    for title in [name for name in DISPENSABLE if name in columns]:
        if console.measure(_with_columns(report, columns)).maximum <= width:
            break
        del columns[title]
    return _with_columns(report, columns)


def _with_columns(report: Report, columns: dict[str, Cell]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("", no_wrap=True)
    for title in columns:
        table.add_column(title, justify="left" if title == "over" else "right", no_wrap=True)
    gains = {(g.group, g.after): g for g in report.gains}
    for group in dict.fromkeys(m.variant.group for m in report.results):
        table.add_row(Text(group, style="bold"))
        own = [one for one in report.results if one.variant.group == group]
        for one in sorted(own, key=lambda m: m.variant.peer):
            gain = gains.get((group, one.variant.name))
            cells = [Text(cell(one, gain)) for cell in columns.values()]
            style = "cyan" if one.variant.peer else None
            table.add_row(Text(f"  {one.variant.name}"), *cells, style=style)
    return table


def _columns(report: Report) -> dict[str, Cell]:
    """The columns that say something: title -> its cell in a row."""
    columns: dict[str, Cell] = {}

    def add(title: str, cell: Cell, wanted: bool = True) -> None:
        if wanted:
            columns[title] = cell

    many = any(one.variant.units > 1 for one in report.results)
    add(f"{report.unit}/s", lambda one, gain: _rate(one), many)
    spread = many and report.rounds > 1
    add("middle half", lambda one, gain: _range(one.rate) if one.variant.units > 1 else "", spread)
    add("time", lambda one, gain: seconds_text(median(one.seconds)))
    for name, title in report.quantities.items():
        add(title, functools.partial(_quantity, name))
    targets = any(one.variant.target for one in report.results)
    add("of target", lambda one, gain: _share(one.of_target), targets)
    bases = {gain.before for gain in report.gains}
    title = f"gain over {bases.pop()}" if len(bases) == 1 else "gain"
    add(title, lambda one, gain: "" if gain is None else _ratio(gain.ratio), bool(report.gains))
    add("over", lambda one, gain: "" if gain is None else gain.before, bool(bases))
    return columns


def _below(report: Report) -> list[str]:
    lines = []
    if report.results:
        one = report.rounds == 1
        lines.append("one round" if one else f"{report.rounds} rounds, interleaved")
    lines.append(_machine(report))
    if report.target:
        lines.append(f"target: {report.target}")
    lines += [f"peer {a.name}: {a.why}" for a in report.absent]
    if report.environment["build"] != "fast":
        lines.append(f"this is the {report.environment['build']} build: no numbers to quote")
    return lines


def _rate(one: Measured) -> str:
    if one.variant.units <= 1:
        return ""
    return rate_text(one.rate.median, "").removesuffix("/s").strip()


def _quantity(name: str, one: Measured, gain: Gain | None) -> str:
    return f"{one.interval(name).median:,.0f}" if name in one.values else ""


def _range(interval: Interval) -> str:
    """Both ends in the unit of the upper one: `10.6 – 11.8 M`."""
    power = 0
    while power < 3 and interval.high / 1000**power >= 999.5:
        power += 1
    low, high = (v / 1000**power for v in (interval.low, interval.high))
    digits = 0 if high >= 99.95 else 1 if high >= 9.995 else 2
    return f"{low:.{digits}f} – {high:.{digits}f}{_UNITS[power]}"


def _share(of_target: float | None) -> str:
    return "" if of_target is None else f"{100 * of_target:.0f} %"


def _ratio(ratio: Interval) -> str:
    return f"× {ratio.median:.2f} ({ratio.low:.2f} – {ratio.high:.2f})"


def _machine(report: Report) -> str:
    told = report.environment
    where = "not pinned" if told["pinned_to"] is None else f"pinned to CPU {told['pinned_to']}"
    return f"{told['cpu']}, {where}, Python {told['python']}, numba {told['numba']}"
