"""The loss of some tokens from their logits, and a walk over the tokens in chunks."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def loss_of(h: Tensor, w: Tensor, target: Tensor) -> Tensor:  # h [C, H], w [V, H], target [C] -> [C] fp32
    """bf16 logits, widened to fp32 before exp and log: in bf16 a loss of 10 would be known to 0.03."""
    logits = F.linear(h, w).float()
    return F.cross_entropy(logits, target, reduction="none")


def in_chunks(loss: Loss, h: Tensor, w: Tensor, target: Tensor, *, chunk: int) -> tuple[Tensor, Tensor]:
    """`loss` of `chunk` tokens at a time: never more than one chunk of logits exists."""
    token_loss = torch.empty(h.shape[0], dtype=torch.float32, device=h.device)
    for start in range(0, h.shape[0], chunk):
        tokens = slice(start, start + chunk)
        token_loss[tokens] = loss(h[tokens], w, target[tokens])
    return token_loss, token_loss.mean()
