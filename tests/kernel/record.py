"""Ask the running kernel again: `python -m tests.kernel.record [--only NAME]…`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tests.kernel import recorder
from tests.kernel.scenarios import all_scenarios

RECORDINGS = Path(__file__).parent / "recordings"


def load() -> dict[str, dict[str, Any]]:
    """All recorded answers by scenario name."""
    answers: dict[str, dict[str, Any]] = {}
    for file in sorted(RECORDINGS.glob("*.json")):
        answers.update(json.loads(file.read_text())["scenarios"])
    return answers


def _dump(version: str, answers: dict[str, dict[str, Any]]) -> str:
    """JSON with one line per step, so that a changed answer is one changed line."""
    parts = []
    for name, answer in answers.items():
        steps = ",\n   ".join(json.dumps(step) for step in answer["steps"])
        host = ",\n   ".join(json.dumps(line) for line in answer["host"])
        parts.append(f'  {json.dumps(name)}: {{"host": [\n   {host}], "steps": [\n   {steps}]}}')
    body = ",\n".join(parts)
    return f'{{"kernel": {json.dumps(version)}, "scenarios": {{\n{body}\n}}}}\n'


def save(answers: dict[str, dict[str, Any]]) -> None:
    """Write the recordings, a file per subject, in the order of the table; unknown ones go."""
    by_subject: dict[str, dict[str, Any]] = {}
    for scenario in all_scenarios():
        if scenario.name in answers:
            by_subject.setdefault(scenario.subject, {})[scenario.name] = answers[scenario.name]
    for subject, group in by_subject.items():
        text = _dump(recorder.kernel_version(), group)
        json.loads(text)
        (RECORDINGS / f"{subject}.json").write_text(text)


def main() -> int:
    """Record all scenarios, or those chosen, into the recordings folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", metavar="TEXT", help="names that contain TEXT")
    parser.add_argument("--missing", action="store_true", help="only those without an answer")
    parser.add_argument("--show", action="store_true", help="print the answers, keep the files")
    given = parser.parse_args()
    why_not = recorder.available()
    if why_not:
        print(f"the kernel can't be asked here: {why_not}", file=sys.stderr)
        return 1
    answers = load()
    chosen = [
        s
        for s in all_scenarios()
        if (not given.only or any(text in s.name for text in given.only))
        and not (given.missing and s.name in answers)
    ]
    new = recorder.record(chosen)
    failed = {name: answer for name, answer in new.items() if "error" in answer}
    for name, answer in failed.items():
        print(f"{name}: {answer['error']}", file=sys.stderr)
        del new[name]
    if given.show:
        from tests.kernel.show import show

        for name, answer in new.items():
            print(show(name, answer))
        return int(bool(failed))
    answers.update(new)
    save(answers)
    print(f"{len(new)} scenarios recorded, {len(answers)} in all")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
