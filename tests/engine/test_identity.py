"""Two contents are never one: whatever the digest is, each candidate is answered by its own result at every door, or is
refused by name. The engine is played here: it says how the file ends that lies in the folder which it is given.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aisp.engine import client, paths, written
from aisp.engine.doors import many, openevolve
from aisp.engine.doors.api import CANDIDATE
from aisp.engine.doors.fleet import running, work
from aisp.engine.doors.fleet.messages import Give
from aisp.engine.doors.many import Brought, Common, Ended, Judging, Terms
from aisp.engine.doors.serve import app, feed
from aisp.engine.doors.serve.clerk import Clerk
from aisp.engine.doors.serve.shelf import Shelf
from aisp.engine.protocol import events, requests
from aisp.kernels import catalog
from aisp.store import Store, identity
from aisp.store.candidates import CandidateRequest, Candidates, Level, TakenError
from aisp.store.outcomes import Correctness, State, Timing, Validity, Verdict
from aisp.store.record import Arm, Comparison, Run
from tests import heard
from tests.engine import fleet_support, test_mcp
from tests.replacing import replace
from tests.store.examples import planned
from tests.tui.fake_engine import FakeEngine, isolate, make_target

COUNT = 48
WRONG = 0.0
WHOLE = identity.digest
MARK = re.compile(rb"# number (\d+)")


def eight_bits(data: bytes) -> str:
    """So few that of `COUNT` contents several have the same."""
    return WHOLE(data)[:2] * 32


def one_beginning(data: bytes) -> str:
    """Whole, and alike in the 32 digits at which it begins."""
    return "0" * 32 + WHOLE(data)[:32]


def speedup(number: int) -> float:
    """Of a candidate: every third is wrong, and of the others every second is slower. No two have the same."""
    return (WRONG, 1.5 + number / 100, 0.5 + number / 1000)[number % 3]


def text(number: int, name: str = "run") -> str:
    """The source of a candidate."""
    return f"def {name}(x):\n    return x + 1  # number {number}\n"


def arm_of(rung: str, source: bytes) -> tuple[Arm, tuple[Comparison, ...]]:
    """How a rung of that source ends."""
    (number,) = map(int, MARK.findall(source))
    factor = speedup(number)
    if factor == WRONG:
        return Arm(rung, State.INCORRECT, Correctness.WRONG, reason="wrong values"), ()
    verdict = Verdict.FASTER if factor > 1 else Verdict.SLOWER
    item = Comparison(rung, "baseline", verdict, factor, factor * 0.99, factor * 1.01, 0.004)
    return right(rung, 1 / factor), (item,)


def right(rung: str, median_ms: float) -> Arm:
    return Arm(rung, State.OK, Correctness.CORRECT, Timing.HOST, median_ms, median_ms, median_ms, sample_count=9)


class Engine(FakeEngine):
    """Its runs end as the files say that lie in the folder of their target."""

    def __init__(self, state: Path) -> None:
        super().__init__()
        self._store = Store.open(state / "aisp.db")
        self._asked: dict[str, tuple[Path, bool]] = {}

    async def _start_runs(self, request: requests.StartRuns) -> events.Event:
        (target,) = request.targets
        self._asked[target] = (Path(request.roots[0]), request.quick)
        return await super()._start_runs(request)

    def _play(self, run_id: str, target: str) -> None:
        folder, quick = self._asked[target]
        rungs = [path.stem for path in folder.glob("optimized_*.py")]
        found = [arm_of(rung, self._source(folder, rung)) for rung in sorted(rungs)]
        run = planned(target, id=run_id, device="cpu", case="cpu", quick=quick)
        state = next((arm.state for arm, _ in found if arm.state is not State.OK), State.OK)
        bad = state is not State.OK
        end: Run = replace(
            run,
            state=state,
            correctness=Correctness.WRONG if bad else Correctness.CORRECT,
            validity=Validity.VALID,
            verdict=Verdict.NONE if bad else Verdict.FASTER,
            reason="wrong values" if bad else "",
            arms=(right("baseline", 1.0), *(arm for arm, _ in found)),
            comparisons=tuple(item for _, items in found for item in items),
        )
        self._runs.pop(run_id, None)
        self._store.plan([run])
        self._store.finish(end, {}, None)
        self._broadcast(heard.finished(run_id=run_id, target=target, state=state.value))

    def _source(self, folder: Path, rung: str) -> bytes:
        own = (folder / f"{rung}.py").read_bytes()
        return own if MARK.search(own) else (folder / "solution" / "main.py").read_bytes()


@pytest.fixture(params=[eight_bits, one_beginning])
def refuses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Another digest everywhere; whether candidates are refused for it."""
    monkeypatch.setattr(identity, "digest", request.param)
    return bool(request.param is eight_bits)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    state = isolate(monkeypatch, tmp_path)
    state.mkdir(mode=0o700)
    make_target(tmp_path / "mine", "one")
    return state


@pytest.fixture
def engine(state: Path) -> Iterator[Engine]:
    with Engine(state) as playing:
        yield playing


@pytest.fixture
def table(state: Path) -> Iterator[Candidates]:
    with Candidates(paths.candidates_file()) as opened:
        yield opened


def check(answers: dict[int, float | None], *, refuses: bool) -> None:
    """Each is its own, or refused (None); most are answered even where some are refused."""
    assert {number: answer for number, answer in answers.items() if answer is not None} == pytest.approx(
        {number: speedup(number) for number, answer in answers.items() if answer is not None}
    )
    refused = [number for number, answer in answers.items() if answer is None]
    assert len(answers) == COUNT and bool(refused) == refuses and len(refused) < COUNT / 2


def of(end: Ended) -> float | None:
    """The answer that an end is."""
    assert end.outcome is not None or "digest" in end.why
    if end.outcome is None or (end.outcome.state is not State.OK and not end.outcome.run_id):
        assert "digest" in (end.why or (end.outcome.why if end.outcome else ""))
        return None
    return WRONG if end.outcome.state is State.INCORRECT else end.outcome.speedup


def common(tmp_path: Path) -> Common:
    return Common.of(catalog.load([tmp_path / "mine"]).find("mine:one"))


def brought(tmp_path: Path, source: Callable[[int], str] = text) -> list[Brought]:
    shared = common(tmp_path)
    return [many.beside(str(n), {many.ENTRY: source(n).encode()}, shared) for n in range(COUNT)]


# -- the doors ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_over_http(state: Path, tmp_path: Path, engine: Engine, refuses: bool) -> None:
    from starlette.testclient import TestClient

    def solution(number: int) -> dict[str, Any]:
        spec = {"entry_point": "main.py::go", "language": "python", "destination_passing_style": False}
        sources = [{"path": "main.py", "content": text(number, "go")}]
        return {"name": "cand", "definition": "mine:one", "author": "x", "spec": spec, "sources": sources}

    def ask() -> dict[int, float | None]:
        made = app.make(Clerk(Shelf([tmp_path / "mine"]), feed.Feed()), "secret")
        answers: dict[int, float | None] = {}
        with TestClient(made, base_url="http://localhost", headers={"authorization": "Bearer secret"}) as one:
            sent = {n: one.post("/evaluate", json={"solution": solution(n)}) for n in range(COUNT)}
            for number, answer in sent.items():
                if answer.status_code != 200:
                    assert (answer.status_code, answer.json()["kind"]) == (409, "conflict")
                    answers[number] = None
                    continue
                told = one.get(f"/tasks/{answer.json()['task_id']}", params={"timeout": 30}).json()
                if told["failure"]:
                    assert told["failure"] == "refused" and "digest" in told["error"]
                    answers[number] = None
                    continue
                (trace,) = told["traces"]
                evaluation = trace["evaluation"]
                passed = evaluation["status"] == "PASSED"
                answers[number] = evaluation["performance"]["speedup_factor"] if passed else WRONG
            again = [n for n, answer in sent.items() if answer.status_code == 200]
            for number in again:
                same = one.post("/evaluate", json={"solution": solution(number)})
                assert same.json()["task_id"] == sent[number].json()["task_id"]
        return answers

    check(await asyncio.to_thread(ask), refuses=refuses)


async def test_a_folder_of_many(state: Path, tmp_path: Path, engine: Engine, table: Candidates, refuses: bool) -> None:
    async with await client.connect(start=False) as connection:
        told: list[Ended] = []
        ends = await Judging(table, brought(tmp_path), Terms("cpu", finalists=0), told.append).work(connection)
    check({int(end.name): of(end) for end in ends}, refuses=refuses)
    assert {end.name for end in told} == {end.name for end in ends}


@pytest.mark.slow
async def test_over_a_fleet(
    state: Path,
    tmp_path: Path,
    engine: Engine,
    table: Candidates,
    refuses: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def script(rows: asyncio.Queue[Give], tell: Callable[[Any], None]) -> None:
        tell(fleet_support.HERE)
        while True:
            tell(await asyncio.to_thread(work.judge, await rows.get(), {}))

    fleet_support.put(monkeypatch, script)
    terms = Terms("cpu", finalists=0)
    ends = await running.Fleet(table, "f", brought(tmp_path), terms, lambda _: None, say=lambda _: None).work()
    check({int(end.name): of(end) for end in ends}, refuses=refuses)


async def test_from_an_agent(state: Path, tmp_path: Path, engine: Engine, refuses: bool) -> None:
    answers: dict[int, float | None] = {}
    async with test_mcp.agent(tmp_path / "mine") as one:
        sent = {
            n: await one.call("submit", target="one", files={"candidate.py": text(n)}, note=str(n))
            for n in range(COUNT)
        }
        for number, answer in sent.items():
            if "error" in answer:
                assert answer["error"]["code"] == "refused" and "digest" in answer["error"]["message"]
                answers[number] = None
                continue
            said = await one.call("evaluate", run=answer["run"], wait_s=20)
            assert said["quoted"]["note"] == str(number)
            answers[number] = WRONG if said["verdict"] == "wrong" else said["speedup"]
    check(answers, refuses=refuses)


def test_from_a_search(state: Path, tmp_path: Path, engine: Engine, refuses: bool) -> None:
    evaluate = openevolve.evaluator(str(tmp_path / "mine" / "one"), device="cpu")
    answers: dict[int, float | None] = {}
    for number in range(COUNT):
        program = tmp_path / "program.py"
        program.write_text(text(number))
        found = evaluate(str(program))
        if not found.metrics["judged"]:
            assert "digest" in found.artifacts[openevolve.ARTIFACT]
            answers[number] = None
        else:
            answers[number] = found.metrics["speedup"]
    check(answers, refuses=refuses)


# -- what they stand on ------------------------------------------------------------------------------------------------


def test_a_folder_that_is_kept_has_the_files_that_were_given(state: Path, refuses: bool) -> None:
    refused = 0
    for number in [*range(COUNT), *range(COUNT)]:
        files = {"baseline.py": b"", f"{CANDIDATE}.py": text(number).encode()}
        try:
            folder = written.keep(paths.judged_dir(), "mine", "one", files, most=written.JUDGED)
        except written.TakenError as error:
            refused += 1
            assert "change a comment" in str(error)
            continue
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    assert bool(refused) == refuses


def test_a_folder_that_is_no_longer_what_its_name_says_is_written_anew(state: Path) -> None:
    files = {"baseline.py": b"", f"{CANDIDATE}.py": text(1).encode()}

    def keep() -> Path:
        return written.keep(paths.judged_dir(), "mine", "one", files, most=written.JUDGED)

    folder = keep()
    inode = folder.stat().st_ino
    assert keep().stat().st_ino == inode
    (folder / f"{CANDIDATE}.py").write_bytes(text(2).encode())
    (folder / "further.py").write_bytes(b"")
    assert {path.name: path.read_bytes() for path in keep().iterdir()} == files
    long = written.keep(paths.judged_dir(), "é" * 200, "one", files, most=written.JUDGED)
    assert long.parent.name.endswith(folder.parent.name.removeprefix("mine"))


def test_a_candidate_of_anothers_digest_is_not_planned(
    state: Path, table: Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "digest", lambda _: "ab" * 32)

    def plan(number: int) -> int:
        one = [CandidateRequest("a", {"candidate.py": text(number).encode()})]
        return table.plan("b", target="mine:one", sources="s", wanted=one)[0].number

    assert plan(1) == plan(1)
    with pytest.raises(TakenError, match="change a comment"):
        plan(2)
    assert table.taken([CandidateRequest(str(n), {"candidate.py": text(n).encode()}) for n in (1, 2)]) == [False, True]


def test_a_batch_of_other_candidates_is_not_taken_up(
    state: Path, tmp_path: Path, table: Candidates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "of_words", lambda *_: "ab" * 32)
    ones = brought(tmp_path)

    def plan(some: list[many.Brought]) -> dict[str, int]:
        made = running.Fleet(table, "f", some, Terms("cpu"), lambda _: None, say=lambda _: None)
        return made._plan(some, Level.QUICK)

    assert plan(ones[:2]) == plan(ones[:2])
    with pytest.raises(TakenError):
        plan(ones[2:4])


def test_a_name_means_one_candidate_and_a_digest_one_target(state: Path, tmp_path: Path, table: Candidates) -> None:
    one, two, *_ = brought(tmp_path)
    other = replace(one.common, files={**one.common.files, "baseline.py": b"def run(x):\n    return x\n"})
    found = many.apart(table, [one, replace(two, name=one.name), replace(two, common=other), one])
    assert [bool(each.refused) for each in found] == [False, True, True, False]


def test_names_hold_the_whole_digest_where_they_decide() -> None:
    assert len(identity.digest(b"")) == 64 and identity.of_words("a", "bc") != identity.of_words("ab", "c")
