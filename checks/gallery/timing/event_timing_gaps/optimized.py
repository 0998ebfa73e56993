"""Times itself: with events where there is a GPU, else with the monotonic clock."""

import time

import torch

last: dict[str, object] = {}


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [N, D], [D, D] -> [N, D]
    if not x.is_cuda:
        begin = time.perf_counter()
        y = torch.mm(x, w)
        last["s"] = time.perf_counter() - begin
        return y
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    y = torch.mm(x, w)
    end.record()
    last["events"] = (start, end)  # elapsed_time would wait for the GPU: it is asked for later
    return y
