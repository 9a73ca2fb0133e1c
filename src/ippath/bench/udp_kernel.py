"""The running kernel's UDP: a process with a namespace and devices of its own (needs root).

`python -m ippath.bench.udp_kernel` does what lines ask, and answers each with a number of datagrams:

    sendmmsg FAMILY COUNT SIZE SEGMENT   messages of SIZE bytes, 1,024 to a call (SEGMENT: UDP_SEGMENT)
    sendto FAMILY COUNT SIZE             the standard library's call, one each
    recvmmsg FAMILY COUNT SIZE           through a veth pair, as many to a call as came

What is sent goes into a TUN device whose queue is full: the kernel makes the packets and drops them.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Callable

import numpy as np

from ippath.bench.answering import Answering
from ippath.bench.framework import WorkloadError

UDP_SEGMENT, MSG_DONTWAIT = 103, 0x40
AT_ONCE = 1024  # UIO_MAXIOV
BURST = 128  # that the socket's memory holds
PORT, AIM = 9, {4: "10.9.0.9", 6: "2001:db8:9::9"}
OWN = {4: "10.0.0.1", 6: "2001:db8::1"}  # of the veth pair's end
DEVICES = """\
link set lo up
link set tun0 txqueuelen 2 up
addr add 10.9.0.1/24 dev tun0
addr add 2001:db8:9::1/64 dev tun0 nodad
"""


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Msghdr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p), ("namelen", ctypes.c_uint32), ("iov", ctypes.c_void_p),
        ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )  # fmt: skip


class _Mmsghdr(ctypes.Structure):
    _fields_ = (("header", _Msghdr), ("sent", ctypes.c_uint))


class Messages:
    """Messages of one size for `sendmmsg` and `recvmmsg`."""

    def __init__(self, count: int, size: int):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._data = ctypes.create_string_buffer(count * size)
        self._iov = (_Iovec * count)()
        self._all = (_Mmsghdr * count)()
        for k, (iov, message) in enumerate(zip(self._iov, self._all)):
            iov.base, iov.length = ctypes.addressof(self._data) + k * size, size
            message.header.iov, message.header.iovlen = ctypes.addressof(iov), 1

    def send(self, sock: socket.socket, count: int) -> int:
        """Send that many to the peer; how many went."""
        done = 0
        while done < count:
            got = self._libc.sendmmsg(
                sock.fileno(), self._all, min(count - done, len(self._all)), 0
            )
            if got <= 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            done += got
        return done

    def receive(self, sock: socket.socket) -> int:
        """Take what there is; how many came."""
        return max(
            0, self._libc.recvmmsg(sock.fileno(), self._all, len(self._all), MSG_DONTWAIT, None)
        )


def _socket(family: int) -> socket.socket:
    return socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_DGRAM)


def _sendmmsg(family: int, count: int, size: int, segment: int) -> int:
    with _socket(family) as sock:
        sock.connect((AIM[family], PORT))
        if segment:
            sock.setsockopt(socket.SOL_UDP, UDP_SEGMENT, segment)
        return Messages(min(count, AT_ONCE), size).send(sock, count)


def _sendto(family: int, count: int, size: int) -> int:
    payload, to = bytes(size), (AIM[family], PORT)
    with _socket(family) as sock:
        sock.bind(("", 0))
        for _ in range(count):
            sock.sendto(payload, to)
    return count


def _recvmmsg(family: int, count: int, size: int) -> int:
    from ippath.bench.frag_kernel import Ring
    from ippath.verify.packets import ip4, ip6, udp

    source = {4: "10.0.0.7", 6: "2001:db8::7"}[family]
    packet = (ip4 if family == 4 else ip6)(source, OWN[family], udp(7, PORT, bytes(size)))
    packets = np.frombuffer(packet * BURST, np.uint8).reshape(BURST, -1)
    got, messages = 0, Messages(BURST, size)
    ring = Ring("v0", packets.shape[1], family)
    with _socket(family) as sock:
        sock.bind((OWN[family], PORT))
        for begin in range(0, count, BURST):
            ring.send(packets[: min(BURST, count - begin)])
            while more := messages.receive(sock):
                got += more
    return got


_DEEDS: dict[str, Callable[..., int]] = {
    "sendmmsg": _sendmmsg, "sendto": _sendto, "recvmmsg": _recvmmsg,
}  # fmt: skip


class KernelUdp(Answering):
    """The process, asked line by line."""

    def __init__(self) -> None:
        super().__init__([sys.executable, "-m", "ippath.bench.udp_kernel"])

    def does(self, what: str, *numbers: int) -> None:
        """Have it done; raises WorkloadError if not all of it was."""
        done = self.ask(" ".join([what, *map(str, numbers)]))
        if done != numbers[1]:
            raise WorkloadError(f"the kernel did {done} of {numbers[1]} datagrams")


def main() -> None:
    """Make the namespace and its devices, and do what lines ask."""
    from ippath.bench import frag_kernel
    from ippath.verify.namespace import enter_new_network, open_tun

    enter_new_network()
    open_tun("tun0", ethernet=False, napi=False)
    lines = DEVICES + frag_kernel.DEVICES
    subprocess.run(["ip", "-batch", "-"], input=lines, text=True, check=True)
    print("ready", flush=True)
    for line in sys.stdin:
        what, *numbers = line.split()
        print(_DEEDS[what](*map(int, numbers)), flush=True)


if __name__ == "__main__":
    main()
