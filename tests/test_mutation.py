"""Damaged packets through random hosts: nothing crashes, nothing reads outside, accounts close.

Some thousand packets by default; `IPPATH_FUZZ_PACKETS=1000000` for a long run (`make fuzz`), best in
the checked build, where each load and store verifies its range.
"""

from __future__ import annotations

import ipaddress
import os
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ippath.batch import LINK_ETHERNET, PacketBatch
from ippath.fib.control import add_address, add_device, add_route
from ippath.jit import CHECKED, COMPILED
from ippath.model import Address, Host, Listener, Nexthop, Route
from ippath.netns import Netns
from ippath.reasons import REASON_NAMES, VERDICTS
from ippath.wire import memory
from tests.captures import internet_checksum
from tests.hosts import hosts, number, router
from tests.mutate import Mutator

AT_ONCE = 500  # packets of one host
PACKETS = int(os.environ.get("IPPATH_FUZZ_PACKETS", "100000" if COMPILED else "10000"))
SEED = int(os.environ.get("IPPATH_FUZZ_SEED", "1"))
ROUTED = (
    "10.0.0.1 10.0.0.1 10.0.0.2 10.1.0.1 10.1.0.2 10.2.0.2 10.2.0.255 10.9.0.1 10.9.0.2 77.0.0.1 77.1.64.9 78.0.0.1 "
    "192.0.2.1 2001:db8::1 2001:db8::2 2001:db8:1::1 2001:db8:1::2 2001:db8:9::1 2001:db8:9::2 "
    "2001:db8:77::1 3000::1 fe80::1 fe80::2"
).split()
SPECIAL = (
    "127.0.0.1 0.0.0.0 255.255.255.255 224.0.0.1 239.1.2.3 240.0.0.1 ::1 :: ff02::1 ff02::2 ff0e::5 "
    "::ffff:10.0.0.1"
).split()
MAC = 0x020000000001


def new_mutator(seed: int) -> Mutator:
    routed, special = ([ipaddress.ip_address(a).packed for a in t] for t in (ROUTED, SPECIAL))
    return Mutator(seed, routed, special, MAC.to_bytes(6))


@lru_cache(1)
def mutator() -> Mutator:
    return new_mutator(SEED)


def with_ethernet(host: Host) -> Host:
    """The host with an Ethernet device, a VLAN on it, and sockets of all kinds."""
    add_device(host, "e0", kind="dummy", mac=MAC)
    add_device(host, "e0.5", kind="vlan", parent="e0", vlan_id=5, mac=MAC)
    for name, network in (("e0", 9), ("e0.5", 10)):
        add_address(host, name, Address(4, number(f"10.{network}.0.1"), 24))
        add_address(host, name, Address(6, number(f"2001:db8:{network:x}::1"), 64))
    for family in (4, 6):
        hop = Nexthop("e0")
        add_route(host, Route(family, 0, 0, -1, scope=-1, metric=9999, nexthops=[hop]))
    host.listeners += [
        Listener(4, number("10.0.0.1"), 53), Listener(6, 0, 443, device="r1"),
        Listener(4, 0, 2000, peer=number("10.0.0.2"), peer_port=1000),
        Listener(6, 0, 53, v6only=False, rcvbuf=4096, reader="none"), Listener(4, 0, 7, protocol=136),
    ]  # fmt: skip
    return host


SWITCHES = st.fixed_dictionaries({
    "route_hint": st.sampled_from(["on", "off", "strict"]),
    "receive_list": st.sampled_from(["1", "8", "64"]),
    "neighbours": st.sampled_from(["assume", "strict"]),
})  # fmt: skip


def sizes(netns: Netns) -> int:
    """Bytes of all that packets may change."""
    return sum(array.nbytes for array in netns.state)


def check_sent(netns: Netns) -> None:
    """What the host sent can be read: IP lengths and checksums are those of the bytes."""
    for device, batch in netns.take_output_batches().items():
        at = 14 if netns.output_link_type(device) == LINK_ETHERNET else 0
        for raw, wire in zip(batch, batch.wire_length.tolist()):
            assert at < len(raw) <= wire, raw.hex()
            if raw[at] >> 4 == 4:
                header = raw[at : at + (raw[at] & 15) * 4]
                assert internet_checksum(header) == 0 and len(header) >= 20, raw.hex()
                assert int.from_bytes(raw[at + 2 : at + 4]) == wire - at, raw.hex()
            else:
                assert raw[at] >> 4 == 6, raw.hex()
                payload = int.from_bytes(raw[at + 4 : at + 6])
                # length 0 before hop-by-hop options could be a jumbogram: Linux keeps all of it
                assert payload + 40 == wire - at or raw[at + 4 : at + 7] == bytes(3), raw.hex()


def receive(netns: Netns, batch: PacketBatch, alone: Netns | None = None) -> None:
    """Receive a batch and check all that must hold whatever the packets are.

    `alone` is an equal host that gets the batch, too, and does not keep what it sends.
    """
    before = sizes(netns) if len(netns.state.out) else None
    verdicts = netns.receive(batch, collect_output=True)
    netns.close_accounts()
    assert len(verdicts) == len(batch)
    assert verdicts.verdict.min() >= 0 and verdicts.verdict.max() < len(VERDICTS)
    assert verdicts.reason.min() >= 0 and verdicts.reason.max() < len(REASON_NAMES)
    forwarded = verdicts.verdict == VERDICTS.index("forwarded")
    assert (verdicts.out_device[forwarded] >= 0).all()
    assert verdicts.out_device.max() < len(netns.host.devices)
    assert (verdicts.socket < len(netns.host.listeners)).all()
    assert before is None or sizes(netns) == before
    check_sent(netns)
    if alone is not None:  # keeping what was sent changes nothing
        assert np.array_equal(alone.receive(batch).table, verdicts.table)
        assert alone.counters() == netns.counters()
        assert np.array_equal(alone.state.devstat, netns.state.devstat)


def culprit(host: Host, switches: dict[str, str], batch: PacketBatch) -> str:
    """The packet with which it happens, as something to paste."""
    netns = Netns(host, switches=switches)
    for k in range(len(batch)):
        try:
            receive(netns, batch.select(slice(k, k + 1)))
        except Exception as wrong:
            raw = bytes(batch.data[batch.offset[k] : batch.offset[k] + batch.length[k]])
            return (
                f"{type(wrong).__name__}: {wrong}\npacket {k} on device {batch.device[k]}, link type "
                f"{batch.link_type[k]}, wire length {batch.wire_length[k]}, mark {batch.mark[k]}: {raw.hex()}"
            )  # fmt: skip
    return "no packet alone, only all of them together"


@pytest.mark.parametrize("family", [4, 6])
@settings(max_examples=max(1, PACKETS // 2 // AT_ONCE), phases=[Phase.generate])
@given(data=st.data())
def test_damaged_packets(family: int, data: st.DataObject) -> None:
    host = with_ethernet(data.draw(hosts(family)))
    switches = data.draw(SWITCHES)
    batch = mutator().batch(AT_ONCE, len(host.devices))
    try:
        receive(Netns(host, switches=switches), batch, Netns(host, switches=switches))
    except Exception as wrong:
        raise AssertionError(
            f"{type(wrong).__name__}: {wrong}\n{culprit(host, switches, batch)}\n{switches}"
        ) from wrong


def test_the_damage_reaches_all_of_the_path() -> None:
    """Else the test above shows little: most reasons and all verdicts must come up."""
    totals = dict.fromkeys(REASON_NAMES, 0)
    seen: set[str] = set()
    host = with_ethernet(router())
    netns = Netns(host)
    verdicts = netns.receive(new_mutator(7).batch(4000, 6))
    for verdict, reason in zip(verdicts.verdict_names, verdicts.reason_names):
        totals[reason] += 1
        seen.add(verdict)
    assert seen == set(VERDICTS) - {"none"}
    assert sum(n > 0 for n in totals.values()) >= 20, totals
    assert verdicts.verdict_names.count("forwarded") > 500
    assert verdicts.verdict_names.count("delivered") > 80
    counters = netns.counters()
    assert counters["IcmpOutDestUnreachs"] > 5 and counters["Icmp6OutDestUnreachs"] > 5
    assert counters["IcmpOutParmProbs"] > 0 and counters["Icmp6OutParmProblems"] > 0


LOADS = {"load8": 1, "load16be": 2, "load32be": 4, "load32le": 4, "load64be": 8}
STORES = {"store8": 1, "store16be": 2, "store32be": 4}


@pytest.mark.skipif(not (CHECKED and COMPILED), reason="the checked build alone verifies ranges")
def test_the_checked_build_notices() -> None:
    """What the long run above relies on."""
    arena = np.zeros(16, np.uint8)
    for name, width in (LOADS | STORES).items():
        access, value = getattr(memory, name), (() if name in LOADS else (1,))
        for index in (0, 16 - width):
            access(arena, index, *value)
        for index in (-1, 16 - width + 1, 16, 1 << 40):
            with pytest.raises(IndexError):
                access(arena, index, *value)
    for where in ((9, 0, 8), (0, 9, 8), (-1, 0, 8), (0, -1, 8), (0, 0, 17)):
        with pytest.raises(IndexError):
            memory.copy(arena, where[0], arena, where[1], where[2])


def test_a_batch_that_lies_about_its_arena_is_refused() -> None:
    batch = mutator().batch(4, 1)
    batch.length[3] += 1 << 20
    batch.wire_length[3] = batch.length[3]
    with pytest.raises(ValueError, match="outside"):
        Netns(with_ethernet(router())).receive(batch)


def test_the_damage_is_the_same_each_time() -> None:
    one, other = (new_mutator(3).batch(50, 3) for _ in range(2))
    assert np.array_equal(one.data, other.data) and np.array_equal(one.device, other.device)
