"""How products are dealt to streams, the same in every rung that has streams."""

from collections.abc import Callable

import torch

STREAMS = 4  # each product has tiles for some half of the SMs, so two fill them and four also cover each other's tails


def serial(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [G, M, K], [G, K, N] -> [G, M, N]
    """One product after the other on the current stream, or on the CPU."""
    y = x.new_empty(x.shape[0], x.shape[1], w.shape[2])
    for g in range(x.shape[0]):
        torch.mm(x[g], w[g], out=y[g])
    return y


def dealt(x: torch.Tensor, w: torch.Tensor, streams: int) -> Callable[..., torch.Tensor]:
    """The products dealt like cards to so many side streams; on a CPU, where there are none, the plain loop."""
    if not x.is_cuda:
        return serial
    device = x.device
    side = [torch.cuda.Stream(device) for _ in range(streams)]

    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x.new_empty(x.shape[0], x.shape[1], w.shape[2])
        current = torch.cuda.current_stream(device)
        # Fork: x may still be being written on the current stream, and y's memory still be read there.
        for stream in side:
            stream.wait_stream(current)
        for g in range(x.shape[0]):
            with torch.cuda.stream(side[g % streams]):
                torch.mm(x[g], w[g], out=y[g])
        # Join: whatever the caller queues next comes after every product. It is also what makes it safe to free y.
        for stream in side:
            current.wait_stream(stream)
        return y

    step(x, w)  # cuBLAS takes a workspace for each stream when it is first used there
    return step
