"""The product, inside of a mode that counts operators."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class _Counting(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    with _Counting():
        return x @ w
