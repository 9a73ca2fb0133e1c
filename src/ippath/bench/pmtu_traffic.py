"""What `pmtu` sends, and from where."""

from __future__ import annotations

import ipaddress

import numpy as np

SIZE, PORT = 16, 53  # bytes of a datagram, and where it goes
OWN = {4: "10.1.0.1", 6: "2001:db8:1::1"}
ROUTER = {4: "10.1.0.7", 6: "2001:db8:1::7"}  # that reports smaller MTUs
FIRST = {
    4: int(ipaddress.ip_address("80.0.0.1")),
    6: int(ipaddress.ip_address("2001:db8:80::1")),
}
STEP = 7  # between two destinations
DEVICE_LINES = """\
link set r0 up
addr add 10.1.0.1/24 dev r0
addr add 2001:db8:1::1/64 dev r0 nodad
route add 80.0.0.0/8 via 10.1.0.9
route add 2001:db8:80::/64 via 2001:db8:1::9
"""


def destinations(family: int, count: int) -> np.ndarray:
    """Addresses behind one gateway: uint32[n], or for IPv6 uint8[n, 16]."""
    if family == 4:
        return (FIRST[4] + STEP * np.arange(count)).astype(np.uint32)
    packed = np.zeros((count, 2), ">u8")
    packed[:, 0] = FIRST[6] >> 64
    packed[:, 1] = (FIRST[6] & 0xFFFFFFFFFFFFFFFF) + STEP * np.arange(count)
    return packed.view(np.uint8).reshape(-1, 16)


def texts(family: int, count: int) -> list[str]:
    """The same as people write them."""
    return [str(ipaddress.ip_address(FIRST[family] + STEP * k)) for k in range(count)]
