"""All gradients in one flat buffer: one norm, one scaling, and no list to walk."""

import torch
from clipping import clip_flat_


def run(grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    norm = clip_flat_(grads)
    return grads, norm
