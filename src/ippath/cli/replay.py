"""`ippath replay`: captures through a host."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ippath.cli import options
from ippath.cli.build import choose_build, compiling, ready
from ippath.cli.progress import Progress
from ippath.cli.stopping import Stop

if TYPE_CHECKING:
    from ippath.batch import PacketBatch
    from ippath.capture import Captures
    from ippath.netns import Netns
    from ippath.report.sent_packets import SentPackets
    from ippath.report.summary import Summary
    from ippath.report.verdict_files import VerdictFile
    from ippath.report.watch import Watch

STEP = 1 << 17  # packets received at a time
STEP_WITH_OUTPUT = 1 << 13  # when packets sent are kept: they may be as large as those received
STEP_WITH_ROWS = 1 << 15  # when verdicts go to files
STEP_PLAIN = 1 << 9  # uncompiled, so that Ctrl-C and the progress bar do not wait


def _verdict_paths(
    ctx: click.Context, param: click.Parameter, paths: tuple[str, ...]
) -> tuple[str, ...]:
    from ippath.report.verdict_files import SUFFIXES

    for path in paths:
        if Path(path).suffix.lower() not in SUFFIXES:
            raise click.BadParameter(f"{path}: the name must end in {', '.join(SUFFIXES)}")
        if not Path(path).absolute().parent.is_dir():
            raise click.BadParameter(f"{path}: there is no folder {Path(path).parent}")
    return paths


@click.command(short_help="Run captures through a host.")
@options.captures_argument
@options.host_option
@options.on_option
@options.switch_option
@options.filter_option
@options.json_option
@click.option(
    "--verdicts",
    "verdict_paths",
    multiple=True,
    metavar="FILE",
    callback=_verdict_paths,
    help="One row per packet, to FILE.parquet, .csv, .jsonl or .arrow; may be repeated.",
)
@click.option(
    "--write",
    "folder",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="The packets that the host sends, as DIR/<device>.pcap.",
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N packets.")
@options.seed_option
@click.option(
    "--save-host",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Save the host that was used (the guess, or HOST in full) as a host file.",
)
@options.quiet_option
def replay(
    captures: tuple[str, ...],
    host_path: str | None,
    on: str | None,
    switches: dict[str, str],
    expression: str | None,
    as_json: bool,
    verdict_paths: tuple[str, ...],
    folder: str | None,
    limit: int | None,
    seed: int,
    save_host: str | None,
    quiet: bool,
) -> int:
    """Run the packets of captures through a host and say what happened to them.

    CAPTURE is a pcap or pcapng file, also compressed by gzip, xz or zstd, a folder of them, or `-`
    for standard input. Several are merged by time.
    """
    choose_build(captures, limit)
    from ippath.capture import open_captures

    with open_captures(list(captures), filter=expression) as source:
        if source.skipped and not quiet:
            print(f"{len(source.skipped)} files of the folder are no captures", file=sys.stderr)
        batches = options.at_most(source, limit)
        host_facts: dict[str, Any] = {"source": host_path, "inferred": host_path is None}
        with compiling(quiet):
            first = next(batches, None)
            known = [first] if first is not None else []
            batches = itertools.chain(known, batches)
            host, text = options.host_for(list(captures), known, host_path, quiet)
            if host_path is None:
                host_facts["lines"] = text.splitlines()
            from ippath.netns import Netns

            netns = Netns(host, switches=switches, seed=seed)
            ready(netns)
        if text and not quiet:
            _show_guess(text)
        if save_host is not None:
            _save_host(save_host, text, host)
        run = Replay(netns, on, verdict_paths, folder, captures)
        try:
            with Stop(quiet) as stop:
                summary = run.run(source, batches, stop, Progress(quiet))
        except BaseException:
            run.discard()
            raise
        summary.files = run.close()
        if save_host is not None:
            summary.files.append(save_host)
    netns.close_accounts()
    summary.captures = list(captures)
    summary.host = host_facts
    if as_json:
        options.print_json(summary.to_dict())
    else:
        _print_summary(summary)
    return options.code_for(summary.endings)


class Replay:
    """One replay: a host, what watches it and the files it fills."""

    def __init__(
        self,
        netns: Netns,
        on: str | None,
        verdict_paths: tuple[str, ...],
        folder: str | None,
        captures: tuple[str, ...],
    ):
        from ippath.report.watch import Watch

        self.netns = netns
        self.on = on
        self.watch: Watch = Watch()
        self.files: list[VerdictFile] = []
        self.sent: SentPackets | None = None
        options.check_device(self.netns, on)
        if folder is not None:
            self._open_folder(Path(folder), captures)
        if verdict_paths:
            self._open_files(verdict_paths)

    def _open_folder(self, folder: Path, captures: tuple[str, ...]) -> None:
        from ippath.report.sent_packets import SentPackets

        inputs = {Path(name).resolve() for name in captures if name != "-"}
        for device in self.netns.host.devices:
            target = folder / f"{device.name}.pcap"
            if target.resolve() in inputs:
                raise click.UsageError(f"--write {folder} would replace the capture {target}")
        self.sent = SentPackets(folder, self.netns)

    def _open_files(self, paths: tuple[str, ...]) -> None:
        import numpy as np

        from ippath.batch import PacketBatch
        from ippath.report.verdict_files import open_verdict_file
        from ippath.tables import V_COLUMNS
        from ippath.verdicts import Verdicts

        nothing = Verdicts(np.zeros((0, V_COLUMNS), np.int32), 1, np.zeros(1, np.int64))
        schema = nothing.to_arrow(PacketBatch.from_packets([]), self.netns).schema
        self.files = [open_verdict_file(path, schema) for path in paths]

    def run(self, source: Captures, batches: Any, stop: Stop, progress: Progress) -> Summary:
        """Receive all batches, or as many as come before `stop`; returns the summary."""
        from ippath.jit import COMPILED
        from ippath.report.summary import summarise

        step = STEP_WITH_OUTPUT if self.sent is not None else STEP_WITH_ROWS
        if not self.files and self.sent is None:
            step = STEP
        if not COMPILED:
            step = STEP_PLAIN
        begin = time.perf_counter()
        packets = 0
        try:
            for batch in batches:
                for part in self._parts(source, batch, step):
                    self._receive(part)
                    packets += len(part)
                    progress.update(packets, source.bytes_read, source.bytes_total)
                    if stop.wanted:
                        break
                if stop.wanted:
                    break
        finally:
            progress.close()
        summary = summarise(self.netns, self.watch, time.perf_counter() - begin, COMPILED)
        summary.interrupted = stop.wanted
        summary.endings = options.endings_of(source)
        return summary

    def _parts(self, source: Captures, batch: PacketBatch, step: int) -> Any:
        self.netns.map_devices(batch, source.interfaces, self.on)
        if len(batch) <= step:
            yield batch
            return
        for begin in range(0, len(batch), step):
            yield batch.select(slice(begin, begin + step))

    def _receive(self, part: PacketBatch) -> None:
        # verdicts must not depend on where batches are cut: the receive list goes on
        verdicts = self.netns.receive(
            part, collect_output=self.sent is not None, continue_list=True
        )
        self.watch.add(part, verdicts)
        if self.files:
            rows = verdicts.to_arrow(part, self.netns)
            for file in self.files:
                file.write(rows)
        if self.sent is not None:
            self.sent.write(self.netns.take_output_batches())

    def close(self) -> list[str]:
        """Give all files their names; returns them."""
        for file in self.files:
            file.close()
        names = [str(file.path) for file in self.files]
        if self.sent is not None:
            names += [str(path) for path in self.sent.close()]
        return names

    def discard(self) -> None:
        """Drop all files that were begun."""
        for file in self.files:
            file.discard()
        if self.sent is not None:
            self.sent.discard()


def _show_guess(text: str) -> None:
    from ippath.report.paper import Paper, emit

    paper = Paper.for_stream(sys.stderr)
    paper.add(paper.style("no --host: the host is guessed (--save-host FILE keeps it)", "yellow"))
    for line in text.splitlines():
        command, sign, why = line.partition("  # ")
        paper.add("  " + command + (paper.style(sign + why, "dim") if sign else ""))
    paper.add()
    emit(paper.text(), sys.stderr)


def _save_host(path: str, text: str, host: Any) -> None:
    if not text:
        from ippath.config import render_host

        text = render_host(host)
    Path(path).write_text(text, encoding="utf-8")


def _print_summary(summary: Summary) -> None:
    from ippath.report.paper import Paper, emit
    from ippath.report.terminal import summary_text

    emit(summary_text(summary, Paper.for_stream(sys.stdout)))
