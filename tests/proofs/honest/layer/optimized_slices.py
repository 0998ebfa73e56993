"""The output is a slice of a larger block, which begins at a multiple of 4096."""

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    count = x.shape[0] * w.shape[1]
    block = torch.empty(count + 1024, dtype=x.dtype, device=x.device)
    first = -(block.data_ptr() // 4) % 1024
    y = block[first : first + count].view(x.shape[0], w.shape[1])
    return torch.addmm(b, x, w, out=y).relu_()
