"""gpu-mode's tasks and submissions from their files to a judgement, on the CPU: the task's own check is the judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisp.store.outcomes import Correctness, FindingStatus
from tests.engine.harness import EngineUnderTest, Result
from tests.kernels.formats import gpumode as text


async def judged(engine: EngineUnderTest, folder: Path, task: str, submission: str) -> Result:
    """The run of a submission to one of the fixtures' tasks."""
    place = text.laid_out(folder, task, submission)
    return await engine.run(place, f"{task}:submission", device="cpu")


@pytest.mark.parametrize(
    ("task", "submission"),
    [
        pytest.param("blend_py", text.BLEND_RIGHT, id="into the buffer that comes with the data"),
        pytest.param("blend_py", text.BLEND_OWN_OUTPUT, id="into a tensor of its own"),
        pytest.param("apart_py", text.BLEND_RIGHT, id="into a buffer that the task's kernel ignores"),
        pytest.param("frame_py", text.FRAME_OTHER_SIGNS, id="another right factorisation"),
        pytest.param("house_py", text.HOUSE_RIGHT, id="as many tensors as a function of torch gives"),
        pytest.param("spectrum_py", text.SPECTRUM_OTHER_SIGNS, id="an input whose values hang together"),
        pytest.param("columns_py", text.COLUMNS_BY_MEMORY, id="by the strides that the task gives"),
        pytest.param("gate_py", text.GATE_RIGHT, id="weights in a dictionary and plain values"),
        pytest.param("groups_py", text.GROUPS_RIGHT, id="a list of any length, into buffers that come with it"),
        pytest.param("groups_py", text.GROUPS_OWN_OUTPUTS, id="a list of any length, into tensors of its own"),
        pytest.param("cache_py", text.CACHE_RIGHT, id="a module with a state and a configuration with weights"),
        pytest.param("cache_py", text.CACHE_BY_CLASS, id="objects of the classes that it imports"),
    ],
)
@pytest.mark.slow
async def test_a_right_submission_is_right(shared: EngineUnderTest, tmp_path: Path, task: str, submission: str) -> None:
    result = await judged(shared, tmp_path, task, submission)
    assert result.arm("optimized").correctness is Correctness.CORRECT, result.arm("optimized").reason
    assert result.arm("baseline").correctness is Correctness.CORRECT, result.arm("baseline").reason
    assert not [each for each in result.record.findings if each.status is FindingStatus.CAUGHT]


@pytest.mark.parametrize(
    ("task", "submission", "told"),
    [
        pytest.param("blend_py", text.BLEND_WRONG, "elements are off", id="wrong values"),
        pytest.param("blend_py", text.BLEND_REMEMBERS, "output differs", id="the answer to the first values"),
        pytest.param("blend_py", text.BLEND_WRONG_SHAPE, "shape", id="another shape"),
        pytest.param("blend_py", text.BLEND_CHANGES_FORM, "the first call returned 1", id="another form later"),
        pytest.param("groups_py", text.GROUPS_WRONG, "elements are off", id="wrong values in a list"),
        pytest.param("groups_py", text.GROUPS_SHORT, "2 outputs arrived, there must be out0, out1, out2", id="too few"),
        pytest.param("groups_py", text.GROUPS_REMEMBERS, "output differs", id="the lists of the first values"),
        pytest.param("cache_py", text.CACHE_FORGETS, "elements are off", id="a state that is not written"),
        pytest.param("frame_py", text.FRAME_WRONG, "q is not orthogonal", id="a property does not hold"),
    ],
)
@pytest.mark.slow
async def test_a_wrong_submission_is_wrong_in_the_words_of_the_task(
    shared: EngineUnderTest, tmp_path: Path, task: str, submission: str, told: str
) -> None:
    result = await judged(shared, tmp_path, task, submission)
    assert result.arm("optimized").correctness is Correctness.WRONG, result.arm("optimized").reason
    assert told in result.arm("optimized").reason
    assert result.arm("baseline").correctness is Correctness.CORRECT


@pytest.mark.parametrize(
    ("submission", "check", "told"),
    [
        pytest.param(
            text.BLEND_SPOILS, "memory.inputs_intact", "held: other bits", id="an input that ref_kernel reads"
        ),
        pytest.param(text.BLEND_PAST_THE_END, "memory.margins", "room (16 bytes)", id="past the end of the room"),
    ],
)
@pytest.mark.slow
async def test_writing_where_ref_kernel_does_not_is_caught(
    shared: EngineUnderTest, tmp_path: Path, submission: str, check: str, told: str
) -> None:
    result = await judged(shared, tmp_path, "blend_py", submission)
    (caught,) = [each for each in result.record.findings if each.status is FindingStatus.CAUGHT]
    assert (caught.check, told in caught.evidence) == (check, True), caught


@pytest.mark.parametrize("name", text.RETURNED)
@pytest.mark.slow
async def test_results_of_any_form_are_judged(shared: EngineUnderTest, tmp_path: Path, name: str) -> None:
    own, answer = text.RETURNED[name]
    place = text.composed(tmp_path, "return torch.randn(m, k)", own, submission=answer)
    result = await shared.run(place, "our_py:submission", device="cpu")
    for rung in ("baseline", "optimized"):
        assert result.arm(rung).correctness is Correctness.CORRECT, result.arm(rung).reason
    assert not [each for each in result.record.findings if each.status is FindingStatus.CAUGHT]


@pytest.mark.parametrize(
    ("submission", "told"),
    [
        ("return [data + n for n in range(33)]", "run() returned 33 outputs, lesson.md declares 32"),
        ("return None", "run() returned 0 outputs"),
        ("return {data}", "a call returned set; tensors, numbers, lists and dictionaries are judged"),
    ],
)
@pytest.mark.slow
async def test_results_beyond_bounds_are_told(
    shared: EngineUnderTest, tmp_path: Path, submission: str, told: str
) -> None:
    own = "return [data + n for n in range(32)]"
    place = text.composed(tmp_path, "return torch.randn(m, k)", own, submission=submission)
    result = await shared.run(place, "our_py:submission", device="cpu")
    assert result.arm("baseline").correctness is Correctness.CORRECT, result.arm("baseline").reason
    assert told in result.arm("optimized").reason


LISTS = "return [torch.randn(m, k) for _ in range(3)], torch.rand(m, k) > 0.5, None, 3"
SUM = "xs, mask, bias, times = data\nassert bias is None\nreturn sum(xs).masked_fill(mask, 0.0) * times"
NORM = "return torch.randn(m, k), torch.nn.BatchNorm1d(k)"


@pytest.mark.parametrize(
    ("data", "kernel", "submission", "right"),
    [
        pytest.param(LISTS, SUM, SUM.replace("masked_fill(mask, 0.0)", "mul(~mask)"), True, id="lists"),
        pytest.param(LISTS, SUM, SUM.replace("sum(xs)", "(xs[0] + xs[1])"), False, id="lists, one is left out"),
        pytest.param(NORM, "return data[1](data[0])", "return data[1](data[0])", True, id="state that moves"),
        pytest.param(
            "return torch.from_numpy(np.random.randn(m, k))",
            "return data * 2",
            "return data + data",
            True,
            id="values of NumPy's generator",
        ),
    ],
)
@pytest.mark.slow
async def test_data_of_any_form_is_judged(
    shared: EngineUnderTest, tmp_path: Path, data: str, kernel: str, submission: str, right: bool
) -> None:
    place = text.composed(tmp_path, data, kernel, submission=submission)
    result = await shared.run(place, "our_py:submission", device="cpu")
    assert result.arm("baseline").correctness is Correctness.CORRECT, result.arm("baseline").reason
    assert (result.arm("optimized").correctness is Correctness.CORRECT) is right, result.arm("optimized").reason
    (said,) = [line for line in result.printed("verifier") if line.startswith("data: ")]
    assert "; ref_kernel returns tensor of float" in said
    assert ("running_mean=tensor of float32 [16] (written)" in said) is (data == NORM)


@pytest.mark.slow
async def test_data_that_cannot_be_carried_is_told_with_its_place_and_the_line(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    place = text.composed(tmp_path, "return torch.rand(m), torch.eye(m).to_sparse()", "return data[0] + 1")
    result = await shared.run(place, "our_py:submission", device="cpu")
    told = "generate_input (reference.py, line 16): data[1] is a sparse_coo tensor of float32, which cannot be carried"
    assert told in result.arm("optimized").reason
    assert result.arm("optimized").correctness is Correctness.UNKNOWN
