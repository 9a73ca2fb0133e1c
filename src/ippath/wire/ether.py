"""Link-level headers: from a captured frame to the network header.

`find_network` peels one frame: Ethernet with any number of VLAN tags, MPLS labels and PPPoE, Linux
cooked captures v1 and v2, BSD null/loop, PPP, and raw IP.  It only reads; what a host makes of the
result is decided in `ippath.rx.link`.
"""

from __future__ import annotations

import numpy as np

from ippath.batch import (
    LINK_ETHERNET, LINK_IPV4, LINK_IPV6, LINK_LINUX_SLL, LINK_LINUX_SLL2, LINK_LOOP, LINK_NULL,
    LINK_PPP, LINK_PPP_ETHER, LINK_PPP_HDLC, LINK_RAW,
)  # fmt: skip
from ippath.jit import cold, entry, hot, kernel
from ippath.handles import open_bytes
from ippath.wire.memory import load8, load16be, load32be, load32le

ETH_P_IP, ETH_P_IPV6, ETH_P_ARP = 0x0800, 0x86DD, 0x0806
ETH_P_8021Q, ETH_P_8021AD = 0x8100, 0x88A8
ETH_P_MPLS, ETH_P_MPLS_MULTICAST = 0x8847, 0x8848
ETH_P_PPPOE = 0x8864
ETHERNET_LEAST = 0x0600  # smaller values are lengths of IEEE 802.3 frames

# how the network header was found
LINK_FOUND, LINK_CUT, LINK_BAD, LINK_UNKNOWN = range(4)
# address families behind LINK_NULL and LINK_LOOP, in the numbers of the systems that write them
_AF_INET, _AF_INET6_BSD, _AF_INET6_FREEBSD, _AF_INET6_DARWIN, _AF_INET6_LINUX = 2, 24, 28, 30, 10
_PPP_IP, _PPP_IPV6, _PPP_MPLS = 0x0021, 0x0057, 0x0281
MAX_TAGS, MAX_LABELS = 8, 64


@kernel
def _ppp_ethertype(protocol):
    if protocol == _PPP_IP:
        return ETH_P_IP
    if protocol == _PPP_IPV6:
        return ETH_P_IPV6
    if protocol == _PPP_MPLS:
        return ETH_P_MPLS
    return 0


@hot
def _by_version(data, at, end):
    """(found, EtherType) of a packet that starts with its IP version."""
    if at >= end:
        return LINK_CUT, 0
    version = load8(data, at) >> 4
    return LINK_FOUND, ETH_P_IP if version == 4 else (ETH_P_IPV6 if version == 6 else 0)


@kernel
def _by_address_family(family):
    """EtherType behind an address family of BSD, Darwin or Linux."""
    if family == _AF_INET:
        return ETH_P_IP
    if (
        family == _AF_INET6_BSD
        or family == _AF_INET6_FREEBSD
        or family == _AF_INET6_DARWIN
        or family == _AF_INET6_LINUX
    ):
        return ETH_P_IPV6
    return 0


@cold
def _ppp(data, at, end):
    """(found, network offset, EtherType) of a PPP frame, with or without address and control."""
    if at + 2 <= end and load16be(data, at) == 0xFF03:
        at += 2
    if at + 1 > end or (at + 1 == end and load8(data, at) == 0xFF):
        return LINK_CUT, at, 0
    if load8(data, at) & 1:  # protocol field compressed to one byte (RFC 1661 section 6.5)
        return LINK_FOUND, at + 1, _ppp_ethertype(load8(data, at))
    if at + 2 > end:
        return LINK_CUT, at, 0
    return LINK_FOUND, at + 2, _ppp_ethertype(load16be(data, at))


@cold
def _other_link(data, start, end, link_type):
    """(status, network offset, EtherType) behind a link-level header that is not Ethernet."""
    if link_type == LINK_IPV4:
        return LINK_FOUND, start, ETH_P_IP
    if link_type == LINK_IPV6:
        return LINK_FOUND, start, ETH_P_IPV6
    if link_type == LINK_LINUX_SLL:
        if start + 16 > end:
            return LINK_CUT, start, 0
        return LINK_FOUND, start + 16, load16be(data, start + 14)
    if link_type == LINK_LINUX_SLL2:
        if start + 20 > end:
            return LINK_CUT, start, 0
        return LINK_FOUND, start + 20, load16be(data, start)
    if link_type == LINK_NULL or link_type == LINK_LOOP:
        if start + 4 > end:
            return LINK_CUT, start, 0
        family = load32be(data, start)
        if family > 0xFFFF:
            family = load32le(data, start)
        return LINK_FOUND, start + 4, _by_address_family(family)
    if link_type == LINK_PPP or link_type == LINK_PPP_HDLC:
        return _ppp(data, start, end)
    if link_type == LINK_PPP_ETHER:
        return LINK_FOUND, start, ETH_P_PPPOE
    return LINK_UNKNOWN, start, 0


@cold
def _peel(data, at, end, ethertype):
    """Take VLAN tags, PPPoE and MPLS off; the same result as `find_network`."""
    status, vlan_protocol, outer, inner = LINK_FOUND, 0, -1, -1
    for _ in range(MAX_TAGS):
        if ethertype == ETH_P_8021Q or ethertype == ETH_P_8021AD:
            if at + 4 > end:
                return LINK_CUT, at, ethertype, vlan_protocol, outer, inner
            if outer < 0:
                vlan_protocol, outer = ethertype, load16be(data, at)
            elif inner < 0:
                inner = load16be(data, at)
            ethertype, at = load16be(data, at + 2), at + 4
        elif ethertype == ETH_P_PPPOE:
            if at + 6 > end:
                return LINK_CUT, at, ethertype, vlan_protocol, outer, inner
            status, at, ethertype = _ppp(data, at + 6, end)
        elif ethertype == ETH_P_MPLS or ethertype == ETH_P_MPLS_MULTICAST:
            bottom = 0
            for _ in range(MAX_LABELS):
                if at + 4 > end:
                    return LINK_CUT, at, ethertype, vlan_protocol, outer, inner
                bottom = load8(data, at + 2) & 1
                at += 4
                if bottom:
                    break
            if bottom == 0:
                return LINK_BAD, at, ethertype, vlan_protocol, outer, inner
            status, ethertype = _by_version(data, at, end)
        else:
            break
    return status, at, ethertype, vlan_protocol, outer, inner


@hot
def find_network(data, start, end, link_type):
    """(status, network offset, EtherType, outer VLAN protocol, outer VLAN tag, inner VLAN tag).

    `start` and `end` bound the captured frame.  The EtherType is 0 where the frame carries none
    that is known; VLAN tags are the 16-bit TCI, or -1.
    """
    if link_type == LINK_ETHERNET:
        if start + 14 > end:
            return LINK_CUT, start, 0, 0, -1, -1
        status, at, ethertype = LINK_FOUND, start + 14, load16be(data, start + 12)
    elif link_type == LINK_RAW:
        at = start
        status, ethertype = _by_version(data, start, end)
    else:
        status, at, ethertype = _other_link(data, start, end, link_type)
    if status != LINK_FOUND:
        return status, at, ethertype, 0, -1, -1
    if ethertype == ETH_P_IP or ethertype == ETH_P_IPV6 or ethertype == ETH_P_ARP:
        return status, at, ethertype, 0, -1, -1
    return _peel(data, at, end, ethertype)


@entry
def find_networks(arena, offset, length, link_type, found):
    """What `find_network` says of each frame of a batch, into `found`, int64[n, 6].

    Network offsets count from the start of the frame.
    """
    data = open_bytes(arena)
    for row in range(offset.shape[0]):
        start = offset[row]
        status, at, ethertype, protocol, outer, inner = find_network(
            data, start, start + length[row], np.int64(link_type[row])
        )
        found[row, 0], found[row, 1], found[row, 2] = status, at - start, ethertype
        found[row, 3], found[row, 4], found[row, 5] = protocol, outer, inner
