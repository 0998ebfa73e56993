"""Packed calls: what is carried comes out as it went in, and what cannot be is refused."""

from __future__ import annotations

import json

from tests.imported import python

CARRIED = """\
import json
import torch
from aisp.kernels.runtime import packing as packed

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


def test_what_is_packed_comes_out_as_it_went_in() -> None:
    done = python(CARRIED)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(found["same"]), found["same"]
    assert found["named"]
    assert found["strides"] == [[1, 4], [4, 1], [0, 1]]
    assert found["posed"][0][:2] == ["torch.uint8", True]
    assert all(contiguous for _, contiguous, _ in found["posed"])
    assert [count for *_, count in found["posed"]][2] == 12  # the transposed one, as the stretch that it lies in
    assert found["told"] == [
        "argument 0 is of type object, which cannot be carried",
        "argument 0 is a tensor of complex64, which cannot be carried",
        "argument 0 is a sparse_coo tensor of float32, which cannot be carried",
        "argument 0[10] is one tensor more than 10, which a call may have",
    ]
    assert found["flat"] == [[2, 3], [4, 3], [], [2]]
    assert found["whole"]


DROPPED = """
import gc, json, weakref

import torch

from aisp.kernels.runtime import packing

gc.disable()
flat = packing.flat([torch.ones(2), (torch.ones(1), 3, None)])
values = [tensor.tolist() for tensor in flat]
seen = [weakref.ref(tensor) for tensor in flat]
del flat
print(json.dumps({"values": values, "kept": sum(each() is not None for each in seen)}))
"""


def test_what_a_call_returned_is_gone_as_soon_as_nobody_holds_it() -> None:
    """Measuring does not look for cycles of objects: what one keeps stays, the outputs of a hundred calls."""
    done = python(DROPPED)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"values": [[1.0, 1.0], [1.0], 3], "kept": 0}
