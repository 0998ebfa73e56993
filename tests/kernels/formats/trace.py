"""A definition in both dialects, with every kind of input and an axis that is an expression, and answers to it."""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aisp.kernels.catalog.formats import trace

REFERENCE = '''\
import torch


def run(x, proj_weight, norm_weight, bias, mask, eps):
    """A gated RMS norm behind a product."""
    wide = (x.to(torch.float32) @ proj_weight.to(torch.float32).t()).to(torch.bfloat16).to(torch.float32)
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    normed = wide * scale * norm_weight.to(torch.float32) + bias.to(torch.float32)
    kept = torch.where(mask, normed, torch.zeros_like(normed))
    return kept.reshape(-1).to(torch.bfloat16), wide.abs().sum()


def some_inputs(axes_and_scalars, device):
    """Everything that is a tensor, by the sizes."""
    rows, hidden, inner = (axes_and_scalars[name] for name in ("rows", "hidden", "inner"))
    assert axes_and_scalars["flat"] == rows * inner and axes_and_scalars["eps"] > 0
    return {
        "x": torch.randn(rows, hidden, device=device).to(torch.bfloat16),
        "proj_weight": torch.randn(inner, hidden, device=device).to(torch.bfloat16),
        "norm_weight": torch.rand(inner, device=device).to(torch.bfloat16),
        "bias": torch.randn(inner, device=device),
        "mask": torch.rand(rows, inner, device=device) > 0.5,
    }
'''

RIGHT = """\
import torch


def run(x, proj_weight, norm_weight, bias, mask, eps, out, total):
    wide = (x.float() @ proj_weight.float().t()).to(x.dtype).float()
    normed = torch.nn.functional.rms_norm(wide, (wide.shape[1],), norm_weight.float(), eps) + bias
    out.copy_(torch.where(mask, normed, 0).reshape(-1))
    total.copy_(wide.abs().sum())
"""
"""Writes into its outputs."""

RETURNING = (
    RIGHT.replace(", out, total):", "):")
    .replace(
        "    out.copy_(torch.where(mask, normed, 0).reshape(-1))\n",
        "    out = torch.where(mask, normed, 0).reshape(-1)\n",
    )
    .replace("    total.copy_(wide.abs().sum())\n", '    return {"total": wide.abs().sum(), "out": out.to(x.dtype)}\n')
)
"""Returns them by name, in another order."""

ANSWERS = {
    "right": RIGHT,
    "slightly wrong": RIGHT.replace("normed, 0)", "normed * 1.03, 0)"),
    "zeros": RIGHT.replace("out.copy_(torch.where(mask, normed, 0).reshape(-1))", "out.zero_()"),
    "nan": RIGHT.replace("normed, 0)", "normed, torch.nan)"),
    "another dtype": RETURNING.replace("out.to(x.dtype)", "out.float()"),
    "forgets the bias": RIGHT.replace(" + bias", ""),
}
"""By what is to be said of them."""

OUTLIERS = RIGHT.replace("    total.copy_", "    out[::200] += 50\n    total.copy_")
"""One element in 200 is far off, which SOL-ExecBench allows."""

FFI = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

void fast(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.size(0) * x.size(1); ++i) to[i] = from[i] * 2;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(fast, fast);
"""
"""Doubles a matrix, in C++ that is bound by tvm-ffi."""

PACKED_REFERENCE = '''\
import torch

LEVELS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def levels(data):
    """What packed numbers stand for, in rows that are twice as long."""
    table = torch.tensor([*LEVELS, *(-each for each in LEVELS)], dtype=torch.float32, device=data.device)
    codes = data.view(torch.uint8)
    return torch.stack((table[(codes % 16).long()], table[(codes // 16).long()]), dim=-1).reshape(*codes.shape[:-1], -1)


def run(x, w, scale):
    """A product with a matrix of 4-bit floats that share a scale in stretches of 16."""
    wide = levels(w) * scale.to(torch.float32).repeat_interleave(16, dim=1)
    return (x.to(torch.float32) @ wide.t()).to(torch.bfloat16)


def some_inputs(axes_and_scalars, device):
    """With weights of which the first is minus two, and the second a half."""
    rows, hidden, inner = (axes_and_scalars[name] for name in ("rows", "hidden", "inner"))
    return {
        "x": torch.randn(rows, hidden, device=device).to(torch.bfloat16),
        "w": torch.full((inner, hidden // 2), 12 + 16 * 1, dtype=torch.uint8).to(device).view(torch.float4_e2m1fn_x2),
        "scale": torch.rand(inner, hidden // 16, device=device).to(torch.float8_e4m3fn),
    }
'''

PACKED_RIGHT = """\
import torch


def run(x, w, scale):
    assert w.dtype is torch.float4_e2m1fn_x2 and w.shape[1] * 2 == x.shape[1]
    codes = w.view(torch.uint8)
    codes = torch.stack((codes & 15, codes >> 4), -1).flatten(1).int()
    whole = torch.tensor([0, 1, 2, 3, 4, 6, 8, 12], device=x.device)[(codes & 7).long()] / 2
    wide = torch.where(codes > 7, -whole, whole).reshape(*scale.shape, 16) * scale.float()[..., None]
    return (x.float() @ wide.flatten(1).t()).bfloat16()
"""

PACKED_SWAPPED = PACKED_RIGHT.replace("codes & 15, codes >> 4", "codes >> 4, codes & 15")
"""Takes the upper half of a byte for the first of its two."""


def packed(*, custom: bool = False, dtype: str = "float4_e2m1fn_x2") -> dict[str, Any]:
    """A product with 4-bit floats. Of random ones the shape counts floats, of others bytes."""
    half = {"type": "expr", "expression": "hidden / 2"}
    return definition(
        name="packed_product",
        axes=AXES | {"half": half, "groups": {"type": "expr", "expression": "hidden // 16"}},
        inputs={
            "x": INPUTS["x"],
            "w": {"shape": ["inner", "half" if custom else "hidden"], "dtype": dtype},
            "scale": {"shape": ["inner", "groups"], "dtype": "float8_e4m3fn"},
        },
        outputs={"y": {"shape": ["rows", "inner"], "dtype": "bfloat16"}},
        reference=PACKED_REFERENCE,
        custom_inputs_entrypoint="some_inputs" if custom else None,
    )


QUANTIZING_REFERENCE = '''\
import torch

BETWEEN = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


def run(x):
    """The nearest 4-bit floats to x, two in a byte."""
    wide = x.to(torch.float32)
    codes = torch.bucketize(wide.abs(), torch.tensor(BETWEEN, device=x.device)).to(torch.uint8)
    codes = codes + 8 * (wide < 0).to(torch.uint8)
    return (codes[:, ::2] + 16 * codes[:, 1::2]).view(torch.float4_e2m1fn_x2)
'''

QUANTIZING_RIGHT = """\
import torch


def run(x, out):
    between = torch.tensor([0.2501, 0.7501, 1.25, 1.75, 2.5, 3.5, 5.0], device=x.device)  # one step off, now and then
    codes = torch.bucketize(x.float().abs(), between).byte() | torch.signbit(x).byte() << 3  # and a zero with a sign
    out.view(torch.uint8).copy_(codes[:, ::2] | codes[:, 1::2] << 4)
"""

QUANTIZING_WRONG = QUANTIZING_RIGHT.replace("2.5, 3.5, 5.0]", "2.0, 3.0, 4.0]")


def quantizing() -> dict[str, Any]:
    """A definition whose output is packed."""
    return definition(
        name="quantizing",
        axes=AXES | {"half": {"type": "expr", "expression": "hidden / 2"}},
        inputs={"x": INPUTS["x"]},
        outputs={"out": {"shape": ["rows", "half"], "dtype": "float4_e2m1fn_x2"}},
        reference=QUANTIZING_REFERENCE,
        custom_inputs_entrypoint=None,
    )


SAMPLING_REFERENCE = '''\
import torch


def run(probs, top_k, top_p):
    """One token a row: of the top_k likeliest ones, and of these of those that make up top_p."""
    kept = probs.clone().float()
    for row in range(kept.shape[0]):
        k, share = int(top_k[row]), float(top_p[row])
        if 0 < k < kept.shape[1]:
            kept[row][kept[row] < kept[row].topk(k).values[-1]] = 0
            kept[row] /= kept[row].sum()
        if 0 < share < 1:
            ordered, places = kept[row].sort(descending=True)
            kept[row][places[ordered.cumsum(0) - ordered >= share]] = 0
    return torch.multinomial(kept, 1).squeeze(1)


def some_inputs(axes_and_scalars, device):
    """Not all of a row's tokens may be drawn."""
    rows, tokens = axes_and_scalars["rows"], axes_and_scalars["tokens"]
    return {
        "probs": (3 * torch.randn(rows, tokens, device=device)).softmax(-1),
        "top_k": torch.randint(2, 12, (rows,), dtype=torch.int32, device=device),
        "top_p": 0.3 + 0.6 * torch.rand(rows, device=device),
    }
'''

SAMPLING_RIGHT = """\
import torch


def run(probs, top_k, top_p):
    tokens = probs.shape[1]
    ordered, places = probs.sort(dim=-1, descending=True)
    ranks = torch.arange(tokens, device=probs.device)
    k = torch.where((top_k > 0) & (top_k < tokens), top_k, tokens)[:, None]
    kept = torch.where(ranks < k, ordered, 0)
    kept = kept / kept.sum(-1, keepdim=True)
    share = torch.where((top_p > 0) & (top_p < 1), top_p, 2.0)[:, None]
    kept = torch.where(kept.cumsum(-1) - kept < share, kept, 0).cumsum(-1)
    drawn = torch.rand(probs.shape[0], 1, device=probs.device) * kept[:, -1:]
    return places.gather(1, torch.searchsorted(kept, drawn, right=True).clamp(max=tokens - 1)).squeeze(1)
"""

SAMPLING_WRONG = {
    "always the likeliest": (
        SAMPLING_RIGHT.replace("torch.searchsorted(kept, drawn, right=True)", "torch.zeros_like(k)"),
        "tokens of one distribution otherwise",
    ),
    "all that are left alike": (
        SAMPLING_RIGHT.replace("kept < share, kept, 0)", "kept < share, (kept > 0).float(), 0)"),
        "tokens of one distribution otherwise",
    ),
    "forgets top_p": (
        SAMPLING_RIGHT.replace("top_p, 2.0)", "2.0, 2.0)"),
        "which is left out",
    ),
    "a seed of its own": (
        SAMPLING_RIGHT.replace(
            "torch.rand(probs.shape[0], 1, device=probs.device)",
            "torch.rand(probs.shape[0], 1, generator=torch.Generator().manual_seed(1))",
        ),
        "behind another seed it drew the same tokens",
    ),
    "places in the order of likelihood": (
        SAMPLING_RIGHT.replace("places.gather(1, ", "(").replace(").squeeze(1)", ").squeeze(1)"),
        "which is left out",
    ),
}
"""By what is wrong: the source, and what is said of it."""


def sampling(**changed: Any) -> dict[str, Any]:
    """A definition that draws tokens, by its own inputs."""
    written = definition(
        name="top_k_top_p_sampling",
        op_type="sampling",
        axes={"rows": {"type": "var"}, "tokens": {"type": "const", "value": 96}},
        inputs={
            "probs": {"shape": ["rows", "tokens"], "dtype": "float32"},
            "top_k": {"shape": ["rows"], "dtype": "int32"},
            "top_p": {"shape": ["rows"], "dtype": "float32"},
        },
        outputs={"samples": {"shape": ["rows"], "dtype": "int64"}},
        reference=SAMPLING_REFERENCE,
    )
    return written | changed


def random_lines(uuid: str, rows: int, *names: str, kind: str = "random") -> dict[str, Any]:
    """A workload whose inputs are all of one kind."""
    return {"uuid": uuid, "axes": {"rows": rows}, "inputs": {name: {"type": kind} for name in names}}


AXES: dict[str, Any] = {
    "rows": {"type": "var", "description": "tokens"},
    "hidden": {"type": "const", "value": 32},
    "inner": {"type": "const", "value": 48},
}
INPUTS: dict[str, Any] = {
    "x": {"shape": ["rows", "hidden"], "dtype": "bfloat16"},
    "proj_weight": {"shape": ["inner", "hidden"], "dtype": "bfloat16"},
    "norm_weight": {"shape": ["inner"], "dtype": "bfloat16"},
    "bias": {"shape": ["inner"], "dtype": "float32"},
    "mask": {"shape": ["rows", "inner"], "dtype": "bool"},
    "eps": {"shape": None, "dtype": "float32"},
}


def definition(**changed: Any) -> dict[str, Any]:
    """As SOL-ExecBench has it: the first output has an expr axis."""
    written = {
        "name": "gated_norm_h32",
        "description": "A gated RMS norm behind a product. Of our own writing.",
        "axes": AXES | {"flat": {"type": "expr", "expression": "rows * inner"}},
        "custom_inputs_entrypoint": "some_inputs",
        "inputs": INPUTS,
        "outputs": {"out": {"shape": ["flat"], "dtype": "bfloat16"}, "total": {"shape": [], "dtype": "float32"}},
        "reference": REFERENCE,
        "hf_id": None,
    }
    return written | changed


def for_flashinfer() -> dict[str, Any]:
    """As FlashInfer has it: an op_type, tags and constraints, and neither an expr axis nor custom inputs."""
    written = definition(
        axes=AXES | {"flat": {"type": "var"}},
        op_type="norm",
        tags=["status:draft"],
        constraints=["flat == rows * inner", "flat == mask.numel()"],
        inputs=INPUTS | {"mask": {"shape": ["flat"], "dtype": "bool"}},
        reference=REFERENCE.replace("torch.where(mask,", "torch.where(mask.reshape(normed.shape),"),
    )
    return {key: value for key, value in written.items() if key not in ("custom_inputs_entrypoint", "hf_id")}


def workload(uuid: str, rows: int, **changed: Any) -> dict[str, Any]:
    """Random but for eps; `changed` are other inputs."""
    inputs: dict[str, Any] = {name: {"type": "random"} for name in INPUTS}
    inputs["eps"] = {"type": "scalar", "value": 1e-5}
    return {"uuid": uuid, "axes": {"rows": rows}, "inputs": inputs | changed}


STORED = {"type": "safetensors", "path": "blob/bias.safetensors", "tensor_key": "bias"}


def custom(uuid: str, rows: int, eps: float = 1e-5) -> dict[str, Any]:
    """All tensors by the definition's own function."""
    made = {name: {"type": "custom"} for name in INPUTS if name != "eps"}
    return workload(uuid, rows, **made, eps={"type": "scalar", "value": eps})


WORKLOADS = [
    workload("11111111-aaaa", 40),
    workload("22222222-bbbb", 24, bias=STORED, eps={"type": "scalar", "value": 0.5}),
    custom("33333333-cccc", 56),
]


def safetensors(path: Path, tensors: Mapping[str, Sequence[float]]) -> None:
    """A file of float32 tensors."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header: dict[str, Any] = {"__metadata__": {"made": "for a test"}}
    data = b""
    for name, values in tensors.items():
        packed = array("f", values).tobytes()
        place = [len(data), len(data) + len(packed)]
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": place}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def solution(source: str = RIGHT, **changed: Any) -> dict[str, Any]:
    """An answer of one Python file, as SOL-ExecBench has it."""
    spec = {
        "languages": ["pytorch"],
        "target_hardware": ["LOCAL"],
        "entry_point": "main.py::run",
        "destination_passing_style": "out, total" in source,
    }
    written = {
        "name": "gated_norm_v1",
        "definition": "gated_norm_h32",
        "author": "somebody",
        "spec": spec | changed.pop("spec", {}),
        "sources": [{"path": "main.py", "content": source}],
    }
    return written | changed


def solution_for_flashinfer(source: str = RIGHT, **changed: Any) -> dict[str, Any]:
    """The same as FlashInfer has it, whose mask is flat."""
    written = solution(source.replace("torch.where(mask,", "torch.where(mask.reshape(normed.shape),"), **changed)
    spec = {key: value for key, value in written["spec"].items() if key != "languages"}
    return written | {"spec": spec | {"language": "python", "target_hardware": ["NVIDIA_H100"]}}


def doubling() -> dict[str, Any]:
    """A definition of one matrix that is doubled."""
    square = {"shape": ["rows", "hidden"], "dtype": "float32"}
    return definition(
        inputs={"x": square},
        outputs={"y": square},
        reference="def run(x):\n    return x + x\n",
        custom_inputs_entrypoint=None,
    )


HALVES = """\
import torch
import triton
import triton.language as tl


@triton.jit
def squared(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(y + at, value * value)


def run(x):
    y = torch.empty_like(x)
    squared[(x.shape[0],)](x, y, x.shape[1])
    return y
"""
"""Squares a matrix in Triton, in the dtype that it is given."""


def squaring(dtype: str) -> dict[str, Any]:
    """A definition of one matrix that is squared."""
    square = {"shape": ["rows", "hidden"], "dtype": dtype}
    return definition(
        inputs={"x": square},
        outputs={"y": square},
        reference="def run(x):\n    return x * x\n",
        custom_inputs_entrypoint=None,
    )


WRITING = {
    "by a helper function": ("_tenth(x)", True),
    "by an operator's out": ("rows = x[:]\n    torch.mul(x, 0.1, out=rows)", True),
    "through a view": ("flat = x.reshape(-1)\n    flat *= 0.1", True),
    "through memory that PyTorch does not watch": ("memory = x.numpy(force=True)\n    memory *= 0.1", True),
    "by a method, on a copy": ("x = x.clone().mul_(0.1)", False),
}
"""How a reference multiplies x by a tenth, by what is to be said of it, and whether x is another one then."""

TENTH = "def run(x, y):\n    x.div_(10)\n    return x * y\n"
"""Likewise in place, rounded otherwise."""


def scaling(how: str) -> dict[str, Any]:
    """A definition whose reference multiplies an input in one of these ways."""
    square = {"shape": ["rows", "hidden"], "dtype": "float32"}
    head = "import torch\n\n\ndef _tenth(x):\n    x.mul_(0.1)\n\n\n"
    return definition(
        inputs={"x": square, "y": square},
        outputs={"z": square},
        reference=f"{head}def run(x, y):\n    {WRITING[how][0]}\n    return x * y\n",
        custom_inputs_entrypoint=None,
    )


def doubling_in_cpp() -> dict[str, Any]:
    """An answer to it in C++, bound as FlashInfer binds it where nothing else is said."""
    written = solution_for_flashinfer(sources=[{"path": "k/fast.cpp", "content": FFI}])
    written["spec"] |= {"language": "cpp", "entry_point": "k/fast.cpp::fast", "destination_passing_style": True}
    return written


def scaled() -> dict[str, Any]:
    """A definition whose own function makes all of its inputs, two plain numbers among them."""
    scale, shift = {"shape": None, "dtype": "float32"}, {"shape": None, "dtype": "int32"}
    reference = (
        "import torch\n\n\ndef run(x, scale: float, shift):\n    assert type(scale) is float and type(shift) is int\n"
        "    return x * scale + shift\n\n\ndef some_inputs(axes_and_scalars, device):\n"
        "    x = torch.randn(axes_and_scalars['rows'], axes_and_scalars['hidden'], device=device)\n"
        "    return {'x': x, 'scale': x.abs().max().item() / 6, 'shift': torch.tensor(3, device=device)}\n"
    )
    square = {"shape": ["rows", "hidden"], "dtype": "float32"}
    return definition(inputs={"x": square, "scale": scale, "shift": shift}, outputs={"y": square}, reference=reference)


SCALED_RIGHT = "def run(x, scale, shift):\n    return x.mul(scale).add_(shift)\n"
"""Multiplies by the number that it is given."""
SCALED_WRONG = "def run(x, scale, shift):\n    return x * (x.abs().max() / 3) + shift\n"
"""Has another number."""


def lines(rows: Sequence[Any]) -> str:
    """JSON, a line each."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def sol(folder: Path, written: Mapping[str, Any] | None = None, workloads: Sequence[Any] = tuple(WORKLOADS)) -> Path:
    """The definition's file of a problem as SOL-ExecBench lays it out, beside others that may follow."""
    place = folder / "L1" / "gated_norm_h32"
    place.mkdir(parents=True, exist_ok=True)
    (place / "definition.json").write_text(json.dumps(definition() if written is None else written))
    (place / "workload.jsonl").write_text(lines(workloads))
    safetensors(place / "blob" / "bias.safetensors", {"other": [0.0] * 7, "bias": [i / 7 - 3 for i in range(48)]})
    return place / "definition.json"


def flashinfer(folder: Path, written: Mapping[str, Any] | None = None) -> Path:
    """The definition's file of a data set as FlashInfer lays it out."""
    place = folder / "definitions" / "norm" / "gated_norm_h32.json"
    rows = folder / "workloads" / "norm" / "gated_norm_h32.jsonl"
    for path in (place, rows):
        path.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(for_flashinfer() if written is None else written))
    taken = [
        workload("44444444-aaaa", 40),
        workload("55555555-bbbb", 24, bias={**STORED, "path": "./blob/workloads/bias.safetensors"}),
        workload("66666666-cccc", 8, eps={"type": "scalar", "value": 0.25}),
    ]
    for row in taken:
        row["axes"]["flat"] = row["axes"]["rows"] * 48
    traces = [{"definition": "gated_norm_h32", "workload": row, "solution": None, "evaluation": None} for row in taken]
    rows.write_text(lines(traces))
    safetensors(folder / "blob" / "workloads" / "bias.safetensors", {"bias": [i / 9 - 2 for i in range(48)]})
    return place


def written_to(folder: Path, answer: Mapping[str, Any], name: str = "solution.json") -> Path:
    """The file of a solution."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(json.dumps(answer))
    return path


def laid_out(folder: Path, definition: Path, answer: Mapping[str, Any]) -> Path:
    """The target of the two, as the command lays it out."""
    parts = trace.against(written_to(folder / "answers", answer), definition)
    assert not parts.problems, parts.problems
    place = folder / "made" / "answer"
    for name, data in parts.files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    return place
