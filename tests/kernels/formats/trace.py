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


def doubling_in_cpp() -> dict[str, Any]:
    """An answer to it in C++, bound as FlashInfer binds it where nothing else is said."""
    written = solution_for_flashinfer(sources=[{"path": "k/fast.cpp", "content": FFI}])
    written["spec"] |= {"language": "cpp", "entry_point": "k/fast.cpp::fast", "destination_passing_style": True}
    return written


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
