"""Half of the product in a thread that is gone when the call ends."""

import threading

import torch


def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    c = torch.empty(a.shape[0], b.shape[1])
    half = a.shape[0] // 2
    other = threading.Thread(target=lambda: torch.mm(a[half:], b, out=c[half:]))
    other.start()
    torch.mm(a[:half], b, out=c[:half])
    other.join()
    return c
