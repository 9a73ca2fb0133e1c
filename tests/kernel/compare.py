"""Runs a recorded scenario through ippath and says in words where it differs from the kernel."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ippath.batch import LINK_ETHERNET, LINK_RAW, PacketBatch
from tests.kernel.normal import normalise, words
from tests.kernel.scenarios import Burst, Inject, Run, Scenario, Together, Wait

START_NS = 1_700_000_000 * 10**9
MILLISECOND = 10**6
LIMITS = ("net.ipv4.ipfrag_", "net.ipv6.ip6frag_")
LATE = ("FRAG_TOO_FAR", "FRAG_REASM_TIMEOUT")  # reasons why fragments that are held are dropped
# as the recorder makes a namespace: no link-local addresses come by themselves
PREPARED = """
net.ipv6.conf.all.addr_gen_mode = 1
net.ipv6.conf.default.addr_gen_mode = 1
"""


class Replay:
    """A scenario's host in ippath, fed step by step as the recorder feeds the kernel."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.text = PREPARED.lstrip() + scenario.host
        self.time_ns = START_NS
        self.received: list[bytes] = []
        self.skipped: list[str] = []  # packets that ippath says it cannot judge
        self._build()

    def _build(self) -> None:
        from ippath.config.host_file import parse_host
        from ippath.netns import Netns

        self.netns = Netns(parse_host(self.text), seed=1)
        self.counters: dict[str, int] = {}
        self.dropped: dict[str, int] = {}
        self.sockets = [0] * len(self.netns.host.listeners)

    def differences(self, recorded: list[dict[str, Any]]) -> list[str]:
        """One line per difference between the recorded steps and what ippath does."""
        answers = iter(recorded)
        found: list[str] = []
        for step in self.scenario.steps:
            if isinstance(step, Run):
                self._run(step.lines)
            elif isinstance(step, Wait):
                self.time_ns += int(step.seconds * 10**9)
                self.netns.advance(self.time_ns, collect_output=True)
                found += self._compare(next(answers), "", {}, 0)
            elif isinstance(step, Inject):
                for label, packet in step.packets.items():
                    self.time_ns += MILLISECOND
                    found += self._compare(next(answers), step.device, {label: packet}, 0)
            elif isinstance(step, Burst | Together):
                self.time_ns += MILLISECOND
                gap = 100_000 if isinstance(step, Burst) else 1_000
                found += self._compare(next(answers), step.device, step.packets, gap)
        return found

    def _run(self, lines: tuple[str, ...]) -> None:
        """Limits of reassembly change in the running host; anything else makes a new one."""
        self.text += "\n".join(lines) + "\n"
        if not all(line.startswith(LIMITS) for line in lines):
            self._build()
            return
        for line in lines:
            name, value = (part.strip() for part in line.split("="))
            self.netns.set_fragment_limit(name, int(value))

    def _compare(
        self, answer: dict[str, Any], device: str, packets: dict[str, bytes], gap: int
    ) -> list[str]:
        label = next(
            f"{kind} {answer[kind]!r}"
            for kind in ("packet", "burst", "list", "wait")
            if kind in answer
        )
        sent = [p.hex() for p in packets.values()]
        if answer["in"] != {device: sent}:
            return [f"{label}: the scenario changed after it was recorded; record it again"]
        reasons: list[str] = []
        unsupported = False
        if packets:
            names = [d.name for d in self.netns.host.devices]
            ethernet = f"link add {device} " in self.text and self._kind(device) != "tun"
            batch = PacketBatch.from_packets(
                list(packets.values()),
                link_type=LINK_ETHERNET if ethernet else LINK_RAW,
                device=names.index(device),
                time_ns=self.time_ns,
                interval_ns=gap,
            )
            verdicts = self.netns.receive(batch, collect_output=True)
            self.time_ns += gap * len(packets)
            self.received += packets.values()
            reasons = verdicts.reason_names
            unsupported = "unsupported" in verdicts.verdict_names
        outputs: dict[str, list[bytes]] = {}
        for name, packet, _ in self.netns.take_output():
            normal = normalise(packet, self.received, self.scenario.ignore)
            outputs.setdefault(name, []).append(normal)
        now = self.netns.counters()
        delta = {k: v - self.counters.get(k, 0) for k, v in now.items()}
        self.counters = now
        counted = [count["received"] for count in self.netns.socket_counts()]
        delivered = {k: a - b for k, (a, b) in enumerate(zip(counted, self.sockets)) if a != b}
        self.sockets = counted
        late = self._late_drops(reasons)
        if unsupported:
            self.skipped.append(f"{label}: {reasons}")
            return []
        if not packets:  # timers that run out in one tick of the kernel's run in no certain order
            answer = answer | {"out": {name: sorted(sent) for name, sent in answer["out"].items()}}
            outputs = {name: sorted(sent) for name, sent in outputs.items()}
        found = _outputs(answer["out"], outputs)
        found += _reasons(answer, reasons, late)
        kernel_delivered = dict(Counter(got[0] for got in answer["sockets"]))
        if delivered != kernel_delivered:
            found.append(f"datagrams by socket: kernel {kernel_delivered}, ippath {delivered}")
        found += _counters(answer["counters"], {k: v for k, v in delta.items() if v})
        if found:
            asked = [f"    in     {words(p)}" for p in list(packets.values())[:8]]
            return [label, *asked, *(f"    {line}" for line in found)]
        return []

    def _late_drops(self, reasons: list[str]) -> Counter[str]:
        """What was dropped in this step of fragments that had been held."""
        now = self.netns.totals().reasons
        late = Counter({name: now.get(name, 0) - self.dropped.get(name, 0) for name in LATE})
        late.subtract(name for name in reasons if name in LATE)
        self.dropped = now
        return +late

    def _kind(self, device: str) -> str:
        line = next(t for t in self.text.splitlines() if f"link add {device} " in t)
        return line.split()[-1]


def _outputs(kernel: dict[str, list[str]], ours: dict[str, list[bytes]]) -> list[str]:
    found = []
    for device in sorted(kernel.keys() | ours.keys()):
        theirs = [bytes.fromhex(text) for text in kernel.get(device, [])]
        mine = ours.get(device, [])
        for k in range(max(len(theirs), len(mine))):
            expected = theirs[k] if k < len(theirs) else None
            got = mine[k] if k < len(mine) else None
            if expected == got:
                continue
            found.append(f"{device} packet {k}:")
            found.append(f"  kernel {words(expected) if expected is not None else 'nothing'}")
            found.append(f"  ippath {words(got) if got is not None else 'nothing'}")
            if expected is not None and got is not None and words(expected) == words(got):
                at = next(
                    (i for i, (a, b) in enumerate(zip(expected, got)) if a != b),
                    min(len(expected), len(got)),
                )
                found.append(f"  from byte {at}: {expected[at:].hex()} and {got[at:].hex()}")
    return found


def _reasons(answer: dict[str, Any], ours: list[str], late: Counter[str]) -> list[str]:
    """A single packet has one of the recorded reasons; in bursts and lists the counts are equal.

    The kernel may drop other packets on the way (a looped-back copy, a queued packet), and one
    copy of a packet whose other copies arrive.
    """
    kernel = [drop[0] for drop in answer["drops"] if drop[0] not in LATE]
    kernel_late = Counter(drop[0] for drop in answer["drops"] if drop[0] in LATE)
    if kernel_late != late:
        return [f"dropped of what was held: kernel {dict(kernel_late)}, ippath {dict(late)}"]
    if "packet" in answer:
        allowed = set(kernel)
        # pieces of a datagram that was used up are freed as if dropped
        joined = any(f"{family}ReasmOKs" in answer["counters"] for family in ("Ip", "Ip6"))
        if joined and set(kernel) == {"NOT_SPECIFIED"}:
            allowed.add("NONE")
        if not kernel or answer["sockets"] or "NEIGH_QUEUEFULL" in kernel:
            allowed.add("NONE")
        if ours and ours[0] not in allowed:
            return [f"drop reason: kernel {kernel or 'none'}, ippath {ours[0]}"]
        return []
    theirs, mine = Counter(kernel), Counter(r for r in ours if r != "NONE")
    return [] if theirs == mine else [f"drop reasons: kernel {dict(theirs)}, ippath {dict(mine)}"]


def _counters(kernel: dict[str, int], ours: dict[str, int]) -> list[str]:
    return [
        f"{name}: kernel {kernel.get(name, 0)}, ippath {ours.get(name, 0)}"
        for name in sorted(kernel.keys() | ours.keys())
        if kernel.get(name, 0) != ours.get(name, 0)
    ]
