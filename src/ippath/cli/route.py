"""`ippath route`: what `ip route get` and `ip route show` print, why, and what differs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ippath.cli import options
from ippath.cli.build import choose_build, compiling
from ippath.cli.exits import FINE, NO

if TYPE_CHECKING:
    from ippath.config.ip_route_get import Asked
    from ippath.config.words import Reader, Wrong
    from ippath.model import Host
    from ippath.netns import Netns

FEW = 3000  # addresses that the uncompiled path answers before the compiled one has started
FEW_WHEN_COLD = 100_000

host_option: options.Decorator = click.option(
    "--host", "host_path", type=click.Path(exists=True), metavar="HOST", required=True,
    help="Host file (`ip` lines and sysctls) or snapshot.",
)  # fmt: skip
after_option: options.Decorator = click.option(
    "--after", type=click.Path(exists=True, dir_okay=False), metavar="CAPTURE",
    help="Receive a capture first: the path MTUs that it teaches count.",
)  # fmt: skip
four_option: options.Decorator = click.option("-4", "family", flag_value=4, type=int, help="IPv4.")
six_option: options.Decorator = click.option("-6", "family", flag_value=6, type=int, help="IPv6.")


@click.group(short_help="Ask a host for routes.")
def route() -> None:
    """Ask a modelled host for routes.

    \b
    ippath route get 8.8.8.8 from 10.0.0.5 iif eth0 --host router.host
    ippath route why 2001:db8::1 --host router.host
    ippath route show table all --host router.host
    """


# --- get, why -------------------------------------------------------------------------------------------


def _question(words: tuple[str, ...], family: int | None, with_destination: bool) -> Asked:
    from ippath.config.ip_route_get import read_question

    return _read(words, lambda reader: read_question(reader, family, with_destination))


def _read(words: tuple[str, ...], read: Callable[[Reader], Any]) -> Any:
    """Read the words of a command; what is wrong becomes an error of its usage."""
    from ippath.config.ip_route_get import reader_of
    from ippath.config.words import Wrong

    try:
        return read(reader_of(words))
    except Wrong as wrong:
        raise click.UsageError(_wrong_text(wrong)) from None


def _wrong_text(wrong: Wrong) -> str:
    near = f"; did you mean {wrong.nearest!r}?" if wrong.nearest else ""
    return f"{wrong.expected}{near}"


@route.command(short_help="The way to an address, as `ip route get` prints it.")
@click.argument(
    "words", nargs=-1, metavar="[ADDRESS] [from ADDRESS] [iif DEV] [oif DEV] [mark N] …"
)
@host_option
@four_option
@six_option
@options.json_option
@click.option("--file", "addresses", type=click.Path(exists=True), metavar="FILE",
              help="Ask for each address of a file: text, .csv, .parquet or .npy.")  # fmt: skip
@click.option("--output", "-o", type=click.Path(), metavar="FILE",
              help="With --file: answers as .parquet, .csv, .arrow or .jsonl; else as text.")  # fmt: skip
@after_option
@options.quiet_option
def get(
    words: tuple[str, ...], host_path: str, family: int | None, as_json: bool,
    addresses: str | None, output: str | None, after: str | None, quiet: bool,
) -> int:  # fmt: skip
    """Print the way to ADDRESS exactly as `ip route get` does on such a host.

    Understood behind the address: from, iif, oif, mark, tos, uid, ipproto, sport, dport, fibmatch.
    An answer like "RTNETLINK answers: Network is unreachable" goes to standard error, exit code 4.
    """
    asked = _question(words, family, addresses is None)
    if addresses is not None:
        if after is not None:
            raise click.UsageError("--after goes with one address")
        return _get_file(addresses, output, asked, host_path, as_json, quiet)
    if output is not None:
        raise click.UsageError("--output goes with --file")
    choose_build([after] if after else [], 1)
    from ippath.route_get import Question, ask

    netns = _host_after(host_path, after, quiet)
    answer = ask(netns, Question(**asked.fields), asked.destination or 0)
    if answer.error:
        click.echo(answer.error_text, err=True)
        return NO
    if asked.fibmatch and answer.route is not None:
        from ippath.config.printed_routes import route_dict, route_line

        known = () if answer.route.table != 254 else ("table",)
        _print_ip(as_json, [route_dict(answer.route, known)], route_line(answer.route, known))
    else:
        _print_ip(as_json, [answer.to_dict()], answer.text())
    return FINE


def _host_after(host_path: str, after: str | None, quiet: bool) -> Netns:
    """The host, as it is after it received a capture."""
    from ippath.netns import Netns

    netns = Netns(options.load_host(host_path, quiet))
    if after is not None:
        from ippath.capture import open_captures

        with compiling(quiet), open_captures([after]) as source:
            for batch in source:
                netns.map_devices(batch, source.interfaces)
                netns.receive(batch, continue_list=True)
    return netns


def _print_ip(as_json: bool, told: list[dict[str, Any]], text: str) -> None:
    """As `ip` prints it: `ip -j` without spaces, in one line."""
    if as_json:
        text = json.dumps(told, separators=(",", ":"), ensure_ascii=False) + "\n"
    click.echo(text, nl=False)


def _get_file(
    path: str, output: str | None, asked: Asked, host_path: str, as_json: bool, quiet: bool
) -> int:
    """Answers for all addresses of a file."""
    from ippath.report.route_files import check_output, read_addresses

    if as_json and output is not None:
        raise click.UsageError("--json prints; the suffix of --output says what the file holds")
    check_output(output)
    parts = read_addresses(Path(path))
    count = sum(len(part.rows) for part in parts)
    choose_build([], count, FEW, FEW_WHEN_COLD, entry="route_get")
    from ippath.netns import Netns
    from ippath.report.route_files import write_answers

    netns = Netns(options.load_host(host_path, quiet))
    asked.fields.pop("family")
    with compiling(quiet, entry="route_get"):
        no_way = write_answers(netns, parts, asked.fields, output, as_json, sys.stdout)
    if not quiet and output is not None:
        click.echo(f"{count:,} addresses, {no_way:,} without a way; saved to {output}", err=True)
    return FINE


@route.command(short_help="Why that route: rule by rule, prefix by prefix.")
@click.argument("words", nargs=-1, required=True, metavar="ADDRESS [from ADDRESS] [iif DEV] …")
@host_option
@four_option
@six_option
@options.json_option
@options.quiet_option
def why(
    words: tuple[str, ...], host_path: str, family: int | None, as_json: bool, quiet: bool
) -> int:
    """Print the answer of `route get` with each rule tried and each prefix that holds the address."""
    asked = _question(words, family, True)
    choose_build([], 1)
    from ippath.netns import Netns
    from ippath.report.fold import fold
    from ippath.report.paper import Paper, emit
    from ippath.route_get import Question
    from ippath.route_why import why as explain_why

    netns = Netns(options.load_host(host_path, quiet))
    told = explain_why(netns, Question(**asked.fields), asked.destination or 0)
    if as_json:
        options.print_json(told.to_dict())
    else:
        paper = Paper.for_stream(sys.stdout)
        text = told.text(color=paper.color)
        emit(fold(text, paper.width) if paper.color else text)
    return NO if told.answer.error else FINE


# --- show, diff -----------------------------------------------------------------------------------------


@route.command(short_help="The routes, as `ip route show` prints them.")
@click.argument("words", nargs=-1, metavar="[table T|all] [dev DEV] [root PREFIX] … | cache")
@host_option
@four_option
@six_option
@options.json_option
@after_option
@options.quiet_option
def show(
    words: tuple[str, ...], host_path: str, family: int | None, as_json: bool, after: str | None,
    quiet: bool,
) -> int:  # fmt: skip
    """Print routes exactly as `ip route show` does on such a host.

    Without words the main table of IPv4; `table all` shows everything. Understood: table, dev, via,
    proto, scope, type, src, metric, root, match, exact and a prefix.

    `cache` alone shows what the capture given by --after taught: destinations whose paths have a
    smaller MTU.
    """
    if words == ("cache",):
        return _show_cache(host_path, family or 4, as_json, after, quiet)
    if after is not None:
        raise click.UsageError("--after goes with `cache`: nothing else changes")
    from ippath.config.printed_routes import read_selection, route_dict
    from ippath.config.printed_routes import show as show_routes

    host = options.load_host(host_path, quiet)
    chosen = _read(words, lambda reader: read_selection(host, reader, family))
    if problem := chosen.missing_table(host):
        click.echo(problem, err=True)
        return NO
    routes = chosen.of(host)
    told = [route_dict(r, chosen.known) for r in routes] if as_json else []
    _print_ip(as_json, told, "" if as_json else show_routes(routes, chosen.known))
    return FINE


def _show_cache(host_path: str, family: int, as_json: bool, after: str | None, quiet: bool) -> int:
    choose_build([after] if after else [], 1)
    from ippath.learned import cache_of

    entries = cache_of(_host_after(host_path, after, quiet), family)
    told = [one.to_dict() for one in entries]
    _print_ip(as_json, told, "".join(one.text() for one in entries))
    return FINE


@route.command(short_help="What differs between the routes of two hosts.")
@click.argument("before", type=click.Path(exists=True), metavar="HOST_A")
@click.argument("after", type=click.Path(exists=True), metavar="HOST_B")
@click.argument("words", nargs=-1, metavar="[table T] [dev DEV] [root PREFIX] …")
@four_option
@six_option
@options.json_option
@options.quiet_option
def diff(
    before: str, after: str, words: tuple[str, ...], family: int | None, as_json: bool, quiet: bool
) -> int:
    """Print routes of HOST_A that HOST_B does not have (-), and the other way round (+).

    All tables and both families, unless words as for `show` choose. Exit code 4 if they differ.
    """
    from ippath.config.printed_routes import differing, read_selection, route_dict, route_line

    hosts = [options.load_host(path, quiet) for path in (before, after)]

    def of(host: Host) -> list[Any]:
        chosen = _read(words or ("table", "all"), lambda r: read_selection(host, r, family))
        return chosen.of(host)

    gone, new = differing(of(hosts[0]), of(hosts[1]))
    if as_json:
        options.print_json(
            {"removed": [route_dict(r) for r in gone], "added": [route_dict(r) for r in new]}
        )
    else:
        from ippath.report.paper import Paper, emit

        paper = Paper.for_stream(sys.stdout)
        for sign, style, routes in (("-", "red", gone), ("+", "green", new)):
            for one in routes:
                text = " ".join(route_line(one).split())
                paper.add(paper.style(f"{sign} {text}", style))
        emit(paper.text())
    return NO if gone or new else FINE


# --- import -----------------------------------------------------------------------------------------------


def _pairs(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for one in given:
        name, sign, address = one.partition("=")
        if not sign:
            raise click.BadParameter(f"{one}: write NEXTHOP=ADDRESS")
        pairs[name] = address
    return pairs


def _by_family(
    ctx: click.Context, param: click.Parameter, given: tuple[str, ...]
) -> dict[int, str]:
    import ipaddress

    try:
        return {ipaddress.ip_address(one).version: one for one in given}
    except ValueError as wrong:
        raise click.BadParameter(str(wrong)) from None


@route.command("import", short_help="Routes from `ip`, BGP dumps or tables as a host file.")
@click.argument("source", type=click.Path(exists=True, dir_okay=False))
@click.option("--output", "-o", type=click.Path(), metavar="FILE", help="The host file to write.")
@click.option("--base", type=click.Path(exists=True, dir_okay=False), metavar="HOST",
              help="A host file with devices and addresses to put in front; the result is checked.")  # fmt: skip
@click.option("--format", "kind", type=click.Choice(["ip", "json", "mrt", "csv", "parquet"]),
              help="Instead of guessing by name and content.")  # fmt: skip
@click.option("--via", "gateways", multiple=True, metavar="ADDRESS", callback=_by_family,
              help="Send everything of this family to one gateway.")  # fmt: skip
@click.option("--hop", "hops", multiple=True, metavar="NEXTHOP=ADDRESS", callback=_pairs,
              help="The gateway for a next hop or value of the source; may be repeated.")  # fmt: skip
@click.option("--dev", "device", default="", metavar="DEV", help="Send everything out by DEV.")
@click.option("--table", default="", metavar="TABLE", help="Put everything into TABLE.")
@options.quiet_option
def import_routes(
    source: str, output: str | None, base: str | None, kind: str | None, gateways: dict[int, str],
    hops: dict[str, str], device: str, table: str, quiet: bool,
) -> int:  # fmt: skip
    """Turn routes from elsewhere into lines of a host file.

    SOURCE is a batch or script for `ip`, what `ip route show` or `ip -j route show` printed, an MRT
    dump of a BGP table, or CSV or Parquet with the columns prefix and via (nexthop, gateway, value)
    and maybe dev, table, metric, proto, src.
    """
    from ippath.config.imported_routes import Choices, guess_format, line_of, read_routes

    choices = Choices(hops, gateways, device, table)
    found = read_routes(Path(source), kind or guess_format(Path(source)))
    lines = [line_of(one, choices) for one in found]
    before = Path(base).read_text(encoding="utf-8").rstrip() + "\n\n" if base else ""
    text = before + "".join(line + "\n" for line in lines)
    if base:
        from ippath.config import parse_host

        parse_host(text, name=output or f"{base} and {source}")
    if output is None:
        click.echo(text, nl=False)
    else:
        Path(output).write_text(text, encoding="utf-8")
    if not quiet:
        click.echo(f"{len(lines):,} routes" + (f" saved to {output}" if output else ""), err=True)
    return FINE
