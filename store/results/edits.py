"""Edits under watch, and versions of a target: which time of one may be believed, which is the best, and whether two
differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from aisp.store.outcomes import Correctness, State, Validity

if TYPE_CHECKING:
    from aisp.store.record import Arm, Comparison
    from aisp.store.results.reading import Reading


KeyT = TypeVar("KeyT")


def believed(state: str, validity: str, lead: Arm | None, hidden: Collection[str]) -> Arm | None:
    """The arm whose time is an edit's: its run's lead. None where that has no time to be believed: the run did not end
    well, its times are caught or SUSPECT, the outputs are not correct, or its figures may not be shown.

    Args:
        state, validity: of the run, which may go on still.
        lead: see store.results.standing.
        hidden: rungs whose figures may not be shown; "" is all of them.
    """
    if Validity(validity).doubted or (State(state).final and state != State.OK):
        return None
    if lead is None or lead.median_ms is None or lead.correctness != Correctness.CORRECT:
        return None
    return None if {lead.rung, ""} & set(hidden) else lead


def time_of(run: Reading) -> Arm | None:
    """The arm whose time is an edit's, as far as its run has come; see `believed`."""
    return believed(run.record.state, run.record.validity, run.lead, run.hidden)


def against_baseline(run: Reading) -> Comparison | None:
    """The comparison whose ratio may be shown as the edit's: that of the arm whose time is believed, where it has one.

    A run that is wrong, caught, suspect or cut short has none, whatever was measured before that was known.
    """
    arm, item = time_of(run), run.headline
    if arm is None or item is None or item.rung != arm.rung or not item.verdict.known:
        return None
    return item


def best(times: Iterable[tuple[KeyT, Arm | None]]) -> KeyT | None:
    """The one with the shortest time that is believed, the first of equals; None where there is none."""
    known = [(arm.median_ms, key) for key, arm in times if arm is not None and arm.median_ms is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def before_each(times: Iterable[Arm | None]) -> list[Arm | None]:
    """For each, in order, the last one in front of it that is believed: what it is told against; None without one."""
    found: list[Arm | None] = []
    last: Arm | None = None
    for arm in times:
        found.append(last)
        if arm is not None and arm.median_ms is not None:
            last = arm
    return found


@dataclass(frozen=True, slots=True)
class Change:
    """A time against another: the ratio minus one, and whether their intervals are apart, so that it is one."""

    ratio: float
    apart: bool


def change(now: Arm | None, other: Arm | None) -> Change | None:
    """How one time differs from another; None where either is not known. Intervals that are not known overlap."""
    if now is None or other is None or now.median_ms is None or not other.median_ms:
        return None
    known = [end for end in (now.low_ms, now.high_ms, other.low_ms, other.high_ms) if end is not None]
    apart = len(known) == 4 and (known[1] < known[2] or known[3] < known[0])
    return Change(now.median_ms / other.median_ms - 1, apart)
