"""Wrong: copies where it should add. Right for the first micro-batch of a step, when the accumulator is zero."""

import torch
from torch import Tensor


def run(main_grad: Tensor, grads: Tensor) -> Tensor:  # [T, N], [T, N] -> main_grad [T, N]
    torch._foreach_copy_(list(main_grad.unbind()), list(grads.unbind()))
    return main_grad
