"""A run as `customSmallerIsBetter` data, which dashboards of continuous benchmarks draw: a list, a row for each time.

    [{"name": "ch07:transpose optimized", "unit": "ms", "value": 0.41, "range": "0.40..0.43", "extra": "..."}]

A time that may not be shown, or is suspect, is no row: a dashboard would draw it like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisp.store.results import busy, outcome
from aisp.store.results.numbers import number

if TYPE_CHECKING:
    from aisp.store.results.reading import Reading


class NothingError(ValueError):
    """The run has nothing that may be written in the form that was asked for; the text says why."""


def smaller_is_better(run: Reading, machine: str) -> list[dict[str, Any]]:
    """The times of a run, the baseline's first. Raises NothingError where there are none.

    Args:
        machine: what it ran on, in words.
    """
    record = run.record
    if record.validity.suspect:
        raise NothingError(f"its times are {record.validity.value}: {record.reason or run.why('')}")
    rows: list[dict[str, Any]] = []
    for arm in record.arms:
        if arm.twin or arm.median_ms is None or run.bar(arm.rung) is not None:
            continue
        verdict, item = outcome.of(run, arm.rung).verdict, run.comparison(arm.rung)
        said = [f"run {run.id}", machine, f"case {record.case}" if record.case else "", run.mode]
        if arm.rung != run.baseline and verdict.known:
            ratio = "" if item is None or item.speedup is None else f"{number(item.speedup)}x "
            said.append(f"{ratio}{verdict.value}")
        said += [busy.MACHINE] if busy.of_run(record) else []
        row: dict[str, Any] = {"name": f"{record.target} {arm.rung}", "unit": "ms", "value": arm.median_ms}
        if arm.low_ms is not None and arm.high_ms is not None:
            row["range"] = f"{number(arm.low_ms)}..{number(arm.high_ms)}"
        rows.append(row | {"extra": ", ".join(filter(None, said))})
    if not rows:
        raise NothingError("; ".join(bar.sentence for bar in run.bars) or record.reason or "it has no time")
    return rows
