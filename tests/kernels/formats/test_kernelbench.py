"""KernelBench's problems and candidates: what they are made into, and what is said of those that cannot be taken."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from aisp.kernels import catalog
from aisp.kernels.catalog import formats
from aisp.kernels.catalog.formats import Part, kernelbench, packed
from aisp.kernels.catalog.formats.shared import NEEDS_GPU
from aisp.kernels.catalog.model import Flag, Kind, Target
from tests.kernels.formats import kernelbench as text
from tests.kernels.formats.kernelbench import laid_out, written

PAIRS = {
    "matmul": (text.MATMUL, text.MATMUL_NEW),
    "layer": (text.LAYER, text.REORDERED),
    "cross_entropy": (text.CROSS_ENTROPY, text.CROSS_ENTROPY_NEW),
    "made": (text.MADE, text.MADE_NEW),
    "two outputs": (text.TWO, text.TWO_NEW),
    "dropout": (text.DROPOUT, text.DROPOUT_NEW),
}


def made(folder: Path, problem: str, candidate: str) -> tuple[Target, Path]:
    """The target of the two, and where it lies."""
    place = laid_out(folder, problem, candidate)
    found = catalog.load([place])
    assert not found.problems
    return found.targets[0], place


def told(problem: str, candidate: str = text.MATMUL_NEW, *, folder: Path) -> str:
    """What is said of a pair that cannot be taken."""
    parts = kernelbench.against(*written(folder, problem, candidate))
    assert not parts.files
    return "\n".join(f"{each.path.name}: {each.key}: {each.message}; {each.fix}" for each in parts.problems)


# -- what they are made into -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAIRS)
def test_a_problem_and_an_answer_are_a_target(tmp_path: Path, name: str) -> None:
    target, place = made(tmp_path, *PAIRS[name])
    assert target.id == "12_Of_ours_:answer"
    assert [rung.name for rung in target.rungs] == ["baseline", "optimized"]
    assert all(spec.open for spec in target.outputs)
    assert target.tolerance["float32"] == 1e-4
    problem, candidate = PAIRS[name]
    for part in ("reference", "baseline", "optimized"):
        source = (place / f"{part}.py").read_text()
        assert source.startswith(candidate if part == "optimized" else problem)  # lines keep their numbers
        ast.parse(source)
    assert "ModelNew" not in (place / "reference.py").read_text()


def test_a_slot_stands_for_each_argument_and_some_more_for_tensors_in_lists(tmp_path: Path) -> None:
    target, place = made(tmp_path, *PAIRS["made"])
    names = [spec.name for spec in target.inputs]
    assert names[:6] == ["call", "lower", "x", "factor", "shape", "more0"]
    assert names[-3:] == ["weights", "state", "seed"]
    assert all(spec.posed for spec in target.inputs)
    assert [spec.name for spec in target.inputs if Flag.MUTABLE in spec.flags] == [f"room{n}" for n in range(4)]
    assert dict(target.case("default").axes) == dict(target.case("cpu").axes) == {}
    own = (place / "inputs.py").read_text() + (place / "rule.py").read_text()
    assert len(own.splitlines()) < 30


def test_names_of_arguments_that_are_ours_are_kept_apart(tmp_path: Path) -> None:
    problem = text.DROPOUT.replace("def forward(self, x)", "def forward(self, seed, call=0, out=0)")
    target, _ = made(tmp_path, problem.replace("(x)", "(seed)"), text.DROPOUT_NEW)
    names = [spec.name for spec in target.inputs]
    assert (names[:4], names[-1]) == (["call_", "seed", "call", "out"], "seed_")
    assert target.outputs[0].name == "out0_"


def test_outputs_are_as_many_as_the_reference_returns(tmp_path: Path) -> None:
    target, _ = made(tmp_path, text.MATMUL, text.MATMUL_NEW)
    assert len(target.outputs) == packed.MAX_OUTPUTS
    assert all(each.open and each.dtype == "any" for each in target.outputs)
    assert [each.name for each in target.outputs_of(2)] == ["out0", "out1"]


def test_nothing_is_said_of_inputs_before_a_run_has_made_them(tmp_path: Path) -> None:
    opened = kernelbench.read(written(tmp_path, *PAIRS["layer"])[1])
    assert list(opened.inputs) == ["x"]
    assert "a run sees it" in opened.inputs["x"]
    assert (opened.cpu, opened.notes, opened.title) == ({}, (), "A linear layer, an activation, a bias.")


def test_a_problem_that_asks_for_cuda_needs_a_gpu_and_says_so(tmp_path: Path) -> None:
    problem = text.MATMUL.replace("torch.rand(M, K)", 'torch.rand(M, K, device="cuda")')
    opened = kernelbench.read(written(tmp_path, problem, text.MATMUL_NEW)[1])
    assert opened.cpu is None
    assert opened.notes == (NEEDS_GPU,)
    target, _ = made(tmp_path, problem, text.MATMUL_NEW)
    assert (target.needs.gpus, [case.name for case in target.cases]) == (1, ["default"])


# -- what cannot be taken ----------------------------------------------------------------------------------------------

REFUSED = {
    "broken": (text.BROKEN, "line 15: not Python: '(' was never closed"),
    "with an effect": (text.SIDE_EFFECT, "line 5: print('loaded') has an effect of its own"),
    "without a Model": (text.MATMUL.replace("class Model(", "class Other("), "has no class Model"),
    "without inputs": (text.MATMUL.replace("def get_inputs", "def inputs"), "has no function get_inputs"),
    "without forward": (text.MATMUL.replace("def forward", "def backward"), "line 9: Model has no forward"),
    "with our name": (text.MATMUL + "def run(): ...\n", "run is a name that is written behind the file"),
    "with another": (text.MATMUL + "def prepare(): ...\n", "prepare is a name that is written behind the file"),
    "not text": (b"\xff\xfe".decode("latin-1") + text.MATMUL, ""),
    "nested": (text.MATMUL.replace("[A, B]", "[" + "-" * 50_000 + "A, B]"), "nested"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_problem_that_cannot_be_taken_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    problem, wanted = REFUSED[name]
    said = told(problem, folder=tmp_path)
    assert said.startswith("12_Of_ours_.py: ")
    assert wanted in said


def test_a_candidate_that_cannot_be_taken_is_refused_with_its_line(tmp_path: Path) -> None:
    assert "answer.py: line 2: not Python" in told(text.MATMUL, "import torch\nclass ModelNew(:\n", folder=tmp_path)
    assert "answer.py: : has no class ModelNew" in told(text.MATMUL, "ModelNew = 1\n", folder=tmp_path)
    (tmp_path / "near.py").write_text("")
    said = told(text.MATMUL, f"import near\n{text.MATMUL_NEW}", folder=tmp_path)
    assert "answer.py: line 1: near lies beside the file" in said


def test_a_candidate_that_compiles_cuda_source_needs_a_gpu(tmp_path: Path) -> None:
    cuda = text.MATMUL_NEW + "\n\ndef built():\n    return load_inline(name='a', cpp_sources='', cuda_sources='')\n"
    rung = made(tmp_path / "cuda", text.MATMUL, cuda)[0].rung("optimized")
    assert (rung.kind, rung.gpu_only) == (Kind.CUDA, True)
    told_of = text.MATMUL_NEW + "\n# load_inline(cuda_sources=source)\n"
    assert made(tmp_path / "plain", text.MATMUL, told_of)[0].rung("optimized").kind is Kind.TORCH


def test_what_a_candidate_does_when_it_is_imported_is_its_own_affair(tmp_path: Path) -> None:
    setting = "import torch\ntorch.backends.cuda.matmul.allow_tf32 = False\n"
    assert not kernelbench.against(*written(tmp_path, text.MATMUL, setting + text.MATMUL_NEW)).problems


# -- listing -----------------------------------------------------------------------------------------------------------


def recognised(path: Path) -> Part | None:
    """As what the path is taken, which must be by KernelBench's reader."""
    found = formats.recognise(path)
    if found is None:
        return None
    assert found[0].NAME == "kernelbench"
    return found[1]


def test_paths_are_recognised_by_what_they_hold(tmp_path: Path) -> None:
    answer, problem = written(tmp_path, text.MATMUL, text.MATMUL + text.MATMUL_NEW)
    assert (recognised(answer), recognised(problem)) == (Part.CANDIDATE, Part.PROBLEM)
    for folder in (tmp_path, tmp_path / "KernelBench", tmp_path / "KernelBench" / "level1"):
        assert recognised(folder) is Part.COLLECTION
    ours = tmp_path / "ours.py"
    ours.write_text("def reference(x): ...\n\n\nclass Model: ...\n\n\ndef get_inputs(): ...\n")
    assert recognised(ours) is None
    assert recognised(tmp_path / "gone.py") is None
    empty = tmp_path / "empty"
    empty.mkdir()
    assert recognised(empty) is None


def test_a_root_that_is_one_of_them_says_how_it_is_judged(tmp_path: Path) -> None:
    for path, fix in zip(
        written(tmp_path, text.MATMUL, text.MATMUL_NEW),
        ("{} --against PROBLEM", "ANSWER --against {}"),
        strict=True,
    ):
        (problem,) = catalog.load([path]).problems
        assert problem.fix == f"`aisp run {fix.format(path)}`"


def test_thousands_of_problems_are_listed_by_name_without_opening_one(tmp_path: Path) -> None:
    for level in (10, 2):
        folder = tmp_path / "KernelBench" / f"level{level}"
        folder.mkdir(parents=True)
        for number in range(2000):
            (folder / f"{number}_Name_of_it_.py").symlink_to("/nowhere")  # could not be opened
        (folder / "notes.py").write_text("")
    code = (
        "import json, sys\nfrom pathlib import Path\nfrom aisp.kernels.catalog.formats import kernelbench\n"
        "found = list(kernelbench.collection(Path(sys.argv[1])))\n"
        "heavy = [name for name in ('torch', 'numpy', 'msgspec') if name in sys.modules]\n"
        "print(json.dumps([len(found), found[11].level, found[11].number, found[11].name, found[-1].level, heavy]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [4000, 2, 11, "Name of it", 10, []]
