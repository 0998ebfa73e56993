"""One fuzz of one target: drawn cases, each judged against the fp64 reference, and the smallest failing one at the end.

Every rung is a process of its own and the verifier is another, as in a run; a rung that dies of a case has that case as
its finding and goes on in a fresh process. Nothing is timed. The same machinery lints a task (what would a careless
answer pass?) and does a stored failure again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from aisp.checks.oracle import lint, report, shrink
from aisp.checks.oracle.comparator import Mismatch
from aisp.checks.oracle.fixed import Held, free, holding
from aisp.checks.oracle.schema import Case, Schema, SchemaError, Stage, Strategy, draw
from aisp.engine.arms import ArmEnd, ask
from aisp.engine.crew import Crew
from aisp.engine.gate import Gate, tried_with
from aisp.engine.protocol import events, jobs, reports
from aisp.engine.services import Services
from aisp.engine.spawner import Child
from aisp.kernels.catalog.model import Kind, Rung, Target
from aisp.store.errors import StoreError
from aisp.store.outcomes import CaseVerdict, FuzzVerdict, State
from aisp.store.record import Failure, Fuzz, NaiveOpinion, RungFuzz, Tally
from aisp.store.text import clean, clean_line
from aisp.store.ulid import new_ulid

log = logging.getLogger("aisp.fuzzing")

KEPT_FAILURES = 8  # of one rung, those with the smallest cases
SHRINK_S = 30.0  # for one rung
DEFAULT_CASE = 1 << 24  # number of the case that the naive harness looks at: no fuzz has as many
IN_VAIN = 12  # cases in a row that could not be posed before a fuzz gives up
DEATHS = 12  # of one rung's processes before it is asked no more


@dataclass(frozen=True, slots=True)
class FuzzPlan:
    """Everything that is decided before a fuzz starts.

    Attributes:
        what: "fuzz", "lint" or "replay".
        drawn: whether the seed is a new one, and was not asked for: nobody else knows it before the fuzz has ended.
        obstacles: by rung, why it cannot run here.
        problem: why nothing can.
        case_s: patience with one case in seconds; 0 for the engine's limits.
        replay: the failure to do again.
    """

    id: str
    what: str
    target: Target
    files: Mapping[str, bytes]
    snapshot: str
    rungs: tuple[Rung, ...]
    device: str
    seed: int
    cases: int
    strategies: tuple[Strategy, ...]
    case_s: float = 0.0
    naive: bool = False
    drawn: bool = False
    trigger: str = "cli"
    wall: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    obstacles: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    replay: Failure | None = None

    @property
    def public_seed(self) -> int | None:
        """The seed that may be shown before the end; None where rungs could foresee the cases by it."""
        return None if self.drawn and self.what == "fuzz" else self.seed

    @property
    def sought(self) -> FuzzPlan:
        """What two have alike that are the same job: all that was decided, but what was drawn and who asked."""
        return replace(self, id="", wall="", trigger="", seed=0 if self.drawn else self.seed)

    def planned(self) -> events.FuzzPlanned:
        """Event that announces it to clients."""
        return events.FuzzPlanned(
            fuzz_id=self.id,
            what=self.what,
            target=self.target.id,
            title=clean_line(self.target.title),
            folder=clean_line(os.fsencode(self.target.folder)),
            device=self.device,
            rungs=[rung.name for rung in self.rungs],
            cases=self.cases,
            seed=self.public_seed,
            strategies=[str(strategy) for strategy in self.strategies],
            wall=self.wall,
            trigger=self.trigger,
        )

    def record(self, state: str, reason: str) -> Fuzz:
        """Record for the store, with nothing tried yet."""
        return Fuzz(
            id=self.id,
            target=self.target.id,
            folder=os.fsencode(self.target.folder),
            title=clean_line(self.target.title),
            device=self.device,
            seed=self.seed,
            cases=self.cases,
            strategies=tuple(str(strategy) for strategy in self.strategies),
            snapshot=self.snapshot,
            wall=self.wall,
            state=state,
            reason=reason,
        )


@dataclass(slots=True)
class _Tried:
    """What one case of one rung came to."""

    verdict: CaseVerdict
    finding: str = ""
    detail: str = ""
    max_error: float | None = None
    relative: dict[str, float] = field(default_factory=dict)
    bad: reports.JudgedOutput | None = None
    histogram: list[int] = field(default_factory=list)
    took_ms: float = 0.0
    naive: dict[str, bool] = field(default_factory=dict)
    input_hashes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Subject:
    """A rung under test."""

    rung: Rung
    child: Child | None = None
    fresh: bool = True  # its process has not answered yet: what it compiles is compiled now
    deaths: int = 0
    cases: int = 0
    failing: int = 0
    gate_failing: int = 0
    unsupported: int = 0
    judged: int = 0
    by_strategy: dict[str, Tally] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    naive: NaiveOpinion | None = None
    max_error: float | None = None
    took_ms: float = 0.0
    reason: str = ""

    @property
    def verdict(self) -> FuzzVerdict:
        """Verdict over all cases so far."""
        if self.gate_failing:
            return FuzzVerdict.WRONG
        if self.failing:
            return FuzzVerdict.DOUBTED
        return FuzzVerdict.RIGHT if self.judged else FuzzVerdict.UNDECIDED

    def result(self) -> RungFuzz:
        """Result for the store."""
        reason = self.reason
        if self.verdict is FuzzVerdict.UNDECIDED and not reason:
            reason = "every case is beyond what it declares to support" if self.unsupported else "no case was judged"
        return RungFuzz(
            rung=self.rung.name,
            verdict=self.verdict,
            cases=self.cases,
            failing=self.failing,
            unsupported=self.unsupported,
            by_strategy=dict(self.by_strategy),
            failures=tuple(f.id for f in sorted(self.failures, key=_smallness)),
            naive=self.naive,
            max_error=self.max_error,
            took_ms=self.took_ms,
            reason=reason,
        )


class FuzzEndError(Exception):
    """The fuzz cannot go on; the message says why and what would help."""


class Fuzzing:
    """Carries out one plan."""

    def __init__(self, plan: FuzzPlan, services: Services) -> None:
        self.plan = plan
        self._services = services
        self._schema: Schema | None = None
        self._held: tuple[Held, ...] = ()
        self._subjects = [_Subject(rung) for rung in plan.rungs]
        self._inputs: dict[bool, jobs.Blob] = {}  # of the case that was posed last; True: as its relation changes it
        self._changed: tuple[Case, reports.Posed | _Tried] | None = None  # posed last as its relation changes it
        self._outputs = jobs.Blob(name="")
        self._notes: dict[str, None] = {}
        self._versions: dict[str, str] = {}
        self._environment = ""
        self._started = time.monotonic()
        self._crew = Crew(
            services,
            target=plan.target,
            files=plan.files,
            snapshot=plan.snapshot,
            device=plan.device,
            interpret=plan.device == "cpu" and any(rung.kind is Kind.TRITON for rung in plan.target.rungs),
            keeps=False,  # shapes are drawn anew: what is compiled for them would only push out what a run compiled
        )

    # -- the whole -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Carry it out, store and tell its end. Cancelling this task stores what was found up to then."""
        state, reason = "done", ""
        lint_items: list[lint.Item] = []
        replayed: events.ReplayFinished | None = None
        try:
            self._outputs = self._crew.arena.blob()
            problem = self.plan.problem
            if not problem and self.plan.device == "cuda":
                problem = await self._services.look_at_gpu()
            if problem:
                state, reason = "unavailable", problem
            else:
                self._schema = Schema.of(self.plan.target, host=self.plan.device == "cpu")
                if self.plan.what == "replay":
                    replayed = await self._replay()
                elif self.plan.what == "lint":
                    lint_items = await self._lint()
                else:
                    await self._fuzz()
        except asyncio.CancelledError:
            state, reason = "cancelled", "stopped on request; what was found is kept"
        except (FuzzEndError, SchemaError) as error:
            state, reason = "failed", str(error)
        except ArmEnd as end:
            state, reason = ("unavailable" if end.state is State.UNAVAILABLE else "failed"), end.reason
        except Exception as error:
            log.exception("fuzz %s failed in the engine", self.plan.id)
            state = "failed"
            reason = f"the engine failed ({type(error).__name__}: {error}); `aisp engine --logs` has the trace"
        # A task of its own: cancelled once more, what was found is still stored and no process is left.
        ending = asyncio.create_task(self._end(state, clean_line(reason), lint_items, replayed))
        while not ending.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(ending)
        ending.result()

    async def _end(
        self, state: str, reason: str, items: Sequence[lint.Item], replayed: events.ReplayFinished | None
    ) -> None:
        for subject in self._subjects:
            await self._drop(subject)
        await self._crew.close()
        await self._crew.caches.settle(())
        plan, publish = self.plan, self._services.publish
        if plan.what == "lint":
            publish(
                events.LintFinished(
                    fuzz_id=plan.id,
                    target=plan.target.id,
                    device=plan.device,
                    items=[{**item.plain(), "detail": clean_line(item.detail)} for item in items],
                    reason=reason,
                )
            )
            return
        if plan.what == "replay":
            failure = plan.replay.id if plan.replay else ""
            lost = events.ReplayFinished(fuzz_id=plan.id, failure=failure, outcome="impossible", detail=reason)
            publish(replayed or lost)
            return
        results = [subject.result() for subject in self._subjects]
        record = msgspec.structs.replace(
            plan.record(state, reason),
            rungs=tuple(results if state == "done" else (result.stopped() for result in results)),
            duration_ms=(time.monotonic() - self._started) * 1e3,
            environment=self._environment,
            notes=tuple(self._notes),
        )
        kept = [failure for subject in self._subjects for failure in subject.failures]
        try:
            stored = record
            await self._services.store(
                lambda store: store.put_fuzz(stored, kept, {self.plan.snapshot: self.plan.files})
            )
        except StoreError as error:
            message = clean_line(f"it ended {state}, but could not be stored: {error}")
            record = msgspec.structs.replace(record, state="failed", reason=message)
        if plan.public_seed is None:
            for each in kept:  # now with its seed and script
                publish(events.FuzzFailure(fuzz_id=plan.id, failure=each, shrunk=each.tried > 0))
        publish(events.FuzzFinished(fuzz=record))

    # -- processes -------------------------------------------------------------------------------------------------

    async def _in_its_role(self, child: Child, rung: str) -> Child:
        """The process, which has the role of a rung now; it is ended where that fails. Raises ArmEnd."""
        try:
            await self._crew.give_role(child, rung, rung)
        except BaseException:
            await self._crew.end(child, gently=False)
            raise
        return child

    async def _verifier(self) -> Crew:
        """The crew, whose verifier lives: one that has died is replaced. Raises ArmEnd."""
        crew = self._crew
        if crew.verifier is not None and not crew.verifier.alive:
            await self._drop_verifier()
        if crew.verifier is None:
            await crew.lay_out()
            ready = await crew.start_verifier(_unheard)
            if not self._environment:
                self._versions = {**ready.versions, "device": ready.gpu_name or "cpu"}
                self._environment = await crew.describe(ready)
        return crew

    async def _drop_verifier(self) -> None:
        self._changed = None  # what it had posed is gone with it
        await self._crew.end_verifier()

    async def _drop(self, subject: _Subject) -> None:
        child, subject.child = subject.child, None
        subject.fresh = True
        if child is not None:
            await self._crew.end(child, gently=False)

    async def _ask(self, job: jobs.AnyJob, want: type[Any], whose: str) -> Any:
        """The verifier's answer; one that is lost to the job is replaced when it is needed. Raises ArmEnd."""
        crew = await self._verifier()
        try:
            return await crew.ask_verifier(job, want, whose)
        except ArmEnd as end:
            if crew.verifier is None or not crew.verifier.alive or end.state is State.CUDA_POISONED:
                await self._drop_verifier()
            raise

    async def _hold(self) -> None:
        """Keep each axis to the values that the task's own code holds it to, as the gate of a run does."""
        plan = self.plan
        gate = Gate(
            target=plan.target,
            case=plan.target.cases[0],
            device=plan.device,
            seed=plan.seed,
            without=frozenset(),
            first_set=0,
            ask_judge=self._ask,
            blob=self._crew.arena.blob,
            note=lambda sentence: self._notes.setdefault(sentence),
        )
        # A gate's cases are small: where none is possible, and where the reference is lost to one, nothing is held.
        with contextlib.suppress(SchemaError, ArmEnd):
            await gate.draw(plan.rungs)
        assert self._schema is not None
        self._schema, self._held = holding(self._schema, gate.held), gate.held
        for held in gate.held:
            self._notes.setdefault(clean_line(held.text))

    # -- one case --------------------------------------------------------------------------------------------------

    async def _pose(self, case: Case, *, changed: bool = False) -> reports.Posed | _Tried:
        """The case's inputs, or what every rung's verdict on it then is."""
        crew = await self._verifier()
        if changed in self._inputs:
            crew.arena.free(self._inputs.pop(changed))
        blob = self._inputs[changed] = crew.arena.blob()  # inputs are written once
        job = jobs.Pose(case=case.plain(), seed=self.plan.seed, blob=blob, changed=changed)
        try:
            posed: reports.Posed = await self._ask(job, reports.Posed, "reference.py")
        except ArmEnd as end:
            verdict = CaseVerdict.MEMORY if end.out_of_memory else CaseVerdict.SKIPPED
            return _Tried(verdict, detail=clean_line(end.reason))
        if posed.note:
            self._notes.setdefault(clean_line(posed.note))
        return posed

    async def _try(
        self, subject: _Subject, case: Case, posed: reports.Posed | _Tried, *, naive: bool = False
    ) -> _Tried:
        """What a rung makes of a posed case, its relation included."""
        if beyond := subject.rung.unsupported(case.axes):
            return _Tried(CaseVerdict.UNSUPPORTED, detail=beyond)
        if isinstance(posed, _Tried):
            return posed
        outcome = await self._call(subject, case, posed, naive=naive)
        outcome.input_hashes = dict(posed.hashes)
        if case.relation and outcome.verdict is CaseVerdict.RIGHT:
            other = await self._posed_changed(case)
            if isinstance(other, reports.Posed) and not other.possible:
                second = await self._call(subject, case, other, changed=True)
                if second.verdict is not CaseVerdict.RIGHT:
                    second.input_hashes = dict(other.hashes)
                    outcome = second
        return outcome

    async def _posed_changed(self, case: Case) -> reports.Posed | _Tried:
        """The case as its relation changes it, posed once for all rungs."""
        if self._changed is None or self._changed[0] != case:
            self._changed = case, await self._pose(case, changed=True)
        return self._changed[1]

    async def _call(
        self, subject: _Subject, case: Case, posed: reports.Posed, *, changed: bool = False, naive: bool = False
    ) -> _Tried:
        plan, limits = self.plan, self._services.limits
        whose = subject.rung.name
        child = subject.child
        if child is None:
            await self._crew.lay_out()
            child = await self._crew.take(whose)
            _unheard(child)
        try:
            if subject.child is None:
                subject.child = await self._in_its_role(child, whose)
            patience_s = plan.case_s or (limits.compile_s if subject.fresh else limits.progress_s)
            job = tried_with(plan.target, case, plan.seed, posed.blob, self._outputs)
            tried = await ask(child, job, reports.Tried, patience_s, whose)
        except ArmEnd as end:
            return await self._failed(subject, end)
        subject.fresh = False
        crew = await self._verifier()
        question = jobs.Judge(
            case=case.plain(), seed=plan.seed, rung=whose, outputs=tried.outputs, changed=changed, naive=naive
        )
        try:
            judged: reports.Judged = await crew.ask_verifier(question, reports.Judged)
        except ArmEnd as end:
            await self._drop_verifier()
            return _Tried(CaseVerdict.SKIPPED, detail=clean_line(end.reason), took_ms=tried.took_ms)
        bad = next((o for o in judged.outputs if o.finding != Mismatch.NOTHING), None)
        shown = bad or (judged.outputs[0] if judged.outputs else None)
        return _Tried(
            CaseVerdict.RIGHT if judged.right else CaseVerdict.WRONG,
            "" if judged.right else judged.finding,
            clean_line(judged.detail),
            judged.max_error,
            judged.relative_error,
            bad,
            shown.histogram if shown else [],
            tried.took_ms,
            judged.naive,
        )

    async def _failed(self, subject: _Subject, end: ArmEnd) -> _Tried:
        """A rung gave no answer: what that says of it, and whether its process can go on."""
        match end.state:
            case State.INCORRECT:
                verdict = CaseVerdict.WRONG
            case State.USER_ERROR:
                verdict = CaseVerdict.MEMORY if end.out_of_memory else CaseVerdict.ERROR
            case State.TIMEOUT_PROGRESS:
                verdict = CaseVerdict.TIMEOUT
            case State.OOM_KILLED:
                verdict = CaseVerdict.MEMORY
            case state if state.fatal and not state.timed_out:
                verdict = CaseVerdict.CRASHED
            case State.UNAVAILABLE:
                verdict = CaseVerdict.UNSUPPORTED
            case _:
                verdict = CaseVerdict.SKIPPED
        alive = subject.child is not None and subject.child.alive
        if not alive or end.state.fatal or end.state is State.INFRA_ERROR:
            subject.deaths += 1
            await self._drop(subject)
        finding = str(Mismatch.TYPE) if verdict is CaseVerdict.WRONG else ""
        return _Tried(verdict, finding, clean_line(end.reason))

    # -- fuzz ------------------------------------------------------------------------------------------------------

    async def _fuzz(self) -> None:
        plan = self.plan
        assert self._schema is not None
        in_vain = 0
        for subject in self._subjects:
            subject.reason = plan.obstacles.get(subject.rung.name, "")
        if not all(subject.reason for subject in self._subjects):
            await self._hold()
        for number in range(plan.cases):
            taking_part = [s for s in self._subjects if not s.reason]
            if not taking_part:
                break
            case = draw(self._schema, plan.seed, plan.strategies[number % len(plan.strategies)], number)
            posed = await self._pose(case)
            if isinstance(posed, _Tried):
                in_vain += 1
                if in_vain >= IN_VAIN:
                    raise FuzzEndError(f"{in_vain} cases in a row could not be posed, the last: {posed.detail}")
            else:
                in_vain = 0
            for subject in taking_part:
                tried = await self._try(subject, case, posed)
                self._note(subject, case, tried)
                if subject.deaths >= DEATHS:
                    subject.reason = f"{subject.deaths} of its processes died; it is asked no more"
        for subject in self._subjects:
            if subject.failures:
                await self._shrink(subject)
            if plan.naive and not subject.reason:
                await self._ask_naively(subject)

    def _note(self, subject: _Subject, case: Case, tried: _Tried) -> None:
        """Count it, tell it, and keep it where it failed."""
        plan, strategy = self.plan, case.strategy
        subject.cases += 1
        failing, unsupported = tried.verdict.failing, tried.verdict is CaseVerdict.UNSUPPORTED
        subject.failing += failing
        subject.gate_failing += failing and strategy.stage is Stage.GATE
        subject.unsupported += unsupported
        subject.judged += tried.verdict is CaseVerdict.RIGHT or failing
        subject.took_ms += tried.took_ms
        tally = subject.by_strategy.get(str(strategy), Tally())
        subject.by_strategy[str(strategy)] = Tally(
            tally.cases + 1, tally.failing + failing, tally.unsupported + unsupported
        )
        if tried.verdict is CaseVerdict.RIGHT and tried.max_error is not None:
            subject.max_error = max(subject.max_error or 0.0, tried.max_error)
        self._services.publish(
            events.FuzzCase(
                fuzz_id=plan.id,
                number=case.number,
                rung=subject.rung.name,
                strategy=str(strategy),
                stage=str(strategy.stage),
                case=case.text,
                verdict=tried.verdict,
                finding=tried.finding,
                detail=tried.detail,
                max_error=tried.max_error,
                histogram=tried.histogram,
                took_ms=tried.took_ms,
            )
        )
        if failing:
            self._keep(subject, case, tried)

    def _keep(self, subject: _Subject, case: Case, tried: _Tried) -> None:
        """Keep a failure if it is among the smallest; gate before triage."""
        failure = self._failure(subject, case, case, tried, new_ulid())
        subject.failures = sorted([*subject.failures, failure], key=_smallness)[:KEPT_FAILURES]
        if failure in subject.failures:
            self._tell(failure)

    def _failure(
        self, subject: _Subject, case: Case, drawn: Case, tried: _Tried, failure_id: str, tries: int = 0
    ) -> Failure:
        plan, bad = self.plan, tried.bad
        detail = clean(tried.detail)
        return Failure(
            id=failure_id,
            fuzz=plan.id,
            target=plan.target.id,
            rung=subject.rung.name,
            device=plan.device,
            seed=plan.seed,
            stage=str(case.strategy.stage),
            strategy=str(case.strategy),
            case=case.plain(),
            drawn=drawn.plain(),
            verdict=tried.verdict,
            snapshot=plan.snapshot,
            wall=datetime.now(UTC).isoformat(timespec="milliseconds"),
            output=clean_line(bad.name) if bad else "",
            finding=tried.finding,
            detail=detail,
            input_hashes=tried.input_hashes,
            output_hash=bad.sha256 if bad else "",
            statistics=bad.statistics if bad else {},
            histogram=tuple(bad.histogram) if bad else (),
            region=tuple(bad.region) if bad else (),
            script=report.script(
                plan.target.folder, plan.target.id, subject.rung.name, plan.device, plan.seed, case, detail
            ),
            versions=dict(self._versions),
            tried=tries,
        )

    async def _shrink(self, subject: _Subject) -> None:
        """Find the smallest case that fails as the smallest of the failures does."""
        assert self._schema is not None
        first = min(subject.failures, key=_smallness)
        drawn = Case.of(first.case)
        search = shrink.Shrinker(self._schema, drawn)
        best: _Tried | None = None
        deadline = time.monotonic() + SHRINK_S
        while time.monotonic() < deadline and subject.deaths < DEATHS and (case := search.propose()) is not None:
            tried = await self._try(subject, case, await self._pose(case))
            search.answer(tried.verdict.failing)
            if tried.verdict.failing:
                best = tried
        smallest = msgspec.structs.replace(first, tried=search.tries)
        if best is not None:
            smallest = self._failure(subject, search.best, drawn, best, first.id, search.tries)
        subject.failures = [smallest if kept.id == first.id else kept for kept in subject.failures]
        self._tell(smallest, shrunk=True)

    def _tell(self, failure: Failure, *, shrunk: bool = False) -> None:
        """Tell a failure while the fuzz goes on."""
        if self.plan.public_seed is None:
            failure = failure.unseeded()
        self._services.publish(events.FuzzFailure(fuzz_id=self.plan.id, failure=failure, shrunk=shrunk))

    async def _ask_naively(self, subject: _Subject) -> None:
        """What a naive harness says: the default case's shape, each dtype once."""
        assert self._schema is not None
        target, opinion = self.plan.target, {"allclose": True, "assert_close": True}
        names = [case.name for case in target.cases]
        axes = target.case("cpu" if self.plan.device == "cpu" and "cpu" in names else "default").axes
        for index, dtype in enumerate(self._schema.dtypes or ("",)):
            case = Case(DEFAULT_CASE + index, Strategy.REGULAR, dict(axes), dtype)
            tried = await self._try(subject, case, await self._pose(case), naive=True)
            if not tried.naive:
                subject.naive = NaiveOpinion(None, None)
                return
            opinion = {name: opinion[name] and tried.naive[name] for name in opinion}
        subject.naive = NaiveOpinion(**opinion)

    # -- lint ------------------------------------------------------------------------------------------------------

    async def _lint(self) -> list[lint.Item]:
        """Facts of some gate cases, and the errors that right implementations make on them."""
        plan = self.plan
        await self._hold()
        assert self._schema is not None
        gathered: list[dict[str, Any]] = []
        errors: dict[str, list[float]] = {}
        strategies = plan.strategies or (Strategy.REGULAR, Strategy.BOUNDARY, Strategy.MIXED)
        last = ""
        for number in range(plan.cases):
            case = draw(self._schema, plan.seed, strategies[number % len(strategies)], number)
            case = replace(case, dtype="", layouts={}, relation="")
            posed = await self._pose(case)
            if isinstance(posed, _Tried):
                last = posed.detail
                continue
            job = jobs.LintTask(case=case.plain(), seed=plan.seed)
            linted: reports.Linted = await (await self._verifier()).ask_verifier(job, reports.Linted)
            gathered.append(linted.facts)
            for subject in self._subjects:
                if subject.rung.name in plan.obstacles or subject.deaths >= DEATHS:
                    continue
                tried = await self._try(subject, case, posed)
                self._note(subject, case, tried)
                if tried.verdict is CaseVerdict.RIGHT:
                    for dtype, error in tried.relative.items():
                        errors.setdefault(dtype, []).append(error)
        if not gathered:
            raise FuzzEndError(f"no case could be posed: {last or 'none was asked for'}")
        return lint.items(plan.target, gathered, errors, free(self._schema), self._held)

    # -- replay ----------------------------------------------------------------------------------------------------

    async def _replay(self) -> events.ReplayFinished:
        plan, failure = self.plan, self.plan.replay
        assert failure is not None
        subject, case = self._subjects[0], Case.of(failure.case)
        obstacle = plan.obstacles.get(subject.rung.name)
        if obstacle:
            raise FuzzEndError(obstacle)
        posed = await self._pose(case)
        differs = report.differs(failure.versions, self._versions)
        tried = await self._try(subject, case, posed)
        detail = tried.detail
        if isinstance(posed, _Tried):
            outcome = "impossible"
        elif tried.input_hashes != failure.input_hashes and (tried.verdict.failing or not case.relation):
            outcome = "other_inputs"
        elif not tried.verdict.failing:
            outcome = "passes"
        elif tried.verdict is failure.verdict and (tried.bad.sha256 if tried.bad else "") == failure.output_hash:
            outcome = "reproduced"
        else:
            outcome = "fails_otherwise"
        return events.ReplayFinished(
            fuzz_id=plan.id, failure=failure.id, outcome=outcome, differs=differs, detail=detail
        )


def _unheard(child: Child) -> None:
    """Let what it prints go to its log alone."""
    child.on_output = lambda stream, data: None


def _smallness(failure: Failure) -> tuple[bool, float, int]:
    """Gate failures first, then by the size of the case."""
    case = Case.of(failure.case)
    return failure.stage != Stage.GATE, shrink.size(case), case.number


def unstarted(plan: FuzzPlan, reason: str) -> list[events.Event]:
    """Events for clients about the end of a fuzz that never began."""
    if plan.what == "lint":
        return [
            events.LintFinished(fuzz_id=plan.id, target=plan.target.id, device=plan.device, items=[], reason=reason)
        ]
    if plan.what == "replay":
        failure = plan.replay.id if plan.replay else ""
        return [events.ReplayFinished(fuzz_id=plan.id, failure=failure, outcome="impossible", detail=reason)]
    return [events.FuzzFinished(fuzz=plan.record("cancelled", reason))]
