"""Lines of text with colours where they help: a terminal gets both, a pipe plain ASCII."""

from __future__ import annotations

import os
import sys
from typing import TextIO

STYLES = {
    "bold": "\033[1m", "dim": "\033[2m", "red": "\033[31m", "green": "\033[32m",
    "yellow": "\033[33m", "blue": "\033[34m", "magenta": "\033[35m", "cyan": "\033[36m",
}  # fmt: skip
OFF = "\033[0m"
EIGHTHS = " ▏▎▍▌▋▊▉"


def wants_color(stream: TextIO) -> bool:
    """Whether to write colours to `stream`; NO_COLOR and FORCE_COLOR decide before the terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"


class Paper:
    """A page of a given width, `color` or plain.

    Blocks and dots that a plain pipe might garble are drawn only in colour and UTF-8.
    """

    def __init__(self, width: int = 80, color: bool = False, encoding: str = "utf-8"):
        self.width = width
        self.color = color
        self.drawing = color and encoding.lower().replace("-", "") == "utf8"
        self.lines: list[str] = []

    @classmethod
    def for_stream(cls, stream: TextIO) -> Paper:
        """A page as `stream` can show it: the terminal's width, 80 in a pipe."""
        color = wants_color(stream)
        width = 80
        if color:
            import shutil

            width = max(60, min(shutil.get_terminal_size((80, 24)).columns, 110))
        return cls(width, color, getattr(stream, "encoding", None) or "ascii")

    def style(self, text: str, *styles: str) -> str:
        """`text` in the styles, unchanged on plain paper."""
        if not self.color or not styles or not text:
            return text
        return "".join(STYLES[s] for s in styles if s) + text + OFF

    def add(self, line: str = "") -> None:
        """Add a line."""
        self.lines.append(line.rstrip())

    def heading(self, text: str, note: str = "") -> None:
        """Add an empty line and a heading."""
        self.add()
        self.add(self.style(text, "bold") + (self.style(f"  {note}", "dim") if note else ""))

    def bar(self, share: float, width: int, *styles: str) -> str:
        """A bar of `share` (0 to 1) of `width` columns; never empty for something."""
        share = min(max(share, 0.0), 1.0)
        if not self.drawing:
            return "#" * max(int(share * width + 0.5), 1 if share > 0 else 0)
        eighths = max(int(share * width * 8 + 0.5), 1 if share > 0 else 0)
        whole, rest = divmod(eighths, 8)
        return self.style("█" * whole + (EIGHTHS[rest] if rest else ""), *styles)

    def text(self) -> str:
        """Everything added, each line ended."""
        return "".join(line + "\n" for line in self.lines)


def emit(text: str, stream: TextIO | None = None) -> None:
    """Write text; characters that the stream cannot encode become `?`."""
    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def count_text(number: int) -> str:
    """`1,234,567`."""
    return f"{number:,}"


def bytes_text(number: float) -> str:
    """Bytes with three digits and a decimal unit: `1.23 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{_three(number)} {unit}"
        number /= 1000
    return f"{_three(number)} TB"


def packet_rate_text(per_second: float) -> str:
    """Packets per second: `2,010 packets/s`, `1.23 M packets/s`."""
    if per_second < 999_950:
        return f"{per_second:,.0f} packets/s"
    return f"{_three(per_second / 1e6)} M packets/s"


def rate_text(per_second: float, unit: str) -> str:
    """A rate with three digits: `1.23 Mbit/s`."""
    for prefix in ("", "k", "M", "G"):
        if per_second < 999.5:
            return f"{_three(per_second)} {prefix}{unit}/s"
        per_second /= 1000
    return f"{_three(per_second)} T{unit}/s"


def seconds_text(seconds: float) -> str:
    """A duration in the unit that people would use, in ASCII: `0.633 ms`, `1.23 s`, `3 h 05 min`."""
    if 0 < seconds < 1e-3:
        return f"{seconds * 1e3:.3f} ms"
    if seconds < 1:
        return f"{_three(seconds * 1e3)} ms"
    if seconds < 120:
        return f"{_three(seconds)} s"
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {left:02} s"
    return f"{hours // 24} days {hours % 24} h"


def _three(number: float) -> str:
    if number >= 99.95 or number == int(number):
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"
