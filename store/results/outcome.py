"""What became of a rung in a run: one rule, and the words for it. What each face, format and export calls it is a table
over `Ended`; none of them looks at states, verdicts and findings by itself.

A run that a person cancelled is cancelled, whatever a check saw before: the finding is listed, and decides nothing.
`of` depends on the rung, on the baseline and on the run as a whole, and on no other rung. `of_run` is what the run says
of its target: its lead's outcome, and nothing better than the run as a whole allows.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from aisp.store.outcomes import TWIN_SUFFIX, Correctness, Fault, FindingStatus, State, Verdict

if TYPE_CHECKING:  # a list of targets has its words from here, and answers before msgspec is imported
    from aisp.store.record import Arm, Comparison, Finding
    from aisp.store.results.reading import Bar, Reading


class Outcome(enum.StrEnum):
    """What a run says of a rung, in one word. The first four are verdicts, and the only ones with a speed-up."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNDECIDED = "undecided"
    RIGHT = "right"  # right, and there is nothing to compare
    WRONG = "wrong"
    CAUGHT = "caught"  # a check found that its time is none
    SUSPECT = "suspect"  # a time that is not to be believed
    FAILED = "failed"  # it raised, crashed, hung or flooded
    UNAVAILABLE = "unavailable"  # nothing is said of it: through no fault of its own
    PENDING = "pending"

    @property
    def compared(self) -> bool:
        """Whether it is a verdict."""
        return self in COMPARED

    @property
    def right(self) -> bool:
        """Whether its outputs are right and no check caught it."""
        return self.believed or self is Outcome.SUSPECT

    @property
    def believed(self) -> bool:
        """Whether its outputs are right, and its time may be shown where it has one."""
        return self.compared or self is Outcome.RIGHT

    @property
    def bad(self) -> bool:
        """Whether the target is at fault, or its times are not to be believed."""
        return self in (Outcome.SUSPECT, Outcome.WRONG, Outcome.CAUGHT, Outcome.FAILED)

    @property
    def settled(self) -> bool:
        """Whether measuring the same once more is of no use."""
        return self not in (Outcome.PENDING, Outcome.SUSPECT, Outcome.UNAVAILABLE)


COMPARED = (Outcome.FASTER, Outcome.SLOWER, Outcome.SAME, Outcome.UNDECIDED)


class Stage(enum.StrEnum):
    """Which part of a run decided, or how far a candidate came in it."""

    QUEUE = "queue"
    RUNNING = "running"
    PARSE = "parse"
    CODE = "code"  # it does not parse, import, compile or run
    LOAD = "load"  # it was imported, compiled, prepared, called once
    PROCESS = "process"  # its process came to another end than its own
    VALUES = "values"  # outputs, also for held-out inputs
    CHECKS = "checks"
    TIME = "time"
    QUICK = "quick time"  # of a quick run
    FULL = "full time"
    MACHINE = "machine"


class End(NamedTuple):
    """A state in words: for a narrow column, in a sentence about "it", and what to do about it."""

    word: str
    stage: Stage
    words: str = ""
    fix: str = ""


class Sentences(NamedTuple):
    """One sentence of what became of "it", and the next move."""

    words: str
    fix: str = ""


_BOUNDS = "look for accesses out of bounds"
_AGAIN = "evaluate it again"
_PUT_RIGHT = "what is quoted says why: choose another target, or have a person put {} right"
ENDS: Mapping[State, End] = {
    State.PLANNED: End("waiting", Stage.QUEUE, "it waits in the queue"),
    State.STARTING: End("starting", Stage.RUNNING, "its processes are being made ready"),
    State.RUNNING: End("running", Stage.RUNNING, "it is being measured"),
    State.OK: End("ok", Stage.TIME),
    State.INCORRECT: End("wrong", Stage.VALUES, "its outputs differ from the fp64 reference's"),
    State.USER_ERROR: End(
        "error",
        Stage.CODE,
        "its code raised an error, or does not compile",
        "repair the error that is quoted; then submit again",
    ),
    State.UNAVAILABLE: End(
        "not here", Stage.MACHINE, "it could not be run on this machine as it is", _PUT_RIGHT.format("the machine")
    ),
    State.CRASHED: End(
        "crashed",
        Stage.PROCESS,
        "its process died by a signal",
        f"{_BOUNDS}: index arithmetic, masks, sizes that do not divide",
    ),
    State.PREMATURE_EXIT: End(
        "died",
        Stage.PROCESS,
        "its process left before it was done",
        "take out whatever ends the process; run(...) returns",
    ),
    State.OOM_KILLED: End(
        "no memory", Stage.PROCESS, "its process needed more memory than there is", "hold less memory at once"
    ),
    State.CUDA_POISONED: End(
        "CUDA error",
        Stage.PROCESS,
        "it left the GPU's context broken",
        f"{_BOUNDS} in the kernel: masks, strides, sizes that do not divide",
    ),
    State.TIMEOUT_PROGRESS: End(
        "stuck", Stage.PROCESS, "it made no progress and was ended", "look for a loop or a barrier that does not end"
    ),
    State.TIMEOUT_TOTAL: End(
        "timed out",
        Stage.PROCESS,
        "it took longer than a run may and was ended",
        "look for a loop that does not end, or compile fewer variants",
    ),
    State.OUTPUT_LIMIT: End(
        "flood", Stage.PROCESS, "it printed more than a run may and was ended", "take out what prints"
    ),
    State.CANCELLED: End("cancelled", Stage.MACHINE, "it was cancelled", _AGAIN),
    State.ENGINE_LOST: End("lost", Stage.MACHINE, "the engine went away meanwhile", _AGAIN),
    State.INFRA_ERROR: End(
        "failed",
        Stage.MACHINE,
        "the machine or aisp itself failed, not the candidate",
        f"{_AGAIN}; where it stays so, host() says what is not right",
    ),
    State.CHANGED: End("changed", Stage.MACHINE, "the stored run is not what was written", _AGAIN),
}
"""The one table of words for states."""
STATE_WORDS: Mapping[State, str] = {state: end.word for state, end in ENDS.items()}
SENTENCES: Mapping[Outcome, Sentences] = {
    Outcome.PENDING: Sentences("", "call result(run) again"),
    Outcome.WRONG: Sentences(
        ENDS[State.INCORRECT].words,
        "make it right before it is fast: sizes that do not divide, masks, the type that sums are kept in",
    ),
    Outcome.CAUGHT: Sentences(
        "{} by the check {}: no figure of it is a result",
        "take out what the check saw: such a time is no result, and the rung stays marked until its code changes",
    ),
    Outcome.SUSPECT: Sentences(
        "it is right, and its times are not to be believed",
        "evaluate it again when nothing else runs; where it stays so, explain(run) says which check doubts it",
    ),
    Outcome.RIGHT: Sentences(
        "it is right, and nothing was timed against the baseline",
        "its values are right; times are known only where it can be timed (host() says what is here)",
    ),
    Outcome.FASTER: Sentences("it is right, and faster than the baseline by more than the noise"),
    Outcome.SLOWER: Sentences("it is right, and slower than the baseline by more than the noise"),
    Outcome.SAME: Sentences("it is right, and as fast as the baseline"),
    Outcome.UNDECIDED: Sentences("it is right, and whether it is faster could not be told"),
}
"""By outcome; of what failed, and of what is not available, the state says both."""
_STAGES: Mapping[Outcome, Stage] = {
    **dict.fromkeys(COMPARED, Stage.TIME),
    Outcome.RIGHT: Stage.VALUES,
    Outcome.WRONG: Stage.VALUES,
    Outcome.CAUGHT: Stage.CHECKS,
    Outcome.SUSPECT: Stage.CHECKS,
}


def state_words(state: State) -> str:
    """The state where a line has room for it."""
    return state.value if state.fault is Fault.RECORD else STATE_WORDS[state]


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a rung.

    Attributes:
        by: the rung whose doing it is: the rung itself, or the baseline; "" for the run as a whole.
        state: the end that decided; OK for a rung that was caught in a run that was cut short.
        code: the check that caught or doubts it, else the state or the verdict.
        bar: what is held against it, or against the baseline.
        cheated: a check other than those of its outputs caught it, whatever else became of it.
        item: the comparison that the verdict is of; None without one.
        doubts: what is suspect of it, of the baseline, or of the run as a whole.
    """

    rung: str
    outcome: Outcome
    by: str
    state: State
    code: str
    bar: Bar | None = None
    cheated: bool = False
    item: Comparison | None = None
    doubts: tuple[Finding, ...] = ()

    @property
    def own(self) -> bool:
        """Whether it is the rung's own doing, or nobody's."""
        return self.by == self.rung

    @property
    def silent(self) -> bool:
        """Whether nothing is said of the rung."""
        return self.outcome in (Outcome.UNAVAILABLE, Outcome.PENDING)

    @property
    def again(self) -> bool:
        """Whether the next attempt may say what this one does not."""
        return self.outcome is Outcome.UNAVAILABLE and self.fault is not Fault.MACHINE

    @property
    def faster(self) -> bool:
        """Whether it may be called so."""
        return self.outcome is Outcome.FASTER

    @property
    def verdict(self) -> Verdict:
        """Against the baseline; NONE where there is none to be shown."""
        return Verdict(self.outcome.value) if self.outcome.compared else Verdict.NONE

    @property
    def fault(self) -> Fault:
        """Whose doing it is."""
        return Fault.TARGET if self.outcome in (Outcome.WRONG, Outcome.CAUGHT) else self.state.fault

    @property
    def stage(self) -> Stage:
        """Which part of the run decided."""
        return _STAGES.get(self.outcome, ENDS[self.state].stage)

    @property
    def word(self) -> str:
        """What became of it, for a column: "faster", "right", "quarantined", "timed out"."""
        if self.bar is not None and not self.outcome.right and (self.outcome is Outcome.CAUGHT or self.bar.mistake):
            return self.bar.short
        of_state = self.by in (self.rung, "") and self.outcome not in _STAGES
        return state_words(self.state) if of_state else self.outcome.value

    @property
    def words(self) -> str:
        """One sentence of what became of "it"."""
        who = "it was" if self.by in (self.rung, "") else "the baseline was"
        why = "did not end well" if self.bar is None or self.bar.mistake else f"was {self.bar.word} by {self.bar.check}"
        if who != "it was" and self.outcome is not Outcome.CAUGHT:
            right = "is right, and cannot be compared" if self.outcome.right else "was not judged"
            return f"it {right}: the baseline {why}"
        told = SENTENCES[self.outcome].words if self.outcome in _STAGES else ENDS[self.state].words
        return told.format(f"{who} {self.bar.word}" if self.bar is not None else who, self.code)

    @property
    def fix(self) -> str:
        """The next move; "" where that depends on more than the outcome."""
        if self.by not in (self.rung, ""):
            return _PUT_RIGHT.format("the baseline")
        return SENTENCES[self.outcome].fix if self.outcome in SENTENCES else ENDS[self.state].fix


def of(run: Reading, rung: str) -> Ended:
    """What a run says of one rung."""
    record, name, base = run.record, rung.removesuffix(TWIN_SUFFIX), run.baseline
    arm, bar, first = run.arm(rung), run.bar(rung), run.arm(base) if name != base else None
    state, own = (arm.state, rung) if arm is not None and arm.state.final else (record.state, "")
    base_failed = first is not None and first.state.fault is Fault.TARGET
    cheated = bar is not None and not bar.mistake and not run.wrong_outputs(name)
    if not record.state.final or record.state.void:
        return _of_state(rung, record.state, "")
    if arm is not None and arm.correctness.wrong:  # whatever else was caught beside it
        return Ended(rung, Outcome.WRONG, rung, state, state.value if bar is None else bar.check, bar, cheated)
    if bar is not None:
        by = rung if bar.rung == name else bar.rung
        return _held(rung, by, bar, State.OK if state.again else state, cheated=cheated)
    if state.silent and first is not None and base_failed:
        return Ended(rung, Outcome.UNAVAILABLE, base, first.state, first.state.value)
    if record.state.again:
        return _of_state(rung, record.state, "")
    if state is not State.OK:
        lacking = state.silent and first is not None and first.state.silent
        return _of_state(rung, state, "" if lacking else own)  # what the baseline lacks too is lacking for all
    return _right(run, rung, name, first if base_failed or run.bar(base) is not None else None)


def doubt(run: Reading, ended: Ended) -> str:
    """Why the times of a rung that is suspect are not to be believed."""
    return (
        "; ".join(f"{one.check}: {one.evidence}" for one in ended.doubts) or run.record.reason or "checks were left out"
    )


def of_run(run: Reading, held: Mapping[str, Bar] | None = None) -> Ended:
    """What a run says of its target, by its lead: no verdict where another rung, or a check, forbids one.

    Args:
        held: what is held against rungs today, besides what the run itself knows of.
    """
    record, rung = run.record, run.lead.rung if run.lead is not None else ""
    ended = of(run, rung)
    about = dict.fromkeys([rung, run.baseline])
    bars = [bar for bars in (run.bar, (held or {}).get) for each in about if (bar := bars(each)) is not None]
    if ended.outcome is Outcome.WRONG or record.state.void:
        return ended
    if bars:
        bar = min(bars, key=lambda one: (one.mistake, not one.here))
        return _held(rung, bar.rung, bar, ended.state, cheated=not bar.mistake)
    if record.state is not State.OK:
        return ended if ended.own and not ended.outcome.right else _of_state(rung, record.state, "")
    if record.validity.caught or (record.validity.suspect and ended.outcome.right):
        return replace(ended, outcome=Outcome(record.validity.value), by="", code=record.validity.value)
    return ended


# -- inside ------------------------------------------------------------------------------------------------------------


def _of_state(rung: str, state: State, by: str) -> Ended:
    """With the outcome that a state has by itself."""
    outcome = Outcome.WRONG if state is State.INCORRECT else Outcome.UNAVAILABLE if state.silent else Outcome.FAILED
    return Ended(rung, outcome if state.final else Outcome.PENDING, by, state, state.value)


def _held(rung: str, by: str, bar: Bar, state: State, *, cheated: bool) -> Ended:
    """With what a check has against it."""
    if bar.mistake:
        return Ended(rung, Outcome.WRONG, by, State.INCORRECT, bar.check, bar)
    return Ended(rung, Outcome.CAUGHT, by, state, bar.check, bar, cheated)


def _right(run: Reading, rung: str, name: str, lost: Arm | None) -> Ended:
    """With right outputs; `lost` is a baseline that is nothing to compare with, so that no doubt about it matters."""
    record, base, arm, item = run.record, run.baseline, run.arm(rung), run.comparison(rung)
    suspects, about = run.found(FindingStatus.SUSPECT), (name, base if lost is None else name, "")
    doubts = tuple(found for found in suspects if found.arm.removesuffix(TWIN_SUFFIX) in about)
    if doubts or record.without or (record.validity.suspect and not suspects):
        code = min(doubts, key=lambda found: found.arm != rung).check if doubts else record.validity.value
        return Ended(rung, Outcome.SUSPECT, rung, State.OK, code, item=item, doubts=doubts)
    if lost is not None:
        bar = run.bar(base)
        return Ended(rung, Outcome.RIGHT, base, State.OK, lost.state.value if bar is None else bar.check, bar)
    if item is not None and item.verdict.known and item.speedup is not None:
        return Ended(rung, Outcome(item.verdict.value), rung, State.OK, item.verdict.value, item=item)
    untimed = arm is not None and arm.median_ms is None
    by = rung if item is not None or (untimed and record.state is State.OK) else "" if untimed else base
    return Ended(rung, Outcome.RIGHT, by, State.OK, Correctness.CORRECT.value, item=item)
