"""A DNS server behind a router with a small-MTU tunnel, in one process and without root.

    client 192.0.2.10 ── router ══ tunnel, MTU 1400 ══ far router ── server 198.51.100.53

The server's large answers (1,500 bytes on its own link) do not fit the tunnel.  With path MTU
discovery they carry DF and vanish, the server's error queue says why; with IP_PMTUDISC_DONT, as DNS
servers do it, the far router cuts them and the client's host puts them together.
"""

from __future__ import annotations

import ippath.socket as socket
from ippath import Lab, Link, Netns
from ippath.config import parse_host

CLIENT = """\
ip link add eth0 type veth
ip link set eth0 up
ip addr add 192.0.2.10/24 dev eth0
ip route add default via 192.0.2.1
"""
ROUTER = """\
net.ipv4.ip_forward = 1
ip link add lan type veth
ip link add tunnel type tun
ip link set lan up
ip link set tunnel up
ip addr add {lan} dev lan
ip addr add {tunnel} dev tunnel
ip route add default via {far} dev tunnel
"""
SERVER = """\
ip link add eth0 type veth
ip link set eth0 up
ip addr add 198.51.100.53/24 dev eth0
ip route add default via 198.51.100.1
"""
SERVICE = ("198.51.100.53", 53)
LARGE = 1472  # bytes of payload: just fits a link with an MTU of 1500


def build(seed: int = 1) -> tuple[Lab, Netns, Netns]:
    """The network; returns the lab, the client's and the server's host."""
    lab = Lab(seed=seed)
    near = ROUTER.format(lan="192.0.2.1/24", tunnel="10.9.0.1/30", far="10.9.0.2")
    away = ROUTER.format(lan="198.51.100.1/24", tunnel="10.9.0.2/30", far="10.9.0.1")
    client, router, far, server = (lab.add(parse_host(t)) for t in (CLIENT, near, away, SERVER))
    lab.connect(client, "eth0", router, "lan", Link(delay=0.001))
    lab.connect(router, "tunnel", far, "tunnel", Link(delay=0.02, rate=10e6, mtu=1400))
    lab.connect(far, "lan", server, "eth0", Link(delay=0.001))
    return lab, client, server


def ask(lab: Lab, client: Netns, server: Netns, mode: int, size: int) -> str:
    """One question with an answer of `size` bytes; says what came of it."""
    asked = lab.now_ns
    with server.socket() as service, client.socket() as resolver:
        service.setsockopt(socket.SOL_IP, socket.IP_MTU_DISCOVER, mode)
        service.setsockopt(socket.SOL_IP, socket.IP_RECVERR, 1)
        service.bind(SERVICE)
        service.settimeout(1)
        resolver.settimeout(1)
        resolver.sendto(b"question", SERVICE)
        question, who = service.recvfrom(512)
        service.sendto(question.ljust(size, b"."), who)
        try:
            answer = resolver.recv(4096)
        except TimeoutError:
            entry = service.recvmsg(2048, 512, socket.MSG_ERRQUEUE)[1][0][2]
            mtu = int.from_bytes(entry[8:12], "little")
            return f"no answer; the server's error queue: too large, the path takes {mtu} bytes"
        return f"{len(answer)} bytes after {(lab.now_ns - asked) / 1e6:.1f} ms"


def main() -> None:
    """Ask for small and large answers in both modes."""
    lab, client, server = build()
    for name, mode in (("WANT", socket.IP_PMTUDISC_WANT), ("DONT", socket.IP_PMTUDISC_DONT)):
        for size in (100, LARGE):
            print(f"{size:5} bytes, {name}: {ask(lab, client, server, mode, size)}")
    made = client.totals().reassembly["ipv4"]
    print(
        f"the client's host put {made['reassembled']} datagram together from {made['fragments']} fragments"
    )


if __name__ == "__main__":
    main()
