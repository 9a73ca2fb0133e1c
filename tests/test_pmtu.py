"""`ippath pmtu`: size errors and what came of them, drops without an answer, swallowed segments."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path as File

import pytest

from ippath import Netns, PacketBatch
from ippath.batch import LINK_RAW
from ippath.cli import main
from ippath.config import parse_host
from ippath.pmtu import finder
from ippath.pmtu.finder import Findings, Finder
from ippath.verify.packets import icmp, icmp6, ip4, ip6, tcp, udp
from tests.captures import Record, pcap

ME, FAR, ROUTER = "10.0.0.1", "198.51.100.7", "10.0.0.9"
ME6, FAR6, ROUTER6 = "2001:db8::1", "2001:db8:9::7", "2001:db8::9"
SENDER = """\
ip link set lo up
ip link add r0 type tun
ip link set r0 up
ip addr add 10.0.0.1/24 dev r0
ip addr add 2001:db8::1/64 dev r0
ip route add default via 10.0.0.9
ip -6 route add default via 2001:db8::9
listen udp 10.0.0.1:2000
listen udp [2001:db8::1]:2000
"""
ROUTES = """\
ip link set lo up
net.ipv4.ip_forward = 1
net.ipv6.conf.all.forwarding = 1
ip link add r0 type tun
ip link add r1 mtu 1400 type tun
ip addr add 10.1.0.1/24 dev r0
ip addr add 192.0.2.1/24 dev r1
ip route add 198.51.100.0/24 via 192.0.2.9
ip route add 10.0.0.0/24 via 10.1.0.9
"""
SECOND = 10**9
At = tuple[float, bytes]  # seconds, packet


def datagram(size: int, *, df: bool = True, sport: int = 2000, six: bool = False) -> bytes:
    """A UDP datagram to the far side in a packet of `size` bytes."""
    if six:
        return ip6(ME6, FAR6, udp(sport=sport, dport=53, payload=bytes(size - 48)))
    return ip4(ME, FAR, udp(sport=sport, dport=53, payload=bytes(size - 28)), df=df)


def too_big(
    mtu: int, quoted: bytes | None = None, *, by: str = ROUTER, to: str = ME, damage: int = 0
) -> bytes:
    quoted = datagram(1500) if quoted is None else quoted
    return ip4(by, to, icmp(3, 4, mtu, quoted[:100], damage=damage))


def too_big6(mtu: int) -> bytes:
    return ip6(ROUTER6, ME6, icmp6(2, 0, mtu, datagram(1500, six=True)[:1000]))


def found(host: str, packets: list[At], device: int = 1) -> Findings:
    """What the finder says of packets at times, all received on one device."""
    made = Finder(Netns(parse_host(host)))
    times = [round(second * SECOND) for second, _ in packets]
    batch = PacketBatch.from_packets([p for _, p in packets], time_ns=times, device=device)
    made.add(batch)
    return made.findings()


# --- paths with size errors --------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    packets: list[At]
    outcome: str
    fates: dict[str, int]
    too_large: int = 0
    mtu: int = 1400
    host: str = SENDER


ERROR: At = (1, too_big(1400))
CASES = {
    "smaller ones follow": Case([ERROR, (2, datagram(1400))], "heeded", {"learned": 1}),
    "nothing follows": Case([ERROR], "not seen", {"learned": 1}),
    "what was sent before does not count": Case(
        [(0, datagram(1500)), ERROR, (2, datagram(1400))], "heeded", {"learned": 1}
    ),
    "larger ones follow": Case(
        [ERROR, (2, datagram(1500)), (5, datagram(1500)), (6, datagram(100))],
        "ignored", {"learned": 1}, 2,
    ),
    "two were on their way": Case(
        [ERROR, (1.1, datagram(1500)), (1.2, datagram(1401)), (1.5, datagram(1400))],
        "heeded", {"learned": 1}, 2,
    ),
    "too large to the end, though at once": Case(
        [ERROR, (1.1, datagram(1400)), (1.2, datagram(1500))], "ignored", {"learned": 1}, 1
    ),
    "larger ones that may be cut": Case(
        [ERROR, (2, datagram(1500, df=False))], "heeded", {"learned": 1}
    ),
    "a second report says less": Case(
        [ERROR, (2, datagram(1400)), (3, too_big(1300)), (4, datagram(1400))],
        "ignored", {"learned": 2}, 1, 1300,
    ),
    "reported twice": Case(
        [ERROR, (2, too_big(1400)), (3, datagram(1400))], "heeded",
        {"learned": 1, "known already": 1},
    ),
    "the path is known to take less": Case(
        [(1, too_big(1300)), (2, too_big(1400)), (3, datagram(1300))], "heeded",
        {"learned": 1, "not smaller than known": 1}, 0, 1300,
    ),
    "no socket sent what it quotes": Case(
        [(1, too_big(1400, datagram(1500, sport=9)))], "not seen",
        {"no socket sent what it quotes": 1},
    ),
    "another's address is quoted": Case(
        [(1, too_big(1400, ip4("10.0.0.7", FAR, udp(sport=2000, dport=53))))], "not seen",
        {"no socket sent what it quotes": 1},
    ),
    "its checksum is wrong": Case(
        [(1, too_big(1400, damage=1)), (2, datagram(1500))], "ignored", {"dropped, ICMP_CSUM": 1}, 1
    ),
    "less than a path may take": Case(
        [(1, too_big(20)), (2, datagram(68))], "heeded", {"learned": 1}, 0, 68
    ),
    "path MTU discovery is off": Case(
        [(1, too_big(1400))], "not seen", {"ignored by net.ipv4.ip_no_pmtu_disc": 1},
        host=SENDER + "net.ipv4.ip_no_pmtu_disc = 2\n",
    ),
    "the MTU of the route is locked": Case(
        [(1, too_big(1400))], "not seen", {"the route's MTU is locked": 1},
        host=SENDER.replace("via 10.0.0.9", "via 10.0.0.9 mtu lock 1450"),
    ),
    "on its way to another": Case(
        [(1, too_big(1400, by="192.0.2.7"))], "not seen", {"passed on": 1}, host=ROUTES
    ),
    "IPv6": Case(
        [(1, too_big6(1400)), (2, datagram(1400, six=True))], "heeded", {"learned": 1}
    ),
    "IPv6, larger ones follow": Case(
        [(1, too_big6(1400)), (3, datagram(1401, six=True))], "ignored", {"learned": 1}, 1
    ),
    "IPv6, less than it allows": Case(
        [(1, too_big6(1200)), (2, datagram(1280, six=True))], "heeded",
        {"less than IPv6 allows": 1}, 0, 1280,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_paths_with_size_errors(name: str) -> None:
    case = CASES[name]
    (path,) = found(case.host, case.packets).paths
    told = (path.outcome, path.fates, path.too_large, path.mtu)
    assert told == (case.outcome, case.fates, case.too_large, case.mtu)


def test_a_path_says_who_reported_what_when() -> None:
    packets = [
        ERROR,
        (2, too_big(1350, by="192.0.2.50")),
        (3, datagram(1500)),
        (4.5, datagram(1390)),
    ]
    (path,) = found(SENDER, packets).paths
    assert (path.source, path.destination) == (ME, FAR)
    assert (path.reporter, path.other_reports, path.reports) == (ROUTER, 1, 2)
    assert (path.reported, path.quoted, path.learned) == (1350, 1500, 1350)
    assert (path.first_frame, path.last_frame, path.last_too_large_frame) == (1, 2, 4)
    assert (path.sent, path.largest, path.seconds_too_large) == (2, 1500, 3.5)
    (flow,) = path.flows
    assert (flow.protocol, flow.source_port, flow.destination_port) == (17, 2000, 53)
    assert (flow.packets, flow.largest, flow.first_frame, flow.last_frame) == (2, 1500, 3, 4)


def test_batches_may_be_cut_anywhere() -> None:
    packets = [ERROR, (2, datagram(1500)), (3, too_big(1300)), (4, datagram(1400)), (5, ERROR[1])]
    whole, parts = (Finder(Netns(parse_host(SENDER))) for _ in range(2))
    times = [round(second * SECOND) for second, _ in packets]
    batch = PacketBatch.from_packets([p for _, p in packets], time_ns=times, device=1)
    whole.add(batch)
    for at in range(len(batch)):
        parts.add(batch.select(slice(at, at + 1)))
    assert whole.findings() == parts.findings()


def test_further_paths_have_no_room_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder.S, "PATHS", 8)
    quoted = [ip4(ME, f"198.51.100.{k}", udp(sport=2000, dport=53)) for k in range(20)]
    told = found(SENDER, [(k, too_big(1400, q)) for k, q in enumerate(quoted)])
    assert (len(told.paths), told.errors, told.not_kept) == (8, 20, 12)


# --- too large here -----------------------------------------------------------------------------------


def test_what_the_host_drops_without_telling_the_sender() -> None:
    host = ROUTES.replace("ip route add 10.0.0.0/24 via 10.1.0.9\n", "")  # no way back
    told = found(host, [(k / 1000, datagram(1500)) for k in range(20)])
    (one,) = told.unanswered
    assert (one.source, one.destination, one.dropped, one.told) == (ME, FAR, 20, 0)


def test_a_sender_that_is_told_each_time_is_not_listed() -> None:
    assert not found(ROUTES, [(k / 1000, datagram(1500)) for k in range(20)]).unanswered


# --- swallowed ----------------------------------------------------------------------------------------


def segment(seq: int, size: int = 1500, *, df: bool = True) -> bytes:
    """A TCP segment to the far side in a packet of `size` bytes."""
    payload = bytes(size - 40)
    return ip4(ME, FAR, tcp(1000, 443, flags=0x10, seq=seq, ack=1, payload=payload), df=df)


def acknowledged(ack: int) -> bytes:
    return ip4(FAR, ME, tcp(443, 1000, flags=0x10, seq=1, ack=ack))


BACKOFF = (0.0, 0.2, 0.6, 1.4, 3.0)
AGAIN: list[At] = [(second, segment(100)) for second in BACKOFF]
SWALLOWED = {
    "one segment": (AGAIN, 5),
    "the first of a window": ([(0, segment(100 + 1460 * k)) for k in range(5)] + AGAIN[1:], 5),
    "after a probe with the last": (
        [(0, segment(100)), (0, segment(1560)), (0.1, segment(1560)), *AGAIN[1:]], 5,
    ),
    "though the other side repeats itself": (
        [*AGAIN[:3], (1, acknowledged(100)), *AGAIN[3:]], 5,
    ),
    "numbers that begin again at zero": (
        [(second, segment((1 << 32) - 700)) for second in BACKOFF], 5,
    ),
    "cut by a device when it was sent first": ([(0, segment(100, 9000)), *AGAIN[1:]], 5),
}  # fmt: skip
NOT_SWALLOWED = {
    "sent once": AGAIN[:1],
    "sent again twice": AGAIN[:3],
    "all within a second": [(second / 4, p) for second, p in AGAIN],
    "acknowledged in between": [*AGAIN[:3], (1, acknowledged(1560)), *AGAIN[3:]],
    "acknowledged in part": [*AGAIN[:3], (1, acknowledged(101)), *AGAIN[3:]],
    "small": [(second, segment(100, 1280)) for second in BACKOFF],
    "may be cut": [(second, segment(100, df=False)) for second in BACKOFF],
    "another each time": [(second, segment(100 + 1460 * k)) for k, second in enumerate(BACKOFF)],
    "reset": [*AGAIN[:3], (1, ip4(FAR, ME, tcp(443, 1000, flags=4))), *AGAIN[3:]],
    "with a size error": [*AGAIN, (4, too_big(1400, segment(100)))],
}


@pytest.mark.parametrize("name", SWALLOWED)
def test_a_segment_that_is_sent_again_and_again_was_swallowed(name: str) -> None:
    packets, times = SWALLOWED[name]
    (one,) = found(SENDER, packets).swallowed
    assert (one.source, one.source_port, one.destination, one.destination_port) == (
        ME, 1000, FAR, 443,
    )  # fmt: skip
    assert (one.length, one.times, one.passed) == (1500, times, 0)
    assert 1 <= one.seconds <= 3


@pytest.mark.parametrize("name", NOT_SWALLOWED)
def test_a_segment_was_not_swallowed(name: str) -> None:
    assert not found(SENDER, NOT_SWALLOWED[name]).swallowed


def test_the_size_that_a_sender_tries_next_is_told() -> None:
    (one,) = found(SENDER, [*AGAIN, (6, segment(100, 1064)), (6.1, acknowledged(1124))]).swallowed
    assert (one.length, one.passed, one.first_frame, one.last_frame) == (1500, 1064, 1, 5)


def test_many_flows_do_not_push_out_one_that_waits() -> None:
    others: list[At] = [
        (0.1, ip4(ME, FAR, tcp(k, 80, flags=16, seq=1, payload=bytes(1400)), df=True))
        for k in range(2000, 6000)
    ]
    (one,) = found(SENDER, [*AGAIN[:2], *others, *AGAIN[2:]]).swallowed
    assert one.times == 5


# --- the command --------------------------------------------------------------------------------------


def written(folder: File, packets: list[At]) -> str:
    path = folder / "trace.pcap"
    records = [Record(p, round(second * SECOND)) for second, p in packets]
    path.write_bytes(pcap(records, link_type=LINK_RAW))
    (folder / "a.host").write_text(SENDER)
    return str(path)


def test_the_command_in_words(tmp_path: File, capsys: pytest.CaptureFixture[str]) -> None:
    swallowed = [(20 + s, ip4(ME, "203.0.113.5", tcp(5, 6, flags=16, payload=bytes(1400)), df=True))
                 for s in BACKOFF]  # fmt: skip
    packets = [ERROR, (2, datagram(1500)), (13.5, datagram(1480)), *swallowed]
    path = written(tmp_path, packets)
    assert main(["pmtu", path, "--host", str(tmp_path / "a.host"), "-q"]) == 0
    told = capsys.readouterr().out
    for line in (
        "8 packets, 1 size error about 1 path",
        "10.0.0.1 > 198.51.100.7  MTU 1400",
        "ignored: the sender went on with packets too large",
        "1 report by 10.0.0.9, frame 1",
        "this host: 1 learned",
        "then 2 packets of up to 1,500 bytes, the last 12.5 s later (frame 3)",
        "UDP 2000 > 53: 2 packets of up to 1,500 bytes, frames 2 to 3",
        "TCP 10.0.0.1:5 > 203.0.113.5:6",
        "1,440 bytes sent 5 times in 3 s, never acknowledged, frames 4 to 8",
    ):
        assert line in told, told


def test_the_command_as_data(tmp_path: File, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, [ERROR, (2, datagram(1400))])
    assert main(["pmtu", path, "--host", str(tmp_path / "a.host"), "--json", "-q"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["size_errors"] == 1 and told["interrupted"] is False
    assert told["paths"][0]["outcome"] == "heeded" and told["paths"][0]["flows"] == []


def test_a_capture_without_anything(tmp_path: File, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, [(1, datagram(100))])
    assert main(["pmtu", path, "-q"]) == 0
    assert "Nothing was too large for its path" in capsys.readouterr().out


def test_a_capture_that_ends_early_says_so(
    tmp_path: File, capsys: pytest.CaptureFixture[str]
) -> None:
    path = File(written(tmp_path, [ERROR, (2, datagram(1400))]))
    path.write_bytes(path.read_bytes()[:-10])
    assert main(["pmtu", str(path), "-q"]) == 3
    assert "ended early at byte" in capsys.readouterr().out
