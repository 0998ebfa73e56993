"""A new mapping for every output, whose pages are made by one request."""

import mmap

import torch


def run(x: torch.Tensor) -> torch.Tensor:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    return torch.add(x, 1, out=torch.frombuffer(mmap.mmap(-1, x.nbytes, flags=flags), dtype=torch.float32))
