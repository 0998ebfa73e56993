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
        pytest.param("groups_py", text.GROUPS_WRONG, "elements are off", id="wrong values in a list"),
        pytest.param("groups_py", text.GROUPS_SHORT, "it returned 2 tensors, and ref_kernel 3", id="too few"),
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
