"""Tables as a router without a default route has them, and addresses to look up; from a seed.

The shares of prefix lengths are those of the public routing table of 2025, rounded; where prefixes lie
is made up: long ones partly within shorter ones, in runs of neighbours, as allocations make them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# prefixes of each length, of ten thousand
_SHARES4 = {
    8: 1, 9: 1, 10: 1, 11: 1, 12: 3, 13: 6, 14: 12, 15: 20, 16: 140, 17: 85, 18: 145, 19: 255,
    20: 450, 21: 510, 22: 1130, 23: 1040, 24: 6200,
}  # fmt: skip
_SHARES6 = {
    19: 1, 20: 3, 24: 5, 28: 20, 29: 260, 30: 80, 31: 30, 32: 1150, 33: 260, 34: 210, 35: 100,
    36: 600, 37: 60, 38: 140, 39: 80, 40: 1080, 41: 60, 42: 260, 43: 80, 44: 1150, 45: 130,
    46: 350, 47: 320, 48: 4571,
}  # fmt: skip
_BLOCKS6 = (0x2001, 0x2003, *range(0x2400, 0x2410), *range(0x2600, 0x2621), *range(0x2800, 0x2807),
            *range(0x2A00, 0x2A15), 0x2C0F)  # fmt: skip
NEXT_HOPS = 1 << 12
SKEW = 1.1  # exponent of Zipf's law among the destinations of skewed queries


@dataclass(frozen=True)
class BgpTable:
    """Distinct prefixes in random order, each with the number of a next hop."""

    family: int
    high: np.ndarray  # uint64[]: first words of the addresses; an IPv4 address has 32 bits
    length: np.ndarray  # uint8[]
    value: np.ndarray  # uint32[]

    def __len__(self) -> int:
        return len(self.high)

    def texts(self) -> list[str]:
        """The prefixes as text."""
        from ippath.address_texts import ipv4_texts, ipv6_texts

        texts = ipv4_texts if self.family == 4 else ipv6_texts
        return [
            f"{a}/{n}"
            for a, n in zip(texts(packed(self.high, self.family)).to_pylist(), self.length)
        ]

    def queries(self, count: int, skewed: bool, seed: int) -> np.ndarray:
        """Addresses: anywhere among the prefixes, or, `skewed`, most of them to few of 64k hosts.

        Random ones of IPv4 are any of the unicast addresses; of IPv6 they lie within prefixes, since
        hardly any other would.  uint32[] or uint8[n, 16].
        """
        rng = np.random.default_rng(seed)
        if skewed:
            hosts = self.queries(1 << 16, False, seed + 1)
            weight = 1.0 / np.arange(1, len(hosts) + 1) ** SKEW
            return hosts[rng.choice(len(hosts), count, p=weight / weight.sum())]
        if self.family == 4:
            return rng.integers(1 << 24, 224 << 24, count, dtype=np.uint32)
        within = rng.integers(0, len(self), count)
        host = rng.integers(0, 1 << 64, (count, 2), dtype=np.uint64)
        words = np.empty((count, 2), ">u8")
        words[:, 0] = self.high[within] | host[:, 0] >> self.length[within].astype(np.uint64)
        words[:, 1] = host[:, 1]
        return words.view(np.uint8).reshape(count, 16)


def packed(high: np.ndarray, family: int) -> np.ndarray:
    """Addresses as uint8[n, 4] or uint8[n, 16]."""
    if family == 4:
        return high.astype(">u4").view(np.uint8).reshape(-1, 4)
    words = np.zeros((len(high), 2), ">u8")
    words[:, 0] = high
    return words.view(np.uint8).reshape(-1, 16)


def bgp_table(family: int, count: int, seed: int = 1) -> BgpTable:
    """About `count` prefixes (those drawn twice are left out), in random order."""
    rng = np.random.default_rng(seed)
    shares = _SHARES4 if family == 4 else _SHARES6
    width = 32 if family == 4 else 64
    high, length = np.zeros(0, np.uint64), np.zeros(0, np.uint8)
    total = sum(shares.values())
    for bits, share in shares.items():
        wanted = max(1, round(count * share / total))
        drawn = _draw(rng, family, bits, wanted, high, width)
        high = np.concatenate([high, drawn])
        length = np.concatenate([length, np.full(len(drawn), bits, np.uint8)])
    order = rng.permutation(len(high))
    hops = rng.integers(0, NEXT_HOPS, len(high), dtype=np.uint32)
    return BgpTable(family, high[order], length[order], hops)


def _draw(
    rng: np.random.Generator, family: int, bits: int, wanted: int, above: np.ndarray, width: int
) -> np.ndarray:
    """Distinct prefixes of one length: half of them within shorter ones, in runs of neighbours."""
    shift = np.uint64(width - bits)
    found = np.zeros(0, np.uint64)
    while len(found) < wanted:
        starts = max(16, (wanted - len(found)) // 2)
        if family == 4:
            first = rng.integers(1 << 24, 224 << 24, starts, dtype=np.uint64)
        else:
            block = rng.choice(np.array(_BLOCKS6, np.uint64), starts)
            first = block << np.uint64(48) | rng.integers(0, 1 << 48, starts, dtype=np.uint64)
        if len(above):
            spread = np.uint64(width - 16 if family == 4 else width - 32)
            near = rng.choice(above, starts) | rng.integers(
                0, 1 << int(spread), starts, dtype=np.uint64
            )
            share = 0.5 if family == 4 else 0.97 if bits > 32 else 0.1
            first = np.where(rng.random(starts) < share, near, first)
        run = rng.geometric(0.3, starts)
        steps = np.arange(run.sum()) - np.repeat(np.cumsum(run) - run, run)
        all_of = (np.repeat(first >> shift, run) + steps.astype(np.uint64)) << shift
        if family == 4:
            all_of = all_of[all_of < np.uint64(224 << 24)]
        found = np.unique(np.concatenate([found, all_of]))
    return rng.permutation(found)[:wanted]
