"""`ippath bench`: measure a workload."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ippath.cli import options
from ippath.cli.exits import FINE

if TYPE_CHECKING:
    from ippath.bench.framework import Report

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}


def _size(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """`4 GB` in bytes."""
    if text is None:
        return None
    number = text.strip().rstrip("kKmMgGbB ")
    unit = text.strip()[len(number) :].strip().lower()
    try:
        size = float(number) * _UNITS[unit if unit in _UNITS else unit + "b"]
    except (ValueError, KeyError):
        raise click.BadParameter(f"{text}: write a size such as 500MB or 4GB") from None
    if not 1 <= size < 1e15:
        raise click.BadParameter(f"{text}: out of range")
    return int(size)


def _name(ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
    from ippath.bench import UnknownWorkload, check_name

    try:
        if name is not None:
            check_name(name)
    except UnknownWorkload as unknown:
        raise click.BadParameter(str(unknown)) from None
    return name


@click.command(short_help="Measure how fast it is.")
@click.argument("name", required=False, callback=_name)
@click.option("--quick", is_flag=True, help="Less work and fewer repetitions, under a minute.")
@click.option("--size", callback=_size, metavar="SIZE", help="Size of the captures, such as 500MB.")
@options.json_option
def bench(name: str | None, quick: bool, size: int | None, as_json: bool) -> int:
    """Measure workload NAME; without a name list the workloads.

    Ctrl-C ends the measuring; what was measured until then is shown.
    """
    from ippath.bench import measure_workload, workload_list

    if name is None:
        click.echo(workload_list())
        return FINE
    from ippath.bench.framework import WorkloadError

    try:
        report = measure_workload(name, quick, size)
    except WorkloadError as problem:
        raise click.UsageError(str(problem)) from None
    _show(report, as_json)
    return FINE


def _show(report: Report, as_json: bool) -> None:
    if as_json:
        options.print_json(report.to_dict())
        return
    from ippath.bench.tables import text_for
    from ippath.report.paper import emit

    emit(text_for(report, sys.stdout))
