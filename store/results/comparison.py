"""Two stored runs side by side, with a verdict only where one can be had.

Two runs were not measured in the same rounds, so the rule is stricter than the engine's within a run:

* both runs ended well, and their times are valid;
* the same target, case, device and mode, the same host and hardware, SM clocks within `CLOCK_BAND`, the same timing.
  Two quick runs are compared with a caveat: few processes say little about others;
* the ratio's interval is the widest that both intervals allow, A.low / B.high to A.high / B.low, and it must
  clear the larger of the two runs' noise floors. Where no floor is known there is no verdict. What lies within the
  floor is the same only where the floor is at most EQUIVALENCE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisp.store.outcomes import TWIN_SUFFIX, State, Validity, Verdict

if TYPE_CHECKING:
    from aisp.store.record import Arm
    from aisp.store.results.reading import Reading

CLOCK_BAND = 0.02
"""How far two arms' median SM clocks may differ, as a share of the higher one, and count as the same."""
EQUIVALENCE = 0.02
"""How far from 1 a ratio may lie and count as the same; behind more noise than that anything would be the same."""


def clocks_differ(first_mhz: float | None, second_mhz: float | None) -> bool:
    """Whether two known clocks are further apart than `CLOCK_BAND`."""
    if not first_mhz or not second_mhz:
        return False
    return abs(first_mhz - second_mhz) > CLOCK_BAND * max(first_mhz, second_mhz)


@dataclass(frozen=True, slots=True)
class Side:
    """A stored run with what it ran on. `sm_clock_mhz` is the median over its arms, of the clocks during their samples;
    else the driver's readings while it ran; None where neither was had."""

    run: Reading
    environment: Mapping[str, object]
    sm_clock_mhz: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Something in which two runs differ or that stands against both; `refuses`: no verdict because of it."""

    what: str
    a: object
    b: object
    refuses: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """One rung in both runs, None where it had no part. `speedup` is the time in A over the time in B: above one, B is
    faster."""

    rung: str
    a: Arm | None
    b: Arm | None
    floor: float | None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: Verdict = Verdict.NONE
    note: str = ""


# Words in the keys of an environment that say on which machine, and how it was set up.
_MACHINE = ("host", "gpu", "cpu", "cores", "driver", "variables")


def differing(a: Side, b: Side) -> list[Difference]:
    """What differs between two runs, what refuses a verdict first."""
    one, two = a.run.record, b.run.record
    found: list[Difference] = []

    def add(what: str, left: object, right: object, *, refuses: bool = True, against_both: bool = False) -> None:
        if left != right or against_both:
            found.append(Difference(what, left, right, refuses))

    for name in ("target", "device", "case"):
        add(name, getattr(one, name), getattr(two, name))
    add("mode", a.run.mode, b.run.mode)
    add("outcome", one.state, two.state, against_both=any(run.state is not State.OK for run in (one, two)))
    if any(run.state is State.OK and run.validity is not Validity.VALID for run in (one, two)):
        add("validity", one.validity, two.validity, against_both=True)
    add("policy", one.policy, two.policy, refuses=False)
    flags = [", ".join(sorted(flag for flag in run.flags if flag.startswith("clocks="))) for run in (one, two)]
    add("clocks", flags[0], flags[1])
    if one.device.startswith("cuda") and two.device.startswith("cuda"):
        clocks = a.sm_clock_mhz, b.sm_clock_mhz
        if None in clocks or clocks_differ(*clocks):
            texts = [None if mhz is None else f"{mhz:.0f} MHz" for mhz in clocks]
            add("SM clock", texts[0], texts[1], against_both=True)
    left, right = flat(a.environment), flat(b.environment)
    if not left or not right:
        words = ["known" if side else "unknown" for side in (left, right)]
        add("machine", words[0], words[1], against_both=True)
    else:
        for key in sorted({*left, *right}):
            add(key, left.get(key), right.get(key), refuses=any(word in key.lower() for word in _MACHINE))
    return sorted(found, key=lambda difference: not difference.refuses)


def flat(value: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """A nested mapping with dotted keys; lists are numbered."""
    found: dict[str, object] = {}
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping):
            found |= flat(item, f"{name}.")
        elif isinstance(item, (list, tuple)):
            found |= flat({str(i): part for i, part in enumerate(item)}, f"{name}.")
        else:
            found[name] = item
    return found


def compare(a: Reading, b: Reading, *, refused: bool) -> list[Pair]:
    """The rungs of both runs side by side, in A's order and then B's."""
    floors = [max((c.floor for c in run.comparisons if c.floor is not None), default=None) for run in (a, b)]
    known = [floor for floor in floors if floor is not None]
    floor = max(known) if len(known) == 2 else None
    rungs = dict.fromkeys([*a.rungs, *b.rungs])
    return [_pair(a, b, rung, floor, refused=refused) for rung in rungs if not rung.endswith(TWIN_SUFFIX)]


def _pair(a: Reading, b: Reading, rung: str, floor: float | None, *, refused: bool) -> Pair:
    left, right = a.arm(rung), b.arm(rung)
    marked = [(name, mark) for name, run in (("A", a), ("B", b)) if (mark := run.bar(rung)) is not None]
    if marked:
        note = "; ".join(f"{mark.word} in {name} by {mark.check}: {mark.evidence}" for name, mark in marked)
        return Pair(rung, left, right, floor, note=note)
    if left is None or right is None or not left.median_ms or not right.median_ms:
        return Pair(rung, left, right, floor, note="not timed in both")
    if left.timing != right.timing:
        note = f"timed as {left.timing} and {right.timing}, which cannot be compared"
        return Pair(rung, left, right, floor, note=note)
    low = left.low_ms / right.high_ms if left.low_ms and right.high_ms else None
    high = left.high_ms / right.low_ms if left.high_ms and right.low_ms else None
    verdict, note = (Verdict.NONE, "") if refused else judge(low, high, floor)
    return Pair(rung, left, right, floor, left.median_ms / right.median_ms, low, high, verdict, note)


def judge(low: float | None, high: float | None, floor: float | None) -> tuple[Verdict, str]:
    """The verdict for a ratio's interval, and why it is undecided where it is."""
    if low is None or high is None:
        return Verdict.UNDECIDED, "a time without an interval"
    if floor is None:
        return Verdict.UNDECIDED, "the noise floor of one of the runs is not known"
    if low > 1 + floor:
        return Verdict.FASTER, ""
    if high < 1 / (1 + floor):
        return Verdict.SLOWER, ""
    if floor <= EQUIVALENCE and low >= 1 / (1 + floor) and high <= 1 + floor:
        return Verdict.SAME, ""
    return (
        Verdict.UNDECIDED,
        "the interval does not clear the noise floor; run both again, side by side in one run",
    )
