"""What is read of KernelBench's generations: names of files, claims in each of their shapes, and hostile ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aisp.kernels.catalog import formats
from aisp.kernels.catalog.formats import Part, kernelbench_runs
from aisp.kernels.catalog.formats.kernelbench_runs import Claimed, generations
from tests.kernels.formats.kernelbench import MATMUL, MATMUL_NEW, written

SAMPLE = {"sample_id": 1, "compiled": True, "correctness": False, "runtime": -1.0}
SAID = Claimed(compiled=True, correct=False)


def run_of(folder: Path, claims: str) -> Path:
    place = folder / "runs" / "some_model"
    place.mkdir(parents=True)
    (place / "level_2_problem_7_sample_1_kernel.py").write_text(MATMUL_NEW)
    (place / "level_2_problem_7_sample_1_prompt.txt").write_text("")
    (place / "eval_results.json").write_text(claims)
    return place


@pytest.mark.parametrize(
    "claims",
    [{"7": [SAMPLE]}, {"7": SAMPLE}, {"7": {"1": SAMPLE}}, {"7": [None, {"sample_id": "1"}, SAMPLE], "x": [SAMPLE]}],
    ids=["a list of samples", "one sample", "samples by number", "among what is no sample"],
)
def test_claims_are_read_in_each_shape_that_they_have_had(tmp_path: Path, claims: object) -> None:
    (found,) = generations(run_of(tmp_path, json.dumps(claims)))
    assert (found.run, found.level, found.problem, found.sample) == ("some_model", 2, 7, 1)
    assert found.claimed == SAID
    assert found.name == "level_2_problem_7_sample_1"


@pytest.mark.parametrize("value", [-1, 0, None, "fast", True, [], float("nan"), float("inf")])
def test_a_time_that_is_none_is_not_taken_for_one(tmp_path: Path, value: object) -> None:
    claims = json.dumps({"7": [SAMPLE | {"runtime": value, "ref_runtime": 2.0}]})
    (found,) = generations(run_of(tmp_path, claims))
    assert found.claimed is not None
    assert (found.claimed.runtime_ms, found.claimed.speedup) == (None, None)


@pytest.mark.parametrize("claims", ["{", "[" * 200_000, "[]", "\udcff"], ids=["cut", "nested", "a list", "no text"])
def test_claims_that_cannot_be_read_are_told_and_the_answers_are_listed(tmp_path: Path, claims: str) -> None:
    place = run_of(tmp_path, "")
    (place / "eval_results.json").write_bytes(claims.encode("utf-8", "surrogateescape"))
    (found,) = generations(place)
    assert found.claimed is None
    assert found.reason.startswith("eval_results.json is no")


def test_a_checkout_is_a_collection_and_its_runs_are_runs(tmp_path: Path) -> None:
    place = run_of(tmp_path, "{}")
    written(tmp_path, MATMUL, MATMUL_NEW)
    parts = [formats.recognise(folder) for folder in (tmp_path, tmp_path / "runs", place)]
    assert [found and found[1] for found in parts] == [Part.COLLECTION, Part.RUNS, Part.RUNS]
    assert [found.path.parent for found in generations(tmp_path)] == [place]
    assert set(kernelbench_runs.problems(tmp_path)) == {(1, 12)}
    assert not kernelbench_runs.problems(place)
