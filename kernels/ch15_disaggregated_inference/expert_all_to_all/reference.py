"""The truth, in fp64, in one process: each token by its own expert, wherever the two lie."""

import torch
from torch import Tensor


def run(x: Tensor, ids: Tensor, scales: Tensor) -> Tensor:  # [2, T, D], [2, T], [2, E, D] -> [2, T, D]
    experts = scales.flatten(0, 1)  # rank r owns experts r*E to (r+1)*E - 1
    return torch.nn.functional.silu(x * experts[ids])
