"""Each direction has a stream of its own, which waits for the current one and is waited for."""

from collections.abc import Callable

import torch


def prepare(x: torch.Tensor) -> Callable[..., torch.Tensor]:
    on_device = torch.empty(x.shape, dtype=x.dtype, device="cuda")
    y = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
    copy_in, copy_out = torch.cuda.Stream(), torch.cuda.Stream()

    def step(x: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream()
        copy_in.wait_stream(current)
        with torch.cuda.stream(copy_in):
            on_device.copy_(x, non_blocking=True)
        current.wait_stream(copy_in)
        on_device.mul_(2)
        copy_out.wait_stream(current)
        with torch.cuda.stream(copy_out):
            y.copy_(on_device, non_blocking=True)
        current.wait_stream(copy_out)
        return y

    return step


def run(x: torch.Tensor) -> torch.Tensor:  # [N, D] on the host -> [N, D] on the host
    return prepare(x)(x)
