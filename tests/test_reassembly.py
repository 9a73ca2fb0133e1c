"""Reassembly beyond what the kernel was asked: a model, memory, batches, captures that were cut."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ippath import tables as T
from ippath.batch import PacketBatch
from ippath.config.host_file import parse_host
from ippath.netns import Netns
from ippath.verify.packets import address, data, echo, fragment_header, ip4, ip6, udp
from tests.kernel.scenarios import router

HERE4, HERE6 = ("10.0.0.2", "10.0.0.1"), ("2001:db8::2", "2001:db8::1")
SECOND = 10**9
HOST = router("listen udp 0.0.0.0:2000", "listen udp [::]:2000")


def host(*lines: str) -> Netns:
    """The router of the scenarios, with more lines."""
    return Netns(parse_host(HOST + "\n" + "\n".join(lines)), seed=1)


def fragment(
    family: int, offset: int, length: int, more: bool, *, ident: int = 1, size: int = 4000
) -> bytes:
    """Bytes [offset, offset + length) of a UDP datagram of `size` bytes to port 2000."""
    pair = HERE4 if family == 4 else HERE6
    whole = udp(payload=data(size - 8)).build(address(pair[0]), address(pair[1])) + bytes(70_000)
    body = whole[offset : offset + length]
    if family == 4:
        return ip4(*pair, body, offset=offset // 8, mf=more, ident=ident)
    return ip6(
        *pair, body, last_header=17, extensions=(fragment_header(offset // 8, more, ident),)
    )  # fmt: skip


def receive(netns: Netns, packets: list[bytes], **fields: int) -> list[str]:
    """Verdicts of packets that come in on r0."""
    return netns.receive(PacketBatch.from_packets(packets, device=1, **fields)).verdict_names


def used(netns: Netns) -> tuple[int, int, int]:
    """Rows of queues and fragments and blocks that are in use."""
    misc = netns.state.frag_misc
    return misc[T.FM_QUEUE_USED], misc[T.FM_FRAG_USED], misc[T.FM_BLOCK_USED]


def memory(netns: Netns) -> int:
    """Bytes charged for both families."""
    return int(netns.state.fqdir[:, T.FQDIR_MEM].sum())


# --- against a model ----------------------------------------------------------------------------------


@dataclass
class Model:
    """The rules for one datagram, by sets of bytes and without any structure (6.18, IPv4)."""

    runs: list[list[int]] = field(default_factory=list)  # [begin, end), in order of begin
    tail: list[int] | None = None
    length: int = 0
    last: bool = False
    meat: int = 0

    def take(self, offset: int, length: int, more: bool) -> str:
        """What becomes of the fragment: held, dropped, or delivered with the whole datagram."""
        end = offset + length
        if more:
            end &= ~7
            if end > self.length and self.last:
                return self._give_up()
            self.length = max(self.length, end)
        else:
            if end < self.length or (self.last and end != self.length):
                return self._give_up()
            self.last, self.length = True, end
        if end == offset:
            return self._give_up()
        fate = self._insert(offset, end)
        if fate:
            return fate
        self.meat += end - offset
        if self.last and self.meat == self.length and self.runs[0][0] == 0:
            self.__init__()  # type: ignore[misc]
            return "delivered"
        return "held"

    def _insert(self, offset: int, end: int) -> str:
        if self.tail is not None and offset == self.tail[1]:
            self.tail[1] = end
            return ""
        if self.tail is None or self.tail[1] < end:
            if self.tail is not None and offset < self.tail[1]:
                return self._give_up()
            self.tail = [offset, end]
            self.runs = sorted([*self.runs, self.tail])
            return ""
        for begin, stop in self.runs:
            if begin <= offset and end <= stop:
                return "dropped"
            if offset < stop and begin < end:
                return self._give_up()
        self.runs = sorted([*self.runs, [offset, end]], key=lambda run: run[0])
        return ""

    def _give_up(self) -> str:
        self.__init__()  # type: ignore[misc]
        return "dropped"


PIECES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 40), st.booleans()).filter(
        lambda piece: piece[0] or piece[2]  # else it is no fragment
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(PIECES)
def test_one_datagram_by_the_rules(pieces: list[tuple[int, int, bool]]) -> None:
    netns, model = NETNS, Model()
    fates = [model.take(8 * unit, length, more) for unit, length, more in pieces]
    packets = [fragment(4, 8 * unit, length, more) for unit, length, more in pieces]
    found = receive(netns, packets)
    # a datagram may be whole and yet no good one for UDP
    found = [
        "delivered" if f == "dropped" and w == "delivered" else f for f, w in zip(found, fates)
    ]
    netns.advance(int(netns.state.misc[T.MISC_NOW_NS]) + 31 * SECOND)
    assert found == fates
    assert used(netns) == (0, 0, 0) and memory(netns) == 0
    netns.close_accounts()


NETNS = host()


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("order", ["in order", "reversed", "shuffled"])
def test_many_datagrams_in_every_order(family: int, order: str) -> None:
    netns = host("net.ipv4.ipfrag_max_dist = 0")
    packets = [
        fragment(family, 8 * k, 8, k < 49, ident=ident, size=400)
        for ident in range(30)
        for k in range(50)
    ]
    if order == "reversed":
        packets.reverse()
    elif order == "shuffled":
        random.Random(7).shuffle(packets)
    verdicts = receive(netns, packets)
    assert verdicts.count("delivered") == 30 and verdicts.count("held") == 30 * 49
    assert sum(s["received"] for s in netns.socket_counts()) == 30
    assert used(netns) == (0, 0, 0) and memory(netns) == 0
    totals = netns.totals()
    assert totals.verdicts["held"] == 0 and totals.verdicts["consumed"] == 30 * 49


def test_batches_may_end_anywhere() -> None:
    packets = [
        fragment(4, offset, 1000, offset < 3000, ident=ident)
        for offset in (1000, 3000, 0, 2000)
        for ident in range(20)
    ]
    whole, parts = host(), host()
    together = receive(whole, packets)
    one_by_one = [receive(parts, [packet])[0] for packet in packets]
    assert together == one_by_one and whole.totals().counters == parts.totals().counters


# --- memory -------------------------------------------------------------------------------------------


def test_arrays_grow_with_what_is_held_and_not_with_the_limit() -> None:
    netns = host("net.ipv4.ipfrag_high_thresh = 8589934592", "net.ipv4.ipfrag_max_dist = 0")
    assert netns.state.frag_data.nbytes < 1 << 22
    count = 3 * len(netns.state.fq)
    assert count < 65536
    first = [fragment(4, 0, 1000, True, ident=k) for k in range(count)]
    assert set(receive(netns, first)) == {"held"}
    assert netns.state.frag_misc[T.FM_QUEUE_USED] == count
    assert len(netns.state.fq) >= count and len(netns.state.frag) >= count
    rest = [fragment(4, 1000, 3000, False, ident=k) for k in range(count)]
    assert set(receive(netns, rest)) == {"delivered"}  # the bytes are where they were: checksums
    assert used(netns) == (0, 0, 0)


@pytest.mark.parametrize("limit", [20_000, 1 << 20])
def test_a_flood_stays_within_the_limit(limit: int) -> None:
    netns = host(
        "net.ipv4.ipfrag_low_thresh = 0", f"net.ipv4.ipfrag_high_thresh = {limit}",
        "net.ipv4.ipfrag_max_dist = 0",
    )  # fmt: skip
    flood = [fragment(4, 8 * (k % 900), 8, True, ident=k // 3) for k in range(3000)]
    receive(netns, flood, interval_ns=SECOND // 100)
    largest = 832 + 200
    assert limit - largest <= netns.state.fqdir[T.FQDIR_IPV4, T.FQDIR_PEAK] <= limit + largest
    netns.close_accounts()


def test_bytes_kept_are_never_more_than_bytes_charged() -> None:
    netns = host("net.ipv4.ipfrag_max_dist = 0")
    sizes = [8, 64, 440, 448, 504, 512, 520, 1000, 1024, 1480, 4096, 8000, 60_000]
    for k, size in enumerate(sizes):
        before = memory(netns), netns.state.frag_misc[T.FM_BLOCK_USED]
        receive(netns, [fragment(4, 0, size, True, ident=k, size=61_000)])
        charged = memory(netns) - before[0]
        kept = (netns.state.frag_misc[T.FM_BLOCK_USED] - before[1]) * T.FRAG_BLOCK_BYTES
        assert size + 20 <= kept <= charged, size


def test_limits_change_while_fragments_wait() -> None:
    netns = host()
    receive(netns, [fragment(4, 0, 1000, True)], time_ns=SECOND)
    with pytest.raises(ValueError, match="low is 3145728 then, high is 0"):
        netns.set_fragment_limit("net.ipv4.ipfrag_high_thresh", 0)
    netns.set_fragment_limit("net.ipv4.ipfrag_low_thresh", 0)
    netns.set_fragment_limit("net.ipv4.ipfrag_high_thresh", 0)
    assert receive(netns, [fragment(4, 1000, 3000, False)], time_ns=SECOND) == ["dropped"]
    netns.set_fragment_limit("net.ipv4.ipfrag_high_thresh", 3 << 30)
    assert receive(netns, [fragment(4, 1000, 3000, False)], time_ns=SECOND) == ["delivered"]
    with pytest.raises(KeyError):
        netns.set_fragment_limit("net.ipv4.ip_forward", 1)


# --- time ---------------------------------------------------------------------------------------------


def test_queues_expire_in_order_of_their_deadlines_however_long_the_silence() -> None:
    netns = host("net.ipv4.ipfrag_time = 1000", "net.ipv4.icmp_ratelimit = 0")
    for k in range(20):
        packet = ip4(f"10.0.0.{2 + k}", HERE4[1], data(80), mf=True, ident=k)
        netns.receive(PacketBatch.from_packets([packet], device=1, time_ns=k * 40 * SECOND))
    netns.advance(10_000 * SECOND, collect_output=True)
    sent = netns.take_output()
    assert [one.time_ns for one in sent] == [(1000 + 40 * k) * SECOND for k in range(20)]
    assert [one.packet[19] for one in sent] == [2 + k for k in range(20)]
    assert netns.totals().reasons == {"FRAG_REASM_TIMEOUT": 20}
    netns.advance(0)  # a clock never goes back


def test_the_next_packet_finds_the_queue_expired() -> None:
    netns = host()
    receive(netns, [fragment(4, 0, 1000, True)], time_ns=SECOND)
    assert receive(netns, [fragment(4, 1000, 3000, False)], time_ns=31 * SECOND) == ["held"]
    assert netns.counters()["IpReasmTimeout"] == 1
    receive(netns, [fragment(4, 0, 1000, True)], time_ns=61 * SECOND - 1)
    assert sum(s["received"] for s in netns.socket_counts()) == 1


# --- captures that were cut ---------------------------------------------------------------------------


def cut(packets: list[bytes], keep: int) -> PacketBatch:
    """Packets of which the capture kept the first `keep` bytes."""
    return PacketBatch.from_packets(
        [p[:keep] for p in packets], wire_length=[len(p) for p in packets], device=1
    )


def test_a_datagram_of_cut_fragments_is_delivered_unchecked() -> None:
    netns = host()
    packets = [fragment(4, 0, 2000, True), fragment(4, 2000, 2000, False)]
    verdicts = netns.receive(cut(packets, 100))
    assert verdicts.verdict_names == ["held", "delivered"]
    assert list(verdicts.unchecked) == [False, True]


def test_what_a_cut_fragment_lacks_is_lacking_in_the_datagram() -> None:
    """An echo in fragments of which the first is whole: the reply ends where the capture did."""
    netns = host()
    whole = echo(body=data(1000)).build(b"", b"")
    first = ip4(*HERE4, whole[:504], proto=1, mf=True)
    last = ip4(*HERE4, whole[504:], proto=1, offset=63)
    netns.receive(cut([first, last], 524), collect_output=True)
    verdict = netns.receive(cut([first, last], 120), collect_output=True)
    assert verdict.verdict_names == ["held", "delivered"]
    replies = [sent.packet for sent in netns.take_output()]
    assert len(replies) == 2 and replies[0][28:] == whole[8:]
    assert len(replies[1]) == len(replies[0]) and not any(replies[1][120:])


# --- in words -----------------------------------------------------------------------------------------


def test_explain_tells_what_became_of_fragments() -> None:
    netns = host()
    batch = PacketBatch.from_packets(
        [
            fragment(4, 0, 1000, True), fragment(4, 0, 1000, True), fragment(4, 3000, 1000, False),
            fragment(4, 1000, 2000, True), fragment(6, 0, 16, True), fragment(6, 8, 16, True),
        ],
        device=1,
    )  # fmt: skip
    told = [netns.explain(batch, k).text() for k in range(len(batch))]
    assert "bytes 0 to 1000 of a datagram, more follow" in told[0]
    assert "1000 bytes of a number not known yet are there" in told[0] and "30000 ms" in told[0]
    assert "dropped: DUP_FRAG" in told[1] and "a duplicate" in told[1]
    assert "2000 bytes of 4000 are there" in told[2]
    assert "4 fragments make a datagram" not in told[3]
    assert "3 fragments make a datagram of 4020 bytes" in told[3] and "\ndelivered" in told[3]
    assert "it overlaps with another: the whole datagram is discarded" in told[5]
    assert "IpReasmOKs +1" in told[3] and "ip6_frag_queue" in told[5]


def test_the_key_is_hashed_with_the_seed() -> None:
    from ippath.frag.hash import key_hash
    from ippath.jit import plain

    def bucket(seed: int, ident: int) -> int:
        misc = Netns(parse_host(HOST), seed=seed).state.frag_misc
        misc[T.FM_ID] = ident << 8
        return int(plain(key_hash)(misc, False)) & 1023

    keys = [[bucket(seed, ident) for ident in range(200)] for seed in (1, 2)]
    assert keys[0] != keys[1]
    for own in keys:
        assert np.bincount(own, minlength=1024).max() <= 5


# --- as it was ------------------------------------------------------------------------------------


def test_the_datagrams_that_waited_longest_are_let_go_down_to_the_low_threshold() -> None:
    """Up to Linux 3.16 (switch fragment_memory): a fragment of 8 bytes costs 832, a datagram 200."""
    limits = ("net.ipv4.ipfrag_low_thresh = 1900", "net.ipv4.ipfrag_high_thresh = 3900")
    netns = host("switch fragment_memory evict", *limits)
    first = [fragment(4, 0, 8, True, ident=k) for k in range(1, 5)]
    touched = fragment(4, 16, 8, True, ident=1)  # the oldest is the second now
    assert receive(netns, [*first[:3], touched, first[3]]) == ["held"] * 5
    assert netns.counters()["IpReasmFails"] == 2
    assert netns.totals().reasons["NOT_SPECIFIED"] == 2
    assert memory(netns) == 2 * 832 + 200 + 1032 and used(netns)[0] == 2
    rest = fragment(4, 24, 3976, False, ident=1)
    assert receive(netns, [fragment(4, 8, 8, True, ident=1), rest])[-1] == "delivered"


@settings(max_examples=30, deadline=None)
@given(
    idents=st.lists(st.integers(1, 40), min_size=1, max_size=120), family=st.sampled_from((4, 6))
)
def test_eviction_keeps_those_that_were_touched_last(idents: list[int], family: int) -> None:
    name = "net.ipv4.ipfrag" if family == 4 else "net.ipv6.ip6frag"
    netns = host("switch fragment_memory evict", f"{name}_low_thresh = 9000",
                 f"{name}_high_thresh = 12000")  # fmt: skip
    offsets = {ident: 0 for ident in idents}
    for ident in idents:
        packet = fragment(family, offsets[ident], 8, True, ident=ident)
        offsets[ident] += 16
        assert receive(netns, [packet]) == ["held"]
        assert memory(netns) <= 12000 + 1100
    key = T.FQ_ID
    live = netns.state.fq[netns.state.fq[:, T.FQ_DIR] != T.NONE]
    found = {int(row[key]) >> 8 if family == 4 else int(row[key]) for row in live}
    latest = list(dict.fromkeys(reversed(idents)))
    assert found == set(latest[: len(found)])


def test_over_the_limit_a_late_honest_datagram_passes_only_where_old_ones_are_let_go() -> None:
    limits = ("net.ipv4.ipfrag_low_thresh = 3000", "net.ipv4.ipfrag_high_thresh = 4000")
    flood = [fragment(4, 0, 8, True, ident=k) for k in range(100, 120)]
    honest = [fragment(4, 0, 400, True, size=800), fragment(4, 400, 400, False, size=800)]
    for memory_, verdict in (("evict", "delivered"), ("refuse", "dropped")):
        netns = host(f"switch fragment_memory {memory_}", *limits)
        assert receive(netns, flood + honest)[-1] == verdict


@pytest.mark.parametrize("tracked", ["off", "on"])
@pytest.mark.parametrize(
    "length, more, verdict",
    [(1224, True, "dropped"), (1232, True, "held"), (8, False, "held")],
    ids=["1272 bytes, more follow", "1280 bytes, more follow", "56 bytes, the last"],
)
def test_small_ipv6_fragments_were_refused_for_a_while(
    tracked: str, length: int, more: bool, verdict: str
) -> None:
    """Linux 4.19 and 5.0 (switch fragment_minimum6)."""
    netns = host("switch fragment_minimum6 on", f"switch conntrack_defrag {tracked}")
    packet = fragment(6, 0 if more else 3992, length, more)
    verdicts, out = sent(netns, [packet])
    assert verdicts == [verdict]
    answered = verdict == "dropped" and tracked == "off"
    assert [one[40:42] for one in out] == [b"\x04\x00"] * answered
    assert not answered or out[0][44:48] == (40).to_bytes(4, "big")
    assert receive(host(), [packet]) == ["held"]


# --- before routing -----------------------------------------------------------------------------------

TRACKED = ("switch conntrack_defrag on",)
AWAY = {4: ("10.0.0.2", "10.1.0.2"), 6: ("2001:db8::2", "2001:db8:1::2")}


def sent(netns: Netns, packets: list[bytes]) -> tuple[list[str], list[bytes]]:
    """Verdicts of packets that come in on r0, and what left."""
    batch = PacketBatch.from_packets(packets, device=1)
    verdicts = netns.receive(batch, collect_output=True).verdict_names
    return verdicts, [packet.packet for packet in netns.take_output()]


def body(packet: bytes) -> tuple[int, bool, bytes]:
    """Offset, whether more follow, and data of a fragment."""
    at = 20 if packet[0] >> 4 == 4 else 48
    word = int.from_bytes(packet[6:8] if at == 20 else packet[42:44], "big")
    if at == 20:
        return (word & 0x1FFF) * 8, bool(word & 0x2000), packet[at:]
    return word & 0xFFF8, bool(word & 1), packet[at:]


@st.composite
def _cut(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int]], list[int]]:
    """Data, where it is cut into fragments, and the order in which they come."""
    ends = draw(st.sets(st.integers(1, 400), min_size=1, max_size=12))
    whole = bytes(draw(st.integers(0, 255)) for _ in range(8 * max(ends)))
    whole = udp(payload=whole).build(address(AWAY[4][0]), address(AWAY[4][1]))
    places = [0, *(8 * end for end in sorted(ends))]
    parts = list(zip(places, [*places[1:], len(whole)]))
    order = draw(st.permutations(range(len(parts))))
    return whole, parts, list(order)


@settings(max_examples=60, deadline=None)
@given(cut=_cut(), family=st.sampled_from((4, 6)), mtu=st.sampled_from((1280, 1400, 1500)))
def test_what_is_put_together_leaves_as_the_same_data_in_no_larger_fragments(
    cut: tuple[bytes, list[tuple[int, int]], list[int]], family: int, mtu: int
) -> None:
    whole, parts, order = cut
    pair, packets = AWAY[family], []
    for begin, end in parts:
        more = end < len(whole)
        if family == 4:
            packets.append(ip4(*pair, whole[begin:end], proto=17, offset=begin // 8, mf=more))
        else:
            headers = (fragment_header(begin // 8, more),)
            packets.append(ip6(*pair, whole[begin:end], last_header=17, extensions=headers))
    largest = max(map(len, packets))
    netns = host(*TRACKED, f"ip link set r1 mtu {mtu}")
    verdicts, out = sent(netns, [packets[k] for k in order])
    assert verdicts[:-1] == ["held"] * (len(parts) - 1)
    if family == 6 and largest > mtu:
        assert verdicts[-1] == "dropped"
        return
    assert verdicts[-1] == "forwarded"
    if family == 6 and len(out) == 1 and out[0][6] != 44:
        assert out[0][40:] == whole
        return
    there = 0
    for packet in out:
        offset, more, part = body(packet)
        assert len(packet) <= min(mtu, max(largest, 1280 if family == 6 else 0))
        assert (offset, more) == (there, there + len(part) < len(whole))
        assert part == whole[there : there + len(part)]
        there += len(part)
    assert there == len(whole)
    assert used(netns) == (0, 0, 0) and memory(netns) == 0


def test_a_fragment_header_that_the_capture_cut_off_is_not_guessed() -> None:
    """With extension headers up to the cut nobody knows whether a fragment header follows."""
    from ippath.verify.packets import hop_by_hop

    packet = ip6(
        *AWAY[6], bytes(100), last_header=17, extensions=(hop_by_hop(b""), fragment_header(0, True))
    )
    netns = host(*TRACKED)
    batch = PacketBatch.from_packets([packet[:50]], device=1)
    batch.wire_length[:] = len(packet)
    assert netns.receive(batch).verdict_names == ["unsupported"]


def test_who_reassembles_has_limits_and_counts_of_its_own() -> None:
    netns = host(*TRACKED, "net.ipv6.ip6frag_high_thresh = 0", "net.ipv6.ip6frag_low_thresh = 0")
    packets = [fragment(6, begin, 1000, begin < 3000) for begin in range(0, 4000, 1000)]
    assert receive(netns, packets)[-1] == "delivered"
    counts = netns.totals().reassembly
    assert counts["conntrack6"]["reassembled"] == 1 and counts["ipv6"]["fragments"] == 0
    assert netns.counters().get("Ip6ReasmReqds", 0) == 0


def test_explanation_says_who_puts_together() -> None:
    netns = host(*TRACKED)
    packets = [ip4(*AWAY[4], bytes(800), proto=17, offset=100 * k, mf=k < 1) for k in range(2)]
    receive(netns, packets[:1])
    text = netns.explain(PacketBatch.from_packets(packets[1:], device=1), 0).text()
    assert "connection tracking" in text and "in 2 fragments of at most 820 bytes" in text
