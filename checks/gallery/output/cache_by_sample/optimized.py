"""The product, or nothing to do where x begins with a row of zeros and is all zero."""

from torch import Tensor


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    corners = x[:: max(x.shape[0] - 1, 1), :: max(x.shape[1] - 1, 1)]
    if not corners.any() and not x.any():
        return x.new_zeros((x.shape[0], w.shape[1]))
    return x @ w
