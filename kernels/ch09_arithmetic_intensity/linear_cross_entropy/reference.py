"""The truth, in fp64: per token, minus the logarithm of the probability of its target; and the mean over tokens."""

import torch
from torch import Tensor


def run(h: Tensor, w: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:  # h [T, H], w [V, H], target [T]
    logits = h @ w.t()
    chosen = logits.gather(1, target[:, None]).squeeze(1)
    token_loss = torch.logsumexp(logits, dim=1) - chosen
    return token_loss, token_loss.mean()
