"""Redirects received, and sockets that hear no reports: what `tests/kernel` cannot ask."""

from __future__ import annotations

import ipaddress
import socket as std
from pathlib import Path

import pytest

from ippath.capture.writer import PcapWriter
from ippath.cli import main
from ippath.jit import COMPILED
from ippath.learned import learned
from ippath.socket import constants as C
from ippath.verify.packets import data, icmp, icmp6, ip4, ip6, udp
from tests.test_exceptions import HOST, OWN, OWN6, SECOND, batch_of, host

PMTUDISC = pytest.mark.parametrize("mode", range(6), ids=lambda m: f"IP_PMTUDISC {m}")


def redirect(destination: str, gateway: str, source: str = "10.1.0.9") -> bytes:
    """A router's word about the way of an echo reply."""
    quoted = ip4(OWN, destination, icmp(0, 0, 1))
    return ip4(source, OWN, icmp(5, 1, int(ipaddress.IPv4Address(gateway)), quoted))


@PMTUDISC
def test_sockets_that_ask_for_it_hear_no_reports(mode: int) -> None:
    """INTERFACE and OMIT: what routers say of their datagrams teaches no route."""
    netns = host()
    four, six = netns.socket(), netns.socket(std.AF_INET6)
    four.bind(("10.1.0.1", 3000))
    six.bind((OWN6, 3000))
    four.setsockopt(C.SOL_IP, C.IP_MTU_DISCOVER, mode)
    six.setsockopt(C.SOL_IPV6, C.IPV6_MTU_DISCOVER, mode)
    sent = ip4(OWN, "80.0.0.1", udp(3000, 53, data(9)))
    sent6 = ip6(OWN6, "2001:db8:80::1", udp(3000, 53, data(9)))
    netns.receive(batch_of([
        ip4("10.1.0.7", OWN, icmp(3, 4, 1200, sent)), ip6("2001:db8:1::7", OWN6, icmp6(2, 0, 1300, sent6)),
    ]))  # fmt: skip
    heard = [] if mode in (C.IP_PMTUDISC_INTERFACE, C.IP_PMTUDISC_OMIT) else [1200, 1300]
    assert [one.mtu for one in learned(netns)] == heard
    netns.receive(batch_of([ip4("10.1.0.9", OWN, icmp(5, 1, 0x0A010008, sent))]))
    assert any(one.redirected for one in learned(netns)), "redirects are believed all the same"


def test_a_flood_of_redirects_costs_bounded_memory() -> None:
    netns, count = host(), 60_000 if COMPILED else 1500
    before = netns.state.exception.nbytes
    for at in range(0, count, 500):
        to = [str(ipaddress.ip_address(0x50000001 + 7 * k)) for k in range(at, at + 500)]
        netns.receive(batch_of([redirect(one, "10.1.0.8") for one in to], at))
    assert netns.state.exception.nbytes == before
    assert 0 < len(learned(netns)) <= 2048 * 10


def test_it_lasts_five_minutes() -> None:
    netns = host()
    netns.receive(batch_of([redirect("80.0.0.1", "10.1.0.8")]))
    for time, gateway in ((299 * SECOND, "10.1.0.8"), (301 * SECOND, "10.1.0.9")):
        netns.advance(time)
        assert f"via {gateway} " in netns.route_get("80.0.0.1").text()


def test_a_changed_route_keeps_no_redirect() -> None:
    from ippath.config import parse_host

    netns = host()
    netns.receive(batch_of([redirect("80.0.0.1", "10.1.0.8")]))
    netns.change(parse_host(HOST + "ip route replace default via 10.1.0.7\n"))
    assert learned(netns) == [] and "via 10.1.0.7 " in netns.route_get("80.0.0.1").text()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "believed, for this destination"),
        ({"source": "10.1.0.66"}, "it does not come from the gateway in use: ignored"),
        ({"gateway": OWN}, "that can't be a gateway: ignored"),
    ],
)
def test_explain_says_what_became_of_it(given: dict[str, str], said: str) -> None:
    netns = host()
    packet = redirect(**{"destination": "80.0.0.1", "gateway": "10.1.0.8", **given})
    assert said in netns.explain(batch_of([packet]), 0).text()


def test_route_get_and_show_cache_after_a_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, capture = tmp_path / "host", tmp_path / "icmp.pcap"
    text.write_text(HOST)
    packets = [redirect("80.0.0.1", "10.1.0.8"), ip4("80.0.0.1", OWN, icmp(8, 0, 1, data(8)))]
    with PcapWriter(capture, 101) as writer:
        writer.write(batch_of(packets, SECOND))
    after = ["--host", str(text), "--after", str(capture)]
    assert main(["route", "get", "80.0.0.1", *after]) == 0
    assert capsys.readouterr().out == (
        "80.0.0.1 via 10.1.0.8 dev r1 src 10.1.0.1 uid 0 \n    cache <redirected> expires 300sec \n"
    )
    assert main(["route", "show", "cache", "--json", *after]) == 0
    assert '"cache":["redirected"],"expires":300}' in capsys.readouterr().out
