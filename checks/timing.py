"""Did all the work happen while the clock ran, and was it our clock?

The defences stand in the timer (engine.worker.timers): its clocks were taken before a lesson was imported, the hold
keeps every SM, so that nothing of another stream starts early, and each sample says what was still at work after its
end. The judges here look at that, at the engine's own clock, and at what no machine can do.

Margins are wide on purpose: a rung is caught where every replica says the same, by a distance no loaded host makes.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aisp.checks.registry import (
    Answer,
    ArmFacts,
    Call,
    Check,
    Evidence,
    Facts,
    How,
    Issue,
    Need,
    RunFacts,
    Sensor,
    Site,
    Sustained,
    When,
    caught,
    not_applicable,
    passed,
    suspect,
    unavailable,
)
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import Limiter, Timing

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Case
    from aisp.store.samples import Samples

MOST_SAMPLES = 4096  # whose figures a sensor keeps
LATE_LEAST_MS = 0.05  # asking an idle device takes some 10 us, and on a loaded host a few times that
LATE_SHARE = 0.1  # of the time that was claimed
LEFT_LEAST_MS = 0.3  # a thread that is about to end takes some 0.05 ms for it
THREAD_LEAST_MS = 0.2
THREAD_SHARE = 0.2
WALL_FACTOR = {"cuda": 2.0, "cpu": 3.0}  # a shared processor may well run at half its speed for a while
WALL_LEAST_MS = 0.05
# How much longer a call may take in the judge's batches than in the samples, where the baseline's does not: times the
# factor, and so much beside, for what lies between short calls in a row. Held on a GPU honest rungs of over 20 us were
# within 1.04, and shorter ones within 2.5 us (docs/threat_model.md). Where the host is in the time, and on a CPU, where
# samples begin with cold caches and a batch with inputs that were just written, a factor as wide as that of the
# engine's clock.
JUDGE_FACTOR = 1.25
JUDGE_LEAST_MS = 0.005
JUDGE_ERRORS = 3.0  # standard errors of both times
MOST_USUAL = 2.0  # times its samples that a baseline may take by the judge's clock and still speak for a rung that does
HOST_BOUND_MS = 1.0  # what a host may take to launch a call by itself: guards, Python, a chain of short kernels
SPEC_MARGIN = 1.05  # a datasheet's figures are met by nothing, its clocks drift by a few per cent
MEASURED_MARGIN = 1.15  # a measured ceiling is what one kernel reached
FEWEST_STEPS = 5  # of the clock
CLOCK_FACTOR = 1.25
# How far the SMs' timers may be from the events in one sample. What lies between a reading and its event is taken off
# as an empty pair reads it; behind a kernel it may be some us more or less (its last blocks drain, a graph comes to its
# end).
PROBE_LEAST_MS = 0.005
PROBE_SHARE = 0.01
PROBE_STEPS = 2  # of the SMs' timer: either reading may be one step late
PROBE_HOST_MS = 0.05  # where the stream is not held, the host launches between a reading and its event
PROBE_COARSE = 0.25  # of a sample: a band as wide as that finds nothing
PROBE_ODD_SHARE = 1 / 3  # of a replica's samples: a neighbour on the GPU comes in between now and then
FEWEST_READINGS = 20
DRIFT = 1.0
EVERY = 16  # samples between two looks that would cost too much for each

# -- what is still at work after the end -------------------------------------------------------------------------------


class IdleFacts(Facts, frozen=True, kw_only=True):
    """Medians over samples, of all calls of a sample together. They say nothing where `samples` is 0.

    Attributes:
        samples: how many were seen.
        total_ms: by the clock.
        lag_ms, usual_lag_ms: see engine.worker.timers.Sample; None on a CPU.
        beside_ms, left_ms: see there.
    """

    samples: int
    total_ms: float
    lag_ms: float | None
    usual_lag_ms: float | None
    beside_ms: float
    left_ms: float


class Idle(Sensor[IdleFacts]):
    """What each timed sample says of work that went on after its end."""

    name = "idle"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._rows: list[tuple[float, float, float, float, float]] = []  # in the order of IdleFacts

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        sample = call.sample
        if call.stage != "timed" or sample is None or len(self._rows) >= MOST_SAMPLES:
            return
        total_ms = sample.device_ms * max(1, len(call.outputs))
        self._rows.append((total_ms, sample.lag_ms, sample.usual_lag_ms, sample.beside_ms, sample.left_ms))

    def facts(self) -> IdleFacts:
        """See IdleFacts."""
        if not self._rows:
            return IdleFacts(samples=0, total_ms=0.0, lag_ms=None, usual_lag_ms=None, beside_ms=0.0, left_ms=0.0)
        total, lag, usual, beside, left = zip(*self._rows, strict=True)
        complete = not any(math.isnan(value) for value in (*lag, *usual))
        return IdleFacts(
            samples=len(self._rows),
            total_ms=statistics.median(total),
            lag_ms=statistics.median(lag) if complete else None,
            usual_lag_ms=statistics.median(usual) if complete else None,
            beside_ms=statistics.median(beside),
            left_ms=statistics.median(left),
        )


def device_idle(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where every replica saw work go on, on the GPU or in a Python thread, after its samples had ended."""
    if arm.timing is Timing.NONE:
        return not_applicable("it was not timed")
    replicas = [facts for facts in arm.facts(Idle) if facts.samples]
    if not replicas:
        return unavailable("no timed sample was seen")
    late = [_late(facts) for facts in replicas]
    if all(late):
        return caught(late[0])
    worst = max(replicas, key=lambda facts: (facts.lag_ms or 0.0) + facts.beside_ms)
    words = f"over {sum(facts.samples for facts in replicas)} samples no thread was left at work"
    if worst.lag_ms is not None and worst.usual_lag_ms is not None:
        words += (
            f", and the device was idle {_ms(worst.lag_ms)} after the timed stream was done"
            f" ({_ms(worst.usual_lag_ms)} where nothing was called)"
        )
    return passed(words)


def _late(facts: IdleFacts) -> str:
    """What went on after the end in one replica, as a sentence; "" where nothing did."""
    total_ms = facts.total_ms
    if facts.lag_ms is not None and facts.usual_lag_ms is not None:
        late_ms = facts.lag_ms - facts.usual_lag_ms
        if late_ms > max(LATE_LEAST_MS, 3 * facts.usual_lag_ms, LATE_SHARE * total_ms):
            return (
                f"the device worked on for {_ms(late_ms)} after a timed stream that took {_ms(total_ms)} was done:"
                " work on a stream that nothing waits for"
            )
    if facts.left_ms > LEFT_LEAST_MS:
        return (
            f"threads that began during the call stayed for {_ms(facts.left_ms)} and more when it had returned"
            f" after {_ms(total_ms)}"
        )
    if facts.beside_ms > max(THREAD_LEAST_MS, THREAD_SHARE * total_ms):
        return (
            f"Python threads worked {_ms(facts.beside_ms)} per sample while no clock ran,"
            f" beside {_ms(total_ms)} that were timed"
        )
    return ""


# -- the engine's own clock --------------------------------------------------------------------------------------------


def wall_clock(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where calls take far longer by the judge's clock than the samples say, and the baseline's do not.

    A baseline that is itself far off, on a busy machine or with launches that a GPU does not take ahead, excuses
    nothing beyond `MOST_USUAL`: neither "passed" nor "caught" would be true of such a rung.
    """
    if arm.timing is Timing.NONE:
        return not_applicable("it was not timed")
    judged = _by_the_judge(arm)
    if judged is None or not arm.median_ms:
        return _sustained(arm)
    time_ms, error = judged
    base, usual = run.baseline, 1.0
    if base is not None and base.median_ms and (theirs := _by_the_judge(base)):
        usual = max(1.0, theirs[0] * math.exp(JUDGE_ERRORS * theirs[1]) / base.median_ms)
    held = arm.timing.held
    factor, least_ms = (JUDGE_FACTOR, JUDGE_LEAST_MS) if held else (max(WALL_FACTOR.values()), WALL_LEAST_MS)
    words = f"{_ms(arm.median_ms)} by the samples, {_ms(time_ms)} by the judge's clock"
    if arm.timing.warm:
        return not_applicable(f"{words}: its samples find their data in the cache, and a batch has new ones")
    if arm.rung.role is Role.BASELINE:
        return passed(words)  # it claims nothing, and is what the others are held against
    least_told_ms = time_ms * math.exp(-JUDGE_ERRORS * error)
    if least_told_ms > factor * usual * arm.median_ms + least_ms:
        return caught(words + (f"; of the baseline {usual:.2f} times its samples" if usual > 1 else ""))
    if least_told_ms > factor * min(usual, MOST_USUAL) * arm.median_ms + least_ms:
        return unavailable(
            f"{words}, but the baseline took {usual:.2f} times its samples too: nothing to hold it against"
        )
    return passed(words)


def _by_the_judge(arm: ArmFacts) -> tuple[float, float] | None:
    """Time per call in ms by the judge's clock and its relative standard error."""
    quality = arm.quality
    if quality is None or not quality.outside_ms:
        return None
    return quality.outside_ms, quality.outside_error or 0.0


def _sustained(arm: ArmFacts) -> Answer:
    """Judge an arm that is judged inside: caught where calls in a row take far longer by the engine's clock than
    events and host time can explain.

    Samples of several launches together have the host's time of a replay and not that of a call by itself. A short call
    waits for its host when nothing holds the stream: then the engine's clock shows the host and not the device.
    """
    if not arm.sustained:
        return unavailable("neither the judge's clock nor the engine's saw its calls alone")
    factor = WALL_FACTOR.get(arm.device, max(WALL_FACTOR.values()))
    worst = max(arm.sustained, key=lambda each: _alone_ms(each) / max(_explained_ms(arm, each), 1e-9))
    words = (
        f"{_ms(worst.claimed_ms)} by the samples, {_ms(_alone_ms(worst))} by the engine's clock over {worst.calls}"
        f" calls (launching takes {_ms(worst.host_ms)})"
    )
    beyond = [_alone_ms(each) > factor * _explained_ms(arm, each) + WALL_LEAST_MS for each in arm.sustained]
    if all(beyond) and arm.timing.together and min(map(_alone_ms, arm.sustained)) <= HOST_BOUND_MS:
        return not_applicable(
            f"{words}: bound by its host, which launches one call by itself here and several together in the samples"
        )
    if all(beyond):
        return caught(f"{words}, in all {len(beyond)} replicas")
    return passed(words)


def _alone_ms(sustained: Sustained) -> float:
    return sustained.per_call_ms if sustained.alone_ms is None else sustained.alone_ms


def _explained_ms(arm: ArmFacts, sustained: Sustained) -> float:
    """What a call may take. On a CPU the host's time is that of all threads, and the clock's alone counts.

    There the slow tenth of the samples counts: a neighbour that came while they were taken may still be there.
    """
    if arm.device == "cuda":
        return max(sustained.claimed_ms, sustained.host_ms)
    if arm.samples is None:
        return sustained.claimed_ms
    import numpy as np  # listing the checks does not need it

    return max(sustained.claimed_ms, float(np.quantile(arm.samples.kept_ms, 0.9)))


def physics(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught beyond the datasheet, suspect beyond what was measured on this GPU."""
    if arm.median_ms is None or (arm.sol_spec is None and arm.sol_measured is None):
        return not_applicable("there is no bound for this case on this device")
    if arm.timing.warm:
        return not_applicable("with warm caches the data need not come from memory")
    least = _least_share(arm, run)
    if arm.sol_spec is not None and arm.sol_spec * least > SPEC_MARGIN:
        return caught(
            f"{_ms(arm.median_ms)} is {arm.sol_spec:.3g} times as fast as the datasheet allows:"
            f" at least {_ms(arm.median_ms * arm.sol_spec)} for these bytes and operations"
        )
    if arm.sol_measured is not None and arm.sol_measured * least > MEASURED_MARGIN:
        return suspect(
            f"{_ms(arm.median_ms)} is {arm.sol_measured:.3g} times as fast as the ceilings measured on this GPU;"
            " measure them again (aisp peak), or look for work that is not done"
        )
    if max(arm.sol_spec or 0.0, arm.sol_measured or 0.0) > SPEC_MARGIN:
        return passed(
            "faster than all of its bytes allow; static ones may be packed ahead: let the lesson state `bytes`"
        )
    shares = {"of the datasheet's bound": arm.sol_spec, "of the measured one": arm.sol_measured}
    return passed(", ".join(f"{share:.0%} {whose}" for whose, share in shares.items() if share is not None))


def _least_share(arm: ArmFacts, run: RunFacts) -> float:
    """What part of the bound holds whatever prepare() does: static inputs whose bytes nobody stated may be packed."""
    if arm.limiter not in (None, Limiter.BYTES) or run.target.bytes:
        return 1.0
    moved = catalog.bytes_moved(run.target, run.case)
    return catalog.bytes_moved(run.target, run.case, packed=True) / moved if moved else 1.0


# -- the GPU's second clock --------------------------------------------------------------------------------------------


def two_clocks(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where events and SM timers disagree in most replicas, suspect in fewer or where the timers fell silent."""
    if arm.timing is Timing.NONE or arm.samples is None:
        return not_applicable("it was not timed")
    replicas = _by_both(arm, arm.samples)
    if not replicas:
        return unavailable("every sample was set aside")
    silent = [each for each in replicas if each.unread > PROBE_ODD_SHARE]
    if silent:
        if len(silent) < len(replicas) or any(_reads(other) for other in run.arms if other.arm != arm.arm):
            return suspect(
                f"the SMs' timers fell silent in {silent[0].unread:.0%} of {silent[0].samples} samples, and not"
                " elsewhere in this run: nothing says that its events tell the truth"
            )
        return unavailable("the SMs' timers could not be read: it takes cuda.core, NVRTC and a GPU that has them")
    if not arm.probe_step_ms:
        return unavailable("the SMs' timers were not seen to step, so their differences say nothing")
    worst = max(replicas, key=lambda each: each.odd)
    step = f"steps of {_ms(arm.probe_step_ms)}"
    if worst.coarse:
        return unavailable(f"the SMs' timers go in {step}, too coarse for a sample of {_ms(worst.event_ms)}")
    overhead = "" if arm.probe_overhead_ms is None else f"{_ms(arm.probe_overhead_ms)} around nothing taken off, "
    words = (
        f"{_ms(worst.event_ms)} by events, {_ms(worst.probe_ms)} by the SMs' timers over {worst.samples} samples"
        f" ({overhead}{step})"
    )
    beyond = sum(each.odd > PROBE_ODD_SHARE for each in replicas)
    if not beyond:
        return passed(words)
    words += f"; over {_ms(worst.band_ms)} apart in {worst.odd:.0%} of them, in {beyond} of {len(replicas)} replicas"
    return caught(words) if 2 * beyond > len(replicas) else suspect(words)


@dataclass(frozen=True, slots=True)
class _Both:
    """One replica by both clocks: medians over its samples, of all calls of a sample together.

    Attributes:
        unread: share of samples without a reading of the SMs' timers.
        odd: share of those with one in which the clocks are further apart than the band.
        coarse: the timer's step alone makes the band too wide.
    """

    samples: int
    unread: float
    event_ms: float = math.nan
    probe_ms: float = math.nan
    band_ms: float = math.nan
    odd: float = 0.0
    coarse: bool = False


def _by_both(arm: ArmFacts, taken: Samples) -> list[_Both]:
    """Every replica that has samples which count."""
    import numpy as np  # listing the checks does not need it

    step_ms, held = arm.probe_step_ms or 0.0, not arm.timing.endswith("+host")
    replicas: list[_Both] = []
    for replica in np.unique(taken.replica[taken.discarded == 0]):
        these = (taken.discarded == 0) & (taken.replica == replica)
        event_ms, probe_ms = taken.device_ms[these] * arm.calls, taken.probe_ms[these] * arm.calls
        read = np.isfinite(probe_ms)
        count, unread = len(read), float(1 - read.mean())
        if not read.any():
            replicas.append(_Both(count, unread))
            continue
        event_ms, probe_ms = event_ms[read], probe_ms[read]
        band_ms = PROBE_LEAST_MS + PROBE_SHARE * event_ms + PROBE_STEPS * step_ms + (0.0 if held else PROBE_HOST_MS)
        odd = np.abs(probe_ms - event_ms) > band_ms
        typical_ms = float(np.median(event_ms))
        replicas.append(
            _Both(
                count,
                unread,
                typical_ms,
                float(np.median(probe_ms)),
                float(np.median(band_ms)),
                float(odd.mean()),
                PROBE_STEPS * step_ms > max(PROBE_COARSE * typical_ms, PROBE_LEAST_MS),
            )
        )
    return replicas


def _reads(arm: ArmFacts) -> bool:
    """Whether the SMs' timers were read in the samples of this arm."""
    import numpy as np  # listing the checks does not need it

    return arm.samples is not None and bool(np.isfinite(arm.samples.probe_ms).any())


# -- profilers ---------------------------------------------------------------------------------------------------------

_INJECTING = (
    "CUDA_INJECTION64_PATH",
    "NVTX_INJECTION64_PATH",
    "CUDA_INJECTION32_PATH",
    "NV_NSIGHT_INJECTION_PORT_BASE",
)
_INJECTED = ("libtoolsinjection", "libnsys", "libnvperf", "libcuinj64", "libsanitizer", "libinterceptor")


def _profilers() -> list[str]:
    """What slows down Python or torch in this process now."""
    running = []
    if sys.getprofile() is not None:
        running.append("sys.setprofile")
    if sys.gettrace() is not None:
        running.append("sys.settrace")
    tools = getattr(sys, "monitoring", None)  # Python 3.12
    if tools is not None:
        names = [tools.get_tool(number) for number in range(6)]
        in_use = (name for number, name in enumerate(names) if name and tools.get_events(number))
        running += [f"sys.monitoring ({name})" for name in in_use]
    malloc = sys.modules.get("tracemalloc")
    if malloc is not None and malloc.is_tracing():
        running.append("tracemalloc")
    import torch  # a sensor runs in a worker, which has it

    if torch._C._autograd._profiler_enabled():
        running.append("torch's profiler")
    if torch.is_anomaly_enabled():
        running.append("autograd's anomaly mode")
    return running


class ProfilersFacts(Facts, frozen=True, kw_only=True):
    """What watches the process.

    Attributes:
        outside: what was there before the lesson was.
        on: what the lesson left on, and when it was seen.
    """

    outside: list[str]
    on: dict[str, str]


class Profilers(Sensor[ProfilersFacts]):
    """Profilers and traces that are on while nobody asked for them."""

    name = "profilers"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._outside: list[str] = []
        self._running: dict[str, str] = {}
        self._calls = 0

    def before_import(self) -> None:
        """See Sensor."""
        self._outside = _profilers() + [name for name in _INJECTING if os.environ.get(name)]

    def _look(self, when: str) -> None:
        for name in _profilers():
            if name not in self._outside:
                self._running.setdefault(name, when)

    def after_import(self) -> None:
        """See Sensor."""
        self._look("after the import")

    def after_prepare(self, case: Case, buffers: Sequence[object]) -> None:
        """See Sensor."""
        self._look("after prepare()")

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        self._calls += 1
        if call.stage == "verify" or self._calls % EVERY == 0:
            self._look("between calls")

    def after_timing(self) -> None:
        """See Sensor."""
        self._look("after the last sample")
        try:
            mapped = Path("/proc/self/maps").read_text(errors="replace").lower()
        except OSError:  # no /proc: the environment's names still tell
            return
        self._outside += [name for name in _INJECTED if name in mapped]

    def facts(self) -> ProfilersFacts:
        """See ProfilersFacts."""
        return ProfilersFacts(outside=self._outside, on=self._running)


def profilers(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where the rung left a profiler on; suspect where one was there before it."""
    replicas = arm.facts(Profilers)
    for facts in replicas:
        if on := facts.on:
            return caught("left on: " + ", ".join(f"{name} ({when})" for name, when in on.items()))
    for facts in replicas:
        if facts.outside:
            return suspect(f"the worker was started under {', '.join(facts.outside)}: unset it and run again")
    return passed("no profiler, trace or injected library was on")


# -- what the samples themselves say -----------------------------------------------------------------------------------


def steady(arm: ArmFacts, run: RunFacts) -> Answer:
    """Suspect where a GPU's samples at the end take half or twice what they took at the start."""
    if arm.device != "cuda":
        return not_applicable("a processor shared with others changes its speed by itself")
    drift = arm.quality.drift if arm.quality is not None else None
    if drift is None:
        return not_applicable("there are too few rounds to tell a beginning from an end")
    words = f"the last third of the rounds took {drift:+.1%} against the first"
    if not -DRIFT / (1 + DRIFT) < drift < DRIFT:
        return suspect(f"{words}: what is timed changes while it is timed")
    return passed(words)


def resolution(arm: ArmFacts, run: RunFacts) -> Answer:
    """Suspect where a sample is a few steps of the clock: then the number is the clock's and not the rung's."""
    step_ms = arm.quality.resolution_ms if arm.quality is not None else None
    if arm.median_ms is None or not step_ms:
        return not_applicable("it was not timed, or the clock's step is not known")
    total_ms = arm.median_ms * arm.calls
    many = "call" if arm.calls == 1 else "calls"
    words = f"a sample of {arm.calls} {many} lasts {_ms(total_ms)}, {total_ms / step_ms:.3g} steps of the clock"
    if total_ms < FEWEST_STEPS * step_ms:
        return suspect(f"{words}: too few to call it a time")
    return passed(words)


def boost(arm: ArmFacts, run: RunFacts) -> Answer:
    """Suspect where the GPU's own counters say a far higher clock in the samples than the driver says all along."""
    if arm.samples is None or run.telemetry is None:
        return not_applicable("there are no samples, or no readings of the driver beside them")
    import numpy as np  # listing the checks does not need it

    at = run.telemetry.at(arm.samples.end_ns)
    own, driver = np.asarray(arm.samples.sm_clock_mhz), np.asarray(at.sm_clock_mhz)
    both = np.isfinite(own) & np.isfinite(driver) & (driver > 0)
    readings = len(set(np.asarray(at.at_ns)[both].tolist()))
    if readings < FEWEST_READINGS:
        return not_applicable(f"only {readings} readings of the driver fall among the samples")
    ratio = float(np.median(own[both] / driver[both]))
    words = f"{float(np.median(own[both])):.0f} MHz in the samples, {float(np.median(driver[both])):.0f} by the driver"
    if ratio > CLOCK_FACTOR:
        return suspect(f"{words}: the clock is raised while the timer runs")
    return passed(words)


def _ms(value: float) -> str:
    if value < 0.001:
        return f"{value * 1e6:.0f} ns"
    if value < 0.1:
        return f"{value * 1e3:.3g} us"
    return f"{value:.3g} ms"


_STREAMS = ("timing.unsynced_streams", "timing.incomplete_async_ops")

CHECKS: tuple[Check, ...] = (
    Check(
        "timing.device_idle",
        "Nothing works after the end",
        "After each sample the whole device is waited for, beyond the timed stream, and Python threads are looked at."
        " What is still at work then was not timed.",
        (
            *_STREAMS,
            "timing.event_timing_gaps",
            "timing.python_thread",
            "timing.graph_on_other_stream",
            "cuda.host_callback_escape",
            "cuda.persistent_kernel",
            "cuda.async_memcpy_incomplete",
            "cuda.cooperative_launch_abuse",
            "cuda.undeclared_multi_gpu",
        ),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=device_idle,
        sensor=Idle,
    ),
    Check(
        "timing.wall_clock",
        "A clock in another process agrees",
        "The judge times calls on inputs that nobody has seen, from its own process, which no kernel can reach. They"
        " cannot take much longer than the samples say, unless the baseline's do too (up to twice: beyond that nothing"
        " follows). Of a rung that is judged inside the engine times calls in a row; one whose samples are several"
        " launches together is bound by its host there, and nothing is said of it.",
        (
            *_STREAMS,
            "timing.event_timing_gaps",
            "timing.clock_drift",
            "timing.timer_granularity",
            "timing.graph_on_other_stream",
            "cuda.host_callback_escape",
            "cuda.persistent_kernel",
            "cuda.cooperative_launch_abuse",
            "memory.pinned_memory_timing",
        ),
        When.AFTER_RUN,
        evidence=Evidence.TIME,
        arm=wall_clock,
    ),
    Check(
        "timing.two_clocks",
        "Events and the SMs' timers agree",
        "The timers of all SMs are read before and after each pair of events, by a kernel of ours. The time between the"
        " readings, less what it is around nothing, must be that between the events.",
        ("timing.bent_events", "timing.event_timing_gaps"),
        When.EACH_SAMPLE,
        evidence=Evidence.TIME,
        needs=(Need.GPU,),
        arm=two_clocks,
    ),
    Check(
        "timing.physics",
        "Not faster than the hardware",
        "Bytes over bandwidth and operations over peak give a least time. Below the datasheet's it is no result; below"
        " what was measured on this GPU it needs a second look.",
        ("timing.faster_than_physics", *_STREAMS, "timing.graph_on_other_stream"),
        When.AFTER_RUN,
        evidence=Evidence.TIME,
        arm=physics,
    ),
    Check(
        "timing.profilers",
        "No profiler is on",
        "Python's profile and trace hooks, torch's profiler, traced allocations and injected libraries slow down what"
        " they watch, and seldom both sides alike.",
        ("timing.profiler_overhead",),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=profilers,
        sensor=Profilers,
    ),
    Check(
        "timing.steady",
        "The first samples are like the last",
        "A time that halves or doubles over a replica's rounds is not the time of one thing.",
        ("timing.warmup_bleed",),
        When.AFTER_RUN,
        evidence=Evidence.TIME,
        needs=(Need.GPU,),
        arm=steady,
    ),
    Check(
        "timing.resolution",
        "Long enough for the clock",
        "A sample must be many steps of the clock that took it; short calls are timed several at once.",
        ("timing.timer_granularity",),
        When.AFTER_RUN,
        evidence=Evidence.TIME,
        arm=resolution,
    ),
    Check(
        "timing.boost",
        "The clock is the same between samples",
        "The SM clock during samples, by the GPU's own counters, against the driver's readings over the whole run.",
        ("timing.boost_while_timed",),
        When.AFTER_RUN,
        evidence=Evidence.TIME,
        needs=(Need.GPU,),
        arm=boost,
    ),
    Check(
        "timing.clock_sanity",
        "Times are possible",
        "A time of zero, below zero or NaN, or more measured time than the wall clock has, ends the arm.",
        ("timing.event_timing_gaps", "timing.clock_drift"),
        When.EACH_SAMPLE,
        evidence=Evidence.VALUES,
        refuses=True,
    ),
)

ISSUES: tuple[Issue, ...] = (
    Issue(
        "timing.unsynced_streams",
        "The work runs on a stream that the timed one does not wait for, and the clock stops without it.",
        How.DETECTED,
        "The hold fills every SM, so nothing on another stream starts before the clock does; after each sample the"
        " device is waited for as a whole and the lag is kept; the engine's clock and physics disagree with the claim.",
        "timing/unsynced_streams",
    ),
    Issue(
        "timing.incomplete_async_ops",
        "The call returns a promise: graph, copy, future or thread finish after the second time stamp.",
        How.DETECTED,
        "Lag of the device and processor time of Python threads after the end, sample by sample; on the GPU also the"
        " engine's clock over calls in a row.",
        "timing/incomplete_async_ops",
    ),
    Issue(
        "timing.event_timing_gaps",
        "Events are recorded or read so that the work lies outside of the pair.",
        How.PREVENTED,
        "Events are recorded, queried and subtracted through the C extension on the default stream, by references"
        " taken before the import; replaced Python functions change no number.",
        "timing/event_timing_gaps",
    ),
    Issue(
        "timing.timer_granularity",
        "The clock is too coarse for the call, and its last step decides the result.",
        How.PREVENTED,
        "Short calls are timed several at once until a sample is long; the clock's step is measured and kept, and a"
        " sample of a few steps is suspect. A clock that a lesson has made coarse is not the one that we read.",
        "timing/timer_granularity",
    ),
    Issue(
        "timing.warmup_bleed",
        "Results of the warm-up are kept, and the timed calls only fetch them.",
        How.OUTSIDE,
        "Each call gets fresh values in poisoned outputs, and the judge's batches are on values that were never there:"
        " there is nothing to fetch.",
        "timing/warmup_bleed",
    ),
    Issue(
        "timing.clock_drift",
        "The clock that measures runs slow, jumps, or is set while it measures.",
        How.PREVENTED,
        "All times are monotonic clocks or the GPU's own events, held before the import; two processes keep two clocks"
        " that must agree, and an impossible time ends the arm.",
        "timing/clock_drift",
    ),
    Issue(
        "timing.profiler_overhead",
        "A profiler or trace is on for one side and slows it down.",
        How.PREVENTED,
        "Every arm has a process of its own, so what one leaves on cannot slow another; what it leaves on is named.",
        "timing/profiler_overhead",
    ),
    Issue(
        "timing.python_thread",
        "A thread started by the call does the work, and is waited for when somebody looks at the result.",
        How.DETECTED,
        "Threads that begin in a timed call are watched for a moment when it has returned; of those that live on the"
        " time is kept that they work while no clock runs.",
        "timing/python_thread",
        listed=False,
    ),
    Issue(
        "timing.function_mode",
        "A mode that was entered and never left intercepts every torch function, those of the judges included.",
        How.OUTSIDE,
        "Expected values and comparisons live in another process; what a mode does when an output is looked at is in"
        " the judge's batch, or comes too late.",
        "timing/function_mode",
        listed=False,
    ),
    Issue(
        "timing.uncounted_copies",
        "Copies that a harness takes off a kernel's time are left out by the kernel's own process.",
        How.OUTSIDE,
        "The judge measures what such copies take for itself, and a verdict must hold with all of them counted as the"
        " rung's own time.",
        "timing/uncounted_copies",
        listed=False,
    ),
    Issue(
        "timing.graph_on_other_stream",
        "A captured graph is replayed on a stream that nothing waits for.",
        How.DETECTED,
        "To the device a graph is work like any other: the lag, the engine's clock and physics see it.",
        "timing/graph_on_other_stream",
        listed=False,
    ),
    Issue(
        "timing.faster_than_physics",
        "The time is shorter than the bytes need to cross the memory bus.",
        How.DETECTED,
        "Share of the speed of light above 1.05 by the datasheet is no result; every cheat that hides a large call from"
        " the clock ends here at the latest.",
        "timing/unsynced_streams",
        listed=False,
    ),
    Issue(
        "timing.bent_events",
        "What the driver says lies between two events is bent below Python, in the memory of the libraries that ask.",
        How.DETECTED,
        "The SMs' own timers are read around every pair of events and must agree with it; a verdict must hold in SM"
        " cycles, which are counted between the same readings and not taken from the events.",
        "timing/bent_events",
        listed=False,
    ),
    Issue(
        "timing.boost_while_timed",
        "The clock is raised for the samples and falls between them.",
        How.DETECTED,
        "The SM clock is read by the GPU's own counters in each sample and by the driver all along; setting it takes"
        " root. tests/checks/test_timing.py shows both readings to the judge.",
        listed=False,
    ),
)
