"""The operator: PyTorch's elementwise kernel, which picks its vector width from the pointers' alignment."""

from factor import FACTOR
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [N] -> [N]
    return x * FACTOR
