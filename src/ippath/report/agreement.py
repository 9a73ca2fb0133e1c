"""What `ippath verify` found: how far ippath and the running kernel agree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ippath.report.paper import Paper, count_text
from ippath.verify.compare import Comparison, Difference, compare
from ippath.verify.namespace import KernelError
from ippath.verify.scenario_file import scenario_text
from ippath.verify.shrink import ask_both, shrunk

if TYPE_CHECKING:
    from ippath.verify.captures import Preparer
    from ippath.verify.on_ippath import Ippath
    from ippath.verify.on_kernel import Kernel
    from ippath.verify.outcome import Answer
    from ippath.verify.scenario import Scenario

SMALL = 5_000  # packets: larger scenarios are compared by counters in all


class Agreement:
    """Runs scenarios in both, and keeps what came of it."""

    def __init__(self, kernel: str, most: int):
        self.kernel, self.most = kernel, most
        self.preparer: Preparer | None = None
        self.stopped = False
        self.packets = self.scenarios = self.compared_counters = 0
        self.sent = self.datagrams = self.drops = 0
        self.unjudged: list[str] = []
        self.kinds: Counter[str] = Counter()  # packets that differ, by the first thing that does
        self.unsteady = 0  # packets that differed once and agreed when asked again
        self.examples: list[tuple[Scenario, Difference]] = []  # minimal

    @property
    def agrees(self) -> bool:
        """Whether nothing differed."""
        return not self.kinds

    def ask(self, scenario: Scenario, kernel: Kernel, ours: Ippath) -> None:
        """Ask both about one more scenario; raises KernelError if the kernel refuses the host."""
        each = scenario.packets <= SMALL and self.preparer is None
        answer = kernel.run(scenario, counters=each)
        if answer.error:
            raise KernelError(f"{scenario.name}: the kernel says: {_last_line(answer.error)}")
        times = [outcome.time_ns for outcome in answer.outcomes]
        mine = ours.run(scenario, counters=each, times=times)
        found = compare(scenario, answer, mine)
        self._count(scenario, answer, found)
        if found.differences:
            self._settle(scenario, found, kernel, ours)

    def _count(self, scenario: Scenario, answer: Answer, found: Comparison) -> None:
        self.scenarios += 1
        self.packets += scenario.packets
        self.unjudged += found.skipped
        for outcome in answer.outcomes:
            self.sent += sum(map(len, outcome.out.values()))
            self.datagrams += len(outcome.datagrams)
            self.drops += len(outcome.drops)
        self.compared_counters = max(
            self.compared_counters,
            len(answer.counters),
        )

    def _settle(self, scenario: Scenario, found: Comparison, kernel: Kernel, ours: Ippath) -> None:
        """Ask once more, counting each packet; make the first of each new kind small."""
        again = ask_both(scenario, kernel, ours)
        if again is None or not again.differences:
            self.unsteady += len(found.differences)
            return
        for difference in again.differences:
            kind = _kind(difference)
            self.kinds[kind] += 1
            if self.kinds[kind] == 1 and len(self.examples) < self.most:
                one = Comparison([difference])
                small = shrunk(scenario, kernel, ours, one)
                last = ask_both(small, kernel, ours)
                shown = last.differences[0] if last and last.differences else difference
                self.examples.append((small, shown))

    def save(self, folder: Path) -> None:
        """Write each minimal scenario to a file of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, (scenario, _) in enumerate(self.examples, 1):
            (folder / f"{number}.scenario").write_text(scenario_text(scenario))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values; see docs/kernel.md."""
        return {
            "kernel": self.kernel,
            "agrees": self.agrees,
            "packets": self.packets,
            "packets_that_differ": sum(self.kinds.values()),
            "differ_once": self.unsteady,
            "left_out": dict(self.preparer.left_out.most_common()) if self.preparer else {},
            "verdicts": dict(self.preparer.verdicts.most_common()) if self.preparer else {},
            "compared": {
                "packets_sent": self.sent,
                "datagrams": self.datagrams,
                "drop_reasons": self.drops,
                "counters": self.compared_counters,
            },
            "differences": dict(self.kinds.most_common()),
            "examples": [
                {"scenario": scenario_text(scenario), "difference": difference.lines}
                for scenario, difference in self.examples
            ],
            "stopped": self.stopped,
        }

    # --- for people -----------------------------------------------------------------------------------

    def draw(self, paper: Paper) -> None:
        """The report as lines of text."""
        differing = sum(self.kinds.values())
        verdict, style, number = "agree", "green", self.packets
        if differing:
            verdict, style, number = "differ", "red", min(differing, self.packets)
        paper.add(
            paper.style(f"ippath and Linux {self.kernel} {verdict}", "bold", style)
            + f" on {number:,} of {self.packets:,} packets"
        )
        paper.add(
            paper.style(
                f"compared: {self.sent:,} packets sent (byte for byte), {self.datagrams:,} datagrams, "
                f"{self.drops:,} drop reasons, {self.compared_counters} counters", "dim",
            )
        )  # fmt: skip
        if self.stopped:
            paper.add(paper.style("stopped early: this covers a part of the capture", "yellow"))
        if self.preparer:
            self._draw_preparation(paper, self.preparer)
        if self.unsteady:
            paper.add()
            paper.add(f"{self.unsteady} differed once and agreed when asked again (clocks)")
        if self.kinds:
            self._draw_differences(paper)

    def _draw_preparation(self, paper: Paper, preparer: Preparer) -> None:
        asked = sum(preparer.verdicts.values())
        if asked:
            paper.heading("Asked")
            for text, number in preparer.verdicts.most_common():
                bar = paper.bar(number / asked, 20, "green")
                paper.add(f"  {count_text(number):>9}  {text:34} {bar}")
        if preparer.left_out:
            paper.heading("Left out", "not asked, not compared")
            for text, number in preparer.left_out.most_common():
                paper.add(f"  {count_text(number):>9}  {text}")
        for text in preparer.changed:
            paper.add(paper.style(f"  {text}", "dim"))

    def _draw_differences(self, paper: Paper) -> None:
        paper.heading("Differences", "packets by the first thing that differs")
        for kind, number in self.kinds.most_common(20):
            paper.add(f"  {count_text(number):>9}  {kind}")
        for number, (scenario, difference) in enumerate(self.examples, 1):
            paper.heading(f"Example {number}", "the least that still differs")
            for line in scenario_text(scenario).splitlines():
                if line and not line.startswith(("name", "subject")):
                    paper.add(f"  {line}")
            for line in difference.lines:
                paper.add(paper.style(f"    {line}", "yellow"))


def _kind(difference: Difference) -> str:
    """The first line that says what differs, without what is special to the packet."""
    return difference.kind.removesuffix(":")


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return "; ".join(lines[:3]) if lines else "nothing"
