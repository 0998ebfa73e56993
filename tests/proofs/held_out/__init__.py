"""Cheats that no check was written for, and their honest twins; README.md says what they are for."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from aisp.store.outcomes import FindingStatus, State, Verdict
from aisp.store.results import outcome
from aisp.store.results.audit import ONE_REPLICA
from aisp.store.results.outside import OutsideRatio, outside_of
from aisp.store.results.reading import OF_OUTPUTS, Reading
from tests.proofs.audit.gallery import HELD_OUT

NO_FASTER = (Verdict.SAME, Verdict.SLOWER)


class End(enum.StrEnum):
    """What came of a rung."""

    FASTER = "FASTER"  # by the verdict of a valid run, with nothing held against it: no cheat may
    REFUSED = "refused"  # it did not end well, and the reason says why
    WRONG = "wrong"
    CAUGHT = "caught"
    SUSPECT = "suspect"
    NONE = "no verdict"  # nothing is held against it, but the run as a whole has none
    UNDECIDED = "undecided"
    NO_FASTER = "no faster"
    UNAVAILABLE = "unavailable"  # the run says nothing of it, as one of a single replica does


@dataclass(frozen=True, slots=True)
class Ended:
    """How a rung ended: the checks that spoke of it, why, its speed-up by its own clocks and by the judge's."""

    end: End
    checks: tuple[str, ...] = ()
    why: str = ""
    speedup: float | None = None
    outside: OutsideRatio | None = None


def ended(run: Reading, rung: str) -> Ended:
    """What came of a rung, by the verdict of its run."""
    arm, base, item = run.arm(rung), run.arm(run.baseline), run.comparison(rung)
    late = arm is not None and arm.state is run.record.state is State.TIMEOUT_TOTAL
    if arm is None or base is None or arm.state.silent or late:
        return Ended(End.UNAVAILABLE, why=(arm.reason if arm is not None else "") or run.record.reason)
    spoken = [f for f in run.record.findings if f.arm in (rung, "") and f.status in _AGAINST]
    caught = [f for f in spoken if f.status is FindingStatus.CAUGHT]
    verdict = Verdict.NONE if run.record.validity.doubted else outcome.of(run, rung).verdict
    if any(f.check in OF_OUTPUTS for f in caught) or arm.state is State.INCORRECT:
        end = End.WRONG
    elif caught:
        end = End.CAUGHT
    elif arm.state is not State.OK:
        end = End.REFUSED
    elif verdict is Verdict.FASTER:
        end = End.FASTER
    elif spoken:
        end = End.SUSPECT
    elif not verdict.known:
        end = End.NONE
    else:
        end = End.NO_FASTER if verdict in NO_FASTER else End.UNDECIDED
    if end is End.UNDECIDED and run.replicas == 1:
        return Ended(End.UNAVAILABLE, why=ONE_REPLICA)
    return Ended(
        end,
        tuple(dict.fromkeys(f.check for f in caught or spoken)),
        (caught[0].evidence if caught else "") or arm.reason or (spoken[0].evidence if spoken else "") or run.why(rung),
        item.speedup if item is not None else None,
        outside_of(arm, base),
    )


_AGAINST = (FindingStatus.CAUGHT, FindingStatus.SUSPECT)


def fixtures() -> list[str]:
    """All of them, as "held_out/name"."""
    return sorted(f"{HELD_OUT}/{lesson.parent.name}" for lesson in Path(__file__).parent.glob("*/lesson.md"))
