"""A hundred thousand routes and ten tables with rules, in the running kernel and in ippath.

Both are asked for thousands of random addresses: the kernel through netlink, ippath as an array.
"""

from __future__ import annotations

import argparse
import ipaddress
import random
import socket
import struct
import sys
from pathlib import Path
from typing import Any, Self

import numpy as np

from ippath import tables as T
from ippath.config.host_file import parse_host
from ippath.fib.routes import routes_of
from ippath.netns import Netns
from ippath.route_get import EMSGSIZE, Question, answer_of, answer_rows
from ippath.verify.namespace import in_child
from ippath.verify.on_ippath import PREPARED
from ippath.verify.on_kernel import Session
from ippath.verify.scenario import Scenario

ROUTES, QUERIES = 100_000, 4_000
TABLES = range(100, 110)
BITS = {4: 32, 6: 128}
DEVICES = ("r0", "r1", "r2")
_FIRST = {4: (11 << 24, 200 << 24), 6: (0x2400 << 112, 0x2410 << 112)}
_LENGTHS = {4: [*range(8, 33), 24, 24, 24], 6: [20, 32, 40, 44, 48, 48, 56, 64, 128]}
LOOKUP_TABLE = 0x1000  # RTM_F_LOOKUP_TABLE
Question_ = dict[str, Any]


def host_lines(family: int, chance: random.Random) -> list[str]:
    """Devices, routes of all tables, and a rule for each table."""
    lines = [f"ip link add {name} type tun" for name in DEVICES]
    lines += ["ip link set lo up", *(f"ip link set {name} up" for name in DEVICES)]
    for k, name in enumerate(DEVICES):
        own = f"10.{k}.0.1/24" if family == 4 else f"2001:db8:{k}::1/64"
        lines.append(f"ip addr add {own} dev {name}")
    lines += ["net.ipv4.ip_forward = 1", "net.ipv6.conf.all.forwarding = 1"]
    ip = "ip" if family == 4 else "ip -6"
    taken: dict[int, set[tuple[int, int]]] = {}
    while sum(map(len, taken.values())) < ROUTES:
        table = chance.choice([254, 254, *TABLES])
        plen = chance.choice(_LENGTHS[family])
        free = BITS[family] - plen
        value = chance.randrange(*_FIRST[family]) >> free << free
        places = taken.setdefault(table, set())
        if (value, plen) in places:
            continue
        places.add((value, plen))
        k, last = chance.randrange(3), chance.randrange(2, 40)
        near = f"10.{k}.0.{last}" if family == 4 else f"2001:db8:{k}::{last:x}"
        prefix = f"{ipaddress.ip_address(value)}/{plen}"
        kind = chance.choice([""] * 60 + ["unreachable ", "prohibit ", "blackhole ", "throw "])
        hop = f" via {near}" if not kind else ""
        where = f" table {table}" if table != 254 else ""
        metric = f" metric {chance.choice([5, 9])}" if chance.random() < 0.1 else ""
        lines.append(f"{ip} route append {kind}{prefix}{hop}{where}{metric}")
    selectors = [
        "fwmark 1", "fwmark 0x20/0xf0", "iif r1", "oif r2", "ipproto tcp", "dport 80-90", "tos 0x10",
        "not fwmark 3", "to 64.0.0.0/2" if family == 4 else "to 2408::/14",
        "from 10.1.0.0/24" if family == 4 else "from 2001:db8:1::/64",
    ]  # fmt: skip
    for k, (table, selector) in enumerate(zip(TABLES, selectors)):
        also = " suppress_prefixlength 16" if k == 7 else ""
        lines.append(f"{ip} rule add pref {1000 + k} {selector} lookup {table}{also}")
    return lines


def questions(family: int, chance: random.Random, queries: int) -> list[Question_]:
    """Words behind `ip route get`, as fields of a Question."""
    found = []
    own = ["10.0.0.1", "10.1.0.1"] if family == 4 else ["2001:db8::1", "2001:db8:1::1"]
    far = ["10.1.0.77", "10.2.0.9"] if family == 4 else ["2001:db8:1::77", "2001:db8:2::9"]
    for k in range(queries // 50):
        fields: Question_ = {}
        if k % 3 == 1:
            fields |= {"iif": chance.choice(DEVICES), "source": chance.choice(far)}
        elif k % 3 == 2:
            fields |= {"source": chance.choice(own)}
        if chance.random() < 0.2 and "iif" not in fields:
            fields["oif"] = chance.choice(DEVICES)
        if chance.random() < 0.5:
            fields["mark"] = chance.choice([1, 3, 0x25, 7])
        if chance.random() < 0.3:
            fields["tos"] = chance.choice([0x10, 0x20])
        if chance.random() < 0.4:
            fields |= {
                "protocol": chance.choice([6, 17]),
                "sport": 1000,
                "dport": chance.choice([80, 9]),
            }
        found.append(fields)
    return found


def ask_kernel(
    lines: list[str], family: int, asked: list[tuple[Question_, list[int]]]
) -> list[list[list[Any]]]:
    """The answers of a namespace with this host; raises KernelError if it can't be made."""

    def ask() -> list[list[list[Any]]]:
        session = Session(Scenario("scale", "routes", "\n".join(lines), ()), Path(), False)
        session.make_host()
        with _Netlink() as netlink:
            return [
                [netlink.get(family, fields, destination) for destination in destinations]
                for fields, destinations in asked
            ]

    return in_child(ask)


class _Netlink:
    """Asks for routes as `ip route get` does (pyroute2 does not know protocol and ports)."""

    def __enter__(self) -> Self:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        self.socket.bind((0, 0))
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def get(self, family: int, fields: Question_, destination: int) -> list[Any]:
        size, bits = BITS[family] // 8, BITS[family]
        attributes = _attribute(1, destination.to_bytes(size))
        if "source" in fields:
            attributes += _attribute(2, ipaddress.ip_address(fields["source"]).packed)
        for number, name in ((3, "iif"), (4, "oif")):
            if name in fields:
                index = socket.if_nametoindex(fields[name])
                attributes += _attribute(number, struct.pack("=I", index))
        if "mark" in fields:
            attributes += _attribute(16, struct.pack("=I", fields["mark"]))
        if "protocol" in fields:
            attributes += _attribute(27, bytes([fields["protocol"]]))
            attributes += _attribute(28, fields["sport"].to_bytes(2))
            attributes += _attribute(29, fields["dport"].to_bytes(2))
        kind = socket.AF_INET if family == 4 else socket.AF_INET6
        source_bits = bits if "source" in fields else 0
        tos = fields.get("tos", 0)
        body = struct.pack("=BBBBBBBBI", kind, bits, source_bits, tos, 0, 0, 0, 0, LOOKUP_TABLE)
        body += attributes
        self.socket.send(struct.pack("=IHHII", 16 + len(body), 26, 1, 1, 0) + body)
        return _answer(self.socket.recv(65536))


def _attribute(number: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)


def _answer(message: bytes) -> list[Any]:
    """[errno], or [0, type, device, gateway, table, source]."""
    if struct.unpack_from("=H", message, 4)[0] == 2:  # NLMSG_ERROR
        return [-struct.unpack_from("=i", message, 16)[0]]
    length = struct.unpack_from("=I", message)[0]
    found: dict[int, bytes] = {}
    at = 28
    while at + 4 <= length:
        size, number = struct.unpack_from("=HH", message, at)
        found[number] = message[at + 4 : at + size]
        at += (size + 3) & ~3
    address = {n: str(ipaddress.ip_address(found[n])) if n in found else None for n in (5, 7)}
    device = socket.if_indextoname(int.from_bytes(found[4], "little"))
    table = int.from_bytes(found[15], "little")
    return [0, message[23], device, address[5], table, address[7]]


def ours(netns: Netns, family: int, fields: Question_, destinations: list[int]) -> list[list[Any]]:
    """The same answers from ippath."""
    fields = dict(fields)
    if "source" in fields:
        fields["source"] = int(ipaddress.ip_address(fields["source"]))
    question = Question(family, **fields)
    low = (1 << 64) - 1
    halves = np.array([[d >> 64, d & low] for d in destinations], np.uint64).view(np.int64)
    found = []
    for destination, row in zip(destinations, answer_rows(netns, question, halves)):
        answer = answer_of(netns, question, destination, row)
        if answer.error:
            found.append([answer.error])
            continue
        told = answer.to_dict()
        found.append([0, int(row[T.GOT_TYPE]), answer.device, told.get("gateway"), max(answer.table, 0),
                      told.get("prefsrc")])  # fmt: skip
    return found


def difference(family: int, seed: int, queries: int = QUERIES) -> tuple[str, int]:
    """The first answer that differs, or nothing; and how many refused.  Raises KernelError."""
    chance = random.Random(seed)
    lines = host_lines(family, chance)
    asked = [
        (fields, [chance.randrange(*_FIRST[family]) for _ in range(50)])
        for fields in questions(family, chance, queries)
    ]
    kernel = ask_kernel(lines, family, asked)
    host = parse_host(PREPARED + "\n".join(lines) + "\n")
    assert routes_of(host).blocks, "the routes were not read at once"
    netns = Netns(host)
    errors = 0
    for (fields, destinations), theirs in zip(asked, kernel):
        for destination, one, other in zip(
            destinations, theirs, ours(netns, family, fields, destinations)
        ):
            if one != other:
                where = ipaddress.ip_address(destination)
                return f"{where} {fields}: the kernel {one}, ippath {other}", errors
            errors += one[0] not in (0, EMSGSIZE)
    return "", errors


def main() -> None:
    """Compare tables drawn from one seed after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--queries", type=int, default=100_000)
    given = parser.parse_args()
    for seed in range(given.seed, given.seed + given.runs):
        for family in BITS:
            found, errors = difference(family, seed, given.queries)
            if found:
                sys.exit(f"seed {seed}: {found}")
            print(
                f"seed {seed}, IPv{family}: {ROUTES:,} routes in {len(TABLES) + 1} tables, "
                f"{given.queries:,} answers equal, {errors:,} of them refusals",
                flush=True,
            )


if __name__ == "__main__":
    main()
