"""`ippath defrag`: a capture with its fragments put together."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ippath.cli import options
from ippath.cli.build import choose_build, compiling
from ippath.cli.progress import Progress
from ippath.cli.stopping import Stop

if TYPE_CHECKING:
    from ippath.capture.writer import PcapNgWriter
    from ippath.defrag import Overlap
    from ippath.report.paper import Paper

POLICIES = (
    "linux", "linux-4.18", "linux-old", "first", "last", "bsd", "windows", "solaris",
)  # fmt: skip
STEP = 1 << 14  # packets taken at a time
STEP_PLAIN = 1 << 9
MOST_SHOWN = 200  # overlaps in the text; --json has more
MOST_KEPT = 100_000
# what is said of each statistic, in this order
MEANINGS = {
    "reassembled": "datagrams put together",
    "joined": "fragments that they were made of",
    "duplicates": "fragments whose bytes were all there already",
    "overlaps": "fragments that overlapped with others",
    "invalid": "fragments whose length contradicts the others or the header",
    "refused": "fragments refused, over the memory limit",
    "expired": "fragments whose datagram was not whole in time",
    "discarded": "fragments discarded with a datagram that others made impossible",
    "ecn": "complete datagrams of fragments with and without ECN, discarded",
    "oversize": "complete datagrams above 65535 bytes, discarded",
    "damaged": "fragments with a damaged header, left as they are",
    "cut": "packets captured too short to tell, left as they are",
    "atomic": "IPv6 packets in a single fragment, left as they are",
    "waiting": "fragments that still waited at the end",
}


@click.command(short_help="Put datagrams together that come in fragments.")
@options.captures_argument
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False),
    metavar="OUT.pcapng",
    help="Where the packets go; each datagram has a comment that names its frames.",
)
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    default="linux",
    show_default=True,
    help="By whose rules: which bytes win where fragments overlap.",
)
@click.option(
    "--overlaps", is_flag=True, help="List overlapping fragments, and which bytes differ."
)
@click.option("--only", is_flag=True, help="Write the datagrams alone, not what came whole.")
@click.option(
    "--memory",
    type=click.IntRange(min=0),
    default=4 << 20,
    show_default=True,
    metavar="BYTES",
    help="Memory for fragments that wait, as Linux charges them (ipfrag_high_thresh).",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long a datagram may take.  [default: 30 for IPv4, 60 for IPv6 and 6LoWPAN]",
)
@click.option(
    "--context",
    "contexts",
    multiple=True,
    metavar="N=PREFIX",
    help="A prefix that compressed 6LoWPAN headers name by its number. May be repeated.",
)
@options.filter_option
@options.json_option
@options.seed_option
@options.quiet_option
def defrag(
    captures: tuple[str, ...],
    output: str | None,
    policy: str,
    overlaps: bool,
    only: bool,
    memory: int,
    timeout: float | None,
    contexts: tuple[str, ...],
    expression: str | None,
    as_json: bool,
    seed: int,
    quiet: bool,
) -> int:
    """Put datagrams together that come in fragments: IPv4, IPv6 and 6LoWPAN, by the rules of one system.

    All else is passed on as it is. Times are those of the capture; memory is bounded, whatever the
    capture holds.
    """
    choose_build(captures, entry="defragment_burst")
    from ippath.capture import open_captures
    from ippath.defrag import Defragmenter, Limits
    from ippath.jit import COMPILED

    seconds = (30.0, 60.0) if timeout is None else (timeout, timeout)
    limits = Limits(memory, *seconds)
    engine = Defragmenter(
        policy, limits, whole=not only, comments=output is not None, overlaps=overlaps, seed=seed,
        contexts=_contexts(contexts),
    )  # fmt: skip
    found: list[Overlap] = []
    progress, packets = Progress(quiet), 0
    with compiling(quiet, "defragment_burst"):
        engine.advance(0)
    begin = time.perf_counter()
    with (
        open_captures(list(captures), filter=expression) as source,
        _output_file(output, captures) as writer,
        Stop(quiet) as stop,
    ):
        try:
            for batch in source:
                batch.interfaces = batch.interfaces or list(source.interfaces)
                for part in _parts(batch, STEP if COMPILED else STEP_PLAIN):
                    whole = engine.push(part)
                    if writer is not None:
                        writer.write(whole)
                    found += engine.take_overlaps()[: MOST_KEPT - len(found)]
                    packets += len(part)
                    progress.update(packets, source.bytes_read, source.bytes_total)
                    if stop.wanted:
                        break
                if stop.wanted:
                    break
        finally:
            progress.close()
        endings = options.endings_of(source)
    facts: dict[str, Any] = {"captures": list(captures), "output": output, "policy": policy}
    facts |= engine.statistics()
    if overlaps:
        facts["overlapping"] = [overlap.to_dict() for overlap in found]
    facts |= {"seconds": round(time.perf_counter() - begin, 6), "compiled": COMPILED}
    facts |= {"interrupted": stop.wanted, "endings": endings}
    if as_json:
        options.print_json(facts)
    else:
        _print(facts, found if overlaps else None)
    return options.code_for(endings)


def _contexts(given: tuple[str, ...]) -> dict[int, str]:
    from ippath.defrag import prefixes

    contexts = {}
    for text in given:
        number, _, prefix = text.partition("=")
        try:
            contexts[int(number)] = prefix
            prefixes(contexts)
        except ValueError as error:
            raise click.BadParameter(f"{text}: {error}", param_hint="--context") from None
    return contexts


def _parts(batch: Any, step: int) -> Iterator[Any]:
    for begin in range(0, len(batch), step):
        yield batch.select(slice(begin, begin + step))


@contextmanager
def _output_file(name: str | None, captures: tuple[str, ...]) -> Iterator[PcapNgWriter | None]:
    """The file to write, under a hidden name until it is complete."""
    if name is None:
        yield None
        return
    from ippath.capture.writer import PcapNgWriter

    target = Path(name)
    if any(c != "-" and Path(c).resolve() == target.resolve() for c in captures):
        raise click.UsageError(f"-o {name} would replace the capture")
    hidden = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with PcapNgWriter(hidden, comment="fragments put together by ippath") as writer:
            yield writer
        hidden.replace(target)
    finally:
        hidden.unlink(missing_ok=True)


def _print(facts: dict[str, Any], found: list[Overlap] | None) -> None:
    from ippath.report.paper import Paper, bytes_text, count_text, emit, seconds_text

    paper = Paper.for_stream(sys.stdout)
    names = facts["captures"]
    paper.add(paper.style(names[0] if len(names) == 1 else f"{len(names)} captures", "bold"))
    line = f"{count_text(facts['packets'])} packets, {count_text(facts['fragments'])} fragments"
    line += f", policy {facts['policy']}, in {seconds_text(facts['seconds'])}"
    paper.add(paper.style(line, "dim"))
    if facts["interrupted"]:
        paper.add(paper.style("stopped by Ctrl-C: this is what was done until then", "yellow"))
    paper.add()
    for name, meaning in MEANINGS.items():
        count = facts[name]
        if count or name in ("reassembled", "joined"):
            tone = {"reassembled": "green", "joined": "green", "atomic": "", "waiting": "yellow"}
            text = f"  {count_text(count):>11}  {meaning}"
            paper.add(paper.style(text, tone.get(name, "red")) if count else text)
    peak = f"{bytes_text(facts['memory_peak'])} at most of {bytes_text(facts['memory_limit'])}"
    paper.add(paper.style(f"  memory for what waited: {peak}", "dim"))
    if found is not None:
        _print_overlaps(found, paper)
    for ending in facts["endings"]:
        where = f"{ending['path']} ended early at byte {count_text(ending['offset'])}"
        paper.add(paper.style(f"{where}: {ending['why']}", "yellow"))
    if facts["output"]:
        paper.add()
        paper.add(paper.style("wrote ", "dim") + facts["output"])
    emit(paper.text())


def _print_overlaps(found: list[Overlap], paper: Paper) -> None:
    from ippath.report.paper import count_text

    paper.heading("overlaps", "" if found else "none")
    for one in found[:MOST_SHOWN]:
        if one.differing:
            what = paper.style(f"{count_text(one.differing)} of the bytes in common differ", "red")
        elif one.compared:
            what = f"{count_text(one.compared)} bytes in common are equal"
        else:
            what = "the bytes in common were not captured"
        paper.add(
            f"  frame {one.frame} [{one.begin}, {one.end}) and frame {one.other_frame} "
            f"[{one.other_begin}, {one.other_end}): {what}"
        )
        where = f"{one.source} > {one.destination}, id {one.identification:#x}"
        fate = "held" if one.outcome in ("held", "joined") else one.outcome
        paper.add(paper.style(f"    {where}, protocol {one.protocol}: {fate}", "dim"))
    if len(found) > MOST_SHOWN:
        left = count_text(len(found) - MOST_SHOWN)
        paper.add(paper.style(f"  and {left} more (see --json)", "dim"))
