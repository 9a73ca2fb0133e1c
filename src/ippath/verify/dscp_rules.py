"""Policy rules with a DSCP selector, which the `ip` of many machines does not know yet.

Linux has the selector since 6.13 (kernel: fib4_nl2rule_dscp); the message is written by hand.
"""

from __future__ import annotations

import os
import socket
import struct

from ippath.model import Rule
from ippath.verify.namespace import KernelError

RTM_NEWRULE, NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL = 32, 1, 4, 0x400, 0x200
(
    FRA_DST, FRA_SRC, FRA_IIFNAME, FRA_GOTO, FRA_PRIORITY, FRA_FWMARK, FRA_SUPPRESS_IFGROUP,
    FRA_SUPPRESS_PREFIXLEN, FRA_TABLE, FRA_FWMASK, FRA_OIFNAME, FRA_UID_RANGE, FRA_IP_PROTO,
    FRA_SPORT_RANGE, FRA_DPORT_RANGE, FRA_DSCP,
) = (1, 2, 3, 4, 6, 10, 13, 14, 15, 16, 17, 20, 22, 23, 24, 25)  # fmt: skip
FIB_RULE_INVERT = 2
_ACTIONS = {
    "lookup": 1, "goto": 2, "nop": 3, "blackhole": 6, "unreachable": 7, "prohibit": 8,
}  # fmt: skip
_RULE_HEADER = struct.Struct("=BBBBBBBBI")


def rule_of(line: str) -> Rule:
    """The rule that a line `ip rule add … dscp …` describes."""
    from ippath.config import parse_host

    return next(rule for rule in parse_host(line + "\n").rules if rule.dscp is not None)


def add_rule(rule: Rule) -> None:
    """Add a rule to this network namespace; raises KernelError."""
    size = 4 if rule.family == 4 else 16
    family = socket.AF_INET if rule.family == 4 else socket.AF_INET6
    body = _RULE_HEADER.pack(
        family, rule.dst_plen, rule.src_plen, rule.tos, 0, 0, 0, _ACTIONS[rule.action],
        FIB_RULE_INVERT * rule.invert,
    )  # fmt: skip
    assert rule.dscp is not None
    attributes: list[tuple[int, bytes]] = [
        (FRA_PRIORITY, struct.pack("=I", rule.pref)),
        (FRA_DSCP, bytes([rule.dscp])),
    ]
    for kind, plen, address in ((FRA_SRC, rule.src_plen, rule.src), (FRA_DST, rule.dst_plen, rule.dst)):  # fmt: skip
        attributes += [(kind, address.to_bytes(size, "big"))] if plen else []
    for kind, name in ((FRA_IIFNAME, rule.iif), (FRA_OIFNAME, rule.oif)):
        attributes += [(kind, name.encode() + b"\0")] if name else []
    if rule.action == "lookup":
        attributes.append((FRA_TABLE, struct.pack("=I", rule.table)))
    if rule.action == "goto":
        attributes.append((FRA_GOTO, struct.pack("=I", rule.goto)))
    if rule.mark or rule.mask:
        attributes.append((FRA_FWMARK, struct.pack("=I", rule.mark)))
        attributes.append((FRA_FWMASK, struct.pack("=I", rule.mask)))
    attributes += [(FRA_IP_PROTO, bytes([rule.protocol]))] if rule.protocol else []
    for kind, ports in ((FRA_SPORT_RANGE, rule.sport), (FRA_DPORT_RANGE, rule.dport)):
        attributes += [(kind, struct.pack("=HH", *ports))] if ports else []
    attributes += [(FRA_UID_RANGE, struct.pack("=II", *rule.uidrange))] if rule.uidrange else []
    if rule.suppress_prefixlength >= 0:
        attributes.append((FRA_SUPPRESS_PREFIXLEN, struct.pack("=I", rule.suppress_prefixlength)))
    if rule.suppress_ifgroup >= 0:
        attributes.append((FRA_SUPPRESS_IFGROUP, struct.pack("=I", rule.suppress_ifgroup)))
    _ask(RTM_NEWRULE, body + b"".join(_attribute(kind, value) for kind, value in attributes))


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _ask(kind: int, body: bytes) -> None:
    flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL
    message = struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as channel:
        channel.bind((0, 0))
        channel.send(message)
        answer = channel.recv(4096)
    error = -struct.unpack("=i", answer[16:20])[0]
    if error:
        raise KernelError(f"rule with dscp: {os.strerror(error)}")
