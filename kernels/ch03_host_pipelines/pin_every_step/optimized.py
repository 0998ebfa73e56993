"""One page-locked buffer for all steps: the host copies into it with all its cores, the GPU reads from it."""

from collections.abc import Callable

import torch
from staging import Sent, host_buffer
from torch import Tensor


def prepare(x: Tensor, w: Tensor) -> Callable[..., Tensor]:
    device = w.device
    buffer = host_buffer(x, x.shape[0], device)
    sent = Sent(device)

    def step(x: Tensor, w: Tensor) -> Tensor:
        y = torch.empty(x.shape, dtype=x.dtype, device=device)
        sent.wait()
        buffer.copy_(x)
        y.copy_(buffer, non_blocking=True)
        sent.mark()
        return y.mul_(w)

    return step


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, N] in pageable host memory, w [N] -> [M, N]
    return prepare(x, w)(x, w)
