"""Packed calls: what is carried comes out as it went in, what cannot be is refused, and which cases are judged."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from aisp.kernels.catalog.formats import backendbench, multikernel, packed
from aisp.kernels.catalog.formats.packed import Case, Cases
from tests.imported import python

PAGE = (Path(__file__).parents[3] / "docs/formats.md").read_text("utf-8")


def test_the_page_has_the_numbers_of_the_code() -> None:
    said = " ".join(PAGE.split())
    assert f"at most {packed.JUDGED_ELEMENTS:,} elements is judged in **every** run" in said
    assert f"the largest of up to {packed.HOST_ELEMENTS:,} elements" in said
    assert f"At most {packed.MAX_CASES} cases are taken" in said
    assert f"{multikernel.GUESSED} are taken, counted round" in said
    assert f"{backendbench.SAMPLES} cases, `sample0` and so on" in said


# -- cases -------------------------------------------------------------------------------------------------------------


def test_the_largest_case_that_a_cpu_can_take_is_timed_there() -> None:
    most = packed.HOST_ELEMENTS
    assert Cases("n", (Case("a", 5), Case("b", most), Case("c", most + 1), Case("d", most))).cpu == 1
    assert Cases("n", (Case("a", most + 1),)).cpu is None
    assert Cases("n", (Case("a"), Case("b"))).cpu == 0  # nobody has written their sizes down


def test_cases_that_no_machine_should_be_given_unasked_are_run_by_name_alone() -> None:
    known = (Case("a", 5), Case("b", packed.JUDGED_ELEMENTS + 1), Case("c"))
    front = Cases("n", known, usual=1).front()
    assert front["axes"] == {"n": 1}
    assert {case["name"]: case.get("timed", True) for case in front["cases"]} == {
        "cpu": True,
        "a": False,
        "b": True,
        "c": False,
    }
    assert front["fuzz"] == {"axes": {"n": [0, 2]}}


# -- signatures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signature", "wanted"),
    [
        ("self, x, y", ["x", "y"]),
        ("self, x: torch.Tensor, dim: int, eps=1e-5, mode='mean', mask=None", ["x", "mask"]),
        ("self, x: Tensor, axes: 'List[int]', other: Optional[Tensor] = None", ["x", "other"]),
        ("self, parts: list[torch.Tensor]", ["parts", *(f"more{n}" for n in range(packed.SPARE_SLOTS))]),
        ("self, more0, *rest", ["more0", "more0_", *(f"more{n}" for n in range(1, packed.SPARE_SLOTS))]),
        ("self, n: int", []),
    ],
)
def test_a_slot_stands_for_each_argument_that_may_be_a_tensor(signature: str, wanted: list[str]) -> None:
    (function,) = ast.parse(f"def forward({signature}): ...").body
    assert isinstance(function, ast.FunctionDef)
    assert packed.slots(function.args) == wanted


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("def f(x): return x", ["x"]),
        ("def f(x):\n    y = x\n    return y, x + 1", ["y", ""]),
        ("def f(x) -> tuple[Tensor, Tensor]: return g(x)", ["", ""]),
        ("def f(x) -> Tuple[Tensor, ...]: return g(x)", [""]),
        ("def f(x): pass", [""]),
    ],
)
def test_outputs_are_counted_by_the_annotation_or_between_the_commas(code: str, wanted: list[str]) -> None:
    (function,) = ast.parse(code).body
    assert isinstance(function, ast.FunctionDef)
    assert packed.returned(function) == wanted


# -- what is carried ---------------------------------------------------------------------------------------------------

CARRIED = """\
import json, sys
import torch
sys.path.insert(0, sys.argv[1])
import aisp_packed as packed

x, wide = torch.arange(6.0).reshape(2, 3), torch.arange(12.0).reshape(3, 4)
whole = torch.tensor([1, 2])
args = [
    x, wide.t(), 2, True, None, "mean", 1.5, float("inf"), float("nan"), 2j, (1, 2), [whole, [x]],
    {"k": wide[:, 1:3]}, torch.bfloat16, torch.device("cuda"), x[:1].expand(4, 3), torch.tensor(3), torch.empty(0, 5),
]
names = ["call", *(f"t{n}" for n in range(10))]
made = packed.pack(names, args, {"alpha": whole, "out_dtype": torch.float16})
found, named = packed.reader(made["call"])(*(made[name] for name in names[1:]))

def same(one, other):
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return str(one) == str(other) and type(one) is type(other)

wanted = [torch.device("cpu") if isinstance(value, torch.device) else value for value in args]
told = []
for bad in (object(), torch.zeros(2, dtype=torch.complex64), torch.zeros(2, 2).to_sparse(), [torch.zeros(1)] * 11):
    try:
        packed.pack(names, [bad])
    except packed.PackError as error:
        told.append(str(error))
print(json.dumps({
    "same": [same(one, other) for one, other in zip(wanted, found)],
    "named": same(named, {"alpha": whole, "out_dtype": torch.float16}),
    "strides": [list(found[1].stride()), list(found[12]["k"].stride()), list(found[15].stride())],
    "posed": [[str(made[name].dtype), made[name].is_contiguous(), made[name].numel()] for name in names],
    "told": told,
    "flat": [list(t.shape) for t in packed.flat([x, (wide.t(), None, 3), [[whole]]])],
    "whole": all(t.is_contiguous() for t in packed.flat([wide.t()])),
}))
"""


def test_what_is_packed_comes_out_as_it_went_in(tmp_path: Path) -> None:
    (tmp_path / f"{packed.NAME}.py").write_text(packed.SHARED)
    done = python(CARRIED, str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(found["same"]), found["same"]
    assert found["named"]
    assert found["strides"] == [[1, 4], [4, 1], [0, 1]]
    assert found["posed"][0][:2] == ["torch.uint8", True]
    assert all(contiguous for _, contiguous, _ in found["posed"])
    assert [count for *_, count in found["posed"]][2] == 12  # the transposed one, as the stretch that it lies in
    assert found["told"] == [
        "an argument is object, which cannot be carried",
        "an argument is a tensor of torch.strided torch.complex64, which cannot be carried",
        "an argument is a tensor of torch.sparse_coo torch.float32, which cannot be carried",
        "the call has more than 10 tensors",
    ]
    assert found["flat"] == [[2, 3], [4, 3], [], [2]]
    assert found["whole"]


DROPPED = """
import gc, json, sys, weakref

import torch

sys.path.insert(0, sys.argv[1])
import aisp_packed

gc.disable()
flat = aisp_packed.flat([torch.ones(2), (torch.ones(1), 3, None)])
values = [tensor.tolist() for tensor in flat]
seen = [weakref.ref(tensor) for tensor in flat]
del flat
print(json.dumps({"values": values, "kept": sum(each() is not None for each in seen)}))
"""


def test_what_a_call_returned_is_gone_as_soon_as_nobody_holds_it(tmp_path: Path) -> None:
    """Measuring does not look for cycles of objects: what one keeps stays, the outputs of a hundred calls."""
    (tmp_path / f"{packed.NAME}.py").write_text(packed.SHARED)
    done = python(DROPPED, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"values": [[1.0, 1.0], [1.0], 3], "kept": 0}
