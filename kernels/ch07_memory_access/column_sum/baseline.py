"""One program per strip of 64 columns, which reads all of its rows: 16 programs for a GPU of 132 SMs."""

from strips import partial_sums
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] -> [N]
    return partial_sums(x, rows=x.shape[0])[0]
