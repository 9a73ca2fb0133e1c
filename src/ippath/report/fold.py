"""Long lines folded for a terminal, colours kept, continued under the text of their first column."""

from __future__ import annotations

import re

_CODE = re.compile(r"\033\[\d*m")
MOST_INDENT = 0.4  # of the width; deeper columns would leave too little room


def fold(text: str, width: int) -> str:
    """The text with lines of at most `width` columns, words and escape sequences kept whole."""
    return "".join(
        part + "\n" for line in text.splitlines() for part in _fold_line(line, max(width, 20))
    )


def _visible(text: str) -> int:
    return len(_CODE.sub("", text))


def _indent(line: str, width: int) -> int:
    """Where the text after a label starts: behind the last of the first two-space gaps."""
    bare = _CODE.sub("", line)
    found = re.match(r"\s{2,}(?:\d+\. |\S(?:[^\s]| (?! ))*\s{2,})?", bare)
    return min(found.end(), int(width * MOST_INDENT)) if found else 0


def _fold_line(line: str, width: int) -> list[str]:
    if _visible(line) <= width:
        return [line]
    indent = _indent(line, width)
    parts: list[str] = []
    row, used, started = "", 0, False
    for piece in re.findall(r"\s+|(?:\033\[\d*m|[^\s\033])+", line):
        size = _visible(piece)
        if started and not piece.isspace() and size and used + size > width:
            parts.append(row.rstrip())
            row, used = " " * indent, indent
        if piece.isspace() and parts and used == indent:
            continue
        row += piece
        used += size
        started = started or used > indent
    return [*parts, row]
