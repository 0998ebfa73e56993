"""Wrong: the activation is on the other half.

One product [M, 2F] usually holds both halves, and checkpoints differ in which comes first. Shape, dtype, mean and
spread of the result are all as they should be.
"""

import torch.nn.functional as F
from torch import Tensor


def run(gate: Tensor, up: Tensor) -> Tensor:  # gate, up [M, F] bf16 -> [M, F] bf16
    return gate * F.silu(up)
