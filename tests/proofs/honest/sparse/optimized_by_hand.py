"""Values and places in prepare(), gathered and added by rows."""

from collections.abc import Callable

import torch
from torch import Tensor


def prepare(w: Tensor, x: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Where the static matrix is not zero, and what is there."""
    rows, columns = w.nonzero(as_tuple=True)
    values = w[rows, columns]

    def run(w: Tensor, x: Tensor) -> Tensor:
        return torch.zeros(w.shape[0], device=x.device).index_add_(0, rows, values * x[columns])

    return run
