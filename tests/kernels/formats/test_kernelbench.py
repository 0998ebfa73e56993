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
from aisp.kernels.catalog.formats import Part, kernelbench
from aisp.kernels.catalog.model import Kind, Target, TensorSpec
from tests.imported import python
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


def test_inputs_are_lines_over_the_numbers_at_the_head_of_the_file(tmp_path: Path) -> None:
    target, _ = made(tmp_path, *PAIRS["matmul"])
    assert target.inputs == (
        TensorSpec("A", "float32", ("M", "M * 2"), "uniform", ("0", "1")),
        TensorSpec("B", "float32", ("M * 2", "N"), "normal", ("0.0", "0.5")),
    )
    assert target.case("default").axes == {"M": 1024, "N": 512}
    assert catalog.shape(target.inputs[1], target.case("cpu").axes) == (512, 512)  # small enough for a CPU


def test_numbers_that_are_assigned_together_are_axes_as_well(tmp_path: Path) -> None:
    together = text.MATMUL.replace("M = 1024\nK = M * 2\n", "M, K = 1024, 2048\n")
    opened = kernelbench.read(written(tmp_path, together, text.MATMUL_NEW)[1])
    assert opened.inputs["A"] == "float32 [M, K] uniform"
    assert opened.axes == {"M": 1024, "K": 2048, "N": 512}


@pytest.mark.parametrize(
    ("head", "axes"),
    [
        ("M = K = 1024", {"M": 1024, "K": 1024}),
        ("M = 1024 * 2\nK = 2**3 + 1", {"M": 2048, "K": 9}),
        ("M = 1024 * 2\nK = M * 2", {"M": 2048}),  # of another one: no axis of its own
    ],
)
def test_a_size_that_is_computed_or_shared_at_the_head_is_an_axis(
    tmp_path: Path, head: str, axes: dict[str, int]
) -> None:
    problem = text.MATMUL.replace("M = 1024\nK = M * 2", head)
    opened = kernelbench.read(written(tmp_path, problem, text.MATMUL_NEW)[1])
    assert opened.axes == axes | {"N": 512}
    assert opened.inputs["A"].startswith("float32 [M, ")
    assert opened.cpu is not None  # it can be halved


def test_class_indices_stay_whole_numbers(tmp_path: Path) -> None:
    target, _ = made(tmp_path, *PAIRS["cross_entropy"])
    assert target.inputs[1] == TensorSpec("targets", "int64", ("batch_size",), "integers", ("0", "num_classes"))


def test_an_axis_of_the_weights_is_not_halved_for_a_cpu(tmp_path: Path) -> None:
    larger = text.LAYER.replace("in_features = 128", "in_features = 512")
    target, _ = made(tmp_path, larger, text.REORDERED)
    assert target.case("cpu").axes == {"batch_size": 512, "in_features": 512}
    assert [spec.name for spec in target.inputs if spec.made] == ["model"]
    only_weights = larger.replace("torch.randn(batch_size", "torch.randn(in_features").replace("= 512", "= 4096")
    opened = kernelbench.read(written(tmp_path, only_weights, text.REORDERED)[1])
    assert opened.cpu is None


def test_a_model_that_inherits_may_have_weights(tmp_path: Path) -> None:
    base = "class Base(nn.Module): ...\n\n\nclass Model(Base):"
    _, problem = written(tmp_path, text.MATMUL.replace("class Model(nn.Module):", base), text.MATMUL_NEW)
    assert kernelbench.read(problem).weights


def test_drawn_cases_keep_the_shape_that_a_candidate_may_rely_on(tmp_path: Path) -> None:
    target, _ = made(tmp_path, *PAIRS["made"])
    assert {name: extent.values for name, extent in target.fuzz.axes.items()} == {"N": (64,)}


def test_what_a_line_cannot_say_is_posed_by_the_problems_code_and_numbers_are_passed(tmp_path: Path) -> None:
    target, place = made(tmp_path, *PAIRS["made"])
    assert [(spec.name, spec.made, spec.posed) for spec in target.inputs] == [
        ("lower", False, True),
        ("x", False, False),
        ("shape", True, False),
    ]
    assert "aisp_made(lower, x, 3.5, shape)" in (place / "baseline.py").read_text()
    assert "Its own code makes lower, with another seed for every set." in target.lesson
    assert "Its own code makes shape once" in target.lesson


LINES = {
    "torch.rand(N, N) * 2 - 1": "float32 [N, N] uniform(-1, 1)",
    "1 - torch.rand(N)": "float32 [N] uniform(0, 1)",
    "-torch.randn(N) / 4 + 3": "float32 [N] normal(3.0, 0.25)",
    "torch.randn((N, 2 * N), device='cuda').half()": "float16 [N, 2 * N] normal",
    "torch.rand(size=(N,), dtype=torch.bfloat16).cuda()": "bfloat16 [N] uniform",
    "torch.randint(low=2, high=N, size=(N, N), dtype=torch.int32)": "int32 [N, N] integers(2, N)",
    "torch.ones(()).to(torch.float64)": "float64 [] ones",
    "torch.ones(N).to(torch.float64)": "any [...] posed",  # its own data, of which a check would ask for others
    "torch.zeros(N, dtype=torch.long)": "any [...] posed",
    "torch.randint(0, 2, (N,)).float() * 2 - 1": "any [...] posed",
    "torch.rand(N) * 0": "any [...] posed",
    "torch.rand(N).T": "any [...] posed",
    "torch.rand(N, generator=torch.Generator())": "any [...] posed",
    "numpy.ones(N)": "any [...] posed",
    "torch.rand(N ** N)": "any [...] posed",
    "[torch.rand(N)]": "made",
    "math.sqrt(N)": "made",
    "tuple(range(N))": "made",
}


@pytest.mark.parametrize("expression", LINES)
def test_expressions_are_read_as_lines_where_their_values_are_the_same(tmp_path: Path, expression: str) -> None:
    problem = text.MADE.replace(
        "torch.tril(torch.rand(N, N)), torch.rand(N, N), 3.5, [N * N]", f"{expression}, N, None, True"
    )
    opened = kernelbench.read(written(tmp_path, problem, text.MADE_NEW)[1])
    assert not opened.problems
    (line,) = opened.inputs.values()
    wanted = LINES[expression]
    assert catalog.parse_tensor("x", line) == catalog.parse_tensor("x", wanted)


def test_an_input_whose_elements_are_all_alike_is_the_problems_own_and_told(tmp_path: Path) -> None:
    body = "    return [torch.zeros(N, N), torch.rand(N, N), 1, True]\n"
    problem = text.MADE.replace("    return [torch.tril(torch.rand(N, N)), torch.rand(N, N), 3.5, [N * N]]\n", body)
    opened = kernelbench.read(written(tmp_path, problem.replace("N = 64", "N = 4096"), text.MADE_NEW)[1])
    assert dict(opened.inputs) == {"lower": "any [...] posed", "x": "float32 [N, N] uniform"}
    assert opened.cpu == {"N": 512}
    assert any(note.startswith("its own code makes every element of lower alike") for note in opened.notes)


def test_an_input_that_another_one_is_made_from_is_posed_with_it(tmp_path: Path) -> None:
    body = "    a = torch.rand(N, N)\n    b = a * 2\n    return [a, b, 1, True]\n"
    problem = text.MADE.replace("    return [torch.tril(torch.rand(N, N)), torch.rand(N, N), 3.5, [N * N]]\n", body)
    opened = kernelbench.read(written(tmp_path, problem, text.MADE_NEW)[1])
    assert list(opened.inputs.values()) == ["any [...] posed", "any [...] posed"]


def test_names_that_double_with_every_line_end_the_reading_and_not_the_machine(tmp_path: Path) -> None:
    doubled = "".join(f"n{index + 1} = n{index} + n{index}\n" for index in range(60))
    problem = text.MATMUL.replace("M = 1024\n", f"M = 1024\nn0 = 1\n{doubled}").replace("rand(M, K)", "rand(n60, K)")
    opened = kernelbench.read(written(tmp_path, problem, text.MATMUL_NEW)[1])
    assert opened.inputs["A"] == "any [...] posed"
    huge = text.MADE.replace("3.5,", "9 ** 9 ** 9 ** 9,")
    opened = kernelbench.read(written(tmp_path, huge, text.MADE_NEW)[1])
    assert list(opened.inputs.values())[2] == "any [...] posed"


def test_outputs_have_a_name_each_and_are_what_the_references_are(tmp_path: Path) -> None:
    (only,) = made(tmp_path, *PAIRS["matmul"])[0].outputs
    assert (only.name, only.dtype, only.open) == ("out", "any", True)
    two = text.MATMUL.replace("return torch.matmul(A, B)", "return A @ B, A.argmin(1)")
    opened = kernelbench.read(written(tmp_path, two, text.MATMUL_NEW)[1])
    assert dict(opened.outputs) == {"out0": "any [...]", "out1": "any [...]"}


# -- random numbers ----------------------------------------------------------------------------------------------------

RANDOM = {
    "nn.Dropout(0.5)": True,
    "nn.LSTM(4, 4, dropout=0.3)": True,
    "nn.LSTM(4, 4, dropout=0.0)": False,
    "nn.TransformerEncoderLayer(8, 2)": True,
    "nn.TransformerEncoderLayer(8, 2, 16, 0.0)": False,
    "nn.TransformerEncoderLayer(8, 2, dropout=0.0)": False,
    "nn.MultiheadAttention(8, 2)": False,
    "nn.MultiheadAttention(8, 2, 0.1)": True,
    "nn.Dropout(self.rate)": True,
    "nn.Dropout(NONE)": False,
    "nn.LSTM(4, 4, dropout=NONE if K > 1 else 0.0)": False,
    "nn.RReLU()": True,
    "nn.BatchNorm1d(4)": False,
    "nn.Parameter(torch.randn(4))": False,
    "nn.ModuleDict(dict(dropout=nn.Dropout(NONE)))": False,
    "nn.ModuleDict(dict(dropout=nn.Dropout(0.5)))": True,
    "nn.LSTM(4, 4, dropout=float(K))": True,
}


@pytest.mark.parametrize("module", RANDOM)
def test_a_forward_that_draws_is_called_behind_a_seed_of_its_set(tmp_path: Path, module: str) -> None:
    start = "        super(Model, self).__init__()\n"
    problem = text.MATMUL.replace(start, f"{start}        self.inner = {module}\n").replace(
        "M = 1024", "NONE = 0.0\nM = 1024"
    )
    opened = kernelbench.read(written(tmp_path, problem, text.MATMUL_NEW)[1])
    assert ("seed" in opened.inputs) is RANDOM[module]
    assert any("draws random numbers" in note for note in opened.notes) is RANDOM[module]


@pytest.mark.parametrize(("rate", "draws"), [("0.2", True), ("0.0", False), ("RATE", False), ("features * 0", True)])
def test_a_rate_that_get_init_inputs_gives_is_known(tmp_path: Path, rate: str, draws: bool) -> None:
    problem = text.DROPOUT.replace("[features, 0.2]", f"[features, {rate}]").replace(
        "import torch\n", "import torch\nRATE = 0\n", 1
    )
    opened = kernelbench.read(written(tmp_path, problem, text.DROPOUT_NEW)[1])
    assert ("seed" in opened.inputs) is draws
    usual = text.DROPOUT.replace("[features, 0.2]", "[features]").replace("features, rate)", "features, rate=0.0)")
    opened = kernelbench.read(written(tmp_path, usual, text.DROPOUT_NEW)[1])
    assert "seed" not in opened.inputs


@pytest.mark.parametrize(("call", "draws"), [("parts.dropout(A)", False), ("F.dropout(A)", True)])
def test_a_dropout_that_is_called_by_name_is_a_module_made_elsewhere_or_a_function(
    tmp_path: Path, call: str, draws: bool
) -> None:
    start = "        super(Model, self).__init__()\n"
    made_before = f"{start}        self.parts = nn.ModuleDict(dict(dropout=nn.Dropout(0.0)))\n"
    body = f"        parts = self.parts\n        return torch.matmul({call}, B)\n"
    problem = text.MATMUL.replace(start, made_before).replace("        return torch.matmul(A, B)\n", body)
    problem = problem.replace("import torch\n", "import torch\nimport torch.nn.functional as F\n", 1)
    assert body in problem
    assert ("seed" in kernelbench.read(written(tmp_path, problem, text.MATMUL_NEW)[1]).inputs) is draws


def test_what_its_own_code_makes_runs_on_a_cpu_where_it_is_small(tmp_path: Path) -> None:
    body = "    x = torch.rand(N, N)\n    return [x, torch.randint(0, 2, x.shape).bool(), 1, True]\n"
    problem = text.MADE.replace("    return [torch.tril(torch.rand(N, N)), torch.rand(N, N), 3.5, [N * N]]\n", body)
    small = kernelbench.read(written(tmp_path, problem, text.MADE_NEW)[1])
    assert list(small.inputs.values()) == ["any [...] posed"] * 2
    assert small.cpu == {"N": 64}
    large = problem.replace("N = 64", "N = 4096")
    assert kernelbench.read(written(tmp_path, large, text.MADE_NEW)[1]).cpu == {"N": 512}
    shared = large.replace("lower @ x", "lower[:N] @ x")  # the Model counts on it
    assert kernelbench.read(written(tmp_path, shared, text.MADE_NEW)[1]).cpu is None
    derived = large.replace("N = 4096", "N = 4096\nHALF = N // 2").replace("rand(N, N)", "rand(N, HALF)")
    assert kernelbench.read(written(tmp_path, derived, text.MADE_NEW)[1]).cpu is None  # it would not follow


def test_what_its_own_code_poses_is_posed_in_the_size_of_the_case(tmp_path: Path) -> None:
    body = "    x = torch.rand(N, K) * torch.rand(())\n    return [x, x.bool()]\n"
    problem = text.MADE.replace("    return [torch.tril(torch.rand(N, N)), torch.rand(N, N), 3.5, [N * N]]\n", body)
    problem = problem.replace("N = 64", "N = 4096\nK = 2048").replace("lower, x, factor, shape", "x, mask")
    target, place = made(tmp_path, problem.replace("(lower @ x * factor).reshape(shape)", "x * mask"), text.MADE_NEW)
    assert target.case("cpu").axes == {"N": 512, "K": 512}
    script = "import inputs, json; found = inputs.pose(json.loads(INPUT), 'cpu', None); "
    script += "print([list(each.shape) for each in found.values()])"
    for axes in ({"N": 512, "K": 512}, {"N": 4, "K": 2}):
        done = python(script.replace("INPUT", repr(json.dumps(axes))), where=place)
        assert done.stdout.strip() == str([list(axes.values())] * 2), done.stderr


def test_sizes_that_agree_by_their_numbers_are_not_halved_apart(tmp_path: Path) -> None:
    body = "    return [torch.rand(N, 4096), torch.rand(N)]\n"
    problem = text.MADE.replace("    return [torch.tril(torch.rand(N, N)), torch.rand(N, N), 3.5, [N * N]]\n", body)
    problem = problem.replace("lower, x, factor, shape", "x, row").replace(
        "(lower @ x * factor).reshape(shape)", "x * row"
    )
    agreeing = problem.replace("N = 64", "N = 4096")  # row is broadcast along the 4096
    assert kernelbench.read(written(tmp_path, agreeing, text.MADE_NEW)[1]).cpu is None
    apart = problem.replace("N = 64", "N = 2048")
    assert kernelbench.read(written(tmp_path, apart, text.MADE_NEW)[1]).cpu == {"N": 64}


def test_what_cannot_be_halved_runs_as_it_is_up_to_a_size_and_needs_a_gpu_beyond(tmp_path: Path) -> None:
    literal = text.MATMUL.replace("rand(M, K)", "rand(1024, 1024)")
    assert literal != text.MATMUL
    assert made(tmp_path / "small", literal, text.MATMUL_NEW)[0].needs.gpus == 0
    target, _ = made(tmp_path / "large", literal.replace("rand(1024, 1024)", "rand(2048, 1024)"), text.MATMUL_NEW)
    assert target.needs.gpus == 1
    assert [case.name for case in target.cases] == ["default"]


def test_what_is_drawn_in_forward_itself_is_seen_and_what_makes_inputs_is_not(tmp_path: Path) -> None:
    drawing = text.MATMUL.replace("torch.matmul(A, B)", "torch.matmul(A, B) + torch.rand_like(A)[0, 0]")
    assert "seed" in kernelbench.read(written(tmp_path, drawing, text.MATMUL_NEW)[1]).inputs
    assert "seed" not in kernelbench.read(written(tmp_path, text.MATMUL, text.MATMUL_NEW)[1]).inputs
    named = text.DROPOUT.replace("def forward(self, x)", "def forward(self, seed)").replace("(x)", "(seed)")
    opened = kernelbench.read(written(tmp_path, named, text.DROPOUT_NEW)[1])
    assert list(opened.inputs) == ["seed", "model", "seed_"]


# -- what cannot be taken ----------------------------------------------------------------------------------------------

REFUSED = {
    "broken": (text.BROKEN, "line 15: not Python: '(' was never closed"),
    "with an effect": (text.SIDE_EFFECT, "line 5: print('loaded') has an effect of its own"),
    "without a Model": (text.MATMUL.replace("class Model(", "class Other("), "has no class Model"),
    "without inputs": (text.MATMUL.replace("def get_inputs", "def inputs"), "has no function get_inputs"),
    "without forward": (text.MATMUL.replace("def forward", "def backward"), "line 9: Model has no forward"),
    "of computed inputs": (text.MATMUL.replace("return [A, B]", "return sorted(A)[:2]"), "does not end with a list"),
    "of too many inputs": (text.MATMUL.replace("[A, B]", "[A, B, A]"), "forward takes 2 inputs, and get_inputs"),
    "of one tensor": (text.MATMUL.replace("return [A, B]", "return torch.rand(M)"), "does not end with a list"),
    "of no tensor": (text.MATMUL.replace("[A, B]", "[1, 2]"), "get_inputs returns no tensor"),
    "with our name": (text.MATMUL + "def run(): ...\n", "run is a name that is written behind the file"),
    "with another": (text.MATMUL + "def judge(): ...\n", "judge is a name that is written behind the file"),
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


# -- weights -----------------------------------------------------------------------------------------------------------

ASKED = """\
import json, sys
import torch
sys.path.insert(0, sys.argv[1])
import inputs, baseline, optimized, reference
torch.manual_seed(7)
before = torch.get_rng_state()
made = inputs.make({}, "cpu", None)["model"]
kept = torch.equal(before, torch.get_rng_state())
torch.manual_seed(42)
truly = baseline.Model(*made["init"])
same = all(torch.equal(truly.state_dict()[name], made["state"][name]) for name in made["state"])
x = torch.randn(5, 128)
wanted = truly(x).detach()
given = baseline.prepare(x, made)(x, made)
found = optimized.prepare(x, made)(x, made)
wide = {"init": made["init"], "state": {name: value.double() for name, value in made["state"].items()}}
exact = reference.run(x.double(), wide)
print(json.dumps([
    kept, same, torch.equal(given, wanted), float((found - wanted).abs().max()) < 1e-5, found.requires_grad,
    str(exact.dtype), float((exact - wanted).abs().max()) < 1e-5,
]))
"""


def asked(place: Path) -> list[str]:
    """The lines that the parts print where they are used as a run uses them, and at last what was found."""
    done = python(ASKED, str(place))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_weights_are_those_of_seed_42_and_are_given_by_name(tmp_path: Path) -> None:
    _, place = made(tmp_path, *PAIRS["layer"])
    *said, found = asked(place)
    assert json.loads(found) == [True, True, True, True, False, "torch.float64", True]
    assert "weights: bias was made with other values in ModelNew, and has those of Model now" in said
    assert len(said) == 3  # weight and bias of the layer too: all three were made in another order


def test_weights_without_a_counterpart_are_told(tmp_path: Path) -> None:
    _, place = made(tmp_path, text.LAYER, text.RENAMED)
    *said, found = asked(place)
    assert json.loads(found)[3] is False
    assert "weights: linear.weight [64, 128] of Model has no counterpart in ModelNew" in said
    assert "weights: dense.weight of ModelNew is not in Model and keeps its own values" in said
