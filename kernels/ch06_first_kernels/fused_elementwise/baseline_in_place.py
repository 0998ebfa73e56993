"""The same three kernels with the last two in place: one intermediate less, not one byte less traffic."""

from torch import Tensor


def run(x: Tensor, b: Tensor, g: Tensor) -> Tensor:  # all [M, N]
    return (x - b).mul_(g).add_(b)
