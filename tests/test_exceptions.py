"""What the host learns about destinations: on demand alone, bounded, and gone in time."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ippath import tables as T
from ippath.batch import LINK_RAW, PacketBatch
from ippath.capture.writer import PcapWriter
from ippath.cli import main
from ippath.config import parse_host
from ippath.jit import COMPILED
from ippath.learned import cache_of, learned
from ippath.netns import Netns
from ippath.verify.packets import data, icmp, icmp6, ip4, ip6, udp

SECOND = 10**9
OWN, OWN6 = "10.1.0.1", "2001:db8:1::1"
HOST = """
ip link add r0 type tun
ip link add r1 type tun
ip link set r0 up
ip link set r1 up
ip addr add 10.1.0.1/24 dev r1
ip addr add 2001:db8:1::1/64 dev r1
ip route add default via 10.1.0.9
ip -6 route add default via 2001:db8:1::9
net.ipv4.icmp_ratemask = 0
listen udp 0.0.0.0:2000
listen udp [::]:2000
"""


def host(*lines: str) -> Netns:
    return Netns(parse_host(HOST + "\n".join(lines)))


def report(destination: str, mtu: int) -> bytes:
    """A router's word about the path of an echo reply."""
    if ":" in destination:
        quoted = ip6(OWN6, destination, icmp6(129, 0, 1))
        return ip6("2001:db8:1::7", OWN6, icmp6(2, 0, mtu, quoted))
    return ip4("10.1.0.7", OWN, icmp(3, 4, mtu, ip4(OWN, destination, icmp(0, 0, 1))))


def batch_of(packets: list[bytes], time_ns: int = 0) -> PacketBatch:
    times = np.full(len(packets), time_ns, np.int64)
    batch = PacketBatch.from_packets(packets, time_ns=times, link_type=LINK_RAW)
    batch.device = np.full(len(packets), 2, np.int32)
    return batch


def teach(netns: Netns, reports: dict[str, int], time_ns: int = 0) -> None:
    netns.receive(batch_of([report(to, mtu) for to, mtu in reports.items()], time_ns))


def addresses(family: int, count: int) -> list[str]:
    base = int(ipaddress.ip_address("80.0.0.0" if family == 4 else "2001:db8:80::"))
    return [str(ipaddress.ip_address(base + 7 * k + 1)) for k in range(count)]


@pytest.mark.parametrize("family", [4, 6])
def test_entries_are_made_on_demand_alone(family: int) -> None:
    """Of many destinations behind one gateway only those with a smaller path make entries.

    The case of the series that made route caching of IPv6 lazy: 80,000 destinations, of which
    1,000 have a smaller MTU.
    """
    many, few = (80_000, 1000) if COMPILED else (800, 100)
    netns, to = host(), addresses(family, many)
    for destination in to:
        error = netns.send(
            0 if family == 4 else 1, b"16 bytes of data", (destination, 53), collect_output=False
        )
        assert error == 0
    assert learned(netns) == []
    teach(netns, {destination: 1300 for destination in to[:: many // few]})
    known = learned(netns)
    assert len(known) == few
    assert {one.mtu for one in known} == {1300}
    for destination in to[:50]:
        netns.send(0 if family == 4 else 1, data(1400), (destination, 53), collect_output=False)
    assert len(learned(netns)) == few


@pytest.mark.parametrize("family", [4, 6])
def test_the_eager_switch_makes_an_entry_for_each_destination(family: int) -> None:
    """As before that series; what is sent and received is the same."""
    many, few = (80_000, 1000) if COMPILED else (800, 100)
    netns, to = host("switch route_cache eager"), addresses(family, many)
    number = 0 if family == 4 else 1
    for destination in [*to, *to[:100]]:
        assert netns.send(number, data(16), (destination, 53), collect_output=False) == 0
    assert len(known := learned(netns)) == many
    assert {(one.mtu, one.expires, one.redirected) for one in known} == {(0, None, False)}
    teach(netns, {destination: 1300 for destination in to[:: many // few]})
    assert len(known := learned(netns)) == many
    assert sum(one.mtu == 1300 for one in known) == few


@pytest.mark.parametrize("family", [4, 6])
def test_the_eager_switch_counts_for_what_is_forwarded_too(family: int) -> None:
    forwards = ("net.ipv4.ip_forward = 1", "net.ipv6.conf.all.forwarding = 1")
    netns, to = host("switch route_cache eager", *forwards), addresses(family, 3)
    make, source = (ip4, "10.5.0.77") if family == 4 else (ip6, "2001:db8:5::77")
    batch = batch_of([make(source, destination, udp(1, 2, b"")) for destination in (*to, *to)])
    batch.device[:] = 1
    assert set(netns.receive(batch).verdict_names) == {"forwarded"}
    assert [one.destination for one in learned(netns, family)] == [
        int(ipaddress.ip_address(destination)) for destination in to
    ]  # fmt: skip


@pytest.mark.parametrize("family", [4, 6])
def test_forged_reports_cost_bounded_memory(family: int) -> None:
    """A next hop remembers no more than its buckets, however many reports come."""
    count = 60_000 if COMPILED else 1500
    netns, cells = host(), 2048 if family == 4 else 1024
    before = netns.state.exception.nbytes
    to = addresses(family, count)
    for at in range(0, count, 500):
        teach(netns, {destination: 1300 for destination in to[at : at + 500]}, at)
    known = learned(netns)
    assert netns.state.exception.nbytes == before
    assert len(known) <= cells * 10
    if COMPILED:
        assert len(known) >= cells * 5
        per_bucket = np.unique(
            netns.state.exception[netns.state.exception[:, T.EXC_FAMILY] == family, T.EXC_CELL],
            return_counts=True,
        )[1]
        assert per_bucket.max() <= 10, "five to ten deep"
    assert int(netns.state.exc_misc[T.EM_USED]) == len(known)
    latest = {ipaddress.ip_address(one.destination) for one in known}
    assert ipaddress.ip_address(to[-1]) in latest, "the oldest go"


def test_the_table_as_a_whole_is_bounded() -> None:
    """When all rows are taken, those taken first are taken again."""
    netns = host()
    small = netns.state._replace(exception=np.zeros((64, T.EXC_COLUMNS), np.int64))
    netns.state = small
    from ippath.handles import state_handle

    netns._state_handle = state_handle(small)
    to = addresses(4, 200)
    teach(netns, {destination: 1300 for destination in to})
    known = {str(ipaddress.ip_address(one.destination)) for one in learned(netns)}
    assert known == set(to[-64:])


class Exceptions(RuleBasedStateMachine):
    """Against a dictionary: what is learned, overwritten, used, and over."""

    @initialize()
    def begin(self) -> None:
        self.netns, self.now = host(), 1
        self.known: dict[str, tuple[int, bool, int]] = {}

    def _alive(self, to: str) -> tuple[int, bool, int] | None:
        entry = self.known.get(to)
        return entry if entry is not None and entry[2] > self.now else None

    @rule(k=st.integers(0, 30), family=st.sampled_from((4, 6)), mtu=st.integers(0, 1600))
    def hear(self, k: int, family: int, mtu: int) -> None:
        to = addresses(family, 31)[k]
        teach(self.netns, {to: mtu}, self.now)
        alive = self._alive(to)
        old = alive[0] if alive else 1500
        over = self.now + 600 * SECOND
        if family == 6:
            if 1280 <= mtu < old:
                self.known[to] = mtu, False, over
            return
        if mtu > old:
            return
        if mtu < 552:
            self.known[to] = min(old, 552), True, over
        elif not (alive and alive[0] == mtu and self.now < alive[2] - 300 * SECOND):
            self.known[to] = mtu, False, over

    @rule(seconds=st.sampled_from((1, 200, 299, 301, 599, 601)))
    def wait(self, seconds: int) -> None:
        self.now += seconds * SECOND
        self.netns.advance(self.now)

    @rule()
    def change(self) -> None:
        """Another route comes; what was learned stays."""
        text = HOST + f"ip route add 90.{self.now % 200}.0.0/16 via 10.1.0.9\n"
        self.netns.change(parse_host(text))

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "netns"):
            return
        found = {
            str(ipaddress.ip_address(one.destination)): (one.mtu, one.locked)
            for one in learned(self.netns)
        }
        assert found == {to: e[:2] for to, e in self.known.items() if self._alive(to)}


TestExceptions = Exceptions.TestCase
TestExceptions.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)


def test_a_socket_follows_its_path() -> None:
    netns = host()
    teach(netns, {"80.0.0.1": 1200, "2001:db8:80::1": 1300})
    for number, to, size in ((0, "80.0.0.1", 1200), (1, "2001:db8:80::1", 1300)):
        netns.send(number, data(1400), (to, 53), collect_output=True)
        sent = [packet for part in netns.take_output_batches().values() for packet in part]
        assert len(sent) == 2 and max(map(len, sent)) <= size


def test_reports_of_others_packets_are_not_believed() -> None:
    """Neither of packets that no socket sends, nor of those of other hosts."""
    netns = host()
    for quoted in (ip4(OWN, "80.0.0.1", icmp(8, 0, 1)), ip4("10.1.0.3", "80.0.0.1", icmp(0, 0, 1))):
        netns.receive(batch_of([ip4("10.1.0.7", OWN, icmp(3, 4, 1200, quoted))]))
    assert learned(netns) == []


# --- the command line -----------------------------------------------------------------------------------


def _written(tmp_path: Path) -> tuple[str, str]:
    text, capture = tmp_path / "router.host", tmp_path / "icmp.pcap"
    text.write_text(HOST)
    packets = [report("80.0.0.1", 1200), report("80.0.0.2", 400), report("2001:db8:80::1", 1300)]
    packets.append(ip4("80.0.0.1", OWN, icmp(8, 0, 1, data(8))))
    with PcapWriter(capture, 101) as writer:
        writer.write(batch_of(packets, SECOND))
    return str(text), str(capture)


def test_route_get_and_show_cache_after_a_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, capture = _written(tmp_path)
    after = ["--host", text, "--after", capture]
    assert main(["route", "get", "80.0.0.2", *after]) == 0
    assert capsys.readouterr().out == (
        "80.0.0.2 via 10.1.0.9 dev r1 src 10.1.0.1 uid 0 \n    cache expires 600sec mtu lock 552 \n"
    )
    assert main(["route", "show", "cache", *after]) == 0
    assert capsys.readouterr().out == "80.0.0.1 via 10.1.0.9 dev r1 \n    cache expires 600sec mtu 1200 \n"  # fmt: skip
    assert main(["route", "show", "-6", "cache", "--json", *after]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["dst"] == "2001:db8:80::1" and told["metrics"] == [{"mtu": 1300}]
    assert main(["route", "show", "cache", "--host", text]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "words", [("show", "table", "main"), ("get", "--file", "CAPTURE")], ids=["show", "file"]
)
def test_after_where_it_says_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    text, capture = _written(tmp_path)
    given = [capture if word == "CAPTURE" else word for word in words]
    assert main(["route", *given, "--host", text, "--after", capture]) == 2


def test_main_alone_is_listed() -> None:
    netns = host("ip route add 80.0.0.0/8 via 10.1.0.8 table 100", "ip rule add pref 9 lookup 100")
    teach(netns, {"80.0.0.1": 1200, "90.0.0.1": 1300})
    for to in ("80.0.0.1", "90.0.0.1"):
        netns.send(0, b"", (to, 53))
    assert len(learned(netns)) == 2
    assert [str(ipaddress.ip_address(one.destination)) for one in cache_of(netns, 4)] == [
        "90.0.0.1"
    ]
