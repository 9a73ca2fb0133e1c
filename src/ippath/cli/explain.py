"""`ippath explain`: one packet, every check, and what decided."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from ippath.cli import options
from ippath.cli.build import choose_build, compiling, ready

if TYPE_CHECKING:
    from ippath.batch import PacketBatch
    from ippath.explain import Explanation
    from ippath.model import Host

FEW_BEFORE = 20_000  # packets before the one explained that the uncompiled path takes seconds for


@click.command(short_help="Say of one packet what decided.")
@click.argument("capture", required=False)
@click.option(
    "--frame", type=click.IntRange(min=1), metavar="N", help="Number of the frame, from 1."
)
@click.option("--hex", "digits", metavar="HEX", help="The packet itself, as hexadecimal digits.")
@options.host_option
@options.on_option
@options.switch_option
@options.seed_option
@options.json_option
@options.quiet_option
def explain(
    capture: str | None,
    frame: int | None,
    digits: str | None,
    host_path: str | None,
    on: str | None,
    switches: dict[str, str],
    seed: int,
    as_json: bool,
    quiet: bool,
) -> int:
    """Explain what a host does with one packet: every check in order and what decided.

    The packet is frame N of CAPTURE, received after the frames before it, or the one given by
    --hex: an Ethernet frame, or an IP packet from its first byte.
    """
    if (capture is None) == (digits is None):
        raise click.UsageError("give a CAPTURE with --frame N, or --hex HEX")
    if digits is not None:
        if host_path is None:
            raise click.UsageError("--hex needs --host: a single packet tells too little to guess")
        if frame is not None:
            raise click.UsageError("--frame belongs to a CAPTURE, not to --hex")
        choose_build([], limit=0)
        explanation = _explain_hex(digits, host_path, on, switches, seed, quiet)
    else:
        assert capture is not None
        if frame is None:
            raise click.UsageError("which frame? give --frame N")
        choose_build([capture], limit=frame, few=FEW_BEFORE)
        explanation = _explain_frame(capture, frame, host_path, on, switches, seed, quiet)
    if as_json:
        options.print_json(explanation.to_dict())
    else:
        from ippath.report.fold import fold
        from ippath.report.paper import Paper, emit

        paper = Paper.for_stream(sys.stdout)
        text = explanation.text(color=paper.color)
        emit(fold(text, paper.width) if paper.color else text)
    return 0


def _explain_hex(
    digits: str, host_path: str, on: str | None, switches: dict[str, str], seed: int, quiet: bool
) -> Explanation:
    from ippath.netns import Netns

    batch = packet_of_hex(digits)
    netns = Netns(options.load_host(host_path, quiet), switches=switches, seed=seed)
    options.check_device(netns, on)
    netns.map_devices(batch, [""], on)
    return netns.explain(batch, 0)


def packet_of_hex(digits: str) -> PacketBatch:
    """The packet written as hexadecimal digits, as a batch of one.

    Spaces, colons, a leading 0x and offsets as in a hex dump are allowed.  A first digit of 4 or 6
    that fits the length in the header means an IP packet, anything else an Ethernet frame.  Raises
    click.BadParameter.
    """
    from ippath.batch import LINK_ETHERNET, LINK_RAW, PacketBatch

    lines = [
        re.sub(r"^\s*(0x)?[0-9a-fA-F]{3,8}:?\s{1,4}(?=\S)", "", line)
        for line in digits.splitlines()
    ]
    text = " ".join(lines) if len(lines) > 1 else digits
    text = re.sub(r"\s{2,}\S{1,32}$", "", text) if "  |" in text else text
    text = re.sub(r"0x|[\s:.,-]", "", text)
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        wrong = next((c for c in text if c not in "0123456789abcdefABCDEF"), None)
        why = f"{wrong!r} is no hexadecimal digit" if wrong else "an odd number of digits"
        raise click.BadParameter(why, param_hint="--hex") from None
    if not raw:
        raise click.BadParameter("no digits", param_hint="--hex")
    return PacketBatch.from_packets([raw], link_type=LINK_RAW if _is_ip(raw) else LINK_ETHERNET)


def _is_ip(raw: bytes) -> bool:
    """Whether the bytes start with an IP header rather than an Ethernet one."""
    ethertype = int.from_bytes(raw[12:14], "big")
    version = raw[0] >> 4
    if version == 4:
        return (
            raw[0] & 15 >= 5 and int.from_bytes(raw[2:4], "big") <= len(raw) and ethertype != 0x0800
        )
    return version == 6 and ethertype != 0x86DD


def _explain_frame(
    capture: str,
    frame: int,
    host_path: str | None,
    on: str | None,
    switches: dict[str, str],
    seed: int,
    quiet: bool,
) -> Explanation:
    from ippath.capture import open_captures
    from ippath.netns import Netns

    host = _host(capture, host_path, quiet)
    netns = Netns(host, switches=switches, seed=seed)
    options.check_device(netns, on)
    with compiling(quiet):
        ready(netns)
    seen = 0
    with open_captures([capture]) as source:
        for batch in source:
            netns.map_devices(batch, source.interfaces, on)
            index = frame - batch.first_frame
            if index < len(batch):
                netns.receive(batch.select(slice(0, index)), continue_list=True)
                return netns.explain(batch, index)
            netns.receive(batch, continue_list=True)
            seen = batch.first_frame + len(batch) - 1
        endings = list(source.endings)
    early = f"; it ended early at byte {endings[0].offset}: {endings[0].why}" if endings else ""
    raise click.UsageError(f"{capture} has {seen} frames{early}")


def _host(capture: str, host_path: str | None, quiet: bool) -> Host:
    if host_path is not None:
        return options.load_host(host_path, quiet)
    from ippath.capture import open_captures

    if capture == "-":
        raise click.UsageError("standard input needs --host: it cannot be read twice")
    with open_captures([capture]) as source:
        host, text = options.guess_host([capture], source)
    if not quiet:
        from ippath.cli.replay import _show_guess

        _show_guess(text)
    return host
