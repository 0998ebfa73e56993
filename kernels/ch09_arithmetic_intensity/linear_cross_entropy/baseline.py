"""All logits at once, as a model's last lines are mostly written: linear, float, cross_entropy."""

from chunks import loss_of
from torch import Tensor


def run(h: Tensor, w: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:  # h [T, H], w [V, H] bf16, target [T] int64
    token_loss = loss_of(h, w, target)
    return token_loss, token_loss.mean()
