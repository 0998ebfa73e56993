"""Output: is what came back a result, and of these inputs?

Most of it is a defence. Expected values never exist in the process that runs the kernel; what a call returned is judged
whole, by raw bytes of the declared form, against an fp64 reference; values, buffers and single elements change between
calls; what the call before returned is overwritten first. The judges here look at what a right output can still
hide: memory that was never written, values too small to be judged by their size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from aisp.checks.registry import (
    TIMED,
    Answer,
    ArmFacts,
    Check,
    Evidence,
    Facts,
    How,
    Issue,
    RunFacts,
    Sensor,
    Unavailable,
    When,
    caught,
    not_applicable,
    passed,
    suspect,
)

LEAST_COUNT = 256  # elements: below that no share says anything

# -- figures of the verifier's comparisons, for this category and `workload` -------------------------------------------


Figure = Literal[
    "count", "zero", "zero_truth", "nan", "nan_truth", "dropped", "rms_error", "subnormal", "subnormal_truth",
    "fp16", "fp16_truth", "bf16", "bf16_truth", "fp32", "fp32_truth",
]  # fmt: skip
"""What engine.worker.verifier.figures tells of an output, and says what it is."""


def shares(
    arm: ArmFacts, run: RunFacts, *wanted: Figure, timed: bool = False
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Per comparison and output that has all of the `wanted` figures: the output's name, and them.

    Args:
        timed: of the timed case alone.
    """
    for figures in arm.compared:
        if timed and not figures.get(TIMED, 1.0):
            continue
        for spec in run.target.outputs:
            values = tuple(figures.get(f"{spec.name}.{what}") for what in wanted)
            if all(value is not None for value in values) and figures.get(f"{spec.name}.count", 0) >= LEAST_COUNT:
                yield spec.name, tuple(float(value) for value in values if value is not None)


def declared(arm: ArmFacts, run: RunFacts, words: tuple[str, ...]) -> str:
    """The word of `words` that the front matter says of this lesson or rung, "" where it says none of them."""
    text = " ".join((*run.target.techniques, arm.rung.summary)).lower()
    return next((word for word in words if word in text), "")


# -- poison ------------------------------------------------------------------------------------------------------------


class PoisonFacts(Facts, frozen=True, kw_only=True):
    """See checks.registry.Poisoned."""

    calls: int
    kept: int


class Poison(Sensor[PoisonFacts]):
    """What the worker itself overwrote between calls."""

    name = "poison"

    def facts(self) -> PoisonFacts:
        """See PoisonFacts."""
        return PoisonFacts(calls=self.site.poisoned.calls, kept=self.site.poisoned.kept)


def _poison(arm: ArmFacts, run: RunFacts) -> Answer:
    replicas = arm.facts(Poison)
    calls, kept = sum(facts.calls for facts in replicas), sum(facts.kept for facts in replicas)
    for name, (share, truth) in shares(arm, run, "nan", "nan_truth"):
        if share > truth and kept:
            return caught(
                f"{share:.1%} of {name} is NaN where the reference has {truth:.1%}: what a call returned is "
                f"overwritten with NaN before the next one, and {kept} of {calls} calls returned that memory again"
            )
    if not calls:
        return not_applicable("nothing could be overwritten: one call at most, or outputs that are its inputs")
    return passed(f"what a call returned was overwritten before the next, {calls} times; {kept} used that memory again")


# -- subnormals --------------------------------------------------------------------------------------------------------

LEAST_SUBNORMAL = 0.005
FLUSHED = 0.1  # of the truth's share
FLUSH_WORDS = ("flush", "ftz", "daz", "fast-math", "fast math")


def _subnormals(arm: ArmFacts, run: RunFacts) -> Answer:
    if run.device != "cpu" and not run.target.on_host:
        return not_applicable("on a GPU subnormals cost nothing, and its fast functions flush them")
    # Where no time is taken they cost none. Torch's compiler has a CPU flush them: who uses it gains nothing.
    pairs = list(shares(arm, run, "subnormal", "subnormal_truth", timed=True))
    if not pairs:
        return not_applicable("no floating-point output of the timed case was compared")
    name, (output, truth) = max(pairs, key=lambda item: item[1][1] - item[1][0])
    if truth < LEAST_SUBNORMAL:
        return passed(f"{max(share for _, (_, share) in pairs):.2%} of the truth is subnormal")
    if output > truth * FLUSHED:
        return passed(f"{output:.1%} of {name} is subnormal, as {truth:.1%} of the truth")
    word = declared(arm, run, FLUSH_WORDS)
    if word:
        return passed(f"{truth:.1%} of the truth of {name} is subnormal and was flushed, as the lesson says ({word})")
    base = run.baseline
    if base is not None and base is not arm and base.compared:
        theirs = shares(base, run, "subnormal", "subnormal_truth", timed=True)
        kept = max((share for _, (share, _) in theirs), default=0.0)
        if kept <= truth * FLUSHED:
            return passed(f"{truth:.1%} of the truth of {name} is subnormal; the baseline flushes it as well")
    return caught(
        f"{truth:.1%} of the truth of {name} is subnormal, {output:.2%} of the output: small values were flushed to "
        "zero, which is faster, and the lesson does not say so"
    )


# -- the task ----------------------------------------------------------------------------------------------------------


def _weak_task(run: RunFacts) -> Answer:
    task = run.task
    if task is None:
        raise Unavailable("the verifier reported nothing of the task")
    passes = {
        "zeros": task.zeros_pass,
        "a constant in every place": task.constant_pass,
        "the truth with half of its rows zero": task.half_pass,
    }
    tried = [what for what, taken in passes.items() if taken is not None]
    taken = [what for what in tried if passes[what]]
    unused = task.unused_inputs
    if taken:
        return suspect(
            f"the task takes {' and '.join(taken)} for right: nothing is proven by passing it. "
            "A smaller tolerance, or inputs that give outputs of some spread, would help"
        )
    inputs = "every input matters" if unused is not None else "its inputs were not tried one by one"
    if unused:
        inputs = f"nothing of {', '.join(unused)} reaches the outputs of the reference: a rung may ignore it"
        if run.target.rule is None:  # else others posed the problem so, and no answer to it can help that
            return suspect(inputs)
    if not tried:
        raise Unavailable("the timed case was not looked at")
    return passed(f"refused: {', '.join(tried)}; {inputs}")


def _ground_truth(run: RunFacts) -> Answer:
    repeats = run.task.reference_repeats if run.task is not None else None
    if repeats is None:
        raise Unavailable("the reference takes too long to be asked twice")
    if not repeats:
        return suspect(
            "reference.py gives another answer for the same inputs: it is no truth. "
            "Take chance out of it, or draw it from an input"
        )
    base = run.baseline
    agrees = "" if base is None or not base.ended_well else ", and the baseline agrees with it"
    return passed(f"reference.py gives the same answer twice in fp64{agrees}")


# -- what there is -----------------------------------------------------------------------------------------------------


def _refusal(name: str, title: str, about: str, issues: tuple[str, ...], when: When) -> Check:
    return Check(f"output.{name}", title, about, issues, when, refuses=True, evidence=Evidence.VALUES)


CHECKS: tuple[Check, ...] = (
    _refusal(
        "form",
        "Declared form",
        "Outputs are plain tensors of exactly the declared number, shape, dtype and device, contiguous, each in memory "
        "of its own: whatever is left for the reader to compute, convert or spread out was not done in time.",
        (
            "output.shape_mismatch",
            "output.dtype_mismatch",
            "output.lazy_subclass",
            "output.negative_view",
            "output.shared_outputs",
            "output.broadcast_view",
            "workload.batch_shrinking",
            "workload.hidden_downsampling",
        ),
        When.EACH_SAMPLE,
    ),
    _refusal(
        "values",
        "Every element right",
        "Each element against an fp64 reference in another process, with the tolerance relative to the size of the "
        "outputs: zeros never pass for being small.",
        (
            "output.constant_output",
            "output.stale_cache",
            "output.approximation_drift",
            "output.invalid_ground_truth",
            "output.tiny_outputs",
            "output.cache_by_address",
            "workload.early_exit",
            "workload.batch_shrinking",
            "workload.sequence_truncation",
            "workload.hidden_downsampling",
            "workload.sparsity_mismatch",
            "workload.attention_mask_mismatch",
            "workload.kv_cache_size_mismatch",
            "workload.zero_gradients",
            "workload.folded_weights",
        ),
        When.AFTER_PREPARE,
    ),
    _refusal(
        "nonfinite",
        "NaN and infinities in their places",
        "NaN stands where the reference has NaN and nowhere else, infinities likewise and with their sign.",
        ("output.invalid_values_nan", "output.invalid_values_inf", "output.uninitialized_memory"),
        When.AFTER_PREPARE,
    ),
    _refusal(
        "timed_calls",
        "Timed calls do what verified ones did",
        "Right after each timed call its outputs are reduced to random projections on their device; they must be those "
        "of the verified call on the same values.",
        ("output.stage_switch", "output.stale_cache"),
        When.EACH_SAMPLE,
    ),
    _refusal(
        "last_call",
        "The last timed call in full",
        "What the last timed call left behind is judged element by element: no projection is trusted alone.",
        ("output.stage_switch",),
        When.AFTER_RUN,
    ),
    _refusal(
        "fresh_values",
        "Right on values never seen",
        "In batches that the judge times, on inputs that it made for them: the outputs of a call whose place nobody "
        "else knows are read from outside, and judged in full.",
        (
            "output.cache_by_sample",
            "output.stage_switch",
            "output.stale_cache",
            "compile.compilation_cache_hit",
            "workload.train_test_overlap",
        ),
        When.AFTER_RUN,
    ),
    _refusal(
        "moved_buffers",
        "The same values from other buffers",
        "The same values in other buffers must give the same result: whoever goes by addresses returns something old.",
        ("output.cache_by_address",),
        When.AFTER_PREPARE,
    ),
    Check(
        "output.poison",
        "Outputs overwritten before each call",
        "What a call returned is filled with NaN before the next call. Memory that is handed back unwritten, or "
        "written in part, shows it.",
        ("output.uninitialized_memory", "output.recycled_block"),
        When.EACH_SAMPLE,
        evidence=Evidence.VALUES,
        arm=_poison,
        sensor=Poison,
    ),
    Check(
        "output.subnormals",
        "Subnormals kept",
        "Where the truth of the timed case holds subnormal numbers the output must too, on a processor where they cost "
        "time.",
        ("output.denormalized_values",),
        When.AFTER_RUN,
        evidence=Evidence.VALUES,
        arm=_subnormals,
    ),
    Check(
        "output.weak_task",
        "The task tells right from wrong",
        "Zeros, the mean and half an answer are put before the comparator, and the reference is asked whether each "
        "input matters; in a problem of others one that does not is just named. A single number is its own mean: "
        "there one constant is put before it for all input sets.",
        ("output.weak_task",),
        When.AFTER_RUN,
        evidence=Evidence.VALUES,
        run=_weak_task,
    ),
    Check(
        "output.ground_truth",
        "The truth repeats itself",
        "The reference is computed in fp64 in a process of its own, twice on the same inputs.",
        ("output.invalid_ground_truth",),
        When.AFTER_RUN,
        evidence=Evidence.VALUES,
        run=_ground_truth,
    ),
)


def _issue(
    name: str, what: str, answer: str, how: How = How.DETECTED, *, listed: bool = True, own: bool = True
) -> Issue:
    """`own`: a fixture of the same name shows it."""
    return Issue(f"output.{name}", what, how, answer, f"output/{name}" if own else "", listed)


ISSUES: tuple[Issue, ...] = (
    _issue(
        "constant_output",
        "The same numbers come back whatever the inputs are.",
        "Several sets of inputs are judged in full against the reference, and every timed call is on one of them.",
    ),
    _issue(
        "stale_cache",
        "A result computed once is handed out again for other inputs.",
        "Values change in the same buffers between calls, and each output is held against the reference of its own.",
    ),
    _issue(
        "approximation_drift",
        "A cheap estimate stands in for the computation.",
        "Each element must lie within a tolerance relative to the outputs' RMS, not within a fixed distance.",
    ),
    _issue(
        "invalid_values_nan",
        "NaN stands in the output where numbers belong, or numbers where NaN belongs.",
        "NaN must stand exactly where the reference has it, both ways.",
    ),
    _issue(
        "invalid_values_inf",
        "Infinities stand in the output where numbers belong.",
        "Infinities must match the reference in place and sign, after rounding to the output's dtype.",
    ),
    _issue(
        "invalid_ground_truth",
        "The expected values are wrong, or were made so.",
        "They exist in the verifier alone, computed in fp64 from the seed; it is asked twice, and the baseline must "
        "agree with it too.",
    ),
    _issue(
        "shape_mismatch",
        "The output has another shape than declared.",
        "The shape must be the declared one exactly; nothing is broadcast.",
    ),
    _issue(
        "dtype_mismatch",
        "The output has another dtype than declared.",
        "The dtype must be the declared one exactly; nothing is converted for the rung.",
    ),
    _issue(
        "denormalized_values",
        "Subnormal numbers, which are slow on a processor, are flushed to zero.",
        "Where the truth is subnormal the output must be too; the flags that flush are read as well.",
    ),
    _issue(
        "uninitialized_memory",
        "Parts of the output were never written and hold what lay in memory.",
        "Whatever a call returned is overwritten with NaN before the next one.",
    ),
    _issue(
        "recycled_block",
        "A fresh, unwritten block of memory happens to hold the result of a call before.",
        "The call before has been overwritten with NaN, and the reference's result lies in another process.",
        listed=False,
    ),
    _issue(
        "cache_by_address",
        "Results are kept by the address or the identity of the input buffers.",
        "Values change at the same addresses, and the same values come at other ones.",
        listed=False,
    ),
    _issue(
        "cache_by_content",
        "Results are kept by a digest of the inputs: right for every input, and fast for known ones.",
        "All values of the judge's batches are new: a table only costs time there.",
        How.OUTSIDE,
        listed=False,
    ),
    _issue(
        "cache_until_unknown",
        "A table of verified inputs answers the timed calls, and is thrown away as soon as an unknown input comes.",
        "FASTER must hold on the judge's clock, where every value is unknown.",
        How.OUTSIDE,
        listed=False,
    ),
    _issue(
        "unchanged_rows",
        "Only what is not as it was in the last call is computed: right for every input, and fast for known ones.",
        "Timed calls seldom get the values of the call before, and no call of the judge's batches those of another.",
        How.OUTSIDE,
        listed=False,
    ),
    _issue(
        "cache_by_sample",
        "Results are kept by a few elements of the inputs.",
        "Inputs of the judge's batches agree with known ones in some elements and never in all: what was kept is wrong "
        "there, or of no use.",
        How.OUTSIDE,
        listed=False,
    ),
    _issue(
        "stage_switch",
        "The full computation runs while it is verified, a part of it while it is timed.",
        "The outputs of timed calls are verified, by projections each and in full at the end.",
        listed=False,
    ),
    _issue(
        "lazy_subclass",
        "What comes back computes when it is first looked at: a subclass of a tensor or of a list, what pretends to "
        "be a tuple, a tensor with methods of its own.",
        "Outputs must be plain tensors in plain containers, by exact type, and are read without a method of theirs.",
        listed=False,
    ),
    _issue(
        "negative_view",
        "A view with a negative or conjugate bit comes back, whose signs its reader has to change.",
        "Outputs must have no such bit, and no memory that is made when it is first touched.",
        listed=False,
    ),
    _issue(
        "shared_outputs",
        "One tensor comes back as several outputs.",
        "Outputs whose memory overlaps are refused.",
        listed=False,
    ),
    _issue(
        "broadcast_view",
        "A few numbers come back, spread out by strides to the declared shape.",
        "Outputs must be contiguous.",
        listed=False,
    ),
    _issue(
        "tiny_outputs",
        "Outputs are so small that zeros lie within an absolute tolerance.",
        "The tolerance is relative to the outputs' RMS.",
        listed=False,
    ),
    _issue(
        "weak_task",
        "The task itself takes zeros, a constant or half an answer for right, or an input does not matter.",
        "The verifier puts these before its comparator in every run; tests/checks/test_output.py shows that it tells.",
        listed=False,
    ),
)
