"""The `ippath` command and its list of sub-commands, each imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

from ippath._version import VERSION

# command: (module, function, what `ippath --help` says), in the order in which people meet them
COMMANDS = {
    "replay": ("replay", "replay", "Run captures through a host: what happened to each packet."),
    "explain": ("explain", "explain", "Say of one packet which checks decided, and why."),
    "route": ("route", "route", "Ask a host for routes, as `ip route get` and `ip route show` do."),
    "pmtu": ("pmtu", "pmtu", "Find paths with a smaller MTU, and black holes."),
    "defrag": ("defrag", "defrag", "Put datagrams together that come in fragments."),
    "info": ("info", "info", "Count what is in a capture, without any host."),
    "verify": ("verify", "verify", "Compare with the running kernel, packet by packet."),
    "infer": ("hosts", "infer", "Guess the host behind a capture, as `ip` lines."),
    "check": ("hosts", "check", "Check a host file and print it in full."),
    "snapshot": ("hosts", "snapshot", "Save this machine's network state as a host."),
    "switches": ("hosts", "switches", "List the mechanism switches."),
    "bench": ("bench", "bench", "Measure a workload."),
}


class LazyGroup(click.Group):
    """Knows its commands by name; a module is imported when its command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, function, _ = COMMANDS[name]
        return getattr(import_module(f"ippath.cli.{module}"), function)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as problem:
            from ippath.switches import nearest

            text = problem.message.rstrip(".") + nearest(args[0], list(COMMANDS))
            raise click.UsageError(text, ctx) from None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="ippath")
def ippath() -> None:
    """The Linux kernel's IP/UDP data path, in user space.

    Packets of a capture go through a modelled host: its addresses, routes, rules, sysctls and
    sockets. Of each packet ippath says what happened and why.

    \b
    Exit codes: 0 fine, 1 internal error, 2 wrong input to the command or in
    the host file, 3 a capture ended early, 4 the answer is no (no route to
    the address, routes that differ).
    """
