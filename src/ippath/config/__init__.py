"""Descriptions of hosts: host files, snapshots, guesses from captures.

The names below are loaded when they are first used, so that importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ippath.config.host_file import Parsed, parse, parse_host
    from ippath.config.loading import HostWarning, load, load_with_warnings
    from ippath.config.render import render_host
    from ippath.config.words import HostErrors, Problem
    from ippath.fib.control import new_host

__all__ = [
    "HostErrors", "HostWarning", "Parsed", "Problem", "load", "load_with_warnings", "new_host", "parse",
    "parse_host", "render_host",
]  # fmt: skip

_WHERE = {
    "HostErrors": "ippath.config.words",
    "HostWarning": "ippath.config.loading",
    "Problem": "ippath.config.words",
    "Parsed": "ippath.config.host_file",
    "parse": "ippath.config.host_file",
    "parse_host": "ippath.config.host_file",
    "render_host": "ippath.config.render",
    "load": "ippath.config.loading",
    "load_with_warnings": "ippath.config.loading",
    "new_host": "ippath.fib.control",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
