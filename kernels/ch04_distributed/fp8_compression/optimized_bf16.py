"""The same exchange with bf16 on the link."""

import torch
from fused import exchange
from torch import Tensor


def run(grads: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:  # this rank's [N] each, changed in place
    return exchange(grads, residual, torch.bfloat16)
