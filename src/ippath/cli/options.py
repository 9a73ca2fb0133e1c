"""Options that several commands share, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ippath.cli.exits import ENDED_EARLY, FINE

if TYPE_CHECKING:
    from ippath.batch import PacketBatch
    from ippath.capture import Captures
    from ippath.config import HostErrors
    from ippath.model import Host
    from ippath.netns import Netns

_MOST_CORRECTIONS = 5  # of a guess; each takes all lines out that are wrong then

Decorator = Callable[[Any], Any]


def _switches(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    chosen = {}
    for one in given:
        name, sign, value = one.partition("=")
        if not sign:
            raise click.BadParameter(f"{one}: write NAME=VALUE (see `ippath switches`)")
        from ippath.switches import SwitchError, check_switch

        try:
            chosen[name] = check_switch(name, value)
        except SwitchError as problem:
            raise click.BadParameter(str(problem)) from None
    return chosen


host_option: Decorator = click.option(
    "--host",
    "host_path",
    type=click.Path(exists=True),
    metavar="HOST",
    help="Host file (`ip` lines and sysctls) or snapshot. Without it the host is guessed.",
)
on_option: Decorator = click.option(
    "--on",
    metavar="DEV",
    help="Receive everything on this device, whatever the capture's interfaces are called.",
)
switch_option: Decorator = click.option(
    "--switch",
    "switches",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_switches,
    help="Set a mechanism switch (see `ippath switches`); may be repeated.",
)
filter_option: Decorator = click.option(
    "--filter",
    "expression",
    metavar="EXPR",
    help="Only packets that match a tcpdump expression.",
)
seed_option: Decorator = click.option(
    "--seed", type=int, default=0, show_default=True, help="Start of all randomness."
)
json_option: Decorator = click.option(
    "--json", "as_json", is_flag=True, help="JSON on standard output."
)
quiet_option: Decorator = click.option(
    "--quiet", "-q", is_flag=True, help="No progress and no remarks on standard error."
)
captures_argument: Decorator = click.argument(
    "captures", nargs=-1, required=True, metavar="CAPTURE…"
)


def load_host(path: str, quiet: bool = False) -> Host:
    """The host of a host file or snapshot; raises HostErrors.

    Says on standard error which lines are valid but doubtful, unless `quiet`.
    """
    from ippath.config import load_with_warnings

    parsed = load_with_warnings(path)
    for doubt in [] if quiet else parsed.warnings:
        click.echo(f"warning: {doubt}", err=True)
    return parsed.host


def check_device(netns: Netns, on: str | None) -> None:
    """Raise click.UsageError if `on` is no device of the host."""
    try:
        netns.map_interfaces([""], on)
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None


def guess_text(captures: list[str], batches: Any) -> str:
    """The host guessed from the packets, as lines with the reason for each."""
    from ippath.config.infer import infer_text

    source = captures[0] if len(captures) == 1 else f"{len(captures)} captures"
    return infer_text(batches, source="standard input" if source == "-" else source)


def guess_host(captures: list[str], batches: Any) -> tuple[Host, str]:
    """The host guessed from the packets, and its lines."""
    from ippath.config import HostErrors, parse_host

    text = guess_text(captures, batches)
    for _ in range(_MOST_CORRECTIONS):
        try:
            return parse_host(text, name="<guessed>"), text
        except HostErrors as problems:
            text = _without_wrong_lines(text, problems)
    return parse_host(text, name="<guessed>"), text


def host_for(
    captures: list[str], known: list[PacketBatch], path: str | None, quiet: bool
) -> tuple[Host, str]:
    """The host of a file, or one guessed from what is known of the captures, and its lines then."""
    if path is None:
        return guess_host(captures, known)
    return load_host(path, quiet), ""


def _without_wrong_lines(text: str, problems: HostErrors) -> str:
    """The text with lines that contradict the others as comments: packets may well contradict."""
    lines = text.splitlines()
    for problem in problems.problems:
        if 0 < problem.line <= len(lines):
            line = lines[problem.line - 1]
            lines[problem.line - 1] = f"# left out ({problem.expected}): {line}"
    return "\n".join(lines) + "\n"


def at_most(batches: Any, limit: int | None) -> Iterator[PacketBatch]:
    """The batches up to `limit` packets in all."""
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        if len(batch) >= left:
            if left:
                yield batch.select(slice(0, left))
            return
        left -= len(batch)
        yield batch


def endings_of(captures: Captures) -> list[dict[str, Any]]:
    """Where captures ended early, as plain data."""
    return [{"path": str(e.path), "offset": int(e.offset), "why": e.why} for e in captures.endings]


def code_for(endings: list[dict[str, Any]]) -> int:
    """The exit code of a command that has read captures."""
    return ENDED_EARLY if endings else FINE


def print_json(value: Any) -> None:
    """A value as JSON on standard output."""
    import json

    click.echo(json.dumps(value, indent=2, ensure_ascii=False))
