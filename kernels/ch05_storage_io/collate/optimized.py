"""No loop over samples: the mask says where tokens go, and one call pours the flat buffer into it."""

import torch


def run(tokens: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    longest = tokens.numel() // lengths.numel()
    mask = torch.arange(longest) < lengths[:, None]
    batch = tokens.new_zeros(mask.shape)
    return batch.masked_scatter_(mask, tokens), mask
