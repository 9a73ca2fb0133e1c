"""`ippath info`: what is in a capture."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import click

from ippath.cli import options
from ippath.cli.build import choose_build

# names of tcpdump.org/linktypes.html, where ippath reads the link type
LINK_NAMES = {
    0: "NULL", 1: "ETHERNET", 9: "PPP", 12: "RAW", 14: "RAW", 50: "PPP_HDLC", 51: "PPP_ETHER",
    101: "RAW", 108: "LOOP", 113: "LINUX_SLL", 219: "MPLS", 228: "IPV4", 229: "IPV6",
    195: "IEEE802_15_4", 230: "IEEE802_15_4_NOFCS", 276: "LINUX_SLL2", 283: "IEEE802_15_4_TAP",
}  # fmt: skip


@click.command(short_help="Count what is in a capture.")
@options.captures_argument
@options.filter_option
@options.json_option
def info(captures: tuple[str, ...], expression: str | None, as_json: bool) -> int:
    """Count what is in captures by the outermost IP header, without any host."""
    choose_build(captures)
    import numpy as np

    from ippath.capture import open_captures
    from ippath.census import Census

    census = Census()
    links: dict[int, int] = {}
    frames: dict[int, int] = {}
    first: int | None = None
    last: int | None = None
    size = 0
    with open_captures(list(captures), filter=expression) as source:
        for batch in source:
            if not len(batch):
                continue
            census.add(batch)
            size += int(batch.wire_length.sum())
            for column, counts in ((batch.link_type, links), (batch.device, frames)):
                for value, count in zip(*np.unique(column, return_counts=True)):
                    counts[int(value)] = counts.get(int(value), 0) + int(count)
            low, high = int(batch.time_ns.min()), int(batch.time_ns.max())
            first = low if first is None else min(first, low)
            last = high if last is None else max(last, high)
        names = list(source.interfaces)
        endings = options.endings_of(source)
        comments = dict(source.comments)
    facts = {
        "captures": list(captures),
        **census.counts,
        "bytes": size,
        "link_types": [
            {"number": k, "name": LINK_NAMES.get(k), "packets": n} for k, n in sorted(links.items())
        ],
        "interfaces": [
            {"name": names[k] if 0 <= k < len(names) else "", "packets": n}
            for k, n in sorted(frames.items())
        ],
        "first_time_ns": first,
        "last_time_ns": last,
        "comments": [{"frame": k, "text": text} for k, text in sorted(comments.items())],
        "endings": endings,
    }
    if as_json:
        options.print_json(facts)
    else:
        _print(facts)
    return options.code_for(endings)


def _print(facts: dict[str, Any]) -> None:
    from ippath.census import MEANING
    from ippath.report.paper import Paper, bytes_text, count_text, emit, seconds_text

    paper = Paper.for_stream(sys.stdout)
    names = facts["captures"]
    paper.add(paper.style(names[0] if len(names) == 1 else f"{len(names)} captures", "bold"))
    line = f"{count_text(facts['packets'])} packets, {bytes_text(facts['bytes'])} on the wire"
    first, last = facts["first_time_ns"], facts["last_time_ns"]
    if first is not None:
        begin = datetime.fromtimestamp(first / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        line += f", {seconds_text((last - first) / 1e9)} from {begin}"
    paper.add(paper.style(line, "dim"))
    paper.add()
    for name, meaning in MEANING.items():
        number = facts[name]
        text = f"  {count_text(number):>13}  {meaning}"
        bad = number and "bad" in name
        paper.add(paper.style(text, "red" if bad else "") if number else paper.style(text, "dim"))
    paper.heading("link types")
    for link in facts["link_types"]:
        name = link["name"] or "not read by ippath"
        paper.add(f"  {count_text(link['packets']):>13}  {link['number']} {name}")
    if any(i["name"] for i in facts["interfaces"]):
        paper.heading("interfaces")
        for interface in facts["interfaces"]:
            paper.add(
                f"  {count_text(interface['packets']):>13}  {interface['name'] or '(no name)'}"
            )
    if facts["comments"]:
        paper.heading("comments")
        for comment in facts["comments"][:20]:
            paper.add(f"  frame {comment['frame']}: {comment['text']}")
        if len(facts["comments"]) > 20:
            paper.add(paper.style(f"  and {len(facts['comments']) - 20} more (see --json)", "dim"))
    if facts["endings"]:
        paper.add()
    for ending in facts["endings"]:
        where = f"{ending['path']} ended early at byte {count_text(ending['offset'])}"
        paper.add(paper.style(f"{where}: {ending['why']}", "yellow"))
    emit(paper.text())
