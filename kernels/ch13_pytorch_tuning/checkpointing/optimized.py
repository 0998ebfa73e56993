"""Every block checkpointed: its input is kept, and backward runs its forward a second time."""

import torch
from stack import Results, block, train
from torch.utils.checkpoint import checkpoint


def run(x: torch.Tensor, target: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> Results:
    # The block draws nothing at random, so there is no random state to save and restore.
    return train(
        lambda _, h, a, b: checkpoint(block, h, a, b, use_reentrant=False, preserve_rng_state=False), x, target, w1, w2
    )
