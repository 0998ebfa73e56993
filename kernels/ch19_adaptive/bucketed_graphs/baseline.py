"""Eager, each request at its own length: no padding, and every kernel of every layer launched by the host."""

import torch
from encoder import encode
from torch import Tensor


def run(x: Tensor, lengths: Tensor, wqkv: Tensor, wo: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    y = torch.empty(x.shape[0], x.shape[2], dtype=x.dtype, device=x.device)
    for request, n in enumerate(lengths.tolist()):  # lengths are on the host: nothing waits
        y[request] = encode(x[request, :n], wqkv, wo, w1, w2)
    return y
