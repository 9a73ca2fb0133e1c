"""`ippath bench`: measure a workload."""

from __future__ import annotations

import click

from ippath.cli import options


@click.command(short_help="Measure a workload.")
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="Fewer repetitions, under a minute.")
@options.json_option
def bench(name: str | None, quick: bool, as_json: bool) -> int:
    """Measure workload NAME; without a name list the workloads."""
    from ippath import bench as workloads

    run = getattr(workloads, "run", None)
    if run is None:
        raise click.UsageError("this version has no workloads yet")
    return int(run(name, quick=quick, as_json=as_json) or 0)
