"""Notes its own time in whole milliseconds."""

import time

import torch

last: dict[str, int] = {}


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [N, D], [D, D] -> [N, D]
    begin = time.perf_counter()
    y = torch.mm(x, w)
    last["ms"] = round((time.perf_counter() - begin) * 1e3)
    return y
