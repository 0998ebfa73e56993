"""Six operators over the whole tensor, one after the other: each sends all of it through memory."""

import torch
from chain import horner_into
from torch import Tensor


def run(x: Tensor) -> Tensor:  # [N] -> [N]
    return horner_into(torch.empty_like(x), x)
