"""A host that changes while it runs: what it holds keeps the device that it came from or went to."""

from __future__ import annotations

from ippath import Netns, PacketBatch
from ippath.config import parse_host
from ippath.socket import constants as C
from ippath.verify.packets import echo, ip4, udp

DEVICES = {
    "r0": "link add r0 type tun\nlink set r0 up\naddr add 10.0.0.1/24 dev r0\n",
    "r1": "link add r1 index 7 type tun\nlink set r1 up\naddr add 10.1.0.1/24 dev r1\n",
}
BOTH, WITHOUT_R0, WITHOUT_R1 = (
    "link set lo up\naddr add 10.9.0.1/32 dev lo\nlisten udp 10.9.0.1:2000\n"
    + "".join(DEVICES[n] for n in names)
    for names in (("r0", "r1"), ("r1",), ("r0",))
)


def running() -> Netns:
    return Netns(parse_host(BOTH))


def receive(netns: Netns, device: str, packet: bytes) -> None:
    row = [d.name for d in netns.host.devices].index(device)
    batch = PacketBatch.from_packets([packet], device=row)
    netns.receive(batch, collect_output=True, collect_datagrams=True)


def test_what_was_sent_has_its_device_after_another_is_gone() -> None:
    netns = running()
    receive(netns, "r1", ip4("10.1.0.2", "10.1.0.1", echo()))
    netns.change(parse_host(WITHOUT_R0))
    (sent,) = netns.take_output()
    assert sent.device == "r1"


def test_batches_of_what_was_sent_have_it_too() -> None:
    netns = running()
    receive(netns, "r1", ip4("10.1.0.2", "10.1.0.1", echo()))
    netns.change(parse_host(WITHOUT_R0))
    assert list(netns.take_output_batches()) == ["r1"]


def test_what_a_socket_took_has_its_device_though_that_is_gone() -> None:
    netns = running()
    receive(netns, "r1", ip4("10.1.0.2", "10.9.0.1", udp(dport=2000)))
    netns.change(parse_host(WITHOUT_R1))
    (taken,) = netns.take_datagrams()
    assert taken.device == "r1"


def test_an_open_socket_tells_the_interface_though_rows_moved() -> None:
    netns = running()
    sock = netns.socket(C.AF_INET, C.SOCK_DGRAM)
    sock.setsockopt(C.SOL_IP, C.IP_PKTINFO, 1)
    sock.bind(("10.9.0.1", 3000))
    receive(netns, "r1", ip4("10.1.0.2", "10.9.0.1", udp(dport=3000)))
    netns.change(parse_host(WITHOUT_R0))
    _, ((_, kind, info),), _, _ = sock.recvmsg(100, 100)
    assert kind == C.IP_PKTINFO and int.from_bytes(info[:4], "little") == 7


def test_counts_of_a_device_stay_with_its_name() -> None:
    netns = running()
    receive(netns, "r1", ip4("10.1.0.2", "10.9.0.1", udp(dport=2000)))
    netns.change(parse_host(WITHOUT_R0))
    found = {device["name"]: device["rx_packets"] for device in netns.totals().devices}
    assert found["r1"] == 1
