"""Packets as short readable descriptions, layer by layer, and back.

    ip 10.0.0.2 > 10.1.0.2 ttl 1 / udp 1000 > 2000 / "hello"
    ip6 2001:db8::2 > 2001:db8:1::2 / hopopts 05020000 / icmp6 128 rest 0x70001
    eth 02:00:00:00:00:02 > 02:00:00:00:00:01 / ip 10.0.0.2 > 10.0.0.1 / icmp 8 / data 56
    hex 4500001c…

Lengths and checksums are right unless something else is said (`len 10`, `sum bad`).  An IP header
alone carries a small UDP datagram.  docs/kernel.md lists all words.
"""

from __future__ import annotations

import ipaddress
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ippath.config.values import number_of
from ippath.config.words import Reader, Word, Wrong, lines_of, nearest, read_lines
from ippath.verify import packets as P

LAYERS = (
    "ip", "ip6", "eth", "udp", "udplite", "tcp", "icmp", "icmp6", "data", "zeros", "hex", "hopopts",
    "dstopts", "routing", "frag",
)  # fmt: skip
_UPPER6 = {"hopopts": 0, "routing": 43, "frag": 44, "dstopts": 60}
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
LARGEST = 65_535
DEEPEST = 3  # packets within packets that are described; more are digits


def packet_of(text: str) -> bytes:
    """The packet that a description stands for; raises ValueError that says what is wrong."""
    lines, wrongs = read_lines(lines_of(text))
    try:
        if wrongs or len(lines) != 1:
            raise wrongs[0] if wrongs else Wrong(None, "expected a packet in one line")
        return read_packet(Reader(lines[0].words))
    except Wrong as wrong:
        where = f"column {wrong.word.column}: " if wrong.word else ""
        hint = f"; did you mean {wrong.nearest!r}?" if wrong.nearest else ""
        raise ValueError(f"{where}{wrong.expected}{hint}") from None


def read_packet(reader: Reader) -> bytes:
    """The packet described by the words that are left; raises Wrong."""
    layers = [_layer(reader)]
    while reader:
        word = reader.take("/")
        if word.text != "/":
            raise Wrong(word, f"expected / before the next layer, not {word.text!r}")
        layers.append(_layer(reader))
    built = _build(layers)
    if isinstance(built, P.Upper):
        raise Wrong(layers[0].word, f"{layers[0].kind} has no IP header in front of it")
    if len(built) > LARGEST + 14:
        raise Wrong(layers[0].word, f"a packet of {len(built)} bytes is too long")
    return built


@dataclass
class _Layer:
    kind: str
    word: Word
    values: dict[str, Any] = field(default_factory=dict)


def _layer(reader: Reader) -> _Layer:
    word = reader.take("a layer: ip, ip6, eth, udp, icmp, data, hex, …")
    if word.quoted:
        return _Layer("bytes", word, {"bytes": word.text.encode()})
    if word.text not in LAYERS:
        expected = "expected a layer (ip, ip6, eth, udp, icmp, icmp6, data, hex, …)"
        raise Wrong(word, f"{expected}, not {word.text!r}", nearest(word.text, LAYERS))
    layer = _Layer(word.text, word)
    _READERS[word.text](reader, layer)
    return layer


# --- reading one layer --------------------------------------------------------------------------------


def _number(reader: Reader, most: int, what: str) -> int:
    word = reader.take(f"{what}, a number up to {most}")
    value = number_of(word.text)
    if value is None or not 0 <= value <= most:
        raise Wrong(word, f"expected {what}, a number up to {most}, not {word.text!r}")
    return value


def _digits(reader: Reader, what: str) -> bytes:
    word = reader.take(f"{what} as hexadecimal digits")
    try:
        return bytes.fromhex(word.text.removeprefix("0x"))
    except ValueError:
        raise Wrong(word, f"expected {what} as hexadecimal digits, not {word.text!r}") from None


def _address(reader: Reader, six: bool) -> str:
    word = reader.take("an IPv6 address" if six else "an IPv4 address")
    try:
        (ipaddress.IPv6Address if six else ipaddress.IPv4Address)(word.text)
    except ValueError:
        family = "IPv6" if six else "IPv4"
        raise Wrong(word, f"expected an {family} address, not {word.text!r}") from None
    return word.text


def _arrow(reader: Reader) -> None:
    word = reader.take("> between source and destination")
    if word.text != ">":
        raise Wrong(word, f"expected > between source and destination, not {word.text!r}")


def _settings(reader: Reader, layer: _Layer, numbers: dict[str, int], flags: Iterable[str]) -> None:
    """Read `name value` pairs and flags up to the end of the layer."""
    known = [*numbers, *flags]
    while reader and reader.text != "/":
        word = reader.take("")
        if word.text in flags:
            layer.values[word.text] = True
        elif word.text == "sum" and "sum" in numbers and reader.skip("bad"):
            layer.values["damage"] = 1
        elif word.text in ("options", "trailer") and word.text in numbers:
            layer.values[word.text] = _digits(reader, word.text)
        elif word.text in numbers:
            layer.values[word.text] = _number(reader, numbers[word.text], word.text)
        else:
            told = f"{layer.kind} does not know {word.text!r}"
            raise Wrong(word, told, nearest(word.text, known))


_IP_NUMBERS = {
    "ttl": 255, "tos": 255, "id": 65535, "offset": 8191, "proto": 255, "options": 0, "len": 65535,
    "ihl": 15, "version": 15, "sum": 65535, "cut": LARGEST, "trailer": 0,
}  # fmt: skip
_IP6_NUMBERS = {
    "hops": 255, "class": 255, "label": 0xFFFFF, "next": 255, "last": 255, "len": 65535,
    "version": 15, "cut": LARGEST, "trailer": 0,
}  # fmt: skip


def _read_ip(reader: Reader, layer: _Layer) -> None:
    six = layer.kind == "ip6"
    layer.values["src"] = _address(reader, six)
    _arrow(reader)
    layer.values["dst"] = _address(reader, six)
    if six:
        _settings(reader, layer, _IP6_NUMBERS, ())
    else:
        _settings(reader, layer, _IP_NUMBERS, ("df", "mf", "reserved"))


def _read_eth(reader: Reader, layer: _Layer) -> None:
    for name in ("src", "dst"):
        word = reader.take("a MAC address")
        if not _MAC.fullmatch(word.text):
            raise Wrong(word, f"expected a MAC address, not {word.text!r}")
        layer.values[name] = word.text
        if name == "src":
            _arrow(reader)
    _settings(reader, layer, {"type": 65535, "pad": 2000}, ())


def _read_ports(reader: Reader, layer: _Layer) -> None:
    layer.values["sport"] = _number(reader, 65535, "a port")
    _arrow(reader)
    layer.values["dport"] = _number(reader, 65535, "a port")
    if layer.kind == "tcp":
        _settings(reader, layer, {"flags": 255, "seq": 0xFFFFFFFF}, ())
    else:
        _settings(reader, layer, {"len": 65535, "sum": 65535}, ())


def _read_icmp(reader: Reader, layer: _Layer) -> None:
    word = reader.take("type/code, as in 3/4")
    kind, _, code = word.text.partition("/")
    numbers = [number_of(part) for part in (kind, code or "0")]
    if any(n is None or not 0 <= n <= 255 for n in numbers):
        raise Wrong(word, f"expected type/code, as in 3/4, not {word.text!r}")
    layer.values["kind"], layer.values["code"] = numbers
    _settings(reader, layer, {"rest": 0xFFFFFFFF, "sum": 65535}, ())


def _read_length(reader: Reader, layer: _Layer) -> None:
    size = _number(reader, LARGEST, "a number of bytes")
    layer.values["bytes"] = P.data(size) if layer.kind == "data" else bytes(size)


def _read_hex(reader: Reader, layer: _Layer) -> None:
    layer.values["bytes"] = _digits(reader, "bytes")


def _read_routing(reader: Reader, layer: _Layer) -> None:
    layer.values["kind"] = _number(reader, 255, "the type of the routing header")
    if not reader.skip("left"):
        raise Wrong(reader.word, "expected left and the number of segments left")
    layer.values["left"] = _number(reader, 255, "the number of segments left")
    layer.values["addresses"] = ()
    while reader and reader.text != "/":
        layer.values["addresses"] += (_address(reader, True),)


def _read_frag(reader: Reader, layer: _Layer) -> None:
    _settings(reader, layer, {"offset": 8191, "id": 0xFFFFFFFF}, ("mf",))


_READERS: dict[str, Callable[[Reader, _Layer], None]] = {
    "ip": _read_ip, "ip6": _read_ip, "eth": _read_eth, "udp": _read_ports, "udplite": _read_ports,
    "tcp": _read_ports, "icmp": _read_icmp, "icmp6": _read_icmp, "data": _read_length,
    "zeros": _read_length, "hex": _read_hex, "hopopts": _read_hex, "dstopts": _read_hex,
    "routing": _read_routing, "frag": _read_frag,
}  # fmt: skip


# --- building -----------------------------------------------------------------------------------------


def _build(layers: list[_Layer]) -> bytes | P.Upper:
    """The bytes of the layers; what stands behind the first is its payload."""
    first, rest = layers[0], layers[1:]
    values = dict(first.values)
    if "bytes" in values and first.kind in ("bytes", "data", "zeros", "hex"):
        return values["bytes"] + (_bytes(rest) if rest else b"")
    if first.kind == "eth":
        return _build_eth(values, _bytes(rest), first)
    if first.kind == "ip":
        return _build_ip(values, rest)
    if first.kind == "ip6":
        return _build_ip6(values, rest)
    if first.kind in _UPPER6:
        raise Wrong(first.word, f"{first.kind} stands behind ip6")
    body = _bytes(rest) if rest else b""
    return _build_upper(first.kind, values, body)


def _bytes(layers: list[_Layer]) -> bytes:
    built = _build(layers) if layers else b""
    if isinstance(built, P.Upper):
        raise Wrong(layers[0].word, f"{layers[0].kind} has no IP header in front of it")
    return built


def _build_eth(values: dict[str, Any], inner: bytes, layer: _Layer) -> bytes:
    kind = values.get("type")
    if kind is None and not inner:
        raise Wrong(layer.word, "an empty frame needs a type")
    return P.eth(inner, values["dst"], values["src"], kind=kind, padding=values.get("pad", 0))


def _build_ip(values: dict[str, Any], rest: list[_Layer]) -> bytes:
    names = {"id": "ident", "len": "length", "sum": "check"}
    fields = {names.get(k, k): v for k, v in values.items() if k not in ("src", "dst")}
    payload = _build(rest) if rest else (P.udp() if "proto" not in values else b"")
    return P.ip4(values["src"], values["dst"], payload, **fields)


def _build_ip6(values: dict[str, Any], rest: list[_Layer]) -> bytes:
    names = {
        "class": "traffic_class",
        "len": "length",
        "next": "next_header",
        "last": "last_header",
    }
    fields = {names.get(k, k): v for k, v in values.items() if k not in ("src", "dst")}
    extensions = []
    while rest and rest[0].kind in _UPPER6:
        extensions.append(_extension(rest[0]))
        rest = rest[1:]
    payload = _build(rest) if rest else (P.udp() if not {"next", "last"} & set(values) else b"")
    return P.ip6(values["src"], values["dst"], payload, extensions=tuple(extensions), **fields)


def _extension(layer: _Layer) -> tuple[int, bytes]:
    values = layer.values
    if layer.kind == "routing":
        return P.routing(values["kind"], values["left"], values["addresses"])
    if layer.kind == "frag":
        ident = values.get("id", 0x12345678)
        return P.fragment_header(values.get("offset", 0), values.get("mf", False), ident)
    if layer.kind == "hopopts":
        return P.hop_by_hop(values["bytes"])
    return P.destination_options(values["bytes"])


def _build_upper(kind: str, values: dict[str, Any], body: bytes) -> P.Upper:
    if kind in ("udp", "udplite"):
        names = {"len": "length", "sum": "check"}
        fields = {names.get(k, k): v for k, v in values.items()}
        return P.udp(payload=body, protocol=17 if kind == "udp" else 136, **fields)
    if kind == "tcp":
        segment = P.tcp(**values)
        return P.Upper(6, lambda src, dst: segment.build(src, dst) + body)
    make = P.icmp if kind == "icmp" else P.icmp6
    check = values.pop("sum", None)
    message = make(body=body, **values)
    if check is None:
        return message
    return P.Upper(
        message.protocol,
        lambda src, dst: (m := message.build(src, dst))[:2] + struct.pack("!H", check) + m[4:],
    )


# --- describing ---------------------------------------------------------------------------------------


def describe(packet: bytes, *, ethernet: bool = False) -> str:
    """A description that `packet_of` turns into exactly this packet; `hex …` where none fits."""
    text = _describe_frame(packet) if ethernet else _describe_ip(packet)
    try:
        if packet_of(text) == packet:
            return text
    except (ValueError, struct.error):
        pass
    return f"hex {packet.hex()}" if packet else "data 0"


def _describe_frame(frame: bytes) -> str:
    if len(frame) < 14:
        return f"hex {frame.hex()}"
    kind, inner = int.from_bytes(frame[12:14], "big"), frame[14:]
    text = f"eth {frame[6:12].hex(':')} > {frame[:6].hex(':')}"
    version = inner[0] >> 4 if inner else 0
    if kind != {4: 0x0800, 6: 0x86DD}.get(version):
        return f"{text} type {kind:#06x} / {_describe_bytes(inner)}"
    length = _said_length(inner)
    padding = inner[length:]
    if padding and not any(padding):
        return f"{text} pad {len(padding)} / {_describe_ip(inner[:length])}"
    return f"{text} / {_describe_ip(inner)}"


def _said_length(ip: bytes) -> int:
    """The length in the IP header, or the whole where that makes no sense."""
    if ip[0] >> 4 == 4 and len(ip) >= 20:
        said = int.from_bytes(ip[2:4], "big")
        return said if 20 <= said <= len(ip) else len(ip)
    if len(ip) >= 40:
        return min(len(ip), 40 + int.from_bytes(ip[4:6], "big"))
    return len(ip)


def _describe_ip(ip: bytes, depth: int = 0) -> str:
    if len(ip) >= 20 and ip[0] >> 4 == 4 and ip[0] & 15 >= 5 and len(ip) >= (ip[0] & 15) * 4:
        return _describe_ip4(ip, depth)
    if len(ip) >= 40 and ip[0] >> 4 == 6:
        return _describe_ip6(ip, depth)
    return _describe_bytes(ip, DEEPEST)


def _describe_ip4(ip: bytes, depth: int) -> str:
    size, flags = (ip[0] & 15) * 4, int.from_bytes(ip[6:8], "big")
    total, ident = struct.unpack("!HH", ip[2:6])
    end = total if size <= total <= len(ip) else len(ip)
    words = [f"ip {ipaddress.IPv4Address(ip[12:16])} > {ipaddress.IPv4Address(ip[16:20])}"]
    words += [f"ttl {ip[8]}"] if ip[8] != 64 else []
    words += [f"tos {ip[1]:#04x}"] if ip[1] else []
    words += [f"id {ident:#x}"] if ident != 0x1234 else []
    words += [name for name, bit in (("df", 14), ("mf", 13), ("reserved", 15)) if flags >> bit & 1]
    words += [f"offset {flags & 8191}"] if flags & 8191 else []
    words += [f"options {ip[20:size].hex()}"] if size > 20 else []
    words += [f"len {total}"] if end != total else []
    check = P.checksum(ip[:10] + bytes(2) + ip[12:size])
    words += [f"sum {int.from_bytes(ip[10:12], 'big'):#06x}"] if ip[10:12] != check.to_bytes(2, "big") else []  # fmt: skip
    words += [f"trailer {ip[end:].hex()}"] if end < len(ip) else []
    body, protocol = ip[size:end], ip[9]
    upper = "" if flags & 8191 else _describe_upper(protocol, body, ip[12:16], ip[16:20], depth)
    if not upper:
        words.append(f"proto {protocol}")
        upper = _describe_bytes(body, depth)
    return " ".join(words) + " / " + upper


def _describe_ip6(ip: bytes, depth: int) -> str:
    first, length, number, hops = struct.unpack("!IHBB", ip[:8])
    end = 40 + length if 40 + length <= len(ip) else len(ip)
    words = [f"ip6 {ipaddress.IPv6Address(ip[8:24])} > {ipaddress.IPv6Address(ip[24:40])}"]
    words += [f"hops {hops}"] if hops != 64 else []
    words += [f"class {first >> 20 & 255:#04x}"] if first >> 20 & 255 else []
    words += [f"label {first & 0xFFFFF:#x}"] if first & 0xFFFFF else []
    words += [f"len {length}"] if end - 40 != length else []
    words += [f"trailer {ip[end:].hex()}"] if end < len(ip) else []
    body, layers = ip[40:end], []
    while number in (0, 43, 44, 60) and len(body) >= 8:
        size = 8 if number == 44 else 8 + 8 * body[1]
        if size > len(body):
            break
        layers.append(_describe_extension(number, body[:size]))
        number, body = body[0], body[size:]
    upper = _describe_upper(number, body, ip[8:24], ip[24:40], depth)
    if not upper:
        words.append(f"last {number}")
        upper = _describe_bytes(body, depth)
    return " / ".join([" ".join(words), *layers, upper])


def _describe_extension(number: int, header: bytes) -> str:
    if number == 44:
        word, ident = struct.unpack("!HI", header[2:8])
        more = " mf" if word & 1 else ""
        return f"frag offset {word >> 3}{more} id {ident:#x}"
    if number == 43:
        parts = (header[k : k + 16] for k in range(8, len(header), 16))
        addresses = [str(ipaddress.IPv6Address(p)) for p in parts if len(p) == 16]
        return " ".join([f"routing {header[2]} left {header[3]}", *addresses])
    return f"{'hopopts' if number == 0 else 'dstopts'} {header[2:].hex()}"


def _describe_upper(protocol: int, body: bytes, src: bytes, dst: bytes, depth: int) -> str:
    """The upper layer in words, or nothing where it is none that we know."""
    six = len(src) == 16
    if protocol in (17, 136) and len(body) >= 8:
        sport, dport, length, check = struct.unpack("!HHHH", body[:8])
        name = "udp" if protocol == 17 else "udplite"
        extra = f" len {length}" if length != len(body) else ""
        built = P.udp(sport, dport, body[8:], length=length, protocol=protocol).build(src, dst)
        extra += f" sum {check:#06x}" if built[6:8] != body[6:8] else ""
        return f"{name} {sport} > {dport}{extra}" + _behind(body[8:], depth)
    if protocol == 6 and len(body) >= 20 and body[12] == 0x50:
        sport, dport, seq = struct.unpack("!HHI", body[:8])
        flags = "" if body[13] == 2 else f" flags {body[13]}"
        return f"tcp {sport} > {dport}{flags}" + ("" if seq == 1 else f" seq {seq}") + _behind(body[20:], depth)  # fmt: skip
    if protocol == (58 if six else 1) and len(body) >= 8:
        make = P.icmp6 if six else P.icmp
        rest = int.from_bytes(body[4:8], "big")
        built = make(body[0], body[1], rest, body[8:]).build(src, dst)
        text = f"icmp{'6' if six else ''} {body[0]}/{body[1]}" + (
            f" rest {rest:#x}" if rest else ""
        )
        text += f" sum {int.from_bytes(body[2:4], 'big'):#06x}" if built[2:4] != body[2:4] else ""
        return text + _behind(body[8:], depth)
    return ""


def _behind(payload: bytes, depth: int) -> str:
    return f" / {_describe_bytes(payload, depth)}" if payload else ""


def _describe_bytes(raw: bytes, depth: int = 0) -> str:
    if raw == P.data(len(raw)):
        return f"data {len(raw)}"
    if not any(raw):
        return f"zeros {len(raw)}"
    if all(32 <= c < 127 and c != 34 for c in raw):
        return f'"{raw.decode()}"'
    if depth < DEEPEST and raw[0] >> 4 in (4, 6) and _said_length(raw) == len(raw):
        inner = _describe_ip(raw, depth + 1)
        try:
            if packet_of(inner) == raw:
                return inner
        except (ValueError, struct.error):
            pass
    return f"hex {raw.hex()}"
