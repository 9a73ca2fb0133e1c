"""Connection tracking in a network namespace, switched on as a firewall does: by a rule that asks.

The kernel tracks, and puts fragments together first, as long as some rule looks at a connection's
state (kernel: nf_ct_netns_get).  The nftables messages are written by hand: no `nft` is needed.
"""

from __future__ import annotations

import os
import socket
import struct

from ippath.verify.namespace import KernelError

NETLINK_NETFILTER, NFPROTO_INET, NFNL_SUBSYS_NFTABLES = 12, 1, 10
NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE, NLA_F_NESTED = 1, 4, 0x400, 0x8000
BATCH_BEGIN, BATCH_END = 16, 17
NEWTABLE, NEWCHAIN, NEWRULE = 0, 3, 6
TABLE_NAME, CHAIN_TABLE, CHAIN_NAME, CHAIN_HOOK = 1, 1, 3, 4
HOOK_NUMBER, HOOK_PRIORITY, PRE_ROUTING = 1, 2, 0
RULE_TABLE, RULE_CHAIN, RULE_EXPRESSIONS, LIST_ELEMENT = 1, 2, 4, 1
EXPRESSION_NAME, EXPRESSION_DATA, CT_DREG, CT_KEY = 1, 2, 1, 2
REGISTER_1, CT_STATE = 1, 0


def track_connections() -> None:
    """Let this namespace track connections, both families; raises KernelError."""
    table = _text(TABLE_NAME, "ippath")
    hook = _nested(CHAIN_HOOK, _number(HOOK_NUMBER, PRE_ROUTING) + _number(HOOK_PRIORITY, 0))
    chain = _text(CHAIN_TABLE, "ippath") + _text(CHAIN_NAME, "track") + hook
    state = _number(CT_KEY, CT_STATE) + _number(CT_DREG, REGISTER_1)
    expression = _text(EXPRESSION_NAME, "ct") + _nested(EXPRESSION_DATA, state)
    rule = _text(RULE_TABLE, "ippath") + _text(RULE_CHAIN, "track")
    rule += _nested(RULE_EXPRESSIONS, _nested(LIST_ELEMENT, expression))
    messages = [(NEWTABLE, table), (NEWCHAIN, chain), (NEWRULE, rule)]
    _ask([_message(NFNL_SUBSYS_NFTABLES << 8 | kind, body) for kind, body in messages])


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _text(kind: int, text: str) -> bytes:
    return _attribute(kind, text.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("!I", value))


def _nested(kind: int, attributes: bytes) -> bytes:
    return _attribute(kind | NLA_F_NESTED, attributes)


def _message(kind: int, body: bytes) -> bytes:
    flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE
    family = struct.pack("!BBH", NFPROTO_INET, 0, 0)
    return struct.pack("=IHHII", 20 + len(body), kind, flags, 1, 0) + family + body


def _ask(messages: list[bytes]) -> None:
    edges = [
        struct.pack("=IHHII", 20, kind, NLM_F_REQUEST, 0, 0)
        + struct.pack("!BBH", 0, 0, NFNL_SUBSYS_NFTABLES)
        for kind in (BATCH_BEGIN, BATCH_END)
    ]
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as channel:
        channel.bind((0, 0))
        channel.send(edges[0] + b"".join(messages) + edges[1])
        for _ in messages:
            answer = channel.recv(8192)
            error = -struct.unpack("=i", answer[16:20])[0]
            if error:
                raise KernelError(f"connection tracking: {os.strerror(error)}")
