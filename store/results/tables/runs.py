"""The stored runs of a target, or of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisp.store.outcomes import SUPERSEDED, State, Verdict
from aisp.store.results.numbers import DASH, local_time, milliseconds, number, speedup
from aisp.store.results.outcome import of_run, state_words
from aisp.store.results.prediction import PORTABLE
from aisp.store.results.tables import Column, at

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.store.results.reading import Reading


class Listed(NamedTuple):
    """A stored run. `machine`: where it was measured, "" for here; `target`: as it stands, None where it is gone."""

    run: Reading
    machine: str = ""
    target: Target | None = None


def _outcome(one: Listed) -> str:
    """What became of it, and what makes it doubtful."""
    record = one.run.record
    word = SUPERSEDED if record.superseded else of_run(one.run).word
    doubts = ["quarantined"] if one.run.quarantined and word != "quarantined" else []
    doubts += [PORTABLE] if record.policy == PORTABLE else []
    doubts += ["imported"] if one.machine else []
    return f"{word} ({', '.join(doubts)})" if doubts else word


def _best_ms(one: Listed) -> str:
    best = one.run.best
    arm = one.run.arm(best.rung) if best is not None else None
    return milliseconds(arm.median_ms, arm.low_ms, arm.high_ms) if arm is not None else milliseconds(one.run.best_ms)


def _speedup(one: Listed) -> str:
    """The ratio, with its sign where the verdict does not stand in the same row."""
    item = one.run.headline
    if item is None:
        return DASH
    unsaid = Verdict.NONE if of_run(one.run).outcome.compared else item.verdict
    return speedup(item.speedup, item.low, item.high, verdict=unsaid)


def _lead_ms(one: Listed) -> str:
    lead = one.run.lead
    return number(lead.median_ms if lead is not None and one.run.bar(lead.rung) is None else None)


def note(one: Listed) -> str:
    """What must be known of a run: that it was of another case or machine, who was caught, why it failed, why there is
    no verdict."""
    run, record = one.run, one.run.record
    case = run.unusual_case(one.target)
    told = [f"imported from {one.machine}"] if one.machine else []
    told += [f"case {case}"] if case else []
    if caught := run.caught:
        words = {rung: "wrong" if rung in run.mistaken else "caught" for rung in caught}
        told += [f"{rung or 'the run'} {words[rung]}: {why}" for rung, why in caught.items()]
    elif record.state is State.CHANGED:
        told.append(f"{state_words(record.state)}: {record.reason}")
    elif why := record.reason or (run.headline.note if run.headline is not None else ""):
        told.append(why)
    return "; ".join(told)


RUNS: tuple[Column[Listed], ...] = (
    Column("wall", "when it was planned, in UTC", at("run.record.wall"),
           "when", lambda one: local_time(one.run.record.wall), drop=5),
    Column("run_id", "the run", at("run.id"), "run"),
    Column("target", "the target", at("run.record.target"), "target"),
    Column("device", "`cuda` or `cpu`", at("run.record.device"),
           "on", lambda one: f"{one.machine or one.run.record.device} {one.run.record.case}".rstrip(), drop=3),
    Column("case", "the case that was timed", at("run.record.case")),
    Column("quick", "whether it was a quick run", at("run.record.quick"),
           "mode", lambda one: "quick" if one.run.record.quick else "full", drop=2),
    Column("verdict", "what it says of its target", at("run.record.verdict"), "outcome", _outcome),
    Column("status", "how it ended", at("run.record.state")),
    Column("rung", head="best rung", text=lambda one: one.run.best.rung if one.run.best else "", drop=1, shrink=True),
    Column("ms", head="ms [low..high]", text=_best_ms, drop=4),
    Column("speedup", head="speed-up [low..high]", text=_speedup),
    Column("lead_ms", text=_lead_ms),
    Column("base_ms", text=lambda one: number(at("median_ms")(one.run.arm("baseline")))),
    Column("snapshot", "hash of its sources", at("run.record.snapshot"), text=lambda one: one.run.record.snapshot[:8]),
    Column("reason", "why it ended so, or has no verdict", at("run.record.reason"), text=note),
)  # fmt: skip
"""What `aisp history` and the app's history say of a run; `--json` has all of its record beside."""
