"""Room for prompt and new tokens, allocated once."""

import torch


def allocate(past: torch.Tensor, new: int) -> torch.Tensor:
    """A zeroed buffer [Y, B, A, P + new, E] for the cache whose prompt part is `past` [Y, B, A, P, E]."""
    layers, batch, heads, prompt, width = past.shape
    return past.new_zeros(layers, batch, heads, prompt + new, width)
