"""Keeps the weights packed, and widens all of them in every call: what saves memory first costs time."""

import torch.nn.functional as F
from packing import unpacked
from torch import Tensor


def run(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    return F.linear(x, unpacked(packed, scales))
