"""The truth, in fp64, in one process: every rank ends with the mean over the ranks."""

from torch import Tensor


def run(grads: Tensor) -> Tensor:  # [2, T, N], all ranks' -> [2, T, N]
    return grads.mean(0, keepdim=True).expand_as(grads).contiguous()
