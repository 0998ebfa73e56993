"""A mapping whose pages are made by one request, and written in full."""

import mmap

import torch


def run(column: torch.Tensor, value: torch.Tensor, width: torch.Tensor) -> torch.Tensor:
    shape = (len(column), len(width))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    memory = mmap.mmap(-1, 4 * shape[0] * shape[1], flags=flags)
    sheet = torch.frombuffer(memory, dtype=torch.float32).view(shape)
    sheet.zero_()
    return sheet.scatter_(1, column[:, None], (value * width[column])[:, None])
