"""tcpdump expressions: compiled by libpcap, run by our own interpreter over a whole batch.

The program is classic BPF (McCanne and Jacobson 1993; the kernel's net/core/filter.c, libpcap's
bpf_filter.c).  It sees the captured bytes and the length on the wire, as in a savefile.
"""

from __future__ import annotations

import ctypes
import ctypes.util

import numpy as np

from ippath.batch import (
    DIRECTION_OUT,
    LINK_ETHERNET,
    LINK_IPV4,
    LINK_LINUX_SLL,
    LINK_RAW,
    PacketBatch,
)
from ippath.capture.errors import FilterError
from ippath.jit import entry, kernel
from ippath.wire.memory import load8, load16be, load32be

_LIBRARIES = ("libpcap.so.1", "libpcap.so.0.8", "libpcap.so", "libpcap.dylib", "libpcap.A.dylib")
_SNAPLEN = 262144
_NETMASK_UNKNOWN = 0xFFFFFFFF
# where libpcap's number of a link type (DLT_) differs from the one in files on Linux
_DLT = {LINK_RAW: 12, 100: 11, 102: 13, 103: 14, 106: 19}

# instruction classes, sizes, modes and operations (linux/bpf_common.h)
_LD, _LDX, _ST, _STX, _ALU, _JMP, _RET, _MISC = range(8)
_W, _H, _B = 0x00, 0x08, 0x10
_IMM, _ABS, _IND, _MEM, _LEN, _MSH = 0x00, 0x20, 0x40, 0x60, 0x80, 0xA0
_ADD, _SUB, _MUL, _DIV, _OR, _AND, _LSH, _RSH, _NEG, _MOD, _XOR = range(0x00, 0xB0, 0x10)
_JA, _JEQ, _JGT, _JGE, _JSET = range(0x00, 0x50, 0x10)
_X = 0x08
_A = 0x10
_TXA = 0x80

_WORD = 0xFFFFFFFF
_SCRATCH = 16
_MOST_STEPS = 100_000  # `protochain` compiles to a loop; a damaged packet must not run it for ever
# loads from here on ask the kernel about the packet (SKF_AD_OFF); `inbound` needs its type
_ANCILLARY, _ANCILLARY_TYPE = 0xFFFFF000, 0xFFFFF004
_PACKET_OUTGOING = 4


@kernel
def _operate(operation, a, b):
    """(result, valid) of an arithmetic instruction on unsigned 32-bit words."""
    if operation == _ADD:
        return (a + b) & _WORD, True
    if operation == _SUB:
        return (a - b) & _WORD, True
    if operation == _MUL:  # in halves: the product of two words does not fit 63 bits
        return ((((a >> 16) * b & 0xFFFF) << 16) + (a & 0xFFFF) * b) & _WORD, True
    if operation == _DIV or operation == _MOD:
        if b == 0:
            return 0, False
        return (a // b if operation == _DIV else a % b), True
    if operation == _OR:
        return a | b, True
    if operation == _AND:
        return a & b, True
    if operation == _LSH:
        return ((a << b) & _WORD if b < 32 else 0), True
    if operation == _RSH:
        return (a >> b if b < 32 else 0), True
    if operation == _XOR:
        return a ^ b, True
    return (-a) & _WORD, True


@kernel
def _jumps(operation, a, b):
    if operation == _JEQ:
        return a == b
    if operation == _JGT:
        return a > b
    if operation == _JGE:
        return a >= b
    return (a & b) != 0


@kernel
def _run(program, scratch, data, start, captured, wire, direction):
    """What the program returns for one packet: 0 for no match."""
    a, x, pc = 0, 0, 0
    for _step in range(_MOST_STEPS):
        if pc < 0 or pc >= program.shape[0]:
            return 0
        code, value = program[pc, 0], program[pc, 3]
        kind = code & 7
        if kind == _LD or kind == _LDX:
            mode = code & 0xE0
            size = 4
            if code & 0x18 == _H:
                size = 2
            elif code & 0x18 == _B:
                size = 1
            loaded = value
            if mode == _ABS or mode == _IND or mode == _MSH:
                at = (value + x) & _WORD if mode == _IND else value
                if mode == _ABS and at == _ANCILLARY_TYPE:
                    loaded = _PACKET_OUTGOING if direction == DIRECTION_OUT else 0
                elif mode == _MSH:
                    if at + 1 > captured:
                        return 0
                    loaded = (load8(data, start + at) & 15) << 2
                elif at + size > captured:
                    return 0
                elif size == 4:
                    loaded = load32be(data, start + at)
                elif size == 2:
                    loaded = load16be(data, start + at)
                else:
                    loaded = load8(data, start + at)
            elif mode == _LEN:
                loaded = wire
            elif mode == _MEM:
                if value >= _SCRATCH:
                    return 0
                loaded = scratch[value]
            if kind == _LD:
                a = loaded
            else:
                x = loaded
        elif kind == _ST or kind == _STX:
            if value >= _SCRATCH:
                return 0
            scratch[value] = a if kind == _ST else x
        elif kind == _ALU:
            a, valid = _operate(code & 0xF0, a, x if code & _X else value)
            if not valid:
                return 0
        elif kind == _JMP:
            if code & 0xF0 == _JA:
                pc += value - (1 << 32) if value >> 31 else value
            elif _jumps(code & 0xF0, a, x if code & _X else value):
                pc += program[pc, 1]
            else:
                pc += program[pc, 2]
        elif kind == _RET:
            return a if code & 0x18 == _A else value
        elif code & 0xF8 == _TXA:
            a = x
        else:
            x = a
        pc += 1
    return 0


@entry
def run_filter(program, data, offset, length, wire_length, direction, link_types, link_type, keep):
    """Set `keep` (uint8) of the packets of one link type to whether the program matches them."""
    scratch = np.zeros(_SCRATCH, np.int64)
    stores = False
    for k in range(program.shape[0]):
        if program[k, 0] & 7 == _ST or program[k, 0] & 7 == _STX:
            stores = True
    for row in range(offset.shape[0]):
        if link_types[row] == link_type:
            if stores:
                scratch[:] = 0
            matched = _run(
                program,
                scratch,
                data,
                offset[row],
                length[row],
                int(wire_length[row]),
                direction[row],
            )
            keep[row] = 1 if matched != 0 else 0


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_ushort),
        ("jt", ctypes.c_ubyte),
        ("jf", ctypes.c_ubyte),
        ("k", ctypes.c_uint32),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint), ("instructions", ctypes.POINTER(_Instruction))]


def _load_library() -> ctypes.CDLL:
    """libpcap, with the signatures of what we call.  Raises FilterError where it is missing."""
    found = ctypes.util.find_library("pcap")
    for name in ((found,) if found else ()) + _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.pcap_open_dead.restype = ctypes.c_void_p
        library.pcap_open_dead.argtypes = [ctypes.c_int, ctypes.c_int]
        library.pcap_compile.argtypes = [
            ctypes.c_void_p, ctypes.POINTER(_Program), ctypes.c_char_p, ctypes.c_int,
            ctypes.c_uint32,
        ]  # fmt: skip
        library.pcap_geterr.restype = ctypes.c_char_p
        library.pcap_geterr.argtypes = [ctypes.c_void_p]
        library.pcap_freecode.argtypes = [ctypes.POINTER(_Program)]
        library.pcap_close.argtypes = [ctypes.c_void_p]
        return library
    raise FilterError(
        "a packet filter needs libpcap, which is not installed: "
        "apt install libpcap0.8 (Debian, Ubuntu), dnf install libpcap (Fedora), "
        "apk add libpcap (Alpine)"
    )


class PacketFilter:
    """A tcpdump expression.  Raises FilterError without libpcap.

    It is compiled once for each link type that turns up.  Packets of a link type for which libpcap
    cannot compile it do not match; `refused` says why.
    """

    def __init__(self, expression: str):
        self.expression = expression
        self._library = _load_library()
        self._programs: dict[int, np.ndarray | None] = {}
        self.refused: dict[int, str] = {}  # link type -> libpcap's message

    def program(self, link_type: int) -> np.ndarray | None:
        """The BPF program for a link type, int64[n, 4] (code, jt, jf, k), or None if refused."""
        if link_type not in self._programs:
            self._programs[link_type] = self._compile(link_type)
        return self._programs[link_type]

    def _compile(self, link_type: int) -> np.ndarray | None:
        handle = self._library.pcap_open_dead(_DLT.get(link_type, link_type), _SNAPLEN)
        if not handle:
            raise FilterError("libpcap cannot allocate a handle")
        compiled = _Program()
        try:
            raw = self.expression.encode("utf-8", "surrogateescape")
            if self._library.pcap_compile(handle, compiled, raw, 1, _NETMASK_UNKNOWN):
                message = self._library.pcap_geterr(handle).decode("utf-8", "replace")
                self.refused[link_type] = message
                return None
            rows = compiled.instructions[: compiled.length]
            program = np.array([(i.code, i.jt, i.jf, i.k) for i in rows], np.int64).reshape(-1, 4)
            self._library.pcap_freecode(compiled)
            return program
        finally:
            self._library.pcap_close(handle)

    def check(self, link_types: set[int]) -> None:
        """Raise FilterError if the expression means nothing for any of the link types.

        Without link types (a pcapng file before its first interface) common ones are tried.
        """
        tried = sorted(link_types) or [LINK_ETHERNET, LINK_IPV4, LINK_LINUX_SLL]
        if all(self.program(link) is None for link in tried):
            message = self.refused[tried[0]]
            raise FilterError(f"filter {self.expression!r}: {message}")

    def matches(self, batch: PacketBatch) -> np.ndarray:
        """Which packets of the batch the filter lets through: bool[n]."""
        keep = np.zeros(len(batch), np.uint8)
        mixed = len(batch) and (batch.link_type != batch.link_type[0]).any()
        for link_type in np.unique(batch.link_type) if mixed else batch.link_type[:1]:
            program = self.program(int(link_type))
            if program is not None:
                run_filter(
                    program, batch.data, batch.offset, batch.length, batch.wire_length,
                    batch.direction, batch.link_type, int(link_type), keep,
                )  # fmt: skip
        return keep.astype(bool)
