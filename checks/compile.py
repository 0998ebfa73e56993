"""Was what ran while it was timed the code that was verified, compiled before the clock started?

Each arm compiles in a process of its own, from prepare() or its first call, and that time is told apart as
`prepare_ms`; no sample contains it. What is left to ask: whether calls of one shape make new code for new values,
whether switches that decide about the numbers moved after the verification, and whether every replica's autotuner
chose the same.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

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
from aisp.store.outcomes import Timing

LEAST_COMPILED = 2  # samples that made code: one may be a branch of a library that no call had met before
MOST_WRAPPERS = 4  # autotuner and heuristics around a kernel
MOST_NAMED = 5  # switches that one finding names
TIMES_APART = 1.5  # medians of replicas that chose differently
EVERY = 8  # samples between two looks at all switches


def lesson_modules(site: Site) -> list[ModuleType]:
    """Modules that were imported from the lesson's folder."""
    prefix = str(site.folder) + os.sep
    return [m for m in list(sys.modules.values()) if str(getattr(m, "__file__", None) or "").startswith(prefix)]


# -- new code while the clock runs -------------------------------------------------------------------------------------

_watched: list[NewCode] = []
_hooked: list[bool] = []


def _audit(event: str, _: tuple[object, ...]) -> None:
    # Python calls this for every audited event of the process, so that it must cost nothing where it is not meant.
    if event == "compile":
        for sensor in _watched:
            sensor.sources += 1


class Stages(Facts, frozen=True, kw_only=True):
    """Samples by stage."""

    timed: int
    held_out: int

    @property
    def all(self) -> int:
        """Of both."""
        return self.timed + self.held_out


class NewCodeFacts(Facts, frozen=True, kw_only=True):
    """What was compiled while samples were taken.

    Attributes:
        samples: that were seen.
        compiled: those that compiled something.
        by: how much of what kind.
    """

    samples: Stages
    compiled: Stages
    by: dict[str, int]


class NewCode(Sensor[NewCodeFacts]):
    """Counts what was compiled during each timed and held-out sample: TorchDynamo, Triton, NVRTC, Python source."""

    name = "new_code"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.sources = 0
        self._kernels: list[Any] = []
        self._before: dict[str, int] = {}
        self._samples = {"timed": 0, "held_out": 0}
        self._compiled = {"timed": 0, "held_out": 0}
        self._by: dict[str, int] = {}

    def before_import(self) -> None:
        """See Sensor."""
        if not _hooked:
            sys.addaudithook(_audit)  # there is no way to take it back
            _hooked.append(True)
        _watched.append(self)

    def before_timing(self) -> None:
        """See Sensor."""
        self._kernels = [kernel for module in lesson_modules(self.site) for kernel in triton_kernels(module)]

    def before_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage in self._samples:
            self._before = self._counts()

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage not in self._samples:
            return
        self._samples[call.stage] += 1
        after = self._counts()
        made = {name: after[name] - self._before.get(name, 0) for name in after}
        if any(made.values()):
            self._compiled[call.stage] += 1
            for name, count in made.items():
                self._by[name] = self._by.get(name, 0) + count

    def _counts(self) -> dict[str, int]:
        found = {"Python sources": self.sources}
        dynamo = sys.modules.get("torch._dynamo.utils")
        if dynamo is not None:
            found["TorchDynamo frames"] = int(dynamo.counters["frames"]["total"])
        cuda = sys.modules.get("aisp.kernels.cuda")
        if cuda is not None:
            found["CUDA programs"] = len(cuda._loaded_kernels)
        if self._kernels:
            found["Triton kernels"] = sum(compiled_count(kernel) for kernel in self._kernels)
        return found

    def facts(self) -> NewCodeFacts:
        """See NewCodeFacts."""
        return NewCodeFacts(
            samples=Stages(timed=self._samples["timed"], held_out=self._samples["held_out"]),
            compiled=Stages(timed=self._compiled["timed"], held_out=self._compiled["held_out"]),
            by={name: count for name, count in self._by.items() if count},
        )


def triton_kernels(module: ModuleType) -> Iterator[Any]:
    """Triton's compiled functions among a module's globals, out of their autotuners; none is imported for it."""
    for value in list(vars(module).values()):
        current = value
        for _ in range(MOST_WRAPPERS):
            if _has(current, "device_caches"):
                yield current
                break
            current = getattr(current, "__dict__", {}).get("fn")


def compiled_count(kernel: Any) -> int:
    """How many variants of a Triton kernel this process has compiled."""
    total = 0
    for cache in dict(kernel.device_caches).values():
        total += len(cache[0] if isinstance(cache, tuple) else cache)
    return total


def _has(value: Any, name: str) -> bool:
    # Through the instance's own dictionary: proxies and modules answer getattr with work or exceptions.
    return name in getattr(value, "__dict__", {})


def new_code(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where in every replica calls of a shape that was verified compiled again."""
    if arm.timing is Timing.NONE:
        return not_applicable("it was not timed")
    told = [facts for facts in arm.facts(NewCode) if facts.samples.timed]
    if not told:
        return unavailable("no timed sample was seen")
    compiled = [facts.compiled.all for facts in told]
    samples = sum(facts.samples.all for facts in told)
    if min(compiled) >= LEAST_COMPILED:
        kinds: dict[str, int] = {}
        for facts in told:
            for name, count in facts.by.items():
                kinds[name] = kinds.get(name, 0) + count
        what = ", ".join(f"{count} {name}" for name, count in sorted(kinds.items()))
        timed = sum(facts.compiled.timed for facts in told)
        held_out = sum(facts.compiled.held_out for facts in told)
        return caught(
            f"code was made anew for inputs of a shape that was verified: {what}, in {timed} timed samples and in"
            f" {held_out} on values that were new; compiled code must follow shapes, never values"
        )
    return passed(
        f"nothing was compiled twice over {samples} samples" if not sum(compiled) else _rare(compiled, samples)
    )


def _rare(compiled: list[int], samples: int) -> str:
    return f"{sum(compiled)} of {samples} samples compiled something: seen for the first time, no habit"


# -- switches ----------------------------------------------------------------------------------------------------------


def switches(torch: Any) -> dict[str, str]:
    """Settings of this process that decide which code runs and how exactly it computes, as text."""
    backends = torch.backends
    found: dict[str, object] = {
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
        found["compiler.stance"] = getattr(stance, "stance", stance)
    for module, names in (
        ("torch._dynamo.config", ("disable", "suppress_errors", "recompile_limit")),
        ("torch._inductor.config", ("emulate_precision_casts", "use_fast_math", "fallback_random", "max_autotune")),
    ):
        loaded = sys.modules.get(module)
        if loaded is not None:
            found |= {f"{module[7:]}.{name}": getattr(loaded, name, None) for name in names}
    return {name: str(value) for name, value in found.items()}


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
    told = [facts for facts in arm.facts(Switches) if facts.looks]
    if not told:
        return unavailable("nothing was both verified and timed in one process")
    if all(facts.moved for facts in told):
        moved = told[0].moved
        named = "; ".join(f"{name} was {was}, then {now}" for name, (was, now) in list(moved.items())[:MOST_NAMED])
        return caught(f"what was timed is not what was verified: {named}; set a switch once, at import")
    return passed(
        f"{told[0].switches} switches stood while timed as while verified,"
        f" over {sum(facts.looks for facts in told)} looks"
    )


# -- autotuners --------------------------------------------------------------------------------------------------------


class ChoicesFacts(Facts, frozen=True, kw_only=True):
    """What autotuners chose.

    Attributes:
        tuners: how many were met.
        chosen: by the name of its variable, what it chose.
        median_ms: of this replica's samples; None where there is none.
    """

    tuners: int
    chosen: dict[str, str]
    median_ms: float | None


class Choices(Sensor[ChoicesFacts]):
    """What every autotuner of the lesson has chosen, by the name of its variable."""

    name = "choices"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._chosen: dict[str, str] = {}
        self._tuners = 0
        self._times_ms: list[float] = []

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage == "timed" and call.sample is not None and len(self._times_ms) < 4096:
            self._times_ms.append(call.sample.device_ms)

    def after_timing(self) -> None:
        """See Sensor."""
        for module in lesson_modules(self.site):
            for name, value in list(vars(module).items()):
                if _has(value, "best_config") and (_has(value, "configs") or _has(value, "cache")):
                    self._tuners += 1
                    self._chosen[f"{module.__name__}.{name}"] = str(value.best_config)[:200]

    def facts(self) -> ChoicesFacts:
        """See ChoicesFacts."""
        median_ms = statistics.median(self._times_ms) if self._times_ms else None
        return ChoicesFacts(tuners=self._tuners, chosen=self._chosen, median_ms=median_ms)


def choice(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where replicas chose differently and their times differ by more than half."""
    if arm.timing is Timing.NONE:
        return not_applicable("it was not timed")
    told = [(facts.median_ms, facts) for facts in arm.facts(Choices) if facts.median_ms]
    if not told:
        return unavailable("no timed sample was seen")
    if not any(facts.tuners for _, facts in told):
        return not_applicable("the rung has no autotuner that could be found")
    if len(told) < 2:
        return not_applicable("one replica chose once; run it with more to see whether others choose the same")
    told.sort(key=lambda timed: timed[0])
    (fast_ms, fast), (slow_ms, slow) = told[0], told[-1]
    names = [name for name, was in fast.chosen.items() if slow.chosen.get(name, was) != was]
    apart = slow_ms / fast_ms
    different = {str(sorted(facts.chosen.items())) for _, facts in told}
    if len(different) == 1:
        return passed(f"the autotuner chose the same in all {len(told)} replicas")
    if names and apart > TIMES_APART:
        name = names[0]
        return caught(
            f"{name} chose {fast.chosen[name]} in the replica that took {fast_ms:.3g} ms and"
            f" {slow.chosen[name]} in the one that took {slow_ms:.3g} ms; fix the choice"
        )
    return passed(f"replicas chose {len(different)} ways, whose times differ by {apart - 1:.0%}")


CHECKS: tuple[Check, ...] = (
    Check(
        "compile.new_code",
        "New code for new values",
        "Counts what TorchDynamo, Triton, NVRTC and Python's own compiler make while samples are taken. Shapes do not "
        "change there, so whoever compiles then has put values into the code.",
        ("compile.guard_failure_hidden", "compile.compilation_cache_hit", "location.jit_compilation_timing"),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=new_code,
        sensor=NewCode,
    ),
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
        "Compares what the autotuners of every replica chose, and the times of those replicas.",
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
        How.DETECTED,
        "Values differ from call to call and are new after the last sample, in one element at the least, so that what "
        "was stored for others is wrong.",
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
        How.DETECTED,
        "Whatever compiles while samples are taken, on known values or on new ones, is counted.",
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
