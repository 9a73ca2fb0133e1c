"""Routes from elsewhere: what comes in, what goes out as lines, what is refused."""

from __future__ import annotations

import ipaddress
import json
import struct
from pathlib import Path

import pytest

from ippath.cli import FINE, WRONG_INPUT, main
from ippath.config.host_file import parse_host
from ippath.config.imported_routes import guess_format
from ippath.config.printed_routes import route_dict, route_line, show
from ippath.model import Host

BASE = """\
ip link add r0 up type tun
ip link add r1 up type tun
ip addr add 10.0.0.1/24 dev r0
ip addr add 10.1.0.1/24 dev r1
ip -6 addr add 2001:db8::1/64 dev r0
"""
ROUTES = """\
ip route add default via 10.0.0.254
ip route add 11.0.0.0/8 via 10.0.0.2 metric 5 proto bgp src 10.0.0.1 mtu 1400
ip route add 12.0.0.0/8 dev r1 table 100
ip route add unreachable 13.0.0.0/8
ip route add 14.0.0.0/8 nexthop via 10.0.0.2 weight 2 nexthop via 10.1.0.2
ip route add 15.0.0.0/8 via inet6 2001:db8::9 dev r0
ip -6 route add default via 2001:db8::fe pref high
ip -6 route add 2001:db8:5::/48 via 2001:db8::9 metric 7
ip -6 route add blackhole 2001:db8:6::/48
ip -6 route add 2001:db8:7::/48 from 2001:db8::/64 via 2001:db8::9
"""


def own(host: Host) -> list[str]:
    """The routes that are not the addresses'."""
    return sorted(route_line(r) for r in host.routes if r.protocol != "kernel")


def imported(capsys: pytest.CaptureFixture[str], *args: str, code: int = FINE) -> tuple[str, str]:
    got = main(["route", "import", *args])
    printed = capsys.readouterr()
    assert got == code, printed.err
    return printed.out, printed.err


@pytest.mark.parametrize("form", ["batch", "show", "json"])
def test_what_ip_takes_and_prints_comes_back(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str
) -> None:
    host = parse_host(BASE + ROUTES)
    source = tmp_path / ("routes.json" if form == "json" else "routes.txt")
    if form == "batch":
        source.write_text("# a script\nip link set r0 up\n" + ROUTES)
    elif form == "show":
        text = show([r for r in host.routes if not (r.family == 6 and r.plen == 0)])
        source.write_text(text + "::/0 via 2001:db8::fe dev r0 metric 1024 pref high\n")
    else:
        source.write_text(json.dumps([route_dict(r) for r in host.routes]))
    out, err = imported(capsys, str(source))
    assert "10 routes" in err
    assert own(parse_host(BASE + out)) == own(host)


# --- BGP dumps, written by hand ---------------------------------------------------------------------------


def record(kind: int, subtype: int, body: bytes) -> bytes:
    return struct.pack(">IHHI", 1_700_000_000, kind, subtype, len(body)) + body


def path(hop: str, systems: list[int]) -> bytes:
    """One entry of a RIB: origin, AS path, next hop."""
    address = ipaddress.ip_address(hop).packed
    reach = bytes([0x40, 3, 4]) if len(address) == 4 else bytes([0x80, 14, 17, 16])
    route = bytes([2, len(systems)]) + b"".join(struct.pack(">I", s) for s in systems)
    attributes = bytes([0x40, 1, 1, 0, 0x40, 2, len(route)]) + route + reach + address
    return struct.pack(">HIH", 0, 1_700_000_000, len(attributes)) + attributes


def rib(number: int, prefix: str, paths: list[bytes]) -> bytes:
    network = ipaddress.ip_network(prefix)
    packed = network.network_address.packed[: (network.prefixlen + 7) // 8]
    body = struct.pack(">IB", number, network.prefixlen) + packed
    body += struct.pack(">H", len(paths)) + b"".join(paths)
    return record(13, 2 if network.version == 4 else 4, body)


def dump() -> bytes:
    peer = struct.pack(">4sH", bytes([192, 0, 2, 9]), 1) + b"x" + struct.pack(">HB", 1, 2)
    peer += struct.pack(">4s4sI", bytes([192, 0, 2, 9]), bytes([10, 0, 0, 2]), 65001)
    return b"".join(
        [
            record(13, 1, peer),
            rib(0, "11.0.0.0/8", [path("10.0.0.3", [1, 2, 3]), path("10.0.0.2", [1, 2])]),
            rib(1, "11.128.0.0/9", [path("10.0.0.3", [1])]),
            rib(2, "2001:db8:5::/48", [path("2001:db8::9", [1])]),
        ]
    )


def test_a_bgp_dump(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("mrtparse")
    source, base = tmp_path / "rib.mrt", tmp_path / "base.host"
    source.write_bytes(dump())
    base.write_text(BASE)
    target = tmp_path / "full.host"
    _, err = imported(capsys, str(source), "--base", str(base), "-o", str(target))
    assert err == f"3 routes saved to {target}\n"
    host = parse_host(target.read_text())
    assert own(host) == [
        "11.0.0.0/8 via 10.0.0.2 dev r0 proto bgp \n",
        "11.128.0.0/9 via 10.0.0.3 dev r0 proto bgp \n",
        "2001:db8:5::/48 via 2001:db8::9 dev r0 proto bgp metric 1024 pref medium\n",
    ]


def test_a_bgp_dump_with_other_gateways(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("mrtparse")
    (tmp_path / "rib").write_bytes(dump())
    out, _ = imported(capsys, str(tmp_path / "rib"), "--via", "10.0.0.9", "--table", "7")
    assert out.splitlines() == [
        "ip route append 11.0.0.0/8 via 10.0.0.9 proto bgp table 7",
        "ip route append 11.128.0.0/9 via 10.0.0.9 proto bgp table 7",
        "ip -6 route append 2001:db8:5::/48 via 2001:db8::9 proto bgp table 7",
    ]
    out, _ = imported(capsys, str(tmp_path / "rib"), "--hop", "10.0.0.3=10.1.0.7")
    assert "11.128.0.0/9 via 10.1.0.7" in out and "11.0.0.0/8 via 10.0.0.2" in out


def test_damaged_dumps(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("mrtparse")
    source = tmp_path / "rib.mrt"
    whole = dump()
    for cut in range(13, len(whole) - 1, 7):
        source.write_bytes(whole[:cut])
        code = main(["route", "import", str(source)])
        printed = capsys.readouterr()
        assert code in (FINE, WRONG_INPUT), printed.err  # a cut between two records is no damage


# --- tables -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_columns(capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    table = pa.table({
        "prefix": ["11.0.0.0/8", "12.0.0.0/8", "2001:db8:5::/48"],
        "value": ["peer1", "10.0.0.3", "2001:db8::9"], "metric": [5, None, 7],
    })  # fmt: skip
    source = tmp_path / f"routes.{form}"
    (pq.write_table if form == "parquet" else csv.write_csv)(table, source)
    assert guess_format(source) == form
    out, _ = imported(capsys, str(source), "--hop", "peer1=10.0.0.2")
    assert out.splitlines() == [
        "ip route append 11.0.0.0/8 via 10.0.0.2 metric 5",
        "ip route append 12.0.0.0/8 via 10.0.0.3",
        "ip -6 route append 2001:db8:5::/48 via 2001:db8::9 metric 7",
    ]


@pytest.mark.parametrize(
    ("name", "content", "args", "said"),
    [
        ("a.csv", "prefix,value\n11.0.0.0/8,peer1\n", [], "row 1: 'peer1' is no address"),
        ("a.csv", "prefix,value\nx,10.0.0.2\n", [], "row 1: 'x' is no prefix"),
        ("a.csv", "prefix\n11.0.0.0/8\n", [], "expected columns prefix and via"),
        ("a.json", '[{"dev": "r0"}]', [], "route 1: expected an object with dst"),
        ("a.json", "[1", [], "a.json"),
        ("a.txt", "ip route add rubbish\n", [], "a.txt:1: expected a route"),
        ("a.parquet", "PAR1", [], "a.parquet"),
        ("a.txt", "11.0.0.0/8 via 10.0.0.2\n", ["--via", "x"], "'x' does not appear to be"),
        ("a.txt", "11.0.0.0/8 via 10.0.0.2\n", ["--hop", "x"], "write NEXTHOP=ADDRESS"),
    ],
)
def test_wrong_sources(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, content: str, args: list[str],
    said: str,
) -> None:  # fmt: skip
    (tmp_path / name).write_text(content)
    _, err = imported(capsys, str(tmp_path / name), *args, code=WRONG_INPUT)
    assert said in err


def test_the_base_shows_gateways_out_of_reach(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("11.0.0.0/8 via 99.9.9.9\n")
    (tmp_path / "base").write_text(BASE)
    target = tmp_path / "full.host"
    _, err = imported(
        capsys, str(tmp_path / "a.txt"), "--base", str(tmp_path / "base"), "-o", str(target),
        code=WRONG_INPUT,
    )  # fmt: skip
    assert "Nexthop has invalid gateway" in err and not target.exists()
