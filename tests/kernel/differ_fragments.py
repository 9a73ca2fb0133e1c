"""Random fragments to a host, for the kernel and ippath: `python -m tests.kernel.differ_fragments`.

A few datagrams under way at a time, of both families; pieces of them in any order, again and again,
some too long, some that contradict the others; small limits now and then.  Every other host tracks
connections, and some datagrams are on their way through it.
"""

from __future__ import annotations

import argparse
import random
import sys

from ippath.verify.namespace import available
from ippath.verify.on_ippath import Ippath
from ippath.verify.on_kernel import Kernel
from ippath.verify.packets import (
    ROUTER_ALERT, data, destination_options, echo, echo6, hop_by_hop, record_route, routing,
)  # fmt: skip
from ippath.verify.scenario import Inject, Scenario
from ippath.verify.scenario_file import scenario_text
from ippath.verify.shrink import ask_both, shrunk
from tests.kernel.scenarios import router
from tests.kernel.scenarios_frag4 import piece as piece4
from tests.kernel.scenarios_frag4 import sized
from tests.kernel.scenarios_frag6 import piece as piece6

STEPS = 120
SIZES = (40, 64, 100, 4000)  # of the datagrams: so few pieces that they meet


def scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    chance = random.Random(seed)
    lines = ["listen udp 0.0.0.0:2000", "listen udp [::]:2000 v6only"]
    if chance.random() < 0.4:
        lines.append(f"net.ipv4.ipfrag_max_dist = {chance.choice((0, 1, 2, 4))}")
    tracks = chance.random() < 0.5
    if tracks:
        lines.append("switch conntrack_defrag on")
        lines += chance.choice(([], [], ["ip link set r1 mtu 1280"], ["ip link set r1 mtu 72"]))
    names = (4, "net.ipv4.ipfrag"), (6, "net.ipv6.ip6frag"), (6, "net.netfilter.nf_conntrack_frag6")
    for family, name in names:
        if chance.random() < 0.3:
            limit = chance.choice((900, 2100, 3300))
            lines += [f"{name}_low_thresh = 0", f"{name}_high_thresh = {limit + family}"]
    steps = []
    for k in range(STEPS):
        through = chance.random() < 0.5 if tracks else chance.random() < 0.1
        made = (_fragment4 if chance.random() < 0.5 else _fragment6)(chance, through)
        steps.append(Inject(chance.choice(("r0", "r0", "r0", "r1")), {f"{k}": made}))
    return Scenario(f"random fragments {seed}", "random", router(*lines), tuple(steps))


def _range(chance: random.Random, size: int) -> tuple[int, int, int]:
    """(first byte, length, more follow), most of them honest."""
    unit = 8 if size <= 100 else 8 * chance.choice((60, 70, 80))
    if chance.random() < 0.8:  # as a sender cuts
        first = 2 * unit * chance.randrange((size + 2 * unit - 1) // (2 * unit))
        return first, min(2 * unit, size - first), int(first + 2 * unit < size)
    first = unit * chance.randrange(size // unit + 1)
    length = unit * chance.randrange(1, 6)
    if chance.random() < 0.7 and first + length >= size:
        return first, size - first, 0
    if chance.random() < 0.1:
        return first, chance.randrange(0, 30), chance.randrange(2)
    return first, length, 1


def _fragment4(chance: random.Random, through: bool) -> bytes:
    size = chance.choice(SIZES)
    upper = chance.choice((sized(size), sized(size), sized(size, 9), echo(body=data(size - 8))))
    source = chance.choice(("10.0.0.2", "10.0.0.2", "10.0.0.3"))
    target = "10.1.0.2" if through else "10.0.0.1"
    options = chance.choice((b"",) * 10 + (ROUTER_ALERT, record_route(1)))
    return piece4(
        upper, *_range(chance, size), (source, target), ident=size + chance.randrange(2),
        df=chance.random() < 0.2, tos=chance.choice((0,) * 12 + (1, 2, 3)), options=options,
    )  # fmt: skip


def _fragment6(chance: random.Random, through: bool) -> bytes:
    size = chance.choice(SIZES)
    upper = chance.choice((sized(size), sized(size), sized(size, 9), echo6(body=data(size - 8))))
    here = chance.choice(("2001:db8:0::1", "2001:db8:0::1", "ff02::1"))
    target = "2001:db8:1::2" if through else here
    headers = ((destination_options(b""),), (hop_by_hop(b""),), (routing(0, 0),))
    before = chance.choice(((),) * 20 + headers)
    return piece6(
        upper, *_range(chance, size), ("2001:db8:0::2", target), ident=size + chance.randrange(2),
        traffic_class=chance.choice((0,) * 12 + (1, 2, 3)), before=before,
    )  # fmt: skip


def main() -> int:
    """Ask about many seeds; say what differs, shrunk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=1)
    given = parser.parse_args()
    if why_not := available():
        print(f"the kernel can't be asked here: {why_not}", file=sys.stderr)
        return 2
    differing, ours = 0, Ippath()
    with Kernel() as kernel:
        for seed in range(given.first, given.first + given.seeds):
            one = scenario(seed)
            found = ask_both(one, kernel, ours)
            if found is None or not found.differences:
                continue
            differing += 1
            small = shrunk(one, kernel, ours, found)
            print(f"seed {seed}\n{scenario_text(small)}\n{found.differences[0]}")
    print(f"{given.seeds} scenarios of {STEPS} fragments, {differing} differ")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
