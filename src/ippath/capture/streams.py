"""Byte streams: plain, compressed, piped, each read in blocks of bounded size.

A stream never raises on damage: it gives the bytes before it, then ends, and `damage` says why.
"""

from __future__ import annotations

import bz2
import lzma
import os
import select
import zlib
from collections.abc import Callable
from typing import Any

_RAW_BLOCK = 1 << 18
_ARROW_PIECE = 4096  # what a cut stream loses at most: Arrow drops the rest of the piece
_QUIET_SECONDS = 0.1  # a pipe that is silent for so long gives what it has sent

# what files start with, and the name of what they are
COMPRESSIONS = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}


class RawStream:
    """A file descriptor as it is.

    `consumed` counts the bytes taken from it; `damage` says why it ended, if it ended early.
    """

    def __init__(self, fd: int, *, close: bool = True):
        self._fd, self._head, self._close = fd, b"", close
        self.consumed = 0
        self.damage = ""

    def readinto(self, view: memoryview) -> int:
        """Fills the start of `view`; 0 at the end."""
        if self._head:
            n = min(len(self._head), len(view))
            view[:n], self._head = self._head[:n], self._head[n:]
        else:
            try:
                n = os.readv(self._fd, [view])
            except OSError as problem:
                self.damage = f"cannot be read further: {problem.strerror}"
                n = 0
        self.consumed += n
        return n

    def unread(self, head: bytes) -> None:
        """Puts bytes back that the next reader shall see."""
        self._head = head + self._head
        self.consumed -= len(head)

    def quiet(self) -> bool:
        """Whether nothing more comes at the moment (pipes and terminals)."""
        if self._head:
            return False
        try:
            return not select.select([self._fd], [], [], _QUIET_SECONDS)[0]
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        """Closes the descriptor if it is ours."""
        if self._close:
            os.close(self._fd)
            self._close = False


class _Unpacked:
    """Common part of the decompressing streams."""

    def __init__(self, raw: RawStream):
        self._raw = raw
        self._buffer = bytearray(_RAW_BLOCK)
        self.damage = ""

    @property
    def consumed(self) -> int:
        return self._raw.consumed

    def _take(self, size: int = _RAW_BLOCK) -> bytes:
        n = self._raw.readinto(memoryview(self._buffer)[:size])
        return bytes(self._buffer[:n])

    def quiet(self) -> bool:
        return False

    def close(self) -> None:
        self._raw.close()


class MemberStream(_Unpacked):
    """gzip, xz and bzip2: any number of members one after the other."""

    def __init__(self, raw: RawStream, name: str):
        super().__init__(raw)
        self._name = name
        makers: dict[str, Callable[[], Any]] = {
            "gzip": lambda: zlib.decompressobj(wbits=31),
            "xz": lzma.LZMADecompressor,
            "bzip2": bz2.BZ2Decompressor,
        }
        self._new = makers[name]
        self._member = self._new()
        self._input = b""
        self._between = False  # after a member: padding, another one, or the end

    def readinto(self, view: memoryview) -> int:
        """Fills the start of `view`; 0 at the end."""
        while not self.damage:
            if self._member.eof:
                self._input = self._member.unused_data
                self._member, self._between = self._new(), True
            while self._between:
                self._input = self._input.lstrip(b"\0")  # padding (gzip(1), xz(1))
                if self._input:
                    self._between = False
                else:
                    self._input = self._take()
                    if not self._input:
                        self.damage = self._raw.damage
                        return 0
            ended = False
            if not self._input and (self._name == "gzip" or self._member.needs_input):
                self._input = self._take()
                ended = not self._input
            try:
                piece = self._member.decompress(self._input, len(view))
            except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as problem:
                self.damage = f"{self._name} data damaged: {problem}"
                return 0
            self._input = self._member.unconsumed_tail if self._name == "gzip" else b""
            if piece:
                view[: len(piece)] = piece
                return len(piece)
            if ended:
                self.damage = self._raw.damage or f"{self._name} data cut short"
        return 0


class ArrowStream(_Unpacked):
    """zstd and lz4, unpacked by Arrow."""

    def __init__(self, raw: RawStream, name: str):
        super().__init__(raw)
        import pyarrow

        self._name = name
        reader = pyarrow.PythonFile(_ArrowInput(self), mode="r")
        self._arrow = pyarrow.CompressedInputStream(reader, name)

    def readinto(self, view: memoryview) -> int:
        """Fills the start of `view`; 0 at the end."""
        filled = 0
        while not self.damage and filled < len(view):
            try:
                piece = self._arrow.read(min(_ARROW_PIECE, len(view) - filled))
            except (OSError, ValueError) as problem:
                self.damage = self._raw.damage or f"{self._name} data damaged: {problem}"
                break
            if not piece:
                self.damage = self._raw.damage
                break
            view[filled : filled + len(piece)] = piece
            filled += len(piece)
        return filled


class _ArrowInput:
    """The part of a file object that Arrow reads."""

    closed = False

    def __init__(self, stream: ArrowStream):
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        return self._stream._take(size if size >= 0 else _RAW_BLOCK)

    def close(self) -> None:
        pass


def unpacked(raw: RawStream, name: str) -> MemberStream | ArrowStream:
    """The uncompressed bytes of a stream; `name` as in COMPRESSIONS."""
    return ArrowStream(raw, name) if name in ("zstd", "lz4") else MemberStream(raw, name)


def compression(head: bytes) -> str:
    """How data that starts with these bytes is compressed; empty if it is not."""
    return next((name for magic, name in COMPRESSIONS.items() if head.startswith(magic)), "")
