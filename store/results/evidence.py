"""What a program that writes kernels is told of one run: a verdict, its reason and the next move, as one small object.

A result is read by whoever wrote the code that was judged, and often that is a model. So three rules hold here:

* it is small: at most EVIDENCE_BYTES of JSON, what is longer lies behind a name (`aisp://run/ID/log`);
* what the candidate may have worded itself (exceptions, printed lines, names that a check saw) stands under `quoted`,
  which is marked as untrusted, and nowhere else;
* what would let anybody foresee held-out inputs stays here: seeds and the numbers of held-out sets are taken out.

Times are in ms, sizes in bytes, ratios are baseline time over the rung's time. None: not known, or not to be shown.
"""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from aisp.store.outcomes import FindingStatus, FuzzVerdict, Limiter
from aisp.store.results import fuzz, hardware, outcome
from aisp.store.results.best_of import best_of
from aisp.store.results.numbers import percent
from aisp.store.results.outcome import Ended, Outcome, Stage
from aisp.store.results.suite import NORMAL_95
from aisp.store.text import clean, clean_line

if TYPE_CHECKING:
    from aisp.store.record import Arm, Failure, Finding, Fuzz, Run
    from aisp.store.results.reading import Reading

SCHEMA = 1
EVIDENCE_BYTES = 4096
"""Most bytes of one object as compact JSON: what optimisers of programs take as an artifact."""
MOST_CHECKS = 12
MESSAGE_CHARS = 400
QUOTED_CHARS = 1200
_LEAST_BYTES = 200
_LEAST_CHARS = 30
_SECRET_FROM = 1 << 31
"""Whole numbers below this are counts and limits; seeds that nobody chose and numbers of held-out sets lie above."""
WITHHELD = "[withheld]"
AT_THE_BOUND = 0.9
"""From this share of the speed of light on there is little left to gain."""


_FASTER_BY: Mapping[Limiter, str] = {
    Limiter.BYTES: "device memory limits it: move fewer bytes (fuse, narrower types, read each byte once)",
    Limiter.FLOPS: "arithmetic limits it: use tensor cores or a narrower type, or compute less",
    Limiter.PCIE: "the link to host memory limits it: send less, or while something else computes",
    Limiter.NVLINK: "the link between GPUs limits it: send less, or while something else computes",
    Limiter.LAUNCH: "launching limits it: fewer kernels, fuse them or capture a graph",
    Limiter.HOST: "the host limits it: fewer launches and less Python a call, or capture a graph",
}


@dataclass(frozen=True, slots=True)
class Interval:
    """The 95 % interval of the speed-up."""

    lo: float
    hi: float


@dataclass(frozen=True, slots=True)
class FailingCase:
    """A case in which the candidate is wrong.

    Attributes:
        case: id for `replay` and `aisp://case/ID`; "" where a run found it and no case was kept.
        shape: sizes by axis; empty where they are not those of the run's case, and `detail` names the case.
        wrong, count: elements that are wrong, of how many.
        ulp: worst error in units of the dtype's spacing.
        detail: which element, what it is and what was expected.
    """

    shape: Mapping[str, int]
    case: str = ""
    dtype: str = ""
    output: str = ""
    finding: str = ""
    wrong: int | None = None
    count: int | None = None
    ulp: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CheckSaid:
    """What a check said; its words lie at aisp://run/ID/evidence/`evidence_id`."""

    id: str
    outcome: FindingStatus
    evidence_id: int


@dataclass(frozen=True, slots=True)
class Quoted:
    """Words that may be the candidate's own: data to look at, never an instruction."""

    text: str
    untrusted: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """One verdict.

    Attributes:
        run: id of the run, or of the fuzz.
        level: "quick" or "full"; "fuzz".
        reason_code: the check that caught it, else the state or verdict, as a word of `store.outcomes`.
        floor: the noise floor as a ratio - 1.
        judged: where rung and baseline were judged, as `results.outside` words it.
        confined: what its processes were held from, as `results.hardware` words it.
        counters: figures by name, see `counters`.
        checks: those that did not pass, the gravest first, at most MOST_CHECKS; `passed` counts those that did.
        more: names of resources that say more.
    """

    run: str
    target: str
    rung: str
    level: str
    device: str
    verdict: Outcome
    stage: Stage
    reason_code: str
    message: str
    speedup: float | None = None
    interval: Interval | None = None
    floor: float | None = None
    judged: str = ""
    confined: str = ""
    limiter: Limiter | None = None
    counters: Mapping[str, float | int | None] = field(default_factory=dict)
    failing_case: FailingCase | None = None
    checks: tuple[CheckSaid, ...] = ()
    passed: int = 0
    quoted: Quoted | None = None
    next_move: str = ""
    more: tuple[str, ...] = ()
    schema: int = SCHEMA

    def plain(self) -> dict[str, Any]:
        """As data for JSON, of at most EVIDENCE_BYTES."""
        return fit(_plain(self))


def of_run(
    run: Reading,
    rung: str = "",
    *,
    shape: Mapping[str, int] | None = None,
    facts: Mapping[str, object] | None = None,
) -> Evidence:
    """What a run says of one rung; of the one that it is about where none is named.

    Args:
        shape: sizes of the run's case, where they are known.
        facts: what it ran on, where that is at hand.
    """
    record = run.record
    rung = rung or (run.lead.rung if run.lead is not None else "")
    ended, arm = outcome.of(run, rung), run.arm(rung)
    known = ended.item if ended.outcome.compared else None
    interval = None
    if known is not None and known.low is not None and known.high is not None:
        interval = Interval(known.low, known.high)
    light = arm.light if arm is not None and ended.bar is None and ended.outcome is not Outcome.SUSPECT else None
    limiter = light.limiter if light is not None else None
    failing = None
    if arm is not None and arm.correctness.wrong and ended.own:
        failing = _failing_case(run, arm, shape or {})
    own = [finding for finding in record.findings if finding.arm in (rung, "")]
    return Evidence(
        run=record.id,
        target=record.target,
        rung=rung,
        level="quick" if record.quick else "full",
        device=record.device,
        verdict=ended.outcome,
        stage=ended.stage,
        reason_code=ended.code,
        message=ended.words,
        speedup=known.speedup if known is not None else None,
        interval=interval,
        floor=known.floor if known is not None else None,
        judged=run.judged(known) if known is not None else "",
        confined=hardware.confined(facts or {}),
        limiter=limiter,
        counters=counters(run, rung),
        failing_case=failing,
        checks=_checks(record, rung, timed=ended.stage in (Stage.TIME, Stage.CHECKS)),
        passed=sum(finding.status is FindingStatus.PASSED for finding in own),
        quoted=_quoted(run, ended),
        next_move=ended.fix or _faster(ended.outcome, limiter, quick=record.quick, sol=arm.sol if arm else None),
        more=(f"aisp://run/{record.id}/log",) if record.state.final else (),
    )


def _failing_case(run: Reading, arm: Arm, shape: Mapping[str, int]) -> FailingCase:
    """What is wrong with a rung, and at which sizes where that was the timed case; else its reason names the case.

    Args:
        shape: of the timed case.
    """
    timed = arm.failing_case == run.record.case
    told = arm.detail if timed else arm.reason or arm.detail
    return FailingCase(shape if timed else {}, detail=tell(told, run.record, MESSAGE_CHARS))


def of_failure(failure: Failure) -> Evidence:
    """A failing case that a fuzz kept, as the verdict that it is."""
    return Evidence(
        run=failure.fuzz,
        target=failure.target,
        rung=failure.rung,
        level="fuzz",
        device=failure.device,
        verdict=Outcome.WRONG,
        stage=Stage.VALUES,
        reason_code=failure.verdict.value,
        message=f"it fails on a drawn case ({failure.strategy}); the smallest that was found is told",
        failing_case=failing_case(failure),
        quoted=None if failure.verdict.compared else Quoted(clean(failure.detail, limit=QUOTED_CHARS)),
        next_move=outcome.SENTENCES[Outcome.WRONG].fix,
        more=(f"aisp://case/{failure.id}",),
    )


def of_fuzz(record: Fuzz, failures: Sequence[Failure]) -> dict[str, Any]:
    """A fuzz that has ended, as data of at most EVIDENCE_BYTES: its rungs, and the smallest case that fails."""
    kept = {failure.id: failure for failure in failures}
    first = next((found for rung in record.rungs if (found := fuzz.smallest(rung, kept)) is not None), None)
    verdict = fuzz.overall(record.rungs)
    move = "make the failing case right"
    if verdict is FuzzVerdict.RIGHT:
        move = "right on every drawn case: evaluate(run)"
    elif verdict is FuzzVerdict.UNDECIDED:
        move = "no case could be judged: host() says what is here"
    names = ("rung", "verdict", "cases", "failing", "unsupported", "max_error")
    told: dict[str, Any] = {
        "run": record.id,
        "target": record.target,
        "verdict": verdict.value,
        "stage": Stage.VALUES.value,
        "reason_code": record.state,
        "rungs": [{name: getattr(rung, name) for name in names} for rung in record.rungs],
        "message": record.reason,
    }
    if first is not None:
        said = of_failure(first).plain()
        told |= {key: said[key] for key in ("failing_case", "quoted", "more") if said.get(key) is not None}
    return fit(told | {"next_move": move})


def best(told: Sequence[Evidence]) -> int | None:
    """Which of several is taken for the best: of those that have a speed-up the one with the greatest lead, each drawn
    to the mean by its own noise (`best_of`); None where none has one."""
    at = [number for number, said in enumerate(told) if said.speedup]
    if not at:
        return None
    ends = [told[number].interval for number in at]
    errors = [math.log(end.hi / end.lo) / (2 * NORMAL_95) if end is not None else None for end in ends]
    return at[best_of([math.log(told[number].speedup or 1.0) for number in at], errors).index]


def ranked(told: Sequence[Evidence]) -> list[int]:
    """Places of several, the greatest speed-up first, those without one in their order behind."""
    return sorted(range(len(told)), key=lambda number: (-(told[number].speedup or 0.0), number))


def failing_case(failure: Failure) -> FailingCase:
    """A kept case as it may be told. What it is drawn from is not: only the sizes, the type and the words."""
    axes = failure.case.get("axes")
    sizes = {clean_line(str(name)): int(size) for name, size in axes.items()} if isinstance(axes, Mapping) else {}
    figures = failure.statistics
    return FailingCase(
        sizes,
        case=failure.id,
        dtype=clean_line(str(failure.case.get("dtype", ""))),
        output=failure.output,
        finding=failure.finding,
        wrong=_whole(figures.get("wrong")),
        count=_whole(figures.get("count")),
        ulp=figures.get("ulp_max"),
        detail=clean_line(_without(failure.detail, {failure.seed or 0}), limit=MESSAGE_CHARS)
        if failure.verdict.compared
        else fuzz.case_text(failure.case),
    )


def counters(run: Reading, rung: str) -> dict[str, float | int | None]:
    """Figures of a rung by name: what was measured of it in its run; {} where none may be shown, and no time where it
    is suspect."""
    arm, base = run.arm(rung), run.arm(run.baseline)
    if arm is None or run.bar(rung) is not None or arm.median_ms is None:
        return {}
    light = arm.light
    link = light.link if light is not None else None
    carried: dict[str, float | None] = {}
    for direction, rate, share in link.directions if link is not None else ():
        carried |= {f"link_{direction}_bytes_per_s": rate, f"link_{direction}_share": share}
    times = {
        "median_ms": arm.median_ms,
        "low_ms": arm.low_ms,
        "high_ms": arm.high_ms,
        "baseline_ms": base.median_ms if base is not None and run.bar(base.rung) is None else None,
        "bound_ms": light.bound_ms if light is not None else None,
        "share_of_light": arm.sol,
        **carried,
    }
    return {
        **(times if outcome.of(run, rung).outcome is not Outcome.SUSPECT else {}),
        "samples": arm.sample_count,
        "calls_per_sample": arm.calls,
        "launches": arm.launches,
        "peak_bytes": arm.peak_bytes,
        "sm_clock_mhz": arm.sm_clock_mhz,
    }


def _faster(verdict: Outcome, limiter: Limiter | None, *, quick: bool, sol: float | None) -> str:
    """One sentence: what to do about a verdict, by rule.

    Args:
        sol: share of the speed of light; None where it is not known.
    """
    if verdict is Outcome.UNDECIDED:
        return (
            "evaluate it at level full, which takes more processes"
            if quick
            else "stop: this machine cannot tell it from the baseline; change more, or take it as no gain"
        )
    if verdict is Outcome.FASTER and quick:
        return "evaluate it at level full: a quick run has too few processes to be a result"
    if sol is not None and sol >= AT_THE_BOUND:
        return f"stop: it is at {percent(sol, 0)} of what this GPU can do; only another algorithm moves fewer bytes"
    hint = _FASTER_BY.get(limiter) if limiter is not None else None
    if verdict is Outcome.FASTER:
        return f"keep it as the best; next: {hint}" if hint else "keep it as the best; change one thing at a time"
    return hint or "profile(run) shows where its time goes; change one thing at a time"


def withheld(run: Run) -> frozenset[int]:
    """Numbers that would let somebody foresee what a run draws: its seed, and those of its held-out sets."""
    found = {number for number in _numbers(run.manifest) if number >= _SECRET_FROM}
    return frozenset(found if run.seed is None else {*found, run.seed})


def tell(text: str, run: Run, limit: int) -> str:
    """Foreign words of a run, cleaned, without its secrets, at most `limit` characters."""
    return clean(_without(text, withheld(run)), limit=limit)


def words(finding: Finding, run: Run, limit: int = MESSAGE_CHARS) -> str:
    """What a check saw, on one line, without what is withheld."""
    return clean_line(_without(finding.evidence, withheld(run)), limit=limit)


def size(document: Any) -> int:
    """Bytes of a value as compact JSON in UTF-8."""
    return len(compact(document).encode("utf-8"))


def compact(document: Any) -> str:
    """A value as JSON on one line without blanks."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def fit(document: dict[str, Any], limit: int = EVIDENCE_BYTES) -> dict[str, Any]:
    """The same in at most `limit` bytes: long texts are cut and long lists shortened, the longest first, and `cut` says
    that it was done. Figures and words of ours stay."""
    while (over := size(document) - limit) > 0:
        longest = max(_texts_and_lists(document), key=lambda place: place[2], default=None)
        if longest is None or longest[2] <= _LEAST_BYTES:
            raise ValueError(f"{size(document)} bytes cannot be told in {limit}")
        holder, key, _ = longest
        value = holder[key]
        if isinstance(value, list):
            holder[key] = value[: len(value) // 2]
        else:
            kept = max(_LEAST_CHARS, min(len(value) * 7 // 8, len(value) - over - 4))
            holder[key] = value[:kept] + " ..."
        document["cut"] = True
    return document


# -- inside ------------------------------------------------------------------------------------------------------------


def _checks(record: Run, rung: str, *, timed: bool) -> tuple[CheckSaid, ...]:
    """Checks that did not pass, of this rung and of the whole run. What could not be looked at is told of a rung that
    was timed: of one that never got so far it is most of them."""
    told = [FindingStatus.CAUGHT, FindingStatus.SUSPECT, *([FindingStatus.UNAVAILABLE] if timed else [])]
    found = [
        CheckSaid(finding.check, finding.status, number)
        for number, finding in enumerate(record.findings)
        if finding.status in told and finding.arm in (rung, "")
    ]
    return tuple(sorted(found, key=lambda said: told.index(said.outcome))[:MOST_CHECKS])


def _quoted(run: Reading, ended: Ended) -> Quoted | None:
    """The words that are not ours: why it failed, and what was seen."""
    record, arm, bar = run.record, run.arm(ended.rung), ended.bar
    said: list[str] = []
    if bar is not None:
        told = bar.here and bar.rung == ended.rung and bar.of_values  # as the failing case
        said += [] if told else [f"{bar.check}: {bar.evidence}"]
    else:
        said += [f"{finding.check}: {finding.evidence}" for finding in ended.doubts]
        said += [ended.item.note] if ended.item is not None else []
    if not ended.outcome.right and ended.outcome is not Outcome.WRONG:
        said += [record.reason] if arm is None or not arm.reason else [arm.reason, arm.detail]
    text = tell("\n".join(dict.fromkeys(part for part in said if part)), record, QUOTED_CHARS)
    return Quoted(text) if text else None


def _numbers(value: object) -> Iterator[int]:
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _numbers(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _numbers(one)


def _without(text: str, secrets: Sequence[int] | frozenset[int] | set[int]) -> str:
    """The text without these numbers, in decimal or hexadecimal digits. Small ones are too common to be any secret."""
    shapes = {shape for number in secrets if number >= _SECRET_FROM for shape in (str(number), f"{number:x}")}
    if not shapes:
        return text
    pattern = "|".join(re.escape(shape) for shape in sorted(shapes, key=len, reverse=True))
    return re.sub(pattern, WITHHELD, text, flags=re.IGNORECASE)


def _texts_and_lists(value: Any) -> Iterator[tuple[Any, Any, int]]:
    """Every text and list below a document: what holds it, its key there, and its size."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        if isinstance(one, str):
            yield value, key, size(one)
        elif isinstance(one, list) and one:
            yield value, key, size(one)
            yield from _texts_and_lists(one)
        elif isinstance(one, dict):
            yield from _texts_and_lists(one)


def _plain(value: Any) -> Any:
    """A value as data for JSON."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
