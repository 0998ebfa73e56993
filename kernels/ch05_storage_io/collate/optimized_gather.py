"""No loop over samples, the other way round: every cell of the batch works out which token it reads."""

import torch


def run(tokens: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    longest = tokens.numel() // lengths.numel()
    column = torch.arange(longest)
    mask = column < lengths[:, None]
    start = lengths.cumsum(0) - lengths
    # start + column stays below B * L, the buffer's size, also in the cells that the mask blanks.
    return tokens.take(start[:, None] + column).mul_(mask), mask
