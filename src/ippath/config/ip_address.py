"""`ip addr` lines and what `ip addr` prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ippath.config.draft import Draft, Skip, forget_sources, refused
from ippath.config.values import (
    BITS, SCOPE_NAMES, address_in, device_name, number_of, prefix_in, take_named, take_number,
)  # fmt: skip
from ippath.config.words import Reader, Word, Wrong, nearest
from ippath.fib.control import ControlError, add_address, add_device, del_address
from ippath.model import SCOPE_HOST, SCOPE_LINK, SCOPE_UNIVERSE, Address

VERBS = ("add", "change", "replace", "delete", "flush", "show", "list", "lst", "help")
_KEYWORDS = (
    "dev", "local", "peer", "remote", "broadcast", "brd", "scope", "label", "metric", "priority",
    "preference", "valid_lft", "preferred_lft", "noprefixroute", "nodad", "proto", "protocol",
    "secondary", "deprecated", "tentative", "dynamic", "home", "mngtmpaddr", "optimistic",
    "autojoin", "temporary", "permanent", "dadfailed", "stable-privacy", "anycast",
)  # fmt: skip
_LIFETIME = re.compile(r"forever|[0-9]{1,10}(sec)?")
STATES = {"UP", "DOWN", "UNKNOWN", "LOWERLAYERDOWN", "DORMANT", "NOTPRESENT", "TESTING"}


@dataclass
class _Written:
    address: Address
    device: Word | None
    at: Word
    length_given: bool


def read_address(draft: Draft, reader: Reader, family: int | None) -> None:
    """A line that begins with `ip addr`."""
    verb = reader.keyword(VERBS) if not re.match(r"[0-9a-fA-F]*[.:/]", reader.text) else "add"
    if verb in (None, "show", "list", "lst"):
        if verb is None and reader:
            raise Wrong(
                reader.word, f"expected add, del or an address, not {reader.text!r}",
                nearest(reader.text, VERBS),
            )  # fmt: skip
        draft.listing, draft.listing_family = "addr", family
        return
    if verb == "flush":
        _flush(draft, reader, family)
        return
    if verb == "help":
        raise Wrong(reader.words[reader.at - 1], "expected add, del or flush")
    written = _read(reader, family, printed=False)
    if written.device is None:
        raise Wrong(None, "expected dev and the name of a device")
    address = written.address
    if verb == "delete":
        device = draft.device(written.device)
        plen = address.plen
        if not written.length_given:
            mine = (
                a.plen for a in device.addresses if (a.family, a.ip) == (address.family, address.ip)
            )
            plen = next(mine, plen)
        try:
            del_address(draft.host, device.name, address.family, address.ip, plen)
        except ControlError as error:
            raise refused(error, written.at) from None
        forget_sources(draft.host)
        return
    device = draft.device_or_new(written.device)
    existing = next(
        (a for a in device.addresses if (a.family, a.ip, a.plen) == _key(address)), None
    )
    if existing is not None and verb in ("change", "replace"):
        del_address(draft.host, device.name, *_key(existing))
    try:
        add_address(draft.host, device.name, address)
    except ControlError as error:
        raise refused(error, written.at) from None


def _key(address: Address) -> tuple[int, int, int]:
    return address.family, address.ip, address.plen


def _flush(draft: Draft, reader: Reader, family: int | None) -> None:
    device, scope = None, None
    while reader:
        if reader.skip("scope"):
            scope = take_named(reader, "a scope", SCOPE_NAMES, 255)
        else:
            reader.skip("dev")
            device = draft.take_device(reader)
    if device is None:
        raise Wrong(None, "expected dev and the name of a device")
    for address in list(device.addresses):
        if address not in device.addresses or (scope is not None and address.scope != scope):
            continue
        if family in (None, address.family):
            del_address(draft.host, device.name, *_key(address))
    forget_sources(draft.host)


def default_scope(family: int, ip: int) -> int:
    """The scope that `ip` (IPv4) or the kernel (IPv6) gives an address."""
    if family == 4:
        return SCOPE_HOST if ip >> 24 == 127 else SCOPE_UNIVERSE
    if ip == 1:
        return SCOPE_HOST
    return SCOPE_LINK if ip >> 118 == 0x3FA else SCOPE_UNIVERSE


def _read(reader: Reader, family: int | None, printed: bool) -> _Written:
    local: Word | None = None
    peer: Word | None = None
    device: Word | None = None
    address = Address(family or 4, 0, 0)
    scope: int | None = None
    broadcast: Word | None = None
    while reader:
        plain = printed and not address.label and reader.text not in _KEYWORDS
        if plain and local is not None:  # `ip addr` shows the label without a keyword
            address.label = reader.take("a label").text
            continue
        keyword = reader.text if reader.text in _KEYWORDS else None
        if keyword is None and local is not None:
            keyword = reader.choice(_KEYWORDS, "one of dev, peer, brd, scope, label, metric, …")
        elif keyword is not None:
            reader.take(keyword)
        if keyword is None or keyword == "local":
            local = reader.take("an address with a length, like 192.0.2.1/24")
        elif keyword == "dev":
            device = reader.take("the name of a device")
        elif keyword in ("peer", "remote"):
            peer = reader.take("the peer's address")
        elif keyword in ("broadcast", "brd"):
            broadcast = reader.take("a broadcast address, + or -")
        elif keyword == "scope":
            scope = take_named(reader, "a scope", SCOPE_NAMES, 255)
        elif keyword == "label":
            address.label = reader.take("a label").text
        elif keyword in ("metric", "priority", "preference"):
            address.metric = take_number(reader, "a metric")
        elif keyword in ("valid_lft", "preferred_lft"):
            word = reader.take("a lifetime in seconds or forever")
            if not _LIFETIME.fullmatch(word.text):
                raise Wrong(word, f"expected a lifetime in seconds or forever, not {word.text!r}")
            if keyword == "preferred_lft" and number_of(word.text.removesuffix("sec")) == 0:
                address.deprecated = True
        elif keyword in ("proto", "protocol"):
            reader.take("a protocol")
        elif keyword == "noprefixroute":
            address.noprefixroute = True
        elif keyword == "tentative":
            address.tentative = True
        elif keyword == "deprecated":
            address.deprecated = True
        elif keyword == "anycast":
            raise Wrong(reader.words[reader.at - 1], "anycast addresses cannot be added")
    if local is None:
        raise Wrong(None, "expected an address with a length, like 192.0.2.1/24")
    found, ip, plen = prefix_in(local, family, "an address")
    if found is None:
        raise Wrong(local, "expected an address with a length, like 192.0.2.1/24")
    address.family, address.ip, address.plen = found, ip, plen
    if peer is not None:
        _, address.peer, plen = prefix_in(peer, found, "the peer's address")
        if "/" in peer.text or "/" not in local.text:
            address.plen = plen
    if broadcast is not None:
        address.broadcast = _broadcast(broadcast, address)
    address.scope = default_scope(found, ip) if scope is None or found == 6 else scope
    if address.label == (device.text if device else ""):
        address.label = ""
    return _Written(address, device, local, "/" in local.text or peer is not None)


def _broadcast(word: Word, address: Address) -> int | None:
    if address.family == 6:
        raise Wrong(word, "IPv6 has no broadcast addresses")
    if word.text == "-":
        return None
    if word.text == "+":
        if address.plen > 30:
            return None
        return address.ip | ((1 << (32 - address.plen)) - 1)
    return address_in(word, word.text, 4)[1]


# --- what `ip` prints ---------------------------------------------------------------------------------


def _take_printed(draft: Draft, reader: Reader, family: int | None, name: str) -> None:
    """Add an address that `ip` has printed; one that is there already is no error."""
    written = _read(reader, family, printed=True)
    device = draft.host.device(name)
    assert device is not None
    address = written.address
    if address.label == name:
        address.label = ""
    draft.addresses_printed = True
    if any((a.family, a.ip, a.plen) == _key(address) for a in device.addresses):
        return
    try:
        add_address(draft.host, name, address)
    except ControlError as error:
        raise refused(error, written.at) from None
    if address.family == 6:  # printed newest first
        first = next(k for k, a in enumerate(device.addresses) if a.family == 6)
        device.addresses.insert(first, device.addresses.pop())


def read_inet_line(draft: Draft, reader: Reader) -> None:
    """`inet 192.0.2.1/24 brd 192.0.2.255 scope global eth0` below the device's line."""
    word = reader.take("inet or inet6")
    if draft.block is None:
        raise Wrong(word, "expected the line with the device's name above")
    _take_printed(draft, reader, 6 if word.text == "inet6" else 4, draft.block.name)


def read_one_line(draft: Draft, reader: Reader) -> None:
    """`2: eth0    inet 192.0.2.1/24 scope global eth0 …` as `ip -o addr` prints it."""
    reader.take("an index")
    name = device_name(word := reader.take("the name of a device"))
    if name in draft.broken:
        raise Skip
    device = draft.host.device(name) or draft.device_or_new(word)
    draft.block = device
    read_inet_line(draft, reader)
    draft.block = None


def read_brief(draft: Draft, reader: Reader) -> None:
    """`eth0@if3  UP  192.0.2.1/24 fe80::1/64` as `ip -br addr` prints it (or `ip -br link`)."""
    word = reader.take("the name of a device")
    name = device_name(word)
    up = reader.take("a state").text not in ("DOWN", "LOWERLAYERDOWN", "NOTPRESENT")
    device = draft.host.device(name)
    if device is None:
        device = add_device(draft.host, name, up=up)
    draft.printed.add(name)
    while reader:
        text = reader.text
        if re.fullmatch(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}", text):
            device.mac = int(reader.take("").text.replace(":", ""), 16)
        elif text.startswith("<"):
            reader.take("flags")
        elif reader.left > 2 and reader.words[reader.at + 1].text == "peer":
            words = [reader.take("") for _ in range(3)]
            _take_printed(draft, Reader(words), None, name)
        elif reader.skip("metric"):
            reader.take("a metric")
        else:
            _take_printed(draft, Reader([reader.take("an address")]), None, name)


def full_length(family: int) -> int:
    """The length of a prefix that is one address."""
    return BITS[family]
