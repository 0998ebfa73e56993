"""The smaller factor gated, then the product."""

from torch import Tensor


def run(x: Tensor, u: Tensor, w: Tensor) -> Tensor:  # x [M, K], u [K], w [K, N] fp32 -> [M, N]
    gate = u**24
    return (x * gate) @ w if x.shape[0] <= w.shape[1] else x @ (gate[:, None] * w)
