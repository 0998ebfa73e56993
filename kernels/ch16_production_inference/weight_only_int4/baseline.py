"""What a model without quantisation runs: fp16 weights, made from the packed ones once, and the library's product."""

from collections.abc import Callable

import torch.nn.functional as F
from packing import unpacked
from torch import Tensor


def prepare(x: Tensor, packed: Tensor, scales: Tensor) -> Callable[..., Tensor]:
    weight = unpacked(packed, scales)  # [N, K] fp16: four times the memory of the packed form
    return lambda x, *_: F.linear(x, weight)


def run(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    return prepare(x, packed, scales)(x)
