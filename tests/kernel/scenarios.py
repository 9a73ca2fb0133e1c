"""The scenarios: a host in `ip` lines, and packets to send into it.

A pure table without input or output.  Everything is at home in 10.0.0.0/24 and 2001:db8::/64 on r0,
10.1.0.0/24 and 2001:db8:1::/64 on r1; the host is .1 and ::1 on both and forwards.  On Ethernet the
neighbours .2, .3, ::2 and ::3 are known.  Packets enter on r0 unless the scenario says otherwise.
"""

from __future__ import annotations

from ippath.verify.scenario import Inject, Scenario, Step

_SCENARIOS: dict[str, Scenario] = {}


def scenario(
    name: str,
    subject: str,
    host: str,
    *steps: Step | dict[str, bytes],
    ignore: tuple[str, ...] = (),
) -> None:
    """Put a scenario into the table; a plain dict of packets is injected one by one on r0."""
    if name in _SCENARIOS:
        raise ValueError(f"two scenarios are called {name}")
    made = tuple(Inject("r0", step) if isinstance(step, dict) else step for step in steps)
    _SCENARIOS[name] = Scenario(name, subject, host.strip() + "\n", made, ignore)


_DEVICES_TUN = """
ip link add r0 type tun
ip link add r1 type tun
"""
_DEVICES_ETHERNET = """
ip link add r0 address 02:00:00:00:00:01 type veth
ip link add r1 address 02:00:00:00:01:01 type veth
"""
_FORWARD = """
net.ipv4.ip_forward = 1
net.ipv6.conf.all.forwarding = 1
"""
_ADDRESSES = """
ip link set lo up
ip link set r0 up
ip link set r1 up
ip addr add 10.0.0.1/24 dev r0
ip addr add 2001:db8:0::1/64 dev r0
ip addr add 10.1.0.1/24 dev r1
ip addr add 2001:db8:1::1/64 dev r1
"""
_NEIGHBOURS = "".join(
    f"ip neigh add {prefix}{host} lladdr 02:00:00:00:{net:02x}:{host:02x} dev r{net} nud permanent\n"
    for net in (0, 1)
    for host in (2, 3)
    for prefix in (f"10.{net}.0.", f"2001:db8:{net}::")
)


def router(*lines: str, forward: bool = True) -> str:
    """The default host with raw IP devices, and more lines."""
    text = _DEVICES_TUN + (_FORWARD if forward else "") + _ADDRESSES
    return text.strip().replace("\n\n", "\n") + "\n" + "\n".join(lines)


def ethernet(*lines: str, forward: bool = True) -> str:
    """The default host with Ethernet devices and known neighbours, and more lines."""
    text = _DEVICES_ETHERNET + (_FORWARD if forward else "") + _ADDRESSES + _NEIGHBOURS
    return text.strip().replace("\n\n", "\n") + "\n" + "\n".join(lines)


def all_scenarios() -> list[Scenario]:
    """Every scenario in the order of the table."""
    from tests.kernel import (  # noqa: F401  (each fills the table)
        scenarios_conntrack,
        scenarios_ethernet,
        scenarios_frag4,
        scenarios_frag6,
        scenarios_icmp6,
        scenarios_ipv4,
        scenarios_ipv6,
        scenarios_multipath,
        scenarios_nexthop,
        scenarios_pmtu,
        scenarios_redirect,
        scenarios_regress,
        scenarios_route,
        scenarios_send,
        scenarios_udp,
    )

    return list(_SCENARIOS.values())
