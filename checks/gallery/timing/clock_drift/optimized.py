"""Notes when it was called last, by every clock there is."""

import time

import torch

last: dict[str, float] = {}


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [N, D], [D, D] -> [N, D]
    last.update(wall=time.time(), monotonic=time.monotonic(), cpu=time.process_time(), counter=time.perf_counter())
    return torch.mm(x, w)
