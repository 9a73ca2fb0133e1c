"""Cases of other systems' tests, and captures that tshark reads in another way than Linux.

What Linux does with the cases is recorded (tests/kernel/scenarios_regress.py); here OpenBSD's policy is
held to what its own tests expect, and the captures are given to the running kernel.
"""

from __future__ import annotations

import ipaddress

import pytest

from ippath import Defragmenter
from ippath.batch import PacketBatch
from ippath.capture import open_captures
from ippath.config import parse_host
from ippath.netns import Netns
from ippath.verify.compare import compare
from ippath.verify.namespace import available
from ippath.verify.on_ippath import Ippath
from ippath.verify.on_kernel import Kernel
from ippath.verify.packets import address
from ippath.verify.scenario import Inject, Scenario
from tests.captures import SHARED
from tests.kernel.scenarios_regress import CASES, HERE, WHOLE, Case, message, packets
from tests.shared import needs_captures
from tests.test_defrag import RULES


@pytest.mark.parametrize("case", [c for c in CASES if c.openbsd == WHOLE], ids=lambda c: c.name)
def test_the_policy_of_openbsd_does_what_openbsd_tests(case: Case) -> None:
    """The datagram with the right bytes, whatever came in between (IPv4)."""
    made = PacketBatch.from_packets(list(packets(4, case).values()))
    out = Defragmenter("bsd", whole=False).push(made)
    source, destination = (address(one) for one in HERE[4])
    assert [out.packet(k)[20:] for k in range(len(out))] == [
        message(4, case.size).build(source, destination)
    ]


def test_a_datagram_above_the_mtu_can_be_sent_by_ipv6() -> None:
    """Linux's selftest ipv6_fragmentation: 8,192 bytes by the loopback device, MTU 1,500."""
    netns = Netns(parse_host("ip link set lo mtu 1500\nip link set lo up\nlisten udp [::]:2000\n"))
    assert netns.send(0, bytes(8192), ("::1", 9)) == 0


def _fragments_of(name: str) -> tuple[str, list[bytes]]:
    """(address that they go to, IP packets) of the fragments in a shared capture."""
    found, destinations = [], set()
    with open_captures([str(SHARED / name)]) as source:
        for batch in source:
            for k in range(len(batch)):
                packet = batch.packet(k)
                at = 14 if packet[12:14] in (b"\x08\x00", b"\x86\xdd") else 0
                ip = packet[at:]
                six = ip[0] >> 4 == 6
                to = ip[24:40] if six else ip[16:20]
                if 44 in (ip[6], ip[40]) if six else int.from_bytes(ip[6:8], "big") & 0x3FFF:
                    length = (
                        40 + int.from_bytes(ip[4:6], "big")
                        if six
                        else int.from_bytes(ip[2:4], "big")
                    )
                    found.append(ip[:length])
                    destinations.add(str(ipaddress.ip_address(to)))
    assert len(destinations) == 1, destinations
    return destinations.pop(), found


@needs_captures
@pytest.mark.parametrize("name", RULES)
def test_where_tshark_differs_the_kernel_settles_it(name: str) -> None:
    destination, found = _fragments_of(name)
    six = ":" in destination
    host = f"""\
ip link add r0 type tun
ip link set lo up
ip link set r0 up
net.ipv4.conf.all.rp_filter = 0
ip addr add {destination}/{128 if six else 32} dev lo
ip {"-6 " if six else ""}route add default dev r0
"""
    one = Scenario(
        name, "captures", host, (Inject("r0", {str(k): p for k, p in enumerate(found)}),)
    )
    ours = Ippath().run(one)
    counter = "Ip6ReasmOKs" if six else "IpReasmOKs"
    assert ours.counters.get(counter, 0) == RULES[name][0][six]
    if why_not := available():
        pytest.skip(f"the kernel can't be asked here: {why_not}")
    with Kernel() as kernel:
        theirs = kernel.run(one)
    if theirs.error:
        pytest.skip(theirs.error)
    told = "\n".join(map(str, compare(one, theirs, ours).differences))
    assert not told, told
