"""PyTorch's product: cuBLAS, which has dispatched by shape for as long as it exists."""

from torch import Tensor


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [N, K] -> [M, N]
    return x @ w.t()
