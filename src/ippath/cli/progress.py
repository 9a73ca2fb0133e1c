"""A progress bar on standard error, only on a terminal and only for work that takes a while."""

from __future__ import annotations

import sys
import time
from typing import Any

PATIENCE = 0.5  # seconds without a bar


class Progress:
    """Shows bytes of the captures read, packets, packets per second and the time left."""

    def __init__(self, quiet: bool = False):
        self._wanted = not quiet and sys.stderr.isatty()
        self._begin = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def update(self, packets: int, read: int, total: int | None) -> None:
        """So far: packets, bytes read and, if it is known, the bytes in all."""
        elapsed = time.monotonic() - self._begin
        if not self._wanted or elapsed < PATIENCE:
            return
        if self._bar is None:
            self._start()
        from ippath.report.paper import count_text, packet_rate_text

        text = f"{count_text(packets)} packets, {packet_rate_text(packets / elapsed)}"
        self._bar.update(self._task, completed=read, total=total or None, words=text)

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[words]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("replay", total=None, words="")
        self._bar.start()

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
