"""What can go wrong with a capture, and where it ended early."""

from __future__ import annotations

from dataclasses import dataclass


class CaptureError(Exception):
    """Nothing could be read from `path`; `offset` is the byte at fault, `why` says what was found."""

    def __init__(self, path: str, offset: int, why: str):
        self.path, self.offset, self.why = path, offset, why
        super().__init__(path, offset, why)

    def __str__(self) -> str:
        where = f" (at byte {self.offset})" if self.offset else ""
        return f"{self.path}: {self.why}{where}"


class FilterError(Exception):
    """A packet filter cannot be used: no libpcap, or an expression that libpcap refuses."""


@dataclass(frozen=True)
class Ending:
    """A capture that ended early.

    `offset` is the byte of the first record that could not be read (for a compressed file, of the
    uncompressed data), `why` says what was found there.
    """

    path: str
    offset: int
    why: str

    def __str__(self) -> str:
        return f"{self.path}: ended early at byte {self.offset}: {self.why}"
