"""Packets of which the capture kept the beginning: judged, counted and sent by their full length."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ippath.batch import PacketBatch
from ippath.cli import FINE, main
from ippath.config import parse_host
from ippath.netns import Netns
from tests import captures as make
from ippath.verify.packets import ip4, ip6, udp

HOST = """
ip link add r0 type tun
ip link add r1 type dummy
ip link set r1 mtu {mtu}
ip addr add 10.0.0.1/24 dev r0
ip addr add 10.1.0.1/24 dev r1
ip -6 addr add 2001:db8:0::1/64 dev r0
ip -6 addr add 2001:db8:1::1/64 dev r1
net.ipv4.ip_forward = 1
net.ipv6.conf.all.forwarding = 1
listen udp 0.0.0.0:2000
"""
DATA = bytes(2000)
FOUR = ip4("10.0.0.2", "10.1.0.2", udp(payload=DATA))
SIX = ip6("2001:db8:0::2", "2001:db8:1::2", udp(payload=DATA))
KEPT = 64


def snapped(packet: bytes) -> PacketBatch:
    return PacketBatch.from_packets([packet[:KEPT]], device=1, wire_length=[len(packet)])


@pytest.mark.parametrize("packet", [FOUR, SIX], ids=["IPv4", "IPv6"])
def test_what_is_forwarded_keeps_its_length(packet: bytes) -> None:
    netns = Netns(parse_host(HOST.format(mtu=9000)))
    assert netns.receive(snapped(packet), collect_output=True).verdict_names == ["forwarded"]
    ((device, batch),) = netns.take_output_batches().items()
    assert (device, batch.length[0], batch.wire_length[0]) == ("r1", 14 + KEPT, 14 + len(packet))


def test_fragments_have_what_was_captured() -> None:
    netns = Netns(parse_host(HOST.format(mtu=1500)))
    assert netns.receive(snapped(FOUR), collect_output=True).verdict_names == ["forwarded"]
    ((_, batch),) = netns.take_output_batches().items()
    assert batch.wire_length.tolist() == [14 + 1500, 14 + 20 + 2008 - 1480]
    assert batch.length.tolist() == [14 + KEPT, 14 + 20]


@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("packet", [FOUR, SIX], ids=["IPv4", "IPv6"])
def test_counters_do_not_depend_on_what_is_kept(packet: bytes, mtu: int) -> None:
    """Neither on what the capture kept, nor on whether packets sent are kept."""
    whole = PacketBatch.from_packets([packet], device=1)
    seen = []
    for batch in (snapped(packet), whole):
        for collect in (False, True):
            netns = Netns(parse_host(HOST.format(mtu=mtu)))
            verdicts = netns.receive(batch, collect_output=collect)
            seen.append((verdicts.reason_names, netns.counters(), netns.state.devstat.tolist()))
    assert seen.count(seen[0]) == len(seen)


def test_a_checksum_that_cannot_be_verified_counts_as_right() -> None:
    netns = Netns(parse_host(HOST.format(mtu=1500)))
    packet = ip4("10.0.0.2", "10.0.0.1", udp(payload=DATA, damage=1))
    assert netns.receive(PacketBatch.from_packets([packet], device=1)).reason_names == ["UDP_CSUM"]
    verdicts = netns.receive(snapped(packet))
    assert verdicts.verdict_names == ["delivered"] and verdicts.unchecked.tolist() == [True]


def test_written_captures_say_how_long_packets_were(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    record = make.Record(FOUR[:KEPT], wire_length=len(FOUR))
    (tmp_path / "in.pcap").write_bytes(make.pcap([record], link_type=101))
    (tmp_path / "host").write_text(HOST.format(mtu=9000))
    host = str(tmp_path / "host")
    command = ["replay", str(tmp_path / "in.pcap"), "--host", host, "--on", "r0"]
    assert main([*command, "--json", "--write", str(tmp_path / "out")]) == FINE
    assert json.loads(capsys.readouterr().out)["verdicts"]["forwarded"] == 1
    written = PacketBatch.read(tmp_path / "out" / "r1.pcap")
    assert written.length.tolist() == [14 + KEPT] and written.wire_length.tolist() == [
        14 + len(FOUR)
    ]
