"""The rows of a run that say how far it is, and in which steps: what it does, and what each step took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from aisp.store.record import Step
from aisp.store.results.progress import step_words
from aisp.store.results.reading import Reading
from aisp.tui import plain, progress

HERE = ("\u25b8", ">")  # marks the step under way; the second is for terminals of 7 bits


def progress_row(run: Reading, now_ns: int, width: int, ascii: bool) -> Text:
    """The row of a run that goes on: bar, process, time, step."""
    told = run.progress(now_ns)
    dot = " | " if ascii else " \u00b7 "
    parts = [part for part in (progress.words(told, dot), progress.doing(run)) if part]
    text = Text(progress.bar(told.share, 40 if width >= 110 else 16, ascii), style="bold")
    if parts:
        text.append(f"{'  ' if text.plain else ''}{dot.join(parts)}", style="not bold")
    return text


@dataclass(slots=True)
class StepSum:
    """All steps of one name: how many have ended and took how long, and whether one is under way."""

    name: str
    ended: int = 0
    total_ms: float = 0.0
    running_arm: str | None = None

    @property
    def time(self) -> str:
        """What they took: "630 ms (3)"; "" before the first has ended."""
        text = plain.duration(self.total_ms / 1e3) if self.ended else ""
        return f"{text} ({self.ended})" if self.ended > 1 else text


def step_sums(steps: Sequence[Step], *, ended: bool) -> list[StepSum]:
    """Steps by name, in the order in which the names first came; `ended`: none is under way any more."""
    sums: dict[str, StepSum] = {}
    for step in steps:
        item = sums.setdefault(step.name, StepSum(step.name))
        if step.duration_ms is not None:
            item.ended += 1
            item.total_ms += step.duration_ms
        elif not ended:
            item.running_arm = step.arm
    return list(sums.values())


def step_row(run: Reading, ascii: bool) -> Text:
    text = Text("steps  ", style="dim")
    sums = step_sums(run.record.steps, ended=run.record.state.final)
    for number, item in enumerate(sorted(sums, key=lambda item: item.running_arm is None)):
        if number:
            text.append(" | " if ascii else " \u00b7 ", style="dim")
        if item.running_arm is not None:
            text.append(f"{HERE[ascii]} {step_words(item.name, item.running_arm)}", style="bold")
        else:
            text.append(f"{step_words(item.name)} {item.time}")
    if not sums:
        text.append("none yet")
    return text


def step_rows(run: Reading, width: int, ascii: bool) -> list[Text]:
    rows = [Text("steps", style="bold")]
    for item in step_sums(run.record.steps, ended=run.record.state.final):
        running = item.running_arm is not None
        name = f"{HERE[ascii] if running else ' '} {step_words(item.name, item.running_arm or '')}"
        time = "running" if running else item.time
        name = plain.fit(name, width - plain.cells(time) - 1)
        gap = max(1, width - plain.cells(name) - plain.cells(time))
        rows.append(Text(name + " " * gap + time, style="bold" if running else ""))
    if not run.record.steps:
        rows.append(Text("  none yet"))
    return rows


def step_lines(run: Reading) -> list[str]:
    steps, start_ns = run.record.steps, run.record.start_ns
    begin_ns = start_ns if start_ns is not None else steps[0].start_ns if steps else 0
    rows = []
    for step in steps:
        if step.duration_ms is not None:
            took = plain.duration(step.duration_ms / 1e3)
        else:
            took = plain.DASH if run.record.state.final else "running"
        at = plain.duration((step.start_ns - begin_ns) / 1e9)
        rows.append([at, step_words(step.name), step.arm, took, step.detail])
    return plain.table(["at", "step", "rung", "took", ""], rows, right=["at", "took"])
