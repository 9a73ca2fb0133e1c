"""Unaligned loads, stores and copies on a byte arena: the only place where raw memory is touched.

Every value is an int64, whatever its width on the wire (64-bit loads keep their bit pattern), so
that compiled and plain Python agree without a cast.  `be` is network order, `le` the other one.

The fast build does not check ranges: a stage loads only what its own length check covers.  The
checked build (`IPPATH_CHECKED=1`) verifies each access and raises IndexError.
"""

from __future__ import annotations

from ippath.jit import CHECKED, COMPILED, kernel

_SIGN = 1 << 63
_WRAP = 1 << 64


def _signed(value: int) -> int:
    return value - _WRAP if value & _SIGN else value


if COMPILED:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    from ippath.handles import promise

    def _address(context, builder, array_type, array, index):
        if not isinstance(array_type, types.Array):  # a table of ippath.handles
            table = cgutils.create_struct_proxy(array_type)(context, builder, value=array)
            base = builder.inttoptr(table.data, ir.IntType(8).as_pointer())
            return builder.gep(base, [index])
        struct = context.make_array(array_type)(context, builder, array)
        return builder.gep(struct.data, [index])

    def _loader(bits: int, swap: bool):
        width = ir.IntType(bits)

        @intrinsic
        def load(typing, buf, index):
            def codegen(context, builder, signature, args):
                pointer = _address(context, builder, signature.args[0], args[0], args[1])
                value = builder.load(builder.bitcast(pointer, width.as_pointer()))
                value.align = 1
                promise(builder, signature.args[0], value)
                if swap and bits > 8:
                    swapper = cgutils.get_or_insert_function(
                        builder.module, ir.FunctionType(width, [width]), f"llvm.bswap.i{bits}"
                    )
                    value = builder.call(swapper, [value])
                return value if bits == 64 else builder.zext(value, ir.IntType(64))

            return types.int64(buf, types.int64), codegen

        return load

    def _storer(bits: int, swap: bool):
        width = ir.IntType(bits)

        @intrinsic
        def store(typing, buf, index, value):
            def codegen(context, builder, signature, args):
                pointer = _address(context, builder, signature.args[0], args[0], args[1])
                word = args[2] if bits == 64 else builder.trunc(args[2], width)
                if swap and bits > 8:
                    swapper = cgutils.get_or_insert_function(
                        builder.module, ir.FunctionType(width, [width]), f"llvm.bswap.i{bits}"
                    )
                    word = builder.call(swapper, [word])
                done = builder.store(word, builder.bitcast(pointer, width.as_pointer()))
                done.align = 1
                promise(builder, signature.args[0], done)
                return context.get_dummy_value()

            return types.void(buf, types.int64, types.int64), codegen

        return store

    @intrinsic
    def _memmove(typing, target, target_index, source, source_index, count):
        def codegen(context, builder, signature, args):
            to = _address(context, builder, signature.args[0], args[0], args[1])
            frm = _address(context, builder, signature.args[2], args[2], args[3])
            cgutils.raw_memmove(builder, to, frm, args[4], itemsize=1, align=1)
            return context.get_dummy_value()

        return types.void(target, types.int64, source, types.int64, types.int64), codegen

    @intrinsic
    def prefetch(typing, buf, index):
        """Ask the processor to bring the cache line at `buf[index]`; no access, any index will do."""

        def codegen(context, builder, signature, args):
            pointer = _address(context, builder, signature.args[0], args[0], args[1])
            byte, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
            fetch = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32]),
                "llvm.prefetch.p0",
            )  # fmt: skip
            builder.call(fetch, [pointer, *(ir.Constant(i32, k) for k in (0, 3, 1))])
            return context.get_dummy_value()

        return types.void(buf, types.int64), codegen

    @intrinsic
    def _eight_below(typing, buf, index, word):
        eight = ir.VectorType(ir.IntType(64), 8)

        def codegen(context, builder, signature, args):
            pointer = _address(context, builder, signature.args[0], args[0], args[1])
            words = builder.load(builder.bitcast(pointer, eight.as_pointer()))
            words.align = 1
            promise(builder, signature.args[0], words)
            one = builder.insert_element(
                ir.Constant(eight, ir.Undefined), args[2], ir.IntType(32)(0)
            )
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
            each = builder.shuffle_vector(one, ir.Constant(eight, ir.Undefined), zeros)
            less = builder.icmp_signed("<", words, each)
            return builder.zext(builder.bitcast(less, ir.IntType(8)), ir.IntType(64))

        return types.int64(buf, types.int64, types.int64), codegen

    @intrinsic
    def _bytes_between(typing, buf, index, also, low, high):
        many = ir.VectorType(ir.IntType(8), 64)

        def codegen(context, builder, signature, args):
            def each(word):
                none, zero = ir.Constant(many, ir.Undefined), ir.IntType(32)(0)
                one = builder.insert_element(none, builder.trunc(word, ir.IntType(8)), zero)
                places = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
                return builder.shuffle_vector(one, none, places)

            pointer = _address(context, builder, signature.args[0], args[0], args[1])
            found = builder.load(builder.bitcast(pointer, many.as_pointer()))
            found.align = 1
            promise(builder, signature.args[0], found)
            above = builder.sub(builder.or_(found, each(args[2])), each(args[3]))
            inside = builder.icmp_unsigned("<=", above, each(builder.sub(args[4], args[3])))
            return builder.bitcast(inside, ir.IntType(64))

        number = types.int64
        return number(buf, number, number, number, number), codegen

    _load8, _load16be, _load32be, _load64be = (_loader(b, True) for b in (8, 16, 32, 64))
    _load16le, _load32le, _load64le = (_loader(b, False) for b in (16, 32, 64))
    _store8, _store16be, _store32be, _store64be = (_storer(b, True) for b in (8, 16, 32, 64))
    _store16le, _store32le, _store64le = (_storer(b, False) for b in (16, 32, 64))

else:

    def _loader(bits: int, order: str):
        size = bits // 8

        def load(buf, index):
            value = int.from_bytes(buf[index : index + size].tobytes(), order)
            return _signed(value) if bits == 64 else value

        return load

    def _storer(bits: int, order: str):
        size, mask = bits // 8, (1 << bits) - 1

        def store(buf, index, value):
            raw = (int(value) & mask).to_bytes(size, order)
            for k in range(size):
                buf[index + k] = raw[k]

        return store

    def prefetch(buf, index):
        """Nothing: there is no cache to fill."""

    def _eight_below(buf, index, word):
        less = buf[index : index + 64].view("<i8") < word
        return sum(int(bit) << k for k, bit in enumerate(less))

    def _bytes_between(buf, index, also, low, high):
        found = buf[index : index + 64] | also
        inside = (found >= low) & (found <= high)
        return _signed(sum(int(bit) << k for k, bit in enumerate(inside)))

    def _memmove(target, target_index, source, source_index, count):
        target[target_index : target_index + count] = source[
            source_index : source_index + count
        ].copy()

    _load8, _load16be, _load32be, _load64be = (_loader(b, "big") for b in (8, 16, 32, 64))
    _load16le, _load32le, _load64le = (_loader(b, "little") for b in (16, 32, 64))
    _store8, _store16be, _store32be, _store64be = (_storer(b, "big") for b in (8, 16, 32, 64))
    _store16le, _store32le, _store64le = (_storer(b, "little") for b in (16, 32, 64))


@kernel
def _within(buf, index, count):
    if index < 0 or count < 0 or index + count > buf.shape[0]:
        raise IndexError("memory access outside the arena")


if CHECKED:

    def _checked_load(raw, size):
        @kernel
        def load(buf, index):
            _within(buf, index, size)
            return raw(buf, index)

        return load

    def _checked_store(raw, size):
        @kernel
        def store(buf, index, value):
            _within(buf, index, size)
            raw(buf, index, value)

        return store

    load8 = _checked_load(_load8, 1)
    load16be, load16le = _checked_load(_load16be, 2), _checked_load(_load16le, 2)
    load32be, load32le = _checked_load(_load32be, 4), _checked_load(_load32le, 4)
    load64be, load64le = _checked_load(_load64be, 8), _checked_load(_load64le, 8)
    store8 = _checked_store(_store8, 1)
    store16be, store16le = _checked_store(_store16be, 2), _checked_store(_store16le, 2)
    store32be, store32le = _checked_store(_store32be, 4), _checked_store(_store32le, 4)
    store64be, store64le = _checked_store(_store64be, 8), _checked_store(_store64le, 8)

    @kernel
    def eight_below(buf, index, word):
        """Which of eight 64-bit words from byte `index` on are less than this one, as bits 0 to 7."""
        _within(buf, index, 64)
        return _eight_below(buf, index, word)

    @kernel
    def bytes_between(buf, index, also, low, high):
        """Which of 64 bytes from `index` on, with the bits `also` set, are `low` to `high`: 64 bits."""
        _within(buf, index, 64)
        return _bytes_between(buf, index, also, low, high)

    @kernel
    def copy(target, target_index, source, source_index, count):
        _within(target, target_index, count)
        _within(source, source_index, count)
        _memmove(target, target_index, source, source_index, count)

else:
    load8, load16be, load16le, load32be, load32le = (
        _load8, _load16be, _load16le, _load32be, _load32le,
    )  # fmt: skip
    load64be, load64le = _load64be, _load64le
    store8, store16be, store16le, store32be, store32le = (
        _store8, _store16be, _store16le, _store32be, _store32le,
    )  # fmt: skip
    store64be, store64le = _store64be, _store64le
    eight_below, bytes_between = _eight_below, _bytes_between
    copy = _memmove
