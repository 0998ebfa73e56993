"""Two stored runs side by side, with a verdict only where one can be had. The one place that says what may be claimed.

Two runs were not measured in the same rounds, nor by the same processes, so the rule is stricter than the engine's
within a run:

* both runs ended well, and their times are valid;
* the same target, case, device, mode and timing method, the same host and hardware, SM clocks within `CLOCK_BAND`, the
  same timing. Two quick runs are compared with a caveat: few processes say little about others;
* the ratio's interval is the widest that both intervals allow, A.low / B.high to A.high / B.low, and it must
  clear the larger of the two runs' noise floors. Where no floor is known there is no verdict. What lies within the
  floor is the same only where the floor is at most EQUIVALENCE;
* the baseline is the control: where its file is the same in both runs, what it differs by is what the two sittings
  differ by, and no rung is faster or slower by less.

Runs that differ otherwise are not comparable, and the one difference to look at first says why (`by_weight`).

Where clocks differ there is no verdict, and the ratio of SM cycles is told too: time times the median clock of the
samples. What does not follow the SM clock, as memory does not, is in it all the same.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aisp.store.outcomes import GRAVEST_FIRST, TWIN_SUFFIX, FindingStatus, State, Validity, Verdict
from aisp.store.text import clean_line

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


def side(run: Reading, environment: Mapping[str, object], driver_mhz: Iterable[float] = ()) -> Side:
    """A run with what it ran on. `driver_mhz`: the driver's readings of the SM clock meanwhile, NaN where unknown."""
    clocks = [arm.sm_clock_mhz for arm in run.record.arms if arm.sm_clock_mhz is not None]
    known = clocks or [mhz for mhz in driver_mhz if math.isfinite(mhz)]
    return Side(run, environment, statistics.median(known) if known else None)


@dataclass(frozen=True, slots=True)
class Difference:
    """Something in which two runs differ or that stands against both; `refuses`: no verdict because of it."""

    what: str
    a: object
    b: object
    refuses: bool

    @property
    def name(self) -> str:
        """What it is called in a sentence: "GPU"."""
        return self.what.upper() if self.what in _HARDWARE.values() else self.what

    @property
    def sentence(self) -> str:
        """ "driver: 580 and 590", "outcome: timeout in both", "SM clock: 1980 MHz and unknown"."""
        a, b = ("unknown" if side in (None, "") else side for side in (self.a, self.b))
        return clean_line(f"{self.name}: {a} in both" if a == b else f"{self.name}: {a} and {b}")


class Cause(enum.StrEnum):
    """What may have changed a time beside the lesson's idea, in the order in which to look at it."""

    METHOD = "timing method"  # of taking times (Reading.method)
    DRIVER = "driver"
    CLOCKS = "clocks"
    VERSIONS = "versions"
    CODE = "lesson code"
    INPUTS = "inputs"
    MACHINE = "machine"


_HARDWARE = {True: "gpu", False: "cpu"}  # the model of what a run is measured on: whether that is a GPU
FIRST = ("target", "device", "case", "outcome", "validity", "hardware")
"""What to look at before all causes: they explain little where another thing was measured, or nothing was."""


def cause(found: Difference) -> Cause | None:
    """What kind of cause a difference is; None for one that is no cause of another time."""
    what = found.what
    if what == Cause.METHOD:
        return Cause.METHOD
    if what == "driver":
        return Cause.DRIVER
    if what in ("SM clock", "clocks"):
        return Cause.CLOCKS
    if what == "cuda" or what.startswith("versions."):
        return Cause.VERSIONS
    if what == "sources" or what.startswith("code of "):
        return Cause.CODE
    if what in ("case", "cache", "turns", "contract", "timing") or what.startswith(("axes.", "tolerance.")):
        return Cause.INPUTS
    if what in ("target", "device", "mode", "outcome", "validity", "policy"):
        return None
    return Cause.MACHINE


def by_weight(found: Iterable[Difference], device: str) -> list[Difference]:
    """What refuses a verdict first, and then what to look at first, in two runs on `device`."""
    order = [*FIRST, *Cause, None]
    model = _HARDWARE[device.startswith("cuda")]

    def weight(one: Difference) -> tuple[bool, int]:
        what = "hardware" if one.what == model else one.what
        return not one.refuses, order.index(what if what in FIRST else cause(one))

    return sorted(found, key=weight)


@dataclass(frozen=True, slots=True)
class Pair:
    """One rung in both runs, None where it had no part.

    Attributes:
        rungs: its name in A and in B, which differ where two targets' leads are compared.
        floor: what the ratio must clear, as a ratio - 1; None where it is not known.
        speedup: the time in A over the time in B: above one, B is faster.
        cycles: the same ratio in SM cycles, where the clocks of the two differ; else None.
    """

    rungs: tuple[str, str]
    a: Arm | None
    b: Arm | None
    floor: float | None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    cycles: float | None = None
    cycles_low: float | None = None
    cycles_high: float | None = None
    verdict: Verdict = Verdict.NONE
    note: str = ""

    @property
    def rung(self) -> str:
        """What it is called: "optimized", or "optimized / cheat"."""
        return " / ".join(dict.fromkeys(self.rungs))

    def claims(self) -> dict[str, float | None]:
        """Its ratios for a document, where no "?" can stand before a figure: all None where the runs are not
        comparable."""
        names = ("speedup", "low", "high", "cycles", "cycles_low", "cycles_high")
        return {name: getattr(self, name) if self.verdict.known else None for name in names}


@dataclass(frozen=True, slots=True)
class Turn:
    """A check that came to something else in B; None where it said nothing of that arm, which is "" for the whole run.
    `evidence` is of the graver of the two."""

    check: str
    arm: str
    a: FindingStatus | None
    b: FindingStatus | None
    evidence: str


@dataclass(frozen=True, slots=True)
class Compared:
    """Two runs side by side: in what they differ, their rungs, and the checks that came out otherwise."""

    a: Side
    b: Side
    differences: list[Difference]
    pairs: list[Pair]
    turns: list[Turn]

    @property
    def refused(self) -> bool:
        """Whether there is no verdict because of something in which they differ."""
        return any(difference.refuses for difference in self.differences)

    @property
    def unasked(self) -> str:
        """In which of the two no check has said anything, so that none can have changed: "A", "B", "either" or ""."""
        silent = [name for name, one in (("A", self.a), ("B", self.b)) if not one.run.record.findings]
        return "either" if len(silent) == 2 else "".join(silent)

    @property
    def conclusion(self) -> str:
        """What must be known before the figures are relied on; "" for nothing."""
        if self.refused:
            first, *others = (difference for difference in self.differences if difference.refuses)
            more = f", and {len(others)} more difference{'s' if len(others) > 1 else ''}" if others else ""
            return f"not comparable: {first.sentence}{more}"
        if self.a.run.record.quick and self.b.run.record.quick:
            told = "both runs were quick: few processes each show little of how processes differ"
            return f"{told}; compare two full runs before you rely on it"
        return ""


# Words in the keys of an environment that say on which machine, and how it was set up.
_MACHINE = ("host", "gpu", "cpu", "cores", "driver", "variables")


def compare(a: Side, b: Side) -> Compared:
    """Put two runs side by side."""
    differences = differing(a, b)
    refused = any(difference.refuses for difference in differences)
    return Compared(a, b, differences, _pairs(a.run, b.run, refused=refused), _turns(a.run, b.run))


def differing(a: Side, b: Side) -> list[Difference]:
    """What differs between two runs, what refuses a verdict first, and then what to look at first."""
    one, two = a.run.record, b.run.record
    found: list[Difference] = []

    def add(what: str, left: object, right: object, *, refuses: bool = True, against_both: bool = False) -> None:
        if left != right or against_both:
            found.append(Difference(what, left, right, refuses))

    for name in ("target", "device", "case"):
        add(name, getattr(one, name), getattr(two, name))
    add("mode", *("quick" if run.quick else "full run" for run in (one, two)))
    add(Cause.METHOD, a.run.method, b.run.method)
    if one.quick and two.quick:
        add("replicas", a.run.replicas, b.run.replicas, refuses=False)
    add("outcome", one.state, two.state, against_both=any(run.state is not State.OK for run in (one, two)))
    if any(run.state is State.OK and run.validity is not Validity.VALID for run in (one, two)):
        add("validity", one.validity, two.validity, against_both=True)
    add("policy", one.policy, two.policy, refuses=False)
    add("sources", one.snapshot[:8], two.snapshot[:8], refuses=False)
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
    return by_weight(found, two.device)


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


def _pairs(a: Reading, b: Reading, *, refused: bool) -> list[Pair]:
    """The rungs of both runs side by side, in A's order and then B's; of two targets their leads first, whatever they
    are called."""
    floor, ratio = floor_of(a, b), control(a, b)
    shift = None if ratio is None else max(ratio, 1 / ratio) - 1  # by how much the baseline differs
    if floor is not None and shift is not None:
        floor = max(floor, shift)
    names = [(rung, rung) for rung in dict.fromkeys([*a.rungs, *b.rungs]) if not rung.endswith(TWIN_SUFFIX)]
    leads = (a.lead.rung if a.lead is not None else "", b.lead.rung if b.lead is not None else "")
    if a.record.target != b.record.target and "" not in leads and leads not in names:
        names.insert(0, leads)
    return [_pair(a, b, pair, floor, shift, refused=refused) for pair in names]


def floor_of(a: Reading, b: Reading) -> float | None:
    """What a ratio of two runs must clear, as a ratio - 1: the greater of their floors; None where one has none."""
    floors = [max((c.floor for c in run.comparisons if c.floor is not None), default=None) for run in (a, b)]
    known = [floor for floor in floors if floor is not None]
    return max(known) if len(known) == 2 else None


def control(a: Reading, b: Reading) -> float | None:
    """The baseline's time in A over that in B, where its file is the same in both and may be shown; else None."""
    one, two = (run.arm(run.baseline) for run in (a, b))
    if one is None or two is None or not one.sources or one.sources != two.sources or a.baseline != b.baseline:
        return None
    if not one.median_ms or not two.median_ms or a.bar(one.rung) is not None or b.bar(two.rung) is not None:
        return None
    return one.median_ms / two.median_ms


def _pair(
    a: Reading, b: Reading, rungs: tuple[str, str], floor: float | None, shift: float | None, *, refused: bool
) -> Pair:
    left, right = a.arm(rungs[0]), b.arm(rungs[1])
    marks = [(side, run.bar(rung)) for side, run, rung in (("A", a, rungs[0]), ("B", b, rungs[1]))]
    marked = [(side, mark) for side, mark in marks if mark is not None]
    if marked:
        note = "; ".join(f"{mark.word} in {side} by {mark.check}: {mark.evidence}" for side, mark in marked)
        return Pair(rungs, left, right, floor, note=note)
    if left is None or right is None or not left.median_ms or not right.median_ms:
        return Pair(rungs, left, right, floor, note="not timed in both")
    if left.timing != right.timing:
        note = f"timed as {left.timing} and {right.timing}, which cannot be compared"
        return Pair(rungs, left, right, floor, note=note)
    low = left.low_ms / right.high_ms if left.low_ms and right.high_ms else None
    high = left.high_ms / right.low_ms if left.high_ms and right.low_ms else None
    verdict, note = (Verdict.NONE, "") if refused else judge(low, high, floor)
    if shift is not None and floor == shift and verdict is Verdict.UNDECIDED:
        note = f"the baseline, the same code in both, differs by {shift:.1%}: so do the two sittings"
    pair = Pair(rungs, left, right, floor, left.median_ms / right.median_ms, low, high, verdict=verdict, note=note)
    return _with_cycles(pair, left, right)


def _with_cycles(pair: Pair, left: Arm, right: Arm) -> Pair:
    one, two = left.sm_clock_mhz, right.sm_clock_mhz
    if pair.speedup is None or not one or not two or not clocks_differ(one, two):
        return pair
    share = one / two
    low, high = (None if bound is None else bound * share for bound in (pair.low, pair.high))
    note = f"clocks differ: {one:.0f} and {two:.0f} MHz"
    return replace(pair, cycles=pair.speedup * share, cycles_low=low, cycles_high=high, note=pair.note or note)


def _turns(a: Reading, b: Reading) -> list[Turn]:
    """Checks that came to something else, the gravest first. One that says nothing of an arm in one of the runs has
    changed only where it found something in the other."""
    said = [{(f.check, f.arm): f for f in run.record.findings} for run in (a, b)]
    told = (FindingStatus.CAUGHT, FindingStatus.SUSPECT)
    harmless = {FindingStatus.PASSED, FindingStatus.NOT_APPLICABLE}  # from one to the other nothing is found or lost
    found: list[tuple[int, Turn]] = []
    for check, arm in dict.fromkeys([*said[0], *said[1]]):
        one, two = (side.get((check, arm)) for side in said)
        statuses = [finding.status for finding in (one, two) if finding is not None]
        grave = min(statuses, key=GRAVEST_FIRST.index)
        changed = len(set(statuses)) == 2 and not harmless.issuperset(statuses)
        if changed or (len(statuses) == 1 and grave in told):
            graver = next(finding for finding in (two, one) if finding is not None and finding.status is grave)
            was, now = (None if finding is None else finding.status for finding in (one, two))
            turn = Turn(check, arm, was, now, graver.evidence)
            found.append((GRAVEST_FIRST.index(grave), turn))
    return [turn for _, turn in sorted(found, key=lambda item: item[0])]


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
    return Verdict.UNDECIDED, "the interval does not clear the noise floor; run both again, side by side in one run"
