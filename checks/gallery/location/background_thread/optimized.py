"""Two threads sort a half each, and the call waits for both."""

from concurrent.futures import ThreadPoolExecutor

import torch

_pool = ThreadPoolExecutor(2)


def run(x):  # x: [M, N]
    middle = x.shape[0] // 2
    halves = _pool.map(lambda part: torch.sort(part, dim=1).values, (x[:middle], x[middle:]))
    return torch.cat(list(halves))
