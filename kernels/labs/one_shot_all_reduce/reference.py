"""The truth, in fp64, in one process: every rank ends with the sum over the ranks, message by message."""

from torch import Tensor


def run(x: Tensor) -> Tensor:  # [2, C, N], all ranks' -> [2, C, N]
    return x.sum(0, keepdim=True).expand_as(x).contiguous()
