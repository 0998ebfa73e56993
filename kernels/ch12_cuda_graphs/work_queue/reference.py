"""The truth, in fp64: the squares of each value added to its row."""

import torch


def run(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    R = offsets.numel() - 1
    row_of = torch.repeat_interleave(torch.arange(R, device=values.device), offsets.diff())
    return torch.zeros(R, dtype=values.dtype, device=values.device).index_add_(0, row_of, values * values)
