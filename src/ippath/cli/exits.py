"""Exit codes, and which errors are the user's to correct."""

from __future__ import annotations

import sys

FINE = 0  # also after Ctrl-C: the report says that it covers a part
INTERNAL = 1  # a bug in ippath
WRONG_INPUT = 2  # to the command or in the host file
NO = 4  # the answer is no: no way to the address, hosts that differ
ENDED_EARLY = 3  # a capture is truncated or damaged; what was readable has been used

# where the errors that say what is wrong with the input are defined
_WRONG = (
    ("ippath.config", "HostErrors"),
    ("ippath.switches", "SwitchError"),
    ("ippath.capture", "CaptureError"),
    ("ippath.capture", "FilterError"),
    ("ippath.route_get", "QuestionError"),
    ("ippath.report.route_files", "AddressFileError"),
    ("ippath.config.imported_routes", "RouteSourceError"),
)


def wrong_input_text(problem: Exception) -> str | None:
    """What to tell the user about an error in the input; None if the error is a bug in ippath."""
    if isinstance(problem, OSError) and problem.filename is not None:
        return f"ippath: {problem.filename}: {problem.strerror or problem}"
    for module, name in _WRONG:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and isinstance(problem, kind):
            text = str(problem)
            return text if name == "HostErrors" else f"ippath: {text}"
    return None
