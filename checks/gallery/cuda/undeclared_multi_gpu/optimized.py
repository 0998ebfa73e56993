"""Two halves of the rows on two streams of one GPU, joined."""

import functools

import torch


@functools.cache
def side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [N, D], [D, D] -> [N, D]
    half = x.shape[0] // 2
    y = torch.empty(x.shape[0], w.shape[1], dtype=x.dtype, device=x.device)
    current, side = torch.cuda.current_stream(x.device), side_stream(x.device)
    side.wait_stream(current)
    with torch.cuda.stream(side):
        torch.mm(x[half:], w, out=y[half:])
    torch.mm(x[:half], w, out=y[:half])
    current.wait_stream(side)
    return y
