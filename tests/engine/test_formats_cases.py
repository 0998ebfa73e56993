"""Problems of others with many cases, from their files to a judgement on the CPU: a right and a wrong answer each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aisp.kernels.catalog.formats import backendbench, multikernel, robust
from aisp.store.outcomes import Correctness
from tests.engine.harness import EngineUnderTest, Result
from tests.kernels.formats import backendbench as operators
from tests.kernels.formats import multikernel as groups
from tests.kernels.formats import robust as tasks
from tests.kernels.formats.laying import laid_out

TARGET = "of_ours:answer"
Laid = Callable[[Path], Path]


def forward(answer: str) -> Laid:
    """A task of robust-kbench, forward."""
    return lambda folder: laid_out(folder, robust, tasks.answer(folder, answer), tasks.task(folder) / "func_forward.py")


def backward(answer: str) -> Laid:
    """The same, backward."""
    return lambda folder: laid_out(
        folder, robust, tasks.answer(folder, answer), tasks.task(folder) / "func_backward.py"
    )


def listed(answer: str) -> Laid:
    """A problem of MultiKernelBench with a case list."""
    return lambda folder: laid_out(folder, multikernel, groups.answer(folder, answer), groups.written(folder))


def traced(answer: str) -> Laid:
    """An operator of BackendBench with the lines of a trace."""
    return lambda folder: laid_out(
        folder, backendbench, operators.operator(folder, "add__Tensor", plain=answer), operators.trace(folder)
    )


def views(folder: Path) -> Path:
    """An operator of BackendBench that returns a list of views."""
    lines = "Operator: aten.split.Tensor\ncnt: 1, ((T([5, 4], f32), 2), {})\n"
    answer = operators.operator(folder, "split__Tensor", plain=operators.SPLIT)
    return laid_out(folder, backendbench, answer, operators.trace(folder, lines))


async def judged(engine: EngineUnderTest, place: Path) -> Result:
    """The run of a target's answer."""
    return await engine.run(place, TARGET, device="cpu")


RIGHT = {
    "forward": forward(tasks.RIGHT),
    "backward": backward(tasks.GRADIENTS),
    "groups": listed(groups.SCALE_NEW),
    "a trace": traced(operators.ADD),
    "views of an input": views,
}
WRONG = {
    "forward": (forward(tasks.WRONG), "(case config5)"),  # right in the timed case
    "backward": (backward(tasks.WITHOUT_RELU), "d_x["),
    "groups": (listed(groups.IGNORES_MODE), "out0["),
    "a trace": (traced(operators.IGNORES_ALPHA), "out0["),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.slow
async def test_a_right_answer_is_right_in_every_case(shared: EngineUnderTest, tmp_path: Path, name: str) -> None:
    result = await judged(shared, RIGHT[name](tmp_path))
    for rung in ("baseline", "optimized"):
        assert result.arm(rung).correctness is Correctness.CORRECT, result.arm(rung)
        assert result.arm(rung).rule is not None


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.slow
async def test_a_wrong_answer_is_wrong_and_the_baseline_is_not(
    shared: EngineUnderTest, tmp_path: Path, name: str
) -> None:
    made, wanted = WRONG[name]
    result = await judged(shared, made(tmp_path))
    assert result.arm("optimized").correctness is Correctness.WRONG
    assert wanted in result.arm("optimized").reason
    assert result.arm("baseline").correctness is Correctness.CORRECT


@pytest.mark.slow
async def test_where_its_own_rule_takes_zeros_for_right_the_two_are_told_beside_each_other(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    folder = operators.operator(tmp_path, "_softmax__default", plain=operators.ZEROS)
    place = laid_out(tmp_path, backendbench, folder, operators.trace(tmp_path, operators.LONG_ROWS))
    arm = (await judged(shared, place)).arm("optimized")
    assert arm.correctness is Correctness.WRONG
    assert arm.rule is not None
    assert (arm.rule.name, arm.rule.right) == (backendbench.RULE, True)


@pytest.mark.slow
async def test_an_operator_is_judged_on_torchs_own_samples(shared: EngineUnderTest, tmp_path: Path) -> None:
    folder = operators.operator(tmp_path, "max__dim", plain=operators.MAXIMA)
    result = await judged(shared, laid_out(tmp_path, backendbench, folder, folder))
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")
    assert result.arm("baseline").correctness is Correctness.CORRECT
