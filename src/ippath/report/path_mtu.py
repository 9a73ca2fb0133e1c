"""What `ippath pmtu` found, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ippath.explain import PROTOCOL_NAMES
from ippath.report.paper import Paper, count_text, seconds_text

if TYPE_CHECKING:
    from ippath.pmtu.finder import Findings, Flow, Path, Swallowed, Unanswered

TONES = {"heeded": "green", "ignored": "red", "not seen": "yellow"}
MEANINGS = {
    "heeded": "what followed was small enough",
    "ignored": "the sender went on with packets too large",
    "not seen": "no packet of the path follows",
}
MOST = 20  # entries of a section


def path_mtu_text(found: Findings, title: str, paper: Paper) -> str:
    """The whole report."""
    paper.add(paper.style(title, "bold"))
    about = f"{_many(found.errors, 'size error')} about {_many(len(found.paths), 'path')}"
    paper.add(paper.style(f"{_many(found.packets, 'packet')}, {about}", "dim"))
    if not (found.paths or found.unanswered or found.swallowed):
        paper.add()
        paper.add("Nothing was too large for its path, as far as the capture shows.")
    _section(paper, "paths with size errors", found.paths, _path)
    _section(paper, "too large here, and the sender was not told", found.unanswered, _unanswered)
    _section(
        paper, "swallowed: sent again and again, and no size error", found.swallowed, _swallowed
    )
    if found.not_kept:
        paper.add()
        what = f"{_many(found.not_kept, 'packet')} of further paths or flows had no room"
        paper.add(paper.style(f"{what}: use --filter", "yellow"))
    return paper.text()


def _section(paper: Paper, heading: str, entries: list, show) -> None:
    if not entries:
        return
    paper.heading(heading)
    for one in entries[:MOST]:
        show(paper, one)
    if len(entries) > MOST:
        paper.add(paper.style(f"  and {count_text(len(entries) - MOST)} more (--json)", "dim"))


def _path(paper: Paper, path: Path) -> None:
    tone = TONES[path.outcome]
    mtu = f"MTU {path.mtu}"
    if path.reported != path.mtu:
        mtu += f" (reported: {path.reported})"
    paper.add(f"  {path.source} > {path.destination}  {paper.style(mtu, 'bold')}")
    paper.add(f"    {paper.style(path.outcome, tone)}: {MEANINGS[path.outcome]}")
    others = f" and {_many(path.other_reports, 'time')} others" if path.other_reports else ""
    frames = _frames(path.first_frame, path.last_frame)
    paper.add(f"    {_many(path.reports, 'report')} by {path.reporter}{others}, {frames}")
    paper.add(f"    quoting up to {count_text(path.quoted)} bytes")
    for fate, count in path.fates.items():
        paper.add(f"    this host: {count_text(count)} {fate}")
    if path.learned is not None and path.learned != path.mtu:
        paper.add(f"    this host takes the path for {path.learned} in the end")
    if path.too_large:
        after = seconds_text(max(path.seconds_too_large, 0.0))
        paper.add(
            f"    then {_many(path.too_large, 'packet')} of up to {count_text(path.largest)} bytes,"
            f" the last {after} later (frame {path.last_too_large_frame})"
        )
    if path.too_large and path.largest_after:
        paper.add(f"    after that no more than {count_text(path.largest_after)} bytes")
    for flow in path.flows:
        paper.add(paper.style(f"      {_flow(flow)}", "dim"))


def _flow(flow: Flow) -> str:
    name = PROTOCOL_NAMES.get(flow.protocol, f"protocol {flow.protocol}")
    if flow.source_port or flow.destination_port:
        name += f" {flow.source_port} > {flow.destination_port}"
    sent = f"{_many(flow.packets, 'packet')} of up to {count_text(flow.largest)} bytes"
    return f"{name}: {sent}, {_frames(flow.first_frame, flow.last_frame)}"


def _unanswered(paper: Paper, one: Unanswered) -> None:
    paper.add(f"  {one.source} > {one.destination}")
    told = f"told {_many(one.told, 'time')}" if one.told else "never told"
    paper.add(f"    {_many(one.dropped, 'packet')} dropped, {paper.style(told, 'red')}")


def _swallowed(paper: Paper, one: Swallowed) -> None:
    source, destination = (
        f"[{ip}]:{port}" if one.family == 6 else f"{ip}:{port}"
        for ip, port in (
            (one.source, one.source_port), (one.destination, one.destination_port),
        )
    )  # fmt: skip
    paper.add(f"  TCP {source} > {destination}")
    paper.add(
        f"    {paper.style(f'{count_text(one.length)} bytes sent {one.times} times', 'red')} in"
        f" {seconds_text(one.seconds)}, never acknowledged,"
        f" {_frames(one.first_frame, one.last_frame)}"
    )
    if one.passed:
        paper.add(f"    then tried with {count_text(one.passed)} bytes")


def _frames(first: int, last: int) -> str:
    return f"frame {first}" if first == last else f"frames {first} to {last}"


def _many(count: int, what: str) -> str:
    return f"{count_text(count)} {what}{'' if count == 1 else 's'}"
