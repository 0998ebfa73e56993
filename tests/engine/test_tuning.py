"""`aisp tune`: which combinations are tried, which one is judged again, and what is told of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from aisp.engine import client, paths
from aisp.engine.doors import tuning
from aisp.engine.doors.asking import NotHereError, RefusedError
from aisp.engine.protocol import events, requests
from aisp.kernels import catalog
from aisp.kernels.catalog import parameters
from aisp.kernels.catalog.model import Rung, Target
from aisp.kernels.catalog.parameters import Parameter
from aisp.store import Store
from aisp.store.candidates import Candidates, CandidateState
from aisp.store.outcomes import Correctness, State, Timing, Validity, Verdict
from aisp.store.record import Arm, Comparison
from aisp.store.results.evidence import Outcome
from aisp.tui.cli.tree import cli
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target
from tests.replacing import replace
from tests.store.examples import planned
from tests.tui.fake_engine import isolate

SOURCE = "BLOCK = 4\nWARPS = 1\n\n\ndef run(x):\n    return x * 2\n"
BLOCK = Parameter("BLOCK", (2, 4, 8, 16))
WARPS = Parameter("WARPS", (1, 2))


class Machine:
    """Stands for the engine: the speed-up of each combination, in a quick run and in a full one."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.asked: list[tuple[dict[str, Any], bool]] = []
        self.worth: Callable[[dict[str, Any], bool], float | State] = lambda values, quick: values["BLOCK"] / 2
        self.validity = Validity.VALID
        self.interrupt_at = 0
        self.last: Rung
        self.under_way: list[str] = []
        self.cancelled: list[str] = []

    def next_seq(self) -> int:
        return 1

    async def status(self) -> Any:
        if self.under_way and not self.cancelled:
            os.kill(os.getpid(), signal.SIGINT)
        queue = [SimpleNamespace(run_id=run_id, target="") for run_id in self.under_way]
        return SimpleNamespace(devices=[], gpu_note="there is none", queue=queue)

    async def batches(self) -> AsyncIterator[list[events.Event]]:
        await asyncio.Event().wait()
        yield []

    async def request(self, request: requests.StartRuns | requests.Cancel) -> events.Reply:
        """A stored run of what lies at the request's root; one that goes on where somebody is to press Ctrl-C."""
        if isinstance(request, requests.Cancel):
            self.cancelled.append(request.run_id)
            return events.Reply(to=request.seq)
        (rung,), (target,) = request.rungs, request.targets
        found = parameters.constants((Path(request.roots[0]) / f"{rung}.py").read_bytes())
        values = {name: constant.value for name, constant in found.items()}
        if len(self.asked) + 1 == self.interrupt_at:
            self.under_way = ["01UNDERWAY"]
            return events.Reply(to=request.seq, run_ids=self.under_way)
        self.asked.append((values, request.quick))
        self.last = catalog.load([Path(request.roots[0])]).targets[0].rung(rung)
        worth = self.worth(values, request.quick)
        run = replace(planned(target), quick=request.quick)
        base = Arm("baseline", State.OK, Correctness.CORRECT, Timing.HOST, 1.0, sample_count=9)
        if isinstance(worth, State):
            wrong = Correctness.WRONG if worth is State.INCORRECT else Correctness.UNKNOWN
            reason = "as the test wants it"
            arm = Arm(rung, worth, wrong, reason=reason)
            run = replace(run, state=worth, correctness=wrong, reason=reason, arms=(base, arm))
        else:
            arm = Arm(rung, State.OK, Correctness.CORRECT, Timing.HOST, 1 / worth, sample_count=9)
            end = {"state": State.OK, "correctness": Correctness.CORRECT, "validity": self.validity}
            verdict = Verdict.FASTER if worth > 1.1 else Verdict.UNDECIDED
            item = Comparison(rung, "baseline", verdict, worth, worth * 0.99, worth * 1.01, 0.01)
            if self.validity is not Validity.VALID:
                item = Comparison(rung, "baseline", Verdict.NONE, note="doubted")
            run = replace(run, **end, arms=(base, arm), comparisons=(item,))
        with Store.open(self.state / "aisp.db") as store:
            store.finish(run, {})
        return events.Reply(to=request.seq, run_ids=[run.id])

    @property
    def blocks(self) -> list[Any]:
        """Values of BLOCK of the quick runs, in their order."""
        return [values["BLOCK"] for values, quick in self.asked if quick]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    made = Machine(isolate(monkeypatch, tmp_path))
    made.state.mkdir(mode=0o700, exist_ok=True)

    async def connected() -> Any:
        return contextlib.nullcontext(made)

    monkeypatch.setattr(client, "connect_from_now", connected)
    return made


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return write_target(tmp_path / "mine", {"optimized.py": SOURCE})


def tune(target: Target, given: Sequence[Parameter] = (BLOCK,), **options: Any) -> tuning.Tuned:
    return tuning.tune(target, "optimized", given, **{"budget_s": 60.0, "grid": True, **options})


def test_a_grid_tries_what_the_file_has_and_then_every_other_combination_once(machine: Machine, target: Target) -> None:
    found = tune(target, (BLOCK, WARPS))
    tried = [(values["BLOCK"], values["WARPS"]) for values, quick in machine.asked if quick]
    assert tried[0] == (4, 1)
    assert len(tried) == len(set(tried)) == found.combinations == 8
    assert (target.folder / "optimized.py").read_text() == SOURCE  # the file stays


def test_the_best_is_judged_again_in_a_full_run_that_may_say_less(machine: Machine, target: Target) -> None:
    machine.worth = lambda values, quick: values["BLOCK"] / 2 if quick else 1.5
    found = tune(target)
    assert machine.asked[-1] == ({"BLOCK": 16, "WARPS": 1}, False)
    assert [quick for _, quick in machine.asked].count(False) == 1
    assert found.best is not None and found.final is not None
    assert (found.best.score, found.final.score) == (8.0, 1.5)


def test_what_learns_finds_the_best_of_many_without_trying_all(machine: Machine, target: Target) -> None:
    wide = Parameter("BLOCK", tuple(range(1, 65)))
    machine.worth = lambda values, quick: 8 / (1 + abs(values["BLOCK"] - 40)) + values["WARPS"] / 10
    ends = iter([False] * 40 + [True] * 100)
    counted: list[int] = []

    def told(trial: tuning.Trial) -> None:
        counted.append(trial.number)
        if next(ends):
            raise KeyboardInterrupt

    found = tune(target, (wide, WARPS), grid=False, told=told)
    assert found.sampler == tuning.TPE and found.interrupted
    assert len(found.trials) == 41 < found.combinations
    keys = [tuple(trial.values.items()) for trial in found.trials]
    assert len(set(keys)) == len(keys)


def test_what_learns_ends_when_all_was_tried_and_tries_nothing_twice(machine: Machine, target: Target) -> None:
    found = tune(target, (BLOCK, WARPS), grid=False)
    keys = [tuple(sorted(trial.values.items())) for trial in found.trials]
    assert len(keys) == len(set(keys)) == 8
    assert found.best is not None and found.best.values["BLOCK"] == 16


def test_values_of_the_file_that_are_not_among_those_to_try_are_tried_all_the_same(
    machine: Machine, target: Target
) -> None:
    for grid in (True, False):
        machine.asked.clear()
        found = tune(target, (Parameter("BLOCK", (2, 8, 32 * (1 + grid))),), grid=grid)
        assert found.trials[0].values == found.written == {"BLOCK": 4}
        assert len(found.trials) == 4


def test_no_trial_begins_after_the_budget(machine: Machine, target: Target) -> None:
    found = tune(target, budget_s=0.0)
    assert machine.blocks == [4]
    assert found.final is not None and machine.asked[-1][1] is False  # the full run comes on top


def test_a_combination_that_was_measured_before_is_taken_from_the_store(machine: Machine, target: Target) -> None:
    tune(target)
    before = len(machine.asked)
    again = tune(target)
    assert [trial.known for trial in again.trials] == [True] * 4
    assert [quick for _, quick in machine.asked[before:]] == [False]  # the full run alone is made anew


def test_a_time_that_was_doubted_is_taken_again(machine: Machine, target: Target) -> None:
    machine.validity = Validity.SUSPECT
    tune(target, (Parameter("BLOCK", (4,)),))
    machine.validity = Validity.VALID
    (trial,) = tune(target, (Parameter("BLOCK", (4,)),)).trials
    assert not trial.known and machine.blocks == [4, 4]


def test_a_combination_whose_run_is_not_in_the_store_any_more_is_measured_again(
    machine: Machine, target: Target
) -> None:
    tune(target, (Parameter("BLOCK", (4,)),))
    (machine.state / "aisp.db").unlink()
    (trial,) = tune(target, (Parameter("BLOCK", (4,)),)).trials
    assert not trial.known and machine.blocks == [4, 4]


def test_what_is_wrong_or_crashes_is_no_winner(machine: Machine, target: Target) -> None:
    ends = {4: 1.2, 2: State.INCORRECT, 8: State.USER_ERROR, 16: State.TIMEOUT_TOTAL}
    machine.worth = lambda values, quick: ends[values["BLOCK"]]
    found = tune(target)
    outcomes = {trial.values["BLOCK"]: trial.evidence.verdict for trial in found.trials}
    assert outcomes == {4: Outcome.FASTER, 2: Outcome.WRONG, 8: Outcome.FAILED, 16: Outcome.FAILED}
    assert found.best is not None and found.best.values == {"BLOCK": 4}


def test_where_nothing_is_right_there_is_no_full_run(machine: Machine, target: Target) -> None:
    machine.worth = lambda values, quick: State.INCORRECT
    found = tune(target)
    assert (found.best, found.final) == (None, None)
    assert all(quick for _, quick in machine.asked)


def test_ctrl_c_keeps_what_was_found_and_cancels_what_is_under_way(machine: Machine, target: Target) -> None:
    machine.interrupt_at = 3
    found = tune(target)
    assert found.interrupted and len(found.trials) == 2 and found.final is None and found.best is not None
    assert machine.cancelled == ["01UNDERWAY"]
    with Candidates(paths.candidates_file()) as table:
        assert table.counts()[CandidateState.LEASED] == 0


@pytest.mark.parametrize(
    ("rung", "given", "told"),
    [
        ("optimized", (), r"declares no parameters; name them.*BLOCK=4, WARPS=1"),
        ("optimized", (Parameter("BLOK", (1,)),), "no constant BLOK"),
        ("optimized", (Parameter("BLOCK", ("wide",)),), "is no int"),
        ("optimized", (BLOCK, BLOCK), "named twice"),
        ("baseline", (BLOCK,), "against its baseline"),
        ("optimised", (BLOCK,), "no rung 'optimised'"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_runs(
    machine: Machine, target: Target, rung: str, given: Sequence[Parameter], told: str
) -> None:
    with pytest.raises(RefusedError, match=told):
        tuning.tune(target, rung, given, budget_s=1.0)
    assert not machine.asked


def test_without_optuna_the_grid_is_named(machine: Machine, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(NotHereError, match=r"pip install \"aisp\[tune\]\", or search the grid"):
        tune(target, grid=False)
    assert len(tune(target).trials) == 4


# -- the command -------------------------------------------------------------------------------------------------------


def command(target: Target, *words: str) -> Any:
    return CliRunner().invoke(cli, ["tune", "one", "optimized", "--root", str(target.root), *words])


def test_the_command_tells_the_best_first_and_what_the_full_run_says(machine: Machine, target: Target) -> None:
    machine.worth = lambda values, quick: values["BLOCK"] / 2 if quick else 1.5
    shown = command(target, "--param", "BLOCK=2,4,8", "--grid")
    assert shown.exit_code == 0, shown.output
    rows = [line for line in shown.stdout.splitlines() if line.lstrip()[:1].isdigit() and "faster" in line]
    assert [line.split()[0] for line in rows][:2] == ["8", "4"]
    assert "as written" in rows[1]
    assert "=> BLOCK=8: 1.50x" in shown.output and "the best of 3: 4.00x" in shown.output


def test_the_command_says_no_where_nothing_is_right(machine: Machine, target: Target) -> None:
    machine.worth = lambda values, quick: State.INCORRECT
    shown = command(target, "--param", "BLOCK=2,4", "--grid", "--json")
    told = json.loads(shown.stdout)
    assert shown.exit_code == 1 and (told["best"], told["final"]) == (None, None)
    assert [trial["verdict"] for trial in told["trials"]] == ["wrong", "wrong"]


@pytest.mark.parametrize(
    ("words", "status"), [(("--param", "BLOCK"), 2), (("--param", "BLOK=1"), 2), ((), 2), (("--budget", "-1"), 2)]
)
def test_what_is_typed_wrongly_is_wrong_usage(
    machine: Machine, target: Target, words: tuple[str, ...], status: int
) -> None:
    shown = command(target, *words)
    assert shown.exit_code == status and not machine.asked


def test_what_the_lesson_declares_is_searched(machine: Machine, tmp_path: Path) -> None:
    notes = "[rungs.optimized]\nparameters = { BLOCK = [4, 8] }\n"
    target = write_target(tmp_path / "mine", {"optimized.py": SOURCE}, cases=notes)
    assert catalog.load([tmp_path / "mine"]).targets
    told = json.loads(command(target, "--grid", "--json").stdout)
    assert told["parameters"] == {"BLOCK": [4, 8]} and told["best"] == {"BLOCK": 8}


def test_a_combination_is_judged_by_what_the_lesson_declares_of_its_rung(machine: Machine, tmp_path: Path) -> None:
    notes = "[rungs.optimized]\ninexact = true\nparameters = { BLOCK = [4] }\n"
    tune(write_target(tmp_path / "mine", {"optimized.py": SOURCE}, cases=notes), ())
    assert machine.last.name == "optimized" and machine.last.inexact


@pytest.mark.slow
def test_a_wrong_value_loses_against_a_right_one_in_the_engine(shared: EngineUnderTest, tmp_path: Path) -> None:
    source = "SHIFT = 1\n\n\ndef run(x):\n    return x * 2 + SHIFT\n"
    cases = '[[cases]]\nname = "cpu"\naxes = { N = 65536 }'
    target = write_target(tmp_path / "mine", {"optimized.py": source}, cases=cases)
    found = tune(target, (Parameter("SHIFT", (0, 1)),), device="cpu")
    assert found.trials[0].evidence.verdict is Outcome.WRONG
    assert found.trials[1].values == {"SHIFT": 0} and found.trials[1].evidence.stage.value in ("time", "checks")
