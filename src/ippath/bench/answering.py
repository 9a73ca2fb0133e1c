"""Peers that are processes: each line that they are told is answered with a number."""

from __future__ import annotations

import subprocess

from ippath.bench.framework import WorkloadError


class Answering:
    """A process that says `ready`, then answers each line with a number.

    Raises WorkloadError if it does not start.
    """

    def __init__(self, words: list[str]):
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._hear("ready")

    def _hear(self, wanted: str = "") -> str:
        process = self._process
        assert process.stdout is not None and process.stderr is not None
        got = process.stdout.readline().strip()
        if not got or (wanted and got != wanted):
            process.kill()
            why = process.stderr.read().strip().splitlines()[-1:]
            raise WorkloadError(f"it ended with {process.wait()}: {''.join(why)}")
        return got

    def ask(self, line: str) -> int:
        """The number that the process answers; raises WorkloadError if it ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return int(self._hear())

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
