"""The running kernel's routes by netlink: a process with a namespace of its own (needs root).

`python -m ippath.bench.fib_kernel FILE FAMILY` loads the prefixes of FILE and answers lines, as
`ippath.bench.fib_peers.FibProcess` asks them.  Look-ups are RTM_GETROUTE with RTM_F_FIB_MATCH, many
requests to a message; the value of a prefix is its route's metric.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

from ippath.bench.fib_peers import FibProcess, rows_of
from ippath.bench.full_tables import Prefixes

NEWROUTE, DELROUTE, GETROUTE = 24, 25, 26
REQUEST, CREATE = 1, 0x400
FIB_MATCH = 0x2000
DST, OIF, PRIORITY = 1, 4, 6  # attributes
MAIN, STATIC, LINK, UNICAST = 254, 4, 253, 1
AT_ONCE = 500  # requests to a message: their answers have to fit the socket's buffer
SO_RCVBUFFORCE, SO_SNDBUFFORCE = 33, 32
HEADER, ROUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBBBBBI")


class KernelFib(FibProcess):
    """A process with the table in its namespace."""

    def __init__(self, folder: Path, table: Prefixes):
        path = self.save(folder, rows_of(table, table.key, table.length, table.value))
        words = [sys.executable, "-m", "ippath.bench.fib_kernel", str(path), str(table.family)]
        super().__init__(words, folder, table)


class _Routes:
    """Netlink requests about routes of one family."""

    def __init__(self, family: int):
        self._size = 4 if family == 4 else 16
        self._family = socket.AF_INET if family == 4 else socket.AF_INET6
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        for option in (SO_RCVBUFFORCE, SO_SNDBUFFORCE):
            self._socket.setsockopt(socket.SOL_SOCKET, option, 1 << 26)
        self._socket.bind((0, 0))

    def _request(
        self, kind: int, flags: int, row: np.void, length: int, more: bytes = b""
    ) -> bytes:
        address = row["address"].tobytes()[: self._size]
        match = FIB_MATCH if kind == GETROUTE else 0
        table = (MAIN, STATIC, LINK, UNICAST) if kind != GETROUTE else (0, 0, 0, 0)
        body = ROUTE.pack(self._family, length, 0, 0, *table, match)
        body += struct.pack("=HH", 4 + self._size, DST) + address + more
        return HEADER.pack(HEADER.size + len(body), kind, flags | REQUEST, 0, 0) + body

    def _change(self, kind: int, row: np.void) -> bytes:
        more = struct.pack("=HHIHHI", 8, OIF, 1, 8, PRIORITY, int(row["value"]))
        flags = CREATE if kind == NEWROUTE else 0
        return self._request(kind, flags, row, int(row["length"]), more)

    def change(self, kind: int, rows: np.ndarray) -> None:
        """Add or delete; raises OSError if the kernel refuses one."""
        for at in range(0, len(rows), AT_ONCE):
            self._socket.send(b"".join(self._change(kind, row) for row in rows[at : at + AT_ONCE]))
        self._socket.setblocking(False)
        try:
            refused = -struct.unpack_from("=i", self._socket.recv(4096), HEADER.size)[0]
        except BlockingIOError:
            return
        finally:
            self._socket.setblocking(True)
        raise OSError(refused, "the kernel refuses a route")

    def requests(self, rows: np.ndarray) -> list[bytes]:
        """Messages that ask for all rows."""
        bits = 8 * self._size
        each = [self._request(GETROUTE, 0, row, bits) for row in rows]
        return [b"".join(each[at : at + AT_ONCE]) for at in range(0, len(each), AT_ONCE)]

    def look_up(self, messages: list[bytes], count: int) -> int:
        """Sum of the values found; the answers to a message come before the next one is sent."""
        buffer, total = bytearray(4096), 0
        receive = self._socket.recv_into
        for message in messages:
            self._socket.send(message)
            asked = min(AT_ONCE, count)
            count -= asked
            for _ in range(asked):
                total += _metric(buffer, receive(buffer))
        return total


def _metric(message: bytearray, size: int) -> int:
    if struct.unpack_from("=H", message, 4)[0] != NEWROUTE:
        return 0  # no route
    at = HEADER.size + ROUTE.size
    while at < size:
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == PRIORITY:
            return struct.unpack_from("=I", message, at + 4)[0]
        at += (length + 3) & ~3
    return 0


def main(path: str, family: int) -> None:
    """Load the prefixes and answer."""
    from ippath.verify.namespace import enter_new_network

    kind = [("address", np.uint8, 16), ("length", "u4"), ("value", "u4")]
    rows = np.fromfile(path, kind)
    enter_new_network()
    for words in (("link", "set", "lo", "up"), ("addr", "flush", "dev", "lo")):
        subprocess.run(["ip", *words], check=True)
    routes = _Routes(family)
    routes.change(NEWROUTE, rows)
    print("ready", flush=True)
    sets: list[tuple[list[bytes], int]] = []
    for line in sys.stdin:
        what, _, rest = line.strip().partition(" ")
        answer = 0
        if what == "q":
            queries = np.fromfile(rest, kind)
            answer = len(sets)
            sets.append((routes.requests(queries), len(queries)))
        elif what == "l":
            answer = routes.look_up(*sets[int(rest.split()[0])])
        elif what == "u":
            some = rows[: int(rest)]
            routes.change(DELROUTE, some)
            routes.change(NEWROUTE, some)
        print(answer, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
