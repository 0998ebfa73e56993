"""Was what ran while it was timed the code that was verified, compiled before the clock started?

Each arm compiles in a process of its own, from prepare() or its first call, and that time is reported apart as
`prepare_ms`; no sample contains it. What is left to ask: whether switches that decide about the numbers moved after the
verification, and whether every replica's autotuner chose the same.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

from aisp.checks.registry import (
    Answer,
    ArmFacts,
    Call,
    Check,
    Evidence,
    Facts,
    How,
    Issue,
    RunFacts,
    Sensor,
    Site,
    When,
    caught,
    not_applicable,
    passed,
    unavailable,
)
from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import Timing

MOST_NAMED = 5  # switches that one finding names
TIMES_APART = 1.5  # medians of replicas that chose differently
EVERY = 8  # samples between two looks at all switches


def lesson_modules(site: Site) -> list[ModuleType]:
    """Modules that were imported from the lesson's folder."""
    prefix = str(site.folder) + os.sep
    return [m for m in list(sys.modules.values()) if str(getattr(m, "__file__", None) or "").startswith(prefix)]


# -- switches ----------------------------------------------------------------------------------------------------------


def switches(torch: Any) -> dict[str, str]:
    """Settings of this process that decide which code runs and how exactly it computes, as text."""
    backends = torch.backends
    settings: dict[str, object] = {
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "grad_mode": torch.is_grad_enabled(),
        "default_dtype": torch.get_default_dtype(),
        "num_threads": torch.get_num_threads(),
        "autocast_cpu": torch.is_autocast_enabled("cpu"),
        "autocast_cuda": torch.is_autocast_enabled("cuda"),
        "flush_denormal": _flushes_denormals(torch),
        "mkldnn": torch._C._get_mkldnn_enabled(),
        "cudnn": backends.cudnn.enabled,
        "cudnn.benchmark": backends.cudnn.benchmark,
        "cudnn.tf32": torch._C._get_cudnn_allow_tf32(),
        "fp16_reduction": torch._C._get_cublas_allow_fp16_reduced_precision_reduction(),
        "bf16_reduction": torch._C._get_cublas_allow_bf16_reduced_precision_reduction(),
    }
    stance = getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None)
    if stance is not None:
        settings["compiler.stance"] = getattr(stance, "stance", stance)
    for module, names in (
        ("torch._dynamo.config", ("disable", "suppress_errors", "recompile_limit")),
        ("torch._inductor.config", ("emulate_precision_casts", "use_fast_math", "fallback_random", "max_autotune")),
    ):
        loaded = sys.modules.get(module)
        if loaded is not None:
            settings |= {f"{module[7:]}.{name}": getattr(loaded, name, None) for name in names}
    return {name: str(value) for name, value in settings.items()}


def _flushes_denormals(torch: Any) -> bool:
    return bool((torch.tensor([1e-40]) * 1.0).item() == 0.0)


class SwitchesFacts(Facts, frozen=True, kw_only=True):
    """The switches while timed.

    Attributes:
        looks: how often was looked.
        switches: how many there are.
        moved: a switch to its values while verified and while timed, where they differ.
    """

    looks: int
    switches: int
    moved: dict[str, tuple[str, str]]


class Switches(Sensor[SwitchesFacts]):
    """The switches as they stood at the end of the verification, and where they differ while timed."""

    name = "switches"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._torch: Any = None
        self._verified: dict[str, str] = {}
        self._looks = 0
        self._samples = 0
        self._moved: dict[str, tuple[str, str]] = {}

    def before_import(self) -> None:
        """See Sensor."""
        import torch  # only workers have it

        self._torch = torch

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage == "verify":
            self._verified = switches(self._torch)
            return
        self._samples += 1
        # Often at first, where what was verified ends and what is timed begins, then now and then.
        if self._samples <= EVERY or self._samples % EVERY == 0:
            self._compare()

    def after_timing(self) -> None:
        """See Sensor."""
        self._compare()

    def _compare(self) -> None:
        if not self._verified:
            return
        self._looks += 1
        now = switches(self._torch)
        for name, value in now.items():
            was = self._verified.get(name, value)  # of a module that was not loaded then, nothing is known
            if value != was and name not in self._moved:
                self._moved[name] = (was, value)

    def facts(self) -> SwitchesFacts:
        """See SwitchesFacts."""
        return SwitchesFacts(looks=self._looks, switches=len(self._verified), moved=self._moved)


def mode(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where a switch stood otherwise while timed than while verified."""
    if arm.timing is Timing.NONE:
        return not_applicable("it was not timed")
    replicas = [facts for facts in arm.facts(Switches) if facts.looks]
    if not replicas:
        return unavailable("nothing was both verified and timed in one process")
    if all(facts.moved for facts in replicas):
        moved = replicas[0].moved
        named = "; ".join(f"{name} was {was}, then {now}" for name, (was, now) in list(moved.items())[:MOST_NAMED])
        return caught(f"what was timed is not what was verified: {named}; set a switch once, at import")
    return passed(
        f"{replicas[0].switches} switches stood while timed as while verified,"
        f" over {sum(facts.looks for facts in replicas)} looks"
    )


# -- autotuners --------------------------------------------------------------------------------------------------------


class ChoicesFacts(Facts, frozen=True, kw_only=True):
    """What autotuners chose.

    Attributes:
        tuners: how many were met.
        chosen: by the name of its variable, what it chose.
    """

    tuners: int
    chosen: dict[str, str]


def _has(value: Any, name: str) -> bool:
    # Through the instance's own dictionary: proxies and modules answer getattr with work or exceptions.
    return name in getattr(value, "__dict__", {})


class Choices(Sensor[ChoicesFacts]):
    """What every autotuner of the lesson has chosen, by the name of its variable."""

    name = "choices"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._chosen: dict[str, str] = {}
        self._tuners = 0

    def after_timing(self) -> None:
        """See Sensor."""
        for module in lesson_modules(self.site):
            for name, value in list(vars(module).items()):
                if _has(value, "best_config") and (_has(value, "configs") or _has(value, "cache")):
                    self._tuners += 1
                    self._chosen[f"{module.__name__}.{name}"] = str(value.best_config)[:200]

    def facts(self) -> ChoicesFacts:
        """See ChoicesFacts."""
        return ChoicesFacts(tuners=self._tuners, chosen=self._chosen)


class _Process(NamedTuple):
    """One process of an arm.

    Attributes:
        chosen: what its autotuners chose, by the names of their variables.
        times: time per call by its samples and by the judge's clock, in ms, and each of these over the baseline's in
            the same replica; None where there is none.
    """

    chosen: tuple[tuple[str, str], ...]
    times: tuple[float | None, ...]

    def over(self, other: _Process) -> float:
        """How many times as long as the other one it takes, by whatever says least: one clock is the rung's, the other
        has few batches, and a neighbour may have slowed the baseline too."""
        return min((mine / its for mine, its in zip(self.times, other.times, strict=True) if mine and its), default=1.0)


def _replica_ms(arm: ArmFacts) -> list[dict[int, float]]:
    """Median time per call of each replica, by its samples and by the judge's clock, where it is above zero."""
    samples: dict[int, list[float]] = {}
    judged: dict[int, list[float]] = {}
    if arm.samples is not None:
        kept = arm.samples.discarded == 0
        for replica, ms in zip(arm.samples.replica[kept].tolist(), arm.samples.kept_ms.tolist(), strict=True):
            samples.setdefault(replica, []).append(ms)
    for replica, ms in arm.judged_ms:
        judged.setdefault(replica, []).append(ms)
    medians = [{replica: statistics.median(ms) for replica, ms in each.items()} for each in (samples, judged)]
    return [{replica: ms for replica, ms in each.items() if ms > 0} for each in medians]


def _processes(arm: ArmFacts, arms: Sequence[ArmFacts]) -> list[_Process]:
    """Timed processes of one of these arms that sent facts. Raises what ArmFacts.facts() does."""
    arm.facts(Choices)
    mine, theirs = _replica_ms(arm), [dict[int, float]()] * 2
    if arm.rung.role is not Role.BASELINE:
        theirs = next((_replica_ms(each) for each in arms if each.rung.role is Role.BASELINE), theirs)
    processes: list[_Process] = []
    for sensed in arm.sensed:
        times = [each.get(sensed.replica) for each in mine]
        bases = [each.get(sensed.replica) for each in theirs]
        over = [ms / base_ms if ms and base_ms else None for ms, base_ms in zip(times, bases, strict=True)]
        if times[0] and (facts := sensed.of(Choices)) is not None:
            processes.append(_Process(tuple(sorted(facts.chosen.items())), (*times, *over)))
    return processes


def choice(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where all processes that chose one way take far longer than all that chose another.

    Asked again in a fresh process it is so of all together, and of two slow ones at least: one alone may have had a
    neighbour that nobody else had.
    """
    if arm.timing is Timing.NONE:
        return not_applicable("it was not timed")
    processes = _processes(arm, run.arms)
    if not processes:
        return unavailable("no timed sample was seen")
    processes += [one for before in run.earlier if before.arm == arm.arm for one in _processes(before, run.earlier)]
    ways: dict[tuple[tuple[str, str], ...], list[_Process]] = {}
    for process in processes:
        ways.setdefault(process.chosen, []).append(process)
    if not any(ways):
        return not_applicable("the rung has no autotuner that could be found")
    if len(processes) < 2:
        return not_applicable("one replica chose once; run it with more to see whether others choose the same")
    if len(ways) == 1:
        return passed(f"the autotuner chose the same in all {len(processes)} replicas")
    fast: list[_Process] = []
    slow: list[_Process] = []
    for way in ways.values():
        behind = [other for other in ways.values() if _apart(other, way) > TIMES_APART]
        if sum(map(len, behind)) > len(slow):
            fast, slow = way, [one for other in behind for one in other]
    if not slow:
        count = len(processes)
        return passed(f"{count} replicas chose {len(ways)} ways, of which none takes {TIMES_APART} times another")
    words = _differ(fast[0], slow[0])
    if run.again and len(slow) < 2:
        return passed(f"of {len(processes)} replicas one alone was slow: {words}")
    return caught(f"{words}; fix the choice")


def _apart(slow: Sequence[_Process], fast: Sequence[_Process]) -> float:
    """How many times as long as any of the fast ones each of the slow ones takes at least."""
    return min(one.over(other) for one in slow for other in fast)


def _differ(fast: _Process, slow: _Process) -> str:
    mine, theirs = dict(fast.chosen), dict(slow.chosen)
    name = next(name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name))
    return (
        f"{name} chose {mine.get(name, 'nothing')} in a replica that took {fast.times[0]:.3g} ms and"
        f" {theirs.get(name, 'nothing')} in one that took {slow.times[0]:.3g} ms, {slow.over(fast):.3g} times as long"
        " by whatever clock says least"
    )


CHECKS: tuple[Check, ...] = (
    Check(
        "compile.mode",
        "Verified and timed in one mode",
        "Compares the switches that decide which code runs and how exactly it computes, as they stood while the rung "
        "was verified and while it was timed.",
        ("compile.mode_inconsistency",),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=mode,
        sensor=Switches,
    ),
    Check(
        "compile.choice",
        "Autotuners that agree",
        "Compares what the autotuners of every replica chose, and the times of those replicas: by the samples, by the "
        "judge's clock, and over the baseline's in the same replica. It accuses where all of these are far apart.",
        ("compile.autotuning_variance",),
        When.AFTER_RUN,
        evidence=Evidence.TIME,
        arm=choice,
        sensor=Choices,
    ),
)

ISSUES: tuple[Issue, ...] = (
    Issue(
        "compile.compilation_cache_hit",
        "A cache that should hold code holds results, and hands them out for inputs that look alike.",
        How.OUTSIDE,
        "Batches that the judge times are on values that nobody had: what was stored for others is wrong there, or of "
        "no use.",
        "compile/compilation_cache_hit",
    ),
    Issue(
        "compile.trace_reuse",
        "A trace keeps what its first inputs led to, and replays that for others.",
        How.PREVENTED,
        "Inputs are refilled after prepare() and before every call: what a trace has baked in belongs to values that "
        "are gone.",
        "compile/trace_reuse",
    ),
    Issue(
        "compile.mode_inconsistency",
        "One mode is verified and another is timed.",
        How.DETECTED,
        "Outputs of timed calls must have the fingerprints of verified ones, and switches may not move in between.",
        "compile/mode_inconsistency",
    ),
    Issue(
        "compile.inductor_asymmetry",
        "The compiler optimises one side more than the other, because one changed its settings for both.",
        How.PREVENTED,
        "Baseline and rung live in processes of their own: settings, compiled code and caches in memory are not shared "
        "(tests/checks/test_compile.py).",
    ),
    Issue(
        "compile.guard_failure_hidden",
        "Code is compiled again for each value, outside of what is looked at.",
        How.OUTSIDE,
        "All values of the judge's batches are new, and compiling for them is in their time.",
        "compile/guard_failure_hidden",
    ),
    Issue(
        "compile.autotuning_variance",
        "An autotuner picks another kernel in every process, and the best pick is reported.",
        How.DETECTED,
        "Every replica is a new process, all of them count, and their choices are compared.",
        "compile/autotuning_variance",
    ),
    Issue(
        "compile.symbolic_shape_exploit",
        "One shape gets other code than the rest: right where it is judged, quick where it is timed.",
        How.PREVENTED,
        "The timed shape itself is judged in full, and so are untimed ones of odd sizes.",
        "compile/symbolic_shape_exploit",
    ),
)
