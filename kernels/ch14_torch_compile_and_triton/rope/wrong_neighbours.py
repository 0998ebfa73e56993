"""Wrong: turns neighbours (0, 1), (2, 3), ... where the model's weights expect (0, D/2), (1, D/2 + 1), ...

Both conventions exist, and checkpoints do not say which they mean. Every pair keeps its length, so norms, means and
spreads look right, and a model goes on writing sentences.
"""

import torch
from torch import Tensor


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    even, odd = x[..., 0::2].float(), x[..., 1::2].float()
    c, s = cos[:, None].float(), sin[:, None].float()
    return torch.stack((even * c - odd * s, odd * c + even * s), dim=-1).flatten(-2).to(x.dtype)


def run(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return turned(q, cos, sin), turned(k, cos, sin)
