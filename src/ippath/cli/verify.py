"""`ippath verify`: a host and a capture, or scenario files, asked of the running kernel as well."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ippath.cli import options
from ippath.cli.build import choose_build, compiling, ready
from ippath.cli.exits import FINE, NO
from ippath.cli.stopping import Stop

if TYPE_CHECKING:
    from ippath.report.agreement import Agreement

SCENARIO = ".scenario"
MOST_PACKETS = 100_000


@click.command(short_help="Compare with the running kernel.")
@click.argument("files", nargs=-1, required=True, metavar="HOST CAPTURE… | FILE.scenario…")
@options.on_option
@options.filter_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=MOST_PACKETS, show_default=True, metavar="N",
    help="Stop after N packets.",
)  # fmt: skip
@click.option(
    "--save", type=click.Path(file_okay=False), metavar="DIR",
    help="Save each difference as DIR/N.scenario.",
)  # fmt: skip
@click.option(
    "--most", type=click.IntRange(min=1), default=3, show_default=True, metavar="N",
    help="Make N kinds of difference small, no more.",
)  # fmt: skip
@options.json_option
@options.quiet_option
def verify(
    files: tuple[str, ...],
    on: str | None,
    expression: str | None,
    limit: int,
    save: str | None,
    most: int,
    as_json: bool,
    quiet: bool,
) -> int:
    """Ask the running Linux kernel what it does with the same packets, and compare.

    The host is made in a network namespace of its own, which ends with the command; this machine's
    network is not touched. Compared are the packets sent, byte for byte, the datagrams of each
    socket, every counter, and the drop reasons. Differences are made small: the fewest lines and
    packets that still show them. Needs root.

    \b
    ippath verify router.host capture.pcapng
    ippath verify difference.scenario
    """
    scenarios = [Path(f).suffix == SCENARIO for f in files]
    if not all(scenarios) and len(files) < 2:
        raise click.UsageError("give a HOST and a CAPTURE, or scenario files (*.scenario)")
    if any(scenarios) and not all(scenarios):
        raise click.UsageError("scenario files contain their host: give no other files")
    choose_build([] if all(scenarios) else files[1:], 0 if all(scenarios) else limit)
    from ippath.report.agreement import Agreement
    from ippath.verify.namespace import KernelError, available, kernel_version

    if why_not := available():
        raise click.ClickException(f"the kernel can't be asked here: {why_not}")
    agreement = Agreement(kernel_version(), most)
    try:
        if all(scenarios):
            _verify_scenarios(files, agreement)
        else:
            _verify_captures(files[0], files[1:], on, expression, limit, agreement, quiet)
    except KernelError as problem:
        raise click.ClickException(str(problem)) from None
    if save is not None:
        agreement.save(Path(save))
    if as_json:
        options.print_json(agreement.to_dict())
    else:
        from ippath.report.paper import Paper, emit

        paper = Paper.for_stream(sys.stdout)
        agreement.draw(paper)
        emit(paper.text())
    return FINE if agreement.agrees else NO


def _verify_scenarios(files: tuple[str, ...], agreement: Agreement) -> None:
    from ippath.verify.on_ippath import Ippath
    from ippath.verify.on_kernel import Kernel
    from ippath.verify.scenario_file import load_scenario

    loaded = [load_scenario(file) for file in files]
    with Kernel() as kernel:
        for scenario in loaded:
            agreement.ask(scenario, kernel, Ippath())


def _verify_captures(
    host_path: str,
    captures: tuple[str, ...],
    on: str | None,
    expression: str | None,
    limit: int,
    agreement: Agreement,
    quiet: bool,
) -> None:
    from ippath.capture import open_captures
    from ippath.verify.captures import Preparer
    from ippath.verify.on_ippath import Ippath
    from ippath.verify.on_kernel import Kernel

    preparer = Preparer(options.load_host(host_path, quiet))
    options.check_device(preparer.netns, on)
    agreement.preparer = preparer
    with compiling(quiet):
        ready(preparer.netns)
    name = Path(captures[0]).name
    with Kernel() as kernel, Stop(quiet) as stop:
        with open_captures(list(captures), filter=expression) as source:
            for batch in options.at_most(source, limit):
                preparer.netns.map_devices(batch, source.interfaces, on)
                for scenario in preparer.scenarios([batch], name):
                    agreement.ask(scenario, kernel, Ippath())
                    if not quiet and sys.stderr.isatty():
                        print(f"\r{agreement.packets:,} packets asked", end="", file=sys.stderr)
                    if stop.wanted:
                        break
                if stop.wanted:
                    agreement.stopped = True
                    break
        if not quiet and sys.stderr.isatty():
            print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
