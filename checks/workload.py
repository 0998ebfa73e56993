"""Workload: was all of the declared work done, in the declared precision, by the code that claims it?

Less work than declared is wrong work: every element of every output, timed shapes included, is judged by
`output.values` against the reference, with values that come afresh after prepare(). What a tolerance leaves room for
is looked at here: lower precision, results left out for being small, precision switches of the whole process, and
rungs that claim kernels of their own and let a library do the work.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aisp.checks import libraries
from aisp.checks.output import Figure, declared, shares
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
    suspect,
)
from aisp.kernels.catalog.model import Case, Kind, Role
from aisp.store.outcomes import FindingStatus

# -- precision of the outputs ------------------------------------------------------------------------------------------

PRECISION_WORDS = (
    "bf16", "fp16", "fp8", "tf32", "bfloat16", "float16", "float8", "half", "int8", "int4", "mixed-precision",
    "mixed precision", "lower-precision", "lower precision", "low precision", "low-precision", "reduced precision",
    "quantis", "quantiz",
)  # fmt: skip
ALL_NARROW = 0.999  # of the elements are representable: nothing is left of a wide computation
TRUTH_WIDE = 0.5  # of the truth's elements may be representable by themselves
NARROW_ERROR = 1.5e-4  # RMS error over RMS: fp16 rounds by 2.1e-4, bf16 by 1.7e-3, TF32 products by 2e-4
TIMES_BASELINE = 30


def _precision(arm: ArmFacts, run: RunFacts) -> Answer:
    wide = [spec.name for spec in run.target.outputs if spec.dtype in ("float32", "float64")]
    if not wide:
        return not_applicable("no output is declared float32 or wider")
    if not arm.compared:
        return not_applicable("no output was compared in full")
    if arm.refusal is not None:
        return not_applicable("its outputs were refused")
    word = declared(arm, run, PRECISION_WORDS)
    if word:
        return not_applicable(f"the lesson says that it lowers the precision ({word})")
    base = run.baseline
    control = base if base is not None and base is not arm and base.compared else None
    for narrow in _NARROW:
        usual = _representable(control, run, narrow) if control is not None else {}
        for name, (share, truth) in _representable(arm, run, narrow).items():
            if name not in wide or share < ALL_NARROW or truth > TRUTH_WIDE:
                continue
            if name in usual and usual[name][0] >= ALL_NARROW:
                continue  # then it is the task's own
            return caught(
                f"{share:.1%} of {name} is exactly representable in {narrow}, where {truth:.1%} of the truth is: it "
                f"was computed in {narrow} and cast up. If the lesson means to, its techniques should say so"
            )
    blurred = _blurred(arm, control, run, wide)
    if blurred:
        return suspect(blurred)
    return passed("the outputs use the digits of their dtype")


_NARROW: dict[Figure, Figure] = {"fp16": "fp16_truth", "bf16": "bf16_truth", "fp32": "fp32_truth"}


def _representable(arm: ArmFacts, run: RunFacts, narrow: Figure) -> dict[str, tuple[float, float]]:
    """By output: the share of its elements that fit `narrow`, and of the truth's; medians over the comparisons."""
    by_output: dict[str, list[tuple[float, ...]]] = {}
    for name, pair in shares(arm, run, narrow, _NARROW[narrow]):
        by_output.setdefault(name, []).append(pair)
    return {
        name: (statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs))
        for name, pairs in by_output.items()
    }


def _blurred(arm: ArmFacts, control: ArmFacts | None, run: RunFacts, wide: Sequence[str]) -> str:
    """An error of the size that lower precision makes inside, far above the baseline's: a sentence, or ""."""
    if control is None:
        return ""
    for name in wide:
        own = [pair[0] for output, pair in shares(arm, run, "rms_error") if output == name]
        usual = [pair[0] for output, pair in shares(control, run, "rms_error") if output == name]
        if not own or not usual:
            continue
        error, base_error = statistics.median(own), statistics.median(usual)
        if error > NARROW_ERROR and error > TIMES_BASELINE * base_error:
            return (
                f"the RMS error of {name} is {error:.2g} of its RMS, the baseline's {base_error:.2g}: so much is lost "
                "by lower precision or by an approximation inside, and the lesson says of neither"
            )
    return ""


# -- results left out --------------------------------------------------------------------------------------------------

DROPPED = 0.01
SHORTCUT_WORDS = ("sparse", "sparsity", "prun", "skip", "early exit", "early-exit", "approximat", *PRECISION_WORDS)


def _dropped(arm: ArmFacts, run: RunFacts) -> Answer:
    if arm.refusal is not None:
        return not_applicable("its outputs were refused")
    outputs = list(shares(arm, run, "dropped"))
    if not outputs:
        return not_applicable("no floating-point output was compared in full")
    name, (worst,) = max(outputs, key=lambda item: item[1][0])
    if worst < DROPPED:
        return passed(f"{worst:.2%} of {name} is zero where the truth is not")
    word = declared(arm, run, SHORTCUT_WORDS)
    if word:
        return passed(f"{worst:.1%} of {name} is zero where the truth is not, as the lesson says ({word})")
    base = run.baseline
    if base is not None and base is not arm and base.compared:
        usual = max((share for _, (share,) in shares(base, run, "dropped")), default=0.0)
        if usual * 3 > worst:
            return passed(f"{worst:.1%} of {name} is zero where the truth is not, and {usual:.1%} of the baseline's")
    return caught(
        f"{worst:.1%} of {name} is exactly zero where the truth is above a thousandth of its RMS: these elements were "
        "left out, and the lesson does not say so"
    )


# -- switches of the whole process -------------------------------------------------------------------------------------

# What decides digits; the others decide speed alone.
DIGITS = ("precision", "tf32", "reduced", "denormal", "default dtype", "autocast")
_SETTERS = {  # with how the same is read
    "_set_float32_matmul_precision": "_get_float32_matmul_precision",
    "_set_cublas_allow_tf32": "_get_cublas_allow_tf32",
    "_set_cudnn_allow_tf32": "_get_cudnn_allow_tf32",
    "_set_fp32_precision_setter": "_get_fp32_precision_getter",
}
_FEWER_DIGITS = {"True": 0, "medium": 0, "bf16": 0, "high": 1, "tf32": 1}  # by what a switch says; all else: in full


POLICY_EACH = 16  # of the first timed samples every one, then one of so many: a reading takes 0.2 ms


_FP32 = (("generic", "cuda", "mkldnn"), ("all", "matmul", "conv", "rnn"))  # backends and operations


def fewer_digits(old: str, new: str) -> bool:
    """Whether a switch that says so leaves products fewer digits than before."""
    return _FEWER_DIGITS.get(new, 2) < _FEWER_DIGITS.get(old, 2)


class PolicyFacts(Facts, frozen=True, kw_only=True):
    """The switches as text, by name: {} where they were not read then.

    Attributes:
        before: before the import.
        prepared: after prepare().
        verified: after the last verified call.
        timed: after timed calls, where they were otherwise than verified, else at the end.
        turned: setters that were called inside of timed calls for fewer digits than before the import, and how often.
    """

    before: dict[str, str]
    prepared: dict[str, str]
    verified: dict[str, str]
    timed: dict[str, str]
    turned: dict[str, int]


class Policy(Sensor[PolicyFacts]):
    """Reads torch's switches before the import, after prepare(), around each call, and counts who turns them."""

    name = "policy"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        import torch  # sensors live in the worker

        self._readers = _readers(torch)
        self._states: dict[str, dict[str, str]] = {}
        self._stage = "import"
        self._samples = 0
        self._turned: dict[str, dict[str, int]] = {}

    def before_import(self) -> None:
        import torch  # sensors live in the worker

        self._states["before"] = self._read()
        for name, reader in _SETTERS.items():
            setter, getter = getattr(torch._C, name, None), getattr(torch._C, reader, None)
            if setter is not None and getter is not None:
                setattr(torch._C, name, self._counting(setter, getter, name.removeprefix("_set_")))
        torch.set_flush_denormal = self._counting(torch.set_flush_denormal, lambda: False, "flush_denormal")

    def _counting(self, setter: Callable[..., Any], getter: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The setter, which counts who asks for fewer digits than there were: who asks for more, and gives back what
        was, computes what it was asked for.
        """
        before: dict[tuple[Any, ...], str] = {}
        for which in itertools.product(*_FP32) if name == "fp32_precision_setter" else [()]:
            with contextlib.suppress(RuntimeError):  # there is none of these two
                before[which] = str(getter(*which))

        @functools.wraps(setter)
        def counted(*arguments: Any) -> Any:
            if arguments and fewer_digits(before.get(arguments[:-1], ""), str(arguments[-1])):
                turned = self._turned.setdefault(self._stage, {})
                turned[name] = turned.get(name, 0) + 1
            return setter(*arguments)

        return counted

    def after_prepare(self, case: Case, buffers: Sequence[object]) -> None:
        self._states["prepared"] = self._read()

    def before_timing(self) -> None:
        self._stage = "warm-up"

    def before_call(self, call: Call) -> None:
        self._stage = call.stage

    def after_call(self, call: Call) -> None:
        self._stage = "between"
        if call.stage == "timed":
            self._samples += 1
            if self._samples > POLICY_EACH and self._samples % POLICY_EACH:
                return
        state = self._read()
        if call.stage == "verify":
            self._states["verified"] = state
        elif state != self._states.get("verified", state):
            self._states["timed"] = state

    def after_timing(self) -> None:
        self._states.setdefault("timed", self._read())

    def _read(self) -> dict[str, str]:
        return {name: _or_unknown(reader) for name, reader in self._readers.items()}

    def facts(self) -> PolicyFacts:
        states = self._states
        return PolicyFacts(
            before=states.get("before", {}),
            prepared=states.get("prepared", {}),
            verified=states.get("verified", {}),
            timed=states.get("timed", {}),
            turned=self._turned.get("timed", {}),
        )


def _or_unknown(reader: Callable[[], object]) -> str:
    try:
        return str(reader())
    except (RuntimeError, AttributeError):
        # Mixing torch's old and new names of one switch makes reading the other one an error.
        return "unreadable"


def _readers(torch: Any) -> dict[str, Callable[[], object]]:
    """How each switch is read; a few microseconds for all."""
    backends = torch.backends
    probe = torch.full((1,), 1e-39)
    return {
        "float32 matmul precision": torch._C._get_float32_matmul_precision,
        "matmul tf32": torch._C._get_cublas_allow_tf32,
        "cudnn tf32": torch._C._get_cudnn_allow_tf32,
        "fp32 precision": lambda: backends.fp32_precision,
        "cuda matmul fp32 precision": lambda: backends.cuda.matmul.fp32_precision,
        "cudnn conv fp32 precision": lambda: backends.cudnn.conv.fp32_precision,
        "mkldnn matmul fp32 precision": lambda: backends.mkldnn.matmul.fp32_precision,
        "fp16 reduced precision": lambda: backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
        "bf16 reduced precision": lambda: backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
        "cudnn benchmark": torch._C._get_cudnn_benchmark,
        "cudnn deterministic": torch._C._get_cudnn_deterministic,
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
        "default dtype": torch.get_default_dtype,
        "autocast on the CPU": lambda: torch.is_autocast_enabled("cpu"),
        "autocast on the GPU": lambda: torch.is_autocast_enabled("cuda"),
        "flushed denormals": lambda: float(probe * 0.5) == 0.0,
        "threads": torch.get_num_threads,
    }


def _policy(arm: ArmFacts, run: RunFacts) -> Answer:
    count = 0
    left: dict[str, str] = {}
    for facts in arm.facts(Policy):
        before, verified, timed = facts.before, facts.verified, facts.timed
        count = max(count, len(before))
        if verified and timed:
            drifted = _differences(verified, timed)
            if drifted:
                return caught(
                    f"between verification and timing {', '.join(drifted.values())}: another program was timed"
                )
        word = declared(arm, run, (*PRECISION_WORDS, "flush", "denormal", "fast-math"))
        if facts.turned and not word:
            times = ", ".join(f"{name} {number} times" for name, number in facts.turned.items())
            return caught(f"switches of the whole process were turned to fewer digits inside timed calls: {times}")
        if before and (verified or timed) and not word:
            later = verified or timed
            for name, difference in _differences(before, later).items():
                unclear = "dtype" in name or "unreadable" in (before[name], later[name])
                if any(part in name for part in DIGITS) and (unclear or fewer_digits(before[name], later[name])):
                    left[name] = difference
    if left:
        return suspect(
            f"the lesson changed the whole process: {', '.join(left.values())}; the baseline ran without. "
            "Its techniques should say so"
        )
    return passed(f"{count} switches of torch were the same before the import, while verified and while timed")


def _differences(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    return {
        name: f"{name} went from {old[name]} to {new[name]}" for name in old if name in new and old[name] != new[name]
    }


# -- own kernels -------------------------------------------------------------------------------------------------------


UNWRITTEN_TRIES = 3


class Verified(Facts, frozen=True, kw_only=True):
    """Verified calls, and launches of the rung's own kernels in them."""

    calls: int
    launches: int


class Later(Facts, frozen=True, kw_only=True):
    """The rung's own launches, and replays of graphs, in a call after the timing."""

    launches: int
    replays: int


class LaunchesFacts(Facts, frozen=True, kw_only=True):
    """Launches of the rung's own kernels.

    Attributes:
        tried, done: launches, and those that did not fail.
        verified: how many of them.
        later: None where no such call was made.
        without: whether a call gives the same outputs with its kernels held back; None where that says nothing.
        recorded: None where no call was recorded.
        compiled: whether the rung brings compiled code of its own.
    """

    tried: int
    done: int
    verified: Verified
    later: Later | None
    without: bool | None
    recorded: libraries.Recorded | None
    compiled: bool


class Launches(Sensor[LaunchesFacts]):
    """Counts launches of the rung's own kernels: Triton's and those through cuda.core, outside of timed calls.

    Of a rung that brings compiled code of its own, one call after the timing is recorded: which library worked in it.
    So is one of a rung that compiles with NVRTC where there is time for it.
    """

    name = "launches"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._tried = 0
        self._done = 0
        self._replays = 0
        self._mark = 0
        self._verified_calls = 0
        self._verified_launches = 0
        self._later: Later | None = None
        self._without: bool | None = None
        self._held_back = False
        self._patched: list[tuple[Any, str, Any]] = []
        self._recorded: libraries.Recorded | None = None
        self._compiled = False

    def before_import(self) -> None:
        if self.site.rung.kind is not Kind.TORCH:
            self._patch()

    def _patch(self) -> None:
        """Count from now on. Wrappers stand in classes and modules that a rung looks into for every launch."""
        if self.site.rung.kind is Kind.TRITON:
            from triton.runtime import interpreter, jit  # seconds, and only where the rung imports it anyway

            for kind in (jit.JITFunction, interpreter.InterpretedFunction):
                self._wrap(kind, "run")
        else:
            from aisp.kernels import cuda  # as above

            self._wrap(cuda._core(), "launch")
        if self.site.device == "cuda":
            import torch  # sensors live in the worker

            self._wrap(torch.cuda.CUDAGraph, "replay", replay=True)

    def _wrap(self, owner: Any, name: str, *, replay: bool = False) -> None:
        original = getattr(owner, name)
        self._patched.append((owner, name, original))

        @functools.wraps(original)
        def counted(*arguments: Any, **named: Any) -> Any:
            if replay:
                self._replays += 1
                return original(*arguments, **named)
            if named.get("warmup"):
                return original(*arguments, **named)
            self._tried += 1
            result = None if self._held_back else original(*arguments, **named)
            self._done += 1
            return result

        setattr(owner, name, counted)

    def _unpatch(self) -> None:
        for owner, name, original in self._patched:
            setattr(owner, name, original)
        self._patched.clear()

    def before_call(self, call: Call) -> None:
        if call.stage == "verify":
            self._mark = self._done

    def after_call(self, call: Call) -> None:
        if call.stage == "verify":
            self._verified_calls += 1
            self._verified_launches += self._done - self._mark

    def before_timing(self) -> None:
        self._unpatch()

    def after_timing(self) -> None:
        site = self.site
        self._look_without(site.call_once)
        if site.launch_once is None:
            return
        stems = [path.stem for path in site.folder.glob("*.py")]
        self._compiled = libraries.brings_code(site.folder, site.rung.name, stems)
        if self._compiled or site.rung.kind is Kind.CUDA:
            self._recorded = libraries.record(site.device, site.launch_once, alone=site.target.ranks == 1)

    def _look_without(self, once: Callable[..., Any] | None) -> None:
        if self.site.rung.kind is Kind.TORCH or once is None:
            return
        self._patch()
        try:
            done, replays = self._done, self._replays
            outputs = once()
            self._later = Later(launches=self._done - done, replays=self._replays - replays)
            if outputs is not None and self._later.launches and not self._later.replays:
                held = [outputs]
                del outputs
                self._without = self._same_without(once, held)
        finally:
            self._unpatch()

    def _same_without(self, once: Callable[..., Any], held: list[Any]) -> bool | None:
        """Whether calls whose launches are held back give the same, in memory that held nothing of it.

        What was returned last is poisoned and given back before each: an output that nobody wrote is the allocator's
        last block, and that may hold the answer of some earlier call for a first time, not for three. What a kernel
        leaves for an operator to finish may lie there for longer, so in the end a whole call on other values comes in
        between: only who needs no kernel still has the answer to the first ones. None where other values make no
        difference.
        """
        import torch  # sensors live in the worker

        def as_list(returned: Any) -> list[Any]:
            return list(returned) if isinstance(returned, (tuple, list)) else [returned]

        def poison(outputs: list[Any]) -> None:
            for output in outputs:
                output.fill_(math.nan if output.is_floating_point() else 1)

        outputs = as_list(held.pop())
        kept = [output.clone() for output in outputs]
        poison(outputs)
        del outputs

        def same(returned: list[Any]) -> bool:
            return all(torch.equal(a, b) for a, b in zip(kept, returned, strict=True))

        def same_held_back() -> bool:
            self._held_back = True
            try:
                again = as_list(once())
            except Exception:
                return False  # it needs what its kernels return or write, whatever the exception is
            finally:
                self._held_back = False
            if not same(again):
                return False
            poison(again)
            return True

        if not all(same_held_back() for _ in range(UNWRITTEN_TRIES)):
            return False
        between = as_list(once(1))
        if same(between):
            return None
        poison(between)
        del between
        return same_held_back()

    def facts(self) -> LaunchesFacts:
        return LaunchesFacts(
            tried=self._tried,
            done=self._done,
            verified=Verified(calls=self._verified_calls, launches=self._verified_launches),
            later=self._later,
            without=self._without,
            recorded=self._recorded,
            compiled=self._compiled,
        )


_OTHER_WAYS = re.compile(rb"cpp_extension|load_inline|cupy|pycuda|cutlass|ctypes|CachingAutotuner|RawKernel")
_BY_DEVICE = re.compile(rb"is_cuda|\.device\b|is_available")


def _laundered(arm: ArmFacts, run: RunFacts) -> Answer | None:
    """The answer for a rung that brings compiled code of its own; None for any other."""
    recordings = [facts.recorded for facts in arm.facts(Launches) if facts.compiled and facts.recorded is not None]
    if not recordings:
        return None
    first = min(recordings, key=lambda recorded: recorded.hidden)
    if not first.library:
        return passed(f"{first.how} shows no library at work in a call, {first.total_ms:.3g} ms long")
    seen = (
        f"{first.hidden:.0%} of a recorded call of {first.total_ms:.3g} ms is a library's work that compiled "
        f"code called, and {first.shown:.0%} such that Python called, by {first.how}: "
        f"{', '.join(first.library)}"
    )
    if first.hidden < libraries.LAUNDERED:
        return passed(seen)
    word = declared(arm, run, libraries.SAYS_SO)
    if word:
        return passed(f"{seen}; the lesson says so ({word})")
    if arm.rung.role is Role.BASELINE:
        return passed(f"{seen}; a baseline claims no kernel")
    return caught(f"{seen}. It claims the work for itself; if it means to call a library, its summary should say so")


def _own_kernels(arm: ArmFacts, run: RunFacts) -> Answer:
    if arm.rung.kind is Kind.TORCH and not arm.sensed:
        return not_applicable("it claims no kernel of its own")
    laundered = _laundered(arm, run)
    counted = arm.rung.kind is not Kind.TORCH and any(facts.done for facts in arm.facts(Launches))
    if laundered is not None and (laundered[0] is FindingStatus.CAUGHT or not counted):
        return laundered
    if arm.rung.kind is Kind.TORCH:
        return not_applicable("it claims no kernel of its own")
    code = b"\n".join(data for name, data in run.files.items() if name.endswith(".py")) or arm.source.encode()
    if arm.rung.kind is Kind.CUDA and _OTHER_WAYS.search(code):
        return not_applicable("its kernels are started in a way that is not counted here")
    replicas = arm.facts(Launches)
    kind = "Triton" if arm.rung.kind is Kind.TRITON else "CUDA"
    calls = sum(facts.verified.calls for facts in replicas)
    launches = sum(facts.verified.launches for facts in replicas)
    tried, done = sum(facts.tried for facts in replicas), sum(facts.done for facts in replicas)
    if not calls:
        return not_applicable("it was not verified")
    if not done:
        if tried:
            return caught(f"each of {tried} launches of its {kind} kernels failed; something else gave the result")
        if run.device == "cpu" and _BY_DEVICE.search(code):
            return not_applicable("it starts its kernels on a GPU only")
        return caught(f"it imports {kind} and started none of its kernels in {calls} verified calls: a library worked")
    if tried > done and not launches:
        return caught(
            f"{tried - done} of {tried} launches of its {kind} kernels failed, none in a verified call did not"
        )
    later = [facts.later for facts in replicas if facts.later is not None and facts.verified.launches]
    if any(not call.launches and not call.replays for call in later):
        return caught(f"it started {launches} {kind} kernels while verified and none in a call after the timing")
    if any(facts.without for facts in replicas):
        return caught(
            f"with its {kind} kernels held back a call gives the same outputs bit for bit: they are decoys, and "
            "something else does the work"
        )
    return passed(f"{launches} launches of its own {kind} kernels in {calls} verified calls, {done} in all")


# -- what there is -----------------------------------------------------------------------------------------------------

CHECKS: tuple[Check, ...] = (
    Check(
        "workload.precision",
        "Digits of the declared dtype",
        "Outputs declared float32 or wider whose every element fits fp16 or bf16, where the truth does not, were "
        "computed in that dtype and cast up.",
        ("workload.precision_mismatch",),
        When.AFTER_RUN,
        evidence=Evidence.VALUES,
        arm=_precision,
    ),
    Check(
        "workload.dropped",
        "Nothing left out for being small",
        "Exact zeros where the truth is above a thousandth of its RMS are elements that nobody computed, though the "
        "tolerance may take them.",
        ("workload.undeclared_shortcuts", "workload.sparsity_mismatch"),
        When.AFTER_RUN,
        evidence=Evidence.VALUES,
        arm=_dropped,
    ),
    Check(
        "workload.policy",
        "Torch's switches stand still",
        "Matmul precision, TF32, reduced precision, flushed denormals, default dtype, autocast, determinism and "
        "threads are read before the import, after prepare() and after each call, and whoever turns them to fewer "
        "digits inside a timed call is counted. To ask for more digits than torch does by itself is nobody's fault.",
        ("workload.backend_precision_policy_drift", "output.denormalized_values"),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=_policy,
        sensor=Policy,
    ),
    Check(
        "workload.own_kernels",
        "The kernels that it claims",
        "A rung that imports Triton or brings CUDA must start kernels of its own while it is verified, and still after "
        "the timing; a launch that fails and is swallowed does not count. Of one that opens compiled code of its own a "
        "call is recorded, and nine tenths of it must not be the work of a library that the lesson does not name.",
        (
            "workload.library_laundering",
            "workload.swallowed_fallback",
            "workload.decoy_kernel",
            "workload.laundered_extension",
        ),
        When.AFTER_PREPARE,
        evidence=Evidence.WORK,
        arm=_own_kernels,
        sensor=Launches,
    ),
)


def _issue(name: str, what: str, answer: str, how: How = How.DETECTED, *, listed: bool = True) -> Issue:
    return Issue(f"workload.{name}", what, how, answer, f"workload/{name}", listed)


ISSUES: tuple[Issue, ...] = (
    _issue(
        "precision_mismatch",
        "The work is declared in one precision and done in a lower one.",
        "Tolerances are by dtype and relative; outputs that fit a narrower dtype, while the truth does not, show it.",
    ),
    _issue(
        "backend_precision_policy_drift",
        "A switch of the whole process lowers the precision, for one side or while the clock runs.",
        "Each arm has a process of its own, and torch's switches are read throughout.",
    ),
    _issue(
        "undeclared_shortcuts",
        "Elements are skipped and nobody is warned.",
        "Each element is judged; those left zero within the tolerance are counted.",
    ),
    _issue(
        "early_exit",
        "A loop ends before its last iteration.",
        "The reference takes all of them, and the tolerance is relative to the size of the outputs.",
    ),
    _issue(
        "batch_shrinking",
        "Only some samples of the batch are computed.",
        "The output's shape is the declared one and each of its elements is judged, on the timed shape too.",
    ),
    _issue(
        "sequence_truncation",
        "Only a part of the sequence is read.",
        "The reference reads all of it; what the rest contributes must be there, relative to the size of the outputs.",
    ),
    _issue(
        "hidden_downsampling",
        "A smaller problem is solved and its result blown up.",
        "Each element is judged against the reference at full resolution.",
    ),
    _issue(
        "sparsity_mismatch",
        "Weights or results are thinned out more than declared.",
        "The reference is dense; each element is judged, and zeros in excess are counted.",
    ),
    _issue(
        "attention_mask_mismatch",
        "Another mask than declared decides what attention sees.",
        "The reference applies the declared mask, and each element is judged.",
    ),
    _issue(
        "kv_cache_size_mismatch",
        "Fewer cached keys and values are read than there are.",
        "The reference reads all of them, and each element is judged relative to the size of the outputs.",
    ),
    _issue(
        "train_test_overlap",
        "What is measured has learnt the very values that it is asked about.",
        "The judge's batches are on values that nobody has seen: what was learnt is wrong there, or of no use.",
        How.OUTSIDE,
    ),
    _issue(
        "zero_gradients",
        "The backward pass returns zeros.",
        "A lesson with gradients declares them as outputs; they are judged relative to their own size.",
        listed=False,
    ),
    _issue(
        "folded_weights",
        "Inputs that change are folded into a result ahead of the call as if they were constants.",
        "After prepare() every input that is not static gets fresh values.",
        listed=False,
    ),
    _issue(
        "library_laundering",
        "A rung shows a kernel and calls a library.",
        "Launches of its own kernels are counted while it is verified and again after the timing.",
        listed=False,
    ),
    _issue(
        "swallowed_fallback",
        "The kernel fails, the exception is swallowed and a library gives the result.",
        "A launch counts when it returns.",
        listed=False,
    ),
    _issue(
        "laundered_extension",
        "A C++ extension, or a library that the rung built, calls a library and does nothing itself.",
        "One call is recorded after the timing: kernels by their names on a GPU, torch's operators on a CPU.",
        listed=False,
    ),
    _issue(
        "decoy_kernel",
        "A kernel of its own is started on something that nobody reads.",
        "After the timing one call is made with its launches held back; if its outputs stay the same, they are decoys.",
        listed=False,
    ),
)
