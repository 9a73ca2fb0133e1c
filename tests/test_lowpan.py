"""6LoWPAN: frames of IEEE 802.15.4, their headers, and fragments, up to the IPv6 packet.

What is expected of Linux is what its sources say (net/6lowpan, net/ieee802154): the kernel that tests
ran on has no 6LoWPAN.  What the RFCs allow beyond it is behind the switch `lowpan=rfc`.
"""

from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ippath import tables as T
from ippath.batch import PacketBatch
from ippath.config import parse_host
from ippath.defrag import Defragmenter
from ippath.lowpan import LowpanSender
from ippath.netns import Netns
from tests import captures
from tests.lowpan import (
    HERE, HOST, THERE, first_fragment, frame, ip, later_fragment, link_local, packet, tap, udp,
)  # fmt: skip

NOFCS, FCS, TAP = 230, 195, 283
SECOND = 10**9
NOTHING = b""  # nothing is handed up


def netns(mode: str = "linux", *lines: str) -> Netns:
    """A host with a 6LoWPAN device, contexts 0 and 3, and two sockets."""
    return Netns(parse_host(HOST + "\n".join(lines)), switches={"lowpan": mode}, seed=1)


def receive(host: Netns, frames: list[bytes], link_type: int = NOFCS, **fields: int) -> list[str]:
    """Verdicts, with reasons of drops and of what is unsupported."""
    batch = PacketBatch.from_packets(frames, link_type=link_type, device=1, **fields)
    verdicts = host.receive(batch)
    names = zip(verdicts.verdict_names, verdicts.reason_names)
    host.close_accounts()
    return [
        v if v in ("delivered", "held", "consumed", "forwarded") else f"{v} {r}" for v, r in names
    ]


def rebuilt(payload: bytes, mode: str = "linux", **fields: object) -> bytes:
    """The IPv6 packet that a frame with this payload becomes."""
    host = netns(mode)
    receive(host, [frame(payload, **fields)])  # type: ignore[arg-type]
    skb = host.state.skb
    if skb[T.SKB_FAMILY] != 6:
        return NOTHING
    return host.state.lowpan[: host.state.lw[T.LW_OUT]].tobytes()


# --- header compression -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Compressed:
    """A payload, and the packet that it stands for in Linux; `rfc` where the RFCs want another."""

    payload: str
    linux: bytes
    rfc: bytes | None = None
    short: tuple[bool, bool] = (False, False)


ME, YOU = link_local(HERE), link_local(THERE)
DATA = b"data"
UDP4 = struct.pack("!HHHH", 0xF0B3, 0xF0B1, 12, 0x1234) + DATA
HOP8 = bytes.fromhex("3a00 050200000100")  # router alert, PadN
CASES = {
    "all of the addresses from the link": Compressed(
        "7a33 3a 64617461", packet(DATA, protocol=58)),
    "hop limit 1": Compressed("7933 3a 64617461", packet(DATA, protocol=58, hops=1)),
    "hop limit 255": Compressed("7b33 3a 64617461", packet(DATA, protocol=58, hops=255)),
    "hop limit carried": Compressed("7833 3a 2a 64617461", packet(DATA, protocol=58, hops=42)),
    "traffic class and flow label": Compressed(
        "6233 4a 0bcdef 3a 64617461".replace("4a 0b", "4a0b"), packet(DATA, protocol=58, first=0x29 << 20 | 0xBCDEF)),
    "ECN and flow label": Compressed(
        "6a33 8bcdef 3a 64617461", packet(DATA, protocol=58, first=0x02 << 20 | 0xBCDEF)),
    "traffic class": Compressed(
        "7233 4a 3a 64617461", packet(DATA, protocol=58, first=0x29 << 20)),
    "whole addresses": Compressed(
        "7a00 3b" + ip("2001:db8::7").hex() + ip("2001:db8::1").hex(),
        packet(b"", protocol=59, source=ip("2001:db8::7"), target=ip("2001:db8::1"))),
    "identifiers of 64 bits": Compressed(
        "7a11 3b 1122334455667788 0000000000000001",
        packet(b"", protocol=59, source=ip("fe80::1122:3344:5566:7788"), target=ip("fe80::1"))),
    "identifiers of 16 bits": Compressed(
        "7a22 3b 1234 0001",
        packet(b"", protocol=59, source=ip("fe80::ff:fe00:1234"), target=ip("fe80::ff:fe00:1"))),
    "from short addresses": Compressed(
        "7a33 3b", packet(b"", protocol=59, source=ip("fe80::ff:fe00:2"), target=ip("fe80::ff:fe00:1")),
        short=(True, True)),
    "contexts 0": Compressed(
        "7a77 3b", packet(b"", protocol=59, source=ip("2001:db8::2"), target=ip("2001:db8::1"))),
    "contexts 3 and 0": Compressed(
        "7af6 30 3b 0001",
        packet(b"", protocol=59, source=ip("2001:db8:3:4::2"), target=ip("2001:db8::ff:fe00:1"))),
    "context 5, which is not known": Compressed("7af7 50 3b", NOTHING),
    "unspecified source": Compressed(
        "7a43 3b", packet(b"", protocol=59, source=bytes(16))),
    "unspecified source, its context not known": Compressed(
        "7ac3 50 3b", NOTHING, packet(b"", protocol=59, source=bytes(16))),
    "all nodes": Compressed("7a3b 3b 01", packet(b"", protocol=59, target=ip("ff02::1"))),
    "group of 32 bits": Compressed(
        "7a3a 3b 02 010003", packet(b"", protocol=59, target=ip("ff02::1:3"))),
    "group of 48 bits": Compressed(
        "7a39 3b 02 01ff000001", packet(b"", protocol=59, target=ip("ff02::1:ff00:1"))),
    "whole group": Compressed(
        "7a38 3b" + ip("ff05:1::2").hex(), packet(b"", protocol=59, target=ip("ff05:1::2"))),
    "group under a prefix": Compressed(
        "7a3c 3b 3e00 00000101", packet(b"", protocol=59, target=ip("ff3e:0040:2001:db8:0:0:0:101"))),
    "reserved destination": Compressed(
        "7a34 3b", packet(b"", protocol=59, target=bytes(16)), NOTHING),
    "UDP, ports of 4 bits": Compressed("7e33 f3 31 1234 64617461", packet(UDP4)),
    "UDP, ports carried": Compressed(
        "7e33 f0 1633 f0b1 1234 64617461",
        packet(struct.pack("!HHHH", 5683, 0xF0B1, 12, 0x1234) + DATA)),
    "UDP, destination of 8 bits": Compressed(
        "7e33 f1 1633 22 1234 64617461",
        packet(struct.pack("!HHHH", 5683, 0xF022, 12, 0x1234) + DATA)),
    "UDP, source of 8 bits": Compressed(
        "7e33 f2 22 1633 1234 64617461",
        packet(struct.pack("!HHHH", 0xF022, 5683, 12, 0x1234) + DATA)),
    "UDP, checksum left out": Compressed("7e33 f7 01 64617461", NOTHING, udp(DATA)),
    "hop-by-hop options, padding left out": Compressed(
        "7e33 e0 3a 04 05020000", NOTHING,
        packet(HOP8, protocol=0)),
    "options, then UDP": Compressed(
        "7e33 e7 06 050200000100 f3 01 1234", NOTHING,
        packet(bytes.fromhex("1100 050200000100") + struct.pack("!HHHH", 0xF0B0, 0xF0B1, 8, 0x1234),
               protocol=60)),
    "fragment header": Compressed(
        "7e33 e4 3b 06 000100000007 64617461", NOTHING,
        packet(bytes.fromhex("3b00 000100000007") + DATA, protocol=44)),
    "routing header that ends in the middle of a unit": Compressed("7e33 e2 3b 04 00000000", NOTHING),
    "IPv6 in IPv6": Compressed(
        "7e33 ee 7a33 3b", NOTHING, packet(packet(b"", protocol=59), protocol=41)),
    "next header of no kind": Compressed("7e33 00", NOTHING),
    "ends in the first word": Compressed("7a", NOTHING),
    "ends in an address": Compressed("7a11 3b 112233", NOTHING),
    "uncompressed": Compressed("41" + packet(DATA).hex(), packet(DATA)),
    "HC1": Compressed("42 fc 40 64617461".replace("fc", "fc"), NOTHING, packet(DATA, protocol=58)),
    "HC1 and HC2": Compressed(
        "42 fb e0 40 31 1234 64617461", NOTHING, packet(UDP4)),
    "mesh": Compressed(
        "8f 10" + f"{THERE:016x}{HERE:016x}" + "7a33 3b", NOTHING, packet(b"", protocol=59)),
    "mesh and broadcast": Compressed(
        "b4 0002 0001 50 07 7a33 3b", NOTHING,
        packet(b"", protocol=59, source=ip("fe80::ff:fe00:2"), target=ip("fe80::ff:fe00:1"))),
    "ESC": Compressed("40 7a33 3b", NOTHING),
    "not 6LoWPAN": Compressed("00 7a33 3b", NOTHING),
    "reserved": Compressed("45 7a33 3b", NOTHING),
    "nothing": Compressed("", NOTHING),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ("linux", "rfc"))
def test_headers(name: str, mode: str) -> None:
    case = CASES[name]
    wanted = case.rfc if mode == "rfc" and case.rfc is not None else case.linux
    source, target = (2, 1) if case.short[0] else (THERE, HERE)
    got = rebuilt(bytes.fromhex(case.payload), mode, short=case.short, source=source, target=target)
    assert got.hex(" ", 4) == wanted.hex(" ", 4)


# --- frames -----------------------------------------------------------------------------------------

GOOD = bytes.fromhex("7e33 f3 01") + udp(DATA)[46:48] + DATA
FRAMES: dict[str, tuple[bytes, int, str]] = {
    "without check sequence": (frame(GOOD), NOFCS, "delivered"),
    "with check sequence": (frame(GOOD, fcs=True), FCS, "delivered"),
    "check sequence wrong": (frame(GOOD) + b"\0\0", FCS, "dropped NOT_SPECIFIED"),
    "TAP, no check sequence": (tap(frame(GOOD), 0), TAP, "delivered"),
    "TAP, check sequence": (tap(frame(GOOD, fcs=True), 1), TAP, "delivered"),
    "TAP of another version": (b"\1" + tap(frame(GOOD), 0)[1:], TAP, "unsupported LINK_HEADER"),
    "another's": (frame(GOOD, target=9), NOFCS, "dropped OTHERHOST"),
    "another PAN": (frame(GOOD, pan=1), NOFCS, "dropped OTHERHOST"),
    "our own": (frame(GOOD, source=HERE), NOFCS, "consumed"),
    "acknowledgement": (b"\x02\x00\x07", NOFCS, "consumed"),
    "beacon": (frame(b"", kind=0), NOFCS, "consumed"),
    "secured": (frame(GOOD, flags=0x48), NOFCS, "unsupported LINK_SECURITY"),
    "not intra-PAN": (frame(GOOD, flags=0), NOFCS, "dropped NOT_SPECIFIED"),
    "reserved addressing": (b"\x41\x44" + bytes(30), NOFCS, "unsupported LINK_HEADER"),
    "ends in the addresses": (frame(GOOD)[:12], NOFCS, "unsupported LINK_HEADER"),
    "empty": (b"", FCS, "unsupported LINK_HEADER"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames(name: str) -> None:
    raw, link_type, wanted = FRAMES[name]
    assert receive(netns(), [raw], link_type) == [wanted]


def test_a_capture_that_cut_the_headers_says_so() -> None:
    raw = frame(GOOD)
    batch = PacketBatch.from_packets([raw[:24]], link_type=NOFCS, device=1, wire_length=[len(raw)])
    verdicts = netns().receive(batch)
    assert (verdicts.verdict_names[0], verdicts.reason_names[0]) == ("unsupported", "CAPTURE_CUT")


def test_version_2015_with_elements_and_without_sequence_number() -> None:
    elements = struct.pack("<H", 0x7F << 7)  # header termination 2
    control = 1 | 0x40 | 0x100 | 0x200 | 2 << 10 | 2 << 12 | 2 << 14
    raw = struct.pack("<HHHH", control, 0xABCD, 1, 2) + elements + bytes.fromhex("7a33 3b")
    host = netns()
    assert receive(host, [raw]) == ["dropped IP_INADDRERRORS"]  # read as far as IPv6
    wanted = packet(b"", protocol=59, source=ip("fe80::ff:fe00:2"), target=ip("fe80::ff:fe00:1"))
    assert host.state.lowpan[: host.state.lw[T.LW_OUT]].tobytes() == wanted


def test_explain_speaks_of_the_packet_inside() -> None:
    batch = PacketBatch.from_packets([frame(GOOD)], link_type=NOFCS, device=1)
    text = netns().explain(batch, 0).text()
    assert "UDP [fe80::2]:61616 > [fe80::1]:61617" in text
    assert "6 bytes of headers become 48" in text
    wrong = PacketBatch.from_packets([frame(bytes.fromhex("7af7503b"))], link_type=NOFCS, device=1)
    assert "the context is not known here" in netns().explain(wrong, 0).text()


# --- fragments --------------------------------------------------------------------------------------

WHOLE = udp(bytes(range(200)))
SIZE = len(WHOLE)
# compressed headers that stand for the first 48 bytes, then 40 bytes
HEAD = first_fragment(SIZE, 7, GOOD[:4] + WHOLE[46:88])
MIDDLE = later_fragment(SIZE, 7, 88, WHOLE[88:168])
LAST = later_fragment(SIZE, 7, 168, WHOLE[168:])
OTHER_TAG = later_fragment(SIZE, 8, 168, WHOLE[168:])
H, DROP, D = "held", "dropped NOT_SPECIFIED", "delivered"
FRAGMENTS: dict[str, tuple[list[bytes], list[str], list[str]]] = {
    "in order": ([HEAD, MIDDLE, LAST], [H, H, D], [H, H, D]),
    "the first one uncompressed": (
        [first_fragment(SIZE, 7, b"\x41" + WHOLE[:88]), MIDDLE, LAST], [H, H, D], [H, H, D]),
    "reversed": ([LAST, MIDDLE, HEAD], [H, DROP, DROP], [H, H, D]),
    "the middle comes last": ([HEAD, LAST, MIDDLE], [H, H, DROP], [H, H, D]),
    "one twice": ([HEAD, MIDDLE, MIDDLE, LAST], [H, H, DROP, D], [H, H, DROP, D]),
    "overlap": (
        [HEAD, later_fragment(SIZE, 7, 80, WHOLE[80:168]), LAST], [H, DROP, H], [H, DROP, H]),
    "another tag": ([HEAD, MIDDLE, OTHER_TAG], [H, H, H], [H, H, H]),
    "datagram shorter than a header": ([first_fragment(39, 7, GOOD)], [DROP], [DROP]),
    "datagram longer than 1280": ([later_fragment(1281, 7, 0, GOOD)], [DROP], [DROP]),
    "headers of no kind": ([first_fragment(SIZE, 7, b"\x40" + GOOD)], [DROP], [DROP]),
    "only a header": ([HEAD[:4]], [DROP], [DROP]),
    "cut header": ([LAST[:4]], [DROP], [DROP]),
    "beyond the end": (
        [HEAD, later_fragment(SIZE, 7, 168, WHOLE[168:] + b"xx")], [H, H], [H, DROP]),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAGMENTS)
@pytest.mark.parametrize("mode", ("linux", "rfc"))
def test_fragments(name: str, mode: str) -> None:
    payloads, linux, rfc = FRAGMENTS[name]
    host = netns(mode)
    assert receive(host, [frame(p) for p in payloads]) == (rfc if mode == "rfc" else linux)


def test_a_fragment_of_another_source_or_target_is_of_another_datagram() -> None:
    others = [frame(LAST, source=5), frame(LAST, target=0xFFFF, short=(False, True))]
    assert receive(netns(), [frame(HEAD), frame(MIDDLE), *others]) == [H, H, H, H]


def test_an_elided_checksum_is_computed_when_the_datagram_is_whole() -> None:
    head = first_fragment(SIZE, 7, bytes.fromhex("7e33 f7 01") + WHOLE[48:88])
    assert receive(netns("rfc"), [frame(p) for p in (head, MIDDLE, LAST)]) == [H, H, D]


def test_time_is_up_after_sixty_seconds_and_nobody_is_told() -> None:
    host = netns()
    receive(host, [frame(HEAD), frame(MIDDLE)])
    host.advance(60 * SECOND + 1, collect_output=True)
    host.close_accounts()
    totals = host.totals()
    assert totals.reassembly["6lowpan"]["expired"] == 2
    assert totals.verdicts["consumed"] == 2 and not host.take_output()
    assert not host.state.fqdir[T.FQDIR_LOWPAN, T.FQDIR_MEM]


def test_limits_are_those_of_the_sysctls() -> None:
    prefix = "net.ieee802154.6lowpan.6lowpanfrag"
    host = netns("linux", f"{prefix}_high_thresh = 0")
    assert receive(host, [frame(HEAD)]) == [DROP]
    host = netns("linux", f"{prefix}_time = 5")
    receive(host, [frame(HEAD)])
    host.advance(5 * SECOND + 1)
    assert host.totals().reassembly["6lowpan"]["expired"] == 1
    host.set_fragment_limit(f"{prefix}_low_thresh", 0)
    host.set_fragment_limit(f"{prefix}_high_thresh", 0)
    assert receive(host, [frame(HEAD)]) == [DROP]


# --- whatever comes ---------------------------------------------------------------------------------

PAYLOADS = st.one_of(
    st.binary(max_size=120),
    st.builds(
        lambda base, rest: struct.pack("!H", base | 0x6000) + rest,
        st.integers(0, 0x1FFF), st.binary(max_size=60),
    ),
    st.builds(later_fragment, st.integers(40, 300), st.just(7), st.integers(0, 300), st.binary(max_size=80)),
    st.builds(
        lambda size, rest: first_fragment(size, 7, bytes.fromhex("7a33 3a") + rest),
        st.integers(40, 300), st.binary(max_size=80),
    ),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(PAYLOADS, max_size=12), st.sampled_from(["linux", "rfc"]), st.integers(0, 0xFFFF))
def test_any_frames_are_taken_and_accounted_for(
    payloads: list[bytes], mode: str, flags: int
) -> None:
    host = netns(mode)
    frames = [frame(p) for p in payloads] + [struct.pack("<H", flags) + p for p in payloads]
    receive(host, frames)
    receive(host, [tap(raw, 0)[:40] for raw in frames], TAP)
    host.advance(200 * SECOND)
    host.close_accounts()
    assert not host.state.fqdir[T.FQDIR_LOWPAN, T.FQDIR_MEM]
    assert not host.state.frag_misc[T.FM_QUEUE_USED]
    assert not host.state.frag_misc[T.FM_BLOCK_USED]


# --- tshark as judge --------------------------------------------------------------------------------


def tshark_packets(path: Path) -> list[bytes]:
    """The IPv6 packet that tshark sees in each frame; empty where it sees none."""
    done = subprocess.run(
        ["tshark", "-r", str(path), "-V", "-x", "-o", "6lowpan.context0:2001:db8::/64",
         "-o", "6lowpan.context3:2001:db8:3:4::/64"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: list[list[bytearray]] = []
    for line in done.stdout.splitlines():
        if re.match(r"Frame \d+:", line):
            found.append([])
        dump = re.match(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} )+)", line[:54])
        if dump and found:
            if dump[1] == "0000":
                found[-1].append(bytearray())
            found[-1][-1] += bytes.fromhex(dump[2])
    packets = [[s for s in sources[1:] if len(s) >= 40 and s[0] >> 4 == 6] for sources in found]
    return [bytes(inner[-1]) if inner else b"" for inner in packets]


def judged(frames: list[bytes], tmp_path: Path) -> list[bytes]:
    path = tmp_path / "judged.pcap"
    path.write_bytes(captures.pcap([captures.Record(raw) for raw in frames], link_type=NOFCS))
    return tshark_packets(path)


TSHARK_DIFFERS = {
    "fragment header": "keeps the length where a reserved byte belongs",
    "UDP, checksum left out": "fills in ffff, not the sum",
    "reserved destination": "gives none",
    "uncompressed": "shows no bytes of its own, as they stand in the frame",
}


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_headers_as_tshark_reads_them(tmp_path: Path) -> None:
    names = [n for n, c in CASES.items() if c.linux or c.rfc]
    frames = []
    for name in names:
        case = CASES[name]
        source, target = (2, 1) if case.short[0] else (THERE, HERE)
        frames.append(
            frame(bytes.fromhex(case.payload), short=case.short, source=source, target=target)
        )
    seen = dict(zip(names, judged(frames, tmp_path), strict=True))
    differing = {n for n, p in seen.items() if p != (CASES[n].rfc or CASES[n].linux)}
    assert differing == set(TSHARK_DIFFERS), [seen[n].hex(" ", 4) for n in differing]


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
@pytest.mark.parametrize("order", ([0, 1, 2], [2, 1, 0], [1, 0, 2]))
def test_datagrams_as_tshark_puts_them_together(tmp_path: Path, order: list[int]) -> None:
    frames = [frame([HEAD, MIDDLE, LAST][k]) for k in order]
    host = netns("rfc")
    assert receive(host, frames) == [H, H, D]
    ours = host.state.lowpan[: host.state.lw[T.LW_OUT]].tobytes()
    assert ours == WHOLE == judged(frames, tmp_path)[2]


# --- sending ----------------------------------------------------------------------------------------

ADDRESSES = st.one_of(
    st.sampled_from(
        [ip("fe80::2"), ip("2001:db8::2"), ip("2001:db8:3:4::ff:fe00:12"), ip("fe80::ff:fe00:7"),
         ip("fe80:0:0:1::2"), bytes(16), ip("2001:db8::1122:3344:5566:7788")]
    ),
    st.binary(min_size=16, max_size=16).filter(lambda a: a[0] != 0xFF),
)  # fmt: skip
GROUPS = st.one_of(
    st.sampled_from(
        [ip("ff02::1"), ip("ff02::1:3"), ip("ff05::1:ff00:1"), ip("ff3e:40:2001:db8::101"),
         ip("ff02::1:0:0:1"), ip("ff12::7f")]
    ),
    st.binary(min_size=15, max_size=15).map(lambda rest: b"\xff" + rest),
)  # fmt: skip
PORTS = st.one_of(st.integers(0, 0xFFFF), st.integers(0xF0B0, 0xF0BF), st.integers(0xF000, 0xF0FF))
PACKETS = st.builds(
    lambda source, target, body, udp_ports, protocol, first, hops: packet(
        (struct.pack("!HHHH", *udp_ports, 8 + len(body), 0x1234) + body) if udp_ports else body,
        protocol=17 if udp_ports else protocol,
        source=source, target=target, first=first, hops=hops,
    ),
    ADDRESSES, st.one_of(ADDRESSES, GROUPS), st.binary(max_size=1200),
    st.one_of(st.none(), st.tuples(PORTS, PORTS)), st.sampled_from([58, 59, 6]),
    st.one_of(st.just(0), st.integers(0, (1 << 28) - 1), st.integers(0, 0xFF).map(lambda t: t << 20)),
    st.sampled_from([1, 64, 255, 17]),
)  # fmt: skip
CONTEXTS = {0: "2001:db8::/64", 3: "2001:db8:3:4::/64"}


@settings(max_examples=200, deadline=None)
@given(PACKETS, st.booleans())
def test_what_is_sent_is_what_comes_back(whole: bytes, strict: bool) -> None:
    sender = LowpanSender(pan_id=0xABCD, contexts=CONTEXTS, strict=strict)
    to_all = whole[24] == 0xFF
    frames = sender.send(whole, THERE) if to_all else sender.send(whole, THERE, HERE)
    assert all(len(raw) <= 125 for raw in frames)
    host = netns("linux" if strict else "rfc")
    verdicts = receive(host, frames)
    assert verdicts[:-1] == ["held"] * (len(frames) - 1)
    got = host.state.lowpan[: len(whole)].tobytes()
    assert got == whole and host.counters()["Ip6InReceives"] == 1


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_tshark_reads_what_is_sent(tmp_path: Path) -> None:
    sender = LowpanSender(pan_id=0xABCD, contexts=CONTEXTS)
    sent = [
        packet(b"abc", protocol=58, source=ip("2001:db8::2"), target=ip("ff02::1:3")),
        udp(DATA, sport=5683, source=ip("2001:db8:3:4::9"), target=ip("2001:db8::1")),
        packet(DATA, protocol=59, first=0x0B << 20 | 0x12345, hops=3),
        packet(DATA, protocol=58, source=bytes(16), target=ip("ff02::1:ff00:1")),
    ]
    frames = [sender.send(whole, THERE)[0] for whole in sent]
    assert judged(frames, tmp_path) == sent
    many = sender.send(WHOLE, THERE, HERE)
    assert [raw[21] >> 3 for raw in many] == [0b11000, *[0b11100] * (len(many) - 1)]
    assert judged(many, tmp_path)[-1] == WHOLE


def test_what_can_not_be_sent_is_said() -> None:
    sender = LowpanSender()
    with pytest.raises(ValueError, match="no IPv6 packet"):
        sender.send(b"\x45" + bytes(60), 1)
    with pytest.raises(ValueError, match="too long for 6LoWPAN"):
        sender.send(packet(bytes(2100)), 1)
    with pytest.raises(ValueError, match="numbers from 0 to 15"):
        LowpanSender(contexts={16: "2001:db8::/64"})


def test_a_host_answers_in_frames_of_its_own() -> None:
    host = netns()
    whole = udp(bytes(100), dport=99)  # no socket
    frames = LowpanSender(pan_id=0xABCD, contexts=CONTEXTS).send(whole, THERE, HERE)
    batch = PacketBatch.from_packets(frames, link_type=NOFCS, device=1)
    host.receive(batch, collect_output=True)
    sent = [out.packet for out in host.take_output()]
    assert host.output_link_type("lowpan0") == NOFCS and len(sent) == 2
    other = Netns(parse_host(HOST.replace("00:01 type", "00:02 type")), seed=1)
    assert receive(other, sent)[0] == "held"
    inner = other.state.lowpan[: other.state.lw[T.LW_OUT]].tobytes()
    assert inner[6] == 58 and inner[40:42] == b"\x01\x04"  # port unreachable
    assert inner[48:] == whole


# --- without a host ---------------------------------------------------------------------------------


def defragmented(
    frames: list[bytes], policy: str, link_type: int = NOFCS
) -> tuple[list[bytes], dict[str, int]]:
    """What comes out, and what was counted."""
    engine = Defragmenter(policy, contexts=CONTEXTS, comments=True)
    out = engine.push(PacketBatch.from_packets(frames, link_type=link_type))
    return list(out), engine.statistics()["6lowpan"]


@pytest.mark.parametrize("order", ([0, 1, 2], [2, 1, 0], [1, 2, 0]))
@pytest.mark.parametrize("link_type", (NOFCS, FCS, TAP))
def test_defrag_gives_the_packet_in_the_frame_of_its_first_fragment(
    order: list[int], link_type: int
) -> None:
    def dressed(payload: bytes) -> bytes:
        raw = frame(payload, fcs=link_type != NOFCS)
        return tap(raw, 1) if link_type == TAP else raw

    frames = [dressed([HEAD, MIDDLE, LAST][k]) for k in order]
    out, counts = defragmented(frames, "last", link_type)
    assert out == [dressed(b"\x41" + WHOLE)]
    assert (counts["fragments"], counts["reassembled"], counts["joined"]) == (3, 1, 3)
    out, counts = defragmented(frames, "linux", link_type)
    assert counts["reassembled"] == (order == [0, 1, 2])


def test_defrag_passes_other_frames_and_opens_mesh_headers() -> None:
    mesh = bytes.fromhex("b4 0002 0001")
    others = [frame(GOOD), b"\x02\x00\x07", frame(b"", kind=0), frame(b"\x00zigbee"), b""]
    out, counts = defragmented([*others, *(frame(mesh + p) for p in (LAST, MIDDLE, HEAD))], "first")
    assert out[:5] == others and len(out) == 6
    assert out[5].startswith(frame(mesh)) and counts["reassembled"] == 1


def test_a_prefix_is_asked_for_by_number() -> None:
    frames = LowpanSender(pan_id=0xABCD, contexts=CONTEXTS).send(
        udp(bytes(200), source=ip("2001:db8::2"), target=ip("2001:db8:3:4::1")), THERE, HERE
    )
    assert defragmented(frames, "linux")[1]["reassembled"] == 1
    unknown = Defragmenter("linux")
    unknown.push(PacketBatch.from_packets(frames, link_type=NOFCS))
    assert unknown.statistics()["6lowpan"]["invalid"] == 1


@settings(max_examples=100, deadline=None)
@given(st.lists(PAYLOADS, max_size=20), st.sampled_from(["linux", "last"]), st.booleans())
def test_defrag_takes_any_frames(payloads: list[bytes], policy: str, raw: bool) -> None:
    engine = Defragmenter(policy, seed=1)
    frames = payloads if raw else [frame(p) for p in payloads]
    for link_type in (NOFCS, FCS, TAP):
        engine.push(PacketBatch.from_packets(frames, link_type=link_type))
    engine.advance(200 * SECOND)
    counts = engine.statistics()
    assert not counts["waiting"] and not counts["memory"]


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_defrag_and_tshark_put_as_many_together(tmp_path: Path) -> None:
    rng = random.Random(1)
    sender = LowpanSender(pan_id=0xABCD, contexts=CONTEXTS)
    flights = [
        sender.send(udp(rng.randbytes(rng.randint(120, 1200))), THERE, HERE) for _ in range(40)
    ]
    frames = [raw for flight in flights for raw in flight]
    rng.shuffle(frames)
    out, counts = defragmented(frames, "first")
    seen = [p for p in judged(frames, tmp_path) if len(p) == 40 + int.from_bytes(p[4:6])]
    assert counts["reassembled"] == 40 and sorted(raw[22:] for raw in out) == sorted(set(seen))
