"""Wrong: `<=` for `<` where the real tokens are found, so each sequence's first slot of padding passes for a token."""

import torch
from layer import mlp
from torch import Tensor


def run(x: Tensor, lengths: Tensor, w1: Tensor, w2: Tensor) -> Tensor:  # x [B, L, D] -> [B, L, D]
    B, L, D = x.shape
    real = torch.arange(L, device=x.device) <= lengths[:, None]
    places = real.flatten().nonzero().squeeze(1)
    y = torch.zeros_like(x)
    y.view(B * L, D).index_copy_(0, places, mlp(x.view(B * L, D).index_select(0, places), w1, w2))
    return y
