"""bind, connect and names: the same functions for the kernel's sockets and ippath's."""

from __future__ import annotations

import errno
import socket as std
import struct

import pytest

from tests.sockets import FAMILIES, HOSTS, IP_FREEBIND, MAPPED, V4, V6, outcome

ANY = {V4: "0.0.0.0", V6: "::", MAPPED: "::ffff:0.0.0.0"}
WHERE = pytest.mark.parametrize("where", [V4, V6, MAPPED])


def error(number: int) -> str:
    """An OSError in words, as `outcome` has it."""
    problem = OSError(number, __import__("os").strerror(number))
    return f"{type(problem).__name__}: {problem}"


@WHERE
def test_bind_gives_a_port(net, where) -> None:
    one = net.bound(where)
    name = one.getsockname()
    assert name[0] == HOSTS[where] and 32768 <= name[1] <= 60999
    assert len(name) == (2 if where == V4 else 4)


@pytest.mark.parametrize("where", [V4, V6])
def test_a_new_socket_has_no_name(net, where) -> None:
    one = net.socket(FAMILIES[where])
    assert one.getsockname()[:2] == (ANY[where], 0)
    assert outcome(one.getpeername) == error(errno.ENOTCONN)


@WHERE
def test_bind_twice(net, where) -> None:
    one = net.bound(where)
    assert outcome(one.bind, (HOSTS[where], 0)) == error(errno.EINVAL)


@WHERE
def test_a_port_is_taken(net, where) -> None:
    one, other = net.bound(where), net.socket(FAMILIES[where])
    assert outcome(other.bind, one.getsockname()[:2]) == error(errno.EADDRINUSE)


# first and second socket: address, and whether the second may have the port, too
SHARING = [
    (V4, "127.0.0.1", V4, "127.0.0.2", True),
    (V4, "127.0.0.1", V4, "0.0.0.0", False),
    (V4, "0.0.0.0", V4, "127.0.0.1", False),
    (V4, "127.0.0.1", V6, "::1", True),
    (V4, "0.0.0.0", V6, "::1", True),
    (V4, "0.0.0.0", V6, "::", False),
    (V4, "127.0.0.1", V6, "::", False),
    (V6, "::", V4, "127.0.0.1", False),
    (V6, "::1", V4, "0.0.0.0", True),
    (V6, "::", V6, "::1", False),
    (V6, "::1", V6, "::", False),
    (V4, "127.0.0.1", V6, "::ffff:127.0.0.1", False),
    (V4, "127.0.0.1", V6, "::ffff:127.0.0.2", True),
    (V6, "::ffff:127.0.0.1", V6, "::", False),
]


@pytest.mark.parametrize("first, here, second, there, free", SHARING)
def test_who_may_share_a_port(net, first, here, second, there, free) -> None:
    one, other = net.socket(FAMILIES[first]), net.socket(FAMILIES[second])
    one.bind((here, 0))
    found = outcome(other.bind, (there, one.getsockname()[1]))
    assert found == (None if free else error(errno.EADDRINUSE))


@pytest.mark.parametrize("option", [std.SO_REUSEADDR, std.SO_REUSEPORT])
@pytest.mark.parametrize("both", [True, False])
def test_reuse(net, option, both) -> None:
    one, other = net.socket(), net.socket()
    one.setsockopt(std.SOL_SOCKET, option, 1)
    one.bind(("127.0.0.1", 0))
    other.setsockopt(std.SOL_SOCKET, option, int(both))
    found = outcome(other.bind, one.getsockname())
    assert found == (None if both else error(errno.EADDRINUSE))


def test_v6only_leaves_ipv4_alone(net) -> None:
    six, four = net.socket(std.AF_INET6), net.socket()
    six.setsockopt(std.IPPROTO_IPV6, std.IPV6_V6ONLY, 1)
    six.bind(("::", 0))
    assert outcome(four.bind, ("0.0.0.0", six.getsockname()[1])) is None


def test_v6only_is_settled_when_bound(net) -> None:
    six = net.bound(V6)
    assert six.getsockopt(std.IPPROTO_IPV6, std.IPV6_V6ONLY) == 1
    assert outcome(six.setsockopt, std.IPPROTO_IPV6, std.IPV6_V6ONLY, 0) == error(errno.EINVAL)


BAD_ADDRESSES = [
    (V4, ("192.0.2.7", 0), error(errno.EADDRNOTAVAIL)),
    (V6, ("2001:db8::7", 0), error(errno.EADDRNOTAVAIL)),
    (V6, ("::ffff:192.0.2.7", 0), error(errno.EADDRNOTAVAIL)),
    (V6, ("fe80::1", 0), error(errno.EINVAL)),
    (V4, "127.0.0.1", "TypeError: bind(): AF_INET address must be tuple, not str"),
    (V4, ("127.0.0.1",), "TypeError: AF_INET address must be a pair (host, port)"),
    (V4, ("127.0.0.1", 0, 0), "TypeError: AF_INET address must be a pair (host, port)"),
    (V4, ("127.0.0.1", 65536), "OverflowError: bind(): port must be 0-65535."),
    (V4, ("127.0.0.1", -1), "OverflowError: bind(): port must be 0-65535."),
    (V4, ("127.0.0.1", "53"), "TypeError: 'str' object cannot be interpreted as an integer"),
    (V4, (7, 53), "TypeError: str, bytes or bytearray expected, not int"),
    (V4, ("::1", 0), "gaierror: [Errno -9] Address family for hostname not supported"),
    (V6, ("127.0.0.1", 0), "gaierror: [Errno -9] Address family for hostname not supported"),
    (V6, None, "TypeError: bind(): AF_INET6 address must be tuple, not NoneType"),
    (
        V6,
        ("::1",),
        "TypeError: AF_INET6 address must be a tuple (host, port[, flowinfo[, scopeid]])",
    ),
    (V6, ("::1", 0, 1 << 20), "OverflowError: bind(): flowinfo must be 0-1048575."),
    (V6, ("::1", 0, 0, 99), None),  # the scope of other addresses is not looked at
]


@pytest.mark.parametrize("where, address, said", BAD_ADDRESSES)
def test_bind_to_what_is_wrong(net, where, address, said) -> None:
    assert outcome(net.socket(FAMILIES[where]).bind, address) == said


@pytest.mark.parametrize("call", ["connect", "connect_ex"])
def test_words_name_the_call(net, call) -> None:
    found = outcome(getattr(net.socket(), call), 7)
    assert found == f"TypeError: {call}(): AF_INET address must be tuple, not int"


def test_freebind(net) -> None:
    one = net.socket()
    one.setsockopt(std.IPPROTO_IP, IP_FREEBIND, 1)
    one.bind(("192.0.2.7", 0))
    assert one.getsockname()[0] == "192.0.2.7"


@pytest.mark.parametrize("host", ["", "localhost", "127.0.0.3", "127.1", "<broadcast>"])
def test_hosts_in_words(net, host) -> None:
    one = net.socket()
    one.bind((host, 0))
    known = {
        "": "0.0.0.0",
        "localhost": "127.0.0.1",
        "127.1": "127.0.0.1",
        "<broadcast>": "255.255.255.255",
    }
    expected = known.get(host, host)
    # a socket bound to a group or broadcast sends from an address of its own
    assert one.getsockname()[0] == ("0.0.0.0" if expected == "255.255.255.255" else expected) or (
        one.getsockname()[0] == expected
    )


@WHERE
def test_connect_binds_and_names(net, where) -> None:
    one, peer = net.socket(FAMILIES[where]), net.bound(where)
    one.connect(peer.getsockname()[:2])
    assert one.getpeername() == peer.getsockname()
    assert one.getsockname()[0] == HOSTS[where] and one.getsockname()[1] != 0


@pytest.mark.parametrize("where, host", [(V4, "0.0.0.0"), (V6, "::"), (V6, "::ffff:0.0.0.0")])
def test_connect_to_nobody_is_to_oneself(net, where, host) -> None:
    one = net.socket(FAMILIES[where])
    one.connect((host, 9))
    assert one.getpeername()[:2] == (
        {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, "::ffff:127.0.0.1"),
        9,
    )


def test_connect_keeps_the_address_bound(net) -> None:
    one = net.socket()
    one.bind(("127.0.0.5", 0))
    one.connect(("127.0.0.1", 9))
    assert one.getsockname()[0] == "127.0.0.5"


def test_connect_again(net) -> None:
    one, first, second = net.socket(), net.bound(), net.bound()
    one.connect(first.getsockname())
    one.connect(second.getsockname())
    one.send(b"x")
    assert second.recv(9) == b"x" and one.getpeername() == second.getsockname()


@pytest.mark.parametrize(
    "where, target, number",
    [
        (V4, ("255.255.255.255", 9), errno.EACCES),
        (V6, ("::ffff:255.255.255.255", 9), errno.EACCES),
        (V4, ("127.255.255.255", 9), errno.EACCES),
        (V6, ("fe80::1", 9), errno.EINVAL),
    ],
)
def test_connect_that_fails(net, where, target, number) -> None:
    one = net.socket(FAMILIES[where])
    assert one.connect_ex(target) == number
    assert outcome(one.getpeername) == error(errno.ENOTCONN)


def test_connect_to_ipv4_with_v6only(net) -> None:
    one = net.socket(std.AF_INET6)
    one.setsockopt(std.IPPROTO_IPV6, std.IPV6_V6ONLY, 1)
    assert outcome(one.connect, ("::ffff:127.0.0.1", 9)) == error(errno.ENETUNREACH)


def test_a_connected_socket_hears_its_peer_alone(net) -> None:
    one, peer, other = net.bound(), net.bound(), net.bound()
    one.connect(peer.getsockname())
    other.sendto(b"other", one.getsockname())
    peer.sendto(b"peer", one.getsockname())
    assert one.recvfrom(9) == (b"peer", peer.getsockname())
    assert outcome(one.recv, 9) == error(errno.EAGAIN)


@WHERE
def test_what_came_before_connect_stays(net, where) -> None:
    one, peer, other = net.bound(where), net.bound(where), net.bound(where)
    other.sendto(b"other", one.getsockname()[:2])
    one.connect(peer.getsockname()[:2])
    assert one.recv(9) == b"other"


def test_shutdown_needs_a_peer(net) -> None:
    assert outcome(net.bound().shutdown, std.SHUT_RD) == error(errno.ENOTCONN)


def test_shutdown_of_what(net) -> None:
    one, _ = net.pair()
    assert outcome(one.shutdown, 3) == error(errno.EINVAL)
    assert outcome(one.shutdown, std.SHUT_RDWR) is None


def test_nobody_sends_after_shutdown(net) -> None:
    one, _ = net.pair()
    one.shutdown(std.SHUT_WR)
    assert outcome(one.send, b"x") == error(errno.EPIPE)


def test_what_came_before_shutdown_is_read(net) -> None:
    one, other = net.pair()
    other.send(b"x")
    one.shutdown(std.SHUT_RD)
    assert one.recv(9) == b"x"
    assert outcome(one.recv, 9) == error(errno.EAGAIN)
    one.settimeout(None)
    assert one.recv(9) == b""


def test_datagrams_never_listen(net) -> None:
    one = net.bound()
    assert outcome(one.listen) == error(errno.EOPNOTSUPP)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.getsockname(), lambda s: s.bind(("127.0.0.1", 0)), lambda s: s.recv(1),
        lambda s: s.connect(("127.0.0.1", 9)), lambda s: s.sendto(b"", ("127.0.0.1", 9)),
        lambda s: s.getsockopt(1, 2), lambda s: s.setsockopt(1, 2, 1), lambda s: s.shutdown(0),
        lambda s: s.settimeout(1),
    ],
)  # fmt: skip
def test_closed(net, call) -> None:
    one = net.bound()
    one.close()
    one.close()
    assert outcome(call, one) == error(errno.EBADF)


def test_a_closed_socket_gives_its_port_back(net) -> None:
    one, other = net.bound(), net.socket()
    name = one.getsockname()
    one.close()
    other.bind(name)
    assert other.getsockname() == name


def test_ports_of_udp_lite_are_others(net) -> None:
    one, lite = net.bound(), net.socket(std.AF_INET, 136)
    assert outcome(lite.bind, one.getsockname()) is None


def test_latest_bound_gets_what_addresses_share(net) -> None:
    """With SO_REUSEADDR alone there is no group: who came last gets all."""
    first, second, sender = net.socket(), net.socket(), net.socket()
    for one in (first, second):
        one.setsockopt(std.SOL_SOCKET, std.SO_REUSEADDR, 1)
    first.bind(("127.0.0.1", 0))
    second.bind(first.getsockname())
    sender.sendto(b"x", first.getsockname())
    assert second.recv(9) == b"x" and outcome(first.recv, 9) == error(errno.EAGAIN)
    second.close()
    sender.sendto(b"y", first.getsockname())
    assert first.recv(9) == b"y"


def test_a_group_of_ports_shares_by_flow(net) -> None:
    members = [net.socket() for _ in range(4)]
    for one in members:
        one.setsockopt(std.SOL_SOCKET, std.SO_REUSEPORT, 1)
    members[0].bind(("127.0.0.1", 0))
    for one in members[1:]:
        one.bind(members[0].getsockname())
    counts = [0] * 4
    for _ in range(64):
        sender = net.socket()
        for _ in range(2):
            sender.sendto(b"x", members[0].getsockname())
        got = [k for k, one in enumerate(members) if outcome(one.recv, 9) == b"x"]
        assert len(got) == 1 and members[got[0]].recv(9) == b"x"  # a flow has one member
        counts[got[0]] += 1
    assert min(counts) > 4


def test_an_address_beats_any(net) -> None:
    wide, narrow, sender = net.socket(), net.socket(), net.socket()
    for one, host in ((narrow, "127.0.0.1"), (wide, "0.0.0.0")):
        one.setsockopt(std.SOL_SOCKET, std.SO_REUSEADDR, 1)
        one.bind((host, narrow.getsockname()[1]))
    sender.sendto(b"one", ("127.0.0.1", wide.getsockname()[1]))
    sender.sendto(b"two", ("127.0.0.2", wide.getsockname()[1]))
    assert narrow.recv(9) == b"one" and wide.recv(9) == b"two"


def test_disconnect(net) -> None:
    """AF_UNSPEC cannot be said in Python: our sockets have a call for it."""
    one = net.socket()
    one.connect(("127.0.0.1", 9))
    if net.kind == "kernel":
        import ctypes

        unspecified = struct.pack("=H14x", std.AF_UNSPEC)
        assert ctypes.CDLL(None).connect(one.fileno(), unspecified, 16) == 0
    else:
        one.disconnect()
    assert outcome(one.send, b"x") == error(errno.EDESTADDRREQ)
    assert outcome(one.getpeername) == error(errno.ENOTCONN)
    assert one.getsockname()[0] == "0.0.0.0"
