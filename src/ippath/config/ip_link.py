"""`ip link` lines and what `ip link` prints."""

from __future__ import annotations

import re
from typing import Any

from ippath.config.draft import Draft, forget_sources, refused
from ippath.config.values import device_name, number_of, take_mac, take_named, take_number
from ippath.config.words import Reader, Word, Wrong, nearest
from ippath.fib.control import (
    ControlError, add_device, become_vrf, change_device, del_address, del_device, set_sysctl,
)  # fmt: skip
from ippath.model import Device, Host

VERBS = ("add", "set", "change", "replace", "delete", "show", "list", "lst", "help")
# type as written -> Device.kind
KINDS = {
    "ether": "ether", "dummy": "dummy", "veth": "veth", "bridge": "bridge", "vrf": "vrf",
    "vlan": "vlan", "tun": "tun", "tap": "tap", "none": "none", "ppp": "ppp", "wireguard": "none",
    "lowpan": "lowpan",
}  # fmt: skip
ETHERNET_LIKE = {
    "bond", "team", "macvlan", "macvtap", "vxlan", "geneve", "gretap", "ip6gretap", "macsec", "ifb",
    "ipvlan", "nlmon", "batadv", "hsr", "netdevsim", "vcan",
}  # fmt: skip
TUNNELS = {"ipip", "sit", "gre", "ip6gre", "ip6tnl", "vti", "vti6", "xfrm", "erspan", "bareudp"}
GENERATION_MODES = {"eui64": 0, "none": 1, "stable_secret": 2, "random": 3}
_ADD = (
    "link", "name", "dev", "type", "address", "mtu", "index", "up", "down", "master", "group",
    "carrier", "arp", "txqueuelen", "txqlen", "broadcast", "numtxqueues", "numrxqueues", "netns",
    "alias", "addrgenmode", "pointopoint",
)  # fmt: skip
_SET = (
    "dev", "up", "down", "mtu", "address", "master", "nomaster", "carrier", "arp", "name", "group",
    "txqueuelen", "txqlen", "multicast", "allmulticast", "promisc", "dynamic", "trailers", "alias",
    "addrgenmode", "netns", "type", "broadcast", "vrf", "pointopoint",
)  # fmt: skip
_FLAGS = re.compile(r"<([A-Z0-9_,-]*)>")


def read_link(draft: Draft, reader: Reader) -> None:
    """A line that begins with `ip link`."""
    verb = reader.keyword(VERBS)
    if verb is None and reader:
        raise Wrong(
            reader.word,
            f"expected add, set or del, not {reader.text!r}",
            nearest(reader.text, VERBS),
        )
    if verb in (None, "show", "list", "lst"):
        draft.listing = "link"
    elif verb in ("add", "replace"):
        _add(draft, reader)
    elif verb in ("set", "change"):
        _set(draft, reader)
    elif verb == "delete":
        reader.skip("dev")
        device = draft.take_device(reader)
        if reader.skip("type"):
            reader.take("a type")
        reader.end()
        _delete(draft, device, reader.words[reader.at - 1])
    else:
        raise Wrong(reader.words[reader.at - 1], "expected add, set or del")


def _do(work: Any, word: Word | None) -> Any:
    try:
        return work()
    except ControlError as error:
        raise refused(error, word) from None


def _delete(draft: Draft, device: Device, word: Word) -> None:
    """Remove a device; its addresses go first, with the routes that name them as their source."""
    if device.kind != "loopback":
        for address in list(device.addresses):
            if any(a is address for a in device.addresses):
                del_address(draft.host, device.name, address.family, address.ip, address.plen)
    _do(lambda: del_device(draft.host, device.name), word)
    forget_sources(draft.host)


def _switch(reader: Reader, what: str) -> bool:
    return reader.choice(("on", "off"), f"{what} on or off") == "on"


def _add(draft: Draft, reader: Reader) -> None:
    start = reader.at
    try:
        _add_device(draft, reader)
    except Wrong:
        # later lines about this device are not wrong on their own
        words = [w.text for w in reader.words]
        if "name" in words[start:-1]:
            draft.broken.add(words[words.index("name", start) + 1])
        draft.broken.update(w for w in words[start:] if w not in _ADD)
        raise


def _add_keyword(reader: Reader, named: bool) -> str | None:
    """The next word as a keyword; before the device has a name, short words are its name."""
    exact = reader.text in _ADD or reader.text in ("addr", "txq")
    return reader.keyword(_ADD) if named or exact else None


def _add_device(draft: Draft, reader: Reader) -> None:
    name: Word | None = None
    fields: dict[str, Any] = {}
    given_up: bool | None = None
    carrier = mode = point_to_point = None
    peer = None
    while reader:
        keyword = _add_keyword(reader, name is not None)
        if keyword is None:
            if name is not None:
                raise Wrong(
                    reader.word, f"{reader.text!r} is not known here", nearest(reader.text, _ADD)
                )
            name = reader.take("the name of a device")
        elif keyword in ("name", "dev"):
            name = reader.take("the name of a device")
        elif keyword == "link":
            fields["parent"] = draft.take_device(reader).name
        elif keyword == "address":
            fields["mac"] = take_mac(reader, long="lowpan" in [w.text for w in reader.words])
        elif keyword == "mtu":
            fields["mtu"] = take_number(reader, "an MTU", 1, 0x7FFFFFFF)
        elif keyword == "index":
            fields["ifindex"] = take_number(reader, "an interface index", 1, 0x7FFFFFFF)
        elif keyword in ("up", "down"):
            given_up = keyword == "up"
        elif keyword == "master":
            fields["master"] = draft.take_device(reader).name
        elif keyword == "group":
            fields["group"] = take_named(reader, "a group", {"default": 0})
        elif keyword == "carrier":
            carrier = _switch(reader, "carrier")
        elif keyword == "arp":
            fields["noarp"] = not _switch(reader, "arp")
        elif keyword == "pointopoint":
            point_to_point = _switch(reader, "pointopoint")
        elif keyword == "addrgenmode":
            mode = GENERATION_MODES[reader.choice(GENERATION_MODES, "a mode like none or eui64")]
        elif keyword == "netns":
            raise Wrong(reader.words[reader.at - 1], "one namespace is modelled, not several")
        elif keyword == "type":
            peer = _type(draft, reader, fields, name)
        else:
            reader.take(f"a value for {keyword}")  # no influence on a packet's way
    if name is None:
        raise Wrong(None, "expected the name of the device")
    if "kind" not in fields:
        raise Wrong(None, "expected type and one of " + ", ".join(KINDS))
    if fields["kind"] == "vlan" and not fields.get("parent"):
        raise Wrong(name, "expected `link DEVICE` before the name: the device below the VLAN")
    _create(draft, name, fields, given_up, mode, carrier)
    if point_to_point is not None:
        change_device(draft.host, device_name(name), point_to_point=point_to_point)
    if peer is not None:
        _create(draft, peer, {"kind": "veth"}, None, None, None)


def _create(
    draft: Draft, word: Word, fields: dict[str, Any], up: bool | None, mode: int | None,
    carrier: bool | None,
) -> None:  # fmt: skip
    name = device_name(word)
    index = fields.get("ifindex")
    if index is not None and any(d.ifindex == index for d in draft.host.devices):
        raise Wrong(word, "RTNETLINK answers: Device or resource busy (the index is taken)")
    fields["up"] = up is not False  # devices are up unless a line says down
    _do(lambda: add_device(draft.host, name, **fields), word)
    if mode is not None:
        set_sysctl(draft.host, f"net.ipv6.conf.{name}.addr_gen_mode", mode)
    if carrier is not None:
        change_device(draft.host, name, carrier=carrier)
    if fields.get("master"):
        _warn_of_master(draft, word, fields["master"])


def _warn_of_master(draft: Draft, word: Word, name: str) -> None:
    master = draft.host.device(name)
    if master is not None and master.kind != "vrf":
        draft.warn(word, "bridges are not followed yet: packets stay on the device itself")


def _type(draft: Draft, reader: Reader, fields: dict[str, Any], name: Word | None) -> Word | None:
    word = reader.take("a type of device")
    kind = word.text
    if kind in KINDS:
        fields["kind"] = KINDS[kind]
    elif kind in ETHERNET_LIKE:
        fields["kind"] = "ether"
        draft.warn(word, f"a {kind} is taken for an Ethernet device of its own")
        reader.at = len(reader.words)
    elif kind in TUNNELS:
        fields["kind"] = "none"
        draft.warn(word, f"packets are not taken out of a {kind} tunnel; its own are raw IP")
        reader.at = len(reader.words)
    else:
        known = (*KINDS, *ETHERNET_LIKE, *TUNNELS)
        raise Wrong(
            word, f"expected a type of device ({', '.join(KINDS)}), not {kind!r}",
            nearest(kind, known),
        )  # fmt: skip
    if kind == "vlan":
        _vlan(reader, fields)
    elif kind == "vrf":
        if not reader.skip("table"):
            raise Wrong(reader.word, "expected table and a number")
        fields["vrf_table"] = draft.table(reader)
    elif kind == "veth" and reader.skip("peer"):
        reader.skip("name")
        peer = reader.take("the name of the peer")
        if reader.skip("netns"):
            reader.take("a namespace")
            return None
        return peer
    elif kind in ("tun", "tap") and reader.skip("mode"):
        fields["kind"] = reader.choice(("tun", "tap"), "tun or tap")
    elif kind == "bridge" and reader and reader.text not in _ADD:
        draft.warn(reader.take("an option"), "options of a bridge have no influence")
        reader.at = len(reader.words)
    return None


def _vlan(reader: Reader, fields: dict[str, Any]) -> None:
    options = (
        "id", "protocol", "reorder_hdr", "gvrp", "mvrp", "loose_binding", "bridge_binding",
    )  # fmt: skip
    while reader and reader.text not in _ADD:
        keyword = reader.choice(options, "id and the number of the VLAN")
        if keyword == "id":
            fields["vlan_id"] = take_number(reader, "the number of the VLAN", 0, 4095)
        elif keyword == "protocol":
            name = reader.take("802.1Q or 802.1ad")
            if name.text.lower() not in ("802.1q", "802.1ad"):
                raise Wrong(name, f"expected 802.1Q or 802.1ad, not {name.text!r}")
            fields["vlan_protocol"] = 0x88A8 if name.text.lower() == "802.1ad" else 0x8100
        else:
            _switch(reader, keyword)
    if "vlan_id" not in fields:
        raise Wrong(reader.word, "expected id and the number of the VLAN")


def _set(draft: Draft, reader: Reader) -> None:
    if reader.text == "group" and reader.left > 2:
        raise Wrong(reader.word, "groups of devices cannot be set at once; write a line for each")
    if reader.left > 1 and reader.text == "dev":
        reader.skip("dev")
    word = reader.take("the name of a device")
    if draft.host.device(device_name(word)) is None and word.text in _SET:
        raise Wrong(word, "expected the name of a device")
    device = draft.device_or_new(word)
    if not reader:
        raise Wrong(None, "expected what to set: up, down, mtu, address, …")
    while reader:
        at = reader.word
        keyword = reader.choice(
            _SET, "something to set (up, down, mtu, address, master, carrier, …)"
        )
        changes: dict[str, Any] = {}
        if keyword in ("up", "down"):
            changes["up"] = keyword == "up"
        elif keyword == "mtu":
            changes["mtu"] = take_number(reader, "an MTU", 1, 0x7FFFFFFF)
        elif keyword == "address":
            changes["mac"] = take_mac(reader, long=device.kind == "lowpan")
        elif keyword in ("master", "vrf"):
            changes["master"] = draft.take_device(reader).name
            _warn_of_master(draft, reader.words[reader.at - 1], changes["master"])
        elif keyword == "nomaster":
            changes["master"] = None
        elif keyword == "carrier":
            changes["carrier"] = _switch(reader, "carrier")
        elif keyword == "arp":
            changes["noarp"] = not _switch(reader, "arp")
        elif keyword == "pointopoint":
            changes["point_to_point"] = _switch(reader, "pointopoint")
        elif keyword == "group":
            changes["group"] = take_named(reader, "a group", {"default": 0})
        elif keyword == "name":
            new = device_name(reader.take("the new name"))
            if draft.host.device(new) is not None:
                raise Wrong(at, "RTNETLINK answers: File exists")
            _rename(draft.host, device.name, new)
        elif keyword == "addrgenmode":
            mode = GENERATION_MODES[reader.choice(GENERATION_MODES, "a mode like none or eui64")]
            set_sysctl(draft.host, f"net.ipv6.conf.{device.name}.addr_gen_mode", mode)
        elif keyword == "netns":
            reader.take("a namespace")
            _delete(draft, device, word)
            reader.end()
            return
        elif keyword == "type":
            draft.warn(reader.take("a type"), "options of a device's type have no influence")
            reader.at = len(reader.words)
        elif keyword in ("multicast", "allmulticast", "promisc", "dynamic", "trailers"):
            _switch(reader, keyword)  # no influence on a packet's way
        elif keyword != "dev":
            reader.take(f"a value for {keyword}")
        if changes:
            _do(lambda changes=changes: change_device(draft.host, device.name, **changes), at)
            forget_sources(draft.host)


def _rename(host: Host, old: str, new: str) -> None:
    for device in host.devices:
        device.name = new if device.name == old else device.name
        device.parent = new if device.parent == old else device.parent
        device.master = new if device.master == old else device.master
    for route in host.routes:
        for hop in route.nexthops:
            hop.device = new if hop.device == old else hop.device
    for nexthop in host.nexthops.values():
        if nexthop.hop is not None and nexthop.hop.device == old:
            nexthop.hop.device = new
    for neighbour in host.neighbours:
        neighbour.device = new if neighbour.device == old else neighbour.device


def read_tuntap(draft: Draft, reader: Reader) -> None:
    """A line that begins with `ip tuntap`."""
    reader.choice(("add",), "add")
    name, kind = None, None
    while reader:
        if reader.skip("dev", "name"):
            name = reader.take("the name of a device")
        elif reader.skip("mode"):
            kind = reader.choice(("tun", "tap"), "tun or tap")
        elif reader.skip("user", "group"):
            reader.take("a name or number")
        elif reader.skip("one_queue", "pi", "vnet_hdr", "multi_queue"):
            continue
        elif name is None:
            name = reader.take("the name of a device")
        else:
            reader.end(("dev", "mode", "user", "group"))
    if name is None or kind is None:
        raise Wrong(None, "expected dev and a name, mode and tun or tap")
    _create(draft, name, {"kind": kind}, None, None, None)


# --- what `ip` prints ---------------------------------------------------------------------------------


def read_header(draft: Draft, reader: Reader) -> None:
    """`2: eth0@if3: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc fq state UP master br0 …`."""
    index = number_of(reader.take("an index").text.removesuffix(":"))
    word = reader.take("the name of a device")
    bare = Word(word.text.removesuffix(":"), word.line, word.column)
    name, _, parent = bare.text.partition("@")
    name = device_name(bare)
    flags_word = reader.take("flags in < and >")
    match = _FLAGS.fullmatch(flags_word.text)
    if match is None:
        raise Wrong(flags_word, "expected flags like <BROADCAST,MULTICAST,UP>")
    flags = set(match[1].split(","))
    pairs = _pairs(reader)
    device = draft.host.device(name)
    if device is None:
        if (
            index is None
            or not 0 < index < 1 << 31
            or any(d.ifindex == index for d in draft.host.devices)
        ):
            index = None
        device = add_device(draft.host, name, up=False, ifindex=index)
    changes: dict[str, Any] = {
        "up": "UP" in flags,
        "carrier": "NO-CARRIER" not in flags,
        "noarp": "NOARP" in flags,
        "point_to_point": "POINTOPOINT" in flags,
    }
    if "mtu" in pairs:
        mtu = number_of(pairs["mtu"].text)
        if mtu is None or not 0 < mtu < 1 << 31:
            raise Wrong(pairs["mtu"], "expected an MTU")
        changes["mtu"] = mtu
    if "master" in pairs:
        changes["master"] = pairs["master"].text
        _warn_of_master(draft, pairs["master"], changes["master"])
    if "group" in pairs:
        changes["group"] = number_of(pairs["group"].text) or 0
    if (
        parent
        and re.fullmatch(re.escape(parent) + r"\.[0-9]{1,4}", name)
        and device.kind == "ether"
    ):
        device.kind, device.parent = "vlan", parent
        device.vlan_id = int(name.rpartition(".")[2]) & 4095
        draft.parents[name] = Word(parent, word.line, word.column)
    elif parent and not re.fullmatch("if[0-9]+|NONE", parent):
        draft.parents[name] = Word(parent, word.line, word.column)
        if device.kind == "vlan":
            device.parent = parent
    change_device(draft.host, name, **changes)
    draft.printed.add(name)
    draft.block = device


def _pairs(reader: Reader) -> dict[str, Word]:
    """Names and values up to the end; what follows link/… in `ip -o` is a line of its own."""
    found: dict[str, Word] = {}
    while reader and not reader.text.startswith("link/"):
        name = reader.take("a name")
        if reader and not reader.text.startswith("link/"):
            found[name.text] = reader.take("a value")
    return found


def read_link_line(draft: Draft, reader: Reader) -> None:
    """`link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff …` below a header."""
    device = draft.block
    word = reader.take("link/ether")
    if device is None:
        raise Wrong(word, "expected the line with the device's name above")
    kind = word.text.removeprefix("link/")
    if kind == "ether" and reader:
        device.mac = take_mac(reader)
    elif kind == "ppp" or (kind in ("none", "rawip") and device.kind == "ether"):
        device.kind = "none" if kind != "ppp" else "ppp"
    elif kind in ("ipip", "sit", "gre", "gre6", "tunnel", "tunnel6") and device.kind == "ether":
        device.kind = "none"
        draft.warn(word, f"packets are not taken out of a {kind} tunnel; its own are raw IP")


def read_detail_line(draft: Draft, reader: Reader) -> None:
    """A line of `ip -d link` that begins with the type of the device."""
    device: Device | None = draft.block
    word = reader.take("a type")
    if device is None:
        return
    kind = word.text
    if kind == "vlan":
        pairs = _pairs(reader)
        number = number_of(pairs["id"].text) if "id" in pairs else None
        if number is not None and number < 4096:
            device.kind, device.vlan_id = "vlan", number
            if device.name in draft.parents:
                device.parent = draft.parents[device.name].text
            protocol = pairs["protocol"].text if "protocol" in pairs else ""
            device.vlan_protocol = 0x88A8 if protocol.lower() == "802.1ad" else 0x8100
    elif kind == "tun":
        device.kind = "tap" if "tap" in [w.text for w in reader.words[reader.at :]] else "tun"
    elif kind == "vrf" and reader.skip("table"):
        become_vrf(draft.host, device, draft.table(reader))
    elif kind in ("dummy", "veth", "bridge"):
        device.kind = kind
