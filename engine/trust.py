"""The registry of checks as plain data: what frontends list, and the page docs/validity.md. Pure; imports no torch.

    python -m aisp.engine.trust            writes docs/validity.md anew

The checks and the issues themselves stand in `checks/`, their proofs in `checks/gallery/`; nothing is said twice here.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from aisp.checks import registry
from aisp.checks.registry import CATEGORIES, Check, How, Issue
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Catalog, Role, Target


@dataclass(frozen=True, slots=True)
class FixtureView:
    """A folder of the gallery: cheats that must be caught, and the twin that does the same honestly.

    Attributes:
        target_id: "timing:unsynced_streams".
        cheats: rungs, "cheat" and "cheat_<how>".
        twin: the honest rung, "optimized"; "" where the folder has none.
        checks: ids of the checks that answer the issues which name this folder.
        cpu: whether a cheat of it can run on a machine without a GPU.
        on_host: whether it runs on the CPU everywhere.
    """

    target_id: str
    category: str
    folder: Path
    cheats: tuple[str, ...]
    twin: str
    checks: tuple[str, ...]
    cpu: bool
    on_host: bool = False


@dataclass(frozen=True, slots=True)
class CheckView:
    """A check for a list.

    Attributes:
        issues: ids of the issues that it answers.
        when, needs: as text, see registry.When and registry.Need.
        how: "detected" where it detects one of them at least, else "prevented", else "unavailable".
        cheats, twins: that prove it, as "timing:unsynced_streams/cheat".
    """

    id: str
    category: str
    title: str
    about: str
    issues: tuple[str, ...]
    when: str
    needs: tuple[str, ...]
    how: str
    cheats: tuple[str, ...]
    twins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IssueView(Issue):
    """A way in which a result can be invalid, with the ids of the checks that answer it."""

    checks: tuple[str, ...] = ()


# -- what there is -----------------------------------------------------------------------------------------------------


def gallery_root() -> Path:
    """The folder of the fixtures: <category>/<name>/."""
    return Path(registry.__file__).resolve().parent / "gallery"


def gallery() -> Catalog:
    """The fixtures as the catalogue sees them, with its problems; reads some files of every folder."""
    return catalog.load([gallery_root()])


def fixtures() -> list[FixtureView]:
    """Every fixture that loads, category by category."""
    return _fixtures(gallery().targets)


def issues() -> list[IssueView]:
    """Every issue, category by category."""
    answered = _answered_by()
    return [IssueView(**asdict(issue), checks=answered.get(issue.id, ())) for issue in registry.issues()]


def listing() -> list[CheckView]:
    """Every check, category by category."""
    shown = fixtures()
    known = {issue.id: issue for issue in registry.issues()}
    return [_check_view(check, known, shown) for check in registry.checks()]


def _check_view(check: Check, known: Mapping[str, Issue], shown: Sequence[FixtureView]) -> CheckView:
    hows = {known[issue].how for issue in check.issues if issue in known}
    proofs = [fixture for fixture in shown if check.id in fixture.checks]
    return CheckView(
        id=check.id,
        category=check.category,
        title=check.title,
        about=check.about,
        issues=check.issues,
        when=check.when.value,
        needs=tuple(need.value for need in check.needs),
        how=next((how.value for how in (How.DETECTED, How.PREVENTED) if how in hows), How.UNAVAILABLE.value),
        cheats=tuple(f"{fixture.target_id}/{cheat}" for fixture in proofs for cheat in fixture.cheats),
        twins=tuple(f"{fixture.target_id}/{fixture.twin}" for fixture in proofs if fixture.twin),
    )


def _fixtures(targets: Iterable[Target]) -> list[FixtureView]:
    answered = _answered_by()
    by_folder: dict[str, list[str]] = {}
    for issue in registry.issues():
        if issue.fixture:
            by_folder.setdefault(issue.fixture, []).extend(answered.get(issue.id, ()))
    place = {category: number for number, category in enumerate(CATEGORIES)}
    views = [
        FixtureView(
            target_id=target.id,
            category=target.chapter,
            folder=target.folder,
            cheats=tuple(rung.name for rung in target.rungs if rung.role is Role.CHEAT),
            twin=next((rung.name for rung in target.rungs if rung.role is Role.OPTIMIZED), ""),
            checks=tuple(dict.fromkeys(by_folder.get(target.id.replace(":", "/"), ()))),
            cpu=(target.on_host or any(case.name == "cpu" for case in target.cases))
            and any(rung.role is Role.CHEAT and not rung.gpu_only for rung in target.rungs),
            on_host=target.on_host,
        )
        for target in targets
    ]
    return sorted(views, key=lambda view: (place.get(view.category, len(place)), view.target_id))


def _answered_by() -> dict[str, tuple[str, ...]]:
    """Ids of checks by the issue that they answer."""
    found: dict[str, tuple[str, ...]] = {}
    for check in registry.checks():
        for issue in check.issues:
            found[issue] = (*found.get(issue, ()), check.id)
    return found


# -- the page ----------------------------------------------------------------------------------------------------------

_INTRO = """\
# What can make a result invalid, and what is done about it

This page is written by `python -m aisp.engine.trust` from the registry in `checks/` and the gallery in
`checks/gallery/`; a change belongs there.

An issue is *prevented* where the design leaves no room for it, *detected* where a check looks for it, and
*unavailable* where a machine like this one cannot ask; the text says what it would take. A fixture is a target folder
with a real cheat and an honest twin that uses the same API: `aisp bench audit` runs them all, the cheats must be
caught and the twins must pass. `aisp bench checks` lists the checks with what each said of the last run.
"""


def validity_md() -> str:
    """The whole of docs/validity.md."""
    every_issue, every_check, every_fixture = issues(), listing(), fixtures()
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
    rows = ["| category | issues | beyond the 95 | prevented | detected | unavailable | checks | fixtures | cheats |"]
    rows.append("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
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
        f"prevented, {totals['detected']} detected, {totals['unavailable']} unavailable.\n{totals['checks']} checks; "
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
    facts = f"Looks {check.when}; needs {' and '.join(check.needs) or 'nothing special'}; answers {answers}."
    return f"### {check.id}\n\n**{_line(check.title)}.** {_line(check.about)}\n\n{facts}\n"


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def page() -> Path:
    """docs/validity.md of this checkout."""
    return Path(__file__).resolve().parent.parent / "docs" / "validity.md"


def main() -> int:
    """Write the page. Exit status: 0, or 3 where there is no docs folder beside the package."""
    if not page().parent.is_dir():
        sys.stderr.write(f"{page().parent} is not there: run this in a checkout of the sources\n")
        return 3
    page().write_text(validity_md(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
