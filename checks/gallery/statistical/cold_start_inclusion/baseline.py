"""A new mapping for every output, as for one that is handed to another process; its pages come one by one."""

import mmap

import torch


def run(x: torch.Tensor) -> torch.Tensor:
    memory = mmap.mmap(-1, x.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.add(x, 1, out=torch.frombuffer(memory, dtype=torch.float32))
