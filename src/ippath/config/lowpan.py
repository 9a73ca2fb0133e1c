"""Lines about 6LoWPAN: `6lowpan context …`, and `iwpan dev … set …` as iwpan takes them."""

from __future__ import annotations

from ippath.config.draft import Draft
from ippath.config.values import take_number, take_prefix
from ippath.config.words import Reader, Wrong
from ippath.model import Device

CONTEXTS = 16  # RFC 6282 section 3.1.2


def read_6lowpan(draft: Draft, reader: Reader) -> None:
    """`6lowpan context NUMBER PREFIX`: a prefix that compressed headers name by number."""
    reader.choice(("context",), "context")
    number = take_number(reader, "the number of the context", 0, CONTEXTS - 1)
    reader.skip("prefix")
    _, prefix, plen = take_prefix(reader, 6)
    draft.host.contexts[number] = (prefix, plen)


def read_iwpan(draft: Draft, reader: Reader) -> None:
    """`iwpan dev DEVICE set pan_id NUMBER` or `set short_addr NUMBER`."""
    reader.choice(("dev",), "dev")
    device = draft.take_device(reader)
    reader.choice(("set",), "set")
    word = reader.word
    what = reader.choice(("pan_id", "short_addr"), "pan_id or short_addr")
    if device.kind != "lowpan":
        raise Wrong(word, f"{device.name} is no 6LoWPAN device (ip link add … type lowpan)")
    value = take_number(reader, f"a {what}", 0, 0xFFFF)
    _set(device, what, value)


def _set(device: Device, what: str, value: int) -> None:
    if what == "pan_id":
        device.pan_id = value
    else:
        device.short_address = value
