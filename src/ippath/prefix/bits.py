"""Bits of 64-bit words and of keys: addresses of 128 bits in two words, IPv4 in the highest 32.

Every word is a signed int64, whatever it means, so that compiled and plain Python agree.
"""

from __future__ import annotations

from ippath.jit import COMPILED, hot

_WORD = (1 << 64) - 1


def signed(value: int) -> int:
    """The int64 of the same 64 bits."""
    value &= _WORD
    return value - (1 << 64) if value >> 63 else value


if COMPILED:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    def _of_word(name: str, *extra: int):
        """An intrinsic of LLVM from one 64-bit word to a number."""
        word, flag = ir.IntType(64), ir.IntType(1)

        @intrinsic
        def operation(typing, value):
            def codegen(context, builder, sig, args):
                kind = ir.FunctionType(word, [word, *(flag for _ in extra)])
                called = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.i64")
                return builder.call(called, [args[0], *(ir.Constant(flag, k) for k in extra)])

            return types.int64(types.int64), codegen

        return operation

    popcount = _of_word("ctpop")
    leading_zeros = _of_word("ctlz", 0)
    trailing_zeros = _of_word("cttz", 0)

    @hot
    def one_bit(place):
        """The word with this bit set; 0 is the lowest."""
        return 1 << place

    @hot
    def from_ipv4(address):
        """The upper word of an IPv4 address of 32 bits, signed or not."""
        return address << 32

    @hot
    def shift_in(word, low):
        """The word with 16 bits shifted in from the right."""
        return (word << 16) | low

    @hot
    def shift_up(word, count):
        """The word moved to the left, without what leaves it there."""
        return word << count

else:

    def popcount(value):
        """How many bits are set."""
        return (int(value) & _WORD).bit_count()

    def leading_zeros(value):
        """Zero bits above the highest one that is set; 64 for zero."""
        return 64 - (int(value) & _WORD).bit_length()

    def trailing_zeros(value):
        """Zero bits below the lowest one that is set; 64 for zero."""
        value = int(value) & _WORD
        return (value & -value).bit_length() - 1 if value else 64

    def one_bit(place):
        """The word with this bit set; 0 is the lowest."""
        return signed(1 << int(place))

    def from_ipv4(address):
        """The upper word of an IPv4 address of 32 bits, signed or not."""
        return signed(int(address) << 32)

    def shift_in(word, low):
        """The word with 16 bits shifted in from the right."""
        return signed((int(word) << 16) | int(low))

    def shift_up(word, count):
        """The word moved to the left, without what leaves it there."""
        return signed(int(word) << int(count))


@hot
def rank(bits, slot):
    """How many bits are set from bit 0 to bit `slot`."""
    return popcount(bits << (63 - slot))


@hot
def common(hi, lo, other_hi, other_lo):
    """How many leading bits two keys share, up to 128."""
    shared = leading_zeros(hi ^ other_hi)
    if shared == 64:
        shared += leading_zeros(lo ^ other_lo)
    return shared


@hot
def bit_of(hi, lo, place):
    """Bit number `place` of a key; 0 is the first, 127 the last."""
    if place < 64:
        return (hi >> (63 - place)) & 1
    return (lo >> (127 - place)) & 1


@hot
def host_bits(hi, lo, length):
    """Not zero if a bit beyond the first `length` is set."""
    if length == 0:
        return hi | lo
    if length < 64:
        return (hi & ~(-1 << (64 - length))) | lo
    if length == 64:
        return lo
    return lo & ~(-1 << (128 - length))
