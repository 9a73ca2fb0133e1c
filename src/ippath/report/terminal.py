"""The summary of a replay for people."""

from __future__ import annotations

import textwrap
from typing import Any

from ippath.report.paper import (
    Paper,
    bytes_text,
    count_text,
    packet_rate_text,
    rate_text,
    seconds_text,
)
from ippath.report.summary import MEANINGS, Summary

TONES = {
    "delivered": "green", "forwarded": "cyan", "consumed": "blue", "dropped": "red",
    "held": "yellow", "unsupported": "magenta",
}  # fmt: skip
SECTIONS = (
    ("dropped", "why dropped", "red"),
    ("unsupported", "not judged", "magenta"),
    ("consumed", "consumed without effect", "blue"),
)
MOST_ROWS = 20
REASSEMBLERS = {"ipv4": "IPv4", "ipv6": "IPv6", "conntrack6": "IPv6 conntrack"}


def summary_text(summary: Summary, paper: Paper) -> str:
    """The whole report, lines no wider than the paper (names and addresses excepted)."""
    _title(summary, paper)
    _verdicts(summary, paper)
    for verdict, heading, tone in SECTIONS:
        _reasons(summary, paper, verdict, heading, tone)
    _devices(summary, paper)
    _sockets(summary, paper)
    _reassembly(summary, paper)
    _counters(summary, paper)
    _notes(summary, paper)
    return paper.text()


def _title(summary: Summary, paper: Paper) -> None:
    names = summary.captures
    name = names[0] if len(names) == 1 else f"{len(names)} captures"
    host = "a host guessed from it" if summary.host.get("inferred") else summary.host.get("source")
    paper.add(paper.style(name or "capture", "bold") + (f" through {host}" if host else ""))
    how = "" if summary.compiled else " uncompiled"
    parts = [f"{count_text(summary.packets)} packets", bytes_text(summary.bytes)]
    if summary.capture_seconds > 0:
        parts.append(f"{seconds_text(summary.capture_seconds)} of traffic")
    speed = packet_rate_text(summary.packets_per_second)
    parts += [f"replayed{how} in {seconds_text(summary.seconds)}", speed]
    for line in _joined("", parts, paper.width):
        paper.add(paper.style(line, "dim"))
    if summary.interrupted:
        paper.add(paper.style("stopped by Ctrl-C: this is the part that was replayed", "yellow"))


def _verdicts(summary: Summary, paper: Paper) -> None:
    paper.add()
    total = max(sum(summary.verdicts.values()), 1)
    largest = max([*summary.verdicts.values(), 1])
    width = max(len(count_text(n)) for n in summary.verdicts.values())
    room = max(paper.width - 22 - width, 10)
    order = sorted(summary.verdicts.items(), key=lambda pair: -pair[1])
    for verdict, count in order:
        if not count:
            continue
        bar = paper.bar(count / largest, room, TONES[verdict])
        share = f"{100 * count / total:5.1f}%"
        name = paper.style(f"{verdict:<11}", TONES[verdict])
        paper.add(f"  {name} {count_text(count):>{width}} {paper.style(share, 'dim')} {bar}")
    none = [verdict for verdict, count in order if not count]
    if none:
        paper.add(paper.style(f"  none {', '.join(none)}", "dim"))


def _reasons(summary: Summary, paper: Paper, verdict: str, heading: str, tone: str) -> None:
    reasons = summary.reasons_by_verdict.get(verdict)
    if not reasons:
        return
    paper.heading(heading)
    name_width = max(map(len, reasons))
    width = max(len(count_text(n)) for n in reasons.values())
    indent = 4 + name_width + width
    for name, count in reasons.items():
        meaning = textwrap.wrap(MEANINGS[name], max(paper.width - indent, 20))
        head = f"  {paper.style(f'{name:<{name_width}}', tone)} {count_text(count):>{width}} "
        paper.add(f"{head}{meaning[0]}")
        for more in meaning[1:]:
            paper.add(" " * indent + more)
        top = summary.drop_destinations.get(name) if verdict == "dropped" else None
        if top:
            _destinations(paper, top, count, indent, summary.destinations_approximate)


def _destinations(
    paper: Paper, top: list[tuple[str, int]], count: int, indent: int, approximate: bool
) -> None:
    about = "about " if approximate else ""
    if len(top) == 1 and top[0][1] == count:
        paper.add(" " * indent + paper.style(f"all to {top[0][0]}", "dim"))
        return
    parts = [f"{address} ({about}{count_text(n)})" for address, n in top]
    left = count - sum(n for _, n in top)
    if left > 0 and not approximate:
        parts.append(f"others ({count_text(left)})")
    for line in _joined("to ", parts, paper.width - indent):
        paper.add(" " * indent + paper.style(line, "dim"))


def _joined(lead: str, parts: list[str], width: int) -> list[str]:
    """Parts joined by commas in lines of at most `width`, never broken inside a part."""
    lines, line = [], lead
    for number, part in enumerate(parts):
        piece = part + ("," if number + 1 < len(parts) else "")
        if line != lead and line.strip() and len(line) + len(piece) > width:
            lines.append(line.rstrip())
            line = " " * len(lead)
        line += piece + " "
    return [*lines, line.rstrip()]


def _table(
    paper: Paper, names: list[str], rows: list[list[str]], tones: list[str] | None = None
) -> None:
    """A table whose first column is left-aligned, the others to the right."""
    widths = [max(len(r[k]) for r in [names, *rows]) for k in range(len(names))]
    for number, row in enumerate([names, *rows]):
        cells = [f"{row[0]:<{widths[0]}}"] + [f"{c:>{w}}" for c, w in zip(row[1:], widths[1:])]
        if number == 0:
            paper.add("  " + paper.style("  ".join(cells), "dim"))
            continue
        if tones:
            cells = [
                paper.style(cell, tone) if tone and text.strip() not in ("0", "-") else cell
                for cell, text, tone in zip(cells, row, tones)
            ]
        paper.add("  " + "  ".join(cells))


def _devices(summary: Summary, paper: Paper) -> None:
    busy = [d for d in summary.devices if d["rx_packets"] or d["tx_packets"]]
    if not busy:
        return
    paper.heading("devices")
    timed = summary.capture_seconds > 0

    def rates(device: dict[str, Any], way: str) -> list[str]:
        if not timed or not device[f"{way}_packets"]:
            return ["-"] if timed else []
        return [rate_text(device[f"{way}_bits_per_second"], "bit")]

    names = ["", "received", "bytes", *(["rate"] if timed else []), "dropped", "sent", "bytes"]
    names += ["rate"] if timed else []
    rows = []
    for device in busy[:MOST_ROWS]:
        rows.append(
            [device["name"], count_text(device["rx_packets"]), bytes_text(device["rx_bytes"])]
            + rates(device, "rx")
            + [count_text(device["rx_dropped"]), count_text(device["tx_packets"])]
            + [bytes_text(device["tx_bytes"])]
            + rates(device, "tx")
        )
    tones = ["bold", "", "", *([""] if timed else []), "red", "", "", *([""] if timed else [])]
    _table(paper, names, rows, tones)
    _more(paper, len(busy))


def _sockets(summary: Summary, paper: Paper) -> None:
    busy = [s for s in summary.sockets if s["received"] or s["dropped"] or s["queued"]]
    silent = len(summary.sockets) - len(busy)
    if not summary.sockets:
        return
    paper.heading("sockets", f"{silent} heard nothing" if silent else "")
    busy.sort(key=lambda s: -(s["received"] + s["dropped"]))
    if busy:
        rows = [
            [s["socket"], *(count_text(s[key]) for key in ("received", "dropped", "queued"))]
            for s in busy[:MOST_ROWS]
        ]
        _table(paper, ["", "received", "dropped", "queued"], rows, ["bold", "green", "red", ""])
        _more(paper, len(busy))


def _reassembly(summary: Summary, paper: Paper) -> None:
    names = ("fragments", "reassembled", "duplicates", "overlaps", "invalid", "expired", "refused")
    rows = [
        [REASSEMBLERS[family], *(count_text(counts[name]) for name in names)]
        for family, counts in summary.reassembly.items()
        if counts["fragments"]
    ]
    if rows:
        paper.heading("reassembly")
        _table(paper, ["", *names], rows, ["bold", "", "green", "", "red", "red", "red", "red"])


def _more(paper: Paper, count: int) -> None:
    if count > MOST_ROWS:
        paper.add(paper.style(f"  and {count - MOST_ROWS} more (see --json)", "dim"))


def _counters(summary: Summary, paper: Paper) -> None:
    hint = summary.hint
    if any(hint.values()):
        switch = summary.switches.get("route_hint", "on")
        paper.heading("route hint", f"route_hint={switch}")
        paper.add(
            f"  used {count_text(hint['used'])}, missed {count_text(hint['missed'])}, "
            f"refused by a guard {count_text(hint['refused'])}"
        )
    if not summary.counters:
        return
    paper.heading("counters", "as nstat names them")
    cells = [(name, count_text(value)) for name, value in summary.counters.items()]
    name_width = max(len(name) for name, _ in cells)
    value_width = max(len(value) for _, value in cells)
    columns = max((paper.width - 2) // (name_width + value_width + 4), 1)
    rows = -(-len(cells) // columns)
    for row in range(rows):
        line = [f"{n:<{name_width}} {v:>{value_width}}" for n, v in cells[row::rows]]
        paper.add("  " + "   ".join(line))


def _notes(summary: Summary, paper: Paper) -> None:
    if summary.unchecked:
        paper.add()
        paper.add(
            paper.style(
                f"{count_text(summary.unchecked)} packets were captured too short to verify a "
                "checksum: taken as right",
                "yellow",
            )
        )
    if summary.endings:
        paper.add()
    for ending in summary.endings:
        where = f"{ending['path']} ended early at byte {count_text(ending['offset'])}"
        paper.add(paper.style(f"{where}: {ending['why']}", "yellow"))
    if summary.files:
        paper.add()
    for name in summary.files:
        paper.add(paper.style("wrote ", "dim") + name)
