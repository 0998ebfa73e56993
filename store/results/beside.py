"""Two kinds of hardware side by side, rung by rung, out of what was kept of their runs.

The rule is that of two stored runs (store.results.comparison) but for the hardware, which is what is compared: both
runs ended well, of the same target, case and driver, their times are valid and were taken in the same way; the ratio's
interval is the widest that both intervals allow, and a verdict needs both noise floors. What a kept document does not
say, hosts and clocks, cannot be asked for; where the host's time is in a figure, the ratio is of the two hosts too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aisp.store.outcomes import State, Validity, Verdict
from aisp.store.results import suite
from aisp.store.results.comparison import Difference, judge
from aisp.store.results.expected import METHOD, Seen, Sighting


@dataclass(frozen=True, slots=True)
class Row:
    """One rung on both.

    Attributes:
        a, b: None where it has no time there.
        speedup: the time on A over the time on B, above one B is faster; None where they are not comparable, and
            `reason` says what differs.
        verdict: NONE where a floor is not known.
    """

    target: str
    case: str
    rung: str
    a: Seen | None
    b: Seen | None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: Verdict = Verdict.NONE
    reason: str = ""

    @property
    def of_host(self) -> bool:
        """Whether the host's time is in it on either."""
        return any(one is not None and one.of_host for one in (self.a, self.b))


def differing(a: Sighting, b: Sighting) -> list[Difference]:
    """In what two runs of a target differ beside the hardware, what refuses a comparison first."""
    found = [
        Difference("case", a.case, b.case, refuses=True),
        Difference("outcome", a.state, b.state, refuses=True),
        Difference("validity", a.validity, b.validity, refuses=True),
        Difference("driver", a.driver or None, b.driver or None, refuses=True),
        Difference("policy", a.policy, b.policy, refuses=False),
    ]
    names = sorted({METHOD, *a.versions, *b.versions})
    one, two = ({METHOD: "1"} | dict(side.versions) for side in (a, b))
    found += [Difference(name, one.get(name), two.get(name), refuses=name == METHOD) for name in names]
    sound = {"outcome": State.OK, "validity": Validity.VALID}
    return [one for one in found if one.a != one.b or one.a != sound.get(one.what, one.a)]


def rows(target: str, a: Sighting, b: Sighting) -> list[Row]:
    """Every rung of either run, in the order of A and then B."""
    refusing = [one for one in differing(a, b) if one.refuses]
    reason = "; ".join(one.sentence for one in refusing)
    names = dict.fromkeys([*a.rungs, *b.rungs])
    return [_row(target, a.case, name, a.rungs.get(name), b.rungs.get(name), reason) for name in names]


def _row(target: str, case: str, rung: str, a: Seen | None, b: Seen | None, reason: str) -> Row:
    if reason:
        return Row(target, case, rung, a, b, reason=reason)
    if a is None or b is None or not a.ms or not b.ms:
        timed = [name for name, one in (("A", a), ("B", b)) if one is not None and one.ms]
        return Row(target, case, rung, a, b, reason=f"timed on {timed[0]} alone" if timed else "not timed")
    if a.timing != b.timing:
        return Row(target, case, rung, a, b, reason=f"timed as {a.timing} and {b.timing}")
    if not a.low_ms or not a.high_ms or not b.low_ms or not b.high_ms:
        return Row(target, case, rung, a, b, reason="a time without an interval")
    low, high = a.low_ms / b.high_ms, a.high_ms / b.low_ms
    floor = None if a.floor is None or b.floor is None else max(a.floor, b.floor)
    verdict = Verdict.NONE if floor is None else judge(low, high, floor)[0]
    return Row(target, case, rung, a, b, a.ms / b.ms, low, high, verdict)


@dataclass(frozen=True, slots=True)
class Counted:
    """A row for the mean, which counts whatever its verdict is."""

    speedup: float | None
    low: float | None
    high: float | None
    verdict: str = Verdict.UNDECIDED
    p_value: None = None


def mean(chosen: Iterable[Row]) -> suite.Score:
    """The geometric mean of these rows' ratios with its interval; those that are not comparable do not count."""
    return suite.score(
        (row.target, Counted(row.speedup, row.low, row.high)) for row in chosen if row.speedup is not None
    )
