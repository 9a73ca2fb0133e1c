"""One packet in words: every stage it passed, what was compared, and what decided.

There is no second implementation here: the packet is received by the same stages as ever, with a
trace (`ippath.trace`), and the rows of the trace are put into sentences.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from ippath import tables as T
from ippath import trace as TR
from ippath.batch import LINKS_IEEE802154, PacketBatch
from ippath.config.values import address_text
from ippath.fib.sysctl import (
    AND, COPIED4, COPIED6, DEVICE_ONLY, MAX, effective_sysctl, own_sysctl,
)  # fmt: skip
from ippath.mib import COUNTERS
from ippath.model import TABLE_LOCAL, TABLE_MAIN, Host, Route
from ippath.netns import route_text, table_name
from ippath.reasons import REASONS, VERDICTS

if TYPE_CHECKING:
    from ippath.netns import Netns
    from ippath.verdicts import Verdicts

PACKET_TYPES = (
    "for this host",
    "broadcast",
    "multicast",
    "for another machine",
    "sent by this host",
)
ERRORS = {
    T.ENETUNREACH: "network unreachable",
    T.EHOSTUNREACH: "host unreachable",
    T.EACCES: "prohibited",
    T.EINVAL: "blackhole",
    T.EAGAIN: "no match",
    T.ENOENT: "no entry",
}
ROUTE_KINDS = (
    "unspec", "unicast", "local", "broadcast", "anycast", "multicast", "blackhole", "unreachable",
    "prohibit", "throw",
)  # fmt: skip
NEIGHBOURS = (
    "not in the table, assumed to answer (switch neighbours=assume)",
    "not in the table, counted as silent (switch neighbours)",
    "known",
    "marked as failed",
)
PMTU_FATES = (  # LEARNED, NOT_SMALLER, LOCKED_METRIC, NO_ROUTE, TOO_SMALL, KNOWN
    "kept for this destination", "no less than is known: ignored",
    "the MTU of the route is locked: ignored", "no packet of this host could take it: ignored",
    "less than IPv6 allows: ignored", "known already",
)  # fmt: skip
REDIRECT_FATES = (  # as `ippath.rx.redirect_input` numbers them
    "believed, for this destination",
    "no packet of this host could take it: ignored",
    "it does not come from the gateway in use: ignored",
    "accept_redirects says no: ignored",
    "that can't be a gateway: ignored",
    "not in a network of the device: ignored",
    "no route has that gateway (secure_redirects): ignored",
    "that gateway does not answer: ignored",
)
ICMP_FATES = (
    "sent",
    "not sent, this packet must not be answered",
    "not sent, over the limit for all (icmp_msgs_per_sec)",
    "not sent, over the limit for this peer (icmp_ratelimit)",
    "not sent, no route back",
)
SKIPPED = {
    TR.SKIP_TOS: "it is for another TOS",
    TR.SKIP_SCOPE: "its scope is too wide",
    TR.SKIP_HOPS: "no next hop is alive and leaves by the right device",
}
PLACES = (
    "it fits between the others",
    "all of it is there already: a duplicate",
    "it overlaps with another: the whole datagram is discarded",
)
LOWPAN_ERRORS = (
    "read",
    "the frame ends before its headers do",
    "the capture ends before the headers do",
    "the context is not known here (line `6lowpan context`)",
    "an address is to follow from that of the frame, which has none",
    "a reserved form",
    "a next header in a form that is not known (switch lowpan)",
    "longer than IPv6 allows",
    "the UDP checksum is left out, which Linux does not take (switch lowpan)",
)
LOWPAN_PLACES = (
    "it waits for the others",
    "it is the last one missing",
    "memory is used up: no fragment is taken",
    "it contradicts what is known of the datagram's length",
    "all of it is there already, or it comes out of order: a duplicate",
    "it overlaps with another, or comes out of order (switch lowpan)",
    "it overlaps with another: the whole datagram is discarded",
)
PROTOCOL_NAMES = {
    0: "hop-by-hop options", 1: "ICMP", 2: "IGMP", 4: "IPIP", 6: "TCP", 17: "UDP", 41: "IPv6-in-IP",
    43: "routing header", 44: "fragment", 47: "GRE", 50: "ESP", 51: "AH", 58: "ICMPv6",
    59: "no next header", 60: "destination options", 89: "OSPF", 132: "SCTP", 136: "UDP-Lite",
}  # fmt: skip
WITH_PORTS = (6, 17, 132, 136)

# steps that both families share are named after the IPv4 function
IPV6_FUNCTIONS = {
    "ip_rcv_finish_core": "ip6_rcv_core", "ip_error": "ip6_pkt_drop",
    "ip_local_deliver_finish": "ip6_protocol_deliver_rcu",
    "ip_frag_queue": "ip6_frag_queue", "ip_frag_reasm": "ip6_frag_reasm",
    "udp_rcv": "udpv6_rcv", "udp4_csum_init": "udp6_csum_init",
    "__udp4_lib_lookup": "__udp6_lib_lookup", "icmp_rcv": "icmpv6_rcv",
    "__udp4_lib_mcast_deliver": "__udp6_lib_mcast_deliver", "ip_forward": "ip6_forward",
    "ip_rt_send_redirect": "ndisc_send_redirect", "fib_select_path": "fib6_select_path",
}  # fmt: skip

# which look-up a row of the trace belongs to
ROUTE, WAY_BACK, ANSWER = "route", "way back", "answer"
_LOOKUP_ROWS = {
    TR.T_RULE4, TR.T_RULE6, TR.T_SUPPRESS4, TR.T_SUPPRESS6, TR.T_TABLE4, TR.T_TABLE6,
    TR.T_FIB_MISS4, TR.T_FIB_MISS6, TR.T_FIB_ERROR, TR.T_MULTIPATH, TR.T_SKIP4, TR.T_SKIP6,
    TR.T_SOURCE6,
}  # fmt: skip
_RESULT_ROWS = {TR.T_TABLE4, TR.T_TABLE6}
_STARTS_WAY_BACK = {TR.T_RPF_LOOKUP, TR.T_RPF_LOOSE}
_ENDS_WAY_BACK = {
    TR.T_RPF_MATCH, TR.T_RPF_STRICT, TR.T_RPF_NOROUTE, TR.T_RPF_LOCAL, TR.T_RPF_TYPE, TR.T_ROUTE4,
    TR.T_MARTIAN_SOURCE,
}  # fmt: skip
# from here on a look-up is that of a message that this host sends
_AFTER_ROUTE = {
    TR.T_DELIVER, TR.T_ERROR_ROUTE, TR.T_TTL, TR.T_MTU, TR.T_OPTIONS, TR.T_FORWARD, TR.T_FORWARD_L2,
    TR.T_NO_FORWARD6, TR.T_SCOPE6, TR.T_EXTHDR, TR.T_ROUTING,
}  # fmt: skip
_ASIDE = {
    TR.T_VERDICT, TR.T_ICMP_SEND, TR.T_ICMP6_SEND, TR.T_REDIRECT, TR.T_MARTIAN_SOURCE,
    TR.T_MARTIAN_DEST,
}  # fmt: skip
DISPATCHES = (
    (0xE0, 0x60, "compressed headers (IPHC)"), (0xF8, 0xC0, "first fragment"),
    (0xF8, 0xE0, "later fragment"), (0xFF, 0x41, "uncompressed IPv6"), (0xFF, 0x40, "ESC"),
    (0xFF, 0x42, "compressed headers (HC1)"), (0xFF, 0x43, "DFF"), (0xFF, 0x50, "broadcast (BC0)"),
    (0xC0, 0x80, "mesh"), (0xC0, 0x00, "not 6LoWPAN"),
)  # fmt: skip
_FIELD = re.compile(r"\{(\d)(?::(\w+))?\}")


@dataclass(frozen=True)
class Setting:
    """One setting that decided: `names` hold `value`; `note` says how they combine."""

    names: tuple[str, ...]
    value: str
    note: str = ""

    def __str__(self) -> str:
        text = " and ".join(self.names) + f" = {self.value}"
        return f"{text} ({self.note})" if self.note else text


@dataclass(frozen=True)
class ExplainedStep:
    """One check that the packet passed or failed."""

    step: int  # T_* of ippath.trace
    stage: str
    check: str
    function: str  # the kernel function that makes the same check
    text: str
    values: tuple[int, ...]
    lookup: str = ""  # for rules and tables: route, way back or answer
    setting: Setting | None = None


@dataclass
class Explanation:
    """What happened to one packet, and why."""

    frame: int
    time_ns: int
    device: str
    packet: dict[str, Any]
    header: str
    steps: list[ExplainedStep]
    verdict: str
    reason: str
    meaning: str
    decided_by: list[tuple[str, str]] = field(default_factory=list)  # (kind, what)
    ways_out: list[str] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)  # what the packet counted
    truncated: bool = False  # more checks than the trace holds

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data with stable keys, ready for JSON."""
        return {
            "frame": self.frame,
            "time_ns": self.time_ns,
            "device": self.device,
            "packet": self.packet,
            "steps": [
                {
                    "stage": s.stage,
                    "check": s.check,
                    "function": s.function,
                    "text": s.text,
                    "lookup": s.lookup or None,
                    "sysctl": None
                    if s.setting is None
                    else {"names": list(s.setting.names), "value": s.setting.value},
                }
                for s in self.steps
            ],
            "verdict": self.verdict,
            "reason": self.reason,
            "meaning": self.meaning,
            "decided_by": [{"kind": kind, "what": what} for kind, what in self.decided_by],
            "ways_out": list(self.ways_out),
            "counters": dict(self.counters),
            "truncated": self.truncated,
        }

    def text(self, color: bool = False) -> str:
        """The explanation for people, one check a line; with ANSI colours if `color`."""
        bold, dim, off = ("\033[1m", "\033[2m", "\033[0m") if color else ("", "", "")
        tone = _TONES.get(self.verdict, "") if color else ""
        when = datetime.fromtimestamp(self.time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        lines = [f"{bold}frame {self.frame}{off}  {when} UTC  {self.device}", self.header, ""]
        names = [step_label(s) for s in self.steps]
        width = max(map(len, names), default=0)
        for step, name in zip(self.steps, names):
            if step.step == TR.T_VERDICT:
                continue
            function = f"  {dim}{step.function}{off}" if step.function else ""
            lines.append(f"  {dim}{name:<{width}}{off}  {step.text}{function}")
        if self.truncated:
            lines.append(f"  … more checks than {TR.TRACE_ROWS - 1}, the rest is not shown")
        lines.append("")
        why = f": {self.reason}, {self.meaning}" if self.reason != "NONE" else ""
        lines.append(f"{bold}{tone}{self.verdict}{off}{bold}{why}{off}")
        if self.decided_by:
            lines += ["", "decided by"]
            width = max(len(kind) for kind, _ in self.decided_by)
            lines += [f"  {dim}{kind:<{width}}{off}  {what}" for kind, what in self.decided_by]
        if self.ways_out:
            lines += ["", "ways out"]
            lines += [f"  {number}. {way}" for number, way in enumerate(self.ways_out, 1)]
        if self.counters:
            counted = ", ".join(f"{name} +{by}" for name, by in self.counters.items())
            lines += ["", f"{dim}counted: {counted}{off}"]
        return "\n".join(lines) + "\n"


_TONES = {
    "delivered": "\033[32m", "forwarded": "\033[32m", "dropped": "\033[31m",
    "unsupported": "\033[33m", "held": "\033[33m",
}  # fmt: skip


def step_label(step: ExplainedStep) -> str:
    """The name of a check, with the look-up it belongs to unless that is the packet's own."""
    return f"{step.check} ({step.lookup})" if step.lookup not in ("", ROUTE) else step.check


def explain(netns: Netns, batch: PacketBatch, index: int) -> Explanation:
    """Receive packet `index` of `batch` (devices mapped, see `Netns.map_interfaces`) and explain it.

    The packet is received like any other and is counted, with the receive list going on from the
    packet before.  So receive the packets before it first, where they matter (route hints, rate
    limits, socket queues): `netns.receive(batch.select(slice(0, index)))`.  Raises IndexError for
    an index outside the batch.
    """
    if not 0 <= index < len(batch):
        raise IndexError(f"packet {index} of a batch of {len(batch)}")
    one = batch.select(slice(index, index + 1))
    netns.advance(int(batch.time_ns[index]))  # what expires before it is not the packet's doing
    rows = TR.new_trace()
    before = netns.state.counters.copy()
    verdicts = netns.receive(one, continue_list=True, trace=rows)
    changed = netns.state.counters - before
    found = _Found.of(verdicts)
    words = Words(netns, found.family, found.device)
    count = int(rows[0, 0])
    steps = words.steps(rows[1 : min(count, TR.TRACE_ROWS - 1) + 1])
    packet = describe(one, verdicts, _inner(netns, one))
    reason = REASONS[int(verdicts.reason[0])]
    explanation = Explanation(
        frame=int(netns.frames_of(batch)[index]),
        time_ns=int(batch.time_ns[index]),
        device=words.device(found.device),
        packet=packet,
        header=header_line(packet),
        steps=steps,
        verdict=VERDICTS[int(verdicts.verdict[0])],
        reason=reason.name,
        meaning=reason.meaning,
        counters={COUNTERS[k]: int(changed[k]) for k in np.nonzero(changed)[0]},
        truncated=count >= TR.TRACE_ROWS - 1,
    )
    _Judge(netns, words, found, explanation, int(batch.mark[index])).fill()
    return explanation


@dataclass(frozen=True)
class _Found:
    """The verdict columns of one packet."""

    family: int
    device: int
    rule: int
    route: int
    next_hop: int
    out_device: int
    socket: int  # number of the listener
    hinted: bool

    @classmethod
    def of(cls, verdicts: Verdicts) -> _Found:
        return cls(
            family=int(verdicts.family[0]),
            device=int(verdicts.device[0]),
            rule=int(verdicts.rule[0]),
            route=int(verdicts.route[0]),
            next_hop=int(verdicts.next_hop[0]),
            out_device=int(verdicts.out_device[0]),
            socket=int(verdicts.socket[0]),
            hinted=bool(verdicts.hinted[0]),
        )


# --- the packet itself -----------------------------------------------------------------------------


def _inner(netns: Netns, one: PacketBatch) -> bytes:
    """The IPv6 packet that the 6LoWPAN frame received last was made into, as far as captured."""
    state = netns.state
    if int(one.link_type[0]) not in LINKS_IEEE802154 or state.skb[T.SKB_FAMILY] != 6:
        return b""
    return state.lowpan[: state.lw[T.LW_OUT]].tobytes()


def describe(one: PacketBatch, verdicts: Verdicts, inner: bytes = b"") -> dict[str, Any]:
    """Addresses, protocol, ports and lengths of the only packet of `one`, as far as captured.

    `inner` is the packet where it does not stand in the frame.
    """
    raw, network = one.packet(0), int(verdicts.network[0])
    packet: dict[str, Any] = {
        "captured": len(raw),
        "wire_length": int(one.wire_length[0]),
        "family": int(verdicts.family[0]),
    }
    if one.mark[0]:
        packet["mark"] = int(one.mark[0])
    if inner:
        raw, network = inner, 0
    ip = raw[network:] if network >= 0 else b""
    if packet["family"] == 4 and len(ip) >= 20:
        packet |= _describe4(ip)
    elif packet["family"] == 6 and len(ip) >= 40:
        packet |= _describe6(ip)
    protocol = int(verdicts.protocol[0])
    if protocol >= 0 and "protocol" in packet:
        packet["protocol"] = protocol  # IPv6: the last header that was reached
    transport = int(verdicts.transport[0])
    at = transport if transport > 0 else network + packet.pop("_header", 0)
    packet.pop("_header", None)
    if "protocol" in packet and not packet.get("fragment_offset") and at > 0:
        _describe_transport(packet, raw[at:])
    return packet


def _describe4(ip: bytes) -> dict[str, Any]:
    word = int.from_bytes(ip[6:8])
    return {
        "source": address_text(4, int.from_bytes(ip[12:16])),
        "destination": address_text(4, int.from_bytes(ip[16:20])),
        "protocol": ip[9],
        "length": int.from_bytes(ip[2:4]),
        "hop_limit": ip[8],
        "tos": ip[1],
        "fragment_offset": (word & 0x1FFF) * 8,
        "more_fragments": bool(word & 0x2000),
        "dont_fragment": bool(word & 0x4000),
        "_header": (ip[0] & 15) * 4,
    }


def _describe6(ip: bytes) -> dict[str, Any]:
    return {
        "source": address_text(6, int.from_bytes(ip[8:24])),
        "destination": address_text(6, int.from_bytes(ip[24:40])),
        "protocol": ip[6],
        "length": int.from_bytes(ip[4:6]) + 40,
        "hop_limit": ip[7],
        "tos": int.from_bytes(ip[0:2]) >> 4 & 0xFF,
        "_header": 40,
    }


def _describe_transport(packet: dict[str, Any], segment: bytes) -> None:
    if packet["protocol"] in WITH_PORTS and len(segment) >= 4:
        packet["source_port"] = int.from_bytes(segment[0:2])
        packet["destination_port"] = int.from_bytes(segment[2:4])
    elif packet["protocol"] in (1, 58) and len(segment) >= 2:
        packet["icmp_type"], packet["icmp_code"] = segment[0], segment[1]


def header_line(packet: dict[str, Any]) -> str:
    """The packet in one line: protocol, addresses, ports, lengths."""
    size = f"{packet['wire_length']} bytes on the wire"
    if packet["captured"] < packet["wire_length"]:
        size += f", {packet['captured']} captured"
    if "source" not in packet:
        return f"no IP header, {size}"
    protocol = packet["protocol"]
    name = PROTOCOL_NAMES.get(protocol, f"protocol {protocol}")
    source, destination = packet["source"], packet["destination"]
    if "source_port" in packet:
        opened, closed = ("[", "]") if packet["family"] == 6 else ("", "")
        source = f"{opened}{source}{closed}:{packet['source_port']}"
        destination = f"{opened}{destination}{closed}:{packet['destination_port']}"
    parts = [f"{name} {source} > {destination}"]
    if "icmp_type" in packet:
        parts.append(f"type {packet['icmp_type']} code {packet['icmp_code']}")
    if packet.get("fragment_offset") or packet.get("more_fragments"):
        parts.append(f"fragment at {packet['fragment_offset']}")
    parts.append(f"IP length {packet['length']}")
    parts.append(f"{'TTL' if packet['family'] == 4 else 'hop limit'} {packet['hop_limit']}")
    if packet["tos"]:
        parts.append(f"TOS {packet['tos']:#04x}")
    if "mark" in packet:
        parts.append(f"mark {packet['mark']:#x}")
    return ", ".join(parts) + f" ({size})"


# --- rows of the trace in words ----------------------------------------------------------------------


class Words:
    """Puts trace rows into sentences, with the names that the host's owner gave."""

    def __init__(self, netns: Netns, family: int, receiver: int):
        self.netns = netns
        self.family, self.receiver = family, receiver
        self._format: dict[str, Any] = {
            "": lambda v: str(v[0]),
            "dev": lambda v: self.device(v[0]),
            "pkttype": lambda v: PACKET_TYPES[v[0]],
            "mac": lambda v: mac_text(v[0]),
            "hex": lambda v: hex(v[0]),
            "hex4": lambda v: f"{v[0]:#06x}",
            "okbad": lambda v: "ok" if v[0] else "bad",
            "okfull": lambda v: "full" if v[0] else "there is room",
            "ip4": lambda v: address_text(4, v[0] & 0xFFFFFFFF),
            "ip6": lambda v: address_text(6, _whole(v[0], v[1])),
            "reason": lambda v: REASONS[v[0]].name if v[0] else "no reason needed",
            "verdict": lambda v: VERDICTS[v[0]],
            "rule4": lambda v: self.rule(4, v[0]),
            "rule6": lambda v: self.rule(6, v[0]),
            "route4": lambda v: self.route(4, v[0]),
            "route6": lambda v: self.route(6, v[0]),
            "table": lambda v: table_name(v[0]),
            "errno": lambda v: ERRORS.get(v[0], f"error {v[0]}"),
            "skip": lambda v: SKIPPED[v[0]],
            "matches": lambda v: "matches" if v[0] else "no match",
            "joined": lambda v: "joined" if v[0] else "not joined",
            "sent": lambda v: "sent" if v[0] else "not sent",
            "sender": lambda v: (
                "a socket of this host sent it" if v[0] else "no socket of this host sent it"
            ),
            "rtype": lambda v: ROUTE_KINDS[v[0]],
            "handler": lambda v: "there is a handler" if v[0] else "no handler",
            "socket": lambda v: self.socket(v[0]),
            "neigh": lambda v: NEIGHBOURS[v[0]],
            "icmpfate": lambda v: ICMP_FATES[v[0]],
            "pmtu": lambda v: PMTU_FATES[v[0]],
            "redirected": lambda v: REDIRECT_FATES[v[0]],
            "more": lambda v: "more follow" if v[0] else "the last",
            "total": lambda v: str(v[0]) if v[0] >= 0 else "a number not known yet",
            "final": lambda v: "which is final" if v[0] else "so far",
            "wpan": lambda v: wpan_address_text(v[0], v[1]),
            "dispatch": lambda v: dispatch_text(v[0]),
            "lowpan": lambda v: LOWPAN_ERRORS[v[0]],
            "lowpanplace": lambda v: LOWPAN_PLACES[v[0]],
            "place": lambda v: PLACES[v[0]],
            "refragmented": lambda v: "they came" if v[0] else "the size allows",
            "whole": lambda v: "all of it" if v[0] else "not all of it",
        }

    def device(self, row: int) -> str:
        devices = self.netns.host.devices
        return devices[row].name if 0 <= row < len(devices) else "no device"

    def rule(self, family: int, row: int) -> str:
        return self.netns.rule_texts(family)[row]

    def route(self, family: int, row: int) -> str:
        return route_text(self.netns.routes(family)[row]) if row >= 0 else "no route"

    def nexthop(self, family: int, row: int) -> str:
        return self.netns.nexthop_texts(family)[row] if row >= 0 else ""

    def socket(self, row: int) -> str:
        if row < 0:
            return "no socket takes it"
        number = int(self.netns.tables.socket[row, T.SOCK_LISTENER])
        return self.netns.listener_text(number)

    def table(self, step: int, values: tuple[int, ...]) -> str | None:
        """The table searched; local and main are one until the first custom rule."""
        family = 4 if step in (TR.T_TABLE4, TR.T_FIB_MISS4) else 6
        host = self.netns.host
        if family == 4 and values[0] == 254 and not host.custom_rules4:
            return "local+main"
        return None

    def function(self, name: str) -> str:
        """The kernel function that checks packets of this family."""
        return IPV6_FUNCTIONS.get(name, name) if self.family == 6 else name

    def steps(self, rows: np.ndarray) -> list[ExplainedStep]:
        """The sentences for the rows of a trace (int64[n, 1 + TRACE_VALUES])."""
        steps, lookup = [], ROUTE
        for row in rows:
            number, values = int(row[0]), tuple(int(v) for v in row[1:])
            if number in _AFTER_ROUTE:
                lookup = ANSWER
            elif number in _ENDS_WAY_BACK and lookup == WAY_BACK:
                lookup = ROUTE
            step = TR.STEPS[number]
            steps.append(
                ExplainedStep(
                    step=number,
                    stage=step.stage,
                    check=step.name,
                    function=self.function(step.function),
                    text=self.sentence(number, values),
                    values=values,
                    lookup=lookup if number in _LOOKUP_ROWS else "",
                    setting=self.setting(step.sysctl) if step.sysctl else None,
                )
            )
            if number in _STARTS_WAY_BACK and lookup == ROUTE:
                lookup = WAY_BACK
        return steps

    def sentence(self, number: int, values: tuple[int, ...]) -> str:
        text = TR.STEPS[number].text
        if number == TR.T_MULTIPATH:
            chosen = self.nexthop(self.family, values[1])
            return f"hash {values[0]:#x} chooses {chosen}, one of {values[2]} next hops"
        merged = self.table(number, values) if "{0:table}" in text else None

        def one(match: re.Match[str]) -> str:
            at, kind = int(match[1]), match[2] or ""
            if kind == "table" and merged:
                return merged
            return str(self._format[kind](values[at:]))

        return _FIELD.sub(one, text)

    # --- settings ------------------------------------------------------------------------------------

    def setting(self, pattern: str) -> Setting:
        """The setting behind a step, resolved to the name that holds on the receiving device."""
        if pattern.startswith("switch "):
            name = pattern.removeprefix("switch ")
            return Setting((f"switch {name}",), self.netns.switches[name])
        return resolve_sysctl(self.netns, pattern, self.receiver)


def resolve_sysctl(netns: Netns, pattern: str, receiver: int) -> Setting:
    """Which name makes the setting what it is on device row `receiver`.

    `pattern` is a sysctl name, with `{dev}` where the device's name stands.  Where the kernel takes
    the larger of `all` and the device, the one that is larger is named, and so on.
    """
    host = netns.host
    if "{dev}" not in pattern:
        return Setting((pattern,), str(host.sysctls.get(pattern, _DEFAULTS.get(pattern, "0"))))
    family, flag = int(pattern.removeprefix("net.ipv")[0]), pattern.rpartition(".")[2]
    if not 0 <= receiver < len(host.devices):
        return Setting((pattern.format(dev="DEVICE"),), "?")
    device = host.devices[receiver]
    value = str(effective_sysctl(host, family, device, flag))
    name = _holding_name(host, family, device.name, flag)
    if family == 6 or flag in DEVICE_ONLY:
        return Setting((name,), value)
    own, common = own_sysctl(host, 4, device.name, flag), own_sysctl(host, 4, "all", flag)
    everywhere = pattern.format(dev="all")
    if flag in MAX:
        how, device_decides, both = (
            "the larger of all and device counts",
            own > common,
            own == common,
        )
    else:
        on, all_on = bool(own), bool(common)
        both = on == all_on
        device_decides = on != (
            flag in AND
        )  # an AND is decided by what is off, an OR by what is on
        how = "it must be on in all and device" if flag in AND else "on in all or device is enough"
    if both:
        return Setting((everywhere, name), value)
    other = f"all has {common}" if device_decides else f"{device.name} has {own}"
    return Setting((name if device_decides else everywhere,), value, f"{how}; {other}")


def _holding_name(host: Host, family: int, device: str, flag: str) -> str:
    """The name under which the device's own value was written last; its own name if never."""
    own = f"net.ipv{family}.conf.{device}.{flag}"
    names = [own]
    if flag in (COPIED4 if family == 4 else COPIED6):
        names.append(f"net.ipv{family}.conf.all.{flag}")
    if family == 4 and flag == "forwarding":
        names.append("net.ipv4.ip_forward")
    order = list(host.sysctls)
    written = [name for name in names if name in host.sysctls]
    if written:
        last = max(written, key=order.index)
        # the name by which people know it
        return "net.ipv4.ip_forward" if last == "net.ipv4.conf.all.forwarding" else last
    inherited = f"net.ipv{family}.conf.default.{flag}"
    if inherited in host.sysctls:
        return inherited
    return "net.ipv4.ip_forward" if family == 4 and flag == "forwarding" else own


_DEFAULTS = {
    "net.core.rmem_default": "212992",
    "net.ipv4.ip_early_demux": "1",
    "net.ipv4.ipfrag_high_thresh": "4194304",
    "net.ipv4.ipfrag_max_dist": "64",
    "net.ipv6.ip6frag_high_thresh": "4194304",
}


def _whole(hi: int, lo: int) -> int:
    return (hi & 0xFFFFFFFFFFFFFFFF) << 64 | (lo & 0xFFFFFFFFFFFFFFFF)


def wpan_address_text(mode: int, address: int) -> str:
    """An IEEE 802.15.4 address in words."""
    from ippath.wire.ieee802154 import ADDRESS_NONE, ADDRESS_SHORT, BROADCAST

    if mode == ADDRESS_NONE:
        return "no address"
    if mode == ADDRESS_SHORT:
        return "all" if address == BROADCAST else f"{address:#06x}"
    return (address & (1 << 64) - 1).to_bytes(8, "big").hex(":")


def dispatch_text(dispatch: int) -> str:
    """What a 6LoWPAN dispatch byte announces."""
    found = (text for mask, value, text in DISPATCHES if dispatch & mask == value)
    return next(found, "reserved")


def mac_text(address: int) -> str:
    """A MAC address as people write it; `no address` for -1."""
    if address < 0:
        return "no address"
    return ":".join(f"{byte:02x}" for byte in address.to_bytes(6))


# --- what decided -----------------------------------------------------------------------------------


class _Judge:
    """Names what decided, and for the reverse path check what would help."""

    def __init__(
        self, netns: Netns, words: Words, found: _Found, explanation: Explanation, mark: int
    ):
        self.netns, self.words, self.found, self.told = netns, words, found, explanation
        self.family, self.mark = found.family, mark
        self.device = words.device(found.device)

    def _last(self, kinds: set[int], lookup: str = "") -> ExplainedStep | None:
        found = [
            s for s in self.told.steps if s.step in kinds and (not lookup or s.lookup == lookup)
        ]
        return found[-1] if found else None

    def _add(self, kind: str, what: str) -> None:
        if what and (kind, what) not in self.told.decided_by:
            self.told.decided_by.append((kind, what))

    def fill(self) -> None:
        """Fill `decided_by` and `ways_out`."""
        told = self.told
        if told.verdict in ("dropped", "unsupported", "held"):
            self._deciding_check()
        self._settings()
        self._route()
        if told.reason == "IP_RPFILTER":
            self._reverse_path()
        elif told.reason == "IP_LOCAL_SOURCE":
            self._owner_of_source()
        elif told.reason == "NO_SOCKET":
            self._sockets_near()
        socket_step = self._last({TR.T_UDP_SOCKET})
        if self.found.socket >= 0:
            self._add("socket", self.netns.listener_text(self.found.socket))
        elif socket_step is not None and socket_step.values[1] >= 0:
            self._add("socket", self.words.socket(socket_step.values[1]))

    def _deciding_check(self) -> None:
        """The last check before the verdict that is no message to the sender."""
        checks = [
            s
            for s in self.told.steps
            if s.step not in _ASIDE
            and s.lookup != ANSWER
            and not (s.step in (TR.T_NEIGH, TR.T_NEIGH6) and self.told.reason != "NEIGH_FAILED")
        ]
        if checks:
            self._add("check", checks[-1].text)

    def _settings(self) -> None:
        """Settings of the checks that decided: those of a drop, or those that let the packet pass."""
        told = self.told
        if told.verdict not in ("dropped", "unsupported"):
            return
        checks = [s for s in told.steps if s.step not in _ASIDE and s.lookup != ANSWER]
        relevant = [s for s in checks if s.setting is not None and self._bears_on_drop(s)]
        for step in relevant[-1:]:
            self._add("sysctl", str(step.setting))

    def _bears_on_drop(self, step: ExplainedStep) -> bool:
        reason = self.told.reason
        wanted = {
            "IP_RPFILTER": {TR.T_RPF_STRICT, TR.T_RPF_NOROUTE},
            "IP_LOCAL_SOURCE": {TR.T_RPF_LOCAL},
            "IP_LOCALNET": {TR.T_LOCALNET},
            "IP_INADDRERRORS": {TR.T_NO_FORWARD4, TR.T_NO_FORWARD6},
            "UNICAST_IN_L2_MULTICAST": {TR.T_L2MCAST},
            "SOCKET_RCVBUFF": {TR.T_UDP_QUEUE},
            "IPV6DISABLED": {TR.T_DISABLED6},
            "NOT_SPECIFIED": {
                TR.T_SRR,
                TR.T_NO_FORWARD6,
                TR.T_FRAG_REFUSED,
                TR.T_FRAG_REFUSED6,
            },  # fmt: skip
        }.get(reason, set())
        return step.step in wanted

    def _route(self) -> None:
        """Rule, table, prefix and next hop of the packet's own route."""
        told, family = self.told, self.family
        if family not in (4, 6):
            return
        route, rule = self.found.route, self.found.rule
        result = self._last(_RESULT_ROWS, ROUTE)
        if route < 0 and result is not None:
            route = result.values[1]
        if rule < 0:
            matched = [
                s
                for s in told.steps
                if s.step in (TR.T_RULE4, TR.T_RULE6) and s.lookup == ROUTE and s.values[1]
            ]
            rule = matched[-1].values[0] if matched else -1
        if self.found.hinted:
            self._add(
                "route hint", "the route of the packet before, reused within the receive list"
            )
        if rule >= 0:
            self._add("rule", self.words.rule(family, rule))
        if route >= 0:
            model = self.netns.routes(family)[route]
            self._add("table", table_name(model.table))
            self._add("route", self.words.route(family, route))
        elif told.reason == "IP_INNOROUTES":
            self._add("route", "none: no table has a route to the destination")
        if told.verdict == "forwarded":
            self._add("next hop", self.words.nexthop(family, self.found.next_hop))
            self._add("device", self.words.device(self.found.out_device))

    # --- the reverse path check ------------------------------------------------------------------------

    def _reverse_path(self) -> None:
        told, words, device = self.told, self.words, self.device
        back = self._last(_RESULT_ROWS, WAY_BACK)
        strict = self._last({TR.T_RPF_STRICT})
        source = told.packet["source"]
        rules = [
            s for s in told.steps if s.step == TR.T_RULE4 and s.lookup == WAY_BACK and s.values[1]
        ]
        if rules:
            self._add("rule back", words.rule(4, rules[-1].values[0]))
        if back is not None and back.values[1] >= 0:
            route = self.netns.routes(4)[back.values[1]]
            devices = [n.device for n in route.nexthops if n.device]
            way = f"{words.route(4, back.values[1])} (table {table_name(route.table)})"
            if devices:
                way += f", leaves by {' or '.join(devices)}; the packet came in on {device}"
            self._add("way back", way)
        else:
            self._add("way back", f"none: no route to {source}")
        self._add("log", self._log_martians())
        self._ways_out(source, back, strict)

    def _log_martians(self) -> str:
        packet, device = self.told.packet, self.device
        line = f"IPv4: martian source {packet.get('destination')} from {packet.get('source')}, on dev {device}"
        setting = self.words.setting("net.ipv4.conf.{dev}.log_martians")
        if int(setting.value):
            return f'the kernel log has "{line}" ({setting})'
        return f'nothing in the kernel log; net.ipv4.conf.{device}.log_martians = 1 writes "{line}"'

    def _ways_out(
        self, source: str, back: ExplainedStep | None, strict: ExplainedStep | None
    ) -> None:
        device, ways = self.device, self.told.ways_out
        marked = self._mark_rule(source)
        if marked is not None:
            ways.append(
                f"let the mark count on the way back: net.ipv4.conf.{device}.src_valid_mark = 1 "
                f"(the packet has mark {self.mark:#x}, which rule {marked} takes)"
            )
        if strict is not None:
            ways.append(
                f"loose mode: net.ipv4.conf.{device}.rp_filter = 2 accepts a source that any route "
                "leads back to"
            )
            ways.append(self._policy_rule(source))
        elif back is None:
            ways.append(f"a route back: ip route add {source} dev {device}")
        else:
            ways.append(
                f"an address on {device}: without one, only a way back by {device} itself counts, "
                "in loose mode too"
            )
        names = [f"net.ipv4.conf.{where}.rp_filter = 0" for where in ("all", device)]
        ways.append(f"no check at all: {' and '.join(names)}")

    def _policy_rule(self, source: str) -> str:
        # the way back of a broadcast or multicast is looked up without its destination
        to_group = self._last({TR.T_BROADCAST, TR.T_MCAST}) is not None
        selector = f"to {source}" if to_group else f"from {self.told.packet.get('destination')}"
        fitting = self._routes_back(source)
        if not fitting:
            return (
                f"a policy rule for the way back: ip route add {source} dev {self.device} "
                f"table NUMBER, and ip rule add {selector} lookup NUMBER"
            )
        table = table_name(fitting[0].table)
        return (
            f"a policy rule for the way back: ip rule add {selector} lookup {table} "
            f"(which has {route_text(fitting[0])})"
        )

    def _mark_rule(self, source: str) -> str | None:
        """The rule that would lead a marked packet back by the receiving device."""
        if not self.mark or int(self.words.setting("net.ipv4.conf.{dev}.src_valid_mark").value):
            return None
        for rule, text in zip(self.netns.rules(4), self.netns.rule_texts(4)):
            fits = rule.mask and (rule.mark ^ self.mark) & rule.mask == 0
            if fits and any(r.table == rule.table for r in self._routes_back(source)):
                return text
        return None

    def _routes_back(self, source: str) -> list[Route]:
        """Routes of other tables to the source by the receiving device, longest prefix first."""
        address = int(ipaddress.IPv4Address(source))
        fitting = [
            r
            for r in self.netns.host.routes
            if r.family == 4
            and r.table not in (TABLE_LOCAL, TABLE_MAIN)
            and r.type == "unicast"
            and (r.plen == 0 or (r.prefix ^ address) >> (32 - r.plen) == 0)
            and any(n.device == self.device for n in r.nexthops)
        ]
        return sorted(fitting, key=lambda r: -r.plen)

    # --- other reasons -----------------------------------------------------------------------------------

    def _owner_of_source(self) -> None:
        source = self.told.packet.get("source")
        for device in self.netns.host.devices:
            for address in device.addresses:
                if address_text(address.family, address.ip) == source:
                    self._add("address", f"{source} is an address of {device.name}")

    def _sockets_near(self) -> None:
        """Listeners on the same port that do not take this packet, and why in their own words."""
        port = self.told.packet.get("destination_port")
        for number, listener in self.netns.open_listeners():
            if listener.port == port and listener.protocol == self.told.packet.get("protocol"):
                self._add("other socket", self.netns.listener_text(number))
        self._add(
            "socket",
            f"none listens on {self.told.packet.get('destination')} port {port}",
        )
