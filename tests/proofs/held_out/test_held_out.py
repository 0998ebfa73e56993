"""The held-out fixtures are whole. What the checks say of them is told by `python -m tests.proofs held_out`."""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from aisp.kernels import catalog
from aisp.kernels.catalog.model import Kind, Role, TensorSpec
from aisp.store.outcomes import FindingStatus, State, Validity, Verdict
from aisp.store.record import Arm, Finding, Run
from aisp.store.results.reading import Reading
from tests.proofs.audit.gallery import GALLERY, cheats, root_of, target
from tests.proofs.held_out import End, ended, fixtures
from tests.replacing import replace
from tests.store.examples import finished, planned

ON_A_CPU = [name for name in fixtures() if any(case.name == "cpu" for case in target(name).cases)]


@pytest.fixture
def alarms() -> Iterator[None]:
    """The alarm of whoever runs the tests is set again: a rung takes it for its own."""
    handler, (left_s, every_s) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, left_s, every_s)


def _function(path: Path) -> Callable[..., torch.Tensor]:
    spec = importlib.util.spec_from_file_location(f"held_out_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run: Callable[..., torch.Tensor] = module.run
    return run


def _drawn(spec: TensorSpec, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    if spec.dtype == "int8":
        return torch.randint(-128, 128, tuple(shape), generator=generator, dtype=torch.int8)
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float32)


def test_there_are_thirty_and_all_but_three_need_no_gpu() -> None:
    assert len(fixtures()) == 30
    assert len(ON_A_CPU) == 27
    gallery = {lesson.parent.name for lesson in GALLERY.glob("*/*/lesson.md")}
    assert not {name.partition("/")[2] for name in fixtures()} & gallery
    readme = (root_of(fixtures()[0]) / "held_out" / "README.md").read_text()
    assert [f"held_out/{line.split('`')[1]}" for line in readme.splitlines() if line.startswith("| `")][
        :30
    ] == fixtures()


@pytest.mark.parametrize("fixture", fixtures())
def test_each_has_a_cheat_and_a_twin_which_say_what_they_do(fixture: str) -> None:
    found = target(fixture)
    twins = [rung for rung in found.rungs if rung.role is Role.OPTIMIZED]
    assert cheats(found) == ["cheat"]
    assert [rung.name for rung in twins] == ["optimized"]
    assert all(rung.summary for rung in found.rungs if rung.role in (Role.OPTIMIZED, Role.CHEAT))
    assert twins[0].summary.startswith("twin: ")


@pytest.mark.usefixtures("alarms")
@pytest.mark.parametrize("fixture", ON_A_CPU)
def test_twin_and_baseline_agree_with_the_reference(fixture: str) -> None:
    found = target(fixture)
    assert all(rung.kind is Kind.TORCH for rung in found.rungs)
    case = found.case("cpu")
    generator = torch.Generator().manual_seed(1)
    folder = root_of(fixture) / fixture
    truth_of = _function(folder / "reference.py")
    rungs = [_function(folder / f"{rung}.py") for rung in ("baseline", "optimized")]
    kept: dict[str, Any] = {}
    for round_ in range(3):  # the second and the third find what the first one left
        if round_ != 1:
            kept = {spec.name: _drawn(spec, catalog.shape(spec, case.axes), generator) for spec in found.inputs}
        truth = truth_of(*(value.double() for value in kept.values()))
        for rung in rungs:
            told = rung(*kept.values())
            assert told.shape == catalog.shape(found.outputs[0], case.axes)
            torch.testing.assert_close(told.double(), truth.double(), rtol=1e-4, atol=1e-3)


# -- how a rung ended --------------------------------------------------------------------------------------------------

RUN = finished(planned())
RUNG = RUN.comparisons[0].rung
SUSPECT = Finding("timing.steady", RUNG, FindingStatus.SUSPECT, "twice as long later")


def _caught(check: str) -> Run:
    return replace(
        RUN,
        comparisons=(RUN.comparisons[0].without_figures("caught"),),
        findings=(Finding(check, RUNG, FindingStatus.CAUGHT, "seen"),),
    )


@pytest.mark.parametrize(
    ("run", "end"),
    [
        (RUN, End.FASTER),
        (replace(RUN, comparisons=(replace(RUN.comparisons[0], verdict=Verdict.UNDECIDED),)), End.UNDECIDED),
        (replace(RUN, comparisons=(replace(RUN.comparisons[0], verdict=Verdict.SAME),)), End.NO_FASTER),
        (replace(RUN, validity=Validity.SUSPECT, findings=(SUSPECT,)), End.SUSPECT),
        (replace(RUN, validity=Validity.SUSPECT, findings=(replace(SUSPECT, arm="other"),)), End.NONE),
        (_caught("memory.pages"), End.CAUGHT),
        (_caught("output.form"), End.WRONG),
    ],
)
def test_a_rung_is_faster_by_the_verdict_of_a_run_that_holds_nothing_against_it(run: Run, end: End) -> None:
    assert ended(Reading(run), RUNG).end is end


def test_one_replica_says_nothing_of_a_cheat_that_is_undecided() -> None:
    undecided = replace(RUN, comparisons=(replace(RUN.comparisons[0], verdict=Verdict.UNDECIDED),))
    alone = replace(undecided, manifest={**RUN.manifest, "stop_rule": {"replicas": 1}})
    assert ended(Reading(alone), RUNG).end is End.UNAVAILABLE


@pytest.mark.parametrize(("state", "end"), [(State.USER_ERROR, End.REFUSED), (State.TIMEOUT_TOTAL, End.UNAVAILABLE)])
def test_a_rung_that_broke_is_refused_and_of_one_whose_run_was_cut_off_nothing_is_said(state: State, end: End) -> None:
    arms = (RUN.arms[0], Arm(RUNG, state, role=Role.OPTIMIZED, reason="SIGBUS"))
    broken = replace(planned(), state=state, reason="SIGBUS", arms=arms, duration_ms=1.0)
    assert ended(Reading(broken), RUNG).end is end
