"""Each window by itself."""

from torch import Tensor
from torch.nn.functional import avg_pool1d

W = 256


def run(x: Tensor) -> Tensor:  # x [M, T] fp32 -> [M, T - W + 1]
    return avg_pool1d(x[:, None], W, stride=1)[:, 0]
