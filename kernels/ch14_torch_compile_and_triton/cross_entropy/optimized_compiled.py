"""The widening version through torch.compile: no matrix is written any more."""

import torch
from baseline_upcast import run as upcast
from torch import Tensor

compiled = torch.compile(upcast, dynamic=False)


def run(logits: Tensor, labels: Tensor, trained: Tensor) -> Tensor:
    return compiled(logits, labels, trained)


def prepare(logits: Tensor, labels: Tensor, trained: Tensor):
    compiled(logits, labels, trained)  # compiles for this shape, before the clock starts
    return compiled
