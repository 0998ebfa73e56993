"""Wrong: G // STREAMS products for each stream, so those that do not divide by four are never computed.

The output starts as zeros: what is never written must not look right because the memory held an earlier answer.
"""

import torch
from dealing import STREAMS


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [G, M, K], [G, K, N] -> [G, M, N]
    y = x.new_zeros(x.shape[0], x.shape[1], w.shape[2])
    each = x.shape[0] // STREAMS
    for number in range(STREAMS):
        for g in range(number * each, (number + 1) * each):
            torch.mm(x[g], w[g], out=y[g])
    return y
