"""Tables as large as the Internet's, and addresses to look up in them, as NumPy arrays.

Addresses are spread evenly where real ones cluster, so that less of a table stays in caches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NEXT_HOPS = 100  # the values: 1 to so many, 0 for no prefix

# prefixes of each length in a table of a route collector, about
LENGTHS = {
    4: {
        8: 16, 9: 14, 10: 41, 11: 106, 12: 310, 13: 600, 14: 1200, 15: 2100, 16: 13600, 17: 8300,
        18: 13900, 19: 24900, 20: 44000, 21: 52000, 22: 110000, 23: 98000, 24: 590000,
    },
    6: {
        20: 40, 24: 60, 28: 200, 29: 5300, 30: 600, 31: 250, 32: 25800, 33: 4000, 34: 2500, 35: 1500,
        36: 8500, 37: 900, 38: 2500, 39: 1200, 40: 24000, 41: 600, 42: 2500, 43: 800, 44: 22000,
        45: 1500, 46: 4500, 47: 4500, 48: 112000,
    },
}  # fmt: skip
UNICAST = (1 << 24, 224 << 24)
# blocks of the registries, as the first 16 bits and the length
_BLOCKS = ((0x2001, 16), (0x2400, 12), (0x2600, 12), (0x2800, 12), (0x2A00, 11), (0x2C00, 12))
_INNER = 0.9  # of the long IPv6 prefixes lie within a shorter one


@dataclass(frozen=True)
class Prefixes:
    """A table of one family in random order; `key` is an IPv4 address, or half an IPv6 one."""

    family: int
    key: np.ndarray  # uint64[n]
    length: np.ndarray  # uint8[n]
    value: np.ndarray  # uint8[n]

    def __len__(self) -> int:
        return len(self.key)

    def addresses(self, keys: np.ndarray) -> np.ndarray:
        """Keys as PrefixTable takes them: uint32[n] or uint8[n, 16]."""
        if self.family == 4:
            return keys.astype(np.uint32)
        packed = np.zeros((len(keys), 16), np.uint8)
        packed[:, :8] = keys.astype(">u8").view(np.uint8).reshape(-1, 8)
        return packed

    def texts(self, keys: np.ndarray) -> list[str]:
        """Keys as people write them."""
        from ippath.address_texts import ipv4_texts, ipv6_texts

        if self.family == 4:
            packed = keys.astype(">u4").view(np.uint8).reshape(-1, 4)
            return ipv4_texts(packed).to_pylist()
        return ipv6_texts(self.addresses(keys)).to_pylist()

    def random(self, count: int, chance: np.random.Generator) -> np.ndarray:
        """Keys to look up: any address of IPv4, any prefix of IPv6."""
        if self.family == 4:
            return chance.integers(*UNICAST, count, np.uint64)
        return self._within(chance.integers(0, len(self), count), chance)

    def skewed(self, count: int, chance: np.random.Generator) -> np.ndarray:
        """Keys to look up within prefixes of which the n-th is asked for 1/n as often as the first."""
        rank = np.exp(chance.random(count) * np.log(len(self))) - 1
        return self._within(rank.astype(np.int64), chance)

    def _within(self, rows: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        bits = 32 if self.family == 4 else 64
        host = chance.integers(0, 1 << bits, len(rows), np.uint64, endpoint=False)
        return self.key[rows] | host >> self.length[rows].astype(np.uint64)


def full_table(family: int, count: int, seed: int = 1) -> Prefixes:
    """So many prefixes, their lengths spread as in a BGP table."""
    chance = np.random.default_rng(seed)
    lengths = np.array(list(LENGTHS[family]), np.uint64)
    share = np.array(list(LENGTHS[family].values()), float)
    found = np.zeros(0, np.uint64)  # the key's bits, with the length in the last 8
    while len(found) < count:
        length = chance.choice(lengths, count, p=share / share.sum())
        if family == 4:
            key = chance.integers(*UNICAST, count, np.uint64)
            found = _with(found, key << np.uint64(32), length)
        else:
            found = _with(found, _keys6(length, chance), length)
    found = chance.permutation(found)[:count]
    length = found & np.uint64(0xFF)
    key = found - length
    return Prefixes(
        family, key >> np.uint64(32) if family == 4 else key, length.astype(np.uint8),
        chance.integers(1, NEXT_HOPS + 1, count, np.uint8),
    )  # fmt: skip


def _with(found: np.ndarray, key: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Both, each prefix once."""
    free = np.uint64(64) - length
    return np.unique(np.concatenate([found, key >> free << free | length]))


def _keys6(length: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    """Upper halves of IPv6 addresses in the registries' blocks, most long ones in others' prefixes."""
    first = np.array([block for block, _ in _BLOCKS], np.uint64) << np.uint64(48)
    bits = np.array([bits for _, bits in _BLOCKS], np.uint64)
    block = chance.integers(0, len(_BLOCKS), len(length))
    key = chance.integers(0, 1 << 64, len(length), np.uint64, endpoint=False)
    key = first[block] | key >> bits[block]
    short = np.flatnonzero(length <= 32)
    inner = np.flatnonzero((length > 32) & (chance.random(len(length)) < _INNER))
    holder = chance.choice(short, len(inner))
    key[inner] = (key[holder] >> np.uint64(32) << np.uint64(32)) | (
        key[inner] & np.uint64(0xFFFFFFFF)
    )
    return key
