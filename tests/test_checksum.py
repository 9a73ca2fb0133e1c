"""The Internet checksum against a plain reading of RFC 1071."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ippath.jit import kernel
from ippath.wire import checksum, memory

# a header from RFC 1071 style examples: 192.168.0.1 > 192.168.0.199, checksum b861
HEADER = bytes.fromhex("45000073000040004011b861c0a80001c0a800c7")


def arena(raw: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(raw), np.uint8)


def reference(raw: bytes) -> int:
    padded = raw + b"\0" * (len(raw) % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF ^ total


def test_valid_header():
    assert checksum.header_ok(arena(HEADER), 0, 20)


@pytest.mark.parametrize("at", range(20))
def test_any_changed_byte_is_noticed(at):
    broken = bytearray(HEADER)
    broken[at] ^= 0x01
    assert not checksum.header_ok(arena(bytes(broken)), 0, 20)


@given(st.binary(min_size=1, max_size=300), st.integers(0, 7))
def test_equals_reference_at_any_alignment(raw, shift):
    assert checksum.checksum(arena(bytes(shift) + raw), shift, len(raw)) == reference(raw)


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
def test_incremental_update(old, new):
    def with_word(word: int) -> bytes:
        return HEADER[:4] + struct.pack("!H", word) + HEADER[6:10] + b"\0\0" + HEADER[12:]

    updated = checksum.update16(reference(with_word(old)), old, new)
    assert updated == reference(with_word(new))


@kernel
def loads(buf):
    return memory.load16be(buf, 0), memory.load32le(buf, 4), memory.load64be(buf, 0)


@given(st.binary(min_size=8, max_size=8))
def test_loads_agree_with_struct(raw):
    two, four, eight = loads(arena(raw))
    assert two == struct.unpack("!H", raw[:2])[0]
    assert four == struct.unpack("<I", raw[4:])[0]
    assert eight == struct.unpack("!q", raw)[0]


@kernel
def less(buf, index, word):
    return memory.eight_below(buf, index, word)


WORDS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.lists(WORDS, min_size=8, max_size=8), WORDS, st.integers(0, 9))
def test_eight_words_are_compared_with_one(words, word, shift):
    buf = arena(bytes(shift) + struct.pack("<8q", *words))
    for limit in (word, words[3]):
        assert less(buf, shift, limit) == sum((w < limit) << k for k, w in enumerate(words))
