"""The verifier's role: makes the inputs from the seed, computes the fp64 reference, judges what workers produced.

Expected values exist in this process alone; it forbids other processes of the same user to read its memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aisp.checks.oracle import comparator, lint, ruling, values
from aisp.checks.oracle.comparator import ComparisonResult, Expected, Mismatch
from aisp.checks.oracle.examiner import Examiner
from aisp.checks.oracle.families import ValueFamily, prepared_anew
from aisp.checks.oracle.fixed import Probe
from aisp.checks.oracle.schema import Case
from aisp.checks.oracle.truth import Oracle, exact, same_outputs
from aisp.checks.registry import TaskFacts
from aisp.engine.protocol import jobs, reports
from aisp.engine.protocol.batches import Line, LineError, Over
from aisp.engine.worker import clock, tensors, timers
from aisp.engine.worker.channel import packed
from aisp.engine.worker.loading import callable_of, import_module, summary
from aisp.kernels.catalog.model import Flag, Target, TensorSpec
from aisp.kernels.catalog.tensors import itemsize
from aisp.store.outcomes import TolerancePolicy

if TYPE_CHECKING:
    import torch

PR_SET_DUMPABLE = 4
LOOKED_AT = 1 << 16  # elements of an output whose figures are taken, evenly spread
SPARE_BYTES = 1 << 30  # of GPU memory: what a truth took beyond that is given back, since arms may need it
BATCH_SETS = 1 << 60  # number of a set that a batch was given: of no other
ROUND_TRUTH_S = 0.05  # for the truths of a round of batches, from which on no other set is made
INSPECT_BUDGET_S = 1.0  # for what inspect() lets the reference compute again


class Verifier:
    """Serves the jobs of one run's verifier. See engine.protocol.jobs for each."""

    def __init__(self, job: jobs.Load, target: Target) -> None:
        import torch

        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        self._torch = torch
        self._target = target
        self._device = job.device
        if job.device == "cpu":  # the same cores as the rungs that compute beside it, which have a thread for each
            torch.set_num_threads(max(torch.get_num_threads() // 2, 1))
        self._folder = Path(os.fsdecode(job.folder))
        reference: Any = callable_of(import_module(self._folder, "reference"), "run")
        self._reference = reference
        rule = import_module(self._folder, "rule") if target.rule is not None else None
        judge: Any = callable_of(rule, "judge") if rule is not None else None
        self._rule: ruling.Judge | None = judge
        self._writes: Any = getattr(rule, "writes", None)
        self._oracle = Oracle(target, reference, job.device)
        self._inputs: dict[tuple[str, int], dict[str, torch.Tensor]] = {}
        self._first: dict[str, dict[str, torch.Tensor]] = {}  # set 0 of each case, which other families change
        self._made: dict[str, dict[str, object]] = {}
        self._expected: dict[tuple[str, int], tuple[torch.Tensor, ...]] = {}
        self._dtypes: dict[str, list[str]] = {}  # of the outputs, by case
        self._rounding: dict[str, list[float]] = {}  # comparator.rounding of each output, by case
        self._pointed: dict[tuple[str, int], dict[str, torch.Tensor]] = {}  # inputs that judging takes
        self._families: dict[tuple[str, int], ValueFamily] = {}
        self._seeds: dict[str, int] = {}
        self._round: tuple[tuple[str, int], tuple[clock.FreshSets, list[dict[str, torch.Tensor]]]] | None = None
        self._run_bytes: dict[str, int] = {}  # of the GPU's memory, by one run of the reference, by case
        self._made_s: dict[str, float] = {}  # making one set of inputs, by case
        self._took_s: dict[str, float] = {}  # that and the reference, by case

    def give_back(self) -> None:
        """Leave memory that PyTorch keeps for later to the arms on this GPU."""
        memory = self._torch.cuda
        if self._device == "cuda" and memory.memory_reserved() - memory.memory_allocated() > SPARE_BYTES:
            memory.empty_cache()

    def read_pairs(self, job: jobs.ReadPairs) -> reports.PairsRead:
        """Before any sample of a run: this process has handles that no rung can reach."""
        try:
            l2_bytes = int(self._torch.cuda.get_device_properties(0).L2_cache_size)
            return reports.PairsRead(pair_ms=timers.pair_ms(timers.stand_ready(), l2_bytes, job.cache))
        except Exception as error:  # of CUPTI and the driver: then an empty pair says what there is to say
            return reports.PairsRead(pair_ms=None, note=summary(error))

    def pose(self, job: jobs.Pose) -> reports.Posed:
        """Make a case's inputs, and put them where rungs can read them."""
        case = Case.of(job.case)
        if case.name:
            return self._pose_values(case, job) if case.values else self._pose_set(case, job)
        posed = self._examiner.pose(case, job.seed, changed=job.changed)
        if posed.impossible:
            return reports.Posed(blob=job.blob, possible=posed.impossible)
        return reports.Posed(
            blob=tensors.write_sealed(job.blob.name, posed.inputs), hashes=posed.hashes, note=posed.note
        )

    def _pose_set(self, case: Case, job: jobs.Pose) -> reports.Posed:
        self._seeds[case.name] = job.seed
        start = time.monotonic()
        static = {spec.name for spec in self._target.inputs if Flag.STATIC in spec.flags}
        first = self._first.get(case.name, {}) if case.number else {}
        inputs = self._examiner.inputs(case, job.seed, {name: t for name, t in first.items() if name in static})
        self._made_s[case.name] = time.monotonic() - start
        self._check_alike(case, inputs)
        self._inputs[case.name, case.number] = inputs
        if case.number == 0:
            self._first[case.name] = inputs
        if case.name not in self._made:
            self._made[case.name] = self._examiner.made(case, job.seed)
        if not job.later:
            self.expect(jobs.Expect(case=job.case))
        written = {name: t for name, t in inputs.items() if case.number == 0 or name not in static}
        seen = self._writes is not None and case.number == 0
        mutable = self._writes({**inputs, **self._made[case.name]}, self._device) if seen else []
        blob = tensors.write_sealed(job.blob.name, written)
        return reports.Posed(blob=msgspec.structs.replace(blob, mutable=mutable))

    def _pose_values(self, case: Case, job: jobs.Pose) -> reports.Posed:
        """Other kinds of values for a lesson's case."""
        inputs = dict(self._first[case.name])
        changes = values.changes_of(self._target, case, job.seed, inputs)
        if not changes:
            return reports.Posed(blob=job.blob, possible="no input is a plain draw of torch.rand or torch.randn")
        for name, change in changes.items():
            inputs[name] = inputs[name].to(self._device, copy=True)
            change.laid(inputs[name])
        made = self._made.get(case.name, {})
        run_bytes = self._run_bytes.get(case.name, 0)
        posed = ValueFamily(self._target, self._reference, self._device, case, inputs, made, run_bytes=run_bytes)
        if posed.impossible:
            return reports.Posed(blob=job.blob, possible=posed.impossible)
        self._families[case.name, case.number] = posed
        written: dict[str, torch.Tensor] = {}
        if prepared_anew(self._target, case):
            return reports.Posed(blob=tensors.write_sealed(job.blob.name, inputs), note=posed.note)
        for name, change in changes.items():
            if self._target.ranks > 1:  # each takes its part of the whole
                written[name] = inputs[name]
            else:
                written |= {name: change.rows, jobs.places_of(name): change.at}
        return reports.Posed(blob=tensors.write_sealed(job.blob.name, written), note=posed.note)

    def expect(self, job: jobs.Expect) -> reports.Expected:
        """Compute the reference for a set, in fp64 on this run's device."""
        case = Case.of(job.case)
        start = time.monotonic()
        inputs = self._inputs.pop((case.name, case.number))
        made = self._made[case.name]
        outputs = self._at_once(case, inputs, made)
        if case.name not in self._dtypes:
            self._dtypes[case.name] = self._oracle.dtypes(case, inputs, made, outputs, own=self._alone)
        pointed = [one.of for one in self._target.judged.values() if one.of]
        kept = inputs if self._rule is not None else {name: inputs[name] for name in pointed}
        self._pointed[case.name, case.number] = kept
        self._expected[case.name, case.number] = tuple(output.to(self._device) for output in outputs)
        self._took_s[case.name] = self._made_s.get(case.name, 0.0) + time.monotonic() - start
        return reports.Expected(nbytes=sum(output.numel() * output.element_size() for output in outputs))

    def _at_once(self, case: Case, inputs: dict[str, torch.Tensor], made: dict[str, object]) -> Sequence[torch.Tensor]:
        """The reference's outputs; what it took of the GPU is noted for what is computed in the same shape later."""
        if self._device != "cuda":
            return self._oracle.at_once(case, inputs, made, own=self._alone)
        memory = self._torch.cuda
        memory.reset_peak_memory_stats()
        before = memory.memory_allocated()
        outputs = self._oracle.at_once(case, inputs, made, own=self._alone)
        self._run_bytes[case.name] = memory.max_memory_allocated() - before
        return outputs

    def probe(self, job: jobs.Probe) -> reports.Probed:
        """Which axes the reference holds to some values, asked on the CPU."""
        oracle = Oracle(self._target, self._reference, "cpu")
        probe = Probe(self._target, self._examiner_on("cpu"), oracle, own=self._alone)
        held = probe.held([Case.of(case) for case in job.cases], job.seed)
        return reports.Probed(held=[one.plain() for one in held])

    def judge(self, job: jobs.Judge) -> reports.Judged:
        """Compare a call's outputs with the truth: a lesson's own sets by the stated tolerances, all else by what the
        computation allows."""
        case = Case.of(job.case)
        # A drawn case may be too large for the device, and is judged in stretches then.
        outputs = self._arrived(job.outputs, self._device if case.name else "cpu")
        if case.name and not case.values:
            return self._stated(case, outputs)
        if case.name:
            opinions = self._families[case.name, case.number].judge(outputs)
            return _judged(TolerancePolicy.DERIVED, opinions)
        opinions = self._examiner.judge(case, job.seed, job.rung, outputs, changed=job.changed)
        relative: dict[str, float] = {}
        for opinion, output in zip(opinions, outputs.values(), strict=False):
            if opinion.relative is not None and output.is_floating_point():
                dtype = str(output.dtype).removeprefix("torch.")
                relative[dtype] = max(relative.get(dtype, 0.0), opinion.relative)
        return _judged(
            TolerancePolicy.DERIVED,
            opinions,
            outputs=[reports.JudgedOutput(**_members(opinion)) for opinion in opinions],
            relative_error=relative,
            naive=self._examiner.naive(case, outputs) if job.naive else {},
        )

    def _stated(self, case: Case, outputs: dict[str, torch.Tensor]) -> reports.Judged:
        """A call on one of the lesson's own sets, by the stated tolerances."""
        truths, pointed = self._expectations(case.name, case.number), self._pointed[case.name, case.number]
        opinions = comparator.judge(self._target, case, outputs, truths, pointed, full=False)
        lenient = self._rule is not None or comparator.rounds(self._target, self._dtypes[case.name])
        if lenient and any(opinion.finding is Mismatch.VALUES for opinion in opinions):
            truths = self._rounded(case, truths) if self._rule is None else self._as_far_off(case, truths, pointed)
            opinions = comparator.judge(self._target, case, outputs, truths, pointed, full=False)
        compared: dict[str, float] = {}
        for expected, opinion in zip(truths, opinions, strict=False):
            if not opinion.finding.of_form and expected.name not in self._target.judged:
                compared |= figures(expected.name, outputs[expected.name], expected.value)
        judged = _judged(TolerancePolicy.STATED, opinions, figures=compared)
        return judged if self._rule is None else self._by_its_own(case, outputs, judged)

    def _expectations(self, case: str, set_index: int) -> tuple[Expected, ...]:
        """What a set's outputs must be, with the errors that the stated tolerances allow."""
        values = self._expected[case, set_index]
        truth = zip(self._target.outputs_of(len(values)), values, self._dtypes[case], strict=True)
        unstated = (Expected(spec.name, value, dtype, None) for spec, value, dtype in truth)
        return comparator.stated(self._target, unstated)

    def _as_far_off(
        self, case: Case, truths: Sequence[Expected], inputs: Mapping[str, torch.Tensor]
    ) -> tuple[Expected, ...]:
        """Expectations with each element allowed to be as far off as the problem's own reference is there in its own
        dtype: who posed it gave no tolerance for a truth in fp64.
        """
        here = {name: tensor.to(self._device, copy=True) for name, tensor in inputs.items()}
        own = self._oracle.eager(case, here, self._made[case.name])
        pairs = zip(truths, own or [None] * len(truths), strict=True)
        return tuple(comparator.as_far_off(replace(expected, eager=eager)) for expected, eager in pairs)

    def _rounded(self, case: Case, truths: Sequence[Expected]) -> tuple[Expected, ...]:
        """Expectations with what is allowed where the lesson states no tolerance, by set 0 of the case."""
        if case.name not in self._rounding:
            first = {name: tensor.to(self._device, copy=True) for name, tensor in self._first[case.name].items()}
            own = self._oracle.eager(replace(case, number=0), first, self._made[case.name]) or [None] * len(truths)
            pairs = zip(self._expectations(case.name, 0), own, strict=True)
            self._rounding[case.name] = [
                comparator.rounding(self._target, replace(expected, eager=eager)) for expected, eager in pairs
            ]
        times = zip(truths, self._rounding[case.name], strict=True)
        return tuple(one if one.allowed is None else replace(one, allowed=one.allowed * more) for one, more in times)

    @property
    def _alone(self) -> bool:
        """Whether the problem's own rule is the judge."""
        return self._target.rule is not None and self._target.rule.alone

    def _by_its_own(self, case: Case, outputs: Mapping[str, torch.Tensor], judged: reports.Judged) -> reports.Judged:
        """The judgement with what the problem's own rule says; by that rule where it is the judge alone."""
        assert self._rule is not None
        assert self._target.rule is not None
        expected = self._expected[case.name, case.number]
        names = [spec.name for spec in self._target.outputs_of(len(expected))]
        if set(outputs) != set(names):  # there is nothing that it could be asked
            return judged
        kept = self._pointed[case.name, case.number]
        inputs: dict[str, object] = {name: tensor.to(self._device, copy=True) for name, tensor in kept.items()}
        inputs |= {name: exact(value, None) for name, value in self._made[case.name].items()}
        truth = [value.clone() for value in expected]
        ruled = ruling.ask(self._target.rule, self._rule, inputs, [outputs[name].clone() for name in names], truth)
        report = reports.Ruled(right=ruled.right, detail=ruled.detail)
        if not self._alone:
            return msgspec.structs.replace(judged, rule=report)
        decided = _judged(judged.policy, [ruled.opinion(names[0])], figures=judged.figures, rule=report)
        differs = self._target.rule.compared and not judged.right
        return msgspec.structs.replace(decided, ours=judged.detail if differs else "")

    def _arrived(self, blob: jobs.Blob, device: str) -> dict[str, torch.Tensor]:
        """Outputs by name. Copies: the worker could still write into the shared file."""
        names = [slot.name for slot in blob.slots]
        return {name: view.to(device, copy=True) for name, view in zip(names, tensors.read(blob), strict=True)}

    @functools.cached_property
    def _examiner(self) -> Examiner:
        return self._examiner_on(self._device)

    def _examiner_on(self, device: str) -> Examiner:
        functions: dict[str, Any] = {}
        for entry, wanted in (("make", "made"), ("pose", "posed")):
            if any(getattr(spec, wanted) for spec in self._target.inputs):
                functions[entry] = callable_of(import_module(self._folder, "inputs"), entry)
        make, pose = functions.get("make"), functions.get("pose")
        return Examiner(self._target, self._reference, make, device, pose=pose)

    def _inputs_of(self, case: Case, seed: int) -> dict[str, torch.Tensor]:
        return self._examiner.inputs(case, seed)

    def _check_alike(self, case: Case, inputs: Mapping[str, torch.Tensor]) -> None:
        """All sets of a case go into the same buffers. Raises InputsError."""
        for name, tensor in self._first.get(case.name, {}).items():
            if tensor.shape != inputs[name].shape or tensor.dtype != inputs[name].dtype:
                forms = " and ".join(f"{form.dtype} {list(form.shape)}" for form in (tensor, inputs[name]))
                raise values.InputsError(f"inputs.py: pose() made {name} in two forms for one case: {forms}")

    def lint_task(self, job: jobs.LintTask) -> reports.Linted:
        """What careless answers would pass on a posed case, and which inputs matter."""
        return reports.Linted(facts=lint.facts(self._examiner, self._target, Case.of(job.case), job.seed))

    # -- the clock -------------------------------------------------------------------------------------------------

    def time_batches(self, job: jobs.TimeBatches) -> reports.BatchesTimed:
        """Time a worker's calls from outside, and compare what some of them gave."""
        import torch

        line = Line(os.dup(tensors.descriptor(job.line.name)), job.patience_s)
        reader = Line(os.dup(tensors.descriptor(job.reader.name)), job.patience_s)
        try:
            if inside := clock.why_inside(self._target, self._device):
                line.send(Over())
                return reports.BatchesTimed(inside=inside, task=True)
            case = Case.of(job.case)
            fresh, judged = self._round_of(case, job.round, 1 + job.both)
            outside = clock.Outside(
                line,
                reader,
                self._target,
                fresh,
                self._first[case.name],
                lambda which, outputs: self._stated(replace(case, number=BATCH_SETS + which), outputs),
                job.pid,
                judged,
                self._answer_bytes(case),
                both=job.both,
            )
            return outside.timed(job.pairs, self._device, job.per_call_ms, job.calls, held=job.held, clones=job.clones)
        except clock.CannotError as error:
            return reports.BatchesTimed(inside=str(error), task=error.task)
        except (MemoryError, torch.OutOfMemoryError):
            return reports.BatchesTimed(inside=clock.NO_ROOM)
        except LineError as error:
            return reports.BatchesTimed(gone=str(error))
        finally:
            line.close()
            reader.close()

    def _answer_bytes(self, case: Case) -> int:
        """Bytes of all outputs of a call, as those of set 0 are."""
        truth = zip(self._expected[case.name, 0], self._dtypes[case.name], strict=True)
        return sum(value.numel() * itemsize(dtype) for value, dtype in truth)

    def _round_of(self, case: Case, number: int, batches: int) -> tuple[clock.FreshSets, list[dict[str, torch.Tensor]]]:
        """What makes a round's sets, since what those of another were mixed of may have been learnt; and those of which
        outputs are read in so many batches, the same for all arms, their truth known: one for each where that takes
        long. The truths of the round before are forgotten.
        """
        if self._round is None or self._round[0] != (case.name, number):
            for key in [key for key in self._expected if key[1] >= BATCH_SETS]:
                del self._expected[key], self._pointed[key]

            if self._round is not None and self._round[0][0] == case.name:
                fresh = self._round[1][0].renewed()
            else:
                names = clock.refilled(self._target)
                static = {name: t for name, t in self._first[case.name].items() if name not in names}

                def draw(seed: int) -> dict[str, torch.Tensor]:
                    return self._examiner.inputs(case, seed, static)

                fresh = clock.FreshSets(self._target, draw, names, self._device, self._first[case.name])
            sets: list[dict[str, torch.Tensor]] = []
            start = time.monotonic()
            while len(sets) < batches or (
                len(sets) < batches * clock.PICKS and time.monotonic() - start < batches * ROUND_TRUTH_S
            ):
                own = replace(case, number=BATCH_SETS + len(sets))
                sets.append(fresh.next())
                self._inputs[own.name, own.number] = {**self._first[case.name], **sets[-1]}
                self.expect(jobs.Expect(case=own.plain()))
            self._round = (case.name, number), (fresh, sets)
        return self._round[1]

    # -- the task itself -------------------------------------------------------------------------------------------

    def inspect(self) -> reports.TaskInspected:
        """What the task is like; what could not be found within INSPECT_BUDGET_S is None."""
        return reports.TaskInspected(facts=packed(self.task_facts()))

    def task_facts(self) -> TaskFacts:
        """What the comparator takes for right, and what asking the reference again tells."""
        timed = self._timed()
        if timed is None:
            return TaskFacts()
        truth = self._expected[timed, 0]
        if self._alone:
            names = dict.fromkeys([timed, *(case for case, number in self._expected if number == 0)])
            return TaskFacts(zeros_pass=all(map(self._takes_zeros, names)))
        outputs = list(zip(self._target.outputs_of(len(truth)), truth, strict=True))
        several = [(spec, want) for spec, want in outputs if want.numel() != 1]
        constant = all(self._accepts(spec, want, lint.means(want)) for spec, want in several)
        sets = [truths for (case, _), truths in self._expected.items() if case == timed]
        constant_told = not constant or len(several) == len(outputs) or len(sets) > 1
        return msgspec.structs.replace(
            self._probed(),
            zeros_pass=all(self._accepts(spec, want, self._torch.zeros_like(want)) for spec, want in outputs),
            half_pass=all(self._accepts(spec, want, lint.half(want)) for spec, want in several) if several else None,
            constant_pass=constant and self._one_number_fits(sets) if constant_told else None,
        )

    def _takes_zeros(self, name: str) -> bool:
        """Whether the rule that is the judge takes zeros for right in a case."""
        truths = self._expected[name, 0]
        truth = zip(self._target.outputs_of(len(truths)), truths, strict=True)
        zeros = {spec.name: self._torch.zeros_like(value) for spec, value in truth}
        case = Case.of_set(self._target.case(name))
        with contextlib.suppress(ruling.RuleFault):
            return self._by_its_own(case, zeros, _judged(TolerancePolicy.STATED, [])).right
        return False

    def _one_number_fits(self, sets: Sequence[tuple[torch.Tensor, ...]]) -> bool:
        """Whether, for each output that is a single number, its mean over the input sets passes for all of them."""
        for index, spec in enumerate(self._target.outputs_of(len(sets[0]))):
            numbers = [truth[index] for truth in sets]
            if numbers[0].numel() == 1:
                constants = lint.means(self._torch.stack(numbers))
                if not all(self._accepts(spec, *pair) for pair in zip(numbers, constants, strict=True)):
                    return False
        return True

    def _timed(self) -> str | None:
        """The case that was given the most sets, the first of several."""
        cases = [case for case, _ in self._expected]
        most = max(dict.fromkeys(cases), key=cases.count, default=None)
        return most if most is not None and (most, 0) in self._expected else None

    def _accepts(self, spec: TensorSpec, truth: torch.Tensor, answer: torch.Tensor) -> bool:
        """Whether the comparator takes an answer, rounded to the output's dtype, for the truth."""
        place = self._target.outputs.index(spec)
        dtype = next(dtypes[place] for dtypes in self._dtypes.values())
        (expected,) = comparator.stated(self._target, [Expected(spec.name, truth, dtype, None)])
        return comparator.compare(expected, answer.to(getattr(self._torch, dtype)), full=False).right

    def _probed(self) -> TaskFacts:
        """What asking the reference again tells, on the cheapest case that it has answered."""
        started = time.monotonic()
        usable = [name for name in self._took_s if (name, 0) in self._expected]
        if not usable:
            return TaskFacts()
        name = min(usable, key=self._took_s.__getitem__)
        each_s = self._took_s[name]
        if each_s > INSPECT_BUDGET_S / 2:
            return TaskFacts()
        case, seed = Case.of_set(self._target.case(name)), self._seeds[name]
        inputs = self._inputs_of(case, seed)
        again = self._referred(case, inputs)
        facts = TaskFacts(probed=name, reference_repeats=same_outputs(again, self._expected[name, 0]))
        if not facts.reference_repeats:
            return facts  # then a difference says nothing about the inputs
        others = self._inputs_of(case, seed ^ 1)
        unused: list[str] = []
        for spec in self._target.inputs:
            if spec.made or self._torch.equal(inputs[spec.name], others[spec.name]):
                continue  # nothing to change it to
            if time.monotonic() - started + each_s > INSPECT_BUDGET_S:
                return facts
            changed = self._referred(case, {**inputs, spec.name: others[spec.name]})
            # Some values hide others (at position 0 no query matters): it must be so for several.
            if same_outputs(changed, again) and all(
                self._ignores(case, seed ^ other, spec.name) for other in (2, 4, 8)
            ):
                unused.append(spec.name)
        return msgspec.structs.replace(facts, unused_inputs=unused)

    def _ignores(self, case: Case, seed: int, name: str) -> bool:
        """Whether the reference gives the same for other values of one input."""
        inputs, others = (self._inputs_of(case, each) for each in (seed, seed ^ 1))
        one = self._referred(case, inputs)
        return same_outputs(one, self._referred(case, {**inputs, name: others[name]}))

    def _referred(self, case: Case, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        outputs = self._oracle.at_once(case, inputs, self._made[case.name])
        return tuple(output.to(self._device) for output in outputs)


def _worst(opinions: Sequence[ComparisonResult]) -> float | None:
    """The worst error over all outputs; None where one is wrong beyond any number, and where none was compared."""
    if any(opinion.max_error is None and not opinion.right for opinion in opinions):
        return None
    return max((opinion.max_error for opinion in opinions if opinion.max_error is not None), default=None)


def _judged(policy: TolerancePolicy, opinions: Sequence[ComparisonResult], **more: Any) -> reports.Judged:
    bad = next((opinion for opinion in opinions if not opinion.right), None)
    return reports.Judged(
        policy=policy,
        right=bad is None,
        finding=bad.finding if bad else Mismatch.NOTHING,
        detail=bad.detail if bad else "",
        max_error=_worst(opinions),
        **more,
    )


def _members(opinion: ComparisonResult) -> dict[str, Any]:
    plain = opinion.plain()
    wanted = reports.JudgedOutput.__struct_fields__
    return {name: value for name, value in plain.items() if name in wanted} | {"finding": str(opinion.finding)}


def figures(name: str, actual: torch.Tensor, truth: torch.Tensor) -> dict[str, float]:
    """Figures of one output that checks read (ArmFacts.compared), keyed "name.what"; {} for an empty output.

    Taken over at most LOOKED_AT elements, evenly spread; `_truth` stands for the truth rounded to the output's dtype.

        count: elements looked at.
        zero, zero_truth, nan, nan_truth: shares of them.
        dropped: share that is exactly zero where the truth is above 1/1000 of its RMS.
        rms_error: RMS of the difference over the RMS of the truth, finite elements only.
        subnormal, subnormal_truth: shares below the least normal number of the output's dtype, zeros not counted.
        fp16, bf16, fp32, fp16_truth ...: shares of the finite elements other than zero that are exactly representable
            in that dtype, where the output's is wider.
    """
    import torch  # only verifiers judge

    count = actual.numel()
    if not count:
        return {}
    step = max(1, count // LOOKED_AT)
    got, want = actual.reshape(-1)[::step], truth.reshape(-1)[::step]
    if not actual.dtype.is_floating_point:
        shares = {"count": float(got.numel()), "zero": _share(got == 0), "zero_truth": _share(want == 0)}
        return {f"{name}.{what}": value for what, value in shares.items()}
    rounded = want.to(actual.dtype)
    tiny = torch.finfo(actual.dtype).tiny
    # In fp64 every one of these dtypes is exact, and all operators exist.
    wide, exact = got.to(torch.float64), rounded.to(torch.float64)
    result = {"count": float(got.numel())}
    for suffix, numbers in (("", wide), ("_truth", exact)):
        size = numbers.abs()
        result[f"nan{suffix}"] = _share(torch.isnan(numbers))
        result[f"zero{suffix}"] = _share(numbers == 0)
        result[f"subnormal{suffix}"] = _share((size > 0) & (size < tiny))
        solid = numbers[torch.isfinite(numbers) & (size > 0)]
        if actual.dtype.itemsize >= 4 and solid.numel():
            dtypes = [("fp16", torch.float16), ("bf16", torch.bfloat16)]
            for what, narrow in dtypes + [("fp32", torch.float32)] * (actual.dtype.itemsize > 4):
                result[f"{what}{suffix}"] = _share(solid.to(narrow).to(torch.float64) == solid)
    both = torch.isfinite(wide) & torch.isfinite(exact)
    truly = want.to(torch.float64)
    scale = float(truly[both].square().mean().sqrt()) if bool(both.any()) else 0.0
    if scale > 0 and math.isfinite(scale):
        result["rms_error"] = float((wide[both] - truly[both]).square().mean().sqrt()) / scale
        result["dropped"] = _share((wide == 0) & (exact.abs() > max(scale * 1e-3, tiny)))
    return {f"{name}.{what}": value for what, value in result.items() if math.isfinite(value)}


def _share(mask: torch.Tensor) -> float:
    return float(mask.sum()) / max(mask.numel(), 1)
