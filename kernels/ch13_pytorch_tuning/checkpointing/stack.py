"""The block, the loss and the gradients that every rung computes; rungs differ in how a block is applied."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

Block = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
Results = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def block(h: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """One MLP with its skip path: h [B, D], w1 [D, F], w2 [F, D] -> [B, D]."""
    return h + F.gelu(h @ w1) @ w2


def loss_of(h: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Half the squared distance, summed over features and averaged over the batch: []."""
    return (h - target).square().sum() * (0.5 / h.shape[0])


def train(apply: Block, x: torch.Tensor, target: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> Results:
    """Forward and backward: loss [], gradients of x [B, D], of w1 [L, D, F] and of w2 [L, F, D].

    Args:
        apply: the block as the rung runs it, given its number, h and its two weights.
    """
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        # Each block's weights are leaves of their own: the gradient of a slice of w1 would be as large as w1.
        firsts = [w.detach().requires_grad_() for w in w1.unbind()]
        seconds = [w.detach().requires_grad_() for w in w2.unbind()]
        h = leaf
        for number, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
            h = apply(number, h, first, second)
        loss = loss_of(h, target)
        del h  # else it would live until the end of backward
        dx, *dw = torch.autograd.grad(loss, [leaf, *firsts, *seconds])
    dw1 = torch.stack(dw[: len(firsts)])
    del dw[: len(firsts)]
    return loss.detach(), dx, dw1, torch.stack(dw)
