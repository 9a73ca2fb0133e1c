"""Compile helpers as parts of the entry that calls them, not as programs of their own.

Numba optimises and emits machine code for every compiled function together with all that it calls,
so a packet path of 200 helpers is optimised again and again: minutes.  Here a helper's library
keeps its own LLVM module only, without optimising it or turning it into machine code; the entry
links all parts once, optimises once, emits once.

This rests on two things of Numba's: `pipeline_class`, and the life cycle of `JITCodeLibrary`.
`available()` says whether this Numba has them; where it has not, helpers compile the slow way.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding as llvm
from llvmlite import ir
from numba import njit
from numba.core import codegen, compiler, types

# Intel cores whose microcode keeps jumps that touch a 32-byte border out of the decoded cache
# (erratum SKX102): code with padded jumps is 5 to 10 % faster there
PADDED_JUMPS = ("skylake", "skylake-avx512", "cascadelake", "cooperlake")
if llvm.get_host_cpu_name() in PADDED_JUMPS:
    llvm.set_option("ippath", "--x86-branches-within-32B-boundaries")

_NEEDED = (
    "_linking_libraries", "_finalize_dynamic_globals", "_get_module_for_linking", "_final_module",
)  # fmt: skip


_ADDRESS = ir.IntType(8).as_pointer()


class _NoEnvironment:
    """Stands in for the code generator where a part would register its Python environment."""

    def set_env(self, name: str, env: Any) -> None:
        """Parts run only inside an entry, which registers its own."""


class PartLibrary(codegen.JITCodeLibrary):
    """One helper: its own module, and the parts that it calls."""

    codegen = property(lambda self: _NoEnvironment())  # type: ignore[assignment]
    inlining = ""  # LLVM attributes: alwaysinline, or noinline and cold

    def add_ir_module(self, ir_module: Any) -> None:
        """Take the helper's code in, without the zeros that it would never read."""
        _drop_zero_fill(ir_module)
        super().add_ir_module(ir_module)

    def finalize(self) -> None:
        """Neither link, nor optimise, nor emit: the entry does it for all parts at once."""
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        for function in self._final_module.functions:
            if not function.is_declaration:
                for attribute in self.inlining.split():
                    function.add_function_attribute(attribute)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """A part has no machine code of its own; nobody may call it from Python."""
        return 1


def _drop_zero_fill(module: Any) -> None:
    """Remove the zeros that Numba writes to every stack slot at the head of a function.

    Slots of numbers are written before they are read all the same; but slots of calls to cold
    helpers cannot be optimised away, and a packet would pay two stores for every call it does not
    make.  Slots of arrays keep their zeros: Numba counts the references that they hold.
    """
    for function in module.functions:
        if function.blocks:
            head = function.blocks[0]
            head.instructions = [i for i in head.instructions if not _is_zero_fill(i)]


def _is_zero_fill(instruction: Any) -> bool:
    if not isinstance(instruction, ir.instructions.StoreInstr):
        return False
    value, slot = instruction.operands
    zero = isinstance(value, ir.Constant) and value.constant is None
    return zero and isinstance(slot, ir.instructions.AllocaInstr) and not _is_counted(value.type)


def _is_counted(kind: Any) -> bool:
    """Is it an array: a structure that begins with the address of its reference count?"""
    return isinstance(kind, ir.BaseStructType) and kind.elements[:1] == (_ADDRESS,)


def _callees_last(libraries: list[Any]) -> list[Any]:
    """All libraries below these, each once, every caller before what it calls.

    The order matters: LLVM links a helper only if something linked before refers to it.
    """
    seen: set[int] = set()
    order: list[Any] = []

    def visit(library: Any) -> None:
        if id(library) in seen:
            return
        seen.add(id(library))
        if isinstance(library, PartLibrary):
            for callee in library._linking_libraries:
                visit(callee)
        order.append(library)

    for library in libraries:
        visit(library)
    return order[::-1]


class EntryLibrary(codegen.JITCodeLibrary):
    """An entry: links the parts of everything below it before it is optimised and emitted."""

    def finalize(self) -> None:
        """Gather the parts, then go Numba's usual way."""
        self._linking_libraries = _callees_last(self._linking_libraries)
        super().finalize()


def _with_library(library_class: type) -> type:
    class PathCompiler(compiler.Compiler):
        """Numba's compiler, with a library of our own."""

        def define_pipelines(self) -> Any:
            if self.state.library is None:
                generator = self.state.targetctx.codegen()
                library = library_class(generator, self.state.func_id.func_qualname)
                library.inlining = getattr(self.state.func_id.func, "inlining", "")
                library.enable_object_caching()
                self.state.library = library
            return super().define_pipelines()

    return PathCompiler


def available() -> bool:
    """Does the installed Numba have what this module rests on?"""
    names = set(dir(codegen.JITCodeLibrary)) | {"_linking_libraries", "_final_module"}
    return all(name in names for name in _NEEDED) and hasattr(compiler.Compiler, "define_pipelines")


KernelCompiler = _with_library(PartLibrary)
EntryCompiler = _with_library(EntryLibrary)


def _widened(kind: Any) -> Any:
    """The one type in which helpers take this argument: every number is an int64."""
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, (types.Integer, types.Boolean)) else kind


def compile_once(dispatcher: Any, options: dict[str, Any]) -> Any:
    """Make a helper compile once, not for each mix of literals, bools and narrow integers.

    Python may call it too: then an entry around it is compiled, since it has no code of its own,
    with these options of `njit`.
    """
    resolve = dispatcher.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        return resolve(
            tuple(_widened(a) for a in args), {name: _widened(k) for name, k in kws.items()}
        )

    def add_overload(result: Any) -> None:  # what Numba does, without an address to jump to
        dispatcher.overloads[tuple(result.signature.args)] = result

    wrappers: list[Any] = []

    def code_for_python(*args: Any) -> Any:
        if not wrappers:
            wrappers.append(njit(pipeline_class=EntryCompiler, **options)(_caller(dispatcher)))
        return wrappers[0]

    dispatcher.get_call_template = get_call_template
    dispatcher.add_overload = add_overload
    dispatcher._compile_for_args = code_for_python
    return dispatcher


def _caller(dispatcher: Any) -> Any:
    def call(*args: Any) -> Any:
        return dispatcher(*args)

    return call
