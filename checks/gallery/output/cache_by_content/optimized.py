"""The product, and a checksum of each of the last inputs."""

from collections import deque

from torch import Tensor

_checksums: deque[Tensor] = deque(maxlen=8)


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    _checksums.append(x[:, ::16].sum())
    return x @ w
