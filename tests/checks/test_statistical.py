"""What samples say of themselves: judges on made-up samples, sensors on this process."""

from __future__ import annotations

import gc
import hashlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from aisp.checks import registry, statistical
from aisp.checks.registry import ArmFacts, Call, RunFacts, Sensed, Site, Status, Sustained
from aisp.engine.statistics import LOOKS
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import State, Timing
from aisp.store.record import Finding, Quality
from aisp.store.samples import Samples
from tests.checks.sensed import plain, replica
from tests.replacing import replace

Floats: TypeAlias = npt.NDArray[np.float64]
GALLERY = Path(statistical.__file__).parent / "gallery"
FILES = {"baseline.py": b"baseline", "cheat.py": b"cheat", "optimized.py": b"optimized"}
RULE = {"stop_rule": {"least_rounds": 6}}


@pytest.fixture(scope="module")
def target() -> Target:
    folder = GALLERY / "statistical/variance_gaming"
    loaded = catalog.load_target(folder, root=GALLERY, chapter="statistical")
    assert isinstance(loaded, Target)
    return loaded


def noisy(count: int, level_ms: float = 1.0, seed: int = 0) -> Floats:
    """Times as a shared machine gives them: some per cent of spread, and now and then one that is far off."""
    chance = np.random.default_rng(seed)
    found: Floats = level_ms * np.exp(chance.normal(0, 0.05, count)) * np.where(chance.random(count) < 0.03, 5.0, 1.0)
    return found


def samples(*replicas: Floats, discarded: Mapping[int, int] | None = None, cores: float = 1.0) -> Samples:
    times = np.concatenate(replicas)
    number = np.repeat(np.arange(len(replicas)), [len(times) for times in replicas])
    codes = np.zeros(len(times), np.int64)
    for index, code in (discarded or {}).items():
        codes[index] = code
    none = np.zeros(len(times), np.int64)
    clock = np.full(len(times), math.nan)
    return Samples(times, cores * times, np.arange(len(times)), none, number, none, codes, clock)


def arm(target: Target, name: str, taken: Samples | None = None, **fields: Any) -> ArmFacts:
    told = {"median_ms": float(np.median(taken.kept_ms)) if taken is not None and len(taken.kept_ms) else None}
    rung = target.rung(name.removesuffix(" (A/A)"))
    return ArmFacts(name, rung, "cpu", True, State.OK, Timing.HOST, samples=taken, **{**told, **fields})


def run(target: Target, *arms: ArmFacts, replicas: int = 1, **fields: Any) -> RunFacts:
    fields = {"files": FILES, "manifest": RULE, **fields}
    return RunFacts(target, target.cases[0], "cpu", replicas == 1, arms, **fields)


def ask(check: str, facts: RunFacts, whose: str = "") -> Finding:
    (found,) = [f for f in registry.examine(facts) if f.check == f"statistical.{check}" and f.arm == whose]
    return found


# -- samples -----------------------------------------------------------------------------------------------------------


def test_too_few_samples_or_processes_are_suspect(target: Target) -> None:
    two, three = ([Sensed(replica=number) for number in range(count)] for count in (2, 3))
    enough = arm(target, "baseline", samples(noisy(24), noisy(24)), sensed=two)
    assert ask("sample_count", run(target, enough, replicas=2), "baseline").status is Status.PASSED
    lost = ask("sample_count", run(target, replace(enough, sensed=three), replicas=3), "baseline")
    assert (lost.status, "it had 3 processes" in lost.evidence) == (Status.SUSPECT, True)
    few = arm(target, "baseline", samples(noisy(24), noisy(3)))
    assert ask("sample_count", run(target, few, replicas=2), "baseline").status is Status.SUSPECT
    untimed = replace(arm(target, "baseline"), timing=Timing.NONE)
    assert ask("sample_count", run(target, untimed), "baseline").status is Status.NOT_APPLICABLE


def test_a_sample_set_aside_needs_one_of_the_two_reasons(target: Target) -> None:
    known = arm(target, "baseline", samples(noisy(24), discarded={3: 1, 4: 2}))
    found = ask("nothing_dropped", run(target, known), "baseline")
    assert (found.status, "2 of them set aside (1 for low clock" in found.evidence) == (Status.PASSED, True)
    slow = arm(target, "baseline", samples(noisy(24), discarded={3: 7}))
    found = ask("nothing_dropped", run(target, slow), "baseline")
    assert (found.status, "code 7" in found.evidence) == (Status.SUSPECT, True)


def test_the_share_set_aside_of_one_side_is_told_beside_the_others(target: Target) -> None:
    base = arm(target, "baseline", samples(noisy(20)))
    rung = arm(target, "optimized", samples(noisy(20), discarded=dict.fromkeys(range(10), 1)))
    assert "of baseline's 0%" in ask("nothing_dropped", run(target, base, rung), "optimized").evidence
    most = arm(target, "optimized", samples(noisy(20), discarded=dict.fromkeys(range(19), 1)))
    assert ask("nothing_dropped", run(target, base, most), "optimized").status is Status.SUSPECT


def test_a_figure_that_is_another_percentile_is_suspect(target: Target) -> None:
    taken = samples(noisy(200))
    assert ask("one_median", run(target, arm(target, "cheat", taken)), "cheat").status is Status.PASSED
    fastest = float(np.quantile(taken.kept_ms, 0.1))
    found = ask("one_median", run(target, arm(target, "cheat", taken, median_ms=fastest)), "cheat")
    assert (found.status, "the median of all its 200 samples" in found.evidence) == (Status.SUSPECT, True)


# -- fast only while it is new -----------------------------------------------------------------------------------------


def stepped(count: int, at: int, ratio: float, seed: int = 0) -> Floats:
    found: Floats = noisy(count, seed=seed) * np.where(np.arange(count) < at, 1.0, ratio)
    return found


@pytest.mark.parametrize(("count", "at", "ratio", "replicas"), [(24, 12, 4.0, 1), (96, 20, 1.7, 5), (1000, 40, 3.0, 5)])
def test_a_rung_that_slows_down_in_every_process_is_suspect(
    target: Target, count: int, at: int, ratio: float, replicas: int
) -> None:
    cheat = arm(target, "cheat", samples(*(stepped(count, at, ratio, seed) for seed in range(replicas))))
    base = arm(target, "baseline", samples(*(noisy(count, 2.0, 50 + seed) for seed in range(replicas))))
    facts = run(target, base, cheat, replicas=replicas)
    found = ask("steady", facts, "cheat")
    assert (found.status, "fast only while it is new" in found.evidence) == (Status.SUSPECT, True)
    assert ask("steady", facts, "baseline").status is Status.PASSED


@pytest.mark.parametrize("replicas", [look.replicas for look in LOOKS])
@pytest.mark.parametrize("at", [12, 20, 100])
def test_a_stock_that_is_used_up_is_suspect_however_early_and_a_disturbance_that_passes_is_not(
    target: Target, replicas: int, at: int
) -> None:
    taken = samples(*(stepped(300, at, 4.0, seed) for seed in range(replicas)))
    base = arm(target, "baseline", samples(*(noisy(300, 4.0, 50 + seed) for seed in range(replicas))))

    def found(per_call_ms: float) -> Finding:
        cheat = arm(target, "cheat", taken, sustained=(Sustained(per_call_ms, 4.0, 4.0, 200),) * replicas)
        return ask("steady", run(target, base, cheat, replicas=replicas), "cheat")

    assert found(4.0).status is Status.SUSPECT
    assert (found(1.0).status, "a disturbance" in found(1.0).evidence) == (Status.PASSED, True)
    # A rung that computes pages faster in a row than by itself has not got back what it had.
    assert found(1.25).status is (Status.SUSPECT if replicas >= 3 else Status.PASSED)


def test_a_machine_that_slows_down_for_all_is_nobodys_cheat(target: Target) -> None:
    slow = [stepped(96, 40, 2.5, seed) for seed in range(6)]
    facts = run(
        target, arm(target, "baseline", samples(*slow[:3])), arm(target, "cheat", samples(*slow[3:])), replicas=3
    )
    assert ask("steady", facts, "cheat").status is Status.PASSED
    assert ask("steady", facts, "baseline").status is Status.PASSED


def test_one_process_that_slowed_down_among_others_is_not_caught(target: Target) -> None:
    cheat = arm(target, "optimized", samples(stepped(96, 40, 4.0), noisy(96, seed=1), noisy(96, seed=2)))
    base = arm(target, "baseline", samples(noisy(96), noisy(96), noisy(96)))
    assert ask("steady", run(target, base, cheat, replicas=3), "optimized").status is Status.PASSED


def test_a_rung_with_many_threads_that_lost_its_cores_is_not_caught(target: Target) -> None:
    wide = arm(target, "optimized", samples(stepped(24, 12, 4.0), cores=3.0))
    base = arm(target, "baseline", samples(noisy(24)))
    found = ask("steady", run(target, base, wide), "optimized")
    assert (found.status, "more cores" in found.evidence) == (Status.PASSED, True)


@pytest.mark.parametrize(("replicas", "status"), [(1, Status.PASSED), (3, Status.SUSPECT)])
def test_a_lone_process_that_stood_in_line_is_not_suspect_and_several_that_agree_are(
    target: Target, replicas: int, status: Status
) -> None:
    crowded = samples(*(stepped(96, 40, 16.0, seed) for seed in range(replicas)))
    base = arm(target, "baseline", samples(*(noisy(96) for _ in range(replicas))))
    facts = run(target, base, arm(target, "optimized", crowded, waited_share=0.8), replicas=replicas)
    assert ask("steady", facts, "optimized").status is status


def test_a_fresh_process_that_shows_again_what_others_showed_is_not_a_lone_one(target: Target) -> None:
    rung, base = arm(target, "optimized", samples(stepped(96, 40, 2.0))), arm(target, "baseline", samples(noisy(96)))
    assert ask("steady", run(target, base, rung), "optimized").status is Status.PASSED
    assert ask("steady", run(target, base, rung, earlier=(rung,)), "optimized").status is Status.SUSPECT
    disturbed = arm(target, "baseline", samples(stepped(96, 40, 2.0)))
    found = ask("steady", run(target, disturbed, rung, earlier=(rung,)), "optimized")
    assert (found.status, "the machine was not" in found.evidence) == (Status.UNAVAILABLE, True), "nobody is acquitted"


def test_a_rung_that_becomes_faster_is_told(target: Target) -> None:
    warm = arm(target, "optimized", samples(stepped(96, 40, 0.3)))
    base = arm(target, "baseline", samples(noisy(96)))
    assert ask("steady", run(target, base, warm), "optimized").status is Status.PASSED


# -- slow calls in a rhythm --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("period", "slow", "replicas"), [(4, 20.0, 1), (4, 3.0, 5), (16, 12.0, 3)])
def test_slow_calls_in_a_fixed_rhythm_are_suspect(target: Target, period: int, slow: float, replicas: int) -> None:
    def times(seed: int) -> Floats:
        chance = np.random.default_rng(seed)
        count = max(24, 8 * period)
        due = np.arange(count) % period == seed % period
        found: Floats = np.exp(chance.normal(0, 0.05, count)) * np.where(due, slow, 1.0)
        return found

    cheat = arm(target, "cheat", samples(*(times(seed) for seed in range(replicas))))
    found = ask("hidden_slow_calls", run(target, cheat, replicas=replicas), "cheat")
    assert (found.status, f"every {period}th call" in found.evidence) == (Status.SUSPECT, True)


def test_a_baseline_that_sleeps_in_every_other_call_is_suspect_too(target: Target) -> None:
    times = noisy(40, seed=3) * np.where(np.arange(40) % 5 == 0, 30.0, 1.0)
    base = arm(target, "baseline", samples(np.minimum(times, 30.0)))
    assert ask("hidden_slow_calls", run(target, base), "baseline").status is Status.SUSPECT


@pytest.mark.parametrize("seed", range(40))
def test_outliers_of_a_shared_machine_have_no_rhythm(target: Target, seed: int) -> None:
    honest = arm(target, "optimized", samples(noisy(24, seed=seed)))
    facts = run(target, arm(target, "baseline", samples(noisy(24, 2.0, 1000 + seed))), honest)
    for check in ("hidden_slow_calls", "steady"):
        assert ask(check, facts, "optimized").status is Status.PASSED
        assert ask(check, facts, "baseline").status is Status.PASSED


def test_the_first_call_of_every_turn_may_be_slow(target: Target) -> None:
    """Other arms had the caches in between: turns of seven samples make a rhythm of seven."""
    times = noisy(56, seed=4) * np.where(np.arange(56) % 7 == 0, 3.0, 1.0)
    taken = replace(samples(times), round=np.arange(56) // 7)
    found = ask("hidden_slow_calls", run(target, arm(target, "optimized", taken)), "optimized")
    assert found.status is Status.PASSED
    other = replace(samples(times), round=np.arange(56) // 8)
    assert ask("hidden_slow_calls", run(target, arm(target, "cheat", other)), "cheat").status is Status.SUSPECT


def test_two_modes_without_a_rhythm_are_told(target: Target) -> None:
    chance = np.random.default_rng(1)
    times = noisy(200) * np.where(chance.random(200) < 0.3, 3.0, 1.0)
    found = ask("hidden_slow_calls", run(target, arm(target, "optimized", samples(times))), "optimized")
    assert (found.status, "no fixed rhythm" in found.evidence) == (Status.PASSED, True)


# -- sensors -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def site(target: Target) -> Site:
    return Site("cpu", target.folder, target, target.rung("cheat"), frozenset())


@pytest.fixture
def tidy() -> Iterator[None]:
    """Whatever a test does to this process is undone."""
    thresholds, handler, interval_s = gc.get_threshold(), signal.getsignal(signal.SIGVTALRM), sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval_s)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, handler)
    gc.set_threshold(*thresholds)
    gc.enable()


def one_process(site: Site, target: Target, imported: Callable[[], object], called: Callable[[], object]) -> ArmFacts:
    """The life of an arm: `imported` runs as the lesson's import, `called` as three timed calls."""
    sensor = statistical.Interpreter(site)
    sensor.before_import()
    imported()
    sensor.after_import()
    for stage in ("verify", "timed", "timed", "timed"):
        if stage == "timed":
            gc.disable()
        call = Call(stage, target.cases[0], [[]])
        sensor.before_call(call)
        called()
        sensor.after_call(call)
    gc.enable()
    return arm(target, "cheat", sensed=(replica(interpreter=sensor.facts()),))


def nothing() -> None:
    return None


def careful() -> None:
    was_on = gc.isenabled()
    gc.disable()
    if was_on:
        gc.enable()


@pytest.mark.parametrize(
    ("imported", "called", "check", "words"),
    [
        (gc.disable, nothing, "collector", "collector off while it was imported, on before"),
        (lambda: gc.set_threshold(1), nothing, "collector", "thresholds [1,"),
        (nothing, gc.enable, "collector", "switched garbage collection on in 3 of 3 timed samples"),
        (
            nothing,
            lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 0.5) and None,
            "interrupts",
            "interval timer running (virtual)",
        ),
        (
            lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 60, 0.5) and None,
            nothing,
            "interrupts",
            "interval timer running (virtual)",
        ),
    ],
)
def test_a_rung_that_changes_python_around_it_is_caught(
    target: Target,
    site: Site,
    tidy: None,
    imported: Callable[[], object],
    called: Callable[[], object],
    check: str,
    words: str,
) -> None:
    found = ask(check, run(target, one_process(site, target, imported, called)), "cheat")
    assert found.status is Status.CAUGHT
    assert words in found.evidence


def watched() -> None:
    """A call under a watchdog, which is switched off before it returns."""
    signal.setitimer(signal.ITIMER_VIRTUAL, 30)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def watched_on() -> None:
    """A call that sets its watchdog back and leaves it on."""
    signal.setitimer(signal.ITIMER_VIRTUAL, 30)


@pytest.mark.parametrize("called", [watched, watched_on])
def test_a_watchdog_that_does_not_go_off_passes(
    target: Target, site: Site, tidy: None, called: Callable[[], object]
) -> None:
    facts = run(target, one_process(site, target, lambda: signal.signal(signal.SIGVTALRM, print), called))
    assert ask("interrupts", facts, "cheat").status is Status.PASSED


def test_another_switch_interval_is_a_suspicion_since_a_pool_of_threads_may_want_it(
    target: Target, site: Site, tidy: None
) -> None:
    found = ask(
        "interrupts", run(target, one_process(site, target, lambda: sys.setswitchinterval(1e-4), nothing)), "cheat"
    )
    assert (found.status, "switch interval" in found.evidence) == (Status.SUSPECT, True)


@pytest.mark.parametrize("called", [nothing, careful, gc.collect])
def test_a_rung_that_leaves_python_as_it_was_passes(target: Target, site: Site, tidy: None, called: Any) -> None:
    facts = run(target, one_process(site, target, gc.collect, called))
    assert ask("collector", facts, "cheat").status is Status.PASSED
    assert ask("interrupts", facts, "cheat").status is Status.PASSED


def sleep() -> None:
    time.sleep(0.04)


def paused(site: Site, target: Target, between: Callable[[], object] = sleep) -> dict[str, Any]:
    """Three long pauses between calls, by default as in turns with rivals."""
    sensor = statistical.Pauses(site)
    gc.disable()
    try:
        for _ in range(4):
            call = Call("timed", target.cases[0], [[]])
            sensor.before_call(call)
            sensor.after_call(call)
            between()
    finally:
        gc.enable()
    return plain(sensor.facts())


def test_pauses_in_which_a_thread_works_are_told_from_idle_ones(target: Target, site: Site) -> None:
    idle = paused(site, target)
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            math.factorial(500)

    helper = threading.Thread(target=work)
    helper.start()
    try:
        busy = paused(site, target)
    finally:
        over.set()
        helper.join()
    assert idle["gaps"] == busy["gaps"] == 3
    assert idle["busy_cores"] < busy["busy_cores"]


def test_what_the_next_sample_of_a_turn_needs_is_no_work_of_the_lesson(target: Target, site: Site) -> None:
    def make_ready() -> None:
        """Large inputs, filled anew; the thread does not wait for anybody meanwhile."""
        start_ns = time.thread_time_ns()
        while time.thread_time_ns() - start_ns < 1.5 * statistical.GAP_NS:
            math.factorial(500)

    busy = paused(site, target, make_ready)
    assert busy["gaps"] == 3
    assert busy["busy_cores"] < statistical.BUSY


def test_the_warm_up_is_no_pause(target: Target, site: Site) -> None:
    """There the collector is on, and what the process does then is asked for by the engine."""
    sensor = statistical.Pauses(site)
    for _ in range(3):
        call = Call("timed", target.cases[0], [[]])
        sensor.before_call(call)
        sensor.after_call(call)
        time.sleep(0.02)
    assert sensor.facts().gaps == 0


@pytest.mark.parametrize(
    ("busy", "gaps", "spins", "status"),
    [
        ([1.4, 0.9], 5, False, Status.CAUGHT),
        ([1.4, 0.1], 5, False, Status.PASSED),  # in one process only
        ([0.02, 0.01], 5, False, Status.PASSED),
        ([1.4, 0.9], 1, False, Status.NOT_APPLICABLE),
        ([1.4, 0.9], 5, True, Status.NOT_APPLICABLE),
    ],
)
def test_who_works_while_others_are_measured_is_caught(
    target: Target, busy: list[float], gaps: int, spins: bool, status: Status
) -> None:
    sensed = tuple(replica(pauses={"gaps": gaps, "gap_ns": 10**9, "busy_cores": one, "spins": spins}) for one in busy)
    assert ask("idle_between", run(target, arm(target, "cheat", sensed=sensed)), "cheat").status is status


def test_a_sensor_that_told_nothing_is_unavailable(target: Target) -> None:
    facts = run(target, arm(target, "cheat"))
    for check in ("collector", "interrupts", "idle_between"):
        assert ask(check, facts, "cheat").status is Status.UNAVAILABLE


# -- the machine's noise -----------------------------------------------------------------------------------------------


def loaded(target: Target, others_s: float, twin_ms: float, **fields: Any) -> RunFacts:
    before = {"busy_s": 0.0, "idle_s": 0.0, "own_s": 0.0}
    after = {"busy_s": others_s + 5.0, "idle_s": 95.0 - others_s, "own_s": 5.0}
    base = arm(target, "baseline", samples(noisy(24)), median_ms=1.0)
    twin = arm(target, "baseline (A/A)", samples(noisy(24)), median_ms=twin_ms)
    return run(target, base, twin, before=before, after=after, **fields)


def test_load_of_others_alone_is_told_and_suspect_only_where_the_baseline_differs_from_itself(target: Target) -> None:
    told = ask("background", loaded(target, 90.0, 1.05))
    assert (told.status, "90.0% of all processor time" in told.evidence) == (Status.PASSED, True)
    assert ask("background", loaded(target, 90.0, 1.5)).status is Status.SUSPECT
    assert ask("background", loaded(target, 40.0, 1.5)).status is Status.PASSED
    assert ask("background", loaded(target, 90.0, 1.5, validity="portable")).status is Status.PASSED
    without = replace(loaded(target, 90.0, 1.5), after={})
    assert ask("background", without).status is Status.UNAVAILABLE


def test_load_of_others_that_arms_met_is_no_pass(target: Target) -> None:
    facts = loaded(target, 76.8, 1.05)
    met = Quality(busy_factor=6.0, waited_share=0.835, others_cores=1.67, cores=2)
    busy = replace(facts, arms=(facts.arms[0], replace(facts.arms[1], quality=met)))
    found = ask("background", busy)
    assert (found.status, "76.8% of all processor time" in found.evidence) == (Status.UNAVAILABLE, True)
    assert ask("background", replace(busy, arms=busy.arms[1:])).status is Status.UNAVAILABLE  # and no A/A arm


def test_outliers_of_every_side_are_told(target: Target) -> None:
    times = np.ones(40)
    times[:4] = 9.0
    base, rung = arm(target, "baseline", samples(times)), arm(target, "optimized", samples(np.ones(40)))
    found = ask("outliers", run(target, base, rung))
    assert found.status is Status.PASSED
    assert "baseline 10.0%, optimized 0.0%" in found.evidence


# -- luck --------------------------------------------------------------------------------------------------------------


def history(speedups: list[float], code: bytes = b"optimized") -> tuple[dict[str, Any], ...]:
    digests = {"baseline": hashlib.sha256(b"baseline").hexdigest(), "optimized": hashlib.sha256(code).hexdigest()}
    return tuple(
        {
            "arms": {
                "baseline": {"median_ms": 2.0, "sources": digests["baseline"]},
                "optimized": {"median_ms": 2.0 / speedup, "sources": digests["optimized"]},
            }
        }
        for speedup in speedups
    )


@pytest.mark.parametrize(
    ("earlier", "now", "status"),
    [
        ([1.0, 1.02, 0.99, 1.01, 1.03], 3.0, Status.SUSPECT),
        ([1.0, 1.02, 0.99, 1.01, 1.03], 1.3, Status.PASSED),  # a good day, and no more
        ([1.0, 1.02, 0.99, 1.01, 1.03], 0.3, Status.PASSED),  # bad luck favours nobody
        ([1.0, 2.5, 1.01, 2.7, 1.03], 3.0, Status.PASSED),  # it was that fast before
        ([1.0, 1.02, 0.99, 1.01], 3.0, Status.NOT_APPLICABLE),
        ([], 3.0, Status.NOT_APPLICABLE),
    ],
)
def test_one_lucky_run_among_many_is_suspect(target: Target, earlier: list[float], now: float, status: Status) -> None:
    base, rung = (
        arm(target, "baseline", samples(np.full(24, 2.0))),
        arm(target, "optimized", samples(np.full(24, 2 / now))),
    )
    found = ask("luck", run(target, base, rung, history=history(earlier)), "optimized")
    assert found.status is status
    if status is Status.SUSPECT:
        assert "number 1 of 6 runs" in found.evidence


def test_runs_of_other_code_are_no_yardstick(target: Target) -> None:
    base, rung = arm(target, "baseline", samples(np.full(24, 2.0))), arm(target, "optimized", samples(np.full(24, 0.5)))
    facts = run(target, base, rung, history=history([1.0] * 6, code=b"before it was improved"))
    assert ask("luck", facts, "optimized").status is Status.NOT_APPLICABLE
