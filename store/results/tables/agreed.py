"""What is expected of a GPU: targets beside a least speed-up, and beside what was agreed to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from aisp.store.results.expected import Answered, HeldTarget
from aisp.store.results.numbers import speedup
from aisp.store.results.tables import Column, at, fields

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target


@dataclass(frozen=True, slots=True)
class Least:
    """A target beside the least speed-up that was asked for. `below`: the best speed-up is less, and the goal is one
    that must gain time."""

    target: Target
    answered: Answered
    below: bool


def _run(seen: str) -> tuple[Column[Any], ...]:
    """The run that answers, to which this path leads; null of all of it where there is none."""
    speed, low, high, verdict = (at(f"{seen}.best.{name}") for name in ("speedup", "low", "high", "verdict"))
    rung, on, wall = at(f"{seen}.best.rung"), at(f"{seen}.on"), at(f"{seen}.wall")
    return (
        Column("rung", "its best rung", lambda row: rung(row) or None, "rung"),
        Column("speedup", "baseline time over that rung's", speed, "speed-up [low..high]",
               lambda row: speedup(speed(row), low(row), high(row), verdict=verdict(row))),
        Column("low", "lower end of its 95 % interval", low),
        Column("high", "upper end", high),
        Column("on", "the hardware of the run that answers", lambda row: on(row) or None, "on", drop=1, shrink=True),
        Column("wall", "when it began, in UTC", wall, "when", lambda row: (wall(row) or "")[:10], drop=2),
        *fields(seen, {"run_id": "the run", "quick": "whether it was a quick one"}),
    )  # fmt: skip


LEAST: tuple[Column[Least], ...] = (
    Column("target", "the target", at("target.id"), "target"),
    Column("goal", "what it is to gain", at("target.goal"), "goal"),
    Column("answer", "`met` where a run could answer, else why none does", at("answered.met")),
    Column("below", "whether it lies below", at("below")),
    *_run("answered.seen"),
)


def _answers(value: Any) -> Any:
    """Data with `answer` for `met`."""
    if isinstance(value, dict):
        return {"answer" if key == "met" else key: _answers(item) for key, item in value.items()}
    return [_answers(item) for item in value] if isinstance(value, (list, tuple)) else value


HELD: tuple[Column[HeldTarget], ...] = (
    Column("target", "the target", at("target")),
    Column("answer", "the gravest of its rungs and its order", at("met")),
    *_run("seen"),
    Column("agreed_runs", "the runs that its ranges were made of", lambda held: list(held.agreed.runs)),
    Column("differs", "driver and versions that are others: `what`, `then` and `now`",
           lambda held: [{"what": one.what, "then": one.a, "now": one.b} for one in held.differs]),
    Column("order", "of a portable file: `agreed`, `measured`, `broken` (first what was to be faster), `answer`",
           lambda held: None if held.order is None else _answers(asdict(held.order))),
    Column("rungs", "each with `rung`, `answer`, `note` and `parts`, which are figures beside what was agreed to",
           lambda held: [_answers(asdict(rung)) | {"note": rung.note or None} for rung in held.rungs]),
)  # fmt: skip
