"""A task in robust-kbench's form, of our own writing, forward and backward, with answers that are right and wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FORWARD = '''\
import torch
import torch.nn as nn


def forward_fn(x: torch.Tensor, weight: torch.Tensor, scale: float) -> torch.Tensor:
    """Rows of x by the rows of weight, scaled, and what is below zero is left out."""
    return torch.relu(x @ weight.t()) * scale


class Model(nn.Module):
    """A scaled layer without a bias."""

    def __init__(self, features: int = 32, scale: float = 2.0, init_method: str = "normal"):
        super().__init__()
        weight = torch.empty(features, features)
        if init_method == "normal":
            nn.init.normal_(weight, std=0.1)
        else:
            nn.init.uniform_(weight, -0.1, 0.1)
        self.weight = nn.Parameter(weight)
        self.scale = scale

    def forward(self, x: torch.Tensor, fn=forward_fn) -> torch.Tensor:
        return fn(x, self.weight, self.scale)


def get_inputs(rows: int = 64, features: int = 32):
    return [torch.randn(rows, features)]


input_names = ["x"]
'''

BACKWARD = (
    FORWARD.replace("torch.randn(rows, features)", "torch.randn(rows, features, requires_grad=True)")
    + """

class AutogradFunction(torch.autograd.Function):
    backward_fn = None

    @staticmethod
    def forward(ctx, x, weight, scale):
        ctx.save_for_backward(x, weight)
        ctx.scale = scale
        return forward_fn(x, weight, scale)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad_x, grad_weight = AutogradFunction.backward_fn(grad_output, x, weight, ctx.scale)
        return grad_x, grad_weight, None
"""
)

CONFIG: dict[str, Any] = {
    "single_input_configs": [{"rows": 512}],
    "single_init_configs": [{"init_method": "normal"}],
    "single_shared_configs": [{"features": 64}],
    "multi_input_configs": [{"rows": 7}, {"rows": 64}],
    "multi_init_configs": [{"init_method": "normal"}, {"init_method": "uniform", "scale": -1.0}],
    "multi_shared_configs": [{"features": 16}, {"features": 33}],
}
CASES = 1 + 2 * 2 * 2

RIGHT = """\
import torch


def forward_fn(x, weight, scale):
    return torch.nn.functional.linear(x, weight).clamp_min(0) * scale
"""

WRONG = RIGHT.replace(" * scale", "").replace("clamp_min(0)", "clamp_min(0) * 2.0")  # right of the timed case alone

GRADIENTS = """\
import torch


def backward_fn(grad_output, x, weight, scale):
    inner = grad_output * scale * (x @ weight.t() > 0)
    return inner @ weight, inner.t() @ x
"""

WITHOUT_RELU = GRADIENTS.replace(" * (x @ weight.t() > 0)", "")

CUDA = """\
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double scale) {
    return torch::relu(torch::matmul(x, weight.t())) * scale;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "forward");
}
"""


def task(folder: Path, name: str = "scaled_layer", config: object = CONFIG, **files: str) -> Path:
    """A task's folder below a checkout's `tasks`; files by name without `.py` replace its own."""
    place = folder / "tasks" / name
    place.mkdir(parents=True, exist_ok=True)
    for stem, text in {"func_forward": FORWARD, "func_backward": BACKWARD, **files}.items():
        (place / f"{stem}.py").write_text(text)
    for direction in ("forward", "backward"):
        said = config if isinstance(config, str) else json.dumps(config)
        (place / f"config_{direction}.json").write_text(said)
    return place


def answer(folder: Path, text: str, name: str = "answer.py") -> Path:
    """A candidate's file."""
    (folder / name).write_text(text)
    return folder / name
