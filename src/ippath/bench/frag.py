"""`frag`: fragments to datagrams, in order and not, many at a time, and under attack."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from ippath.batch import LINK_IEEE802154_NOFCS, LINK_RAW
from ippath.bench import fragments
from ippath.bench.frag_peers import (
    DPDK_MOST_PIECES, MEMORY, LinuxVeth, Counted, build_dpdk, dpdk, find_scapy,
)  # fmt: skip
from ippath.bench.framework import Absent, Run, Variant, Workload, WorkloadError
from ippath.config import parse_host
from ippath.defrag import Defragmenter, Limits
from ippath.netns import Netns
from ippath.verify.namespace import available, kernel_version

# (family, pieces, datagrams at a time, order, bytes of each fragment)
TRAFFIC = (
    (4, 2, 1, "in order", 64), (4, 4, 1, "in order", 64), (4, 8, 1, "in order", 64),
    (4, 4, 1, "in order", 1400), (4, 8, 1, "reversed", 64), (4, 8, 1, "shuffled", 64),
    (4, 4, 64, "shuffled", 64), (4, 2, 100_000, "in order", 64), (6, 4, 1, "in order", 64),
    (6, 4, 64, "shuffled", 64),
)  # fmt: skip
# 6LoWPAN: (pieces, datagrams at a time, order)
LOWPAN_TRAFFIC = ((2, 1, "in order"), (4, 1, "in order"), (8, 1, "in order"), (4, 64, "shuffled"))
STORES = ("list", "tree", "runs")  # in the order of history
MANY = 40  # fragments of a datagram as large as they get by Ethernet
ATTACKED = (8, 4000)  # runs in a datagram
SCAPY_DATAGRAMS = 200
STEP = 1 << 14  # packets pushed at a time, as `ippath defrag` does
# between two fragments: a datagram that is attacked expires, or the next comes long before
SLOWLY, AT_ONCE = 10_000_000, 1_000
HONEST_SHARE = 20  # one of so many fragments is honest
HOST = """\
link set lo up
link add r0 type tun
link set r0 up
addr add 10.0.0.1/24 dev r0
listen udp 10.0.0.1:2000
net.ipv4.ipfrag_max_dist = 0
"""


class Frag(Workload):
    """Reassembly alone, beside peers; then a host under attack, with each step of Linux's rewrite."""

    name = "frag"
    summary = "fragments put together, in memory; a host whose fragments are attacked"
    unit = "fragments"
    target = "in order no slower than DPDK's rte_ip_frag, 100 times as fast as scapy"
    quantities = {"share": "in reassembly %", "honest": "honest datagrams %"}
    sizes = (100_000, 400_000)  # fragments

    def set_up(self) -> None:
        self._peers: list[Counted | LinuxVeth] = []
        self._made = {one: self._fragments(*one) for one in TRAFFIC}
        self._program, self._dpdk = build_dpdk(self.folder)
        if self._program is None:
            self.absent.append(Absent("DPDK rte_ip_frag", self._dpdk))
        self._scapy, self._scapy_version = find_scapy()
        if self._scapy is None:
            self.absent.append(Absent("scapy", self._scapy_version))
        self._no_kernel = available()
        if self._no_kernel:
            self.absent.append(Absent("Linux", self._no_kernel))
        self._load, self._honest_ones = under_attack(self.size // 4)

    def _fragments(self, family: int, pieces: int, flows: int, order: str, size: int) -> np.ndarray:
        count = self.size // 4 if size > 1000 else self.size
        rounds = max(1, count // (pieces * flows))
        return fragments.fragments(family, pieces, flows, rounds, order, size)

    def variants(self) -> list[Variant]:
        found: list[Variant] = []
        for one, made in self._made.items():
            found += self._honest(one, made)
        found += [self._lowpan(*one) for one in LOWPAN_TRAFFIC]
        many = self._fragments(4, MANY, 1, "in order", 64)
        for store, before in zip(STORES, ("", *STORES)):
            run = joining(many, len(many) // MANY, store)
            group = f"{MANY} in order, by store"
            found.append(Variant(group, store, run, len(many), before=before))
        for runs in ATTACKED:
            made = fragments.attack(runs, max(1, self.size // 4 // runs))
            for store, before in zip(STORES, ("", *STORES)):
                run = holding(made, store)
                found.append(Variant(f"{runs:,} runs", store, run, len(made), before=before))
        for store, before in zip(STORES, ("", *STORES)):
            run = self._receiving(store, SLOWLY, MEMORY)
            group = "host under attack"
            found.append(Variant(group, store, run, len(self._load), before=before))
        run = self._receiving("runs", AT_ONCE, 4 << 20)
        found.append(Variant("host, memory filled", "refuse", run, len(self._load)))
        run = receiving(
            self._load, self._honest_ones, "runs", AT_ONCE, 4 << 20, low=3 << 20, memory="evict"
        )
        found.append(Variant("host, memory filled", "evict", run, len(self._load), before="refuse"))
        return found

    def _receiving(self, store: str, gap_ns: int, high: int) -> Run:
        return receiving(self._load, self._honest_ones, store, gap_ns, high)

    def _honest(self, one: tuple[int, int, int, str, int], made: np.ndarray) -> list[Variant]:
        family, pieces, flows, order, size = one
        many = f", {flows:,} at a time" if flows > 1 else ""
        group = f"IPv{family}, {pieces} of {size} bytes {order}{many}"
        datagrams = len(made) // pieces
        found = [Variant(group, "ippath", joining(made, datagrams), len(made))]
        for name, peer in self._processes(one, made, group):
            self._peers.append(peer)
            found.append(Variant(group, name, peer.run, len(made), peer=True))
        if self._scapy is not None and (family, flows, order) == (4, 1, "in order"):
            few = made[: SCAPY_DATAGRAMS * pieces]
            name = f"scapy {self._scapy_version}"
            run = self._scapy_run([bytes(packet) for packet in few], len(few) // pieces)
            found.append(Variant(group, name, run, len(few), peer=True))
        return found

    def _processes(
        self, one: tuple[int, int, int, str, int], made: np.ndarray, group: str
    ) -> Iterator[tuple[str, Counted | LinuxVeth]]:
        """Peers by name; one that does not start is absent."""
        family, pieces, flows, _, _ = one
        packets = self.folder / f"{group}.packets"
        packets.write_bytes(made.tobytes())
        makers: dict[str, Callable[[], Counted | LinuxVeth]] = {}
        if self._program is not None and pieces <= DPDK_MOST_PIECES:
            program = self._program
            for copied, what in ((False, "no"), (True, "all")):
                makers[f"DPDK {self._dpdk}, {what} data copied"] = partial(
                    dpdk, program, packets, made, family, flows, pieces, copied
                )
        if not self._no_kernel:
            makers[f"Linux {kernel_version()}, veth"] = partial(
                LinuxVeth, packets, made, family, pieces
            )
        for name, make in makers.items():
            try:
                yield name, make()
            except WorkloadError as problem:
                self.absent.append(Absent(f"{name} ({group})", str(problem)))

    def _lowpan(self, pieces: int, flows: int, order: str) -> Variant:
        rounds = max(1, self.size // (pieces * flows))
        made = fragments.lowpan_fragments(pieces, flows, rounds, order)
        many = f", {flows:,} at a time" if flows > 1 else ""
        group = f"6LoWPAN, {pieces} frames of {made.shape[1]} bytes {order}{many}"
        policy = "linux" if order == "in order" else "first"  # Linux takes them in order alone
        run = joining(made, len(made) // pieces, policy=policy, link_type=LINK_IEEE802154_NOFCS)
        return Variant(group, "ippath", run, len(made))

    def _scapy_run(self, raw: list[bytes], datagrams: int) -> Run:
        def run() -> None:
            assert self._scapy is not None
            got = self._scapy(raw)
            if got != datagrams:
                raise AssertionError(f"scapy put {got} of {datagrams} datagrams together")

        return run

    def tear_down(self) -> None:
        """End the peers' processes."""
        for peer in self._peers:
            peer.close()


def joining(
    made: np.ndarray, datagrams: int, store: str = "runs", policy: str = "linux",
    link_type: int = LINK_RAW,
) -> Run:  # fmt: skip
    """A run that puts all datagrams together, and makes sure that it does."""
    batch = fragments.batch_of(made, link_type=link_type)
    parts = [batch.select(slice(at, at + STEP)) for at in range(0, len(batch), STEP)]

    def run() -> None:
        engine = Defragmenter(policy, Limits(memory=MEMORY), whole=False, store=store)
        got = sum(len(engine.push(part)) for part in parts)
        if got != datagrams:
            raise AssertionError(f"{got} of {datagrams} datagrams were put together")

    return run


def holding(made: np.ndarray, store: str) -> Run:
    """A run that takes fragments of datagrams that are never whole."""
    batch = fragments.batch_of(made)

    def run() -> None:
        engine = Defragmenter(limits=Limits(memory=MEMORY), store=store)
        engine.push(batch)
        if engine.waiting != len(made):
            raise AssertionError(f"{engine.waiting} of {len(made)} fragments are held")

    return run


def under_attack(count: int) -> tuple[np.ndarray, int]:
    """Holes in random order with honest datagrams of two fragments among them; how many of those."""
    bad = fragments.attack(4000, max(1, count // 4000))
    honest = max(1, len(bad) // HONEST_SHARE // 2)
    good = fragments.fragments(4, 2, 1, honest, payload=8)
    place = np.linspace(0, len(bad), len(good), endpoint=False).astype(np.int64)
    return np.insert(bad, place, good, axis=0), honest


def receiving(
    made: np.ndarray,
    honest: int,
    store: str,
    gap_ns: int,
    high: int,
    *,
    low: int = 0,
    memory: str = "refuse",
) -> Run:
    """A run that lets a host receive the load; says what share of the time reassembly took.

    That is the time beyond what the same host takes when it refuses all fragments.
    """
    batch = fragments.batch_of(made, gap_ns)
    batch.device = np.full(len(batch), 1, np.int32)
    host = parse_host(HOST)

    def received(limit: int) -> tuple[float, Netns]:
        netns = Netns(host, switches={"fragment_store": store, "fragment_memory": memory})
        for limit_of, value in (("low", 0), ("high", limit), ("low", min(low, limit))):
            netns.set_fragment_limit(f"net.ipv4.ipfrag_{limit_of}_thresh", value)
        begin = time.perf_counter()
        netns.receive(batch)
        return time.perf_counter() - begin, netns

    without = min(received(0)[0] for _ in range(3))

    def run() -> Mapping[str, float]:
        seconds, netns = received(high)
        whole = netns.totals().reassembly["ipv4"]["reassembled"]
        return {"share": max(0.0, 100 * (1 - without / seconds)), "honest": 100 * whole / honest}

    return run
