"""Is this one of the host's own addresses or groups? Small sets kept in arrays."""

from __future__ import annotations

from ippath.fib.multipath import mix32
from ippath.jit import hot, kernel
from ippath.tables import (
    ADDR_FAMILY, ADDR_PLEN, ADDR_PREFIX_LO, GROUP_DEVICE, GROUP_FAMILY, GROUP_HI, GROUP_LO,
)  # fmt: skip
from ippath.wire.ipv4 import is_limited_broadcast, is_multicast, is_zeronet


@hot
def is_local4(fib, address):
    """Is the IPv4 address one of this host's, on any device (kernel: inet_lookup_ifaddr_rcu)?"""
    keys = fib.local_key
    mask = keys.shape[0] - 1
    slot = mix32(0, address) & mask
    while keys[slot] >= 0:
        if keys[slot] == address:
            return True
        slot = (slot + 1) & mask
    return False


@kernel
def is_elsewhere(h, address):
    """Is it another host's IPv4 address: not ours, no group, no broadcast (kernel: inet_addr_type)?"""
    if is_multicast(address) or is_limited_broadcast(address) or is_zeronet(address):
        return False
    if is_local4(h.fib4, address):
        return False
    for row in range(h.address.shape[0]):
        if h.address[row, ADDR_FAMILY] == 4 and h.address[row, ADDR_PLEN] < 31:
            last = (1 << (32 - h.address[row, ADDR_PLEN])) - 1
            if address == h.address[row, ADDR_PREFIX_LO] | last:
                return False
    return True


@kernel
def has_joined(h, family, device, hi, lo):
    """Has the device joined the multicast group (kernel: ip_check_mc_rcu, ipv6_chk_mcast_addr)?"""
    group = h.group
    for row in range(group.shape[0]):
        if (
            group[row, GROUP_LO] == lo
            and group[row, GROUP_HI] == hi
            and group[row, GROUP_DEVICE] == device
            and group[row, GROUP_FAMILY] == family
        ):
            return True
    return False
