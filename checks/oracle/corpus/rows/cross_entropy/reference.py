"""The truth: logits [M, V], labels int64 [M] -> loss [M], log(sum(exp(x - max))) - (x[label] - max) over the row.

The maximum is a constant to the gradient: what it adds in one term it takes away in the other.
"""

import torch
from torch import Tensor


def run(logits: Tensor, labels: Tensor) -> Tensor:
    shifted = logits - logits.detach().amax(dim=-1, keepdim=True)
    picked = shifted.gather(1, labels[:, None])[:, 0]
    return torch.log(torch.exp(shifted).sum(dim=-1)) - picked
