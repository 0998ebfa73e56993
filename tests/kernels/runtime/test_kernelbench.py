"""KernelBench's targets as a run uses them: inputs and weights that are carried, a Model that is looked at, a rule."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.imported import python
from tests.kernels.formats import kernelbench as text

USE = """
import inspect, json, sys
sys.path.insert(0, ".")
import baseline, inputs, optimized, reference, rule, torch

NAMES = list(inspect.signature(reference.run).parameters)

def posed(word=3):
    torch.manual_seed(word)
    return inputs.pose({}, "cpu", torch.Generator().manual_seed(word))

def moved(tensor):
    whole = torch.zeros(256 + tensor.numel(), dtype=tensor.dtype)  # as a rung has it: behind a margin
    return whole[256:].view(tensor.shape).copy_(tensor)

def given(found, dtype=None):
    values = [moved(found[name]) for name in NAMES]
    return [each.to(dtype) if dtype and each.is_floating_point() else each for each in values]

def called(module, found):
    arguments = given(found)
    return module.prepare(*arguments)(*arguments)

def truth(found, dtype=torch.float64):
    return reference.run(*given(found, dtype))

def far(found, wanted):
    return max(float((one.double() - other).abs().max()) for one, other in zip(found, wanted, strict=True))
"""

PLAIN = """\
import torch
import torch.nn as nn

N = 6


class Model(nn.Module):
    def forward(self, x):
        return x


def get_inputs():
    return [torch.randn(N, N)]
"""


def used(folder: Path, problem: str, program: str, candidate: str = "") -> subprocess.CompletedProcess[str]:
    """What a program says that uses the target's modules; without a candidate it is the Model under another name."""
    answer = candidate or problem.replace("Model", "ModelNew")
    return python(USE + textwrap.dedent(program), where=text.laid_out(folder, problem, answer))


def result(folder: Path, problem: str, program: str, candidate: str = "") -> object:
    """What it prints last, as JSON."""
    done = used(folder, problem, program, candidate)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def with_body(body: str, forward: str, arguments: str = "x", start: str = "") -> str:
    """A problem with these lines in get_inputs() and this expression in forward()."""
    problem = PLAIN.replace("    return [torch.randn(N, N)]\n", textwrap.indent(textwrap.dedent(body), "    "))
    problem = problem.replace("return x\n", f"return {forward}\n").replace("self, x)", f"self, {arguments})")
    if start:
        init = f"    def __init__(self):\n        super().__init__()\n        {start}\n\n"
        problem = problem.replace("    def forward", f"{init}    def forward")
    return problem


# -- inputs ------------------------------------------------------------------------------------------------------------

CARRIED = {
    "a list, a mask, nothing and a number": (
        "return [[torch.randn(N, N) for _ in range(3)], torch.rand(N, N) > 0.5, None, 3]\n",
        "sum(xs).masked_fill(mask, 0.0) * k if bias is None else bias",
        "xs, mask, bias, k",
    ),
    "a transposed tensor": ("return [torch.randn(N, 4).t()]\n", "x + torch.tensor(x.stride()[0])", "x"),
    "a tensor of which another is made": (
        "a = torch.randn(N)\nb = a * 2\nfor _ in range(3):\n    b = b + 1\nreturn [a, b]\n",
        "(b - 3 - 2 * a).abs() + a.sum()",
        "a, b",
    ),
    "more than the function names": ("return [torch.randn(N) for _ in range(5)]\n", "sum(xs)", "*xs"),
    "a dictionary": (
        "return [{'q': torch.randn(N, 2), 'scale': 0.5, 'shape': (2, N)}]\n",
        "(d['q'] * d['scale']).reshape(d['shape'])",
        "d",
    ),
    "numbers of NumPy": (
        "import numpy as np\nreturn [torch.from_numpy(np.random.rand(N, N).astype(np.float32)), np.float32(2)]\n",
        "x * float(by)",
        "x, by",
    ),
    "whole numbers alone": ("return [torch.randint(0, 9, (N,)), math.sqrt(4)]\n", "x * int(by)", "x, by"),
}


@pytest.mark.parametrize("name", CARRIED)
def test_what_get_inputs_makes_is_what_forward_gets(tmp_path: Path, name: str) -> None:
    problem = with_body(*CARRIED[name]).replace("import torch\n", "import math\n\nimport torch\n", 1)
    program = """
        found, other = posed(), posed(4)
        assert torch.equal(found["call"], other["call"])
        changed = any(not torch.equal(found[name], other[name]) for name in NAMES)
        again = posed()
        same = all(torch.equal(found[name], again[name]) for name in NAMES)
        outputs = called(optimized, found)
        print(json.dumps([changed, same, far(outputs, truth(found)) < 1e-5,
                          far(called(optimized, other), truth(found)) > 1e-3]))
    """
    assert result(tmp_path, problem, program) == [True, True, True, True]


def test_strides_are_those_that_the_problem_made(tmp_path: Path) -> None:
    problem = with_body("return [torch.randn(N, 4).t()]\n", "x * 2")
    by_memory = "x.as_strided((4, N), (N, 1)) * 2"  # right if it were contiguous
    candidate = with_body("return []\n", by_memory).replace("Model", "ModelNew")
    program = """
        found = posed()
        wanted = truth(found)
        print(json.dumps([rule.judge(found, called(baseline, found), wanted),
                          rule.judge(found, called(optimized, found), wanted) is None]))
    """
    assert result(tmp_path, problem, program, candidate) == [None, False]


def test_tensors_that_model_writes_or_hands_back_lie_where_a_candidate_may_write(tmp_path: Path) -> None:
    problem = with_body("return [torch.randn(N), torch.randn(N), torch.randn(N)]\n", "a.relu_() + b, c", "a, b, c")
    program = """
        found = posed()
        full = [name for name in NAMES if found[name].numel() and name != "call"]
        wanted = truth(found)
        print(json.dumps([full, far(called(optimized, found), wanted) < 1e-6]))
    """
    assert result(tmp_path, problem, program) == [["b", "room0", "room1"], True]


def test_what_was_seen_is_said_in_the_log(tmp_path: Path) -> None:
    problem = with_body("return [torch.ones(N, 2), torch.rand(N).expand(3, N), 5]\n", "x.sum() * y * k", "x, y, k")
    done = used(tmp_path, problem, "posed()")
    alike = "all elements alike: such data draw less power, and a GPU may clock higher"
    assert (
        f"inputs: [tensor of float32 [6, 2] ({alike}), tensor of float32 [3, 6] strides [0, 1], 5]; "
        "Model returns tensor of float32 [3, 6]"
    ) in done.stdout


def test_an_output_may_be_of_any_form(tmp_path: Path) -> None:
    problem = with_body("return [torch.randn(N, N)]\n", "{'sum': x.sum(), 'rest': (x, None, 3)}")
    program = "found = posed(); print(json.dumps([list(each.shape) for each in called(optimized, found)]))"
    assert result(tmp_path, problem, program) == [[6, 6], [], []]


REFUSED = {
    "a sparse tensor": (
        with_body("return [torch.eye(N).to_sparse_csr()]\n", "x"),
        "get_inputs (reference.py, line 12): the list[0] is a sparse_csr tensor of float32, which cannot be carried; "
        "inputs may be tensors, numbers",
    ),
    "an object": (
        with_body("return [torch.ones(N), Model()]\n", "x", "x, y"),
        "the list[1] is a Model, whose class cannot be taken out of reference.py by itself",
    ),
    "no tensor": (with_body("return [3]\n", "x"), "line 12): the list holds no tensor"),
    "more tensors than there are slots": (
        with_body("return [[torch.rand(1) for _ in range(12)]]\n", "sum(x)"),
        "holds more tensors than a call may have",
    ),
    "another number of arguments": (
        with_body("return [torch.rand(N), torch.rand(N)]\n", "x"),
        "Model.forward (reference.py, line 8): fails on its inputs: TypeError",
    ),
    "another form with another seed": (
        with_body("return [torch.rand(N), int(torch.randint(0, 1000, ()))]\n", "x * y", "x, y"),
        "with another seed it made other plain values, or tensors of other forms",
    ),
    "an output that is no tensor": (
        with_body("return [torch.rand(N)]\n", "object()"),
        "a call returned object; tensors, numbers, lists and dictionaries are judged; return tensors",
    ),
    "a state that moves": (
        with_body("return [torch.rand(N)]\n", "x * self.count.add_(1)", start="self.count = torch.zeros(1)"),
        "line 12): returns other values when it is called again, since it changes a state that they depend on",
    ),
    "a state that moves a little": (
        with_body(
            "return [torch.rand(2, N)]\n",
            "self.inner(x)",
            start="self.inner = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 5))",
        ),
        "line 12): returns other values when it is called again",
    ),
    "weights without a size": (
        with_body("return [torch.rand(2, N)]\n", "self.inner(x)", start="self.inner = nn.LazyLinear(3)"),
        "Model (reference.py, line 8): inner.weight has no size before the first call; make it with its sizes",
    ),
    "arguments that Model does not take": (
        with_body("return [torch.rand(N)]\n", "x") + "\n\ndef get_init_inputs():\n    return [1, 2]\n",
        "get_init_inputs (reference.py, line 16): Model does not take what it gives: ",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_carried_or_judged_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    problem, wanted = REFUSED[name]
    done = used(tmp_path, problem, "posed(), posed(4)")
    assert done.returncode
    assert wanted in done.stderr


# -- sizes for a machine without a GPU ---------------------------------------------------------------------------------

SIZES = {
    "each by itself, and what is computed of it at the head": (
        text.MATMUL.replace("M = 1024", "M = 4096"),
        [[512, 512], [512, 512]],
    ),
    "not what the weights depend on": (
        text.LAYER.replace("in_features = 128", "in_features = 512"),
        [[512, 512]],
    ),
    "not what Model counts on": (
        with_body("return [torch.rand(M, N), torch.rand(65536)]\n", "x * y", "x, y").replace(
            "N = 6", "M, N = 64, 65536"
        ),
        [[4, 65536], [65536]],
    ),
    "not what is small": (text.MATMUL.replace("M = 1024", "M = 8"), [[8, 16], [16, 512]]),
    "not a number that stands in the call": (text.MATMUL.replace("(M, K)", "(1040, K)"), [[1040, 128], [128, 512]]),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_halved_where_model_still_takes_the_inputs(tmp_path: Path, name: str) -> None:
    problem, wanted = SIZES[name]
    program = """
        found = posed()
        names = [n for n in NAMES if n not in ("call", "weights", "state", "seed") and found[n].numel()]
        print(json.dumps([list(found[name].shape) for name in names]))
    """
    assert result(tmp_path, problem, program) == wanted


def test_inputs_that_no_cpu_should_be_given_are_refused_with_their_size(tmp_path: Path) -> None:
    problem = with_body("return [torch.empty(2**20, 65)]\n", "x[0]")
    done = used(tmp_path, problem, "posed()")
    told = "makes 0.3 GiB, and no size at the head of the file can be halved; judge it where a GPU is"
    assert f"get_inputs (reference.py, line 12): {told}" in done.stderr


# -- random numbers ----------------------------------------------------------------------------------------------------

DRAWS = {
    "nn.Dropout(0.5)": True,
    "nn.Dropout(0.0)": False,
    "nn.TransformerEncoderLayer(6, 2, 16)": True,
    "nn.TransformerEncoderLayer(6, 2, 16, 0.0)": False,
    "nn.RReLU()": True,
    "nn.BatchNorm1d(6)": False,
}


@pytest.mark.parametrize("module", DRAWS)
def test_a_forward_that_draws_is_called_behind_a_seed_of_its_set(tmp_path: Path, module: str) -> None:
    problem = with_body("return [torch.randn(N, N)]\n", "self.inner(x)", start=f"self.inner = {module}")
    program = """
        found = posed()
        first, second = called(optimized, found), called(optimized, found)
        print(json.dumps([found["seed"].numel() == 1, torch.equal(*first, *second)]))
    """
    assert result(tmp_path, problem, program) == [DRAWS[module], True]


def test_numbers_that_are_drawn_elsewhere_are_no_affair_of_forward(tmp_path: Path) -> None:
    head = "import random\n\nimport torch\n\nLENGTHS = [random.randint(1, 9) for _ in range(4)]\n"
    problem = with_body("return [torch.randn(N)]\n", "x.tanh()").replace("import torch\n", head, 1)
    assert result(tmp_path, problem, 'print(posed()["seed"].numel())') == 0


# -- weights -----------------------------------------------------------------------------------------------------------

WEIGHTS = """
torch.manual_seed(7)
before = torch.get_rng_state()
found = posed()
torch.manual_seed(42)
truly = baseline.Model(128, 64)
x = found["x"]
wanted = truly(x).detach()
given_back = called(baseline, found)[0]
outputs = called(optimized, found)[0]
exact = truth(found)[0]
print(json.dumps([
    torch.equal(given_back, wanted), float((outputs - wanted).abs().max()) < 1e-5, outputs.requires_grad,
    str(exact.dtype), float((exact - wanted).abs().max()) < 1e-5,
]))
"""


def test_weights_are_those_of_seed_42_and_are_given_by_name(tmp_path: Path) -> None:
    done = used(tmp_path, text.LAYER, WEIGHTS, text.REORDERED)
    assert done.returncode == 0, done.stderr
    *said, found = done.stdout.splitlines()
    assert json.loads(found) == [True, True, False, "torch.float64", True]
    assert "weights: bias was made with other values in ModelNew, and has those of Model now" in said
    assert len([line for line in said if line.startswith("weights:")]) == 3  # all were made in another order


def test_weights_without_a_counterpart_are_told(tmp_path: Path) -> None:
    done = used(tmp_path, text.LAYER, WEIGHTS, text.RENAMED)
    *said, found = done.stdout.splitlines()
    assert json.loads(found)[1] is False
    assert "weights: linear.weight [64, 128] of Model has no counterpart in ModelNew" in said
    assert "weights: dense.weight of ModelNew is not in Model and keeps its own values" in said


def test_arguments_of_model_may_have_names(tmp_path: Path) -> None:
    problem = text.LAYER.replace("return [in_features, out_features]", "return [[128], {'out_features': 32}]")
    program = "found = posed(); print(json.dumps(called(optimized, found)[0].shape[1]))"
    assert result(tmp_path, problem, program, text.REORDERED) == 32


def test_weights_of_several_dtypes_come_back_as_they_were(tmp_path: Path) -> None:
    start = "self.inner, self.narrow = nn.BatchNorm1d(6), nn.Parameter(torch.randn(3, 2).half())"
    problem = with_body("return [torch.randn(N, N)]\n", "self.inner(x) + self.narrow.sum().float()", start=start)
    program = """
        found = posed()
        sizes = [found["weights"].dtype == torch.float32, found["state"].numel() > 0]
        print(json.dumps([*sizes, far(called(optimized, found), truth(found)) < 1e-2]))
    """
    assert result(tmp_path, problem, program) == [True, True, True]


# -- its own rule ------------------------------------------------------------------------------------------------------


def test_its_harness_makes_fractions_of_whole_numbers(tmp_path: Path) -> None:
    program = """
        found = posed()
        print(json.dumps(rule.judge(found, called(optimized, found), truth(found))))
    """
    said = result(tmp_path, text.CROSS_ENTROPY, program, text.CROSS_ENTROPY_NEW)
    assert "its harness makes float32 of whole numbers, and Model itself raises then: " in str(said)


def test_zeros_pass_where_all_elements_are_small(tmp_path: Path) -> None:
    program = """
        found = posed()
        wanted = truth(found)
        answers = called(optimized, found), [wanted[0] + 1], [wanted[0][0]]
        print(json.dumps([rule.judge(found, answer, wanted) for answer in answers]))
    """
    assert result(tmp_path, text.SOFTMAX, program, text.ZEROS_NEW) == [
        None,
        "the output is off by up to 1",
        "the output has the shape [65536], not [4, 65536]",
    ]
