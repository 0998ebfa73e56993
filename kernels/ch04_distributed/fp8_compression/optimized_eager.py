"""fp8 on the link, with PyTorch's own operators around it: some twenty passes over memory."""

import torch
from eager import exchange
from torch import Tensor


def run(grads: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:  # this rank's [N] each, changed in place
    return exchange(grads, residual, torch.float8_e4m3fn)
