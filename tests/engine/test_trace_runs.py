"""SOL-ExecBench and FlashInfer trace from their files to a judgement, on the CPU: posed inputs, both verdicts."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

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


@pytest.fixture
async def beside(shared: EngineUnderTest) -> AsyncIterator[Path]:
    """A folder that was put beside the state folder when the engine had its standbys already."""
    await shared.steady()
    with tempfile.TemporaryDirectory(dir=shared.home) as folder:
        yield Path(folder)


@pytest.mark.parametrize("case", ["", "22222222", "33333333"], ids=["random", "from a file", "by its own function"])
@pytest.mark.slow
async def test_a_right_solution_of_sol_is_right_in_every_workload(
    shared: EngineUnderTest, beside: Path, tmp_path: Path, case: str
) -> None:
    result, rule = await judged(shared, laid_out(tmp_path, text.sol(beside), text.solution()), case)
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")
    assert (rule.right, rule.name.partition(":")[0]) == (True, "SOL-ExecBench")


@pytest.mark.slow
async def test_a_right_solution_of_flashinfer_is_right(shared: EngineUnderTest, tmp_path: Path) -> None:
    place = laid_out(tmp_path, text.flashinfer(tmp_path), text.solution_for_flashinfer(text.RETURNING))
    result, rule = await judged(shared, place)
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")
    assert (rule.right, rule.name.partition(":")[0]) == (True, "FlashInfer-Bench")


@pytest.mark.slow
async def test_one_element_in_200_that_is_far_off_is_right_by_sols_rule_and_wrong_by_ours(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    result, rule = await judged(shared, laid_out(tmp_path, text.sol(tmp_path), text.solution(OUTLIERS)))
    assert result.arm("optimized").correctness is Correctness.WRONG
    assert rule.right is True


@pytest.mark.slow
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


@pytest.mark.parametrize("how", text.WRITING)
@pytest.mark.slow
async def test_a_solution_may_write_into_an_input_where_the_reference_does_and_nowhere_else(
    shared: EngineUnderTest, tmp_path: Path, how: str
) -> None:
    """It leaves other bits there than the reference: an input that may be written into is no output."""
    place = laid_out(tmp_path, text.sol(tmp_path, text.scaling(how), text.WORKLOADS[:1]), text.solution(text.TENTH))
    result = await shared.run(place, "made:answer", device="cpu", quick=True)
    said = {found.status for found in result.record.findings if found.check == "memory.inputs_intact"}
    assert said == {FindingStatus.PASSED, *([] if text.WRITING[how][1] else [FindingStatus.CAUGHT])}
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.slow
async def test_numbers_that_the_definition_s_own_code_makes_reach_the_solution(
    shared: EngineUnderTest, tmp_path: Path, *, right: bool
) -> None:
    rows = [text.random_lines("99999999", 40, "x", "scale", "shift", kind="custom")]
    answer = text.solution(text.SCALED_RIGHT if right else text.SCALED_WRONG)
    result, rule = await judged(shared, laid_out(tmp_path, text.sol(tmp_path, text.scaled(), rows), answer))
    arm = result.arm("optimized")
    assert arm.correctness is (Correctness.CORRECT if right else Correctness.WRONG), arm.reason
    assert rule.right is right


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.slow
async def test_what_triton_s_interpreter_makes_of_bfloat16_is_told_of_a_wrong_solution(
    shared: EngineUnderTest, tmp_path: Path, dtype: str
) -> None:
    answer = text.solution(text.HALVES, spec={"languages": ["triton"]})
    place = laid_out(tmp_path, text.sol(tmp_path, text.squaring(dtype), text.WORKLOADS[:1]), answer)
    arm = (await judged(shared, place))[0].arm("optimized")
    told = "Triton's interpreter takes the bits of a bfloat16 for a whole number unless the kernel widens it first"
    assert (arm.correctness is Correctness.WRONG) is (told in arm.reason) is (dtype == "bfloat16"), arm.reason


@pytest.mark.slow
async def test_a_solution_in_cpp_is_compiled_and_right(shared: EngineUnderTest, tmp_path: Path) -> None:
    pytest.importorskip("tvm_ffi", reason="the extra tvm-ffi is not installed")
    if not shutil.which("c++"):
        pytest.skip("no C++ compiler")
    definition = text.sol(tmp_path, text.doubling(), text.WORKLOADS[:1])
    result, rule = await judged(shared, laid_out(tmp_path, definition, text.doubling_in_cpp()))
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")
    assert rule.right is True


# -- floats of 4 bits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["random", "custom"])
@pytest.mark.slow
async def test_a_product_with_4_bit_floats_is_judged_against_fp64(
    shared: EngineUnderTest, tmp_path: Path, kind: str
) -> None:
    written = text.packed(custom=kind == "custom")
    workloads = [text.random_lines("77777777", 40, *written["inputs"], kind=kind)]
    place = laid_out(tmp_path, text.sol(tmp_path, written, workloads), answering(written, text.PACKED_RIGHT))
    result, rule = await judged(shared, place)
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")
    assert rule.right is True


async def test_the_two_halves_of_a_byte_in_the_wrong_order_are_wrong(shared: EngineUnderTest, tmp_path: Path) -> None:
    written = text.packed(dtype="float4_e2m1")
    workloads = [text.random_lines("77777777", 40, *written["inputs"])]
    place = laid_out(tmp_path, text.sol(tmp_path, written, workloads), answering(written, text.PACKED_SWAPPED))
    result, rule = await judged(shared, place)
    assert result.arm("optimized").correctness is Correctness.WRONG
    assert rule.right is False


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.slow
async def test_4_bit_outputs_are_compared_by_what_they_stand_for(
    shared: EngineUnderTest, tmp_path: Path, *, right: bool
) -> None:
    written = text.quantizing()
    workloads = [text.random_lines("88888888", 40, "x")]
    answer = answering(written, text.QUANTIZING_RIGHT if right else text.QUANTIZING_WRONG, into_outputs=True)
    result, rule = await judged(shared, laid_out(tmp_path, text.sol(tmp_path, written, workloads), answer))
    arm = result.arm("optimized")
    assert arm.correctness is (Correctness.CORRECT if right else Correctness.WRONG), arm.reason
    assert rule.right is right
    if not right:
        assert ", and the reference has " in arm.reason


# -- tokens that are drawn ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["random", "custom"])
@pytest.mark.slow
async def test_a_solution_that_draws_otherwise_than_the_reference_but_as_often_is_right(
    shared: EngineUnderTest, tmp_path: Path, kind: str
) -> None:
    written = text.sampling(**({} if kind == "custom" else {"custom_inputs_entrypoint": None}))
    workloads = [text.random_lines("99999999", 24, *written["inputs"], kind=kind)]
    place = laid_out(tmp_path, text.sol(tmp_path, written, workloads), answering(written, text.SAMPLING_RIGHT))
    result, rule = await judged(shared, place)
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")
    assert rule.right is True
    assert rule.name == "SOL-ExecBench: tokens that the filters leave, as often as the reference draws them"
    assert rule.ours == "", "another token than the reference drew is no fault"
    assert [
        f.evidence for f in result.record.findings if f.check == "output.weak_task" and f.status.value != "passed"
    ] == []


@pytest.mark.parametrize("name", text.SAMPLING_WRONG)
@pytest.mark.slow
async def test_draws_that_are_wrong_are_told_by_the_rule(shared: EngineUnderTest, tmp_path: Path, name: str) -> None:
    source, said = text.SAMPLING_WRONG[name]
    written = text.sampling()
    workloads = [text.random_lines("99999999", 24, *written["inputs"], kind="custom")]
    place = laid_out(tmp_path, text.sol(tmp_path, written, workloads), answering(written, source))
    result, rule = await judged(shared, place)
    assert result.arm("optimized").correctness is Correctness.WRONG, result.arm("optimized")
    assert said in result.arm("optimized").reason
    assert rule.right is False


@pytest.mark.slow
async def test_a_generator_of_its_own_is_refused_since_a_repeated_call_draws_otherwise(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    written = text.sampling()
    workloads = [text.random_lines("99999999", 24, *written["inputs"], kind="custom")]
    own = "import torch\n\nOWN = torch.Generator().manual_seed(5)\n"
    source = text.SAMPLING_RIGHT.replace("import torch\n", own).replace(
        "device=probs.device) * kept", "generator=OWN) * kept"
    )
    place = laid_out(tmp_path, text.sol(tmp_path, written, workloads), answering(written, source))
    result, rule = await judged(shared, place)
    assert result.arm("optimized").correctness is Correctness.WRONG
    assert "a timed call's output differs" in result.arm("optimized").reason
    assert rule.right is True


def answering(written: Mapping[str, Any], source: str, *, into_outputs: bool = False) -> dict[str, Any]:
    """A solution of one file to that definition."""
    return text.solution(source, definition=written["name"], spec={"destination_passing_style": into_outputs})
