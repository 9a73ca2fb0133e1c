"""Sysctl lines: `net.ipv4.ip_forward = 1` in all the ways in which people write it."""

from __future__ import annotations

import re

from ippath.config.draft import Draft, forget_sources
from ippath.config.words import Reader, Word, Wrong, nearest
from ippath.fib.control import (
    ALL_ROUTERS6, del_address, effective_sysctl, own_sysctl, set_sysctl,
)  # fmt: skip
from ippath.fib.sysctl import DEFAULTS4, DEFAULTS6
from ippath.model import Host

_SIGNED = (-(1 << 31), (1 << 31) - 1)
# sysctls that decide about packets, and the values that the kernel takes
NUMBERS: dict[str, tuple[int, int]] = {
    "net.core.rmem_default": (2304, 0x7FFFFFFF),
    "net.core.rmem_max": (2304, 0x7FFFFFFF),
    "net.ipv4.ip_forward": _SIGNED,
    "net.ipv4.ip_default_ttl": (1, 255),
    "net.ipv4.icmp_ratelimit": (0, 0x7FFFFFFF),
    "net.ipv4.icmp_ratemask": (0, 0xFFFFFFFF),
    "net.ipv4.icmp_msgs_per_sec": (0, 0x7FFFFFFF),
    "net.ipv4.icmp_msgs_burst": (0, 0x7FFFFFFF),
    "net.ipv4.icmp_echo_ignore_all": (0, 1),
    "net.ipv4.icmp_echo_ignore_broadcasts": (0, 1),
    "net.ipv4.icmp_errors_use_inbound_ifaddr": (0, 1),
    "net.ipv4.icmp_ignore_bogus_error_responses": (0, 1),
    "net.ipv4.fwmark_reflect": (0, 255),
    "net.ipv4.fib_multipath_hash_policy": (0, 3),
    "net.ipv4.fib_multipath_hash_seed": (0, 0xFFFFFFFF),
    "net.ipv4.fib_multipath_hash_fields": (1, 0xFFF),
    "net.ipv4.fib_multipath_use_neigh": (0, 1),
    "net.ipv4.ip_forward_use_pmtu": (0, 255),
    "net.ipv4.ip_forward_update_priority": (0, 1),
    "net.ipv4.ip_early_demux": (0, 255),
    "net.ipv4.ip_no_pmtu_disc": (0, 255),
    "net.ipv4.route.min_pmtu": (68, 0x7FFFFFFF),
    "net.ipv4.route.mtu_expires": _SIGNED,
    "net.ipv6.route.mtu_expires": _SIGNED,
    "net.ipv4.ipfrag_high_thresh": (0, 1 << 62),
    "net.ipv4.ipfrag_low_thresh": (0, 1 << 62),
    "net.ipv4.ipfrag_time": (0, 0x7FFFFFFF),
    "net.ipv4.ipfrag_max_dist": (0, 0x7FFFFFFF),
    "net.ipv6.fwmark_reflect": (0, 255),
    "net.ipv6.icmp.ratelimit": (0, 0x7FFFFFFF),
    "net.ipv6.icmp.echo_ignore_all": (0, 1),
    "net.ipv6.icmp.echo_ignore_multicast": (0, 1),
    "net.ipv6.icmp.echo_ignore_anycast": (0, 1),
    "net.ipv6.icmp.error_anycast_as_unicast": (0, 1),
    "net.ipv6.fib_multipath_hash_policy": (0, 3),
    "net.ipv6.fib_multipath_hash_fields": (1, 0xFFF),
    "net.ipv6.max_hbh_opts_number": _SIGNED,
    "net.ipv6.max_dst_opts_number": _SIGNED,
    "net.ipv6.max_hbh_length": _SIGNED,
    "net.ipv6.max_dst_opts_length": _SIGNED,
    "net.ipv6.ip6frag_high_thresh": (0, 1 << 62),
    "net.ipv6.ip6frag_low_thresh": (0, 1 << 62),
    "net.ipv6.ip6frag_time": (0, 0x7FFFFFFF),
    "net.ieee802154.6lowpan.6lowpanfrag_high_thresh": (0, 1 << 62),
    "net.ieee802154.6lowpan.6lowpanfrag_low_thresh": (0, 1 << 62),
    "net.ieee802154.6lowpan.6lowpanfrag_time": (0, 0x7FFFFFFF),
    "net.ipv6.bindv6only": (0, 1),
    "net.ipv6.flowlabel_reflect": (0, 7),
    "net.ipv6.anycast_src_echo_reply": (0, 255),
    "net.netfilter.nf_conntrack_frag6_high_thresh": (0, 1 << 62),
    "net.netfilter.nf_conntrack_frag6_low_thresh": (0, 1 << 62),
    "net.netfilter.nf_conntrack_frag6_timeout": (0, 0x7FFFFFFF),
}  # fmt: skip
_LISTS = {"net.ipv6.icmp.ratemask"}
_DEVICE_RANGES = {"hop_limit": (1, 255), "disable_ipv6": (0, 1), "force_forwarding": (0, 1),
                  "addr_gen_mode": (0, 3)}  # fmt: skip
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}|0[xX][0-9a-fA-F]{1,16}")
_BIT_LIST = re.compile(r"([0-9]{1,3}(-[0-9]{1,3})?(,|$))*")
_NAME = re.compile(r"[A-Za-z0-9_@:+-]+(\.[A-Za-z0-9_@:+/-]+)+")
_CONF = re.compile(r"net\.ipv([46])\.(conf|neigh)\.(.+)\.([^.]+)")
_START = re.compile(r"[a-z][a-z0-9_-]*([./][^=\s]+)+(=.*)?", re.IGNORECASE)


def begins_sysctl(words: list[Word]) -> bool:
    """Whether a line is `a.b.c = …` or `a/b/c=…`."""
    first = words[0].text
    if not _START.fullmatch(first):
        return False
    return (
        "=" in first
        or (len(words) > 1 and words[1].text[:1] == "=")
        or first.startswith(("net.", "net/", "/proc/sys/"))
    )


def read_sysctl_command(draft: Draft, reader: Reader) -> None:
    """`sysctl -w net.ipv4.ip_forward=1`; several may stand on one line."""
    while reader.text.startswith("-") and len(reader.text) < 12:
        word = reader.take("an option")
        if word.text not in ("-w", "-q", "-n", "-e", "--write", "--quiet", "-wq", "-qw"):
            raise Wrong(word, f"expected -w and NAME=VALUE, not {word.text!r}")
    if not reader:
        raise Wrong(None, "expected NAME=VALUE")
    rest = reader.words[reader.at :]
    if sum("=" in w.text for w in rest) <= 1:
        read_sysctl(draft, reader)
        return
    reader.at = len(reader.words)
    for word in rest:
        if "=" not in word.text:
            raise Wrong(word, f"expected NAME=VALUE, not {word.text!r}")
        read_sysctl(draft, Reader([word]))


def read_sysctl(draft: Draft, reader: Reader) -> None:
    """One setting: the name, an equals sign (or none), the value."""
    first = reader.take("the name of a sysctl")
    name, sign, value = first.text.partition("=")
    pieces: list[Word] = []
    if value:
        pieces.append(Word(value, first.line, first.column + len(name) + 1))
    while reader:
        word = reader.take("a value")
        text = word.text
        if not sign and text.startswith("="):
            sign, text = "=", text[1:]
            word = Word(text, word.line, word.column + 1)
        if text:
            pieces.append(word)
    if not sign:
        at = pieces[0] if pieces else None
        raise Wrong(at, "expected = and a value")
    key = _canonical(first, name)
    text = " ".join(w.text for w in pieces)
    value_word = pieces[0] if pieces else None
    set_sysctl(draft.host, key, _checked(draft, key, text, first, value_word, len(pieces)))
    if key.endswith(".disable_ipv6"):
        _stop_ipv6(draft.host)
        forget_sources(draft.host)
    elif key.startswith("net.ipv6.conf.") and key.endswith(".forwarding"):
        _stop_routing6(draft.host)


def _stop_ipv6(host: Host) -> None:
    """IPv6 leaves a device where it is turned off (kernel: addrconf_disable_change)."""
    for device in host.devices:
        if not effective_sysctl(host, 6, device, "disable_ipv6"):
            continue
        for address in [a for a in device.addresses if a.family == 6]:
            del_address(host, device.name, 6, address.ip, address.plen)
        device.multicast = {(family, group) for family, group in device.multicast if family == 4}
        for route in [r for r in host.routes if r.family == 6]:
            if any(hop.device == device.name for hop in route.nexthops):
                route.nexthops = [hop for hop in route.nexthops if hop.device != device.name]
                if not route.nexthops:
                    host.routes = [r for r in host.routes if r is not route]


def _stop_routing6(host: Host) -> None:
    """A device that stops forwarding leaves what makes a router (kernel: dev_forward_change)."""
    for device in host.devices:
        if own_sysctl(host, 6, device.name, "forwarding"):
            continue
        device.multicast -= {(6, group) for group in ALL_ROUTERS6}
        host.routes = [
            r
            for r in host.routes
            if not (r.family == 6 and r.type == "anycast" and r.protocol == "kernel")
            or [hop.device for hop in r.nexthops] != [device.name]
        ]


def _canonical(word: Word, name: str) -> str:
    """The dotted name; slashes as separators let device names keep their dots."""
    name = name.removeprefix("/proc/sys/")
    dot, slash = name.find("."), name.find("/")
    if slash >= 0 and (dot < 0 or slash < dot):
        name = name.translate(str.maketrans("./", "/."))
    if not name.startswith("net."):
        near = nearest(name, NUMBERS, 0.8) or nearest("net." + name, NUMBERS, 0.8)
        raise Wrong(word, f"expected a sysctl that begins with net., not {name!r}", near)
    if not _NAME.fullmatch(name):
        raise Wrong(word, f"expected the name of a sysctl, not {name!r}")
    return name


def _checked(
    draft: Draft, key: str, text: str, name_word: Word, value_word: Word | None, count: int
) -> str:
    limits = NUMBERS.get(key)
    conf = _CONF.fullmatch(key)
    if conf is not None and conf[2] == "conf":
        known = DEFAULTS4 if conf[1] == "4" else DEFAULTS6
        scope, setting = conf[3], conf[4]
        if scope not in ("all", "default"):
            draft.mentioned.append(Word(scope.replace("/", "."), name_word.line, name_word.column))
        if setting in known:
            limits = _DEVICE_RANGES.get(setting, _SIGNED)
        else:
            near = nearest(setting, known, 0.8)
            if near:
                draft.warn(name_word, f"{key} decides nothing here", key[: -len(setting)] + near)
    elif limits is None and key not in _LISTS:
        near = nearest(key, (*NUMBERS, *_LISTS), 0.9)
        if near:
            draft.warn(name_word, f"{key} decides nothing here", near)
    if key in _LISTS:
        if not _BIT_LIST.fullmatch(text):
            raise Wrong(value_word, f"expected numbers and ranges like 0-1,3-127, not {text!r}")
        return text
    if limits is None:
        return text  # may be empty, as `sysctl -a` prints some
    if value_word is None:
        raise Wrong(None, "expected a value")
    if count > 1 or not _INTEGER.fullmatch(text):
        raise Wrong(value_word, f"expected an integer for {key}, not {text!r}")
    value = int(text, 16) if text[:2].lower() == "0x" else int(text)
    if not limits[0] <= value <= limits[1]:
        raise Wrong(
            value_word,
            f"expected a value between {limits[0]} and {limits[1]} for {key}, not {value}",
        )
    return str(value)
