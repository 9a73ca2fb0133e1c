"""The running kernel's reassembly: a process with a namespace and a veth pair of its own (needs root).

`python -m ippath.bench.frag_kernel FILE SIZE FAMILY MEMORY` has packets of SIZE bytes from FILE and
takes them once for each line that comes in, as `ippath.bench.frag_peers.Counted` asks it: one end
of the pair sends (AF_PACKET with a ring of frames, no queueing discipline), the other end has the
address.  The kernel handles each packet before the next is sent.  Answers are datagrams that became
whole.
"""

from __future__ import annotations

import mmap
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SOL_PACKET, PACKET_VERSION, PACKET_TX_RING, PACKET_QDISC_BYPASS = 263, 10, 13, 20
TPACKET_V2, SEND_REQUEST, PACKET_HEADER = 1, 1, 32
ETHERNET, FRAMES, FRAME = 14, 1024, 2048
WAIT = 5.0  # seconds for the last of them
DEVICES = """\
link set lo up
link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
link set v0 up
link set v1 up
addr add 10.0.0.1/24 dev v1
addr add 2001:db8::1/64 dev v1 nodad
"""


class Ring:
    """Packets of one size into a device, as frames."""

    def __init__(self, device: str, size: int, family: int):
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self._socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        self._socket.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        blocks = struct.pack("=4I", FRAMES * FRAME, 1, FRAME, FRAMES)
        self._socket.setsockopt(SOL_PACKET, PACKET_TX_RING, blocks)
        self._socket.bind((device, 0))
        self._map = mmap.mmap(self._socket.fileno(), FRAMES * FRAME)
        frames = np.frombuffer(self._map, np.uint8).reshape(FRAMES, FRAME)
        self._status, self._length = (
            frames[:, :4].view("<u4")[:, 0],
            frames[:, 4:8].view("<u4")[:, 0],
        )
        begin = PACKET_HEADER + ETHERNET
        ether_type = b"\x08\x00" if family == 4 else b"\x86\xdd"
        header = bytes.fromhex("020000000002 020000000001") + ether_type
        frames[:, PACKET_HEADER:begin] = np.frombuffer(header, np.uint8)
        self._packets = frames[:, begin : begin + size]
        self._length[:] = ETHERNET + size
        self._next = 0

    def send(self, packets: np.ndarray) -> None:
        """Send uint8[n, size]; returns once the device has them all."""
        while len(packets):
            at = self._next
            count = min(len(packets), FRAMES - at)
            self._packets[at : at + count] = packets[:count]
            self._status[at : at + count] = SEND_REQUEST
            self._socket.send(b"")
            self._next = (at + count) % FRAMES
            packets = packets[count:]


def reassembled(family: int) -> int:
    """Datagrams that the namespace has put together so far."""
    if family == 6:
        lines = Path("/proc/self/net/snmp6").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Ip6ReasmOKs"))
    names, values = Path("/proc/self/net/snmp").read_text().splitlines()[:2]
    return int(dict(zip(names.split(), values.split()))["ReasmOKs"])


def main(path: str, size: int, family: int, memory: int) -> None:
    """Make the namespace, send all packets for each line and say how many datagrams that made."""
    from ippath.verify.namespace import enter_new_network, write_sysctl

    packets = np.fromfile(path, np.uint8).reshape(-1, size)
    enter_new_network()
    subprocess.run(["ip", "-batch", "-"], input=DEVICES, text=True, check=True)
    for name in ("ipv4.ipfrag", "ipv6.ip6frag"):
        write_sysctl(f"net.{name}_low_thresh", "0")
        write_sysctl(f"net.{name}_high_thresh", str(memory))
    write_sysctl("net.ipv4.ipfrag_max_dist", "0")
    ring = Ring("v0", size, family)
    print("ready", flush=True)
    for line in sys.stdin:
        wanted, before = int(line), reassembled(family)
        ring.send(packets)
        give_up = time.monotonic() + WAIT
        while (done := reassembled(family) - before) < wanted and time.monotonic() < give_up:
            pass
        print(done, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
