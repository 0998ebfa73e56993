"""From the stored runs of a suite's targets to its result: each against earlier runs, in turns where it looks slower,
and the package on disk.

Which runs count is said in tui.suites, the rules in store.results.regression.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aisp.engine.protocol.requests import StartRuns
from aisp.kernels.catalog.between import BetweenError, between
from aisp.store import suites
from aisp.store.errors import StoreError
from aisp.store.outcomes import Fault, State
from aisp.store.results import expected, regression, suite_documents, tables
from aisp.store.results.regression import Change, Row
from aisp.store.results.suite import Part, together
from aisp.store.results.tables import suites as listed
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.follow import summary
from aisp.tui.cli.suite import left_out_lines, summary_lines
from aisp.tui.cli.turning import as_measured, settle
from aisp.tui.suites import breach, machine_of, sides

if TYPE_CHECKING:
    from aisp.kernels.catalog.contracts import Contract
    from aisp.kernels.catalog.model import Catalog, Target
    from aisp.kernels.catalog.suites import Suite
    from aisp.store.record import Run
    from aisp.store.results.reading import Reading
    from aisp.tui.cli.stored import Opened

RUNS = "runs.json"
"""Of a package: what every rung came to and on what, as store.results.expected reads a run; for other machines."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a run of a suite came to.

    Attributes:
        broken: targets whose runs keep the suite's contract not, with what they break of it.
        unturned: targets that look slower and could not be measured in turns, with the reason.
        machine: as packages name it.
        runs: of each target that counts, as other machines read it.
    """

    rows: list[Row]
    broken: Mapping[str, str] = field(default_factory=dict)
    unturned: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    runs: Sequence[dict[str, Any]] = ()


# -- which runs --------------------------------------------------------------------------------------------------------


def gather(
    opened: Opened,
    targets: Mapping[str, Target],
    ran: Mapping[str, Reading],
    refused: Mapping[str, str],
    contract: Contract | None,
    lost: Mapping[str, str],
    had: Collection[str],
) -> Result:
    """Every target against its earlier runs.

    Args:
        targets: of the suite, in its order.
        ran: the run that was made of each.
        refused: why there is none of the others.
        lost: why others of the suite are not there.
        had: targets that a run of the suite had a figure of: one that cannot be measured now is lost, too.
    """
    rows: list[Row] = []
    broken: dict[str, str] = {}
    machine = machine_of({})
    runs: list[dict[str, Any]] = []
    for target_id, target in targets.items():
        reading = ran.get(target_id)
        gone = any(name in had for name in target.names)
        if reading is None:
            why = refused.get(target_id, "it was not run")
            rows.append(Row(target_id, None, why, None, None, (), lost=gone))
            continue
        now = stored_or_told(opened, reading.record)
        facts = opened.facts(now)
        machine = machine if any(machine.values()) else machine_of(facts)
        why = summary(opened.read(now)) if now.state is not State.OK else ""
        if not why and contract is not None and (why := breach(opened, contract, now)):
            broken[target_id] = why
        if gone and now.state.fault is Fault.MACHINE:
            rows.append(Row(target_id, None, why, None, None, (), lost=True))
            continue
        row = regression.row(target_id, sides(opened, now, contract, target.names), left_out=why)
        rows.append(row)
        if not row.left_out:
            runs.append({"target": target_id} | asdict(expected.of_run(opened.read(now), facts, target)))
    rows += [Row(target, None, why, None, None, (), lost=True) for target, why in lost.items()]
    return Result(regression.corrected(rows), broken, {}, machine, runs)


def measured_before(packages: Sequence[suites.Package]) -> set[str]:
    """Targets that any of these runs of a suite had a figure of."""
    entries = (entry for package in packages for entry in package.summary["targets"])
    return {str(one.get("target")) for one in entries if isinstance(one, Mapping) and not one.get("left_out")}


def lost(opened: Opened, packages: Sequence[suites.Package], suite: Suite, catalog: Catalog) -> dict[str, str]:
    """Targets of the last of these runs of the suite that it still means and that are not among its own now, with what
    helps. Those whose run was of a folder under none of the catalogue's roots are of another suite of that name."""
    if not packages:
        return {}
    last = packages[-1].summary
    entries = [entry for entry in last["targets"] if isinstance(entry, Mapping) and entry.get("change") != Change.LOST]
    before = {str(entry.get("target")): entry.get("run_id") for entry in entries}
    when = plain.local_time(last["wall"])
    gone = f"it was in the run of {when} and is gone; where it was renamed, write formerly = "
    out = f"it was in the run of {when}; the suite's `only` leaves it out now"
    return {
        one: out if one in catalog.ids else clean_line(f'{gone}["{one}"] into its lesson.md')
        for one in suite.lost(before, catalog)
        if _was_here(opened, before[one], catalog.roots)
    }


def _was_here(opened: Opened, run_id: object, roots: Sequence[Path]) -> bool:
    """Whether a run was of a folder below one of these; True where nobody knows it any more."""
    try:
        folder = Path(os.fsdecode(opened.run(str(run_id)).folder)).resolve()
    except (LookupError, StoreError):
        return True
    return any(folder.is_relative_to(root.resolve()) for root in roots)


def stored_or_told(opened: Opened, told: Run) -> Run:
    """A run as it is stored; as it was told where the engine could not store its end."""
    try:
        found = opened.run(told.id)
    except LookupError:
        return told
    return found if found.state.final else told


# -- in turns ----------------------------------------------------------------------------------------------------------


def in_turns(opened: Opened, result: Result, collection: str, since: str) -> Result:
    """The result with old and new source measured in turns where a row looks slower, in full runs whatever the suite's
    mode: they have the last word.

    Args:
        collection: names the folder of these runs, so that they are found again after a kill.
        since: id of the suite's run; no run before it is one of these.

    Raises:
        LeftError: Ctrl-C.
        NotHereError: there is no engine to measure them.
    """
    wanted = [(row, which) for row in regression.to_turn(result.rows) for which in regression.turns_wanted(row)]
    unturned: dict[str, str] = {}
    folders: dict[bytes, dict[str, Mapping[str, bytes]]] = {}  # by how they are measured
    done: dict[str, Reading] = {}
    for row, which in wanted:
        name = _folder_name(row.target, which)
        if (known := _turned_before(opened, f"{collection}:{name}", since)) is not None:
            done[name] = known
            continue
        try:
            files = _files(opened, row, which)
        except (BetweenError, LookupError, StoreError) as error:
            unturned[row.target] = clean_line(str(error), limit=500)
            continue
        assert row.now is not None  # it looks slower
        folders.setdefault(msgspec.json.encode(as_measured(row.now.run.record)), {})[name] = files
    if folders:
        many = plain.counted(sum(map(len, folders.values())), "comparison")
        common.note(f"looks slower: {many} of the old source against the new one, in turns")
    refused: dict[str, str] = {}
    for how, files_of in folders.items():
        turned = settle(collection, files_of, msgspec.json.decode(how, type=StartRuns))
        done |= turned.runs
        refused |= turned.refused
    rows = {row.target: row for row in result.rows}
    for row, which in wanted:
        name = _folder_name(row.target, which)
        if name in done:
            rows[row.target] = regression.with_turns(rows[row.target], which, done[name])
        elif row.target not in unturned:
            unturned[row.target] = clean_line(refused.get(name, "the run in turns did not come to its end"), limit=500)
    return Result(list(rows.values()), result.broken, unturned, result.machine, result.runs)


def _folder_name(target: str, which: str) -> str:
    return f"{re.sub(r'[^a-z0-9]+', '_', target.lower()).strip('_')}_{which}"


def _turned_before(opened: Opened, target: str, since: str) -> Reading | None:
    found = (run for run in opened.newest(4, target) if run.id > since and run.state is State.OK)
    return next(map(opened.read, found), None)


def _files(opened: Opened, row: Row, which: str) -> dict[str, bytes]:
    against = row.last if which == "last" else row.best
    assert against is not None
    assert row.now is not None
    old, new = (opened.snapshot(one.run.record.snapshot) for one in (against.earlier, row.now))
    return between(old, new, against.rung, row.target, task=new)


# -- the package -------------------------------------------------------------------------------------------------------


def write(base: Path, run: suite_documents.Pass, result: Result, launch_count: Sequence[str]) -> tuple[Path, list[str]]:
    """Write the package below `base` and the index of all; its folder, and a sentence for each bad package there.

    Raises:
        OSError: it cannot be written. PackageExistsError: it was before.
    """
    documents = suite_documents.package(run, result.rows, launch_count=launch_count)
    documents[RUNS] = run.head("runs") | {"targets": list(result.runs)}
    written = suites.write(base / run.id, documents)
    found = suites.read_index(base, run.machine)
    packages = [(package.summary, package.regression) for package in found.here]
    suites.write_index(base, suite_documents.index(run.suite, packages, found.problems))
    return written, found.problems


# -- for people --------------------------------------------------------------------------------------------------------


def lines(result: Result, launch_count: Sequence[str], *, name: str, quick: bool, width: int | None) -> list[str]:
    """A line a target, then what is worse and why, then the suite in one number. `launch_count`: targets whose gain is
    that fewer kernels are launched."""
    rows = result.rows
    shown = [row for row in rows if row.now is not None and not row.left_out]
    columns = tables.shown(listed.TARGETS, "sentence", "wall")
    found = [*plain.listing(columns, [listed.Target(row) for row in shown], width=width), ""]
    text: list[str] = []
    for change, heading in ((Change.LOST, "lost"), (Change.WORSE, "worse"), (Change.BETTER, "better")):
        here = [row for row in rows if row.outcome is change]
        text += [heading, *(f"  {_sentence(row)}" for row in here), ""] if here else []
    slower = [row for row in shown if row.outcome is Change.UNDECIDED and row.told and row.told.looks_slower]
    text += ["may be worse", *(f"  {_sentence(row)}" for row in slower), ""] if slower else []
    for target, why in result.unturned.items():
        text.append(f"not measured in turns, {clean_line(target)}: {why}")
    apart = [row for row in shown if row.outcome is Change.NOT_COMPARABLE]
    text += common.by_reason((row.target, f"not comparable, {row.last.reason if row.last else ''}") for row in apart)
    _, parts, score = listed.targets_of([row for row in rows if not row.lost])
    text += left_out_lines(parts, score)
    if score.count:
        text += summary_lines(score, head=f"{clean_line(name)}: ", tail=", quick" if quick else "")
        text += _without_launches(parts, launch_count)
    found += plain.wrapped(text, width) if width is not None else text
    return [*found, f"=> against earlier runs: {suite_documents.counts_line(rows)}"]


def _sentence(row: Row) -> str:
    rung = f" ({row.told.rung})" if row.told is not None and row.told.rung else ""
    return clean_line(f"{row.target}{rung}: {row.sentence()}", limit=2000)


def _without_launches(parts: Sequence[Part], launch_count: Sequence[str]) -> list[str]:
    without = together(part for part in parts if part.target not in launch_count)
    left = [part.target for part in parts if part.target in launch_count and part.best is not None]
    if not left or not without.count:
        return []
    mean = plain.speedup(without.geometric_mean, without.low, without.high)
    whose = ", ".join(map(clean_line, left))
    return [f"   {mean} over the {without.count} without those that save launches ({whose})"]
