"""The command line.  `main` is the entry; each command lives in a module of its own.

Nothing here imports NumPy, Numba, PyArrow or rich before a command needs them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ippath.cli.exits import ENDED_EARLY, FINE, INTERNAL, WRONG_INPUT

__all__ = ["ENDED_EARLY", "FINE", "INTERNAL", "WRONG_INPUT", "main"]


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code (see `ippath.cli.exits`)."""
    import click

    from ippath.cli.commands import ippath
    from ippath.cli.exits import wrong_input_text

    code = INTERNAL
    try:
        result = ippath.main(args=args, prog_name="ippath", standalone_mode=False)
        code = result if isinstance(result, int) else FINE
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as problem:
        problem.show()
        code = WRONG_INPUT
    except click.ClickException as problem:
        problem.show()
        code = WRONG_INPUT
    except (click.Abort, KeyboardInterrupt):
        print("ippath: stopped", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        code = _closed_pipe()
    except (
        SystemExit
    ):  # click makes this of a closed pipe, and of nothing else outside its own mode
        code = _closed_pipe()
    except Exception as problem:
        text = wrong_input_text(problem)
        if text is None:
            _report_bug(problem)
        else:
            print(text, file=sys.stderr)
            code = WRONG_INPUT
    return code


def run() -> None:
    """What the installed `ippath` script would do; exits with the code of `main`."""
    raise SystemExit(main())


def _closed_pipe() -> int:
    """The reader has seen enough, as in `ippath … | head`: let the last flush go nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        pass
    return FINE


def _report_bug(problem: Exception) -> None:
    if type(problem).__name__ == "AccountingError":
        print(f"ippath: the accounts do not close: {problem}", file=sys.stderr)
        print("This is a bug in ippath; no number above can be relied on.", file=sys.stderr)
        return
    import traceback

    traceback.print_exc()
    print("ippath: internal error (see above); this is a bug in ippath", file=sys.stderr)
