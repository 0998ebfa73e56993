"""SOL-ExecBench and FlashInfer trace from their files to a judgement, on the CPU: posed inputs, both verdicts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aisp.store.outcomes import Correctness, FindingStatus
from aisp.store.record import RuleSaid
from tests.engine.harness import EngineUnderTest, Result
from tests.kernels.formats import trace as text
from tests.kernels.formats.trace import OUTLIERS, laid_out


async def judged(engine: EngineUnderTest, place: Path, case: str = "") -> tuple[Result, RuleSaid]:
    """The run of a solution, and what the benchmark's own rule says of it."""
    result = await engine.run(place, "made:answer", device="cpu", quick=True, case=case)
    assert result.arm("baseline").correctness is Correctness.CORRECT, result.arm("baseline")
    rule = result.arm("optimized").rule
    assert rule is not None
    return result, rule


@pytest.mark.parametrize("case", ["", "22222222", "33333333"], ids=["random", "from a file", "by its own function"])
async def test_a_right_solution_of_sol_is_right_in_every_workload(
    shared: EngineUnderTest, tmp_path: Path, case: str
) -> None:
    result, rule = await judged(shared, laid_out(tmp_path, text.sol(tmp_path), text.solution()), case)
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")
    assert (rule.right, rule.name.partition(":")[0]) == (True, "SOL-ExecBench")


async def test_a_right_solution_of_flashinfer_is_right(shared: EngineUnderTest, tmp_path: Path) -> None:
    place = laid_out(tmp_path, text.flashinfer(tmp_path), text.solution_for_flashinfer(text.RETURNING))
    result, rule = await judged(shared, place)
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")
    assert (rule.right, rule.name.partition(":")[0]) == (True, "FlashInfer-Bench")


async def test_one_element_in_200_that_is_far_off_is_right_by_sols_rule_and_wrong_by_ours(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    result, rule = await judged(shared, laid_out(tmp_path, text.sol(tmp_path), text.solution(OUTLIERS)))
    assert result.arm("optimized").correctness is Correctness.WRONG
    assert rule.right is True


async def test_nobody_is_caught_where_the_reference_writes_into_an_input_and_hands_it_back(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    square = {"shape": ["rows", "hidden"], "dtype": "float32"}
    written = text.definition(
        inputs={"x": square, "y": square},
        outputs={"z": square, "w": {"shape": ["hidden", "rows"], "dtype": "float32"}},
        reference="def run(x, y):\n    x.add_(y)\n    return x, y.t()\n",
        custom_inputs_entrypoint=None,
    )
    pure = "def run(x, y):\n    return x + y, y.t().clone()\n"
    place = laid_out(tmp_path, text.sol(tmp_path, written, text.WORKLOADS[:1]), text.solution(pure))
    result, rule = await judged(shared, place)
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")
    assert rule.right is True
    assert not [found for found in result.record.findings if found.status is FindingStatus.CAUGHT]


@pytest.mark.slow
async def test_a_solution_in_cpp_is_compiled_and_right(shared: EngineUnderTest, tmp_path: Path) -> None:
    pytest.importorskip("tvm_ffi", reason="the extra tvm-ffi is not installed")
    if not (shutil.which("c++") and shutil.which("ninja")):
        pytest.skip("no C++ compiler, or no ninja")
    definition = text.sol(tmp_path, text.doubling(), text.WORKLOADS[:1])
    result, rule = await judged(shared, laid_out(tmp_path, definition, text.doubling_in_cpp()))
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")
    assert rule.right is True
