"""A suite run as documents: what its package holds. Pure functions over rows; `store.suites` writes and reads them.

A package is `summary.json` (what every target came to, and the suite in one number), `regression.json` and
`regression.md` (against earlier runs), `trend.json` (every target's history). `index.json` stands one level above, over
all packages. Each document says its kind and schema; unknown is null. Times are ms, ratios plain numbers, `wall` is
ISO 8601 in UTC.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from aisp.store.results import busy, comparison, suite
from aisp.store.results.regression import Against, Change, Row, tally
from aisp.store.results.tables import attributes, documents
from aisp.store.results.tables.suites import TARGETS, targets_of
from aisp.store.text import clean_line

if TYPE_CHECKING:
    from aisp.store.results.comparison import Difference

SCHEMA = 1
SUMMARY, REGRESSION, TREND, INDEX = "summary.json", "regression.json", "trend.json", "index.json"
MARKDOWN = "regression.md"
_HEADINGS = {
    Change.LOST: "Lost",
    Change.WORSE: "Worse",
    Change.BETTER: "Better",
    Change.SAME: "Same",
    Change.UNDECIDED: "Undecided",
    Change.NOT_COMPARABLE: "Not comparable",
    Change.FIRST: "First runs",
    Change.LEFT_OUT: "Left out",
}

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pass:
    """One run of a suite: which, when, where.

    Attributes:
        id: its ULID, the package's name.
        machine: what tells the machine from others: host, gpu, gpu_uuid, cpu; "" where one is not known.
        contract: name and sha256 of what a run must keep; empty without one.
    """

    suite: str
    id: str
    wall: str
    machine: Mapping[str, str]
    contract: Mapping[str, str] = field(default_factory=dict)

    def head(self, kind: str) -> Document:
        """What each of its documents begins with."""
        own = {**attributes(self, "suite", "id", "wall"), "machine": dict(self.machine)}
        return {"kind": f"aisp suite {kind}", "schema": SCHEMA, **own, "contract": dict(self.contract) or None}


def package(run: Pass, rows: Sequence[Row], *, launch_count: Collection[str] = ()) -> dict[str, Document | str]:
    """All that a package holds, by file name.

    Args:
        launch_count: targets whose gain is that fewer kernels are launched.
    """
    return {
        SUMMARY: summary(run, rows, launch_count=launch_count),
        REGRESSION: regressions(run, rows),
        MARKDOWN: regression_markdown(run, rows),
        TREND: trend(run, rows),
    }


# -- summary -----------------------------------------------------------------------------------------------------------


def summary(run: Pass, rows: Sequence[Row], *, launch_count: Collection[str] = ()) -> Document:
    """What every target came to, and the geometric mean of their speed-ups, with and without these targets."""
    targets, parts, score = targets_of(rows)
    without = suite.together(part for part in parts if part.target not in launch_count)
    return run.head("summary") | {
        "geometric_mean": _mean(score),
        "geometric_mean_without_launch_count": _mean(without),
        "launch_count": sorted({*launch_count} & {part.target for part in parts}),
        "level": score.level,
        "changes": counts(rows),
        "busy": busy.targets(rows),
        "targets": documents(TARGETS, targets),
    }


def _mean(score: suite.Score) -> Document:
    return {"count": score.count, "value": score.geometric_mean, "low": score.low, "high": score.high}


def counts(rows: Iterable[Row]) -> Document:
    """How many rows came to what, by its word."""
    return {change.value: count for change, count in tally(rows).items()}


def counts_line(rows: Sequence[Row]) -> str:
    """ "1 worse, 2 run for the first time; 1 on a busy machine"."""
    told = ", ".join(f"{count} {change.words}" for change, count in tally(rows).items() if count) or "no targets"
    return f"{told}; {on_busy}" if (on_busy := busy.tally(len(busy.targets(rows)))) else told


# -- regression --------------------------------------------------------------------------------------------------------


def regressions(run: Pass, rows: Sequence[Row]) -> Document:
    """The rows by what they came to: worse, better, same, undecided, not comparable, first, left out, lost."""
    by_change: dict[str, list[Document]] = {change.value.replace(" ", "_"): [] for change in Change}
    for row in rows:
        entry: Document = {
            "target": row.target,
            "run_id": row.now.run.id if row.now is not None else None,
            "sentence": row.sentence(),
            "left_out": row.left_out or None,
            "last": _against(row.last),
            "best": _against(row.best),
        }
        by_change[row.outcome.value.replace(" ", "_")].append(entry)
    return run.head("regression") | {"counts": counts(rows), "busy": busy.targets(rows)} | by_change


def _against(found: Against | None) -> Document | None:
    if found is None:
        return None
    names = ("rung", "ratio", "low", "high", "floor", "p_value", "in_cycles", "control", "same_code", "best_of", "luck")
    return {
        "change": found.change.value,
        "run_id": found.earlier.run.id,
        "wall": found.earlier.run.record.wall,
        **attributes(found, *names),
        "reason": found.reason or None,
        "causes": [_cause(one) for one in found.causes],
        "turns": None if found.turns is None else asdict(found.turns),
    }


def _cause(found: Difference) -> Document:
    plain = (bool, int, float, str)  # as JSON can hold it
    then, now = (one if one is None or isinstance(one, plain) else str(one) for one in (found.a, found.b))
    return {"cause": comparison.cause(found), "what": found.what, "then": then, "now": now, "refuses": found.refuses}


def regression_markdown(run: Pass, rows: Sequence[Row]) -> str:
    """The same for people: worse first, one line a target."""
    on = " on ".join(text for text in (run.machine.get("gpu") or "", run.machine.get("host") or "") if text)
    found = [f"# {_cell(run.suite)}: {_cell(run.wall[:16].replace('T', ' '))} UTC", ""]
    counted = counts_line(rows)
    found += [f"{_cell(on)}: {counted}." if on else f"{counted}.", ""]
    for change, heading in _HEADINGS.items():
        here = [row for row in rows if row.outcome is change]
        if here:
            found += [f"## {heading}", ""]
            found += [f"- `{_cell(row.target)}`{_rung(row)}: {_cell(row.sentence())}" for row in here]
            found.append("")
    return "\n".join(found)


def _rung(row: Row) -> str:
    return f" ({_cell(row.told.rung)})" if row.told is not None and row.told.rung else ""


def _cell(text: str) -> str:
    """Text from outside, on one line, with nothing in it that Markdown would act upon."""
    plain = clean_line(text, limit=2000)
    return "".join(f"\\{sign}" if sign in "`*<>|" else sign for sign in plain)


# -- trend and index ---------------------------------------------------------------------------------------------------


def trend(run: Pass, rows: Iterable[Row]) -> Document:
    """Every target's history, oldest first, the present run last."""
    return run.head("trend") | {
        "targets": [{"target": row.target, "points": [asdict(point) for point in row.past]} for row in rows]
    }


def index(suite_name: str, packages: Iterable[tuple[Document, Document]], told: Sequence[str] = ()) -> Document:
    """Over all packages of a suite, oldest first.

    Args:
        packages: summary and regression of each.
        told: sentences on packages that could not be taken in.
    """
    names = ("id", "wall", "machine", "contract", "geometric_mean", "geometric_mean_without_launch_count", "changes")
    entries = [
        {name: of.get(name) for name in names}
        | {"worse": [entry.get("target") for entry in against.get(Change.WORSE.value) or ()]}
        for of, against in packages
    ]
    return {
        "kind": "aisp suite index",
        "schema": SCHEMA,
        "suite": suite_name,
        "packages": sorted(entries, key=lambda entry: str(entry["id"])),
        "told": list(told),
    }
