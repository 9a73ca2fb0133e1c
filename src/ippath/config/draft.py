"""A host while its file is being read: what the lines so far have made, and what looked doubtful."""

from __future__ import annotations

from dataclasses import dataclass, field

from ippath.config.values import TABLES, device_name, number_of
from ippath.config.words import Reader, Word, Wrong, nearest
from ippath.fib.control import ControlError, add_device, new_host
from ippath.model import Device, Host


class Skip(Exception):
    """The line cannot be judged since an earlier one, already named, is wrong."""


@dataclass
class Draft:
    """What the readers of lines share."""

    host: Host = field(default_factory=new_host)
    tables: dict[str, int] = field(default_factory=lambda: dict(TABLES))
    warnings: list[tuple[Word, str, str | None]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)  # devices whose own line is wrong
    printed: set[str] = field(default_factory=set)  # devices described by output of `ip`
    addresses_printed: bool = False  # the output was that of `ip addr`
    rules_printed: dict[int, list[int]] = field(default_factory=dict)  # family -> preferences
    listing: str = ""  # the command whose output follows: link, addr, route, rule, neigh
    listing_family: int | None = None
    listing_table: int | None = None
    parents: dict[str, Word] = field(default_factory=dict)  # eth0 of a printed lab@eth0
    block: Device | None = None  # the device whose lines of output follow
    mentioned: list[Word] = field(default_factory=list)  # devices named by rules, sockets, sysctls
    mapped: list[tuple[Word, Word]] = field(default_factory=list)

    def warn(self, word: Word, text: str, near: str | None = None) -> None:
        """Remember something doubtful."""
        self.warnings.append((word, text, near))

    def names(self) -> list[str]:
        """The names of the devices."""
        return [d.name for d in self.host.devices]

    def device(self, word: Word) -> Device:
        """The device that a word names; raises Wrong with the nearest name if there is none."""
        name = device_name(word)
        device = self.host.device(name)
        if device is not None:
            return device
        if name in self.broken:
            raise Skip
        raise Wrong(word, f"no device is called {name!r}", nearest(name, self.names(), 0.5))

    def device_or_new(self, word: Word) -> Device:
        """The device that a word names; a new one is an Ethernet device that is up."""
        name = device_name(word)
        device = self.host.device(name)
        if device is None:
            if name in self.broken:
                raise Skip
            device = add_device(self.host, name)
        return device

    def take_device(self, reader: Reader, what: str = "the name of a device") -> Device:
        """The next word as a device that exists."""
        return self.device(reader.take(what))

    def table(self, reader: Reader) -> int:
        """The next word as the number of a routing table."""
        word = reader.take("a table")
        if word.text in self.tables:
            return self.tables[word.text]
        value = number_of(word.text)
        if value is None or not 0 <= value <= 0xFFFFFFFF:
            near = nearest(word.text, self.tables)
            hint = "expected a table by number or name (`table 100 NAME` gives one a name)"
            raise Wrong(word, f"{hint}, not {word.text!r}", near)
        return value or TABLES["main"]


def refused(error: ControlError, word: Word | None) -> Wrong:
    """What the kernel would refuse, with the words that `ip` prints, at a word of the line."""
    return Wrong(word, str(error))


def forget_sources(host: Host) -> None:
    """IPv6 routes lose a preferred source that is no address any more (kernel: rt6_remove_prefsrc)."""
    own = {a.ip for d in host.devices for a in d.addresses if a.family == 6}
    for route in host.routes:
        if route.family == 6 and route.prefsrc is not None and route.prefsrc not in own:
            route.prefsrc = None
