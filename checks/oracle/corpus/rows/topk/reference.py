"""The truth: x [M, N], k a whole number -> values [M, min(k, N)] in descending order, NaN first, and indices int64."""

from torch import Tensor


def run(x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    values, indices = x.sort(dim=-1, descending=True, stable=True)
    return values[:, : int(k)], indices[:, : int(k)]
