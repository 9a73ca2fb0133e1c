"""Ask the running kernel again: `python -m tests.kernel.record [--only NAME]…`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ippath.verify.namespace import available, kernel_version
from ippath.verify.normal import Normal
from ippath.verify.on_kernel import Kernel
from ippath.verify.outcome import Answer, Outcome
from ippath.verify.scenario import Scenario
from tests.kernel.scenarios import all_scenarios

RECORDINGS = Path(__file__).parent / "recordings"


def load() -> dict[str, dict[str, Any]]:
    """All recorded answers by scenario name: host lines and steps."""
    answers: dict[str, dict[str, Any]] = {}
    for file in sorted(RECORDINGS.glob("*.json")):
        answers.update(json.loads(file.read_text())["scenarios"])
    return answers


def answer_of(recorded: dict[str, Any]) -> Answer:
    """A recorded answer as the kernel executor gives it."""
    return Answer([Outcome.from_json(step) for step in recorded["steps"]])


def plain(scenario: Scenario, answer: Answer) -> dict[str, Any]:
    """An answer as it is recorded, without what is random in it."""
    normal, steps = Normal(scenario.ignore), []
    for outcome in answer.outcomes:
        for packet in outcome.packets:
            normal.receive(packet)
        steps.append(outcome.to_json(normal))
    return {"host": scenario.host.splitlines(), "steps": steps}


def ask(scenarios: Iterable[Scenario]) -> dict[str, dict[str, Any]]:
    """The kernel's answers by scenario name; one that failed has only the key "error"."""
    found = {}
    with Kernel() as kernel:
        for scenario in scenarios:
            answer = kernel.run(scenario)
            found[scenario.name] = (
                {"error": answer.error} if answer.error else plain(scenario, answer)
            )
    return found


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
        text = _dump(kernel_version(), group)
        json.loads(text)
        (RECORDINGS / f"{subject}.json").write_text(text)


def main() -> int:
    """Record all scenarios, or those chosen, into the recordings folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", metavar="TEXT", help="names that contain TEXT")
    parser.add_argument("--missing", action="store_true", help="only those without an answer")
    parser.add_argument("--show", action="store_true", help="print the answers, keep the files")
    given = parser.parse_args()
    if why_not := available():
        print(f"the kernel can't be asked here: {why_not}", file=sys.stderr)
        return 1
    answers = load()
    chosen = [
        s
        for s in all_scenarios()
        if (not given.only or any(text in s.name for text in given.only))
        and not (given.missing and s.name in answers)
    ]
    new = ask(chosen)
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
