"""Wrong: the declared shape by a reshape, which moves nothing. Each output row holds whole records of one eighth."""

from torch import Tensor


def run(x: Tensor) -> Tensor:  # [M, 8] -> [8, M]
    return x.reshape(x.shape[1], x.shape[0]).clone()
