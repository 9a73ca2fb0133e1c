"""Makes the pictures of the README: what the demo prints on a terminal, as SVG.

python demo/make_pictures.py docs
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 104
HERE = Path(__file__).resolve().parent
BOTH = ("demo/office.pcapng", "--host", "demo/office.host")
PICTURES = {
    "demo-replay.svg": ("replay", *BOTH),
    "demo-explain.svg": ("explain", *BOTH, "--frame", "14"),
}


def terminal(command: tuple[str, ...]) -> str:
    """What the command prints on a terminal, with the escape sequences of its colours."""
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH)}
    done = subprocess.run(
        [sys.executable, "-m", "ippath", *command], capture_output=True, text=True, check=True,
        cwd=HERE.parent, env=environment,
    )  # fmt: skip
    return done.stdout


def picture(command: tuple[str, ...]) -> str:
    """The terminal as SVG, without fonts from elsewhere."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ ippath {' '.join(command)}\n", style="bold"))
    console.print(Text.from_ansi(terminal(command)))
    text = console.export_svg(title="ippath", unique_id="ippath")
    text = re.sub(r"\s*@font-face \{.*?\}", "", text, flags=re.DOTALL)
    return text.replace("Fira Code, monospace", "DejaVu Sans Mono, Menlo, Consolas, monospace")


def main() -> None:
    """Write all pictures to the folder given."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: make_pictures.py FOLDER")
    for name, command in PICTURES.items():
        (Path(sys.argv[1]) / name).write_text(picture(command), encoding="utf-8")


if __name__ == "__main__":
    main()
