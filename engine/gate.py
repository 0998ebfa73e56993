"""The gate: what every rung must get right beyond its lesson's own cases.

Drawn shapes come before the first sample: a time is shown only of a rung that is right on them. A rung that uses
torch's compiler would compile for seconds at each, so it is asked for one of them, after the last sample. Other
families of values at the timed shape come after the last sample, where the verifier may take its time. Both follow
from the run's seed (checks.oracle.families).

As long as a rung of the target that was caught for a drawn shape has not been right since, the shapes that its run drew
are posed again, to every rung: who edits a comment until the draw is lucky would else be let go.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aisp.checks.oracle import calling, families, fixed, truth, values
from aisp.checks.oracle.fixed import Held
from aisp.checks.oracle.schema import Case, Schema, SchemaError
from aisp.checks.registry import Drawn, Refusal
from aisp.engine.arms import Arm, ArmEnd, ArmProcess, ask, wrong
from aisp.engine.crew import Ask
from aisp.engine.protocol import jobs, reports
from aisp.kernels.catalog.model import Case as NamedCase
from aisp.kernels.catalog.model import Role, Rung, Target
from aisp.store.outcomes import State
from aisp.store.text import clean_line

MOST_FIXED_BYTES = (1 << 30, 1 << 34)
"""What the truth of a drawn case may take, on a CPU and on a GPU, that has the timed shape since the axes leave no
other. The derived policy runs the reference seven times; the run's own sets of that shape take one run each."""

ROUNDS = 3
"""Times that shapes are drawn while the reference still holds an axis that was not known to be held."""

MOST_LOST = 2
"""Verifiers that may be lost to drawn cases before no further case is posed: each has to be made ready anew."""

MOST_AGAIN = 4
"""Runs whose drawn shapes are posed again: the first ones, so that all who come later are asked the same."""

AS_THE_BASELINE = 2.0
"""Times what the baseline is off, on values that no declaration promises, a rung may be off before it is doubted."""

MOST_OFF = 8.0
"""Times the error allowed. Where the baseline itself is off by more, such values say nothing of anybody."""

HELD_OUT = "evaluation.held_out"
FAMILIES = "evaluation.value_families"


@dataclass(slots=True)
class Gate:
    """The gate of one run.

    Attributes:
        ask_judge: asks the run's verifier.
        blob: a new shared file.
        first_set: number of the first set of values that is made here; no worker learns it before.
        note: keeps a sentence that the run's record is to hold.
        drawn: each drawn case with the master seed of the run that it was drawn for.
        held: axes that keep to some values, whatever [fuzz] leaves open.
        open_elements: of the timed case's inputs whose shape is not declared.
        several: the rungs run in several processes each, to which no shape but their lesson's can be posed.
    """

    target: Target
    case: NamedCase
    device: str
    seed: int
    without: frozenset[str]
    first_set: int
    ask_judge: Ask
    blob: Callable[[], jobs.Blob]
    note: Callable[[str], None] = lambda sentence: None
    drawn: list[tuple[Case, int, reports.Posed]] = field(default_factory=list)
    why: list[str] = field(default_factory=list)  # what could not be posed, and why
    fixed: str = ""  # why the task leaves nothing to draw
    held: tuple[Held, ...] = ()
    open_elements: int = 0
    _lost: int = 0  # verifiers
    _values: list[tuple[Case, reports.Posed]] | None = None
    _off: dict[int, float] = field(default_factory=dict)  # what the first baseline is off, by number of the set
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def several(self) -> bool:
        """Whether a rung of this target is more than one process."""
        return self.target.ranks > 1

    # -- shapes ----------------------------------------------------------------------------------------------------

    async def pose(self, rungs: Sequence[Rung], again: Sequence[int] = ()) -> None:
        """Draw the run's shapes and let the verifier make their inputs and their truth.

        Args:
            rungs: those that take part.
            again: master seeds of earlier runs whose shapes are posed too, with their values.
        """
        if self.several or HELD_OUT in self.without:
            return
        if self.target.rule is not None and self.target.rule.alone:
            self.fixed = "the problem's own rule is the judge, and knows its own cases alone"
            return
        try:
            cases = await self.draw(rungs, again)
        except SchemaError as error:
            self.why.append(clean_line(str(error)))
            return
        for held in self.held:
            self.note(f"drawn shapes: {held.text}")
        for case, seed in cases:
            if self._lost >= MOST_LOST:
                self.why.append(f"drawn case {case.text}: not posed, {self._lost} verifiers were lost to others")
                break
            needed = truth.working_bytes(self.target, case.axes) + self.open_elements * 8 * truth.WORKING_COPIES
            most = MOST_FIXED_BYTES[self.device != "cpu"]
            if case.axes == self.case.axes and needed > most:
                self.fixed = (
                    f"its axes leave no shape but the timed one, and the truth of one more set of it would take some "
                    f"{needed / 1e9:.1f} GB (at most {most / 1e9:.1f} GB are spent on that)"
                )
                continue
            job = jobs.Pose(case=case.plain(), seed=seed, blob=self.blob())
            try:
                self.drawn.append((case, seed, await self.ask_judge(job, reports.Posed, "reference.py")))
            except ArmEnd as end:
                if end.state is not State.USER_ERROR:  # the verifier itself is gone, and no other could be had
                    raise
                self._drop(f"drawn case {case.text}", end)

    async def draw(self, rungs: Sequence[Rung], again: Sequence[int] = ()) -> list[tuple[Case, int]]:
        """The drawn cases with their seeds, with those axes held that the task's own code holds. Raises SchemaError."""
        host = self.device == "cpu"
        schema = Schema.of(self.target, host=host)
        self.held = fixed.tied(self.target)
        for last in (*[False] * (ROUNDS - 1), True):
            cases: dict[str, tuple[Case, int]] = {}
            for seed in (self.seed, *again):
                for case in families.drawn_shapes(self.target, seed, rungs, host=host, held=self.held):
                    cases[case.text] = case, seed
            if last or not fixed.free(fixed.holding(schema, self.held)):
                break
            more = await self._probed([case for case, _ in cases.values()])
            if not more:
                break
            self.held += tuple(more)
        return list(cases.values())

    async def _probed(self, cases: Sequence[Case]) -> list[Held]:
        """What the reference holds of these cases' axes; nothing where it could not be asked."""
        job = jobs.Probe(cases=[case.plain() for case in cases], seed=self.seed)
        try:
            probed = await self.ask_judge(job, reports.Probed, "reference.py")
        except ArmEnd as end:
            if end.state is not State.USER_ERROR:
                raise
            self._drop("asking the reference on the CPU", end)
            return []
        axes = {held.axis for held in self.held}
        return [held for held in map(Held.of, probed.held) if held.axis not in axes]

    async def enter(self, process: ArmProcess, patience_s: float, *, most: int | None = None) -> None:
        """The drawn cases that the rung claims to support: of the run's own, and of those that are posed again, the
        first `most` each. Raises ArmEnd.
        """
        supported = [entry for entry in self.drawn if not process.arm.rung.unsupported(entry[0].axes)]
        again = [entry for entry in supported if entry[1] != self.seed]
        own = [entry for entry in supported if entry[1] == self.seed]
        for entry in again[:most] + own[:most]:
            case, seed, posed = entry
            if entry not in self.drawn:  # dropped meanwhile
                continue
            job = tried_with(self.target, case, seed, posed.blob, process.outputs)
            tried = await ask(process.child, job, reports.Tried, patience_s, process.name)
            judged = await self._judged(case, seed, process.arm, tried.outputs)
            if judged is None:
                self.drawn = [other for other in self.drawn if other != entry]
                continue
            if not judged.right:
                advice, label = "`aisp fuzz` finds the smallest such case", f"drawn case {self._label(case, seed)}"
                raise wrong(judged, [posed.blob], HELD_OUT, label, f" ({label})", advice)
            process.arm.shapes.append(self._label(case, seed))

    def _label(self, case: Case, seed: int) -> str:
        """A drawn case in words."""
        return case.text if seed == self.seed else f"{case.text}, as when a rung was caught"

    async def _judged(self, case: Case, seed: int, arm: Arm, outputs: jobs.Blob) -> reports.Judged | None:
        """None: it could not be judged, which is not the rung's doing. Raises ArmEnd where no verifier is left."""
        job = jobs.Judge(case=case.plain(), seed=seed, rung=arm.name, outputs=outputs)
        try:
            judged: reports.Judged = await self.ask_judge(job, reports.Judged, "the verifier")
        except ArmEnd as end:
            if end.state is not State.USER_ERROR:
                raise
            self._drop(families.named(case) if case.values else f"drawn case {self._label(case, seed)}", end)
            return None
        arm.accepted[judged.policy] += judged.right
        return judged

    def _drop(self, label: str, end: ArmEnd) -> None:
        sentence = clean_line(f"{label}: {end.reason}")[:200]
        if sentence not in self.why:
            self.why.append(sentence)
            self.note(f"left out: {sentence}")

    async def teach(self, ask: Ask, job: jobs.AnyJob) -> None:
        """Pose to a fresh verifier what was posed to the one that was lost to `job`, but for what that was about.

        Raises ArmEnd where one of those is refused now.
        """
        self._lost += 1
        about = job.case if isinstance(job, (jobs.Pose, jobs.Judge)) else None
        values = [(case, self.seed) for case, _ in self._values or ()]
        for case, seed in [*((case, seed) for case, seed, _ in self.drawn), *values]:
            if case.plain() != about:
                await ask(jobs.Pose(case=case.plain(), seed=seed, blob=self.blob()), reports.Posed, "reference.py")

    def facts(self) -> Drawn:
        """What was posed, for checks."""
        return Drawn(
            tuple(self._label(case, seed) for case, seed, _ in self.drawn),
            tuple(self.why),
            several=self.several,
            fixed=self.fixed,
            held=tuple(held.text for held in self.held),
            only_values=self._only_values(),
        )

    def _only_values(self) -> bool:
        """Whether no axis is left that another shape could have."""
        if not self.held:
            return False
        return not fixed.free(fixed.holding(Schema.of(self.target, host=self.device == "cpu"), self.held))

    # -- values ----------------------------------------------------------------------------------------------------

    async def pose_values(self) -> None:
        """Make the sets of other values, for whoever is asked for them later."""
        if FAMILIES not in self.without:
            await self._posed()

    async def try_values(self, process: ArmProcess, patience_s: float) -> None:
        """Other families of values at the timed shape, in the buffers and by the callable that were timed, but where
        static inputs change.

        A wrong answer ends the arm where every such declaration promises the values. Elsewhere the lesson's tolerance
        was not stated for them: the baseline shows what it is worth there, and who is off by more is doubted. Raises
        ArmEnd.
        """
        arm = process.arm
        if FAMILIES in self.without or arm.rung.unsupported(self.case.axes):
            return
        for case, posed in list(await self._posed()):
            if (case, posed) not in (self._values or ()):  # dropped meanwhile
                continue
            outputs = await self._outputs_of(process, case, posed, patience_s)
            judged = await self._judged(case, self.seed, arm, outputs)
            label = families.named(case)
            if judged is None:
                self._leave_out(case)
                continue
            error = 0.0 if judged.right else math.inf if judged.max_error is None else judged.max_error
            if arm.rung.role is Role.BASELINE:
                self._off.setdefault(case.number, error)
            if judged.right:
                arm.families.append(label)
            elif families.gating(case):
                advice = "values that its declaration admits must be right"
                raise wrong(judged, [posed.blob], FAMILIES, self.case.name, f" (timed shape, {label})", advice)
            elif self._off.get(case.number, 0.0) > MOST_OFF:
                self.why.append(clean_line(f"{label}: left out, the baseline itself is wrong there: {judged.detail}"))
                self._leave_out(case)
            elif error > AS_THE_BASELINE * self._off.get(case.number, 0.0) and arm.doubt is None:
                arm.doubt = Refusal(FAMILIES, clean_line(f"wrong {judged.finding} ({label}): {judged.detail}"))

    def _leave_out(self, case: Case) -> None:
        self._values = [other for other in self._values or () if other[0] != case]

    async def _outputs_of(self, process: ArmProcess, case: Case, posed: reports.Posed, patience_s: float) -> jobs.Blob:
        """What a rung returns for such a set. Raises ArmEnd."""
        if families.prepared_anew(self.target, case):
            job = tried_with(self.target, case, self.seed, posed.blob, process.outputs)
            tried: reports.Tried = await ask(process.child, job, reports.Tried, patience_s, process.name)
            return tried.outputs
        execute = jobs.Execute(case=self.case.name, set_index=0, outputs=process.outputs, values=posed.blob)
        executed: reports.Executed = await ask(process.child, execute, reports.Executed, patience_s, process.name)
        return executed.outputs

    async def _posed(self) -> list[tuple[Case, reports.Posed]]:
        """The sets of the run, made when the first arm asks."""
        async with self._making:
            if self._values is None:
                self._values = []
                for case in families.value_sets(self.target, self.case, self.first_set):
                    job = jobs.Pose(case=case.plain(), seed=self.seed, blob=self.blob())
                    try:
                        posed = await self.ask_judge(job, reports.Posed, "reference.py")
                    except ArmEnd as end:
                        if end.state is not State.USER_ERROR:
                            raise
                        self._drop(families.named(case), end)
                        continue
                    if posed.possible:
                        self.why.append(f"{families.named(case)}: {posed.possible}")
                    else:
                        self._values.append((case, posed))
            return self._values


def tried_with(target: Target, case: Case, seed: int, inputs: jobs.Blob, outputs: jobs.Blob) -> jobs.Try:
    """The job that poses a drawn case to a rung: with what the rung's process draws itself, without the seed."""
    return jobs.Try(
        case=case.plain(),
        made_seed=values.made_seed(target, case, seed),
        others={name: list(key) for name, key in calling.keys_before(target, case, seed).items()},
        inputs=inputs,
        outputs=outputs,
    )
