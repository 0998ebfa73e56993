"""Memory from an allocation of its own for each call, given back at once."""

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    between = x @ w
    y = torch.relu(between + b)
    del between
    if not torch.cuda.is_current_stream_capturing():
        torch.cuda.empty_cache()
    return y
