"""Problems of others from their files to a judgement, on the CPU: outputs that nobody declared, weights, integers."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisp.kernels.catalog.formats import kernelbench
from aisp.store.outcomes import Correctness, FindingStatus
from tests.engine.harness import EngineUnderTest, Result
from tests.kernels.formats import kernelbench as text

TARGET = "12_Of_ours_:answer"


async def judged(engine: EngineUnderTest, folder: Path, problem: str, candidate: str) -> Result:
    """The run of a candidate against a problem."""
    return await engine.run(text.laid_out(folder, problem, candidate), TARGET, device="cpu")


@pytest.mark.parametrize(
    ("problem", "candidate"),
    [
        pytest.param(text.CROSS_ENTROPY, text.CROSS_ENTROPY_NEW, id="class indices, one number out"),
        pytest.param(text.TRIANGLES, text.TRIANGLES_NEW, id="an input that is always a triangle"),
        pytest.param(text.MADE, text.MADE_NEW, id="inputs that its own code makes"),
        pytest.param(text.VIEW, text.VIEW_NEW, id="a view, which is made dense"),
        pytest.param(text.PACKED, text.PACKED_NEW, id="a weight that is kept transposed, what NumPy draws"),
        pytest.param(text.TWO, text.TWO_NEW, id="two outputs, one of whole numbers"),
        pytest.param(text.HELPED, text.HELPED_NEW, id="outputs that a helper returns, in a dictionary"),
        pytest.param(text.DROPOUT, text.DROPOUT_NEW, id="dropout and batch norm in train mode"),
    ],
)
@pytest.mark.slow
async def test_a_right_candidate_is_right(
    shared: EngineUnderTest, tmp_path: Path, problem: str, candidate: str
) -> None:
    result = await judged(shared, tmp_path, problem, candidate)
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")
    assert result.arm("baseline").correctness is Correctness.CORRECT
    (drawn,) = [found for found in result.record.findings if found.check == "evaluation.drawn_cases"]
    assert drawn.status is FindingStatus.PASSED, drawn.evidence


@pytest.mark.slow
async def test_an_answer_that_leaves_the_dropout_out_is_wrong(shared: EngineUnderTest, tmp_path: Path) -> None:
    result = await judged(shared, tmp_path, text.DROPOUT, text.WITHOUT_DROPOUT)
    assert result.arm("optimized").correctness is Correctness.WRONG
    assert result.arm("baseline").correctness is Correctness.CORRECT


@pytest.mark.slow
async def test_an_answer_with_fewer_outputs_than_the_reference_returns_is_wrong(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    result = await judged(shared, tmp_path, text.HELPED, text.HELPED_SHORT)
    assert result.arm("optimized").correctness is Correctness.WRONG
    assert "1 outputs arrived, there must be out0, out1" in result.arm("optimized").reason
    assert result.arm("baseline").correctness is Correctness.CORRECT


@pytest.mark.slow
async def test_zeros_pass_by_kernelbenchs_rule_and_not_by_ours(shared: EngineUnderTest, tmp_path: Path) -> None:
    arm = (await judged(shared, tmp_path, text.SOFTMAX, text.ZEROS_NEW)).arm("optimized")
    assert arm.correctness is Correctness.WRONG
    assert arm.rule is not None
    assert (arm.rule.name, arm.rule.right) == (kernelbench.RULE, True)


@pytest.mark.slow
async def test_class_indices_that_are_cast_to_fractions_pass_by_ours_alone(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    arm = (await judged(shared, tmp_path, text.CROSS_ENTROPY, text.CROSS_ENTROPY_NEW)).arm("optimized")
    assert arm.correctness is Correctness.CORRECT
    assert arm.rule is not None
    assert arm.rule.right is False
    assert "float32 of whole numbers, and Model itself raises then" in arm.rule.detail


@pytest.mark.slow
async def test_a_candidate_gets_the_weights_by_name_and_the_log_says_so(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    result = await judged(shared, tmp_path, text.LAYER, text.REORDERED)
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")
    told = "weights: bias was made with other values in ModelNew, and has those of Model now"
    assert told in result.printed("optimized")
    assert not result.printed("baseline")


@pytest.mark.slow
async def test_a_wrong_candidate_is_wrong(shared: EngineUnderTest, tmp_path: Path) -> None:
    result = await judged(shared, tmp_path, text.LAYER, text.WITHOUT_BIAS)
    assert result.arm("optimized").correctness is Correctness.WRONG
    assert result.arm("baseline").correctness is Correctness.CORRECT


@pytest.mark.slow
async def test_the_shape_of_the_output_is_the_references(shared: EngineUnderTest, tmp_path: Path) -> None:
    narrow = text.MATMUL.replace("N = 512", "N = 256")
    result = await judged(shared, tmp_path, narrow, text.MATMUL_NEW.replace(".t().contiguous()", ""))
    arm = result.arm("optimized")
    assert arm.correctness is Correctness.WRONG
    assert "shape [256, 512]" in arm.reason


@pytest.mark.slow
async def test_a_model_that_cannot_be_had_in_fp64_is_the_truth_in_fp32(shared: EngineUnderTest, tmp_path: Path) -> None:
    result = await judged(shared, tmp_path, text.WITHOUT_FP64, text.WITHOUT_FP64_NEW)
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized")


@pytest.mark.slow
async def test_an_answer_that_is_right_of_drawn_values_alone_is_wrong(shared: EngineUnderTest, tmp_path: Path) -> None:
    """What get_inputs draws with torch.randn may hold constant rows as well."""
    result = await judged(shared, tmp_path, text.RARE, text.RARE_NEW)
    assert result.arm("optimized").correctness is Correctness.WRONG
    caught = [f.check for f in result.record.findings if f.status is FindingStatus.CAUGHT and f.arm == "optimized"]
    assert caught == ["evaluation.value_families"]
    assert result.arm("baseline").correctness is Correctness.CORRECT
