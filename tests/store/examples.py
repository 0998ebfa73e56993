"""Records to write and read back: one plain run, and hypothesis strategies for every run that can exist."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from aisp.store.outcomes import (
    CaseVerdict,
    Correctness,
    FindingStatus,
    FuzzVerdict,
    Limiter,
    State,
    Timing,
    Trigger,
    Validity,
    Verdict,
)
from aisp.store.record import (
    Arm,
    Ceiling,
    Comparison,
    Failure,
    Finding,
    Fuzz,
    LinkUse,
    Naive,
    NaiveOpinion,
    Peak,
    Quality,
    Rank,
    Ranks,
    RooflineBound,
    RuleSaid,
    Run,
    RungFuzz,
    Step,
    Tally,
)
from aisp.store.samples import Samples, Telemetry
from aisp.store.text import clean_line
from aisp.store.ulid import new_ulid
from tests.replacing import replace

EPOCH = "01J0000000ENG1NE0000000000"
STORED = tuple(state for state in State if state.stored)


def planned(target: str = "ch07:transpose", **changes: Any) -> Run:
    """A run that was journalled and has not begun."""
    run = Run(
        id=new_ulid(),
        target=target,
        folder=b"/home/ada/kernels/caf\xe9",
        title="A transpose that reads and writes whole cache lines",
        device="cuda",
        case="default",
        quick=False,
        trigger=Trigger.CLI,
        seed=2**64 - 1,
        epoch=EPOCH,
        seq=7,
        wall="2026-05-04T10:20:30.123+00:00",
        snapshot="",
        state=State.PLANNED,
        manifest={"replicas": 5, "stop": {"interval": 0.01, "max_rounds": 200}, "sets": [1, 2, 3]},
    )
    return replace(run, **changes)


def finished(run: Run, *, speedup: float = 2.0, samples: int = 100, **changes: Any) -> Run:
    """The same run, well ended: the optimized rung is `speedup` times as fast."""
    end = replace(
        run,
        state=State.OK,
        correctness=Correctness.CORRECT,
        validity=Validity.VALID,
        verdict=Verdict.FASTER,
        start_ns=1_000_000_000,
        duration_ms=1234.5,
        flags=("clocks=unlocked", "contended"),
        arms=(
            Arm(
                rung="baseline",
                state=State.OK,
                correctness=Correctness.CORRECT,
                timing=Timing.COLD,
                median_ms=1.0,
                low_ms=0.99,
                high_ms=1.01,
                sample_count=samples,
                sol=0.41,
                max_error=0.0,
                peak_bytes=2**33,
            ),
            Arm(
                rung="optimized",
                state=State.OK,
                correctness=Correctness.CORRECT,
                timing=Timing.COLD,
                median_ms=1.0 / speedup,
                low_ms=0.99 / speedup,
                high_ms=1.01 / speedup,
                sample_count=samples,
                sol=0.82,
                max_error=0.25,
                dirty_exit=True,
                exit_code=0,
            ),
        ),
        comparisons=(
            Comparison(
                rung="optimized",
                baseline="baseline",
                verdict=Verdict.FASTER,
                speedup=speedup,
                low=speedup * 0.98,
                high=speedup * 1.02,
                floor=0.004,
            ),
        ),
        steps=(
            Step(name="compile", arm="optimized", start_ns=10**9, duration_ms=812.0),
            Step(name="verdict", arm="", start_ns=2 * 10**9, duration_ms=0.0),
        ),
    )
    return replace(end, **changes)


def measured(run: Run, **changes: Any) -> Run:
    """The same run, well ended, with all that is known of a short kernel: clocks, cycles, bounds and quality."""
    end = finished(run, **changes)
    baseline, optimized = end.arms
    quality = Quality(
        drift=-0.0012, autocorrelation=0.1, throttled_share=0.0625, resolution_ms=3.2e-05, overhead_ms=0.00128
    )
    modes = replace(quality, low_mode_ms=0.49, high_mode_ms=0.56, high_share=0.25)
    bound = RooflineBound(spec_ms=0.4, clock_ms=0.41, measured_ms=0.45, limiter=Limiter.BYTES)
    ratio = end.comparisons[0]
    return replace(
        end,
        arms=(
            replace(baseline, timing=Timing.COLD_GRAPH, calls=16, sm_clock_mhz=1935.0, light=bound, quality=quality),
            replace(
                optimized,
                timing=Timing.COLD_GRAPH,
                calls=16,
                sm_clock_mhz=1980.0,
                light=replace(bound, score=0.9167),
                quality=modes,
            ),
        ),
        comparisons=(replace(ratio, cycles=1.95, cycles_low=1.91, cycles_high=1.99, p_value=0.0001),),
    )


def beside_others(run: Run) -> Run:
    """The same run on a CPU of two processors, which others kept busy: its optimized rung met most of it."""
    met = Quality(busy_factor=1.2, waited_share=0.1, others_cores=1.67, cores=2, stolen_share=0.0)
    most = replace(met, busy_factor=6.06, waited_share=0.835)
    base, best, *others = run.arms
    return replace(run, arms=(replace(base, quality=met), replace(best, quality=most), *others))


def finding(check: str, arm: str = "", status: str = "passed", evidence: str = "looked at") -> Finding:
    """What one check said."""
    return Finding(check, arm, FindingStatus(status), evidence)


def examined(run: Run, code: str = "c0de", **changes: Any) -> Run:
    """The same run, well ended, of that code, with checks that were asked of its arms and found nothing."""
    asked = [finding("timing.wall_clock", arm, evidence="0.50 ms and 0.52 ms") for arm in ("baseline", "optimized")]
    run = replace(run, manifest={**run.manifest, "code": code, "validity": "strict", "without": []})
    return finished(run, **{"findings": tuple(asked), **changes})


def caught(run: Run, rung: str = "optimized", code: str = "c0de", check: str = "timing.wall_clock") -> Run:
    """The same run, in which a check has caught this arm: no figures, no verdict."""
    end = examined(run, code)
    told = (*end.findings, finding(check, rung, "caught", "0.41 ms by events, 9.8 ms by the engine's clock"))
    ratio = Comparison("optimized", "baseline", Verdict.NONE, note=f"{rung} was caught: {check}")
    return replace(end, validity=Validity.CAUGHT, verdict=Verdict.NONE, comparisons=(ratio,), findings=told)


def peak_of(gpu_uuid: str = "GPU-0", **changes: Any) -> Peak:
    """Ceilings of a GPU, one of which could not be measured."""
    peak = Peak(
        id=new_ulid(),
        gpu="NVIDIA H100 80GB HBM3",
        gpu_uuid=gpu_uuid,
        wall="2026-05-04T10:00:00.000+00:00",
        environment="",
        ceilings=(
            Ceiling("dram read", 2.9e12, "bytes/s", 1755.0, 2619.0, 2**31),
            Ceiling("dram read", 3.05e12, "bytes/s", 1755.0, 2619.0, 2**32),
            Ceiling("bf16 dense", 7.2e14, "flop/s", 1410.0, 2619.0),
            Ceiling("launch graph node", 1.1e-06, "s", note="64 empty kernels in one graph"),
            Ceiling("nvlink read", None, "bytes/s", note="no other GPU is linked to this one"),
        ),
    )
    return replace(peak, **changes)


def fuzz_of(fuzz_id: str = "", target: str = "ch07:transpose", **changes: Any) -> tuple[Fuzz, list[Failure]]:
    """A fuzz of two rungs, one of which is wrong in two cases that were kept, and those; `changes` are the fuzz's."""
    fuzz_id = fuzz_id or new_ulid()
    failures = [
        Failure(
            id=new_ulid(),
            fuzz=fuzz_id,
            target=target,
            rung="optimized",
            device="cuda",
            seed=2**64 - 1,
            stage="gate",
            strategy=strategy,
            case={"number": number, "strategy": strategy, "axes": {"M": 1, "N": 129}, "dtype": "float16"},
            drawn={"number": number, "strategy": strategy, "axes": {"M": 61, "N": 129}, "dtype": "float16"},
            verdict=CaseVerdict.WRONG,
            snapshot="ab" * 32,
            wall="2026-05-04T10:00:00.000+00:00",
            output="y",
            finding="mismatch",
            detail="1 of 129 elements; worst at [0, 128]: got 0.5, expected 1.5",
            input_hashes={"x": "1f" * 32},
            output_hash="2e" * 32,
            statistics={"count": 1, "max_abs": 1.0, "max_ulp": math.inf},
            histogram=(128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
            region=("......", ".....#"),
            script="import torch\n",
            versions={"torch": "2.11.0", "device": "NVIDIA H100 80GB HBM3"},
            tried=17,
        )
        for number, strategy in ((0, "boundary"), (7, "mixed"))
    ]
    rungs = (
        RungFuzz(
            rung="optimized",
            verdict=FuzzVerdict.WRONG,
            cases=40,
            failing=5,
            unsupported=2,
            by_strategy={"boundary": Tally(20, 4, 2), "mixed": Tally(20, 1)},
            failures=tuple(failure.id for failure in failures),
            naive=NaiveOpinion(allclose=True, assert_close=False),
            max_error=0.25,
            took_ms=812,
        ),
        RungFuzz(rung="optimized_swizzled", verdict=FuzzVerdict.UNDECIDED, cases=0, failing=0, reason="needs sm_100"),
    )
    record = Fuzz(
        **{
            "id": fuzz_id,
            "target": target,
            "folder": b"/home/ada/kernels/caf\xe9",
            "title": "A transpose that reads and writes whole cache lines",
            "device": "cuda",
            "seed": 2**64 - 1,
            "cases": 40,
            "strategies": ("boundary", "mixed"),
            "snapshot": "ab" * 32,
            "wall": "2026-05-04T10:00:00.000+00:00",
            "state": "done",
            "rungs": rungs,
            "duration_ms": 1234.5,
            "notes": ("the reference was computed in blocks",),
            **changes,
        }
    )
    return record, failures


def _records() -> dict[type[msgspec.Struct], msgspec.Struct]:
    run, peak, (fuzz, failures) = measured(planned()), peak_of(), fuzz_of()
    said = finding("timing.wall_clock", "optimized")
    own = (run, run.arms[1], run.comparisons[0], run.steps[0], said, peak, peak.ceilings[0], fuzz, failures[0])
    return {type(one): one for one in own}


RECORDS = _records()
"""One of each kind of record."""


def samples_of(count: int, seed: int = 0, *, ranks: int = 0) -> Samples:
    """`count` samples that depend on `seed` alone; of an arm of several `ranks` where any are asked for."""
    random = np.random.default_rng(seed)
    index = np.arange(count, dtype=np.int64)
    own = np.random.default_rng(seed + 1000)
    return Samples(
        rank_ms=own.lognormal(0.0, 0.01, (count, ranks)),
        rank_late_us=own.lognormal(2.0, 1.0, (count, ranks)),
        rank_clock_mhz=np.where(index[:, None] % 5 == 3, np.nan, own.normal(1755.0, 5.0, (count, ranks)).round()),
        device_ms=random.lognormal(0.0, 0.01, count),
        host_ms=np.where(index % 3 == 0, np.nan, random.lognormal(-3.0, 0.1, count)),
        end_ns=10**9 + index * 1_050_000,
        round=index // 4,
        replica=index // 50,
        inputs=index % 3,
        discarded=(index % 17 == 5).astype(np.int64),
        sm_clock_mhz=np.where(index % 5 == 3, np.nan, random.normal(1755.0, 5.0, count).round()),
        probe_ms=np.where(index % 5 == 3, np.nan, random.lognormal(0.0, 0.01, count)),
        cycles=np.where(index % 5 == 3, np.nan, random.normal(1.755e6, 5e3, count).round()),
    )


def without_probes(samples: Samples) -> Samples:
    """The same samples as a store before schema version 6 kept them."""
    unknown = np.full(len(samples), np.nan)
    return replace(samples, probe_ms=unknown, cycles=unknown)


def without_clocks(samples: Samples) -> Samples:
    """The same samples as a store before schema version 3 kept them."""
    return replace(without_probes(samples), sm_clock_mhz=np.full(len(samples), np.nan))


def telemetry_of(count: int) -> Telemetry:
    """GPU state with a gap in the middle."""
    at_ns = 10**9 + np.arange(count, dtype=np.int64) * 50_000_000
    gap = np.arange(count) == count // 2
    return Telemetry(
        at_ns=at_ns,
        sm_clock_mhz=np.where(gap, np.nan, 1980.0),
        memory_clock_mhz=np.where(gap, np.nan, 2619.0),
        temperature_c=np.linspace(40.0, 61.5, count),
        power_w=np.linspace(90.0, 690.25, count),
        throttle=np.where(gap, -1, 4).astype(np.int64),
    )


def equal_arrays(left: Any, right: Any) -> bool:
    """Whether two Samples or two Telemetry are the same bits under the same types."""
    return all(
        getattr(left, name).dtype == getattr(right, name).dtype
        and getattr(left, name).tobytes() == getattr(right, name).tobytes()
        for name in left.__slots__
    )


# -- every record that can exist -----------------------------------------------------------------------------

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).map(clean_line).filter(bool)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_POSITIVE = st.floats(1e-9, 1e9)
_ANY_FLOAT = st.floats(allow_nan=False)
_MS = st.floats(0, 1e9)
_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def _qualities() -> st.SearchStrategy[Quality]:
    counts = {"right_by_stated", "right_by_derived", "outside_read", "outside_sets", "cores"}
    members = {name: _optional(st.integers(0, 999) if name in counts else _FINITE) for name in Quality.__slots__}
    members["inside"] = _optional(st.sampled_from(["its inputs lie in host memory", "none of its inputs is new"]))
    return st.builds(Quality, **members)


def _lights() -> st.SearchStrategy[RooflineBound]:
    bounds = {name: _optional(_FINITE) for name in ("spec_ms", "clock_ms", "measured_ms")}
    score = _optional(st.floats(0, 1, exclude_min=True))
    shares = {name: _optional(_FINITE) for name in ("out_bytes_per_s", "in_share", "out_share")}
    links = st.builds(
        LinkUse,
        over=st.sampled_from([Limiter.PCIE, Limiter.NVLINK]),
        in_bytes_per_s=_FINITE,
        measured=st.booleans(),
        **shares,
    )
    limiter = _optional(st.sampled_from(Limiter))
    return st.builds(RooflineBound, **bounds, limiter=limiter, score=score, link=_optional(links))


def _naives() -> st.SearchStrategy[Naive]:
    return st.builds(
        Naive, base_ms=_optional(_FINITE), time_ms=_optional(_FINITE), accepts=_optional(st.booleans()), note=_TEXT
    )


def _ranks() -> st.SearchStrategy[Ranks]:
    one = st.builds(
        Rank, median_ms=_POSITIVE, slowest_share=_FINITE, late_us=_FINITE, sm_clock_mhz=_optional(_POSITIVE)
    )
    return st.builds(Ranks, each=st.tuples(one, one), skew_us=_FINITE, skew_most_us=_FINITE)


def _rules() -> st.SearchStrategy[RuleSaid]:
    texts = {"name": _NAME, "detail": _TEXT, "ours": _TEXT}
    return st.builds(RuleSaid, **texts, right=_optional(st.booleans()), alone=st.booleans())


@st.composite
def finding_records(draw: st.DrawFn, free: tuple[str, ...], told: frozenset[str]) -> Finding:
    """A finding of any status, on an arm that nobody would call caught beside figures of its own."""
    status = draw(st.sampled_from(FindingStatus))
    arm = clean_line(draw(_TEXT | st.sampled_from(["", *free])))  # as the record has it
    if status is FindingStatus.CAUGHT and told and (arm == "" or arm in told):
        status = FindingStatus.SUSPECT
    return Finding(draw(_NAME), arm, status, draw(_NAME if status is not FindingStatus.PASSED else _TEXT))


@st.composite
def peaks(draw: st.DrawFn) -> Peak:
    """A peak with any ceilings, with a new id."""
    ceilings = []
    for _ in range(draw(st.integers(0, 4))):
        value = draw(_optional(st.floats(5e-324, allow_infinity=False)))
        ceilings.append(
            Ceiling(
                name=draw(_NAME),
                value=value,
                unit=draw(st.sampled_from(["bytes/s", "flop/s", "s"])),
                sm_clock_mhz=draw(_optional(_POSITIVE)),
                memory_clock_mhz=draw(_optional(_POSITIVE)),
                footprint_bytes=draw(_optional(st.integers(0, 2**63 - 1))),
                note=draw(_NAME if value is None else _TEXT),
            )
        )
    return Peak(
        id=new_ulid(),
        gpu=draw(_TEXT),
        gpu_uuid=draw(_TEXT),
        wall=draw(_TEXT),
        environment=draw(_TEXT),
        ceilings=tuple(ceilings),
    )


@st.composite
def arm_records(draw: st.DrawFn, rung: str, states: tuple[State, ...]) -> Arm:
    """An arm in one of the states."""
    state = draw(st.sampled_from(states))
    if state is State.OK:
        correctness = Correctness.CORRECT
    elif state is State.INCORRECT:
        correctness = Correctness.WRONG
    else:
        correctness = draw(st.sampled_from(Correctness))
    times: dict[str, Any] = {
        "timing": draw(st.sampled_from(Timing)),
        "sample_count": draw(st.integers(0, 2**40)),
    }
    if correctness is Correctness.CORRECT and draw(st.booleans()):
        low, median, high = sorted(draw(st.tuples(_POSITIVE, _POSITIVE, _POSITIVE)))
        times = {
            "timing": draw(st.sampled_from([timing for timing in Timing if timing is not Timing.NONE])),
            "sample_count": draw(st.integers(1, 2**40)),
            "median_ms": median,
            "low_ms": draw(st.sampled_from([low, None])),
            "high_ms": draw(st.sampled_from([high, None])),
        }
    return Arm(
        rung=rung,
        state=state,
        correctness=correctness,
        calls=draw(_optional(st.integers(1, 2**40))),
        sm_clock_mhz=draw(_optional(_POSITIVE)),
        sol=draw(_optional(_ANY_FLOAT)),
        light=draw(_optional(_lights())),
        quality=draw(_optional(_qualities())),
        naive=draw(_optional(_naives())),
        rule=draw(_optional(_rules())),
        ranks=draw(_optional(_ranks())),
        max_error=draw(_optional(_ANY_FLOAT)),
        peak_bytes=draw(_optional(_INT64)),
        launches=draw(_optional(st.integers(0, 2**63 - 1))),
        exit_code=draw(_optional(st.integers(-255, 255))),
        signal=draw(st.integers(1, 64) if state is State.CRASHED else _optional(st.integers(1, 64))),
        signal_sent_by_us=draw(st.booleans()),
        dirty_exit=draw(st.booleans()),
        reason=draw(_TEXT) if state.final else "",
        detail=draw(_TEXT),
        sources=draw(_TEXT),
        failing_case=draw(_optional(_TEXT)),
        **times,
    )


@st.composite
def comparison_records(draw: st.DrawFn) -> Comparison:
    """A comparison with any verdict."""
    verdict = draw(st.sampled_from(Verdict))
    low, speedup, high = sorted(draw(st.tuples(_POSITIVE, _POSITIVE, _POSITIVE)))
    if verdict is Verdict.FASTER:
        low, speedup, high = 1.001 + low, 1.001 + speedup, 1.001 + high
    if verdict is Verdict.SLOWER:
        low, speedup, high = (0.5 * ratio / (1 + ratio) for ratio in (low, speedup, high))
    known = verdict in (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME) or draw(st.booleans())
    return Comparison(
        rung=draw(_TEXT),
        baseline=draw(_TEXT),
        verdict=verdict,
        speedup=speedup if known else None,
        low=low if known else None,
        high=high if known else None,
        floor=draw(_optional(_ANY_FLOAT)),
        cycles=draw(_optional(_POSITIVE)),
        cycles_low=draw(_optional(_POSITIVE)),
        cycles_high=draw(_optional(_POSITIVE)),
        p_value=draw(_optional(st.floats(0, 1))),
        note=draw(_TEXT),
    )


@st.composite
def run_records(draw: st.DrawFn) -> Run:
    """A run in any state, with a new id."""
    state = draw(st.sampled_from(STORED))
    arm_states = (State.OK, State.UNAVAILABLE) if state is State.OK else STORED
    if state is State.OK:
        correctness = Correctness.CORRECT
    elif state is State.INCORRECT:
        correctness = Correctness.WRONG
    else:
        correctness = draw(st.sampled_from(Correctness))
    validity = draw(st.sampled_from(Validity))
    verdicts = [
        verdict
        for verdict in Verdict
        if validity is not Validity.CAUGHT or verdict not in (Verdict.FASTER, Verdict.SLOWER)
    ]
    rungs = draw(st.lists(_NAME, max_size=4, unique=True))
    reason = "" if state is State.OK or not state.final else draw(_NAME)
    comparisons = tuple(draw(st.lists(comparison_records(), max_size=3))) if state.final else ()
    told = frozenset(name for c in comparisons if c.speedup is not None for name in (c.rung, c.baseline))
    findings = st.lists(finding_records(tuple(rungs), told), max_size=8) if state.final else st.just([])
    return Run(
        id=new_ulid(),
        target=draw(_NAME),
        folder=draw(st.binary(max_size=30)),
        title=draw(_TEXT),
        device=draw(st.sampled_from(["cuda", "cpu"])),
        case=draw(_TEXT),
        quick=draw(st.booleans()),
        trigger=draw(st.sampled_from(Trigger)),
        seed=draw(st.integers(-(2**80), 2**80)),
        epoch=draw(_TEXT),
        seq=draw(_INT64),
        wall=draw(_TEXT),
        snapshot=draw(_TEXT),
        state=state,
        correctness=correctness,
        validity=validity,
        verdict=draw(st.sampled_from(verdicts)),
        attempt=draw(st.integers(1, 2**31)),
        start_ns=draw(_optional(_INT64)),
        duration_ms=draw(_optional(_MS)) if state.final else None,
        reason=reason,
        environment=draw(_TEXT),
        manifest=draw(st.dictionaries(st.text(max_size=8), _JSON, max_size=4)),
        flags=tuple(draw(st.lists(st.text(max_size=8), max_size=3))),
        arms=tuple(draw(arm_records(rung, arm_states)) for rung in rungs),
        comparisons=comparisons,
        findings=tuple(draw(findings)),
        steps=tuple(
            draw(st.lists(st.builds(Step, name=_TEXT, arm=_TEXT, start_ns=_INT64, duration_ms=_MS), max_size=3))
        ),
    )


@st.composite
def sample_arrays(draw: st.DrawFn) -> Samples:
    """Samples of any length from none, with any bits that a float can have where they are allowed."""
    count = draw(st.integers(0, 12))
    ranks = draw(st.sampled_from([0, 0, 1, 2, 8]))

    def ranked() -> np.ndarray[Any, np.dtype[np.float64]]:
        every = st.lists(st.floats(), min_size=count * ranks, max_size=count * ranks)
        return np.array(draw(every), dtype=np.float64).reshape(count, ranks)

    def floats(element: st.SearchStrategy[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array(draw(st.lists(element, min_size=count, max_size=count)), dtype=np.float64)

    def ints() -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array(draw(st.lists(_INT64, min_size=count, max_size=count)), dtype=np.int64)

    return Samples(
        device_ms=floats(st.floats(5e-324, allow_infinity=False, exclude_min=False)),
        host_ms=floats(st.floats()),
        end_ns=ints(),
        round=ints(),
        replica=ints(),
        inputs=ints(),
        discarded=ints(),
        sm_clock_mhz=floats(st.floats()),
        probe_ms=floats(st.floats()),
        cycles=floats(st.floats()),
        rank_ms=ranked(),
        rank_late_us=ranked(),
        rank_clock_mhz=ranked(),
    )
