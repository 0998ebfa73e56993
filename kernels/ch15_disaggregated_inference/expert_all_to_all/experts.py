"""What all rungs share: an expert as a stand-in for its two products, and where tokens go."""

import torch
from torch import Tensor


def expert(x: Tensor, local: Tensor, scales: Tensor) -> Tensor:  # [R, D], [R], this rank's [E, D] -> [R, D]
    return torch.nn.functional.silu(x * scales[local])


def places(dest: Tensor, ranks: int, capacity: int) -> Tensor:  # [T] -> [T], each token's slot in [ranks * capacity]
    before = torch.nn.functional.one_hot(dest, ranks).cumsum(0)  # tokens up to and with this one, by rank
    return dest * capacity + before.gather(1, dest[:, None])[:, 0] - 1
