"""The truth in fp64: every value times the scale of its block, then an ordinary matrix product."""

from torch import Tensor


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor) -> Tensor:
    # a [M, K], a_scale [ceil(K/128), M], b [N, K], b_scale [ceil(N/128), ceil(K/128)] -> [M, N]
    N, K = b.shape
    rows = a_scale.repeat_interleave(128, dim=0)[:K].t()  # [M, K]
    blocks = b_scale.repeat_interleave(128, dim=0)[:N].repeat_interleave(128, dim=1)[:, :K]  # [N, K]
    return (a * rows) @ (b * blocks).t()
