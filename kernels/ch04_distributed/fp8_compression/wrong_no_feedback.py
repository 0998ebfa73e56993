"""Wrong: each step rounds its gradients afresh and keeps nothing: what is too small is too small every time."""

import torch
from eager import exchange
from torch import Tensor


def run(grads: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:  # this rank's [N] each, changed in place
    exchange(grads, residual, torch.float8_e4m3fn)
    return grads, residual.zero_()
