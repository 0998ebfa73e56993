"""What the checks said of a run, for the screens: grouped, counted, worst first; and the two numbers side by side.

Plain functions of the model's views, without a widget. Texts come from the model, which cleaned them. What a check
looks at and what proves it comes from the registry (`Book`), which is read in a thread when a screen first asks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text

from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import GRAVEST_FIRST, Fault, FindingStatus, State, Validity
from aisp.store.record import Arm, Comparison, Run
from aisp.store.results import busy, outcome
from aisp.store.results.numbers import beyond
from aisp.store.results.outcome import Ended, Outcome
from aisp.store.results.overview import Lesson
from aisp.store.results.reading import Bar, Reading
from aisp.store.results.telling import by_own_rule
from aisp.store.results.trust import TOLD_FIRST, Category, Said, counts
from aisp.tui import plain, progress
from aisp.tui.model import AA_ARM, BASELINE, RunView
from aisp.tui.results import STATE_WORDS, end_words, own_note
from aisp.tui.results import STATUS_WORDS as STATUS_WORDS
from aisp.tui.themes import speedup_text, verdict_style, verdict_text
from aisp.tui.widgets.table import Cell, Column

if TYPE_CHECKING:
    from aisp.engine.trust import CheckView, IssueView

_SIGNS = {
    FindingStatus.CAUGHT: ("✗", "x"),
    FindingStatus.SUSPECT: ("!", "!"),
    FindingStatus.UNAVAILABLE: ("?", "?"),
    FindingStatus.PASSED: ("✓", "+"),
    FindingStatus.NOT_APPLICABLE: ("–", "-"),
}
BAR_SIGNS = ("⊘", "#")


@dataclass(frozen=True, slots=True)
class Only:
    """Which checks a list shows."""

    words: str
    statuses: tuple[FindingStatus, ...]

    def wants(self, said: Said | None) -> bool:
        """Whether what a check said is shown; None of one that was not asked, which is shown among all alone."""
        return set(self.statuses) >= set(GRAVEST_FIRST) if said is None else said.status in self.statuses


FILTERS = (
    Only("all", GRAVEST_FIRST),
    Only("only what is not passed", (*TOLD_FIRST, FindingStatus.UNAVAILABLE, FindingStatus.NOT_APPLICABLE)),
    Only("only caught and suspect", TOLD_FIRST),
)


def counts_text(categories: Sequence[Category]) -> str:
    """ "1 caught, 12 passed, 3 n/a, 1 unavailable": what is none is left out."""
    counted = counts(said for one in categories for said in one.checks)
    order = (*TOLD_FIRST, FindingStatus.PASSED, FindingStatus.UNAVAILABLE, FindingStatus.NOT_APPLICABLE)
    return ", ".join(f"{counted[status]} {STATUS_WORDS[status]}" for status in order if counted[status])


def status_text(status: FindingStatus, ascii: bool) -> Text:
    """A status as sign and word, so that nothing is lost without colour."""
    sign = _SIGNS[status][ascii]
    styles: dict[FindingStatus, str | Style] = {
        FindingStatus.CAUGHT: verdict_style("slower"),
        FindingStatus.SUSPECT: verdict_style("undecided"),
        FindingStatus.NOT_APPLICABLE: "dim",
    }
    return Text(f"{sign} {STATUS_WORDS[status]}", styles.get(status, ""))


def bar_sign(ascii: bool) -> str:
    return BAR_SIGNS[ascii]


def bar_text(bar: Bar, rung: str, ascii: bool, *, with_check: bool = True) -> Text:
    """ "⊘ caught: timing.wall_clock", in the place where a speed-up of `rung` would stand; of a mistake the first wrong
    element: "⊘ wrong: y[17]: got 1.5, expected 2.5"."""
    whose = f" {bar.rung or 'run'}" if bar.rung != rung else ""
    check = f": {bar.evidence if bar.mistake else bar.check}" if with_check else ""
    return Text(f"{bar_sign(ascii)}{whose} {bar.short}{check}", verdict_style("slower"), no_wrap=True, end="")


def ended_text(ended: Ended, ascii: bool, *, held: str = "held") -> Text:
    """What became of a run or a rung, for a narrow column: "▲ faster", "! suspect", "! timed out", "⊘ caught".

    Args:
        held: the word for a rung in quarantine.
    """
    word = ended.word
    if ended.outcome.compared:
        return verdict_text(word, None, ascii).append(f" {word}")
    if ended.outcome in (Outcome.SUSPECT, Outcome.FAILED) or ended.again:
        return Text(f"! {word}", "bold")
    if ended.outcome in (Outcome.WRONG, Outcome.CAUGHT):
        in_quarantine = ended.outcome is Outcome.CAUGHT and ended.bar is not None and not ended.bar.here
        return Text(f"{bar_sign(ascii)} {held if in_quarantine else word}", verdict_style("slower"))
    return Text(word, "dim")


def end_text(run: Run) -> Text:
    """How a run ended that did not end well, the word in bold."""
    head, colon, why = end_words(run).partition(": ")
    return Text.assemble((head + colon, "bold"), why)


def outcome_text(lesson: Lesson, ascii: bool, *, held: str = "held") -> Text:
    """The same of a lesson's last result; what is missing where it can have none here."""
    if lesson.outcome is Outcome.UNAVAILABLE and not lesson.bad and lesson.missing:
        return Text(lesson.missing.removeprefix("needs ").partition(":")[0], "dim italic")
    return Text(lesson.word, "dim") if lesson.ended is None else ended_text(lesson.ended, ascii, held=held)


def missed_text(run: RunView, rung: str, ascii: bool) -> Text:
    if run.doubts(rung):
        return status_text(FindingStatus.SUSPECT, ascii)
    return Text("! not caught" if run.record.findings else plain.DASH, "bold", no_wrap=True, end="")


def cheats_text(result: Reading, caught: Collection[str], ascii: bool) -> Text | None:
    """Whether the cheats that ran were caught: "✓ caught", also where their values gave them away, or "! 1 of 2".

    None where none ran, and where the run ended with something else before all of them were caught.
    """
    ran = [arm.rung for arm in result.record.arms if arm.role is Role.CHEAT and arm.state.final]
    out = sum(1 for rung in ran if {rung, ""} & set(caught))
    if ran and out == len(ran):
        return Text("+ caught" if ascii else "✓ caught")
    return Text(f"! {out} of {len(ran)}", "bold") if ran and result.record.state is State.OK else None


def interval_text(item: Comparison) -> str:
    """ " [2.28..2.35]", behind a speed-up; "" where it has no interval: the first rounds of one process give two ends
    that are the same."""
    if item.low is None or item.high is None or (item.low == item.high and not item.verdict.decided):
        return ""
    low, high = (beyond(value) or speedup_text(value, True).removesuffix("x") for value in (item.low, item.high))
    return f" [{low}..{high}]"


def bar_sentence(bar: Bar) -> str:
    """A bar with its evidence; of a mistake the word first, then the first wrong element."""
    if bar.mistake:
        return f"{bar.short}: {bar.rung}: {bar.evidence}"
    where = bar.short if bar.here else "in quarantine"
    return f"{bar.rung or 'the run'} {where}: {bar.check}: {bar.evidence}"


def arms_text(arms: Sequence[str], run: RunView | None) -> str:
    """Names of the arms that a finding is about; "" where that is all of them, or the whole run."""
    told = [arm for arm in arms if arm]
    if not told or (run is not None and len(arms) > 1 and set(run.rungs) <= set(arms)):
        return ""
    return ", ".join(told)


def waiting_for(run: RunView | None, why: str = "") -> str:
    """What has to come before the checks can be asked, or why they never were; "" where they were."""
    if run is None:
        return why or "reading the store"
    if run.record.findings:
        return ""
    if not run.record.state.final:
        doing = progress.doing(run) or STATE_WORDS.get(run.record.state, run.record.state.value)
        return f"the checks are asked when the run ends; now: {doing}"
    if run.record.state.cut_short:
        return f"no check was asked: {run.record.reason or STATE_WORDS[run.record.state]}"
    if run.record.state.fault is Fault.RECORD:
        return end_words(run.record)
    return "no check is stored with this run; r runs it again, and asks them"


OWN_RULE = " (own rule)"  # behind a rung's name: the key of the row below its own


def number_columns(width: int) -> list[Column]:
    if width < 100:
        return [
            Column("rung", "rung", 18),
            Column("naive", "a naive harness says", 23),
            Column("ours", "we say", None, ratio=1),
        ]
    return [
        Column("rung", "rung", 24),
        Column("naive", "a naive harness says", 27),
        Column("times", "its times, ms", 18),
        Column("ours", "we say", None, ratio=1),
        Column("median", "median ms", 25, "right"),
    ]


def naive_text(run: RunView, arm: Arm, ascii: bool) -> Text:
    """What a naive harness says of a rung, and whether its allclose took the outputs; why it says nothing."""
    naive = arm.naive
    if naive is None:
        why = "after the samples" if not run.record.state.final else "R asks it" if run.record.quick else "not asked"
        return Text(f"{plain.DASH} ({why})", "dim")
    took = {True: "accepted", False: "outputs refused", None: "outputs not compared"}[naive.accepts]
    if naive.speedup is None:
        return Text(naive.note or f"{plain.DASH} ({took})", "dim")
    text = Text(speedup_text(naive.speedup, ascii), "bold")
    return text.append(f" {took}", "not bold")


def our_text(run: RunView, rung: str, ascii: bool) -> Text:
    arm, item, ended = run.arm(rung), run.comparison(rung), outcome.of(run, rung)
    assert arm is not None
    bar = run.barred(item) if item is not None else run.bar(rung)
    if ended.silent and run.record.state.final:
        return Text(ended.word, "bold")
    if bar is not None:
        right = f"{ended.word}, " if ended.outcome.right else ""
        return Text(right, "bold", no_wrap=True, end="").append_text(bar_text(bar, rung, ascii))
    if run.unjudged(rung):
        return Text("a cheat: judged at the end", "dim")
    if run.missed(rung):
        text = missed_text(run, rung, ascii)
        if item and item.speedup:
            text.append(f", it came to {plain.speedup(item.speedup, verdict=item.verdict)}")
        return text
    if run.record.state.final and not ended.outcome.right:
        return Text(ended.word, "bold")
    if item is None or not item.verdict.known:
        note = own_note(item) if item is not None else ""
        word = ended.word if run.record.state.final else "nothing yet"
        return Text(f"{word}: {note}" if note and run.record.state.final else note or word)
    text = verdict_text(item.verdict.value, item.speedup, ascii)
    text.append(interval_text(item), "not bold")
    text.append(f" {item.verdict.value}" if run.record.state.final else " so far", "not bold")
    return text.append(f", {ended.word}", "bold") if ended.outcome is Outcome.SUSPECT else text


def number_rows(run: RunView, width: int, ascii: bool) -> list[tuple[str, list[Cell]]]:
    keys = [column.key for column in number_columns(width)]
    rows: list[tuple[str, list[Cell]]] = []
    for arm in run.record.arms:
        rung = arm.rung
        if rung == AA_ARM or (rung == BASELINE and run.bar(rung) is None):
            continue
        naive = arm.naive
        times = plain.DASH
        if naive is not None and naive.time_ms is not None:
            times = f"{plain.number(naive.base_ms, 3)} / {plain.number(naive.time_ms, 3)}"
        cells: dict[str, Cell] = {
            "rung": Text(rung),
            "naive": Text(plain.DASH) if rung == BASELINE else naive_text(run, arm, ascii),
            "times": times,
            "ours": our_text(run, rung, ascii),
            "median": plain.milliseconds(arm.median_ms, arm.low_ms, arm.high_ms),
        }
        rows.append((rung, [cells[key] for key in keys]))
        if said := by_own_rule(arm):
            own = {"rung": Text("  its own rule", "dim"), "ours": Text(said)}
            rows.append((f"{rung}{OWN_RULE}", [own.get(key, Text("")) for key in keys]))
    return rows


def summary_text(run: RunView, categories: Sequence[Category], ascii: bool) -> Text:
    word = {
        Validity.VALID: "valid",
        Validity.SUSPECT: "suspect: there is no verdict",
        Validity.CAUGHT: "caught",
    }.get(run.record.validity, "not judged yet" if not run.record.state.final else "not judged")
    text = Text(word, "bold")
    counted = counts_text(categories)
    dot = " | " if ascii else " · "
    doubts = [said.check for status in TOLD_FIRST for one in categories for said in one.checks if said.status is status]
    if doubts:
        text.append(f"{dot}by {', '.join(doubts)}", "bold")
    met = busy.of_run(run.record)
    if met is not None:
        text.append(f"{dot}{busy.MACHINE}", "bold")
    if counted:
        checks = sum(len(one.checks) for one in categories)
        text.append(f"{dot}{checks} checks: {counted}", "not bold")
    if run.record.without:
        text.append(f"{dot}left out: {', '.join(run.record.without)}", "bold")
    if run.confined:
        text.append(f"{dot}{run.confined}", "not bold")
    if met is not None:
        text.append(f"{dot}{busy.figures(met)}", "not bold")
    return text


def said_columns() -> list[Column]:
    return [
        Column("check", "check", 21),  # the longest name that there is
        Column("said", "said", 13),
        Column("evidence", "of what, and why", None, ratio=1),
    ]


def category_text(name: str, rest: str, folded: bool, ascii: bool) -> Text:
    opened, closed = ("-", "+") if ascii else ("▾", "▸")
    text = Text(f"{closed if folded else opened} ")
    text.append(name, "bold")
    return text.append(f"  {rest}")


def said_rows(
    run: RunView, categories: Sequence[Category], only: Only, folded: set[str], ascii: bool
) -> list[tuple[str, list[Cell]]]:
    rows: list[tuple[str, list[Cell]]] = []
    for one in categories:
        shown = [said for said in one.checks if said.status in only.statuses]
        if not shown:
            continue
        closed = one.name in folded
        rows.append((f"category {one.name}", [category_text(one.name, counts_text([one]), closed, ascii), "", ""]))
        if closed:
            continue
        for said in shown:
            arms = arms_text([item.arm for item in said.worst], run)
            evidence = said.worst[0].evidence
            name = Text(f"  {said.check.partition('.')[2]}", "bold" if said.status in TOLD_FIRST else "")
            of = Text(f"{arms}: {evidence}" if arms else evidence)
            rows.append((f"check {said.check}", [name, status_text(said.status, ascii), of]))
    return rows


@dataclass(frozen=True, slots=True)
class Book:
    """The registry of checks and issues, as plain data."""

    checks: Mapping[str, CheckView]
    issues: Mapping[str, IssueView]

    def proofs(self, check: str) -> list[str]:
        """Ids of the gallery targets whose cheats prove a check."""
        view = self.checks.get(check)
        return list(dict.fromkeys(cheat.partition("/")[0] for cheat in view.cheats)) if view is not None else []


@cache
def read_book() -> Book:
    """The registry; reads the category files, so it belongs into a thread."""
    from aisp.engine import trust  # every category's file, and the gallery: only where a screen of checks is opened

    return Book({view.id: view for view in trust.listing()}, {view.id: view for view in trust.issues()})


def labelled(label: str, texts: Sequence[str]) -> list[str]:
    return [f"  {label if not number else '':<8}  {text}" for number, text in enumerate(texts)]


def evidence_lines(said: Said, run: RunView | None) -> list[str]:
    """All that a check said, arms with the same words together."""
    groups: dict[tuple[FindingStatus, str], list[str]] = {}
    for item in said.findings:
        groups.setdefault((item.status, item.evidence), []).append(item.arm)
    lines = []
    for (status, evidence), arms in groups.items():
        of = arms_text(arms, run) or ("every rung" if any(arms) else "the run")
        lines += [f"{of} {STATUS_WORDS[status]}: {evidence or 'nothing to remark'}", ""]
    return lines


def check_lines(check: str, book: Book | None) -> list[str]:
    """What a check looks at, when, what it needs, which issues it answers and what proves it."""
    if book is None:
        return ["reading the registry"]
    view = book.checks.get(check)
    if view is None:
        return ["this version has no check of that name"]
    lines = labelled("looks at", [view.about])
    needs = ", ".join(str(need) for need in view.needs)
    lines += labelled("asked", [f"{view.when}; needs {needs}" if needs else str(view.when)])
    answers = []
    for issue in view.issues:
        known = book.issues.get(issue)
        answers.append(f"{issue}: {known.what}" if known is not None else issue)
    lines += labelled("answers", answers or [plain.DASH])
    proofs = book.proofs(check)
    if proofs:
        names = ", ".join(name.replace(":", "/") for name in proofs)
        which = "it" if len(proofs) == 1 else "the first"
        lines += labelled("proof", [f"cheats and their honest twins in checks/gallery, p opens {which}: {names}"])
    else:
        lines += labelled("proof", ["no cheat of the gallery: a test proves the part of the design"])
    return lines


def issue_lines(issue: IssueView) -> list[str]:
    lines = labelled("happens", [issue.what])
    lines += labelled("answer", [f"{issue.how}: {issue.answer}"])
    lines += labelled("checks", list(issue.checks) or [plain.DASH])
    proof = f"checks/gallery/{issue.fixture}: p opens it" if issue.fixture else "no kernel can do it on one machine"
    lines += labelled("proof", [proof])
    if not issue.listed:
        lines += labelled("", ["beyond the field's list of 95"])
    return lines
