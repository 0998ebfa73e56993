"""Half of the product in a thread that sleeps between calls."""

from concurrent.futures import ThreadPoolExecutor

import torch

_helper = ThreadPoolExecutor(1)


def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    c = torch.empty(a.shape[0], b.shape[1])
    half = a.shape[0] // 2
    other = _helper.submit(torch.mm, a[half:], b, out=c[half:])
    torch.mm(a[:half], b, out=c[:half])
    other.result()
    return c
