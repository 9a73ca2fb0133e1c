"""A batch may be built by anyone: what lies outside its arena is refused before anything is read."""

from __future__ import annotations

import numpy as np
import pytest

from ippath import Netns, PacketBatch
from tests.hosts import router
from tests.packets import ip

LARGEST = 2**63 - 1


def batch() -> PacketBatch:
    """Three packets, of which the last ends where the arena does."""
    return PacketBatch.from_packets(
        [ip("10.1.0.2", "10.1.0.1", payload=bytes(k)) for k in range(3)]
    )


@pytest.mark.parametrize("row", [0, 1, 2])
@pytest.mark.parametrize(
    ("column", "value"),
    [("offset", -1), ("offset", -LARGEST - 1), ("offset", LARGEST), ("offset", 10_000),
     ("length", -1), ("length", 10_000), ("length", 2**31 - 1), ("length", -(2**31))],
)  # fmt: skip
def test_packets_outside_the_arena_are_refused(row: int, column: str, value: int) -> None:
    netns, wrong = Netns(router()), batch()
    getattr(wrong, column)[row] = value
    with pytest.raises(ValueError, match="outside its arena"):
        netns.receive(wrong)
    assert netns.totals().packets == 0, "nothing was received"


def test_the_arena_may_be_used_to_its_last_byte() -> None:
    whole = batch()
    ends = whole.offset + whole.length
    assert ends[-1] == len(whole.data)
    assert len(Netns(router()).receive(whole)) == 3
    one_more = batch()
    one_more.length[2] += 1
    with pytest.raises(ValueError, match="outside its arena"):
        Netns(router()).receive(one_more)
    nothing = batch()
    nothing.offset[:], nothing.length[:] = len(nothing.data), 0  # empty packets at the end
    assert len(Netns(router()).receive(nothing)) == 3


def test_no_packets_at_all() -> None:
    empty = PacketBatch.from_packets([])
    assert len(Netns(router()).receive(empty)) == 0
    assert np.asarray(empty.data).dtype == np.uint8
