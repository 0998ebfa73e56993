"""A pool's thread does the product, and the call waits for it."""

from concurrent.futures import ThreadPoolExecutor

import torch

pool = ThreadPoolExecutor(1)


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [N, D], [D, D] -> [N, D]
    return pool.submit(torch.mm, x, w).result()
