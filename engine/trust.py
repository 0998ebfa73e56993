"""The registry of checks as plain data: what frontends list, and the page docs/validity.md. Pure; imports no torch.

    python -m aisp.engine.trust            writes docs/validity.md anew

The checks and the issues themselves stand in `checks/`, their proofs in `checks/gallery/`; nothing is said twice here.
"""

from __future__ import annotations

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
        evidence: what its accusation rests on, as text, see registry.Evidence.
        how: "detected" where it detects one of them at least, else "prevented", "outside" or "unavailable".
        cheats, twins: that prove it, as "timing:unsynced_streams/cheat".
    """

    id: str
    category: str
    title: str
    about: str
    issues: tuple[str, ...]
    when: str
    needs: tuple[str, ...]
    evidence: str
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
    by_id = {issue.id: issue for issue in registry.issues()}
    return [_check_view(check, by_id, shown) for check in registry.checks()]


def _check_view(check: Check, by_id: Mapping[str, Issue], shown: Sequence[FixtureView]) -> CheckView:
    hows = {by_id[issue].how for issue in check.issues if issue in by_id}
    proofs = [fixture for fixture in shown if check.id in fixture.checks]
    return CheckView(
        id=check.id,
        category=check.category,
        title=check.title,
        about=check.about,
        issues=check.issues,
        when=check.when.value,
        needs=tuple(need.value for need in check.needs),
        evidence=check.evidence.value,
        how=next((how for how in How if how in hows), How.UNAVAILABLE).value,
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
    by_issue: dict[str, tuple[str, ...]] = {}
    for check in registry.checks():
        for issue in check.issues:
            by_issue[issue] = (*by_issue.get(issue, ()), check.id)
    return by_issue
