"""The evaluator for OpenEvolve: a score that says no more than was shown, and evidence instead of exceptions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from aisp.engine.client import EngineUnavailableError
from aisp.engine.doors import api, asking, openevolve
from aisp.engine.protocol import requests
from aisp.store.outcomes import Correctness, State, Timing, Validity, Verdict
from aisp.store.record import Arm, Comparison, Run
from aisp.store.results import evidence
from aisp.store.results.reading import Reading
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target
from tests.replacing import replace
from tests.store.examples import planned
from tests.tui.fake_engine import MAIN, isolate

PROGRAM = "# EVOLVE-BLOCK-START\ndef run(x):\n    return x + x\n# EVOLVE-BLOCK-END\n"


def faster(run: Run) -> Run:
    """The run of a candidate that is twice as fast, and at least 1.9 times."""
    arms = tuple(
        Arm(rung, State.OK, Correctness.CORRECT, Timing.HOST, ms, sample_count=9)
        for rung, ms in (("baseline", 1.0), (api.CANDIDATE, 0.5))
    )
    items = (Comparison(api.CANDIDATE, "baseline", Verdict.FASTER, 2.0, 1.9, 2.1, 0.01),)
    end = {"correctness": Correctness.CORRECT, "validity": Validity.VALID, "verdict": Verdict.FASTER}
    return replace(run, state=State.OK, arms=arms, comparisons=items, **end)


def ended(run: Run, state: State) -> Run:
    correctness = Correctness.WRONG if state is State.INCORRECT else Correctness.UNKNOWN
    signal = 11 if state is State.CRASHED else None
    arm = Arm(api.CANDIDATE, state, correctness, reason="its words", detail="its words", signal=signal)
    return replace(run, state=state, correctness=correctness, reason="its words", arms=(arm,))


class Engine:
    """Answers with the run that a test wants."""

    def __init__(self) -> None:
        self.asked: list[requests.StartRuns] = []
        self.end: Any = faster

    def ask(self, request: requests.StartRuns) -> asking.Answer:
        self.asked.append(request)
        if isinstance(self.end, Exception):
            raise self.end
        return asking.Answer(Reading(self.end(planned(request.targets[0], quick=request.quick))))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    isolate(monkeypatch, tmp_path)
    for name in (openevolve.TARGET, openevolve.LEVEL, openevolve.DEVICE):
        monkeypatch.delenv(name, raising=False)
    made = Engine()
    monkeypatch.setattr(asking, "ask", made.ask)
    return made


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(write_target(tmp_path / "mine", {}).folder)


def told(result: Any) -> dict[str, Any]:
    """The evidence of a result, which is its one artifact."""
    assert list(result.artifacts) == ["evidence"]
    text = result.artifacts["evidence"]
    assert len(text.encode()) <= evidence.EVIDENCE_BYTES
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_score_is_the_least_that_was_shown(engine: Engine, program: Path, target: str) -> None:
    result = openevolve.evaluator(target)(str(program))
    assert result.metrics == {"combined_score": 1.9, "right": 1.0, "speedup": 2.0, "judged": 1.0}
    assert told(result)["verdict"] == "faster"
    (asked,) = engine.asked
    assert asked.quick and asked.rungs == [api.CANDIDATE]
    assert (Path(asked.roots[0]) / f"{api.CANDIDATE}.py").read_text() == PROGRAM


@pytest.mark.parametrize("state", [State.INCORRECT, State.USER_ERROR, State.CRASHED, State.TIMEOUT_TOTAL])
def test_what_is_not_right_has_no_score_and_says_why(engine: Engine, program: Path, target: str, state: State) -> None:
    engine.end = lambda run: ended(run, state)
    result = openevolve.evaluator(target)(str(program))
    assert (result.metrics["combined_score"], result.metrics["right"]) == (0.0, 0.0)
    assert told(result)["reason_code"] == state.value and told(result)["next_move"]


@pytest.mark.parametrize(
    "error",
    [
        asking.RefusedError("no such thing"),
        asking.NotHereError("no GPU here"),
        EngineUnavailableError("it went away"),
        RuntimeError("nobody thought of it"),
    ],
)
def test_what_cannot_be_judged_is_no_exception(engine: Engine, program: Path, target: str, error: Exception) -> None:
    engine.end = error
    result = openevolve.evaluator(target)(str(program))
    assert set(result.metrics.values()) == {0.0}
    assert told(result)["verdict"] == "unavailable" and str(error) in told(result)["message"]


def test_a_program_that_is_none_is_told_without_a_run(engine: Engine, program: Path, target: str) -> None:
    evaluate = openevolve.evaluator(target)
    program.write_text("def run(x:\n")
    assert "candidate.py:1" in told(evaluate(str(program)))["quoted"]["text"]
    program.write_text("#" * 40_000_000)
    assert told(evaluate(str(program)))["reason_code"] == "unreadable"
    assert told(evaluate(str(program.with_name("gone.py"))))["reason_code"] == "unreadable"
    assert not engine.asked


def test_the_target_and_the_level_may_come_from_the_environment(
    engine: Engine, program: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "AISP_TARGET" in told(openevolve.evaluate(str(program)))["message"]
    monkeypatch.setenv(openevolve.TARGET, target)
    monkeypatch.setenv(openevolve.DEVICE, "cpu")
    for evaluate in (openevolve.evaluate, openevolve.evaluate_stage1, openevolve.evaluate_stage2):
        assert evaluate(str(program)).metrics["combined_score"] == 1.9
    assert [(asked.quick, asked.device) for asked in engine.asked] == [(True, "cpu"), (True, "cpu"), (False, "cpu")]
    monkeypatch.setenv(openevolve.LEVEL, "slow")
    assert "quick or full" in told(openevolve.evaluate(str(program)))["message"]


def test_the_result_is_of_openevolves_own_class_where_that_is_loaded(
    engine: Engine, program: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Theirs(openevolve.EvaluationResult):
        pass

    module = types.ModuleType("openevolve.evaluation_result")
    module.EvaluationResult = Theirs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert type(openevolve.evaluator(target)(str(program))) is Theirs


def test_a_level_that_is_none_is_refused_where_it_is_named(target: str) -> None:
    with pytest.raises(ValueError, match="quick or full"):
        openevolve.evaluator(target, level="slow")


def test_importing_it_imports_nothing_of_openevolve() -> None:
    code = (
        "import sys, aisp.engine.doors.openevolve; print([m for m in sys.modules if m.split('.')[0] == 'openevolve'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=MAIN, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_page_says_what_an_evaluation_file_is_and_what_comes_back(
    engine: Engine, program: Path, target: str
) -> None:
    page = (MAIN / "docs/agents.md").read_text("utf-8").partition("## OpenEvolve")[2]
    (file,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(file.replace("ch07:transpose", target), names)  # noqa: S102  the page is ours
    result = names["evaluate"](str(program))
    assert set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == set(result.metrics)
    for name in (openevolve.TARGET, openevolve.LEVEL, openevolve.DEVICE):
        assert f"`{name}`" in page


@pytest.mark.slow
async def test_the_same_program_is_measured_once(shared: EngineUnderTest, tmp_path: Path) -> None:
    made = write_target(tmp_path / "mine", {}, cases='[[cases]]\nname = "cpu"\naxes = { N = 4096 }')
    program = tmp_path / "program.py"
    program.write_text("def run(x):\n    return x * 3\n")
    evaluate = openevolve.evaluator(str(made.folder), device="cpu")
    first, again = told(evaluate(str(program))), told(evaluate(str(program)))
    assert first["verdict"] == "wrong" and first["run"] == again["run"]
