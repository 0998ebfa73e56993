"""docs/validity.md: every issue with what answers it, every check, every fixture, from the registry and the gallery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from aisp.checks.registry import CATEGORIES, Evidence, How
from aisp.engine import trust
from aisp.engine.trust import CheckView, FixtureView, IssueView

_INTRO = """\
# What can make a result invalid, and what is done about it

This page is written by `python -m tests.proofs pages validity` from the registry in `checks/` and the gallery in
`checks/gallery/`; a change belongs there.

An issue is *prevented* where the design leaves no room for it, *detected* where a check looks for it, of no use
*outside* where nothing is gained by the judge's clock, inputs and outputs, which are in another process
([threat_model.md](threat_model.md#the-judge-outside)), and *unavailable* where a machine like this one cannot ask; the
text says what it would take. A fixture is a target folder
with a real cheat and an honest twin that uses the same API: `aisp dev audit` runs them all, the cheats must be
caught or useless and the twins must pass. `aisp checks` lists the checks with what each said of the last run.

An accusation rests on *values* (outputs, inputs, memory, reports), on *work* (what a process or a device did: work
beside the clock, writes, switches, code) or on *time* alone. A busy machine makes times and makes neither of the
others, so a check of time alone says *suspect* at most: the run keeps its figures and has no verdict, and nobody is put
into quarantine. A baseline and its A/A twin claim nothing, and are never caught: what is seen in them is the machine's
or the task's doing, and makes the run suspect. A suspicion by time alone is asked again in fresh processes before it is
shown, and only what comes again there is *suspect*.
"""


def page() -> str:
    """The whole of docs/validity.md."""
    every_issue, every_check, every_fixture = trust.issues(), trust.listing(), trust.fixtures()
    parts = [_INTRO, _numbers(every_issue, every_check, every_fixture)]
    by_folder = {fixture.target_id.replace(":", "/"): fixture for fixture in every_fixture}
    for category in CATEGORIES:
        here = [issue for issue in every_issue if issue.category == category]
        asked = [check for check in every_check if check.category == category]
        parts.append(f"## {category.capitalize()}\n")
        if here:
            parts.append(_issue_table(here, by_folder))
        parts.extend(_check_text(check) for check in asked)
    return "\n".join(parts)


def _numbers(issues: Sequence[IssueView], checks: Sequence[CheckView], fixtures: Sequence[FixtureView]) -> str:
    rows = [f"| category | issues | beyond the 95 | {' | '.join(How)} | checks | fixtures | cheats |"]
    rows.append("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    totals = Counter[str]()
    for category in CATEGORIES:
        here = [issue for issue in issues if issue.category == category]
        hows = Counter(issue.how for issue in here)
        shown = [fixture for fixture in fixtures if fixture.category == category]
        numbers = {
            "listed": sum(issue.listed for issue in here),
            "beyond": sum(not issue.listed for issue in here),
            **{how.value: hows[how] for how in How},
            "checks": sum(check.category == category for check in checks),
            "fixtures": len(shown),
            "cheats": sum(len(fixture.cheats) for fixture in shown),
        }
        totals.update(numbers)
        rows.append(f"| {category} | " + " | ".join(str(number) for number in numbers.values()) + " |")
        names = list(numbers)
    rows.append("| **all** | " + " | ".join(f"**{totals[name]}**" for name in names) + " |")
    alone = sum(fixture.cpu for fixture in fixtures)
    told = (
        f"{totals['listed']} issues of the field's list and {totals['beyond']} beyond it: {totals['prevented']} are "
        f"prevented, {totals['detected']} detected, {totals['outside']} of no use outside, {totals['unavailable']} "
        f"unavailable.\n{totals['checks']} checks; "
        f"{totals['fixtures']} fixtures with {totals['cheats']} cheats.\nFixtures that run without a GPU: {alone}.\n"
    )
    return "\n".join([told, *rows, ""])


def _issue_table(issues: Sequence[IssueView], by_folder: Mapping[str, FixtureView]) -> str:
    rows = ["| issue | what happens | how | answer | checks | fixture |", "|---|---|---|---|---|---|"]
    for issue in issues:
        name = f"`{issue.id}`" if issue.listed else f"`{issue.id}` (beyond the 95)"
        fixture = "–"
        if issue.fixture:
            cheats = len(by_folder[issue.fixture].cheats) if issue.fixture in by_folder else 0
            fixture = f"`{issue.fixture}`, {cheats} {'cheat' if cheats == 1 else 'cheats'}"
        checks = ", ".join(f"`{check}`" for check in issue.checks) or "–"
        cells = (name, issue.what, issue.how, issue.answer, checks, fixture)
        rows.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join([*rows, ""])


def _check_text(check: CheckView) -> str:
    answers = ", ".join(f"`{issue}`" for issue in check.issues)
    rests = f"accuses by {check.evidence}" + (", so it is suspect at most" if check.evidence == Evidence.TIME else "")
    needs = " and ".join(check.needs) or "nothing special"
    facts = f"Looks {check.when}; needs {needs}; {rests}; answers {answers}."
    return f"### {check.id}\n\n**{_line(check.title)}.** {_line(check.about)}\n\n{facts}\n"


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")
