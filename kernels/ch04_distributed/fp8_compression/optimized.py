"""fp8 on the link, three kernels around it: rounded with a scale for every 256, and what that took comes next time."""

import eager
import fused
import torch
from torch import Tensor


def run(grads: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:  # this rank's [N] each, changed in place
    exchange = fused.exchange if grads.is_cuda else eager.exchange  # Triton's interpreter does not round to the nearest
    return exchange(grads, residual, torch.float8_e4m3fn)
