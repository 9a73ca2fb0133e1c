"""`listen` and `join` lines: what the host has open."""

from __future__ import annotations

import re

from ippath.config.draft import Draft
from ippath.config.values import (
    take_ip_protocol,
    address_in,
    device_name,
    take_number,
)
from ippath.config.words import Reader, Word, Wrong, nearest
from ippath.fib.control import join_group
from ippath.model import Listener

_ENDPOINT = re.compile(
    r"(?:\[([0-9a-fA-F:.]*)\]|([0-9]{1,3}(?:\.[0-9]{1,3}){3})|(\*)):([0-9]{1,9}|\*)"
)
KINDS = {"udp": 17, "udplite": 136}
_OPTIONS = (
    "dev", "reader", "rcvbuf", "reuseport", "reuseaddr", "noreuseaddr", "v6only", "peer",
    "no_check6",
)  # fmt: skip
_READER = re.compile(r"([0-9]{1,9})(?:/s)?")
_WHERE = "an address and port like 0.0.0.0:53 or [::]:53"


def begins_listener(text: str) -> bool:
    """Whether a word is an address and a port."""
    return bool(_ENDPOINT.fullmatch(text))


def read_listen(draft: Draft, reader: Reader, line: str) -> None:
    """`listen udp 0.0.0.0:53 …`, `listen [::]:53 …`, `listen proto 89`."""
    if not reader:
        raise Wrong(None, f"expected udp, udplite, proto or {_WHERE}")
    if begins_listener(reader.text):
        _listener(draft, reader, 17, line)
        return
    kind = reader.choice((*KINDS, "proto"), f"udp, udplite, proto or {_WHERE}")
    if kind != "proto":
        _listener(draft, reader, KINDS[kind], line)
        return
    number = take_ip_protocol(reader)
    families: tuple[int, ...] = (4, 6)
    if reader:
        families = (4,) if reader.choice(("inet", "inet6"), "inet or inet6") == "inet" else (6,)
    reader.end()
    draft.host.protocols.update((family, number) for family in families)


def _endpoint(word: Word, what: str) -> tuple[int, int, int]:
    match = _ENDPOINT.fullmatch(word.text)
    if match is None:
        raise Wrong(word, f"expected {what}, not {word.text!r}")
    if match[4] == "*" or not 0 < int(match[4]) < 65536:
        raise Wrong(word, f"expected a port between 1 and 65535, not {match[4]!r}")
    port = int(match[4])
    if match[3]:
        return 6, 0, port
    family, ip = address_in(word, match[1] if match[1] is not None else match[2], None)
    if match[1] is not None and family == 4:
        raise Wrong(word, "expected an IPv6 address between [ and ]")
    return family, ip, port


def _listener(draft: Draft, reader: Reader, protocol: int, line: str) -> None:
    word = reader.take(_WHERE)
    family, ip, port = _endpoint(word, _WHERE)
    one = Listener(family, ip, port, protocol=protocol, line=line)
    default = draft.host.sysctls.get("net.core.rmem_default")
    if default is not None and default.isdecimal():
        one.rcvbuf = int(default)
    while reader:
        at = reader.word
        option = reader.choice(
            _OPTIONS, "dev, reader, rcvbuf, reuseport, v6only, peer or no_check6"
        )
        if option == "dev":
            name = reader.take("the name of a device")
            one.device = device_name(name)
            draft.mentioned.append(name)
        elif option == "reader":
            one.reader = _reader(reader)
        elif option == "rcvbuf":
            one.rcvbuf = take_number(reader, "a size of the receive buffer in bytes", 1, 0x7FFFFFFF)
        elif option == "reuseport":
            one.reuseport = True
        elif option in ("reuseaddr", "noreuseaddr"):
            one.reuseaddr = option == "reuseaddr"
        elif option in ("v6only", "no_check6"):
            if family == 4:
                raise Wrong(at, f"{option} is for IPv6 sockets")
            if option == "v6only":
                one.v6only = True
            else:
                one.no_check6_rx = True
        elif option == "peer":
            peer = reader.take("the peer's address and port")
            found, one.peer, one.peer_port = _endpoint(peer, "the peer's address and port")
            if found != family:
                raise Wrong(peer, f"expected an IPv{family} address and a port")
    draft.host.listeners.append(one)


def _reader(reader: Reader) -> str:
    word = reader.take("fast, none or a rate like 1000/s")
    if word.text in ("fast", "none"):
        return word.text
    match = _READER.fullmatch(word.text)
    if match is None or not int(match[1]):
        raise Wrong(
            word, f"expected fast, none or a rate like 1000/s, not {word.text!r}",
            nearest(word.text, ("fast", "none")),
        )  # fmt: skip
    return f"{int(match[1])}/s"


def read_join(draft: Draft, reader: Reader) -> None:
    """`join 239.1.2.3 dev eth0`."""
    word = reader.take("a multicast group")
    family, group = address_in(word, word.text, None)
    if group >> 28 != 0xE if family == 4 else group >> 120 != 0xFF:
        raise Wrong(word, f"{word.text} is no multicast group")
    if not reader.skip("dev"):
        raise Wrong(reader.word, "expected dev and the name of a device")
    device = draft.take_device(reader)
    reader.end()
    join_group(draft.host, device.name, family, group)
