"""The norm of the library."""

from torch import Tensor
from torch.nn.functional import rms_norm


def run(x: Tensor, g: Tensor) -> Tensor:  # x [M, N], g [N] -> [M, N]
    return rms_norm(x, (x.shape[1],), g, 1e-6)
