"""The block through torch.compile, which sees forward and backward and chooses itself what to keep."""

from collections.abc import Callable

import torch
from stack import Results, block, train


def prepare(x: torch.Tensor, target: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> Callable[..., Results]:
    compiled = torch.compile(block, fullgraph=True, dynamic=False)

    def step(x: torch.Tensor, target: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> Results:
        return train(lambda _, h, a, b: compiled(h, a, b), x, target, w1, w2)

    step(x, target, w1, w2)  # compiles forward and backward now
    return step


def run(x: torch.Tensor, target: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> Results:
    return prepare(x, target, w1, w2)(x, target, w1, w2)
