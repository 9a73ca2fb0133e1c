"""`ippath pmtu`: paths with a smaller MTU, and who did not hear of it."""

from __future__ import annotations

import itertools
import sys

import click

from ippath.cli import options
from ippath.cli.build import choose_build, compiling, ready
from ippath.cli.progress import Progress
from ippath.cli.stopping import Stop


@click.command(short_help="Find paths with a smaller MTU and what they swallow.")
@options.captures_argument
@options.host_option
@options.on_option
@options.switch_option
@options.filter_option
@options.seed_option
@options.json_option
@options.quiet_option
def pmtu(
    captures: tuple[str, ...],
    host_path: str | None,
    on: str | None,
    switches: dict[str, str],
    expression: str | None,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> int:
    """Find the paths of captures that take less than their senders think.

    Lists destinations with ICMP size errors, what the host makes of each error, senders that
    went on with packets too large, packets that the host itself dropped as too large without
    telling the sender, and TCP segments that were sent again and again without any error: black
    holes. The packets go through the host as with `ippath replay`.
    """
    choose_build(captures, None)
    from ippath.capture import open_captures

    with open_captures(list(captures), filter=expression) as source:
        batches = options.at_most(source, None)
        with compiling(quiet):
            first = next(batches, None)
            known = [first] if first is not None else []
            host, _ = options.host_for(list(captures), known, host_path, quiet)
            from ippath.netns import Netns
            from ippath.pmtu.finder import Finder

            netns = Netns(host, switches=switches, seed=seed)
            options.check_device(netns, on)
            ready(netns)
            finder = Finder(netns)
        packets, progress = 0, Progress(quiet)
        with Stop(quiet) as stop:
            try:
                for batch in itertools.chain(known, batches):
                    netns.map_devices(batch, source.interfaces, on)
                    finder.add(batch)
                    packets += len(batch)
                    progress.update(packets, source.bytes_read, source.bytes_total)
                    if stop.wanted:
                        break
            finally:
                progress.close()
        endings = options.endings_of(source)
    netns.close_accounts()
    found = finder.findings()
    if as_json:
        host_facts = {"source": host_path, "inferred": host_path is None}
        options.print_json(
            {
                **found.to_dict(),
                "captures": list(captures),
                "host": host_facts,
                "endings": endings,
                "interrupted": stop.wanted,
            }
        )
    else:
        from ippath.report.paper import Paper, emit
        from ippath.report.path_mtu import path_mtu_text

        name = captures[0] if len(captures) == 1 else f"{len(captures)} captures"
        through = host_path or "a host guessed from it"
        emit(path_mtu_text(found, f"{name} through {through}", Paper.for_stream(sys.stdout)))
        for ending in endings:
            emit(f"{ending['path']} ended early at byte {ending['offset']}: {ending['why']}\n")
    return options.code_for(endings)
