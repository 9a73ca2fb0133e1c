"""UDP sockets from the output of ss."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ippath.config.ss import SsError, parse_ss
from ippath.model import Listener

HEADER = "State  Recv-Q Send-Q Local Address:Port Peer Address:PortProcess"


def ip(text: str) -> int:
    return int(ipaddress.ip_address(text))


CASES: dict[str, tuple[str, Listener]] = {
    "any IPv4 address": (
        "UNCONN 0      0            0.0.0.0:53        0.0.0.0:*",
        Listener(4, 0, 53),
    ),
    "bound to a device": (
        'UNCONN 0      0      127.0.0.53%lo:53        0.0.0.0:*    users:(("resolved",pid=7,fd=12))',
        Listener(4, ip("127.0.0.53"), 53, device="lo"),
    ),
    "any address on a device": (
        "UNCONN 0      0             *%eth0:68              *:*",
        Listener(6, 0, 68, device="eth0"),
    ),
    "old ss: star of IPv4": (
        "UNCONN 0      0             *%eth0:68        0.0.0.0:*",
        Listener(4, 0, 68, device="eth0"),
    ),
    "both families": ("UNCONN 0 0 *:55 *:*", Listener(6, 0, 55)),
    "IPv6 alone": ("UNCONN 0 0 [::]:443 [::]:*", Listener(6, 0, 443, v6only=True)),
    "both families, told by -e": (
        "UNCONN 0 0 [::]:443 [::]:* ino:7 sk:8 v6only:0 <->",
        Listener(6, 0, 443),
    ),
    "old ss: no brackets": ("UNCONN 0 0 :::443 :::*", Listener(6, 0, 443)),
    "link-local": (
        "UNCONN 0 0 [fe80::1]%eth0:546 [::]:*",
        Listener(6, ip("fe80::1"), 546, device="eth0"),
    ),
    "link-local, device inside": (
        "UNCONN 0 0 [fe80::1%eth0]:546 [::]:*",
        Listener(6, ip("fe80::1"), 546, device="eth0"),
    ),
    "mapped": (
        "UNCONN 0 0 [::ffff:10.0.0.1]:7 *:*",
        Listener(6, ip("::ffff:10.0.0.1"), 7),
    ),
    "connected": (
        "ESTAB 0 0 10.0.0.1:59 10.0.0.2:99",
        Listener(4, ip("10.0.0.1"), 59, peer=ip("10.0.0.2"), peer_port=99),
    ),
    "receive buffer, told by -m": (
        "UNCONN 0 0 0.0.0.0:53 0.0.0.0:* skmem:(r0,rb425984,t0,tb212992,f0,w0,o0,bl0,d0)",
        Listener(4, 0, 53, rcvbuf=425984),
    ),
    "with Netid": ("udp UNCONN 0 0 0.0.0.0:53 0.0.0.0:*", Listener(4, 0, 53)),
    "UDP-Lite": ("udplite UNCONN 0 0 0.0.0.0:53 0.0.0.0:*", Listener(4, 0, 53, protocol=136)),
}


@pytest.mark.parametrize("name", CASES)
def test_one_line(name: str) -> None:
    line, expected = CASES[name]
    (listener,) = parse_ss(f"{HEADER}\n{line}\n")
    expected.line = line.strip()
    assert listener == expected


def test_the_whole_output_in_order() -> None:
    text = f"""{HEADER}
UNCONN 0      0            0.0.0.0:53        0.0.0.0:*

UNCONN 0      0                  *:55              *:*
\t skmem:(r0,rb4096,t0,tb212992,f0,w0,o0,bl0,d0)
"""
    assert [(one.port, one.rcvbuf) for one in parse_ss(text)] == [(53, 212992), (55, 4096)]


def test_other_kinds_of_sockets_are_passed_over() -> None:
    text = """Netid State  Recv-Q Send-Q Local Address:Port Peer Address:Port
tcp   LISTEN 0      128          0.0.0.0:22        0.0.0.0:*
udp   UNCONN 0      0            0.0.0.0:53        0.0.0.0:*
"""
    assert [one.port for one in parse_ss(text)] == [53]


def test_sockets_on_the_same_place_share_it() -> None:
    same, other = "UNCONN 0 0 0.0.0.0:53 0.0.0.0:*", "UNCONN 0 0 0.0.0.0:54 0.0.0.0:*"
    assert [one.reuseport for one in parse_ss(f"{same}\n{other}\n{same}\n")] == [True, False, True]


WRONG: dict[str, tuple[str, int, str]] = {
    "service name": ("UNCONN 0 0 0.0.0.0:domain 0.0.0.0:*", 20, "port number"),
    "host name": ("UNCONN 0 0 localhost:53 0.0.0.0:*", 12, "IP address"),
    "no state": ("hello", 1, "state"),
    "queue": ("UNCONN many 0 0.0.0.0:53 0.0.0.0:*", 8, "Recv-Q"),
    "ends early": ("UNCONN 0", 9, "Send-Q"),
    "no peer": ("UNCONN 0 0 0.0.0.0:53", 22, "peer"),
    "port too large": ("UNCONN 0 0 0.0.0.0:65536 0.0.0.0:*", 20, "port number"),
    "no device after %": ("UNCONN 0 0 0.0.0.0%:53 0.0.0.0:*", 20, "device"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_lines_are_named_with_their_column(name: str) -> None:
    line, column, expected = WRONG[name]
    with pytest.raises(SsError) as caught:
        parse_ss(f"{HEADER}\n{line}\n", "ss.txt")
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (2, column) and expected in problem.expected
    shown = str(caught.value).splitlines()
    assert shown[0].startswith(f"ss.txt:2:{column}: expected ")
    assert shown[2].index("^") == column + 1  # under the word, behind two blanks


def test_every_wrong_line_is_told() -> None:
    with pytest.raises(SsError) as caught:
        parse_ss("one\nUNCONN 0 0 0.0.0.0:53 0.0.0.0:*\ntwo\n")
    assert [p.line for p in caught.value.problems] == [1, 3]


@given(st.text(alphabet="UNCONESTAB 0123456789.:*%[]\n\tlo", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        listeners = parse_ss(text)
    except SsError as wrong:
        assert wrong.problems
    else:
        assert all(0 <= one.port <= 65535 and one.family in (4, 6) for one in listeners)


@given(st.ip_addresses(), st.integers(1, 65535), st.sampled_from([None, "lo", "eth0.5", "wg-home"]))
def test_what_ss_writes_is_what_is_read(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int, device: str | None
) -> None:
    where = f"[{address}]" if address.version == 6 else str(address)
    on = f"%{device}" if device else ""
    (listener,) = parse_ss(f"UNCONN 0 0 {where}{on}:{port} 0.0.0.0:*\n")
    assert (listener.family, listener.ip) == (address.version, int(address))
    assert (listener.port, listener.device) == (port, device)
