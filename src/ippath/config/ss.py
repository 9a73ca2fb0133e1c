"""The output of `ss -lun` (and `ss -aunemO`) as the UDP sockets of a host.

`*` stands for an IPv6 socket on any address that takes IPv4 too; `[::]` is one that does not.  Old
versions of ss write `:::443`.  With `-e` and `-m` the values `v6only:` and `rb` are read as well.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from ippath.model import Listener

UDP, UDP_LITE = 17, 136
_STATES = {"UNCONN", "ESTAB"}
_OTHER_SOCKETS = {
    "tcp", "mptcp", "dccp", "sctp", "raw", "p_raw", "p_dgr", "p_stream", "nl", "u_str", "u_dgr",
    "u_seq", "icmp", "icmp6", "v_str", "v_dgr", "xdp", "ti_rd", "ti_sq", "ti_st", "ti_dg", "ti_pk",
}  # fmt: skip
_RECEIVE_BUFFER = re.compile(r"skmem:\(r\d+,rb(\d+)")
_V6ONLY = re.compile(r"\bv6only:([01])\b")


@dataclass(frozen=True)
class SsProblem:
    """One thing that is wrong: line and column count from 1."""

    line: int
    column: int
    expected: str
    text: str


class SsError(ValueError):
    """Text that is no `ss` output; `problems` lists where and what was expected."""

    def __init__(self, problems: list[SsProblem], name: str):
        self.problems, self.name = problems, name
        super().__init__(
            "\n".join(
                f"{name}:{p.line}:{p.column}: expected {p.expected}\n  {p.text}\n  "
                + " " * (p.column - 1)
                + "^"
                for p in problems
            )
        )


def parse_ss(text: str, name: str = "<ss>") -> list[Listener]:
    """The UDP sockets that `text` lists, in its order; other kinds of sockets are passed over.

    Raises SsError (line, column, what was expected) if a line is none that ss prints.
    """
    listeners: list[Listener] = []
    problems: list[SsProblem] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = [(m.start() + 1, m.group()) for m in re.finditer(r"\S+", line)]
        if not words or words[0][1] in ("Netid", "State") or words[0][1].startswith("#"):
            continue
        if line[0].isspace() and words[0][1].startswith(("skmem:", "users:", "uid:", "ino:")):
            if listeners:
                _apply_extras(listeners[-1], line)  # details that ss wrote on a line of their own
            continue
        try:
            listener = _parse_line(words, line)
        except _Wrong as wrong:
            problems.append(SsProblem(number, wrong.column, wrong.expected, line))
            continue
        if listener is not None:
            listeners.append(listener)
    if problems:
        raise SsError(problems, name)
    _mark_shared(listeners)
    return listeners


class _Wrong(Exception):
    def __init__(self, column: int, expected: str):
        self.column, self.expected = column, expected


def _parse_line(words: list[tuple[int, str]], line: str) -> Listener | None:
    protocol = UDP
    if words[0][1] in _OTHER_SOCKETS:
        return None
    if words[0][1] in ("udp", "udplite"):
        protocol = UDP if words[0][1] == "udp" else UDP_LITE
        words = words[1:]
    if not words or words[0][1] not in _STATES:
        column = words[0][0] if words else len(line) + 1
        raise _Wrong(column, "a state, UNCONN or ESTAB")
    for position, what in ((1, "Recv-Q"), (2, "Send-Q")):
        if len(words) <= position or not words[position][1].isdecimal():
            column = words[position][0] if len(words) > position else len(line) + 1
            raise _Wrong(column, f"a number, {what}")
    if len(words) < 5:
        missing = "a local address and port" if len(words) < 4 else "a peer address and port"
        raise _Wrong(len(line) + 1, missing)
    family, ip, device, port = _endpoint(*words[3], any_port=False)
    peer_family, peer, _, peer_port = _endpoint(*words[4], any_port=True)
    star = words[3][1].startswith("*")
    if star and peer_family == 4:  # old ss: `*:53` beside `0.0.0.0:*` or `*:*` of IPv4
        family = 4
    listener = Listener(
        family=family,
        ip=ip,
        port=port,
        device=device,
        v6only=ip == 0
        and words[3][1].startswith("["),  # old ss writes no brackets, and cannot tell
        protocol=protocol,
        line=line.strip(),
    )
    if peer_port:
        listener.peer, listener.peer_port = peer, peer_port
    _apply_extras(listener, line)
    return listener


def _apply_extras(listener: Listener, line: str) -> None:
    only, buffer = _V6ONLY.search(line), _RECEIVE_BUFFER.search(line)
    if only and listener.family == 6:
        listener.v6only = only[1] == "1"
    if buffer:
        listener.rcvbuf = int(buffer[1])


def _endpoint(column: int, word: str, any_port: bool) -> tuple[int, int, str | None, int]:
    """(family, address, device, port) of `127.0.0.53%lo:53`, `[::]:443`, `*%eth0:68`, `:::443`."""
    where, colon, port_text = word.rpartition(":")
    if not colon:
        raise _Wrong(column, "an address, a colon and a port")
    at_port = column + len(where) + 1
    if port_text == "*" and any_port:
        port = 0
    elif port_text.isdecimal() and int(port_text) <= 65535:
        port = int(port_text)
    else:
        raise _Wrong(at_port, "a port number (run ss with -n)")
    where, percent, device = where.partition("%")
    if percent and device.endswith("]"):  # [fe80::1%eth0]:546
        where, device = where + "]", device[:-1]
    if percent and not device:
        raise _Wrong(column + len(where) + 1, "a device name after %")
    if where == "*":
        return 6, 0, device or None, port
    bare = where[1:-1] if where.startswith("[") and where.endswith("]") else where
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        raise _Wrong(column, "an IP address (run ss with -n)") from None
    return address.version, int(address), device or None, port


def _mark_shared(listeners: list[Listener]) -> None:
    """Sockets on exactly the same place can only be there with SO_REUSEPORT."""
    seen: dict[tuple[int, int, int, str | None, int], Listener] = {}
    for one in listeners:
        if one.peer is not None:
            continue
        key = (one.family, one.ip, one.port, one.device, one.protocol)
        if key in seen:
            one.reuseport = seen[key].reuseport = True
        seen.setdefault(key, one)
