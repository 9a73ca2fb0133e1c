"""Loading a host from wherever it is described."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from ippath.config.words import HostErrors, Problem
from ippath.model import Host

if TYPE_CHECKING:
    from ippath.config.host_file import Parsed


class HostWarning(UserWarning):
    """A line of a host file that is valid but doubtful."""


def load(path: str | Path) -> Host:
    """The host of a host file, or of a snapshot (a folder or a `.json` file).

    Raises HostErrors that lists all that is wrong, OSError if the file cannot be read.  Warns
    (HostWarning) of lines that are valid but doubtful.
    """
    parsed = load_with_warnings(path)
    for doubt in parsed.warnings:
        warnings.warn(str(doubt), HostWarning, stacklevel=2)
    return parsed.host


def load_with_warnings(path: str | Path) -> Parsed:
    """As `load`, with the doubtful lines in a list instead of as warnings."""
    from ippath.config.host_file import Parsed, parse

    path = Path(path)
    if path.is_dir():
        return Parsed(_snapshot(path))
    raw = path.read_bytes()
    if raw.lstrip()[:1] in (b"{", b"["):
        return Parsed(_snapshot(path))
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as wrong:
        line = raw.count(b"\n", 0, wrong.start) + 1
        column = wrong.start - raw.rfind(b"\n", 0, wrong.start)
        problem = Problem(str(path), line, column, "expected UTF-8 text")
        raise HostErrors([problem]) from None
    return parse(text, name=str(path))


def _snapshot(path: Path) -> Host:
    from ippath.config.snapshot import SnapshotError, read
    from ippath.config.ss import SsError

    try:
        return read(path)
    except (SnapshotError, SsError, UnicodeDecodeError) as wrong:
        raise HostErrors([Problem(str(path), 0, 0, str(wrong))]) from None
