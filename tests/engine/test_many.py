"""Many candidates against an engine that plays its part: what is asked of it, and what becomes of each candidate."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aisp.engine import paths
from aisp.engine.client import EngineUnavailableError
from aisp.engine.doors import asking, many
from aisp.engine.doors.dispatch import StoppedError
from aisp.engine.doors.many import Brought, Common, Ended, Judging, Terms
from aisp.engine.protocol import events, requests
from aisp.store import Store
from aisp.store.candidates import MOST_ATTEMPTS, Candidates, CandidateState, Level
from aisp.store.content import snapshot_hash
from aisp.store.outcomes import Correctness, State, Timing, Validity, Verdict
from aisp.store.record import Arm, Comparison, Run
from aisp.store.results.reading import Reading
from tests.replacing import replace
from tests.store.examples import planned
from tests.tui.fake_engine import isolate

FILES = {"lesson.md": b"", "reference.py": b"", "baseline.py": b"def run(x):\n    return x\n"}
COMMON = Common("mine:one", "mine", "one", FILES, snapshot_hash(FILES))
QUICK = Terms(finalists=0)
SPEEDUPS = {"fast": 3.0, "good": 2.0, "slow": 0.5, "bad": 1.5}


def brought(*names: str, more: dict[str, bytes] | None = None) -> list[Brought]:
    return [
        many.beside(name, {many.ENTRY: f"def run(x):\n    return x  # {name}\n".encode(), **(more or {})}, COMMON)
        for name in names
    ]


class Engine:
    """Plans runs, which have ended at once. What a run says of its rungs is `say`'s, by the candidates' names."""

    def __init__(self, names: dict[str, str], say: Callable[[list[str]], dict[str, Arm] | State]) -> None:
        self.asked: list[requests.StartRuns] = []
        self.refuses: Callable[[list[str]], dict[str, Any]] = lambda names: {}
        self._names, self._say = names, say
        self._runs: dict[str, Run] = {}
        self.gone = asyncio.Event()

    def next_seq(self) -> int:
        return len(self.asked) + 1

    async def status(self) -> Any:
        return SimpleNamespace(devices=[], gpu_note="there is none", queue=[])

    async def batches(self) -> AsyncIterator[list[events.Event]]:
        await self.gone.wait()
        return
        yield []

    def named(self, request: requests.StartRuns) -> list[str]:
        return [self._names[rung] for rung in request.rungs]

    async def request(self, request: requests.StartRuns) -> events.Reply:
        self.asked.append(request)
        assert Path(request.roots[0], "baseline.py").read_bytes() == FILES["baseline.py"]
        assert all(Path(request.roots[0], f"{rung}.py").is_file() for rung in request.rungs)
        names = self.named(request)
        if refused := self.refuses(names):
            return events.Reply(to=request.seq, **refused)
        said = self._say(names)
        run = replace(planned(request.targets[0]), quick=request.quick)
        if isinstance(said, State):
            lacking = Arm("baseline", State.UNAVAILABLE, reason="no process is started")
            arms = (lacking if said is State.UNAVAILABLE else right("baseline", 1.0),)
            run = replace(run, state=said, reason="the verifier was ended", arms=arms)
        else:
            those = [replace(said[name], rung=rung) for name, rung in zip(names, request.rungs, strict=True)]
            timed = [(arm.rung, SPEEDUPS[name]) for name, arm in zip(names, those, strict=True) if arm.median_ms]
            worst = next((arm.state for arm in those if arm.state is not State.OK), State.OK)
            run = replace(
                run,
                state=worst,
                correctness=Correctness.CORRECT,
                validity=Validity.VALID,
                reason="" if worst is State.OK else "one did not end well",
                arms=(right("baseline", 1.0), *those),
                comparisons=tuple(compared(rung, speedup) for rung, speedup in timed),
            )
        self._runs[run.id] = run
        return events.Reply(to=request.seq, run_ids=[run.id])

    def read(self, run_id: str, told: Run | None) -> asking.Answer:
        return asking.Answer(Reading(told or self._runs[run_id]))


def right(rung: str, median_ms: float) -> Arm:
    return Arm(rung, State.OK, Correctness.CORRECT, Timing.HOST, median_ms, median_ms, median_ms, sample_count=9)


def compared(rung: str, speedup: float) -> Comparison:
    verdict = Verdict.FASTER if speedup > 1 else Verdict.SLOWER
    return Comparison(rung, "baseline", verdict, speedup, speedup * 0.99, speedup * 1.01, 0.005)


def all_right(names: list[str]) -> dict[str, Arm]:
    return {name: right(name, 1 / SPEEDUPS[name]) for name in names}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Candidates]:
    isolate(monkeypatch, tmp_path)
    with Candidates(tmp_path / "candidates.db") as opened:
        yield opened


async def judged(
    table: Candidates,
    monkeypatch: pytest.MonkeyPatch,
    ones: list[Brought],
    say: Callable[[list[str]], dict[str, Arm] | State] = all_right,
    terms: Terms = QUICK,
    change: Callable[[Engine], None] = lambda engine: None,
) -> tuple[Engine, dict[str, Ended], list[Ended]]:
    """The engine as it was asked, what became of each candidate at the last level, and what was told in order."""
    engine = Engine({many.rung_of(snapshot_hash(one.files)): one.name for one in ones}, say)
    change(engine)
    monkeypatch.setattr(asking, "read", engine.read)
    told: list[Ended] = []
    ends = await Judging(table, ones, terms, told.append).work(engine)  # type: ignore[arg-type]
    return engine, {end.name: end for end in ends}, told


@pytest.mark.parametrize(
    ("gpus", "terms", "most"),
    [
        (0, QUICK, 2),
        (1, QUICK, 2),
        (4, QUICK, 5),
        (4, Terms(finalists=0, ahead=3), 3),
        (4, Terms("cpu", finalists=0), 2),
    ],
)
async def test_every_gpu_has_a_run_and_one_more_waits(
    table: Candidates, monkeypatch: pytest.MonkeyPatch, gpus: int, terms: Terms, most: int
) -> None:
    ones = brought(*(f"one{number:02}" for number in range(7 * many.GROUP)))
    under_way: list[int] = [0]
    full = asyncio.Event()  # as many as there may be have come; on a busy machine that takes a while

    class Slow(Engine):
        async def status(self) -> Any:
            devices = [SimpleNamespace(name="H100")] * gpus
            return SimpleNamespace(devices=devices, gpu_note="" if gpus else "there is none", queue=[])

        async def request(self, request: requests.StartRuns) -> events.Reply:
            under_way.append(under_way[-1] + 1)
            if under_way[-1] == most:
                full.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(full.wait(), 20)
            await asyncio.sleep(0.1)  # for one too many
            under_way.append(under_way[-1] - 1)
            return await super().request(request)

    engine = Slow(
        {many.rung_of(snapshot_hash(one.files)): one.name for one in ones},
        lambda names: {name: Arm(name, State.USER_ERROR, reason="no") for name in names},
    )
    monkeypatch.setattr(asking, "read", engine.read)
    ends = await Judging(table, ones, terms, lambda end: None).work(engine)  # type: ignore[arg-type]
    assert len(ends) == len(ones) and max(under_way) == most


async def test_candidates_share_runs_and_the_fastest_gets_one_of_its_own(
    table: Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    ones = brought("fast", "good", "slow")
    engine, ends, told = await judged(table, monkeypatch, ones, terms=Terms(patience_s=9.0))
    assert [(sorted(engine.named(one)), one.quick, one.patience_s) for one in engine.asked] == [
        (["fast", "good", "slow"], True, 9.0),
        (["fast"], False, 9.0),
    ]
    assert [(end.name, end.level) for end in told][-1] == ("fast", Level.FULL)
    assert ends["fast"].outcome is not None and ends["fast"].outcome.speedup == 3.0
    again, known, _ = await judged(table, monkeypatch, ones, terms=Terms(patience_s=9.0))
    assert again.asked == [] and known["fast"].outcome == ends["fast"].outcome
    other, _, _ = await judged(table, monkeypatch, ones, terms=Terms(patience_s=8.0))
    assert len(other.asked) == 2  # under other conditions it is another judgement


async def test_a_run_holds_no_more_than_a_group_and_parts_of_a_candidate_stay_apart(
    table: Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "GROUP", 2)
    ones = [*brought("fast", "good", "slow"), *brought("parts", more={"helper.py": b""})]
    monkeypatch.setitem(SPEEDUPS, "parts", 1.5)
    engine, _, _ = await judged(table, monkeypatch, ones)
    groups = [engine.named(one) for one in engine.asked]
    assert max(map(len, groups)) == 2 and ["parts"] in groups
    assert sorted(name for group in groups for name in group) == ["fast", "good", "parts", "slow"]


async def test_where_a_run_says_nothing_each_is_tried_alone_and_then_given_up(
    table: Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    def say(names: list[str]) -> dict[str, Arm] | State:
        return State.INFRA_ERROR if "bad" in names else all_right(names)

    ones = brought("bad", "good", "slow")
    engine, ends, _ = await judged(table, monkeypatch, ones, say)
    assert [ends[name].outcome is not None for name in ("good", "slow", "bad")] == [True, True, False]
    assert "the verifier was ended" in ends["bad"].why
    alone = [engine.named(one) for one in engine.asked[1:]]
    assert len(engine.asked[0].rungs) == 3 and alone.count(["bad"]) == MOST_ATTEMPTS
    assert alone.count(["good"]) == alone.count(["slow"]) == 1
    once_more, better, _ = await judged(table, monkeypatch, ones, lambda names: dict.fromkeys(names, right("x", 0.5)))
    assert [once_more.named(one) for one in once_more.asked] == [["bad"]]  # somebody asks again
    assert better["bad"].outcome is not None


async def test_what_the_engine_refuses_is_the_end_of_the_one_that_it_is_about(
    table: Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(names: list[str]) -> dict[str, Any]:
        if "wide" in names:
            return {"error": "refused", "refused": {"mine:one": "needs sm_90"}}
        return {"error": "the queue is full"} if "late" in names else {}

    _, ends, _ = await judged(
        table,
        monkeypatch,
        brought("wide", "late", "good"),
        change=lambda engine: setattr(engine, "refuses", refuses),
    )
    wide, late, good = (ends[name] for name in ("wide", "late", "good"))
    assert wide.outcome is not None and (wide.outcome.state, wide.outcome.why) == (State.UNAVAILABLE, "needs sm_90")
    assert late.outcome is None and late.why == "the queue is full"
    assert good.outcome is not None and good.outcome.right


async def test_without_a_gpu_nothing_is_planned_for_one(table: Candidates, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoppedError, match=r"^no GPU here: there is none$"):
        await judged(table, monkeypatch, brought("fast", "good"), terms=Terms("cuda"))
    assert not sum(table.counts().values())


async def test_a_gpu_that_is_gone_meanwhile_is_no_candidates_end(
    table: Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be planned any more has no outcome, and is judged when the GPU is there again."""
    note = ""

    async def status(self: Engine) -> Any:
        return SimpleNamespace(devices=[SimpleNamespace(name="H100")], gpu_note=note, queue=[])

    def refuses(names: list[str]) -> dict[str, Any]:
        nonlocal note
        note = "GPU 0 is lost"
        return {"error": "refused", "refused": {"mine:one": f"the GPU is set aside: {note}"}}

    monkeypatch.setattr(Engine, "status", status)
    with pytest.raises(StoppedError, match=r"^the GPU is set aside: GPU 0 is lost; what has an outcome keeps it$"):
        await judged(
            table, monkeypatch, brought("fast"), terms=QUICK, change=lambda engine: setattr(engine, "refuses", refuses)
        )
    assert table.counts()[CandidateState.PLANNED] == 1
    note = ""
    _, ends, _ = await judged(table, monkeypatch, brought("fast"), terms=QUICK)
    assert ends["fast"].outcome is not None and ends["fast"].outcome.right


@pytest.mark.parametrize(
    ("state", "told"), [(State.CANCELLED, "was cancelled"), (State.UNAVAILABLE, "the verifier was ended")]
)
async def test_a_run_that_nobody_can_have_ends_all_and_gives_the_rows_back(
    table: Candidates, monkeypatch: pytest.MonkeyPatch, state: State, told: str
) -> None:
    """Somebody cancels it, or the engine starts no process for anybody: no candidate is to blame."""
    with pytest.raises(StoppedError, match=told):
        await judged(table, monkeypatch, brought("fast", "good"), lambda names: state)
    assert table.counts()[CandidateState.PLANNED] == 2
    assert all(row.attempts == 0 for row in (table.row(1), table.row(2)))


@pytest.mark.parametrize(
    ("state", "asked"), [(State.OK, 0), (State.UNAVAILABLE, 1), (State.CANCELLED, 1), (State.ENGINE_LOST, 1)]
)
async def test_a_run_that_ended_meanwhile_is_taken_where_it_says_something(
    table: Candidates, monkeypatch: pytest.MonkeyPatch, state: State, asked: int
) -> None:
    """The driver is gone after it has asked; the run is in the store when it begins again."""
    with monkeypatch.context() as killed:

        def unheard(engine: Engine) -> None:
            async def ended(judging: Judging, run_id: str) -> None:
                run = replace(engine._runs[run_id], wall=datetime.datetime.now(datetime.UTC).isoformat())
                if state is not State.OK:
                    why = "it is not there"
                    arms = tuple(Arm(arm.rung, state, reason=why) for arm in run.arms)
                    run = replace(run, state=state, reason=why, arms=arms, comparisons=(), verdict=Verdict.NONE)
                with Store.open(paths.database_file()) as store:
                    store.finish(run, {})
                raise EngineUnavailableError("killed")

            killed.setattr(Judging, "_end", ended)

        with pytest.raises(EngineUnavailableError, match="killed"):
            await judged(table, killed, brought("fast", "good"), change=unheard)
    engine, ends, _ = await judged(table, monkeypatch, brought("fast", "good"))
    assert len(engine.asked) == asked
    assert [end.outcome and end.outcome.verdict for end in ends.values()] == [Verdict.FASTER] * 2


async def test_an_engine_that_goes_away_is_told_and_nothing_stays_leased(
    table: Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(engine: Engine) -> None:
        async def status() -> Any:  # the run stays in the queue until the line breaks
            if engine.asked:
                asyncio.get_running_loop().call_later(0.01, engine.gone.set)
            going = [SimpleNamespace(run_id=run_id, target="") for run_id in engine._runs]
            return SimpleNamespace(devices=[], gpu_note="", queue=going)

        monkeypatch.setattr(engine, "status", status)

    with pytest.raises(EngineUnavailableError, match="goes on from there"):
        await judged(table, monkeypatch, brought("fast"), change=silent)
    row = table.row(1)
    assert (row.state, row.owner, row.attempts) == (CandidateState.PLANNED, "", 0)
    assert row.run_id  # by which the next one finds what it came to
