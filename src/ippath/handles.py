"""How compiled code sees `Tables` and `State`: one machine word each.

Numba passes a named tuple of arrays by value, nine words an array, and counts references to each;
for the whole packet path that costs minutes of compile time.  Here a handle is the address of a
plain list of (data address, rows) pairs, and a table taken from it is those two words: no reference
counts, nothing to unpack.  The source of the stages does not change: `h.fib4.info[i, INFO_TYPE]`.

Python keeps the arrays alive (`Handle.owner`).  In the checked build every index is verified.
Uncompiled, a handle is the named tuple itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ippath import tables as T
from ippath.jit import CHECKED, COMPILED

# columns of each field; 0: one-dimensional
_FIB = {
    "table": T.TABLE_COLUMNS, "start_hi": 0, "start_lo": 0, "leaf": 0, "top": 0,
    "node": T.NODE_COLUMNS, "route": T.ROUTE_COLUMNS, "info": T.INFO_COLUMNS, "nexthop": T.NH_COLUMNS,
    "bucket": 0, "rule": T.RULE_COLUMNS, "local_key": 0,
}  # fmt: skip
_TABLES: dict[str, Any] = {
    "conf": 0, "device": T.DEV_COLUMNS, "vlan": T.VLAN_COLUMNS, "address": T.ADDR_COLUMNS,
    "group": T.GROUP_COLUMNS, "fib4": _FIB, "fib6": _FIB, "socket": T.SOCK_COLUMNS, "port": 0, "member": T.MEMBER_COLUMNS,
    "neighbour": T.NEIGH_COLUMNS,
}  # fmt: skip
_STATE: dict[str, Any] = {
    "counters": 0, "verdicts": 0, "reasons": 0, "devstat": T.DEVSTAT_COLUMNS,
    "sockq": T.SOCKQ_COLUMNS, "rxdst": T.SKB_COLUMNS, "peer": T.PEER_COLUMNS,
    "exception": T.EXC_COLUMNS, "exc_bucket": 0, "exc_misc": 0, "bucket_used": 0, "misc": 0,
    "fqdir": T.FQDIR_COLUMNS, "fq": T.FQ_COLUMNS, "fq_bucket": 0, "fq_wheel": T.WHEEL_COLUMNS,
    "frag": T.FRAG_COLUMNS, "frag_link": 0, "frag_data": "bytes", "frag_misc": 0, "datagram": "bytes", "joined": 0, "pieces": 0, "overlaps": T.OVERLAP_COLUMNS,
    "lw": 0, "lowpan": "bytes", "context": T.CONTEXT_COLUMNS,
    "skb": 0, "hint": 0, "ahead": 0,
    "flow": T.FLOW_COLUMNS, "result": T.RES_COLUMNS, "opt": 0, "scratch": "bytes",
    "out": T.OUT_COLUMNS, "out_data": "bytes", "taken": T.TAKEN_COLUMNS, "taken_data": "bytes",
    "loop": T.LOOP_COLUMNS, "loop_data": "bytes", "plan": 0, "header": "bytes",
}  # fmt: skip
_OUTGOING: dict[str, Any] = {
    "data": "bytes", "offset": 0, "length": 0, "message": T.SEND_COLUMNS, "target": T.TARGET_COLUMNS,
    "way": 0,
}  # fmt: skip
_OPEN_FIB = {name: _FIB.get(name, 0) for name in T.OpenFib._fields}
# ippath.prefix.layout
_PREFIXES: dict[str, Any] = {"node": 0, "chunk": 0, "leaf": "int32", "meta": 0}
# one-dimensional fields that are not of int64
_BITS, _DTYPES = {"bytes": 8, "int32": 32}, {"bytes": np.uint8, "int32": np.int32}


def _words(layout: dict[str, Any]) -> int:
    return sum(_words(v) if isinstance(v, dict) else 2 for v in layout.values())


class Handle:
    """Addresses of the arrays of a Tables or State; `value` is what a compiled entry takes."""

    def __init__(self, owner: Any, layout: dict[str, Any]):
        self.owner = owner
        self._layout = layout
        self.words = np.zeros(_words(layout), np.int64)
        self._fill(owner, layout, 0)
        self.value = self.words.ctypes.data if COMPILED else owner

    def renew(self, owner: Any, names: Iterable[str]) -> None:
        """Take the arrays called `names` from a new owner that has all others from the old one."""
        at = {name: 2 * k for k, name in enumerate(self._layout)}
        for name in names:
            self._put(name, self._layout[name], getattr(owner, name), at[name])
        self.owner = owner
        if not COMPILED:
            self.value = owner

    def _fill(self, owner: Any, layout: dict[str, Any], at: int) -> int:
        for name, columns in layout.items():
            array = getattr(owner, name)
            if isinstance(columns, dict):
                at = self._fill(array, columns, at)
                continue
            self._put(name, columns, array, at)
            at += 2
        return at

    def _put(self, name: str, columns: Any, array: np.ndarray, at: int) -> None:
        wanted = _DTYPES.get(columns, np.int64)
        shape = array.shape[1:] == ((columns,) if isinstance(columns, int) and columns else ())
        if array.dtype != wanted or not array.flags.c_contiguous or not shape:
            raise TypeError(f"{name} is {array.dtype}{array.shape}, expected {columns} columns")
        self.words[at], self.words[at + 1] = array.ctypes.data, array.shape[0]


def tables_handle(tables: T.Tables) -> Handle:
    """A handle on one version of the tables."""
    return Handle(tables, _TABLES)


def fib_handle(fib: T.OpenFib) -> Handle:
    """A handle on tables of one family that are being changed."""
    return Handle(fib, _OPEN_FIB)


def state_handle(state: T.State) -> Handle:
    """A handle on the state that packets change."""
    return Handle(state, _STATE)


def outgoing_handle(outgoing: T.Outgoing) -> Handle:
    """A handle on datagrams to send."""
    return Handle(outgoing, _OUTGOING)


def prefixes_handle(arrays: Any) -> Handle:
    """A handle on the arrays of a prefix table of one family."""
    return Handle(arrays, _PREFIXES)


if not COMPILED:

    def open_tables(value: Any) -> Any:
        """The Tables behind a handle's value."""
        return value

    def open_fib(value: Any) -> Any:
        """The OpenFib behind a handle's value."""
        return value

    def open_state(value: Any) -> Any:
        """The State behind a handle's value."""
        return value

    def open_outgoing(value: Any) -> Any:
        """The Outgoing behind a handle's value."""
        return value

    def open_prefixes(value: Any) -> Any:
        """The arrays behind a handle's value."""
        return value

    def open_bytes(array: Any) -> Any:
        """A byte arena in the form that all stages share."""
        return array

    open_column = open_rows = open_messages = as_arena = open_bytes

    def copy_route(target: Any, source: Any) -> None:
        """Copy the DST_* fields of a packet or hint."""
        target[T.DST_FIRST : T.DST_FIRST + T.DST_COUNT] = source[
            T.DST_FIRST : T.DST_FIRST + T.DST_COUNT
        ]

else:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.core.errors import TypingError
    from numba.core.imputils import lower_builtin
    from numba.core.typing.templates import (
        AbstractTemplate,
        AttributeTemplate,
        infer_global,
        signature,
    )
    from numba.core.typing.templates import ConcreteTemplate  # noqa: F401
    from numba.extending import (
        infer_getattr, intrinsic, lower_getattr_generic, models, overload, overload_attribute,
        register_model,
    )  # fmt: skip
    import operator

    _i64 = ir.IntType(64)

    class TableType(types.Type):
        """A table: data address and rows; columns and field are part of the type.

        Different fields never overlap, and `fixed` ones never change during a call: LLVM is told
        (as `tbaa` and `invariant.load`), so that it keeps values in registers.
        """

        def __init__(self, columns: int, bits: int, field: str, fixed: bool):
            self.columns, self.bits, self.field, self.fixed = columns, bits, field, fixed
            super().__init__(name=f"Table({columns},{bits},{field})")

        def row(self) -> TableType:
            """The type of one row."""
            return TableType(0, self.bits, self.field, self.fixed)

    class HandleType(types.Type):
        """The address of (data address, rows) pairs laid out as `layout`."""

        def __init__(self, name: str, layout: dict[str, Any], fixed: bool):
            self.layout, self.fixed = layout, fixed
            super().__init__(name=name)

    @register_model(TableType)
    class _TableModel(models.StructModel):
        def __init__(self, manager, table):
            super().__init__(manager, table, [("data", types.intp), ("rows", types.intp)])

    @register_model(HandleType)
    class _HandleModel(models.PrimitiveModel):
        def __init__(self, manager, handle):
            super().__init__(manager, handle, _i64)

    _fib_type = HandleType("FibHandle", _FIB, True)
    _tables_type = HandleType("TablesHandle", _TABLES, True)
    _open_fib_type = HandleType("OpenFibHandle", _OPEN_FIB, False)
    _state_type = HandleType("StateHandle", _STATE, False)
    _outgoing_type = HandleType("OutgoingHandle", _OUTGOING, False)
    _prefixes_type = HandleType("PrefixesHandle", _PREFIXES, False)

    def _field(handle: HandleType, name: str) -> tuple[Any, int]:
        """(Numba type, first word) of a field."""
        at = 0
        for key, columns in handle.layout.items():
            if key == name:
                if isinstance(columns, dict):
                    return _fib_type, at
                if columns in _BITS:
                    return TableType(0, _BITS[columns], name, handle.fixed), at
                return TableType(columns, 64, "tables" if handle.fixed else name, handle.fixed), at
            at += _words(columns) if isinstance(columns, dict) else 2
        raise AttributeError(name)

    @infer_getattr
    class _HandleAttributes(AttributeTemplate):
        key = HandleType

        def generic_resolve(self, handle, name):
            if name in handle.layout:
                return _field(handle, name)[0]
            return None

    def _constant_load(builder, pointer):
        """A load whose value never changes during a call: LLVM may move it out of loops."""
        load = builder.load(pointer)
        load.set_metadata("invariant.load", builder.module.add_metadata([]))
        return load

    @lower_getattr_generic(HandleType)
    def _handle_field(context, builder, handle, value, name):
        field, at = _field(handle, name)
        address = builder.add(value, ir.Constant(_i64, 8 * at))
        if isinstance(field, HandleType):
            return address
        table = cgutils.create_struct_proxy(field)(context, builder)
        words = builder.inttoptr(address, _i64.as_pointer())
        table.data = _constant_load(builder, words)
        table.rows = _constant_load(builder, builder.gep(words, [ir.Constant(_i64, 1)]))
        return table._getvalue()

    def promise(builder, table_type, access):
        """Tell LLVM what a load or store through a table of this type can touch."""
        if not isinstance(table_type, TableType):
            return access
        add, zero = builder.module.add_metadata, ir.Constant(_i64, 0)
        root = add([ir.MetaDataString(builder.module, "ippath tables")])
        kind = add([ir.MetaDataString(builder.module, table_type.field), root, zero])
        access.set_metadata("tbaa", add([kind, kind, zero]))
        if table_type.fixed and access.opname == "load":
            access.set_metadata("invariant.load", add([]))
        return access

    def _narrowed(builder, table_type, value):
        return value if table_type.bits == 64 else builder.trunc(value, ir.IntType(table_type.bits))

    def _verify(context, builder, index, rows):
        if not CHECKED:
            return
        outside = builder.icmp_unsigned(">=", index, rows)
        with builder.if_then(outside, likely=False):
            context.call_conv.return_user_exc(builder, IndexError, ("table index out of range",))

    def _element(context, builder, table_type, value, indices):
        table = cgutils.create_struct_proxy(table_type)(context, builder, value=value)
        element = ir.IntType(table_type.bits)
        base = builder.inttoptr(table.data, element.as_pointer())
        _verify(context, builder, indices[0], table.rows)
        at = indices[0]
        if table_type.columns:
            at = builder.mul(at, ir.Constant(_i64, table_type.columns))
            if len(indices) == 2:
                _verify(context, builder, indices[1], ir.Constant(_i64, table_type.columns))
                at = builder.add(at, indices[1])
        return builder.gep(base, [at])

    def _as_index(context, builder, typ, value):
        return context.cast(builder, value, typ, types.int64)

    @infer_global(operator.getitem)
    class _GetItem(AbstractTemplate):
        def generic(self, args, kws):
            if not isinstance(args[0], TableType):
                return None
            table, index = args
            if isinstance(index, types.Integer):
                return signature(table.row() if table.columns else types.int64, table, types.int64)
            if isinstance(index, types.BaseTuple) and len(index) == 2 and table.columns:
                return signature(types.int64, table, types.UniTuple(types.int64, 2))
            return None

    @infer_global(operator.setitem)
    class _SetItem(AbstractTemplate):
        def generic(self, args, kws):
            if not isinstance(args[0], TableType):
                return None
            table, index, _ = args
            if table.fixed:
                raise TypingError("packets never change a table")
            if isinstance(index, types.Integer) and not table.columns:
                return signature(types.none, table, types.int64, types.int64)
            if isinstance(index, types.BaseTuple) and len(index) == 2 and table.columns:
                return signature(types.none, table, types.UniTuple(types.int64, 2), types.int64)
            return None

    @lower_builtin(operator.getitem, TableType, types.Integer)
    def _get_one(context, builder, sig, args):
        table = sig.args[0]
        pointer = _element(context, builder, table, args[0], [args[1]])
        if not table.columns:
            word = promise(builder, table, builder.load(pointer))
            return word if table.bits == 64 else builder.sext(word, _i64)
        row = cgutils.create_struct_proxy(table.row())(context, builder)
        row.data = builder.ptrtoint(pointer, _i64)
        row.rows = ir.Constant(_i64, table.columns)
        return row._getvalue()

    @lower_builtin(operator.getitem, TableType, types.UniTuple)
    def _get_two(context, builder, sig, args):
        indices = cgutils.unpack_tuple(builder, args[1])
        pointer = _element(context, builder, sig.args[0], args[0], indices)
        return promise(builder, sig.args[0], builder.load(pointer))

    @lower_builtin(operator.setitem, TableType, types.Integer, types.Integer)
    def _set_one(context, builder, sig, args):
        pointer = _element(context, builder, sig.args[0], args[0], [args[1]])
        promise(
            builder, sig.args[0], builder.store(_narrowed(builder, sig.args[0], args[2]), pointer)
        )

    @lower_builtin(operator.setitem, TableType, types.UniTuple, types.Integer)
    def _set_two(context, builder, sig, args):
        indices = cgutils.unpack_tuple(builder, args[1])
        pointer = _element(context, builder, sig.args[0], args[0], indices)
        promise(
            builder, sig.args[0], builder.store(_narrowed(builder, sig.args[0], args[2]), pointer)
        )

    @intrinsic
    def _rows(typing, table):
        def codegen(context, builder, sig, args):
            return cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0]).rows

        return types.int64(table), codegen

    @overload_attribute(TableType, "shape")
    def _shape(table):
        return lambda table: (_rows(table),)

    @overload(len)
    def _len(table):
        if isinstance(table, TableType):
            return lambda table: _rows(table)
        return None

    def _opener(handle_type: HandleType):
        @intrinsic
        def opener(typing, address):
            def codegen(context, builder, sig, args):
                return args[0]

            return handle_type(types.int64), codegen

        return opener

    open_tables = _opener(_tables_type)
    open_fib = _opener(_open_fib_type)
    open_state = _opener(_state_type)
    open_outgoing = _opener(_outgoing_type)
    open_prefixes = _opener(_prefixes_type)

    def _array_opener(field: str, fixed: bool, width: int = 0):
        """Opens an array whose element width follows from its type; 2-dimensional ones have `width`."""

        @intrinsic
        def opener(typing, array):
            columns = width if array.ndim == 2 else 0
            table_type = TableType(columns, array.dtype.bitwidth, field, fixed)

            def codegen(context, builder, sig, args):
                source = context.make_array(sig.args[0])(context, builder, args[0])
                table = cgutils.create_struct_proxy(table_type)(context, builder)
                table.data = builder.ptrtoint(source.data, _i64)
                table.rows = builder.extract_value(source.shape, 0)
                return table._getvalue()

            return table_type(array), codegen

        return opener

    open_bytes = _array_opener("arena", True)
    open_column = _array_opener("column", True)
    open_rows = _array_opener("verdict rows", False, T.V_COLUMNS)
    open_messages = _array_opener("messages", False, T.SEND_COLUMNS)

    @intrinsic
    def as_arena(typing, table):
        """Bytes of the state under the type of the arena, so that the stages take them as a packet.

        To be passed to a `cold` function, during which they must not change: they count as fixed.
        """
        arena = TableType(0, 8, "arena", True)

        def codegen(context, builder, sig, args):
            return args[0]

        return arena(table), codegen

    @intrinsic
    def copy_route(typing, target, source):
        """Copy the DST_* fields of a packet or hint, four words at a time."""
        wide = ir.VectorType(_i64, 4)

        def at(builder, table_type, value, word, kind):
            data = builder.extract_value(value, 0)
            address = builder.add(data, ir.Constant(_i64, 8 * (T.DST_FIRST + word)))
            return builder.inttoptr(address, kind.as_pointer())

        def codegen(context, builder, sig, args):
            for word in range(0, T.DST_COUNT, 4):
                kind = wide if word + 4 <= T.DST_COUNT else ir.VectorType(_i64, T.DST_COUNT - word)
                load = builder.load(at(builder, sig.args[1], args[1], word, kind))
                store = builder.store(load, at(builder, sig.args[0], args[0], word, kind))
                load.align = store.align = 8
                promise(builder, sig.args[1], load)
                promise(builder, sig.args[0], store)
            return context.get_dummy_value()

        return types.void(target, source), codegen
