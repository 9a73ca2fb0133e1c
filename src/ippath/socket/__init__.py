"""UDP sockets of a modelled host, used like those of the standard library.

>>> import ippath.socket as socket
>>> from ippath import Netns
>>> netns = Netns.from_file("host.txt")
>>> sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, netns=netns)
>>> sock.bind(("127.0.0.1", 0))

`Netns.socket` is the same.  Nothing here opens a socket of this machine, sleeps or looks at a clock.
"""

from __future__ import annotations

from ippath.socket.batches import Datagrams
from ippath.socket.constants import *  # noqa: F403
from ippath.socket.errors import QueuedError
from ippath.socket.receiving import WouldBlockForever
from ippath.socket.udp import Socket, socket

__all__ = ["Datagrams", "QueuedError", "Socket", "WouldBlockForever", "error", "socket", "timeout"]
error, timeout = OSError, TimeoutError
