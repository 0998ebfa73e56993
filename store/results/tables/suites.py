"""Suites: which there are, what their runs came to, and many targets' last full runs together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from aisp.store.results import suite
from aisp.store.results.numbers import DASH, local_time, speedup
from aisp.store.results.regression import Change, Row
from aisp.store.results.tables import Column, as_json, at, attributes, fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from aisp.kernels.catalog.suites import Entry, Suite
    from aisp.store.record import Arm, Comparison
    from aisp.store.results.reading import Reading
    from aisp.store.results.regression import Against


class RunOf(NamedTuple):
    """A run of a suite: its package's name, folder, summary, and the targets that became slower."""

    id: str
    folder: Path
    summary: Mapping[str, Any]
    worse: Sequence[str]

    def mean(self, key: str) -> str:
        """A geometric mean with its interval; a dash where it is not known."""
        found = self.summary.get(key)
        return speedup(*(found.get(name) for name in ("value", "low", "high"))) if isinstance(found, dict) else DASH

    def many(self, change: Change) -> str:
        """How many targets came to this."""
        return str(self.summary["changes"].get(change, DASH))


def _counted(change: Change) -> Column[RunOf]:
    head = "not comp." if change is Change.NOT_COMPARABLE else change.value
    drop = {Change.FIRST: 4, Change.NOT_COMPARABLE: 5, Change.LEFT_OUT: 7}.get(change, 0)
    return Column(f"count {change.value}", head=head, text=lambda one: one.many(change), right=True, drop=drop)


RUNS: tuple[Column[RunOf], ...] = (
    Column("wall", "when it began, in UTC", lambda one: one.summary["wall"],
           "when", lambda one: local_time(str(one.summary["wall"]))),
    Column("geometric_mean", "`value`, `low`, `high`, over `count` targets",
           lambda one: one.summary.get("geometric_mean"),
           "geometric mean [low..high]", lambda one: one.mean("geometric_mean")),
    Column("targets", head="targets", right=True, drop=2,
           text=lambda one: str((one.summary.get("geometric_mean") or {}).get("count", DASH))),
    Column("geometric_mean_without_launch_count", "the same without those that save launches",
           lambda one: one.summary.get("geometric_mean_without_launch_count"), "without launches",
           lambda one: one.mean("geometric_mean_without_launch_count").partition(" ")[0], drop=1),
    *(_counted(change) for change in Change),
    Column("busy", "targets that met a busy machine", lambda one: one.summary.get("busy"),
           "busy", lambda one: DASH if one.summary.get("busy") is None else str(len(one.summary["busy"])),
           right=True, drop=6),
    Column("id", "the run of the suite", at("id"), "run", drop=3),
    Column("machine", "`host`, `gpu`, `gpu_uuid` and `cpu`", lambda one: one.summary["machine"]),
    Column("contract", "what its runs had to keep: `name` and `sha256`", lambda one: one.summary.get("contract")),
    Column("changes", "how many targets came to what", lambda one: one.summary["changes"]),
    Column("worse", "the targets that became slower", at("worse")),
    Column("package", "the folder of its documents", lambda one: str(one.folder)),
)  # fmt: skip


class Listed(NamedTuple):
    """A suite, its targets that are there, and its newest run; None where there is none."""

    suite: Suite
    entries: Sequence[Entry]
    last: RunOf | None


def _entry(entry: Entry) -> dict[str, Any]:
    told = attributes(entry, "layer", "launch_count")
    named = {"target": entry.target.id, "case": entry.case or None, "rungs": list(entry.rungs)}
    return {**named, **told, "bottleneck": entry.bottleneck or None}


SUITES: tuple[Column[Listed], ...] = (
    Column("name", "the suite", at("suite.name"), "suite"),
    Column("targets", "each with `target`, `case`, `rungs`, `layer`, `bottleneck` and whether it is of `launch_count`",
           lambda one: [_entry(entry) for entry in one.entries], "targets", lambda one: str(len(one.entries)),
           right=True),
    Column("quick", "whether its runs are quick ones", at("suite.how.quick"),
           "mode", lambda one: "quick" if one.suite.how.quick else "full", drop=3),
    Column("last", "its newest run, as in `aisp suite --history`, `null` where there is none",
           lambda one: as_json(RUNS, one.last) if one.last is not None else None,
           "last run", lambda one: "never" if one.last is None else local_time(one.last.summary["wall"])),
    Column("worse", head="worse", right=True, drop=2,
           text=lambda one: one.last.many(Change.WORSE) if one.last else DASH),
    Column("title", "what it is", at("suite.title"), "what it is", shrink=True),
    Column("file", "where it is written", lambda one: str(one.suite.path), "file", drop=1),
    Column("contract", "the file of what its runs must keep",
           lambda one: None if one.suite.contract is None else str(one.suite.contract)),
)  # fmt: skip


class Together(NamedTuple):
    """A target's last full run, its best rung's comparison, and whether its verdict stays among many."""

    run: Reading
    best: Comparison
    confirmed: bool | None


TOGETHER: tuple[Column[Together], ...] = (
    Column("target", "the target", at("run.record.target"), "target", shrink=True),
    Column("rung", "its best rung", at("best.rung"), "rung", drop=3),
    Column("speedup", "baseline time over that rung's", at("best.speedup"),
           "speed-up [low..high]", lambda one: speedup(one.best.speedup, one.best.low, one.best.high)),
    *fields("best", {"low": "lower end of its 95 % interval", "high": "upper end"}),
    Column("verdict", "beyond the noise floor", at("best.verdict"), "verdict"),
    Column("confirmed", "whether it stays, `null` where it claims no difference", at("confirmed"),
           "confirmed", lambda one: {True: "yes", False: "no", None: DASH}[one.confirmed]),
    Column("p_value", "of no difference beyond the noise floor", at("best.p_value"),
           "p", lambda one: DASH if one.best.p_value is None else f"{one.best.p_value:.2g}", right=True, drop=2),
    Column("wall", "when the run began, in UTC", at("run.record.wall"),
           "when", lambda one: local_time(one.run.record.wall), drop=1),
    Column("run_id", "the run", at("run.id")),
)  # fmt: skip


class Target(NamedTuple):
    """A target in a run of a suite, whether its verdict stays among many, and why it is not in the mean."""

    row: Row
    confirmed: bool | None = None
    left_out: str = ""

    @property
    def run(self) -> Reading | None:
        """Its run, None where none says anything."""
        return self.row.now.run if self.row.now is not None and not self.row.left_out else None

    @property
    def lead(self) -> Arm | None:
        """The rung that the run is about, where it was timed."""
        return self.run.lead if self.run is not None and self.run.best_ms is not None else None

    @property
    def base(self) -> Arm | None:
        """The baseline, where its figures may be shown."""
        run = self.run
        return run.arm(run.baseline) if run is not None and run.bar(run.baseline) is None else None


def targets_of(rows: Sequence[Row]) -> tuple[list[Target], list[suite.Part], suite.Score]:
    """The targets of a suite's run as they are listed, as parts of its number, and that number."""
    parts = [suite.part_of_row(row) for row in rows]
    score = suite.together(parts)
    stays = dict.fromkeys(score.confirmed, True) | dict.fromkeys(score.not_confirmed, False)
    why = suite.left_out(parts, score)
    listed = [Target(row, stays.get(row.target), why.get(row.target, "") or row.left_out) for row in rows]
    return listed, parts, score


def _against(found: Against | None, row: Row) -> str:
    """ "-3.1 % worse, confirmed": how much faster (+) or slower (-) than then, and what that comes to."""
    if found is None:
        return "first run" if row.change is Change.FIRST else DASH
    if found.ratio is None or found.change is Change.NOT_COMPARABLE:
        return found.change.value
    confirmed = found.turns.speedup if found.turns is not None and found.change is Change.WORSE else None
    ratio = confirmed or found.ratio
    share = ratio - 1 if ratio >= 1 else 1 - 1 / ratio
    return f"{share * 100 + 0.0:+.1f} % {found.change.value}{', confirmed' if confirmed else ''}"


_BEST = {name: at(f"run.best.{name}") for name in ("speedup", "low", "high")}
TARGETS: tuple[Column[Target], ...] = (
    Column("target", "the target", at("row.target"), "target", shrink=True),
    Column("run_id", "its run", at("row.now.run.id")),
    Column("baseline", "the baseline", at("base.rung")),
    Column("baseline_ms", "its time", at("base.median_ms")),
    Column("rung", "the rung that the run is about", at("lead.rung")),
    Column("rung_ms", "its time", at("lead.median_ms")),
    Column("verdict", "beyond the noise floor", at("run.best.verdict"), "verdict"),
    Column("speedup", "baseline time over that rung's", _BEST["speedup"],
           "speed-up [low..high]", lambda one: speedup(*(value(one) for value in _BEST.values()))),
    Column("low", "lower end of its 95 % interval", _BEST["low"]),
    Column("high", "upper end", _BEST["high"]),
    Column("confirmed", "whether the verdict stays among so many, `null` where none is called", at("confirmed")),
    Column("share_of_light", "share of the speed of light, 0 to 1", at("lead.sol")),
    Column("change", "what it came to against earlier runs", at("row.outcome")),
    Column("last", head="against last", text=lambda one: _against(one.row.last, one.row)),
    Column("best", head="against best", drop=1,
           text=lambda one: "the same run" if one.row.same_pair else _against(one.row.best, one.row)),
    Column("left_out", "why it is not in the mean", lambda one: one.left_out or None),
    Column("sentence", head="why", text=lambda one: one.row.sentence()),
    Column("wall", "when its run began, in UTC", at("row.now.run.record.wall"),
           "when", lambda one: local_time(at("row.now.run.record.wall")(one) or "")),
)  # fmt: skip
"""What a run of a suite says of its targets; the terminal has the sentences below."""
