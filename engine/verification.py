"""Whether a run's outputs are right: its inputs, the values that are expected, and every comparison with them.

The verifier makes each set of inputs once, for all replicas. It computes what is expected while the arms start and
compile, and works while nothing is timed.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Iterable
from typing import Any

from aisp.checks.oracle import values
from aisp.checks.oracle.comparator import Mismatch
from aisp.checks.oracle.schema import Case as PosedCase
from aisp.checks.registry import TIMED, Drawn
from aisp.engine import gate
from aisp.engine.arena import descriptor
from aisp.engine.arms import Arm, ArmEnd, ArmProcess, ask, wrong
from aisp.engine.crew import Ask, RunCrew
from aisp.engine.gate import Gate
from aisp.engine.plan import Plan
from aisp.engine.protocol import jobs, reports
from aisp.engine.reporting import Reporter
from aisp.engine.services import Services
from aisp.kernels.catalog.model import Case, Rung
from aisp.kernels.catalog.tensors import ANY
from aisp.store.outcomes import Correctness, State
from aisp.store.record import RuleSaid
from aisp.store.text import clean_line

_WHEN = {
    "output.last_call": " in the last timed call",
    "output.moved_buffers": " on the same values in other buffers",
}


class Verification:
    """Verification of one run's arms.

    Attributes:
        inputs: by case and set, where the inputs lie that were made.
        notes: cases that a rung was not asked for, and why.
    """

    def __init__(self, plan: Plan, services: Services, crew: RunCrew, reporter: Reporter) -> None:
        self._plan, self._services, self._crew, self._reporter = plan, services, crew, reporter
        self._limits = services.limits
        self.inputs: dict[tuple[str, int], jobs.Blob] = {}
        self.notes: list[str] = []
        self._posed: dict[tuple[str, int], dict[str, Any]] = {}  # sets of the lesson's own cases, as they travel
        self._answered: set[tuple[str, int]] = set()  # those whose expected values are known
        self._expected: asyncio.Task[None] | None = None
        self._beyond = Gate(
            target=plan.target,
            case=plan.case,
            device=plan.device,
            seed=plan.seed,
            without=plan.without,
            first_set=plan.held_out[0],
            ask_judge=self._ask_beyond,
            blob=crew.arena.blob,
            note=self.notes.append,
        )

    # -- inputs and what is expected -------------------------------------------------------------------------------

    async def make_inputs(self, rungs: list[Rung]) -> None:
        """Make the inputs of the timed case's sets and of the gate's cases, and begin to compute what is expected.

        Shapes are drawn for these rungs. Raises ArmEnd.
        """
        async with self._reporter.step("inputs"):
            for case, number in self._sets(gate=True):
                await self._make_set(case, number)
        self._expected = asyncio.create_task(self._expect(rungs))

    async def _expect(self, rungs: list[Rung]) -> None:
        for case, number in self._sets(gate=True):
            await self._expect_set(case, number)
        again = await self._services.store(
            lambda store: store.unforgiven(self._plan.record, gate.HELD_OUT, gate.MOST_AGAIN)
        )
        await self._beyond.pose(rungs, again)

    async def _make_set(self, case: Case, number: int) -> None:
        plain = self._posed[case.name, number] = PosedCase.of_set(case, number).plain()
        job = jobs.Pose(case=plain, seed=self._plan.seed, blob=self._crew.arena.blob(), later=True)
        posed = await self._crew.ask_verifier(job, reports.Posed, "making the inputs")
        self.inputs[case.name, number] = posed.blob
        if case is self._plan.case and number == 0:
            open_ended = {spec.name for spec in self._plan.target.inputs if spec.open and spec.dtype == ANY}
            self._beyond.open_elements = sum(
                math.prod(slot.shape) for slot in posed.blob.slots if slot.name in open_ended
            )

    async def _expect_set(self, case: Case, number: int) -> None:
        job = jobs.Expect(case=self._posed[case.name, number])
        await self._crew.ask_verifier(job, reports.Expected, "reference.py")
        self._answered.add((case.name, number))

    async def _ask_beyond(self, job: jobs.AnyJob, want: type[Any], whose: str) -> Any:
        """Ask what the run can do without: what the reference fails on costs that case alone. Raises ArmEnd."""
        return await self._crew.ask_verifier(job, want, whose, teach=self._teach)

    async def _teach(self, ask: Ask, job: jobs.AnyJob) -> None:
        """Tell a fresh verifier what the one knew that was lost to `job`: from the same seed come the same sets.

        The processes of arms keep the inputs that they have. Raises ArmEnd.
        """
        for key, plain in list(self._posed.items()):
            blob = self._crew.arena.blob()
            posing = jobs.Pose(case=plain, seed=self._plan.seed, blob=blob, later=True)
            await ask(posing, reports.Posed, "making the inputs")
            self._crew.arena.free(blob)
            if key in self._answered:
                await ask(jobs.Expect(case=plain), reports.Expected, "reference.py")
        await self._beyond.teach(ask, job)

    async def recall(self) -> None:
        """Teach a fresh verifier the timed case, where the run has parted with the one that knew it. Raises ArmEnd."""
        async with self._reporter.step("inputs"):
            for case, number in self._sets(gate=False):
                before = self.inputs[case.name, number]
                await self._make_set(case, number)
                self._crew.arena.free(before)
                await self._expect_set(case, number)

    def _sets(self, *, gate: bool) -> list[tuple[Case, int]]:
        """The timed case's sets; with the gate, every untimed case too, which an arm must get right before."""
        timed = [(self._plan.case, number) for number in range(self._plan.rule.input_sets)]
        untimed = [case for case in self._plan.target.cases if not case.timed and case.name != self._plan.case.name]
        return timed + [(case, 0) for case in untimed] if gate else timed

    async def ready(self) -> None:
        """Wait until what is expected is known, and the verifier has nothing to do. Raises ArmEnd where the reference
        fails: that ends the whole run."""
        if self._expected is not None:
            await asyncio.shield(self._expected)

    async def stop(self) -> None:
        """Make nothing any more."""
        if self._expected is not None:
            self._expected.cancel()
            await asyncio.gather(self._expected, return_exceptions=True)

    def drawn(self) -> Drawn:
        """What was drawn for this run, for checks."""
        return self._beyond.facts()

    def inputs_bytes(self) -> int:
        """Bytes of the timed case's sets."""
        sets = (self.inputs[self._plan.case.name, number].name for number in range(self._plan.rule.input_sets))
        return sum(os.fstat(descriptor(name)).st_size for name in sets)

    # -- comparisons; each raises ArmEnd in the name of the check that refuses -------------------------------------

    async def verify(self, process: ArmProcess, *, gate: bool) -> None:
        """Compile and check: the timed case on every set, then the gate's cases.

        The gate is passed once. Later processes run the same sources, and their timed case is checked again.
        """
        arm, timed_case = process.arm, self._plan.case.name
        by_case: dict[str, list[int]] = {}
        for case, number in self._sets(gate=gate):
            if beyond := arm.rung.unsupported(case.axes):
                note = clean_line(f"{beyond}: not asked for case {case.name}")
                self.notes += [note] if note not in self.notes else []  # the baseline takes part twice
                continue
            by_case.setdefault(case.name, []).append(number)
        for case_name, numbers in by_case.items():
            prepared = process.ahead if case_name == timed_case else None
            if prepared is None:
                prepared = await self._compile(process, case_name, numbers)
            async with self._reporter.step("verify", arm):
                for number in numbers:
                    check = "output.values" if case_name == timed_case else "evaluation.held_out"
                    executed = await self._execute(process, case_name, number, check)
                    if case_name == timed_case:
                        process.verified[number] = executed.fingerprint
                        if executed.peak_bytes is not None:
                            arm.peak_bytes = max(arm.peak_bytes or 0, executed.peak_bytes)
                if case_name == timed_case and gate and not prepared.for_buffers:
                    # Not the set that lies in the old buffers: a rung that reads those must be wrong.
                    await self._execute(process, case_name, numbers[0], "output.moved_buffers", moved=True)
        if gate and not self._plan.compiles(arm.rung):
            await self._enter(process)
        arm.correctness = Correctness.CORRECT
        self._reporter.report_arm(arm)

    async def compile(self, process: ArmProcess) -> None:
        """Compile for the timed case, ahead of its verification. Raises ArmEnd."""
        case = self._plan.case
        if not process.arm.rung.unsupported(case.axes):
            process.ahead = await self._compile(process, case.name, range(self._plan.rule.input_sets))

    async def _compile(self, process: ArmProcess, case: str, numbers: Iterable[int]) -> reports.Prepared:
        async with self._reporter.step("compile", process.arm):
            sets = [self.inputs[case, number] for number in numbers]
            posed = PosedCase.of_set(self._plan.target.case(case))
            word = values.made_seed(self._plan.target, posed, self._plan.seed)
            taking = jobs.TakeInputs(case=case, made_seed=word, sets=sets)
            await ask(process.child, taking, reports.Taken, self._limits.progress_s, process.name)
            ready = jobs.Prepare(case=case)
            return await ask(process.child, ready, reports.Prepared, self._limits.compile_s, process.name)

    async def _execute(
        self, process: ArmProcess, case: str, number: int, check: str, *, moved: bool = False
    ) -> reports.Executed:
        """One call on a set of inputs, judged in full."""
        job = jobs.Execute(case=case, set_index=number, outputs=process.outputs, moved=moved)
        executed = await ask(process.child, job, reports.Executed, self._limits.progress_s, process.name)
        await self.judge(process, case, number, executed.outputs, check)
        return executed

    async def _enter(self, process: ArmProcess, *, most: int | None = None) -> None:
        """The drawn shapes of the gate."""
        async with self._reporter.step("gate", process.arm):
            await self.ready()
            async with self._crew.caches.passing(process.child):
                await self._beyond.enter(process, self._limits.compile_s, most=most)

    async def judge(self, process: ArmProcess, case: str, number: int, outputs: jobs.Blob, check: str) -> None:
        """Judge one call's outputs in full. Wrong outputs end the arm in the name of `check`."""
        await self.ready()
        arm = process.arm
        job = jobs.Judge(case=self._posed[case, number], seed=self._plan.seed, outputs=outputs)
        judged: reports.Judged = await self._crew.ask_verifier(job, reports.Judged)
        arm.compared.append({**judged.figures, TIMED: float(case == self._plan.case.name)})
        self._take_rule(arm, judged)
        arm.accepted[judged.policy] += judged.right
        if judged.finding in (Mismatch.NAN, Mismatch.INF):
            check = "output.nonfinite"
        elif not judged.right and judged.finding != Mismatch.VALUES:
            check = "output.form"
        if not judged.right and check in self._plan.without:
            return
        if judged.max_error is not None:
            arm.max_error = max(arm.max_error or 0.0, judged.max_error)
        if not judged.right:
            place = "" if case == self._plan.case.name else f" (case {case})"
            advice = "" if check == "output.form" else self._plan.doubt(arm.rung)
            inputs = [self.inputs[case, 0], self.inputs[case, number]]  # static inputs come with set 0
            raise wrong(judged, inputs, check, case, place + _WHEN.get(check, ""), advice)

    def _take_rule(self, arm: Arm, judged: reports.Judged) -> None:
        """What the problem's own rule says of this call, unless it found another one wrong before."""
        rule = self._plan.target.rule
        if rule is None or judged.rule is None or (arm.rule is not None and arm.rule.right is not True):
            return
        ruling = judged.rule
        ours = arm.rule.ours if arm.rule is not None and arm.rule.ours else judged.ours
        arm.rule = RuleSaid(rule.name, ruling.right, ruling.detail, rule.alone, ours)

    async def verify_last(self, process: ArmProcess) -> None:
        """Judge the outputs of the last timed call in full."""
        job = jobs.FetchLast(outputs=process.outputs)
        last = await ask(process.child, job, reports.LastOutputs, self._limits.progress_s, process.name)
        if last.set_index < 0:
            raise ArmEnd(State.INFRA_ERROR, f"{process.name} took no sample")
        await self.judge(process, self._plan.case.name, last.set_index, last.outputs, "output.last_call")

    async def pose_values(self) -> None:
        """Make what the gate asks after the last sample, as soon as all is known that it asks before. Raises ArmEnd."""
        await self.ready()
        async with self._reporter.step("inputs"):
            await self._beyond.pose_values()

    async def enter_late(self, process: ArmProcess) -> None:
        """One drawn shape of the gate after the last sample, of a rung that compiles for each."""
        await self._enter(process, most=1)

    async def try_values(self, process: ArmProcess) -> None:
        """Other values after the last sample."""
        async with self._reporter.step("values", process.arm):
            await self._beyond.try_values(process, self._limits.progress_s)
