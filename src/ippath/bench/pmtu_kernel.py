"""The running kernel's UDP sends: a process with a namespace of its own (needs root).

`python -m ippath.bench.pmtu_kernel FAMILY DESTINATIONS COUNT` sends COUNT datagrams of SIZE bytes for each
line that comes in, by sendmmsg with BATCH of them to a call, through a gateway into a TUN device
whose queue nobody reads; it answers how many were sent.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys

import numpy as np

from ippath.bench.pmtu_traffic import DEVICE_LINES, PORT, SIZE, destinations

BATCH = 1000  # messages to a call; the kernel takes up to 1,024
HEADER, ADDRESS = 64, 28  # bytes of struct mmsghdr and of the larger address


def _messages(family: int, count: int, keep: list[np.ndarray]) -> np.ndarray:
    """struct mmsghdr for each destination: uint8[n, HEADER]; `keep` gets what they point to."""
    to = destinations(family, count)
    names = np.zeros((count, ADDRESS), np.uint8)
    kind = socket.AF_INET if family == 4 else socket.AF_INET6
    names[:, :2] = np.frombuffer(np.uint16(kind).tobytes(), np.uint8)
    names[:, 2:4] = np.frombuffer(PORT.to_bytes(2), np.uint8)
    if family == 4:
        names[:, 4:8] = to.astype(">u4").view(np.uint8).reshape(-1, 4)
    else:
        names[:, 8:24] = to
    payload, vector = np.zeros(SIZE, np.uint8), np.zeros(2, np.uint64)
    vector[:] = payload.ctypes.data, SIZE
    headers = np.zeros((count, HEADER // 8), np.uint64)
    headers[:, 0] = names.ctypes.data + ADDRESS * np.arange(count)
    headers[:, 1] = 16 if family == 4 else ADDRESS
    headers[:, 2], headers[:, 3] = vector.ctypes.data, 1
    keep += [names, payload, vector]
    return headers


def main(family: int, many: int, count: int) -> None:
    """Make the namespace, send for each line and say how many were sent."""
    from ippath.verify.namespace import enter_new_network, open_tun

    enter_new_network()
    device = open_tun("r0", ethernet=False, napi=False)
    subprocess.run(["ip", "-batch", "-"], input=DEVICE_LINES, text=True, check=True)
    keep: list[np.ndarray] = []
    headers = np.tile(_messages(family, many, keep), (-(-count // many), 1))[:count]
    kind = socket.AF_INET if family == 4 else socket.AF_INET6
    sender = socket.socket(kind, socket.SOCK_DGRAM)
    send = ctypes.CDLL(None, use_errno=True).sendmmsg
    print("ready", flush=True)
    for _ in sys.stdin:
        done = 0
        while done < count:
            at = ctypes.c_void_p(headers.ctypes.data + done * HEADER)
            sent = send(sender.fileno(), at, min(BATCH, count - done), 0)
            if sent <= 0:
                sys.exit(os.strerror(ctypes.get_errno()))
            done += sent
        print(done, flush=True)
    os.close(device)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
