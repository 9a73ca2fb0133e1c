"""Reassembly as a tool: fragments of a capture in, datagrams out, by the rules of one system.

    defragmenter = Defragmenter(policy="linux")
    for batch in open_captures(paths):
        whole = defragmenter.push(batch)
    print(defragmenter.statistics())

Memory is bounded as in the kernel, time is that of the packets.  No host is needed.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ippath import tables as T
from ippath.batch import PacketBatch, concatenate
from ippath.frag import stream
from ippath.frag.arena import (
    STATISTICS, STORES, grown, new_arena, set_contexts, set_limits, statistics,
)  # fmt: skip
from ippath.frag.stream_join import OUT_COUNT, OUT_FRAMES
from ippath.handles import state_handle
from ippath.mib import COUNTERS
from ippath.reasons import REASON_NAMES, VERDICTS

POLICIES = {
    "linux": T.POLICY_LINUX,
    "linux-4.18": T.POLICY_LINUX_418,
    "linux-old": T.POLICY_LINUX_OLD,
    "first": T.POLICY_FIRST,
    "last": T.POLICY_LAST,
    "bsd": T.POLICY_BSD,
    "windows": T.POLICY_WINDOWS,
    "solaris": T.POLICY_SOLARIS,
}
OUTCOMES = (
    "passed", "atomic", "held", "joined", "duplicate", "overlap", "invalid", "refused", "failed",
    "cut", "damaged",
)  # fmt: skip
PASSING = ("passed", "atomic", "cut", "damaged")  # outcomes of packets that are left as they are
_OUT_BYTES, _OUT_ROWS, _OUT_FRAMES, _REPORTS = 4 << 20, 1 << 14, 1 << 16, 1 << 10
_MOST_OUT_BYTES = 256 << 20
_MOST_NUMBERS = 4000  # of frames in one comment


@dataclass(frozen=True)
class Limits:
    """How much is kept, and how long: bytes as the kernel charges them, and seconds; by family."""

    memory: int = 4 << 20
    seconds4: float = 30.0
    seconds6: float = 60.0


@dataclass(frozen=True)
class Overlap:
    """A fragment that has bytes in common with one that is held."""

    time_ns: int
    frame: int
    begin: int  # bytes of the datagram that it carries
    end: int
    other_frame: int
    other_begin: int
    other_end: int
    differing: int  # of the bytes in common
    compared: int  # bytes in common that the capture has of both
    source: str
    destination: str
    identification: int
    protocol: int
    outcome: str  # what became of the fragment, see OUTCOMES

    def to_dict(self) -> dict[str, Any]:
        """Plain data with stable keys."""
        return dict(vars(self))


class Defragmenter:
    """Puts datagrams together that come in fragments; IPv4 and IPv6, any link type that is read.

    `policy` is one of POLICIES.  `whole` passes packets on that are no fragments, too; without it
    only datagrams come out.  `comments` gives each datagram a comment that names its frames, in the
    order of the bytes that they carry.  `overlaps` notes each overlap (see `take_overlaps`).  `store`
    says how fragments are kept: "runs", or for comparison "tree" and "list".  `seed` is the secret of
    the hash, `contexts` the prefixes by number of 6LoWPAN (docs/6lowpan.md).  Raises ValueError for a policy, store or limit that does not exist.
    """

    def __init__(
        self,
        policy: str = "linux",
        limits: Limits | None = None,
        *,
        whole: bool = True,
        comments: bool = False,
        overlaps: bool = False,
        store: str = "runs",
        contexts: dict[int, str] | None = None,
        seed: int = 0,
    ):
        if policy not in POLICIES:
            raise ValueError(f"policy is one of {', '.join(POLICIES)}, not {policy}")
        if store not in STORES:
            raise ValueError(f"store is one of {', '.join(STORES)}, not {store}")
        self.policy, self.limits = policy, limits or Limits()
        self.whole, self.comments = whole, comments
        self._state = bare_state(seed, overlaps)
        self._state.fqdir[:, T.FQDIR_STORE] = STORES[store]
        self._state.lw[T.LW_STRICT] = int(policy.startswith("linux"))
        set_contexts(self._state.context, prefixes(contexts or {}))
        self._handle = state_handle(self._state)
        self._outcomes = np.zeros(len(OUTCOMES), np.int64)
        self._found: list[Overlap] = []
        self.set_limits(self.limits)

    def set_limits(self, limits: Limits) -> None:
        """Change the limits; datagrams that are begun keep their deadline."""
        if limits.memory < 0 or limits.seconds4 < 0 or limits.seconds6 < 0:
            raise ValueError(f"limits are not negative: {limits}")
        self.limits = limits
        for directory, seconds in (
            (T.FQDIR_IPV4, limits.seconds4),
            (T.FQDIR_IPV6, limits.seconds6),
            (T.FQDIR_LOWPAN, limits.seconds6),
        ):
            set_limits(
                self._state.fqdir, directory, high=limits.memory, timeout_ns=int(seconds * 1e9)
            )
            self._state.fqdir[directory, T.FQDIR_POLICY] = POLICIES[self.policy]

    def push(self, batch: PacketBatch, now: int | None = None) -> PacketBatch:
        """Take packets in, in order; returns the datagrams that became whole, among what passed.

        A datagram has time, interface and frame number of the fragment that made it whole.  `now` (ns) lets the clock go on behind the last packet.
        """
        outcome = np.zeros(len(batch), np.int64)
        frames = batch.frame_numbers
        self._make_room(batch)
        parts = []
        done = 0
        while True:
            done = self._burst(batch, frames, outcome, done)
            part = self._take(batch, frames)
            if len(part):
                parts.append(part)
            if done >= len(batch):
                break
        self._outcomes += np.bincount(outcome, minlength=len(OUTCOMES))
        if now is not None:
            self.advance(now)
        if not parts:
            return self._take(batch, frames)
        if len(parts) == 1:
            return parts[0]
        numbers = np.concatenate([part.frame_numbers for part in parts])
        joined = concatenate(parts)
        joined.frames = numbers
        return joined

    def advance(self, now: int) -> None:
        """Let the clock reach `now` (ns): what waits longer than it may is let go."""
        if now > self._state.misc[T.MISC_NOW_NS]:
            self._state.misc[T.MISC_NOW_NS] = now
            nothing = PacketBatch.from_packets([])
            self._burst(nothing, nothing.frame_numbers, np.zeros(0, np.int64), 0)

    def _burst(
        self, batch: PacketBatch, frames: np.ndarray, outcome: np.ndarray, begin: int
    ) -> int:
        done = stream.defragment_burst(
            self._handle.value, batch.data, batch.offset, batch.length, batch.wire_length,
            batch.time_ns, batch.link_type, batch.device, frames, outcome, self.whole,
            begin, len(batch),
        )  # fmt: skip
        if self._state.frag_misc[T.FM_SHORT]:
            self._renew(**grown(self._state))
        self._note_overlaps()
        return int(done)

    def _take(self, batch: PacketBatch, frames: np.ndarray) -> PacketBatch:
        """What the output holds, as a batch of its own; empties it."""
        state, misc = self._state, self._state.misc
        count, size = int(misc[T.MISC_OUT_ROWS]), int(misc[T.MISC_OUT_BYTES])
        mine = state.out[:count]
        cause = mine[:, T.OUT_CAUSE]
        numbers = frames[cause]
        comments = {k: v for k, v in batch.comments.items() if self.whole}
        for row in mine[mine[:, OUT_COUNT] > 0] if self.comments else ():
            begin = row[OUT_FRAMES]
            made_of = state.joined[begin : begin + row[OUT_COUNT]]
            comments[int(frames[row[T.OUT_CAUSE]])] = f"reassembled from {in_words(made_of)}"
        data = state.out_data[:size]
        if 4 * size < len(state.out_data):
            data = data.copy()
        else:  # given away: the next burst gets another
            self._renew(out_data=np.empty(_OUT_BYTES, np.uint8))
        taken = PacketBatch(
            data=data,
            offset=mine[:, T.OUT_OFFSET].copy(),
            length=mine[:, T.OUT_LENGTH],
            wire_length=mine[:, T.OUT_WIRE],
            time_ns=batch.time_ns[cause],
            link_type=batch.link_type[cause],
            device=batch.device[cause],
            direction=batch.direction[cause],
            mark=batch.mark[cause],
            first_frame=int(numbers[0]) if count else batch.first_frame,
            interfaces=batch.interfaces,
            comments=comments,
            frames=numbers,
        )
        misc[T.MISC_OUT_ROWS] = misc[T.MISC_OUT_BYTES] = state.frag_misc[T.FM_JOINED] = 0
        return taken

    def _make_room(self, batch: PacketBatch) -> None:
        """Let all that can come out fit into the output at once, up to a limit."""
        state, packets = self._state, len(batch)
        held = int(state.fqdir[:, T.FQDIR_MEM].sum())  # more than the bytes that are held
        most = int(batch.length.sum()) + held + 2 * T.DATAGRAM_BYTES
        larger: dict[str, np.ndarray] = {}
        if len(state.out_data) < (size := min(most, _MOST_OUT_BYTES)):
            larger["out_data"] = np.empty(size, np.uint8)
        if len(state.out) <= packets:
            larger["out"] = np.zeros((packets + 1, T.OUT_COLUMNS), np.int64)
        fragments = packets + self.waiting + T.MOST_FRAGMENTS if packets >= _OUT_ROWS else 0
        if len(state.joined) < fragments:
            larger["joined"] = np.zeros(fragments, np.int64)
        if larger:
            self._renew(**larger)

    def _renew(self, **arrays: np.ndarray) -> None:
        self._state = self._state._replace(**arrays)
        self._handle.renew(self._state, arrays)

    # --- what was found --------------------------------------------------------------------------------

    def statistics(self) -> dict[str, Any]:
        """Packets by outcome so far; see docs/reassembly.md for the keys."""
        four = statistics(self._state.fqdir[T.FQDIR_IPV4])
        six = statistics(self._state.fqdir[T.FQDIR_IPV6])
        low = statistics(self._state.fqdir[T.FQDIR_LOWPAN])
        both = {name: four[name] + six[name] + low[name] for name in STATISTICS}
        both["memory_peak"] = max(kind["memory_peak"] for kind in (four, six, low))
        del both["too_far"]  # which is a host's limit
        return {
            "packets": int(self._outcomes.sum()),
            **{name: int(self._outcomes[OUTCOMES.index(name)]) for name in PASSING},
            **both,
            "waiting": self.waiting,
            "memory_limit": self.limits.memory,
            "ipv4": {name: four[name] for name in both},
            "ipv6": {name: six[name] for name in both},
            "6lowpan": {name: low[name] for name in both},
        }

    @property
    def waiting(self) -> int:
        """Fragments that wait for others now."""
        live = self._state.fq[:, T.FQ_DIR] != T.NONE
        return int(self._state.fq[live, T.FQ_FRAGMENTS].sum())

    def take_overlaps(self) -> list[Overlap]:
        """Overlaps found since the last call, in order; empty unless asked for."""
        found, self._found = self._found, []
        return found

    def _note_overlaps(self) -> None:
        misc = self._state.frag_misc
        for row in self._state.overlaps[: misc[T.FM_OVERLAPS]]:
            self._found.append(_overlap([int(value) for value in row]))
        misc[T.FM_OVERLAPS] = 0


def prefixes(contexts: dict[int, str]) -> dict[int, tuple[int, int]]:
    """Contexts of 6LoWPAN from text; raises ValueError for a number or prefix that is none."""
    found = {}
    for number, text in contexts.items():
        if not 0 <= number < T.CONTEXTS:
            raise ValueError(f"contexts have numbers from 0 to {T.CONTEXTS - 1}, not {number}")
        network = ipaddress.IPv6Network(text)
        found[number] = (int(network.network_address), network.prefixlen)
    return found


def bare_state(seed: int, overlaps: bool) -> T.State:
    """A state in which only reassembly and its output have room."""

    def none(columns: int = 0) -> np.ndarray:
        return np.zeros((1, columns) if columns else 1, np.int64)

    arena = new_arena(seed)
    arena["joined"] = np.zeros(_OUT_FRAMES, np.int64)
    arena["overlaps"] = np.zeros((_REPORTS if overlaps else 0, T.OVERLAP_COLUMNS), np.int64)
    return T.State(
        counters=np.zeros(len(COUNTERS), np.int64),
        verdicts=np.zeros(len(VERDICTS), np.int64),
        reasons=np.zeros(len(REASON_NAMES), np.int64),
        devstat=none(T.DEVSTAT_COLUMNS),
        sockq=none(T.SOCKQ_COLUMNS),
        rxdst=none(T.SKB_COLUMNS),
        peer=none(T.PEER_COLUMNS),
        exception=none(T.EXC_COLUMNS),
        exc_bucket=none(),
        exc_misc=np.zeros(T.EM_COLUMNS, np.int64),
        bucket_used=none(),
        misc=np.zeros(T.MISC_COLUMNS, np.int64),
        **arena,
        skb=np.zeros(T.SKB_COLUMNS, np.int64),
        ahead=np.full(T.AHEAD_ROWS, T.NONE, np.int64),
        hint=np.zeros(T.SKB_COLUMNS, np.int64),
        flow=none(T.FLOW_COLUMNS),
        result=none(T.RES_COLUMNS),
        opt=np.zeros(T.OPT_COLUMNS, np.int64),
        scratch=np.zeros(1, np.uint8),
        out=np.zeros((_OUT_ROWS, T.OUT_COLUMNS), np.int64),
        out_data=np.empty(_OUT_BYTES, np.uint8),
        taken=none(T.TAKEN_COLUMNS),
        taken_data=np.zeros(1, np.uint8),
        loop=none(T.LOOP_COLUMNS),
        loop_data=np.zeros(1, np.uint8),
        plan=none(),
        header=np.zeros(1, np.uint8),
    )


def _overlap(row: list[int]) -> Overlap:
    six = row[T.OVERLAP_FAMILY] == 6

    def address(hi: int, lo: int) -> str:
        if not six:
            return str(ipaddress.IPv4Address(row[lo] & 0xFFFFFFFF))
        whole = (row[hi] & (1 << 64) - 1) << 64 | row[lo] & (1 << 64) - 1
        return str(ipaddress.IPv6Address(whole))

    return Overlap(
        time_ns=row[T.OVERLAP_TIME],
        frame=row[T.OVERLAP_FRAME],
        begin=row[T.OVERLAP_BEGIN],
        end=row[T.OVERLAP_END],
        other_frame=row[T.OVERLAP_OTHER],
        other_begin=row[T.OVERLAP_OTHER_BEGIN],
        other_end=row[T.OVERLAP_OTHER_END],
        differing=row[T.OVERLAP_DIFFER],
        compared=row[T.OVERLAP_COMPARED],
        source=address(T.OVERLAP_SRC_HI, T.OVERLAP_SRC_LO),
        destination=address(T.OVERLAP_DST_HI, T.OVERLAP_DST_LO),
        identification=row[T.OVERLAP_ID],
        protocol=row[T.OVERLAP_PROTOCOL],
        outcome=OUTCOMES[row[T.OVERLAP_OUTCOME]],
    )


def in_words(frames: np.ndarray) -> str:
    """`frames 3, 5-8` in order of the bytes that they carry; each once, runs of frames in short."""
    parts: list[str] = []
    seen: set[int] = set()
    begin = last = -1
    for frame in [*frames[:_MOST_NUMBERS].tolist(), -1]:
        if frame in seen:
            continue
        seen.add(frame)
        if begin >= 0 and frame == last + 1:
            last = frame
            continue
        if begin >= 0:
            parts.append(
                f"{begin}-{last}"
                if last > begin + 1
                else ", ".join(str(k) for k in range(begin, last + 1))
            )
        begin = last = frame
    more = f" and {len(frames) - _MOST_NUMBERS} more" if len(frames) > _MOST_NUMBERS else ""
    return f"frame{'s' if len(seen) > 2 else ''} {', '.join(parts)}{more}"
