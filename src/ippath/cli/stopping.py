"""Ctrl-C as a wish to stop after the batch in hand, so that the accounts close."""

from __future__ import annotations

import signal
import sys
from types import FrameType, TracebackType
from typing import Any, Self


class Stop:
    """A context in which SIGINT and SIGTERM set `wanted`; a second one stops at once."""

    def __init__(self, quiet: bool = False) -> None:
        self.wanted = False
        self._quiet = quiet
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._ask)
            except ValueError:  # not the main thread: the caller stops us otherwise
                pass
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
        if not self._quiet:
            print("\nstopping after the packets in hand; again to stop at once", file=sys.stderr)
