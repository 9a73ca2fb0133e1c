"""Scenarios where the link layer matters: frames on Ethernet devices, neighbours."""

from __future__ import annotations

from ippath.verify.packets import MAC_R0, data, echo, echo6, eth, icmp6, ip4, ip6, udp
from ippath.verify.scenario import Burst, Inject, Together, Wait
from tests.kernel.scenarios import ethernet, scenario

OTHER = "02:00:00:00:00:77"
BROADCAST = "ff:ff:ff:ff:ff:ff"
MULTICAST = "01:00:5e:00:00:01"
MULTICAST6 = "33:33:00:00:00:01"
THERE, HERE = ("10.0.0.2", "10.1.0.2"), ("10.0.0.2", "10.0.0.1")
THERE6, HERE6 = ("2001:db8:0::2", "2001:db8:1::2"), ("2001:db8:0::2", "2001:db8:0::1")
_LISTEN = ("listen udp 0.0.0.0:2000", "listen udp [::]:2001")


def _frames(dst: str) -> dict[str, bytes]:
    """The same packets in frames to one MAC address."""
    return {
        "through": eth(ip4(*THERE), dst),
        "local": eth(ip4(*HERE), dst),
        "local, closed port": eth(ip4("10.0.0.3", "10.0.0.1", udp(dport=9)), dst),
        "echo": eth(ip4(*HERE, echo()), dst),
        "no route": eth(ip4("10.0.0.3", "99.0.0.1"), dst),
        "TTL 1": eth(ip4("10.0.0.3", "10.1.0.2", ttl=1), dst),
        "protocol 200": eth(ip4("10.0.0.2", "10.0.0.1", data(8), proto=200), dst),
        "directed broadcast": eth(ip4("10.0.0.2", "10.0.0.255"), dst),
        "limited broadcast": eth(ip4("0.0.0.0", "255.255.255.255"), dst),
        "both 0": eth(ip4("0.0.0.0", "0.0.0.0"), dst),
        "all hosts": eth(ip4("10.0.0.2", "224.0.0.1"), dst),
        "bad checksum": eth(ip4(*THERE, damage=1), dst),
        "v6 through": eth(ip6(*THERE6), dst),
        "v6 local": eth(ip6(*HERE6, udp(dport=2001)), dst),
        "v6 local, closed port": eth(ip6(*HERE6, udp(dport=9)), dst),
        "v6 echo": eth(ip6(*HERE6, echo6()), dst),
        "v6 no route": eth(ip6("2001:db8:0::2", "2001:db9::1"), dst),
        "v6 hop limit 1": eth(ip6(*THERE6, hops=1), dst),
        "v6 all nodes": eth(ip6("2001:db8:0::2", "ff02::1", udp(dport=2001)), dst),
        "v6 next header 200": eth(ip6(*HERE6, data(8), last_header=200), dst),
    }


for _name, _mac in {
    "our MAC": MAC_R0,
    "another MAC": OTHER,
    "broadcast MAC": BROADCAST,
    "multicast MAC": MULTICAST,
    "IPv6 multicast MAC": MULTICAST6,
}.items():
    scenario(f"frames to {_name}", "ethernet", ethernet(*_LISTEN), _frames(_mac))
for _scope in ("all", "r0"):
    scenario(
        f"broadcast frames, drop_unicast_in_l2_multicast on {_scope}",
        "ethernet",
        ethernet(
            *_LISTEN,
            f"net.ipv4.conf.{_scope}.drop_unicast_in_l2_multicast = 1",
            f"net.ipv6.conf.{_scope}.drop_unicast_in_l2_multicast = 1",
        ),
        _frames(BROADCAST),
    )
scenario(
    "frame contents",
    "ethernet",
    ethernet(*_LISTEN),
    {
        "padded to 60": eth(ip4(*THERE), padding=10),
        "padded, local": eth(ip4(*HERE), padding=10),
        "v6 padded": eth(ip6(*THERE6), padding=6),
        "version 5": eth(ip4(*THERE, version=5)),
        "version 6 in an IPv4 frame": eth(ip6(*THERE6), kind=0x0800),
        "version 4 in an IPv6 frame": eth(ip4(*THERE) + bytes(20), kind=0x86DD),
        "version 5 in an IPv6 frame": eth(ip6(*THERE6, version=5), kind=0x86DD),
        "IPv4 of 16 bytes": eth(ip4(*THERE, cut=16)),
        "IPv4 of no bytes": eth(b"", kind=0x0800),
        "IPv6 of 39 bytes": eth(ip6(*THERE6, cut=39)),
        "IPv6 of no bytes": eth(b"", kind=0x86DD),
        "unknown type": eth(ip4(*THERE), kind=0x88B5),
        "from our own MAC": eth(ip4(*THERE), src=MAC_R0),
        "from a multicast MAC": eth(ip4(*THERE), src="03:00:00:00:00:02"),
    },
)
scenario(
    "frames out",
    "ethernet",
    ethernet("ip route add 77.0.0.0/8 via 10.1.0.3", "ip link set r1 mtu 1000"),
    {
        "direct": eth(ip4(*THERE)),
        "by gateway": eth(ip4("10.0.0.2", "77.0.0.1")),
        "fragments": eth(ip4("10.0.0.2", "77.0.0.1", udp(payload=data(1400)))),
        "answer": eth(ip4(*HERE, echo())),
        "answer to another MAC": eth(ip4(*HERE, echo()), src="02:00:00:00:00:99"),
    },
)
scenario(
    "v6 frames out",
    "ethernet",
    ethernet("ip route add 2001:db8:77::/48 via 2001:db8:1::3"),
    {
        "direct": eth(ip6(*THERE6)),
        "by gateway": eth(ip6("2001:db8:0::2", "2001:db8:77::1")),
        "answer": eth(ip6(*HERE6, echo6())),
    },
)
scenario(
    "directed broadcast forwarded in a broadcast frame",
    "ethernet",
    ethernet("net.ipv4.conf.all.bc_forwarding = 1", "net.ipv4.conf.r0.bc_forwarding = 1"),
    {
        "unicast frame": eth(ip4("10.0.0.2", "10.1.0.255")),
        "broadcast frame": eth(ip4("10.0.0.2", "10.1.0.255"), BROADCAST),
    },
)
scenario(
    "redirects on Ethernet",
    "ethernet",
    ethernet("ip addr add fe80::1/64 dev r0"),
    {
        "IPv4": eth(ip4("10.0.0.2", "10.0.0.3")),
        "IPv6": eth(ip6("2001:db8:0::2", "2001:db8:0::3")),
        "IPv6 again": eth(ip6("2001:db8:0::2", "2001:db8:0::3")),
    },
)
scenario(
    "unresolved neighbour",
    "ethernet",
    ethernet("switch neighbours strict"),
    {
        "first": eth(ip4("10.0.0.2", "10.1.0.99")),
        "second": eth(ip4("10.0.0.2", "10.1.0.99")),
    },
    Wait(3.6),
    {"again": eth(ip4("10.0.0.2", "10.1.0.99", ident=2))},
)
scenario(
    "unresolved v6 neighbour",
    "ethernet",
    ethernet("ip addr add fe80::1/64 dev r1", "switch neighbours strict"),
    {
        "first": eth(ip6("2001:db8:0::2", "2001:db8:1::99")),
        "second": eth(ip6("2001:db8:0::2", "2001:db8:1::99")),
    },
    Wait(3.6),
    {"again": eth(ip6("2001:db8:0::2", "2001:db8:1::99"))},
)
scenario(
    "neighbour queue full",
    "ethernet",
    ethernet("net.ipv4.neigh.r1.unres_qlen_bytes = 4000", "switch neighbours strict"),
    {f"{k}": eth(ip4("10.0.0.2", "10.1.0.99", ident=k + 1)) for k in range(8)},
)


def _arp(op: int, sender: str, sender_mac: str, target: str, dst: str = BROADCAST) -> bytes:
    """An ARP packet (RFC 826) in a frame."""
    from ippath.verify.packets import address

    mac = bytes.fromhex(sender_mac.replace(":", ""))
    body = bytes([0, 1, 8, 0, 6, 4, 0, op]) + mac + address(sender) + bytes(6) + address(target)
    return eth(body, dst, sender_mac, kind=0x0806)


scenario(
    "ARP",
    "ethernet",
    ethernet(),
    {
        "who has us": _arp(1, "10.0.0.7", "02:00:00:00:00:07", "10.0.0.1"),
        "who has our other address": _arp(1, "10.0.0.7", "02:00:00:00:00:07", "10.1.0.1"),
        "who has another": _arp(1, "10.0.0.7", "02:00:00:00:00:07", "10.0.0.9"),
        "who has us, unicast": _arp(1, "10.0.0.7", "02:00:00:00:00:07", "10.0.0.1", MAC_R0),
        "to the learned": eth(ip4("10.0.0.7", "10.0.0.1", echo()), src="02:00:00:00:00:07"),
        "from 0.0.0.0": _arp(1, "0.0.0.0", "02:00:00:00:00:08", "10.0.0.1"),
        "to another's MAC": _arp(1, "10.0.0.7", "02:00:00:00:00:07", "10.0.0.1", OTHER),
    },
)
scenario(
    "neighbour answers",
    "ethernet",
    ethernet("switch neighbours strict"),
    {
        "first": eth(ip4("10.0.0.2", "10.1.0.99", ident=1)),
        "second": eth(ip4("10.0.0.2", "10.1.0.99", ident=2)),
    },
    Inject(
        "r1", {"reply": _arp(2, "10.1.0.99", "02:00:00:00:01:99", "10.1.0.1", "02:00:00:00:01:01")}
    ),
    {"third": eth(ip4("10.0.0.2", "10.1.0.99", ident=3))},
)
scenario(
    "broadcast frames in a list",
    "lists",
    ethernet("net.ipv4.conf.all.rp_filter = 1", *_LISTEN),
    Together(
        "r0",
        {
            "good": eth(ip4("10.0.0.2", "10.1.0.2", ident=1)),
            "bad, broadcast frame": eth(ip4("10.1.0.77", "10.1.0.2", ident=2), BROADCAST),
            "bad, other host": eth(ip4("10.1.0.77", "10.1.0.2", ident=3), OTHER),
            "bad": eth(ip4("10.1.0.77", "10.1.0.2", ident=4)),
            "v6 in between": eth(ip6(*THERE6)),
            "bad after v6": eth(ip4("10.1.0.77", "10.1.0.2", ident=5)),
        },
    ),
)
scenario(
    "echo burst on Ethernet",
    "ethernet",
    ethernet(),
    Burst("r0", {f"{k}": eth(ip4(*HERE, echo(seq=k))) for k in range(12)}),
    Burst("r0", {f"v6 {k}": eth(ip6(*HERE6, echo6(seq=k))) for k in range(12)}),
)
_SOLICIT_US = icmp6(
    135, 0, 0, bytes.fromhex("20010db8000000000000000000000001") + bytes.fromhex("0101020000000002")
)
scenario(
    "neighbour solicitation for us",
    "ethernet",
    ethernet(),
    {
        "multicast": eth(
            ip6("2001:db8:0::2", "ff02::1:ff00:1", _SOLICIT_US, hops=255), "33:33:ff:00:00:01"
        ),
        "unicast": eth(ip6(*HERE6, _SOLICIT_US, hops=255)),
        "hop limit 64": eth(ip6(*HERE6, _SOLICIT_US, hops=64)),
    },
)
