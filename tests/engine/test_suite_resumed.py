"""A run of a suite that is killed goes on when it is started again: nothing is run twice, and the package is whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from aisp.store import suites
from aisp.store.record import Run
from tests.engine.harness import PATIENCE_S, EngineUnderTest
from tests.proofs.evil import corpus
from tests.tui.fake_engine import start_aisp, wait_for

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(300)]

TARGETS = ["mine:one", "mine:two", "mine:three", "mine:four"]
SUITE = f'title = "Four"\ntargets = {json.dumps(TARGETS)}\nmode = {{ quick = true, policy = "portable" }}\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A collection with four targets and a suite of them; one target is to be run without its second rung."""
    for target in TARGETS:
        corpus.write(tmp_path / "mine" / target.partition(":")[2])
    (tmp_path / "mine" / "three" / "optimized_other.py").write_text(corpus.OPTIMIZED)
    (tmp_path / "mine" / "suites").mkdir()
    (tmp_path / "mine" / "suites" / "four.toml").write_text(SUITE + '[per."mine:three"]\nrungs = ["optimized"]\n')
    return tmp_path / "mine"


def runs(engine: EngineUnderTest) -> list[Run]:
    with engine.history() as history:
        return history.newest()


@pytest.mark.evil
async def test_a_suite_that_is_killed_goes_on_and_runs_nothing_twice(
    own: Callable[..., EngineUnderTest], root: Path
) -> None:
    engine = own()
    await engine.start()
    words = ("suite", "four", "--root", str(root), "--device", "cpu", "--no-turns")
    with engine.use():
        first = start_aisp(*words)
        wait_for(lambda: any(run.state.final for run in runs(engine)), "the first end", PATIENCE_S)
        first.kill()
        first.communicate()
        folder = Path(engine.environment["AISP_STATE"]) / "suites" / "four"
        ended = {run.id for run in runs(engine) if run.state.final}
        assert 0 < len(ended) < len(TARGETS), "it was to be killed in the middle"
        (batch,) = {run.batch for run in runs(engine)}
        assert suites.read_index(folder).here == []

        second = start_aisp(*words, "--json")
        printed, told = second.communicate(timeout=PATIENCE_S)
    assert "aisp: going on with the run of" in told
    found = runs(engine)
    assert sorted(run.target for run in found) == sorted(TARGETS), "something was run twice"
    assert ended < {run.id for run in found}
    *lines, last = [json.loads(line) for line in printed.splitlines()]
    assert {line["run_id"] for line in lines} == {run.id for run in found}
    (package,) = suites.read_index(folder).here
    assert package.id == batch == last["id"]
    assert {entry["target"]: entry["run_id"] for entry in package.summary["targets"]} == {
        run.target: run.id for run in found
    }
    assert (folder / "over").read_text() == batch
    three = next(run for run in found if run.target == "mine:three")
    assert [arm.rung for arm in three.arms if not arm.twin] == ["baseline", "optimized"]
