"""Commands about hosts: `infer`, `check`, `snapshot`, `switches`."""

from __future__ import annotations

import sys

import click

from ippath.cli import options
from ippath.cli.build import choose_build

LOOKED_AT = 100_000  # packets that a guess is made from at most (ippath.config.infer)


@click.command(short_help="Guess the host behind a capture.")
@options.captures_argument
@options.filter_option
def infer(captures: tuple[str, ...], expression: str | None) -> int:
    """Guess the host behind captures and print it as a host file, with the reason for each line."""
    choose_build(captures, LOOKED_AT)
    from ippath.capture import open_captures

    with open_captures(list(captures), filter=expression) as source:
        _, text = options.guess_host(list(captures), source)
        endings = options.endings_of(source)
    click.echo(text, nl=False)
    for ending in endings:
        where = f"{ending['path']} ended early at byte {ending['offset']}"
        print(f"{where}: {ending['why']}", file=sys.stderr)
    return options.code_for(endings)


@click.command(short_help="Check a host file.")
@click.argument("host", type=click.Path(exists=True))
def check(host: str) -> int:
    """Check a host file or snapshot and print the host in full, as a host file.

    Wrong lines are listed with file, line, column and what was expected; the exit code is then 2.
    """
    described = options.load_host(host)
    from ippath.config import render_host

    click.echo(render_host(described), nl=False)
    return 0


@click.command(short_help="Save this machine's network state.")
@click.argument("target", metavar="FILE|DIR", type=click.Path())
@options.quiet_option
def snapshot(target: str, quiet: bool) -> int:
    """Save devices, addresses, routes, rules, neighbours, UDP sockets and sysctls of this machine.

    No root is needed. The result can be given to --host on any machine.
    """
    from ippath.config.snapshot import take

    take(target)
    if not quiet:
        click.echo(
            f"saved to {target}; use it with: ippath replay CAPTURE --host {target}", err=True
        )
    return 0


@click.command(short_help="List the mechanism switches.")
@options.json_option
def switches(as_json: bool) -> int:
    """List the mechanism switches: default, values, meaning and the kernels that behave so."""
    import textwrap

    from ippath.report.paper import Paper, emit
    from ippath.switches import SWITCHES

    if as_json:
        options.print_json(
            [
                {
                    "name": s.name,
                    "default": s.default,
                    "values": list(s.values),
                    "least": None if s.values else s.least,
                    "most": None if s.values else s.most,
                    "meaning": s.meaning,
                    "kernel": s.kernel,
                }
                for s in SWITCHES
            ]
        )
        return 0
    paper = Paper.for_stream(sys.stdout)
    for switch in SWITCHES:
        choice = ", ".join(switch.values) or f"a number, {switch.least} to {switch.most}"
        name = paper.style(f"{switch.name}={switch.default}", "bold")
        paper.add(name + paper.style(f"  ({choice})", "dim"))
        for text in (switch.meaning, switch.kernel):
            for line in textwrap.wrap(text, paper.width - 4):
                paper.add("    " + (line if text is switch.meaning else paper.style(line, "dim")))
    emit(paper.text())
    return 0
