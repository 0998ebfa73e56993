"""Product, then tanh in place; the features of the last input are kept."""

from torch import Tensor

features: list[Tensor] = []


def run(x: Tensor, w: Tensor) -> Tensor:  # x [B, K], w [K, N] fp32 -> [B, N]
    features[:] = [x.view(16, -1).mean(1)]
    return (x @ w).tanh_()
