"""Random hosts and packet streams for property tests."""

from __future__ import annotations

import ipaddress

from hypothesis import strategies as st

from ippath.fib.control import (
    ControlError, add_address, add_device, add_route, add_rule, new_host, set_sysctl,
)  # fmt: skip
from ippath.model import Address, Host, Listener, Nexthop, Route, Rule
from tests.packets import ip

DEVICES = ("r0", "r1", "r2")


def number(text: str) -> int:
    return int(ipaddress.ip_address(text))


def router() -> Host:
    """Three raw IP devices, 10.N.0.1/24 and 2001:db8:N::1/64 on each, forwarding, quiet ICMP limits."""
    host = new_host()
    set_sysctl(host, "net.ipv4.ip_forward", 1)
    set_sysctl(host, "net.ipv6.conf.all.forwarding", 1)
    set_sysctl(host, "net.ipv4.icmp_ratemask", 0)
    set_sysctl(host, "net.ipv4.icmp_msgs_per_sec", 0)
    set_sysctl(host, "net.ipv6.icmp.ratelimit", 0)
    for k, name in enumerate(DEVICES):
        add_device(host, name, kind="tun")
        add_address(host, name, Address(4, number(f"10.{k}.0.1"), 24))
        add_address(host, name, Address(6, number(f"2001:db8:{k}::1"), 64))
    host.listeners = [Listener(4, 0, 2000), Listener(6, 0, 2001)]
    return host


# few addresses, so that packets, routes and rules meet
_LAST4 = st.sampled_from(["0.1", "0.2", "0.255", "0.130", "1.7", "64.9"])
ROUTED4 = st.one_of(
    st.builds(lambda k, last: f"10.{k}.{last}", st.integers(0, 3), _LAST4),
    st.builds(lambda a, last: f"{a}.1.{last}", st.sampled_from([77, 78]), _LAST4),
)
ROUTED6 = st.one_of(
    st.builds(
        lambda k, last: f"2001:db8:{k:x}::{last:x}",
        st.sampled_from([0, 1, 2, 3, 0x77]),
        st.sampled_from([0, 1, 2, 0xFFFF]),
    ),
    st.just("3000::1"),
)
# and those of which route input decides before, or instead of, a look-up of the destination
ADDRESSES4 = ROUTED4 | st.sampled_from(
    ["127.0.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "239.1.2.3", "240.0.0.1"]
)
ADDRESSES6 = ROUTED6 | st.sampled_from(["::1", "::", "fe80::1", "fe80::2", "ff02::1", "ff0e::5"])
_BASES4 = st.sampled_from(
    ["77.0.0.0", "77.1.0.0", "77.1.1.0", "77.1.64.0", "78.0.0.0", "10.3.0.0", "0.0.0.0"]
)
_BASES6 = st.sampled_from(["2001:db8:77::", "2001:db8::", "3000::", "2001:db8:3::", "::"])


@st.composite
def routes(draw, family: int) -> Route:
    """A route as a person might type it; the host may refuse it."""
    bits = 32 if family == 4 else 128
    base = number(draw(_BASES4 if family == 4 else _BASES6))
    plen = draw(
        st.sampled_from([0, 8, 16, 18, 24, 32] if family == 4 else [0, 16, 32, 48, 64, 128])
    )
    kind = draw(
        st.sampled_from(["unicast"] * 6 + ["blackhole", "unreachable", "prohibit", "throw"])
    )

    def hop() -> Nexthop:
        k = draw(st.integers(0, 2))
        if draw(st.booleans()):
            gateway = number(f"10.{k}.0.2" if family == 4 else f"2001:db8:{k}::2")
            return Nexthop(gateway=gateway, weight=draw(st.integers(1, 3)))
        return Nexthop(DEVICES[k])

    hops = [hop() for _ in range(draw(st.sampled_from([1, 1, 1, 2])))]
    return Route(
        family,
        base >> (bits - plen) << (bits - plen),
        plen,
        draw(st.sampled_from([-1, -1, 100])),
        kind,
        scope=-1,
        tos=draw(st.sampled_from([0, 0, 0, 16])) if family == 4 else 0,
        metric=draw(st.sampled_from([0, 0, 5])),
        nexthops=hops,
        **_source(draw) if family == 6 else {},
    )


def _source(draw) -> dict[str, int]:
    if draw(st.integers(0, 3)):
        return {}
    return {"src": number("2001:db8:1::"), "src_plen": 48}


@st.composite
def rules(draw, family: int) -> Rule:
    """A policy rule."""
    rule = Rule(family, draw(st.sampled_from([-1, 5, 10, 33000])))
    rule.action = draw(
        st.sampled_from(["lookup"] * 4 + ["unreachable", "prohibit", "blackhole", "nop"])
    )
    rule.table = draw(st.sampled_from([254, 100, 100, 253]))
    rule.invert = draw(st.integers(0, 5)) == 0
    which = draw(st.integers(0, 6))
    if which == 0:
        base = "10.1.0.0" if family == 4 else "2001:db8:1::"
        rule.src, rule.src_plen = number(base), 16 if family == 4 else 48
    elif which == 1:
        base = "77.0.0.0" if family == 4 else "2001:db8:77::"
        rule.dst, rule.dst_plen = number(base), 8 if family == 4 else 48
    elif which == 2:
        rule.iif = draw(st.sampled_from([*DEVICES, "gone"]))
    elif which == 3:
        rule.mark, rule.mask = 1, 0xFFFFFFFF
    elif which == 4:
        rule.tos = 16
    elif which == 5:
        rule.protocol, rule.dport = 17, (2000, 2001)
    else:
        rule.suppress_prefixlength = draw(st.sampled_from([0, 8]))
    return rule


@st.composite
def hosts(draw, family: int, custom_rules: bool | None = None) -> Host:
    """A router with random routes, rules and source checks."""
    host = router()
    for route in draw(st.lists(routes(family), max_size=8)):
        try:
            add_route(host, route, draw(st.sampled_from(["add", "append", "replace"])))
        except ControlError:
            pass
    with_rules = draw(st.booleans()) if custom_rules is None else custom_rules
    for rule in draw(st.lists(rules(family), max_size=3)) if with_rules else []:
        try:
            add_rule(host, rule)
        except ControlError:
            pass
    for name in DEVICES:
        for key, values in (
            ("rp_filter", [0, 0, 1, 2]), ("accept_local", [0, 0, 1]), ("route_localnet", [0, 0, 1]),
            ("forwarding", [1, 1, 1, 0]), ("send_redirects", [0, 1]), ("src_valid_mark", [0, 1]),
        ):  # fmt: skip
            set_sysctl(host, f"net.ipv4.conf.{name}.{key}", draw(st.sampled_from(values)))
    set_sysctl(host, "net.ipv4.conf.all.send_redirects", draw(st.sampled_from([0, 1])))
    return host


@st.composite
def packets(draw, family: int) -> bytes:
    """An IP packet with addresses that the hosts above know."""
    addresses = ADDRESSES4 if family == 4 else ADDRESSES6
    return ip(
        draw(addresses),
        draw(addresses),
        dport=draw(st.sampled_from([2000, 2001, 9])),
        ttl=draw(st.sampled_from([64, 64, 64, 1])),
        tos=draw(st.sampled_from([0, 0, 16, 1])),
        size=draw(st.sampled_from([0, 8, 100])),
    )
