"""The product on a side stream, or in a thread where there is no GPU, joined before the call returns."""

import functools
import threading

import torch


@functools.cache
def side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [N, D], [D, D] -> [N, D]
    y = torch.empty(x.shape[0], w.shape[1], dtype=x.dtype, device=x.device)
    if x.is_cuda:
        current, side = torch.cuda.current_stream(x.device), side_stream(x.device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            torch.mm(x, w, out=y)
        current.wait_stream(side)
    else:
        thread = threading.Thread(target=lambda: torch.mm(x, w, out=y))
        thread.start()
        thread.join()
    return y
