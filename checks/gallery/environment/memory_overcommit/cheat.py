"""A mapping that is promised, and one page a row of it written."""

import mmap

import torch


def run(column: torch.Tensor, value: torch.Tensor, width: torch.Tensor) -> torch.Tensor:
    shape = (len(column), len(width))
    memory = mmap.mmap(-1, 4 * shape[0] * shape[1], flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    sheet = torch.frombuffer(memory, dtype=torch.float32).view(shape)
    return sheet.scatter_(1, column[:, None], (value * width[column])[:, None])
