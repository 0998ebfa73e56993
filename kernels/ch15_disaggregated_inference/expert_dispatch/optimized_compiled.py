"""The grouped version through torch.compile: it fuses what lies between the products, and keeps them."""

import torch
from optimized import run as grouped
from torch import Tensor

compiled = torch.compile(grouped, dynamic=False)


def run(x: Tensor, ids: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    return compiled(x, ids, weights, gate_up, down)


def prepare(x: Tensor, ids: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor):
    compiled(x, ids, weights, gate_up, down)  # compiles for these shapes, before the clock starts
    return compiled
