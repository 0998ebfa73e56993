"""What a run of a target came to, in the one shape that the screens draw, whether it was live or stored.

Plain values, no Textual: `Result.of(run)` takes a `store.records.RunRecord` or a `tui.model.RunView`.
Unknown is None and is drawn as a dash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from aisp.engine.clean import clean_line
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import Correctness, FindingStatus, State, Timing, Verdict
from aisp.store.results import standing
from aisp.tui import plain

CHEAT = "cheat"

# A word for a state in a narrow column.
STATE_WORDS: Mapping[State, str] = {
    State.PLANNED: "waiting",
    State.STARTING: "starting",
    State.RUNNING: "running",
    State.OK: "ok",
    State.INCORRECT: "wrong",
    State.USER_ERROR: "error",
    State.UNAVAILABLE: "n/a",
    State.CRASHED: "crashed",
    State.PREMATURE_EXIT: "died",
    State.OOM_KILLED: "no memory",
    State.CUDA_POISONED: "CUDA error",
    State.TIMEOUT_PROGRESS: "stuck",
    State.TIMEOUT_TOTAL: "timed out",
    State.OUTPUT_LIMIT: "flood",
    State.CANCELLED: "cancelled",
    State.ENGINE_LOST: "lost",
    State.INFRA_ERROR: "failed",
    State.CHANGED: "changed",
}


def state_words(state: State) -> str:
    """The state where a line has room for it."""
    return state.value if state is State.CHANGED else STATE_WORDS[state]


MISTAKE = "output.values"
"""The check that is failed by plain wrong values: a mistake, as far as a screen can tell, and called "wrong" there.
What any other check caught is "caught"."""


# When something about an arm's samples is worth a sentence.
TOLD_DRIFT = 0.01
TOLD_AUTOCORRELATION = 0.5
TOLD_RESOLUTION = 0.01
CLOCK_BAND = 0.02
"""How far two arms' median SM clocks may differ, as a share of the higher one, and count as the same."""


class QualityFacts(Protocol):
    """What `store.records.Quality` and `engine.protocol.events.ArmQuality` have in common."""

    @property
    def drift(self) -> float | None: ...
    @property
    def autocorrelation(self) -> float | None: ...
    @property
    def low_mode_ms(self) -> float | None: ...
    @property
    def high_mode_ms(self) -> float | None: ...
    @property
    def high_share(self) -> float | None: ...
    @property
    def throttled_share(self) -> float | None: ...
    @property
    def resolution_ms(self) -> float | None: ...
    @property
    def overhead_ms(self) -> float | None: ...


def timing_words(timing: str, calls: int | None = None) -> str:
    """How a sample was taken: "cold", "cold graph x16" where it holds 16 calls; a dash where nothing was timed."""
    if timing == Timing.NONE:
        return plain.DASH
    return f"{timing} x{calls}" if calls is not None and calls > 1 else str(timing)


def quality_notes(quality: QualityFacts | None, median_ms: float | None = None, calls: int | None = None) -> list[str]:
    """What a person should know of an arm's samples, in words; empty where there is nothing to tell.

    Args:
        quality: of the arm.
        median_ms: its time per call, against which the clock's step is held.
        calls: how many calls one sample holds: the step is divided among them.
    """
    if quality is None:
        return []
    notes = []
    if quality.drift is not None and abs(quality.drift) > TOLD_DRIFT:
        way = "rise" if quality.drift > 0 else "fall"
        notes.append(f"times {way} by {plain.percent(abs(quality.drift), 1)} within a replica")
    if quality.low_mode_ms is not None and quality.high_mode_ms is not None:
        modes = f"two modes, {plain.number(quality.low_mode_ms)} and {plain.number(quality.high_mode_ms)} ms"
        if quality.high_share is not None:
            modes += f" ({plain.percent(quality.high_share)} in the slower)"
        notes.append(modes)
    if quality.autocorrelation is not None and abs(quality.autocorrelation) > TOLD_AUTOCORRELATION:
        notes.append(f"successive samples hang together (autocorrelation {quality.autocorrelation:.2f})")
    if quality.throttled_share:
        share = plain.percent(quality.throttled_share, 1 if quality.throttled_share < 0.1 else 0)
        notes.append(f"{share} of the samples set aside: clock below 75 % of the reference")
    if quality.resolution_ms is not None and median_ms:
        step = quality.resolution_ms / (median_ms * max(1, calls or 1))
        if step > TOLD_RESOLUTION:
            notes.append(
                f"the clock's step of {plain.quantity(quality.resolution_ms / 1e3, 's')} is "
                f"{plain.percent(step, 1)} of a sample"
            )
    return notes


def clocks_differ(first_mhz: float | None, second_mhz: float | None) -> bool:
    """Whether two known clocks are further apart than `CLOCK_BAND`."""
    if not first_mhz or not second_mhz:
        return False
    return abs(first_mhz - second_mhz) > CLOCK_BAND * max(first_mhz, second_mhz)


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One rung's part; times in ms, `sol` is the share of the speed of light, 0..1, `peak_bytes` what a call held."""

    rung: str
    state: State
    correctness: Correctness
    median_ms: float | None
    low_ms: float | None
    high_ms: float | None
    sol: float | None
    reason: str
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """`rung` against `baseline`."""

    rung: str
    baseline: str
    verdict: Verdict
    speedup: float | None
    low: float | None
    high: float | None
    note: str


@dataclass(frozen=True, slots=True)
class Result:
    """A run's outcome.

    Attributes:
        marked: rungs whose figures are no result: caught by a check, or in quarantine.
        mistaken: of those, the rungs that were caught in this run with plain wrong values and nothing else.
    """

    run_id: str
    target: str
    state: State
    verdict: Verdict
    validity: str
    quick: bool
    device: str
    case: str
    wall: str
    snapshot: str
    reason: str
    arms: tuple[ArmResult, ...]
    comparisons: tuple[ComparisonResult, ...]
    marked: frozenset[str] = frozenset()
    mistaken: frozenset[str] = frozenset()

    @classmethod
    def of(cls, run: Any) -> Result:
        """From a RunRecord or a RunView."""
        marked = _marked(run)
        return cls(
            run_id=run.id,
            target=run.target,
            state=State(run.state),
            verdict=Verdict(run.verdict),
            validity=str(run.validity),
            quick=bool(run.quick),
            device=run.device,
            case=run.case,
            wall=run.wall,
            snapshot=run.snapshot,
            reason=run.reason,
            arms=tuple(
                ArmResult(
                    arm.rung,
                    State(arm.state),
                    Correctness(arm.correctness),
                    arm.median_ms,
                    arm.low_ms,
                    arm.high_ms,
                    arm.sol,
                    arm.reason,
                    arm.peak_bytes,
                )
                for arm in _values(run.arms)
            ),
            comparisons=tuple(_comparison(item, marked) for item in _values(run.comparisons)),
            marked=marked,
            mistaken=mistaken(run),
        )

    def unusual_case(self, target: Target | None) -> str:
        """The run's case where that is not the one that its target is usually timed on, which predictions and a suite
        are about; else "", and where nothing is known of the target."""
        if target is None or self.case == target.usual_case(self.device).name:
            return ""
        return clean_line(self.case)

    def arm(self, rung: str) -> ArmResult | None:
        """The rung's part, None where it had none."""
        return next((arm for arm in self.arms if arm.rung == rung), None)

    @property
    def lead(self) -> ArmResult | None:
        """The arm that the run is about."""
        return standing.lead(self.arms, self.comparisons, self.marked)

    def comparison(self, rung: str) -> ComparisonResult | None:
        """The rung's comparison with the first baseline, else with another one."""
        return standing.against(rung, self.arms, self.comparisons)

    @property
    def headline(self) -> ComparisonResult | None:
        """The comparison that the run is told by."""
        return standing.headline(self.arms, self.comparisons, self.marked)

    @property
    def speedup(self) -> float | None:
        """The headline's speed-up."""
        return self.headline.speedup if self.headline is not None else None

    @property
    def sol(self) -> float | None:
        """The lead arm's share of the speed of light."""
        return self.lead.sol if self.lead is not None else None


def mistaken(run: Any) -> frozenset[str]:
    """Rungs of a run that ended with wrong values and that no other check caught. A cheat's are never a mistake."""
    checks: dict[str, set[str]] = {}
    for found in getattr(run, "findings", None) or ():
        if found.status == FindingStatus.CAUGHT:
            checks.setdefault(found.arm, set()).add(found.check)
    return frozenset(
        arm.rung
        for arm in _values(run.arms if "" not in checks else ())
        if arm.state == State.INCORRECT and checks.get(arm.rung) == {MISTAKE} and not arm.rung.startswith(CHEAT)
    )


def _marked(run: Any) -> frozenset[str]:
    """Rungs that a check caught in this run, all of them where it caught the run, and those that are in quarantine."""
    caught = standing.caught(getattr(run, "findings", None) or ())
    rungs = {arm.rung for arm in _values(run.arms)} if "" in caught else caught
    return frozenset(name.removesuffix(standing.TWIN_SUFFIX) for name in [*rungs, *getattr(run, "quarantined", ())])


def _comparison(item: Any, marked: frozenset[str]) -> ComparisonResult:
    """A comparison, without figures where one of its rungs is marked."""
    if {name.removesuffix(standing.TWIN_SUFFIX) for name in (item.rung, item.baseline)} & marked:
        return ComparisonResult(item.rung, item.baseline, Verdict.NONE, None, None, None, item.note)
    return ComparisonResult(
        item.rung, item.baseline, Verdict(item.verdict), item.speedup, item.low, item.high, item.note
    )


def _values(found: Any) -> Iterable[Any]:
    return found.values() if isinstance(found, Mapping) else found
