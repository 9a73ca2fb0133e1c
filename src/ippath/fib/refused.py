"""What the kernel refuses."""

from __future__ import annotations


class ControlError(ValueError):
    """What `ip` would print; nothing has been changed."""


FILE_EXISTS = "RTNETLINK answers: File exists"
NO_SUCH_FILE = "RTNETLINK answers: No such file or directory"
NO_SUCH_PROCESS = "RTNETLINK answers: No such process"
INVALID_ARGUMENT = "RTNETLINK answers: Invalid argument"
